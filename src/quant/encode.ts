/**
 * Numbers to blocks: the formats that quantize without a search, as ggml does it.
 *
 * @module
 */
import { f16Table, toF16 } from "../base/half.ts";
import { QUANT, type QuantFormat, type QuantName } from "./formats.ts";

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

/** The number of largest magnitude, with its sign. */
function extreme(from: Float32Array, at: number): number {
  let most = 0;
  for (let i = at; i < at + SIZE; i++) {
    if (!(Math.abs(from[i]!) <= Math.abs(most))) most = from[i]!;
  }
  return most;
}

const inverse = (d: number): number => d === 0 ? 0 : round(1 / d);

const encodeQ8_0: Encode = (from, at, bytes, to) => {
  const d = round(Math.abs(extreme(from, at)) / 127), id = inverse(d);
  putHalf(d, bytes, to);
  for (let i = 0; i < SIZE; i++) {
    const q = round(from[at + i]! * id);
    // Halves are rounded away from zero.
    bytes[to + 2 + i] = Math.sign(q) * Math.floor(Math.abs(q) + 0.5);
  }
};

const encodeQ4_0: Encode = (from, at, bytes, to) => {
  const d = round(extreme(from, at) / -8), id = inverse(d);
  const quantized = (i: number): number =>
    Math.min(15, Math.trunc(round(round(from[at + i]! * id) + 8.5)));
  putHalf(d, bytes, to);
  for (let i = 0; i < SIZE / 2; i++) {
    bytes[to + 2 + i] = quantized(i) | quantized(i + SIZE / 2) << 4;
  }
};

const ENCODE: Readonly<Record<EncodedName, Encode>> = { q4_0: encodeQ4_0, q8_0: encodeQ8_0 };

/** The names of the formats that {@link encode} makes. */
export const ENCODED: readonly EncodedName[] = ["q4_0", "q8_0"];

/** The blocks of numbers, whose count is a multiple of the block's. */
export function encode(name: EncodedName, numbers: Float32Array): Uint8Array<ArrayBuffer> {
  const { size, bytes } = QUANT[name];
  const made = new Uint8Array(numbers.length / size * bytes);
  for (let block = 0; block * size < numbers.length; block++) {
    ENCODE[name](numbers, block * size, made, block * bytes);
  }
  return made;
}

/** The first block whose scale float16 cannot hold, or -1: it has larger or no numbers. */
export function unscaledBlock(name: QuantName, blocks: Uint8Array): number {
  const { bytes }: QuantFormat = QUANT[name];
  for (let at = 0; at < blocks.length; at += bytes) {
    if (!Number.isFinite(f16Table()[blocks[at]! | blocks[at + 1]! << 8]!)) return at / bytes;
  }
  return -1;
}
