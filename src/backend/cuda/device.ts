/**
 * One CUDA device as the shim shows it: kernels compiled once, launches, matrix products, errors in
 * words.
 *
 * Knows nothing of ops.
 *
 * @module
 */
import { DeviceError, IndexError, NativeError, OutOfMemoryError } from "../../base/errors.ts";
import type { Storage } from "../../memory/storage.ts";
import { CUDA_CONTROL, CUDA_MEMORY, type Shim, STATUS } from "../ffi/abi.ts";
import { lastError, readCudaInfo } from "../ffi/text.ts";
import { CONSTANTS, constantsOf, type Header } from "./source/constants.ts";
import type { Family } from "./source/mod.ts";
import type { Notes } from "../../memory/notes.ts";

/** The arguments of a kernel: 8 bytes each, in the order of its parameters. */
export class Arguments {
  readonly #reals = new Float64Array(512);
  readonly #words = new Uint32Array(this.#reals.buffer);
  #count = 0;

  /** The number of arguments. */
  get count(): number {
    return this.#count;
  }

  /** The memory of the arguments. */
  get data(): Float64Array {
    return this.#reals;
  }

  /** Removes all arguments. */
  clear(): this {
    this.#count = 0;
    return this;
  }

  /** Adds a `long long`: an integer of at most 53 bits. */
  integer(value: number): this {
    const at = 2 * this.#count++;
    this.#words[at] = value >>> 0;
    this.#words[at + 1] = Math.floor(value / 4294967296) | 0;
    return this;
  }

  /** Adds an integer of up to 64 bits. */
  long(value: bigint): this {
    const at = 2 * this.#count++;
    this.#words[at] = Number(value & 0xffffffffn);
    this.#words[at + 1] = Number(value >> 32n & 0xffffffffn);
    return this;
  }

  /** Leaves room for `count` more, which the kernel does not read. */
  skip(count: number): this {
    this.#count += count;
    return this;
  }

  /** Adds a `double`. */
  real(value: number): this {
    this.#reals[this.#count++] = value;
    return this;
  }

  /** Adds the address of element `offset` of `storage`, or a null pointer for null. */
  address(storage: Storage | null, offset = 0): this {
    return this.integer(storage === null ? 0 : storage.address + offset * storage.info.bytes);
  }

  /**
   * Adds 8 bytes that contain the one element of `scalar`, a storage of the CPU, low bytes first.
   */
  element(scalar: Storage): this {
    const at = 8 * this.#count++;
    const { buffer, byteOffset } = scalar.array;
    const bytes = new Uint8Array(buffer, byteOffset, scalar.info.bytes);
    const own = new Uint8Array(this.#reals.buffer, at, 8);
    own.fill(0);
    own.set(bytes);
    return this;
  }
}

/** The sizes along x, y and z. */
export type Extent = readonly [x: number, y?: number, z?: number];

/** The words of struct rm_faults; see {@link CudaDevice.indexErrors}. */
const NO_FAULTS = new BigInt64Array([0n, -1n, -1n, 0n]);
/** The number of words. */
export const FAULT_WORDS: number = CONSTANTS["gather_scatter.h"].FAULT_WORDS;

/** One device. */
export class CudaDevice {
  /** `"cuda"` for the first one, else `"cuda:1"`, … */
  readonly name: string;
  readonly #launch: Shim["rm_cuda_launch"];
  readonly #call = new Float64Array(8);
  /** Kernels by name; 0 for unavailable ones. */
  readonly #kernels = new Map<string, number>();
  /** Arguments and results of {@link CudaDevice.memory}. */
  readonly numbers: Float64Array = new Float64Array(5);
  /** The notes of the graph under recording; null if there is none. */
  notes: Notes | null = null;
  /** Why kernels are unavailable. */
  #reason = "no kernels for that come compiled";
  #indexErrors = 0;
  #capability = 0;
  /** The number of indexing calls, and the number of those that have been checked. */
  #indexed = 0;
  #judged = 0;

  constructor(readonly shim: Shim, readonly index: number) {
    this.name = index === 0 ? "cuda" : `cuda:${index}`;
    this.#launch = shim.rm_cuda_launch;
  }

  /**
   * The kernel `name`; on first use, `source` returns the CUDA C that defines it. Throws a
   * DeviceError if the kernel is unavailable.
   */
  kernel(name: string, source: () => string): number {
    const handle = this.find(name, source);
    return handle === 0 ? this.fail() : handle;
  }

  /** Throws the reason why kernels are unavailable. */
  fail(): never {
    throw new DeviceError(`${this.name}: ${this.#reason}`);
  }

  /** {@link CudaDevice.kernel}, but 0 if it is neither precompiled nor can be compiled. */
  find(name: string, source: () => string): number {
    const known = this.#kernels.get(name);
    if (known !== undefined) return known;
    this.load(source(), [name]);
    if (!this.#kernels.has(name)) this.#kernels.set(name, 0);
    return this.#kernels.get(name)!;
  }

  /** Compiles `source`, which defines the kernels `names`, unless all are known or unavailable. */
  load(source: string, names: readonly string[]): void {
    if (names.every((name) => this.#kernels.has(name))) return;
    const handles = new Float64Array(names.length);
    const text = (value: string): Uint8Array => new TextEncoder().encode(`${value}\0`);
    const status = this.shim
      .rm_cuda_compile(this.index, text(source), text(names.join("\n")), handles);
    if (status === STATUS.notFound) this.#reason = lastError(this.shim);
    else {
      this.check("rm_cuda_compile", status);
      names.forEach((name, i) => this.#kernels.set(name, handles[i]!));
    }
  }

  /** The compute capability, times 10. */
  get capability(): number {
    if (this.#capability === 0) {
      const text = readCudaInfo(this.shim, this.index).get("capability");
      this.#capability = Math.round(10 * Number(text));
    }
    return this.#capability;
  }

  /** Queues `kernel` with the given blocks and threads. */
  launch(kernel: number, blocks: Extent, threads: Extent, args: Arguments): void {
    const call = this.#call;
    call[0] = kernel;
    call[1] = blocks[0];
    call[2] = blocks[1] ?? 1;
    call[3] = blocks[2] ?? 1;
    call[4] = threads[0];
    call[5] = threads[1] ?? 1;
    call[6] = threads[2] ?? 1;
    call[7] = args.count * 8;
    this.check("rm_cuda_launch", this.#launch(this.index, call, args.data));
  }

  /**
   * Calls operation `what` of `rm_cuda_memory` with up to four numbers. Returns the first number;
   * {@link CudaDevice.numbers} contains all of them. Throws an OutOfMemoryError if there is no
   * memory.
   */
  memory(what: number, host: Uint8Array | null, a = 0, b = 0, c = 0, d = 0): number {
    const { numbers } = this;
    numbers[0] = a;
    numbers[1] = b;
    numbers[2] = c;
    numbers[3] = d;
    const status = this.shim.rm_cuda_memory(what, this.index, numbers, host);
    if (status === STATUS.outOfMemory) throw this.#outOfMemory(what, a);
    this.check("rm_cuda_memory", status);
    return numbers[0]!;
  }

  /** The error for an operation `what`, with first number `first`, that found no memory. */
  #outOfMemory(what: number, first: number): OutOfMemoryError {
    const [, second, third] = this.numbers;
    return what === CUDA_MEMORY.allocate
      ? new OutOfMemoryError(first, this.name, `${second} of ${third} bytes are free`)
      // Copies go through memory of the host.
      : new OutOfMemoryError(second!, "cpu", `a copy of so many bytes from or to ${this.name}`);
  }

  /** Calls `use` with the address of `bytes` bytes, and frees them afterwards. */
  workspace(bytes: number, use: (address: number) => void): void {
    const address = this.memory(CUDA_MEMORY.allocate, null, Math.max(1, bytes));
    try {
      use(address);
    } finally {
      // The device runs queued work before any later use of the memory.
      this.memory(CUDA_MEMORY.free, null, address);
    }
  }

  /** Queues writing zeros. */
  zero(address: number, bytes: number): void {
    this.memory(CUDA_MEMORY.zero, null, address, bytes);
  }

  /** Queues a copy. */
  copy(to: number, from: number, bytes: number): void {
    this.memory(CUDA_MEMORY.copy, null, to, from, bytes, this.index);
  }

  /** Queues a write of `array`, which may change afterwards. */
  upload(address: number, array: BigInt64Array): void {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    this.memory(CUDA_MEMORY.upload, bytes, address, bytes.length);
  }

  /** The address where kernels note indexes that are out of range. */
  get indexErrors(): number {
    if (this.#indexErrors === 0) {
      const address = this.memory(CUDA_MEMORY.allocate, null, NO_FAULTS.byteLength);
      this.upload(address, NO_FAULTS);
      this.#indexErrors = address;
    }
    return this.#indexErrors;
  }

  /** The number of a call that may note faults, starting at 1. */
  nextIndexing(): number {
    return ++this.#indexed;
  }

  /** The number of indexing calls. */
  get indexings(): number {
    return this.#indexed;
  }

  /** True if an indexing call ran after the last check for faults. */
  get mayHaveFaults(): boolean {
    return this.#indexed > this.#judged;
  }

  /**
   * Waits, and throws an IndexError if a kernel has met an index out of range since the last check.
   */
  checkFaults(): void {
    if (!this.mayHaveFaults) return;
    const words = new BigInt64Array(FAULT_WORDS);
    const bytes = new Uint8Array(words.buffer);
    this.memory(CUDA_MEMORY.download, bytes, this.#indexErrors, bytes.length);
    this.checkIndexErrors(words, this.#indexed);
  }

  /**
   * Throws an IndexError if `words`, read from {@link CudaDevice.indexErrors} after `indexings`
   * calls, note an index out of range.
   */
  checkIndexErrors(words: BigInt64Array, indexings: number): void {
    this.#judged = Math.max(this.#judged, indexings);
    const [call, low, high, size] = words;
    if (call === 0n) return;
    this.upload(this.#indexErrors, NO_FAULTS);
    const index = BigInt.asIntN(64, high! << 32n | low! & 0xffffffffn);
    throw new IndexError(`Cannot index axis of size ${size} at ${index}`);
  }

  /** Waits for all queued work. Throws a DeviceError for its failures. */
  synchronize(): void {
    this.check(
      "rm_cuda_control",
      this.shim.rm_cuda_control(CUDA_CONTROL.synchronize, this.index, null),
    );
  }

  /** Throws the error of `status`, with the shim's message. */
  check(symbol: string, status: number): void {
    if (status === STATUS.ok) return;
    const message = lastError(this.shim);
    const refused = this.notes !== null && status === STATUS.badArgument;
    // A missing library, such as NVRTC, is a fault of the device too.
    if (status === STATUS.deviceError || status === STATUS.notFound || refused) {
      throw new DeviceError(`${this.name}: ${message}`);
    }
    throw new NativeError(symbol, status, message);
  }
}

// ---- kernels of one line: a macro of a header in shim/cuda/kernels, with a name and types --------

/** A kernel: one line of C, and the header that it needs. */
export interface KernelVariant {
  /** The name, which distinguishes it from all other kernels. */
  readonly name: string;
  /** The file of shim/cuda/kernels. */
  readonly header: Header;
  /** The line. */
  readonly line: string;
}

/** The kernels of one header, together. */
export function familyOf(variants: readonly KernelVariant[]): Family {
  const lines = variants.map(({ line }) => line);
  const { header } = variants[0]!;
  return {
    source: `${constantsOf(header)}#include "${header}"\n${lines.join("\n")}\n`,
    names: variants.map(({ name }) => name),
  };
}

/** {@link kernelOf}, but 0 if the kernel is unavailable. */
export function findKernel(device: CudaDevice, variant: KernelVariant): number {
  return device.find(variant.name, () => familyOf([variant]).source);
}

/** The kernel on `device`, compiled by the first call. */
export function kernelOf(device: CudaDevice, variant: KernelVariant): number {
  return device.kernel(variant.name, () => familyOf([variant]).source);
}
