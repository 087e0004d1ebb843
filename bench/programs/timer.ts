/**
 * Measures how late a timer of 1 ms is while the process computes.
 *
 * Knows nothing of requests or tables.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { findTool, root } from "../../scripts/tools.ts";
import { openLibrary } from "../../tests/native/ffi.ts";
import { type AnyTensor, uniform } from "./rows.ts";

/**
 * What the process does: nothing, products in blocking calls (eager and compiled) or off the event
 * loop, or the control: C threads that spin, as many as the products have, also at nice 10.
 */
export const TIMER_WORK = [
  "idle",
  "spinning threads",
  "spinning threads, nice 10",
  "eager products",
  "program",
  "program.async",
] as const;

/** See {@link TIMER_WORK}. */
export type TimerWork = typeof TIMER_WORK[number];

/** What was measured: lateness in milliseconds, and speed. */
export interface TimerFigures {
  /** 99% of the ticks were no later. */
  readonly p99: number;
  /** The latest tick. */
  readonly max: number;
  /** The number of ticks. */
  readonly ticks: number;
  /** The speed of the products, in GFLOP/s. */
  readonly gflops?: number;
}

/** Milliseconds of a measurement. */
const DURATION = 2000;
const SIZE = 512;
/** Products per call. */
const PRODUCTS = 8;

/** The largest of the smallest `part` of `values`. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)]!;
}

function products(x: AnyTensor, w: AnyTensor): AnyTensor {
  for (let i = 0; i < PRODUCTS; i++) x = x.matmul(w);
  return x;
}

/** Calls in a loop until the time is over; timers run between calls. Returns their number. */
async function repeat(call: () => AnyTensor | Promise<AnyTensor>): Promise<number> {
  const end = performance.now() + DURATION;
  let calls = 0;
  for (; performance.now() < end; calls++) {
    const made = call();
    (made instanceof Promise ? await made : made).dispose();
    await setImmediate();
  }
  return calls;
}

interface Spin {
  spin_start(threads: number, nice: number): number;
  spin_stop(): void;
}

/** Compiles spin.c into a library in `folder`; its path. */
export function compileSpin(folder: string): string {
  const library = join(folder, "spin.so");
  const source = join(root, "bench", "programs", "spin.c");
  const args = ["cc", "-O2", "-shared", "-fPIC", "-pthread", source, "-o", library];
  const { status, stderr } = spawnSync(findTool("zig"), args, { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  return library;
}

/** C threads spin for {@link DURATION}; `path` is the compiled spin.c. */
export async function spin(path: string, threads: number, nice: number): Promise<void> {
  const library = openLibrary<Spin>(path, {
    spin_start: ["i32", "i32", "i32"],
    spin_stop: ["void"],
  });
  const started = library.spin_start(threads, nice);
  try {
    if (started !== threads) throw new Error(`only ${started} of ${threads} threads started`);
    await new Promise((resolve) => setTimeout(resolve, DURATION));
  } finally {
    library.spin_stop();
  }
}

/** How late the ticks of a timer of 1 ms are, in milliseconds, until `run` ends. */
export async function lateness(run: () => Promise<void>): Promise<number[]> {
  const late: number[] = [];
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    late.push(now - last - 1);
    last = now;
  }, 1);
  try {
    await run();
  } finally {
    clearInterval(timer);
  }
  return late;
}

/** `library` is the path of the compiled spin.c. */
export async function measureTimer(
  work: TimerWork,
  threads: number,
  library: string,
): Promise<TimerFigures> {
  const bound = Math.sqrt(3 / SIZE);
  const numbers = uniform(SIZE * SIZE, 0, -bound, bound);
  const w = rm.fromBuffer(numbers).copy().reshape([SIZE, SIZE]) as AnyTensor;
  const program = compile(products);
  if (work.startsWith("program")) program(w, w).dispose();
  let calls: number | undefined;
  const begin = performance.now();
  const late = await lateness(async () => {
    if (work === "idle") await new Promise((resolve) => setTimeout(resolve, DURATION));
    else if (work === "spinning threads") await spin(library, threads, 0);
    else if (work === "spinning threads, nice 10") await spin(library, threads, 10);
    else if (work === "eager products") calls = await repeat(() => rm.scope(() => products(w, w)));
    else if (work === "program") calls = await repeat(() => program(w, w));
    else calls = await repeat(() => program.async(w, w));
  });
  const seconds = (performance.now() - begin) / 1000;
  return {
    p99: quantile(late, 0.99),
    max: Math.max(...late),
    ticks: late.length,
    ...(calls === undefined ? {} : { gflops: calls * PRODUCTS * 2 * SIZE ** 3 / seconds / 1e9 }),
  };
}
