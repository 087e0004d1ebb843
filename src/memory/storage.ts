/**
 * The memory behind tensors: runs of elements, and what the memory of a device has to be able to do.
 *
 * A {@link Storage} owns a run of elements of one dtype; handles (tensors) count on it. pool.ts makes
 * those of the CPU and keeps what is given back; device.ts has those in the memory of a device, which
 * is reached through {@link DeviceMemory} only. Knows nothing of shapes.
 *
 * @module
 */
import { DTYPE, type DTypeInfo, type TypedArray } from "../base/dtype.ts";
import { DisposedError } from "../base/errors.ts";

/** From here on positions, or those of their 32-bit words, may not fit 31 bits. */
const HUGE = 2 ** 30;

/** What looks at a storage until that is written, and then has a copy. */
export interface CopyOnWrite {
  /** Moves to a copy: the storage is about to be written. */
  move(): void;
}

/** A run of elements of one dtype, held by one or more tensors. */
export class Storage {
  /**
   * The elements; float16 and bfloat16 as bits. Moves when the storage leaves a slab. Throws a
   * DeviceError where they are not in the memory of the CPU.
   */
  // Fields that the constructor sets are only declared: so they are written once, and another kind
  // of storage can have an accessor in this one's place.
  declare array: TypedArray;
  /** Their dtype. */
  declare readonly info: DTypeInfo;
  /** How many tensors hold this storage; a snapshot of it counts as one. */
  handles = 0;
  /** How many times it has been written, in all the lives that it has had. */
  version = 0;
  /** True when its bytes were handed out, or are kept for reuse already: {@link recycle} leaves them. */
  declare escaped: boolean;
  /** True while the bytes are part of a slab. */
  declare onSlab: boolean;
  /** What a write would change for others, if there are any: see {@link Storage.settle}. */
  declare cows: CopyOnWrite | null;
  #words: Int32Array | null = null;

  /** Wraps `array`. */
  constructor(
    array: TypedArray,
    info: DTypeInfo,
    escaped: boolean,
    onSlab: boolean,
  ) {
    this.array = array;
    this.info = info;
    this.escaped = escaped;
    this.onSlab = onSlab;
    this.cows = null;
  }

  /** The storage that has the elements: this one, but where it is that of a copy-on-write tensor. */
  get base(): Storage {
    return this;
  }

  /** True when the elements are not its own, and a write would have to copy them. */
  get borrows(): boolean {
    return false;
  }

  /** Where it is: `"cpu"`, `"cuda"`, `"cuda:1"`, … */
  get device(): string {
    return "cpu";
  }

  /** The memory that it lies in; null for that of the CPU. */
  get memory(): DeviceMemory | null {
    return null;
  }

  /** Where it begins in the memory of its device; 0 on the CPU. */
  get address(): number {
    return 0;
  }

  /** How many elements there are. */
  get length(): number {
    return this.array.length / this.info.entries;
  }

  /** The same memory as lanes, for a dtype that has them; it does not own what it shows. */
  get lanes(): Storage {
    return new Storage(this.array, this.info.lane!, true, false);
  }

  /** True when element positions may not fit 32-bit integers. */
  get huge(): boolean {
    return this.length > HUGE;
  }

  /** The same bytes as 32-bit words: how loops reach 64-bit integers without BigInts. */
  get words(): Int32Array {
    return this.#words ??= new Int32Array(
      this.array.buffer,
      this.array.byteOffset,
      this.array.byteLength >> 2,
    );
  }

  /** True when the bytes are shared between workers. */
  get shared(): boolean {
    return typeof SharedArrayBuffer !== "undefined" &&
      this.array.buffer instanceof SharedArrayBuffer;
  }

  /** Makes the bytes safe to hand out: off the slab, never recycled. */
  escape(): void {
    if (this.onSlab) {
      const own = new this.info.array(this.array.length);
      own.set(this.array as never);
      this.array = own;
      this.#words = null;
      this.onSlab = false;
    }
    this.escaped = true;
  }

  /** Takes it and the copies on write apart, before it is written. */
  settle(): void {
    this.cows?.move();
  }

  /** Lets go of the elements, where that is not to keep them for reuse: see {@link recycle}. */
  free?(): void;
}

/**
 * The memory of a device, by addresses and bytes. What it does to it comes in the order of the calls
 * and of the ops on the device; only what reads waits for what was asked before.
 */
export interface DeviceMemory {
  /** Its device: `"cuda"`, `"cuda:1"`, … */
  readonly device: string;
  /** True while what the device is asked for is recorded, to be done later. */
  readonly recording?: boolean;
  /** Gives the address of so many bytes, at least 1. Throws an OutOfMemoryError. */
  allocate(bytes: number): number;
  /** Takes back what {@link DeviceMemory.allocate} gave; what is under way may still use it. */
  free(address: number): void;
  /** Writes zeros. */
  zero(address: number, bytes: number): void;
  /** Copies `bytes` there; they may change once the call returns. */
  write(address: number, bytes: Uint8Array): void;
  /** Fills `bytes` from there; waits. Throws what went wrong on the device before. */
  read(address: number, bytes: Uint8Array): void;
  /** The same without blocking, of what is there when it is called. */
  readLater(address: number, bytes: Uint8Array): Promise<void>;
  /** Is told of which storages a copy is, where {@link DeviceMemory.recording} needs to know. */
  note?(out: Storage, input: Storage): void;
  /** Copies from `from` in `source`, the memory of a device of the same kind, to `to` in this one. */
  copy(to: number, source: DeviceMemory, from: number, bytes: number): void;
  /** Waits for all that the device has been asked for. Throws what went wrong in it. */
  synchronize(): void;
  /** How much of it is in use. */
  usage(): DeviceMemoryInfo;
  /** Lets go of what is kept for reuse. */
  release(): void;
}

/** What a tensor holds after `dispose()` or a move: nothing. */
export const GONE: Storage = new Storage(new Uint8Array(0), DTYPE.bool, true, false);

/** Throws a {@link DisposedError} that names `op` when `storage` is gone, or its bytes are. */
export function checkAlive(storage: Storage, op: string): void {
  // Bytes that nobody has been handed are still there; those of GONE count as handed out.
  if (storage.escaped) checkEscaped(storage, op);
}

/** True when the buffer of `storage` was transferred, to a worker for instance. */
export function isDetached(storage: Storage): boolean {
  return storage.memory === null && storage.array.length === 0 &&
    (storage.array.buffer as ArrayBuffer).detached === true;
}

function checkEscaped(storage: Storage, op: string): void {
  if (storage === GONE) {
    throw new DisposedError(`Cannot ${op}: the tensor was disposed or moved`);
  }
  if (isDetached(storage)) {
    throw new DisposedError(`Cannot ${op}: the tensor's buffer was transferred to somebody else`);
  }
}

/** How much memory tensors take; see {@link memory}. */
export interface MemoryInfo {
  /** Bytes of what rowmajor has made and that has not been given or taken back. */
  readonly bytes: number;
  /** The most that `bytes` has been. */
  readonly peakBytes: number;
  /** The part of `bytes` that is kept for reuse. */
  readonly pooledBytes: number;
}

/** {@link MemoryInfo} of the CPU. */
export interface CpuMemoryInfo extends MemoryInfo {
  /**
   * Bytes of large buffers that a collector has found gone, or for which the pool has no room, and
   * that wait to be used again, by any thread of the process; not part of `bytes`.
   */
  readonly collectedBytes: number;
}

/** {@link MemoryInfo} of a device with memory of its own. */
export interface DeviceMemoryInfo extends MemoryInfo {
  /** The most that has been in use at a time; what is kept for reuse does not count. */
  readonly peakBytes: number;
  /** How much is free on the device, for all programs. */
  readonly freeBytes: number;
  /** How much the device has. */
  readonly totalBytes: number;
}
