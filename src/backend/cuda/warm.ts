/**
 * The kernels of most calls of an op, to compile them ahead.
 *
 * @module
 */
import { ROW_KERNELS } from "../../ops/softmax_norm/problem.ts";
import { DTYPE, type DType, realOf } from "../../base/dtype.ts";
import { COMPLEX_NUMBER, type ComplexName } from "../../ops/complex/op.ts";
import { MAP, TABLE } from "../../table/table.ts";
import { attentionFamily } from "./attention.ts";
import { complexFamily } from "./complex.ts";
import { matmulFamily } from "./matmul.ts";
import { moveFamily, nonzeroFamily } from "./move.ts";
import { randomFamily } from "./random.ts";
import { rowsFamily } from "./softmax_norm.ts";
import { countsFamily, sortFamily } from "./sort.ts";
import { type Family, usualOf } from "./source/mod.ts";

/** The kernels of `op`, an op of the table or of `PREPARED`, on elements of `dtypes`. */
export function familiesOf(op: string, all: readonly DType[]): Family[] {
  // Complex numbers are floats in pairs: sums and the like are those of floats.
  const isComplex = (dtype: DType): boolean => DTYPE[dtype].kind === "c";
  const dtypes = [...new Set(all.map((dtype) => realOf(DTYPE[dtype]).name))];
  if (all.some(isComplex) && COMPLEX_NUMBER.has(op)) {
    const own = all.every(isComplex) ? [] : familiesOf(op, all.filter((one) => !isComplex(one)));
    return [complexFamily(op as ComplexName), ...own];
  }
  const kernel = ROW_KERNELS.find((name) => name === op);
  if (kernel !== undefined) {
    const floats = dtypes.filter((dtype) => DTYPE[dtype].kind === "f");
    return floats.map((dtype) => rowsFamily(kernel, dtype));
  }
  if (op === "attention") {
    const floats = dtypes.filter((dtype) => DTYPE[dtype].kind === "f" && DTYPE[dtype].bytes === 2);
    return floats.map((dtype) => attentionFamily(dtype, true));
  }
  if (op === "matmul") return [matmulFamily()];
  if (op === "random") return [randomFamily()];
  if (op === "index") return [moveFamily(), nonzeroFamily(), countsFamily()];
  if (op === "sort") {
    const sizes = new Set(dtypes.map((dtype) => DTYPE[dtype].bytes));
    return [...[...sizes].map((bytes) => sortFamily(bytes)), countsFamily()];
  }
  const row = op === "astype" ? MAP.copy : TABLE.find(({ name }) => name === op);
  return row === undefined ? [] : [usualOf(row, dtypes)];
}
