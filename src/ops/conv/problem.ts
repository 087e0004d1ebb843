/**
 * Convolutions in the form that backends run: three axes of space, of which the first ones may have
 * one element.
 *
 * @module
 */
import type { Operand } from "../../memory/operand.ts";
import type { Call, Input } from "../../table/op.ts";
import { isOperand } from "../../memory/operand.ts";
import type { ByteOutputAttributes } from "../linear/bytes.ts";
import type { Activation } from "../linear/panels.ts";

/**
 * The functions that convolutions alone apply to their sums: limits, x · min(max(x + 3, 0), 6) / 6, a factor
 * of negative ones, a line between 0 and 1, exp(x) − 1 times a factor for negative ones, and
 * x · tanh(log(1 + exp(x))).
 */
export type Bend = "clip" | "hardSwish" | "leakyRelu" | "hardSigmoid" | "elu" | "mish";

/** Attributes of `conv`; inputs: x, weight, bias, residual. Lists have an entry for each axis of space. */
export interface ConvAttributes {
  /** The distance between windows. */
  readonly stride: readonly number[];
  /** The zeros before and after each axis. */
  readonly padding: readonly (readonly [before: number, after: number])[];
  /** The distance between the elements of a window. */
  readonly dilation: readonly number[];
  /** The number of groups of channels. */
  readonly groups: number;
  /** Applied to sums with their bias and the residual. */
  readonly activation?: Activation | Bend | undefined;
  /**
   * The numbers of the activation: the limits of `clip`, the factor and the shift of `hardSigmoid`, the
   * factor of `leakyRelu` and `elu`.
   */
  readonly numbers?: readonly [number, number] | undefined;
  /** Whether the residual is added after the activation. */
  readonly addsLast?: boolean | undefined;
}

/** Attributes of `convWeightGrad`; inputs: x, the derivative by the results. */
export interface ConvWeightAttributes extends ConvAttributes {
  /** The shape of the weight: [O, C / groups, …]. */
  readonly weight: readonly number[];
}

/** Attributes of `convBytes`; inputs: x, packed weight, zero point of x, bias, factors. */
export interface ConvBytesAttributes extends ConvWeightAttributes, ByteOutputAttributes {}

/** The bytes of a word, whose products are added at once. */
export const WORD = 4;

/** The words of n bytes. */
export const wordsOf = (n: number): number => Math.ceil(n / WORD);

/**
 * Whether the words of a packed weight [O, C / groups, …] are of taps along the last axis, not of
 * channels: whichever are fewer.
 */
export function hasWordsOfTaps(weight: readonly number[]): boolean {
  const channels = weight[1]!, taps = weight.at(-1)!;
  return channels * wordsOf(taps) < wordsOf(channels) * taps;
}

/** An axis of space. */
export interface ConvAxis {
  /** The size of x. */
  readonly size: number;
  /** The size of the kernel. */
  readonly kernel: number;
  /** The size of the result. */
  readonly out: number;
  readonly stride: number;
  /** The zeros before the first element. */
  readonly padding: number;
  readonly dilation: number;
}

/** The sizes of a call of `conv`. */
export interface ConvSizes {
  /** The number of images. */
  readonly images: number;
  readonly groups: number;
  /** The input channels of a group. */
  readonly channels: number;
  /** The output channels of a group. */
  readonly rows: number;
  /** Depth, height and width. */
  readonly axes: readonly [ConvAxis, ConvAxis, ConvAxis];
}

/** The axes of a call whose shapes and attributes are checked. */
export function convAxes(
  x: readonly number[],
  weight: readonly number[],
  { stride, padding, dilation }: ConvAttributes,
): ConvAxis[] {
  return stride.map((step, i) => {
    const size = x[i + 2]!, kernel = weight[i + 2]!;
    const [before, after] = padding[i]!;
    const window = (kernel - 1) * dilation[i]! + 1;
    const out = Math.floor((size + before + after - window) / step) + 1;
    return { size, kernel, out, stride: step, padding: before, dilation: dilation[i]! };
  });
}

/** An axis that a convolution does not have. */
export const NO_AXIS: ConvAxis = { size: 1, kernel: 1, out: 1, stride: 1, padding: 0, dilation: 1 };

/** The sizes of a call of `conv`, or of one whose weight is packed, or whose x, [N, C, …], is a view. */
export function convOf(
  call: Call,
  weight: readonly number[] = call.operand(1).layout.shape,
  x: readonly number[] = call.operand(0).layout.shape,
): ConvSizes {
  const attributes = call.attributes as ConvAttributes;
  const { groups } = attributes;
  const axes = convAxes(x, weight, attributes);
  while (axes.length < 3) axes.unshift(NO_AXIS);
  return {
    images: x[0]!,
    groups,
    channels: weight[1]!,
    rows: weight[0]! / groups,
    axes: axes as [ConvAxis, ConvAxis, ConvAxis],
  };
}

/** An axis of space of a convolution by tiles of 4 × 4 results. */
export interface WinogradAxis {
  /** The size of x. */
  readonly size: number;
  /** The size of the result. */
  readonly out: number;
  /** The zeros before the first element. */
  readonly padding: number;
  /** The number of tiles. */
  readonly tiles: number;
}

/** The sizes of a call of `winograd`. */
export interface WinogradSizes {
  /** The number of images. */
  readonly images: number;
  /** The input channels. */
  readonly channels: number;
  /** The output channels. */
  readonly rows: number;
  /** Height and width. */
  readonly axes: readonly [WinogradAxis, WinogradAxis];
}

/** The sizes of a call of `winograd`, whose inputs are x [N, C, H, W] and a weight [36, O, C]. */
export function winogradOf(call: Call): WinogradSizes {
  const x = call.operand(0).layout.shape, weight = call.operand(1).layout.shape;
  const { padding } = call.attributes as ConvAttributes;
  const axes = padding.map(([before, after], i): WinogradAxis => {
    const size = x[i + 2]!, out = size + before + after - 2;
    return { size, out, padding: before, tiles: Math.ceil(out / 4) };
  });
  const [images, channels] = x;
  return {
    images: images!,
    channels: channels!,
    rows: weight[1]!,
    axes: [axes[0]!, axes[1]!],
  };
}

/** True if a kernel has nothing to cast: all operands have the result's dtype. */
export function isPlainConv(call: Call): boolean {
  const { dtype } = call.specs[0]!;
  return call.inputs.every((input: Input) =>
    !isOperand(input) || (input as Operand).storage.info === dtype
  );
}
