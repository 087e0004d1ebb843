/**
 * Decoders whose caches of keys and values grow by a row for each token: caches of a few sizes in the
 * place of one for each length, so that tokens have the same program.
 *
 * A cache is a part of a longer one, whose first rows are zeros. Where the model has an attention mask,
 * the mask leaves them out, if that alone decides. Where it does not, or where the model has no mask, a
 * {@link PaddedGraph} does. Each size is trusted after a step that ran both ways.
 *
 * @module
 */
import { sameShape } from "../base/shape.ts";
import { Layout } from "../base/layout.ts";
import { Slice } from "../base/slice.ts";
import { wrap } from "../core/handles.ts";
import { fromBuffer } from "../tensor/create.ts";
import { scope, Tensor } from "../tensor/tensor.ts";
import type { T, Value } from "./graph/values.ts";
import { type Model, partsOf } from "./model.ts";
import { fits, type Kind, PaddedGraph, type StepInputs, Unfit } from "./padded_graph.ts";

/** Sizes of caches are multiples of a number that grows with them. */
const LEAST_STEP = 128, STEPS = 4;
/** Rows of caches that do not grow, those of an encoder, are multiples of this. */
const ENCODER_STEP = 64;
/** The most tokens of a step: longer ones are prompts, which have kinds of their own. */
const MOST_TOKENS = 4;
/** The largest difference of two ways to compute a step, as a part of the largest result. */
const MOST_ERROR = 1e-3;
/** A program takes as long to make as about this many steps without one. */
const MANY_STEPS = 16;
/** The most kinds of steps that are known, and of sizes that have programs. */
const MOST_KINDS = 256, MOST_SIZES = 8;
/** After so many kinds of steps that no way has the results of, and no other, all run as they are. */
const MOST_FAILURES = 3;
const MASK = "attention_mask";
/** The axis of the rows of a cache: [batch, heads, rows, columns]. */
const ROWS = 2;

type Feeds = Readonly<Record<string, Value>>;
type Results = Record<string, Value>;

/** The multiples of which the rows of caches are that have room for `length`. */
function stepFor(length: number): number {
  let step = LEAST_STEP;
  while (length > step * STEPS) step *= 2;
  return step;
}

/** The rows of a cache that has room for `length`. */
function capacityFor(length: number): number {
  const step = stepFor(length);
  return Math.ceil(length / step) * step;
}

/** Runs steps for caches of one size. */
interface Size {
  /** The graph of the steps; undefined where the mask of the model decides. */
  readonly graph: PaddedGraph | undefined;
  /** The rows of caches that do not grow. */
  readonly encoded: number;
  /** The rows that a step adds. */
  readonly tokens: number;
  /** The steps that run now. */
  running: number;
}

/** An input of which all steps of a text have the same tensor, with rows of zeros before it. */
interface Encoded {
  readonly of: T;
  readonly longer: T;
  /** The steps that run now. */
  running: number;
}

/** Steps with inputs of the same dtypes and shapes, except for the rows of caches. */
interface StepKind {
  /** The steps so far without a program. */
  steps: number;
  /** Whether they run as they are: prompts, and those that nothing else has the results of. */
  isPlain: boolean;
  /** By the rows of caches; undefined for one that is made now. */
  readonly sizes: Map<number, Size | undefined>;
}

/** Whether an input is part of the graph of steps: what conditions and counts are. */
function isFixed({ size, rank, dtype }: T): boolean {
  return size === 1 && (dtype === "bool" || rank === 0 && /int/.test(dtype));
}

/** Runs the steps of a decoder. */
export class GrowingCache {
  readonly #model: Model;
  /** The names of the inputs and outputs of caches. */
  readonly #pairs: ReadonlyMap<string, string>;
  /** Those of caches that grow; undefined until a step has shown them. */
  #growing: ReadonlyMap<string, string> | undefined;
  /** The inputs that have as many rows as caches that do not grow, with the axis of these. */
  #encoders: ReadonlyMap<string, number> = new Map();
  /** The rows of the first caches that do not grow: they alone have no more. */
  #firstEncoded: number | undefined;
  /** Those of the last step with rows before them, by their names. */
  readonly #encoded = new Map<string, Encoded>();
  /** How many rows of the memory before a cache are zeros that belong to it. */
  readonly #before = new WeakMap<T, number>();
  /** Caches whose first rows are those of the cache of the step before. */
  readonly #continued = new WeakSet<T>();
  /** Whether a step has shown that caches keep the rows that they have. */
  #keepsRows = false;
  readonly #kinds = new Map<string, StepKind>();
  /** Whether the mask may decide: until a step has shown that it alone does not. */
  #isMasked: boolean;
  /** The most rows of caches: tables of positions may have no more. */
  #mostRows = Infinity;
  /** How many kinds of steps no way has the results of, and whether others have one. */
  #failures = 0;
  #hasSize = false;

  private constructor(model: Model, pairs: ReadonlyMap<string, string>) {
    this.#model = model;
    this.#pairs = pairs;
    // Others have rows of which other inputs tell the places.
    this.#isMasked = model.inputs.some(({ name }) => name === MASK) &&
      !model.ops.has("com.microsoft.GroupQueryAttention");
  }

  /** The runner of a model's steps; undefined if it has no caches. */
  static of(model: Model): GrowingCache | undefined {
    const outputs = new Set(model.outputs.map(({ name }) => name));
    const pairs = new Map<string, string>();
    for (const { name, dtype, shape } of model.inputs) {
      if (name === MASK && (dtype !== "int64" || shape?.length !== 2)) return undefined;
      if (!name.startsWith("past_key_values.")) continue;
      const output = name.replace("past_key_values", "present");
      const isCache = shape?.length === 4 && typeof shape[ROWS] === "string" &&
        /float/.test(dtype) && outputs.has(output);
      if (!isCache) return undefined;
      pairs.set(name, output);
    }
    return pairs.size === 0 ? undefined : new GrowingCache(model, pairs);
  }

  /** The results of a step; undefined if it has no cache, or is better run as it is. */
  async run(feeds: Feeds): Promise<Results | undefined> {
    const isOff = !this.#hasSize && this.#failures >= MOST_FAILURES;
    if (isOff || !this.#hasRows(feeds)) return undefined;
    if (this.#growing === undefined) {
      const results = await this.#oneByOne(feeds);
      this.#growing = this.#grownIn(feeds, results);
      this.#encoders = this.#encodersIn(feeds);
      return results;
    }
    const length = this.#lengthOf(feeds), encoded = this.#encodedIn(feeds);
    const kind = this.#kindOf(feeds, encoded);
    if (length === undefined || kind.isPlain) return undefined;
    const rows = Math.min(capacityFor(length), this.#mostRows), pad = rows - length;
    if (pad < 0) return await this.#oneByOne(feeds);
    const size = kind.sizes.get(rows);
    if (size !== undefined) {
      // The one that is used last comes last.
      kind.sizes.delete(rows);
      kind.sizes.set(rows, size);
      return await this.#padded(size, feeds, pad);
    }
    if (pad === 0 || kind.sizes.has(rows) || !this.#isWorth(kind)) {
      return await this.#oneByOne(feeds);
    }
    return await this.#make(kind, feeds, rows, pad, encoded);
  }

  /** The inputs with the rows of caches that do not grow. */
  #encodersIn(feeds: Feeds): ReadonlyMap<string, number> {
    const still = [...this.#pairs.keys()].filter((name) => !this.#growing!.has(name));
    const [count, ...others] = new Set(still.map((name) => (feeds[name] as T).shape[ROWS]!));
    if (count === undefined || others.length > 0) return new Map();
    const found = new Map(still.map((name) => [name, ROWS]));
    for (const { name, shape } of this.#model.inputs) {
      if (this.#pairs.has(name) || shape === undefined) continue;
      const axis = shape.findIndex((size) => typeof size === "string" && /encoder/.test(size));
      if (axis > 0 && (feeds[name] as T).shape[axis] === count) found.set(name, axis);
    }
    return found;
  }

  /** The rows that caches get that do not grow; 0 if those of the inputs differ. */
  #encodedIn(feeds: Feeds): number {
    const [count, ...others] = new Set(
      [...this.#encoders].map(([name, axis]) => (feeds[name] as T | undefined)?.shape[axis]),
    );
    if (count === undefined || others.length > 0) return 0;
    this.#firstEncoded ??= count;
    if (count === this.#firstEncoded) return count;
    // At least one more, so that each size is tried with rows before those that count.
    return (Math.floor(count / ENCODER_STEP) + 1) * ENCODER_STEP;
  }

  /** The model's own results, without a program. */
  #oneByOne(feeds: Feeds): Promise<Results> {
    return partsOf(this.#model).run(feeds, { oneByOne: true });
  }

  /** Whether all caches have rows. */
  #hasRows(feeds: Feeds): boolean {
    return [...this.#pairs.keys()].every((name) => {
      const cache = feeds[name];
      return cache instanceof Tensor && cache.shape.length === 4 && cache.shape[ROWS]! > 0;
    });
  }

  /** The caches that have more rows after a step. */
  #grownIn(feeds: Feeds, results: Results): ReadonlyMap<string, string> {
    const rows = (value: Value): number =>
      value instanceof Tensor && value.shape.length === 4 ? value.shape[ROWS]! : 0;
    return new Map(
      [...this.#pairs].filter(([past, now]) => rows(results[now]) > rows(feeds[past])),
    );
  }

  /** The rows of the caches that grow; undefined if they differ. */
  #lengthOf(feeds: Feeds): number | undefined {
    const lengths = new Set(
      [...this.#growing!.keys()].map((name) => (feeds[name] as T).shape[ROWS]!),
    );
    return lengths.size === 1 ? [...lengths][0] : undefined;
  }

  #kindOf(feeds: Feeds, encoded: number): StepKind {
    const name = this.#model.inputs.map(({ name }) => {
      const value = feeds[name];
      if (!(value instanceof Tensor)) return "";
      const { dtype, shape } = value;
      if (isFixed(value)) return `${dtype} ${value.toTypedArray()[0]}`;
      if (name === MASK) return `${dtype}[${shape[0]}]`;
      if (this.#growing!.has(name)) return `${dtype}[${shape.with(ROWS, 0)}]`;
      const axis = this.#encoders.get(name);
      const isExact = axis === undefined || encoded === 0 || encoded === shape[axis];
      return `${dtype}[${isExact ? shape : `room ${shape.with(axis, encoded)}`}]`;
    }).join("|");
    const kind = this.#kinds.get(name) ?? { steps: 0, isPlain: false, sizes: new Map() };
    this.#kinds.delete(name);
    this.#kinds.set(name, kind);
    if (this.#kinds.size > MOST_KINDS) {
      const unused = [...this.#kinds].find(([, { sizes }]) => sizes.size === 0);
      if (unused !== undefined) this.#kinds.delete(unused[0]);
    }
    return kind;
  }

  /** Whether a size of caches more is made for steps of a kind, which takes as long as many steps. */
  #isWorth(kind: StepKind): boolean {
    const isFirst = [...this.#kinds.values()].every(({ sizes }) => sizes.size === 0);
    return isFirst || kind.sizes.size > 0 || kind.steps++ >= MANY_STEPS;
  }

  /** Makes a size of caches for a step, whose results it returns. */
  async #make(
    kind: StepKind,
    feeds: Feeds,
    rows: number,
    pad: number,
    encoded: number,
  ): Promise<Results> {
    let size: Size | undefined;
    kind.sizes.set(rows, undefined);
    try {
      const results = await this.#oneByOne(feeds);
      const [[past, now]] = [...this.#growing!] as [[string, string]];
      const tokens = (results[now] as T).shape[ROWS]! - (feeds[past] as T).shape[ROWS]!;
      if (tokens > MOST_TOKENS) kind.isPlain = true;
      else size = await this.#sizeFor(kind, feeds, results, { rows, pad, encoded, tokens });
      return results;
    } finally {
      kind.sizes.delete(rows);
      if (size !== undefined) {
        kind.sizes.set(rows, size);
        this.#hasSize = true;
      }
      this.#makeRoom();
    }
  }

  /** What runs steps for caches of some rows, if it has the same results; undefined if nothing has. */
  async #sizeFor(
    kind: StepKind,
    feeds: Feeds,
    results: Results,
    { rows, pad, encoded, tokens }: Readonly<Record<"rows" | "pad" | "encoded" | "tokens", number>>,
  ): Promise<Size | undefined> {
    const own = { encoded, tokens, running: 0 };
    if (this.#isMasked) {
      const size: Size = { ...own, graph: undefined };
      if (await this.#isRight(size, feeds, results, pad)) return size;
      this.#isMasked = false;
    }
    const { graph, shared } = partsOf(this.#model);
    const inputs = this.#inputsOf(feeds, tokens);
    const room = this.#roomFor(feeds, encoded);
    const isFit = (rows: number): boolean => fits(graph, shared, inputs, [rows, encoded]);
    const pads = [pad, pad >> 1, 1, 2, stepFor(rows) - 1].filter((n) => n > 0 && n < rows);
    try {
      // The rows before those of two kinds of caches tell these apart.
      const apart = (n: number): number => n !== room ? room : room > 1 ? room - 1 : 2;
      const all = [...new Set(pads)].map((n) => [n, room === 0 ? 0 : apart(n)]);
      const made = new PaddedGraph(graph, shared, inputs, [rows, encoded], all);
      const size: Size = { ...own, graph: made };
      if (await this.#isRight(size, feeds, results, pad)) return size;
      made.dispose();
    } catch (error) {
      const length = rows - pad;
      if (!(error instanceof Unfit) && !isFit(rows) && isFit(length)) {
        this.#mostRows = length;
        for (let end = rows; end - this.#mostRows > 1;) {
          const middle = (this.#mostRows + end) >> 1;
          if (isFit(middle)) this.#mostRows = middle;
          else end = middle;
        }
        return undefined;
      }
    }
    // Other encoders have kinds of their own then.
    if (room > 0) this.#encoders = new Map();
    else {
      kind.isPlain = true;
      this.#failures++;
    }
    return undefined;
  }

  /** The rows before those of caches that do not grow. */
  #roomFor(feeds: Feeds, encoded: number): number {
    const [one] = this.#encoders;
    if (one === undefined || encoded === 0) return 0;
    return encoded - (feeds[one[0]] as T).shape[one[1]]!;
  }

  /** The inputs of a step for caches of any rows. */
  #inputsOf(feeds: Feeds, tokens: number): StepInputs {
    const tensors = this.#model.inputs.map(({ name }) => [name, feeds[name] as T] as const);
    const kindOf = (
      name: string,
      { dtype, shape }: T,
      [rows, encoded]: readonly number[],
    ): Kind => {
      if (name === MASK) return { dtype, shape: shape.with(1, rows! + tokens) };
      if (this.#growing!.has(name)) return { dtype, shape: shape.with(ROWS, rows!) };
      const axis = this.#encoders.get(name);
      if (axis === undefined || encoded === 0) return { dtype, shape };
      return { dtype, shape: shape.with(axis, encoded!) };
    };
    return {
      fixed: new Map(tensors.filter(([, x]) => isFixed(x))),
      kinds: (rows) => new Map(tensors.map(([name, x]) => [name, kindOf(name, x, rows)])),
    };
  }

  /** Whether steps for caches of a size have the results of the model. */
  async #isRight(size: Size, feeds: Feeds, results: Results, pad: number): Promise<boolean> {
    let other: Results;
    try {
      other = await this.#padded(size, feeds, pad);
    } catch {
      return false;
    }
    const isRight = this.#agree(results, other);
    this.#keepsRows = isRight && this.#hasRowsOf(feeds, other);
    for (const value of Object.values(other)) if (value instanceof Tensor) value.dispose();
    return isRight;
  }

  /** Frees the programs of sizes that no step has used for long. */
  #makeRoom(): void {
    const idle = [...this.#kinds.values()].flatMap((kind) =>
      [...kind.sizes].flatMap(([rows, size]) =>
        size?.graph === undefined || size.running > 0 ? [] : [{ kind, rows, graph: size.graph }]
      )
    );
    for (const { kind, rows, graph } of idle.slice(0, -MOST_SIZES)) {
      kind.sizes.delete(rows);
      kind.steps = 0;
      graph.dispose();
    }
  }

  /** Runs a step with `pad` rows of zeros before each cache. */
  async #padded(size: Size, feeds: Feeds, pad: number): Promise<Results> {
    const made: T[] = [];
    const all: Record<string, Value> = { ...feeds };
    const mask = feeds[MASK];
    const encoded: [name: string, one: Encoded][] = [];
    size.running++;
    try {
      for (const name of this.#growing!.keys()) {
        made.push(all[name] = this.#longer(feeds[name] as T, pad, size.tokens));
      }
      if (mask instanceof Tensor) made.push(all[MASK] = longerMask(mask, pad));
      const room = size.graph === undefined ? 0 : this.#roomFor(feeds, size.encoded);
      for (const [name, axis] of room === 0 ? [] : this.#encoders) {
        if (!size.graph!.reads(name)) continue;
        const one = this.#encodedOf(name, feeds[name] as T, axis, room);
        one.running++;
        encoded.push([name, one]);
        all[name] = one.longer;
      }
      const results = await (size.graph?.run(all, [pad, room]) ??
        partsOf(this.#model).run(all, { brief: true }));
      for (const [past, name] of this.#pairs) {
        const whole = results[name];
        const isGrowing = this.#growing!.has(past);
        // Caches that do not grow may be results too.
        const first = isGrowing ? pad : room;
        const hasRows = whole instanceof Tensor && whole.rank === 4 && whole.shape[ROWS]! > first;
        if (!hasRows || first === 0) continue;
        const own = whole.sliceAxis(ROWS, new Slice(first)) as T;
        whole.dispose();
        if (isGrowing) {
          this.#before.set(own, pad);
          if (this.#keepsRows) this.#continued.add(own);
        }
        results[name] = own;
      }
      return results;
    } finally {
      size.running--;
      for (const [name, one] of encoded) {
        // Another text may have taken its place.
        if (--one.running === 0 && this.#encoded.get(name) !== one) one.longer.dispose();
      }
      for (const x of made) x.dispose();
    }
  }

  /**
   * A cache with more rows of zeros before it: those that it has in memory, if they are enough. Steps see
   * the same strides for all lengths, those of the results of a step.
   */
  #longer(cache: T, pad: number, tokens: number): T {
    if ((this.#before.get(cache) ?? 0) < pad) {
      const around = [[0, 0], [0, 0], [tokens + pad, 0], [0, 0]] as const;
      return scope(() => cache.pad(around).sliceAxis(ROWS, new Slice(tokens)) as T);
    }
    const { storage, layout: { shape, strides, offset } } = cache;
    const longer = new Layout(
      shape.with(ROWS, shape[ROWS]! + pad),
      strides,
      offset - pad * strides[ROWS]!,
    );
    return wrap(storage, longer) as T;
  }

  /** An input with the rows of an encoder, and with rows of zeros before it: that of the last step, if that is the same. */
  #encodedOf(name: string, value: T, axis: number, room: number): Encoded {
    const before = this.#encoded.get(name);
    const rows = value.shape[axis]! + room;
    if (before?.of === value && before.longer.shape[axis] === rows) return before;
    const longer = value.pad(value.shape.map((_, k) => [k === axis ? room : 0, 0])) as T;
    const own = { of: value, longer, running: 0 };
    this.#encoded.set(name, own);
    if (before?.running === 0) before.longer.dispose();
    return own;
  }

  /** Whether the caches that grew begin with those that a step had, bit by bit. */
  #hasRowsOf(feeds: Feeds, results: Results): boolean {
    return scope(() =>
      [...this.#growing!].every(([past, now]) => {
        const before = feeds[past] as T;
        const bytes = (x: T): Uint8Array => {
          const { buffer, byteOffset, byteLength } = x.contiguous().toTypedArray();
          return new Uint8Array(buffer, byteOffset, byteLength);
        };
        const own = bytes(rowsOf(results[now] as T, before.shape[ROWS]!)), other = bytes(before);
        return own.length === other.length && own.every((byte, k) => byte === other[k]);
      })
    );
  }

  /**
   * The names of inputs and outputs where an input of a step is the first rows of the output: who holds it
   * can have these instead.
   */
  *continued(results: Results): Generator<readonly [past: string, now: string]> {
    for (const pair of this.#growing ?? []) {
      const now = results[pair[1]];
      if (now instanceof Tensor && this.#continued.has(now)) yield pair;
    }
  }

  /** Whether two ways gave the same results, and caches of the same shapes. */
  #agree(a: Results, b: Results): boolean {
    const caches = new Set(this.#pairs.values());
    return this.#model.outputs.every(({ name }) => {
      const [x, y] = [a[name], b[name]];
      if (!(x instanceof Tensor) || !(y instanceof Tensor)) return true;
      if (!sameShape(x.shape, y.shape)) return false;
      return caches.has(name) || scope(() => {
        const [p, q] = [x.astype("float64"), y.astype("float64")];
        const error = Number(p.sub(q).abs().max().item());
        return error <= MOST_ERROR * Number(p.abs().max().item());
      });
    });
  }
}

/** The first rows of a cache, on its memory. */
export function rowsOf(cache: T, rows: number): T {
  return cache.sliceAxis(ROWS, new Slice(0, rows)) as T;
}

/** An attention mask with zeros before it. */
function longerMask(mask: T, pad: number): T {
  const [rows, columns] = mask.shape as [number, number];
  const longer = new BigInt64Array(rows * (pad + columns));
  const given = mask.toTypedArray() as BigInt64Array;
  for (let row = 0; row < rows; row++) {
    longer.set(given.subarray(row * columns, (row + 1) * columns), row * (pad + columns) + pad);
  }
  return fromBuffer(longer, { shape: [rows, pad + columns] }) as T;
}
