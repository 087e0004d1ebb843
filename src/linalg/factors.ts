/**
 * Factors of matrices.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { dispatch, dispatchAll } from "../core/dispatch.ts";
import { checkOptions } from "../ops/infer.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import type { Shape } from "../base/shape.ts";
import type * as t from "../types/mod.ts";
import { LINALG } from "./ops.ts";
import { upperOf } from "./parts.ts";

/** A tensor of the dtype in which linear algebra computes for `X`. */
export type FloatTensor<X extends AnyTensor, S extends Shape = Shape> = Tensor<
  t.ToFloat[X["dtype"]],
  S,
  X["device"]
>;

/** The axes before matrices of the shape of `X`. */
export type BatchOf<X extends AnyTensor> = t.ShapeOf<X> extends
  readonly [...infer R extends Shape, number, number] ? R : Shape;

/** The shape of a vector for each square matrix of `X`. */
export type VectorsOf<X extends AnyTensor> = t.ShapeOf<X> extends
  readonly [...infer R extends Shape, number, infer N extends number] ? readonly [...R, N] : Shape;

/** Options of functions that read one triangle of a matrix. */
export interface TriangleOptions {
  /** Whether to use the upper triangle; the default is the lower one. */
  readonly upper?: boolean;
}

/**
 * The Cholesky factor of positive definite Hermitian matrices [..., N, N]: L with A = L Lᴴ, or with
 * `upper` U with A = Uᴴ U. Only that triangle of A is read.
 *
 * Throws a LinAlgError for a matrix that is not positive definite.
 *
 * @example
 * ```ts
 * linalg.cholesky(tensor([[4, 2], [2, 5]])).toArray(); // => [[2, 0], [1, 2]]
 * ```
 */
export function cholesky<X extends AnyTensor>(
  a: X,
  options: TriangleOptions = {},
): FloatTensor<X, t.ShapeOf<X>> {
  return dispatch(LINALG.cholesky, [a], upperOf("cholesky", options)) as never;
}

/** The results of {@link qr}. */
export interface QR<X extends AnyTensor> {
  /** Orthonormal columns. */
  readonly q: FloatTensor<X>;
  /** Upper triangular. */
  readonly r: FloatTensor<X>;
}

/**
 * A = Q R for matrices [..., M, N]: Q has min(M, N) orthonormal columns, or M with `mode`
 * `"complete"`.
 *
 * @example
 * ```ts
 * const { q, r } = linalg.qr(tensor([[3, 1], [4, 2]]));
 * q.matmul(r).allclose(tensor([[3, 1], [4, 2]]), { atol: 1e-6 }); // => true
 * ```
 */
export function qr<X extends AnyTensor>(
  a: X,
  options: { readonly mode?: "reduced" | "complete" } = {},
): QR<X> {
  checkOptions("qr", options, ["mode"]);
  const { mode = "reduced" } = options;
  if (mode !== "reduced" && mode !== "complete") {
    throw new ArgumentError(`Cannot qr with mode ${describe(mode)}: it is "reduced" or "complete"`);
  }
  const [q, r] = dispatchAll(LINALG.qr, [a], { mode });
  return { q, r } as never;
}

/** The results of {@link lu}. */
export interface LU<X extends AnyTensor> {
  /** Row i of L U is row `p[i]` of the matrix: int32 [..., M]. */
  readonly p: Tensor<"int32", Shape, X["device"]>;
  /** Lower triangular, with ones on its diagonal: [..., M, K]. */
  readonly l: FloatTensor<X>;
  /** Upper triangular: [..., K, N]. */
  readonly u: FloatTensor<X>;
}

/**
 * The LU factors of matrices [..., M, N] with partial pivoting, K = min(M, N): row `p[i]` of A is row
 * i of L U.
 *
 * @example
 * ```ts
 * const { p, l, u } = linalg.lu(tensor([[1, 2], [4, 2]]));
 * p.toArray(); // => [1, 0]
 * l.matmul(u).toArray(); // => [[4, 2], [1, 2]]
 * ```
 */
export function lu<X extends AnyTensor>(a: X): LU<X> {
  const [l, u, p] = dispatchAll(LINALG.lu, [a]);
  return { p, l, u } as never;
}
