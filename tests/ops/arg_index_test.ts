/**
 * The first and the last largest and smallest elements along an axis, on all backends and compiled.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { ones, ShapeError, tensor, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { argIndex } from "../../src/ops/reduce/arg_index.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { BACKENDS, using } from "./table/backends.ts";

for (const { name, on } of BACKENDS) {
  test(`the first and the last of equal elements, ${name}`, () =>
    using(on, () => {
      const device = loose(typeof on === "string" ? on : "cpu");
      const x = loose(tensor([[3, 1, 3, 1], [2, 2, 0, 0], [1, NaN, NaN, 2]])).to(device);
      const find = (axis: number, options: Any): Any => {
        const made: Any = argIndex("argIndex", x, axis, options);
        assertEquals(made.dtype, "int64");
        const program = compile((x: Any): Any => argIndex("argIndex", x, axis, options));
        assertEquals((program(x) as Any).toArray(), made.toArray());
        program.dispose();
        return made.toArray();
      };
      assertEquals(find(1, {}), [0, 0, 1]);
      assertEquals(find(1, { last: true }), [2, 1, 2]);
      assertEquals(find(-1, { largest: false, last: true, keepDims: true }), [[3], [3], [2]]);
      assertEquals(find(0, { largest: false }), [2, 2, 2, 1]);
      assertEquals(find(0, { last: true }), [0, 2, 2, 2]);
    }));
}

test("an axis without elements is refused", () => {
  const x = zeros([2, 0]);
  assertRefused(() => argIndex("argIndex", x, 1), ShapeError, ["[2, 0]"], ones([1]));
});
