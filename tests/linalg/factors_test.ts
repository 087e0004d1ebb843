/**
 * Factors, systems, eigenvalues and singular values by what defines them: every size, dtype, layout
 * and backend.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { describe, it } from "node:test";
import {
  DTypeError,
  eye,
  linalg,
  LinAlgError,
  ones,
  ShapeError,
  tensor,
  zeros,
} from "../../mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { type Any, asView, loose } from "../support.ts";
import { isSampled } from "../support/amount.ts";
import { IN_BUN } from "../support/engine.ts";
import { adjoint, assertNear, assertOrthonormal, matrices, one, REAL, SIZES } from "./support.ts";

const L: Any = linalg;
const CPU = BACKENDS.filter(({ name }) =>
  ["generated loops"].includes(name) || /native/.test(name)
);

/** Shapes of square matrices: every size, batches, and more axes. */
const SQUARE: number[][] = [...SIZES.map((n) => [n, n]), [3, 4, 4], [2, 2, 5, 5], [0, 3, 3]];
/** Shapes of others. */
const SHAPES: number[][] = [
  ...SQUARE,
  [5, 3],
  [3, 5],
  [0, 3],
  [3, 0],
  [40, 7],
  [7, 40],
  [2, 9, 4],
  [2, 4, 9],
  [70, 40],
];

/** The same matrices in several layouts. */
function layouts(x: Any): [string, Any][] {
  const large = x.size > 2000;
  return [
    ["dense", x],
    ...large ? [] : [["view", asView(x)], ["transposed", loose(x.mT.copy()).mT]],
  ] as [string, Any][];
}

/** Positive definite matrices. */
function definite(shape: readonly number[], dtype: string): Any {
  const x = matrices(shape, dtype);
  const n = shape.at(-1)!;
  return x.matmul(adjoint(x)).add(one(n, dtype).mul(Math.max(n, 1)));
}

function eachCase(
  shapes: number[][],
  make: (shape: number[], dtype: string) => Any,
  check: (x: Any, about: string) => void,
): void {
  for (const { name, on } of CPU) {
    it(name, () => {
      for (const dtype of REAL) {
        for (const shape of shapes) {
          if (!isSampled(`${dtype} ${shape}`, IN_BUN ? 3 : 2)) continue;
          // Every dtype is computed in the same way; the longest cases once.
          const isLong = Math.max(...shape) > 40;
          if (isLong && name !== CPU.at(-1)!.name && dtype !== "float64") {
            if (name === "generated loops" || dtype !== "complex64") continue;
          }
          for (const [layout, x] of layouts(make(shape, dtype))) {
            using(on, () => check(x, `${dtype} [${shape}] ${layout}`));
          }
        }
      }
    });
  }
}

describe("cholesky", () => {
  eachCase(SQUARE, definite, (a, about) => {
    const n = a.shape.at(-1)!;
    const l = L.cholesky(a);
    assertNear(l.matmul(adjoint(l)), a, 20 + n, about);
    assertEquals(l.tril().equals(l), true, about);
    const u = L.cholesky(a, { upper: true });
    assertNear(adjoint(u).matmul(u), a, 20 + n, `${about}, upper`);
    // The other triangle is not read.
    assertNear(L.cholesky(a.tril()), l, 20 + n, `${about}, lower only`);
  });
});

describe("qr", () => {
  eachCase(SHAPES, matrices, (a, about) => {
    const [m, n] = a.shape.slice(-2);
    const times = 20 + 4 * Math.max(m, n);
    for (const mode of ["reduced", "complete"]) {
      const { q, r } = L.qr(a, { mode });
      assertEquals(q.shape.at(-1), mode === "complete" ? m : Math.min(m, n));
      assertNear(q.matmul(r), a, times, about);
      assertOrthonormal(q, times, about);
      assertEquals(r.triu().equals(r), true, about);
    }
  });
});

describe("lu", () => {
  eachCase(SHAPES, matrices, (a, about) => {
    const { p, l, u } = L.lu(a);
    const [m, n] = a.shape.slice(-2);
    const rows = a.takeAlongAxis(p.expandDims(-1).broadcastTo(a.shape).copy(), -2);
    assertNear(l.matmul(u), rows, 20 + 2 * Math.max(m, n), about);
    assertEquals(l.abs().size === 0 || l.abs().max().item() <= 1.5, true, about);
    assertEquals(u.triu().equals(u), true, about);
  });
});

describe("solve, inv and solveTriangular", () => {
  eachCase(
    SQUARE,
    (shape, dtype) => definite(shape, dtype).div(Math.max(shape.at(-1)!, 1)),
    (a, about) => {
      const n = a.shape.at(-1)!;
      const times = 50 + 10 * n;
      const b = matrices([...a.shape.slice(0, -1), 3], a.dtype, 2);
      assertNear(a.matmul(L.solve(a, b)), b, times, about);
      const v = matrices([n], a.dtype, 3);
      const x = L.solve(a, v);
      assertEquals(x.shape, a.shape.slice(0, -1));
      assertNear(
        a.matmul(x.expandDims(-1)).squeeze(-1),
        v.broadcastTo(x.shape),
        times,
        `${about}, a vector`,
      );
      const inverse = L.inv(a);
      assertNear(inverse.matmul(a), one(n, a.dtype).broadcastTo(a.shape), times, `${about}, inv`);
      for (const upper of [false, true]) {
        const triangle = upper ? a.triu() : a.tril();
        const y = L.solveTriangular(a, b, { upper });
        assertNear(triangle.matmul(y), b, times, `${about}, triangular`);
      }
    },
  );
});

describe("batches of systems broadcast", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        const a = definite([3, 1, 4, 4], "float64");
        const b = matrices([2, 4, 5], "float64");
        const x = L.solve(a, b);
        assertEquals(x.shape, [3, 2, 4, 5]);
        assertNear(a.matmul(x), b.broadcastTo([3, 2, 4, 5]), 200, "solve");
      }));
  }
});

describe("det and slogdet", () => {
  eachCase(SQUARE.filter((shape) => shape.at(-1)! <= 33), matrices, (a, about) => {
    const n = a.shape.at(-1)!;
    const { sign, logabsdet } = L.slogdet(a);
    const det = L.det(a);
    assertEquals(det.shape, a.shape.slice(0, -2));
    assertNear(sign.mul(logabsdet.exp()).div(det), L.det(a).mul(0).add(1), 50 + 10 * n, about);
    // The determinant is the product of the eigenvalues of a definite matrix.
    const gram = a.matmul(adjoint(a));
    const values = L.eigvalsh(gram);
    assertNear(
      L.slogdet(gram.add(one(n, a.dtype))).logabsdet,
      values.add(1).log().sum(-1),
      100 + 50 * n,
      `${about}, by eigenvalues`,
    );
  });
});

describe("eigh and eigvalsh", () => {
  eachCase(
    SQUARE,
    (shape, dtype) => {
      const x = matrices(shape, dtype);
      return x.add(adjoint(x));
    },
    (a, about) => {
      const n = a.shape.at(-1)!;
      const times = 50 + 5 * n;
      const { eigenvalues: w, eigenvectors: v } = L.eigh(a);
      assertNear(v.mul(w.expandDims(-2)).matmul(adjoint(v)), a, times, about);
      assertOrthonormal(v, times, about);
      assert(w.size === 0 || w.shape.at(-1) === 1 || w.diff().min().item() >= 0, about);
      assertNear(L.eigvalsh(a), w, times, about);
      assertNear(L.eigvalsh(a.triu(), { upper: true }), w, times, about);
      assertNear(L.eigvalsh(a.tril()), w, times, about);
    },
  );
});

describe("svd and svdvals", () => {
  eachCase(SHAPES, matrices, (a, about) => {
    const [m, n] = a.shape.slice(-2);
    const times = 50 + 10 * Math.max(m, n);
    const { u, s, vh } = L.svd(a, { fullMatrices: false });
    assertNear(u.mul(s.expandDims(-2)).matmul(vh), a, times, about);
    assertOrthonormal(u, times, about);
    assertOrthonormal(adjoint(vh), times, about);
    assertNear(L.svdvals(a), s, times, about);
    const full = L.svd(a);
    assertEquals([full.u.shape.at(-1), full.vh.shape.at(-2)], [m, n]);
    assertOrthonormal(full.u, times, `${about}, full`);
    assertOrthonormal(adjoint(full.vh), times, `${about}, full`);
    const k = Math.min(m, n);
    const part = full.u.narrow?.(-1, 0, k) ?? full.u.slice("...", `:${k}`);
    assertNear(
      part.mul(s.expandDims(-2)).matmul(full.vh.slice("...", `:${k}`, ":")),
      a,
      times,
      about,
    );
  });
});

describe("eig and eigvals", () => {
  eachCase(SQUARE, matrices, (a, about) => {
    const n = a.shape.at(-1)!;
    const times = 100 + 20 * n;
    const { eigenvalues: w, eigenvectors: v } = L.eig(a);
    const isWide = a.dtype === "float64" || a.dtype === "complex128";
    assertEquals([w.dtype, v.dtype], new Array(2).fill(isWide ? "complex128" : "complex64"));
    assertNear(a.astype(v.dtype).matmul(v), v.mul(w.expandDims(-2)), times, about);
    const lengths = L.vectorNorm(v, { axis: -2 });
    assertNear(lengths, lengths.mul(0).add(1), times, `${about}, lengths`);
    assertNear(w.sum(-1), L.trace(a).astype(w.dtype), times, `${about}, trace`);
    assertNear(L.eigvals(a).sum(-1), w.sum(-1), times, `${about}, eigvals`);
    if (a.dtype.startsWith("float") && n > 0) {
      // Real matrices have conjugate pairs.
      const [up, down] = [loose(w.imag().sort()), loose(w.imag().neg().sort())];
      assertEquals(up.equals(down), true, about);
    }
  });

  for (const { name, on } of CPU) {
    it(`defective, triangular and permuted matrices: ${name}`, () =>
      using(on, () => {
        for (const dtype of REAL) {
          const values = (x: unknown): number[] =>
            loose(L.eigvals(tensor(x as number[][], { dtype }))).real().toArray().sort();
          assertEquals(values([[2, 1], [0, 2]]), [2, 2]);
          assertEquals(values([[1, 2, 3], [0, 4, 5], [0, 0, 6]]), [1, 4, 6]);
          assertEquals(values([[0, 0], [0, 0]]), [0, 0]);
          const turn = loose(L.eigvals(tensor([[0, 1, 0], [0, 0, 1], [1, 0, 0]], { dtype })));
          assertNear(turn.abs(), turn.abs().mul(0).add(1), 20, "a permutation");
        }
      }));
  }
});

describe("values of matrices of the smallest numbers", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const small of [5e-324, 1e-310, 2e-308, 1e-150]) {
          const x = tensor([[2 * small, small], [small, 2 * small]], { dtype: "float64" });
          assertEquals(loose(L.eigvalsh(x)).div(small).round().toArray(), [1, 3], `${small}`);
          assertEquals(loose(L.svdvals(x)).div(small).round().toArray(), [3, 1], `${small}`);
          const values = loose(L.eigvals(x)).real().sort().div(small).round();
          assertEquals(values.toArray(), [1, 3], `${small}`);
        }
      }));
  }
});

describe("blocks of several levels: 257 rows", () => {
  const native = CPU.at(-1)!;
  it(native.name, { skip: !native.name.startsWith("native") }, () =>
    using(native.on, () => {
      for (const dtype of ["float64", "complex128"]) {
        const a = matrices([257, 257], dtype);
        const spd = definite([257, 257], dtype);
        const times = 5000;
        const l = L.cholesky(spd);
        assertNear(l.matmul(adjoint(l)), spd, times, "cholesky");
        const { q, r } = L.qr(a);
        assertNear(q.matmul(r), a, times, "qr");
        assertOrthonormal(q, times, "qr");
        assertNear(a.matmul(L.inv(a)), one(257, dtype), 100 * times, "inv");
        const { eigenvalues, eigenvectors } = L.eigh(spd);
        assertNear(eigenvectors.mul(eigenvalues).matmul(adjoint(eigenvectors)), spd, times, "eigh");
        const { u, s, vh } = L.svd(a);
        assertNear(u.mul(s).matmul(vh), a, times, "svd");
        const found = L.eig(a);
        const { eigenvalues: w, eigenvectors: v } = found;
        assertNear(a.astype(v.dtype).matmul(v), v.mul(w), times, "eig");
      }
    }));
});

describe("singular matrices", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const dtype of REAL) {
          const a = tensor([[[2, 0], [0, 1]], [[1, 2], [2, 4]]], { dtype });
          const error = assertThrows(
            () => L.inv(a),
            LinAlgError,
            "Cannot inv matrix 1: it is singular",
          ) as LinAlgError;
          assertEquals([error.op, error.matrix, error.pivot, error.code], [
            "inv",
            1,
            1,
            "RM_LINALG",
          ]);
          assertThrows(() => L.solve(a, ones([2], { dtype })), LinAlgError, "matrix 1");
          assertThrows(
            () => L.solveTriangular(zeros([9, 9], { dtype }), ones([9], { dtype })),
            LinAlgError,
            "pivot 0",
          );
          assertThrows(() => L.cholesky(a.neg()), LinAlgError, "not positive definite");
          assertThrows(
            () => L.matrixPower(zeros([3, 3], { dtype }), -1),
            LinAlgError,
            "inv matrix 0",
          );
          assertEquals(L.det(a).abs().toArray(), [2, 0]);
          assertEquals(L.slogdet(a).logabsdet.toArray()[1], -Infinity);
          // Rank 3 of 8: orthonormal vectors for zero values, too.
          const low = matrices([8, 3], dtype).matmul(matrices([3, 8], dtype, 5));
          const { u, s, vh } = L.svd(low);
          assertOrthonormal(u, 200, "rank 3");
          assertOrthonormal(adjoint(vh), 200, "rank 3");
          assertNear(u.mul(s).matmul(vh), low, 200, "rank 3");
          assertEquals(L.matrixRank(low).item(), 3);
          const { eigenvectors, eigenvalues } = L.eigh(low.matmul(adjoint(low)));
          assertOrthonormal(eigenvectors, 200, "rank 3");
          assertNear(
            eigenvectors.mul(eigenvalues).matmul(adjoint(eigenvectors)),
            low.matmul(adjoint(low)),
            200,
            "rank 3",
          );
          for (const n of [1, 5, 40]) {
            const nothing = L.svd(zeros([n, n], { dtype }));
            assertOrthonormal(nothing.u, 10, "zeros");
            assertEquals(nothing.s.toArray(), new Array(n).fill(0));
          }
        }
      }));
  }
});

describe("NaN and infinities", () => {
  for (const { name, on } of CPU) {
    it(name, () =>
      using(on, () => {
        for (const dtype of REAL) {
          for (const n of [2, 5, 40]) {
            for (const bad of [NaN, Infinity]) {
              const a = loose(eye(n, { dtype })).copy();
              a.set([1, 0], bad);
              const b = loose(ones([2, n, n], { dtype })).mul(0).add(eye(n, { dtype }));
              b.set([0], a);
              for (const x of [L.svdvals(b), L.eigvalsh(b), L.eigh(b).eigenvectors, L.svd(b).vh]) {
                const seen = x.isNaN?.() ?? x.notEqual(x);
                assertEquals(seen.slice(0).all().item(), true);
                assertEquals(seen.slice(1).any().item(), false);
              }
            }
            const nan = loose(eye(n, { dtype })).mul(NaN);
            for (const x of [L.inv(nan), L.det(nan), L.cholesky(nan), L.qr(nan).r, L.expm(nan)]) {
              assertEquals(x.notEqual(x).any().item(), true);
            }
            assertEquals(L.cond(nan).notEqual(L.cond(nan)).item(), true);
          }
        }
      }));
  }
});

describe("errors and dtypes", () => {
  it("refuses other shapes and dtypes, and computes integers in float32", () => {
    assertThrows(() => L.inv(ones([2, 3])), ShapeError, "Cannot inv shape [2, 3]: it takes square");
    assertThrows(() => L.svd(ones([3])), ShapeError, "Cannot svd shape [3]: it takes matrices");
    assertThrows(() => L.solve(ones([2, 2]), ones([3])), ShapeError, "sizes 2 and 3");
    assertThrows(() => L.inv(ones([2, 2], { dtype: "float16" })), DTypeError, "Cannot inv float16");
    assertThrows(() => L.inv(ones([2, 2], { dtype: "bool" })), DTypeError, "Cannot inv bool");
    assertThrows(() => L.qr(ones([2, 2]), { mode: "other" }), RangeError, 'mode "other"');
    assertEquals(L.inv(tensor([[2]], { dtype: "int32" })).dtype, "float32");
    const mixed = L.solve(tensor([[2]], { dtype: "float64" }), tensor([4], { dtype: "float32" }));
    assertEquals([mixed.dtype, mixed.item()], ["float64", 2]);
  });
});
