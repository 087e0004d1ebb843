/**
 * The loops of the js backend, generated and interpreted, beyond what the table of ops reaches.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { JsBackend } from "../../src/backend/js/backend.ts";
import { DTYPE } from "../../src/base/dtype.ts";
import { Layout } from "../../src/base/layout.ts";
import { planMap } from "../../src/base/plan.ts";
import { wrapExternal } from "../../src/memory/pool.ts";
import { Storage } from "../../src/memory/storage.ts";
import { MAP } from "../../src/table/table.ts";
import { BackendCalls } from "../calls.ts";

test("positions beyond 2^31 are not cut, after a small plan of the same form too", () => {
  const backend = new BackendCalls(new JsBackend(true), new JsBackend(true));
  const info = DTYPE.float32;
  // Each element equals its position.
  const echo = new Proxy({}, { get: (_, key) => Number(key) });
  const walk = (offset: number, stride: number): [string, unknown][] => {
    const found: Record<string, unknown> = {};
    const layout = new Layout([2], [stride], offset);
    const plan = planMap(layout, layout, null, null);
    const out = new Storage(found as never, info, true, false);
    const source = new Storage(echo as never, info, true, false);
    backend.map(MAP.copy, "float32", plan, out, source, null, null);
    return Object.entries(found);
  };
  assertEquals(walk(5, 3), [["5", 5], ["8", 8]]);
  const far = 2 ** 33;
  assertEquals(walk(far, 3), [[`${far}`, far], [`${far + 3}`, far + 3]]);
});

test("numbers are added at places by the interpreter as by generated loops", () => {
  const block = Layout.contiguous([2]);
  const indices = wrapExternal("int32", Int32Array.of(1, -1, 1));
  const picks = { indices, offset: 0, count: 3, size: 3, stride: 2 };
  for (const generate of [true, false]) {
    const target = wrapExternal("float64", Float64Array.of(1, 2, 3, 4, 5, 6));
    const values = wrapExternal("float64", Float64Array.of(10, 20, 30, 40, 50, 60));
    const plan = planMap(block, block, null, null);
    const backend = new BackendCalls(new JsBackend(generate), new JsBackend(generate));
    assertEquals(backend.scatter(plan, target, values, picks, 2, true), -1);
    assertEquals([...target.array], [1, 2, 63, 84, 35, 46], `generate: ${generate}`);
  }
});
