/**
 * Handles of results: the objects that ops return to programs. The class Tensor registers itself
 * here, so that no lower layer has to know it.
 *
 * @module
 */
import type { Layout } from "../base/layout.ts";
import type { Operand } from "../memory/operand.ts";
import type { Storage } from "../memory/storage.ts";

/** Makes a handle; `flags` are those of views. */
export let wrap: (storage: Storage, layout: Layout, flags?: number) => Operand;

/**
 * Runs `body` and disposes of every handle made in it except those that it returns, alone or in an
 * array.
 */
export let tidy: <R>(body: () => R) => R;

/** Disposes of a handle. */
export let dispose: (handle: Operand) => void;

/** Receives every handle that is made in a scope; null if no trace runs. */
export let born: WeakSet<Operand> | null = null;

/** Runs `body`, a scope; `handles` receives every handle that is made in it. */
export function noteHandles<R>(handles: WeakSet<Operand>, body: () => R): R {
  const outer = born;
  born = handles;
  try {
    return body();
  } finally {
    born = outer;
  }
}

/** Registers the functions that make and dispose of handles. Called once, by tensor.ts. */
export function registerHandles(
  make: typeof wrap,
  tidyScope: typeof tidy,
  disposeOf: typeof dispose,
): void {
  wrap = make;
  tidy = tidyScope;
  dispose = disposeOf;
}
