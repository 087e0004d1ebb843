/**
 * Pooling: the largest elements and the means of windows.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { lengthOf, listIn } from "../base/shape.ts";
import { dispatch } from "../core/dispatch.ts";
import { ownOperand } from "../core/foreign.ts";
import { checkOptions } from "../table/infer.ts";
import type { Op } from "../table/op.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import { badArgument, checkFlag, checkNumber, checkSpatial, type Like } from "./arguments.ts";
import { AVG_POOL, MAX_POOL, type PoolAttributes } from "../ops/conv/pool.ts";
import type { Sliding } from "../ops/conv/sliding.ts";
import { type Padding, paddingOf, type PerAxis, perAxis } from "./windows.ts";
import type { Operand } from "../memory/operand.ts";

/** Options of {@link maxPool2d} and of those of other ranks. */
export interface MaxPoolOptions {
  /** The distance between windows; that of the kernel's size by default. */
  readonly stride?: PerAxis;
  /** Elements beside the input, which no window takes; at each end less than a window spans. */
  readonly padding?: Padding;
  /** The distance between the elements of a window. */
  readonly dilation?: PerAxis;
  /** Whether a last window may reach beyond the padding; it begins inside the input. */
  readonly ceilMode?: boolean;
}

/** Options of {@link avgPool2d} and of those of other ranks. */
export interface AvgPoolOptions {
  /** The distance between windows; that of the kernel's size by default. */
  readonly stride?: PerAxis;
  /** Zeros beside the input; at each end fewer than a window has. */
  readonly padding?: Padding;
  /** Whether a last window may reach beyond the padding; it begins inside the input. */
  readonly ceilMode?: boolean;
  /** Whether means count the padding; true by default. */
  readonly countIncludePad?: boolean;
  /** What the sum of each window is divided by, in place of the number of its elements. */
  readonly divisorOverride?: number;
}

const COMMON = ["stride", "padding", "ceilMode"];
const MAX_OPTIONS = [...COMMON, "dilation"];
const AVG_OPTIONS = [...COMMON, "countIncludePad", "divisorOverride"];

/** Runs `op` on the windows that slide along the last `rank` axes of `x`. */
function slide<X extends AnyTensor>(
  op: Op,
  name: string,
  rank: number,
  given: X,
  kernelSize: PerAxis,
  options: MaxPoolOptions & AvgPoolOptions,
): Like<X>;
function slide(
  op: Op,
  name: string,
  rank: number,
  given: unknown,
  kernelSize: PerAxis,
  options: MaxPoolOptions & AvgPoolOptions,
): Operand {
  checkOptions(name, options, op === MAX_POOL ? MAX_OPTIONS : AVG_OPTIONS);
  const { padding = 0, dilation = 1, ceilMode = false, countIncludePad = true } = options;
  const x = ownOperand(given, name);
  checkSpatial(name, x, rank);
  const sizes = perAxis(kernelSize, rank, 1, "kernelSize", name);
  const strides = perAxis(options.stride ?? sizes, rank, 1, "stride", name);
  const dilations = perAxis(dilation, rank, 1, "dilation", name);
  const axes = x.layout.shape.slice(-rank);
  const ends = paddingOf(padding, axes, sizes, strides, dilations, name);
  const ceil = checkFlag(name, "ceilMode", ceilMode);
  const padded = checkFlag(name, "countIncludePad", countIncludePad);
  const windows = sizes.map((size, i): Sliding => {
    const apart = dilations[i]!;
    const [before, after] = ends[i]!;
    const most = (size - 1) * apart;
    if (before > most || after > most) {
      throw badArgument(name, "padding", padding, `less than a window spans, ${most + 1}`);
    }
    return { size, stride: strides[i]!, dilation: apart, before, after, ceil, padded };
  });
  const { divisorOverride: divisor } = options;
  if (divisor !== undefined && checkNumber(name, "divisorOverride", divisor) === 0) {
    throw badArgument(name, "divisorOverride", divisor, "not zero");
  }
  const attributes: PoolAttributes = divisor === undefined ? { windows } : { windows, divisor };
  return dispatch(op, [x], attributes, undefined, name);
}

/** Runs `op` on windows that divide the last axes of `x` into `size` parts. */
function adapt<X extends AnyTensor>(
  op: Op,
  name: string,
  rank: number,
  x: X,
  size: AdaptiveSize,
): Like<X>;
function adapt(op: Op, name: string, rank: number, x: unknown, size: AdaptiveSize): Operand {
  const input = ownOperand(x, name);
  checkSpatial(name, input, rank);
  const { shape } = input.layout;
  const first = shape.length - rank;
  const length = lengthOf(size);
  if (length !== undefined && length !== rank) {
    throw new ArgumentError(
      `Cannot ${name} with ${length} numbers as outputSize: it takes one or ${rank}`,
    );
  }
  const own = listIn(size, (one, i) => one === null ? shape[first + i] || 1 : one, length) ?? size;
  const windows = perAxis(own, rank, 1, "outputSize", name);
  return dispatch(op, [input], { windows } satisfies PoolAttributes, undefined, name);
}

/**
 * The largest element of each window of `kernelSize`: x: [N, C, L] gives [N, C, Lo], and [C,
 * L] gives [C, Lo]. The dtype stays; NaN is larger than all numbers.
 *
 * @throws {ShapeError} For another rank and for windows that exceed an axis.
 * @throws {ArgumentError} For sizes, strides and padding out of range.
 *
 * @example
 * ```ts
 * nn.maxPool1d(ones([1, 2, 6]), 3).shape; // => [1, 2, 2]
 * ```
 */
export function maxPool1d<X extends AnyTensor>(
  x: X,
  kernelSize: PerAxis,
  options: MaxPoolOptions = {},
): Like<X> {
  return slide(MAX_POOL, "maxPool1d", 1, x, kernelSize, options);
}

/**
 * The largest element of each window of `kernelSize`: x: [N, C, H, W] gives [N, C, Ho, Wo], and [C,
 * H, W] gives [C, Ho, Wo]. The dtype stays; NaN is larger than all numbers.
 *
 * @throws {ShapeError} For another rank and for windows that exceed an axis.
 * @throws {ArgumentError} For sizes, strides and padding out of range.
 *
 * @example
 * ```ts
 * nn.maxPool2d(ones([1, 3, 6, 6]), 3, { stride: 2, padding: 1 }).shape; // => [1, 3, 3, 3]
 * ```
 */
export function maxPool2d<X extends AnyTensor>(
  x: X,
  kernelSize: PerAxis,
  options: MaxPoolOptions = {},
): Like<X> {
  return slide(MAX_POOL, "maxPool2d", 2, x, kernelSize, options);
}

/**
 * The largest element of each window of `kernelSize`: x: [N, C, D, H, W] gives [N, C, Do, Ho, Wo], and [C,
 * D, H, W] gives [C, Do, Ho, Wo]. The dtype stays; NaN is larger than all numbers.
 *
 * @throws {ShapeError} For another rank and for windows that exceed an axis.
 * @throws {ArgumentError} For sizes, strides and padding out of range.
 *
 * @example
 * ```ts
 * nn.maxPool3d(ones([1, 2, 4, 4, 4]), 2).shape; // => [1, 2, 2, 2, 2]
 * ```
 */
export function maxPool3d<X extends AnyTensor>(
  x: X,
  kernelSize: PerAxis,
  options: MaxPoolOptions = {},
): Like<X> {
  return slide(MAX_POOL, "maxPool3d", 3, x, kernelSize, options);
}

/**
 * The mean of each window of `kernelSize`: x: [N, C, L] gives [N, C, Lo], and [C, L]
 * gives [C, Lo]. 16-bit floats are summed in float32.
 *
 * @throws {DTypeError} For a tensor that is not of floats, and errors as {@link maxPool1d}.
 *
 * @example
 * ```ts
 * nn.avgPool1d(ones([1, 2, 6]), 3).shape; // => [1, 2, 2]
 * ```
 */
export function avgPool1d<X extends AnyTensor>(
  x: X,
  kernelSize: PerAxis,
  options: AvgPoolOptions = {},
): Like<X> {
  return slide(AVG_POOL, "avgPool1d", 1, x, kernelSize, options);
}

/**
 * The mean of each window of `kernelSize`: x: [N, C, H, W] gives [N, C, Ho, Wo], and [C, H, W]
 * gives [C, Ho, Wo]. 16-bit floats are summed in float32.
 *
 * @throws {DTypeError} For a tensor that is not of floats, and errors as {@link maxPool2d}.
 *
 * @example
 * ```ts
 * nn.avgPool2d(ones([1, 3, 6, 6]), 3, { stride: 2, padding: 1 }).shape; // => [1, 3, 3, 3]
 * ```
 */
export function avgPool2d<X extends AnyTensor>(
  x: X,
  kernelSize: PerAxis,
  options: AvgPoolOptions = {},
): Like<X> {
  return slide(AVG_POOL, "avgPool2d", 2, x, kernelSize, options);
}

/**
 * The mean of each window of `kernelSize`: x: [N, C, D, H, W] gives [N, C, Do, Ho, Wo], and [C, D, H, W]
 * gives [C, Do, Ho, Wo]. 16-bit floats are summed in float32.
 *
 * @throws {DTypeError} For a tensor that is not of floats, and errors as {@link maxPool3d}.
 *
 * @example
 * ```ts
 * nn.avgPool3d(ones([1, 2, 4, 4, 4]), 2).shape; // => [1, 2, 2, 2, 2]
 * ```
 */
export function avgPool3d<X extends AnyTensor>(
  x: X,
  kernelSize: PerAxis,
  options: AvgPoolOptions = {},
): Like<X> {
  return slide(AVG_POOL, "avgPool3d", 3, x, kernelSize, options);
}

/** How many windows an adaptive pooling makes: for all axes, or for each; null keeps the axis. */
export type AdaptiveSize = number | readonly (number | null)[];

/**
 * The largest element of each of `outputSize` windows, which cover the last axis: window i of m goes from
 * ⌊i · n / m⌋ to ⌈(i + 1) · n / m⌉. x: [N, C, L] or [C, L].
 *
 * @throws As {@link maxPool1d}.
 *
 * @example
 * ```ts
 * nn.adaptiveMaxPool1d(ones([1, 2, 6]), 4).shape; // => [1, 2, 4]
 * ```
 */
export function adaptiveMaxPool1d<X extends AnyTensor>(x: X, outputSize: AdaptiveSize): Like<X> {
  return adapt(MAX_POOL, "adaptiveMaxPool1d", 1, x, outputSize);
}

/**
 * The mean of each of `outputSize` windows, which cover the last axis: window i of m goes from
 * ⌊i · n / m⌋ to ⌈(i + 1) · n / m⌉. x: [N, C, L] or [C, L]. 1 pools everything.
 *
 * @throws As {@link avgPool1d}.
 *
 * @example
 * ```ts
 * nn.adaptiveAvgPool1d(ones([1, 2, 6]), 4).shape; // => [1, 2, 4]
 * ```
 */
export function adaptiveAvgPool1d<X extends AnyTensor>(x: X, outputSize: AdaptiveSize): Like<X> {
  return adapt(AVG_POOL, "adaptiveAvgPool1d", 1, x, outputSize);
}

/**
 * The largest element of each of `outputSize` windows, which cover the last 2 axes: window i of m goes from
 * ⌊i · n / m⌋ to ⌈(i + 1) · n / m⌉. x: [N, C, H, W] or [C, H, W].
 *
 * @throws As {@link maxPool2d}.
 *
 * @example
 * ```ts
 * nn.adaptiveMaxPool2d(ones([1, 3, 6, 6]), 1).shape; // => [1, 3, 1, 1]
 * ```
 */
export function adaptiveMaxPool2d<X extends AnyTensor>(x: X, outputSize: AdaptiveSize): Like<X> {
  return adapt(MAX_POOL, "adaptiveMaxPool2d", 2, x, outputSize);
}

/**
 * The mean of each of `outputSize` windows, which cover the last 2 axes: window i of m goes from
 * ⌊i · n / m⌋ to ⌈(i + 1) · n / m⌉. x: [N, C, H, W] or [C, H, W]. 1 pools everything.
 *
 * @throws As {@link avgPool2d}.
 *
 * @example
 * ```ts
 * nn.adaptiveAvgPool2d(ones([1, 3, 6, 6]), 1).shape; // => [1, 3, 1, 1]
 * ```
 */
export function adaptiveAvgPool2d<X extends AnyTensor>(x: X, outputSize: AdaptiveSize): Like<X> {
  return adapt(AVG_POOL, "adaptiveAvgPool2d", 2, x, outputSize);
}

/**
 * The largest element of each of `outputSize` windows, which cover the last 3 axes: window i of m goes from
 * ⌊i · n / m⌋ to ⌈(i + 1) · n / m⌉. x: [N, C, D, H, W] or [C, D, H, W].
 *
 * @throws As {@link maxPool3d}.
 *
 * @example
 * ```ts
 * nn.adaptiveMaxPool3d(ones([1, 2, 4, 4, 4]), [2, null, 1]).shape; // => [1, 2, 2, 4, 1]
 * ```
 */
export function adaptiveMaxPool3d<X extends AnyTensor>(x: X, outputSize: AdaptiveSize): Like<X> {
  return adapt(MAX_POOL, "adaptiveMaxPool3d", 3, x, outputSize);
}

/**
 * The mean of each of `outputSize` windows, which cover the last 3 axes: window i of m goes from
 * ⌊i · n / m⌋ to ⌈(i + 1) · n / m⌉. x: [N, C, D, H, W] or [C, D, H, W]. 1 pools everything.
 *
 * @throws As {@link avgPool3d}.
 *
 * @example
 * ```ts
 * nn.adaptiveAvgPool3d(ones([1, 2, 4, 4, 4]), [2, null, 1]).shape; // => [1, 2, 2, 4, 1]
 * ```
 */
export function adaptiveAvgPool3d<X extends AnyTensor>(x: X, outputSize: AdaptiveSize): Like<X> {
  return adapt(AVG_POOL, "adaptiveAvgPool3d", 3, x, outputSize);
}
