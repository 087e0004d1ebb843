/**
 * Numbers as sums of two doubles, for powers of complex numbers: an exponent multiplies the rounding
 * error of a logarithm. shim/math/complex/complex_double.h has the same functions.
 *
 * A function leaves its result in {@link high} and {@link low}.
 *
 * @module
 */

/** The result of the last function, rounded to a double. */
export let high = 0;
/** What the result has beyond {@link high}. */
export let low = 0;

const { abs, log2, max, min, round } = Math;

/** log 2, π, and the results of reductions: the second number is what the first one lacks. */
const LN2 = [0.6931471805599453, 2.3190468138462996e-17] as const;
const PI = [3.141592653589793, 1.2246467991473532e-16] as const;
const LOG_75 = [-0.2876820724517809, -2.607160616442564e-17] as const;
const LOG_125 = [0.22314355131420976, -9.091270597324799e-18] as const;
/** The arc tangents of 0, 1/4, 1/2, 3/4 and 1. */
const ARCS = [
  [0, 0],
  [0.24497866312686414, 1.0698755618734451e-17],
  [0.4636476090008061, 2.2698777452961687e-17],
  [0.6435011087932844, 1.5834785051444286e-17],
  [0.7853981633974483, 3.061616997868383e-17],
] as const;

/** For |h| >= |l|, or a rounding error l of h. */
function give(h: number, l: number): void {
  high = h + l;
  low = l - (high - h);
}

/** The rounding error of a product. */
export function productError(x: number, y: number, product: number): number {
  const s = 134217729 * x, t = 134217729 * y;
  const a = s - (s - x), b = x - a, c = t - (t - y), d = y - c;
  return b * d - (((product - a * c) - b * c) - a * d);
}

/** a + b. */
export function sum(ah: number, al: number, bh: number, bl: number): void {
  const s = ah + bh, w = s - ah;
  give(s, ((ah - (s - w)) + (bh - w)) + (al + bl));
}

/** a b. */
export function product(ah: number, al: number, bh: number, bl: number): void {
  const p = ah * bh;
  give(p, productError(ah, bh, p) + (ah * bl + al * bh));
}

/** a / b. */
function quotient(ah: number, al: number, bh: number, bl: number): void {
  const q = ah / bh, p = q * bh;
  give(q, (((ah - p) - productError(q, bh, p)) + (al - q * bl)) / bh);
}

/** x log 2. */
export function timesLn2(x: number): void {
  product(x, 0, ...LN2);
}

/** log |x + iy|, for finite numbers that are not both 0. */
export function logModulus(x: number, y: number): void {
  const big = max(abs(x), abs(y));
  // So that squares are numbers, with all their digits.
  const exponent = big > 1e100 ? 600 : big < 1e-100 ? -600 : 0;
  const a = x * 2 ** -exponent, b = y * 2 ** -exponent;
  const aa = a * a, bb = b * b;
  sum(aa, productError(a, a, aa), bb, productError(b, b, bb));
  const power = round(log2(high));
  const h = high * 2 ** -power, l = low * 2 ** -power;
  const c = h < 0.875 ? 0.75 : h > 1.125 ? 1.25 : 1;
  sum(h, l, c, 0);
  const [bh, bl] = [high, low];
  sum(h, l, -c, 0);
  quotient(high, low, bh, bl);
  // The logarithm of (1 + s) / (1 - s), times c.
  const ss = high * high;
  let rest = 0;
  for (let k = 15; k > 1; k -= 2) rest = 1 / k + ss * rest;
  const [sh, sl] = [2 * high, 2 * (low + high * ss * rest)];
  const [ch, cl] = c === 1 ? [0, 0] : c < 1 ? LOG_75 : LOG_125;
  timesLn2(2 * exponent + power);
  sum(high, low, ch, cl);
  sum(high, low, sh, sl);
  high /= 2;
  low /= 2;
}

/** The angle of x + iy, for finite numbers that are not both 0. */
export function angle(x: number, y: number): void {
  const [a, b] = [abs(x), abs(y)];
  quotient(min(a, b), 0, max(a, b), 0);
  const nearest = round(4 * high), c = nearest / 4;
  if (c > 0) {
    const [h, l] = [high, low];
    product(h, l, c, 0);
    sum(1, 0, high, low);
    const [bh, bl] = [high, low];
    sum(h, l, -c, 0);
    quotient(high, low, bh, bl);
  }
  const tt = high * high;
  let rest = 0;
  for (let k = 19; k > 1; k -= 2) rest = 1 / k - tt * rest;
  const [arc, more] = ARCS[nearest]!;
  sum(arc, more, high, low - high * tt * rest);
  if (b > a) sum(PI[0] / 2, PI[1] / 2, -high, -low);
  if (x < 0 || Object.is(x, -0)) sum(...PI, -high, -low);
  if (y < 0 || Object.is(y, -0)) [high, low] = [-high, -low];
}
