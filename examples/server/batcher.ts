/**
 * Dynamic batching: one call processes items that arrive within a short time.
 *
 * Knows nothing of HTTP, images or models. One queue, bounded; a batch runs as soon as there are
 * enough items for one, or when the oldest has waited long enough. Batches may run off the event loop.
 *
 * @module
 */
import { setImmediate } from "node:timers";

/** Options of a {@link Batcher}. */
export interface BatchOptions {
  /** The most items of a batch. */
  readonly maxBatch: number;
  /** The time in milliseconds that an item waits for others. */
  readonly maxWaitMs: number;
  /** The most waiting items. */
  readonly capacity: number;
  /** The most batches at once, if they run off the event loop: 1; other items form the next. */
  readonly atOnce?: number;
  /** After this many milliseconds of consecutive batches the event loop runs: 4. */
  readonly sliceMs?: number;
  /** Called after each batch. */
  readonly onBatch?: (size: number, seconds: number) => void;
}

/** The items of one call of `add`, and their results so far. */
interface Group<Out> {
  readonly results: Out[];
  left: number;
  readonly resolve: (results: Out[]) => void;
  readonly reject: (error: unknown) => void;
}

interface Entry<In, Out> {
  readonly item: In;
  readonly group: Group<Out>;
  readonly place: number;
  readonly since: number;
}

/** Processes many items in about the time of one, at once or off the event loop. */
export type BatchRun<In, Out> = (items: In[]) => readonly Out[] | Promise<readonly Out[]>;

/** A queue in front of a function that processes batches. */
export class Batcher<In, Out> {
  readonly #run: BatchRun<In, Out>;
  readonly #options: BatchOptions;
  readonly #queue: Entry<In, Out>[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #scheduled = false;
  /** The batches that run off the event loop. */
  #running = 0;

  constructor(run: BatchRun<In, Out>, options: BatchOptions) {
    this.#run = run;
    this.#options = options;
  }

  /** The number of waiting items. */
  get length(): number {
    return this.#queue.length;
  }

  /** The results for some items, in their order; undefined if the queue has no room for them. */
  add(items: readonly In[]): Promise<Out[]> | undefined {
    const { capacity, maxBatch } = this.#options;
    if (this.#queue.length + items.length > capacity) return undefined;
    return new Promise((resolve, reject) => {
      const since = performance.now();
      const group = { results: [], left: items.length, resolve, reject };
      items.forEach((item, place) => this.#queue.push({ item, group, place, since }));
      if (this.#queue.length >= maxBatch) this.#soon();
      else this.#wait();
    });
  }

  /** Runs batches in the next turn of the event loop. */
  #soon(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    setImmediate(() => {
      this.#scheduled = false;
      this.#drain();
    });
  }

  /** Runs a batch when the oldest item has waited long enough. */
  #wait(): void {
    if (this.#scheduled || this.#timer !== undefined || this.#queue.length === 0) return;
    // The end of a batch looks at the queue again.
    if (this.#running >= (this.#options.atOnce ?? 1)) return;
    const due = this.#queue[0]!.since + this.#options.maxWaitMs - performance.now();
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#drain();
    }, Math.max(due, 0));
  }

  /** Whether there are items for a batch, or one of them has waited long enough. */
  #isDue(): boolean {
    const { maxBatch, maxWaitMs, atOnce = 1 } = this.#options;
    if (this.#queue.length === 0 || this.#running >= atOnce) return false;
    // A timer may fire a little early.
    const waited = performance.now() - this.#queue[0]!.since + 0.5;
    return this.#queue.length >= maxBatch || waited >= maxWaitMs;
  }

  #drain(): void {
    const end = performance.now() + (this.#options.sliceMs ?? 4);
    while (this.#isDue()) {
      this.#runBatch();
      if (performance.now() >= end && this.#isDue()) return this.#soon();
    }
    this.#wait();
  }

  #runBatch(): void {
    const entries = this.#queue.splice(0, this.#options.maxBatch);
    const begin = performance.now();
    const succeed = (results: readonly Out[]): void => {
      entries.forEach(({ group, place }, i) => {
        group.results[place] = results[i]!;
        if (--group.left === 0) group.resolve(group.results);
      });
    };
    const fail = (error: unknown): void => {
      for (const { group } of entries) group.reject(error);
    };
    const end = (): void =>
      this.#options.onBatch?.(entries.length, (performance.now() - begin) / 1000);
    try {
      const results = this.#run(entries.map(({ item }) => item));
      if (results instanceof Promise) {
        this.#running++;
        const settle = <T>(use: (value: T) => void) => (value: T): void => {
          use(value);
          this.#running--;
          end();
          this.#soon();
        };
        results.then(settle(succeed), settle(fail));
        return;
      }
      succeed(results);
    } catch (error) {
      fail(error);
    }
    end();
  }
}

/**
 * The largest batch, halving from `most`, that takes at most `budgetMs` according to `time`. A slow
 * machine, or one without the native library, thereby does not block the event loop for long.
 */
export function fitBatch(most: number, budgetMs: number, time: (size: number) => number): number {
  let size = most;
  while (size > 1 && time(size) > budgetMs) size = Math.ceil(size / 2);
  return size;
}
