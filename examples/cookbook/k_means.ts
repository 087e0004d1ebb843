/**
 * k-means: groups points around `k` centers, by Lloyd's algorithm.
 *
 * @module
 */
import { range, scope, type Tensor, where } from "../../mod.ts";

/** Centers [k, d] of points [n, d], and the nearest center of each point, int32 [n]. */
export function kMeans(
  points: Tensor,
  k: number,
  rounds: number,
): { centers: Tensor; labels: Tensor<"int32"> } {
  let centers: Tensor = points.slice(range(0, k)).copy();
  let labels = nearest(points, centers);
  for (let round = 0; round < rounds; round++) {
    using before = centers;
    using nearestOf = labels;
    [centers, labels] = scope(() => {
      const members = nearestOf.oneHot(k);
      const counts = members.sum(0).expandDims(1);
      const means = members.T.matmul(points).div(counts.maximum(1));
      // A center without points stays where it is.
      const moved: Tensor = where(counts.greater(0), means, before);
      return [moved, nearest(points, moved)];
    });
  }
  return { centers, labels };
}

function nearest(points: Tensor, centers: Tensor): Tensor<"int32"> {
  return scope(() => {
    // |x - c|² without |x|², which is the same for all centers.
    const lengths = centers.square().sum(1);
    return lengths.sub(points.matmul(centers.T).mul(2)).argmin(1);
  });
}
