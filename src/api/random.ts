/**
 * Random tensors with explicit keys: the same key gives the same numbers, on every device.
 *
 * The generator is Philox4x32-10 (Salmon et al., SC 2011); element i depends on the key and i only.
 * There is no hidden state: split a key to get independent ones.
 *
 * @module
 */
import { checkDType, DTYPE, type DType } from "../base/dtype.ts";
import { currentOf, Placeholder } from "../base/placeholder.ts";
import { describe } from "../base/text.ts";
import { ArgumentError, DTypeError, ShapeError } from "../base/errors.ts";
import { foldIn as fold, splitKey } from "../backend/js/philox.ts";
import { checkOptions } from "../table/infer.ts";
import { checkShape, type Shape } from "../base/shape.ts";
import "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import {
  checkFinite,
  generate,
  type Key,
  type PlaceOptions,
  type RandomOptions,
  words,
} from "./random/create.ts";
import { PlaceholderKey, type Words } from "./random/placeholder_key.ts";
import type { Operand } from "../memory/operand.ts";

export type { Key, PlaceOptions, RandomOptions } from "./random/create.ts";
export {
  beta,
  binomial,
  type DeviateOptions,
  exponential,
  gamma,
  gumbel,
  laplace,
  type LocatedOptions,
  type Parameter,
  poisson,
  type ScaledOptions,
  truncatedNormal,
  type TruncatedOptions,
} from "./random/distributions.ts";
export { categorical, choice, multivariateNormal, shuffle } from "./random/choices.ts";
export type {
  CategoricalOptions,
  ChoiceOptions,
  MultivariateOptions,
  ShuffleOptions,
} from "./random/choices.ts";

/**
 * A key from a seed: an integer of up to 64 bits, from -2^63 to 2^64 - 1. A negative seed gives the
 * same key as its two's complement: -1 is 2^64 - 1.
 *
 * @throws {ArgumentError} For a value that is not a key.
 *
 * @example
 * ```ts
 * const key = random.key(42);
 * random.uniform(key, [2]).equal(random.uniform(key, [2])).toArray(); // => [true, true]
 * ```
 */
export function key(seed: number | bigint): Key {
  const bits = BigInt.asUintN(64, seedOf(seed, "make a key of"));
  return { word0: Number(bits & 0xffffffffn), word1: Number(bits >> 32n) };
}

const [LOWEST_SEED, HIGHEST_SEED] = [-(2n ** 63n), 2n ** 64n - 1n];

/**
 * Throws an ArgumentError for a value that is not an integer, or has more bits than a key stores.
 */
function seedOf(given: unknown, op: string): bigint {
  if (typeof given !== "bigint" && !Number.isSafeInteger(given)) {
    throw new ArgumentError(
      `Cannot ${op} ${describe(given)}: ` +
        (Number.isInteger(given)
          ? "beyond 2^53 - 1 a number is not exact; give a bigint"
          : "it is not an integer"),
    );
  }
  const seed = BigInt(given as number | bigint);
  if (seed < LOWEST_SEED || seed > HIGHEST_SEED) {
    throw new ArgumentError(`Cannot ${op} ${describe(given)}: it has more than 64 bits`);
  }
  return seed;
}

function fromWords([word0, word1]: Words): Key {
  return { word0, word1 };
}

/** The key that `derive` makes of the words of another, at once or when a program runs. */
function derived(from: Words | PlaceholderKey, derive: (words: Words) => Words): Key {
  if (!(from instanceof PlaceholderKey)) return fromWords(derive(from));
  return new PlaceholderKey(from.name, () => derive(from.current()));
}

/** More keys than this are an error, rather than a program that runs out of memory. */
const MAX_KEYS = 2 ** 22;

/**
 * `count` (2) independent keys from one, which should not be used any more.
 *
 * @throws {ShapeError} For an invalid count.
 * @throws {ArgumentError} For a count above 2^22.
 *
 * @example
 * ```ts
 * const [forWeights, forDropout] = random.split(random.key(0));
 * ```
 */
export function split<const N extends number = 2>(of: Key, count: N = 2 as N): t.TupleOf<N, Key> {
  checkShape([count], "split a key");
  if (count > MAX_KEYS) {
    throw new ArgumentError(`Cannot split a key into ${count}: at most ${MAX_KEYS} at a time`);
  }
  const from = words(of, "split");
  const keys = from instanceof PlaceholderKey
    ? Array.from({ length: count }, (_, i) => derived(from, (own) => splitKey(own, count)[i]!))
    : splitKey(from, count).map(fromWords);
  return keys as t.TupleOf<N, Key>;
}

/**
 * A key from another and a number: one for each step of a loop, for example.
 *
 * @throws {ArgumentError} For a number that {@link key} would reject.
 */
export function foldIn(of: Key, data: number | bigint): Key {
  const from = words(of, "foldIn");
  const given: unknown = data;
  if (given instanceof Placeholder) {
    const derive = (): Words => fold(currentOf<Words>(from), seedOf(given.current(), "foldIn"));
    return new PlaceholderKey(given.name, derive);
  }
  const seed = seedOf(data, "foldIn");
  return derived(from, (own) => fold(own, seed));
}

/** Random bits, as uint32. */
export function bits<const N extends Shape, V extends t.Device = "cpu">(
  key: Key,
  shape: t.Guard<t.NewShape<"bits", N>, N>,
  options?: PlaceOptions<V>,
): Tensor<"uint32", t.Ok<t.NewShape<"bits", N>>, t.OnDevice<NoInfer<V>>>;
/** The implementation. @ignore */
export function bits(key: Key, shape: Shape, options: PlaceOptions<t.Device> = {}): Operand {
  checkOptions("bits", options, ["device"]);
  return generate("bits", key, "u", {
    shape,
    dtype: "uint32",
    device: options.device,
    distribution: "bits",
  });
}

/**
 * Uniform floats from `low` (0) up to but not including `high` (1); float32 by default.
 *
 * @throws {ArgumentError} For bounds that are not finite or not in order.
 * @throws {DTypeError} If the bounds or their difference are not finite in the dtype.
 */
export function uniform<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"uniform", N>, N>,
  options?: RandomOptions<E, V> & { readonly low?: number; readonly high?: number },
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"uniform", N>>, t.OnDevice<NoInfer<V>>>;
/** The implementation. @ignore */
export function uniform(
  key: Key,
  shape: Shape,
  options: RandomOptions<DType, t.Device> & { readonly low?: number; readonly high?: number } = {},
): Operand {
  checkOptions("uniform", options, ["dtype", "device", "low", "high"]);
  const { low = 0, high = 1, dtype = "float32", device } = options;
  if (!Number.isFinite(low) || !Number.isFinite(high) || low > high) {
    throw new ArgumentError(
      `Cannot make uniform numbers from ${describe(low)} to ${describe(high)}`,
    );
  }
  checkFinite("uniform", dtype, low, high, high - low);
  const distribution = "uniform";
  return generate("uniform", key, "f", { shape, dtype, device, distribution, low, high });
}

/**
 * Normally distributed floats with the given mean (0) and standard deviation (1); float32 by
 * default.
 *
 * @throws {ArgumentError} For a mean or deviation that is not finite or below 0.
 * @throws {DTypeError} For a mean or deviation that is not finite in the dtype.
 */
export function normal<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"normal", N>, N>,
  options?: RandomOptions<E, V> & { readonly mean?: number; readonly std?: number },
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"normal", N>>, t.OnDevice<NoInfer<V>>>;
/** The implementation. @ignore */
export function normal(
  key: Key,
  shape: Shape,
  options: RandomOptions<DType, t.Device> & { readonly mean?: number; readonly std?: number } = {},
): Operand {
  checkOptions("normal", options, ["dtype", "device", "mean", "std"]);
  const { mean = 0, std = 1, dtype = "float32", device } = options;
  if (!Number.isFinite(mean) || !Number.isFinite(std) || std < 0) {
    throw new ArgumentError(
      `Cannot make normal numbers of mean ${describe(mean)}, std ${describe(std)}`,
    );
  }
  checkFinite("normal", dtype, mean, std);
  const distribution = "normal";
  return generate("normal", key, "f", { shape, dtype, device, distribution, mean, std });
}

/**
 * Integers from `low` up to but not including `high`, uniform to within 2^-16; int32 by default.
 *
 * @throws {ArgumentError} For an empty range.
 * @throws {DTypeError} For a range that the dtype cannot represent.
 */
export function integers<
  const N extends Shape,
  E extends DType = "int32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"integers", N>, N>,
  low: number | bigint,
  high: number | bigint,
  options?: RandomOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"integers", N>>, t.OnDevice<NoInfer<V>>>;
/** The implementation. @ignore */
export function integers(
  key: Key,
  shape: Shape,
  low: number | bigint,
  high: number | bigint,
  options: RandomOptions<DType, t.Device> = {},
): Operand {
  checkOptions("integers", options, ["dtype", "device"]);
  const dtype: DType = options.dtype ?? "int32";
  checkDType(dtype, "integers");
  for (const bound of [low, high]) {
    if (typeof bound !== "bigint" && !Number.isSafeInteger(bound)) {
      throw new ArgumentError(`Cannot make integers from ${describe(low)} to ${describe(high)}`);
    }
  }
  const [from, to] = [BigInt(low), BigInt(high)];
  if (from >= to) {
    throw new ArgumentError(
      `Cannot make integers from ${describe(low)} to ${describe(high)}: none fits`,
    );
  }
  const { min, max, kind } = DTYPE[dtype];
  if (kind !== "f" && (from < BigInt(min) || to - 1n > BigInt(max))) {
    throw new DTypeError(
      `Cannot make integers from ${describe(low)} to ${describe(high)} of ${dtype}`,
    );
  }
  return generate("integers", key, "iu", {
    shape,
    dtype,
    device: options.device,
    distribution: "integers",
    low: from,
    high: to,
  });
}

/** The integers from 0 to `n` - 1 in random order, as int32. */
export function permutation<V extends t.Device = "cpu">(
  key: Key,
  n: number,
  options?: PlaceOptions<V>,
): Tensor<"int32", [number], t.OnDevice<NoInfer<V>>>;
/** The implementation. @ignore */
export function permutation(key: Key, n: number, options: PlaceOptions<t.Device> = {}): Operand {
  checkOptions("permutation", options, ["device"]);
  if (typeof n !== "number") {
    throw new ArgumentError(
      `Cannot permute ${describe(n)}: it takes how many elements there are; ` +
        "x.take(permutation(key, n)) has those of x in random order",
    );
  }
  checkShape([n], "permutation");
  if (n > 2 ** 31) throw new ShapeError(`Cannot permute ${n} elements: an index is an int32`);
  const { device } = options;
  const distribution = "permutation";
  return generate("permutation", key, "i", { shape: [n], dtype: "int32", device, distribution });
}
