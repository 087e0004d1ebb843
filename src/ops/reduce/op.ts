/**
 * Reductions, index reductions and scans, and the ops composed of several: variances, norms,
 * logsumexp, closeness.
 *
 * @module
 */
import type { Complex, DType, Scalar } from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import {
  broadcastShapes,
  formatShape,
  normalizeAxes,
  normalizeAxis,
  ownAxes,
  sameShape,
} from "../../base/shape.ts";
import { cast, contiguousCopy } from "../../core/copy.ts";
import { apply } from "../../core/apply.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import { hostRead } from "../../core/interpreter.ts";
import { readElement } from "../../memory/element.ts";
import { isOperand, isOperandArgument, type Operand } from "../../memory/operand.ts";
import {
  checkDevice,
  checkFloat,
  checkKind,
  checkOperand,
  checkOptions,
  inferReduce,
  resultOf,
} from "../../table/infer.ts";
import { argReduceParts, MOST_INT32 } from "./large_index.ts";
import {
  type ArgReduceOp,
  type Call,
  type Input,
  makeOp,
  type MapOp,
  type Op,
  type OutputSpec,
  type ReduceOp,
  type ScanOp,
} from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { maskedReduce, type MaskOptions, maskOptionsOf } from "./masked.ts";
import { STANDARD_DEVIATION, VARIANCE } from "./variance.ts";

/** The axes of a reduction. */
export type Axes = number | readonly number[] | null | undefined;

/** Options of reductions. */
export interface ReduceOptions {
  /** Write the result here instead of allocating. */
  readonly out?: Operand | undefined;
  /** Keep reduced axes as axes of size 1. */
  readonly keepDims?: boolean;
  /** Cast the input first; the sum of int32 values as float64, for instance. */
  readonly dtype?: DType | undefined;
}

const REDUCE_OPTIONS = ["keepDims", "dtype", "out"];
const KEEP_OPTIONS = ["keepDims", "out"];
const SCAN_OPTIONS = ["dtype", "includeInitial", "out"];
const OUT_OPTIONS = ["out"];

/** A reduction over `axis`, all axes for undefined or null. */
export function reduce(
  op: ReduceOp,
  x: Operand,
  axis: Axes,
  options?: ReduceOptions & MaskOptions,
  name: string = op.name,
): Operand {
  const along = ownAxes(axis, name);
  if (options === undefined) return dispatch(op, [x], { axis: along }, undefined, name);
  checkOptions(name, options, reduceOptionsOf(name));
  if (options.where !== undefined || options.initial !== undefined) {
    return maskedReduce(name as "sum", x, along, options);
  }
  const { keepDims, dtype, out } = options;
  return dispatch(op, [x], { axis: along, keepDims, dtype }, out, name);
}

const optionsOf = new Map<string, readonly string[]>();

/** The options of a reduction. */
function reduceOptionsOf(name: string): readonly string[] {
  let known = optionsOf.get(name);
  if (known === undefined) {
    optionsOf.set(name, known = [...REDUCE_OPTIONS, ...maskOptionsOf(name)]);
  }
  return known;
}

/** argmax or argmin along `axis`, or over all elements in row-major order. */
export function argReduce(
  op: ArgReduceOp,
  x: Operand,
  axis: number | null | undefined,
  options: { keepDims?: boolean; out?: Operand } = {},
): Operand {
  checkOptions(op.name, options, KEEP_OPTIONS);
  const { keepDims, out } = options;
  const { shape, size } = x.layout;
  if (size > MOST_INT32 && (axis === undefined || axis === null || typeof axis === "number")) {
    const along = typeof axis === "number" ? normalizeAxis(op.name, axis, shape.length) : null;
    if (along === null || shape[along]! > MOST_INT32) {
      return argReduceParts(op, x, along, keepDims === true, out);
    }
  }
  return dispatch(op, [x], { axis, keepDims }, out);
}

/** A scan along `axis`; with `includeInitial` the result begins with the start value. */
export function scan(
  op: ScanOp,
  x: Operand,
  axis: number | undefined,
  options: { dtype?: DType; includeInitial?: boolean; out?: Operand } = {},
): Operand {
  checkOptions(op.name, options, op.result === "same" ? OUT_OPTIONS : SCAN_OPTIONS);
  const { dtype, includeInitial, out } = options;
  return dispatch(op, [x], { axis, dtype, includeInitial }, out);
}

// ---- variances ---------------------------------------------------------------------------------

/** Options of `var` and `std`. */
export interface VarianceOptions extends ReduceOptions, Pick<MaskOptions, "where"> {
  /**
   * The number subtracted from the count before the division: 0 for a population, 1 for a sample.
   */
  readonly correction?: number;
}

const VARIANCE_OPTIONS = ["correction", "where", ...REDUCE_OPTIONS];

/** The variance (`var`) or its square root (`std`). */
export function variance(
  name: "var" | "std",
  x: Operand,
  axis: Axes,
  options: VarianceOptions = {},
): Operand {
  checkOperand(x, name);
  checkOptions(name, options, VARIANCE_OPTIONS);
  const { correction = 0, keepDims, dtype, out } = options;
  if (dtype !== undefined) checkFloat(dtype, name);
  if (options.where !== undefined) return maskedReduce(name, x, ownAxes(axis, name), options);
  const op = name === "var" ? VARIANCE : STANDARD_DEVIATION;
  const attributes = { axis: ownAxes(axis, name), keepDims, dtype, correction };
  return dispatch(op, [x], attributes, out, name);
}

// ---- logsumexp ---------------------------------------------------------------------------------

/** Zero where the maximum is infinite, to avoid inf - inf. */
function finiteMax(x: Operand, axis: Axes): Operand {
  const max = reduce(REDUCE.max, x, axis, { keepDims: true });
  return apply(MAP.where, apply(MAP.isfinite, max), max, 0);
}

const LOG_SUM_EXP: Op = makeOp({
  kind: "kernel",
  name: "logsumexp",
  infer(call: Call) {
    const { op } = call;
    call.op = REDUCE.logSumExp;
    const specs = inferReduce(call);
    call.op = op;
    return specs;
  },
  decompose(call: Call) {
    const { name, outputs: [out], attributes: { axis, keepDims, dtype } } = call;
    const x = call.operand(0);
    const { shape } = x.layout;
    const empty = normalizeAxes(name, axis, shape.length).some((k) => shape[k] === 0);
    const input = cast(x, dtype ?? resultOf(REDUCE.logSumExp, x.storage.info.name));
    const keep = { keepDims: true };
    const shift = empty ? reduce(REDUCE.sum, input, axis, keep) : finiteMax(input, axis);
    const log = dispatch(REDUCE.logSumExp, [input, shift], { axis, keepDims }, undefined, name);
    const { storage, layout: { offset }, flags } = shift;
    const aligned = { storage, layout: Layout.contiguous(log.layout.shape, offset), flags };
    return apply(MAP.add, log, aligned, undefined, { out: out ?? log }, name);
  },
});

/** Log of the sum of exponentials over `axis`, without overflow; -Infinity for no elements. */
export function logSumExp(x: Operand, axis: Axes, options: ReduceOptions = {}): Operand {
  checkOperand(x, LOG_SUM_EXP.name);
  checkOptions(LOG_SUM_EXP.name, options, REDUCE_OPTIONS);
  const { keepDims, dtype, out } = options;
  return dispatch(LOG_SUM_EXP, [x], { axis: ownAxes(axis, "logsumexp"), keepDims, dtype }, out);
}

// ---- norms -------------------------------------------------------------------------------------

/** The reductions of norms other than {@link REDUCE.normP}, by their order. */
const NORMS: Readonly<Record<string, ReduceOp>> = {
  "1": REDUCE.norm1,
  "2": REDUCE.norm2,
  Infinity: REDUCE.normMax,
  "-Infinity": REDUCE.normMin,
};

const NORM: Op = makeOp({
  kind: "kernel",
  name: "norm",
  infer(call: Call) {
    const { ord } = call.attributes as { ord: number };
    if (typeof ord !== "number" || Number.isNaN(ord)) {
      throw new ArgumentError(`norm() needs a number as ord, got ${describe(ord)}`);
    }
    const { op } = call;
    call.op = NORMS[String(ord)] ?? REDUCE.normP;
    const specs = inferReduce(call);
    call.op = op;
    return specs;
  },
  decompose(call: Call) {
    const { name, outputs: [out], attributes } = call;
    const { axis, keepDims, dtype, ord } = attributes;
    const x = call.operand(0);
    if (ord === 0) {
      const to = dtype ?? resultOf(REDUCE.norm1, x.storage.info.name);
      const nonzero = apply(MAP.notEqual, x, 0);
      return reduce(REDUCE.sum, nonzero, axis, { keepDims, out, dtype: to }, name);
    }
    return dispatch(NORMS[String(ord)] ?? REDUCE.normP, [x], attributes, out, name);
  },
});

/** The p-norm of the elements over `axis`: any `ord` above 0, Infinity or -Infinity; 0 counts. */
export function norm(
  x: Operand,
  axis: Axes,
  options: ReduceOptions & { ord?: number } = {},
  name = "norm",
): Operand {
  checkOperand(x, name);
  checkOptions(name, options, ["ord", ...REDUCE_OPTIONS]);
  const { ord = 2, keepDims, dtype, out } = options;
  return dispatch(NORM, [x], { axis: ownAxes(axis, name), keepDims, dtype, ord }, out, name);
}

// ---- closeness ---------------------------------------------------------------------------------

/** Options of `isclose` and `allclose`. */
export interface CloseOptions {
  /** Relative tolerance, of the second operand; 1e-5. A tensor broadcasts to the result. */
  readonly rtol?: number | Operand;
  /** Absolute tolerance; 1e-8. A tensor broadcasts to the result. */
  readonly atol?: number | Operand;
  /** Count NaN as close to NaN. */
  readonly equalNan?: boolean;
}

/**
 * Floats unchanged, other operands as float64; other values unchanged, so that the op rejects them.
 */
function asFloat(value: Input): Input {
  if (typeof value === "bigint" || typeof value === "boolean") return Number(value);
  if (!isOperand(value) || value.storage.info.kind === "f") return value;
  return contiguousCopy(value, "float64");
}

/** {@link isclose} of complex numbers, by the distance between them, or within tensors. */
function closeWithin(
  x: Input,
  y: Input,
  name: string,
  rtol: Input,
  atol: Input,
  equalNan: boolean,
): Operand {
  const on = (op: MapOp, a: Input, b?: Input): Operand =>
    apply(op, a, b, undefined, undefined, name);
  const size = isOperand(y) ? on(MAP.abs, y) : modulusOf(y as Scalar | Complex);
  const relative = typeof size === "number" && typeof rtol === "number"
    ? size * rtol
    : on(MAP.mul, isOperand(size) ? size : rtol, isOperand(size) ? rtol : size);
  const bound = typeof relative === "number" && typeof atol === "number"
    ? relative + atol
    : on(MAP.add, isOperand(relative) ? relative : atol, isOperand(relative) ? atol : relative);
  const near = on(MAP.lessEqual, on(MAP.abs, on(MAP.sub, x, y)), bound);
  const finite = typeof size === "number" ? Number.isFinite(size) : on(MAP.isfinite, size);
  const same = on(MAP.equal, x, y);
  const close = on(MAP.logicalOr, same, on(MAP.logicalAnd, near, finite));
  if (!equalNan) return close;
  const nan = isOperand(y) ? on(MAP.isnan, y) : Number.isNaN(size);
  const first = isOperand(x) ? on(MAP.isnan, x) : false;
  return on(MAP.logicalOr, close, on(MAP.logicalAnd, first, nan));
}

/** The distance of a scalar from 0. */
function modulusOf(value: Scalar | Complex): number {
  return typeof value === "object" ? Math.hypot(value.re, value.im) : Math.abs(Number(value));
}

/** Throws for a tolerance that is no number and no tensor that broadcasts to `shape`. */
function checkTolerance(x: Operand, tolerance: unknown, shape: readonly number[], name: string) {
  if (typeof tolerance === "number") return;
  if (!isOperand(tolerance)) {
    throw new DTypeError(
      `Cannot ${name} within ${describe(tolerance)}: expected a number or a tensor`,
    );
  }
  checkDevice(x.storage, tolerance.storage, name);
  checkKind(tolerance.storage.info, "biuf", name);
  const own = tolerance.layout.shape;
  if (!sameShape(broadcastShapes(name, own, shape), shape)) {
    throw new ShapeError(
      `Cannot ${name} within shape ${formatShape(own)}: the result has shape ${formatShape(shape)}`,
    );
  }
}

/** The inputs after the first two are tolerances, if one of them is a tensor. */
const IS_CLOSE: Op = makeOp({
  kind: "kernel",
  name: "closeness",
  infer(call: Call) {
    const { inputs, name, attributes } = call;
    const [x, y, rtol = attributes.rtol, atol = attributes.atol] = inputs;
    checkOperand(x, name);
    const { op } = call;
    call.op = MAP.equal;
    call.inputs = [x, typeof y === "number" ? 0 : y];
    const specs = MAP.equal.infer(call) as readonly OutputSpec[];
    call.op = op;
    call.inputs = inputs;
    for (const one of [rtol, atol]) checkTolerance(x, one, specs[0]!.shape, name);
    return specs;
  },
  decompose({ inputs: [x, y, rtol, atol], name, attributes, compute }: Call) {
    const { equalNan } = attributes;
    if (rtol !== undefined) {
      const [a, b] = compute.kind === "c" ? [x, y] : [asFloat(x), asFloat(y)];
      return closeWithin(a, b, name, asFloat(rtol), asFloat(atol), equalNan);
    }
    if (compute.kind === "c") {
      return closeWithin(x, y, name, attributes.rtol, attributes.atol, equalNan);
    }
    return apply(MAP.isclose, asFloat(x), asFloat(y), undefined, undefined, name, attributes);
  },
});

/**
 * Where |x - y| <= atol + rtol |y|. Integers are compared as float64.
 *
 * Throws a DTypeError for tolerances that are neither numbers nor tensors of real numbers, and a
 * ShapeError for tensors that do not broadcast to the result.
 */
export function isclose(
  x: Operand,
  y: Operand | Scalar | Complex,
  options: CloseOptions = {},
  name = "isclose",
): Operand {
  checkOptions(name, options, ["rtol", "atol", "equalNan"]);
  const { rtol = 1e-5, atol = 1e-8, equalNan = false } = options;
  if (!isOperandArgument(rtol) && !isOperandArgument(atol)) {
    return dispatch(IS_CLOSE, [x, y], { rtol, atol, equalNan }, undefined, name);
  }
  return dispatch(IS_CLOSE, [x, y, rtol, atol], { equalNan }, undefined, name);
}

/** Whether {@link isclose} holds everywhere. */
export function allclose(
  x: Operand,
  y: Operand | Scalar | Complex,
  options?: CloseOptions,
): boolean {
  return tidy(() => {
    const all = reduce(REDUCE.all, isclose(x, y, options, "allclose"), undefined);
    hostRead(all, "allclose");
    return readElement(all.storage, all.layout.offset) === 1;
  });
}

/** Options of `equals`. */
export interface EqualsOptions {
  /** Count NaN as equal to NaN. */
  readonly equalNan?: boolean;
}

/** Whether both have one dtype, one shape and the same elements, in whatever layouts. */
export function equals(x: Operand, y: Operand, options: EqualsOptions = {}): boolean {
  const name = "equals";
  checkOperand(x, name);
  const other = ownOperand(y, name);
  checkOptions(name, options, ["equalNan"]);
  checkDevice(x.storage, other.storage, name);
  const { info } = x.storage;
  if (info !== other.storage.info || !sameShape(x.layout.shape, other.layout.shape)) return false;
  return tidy(() => {
    let same = apply(MAP.equal, x, other, undefined, undefined, name);
    if (options.equalNan === true && (info.kind === "f" || info.kind === "c")) {
      const [a, b] = [x, other].map((one) =>
        apply(MAP.isnan, one, undefined, undefined, undefined, name)
      );
      same = apply(MAP.logicalOr, same, apply(MAP.logicalAnd, a!, b!));
    }
    const all = reduce(REDUCE.all, same, undefined);
    hostRead(all, name);
    return readElement(all.storage, all.layout.offset) === 1;
  });
}
