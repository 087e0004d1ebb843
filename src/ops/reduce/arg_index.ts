/**
 * Where the largest or smallest element along an axis is, the first or the last of equal ones.
 *
 * @module
 */
import { normalizeAxis } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import { ARG_REDUCE, MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { argReduce } from "./op.ts";

/** Options of {@link argIndex}. */
export interface ArgIndexOptions {
  /** Whether it is the largest element (default), or the smallest. */
  readonly largest?: boolean;
  /** Whether the axis stays, with size 1. */
  readonly keepDims?: boolean;
  /** Whether the last of equal elements counts; the first one by default. */
  readonly last?: boolean;
}

/** The index along `axis` of its largest or smallest element, int64. NaN is the one looked for. */
export function argIndex(
  name: string,
  x: Operand,
  axis: number,
  { largest = true, keepDims = false, last = false }: ArgIndexOptions = {},
): Operand {
  return tidy(() => {
    const along = normalizeAxis(name, axis, x.layout.shape.length);
    const from = last ? applyView(VIEWS.flip, x, "flip", [along]) : x;
    const op = largest ? ARG_REDUCE.argmax : ARG_REDUCE.argmin;
    const found = cast(argReduce(op, from, along, { keepDims }), "int64");
    return last ? apply(MAP.sub, x.layout.shape[along]! - 1, found) : found;
  });
}
