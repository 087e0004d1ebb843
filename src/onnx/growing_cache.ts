/**
 * Decoders whose caches of keys and values grow by a row for each token: caches of a few sizes in the
 * place of one for each length, so that tokens have the same program.
 *
 * A cache is a part of a longer one, whose first rows are zeros that the attention mask leaves out. Such
 * a decoder has an attention mask among its inputs. Whether the mask alone decides is found by running
 * one step both ways: positions may come from the length of the cache.
 *
 * @module
 */
import { Layout } from "../base/layout.ts";
import { Slice } from "../base/slice.ts";
import { wrap } from "../core/handles.ts";
import { fromBuffer } from "../tensor/create.ts";
import { scope, Tensor } from "../tensor/tensor.ts";
import type { T, Value } from "./graph/values.ts";
import type { Model } from "./model.ts";

/** Sizes of caches are multiples of a number that grows with them. */
const LEAST_STEP = 128, STEPS = 4;
/** The most tokens of a step: longer ones are prompts, which have kinds of their own. */
const MOST_TOKENS = 4;
/** The largest difference of two ways to compute a step, as a part of the largest result. */
const MOST_ERROR = 1e-3;
const MASK = "attention_mask";
/** The axis of the rows of a cache: [batch, heads, rows, columns]. */
const ROWS = 2;

/** The rows of a cache that has room for `length`. */
function capacityFor(length: number): number {
  let step = LEAST_STEP;
  while (length > step * STEPS) step *= 2;
  return Math.ceil(length / step) * step;
}

/** Runs the steps of a decoder. */
export class GrowingCache {
  readonly #model: Model;
  /** The names of the inputs and outputs of caches. */
  readonly #pairs: ReadonlyMap<string, string>;
  /** How many rows of the memory before a cache are zeros that belong to it. */
  readonly #before = new WeakMap<T, number>();
  /** Whether the mask alone decides; undefined until a step has shown it. */
  #isValid: boolean | undefined;

  private constructor(model: Model, pairs: ReadonlyMap<string, string>) {
    this.#model = model;
    this.#pairs = pairs;
  }

  /** The runner of a model's steps; undefined if it is no decoder of this kind. */
  static of(model: Model): GrowingCache | undefined {
    const inputs = new Map(model.inputs.map((one) => [one.name, one]));
    const mask = inputs.get(MASK);
    // Rows of other ops' caches have places that other inputs tell.
    if (mask?.dtype !== "int64" || mask.shape?.length !== 2) return undefined;
    if (inputs.has("use_cache_branch") || model.ops.has("com.microsoft.GroupQueryAttention")) {
      return undefined;
    }
    const pairs = new Map<string, string>();
    for (const { name, dtype, shape } of model.inputs) {
      if (!name.startsWith("past_key_values.")) continue;
      if (shape?.length !== 4 || typeof shape[ROWS] !== "string" || !/float/.test(dtype)) {
        return undefined;
      }
      pairs.set(name, name.replace("past_key_values", "present"));
    }
    const outputs = new Set(model.outputs.map(({ name }) => name));
    const isWhole = pairs.size > 0 && [...pairs.values()].every((name) => outputs.has(name));
    return isWhole ? new GrowingCache(model, pairs) : undefined;
  }

  /** The results of a step; undefined if it has no cache, or is no step of a token. */
  async run(feeds: Readonly<Record<string, Value>>): Promise<Record<string, Value> | undefined> {
    if (this.#isValid === false) return undefined;
    const length = this.#lengthOf(feeds);
    if (length === undefined) return undefined;
    const pad = capacityFor(length) - length;
    if (this.#isValid === true) return await this.#padded(feeds, pad);
    if (pad === 0) return undefined;
    const plain = await this.#model.async(feeds);
    const other = await this.#padded(feeds, pad);
    this.#isValid = this.#agree(plain, other);
    for (const value of Object.values(other)) if (value instanceof Tensor) value.dispose();
    return plain;
  }

  /** The rows of the caches; undefined if they differ, or for a prompt. */
  #lengthOf(feeds: Readonly<Record<string, Value>>): number | undefined {
    const mask = feeds[MASK];
    if (!(mask instanceof Tensor) || mask.shape.length !== 2) return undefined;
    let length = 0;
    for (const name of this.#pairs.keys()) {
      const cache = feeds[name];
      const rows = cache instanceof Tensor ? cache.shape[ROWS] : undefined;
      if (rows === undefined || rows === 0 || length !== 0 && rows !== length) return undefined;
      length = rows;
    }
    const tokens = mask.shape[1]! - length;
    return tokens > 0 && tokens <= MOST_TOKENS ? length : undefined;
  }

  /** Runs a step with `pad` rows of zeros before each cache. */
  async #padded(
    feeds: Readonly<Record<string, Value>>,
    pad: number,
  ): Promise<Record<string, Value>> {
    const made: T[] = [];
    const all: Record<string, Value> = { ...feeds };
    for (const name of this.#pairs.keys()) {
      made.push(all[name] = this.#longer(feeds[name] as T, pad));
    }
    made.push(all[MASK] = longerMask(feeds[MASK] as T, pad));
    try {
      const results = await this.#model.async(all);
      for (const name of this.#pairs.values()) {
        const whole = results[name] as T;
        const own = whole.sliceAxis(ROWS, new Slice(pad));
        whole.dispose();
        this.#before.set(own, pad);
        results[name] = own;
      }
      return results;
    } finally {
      for (const x of made) x.dispose();
    }
  }

  /** A cache with more rows of zeros before it: those that it has in memory, if they are enough. */
  #longer(cache: T, pad: number): T {
    if ((this.#before.get(cache) ?? 0) < pad) {
      return cache.pad([[0, 0], [0, 0], [pad, 0], [0, 0]]);
    }
    const { storage, layout: { shape, strides, offset } } = cache;
    const longer = new Layout(
      shape.with(ROWS, shape[ROWS]! + pad),
      strides,
      offset - pad * strides[ROWS]!,
    );
    return wrap(storage, longer) as T;
  }

  /** Whether two ways gave the same results, except those of caches. */
  #agree(a: Readonly<Record<string, Value>>, b: Readonly<Record<string, Value>>): boolean {
    const caches = new Set(this.#pairs.values());
    return this.#model.outputs.every(({ name }) => {
      const [x, y] = [a[name], b[name]];
      if (caches.has(name) || !(x instanceof Tensor) || !(y instanceof Tensor)) return true;
      return scope(() => {
        const [p, q] = [x.astype("float64"), y.astype("float64")];
        const error = Number(p.sub(q).abs().max().item());
        return error <= MOST_ERROR * Number(p.abs().max().item());
      });
    });
  }
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
