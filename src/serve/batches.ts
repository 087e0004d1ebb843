/**
 * Dynamic batching: one call of a function processes items that arrive within a short time.
 *
 * Knows nothing of HTTP, tensors and models.
 *
 * @module
 */
import { ArgumentError, DisposedError, QueueFullError } from "../base/errors.ts";
import { lengthOf as countOf, listIn, listOf } from "../base/shape.ts";
import { checkSignal } from "../base/signals.ts";
import { describe } from "../base/text.ts";
import { turn } from "../base/turn.ts";
import { checkOptions } from "../table/infer.ts";

/** Options of {@link batches}. */
export interface BatchesOptions<In> {
  /** The most items of a batch (32). */
  readonly most?: number | undefined;
  /** The time in milliseconds that an item waits for others (2). */
  readonly waitMs?: number | undefined;
  /** The most items that wait (1024). */
  readonly queue?: number | undefined;
  /**
   * The length of an item, such as its number of tokens. A batch then has items of similar lengths:
   * they differ from that of the oldest item by at most a quarter of the greater one, or by 4.
   */
  readonly lengthOf?: ((item: In) => number) | undefined;
  /**
   * With `lengthOf`, the most length of a batch with padding: its number of items times the greatest
   * length (4096). A longer item is a batch of its own.
   */
  readonly mostLength?: number | undefined;
}

/** Options of one call. */
export interface BatchCallOptions {
  /** Takes items that have not started out of the queue: the call rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/** What happened to the items so far. */
export interface BatchStats {
  /** Items that wait. */
  readonly waiting: number;
  /** Items of the batch that runs. */
  readonly running: number;
  /** Batches that have ended. */
  readonly batches: number;
  /** The items of these batches. */
  readonly items: number;
}

/** A function of one item, which batches those of all calls: see {@link batches}. */
export interface Batches<In, Out> {
  /** The result for an item. */
  (item: In, options?: BatchCallOptions): Promise<Out>;
  /** The results for several items, in their order. They may be in several batches. */
  all(items: readonly In[], options?: BatchCallOptions): Promise<Out[]>;
  /** Refuses new items, and resolves when the accepted ones are done. */
  drain(): Promise<void>;
  /** What happened to the items so far. */
  readonly stats: BatchStats;
}

/** Processes many items in about the time of one, at once or off the event loop. */
export type BatchFunction<In, Out> = (
  items: In[],
) => readonly Out[] | PromiseLike<readonly Out[]>;

/** After this many milliseconds of batches on the event loop, other tasks run. */
const SLICE_MS = 4;
/** A difference of lengths that costs little padding. */
const SMALL = 4;

/** The items of one call. */
interface Group<Out> {
  readonly results: Out[];
  left: number;
  hasFailed: boolean;
  readonly resolve: (results: Out[]) => void;
  readonly reject: (error: unknown) => void;
}

interface Entry<In, Out> {
  readonly item: In;
  readonly length: number;
  readonly group: Group<Out>;
  readonly place: number;
  readonly since: number;
}

/** The options, checked. */
interface Settings<In> {
  readonly most: number;
  readonly waitMs: number;
  readonly queue: number;
  readonly lengthOf: ((item: In) => number) | undefined;
  readonly mostLength: number;
}

function settingsOf<In>(options: BatchesOptions<In>): Settings<In> {
  checkOptions("batch", options, ["most", "waitMs", "queue", "lengthOf", "mostLength"]);
  const { most = 32, waitMs = 2, queue = 1024, lengthOf, mostLength = 4096 } = options;
  for (const [name, value] of Object.entries({ most, queue, mostLength })) {
    if (Number.isSafeInteger(value) && value >= 1) continue;
    throw new ArgumentError(
      `Cannot batch with ${name} ${describe(value)}: it is an integer of at least 1`,
    );
  }
  if (typeof waitMs !== "number" || !(waitMs >= 0 && waitMs <= 60_000)) {
    throw new ArgumentError(
      `Cannot batch with waitMs ${describe(waitMs)}: it is a number of 0 to 60000 milliseconds`,
    );
  }
  if (lengthOf !== undefined && typeof lengthOf !== "function") {
    throw new ArgumentError(`Cannot batch with lengthOf ${describe(lengthOf)}: it is a function`);
  }
  return { most, waitMs, queue, lengthOf, mostLength };
}

/** A queue in front of a function that processes batches. */
class Batcher<In, Out> {
  readonly #run: BatchFunction<In, Out>;
  readonly #settings: Settings<In>;
  /** Oldest first. */
  #queue: Entry<In, Out>[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isScheduled = false;
  #running = 0;
  #batches = 0;
  #items = 0;
  #isDraining = false;
  readonly #idle: (() => void)[] = [];

  constructor(run: BatchFunction<In, Out>, settings: Settings<In>) {
    this.#run = run;
    this.#settings = settings;
  }

  get stats(): BatchStats {
    return {
      waiting: this.#queue.length,
      running: this.#running,
      batches: this.#batches,
      items: this.#items,
    };
  }

  async add(given: readonly In[], options: BatchCallOptions = {}): Promise<Out[]> {
    checkOptions("batch items", options, ["signal"]);
    const { signal } = options;
    checkSignal("batch items", signal);
    const { queue } = this.#settings;
    if (this.#isDraining) throw new DisposedError("Cannot batch items: the queue is drained");
    const count = countOf(given);
    if (count === undefined) {
      throw new ArgumentError(`Cannot batch ${describe(given)}: it takes a list of items`);
    }
    if (count > queue) {
      throw new ArgumentError(`Cannot batch ${count} items: at most ${queue} can wait`);
    }
    const items = listOf(given, (item) => ({ item, length: this.#lengthOf(item) }), count);
    if (items.length === 0) return [];
    if (this.#queue.length + items.length > queue) throw new QueueFullError(queue);
    const since = performance.now();
    // Not Promise.withResolvers, which Node 20 lacks.
    return await new Promise<Out[]>((resolve, reject) => {
      const cancel = () => this.#cancel(group, signal?.reason);
      const end = () => signal?.removeEventListener("abort", cancel);
      const group: Group<Out> = {
        ...{ results: [], left: items.length, hasFailed: false },
        resolve(results) {
          end();
          resolve(results);
        },
        reject(error) {
          end();
          reject(error);
        },
      };
      items.forEach((item, place) => this.#queue.push({ ...item, group, place, since }));
      signal?.addEventListener("abort", cancel);
      this.#wait();
    });
  }

  async drain(): Promise<void> {
    this.#isDraining = true;
    this.#wait();
    while (this.#queue.length > 0 || this.#running > 0) {
      await new Promise<void>((resolve) => this.#idle.push(resolve));
    }
  }

  #lengthOf(item: In): number {
    const length = this.#settings.lengthOf?.(item) ?? 0;
    if (typeof length === "number" && length >= 0) return length;
    throw new ArgumentError(
      `Cannot batch an item of length ${describe(length)}: lengthOf returns a number of at least 0`,
    );
  }

  /** Takes what waits of a call out of the queue. What runs has its result, as nothing stops it. */
  #cancel(group: Group<Out>, reason: unknown): void {
    const { length } = this.#queue;
    this.#queue = this.#queue.filter((entry) => entry.group !== group);
    if (this.#queue.length === length) return;
    group.hasFailed = true;
    group.reject(reason);
    this.#settle();
  }

  /** Runs batches in a later turn of the event loop. */
  #soon(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    turn().then(() => {
      this.#isScheduled = false;
      this.#runBatches();
    });
  }

  /** Runs a batch when there are enough items, or when the oldest has waited long enough. */
  #wait(): void {
    // The end of a batch looks at the queue again.
    if (this.#isScheduled || this.#running > 0 || this.#queue.length === 0) return;
    if (this.#isDue()) return this.#soon();
    if (this.#timer !== undefined) return;
    const due = this.#queue[0]!.since + this.#settings.waitMs - performance.now();
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#runBatches();
    }, Math.max(due, 0));
  }

  #isDue(): boolean {
    const { most, waitMs } = this.#settings;
    if (this.#queue.length === 0 || this.#running > 0) return false;
    if (this.#queue.length >= most || this.#isDraining) return true;
    // A timer may fire a little early.
    return performance.now() - this.#queue[0]!.since + 0.5 >= waitMs;
  }

  #runBatches(): void {
    const end = performance.now() + SLICE_MS;
    while (this.#isDue()) {
      this.#runBatch(this.#take());
      if (performance.now() >= end && this.#isDue()) return this.#soon();
    }
    this.#settle();
  }

  /** Waits for more items, or ends the waiting for the end. */
  #settle(): void {
    this.#wait();
    if (this.#queue.length > 0 || this.#running > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** The next batch: the oldest item, and others that fit beside it. */
  #take(): Entry<In, Out>[] {
    const { most, lengthOf, mostLength } = this.#settings;
    if (lengthOf === undefined) return this.#queue.splice(0, most);
    const [oldest] = this.#queue;
    const { length } = oldest!;
    const taken = new Set<Entry<In, Out>>();
    let longest = length;
    // The most similar ones first; a sort keeps the order of equal ones.
    const distance = (entry: Entry<In, Out>) => Math.abs(entry.length - length);
    for (const entry of this.#queue.toSorted((a, b) => distance(a) - distance(b))) {
      const greater = Math.max(entry.length, length);
      if (taken.size === most || distance(entry) > Math.max(greater / 4, SMALL)) break;
      const padded = Math.max(longest, entry.length);
      if (taken.size > 0 && (taken.size + 1) * padded > mostLength) continue;
      longest = padded;
      taken.add(entry);
    }
    this.#queue = this.#queue.filter((entry) => !taken.has(entry));
    return [...taken];
  }

  #runBatch(entries: readonly Entry<In, Out>[]): void {
    this.#running = entries.length;
    const end = () => {
      this.#running = 0;
      this.#batches++;
      this.#items += entries.length;
    };
    const fail = (error: unknown): void => {
      end();
      const groups = new Set(entries.map(({ group }) => group));
      for (const group of groups) {
        group.hasFailed = true;
        group.reject(error);
      }
      // No result is left to wait for: other items of these calls need not run.
      this.#queue = this.#queue.filter(({ group }) => !group.hasFailed);
    };
    const succeed = (given: readonly Out[]): void => {
      const results = listIn(given, (one) => one as Out);
      if (results?.length !== entries.length) {
        const what = results === undefined ? describe(given) : `${results.length} results`;
        return fail(
          new ArgumentError(`Cannot batch ${entries.length} items: the function returned ${what}`),
        );
      }
      end();
      entries.forEach(({ group, place }, i) => {
        group.results[place] = results[i]!;
        if (--group.left === 0) group.resolve(group.results);
      });
    };
    try {
      const results = this.#run(entries.map(({ item }) => item));
      if (!("then" in Object(results))) return succeed(results as readonly Out[]);
      const settle = <T>(use: (value: T) => void) => (value: T): void => {
        use(value);
        if (this.#isDue()) this.#soon();
        else this.#settle();
      };
      Promise.resolve(results).then(settle(succeed), settle(fail));
    } catch (error) {
      fail(error);
    }
  }
}

/**
 * Makes one function of one item of a function of many: `f` takes items of calls that are made at
 * about the same time, and returns their results in the same order, or a promise of them.
 *
 * A batch starts when there are `most` items, or when the oldest has waited `waitMs`. One batch runs
 * at a time. Between batches that run on the event loop, the loop has its turn every 4 ms.
 *
 * A call rejects with a {@link QueueFullError} if its items do not fit into the queue, with the
 * error of `f` if its batch fails (other batches are not affected), with the reason of its `signal`
 * if that aborts before the item starts, and with a {@link DisposedError} after `drain`.
 *
 * @throws {ArgumentError} If an option is not valid. Calls reject with it if `f` returns another
 *   number of results, if `lengthOf` returns no length, and if `all` has more items than can wait.
 *
 * @example
 * ```ts
 * import { tensor } from "@rowmajor/tensor";
 * import { batches } from "@rowmajor/tensor/serve";
 *
 * const norm = batches((rows: number[][]) => tensor(rows).square().sum(1).sqrt().toArray());
 * await Promise.all([norm([3, 4]), norm([6, 8])]); // => [5, 10]
 * norm.stats.batches; // => 1
 * ```
 */
export function batches<In, Out>(
  f: BatchFunction<In, Out>,
  options: BatchesOptions<In> = {},
): Batches<In, Out> {
  if (typeof f !== "function") {
    throw new ArgumentError(
      `Cannot batch with ${describe(f)}: it is a function of a list of items`,
    );
  }
  const batcher = new Batcher(f, settingsOf(options));
  const one = async (item: In, options?: BatchCallOptions): Promise<Out> =>
    (await batcher.add([item], options))[0]!;
  // Object.assign reads a getter once.
  return Object.defineProperty(
    Object.assign(one, {
      all: (items: readonly In[], options?: BatchCallOptions) => batcher.add(items, options),
      drain: () => batcher.drain(),
      stats: batcher.stats,
    }),
    "stats",
    { get: () => batcher.stats },
  );
}
