/**
 * Convolutions of images whose channels are last: [N, H, W, C]. Programs keep images so between
 * depthwise convolutions and those of one element.
 *
 * @module
 */
import { applyView } from "../../core/apply.ts";
import { contiguousCopy } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
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

/** An operand with its axes in another order. */
const permuted = (x: Operand, axes: readonly number[]): Operand =>
  applyView(VIEWS.permute, x, "permute", axes);

/** The sizes of a call of `convLast`. */
export function convLastOf(call: Call): ReturnType<typeof convOf> {
  const { weight } = call.attributes as ConvWeightAttributes;
  return convOf(call, weight, call.operand(0).layout.permute(FIRST).shape);
}

/**
 * x: [N, H, W, C], a weight, bias: [O] and a residual: [N, H, W, O]; of {@link ConvWeightAttributes}. The
 * weight is that of `pack` for a kernel of one element, and [H, W, C] of a depthwise convolution.
 */
export const CONV_LAST: Op = makeOp({
  kind: "kernel",
  name: "convLast",
  contiguous: [0, 1, 2, 3],
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, packed], name } = call;
    const attributes = call.attributes as ConvWeightAttributes;
    const { weight } = attributes;
    for (const one of [x, packed]) {
      checkOperand(one, name);
      checkKind(one.storage.info, "f", name);
    }
    const { layout } = x as Operand;
    const isDeep = isDepthwise(attributes, weight);
    if (!isDeep && !isPointwise(attributes, weight)) {
      throw doesNotFit(call, "it takes depthwise convolutions and those of one element");
    }
    if (layout.rank !== 4 || layout.shape[3] !== weight[1]! * attributes.groups) {
      throw doesNotFit(call, `it takes [N, H, W, ${weight[1]! * attributes.groups}]`);
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
    const { weight: shape, ...attributes } = call.attributes as ConvWeightAttributes;
    const [outputs, channels, height, width] = shape as [number, number, number, number];
    const plain = (): Operand => {
      if (isDepthwise(attributes, shape)) {
        return permuted(reshaped(packed, [1, height, width, outputs]), [3, 0, 1, 2]);
      }
      // Devices have the plain weight.
      return reshaped(packed.layout.rank === 2 ? packed : unpack(packed, outputs, channels), shape);
    };
    const [image, residual] = [x, add].map((one) =>
      isOperand(one) ? permuted(one, FIRST) : undefined
    );
    const inputs = [image, plain(), bias, residual];
    const made = dispatch(OPS.get("conv")!, inputs, attributes, undefined, call.name);
    return contiguousCopy(permuted(made, LAST));
  },
});
