/**
 * The backend of the CPU: the shim if it can be opened, else the JavaScript backend, which also
 * defines every op.
 *
 * Importing this module opens nothing: the first op does. Knows nothing of ops.
 *
 * @module
 */
import type { TypedArray } from "../base/dtype.ts";
import type { Backend } from "../core/backend.ts";
import { cpuBackendName, registerCpu, registerDefinition } from "../core/dispatch.ts";
import { registerMemory } from "../memory/pool.ts";
import { findBuffers, findMemoryLimit } from "./ffi/buffers.ts";
import type { Shim } from "./ffi/abi.ts";
import { findShim } from "./ffi/load.ts";
import { WarningBackend } from "./fallback.ts";
import { JsBackend } from "./js/backend.ts";
import { NativeBackend } from "./native/backend.ts";
import { JobQueue } from "./native/queue.ts";

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

let queue: JobQueue | undefined;

/** The queue of this thread's asynchronous programs; without the shim, only its limit is used. */
export function jobQueue(): JobQueue {
  const shim = findShim();
  return queue ??= new JobQueue("reason" in shim ? {} as Shim : shim);
}

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

registerDefinition(js);
registerCpu(() => {
  const found = findNative();
  if (typeof found !== "string") return found;
  return new WarningBackend(js, found, () => registerCpu(() => js));
});
registerMemory({ findBuffers, findLimit: findMemoryLimit });
