/**
 * Matrix products as batches of matrices, for the kernels of `matmul` and `linear`.
 *
 * @module
 */
import type { Layout } from "../base/layout.ts";
import type { Operand } from "../memory/operand.ts";
import type { Storage } from "../memory/storage.ts";
import type { Call } from "../ops/op.ts";

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
