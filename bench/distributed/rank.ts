/**
 * Times collectives for bench/distributed.ts: each rank runs this file, and rank 0 prints the figures.
 *
 * @module
 */
import { ones, zeros } from "../../mod.ts";
import { init } from "../../src/distributed/mod.ts";
import { median } from "../report.ts";

await using world = await init({ timeout: 60_000 });

/** The fewest microseconds of a call, of the means of chunks. */
async function small(calls: number, chunks: number): Promise<[sync: number, promise: number]> {
  using x = ones([8], { dtype: "float32" });
  using out = zeros([8], { dtype: "float32" });
  let [sync, promise] = [Infinity, Infinity];
  for (let chunk = 0; chunk < chunks; chunk++) {
    world.barrierSync();
    const begin = performance.now();
    for (let i = 0; i < calls; i++) world.allSumSync(x, { out });
    sync = Math.min(sync, (performance.now() - begin) / calls);
    world.barrierSync();
    const from = performance.now();
    for (let i = 0; i < calls / 10; i++) await world.allSum(x, { out });
    promise = Math.min(promise, (performance.now() - from) / (calls / 10));
  }
  return [sync * 1e3, promise * 1e3];
}

/** The fewest milliseconds of a call, of the medians of chunks. */
function large(calls: number, chunks: number): number {
  using x = ones([1_000_000], { dtype: "float32" });
  using out = zeros([1_000_000], { dtype: "float32" });
  let least = Infinity;
  for (let chunk = 0; chunk < chunks; chunk++) {
    const times: number[] = [];
    for (let i = 0; i < calls; i++) {
      world.barrierSync();
      const begin = performance.now();
      world.allSumSync(x, { out });
      times.push(performance.now() - begin);
    }
    least = Math.min(least, median(times));
  }
  return least;
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** By how many milliseconds a timer of 1 ms is late, at the 99th percentile, during `work`. */
async function lateness(work: () => Promise<unknown>): Promise<number> {
  const late: number[] = [];
  let [last, ends] = [performance.now(), false];
  const timer = (async () => {
    while (!ends) {
      await pause(1);
      const now = performance.now();
      late.push(now - last - 1);
      last = now;
    }
  })();
  await work();
  ends = true;
  await timer;
  late.sort((a, b) => a - b);
  return late[Math.floor(late.length * 0.99)]!;
}

/** The lateness while nothing happens, and while a collective waits a second for other ranks. */
async function waiting(): Promise<[control: number, waits: number]> {
  using x = ones([8], { dtype: "float32" });
  world.barrierSync();
  if (world.rank !== 0) {
    await pause(2000);
    (await world.allSum(x)).dispose();
    return [0, 0];
  }
  const control = await lateness(() => pause(1000));
  const waits = await lateness(async () => (await world.allSum(x)).dispose());
  return [control, waits];
}

const [sync, promise] = await small(world.size === 2 ? 200 : 20, 100);
const figures = { small: sync, promise, large: large(20, 10) };
const [control, waits] = await waiting();
if (world.rank === 0) {
  console.log(JSON.stringify({ about: world.description, ...figures, control, waits }));
}
