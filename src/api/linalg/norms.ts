/**
 * Norms and condition numbers.
 *
 * @module
 */
import { realOf } from "../../base/dtype.ts";
import { ArgumentError, ShapeError } from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import { isComplexInfo, linalgDType } from "../../ops/matmul/problem.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkOperand, checkOptions } from "../../table/infer.ts";
import type { ReduceOp } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { type Axes, norm, reduce } from "../../ops/reduce/op.ts";
import type { AnyTensor } from "../../tensor/tensor.ts";
import { LINALG } from "../../ops/linalg/op.ts";
import type * as t from "../../types/mod.ts";
import type { RealOf } from "./spectral.ts";

/** The kinds of matrix norms: Frobenius, nuclear, or 1, -1, 2, -2, Infinity or -Infinity. */
export type MatrixOrder = "fro" | "nuc" | number;

const ORDERS: readonly unknown[] = ["fro", "nuc", 1, -1, 2, -2, Infinity, -Infinity];

/** Magnitudes in the dtype of the arithmetic. */
function magnitudes(name: string, a: Operand): Operand {
  const { name: dtype } = linalgDType(name, [a.storage.info]);
  return apply(MAP.abs, cast(a, dtype));
}

/** Elements whose magnitudes `norm` takes. */
function elements(name: string, a: Operand): Operand {
  return isComplexInfo(a.storage.info)
    ? apply(MAP.abs, a)
    : cast(a, linalgDType(name, [a.storage.info]).name);
}

function checkMatrices(name: string, a: unknown): asserts a is Operand {
  checkOperand(a, name);
  const { shape } = a.layout;
  if (shape.length < 2) {
    throw new ShapeError(`Cannot ${name} shape ${formatShape(shape)}: it takes matrices`);
  }
}

/** The largest or smallest sum of magnitudes over an axis. */
function sumNorm(name: string, a: Operand, axis: -1 | -2, pick: ReduceOp): Operand {
  const sums = reduce(REDUCE.sum, magnitudes(name, a), axis);
  return extreme(pick, sums);
}

/** The largest or smallest of sizes along the last axis; the largest of none is 0, as in NumPy. */
function extreme(pick: ReduceOp, sizes: Operand): Operand {
  const isZero = pick === REDUCE.max && sizes.layout.shape.at(-1) === 0;
  return reduce(isZero ? REDUCE.sum : pick, sizes, -1);
}

function normOf(name: string, a: Operand, ord: MatrixOrder): Operand {
  switch (ord) {
    case 1:
      return sumNorm(name, a, -2, REDUCE.max);
    case -1:
      return sumNorm(name, a, -2, REDUCE.min);
    case Infinity:
      return sumNorm(name, a, -1, REDUCE.max);
    case -Infinity:
      return sumNorm(name, a, -1, REDUCE.min);
    case "fro":
      return norm(elements(name, a), [-2, -1]);
    default: {
      const s = dispatch(LINALG.svdvals, [a], undefined, undefined, name);
      if (ord === "nuc") return reduce(REDUCE.sum, s, -1);
      return extreme(ord === 2 ? REDUCE.max : REDUCE.min, s);
    }
  }
}

function checkOrder(name: string, ord: unknown): asserts ord is MatrixOrder {
  if (ORDERS.includes(ord)) return;
  throw new ArgumentError(
    `Cannot ${name} with ord ${describe(ord)}: it is "fro", "nuc", 1, -1, 2, -2, Infinity or ` +
      "-Infinity",
  );
}

/**
 * The norms of matrices [..., M, N]: Frobenius (`"fro"`), nuclear (`"nuc"`), the largest and smallest
 * sum of a column (1, -1) or row (±Infinity), the largest and smallest singular value (2, -2). The
 * largest of nothing is 0; the smallest of nothing is a ShapeError.
 *
 * @example
 * ```ts
 * linalg.matrixNorm(tensor([[3, 0], [0, 4]])).item(); // => 5
 * ```
 */
export function matrixNorm<X extends AnyTensor, K extends boolean = false>(
  a: t.Guard<t.Matrices<"matrixNorm", t.ShapeOf<X>>, X>,
  options?: { readonly ord?: MatrixOrder; readonly keepDims?: K },
): RealOf<X, t.Ok<t.Reduce<"matrixNorm", t.ShapeOf<X>, [-2, -1], K>>>;
/** The implementation. @ignore */
export function matrixNorm(
  a: AnyTensor,
  options: { readonly ord?: MatrixOrder; readonly keepDims?: boolean } = {},
): Operand {
  checkOptions("matrixNorm", options, ["ord", "keepDims"]);
  const { ord = "fro", keepDims = false } = options;
  checkMatrices("matrixNorm", a);
  checkOrder("matrixNorm", ord);
  return tidy(() => {
    const made = normOf("matrixNorm", a, ord);
    if (!keepDims) return made;
    const column = applyView(VIEWS.expandDims, made, "expandDims", -1);
    return applyView(VIEWS.expandDims, column, "expandDims", -1);
  });
}

/** Options of {@link vectorNorm}. */
export interface VectorNormOptions<B = t.AxisArg, K extends boolean = boolean> {
  /** The axes of the vectors; all by default. */
  readonly axis?: B;
  /** Whether to keep the axes, with size 1. */
  readonly keepDims?: K;
  /** The p of the norm (2): any number; ±Infinity, and 0, which counts nonzero elements. */
  readonly ord?: number;
}

/**
 * The norms of vectors along `axis`, or of all elements.
 *
 * @example
 * ```ts
 * linalg.vectorNorm(tensor([[3, 4], [6, 8]]), { axis: 1 }).toArray(); // => [5, 10]
 * ```
 */
export function vectorNorm<
  X extends AnyTensor,
  const B extends t.AxisArg = undefined,
  const K extends boolean = false,
>(
  x: X,
  options?: VectorNormOptions<t.Guard<t.Reduce<"vectorNorm", t.ShapeOf<X>, B, K>, B>, K>,
): RealOf<X, t.Ok<t.Reduce<"vectorNorm", t.ShapeOf<X>, B, K>>>;
/** The implementation. @ignore */
export function vectorNorm(
  x: AnyTensor,
  options: VectorNormOptions<t.AxisArg, boolean> = {},
): Operand {
  checkOptions("vectorNorm", options, ["axis", "keepDims", "ord"]);
  checkOperand(x, "vectorNorm");
  const { axis = null, keepDims = false, ord = 2 } = options;
  if (typeof ord !== "number" || Number.isNaN(ord)) {
    throw new ArgumentError(`Cannot vectorNorm with ord ${describe(ord)}: it is a number`);
  }
  return tidy(() => {
    if (ord >= 0 || ord === -Infinity) {
      return norm(elements("vectorNorm", x), axis as Axes, { keepDims, ord }, "vectorNorm");
    }
    const powers = apply(MAP.pow, magnitudes("vectorNorm", x), ord);
    return apply(MAP.pow, reduce(REDUCE.sum, powers, axis as Axes, { keepDims }), 1 / ord);
  });
}

/**
 * The condition numbers of matrices [..., M, N]: the largest singular value over the smallest, or
 * the norm of `ord` times that of the inverse. Singular matrices give Infinity.
 *
 * @throws {ShapeError} For matrices without elements.
 *
 * @example
 * ```ts
 * linalg.cond(tensor([[2, 0], [0, 4]])).item(); // => 2
 * ```
 */
export function cond<X extends AnyTensor>(
  a: t.Guard<t.Matrices<"cond", t.ShapeOf<X>>, X>,
  options?: { readonly ord?: MatrixOrder },
): RealOf<X, t.Batch<t.ShapeOf<X>>>;
/** The implementation. @ignore */
export function cond(a: AnyTensor, options: { readonly ord?: MatrixOrder } = {}): Operand {
  checkOptions("cond", options, ["ord"]);
  const { ord = 2 } = options;
  checkMatrices("cond", a);
  const { shape } = (a as Operand).layout;
  if (shape.slice(-2).includes(0)) {
    throw new ShapeError(`Cannot cond shape ${formatShape(shape)}: it has no elements`);
  }
  checkOrder("cond", ord);
  const x: Operand = a;
  return tidy(() => {
    if (ord === 2 || ord === -2) {
      const s = dispatch(LINALG.svdvals, [x], undefined, undefined, "cond");
      const [most, least] = [reduce(REDUCE.max, s, -1), reduce(REDUCE.min, s, -1)];
      return infinite(x, ord === 2 ? apply(MAP.div, most, least) : apply(MAP.div, least, most));
    }
    const inverse = dispatch(LINALG.inv, [x], { nanIfSingular: true }, undefined, "cond");
    return infinite(x, apply(MAP.mul, normOf("cond", x, ord), normOf("cond", inverse, ord)));
  });
}

/** `made` with infinity for NaN, unless the matrix contains NaN. */
function infinite(a: Operand, made: Operand): Operand {
  const sizes = magnitudes("cond", a);
  const total = reduce(REDUCE.sum, sizes, [-2, -1]);
  const isNew = apply(
    MAP.logicalAnd,
    apply(MAP.notEqual, made, made),
    apply(MAP.equal, total, total),
  );
  return cast(apply(MAP.where, isNew, Infinity, made), realOf(made.storage.info).name);
}
