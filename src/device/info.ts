/**
 * The available backends, and the one in use.
 *
 * @module
 */
import { ncclText, worldText } from "../ops/collective/problem.ts";
import { cpuBackendName, openDevices } from "../core/dispatch.ts";
import { findNative, findWasmBackend, js, serve, whyNotAsync } from "../backend/cpu.ts";
import { isModule } from "../backend/wasm/engine.ts";
import {
  configureWasm,
  isMemorySize,
  LEAST_MEMORY,
  MOST_MEMORY,
  whyNoWasm,
} from "../backend/wasm/module.ts";
import { whyNotMapped } from "../backend/ffi/files.ts";
import { describeDevice, describeLibrary, findCuda } from "../backend/cuda.ts";
import { describe } from "../base/text.ts";
import { checkOptions } from "../table/infer.ts";
import { ArgumentError, DeviceError } from "../base/errors.ts";
import { VERSION } from "../base/version.ts";
import { arenaBytes, memory } from "../memory/pool.ts";

export { VERSION };

/** The result of {@link info}. */
export interface Info {
  /** This library's version. */
  readonly version: string;
  /** `"deno"`, `"bun"`, `"node"` or `"other"`. */
  readonly runtime: string;
  /**
   * The backend or hardware of each available device: a backend on the CPU, a graphics card on
   * `"cuda"`.
   */
  readonly devices: Readonly<Record<string, string>>;
  /**
   * Each backend and library, with its status: `"in use"`, `"available"`, or why it is unavailable.
   * NVIDIA's libraries, once an op has needed them, have their version and path.
   */
  readonly backends: Readonly<
    Record<
      | "js"
      | "native"
      | "wasm"
      | "openblas"
      | "lapack"
      | "cuda"
      | "cublas"
      | "cufft"
      | "cusolver"
      | "mpi"
      | "nccl",
      string
    >
  >;
  /** The instruction set of the native backend, such as `"x86-64-v3"`; null without it. */
  readonly level: string | null;
  /** The number of threads for large ops. */
  readonly threads: number;
  /**
   * Where asynchronous calls of compiled functions on the CPU run: `"on another thread"`, or
   * `"in a later task"` and why.
   */
  readonly async: string;
  /**
   * What `io.mapNpy` and `io.mapSafetensors` do: `"mapped"`, or `"read: "` and why files cannot be
   * mapped.
   */
  readonly files: string;
  /** What compiled functions keep in memory of the CPU, in bytes. Parts of `memory().bytes`. */
  readonly programs: {
    /** What they have computed of constant tensors, such as packed weights; once for all programs. */
    readonly constantBytes: number;
    /** The arena that is kept for their next run, in this thread; a part of `memory().pooledBytes`. */
    readonly arenaBytes: number;
  };
}

/** Options of {@link setBackend} for `"wasm"`. */
export interface WasmBackendOptions {
  /**
   * The size of its memory in bytes, from 16 MiB to 4095 MiB: 1 GiB by default, or as many MiB as
   * `ROWMAJOR_WASM_MEMORY` gives. The system backs only what is in use.
   */
  readonly memory?: number;
  /**
   * The module as a `WebAssembly.Module`, for programs that load it themselves, as in a browser: it is
   * that of this version.
   */
  readonly module?: object;
}

/**
 * Chooses the backend of the CPU: `"native"`, vector code in C, which is the default wherever it
 * can be opened; `"wasm"`, the same code in WebAssembly on one thread, which is the default elsewhere;
 * or `"js"`, JavaScript loops, which run everywhere. `options` are those of `"wasm"`, and count before
 * the first op that uses it.
 *
 * @throws {DeviceError} If the backend is unavailable, or its memory exists already; the message names
 *   the reason. There is no permission prompt.
 * @throws {ArgumentError} For options that the backend does not take.
 */
export function setBackend(
  name: "js" | "native" | "wasm",
  options: WasmBackendOptions = {},
): void {
  if (name !== "js" && name !== "native" && name !== "wasm") {
    throw new DeviceError(`Cannot use backend ${describe(name)}: it is "js", "native" or "wasm"`);
  }
  checkOptions("setBackend", options, name === "wasm" ? ["memory", "module"] : []);
  const { memory, module } = options;
  if (memory !== undefined || module !== undefined) configure(memory, module);
  const backend = name === "js" ? js : name === "wasm" ? findWasmBackend() : findNative();
  if (typeof backend === "string") throw new DeviceError(`Cannot use backend ${name}: ${backend}`);
  serve(backend);
}

function configure(memory: number | undefined, module: object | undefined): void {
  if (memory !== undefined && !isMemorySize(memory)) {
    throw new ArgumentError(
      `setBackend() needs a memory of ${LEAST_MEMORY} to ${MOST_MEMORY} bytes, got ${
        describe(memory)
      }`,
    );
  }
  if (module !== undefined && !isModule(module)) {
    throw new ArgumentError(`setBackend() needs a WebAssembly.Module, got ${describe(module)}`);
  }
  if (!configureWasm({ memory, module })) {
    throw new DeviceError("Cannot set options of backend wasm: its memory exists already");
  }
}

/**
 * Sets the number of threads of the native library for large ops, 0 for as many as the machine has
 * (the default, unless `ROWMAJOR_THREADS` is set). Returns the resulting number. Results do not
 * depend on it, except for matrix products and linear algebra by OpenBLAS. Without the library there is
 * one thread.
 *
 * @throws {ArgumentError} Unless `count` is an integer from 0 to 256.
 */
export function setThreads(count: number): number {
  if (!Number.isInteger(count) || count < 0 || count > 256) {
    throw new ArgumentError(
      `setThreads() needs an integer from 0 to 256, got ${describe(count)}`,
    );
  }
  const found = findNative();
  return typeof found === "string" ? 1 : found.setThreads(count);
}

/**
 * The backends in use, the other available ones, and why the rest are unavailable. Looks for CUDA,
 * but does nothing on its devices. Never prompts.
 *
 * @throws {ArgumentError} If an environment variable has a value that it does not take.
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
  const solver = describeLibrary(cuda, "cusolver");
  const refusal = whyNotAsync();
  const unmapped = whyNotMapped();
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
      wasm: serving === "wasm" ? "in use" : whyNoWasm() ?? "available",
      openblas: blas === undefined
        ? "needs the native backend"
        : "reason" in blas
        ? blas.reason
        : `${blas.config} at ${blas.path}`,
      lapack: blas === undefined || "reason" in blas
        ? "not used: linalg needs openblas for it"
        : blas.hasLapack
        ? "that of openblas, for large matrices of linalg"
        : "not used: openblas was built without it",
      cuda: "reason" in cuda ? cuda.reason : used ? "in use" : "available",
      cublas: describeLibrary(cuda, "cublas"),
      cufft: describeLibrary(cuda, "cufft"),
      cusolver: solver.startsWith("no usable")
        ? `${solver}; linear algebra of tensors on CUDA devices runs on the CPU`
        : solver,
      mpi: worldText,
      nccl: ncclText,
    },
    level: opened?.level ?? null,
    threads: serving === opened?.name ? opened.threads : 1,
    async: refusal === null ? "on another thread" : `in a later task: ${refusal}`,
    files: unmapped === null ? "mapped" : `read: ${unmapped}`,
    programs: { constantBytes: memory().constantBytes, arenaBytes: arenaBytes() },
  };
}
