/**
 * Measures the rows of a suite in its own runtime.
 *
 *     worker.ts --suite=NAME --threads=N [--backend=js|wasm|native] [--cold]
 *     worker.ts --suite=NAME --threads=N --group=NAME
 *
 * The first answers requests, JSON lines on stdin: `prepare` a row (make its inputs, warm it up,
 * choose the number of calls), `time` it once, or call it a few times and report the `memory` of the
 * process. Unless `--cold` is given, more than twenty ops run on six dtypes and four layouts before
 * the first request, as in any real program: otherwise engines would specialize for the only op that
 * they have seen. peer.py follows the same protocol. The second runs a group of a whole suite, and
 * prints its figures. Knows nothing of the other sides.
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import process from "node:process";
import { parseArgs } from "node:util";
import * as rm from "../../mod.ts";
import { loadSuite } from "../suites/mod.ts";
import { make } from "./inputs.ts";
import {
  type AnyTensor,
  type Figure,
  type Input,
  keyOf,
  type Outcome,
  peakBytes,
  type ServedRow,
  Stopwatch,
  type Suite,
  type Tensors,
} from "./suite.ts";

/** A request to a worker. */
export interface Request {
  readonly do: "prepare" | "time" | "memory";
  /** The key of the row. */
  readonly row: string;
  /** rowmajor only: see {@link Suite.ways}. */
  readonly way?: string;
  /** Milliseconds of a timing. */
  readonly ms: number;
  /** Where to write the row's result, as float32. */
  readonly file?: string;
  /** For other languages: the row's inputs, statement and kind of `out`. */
  readonly inputs?: Readonly<Record<string, Input>>;
  readonly statement?: string;
  readonly out?: ServedRow["out"];
}

/** The answer: a figure, or an error. */
export interface Answer {
  readonly figure?: Figure;
  /** For `memory`: the largest resident set, in bytes. */
  readonly peak?: number;
  readonly error?: string;
  /** On the first line only. */
  readonly version?: string;
  /** On the first line only: rowmajor's backend, and its instruction set. */
  readonly backend?: "js" | "native" | "wasm";
  readonly level?: string;
}

/** The last line of a process that measures a whole group. */
export interface Whole extends Outcome {
  readonly version: string;
  readonly level?: string;
}

/**
 * Milliseconds of a batch of calls: less than the slice of time after which the system runs another
 * process, so that the fastest batch runs undisturbed.
 */
const BATCH = 1;
const LEAST_BATCHES = 3;
/** The number of calls for a measurement of memory. */
const MEMORY_CALLS = 20;

interface Prepared {
  readonly run: () => unknown;
  /** See {@link BATCH}. */
  calls: number;
  batches: number;
}

let suite: Suite;
let threads: number;
let group = "";
let sink: unknown;
const prepared = new Map<string, Prepared>();
let tensors = new Map<string, AnyTensor>();

/** The tensors of a row. Rows of a group share those that are equal, except what they write to. */
function inputsOf({ inputs }: ServedRow): Tensors {
  return Object.fromEntries(
    Object.entries(inputs).map(([name, input], i) => {
      const id = `${name} ${i} ${JSON.stringify(input)}`;
      const x = tensors.get(id) ?? make(input, i);
      tensors.set(id, x);
      return [name, x];
    }),
  );
}

/** Calls `run` the given number of times; returns milliseconds. */
function repeat(run: () => unknown, calls: number): number {
  const begin = performance.now();
  for (let i = 0; i < calls; i++) sink = run();
  return performance.now() - begin;
}

const collect: () => void = ((): () => void => {
  const { gc, Bun } = globalThis as { gc?: () => void; Bun?: { gc(now: boolean): void } };
  return gc ?? (() => Bun?.gc(true));
})();

function planOf(one: number, ms: number): Pick<Prepared, "calls" | "batches"> {
  return {
    calls: Math.max(1, Math.round(BATCH / one)),
    batches: Math.max(LEAST_BATCHES, Math.round(ms / Math.max(BATCH, one))),
  };
}

async function prepare(row: ServedRow, { way = "", ms, file }: Request): Promise<void> {
  if (row.group !== group) {
    prepared.clear();
    tensors = new Map();
    group = row.group;
    // Otherwise small calls would pay for the large arrays of earlier groups.
    rm.emptyCache();
    collect();
  }
  if (row.measure !== undefined) return;
  const { run, result } = await row.call(inputsOf(row), way);
  if (file !== undefined && result !== undefined) {
    writeFileSync(file, result().astype("float32").toTypedArray());
  }
  // Long enough for every tier of the engine; then the number of calls that fill the time.
  let [calls, spent, took] = [1, 0, 0];
  while (spent < 4 * ms || (took < ms / 4 && calls < 1e8)) {
    took = repeat(run, calls);
    spent += took;
    if (took < ms / 2) calls *= 2;
  }
  const one = repeat(run, calls) / calls;
  prepared.set(`${keyOf(row)} ${way}`, { run, ...planOf(one, ms) });
}

async function time(row: ServedRow, { way = "", ms }: Request): Promise<Figure> {
  if (row.measure !== undefined) return await row.measure(threads);
  const one = prepared.get(`${keyOf(row)} ${way}`)!;
  // Earlier work has left garbage, and engines drop code that has not run for a while: an untimed
  // lead-in warms this row up again. If it takes less than half of its time, the first calls,
  // which determined the count, were slow because they got new memory.
  const half = Math.ceil(one.batches / 2);
  for (;;) {
    const lead = repeat(one.run, half * one.calls);
    if (lead >= ms / 4 || one.batches === LEAST_BATCHES) break;
    Object.assign(one, planOf(lead / (half * one.calls), ms));
  }
  const { run, calls, batches } = one;
  const watch = new Stopwatch();
  const times = Array.from({ length: batches }, () => repeat(run, calls));
  return { ...watch.read(calls * batches), least: Math.min(...times) * 1e6 / calls };
}

async function answer(request: Request): Promise<Answer> {
  const row = suite.rows.find((candidate) => keyOf(candidate) === request.row) as ServedRow;
  if (row === undefined) return { error: `no row ${request.row}` };
  if (request.do === "time") return { figure: await time(row, request) };
  if (request.do === "memory") {
    repeat((await row.call(inputsOf(row), request.way ?? "")).run, MEMORY_CALLS);
    return { peak: peakBytes() };
  }
  await prepare(row, request);
  return {};
}

const BINARY = ["add", "sub", "mul", "maximum", "minimum", "less", "equal", "floorDivide"] as const;
const UNARY = ["square", "sqrt", "exp", "tanh", "relu", "sign", "abs", "isnan"] as const;

/** More than twenty ops on six dtypes and four layouts; then the small rows of primitives. */
async function warmUp(): Promise<void> {
  for (const dtype of ["float32", "int32", "float64", "uint8", "int64", "float16"] as const) {
    const [a, b] = [1, 2].map((i) => make({ dtype, shape: [24, 24] }, i)) as [AnyTensor, AnyTensor];
    const others = [b, b.T, b.slice(0), b.flip(0), b.slice(":", ":1")] as AnyTensor[];
    for (let n = 0; n < 60; n++) {
      for (const other of others) {
        for (const op of BINARY) sink = (a[op] as (y: AnyTensor) => unknown)(other);
        sink = rm.where(a.less(other), a, other);
      }
      for (const op of UNARY) sink = a[op]();
      sink = [a.sum(0), a.max(1), a.mean(), a.argmax(1), a.cumulativeSum(0), a.matmul(b)];
      sink = [a.T.contiguous(), a.astype("float32"), a.sort(), a.reshape([-1]), a.add(1)];
    }
  }
  // Otherwise engines would compile the timing loop together with its only row, and hoist constant
  // work out of the loop.
  const { rows } = await loadSuite("primitives");
  for (const row of rows as readonly ServedRow[]) {
    if (row.group === "small sizes" || row.group === "views") {
      repeat((await row.call(inputsOf(row), "")).run, 300);
    }
  }
  tensors.clear();
}

function versionOf(): string {
  const name = process.versions.bun ? "Bun" : "Deno";
  return `${name} ${process.versions[name.toLowerCase()]}`;
}

const LEVELS: Readonly<Record<string, string>> = {
  "x86-64-v2": "SSE4.2",
  "x86-64-v3": "AVX2",
  "x86-64-v4": "AVX-512",
};

/** The name of the instruction set that rowmajor uses. */
function levelOf(): string {
  const { level, devices } = rm.info();
  if (devices.cpu === "wasm") return "WebAssembly";
  return level === null ? "none" : LEVELS[level] ?? level;
}

async function start(backend: string | undefined, cold: boolean): Promise<Answer> {
  if (backend !== undefined) rm.setBackend(backend as "js" | "native" | "wasm");
  rm.setThreads(threads);
  if (!cold) await warmUp();
  const serves = rm.info().devices.cpu as "js" | "native" | "wasm";
  return { version: versionOf(), backend: serves, level: levelOf() };
}

async function attempt(body: () => Promise<Answer>): Promise<void> {
  let message: Answer;
  try {
    message = await body();
  } catch (error) {
    message = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(message) + "\n");
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      suite: { type: "string" },
      threads: { type: "string", default: "1" },
      backend: { type: "string" },
      cold: { type: "boolean", default: false },
      group: { type: "string" },
    },
  });
  suite = await loadSuite(values.suite!);
  threads = Number(values.threads);
  if (values.group !== undefined) {
    if (values.backend !== undefined) rm.setBackend(values.backend as "js" | "native" | "wasm");
    rm.setThreads(threads);
    const outcome = await suite.run!(values.group, threads);
    if (outcome === undefined) process.exit(0);
    const whole: Whole = { version: versionOf(), level: levelOf(), ...outcome };
    process.stdout.write(JSON.stringify(whole) + "\n", () => process.exit(0));
  } else {
    await attempt(() => start(values.backend, values.cold));
    for await (const line of createInterface({ input: process.stdin })) {
      await attempt(() => answer(JSON.parse(line)));
    }
    // Prevents engines from removing the results as unused.
    if (sink === prepared) throw new Error();
  }
}
