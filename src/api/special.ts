/**
 * Special functions: the gamma family, error functions and their inverses, Bessel functions, entropies.
 *
 * Elementwise: shapes broadcast, integers give float32. docs/special.md states the errors.
 *
 * @example
 * ```ts
 * import { special, tensor } from "@rowmajor/tensor";
 *
 * special.gamma(tensor([1, 5])).toArray(); // => [1, 24]
 * ```
 *
 * @module
 */
import { describe } from "../base/text.ts";
import { ArgumentError } from "../base/errors.ts";
import { apply } from "../core/apply.ts";
import { cast } from "../core/copy.ts";
import { dispatch } from "../core/dispatch.ts";
import { ownOperand } from "../core/foreign.ts";
import type { Operand } from "../memory/operand.ts";
import { checkOptions, inferAs, inferMap, isScalar } from "../table/infer.ts";
import { type Call, type Input, makeOp, type MapOp, type Op } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import { expressionOp } from "../table/user_expr.ts";
import type { AnyTensor, TensorOf, TensorOrScalar, UnaryOptions } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";

/** The result of a function of `X`. */
export type Special<X extends AnyTensor> = TensorOf<
  t.ToFloat[X["dtype"]],
  t.ShapeOf<X>,
  X["device"]
>["tensor"];

/** The result of a function of two operands. */
export type SpecialOfTwo<X extends TensorOrScalar, U extends TensorOrScalar> = TensorOf<
  t.AsFloat<t.OperandDType<"div", X, U>>,
  t.FitShape<t.ShapeOf<X>, t.ShapeOf<U>>,
  X extends AnyTensor ? X["device"] : U extends AnyTensor ? U["device"] : "cpu"
>["tensor"];

/** The second operand of a function of two, or why it does not fit the first. */
export type SecondOperand<Op extends string, X extends TensorOrScalar, U extends TensorOrScalar> =
  t.Guard<t.Binary<Op, X, U>, U>;

function unary<X extends AnyTensor>(op: MapOp, x: X, options?: UnaryOptions): Special<X>;
function unary(op: MapOp, x: AnyTensor, options?: UnaryOptions): Operand {
  return apply(op, ownOperand(x, op.name), undefined, undefined, options);
}

function inputOf(x: unknown, name: string): Input {
  return isScalar(x) ? x : ownOperand(x as Operand, name);
}

function binary(op: MapOp, x: unknown, y: unknown, options?: UnaryOptions): Operand {
  return apply(op, inputOf(x, op.name), inputOf(y, op.name), undefined, options);
}

/** The logarithm of |Γ(x)|; Infinity at 0 and negative integers. */
export function lgamma<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.lgamma, x, options);
}

/** The gamma function Γ(x); NaN at negative integers. */
export function gamma<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.gamma, x, options);
}

/** The derivative of log(Γ(x)); NaN at negative integers. */
export function digamma<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.digamma, x, options);
}

/** 1 - erf(x), accurate in the tail too. */
export function erfc<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.erfc, x, options);
}

/** The inverse of erf: ±Infinity at ±1, NaN beyond. */
export function erfinv<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.erfinv, x, options);
}

/** The inverse of {@link erfc}, for numbers from 0 to 2. */
export function erfcinv<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.erfcinv, x, options);
}

/** The distribution function of the normal distribution: the probability of a number up to x. */
export function ndtr<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.ndtr, x, options);
}

/** The inverse of {@link ndtr}: the quantiles of the normal distribution, for numbers from 0 to 1. */
export function ndtri<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.ndtri, x, options);
}

/** The modified Bessel function of order 0. */
export function i0<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.i0, x, options);
}

/** {@link i0} times exp(-|x|), which does not overflow. */
export function i0e<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.i0e, x, options);
}

/** The modified Bessel function of order 1. */
export function i1<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.i1, x, options);
}

/** {@link i1} times exp(-|x|), which does not overflow. */
export function i1e<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.i1e, x, options);
}

/** sin(πx) / (πx), 1 at 0; exactly 0 at other integers. */
export function sinc<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.sinc, x, options);
}

/** log(x / (1 - x)), the inverse of {@link expit}; NaN outside of 0 to 1. */
export function logit<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.logit, x, options);
}

/** -x log(x), the term of an entropy: 0 at 0, -Infinity below. */
export function entr<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.entr, x, options);
}

/** The error function: x.erf(). */
export function erf<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.erf, x, options);
}

/** 1 / (1 + exp(-x)): x.sigmoid(). */
export function expit<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.sigmoid, x, options);
}

/** exp(x) - 1: x.expm1(). */
export function expm1<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.expm1, x, options);
}

/** log(1 + x): x.log1p(). */
export function log1p<X extends AnyTensor>(x: X, options?: UnaryOptions): Special<X> {
  return unary(MAP.log1p, x, options);
}

/** x log(y), and 0 for x = 0 unless y is NaN. */
export function xlogy<const X extends TensorOrScalar, const U extends TensorOrScalar>(
  x: X,
  y: SecondOperand<"xlogy", X, U>,
  options?: UnaryOptions,
): SpecialOfTwo<X, U>;
export function xlogy(x: TensorOrScalar, y: unknown, options?: UnaryOptions): Operand {
  return binary(MAP.xlogy, x, y, options);
}

/** x log(1 + y), and 0 for x = 0 unless y is NaN. */
export function xlog1py<const X extends TensorOrScalar, const U extends TensorOrScalar>(
  x: X,
  y: SecondOperand<"xlog1py", X, U>,
  options?: UnaryOptions,
): SpecialOfTwo<X, U>;
export function xlog1py(x: TensorOrScalar, y: unknown, options?: UnaryOptions): Operand {
  return binary(MAP.xlog1py, x, y, options);
}

/**
 * The Hurwitz zeta function, the sum of (q + k)^-x over all k from 0 on; of Riemann for q = 1. NaN
 * for x below 1, and for q below 0 unless it is an integer, which gives Infinity.
 *
 * @throws {DTypeError} For integers.
 *
 * @example
 * ```ts
 * special.zeta(tensor(2)).mul(6).sqrt().allclose(Math.PI); // => true
 * ```
 */
export function zeta<const X extends TensorOrScalar, const U extends TensorOrScalar = 1>(
  x: X,
  q?: SecondOperand<"zeta", X, U>,
  options?: UnaryOptions,
): SpecialOfTwo<X, U>;
export function zeta(x: TensorOrScalar, q: unknown = 1, options?: UnaryOptions): Operand {
  return binary(MAP.zeta, x, q, options);
}

const BETALN: Op = makeOp({
  kind: "kernel",
  name: "betaln",
  infer: (call: Call) => inferAs(MAP.div, call, inferMap),
  decompose: (call: Call) => cast(logBeta(call), call.specs[0]!.dtype.name),
});

/** An expression of x and y in the primitives of backends. */
function expression(name: string, arity: 1 | 2 | 3, text: string): MapOp {
  return expressionOp({ name: `special_${name}`, arity, text, gives: "number", parameters: [] });
}

/** lgamma(x) less Stirling's (x - 0.5) log(x) - x + log(2π) / 2, for x from 10 on; 0 below. */
const STIRLING: MapOp = expression(
  "stirling",
  1,
  "x >= 10 ? (1 / 12 + (-1 / 360 + (1 / 1260 + (-1 / 1680 + (1 / 1188 + (-691 / 360360 + " +
    "1 / 156 / (x * x)) / (x * x)) / (x * x)) / (x * x)) / (x * x)) / (x * x)) / x : 0",
);

/**
 * The logarithm of the beta function of x <= y, where z is what {@link STIRLING} gives of x, y and x + y.
 * From 10 on the large terms of lgamma cancel before they are rounded.
 */
const LOG_BETA: MapOp = expression(
  "logBeta",
  3,
  "!(x > 0 && y >= 10) ? lgamma(x) + lgamma(y) - lgamma(x + y) : isinf(y) ? -y : " +
    "x < 10 ? lgamma(x) + z + x - x * log(y) - (x + y - 0.5) * log1p(x / y) : " +
    "0.9189385332046728 + z - 0.5 * log(y) - (x - 0.5) * log1p(y / x) - y * log1p(x / y)",
);

/** The logarithm of the beta function in float64. */
function logBeta({ inputs }: Call): Operand {
  const [a, b] = (inputs as Operand[]).map((one) => cast(one, "float64")) as [Operand, Operand];
  const [p, q] = [apply(MAP.minimum, a, b), apply(MAP.maximum, a, b)];
  const [x, y, both] = [p, q, apply(MAP.add, a, b)].map((one) => apply(STIRLING, one));
  return apply(LOG_BETA, p, q, apply(MAP.sub, apply(MAP.add, x, y), both));
}

/**
 * The logarithm of the beta function of two tensors of positive numbers, computed in float64 without the
 * cancellation of lgamma(a) + lgamma(b) - lgamma(a + b), which it is for other numbers.
 */
export function betaln<X extends AnyTensor, U extends AnyTensor>(
  a: X,
  b: SecondOperand<"betaln", X, U>,
  options?: UnaryOptions,
): SpecialOfTwo<X, U>;
export function betaln(a: AnyTensor, b: unknown, options: UnaryOptions = {}): Operand {
  checkOptions("betaln", options, ["out"]);
  const inputs = [ownOperand(a, "betaln"), ownOperand(b, "betaln")];
  return dispatch(BETALN, inputs, undefined, options.out);
}

const BETA: Op = makeOp({
  kind: "kernel",
  name: "beta",
  infer: (call: Call) => inferAs(MAP.div, call, inferMap),
  decompose: (call: Call) => cast(apply(MAP.exp, logBeta(call)), call.specs[0]!.dtype.name),
});

/** The beta function of two tensors of positive numbers: the exponential of {@link betaln}. */
export function beta<X extends AnyTensor, U extends AnyTensor>(
  a: X,
  b: SecondOperand<"beta", X, U>,
  options?: UnaryOptions,
): SpecialOfTwo<X, U>;
export function beta(a: AnyTensor, b: unknown, options: UnaryOptions = {}): Operand {
  checkOptions("beta", options, ["out"]);
  const inputs = [ownOperand(a, "beta"), ownOperand(b, "beta")];
  return dispatch(BETA, inputs, undefined, options.out);
}

/**
 * Derivative `n` of {@link digamma}, for positive x: by {@link zeta} for n from 1 on.
 *
 * @throws {ArgumentError} Unless `n` is an integer of at least 0.
 * @throws {DTypeError} For integers x.
 *
 * @example
 * ```ts
 * special.polygamma(1, tensor([1])).mul(6).sqrt().item().toFixed(4); // => 3.1416
 * ```
 */
export function polygamma<X extends AnyTensor>(n: number, x: X): Special<X>;
export function polygamma(n: number, x: AnyTensor): Operand {
  if (!Number.isInteger(n) || n < 0) {
    throw new ArgumentError(`polygamma() needs an integer of at least 0 as n, got ${describe(n)}`);
  }
  if (n === 0) return digamma(x);
  return dispatch(POLYGAMMA, [ownOperand(x, "polygamma")], { n });
}

const POLYGAMMA: Op = makeOp({
  kind: "kernel",
  name: "polygamma",
  infer(call: Call) {
    const { inputs: [x] } = call;
    call.inputs = [x, x];
    const specs = inferAs(MAP.zeta, call, inferMap);
    call.inputs = [x];
    return specs;
  },
  decompose(call: Call) {
    const { n } = call.attributes as { n: number };
    let factor = n % 2 === 0 ? -1 : 1;
    for (let k = 2; k <= n; k++) factor *= k;
    return apply(MAP.mul, apply(MAP.zeta, n + 1, call.operand(0)), factor);
  },
});
