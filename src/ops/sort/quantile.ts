/**
 * Medians, quantiles, percentiles and modes over any axes, by kernels that work along the last one.
 *
 * @module
 */
import { DTYPE, type DType, type DTypeInfo } from "../../base/dtype.ts";
import { ArgumentError, ShapeError } from "../../base/errors.ts";
import { formatShape, listIn, normalizeAxes, ownAxes } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { contiguousCopy } from "../../core/copy.ts";
import { applyView } from "../../core/apply.ts";
import { dispatch, dispatchAll } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import {
  checkCount,
  checkKind,
  checkOperand,
  checkOptions,
  type ReduceAttributes,
  reductionOf,
} from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { VIEWS } from "../../table/views.ts";

/** How a quantile follows from the elements around its place, as in NumPy; kernels know the order. */
export const QUANTILE_METHODS = [
  "median",
  "linear",
  "lower",
  "higher",
  "midpoint",
  "nearest",
  "invertedCdf",
  "averagedInvertedCdf",
  "closestObservation",
  "interpolatedInvertedCdf",
  "hazen",
  "weibull",
  "medianUnbiased",
  "normalUnbiased",
] as const;

/** Attributes of `quantilesOfRows`. */
export interface QuantileRowsAttributes {
  /** The quantiles, from 0 to 1. */
  readonly q: readonly number[];
  /** How to interpolate; `"median"` is the mean of the elements in the middle. */
  readonly method: (typeof QUANTILE_METHODS)[number];
  /** Whether NaN does not count; else it gives NaN. */
  readonly ignoreNaN: boolean;
  /** The float dtype of the result. */
  readonly dtype: DType;
}

type Axes = ReduceAttributes["axis"];

// ---- along the last axis -----------------------------------------------------------------------

/** The quantiles of each row, along the last axis of the output. */
const QUANTILES_OF_ROWS: Op = makeOp({
  kind: "kernel",
  name: "quantilesOfRows",
  contiguous: [0],
  infer(call: Call): readonly OutputSpec[] {
    const { q, dtype } = call.attributes as QuantileRowsAttributes;
    const rows = call.operand(0).layout.shape.slice(0, -1);
    return [{ shape: [...rows, q.length], dtype: DTYPE[dtype] }];
  },
});

/** The most frequent element of each row, the smallest of several, and its count. */
const MODES_OF_ROWS: Op = makeOp({
  kind: "kernel",
  name: "modesOfRows",
  contiguous: [0],
  infer(call: Call): readonly OutputSpec[] {
    const { storage, layout } = call.operand(0);
    const shape = layout.shape.slice(0, -1);
    return [{ shape, dtype: storage.info }, { shape, dtype: DTYPE.int32 }];
  },
});

/** `x` with the reduced axes last, as one. */
function rowsOf(x: Operand, axis: Axes, name: string): Operand {
  const { shape } = x.layout;
  const along = normalizeAxes(name, axis, shape.length);
  const kept = shape.map((_, i) => i).filter((i) => !along.includes(i));
  const moved = applyView(VIEWS.permute, x, "permute", [...kept, ...along]);
  const count = along.reduce((n, i) => n * shape[i]!, 1);
  return applyView(VIEWS.reshape, moved, "reshape", [...kept.map((i) => shape[i]!), count]);
}

/** A copy of `x` in another shape. */
function shaped(x: Operand, shape: readonly number[]): Operand {
  return contiguousCopy(applyView(VIEWS.reshape, x, "reshape", shape));
}

// ---- quantiles ---------------------------------------------------------------------------------

/** How a quantile between two elements is computed; {@link Tensor.quantile} lists the methods. */
export type QuantileMethod =
  | "linear"
  | "lower"
  | "higher"
  | "midpoint"
  | "nearest"
  | "invertedCdf"
  | "averagedInvertedCdf"
  | "closestObservation"
  | "interpolatedInvertedCdf"
  | "hazen"
  | "weibull"
  | "medianUnbiased"
  | "normalUnbiased";

/** Options of quantiles. */
export interface QuantileOptions {
  /** How to interpolate between elements; `"linear"` by default. */
  readonly method?: QuantileMethod;
  /** Keep reduced axes as axes of size 1. */
  readonly keepDims?: boolean;
  /** Write the result here instead of allocating. */
  readonly out?: Operand | undefined;
}

/** The names of the ops. */
export type QuantileName = "quantile" | "percentile" | "nanquantile" | "nanpercentile";
/** Those of medians. */
export type MedianName = "median" | "nanmedian";

interface QuantileAttributes extends ReduceAttributes {
  readonly q: number | readonly number[];
  readonly method: (typeof QUANTILE_METHODS)[number];
}

/** The dtype of a quantile: floats keep theirs. */
function quantileDType(info: DTypeInfo): DTypeInfo {
  return info.kind === "f" ? info : DTYPE.float32;
}

/** One rank or several, checked; several are copied. */
function ownQuantiles(name: string, q: unknown, most: number): number | number[] {
  const checked = (one: unknown): number => {
    if (typeof one === "number" && one >= 0 && one <= most) return one;
    throw new ArgumentError(`${name}() needs numbers from 0 to ${most} as q, got ${describe(one)}`);
  };
  return listIn(q, checked) ?? checked(q);
}

function quantileOp(name: QuantileName | MedianName): Op {
  const most = name.endsWith("percentile") ? 100 : 1;
  return makeOp({
    kind: "kernel",
    name,
    infer(call: Call): readonly OutputSpec[] {
      const x = call.operand(0);
      const { q, axis, keepDims = false } = call.attributes as QuantileAttributes;
      checkKind(x.storage.info, "biuf", call.name);
      const { shape } = reductionOf(call.name, x.layout, axis, keepDims);
      const dtype = quantileDType(x.storage.info);
      return [{ shape: typeof q === "number" ? shape : [q.length, ...shape], dtype }];
    },
    decompose(call: Call): Operand {
      const { q, axis, method } = call.attributes as QuantileAttributes;
      const { shape, dtype } = call.specs[0]!;
      const rows = rowsOf(call.operand(0), axis, call.name);
      const attributes: QuantileRowsAttributes = {
        q: (typeof q === "number" ? [q] : q).map((one) => one / most),
        method,
        ignoreNaN: name.startsWith("nan"),
        dtype: dtype.name,
      };
      const values = dispatch(QUANTILES_OF_ROWS, [rows], attributes, undefined, call.name);
      return shaped(applyView(VIEWS.moveAxis, values, "moveAxis", -1, 0), shape);
    },
  });
}

const QUANTILES: Readonly<Record<QuantileName | MedianName, Op>> = {
  quantile: quantileOp("quantile"),
  percentile: quantileOp("percentile"),
  nanquantile: quantileOp("nanquantile"),
  nanpercentile: quantileOp("nanpercentile"),
  median: quantileOp("median"),
  nanmedian: quantileOp("nanmedian"),
};

/** Quantiles over `axis`: a new first axis for an array of them. */
export function quantile(
  name: QuantileName,
  x: Operand,
  q: number | readonly number[],
  axis: Axes,
  options: QuantileOptions = {},
): Operand {
  checkOperand(x, name);
  checkOptions(name, options, ["method", "keepDims", "out"]);
  const { method = "linear", keepDims, out } = options;
  if (!QUANTILE_METHODS.includes(method) || method as string === "median") {
    throw new ArgumentError(
      `${name}() needs a method of ${QUANTILE_METHODS.slice(1).join(", ")}; got ${
        describe(method)
      }`,
    );
  }
  const own = ownQuantiles(name, q, name.endsWith("percentile") ? 100 : 1);
  const attributes = { q: own, axis: ownAxes(axis, name), keepDims, method };
  return dispatch(QUANTILES[name], [x], attributes, out);
}

/** The median over `axis`: the mean of the two elements in the middle, if there are two. */
export function median(
  name: MedianName,
  x: Operand,
  axis: Axes,
  options: Omit<QuantileOptions, "method"> = {},
): Operand {
  checkOperand(x, name);
  checkOptions(name, options, ["keepDims", "out"]);
  const { keepDims, out } = options;
  const attributes = { q: 0.5, axis: ownAxes(axis, name), keepDims, method: "median" };
  return dispatch(QUANTILES[name], [x], attributes, out);
}

// ---- modes -------------------------------------------------------------------------------------

const MODE: Op = makeOp({
  kind: "kernel",
  name: "mode",
  infer(call: Call): readonly OutputSpec[] {
    const x = call.operand(0);
    const { axis, keepDims = false } = call.attributes as ReduceAttributes;
    checkKind(x.storage.info, "biuf", call.name);
    const { shape, count } = reductionOf(call.name, x.layout, axis, keepDims);
    checkCount(call.name, x.layout, count);
    if (count === 0 && !shape.includes(0)) {
      throw new ShapeError(
        `Cannot ${call.name} shape ${
          formatShape(x.layout.shape)
        }: a mode needs at least one element`,
      );
    }
    return [{ shape, dtype: x.storage.info }, { shape, dtype: DTYPE.int32 }];
  },
  decompose(call: Call): Operand[] {
    const { axis } = call.attributes as ReduceAttributes;
    const rows = rowsOf(call.operand(0), axis, call.name);
    return dispatchAll(MODES_OF_ROWS, [rows], undefined, call.name)
      .map((y, k) => shaped(y, call.specs[k]!.shape));
  },
});

/** The most frequent elements over `axis`, the smallest of several, and their counts as int32. */
export function mode(
  x: Operand,
  axis: Axes,
  options: { readonly keepDims?: boolean } = {},
): { values: Operand; counts: Operand } {
  checkOperand(x, "mode");
  checkOptions("mode", options, ["keepDims"]);
  const { keepDims } = options;
  const [values, counts] = dispatchAll(MODE, [x], { axis: ownAxes(axis, "mode"), keepDims });
  return { values: values!, counts: counts! };
}
