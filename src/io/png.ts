/**
 * The PNG format, write-only: 8 or 16 bits per channel, grey, RGB, and both with alpha.
 *
 * Works on plain bytes; knows nothing of the class Tensor.
 *
 * @module
 */
import { joined, zlib } from "./bytes.ts";

/** The first bytes of every PNG file. */
const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];

/** The format's color types, by the number of channels. */
const COLOUR_TYPES: Readonly<Record<number, number>> = { 1: 0, 2: 4, 3: 2, 4: 6 };

/** The bytes of a PNG file from pixels in row-major order, `channels` (1 to 4) samples each. */
export function encodePng(
  pixels: Uint8Array | Uint16Array,
  width: number,
  height: number,
  channels: number,
): Uint8Array<ArrayBuffer> {
  const isDeep = pixels instanceof Uint16Array;
  const header = new DataView(new ArrayBuffer(13));
  header.setUint32(0, width);
  header.setUint32(4, height);
  header.setUint8(8, isDeep ? 16 : 8);
  header.setUint8(9, COLOUR_TYPES[channels]!);
  const step = isDeep ? 2 * channels : channels;
  const filtered = filter(isDeep ? bigEndian(pixels) : pixels, width * step, height, step);
  return joined([
    new Uint8Array(SIGNATURE),
    chunk("IHDR", new Uint8Array(header.buffer)),
    chunk("IDAT", zlib().deflateSync(filtered)),
    chunk("IEND", new Uint8Array(0)),
  ]);
}

function bigEndian(samples: Uint16Array): Uint8Array {
  const bytes = new Uint8Array(2 * samples.length);
  for (let i = 0; i < samples.length; i++) {
    bytes[2 * i] = samples[i]! >> 8;
    bytes[2 * i + 1] = samples[i]!;
  }
  return bytes;
}

/** The filters of rows: nothing, less what is left, above, and the one of Paeth. */
const FILTERS = [0, 1, 2, 4];

/**
 * Rows of `row` bytes as differences from their neighbours, each after the number of its filter: the
 * one whose differences are smallest. The byte to the left is `step` bytes away.
 */
function filter(pixels: Uint8Array, row: number, height: number, step: number): Uint8Array {
  const filtered = new Uint8Array(height * (row + 1));
  const tried = new Uint8Array(row);
  const before = new Uint8Array(row);
  for (let y = 0; y < height; y++) {
    const line = pixels.subarray(y * row, (y + 1) * row);
    const target = filtered.subarray(y * (row + 1), (y + 1) * (row + 1));
    let least = Infinity;
    for (const kind of FILTERS) {
      const size = filterRow(kind, line, before, step, tried);
      if (size >= least) continue;
      least = size;
      target[0] = kind;
      target.set(tried, 1);
    }
    before.set(line);
  }
  return filtered;
}

/** Writes a row less what a filter expects, and returns the sum of the differences. */
function filterRow(
  kind: number,
  line: Uint8Array,
  before: Uint8Array,
  step: number,
  out: Uint8Array,
): number {
  let size = 0;
  for (let i = 0; i < line.length; i++) {
    const left = i >= step ? line[i - step]! : 0;
    let expected = 0;
    if (kind === 1) expected = left;
    else if (kind === 2) expected = before[i]!;
    else if (kind === 4) expected = paeth(left, before[i]!, i >= step ? before[i - step]! : 0);
    const difference = (line[i]! - expected) & 255;
    out[i] = difference;
    size += difference < 128 ? difference : 256 - difference;
  }
  return size;
}

/** The neighbour that is closest to left + above − corner. */
function paeth(left: number, above: number, corner: number): number {
  const p = Math.abs(above - corner);
  const q = Math.abs(left - corner);
  const r = Math.abs(left + above - 2 * corner);
  if (p <= q && p <= r) return left;
  return q <= r ? above : corner;
}

/** Length, type, data, and the checksum of the latter two. */
function chunk(type: string, data: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(12 + data.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, data.length);
  bytes.set(Array.from(type, (letter) => letter.charCodeAt(0)), 4);
  bytes.set(data, 8);
  view.setUint32(8 + data.length, zlib().crc32(bytes.subarray(4, 8 + data.length)));
  return bytes;
}
