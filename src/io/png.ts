/**
 * The PNG format, write-only: 8 bits per channel, grey, RGB or RGBA.
 *
 * Works on plain bytes; knows nothing of the class Tensor.
 *
 * @module
 */
import { joined, zlib } from "./bytes.ts";

/** The first bytes of every PNG file. */
const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];

/** The format's color types, by the number of channels. */
const COLOUR_TYPES: Readonly<Record<number, number>> = { 1: 0, 3: 2, 4: 6 };

/** The bytes of a PNG file from pixels in row-major order, `channels` (1, 3 or 4) bytes each. */
export function encodePng(
  pixels: Uint8Array,
  width: number,
  height: number,
  channels: number,
): Uint8Array<ArrayBuffer> {
  const header = new DataView(new ArrayBuffer(13));
  header.setUint32(0, width);
  header.setUint32(4, height);
  header.setUint8(8, 8);
  header.setUint8(9, COLOUR_TYPES[channels]!);
  // Every row begins with its filter number; 0 means no filter.
  const row = width * channels;
  const filtered = new Uint8Array(height * (row + 1));
  for (let y = 0; y < height; y++) {
    filtered.set(pixels.subarray(y * row, (y + 1) * row), y * (row + 1) + 1);
  }
  return joined([
    new Uint8Array(SIGNATURE),
    chunk("IHDR", new Uint8Array(header.buffer)),
    chunk("IDAT", zlib().deflateSync(filtered)),
    chunk("IEND", new Uint8Array(0)),
  ]);
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
