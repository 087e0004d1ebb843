/**
 * `topk` against a model that sorts everything: every dtype, kernels with heaps, and the path that
 * sorts.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { describe, it } from "node:test";
import { ArgumentError, AxisError, ones, random, ShapeError, tensor } from "../../mod.ts";
import { DTYPE, type DType, DTYPES } from "../../src/base/dtype.ts";
import { loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";

type Value = number | bigint | boolean;

/**
 * The indices of the k best of a run: NaN is the largest number, and the first of equal elements
 * wins.
 */
function bestOf(run: readonly Value[], k: number, largest: boolean, sorted: boolean): number[] {
  const isNaNs = (x: Value): boolean => x !== x;
  const compare = (a: Value, b: Value): number =>
    isNaNs(a) || isNaNs(b) ? Number(isNaNs(a)) - Number(isNaNs(b)) : a < b ? -1 : a > b ? 1 : 0;
  const order = run.map((_, i) => i)
    .sort((i, j) => compare(run[i]!, run[j]!) * (largest ? -1 : 1) || i - j)
    .slice(0, k);
  return sorted ? order : order.sort((i, j) => i - j);
}

/** Values of every sort that a dtype has, many of them twice. */
function valuesOf(dtype: DType, n: number): Value[] {
  const { kind, wide, min, max } = DTYPE[dtype];
  const some: Value[] = kind === "f"
    ? [0, -0, 1.5, -2, NaN, Infinity, -Infinity, 100, -0.25, 3]
    : kind === "b"
    ? [false, true]
    : wide
    ? [BigInt(min), BigInt(max), 5n, 2n ** 40n + 1n, 2n ** 40n, 7n, BigInt(max) - 1n]
    : [Number(min), Number(max), 0, 1, 100, 3, Number(max) - 1];
  return Array.from({ length: n }, (_, i) => some[(i * 2654435761 >>> 7) % some.length]!);
}

describe("topk", () => {
  for (const dtype of DTYPES) {
    it(`${dtype}: the best k of short and long runs, in order and not`, () => {
      // The longest k are not kept in heaps.
      for (const [n, ks] of [[7, [0, 1, 3, 7]], [300, [1, 20, 64, 65, 300]]] as const) {
        const runs = [valuesOf(dtype, n), valuesOf(dtype, n + 3).slice(3)];
        const x = loose(tensor(runs as never, { dtype }));
        for (const k of ks) {
          for (
            const [largest, sorted] of [[true, true], [true, false], [false, true], [false, false]]
          ) {
            const expected = runs.map((run) => bestOf(run, k, largest!, sorted!));
            const values = expected.map((order, r) => order.map((i) => runs[r]![i]!));
            for (const { name, on } of BACKENDS) {
              if (typeof on === "string") continue;
              using(on, () => {
                const best = x.topk(k, -1, { largest, sorted });
                const about = `${name}: ${k} of ${n}, largest ${largest}, sorted ${sorted}`;
                assertEquals(best.indices.dtype, "int32");
                assertEquals(best.values.dtype, dtype);
                assertEquals(best.indices.toArray(), expected, about);
                assertEquals(best.values.toArray({ bigint: DTYPE[dtype].wide }), values, about);
              });
            }
          }
        }
      }
    });
  }

  it("any axis of any layout, and a vector of one element", () => {
    const x = random.normal(random.key(5), [3, 4, 5]);
    for (const y of [x, x.permute(2, 0, 1), x.flip(1), x.slice(":, ::2, 1:")]) {
      for (const axis of [0, 1, 2, -2]) {
        const order = y.argsort(axis as 0, { descending: true });
        const { values, indices } = y.topk(2, axis as 0);
        const first = (z: typeof order) => z.moveAxis(axis, 0).slice(":2").moveAxis(0, axis);
        assertEquals(indices.toArray(), first(order).toArray());
        assertEquals(values.toArray(), y.takeAlongAxis(indices, axis).toArray());
      }
    }
    assertEquals(ones([1]).topk(1).indices.toArray(), [0]);
    assertEquals([...ones([2, 0]).topk(0).values.shape], [2, 0]);
    assertEquals([...ones([0, 3]).topk(2).indices.shape], [0, 2]);
  });

  it("what it does not take is refused, by name", () => {
    const x = loose(ones([2, 3]));
    for (const k of [4, -1, 1.5, NaN, "1", undefined, null, 2n]) {
      assertThrows(() => x.topk(k), ArgumentError, "topk() needs");
    }
    const error = assertThrows(() => x.topk(3, 0), ArgumentError);
    assertEquals(
      error.message,
      "topk() needs an integer from 0 to 2 as k along axis 0 of shape [2, 3], got 3",
    );
    const long = loose(ones([1])).broadcastTo([2 ** 31]);
    assertThrows(() => long.topk(1), ShapeError, "int32 does not count");
    assertThrows(() => long.argsort(), ShapeError, "int32 does not count");
    assertThrows(() => x.topk(1, 2), AxisError, "Cannot topk along axis 2");
    assertThrows(() => x.topk(1, 0, { smallest: true }), TypeError, "smallest");
    assertThrows(() => loose(tensor(1)).topk(1), AxisError, "topk");
  });
});
