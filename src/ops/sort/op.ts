/**
 * Sorting along an axis, and the largest elements along one.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { ArgumentError } from "../../base/errors.ts";
import { formatShape, normalizeAxis } from "../../base/shape.ts";
import { contiguousCopy } from "../../core/copy.ts";
import { apply, applyView } from "../../core/apply.ts";
import { dispatch, dispatchAll } from "../../core/dispatch.ts";
import { alongLast } from "../../core/prepare.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkCount, checkKind, checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { empty } from "../../core/composite.ts";
import { takeAlongAxis } from "../index/op.ts";

/** Attributes of `sort` and `argsort`. */
export interface SortAttributes {
  /** The axis; kernels sort along the last one. */
  readonly axis: number;
  /** Largest first; NaN still goes last. */
  readonly descending: boolean;
}

/** True if the call sorts a nonempty tensor along the last axis. */
export function sortsLastAxis(call: Call): boolean {
  const { axis } = call.attributes as SortAttributes;
  const { shape, size } = call.operand(0).layout;
  return size > 0 && (axis === -1 || axis === shape.length - 1);
}

// ---- sorting -----------------------------------------------------------------------------------

/** Options of `sort` and `argsort`. */
export interface SortOptions {
  /** Largest first. NaN still goes last. */
  readonly descending?: boolean;
}

function sortOp(name: string, contiguous: readonly number[] | undefined): Op {
  return makeOp({
    kind: "kernel",
    name,
    contiguous,
    infer(call: Call) {
      const { inputs: [x] } = call;
      checkOperand(x, call.name);
      const { storage: { info }, layout: { shape } } = x;
      checkKind(info, "biuf", call.name);
      const axis = normalizeAxis(call.name, call.attributes.axis, shape.length);
      if (name === "argsort") checkCount(call.name, x.layout, shape[axis]!);
      return [{ shape, dtype: name === "sort" ? info : DTYPE.int32 }];
    },
    prepare: alongLast,
  });
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

// ---- the largest elements ----------------------------------------------------------------------

/** Options of `topk`. */
export interface TopKOptions {
  /** Whether to take the largest elements (default) or the smallest. */
  readonly largest?: boolean;
  /**
   * Whether to sort the results (default); else they are in the order of their indices, which is
   * faster.
   */
  readonly sorted?: boolean;
}

interface TopKAttributes extends Required<TopKOptions> {
  readonly k: number;
  readonly axis: number;
}

const TOPK: Op = makeOp<Op>({
  kind: "kernel",
  name: "topk",
  contiguous: [0],
  infer(call) {
    const { name, inputs: [x], attributes } = call;
    checkOperand(x, name);
    const { storage: { info }, layout: { shape } } = x;
    checkKind(info, "biuf", name);
    const { k, axis } = attributes as TopKAttributes;
    const along = normalizeAxis(name, axis, shape.length);
    const size = shape[along]!;
    checkCount(name, x.layout, size);
    if (!Number.isInteger(k) || k < 0 || k > size) {
      throw new ArgumentError(
        `${name}() needs an integer from 0 to ${size} as k along axis ${axis} of shape ${
          formatShape(shape)
        }, got ${describe(k)}`,
      );
    }
    const taken = shape.map((n, i) => i === along ? k : n);
    return [{ shape: taken, dtype: info }, { shape: taken, dtype: DTYPE.int32 }];
  },
  prepare: alongLast,
  // NaN is the largest, and the first of equal elements are taken.
  decompose(call) {
    const x = call.operand(0);
    const { k, axis, largest, sorted } = call.attributes as TopKAttributes;
    const { rank, shape } = x.layout;
    const [{ shape: taken, dtype }, { dtype: int32 }] = call.specs as [OutputSpec, OutputSpec];
    if (taken.includes(0)) return [empty(taken, x, dtype), empty(taken, x, int32)];
    const along = normalizeAxis(call.name, axis, rank);
    const size = shape[along]!;
    // Sorted from its end, equal elements are in the reverse of the order required for the along k.
    const from = largest ? applyView(VIEWS.flip, x, "flip", [along]) : x;
    const order = dispatch(ARGSORT, [from], { axis: along, descending: false });
    const best = applyView(VIEWS.narrow, order, "narrow", along, largest ? size - k : 0, k);
    let indices = best;
    if (largest) {
      const reversed = applyView(VIEWS.flip, best, "flip", [along]);
      indices = apply(MAP.sub, size - 1, reversed);
    }
    indices = sorted
      ? contiguousCopy(indices)
      : dispatch(SORT, [indices], { axis: along, descending: false });
    return [takeAlongAxis(x, indices, along), indices];
  },
});

/** The `k` largest or smallest elements along an axis, and their indices as int32. */
export function topk(
  x: Operand,
  k: number,
  axis = -1,
  options: TopKOptions = {},
): { values: Operand; indices: Operand } {
  checkOperand(x, "topk");
  checkOptions("topk", options, ["largest", "sorted"]);
  const { largest = true, sorted = true } = options;
  const [values, indices] = dispatchAll(TOPK, [x], { k, axis, largest, sorted });
  return { values: values!, indices: indices! };
}
