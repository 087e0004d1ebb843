/**
 * Arrays, maps, errors and options of another realm, such as a context of node:vm.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import vm from "node:vm";
import * as rm from "../../mod.ts";
import { DTypeError, fromBuffer, tensor } from "../../mod.ts";
import { type Any, loose } from "../support.ts";

const ours: Any = rm;

test("typed arrays of another realm have their dtype, and share their memory", () => {
  const realm = vm.createContext({});
  for (const name of ["Float32Array", "Int8Array", "Uint8ClampedArray", "Float64Array"]) {
    const array = loose(vm.runInContext(`new ${name}([1, 2])`, realm));
    const own = loose(globalThis)[name].from([1, 2]);
    assertEquals(loose(tensor(array)).dtype, loose(tensor(own)).dtype);
    assertEquals(loose(tensor(array)).toArray(), [1, 2]);
    const x = loose(fromBuffer(array));
    assertEquals(x.toArray(), [1, 2]);
    x.set([0], 3);
    assertEquals(array[0], 3, "they share memory");
    const whole = loose(fromBuffer(array.buffer, { dtype: loose(tensor(own)).dtype }));
    assertEquals(whole.toArray(), [3, 2]);
  }
  const half = loose(vm.runInContext("new DataView(new ArrayBuffer(8))", realm));
  assertThrows(() => tensor(half), DTypeError);
  assertThrows(() => fromBuffer(half), DTypeError, "has no dtype");
});

test("maps, sets, errors, shared buffers, shapes and options of another realm are those", () => {
  const realm = vm.createContext({});
  const run = (code: string): Any => vm.runInContext(code, realm);
  const made = rm.scope(() => {
    const [map, set, plain] = [run("new Map()"), run("new Set()"), run("({})")];
    map.set("a", rm.tensor([1]));
    set.add(rm.tensor([2]));
    plain.list = run("[]");
    plain.list.push(rm.tensor([3]));
    return { map, set, plain };
  });
  const kept = [made.map.get("a"), ...made.set, made.plain.list[0]];
  assertEquals(kept.map((x) => x.item()), [1, 2, 3]);
  const { error } = rm.attempt(() => run('throw new TypeError("there")'));
  assertEquals([error?.name, error?.message], ["TypeError", "there"]);
  const shared = run("new Float32Array(new SharedArrayBuffer(8))");
  assertEquals(loose(rm.fromBuffer(shared)).ownership, "shared");
  assertEquals(loose(rm.fromBuffer(run("new Float32Array(2)"))).ownership, "owned");
  const x = ours.arange(6);
  assertEquals(x.reshape(run("[2, 3]")).sum(run("[0]")).toArray(), [3, 5, 7]);
  assertEquals(x.slice(run("[1, 2]")).toArray(), [1, 2]);
  assertEquals(x.sum(null, run("({ keepDims: true })")).shape, [1]);
  assertEquals(ours.tensor(run("[[1], [2]]")).shape, [2, 1]);
});
