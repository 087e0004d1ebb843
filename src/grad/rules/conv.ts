/**
 * Derivatives of convolutions and pooling.
 *
 * @module
 */
import { apply } from "../../core/apply.ts";
import { dispatch, dispatchAll, run } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import { CONV } from "../../nn/conv.ts";
import { windowsOf } from "../../ops/conv/op.ts";
import { CONV_TRANSPOSE } from "../../nn/conv_transpose.ts";
import type { ConvAttributes } from "../../ops/conv/problem.ts";
import { MAX_POOL_INDICES, type PoolAttributes } from "../../ops/conv/pool.ts";
import { INDEX } from "../../ops/index/kernels.ts";
import { iota } from "../../ops/index/selection.ts";
import { rowDType } from "../../ops/softmax_norm/problem.ts";
import { parseExpr } from "../../table/expr.ts";
import { Call } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import {
  add,
  castTo,
  flip,
  matmul,
  mT,
  narrow,
  permute,
  reshape,
  sum,
  swapAxes,
  zeros,
} from "../tape/arithmetic.ts";
import { timesFactor } from "../tape/elementwise.ts";
import { addRules, type Rule } from "../tape/rule.ts";

const countOf = (sizes: readonly number[]): number => sizes.reduce((a, b) => a * b, 1);
const spaceOf = (rank: number): number[] => Array.from({ length: rank }, (_, k) => k + 2);

/** The attributes of a convolution without what comes after the sums. */
const plain = ({ stride, padding, dilation, groups }: ConvAttributes): ConvAttributes => ({
  stride,
  padding,
  dilation,
  groups,
});

/**
 * The derivative by the weight of a convolution of `x` whose results have the derivative `g`: a product
 * of the results of all images by the elements that they meet.
 */
function byWeight(
  x: Operand,
  g: Operand,
  shape: readonly number[],
  attributes: ConvAttributes,
): Operand {
  const { groups } = attributes;
  const kernel = shape.slice(2), out = g.layout.shape.slice(2);
  const [images, channels] = [g.layout.shape[0]!, shape[1]!];
  const windows = windowsOf(x, kernel, out, attributes);
  // [G, C, kernel, N, out]
  const rank = windows.layout.rank, taps = kernel.length;
  const order = [
    ...Array.from({ length: 2 + taps }, (_, k) => k + 1),
    0,
    ...Array.from({ length: rank - 3 - taps }, (_, k) => k + 3 + taps),
  ];
  const places = images * countOf(out);
  const columns = reshape(permute(windows, order), [groups, channels * countOf(kernel), places]);
  const rows = shape[0]! / groups;
  const results = permute(reshape(g, [images, groups, rows, countOf(out)]), [1, 2, 0, 3]);
  const made = matmul(reshape(results, [groups, rows, places]), mT(columns));
  return reshape(made, shape);
}

/** The derivative by x: the transposed convolution. */
function byInput(
  g: Operand,
  weight: Operand,
  shape: readonly number[],
  attributes: ConvAttributes,
): Operand {
  const { stride, padding, dilation, groups } = attributes;
  const kernel = weight.layout.shape.slice(2);
  if (stride.every((step) => step === 1)) {
    // A convolution by the flipped kernel, whose channels change places.
    const [rows, channels] = weight.layout.shape as [number, number];
    const own = reshape(flip(weight, spaceOf(kernel.length)), [
      ...[groups, rows / groups, channels],
      ...kernel,
    ]);
    const turned = reshape(swapAxes(own, 1, 2), [groups * channels, rows / groups, ...kernel]);
    const around = padding.map(([before, after], i) => {
      const reach = (kernel[i]! - 1) * dilation[i]!;
      return [reach - before, reach - after] as const;
    });
    if (around.every(([before, after]) => before >= 0 && after >= 0)) {
      return dispatch(CONV, [g, turned], { stride, padding: around, dilation, groups });
    }
  }
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
  return activation === undefined || activation in FACTORS;
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
    let byX: Operand | undefined;
    if (keptWeight !== undefined) {
      byX = dispatch(CONV, [g, castTo(keptWeight(), wide)], attributes);
      for (const axis of spaceOf(shape.length - 2)) byX = narrow(byX, axis, 0, shape[axis]!);
    }
    return [
      byX,
      keptX && byWeight(g, castTo(keptX(), wide), ws, attributes),
      inputs[2] !== undefined && wants(2) ? sum(g, [0, ...spaceOf(shape.length - 2)]) : undefined,
    ];
  };
};

// ---- pooling -----------------------------------------------------------------------------------

/** The first of the largest elements of each window. */
const maxPool: Rule = ({ call, inputs, keep }) => {
  const x = inputs[0] as Operand;
  const { windows } = call.attributes as PoolAttributes;
  const places = dispatchAll(MAX_POOL_INDICES, [x], { windows });
  return scatterInto(x, windows.length, keep(places[1]!));
};

const maxPoolIndices: Rule = ({ call, inputs, outputs, keep }) => {
  const { windows } = call.attributes as PoolAttributes;
  return scatterInto(inputs[0] as Operand, windows.length, keep(outputs[1]!));
};

/** The derivatives at places in the planes of the last axes. */
function scatterInto(x: Operand, axes: number, places: () => Operand) {
  const { shape } = x.layout;
  const before = shape.slice(0, shape.length - axes);
  const size = countOf(shape.slice(-axes)), planes = countOf(before);
  return ([g]: readonly (Operand | undefined)[]) => {
    const at = reshape(places(), [planes, -1]);
    const starts = apply(
      MAP.mul,
      reshape(dispatchRange(at, planes), [planes, 1]),
      size,
    );
    const whole = zeros([planes * size], g!);
    const indices = reshape(add(at, starts), [-1]);
    run(new Call(INDEX.scatterAdd, "add", [whole, reshape(g!, [-1]), indices], { axis: 0 }));
    return [reshape(whole, shape)];
  };
}

/** The numbers from 0 to `n` − 1, int64. */
function dispatchRange(like: Operand, n: number): Operand {
  return castTo(iota(like.storage, n), like.storage.info);
}

/** Whether windows slide, so that their largest elements have places. */
const slides = (call: Call): boolean =>
  (call.attributes as PoolAttributes).windows.every((own) => typeof own !== "number");

addRules({
  conv: { rule: conv, applies: isDirect },
  convTranspose,
  maxPool: { rule: maxPool, applies: slides },
  maxPoolIndices,
});
