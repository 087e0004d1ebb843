/**
 * The kernels of most calls of an op, to compile them ahead.
 *
 * @module
 */
import { ROW_KERNELS } from "../../core/row_kernels.ts";
import { DTYPE, type DType } from "../../base/dtype.ts";
import { MAP, TABLE } from "../../ops/table.ts";
import { attentionFamily } from "./attention.ts";
import { matmulFamily } from "./matmul.ts";
import { moveFamily, nonzeroFamily } from "./move.ts";
import { randomFamily } from "./random.ts";
import { rowsFamily } from "./softmax_norm.ts";
import { countsFamily, sortFamily } from "./sort.ts";
import { type Family, usualOf } from "./source/mod.ts";

/** The kernels of `op`, an op of the table or of `PREPARED`, on elements of `dtypes`. */
export function familiesOf(op: string, dtypes: readonly DType[]): Family[] {
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
