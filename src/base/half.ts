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
let bf16Values: Float32Array | undefined;

/** The value of every float16, by its bits. Made on first use. */
export function f16Table(): Float32Array {
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

/** The value of every bfloat16, by its bits. Made on first use. */
export function bf16Table(): Float32Array {
  if (bf16Values !== undefined) return bf16Values;
  bf16Values = new Float32Array(Int32Array.from({ length: 65536 }, (_, bits) => bits << 16).buffer);
  return bf16Values;
}

// The conversion of float32 to float16, by sign and exponent: the shift of the mantissa in the
// lower byte, and above it the number to add afterwards. The size of the value causes no branch.
const STEPS = new Int32Array(512);
for (let key = 0; key < 512; key++) {
  const sign = (key & 256) << 7;
  const exponent = key & 255;
  // Below 2^-14 the unit stays 2^-24; from 2^16 on everything is infinite.
  const shift = exponent >= 143 ? 31 : exponent >= 113 ? 13 : Math.min(25, 126 - exponent);
  // The leading bit of the mantissa counts as one step of the exponent.
  const base = exponent >= 143 ? 0x7c00 : exponent >= 113 ? (exponent - 113) << 10 : 0;
  STEPS[key] = (sign | base) << 8 | shift;
}

/**
 * The bits of the float32 next to `value`, towards zero, with the last bit set if bits were cut
 * off: rounding that again, to 16 bits, gives the same as rounding `value` itself.
 */
function toOddBits(value: number): number {
  F32[0] = value;
  const rounded = F32[0]!;
  if (rounded === value || rounded !== rounded) return I32[0]!;
  // An infinity here stands for a finite value beyond float32, and still rounds correctly.
  if (rounded - rounded !== 0) return I32[0]!;
  if (Math.abs(rounded) > Math.abs(value)) I32[0]!--;
  return I32[0]! | 1;
}

function halfOf(bits: number): number {
  const step = STEPS[bits >>> 23]!;
  if ((bits & 0x7fffffff) > 0x7f800000) return step >>> 8 | 0x200;
  const mantissa = bits & 0x7fffff | 0x800000;
  const shift = step & 31;
  const odd = (mantissa >>> shift) & 1;
  return (step >>> 8) + ((mantissa + (1 << (shift - 1)) - 1 + odd) >>> shift);
}

function bf16Of(bits: number): number {
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) | 0x40;
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/** The float16 nearest to `value`, as bits. */
export function toF16(value: number): number {
  return halfOf(toOddBits(value));
}

/** The bfloat16 nearest to `value`, as bits. */
export function toBf16(value: number): number {
  return bf16Of(toOddBits(value));
}

/**
 * {@link toF16} of one sum, difference, product, quotient or root of float16 values. For those,
 * rounding through float32 gives the same result (float32 has more than twice the bits) and is
 * faster.
 */
export function resultToHalf(value: number): number {
  F32[0] = value;
  return halfOf(I32[0]!);
}

/** {@link resultToHalf} for bfloat16. */
export function resultToBf16(value: number): number {
  F32[0] = value;
  return bf16Of(I32[0]!);
}

/** The value of a bfloat16, from its bits. */
export function fromBf16(bits: number): number {
  return bf16Table()[bits]!;
}

/** Rounds to float16. */
export function roundHalf(value: number): number {
  return f16Table()[toF16(value)]!;
}

/** Rounds to bfloat16. */
export function roundBf16(value: number): number {
  return fromBf16(toBf16(value));
}
