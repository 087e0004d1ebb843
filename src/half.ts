/**
 * float16 and bfloat16 as numbers: tables and bit tricks, since both runtimes convert slowly.
 *
 * Rounding is half to even. Knows nothing of tensors.
 *
 * @module
 */

/** One float32 … */
const F32: Float32Array = new Float32Array(1);
/** … and its bits, signed, so that arithmetic on them stays in 32-bit integers. */
const I32: Int32Array = new Int32Array(F32.buffer);

let halves: Float32Array | undefined;
let brains: Float32Array | undefined;

/** The value of every float16, by its bits. Made at the first use. */
export function halfTable(): Float32Array {
  if (halves !== undefined) return halves;
  halves = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const exponent = (bits >> 10) & 31;
    const mantissa = bits & 1023;
    const magnitude = exponent === 0
      ? mantissa * 2 ** -24
      : exponent === 31
      ? mantissa === 0 ? Infinity : NaN
      : (1024 + mantissa) * 2 ** (exponent - 25);
    halves[bits] = bits >= 32768 ? -magnitude : magnitude;
  }
  return halves;
}

/** The value of every bfloat16, by its bits. Made at the first use. */
export function brainTable(): Float32Array {
  if (brains !== undefined) return brains;
  brains = new Float32Array(Int32Array.from({ length: 65536 }, (_, bits) => bits << 16).buffer);
  return brains;
}

// How float32 becomes float16, by sign and exponent: what to shift the mantissa by, what to add
// before for rounding, and what to add after. No branch depends on the data.
const SHIFT = new Uint8Array(512);
const ROUND = new Int32Array(512);
const BASE = new Uint16Array(512);
for (let key = 0; key < 512; key++) {
  const sign = (key & 256) << 7;
  const exponent = key & 255;
  // Below 2^-14 the unit stays 2^-24; from 2^16 on everything is infinite.
  const shift = exponent >= 143 ? 31 : exponent >= 113 ? 13 : Math.min(25, 126 - exponent);
  SHIFT[key] = shift;
  ROUND[key] = (1 << (shift - 1)) - 1;
  // The leading bit of the mantissa counts as one step of the exponent.
  BASE[key] = sign | (exponent >= 143 ? 0x7c00 : exponent >= 113 ? (exponent - 113) << 10 : 0);
}

/**
 * The bits of the float32 next to `value`, towards zero, with the last bit set when something was
 * cut off: rounding that once more, to 16 bits, gives what rounding `value` itself would.
 */
function toOddBits(value: number): number {
  F32[0] = value;
  const rounded = F32[0]!;
  if (rounded === value || rounded !== rounded) return I32[0]!;
  // An infinity here stands for a finite value beyond float32, and rounds to one all the same.
  if (rounded - rounded !== 0) return I32[0]!;
  if (Math.abs(rounded) > Math.abs(value)) I32[0]!--;
  return I32[0]! | 1;
}

/** The float16 nearest to `value`, as bits. */
export function toHalf(value: number): number {
  const bits = toOddBits(value);
  const key = bits >>> 23;
  if ((bits & 0x7fffffff) > 0x7f800000) return BASE[key]! | 0x200;
  const mantissa = (bits & 0x7fffff) | 0x800000;
  const shift = SHIFT[key]!;
  const odd = (mantissa >>> shift) & 1;
  return BASE[key]! + ((mantissa + ROUND[key]! + odd) >>> shift);
}

/** The bfloat16 nearest to `value`, as bits. */
export function toBrain(value: number): number {
  const bits = toOddBits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) | 0x40;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/** The value of a bfloat16, from its bits. */
export function fromBrain(bits: number): number {
  return brainTable()[bits]!;
}

/** Rounds to float16. */
export function roundHalf(value: number): number {
  return halfTable()[toHalf(value)]!;
}

/** Rounds to bfloat16. */
export function roundBrain(value: number): number {
  return fromBrain(toBrain(value));
}
