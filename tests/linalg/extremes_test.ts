/**
 * Matrices of the largest and smallest numbers, infinite ones, and small ones in batches: what has a
 * result gets it, and every iteration ends.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { describe, it } from "node:test";
import { linalg, ones, ShapeError, stack, tensor, zeros } from "../../mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { type Any, loose } from "../support.ts";
import { adjoint, assertNear, assertOrthonormal, matrices, one, REAL } from "./support.ts";

const L: Any = linalg;
const CPU = BACKENDS.filter(({ name }) => name === "generated loops" || /native/.test(name));

/** Integers up to 9: a matrix that a power of two scales without a rounding error. */
function integers(n: number): number[][] {
  return Array.from(
    { length: n },
    (_, i) =>
      Array.from({ length: n }, (_, j) => (7 * i * j + 3 * (i + j) + i * i * j * j) % 10 - 4),
  );
}

function numbers(x: Any): number[] {
  return [x.toArray()].flat(3) as number[];
}

/** Throws unless the numbers, divided by a scale, are those expected up to a part of the largest. */
function assertScaled(x: Any, scale: number, expected: Any, part: number, about: string): void {
  const [all, want] = [numbers(x), numbers(expected)];
  const most = Math.max(...want.map(Math.abs));
  all.forEach((one, i) => {
    const error = Math.abs(one / scale - want[i]!);
    assert(error <= part * most, `${about}: ${one / scale} instead of ${want[i]}`);
  });
}

describe("the largest and the smallest numbers", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const dtype of ["float32", "float64"] as const) {
          const exponents = dtype === "float32" ? [-140, -100, 100, 120] : [-1062, -900, 900, 1015];
          for (const exponent of exponents) {
            // Few bits are left of the smallest numbers.
            const part = exponent === -140 || exponent === -1062 ? 0.02 : 1e-4;
            const scale = 2 ** exponent;
            for (const n of [2, 4, 12]) {
              const about = `${dtype} 2^${exponent} n = ${n}`;
              const plain: Any = tensor(integers(n), { dtype });
              const a: Any = tensor(integers(n).map((row) => row.map((x) => x * scale)), { dtype });
              assertScaled(L.eigvalsh(a), scale, L.eigvalsh(plain), part, about);
              assertScaled(L.svdvals(a), scale, L.svdvals(plain), part, about);
              assertScaled(L.qr(a).r, scale, L.qr(plain).r, part, `${about}, qr`);
              const times = 1e3;
              assertOrthonormal(L.qr(a).q, times, about);
              assertOrthonormal(L.eigh(a).eigenvectors, times, about);
              assertOrthonormal(L.svd(a).u, times, about);
              const sum = L.eigvals(a).real().sum().item() / scale;
              const trace = integers(n).reduce((all, row, i) => all + row[i]!, 0);
              assert(Math.abs(sum - trace) <= part * 10 * n, `${about}: trace ${sum}`);
            }
          }
        }
      }));
  }
});

describe("infinite and huge numbers end every iteration", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const dtype of REAL) {
          for (const n of [1, 2, 5, 40]) {
            for (const bad of [Infinity, -Infinity, NaN]) {
              const a = one(n, dtype).mul(2);
              a.set([0, n - 1], bad);
              const seen = [L.expm(a), L.eigvals(a), L.eig(a).eigenvectors, L.eig(a).eigenvalues];
              for (const x of seen) assertEquals(x.notEqual(x).all().item(), true, `${dtype} ${n}`);
              for (const f of [L.det, L.slogdet, L.qr, L.lu, L.matrixRank]) f(a);
              for (const f of [L.inv, L.cholesky, L.pinv, L.cond]) {
                // NaN is no error, but infinity divides to zeros.
                try {
                  f(a);
                } catch (error) {
                  assertEquals((error as Error).name, "LinAlgError");
                }
              }
            }
            // JavaScript squares a thousand times.
            if (n === 40) continue;
            const huge = one(n, dtype).mul(
              dtype === "float32" || dtype === "complex64" ? 3e38 : 1e308,
            );
            const all = huge.matmul(one(n, dtype).mul(0).add(1));
            for (const x of [huge, huge.neg(), all]) assertEquals(L.expm(x).shape, [n, n]);
            assertEquals(L.expm(huge.neg()).slice(0, 0).abs().item(), 0);
          }
        }
      }));
  }
});

describe("exponentials", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const dtype of REAL) {
          for (const shape of [[0, 0], [1, 1], [3, 3], [17, 17], [40, 40], [5, 3, 3]]) {
            const a = matrices(shape, dtype).div(2);
            const n = shape.at(-1)!;
            for (const x of [a, loose(a.mT.copy()).mT]) {
              const e = L.expm(x);
              const unit = e.matmul(L.expm(x.neg()));
              const size = n === 0 ? 1 : e.abs().max().item() ** 2;
              assertNear(
                unit,
                one(n, dtype).broadcastTo(shape),
                100 * (n + 1) * size,
                `${dtype} ${shape}`,
              );
              assertNear(L.expm(x.mul(2)), e.matmul(e), 200 * (n + 1), `${dtype} ${shape}`);
            }
          }
        }
      }));
  }
});

describe("a small matrix has the same result alone and in a batch", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const dtype of ["float32", "float64"] as const) {
          for (
            const shape of [[3, 1, 1], [37, 2, 2], [19, 4, 4], [5, 8, 8], [9, 6, 3], [9, 3, 7]]
          ) {
            const x = matrices(shape, dtype);
            const [, m, n] = shape as [number, number, number];
            // One of rank 1, one of zeros, one of large numbers, one that is diagonal.
            const column = x.slice(0, ":", ":1");
            const odd: Any = stack(
              [
                column.matmul(x.slice(0, ":1", ":")),
                x.slice(0).mul(0),
                x.slice(1).mul(dtype === "float32" ? 1e20 : 1e200),
                one(Math.max(m, n), dtype).slice(`:${m}`, `:${n}`),
              ] as Any,
            );
            for (const a of [x, odd]) {
              const about = `${dtype} [${shape}]`;
              const { u, s, vh } = L.svd(a, { fullMatrices: false });
              const values = L.svdvals(a);
              const most = s.max().item();
              assertNear(u.mul(s.expandDims(-2)).matmul(vh).div(most), a.div(most), 100, about);
              assertNear(values.div(most), s.div(most), 100, about);
              assertOrthonormal(u, 100, about);
              assertOrthonormal(adjoint(vh), 100, about);
              for (let i = 0; i < a.shape[0]; i += 3) {
                const alone = L.svd(a.slice(i), { fullMatrices: false });
                for (const key of ["u", "s", "vh"] as const) {
                  assertEquals(alone[key].toArray(), { u, s, vh }[key].slice(i).toArray(), about);
                }
              }
              if (m !== n) continue;
              const symmetric = a.add(a.mT);
              const { eigenvalues, eigenvectors } = L.eigh(symmetric);
              for (let i = 0; i < a.shape[0]; i += 3) {
                const alone = L.eigh(symmetric.slice(i));
                assertEquals(alone.eigenvalues.toArray(), eigenvalues.slice(i).toArray(), about);
                assertEquals(alone.eigenvectors.toArray(), eigenvectors.slice(i).toArray(), about);
                assertNear(
                  alone.eigenvectors.mul(alone.eigenvalues).matmul(alone.eigenvectors.mT).div(most),
                  symmetric.slice(i).div(most),
                  100,
                  about,
                );
              }
            }
          }
        }
      }));
  }
});

describe("equal singular values and eigenvalues end every iteration", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const [dtype, seeds] of [["float64", 8], ["complex128", 8], ["float32", 2]] as const) {
          for (const n of [2, 3, 16, 33]) {
            for (let seed = 1; seed <= seeds; seed++) {
              // Orthogonal: all singular values are 1.
              const { q } = L.qr(matrices([n, n], dtype, seed));
              const about = `${dtype} n = ${n}, seed ${seed}`;
              const { u, s, vh } = L.svd(q);
              assertNear(u.mul(s).matmul(vh), q, 100 + 20 * n, about);
              assertNear(s, s.mul(0).add(1), 100 + 20 * n, about);
              // Two eigenvalues, each many times.
              const values = tensor(Array.from({ length: n }, (_, i) => 1 + i % 2)).astype(
                "float32",
              );
              const twice = q.mul(values.astype(dtype)).matmul(adjoint(q));
              const sorted = [...loose(values).sort().toTypedArray()];
              const found = L.eigvalsh(twice).toArray() as number[];
              found.forEach((one, i) => assert(Math.abs(one - sorted[i]!) < 1e-3, about));
              const w = L.eigvals(twice);
              assertNear(w.real().sum(), values.sum().astype(w.real().dtype), 1000 + 50 * n, about);
            }
          }
        }
        // Eigenvalues that differ little: a shift by their products would have no digits.
        for (const seed of [1, 2, 3]) {
          for (const spread of [1e-7, 1e-9, 1e-15]) {
            const a = one(65, "float64").add(matrices([65, 65], "float64", seed).mul(spread));
            assertNear(L.eigvals(a).real().sum(), L.trace(a), 5000, `spread ${spread}`);
          }
        }
      }));
  }
});

describe("matrices far from 1", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const dtype of ["float64", "complex128"] as const) {
          for (const scale of [1e-120, 1e-95, 1e-60, 1e60, 1e95, 1e120]) {
            for (const shape of [[3, 3], [3, 4], [12, 12]]) {
              const plain = matrices(shape, dtype);
              const a = plain.mul(scale);
              const about = `${dtype} [${shape}] ${scale}`;
              const { u, s, vh } = L.svd(a, { fullMatrices: false });
              assertOrthonormal(u, 200, about);
              assertOrthonormal(adjoint(vh), 200, about);
              assertNear(u.mul(s.div(scale)).matmul(vh), plain, 400, about);
              assertEquals(L.matrixRank(a).item(), L.matrixRank(plain).item(), about);
              if (shape[0] !== shape[1]) continue;
              const w = L.eigh(a.add(adjoint(a)));
              assertOrthonormal(w.eigenvectors, 200, about);
              assertNear(
                w.eigenvalues.div(scale),
                L.eigvalsh(plain.add(adjoint(plain))),
                400,
                about,
              );
            }
          }
        }
        // 1 / 1e-310 is infinite, and the solution is not.
        const tiny = tensor([[1e-310]], { dtype: "float64" });
        const { x } = L.lstsq(tiny, tensor([3e-310], { dtype: "float64" }), { rtol: 0 });
        assert(Math.abs(x.item() - 3) < 1e-6, `${x.item()}`);
      }));
  }
});

describe("factors of matrices of rank 1, whose rest becomes subnormal", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const dtype of REAL) {
          for (const n of [17, 33, 60]) {
            const a: Any = ones([n, n], { dtype });
            const about = `${dtype} ${n}`;
            const { q, r } = L.qr(a);
            assertOrthonormal(q, 50 + 10 * n, `qr ${about}`);
            assertNear(q.matmul(r), a, 50 + 10 * n, `qr ${about}`);
            const { u, s, vh } = L.svd(a);
            assertOrthonormal(u, 50 + 10 * n, `svd ${about}`);
            assertOrthonormal(adjoint(vh), 50 + 10 * n, `svd ${about}`);
            assertNear(u.mul(s).matmul(vh), a, 50 + 10 * n, `svd ${about}`);
            assertOrthonormal(L.eigh(a).eigenvectors, 50 + 10 * n, `eigh ${about}`);
            assertNear(L.eigvals(a).real().sum(), L.trace(a), 50 + 10 * n, `eigvals ${about}`);
          }
        }
      }));
  }
});

describe("eigenvectors of an eigenvalue 0 of several times", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        // A pair of values near 0 stands beside others.
        const rows = [
          ...[[1, 0, 0, -1, 0, 1, -1], [-1, 0, 0, 1, 1, -1, 2], [1, 0, 0, -1, 0, 0, -1]],
          ...[[0, 0, 0, 0, 0, 0, 0], [2, 0, 0, -2, -1, 1, -2]],
          ...[[-2, 0, 0, 2, 1, -1, 2], [-2, 0, 0, 2, 1, -1, 2]],
        ];
        for (const dtype of REAL) {
          const a: Any = tensor(rows, { dtype }).div(4);
          for (const x of [a, a.mT, a.flip([0, 1])]) {
            const { eigenvalues, eigenvectors: v } = L.eig(x);
            assertNear(x.astype(v.dtype).matmul(v).add(1), v.mul(eigenvalues).add(1), 300, dtype);
          }
        }
      }));
  }
});

describe("norms of no elements", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const shape of [[0, 0], [0, 3], [3, 0], [2, 3, 0]]) {
          const a: Any = zeros(shape);
          const batch = shape.slice(0, -2);
          for (const ord of ["fro", "nuc", 1, 2, Infinity]) {
            const norm = L.matrixNorm(a, { ord });
            assertEquals([norm.shape, norm.sum().item()], [batch, 0], `${ord} [${shape}]`);
          }
          assertThrows(() => L.matrixNorm(a, { ord: -2 }), ShapeError, "is empty");
          for (const ord of [2, "fro", -1]) {
            assertThrows(() => L.cond(a, { ord }), ShapeError, "it has no elements");
          }
        }
        assertEquals(L.cond(zeros([0, 3, 3])).shape, [0]);
        assertEquals(Object.is(L.svdvals(zeros([9, 9]).neg()).toArray()[3], 0), true);
      }));
  }
});

/** Matrices with numbers `all` on the diagonal, turned by blocks [3, -2; 2, 5], whose determinant is 19. */
function withBlocks(all: readonly number[]): number[][] {
  return all.map((x, i) =>
    all.map((_, j) => x * (i === j ? (i % 2 === 0 ? 3 : 5) : j === (i ^ 1) ? (i < j ? -2 : 2) : 0))
  );
}

describe("determinants whose partial products are beyond the numbers of the dtype", () => {
  /** The dtype, the sizes of rows, and the determinant of the rows, divided by that of the blocks. */
  const ROWS: readonly (readonly [dtype: string, rows: number[], product: number])[] = [
    ["float64", [1e200, 1e200, 1e-300, 1], 1e100],
    ["float64", [1e-200, 1e-200, 1e300, 1], 1e-100],
    ["float64", [2e307, 1e307, 1e-307, 1e-307, 1e-300, 1e300], 2],
    ["float64", [1e-310, 2e-310, 1e307, 1e307], 2e-6],
    ["float64", [1e200, 1e200, 1, 1], Infinity],
    ["float64", [1e-200, 1e-200, 1, 1], 0],
    ["float32", [1e30, 1e30, 1e-38, 1e-12], 1e10],
    ["float32", [5e37, 5e37, 1e-37, 1e-37], 25],
    ["float32", [1e-30, 1e-30, 1e25, 1e25], 1e-10],
    ["complex128", [1e200, 1e200, 1e-300, 1], 1e100],
    ["complex128", [2e307, 1e307, 1e-307, 1e-307, 1e-300, 1e300], 2],
    ["complex64", [1e30, 1e30, 1e-38, 1e-12], 1e10],
  ];
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const [dtype, rows, product] of ROWS) {
          const a: Any = loose(tensor)(withBlocks(rows), { dtype });
          const about = `${dtype} ${rows}`;
          const want = product * 19 ** (rows.length / 2);
          const part = /32|64$/.test(dtype) && dtype !== "float64" ? 1e-5 : 1e-13;
          // Subnormal numbers have few digits.
          const isRough = rows.some((x) => x < 1e-307 || (part === 1e-5 && x < 1e-37));
          // Alone, in a batch, and with the rows in another order.
          for (const x of [a, stack([a, a]).slice(1), a.flip(0).flip(1)] as Any[]) {
            const det: Any = L.det(x).item(), got = typeof det === "number" ? det : det.re;
            const { sign, logabsdet } = L.slogdet(x);
            if (typeof det !== "number") assertEquals(det.im, 0, about);
            if (want === 0 || want === Infinity) assertEquals(got, want, about);
            else {
              const error = Math.abs(got / want - 1);
              assert(error <= (isRough ? 1e-3 : part), `det of ${about}: ${got}, not ${want}`);
              const log = Math.abs(logabsdet.item() - Math.log(want));
              assert(log < (isRough ? 1e-3 : 100 * part), `slogdet of ${about}`);
            }
            const unit: Any = sign.item(), re = typeof unit === "number" ? unit : unit.re;
            assert(want === 0 || Math.abs(re - 1) <= part, `sign of ${about}`);
          }
        }
        // Infinities are no NaN.
        assertEquals(
          L.det(loose(tensor)([[Infinity, 0], [0, 2]], { dtype: "float64" })).item(),
          Infinity,
        );
      }));
  }
});
