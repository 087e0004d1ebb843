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

/** What the shim tells of a CUDA device, or of CUDA if `index` is -1, by keys. */
export function readCudaInfo(shim: Shim, index: number): Map<string, string> {
  const text = readText((bytes, length) => shim.rm_cuda_info(index, bytes, length));
  return new Map(
    text.trimEnd().split("\n").map((line) => {
      const [key = "", value = ""] = line.split("\t");
      return [key, value];
    }),
  );
}

/** The last error message of the shim. */
export function lastError(shim: Shim): string {
  return readText((bytes, length) => shim.rm_last_error(bytes, length));
}
