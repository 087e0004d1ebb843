/**
 * Times rows of the work list in its own runtime, one at a time, by requests on stdin.
 *
 *     worker.ts [--threads=N] [--backend=js|native] [--cold]
 *
 * Each input line is a JSON request, each output line its answer: `prepare` a row (make its inputs,
 * warm it up, choose the number of calls), `time` it once, or call it a given number of times and
 * report the `memory` of the process. Unless `--cold` is given, more than twenty ops run on six
 * dtypes and four layouts before the first request, as in any real program: otherwise engines would
 * specialize for the only op they have seen, and figures would be too good. Knows nothing of the
 * other peers.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import process from "node:process";
import { parseArgs } from "node:util";
import * as rm from "../mod.ts";
import { type Input, type Row, type Tensors, WORK } from "./work.ts";

/** A request to a worker. */
export interface Request {
  /** The command. */
  readonly do: "prepare" | "time" | "memory";
  /** The row's name and group, which identify it. */
  readonly row: string;
  /** The duration of a timing in milliseconds. */
  readonly ms: number;
  /** The number of calls for a measurement of memory. */
  readonly calls?: number;
  /** For other languages: the row's inputs and statement. */
  readonly inputs?: Readonly<Record<string, Input>>;
  /** See {@link inputs}. */
  readonly statement?: string;
}

/** The answer: the time of a call, or an error. */
export interface Answer {
  /** Nanoseconds for each call. */
  readonly ns?: number;
  /** The largest resident set so far, in bytes. */
  readonly peak?: number;
  /** The same before the row's inputs were made. */
  readonly before?: number;
  /** The error. */
  readonly error?: string;
  /** On the first line only: the version of the peer. */
  readonly version?: string;
  /** On the first line only: the backend in use. */
  readonly serves?: string;
}

/** Names a row in requests. */
export function keyOf(row: Row): string {
  return `${row.group}/${row.name}`;
}

const made = new Map<string, rm.Tensor<rm.DType>>();

/** The tensor that `input` describes. Rows share their inputs, except those they write to. */
function make(name: string, input: Input, key: rm.random.Key): rm.Tensor<rm.DType> {
  const id = `${name} ${JSON.stringify(input)}`;
  let x = made.get(id);
  if (x === undefined) made.set(id, x = fresh(input, key));
  return x;
}

function fresh({ dtype, shape, below, positive }: Input, key: rm.random.Key): rm.Tensor<rm.DType> {
  if (below !== undefined) return rm.random.integers(key, shape, 0, below).astype(dtype);
  if (dtype === "bool") return rm.random.integers(key, shape, 0, 2).astype(dtype);
  if (dtype.includes("float")) {
    const x = rm.random.normal(key, shape);
    return (positive ? x.abs() : x).astype(dtype);
  }
  return rm.random.integers(key, shape, 1, 101).astype(dtype);
}

let sink: unknown;

/** Calls `body` the given number of times; returns milliseconds. */
function run(body: () => unknown, calls: number): number {
  const begin = performance.now();
  for (let i = 0; i < calls; i++) sink = body();
  return performance.now() - begin;
}

/** More than twenty ops on six dtypes and four layouts. */
export function warmUp(): void {
  const key = rm.random.key(1);
  for (const dtype of ["float32", "int32", "float64", "uint8", "int64", "float16"] as const) {
    const a = fresh({ dtype, shape: [24, 24] }, key).asDynamic();
    const b = fresh({ dtype, shape: [24, 24] }, key).asDynamic();
    const others = [b, b.T, b.slice(0), b.flip(0), b.slice(":, :1")] as rm.Tensor<rm.DType>[];
    for (let n = 0; n < 60; n++) {
      for (const other of others) {
        for (const op of BINARY) sink = (a[op] as (y: rm.Tensor<rm.DType>) => unknown)(other);
        sink = rm.where(a.less(other), a, other);
      }
      for (const op of UNARY) sink = a[op]();
      sink = [a.sum(0), a.max(1), a.mean(), a.argmax(1), a.cumulativeSum(0), a.matmul(b)];
      sink = [a.T.contiguous(), a.astype("float32"), a.sort(), a.reshape([-1]), a.add(1)];
    }
  }
  // Otherwise engines would compile the timing loop together with its only row, and hoist constant
  // work out of the loop.
  for (const row of WORK) {
    if (row.group === "small sizes" || row.group === "views") run(bodyOf(row), 300);
  }
  made.clear();
}

const BINARY = ["add", "sub", "mul", "maximum", "minimum", "less", "equal", "floorDivide"] as const;
const UNARY = ["square", "sqrt", "exp", "tanh", "relu", "sign", "abs", "isnan"] as const;

interface Prepared {
  readonly body: () => unknown;
  /** The number of calls that fill the duration of a timing. */
  calls: number;
}

const prepared = new Map<string, Prepared>();

let group = "";

function bodyOf(row: Row): () => unknown {
  const x: Tensors = {};
  Object.entries(row.inputs).forEach(([name, input], i) => {
    x[name] = make(name, input, rm.random.key(i + 1));
  });
  return row.body(x);
}

const collect: () => void = ((): () => void => {
  const { gc, Bun } = globalThis as { gc?: () => void; Bun?: { gc(now: boolean): void } };
  return gc ?? (() => Bun?.gc(true));
})();

function prepare(row: Row, ms: number): void {
  if (row.group !== group) {
    made.clear();
    prepared.clear();
    group = row.group;
    // Otherwise small calls would pay for the large arrays of earlier groups.
    rm.emptyCache();
    collect();
  }
  const body = bodyOf(row);
  // Long enough for every tier of the engine; then the number of calls that fill the time.
  let calls = 1;
  let spent = 0;
  let took = 0;
  while (spent < 4 * ms || (took < ms / 4 && calls < 1e8)) {
    took = run(body, calls);
    spent += took;
    if (took < ms / 2) calls *= 2;
  }
  took = run(body, calls);
  prepared.set(keyOf(row), { body, calls: Math.max(1, Math.round(calls * ms / took)) });
}

function answer(request: Request): Answer {
  const one = prepared.get(request.row);
  if (request.do === "time" && one !== undefined) {
    // Earlier work has left garbage, and engines drop code that has not run for a while: an untimed
    // lead-in warms this row up again. If it takes less than half of its time, the first calls,
    // which determined the count, were slow because they got new memory.
    while (run(one.body, Math.ceil(one.calls / 2)) < request.ms / 4) one.calls *= 2;
    return { ns: run(one.body, one.calls) * 1e6 / one.calls };
  }
  const row = WORK.find((candidate) => keyOf(candidate) === request.row);
  if (row === undefined) return { error: `no row ${request.row}` };
  if (request.do === "memory") {
    const before = peakBytes();
    run(bodyOf(row), request.calls!);
    return { before, peak: peakBytes() };
  }
  prepare(row, request.ms);
  return {};
}

/** The largest resident set of this process so far. */
function peakBytes(): number {
  if (process.platform === "linux") {
    const [, kib] = /^VmHWM:\s*(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))!;
    return Number(kib) * 1024;
  }
  return process.resourceUsage().maxRSS * 1024;
}

function reply(message: Answer): void {
  process.stdout.write(JSON.stringify(message) + "\n");
}

function start(): Answer {
  const { values: { backend, threads, cold } } = parseArgs({
    options: {
      backend: { type: "string" },
      threads: { type: "string" },
      cold: { type: "boolean" },
    },
  });
  if (backend !== undefined) rm.setBackend(backend as "js" | "native");
  if (threads !== undefined) rm.setThreads(Number(threads));
  if (!cold) warmUp();
  const name = process.versions.bun ? "Bun" : "Deno";
  const version = `${name} ${process.versions[name.toLowerCase()]}`;
  return { version, serves: rm.info().devices.cpu };
}

function attempt(body: () => Answer): Answer {
  try {
    return body();
  } catch (error) {
    return { error: String(error) };
  }
}

if (import.meta.main) {
  reply(attempt(start));
  for await (const line of createInterface({ input: process.stdin })) {
    reply(attempt(() => answer(JSON.parse(line))));
  }
  // Prevents engines from removing the results as unused.
  if (sink === prepared) throw new Error();
}
