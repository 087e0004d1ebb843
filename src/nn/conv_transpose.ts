/**
 * Transposed convolutions.
 *
 * @module
 */
import { DTYPE, promoteTypes } from "../base/dtype.ts";
import { ArgumentError } from "../base/errors.ts";
import type { Layout } from "../base/layout.ts";
import { apply, applyView } from "../core/apply.ts";
import type { ConvAttributes } from "../ops/conv/problem.ts";
import { cast, writeValue } from "../core/copy.ts";
import { dispatch } from "../core/dispatch.ts";
import { ownOperand } from "../core/foreign.ts";
import { tidy } from "../core/handles.ts";
import { inDType } from "../core/prepare.ts";
import { rowDType } from "../ops/softmax_norm/problem.ts";
import { isOperand, type Operand } from "../memory/operand.ts";
import { checkOptions } from "../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import { VIEWS } from "../table/views.ts";
import { copyAs, empty, part } from "../core/composite.ts";
import { matmul } from "../ops/matmul/op.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import { checkLike, checkOperands, doesNotFit, reshaped } from "../ops/conv/op.ts";
import {
  attributesOf,
  type Convolved,
  type ConvOptions,
  pairsOf,
  type PerAxis,
  perAxis,
  WINDOW_OPTIONS,
  withImages,
} from "./windows.ts";

/** Options of transposed convolutions. */
export interface ConvTransposeOptions extends Omit<ConvOptions, "padding" | "winograd"> {
  /** What is cut off the result on each side; nothing by default. */
  readonly padding?: PerAxis | readonly (number | readonly [before: number, after: number])[];
  /** What is added at the end of each axis of the result; nothing by default. */
  readonly outputPadding?: PerAxis;
}

/** Attributes of `convTranspose`; inputs: x, weight, bias. */
export interface TransposeAttributes extends ConvAttributes {
  /** Zeros after the result. */
  readonly outputPadding: readonly number[];
}

/** The sizes of the result before padding is cut off. */
function fullSizes(
  x: readonly number[],
  weight: readonly number[],
  { stride, dilation }: ConvAttributes,
): number[] {
  return stride.map((step, i) =>
    Math.max(0, x[i + 2]! - 1) * step + (weight[i + 2]! - 1) * dilation[i]! + 1
  );
}

function inferTranspose(call: Call): readonly OutputSpec[] {
  const { name } = call;
  const attributes = call.attributes as TransposeAttributes;
  const { stride, padding, dilation, groups, outputPadding } = attributes;
  const [p, q] = checkOperands(call, "C, O / groups, {space}");
  if (p[1] !== q[0]) {
    throw doesNotFit(call, `${p[1]} channels do not match ${q[0]} channels of the weight`);
  }
  if (p[1]! % groups !== 0) {
    throw doesNotFit(call, `${p[1]} channels are no multiple of ${groups} groups`);
  }
  const sizes = fullSizes(p, q, attributes).map((n, i) => {
    const extra = outputPadding[i]!;
    if (extra > 0 && extra >= Math.max(stride[i]!, dilation[i]!)) {
      throw new ArgumentError(
        `Cannot ${name} with output padding ${extra}: it must be less than the stride or the ` +
          `dilation, ${stride[i]} and ${dilation[i]}`,
      );
    }
    const size = n - padding[i]![0] - padding[i]![1] + extra;
    if (size > 0 && q[i + 2]! > 0) return size;
    throw doesNotFit(call, `axis ${i + 2} of the result would have ${size} elements`);
  });
  checkLike(call, 2, "bias", [q[1]! * groups]);
  const dtype = call.inputs.filter(isOperand).map(({ storage }) => storage.info.name)
    .reduce((a, b) => promoteTypes(a, b, name));
  return call.result([p[0]!, q[1]! * groups, ...sizes], DTYPE[dtype]);
}

/** Each element of x times the kernel, added up where kernels overlap. */
function composeTranspose(call: Call, inputs: readonly (Operand | undefined)[]): Operand {
  const attributes = call.attributes as TransposeAttributes;
  const { stride, padding, dilation, groups } = attributes;
  const [x, weight, bias] = inputs as [Operand, Operand, Operand?];
  const [p, q, { shape }] = [x.layout.shape, weight.layout.shape, call.specs[0]!];
  const [images, channels] = p as [number, number];
  const rows = q[1]!, kernel = q.slice(2), sizes = p.slice(2);
  const count = (of: readonly number[]): number => of.reduce((a, b) => a * b, 1);
  const taps = count(kernel), pixels = count(sizes);
  const left = reshaped(weight, [groups, channels / groups, rows * taps]);
  const right = reshaped(x, [images, groups, channels / groups, pixels]);
  const products = reshaped(
    matmul(applyView(VIEWS.mT, left, "mT"), right),
    [images, groups * rows, taps, ...sizes],
  );
  const full = fullSizes(p, q, attributes).map((n, i) => n + attributes.outputPadding[i]!);
  const sums = empty([images, groups * rows, ...full], x);
  writeValue(sums, 0);
  for (let tap = 0; tap < taps; tap++) {
    let rest = tap, to = sums.layout;
    for (let axis = kernel.length - 1; axis >= 0; axis--) {
      const k = rest % kernel[axis]!;
      rest = Math.floor(rest / kernel[axis]!);
      to = to.sliceAxis(axis + 2, k * dilation[axis]!, sizes[axis]!, stride[axis]!);
    }
    const from = applyView(VIEWS.selectAxis, products, "selectAxis", 2, tap);
    const into = part(sums, to);
    apply(MAP.add, into, from, undefined, { out: into });
  }
  const { layout } = sums;
  const cut = shape.slice(2).reduce<Layout>(
    (own, n, i) => own.sliceAxis(i + 2, padding[i]![0], n, 1),
    layout,
  );
  const y = part(sums, cut);
  if (bias === undefined) return copyAs(y, shape);
  return apply(MAP.add, y, reshaped(bias, [shape[1]!, ...sizes.map(() => 1)]));
}

/** x: [N, C, …], weight: [C, O / groups, …] and bias: [O]. */
export const CONV_TRANSPOSE: Op = makeOp({
  kind: "kernel",
  name: "convTranspose",
  contiguous: [0, 1, 2],
  infer: inferTranspose,
  prepare: (call: Call) => inDType(call, rowDType(call.specs[0]!.dtype)),
  decompose(call: Call): Operand {
    const { inputs } = call;
    const { dtype } = call.specs[0]!;
    const wide = rowDType(dtype);
    const floats = (inputs as (Operand | undefined)[]).map((x) => x && cast(x, wide.name));
    return cast(composeTranspose(call, floats), dtype.name);
  },
});

function transpose(
  name: string,
  rank: number,
  given: unknown,
  weight: unknown,
  bias: unknown,
  options: ConvTransposeOptions,
): Operand {
  checkOptions(name, options, [...WINDOW_OPTIONS, "outputPadding"]);
  const { outputPadding = 0, ...others } = options;
  return tidy(() => {
    const [x, single] = withImages(given, rank, name);
    const w = ownOperand(weight, name);
    const b = bias === undefined ? undefined : ownOperand(bias, name);
    const padding = pairsOf(options.padding ?? 0, rank, name);
    const attributes: TransposeAttributes = {
      ...attributesOf(x, w, rank, { ...others, padding }, name),
      outputPadding: perAxis(outputPadding, rank, 0, "output padding", name),
    };
    const inputs = b === undefined ? [x, w] : [x, w, b];
    const y = dispatch(CONV_TRANSPOSE, inputs, attributes, undefined, name);
    return single ? applyView(VIEWS.squeeze, y, "squeeze", 0) : y;
  });
}

/**
 * The transpose of {@link conv1d}, which turns its result's shape into that of x: x [N, C, W] and weight
 * [C, O / groups, K], plus bias [O], give [N, O, W'], where W' is (W − 1) · stride − padding +
 * dilation · (K − 1) + outputPadding + 1. Each element of x adds a kernel to the result.
 *
 * @throws As {@link conv1d}.
 *
 * @example
 * ```ts
 * const x = tensor([[[1, 2]]]);
 * nn.convTranspose1d(x, ones([1, 1, 2]), undefined, { stride: 2 }).toArray(); // => [[[1, 1, 2, 2]]]
 * ```
 */
export function convTranspose1d<X extends AnyTensor>(
  x: X,
  weight: AnyTensor,
  bias?: AnyTensor,
  options?: ConvTransposeOptions,
): Convolved<X, [number, number, number]>;
export function convTranspose1d(
  x: AnyTensor,
  weight: AnyTensor,
  bias?: AnyTensor,
  options: ConvTransposeOptions = {},
): Operand {
  return transpose("convTranspose1d", 1, x, weight, bias, options);
}

/**
 * {@link convTranspose1d} of two axes of space: x [N, C, H, W] and weight [C, O / groups, KH, KW].
 *
 * @example
 * ```ts
 * const small = ones([1, 8, 16, 16]);
 * nn.convTranspose2d(small, ones([8, 4, 2, 2]), undefined, { stride: 2 }).shape; // => [1, 4, 32, 32]
 * ```
 */
export function convTranspose2d<X extends AnyTensor>(
  x: X,
  weight: AnyTensor,
  bias?: AnyTensor,
  options?: ConvTransposeOptions,
): Convolved<X, [number, number, number, number]>;
export function convTranspose2d(
  x: AnyTensor,
  weight: AnyTensor,
  bias?: AnyTensor,
  options: ConvTransposeOptions = {},
): Operand {
  return transpose("convTranspose2d", 2, x, weight, bias, options);
}

/**
 * {@link convTranspose1d} of three axes of space: x [N, C, D, H, W] and weight [C, O / groups, KD, KH,
 * KW].
 *
 * @example
 * ```ts
 * const x = ones([1, 2, 3, 3, 3]);
 * nn.convTranspose3d(x, ones([2, 1, 3, 3, 3]), undefined, { padding: 1 }).shape; // => [1, 1, 3, 3, 3]
 * ```
 */
export function convTranspose3d<X extends AnyTensor>(
  x: X,
  weight: AnyTensor,
  bias?: AnyTensor,
  options?: ConvTransposeOptions,
): Convolved<X, [number, number, number, number, number]>;
export function convTranspose3d(
  x: AnyTensor,
  weight: AnyTensor,
  bias?: AnyTensor,
  options: ConvTransposeOptions = {},
): Operand {
  return transpose("convTranspose3d", 3, x, weight, bias, options);
}
