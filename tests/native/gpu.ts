/**
 * A CUDA device through the symbols of the shim, for programs in processes of their own: those have
 * no import map, and use assertions that both runtimes provide.
 *
 * @module
 */
import { deepStrictEqual as assertEquals, match as assertMatch, ok as assert } from "node:assert";
import type { Arguments } from "../../src/backend/cuda/device.ts";
import { CUDA_CONTROL, CUDA_MEMORY, type Shim, STATUS } from "../../src/backend/ffi/abi.ts";
import { openShim } from "../../src/backend/ffi/load.ts";
import type { TypedArray } from "../../src/base/dtype.ts";

export function cString(value: string): Uint8Array {
  return new TextEncoder().encode(`${value}\0`);
}

export function text(bytes: Uint8Array, length: number): string {
  return new TextDecoder().decode(bytes.subarray(0, Math.min(length, bytes.length - 1)));
}

/** An error that the shim reported. */
export class Failure extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

/** One device. */
export class Gpu {
  readonly #numbers = new Float64Array(8);

  constructor(readonly shim: Shim, readonly index = 0) {}

  check(status: number): void {
    if (status === STATUS.ok) return;
    const bytes = new Uint8Array(65536);
    throw new Failure(status, text(bytes, this.shim.rm_last_error(bytes, bytes.length)));
  }

  memory(what: keyof typeof CUDA_MEMORY, numbers: number[], host: TypedArray | null = null) {
    this.#numbers.set(numbers);
    this.check(this.shim.rm_cuda_memory(CUDA_MEMORY[what], this.index, this.#numbers, host));
    return this.#numbers;
  }

  control(what: keyof typeof CUDA_CONTROL, ...numbers: number[]): number {
    this.#numbers.set(numbers);
    this.check(this.shim.rm_cuda_control(CUDA_CONTROL[what], this.index, this.#numbers));
    return this.#numbers[0]!;
  }

  allocate = (bytes: number): number => this.memory("allocate", [bytes])[0]!;
  free = (address: number): void => void this.memory("free", [address]);
  zero = (address: number, bytes: number): void => void this.memory("zero", [address, bytes]);

  upload(address: number, data: TypedArray): void {
    this.memory("upload", [address, data.byteLength, 0], data);
  }

  download<A extends TypedArray>(address: number, to: A): A {
    this.memory("download", [address, to.byteLength, 0], to);
    return to;
  }

  bytes(address: number, length: number): Uint8Array {
    return this.download(address, new Uint8Array(length));
  }

  beginRead = (address: number, bytes: number): number =>
    this.memory("beginRead", [address, bytes])[0]!;

  /** True if the bytes have arrived. */
  endRead(ticket: number, to: TypedArray | null): boolean {
    return this.memory("endRead", [ticket, 0, to?.byteLength ?? 0], to)[0] === 1;
  }

  usage(): { used: number; kept: number; most: number; free: number; total: number } {
    const [used, kept, most, free, total] = this.memory("usage", []);
    return { used: used!, kept: kept!, most: most!, free: free!, total: total! };
  }

  compile(source: string, ...names: string[]): number[] {
    const handles = new Float64Array(names.length);
    this.check(
      this.shim.rm_cuda_compile(this.index, cString(source), cString(names.join("\n")), handles),
    );
    return [...handles];
  }

  launch(kernel: number, blocks: number, threads: number, args: Arguments): void {
    const call = Float64Array.of(kernel, blocks, 1, 1, threads, 1, 1, 8 * args.count);
    this.check(this.shim.rm_cuda_launch(this.index, call, args.data));
  }

  info(index = this.index): string {
    const bytes = new Uint8Array(16384);
    return text(bytes, this.shim.rm_cuda_info(index, bytes, bytes.length));
  }
}

/** The error of `body`. */
export function failureOf(body: () => unknown, status: keyof typeof STATUS, message: RegExp): void {
  try {
    body();
  } catch (error) {
    assert(error instanceof Failure, String(error));
    assertEquals([error.status, error.message], [STATUS[status], error.message]);
    assertMatch(error.message, message);
    return;
  }
  throw new Error(`nothing failed with ${message}`);
}

/** Opens the devices of ROWMAJOR_CUDA_LIB_DIR; returns the shim. */
export function open(): Shim {
  const shim = openShim();
  if ("reason" in shim) throw new Error(shim.reason);
  new Gpu(shim).check(shim.rm_cuda_open(null, new Float64Array(3)));
  return shim;
}

/** One of those devices. */
export function opened(index = 0): Gpu {
  return new Gpu(open(), index);
}

/** Integers below a bound, from a seed. */
export function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * below);
  };
}

/** The address of new memory with these contents. */
export function addressed(gpu: Gpu, values: Float32Array): number {
  const address = gpu.allocate(values.byteLength);
  gpu.upload(address, values);
  return address;
}
