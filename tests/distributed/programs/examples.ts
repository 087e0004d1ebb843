/**
 * What ranks of examples_test.ts run: the functions of examples/distributed. Rank 0 prints their
 * results as JSON.
 *
 * @module
 */
import { arange, setThreads, type Tensor, tensor } from "../../../mod.ts";
import { init } from "../../../src/distributed/mod.ts";
import { loadDigits, pick } from "../../../examples/digits/digits.ts";
import { fingerprint, fit } from "../../../examples/distributed/data_parallel.ts";
import { decode } from "../../../examples/distributed/decoder_step.ts";
import { kMeans } from "../../../examples/distributed/k_means.ts";
import {
  inputs,
  makePerceptron,
  makeShards,
} from "../../../examples/distributed/tensor_parallel.ts";

await using world = await init({ timeout: 30_000 });
setThreads(1);
const numbers = (x: Tensor) => Array.from(x.toTypedArray());
const { train } = await loadDigits();
const losses: number[] = [];
const few = pick(train, arange(320, { dtype: "int32" }));
const model = await fit(world, few, 4, (_, loss) => losses.push(loss));
const { centers, counts } = await kMeans(world, world.shard(train.images, 0), 10, 12);
const perceptron = makePerceptron(world, makeShards(world));
const results = {
  losses,
  fingerprint: await fingerprint(model),
  centers: numbers(centers),
  counts: numbers(counts),
  perceptron: [3, 16, 3].flatMap((rows) => numbers(perceptron(inputs(rows)))),
  decoder: numbers(decode(world, 5)),
};
// All ranks have all results.
for (const [name, value] of Object.entries(results)) {
  const text = new TextEncoder().encode(JSON.stringify(value));
  const hash = tensor(new Uint8Array(await crypto.subtle.digest("SHA-256", text)));
  const [most, least] = await Promise.all([world.allMax(hash), world.allMin(hash)]);
  if (!most.equals(least)) throw new Error(`ranks differ in ${name}`);
}
if (world.rank === 0) console.log(JSON.stringify(results));
