/**
 * Ops that are made of a few others: mean, variance, norms, softmax, closeness.
 *
 * A backend may replace one by a kernel of its own later. Works on operands.
 *
 * @module
 */
import { checkDType, describe, DTYPE, type Scalar } from "./dtype.ts";
import {
  apply,
  applyReduce,
  backendFor,
  checkOperand,
  checkOptions,
  contiguous,
  contiguousCopy,
  fill,
  isOperand,
  lens,
  type Operand,
  prepareOut,
  type ReduceOptions,
  result,
  resultDType,
} from "./dispatch.ts";
import { AxisError, DTypeError, ShapeError } from "./errors.ts";
import { MAP, REDUCE, type ReduceRow } from "./ops.ts";
import { normalizeAxes, normalizeAxis } from "./shape.ts";
import { Layout } from "./layout.ts";
import { allocate } from "./storage.ts";

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

/** The variance (`row` var) or its square root (`row` std), in two passes. */
export function deviation(
  row: typeof REDUCE.var | typeof REDUCE.std,
  x: Operand,
  axes: Axes,
  options: VarianceOptions = {},
): Operand {
  checkOperand(x, row.name);
  checkOptions(row.name, options, ["correction", "keepDims", "dtype", "out"]);
  const { correction = 0 } = options;
  if (typeof correction !== "number" || Number.isNaN(correction)) {
    throw new ShapeError(
      `Cannot ${row.name} with correction ${describe(correction)}: not a number`,
    );
  }
  let input = x;
  if (options.dtype !== undefined) {
    checkDType(options.dtype, row.name);
    input = contiguousCopy(x, options.dtype);
  }
  // A mean rounded to 16 bits would spoil the differences, and one of int to float32 those of
  // large integers.
  const { kind, bytes } = input.storage.info;
  const wide = kind === "f" && bytes === 2 ? "float32" : kind === "f" ? undefined : "float64";
  const center = mean(input, axes, { keepDims: true, dtype: wide });
  const to = kind === "f" ? input.storage.info.name : "float32";
  return applyReduce(
    row,
    input,
    axes,
    {
      keepDims: options.keepDims,
      out: options.out,
      dtype: options.dtype === undefined ? undefined : to,
    },
    (count) => [Math.max(0, count - correction)],
    center,
  );
}

/** A zero where the maximum is infinite, so that inf - inf does not turn up. */
function finiteMax(x: Operand, axes: Axes): Operand {
  const max = applyReduce(REDUCE.max, x, axes, { keepDims: true });
  return apply(MAP.where, apply(MAP.isfinite, max), max, 0);
}

/** Log of the sum of exponentials over `axes`, without overflow; of nothing, -Infinity. */
export function logSumExp(x: Operand, axes: Axes, options: ReduceOptions = {}): Operand {
  checkOperand(x, "logSumExp");
  checkOptions("logSumExp", options, ["keepDims", "dtype", "out"]);
  if (options.dtype !== undefined) checkDType(options.dtype, "logSumExp");
  const { name } = x.storage.info;
  const dtype = options.dtype ?? resultDType(MAP.exp, name, "logSumExp");
  const input = dtype === name ? x : contiguousCopy(x, dtype);
  const { layout } = input;
  let empty = false;
  for (const axis of normalizeAxes("logSumExp", axes, layout.shape.length)) {
    if (layout.shape[axis] === 0) empty = true;
  }
  const zero = { keepDims: true };
  const shift = empty ? applyReduce(REDUCE.sum, input, axes, zero) : finiteMax(input, axes);
  const { keepDims, out } = options;
  const log = applyReduce(REDUCE.logSumExp, input, axes, { keepDims }, undefined, shift);
  const aligned = lens(shift, Layout.contiguous(log.layout.shape, shift.layout.offset));
  return apply(MAP.add, log, aligned, undefined, { out: out ?? log });
}

/** Runs `f` on floats of at least 32 bits along one axis, and casts what it gives back. */
function alongFloats(
  op: string,
  x: Operand,
  axis: number,
  options: { out?: Operand },
  f: (input: Operand, axis: number) => Operand,
): Operand {
  checkOperand(x, op);
  checkOptions(op, options, ["out"]);
  const { out } = options;
  const to = resultDType(MAP.exp, x.storage.info.name, op);
  if (typeof axis !== "number") {
    throw new AxisError(`Cannot ${op} along ${describe(axis)}: name one axis`);
  }
  const along = normalizeAxis(op, axis, x.layout.shape.length);
  // Sums of 16-bit floats are kept in 32 bits until the end.
  const dtype = DTYPE[to].bytes === 2 ? "float32" : to;
  const input = x.storage.info.name === dtype ? x : contiguousCopy(x, dtype);
  const made = input.layout.size === 0 ? contiguousCopy(input) : f(input, along);
  if (out === undefined) return dtype === to ? made : contiguousCopy(made, to);
  prepareOut(out, x.layout.shape, to, x.storage, op);
  fill(out.storage, out.layout, made);
  out.storage.version++;
  return out;
}

/** Softmax or its logarithm by the backend's own kernel, where it has one for this. */
function fusedSoftmax(log: boolean, input: Operand, axis: number): Operand | undefined {
  const { shape, size } = input.layout;
  const op = log ? "logSoftmax" : "softmax";
  const backend = backendFor(input.storage, op);
  if (backend.softmax === undefined || axis !== shape.length - 1) return undefined;
  const { storage, layout } = contiguous(input);
  const out = allocate(storage.info.name, size, false);
  const columns = shape[axis]!;
  const done = backend.softmax(log, size / columns, columns, out, 0, storage, layout.offset);
  return done ? result(out, Layout.contiguous(shape)) : undefined;
}

/** exp(x) over its sum along `axis`. */
export function softmax(x: Operand, axis: number, options: { out?: Operand } = {}): Operand {
  return alongFloats("softmax", x, axis, options, (input, along) => {
    const fused = fusedSoftmax(false, input, along);
    if (fused !== undefined) return fused;
    const max = applyReduce(REDUCE.max, input, along, { keepDims: true });
    const shifted = apply(MAP.sub, input, max);
    const powers = apply(MAP.exp, shifted, undefined, undefined, { out: shifted });
    const total = applyReduce(REDUCE.sum, powers, along, { keepDims: true });
    return apply(MAP.div, powers, total, undefined, { out: powers });
  });
}

/** x minus the log of the sum of exponentials along `axis`. */
export function logSoftmax(x: Operand, axis: number, options: { out?: Operand } = {}): Operand {
  return alongFloats("logSoftmax", x, axis, options, (input, along) => {
    const fused = fusedSoftmax(true, input, along);
    if (fused !== undefined) return fused;
    const keep = { keepDims: true };
    const max = applyReduce(REDUCE.max, input, along, keep);
    const shifted = apply(MAP.sub, input, max);
    // The largest is 0 by now, so that nothing more has to be taken off.
    const one = Layout.contiguous(max.layout.shape.map(() => 1));
    const none = result(allocate(input.storage.info.name, 1, true), one);
    const log = applyReduce(REDUCE.logSumExp, shifted, along, keep, undefined, none);
    return apply(MAP.sub, shifted, log, undefined, { out: shifted });
  });
}

/** The p-norm of the elements over `axes`: any `ord` above 0, Infinity or -Infinity; 0 counts. */
export function norm(
  x: Operand,
  axes: Axes,
  options: ReduceOptions & { ord?: number } = {},
): Operand {
  checkOptions("norm", options, ["ord", "keepDims", "dtype", "out"]);
  const { ord = 2, keepDims, dtype, out } = options;
  if (typeof ord !== "number" || Number.isNaN(ord)) {
    throw new ShapeError(`Cannot norm with ord ${describe(ord)}: not a number`);
  }
  const rows: Record<string, ReduceRow> = {
    "1": REDUCE.norm1,
    "2": REDUCE.norm2,
    Infinity: REDUCE.normMax,
    "-Infinity": REDUCE.normMin,
  };
  if (ord === 0) {
    const nonzero = apply(MAP.notEqual, x, 0);
    const to = dtype ?? (x.storage.info.kind === "f" ? x.storage.info.name : "float32");
    return applyReduce(REDUCE.sum, nonzero, axes, { keepDims, out, dtype: to });
  }
  const row = rows[String(ord)] ?? REDUCE.normP;
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

/**
 * Where |x - y| <= atol + rtol |y|. Integers are compared as float64.
 *
 * Throws a DTypeError for tolerances that are no numbers.
 */
export function isclose(x: Operand, y: Operand | Scalar, options: CloseOptions = {}): Operand {
  checkOptions("isclose", options, ["rtol", "atol", "equalNan"]);
  const { rtol = 1e-5, atol = 1e-8, equalNan = false } = options;
  for (const tolerance of [rtol, atol]) {
    if (typeof tolerance !== "number") {
      throw new DTypeError(`Cannot isclose within ${describe(tolerance)}: expected a number`);
    }
  }
  const float = (value: Operand | Scalar): Operand | Scalar => {
    // What is no scalar either is left to apply, which refuses it.
    if (typeof value === "bigint" || typeof value === "boolean") return Number(value);
    if (!isOperand(value)) return value;
    return DTYPE[value.storage.info.name].kind === "f" ? value : contiguousCopy(value, "float64");
  };
  checkOperand(x, "isclose");
  return apply(MAP.isclose, float(x), float(y), undefined, undefined, [
    rtol,
    atol,
    equalNan ? 1 : 0,
  ]);
}
