/**
 * Principal components: the directions in which points vary most.
 *
 * @module
 */
import { linalg, range, scope, type Tensor } from "../../mod.ts";

/** The first `k` components [k, d] of points [n, d], the variance along each, and the projection. */
export function pca(
  points: Tensor,
  k: number,
): { components: Tensor; variances: Tensor; projected: Tensor } {
  return scope(() => {
    const centered = points.sub(points.mean(0));
    const covariance: Tensor = centered.T.matmul(centered).div(points.shape[0]! - 1);
    // Eigenvalues ascend: the last ones are the largest.
    const { eigenvalues, eigenvectors } = linalg.eigh(covariance);
    const first = range(0, k);
    const components: Tensor = eigenvectors.T.flip(0).slice(first).copy();
    const variances: Tensor = eigenvalues.flip(0).slice(first).copy();
    return { components, variances, projected: centered.matmul(components.T) };
  });
}
