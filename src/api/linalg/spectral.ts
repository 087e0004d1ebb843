/**
 * Eigenvalues and singular values.
 *
 * @module
 */
import type { Shape } from "../../base/shape.ts";
import { dispatch, dispatchAll } from "../../core/dispatch.ts";
import { checkOptions } from "../../table/infer.ts";
import type { AnyTensor, TensorOf } from "../../tensor/tensor.ts";
import type { FloatTensor, TriangleOptions } from "./factors.ts";
import type * as t from "../../types/mod.ts";
import { LINALG } from "../../ops/linalg/op.ts";
import { upperOf } from "./parts.ts";
import type { Operand } from "../../memory/operand.ts";

/** A tensor of the dtype of real results for `X`. */
export type RealOf<X extends AnyTensor, S extends Shape = Shape> = TensorOf<
  t.ToReal[t.ToFloat[X["dtype"]]],
  S,
  X["device"]
>["tensor"];

/** The results of {@link eigh}. */
export interface Eigh<X extends AnyTensor> {
  /** In ascending order: [..., N], of a real dtype. */
  readonly eigenvalues: RealOf<X, t.ColumnVectors<t.ShapeOf<X>>>;
  /** Column j belongs to eigenvalue j: [..., N, N]. */
  readonly eigenvectors: FloatTensor<X, t.ShapeOf<X>>;
}

/**
 * Eigenvalues, in ascending order, and orthonormal eigenvectors of symmetric or Hermitian matrices
 * [..., N, N]. Only the lower triangle is read, or the upper one with `upper`.
 *
 * @example
 * ```ts
 * linalg.eigh(tensor([[3, 0], [0, 1]])).eigenvalues.toArray(); // => [1, 3]
 * ```
 */
export function eigh<X extends AnyTensor>(
  a: t.Guard<t.Square<"eigh", t.ShapeOf<X>>, X>,
  options?: TriangleOptions,
): Eigh<X>;
/** The implementation. @ignore */
export function eigh(
  a: AnyTensor,
  options: TriangleOptions = {},
): Readonly<Record<"eigenvalues" | "eigenvectors", Operand>> {
  const [eigenvalues, eigenvectors] = dispatchAll(LINALG.eigh, [a], upperOf("eigh", options));
  return { eigenvalues: eigenvalues!, eigenvectors: eigenvectors! };
}

/** The eigenvalues of {@link eigh} alone, which takes less time. */
export function eigvalsh<X extends AnyTensor>(
  a: t.Guard<t.Square<"eigvalsh", t.ShapeOf<X>>, X>,
  options?: TriangleOptions,
): RealOf<X, t.ColumnVectors<t.ShapeOf<X>>>;
/** The implementation. @ignore */
export function eigvalsh(a: AnyTensor, options: TriangleOptions = {}): Operand {
  return dispatch(LINALG.eigvalsh, [a], upperOf("eigvalsh", options));
}

/** The results of {@link svd}. */
export interface SVD<X extends AnyTensor, All extends boolean = boolean> {
  /** Left singular vectors as columns: [..., M, M] or [..., M, K]. */
  readonly u: FloatTensor<X, t.LeftFactor<t.ShapeOf<X>, All>>;
  /** Singular values, largest first: [..., K], of a real dtype. */
  readonly s: RealOf<X, t.LeastVectors<t.ShapeOf<X>>>;
  /** Right singular vectors as rows, conjugated: [..., N, N] or [..., K, N]. */
  readonly vh: FloatTensor<X, t.RightVectors<t.ShapeOf<X>, All>>;
}

/**
 * The singular value decomposition A = U diag(s) Vᴴ of matrices [..., M, N], with K = min(M, N)
 * singular values. U and V are square unless `fullMatrices` is false.
 *
 * @example
 * ```ts
 * linalg.svd(tensor([[0, 2], [1, 0]])).s.toArray(); // => [2, 1]
 * ```
 */
export function svd<X extends AnyTensor, All extends boolean = true>(
  a: t.Guard<t.Matrices<"svd", t.ShapeOf<X>>, X>,
  options?: { readonly fullMatrices?: All },
): SVD<X, All>;
/** The implementation. @ignore */
export function svd(
  a: AnyTensor,
  options: { readonly fullMatrices?: boolean } = {},
): Readonly<Record<"u" | "s" | "vh", Operand>> {
  checkOptions("svd", options, ["fullMatrices"]);
  const { fullMatrices = true } = options;
  const [u, s, vh] = dispatchAll(LINALG.svd, [a], { fullMatrices });
  return { u: u!, s: s!, vh: vh! };
}

/** The singular values of matrices [..., M, N], largest first: [..., min(M, N)]. */
export function svdvals<X extends AnyTensor>(
  a: t.Guard<t.Matrices<"svdvals", t.ShapeOf<X>>, X>,
): RealOf<X, t.LeastVectors<t.ShapeOf<X>>>;
/** The implementation. @ignore */
export function svdvals(a: AnyTensor): Operand {
  return dispatch(LINALG.svdvals, [a]);
}

/** A tensor of a complex dtype. */
export type ComplexTensor<X extends AnyTensor, S extends Shape = Shape> = TensorOf<
  t.ToComplex[X["dtype"]],
  S,
  X["device"]
>["tensor"];

/** The results of {@link eig}. */
export interface Eig<X extends AnyTensor> {
  /** In no particular order, conjugate pairs together: [..., N]. */
  readonly eigenvalues: ComplexTensor<X, t.ColumnVectors<t.ShapeOf<X>>>;
  /** Column j, of length 1, belongs to eigenvalue j: [..., N, N]. */
  readonly eigenvectors: ComplexTensor<X, t.ShapeOf<X>>;
}

/**
 * Eigenvalues and eigenvectors of any square matrices [..., N, N]. The results are complex: complex64
 * for float32, complex128 for float64.
 *
 * @example
 * ```ts
 * const { eigenvalues } = linalg.eig(tensor([[0, 1], [-1, 0]]));
 * eigenvalues.imag().toArray(); // => [1, -1]
 * ```
 */
export function eig<X extends AnyTensor>(a: t.Guard<t.Square<"eig", t.ShapeOf<X>>, X>): Eig<X>;
/** The implementation. @ignore */
export function eig(a: AnyTensor): Readonly<Record<"eigenvalues" | "eigenvectors", Operand>> {
  const [eigenvalues, eigenvectors] = dispatchAll(LINALG.eig, [a]);
  return { eigenvalues: eigenvalues!, eigenvectors: eigenvectors! };
}

/** The eigenvalues of {@link eig} alone. */
export function eigvals<X extends AnyTensor>(
  a: t.Guard<t.Square<"eigvals", t.ShapeOf<X>>, X>,
): ComplexTensor<X, t.ColumnVectors<t.ShapeOf<X>>>;
/** The implementation. @ignore */
export function eigvals(a: AnyTensor): Operand {
  return dispatch(LINALG.eigvals, [a]);
}
