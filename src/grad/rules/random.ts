/**
 * Derivatives of random numbers by the parameters of their distributions: the numbers move with the
 * parameters so that the same random words give the same place in the distribution.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { apply } from "../../core/apply.ts";
import type { Operand } from "../../memory/operand.ts";
import { iota } from "../../ops/index/selection.ts";
import type { DeviateAttributes } from "../../ops/random/op.ts";
import type { Call } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { add, castTo, div, exp, mul, neg, reshape, sub, sum, where } from "../tape/arithmetic.ts";
import { addRules, type Rule } from "../tape/rule.ts";

/** The terms of the series for numbers up to 1: the next one is below 1e-23. */
const TERMS = 24;
/** The places of the quadrature: their number, the distance between two of them, and the first. */
const PLACES = 111, STEP = 0.06, FIRST = -3.5;

const log = (x: Operand): Operand => apply(MAP.log, x);

/**
 * The derivative of a number x of a gamma distribution by its parameter alpha, both float64: that of the
 * distribution function by alpha over the density, with the sign turned.
 *
 * The derivative of the function is the integral of density · (log t − ψ(alpha)) over all t below x, and
 * that over all t above x with the sign turned. On one of both sides the factor does not change its sign,
 * so that nothing cancels.
 */
export function gammaSlope(alpha: Operand, x: Operand): Operand {
  const psi = apply(MAP.digamma, alpha);
  return where(apply(MAP.less, x, 1), ofSmall(alpha, x, psi), ofLarge(alpha, x, psi));
}

const column = (x: Operand): Operand => reshape(x, [...x.layout.shape, 1]);
const total = (x: Operand): Operand => sum(x, [x.layout.rank - 1]);
const ramp = (like: Operand, n: number): Operand => castTo(iota(like.storage, n), DTYPE.float64);

/** By the series of the distribution function. */
function ofSmall(alpha: Operand, given: Operand, psi: Operand): Operand {
  const x = apply(MAP.clip, given, 1e-300, 1);
  const n = ramp(x, TERMS);
  const sign = sub(1, mul(apply(MAP.fmod, n, 2), 2));
  const divisors = add(column(alpha), n);
  const factors = mul(sign, exp(neg(apply(MAP.lgamma, add(n, 1)))));
  const first = div(mul(apply(MAP.pow, column(x), n), factors), divisors);
  const inner = sub(mul(sub(log(x), psi), total(first)), total(div(first, divisors)));
  return neg(mul(mul(x, exp(x)), inner));
}

/** The integral from 0 to infinity of a function that falls at about `rate`: for each element. */
function integral(rate: Operand, of: (v: Operand) => Operand): Operand {
  const at = add(mul(ramp(rate, PLACES), STEP), FIRST);
  const places = exp(mul(apply(MAP.sinh, at), Math.PI / 2));
  const weights = mul(mul(places, apply(MAP.cosh, at)), STEP * Math.PI / 2);
  return div(total(mul(of(div(places, column(rate))), weights)), rate);
}

/** By the integral over t = x · exp(± v). */
function ofLarge(alpha: Operand, given: Operand, psi: Operand): Operand {
  const x = apply(MAP.maximum, given, 1);
  const isBelow = apply(MAP.less, log(x), psi);
  const sign = column(where(isBelow, -1, 1));
  const rate = add(apply(MAP.abs, sub(x, alpha)), apply(MAP.sqrt, x));
  const made = integral(rate, (size) => {
    // Beyond, the integrand is 0; its own derivative stays finite.
    const v = apply(MAP.minimum, mul(size, sign), 300);
    const power = sub(mul(column(alpha), v), mul(column(x), apply(MAP.expm1, v)));
    return mul(exp(power), mul(add(v, column(sub(log(x), psi))), sign));
  });
  return mul(x, made);
}

/**
 * The derivative of a number x of a beta distribution by its first parameter, as {@link gammaSlope}; that
 * by the second one is that of 1 − x, with the parameters exchanged and the sign turned.
 */
export function betaSlope(a: Operand, b: Operand, given: Operand): Operand {
  const x = apply(MAP.clip, given, 1e-300, 1 - 2 ** -53);
  const rest = sub(1, x);
  const center = sub(apply(MAP.digamma, a), apply(MAP.digamma, add(a, b)));
  const isBelow = apply(MAP.less, log(x), center);
  // Below x, t = x · exp(−v); above, 1 − t = (1 − x) · exp(−v).
  const [near, far] = [where(isBelow, x, rest), where(isBelow, rest, x)];
  const [own, other] = [where(isBelow, a, b), sub(where(isBelow, b, a), 1)];
  const ratio = div(near, far);
  const rate = add(apply(MAP.abs, sub(own, mul(other, ratio))), apply(MAP.sqrt, own));
  const made = integral(rate, (v) => {
    const grown = apply(MAP.log1p, neg(mul(column(ratio), apply(MAP.expm1, neg(v)))));
    const power = sub(mul(column(other), grown), mul(column(own), v));
    const above = sub(apply(MAP.log1p, neg(mul(column(rest), exp(neg(v))))), column(center));
    const below = add(v, column(sub(center, log(x))));
    return mul(exp(power), where(column(isBelow), below, above));
  });
  return mul(near, made);
}

/** The derivative by a parameter of one element, or of one for each number. */
function byParameter(of: Operand, slope: Operand, g: Operand): Operand {
  const made = mul(castTo(g, DTYPE.float64), slope);
  if (of.layout.size !== 1) return made;
  return reshape(sum(made, made.layout.shape.map((_, k) => k)), of.layout.shape);
}

const deviates: Rule = ({ call, inputs, outputs, keep, wants }) => {
  const kept = [1, 2].map((k) => keep(inputs[k] as Operand)), result = keep(outputs[0]!);
  const isGamma = (call.attributes as DeviateAttributes).distribution === "gamma";
  return ([g]) => {
    const [first, second] = kept.map((one) => one()) as [Operand, Operand];
    const x = castTo(result(), DTYPE.float64);
    const [a, b] = [first, second].map((one) => one.layout.size === 1 ? reshape(one, []) : one) as [
      ...[Operand, Operand],
    ];
    const bySecond = (): Operand => neg(betaSlope(b, a, sub(1, x)));
    return [
      undefined,
      wants(1)
        ? byParameter(first, isGamma ? gammaSlope(a, x) : betaSlope(a, b, x), g!)
        : undefined,
      wants(2) && !isGamma ? byParameter(second, bySecond(), g!) : undefined,
    ];
  };
};

addRules({
  deviates: {
    rule: deviates,
    applies: ({ attributes }: Call) =>
      ["gamma", "beta"].includes((attributes as DeviateAttributes).distribution),
  },
});
