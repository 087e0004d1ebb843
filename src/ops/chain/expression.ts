/**
 * Elementwise ops by an expression that are no entries of the op table.
 *
 * JavaScript and CUDA compile a loop of the expression, and the C library runs it as a chain of
 * entries of the table, so that none needs code of its own.
 *
 * @module
 */
import type { MapOp } from "../../table/op.ts";
import { expressionOp } from "../../table/user_expr.ts";

/**
 * The op of an expression of `operands` operands, with its `parameters`; integers are computed in
 * float32. Its name has a prefix that `defineOp` refuses, so that programs may define an op `name`.
 */
export function expression(
  name: string,
  expr: string,
  parameters: readonly string[] = [],
): MapOp {
  const arity = /\bz\b/.test(expr) ? 3 : /\by\b/.test(expr) ? 2 : 1;
  return expressionOp({ name: `nn_${name}`, arity, text: expr, gives: "number", parameters });
}

/** A product and a sum. */
export const AFFINE: MapOp = expression("affine", "x * y + z");
