/**
 * The memory behind tensors: runs of elements, and the interface of a device's memory.
 *
 * A {@link Storage} owns a run of elements of one dtype; handles (tensors) count references to it.
 * pool.ts makes storages of the CPU and keeps freed ones for reuse; device.ts makes storages in the
 * memory of a device, which only {@link DeviceMemory} can access. Knows nothing of shapes.
 *
 * @module
 */
import { DTYPE, type DTypeInfo, type TypedArray } from "../base/dtype.ts";
import { DisposedError, OutOfMemoryError } from "../base/errors.ts";

/** From this size on, positions, or those of their 32-bit words, may not fit 31 bits. */
const INT64_INDEX_FROM = 2 ** 30;

/** Users of a storage that copy its elements before a write. */
export interface CopyOnWrite {
  /** Moves to a copy, before a write of the storage. */
  move(): void;
}

/** A part of a memory that storages share; see pool.ts. */
export interface Slot {
  /** Frees it at once, where nothing uses it any more; else that happens once nothing refers to it. */
  free(): void;
}

/** Handles of storages that are not those of tensors: a program holds what it reads. */
export interface Hold {
  /** The number of its handles of `storage`. */
  count(storage: Storage): number;
  /** Ends it, as no tensor holds `storage` any more. */
  end(): void;
}

/** Whether a buffer, of any realm, is shared between threads: only such a one has those slots. */
function isSharedBuffer(buffer: ArrayBufferLike): boolean {
  if (typeof SharedArrayBuffer === "undefined") return false;
  try {
    Reflect.get(SharedArrayBuffer.prototype, "byteLength", buffer);
    return true;
  } catch {
    return false;
  }
}

/** A run of elements of one dtype, held by one or more tensors. */
export class Storage {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Storage";
  }

  /**
   * The elements; float16 and bfloat16 as bits. Changes when the storage moves out of a slab. Throws a
   * DeviceError if they are not in the memory of the CPU.
   */
  // Fields set by the constructor are only declared, so that they are written once and a subclass
  // can replace this one by an accessor.
  declare array: TypedArray;
  /** The dtype of the elements. */
  declare readonly info: DTypeInfo;
  // Private, so that tools that compare or print objects see the elements and not these.
  #handles = 0;
  #version = 0;
  #exposed: boolean;
  #onSlab: boolean;
  #cows: CopyOnWrite | null = null;
  #words: Int32Array | null = null;
  #holds: Set<Hold> | null = null;
  #slot: Slot | null = null;

  /** Wraps `array`. */
  constructor(
    array: TypedArray,
    info: DTypeInfo,
    exposed: boolean,
    onSlab: boolean,
  ) {
    this.array = array;
    this.info = info;
    this.#exposed = exposed;
    this.#onSlab = onSlab;
  }

  /** The number of tensors that hold this storage; a snapshot of it counts as one. */
  get handles(): number {
    return this.#handles;
  }
  set handles(count: number) {
    this.#handles = count;
  }

  /** The number of writes, across all reuses of the storage. */
  get version(): number {
    return this.#version;
  }
  set version(count: number) {
    this.#version = count;
  }

  /**
   * True if code outside has access to the bytes, or they are kept for reuse already:
   * {@link recycle} skips them.
   */
  get exposed(): boolean {
    return this.#exposed;
  }
  set exposed(is: boolean) {
    this.#exposed = is;
  }

  /** True while the bytes are part of a slab. */
  get onSlab(): boolean {
    return this.#onSlab;
  }
  set onSlab(is: boolean) {
    this.#onSlab = is;
  }

  /** The part of a linear memory that has the elements, if they are in one. */
  get slot(): Slot | null {
    return this.#slot;
  }
  set slot(slot: Slot | null) {
    this.#slot = slot;
  }

  /** The copies on write that a write would change, if any: see {@link Storage.settle}. */
  get cows(): CopyOnWrite | null {
    return this.#cows;
  }
  set cows(cows: CopyOnWrite | null) {
    this.#cows = cows;
  }

  /** The holds that end with the last tensor, if any. */
  get holds(): Set<Hold> | null {
    return this.#holds;
  }
  set holds(holds: Set<Hold> | null) {
    this.#holds = holds;
  }

  /** The storage that contains the elements: this one, except for a copy-on-write tensor. */
  get base(): Storage {
    return this;
  }

  /** True if the elements belong to another storage, so that a write copies them first. */
  get isShared(): boolean {
    return false;
  }

  /** True while there are no elements: in a trace, which only records ops. */
  get isTraced(): boolean {
    return false;
  }

  /** The device: `"cpu"`, `"cuda"`, `"cuda:1"`, … */
  get device(): string {
    return "cpu";
  }

  /** The memory of the device; null for the CPU. */
  get memory(): DeviceMemory | null {
    return null;
  }

  /** The address of the first element on its device; 0 on the CPU. */
  get address(): number {
    return 0;
  }

  /** The number of elements. */
  get length(): number {
    return this.array.length / this.info.entries;
  }

  /** The same memory as lanes, for a dtype with lanes; does not own the memory. */
  get lanes(): Storage {
    const lanes = new Storage(this.array, this.info.lane!, true, false);
    // Keeps the memory while the lanes are in use.
    lanes.#slot = this.base.#slot;
    return lanes;
  }

  /** Another storage of the same elements, on the CPU. */
  sharing(exposed: boolean): Storage {
    const other = new Storage(this.array, this.info, exposed, this.onSlab);
    other.#slot = this.base.#slot;
    return other;
  }

  /** True if element positions may not fit 32-bit integers. */
  get needsInt64Index(): boolean {
    return this.length > INT64_INDEX_FROM;
  }

  /** The same bytes as 32-bit words: loops access 64-bit integers through them, without BigInts. */
  get words(): Int32Array {
    return this.#words ??= new Int32Array(
      this.array.buffer,
      this.array.byteOffset,
      this.array.byteLength >> 2,
    );
  }

  /** True when the bytes are shared between workers. */
  get shared(): boolean {
    const { buffer } = this.array;
    // A shared buffer of another realm is no instance of either class.
    return !(buffer instanceof ArrayBuffer) && isSharedBuffer(buffer);
  }

  /** Prepares the bytes for access from outside: off the slab, never reused. */
  expose(): void {
    if (this.onSlab) {
      const own = this.#newArray();
      // Both are of the class of `info`: which one does not matter to the method.
      (own as Float64Array).set(this.array as Float64Array);
      this.array = own;
      this.#words = null;
      this.onSlab = false;
      // Readers on another thread may still use the elements.
      if (this.cows === null) this.#slot?.free();
      this.#slot = null;
    }
    this.exposed = true;
  }

  #newArray(): TypedArray {
    const { length, byteLength } = this.array;
    try {
      return new this.info.array(length);
    } catch {
      throw new OutOfMemoryError(byteLength, "cpu");
    }
  }

  /** Takes over the memory of `fresh`, which has as many elements and nothing else uses. */
  moveTo(fresh: Storage): void {
    this.array = fresh.array;
    this.onSlab = fresh.onSlab;
    this.#slot = fresh.slot;
    this.#words = null;
  }

  /** Separates it from its copies on write, before a write. */
  settle(): void {
    this.cows?.move();
  }

  /** Frees the elements, for classes whose memory {@link recycle} does not keep for reuse. */
  free?(): void;
}

/**
 * The memory of a device, by addresses and bytes. Its operations run in the order of the calls and
 * of the ops on the device; only reads wait for earlier work.
 */
export interface DeviceMemory {
  /** The device: `"cuda"`, `"cuda:1"`, … */
  readonly device: string;
  /** True while the device records work to run later. */
  readonly recording?: boolean;
  /** True for memory that kernels of the CPU will read: ops are those of the CPU. */
  readonly host?: boolean;
  /** Makes a storage of a class of its own, if it has one. */
  make?(info: DTypeInfo, length: number, zeroed: boolean): Storage;
  /** Returns the address of `bytes` bytes, at least 1. Throws an OutOfMemoryError. */
  allocate(bytes: number): number;
  /** Frees memory from {@link DeviceMemory.allocate}; queued work may still use it. */
  free(address: number): void;
  /** Writes zeros. */
  zero(address: number, bytes: number): void;
  /** Copies `bytes` there; they may change after the call returns. */
  write(address: number, bytes: Uint8Array): void;
  /** Fills `bytes` from there; waits. Throws the error of earlier work on the device. */
  read(address: number, bytes: Uint8Array): void;
  /** The same without blocking, with the contents at the time of the call. */
  readLater(address: number, bytes: Uint8Array): Promise<void>;
  /** Notes the storages of a copy, if {@link DeviceMemory.recording} is true. */
  note?(out: Storage, input: Storage): void;
  /** Copies from `from` in `source`, the memory of a device of the same kind, to `to` in this one. */
  copy(to: number, source: DeviceMemory, from: number, bytes: number): void;
  /** Waits for all work of the device. Throws the error of that work. */
  synchronize(): void;
  /** The amount of memory in use. */
  usage(): DeviceMemoryInfo;
  /** Frees the memory kept for reuse. */
  release(): void;
}

/** Whether the kernels of the CPU read a memory. */
export function isHost(memory: DeviceMemory | null): boolean {
  return memory === null || memory.host === true;
}

/**
 * The storage of a tensor after `dispose()` or a move: empty, and without a dtype. Its `info` throws
 * a {@link DisposedError}, which ops precede by one that names them.
 */
export const DISPOSED: Storage = makeDisposed();

function makeDisposed(): Storage {
  const storage = new Storage(new Uint8Array(0), DTYPE.bool, true, false);
  return Object.defineProperties(storage, {
    info: {
      enumerable: false,
      get(): never {
        throw new DisposedError("Cannot read the dtype: the tensor was disposed or moved");
      },
    },
    length: { value: 0 },
  });
}

/**
 * Throws a {@link DisposedError} that names `op` if `storage` was disposed or its buffer
 * transferred.
 */
export function checkAlive(storage: Storage, op: string): void {
  // Only exposed bytes can be transferred; DISPOSED counts as exposed.
  if (storage.exposed) checkExposed(storage, op);
}

/** True if the buffer of `storage` was transferred, to a worker for instance. */
export function isDetached(storage: Storage): boolean {
  return storage.memory === null && storage.array.length === 0 &&
    (storage.array.buffer as ArrayBuffer).detached === true;
}

function checkExposed(storage: Storage, op: string): void {
  if (storage === DISPOSED) {
    throw new DisposedError(`Cannot ${op}: the tensor was disposed or moved`);
  }
  if (isDetached(storage)) {
    throw new DisposedError(`Cannot ${op}: the tensor's buffer was transferred`);
  }
}

/** The memory of tensors; see {@link memory}. */
export interface MemoryInfo {
  /** Allocated bytes that have not been freed or transferred. */
  readonly bytes: number;
  /** The maximum of `bytes` so far. */
  readonly peakBytes: number;
  /** The part of `bytes` kept for reuse, by tensors and as the arena of compiled functions. */
  readonly pooledBytes: number;
}

/** {@link MemoryInfo} of the CPU. */
export interface CpuMemoryInfo extends MemoryInfo {
  /**
   * Bytes of large buffers that were garbage collected, or that the pool has no room for. Any
   * thread of the process can reuse them. Not part of `bytes`.
   */
  readonly collectedBytes: number;
  /**
   * The part of `bytes` that compiled functions have computed of constant tensors, such as packed
   * weights; once for all functions and shapes.
   */
  readonly constantBytes: number;
}

/** {@link MemoryInfo} of a device with memory of its own. */
export interface DeviceMemoryInfo extends MemoryInfo {
  /** The maximum memory in use at a time, without memory kept for reuse. */
  readonly peakBytes: number;
  /** The free memory on the device, for all programs. */
  readonly freeBytes: number;
  /** The total memory of the device. */
  readonly totalBytes: number;
}
