/**
 * Factors of matrices.
 *
 * @module
 */
import { ArgumentError } from "../../base/errors.ts";
import { describe } from "../../base/text.ts";
import { dispatch, dispatchAll } from "../../core/dispatch.ts";
import { checkOptions } from "../../table/infer.ts";
import type { AnyTensor, Tensor, TensorOf } from "../../tensor/tensor.ts";
import type { Shape } from "../../base/shape.ts";
import type * as t from "../../types/mod.ts";
import { LINALG } from "../../ops/linalg/op.ts";
import { upperOf } from "./parts.ts";
import type { Operand } from "../../memory/operand.ts";

/** A tensor of the dtype in which linear algebra computes for `X`. */
export type FloatTensor<X extends AnyTensor, S extends Shape = Shape> = TensorOf<
  t.ToFloat[X["dtype"]],
  S,
  X["device"]
>["tensor"];

/** Options of functions that read one triangle of a matrix. */
export interface TriangleOptions {
  /** Whether to use the upper triangle; the default is the lower one. */
  readonly upper?: boolean;
}

/**
 * The Cholesky factor of positive definite Hermitian matrices [..., N, N]: L with A = L Lᴴ, or with
 * `upper` U with A = Uᴴ U. Only that triangle of A is read.
 *
 * @throws {LinAlgError} For a matrix that is not positive definite.
 *
 * @example
 * ```ts
 * linalg.cholesky(tensor([[4, 2], [2, 5]])).toArray(); // => [[2, 0], [1, 2]]
 * ```
 */
export function cholesky<X extends AnyTensor>(
  a: t.Guard<t.Square<"cholesky", t.ShapeOf<X>>, X>,
  options?: TriangleOptions,
): FloatTensor<X, t.ShapeOf<X>>;
/** The implementation. @ignore */
export function cholesky(a: AnyTensor, options: TriangleOptions = {}): Operand {
  return dispatch(LINALG.cholesky, [a], upperOf("cholesky", options));
}

/** The results of {@link qr}. */
export interface QR<X extends AnyTensor, All extends boolean = boolean> {
  /** Orthonormal columns: [..., M, K], or [..., M, M]. */
  readonly q: FloatTensor<X, t.LeftFactor<t.ShapeOf<X>, All>>;
  /** Upper triangular: [..., K, N], or [..., M, N]. */
  readonly r: FloatTensor<X, t.TriangularFactor<t.ShapeOf<X>, All>>;
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
export function qr<X extends AnyTensor, M extends "reduced" | "complete" = "reduced">(
  a: t.Guard<t.Matrices<"qr", t.ShapeOf<X>>, X>,
  options?: { readonly mode?: M },
): QR<X, M extends "complete" ? true : false>;
/** The implementation. @ignore */
export function qr(
  a: AnyTensor,
  options: { readonly mode?: "reduced" | "complete" } = {},
): Readonly<Record<"q" | "r", Operand>> {
  checkOptions("qr", options, ["mode"]);
  const { mode = "reduced" as const } = options;
  if (mode !== "reduced" && mode !== "complete") {
    throw new ArgumentError(`Cannot qr with mode ${describe(mode)}: it is "reduced" or "complete"`);
  }
  const [q, r] = dispatchAll(LINALG.qr, [a], { mode });
  return { q: q!, r: r! };
}

/** The results of {@link lu}. */
export interface LU<X extends AnyTensor> {
  /** Row i of L U is row `p[i]` of the matrix: int32 [..., M]. */
  readonly p: Tensor<"int32", t.RowVectors<t.ShapeOf<X>>, X["device"]>;
  /** Lower triangular, with ones on its diagonal: [..., M, K]. */
  readonly l: FloatTensor<X, t.LeftFactor<t.ShapeOf<X>>>;
  /** Upper triangular: [..., K, N]. */
  readonly u: FloatTensor<X, t.RightFactor<t.ShapeOf<X>>>;
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
export function lu<X extends AnyTensor>(
  a: t.Guard<t.Matrices<"lu", t.ShapeOf<X>>, X>,
): LU<X>;
/** The implementation. @ignore */
export function lu(a: AnyTensor): Readonly<Record<"p" | "l" | "u", Operand>> {
  const [l, u, p] = dispatchAll(LINALG.lu, [a]);
  return { p: p!, l: l!, u: u! };
}
