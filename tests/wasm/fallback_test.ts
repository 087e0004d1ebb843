/**
 * When ops without the library open the WebAssembly module.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { linalg, ones, random, type Tensor } from "../../mod.ts";
import { FallbackBackend } from "../../src/backend/fallback.ts";
import { JsBackend } from "../../src/backend/js/backend.ts";
import { using } from "../ops/table/backends.ts";

/** How often calls open the other backend. */
function opens(run: (x: Tensor<"float32", [number, number]>) => void, size: number): number {
  const js = new JsBackend();
  let count = 0;
  const backend = new FallbackBackend("js", js, () => {
    count++;
    return js;
  });
  const x = random.uniform(random.key(1), [size, size]);
  using(backend, () => run(x));
  return count;
}

test("small calls open nothing until they have taken long together", () => {
  const add = (x: Tensor<"float32", [number, number]>, times: number): void => {
    for (let i = 0; i < times; i++) x.add(1).dispose();
  };
  assertEquals(opens((x) => add(x, 50), 100), 0);
  assertEquals(opens((x) => add(x, 1000), 100) > 0, true);
  assertEquals(opens((x) => void [x.T, x.reshape([-1]), x.sum(), ones([3]).exp()], 100), 0);
});

test("a call that takes long opens the module before it runs", () => {
  assertEquals(opens((x) => void linalg.svd(x), 64), 0);
  assertEquals(opens((x) => void linalg.svd(x), 200) > 0, true);
  assertEquals(opens((x) => void x.matmul(x), 64), 0);
  assertEquals(opens((x) => void x.matmul(x), 300) > 0, true);
  assertEquals(opens((x) => void x.exp(), 200), 0);
  assertEquals(opens((x) => void x.exp(), 1000) > 0, true);
  assertEquals(opens((x) => void x.reshape([-1]).sort(), 300) > 0, true);
});
