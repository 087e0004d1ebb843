/**
 * Sorting along an axis.
 *
 * @module
 */
import { DTYPE } from "../base/dtype.ts";
import { normalizeAxis } from "../base/shape.ts";
import { contiguousCopy } from "../core/copy.ts";
import { applyView } from "../core/apply.ts";
import { dispatch } from "../core/dispatch.ts";
import type { Operand } from "../memory/operand.ts";
import { checkKind, checkOperand, checkOptions } from "../ops/infer.ts";
import type { SortAttributes } from "../ops/kernels.ts";
import { type Call, makeOp, type Op } from "../ops/op.ts";
import { VIEWS } from "../ops/views.ts";
import { empty } from "./composite.ts";

// ---- sorting -----------------------------------------------------------------------------------

/** Options of `sort` and `argsort`. */
export interface SortOptions {
  /** Largest first. NaN goes last all the same. */
  readonly descending?: boolean;
}

function sortOp(name: string, contiguous: readonly number[] | undefined): Op {
  const op: Op = makeOp({
    kind: "kernel",
    name,
    contiguous,
    infer(call: Call) {
      const { inputs: [x] } = call;
      checkOperand(x, call.name);
      const { storage: { info }, layout: { shape } } = x;
      checkKind(info, "biuf", call.name);
      normalizeAxis(call.name, call.attributes.axis, shape.length);
      return [{ shape, dtype: name === "sort" ? info : DTYPE.int32 }];
    },
    // Kernels sort along the last axis.
    decompose(call: Call) {
      const x = call.operand(0);
      const { axis, descending } = call.attributes as SortAttributes;
      if (x.layout.size === 0) return empty(x.layout.shape, x, call.specs[0]!.dtype);
      const moved = applyView(VIEWS.moveAxis, x, "moveAxis", axis, -1);
      const sorted = dispatch(op, [moved], { axis: -1, descending }, undefined, call.name);
      return contiguousCopy(applyView(VIEWS.moveAxis, sorted, "moveAxis", -1, axis));
    },
  });
  return op;
}

const SORT = sortOp("sort", undefined);
const ARGSORT = sortOp("argsort", [0]);

/** The elements along `axis` in order, or (argsort) their indices as int32. Stable. */
export function sort(
  name: "sort" | "argsort",
  x: Operand,
  axis = -1,
  options: SortOptions = {},
): Operand {
  checkOperand(x, name);
  checkOptions(name, options, ["descending"]);
  const { descending = false } = options;
  return dispatch(name === "sort" ? SORT : ARGSORT, [x], { axis, descending });
}
