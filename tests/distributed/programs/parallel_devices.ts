/**
 * Gradients, products and files of tensors on CUDA devices, on the emulator: each rank has a device.
 * Prints the number of checks of each rank.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import process from "node:process";
import { type AnyTensor, arange, type Tensor } from "../../../mod.ts";
import { findShim } from "../../../src/backend/ffi/load.ts";
import {
  averageGradients,
  averageGradientsSync,
  columnParallel,
  columnParallelSync,
  init,
  loadShards,
  rowParallel,
  rowParallelSync,
  saveShards,
} from "../../../src/distributed/mod.ts";

const [folder, libraries] = process.argv.slice(2) as [string, string];
await using world = await init({ timeout: 30_000 });
const shim = findShim();
if ("reason" in shim) throw new Error(shim.reason);
shim.rm_cuda_open(new TextEncoder().encode(`${libraries}\0`), new Float64Array(3));
const device = (world.rank === 0 ? "cuda" : `cuda:${world.rank}`) as "cuda";
const group = world;
let checks = 0;

/** Small integers, so that sums are exact. */
function integers(shape: number[], from = 0): Tensor<"float32", readonly number[], "cuda"> {
  const n = shape.reduce((a, b) => a * b, 1);
  return arange(n, { dtype: "float32" }).add(from).remainder(7).reshape(shape).to(device);
}

function same(x: AnyTensor, y: AnyTensor): void {
  checks++;
  assertEquals([x.device, x.cpu().toArray()], [y.device, y.cpu().toArray()]);
}

const [x, weight, bias] = [integers([3, 8]), integers([4, 8], 2), integers([4])];
const whole = x.linear(weight, bias);
const gathered = { group, bias: world.shard(bias, 0), gather: true } as const;
const [rows, columns, part] = [world.shard(weight, 0), world.shard(weight, 1), world.shard(x, 1)];
same(await columnParallel(x, rows, gathered), whole);
same(columnParallelSync(x, rows, gathered), whole);
same(await rowParallel(part, columns, { group, bias }), whole);
same(rowParallelSync(part, columns, { group, bias }), whole);

const mean = (shape: number[]) =>
  Array.from({ length: world.size }, (_, rank) => integers(shape, rank))
    .reduce((sum, one) => sum.add(one)).div(world.size);
for (const bucketBytes of [2 ** 20, 1]) {
  const make = () => ({ a: integers([50], world.rank), b: [integers([4, 5], world.rank).T] });
  const [one, two] = [make(), make()];
  await averageGradients(world, one, { bucketBytes });
  averageGradientsSync(world, two, { bucketBytes });
  for (const { a, b } of [one, two]) {
    same(a, mean([50]));
    same(b[0]!, mean([4, 5]).T);
  }
}

await saveShards(world, folder, { weight: rows, bias }, { plan: { weight: 0 } });
const read = await loadShards(world, folder);
same(read.weight!.to(device), weight);
same(read.bias!.to(device), bias);
console.log(`rank ${world.rank}: ${checks} checks`);
