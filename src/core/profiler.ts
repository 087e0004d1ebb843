/**
 * What a running profile is told besides calls: which backend ran a kernel, and work that is no
 * call. src/profile has the profile itself.
 *
 * @module
 */
import type { Call } from "../table/op.ts";
import type { Backend } from "./backend.ts";

/** What is known of work that is no call. */
export interface WorkInfo {
  /** The name of the backend that ran it. */
  readonly backend?: string | undefined;
  /** The number of threads that took part. */
  readonly threads?: number | undefined;
  /** The bytes that it read and wrote. */
  readonly bytes?: number;
  /** The number of its operations on numbers. */
  readonly flops?: number;
  /** Its inputs and outputs as text. */
  readonly shapes?: string;
}

/** A running profile. */
export interface Profiler {
  /** Called after `backend` has run a kernel of `call`. */
  ran(backend: Backend, call: Call): void;
  /** Work that is no call; `start` is a time of `performance.now()`. */
  note(name: string, start: number, duration: number, about: WorkInfo): void;
  /** Runs `body`, whose calls are parts of the work `name`; `about` tells of it afterwards. */
  span<R>(name: string, body: () => R, about: () => WorkInfo): R;
}

/** The running profile; null if there is none. */
export let profiler: Profiler | null = null;

/** Makes `next` the running profile, and returns the one before. */
export function setProfiler(next: Profiler | null): Profiler | null {
  const before = profiler;
  profiler = next;
  return before;
}

/**
 * Adds work that is no call, such as a compiled program, to the running profile, if any: it began
 * at `start`, a time of `performance.now()`, and took `duration` milliseconds.
 */
export function profileEvent(
  name: string,
  start: number,
  duration: number,
  about: WorkInfo = {},
): void {
  profiler?.note(name, start, duration, about);
}

/**
 * Runs `body`; calls in it are parts of the work `name` for the running profile, if any. `about` is
 * called after it.
 */
export function profileSpan<R>(
  name: string,
  body: () => R,
  about: () => WorkInfo = () => ({}),
): R {
  return profiler === null ? body() : profiler.span(name, body, about);
}
