/**
 * Measures rowmajor on Deno and Bun beside other libraries, all in one run.
 *
 *     deno task bench [SUITE...] [--rows=REGEX] [--threads=1,2] [--rounds=N] [--ms=N] [--quick]
 *                     [--runtimes=deno,bun] [--backend=js|wasm|native] [--level=v3]
 *                     [--peers=NAME,...|none] [--before=FOLDER] [--install] [--save] [--pages] [--list]
 *
 * Without a SUITE, the six usual ones run. `--save` writes bench/results/, and for a whole run the
 * tables of the documents; `--pages` only writes the tables, from the newest results. `--level=v3`
 * holds all sides to AVX2 by their own switches. `--before` adds another checkout, whose library is
 * built, and it once again as the control, which shows the noise. Peers that are missing are reported
 * and left out; `--install` installs those in Python in `.venv`.
 *
 * @module
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus, loadavg } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { ensureInstalled, root } from "../scripts/tools.ts";
import { fileOf, writePages } from "./harness/pages.ts";
import { installPeers } from "./harness/python.ts";
import { type Results, type SideInfo, summarize, toJson } from "./harness/results.ts";
import { measureRows, type Timing } from "./harness/runner.ts";
import { NO_SWITCH, servedSides } from "./harness/served.ts";
import { keyOf, type RunOptions, RUNTIMES, type Side, type Suite } from "./harness/suite.ts";
import { printed } from "./harness/tables.ts";
import { loadSuite, SUITES, USUAL } from "./suites/mod.ts";

const USAGE =
  `usage: deno task bench [SUITE...] [--rows=REGEX] [--threads=1,2] [--rounds=N] [--ms=N]
         [--quick] [--runtimes=deno,bun] [--backend=js|wasm|native] [--level=v3]
         [--peers=NAME,...|none] [--before=FOLDER] [--install] [--save] [--pages] [--list]
suites: ${SUITES.join(", ")}

--rows=REGEX      only rows whose group/name matches; --list prints them
--threads=1,2     numbers of threads; by default 1 and all cores
--rounds=N        timings of each row
--ms=N            milliseconds of a timing
--quick           half as long, at most two rounds, one number of threads, no long rows
--runtimes=deno   one runtime only
--backend=js      JavaScript loops instead of the native library
--level=v3        all sides held to AVX2, by their own switches
--peers=NAME,...  these peers only; none
--before=FOLDER   also another checkout, and it once again as the control
--install         install the missing peers in Python in .venv
--save            write bench/results/, and for a whole run the tables of the documents
--pages           write the tables of the documents from the newest results, and measure nothing
--list            print the suites, or the rows of those that are named`;

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        rows: { type: "string", default: "" },
        threads: { type: "string" },
        rounds: { type: "string" },
        ms: { type: "string" },
        quick: { type: "boolean", default: false },
        runtimes: { type: "string", default: "deno,bun" },
        backend: { type: "string" },
        level: { type: "string" },
        peers: { type: "string" },
        before: { type: "string" },
        install: { type: "boolean", default: false },
        save: { type: "boolean", default: false },
        pages: { type: "boolean", default: false },
        list: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
  } catch (error) {
    return fail(`${(error as Error).message}\n${USAGE}`);
  }
}

const args = process.argv.slice(2);
const { values, positionals } = parse(args);
if (values.help) {
  console.log(USAGE);
  process.exit();
}
const names = positionals.length > 0 ? positionals : USUAL;
const unknown = names.find((name) => !SUITES.includes(name));
if (unknown !== undefined) fail(`There is no suite "${unknown}"\n${USAGE}`);
const pattern = new RegExp(values.rows);
const runtimes = RUNTIMES.filter((name) => values.runtimes.split(",").includes(name.toLowerCase()));
// Another checkout is compared alone.
const peers = values.peers ?? (values.before === undefined ? undefined : "none");
const counts = values.threads?.split(",").map(Number);
const numbers = [...counts ?? [], ...[values.rounds, values.ms].flatMap((x) => x ?? [])];
if (
  runtimes.length === 0 || numbers.some((x) => !(Number(x) >= 1)) ||
  ![undefined, "js", "wasm", "native"].includes(values.backend) ||
  ![undefined, "v3"].includes(values.level)
) fail(USAGE);

/** The largest instruction set of this processor. */
function instructions(): string {
  if (process.arch === "arm64") return "NEON";
  if (!existsSync("/proc/cpuinfo")) return "x86-64";
  const flags = new Set(
    /^flags\s*:(.*)$/m.exec(readFileSync("/proc/cpuinfo", "utf8"))?.[1]?.split(" "),
  );
  if (flags.has("avx512f")) return flags.has("amx_tile") ? "AVX-512 and AMX" : "AVX-512";
  return flags.has("avx2") ? "AVX2" : "SSE4.2";
}

/** The commit of this checkout, with a mark if sources differ from it. */
function commit(): string {
  try {
    const git = (...args: string[]) =>
      execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: "pipe" }).trim();
    const changed = git("status", "--porcelain", "--", "src", "shim", "bench", ":!bench/results");
    return git("rev-parse", "--short=10", "HEAD") + (changed === "" ? "" : " and changes");
  } catch {
    return "unknown";
  }
}

function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}

function report(message: string): void {
  progress("");
  console.error(message);
}

/** Runs a suite; undefined if it cannot run. */
async function run(
  name: string,
  suite: Suite,
): Promise<{ results: Results; part: boolean } | void> {
  const unable = suite.unable?.();
  if (unable !== undefined) return report(`${name}: ${unable}`);
  const rows = suite.rows.filter((row) => pattern.test(keyOf(row)) && !(values.quick && row.long));
  if (rows.length === 0) return report(`${name}: no row matches ${pattern}`);
  const rounds = Number(values.rounds ?? (values.quick ? Math.min(2, suite.rounds) : suite.rounds));
  const ms = Number(values.ms ?? (values.quick ? suite.ms / 2 : suite.ms));
  const all = suite.threads ?? [...new Set([1, availableParallelism()])];
  const threads = counts ?? (values.quick ? all.slice(0, 1) : all);
  const missing: Record<string, string> = {};
  const timings: Timing[] = [];
  const load: number[] = [];
  const began = new Map<string, SideInfo>();
  let backend = (values.backend ?? "native") as Results["backend"];
  let isWhole = rows.length === suite.rows.length && threads.length === all.length;
  for (const count of threads) {
    load.push(Number((loadavg()[0]! / availableParallelism()).toFixed(2)));
    const options: RunOptions = {
      ...{ suite: name, threads: count, ms, runtimes },
      ...(values.backend === undefined ? {} : { backend }),
      ...(values.level === undefined ? {} : { level: "v3" as const }),
      ...(peers === undefined ? {} : { peers: peers.split(",") }),
      ...(values.before === undefined ? {} : { before: values.before }),
      without: (peer, reason) => {
        if (!(peer in missing)) report(`${name}: without ${peer}: ${reason}`);
        missing[peer] = reason;
      },
    };
    const sides: Side[] = await (suite.sides ?? ((options) => servedSides(suite, options)))(
      options,
    );
    try {
      timings.push(
        ...await measureRows(suite, rows, sides, {
          ...{ threads: count, rounds, progress },
          fail: (message) => {
            report(message);
            process.exitCode = 1;
          },
        }),
      );
    } finally {
      await Promise.all(sides.map((side) => side.close()));
    }
    for (const side of sides) {
      const { name, peer, runtime, version, level } = side;
      began.set(name, {
        ...{ name, peer, version },
        ...(runtime === undefined ? {} : { runtime }),
        ...(level === undefined ? {} : { level }),
      });
      if (level === "none") backend = "js";
      if (level === "WebAssembly") backend = "wasm";
    }
  }
  progress("");
  const sides = [...began.values()];
  // A run without a peer that it was to have does not replace the tables.
  const lacks = Object.values(missing).some((reason) => reason !== NO_SWITCH);
  if (lacks || peers === "none" || runtimes.length < 2) isWhole = false;
  const results: Results = {
    suite: name,
    date: new Date().toISOString().slice(0, 10),
    commit: commit(),
    command: [
      "deno task bench",
      name,
      ...args.filter((arg) => !SUITES.includes(arg) && arg !== "--save"),
    ].join(" "),
    machine: {
      processor: cpus()[0]?.model.trim() ?? "unknown",
      cores: availableParallelism(),
      system: `${process.platform} ${process.arch}`,
      instructions: instructions(),
    },
    ...(values.level === undefined ? {} : { level: "v3" as const }),
    backend,
    rounds,
    load,
    sides,
    missing,
    rows: timings.map((timing) => summarize(timing, sides)),
  };
  return { results, part: !isWhole || values.quick };
}

if (values.list) {
  for (const name of names) {
    const { title, rows } = await loadSuite(name);
    console.log(`${name}: ${title}, ${rows.length} rows`);
    if (positionals.length > 0) {
      for (const row of rows.map(keyOf).filter((row) => pattern.test(row))) console.log(`  ${row}`);
    }
  }
} else if (values.pages) {
  await writePages();
} else {
  await ensureInstalled();
  for (const name of names) {
    const suite = await loadSuite(name);
    if (values.install) installPeers(suite.python ?? [], suite.modules);
    const made = await run(name, suite);
    if (made === undefined) continue;
    // Goals are those beside other libraries.
    const { goal: _goal, meanGoal: _meanGoal, ...compared } = suite;
    console.log(printed(made.results, values.before === undefined ? suite : compared) + "\n");
    if (!values.save) continue;
    const file = fileOf(made.results, made.part);
    writeFileSync(join(root, file), toJson(made.results));
    console.log(`wrote ${file}`);
    if (made.part) console.log("not a whole run with all peers: the tables of documents stay");
    else await writePages();
  }
}
process.exit();
