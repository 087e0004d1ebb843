/**
 * Memory for large arrays from the shim, which reuses it after the garbage collector finds an array
 * unreachable.
 *
 * Knows nothing of tensors.
 *
 * @module
 */
import type { BufferSource } from "../../memory/pool.ts";
import { BUFFERS, type Shim } from "./abi.ts";
import { host } from "./runtime.ts";
import { openedShim, shimPath } from "./load.ts";

/** The numbers of `rm_buffers` with {@link BUFFERS}.kept. */
const KEPT_NUMBERS = 3;

class ShimBuffers implements BufferSource {
  readonly #shim: Shim;
  readonly #bytes: Float64Array;
  readonly #numbers = new Float64Array(KEPT_NUMBERS);
  readonly take: BufferSource["take"];

  constructor(shim: Shim, take: BufferSource["take"], bytes: ArrayBuffer) {
    this.#shim = shim;
    this.#bytes = new Float64Array(bytes);
    this.take = take;
  }

  get bytes(): number {
    return this.#bytes[0]!;
  }

  get keptBytes(): number {
    this.#shim.rm_buffers(BUFFERS.kept, this.#numbers);
    return this.#numbers[0]!;
  }

  get processBytes(): number {
    this.#shim.rm_buffers(BUFFERS.kept, this.#numbers);
    return this.#numbers[1]!;
  }

  release(except: number): void {
    this.#numbers[0] = except;
    this.#shim.rm_buffers(BUFFERS.release, this.#numbers);
  }
}

/**
 * The buffers of the open shim; null if it has none, undefined if no call has opened it yet. Never
 * throws.
 */
export function findBuffers(): BufferSource | null | undefined {
  const shim = openedShim();
  if (shim === undefined) return undefined;
  if ("reason" in shim) return null;
  try {
    const made = host.buffers(shim, shimPath(shim)!);
    return made === undefined ? null : new ShimBuffers(shim, made.take, made.bytes);
  } catch {
    return null;
  }
}

/**
 * The most bytes that this process may use: the least of its limits and the memory of the machine.
 * Null if that is unknown, undefined if no call has opened the shim yet. Never prompts.
 */
export function findMemoryLimit(): number | null | undefined {
  const shim = openedShim();
  if (shim === undefined) return undefined;
  if ("reason" in shim) return host.memoryLimit() ?? null;
  const numbers = new Float64Array(KEPT_NUMBERS);
  shim.rm_buffers(BUFFERS.kept, numbers);
  return Number.isFinite(numbers[2]) ? numbers[2]! : null;
}
