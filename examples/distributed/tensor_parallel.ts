/**
 * A perceptron whose weights ranks share: the first one by columns, the second one by rows. Each rank
 * computes a part of the hidden layer, and one sum over all ranks gives the result.
 *
 *     mpiexec -n 4 deno run -A examples/distributed/tensor_parallel.ts
 *     mpiexec -n 4 bun examples/distributed/tensor_parallel.ts
 *
 * @module
 */
import { random, setThreads, type Tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import {
  columnParallelSync,
  type Group,
  init,
  rowParallelSync,
} from "../../src/distributed/mod.ts";

const [INPUTS, HIDDEN, OUTPUTS] = [64, 256, 32];

/** This rank's parts of the weights. */
export interface Shards {
  readonly up: Tensor; // [HIDDEN / n, INPUTS]
  readonly upBias: Tensor; // [HIDDEN / n]
  readonly down: Tensor; // [OUTPUTS, HIDDEN / n]
  readonly downBias: Tensor; // [OUTPUTS]
}

/** Random weights. A program with files has `loadShards(group, path, { up: 0, upBias: 0, down: 1 })`. */
export function makeShards(group: Group): Shards {
  const keys = random.split(random.key(7), 4);
  const make = (i: number, shape: number[]) => random.normal(keys[i]!, shape, { std: 0.1 });
  return {
    up: group.shard(make(0, [HIDDEN, INPUTS]), 0).copy(),
    upBias: group.shard(make(1, [HIDDEN]), 0).copy(),
    down: group.shard(make(2, [OUTPUTS, HIDDEN]), 1).copy(),
    downBias: make(3, [OUTPUTS]),
  };
}

/** The perceptron as a compiled function of [N, INPUTS], which all ranks call together. */
export function makePerceptron(group: Group, shards: Shards): (x: Tensor) => Tensor {
  const { up, upBias, down, downBias } = shards;
  return compile((x: Tensor): Tensor => {
    const hidden = columnParallelSync(x, up, { group, bias: upBias }).gelu();
    return rowParallelSync(hidden, down, { group, bias: downBias });
  });
}

/** Rows for the perceptron, the same on all ranks. */
export function inputs(rows: number): Tensor {
  return random.normal(random.key(8), [rows, INPUTS]);
}

if (import.meta.main) {
  await using world = await init();
  // Ranks of one machine share its processors.
  setThreads(1);
  const perceptron = makePerceptron(world, makeShards(world));
  const y = perceptron(inputs(16));
  const [row] = y.asRank(2).toArray();
  if (world.rank === 0) {
    console.log(`[${y.shape}] begins with ${row!.slice(0, 4).map((x) => x.toFixed(4)).join(", ")}`);
  }
}
