/**
 * Passes matrix products to the shim, and checks that they stay inside their storages.
 *
 * @module
 */
import { type GemmProblem, type MatrixBatch, writeOffsets } from "../../ops/matmul/problem.ts";
import { checkLayout } from "./checks.ts";

/** Throws a NativeError that names `symbol` unless all matrices stay inside their storages. */
export function checkProduct(symbol: string, { c, a, b }: GemmProblem): void {
  checkLayout(symbol, 0, c.layout, c.storage);
  checkLayout(symbol, 1, a.layout, a.storage);
  checkLayout(symbol, 2, b.layout, b.storage);
}

/**
 * Writes `product` into `plan`: m, n, k, the size of the batch, the strides of c, a and b and, from
 * `starts` on, the offsets of their matrices. Returns the plan, or a longer one if it is too short.
 *
 * Throws as {@link checkProduct} does.
 */
export function planProduct(
  symbol: string,
  plan: Float64Array<ArrayBuffer>,
  product: GemmProblem,
  starts: number,
): Float64Array<ArrayBuffer> {
  checkProduct(symbol, product);
  const { m, n, k, c, a, b } = product;
  const { batch } = c;
  const needed = starts + 3 * batch;
  if (plan.length < needed) plan = new Float64Array(2 * needed);
  plan[0] = m;
  plan[1] = n;
  plan[2] = k;
  plan[3] = batch;
  fillMatrices(plan, 4, starts, c);
  fillMatrices(plan, 6, starts + batch, a);
  fillMatrices(plan, 8, starts + 2 * batch, b);
  return plan;
}

function fillMatrices(
  plan: Float64Array,
  strides: number,
  starts: number,
  matrices: MatrixBatch,
): void {
  plan[strides] = matrices.rowStride;
  plan[strides + 1] = matrices.columnStride;
  if (matrices.batch === 1) plan[starts] = matrices.layout.offset;
  else writeOffsets(matrices, plan, starts);
}
