/**
 * Pages of keys and values, which texts take as they grow and share where they begin alike.
 *
 * @module
 */
import { OutOfMemoryError } from "../../base/errors.ts";
import { copyInto } from "../../core/dispatch.ts";
import { part } from "../../core/composite.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import { type CacheDType, cacheMemory } from "../../nn/decoder/kv_cache.ts";
import type { AnyTensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import { DTYPE } from "../../base/dtype.ts";

/**
 * The tokens of a page, and of the chunks in which prompts are computed: products of fewer rows take
 * more time per token, and longer chunks let those who wait for their next token wait longer.
 */
export const PAGE = 32;

/** What a pool is for. */
export interface PoolShape {
  readonly layers: number;
  readonly heads: number;
  readonly columns: number;
  readonly dtype: CacheDType;
  readonly device: t.Device | undefined;
}

/** Axes of the data: layers, keys or values, pages, heads, rows, columns. */
const PAGES_AXIS = 2, ROWS_AXIS = 4, TOKENS_AXIS = 3;

/** The pages of some layers. Each has a number of users, and is free if it has none. */
export class PagePool implements Disposable {
  readonly #shape: PoolShape;
  /** The pages it may grow to. */
  readonly #most: number;
  #data: AnyTensor;
  #count: number;
  /** The users of each page. */
  readonly #users: number[] = [];
  /** Free pages, the next one last: those that were used before, whose memory is resident. */
  readonly #free: number[] = [];
  /** Frees pages of others if it can; see {@link PagePool.take}. */
  readonly #reclaim: () => boolean;

  /** A pool of `count` pages that grows by doubling up to `most`. */
  constructor(shape: PoolShape, count: number, most: number, reclaim: () => boolean) {
    this.#shape = shape;
    this.#most = most;
    this.#count = count;
    this.#reclaim = reclaim;
    this.#data = this.#allocate(count);
  }

  #allocate(count: number): AnyTensor {
    const { layers, heads, columns, dtype, device } = this.#shape;
    return cacheMemory("pages", [layers, 2, count, heads, PAGE, columns], dtype, device);
  }

  /** [layers, 2, pages, heads, {@link PAGE}, columns]. It is another tensor after the pool has grown. */
  get data(): AnyTensor {
    return this.#data;
  }

  /** The bytes of a page. */
  get pageBytes(): number {
    const { layers, heads, columns, dtype } = this.#shape;
    return layers * 2 * heads * PAGE * columns * DTYPE[dtype].bytes;
  }

  /** The pages in use. */
  get used(): number {
    return this.#users.length - this.#free.length;
  }

  /** The pages that it may still give. */
  get left(): number {
    return this.#most - this.used;
  }

  /**
   * A page with one user: a free one, else one of those that `reclaim` frees, else a new one.
   *
   * @throws {OutOfMemoryError} If the pool is full.
   */
  take(): number {
    while (this.#free.length === 0 && this.#users.length === this.#count) {
      if (this.#reclaim()) continue;
      this.#grow();
    }
    const page = this.#free.pop() ?? this.#users.length;
    this.#users[page] = 1;
    return page;
  }

  /** Makes room for so many more pages, as far as it may grow. */
  reserve(pages: number): void {
    const count = Math.min(this.used + Math.max(0, pages), this.#most);
    if (count > this.#count) this.#grow(count);
  }

  #grow(least = this.#count + 1): void {
    const old: Operand = this.#data, before = this.#data;
    let count = this.#count;
    while (count < least) count *= 2;
    count = Math.min(count, this.#most);
    if (count === this.#count) {
      throw new OutOfMemoryError(
        this.pageBytes,
        String(this.#shape.device ?? "cpu"),
        `a cache of ${this.#most * PAGE} tokens is full`,
      );
    }
    const made = this.#allocate(count), whole: Operand = made;
    copyInto(part(whole, whole.layout.sliceAxis(PAGES_AXIS, 0, this.#count, 1)), old);
    this.#data = made;
    this.#count = count;
    before.dispose();
  }

  /** Adds a user. */
  hold(page: number): void {
    this.#users[page]!++;
  }

  /** Removes a user. */
  release(page: number): void {
    if (--this.#users[page]! === 0) this.#free.push(page);
  }

  #part(page: number): Operand {
    const data: Operand = this.#data;
    return part(data, data.layout.sliceAxis(PAGES_AXIS, page, 1, 1));
  }

  /** The page itself if it has one user; else a copy, in the place of which it loses a user. */
  own(page: number): number {
    if (this.#users[page] === 1) return page;
    const made = this.take();
    tidy(() => copyInto(this.#part(made), this.#part(page)));
    this.release(page);
    return made;
  }

  /** Writes `count` of rows [layers, 2, heads, tokens, columns], from `from` on, to a page. */
  write(page: number, at: number, rows: AnyTensor, from: number, count: number): void {
    const whole = this.#part(page), given: Operand = rows;
    const target = whole.layout.sliceAxis(ROWS_AXIS, at, count, 1).selectAxis(PAGES_AXIS, 0);
    const own = given.layout.sliceAxis(TOKENS_AXIS, from, count, 1);
    tidy(() => copyInto(part(whole, target), part(given, own)));
  }

  [Symbol.dispose](): void {
    this.#data.dispose();
  }
}
