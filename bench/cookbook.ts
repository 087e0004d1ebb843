/**
 * The programs of examples/cookbook beside NumPy: the same algorithms on the same inputs.
 *
 *     deno run -A bench/cookbook.ts [--threads=1] [--seconds=0.5] [names...]
 *     bun bench/cookbook.ts
 *
 * Both sides take turns, in a process each; the shortest times count, which says most on a busy
 * machine. Prints a row for each program, then the geometric mean of the ratios. The Python is that of
 * the environment variable ROWMAJOR_PYTHON, or of .venv, with numpy and scipy.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { PROGRAMS } from "../examples/cookbook/inputs.ts";
import { info, setThreads } from "../mod.ts";
import { root } from "../scripts/tools.ts";
import { environment, LineProcess } from "./line_process.ts";

interface Request {
  readonly program: string;
  readonly seconds: number;
}

interface Answer {
  readonly version?: string;
  readonly ms?: number;
}

class Peer extends LineProcess<"NumPy", Request, Answer> {
  /** Its version, which it reports first. */
  async ready(): Promise<string> {
    return (await this.next()).version!;
  }
}

/** How often both sides take turns. */
const TURNS = 3;

const args = process.argv.slice(2);
const option = (name: string, usual: number): number =>
  Number(args.find((arg) => arg.startsWith(`--${name}=`))?.split("=")[1] ?? usual);
const threads = option("threads", 1);
const seconds = option("seconds", 0.5) / TURNS;
const asked = args.filter((arg) => !arg.startsWith("--"));

function python(): string {
  const own = join(root, ".venv", "bin", "python");
  return process.env.ROWMAJOR_PYTHON ?? (existsSync(own) ? own : "python3");
}

/** The shortest time of a run within some seconds, in milliseconds. */
function timeOf(run: () => { dispose(): void }[]): number {
  let best = Infinity;
  const end = performance.now() + seconds * 1000;
  do {
    const begin = performance.now();
    const results = run();
    best = Math.min(best, performance.now() - begin);
    for (const result of results) result.dispose();
  } while (performance.now() < end);
  return best;
}

const environmentOf = environment(threads);
const peer = new Peer("NumPy", [python(), join(root, "bench", "cookbook_peer.py")], {
  cwd: root,
  env: environmentOf,
});
const version = await peer.ready();
setThreads(threads);
const { backend } = info() as { backend?: string };
console.log(
  `rowmajor${backend === undefined ? "" : ` (${backend})`} and ${version}, ${threads} threads`,
);
console.log(
  "program".padEnd(22) + "ours, ms".padStart(12) + "NumPy, ms".padStart(12) + "ratio".padStart(8),
);
const ratios: number[] = [];
for (const [name, make] of Object.entries(PROGRAMS)) {
  if (asked.length > 0 && !asked.some((part) => name.includes(part))) continue;
  const run = make(true);
  for (let i = 0; i < 3; i++) for (const result of run()) result.dispose();
  let [ours, theirs] = [Infinity, Infinity];
  for (let turn = 0; turn < TURNS; turn++) {
    ours = Math.min(ours, timeOf(run));
    theirs = Math.min(theirs, (await peer.ask({ program: name, seconds })).ms!);
  }
  const ratio = ours / theirs;
  ratios.push(ratio);
  console.log(
    name.padEnd(22) + ours.toFixed(3).padStart(12) + theirs.toFixed(3).padStart(12) +
      ratio.toFixed(2).padStart(8),
  );
}
const mean = Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length);
console.log(`geometric mean of the ratios: ${mean.toFixed(2)}`);
await peer.close();
