/**
 * Instances of the WebAssembly module for tests.
 *
 * @module
 */
import { test } from "node:test";
import { whyNoWasm } from "../../src/backend/wasm/module.ts";
import type { Storage } from "../../src/memory/storage.ts";

/** Why there is no module; null if there is one. */
export const reason: string | null = whyNoWasm();
if (reason !== null) console.log(`WebAssembly is not tested: ${reason}`);

/** `test`, or `test.skip` without the module. */
export const check: typeof test | typeof test.skip = reason === null ? test : test.skip;

/** The storage of a tensor. */
export function storageOf(x: unknown): Storage {
  return (x as { storage: Storage }).storage;
}
