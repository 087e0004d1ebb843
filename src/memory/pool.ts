/**
 * The CPU memory behind storages: allocates it, and keeps freed memory for the next request.
 *
 * In V8, small arrays are views on slabs, since a fresh ArrayBuffer costs more than the op that
 * fills it. When the last handle frees a storage, it is kept for the next request of the same size,
 * unless code outside has access to its bytes.
 *
 * @module
 */
import { DTYPE, type DType, type DTypeInfo, type TypedArray } from "../base/dtype.ts";
import { OutOfMemoryError } from "../base/errors.ts";
import { type CpuMemoryInfo, type Hold, type Slot, Storage } from "./storage.ts";

/** Makes large buffers; reuses their memory once it is freed or garbage collected. */
export interface BufferSource {
  /** Makes one, zeroed if `zeroed` is 1; undefined if there is no memory. */
  readonly take: (bytes: number, zeroed: 0 | 1) => ArrayBuffer | undefined;
  /** The bytes of the buffers that are not collected. */
  readonly bytes: number;
  /** The bytes kept for reuse by any thread of the process. */
  readonly keptBytes: number;
  /** The bytes of the buffers of all threads of the process that are not collected. */
  readonly processBytes: number;
  /** Frees the oldest memory kept for reuse, except for so many bytes. */
  release(except: number): void;
}

/**
 * A memory of fixed size, in which kernels of WebAssembly find storages. It never moves, so that arrays
 * on it stay valid.
 */
export interface LinearMemory {
  /** All of it. */
  readonly buffer: ArrayBuffer;
  /** The bytes in use. */
  readonly bytes: number;
  /** The place of `bytes` bytes at a cache line, zeroed if asked; 0 if the memory is full. */
  take(bytes: number, zeroed: boolean): number;
  /** Frees what {@link take} has returned. */
  give(place: number): void;
}

/** What the memory of this process comes from. */
export interface MemorySources {
  /** Finds the source of large buffers: null if there is none, undefined if that is not known yet. */
  readonly findBuffers: () => BufferSource | null | undefined;
  /**
   * The most bytes that the process may use, by its limits and the memory of the machine: null if
   * that is unknown, undefined if it is not known yet.
   */
  readonly findLimit: () => number | null | undefined;
}

const SLAB_BYTES = 1 << 16;
/** Arrays up to this size are too small for a buffer of their own. */
const SMALL_BYTES = 1 << 11;
/** Bun makes small arrays faster than views on a slab; V8 does not. */
const SLABS = !("Bun" in globalThis);
/** The most bytes kept for reuse, unless the program has had more in use at a time. */
const KEPT_BYTES = 1 << 28;
/** The share of the memory of the process that is kept at most. */
const MOST_KEPT = 1 / 4;
/** Memory is kept only while the process uses less than this share. */
const FULL = 3 / 4;
/** The memory of a process if its limit is unknown. */
const USUAL_MEMORY = 2 ** 32;
/** Milliseconds after which sizes that were not requested again count as idle. */
const IDLE_MS = 3000;

let slab = new ArrayBuffer(0);
let slabUsed = 0;

/** The most pairs of length and dtype with storages kept for reuse. */
const MOST_BINS = 1 << 14;

/** Unused storages of one length and dtype. */
class SizeClass {
  readonly storages: Storage[] = [];
  /** Whether one has been reused since makeRoom last visited this class. */
  taken = false;

  constructor(readonly bytes: number) {}
}

const pool = new Map<number, SizeClass>();
/**
 * Resumes at its last position: a map's first entries are often deleted, and skipping them takes
 * time.
 */
let clock = pool.entries();
// The size class of the last lookup.
let lastKey = -1;
let lastSizeClass: SizeClass | undefined;
let pooledBytes = 0;
let liveBytes = 0;
let peakBytes = 0;

const collected = new FinalizationRegistry<number>((bytes) => {
  liveBytes -= bytes;
});

/** The smallest buffers that come from the source, if there is one. */
const LEAST_FROM_SOURCE = 1 << 17;
/** Allocations in bytes before the source is looked up, which takes milliseconds. */
const BYTES_BEFORE_SOURCE = 1 << 26;

/** The source of buffers; undefined until it is known, null if there is none. */
let source: BufferSource | null | undefined;
let found: MemorySources = { findBuffers: () => null, findLimit: () => null };
let madeBytes = 0;

/** The most bytes that the process may use; null if unknown, undefined until it is asked for. */
let limit: number | null | undefined;
/** The bytes kept for reuse in any case; less than {@link KEPT_BYTES} until the limit is known. */
let leastKept = KEPT_BYTES / 4;
/** The most bytes in use at a time, without those kept for reuse, since the thread was idle. */
let busyPeakBytes = 0;
/** The number of large buffers requested so far. */
let requests = 0;
let isWatching = false;

// ---- linear memory -----------------------------------------------------------------------------

/** Smaller arrays are cheaper elsewhere, and ops on them run in JavaScript. */
const LEAST_LINEAR = 256;
/** Arrays up to this size share parts of it, since a finalizer for each would take longer than ops. */
const SHARED_BYTES = 1 << 13;
const PART_BYTES = 1 << 17;

let linear: LinearMemory | null = null;

/** The share of a linear memory for small storages, which are free only after the current task. */
const MOST_SHARED = 1 / 4;

/** Frees the parts of a linear memory that nothing refers to. */
const lost = new FinalizationRegistry<LinearPart>(({ memory, place, isShared }) => {
  memory.give(place);
  if (isShared) countShared(memory, -PART_BYTES);
});

interface LinearPart {
  readonly memory: LinearMemory;
  readonly place: number;
  /** Whether it has many small storages. */
  readonly isShared: boolean;
}

/** A part of a linear memory. */
class LinearSlot implements Slot {
  readonly #part: LinearPart;

  constructor(part: LinearPart) {
    this.#part = part;
    lost.register(this, part, this);
  }

  free(): void {
    if (lost.unregister(this)) this.#part.memory.give(this.#part.place);
  }
}

/** A part of a linear memory with many storages, which is free once nothing refers to any of them. */
class SharedPart implements Slot {
  readonly place: number;
  used = 0;

  constructor(part: LinearPart) {
    this.place = part.place;
    lost.register(this, part);
  }

  free(): void {}
}

/** The part that has room for the next small storages. */
let sharedPart: SharedPart | null = null;
/** The bytes of such parts in each linear memory. */
const sharedBytes = new WeakMap<LinearMemory, number>();

/** Adds to the bytes of such parts; returns what they are. */
function countShared(memory: LinearMemory, bytes: number): number {
  const count = (sharedBytes.get(memory) ?? 0) + bytes;
  sharedBytes.set(memory, count);
  return count;
}

/** Places new storages in `memory`, as far as there is room; null for buffers of their own again. */
export function registerLinear(memory: LinearMemory | null): void {
  if (memory !== linear) {
    sharedPart = null;
    // Kernels may not address what is kept.
    emptyCache();
  }
  linear = memory;
}

/** The linear memory of new storages, if there is one. */
export function linearMemory(): LinearMemory | null {
  return linear;
}

/** The place of so many bytes in the linear memory; 0 if there is no room. */
function takePlace(memory: LinearMemory, bytes: number, zeroed: boolean): number {
  const place = memory.take(bytes, zeroed);
  if (place !== 0 || pooledBytes + arenaBytes() === 0) return place;
  emptyCache();
  return memory.take(bytes, zeroed);
}

/** A storage in a linear memory, with undefined elements; undefined if there is no room. */
export function allocateIn(
  memory: LinearMemory,
  info: DTypeInfo,
  length: number,
): Storage | undefined {
  const pooled = memory === linear ? takePooled(info, length) : undefined;
  if (pooled?.array.buffer === memory.buffer) return pooled;
  if (pooled !== undefined) free(pooled, length * info.bytes);
  return newIn(memory, info, length, false);
}

/** A new storage in a linear memory; undefined if there is no room. */
function newIn(
  memory: LinearMemory,
  info: DTypeInfo,
  length: number,
  zeroed: boolean,
): Storage | undefined {
  const bytes = length * info.bytes;
  const isShared = bytes <= SHARED_BYTES && memory === linear;
  const place = isShared ? takeShared(memory, bytes) : takePlace(memory, bytes, zeroed);
  if (place === 0) return undefined;
  const array = arrayOn(info, memory.buffer, place, length);
  // The memory of a shared part may have been used before.
  if (isShared && zeroed) new Uint8Array(memory.buffer, place, bytes).fill(0);
  const storage = new Storage(array, info, false, true);
  storage.slot = isShared ? sharedPart : new LinearSlot({ memory, place, isShared: false });
  if (bytes > SMALL_BYTES) peakBytes = Math.max(peakBytes, bytesInUse());
  return storage;
}

/** The place of so many bytes in {@link sharedPart}; 0 if there is no room for another one. */
function takeShared(memory: LinearMemory, bytes: number): number {
  if (sharedPart === null || sharedPart.used + bytes > PART_BYTES) {
    // No engine runs finalizers within a task, but all collect buffers.
    if (countShared(memory, 0) >= memory.buffer.byteLength * MOST_SHARED) return 0;
    const place = takePlace(memory, PART_BYTES, false);
    if (place === 0) return 0;
    sharedPart = new SharedPart({ memory, place, isShared: true });
    countShared(memory, PART_BYTES);
  }
  const place = sharedPart.place + sharedPart.used;
  // Every dtype and vector load is aligned.
  sharedPart.used += (bytes + 15) & ~15;
  return place;
}

/** Whether a storage can be in a linear memory: nothing outside has its array. */
function isMovable(storage: Storage): boolean {
  return !storage.exposed && storage.cows === null && storage.base === storage;
}

/** Moves a storage into a linear memory; false if something outside has it, or there is no room. */
export function moveIn(memory: LinearMemory, storage: Storage): boolean {
  if (storage.array.buffer === memory.buffer) return true;
  if (!isMovable(storage)) return false;
  const fresh = allocateIn(memory, storage.info, storage.length);
  if (fresh === undefined) return false;
  (fresh.array as Float64Array).set(storage.array as Float64Array);
  storage.moveTo(fresh);
  return true;
}

/** The slots of arenas in linear memory. */
const arenaSlots = new WeakMap<Uint8Array, Slot>();

/** Sets how the source of large buffers and the limit of the process are found. */
export function registerMemory(sources: MemorySources): void {
  found = sources;
  source = limit = undefined;
}

/** A buffer that begins at a cache line, if `aligned` and the source gives such memory. */
function newBuffer(bytes: number, zeroed: boolean, aligned: boolean): ArrayBuffer {
  let buffer: ArrayBuffer | undefined;
  if (bytes >= LEAST_FROM_SOURCE) {
    requests++;
    watch();
    if (aligned || madeBytes + bytes > BYTES_BEFORE_SOURCE) {
      if (source === undefined) source = found.findBuffers();
    }
    if (pooledBytes > 0) {
      const most = mostKept(bytesInUse() - pooledBytes + bytes);
      if (pooledBytes > most) makeRoom(most);
    }
    if (source) buffer = source.take(bytes, zeroed ? 1 : 0);
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

/**
 * The most bytes to keep for reuse while this thread uses `live` others: no more than it had in use
 * before, so that the program does not grow, and a share of the memory of the process.
 */
function mostKept(live: number): number {
  if (limit === undefined) limit = found.findLimit();
  const memory = limit ?? USUAL_MEMORY;
  leastKept = Math.min(KEPT_BYTES, memory * MOST_KEPT);
  const most = Math.max(leastKept, Math.min(memory * MOST_KEPT, busyPeakBytes - live));
  if (!source) return most;
  // Only finalizers decrease liveBytes, so it limits nothing.
  const { processBytes, bytes } = source;
  return Math.max(0, Math.min(most, memory * FULL - (live - liveBytes + processBytes - bytes)));
}

/** Calls {@link freeIdle} after a while, unless that is planned. Does not keep the process alive. */
function watch(): void {
  if (isWatching) return;
  const seen = requests;
  try {
    const timer: unknown = setTimeout(() => {
      isWatching = false;
      if (!freeIdle() || requests !== seen) watch();
      else source?.release(leastKept);
    }, IDLE_MS);
    isWatching = true;
    const { Deno } = globalThis as { Deno?: { unrefTimer?(timer: unknown): void } };
    if (typeof timer === "number") Deno?.unrefTimer?.(timer);
    else (timer as { unref?(): void }).unref?.();
  } catch {
    // Some hosts allow no timers outside of requests.
  }
}

/**
 * Frees storages of sizes that were not reused since the last call until only the least is kept;
 * true if no more than that is left.
 */
export function freeIdle(): boolean {
  lastKey = -1;
  if (!isArenaTaken && pooledBytes + arenaBytes() > leastKept) freeArena();
  isArenaTaken = false;
  for (const [key, sizeClass] of pool) {
    if (pooledBytes + arenaBytes() <= leastKept) break;
    if (!sizeClass.taken) freeClass(key, sizeClass, leastKept);
    sizeClass.taken = false;
  }
  const isIdle = pooledBytes + arenaBytes() <= leastKept;
  busyPeakBytes = bytesInUse() - (isIdle ? pooledBytes : 0);
  return isIdle;
}

/** Bytes of buffers beside a full linear memory after which Bun has to collect garbage. */
const OVERFLOW_BYTES = 1 << 26;
/** One collection of so many waits for its end, and gives the memory back to the system. */
const WAITS = 8;
let overflowBytes = 0;
let collections = 0;

/**
 * Counts the bytes of a buffer that a linear memory has no room for. Bun would collect as many of
 * them as there are bytes in that memory before it frees one.
 */
function countOverflow(bytes: number): void {
  overflowBytes += bytes;
  if (overflowBytes < OVERFLOW_BYTES) return;
  overflowBytes = 0;
  const { Bun } = globalThis as { Bun?: { gc(waits: boolean): unknown } };
  // Memory that was given back is filled with zeros again: not at each collection.
  Bun?.gc(++collections % WAITS === 0);
}

/** A buffer of the runtime. */
function ownBuffer(bytes: number): ArrayBuffer {
  if (linear !== null) countOverflow(bytes);
  try {
    return new ArrayBuffer(bytes);
  } catch {
    // Freeing the kept memory may make room.
  }
  emptyCache();
  try {
    return new ArrayBuffer(bytes);
  } catch {
    throw new OutOfMemoryError(bytes, "cpu");
  }
}

function bytesInUse(): number {
  return liveBytes + (source?.bytes ?? 0) + (linear?.bytes ?? 0);
}

/**
 * Makes a storage of `length` elements. They are 0 if `zeroed` is true; otherwise they are
 * undefined, and the caller writes all of them before any code can read them.
 */
export function allocate(dtype: DType, length: number, zeroed: boolean): Storage {
  return allocateFor(DTYPE[dtype], length, zeroed);
}

// Names the usual constructors: V8 and JavaScriptCore are far slower if the constructor is unknown.

function smallArray({ array, entries }: DTypeInfo, length: number): TypedArray {
  if (array === Float32Array) return new Float32Array(length * entries);
  if (array === Int32Array) return new Int32Array(length * entries);
  if (array === Float64Array) return new Float64Array(length * entries);
  return new array(length * entries);
}

function arrayOn(
  { array, entries }: DTypeInfo,
  buffer: ArrayBuffer,
  from: number,
  length: number,
): TypedArray {
  if (array === Float32Array) return new Float32Array(buffer, from, length * entries);
  if (array === Int32Array) return new Int32Array(buffer, from, length * entries);
  if (array === Float64Array) return new Float64Array(buffer, from, length * entries);
  return new array(buffer, from, length * entries);
}

/** A storage kept for reuse, with undefined elements; undefined if there is none. */
export function takePooled(info: DTypeInfo, length: number): Storage | undefined {
  if (pooledBytes === 0) return undefined;
  const sizeClass = sizeClassOf(length * 256 + info.id);
  const storage = sizeClass?.storages.pop();
  if (storage === undefined) return undefined;
  sizeClass!.taken = true;
  pooledBytes -= length * info.bytes;
  storage.exposed = false;
  return storage;
}

/**
 * {@link allocate} with the properties of the dtype. New memory begins at a cache line if `aligned`
 * and the native library can give it: for large data that kernels read over and over.
 */
export function allocateFor(
  info: DTypeInfo,
  length: number,
  zeroed: boolean,
  aligned = false,
): Storage {
  const pooled = takePooled(info, length);
  if (pooled !== undefined) {
    if (zeroed) {
      if (info.wide) (pooled.array as BigInt64Array).fill(0n);
      else (pooled.array as Float64Array).fill(0);
    }
    return pooled;
  }
  const bytes = length * info.bytes;
  if (linear !== null && bytes >= LEAST_LINEAR) {
    const storage = newIn(linear, info, length, zeroed);
    if (storage !== undefined) return storage;
  }
  if (bytes > SMALL_BYTES) {
    const array = new info.array(newBuffer(bytes, zeroed, aligned), 0, length * info.entries);
    return new Storage(array, info, false, false);
  }
  if (!SLABS) return new Storage(smallArray(info, length), info, false, false);
  if (slabUsed + bytes > slab.byteLength) {
    slab = newBuffer(SLAB_BYTES, true, false);
    slabUsed = 0;
  }
  const array = arrayOn(info, slab, slabUsed, length);
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

/** Wraps memory that belongs to the caller; it is never reused. */
export function wrapExternal(dtype: DType, array: TypedArray): Storage {
  return new Storage(array, DTYPE[dtype], true, false);
}

/** Called after the last handle is gone: keeps the memory for the next request of this size. */
export function recycle(storage: Storage): void {
  // Derivatives and programs may hold what an op has made for itself.
  if (storage.exposed || storage.handles > 0) return;
  if (storage.free !== undefined) return storage.free();
  const { array, info } = storage;
  const length = array.length / info.entries;
  const bytes = length * info.bytes;
  if (bytes === 0) return;
  // Prevents a second call of recycle.
  storage.exposed = true;
  if (bytes > SMALL_BYTES) busyPeakBytes = Math.max(busyPeakBytes, bytesInUse() - pooledBytes);
  const kept = pooledBytes + bytes;
  const most = kept > leastKept ? mostKept(bytesInUse() - kept) : leastKept;
  if (bytes > most) return free(storage, bytes);
  const key = length * 256 + info.id;
  const known = sizeClassOf(key);
  const sizeClass = known ?? new SizeClass(bytes);
  if (known === undefined) pool.set(key, lastSizeClass = sizeClass);
  // Only a length that occurs a second time evicts others: varying lengths would evict everything.
  if (known !== undefined && kept > most) makeRoom(most - bytes, sizeClass);
  if (pooledBytes + bytes > most) free(storage, bytes);
  else {
    sizeClass.storages.push(storage);
    pooledBytes += bytes;
    if (pooledBytes > leastKept) watch();
  }
  if (pool.size > MOST_BINS) makeRoom(most);
}

// ---- arenas ------------------------------------------------------------------------------------

/** The smallest arena: one is enough for programs of few elements. */
const LEAST_ARENA = 1 << 16;
/** The largest arena that no run of a program uses, if any. */
let idleArena: Uint8Array | null = null;
/** Whether a run has used it since {@link freeIdle} last looked. */
let isArenaTaken = false;

/** The bytes of the arena that is kept for the next run of a program. */
export function arenaBytes(): number {
  return idleArena === null ? 0 : idleArena.byteLength;
}

/**
 * Memory of at least so many bytes for the intermediate results of one run, with undefined elements.
 * Runs that follow one another use the same.
 */
export function takeArena(bytes: number): Uint8Array {
  const arena = idleArena;
  if (arena !== null && arena.byteLength >= bytes) {
    idleArena = null;
    isArenaTaken = true;
    return arena;
  }
  freeArena();
  const size = Math.max(bytes, LEAST_ARENA);
  const place = linear === null ? 0 : takePlace(linear, size, false);
  if (place === 0) return new Uint8Array(newBuffer(size, false, true));
  const made = new Uint8Array(linear!.buffer, place, size);
  arenaSlots.set(made, new LinearSlot({ memory: linear!, place, isShared: false }));
  return made;
}

/** Takes back the memory of a run that has ended; the largest arena is kept. */
export function giveArena(arena: Uint8Array): void {
  // The kernels that serve now may not address it.
  if (linear !== null && arena.buffer !== linear.buffer) return releaseArena(arena);
  if (idleArena !== null) {
    if (idleArena.byteLength >= arena.byteLength) return releaseArena(arena);
    freeArena();
  }
  idleArena = arena;
  isArenaTaken = true;
  if (arena.byteLength > leastKept) watch();
}

function freeArena(): void {
  if (idleArena !== null) releaseArena(idleArena);
  idleArena = null;
}

function releaseArena(arena: Uint8Array): void {
  const slot = arenaSlots.get(arena);
  if (slot === undefined) freeArray(arena);
  else slot.free();
}

// ---- handles -----------------------------------------------------------------------------------

/** The bytes of constants that programs have computed of tensors. */
let constantBytes = 0;

/** Counts so many bytes more as constants of programs. */
export function countConstants(bytes: number): void {
  constantBytes += bytes;
}

/** Removes a handle of `storage`, and frees it if that was the last one of a tensor. */
export function letGo(storage: Storage): void {
  if (--storage.handles === 0) recycle(storage);
  else if (storage.holds !== null) endHolds(storage, storage.holds);
}

/** Ends the holds of a storage that has no other handles. */
function endHolds(storage: Storage, holds: ReadonlySet<Hold>): void {
  let count = 0;
  for (const hold of holds) count += hold.count(storage);
  if (storage.handles === count) { for (const hold of [...holds]) hold.end(); }
}

/**
 * Frees storages until at most so many bytes are kept, in few enough size classes. Iterates over
 * the size classes in a circle. A class used since the last round is skipped once; all others are
 * emptied, so that unused lengths leave the pool. For a storage of the class `latest`, one round is
 * enough: it does not replace classes that are in use.
 */
function makeRoom(most: number, latest?: SizeClass): void {
  lastKey = -1;
  let left = latest === undefined ? Infinity : pool.size;
  while ((pooledBytes > most || pool.size > MOST_BINS) && left > 0) {
    const { done, value } = clock.next();
    if (done) {
      clock = pool.entries();
      continue;
    }
    left--;
    const [key, sizeClass] = value;
    if (sizeClass === latest) continue;
    const { taken } = sizeClass;
    sizeClass.taken = false;
    if (!taken) freeClass(key, sizeClass, pool.size > MOST_BINS ? -1 : most);
  }
}

/** Frees storages of a size class until at most so many bytes are kept. */
function freeClass(key: number, { storages, bytes }: SizeClass, most: number): void {
  while (storages.length > 0 && pooledBytes > most) {
    pooledBytes -= bytes;
    free(storages.pop()!, bytes);
  }
  if (storages.length === 0) pool.delete(key);
}

/** Frees the memory of an unreachable storage at once: garbage collection would be late. */
function free({ array, onSlab, slot }: Storage, bytes: number): void {
  if (slot !== null) return slot.free();
  // In Bun, a small array has no buffer until code accesses it.
  if (!onSlab && bytes > SMALL_BYTES) freeArray(array);
}

/** Frees the buffer of an unreachable array. */
function freeArray({ buffer: given }: TypedArray): void {
  const buffer = given as ArrayBuffer & { transfer?(bytes: number): ArrayBuffer };
  if (buffer.transfer === undefined) return;
  const { byteLength } = buffer;
  if (collected.unregister(buffer)) liveBytes -= byteLength;
  buffer.transfer(0);
}

function sizeClassOf(key: number): SizeClass | undefined {
  if (key !== lastKey) {
    lastKey = key;
    lastSizeClass = pool.get(key);
  }
  return lastSizeClass;
}

/** The CPU memory of tensors. */
export function memory(): CpuMemoryInfo {
  const collectedBytes = source?.keptBytes ?? 0;
  return {
    bytes: bytesInUse(),
    peakBytes,
    pooledBytes: pooledBytes + arenaBytes(),
    collectedBytes,
    constantBytes,
  };
}

/** Frees the CPU memory kept for reuse. */
export function emptyCache(): void {
  for (const { storages, bytes } of pool.values()) {
    for (const storage of storages) free(storage, bytes);
  }
  pool.clear();
  freeArena();
  lastKey = -1;
  lastSizeClass = undefined;
  pooledBytes = 0;
  source?.release(0);
  busyPeakBytes = 0;
}
