/**
 * What the ops of convolutions share: their checks, and their definition by sums and an epilogue.
 *
 * @module
 */
import { DTYPE, promoteTypes } from "../../base/dtype.ts";
import { ShapeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { formatShape, sameShape, sizeOf } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import type { Bend, ConvAttributes } from "./problem.ts";
import { copyAs, part } from "../../core/composite.ts";
import { cast } from "../../core/copy.ts";
import { inDType } from "../../core/prepare.ts";
import { pad } from "../manipulate/op.ts";
import { rowDType } from "../softmax_norm/problem.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand } from "../../table/infer.ts";
import { type Call, makeOp, type MapOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { expression } from "../chain/expression.ts";

/** The ops of activations that are no entries of the table, with the numbers low and high. */
export const BENDS: Readonly<Record<Bend, MapOp>> = {
  clip: expression("convClip", "minimum(maximum(x, low), high)", ["low", "high"]),
  hardSwish: expression("hardSwish", "x * minimum(maximum(x + 3, 0), 6) / 6"),
  leakyRelu: expression("convLeakyRelu", "x > 0 ? x : low * x", ["low"]),
  hardSigmoid: expression("convHardSigmoid", "minimum(maximum(low * x + high, 0), 1)", [
    "low",
    "high",
  ]),
  elu: expression("convElu", "x > 0 ? x : low * expm1(x)", ["low"]),
  mish: expression("mish", "x * tanh(log1p(exp(x)))"),
};

/** Whether an activation is one of {@link BENDS}. */
export const isBend = (name: string): name is Bend => Object.hasOwn(BENDS, name);

/** The error of shapes that do not fit. */
export function doesNotFit(call: Call, why: string): ShapeError {
  const [x, weight] = [0, 1].map((i) => formatShape(call.operand(i).layout.shape));
  return new ShapeError(`Cannot ${call.name} shape ${x} with a weight of shape ${weight}: ${why}`);
}

/** The names of the axes of space. */
const SPACE: Readonly<Record<number, string>> = { 1: "W", 2: "H, W", 3: "D, H, W" };

/**
 * Checks x and the weight, whose axes `axes` names; returns their shapes. `{space}` stands for the axes
 * of space.
 */
export function checkOperands(call: Call, axes: string): [x: number[], weight: number[]] {
  const { inputs: [x, w], name } = call;
  for (const one of [x, w]) {
    checkOperand(one, name);
    checkDevice((x as Operand).storage, one.storage, name);
    checkKind(one.storage.info, "f", name);
  }
  const shapes = [0, 1].map((i) => call.operand(i).layout.shape) as [number[], number[]];
  const space = SPACE[(call.attributes as ConvAttributes).stride.length]!;
  const wanted = [`N, C, ${space}`, axes.replace("{space}", space)];
  if (shapes.some(({ length }, i) => length !== wanted[i]!.split(",").length)) {
    throw doesNotFit(call, `it takes [${wanted[0]}] and [${wanted[1]}]`);
  }
  return shapes;
}

/** Checks the bias, or the residual, if there is one. */
export function checkLike(call: Call, k: 2 | 3, what: string, shape: readonly number[]): void {
  const given = call.inputs[k];
  if (given === undefined) return;
  checkOperand(given, call.name);
  checkDevice(call.operand(0).storage, given.storage, call.name);
  checkKind(given.storage.info, "f", call.name);
  if (!sameShape(given.layout.shape, shape)) {
    const has = formatShape(given.layout.shape);
    throw doesNotFit(call, `the ${what} must have shape ${formatShape(shape)}, got ${has}`);
  }
}

/** Checks bias and residual of a convolution whose result has `shape`. */
export function specOf(call: Call, shape: readonly number[]): readonly OutputSpec[] {
  checkLike(call, 2, "bias", [shape[1]!]);
  checkLike(call, 3, "residual", shape);
  const dtype = call.inputs.filter(isOperand).map(({ storage }) => storage.info.name)
    .reduce((a, b) => promoteTypes(a, b, call.name));
  return call.result(shape, DTYPE[dtype]);
}

/** A view in another shape. */
export const reshaped = (x: Operand, shape: readonly number[]): Operand =>
  applyView(VIEWS.reshape, x, "reshape", shape);

/**
 * The elements of x, with its padding, that each result of a convolution meets, for a kernel and results
 * of these sizes: a view, [N, G, C, kernel, out].
 */
export function windowsOf(
  x: Operand,
  kernel: readonly number[],
  out: readonly number[],
  { stride, padding, dilation, groups }: ConvAttributes,
): Operand {
  const pairs = padding.map(([before, after]): [number, number] => [before, after]);
  const isPadded = padding.some(([before, after]) => before + after > 0);
  const padded = isPadded ? pad(x, [[0, 0], [0, 0], ...pairs]) : x;
  const { shape: [images, all], strides, offset } = padded.layout;
  const [n, c, ...space] = strides as [number, number, ...number[]];
  const channels = all! / groups;
  const windows = new Layout(
    [images!, groups, channels, ...kernel, ...out],
    [
      ...[n, c * channels, c],
      ...space.map((step, i) => step * dilation[i]!),
      ...space.map((step, i) => step * stride[i]!),
    ],
    offset,
  );
  return part(padded, windows);
}

/** {@link windowsOf} in memory, for a weight and a result of these shapes: [N, G, C · taps, pixels]. */
export function columnsOf(
  x: Operand,
  weight: readonly number[],
  result: readonly number[],
  attributes: ConvAttributes,
): Operand {
  const kernel = weight.slice(2), out = result.slice(2);
  return copyAs(windowsOf(x, kernel, out, attributes), [
    ...[result[0]!, attributes.groups],
    ...[weight[1]! * sizeOf(kernel), sizeOf(out)],
  ]);
}

/** Applies the activation of a call to its sums, in place. */
function activate(call: Call, y: Operand): Operand {
  const { activation, numbers: [low, high] = [0, 0] } = call.attributes as ConvAttributes;
  if (activation === undefined) return y;
  const into = { out: y };
  if (!isBend(activation)) return apply(MAP[activation], y, undefined, undefined, into);
  const op = BENDS[activation];
  const given = Object.entries({ low, high }).slice(0, op.parameters.length);
  const numbers = given.length === 0 ? undefined : Object.fromEntries(given);
  return apply(op, y, undefined, undefined, into, activation, numbers);
}

/** Adds bias and residual to sums, in place, and applies the activation. */
function finish(call: Call, y: Operand, bias?: Operand, add?: Operand): Operand {
  const { addsLast = false } = call.attributes as ConvAttributes;
  const { layout: { shape } } = y;
  const into = { out: y };
  if (bias !== undefined) {
    const shift = reshaped(bias, [shape[1]!, ...shape.slice(2).map(() => 1)]);
    y = apply(MAP.add, y, shift, undefined, into);
  }
  if (add !== undefined && !addsLast) y = apply(MAP.add, y, add, undefined, into);
  y = activate(call, y);
  return add !== undefined && addsLast ? apply(MAP.add, y, add, undefined, into) : y;
}

/**
 * An op of x, a weight, a bias and a residual. `compose` makes the sums of x and the weight, a new
 * tensor, of operands of one dtype of at least 32 bits.
 */
export function convOp(
  name: string,
  infer: (call: Call) => readonly OutputSpec[],
  compose: (call: Call, x: Operand, weight: Operand) => Operand,
): Op {
  return makeOp({
    kind: "kernel",
    name,
    contiguous: [0, 1, 2, 3],
    outOffset: true,
    infer,
    prepare: (call: Call) => inDType(call, rowDType(call.specs[0]!.dtype)),
    decompose(call: Call): Operand {
      const { dtype } = call.specs[0]!;
      const wide = rowDType(dtype);
      const [x, weight, bias, add] = call.inputs.map((one) =>
        isOperand(one) ? cast(one, wide.name) : undefined
      );
      return cast(finish(call, compose(call, x!, weight!), bias, add), dtype.name);
    },
  });
}
