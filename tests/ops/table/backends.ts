/**
 * The backends that run the tests of the op table, and the reference.
 *
 * A new backend joins {@link BACKENDS} to run the same tests; nothing else changes. Knows nothing
 * of ops.
 *
 * @module
 */
import type { DType } from "../../../src/base/dtype.ts";
import type { Backend } from "../../../src/core/backend.ts";
import { cpuBackend, registerCpu } from "../../../src/core/registry.ts";
import { JsBackend } from "../../../src/backend/js/backend.ts";
import { CONFIGURE, type Shim } from "../../../src/backend/ffi/abi.ts";
import { NativeBackend } from "../../../src/backend/native/backend.ts";
import { openShim } from "../../../src/backend/ffi/load.ts";
import type { Device } from "../../../src/types/mod.ts";
import { MIRROR } from "../../device/mirror.ts";
import { site } from "./operands.ts";

/** Which compiled functions are tested with a backend, and how. */
export interface CompiledOptions {
  /** Makes them run as the backend does. */
  readonly begin?: () => void;
  /** The only dtypes to test; absent for all. */
  readonly dtypes?: readonly DType[];
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
}

const targets: Target[] = [
  { name: "generated loops", on: new JsBackend(true), exact: true, compiled: { fused: true } },
  { name: "interpreter", on: new JsBackend(false), exact: true },
  { name: "mirror", on: MIRROR, exact: true },
];

/** `shim` with an instruction set for every call. */
function inLevel(shim: Shim, level: number): Shim {
  const entries = Object.entries(shim).map(([name, call]) => {
    const inside = (...args: never[]): number => {
      shim.rm_configure(CONFIGURE.level, level);
      return (call as (...args: never[]) => number)(...args);
    };
    return [name, name === "rm_configure" ? call : inside];
  });
  return Object.fromEntries(entries);
}

/** The native library, or why there is none to test. */
const shim = openShim();
if ("reason" in shim) console.log(`The table is not tested on the native backend: ${shim.reason}`);
else {
  const best = shim.rm_configure(CONFIGURE.level, 0);
  for (let level = best === 1 ? 1 : 2; level <= best; level++) {
    // Short arrays use the library too.
    const backend = new NativeBackend(inLevel(shim, level), { crossover: 0 });
    shim.rm_configure(CONFIGURE.level, level);
    const begin = (): void => void shim.rm_configure(CONFIGURE.level, level);
    const compiled = { begin, fused: true };
    targets.push({ name: `native, ${backend.level}`, on: backend, exact: false, compiled });
  }
}

/** The backends under test. */
export const BACKENDS: readonly Target[] = targets;

const reference = new JsBackend(false);

/** Calls `run` with a backend for the CPU, or with operands on a device. */
export function using<T>(on: Target["on"], run: () => T): T {
  const device = typeof on === "string" ? on : "cpu";
  const before = { cpu: cpuBackend(), device: site.device };
  if (typeof on !== "string") registerCpu(() => on);
  site.device = device;
  try {
    return run();
  } finally {
    registerCpu(() => before.cpu);
    site.device = before.device;
  }
}

let asker = "";
let answers: unknown[] = [];
let next = 0;

/**
 * Begins the cases of an op: each target makes the same requests of the reference in the same
 * order.
 */
export function beginCases(row: string): void {
  if (row !== asker) [asker, answers] = [row, []];
  next = 0;
}

/** The result of the reference, the interpreter; for plain dense operands only. */
export function referenceOf<T>(run: () => T): T {
  return (answers[next++] ??= using(reference, run)) as T;
}
