/**
 * Folds and scans of axes that need all threads of a block, several rounds, and several blocks,
 * unlike the short cases of the op table: on a CUDA device, compared with the CPU, with whole
 * numbers, whose sums do not depend on the order.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { tensor } from "../../../mod.ts";
import type { DType } from "../../../src/base/dtype.ts";
import { openCudaForTests, whyNoCuda } from "../support/device.ts";
import { loose } from "../../support.ts";

/** Shapes, and the axis along which they are long. */
const CASES: readonly (readonly [shape: readonly number[], axis: number])[] = [
  [[129], 0],
  [[5000], 0],
  [[100_000], 0],
  [[7, 257], 1],
  [[3, 2000], 1],
  [[2, 40_000], 1],
  [[2000, 3], 0],
  [[300, 130], 0],
  [[2, 700, 40], 1],
];
const DTYPES: readonly DType[] = ["int8", "float16", "float32", "int64"];
const FOLDS = ["sum", "max", "mean", "argmax", "argmin", "any"] as const;
const SCANS = ["cumulativeSum", "cumulativeProd"] as const;

const reason = whyNoCuda();
if (reason === undefined) openCudaForTests({ apart: true });
else console.log(`Long axes on CUDA are not tested: ${reason}`);
const check = reason === undefined ? test : test.skip;

for (const name of [...FOLDS, ...SCANS]) {
  check(`along long axes on CUDA: ${name}`, () => {
    for (const dtype of DTYPES) {
      for (const [shape, axis] of CASES) {
        const n = shape.reduce((product, size) => product * size, 1);
        // Sums stay small, and so do products, of 1 and -1.
        const value = (i: number): number => {
          const draw = (Math.imul(i + 1, 0x9e3779b1) >>> 8) % 16;
          return name === "cumulativeProd" ? (draw < 8 ? 1 : -1) : draw < 12 ? draw % 3 - 1 : 0;
        };
        const there = loose(tensor(loose(Array.from({ length: n }, (_, i) => value(i))), {
          dtype: loose("float64"),
        })).reshape(shape).astype(dtype);
        const views = [there, there.flip(axis), there.T];
        views.forEach((x, k) => {
          const along = k === 2 ? shape.length - 1 - axis : axis;
          const got = loose(
            k === 2 ? there.cuda().T : k === 1 ? there.cuda().flip(axis) : there.cuda(),
          )
            [name](along);
          const want = x[name](along);
          assertEquals(got.device, "cuda");
          const [actual, expected] = [got.cpu(), want].map((one) => one.reshape([-1]).toArray());
          const at = expected.findIndex((e: unknown, i: number) => !Object.is(e, actual[i]));
          assertEquals(actual.length, expected.length);
          if (at >= 0) {
            const where = `${dtype} [${shape}], axis ${axis}, view ${k}: element ${at}`;
            throw new Error(`${where} is ${actual[at]}, expected ${expected[at]}`);
          }
        });
      }
    }
  });
}
