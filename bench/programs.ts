/**
 * Times programs of many ops, eager and compiled, on Deno and Bun beside NumPy, PyTorch,
 * torch.compile and ONNX Runtime, all in one run; and the lateness of a timer meanwhile.
 *
 *     deno task bench:programs [--rows=TEXT,...] [--rounds=3] [--threads=1,2] [--ms=100]
 *                              [--runtime=deno,bun] [--no-peers] [--least] [--save]
 *
 * `--rows` names groups or parts of `group/name`; the last group is `timer`. `--least`
 * prints the fastest batches instead of medians, for a busy machine; the results have both. The
 * peers live as long as the run and take turns, row by row and round by round, and their results
 * must agree. `--save` writes bench/results/ and, for a whole run, the tables of docs/benchmarks.md.
 *
 * @module
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { ensureInstalled, findTool, root, writeTable } from "../scripts/tools.ts";
import { environment, LineProcess } from "./line_process.ts";
import { findPython, type Package } from "./python_env.ts";
import { disagreement } from "./programs/compare.ts";
import {
  byLeast,
  type Contestant,
  type Ours,
  type Results,
  summarize,
  summarizeTimer,
  type TimerRow,
  type Timing,
  toJson,
  toMarkdown,
} from "./programs/report.ts";
import { keyOf, type PeerName, PEERS, type Row, ROWS } from "./programs/rows.ts";
import { compileSpin, TIMER_WORK, type TimerFigures } from "./programs/timer.ts";
import type { Answer, Request, Way } from "./programs/worker.ts";

/** The modules that each peer imports. */
const PACKAGES: Readonly<Record<PeerName, readonly Package[]>> = {
  "NumPy": ["numpy"],
  "PyTorch": ["numpy", "torch"],
  "torch.compile": ["numpy", "torch"],
  "ONNX Runtime": ["numpy", "onnx", "onnxruntime"],
};

/** The time in ms that workers of NumPy and ONNX Runtime keep a core busy after a call. */
const SPINNING = 120;

/** A process, and what it calls the ways in which it runs rows. */
class Peer extends LineProcess<PeerName | "Deno" | "Bun", Request, Answer> {
  version = "";
  /** Empty for other libraries. */
  ways: readonly Way[] = [];

  async ready(): Promise<void> {
    const { version, ways, error } = await this.next();
    if (error !== undefined) throw new Error(error);
    this.version = version!;
    this.ways = ways ?? [];
  }
}

/** A contestant: a process, and for rowmajor the way in which it runs rows. */
interface Entrant {
  readonly name: Contestant;
  readonly peer: Peer;
  readonly way?: Way;
}

const { values } = parseArgs({
  options: {
    rows: { type: "string", default: "" },
    rounds: { type: "string", default: "3" },
    threads: { type: "string", default: [...new Set([1, availableParallelism()])].join() },
    ms: { type: "string", default: "100" },
    runtime: { type: "string", default: "deno,bun" },
    "no-peers": { type: "boolean", default: false },
    least: { type: "boolean", default: false },
    save: { type: "boolean", default: false },
  },
});
const [rounds, ms] = [Number(values.rounds), Number(values.ms)];
const texts = values.rows.split(",");
const counts = values.threads.split(",").map(Number);
const runtimes = values.runtime.split(",");
const rows = ROWS.filter((row) => texts.some((text) => keyOf(row).includes(text)));
const withTimer = texts.some((text) => "timer".includes(text));
if (
  !(rounds >= 1 && ms >= 1 && counts.every((count) => count >= 1)) ||
  runtimes.some((name) => name !== "deno" && name !== "bun") ||
  (rows.length === 0 && !withTimer)
) {
  console.error(
    "usage: deno task bench:programs [--rows=TEXT,...] [--rounds=3] [--threads=1,2] [--ms=100]\n" +
      "         [--runtime=deno,bun] [--no-peers] [--least] [--save]",
  );
  process.exit(2);
}

function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

function fail(message: string): void {
  progress("");
  console.error(message);
  process.exitCode = 1;
}

/** The processes for a number of threads; libraries that do not start are reported and left out. */
async function startPeers(threads: number, python: string | undefined): Promise<Peer[]> {
  const options = { cwd: root, env: environment(threads) };
  const worker = join(root, "bench", "programs", "worker.ts");
  const made: Peer[] = [];
  if (python !== undefined) {
    const script = join(root, "bench", "programs", "peer.py");
    for (const name of PEERS.filter((name) => rows.some((row) => row.statements[name]))) {
      made.push(new Peer(name, [python, script, name, `--threads=${threads}`], options));
    }
  }
  for (const runtime of runtimes) {
    const command = runtime === "deno"
      ? [findTool("deno"), "run", "-A", "--no-check", worker]
      : [findTool("bun"), worker];
    const name = runtime === "deno" ? "Deno" : "Bun";
    made.push(new Peer(name, [...command, `--threads=${threads}`], options));
  }
  const outcomes = await Promise.allSettled(made.map((peer) => peer.ready()));
  return made.filter((peer, i) => {
    const outcome = outcomes[i]!;
    if (outcome.status === "fulfilled") return true;
    console.error(`Cannot start ${peer.name}: ${outcome.reason.message}`);
    if (peer.name === "Deno" || peer.name === "Bun") process.exit(1);
    return false;
  });
}

function entrantsOf(peers: readonly Peer[]): Entrant[] {
  return peers.flatMap((peer): Entrant[] => {
    const { name } = peer;
    if (peer.ways.length === 0) return [{ name, peer }];
    return peer.ways.map((way) => {
      const ours = (way === "compiled" ? name : `${name} eager`) as Ours;
      return { name: ours, peer, way };
    });
  });
}

function requestFor({ name, way }: Entrant, row: Row, what: "prepare" | "time"): Request {
  const base: Request = { do: what, row: keyOf(row), ms };
  if (way !== undefined) return { ...base, way };
  const { inputs, statements, out } = row;
  return { ...base, inputs, statement: statements[name as PeerName]!, ...(out ? { out } : {}) };
}

/** Whether the entrant has the row. */
function has({ name, way }: Entrant, row: Row): boolean {
  return way !== undefined || row.statements[name as PeerName] !== undefined;
}

/** Prepares a row everywhere and compares the results; returns the entrants that agree. */
async function prepare(row: Row, entrants: readonly Entrant[], folder: string): Promise<Entrant[]> {
  const agreeing: Entrant[] = [];
  let expected: Float32Array | undefined;
  for (const [i, entrant] of entrants.filter((entrant) => has(entrant, row)).entries()) {
    const file = join(folder, `${i}`);
    const { error } = await entrant.peer.ask({ ...requestFor(entrant, row, "prepare"), file });
    if (error !== undefined) {
      fail(`${entrant.name} cannot do "${keyOf(row)}": ${error}`);
      continue;
    }
    const { buffer, byteOffset, byteLength } = readFileSync(file);
    const result = new Float32Array(buffer as ArrayBuffer, byteOffset, byteLength / 4);
    const problem = expected && disagreement(result, expected);
    if (problem === undefined) agreeing.push(entrant);
    else fail(`${entrant.name} disagrees with ${agreeing[0]!.name} in "${keyOf(row)}": ${problem}`);
    expected ??= result;
  }
  return agreeing;
}

/** Times rows group by group, as groups share inputs. */
async function measure(peers: readonly Peer[], threads: number, folder: string): Promise<Timing[]> {
  const timings: Timing[] = [];
  const entrants = entrantsOf(peers);
  for (const group of new Set(rows.map((row) => row.group))) {
    const mine: (Timing & { agreeing: Entrant[] })[] = [];
    for (const row of rows.filter((row) => row.group === group)) {
      progress(`preparing ${keyOf(row)}`);
      const agreeing = await prepare(row, entrants, folder);
      const lists = () => Object.fromEntries(agreeing.map(({ name }) => [name, []]));
      mine.push({ row, threads, agreeing, ns: lists(), least: lists() });
    }
    for (let round = 0; round < rounds; round++) {
      for (const { row, agreeing, ns, least } of mine) {
        progress(`${threads} threads, round ${round + 1} of ${rounds}: ${keyOf(row)}`);
        // Each round starts with another peer.
        for (let i = 0; i < agreeing.length; i++) {
          const entrant = agreeing[(i + round) % agreeing.length]!;
          const answer = await entrant.peer.ask(requestFor(entrant, row, "time"));
          if (answer.error !== undefined) throw new Error(`${entrant.name}: ${answer.error}`);
          ns[entrant.name]!.push(answer.ns!);
          least[entrant.name]!.push(answer.least!);
          if (threads > 1 && entrant.way === undefined) {
            await new Promise((resolve) => setTimeout(resolve, SPINNING));
          }
        }
      }
    }
    timings.push(...mine);
  }
  progress("");
  return timings;
}

/** Measures the lateness of timers, in turns. */
async function measureTimers(
  peers: readonly Peer[],
  threads: number,
  library: string,
): Promise<TimerRow[]> {
  const kinds = peers.filter(({ ways }) => ways.length > 0).flatMap((peer) =>
    TIMER_WORK.map((work) => ({ peer, work, figures: [] as TimerFigures[] }))
  );
  for (let round = 0; round < rounds; round++) {
    for (const { peer, work, figures } of kinds) {
      progress(`${threads} threads, round ${round + 1} of ${rounds}: a timer, ${work}`);
      const { timer, error } = await peer.ask({ do: "timer", work, file: library });
      if (error !== undefined) fail(`${peer.name} cannot do "${work}": ${error}`);
      else figures.push(timer!);
    }
  }
  progress("");
  return kinds.filter(({ figures }) => figures.length > 0).map(({ peer, work, figures }) => ({
    runtime: peer.name,
    threads,
    work,
    ...summarizeTimer(figures),
  }));
}

function save(results: Results): void {
  const folder = join(root, "bench", "results");
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${results.date}-programs.json`);
  writeFileSync(path, toJson(results));
  console.log(`wrote ${path}`);
  const whole = rows.length === ROWS.length && withTimer && counts.length > 1 &&
    runtimes.length === 2 && PEERS.every((name) => name in results.versions);
  if (!whole) return;
  const { date, machine, mode, versions } = results;
  const head = [
    `- \`${mode}\`, ${date}; medians of ${rounds} rounds`,
    `- ${machine}`,
    `- ${[...new Set(Object.values(versions))].join(", ")}`,
  ];
  writeTable("docs/benchmarks.md", `${head.join("\n")}\n\n${toMarkdown(results)}`, "programs");
}

await ensureInstalled();
const wanted = values["no-peers"]
  ? []
  : PEERS.filter((name) => rows.some((row) => row.statements[name]));
const packages = [...new Set(wanted.flatMap((name) => PACKAGES[name]))];
const python = findPython(packages, packages);
const began = performance.now();
const folder = mkdtempSync(join(tmpdir(), "rowmajor-programs-"));
const timings: Timing[] = [];
const timer: TimerRow[] = [];
const load: number[] = [];
let versions: Record<string, string> = {};
try {
  const library = withTimer ? compileSpin(folder) : "";
  for (const threads of counts) {
    load.push(Number((loadavg()[0]! / availableParallelism()).toFixed(2)));
    const peers = await startPeers(threads, values["no-peers"] ? undefined : python.path);
    versions = Object.fromEntries(peers.map(({ name, version }) => [name, version]));
    timings.push(...await measure(peers, threads, folder));
    if (withTimer) timer.push(...await measureTimers(peers, threads, library));
    await Promise.all(peers.map((peer) => peer.close()));
  }
} finally {
  rmSync(folder, { recursive: true });
}

const results: Results = {
  date: new Date().toISOString().slice(0, 10),
  machine: `${cpus()[0]?.model.trim() ?? "unknown"}, ${availableParallelism()} cores, ` +
    `${process.platform} ${process.arch}`,
  mode: ["deno task bench:programs", ...process.argv.slice(2).filter((arg) => arg !== "--save")]
    .join(" "),
  rounds,
  load,
  versions,
  rows: timings.map(summarize),
  timer,
};
const shown = values.least ? { ...results, rows: results.rows.map(byLeast) } : results;
console.log(`${toMarkdown(shown)}\n`);
console.log("ratio: the time divided by that of the fastest peer; below 1 is faster");
console.log(`${results.machine}; ${[...new Set(Object.values(versions))].join(", ")}`);
console.log(
  `${values.least ? "least" : "medians"} of ${rounds} rounds; ${
    ((performance.now() - began) / 1000).toFixed(0)
  } s`,
);
for (const [name, reason] of python.missing) console.log(`without ${name}: ${reason}`);
if (load[0]! > 0.5) {
  console.log(`The machine was busy before the run (load ${load.join(", ")} per core)`);
}
if (values.save) save(results);
