/**
 * k-means over points that ranks share: each rank knows its own points only, and all have the centers.
 *
 *     mpiexec -n 4 deno run -A examples/distributed/k_means.ts
 *     mpiexec -n 4 bun examples/distributed/k_means.ts
 *
 * @module
 */
import { range, scope, setThreads, type Tensor, where } from "../../mod.ts";
import { type Group, init } from "../../src/distributed/mod.ts";
import { loadDigits } from "../digits/digits.ts";

/** For each point [n, d], its nearest center: 1 in [n, k]. */
function memberships(points: Tensor, centers: Tensor): Tensor {
  // |x - c|² without |x|², which is the same for all centers.
  const distances = centers.square().sum(1).sub(points.matmul(centers.T).mul(2));
  return distances.argmin(1).oneHot(centers.shape[0]!);
}

/**
 * Centers [k, d] of the points of all ranks, and the number of points of each. The first `k` points of
 * rank 0 are the first centers.
 */
export async function kMeans(
  group: Group,
  points: Tensor,
  k: number,
  rounds: number,
): Promise<{ centers: Tensor; counts: Tensor }> {
  using first = points.slice(range(0, k));
  let centers: Tensor = await group.broadcast(first, 0);
  for (let round = 0;; round++) {
    const [sums, counts] = scope(() => {
      const members = memberships(points, centers);
      return [members.T.matmul(points), members.sum(0)] as const;
    });
    // Both are under way at once.
    await Promise.all([sums, counts].map((x) => group.allSum(x, { out: x })));
    if (round === rounds) {
      sums.dispose();
      return { centers, counts: counts };
    }
    using before = centers;
    centers = scope(() => {
      const sizes = counts.expandDims(1);
      // A center without points stays where it is.
      return where(sizes.greater(0), sums.div(sizes.maximum(1)), before);
    });
    for (const x of [sums, counts]) x.dispose();
  }
}

if (import.meta.main) {
  await using world = await init();
  // Ranks of one machine share its processors.
  setThreads(1);
  const { train } = await loadDigits();
  // In other programs each rank reads its own points.
  const mine = world.shard(train.images, 0);
  const { centers, counts } = await kMeans(world, mine, 10, 20);
  if (world.rank === 0) {
    console.log(
      `${train.images.shape[0]} digits, in groups of ${counts.asRank(1).toArray().join(", ")}`,
    );
    const ink = centers.asRank(2).mean(1).toArray();
    console.log(`mean ink of each: ${ink.map((x) => x.toFixed(4)).join(", ")}`);
  }
}
