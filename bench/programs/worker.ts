/**
 * Times programs in its own runtime, eagerly and compiled, one at a time, by requests on stdin.
 *
 *     worker.ts --threads=N
 *
 * Each input line is a JSON request, each output line its answer. The other peers, in peer.py,
 * follow the same protocol. Knows nothing of them.
 *
 * @module
 */
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import process from "node:process";
import { parseArgs } from "node:util";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { median } from "../report.ts";
import { warmUp } from "../worker.ts";
import {
  type AnyTensor,
  type Input,
  keyOf,
  type Row,
  ROWS,
  type Tensors,
  uniform,
} from "./rows.ts";
import { measureTimer, type TimerFigures, type TimerWork } from "./timer.ts";

/** How rowmajor runs a program. */
export type Way = "eager" | "compiled";

/** A request to a worker. */
export interface Request {
  /** `prepare` warms a row up and writes its result; `time` times it once. */
  readonly do: "prepare" | "time" | "timer";
  /** The row's name and group, which identify it. */
  readonly row?: string;
  /** rowmajor only. */
  readonly way?: Way;
  /** The duration of a timing in milliseconds. */
  readonly ms?: number;
  /** Where to write the row's result, as float32. */
  readonly file?: string;
  /** For other languages: the row's inputs, statement and kind of `out`. */
  readonly inputs?: Readonly<Record<string, Input>>;
  /** See {@link inputs}. */
  readonly statement?: string;
  /** See {@link inputs}. */
  readonly out?: Row["out"];
  /** `timer`: what to do meanwhile. */
  readonly work?: TimerWork;
}

/** The answer: the time of a call, or an error. */
export interface Answer {
  /** Nanoseconds for each call: the median of batches. */
  readonly ns?: number;
  /** The same of the fastest batch. */
  readonly least?: number;
  /** The lateness of a timer. */
  readonly timer?: TimerFigures;
  /** The error. */
  readonly error?: string;
  /** On the first line only: the version of the peer. */
  readonly version?: string;
  /** On the first line only: the ways that rowmajor has. */
  readonly ways?: readonly Way[];
}

interface Prepared {
  readonly body: () => unknown;
  /** See {@link BATCH}. */
  readonly calls: number;
  readonly batches: number;
}

/**
 * A timing is the median of batches of calls that take about so many milliseconds: less than the
 * slice of time after which the system runs another process, so that most of them run undisturbed.
 */
const BATCH = 1;
const LEAST_BATCHES = 3;

const prepared = new Map<string, Prepared>();
let tensors = new Map<string, AnyTensor>();
let group = "";
let sink: unknown;

/** The tensor of an input. Rows of a group share those that are equal. */
function make({ shape, low, high }: Input, stream: number): AnyTensor {
  const id = JSON.stringify([shape, low, high, stream]);
  let x = tensors.get(id);
  if (x === undefined) {
    const size = shape.reduce((product, n) => product * n, 1);
    const numbers = uniform(size, stream, low, high);
    // A copy, as its memory is then rowmajor's own.
    x = rm.fromBuffer(numbers).copy().reshape(shape) as AnyTensor;
    tensors.set(id, x);
  }
  return x;
}

/** A call of a row's program, and the way to get its result. */
interface Call {
  /** Runs the program, and frees what it returns as Python does. */
  readonly body: () => unknown;
  readonly result: () => AnyTensor;
}

function callOf(row: Row, way: Way): Call {
  const x: Tensors = Object.fromEntries(
    Object.entries(row.inputs).map(([name, input], i) => [name, make(input, i)]),
  );
  const args = row.args.map((name) => x[name]);
  const program = row.program(x);
  const out = row.out && rm.zeros(row.out.shape, { dtype: row.out.dtype }) as AnyTensor;
  if (way === "compiled") {
    const compiled = compile(program);
    if (out !== undefined) {
      const body = () => compiled(...args, { out });
      return { body, result: () => (body(), out) };
    }
    const result = () => compiled(...args);
    return { body: row.ops ? result : () => result().dispose(), result };
  }
  if (out !== undefined) {
    const body = () => row.into!(x, out);
    return { body, result: () => (body(), out) };
  }
  // The results of small ops are left to the garbage collector, as in typical programs.
  if (row.ops !== undefined) {
    return {
      body: () => program(...args),
      result: () => program(...args),
    };
  }
  const result = () => rm.scope(() => program(...args));
  return { body: () => result().dispose(), result };
}

/** Calls `body` the given number of times; returns milliseconds. */
function run(body: () => unknown, calls: number): number {
  const begin = performance.now();
  for (let i = 0; i < calls; i++) sink = body();
  return performance.now() - begin;
}

function prepare(row: Row, way: Way, ms: number, file: string): void {
  if (row.group !== group) {
    prepared.clear();
    tensors = new Map();
    group = row.group;
    rm.emptyCache();
  }
  const { body, result } = callOf(row, way);
  writeFileSync(file, result().astype("float32").toTypedArray());
  // Long enough for every tier of the engine; then the number of calls that fill the time.
  let [calls, spent, took] = [1, 0, 0];
  while (spent < 4 * ms || took < ms / 4) {
    took = run(body, calls);
    spent += took;
    if (took < ms / 2) calls *= 2;
  }
  const one = run(body, calls) / calls;
  prepared.set(`${keyOf(row)} ${way}`, {
    body,
    calls: Math.max(1, Math.round(BATCH / one)),
    batches: Math.max(LEAST_BATCHES, Math.round(ms / Math.max(BATCH, one))),
  });
}

function time(row: Row, way: Way): Answer {
  const { body, calls, batches } = prepared.get(`${keyOf(row)} ${way}`)!;
  for (let i = 0; i < batches; i += 4) run(body, calls);
  const times = Array.from({ length: batches }, () => run(body, calls) * 1e6 / calls);
  return { ns: median(times), least: Math.min(...times) };
}

async function answer(request: Request, threads: number): Promise<Answer> {
  if (request.do === "timer") {
    return { timer: await measureTimer(request.work!, threads, request.file!) };
  }
  const row = ROWS.find((candidate) => keyOf(candidate) === request.row);
  if (row === undefined) return { error: `no row ${request.row}` };
  if (request.do === "time") return time(row, request.way!);
  prepare(row, request.way!, request.ms!, request.file!);
  return {};
}

function start(threads: number): Answer {
  rm.setThreads(threads);
  if (rm.info().devices.cpu !== "native") return { error: "the native library is not built" };
  warmUp();
  const name = process.versions.bun ? "Bun" : "Deno";
  const version = `${name} ${process.versions[name.toLowerCase()]}`;
  return { version, ways: ["eager", "compiled"] };
}

async function attempt(body: () => Answer | Promise<Answer>): Promise<void> {
  let message: Answer;
  try {
    message = await body();
  } catch (error) {
    message = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(message) + "\n");
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { threads: { type: "string", default: "1" } } });
  const threads = Number(values.threads);
  await attempt(() => start(threads));
  for await (const line of createInterface({ input: process.stdin })) {
    await attempt(() => answer(JSON.parse(line), threads));
  }
  // Prevents engines from removing the results as unused.
  if (sink === prepared) throw new Error();
}
