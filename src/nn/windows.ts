/**
 * Options of functions on windows: convolutions and pools.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { lengthOf, listIn } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { applyView } from "../core/apply.ts";
import type { ConvAttributes } from "../ops/conv/problem.ts";
import { ownOperand } from "../core/foreign.ts";
import type { Operand } from "../memory/operand.ts";
import { VIEWS } from "../table/views.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";

/** A number for each axis of space, or one for all. */
export type PerAxis = number | readonly number[];

/**
 * Zeros around x: a number for each axis of space, or one for all; pairs of those before and after;
 * `"valid"` for none; `"same"` for as many as give ⌈size / stride⌉ elements, the odd one at the end.
 */
export type Padding =
  | PerAxis
  | readonly (number | readonly [before: number, after: number])[]
  | "same"
  | "valid";

/** Options of convolutions. */
export interface ConvOptions {
  /** The distance between windows; 1 by default. */
  readonly stride?: PerAxis;
  /** The zeros around x; none by default. */
  readonly padding?: Padding;
  /** The distance between the elements of a window; 1 by default. */
  readonly dilation?: PerAxis;
  /** The number of groups of channels that do not meet; 1 by default. */
  readonly groups?: number;
  /**
   * True for Winograd's F(4 × 4, 3 × 3), which takes a quarter of the products: only for `conv2d` of
   * kernels of 3 × 3 with stride, dilation and groups 1. It pays for planes of at least 14 × 14. Errors
   * of float32 are about four times as large: less than 2e-5 for results of about 1. An infinite or
   * NaN element makes all results of its tiles of 4 × 4 NaN. Layers keep a transformed weight of
   * four times the size; functions transform the weight in each call, programs once.
   */
  readonly winograd?: boolean | undefined;
}

/** The names of the options of windows. */
export const WINDOW_OPTIONS = ["stride", "padding", "dilation", "groups"] as const;
/** The names of {@link ConvOptions}. */
export const CONV_OPTIONS = [...WINDOW_OPTIONS, "winograd"] as const;

/** The result of a convolution of `X` with so many axes. */
export type Convolved<X extends AnyTensor, S extends readonly number[]> = Tensor<
  X["dtype"],
  X["shape"]["length"] extends S["length"] ? S : number[],
  X["device"]
>;

/** Checks an integer; `what` is for messages. */
export function checkCount(value: unknown, least: number, what: string, name: string): number {
  if (Number.isSafeInteger(value) && (value as number) >= least) return value as number;
  throw new ArgumentError(
    `Cannot ${name} with ${what} ${describe(value)}: it takes integers from ${least} on`,
  );
}

/** A number for each of `count` axes. */
export function perAxis(
  given: unknown,
  count: number,
  least: number,
  what: string,
  name: string,
): number[] {
  const length = lengthOf(given);
  if (length === undefined) {
    return new Array<number>(count).fill(checkCount(given, least, what, name));
  }
  if (length !== count) {
    throw new ArgumentError(
      `Cannot ${name} with ${length} numbers as ${what}: it takes one or ${count}`,
    );
  }
  return listIn(given, (value) => checkCount(value, least, what, name), count)!;
}

/** The zeros before and after an axis. */
export type Pair = readonly [before: number, after: number];

/** The zeros that give ⌈size / stride⌉ elements. */
function samePadding(size: number, kernel: number, stride: number, dilation: number): Pair {
  const window = (kernel - 1) * dilation + 1;
  const all = Math.max(0, (Math.ceil(size / stride) - 1) * stride + window - size);
  return [all >> 1, all - (all >> 1)];
}

/** Padding in numbers, for each of `count` axes. */
export function pairsOf(given: unknown, count: number, name: string): Pair[] {
  const length = lengthOf(given);
  if (length === undefined) {
    return perAxis(given, count, 0, "padding", name).map((n) => [n, n]);
  }
  if (length !== count) {
    throw new ArgumentError(
      `Cannot ${name} with padding for ${length} axes: it takes one number, or one or a pair for ` +
        `each of ${count} axes`,
    );
  }
  return listIn(given, (one): Pair => {
    const [before, after] = perAxis(one, 2, 0, "padding", name);
    return [before!, after!];
  }, count)!;
}

/** Padding of any form in numbers, for windows of the sizes `kernel` on axes of `sizes`. */
export function paddingOf(
  padding: unknown,
  sizes: readonly number[],
  kernel: readonly number[],
  stride: readonly number[],
  dilation: readonly number[],
  name: string,
): Pair[] {
  if (padding === "valid") return stride.map((): Pair => [0, 0]);
  if (padding === "same") {
    return stride.map((step, i) => samePadding(sizes[i] ?? 0, kernel[i] ?? 1, step, dilation[i]!));
  }
  if (typeof padding !== "string") return pairsOf(padding, stride.length, name);
  throw new ArgumentError(
    `Cannot ${name} with padding ${describe(padding)}: it is "same", "valid" or numbers`,
  );
}

/** The attributes of a convolution of `rank` axes of space. */
export function attributesOf(
  x: Operand,
  weight: Operand,
  rank: number,
  { stride = 1, padding = 0, dilation = 1, groups = 1 }: ConvOptions,
  name: string,
): ConvAttributes {
  const steps = perAxis(stride, rank, 1, "stride", name);
  const dilations = perAxis(dilation, rank, 1, "dilation", name);
  const [sizes, kernel] = [x, weight].map(({ layout: { shape } }) => shape.slice(-rank)) as [
    number[],
    number[],
  ];
  const padded = paddingOf(padding, sizes, kernel, steps, dilations, name);
  checkCount(groups, 1, "groups", name);
  return { stride: steps, padding: padded, dilation: dilations, groups };
}

/** An operand, and a view of it with an axis for images if it has none. */
export function withImages(
  given: unknown,
  rank: number,
  name: string,
): [x: Operand, single: boolean] {
  const x = ownOperand(given, name);
  const single = x.layout.shape.length === rank + 1;
  return [single ? applyView(VIEWS.expandDims, x, "expandDims", 0) : x, single];
}
