/**
 * Statistics of several elements: ranges, weighted means, covariances.
 *
 * @module
 */
import { DTYPE, type DType, promoteTypes } from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { ArgumentError, ShapeError } from "../../base/errors.ts";
import { formatShape, normalizeAxes, ownAxes, sameShape } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import {
  checkDevice,
  checkKind,
  checkOperand,
  checkOptions,
  inferAs,
  inferReduce,
  reductionOf,
} from "../../table/infer.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { composite } from "../../core/composite.ts";
import { concat } from "../../ops/join/op.ts";
import { matmul } from "../../ops/matmul/op.ts";
import { fromFirst, widen } from "../../ops/reduce/differences.ts";
import type { AnyTensor, KeepOptions, Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";

/** The float dtype of statistics of these elements. */
export function floatOf(dtype: DType): DType {
  return DTYPE[dtype].kind === "f" ? dtype : "float32";
}

// ---- ranges of values --------------------------------------------------------------------------

const PTP = composite("ptp", (call, x) => {
  checkKind(x.storage.info, "iuf", call.name);
  return inferAs(REDUCE.max, call, inferReduce);
}, (call, x) => {
  const { name, attributes } = call;
  const [max, min] = [REDUCE.max, REDUCE.min]
    .map((row) => dispatch(row, [x], attributes, undefined, name));
  return apply(MAP.sub, max, min);
});

/**
 * The largest element minus the smallest over `axis` (all axes without one); NaN if there is one.
 * Integers wrap.
 *
 * @throws {ShapeError} For no elements.
 * @throws {DTypeError} For bool.
 *
 * @example
 * ```ts
 * ptp(tensor([[1, 5], [2, 9]]), 1).toArray(); // => [4, 7]
 * ```
 */
export function ptp<
  X extends AnyTensor,
  const B extends t.AxisArg = undefined,
  const K extends boolean = false,
>(
  x: X,
  axis?: t.Guard<t.Reduce<"ptp", t.ShapeOf<X>, B, K>, B>,
  options?: KeepOptions<K>,
): Tensor<X["dtype"], t.Ok<t.Reduce<"ptp", t.ShapeOf<X>, B, K>>, X["device"]>;
export function ptp(x: AnyTensor, axis?: t.AxisArg, options: KeepOptions<boolean> = {}): Operand {
  checkOptions("ptp", options, ["keepDims", "out"]);
  const { keepDims, out } = options;
  return dispatch(PTP, [x], { axis: ownAxes(axis, "ptp"), keepDims }, out);
}

// ---- weighted means ----------------------------------------------------------------------------

/** Weights in the shape of `x`: of the same shape, or a vector along the only axis. */
function checkWeights(name: string, x: Operand, weights: Operand, axis: unknown): void {
  const [own, other] = [x.layout.shape, weights.layout.shape];
  if (sameShape(own, other)) return;
  const axes = normalizeAxes(name, axis as number, own.length);
  const fits = axis !== undefined && axis !== null && axes.length === other.length &&
    axes.every((one, k) => own[one] === other[k]);
  if (fits) return;
  throw new ShapeError(
    `Cannot ${name} shape ${formatShape(own)} with weights of shape ${formatShape(other)}: they ` +
      "need the shape of the input, or the sizes of the given axes",
  );
}

/** Sums of products over `axes` as a matrix product: a vector along one axis, or all elements. */
function productOf(x: Operand, weights: Operand, axes: readonly number[]): Operand | undefined {
  const { layout: { shape, size, contiguous } } = x;
  if (size === 0) return undefined;
  if (weights.layout.shape.length === 1 && axes.length === 1) {
    const last = applyView(VIEWS.moveAxis, x, "moveAxis", axes[0]!, -1);
    return matmul(last, weights);
  }
  // Weights of the sizes of the axes in another order are permuted first.
  if (axes.length < shape.length || !sameShape(weights.layout.shape, shape)) return undefined;
  if (!contiguous || !weights.layout.contiguous) return undefined;
  const [a, b] = [x, weights].map((one) => applyView(VIEWS.flatten, one, "flatten"));
  return matmul(a!, b!);
}

const AVERAGE: Op = makeOp({
  kind: "kernel",
  name: "average",
  infer(call: Call) {
    const { name, inputs: [x, weights], attributes: { axis, keepDims } } = call;
    checkOperand(x, name);
    checkOperand(weights, name);
    checkDevice(x.storage, weights.storage, name);
    checkKind(weights.storage.info, "biuf", name);
    checkKind(x.storage.info, "biuf", name);
    checkWeights(name, x, weights, axis);
    const dtype = promoteTypes(x.storage.info.name, weights.storage.info.name, name);
    const { shape } = reductionOf(name, x.layout, axis, keepDims === true);
    return [{ shape, dtype: DTYPE[floatOf(dtype)] }];
  },
  decompose(call: Call) {
    const { name, attributes: { axis, keepDims } } = call;
    const { shape } = call.operand(0).layout;
    const dtype = call.specs[0]!.dtype.name;
    const [x, given] = widen(call.operand(0), call.operand(1)) as [Operand, Operand];
    let weights = given;
    const product = productOf(x, weights, normalizeAxes(name, axis, shape.length));
    if (product !== undefined) {
      const total = dispatch(REDUCE.sum, [weights], { axis: undefined }, undefined, name);
      const mean = cast(apply(MAP.div, product, total), dtype);
      return applyView(VIEWS.reshape, mean, "reshape", call.specs[0]!.shape);
    }
    if (!sameShape(weights.layout.shape, shape)) {
      const axes = normalizeAxes(name, axis, shape.length);
      // The axes of the weights in the order of those of x.
      const order = axes.map((one, k) => [one, k] as const).sort(([a], [b]) => a - b);
      weights = applyView(VIEWS.permute, weights, "permute", order.map(([, k]) => k));
      const line = shape.map((n, i) => axes.includes(i) ? n : 1);
      weights = applyView(VIEWS.reshape, weights, "reshape", line);
    }
    const along = { axis, keepDims };
    const whole = applyView(VIEWS.broadcastTo, weights, "broadcastTo", shape);
    const sum = dispatch(REDUCE.sum, [apply(MAP.mul, x, weights)], along, undefined, name);
    const total = dispatch(REDUCE.sum, [whole], along, undefined, name);
    return cast(apply(MAP.div, sum, total), dtype);
  },
});

/** Options of `average`. */
export interface AverageOptions<K extends boolean, W = AnyTensor | undefined>
  extends KeepOptions<K> {
  /** The weights: of the shape of the input, or a vector along `axis`. All 1 by default. */
  readonly weights?: W;
}

/**
 * The weighted mean over `axis` (all axes without one): sum(x * weights) / sum(weights). Integers
 * are computed in float64 and give float32. NaN if the weights add up to 0 and the elements do too.
 *
 * @throws {ShapeError} For weights that do not fit.
 *
 * @example
 * ```ts
 * average(tensor([1, 2, 4]), 0, { weights: tensor([1, 1, 2]) }).item(); // => 2.75
 * ```
 */
export function average<
  X extends AnyTensor,
  const B extends t.AxisArg = undefined,
  const K extends boolean = false,
  W extends AnyTensor | undefined = undefined,
>(
  x: X,
  axis?: t.Guard<t.Reduce<"average", t.ShapeOf<X>, B, K>, B>,
  options?: AverageOptions<K, W>,
): Tensor<t.FloatBeside<X, W>, t.Ok<t.Reduce<"average", t.ShapeOf<X>, B, K>>, X["device"]>;
export function average(
  x: AnyTensor,
  axis?: t.AxisArg,
  options: AverageOptions<boolean, AnyTensor | undefined> = {},
): Operand {
  checkOptions("average", options, ["weights", "keepDims", "out"]);
  const { weights, keepDims, out } = options;
  const attributes = { axis: ownAxes(axis, "average"), keepDims };
  if (weights === undefined) {
    return dispatch(REDUCE.mean, [x], attributes, out, "average");
  }
  return dispatch(AVERAGE, [x, ownOperand(weights, "average")], attributes, out);
}

// ---- covariances -------------------------------------------------------------------------------

interface CovarianceAttributes {
  readonly rowVariables: boolean;
  readonly correction: number;
  readonly hasY: boolean;
  readonly hasFrequencies: boolean;
  readonly hasWeights: boolean;
}

/** The inputs of a covariance: x, and the others that are given. */
function covarianceInputs(call: Call): {
  x: Operand;
  y: Operand | undefined;
  frequencies: Operand | undefined;
  weights: Operand | undefined;
} {
  const { hasY, hasFrequencies, hasWeights } = call.attributes as CovarianceAttributes;
  let k = 1;
  const next = (given: boolean): Operand | undefined => given ? call.operand(k++) : undefined;
  return {
    x: call.operand(0),
    y: next(hasY),
    frequencies: next(hasFrequencies),
    weights: next(hasWeights),
  };
}

/** [variables, observations] of an operand, as a view. */
function variables(x: Operand, rowVariables: boolean): Operand {
  const { shape } = x.layout;
  if (shape.length < 2) return applyView(VIEWS.reshape, x, "reshape", [1, x.layout.size]);
  return rowVariables ? x : applyView(VIEWS.transpose, x, "transpose");
}

function countVariables({ shape }: Operand["layout"], rowVariables: boolean): [number, number] {
  if (shape.length < 2) return [1, shape[0] ?? 1];
  return rowVariables ? [shape[0]!, shape[1]!] : [shape[1]!, shape[0]!];
}

function inferCovariance(call: Call) {
  const { name, attributes } = call;
  const { rowVariables, correction } = attributes as CovarianceAttributes;
  for (const input of call.inputs) checkOperand(input, name);
  const { x, y, frequencies, weights } = covarianceInputs(call);
  if (typeof correction !== "number" || Number.isNaN(correction)) {
    throw new ArgumentError(`${name}() needs a number as correction, got ${describe(correction)}`);
  }
  let dtype: DType = x.storage.info.name;
  for (const one of call.inputs as Operand[]) {
    checkDevice(x.storage, one.storage, name);
    checkKind(one.storage.info, "biuf", name);
  }
  for (const one of [x, y]) {
    if (one !== undefined && one.layout.shape.length > 2) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(one.layout.shape)}: it takes at most 2 axes`,
      );
    }
  }
  let [count, observations] = countVariables(x.layout, rowVariables);
  if (y !== undefined) {
    dtype = promoteTypes(dtype, y.storage.info.name, name);
    const [more, others] = countVariables(y.layout, rowVariables);
    if (others !== observations) {
      throw new ShapeError(
        `Cannot ${name} shapes ${formatShape(x.layout.shape)} and ${
          formatShape(y.layout.shape)
        }: they have ${observations} and ${others} observations`,
      );
    }
    count += more;
  }
  for (const one of [frequencies, weights]) {
    if (one !== undefined && !sameShape(one.layout.shape, [observations])) {
      throw new ShapeError(
        `Cannot ${name} ${observations} observations with weights of shape ${
          formatShape(one.layout.shape)
        }: it takes a vector with one for each`,
      );
    }
  }
  // One variable has a variance, as in NumPy.
  const shape = y === undefined && count === 1 ? [] : [count, count];
  return [{ shape, dtype: DTYPE[floatOf(dtype)] }];
}

/** The covariance matrix, [variables, variables]. */
function covariance(call: Call): Operand {
  const { name } = call;
  const { rowVariables, correction } = call.attributes as CovarianceAttributes;
  const own = covarianceInputs(call);
  // Each variable from its first observation.
  const moved = [own.x, own.y].filter((one) => one !== undefined)
    .map((one) => fromFirst(variables(one, rowVariables), 1, name));
  const factors = [own.frequencies, own.weights].filter((one) => one !== undefined);
  const wide = widen(...moved, ...factors);
  const parts = wide.splice(0, moved.length);
  const frequencies = own.frequencies && wide.shift();
  const reliable = own.weights && wide.shift();
  let w = frequencies;
  if (reliable !== undefined) w = w === undefined ? reliable : apply(MAP.mul, w, reliable);
  const [, observations] = parts[0]!.layout.shape as [number, number];
  const sum = (one: Operand, axis?: number, keepDims?: boolean): Operand =>
    dispatch(REDUCE.sum, [one], { axis, keepDims }, undefined, name);
  const total = w === undefined ? observations : sum(w);
  const centered = parts.map((one) => {
    const mean = w === undefined
      ? dispatch(REDUCE.mean, [one], { axis: 1, keepDims: true }, undefined, name)
      : apply(MAP.div, sum(apply(MAP.mul, one, w), 1, true), total);
    return apply(MAP.sub, one, mean);
  });
  let degrees: Operand | number;
  if (!isOperand(total)) degrees = Math.max(0, total - correction);
  else if (reliable === undefined || correction === 0) {
    degrees = apply(MAP.sub, total, correction);
  } else {
    const squares = sum(apply(MAP.mul, w!, reliable));
    degrees = apply(MAP.sub, total, apply(MAP.mul, apply(MAP.div, squares, total), correction));
  }
  const blocks = centered.map((left) => {
    const weighted = w === undefined ? left : apply(MAP.mul, left, w);
    return centered.map((right) =>
      matmul(weighted, applyView(VIEWS.transpose, right, "transpose"))
    );
  });
  const rows = blocks.map((row) => row.length === 1 ? row[0]! : concat(row, 1));
  const product = rows.length === 1 ? rows[0]! : concat(rows, 0);
  return apply(MAP.div, product, degrees);
}

const COV: Op = makeOp({
  kind: "kernel",
  name: "cov",
  infer: inferCovariance,
  decompose(call: Call) {
    const { shape, dtype } = call.specs[0]!;
    return cast(applyView(VIEWS.reshape, covariance(call), "reshape", shape), dtype.name);
  },
});

const CORRCOEF: Op = makeOp({
  kind: "kernel",
  name: "corrcoef",
  infer: inferCovariance,
  decompose(call: Call) {
    const { shape, dtype } = call.specs[0]!;
    const matrix = covariance(call);
    if (shape.length === 0) {
      const one = apply(MAP.div, matrix, matrix);
      return cast(applyView(VIEWS.reshape, one, "reshape", shape), dtype.name);
    }
    const diagonal = applyView(VIEWS.diagonal, matrix, "diagonal");
    const deviations = apply(MAP.sqrt, diagonal);
    const column = applyView(VIEWS.expandDims, deviations, "expandDims", 1);
    const made = apply(MAP.div, apply(MAP.div, matrix, column), deviations);
    const limited = apply(MAP.clip, made, -1, 1);
    return cast(applyView(VIEWS.reshape, limited, "reshape", shape), dtype.name);
  },
});

/** Options of `corrcoef`. */
export interface CorrelationOptions<Y = AnyTensor | undefined, R extends boolean = boolean> {
  /** More variables, with as many observations. */
  readonly y?: Y;
  /** Whether rows are variables and columns observations (default), or the reverse. */
  readonly rowVariables?: R;
}

/** Options of `cov`. */
export interface CovarianceOptions<Y = AnyTensor | undefined, R extends boolean = boolean>
  extends CorrelationOptions<Y, R> {
  /** The number subtracted from the number of observations: 1 for a sample (default). */
  readonly correction?: number;
  /** How often each observation counts. */
  readonly frequencies?: AnyTensor;
  /** The weight of each observation. */
  readonly weights?: AnyTensor;
}

function covarianceOf(op: Op, x: AnyTensor, options: CovarianceOptions): Operand {
  const { y, rowVariables = true, correction = 1, frequencies, weights } = options;
  const given = [y, frequencies, weights].filter((one) => one !== undefined)
    .map((one) => ownOperand(one, op.name));
  const attributes: CovarianceAttributes = {
    rowVariables,
    correction,
    hasY: y !== undefined,
    hasFrequencies: frequencies !== undefined,
    hasWeights: weights !== undefined,
  };
  return dispatch(op, [x, ...given], attributes);
}

/**
 * The covariance matrix of the variables in the rows of `x`: [variables, variables]; of rank 0 for one
 * variable, such as a vector. Integers are computed in float64 and give float32.
 *
 * @throws {ShapeError} For more than 2 axes, or numbers of observations that differ.
 *
 * @example
 * ```ts
 * cov(tensor([[1, 2, 3], [3, 2, 1]])).toArray(); // => [[1, -1], [-1, 1]]
 * ```
 */
export function cov<
  X extends AnyTensor,
  Y extends AnyTensor | undefined = undefined,
  R extends boolean = true,
>(
  x: t.Guard<t.Covariances<"cov", t.ShapeOf<X>, R, Y>, X>,
  options?: CovarianceOptions<Y, R>,
): Tensor<t.FloatBeside<X, Y>, t.Ok<t.Covariances<"cov", t.ShapeOf<X>, R, Y>>, X["device"]>;
export function cov(
  x: AnyTensor,
  options: CovarianceOptions<AnyTensor | undefined, boolean> = {},
): Operand {
  const known = ["y", "rowVariables", "correction", "frequencies", "weights"];
  checkOptions("cov", options, known);
  return covarianceOf(COV, x, options as CovarianceOptions);
}

/**
 * The correlation coefficients of the variables in the rows of `x`, as {@link cov} has them: between
 * -1 and 1. NaN for variables without variance.
 *
 * @example
 * ```ts
 * corrcoef(tensor([[1, 2, 3], [6, 4, 2]])).toArray(); // => [[1, -1], [-1, 1]]
 * ```
 */
export function corrcoef<
  X extends AnyTensor,
  Y extends AnyTensor | undefined = undefined,
  R extends boolean = true,
>(
  x: t.Guard<t.Covariances<"corrcoef", t.ShapeOf<X>, R, Y>, X>,
  options?: CorrelationOptions<Y, R>,
): Tensor<t.FloatBeside<X, Y>, t.Ok<t.Covariances<"corrcoef", t.ShapeOf<X>, R, Y>>, X["device"]>;
export function corrcoef(
  x: AnyTensor,
  options: CorrelationOptions<AnyTensor | undefined, boolean> = {},
): Operand {
  checkOptions("corrcoef", options, ["y", "rowVariables"]);
  return covarianceOf(CORRCOEF, x, options as CorrelationOptions);
}
