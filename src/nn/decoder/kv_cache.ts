/**
 * The keys and values of the tokens that a model has seen.
 *
 * @module
 */
import { DTYPE, type DType } from "../../base/dtype.ts";
import {
  ArgumentError,
  DisposedError,
  DTypeError,
  OutOfMemoryError,
  ShapeError,
  TraceError,
} from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { ownOperand } from "../../core/foreign.ts";
import { copyInto } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkDevice, checkOptions } from "../../table/infer.ts";
import { QUANT } from "../../ops/quantized/formats.ts";
import { part } from "../../core/composite.ts";
import { zeros } from "../../tensor/create.ts";
import { quantize } from "../../ops/quantized/op.ts";
import { type AnyTensor, keep, type Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import { apart } from "../weights/ledger.ts";

/** The dtypes of a cache: q8_0 has 8 bits per element, and a scale for 32 of them. */
export type CacheDType = "float16" | "bfloat16" | "float32" | "q8_0";

/** More memory than a cache can have: 2 TiB. */
const MOST_BYTES = 2 ** 41;
const DTYPES: readonly string[] = ["float16", "bfloat16", "float32", "q8_0"];

/** Options of a {@link KVCache}. */
export interface KVCacheOptions<V extends t.Device = t.Device> {
  /** The layers of the model. */
  readonly layers: number;
  /** The heads of keys and values. */
  readonly heads: number;
  /** The columns of a head; a multiple of 32 for q8_0. */
  readonly dimensions: number;
  /** The dtype; float16 by default. */
  readonly dtype?: CacheDType | undefined;
  /** The tokens that fit before the memory grows; 256 by default. */
  readonly capacity?: number | undefined;
  /** The device; the CPU by default. */
  readonly device?: V | undefined;
}

function checkCount(name: string, value: unknown, least: number): void {
  if (Number.isInteger(value) && (value as number) >= least) return;
  throw new ArgumentError(
    `Cannot make a KVCache with ${name} ${describe(value)}: it is an integer of at least ${least}`,
  );
}

/**
 * Memory of zeros for keys and values, which lives until `dispose`; `what` needs it.
 *
 * @throws {OutOfMemoryError} If the memory is not available; above 2 TiB, before anything is allocated.
 */
export function cacheMemory(
  what: string,
  shape: readonly number[],
  dtype: CacheDType,
  device: t.Device | undefined,
): AnyTensor {
  const bytes = shape.reduce((all, size) => all * size, DTYPE[dtype as DType].bytes);
  if (!(bytes <= MOST_BYTES)) {
    const about = `${what} ${formatShape(shape)} of ${dtype}`;
    throw new OutOfMemoryError(bytes, String(device ?? "cpu"), about);
  }
  const on = device === undefined ? {} : { device };
  return apart(() => keep(zeros(shape, { dtype: dtype as DType, ...on })));
}

type CacheTensor<V extends t.Device> = Tensor<DType, [number, 2, number, number, number], V>;

/**
 * Keys and values of a sequence, for `cachedAttention`: memory of a fixed number of rows, of which the
 * first `length` count. It grows by doubling, so that compiled programs see few shapes. It belongs to
 * no scope: it lives until `dispose`.
 *
 * @example
 * ```ts
 * using cache = new nn.KVCache({ layers: 2, heads: 1, dimensions: 4, dtype: "float32" });
 * cache.append(ones([2, 2, 1, 3, 4])); // keys and values of 3 tokens, for 2 layers
 * cache.length; // => 3
 * cache.keys(0).shape; // => [1, 3, 4]
 * cache.truncate(1);
 * cache.length; // => 1
 * ```
 */
export class KVCache<V extends t.Device = t.Device> implements Disposable {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "KVCache";
  }

  /** The layers of the model. */
  readonly layers: number;
  /** The heads of keys and values. */
  readonly heads: number;
  /** The columns of a head. */
  readonly dimensions: number;
  /** The dtype of keys and values. */
  readonly dtype: CacheDType;
  readonly #device: V | undefined;
  #data: CacheTensor<V> | undefined;
  #capacity: number;
  #length = 0;

  /**
   * Allocates the memory.
   *
   * @throws {ArgumentError} For sizes that are no positive integers.
   * @throws {OutOfMemoryError} If the memory is not available; above 2 TiB, before anything is allocated.
   */
  constructor(options: KVCacheOptions<V>) {
    const names = ["layers", "heads", "dimensions", "dtype", "capacity", "device"];
    checkOptions("make a KVCache", options, names);
    const { layers, heads, dimensions, dtype = "float16", capacity = 256, device } = options;
    Object.entries({ layers, heads, dimensions, capacity }).forEach(([name, value]) =>
      checkCount(name, value, 1)
    );
    if (!DTYPES.includes(dtype)) {
      throw new DTypeError(
        `Cannot make a KVCache of ${describe(dtype)}: it takes ${DTYPES.join(", ")}`,
      );
    }
    if (dtype === "q8_0" && dimensions % QUANT[dtype].size !== 0) {
      throw new ArgumentError(
        `Cannot make a KVCache of ${dtype} with dimensions ${dimensions}: it is a multiple of ` +
          `${QUANT[dtype].size}`,
      );
    }
    this.layers = layers;
    this.heads = heads;
    this.dimensions = dimensions;
    this.dtype = dtype;
    this.#device = device;
    this.#capacity = capacity;
    this.#data = this.#allocate(capacity);
  }

  /** Memory for so many tokens. */
  #allocate(capacity: number): CacheTensor<V> {
    const shape = [this.layers, 2, this.heads, capacity, this.dimensions];
    return cacheMemory("a KVCache", shape, this.dtype, this.#device) as CacheTensor<V>;
  }

  /** The tokens whose keys and values it has. */
  get length(): number {
    return this.#length;
  }

  /** The tokens that fit before the memory grows. */
  get capacity(): number {
    return this.#capacity;
  }

  /** The memory in bytes. */
  get bytes(): number {
    const { layout: { size }, storage: { info } } = this.#operand();
    return size / info.block * info.lanes * (info.block === 1 ? info.bytes / info.lanes : 1);
  }

  /**
   * The memory: [layers, 2, heads, capacity, dimensions], where 0 and 1 of the second axis are keys and
   * values. It is another tensor after the cache has grown. Rows from `length` on are undefined.
   */
  get data(): Tensor<DType, [number, 2, number, number, number], V> {
    return this.#alive();
  }

  #alive(): CacheTensor<V> {
    if (this.#data === undefined) throw new DisposedError("Cannot use a KVCache: it was disposed");
    return this.#data;
  }

  #operand(): Operand {
    return this.#alive();
  }

  /** The keys of a layer, a view: [heads, length, dimensions]. */
  keys(layer: number): Tensor<DType, [number, number, number], V> {
    return this.#rows(layer, 0);
  }

  /** The values of a layer, a view: [heads, length, dimensions]. */
  values(layer: number): Tensor<DType, [number, number, number], V> {
    return this.#rows(layer, 1);
  }

  #rows(layer: number, which: 0 | 1): Tensor<DType, [number, number, number], V> {
    return this.data.slice(layer, which, ":", `:${this.#length}`);
  }

  /**
   * Adds the keys and values of n tokens: [layers, 2, heads, n, dimensions], or the first `count` of
   * them. They are cast to the cache's dtype; to q8_0, they are quantized.
   *
   * @throws {ShapeError} For rows of another shape.
   * @throws {DTypeError} For rows that are neither floats nor of the cache's dtype.
   * @throws {TraceError} In a compiled function.
   */
  append(rows: AnyTensor, count?: number): void {
    const own = ownOperand(rows, "append to a KVCache");
    const data = this.#operand();
    if (own.storage.isTraced) {
      throw new TraceError(
        "Cannot append to a KVCache in a compiled function: return the rows, and append the result " +
          "of the call",
      );
    }
    checkDevice(data.storage, own.storage, "append to a KVCache");
    const { shape } = own.layout, { info } = own.storage;
    const isOwn = info === data.storage.info;
    if (!isOwn && info.kind !== "f") {
      throw new DTypeError(
        `Cannot append ${info.name} to a KVCache of ${this.dtype}: it takes floats and ${this.dtype}`,
      );
    }
    const { layers, heads, dimensions } = this;
    const n = shape[3] ?? 0;
    const wanted = [layers, 2, heads, n, dimensions];
    if (shape.length !== 5 || wanted.some((size, i) => size !== shape[i])) {
      throw new ShapeError(
        `Cannot append ${formatShape(shape)} to a KVCache: it takes [${layers}, 2, ${heads}, n, ` +
          `${dimensions}]`,
      );
    }
    const added = count ?? n;
    if (!Number.isInteger(added) || added < 0 || added > n) {
      throw new ArgumentError(
        `Cannot append ${describe(count)} of ${n} tokens to a KVCache: it is an integer up to ${n}`,
      );
    }
    if (added === 0) return;
    this.reserve(this.#length + added);
    const taken = part(own, own.layout.sliceAxis(3, 0, added, 1));
    tidy(() => {
      const isPlain = isOwn || this.dtype !== "q8_0";
      this.#write(this.#length, isPlain ? taken : quantize(taken, "q8_0"), added);
    });
    this.#length += added;
  }

  /** Writes rows from `at` on. */
  #write(at: number, rows: Operand, count: number): void {
    const data = this.#operand();
    copyInto(part(data, data.layout.sliceAxis(3, at, count, 1)), rows);
  }

  /** Makes room for `capacity` tokens: at least twice the memory, if there is too little. */
  reserve(capacity: number): void {
    const old = this.#alive(), before = this.#operand();
    if (!Number.isInteger(capacity) || capacity < 0) {
      throw new ArgumentError(
        `Cannot reserve ${describe(capacity)} tokens: it is an integer of at least 0`,
      );
    }
    if (capacity <= this.#capacity) return;
    let grown = this.#capacity;
    while (grown < capacity) grown *= 2;
    const made = this.#allocate(grown);
    this.#data = made;
    this.#capacity = grown;
    if (this.#length > 0) {
      this.#write(0, part(before, before.layout.sliceAxis(3, 0, this.#length, 1)), this.#length);
    }
    old.dispose();
  }

  /**
   * Removes all tokens except the first `length`.
   *
   * @throws {ArgumentError} For a length above the present one.
   */
  truncate(length: number): void {
    this.#alive();
    if (!Number.isInteger(length) || length < 0 || length > this.#length) {
      throw new ArgumentError(
        `Cannot truncate a KVCache of ${this.#length} tokens to ${describe(length)}`,
      );
    }
    this.#length = length;
  }

  /** A copy of the cache, with which another sequence can continue. */
  copy(): KVCache<V> {
    const from = this.#operand();
    const { layers, heads, dimensions, dtype } = this;
    const made = new KVCache<V>({
      ...{ layers, heads, dimensions, dtype, capacity: this.#capacity },
      device: this.#device,
    });
    if (this.#length > 0) {
      made.#write(0, part(from, from.layout.sliceAxis(3, 0, this.#length, 1)), this.#length);
      made.#length = this.#length;
    }
    return made;
  }

  /** Frees the memory. Calls then throw a DisposedError. */
  dispose(): void {
    this.#data?.dispose();
    this.#data = undefined;
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}
