/**
 * The named primitives that the op table's expressions call, one element at a time.
 *
 * Floats are computed in doubles for every dtype. Integers come in three regimes: numbers of at
 * most 32 bits, safe integers, and bigints. Knows nothing of dtypes, loops or tensors.
 *
 * @module
 */
import { toF16 } from "../../base/half.ts";
import { specialFunctions } from "./special/functions.ts";

// A mispredicted branch costs more than a trip through memory.
const choice = new Float64Array(2);

/** `a` if `condition` holds, else `b`, without a branch. */
export function pick(condition: boolean, a: number, b: number): number {
  choice[0] = b;
  choice[1] = a;
  return choice[Number(condition)]!;
}

/** A primitive on numbers. */
export type NumberPrimitive = (...args: number[]) => number;

/** A primitive on bigints. */
export type BigIntPrimitive = (...args: bigint[]) => bigint;

const f64 = new Float64Array(1);
const f64Words = new Uint32Array(f64.buffer);
const f32 = new Float32Array(1);
const f32Bits = new Int32Array(f32.buffer);

// JavaScriptCore computes integer powers up to 1000 by repeated multiplication.
const POW_DRIFTS = Math.pow(10, 308) !== 1e308;

function rint(x: number): number {
  const c = 4503599627370496;
  if (x > 0) return x < c ? (x + c) - c : x;
  return x < 0 && x > -c ? -((c - x) - c) : x;
}

// Coefficients: scripts/generate/fit_erf.py. For |x| <= 1.
function erfSmall(x: number): number {
  const t = x * x;
  const tt = t * t;
  let even = 1.3720064546777686e-08;
  even = even * tt + 1.6447424703317362e-06;
  even = even * tt + 0.00012055294904839707;
  even = even * tt + 0.0052239776071164225;
  even = even * tt + 0.11283791670945006;
  even = even * tt + 1.1283791670955126;
  let odd = -7.795898827002142e-10;
  odd = odd * tt - 1.6208483801871705e-07;
  odd = odd * tt - 1.492473690741966e-05;
  odd = odd * tt - 0.0008548325975389692;
  odd = odd * tt - 0.02686617064323777;
  odd = odd * tt - 0.37612638903183543;
  return x * (even + t * odd);
}

// exp(x * x) * erfc(x) for x in [0.5, 28].
function erfcx(x: number): number {
  const t = (x - 4) / (x + 4);
  const tt = t * t;
  let even = -9.455982939872743e-09;
  even = even * tt + 5.941337955131871e-08;
  even = even * tt + 3.0842678654442027e-07;
  even = even * tt - 1.1230434994851926e-05;
  even = even * tt + 0.0001506247026512128;
  even = even * tt - 0.0007577739752266992;
  even = even * tt - 0.016197733962200932;
  even = even * tt - 0.0663303658198799;
  even = even * tt - 0.10103906603599298;
  even = even * tt + 0.015379652102614858;
  even = even * tt + 1.2329951186255526;
  let odd = 7.389680444833914e-08;
  odd = odd * tt - 7.811785785175153e-07;
  odd = odd * tt + 5.678446518677392e-06;
  odd = odd * tt - 2.4385454299846383e-05;
  odd = odd * tt - 0.000199260546967223;
  odd = odd * tt + 0.005031970657505758;
  odd = odd * tt + 0.03716751546515809;
  odd = odd * tt + 0.09373283500259434;
  odd = odd * tt + 0.06809705425457811;
  odd = odd * tt - 0.1396211168405616;
  return (even + t * odd) / (1 + 2 * x);
}

// exp(c * x * x), corrected by the rounding error of the square, which would grow with x.
function expSquare(x: number, c: number): number {
  const high = Math.fround(x);
  const low = c * ((x - high) * (x + high));
  return Math.exp(c * high * high) * (1 + low * (1 + low * (0.5 + low / 6)));
}

function erf(x: number): number {
  const size = Math.abs(x);
  if (size <= 1) return erfSmall(x);
  if (size >= 6) return x > 0 ? 1 : -1;
  const tail = Math.exp(-size * size) * erfcx(size);
  return x > 0 ? 1 - tail : x < 0 ? tail - 1 : x;
}

// Not by 1 - erf(): the tail would lose all digits.
function gelu(x: number): number {
  const size = Math.abs(x) * Math.SQRT1_2;
  if (size < 0.5) return 0.5 * x * (1 + erfSmall(x * Math.SQRT1_2));
  if (size >= 28) return x > 0 ? x : x * 0;
  const tail = 0.5 * expSquare(x, -0.5) * erfcx(size);
  return x > 0 ? x * (1 - tail) : x * tail;
}

function sigmoid(x: number): number {
  if (x >= 0) return 1 / (1 + Math.exp(-x));
  const e = Math.exp(x);
  return e / (1 + e);
}

// x ** n for an integer n > 0 in double-double arithmetic: exact powers stay exact.
function powInteger(x: number, n: number): number {
  let high = 1, low = 0, base = x, baseLow = 0;
  for (;;) {
    if (n & 1) {
      const p = high * base;
      const e = productError(high, base, p) + (high * baseLow + low * base);
      high = p + e;
      low = e - (high - p);
    }
    n >>= 1;
    if (n === 0) return high;
    const p = base * base;
    const e = productError(base, base, p) + 2 * base * baseLow;
    base = p + e;
    baseLow = e - (base - p);
  }
}

function productError(x: number, y: number, p: number): number {
  const cx = 134217729 * x, cy = 134217729 * y;
  const xh = cx - (cx - x), yh = cy - (cy - y);
  const xl = x - xh, yl = y - yh;
  return xl * yl - (((p - xh * yh) - xl * yh) - xh * yl);
}

// IEEE results where JavaScript gives NaN: 1 ** NaN and (±1) ** ±inf are 1.
function pow(x: number, y: number): number {
  const r = Math.pow(x, y);
  if (r !== r) return x === 1 || (x === -1 && y === y && y - y !== 0) ? 1 : r;
  if (POW_DRIFTS && y > 2 && y <= 1000 && y === Math.floor(y)) {
    const size = Math.abs(r);
    // Outside this range, intermediate results may overflow or lose bits.
    if (size > 1e-280 && size < 1e290) return powInteger(x, y);
  }
  return r;
}

function copysign(x: number, y: number): number {
  return y < 0 || (y === 0 && 1 / y < 0) ? -Math.abs(x) : Math.abs(x);
}

// V8 loses the sign of a result that underflows.
function atan2(x: number, y: number): number {
  const r = Math.atan2(x, y);
  return r === 0 ? copysign(0, x) : r;
}

function hypot(x: number, y: number): number {
  const s = x * x + y * y;
  if (s > 1e-280 && s < 1e300) return Math.sqrt(s);
  const a = Math.abs(x), b = Math.abs(y);
  if (a === Infinity || b === Infinity) return Infinity;
  // A power of two, so that scaling is exact.
  const c = a > 1e100 || b > 1e100 ? 2 ** -700 : 2 ** 700;
  return Math.sqrt((a * c) * (a * c) + (b * c) * (b * c)) / c;
}

function logaddexp(x: number, y: number): number {
  if (x === y) return x + Math.LN2;
  return Math.max(x, y) + Math.log1p(Math.exp(-Math.abs(x - y)));
}

// floor(x / y) is exact, although x / y is rounded, for operands of at most 24 bits and a quotient
// below 2^28: it is too far from the next integer. `%` takes several times as long.
function isShort(quotient: number, y: number): boolean {
  return quotient > -268435456 && quotient < 268435456 && y - y === 0;
}

/** `ffloordiv` of numbers that float32 can represent. */
export function shortFloordiv(x: number, y: number): number {
  const quotient = x / y;
  return isShort(quotient, y) ? Math.floor(quotient) : ffloordiv(x, y);
}

let intHalves: Uint16Array | undefined;

/** The integers from -2048 on as float16. Made on first use. */
function makeIntHalves(): Uint16Array {
  return intHalves = Uint16Array.from({ length: 4096 }, (_, i) => toF16(i - 2048));
}

/** `ffloordiv` of float16 values, as bits: most results are small integers, found in a table. */
export function floordivToHalf(x: number, y: number): number {
  const quotient = x / y;
  // Such a quotient is at least 2^-40 away from any other integer, so truncating the positive sum
  // rounds down. The quotient is 0 if x is 0 or y infinite: then signs count.
  if (quotient > -2048 && quotient < 2048 && quotient !== 0) {
    return (intHalves ?? makeIntHalves())[(quotient + 2048) | 0]!;
  }
  return toF16(ffloordiv(x, y));
}

/** `fmod` of numbers that float32 can represent. */
export function shortMod(x: number, y: number): number {
  const quotient = x / y;
  if (!isShort(quotient, y)) return fmod(x, y);
  const rest = x - Math.floor(quotient) * y;
  return rest === 0 ? copysign(0, y) : rest;
}

function ffloordiv(x: number, y: number): number {
  if (y === 0) return x / y;
  const m = x % y;
  let q = (x - m) / y;
  if (m !== 0 && (y < 0) !== (m < 0)) q -= 1;
  if (q === 0) return copysign(0, x / y);
  // (x - m) / y is an integer except for rounding.
  const low = Math.floor(q);
  return q - low > 0.5 ? low + 1 : low;
}

function fmod(x: number, y: number): number {
  const m = x % y;
  if (m === 0) return copysign(0, y);
  return (y < 0) !== (m < 0) ? m + y : m;
}

// x * 2^n; n is truncated. The steps, as in C, round once even if the result is subnormal.
function ldexp(x: number, n: number): number {
  if (n !== n) return NaN;
  let left = Math.min(Math.max(Math.trunc(n), -4000), 4000);
  let value = x;
  for (; left > 1023; left -= 1023) value *= 2 ** 1023;
  for (; left < -1022; left += 969) value *= 2 ** -969;
  return value * 2 ** left;
}

function nextafter64(x: number, y: number): number {
  if (x !== x || y !== y) return NaN;
  if (x === y) return y;
  if (x === 0) return y > 0 ? Number.MIN_VALUE : -Number.MIN_VALUE;
  f64[0] = x;
  if ((y > x) === (x > 0)) {
    if (++f64Words[0]! > 0xffffffff) f64Words[1]!++;
  } else if (f64Words[0]!-- === 0) f64Words[1]!--;
  return f64[0]!;
}

function nextafter32(x: number, y: number): number {
  if (x !== x || y !== y) return NaN;
  if (x === y) return y;
  if (x === 0) return y > 0 ? 2 ** -149 : -(2 ** -149);
  f32[0] = x;
  f32Bits[0]! += (y > x) === (x > 0) ? 1 : -1;
  return f32[0]!;
}

function nextafterb16(x: number, y: number): number {
  if (x !== x || y !== y) return NaN;
  if (x === y) return y;
  if (x === 0) return y > 0 ? 2 ** -133 : -(2 ** -133);
  f32[0] = x;
  f32Bits[0]! += (y > x) === (x > 0) ? 0x10000 : -0x10000;
  return f32[0]!;
}

function nextafter16(x: number, y: number): number {
  if (x !== x || y !== y) return NaN;
  if (x === y) return y;
  const size = Math.abs(x);
  const grows = x === 0 || (y > x) === (x > 0);
  if (size === Infinity) return x > 0 ? 65504 : -65504;
  f32[0] = size;
  // Below a power of two the step is half as wide.
  const bits = f32Bits[0]! - (grows ? 0 : 1);
  const step = Math.max(2 ** ((bits >> 23) - 137), 2 ** -24);
  const next = grows ? size + step : size - step;
  return copysign(next > 65504 ? Infinity : next, x === 0 ? y : x);
}

/**
 * The primitives of float dtypes. Errors are within 2 ulp of float64, or 4 for `gelu`
 * (`logaddexp`: of its larger operand; `silu`, `gelu`: where the result is a normal number).
 *
 * - `erf`, `gelu` (the exact form) and `sigmoid` keep their relative accuracy in the tails;
 *   `silu(-inf)` and `gelu(-inf)` are NaN.
 * - `ldexp` is x * 2^trunc(y); `frem` is C's `fmod`, with the sign of x.
 * - `ffloordiv`, `fmod` are Python's `//` and `%`, with NumPy's answers for ±0, ±inf and NaN.
 * - `maximum`, `minimum` propagate NaN and give `y` for two zeros.
 * - `sign` gives 0 for ±0; `rint` rounds half to even.
 * - `signbit`, `isfinite`, `isinf`, `isnan` give 0 or 1; the sign of NaN counts as positive.
 * - `nextafter64`, `nextafter32`, `nextafter16`, `nextafterb16` take and give values of float64,
 *   float32, float16 and bfloat16.
 */
export const FLOAT: Record<string, NumberPrimitive> = {
  exp: Math.exp,
  expm1: Math.expm1,
  exp2: (x: number): number => Math.pow(2, x),
  log: Math.log,
  log1p: Math.log1p,
  log2: Math.log2,
  log10: Math.log10,
  sqrt: Math.sqrt,
  sin: Math.sin,
  cos: Math.cos,
  tan: Math.tan,
  asin: Math.asin,
  acos: Math.acos,
  atan: Math.atan,
  sinh: Math.sinh,
  cosh: Math.cosh,
  tanh: Math.tanh,
  asinh: Math.asinh,
  acosh: Math.acosh,
  atanh: Math.atanh,
  fabs: Math.abs,
  floor: Math.floor,
  ceil: Math.ceil,
  trunc: Math.trunc,
  rint,
  erf,
  sigmoid,
  silu: (x: number): number => x * sigmoid(x),
  gelu,
  pow,
  atan2,
  copysign,
  hypot,
  logaddexp,
  ffloordiv,
  fmod,
  frem: (x: number, y: number): number => x % y,
  ldexp,
  maximum(x: number, y: number): number {
    choice[0] = y;
    choice[1] = x;
    return choice[Number(x > y) | Number(x !== x)]!;
  },
  minimum(x: number, y: number): number {
    choice[0] = y;
    choice[1] = x;
    return choice[Number(x < y) | Number(x !== x)]!;
  },
  sign: (x: number): number => (x > 0 ? 1 : x < 0 ? -1 : x === 0 ? 0 : x),
  signbit: (x: number): number => (x < 0 || (x === 0 && 1 / x < 0) ? 1 : 0),
  isfinite: (x: number): number => (x - x === 0 ? 1 : 0),
  isinf: (x: number): number => (x === Infinity || x === -Infinity ? 1 : 0),
  isnan: (x: number): number => (x !== x ? 1 : 0),
  ...specialFunctions({ rint, pow, erfSmall, erfcx, expSquare }),
  nextafter64,
  nextafter32,
  nextafter16,
  nextafterb16,
};

// Exact for safe integers too: a fraction of 1 / y never rounds away. `+ 0` turns -0 into 0.
function floorOfQuotient(x: number, y: number): number {
  return y === 0 ? 0 : Math.floor(x / y) + 0;
}

// Results modulo 2^32.
function wrappingFloordiv(x: number, y: number): number {
  if (y === 0) return 0;
  const q = (x / y) | 0;
  return (x < 0) !== (y < 0) && Math.imul(q, y) !== x ? q - 1 : q;
}

function isInt32(x: number): boolean {
  return (x | 0) === x && x !== -2147483648;
}

// JavaScriptCore takes 6 ns for Math.floor and 2 ns for a division of integers; V8 the reverse.
const DIVIDES_INTEGERS = "Bun" in globalThis;

function imod(x: number, y: number): number {
  if (y === 0) return 0;
  const m = x % y;
  return m === 0 ? 0 : (m < 0) !== (y < 0) ? m + y : m;
}

// The remainder with the sign of x; 0 for y = 0. `+ 0` turns -0 into 0.
function irem(x: number, y: number): number {
  return y === 0 ? 0 : x % y + 0;
}

// The greatest common divisor of safe integers, at least 0.
function igcd(x: number, y: number): number {
  let [a, b] = [Math.abs(x), Math.abs(y)];
  while (b !== 0) [a, b] = [b, a % b];
  return a;
}

// x ** y for y < 0: the exact value, truncated; 0 ** y counts as 0.
function inversePower(x: number, y: number): number {
  return x === 1 ? 1 : x === -1 ? (y % 2 === 0 ? 1 : -1) : 0;
}

/**
 * The primitives of integer dtypes of at most 32 bits. Results are correct modulo 2^32 and may be
 * outside the dtype's range: the store wraps them. `irem` has the sign of x. Division by zero, and shifts by a negative count
 * or by at least `bits`, give 0; `ifloordiv`, `imod` have Python's signs; a negative exponent
 * truncates the exact value.
 */
export const INT: Record<string, NumberPrimitive> = {
  ifloordiv: DIVIDES_INTEGERS ? wrappingFloordiv : floorOfQuotient,
  imod,
  irem,
  igcd,
  ilcm: (x: number, y: number): number =>
    x === 0 || y === 0 ? 0 : Math.imul(Math.abs(x) / igcd(x, y), Math.abs(y)),
  ipow(x: number, y: number): number {
    if (y < 0) return inversePower(x, y);
    let r = 1;
    for (let n = y; n !== 0; n >>>= 1) {
      if (n & 1) r = Math.imul(r, x);
      x = Math.imul(x, x);
    }
    return r;
  },
  shl: (x: number, n: number, bits: number): number => (n < 0 || n >= bits ? 0 : x << n),
  shr: (x: number, n: number, bits: number): number =>
    n < 0 || n >= bits ? 0 : x < 0 ? x >> n : x >>> n,
};

/**
 * The primitives of 64-bit integers that are safe as numbers. If the exact result is not a safe
 * integer, they return a number for which `Number.isSafeInteger` is false, and the caller uses
 * {@link BIG}. Otherwise as {@link INT}.
 */
export const WIDE: Record<string, NumberPrimitive> = {
  ifloordiv: DIVIDES_INTEGERS
    ? (x, y) => isInt32(x) && isInt32(y) ? wrappingFloordiv(x, y) : floorOfQuotient(x, y)
    : floorOfQuotient,
  imod,
  irem,
  igcd,
  ilcm: (x: number, y: number): number =>
    x === 0 || y === 0 ? 0 : (Math.abs(x) / igcd(x, y)) * Math.abs(y),
  ipow(x: number, y: number): number {
    if (y < 0) return inversePower(x, y);
    if (x === 1 || x === 0) return y === 0 ? 1 : x;
    if (x === -1) return y % 2 === 0 ? 1 : -1;
    if (y > 53) return NaN;
    let r = 1;
    for (let n = y; n !== 0; n >>= 1) {
      if (n & 1) r *= x;
      x *= x;
    }
    return r;
  },
  shl: (x: number, n: number, bits: number): number => (n < 0 || n >= bits ? 0 : x * 2 ** n),
  shr: (x: number, n: number, bits: number): number =>
    n < 0 || n >= bits ? 0 : Math.floor(x / 2 ** n),
};

function bigGcd(x: bigint, y: bigint): bigint {
  let [a, b] = [x < 0n ? -x : x, y < 0n ? -y : y];
  while (b !== 0n) [a, b] = [b, a % b];
  return a;
}

/**
 * The primitives of 64-bit integers as bigints: results are correct modulo 2^64, and the caller
 * wraps them. Otherwise as {@link INT}.
 */
export const BIG: Record<string, BigIntPrimitive> = {
  ifloordiv(x: bigint, y: bigint): bigint {
    if (y === 0n) return 0n;
    const q = x / y;
    return (x < 0n) !== (y < 0n) && q * y !== x ? q - 1n : q;
  },
  imod(x: bigint, y: bigint): bigint {
    if (y === 0n) return 0n;
    const m = x % y;
    return m !== 0n && (m < 0n) !== (y < 0n) ? m + y : m;
  },
  irem: (x: bigint, y: bigint): bigint => (y === 0n ? 0n : x % y),
  igcd: bigGcd,
  ilcm(x: bigint, y: bigint): bigint {
    if (x === 0n || y === 0n) return 0n;
    const product = (x / bigGcd(x, y)) * y;
    return product < 0n ? -product : product;
  },
  ipow(x: bigint, y: bigint): bigint {
    if (y < 0n) return x === 1n ? 1n : x === -1n ? (y % 2n === 0n ? 1n : -1n) : 0n;
    let r = 1n;
    // Wrapped at each step, as exact powers would exceed memory.
    for (let n = y; n !== 0n; n >>= 1n) {
      if (n & 1n) r = BigInt.asIntN(64, r * x);
      x = BigInt.asIntN(64, x * x);
    }
    return r;
  },
  shl: (x: bigint, n: bigint, bits: bigint): bigint => (n < 0n || n >= bits ? 0n : x << n),
  shr: (x: bigint, n: bigint, bits: bigint): bigint => (n < 0n || n >= bits ? 0n : x >> n),
};
