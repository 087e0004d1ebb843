/**
 * Which backends serve, memory figures, and errors as values.
 *
 * @module
 */
import { backendOf } from "./backend.ts";

/** What {@link info} tells. */
export interface Info {
  /** This library's version. */
  readonly version: string;
  /** `"deno"`, `"bun"`, `"node"` or `"other"`. */
  readonly runtime: string;
  /** The backend of each device that can be used. */
  readonly devices: Readonly<Record<string, string>>;
}

/** This library's version. */
export const VERSION = "0.1.0";

/** Which backends are in use. Opens nothing and asks for no permission. */
export function info(): Info {
  const globals = globalThis as { Deno?: unknown; Bun?: unknown; process?: unknown };
  const runtime = globals.Deno !== undefined
    ? "deno"
    : globals.Bun !== undefined
    ? "bun"
    : globals.process !== undefined
    ? "node"
    : "other";
  const cpu = backendOf("cpu");
  return { version: VERSION, runtime, devices: cpu === undefined ? {} : { cpu: cpu.name } };
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
