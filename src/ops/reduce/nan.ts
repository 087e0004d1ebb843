/**
 * Reductions that ignore NaN.
 *
 * Integers and bools have no NaN: they take the ordinary reductions.
 *
 * @module
 */
import { DTYPE, type DType } from "../../base/dtype.ts";
import { ownAxes } from "../../base/shape.ts";
import { apply } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import {
  checkFloat,
  checkOperand,
  checkOptions,
  inferArgReduce,
  inferAs,
  inferReduce,
  inferScan,
  type ReduceAttributes,
} from "../../table/infer.ts";
import { type Call, makeOp, type Op, type ReduceOp } from "../../table/op.ts";
import { ARG_REDUCE, MAP, REDUCE, SCAN } from "../../table/table.ts";
import { maskedReduce } from "./masked.ts";
import {
  inferVariance,
  STANDARD_DEVIATION,
  VARIANCE,
  type VarianceAttributes,
} from "./variance.ts";

/** The axes of a reduction. */
type Axes = number | readonly number[] | null | undefined;

/** Options of reductions. */
interface Options {
  readonly out?: Operand | undefined;
  readonly keepDims?: boolean;
  readonly dtype?: DType | undefined;
}

const REDUCE_OPTIONS = ["keepDims", "dtype", "out"];
const KEEP_OPTIONS = ["keepDims", "out"];

function isFloat(x: Operand): boolean {
  return x.storage.info.kind === "f";
}

function isComplex(x: Operand): boolean {
  return x.storage.info.kind === "c";
}

/** `x` with `value` in the place of NaN, which integers do not have. */
function withoutNaN(x: Operand, value: number): Operand {
  return isFloat(x) || isComplex(x) ? apply(MAP.where, apply(MAP.isnan, x), value, x) : x;
}

const ROWS = {
  nansum: [REDUCE.nansum, REDUCE.sum],
  nanprod: [REDUCE.nanprod, REDUCE.prod],
  nanmax: [REDUCE.nanmax, REDUCE.max],
  nanmin: [REDUCE.nanmin, REDUCE.min],
} as const satisfies Record<string, readonly [ReduceOp, ReduceOp]>;

/** The sum, product, largest or smallest of the numbers over `axis`. */
export function nanReduce(
  name: keyof typeof ROWS,
  x: Operand,
  axis: Axes,
  options: Options = {},
): Operand {
  checkOperand(x, name);
  checkOptions(name, options, /max|min/.test(name) ? KEEP_OPTIONS : REDUCE_OPTIONS);
  const { keepDims, dtype, out } = options;
  const kind = dtype === undefined || !(dtype in DTYPE) ? x.storage.info.kind : DTYPE[dtype].kind;
  const row = ROWS[name][kind === "f" ? 0 : 1];
  // Of complex numbers, and of floats that are cast to what has no NaN.
  if ((isComplex(x) || isFloat(x)) && (row === REDUCE.sum || row === REDUCE.prod)) {
    const attributes = { axis: ownAxes(axis, name), keepDims, dtype };
    const neutral = row === REDUCE.sum ? 0 : 1;
    return tidy(() => dispatch(row, [withoutNaN(x, neutral)], attributes, out, name));
  }
  return dispatch(row, [x], { axis: ownAxes(axis, name), keepDims, dtype }, out, name);
}

// ---- means and variances -----------------------------------------------------------------------

/** The operand in the dtype of the arithmetic: 16-bit floats would overflow. */
function widened(x: Operand, dtype: DType | undefined): Operand {
  const own = cast(x, dtype ?? x.storage.info.name);
  return DTYPE[own.storage.info.name].bytes === 2 ? cast(own, "float32") : own;
}

/** The sums of the numbers over their counts. */
function meanOf(x: Operand, axis: Axes, keepDims: boolean | undefined, name: string): Operand {
  const attributes = { axis, keepDims };
  if (isComplex(x)) {
    const sum = dispatch(REDUCE.sum, [withoutNaN(x, 0)], attributes, undefined, name);
    const numbers = apply(MAP.logicalNot, apply(MAP.isnan, x));
    const count = dispatch(REDUCE.countNonzero, [numbers], attributes, undefined, name);
    return apply(MAP.div, sum, cast(count, sum.storage.info.name));
  }
  const sum = dispatch(REDUCE.nansum, [x], attributes, undefined, name);
  const count = dispatch(REDUCE.countNumbers, [x], attributes, undefined, name);
  return apply(MAP.div, sum, count);
}

const MEAN: Op = makeOp({
  kind: "kernel",
  name: "nanmean",
  infer: (call: Call) => inferAs(REDUCE.mean, call, inferReduce),
  decompose(call: Call) {
    const { name, attributes, specs } = call;
    const { axis, keepDims, dtype } = attributes as ReduceAttributes;
    const x = widened(call.operand(0), dtype);
    return cast(meanOf(x, axis, keepDims, name), specs[0]!.dtype.name);
  },
});

function varianceOp(name: "nanvar" | "nanstd"): Op {
  return makeOp({
    kind: "kernel",
    name,
    infer: inferVariance,
    decompose(call: Call) {
      const { attributes, specs } = call;
      const { axis, keepDims, dtype, correction } = attributes as VarianceAttributes;
      const along = { axis, keepDims };
      const given = call.operand(0);
      if (isComplex(given)) {
        const where = apply(MAP.logicalNot, apply(MAP.isnan, given));
        const count = dispatch(REDUCE.countNonzero, [where], along, undefined, name);
        const row = name === "nanvar" ? "var" : "std";
        const made = maskedReduce(row, given, axis, { where, keepDims, dtype, correction });
        return apply(MAP.where, apply(MAP.greater, count, correction), made, NaN);
      }
      const x = widened(given, dtype);
      const center = meanOf(x, axis, true, name);
      const squares = dispatch(REDUCE.nanSquares, [x, center], along, undefined, name);
      const count = dispatch(REDUCE.countNumbers, [x], along, undefined, name);
      const degrees = cast(
        apply(MAP.sub, cast(count, x.storage.info.name), correction),
        x.storage.info.name,
      );
      const positive = apply(MAP.where, apply(MAP.greater, degrees, 0), degrees, NaN);
      const variance = apply(MAP.div, squares, positive);
      const made = name === "nanvar" ? variance : apply(MAP.sqrt, variance);
      return cast(made, specs[0]!.dtype.name);
    },
  });
}

const VAR = varianceOp("nanvar");
const STD = varianceOp("nanstd");

/** The mean of the numbers over `axis`; NaN if there are none. */
export function nanMean(x: Operand, axis: Axes, options: Options = {}): Operand {
  const name = "nanmean";
  checkOperand(x, name);
  checkOptions(name, options, REDUCE_OPTIONS);
  const { keepDims, dtype, out } = options;
  if (dtype !== undefined) checkFloat(dtype, name);
  const op = isFloat(x) || isComplex(x) ? MEAN : REDUCE.mean;
  return dispatch(op, [x], { axis: ownAxes(axis, name), keepDims, dtype }, out, name);
}

/** The variance or standard deviation of the numbers over `axis`. */
export function nanVariance(
  name: "nanvar" | "nanstd",
  x: Operand,
  axis: Axes,
  options: Options & { readonly correction?: number } = {},
): Operand {
  checkOperand(x, name);
  checkOptions(name, options, ["correction", ...REDUCE_OPTIONS]);
  const { correction = 0, keepDims, dtype, out } = options;
  if (dtype !== undefined) checkFloat(dtype, name);
  const isVar = name === "nanvar";
  const op = isFloat(x) || isComplex(x) ? isVar ? VAR : STD : isVar ? VARIANCE : STANDARD_DEVIATION;
  const attributes = { axis: ownAxes(axis, name), keepDims, dtype, correction };
  return dispatch(op, [x], attributes, out, name);
}

// ---- indices and running sums ------------------------------------------------------------------

function argOp(name: "nanargmax" | "nanargmin"): Op {
  const row = name === "nanargmax" ? ARG_REDUCE.argmax : ARG_REDUCE.argmin;
  return makeOp({
    kind: "kernel",
    name,
    infer: (call: Call) => inferAs(row, call, inferArgReduce),
    decompose(call: Call) {
      const x = call.operand(0);
      const last = name === "nanargmax" ? -Infinity : Infinity;
      const numbers = isFloat(x) ? apply(MAP.where, apply(MAP.isnan, x), last, x) : x;
      return dispatch(row, [numbers], call.attributes, undefined, call.name);
    },
  });
}

const ARG_OPS = { nanargmax: argOp("nanargmax"), nanargmin: argOp("nanargmin") };

/** The index of the largest or smallest number; of the first element if there is no number. */
export function nanArgReduce(
  name: keyof typeof ARG_OPS,
  x: Operand,
  axis: number | null | undefined,
  options: Options = {},
): Operand {
  checkOptions(name, options, KEEP_OPTIONS);
  const { keepDims, out } = options;
  return dispatch(ARG_OPS[name], [x], { axis, keepDims }, out);
}

function scanOp(name: "nancumsum" | "nancumprod"): Op {
  const row = name === "nancumsum" ? SCAN.cumulativeSum : SCAN.cumulativeProd;
  return makeOp({
    kind: "kernel",
    name,
    infer: (call: Call) => inferAs(row, call, inferScan),
    decompose(call: Call) {
      const x = call.operand(0);
      const numbers = withoutNaN(x, row.identity as number);
      return dispatch(row, [numbers], call.attributes, undefined, call.name);
    },
  });
}

const SCAN_OPS = { nancumsum: scanOp("nancumsum"), nancumprod: scanOp("nancumprod") };

/** Running sums or products along `axis`, with NaN as 0 or 1. */
export function nanScan(
  name: keyof typeof SCAN_OPS,
  x: Operand,
  axis: number | undefined,
  options: { dtype?: DType; includeInitial?: boolean; out?: Operand } = {},
): Operand {
  checkOptions(name, options, ["dtype", "includeInitial", "out"]);
  const { dtype, includeInitial, out } = options;
  return dispatch(SCAN_OPS[name], [x], { axis, dtype, includeInitial }, out);
}
