/**
 * When Bun is to collect. JavaScriptCore does so once the heap has grown by a part of its size: with
 * hundreds of megabytes of tensors alive, that leaves as much to collect. It is asked to earlier.
 *
 * @module
 */

/** What `bun:jsc` has of use here. */
export interface Collector {
  /** Finds what is new and lost. What is new and alive is old from then on. */
  edenGC(): void;
  /** Finds all that is lost; takes about half a millisecond for each megabyte of objects. */
  fullGC(): void;
}

/** Bytes of buffers that are worth a look at what is new. */
const STEP_BYTES = 1 << 26;
/** As many more as these, and half of what there was, may be old and lost. */
const LEAST_GROWTH = 1 << 27;
/** Old buffers that may be lost, so many times the bytes of objects, are worth a look at them all. */
const WORTH = 8;

/** After so many looks that it has been left to itself for, what is in use has been alive all along. */
const MOST_LEFT = 16;

/** Has a collector look for lost buffers of one thread. */
export class Collections {
  readonly #collector: Collector;
  readonly #inUse: () => number;
  readonly #objects: () => number;
  /** What that was last time. */
  #objectBytes = 0;
  /** Bytes asked for since it has last looked. */
  #taken = 0;
  /** The fewest bytes in use since it has last looked at all, as far as is known. */
  #least = Infinity;
  /** How many times in a row it was not asked to, and the fewest bytes in use meanwhile. */
  #left = 0;
  #leastLeft = Infinity;

  /**
   * `inUse` tells how many bytes buffers have that are not known to be lost; `objects`, right after a
   * collection, how many all objects have without what they hold.
   */
  constructor(collector: Collector, inUse: () => number, objects: () => number) {
    this.#collector = collector;
    this.#inUse = inUse;
    this.#objects = objects;
  }

  /** Counts a buffer that is asked for. */
  count(bytes: number): void {
    this.#taken += bytes;
  }

  /** Looks for lost buffers, if that is worth it; false if it has not. Called where none waits. */
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
