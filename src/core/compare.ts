/**
 * Comparisons of integers, or bools, with scalars that are none of them.
 *
 * @module
 */
import type { DTypeInfo, Scalar } from "../base/dtype.ts";
import type { MapOp } from "../ops/op.ts";
import { MAP } from "../ops/table.ts";

/**
 * What comparisons of integers with a scalar above all of them, below all of them, and between two of
 * them come to: the same for each element, or a comparison with the integer below the scalar.
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
 * The comparison of elements of `info` with one of them that comes to the same as comparing by `op`
 * with `value`; undefined where `value` is one of them itself.
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
