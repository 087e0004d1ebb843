/**
 * What a session keeps of its tokens: keys and values of layers with attention, and the inputs of
 * short convolutions.
 *
 * @module
 */
import * as nn from "../nn/mod.ts";
import { zeros } from "../tensor/create.ts";
import { type AnyTensor, keep, type Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import { kindsOf, type ModelConfig } from "./config/config.ts";

/** Inputs of convolutions: [layers, rows, hidden]. */
type Rows = Tensor<"float32", [number, number, number], t.Device>;

/** The tokens by which convolutions can go back. */
const HISTORY = 256;

/**
 * The inputs of convolutions for the last tokens: [layers, rows, hidden]. Each convolution needs the
 * `reach` before the next token. Older rows let the cache go back by {@link HISTORY} tokens.
 */
class ConvolutionHistory implements Disposable {
  readonly #layers: number;
  readonly #hidden: number;
  readonly #reach: number;
  readonly #device: t.Device | undefined;
  readonly #data: Rows;
  /** The token of the row after the first `reach` ones. */
  #first = 0;
  #length = 0;

  constructor(layers: number, hidden: number, reach: number, device: t.Device | undefined) {
    this.#layers = layers;
    this.#hidden = hidden;
    this.#reach = reach;
    this.#device = device;
    this.#data = keep(this.#zeros(reach + 2 * HISTORY));
  }

  #zeros(rows: number): Rows {
    const on = this.#device === undefined ? {} : { device: this.#device };
    return zeros([this.#layers, rows, this.#hidden], { dtype: "float32", ...on });
  }

  /** The rows in use. */
  get #used(): number {
    return this.#reach + this.#length - this.#first;
  }

  get bytes(): number {
    return this.#data.layout.size * Float32Array.BYTES_PER_ELEMENT;
  }

  /** A copy of rows. */
  #copy(from: number, to: number): Rows {
    const view = this.#data.slice(":", `${from}:${to}`);
    try {
      return view.copy();
    } finally {
      view.dispose();
    }
  }

  /** Writes rows from `from` on, and frees them. */
  #write(from: number, rows: AnyTensor): void {
    this.#data.set([":", `${from}:${from + rows.shape[1]!}`], rows);
    rows.dispose();
  }

  /** A copy of the last `reach` rows, which belongs to the caller. */
  last(): Rows {
    return this.#copy(this.#used - this.#reach, this.#used);
  }

  /** Adds the first `count` of rows [layers, n, hidden]. */
  append(rows: AnyTensor, count: number): void {
    if (this.#used + count > this.#reach + 2 * HISTORY) {
      const kept = this.#reach + HISTORY, from = this.#used - kept;
      this.#write(0, this.#copy(from, this.#used));
      this.#first += from;
    }
    this.#write(this.#used, rows.slice(":", `:${count}`));
    this.#length += count;
  }

  /** Keeps the first `length` tokens, or none if their rows are gone; returns how many it keeps. */
  truncate(length: number): number {
    if (length >= this.#first) return this.#length = length;
    this.#first = 0;
    this.#length = 0;
    this.#write(0, this.#zeros(this.#reach));
    return 0;
  }

  copy(): ConvolutionHistory {
    const made = new ConvolutionHistory(this.#layers, this.#hidden, this.#reach, this.#device);
    made.#write(0, this.#copy(0, this.#used));
    made.#first = this.#first;
    made.#length = this.#length;
    return made;
  }

  [Symbol.dispose](): void {
    this.#data.dispose();
  }
}

/** How a cache is made. */
export interface CacheOptions {
  readonly dtype: nn.CacheDType;
  readonly device: t.Device | undefined;
  readonly capacity?: number | undefined;
}

/** The number of layers with keys and values, and with convolutions. */
export function layerCounts(config: ModelConfig): { attention: number; convolution: number } {
  const kinds = kindsOf(config);
  const convolution = kinds.filter((kind) => kind === "convolution").length;
  return { attention: kinds.length - convolution, convolution };
}

/** The memory of a sequence, of all layers. */
export class DecoderCache implements Disposable {
  readonly #keys: nn.KVCache;
  readonly #convolved: ConvolutionHistory | undefined;

  private constructor(keys: nn.KVCache, convolved: ConvolutionHistory | undefined) {
    this.#keys = keys;
    this.#convolved = convolved;
  }

  /** The cache of a model without tokens. */
  static of(config: ModelConfig, { dtype, device, capacity }: CacheOptions): DecoderCache {
    const { attention, convolution } = layerCounts(config);
    const keys = new nn.KVCache({
      layers: attention,
      heads: config.kvHeads,
      dimensions: config.headDimensions,
      dtype,
      capacity,
      device,
    });
    if (convolution === 0) return new DecoderCache(keys, undefined);
    const reach = config.convolution! - 1;
    return new DecoderCache(
      keys,
      new ConvolutionHistory(convolution, config.hidden, reach, device),
    );
  }

  /** Its tokens. */
  get length(): number {
    return this.#keys.length;
  }

  /** Its memory in bytes. */
  get bytes(): number {
    return this.#keys.bytes + (this.#convolved?.bytes ?? 0);
  }

  /** Keys and values: see {@link nn.KVCache.data}. */
  get data(): AnyTensor {
    return this.#keys.data;
  }

  /** The last inputs of convolutions, which belong to the caller; undefined in most models. */
  convolved(): AnyTensor | undefined {
    return this.#convolved?.last();
  }

  /** Adds the first `count` tokens of a step. */
  append(rows: AnyTensor, convolved: AnyTensor | undefined, count: number): void {
    this.#keys.append(rows, count);
    if (convolved !== undefined) this.#convolved?.append(convolved, count);
  }

  /** Makes room for `capacity` tokens. */
  reserve(capacity: number): void {
    this.#keys.reserve(capacity);
  }

  /**
   * Keeps the first `length` tokens. Convolutions may have forgotten what they need for that: then it
   * keeps none. Returns how many it keeps.
   */
  truncate(length: number): number {
    const before = this.#keys.length;
    this.#keys.truncate(length);
    if (this.#convolved === undefined || length === before) return length;
    const kept = this.#convolved.truncate(length);
    if (kept !== length) this.#keys.truncate(kept);
    return kept;
  }

  /** A copy. */
  copy(): DecoderCache {
    return new DecoderCache(this.#keys.copy(), this.#convolved?.copy());
  }

  /** Frees the memory. */
  dispose(): void {
    this.#keys.dispose();
    this.#convolved?.[Symbol.dispose]();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}
