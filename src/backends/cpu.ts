/**
 * What serves the CPU: the shim where it can be had, built on the JavaScript backend, which serves
 * alone where it cannot.
 *
 * Importing this opens nothing: the first op does. Knows nothing of ops.
 *
 * @module
 */
import { type Backend, registerCpu } from "../backend.ts";
import { JsBackend } from "./js/backend.ts";
import { NativeBackend } from "./native/backend.ts";
import { registerBuffers } from "../storage.ts";
import { findBuffers } from "./shim/buffers.ts";
import { findShim } from "./shim/load.ts";

/** The JavaScript backend. */
export const js: Backend = new JsBackend();

let native: NativeBackend | string | undefined;

/** The native backend, opened once, or the reason why there is none. Never prompts. */
export function findNative(): NativeBackend | string {
  if (native === undefined) {
    const opened = findShim();
    native = "reason" in opened ? opened.reason : new NativeBackend(opened, js);
  }
  return native;
}

registerCpu(() => {
  const found = findNative();
  return typeof found === "string" ? js : found;
});

registerBuffers(findBuffers);
