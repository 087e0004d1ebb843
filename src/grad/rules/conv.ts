/**
 * Derivatives of convolutions and pooling.
 *
 * @module
 */
import { dispatch } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import { CONV } from "../../nn/conv.ts";
import { CONV_TRANSPOSE } from "../../nn/conv_transpose.ts";
import { CONV_WEIGHT_GRAD, MAX_POOL_GRAD, placesOf } from "../../ops/conv/gradients.ts";
import type { PoolAttributes } from "../../ops/conv/pool.ts";
import type { ConvAttributes } from "../../ops/conv/problem.ts";
import { INDEX } from "../../ops/index/kernels.ts";
import { rowDType } from "../../ops/softmax_norm/problem.ts";
import { parseExpr } from "../../table/expr.ts";
import type { Call } from "../../table/op.ts";
import { pad } from "../../ops/manipulate/op.ts";
import { castTo, flip, narrow, reshape, sum, swapAxes } from "../tape/arithmetic.ts";
import { timesFactor } from "../tape/elementwise.ts";
import { addRules, type Rule } from "../tape/rule.ts";

const spaceOf = (rank: number): number[] => Array.from({ length: rank }, (_, k) => k + 2);

/** The attributes of a convolution without what comes after the sums. */
const plain = ({ stride, padding, dilation, groups }: ConvAttributes): ConvAttributes => ({
  stride,
  padding,
  dilation,
  groups,
});

/** The derivative by a weight of `shape` of a convolution of `x` whose results have the derivative `g`. */
const byWeight = (
  x: Operand,
  g: Operand,
  shape: readonly number[],
  attributes: ConvAttributes,
): Operand => dispatch(CONV_WEIGHT_GRAD, [x, g], { ...attributes, weight: shape });

/** The most channels of a group for which a convolution is faster than the transposed one. */
const MOST_CHANNELS = 8;
/** The same with steps between elements, where most products of the convolution are those of zeros. */
const MOST_SPREAD_CHANNELS = 1;

/** `g` with `stride` − 1 zeros between its elements. */
function spread(g: Operand, stride: readonly number[]): Operand {
  const [rows, channels, ...sizes] = g.layout.shape;
  if (stride.every((step) => step === 1)) return g;
  const padded = pad(
    reshape(g, [rows!, channels!, ...sizes.flatMap((n) => [n, 1])]),
    [[0, 0], [0, 0], ...stride.flatMap((step): [number, number][] => [[0, 0], [0, step - 1]])],
  );
  const whole = reshape(padded, [rows!, channels!, ...sizes.map((n, i) => n * stride[i]!)]);
  return sizes.reduce((x, n, i) => narrow(x, i + 2, 0, (n - 1) * stride[i]! + 1), whole);
}

/**
 * The derivative by x as a convolution by the flipped kernels, whose channels change places: that of small
 * groups. Undefined where the transposed convolution is better.
 */
function byFlipped(
  g: Operand,
  weight: Operand,
  shape: readonly number[],
  { stride, padding, dilation, groups }: ConvAttributes,
): Operand | undefined {
  const [rows, channels, ...kernel] = weight.layout.shape as [number, number, ...number[]];
  const isDense = stride.every((step) => step === 1);
  const most = isDense ? MOST_CHANNELS : MOST_SPREAD_CHANNELS;
  if (groups === 1 || channels > most || g.layout.size === 0) return undefined;
  const around = padding.map(([before], i): readonly [number, number] => {
    const reach = (kernel[i]! - 1) * dilation[i]!;
    const size = (g.layout.shape[i + 2]! - 1) * stride[i]! + 1;
    return [reach - before, shape[i + 2]! - size + before];
  });
  if (around.some(([before, after]) => before < 0 || after < 0)) return undefined;
  const flipped = reshape(flip(weight, spaceOf(kernel.length)), [
    groups,
    rows / groups,
    channels,
    ...kernel,
  ]);
  const turned = reshape(swapAxes(flipped, 1, 2), [groups * channels, rows / groups, ...kernel]);
  const ones = stride.map(() => 1);
  return dispatch(CONV, [spread(g, stride), turned], {
    stride: ones,
    padding: around,
    dilation,
    groups,
  });
}

/** The derivative by x: the transposed convolution. */
function byInput(
  g: Operand,
  weight: Operand,
  shape: readonly number[],
  attributes: ConvAttributes,
): Operand {
  const flipped = byFlipped(g, weight, shape, attributes);
  if (flipped !== undefined) return flipped;
  const { stride, padding, dilation } = attributes;
  const kernel = weight.layout.shape.slice(2);
  const outputPadding = stride.map((step, i) => {
    const full = (g.layout.shape[i + 2]! - 1) * step + (kernel[i]! - 1) * dilation[i]! + 1;
    return shape[i + 2]! - (full - padding[i]![0] - padding[i]![1]);
  });
  return dispatch(CONV_TRANSPOSE, [g, weight], {
    ...plain(attributes),
    outputPadding,
  });
}

/** The derivative by what an activation got; undefined if the result does not tell it. */
const FACTORS = {
  relu: parseExpr("r > 0 ? 1 : 0"),
  tanh: parseExpr("1 - r * r"),
  sigmoid: parseExpr("r * (1 - r)"),
} as const;

const activationOf = ({ attributes }: Call): keyof typeof FACTORS | undefined =>
  (attributes as ConvAttributes).activation as keyof typeof FACTORS | undefined;

const conv: Rule = ({ call, inputs, outputs, wants, keep }) => {
  const [x, weight] = inputs as [Operand, Operand];
  const attributes = plain(call.attributes as ConvAttributes);
  const activation = activationOf(call);
  const result = activation && keep(outputs[0]!);
  const keptX = wants(1) ? keep(x) : undefined, keptWeight = wants(0) ? keep(weight) : undefined;
  const wide = rowDType(outputs[0]!.storage.info);
  const [xs, ws] = [x.layout.shape, weight.layout.shape];
  return ([given]) => {
    const through = activation && result
      ? timesFactor(given!, FACTORS[activation], { r: result() })
      : given!;
    const g = castTo(through, wide);
    return [
      keptWeight && byInput(g, castTo(keptWeight(), wide), xs, attributes),
      keptX && byWeight(castTo(keptX(), wide), g, ws, attributes),
      inputs[2] !== undefined && wants(2) ? sum(g, [0, ...spaceOf(xs.length - 2)]) : undefined,
      inputs[3] !== undefined && wants(3) ? g : undefined,
    ];
  };
};

/** Without an activation whose derivative needs what it got. */
const isDirect = (call: Call): boolean => {
  const activation = activationOf(call);
  const { addsLast } = call.attributes as ConvAttributes;
  return activation === undefined || (activation in FACTORS && !addsLast);
};

/** The weight of a transposed convolution is that of a convolution from its results. */
const convTranspose: Rule = ({ call, inputs, outputs, wants, keep }) => {
  const [x, weight] = inputs as [Operand, Operand];
  const attributes = plain(call.attributes as ConvAttributes);
  const keptX = wants(1) ? keep(x) : undefined, keptWeight = wants(0) ? keep(weight) : undefined;
  const wide = rowDType(outputs[0]!.storage.info);
  const { shape } = x.layout, ws = weight.layout.shape;
  return ([given]) => {
    const g = castTo(given!, wide);
    return [
      keptWeight && fitted(dispatch(CONV, [g, castTo(keptWeight(), wide)], attributes), shape),
      keptX && byWeight(g, castTo(keptX(), wide), ws, attributes),
      inputs[2] !== undefined && wants(2) ? sum(g, [0, ...spaceOf(shape.length - 2)]) : undefined,
    ];
  };
};

/** Linear in each of x and the derivative by the results. */
const convWeightGrad: Rule = ({ call, inputs, outputs, wants, keep }) => {
  const [x, g] = inputs as [Operand, Operand];
  const attributes = plain(call.attributes as ConvAttributes);
  const keptX = wants(1) ? keep(x) : undefined, keptG = wants(0) ? keep(g) : undefined;
  const wide = rowDType(outputs[0]!.storage.info);
  const [xs, gs] = [x.layout.shape, g.layout.shape];
  return ([given]) => {
    const weight = castTo(given!, wide);
    return [
      keptG && byInput(castTo(keptG(), wide), weight, xs, attributes),
      keptX && fitted(dispatch(CONV, [castTo(keptX(), wide), weight], attributes), gs),
    ];
  };
};

/** The first elements of each axis of space. */
const fitted = (x: Operand, shape: readonly number[]): Operand =>
  spaceOf(shape.length - 2).reduce((own, axis) => narrow(own, axis, 0, shape[axis]!), x);

// ---- pooling -----------------------------------------------------------------------------------

/** The derivative goes to the first of the largest elements of each window. */
const maxPool: Rule = ({ call, inputs, keep }) => {
  const { windows } = call.attributes as PoolAttributes;
  const x = keep(inputs[0] as Operand);
  return ([g]) => [dispatch(MAX_POOL_GRAD, [x(), g!], { windows })];
};

/** By the derivative of the results: the elements at the places of the largest ones. */
const maxPoolGrad: Rule = ({ call, inputs, wants, keep }) => {
  const attributes = call.attributes as PoolAttributes;
  const [x, g] = inputs as [Operand, Operand];
  const { shape } = g.layout;
  const places = wants(1) ? keep(placesOf(x, attributes)) : undefined;
  return ([given]) => [
    undefined,
    places &&
    reshape(dispatch(INDEX.gather, [reshape(given!, [-1]), places()], { axis: 0 }), shape),
  ];
};

/** Whether windows slide, so that their largest elements have places. */
const slides = (call: Call): boolean =>
  (call.attributes as PoolAttributes).windows.every((own) => typeof own !== "number");

addRules({
  conv: { rule: conv, applies: isDirect },
  convTranspose,
  convWeightGrad,
  maxPool: { rule: maxPool, applies: slides },
  maxPoolIndices: maxPool,
  maxPoolGrad,
});
