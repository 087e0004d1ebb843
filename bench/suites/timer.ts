/**
 * Measures how late a timer of 1 ms is while the process computes.
 *
 * Knows nothing of requests or tables.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setImmediate } from "node:timers/promises";
import * as rm from "../../mod.ts";
import type { Tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { valueAndGrad } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as optim from "../../src/optim/mod.ts";
import { findTool, root } from "../../scripts/tools.ts";
import { openLibrary } from "../../tests/native/ffi.ts";
import {
  type AnyTensor,
  type Figure,
  quantile,
  type ServedRow,
  uniform,
} from "../harness/suite.ts";

/**
 * What the process does: nothing, products in blocking calls (eager and compiled) or off the event
 * loop, steps of training off it, or the control: C threads that spin, as many as the products have,
 * also at nice 10.
 */
export const TIMER_WORK = [
  "idle",
  "spinning threads",
  "spinning threads, nice 10",
  "eager products",
  "program",
  "program.async",
  "training.async",
] as const;

/** See {@link TIMER_WORK}. */
export type TimerWork = typeof TIMER_WORK[number];

/** Milliseconds of a measurement. */
const DURATION = 2000;
const SIZE = 512;
/** Products per call. */
const PRODUCTS = 8;

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

/** A layer of random weights. */
const layer = (outputs: number, inputs: number): { w: Tensor; b: Tensor } => ({
  w: nn.kaimingUniform(rm.random.key(outputs + inputs), [outputs, inputs]),
  b: rm.zeros([outputs]),
});

/** Steps of Adam of a network 64-768-768-10 with 256 rows, off the event loop. */
function training(): () => Promise<AnyTensor> {
  const params = [layer(768, 64), layer(768, 768), layer(10, 768)];
  const x: Tensor = rm.random.normal(rm.random.key(1), [256, 64]);
  const classes: Tensor<"int32"> = x.slice(":, :10").argmax(1).astype("int32");
  const optimizer = optim.adam({ learningRate: 1e-3 });
  const state = optimizer.init(params);
  const loss = (p: typeof params, x: Tensor, classes: Tensor<"int32">): Tensor<"float32", []> => {
    const made = p.reduce((x: Tensor, { w, b }, i) => {
      const y = x.linear(w, b);
      return i < 2 ? y.relu() : y;
    }, x);
    return nn.crossEntropy(made, classes).asShape([]);
  };
  const step = compile(
    (p: typeof params, s: typeof state, x: Tensor, classes: Tensor<"int32">) => {
      const [value, gradients] = valueAndGrad(loss)(p, x, classes);
      optimizer.update(p, gradients, s);
      return value;
    },
  );
  step(params, state, x, classes).dispose();
  return () => step.async(params, state, x, classes);
}

interface Spin {
  spin_start(threads: number, nice: number): number;
  spin_stop(): void;
}

let compiled: string | undefined;

/** Compiles spin.c into a library that is there as long as the process; its path. */
export function compileSpin(): string {
  if (compiled !== undefined) return compiled;
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-spin-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const library = join(folder, "spin.so");
  const source = join(root, "bench", "suites", "spin.c");
  const args = ["cc", "-O2", "-shared", "-fPIC", "-pthread", source, "-o", library];
  const { status, stderr } = spawnSync(findTool("zig"), args, { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  return compiled = library;
}

/** C threads spin for {@link DURATION}. */
export async function spin(threads: number, nice: number): Promise<void> {
  const library = openLibrary<Spin>(compileSpin(), {
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

/** The lateness of a timer during some work, or the time of a product. */
async function measureTimer(
  work: TimerWork,
  what: "p99 of delays" | "time of a product",
  threads: number,
): Promise<Figure> {
  const bound = Math.sqrt(3 / SIZE);
  const numbers = uniform(SIZE * SIZE, 0, -bound, bound);
  const w = rm.fromBuffer(numbers).copy().reshape([SIZE, SIZE]) as AnyTensor;
  const program = compile(products);
  if (work.startsWith("program")) program(w, w).dispose();
  if (work.startsWith("spinning")) compileSpin();
  const train = work === "training.async" ? training() : undefined;
  let calls = 0;
  const [begin, before] = [performance.now(), process.cpuUsage()];
  const late = await lateness(async () => {
    if (work === "idle") await new Promise((resolve) => setTimeout(resolve, DURATION));
    else if (work === "spinning threads") await spin(threads, 0);
    else if (work === "spinning threads, nice 10") await spin(threads, 10);
    else if (work === "eager products") calls = await repeat(() => rm.scope(() => products(w, w)));
    else if (work === "program") calls = await repeat(() => program(w, w));
    else calls = await repeat(train ?? (() => program.async(w, w)));
  });
  if (what === "p99 of delays") return { wall: quantile(late, 0.99) * 1e6 };
  const { user, system } = process.cpuUsage(before);
  const count = calls * PRODUCTS;
  return {
    wall: (performance.now() - begin) * 1e6 / count,
    cpu: (user + system) * 1e3 / count,
  };
}

/** The rows of a timer. */
export function timerRows(): ServedRow[] {
  return TIMER_WORK.flatMap((work) =>
    (["p99 of delays", "time of a product"] as const).flatMap((what) =>
      what === "time of a product" && !/product|program/.test(work) ? [] : [{
        ...{ group: "timer", name: `${what}, ${work}`, long: true, inputs: {}, statements: {} },
        call: () => ({ run: () => {} }),
        measure: (threads: number) => measureTimer(work, what, threads),
      }]
    )
  );
}
