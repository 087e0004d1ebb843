/**
 * Collectives beside mpi4py, with each MPI that is found: sums of 8 and of a million float32, by 2
 * ranks and by 4; and how late a timer is while a collective waits. Ranks compare what they call, as
 * by default, or do not (`check: false`).
 *
 * `deno task mpi --bench` installs two MPIs, and mpi4py for all that are there. mpi4py compares
 * nothing. With more ranks than cores the figures are those of the scheduler.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ones, zeros } from "../../mod.ts";
import { findMpis, launcherFlags, mpiFolder } from "../../scripts/mpi.ts";
import { root } from "../../scripts/tools.ts";
import { init, type World } from "../../src/distributed/mod.ts";
import { environment } from "../harness/line_process.ts";
import { type Command, mayHold, WholeSide, workerCommand } from "../harness/served.ts";
import {
  best,
  type Figure,
  middle,
  type Outcome,
  quantile,
  type RunOptions,
  type Side,
  Stopwatch,
  type Suite,
} from "../harness/suite.ts";

const MPIS = findMpis();
const RANKS = [2, 4];
const [SMALL, PROMISE, LARGE] = ["sum of 8", "sum of 8, promise", "sum of 1e6"] as const;
const [WAITS, IDLE] = ["delay of a timer while waiting", "delay of a timer when idle"] as const;

/** The fastest chunks of small sums. */
async function small(world: World, calls: number, chunks: number): Promise<[Figure, Figure]> {
  using x = ones([8], { dtype: "float32" });
  using out = zeros([8], { dtype: "float32" });
  const [sync, promise]: [Figure[], Figure[]] = [[], []];
  for (let chunk = 0; chunk < chunks; chunk++) {
    world.barrierSync();
    let watch = new Stopwatch();
    for (let i = 0; i < calls; i++) world.allSumSync(x, { out });
    sync.push(watch.read(calls));
    world.barrierSync();
    watch = new Stopwatch();
    for (let i = 0; i < calls / 10; i++) await world.allSum(x, { out });
    promise.push(watch.read(calls / 10));
  }
  return [best(sync), best(promise)];
}

/** The fastest of the medians of chunks. */
function large(world: World, calls: number, chunks: number): Figure {
  using x = ones([1_000_000], { dtype: "float32" });
  using out = zeros([1_000_000], { dtype: "float32" });
  return best(Array.from({ length: chunks }, () =>
    middle(Array.from({ length: calls }, () => {
      world.barrierSync();
      const watch = new Stopwatch();
      world.allSumSync(x, { out });
      return watch.read();
    }))));
}

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** By how much a timer of 1 ms is late, at the 99th percentile, during `work`. */
async function lateness(work: () => Promise<unknown>): Promise<Figure> {
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
  return { wall: Math.max(0, quantile(late, 0.99)) * 1e6 };
}

/** The lateness while nothing happens, and while a collective waits a second for other ranks. */
async function waiting(world: World): Promise<Record<string, Figure>> {
  using x = ones([8], { dtype: "float32" });
  world.barrierSync();
  if (world.rank !== 0) {
    await pause(2000);
    (await world.allSum(x)).dispose();
    return {};
  }
  return {
    [IDLE]: await lateness(() => pause(1000)),
    [WAITS]: await lateness(async () => (await world.allSum(x)).dispose()),
  };
}

/** What each rank runs; rank 0 reports. */
async function run(): Promise<Outcome | undefined> {
  await using world = await init({ timeout: 60_000 });
  const [sync, promise] = await small(world, world.size === 2 ? 200 : 20, 100);
  const figures = {
    ...{ [SMALL]: sync, [PROMISE]: promise, [LARGE]: large(world, 20, 10) },
    ...await waiting(world),
  };
  return world.rank === 0 ? { figures } : undefined;
}

function nameOf(mpi: string, size: number): string {
  return `${mpi}, ${size} ranks`;
}

function sides(options: RunOptions): Side[] {
  const { runtimes, suite, level, without } = options;
  // Starts the ranks of a group, unless the rank has no program for its MPI.
  const launched = (
    rank: (mpi: string) => readonly string[] | undefined,
    env: Readonly<Record<string, string>> = {},
  ) =>
  (group: string): Command | undefined => {
    const mpi = MPIS.find(({ name }) => group.startsWith(`${name}, `))!;
    const program = rank(mpi.name);
    if (program === undefined) return undefined;
    const size = RANKS.find((size) => nameOf(mpi.name, size) === group)!;
    return {
      command: [mpi.launcher, ...launcherFlags(mpi), "-n", `${size}`, ...program],
      env: { ...environment(1, level), ...mpi.env, ...env },
    };
  };
  const made: Side[] = [];
  if (mayHold(options, "mpi4py")) {
    const peer = join(root, "bench", "suites", "mpi_peer.py");
    const python = (mpi: string) => join(mpiFolder(mpi), "bin", "python");
    const has = ({ name }: { readonly name: string }): boolean =>
      existsSync(python(name)) &&
      spawnSync(python(name), ["-c", "import mpi4py, numpy"], { stdio: "ignore" }).status === 0;
    const able = MPIS.filter(has).map(({ name }) => name);
    const lacking = MPIS.map(({ name }) => name).filter((name) => !able.includes(name));
    if (lacking.length > 0) {
      without("mpi4py", `not for ${lacking.join(", ")}: deno task mpi --bench installs it`);
    }
    const command = launched((mpi) => able.includes(mpi) ? [python(mpi), peer] : undefined);
    made.push(new WholeSide({ name: "mpi4py", peer: true }, command));
  }
  for (const runtime of runtimes) {
    for (const checks of [true, false]) {
      const name = checks ? runtime : `${runtime}, no check`;
      const env = { ROWMAJOR_DISTRIBUTED_CHECK: checks ? "1" : "0" };
      const args = [`--suite=${suite}`, "--threads=1", "--group=ranks"];
      const command = launched(() => workerCommand(runtime, args), env);
      made.push(new WholeSide({ name, peer: false, runtime }, command));
    }
  }
  return made;
}

const names = MPIS.flatMap(({ name }) => RANKS.map((size) => nameOf(name, size)));

/** The suite. */
export const suite: Suite = {
  title: "Collectives beside mpi4py",
  groups: Object.fromEntries(names.map((name) => [name, name])),
  rows: names.flatMap((group) =>
    [SMALL, PROMISE, LARGE, WAITS, IDLE].map((name) => ({ group, name }))
  ),
  whole: true,
  ...{ rounds: 3, ms: 0, threads: [1] },
  beside: "each",
  lines: "row",
  shortRows: /, 2 ranks: sum/,
  goal: (row) => /, 2 ranks\/sum of 1e6$/.test(row) ? { ratio: 1.25 } : undefined,
  unable: () =>
    MPIS.length === 0 ? "there is no MPI, which deno task mpi --bench installs" : undefined,
  sides,
  run,
};
