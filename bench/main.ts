/**
 * Times the work list in rowmajor on Deno and on Bun and in NumPy, all in one run.
 *
 *     deno task bench [--quick] [--filter=text] [--threads=all] [--no-numpy] [--save]
 *
 * The peers live as long as the run and take turns, row by row and round by round, so that whatever
 * slows the machine down slows all of them. `--save` writes bench/results/ and the table of
 * docs/benchmarks.md. Knows nothing of how a row is timed.
 *
 * @module
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { ensureInstalled, root } from "../scripts/tools.ts";
import { type Peer, startNumpy, startRuntime } from "./peers.ts";
import { findPython } from "./python_env.ts";
import { type Results, summarize, type Timing, toMarkdown, toText } from "./report.ts";
import { type Row, WORK } from "./work.ts";
import { keyOf } from "./worker.ts";

interface Options {
  quick: boolean;
  filter: string;
  threads: "1" | "all";
  numpy: boolean;
  save: boolean;
}

function parseOptions(args: readonly string[]): Options {
  const options: Options = { quick: false, filter: "", threads: "1", numpy: true, save: false };
  for (let i = 0; i < args.length; i++) {
    const [name, value] = args[i].split("=", 2);
    if (name === "--quick") options.quick = true;
    else if (name === "--save") options.save = true;
    else if (name === "--no-numpy") options.numpy = false;
    else if (name === "--filter") options.filter = value ?? args[++i] ?? "";
    else if (name === "--threads" && (value === "all" || value === "1")) options.threads = value;
    else {
      console.error(
        "usage: deno task bench [--quick] [--filter=text] [--threads=1|all] [--no-numpy] [--save]",
      );
      process.exit(2);
    }
  }
  return options;
}

/** Milliseconds of a timing, and how many there are of each row. */
const LENGTH = { quick: { ms: 15, rounds: 7 }, long: { ms: 50, rounds: 9 } };

/** True where the peer can do the row. */
function takes(peer: Peer, row: Row): boolean {
  return peer.name !== "NumPy" || row.numpy !== undefined;
}

function requestFor(peer: Peer, row: Row, what: "prepare" | "time", ms: number) {
  const base = { do: what, row: keyOf(row), ms };
  return peer.name === "NumPy" && what === "prepare"
    ? { ...base, inputs: row.inputs, statement: row.numpy }
    : base;
}

/**
 * Times all rows of a group, round by round; a row that fails anywhere is told, and left out.
 *
 * Group by group, so that the small calls do not run in a heap full of the large arrays of others.
 */
async function measure(
  rows: readonly Row[],
  peers: readonly Peer[],
  ms: number,
  rounds: number,
): Promise<Timing[]> {
  const timings = rows.map((row) => ({ row, ns: {} as Record<string, number[]> }));
  const total = rounds + 1;
  for (let round = 0; round < total; round++) {
    for (const [i, { row, ns }] of timings.entries()) {
      progress(
        `${row.group}, round ${round} of ${rounds}, row ${i + 1} of ${rows.length}: ${row.name}`,
      );
      // Each round another peer begins.
      for (let k = 0; k < peers.length; k++) {
        const peer = peers[(k + round) % peers.length];
        if (!takes(peer, row) || (round > 0 && ns[peer.name] === undefined)) continue;
        const what = round === 0 ? "prepare" : "time";
        const answer = await peer.ask(requestFor(peer, row, what, ms));
        if (answer.error !== undefined) {
          progress("");
          console.error(`${peer.name} cannot do "${keyOf(row)}": ${answer.error}`);
          process.exitCode = 1;
          delete ns[peer.name];
        } else if (round === 0) ns[peer.name] = [];
        else ns[peer.name].push(answer.ns!);
      }
    }
  }
  progress("");
  return timings;
}

function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

/** Replaces what lies between the markers of docs/benchmarks.md. */
function saveTable(results: Results, peers: readonly string[]): void {
  const path = join(root, "docs", "benchmarks.md");
  const text = readFileSync(path, "utf8");
  const [begin, end] = ["<!-- table -->\n", "<!-- /table -->"];
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`Cannot find the table's markers in ${path}`);
  const { date, machine, versions, mode, rows } = results;
  const about = [
    `- \`${mode}\`, ${date}`,
    `- ${machine}`,
    `- ${Object.values(versions).join(", ")}`,
  ].join("\n");
  const made = `\n${about}\n\n${toMarkdown(rows, peers)}\n\n`;
  writeFileSync(path, text.slice(0, from + begin.length) + made + text.slice(to));
  console.log(`wrote ${path}`);
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
const python = options.numpy ? findPython(true) : { reason: "--no-numpy was given" };
const began = performance.now();
const peers = [
  ...("path" in python ? [startNumpy(python.path, options.threads)] : []),
  startRuntime("Deno", options.threads),
  startRuntime("Bun", options.threads),
];
const names = peers.map((peer) => peer.name);
for (const peer of peers) await peer.ready();

const { ms, rounds } = options.quick ? LENGTH.quick : LENGTH.long;
const timings: Timing[] = [];
for (const group of new Set(rows.map((row) => row.group))) {
  timings.push(...await measure(rows.filter((row) => row.group === group), peers, ms, rounds));
}
for (const peer of peers) peer.close();

const results: Results = {
  date: new Date().toISOString().slice(0, 10),
  machine: `${cpus()[0]?.model.trim() ?? "unknown"}, ${availableParallelism()} cores, ` +
    `${process.platform} ${process.arch}`,
  versions: Object.fromEntries(peers.map((peer) => [peer.name, peer.version])),
  mode: ["deno task bench", ...process.argv.slice(2).filter((arg) => arg !== "--save")].join(" "),
  rows: timings.map(summarize),
};
const seconds = ((performance.now() - began) / 1000).toFixed(0);
const threads = options.threads === "1" ? "1 thread" : "all threads";
console.log(`${Object.values(results.versions).join(", ")}; ${threads}`);
console.log(`${results.machine}; medians of ${rounds} rounds; ${seconds} s\n`);
console.log(toText(results.rows, names));
if ("reason" in python) console.log(`\nNo NumPy and no ratios: ${python.reason}`);
else console.log("\nratio: the time divided by NumPy's, round by round; below 1 is faster");
const missed = results.rows.filter(({ misses }) => misses !== undefined && misses.length > 0);
const set = results.rows.filter(({ goal }) => goal !== undefined);
if (set.length > 0) console.log(`goals: ${set.length - missed.length} of ${set.length} rows met`);

// One of the peers is always at work; what is beyond that takes the processor from them.
const others = loadavg()[0] - 1;
if (others > availableParallelism() - 1) {
  console.log(`The machine was busy (${others.toFixed(1)} other processes): times are too long`);
}

if (options.save) {
  const folder = join(root, "bench", "results");
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${results.date}${options.quick ? "-quick" : ""}.json`);
  writeFileSync(path, JSON.stringify(results, null, 2) + "\n");
  console.log(`\nwrote ${path}`);
  saveTable(results, names);
}
