/**
 * Triggers garbage collection in Bun. JavaScriptCore collects after the heap has grown by a
 * fraction of its size; with hundreds of megabytes of live tensors, that leaves as many
 * uncollected. This module requests collections earlier.
 *
 * @module
 */

/** The part of `bun:jsc` that this module uses. */
export interface Collector {
  /** Collects new, unreachable objects. Surviving objects count as old from then on. */
  edenGC(): void;
  /** Collects all unreachable objects; takes about half a millisecond per megabyte of objects. */
  fullGC(): void;
}

/** Bytes of new buffers that justify a collection of new objects. */
const STEP_BYTES = 1 << 26;
/** A full collection needs growth of at least this, and of half the least use since the last. */
const LEAST_GROWTH = 1 << 27;
/** A full collection pays if buffers have grown by this many times the bytes of objects. */
const WORTH = 8;

/** After this many skipped collections, the buffers in use count as live. */
const MOST_LEFT = 16;

/** Triggers collections of lost buffers of one thread. */
export class Collections {
  readonly #collector: Collector;
  readonly #inUse: () => number;
  readonly #objects: () => number;
  /** The bytes of objects after the last collection. */
  #objectBytes = 0;
  /** Bytes requested since the last collection. */
  #taken = 0;
  /** The fewest bytes in use since the last full collection, as far as is known. */
  #least = Infinity;
  /** The number of skipped collections in a row, and the fewest bytes in use meanwhile. */
  #left = 0;
  #leastLeft = Infinity;

  /**
   * `inUse` returns the bytes of buffers not known to be lost; `objects` returns, right after a
   * collection, the bytes of all objects without their buffers.
   */
  constructor(collector: Collector, inUse: () => number, objects: () => number) {
    this.#collector = collector;
    this.#inUse = inUse;
    this.#objects = objects;
  }

  /** Counts a requested buffer. */
  count(bytes: number): void {
    this.#taken += bytes;
  }

  /**
   * Collects lost buffers if that is worthwhile; false if it did not. Called when no lost buffer
   * waits for reuse.
   */
  look(): boolean {
    if (this.#taken < STEP_BYTES) return false;
    this.#taken = 0;
    const inUse = this.#inUse();
    this.#least = Math.min(this.#least, inUse);
    const grown = inUse - this.#least;
    const isMuch = grown >= Math.max(LEAST_GROWTH, this.#least / 2);
    const pays = isMuch && grown >= WORTH * this.#objectBytes;
    if (isMuch && !pays) {
      this.#leastLeft = Math.min(this.#left === 0 ? inUse : this.#leastLeft, inUse);
      if (++this.#left < MOST_LEFT) return false;
      this.#least = this.#leastLeft;
    }
    this.#left = 0;
    if (!pays) this.#collector.edenGC();
    else {
      this.#collector.fullGC();
      this.#least = this.#inUse();
    }
    this.#objectBytes = this.#objects();
    return true;
  }
}
