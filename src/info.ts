/**
 * Which backends there are and which one serves; errors as values.
 *
 * @module
 */
import { type Backend, backendOf, registerBackend } from "./backend.ts";
import type { NativeBackend } from "./backends/native/backend.ts";
import { openNative } from "./backends/native/load.ts";
import { forgetBackend } from "./dispatch.ts";
import { DeviceError } from "./errors.ts";

/** What {@link info} tells. */
export interface Info {
  /** This library's version. */
  readonly version: string;
  /** `"deno"`, `"bun"`, `"node"` or `"other"`. */
  readonly runtime: string;
  /** The backend that serves each device that can be used. */
  readonly devices: Readonly<Record<string, string>>;
  /** Each backend and library, and whether it is there: `"in use"`, `"available"`, or why not. */
  readonly backends: Readonly<Record<"js" | "native" | "openblas" | "cuda", string>>;
}

/** This library's version. */
export const VERSION = "0.1.0";

/** The JavaScript backend, kept while another one serves. */
const js: Backend = backendOf("cpu")!;
let native: NativeBackend | string | undefined;

/** The native backend, opened once, or the reason why there is none. */
function findNative(): NativeBackend | string {
  if (native === undefined) {
    const opened = openNative(js);
    native = "reason" in opened ? opened.reason : opened;
  }
  return native;
}

/**
 * Chooses what runs ops on the CPU: `"js"` (the default) or `"native"`, the shim of `deno task
 * build`, which so far holds a few ops and hands the others to `"js"`.
 *
 * Throws a DeviceError that says why when the backend cannot be had. Never prompts.
 */
export function setBackend(name: "js" | "native"): void {
  if (name !== "js" && name !== "native") {
    throw new DeviceError(`Cannot use backend ${String(name)}: it is "js" or "native"`);
  }
  const backend = name === "js" ? js : findNative();
  if (typeof backend === "string") throw new DeviceError(`Cannot use backend native: ${backend}`);
  registerBackend("cpu", backend);
  forgetBackend();
}

/** Which backends are in use, which could be, and why others could not. Never prompts. */
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
  const serving = backendOf("cpu")!;
  const opened = typeof shim === "string" ? undefined : shim;
  const blas = opened?.blas();
  return {
    version: VERSION,
    runtime,
    devices: { cpu: serving.name },
    backends: {
      js: serving === js ? "in use" : "available",
      native: opened === undefined ? shim as string : serving === opened ? "in use" : "available",
      openblas: blas === undefined
        ? "needs the native backend"
        : "reason" in blas
        ? blas.reason
        : `${blas.config} at ${blas.path}`,
      cuda: "not part of this version",
    },
  };
}

/** What {@link attempt} gives. */
export type Attempt<R> =
  | { readonly value: R; readonly error?: undefined }
  | { readonly value?: undefined; readonly error: Error };

/**
 * Runs `body` and gives what it returns or throws as a value.
 *
 * @example
 * ```ts
 * const { error } = attempt(() => zeros([2]).reshape([3] as number[]));
 * error?.name; // => ShapeError
 * ```
 */
export function attempt<R>(body: () => R): Attempt<R> {
  try {
    return { value: body() };
  } catch (error) {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }
}
