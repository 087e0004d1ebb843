/**
 * What is defined by factors, at every size up to 257, and factors of 257 rows in every dtype: by
 * invariants, in batches, and with NaN.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { describe, it } from "node:test";
import { linalg, LinAlgError, stack } from "../../mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import type { Any } from "../support.ts";
import { adjoint, assertNear, assertOrthonormal, matrices, one, REAL } from "./support.ts";

const L: Any = linalg;
const CPU = BACKENDS.filter(({ name }) => name === "generated loops" || /native/.test(name));
const BEST = CPU.at(-1)!.name;

/** Well conditioned matrices. */
function good(shape: number[], dtype: string, seed = 1): Any {
  const n = shape.at(-1)!;
  return matrices(shape, dtype, seed).div(Math.max(1, Math.sqrt(n))).add(one(n, dtype).mul(2.5));
}

function checkSize(n: number, batch: number[], dtype: string): void {
  const about = `${dtype} [${[...batch, n, n]}]`;
  const times = 300 + 40 * n;
  const shape = [...batch, n, n];
  const a = good(shape, dtype), unit = one(n, dtype).broadcastTo(shape);
  // Least squares: the rest is orthogonal to the columns.
  const tall = matrices([...batch, n + 3, n], dtype, 2),
    b = matrices([...batch, n + 3, 2], dtype, 3);
  const { x, rank, s, residuals } = L.lstsq(tall, b);
  const rest = tall.matmul(x).sub(b);
  assertNear(
    adjoint(tall).matmul(rest).add(1),
    adjoint(tall).matmul(rest).mul(0).add(1),
    9 * times,
    about,
  );
  assertNear(residuals, rest.abs().square().sum(-2), 9 * times, about);
  assertNear(s, L.svdvals(tall), times, about);
  assertEquals(
    [rank.toArray()].flat(Infinity).map(Number),
    [L.matrixRank(a).toArray()].flat(Infinity).map(Number),
    about,
  );
  assertNear(L.pinv(a), L.inv(a), times, about);
  const p = L.pinv(tall);
  assertNear(tall.matmul(p).matmul(tall), tall, 9 * times, about);
  const h = a.add(adjoint(a));
  assertNear(h.matmul(L.pinv(h, { hermitian: true })).matmul(h), h, 9 * times, about);
  const e = L.expm(a.div(4));
  assertNear(e.matmul(L.expm(a.div(-4))), unit, times, about);
  if (batch.length === 0) assertNear(L.matrixPower(a, 3), L.multiDot([a, a, a]), times, about);
  assertNear(L.matrixPower(a, -2).matmul(a).matmul(a), unit, 9 * times, about);
  const values = L.svdvals(a);
  assertNear(L.matrixNorm(a).square(), values.square().sum(-1), times, about);
  assertNear(L.matrixNorm(a, { ord: "nuc" }), values.sum(-1), times, about);
  if (n === 0) {
    assertEquals(L.det(a).sum().abs().item(), batch.reduce((u, v) => u * v, 1));
    return;
  }
  assertNear(L.matrixNorm(a, { ord: 2 }), values.max(-1), times, about);
  assertNear(L.cond(a), values.max(-1).div(values.min(-1)), times, about);
  const dets = L.slogdet(a);
  assertNear(dets.sign.abs(), dets.logabsdet.mul(0).add(1), times, about);
  assertNear(dets.logabsdet, values.log().sum(-1), times, about);
  if (n === 1) return;
  // Two equal rows.
  const low = a.copy();
  low.set(["...", 1, ":"], a.slice("...", 0, ":"));
  const ranks = [L.matrixRank(low).toArray()].flat(Infinity).map(Number);
  assertEquals(ranks, ranks.map(() => n - 1), about);
  const half = L.slogdet(low).logabsdet.sub(dets.logabsdet).max().item();
  assert(half < -10, `${about}: the determinant of equal rows`);
}

describe("what factors define", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const dtype of REAL) {
          const isLong = name === BEST && (dtype === "float64" || dtype === "complex64");
          const sizes = [0, 1, 2, 3, 8, ...name === "generated loops" ? [] : [33]];
          for (const n of [...sizes, ...isLong && name !== "generated loops" ? [100] : []]) {
            checkSize(n, [], dtype);
            if (n <= 8) checkSize(n, [2, 3], dtype);
          }
          if (isLong && dtype === "float64") checkSize(257, [], dtype);
        }
      }));
  }
});

describe("factors of 257 rows in the other dtypes", () => {
  it(BEST, { skip: !BEST.startsWith("native") }, () =>
    using(CPU.at(-1)!.on, () => {
      const n = 257, times = 9000;
      for (const dtype of ["float32", "complex64"]) {
        const a = good([n, n], dtype), b = matrices([n, 3], dtype, 2);
        assertNear(a.matmul(L.solve(a, b)), b, times, "solve");
        assertNear(a.matmul(L.inv(a)), one(n, dtype), times, "inv");
        const { p, l, u } = L.lu(a);
        assertNear(l.matmul(u), a.take(p, 0), times, "lu");
        const { q, r } = L.qr(a);
        assertNear(q.matmul(r), a, times, "qr");
        assertOrthonormal(q, times, "qr");
        const spd = a.matmul(adjoint(a));
        const c = L.cholesky(spd);
        assertNear(c.matmul(adjoint(c)), spd, times, "cholesky");
        for (const upper of [false, true]) {
          const t = upper ? a.triu() : a.tril();
          assertNear(t.matmul(L.solveTriangular(a, b, { upper })), b, times, "solveTriangular");
        }
        const { eigenvalues, eigenvectors } = L.eigh(spd);
        assertNear(eigenvectors.mul(eigenvalues).matmul(adjoint(eigenvectors)), spd, times, "eigh");
        const f = L.svd(a);
        assertNear(f.u.mul(f.s).matmul(f.vh), a, times, "svd");
        const { eigenvalues: w, eigenvectors: v } = L.eig(a);
        assertNear(a.astype(v.dtype).matmul(v), v.mul(w), times, "eig");
      }
    }));
});

describe("NaN in one matrix of a batch", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const dtype of REAL) {
          for (const n of [1, 3, 9]) {
            const plain = good([n, n], dtype);
            const a: Any = stack([plain, plain.mul(NaN), plain] as Any);
            const both = (x: Any): void => {
              const seen = x.reshape([3, x.size / 3]);
              const isNaN = seen.notEqual(seen).any(1).toArray();
              assertEquals(isNaN, [false, true, false], `${dtype} ${n}`);
            };
            for (const f of [L.inv, L.det, L.pinv, L.expm, L.svdvals, L.eigvals, L.eigvalsh]) {
              both(f(a));
            }
            both(L.solve(a, plain));
            both(L.solveTriangular(a, plain));
            both(L.matrixPower(a, 2));
            both(L.matrixNorm(a, { ord: "nuc" }));
            both(L.cond(a));
            both(L.lstsq(a, plain.broadcastTo([3, n, n])).x);
            both(L.slogdet(a).logabsdet);
            both(L.qr(a).r);
            both(L.lu(a).u);
            assertEquals([...L.matrixRank(a).toTypedArray()].map(Number), [n, 0, n]);
            const zero = stack([plain, plain.mul(0)] as Any);
            for (const f of [L.inv, L.cholesky, (x: Any) => L.solve(x, plain)]) {
              assertThrows(() => f(zero.matmul(adjoint(zero))), LinAlgError, "matrix 1");
            }
          }
        }
      }));
  }
});
