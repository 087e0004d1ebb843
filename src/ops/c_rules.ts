/**
 * What kernels in C have to know of a row besides its expressions, on the CPU and on devices alike.
 *
 * Knows nothing of how kernels are written.
 *
 * @module
 */
import { type Expr, parseExpr, someExpr } from "./expr.ts";
import type { MapOp } from "./op.ts";
import { exprFor } from "./table.ts";

/** Primitives that round nothing and cost little. */
const EXACT = new Set(
  ("fabs maximum minimum sign signbit copysign floor ceil trunc rint isnan isinf isfinite " +
    "nextafter shl shr").split(" "),
);

function isFunction(part: Expr): boolean {
  return part.kind === "call" && !EXACT.has(part.name);
}

/** How many operations of `expr` round. */
function roundings(expr: Expr): number {
  let count = 0;
  someExpr(expr, (part) => {
    if (isFunction(part) || (part.kind === "binary" && "+-*/".includes(part.op))) count++;
    return false;
  });
  return count;
}

/**
 * True when float32 has to be computed in double: what several operations make of it is rounded once
 * in JavaScript, and a row that is exact there is exact everywhere.
 */
export function needsDouble(row: MapOp): boolean {
  return row.ulp === 0 && roundings(parseExpr(row.expr)) > 1;
}

/**
 * True when an element takes a function, for which a kernel is long and a task short. Square roots
 * cost what a division does.
 */
export function isHeavy(row: MapOp): boolean {
  return (["f", "i"] as const).some((kind) =>
    someExpr(
      parseExpr(exprFor(row, kind)),
      (part) => isFunction(part) && !(part.kind === "call" && part.name === "sqrt"),
    )
  );
}

/** True when integers of one width give the same bits, signed or not. */
export function ignoresSign(expr: Expr): boolean {
  return !someExpr(
    expr,
    (part) =>
      (part.kind === "call" && part.name !== "shl") ||
      (part.kind === "binary" && ["<", "<=", ">", ">=", "/"].includes(part.op)),
  );
}
