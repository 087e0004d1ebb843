/**
 * Variances and standard deviations in two passes: the mean first, then the squares around it.
 *
 * @module
 */
import { complexOf, DTYPE } from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { ArgumentError, DTypeError } from "../../base/errors.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import { inferAs, inferReduce, type ReduceAttributes, resultOf } from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec, type ReduceOp } from "../../table/op.ts";
import { REDUCE } from "../../table/table.ts";
import { fromFirst, hasLongIntegers } from "./differences.ts";

/** Attributes of variances. */
export interface VarianceAttributes extends ReduceAttributes {
  /** The number subtracted from the count before the division. */
  readonly correction: number;
}

/**
 * The result of a variance: real for complex elements.
 *
 * Throws an ArgumentError unless the correction is a number, and a DTypeError for bool and for variances
 * of complex elements as floats of 16 bits.
 */
export function inferVariance(call: Call): OutputSpec[] {
  const { name, attributes } = call;
  const { correction, dtype } = attributes as VarianceAttributes;
  if (typeof correction !== "number" || Number.isNaN(correction)) {
    throw new ArgumentError(`${name}() needs a number as correction, got ${describe(correction)}`);
  }
  const { info } = call.operand(0).storage;
  if (info.kind === "c" && dtype !== undefined && DTYPE[dtype].bytes === 2) {
    throw new DTypeError(
      `Cannot ${name} ${info.name} to ${dtype}: parts of complex numbers are float32 or float64`,
    );
  }
  return inferAs(REDUCE.var, call, inferReduce);
}

/**
 * The operand of a variance: floats in the dtype that is asked for, complex elements with such parts.
 * Integers of 64 bits become their distances from the first one, others stay: floats would round
 * them before their differences are taken.
 */
export function operandOf(call: Call): Operand {
  const { name, attributes } = call;
  const { axis, dtype } = attributes as VarianceAttributes;
  const x = call.operand(0);
  const { info } = x.storage;
  if (hasLongIntegers(x)) return fromFirst(x, axis, name);
  if (dtype === undefined || (info.kind !== "f" && info.kind !== "c")) return x;
  return cast(x, info.kind === "c" ? complexOf(DTYPE[dtype]).name : dtype);
}

function varianceOp(pass: ReduceOp): Op {
  return makeOp({
    kind: "kernel",
    name: pass === REDUCE.var ? "variance" : "standardDeviation",
    infer: inferVariance,
    decompose(call: Call) {
      const { name, attributes, outputs: [out], specs: [spec] } = call;
      const { axis, keepDims, correction } = attributes as VarianceAttributes;
      const x = operandOf(call);
      // A mean rounded to 16 bits would spoil the differences, and a mean of large integers in
      // float32 as well.
      const { kind, bytes } = x.storage.info;
      const isFloat = kind === "f" || kind === "c";
      const wide = !isFloat ? "float64" : kind === "f" && bytes === 2 ? "float32" : undefined;
      const around = { axis, keepDims: true, dtype: wide };
      const center = dispatch(REDUCE.mean, [x], around, undefined, name);
      const result = spec!.dtype.name;
      const exact = result === "float64" && !isFloat ? "float64" : undefined;
      const to = resultOf(pass, exact ?? x.storage.info.name) === result ? out : undefined;
      const squares = { axis, keepDims, correction, dtype: exact };
      return cast(dispatch(pass, [x, center], squares, to, name), result);
    },
  });
}

/** The variance over axes. */
export const VARIANCE: Op = varianceOp(REDUCE.var);
/** The standard deviation over axes. */
export const STANDARD_DEVIATION: Op = varianceOp(REDUCE.std);
