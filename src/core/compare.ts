/**
 * Comparisons of integers or bools with scalars outside their dtype.
 *
 * @module
 */
import type { DTypeInfo, Scalar } from "../base/dtype.ts";
import type { Call, MapOp } from "../table/op.ts";
import { MAP } from "../table/table.ts";

/**
 * Equivalents of comparing integers with a scalar above all of them, below all of them, or between
 * two of them: a constant, or a comparison with the integer below the scalar.
 */
const COMPARISONS = new Map<
  MapOp,
  readonly [above: boolean, below: boolean, between: MapOp | boolean]
>([
  [MAP.equal, [false, false, false]],
  [MAP.notEqual, [true, true, true]],
  [MAP.less, [true, false, MAP.lessEqual]],
  [MAP.lessEqual, [true, false, MAP.lessEqual]],
  [MAP.greater, [false, true, MAP.greater]],
  [MAP.greaterEqual, [false, true, MAP.greater]],
]);

/**
 * The comparison with an element of `info` that is equivalent to comparing by `op` with `value`;
 * undefined if `value` is itself such an element.
 */
export function comparisonWithin(
  op: MapOp,
  { min, max }: DTypeInfo,
  value: Scalar,
): [op: MapOp, value: Scalar] | undefined {
  if (typeof value === "boolean") return undefined;
  const [above, below, between] = COMPARISONS.get(op)!;
  let always: MapOp | boolean;
  if (value > max) always = above;
  else if (value < min) always = below;
  else if (typeof value === "bigint" || Number.isInteger(value)) return undefined;
  else always = Number.isNaN(value) ? op === MAP.notEqual : between;
  if (typeof always !== "boolean") return [always, Math.floor(Number(value))];
  return [always ? MAP.greaterEqual : MAP.less, min];
}

/** The scalar to compare with, after changing the call's op to the equivalent one. */
export function compareWithin(call: Call, value: Scalar): Scalar {
  const within = comparisonWithin(call.op as MapOp, call.compute, value);
  if (within === undefined) return value;
  call.op = within[0];
  return within[1];
}
