/**
 * The kernels of sets, searching and histograms, which run on the CPU.
 *
 * Their inputs are contiguous. 16-bit floats are cast before, except for runs of equal elements.
 *
 * @module
 */
import { DTYPE, type DType, type DTypeInfo } from "../../base/dtype.ts";
import { cast, contiguousCopy, toDevice } from "../../core/copy.ts";
import { applyView } from "../../core/apply.ts";
import { dispatch } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import { readElement } from "../../memory/element.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { isHost } from "../../memory/storage.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { VIEWS } from "../../table/views.ts";

/** Attributes of `interpolate`. */
export interface InterpolateAttributes {
  /** The value below the first point; that of the first point if missing. */
  readonly left: number | undefined;
  /** The value above the last point; that of the last point if missing. */
  readonly right: number | undefined;
  /** The dtype of the result: float32 or float64. */
  readonly dtype: DType;
}

/** A kernel of the CPU. */
function kernel(name: string, count: number, infer: (call: Call) => readonly OutputSpec[]): Op {
  return makeOp({
    kind: "kernel",
    name,
    contiguous: Array.from({ length: count }, (_, k) => k),
    infer,
  });
}

/** The results of `f` for the inputs of a call on the CPU, on the device of the call. */
export function onHost(
  { inputs, like }: Call,
  f: (inputs: readonly (Operand | undefined)[]) => readonly Operand[],
): readonly Operand[] {
  const { device, memory } = like!;
  const given = inputs as (Operand | undefined)[];
  // The kernels of the CPU run on this memory: a program records them.
  if (isHost(memory)) return f(given);
  return f(given.map((x) => isOperand(x) ? toDevice(x, "cpu") : x))
    .map((x) => toDevice(x, device));
}

const INT32 = DTYPE.int32;

/** Attributes of {@link KERNELS}'s `uniqueRuns`. */
export interface RunAttributes {
  /** Whether all NaN are one value. */
  readonly equalNan: boolean;
  /** Whether the begins of runs are results too. */
  readonly starts: boolean;
}

/** Attributes of `uniqueTable`. */
export interface TableAttributes {
  /** The smallest integer, and how many there are from it to the largest. */
  readonly low: number;
  readonly size: number;
  /** Whether counts and indices are results too. */
  readonly full: boolean;
}

/** Attributes of bins. */
export interface BinAttributes {
  readonly bins: number;
  /** Whether all bins are of one width. */
  readonly uniform?: boolean;
}

/** The dtype of sums of weights, or of counts. */
const countDType = (weights: unknown): DTypeInfo => {
  if (weights === undefined) return INT32;
  const { info } = (weights as Operand).storage;
  return info.kind === "f" ? DTYPE.float64 : info;
};

/** The kernels. */
export const KERNELS = {
  /**
   * The values of sorted elements, where the run of each begins, and their number; there is room for as
   * many as there are elements.
   */
  uniqueRuns: kernel("uniqueRuns", 1, (call) => {
    const { storage, layout: { size } } = call.operand(0);
    const { starts } = call.attributes as RunAttributes;
    return [
      { shape: [size], dtype: storage.info },
      { shape: [starts ? size : 0], dtype: INT32 },
      { shape: [1], dtype: INT32 },
    ];
  }),
  /** The run of each element; inputs: the order that sorts them, and where runs begin in it. */
  runIndices: kernel(
    "runIndices",
    2,
    (call) => [{ shape: call.operand(0).layout.shape, dtype: INT32 }],
  ),
  /**
   * The values of integers of a small range in order; how often each occurs, where first, the index of
   * each element's value; and their number.
   */
  uniqueTable: kernel("uniqueTable", 1, (call) => {
    const { storage, layout } = call.operand(0);
    const { size, full } = call.attributes as TableAttributes;
    const most = Math.min(size, layout.size);
    const part = { shape: [full ? most : 0], dtype: INT32 };
    return [
      { shape: [most], dtype: storage.info },
      part,
      part,
      { shape: [full ? layout.size : 0], dtype: INT32 },
      { shape: [1], dtype: INT32 },
    ];
  }),
  /** Which elements are among others: bool. */
  isAmong: kernel(
    "isAmong",
    2,
    (call) => [{ shape: call.operand(0).layout.shape, dtype: DTYPE.bool }],
  ),
  /** Before which of sorted elements values belong; inputs: sorted elements, values. */
  searchIndices: kernel(
    "searchIndices",
    2,
    (call) => [{ shape: call.operand(1).layout.shape, dtype: INT32 }],
  ),
  /** Values of the lines between points; inputs: where, places and values of points, in float64. */
  interpolate: kernel("interpolate", 3, (call) => {
    const { dtype } = call.attributes as InterpolateAttributes;
    return [{ shape: call.operand(0).layout.shape, dtype: DTYPE[dtype] }];
  }),
  /** How often integers below the number of bins occur; inputs: integers, weights. */
  binCounts: kernel(
    "binCounts",
    2,
    ({ attributes, inputs }) => [{ shape: [attributes.bins], dtype: countDType(inputs[1]) }],
  ),
  /** How many elements are in bins; inputs: elements, edges of float64, weights. */
  histogramCounts: kernel(
    "histogramCounts",
    3,
    ({ attributes, inputs }) => [{ shape: [attributes.bins], dtype: countDType(inputs[2]) }],
  ),
  /** The bin of each element, or their number; inputs: elements, edges. */
  binIndices: kernel(
    "binIndices",
    2,
    (call) => [{ shape: call.operand(0).layout.shape, dtype: INT32 }],
  ),
} as const;

/** Runs one of the kernels with a single result. */
export function runKernel(
  name: Exclude<keyof typeof KERNELS, "uniqueRuns" | "uniqueTable">,
  inputs: readonly (Operand | undefined)[],
  attributes: object = {},
): Operand {
  return dispatch(KERNELS[name], [...inputs], attributes);
}

/** All elements in a row, contiguous. */
export function flat(x: Operand): Operand {
  const line = applyView(VIEWS.flatten, x, "flatten");
  return line.layout.contiguous ? line : contiguousCopy(line);
}

/** `x` with 16-bit floats as float32. */
export function widened(x: Operand): Operand {
  const { kind, bytes } = x.storage.info;
  return kind === "f" && bytes === 2 ? cast(x, "float32") : x;
}

/** The only element of `x`. */
export function only(x: Operand): number | bigint {
  return readElement(x.storage, x.layout.offset) as number | bigint;
}

/** The only element of the tensor that `f` makes. */
export function readOnly(f: () => Operand): number | bigint {
  return tidy(() => only(f()));
}
