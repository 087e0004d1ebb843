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
import { registerCpu, registerDefinition } from "../core/dispatch.ts";
import { registerBuffers } from "../memory/pool.ts";
import { findBuffers } from "./ffi/buffers.ts";
import { findShim } from "./ffi/load.ts";
import { WarningBackend } from "./fallback.ts";
import { JsBackend } from "./js/backend.ts";
import { NativeBackend } from "./native/backend.ts";

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
registerBuffers(findBuffers);
