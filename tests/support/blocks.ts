/**
 * Encoders of quantized blocks for tests: to the nearest number, without a search for better scales.
 *
 * @module
 */
import { f16Table, toF16 } from "../../src/base/half.ts";
import { QUANT, type QuantName } from "../../src/ops/quantized/formats.ts";

/** Writes the block of `x` to `to`. */
type Encode = (x: Float32Array, to: Uint8Array) => void;

const SMALL = 32, PARTS = 8, LARGE = 256;

/** Writes a float16; returns the number that it has. */
function putHalf(to: Uint8Array, at: number, value: number): number {
  const bits = toF16(value);
  to[at] = bits & 255;
  to[at + 1] = bits >> 8;
  return f16Table()[bits]!;
}

const clamp = (q: number, low: number, high: number): number => Math.min(high, Math.max(low, q));
/** The number of steps `d` in `value`; 0 for steps of 0. */
const stepsOf = (value: number, d: number): number => d === 0 ? 0 : Math.round(value / d);

/** The number of largest magnitude. */
function extreme(x: Float32Array): number {
  return x.reduce((most, value) => Math.abs(value) > Math.abs(most) ? value : most, 0);
}

/** Writes the low four bits of 32 numbers: the first 16 to the low halves of bytes. */
function putHalves(to: Uint8Array, at: number, q: readonly number[]): void {
  for (let i = 0; i < SMALL / 2; i++) to[at + i] = q[i]! & 15 | (q[i + SMALL / 2]! & 15) << 4;
}

/** Writes the fifth bits of 32 numbers. */
function putFifths(to: Uint8Array, at: number, q: readonly number[]): void {
  q.forEach((one, i) => to[at + (i >> 3)]! |= (one >> 4) << (i & 7));
}

/** d · (q − 2^(bits − 1)), where `most` of the numbers has q = 0. */
const symmetric = (bits: 4 | 5): Encode => (x, to) => {
  const half = 2 ** (bits - 1);
  const d = putHalf(to, 0, extreme(x) / -half);
  const q = Array.from(x, (value) => clamp(stepsOf(value, d) + half, 0, 2 * half - 1));
  if (bits === 5) putFifths(to, 2, q);
  putHalves(to, bits === 5 ? 6 : 2, q);
};

/** d · q + m, from the smallest to the largest number. */
const affine = (bits: 4 | 5): Encode => (x, to) => {
  const most = 2 ** bits - 1;
  const low = Math.min(...x);
  const d = putHalf(to, 0, (Math.max(...x) - low) / most);
  const m = putHalf(to, 2, low);
  const q = Array.from(x, (value) => clamp(stepsOf(value - m, d), 0, most));
  if (bits === 5) putFifths(to, 4, q);
  putHalves(to, bits === 5 ? 8 : 4, q);
};

const encodeQ8_0: Encode = (x, to) => {
  const d = putHalf(to, 0, Math.abs(extreme(x)) / 127);
  x.forEach((value, i) => to[2 + i] = clamp(stepsOf(value, d), -127, 127));
};

const IQ4_VALUES = [
  ...[-127, -104, -83, -65, -49, -35, -22, -10],
  ...[1, 13, 25, 38, 53, 69, 89, 113],
];

const encodeIq4Nl: Encode = (x, to) => {
  const d = putHalf(to, 0, extreme(x) / -127);
  const nearest = (value: number): number =>
    IQ4_VALUES.reduce(
      (best, one, i) =>
        Math.abs(d * one - value) < Math.abs(d * IQ4_VALUES[best]! - value) ? i : best,
      0,
    );
  putHalves(to, 2, Array.from(x, nearest));
};

/** Scales and minimums of 6 bits for parts of 32, and numbers of `bits` bits. */
const parts = (bits: 4 | 5): Encode => (x, to) => {
  const most = 2 ** bits - 1, quants = bits === 5 ? 48 : 16;
  const part = (j: number): Float32Array => x.subarray(j * SMALL, (j + 1) * SMALL);
  const lows = Array.from({ length: PARTS }, (_, j) => Math.max(0, -Math.min(...part(j))));
  const sizes = lows.map((low, j) => (Math.max(0, ...part(j)) + low) / most);
  const d = putHalf(to, 0, Math.max(...sizes) / 63);
  const dMin = putHalf(to, 2, Math.max(...lows) / 63);
  for (let j = 0; j < PARTS; j++) {
    const scale = clamp(stepsOf(sizes[j]!, d), 0, 63), min = clamp(stepsOf(lows[j]!, dMin), 0, 63);
    if (j < 4) {
      to[4 + j]! |= scale;
      to[8 + j]! |= min;
    } else {
      to[8 + j] = scale & 15 | (min & 15) << 4;
      to[j]! |= scale >> 4 << 6;
      to[4 + j]! |= min >> 4 << 6;
    }
    part(j).forEach((value, i) => {
      const q = clamp(stepsOf(value + dMin * min, d * scale), 0, most);
      to[quants + (j >> 1) * SMALL + i]! |= (q & 15) << (j & 1) * 4;
      if (bits === 5) to[16 + i]! |= (q >> 4) << j;
    });
  }
};

const encodeQ6K: Encode = (x, to) => {
  const RUN = 16;
  const sizes = Array.from(
    { length: LARGE / RUN },
    (_, j) => Math.abs(extreme(x.subarray(j * RUN, (j + 1) * RUN))) / 31,
  );
  const d = putHalf(to, 208, Math.max(...sizes) / 127);
  sizes.forEach((size, j) => to[192 + j] = clamp(stepsOf(size, d), 0, 127));
  x.forEach((value, i) => {
    const half = i >> 7, run = i >> 5 & 3, place = i & 31;
    const q = clamp(stepsOf(value, d * to[192 + (i >> 4)]!), -32, 31) + 32;
    to[half * 64 + (run & 1) * 32 + place]! |= (q & 15) << (run & 2) * 2;
    to[128 + half * 32 + place]! |= (q >> 4) << run * 2;
  });
};

const ENCODE: Readonly<Record<QuantName, Encode>> = {
  q4_0: symmetric(4),
  q4_1: affine(4),
  q5_0: symmetric(5),
  q5_1: affine(5),
  q8_0: encodeQ8_0,
  q4_k: parts(4),
  q5_k: parts(5),
  q6_k: encodeQ6K,
  iq4_nl: encodeIq4Nl,
};

/** Blocks near `numbers`, whose count is a multiple of the block's. */
export function encodeBlocks(name: QuantName, numbers: Float32Array): Uint8Array<ArrayBuffer> {
  const { size, bytes } = QUANT[name];
  const made = new Uint8Array(numbers.length / size * bytes);
  for (let block = 0; block * size < numbers.length; block++) {
    ENCODE[name](
      numbers.subarray(block * size, (block + 1) * size),
      made.subarray(block * bytes, (block + 1) * bytes),
    );
  }
  return made;
}
