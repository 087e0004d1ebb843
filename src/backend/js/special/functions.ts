/**
 * The special functions among the primitives of the op table, in doubles.
 *
 * shim/math/special/functions.h has the same in C, for vectors. Fixed numbers of terms and selections
 * instead of branches are for its sake.
 *
 * @module
 */
import * as c from "./coefficients.ts";

/** What the functions need of the other primitives. */
export interface Basis {
  readonly rint: (x: number) => number;
  readonly pow: (x: number, y: number) => number;
  /** erf(x) for |x| <= 1. */
  readonly erfSmall: (x: number) => number;
  /** exp(x²) erfc(x) for x in [0.5, 28]. */
  readonly erfcx: (x: number) => number;
  /** exp(c x²), without the rounding error of the square. */
  readonly expSquare: (x: number, c: number) => number;
}

function polynomial(x: number, coefficients: readonly number[]): number {
  let sum = 0;
  for (let i = coefficients.length - 1; i >= 0; i--) sum = sum * x + coefficients[i]!;
  return sum;
}

const HALF_LOG_2_PI = 0.9189385332046728;

/** log(Γ(a)) for a > 0, the argument of Γ in [1, 2) and what Γ of it is multiplied by. */
function reduced(a: number): { t: number; product: number } {
  if (a < 1) return { t: a, product: 1 / a };
  let y = a;
  let product = 1;
  while (y >= 2) {
    y -= 1;
    product *= y;
  }
  return { t: y - 1, product };
}

/** The tail of Stirling's series. */
function stirlingTail(a: number): number {
  const z = 1 / a;
  return z * polynomial(z * z, c.STIRLING);
}

function lgammaPositive(a: number): number {
  if (a >= 8) return (a - 0.5) * (Math.log(a) - 1) + (HALF_LOG_2_PI - 0.5) + stirlingTail(a);
  const { t, product } = reduced(a);
  const log = a < 1 ? -Math.log(a) : Math.log(product);
  return t * (t - 1) * polynomial(2 * t - 1, c.LGAMMA) + log;
}

function gammaPositive(a: number, { pow }: Basis): number {
  if (a >= 8) {
    if (a > 171.7) return Infinity;
    const root = pow(a, 0.5 * a - 0.25);
    return 2.5066282746310002 * root * Math.exp(-a) * root * Math.exp(stirlingTail(a));
  }
  const { t, product } = reduced(a);
  return Math.exp(t * (t - 1) * polynomial(2 * t - 1, c.LGAMMA)) * product;
}

function digammaPositive(a: number): number {
  if (a >= 8) {
    const z = 1 / a;
    return Math.log(a) - (0.5 * z + z * z * polynomial(z * z, c.DIGAMMA_TAIL));
  }
  let [t, above, below] = [a, 0, 1];
  if (a < 1) [above, below] = [-1, a];
  else {
    let y = a;
    while (y >= 2) {
      y -= 1;
      above = above * y + below;
      below *= y;
    }
    t = y - 1;
  }
  const distance = t - c.DIGAMMA_ZERO - c.DIGAMMA_ZERO_LOW;
  return distance * polynomial(2 * t - 1, c.DIGAMMA) + above / below;
}

/** erfinv(y) / y by w = -log(1 - y²). */
function erfinvShare(w: number): number {
  if (w < 6.25) return polynomial((w - 3.125) / 3.125, c.ERFINV_A);
  const s = Math.sqrt(w);
  if (s < 4.25) return polynomial((s - 3.375) / 0.875, c.ERFINV_B);
  const r = 1 / s;
  const [low, high] = [0.1, 1 / 4.25];
  if (r >= low) return s * polynomial((2 * r - (low + high)) / (high - low), c.ERFINV_C);
  return s * polynomial((2 * r - (low + 1 / 28)) / (low - 1 / 28), c.ERFINV_D);
}

/** exp(-|x|) I(x) for x >= 0, or half of I(x) / exp(x / 2) as the factor for large x. */
function bessel(
  a: number,
  series: readonly number[],
  tail: readonly number[],
): number | undefined {
  return a <= 8 ? polynomial(0.25 * a * a, series) : polynomial(16 / a - 1, tail) / Math.sqrt(a);
}

function i0e(x: number): number {
  const a = Math.abs(x);
  const share = bessel(a, c.I0_SERIES, c.I0)!;
  return a <= 8 ? share * Math.exp(-a) : share;
}

function i0(x: number): number {
  const a = Math.abs(x);
  const share = bessel(a, c.I0_SERIES, c.I0)!;
  if (!(a > 8)) return share;
  const half = Math.exp(0.5 * a);
  return a === Infinity ? a : half * share * half;
}

function i1e(x: number): number {
  const a = Math.abs(x);
  const share = bessel(a, c.I1_SERIES, c.I1)!;
  const value = a <= 8 ? 0.5 * a * share * Math.exp(-a) : share;
  return x < 0 ? -value : value;
}

function i1(x: number): number {
  const a = Math.abs(x);
  const share = bessel(a, c.I1_SERIES, c.I1)!;
  const half = Math.exp(0.5 * a);
  const value = a <= 8 ? 0.5 * a * share : a === Infinity ? a : half * share * half;
  return x < 0 ? -value : value;
}

/** The functions, on the other primitives. */
export function specialFunctions(basis: Basis): Record<string, (...args: number[]) => number> {
  const { rint, pow, erfSmall, erfcx, expSquare } = basis;

  // sin(πx), exactly 0 for integers.
  function sinPi(x: number): number {
    const r = x - 2 * rint(0.5 * x);
    const a = Math.abs(r);
    const sin = Math.sin(Math.PI * (a > 0.5 ? 1 - a : a));
    return r < 0 ? -sin : sin;
  }

  function lgamma(x: number): number {
    if (x - x !== 0) return x !== x ? x : Infinity;
    const a = Math.abs(x);
    if (x <= 0 && x === Math.floor(x)) return Infinity;
    const positive = lgammaPositive(a);
    if (x > 0) return positive;
    return -Math.log(Math.abs(sinPi(a)) / Math.PI) - Math.log(a) - positive;
  }

  function gamma(x: number): number {
    if (Math.abs(x) < 1e-300) return 1 / x;
    if (x < 0 && x === Math.floor(x)) return NaN;
    const a = Math.abs(x);
    const positive = gammaPositive(a, basis);
    return x < 0 ? -Math.PI / (a * sinPi(a)) / positive : positive;
  }

  function digamma(x: number): number {
    if (Math.abs(x) < 1e-300) return -1 / x;
    if (x === Infinity) return x;
    if (x < 0 && x === Math.floor(x)) return NaN;
    const a = Math.abs(x);
    const positive = digammaPositive(a);
    if (!(x < 0)) return positive;
    const r = a - rint(a);
    return positive + 1 / a + Math.PI / Math.tan(Math.PI * r);
  }

  function erfc(x: number): number {
    const a = Math.abs(x);
    if (a < 0.5) return 1 - erfSmall(x);
    if (a >= 28) return x > 0 ? 0 : 2;
    const tail = expSquare(a, -1) * erfcx(a);
    return x > 0 ? tail : 2 - tail;
  }

  function ndtr(x: number): number {
    const t = Math.abs(x) * Math.SQRT1_2;
    if (t < 0.5) return 0.5 + 0.5 * erfSmall(x * Math.SQRT1_2);
    if (t >= 28) return x > 0 ? 1 : 0;
    const tail = 0.5 * expSquare(x, -0.5) * erfcx(t);
    return x > 0 ? 1 - tail : tail;
  }

  function erfinv(y: number): number {
    const a = Math.abs(y);
    if (!(a < 1)) return a === 1 ? y * Infinity : NaN;
    return y * erfinvShare(-Math.log((1 - a) * (1 + a)));
  }

  function erfcinv(q: number): number {
    const p = q < 1 ? q : 2 - q;
    if (!(p > 0)) return p === 0 ? (q < 1 ? Infinity : -Infinity) : NaN;
    const x = (1 - p) * erfinvShare(-Math.log(p * (2 - p)));
    return q <= 1 ? x : -x;
  }

  // The sum of (q + k) ** -x, by the Euler-Maclaurin formula after ten terms.
  function zeta(x: number, q: number): number {
    if (x === 1) return q !== q ? q : Infinity;
    if (!(x > 1)) return NaN;
    if (!(q > 0)) return q === Math.floor(q) ? Infinity : NaN;
    let sum = 0;
    for (let k = 0; k < 10; k++) sum += pow(q + k, -x);
    const w = q + 10;
    const power = pow(w, -x);
    if (power === 0) return sum;
    sum += power * w / (x - 1) + 0.5 * power;
    let term = power * x / w;
    let tail = 0;
    for (let j = 0; j < c.ZETA_TAIL.length; j++) {
      tail += term * c.ZETA_TAIL[j]!;
      const next = x + 2 * j + 1;
      term *= next / w * ((next + 1) / w);
    }
    return sum + tail;
  }

  return {
    lgamma,
    gamma,
    digamma,
    erfc,
    erfinv,
    erfcinv,
    ndtr,
    ndtri: (p: number): number => 0 - Math.SQRT2 * erfcinv(2 * p),
    i0,
    i0e,
    i1,
    i1e,
    sinc: (x: number): number => (x === 0 ? 1 : sinPi(x) / (Math.PI * x)),
    zeta,
  };
}
