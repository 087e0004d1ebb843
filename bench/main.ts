/**
 * Times the work list in rowmajor on Deno and on Bun, in NumPy and in PyTorch, all in one run.
 *
 *     deno task bench [--quick] [--filter=text] [--backend=js|native] [--threads=1|all|both]
 *                     [--no-numpy] [--no-torch] [--save]
 *
 * The peers live as long as the run and take turns, row by row and round by round, so that
 * interference slows all of them. `--save` writes bench/results/ and, for a whole run, the tables
 * of docs/benchmarks.md and README. Knows nothing of how a row is timed.
 *
 * @module
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { ensureInstalled, root, writeTable } from "../scripts/tools.ts";
import { type Effort, measureMemory, measureTimes } from "./measure.ts";
import { Peer, type PeerName, type PeerOptions } from "./peers.ts";
import { findPython, type Package } from "./python_env.ts";
import {
  means,
  type Results,
  summarize,
  type Timing,
  toJson,
  toMarkdown,
  toMeans,
  toText,
} from "./report.ts";
import { WORK } from "./work.ts";
import { keyOf } from "./worker.ts";

interface Options {
  quick: boolean;
  filter: string;
  backend?: "js" | "native";
  threads?: "1" | "all" | "both";
  without: Set<Package>;
  save: boolean;
}

const USAGE = "usage: deno task bench [--quick] [--filter=text] [--backend=js|native]\n" +
  "         [--threads=1|all|both] [--no-numpy] [--no-torch] [--save]";

function parseOptions(args: readonly string[]): Options {
  const options: Options = { quick: false, filter: "", without: new Set(), save: false };
  for (let i = 0; i < args.length; i++) {
    const [name, value] = args[i].split("=", 2);
    if (name === "--quick") options.quick = true;
    else if (name === "--save") options.save = true;
    else if (name === "--no-numpy") options.without.add("numpy");
    else if (name === "--no-torch") options.without.add("torch");
    else if (name === "--filter") options.filter = value ?? args[++i] ?? "";
    else if (name === "--backend" && (value === "js" || value === "native")) {
      options.backend = value;
    } else if (name === "--threads" && (value === "1" || value === "all" || value === "both")) {
      options.threads = value;
    } else {
      console.error(USAGE);
      process.exit(2);
    }
  }
  // A short run checks the goals of the JavaScript loops.
  if (options.quick) options.backend ??= "js";
  options.threads ??= options.quick ? "1" : "both";
  return options;
}

const EFFORT = { quick: { ms: 10, rounds: 7 }, long: { ms: 20, rounds: 7 } };

/** Starts the peers; reports and omits other libraries that do not start. */
async function startPeers(names: readonly PeerName[], options: PeerOptions): Promise<Peer[]> {
  const started = names.map((name) => new Peer(name, options));
  const outcomes = await Promise.allSettled(started.map((peer) => peer.ready()));
  return started.filter((peer, i) => {
    const outcome = outcomes[i];
    if (outcome.status === "fulfilled") return true;
    console.error(`Cannot start ${peer.name}: ${outcome.reason.message}`);
    if (peer.name === "Deno" || peer.name === "Bun") process.exit(1);
    return false;
  });
}

/** The tables of a run for docs/benchmarks.md, and its configuration. */
function describe(results: Results): string {
  const { date, machine, versions, backend, mode } = results;
  return [
    `- \`${mode}\`, ${date}, backend ${backend}`,
    `- ${machine}`,
    `- ${Object.values(versions).join(", ")}`,
    `\n${toMarkdown(results)}`,
  ].join("\n");
}

/** Writes the run to bench/results/, and a whole run to the pages and their picture. */
async function save(results: Results, quick: boolean): Promise<void> {
  const folder = join(root, "bench", "results");
  mkdirSync(folder, { recursive: true });
  const name = `${results.date}-${results.backend}${quick ? "-quick" : ""}.json`;
  writeFileSync(join(folder, name), toJson(results));
  console.log(`wrote ${join(folder, name)}`);
  const whole = rows.length === WORK.length && options.threads === "both" && !quick;
  if (whole && results.backend === "native" && options.without.size === 0) {
    writeTable("docs/benchmarks.md", describe(results));
    writeTable("README.md", toMeans(results));
    const { writeChart } = await import("./chart.ts");
    writeChart();
  }
}

/** The result of the goals for the run. */
function verdict(results: Results): string[] {
  const { rows, backend } = results;
  const set = rows.filter(({ goal }) => goal !== undefined);
  const missed = set.filter(({ misses }) => misses.length > 0);
  const lines = set.length > 0
    ? [`goals: ${set.length - missed.length} of ${set.length} rows met`]
    : [];
  if (backend === "js") return lines;
  for (const { group, name, threads, ratio, goal, misses } of missed) {
    const by = misses.map((peer) => `${peer} ${ratio[peer]!.toFixed(2)}×`).join(", ");
    lines.push(`  missed, ${threads} threads: ${group}/${name}: ${by}; ${goal}`);
  }
  for (const { name, threads, ratio, goal, misses } of means(results)) {
    if (misses.length === 0) continue;
    const by = misses.map((peer) => `${peer} ${ratio[peer]!.toFixed(2)}×`).join(", ");
    lines.push(`  missed, ${threads} threads: the mean of ${name}: ${by}; ≤ ${goal}×`);
  }
  return lines;
}

const options = parseOptions(process.argv.slice(2));
await ensureInstalled();
const rows = WORK.filter((row) =>
  !(options.quick && row.long) && keyOf(row).includes(options.filter)
);
if (rows.length === 0) {
  console.error(`No row's group or name contains "${options.filter}"`);
  process.exit(2);
}
const wanted: readonly Package[] = (["numpy", "torch"] as const)
  .filter((name) => !options.without.has(name));
// PyTorch is large: a short run uses an installed one and does not download it. A short run waits
// for NumPy, but not for gigabytes.
const python = findPython(wanted, options.quick ? ["numpy"] : wanted);
const has = (name: Package) => wanted.includes(name) && !python.missing.has(name);
const began = performance.now();
let names: PeerName[] = [
  ...(has("numpy") ? ["NumPy" as const] : []),
  ...(has("torch") ? ["PyTorch" as const] : []),
  "Deno",
  "Bun",
];

const cores = availableParallelism();
const counts = options.threads === "both"
  ? [...new Set([1, cores])]
  : [options.threads === "all" ? cores : 1];
const effort: Effort = options.quick ? EFFORT.quick : EFFORT.long;
const timings: Timing[] = [];
let versions: Results["versions"] = {};
let backend: Results["backend"] = "js";
for (const threads of counts) {
  const peers = await startPeers(names, { ...options, threads, python: python.path });
  names = peers.map((peer) => peer.name);
  versions = Object.fromEntries(peers.map((peer) => [peer.name, peer.version]));
  const runtimes = peers.filter(({ serves }) => serves !== undefined);
  const serving = runtimes.map(({ name, serves }) => `${name}: ${serves}`).join(", ");
  console.log(`${threads} of ${cores} threads; backends: ${serving}`);
  backend = runtimes.every(({ serves }) => serves === "native") ? "native" : "js";
  const served = rows.filter((row) => !(backend === "js" && row.heavy));
  timings.push(...await measureTimes(served, peers, threads, effort));
  await Promise.all(peers.map((peer) => peer.close()));
}
const memory = options.quick ? [] : await measureMemory(
  rows.filter((row) => row.memory),
  names,
  { ...options, threads: counts.at(-1)!, python: python.path },
);

const results: Results = {
  date: new Date().toISOString().slice(0, 10),
  machine: `${cpus()[0]?.model.trim() ?? "unknown"}, ${cores} cores, ` +
    `${process.platform} ${process.arch}`,
  versions,
  backend,
  mode: ["deno task bench", ...process.argv.slice(2).filter((arg) => arg !== "--save")].join(" "),
  rows: timings.map((timing) => summarize(timing, backend)),
  memory,
};
const seconds = ((performance.now() - began) / 1000).toFixed(0);
console.log(Object.values(results.versions).join(", "));
console.log(`${results.machine}; medians of ${effort.rounds} rounds; ${seconds} s\n`);
console.log(toText(results));
console.log(
  "\nratio: the time divided by that of the faster of NumPy and PyTorch; below 1 is faster",
);
for (const name of options.without) console.log(`without ${name}, as asked`);
for (const [name, reason] of python.missing) console.log(`without ${name}: ${reason}`);
for (const line of verdict(results)) console.log(line);

// One of the peers is always running; any further load takes the processor from them.
const others = loadavg()[0] - Math.max(...counts);
if (others > cores - 1) {
  console.log(`The machine was busy (${others.toFixed(1)} other processes): times are too long`);
}

if (options.save) await save(results, options.quick);
