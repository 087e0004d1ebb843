/**
 * Copy on write: storages that share the elements of another storage until either is written.
 *
 * A copy-on-write tensor and its views share one {@link CowStorage}: when it moves, they do. All
 * copies made of a storage between two writes share one {@link Snapshot}: the next write copies the
 * elements once for all of them. Snapshots count their users and do not list them, so that lost
 * tensors keep nothing alive. Knows nothing of shapes.
 *
 * @module
 */
import { allocateIn, copyElements, NO_ARRAY } from "./device.ts";
import { letGo } from "./pool.ts";
import { type CopyOnWrite, type DeviceMemory, Storage } from "./storage.ts";

/** The elements of a storage at one moment: shared until the storage is written, then a copy. */
class Snapshot implements CopyOnWrite {
  /** The storage of the elements; the snapshot counts as one of its handles. */
  storage: Storage;
  #users = 0;
  // The range of elements that they can reach.
  #low = Infinity;
  #high = -1;

  /** Wraps the current elements of `storage`. */
  constructor(storage: Storage) {
    this.storage = storage;
    storage.handles++;
  }

  /** The number of storages that use the snapshot. */
  get users(): number {
    return this.#users;
  }

  /** Adds a user of the elements from position `low` to `high`. */
  enter(low: number, high: number): void {
    this.#users++;
    this.#low = Math.min(this.#low, low);
    this.#high = Math.max(this.#high, high);
  }

  /** Removes a user. */
  leave(): void {
    if (--this.#users > 0) return;
    const { storage } = this;
    if (storage.cows === this) storage.cows = null;
    letGo(storage);
  }

  /** Moves to a copy, before a write of the storage. */
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

/**
 * The storage of a copy-on-write tensor and its views: first another storage's elements, then its
 * own.
 */
class CowStorage extends Storage {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static override get name(): string {
    return "CowStorage";
  }

  // Public, so that tools that compare objects see the elements.
  snapshot: Snapshot;
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
      exposed: {
        get(this: CowStorage) {
          return this.base.exposed;
        },
        set: nothing,
      },
      // The snapshot, if others use it too; else the copies on write of this storage's elements.
      cows: {
        get(this: CowStorage) {
          const snapshot = this.snapshot;
          return snapshot.users > 1 ? snapshot : snapshot.storage.cows;
        },
        set: nothing,
      },
    });
  }

  constructor(snapshot: Snapshot, low: number, high: number) {
    super(NO_ARRAY, snapshot.storage.info, false, false);
    this.snapshot = snapshot;
    this.#low = low;
    this.#high = high;
    snapshot.enter(low, high);
  }

  override get base(): Storage {
    return this.snapshot.storage;
  }

  override get isShared(): boolean {
    return this.cows === this.snapshot;
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

  override expose(): void {
    this.base.expose();
  }

  override settle(): void {
    if (!this.isShared) return this.base.settle();
    const { base } = this;
    const snapshot = this.snapshot;
    if (base.handles === 1 && snapshot.users === 1) {
      // Without other users, there is nothing to separate.
      base.cows = null;
      return;
    }
    const own = new Snapshot(copyOf(base, this.#low, this.#high));
    own.enter(this.#low, this.#high);
    this.snapshot = own;
    snapshot.leave();
  }

  override free(): void {
    this.snapshot.leave();
  }
}

/**
 * A storage that shares the elements of `storage` until either is written; only valid from position
 * `low` to `high`.
 */
export function cowOf(storage: Storage, low: number, high: number): Storage {
  const { base } = storage;
  // A thread that reads the elements keeps them; the snapshot is of a copy.
  if (base.cows !== null && !(base.cows instanceof Snapshot)) base.settle();
  const snapshot = (storage.cows ?? (base.cows = new Snapshot(base))) as Snapshot;
  return new CowStorage(snapshot, low, high);
}
