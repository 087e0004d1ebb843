/**
 * When Bun is to collect: JavaScriptCore waits until a part of all that is alive is new once more,
 * which with hundreds of megabytes of tensors are hundreds of megabytes of lost ones.
 *
 * @module
 */

/** What `bun:jsc` has of use here. */
export interface Collector {
  /** Finds what is new and lost. What is new and alive is old from then on. */
  edenGC(): void;
  /** Finds all that is lost; takes about half a millisecond for each megabyte of objects. */
  fullGC(): void;
  /** Bytes of objects and of what they hold, buffers among them. */
  heapSize(): number;
}

/** Bytes of buffers that are worth a look at what is new. */
const STEP_BYTES = 1 << 26;
/** As many more as these, and half of what there was, may be old and lost. */
const LEAST_GROWTH = 1 << 27;
/** Old buffers that may be lost, so many times the bytes of objects, are worth a look at them all. */
const WORTH = 8;

/** Has a collector look for lost buffers of one thread. */
export class Collections {
  readonly #collector: Collector;
  readonly #inUse: () => number;
  /** Bytes asked for since it has last looked. */
  #taken = 0;
  /** The fewest bytes in use since it has last looked at all, as far as is known. */
  #least = Infinity;
  /** What those in use have to grow by before it is asked again how many bytes the objects have. */
  #worth = 0;

  /** `inUse` tells how many bytes buffers have that are not known to be lost. */
  constructor(collector: Collector, inUse: () => number) {
    this.#collector = collector;
    this.#inUse = inUse;
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
    if (grown < Math.max(LEAST_GROWTH, this.#least / 2)) {
      this.#worth = 0;
      this.#collector.edenGC();
      return true;
    }
    if (grown < this.#worth) return false;
    this.#worth = WORTH * (this.#collector.heapSize() - inUse);
    if (grown < this.#worth) return false;
    this.#collector.fullGC();
    this.#least = this.#inUse();
    return true;
  }
}
