/**
 * Linear algebra against the results of NumPy and mpmath (scripts/golden/numerics/linalg.py).
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { describe, it } from "node:test";
import { ArgumentError, complex, linalg, ShapeError, tensor } from "../../mod.ts";
import { readText } from "../../scripts/tools.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { type Any, loose } from "../support.ts";
import { assertNear, largest, matrices } from "./support.ts";

const L: Any = linalg;
const CPU = BACKENDS.filter(({ name }) => name === "generated loops" || /native/.test(name));
const { cases, systems } = JSON.parse(readText("tests/golden/linalg/cases.json"));

interface Values {
  readonly shape: number[];
  readonly data?: (number | string)[];
  readonly re?: number[];
  readonly im?: number[];
}

/** The tensor of an array of the file. */
function read({ shape, data, re, im }: Values, dtype: string): Any {
  const make = (values: readonly unknown[]): Any =>
    loose(tensor(values.map(Number), { dtype: dtype as "float32" })).reshape(shape);
  return data === undefined ? loose(complex)(make(re!), make(im!)) : make(data);
}

/** Compares where both are finite, and that others are the same. */
function assertGolden(x: Any, expected: Values, dtype: string, times: number, about: string): void {
  if (expected.data?.some((one) => typeof one === "string")) {
    assertEquals(x.toArray(), read(expected, dtype).toArray(), about);
  } else assertNear(x, read(expected, dtype).astype(x.dtype), times, about);
}

for (const { name, on } of CPU) {
  describe(name, () => {
    for (const dtype of ["float32", "float64"]) {
      it(`${dtype}: determinants, norms, condition, rank and exponential`, () =>
        using(on, () => {
          for (const [i, one] of cases.entries()) {
            const a = read(one.a, dtype);
            const n = a.shape.at(-1)!;
            const about = `case ${i} [${a.shape}]`;
            const times = 40 * n * n;
            assertGolden(L.det(a), one.det, dtype, times, `det, ${about}`);
            const { sign, logabsdet } = L.slogdet(a);
            if (i < 12) {
              assertGolden(sign, one.sign, dtype, times, `sign, ${about}`);
              assertGolden(logabsdet, one.logabsdet, dtype, times, `logabsdet, ${about}`);
            }
            for (const ord of ["fro", "nuc", 1, -1, 2, -2, Infinity, -Infinity] as const) {
              const key = typeof ord === "number" && !Number.isFinite(ord)
                ? ord > 0 ? "inf" : "-inf"
                : String(ord);
              const norm = L.matrixNorm(a, { ord });
              assertGolden(norm, one[`norm ${key}`], dtype, times, `norm ${key}, ${about}`);
              // Rounding errors decide on the condition of singular matrices.
              if (one[`cond ${key}`] === undefined) continue;
              const cond = L.cond(a, { ord });
              const expected = read(one[`cond ${key}`], dtype);
              const error = cond.div(expected).sub(1).abs().max().item();
              const limit = times * (dtype === "float32" ? 2e-6 : 1e-14);
              assert(error <= limit, `cond ${key}, ${about}: ${error}`);
            }
            const ranks = [L.matrixRank(a).toArray()].flat().map(Number);
            assertEquals(ranks, one.rank.data, `rank, ${about}`);
            assertGolden(L.expm(a), one.expm, dtype, times, `expm, ${about}`);
          }
        }));

      it(`${dtype}: lstsq and pinv`, () =>
        using(on, () => {
          for (const [i, one] of systems.entries()) {
            const [a, b] = [read(one.a, dtype), read(one.b, dtype)];
            const about = `system ${i} [${a.shape}]`;
            const { x, residuals, rank, s } = L.lstsq(a, b, { rtol: 1e-4 });
            const times = 2000;
            assertEquals(Number(rank.item()), one.rank, about);
            assertGolden(x, one.x, dtype, times, `x, ${about}`);
            assertGolden(s, one.s, dtype, times, `s, ${about}`);
            assertGolden(residuals, one.residuals, dtype, times, `residuals, ${about}`);
            assertGolden(L.pinv(a, { rtol: 1e-4 }), one.pinv, dtype, times, `pinv, ${about}`);
          }
        }));
    }
  });
}

it("pinv of Hermitian matrices, by eigenvalues", () => {
  const a = tensor([[2, 1], [1, 2]], { dtype: "float64" });
  assertNear(L.pinv(a, { hermitian: true }), L.inv(a), 10, "pinv");
  const low = tensor([[1, 1], [1, 1]], { dtype: "float64" });
  assertNear(L.pinv(low, { hermitian: true }), L.pinv(low), 10, "singular");
});

describe("rtol as a tensor: one for each matrix", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        const one = [[3, 0, 0], [0, 1, 0], [0, 0, 0.1]];
        for (const dtype of ["float32", "float64", "complex128"] as const) {
          const a: Any = loose(tensor)([[one, one], [one, one]], { dtype });
          const rtol = loose(tensor)([0.01, 0.5], { dtype: "float64" });
          const ranks = (limit: Any): Any =>
            L.matrixRank(a, { rtol: limit }).astype("int32").toArray();
          assertEquals(ranks(rtol), [[3, 1], [3, 1]]);
          assertEquals(ranks(rtol.expandDims(1)), [[3, 3], [1, 1]]);
          assertEquals(ranks(tensor(0.1)), [[2, 2], [2, 2]]);
          for (const hermitian of [false, true]) {
            const all = L.pinv(a, { rtol, hermitian });
            for (const [k, limit] of [0.01, 0.5].entries()) {
              const alone = L.pinv(a.slice(`0, ${k}`), { rtol: limit, hermitian });
              assertNear(all.slice(`1, ${k}`), alone, 4, `pinv ${dtype} ${limit}`);
            }
            for (const bad of [-1, NaN, "1", null]) {
              assertThrows(
                () => L.pinv(a, { rtol: bad, hermitian }),
                ArgumentError,
                "pinv() needs a number of at least 0 as rtol",
              );
            }
            assertThrows(
              () => L.pinv(a, { rtol: tensor([1, 2, 3]), hermitian }),
              ShapeError,
              "Cannot pinv shape [2, 2, 3, 3] with rtol of shape [3]",
            );
          }
          const b: Any = loose(tensor)([1, 1, 1], { dtype });
          assertEquals(L.lstsq(a.slice(0), b, { rtol }).rank.astype("int32").toArray(), [3, 1]);
          assertThrows(() => L.matrixRank(a.slice("0, 0"), { rtol }), ShapeError, "matrixRank");
        }
      }));
  }
});

describe("lstsq and pinv of floats are those of doubles, rounded", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (
          const [dtype, wide] of [["float32", "float64"], ["complex64", "complex128"]] as const
        ) {
          for (const [m, n] of [[3, 3], [20, 9], [9, 20], [60, 60]]) {
            const a = matrices([m!, n!], dtype), b = matrices([m!, 2], dtype, 3);
            const about = `${dtype} [${m}, ${n}]`;
            const near = (x: Any, y: Any, what: string): void => {
              assertEquals(x.dtype, y.dtype.includes("complex") ? dtype : "float32");
              const error = largest(x.astype(y.dtype).sub(y)) / largest(y);
              assert(error <= 2 ** -23, `${about}: ${what} ${error}`);
            };
            const [p, q] = [a.astype(wide), b.astype(wide)];
            near(L.pinv(a), L.pinv(p), "pinv");
            const [mine, theirs] = [L.lstsq(a, b), L.lstsq(p, q)];
            near(mine.x, theirs.x, "x");
            near(mine.s, theirs.s, "s");
          }
        }
      }));
  }
});

describe("solutions near the largest number, whose length is beyond it", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const [dtype, tiny] of [["float32", 2 ** -126], ["float64", 2 ** -1022]] as const) {
          const a: Any = loose(tensor)([[2, 1, 0], [1, 3, 1], [0, 1, 4], [1, 1, 1]], { dtype });
          // From 2.4 to 3.6 times 2 ** 126: its length is beyond the numbers.
          const want: Any = loose(tensor)([2.4, -3.6, 3], { dtype });
          const b = a.mul(tiny).matmul(want.div(tiny));
          const { x, rank, residuals } = L.lstsq(a.mul(tiny), b);
          assertNear(x.mul(tiny), want, dtype === "float32" ? 8 : 40, dtype);
          assertEquals([Number(rank.item()), residuals.item() < 1e-10], [3, true]);
          // Right sides near the largest number.
          const large = L.lstsq(a.slice("0:3"), tensor([1, 1, 1], { dtype }).div(tiny).mul(3.9));
          assertNear(
            large.x.mul(tiny),
            L.solve(a.slice("0:3"), tensor([3.9, 3.9, 3.9], { dtype })),
            40,
            dtype,
          );
        }
      }));
  }
});
