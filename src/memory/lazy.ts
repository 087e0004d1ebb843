/**
 * Storages of elements that are somewhere else until their first use, and that nothing writes.
 *
 * @module
 */
import type { DTypeInfo, TypedArray } from "../base/dtype.ts";
import { NO_ARRAY } from "./device.ts";
import { Storage } from "./storage.ts";

const fixed = new WeakSet<Storage>();

/** Whether a storage is one whose elements nothing writes, as {@link lazyStorage} makes them. */
export function isFixed(storage: Storage): boolean {
  return fixed.has(storage);
}

/**
 * A storage whose elements `find` gives at their first use, and which no handle may write. `find`
 * may throw, and is called again then.
 *
 * Its memory is never reused, nor written by the last of its handles, as `find` counts as one.
 */
export function lazyStorage(info: DTypeInfo, find: () => TypedArray): Storage {
  const storage = new Storage(NO_ARRAY, info, false, false);
  const property = { configurable: true, enumerable: true };
  // A property of its own, as other storages have, so that tools that compare objects see it.
  Object.defineProperty(storage, "array", {
    ...property,
    get() {
      const value = find();
      Object.defineProperty(storage, "array", { ...property, value, writable: true });
      return value;
    },
  });
  storage.handles = 1;
  fixed.add(storage);
  return storage;
}
