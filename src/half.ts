/**
 * float16 and bfloat16 as numbers: tables and bit tricks, since both runtimes convert slowly.
 *
 * Rounding is half to even, through float32; for one arithmetic operation that gives the correctly
 * rounded result. Knows nothing of tensors.
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

/** The float16 nearest to `value`, as bits. */
export function toHalf(value: number): number {
  F32[0] = value;
  const bits = I32[0]!;
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude < 0x38800000) {
    // Below 2^-14 the result is a multiple of 2^-24, which adding 0.5 rounds to.
    F32[0] = Math.abs(F32[0]!) + 0.5;
    return sign | (I32[0]! - 0x3f000000);
  }
  if (magnitude < 0x477ff000) {
    return sign | ((magnitude - 0x37fff001 + ((magnitude >>> 13) & 1)) >>> 13);
  }
  return sign | (magnitude > 0x7f800000 ? 0x7e00 : 0x7c00);
}

/** The bfloat16 nearest to `value`, as bits. */
export function toBrain(value: number): number {
  F32[0] = value;
  const bits = I32[0]!;
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
