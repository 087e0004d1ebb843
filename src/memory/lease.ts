/**
 * Leases: the elements of a storage at one moment, for another thread that reads them.
 *
 * A write of the storage moves it to a copy, and leaves the leased elements where they are; freed
 * tensors keep their memory until the lease ends. Only for memory that no code outside can reach.
 *
 * @module
 */
import { isFixed } from "./lazy.ts";
import { allocateFor, letGo, linearMemory, moveIn, recycle } from "./pool.ts";
import type { CopyOnWrite, Storage } from "./storage.ts";

/** What leases lend: nothing writes these storages, until the read ends. */
const reads = new WeakSet<Storage>();

/** The leased elements of one storage, for any number of readers. */
class Lease implements CopyOnWrite {
  readonly #storage: Storage;
  readonly #elements: Storage;
  #readers = 0;
  #moved = false;

  constructor(storage: Storage) {
    this.#storage = storage;
    this.#elements = storage.sharing(false);
    storage.handles++;
    storage.cows = this;
  }

  /** A storage of the elements for one more reader. */
  read(): Storage {
    this.#readers++;
    const made = this.#elements.sharing(true);
    reads.add(made);
    return made;
  }

  /** Moves the storage to a copy, before a write of it. */
  move(): void {
    const storage = this.#storage;
    storage.moveTo(copyOf(this.#elements));
    storage.cows = null;
    this.#moved = true;
    this.#release();
  }

  /** Ends one read. */
  end(read: Storage): void {
    reads.delete(read);
    if (--this.#readers > 0) return;
    if (this.#moved) {
      // Only the readers still used the elements.
      recycle(this.#elements);
      return;
    }
    this.#storage.cows = null;
    this.#release();
  }

  #release(): void {
    letGo(this.#storage);
  }
}

function copyOf({ array, info }: Storage): Storage {
  const made = allocateFor(info, array.length / info.entries, false);
  (made.array as Float64Array).set(array as Float64Array);
  return made;
}

/** The elements of a storage for a reader on another thread. */
export interface Leased {
  /** The elements. */
  readonly storage: Storage;
  /** Ends the read. */
  end(): void;
}

/**
 * The elements of `storage`, on the CPU, as they are now: its own memory if a write can leave it to
 * the reader, else a copy. A lease of what another lease lends must end before that one.
 */
export function leaseOf(storage: Storage): Leased {
  const { base } = storage;
  const memory = linearMemory();
  if (memory !== null) moveIn(memory, base);
  // A write of a copy-on-write tensor on it leaves the elements where they are.
  if (reads.has(base) || isFixed(base) && !base.exposed) {
    return { storage: base.sharing(true), end: () => {} };
  }
  const { cows } = base;
  const leasable = base === storage && !base.exposed && (cows === null || cows instanceof Lease);
  if (!leasable) {
    const copy = copyOf(storage);
    // Ops that make and dispose of handles of it would free it otherwise.
    copy.handles++;
    return { storage: copy, end: () => letGo(copy) };
  }
  const lease = cows instanceof Lease ? cows : new Lease(base);
  const read = lease.read();
  return { storage: read, end: () => lease.end(read) };
}
