/**
 * Sorting against a model: every dtype, short runs by insertion and long runs by radix sort.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { describe, it } from "node:test";
import { tensor } from "../../mod.ts";
import { DTYPE, DTYPES } from "../../src/base/dtype.ts";
import { loose } from "../support.ts";
import { BACKENDS, using } from "./table/backends.ts";

describe("sorting", () => {
  it("any axis, counted from either end", () => {
    const x = loose(tensor([[3, 1, 2], [0, 9, 1]]));
    for (const { on } of BACKENDS) {
      if (typeof on === "string") continue;
      using(on, () => {
        for (const axis of [0, -2]) {
          assertEquals(x.sort(axis).toArray(), [[0, 1, 1], [3, 9, 2]]);
          assertEquals(x.argsort(axis).toArray(), [[1, 0, 1], [0, 1, 0]]);
        }
        for (const axis of [1, -1]) {
          assertEquals(x.sort(axis).toArray(), [[1, 2, 3], [0, 1, 9]]);
          assertEquals(x.argsort(axis).toArray(), [[1, 2, 0], [0, 2, 1]]);
        }
      });
    }
  });

  // Numbers of every sort a dtype has, many of them twice.
  const valuesOf = (dtype: (typeof DTYPES)[number], n: number): (number | bigint)[] => {
    const { kind, wide, min, max } = DTYPE[dtype];
    const some = kind === "f"
      ? [0, -0, 1.5, -2, NaN, Infinity, -Infinity, 100, -0.25, 3]
      : kind === "b"
      ? [0, 1]
      : wide
      ? [min, max, 5n, 2n ** 40n + 1n, 2n ** 40n, 7n, BigInt(max) - 1n, BigInt(min) + 1n]
      : [min, max, 0, 1, 100, 3, Number(max) - 1, Number(min) + 1];
    const spread = (i: number): number => (i * 2654435761 >>> 7) % some.length;
    return Array.from({ length: n }, (_, i) => some[spread(i)]!);
  };
  const isNaNs = (x: number | bigint): boolean => x !== x;
  // Equal zeros keep their order too, which assertEquals does not check.
  const told = (x: unknown): unknown => Object.is(x, -0) ? "-0" : x;

  for (const dtype of DTYPES) {
    it(`${dtype}: short and long runs, up and down, NaN last, equal ones in order`, () => {
      for (const n of [7, 40, 300]) {
        for (const descending of [false, true]) {
          const runs = [valuesOf(dtype, n), valuesOf(dtype, n + 3).slice(3)];
          const { wide } = DTYPE[dtype];
          const flat = runs.flat().map((v) => wide ? BigInt(v) : dtype === "bool" ? v === 1 : v);
          const x = loose(tensor(flat as never, { dtype })).reshape([2, n]);
          const orders = runs.map((run) =>
            run.map((_, i) => i).sort((i, j) => {
              const [a, b] = [run[i]!, run[j]!];
              if (isNaNs(a) || isNaNs(b)) return Number(isNaNs(a)) - Number(isNaNs(b)) || i - j;
              return (a < b ? -1 : a > b ? 1 : 0) * (descending ? -1 : 1) || i - j;
            })
          );
          const expected = orders.flatMap((order, run) => order.map((i) => runs[run]![i]!));
          for (const { name, on } of BACKENDS) {
            if (typeof on === "string") continue;
            const [order, sorted] = using(on, () => [
              x.argsort(1, { descending }).toArray(),
              x.sort(1, { descending }).toArray(wide ? { bigint: true } : {}).flat(),
            ]);
            assertEquals(order, orders, `${name} ${n} ${descending}`);
            const plain = sorted.map((v: unknown) => v === true ? 1 : v === false ? 0 : v);
            assertEquals(plain.map(told), expected.map(told), `${name} ${n} ${descending}`);
          }
        }
      }
    });
  }
});
