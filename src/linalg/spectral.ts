/**
 * Eigenvalues and singular values.
 *
 * @module
 */
import { dispatch, dispatchAll } from "../core/dispatch.ts";
import { checkOptions } from "../ops/infer.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import type { FloatTensor, TriangleOptions } from "./factors.ts";
import { LINALG } from "./ops.ts";
import { upperOf } from "./parts.ts";

/** The dtype of real results for `D`. */
export type RealOf<X extends AnyTensor> = FloatTensor<X>;

/** The results of {@link eigh}. */
export interface Eigh<X extends AnyTensor> {
  /** In ascending order: [..., N], of a real dtype. */
  readonly eigenvalues: RealOf<X>;
  /** Column j belongs to eigenvalue j: [..., N, N]. */
  readonly eigenvectors: FloatTensor<X>;
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
export function eigvalsh<X extends AnyTensor>(a: X, options: TriangleOptions = {}): RealOf<X> {
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
