/**
 * Texts that the shim copies out.
 *
 * Knows nothing of ops.
 *
 * @module
 */
import type { Shim } from "./abi.ts";

/** Reads a text that `copy` writes into a buffer, cut to it, and gives the full length of. */
export function readText(copy: (bytes: Uint8Array, length: number) => number): string {
  const bytes = new Uint8Array(8192);
  const length = Math.min(copy(bytes, bytes.length), bytes.length - 1);
  return new TextDecoder().decode(bytes.subarray(0, length));
}

/** What went wrong in the shim last. */
export function lastError(shim: Shim): string {
  return readText((bytes, length) => shim.rm_last_error(bytes, length));
}
