/**
 * Linear algebra against the results of NumPy and mpmath (scripts/golden/numerics/linalg.py).
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { describe, it } from "node:test";
import { complex, linalg, tensor } from "../../mod.ts";
import { readText } from "../../scripts/tools.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { type Any, loose } from "../support.ts";
import { assertNear } from "./support.ts";

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
