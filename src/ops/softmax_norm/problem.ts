/**
 * Softmax and norms in the form that backends run: along contiguous rows of floats.
 *
 * @module
 */
import { DTYPE, type DTypeInfo, finfo } from "../../base/dtype.ts";
import { normalizeAxes } from "../../base/shape.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import type { Call, Input } from "../../table/op.ts";

/** The names of the ops with row kernels in some backends. */
export const ROW_KERNELS = ["softmax", "logSoftmax", "layerNorm", "rmsNorm"] as const;

/** One of {@link ROW_KERNELS}. */
export type RowKernel = (typeof ROW_KERNELS)[number];

/** Attributes of softmax and norms. */
export interface RowAttributes {
  /** The axis, or the axes of a norm. */
  readonly axis: number | readonly number[];
  /** The number that norms add to the variance; its default depends on the op and the dtype. */
  readonly epsilon?: number | undefined;
}

/** The operands of a row kernel. */
export interface Rows {
  readonly rows: number;
  readonly columns: number;
  /** One element for each column, of the dtype that rows are computed in, from offset 0 on. */
  readonly weight: Storage | null;
  readonly bias: Storage | null;
  readonly epsilon: number;
}

/** The dtype that rows of `info` are computed in: 32 bits for sums of 16-bit floats. */
export function rowDType(info: DTypeInfo): DTypeInfo {
  return info.bytes === 2 ? DTYPE.float32 : info;
}

/** The epsilon that a norm of `info` adds to the variance. */
export function epsilonOf(call: Call, info: DTypeInfo): number {
  const { epsilon } = call.attributes as RowAttributes;
  return epsilon ?? (call.op.name === "rmsNorm" ? finfo(rowDType(info).name).eps : 1e-5);
}

/** The rows of a call that {@link isRowCall} has accepted. */
export function rowsOf(call: Call): Rows {
  return call.memo as Rows;
}

/**
 * True if row kernels can run the call: along the last axes of floats, with the scale and shift of
 * norms in one contiguous run each.
 */
export function isRowCall(call: Call): boolean {
  const { storage: { info }, layout: { shape, size } } = call.operand(0);
  if (info !== call.specs[0]!.dtype || info.kind !== "f" || size === 0) return false;
  const { axis } = call.attributes as RowAttributes;
  const rank = shape.length;
  let columns = 1;
  if (typeof axis === "number") {
    if (axis !== -1 && axis !== rank - 1) return false;
    columns = shape[rank - 1]!;
  } else {
    const axes = normalizeAxes(call.name, axis, rank);
    if (axes.some((k) => k < rank - axes.length)) return false;
    for (const k of axes) columns *= shape[k]!;
  }
  const { inputs } = call;
  const weight = inputs.length > 1 ? inputs[1] : undefined;
  const bias = inputs.length > 2 ? inputs[2] : undefined;
  const dtype = rowDType(info);
  if (!isRun(weight, dtype, columns) || !isRun(bias, dtype, columns)) return false;
  const rows: Rows = {
    rows: size / columns,
    columns,
    weight: weight === undefined ? null : (weight as Operand).storage,
    bias: bias === undefined ? null : (bias as Operand).storage,
    epsilon: call.op.name.endsWith("Norm") ? epsilonOf(call, info) : 0,
  };
  call.memo = rows;
  return true;
}

/** True for undefined, and for `length` contiguous elements of `info` from offset 0 on. */
export function isRun(input: Input, info: DTypeInfo, length: number): boolean {
  if (input === undefined) return true;
  const { storage, layout } = input as Operand;
  return storage.info === info && layout.contiguous && layout.offset === 0 &&
    layout.size === length;
}

/** Attributes of `normBackward`, whose inputs are x, the derivative by the result, and a weight. */
export interface NormBackwardAttributes {
  /** The axes of the norm, in order. */
  readonly axes: readonly number[];
  readonly epsilon: number;
  /** Whether the mean is subtracted: `layerNorm`. */
  readonly isCentred: boolean;
  /** Whether it computes the derivatives by weight and bias, too. */
  readonly sums: boolean;
}
