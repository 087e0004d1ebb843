/**
 * Which backends there are and which one serves.
 *
 * @module
 */
import { cpuBackendName, openDevices, registerCpu } from "../core/dispatch.ts";
import { findNative, js } from "../backend/cpu.ts";
import { describeDevice, findCuda } from "../backend/cuda.ts";
import { describe } from "../base/dtype.ts";
import { DeviceError } from "../base/errors.ts";

/** What {@link info} tells. */
export interface Info {
  /** This library's version. */
  readonly version: string;
  /** `"deno"`, `"bun"`, `"node"` or `"other"`. */
  readonly runtime: string;
  /** What serves each device that can be used: a backend on the CPU, a graphics card on `"cuda"`. */
  readonly devices: Readonly<Record<string, string>>;
  /** Each backend and library, and whether it is there: `"in use"`, `"available"`, or why not. */
  readonly backends: Readonly<Record<"js" | "native" | "openblas" | "cuda", string>>;
  /** The instruction set of the native backend, as `"x86-64-v3"`; null without it. */
  readonly level: string | null;
  /** How many threads work on large ops. */
  readonly threads: number;
}

/** This library's version. */
export const VERSION = "0.1.0";

/**
 * Chooses what runs ops on the CPU: `"native"`, vector code in C, which serves by itself wherever it
 * can be opened, or `"js"`, JavaScript loops, which run everywhere.
 *
 * Throws a DeviceError that says why when the backend cannot be had. Never prompts.
 */
export function setBackend(name: "js" | "native"): void {
  if (name !== "js" && name !== "native") {
    throw new DeviceError(`Cannot use backend ${describe(name)}: it is "js" or "native"`);
  }
  const backend = name === "js" ? js : findNative();
  if (typeof backend === "string") throw new DeviceError(`Cannot use backend native: ${backend}`);
  registerCpu(() => backend);
}

/**
 * Lets so many threads of the native library work on large ops, 0 for as many as the machine has
 * (which is where it begins, unless `ROWMAJOR_THREADS` says otherwise); gives how many there are now.
 * Results do not depend on it, but for products of matrices by OpenBLAS. Without the library there is
 * one.
 *
 * Throws a RangeError for what is no integer from 0 to 256.
 */
export function setThreads(count: number): number {
  if (!Number.isInteger(count) || count < 0 || count > 256) {
    throw new RangeError(
      `Cannot use ${describe(count)} threads: an integer from 0 to 256 is expected`,
    );
  }
  const found = findNative();
  return typeof found === "string" ? 1 : found.setThreads(count);
}

/**
 * Which backends are in use, which could be, and why others could not. Looks for CUDA, but does
 * nothing on its devices. Never prompts.
 */
export function info(): Info {
  const globals = globalThis as { Deno?: unknown; Bun?: unknown; process?: unknown };
  const runtime = globals.Deno !== undefined
    ? "deno"
    : globals.Bun !== undefined
    ? "bun"
    : globals.process !== undefined
    ? "node"
    : "other";
  const shim = findNative();
  const serving = cpuBackendName();
  const opened = typeof shim === "string" ? undefined : shim;
  const blas = opened?.blas();
  const cuda = findCuda();
  const devices: Record<string, string> = { cpu: serving };
  if (!("reason" in cuda)) {
    for (let i = 0; i < cuda.count; i++) {
      devices[i === 0 ? "cuda" : `cuda:${i}`] = describeDevice(cuda.shim, i);
    }
  }
  const used = [...openDevices().keys()].some((name) => name.startsWith("cuda"));
  return {
    version: VERSION,
    runtime,
    devices,
    backends: {
      js: serving === js.name ? "in use" : "available",
      native: opened === undefined
        ? shim as string
        : serving === opened.name
        ? "in use"
        : "available",
      openblas: blas === undefined
        ? "needs the native backend"
        : "reason" in blas
        ? blas.reason
        : `${blas.config} at ${blas.path}`,
      cuda: "reason" in cuda ? cuda.reason : used ? "in use" : "available",
    },
    level: opened?.level ?? null,
    threads: serving === opened?.name ? opened.threads : 1,
  };
}
