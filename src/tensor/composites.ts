/**
 * Ops that are made of a few others: mean, variance, norms, softmax, closeness.
 *
 * A backend may have kernels of its own for those along rows. Works on operands.
 *
 * @module
 */
import { backendFor, type RowKernel } from "../core/backend.ts";
import { describe, DTYPE, type DType, finfo, type Scalar } from "../base/dtype.ts";
import {
  apply,
  applyReduce,
  cast,
  checkDevice,
  checkFloat,
  checkOperand,
  checkOptions,
  contiguousCopy,
  delivered,
  fill,
  isOperand,
  lens,
  type Operand,
  packed,
  prepareOut,
  type ReduceOptions,
  result,
  resultDType,
  tidily,
  withDense,
} from "../core/dispatch.ts";
import { readElement } from "../memory/element.ts";
import { AxisError, DTypeError, ShapeError } from "../base/errors.ts";
import { called, MAP, REDUCE, type ReduceRow } from "../ops/table.ts";
import { formatShape, normalizeAxes, normalizeAxis, sizeOf } from "../base/shape.ts";
import { Layout } from "../base/layout.ts";
import { allocateIn, recycle, type Storage } from "../memory/storage.ts";

/** What names the axes of a reduction. */
export type Axes = number | readonly number[] | null | undefined;

/** Options of `var` and `std`. */
export interface VarianceOptions extends ReduceOptions {
  /** What is taken off the count before dividing by it: 0 for a population, 1 for a sample. */
  readonly correction?: number;
}

/** The arithmetic mean over `axes`; of nothing, NaN. */
export function mean(x: Operand, axes: Axes, options?: ReduceOptions): Operand {
  return applyReduce(REDUCE.mean, x, axes, options, (count) => [count]);
}

/** Means that are the first pass of something else. */
const CENTER = { var: called(REDUCE.mean, "var"), std: called(REDUCE.mean, "std") };

/** The variance (`row` var) or its square root (`row` std), in two passes. */
export function deviation(
  row: typeof REDUCE.var | typeof REDUCE.std,
  x: Operand,
  axes: Axes,
  options: VarianceOptions = {},
): Operand {
  checkOperand(x, row.op);
  checkOptions(row.op, options, ["correction", "keepDims", "dtype", "out"]);
  const { correction = 0 } = options;
  if (typeof correction !== "number" || Number.isNaN(correction)) {
    throw new ShapeError(
      `Cannot ${row.op} with correction ${describe(correction)}: not a number`,
    );
  }
  const { keepDims, dtype, out } = options;
  if (dtype !== undefined) checkFloat(dtype, row.op);
  return tidily(() => {
    const input = dtype === undefined ? x : cast(x, dtype);
    // A mean rounded to 16 bits would spoil the differences, and one of int to float32 those of
    // large integers.
    const { kind, bytes } = input.storage.info;
    const wide = kind === "f" && bytes === 2 ? "float32" : kind === "f" ? undefined : "float64";
    const first = row === REDUCE.var ? CENTER.var : CENTER.std;
    const center = applyReduce(first, input, axes, { keepDims: true, dtype: wide }, (n) => [n]);
    const divisor = (count: number): readonly number[] => [Math.max(0, count - correction)];
    return applyReduce(row, input, axes, { keepDims, out }, divisor, center);
  });
}

/** A zero where the maximum is infinite, so that inf - inf does not turn up. */
function finiteMax(x: Operand, axes: Axes): Operand {
  const max = applyReduce(REDUCE.max, x, axes, { keepDims: true });
  return apply(MAP.where, apply(MAP.isfinite, max), max, 0);
}

const SHIFT_BACK = called(MAP.add, REDUCE.logSumExp.op);

/** Log of the sum of exponentials over `axes`, without overflow; of nothing, -Infinity. */
export function logSumExp(x: Operand, axes: Axes, options: ReduceOptions = {}): Operand {
  const { op } = REDUCE.logSumExp;
  checkOperand(x, op);
  checkOptions(op, options, ["keepDims", "dtype", "out"]);
  if (options.dtype !== undefined) checkFloat(options.dtype, op);
  const { name } = x.storage.info;
  const dtype = options.dtype ?? resultDType(MAP.exp, name, op);
  const { shape } = x.layout;
  const empty = normalizeAxes(op, axes, shape.length).some((axis) => shape[axis] === 0);
  return tidily(() => {
    const input = cast(x, dtype);
    const keep = { keepDims: true };
    const shift = empty ? applyReduce(REDUCE.sum, input, axes, keep) : finiteMax(input, axes);
    const { keepDims, out } = options;
    const log = applyReduce(REDUCE.logSumExp, input, axes, { keepDims }, undefined, shift);
    const aligned = lens(shift, Layout.contiguous(log.layout.shape, shift.layout.offset));
    return apply(SHIFT_BACK, log, aligned, undefined, { out: out ?? log });
  });
}

/** What norms take besides their input; weight and bias as {@link affineFor} makes them. */
interface NormArguments {
  readonly weight?: Operand;
  readonly bias?: Operand;
  readonly epsilon: number;
}

const PLAIN: NormArguments = { epsilon: 0 };

/** The dtype that rows of `dtype` are computed in: sums of 16-bit floats are kept in 32 bits. */
function rowDType(dtype: DType): DType {
  return DTYPE[dtype].bytes === 2 ? "float32" : dtype;
}

/**
 * Runs `op` over `axes`: by the backend's own kernel where it has one and the axes are the last
 * ones, else by `f`, which gets floats of at least 32 bits. The result has the dtype `to`.
 */
function alongRows(
  op: RowKernel,
  x: Operand,
  axes: readonly number[],
  to: DType,
  out: Operand | undefined,
  { weight, bias, epsilon }: NormArguments,
  f: (input: Operand) => Operand,
): Operand {
  const { shape, size } = x.layout;
  if (out !== undefined) prepareOut(out, shape, to, x.storage, op);
  if (size === 0) return delivered(packed(x, DTYPE[to]).storage, shape, out);
  const last = shape.length - axes.length;
  const affine = { weight: weight?.storage ?? null, bias: bias?.storage ?? null, epsilon };
  const fused = (input: Operand): Storage | undefined => {
    const backend = backendFor(input.storage);
    if (backend.alongRows === undefined || axes.some((axis) => axis < last)) return undefined;
    return withDense(input, ({ storage, layout }) => {
      const made = allocateIn(storage.memory, storage.info, size, false);
      const columns = sizeOf(shape.slice(last));
      const rows = size / columns;
      const done = backend.alongRows!(op, rows, columns, made, storage, layout.offset, affine);
      if (done) return made;
      recycle(made);
      return undefined;
    });
  };
  const given = x.storage.info.name;
  const made = given === to ? fused(x) : undefined;
  if (made !== undefined) return delivered(made, shape, out);
  return tidily(() => {
    const wide = rowDType(to);
    const input = cast(cast(x, to), wide);
    const made = wide === given ? undefined : fused(input);
    const all = cast(made === undefined ? f(input) : delivered(made, shape, undefined), to);
    if (out === undefined) return all;
    fill(out.storage, out.layout, all);
    out.storage.version++;
    return out;
  });
}

/** Checks what softmax and its logarithm are called with, and runs it. */
function softmaxBy(
  op: "softmax" | "logSoftmax",
  x: Operand,
  axis: number,
  options: { out?: Operand },
  f: (input: Operand, axis: number) => Operand,
): Operand {
  checkOperand(x, op);
  checkOptions(op, options, ["out"]);
  const to = resultDType(MAP.exp, x.storage.info.name, op);
  if (typeof axis !== "number") {
    throw new AxisError(`Cannot ${op} along ${describe(axis)}: name one axis`);
  }
  const along = normalizeAxis(op, axis, x.layout.shape.length);
  return alongRows(op, x, [along], to, options.out, PLAIN, (input) => f(input, along));
}

/** A zero of the dtype and rank of `like`. */
function noShift(like: Operand): Operand {
  const one = Layout.contiguous(like.layout.shape.map(() => 1));
  return result(allocateIn(like.storage.memory, like.storage.info, 1, true), one);
}

/** exp(x) over its sum along `axis`. */
export function softmax(x: Operand, axis = -1, options: { out?: Operand } = {}): Operand {
  return softmaxBy("softmax", x, axis, options, (input, along) => {
    const max = applyReduce(REDUCE.max, input, along, { keepDims: true });
    const shifted = apply(MAP.sub, input, max);
    const powers = apply(MAP.exp, shifted, undefined, undefined, { out: shifted });
    const total = applyReduce(REDUCE.sum, powers, along, { keepDims: true });
    return apply(MAP.div, powers, total, undefined, { out: powers });
  });
}

/** x minus the log of the sum of exponentials along `axis`. */
export function logSoftmax(x: Operand, axis = -1, options: { out?: Operand } = {}): Operand {
  return softmaxBy("logSoftmax", x, axis, options, (input, along) => {
    const keep = { keepDims: true };
    const max = applyReduce(REDUCE.max, input, along, keep);
    const shifted = apply(MAP.sub, input, max);
    // The largest is 0 by now, so that nothing more has to be taken off.
    const log = applyReduce(REDUCE.logSumExp, shifted, along, keep, undefined, noShift(input));
    return apply(MAP.sub, shifted, log, undefined, { out: shifted });
  });
}

/** Options of `rmsNorm`. */
export interface RmsNormOptions {
  /** Multiplies the result; its shape broadcasts to that of the axes. */
  readonly weight?: Operand;
  /** Is added before the root is taken. */
  readonly epsilon?: number;
  /** Write the result here instead of allocating. */
  readonly out?: Operand;
}

/** Options of `layerNorm`. */
export interface LayerNormOptions extends RmsNormOptions {
  /** Is added to the result; its shape broadcasts to that of the axes. */
  readonly bias?: Operand;
}

/** `given`, dense, in the shape of `axes` of x and the dtype that rows of `to` are computed in. */
function affineFor(
  op: string,
  name: string,
  given: Operand | undefined,
  x: Operand,
  axes: readonly number[],
  to: DType,
): Operand | undefined {
  if (given === undefined) return undefined;
  checkOperand(given, op);
  checkDevice(x.storage, given.storage, op);
  resultDType(MAP.exp, given.storage.info.name, op);
  const { shape } = x.layout;
  const wanted = axes.map((axis) => shape[axis]!);
  const from = given.layout.shape;
  const fits = from.length <= wanted.length &&
    from.every((n, i) => n === 1 || n === wanted[i + wanted.length - from.length]);
  if (!fits) {
    throw new ShapeError(
      `Cannot ${op} shape ${formatShape(shape)} along axes ${formatShape(axes)} with ${name} of ` +
        `shape ${formatShape(from)}: it must broadcast to ${formatShape(wanted)}`,
    );
  }
  const dense = lens(given, given.layout.broadcastTo(wanted));
  const dtype = rowDType(to);
  const ready = dense.layout.contiguous && dense.layout.offset === 0 &&
    given.storage.info.name === dtype;
  return ready ? dense : contiguousCopy(dense, dtype);
}

/** Checks what a norm of rows is called with, and runs it; `f` gets x and gives x, normalised. */
function normBy(
  op: "layerNorm" | "rmsNorm",
  x: Operand,
  axes: number | readonly number[],
  options: LayerNormOptions,
  epsilonOf: (dtype: DType) => number,
  f: (input: Operand, axes: readonly number[], epsilon: number) => Operand,
): Operand {
  checkOperand(x, op);
  const known = ["weight", "bias", "epsilon", "out"];
  checkOptions(op, options, op === "layerNorm" ? known : known.filter((name) => name !== "bias"));
  const to = resultDType(MAP.exp, x.storage.info.name, op);
  const { shape } = x.layout;
  if (axes === null || (Array.isArray(axes) && axes.length === 0)) {
    throw new AxisError(`Cannot ${op} shape ${formatShape(shape)}: name an axis or several`);
  }
  const along = normalizeAxes(op, axes, shape.length).sort((p, q) => p - q);
  const { epsilon = epsilonOf(rowDType(to)), out } = options;
  if (typeof epsilon !== "number" || Number.isNaN(epsilon)) {
    throw new ShapeError(`Cannot ${op} with epsilon ${describe(epsilon)}: not a number`);
  }
  const run = (): Operand => {
    const weight = affineFor(op, "weight", options.weight, x, along, to);
    const bias = affineFor(op, "bias", options.bias, x, along, to);
    return alongRows(op, x, along, to, out, { weight, bias, epsilon }, (input) => {
      const made = f(input, along, epsilon);
      // The axes that are not normalised have size 1 in a weight.
      const aligned = Layout.contiguous(shape.map((n, axis) => along.includes(axis) ? n : 1));
      const into = { out: made };
      if (weight !== undefined) apply(MAP.mul, made, lens(weight, aligned), undefined, into);
      if (bias !== undefined) apply(MAP.add, made, lens(bias, aligned), undefined, into);
      return made;
    });
  };
  return options.weight === undefined && options.bias === undefined ? run() : tidily(run);
}

/** `x` over the root of `square`, with `epsilon`, written to `out`. */
function overRoot(x: Operand, square: Operand, epsilon: number, out?: Operand): Operand {
  const scale = apply(MAP.rsqrt, apply(MAP.add, square, epsilon));
  return apply(MAP.mul, x, scale, undefined, { out });
}

/** (x - mean) / sqrt(variance + epsilon) over `axes`, times weight, plus bias. */
export function layerNorm(
  x: Operand,
  axes: number | readonly number[] = -1,
  options: LayerNormOptions = {},
): Operand {
  return normBy("layerNorm", x, axes, options, () => 1e-5, (input, along, epsilon) => {
    const keep = { keepDims: true };
    const shifted = apply(MAP.sub, input, mean(input, along, keep));
    // What the mean lost when it was rounded, which matters where it is large.
    const rest = mean(shifted, along, keep);
    const variance = applyReduce(REDUCE.var, shifted, along, keep, (count) => [count], rest);
    apply(MAP.sub, shifted, rest, undefined, { out: shifted });
    return overRoot(shifted, variance, epsilon, shifted);
  });
}

/** x / sqrt(mean of squares + epsilon) over `axes`, times weight. */
export function rmsNorm(
  x: Operand,
  axes: number | readonly number[] = -1,
  options: RmsNormOptions = {},
): Operand {
  const epsilonOf = (dtype: DType): number => finfo(dtype).eps;
  return normBy("rmsNorm", x, axes, options, epsilonOf, (input, along, epsilon) => {
    const keep = { keepDims: true };
    const count = (n: number): readonly number[] => [n];
    const square = applyReduce(REDUCE.var, input, along, keep, count, noShift(input));
    return overRoot(input, square, epsilon);
  });
}

/** The rows of norms that are not {@link REDUCE.normP}, by their order. */
const NORMS: Readonly<Record<string, ReduceRow>> = {
  "0": called(REDUCE.sum, "norm"),
  "1": REDUCE.norm1,
  "2": REDUCE.norm2,
  Infinity: REDUCE.normMax,
  "-Infinity": REDUCE.normMin,
};

/** The p-norm of the elements over `axes`: any `ord` above 0, Infinity or -Infinity; 0 counts. */
export function norm(
  x: Operand,
  axes: Axes,
  options: ReduceOptions & { ord?: number } = {},
): Operand {
  checkOperand(x, "norm");
  checkOptions("norm", options, ["ord", "keepDims", "dtype", "out"]);
  const { ord = 2, keepDims, dtype, out } = options;
  if (typeof ord !== "number" || Number.isNaN(ord)) {
    throw new ShapeError(`Cannot norm with ord ${describe(ord)}: not a number`);
  }
  const row = NORMS[String(ord)] ?? REDUCE.normP;
  if (ord === 0) {
    if (dtype !== undefined) checkFloat(dtype, "norm");
    const to = dtype ?? resultDType(REDUCE.norm1, x.storage.info.name, "norm");
    return tidily(() => {
      const nonzero = apply(MAP.notEqual, x, 0);
      return applyReduce(row, nonzero, axes, { keepDims, out, dtype: to });
    });
  }
  return applyReduce(row, x, axes, { keepDims, dtype, out }, () => [ord]);
}

/** Options of `isclose` and `allclose`. */
export interface CloseOptions {
  /** Relative tolerance, of the second operand; 1e-5. */
  readonly rtol?: number;
  /** Absolute tolerance; 1e-8. */
  readonly atol?: number;
  /** Count NaN as close to NaN. */
  readonly equalNan?: boolean;
}

const ALLCLOSE = called(MAP.isclose, "allclose");

/** Whether {@link isclose} holds everywhere. */
export function allclose(x: Operand, y: Operand | Scalar, options?: CloseOptions): boolean {
  return tidily(() => {
    const all = applyReduce(REDUCE.all, isclose(x, y, options, ALLCLOSE), undefined);
    return readElement(all.storage, all.layout.offset) === 1;
  });
}

/**
 * Where |x - y| <= atol + rtol |y|. Integers are compared as float64.
 *
 * Throws a DTypeError for tolerances that are no numbers.
 */
export function isclose(
  x: Operand,
  y: Operand | Scalar,
  options: CloseOptions = {},
  row: typeof MAP.isclose = MAP.isclose,
): Operand {
  const { op } = row;
  checkOptions(op, options, ["rtol", "atol", "equalNan"]);
  const { rtol = 1e-5, atol = 1e-8, equalNan = false } = options;
  for (const tolerance of [rtol, atol]) {
    if (typeof tolerance !== "number") {
      throw new DTypeError(`Cannot ${op} within ${describe(tolerance)}: expected a number`);
    }
  }
  const float = (value: Operand | Scalar): Operand | Scalar => {
    // What is no scalar either is left to apply, which refuses it.
    if (typeof value === "bigint" || typeof value === "boolean") return Number(value);
    if (!isOperand(value)) return value;
    return value.storage.info.kind === "f" ? value : contiguousCopy(value, "float64");
  };
  checkOperand(x, op);
  const limits = [rtol, atol, equalNan ? 1 : 0];
  return tidily(() => apply(row, float(x), float(y), undefined, undefined, limits));
}
