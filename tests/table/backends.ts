/**
 * The backends that the op table is tested on, and the one that says what is right.
 *
 * A backend that is to pass the same tests joins {@link BACKENDS}; nothing else changes. Native ones
 * must not leave short arrays to JavaScript here. Knows nothing of ops.
 *
 * @module
 */
import { type Backend, backendOf, registerBackend } from "../../src/backend.ts";
import { JsBackend } from "../../src/backends/js/backend.ts";
import { forgetBackend } from "../../src/dispatch.ts";

/** A backend under test. */
export interface Target {
  readonly name: string;
  readonly backend: Backend;
  /** True when elementwise results have to be those of the reference to the last bit. */
  readonly exact: boolean;
}

/** The backends under test. */
export const BACKENDS: readonly Target[] = [
  { name: "generated loops", backend: new JsBackend(true), exact: true },
  { name: "interpreter", backend: new JsBackend(false), exact: true },
];

const reference = new JsBackend(false);

/** What `run` gives while `backend` serves the CPU. */
export function using<T>(backend: Backend, run: () => T): T {
  const before = backendOf("cpu");
  registerBackend("cpu", backend);
  forgetBackend();
  try {
    return run();
  } finally {
    if (before !== undefined) registerBackend("cpu", before);
    forgetBackend();
  }
}

/** What the reference, the interpreter, gives; to be asked for plain dense operands only. */
export function referenceOf<T>(run: () => T): T {
  return using(reference, run);
}
