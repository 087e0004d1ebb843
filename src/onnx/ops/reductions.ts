/**
 * Ops along axes: sums, largest elements, softmax, running sums, norms of axes.
 *
 * @module
 */
import { where } from "../../api/functions/tensors.ts";
import { sizeOf } from "../../base/shape.ts";
import { argIndex } from "../../ops/reduce/arg_index.ts";
import { Slice } from "../../base/slice.ts";
import { arange, full, fullMax, fullMin } from "../../tensor/create.ts";
import type { Call, Implementation } from "../graph/call.ts";
import type { T, Value } from "../graph/values.ts";
import { isFloat } from "./elementwise.ts";

interface KeepDims {
  readonly keepDims: boolean;
}
type Reduce = (x: T, axes: readonly number[], keep: KeepDims) => T;

/** A reduction over axes: an attribute in old opsets, an input in new ones. */
function reduction(compute: Reduce): Implementation {
  return (call) => {
    const x = call.tensor(0);
    const given = call.ints("axes", 1);
    const keepDims = call.node.flag("keepdims", true);
    const isEmpty = given === undefined || given.length === 0;
    if (isEmpty && call.node.flag("noop_with_empty_axes")) return [compute(x, [], { keepDims })];
    // A number is its own sum, along an axis that it does not have, too.
    const axes = isEmpty || x.rank === 0
      ? x.shape.map((_, k) => k)
      : given.map((axis) => call.axis(axis, x.rank));
    return [compute(x, axes, { keepDims })];
  };
}

/** Sums stay of the dtype of their elements. */
const sum: Reduce = (x, axes, keep) => (x.sum(axes, keep) as T).astype(x.dtype);

/** The lowest value of a dtype: what the largest of no elements is. */
function extreme(largest: boolean): Reduce {
  return (x, axes, { keepDims }) => {
    if (axes.length === 0) return x;
    const isEmpty = axes.some((axis) => x.shape[axis] === 0);
    if (isEmpty) {
      const shape = x.shape.flatMap((n, k) => axes.includes(k) ? (keepDims ? [1] : []) : [n]);
      const bound = isFloat(x.dtype) ? Infinity : undefined;
      const options = { dtype: x.dtype };
      if (x.dtype === "bool") return full(shape, !largest, options) as T;
      if (bound !== undefined) return full(shape, largest ? -bound : bound, options) as T;
      return (largest ? fullMin(shape, options) : fullMax(shape, options)) as T;
    }
    if (x.dtype === "bool") {
      return (largest ? x.any(axes, { keepDims }) : x.all(axes, { keepDims })) as T;
    }
    return (largest ? x.max(axes, { keepDims }) : x.min(axes, { keepDims })) as T;
  };
}

/** The mean of integers is truncated. */
const mean: Reduce = (x, axes, keep) => (x.mean(axes, keep) as T).astype(x.dtype);

const cast = (x: T, dtype: T["dtype"]): T => x.astype(dtype);

const inFloats = (compute: Reduce): Reduce => (x, axes, keep) => {
  if (isFloat(x.dtype)) return compute(x, axes, keep);
  return cast(compute(x.astype("float64"), axes, keep), x.dtype);
};

function argReduce(largest: boolean): Implementation {
  return (call) => {
    const x = call.tensor(0);
    const axis = call.axis(call.node.int("axis", 0), x.rank);
    const keepDims = call.node.flag("keepdims", true);
    const last = call.node.flag("select_last_index");
    return [argIndex("argIndex", x, axis, { largest, keepDims, last }) as T];
  };
}

/** Softmax and its kind: over one axis, or in old opsets over all axes from one on. */
function softmaxKind(compute: (x: T, axis: number) => T): Implementation {
  return (call) => {
    const x = call.tensor(0);
    if (call.opset >= 13) return [compute(x, call.axis(call.node.int("axis", -1), x.rank))];
    const given = call.node.int("axis", 1);
    // The first axis of the columns, which may be none.
    const axis = call.axis(given, given < 0 ? x.rank : x.rank + 1);
    const [rows, columns] = [sizeOf(x.shape.slice(0, axis)), sizeOf(x.shape.slice(axis))];
    if (axis === x.rank - 1) return [compute(x, axis)];
    return [compute(x.reshape([rows, columns]), 1).reshape(x.shape)];
  };
}

function hardmax(x: T, axis: number): T {
  if (x.size === 0) return x;
  const shape = x.shape.map((n, k) => k === axis ? n : 1);
  const places: T = arange(x.shape[axis]!, { dtype: "int32" }).reshape(shape);
  const best: T = x.argmax(axis, { keepDims: true }) as T;
  return best.equal(places).astype(x.dtype);
}

/** A running sum or product: with the element itself or without, from the front or the end. */
function running(compute: (x: T, axis: number) => T, start: number): Implementation {
  return (call) => {
    const x = call.tensor(0);
    const axis = call.axis(call.number(1), x.rank);
    const isReverse = call.node.flag("reverse");
    const from = isReverse ? x.flip(axis) : x;
    let made: T = compute(from, axis).astype(x.dtype);
    if (call.node.flag("exclusive")) {
      const around = x.shape.map((_, k): [number, number] => k === axis ? [1, 0] : [0, 0]);
      made = made.pad(around, { value: start }).sliceAxis(axis, new Slice(0, x.shape[axis]!));
    }
    return [isReverse ? made.flip(axis) : made];
  };
}

function topK(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const axis = call.axis(call.node.int("axis", -1), x.rank);
  const count = call.has(1) ? call.number(1) : call.node.int("k");
  const largest = call.node.flag("largest", true);
  const { values, indices } = x.topk(count, axis, { largest });
  return [values as T, indices.astype("int64") as T];
}

function lpNormalization(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const axis = call.axis(call.node.int("axis", -1), x.rank);
  const keep = { keepDims: true };
  const norm: T = call.node.int("p", 2) === 1
    ? (x.abs().sum(axis, keep) as T)
    : (x.square().sum(axis, keep) as T).sqrt();
  return [where(norm.equal(0), x, x.div(norm)) as T];
}

function meanVariance(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const axes = (call.node.ints("axes") ?? [0, 2, 3]).map((axis) => call.axis(axis, x.rank));
  const keep = { keepDims: true };
  const centered: T = x.sub(x.mean(axes, keep) as T);
  const deviation: T = (centered.square().mean(axes, keep) as T).sqrt();
  return [centered.div(deviation.add(1e-9))];
}

/** The ops. */
export const REDUCTIONS: Readonly<Record<string, Implementation>> = {
  ReduceSum: reduction(sum),
  ReduceMean: reduction(mean),
  ReduceMax: reduction(extreme(true)),
  ReduceMin: reduction(extreme(false)),
  ReduceProd: reduction((x, axes, keep) => cast(x.prod(axes, keep) as T, x.dtype)),
  ReduceSumSquare: reduction((x, axes, keep) => sum(x.mul(x), axes, keep)),
  ReduceL1: reduction((x, axes, keep) => sum(x.abs(), axes, keep)),
  ReduceL2: reduction(inFloats((x, axes, keep) => sum(x.square(), axes, keep).sqrt())),
  ReduceLogSum: reduction(inFloats((x, axes, keep) => sum(x, axes, keep).log())),
  ReduceLogSumExp: reduction(
    inFloats((x, axes, keep) =>
      axes.length === 0 ? x : cast(x.logsumexp(axes, keep) as T, x.dtype)
    ),
  ),
  ArgMax: argReduce(true),
  ArgMin: argReduce(false),
  Softmax: softmaxKind((x, axis) => x.softmax(axis)),
  LogSoftmax: softmaxKind((x, axis) => x.logSoftmax(axis)),
  Hardmax: softmaxKind(hardmax),
  CumSum: running((x, axis) => x.cumulativeSum(axis) as T, 0),
  CumProd: running((x, axis) => x.cumulativeProd(axis) as T, 1),
  TopK: topK,
  LpNormalization: lpNormalization,
  MeanVarianceNormalization: meanVariance,
};
