/**
 * The CPU memory behind storages: allocate it, keep what is given back for the next request.
 *
 * In V8, small arrays are cut from slabs, since a fresh ArrayBuffer costs more than the op that fills
 * it. A storage that the last handle gives back is kept for the next request of the same size, unless
 * its bytes have been handed out.
 *
 * @module
 */
import { DTYPE, type DType, type DTypeInfo, type TypedArray } from "../base/dtype.ts";
import { OutOfMemoryError } from "../base/errors.ts";
import { type CpuMemoryInfo, Storage } from "./storage.ts";

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

function smallArray({ array, entries }: DTypeInfo, length: number): TypedArray {
  if (array === Float32Array) return new Float32Array(length * entries);
  if (array === Int32Array) return new Int32Array(length * entries);
  if (array === Float64Array) return new Float64Array(length * entries);
  return new array(length * entries);
}

function slabArray({ array, entries }: DTypeInfo, from: number, length: number): TypedArray {
  if (array === Float32Array) return new Float32Array(slab, from, length * entries);
  if (array === Int32Array) return new Int32Array(slab, from, length * entries);
  if (array === Float64Array) return new Float64Array(slab, from, length * entries);
  return new array(slab, from, length * entries);
}

/** A storage that was given back, whose elements may be anything; undefined where there is none. */
export function takePooled(info: DTypeInfo, length: number): Storage | undefined {
  if (pooledBytes === 0) return undefined;
  const bin = binOf(length * 256 + info.id);
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
    const array = new info.array(newBuffer(bytes, zeroed), 0, length * info.entries);
    return new Storage(array, info, false, false);
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

/** Makes a storage on memory that workers can share. */
export function allocateShared(dtype: DType, length: number): Storage {
  const info = DTYPE[dtype];
  let buffer: SharedArrayBuffer;
  try {
    buffer = new SharedArrayBuffer(length * info.bytes);
  } catch {
    throw new OutOfMemoryError(length * info.bytes, "cpu");
  }
  return new Storage(new info.array(buffer, 0, length * info.entries), info, true, false);
}

/** Wraps memory that belongs to the caller; it is never recycled. */
export function wrapExternal(dtype: DType, array: TypedArray): Storage {
  return new Storage(array, DTYPE[dtype], true, false);
}

/** Called when the last handle is gone: keeps the memory for the next request of this size. */
export function recycle(storage: Storage): void {
  if (storage.escaped) return;
  if (storage.free !== undefined) return storage.free();
  const { array, info } = storage;
  const length = array.length / info.entries;
  const bytes = length * info.bytes;
  if (bytes === 0) return;
  // Not to be given back twice.
  storage.escaped = true;
  if (bytes > POOL_LIMIT_BYTES) return free(storage, bytes);
  const key = length * 256 + info.id;
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
