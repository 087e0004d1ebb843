/**
 * Properties of an op that kernels in C need in addition to its expressions, on the CPU and on
 * devices.
 *
 * Knows nothing of how kernels are written.
 *
 * @module
 */
import { type Expr, parseExpr, someExpr } from "./expr.ts";
import type { MapOp } from "./op.ts";
import { exprFor } from "./table.ts";

/** Primitives that are exact and cheap. */
const EXACT = new Set(
  ("fabs maximum minimum sign signbit copysign floor ceil trunc rint isnan isinf isfinite " +
    "nextafter shl shr").split(" "),
);

function isFunction(part: Expr): boolean {
  return part.kind === "call" && !EXACT.has(part.name);
}

/** The number of operations of `expr` that round. */
function roundings(expr: Expr): number {
  let count = 0;
  someExpr(expr, (part) => {
    if (isFunction(part) || (part.kind === "binary" && "+-*/".includes(part.op))) count++;
    return false;
  });
  return count;
}

/**
 * True if float32 has to be computed in double: JavaScript rounds the result of several operations
 * once, and an op that is exact there must be exact everywhere.
 */
export function needsDouble(row: MapOp): boolean {
  return row.ulp === 0 && roundings(parseExpr(row.expr)) > 1;
}

/**
 * True if an element needs an expensive function: then kernels are large, and each task contains fewer
 * elements. A square root costs as much as a division.
 */
export function isComputeBound(row: MapOp): boolean {
  return (["f", "i"] as const).some((kind) =>
    someExpr(
      parseExpr(exprFor(row, kind)),
      (part) => isFunction(part) && !(part.kind === "call" && part.name === "sqrt"),
    )
  );
}

/** True if signed and unsigned integers of one width give the same bits. */
export function ignoresSign(expr: Expr): boolean {
  return !someExpr(
    expr,
    (part) =>
      (part.kind === "call" && part.name !== "shl") ||
      (part.kind === "binary" && ["<", "<=", ">", ">=", "/"].includes(part.op)),
  );
}
