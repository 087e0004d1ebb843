/**
 * Interpreters and the calls they receive, and the inference of ops for calls that do not run.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { DisposedError, tensor } from "../../mod.ts";
import { performCall } from "../../src/core/dispatch.ts";
import { interpret, type Interpreter } from "../../src/core/interpreter.ts";
import { Call, type Input, OPS, type OutputSpec } from "../../src/table/op.ts";
import { loose } from "../support.ts";

const matrix = () => loose(tensor([[1, 2, 3], [4, 5, 6]]));

test("an interpreter may put other tensors in the place of the inputs", () => {
  const x = matrix();
  const i = tensor([1, 0], { dtype: "int32" });
  const m = tensor([[true, false, true], [false, true, false]]);
  const others = new Map<unknown, Input>([[i, tensor([0, 0], { dtype: "int32" })], [x, x.neg()]]);
  const replacing: Interpreter = {
    run(call) {
      call.inputs = call.inputs.map((input) => others.get(input) ?? input);
      performCall(call);
    },
    read() {},
  };
  interpret(replacing, () => {
    assertEquals(x.slice(i).toArray(), [[-1, -2, -3], [-1, -2, -3]]);
    assertEquals(x.slice(":", i).toArray(), [[-1, -1], [-4, -4]]);
    assertEquals(x.slice(m).toArray(), [-1, -3, -5]);
    assertEquals(x.add(1).toArray(), [[0, -1, -2], [-3, -4, -5]]);
  });
});

test("what ops infer is what they give", () => {
  const [x, v] = [matrix(), tensor([1, 2, 3])];
  const inferred = (name: string, inputs: unknown[], attributes: object): unknown[] => {
    const specs = OPS.get(name)!.infer(new Call(OPS.get(name)!, name, inputs as never, attributes));
    const [{ shape, dtype }] = specs as [OutputSpec];
    return [[...shape], dtype.name];
  };
  assertEquals(inferred("reshape", [x.T], { shape: [6] }), [[6], "float32"]);
  assertEquals(inferred("tensor", [], { data: [[1, 2], [3, 4]] }), [[2, 2], "float32"]);
  assertEquals(inferred("tensor", [], { data: [1n, 2n], shape: [2, 1] }), [[2, 1], "int64"]);
  assertEquals(inferred("tensorOf", [v], { dtype: "int8" }), [[3], "int8"]);
  assertEquals(inferred("tensorOf", [v], { shape: [3, 1] }), [[3, 1], "float32"]);
  for (const [mask, given] of [[[true, false], "data-dependent"], [[0, 1, 1], [3, 3]]] as const) {
    const call = new Call(OPS.get("index")!, "slice", [x], { index: [mask] });
    const specs = call.op.infer(call);
    assertEquals(specs === "data-dependent" ? specs : specs[0]!.shape, given);
  }
  assertEquals(inferred("outer", [v, v], {}), [[3, 3], "float32"]);
  const range = { dtype: "int64", start: 0n, stop: 6n, step: 2n };
  assertEquals(inferred("arange", [], range), [[3], "int64"]);
  assertEquals(inferred("arange", [], { dtype: "float32", start: 0, stop: 1, step: 0.25 }), [
    [4],
    "float32",
  ]);
});

test("a view of a tensor that is gone is refused inside an interpreter too", () => {
  const [x, y] = [matrix(), matrix()];
  x.dispose();
  interpret({ run: performCall, read() {} }, () => {
    assertThrows(() => x.T, DisposedError, "disposed");
    assertThrows(() => x.reshape([6]), DisposedError, "Cannot reshape");
    assertEquals(y.T.shape, [3, 2]);
  });
});
