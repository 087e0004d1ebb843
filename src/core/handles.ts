/**
 * Handles on results: what ops give to programs. The class Tensor registers itself here, so that
 * nothing below it has to know it.
 *
 * @module
 */
import type { Layout } from "../base/layout.ts";
import type { Operand } from "../memory/operand.ts";
import type { Storage } from "../memory/storage.ts";

/** Makes a handle; `flags` are those of views. */
export let wrap: (storage: Storage, layout: Layout, flags?: number) => Operand;

/**
 * Runs `body` and disposes of every handle made in it but the ones that it returns, alone or in an
 * array.
 */
export let tidy: <R>(body: () => R) => R;

/** Disposes of a handle. */
export let dispose: (handle: Operand) => void;

/** Says what handles are, and how they are made and disposed of. Called once, by tensor.ts. */
export function registerHandles(
  make: typeof wrap,
  tidyScope: typeof tidy,
  disposeOf: typeof dispose,
): void {
  wrap = make;
  tidy = tidyScope;
  dispose = disposeOf;
}
