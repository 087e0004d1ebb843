/**
 * Systems of equations, inverses, determinants, functions of matrices.
 *
 * @module
 */
import { type DType, type DTypeInfo, finfo, realOf } from "../../base/dtype.ts";
import { ArgumentError, ShapeError } from "../../base/errors.ts";
import { describe } from "../../base/text.ts";
import { formatShape } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatch, dispatchAll } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import { linalgDType, wideDType } from "../../ops/matmul/problem.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkOperand, checkOptions } from "../../table/infer.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { epsilonOf, identityLike } from "./parts.ts";
import { matmul } from "../../ops/matmul/op.ts";
import { reduce } from "../../ops/reduce/op.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import type { FloatTensor } from "./factors.ts";
import { adjoint, leastSquares, pseudoInverse } from "../../ops/linalg/least_squares.ts";
import { LINALG } from "../../ops/linalg/op.ts";
import type { RealOf } from "./spectral.ts";

/** The dtype in which linear algebra computes for two operands. */
export type FloatOfTwo<A extends AnyTensor, B extends AnyTensor> = t.ToFloat[
  t.OperandDType<"matmul", A, B>
];

/**
 * The solution x of a x = b for matrices a [..., N, N] and b [..., N, K]; batches broadcast. A
 * vector b [N] gives [..., N].
 *
 * @throws {LinAlgError} For a singular matrix.
 *
 * @example
 * ```ts
 * linalg.solve(tensor([[2, 0], [0, 4]]), tensor([2, 2])).toArray(); // => [1, 0.5]
 * ```
 */
export function solve<A extends AnyTensor, B extends AnyTensor>(
  a: A,
  b: t.Guard<t.ProductOf<"solve", A, B, t.Solve<"solve", t.ShapeOf<A>, t.ShapeOf<B>>>, B>,
): Tensor<FloatOfTwo<A, B>, t.Ok<t.Solve<"solve", t.ShapeOf<A>, t.ShapeOf<B>>>, A["device"]>;
/** The implementation. @ignore */
export function solve(a: AnyTensor, b: AnyTensor): Operand {
  return dispatch(LINALG.solve, [a, b]);
}

/** Options of {@link solveTriangular}. */
export interface SolveTriangularOptions {
  /** Whether a is upper triangular; the default is lower. The other triangle is not read. */
  readonly upper?: boolean;
  /** Whether to take the diagonal of a as ones. */
  readonly unitDiagonal?: boolean;
}

/** The solution x of a x = b for a triangular a; shapes as for {@link solve}. */
export function solveTriangular<A extends AnyTensor, B extends AnyTensor>(
  a: A,
  b: t.Guard<
    t.ProductOf<"solveTriangular", A, B, t.Solve<"solveTriangular", t.ShapeOf<A>, t.ShapeOf<B>>>,
    B
  >,
  options?: SolveTriangularOptions,
): Tensor<
  FloatOfTwo<A, B>,
  t.Ok<t.Solve<"solveTriangular", t.ShapeOf<A>, t.ShapeOf<B>>>,
  A["device"]
>;
/** The implementation. @ignore */
export function solveTriangular(
  a: AnyTensor,
  b: AnyTensor,
  options: SolveTriangularOptions = {},
): Operand {
  checkOptions("solveTriangular", options, ["upper", "unitDiagonal"]);
  const [upper, unitDiagonal] = [Boolean(options.upper), Boolean(options.unitDiagonal)];
  return dispatch(LINALG.solveTriangular, [a, b], { upper, unitDiagonal });
}

/**
 * The inverses of matrices [..., N, N].
 *
 * @throws {LinAlgError} For a singular matrix.
 *
 * @example
 * ```ts
 * linalg.inv(tensor([[2, 0], [0, 4]])).toArray(); // => [[0.5, 0], [0, 0.25]]
 * ```
 */
export function inv<X extends AnyTensor>(
  a: t.Guard<t.Square<"inv", t.ShapeOf<X>>, X>,
): FloatTensor<X, t.ShapeOf<X>>;
/** The implementation. @ignore */
export function inv(a: AnyTensor): Operand {
  return dispatch(LINALG.inv, [a]);
}

/** The determinants of matrices [..., N, N]: [...]. */
export function det<X extends AnyTensor>(
  a: t.Guard<t.Square<"det", t.ShapeOf<X>>, X>,
): FloatTensor<X, t.Batch<t.ShapeOf<X>>>;
/** The implementation. @ignore */
export function det(a: AnyTensor): Operand {
  return dispatch(LINALG.det, [a]);
}

/** The results of {@link slogdet}. */
export interface SLogDet<X extends AnyTensor> {
  /** The sign of the determinant; complex of magnitude 1 for complex matrices; 0 for singular ones. */
  readonly sign: FloatTensor<X, t.Batch<t.ShapeOf<X>>>;
  /** The logarithm of its magnitude. */
  readonly logabsdet: RealOf<X, t.Batch<t.ShapeOf<X>>>;
}

/** Sign and logarithm of the determinants of matrices [..., N, N], which do not overflow. */
export function slogdet<X extends AnyTensor>(
  a: t.Guard<t.Square<"slogdet", t.ShapeOf<X>>, X>,
): SLogDet<X>;
/** The implementation. @ignore */
export function slogdet(a: AnyTensor): Readonly<Record<"sign" | "logabsdet", Operand>> {
  const [sign, logabsdet] = dispatchAll(LINALG.slogdet, [a]);
  return { sign: sign!, logabsdet: logabsdet! };
}

/**
 * The exponentials of matrices [..., N, N]: the sum of Aᵏ / k!.
 *
 * @example
 * ```ts
 * linalg.expm(tensor([[0, 1], [0, 0]])).toArray(); // => [[1, 1], [0, 1]]
 * ```
 */
export function expm<X extends AnyTensor>(
  a: t.Guard<t.Square<"expm", t.ShapeOf<X>>, X>,
): FloatTensor<X, t.ShapeOf<X>>;
/** The implementation. @ignore */
export function expm(a: AnyTensor): Operand {
  return dispatch(LINALG.expm, [a]);
}

/** The dtype of matrices to the power `N`: a float for negative ones. */
export type PowerDType<D extends DType, N extends number> = number extends N ? D | t.ToFloat[D]
  : `${N}` extends `-${string}` ? t.ToFloat[D]
  : D;

/**
 * Matrices [..., N, N] to an integer power; a negative one inverts them first.
 *
 * @throws {LinAlgError} For a negative power of a singular matrix.
 */
export function matrixPower<X extends AnyTensor, const N extends number>(
  a: t.Guard<t.Square<"matrixPower", t.ShapeOf<X>>, X>,
  n: N,
): Tensor<PowerDType<X["dtype"], N>, t.ShapeOf<X>, X["device"]>;
/** The implementation. @ignore */
export function matrixPower(a: AnyTensor, n: number): Operand {
  checkOperand(a, "matrixPower");
  const { layout: { shape }, storage } = a as Operand;
  if (shape.length < 2 || shape.at(-1) !== shape.at(-2)) {
    throw new ShapeError(
      `Cannot matrixPower shape ${formatShape(shape)}: it takes square matrices`,
    );
  }
  if (!Number.isSafeInteger(n)) {
    throw new ArgumentError(`matrixPower() needs an integer, got ${describe(n)}`);
  }
  return tidy(() => {
    let square: Operand = n < 0 ? dispatch(LINALG.inv, [a]) : a;
    let made: Operand | undefined;
    for (let left = Math.abs(n); left > 0; left = Math.floor(left / 2)) {
      if (left % 2 === 1) made = made === undefined ? square : matmul(made, square);
      if (left > 1) square = matmul(square, square);
    }
    if (made === undefined) {
      const one = identityLike(shape.at(-1)!, storage);
      return apply(MAP.copy, applyView(VIEWS.broadcastTo, one, "broadcastTo", shape));
    }
    return made === (a as unknown) ? apply(MAP.copy, made) : made;
  });
}

/** Options of functions that take singular values for zero. */
export interface RankOptions {
  /**
   * Singular values up to this part of the largest one are taken for zero: a number of at least 0, or
   * a tensor with one for each matrix, which broadcasts to the batch. The default is max(M, N) times
   * the dtype's epsilon.
   */
  readonly rtol?: number | AnyTensor;
}

/** The part of the largest of `sizes` that counts as zero, beside it: [..., 1], or a number. */
function limitOf(name: string, a: Operand, sizes: Operand, options: RankOptions): Operand | number {
  const { shape } = a.layout;
  const info = realOf(linalgDType(name, [a.storage.info]));
  const { rtol = Math.max(...shape.slice(-2)) * epsilonOf(info.name) } = options;
  if (typeof rtol !== "object" || rtol === null) {
    if (typeof rtol === "number" && rtol >= 0) return rtol;
    throw new ArgumentError(
      `${name}() needs a number of at least 0 as rtol, got ${describe(rtol)}`,
    );
  }
  const limits: Operand = rtol;
  checkOperand(limits, name);
  const batch = shape.slice(0, -2), { shape: own } = limits.layout;
  const fits = own.length <= batch.length &&
    own.every((size, k) => size === 1 || size === batch[batch.length - own.length + k]);
  if (!fits) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(shape)} with rtol of shape ${
        formatShape(own)
      }: it does ` +
        `not broadcast to the batch ${formatShape(batch)}`,
    );
  }
  const column = applyView(VIEWS.expandDims, limits, "expandDims", -1);
  return cast(column, sizes.storage.info.name);
}

/** Which singular values of `a` are not zero. */
function significant(name: string, a: Operand, s: Operand, options: RankOptions): Operand {
  const limit = limitOf(name, a, s, options);
  const { rank, shape } = s.layout;
  const first = applyView(VIEWS.narrow, s, "narrow", rank - 1, 0, Math.min(1, shape.at(-1)!));
  // NaN counts as no rank, as in NumPy.
  return first.layout.size === 0
    ? apply(MAP.greater, s, 0)
    : apply(MAP.greater, s, apply(MAP.mul, first, limit));
}

/** `a` in the dtype of linear algebra, and in the one in which its singular values are computed. */
function widened(name: string, a: Operand): { info: DTypeInfo; wide: Operand } {
  checkOperand(a, name);
  const info = linalgDType(name, [a.storage.info]);
  return { info, wide: cast(a, wideDType(info, a.layout.shape.slice(-2)).name) };
}

/** The number of singular values of matrices [..., M, N] that are not zero: int64 [...]. */
export function matrixRank<X extends AnyTensor>(
  a: t.Guard<t.Matrices<"matrixRank", t.ShapeOf<X>>, X>,
  options?: RankOptions,
): Tensor<"int64", t.Batch<t.ShapeOf<X>>, X["device"]>;
/** The implementation. @ignore */
export function matrixRank(a: AnyTensor, options: RankOptions = {}): Operand {
  checkOptions("matrixRank", options, ["rtol"]);
  return tidy(() => {
    const s = dispatch(LINALG.svdvals, [a], undefined, undefined, "matrixRank");
    const isNonzero = significant("matrixRank", a as Operand, s, options);
    return reduce(REDUCE.sum, isNonzero, -1, { dtype: "int64" });
  });
}

/** 1 / s where `isNonzero`, 0 elsewhere: a row beside matrices. */
function inverseOf(s: Operand, isNonzero: Operand): Operand {
  const safe = apply(MAP.where, isNonzero, s, 1);
  const isNaN = apply(MAP.notEqual, s, s);
  const kept = apply(MAP.where, isNonzero, apply(MAP.div, 1, safe), 0);
  return applyView(VIEWS.expandDims, apply(MAP.where, isNaN, NaN, kept), "expandDims", -2);
}

/** Options of {@link pinv}. */
export interface PinvOptions extends RankOptions {
  /** Whether the matrices are Hermitian, which takes less time. */
  readonly hermitian?: boolean;
}

/**
 * The Moore-Penrose pseudoinverses of matrices [..., M, N]: [..., N, M].
 *
 * @example
 * ```ts
 * linalg.pinv(tensor([[2, 0], [0, 0]])).toArray(); // => [[0.5, 0], [0, 0]]
 * ```
 */
export function pinv<X extends AnyTensor>(
  a: t.Guard<t.Matrices<"pinv", t.ShapeOf<X>>, X>,
  options?: PinvOptions,
): FloatTensor<X, t.MatrixTranspose<t.ShapeOf<X>>>;
/** The implementation. @ignore */
export function pinv(a: AnyTensor, options: PinvOptions = {}): Operand {
  checkOptions("pinv", options, ["rtol", "hermitian"]);
  return tidy(() => {
    const { info, wide } = widened("pinv", a as Operand);
    const made = options.hermitian === true
      ? hermitianPinv(a as Operand, wide, options)
      : plainPinv(a as Operand, wide, options);
    return cast(made, info.name);
  });
}

function plainPinv(a: Operand, wide: Operand, options: RankOptions): Operand {
  const attributes = { fullMatrices: false };
  const [u, s, vh] = dispatchAll(LINALG.svd, [wide], attributes, "pinv") as [
    Operand,
    Operand,
    Operand,
  ];
  const row = inverseOf(s, significant("pinv", a, s, options));
  return pseudoInverse(wide, u, row, vh);
}

function hermitianPinv(a: Operand, wide: Operand, options: RankOptions): Operand {
  const [w, v] = dispatchAll(LINALG.eigh, [wide], { upper: false }, "pinv") as [Operand, Operand];
  const limit = limitOf("pinv", a, w, options);
  const sizes = apply(MAP.abs, w);
  const largest = w.layout.size === 0 ? sizes : reduce(REDUCE.max, sizes, -1, { keepDims: true });
  const isNonzero = apply(MAP.greater, sizes, apply(MAP.mul, largest, limit));
  return pseudoInverse(wide, v, inverseOf(w, isNonzero), adjoint(v));
}

/**
 * What the right sides `q` are multiplied by: a power of two, so that the lengths of columns of them
 * and of solutions do not overflow where their elements do not; 1 for small numbers.
 */
function scaleOf(p: Operand, q: Operand): Operand | number {
  const [m, n] = p.layout.shape.slice(-2) as [number, number];
  if (q.layout.size === 0) return 1;
  const most = reduce(REDUCE.max, apply(MAP.abs, q), [-2, -1], { keepDims: true });
  const { smallestNormal } = finfo(most.storage.info.name as "float32");
  const isLarge = apply(MAP.greater, most, Math.sqrt(smallestNormal));
  const scale = 2 ** -Math.ceil(Math.log2(Math.max(m, n)) / 2 + 2);
  return cast(apply(MAP.where, isLarge, scale, 1), most.storage.info.name);
}

/** The results of {@link lstsq}. */
export interface LstSq<A extends AnyTensor, B extends AnyTensor> {
  /** The solution of least length: [..., N, K], or [..., N] for a vector b. */
  readonly x: Tensor<
    FloatOfTwo<A, B>,
    t.Ok<t.LeastSquares<t.ShapeOf<A>, t.ShapeOf<B>>>,
    A["device"]
  >;
  /** The sums of |b − a x|² over the rows: [..., K], or [...] for a vector b; of a real dtype. */
  readonly residuals: Tensor<
    t.ToReal[FloatOfTwo<A, B>],
    t.Residuals<t.ShapeOf<A>, t.ShapeOf<B>>,
    A["device"]
  >;
  /** The rank of a: int64 [...]. */
  readonly rank: Tensor<"int64", t.Batch<t.ShapeOf<A>>, A["device"]>;
  /** The singular values of a: [..., min(M, N)], of a real dtype. */
  readonly s: Tensor<
    t.ToReal[FloatOfTwo<A, B>],
    t.LeastVectors<t.ShapeOf<A>>,
    A["device"]
  >;
}

/**
 * The least-squares solution of a x = b for matrices a [..., M, N] and b [..., M, K] or a vector
 * [M]: the shortest x with the smallest |b − a x|. Unlike NumPy, it always gives `residuals`.
 *
 * @example
 * ```ts
 * const { x } = linalg.lstsq(tensor([[1, 0], [1, 1], [1, 2]]), tensor([1, 3, 5]));
 * x.allclose(tensor([1, 2]), { atol: 1e-5 }); // => true
 * ```
 */
export function lstsq<A extends AnyTensor, B extends AnyTensor>(
  a: A,
  b: t.Guard<t.ProductOf<"lstsq", A, B, t.LeastSquares<t.ShapeOf<A>, t.ShapeOf<B>>>, B>,
  options?: RankOptions,
): LstSq<A, B>;
/** The implementation. @ignore */
export function lstsq(
  a: AnyTensor,
  b: AnyTensor,
  options: RankOptions = {},
): Readonly<Record<"x" | "residuals" | "rank" | "s", Operand>> {
  checkOptions("lstsq", options, ["rtol"]);
  checkOperand(a, "lstsq");
  checkOperand(b, "lstsq");
  const made = tidy(() => {
    const [left, right] = [a as Operand, b as Operand];
    const info = linalgDType("lstsq", [left.storage.info, right.storage.info]);
    const { name: dtype } = wideDType(info, left.layout.shape.slice(-2));
    const isVector = right.layout.shape.length === 1;
    const p = cast(left, dtype);
    const whole = cast(right, dtype);
    const q = isVector ? applyView(VIEWS.expandDims, whole, "expandDims", 1) : whole;
    if (p.layout.shape.length < 2 || q.layout.shape.at(-2) !== p.layout.shape.at(-2)) {
      throw new ShapeError(
        `Cannot lstsq shapes ${formatShape(left.layout.shape)} and ${
          formatShape(right.layout.shape)
        }: the rows of the matrices differ`,
      );
    }
    const [u, s, vh] = dispatchAll(LINALG.svd, [p], { fullMatrices: false }, "lstsq") as [
      Operand,
      Operand,
      Operand,
    ];
    const isNonzero = significant("lstsq", cast(left, info.name), s, options);
    // Divided by s: 1 / s may overflow where the solution does not.
    const divisor = apply(MAP.where, apply(MAP.logicalNot, isNonzero), 1, s);
    const scale = scaleOf(p, q);
    const scaled = apply(MAP.mul, q, scale);
    const isUsed = apply(MAP.logicalOr, isNonzero, apply(MAP.notEqual, s, s));
    const solved = leastSquares(p, scaled, [u, divisor, isUsed, vh]);
    const x = apply(MAP.div, solved, scale);
    const rest = apply(MAP.div, apply(MAP.abs, apply(MAP.sub, scaled, matmul(p, solved))), scale);
    const real = realOf(info).name;
    const residuals = reduce(REDUCE.sum, apply(MAP.mul, rest, rest), -2);
    const drop = (y: Operand): Operand =>
      isVector ? apply(MAP.copy, applyView(VIEWS.squeeze, y, "squeeze", -1)) : y;
    return [
      cast(drop(x), info.name),
      cast(drop(residuals), real),
      reduce(REDUCE.sum, isNonzero, -1, { dtype: "int64" }),
      cast(s, real),
    ];
  });
  const [x, residuals, rank, s] = made;
  return { x: x!, residuals: residuals!, rank: rank!, s: s! };
}
