/**
 * Matrix products and linear algebra as batches of matrices, for their kernels.
 *
 * @module
 */
import { DTYPE, type DTypeInfo, promoteTypes } from "../../base/dtype.ts";
import { DTypeError } from "../../base/errors.ts";
import type { Layout } from "../../base/layout.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import type { Call } from "../../table/op.ts";

/** A batch of matrices in a storage; all counts are in elements. */
export interface MatrixBatch {
  /** The elements. */
  readonly storage: Storage;
  /** Their layout: the last two axes are rows and columns, the others the batch. */
  readonly layout: Layout;
  /** The number of matrices. */
  readonly batch: number;
  /** The distance between rows. */
  readonly rowStride: number;
  /** The distance between columns. */
  readonly columnStride: number;
}

/** The matrices of the last two axes of `layout`. */
export function matrixBatch(storage: Storage, layout: Layout): MatrixBatch {
  const { shape, strides } = layout;
  const rank = strides.length;
  let batch = 1;
  for (let axis = 0; axis < rank - 2; axis++) batch *= shape[axis]!;
  return {
    storage,
    layout,
    batch,
    rowStride: strides[rank - 2]!,
    columnStride: strides[rank - 1]!,
  };
}

/**
 * Writes the offset of each matrix of the batch to `to`, from index `at` on, in the order of its
 * axes.
 */
export function writeOffsets({ layout, batch }: MatrixBatch, to: Float64Array, at: number): void {
  const { shape, strides, offset } = layout;
  to[at] = offset;
  let written = 1;
  for (let axis = shape.length - 3; written < batch; axis--) {
    const stride = strides[axis]!;
    const all = written * shape[axis]!;
    for (let i = written; i < all; i++) {
      to[at + i] = written === 1 ? offset + i * stride : to[at + i - written]! + stride;
    }
    written = all;
  }
}

/** The offset of each matrix of the batch. */
export function offsetsOf(matrices: MatrixBatch): ArrayLike<number> {
  if (matrices.batch === 1) return [matrices.layout.offset];
  const offsets = new Float64Array(matrices.batch);
  writeOffsets(matrices, offsets, 0);
  return offsets;
}

/**
 * A product: `c[i] = a[i] @ b[i]`, [m, k] @ [k, n], for every matrix of the batch. m, n, k and the
 * batch are at least 1.
 */
export interface GemmProblem {
  /** Rows of `a` and of `c`. */
  readonly m: number;
  /** Columns of `b` and of `c`. */
  readonly n: number;
  /** Columns of `a`, rows of `b`: the length of each sum. */
  readonly k: number;
  /**
   * [m, n], written. Strides may be negative, but each element of the batch has one index, and none
   * is read.
   */
  readonly c: MatrixBatch;
  /** [m, k], read; strides may also be 0, and matrices may overlap each other and those of `b`. */
  readonly a: MatrixBatch;
  /** [k, n], of the dtype of `a`, read in the same way. */
  readonly b: MatrixBatch;
}

/** The sizes of a product of two operands; vectors count as [1, k] and [k, 1]. */
export function gemmSizes(a: Layout, b: Layout): { m: number; n: number; k: number } {
  return {
    m: a.shape.length === 1 ? 1 : a.shape.at(-2)!,
    n: b.shape.length === 1 ? 1 : b.shape.at(-1)!,
    k: a.shape.at(-1)!,
  };
}

/** The problem of a call of `matmul` or `linear`, whose first two inputs are its operands. */
export function gemmOf(call: Call): GemmProblem {
  return gemmProblem(call.outputs[0]!, call.operand(0), call.operand(1));
}

/** The problem c = a @ b; batches of `a` and `b` broadcast to that of `c`. */
export function gemmProblem(c: Operand, a: Operand, b: Operand): GemmProblem {
  const { m, n, k } = gemmSizes(a.layout, b.layout);
  const [isRow, isColumn] = [a.layout.shape.length === 1, b.layout.shape.length === 1];
  const left = isRow ? a.layout.expandDims(0) : a.layout;
  const right = isColumn ? b.layout.expandDims(1) : b.layout;
  let target = c.layout;
  if (isColumn) target = target.expandDims(target.shape.length);
  if (isRow) target = target.expandDims(target.shape.length - 1);
  const batch = target.shape.length === 2 ? undefined : target.shape.slice(0, -2);
  return {
    m,
    n,
    k,
    c: matrixBatch(c.storage, target),
    a: matrixBatch(a.storage, batch ? left.broadcastTo([...batch, m, k]) : left),
    b: matrixBatch(b.storage, batch ? right.broadcastTo([...batch, k, n]) : right),
  };
}

/** True for a product of operands of one number dtype, also the result's, with k at least 1. */
export function isPlainGemm(call: Call): boolean {
  const [a, b] = [call.operand(0), call.operand(1)];
  const { info } = a.storage;
  return b.storage.info === info && call.specs[0]!.dtype === info && a.layout.size > 0 &&
    b.layout.size > 0;
}

// ---- linear algebra ----------------------------------------------------------------------------

/** True for a dtype of complex numbers. */
export function isComplexInfo({ kind }: DTypeInfo): boolean {
  return kind === "c";
}

/** The dtype in which linear algebra computes for operands of these dtypes. */
export function linalgDType(name: string, infos: readonly DTypeInfo[]): DTypeInfo {
  let info = infos[0]!;
  for (const other of infos) {
    if (other !== info) info = DTYPE[promoteTypes(info.name, other.name, name)];
  }
  const { kind, bytes, lane } = info;
  if (isComplexInfo(info)) return info;
  if (kind === "f" && bytes >= 4 && lane === null) return info;
  if (kind === "i" || kind === "u") return DTYPE.float32;
  throw new DTypeError(
    `Cannot ${name} ${info.name}: it takes integer, float32, float64 and complex dtypes; ` +
      "cast with astype()",
  );
}

/** Whether all operands of a call have the dtype of its arithmetic. */
export function hasLinalgDType({ name, inputs }: Call): boolean {
  const operands = inputs as Operand[];
  const info = linalgDType(name, operands.map(({ storage }) => storage.info));
  return operands.every(({ storage }) => storage.info === info);
}

/**
 * Singular values and Hermitian eigenvalues of floats, and what is made of them, are computed in double
 * up to this many rows or columns, the lesser of both; shim/cpu/linalg/linalg.h.
 */
const WIDE = 128;
const SPECTRAL: readonly string[] = ["eigh", "eigvalsh", "svd", "svdvals"];

/** The dtype in which singular values of a matrix of these sizes are computed. */
export function wideDType(info: DTypeInfo, [m, n]: readonly number[]): DTypeInfo {
  if (Math.min(m!, n!) > WIDE) return info;
  return info === DTYPE.float32
    ? DTYPE.float64
    : info === DTYPE.complex64
    ? DTYPE.complex128
    : info;
}

/** The dtype in which a device computes a call of linear algebra on operands of `info`. */
export function deviceDType({ op, inputs }: Call, info: DTypeInfo): DTypeInfo {
  const { layout: { shape } } = inputs[0] as Operand;
  return SPECTRAL.includes(op.name) ? wideDType(info, shape.slice(-2)) : info;
}

/** The layout of `x` with a vector as a matrix of one column. */
export function asMatrices({ layout }: Operand, isVector: boolean): Layout {
  return isVector ? layout.expandDims(layout.shape.length) : layout;
}

/** Whether operand `b` of `solve` is a vector. */
export function isVectorCall(call: Call): boolean {
  return call.inputs.length > 1 && call.operand(1).layout.shape.length === 1;
}

/** The matrices of the inputs of a call, broadcast to its batch. */
export function inputMatrices(call: Call): MatrixBatch[] {
  const isVector = isVectorCall(call);
  const batch = batchShape(call);
  return (call.inputs as Operand[]).map((x, k) => {
    const layout = asMatrices(x, k === 1 && isVector);
    const whole = call.inputs.length === 1
      ? layout
      : layout.broadcastTo([...batch, ...layout.shape.slice(-2)]);
    return matrixBatch(x.storage, whole);
  });
}

/** The shape of the batch of a call. */
export function batchShape(call: Call): readonly number[] {
  const { shape } = call.operand(0).layout;
  if (call.inputs.length === 1) return shape.slice(0, -2);
  const out = call.specs[0]!.shape;
  return isVectorCall(call) ? out.slice(0, -1) : out.slice(0, -2);
}

/** The place of a failure as one number: the matrix, and a pivot, or the size for no convergence. */
export function failure(matrix: number, size: number, pivot: number): number {
  return matrix * (size + 1) + pivot;
}
