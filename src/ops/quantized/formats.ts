/**
 * The block formats of quantized weights, as GGUF files have them: their sizes, and the numbers that
 * blocks stand for, which are the definition of every kernel.
 *
 * A row of a weight is a sequence of blocks of 32 or 256 elements, each with scales of its own. The
 * arithmetic is that of float32, in the order of ggml, so that results are the same to the bit.
 *
 * @module
 */
import type { QuantDType } from "../../base/dtype.ts";
import { f16Table } from "../../base/half.ts";

/** Writes the numbers of the block of `bytes` at `from` to `to`, from `at` on. */
type Decode = (bytes: Uint8Array, from: number, to: Float32Array, at: number) => void;

/** A block format. */
export interface QuantFormat {
  /** Its name. */
  readonly name: QuantName;
  /** Its number in GGUF files. */
  readonly type: number;
  /** The elements of a block. */
  readonly size: number;
  /** The bytes of a block. */
  readonly bytes: number;
  readonly decode: Decode;
}

/** The names of the formats. */
export type QuantName = QuantDType;

const round = Math.fround;

/** The float16 at `at`. */
const half = (bytes: Uint8Array, at: number): number =>
  f16Table()[bytes[at]! | bytes[at + 1]! << 8]!;

/** The elements of a small block, and where its bytes of 4 bits begin. */
const SMALL = 32;

/** Writes f(q) of 32 numbers of 4 bits: the low halves of 16 bytes, then the high ones. */
function halves(
  bytes: Uint8Array,
  from: number,
  to: Float32Array,
  at: number,
  f: (q: number, i: number) => number,
): void {
  for (let i = 0; i < SMALL / 2; i++) {
    const both = bytes[from + i]!;
    to[at + i] = f(both & 15, i);
    to[at + i + SMALL / 2] = f(both >> 4, i + SMALL / 2);
  }
}

const decodeQ4_0: Decode = (bytes, from, to, at) => {
  const d = half(bytes, from);
  halves(bytes, from + 2, to, at, (q) => d * (q - 8));
};

const decodeQ4_1: Decode = (bytes, from, to, at) => {
  const d = half(bytes, from), m = half(bytes, from + 2);
  halves(bytes, from + 4, to, at, (q) => round(d * q) + m);
};

/** The fifth bits of 32 numbers, as 16. */
const fifth = (bytes: Uint8Array, from: number, i: number): number =>
  (bytes[from + (i >> 3)]! >> (i & 7) & 1) << 4;

const decodeQ5_0: Decode = (bytes, from, to, at) => {
  const d = half(bytes, from);
  halves(bytes, from + 6, to, at, (q, i) => d * ((q | fifth(bytes, from + 2, i)) - 16));
};

const decodeQ5_1: Decode = (bytes, from, to, at) => {
  const d = half(bytes, from), m = half(bytes, from + 2);
  halves(bytes, from + 8, to, at, (q, i) => round(d * (q | fifth(bytes, from + 4, i))) + m);
};

const decodeQ8_0: Decode = (bytes, from, to, at) => {
  const d = half(bytes, from);
  for (let i = 0; i < SMALL; i++) to[at + i] = d * (bytes[from + 2 + i]! << 24 >> 24);
};

/** The values of 4 bits of iq4_nl, which are not equally far apart. */
const IQ4_VALUES: readonly number[] = [
  ...[-127, -104, -83, -65, -49, -35, -22, -10],
  ...[1, 13, 25, 38, 53, 69, 89, 113],
];

const decodeIq4Nl: Decode = (bytes, from, to, at) => {
  const d = half(bytes, from);
  halves(bytes, from + 2, to, at, (q) => d * IQ4_VALUES[q]!);
};

/** The elements of a large block, and the parts of 32 with a scale each. */
const LARGE = 256, PARTS = 8;

/** The scale and the minimum of part `j`, of 6 bits each in 12 bytes. */
function scaleAndMin(bytes: Uint8Array, from: number, j: number): [scale: number, min: number] {
  const at = (i: number): number => bytes[from + i]!;
  if (j < 4) return [at(j) & 63, at(j + 4) & 63];
  return [at(j + 4) & 15 | at(j - 4) >> 6 << 4, at(j + 4) >> 4 | at(j) >> 6 << 4];
}

/** Writes scale · q − minimum of a large block; two parts share 32 bytes of 4 bits. */
function decodeParts(
  bytes: Uint8Array,
  from: number,
  quants: number,
  to: Float32Array,
  at: number,
  high: (part: number, i: number) => number,
): void {
  const d = half(bytes, from), dMin = half(bytes, from + 2);
  for (let part = 0; part < PARTS; part++) {
    const [scale, min] = scaleAndMin(bytes, from + 4, part);
    const factor = round(d * scale), shift = round(dMin * min);
    for (let i = 0; i < SMALL; i++) {
      const both = bytes[quants + (part >> 1) * SMALL + i]!;
      const q = (part & 1 ? both >> 4 : both & 15) | high(part, i);
      to[at + part * SMALL + i] = round(factor * q) - shift;
    }
  }
}

const decodeQ4K: Decode = (bytes, from, to, at) =>
  decodeParts(bytes, from, from + 16, to, at, () => 0);

const decodeQ5K: Decode = (bytes, from, to, at) =>
  decodeParts(
    bytes,
    from,
    from + 48,
    to,
    at,
    (part, i) => (bytes[from + 16 + i]! >> part & 1) << 4,
  );

const decodeQ6K: Decode = (bytes, from, to, at) => {
  const low = from, high = from + 128, scales = from + 192, d = half(bytes, from + 208);
  for (let i = 0; i < LARGE; i++) {
    // Halves of 128 elements; in each, four runs of 32 share bytes.
    const part = i >> 7, run = i >> 5 & 3, place = i & 31;
    const four = bytes[low + part * 64 + (run & 1) * 32 + place]! >> (run & 2) * 2 & 15;
    const two = bytes[high + part * 32 + place]! >> run * 2 & 3;
    const scale = bytes[scales + (i >> 4)]! << 24 >> 24;
    to[at + i] = round(d * scale) * ((four | two << 4) - 32);
  }
};

const format = (
  name: QuantName,
  type: number,
  size: number,
  bytes: number,
  decode: Decode,
): QuantFormat => ({ name, type, size, bytes, decode });

/** The formats by name. */
export const QUANT: Readonly<Record<QuantName, QuantFormat>> = {
  q4_0: format("q4_0", 2, SMALL, 18, decodeQ4_0),
  q4_1: format("q4_1", 3, SMALL, 20, decodeQ4_1),
  q5_0: format("q5_0", 6, SMALL, 22, decodeQ5_0),
  q5_1: format("q5_1", 7, SMALL, 24, decodeQ5_1),
  q8_0: format("q8_0", 8, SMALL, 34, decodeQ8_0),
  q4_k: format("q4_k", 12, LARGE, 144, decodeQ4K),
  q5_k: format("q5_k", 13, LARGE, 176, decodeQ5K),
  q6_k: format("q6_k", 14, LARGE, 210, decodeQ6K),
  iq4_nl: format("iq4_nl", 20, SMALL, 18, decodeIq4Nl),
};
