/**
 * Copy on write: storages that show what another one held, until either is written.
 *
 * A copy-on-write tensor and its views share one {@link CowStorage}: when it moves, they do. All that
 * were made of a storage between two writes share one {@link Snapshot}: the next write copies the
 * elements for that, once for all of them. Nobody is listed, only counted, so that tensors that are
 * lost take nothing along. Knows nothing of shapes.
 *
 * @module
 */
import { allocateIn, copyElements, NO_ARRAY } from "./device.ts";
import { recycle } from "./pool.ts";
import { type CopyOnWrite, type DeviceMemory, Storage } from "./storage.ts";

/** What a storage held at one moment: in it until it is written, then in a copy. */
class Snapshot implements CopyOnWrite {
  /** Where it is; this counts as one handle there. */
  storage: Storage;
  /** How many storages look at it. */
  users = 0;
  // What they can reach.
  #low = Infinity;
  #high = -1;

  /** Wraps what `storage` holds now. */
  constructor(storage: Storage) {
    this.storage = storage;
    storage.handles++;
  }

  /** One more looks at it, from position `low` to `high`. */
  enter(low: number, high: number): void {
    this.users++;
    this.#low = Math.min(this.#low, low);
    this.#high = Math.max(this.#high, high);
  }

  /** One less does. */
  leave(): void {
    if (--this.users > 0) return;
    const { storage } = this;
    if (storage.cows === this) storage.cows = null;
    if (--storage.handles === 0) recycle(storage);
  }

  /** Moves to a copy: the storage is about to be written. */
  move(): void {
    const { storage } = this;
    this.storage = copyOf(storage, this.#low, this.#high);
    this.storage.handles++;
    storage.cows = null;
    storage.handles--;
  }
}

/** A copy of the elements from `low` to `high`, at the same positions; the rest is not copied. */
function copyOf(storage: Storage, low: number, high: number): Storage {
  const copy = allocateIn(storage.memory, storage.info, storage.length, true);
  if (high >= low) copyElements(copy, low, storage, low, high + 1 - low);
  return copy;
}

/** What a copy-on-write tensor and its views hold: another storage's elements, then its own. */
class CowStorage extends Storage {
  #snapshot: Snapshot;
  readonly #low: number;
  readonly #high: number;

  static {
    const nothing = (): void => {};
    Object.defineProperties(this.prototype, {
      array: {
        get(this: CowStorage) {
          return this.base.array;
        },
        set: nothing,
      },
      escaped: {
        get(this: CowStorage) {
          return this.base.escaped;
        },
        set: nothing,
      },
      // Those who look at the same, and once nobody does, those who look at it.
      cows: {
        get(this: CowStorage) {
          const snapshot = this.#snapshot;
          return snapshot.users > 1 ? snapshot : snapshot.storage.cows;
        },
        set: nothing,
      },
    });
  }

  constructor(snapshot: Snapshot, low: number, high: number) {
    super(NO_ARRAY, snapshot.storage.info, false, false);
    this.#snapshot = snapshot;
    this.#low = low;
    this.#high = high;
    snapshot.enter(low, high);
  }

  override get base(): Storage {
    return this.#snapshot.storage;
  }

  override get borrows(): boolean {
    return this.cows === this.#snapshot;
  }

  override get device(): string {
    return this.base.device;
  }

  override get memory(): DeviceMemory | null {
    return this.base.memory;
  }

  override get address(): number {
    return this.base.address;
  }

  override get length(): number {
    return this.base.length;
  }

  override get words(): Int32Array {
    return this.base.words;
  }

  override get shared(): boolean {
    return this.base.shared;
  }

  override escape(): void {
    this.base.escape();
  }

  override settle(): void {
    if (!this.borrows) return this.base.settle();
    const { base } = this;
    const snapshot = this.#snapshot;
    if (base.handles === 1 && snapshot.users === 1) {
      // When nobody else is left, there is nothing to keep apart.
      base.cows = null;
      return;
    }
    const own = new Snapshot(copyOf(base, this.#low, this.#high));
    own.enter(this.#low, this.#high);
    this.#snapshot = own;
    snapshot.leave();
  }

  override free(): void {
    this.#snapshot.leave();
  }
}

/**
 * A storage that shows what `storage` holds, until either is written; of no use but from position
 * `low` to `high`.
 */
export function cowOf(storage: Storage, low: number, high: number): Storage {
  const { base } = storage;
  const snapshot = (storage.cows ?? (base.cows = new Snapshot(base))) as Snapshot;
  return new CowStorage(snapshot, low, high);
}
