/**
 * Texts that the shim copies out.
 *
 * Knows nothing of ops.
 *
 * @module
 */
import type { Shim } from "./abi.ts";

/**
 * Reads a text that `copy` writes into a buffer, truncated to fit, and whose full length it
 * returns.
 */
export function readText(copy: (bytes: Uint8Array, length: number) => number): string {
  const bytes = new Uint8Array(8192);
  const length = Math.min(copy(bytes, bytes.length), bytes.length - 1);
  return new TextDecoder().decode(bytes.subarray(0, length));
}

/** The last error message of the shim. */
export function lastError(shim: Shim): string {
  return readText((bytes, length) => shim.rm_last_error(bytes, length));
}
