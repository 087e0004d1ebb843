/**
 * One CUDA device as the shim shows it: kernels compiled once, launches, matrix products, errors in
 * words.
 *
 * Knows nothing of ops or of how kernels are written.
 *
 * @module
 */
import { DeviceError, NativeError } from "../../errors.ts";
import type { Storage } from "../../storage.ts";
import { CUDA_CONTROL, type Shim, STATUS } from "../shim/abi.ts";

/** The arguments of a kernel: 8 bytes each, in the order of its parameters. */
export class Arguments {
  readonly #reals = new Float64Array(512);
  readonly #words = new Uint32Array(this.#reals.buffer);
  #count = 0;

  /** How many there are. */
  get count(): number {
    return this.#count;
  }

  /** Where they lie. */
  get data(): Float64Array {
    return this.#reals;
  }

  /** Begins anew. */
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

  /** Adds a `double`. */
  real(value: number): this {
    this.#reals[this.#count++] = value;
    return this;
  }

  /** Adds the address of element `offset` of `storage`; of none, a null pointer. */
  address(storage: Storage | null, offset = 0): this {
    return this.integer(storage === null ? 0 : storage.address + offset * storage.info.bytes);
  }

  /** Adds 8 bytes that hold the one element of `scalar`, lowest first: a storage of the CPU. */
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

/** How many there are along x, y and z. */
export type Extent = readonly [x: number, y?: number, z?: number];

/** One device. */
export class CudaDevice {
  /** `"cuda"` for the first one, else `"cuda:1"`, … */
  readonly name: string;
  readonly #launch: Shim["rm_cuda_launch"];
  readonly #call = new Float64Array(9);
  readonly #kernels = new Map<string, number>();

  constructor(readonly shim: Shim, readonly index: number) {
    this.name = index === 0 ? "cuda" : `cuda:${index}`;
    this.#launch = shim.rm_cuda_launch;
  }

  /** The kernel `name`; the first time, `source` gives the CUDA C that defines it. */
  kernel(name: string, source: () => string): number {
    const known = this.#kernels.get(name);
    if (known !== undefined) return known;
    this.load(source(), [name]);
    return this.#kernels.get(name)!;
  }

  /** Compiles `source`, which defines the kernels `names`, unless all are there. */
  load(source: string, names: readonly string[]): void {
    if (names.every((name) => this.#kernels.has(name))) return;
    const handles = new Float64Array(names.length);
    const text = (value: string): Uint8Array => new TextEncoder().encode(`${value}\0`);
    const status = this.shim
      .rm_cuda_compile(this.index, text(source), text(names.join("\n")), handles);
    this.check("rm_cuda_compile", status);
    names.forEach((name, i) => this.#kernels.set(name, handles[i]!));
  }

  /** Queues `kernel` with so many blocks of so many threads. */
  launch(kernel: number, blocks: Extent, threads: Extent, args: Arguments, sharedBytes = 0): void {
    const call = this.#call;
    call[0] = kernel;
    call[1] = blocks[0];
    call[2] = blocks[1] ?? 1;
    call[3] = blocks[2] ?? 1;
    call[4] = threads[0];
    call[5] = threads[1] ?? 1;
    call[6] = threads[2] ?? 1;
    call[7] = sharedBytes;
    call[8] = args.count * 8;
    this.check("rm_cuda_launch", this.#launch(this.index, call, args.data));
  }

  /** Waits for all that is queued. Throws a DeviceError for what went wrong in it. */
  synchronize(): void {
    this.check(
      "rm_cuda_control",
      this.shim.rm_cuda_control(CUDA_CONTROL.synchronize, this.index, null),
    );
  }

  /** Throws what `status` stands for, with the shim's message. */
  check(symbol: string, status: number): void {
    if (status === STATUS.ok) return;
    const bytes = new Uint8Array(8192);
    const length = Math.min(this.shim.rm_last_error(bytes, bytes.length), bytes.length - 1);
    const message = new TextDecoder().decode(bytes.subarray(0, length));
    if (status === STATUS.deviceError) throw new DeviceError(`${this.name}: ${message}`);
    throw new NativeError(symbol, status, message);
  }
}
