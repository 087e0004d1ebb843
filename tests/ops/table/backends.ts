/**
 * The backends that run the tests of the op table, and the reference.
 *
 * A new backend joins {@link ALL_BACKENDS} to run the same tests; nothing else changes. Knows
 * nothing of ops.
 *
 * @module
 */
import type { DType } from "../../../src/base/dtype.ts";
import type { Backend } from "../../../src/core/backend.ts";
import { cpuBackend, registerCpu } from "../../../src/core/registry.ts";
import { JsBackend } from "../../../src/backend/js/backend.ts";
import { CONFIGURE } from "../../../src/backend/ffi/abi.ts";
import { NativeBackend } from "../../../src/backend/native/backend.ts";
import { openShim } from "../../../src/backend/ffi/load.ts";
import { WasmBackend } from "../../../src/backend/wasm/backend.ts";
import { findWasm } from "../../../src/backend/wasm/module.ts";
import { linearMemory, registerLinear } from "../../../src/memory/pool.ts";
import type { Device } from "../../../src/types/mod.ts";
import { MIRROR } from "../../device/mirror.ts";
import { isSampled, RUNS_ALL } from "../../support/amount.ts";
import { IN_BUN } from "../../support/engine.ts";
import { site } from "./operands.ts";

/** Which compiled functions are tested with a backend, and how. */
export interface CompiledOptions {
  /** The only dtypes to test; absent for all. */
  readonly dtypes?: readonly DType[];
  /** In `npm test`, one op and dtype of so many, by their names; absent for all. */
  readonly every?: number;
  /** True for ops that are fused, too. */
  readonly fused: boolean;
}

/** A backend under test. */
export interface Target {
  readonly name: string;
  /** The backend of the CPU, or the device of the operands. */
  readonly on: Backend | Device;
  /** True if elementwise results must equal those of the reference to the last bit. */
  readonly exact: boolean;
  /** How compiled functions are tested with it; absent if they are not. */
  readonly compiled?: CompiledOptions;
  /** In `npm test`, one op and dtype of so many run on it; absent for all. */
  readonly every?: number;
  /** In `npm test`, one layout or other dtype of so many runs for an op and a dtype; absent for all. */
  readonly layouts?: number;
}

const COMPILED: CompiledOptions = { every: 6, fused: true };
/** The layouts of all targets here, which share the answers of the reference. */
const LAYOUTS = 3;
/** What gives the same as another target by the same code, apart from other kernels or transfers. */
const SELDOM = 4;
let generated = new JsBackend(true);

/** Gives up the loops of earlier ops, which the garbage collector else visits again and again. */
export function renewLoops(): void {
  generated = new JsBackend(true);
}

const targets: Target[] = [
  {
    name: "generated loops",
    get on() {
      return generated;
    },
    exact: true,
    compiled: COMPILED,
    layouts: LAYOUTS,
  },
  {
    name: "interpreter",
    on: new JsBackend(false),
    exact: true,
    every: SELDOM,
    layouts: LAYOUTS,
  },
  { name: "mirror", on: MIRROR, exact: true, every: SELDOM, layouts: LAYOUTS },
];

/** The instruction sets of native backends under test: a setting of the library, not of a backend. */
const levels = new Map<Target["on"], number>();
let level = 0;

/** The native library, or why there is none to test. */
const shim = openShim();
if ("reason" in shim) console.log(`The table is not tested on the native backend: ${shim.reason}`);
else {
  const best = shim.rm_configure(CONFIGURE.level, 0);
  for (let level = best === 1 ? 1 : 2; level <= best; level++) {
    // Short arrays use the library too.
    const backend = new NativeBackend(shim, { crossover: 0 });
    levels.set(backend, level);
    backend.setLevel(level);
    // All of them run the same programs, with other kernels.
    const own = level === best ? { compiled: COMPILED } : { every: SELDOM };
    targets.push({
      name: `native, ${backend.level}`,
      on: backend,
      exact: false,
      layouts: LAYOUTS,
      ...own,
      ...RUNS_ALL ? { compiled: COMPILED } : {},
    });
  }
  shim.rm_configure(CONFIGURE.level, 0);
}

/** The WebAssembly module, or why there is none to test. */
const wasm = findWasm();
if ("reason" in wasm) console.log(`The table is not tested on WebAssembly: ${wasm.reason}`);
else {
  const backend = new WasmBackend(wasm, { crossover: 0 });
  targets.push({
    name: "wasm",
    on: backend,
    exact: false,
    every: SELDOM,
    layouts: LAYOUTS,
    compiled: COMPILED,
  });
}

/**
 * Whether a layout, or another dtype next to this one, runs for an op and a dtype on a target: each op
 * has each of them in some dtype.
 */
export function runsLayout(
  row: string,
  dtype: DType,
  layout: string,
  { layouts = 1 }: Target,
): boolean {
  return isSampled(`${row} ${dtype} ${layout}`, layouts);
}

function setLevel(to: number): void {
  level = to;
  if (!("reason" in shim)) shim.rm_configure(CONFIGURE.level, to);
}

/** All backends. */
export const ALL_BACKENDS: readonly Target[] = targets;

/**
 * The backends that run tests of more than one op: all of them in `npm run test:all`. Else the
 * interpreter, which is slow, and the lesser instruction sets, whose C is the same, run the table
 * only. What differs in Bun is its JavaScript engine and its FFI: there the mirror runs the table
 * only, too.
 */
export const BACKENDS: readonly Target[] = RUNS_ALL ? targets : [
  ...targets.filter(({ name }) => name === "generated loops" || !IN_BUN && name === "mirror"),
  ...targets.filter(({ name }) => name.startsWith("native")).slice(-1),
];

const reference = new JsBackend(false);

/** Begins the use of a backend for the CPU, or of operands on a device; returns what ends it. */
function enter(on: Target["on"]): () => void {
  const device = typeof on === "string" ? on : "cpu";
  const before = { cpu: cpuBackend(), device: site.device, level };
  const own = levels.get(on);
  if (own !== undefined) setLevel(own);
  if (typeof on !== "string") registerCpu(() => on);
  const memory = linearMemory();
  registerLinear(on instanceof WasmBackend ? on.shim.memory : null);
  site.device = device;
  return () => {
    if (own !== undefined) setLevel(before.level);
    registerCpu(() => before.cpu);
    registerLinear(memory);
    site.device = before.device;
  };
}

/** Calls `run` with a backend for the CPU, or with operands on a device. */
export function using<T>(on: Target["on"], run: () => T): T {
  const leave = enter(on);
  try {
    return run();
  } finally {
    leave();
  }
}

/** The same, until what `run` waits for is done. */
export async function usingAsync<T>(on: Target["on"], run: () => Promise<T>): Promise<T> {
  const leave = enter(on);
  try {
    return await run();
  } finally {
    leave();
  }
}

let asker = "";
const asked = new Map<DType, unknown[]>();
let answers: unknown[] = [];
let next = 0;

/**
 * Begins the cases of an op and a dtype: each target makes the same requests of the reference in the
 * same order.
 */
export function beginCases(row: string, dtype: DType): void {
  if (row !== asker) asked.clear();
  asker = row;
  answers = asked.get(dtype) ?? [];
  asked.set(dtype, answers);
  next = 0;
}

/** The result of the reference, the interpreter; for plain dense operands only. */
export function referenceOf<T>(run: () => T): T {
  return (answers[next++] ??= using(reference, run)) as T;
}
