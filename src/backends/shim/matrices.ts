/**
 * How matrices are handed to the shim, and that they stay inside their storages.
 *
 * @module
 */
import type { MatrixRef } from "../../backend.ts";
import { outside } from "./checks.ts";

/**
 * Writes the strides and offsets of `matrix`, [rows, columns], into a plan, as operand `k` of
 * `symbol`, and throws a NativeError unless all of them stay inside their storage.
 */
export function fillMatrix(
  symbol: string,
  k: number,
  plan: Float64Array,
  strides: number,
  offsets: number,
  matrix: MatrixRef,
  rows: number,
  columns: number,
): void {
  const { rowStride, columnStride, storage } = matrix;
  plan[strides] = rowStride;
  plan[strides + 1] = columnStride;
  const down = (rows - 1) * rowStride;
  const right = (columns - 1) * columnStride;
  const low = Math.min(0, down) + Math.min(0, right);
  const high = Math.max(0, down) + Math.max(0, right);
  for (let i = 0; i < matrix.offsets.length; i++) {
    const offset = plan[offsets + i] = matrix.offsets[i]!;
    if (offset + low >= 0 && offset + high < storage.length) continue;
    throw outside(symbol, k, offset + low, offset + high, storage);
  }
}
