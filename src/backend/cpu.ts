/**
 * The backend of the CPU: the shim if it can be opened, else its kernels in WebAssembly, else the
 * JavaScript backend, which also defines every op.
 *
 * Importing this module opens nothing: the first op does. Knows nothing of ops.
 *
 * @module
 */
import type { TypedArray } from "../base/dtype.ts";
import type { Backend } from "../core/backend.ts";
import { cpuBackendName, registerCpu, registerDefinition } from "../core/dispatch.ts";
import { type LinearMemory, registerLinear, registerMemory } from "../memory/pool.ts";
import { findBuffers, findMemoryLimit } from "./ffi/buffers.ts";
import type { Shim } from "./ffi/abi.ts";
import { findShim } from "./ffi/load.ts";
import { FallbackBackend, WarningBackend } from "./fallback.ts";
import { JsBackend } from "./js/backend.ts";
import { NativeBackend } from "./native/backend.ts";
import { JobQueue } from "./native/queue.ts";
import { WasmBackend } from "./wasm/backend.ts";
import { findWasm, whyNoWasm } from "./wasm/module.ts";

/** The JavaScript backend. */
export const js: Backend = new JsBackend();

let native: NativeBackend | string | undefined;

/** The native backend, opened once, or the reason why it is unavailable. Never prompts. */
export function findNative(): NativeBackend | string {
  if (native === undefined) {
    const opened = findShim();
    native = "reason" in opened ? opened.reason : new NativeBackend(opened);
  }
  return native;
}

let wasm: WasmBackend | string | undefined;

/**
 * The backend in WebAssembly, opened once, or the reason why it is unavailable. Never prompts.
 *
 * Throws an ArgumentError if an environment variable has a value that the module does not take.
 */
export function findWasmBackend(): WasmBackend | string {
  // Options may make it available.
  if (wasm === undefined || typeof wasm === "string") {
    const opened = findWasm();
    wasm = "reason" in opened ? opened.reason : new WasmBackend(opened);
  }
  return wasm;
}

/** Has a backend serve the CPU, with memory that its kernels can address. */
export function serve(backend: Backend): void {
  openFallback = null;
  registerLinear(backend instanceof WasmBackend ? backend.shim.memory : null);
  registerCpu(() => backend);
}

/** What runs programs on the CPU. */
export interface KernelSource {
  /** The name of the backend. */
  readonly name: string;
  readonly shim: Shim;
  /** The only memory that the kernels address; null if they address all. */
  readonly memory: LinearMemory | null;
}

/** Opens what serves the CPU, while small ops run in JavaScript; null otherwise. */
let openFallback: (() => Backend) | null = null;

/** The kernels of the backend that serves the CPU; null if it has none. */
export function kernelSource(): KernelSource | null {
  const name = cpuBackendName();
  if (name === "wasm") {
    openFallback?.();
    const opened = findWasm();
    return "reason" in opened ? null : { name, shim: opened.functions, memory: opened.memory };
  }
  if (name !== "native") return null;
  const shim = findShim();
  return "reason" in shim ? null : { name, shim, memory: null };
}

const queues = new WeakMap<Shim, JobQueue>();

/** The queue of this thread's asynchronous programs; without a shim, only its limit is used. */
export function jobQueue(): JobQueue {
  const shim = kernelSource()?.shim ?? NO_SHIM;
  let queue = queues.get(shim);
  if (queue === undefined) queues.set(shim, queue = new JobQueue(shim));
  return queue;
}

const NO_SHIM = {} as Shim;

/** Why ops on the CPU do not run in the library; null if they do. Never prompts. */
export function whyNotNative(): string | null {
  const found = findNative();
  if (typeof found === "string") return found;
  const serving = cpuBackendName();
  return serving === found.name ? null : `the backend of the CPU is ${serving}`;
}

/** Why programs do not run off the event loop; null if they do. Opens no queue. Never prompts. */
export function whyNotAsync(): string | null {
  return whyNotNative() ?? jobQueue().refusal?.reason ?? null;
}

/** The address of `array` in memory, or why it is unknown. */
export function addressOf(array: TypedArray): bigint | string {
  const shim = findShim();
  if ("reason" in shim) return shim.reason;
  const address = new BigUint64Array(1);
  // Engines may move small arrays until code asks for their buffer.
  const { buffer, byteOffset, byteLength } = array;
  shim.rm_address_of(new Uint8Array(buffer, byteOffset, byteLength), address);
  return address[0]!;
}

/** The backend of the CPU without the library, for the reason given: it warns once, after a slow op. */
function serveWithout(reason: string): Backend {
  openFallback = null;
  const found = findWasmBackend();
  const backend = typeof found === "string" ? js : found;
  const what = typeof found === "string"
    ? "ops run in JavaScript, several times slower than in the native library"
    : "ops run in WebAssembly, on one thread; the native library takes a half to a sixth of the time";
  const text = `${what}: ${reason}. setBackend("${backend.name}") turns this warning off.`;
  const warning = new WarningBackend(backend, text, () => registerCpu(() => backend));
  registerLinear(typeof found === "string" ? null : found.shim.memory);
  registerCpu(() => warning);
  return warning;
}

registerDefinition(js);
registerCpu(() => {
  const found = findNative();
  if (typeof found !== "string") return found;
  if (whyNoWasm() !== null) return serveWithout(found);
  openFallback = () => serveWithout(found);
  return new FallbackBackend("wasm", js, openFallback);
});
registerMemory({ findBuffers, findLimit: findMemoryLimit });
