/**
 * The different elements of tensors.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { applyView } from "../../core/apply.ts";
import { contiguousCopy } from "../../core/copy.ts";
import { dispatch, dispatchAll } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { apply } from "../../core/apply.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkCount, checkKind, checkOperand, checkOptions } from "../../table/infer.ts";
import { INDEX } from "../../ops/index/kernels.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { empty } from "../../core/composite.ts";
import { concat } from "../../ops/join/op.ts";
import { sort } from "../../ops/sort/op.ts";
import { indicesBy } from "../../ops/index/selection.ts";
import type { AnyTensor, Tensor, TensorOf } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import { flat, KERNELS, onHost, only, readOnly, runKernel } from "../../ops/sets/op.ts";

/** Options of the functions that find different elements. */
export interface UniqueOptions {
  /**
   * Whether all NaN count as one value (default), as in `np.unique`; with false, each NaN is a value
   * of its own, as the array API says.
   */
  readonly equalNan?: boolean;
}

type Part = "indices" | "inverseIndices" | "counts";

/** The parts of a result beside the values. */
type Parts = Partial<Record<Part, Operand>> & { readonly values: Operand };

const INT32 = DTYPE.int32;

/** The first `count` elements, in memory of their own. */
function firstOf(x: Operand, count: number): Operand {
  if (count === x.layout.size) return x;
  return contiguousCopy(applyView(VIEWS.narrow, x, "narrow", 0, 0, count));
}

/** The smallest and the largest integer if a table of all between them is small; else undefined. */
function smallRange(x: Operand): { low: number; size: number } | undefined {
  const { storage: { info }, layout: { size: n } } = x;
  if (info.kind === "f") return undefined;
  if (info.bytes === 1) {
    return { low: Number(info.min), size: Number(info.max) - Number(info.min) + 1 };
  }
  const extreme = (op: typeof REDUCE.min | typeof REDUCE.max): number =>
    Number(readOnly(() => dispatch(op, [x], { axis: undefined })));
  const [low, high] = [extreme(REDUCE.min), extreme(REDUCE.max)];
  const size = high - low + 1;
  const isExact = Number.isSafeInteger(low) && Number.isSafeInteger(high);
  return isExact && size <= Math.max(2 * n, 1024) ? { low, size } : undefined;
}

/** The result by a table of the integers from `low` on. */
function uniqueByTable(x: Operand, low: number, size: number, full: boolean): Parts {
  const [values, counts, indices, inverseIndices, found] = dispatchAll(
    KERNELS.uniqueTable,
    [x],
    { low, size, full },
  ) as [Operand, Operand, Operand, Operand, Operand];
  const count = Number(only(found));
  if (!full) return { values: firstOf(values, count) };
  return {
    values: firstOf(values, count),
    counts: firstOf(counts, count),
    indices: firstOf(indices, count),
    inverseIndices,
  };
}

/** The lengths of runs that begin at `starts`, the last of which ends at `n`. */
function lengthsOf(starts: Operand, n: number): Operand {
  const count = starts.layout.size;
  const later = applyView(VIEWS.narrow, starts, "narrow", 0, 1, count - 1);
  const ends = concat([later, indicesBy(starts.storage, 1, () => n)]);
  return apply(MAP.sub, ends, starts);
}

/** The result by sorting. */
function uniqueBySort(x: Operand, parts: readonly Part[], equalNan: boolean): Parts {
  const ordered = parts.includes("indices") || parts.includes("inverseIndices");
  const order = ordered ? sort("argsort", x) : undefined;
  const sorted = order === undefined
    ? sort("sort", x)
    : dispatch(INDEX.gather, [x, order], { axis: 0 });
  const attributes = { equalNan, starts: parts.length > 0 };
  const [all, begins, found] = dispatchAll(KERNELS.uniqueRuns, [sorted], attributes) as [
    Operand,
    Operand,
    Operand,
  ];
  const count = Number(only(found));
  const values = firstOf(all, count);
  if (parts.length === 0) return { values };
  const starts = firstOf(begins, count);
  const made: { -readonly [K in keyof Parts]: Parts[K] } = { values };
  if (parts.includes("counts")) made.counts = lengthsOf(starts, x.layout.size);
  if (order !== undefined) {
    if (parts.includes("indices")) {
      made.indices = dispatch(INDEX.gather, [order, starts], { axis: 0 });
    }
    if (parts.includes("inverseIndices")) {
      made.inverseIndices = runKernel("runIndices", [order, starts]);
    }
  }
  return made;
}

/** The values of `x`, which is on the CPU, and the other parts. */
function uniqueParts(x: Operand, parts: readonly Part[], equalNan: boolean): Parts {
  const line = flat(x);
  if (line.layout.size === 0) {
    const none = (): Operand => empty([0], x, INT32);
    const values = empty([0], x);
    return { values, indices: none(), inverseIndices: none(), counts: none() };
  }
  const range = smallRange(line);
  return range === undefined
    ? uniqueBySort(line, parts, equalNan)
    : uniqueByTable(line, range.low, range.size, parts.length > 0);
}

function uniqueOp(name: string, parts: readonly Part[]): Op {
  return makeOp({
    kind: "kernel",
    name,
    infer(call: Call) {
      const { inputs: [x] } = call;
      checkOperand(x, call.name);
      checkKind(x.storage.info, "biuf", call.name);
      checkCount(call.name, x.layout, x.layout.size);
      return "data-dependent";
    },
    decompose(call: Call) {
      const { equalNan } = call.attributes as Required<UniqueOptions>;
      return onHost(call, ([x]) => {
        const made = uniqueParts(x!, parts, equalNan);
        const { shape } = x!.layout;
        return [
          made.values,
          ...parts.map((part) =>
            part === "inverseIndices"
              ? applyView(VIEWS.reshape, made.inverseIndices!, "reshape", shape)
              : made[part]!
          ),
        ];
      });
    },
  });
}

const VALUES = uniqueOp("uniqueValues", []);
const COUNTS = uniqueOp("uniqueCounts", ["counts"]);
const INVERSE = uniqueOp("uniqueInverse", ["inverseIndices"]);
const ALL = uniqueOp("uniqueAll", ["indices", "inverseIndices", "counts"]);

function unique(op: Op, x: unknown, options: UniqueOptions): Operand[] {
  const { name } = op;
  checkOptions(name, options, ["equalNan"]);
  const { equalNan = true } = options;
  return dispatchAll(op, [ownOperand(x, name)], { equalNan: Boolean(equalNan) });
}

/** The different elements of `x` in order, on the CPU. */
export function valuesOf(x: Operand): Operand {
  return uniqueParts(x, [], true).values;
}

/** A vector of the dtype and the device of `X`. */
export type VectorOf<X extends AnyTensor> = TensorOf<
  X["dtype"],
  [number],
  X["device"]
>["tensor"];

/**
 * The different elements of a tensor, in order. NaN comes last; all NaN are one value unless
 * `equalNan` is false. -0 and 0 are equal.
 *
 * The number of values is known only once they are computed, so this throws a TraceError in compiled
 * functions.
 *
 * @example
 * ```ts
 * uniqueValues(tensor([3, 1, 3, 2])).toArray(); // => [1, 2, 3]
 * ```
 */
export function uniqueValues<X extends AnyTensor>(x: X, options?: UniqueOptions): VectorOf<X>;
export function uniqueValues(x: AnyTensor, options: UniqueOptions = {}): Operand {
  return unique(VALUES, x, options)[0]!;
}

/**
 * The different elements of a tensor, in order, and how often each occurs (int32). See
 * {@link uniqueValues}.
 *
 * @example
 * ```ts
 * const { values, counts } = uniqueCounts(tensor([3, 1, 3, 2]));
 * [values.toArray(), counts.toArray()]; // => [[1, 2, 3], [1, 1, 2]]
 * ```
 */
export function uniqueCounts<X extends AnyTensor>(
  x: X,
  options?: UniqueOptions,
): { readonly values: VectorOf<X>; readonly counts: Tensor<"int32", [number], X["device"]> };
export function uniqueCounts(
  x: AnyTensor,
  options: UniqueOptions = {},
): Readonly<Record<"values" | "counts", Operand>> {
  const [values, counts] = unique(COUNTS, x, options);
  return { values: values!, counts: counts! };
}

/**
 * The different elements of a tensor, in order, and for each element the index of its value (int32), in
 * the shape of the tensor: `values.take(inverseIndices)` is the tensor. See {@link uniqueValues}.
 *
 * @example
 * ```ts
 * const { values, inverseIndices } = uniqueInverse(tensor([3, 1, 3, 2]));
 * [values.toArray(), inverseIndices.toArray()]; // => [[1, 2, 3], [2, 0, 2, 1]]
 * ```
 */
export function uniqueInverse<X extends AnyTensor>(
  x: X,
  options?: UniqueOptions,
): {
  readonly values: VectorOf<X>;
  readonly inverseIndices: Tensor<"int32", t.ShapeOf<X>, X["device"]>;
};
export function uniqueInverse(
  x: AnyTensor,
  options: UniqueOptions = {},
): Readonly<Record<"values" | "inverseIndices", Operand>> {
  const [values, inverseIndices] = unique(INVERSE, x, options);
  return { values: values!, inverseIndices: inverseIndices! };
}

/**
 * The different elements of a tensor, in order: where each occurs first, for each element the index of
 * its value, and how often each value occurs (all int32). See {@link uniqueValues}.
 *
 * @example
 * ```ts
 * const { indices, counts } = uniqueAll(tensor([3, 1, 3, 2]));
 * [indices.toArray(), counts.toArray()]; // => [[1, 3, 0], [1, 1, 2]]
 * ```
 */
export function uniqueAll<X extends AnyTensor>(x: X, options?: UniqueOptions): {
  readonly values: VectorOf<X>;
  readonly indices: Tensor<"int32", [number], X["device"]>;
  readonly inverseIndices: Tensor<"int32", t.ShapeOf<X>, X["device"]>;
  readonly counts: Tensor<"int32", [number], X["device"]>;
};
export function uniqueAll(
  x: AnyTensor,
  options: UniqueOptions = {},
): Readonly<Record<"values" | "indices" | "inverseIndices" | "counts", Operand>> {
  const [values, indices, inverseIndices, counts] = unique(ALL, x, options);
  return { values: values!, indices: indices!, inverseIndices: inverseIndices!, counts: counts! };
}
