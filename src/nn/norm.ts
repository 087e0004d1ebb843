/**
 * Norms over batches, groups and channels, and dropout, for inference and for training.
 *
 * @module
 */
import { ShapeError } from "../base/errors.ts";
import { formatShape } from "../base/shape.ts";
import { apply, applyInto, applyView } from "../core/apply.ts";
import { cast } from "../core/copy.ts";
import { dispatch } from "../core/dispatch.ts";
import { tidy } from "../core/handles.ts";
import { generate, type Key } from "../api/random/create.ts";
import { reduce } from "../ops/reduce/op.ts";
import { rowDType } from "../ops/softmax_norm/problem.ts";
import type { Operand } from "../memory/operand.ts";
import { checkOptions } from "../table/infer.ts";
import { MAP, REDUCE } from "../table/table.ts";
import { VIEWS } from "../table/views.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import {
  badArgument,
  channelsOf,
  checkFlag,
  checkNumber,
  checkVector,
  floats,
  floatsBeside,
  widened,
} from "./arguments.ts";
import {
  affine,
  type ChannelNormOptions,
  foldStatistics,
  normalizeGroups,
} from "./channel_norm.ts";
import { expression } from "../ops/chain/expression.ts";
import { AVG_POOL } from "../ops/conv/pool.ts";
import { checkCount } from "./windows.ts";

/** The type of a norm of `X`. */
export type Normed<X extends AnyTensor> = Tensor<X["dtype"], t.ShapeOf<X>, X["device"]>;

/** Options of norms with a weight and a bias for each channel. */
export interface AffineNormOptions extends ChannelNormOptions {
  /** The factor of each channel: [C]. */
  readonly weight?: AnyTensor;
  /** Added to each channel: [C]. */
  readonly bias?: AnyTensor;
}

/** Options of a norm by the statistics of the batch itself. */
export interface TrainingNormOptions extends AffineNormOptions {
  /** Whether the batch's own statistics count. */
  readonly training: true;
  /** How much of the batch's statistics the new running ones have; 0.1 by default. */
  readonly momentum?: number;
}

/** The norm of a batch by its own statistics. */
export interface TrainingNorm<X extends AnyTensor> {
  /** The norm. */
  readonly value: Normed<X>;
  /** The new running mean: [C], of float32 for floats of 16 bits. */
  readonly mean: AnyTensor;
  /** The new running variance: [C]. */
  readonly variance: AnyTensor;
}

const OPTIONS = ["weight", "bias", "epsilon"];

const RESPONSE = expression("localResponse", "x / pow(k + alpha * y, beta)", [
  "alpha",
  "beta",
  "k",
]);

/** A vector with an element for each channel of `x`, in the dtype of the arithmetic. */
function perChannel(name: string, what: string, x: Operand, given: unknown): Operand | undefined {
  if (given === undefined) return undefined;
  const own = floatsBeside(x, given, name);
  checkVector(name, what, own, channelsOf(name, x));
  return cast(own, rowDType(x.storage.info).name);
}

/**
 * (x − `mean`) / √(`variance` + `epsilon`) · `weight` + `bias` with a mean and a variance for each
 * channel of x: [N, C, ...], which training has collected. It is one factor and one summand for each
 * channel. 16-bit floats are computed in float32.
 *
 * @throws {DTypeError} For tensors that are not of floats.
 * @throws {AxisError} For a vector.
 * @throws {ShapeError} For a mean, variance, weight or bias of another shape than [C].
 *
 * @example
 * ```ts
 * const x = tensor([[1, 2], [3, 4]]); // two channels
 * nn.batchNorm(x, tensor([1, 2]), tensor([4, 1]), { epsilon: 0 }).toArray(); // => [[0, 0], [1, 2]]
 * ```
 */
export function batchNorm<X extends AnyTensor>(
  x: X,
  mean: AnyTensor,
  variance: AnyTensor,
  options?: AffineNormOptions,
): Normed<X>;
/**
 * {@link batchNorm} by the mean and the variance of the batch itself. It returns new running statistics
 * too, as PyTorch computes them: (1 − `momentum`) · running + `momentum` · batch, with the variance of
 * the batch over n − 1. It changes nothing.
 *
 * @throws {ShapeError} For one element for each channel, which has no variance.
 *
 * @example
 * ```ts
 * const x = tensor([[1, 2], [3, 6]]);
 * const training = { training: true, momentum: 0.5 } as const;
 * const { value, mean, variance } = nn.batchNorm(x, zeros([2]), ones([2]), training);
 * value.round().toArray(); // => [[-1, -1], [1, 1]]
 * [mean.toArray(), variance.toArray()]; // => [[1, 2], [1.5, 4.5]]
 * ```
 */
export function batchNorm<X extends AnyTensor>(
  x: X,
  mean: AnyTensor,
  variance: AnyTensor,
  options: TrainingNormOptions,
): TrainingNorm<X>;
export function batchNorm(
  x: AnyTensor,
  mean: AnyTensor,
  variance: AnyTensor,
  options: AffineNormOptions & { readonly training?: boolean; readonly momentum?: number } = {},
): Operand | TrainingNorm<AnyTensor> {
  const name = "batchNorm";
  const { training = false } = options;
  checkOptions(name, options, [
    ...OPTIONS,
    ...checkFlag(name, "training", training) ? ["training", "momentum"] : ["training"],
  ]);
  const made = tidy(() => {
    const own = floats(x, name);
    const epsilon = checkNumber(name, "epsilon", options.epsilon ?? 1e-5, 0);
    channelsOf(name, own);
    const center = perChannel(name, "mean", own, floats(mean, name))!;
    const square = perChannel(name, "variance", own, floats(variance, name))!;
    const weight = perChannel(name, "weight", own, options.weight);
    const bias = perChannel(name, "bias", own, options.bias);
    if (training) {
      const momentum = checkNumber(name, "momentum", options.momentum ?? 0.1, 0);
      if (momentum > 1) throw badArgument(name, "momentum", momentum, "at most 1");
      return normalizeBatch(own, [center, square], [weight, bias], epsilon, momentum);
    }
    const [scale, shift] = foldStatistics(weight, bias, center, square, epsilon);
    return [cast(affine(widened(own), scale, shift), own.storage.info.name)];
  }) as AnyTensor[];
  const [value, newMean, newVariance] = made;
  return training ? { value: value!, mean: newMean!, variance: newVariance! } : value! as Operand;
}

/** The norm by the batch's own statistics, and the new running ones. */
function normalizeBatch(
  x: Operand,
  [center, square]: readonly [Operand, Operand],
  [weight, bias]: readonly [Operand | undefined, Operand | undefined],
  epsilon: number,
  momentum: number,
): Operand[] {
  const { shape, size } = x.layout;
  const count = shape[1] === 0 ? 0 : size / shape[1]!;
  if (count === 1) {
    throw new ShapeError(
      `Cannot batchNorm shape ${formatShape(shape)} in training: one element for each channel ` +
        "has no variance",
    );
  }
  const wide = widened(x);
  const axes = shape.map((_, axis) => axis).filter((axis) => axis !== 1);
  const along = (vector: Operand): Operand =>
    applyView(VIEWS.reshape, vector, "reshape", [shape[1]!, ...shape.slice(2).fill(1)]);
  const mean = reduce(REDUCE.mean, wide, axes);
  const centered = apply(MAP.sub, wide, along(mean));
  const variance = reduce(REDUCE.mean, apply(MAP.square, centered), axes);
  const inverse = apply(MAP.rsqrt, apply(MAP.add, variance, epsilon));
  const scale = weight === undefined ? inverse : apply(MAP.mul, inverse, weight);
  const running = (before: Operand, now: Operand, factor: number): Operand =>
    apply(MAP.add, apply(MAP.mul, before, 1 - momentum), apply(MAP.mul, now, factor));
  return [
    cast(affine(centered, scale, bias), x.storage.info.name),
    running(center, mean, momentum),
    running(square, variance, momentum * count / (count - 1)),
  ];
}

function overGroups<X extends AnyTensor>(
  name: string,
  x: X,
  groups: number | null,
  options: AffineNormOptions,
): Normed<X>;
function overGroups(
  name: string,
  x: unknown,
  groups: number | null,
  options: AffineNormOptions,
): Operand {
  checkOptions(name, options, OPTIONS);
  return tidy(() => {
    const own = floats(x, name);
    const { shape } = own.layout;
    const channels = channelsOf(name, own);
    const parts = groups ?? channels;
    if (parts > 0 && channels % parts !== 0) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(shape)}: ${channels} channels are no multiple of ` +
          `${parts} groups`,
      );
    }
    if (groups === null && shape.length < 3) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(shape)}: it takes [N, C, ...], and a channel of one ` +
          "element has no variance",
      );
    }
    const epsilon = checkNumber(name, "epsilon", options.epsilon ?? 1e-5, 0);
    const weight = perChannel(name, "weight", own, options.weight);
    const bias = perChannel(name, "bias", own, options.bias);
    const whole = normalizeGroups(widened(own), parts, epsilon);
    return cast(affine(whole, weight, bias), own.storage.info.name);
  });
}

/**
 * x: [N, C, ...] with the mean 0 and the variance 1 over each of `groups` groups of consecutive
 * channels and all positions, times `weight`, plus `bias`. 16-bit floats are computed in float32.
 *
 * @throws {DTypeError} For tensors that are not of floats.
 * @throws {AxisError} For a vector.
 * @throws {ShapeError} If the groups do not divide the channels, or weight or bias has another
 *   shape than [C].
 *
 * @example
 * ```ts
 * nn.groupNorm(tensor([[1, 3, 5, 5]]), 2).round().toArray(); // => [[-1, 1, 0, 0]]
 * ```
 */
export function groupNorm<X extends AnyTensor>(
  x: X,
  groups: number,
  options: AffineNormOptions = {},
): Normed<X> {
  return overGroups("groupNorm", x, checkCount(groups, 1, "groups", "groupNorm"), options);
}

/**
 * x: [N, C, ...] with the mean 0 and the variance 1 over the positions of each channel, times
 * `weight`, plus `bias`. 16-bit floats are computed in float32.
 *
 * @throws As {@link groupNorm}.
 * @throws {ShapeError} For x: [N, C].
 *
 * @example
 * ```ts
 * nn.instanceNorm(tensor([[[1, 3], [2, 8]]])).round().toArray(); // => [[[-1, 1], [-1, 1]]]
 * ```
 */
export function instanceNorm<X extends AnyTensor>(
  x: X,
  options: AffineNormOptions = {},
): Normed<X> {
  return overGroups("instanceNorm", x, null, options);
}

/** Options of {@link localResponseNorm}. */
export interface LocalResponseNormOptions {
  /** The factor of the mean of squares; 1e-4 by default. */
  readonly alpha?: number;
  /** The exponent; 0.75 by default. */
  readonly beta?: number;
  /** Added to the mean of squares; 1 by default. */
  readonly k?: number;
}

/**
 * x / (`k` + `alpha` · m)^`beta` with the mean m of the squares of `size` neighboring channels of
 * x: [N, C, ...], where absent ones count as 0. 16-bit floats are computed in float32.
 *
 * @throws {DTypeError} For a tensor that is not of floats.
 * @throws {AxisError} For a vector.
 * @throws {ArgumentError} For a size below 1.
 *
 * @example
 * ```ts
 * nn.localResponseNorm(tensor([[3, 4]]), 2, { alpha: 2, beta: 1, k: 0 }).toArray();
 * // => [[0.3333333432674408, 0.1599999964237213]]
 * ```
 */
export function localResponseNorm<X extends AnyTensor>(
  x: X,
  size: number,
  options?: LocalResponseNormOptions,
): Normed<X>;
export function localResponseNorm(
  x: AnyTensor,
  size: number,
  options: LocalResponseNormOptions = {},
): Operand {
  const name = "localResponseNorm";
  checkOptions(name, options, ["alpha", "beta", "k"]);
  return tidy(() => {
    const own = floats(x, name);
    channelsOf(name, own);
    const count = checkCount(size, 1, "size", name);
    const alpha = checkNumber(name, "alpha", options.alpha ?? 1e-4);
    const beta = checkNumber(name, "beta", options.beta ?? 0.75);
    const k = checkNumber(name, "k", options.k ?? 1);
    const wide = widened(own);
    const squares = applyView(VIEWS.moveAxis, apply(MAP.square, wide), "moveAxis", 1, -1);
    const window = {
      ...{ size: count, stride: 1, dilation: 1, ceil: false, padded: true },
      ...{ before: Math.floor(count / 2), after: Math.floor((count - 1) / 2) },
    };
    const empty = own.layout.size === 0;
    const attributes = { windows: [window], divisor: count };
    const means = empty ? squares : dispatch(AVG_POOL, [squares], attributes, undefined, name);
    const back = applyView(VIEWS.moveAxis, means, "moveAxis", -1, 1);
    const made = applyInto(RESPONSE, name, wide, back, undefined, undefined, { alpha, beta, k });
    return cast(made, own.storage.info.name);
  });
}

/** Options of {@link dropout}. */
export interface DropoutOptions {
  /** The part of the elements that become 0; 0.5 by default. */
  readonly p?: number;
  /** The key of the elements that become 0; without one, none does. */
  readonly key?: Key | undefined;
}

/**
 * `x` with a random part `p` of its elements set to 0, and the others divided by 1 − `p`. The same key
 * gives the same elements. Without a key, as for inference, it is `x` itself.
 *
 * @throws {ArgumentError} For a `p` that is not between 0 and 1, and for a value that is no key.
 *
 * @example
 * ```ts
 * nn.dropout(tensor([1, 2])).toArray(); // => [1, 2]
 * const key = random.key(1);
 * nn.dropout(ones([8]), { p: 0.5, key }).toArray(); // => [2, 2, 2, 2, 2, 2, 0, 2]
 * ```
 */
export function dropout<X extends AnyTensor>(x: X, options?: DropoutOptions): X;
export function dropout(x: AnyTensor, options: DropoutOptions = {}): Operand {
  const name = "dropout";
  checkOptions(name, options, ["p", "key"]);
  const { p = 0.5, key } = options;
  if (checkNumber(name, "p", p, 0) > 1) throw badArgument(name, "p", p, "at most 1");
  const own = floats(x, name);
  if (key === undefined) return own;
  return tidy(() => {
    const { layout: { shape }, storage: { device } } = own;
    const place = { shape, dtype: "float32", device: device as t.Device } as const;
    const draw = generate(name, key, "f", { ...place, distribution: "uniform", low: 0, high: 1 });
    const isKept = apply(MAP.greaterEqual, draw, p);
    const scaled = apply(MAP.mul, own, p === 1 ? 0 : 1 / (1 - p));
    return applyInto(MAP.where, name, isKept, scaled, 0, undefined);
  });
}
