/**
 * Convolutions of images whose channels are last: [N, H, W, C]. Programs keep images so between
 * depthwise convolutions and those of one element.
 *
 * @module
 */
import { applyView } from "../../core/apply.ts";
import { contiguousCopy } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { sizeOf } from "../../base/shape.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { checkKind, checkOperand } from "../../table/infer.ts";
import { type Call, makeOp, type Op, OPS, type OutputSpec } from "../../table/op.ts";
import { VIEWS } from "../../table/views.ts";
import { unpack } from "../linear/packed_weight.ts";
import { checkLike, doesNotFit, reshaped } from "./op.ts";
import { type ConvAttributes, convOf, type ConvWeightAttributes } from "./problem.ts";

/** The order of axes that makes [N, H, W, C] of [N, C, H, W]. */
export const LAST: readonly number[] = [0, 2, 3, 1];
/** The order of axes that makes [N, C, H, W] of [N, H, W, C]. */
export const FIRST: readonly number[] = [0, 3, 1, 2];

/** The fewest channels of a depthwise convolution: those of a vector. */
const FEWEST_CHANNELS = 16;

/** Whether a convolution has a kernel of one element, which each result meets at its own place. */
export function isPointwise(
  { stride, padding, groups }: ConvAttributes,
  weight: readonly number[],
): boolean {
  return groups === 1 && weight.length === 4 && weight[2] === 1 && weight[3] === 1 &&
    stride.every((n) => n === 1) && padding.every(([before, after]) => before + after === 0);
}

/** Whether a convolution has a kernel for each channel, and channels for vectors. */
export function isDepthwise({ groups }: ConvAttributes, weight: readonly number[]): boolean {
  return weight.length === 4 && groups === weight[0] && weight[1] === 1 &&
    groups >= FEWEST_CHANNELS;
}

/** The most products of a sum of {@link ConvLastAttributes.isFirst}. */
const MOST_SUMS = 512;

/** Attributes of `convLast`. */
export interface ConvLastAttributes extends ConvWeightAttributes {
  /** Whether x is [N, C, H, W], which only the result is not. */
  readonly isFirst?: boolean | undefined;
}

/** Whether a convolution has one group and short sums, so that it can make [N, H, W, C] of [N, C, H, W]. */
export function canEnter({ groups }: ConvAttributes, weight: readonly number[]): boolean {
  return groups === 1 && weight.length === 4 && sizeOf(weight.slice(1)) <= MOST_SUMS;
}

/** An operand with its axes in another order. */
const permuted = (x: Operand, axes: readonly number[]): Operand =>
  applyView(VIEWS.permute, x, "permute", axes);

/** The sizes of a call of `convLast`. */
export function convLastOf(call: Call): ReturnType<typeof convOf> {
  const { weight, isFirst } = call.attributes as ConvLastAttributes;
  const { layout } = call.operand(0);
  return convOf(call, weight, (isFirst ? layout : layout.permute(FIRST)).shape);
}

/**
 * x: [N, H, W, C] or [N, C, H, W], a weight, bias: [O] and a residual: [N, H, W, O]; of
 * {@link ConvLastAttributes}. The weight is [H, W, C] of a depthwise convolution, and that of `pack` of
 * [O, C · H · W] for others.
 */
export const CONV_LAST: Op = makeOp({
  kind: "kernel",
  name: "convLast",
  contiguous: [0, 1, 2, 3],
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, packed], name } = call;
    const attributes = call.attributes as ConvLastAttributes;
    const { weight, isFirst = false } = attributes;
    for (const one of [x, packed]) {
      checkOperand(one, name);
      checkKind(one.storage.info, "f", name);
    }
    const { layout } = x as Operand;
    const fits = isFirst
      ? canEnter(attributes, weight)
      : isDepthwise(attributes, weight) || isPointwise(attributes, weight);
    if (!fits) {
      throw doesNotFit(
        call,
        isFirst
          ? `it takes one group and sums of at most ${MOST_SUMS} products`
          : "it takes depthwise convolutions and those of one element",
      );
    }
    const channels = weight[1]! * attributes.groups;
    if (layout.rank !== 4 || layout.shape[isFirst ? 1 : 3] !== channels) {
      const wanted = isFirst ? `[N, ${channels}, H, W]` : `[N, H, W, ${channels}]`;
      throw doesNotFit(call, `it takes ${wanted}`);
    }
    const { images, axes: [, height, width] } = convLastOf(call);
    const shape = [images, height.out, width.out, weight[0]!];
    checkLike(call, 2, "bias", [weight[0]!]);
    checkLike(call, 3, "residual", shape);
    return call.result(shape, (x as Operand).storage.info);
  },
  decompose(call: Call): Operand {
    const [x, , bias, add] = call.inputs;
    const packed = call.operand(1);
    const { weight: shape, isFirst = false, ...attributes } = call.attributes as ConvLastAttributes;
    const [outputs, , height, width] = shape as [number, number, number, number];
    const plain = (): Operand => {
      if (!isFirst && isDepthwise(attributes, shape)) {
        return permuted(reshaped(packed, [1, height, width, outputs]), [3, 0, 1, 2]);
      }
      // Devices have the plain weight.
      return reshaped(
        packed.layout.rank === 2 ? packed : unpack(packed, outputs, sizeOf(shape.slice(1))),
        shape,
      );
    };
    const residual = isOperand(add) ? permuted(add, FIRST) : undefined;
    const image = isFirst ? x : permuted(x as Operand, FIRST);
    const inputs = [image, plain(), bias, residual];
    const made = dispatch(OPS.get("conv")!, inputs, attributes, undefined, call.name);
    return contiguousCopy(permuted(made, LAST));
  },
});
