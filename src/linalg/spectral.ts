/**
 * Eigenvalues and singular values.
 *
 * @module
 */
import type { Shape } from "../base/shape.ts";
import { dispatch, dispatchAll } from "../core/dispatch.ts";
import { checkOptions } from "../ops/infer.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import type { FloatTensor, TriangleOptions, VectorsOf } from "./factors.ts";
import type * as t from "../types/mod.ts";
import { LINALG } from "./ops.ts";
import { upperOf } from "./parts.ts";

/** A tensor of the dtype of real results for `X`. */
export type RealOf<X extends AnyTensor, S extends Shape = Shape> = Tensor<
  t.ToReal[t.ToFloat[X["dtype"]]],
  S,
  X["device"]
>;

/** The results of {@link eigh}. */
export interface Eigh<X extends AnyTensor> {
  /** In ascending order: [..., N], of a real dtype. */
  readonly eigenvalues: RealOf<X, VectorsOf<X>>;
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
export function eigh<X extends AnyTensor>(a: X, options: TriangleOptions = {}): Eigh<X> {
  const [eigenvalues, eigenvectors] = dispatchAll(LINALG.eigh, [a], upperOf("eigh", options));
  return { eigenvalues, eigenvectors } as never;
}

/** The eigenvalues of {@link eigh} alone, which takes less time. */
export function eigvalsh<X extends AnyTensor>(
  a: X,
  options: TriangleOptions = {},
): RealOf<X, VectorsOf<X>> {
  return dispatch(LINALG.eigvalsh, [a], upperOf("eigvalsh", options)) as never;
}

/** The results of {@link svd}. */
export interface SVD<X extends AnyTensor> {
  /** Left singular vectors as columns: [..., M, M] or [..., M, K]. */
  readonly u: FloatTensor<X>;
  /** Singular values, largest first: [..., K], of a real dtype. */
  readonly s: RealOf<X>;
  /** Right singular vectors as rows, conjugated: [..., N, N] or [..., K, N]. */
  readonly vh: FloatTensor<X>;
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
export function svd<X extends AnyTensor>(
  a: X,
  options: { readonly fullMatrices?: boolean } = {},
): SVD<X> {
  checkOptions("svd", options, ["fullMatrices"]);
  const { fullMatrices = true } = options;
  const [u, s, vh] = dispatchAll(LINALG.svd, [a], { fullMatrices });
  return { u, s, vh } as never;
}

/** The singular values of matrices [..., M, N], largest first: [..., min(M, N)]. */
export function svdvals<X extends AnyTensor>(a: X): RealOf<X> {
  return dispatch(LINALG.svdvals, [a]) as never;
}

/** A tensor of a complex dtype. */
export type ComplexTensor<X extends AnyTensor, S extends Shape = Shape> = Tensor<
  t.ToComplex[X["dtype"]],
  S,
  X["device"]
>;

/** The results of {@link eig}. */
export interface Eig<X extends AnyTensor> {
  /** In no particular order, conjugate pairs together: [..., N]. */
  readonly eigenvalues: ComplexTensor<X, VectorsOf<X>>;
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
export function eig<X extends AnyTensor>(a: X): Eig<X> {
  const [eigenvalues, eigenvectors] = dispatchAll(LINALG.eig, [a]);
  return { eigenvalues, eigenvectors } as never;
}

/** The eigenvalues of {@link eig} alone. */
export function eigvals<X extends AnyTensor>(a: X): ComplexTensor<X, VectorsOf<X>> {
  return dispatch(LINALG.eigvals, [a]) as never;
}
