/**
 * The numbers of the shim's kernel for convolutions, and the calls that it supports.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { sizeOf } from "../../base/shape.ts";
import {
  type ConvAttributes,
  type ConvAxis,
  convOf,
  type ConvWeightAttributes,
  hasWordsOfTaps,
  isPlainConv,
  NO_AXIS,
  winogradOf,
} from "../../ops/conv/problem.ts";
import { type ConvLastAttributes, convLastOf, isDepthwise } from "../../ops/conv/channels_last.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import type { Call } from "../../table/op.ts";
import { ACTIVATION } from "../ffi/abi.ts";
import { checkRun } from "../ffi/checks.ts";
import type { Kernel } from "./kernel.ts";
import { byteOutput } from "./linear.ts";

/** The buffer of an operand that is not given, and of the first one that may be. */
const [NO_BUFFER, FIRST_OPTIONAL] = [-1, 3];

/** True for float32, which is all that the kernel knows, and for sums of at least one product. */
function runsConv(call: Call): boolean {
  const { shape, dtype } = call.specs[0]!;
  return dtype === DTYPE.float32 && isPlainConv(call) && !shape.includes(0) &&
    call.operand(1).layout.size > 0;
}

/** The numbers of a call, and the storages of the operands that are optional. */
interface ConvPlan {
  readonly numbers: Float64Array<ArrayBuffer>;
  readonly optional: readonly Storage[];
}

/** The same for channels that are last: depthwise sums have no residual. */
function runsConvLast(call: Call): boolean {
  const attributes = call.attributes as ConvLastAttributes;
  const isDeep = !attributes.isFirst && isDepthwise(attributes, attributes.weight);
  return runsConv(call) && !(isDeep && isOperand(call.inputs[3]));
}

/** Plans a call with the numbers `sizes`, the activation, the operands, and the numbers `space`. */
function plan(call: Call, sizes: readonly number[], space: readonly number[]): ConvPlan {
  const { activation = "none", numbers: given = [0, 0], addsLast = false } = call
    .attributes as ConvAttributes;
  const buffers = [NO_BUFFER, NO_BUFFER], offsets = [0, 0, 0, 0, 0];
  const optional: Storage[] = [];
  [call.outputs[0]!, ...call.inputs].forEach((operand, i) => {
    if (!isOperand(operand)) return;
    const { storage, layout: { offset, size } } = operand;
    checkRun(call.op.name, i, offset, size, storage);
    offsets[i] = offset;
    if (i < FIRST_OPTIONAL) return;
    buffers[i - FIRST_OPTIONAL] = FIRST_OPTIONAL + optional.length;
    optional.push(storage);
  });
  const finish = [ACTIVATION[activation], ...given, Number(addsLast)];
  const all = [...sizes, ...finish, ...buffers, ...offsets, ...space];
  return { numbers: new Float64Array(all), optional };
}

/** The numbers of axes of space. */
function axisNumbers(axes: readonly ConvAxis[]): number[] {
  return axes.flatMap(({ size, kernel, out, stride, padding, dilation }) => [
    ...[size, kernel, out],
    ...[stride, padding, dilation],
  ]);
}

/** The plan of a convolution. */
function planConv(call: Call): ConvPlan {
  const { images, groups, channels, rows, axes } = convOf(call);
  return plan(call, [images, groups, channels, rows], axisNumbers(axes));
}

/** The plan of a convolution of images whose channels are last. */
function planLast(call: Call): ConvPlan {
  const { images, groups, channels, rows, axes } = convLastOf(call);
  const { isFirst = false } = call.attributes as ConvLastAttributes;
  return plan(call, [images, groups, channels, rows], [...axisNumbers(axes), Number(isFirst)]);
}

/** The plan of a convolution by a transformed weight. */
function planWinograd(call: Call): ConvPlan {
  const { images, channels, rows, axes } = winogradOf(call);
  return plan(
    call,
    [images, channels, rows],
    axes.flatMap(({ size, out, padding, tiles }) => [size, out, padding, tiles]),
  );
}

/** The kernel of a convolution. */
const convolution = (
  plan: (call: Call) => ConvPlan,
  supports: (call: Call) => boolean = runsConv,
): Kernel => ({
  supports,
  prepare(call) {
    const { numbers, optional: [c = null, ...more] } = plan(call);
    const [a, b] = [call.operand(0).storage, call.operand(1).storage];
    const handed = { numbers, out: call.outputs[0]!.storage, a, b, c };
    return more.length > 0 ? { ...handed, more } : handed;
  },
});

/** The fewest output channels, or groups, of vectors: products of fewer are faster by other ops. */
const FEWEST_CHANNELS = 4;

/** The kernel of the derivative by a convolution's weight. */
const convWeightGrad: Kernel = {
  supports(call) {
    const { weight, groups } = call.attributes as ConvWeightAttributes;
    const [rows, sums] = [weight[0]! / groups, sizeOf(weight.slice(1))];
    return call.specs[0]!.dtype === DTYPE.float32 && isPlainConv(call) && sums > 0 &&
      Math.max(rows, groups) >= FEWEST_CHANNELS &&
      [0, 1].every((k) => call.operand(k).layout.size > 0);
  },
  prepare(call) {
    const { weight } = call.attributes as ConvWeightAttributes;
    const { images, groups, channels, rows, axes } = convOf(call, weight);
    const [x, g, made] = [call.operand(0), call.operand(1), call.outputs[0]!];
    const sizes = g.layout.shape.slice(2);
    const own = axes.map((axis, i) => ({ ...axis, out: sizes.at(i - axes.length) ?? axis.out }));
    const { numbers } = plan(call, [images, groups, channels, rows], axisNumbers(own));
    return { numbers, out: made.storage, a: x.storage, b: g.storage };
  },
};

/** The kernel of a transposed convolution. */
const convTranspose: Kernel = {
  supports: (call) => runsConv(call) && call.operand(1).layout.shape[1]! >= FEWEST_CHANNELS,
  prepare(call) {
    const { groups, stride, padding, dilation } = call.attributes as ConvAttributes;
    const [x, weight, out] = [call.operand(0), call.operand(1), call.outputs[0]!];
    const [images, channels, ...sizes] = x.layout.shape as [number, number, ...number[]];
    const [, rows, ...kernel] = weight.layout.shape as [number, number, ...number[]];
    const axes = sizes.map((size, i): ConvAxis => ({
      size,
      kernel: kernel[i]!,
      out: out.layout.shape[i + 2]!,
      stride: stride[i]!,
      padding: padding[i]![0],
      dilation: dilation[i]!,
    }));
    while (axes.length < 3) axes.unshift(NO_AXIS);
    const made = plan(call, [images, groups, channels / groups, rows], axisNumbers(axes));
    const [c = null] = made.optional;
    return { numbers: made.numbers, out: out.storage, a: x.storage, b: weight.storage, c };
  },
};

/** The axes of space as one, if windows are single elements side by side. */
function merged(axes: readonly ConvAxis[]): readonly ConvAxis[] {
  const isPlain = axes.every(({ kernel, stride, size, out }) =>
    kernel === 1 && stride === 1 && size === out
  );
  if (!isPlain) return axes;
  const size = axes.reduce((product, axis) => product * axis.size, 1);
  return [NO_AXIS, NO_AXIS, { ...NO_AXIS, size, out: size }];
}

/** The kernel of a convolution of bytes. */
const convBytes: Kernel = {
  supports: (call) => !call.specs[0]!.shape.includes(0) && call.operand(0).layout.size > 0,
  prepare(call) {
    const { weight } = call.attributes as ConvWeightAttributes;
    const { images, groups, channels, rows, axes } = convOf(call, weight);
    const [x, packed, out] = [call.operand(0), call.operand(1), call.outputs[0]!];
    const zero = call.inputs[2] as Operand | undefined;
    const offsets = [out, x, packed, zero].map((one, i) => {
      if (one === undefined) return 0;
      checkRun("convBytes", i, one.layout.offset, one.layout.size, one.storage);
      return one.layout.offset;
    });
    const { numbers: last, ...more } = byteOutput(call);
    const numbers = Float64Array.of(
      ...[images, groups, channels, rows, Number(hasWordsOfTaps(weight)), ...offsets],
      ...[...axisNumbers(merged(axes)), ...last],
    );
    const c = zero?.storage ?? null;
    return { numbers, out: out.storage, a: x.storage, b: packed.storage, c, ...more };
  },
};

/** The kernels by the names of their ops. */
export const CONV_KERNELS: Readonly<Record<string, Kernel>> = {
  conv: convolution(planConv),
  convLast: convolution(planLast, runsConvLast),
  winograd: convolution(planWinograd),
  convWeightGrad,
  convTranspose,
  convBytes,
};
