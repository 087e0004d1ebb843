/**
 * Functions of complex numbers in double precision, with the special values of C99's annex G, as
 * NumPy has them.
 *
 * A function takes the parts of its operands and leaves those of its result in {@link Z}: objects
 * would cost more than the functions.
 *
 * @module
 */

import * as double from "./double.ts";

/** The result of the last function: its real and its imaginary part. */
export const Z: Float64Array = new Float64Array(2);

/** A function of one or two complex numbers. */
export type ComplexFunction = (xr: number, xi: number, yr: number, yi: number) => void;

const { abs, acos, asin, atan, atan2, atanh, cos, cosh, exp, hypot, log, log1p, sin, sinh, sqrt } =
  Math;
const { tan } = Math;

const EPSILON = 2 ** -52;
const LN2 = Math.LN2;
const RECIPROCAL_EPSILON = 1 / EPSILON;
/** The logarithm of the largest double. */
const EXP_MOST = 709.782712893384;
/** Products of numbers below this have a rounding error that is a number. */
const MOST_DOUBLED = 1e150;

function give(re: number, im: number): void {
  Z[0] = re;
  Z[1] = im;
}

function isNegative(x: number): boolean {
  return x < 0 || Object.is(x, -0);
}

function copysign(x: number, y: number): number {
  return isNegative(y) === isNegative(x) ? x : -x;
}

/** `x` times `y`, the plain formula, as in NumPy. */
export function mul(xr: number, xi: number, yr: number, yi: number): void {
  give(xr * yr - xi * yi, xr * yi + xi * yr);
}

/** `x` by `y` without overflow of the square of `y`: Smith's algorithm. */
export function div(xr: number, xi: number, yr: number, yi: number): void {
  const [ar, ai] = [abs(yr), abs(yi)];
  if (ar >= ai) {
    if (ar === 0 && ai === 0) return give(xr / ar, xi / ar);
    const ratio = yi / yr;
    const scale = 1 / (yr + yi * ratio);
    return give((xr + xi * ratio) * scale, (xi - xr * ratio) * scale);
  }
  const ratio = yr / yi;
  const scale = 1 / (yi + yr * ratio);
  give((xr * ratio + xi) * scale, (xi * ratio - xr) * scale);
}

/** The distance from 0; infinite also beside NaN. */
export function modulus(xr: number, xi: number): number {
  return hypot(xr, xi);
}

/** exp(x) times re and im, and powers of two a and b, also where exp(x) alone overflows. */
function timesExp(x: number, re: number, im: number, a = 1, b = 1): void {
  if (x <= EXP_MOST) {
    const e = exp(x);
    return give(e * re * a, e * im * b);
  }
  const parts = x < 2 * EXP_MOST ? 2 : 4, part = exp(x / parts);
  // Not before the first product: they may be subnormal.
  for (let k = 0; k < parts; k++) {
    re *= k === 1 ? part * a : part;
    im *= k === 1 ? part * b : part;
  }
  give(re, im);
}

/** exp(x + iy). */
export function cexp(x: number, y: number): void {
  if (y === 0) return give(exp(x), y);
  if (x === 0) return give(cos(y), sin(y));
  if (y - y !== 0) {
    // Infinite or NaN.
    if (x === -Infinity) return give(0, 0);
    if (x === Infinity) return give(Infinity, NaN);
    return give(NaN, NaN);
  }
  timesExp(x, cos(y), sin(y));
}

/** exp(x + more + i (y + rest)), for finite numbers and small `more` and `rest`. */
function expOfSums(x: number, more: number, y: number, rest: number): void {
  if (y === 0) return give(exp(x) * (1 + more), y);
  const c = cos(y), s = sin(y), isNear = abs(rest) < 1e-9;
  const dc = isNear ? 1 : cos(rest), ds = isNear ? rest : sin(rest);
  const re = c * dc - s * ds, im = s * dc + c * ds;
  timesExp(x, re + re * more, im + im * more);
}

/** 2 to the power x + iy; unless `wide`, to the digits of floats. */
export function cexp2(x: number, y: number, wide: boolean): void {
  if (y === 0) return give(2 ** x, y);
  if (!(wide && abs(x) < MOST_DOUBLED && abs(y) < MOST_DOUBLED)) return cexp(x * LN2, y * LN2);
  double.timesLn2(x);
  const [re, more] = [double.high, double.low];
  double.timesLn2(y);
  expOfSums(re, more, double.high, double.low);
}

/** exp(x + iy) − 1, without cancellation. */
export function cexpm1(x: number, y: number): void {
  if (y === 0) return give(Math.expm1(x), y);
  if (x - x !== 0 || x > 40) {
    // 1 is less than a rounding error, or there is no number to subtract it from.
    cexp(x, y);
    Z[0]! -= 1;
    return;
  }
  const a = sin(y / 2);
  give(Math.expm1(x) * cos(y) - 2 * a * a, exp(x) * sin(y));
}

/** x² + y² − 1 for numbers near the unit circle, x ≥ y ≥ 0, with errors compensated. */
function squaresMinusOne(x: number, y: number): number {
  const [xx, yy] = [x * x, y * y];
  // x is at least 0.5, so that the difference is exact.
  const one = xx - 1;
  const sum = one + yy;
  const rest = abs(one) >= yy ? (one - sum) + yy : (yy - sum) + one;
  return sum + (rest + double.productError(x, x, xx) + double.productError(y, y, yy));
}

/** log |x + iy|. */
function logModulus(x: number, y: number): number {
  const [a, b] = [abs(x), abs(y)];
  const [big, small] = a >= b ? [a, b] : [b, a];
  if (!(big - big === 0) || !(small - small === 0)) {
    return a === Infinity || b === Infinity ? Infinity : NaN;
  }
  if (big === 0) return -Infinity;
  if (big > 0.5 && big < 2 && small < 2) {
    const squares = big * big + small * small;
    if (squares > 0.5 && squares < 3) return log1p(squaresMinusOne(big, small)) / 2;
  }
  if (big > 1e300) return log(hypot(big / 4, small / 4)) + 2 * LN2;
  if (big < 1e-300) return log(hypot(big * 2 ** 60, small * 2 ** 60)) - 60 * LN2;
  return log(hypot(big, small));
}

/** log(x + iy): the branch cut is along the negative real axis. */
export function clog(x: number, y: number): void {
  give(logModulus(x, y), atan2(y, x));
}

/** log(1 + x + iy). */
export function clog1p(x: number, y: number): void {
  const near = abs(x) < 0.5 && abs(y) < 0.5;
  const re = near ? log1p(x * (2 + x) + y * y) / 2 : logModulus(1 + x, y);
  give(re, atan2(y, 1 + x));
}

/** The root with a nonnegative real part. */
export function csqrt(a: number, b: number): void {
  if (a === 0 && b === 0) return give(0, b);
  if (b === Infinity || b === -Infinity) return give(Infinity, b);
  if (a !== a) return give(a, NaN);
  if (a === Infinity || a === -Infinity) {
    if (a < 0) return give(abs(b - b), copysign(a, b));
    return give(a, copysign(b - b, b));
  }
  if (b !== b) return give(NaN, NaN);
  let scale = 1;
  let [x, y] = [a, b];
  if (abs(x) >= 4.49423283715579e307 || abs(y) >= 4.49423283715579e307) {
    x /= 4;
    y /= 4;
    scale = 2;
  } else if (abs(x) < 1e-290 && abs(y) < 1e-290) {
    x *= 2 ** 108;
    y *= 2 ** 108;
    scale = 2 ** -54;
  }
  if (x >= 0) {
    const t = sqrt((x + hypot(x, y)) * 0.5);
    return give(t * scale, y / (2 * t) * scale);
  }
  const t = sqrt((-x + hypot(x, y)) * 0.5);
  give(abs(y) / (2 * t) * scale, copysign(t, y) * scale);
}

/** sinh(x + iy). */
export function csinh(x: number, y: number): void {
  if (x - x === 0 && y - y === 0) {
    if (y === 0) return give(sinh(x), y);
    if (abs(x) < 700) return give(sinh(x) * cos(y), cosh(x) * sin(y));
    return timesExp(abs(x), cos(y), sin(y), copysign(0.5, x), 0.5);
  }
  if (x === 0) return give(x, NaN);
  if (y === 0) return give(x, y);
  if (x - x === 0) return give(NaN, NaN);
  if (x === Infinity || x === -Infinity) {
    if (y - y !== 0) return give(x, NaN);
    return give(x * cos(y), Infinity * sin(y));
  }
  give(NaN, NaN);
}

/** cosh(x + iy). */
export function ccosh(x: number, y: number): void {
  if (x - x === 0 && y - y === 0) {
    if (y === 0) return give(cosh(x), x * y);
    if (abs(x) < 700) return give(cosh(x) * cos(y), sinh(x) * sin(y));
    return timesExp(abs(x), cos(y), sin(y), 0.5, copysign(0.5, x));
  }
  if (x === 0) return give(NaN, x * copysign(0, y));
  if (y === 0) return give(x * x, copysign(0, x) * y);
  if (x - x === 0) return give(NaN, NaN);
  if (x === Infinity || x === -Infinity) {
    if (y - y !== 0) return give(Infinity, NaN);
    return give(Infinity * cos(y), x * sin(y));
  }
  give(NaN, NaN);
}

/** tanh(x + iy): Kahan's algorithm. */
export function ctanh(x: number, y: number): void {
  if (x - x !== 0) {
    if (x !== x) return give(x, y === 0 ? y : NaN);
    return give(copysign(1, x), copysign(0, y - y !== 0 ? y : sin(y) * cos(y)));
  }
  if (y - y !== 0) return give(x === 0 ? x : NaN, NaN);
  if (abs(x) >= 22) {
    const e = exp(-abs(x));
    return give(copysign(1, x), 4 * sin(y) * cos(y) * e * e);
  }
  const t = tan(y);
  const beta = 1 + t * t;
  const s = sinh(x);
  const rho = sqrt(1 + s * s);
  if (t - t !== 0) return give(rho / s, 1 / t);
  const denominator = 1 + beta * s * s;
  give(beta * rho * s / denominator, t / denominator);
}

function timesI(f: (x: number, y: number) => void, x: number, y: number): void {
  // f(iz) = i g(z): sin from sinh, tan from tanh, asin from asinh, atan from atanh.
  f(y, x);
  give(Z[1]!, Z[0]!);
}

/** sin(x + iy). */
export const csin = (x: number, y: number): void => timesI(csinh, x, y);
/** cos(x + iy). */
export const ccos = (x: number, y: number): void => ccosh(-y, x);
/** tan(x + iy). */
export const ctan = (x: number, y: number): void => timesI(ctanh, x, y);

// ---- inverse functions: Hull, Fairgrieve and Tang, as in FreeBSD --------------------------------

/** Half of hypot(a, b) − b. */
function halfDifference(a: number, b: number, h: number): number {
  if (b < 0) return (h - b) / 2;
  return b === 0 ? a / 2 : a * a / (h + b) / 2;
}

/** The parts that asinh and acos of x + iy have in common, for x, y ≥ 0. */
function arc(
  x: number,
  y: number,
): { rx: number; usable: boolean; b: number; root: number; y: number } {
  const r = hypot(x, y + 1), s = hypot(x, y - 1);
  const a = Math.max(1, (r + s) / 2);
  let rx: number;
  if (a < 10) {
    if (y === 1 && x < EPSILON * EPSILON / 128) rx = sqrt(x);
    else if (x >= EPSILON * abs(y - 1)) {
      const am1 = halfDifference(x, 1 + y, r) + halfDifference(x, 1 - y, s);
      rx = log1p(am1 + sqrt(am1 * (a + 1)));
    } else if (y < 1) rx = x / sqrt((1 - y) * (1 + y));
    else rx = log1p(y - 1 + sqrt((y - 1) * (y + 1)));
  } else rx = log(a + sqrt(a * a - 1));
  const scale = 2 / EPSILON;
  if (y < 5.966672584960165e-154) {
    return { rx, usable: false, b: 0, root: a * scale, y: y * scale };
  }
  const b = y / a;
  if (b <= 0.6417) return { rx, usable: true, b, root: 0, y };
  let root: number;
  if (y === 1 && x < EPSILON / 128) root = sqrt(x) * sqrt((a + y) / 2);
  else if (x >= EPSILON * abs(y - 1)) {
    const amy = halfDifference(x, y + 1, r) + halfDifference(x, y - 1, s);
    root = sqrt(amy * (a + y));
  } else if (y > 1) {
    root = x * scale * scale * y / sqrt((y + 1) * (y - 1));
    y = y * scale * scale;
  } else root = sqrt((1 - y) * (1 + y));
  return { rx, usable: false, b, root, y };
}

/** asinh(x + iy). */
export function casinh(re: number, im: number): void {
  const [x, y] = [abs(re), abs(im)];
  if (x !== x || y !== y) {
    if (x === Infinity) return give(re, im + im);
    if (y === Infinity) return give(im, re + re);
    if (im === 0) return give(re + re, im);
    return give(NaN, NaN);
  }
  if (x > RECIPROCAL_EPSILON || y > RECIPROCAL_EPSILON) {
    return give(copysign(logModulus(x, y) + LN2, re), copysign(atan2(y, x), im));
  }
  if ((x === 0 && y === 0) || (x < 9e-9 && y < 9e-9)) return give(re, im);
  const { rx, usable, b, root, y: scaled } = arc(x, y);
  give(copysign(rx, re), copysign(usable ? asin(b) : atan2(scaled, root), im));
}

/** asin(x + iy). */
export const casin = (x: number, y: number): void => timesI(casinh, x, y);

/** acos(x + iy). */
export function cacos(re: number, im: number): void {
  const [x, y] = [abs(re), abs(im)];
  const [left, below] = [isNegative(re), isNegative(im)];
  if (x !== x || y !== y) {
    if (x === Infinity) return give(y + y, -Infinity);
    if (y === Infinity) return give(x + x, -im);
    if (re === 0) return give(Math.PI / 2, y + y);
    return give(NaN, NaN);
  }
  if (x > RECIPROCAL_EPSILON || y > RECIPROCAL_EPSILON) {
    const far = logModulus(x, y) + LN2;
    return give(abs(atan2(im, re)), below ? far : -far);
  }
  if (x === 1 && y === 0) return give(left ? Math.PI : 0, -im);
  if (x < 9e-9 && y < 9e-9) return give(Math.PI / 2 - re, -im);
  const { rx, usable, b, root, y: scaled } = arc(y, x);
  const angle = usable ? acos(left ? -b : b) : atan2(root, left ? -scaled : scaled);
  give(angle, below ? rx : -rx);
}

/** acosh(x + iy). */
export function cacosh(x: number, y: number): void {
  cacos(x, y);
  const [re, im] = [Z[0]!, Z[1]!];
  if (re !== re && im !== im) return give(im, re);
  if (re !== re) return give(abs(im), re);
  if (im !== im) return give(im, re);
  give(abs(im), copysign(re, y));
}

/** The real part of 1 / (x + iy) for large parts. */
function realReciprocal(x: number, y: number): number {
  if (x === Infinity || y === Infinity) return 0;
  const scale = 2 ** -512;
  const [a, b] = [x * scale, y * scale];
  const [big, small] = a >= b ? [a, b] : [b, a];
  const ratio = small / big;
  return a / big / (big * (1 + ratio * ratio)) * scale;
}

/** atanh(x + iy). */
export function catanh(re: number, im: number): void {
  const [x, y] = [abs(re), abs(im)];
  if (y === 0 && x <= 1) return give(atanh(re), im);
  if (x === 0) return give(re, atan(im));
  if (x !== x || y !== y) {
    if (x === Infinity) return give(copysign(0, re), im + im);
    if (y === Infinity) return give(copysign(0, re), copysign(Math.PI / 2, im));
    return give(NaN, NaN);
  }
  if (x > RECIPROCAL_EPSILON || y > RECIPROCAL_EPSILON) {
    return give(copysign(realReciprocal(x, y), re), copysign(Math.PI / 2, im));
  }
  if (x < 1.29e-8 && y < 1.29e-8) return give(re, im);
  const rx = x === 1 && y < EPSILON
    ? (LN2 - log(y)) / 2
    : log1p(4 * x / ((x - 1) * (x - 1) + y * y)) / 4;
  const ry = x === 1
    ? atan2(2, -y) / 2
    : atan2(2 * y, (1 - x) * (1 + x) - (y < EPSILON ? 0 : y * y)) / 2;
  give(copysign(rx, re), copysign(ry, im));
}

/** atan(x + iy). */
export const catan = (x: number, y: number): void => timesI(catanh, x, y);

/** Whole exponents below this are powers by multiplication, with its rounding errors from 5 on. */
const MOST_MULTIPLIED = 100;
const MOST_ROUNDED = 4;

/** `x` to the power `n`, from 1 on. */
function multiplied(pr: number, pi: number, n: number): void {
  let ar = 1, ai = 0;
  for (let isFirst = true;;) {
    if (n % 2 === 1) {
      const re = isFirst ? pr : ar * pr - ai * pi;
      ai = isFirst ? pi : ar * pi + ai * pr;
      ar = re;
      isFirst = false;
    }
    n = Math.floor(n / 2);
    if (n === 0) return give(ar, ai);
    const re = pr * pr - pi * pi;
    pi = 2 * pr * pi;
    pr = re;
  }
}

/** The same with the errors of the products, in `er`, `ei`, `dr` and `di`. */
function multipliedExactly(pr: number, pi: number, n: number): void {
  let ar = 1, ai = 0, er = 0, ei = 0, dr = 0, di = 0;
  for (;;) {
    if (n % 2 === 1) {
      times(ar, ai, pr, pi);
      const re = error[0]! + (ar * dr - ai * di) + (er * pr - ei * pi);
      ei = error[1]! + (ar * di + ai * dr) + (er * pi + ei * pr);
      er = re;
      ar = Z[0]!;
      ai = Z[1]!;
    }
    n = Math.floor(n / 2);
    if (n === 0) return give(ar + er, ai + ei);
    times(pr, pi, pr, pi);
    const re = error[0]! + 2 * (pr * dr - pi * di);
    di = error[1]! + 2 * (pr * di + pi * dr);
    dr = re;
    pr = Z[0]!;
    pi = Z[1]!;
  }
}

/** The rounding errors of the last product. */
const error = new Float64Array(2);

/** A product, and its errors. */
function times(ar: number, ai: number, br: number, bi: number): void {
  const p = ar * br, q = ai * bi, s = ar * bi, t = ai * br;
  double.sum(p, double.productError(ar, br, p), -q, -double.productError(ai, bi, q));
  Z[0] = double.high;
  error[0] = double.low;
  double.sum(s, double.productError(ar, bi, s), t, double.productError(ai, br, t));
  Z[1] = double.high;
  error[1] = double.low;
}

/** `x` to the power `y`; unless `wide`, to the digits of floats. */
export function cpow(xr: number, xi: number, yr: number, yi: number, wide: boolean): void {
  if (yr === 0 && yi === 0) return give(1, 0);
  if (xr === 0 && xi === 0) {
    if (yr > 0) return give(0, 0);
    return give(NaN, NaN);
  }
  if (yi === 0 && Number.isInteger(yr) && abs(yr) < MOST_MULTIPLIED) {
    const n = abs(yr);
    const isPlain = !wide || n <= MOST_ROUNDED;
    if (!isPlain) multipliedExactly(xr, xi, n);
    // Of numbers that overflow, or nearly do, errors are NaN.
    if (isPlain || !(Z[0]! - Z[0]! === 0 && Z[1]! - Z[1]! === 0)) multiplied(xr, xi, n);
    if (yr < 0) div(1, 0, Z[0]!, Z[1]!);
    return;
  }
  const isFinite = xr - xr === 0 && xi - xi === 0;
  if (!(wide && isFinite && abs(yr) < MOST_DOUBLED && abs(yi) < MOST_DOUBLED)) {
    const re = logModulus(xr, xi), im = atan2(xi, xr);
    return cexp(yr * re - yi * im, yr * im + yi * re);
  }
  double.logModulus(xr, xi);
  const [lh, ll] = [double.high, double.low];
  double.angle(xr, xi);
  const [th, tl] = [double.high, double.low];
  sumOfProducts(lh, ll, yr, th, tl, -yi);
  const [re, more] = [double.high, double.low];
  sumOfProducts(th, tl, yr, lh, ll, yi);
  expOfSums(re, more, double.high, double.low);
}

/** a p + b q, in `double`. */
function sumOfProducts(ah: number, al: number, p: number, bh: number, bl: number, q: number): void {
  double.product(ah, al, p, 0);
  const [h, l] = [double.high, double.low];
  double.product(bh, bl, q, 0);
  double.sum(h, l, double.high, double.low);
}

/** `x` by its distance from 0; 0 for 0. */
export function csign(x: number, y: number): void {
  const m = hypot(x, y);
  if (m === 0) return give(0, 0);
  if (m === Infinity && x === x && y === y) {
    const [a, b] = [x - x === 0 ? 0 : copysign(1, x), y - y === 0 ? 0 : copysign(1, y)];
    const both = hypot(a, b);
    return give(a / both, b / both);
  }
  give(x / m, y / m);
}
