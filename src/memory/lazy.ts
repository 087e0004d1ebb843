/**
 * Storages of elements that are somewhere else until their first use, and that nothing writes.
 *
 * @module
 */
import type { DTypeInfo, TypedArray } from "../base/dtype.ts";
import { NO_ARRAY } from "./device.ts";
import { Storage } from "./storage.ts";

const fixed = new WeakSet<Storage>();
/** What makes the copies of storages that have them. */
const copiers = new WeakMap<Storage, () => TypedArray>();
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

/**
 * {@link lazyStorage} of `length` elements of which `copy` makes a copy in memory. Who asks for the length
 * alone makes none.
 */
export function copiedStorage(info: DTypeInfo, length: number, copy: () => TypedArray): Storage {
  const storage = lazyStorage(info, copy);
  Object.defineProperty(storage, "length", { value: length });
  copiers.set(storage, copy);
  return storage;
}

/** Whether a storage has a copy in memory that {@link dropCopy} would drop. */
export function hasCopy(storage: Storage): boolean {
  return copiers.has(storage) && !storage.exposed &&
    Object.getOwnPropertyDescriptor(storage, "array")!.get === undefined;
}

/** Drops the copy of a storage, if it has one: its next use makes another. Who uses it now keeps it. */
export function dropCopy(storage: Storage): void {
  if (hasCopy(storage)) findLater(storage, copiers.get(storage)!);
}
