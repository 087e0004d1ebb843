/**
 * Storages of elements that are somewhere else until their first use, and that nothing writes.
 *
 * @module
 */
import type { DTypeInfo, TypedArray } from "../base/dtype.ts";
import { NO_ARRAY } from "./device.ts";
import { allocateFor, recycle } from "./pool.ts";
import { Storage } from "./storage.ts";

/** Fills memory with the bytes of all elements. */
export type Fill = (into: Uint8Array) => void;

const fixed = new WeakSet<Storage>();
/** What makes the copies of storages that have them. */
const fills = new WeakMap<Storage, Fill>();
const PROPERTY = { configurable: true, enumerable: true };

/** Whether a storage is one whose elements nothing writes, as {@link lazyStorage} makes them. */
export function isFixed(storage: Storage): boolean {
  return fixed.has(storage);
}

/** Has the next use of a storage find its elements. */
function findLater(storage: Storage, find: () => TypedArray): void {
  // A property of its own, as other storages have, so that tools that compare objects see it.
  Object.defineProperty(storage, "array", {
    ...PROPERTY,
    get() {
      const value = find();
      Object.defineProperty(storage, "array", { ...PROPERTY, value, writable: true });
      return value;
    },
  });
}

/**
 * A storage whose elements `find` gives at their first use, and which no handle may write. `find`
 * may throw, and is called again then.
 *
 * Its memory is never reused, nor written by the last of its handles, as `find` counts as one.
 */
export function lazyStorage(info: DTypeInfo, find: () => TypedArray): Storage {
  const storage = new Storage(NO_ARRAY, info, false, false);
  findLater(storage, find);
  storage.handles = 1;
  fixed.add(storage);
  return storage;
}

/** Memory of a storage's own. */
function copied(info: DTypeInfo, length: number, fill: Fill): TypedArray {
  const array = new info.array(length * info.entries);
  fill(new Uint8Array(array.buffer));
  return array;
}

/**
 * {@link lazyStorage} of `length` elements that are copied by `fill` at their first use. Who asks for the
 * length alone makes no copy.
 */
export function copiedStorage(info: DTypeInfo, length: number, fill: Fill): Storage {
  const storage = lazyStorage(info, () => copied(info, length, fill));
  Object.defineProperties(storage, {
    length: { value: length },
    // Those of the copy that there is now.
    words: {
      get(): Int32Array {
        const { buffer, byteOffset, byteLength } = storage.array;
        return new Int32Array(buffer, byteOffset, byteLength >> 2);
      },
    },
  });
  fills.set(storage, fill);
  return storage;
}

/** Whether {@link copiedStorage} made a storage, and it has its copy. */
export function hasCopy(storage: Storage): boolean {
  return fills.has(storage) &&
    Object.getOwnPropertyDescriptor(storage, "array")!.get === undefined;
}

/**
 * Runs `body`, which keeps no array of these storages: what it copies of them is freed at its end, unless
 * they had a copy before.
 */
export function withoutCopies<R>(storages: readonly Storage[], body: () => R): R {
  const used = new Map<Storage, Storage>();
  const before = storages.filter((one) => fills.has(one) && !hasCopy(one));
  if (before.length === 0) return body();
  for (const storage of before) {
    const { info, length } = storage;
    findLater(storage, () => {
      const copy = allocateFor(info, length, false);
      used.set(storage, copy);
      const { array: { buffer, byteOffset, byteLength } } = copy;
      fills.get(storage)!(new Uint8Array(buffer, byteOffset, byteLength));
      return copy.array;
    });
  }
  try {
    return body();
  } finally {
    for (const storage of before) {
      // Code outside has it.
      if (storage.exposed) continue;
      const { info, length } = storage;
      findLater(storage, () => copied(info, length, fills.get(storage)!));
      const copy = used.get(storage);
      if (copy !== undefined) recycle(copy);
      used.delete(storage);
    }
  }
}
