/**
 * The memory behind tensors: allocate, share, recycle.
 *
 * A {@link Storage} owns a run of elements of one dtype; handles (tensors) count on it. Knows
 * nothing of shapes. In V8, small arrays are cut from slabs, since a fresh ArrayBuffer costs more
 * than the op that fills it; a storage that the last handle gives back is kept for the next request
 * of the same size, unless its bytes have been handed out. A {@link DeviceStorage} has its elements
 * in the memory of another device, which this file reaches through {@link DeviceMemory} only.
 *
 * @module
 */
import { DTYPE, type DType, type DTypeInfo, type TypedArray } from "../base/dtype.ts";
import { DeviceError, DisposedError, OutOfMemoryError } from "../base/errors.ts";

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
    return this.array.length;
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

/** What classes with an `array` of their own hand to {@link Storage}: nobody reads it. */
export const NO_ARRAY: Uint8Array = new Uint8Array(0);

/** Frees what nobody holds any more and nobody has disposed of. */
const lost = new FinalizationRegistry<{ memory: DeviceMemory; address: number }>(
  ({ memory, address }) => {
    try {
      memory.free(address);
    } catch {
      // The device has failed: who uses it next is told.
    }
  },
);

/** A run of elements in the memory of a device. */
export class DeviceStorage extends Storage {
  readonly #memory: DeviceMemory;
  readonly #length: number;
  readonly #address: number;

  static {
    Object.defineProperty(this.prototype, "array", {
      get(this: DeviceStorage): never {
        throw new DeviceError(
          `Cannot reach elements on ${this.device} from the CPU: cpu(), read() and toTypedArray() ` +
            "copy them",
        );
      },
      set(): void {},
    });
  }

  /** Makes one of `length` elements; with `zeroed` they are 0, otherwise they may be anything. */
  constructor(memory: DeviceMemory, info: DTypeInfo, length: number, zeroed: boolean) {
    super(NO_ARRAY, info, false, false);
    const bytes = length * info.bytes;
    this.#memory = memory;
    this.#length = length;
    this.#address = bytes === 0 ? 0 : memory.allocate(bytes);
    if (bytes === 0) return;
    lost.register(this, { memory, address: this.#address }, this);
    if (zeroed) memory.zero(this.#address, bytes);
  }

  override get device(): string {
    return this.#memory.device;
  }

  override get memory(): DeviceMemory {
    return this.#memory;
  }

  override get address(): number {
    return this.#address;
  }

  override get length(): number {
    return this.#length;
  }

  override get shared(): boolean {
    return false;
  }

  /** Gives the memory back. Called once, when nobody uses it any more. */
  override free(): void {
    // Not to be given back twice.
    this.escaped = true;
    if (this.#length === 0) return;
    lost.unregister(this);
    this.#memory.free(this.#address);
  }
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

/** Makes large buffers; their memory is used again once it is freed, or a collector finds them gone. */
export interface BufferSource {
  /** Makes one, of zeros if `zeroed` is 1; undefined where there is no memory. */
  readonly take: (bytes: number, zeroed: 0 | 1) => ArrayBuffer | undefined;
  /** How many bytes those that are not gone have. */
  readonly bytes: number;
  /** How many bytes there are elsewhere: no more are kept than those and its own, or 256 MiB. */
  otherBytes: number;
  /** How many bytes wait to be used again, by any thread of the process. */
  readonly keptBytes: number;
  /** Lets go of those. */
  release(): void;
}

const SLAB_BYTES = 1 << 16;
/** Up to here arrays are too small to be worth a buffer of their own. */
const SMALL_BYTES = 1 << 11;
/** Bun makes small arrays faster than views on a slab; V8 does not. */
const SLABS = !("Bun" in globalThis);
/** No more than this is kept for reuse. */
const POOL_LIMIT_BYTES = 1 << 28;

let slab = new ArrayBuffer(0);
let slabUsed = 0;

/** The lengths and dtypes of which any are kept. */
const MOST_BINS = 1 << 14;

/** Storages of one length and dtype that nobody uses. */
class Bin {
  readonly storages: Storage[] = [];
  /** Whether one has been taken since room was last looked for here. */
  taken = false;

  constructor(readonly bytes: number) {}
}

const pool = new Map<number, Bin>();
/** Goes on where it stood: what comes first in a map has often been deleted, which takes its time. */
let turns = pool.entries();
// The bin that was looked up last.
let lastKey = -1;
let lastBin: Bin | undefined;
let pooledBytes = 0;
let liveBytes = 0;
let peakBytes = 0;

const collected = new FinalizationRegistry<number>((bytes) => {
  liveBytes -= bytes;
});

/** From here to there a buffer comes from the source, where there is one. */
const LEAST_FROM_SOURCE = 1 << 17;
const MOST_FROM_SOURCE = 1 << 28;
/** The source is not asked for before so many bytes have been made: it takes milliseconds. */
const BYTES_BEFORE_SOURCE = 1 << 26;

/** Where buffers come from; undefined until it is known, null where there is none. */
let source: BufferSource | null | undefined;
let findSource: () => BufferSource | null | undefined = () => null;
let madeBytes = 0;

/** Sets who is asked for the source of large buffers, until it is known. */
export function registerBuffers(find: () => BufferSource | null | undefined): void {
  findSource = find;
}

function newBuffer(bytes: number, zeroed: boolean): ArrayBuffer {
  let buffer: ArrayBuffer | undefined;
  if (bytes >= LEAST_FROM_SOURCE && bytes <= MOST_FROM_SOURCE && madeBytes > BYTES_BEFORE_SOURCE) {
    if (source === undefined) source = findSource();
    if (source) {
      source.otherBytes = liveBytes;
      buffer = source.take(bytes, zeroed ? 1 : 0);
    }
  }
  if (buffer === undefined) {
    buffer = ownBuffer(bytes);
    madeBytes += bytes;
    liveBytes += bytes;
    collected.register(buffer, bytes, buffer);
  }
  peakBytes = Math.max(peakBytes, bytesInUse());
  return buffer;
}

/** A buffer of the runtime. */
function ownBuffer(bytes: number): ArrayBuffer {
  try {
    return new ArrayBuffer(bytes);
  } catch {
    // There may be more without what is kept.
  }
  emptyPool();
  try {
    return new ArrayBuffer(bytes);
  } catch {
    throw new OutOfMemoryError(bytes, "cpu");
  }
}

function bytesInUse(): number {
  return liveBytes + (source?.bytes ?? 0);
}

/**
 * Makes a storage of `length` elements. With `zeroed` they are 0; otherwise they may be anything,
 * and the caller writes all of them before anyone can read.
 */
export function allocate(dtype: DType, length: number, zeroed: boolean): Storage {
  return allocateFor(DTYPE[dtype], length, zeroed);
}

// The usual constructors are named, since V8 and JavaScriptCore make an array of a constructor that
// they cannot tell far more slowly.

function smallArray({ array }: DTypeInfo, length: number): TypedArray {
  if (array === Float32Array) return new Float32Array(length);
  if (array === Int32Array) return new Int32Array(length);
  if (array === Float64Array) return new Float64Array(length);
  return new array(length);
}

function slabArray({ array }: DTypeInfo, from: number, length: number): TypedArray {
  if (array === Float32Array) return new Float32Array(slab, from, length);
  if (array === Int32Array) return new Int32Array(slab, from, length);
  if (array === Float64Array) return new Float64Array(slab, from, length);
  return new array(slab, from, length);
}

/** A storage that was given back, whose elements may be anything; undefined where there is none. */
export function takePooled(info: DTypeInfo, length: number): Storage | undefined {
  if (pooledBytes === 0) return undefined;
  const bin = binOf(length * 16 + info.id);
  const storage = bin?.storages.pop();
  if (storage === undefined) return undefined;
  bin!.taken = true;
  pooledBytes -= length * info.bytes;
  storage.escaped = false;
  return storage;
}

/** {@link allocate}, where the dtype has been looked up. */
export function allocateFor(info: DTypeInfo, length: number, zeroed: boolean): Storage {
  const pooled = takePooled(info, length);
  if (pooled !== undefined) {
    if (zeroed) pooled.array.fill((info.wide ? 0n : 0) as never);
    return pooled;
  }
  const bytes = length * info.bytes;
  if (bytes > SMALL_BYTES) {
    return new Storage(new info.array(newBuffer(bytes, zeroed), 0, length), info, false, false);
  }
  if (!SLABS) return new Storage(smallArray(info, length), info, false, false);
  if (slabUsed + bytes > slab.byteLength) {
    slab = newBuffer(SLAB_BYTES, true);
    slabUsed = 0;
  }
  const array = slabArray(info, slabUsed, length);
  // 16-byte steps keep every dtype and vector load aligned.
  slabUsed += (bytes + 15) & ~15;
  return new Storage(array, info, false, true);
}

/** {@link allocateFor} in `memory`, or on the CPU for null. */
export function allocateIn(
  memory: DeviceMemory | null,
  info: DTypeInfo,
  length: number,
  zeroed: boolean,
): Storage {
  if (memory === null) return allocateFor(info, length, zeroed);
  return new DeviceStorage(memory, info, length, zeroed);
}

function bytesOf({ buffer, byteOffset, byteLength }: TypedArray): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** A copy of `length` elements from position `from` on, wherever they are. */
export function download(storage: Storage, from: number, length: number): TypedArray {
  const { memory, info, address } = storage;
  if (memory === null) return storage.array.slice(from, from + length) as TypedArray;
  const array = new info.array(length);
  if (length > 0) memory.read(address + from * info.bytes, bytesOf(array));
  return array;
}

/** {@link download} without blocking. */
export async function downloadLater(
  storage: Storage,
  from: number,
  length: number,
): Promise<TypedArray> {
  const { memory, info, address } = storage;
  if (memory === null) return download(storage, from, length);
  const array = new info.array(length);
  if (length > 0) await memory.readLater(address + from * info.bytes, bytesOf(array));
  return array;
}

/** Writes `array`, of the storage's kind, from position `from` on. */
export function upload(storage: Storage, from: number, array: TypedArray): void {
  const { memory, info, address } = storage;
  if (memory === null) (storage.array as Float64Array).set(array as Float64Array, from);
  else if (array.length > 0) memory.write(address + from * info.bytes, bytesOf(array));
}

/** `"cuda"` of `"cuda:1"`. */
function familyOf({ device }: DeviceMemory): string {
  return device.split(":")[0]!;
}

/** Copies `length` elements between storages of one dtype, wherever they are. */
export function copyElements(
  target: Storage,
  to: number,
  source: Storage,
  from: number,
  length: number,
): void {
  if (length === 0) return;
  const { memory, info: { bytes } } = target;
  const other = source.memory;
  if (memory === null || other === null || familyOf(memory) !== familyOf(other)) {
    // A part of an array is copied once, not twice.
    const array = other === null
      ? source.array.subarray(from, from + length) as TypedArray
      : download(source, from, length);
    upload(target, to, array);
  } else {
    memory.note?.(target, source);
    memory.copy(target.address + to * bytes, other, source.address + from * bytes, length * bytes);
  }
}

/** `storage`, just filled on the CPU and held by nobody, in `memory`, or as it is for null. */
export function sendTo(memory: DeviceMemory | null, storage: Storage): Storage {
  if (memory === null) return storage;
  const made = new DeviceStorage(memory, storage.info, storage.length, false);
  upload(made, 0, storage.array);
  recycle(storage);
  return made;
}

/** Makes a storage on memory that workers can share. */
export function allocateShared(dtype: DType, length: number): Storage {
  const info = DTYPE[dtype];
  let buffer: SharedArrayBuffer;
  try {
    buffer = new SharedArrayBuffer(length * info.bytes);
  } catch {
    throw new OutOfMemoryError(length * info.bytes, "cpu");
  }
  return new Storage(new info.array(buffer, 0, length), info, true, false);
}

/** Wraps memory that belongs to the caller; it is never recycled. */
export function adopt(dtype: DType, array: TypedArray): Storage {
  return new Storage(array, DTYPE[dtype], true, false);
}

/** Called when the last handle is gone: keeps the memory for the next request of this size. */
export function recycle(storage: Storage): void {
  if (storage.escaped) return;
  if (storage.free !== undefined) return storage.free();
  const { array, info } = storage;
  const { length } = array;
  const bytes = length * info.bytes;
  if (bytes === 0) return;
  // Not to be given back twice.
  storage.escaped = true;
  if (bytes > POOL_LIMIT_BYTES) return free(storage, bytes);
  const key = length * 16 + info.id;
  const known = binOf(key);
  const bin = known ?? new Bin(bytes);
  if (known === undefined) pool.set(key, lastBin = bin);
  // Others make room for what comes a second time only: lengths that vary would drive out all else.
  if (known === undefined && pooledBytes + bytes > POOL_LIMIT_BYTES) free(storage, bytes);
  else {
    bin.storages.push(storage);
    pooledBytes += bytes;
  }
  if (pooledBytes > POOL_LIMIT_BYTES || pool.size > MOST_BINS) makeRoom();
}

/**
 * Lets go of storages until the pool holds as much as it may. Goes round the bins: one that was used
 * since the last round is passed over once, the others are emptied, so that lengths which nobody asks
 * for any more leave the pool.
 */
function makeRoom(): void {
  lastKey = -1;
  while (pooledBytes > POOL_LIMIT_BYTES || pool.size > MOST_BINS) {
    const { done, value } = turns.next();
    if (done) {
      turns = pool.entries();
      continue;
    }
    const [key, bin] = value;
    const { storages, bytes, taken } = bin;
    bin.taken = false;
    if (taken) continue;
    const all = pool.size > MOST_BINS;
    while (storages.length > 0 && (all || pooledBytes > POOL_LIMIT_BYTES)) {
      pooledBytes -= bytes;
      free(storages.pop()!, bytes);
    }
    if (storages.length === 0) pool.delete(key);
  }
}

/** Gives the memory of a storage that nobody can reach back at once: a collector would come late. */
function free({ array, onSlab }: Storage, bytes: number): void {
  // In Bun, a small array has no buffer unless it is asked for.
  if (onSlab || bytes <= SMALL_BYTES) return;
  const buffer = array.buffer as ArrayBuffer & { transfer?(bytes: number): ArrayBuffer };
  if (buffer.transfer === undefined) return;
  if (collected.unregister(buffer)) liveBytes -= bytes;
  buffer.transfer(0);
}

function binOf(key: number): Bin | undefined {
  if (key !== lastKey) {
    lastKey = key;
    lastBin = pool.get(key);
  }
  return lastBin;
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

/** How much CPU memory tensors take. */
export function memory(): CpuMemoryInfo {
  const collectedBytes = source?.keptBytes ?? 0;
  return { bytes: bytesInUse(), peakBytes, pooledBytes, collectedBytes };
}

/** Lets go of the CPU memory that is kept for reuse. */
export function emptyPool(): void {
  for (const { storages, bytes } of pool.values()) {
    for (const storage of storages) free(storage, bytes);
  }
  pool.clear();
  lastKey = -1;
  lastBin = undefined;
  pooledBytes = 0;
  source?.release();
}
