/**
 * Reductions of the elements that a mask selects, and of an initial value.
 *
 * @module
 */
import { checkScalar, DTYPE, type DType, type Scalar } from "../../base/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../base/errors.ts";
import { broadcastShapes, formatShape, ownAxes, sameShape } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { partOf } from "../../core/lanes.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import {
  checkDevice,
  checkFloat,
  checkOperand,
  inferAs,
  inferReduce,
  reductionOf,
  ruleFor,
} from "../../table/infer.ts";
import { type Call, makeOp, type Op, type ReduceOp } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { inferVariance, operandOf } from "./variance.ts";

/** Options of reductions with a mask. */
export interface MaskOptions {
  /** A bool tensor that broadcasts to the shape of the input: other elements do not count. */
  readonly where?: Operand | undefined;
  /** A value that counts as one more element of each reduction. */
  readonly initial?: Scalar | undefined;
}

interface Attributes {
  readonly row: "sum" | "prod" | "max" | "min" | "any" | "all" | "mean" | "var" | "std";
  readonly axis: number | readonly number[] | null | undefined;
  readonly keepDims: boolean | undefined;
  readonly dtype: DType | undefined;
  readonly initial: Scalar | undefined;
  readonly correction: number;
}

/** The rows with an `initial` value, and the op that adds it. */
const INITIAL = {
  sum: MAP.add,
  prod: MAP.mul,
  max: MAP.maximum,
  min: MAP.minimum,
} as const;

/** Whether a row takes `where`, and `initial`. */
export function maskOptionsOf(row: string): readonly string[] {
  if (row in INITIAL) return ["where", "initial"];
  return ["any", "all", "mean", "var", "std"].includes(row) ? ["where"] : [];
}

/** The value that does not change the result of `row`. */
function neutralOf(row: Attributes["row"], dtype: DType): Scalar {
  const { kind, min, max } = DTYPE[dtype];
  switch (row) {
    case "prod":
    case "all":
      return kind === "b" ? true : 1;
    case "max":
      return kind === "f" ? -Infinity : kind === "b" ? false : min;
    case "min":
      return kind === "f" ? Infinity : kind === "b" ? true : max;
    default:
      return kind === "b" ? false : 0;
  }
}

function checkMask(x: Operand, mask: Operand, name: string): void {
  checkOperand(mask, name);
  const { info } = mask.storage;
  if (info.kind !== "b") {
    throw new DTypeError(`Cannot ${name} where ${info.name}: the mask must be bool`);
  }
  checkDevice(x.storage, mask.storage, name);
  const [own, other] = [x.layout.shape, mask.layout.shape];
  if (!sameShape(broadcastShapes(name, own, other), own)) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(own)} where shape ${formatShape(other)}: the mask ` +
        "must broadcast to the shape of the input",
    );
  }
}

/** `x` as means and variances of selected elements are computed: once rounded, as without a mask. */
function widened(x: Operand): Operand {
  return cast(x, x.storage.info.kind === "c" ? "complex128" : "float64");
}

/** The mean of the selected elements of `x`, which {@link widened} has made. */
function meanOf(x: Operand, mask: Operand, attributes: object, name: string): Operand {
  const selected = apply(MAP.where, mask, x, 0);
  const sum = dispatch(REDUCE.sum, [selected], attributes, undefined, name);
  return apply(MAP.div, sum, countOf(x, mask, attributes, name));
}

/** The number of selected elements, as float64. */
function countOf(x: Operand, mask: Operand, attributes: object, name: string): Operand {
  const whole = applyView(VIEWS.broadcastTo, mask, "broadcastTo", x.layout.shape);
  const count = dispatch(REDUCE.countNonzero, [whole], attributes, undefined, name);
  return cast(count, "float64");
}

/** The squares of the distances from 0. */
function squaresOf(x: Operand): Operand {
  if (x.storage.info.kind !== "c") return apply(MAP.square, x);
  const [re, im] = [partOf(x, 0), partOf(x, 1)];
  return apply(MAP.add, apply(MAP.square, re), apply(MAP.square, im));
}

/** The variance of the selected elements of `x`, which {@link widened} has made. */
function varianceOf(call: Call, x: Operand, mask: Operand): Operand {
  const { name, attributes } = call;
  const { row, axis, keepDims, correction } = attributes as Attributes;
  const center = meanOf(x, mask, { axis, keepDims: true }, name);
  const difference = apply(MAP.where, mask, apply(MAP.sub, x, center), 0);
  const along = { axis, keepDims };
  const squares = dispatch(REDUCE.sum, [squaresOf(difference)], along, undefined, name);
  const count = countOf(x, mask, along, name);
  const degrees = apply(MAP.maximum, apply(MAP.sub, count, correction), 0);
  const variance = apply(MAP.div, squares, degrees);
  return row === "var" ? variance : apply(MAP.sqrt, variance);
}

const MASKED: Op = makeOp({
  kind: "kernel",
  name: "maskedReduce",
  infer(call: Call) {
    const { name, inputs: [x, mask] } = call;
    const { row, axis, keepDims, dtype, initial } = call.attributes as Attributes;
    checkOperand(x, name);
    if (isOperand(mask)) checkMask(x, mask, name);
    if ((row === "max" || row === "min") && initial === undefined) {
      throw new ArgumentError(`${name}() needs an initial value beside a mask`);
    }
    if (row === "var" || row === "std") return inferVariance(call);
    if (row === "max" || row === "min") {
      const { info } = x.storage;
      ruleFor(REDUCE[row], info, name);
      checkScalar(info.name, initial!, name);
      const { shape } = reductionOf(name, x.layout, axis, keepDims === true);
      return [{ shape, dtype: info }];
    }
    if (dtype !== undefined && row === "mean") checkFloat(dtype, name);
    const specs = inferAs(REDUCE[row], call, inferReduce);
    if (initial !== undefined) checkScalar(specs[0]!.dtype.name, initial, name);
    return specs;
  },
  decompose(call: Call) {
    const { name, inputs, specs } = call;
    const { row, axis, keepDims, dtype, initial } = call.attributes as Attributes;
    const given = call.operand(0);
    const mask = inputs[1] as Operand | undefined;
    const result = specs[0]!.dtype.name;
    const along = { axis, keepDims };
    if (row === "var" || row === "std") {
      return cast(varianceOf(call, widened(operandOf(call)), mask!), result);
    }
    let x = dtype === undefined ? given : cast(given, dtype);
    if (row === "mean") return cast(meanOf(widened(x), mask!, along, name), result);
    if (mask !== undefined) {
      x = apply(MAP.where, mask, x, neutralOf(row, x.storage.info.name));
    }
    let made: Operand;
    const op: ReduceOp = REDUCE[row];
    if (op.nonEmpty && reductionOf(name, x.layout, axis, false).count === 0) {
      // There is no largest of no elements: the initial value is.
      const zeros = cast(dispatch(REDUCE.any, [x], along, undefined, name), result);
      return apply(MAP.where, apply(MAP.equal, zeros, zeros), initial!, zeros);
    }
    made = dispatch(op, [x], { ...along, dtype }, undefined, name);
    if (initial !== undefined) {
      if (result === "bool") {
        const bool = initial === true || initial === 1;
        made = apply(row === "max" ? MAP.logicalOr : MAP.logicalAnd, made, bool);
      } else made = apply(INITIAL[row as keyof typeof INITIAL], made, initial);
    }
    return made;
  },
});

/** A reduction of the elements that `where` selects and of `initial`. */
export function maskedReduce(
  row: Attributes["row"],
  x: Operand,
  axis: Attributes["axis"],
  options: MaskOptions & {
    readonly keepDims?: boolean | undefined;
    readonly dtype?: DType | undefined;
    readonly out?: Operand | undefined;
    readonly correction?: number;
  },
): Operand {
  checkOperand(x, row);
  const { where, initial, keepDims, dtype, out, correction = 0 } = options;
  const mask = where === undefined ? undefined : ownOperand(where, row);
  const attributes = { row, axis: ownAxes(axis, row), keepDims, dtype, initial, correction };
  return dispatch(MASKED, mask === undefined ? [x] : [x, mask], attributes, out, row);
}
