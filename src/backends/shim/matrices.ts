/**
 * How products of matrices are handed to the shim, and that these stay inside their storages.
 *
 * @module
 */
import type { MatrixRef, Product } from "../../backend.ts";
import { outside } from "./checks.ts";

/**
 * Writes `product` into `plan`: m, n, k, the size of the batch, the strides of c, a and b and, from
 * `starts` on, where their matrices begin. Gives the plan, or a longer one where that is too short.
 *
 * Throws a NativeError that names `symbol` unless all matrices stay inside their storages.
 */
export function planProduct(
  symbol: string,
  plan: Float64Array<ArrayBuffer>,
  product: Product,
  starts: number,
): Float64Array<ArrayBuffer> {
  const { m, n, k, c, a, b } = product;
  const batch = c.offsets.length;
  const needed = starts + 3 * batch;
  if (plan.length < needed) plan = new Float64Array(2 * needed);
  plan[0] = m;
  plan[1] = n;
  plan[2] = k;
  plan[3] = batch;
  fillMatrix(symbol, 0, plan, starts, c, m, n);
  fillMatrix(symbol, 1, plan, starts + batch, a, m, k);
  fillMatrix(symbol, 2, plan, starts + 2 * batch, b, k, n);
  return plan;
}

function fillMatrix(
  symbol: string,
  operand: number,
  plan: Float64Array,
  starts: number,
  matrix: MatrixRef,
  rows: number,
  columns: number,
): void {
  const { storage, offsets, rowStride, columnStride } = matrix;
  plan[4 + 2 * operand] = rowStride;
  plan[5 + 2 * operand] = columnStride;
  const down = (rows - 1) * rowStride;
  const right = (columns - 1) * columnStride;
  const low = Math.min(0, down) + Math.min(0, right);
  const high = Math.max(0, down) + Math.max(0, right);
  for (let i = 0; i < offsets.length; i++) {
    const offset = plan[starts + i] = offsets[i]!;
    if (offset + low >= 0 && offset + high < storage.length) continue;
    throw outside(symbol, operand, offset + low, offset + high, storage);
  }
}
