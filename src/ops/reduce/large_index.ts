/**
 * Indices among more elements than int32 counts: the results of parts, put together as int64.
 *
 * @module
 */
import { apply, applyInto, applyView } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import type { ArgReduceOp } from "../../table/op.ts";
import { ARG_REDUCE, MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { concat, stack } from "../join/op.ts";

/** The most elements that int32 counts. */
export const MOST_INT32: number = 2 ** 31 - 1;

/** The two halves of `x` along an axis, and how many indices of it the first one has. */
function halves(x: Operand, axis: number): [first: Operand, second: Operand, half: number] {
  const n = x.layout.shape[axis]!;
  const half = Math.floor(n / 2);
  const part = (from: number, count: number): Operand =>
    applyView(VIEWS.narrow, x, "narrow", axis, from, count);
  return [part(0, half), part(half, n - half), half];
}

/** The outermost axis of more than one index. */
function outermost({ layout: { shape } }: Operand): number {
  return shape.findIndex((n) => n > 1);
}

/** The best element along an axis, or of all for null, and its index as int64; axes are kept. */
function best(
  op: ArgReduceOp,
  x: Operand,
  axis: number | null,
  limit: number,
): { value: Operand; index: Operand } {
  const { shape, size } = x.layout;
  if ((axis === null ? size : shape[axis]!) <= limit) {
    const attributes = { axis, keepDims: true };
    const extreme = op === ARG_REDUCE.argmax ? REDUCE.max : REDUCE.min;
    return {
      value: dispatch(extreme, [x], attributes),
      index: cast(dispatch(op, [x], attributes), "int64"),
    };
  }
  const along = axis ?? outermost(x);
  const [first, second, half] = halves(x, along);
  const [a, b] = [first, second].map((part) => best(op, part, axis, limit)) as [
    ReturnType<typeof best>,
    ReturnType<typeof best>,
  ];
  const offset = axis === null ? half * (size / shape[along]!) : half;
  const later = dispatch(op, [stack([a.value, b.value])], { axis: 0, keepDims: false });
  const isLater = apply(MAP.equal, later, 1);
  return {
    value: apply(MAP.where, isLater, b.value, a.value),
    index: apply(MAP.where, isLater, apply(MAP.add, b.index, BigInt(offset)), a.index),
  };
}

/** argmax or argmin of parts of at most `limit` elements along an axis (all for null), as int64. */
export function argReduceParts(
  op: ArgReduceOp,
  x: Operand,
  axis: number | null,
  keepDims: boolean,
  out: Operand | undefined,
  limit: number = MOST_INT32,
): Operand {
  return tidy(() => {
    const { index } = best(op, x, axis, limit);
    const kept = axis === null ? [] : x.layout.shape.filter((_, i) => i !== axis);
    const made = keepDims ? index : applyView(VIEWS.reshape, index, "reshape", kept);
    return out === undefined ? made : applyInto(MAP.copy, op.name, made, undefined, undefined, out);
  });
}

/** The flat indices that `find` gives for parts of at most `limit` elements, as int64. */
export function flatParts(
  x: Operand,
  find: (part: Operand) => Operand,
  limit: number,
): Operand {
  if (x.layout.size <= limit) return cast(find(x), "int64");
  const axis = outermost(x);
  const [first, second, half] = halves(x, axis);
  const offset = half * (x.layout.size / x.layout.shape[axis]!);
  const [a, b] = [first, second].map((part) => flatParts(part, find, limit)) as [Operand, Operand];
  return concat([a, apply(MAP.add, b, BigInt(offset))]);
}
