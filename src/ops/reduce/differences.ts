/**
 * Differences that integers lose if float32, or for 64 bits float64, rounds them before.
 *
 * @module
 */
import { normalizeAxes } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import type { Operand } from "../../memory/operand.ts";
import type { ReduceAttributes } from "../../table/infer.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";

/**
 * The operands in the one dtype that statistics of them are computed in: float64 beside integers, which
 * float32 would round before their differences are taken; else float32 for 16-bit floats.
 */
export function widen(...operands: readonly Operand[]): Operand[] {
  const isDouble = operands.some(({ storage: { info } }) => info.kind !== "f" || info.bytes === 8);
  return operands.map((x) => cast(x, isDouble ? "float64" : "float32"));
}

/** Whether float64 rounds elements of `x`. */
export function hasLongIntegers({ storage: { info } }: Operand): boolean {
  return (info.kind === "i" || info.kind === "u") && info.bytes === 8;
}

/** x - y in float64, for operands of one dtype; rounded once, and not wrapped, for integers. */
export function difference(x: Operand, y: Operand): Operand {
  const subtract = (part: (one: Operand) => Operand): Operand =>
    apply(MAP.sub, cast(part(x), "float64"), cast(part(y), "float64"));
  if (!hasLongIntegers(x)) return subtract((one) => one);
  const high = subtract((one) => apply(MAP.bitwiseRightShift, one, 32));
  const low = subtract((one) => apply(MAP.bitwiseAnd, one, 2 ** 32 - 1));
  return apply(MAP.add, apply(MAP.mul, high, 2 ** 32), low);
}

/**
 * Integers minus the first of them along axes, in float64: their differences are the same, and sums of
 * these numbers lose less. Other operands are returned.
 */
export function fromFirst(x: Operand, axis: ReduceAttributes["axis"], name: string): Operand {
  const { storage: { info: { kind } }, layout: { shape, size } } = x;
  if ((kind !== "i" && kind !== "u") || size === 0) return x;
  let first = x;
  for (const along of normalizeAxes(name, axis, shape.length)) {
    first = applyView(VIEWS.narrow, first, "narrow", along, 0, 1);
  }
  return difference(x, first);
}
