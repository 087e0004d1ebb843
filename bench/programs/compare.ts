/**
 * Compares results of the same work in different libraries.
 *
 * @module
 */

/** How much results may differ, relative to the expected number plus the mean of their sizes. */
export const TOLERANCE = 1e-4;

/** Why two results disagree, if they do. */
export function disagreement(result: Float32Array, expected: Float32Array): string | undefined {
  if (result.length !== expected.length) {
    return `${result.length} elements instead of ${expected.length}`;
  }
  const mean = expected.reduce((sum, x) => sum + Math.abs(x), 0) / Math.max(1, expected.length);
  for (const [i, x] of expected.entries()) {
    const error = Math.abs(result[i]! - x);
    // Written so that NaN disagrees.
    if (!(error <= TOLERANCE * (Math.abs(x) + mean))) return `${result[i]} instead of ${x} at ${i}`;
  }
  return undefined;
}
