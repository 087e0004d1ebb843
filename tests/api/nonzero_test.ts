/**
 * `nonzero`: the places of the elements that are not 0, in row-major order.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { scalar, ShapeError, tensor, zeros } from "../../mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { assertRefused, loose } from "../support.ts";

test("nonzero looks at strided tensors in row-major order", () => {
  const x = loose(tensor([[1, 0, 2], [0, 3, 0]]));
  for (const { on } of BACKENDS) {
    if (typeof on === "string") continue;
    using(on, () => {
      const places = (y: typeof x): unknown => y.nonzero().map((axis: typeof x) => axis.toArray());
      assertEquals(places(x.T), [[0, 1, 2], [0, 1, 0]]);
      assertEquals(places(x.slice(":, ::-1")), [[0, 0, 1], [0, 2, 1]]);
      assertEquals(x.T.slice(x.T.greater(0)).toArray(), [1, 3, 2]);
    });
  }
});

test("nonzero gives the axes of rank 3 in order", () => {
  const x = zeros([2, 3, 4]);
  x.set([1, 2, 0], 1);
  x.set([0, 1, 3], 1);
  assertEquals(x.nonzero().map((axis) => axis.toArray()), [[0, 1], [1, 2], [3, 0]]);
});

test("nonzero takes -0 of every float for 0, and begins at the offset", () => {
  for (const dtype of ["float16", "bfloat16", "float32", "float64"] as const) {
    const [places] = tensor([-0, 0, 1, NaN], { dtype }).nonzero();
    assertEquals(places!.toArray(), [2, 3], dtype);
  }
  const [places] = tensor([1, 0, 2], { dtype: "int32" }).slice("1:").nonzero();
  assertEquals(places!.toArray(), [1]);
});

test("nonzero refuses rank 0", () => {
  assertRefused(() => loose(scalar(1)).nonzero(), ShapeError, "nonzero");
});
