/**
 * A layer of a decoder whose heads and weights ranks share, which takes a few steps: each rank has its
 * own heads with their cache, and two sums over all ranks make a step.
 *
 *     mpiexec -n 4 deno run -A examples/distributed/decoder_step.ts
 *     mpiexec -n 4 bun examples/distributed/decoder_step.ts
 *
 * @module
 */
import { concat, random, scope, setThreads, type Tensor } from "../../mod.ts";
import {
  columnParallelSync,
  type Group,
  init,
  rowParallelSync,
} from "../../src/distributed/mod.ts";
import * as nn from "../../src/nn/mod.ts";

const [WIDTH, HEADS, HIDDEN] = [64, 8, 128];

/** The weights, and the axis along which ranks share each: as `loadShards` takes them. */
const PLAN = { query: 0, key: 0, value: 0, output: 1, gate: 0, up: 0, down: 1 };
type Name = keyof typeof PLAN;
type Weights = Readonly<Record<Name, Tensor>>;

/** The keys and values of this rank's heads for all tokens so far: [1, HEADS / n, tokens, D]. */
interface Cache {
  readonly keys: Tensor;
  readonly values: Tensor;
}

/** This rank's parts of random weights. */
export function makeWeights(group: Group): Weights {
  const rows = (name: Name) => ["gate", "up"].includes(name) ? HIDDEN : WIDTH;
  const columns = (name: Name) => name === "down" ? HIDDEN : WIDTH;
  const parts = Object.entries(PLAN).map(([name, axis], i) => {
    const shape = [rows(name as Name), columns(name as Name)];
    const whole = random.normal(random.foldIn(random.key(11), i), shape, { std: 0.1 });
    return [name, group.shard(whole, axis).copy()];
  });
  return Object.fromEntries(parts) as Weights;
}

/** The layer for one token [1, 1, WIDTH], and the cache with it. */
export function step(
  group: Group,
  weights: Weights,
  x: Tensor,
  cache: Cache | undefined,
): [y: Tensor, cache: Cache] {
  const heads = HEADS / group.size;
  const part = (x: Tensor, name: Name): Tensor => columnParallelSync(x, weights[name], { group });
  const whole = (x: Tensor, name: Name): Tensor => rowParallelSync(x, weights[name], { group });
  return scope(() => {
    const normed = x.rmsNorm() as Tensor;
    const [query, key, value] = (["query", "key", "value"] as const).map((name) =>
      nn.splitHeads(part(normed, name), heads) as Tensor
    ) as [Tensor, Tensor, Tensor];
    const keys = cache === undefined ? key.copy() : concat([cache.keys, key], 2) as Tensor;
    const values = cache === undefined ? value.copy() : concat([cache.values, value], 2);
    const attended = nn.mergeHeads(nn.attention(query, keys, values));
    const middle = x.add(whole(attended, "output"));
    const inner = middle.rmsNorm();
    const hidden = part(inner, "gate").silu().mul(part(inner, "up"));
    return [middle.add(whole(hidden, "down")), { keys, values }];
  });
}

/** The last output of some steps, of which each takes the output of the one before. */
export function decode(group: Group, steps: number): Tensor {
  if (HEADS % group.size !== 0) throw new Error(`${HEADS} heads, ${group.size} ranks`);
  const weights = makeWeights(group);
  let x: Tensor = random.normal(random.key(12), [1, 1, WIDTH]);
  let cache: Cache | undefined;
  for (let i = 0; i < steps; i++) [x, cache] = step(group, weights, x, cache);
  return x;
}

if (import.meta.main) {
  await using world = await init();
  // Ranks of one machine share its processors.
  setThreads(1);
  const y = decode(world, 8);
  if (world.rank === 0) {
    const first = y.reshape([-1]).toArray().slice(0, 4);
    console.log(`after 8 steps: ${first.map((x) => x.toFixed(4)).join(", ")}`);
  }
}
