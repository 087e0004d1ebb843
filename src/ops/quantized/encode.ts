/**
 * Numbers to blocks: the formats that quantize without a search, as ggml does it, which are the
 * definition of every kernel.
 *
 * @module
 */
import { toF16 } from "../../base/half.ts";
import { QUANT } from "./formats.ts";

/** Writes the block of the numbers of `from` at `at` to `bytes`, from `to` on. */
type Encode = (from: Float32Array, at: number, bytes: Uint8Array, to: number) => void;

/** The names of the formats that can be made. */
export type EncodedName = "q4_0" | "q8_0";

const SIZE = 32;
const round = Math.fround;

function putHalf(value: number, bytes: Uint8Array, to: number): void {
  const bits = toF16(value);
  bytes[to] = bits & 255;
  bytes[to + 1] = bits >> 8;
}

/** The first number of largest magnitude, with its sign; NaN for numbers that are not finite. */
function extreme(from: Float32Array, at: number): number {
  let most = 0;
  for (let i = at; i < at + SIZE; i++) {
    const value = from[i]!;
    if (!Number.isFinite(value)) return NaN;
    if (Math.abs(value) > Math.abs(most)) most = value;
  }
  return most;
}

/** 1 / d; 0 where that has no finite value, of a block whose numbers are all but 0. */
function inverse(d: number): number {
  const made = round(1 / d);
  return Number.isFinite(made) ? made : 0;
}

const encodeQ8_0: Encode = (from, at, bytes, to) => {
  const d = round(Math.abs(extreme(from, at)) / 127), id = inverse(d);
  putHalf(d, bytes, to);
  for (let i = 0; i < SIZE; i++) {
    const q = id === 0 ? 0 : round(from[at + i]! * id);
    // Halves are rounded away from zero.
    bytes[to + 2 + i] = Math.sign(q) * Math.floor(Math.abs(q) + 0.5);
  }
};

const encodeQ4_0: Encode = (from, at, bytes, to) => {
  const d = round(extreme(from, at) / -8), id = inverse(d);
  const quantized = (i: number): number =>
    id === 0 ? 8 : Math.min(15, Math.trunc(round(round(from[at + i]! * id) + 8.5)));
  putHalf(d, bytes, to);
  for (let i = 0; i < SIZE / 2; i++) {
    bytes[to + 2 + i] = quantized(i) | quantized(i + SIZE / 2) << 4;
  }
};

const ENCODE: Readonly<Record<EncodedName, Encode>> = { q4_0: encodeQ4_0, q8_0: encodeQ8_0 };

/** The names of the formats that {@link encode} makes. */
export const ENCODED: readonly EncodedName[] = Object.keys(ENCODE) as EncodedName[];

/**
 * Writes the blocks of `count` numbers of `from`, from `at` on, to `bytes`, from `to` on. A block with
 * a number that is not finite has NaN as its scale, so that all its numbers are NaN.
 */
export function encode(
  name: EncodedName,
  from: Float32Array,
  at: number,
  count: number,
  bytes: Uint8Array,
  to: number,
): void {
  const format = QUANT[name];
  for (let block = 0; block * format.size < count; block++) {
    ENCODE[name](from, at + block * format.size, bytes, to + block * format.bytes);
  }
}
