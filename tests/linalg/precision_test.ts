/**
 * Errors of singular values and of eigenvalues: of floats, and of graded matrices and those of low
 * rank.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { describe, it } from "node:test";
import { arange, linalg, tensor } from "../../mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { type Any, loose } from "../support.ts";
import { adjoint, assertNear, assertOrthonormal, largest, matrices } from "./support.ts";

const L: Any = linalg;
const CPU = BACKENDS.filter(({ name }) => name === "generated loops" || /native/.test(name));

const dtypeOf = (isComplex: boolean): string => isComplex ? "complex128" : "float64";
/** 1 to 10 ** −digits. */
const grades = (n: number, digits: number): Any =>
  loose(tensor)(10, { dtype: "float64" }).pow(
    arange(n, { dtype: "float64" }).mul(-digits / (n - 1)),
  );

/** Matrices of n columns by name. */
function kinds(n: number, isComplex: boolean): Record<string, Any> {
  const random = (seed: number, m = n, k = n): Any => matrices([m, k], dtypeOf(isComplex), seed);
  const grade = grades(n, 14);
  return {
    random: random(1),
    tall: random(2, 3 * n),
    wide: random(3, n, 2 * n),
    "of half the rank": random(4, n, n >> 1).matmul(random(5, n >> 1, n)),
    "one below full rank": random(6, n, n - 1).matmul(random(7, n - 1, n)),
    "with graded columns": random(8).mul(grade),
    "with graded rows": random(9).mul(grade.expandDims(1)),
    graded: L.qr(random(10)).q.mul(grade).matmul(L.qr(random(11)).q),
  };
}

/** Throws unless x is y up to `times` epsilons of the largest element. */
function assertPart(x: Any, y: Any, times: number, about: string): void {
  assertNear(x.div(largest(y)), y.div(largest(y)), times, about);
}

describe("singular vectors and eigenvectors have errors of few epsilons", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const isComplex of [false, true]) {
          for (const n of [5, 20, 60]) {
            const times = 6 + n / 2;
            for (const [kind, a] of Object.entries(kinds(n, isComplex))) {
              const about = `${isComplex ? "complex" : "real"} ${kind}, ${n}`;
              const { u, s, vh } = L.svd(a, { fullMatrices: false });
              assertPart(u.mul(s).matmul(vh), a, times, `${about}: svd`);
              assertOrthonormal(u, 2 * times, `${about}: u`);
              assertOrthonormal(adjoint(vh), 2 * times, `${about}: v`);
              assertPart(L.svdvals(a), s, times, `${about}: svdvals`);
              if (a.shape[0] !== a.shape[1]) continue;
              const h = a.add(adjoint(a)), { eigenvalues, eigenvectors } = L.eigh(h);
              const back = eigenvectors.mul(eigenvalues).matmul(adjoint(eigenvectors));
              assertPart(back, h, 2 * times, `${about}: eigh`);
              assertOrthonormal(eigenvectors, 2 * times, `${about}: eigenvectors`);
            }
          }
        }
      }));
  }
});

describe("small singular values of matrices with graded rows or columns keep their digits", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const n of [12, 20, 30]) {
          const all = kinds(n, false);
          for (const kind of ["with graded columns", "with graded rows"]) {
            const a = all[kind], { logabsdet } = L.slogdet(a);
            // The product of all of them is |det|.
            const error = Math.abs(L.svdvals(a).log().sum().item() - logabsdet.item());
            assert(error < 1e-11, `${kind}, ${n}: ${error}`);
            const inverse = L.pinv(a);
            assertPart(inverse.matmul(a).matmul(inverse), inverse, 1e4, `${kind}, ${n}: pinv`);
          }
        }
      }));
  }
});

describe("float32 and complex64 have the values of double precision, rounded", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (
          const [dtype, wide] of [["float32", "float64"], ["complex64", "complex128"]] as const
        ) {
          for (const shape of [[3, 5, 5], [2, 4, 7], [40, 20], [40, 128], [130, 100]]) {
            const a = matrices(shape, dtype);
            const double = a.astype(wide), about = `${dtype} ${shape}`;
            const check = (what: string, x: Any, y: Any): void =>
              assertPart(x.astype(y.dtype), y, 2 ** 28, `${about}: ${what}`);
            const s = L.svdvals(double);
            check("svdvals", L.svdvals(a), s);
            const svd = L.svd(a);
            check("svd", svd.s, s);
            // Each element is rounded once.
            for (const q of [svd.u, svd.vh]) assertOrthonormal(q.astype(wide), 2 ** 29, about);
            check("norm", L.matrixNorm(a, { ord: 2 }), L.matrixNorm(double, { ord: 2 }));
            if (shape.at(-1) !== shape.at(-2)) continue;
            for (const upper of [false, true]) {
              const values = L.eigvalsh(double, { upper });
              check("eigvalsh", L.eigvalsh(a, { upper }), values);
              check("eigh", L.eigh(a, { upper }).eigenvalues, values);
            }
          }
        }
      }));
  }
});

it("a matrix of a batch of floats that has no result is named", () => {
  const a = matrices([3, 2, 2], "float32");
  a.slice(1).fill_(NaN);
  const { s } = L.svd(a);
  assertEquals(s.isnan().any(1).toArray(), [false, true, false]);
});
