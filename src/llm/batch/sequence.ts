/**
 * What a model keeps of the tokens of texts: pages of keys and values, and inputs of convolutions.
 *
 * @module
 */
import { concat } from "../../api/functions/tensors.ts";
import { cpuBackendName } from "../../core/dispatch.ts";
import type { CacheDType } from "../../nn/decoder/kv_cache.ts";
import { tensor, zeros } from "../../tensor/create.ts";
import { type AnyTensor, keep, scope } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import type { Past, Stepped } from "../blocks/step.ts";
import { kindsOf, type ModelConfig, poolsOf } from "../config/config.ts";
import { PAGE, PagePool } from "./pages.ts";

/** How the memory of texts is made. */
export interface SequenceMemoryOptions {
  readonly dtype: CacheDType;
  readonly device: t.Device | undefined;
  /** The tokens that there is room for at first. */
  readonly capacity: number;
  /** The tokens that it may grow to. */
  readonly most: number;
  /** The longest text. */
  readonly context: number;
  /** The tokens by which texts can go back. */
  readonly history: number;
}

/** The least pages of a table where ops read all of it. */
const LEAST_WIDTH = 8;
/** The page of tokens that no query can see any more. */
const GONE = -1;

/** The last inputs of convolutions after some tokens: [layers, reach, hidden]. Users share it. */
class ConvolutionState {
  #users = 1;

  constructor(readonly data: AnyTensor) {}

  hold(): this {
    this.#users++;
    return this;
  }

  release(): void {
    if (--this.#users === 0) this.data.dispose();
  }
}

/** What a beginning of a text is to those who share it. */
export interface SharedPart {
  /** A page of each pool. */
  readonly pages: readonly number[];
  /** The convolutions' state after it. */
  readonly state: ConvolutionState | undefined;
}

/** The tokens of a text of a {@link SequenceMemory}, which the memory alone changes. */
export class Sequence implements Disposable {
  /** The tokens whose keys and values are there. */
  readonly tokens: number[] = [];
  /** The pages of each pool. */
  readonly pages: number[][];
  /** The convolutions' states after numbers of tokens, in rising order; the last one after all. */
  readonly states: { length: number; readonly state: ConvolutionState }[] = [];

  #disposed = false;

  constructor(readonly memory: SequenceMemory, pools: number) {
    this.pages = Array.from({ length: pools }, () => []);
  }

  /** Whether its memory was freed. */
  get disposed(): boolean {
    return this.#disposed;
  }

  get length(): number {
    return this.tokens.length;
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    this.memory.clear(this);
  }
}

/** The memory of the texts of a model. */
export class SequenceMemory implements Disposable {
  readonly #pools: readonly { readonly pool: PagePool; readonly window: number }[];
  readonly #convolutions: number;
  readonly #reach: number;
  readonly #hidden: number;
  readonly #options: SequenceMemoryOptions;
  /** Frees pages of no text; true if it has freed some. */
  reclaim: () => boolean = () => false;

  constructor(config: ModelConfig, options: SequenceMemoryOptions) {
    const { dtype, device, capacity, most } = options;
    this.#options = options;
    const [first, last] = [capacity, most].map((tokens) => Math.max(1, Math.ceil(tokens / PAGE)));
    const pools: { pool: PagePool; window: number }[] = [];
    this.#pools = pools;
    try {
      for (const { layers, window } of poolsOf(config)) {
        const shape = { layers, heads: config.kvHeads, columns: config.headDimensions };
        pools.push({
          pool: new PagePool({ ...shape, dtype, device }, first!, last!, () => this.reclaim()),
          window,
        });
      }
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
    this.#convolutions = kindsOf(config).filter((kind) => kind === "convolution").length;
    this.#reach = (config.convolution ?? 1) - 1;
    this.#hidden = config.hidden;
  }

  /** The pools. */
  get pools(): readonly PagePool[] {
    return this.#pools.map(({ pool }) => pool);
  }

  /** Whether kernels read only what there is of pages. */
  get #readsPages(): boolean {
    const { device = "cpu" } = this.#options;
    return device === "cpu" && cpuBackendName() !== "js";
  }

  /**
   * Whether prompts may be cut after any page. Their bits do not depend on it with the kernels of the
   * CPU; and what is shared of windows and convolutions is there only until the next tokens.
   */
  get cutsFreely(): boolean {
    return this.#readsPages && this.#convolutions === 0 &&
      this.#pools.every(({ window }) => window === Infinity);
  }

  /** The bytes that a text has for itself or shares. */
  bytesOf({ pages, states }: Sequence): number {
    const kept = pages.map((each, i) =>
      each.filter((page) => page !== GONE).length * this.#pools[i]!.pool.pageBytes
    );
    const state = 4 * this.#convolutions * this.#reach * this.#hidden;
    return kept.reduce((a, b) => a + b, 0) + states.length * state;
  }

  /** A text without tokens. */
  sequence(): Sequence {
    return new Sequence(this, this.#pools.length);
  }

  /** A copy of a text, which shares its pages. */
  fork(from: Sequence): Sequence {
    const made = this.sequence();
    for (const id of from.tokens) made.tokens.push(id);
    from.pages.forEach((pages, i) => {
      const { pool } = this.#pools[i]!;
      for (const page of pages) if (page !== GONE) pool.hold(page);
      made.pages[i]!.push(...pages);
    });
    made.states.push(...from.states.map(({ length, state }) => ({ length, state: state.hold() })));
    return made;
  }

  /** Removes all tokens. */
  clear(sequence: Sequence): void {
    this.#cut(sequence, 0);
  }

  #cut({ tokens, pages, states }: Sequence, length: number): void {
    tokens.length = length;
    const count = Math.ceil(length / PAGE);
    pages.forEach((each, i) => {
      for (const page of each.splice(count)) if (page !== GONE) this.#pools[i]!.pool.release(page);
    });
    while (states.length > 0 && states.at(-1)!.length > length) states.pop()!.state.release();
  }

  /**
   * Keeps the first `length` tokens, or fewer if what comes next needs what is gone: of windows, and of
   * convolutions, whose states it has after whole pages. Returns how many it keeps.
   */
  truncate(sequence: Sequence, length: number): number {
    if (length === sequence.length) return length;
    let kept = length;
    if (this.#convolutions > 0) {
      kept = sequence.states.findLast((one) => one.length <= length)?.length ?? 0;
    }
    const isGone = this.#pools.some(({ window }, i) => {
      const first = Math.max(0, Math.floor((kept - window + 1) / PAGE));
      return sequence.pages[i]!.slice(first, Math.ceil(kept / PAGE)).includes(GONE);
    });
    if (isGone) kept = 0;
    this.#cut(sequence, kept);
    return kept;
  }

  /** Makes room for a text of so many tokens, as far as memory may grow. */
  reserve(sequence: Sequence, length: number): void {
    const count = Math.ceil(length / PAGE);
    this.#pools.forEach(({ pool }, i) => pool.reserve(count - sequence.pages[i]!.length));
  }

  /**
   * The pages of the table of a text in a step, of up to a page. There are few such numbers, as each
   * makes a program. Only texts with the same number run together: where ops read the whole table, bits
   * depend on it.
   */
  widthOf({ length }: Sequence): number {
    const all = Math.ceil(this.#options.context / PAGE) + 1;
    if (this.#readsPages) return all;
    const needed = Math.ceil((length + PAGE) / PAGE);
    let width = LEAST_WIDTH;
    while (width < needed) width *= 4;
    return Math.min(width, all);
  }

  /** What a step reads of texts; `note` gets each new tensor. */
  past(
    sequences: readonly Sequence[],
    { rows, note }: {
      /** The texts with padding. */
      readonly rows: number;
      readonly note: <X extends AnyTensor>(x: X) => X;
    },
  ): Past {
    const on = this.#options.device === undefined ? {} : { device: this.#options.device };
    const integers = (values: Int32Array, shape: readonly number[]): AnyTensor =>
      note(tensor(values, { shape, ...on }));
    const lengths = new Int32Array(rows);
    sequences.forEach(({ length }, row) => lengths[row] = length);
    const width = this.widthOf(sequences[0]!);
    const pages = this.#pools.map((_, i) => {
      const table = new Int32Array(rows * width);
      sequences.forEach((one, row) =>
        one.pages[i]!.forEach((page, at) => table[row * width + at] = Math.max(0, page))
      );
      return integers(table, [rows, width]);
    });
    return {
      pools: this.#pools.map(({ pool }) => pool.data),
      pages,
      lengths: integers(lengths, [rows]),
      convolved: this.#convolutions === 0 ? undefined : this.#convolved(sequences, rows, note),
    };
  }

  #zeros(): AnyTensor {
    const { device } = this.#options;
    const shape = [1, this.#convolutions, this.#reach, this.#hidden];
    return zeros(shape, { dtype: "float32", ...device !== undefined && { device } });
  }

  /** The states of convolutions: [rows, layers, reach, hidden]. */
  #convolved(
    sequences: readonly Sequence[],
    rows: number,
    note: <X extends AnyTensor>(x: X) => X,
  ): AnyTensor {
    const none = note(this.#zeros());
    const each = Array.from({ length: rows }, (_, row) => {
      const state = sequences[row]?.states.at(-1)?.state.data;
      return state === undefined ? none : note(state.expandDims(0));
    });
    return note(concat(each, 0));
  }

  /** The pages that a text needs for `length` tokens, of each pool, beyond those that it has. */
  needs(sequence: Sequence, length: number): number {
    const count = Math.ceil(length / PAGE);
    return Math.max(0, ...sequence.pages.map((pages) => count - pages.length));
  }

  /** Adds tokens, whose keys and values are rows of a step, from row `from` on. */
  append(sequence: Sequence, ids: readonly number[], made: Stepped, from: number): void {
    const before = sequence.length, after = before + ids.length;
    this.#pools.forEach(({ pool, window }, i) => {
      const pages = sequence.pages[i]!;
      for (let at = before; at < after;) {
        const index = Math.floor(at / PAGE), row = at % PAGE;
        const count = Math.min(PAGE - row, after - at);
        if (index === pages.length) pages.push(pool.take());
        else pages[index] = pool.own(pages[index]!);
        pool.write(pages[index]!, row, made.rows[i]!, from + at - before, count);
        at += count;
      }
      // The next token sees those above this.
      const last = after - window - this.#options.history;
      for (let index = Math.floor((last + 1) / PAGE) - 1; index >= 0; index--) {
        if (pages[index] === GONE) break;
        pool.release(pages[index]!);
        pages[index] = GONE;
      }
    });
    const { convolved } = made;
    if (convolved !== undefined) {
      scope(() => this.#keepState(sequence, ids.length, convolved, from));
    }
    sequence.tokens.push(...ids);
  }

  /** The state after each whole page and after the last token. */
  #keepState({ states, length }: Sequence, count: number, rows: AnyTensor, from: number): void {
    const before = states.at(-1);
    const after = length + count;
    const stateAt = (end: number): ConvolutionState => {
      const taken = end - length;
      const own = rows.slice(":", `${from}:${from + taken}`);
      const old = before === undefined ? this.#zeros() : before.state.data.expandDims(0);
      const all = concat([old.slice(0), own], 1);
      return new ConvolutionState(keep(all.slice(":", `${taken}:`).copy()));
    };
    const ends: number[] = [];
    for (let end = PAGE * (Math.floor(length / PAGE) + 1); end <= after; end += PAGE) {
      ends.push(end);
    }
    if (ends.at(-1) !== after) ends.push(after);
    const made = ends.map((end) => ({ length: end, state: stateAt(end) }));
    // The state after a part of a page is only for the next token.
    if (before !== undefined && before.length % PAGE !== 0) states.pop()!.state.release();
    states.push(...made);
    const oldest = after - Math.max(this.#options.history, PAGE);
    while (states.length > 2 && states[1]!.length <= oldest) states.shift()!.state.release();
  }

  /** A whole page of a text as others may share it; they hold it until `release`. */
  share(sequence: Sequence, index: number): SharedPart {
    const pages = sequence.pages.map((each, i) => {
      const page = each[index]!;
      this.#pools[i]!.pool.hold(page);
      return page;
    });
    const end = PAGE * (index + 1);
    const state = sequence.states.find(({ length }) => length === end)?.state.hold();
    return { pages, state };
  }

  /** Ends what {@link SequenceMemory.share} has begun. */
  release({ pages, state }: SharedPart): void {
    pages.forEach((page, i) => this.#pools[i]!.pool.release(page));
    state?.release();
  }

  /** Gives a text without tokens the shared beginning `parts`, of the tokens `ids`. */
  begin(sequence: Sequence, ids: readonly number[], parts: readonly SharedPart[]): void {
    for (const { pages } of parts) {
      pages.forEach((page, i) => {
        this.#pools[i]!.pool.hold(page);
        sequence.pages[i]!.push(page);
      });
    }
    const state = parts.at(-1)?.state?.hold();
    if (state !== undefined) sequence.states.push({ length: PAGE * parts.length, state });
    // A call takes some ten thousand arguments at most.
    for (const id of ids.slice(0, PAGE * parts.length)) sequence.tokens.push(id);
  }

  [Symbol.dispose](): void {
    for (const { pool } of this.#pools) pool[Symbol.dispose]();
  }
}
