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
