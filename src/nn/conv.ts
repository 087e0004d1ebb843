/**
 * Convolutions of one to three axes of space.
 *
 * @module
 */
import { applyView } from "../core/apply.ts";
import { type ConvAttributes, convAxes } from "../ops/conv/problem.ts";
import { cast } from "../core/copy.ts";
import { dispatch } from "../core/dispatch.ts";
import { ownOperand } from "../core/foreign.ts";
import { tidy } from "../core/handles.ts";
import type { Activation } from "../ops/linear/panels.ts";
import type { Operand } from "../memory/operand.ts";
import { checkOptions } from "../table/infer.ts";
import { Call, type Op, type OutputSpec } from "../table/op.ts";
import { VIEWS } from "../table/views.ts";
import { matmul } from "../ops/matmul/op.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import { checkOperands, columnsOf, convOp, doesNotFit, reshaped, specOf } from "../ops/conv/op.ts";
import { checkWinograd, WINOGRAD, winogradWeight } from "../ops/conv/winograd.ts";
import {
  attributesOf,
  CONV_OPTIONS,
  type Convolved,
  type ConvOptions,
  withImages,
} from "./windows.ts";

// ---- the op ------------------------------------------------------------------------------------

function infer(call: Call): readonly OutputSpec[] {
  const attributes = call.attributes as ConvAttributes;
  const { padding, groups } = attributes;
  const [p, q] = checkOperands(call, "O, C / groups, {space}");
  if (p[1] !== q[1]! * groups) {
    throw doesNotFit(
      call,
      `${p[1]} channels in ${groups} groups do not match ${q[1]} channels of the weight`,
    );
  }
  if (q[0]! % groups !== 0) {
    throw doesNotFit(call, `${q[0]} output channels are no multiple of ${groups} groups`);
  }
  const axes = convAxes(p, q, attributes);
  const shape = [p[0]!, q[0]!, ...axes.map(({ out }) => out)];
  axes.forEach(({ size, kernel, out }, i) => {
    if (kernel > 0 && out > 0) return;
    const padded = size + padding[i]![0] + padding[i]![1];
    throw doesNotFit(call, `the kernel does not fit axis ${i + 2}, of ${padded} with its padding`);
  });
  return specOf(call, shape);
}

/** The sums by a product, of operands of one dtype of at least 32 bits. */
function compose(call: Call, x: Operand, weight: Operand): Operand {
  const attributes = call.attributes as ConvAttributes;
  const { groups } = attributes;
  const { shape } = weight.layout, result = call.specs[0]!.shape;
  const columns = columnsOf(x, shape, result, attributes);
  const sums = columns.layout.shape[2]!;
  const made = matmul(reshaped(weight, [groups, shape[0]! / groups, sums]), columns);
  return reshaped(made, result);
}

/** x: [N, C, …], weight: [O, C / groups, …], bias: [O] and a residual; see {@link ConvAttributes}. */
export const CONV: Op = convOp("conv", infer, compose);

/**
 * A convolution with `rank` axes of space; x may have no axis of images. `transformed` is the weight
 * for `winograd`, if it is there already.
 */
export function convolve(
  name: string,
  rank: number,
  given: unknown,
  weight: unknown,
  bias: unknown,
  options: ConvOptions,
  activation?: Activation,
  transformed?: Operand,
): Operand {
  checkOptions(name, options, CONV_OPTIONS);
  return tidy(() => {
    const [x, single] = withImages(given, rank, name);
    const w = ownOperand(weight, name);
    const b = bias === undefined ? [] : [ownOperand(bias, name)];
    const attributes = { ...attributesOf(x, w, rank, options, name), activation };
    const { winograd = false } = options;
    checkWinograd(winograd, attributes, w.layout.shape.slice(2), name);
    const inputs = [x, w, ...b];
    let y: Operand;
    if (winograd) {
      // Errors are about the weight that the caller knows.
      const [{ dtype }] = infer(new Call(CONV, name, inputs, attributes)) as [OutputSpec];
      inputs[1] = transformed ?? winogradWeight(w);
      // A transformed weight has at least 32 bits.
      y = cast(dispatch(WINOGRAD, inputs, attributes, undefined, name), dtype.name);
    } else {
      y = dispatch(CONV, inputs, attributes, undefined, name);
    }
    return single ? applyView(VIEWS.squeeze, y, "squeeze", 0) : y;
  });
}

// ---- functions ---------------------------------------------------------------------------------

/**
 * The sums of products of windows of x with a weight: x [N, C, W] and weight [O, C / groups, K], plus
 * bias [O], give [N, O, W']; x [C, W] gives [O, W']. The kernel is not flipped, as in PyTorch. W' is
 * ⌊(W + padding − dilation · (K − 1) − 1) / stride⌋ + 1.
 *
 * Takes floats; dtypes promote. 16-bit floats are computed in float32.
 *
 * @throws {ShapeError} For shapes that do not fit.
 * @throws {DTypeError} For other dtypes.
 * @throws {ArgumentError} For bad options.
 *
 * @example
 * ```ts
 * const x = tensor([[[1, 2, 3, 4]]]);
 * nn.conv1d(x, tensor([[[1, -1]]])).toArray(); // => [[[-1, -1, -1]]]
 * nn.conv1d(x, ones([1, 1, 3]), undefined, { padding: "same" }).toArray(); // => [[[3, 6, 9, 7]]]
 * ```
 */
export function conv1d<X extends AnyTensor>(
  x: X,
  weight: AnyTensor,
  bias?: AnyTensor,
  options?: ConvOptions,
): Convolved<X, [number, number, number]>;
export function conv1d(
  x: AnyTensor,
  weight: AnyTensor,
  bias?: AnyTensor,
  options: ConvOptions = {},
): Operand {
  return convolve("conv1d", 1, x, weight, bias, options);
}

/**
 * {@link conv1d} of two axes of space: x [N, C, H, W] and weight [O, C / groups, KH, KW], plus bias [O],
 * give [N, O, H', W']; x may have no axis N. With C groups, each channel has kernels of its own
 * (depthwise).
 *
 * @throws As {@link conv1d}.
 *
 * @example
 * ```ts
 * const images = ones([1, 3, 32, 32]);
 * const weight = ones([16, 3, 3, 3]);
 * nn.conv2d(images, weight, zeros([16]), { stride: 2, padding: 1 }).shape; // => [1, 16, 16, 16]
 * nn.conv2d(images, ones([3, 1, 3, 3]), undefined, { groups: 3 }).shape; // => [1, 3, 30, 30]
 * ```
 */
export function conv2d<X extends AnyTensor>(
  x: X,
  weight: AnyTensor,
  bias?: AnyTensor,
  options?: ConvOptions,
): Convolved<X, [number, number, number, number]>;
export function conv2d(
  x: AnyTensor,
  weight: AnyTensor,
  bias?: AnyTensor,
  options: ConvOptions = {},
): Operand {
  return convolve("conv2d", 2, x, weight, bias, options);
}

/**
 * {@link conv1d} of three axes of space: x [N, C, D, H, W] and weight [O, C / groups, KD, KH, KW], plus
 * bias [O], give [N, O, D', H', W'].
 *
 * @throws As {@link conv1d}.
 *
 * @example
 * ```ts
 * nn.conv3d(ones([1, 2, 4, 4, 4]), ones([5, 2, 3, 3, 3])).shape; // => [1, 5, 2, 2, 2]
 * ```
 */
export function conv3d<X extends AnyTensor>(
  x: X,
  weight: AnyTensor,
  bias?: AnyTensor,
  options?: ConvOptions,
): Convolved<X, [number, number, number, number, number]>;
export function conv3d(
  x: AnyTensor,
  weight: AnyTensor,
  bias?: AnyTensor,
  options: ConvOptions = {},
): Operand {
  return convolve("conv3d", 3, x, weight, bias, options);
}
