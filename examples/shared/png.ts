/**
 * PNG files before they are decoded: their chunks, their size, and samples of less than a byte.
 *
 * A PNG is untrusted: the code checks the size in the header and limits the inflated size, and
 * leaves out unnecessary chunks (text, color profiles). Knows nothing of the decoder.
 *
 * @module
 */
import type { DecodedPng } from "fast-png";
import { Buffer } from "node:buffer";
import { inflateSync } from "node:zlib";

/** A fault in an image from the user. */
export class ImageError extends Error {
  override name = "ImageError";
}

/** How large pictures may be. */
export interface Limit {
  /** The same in words: "… are read". */
  readonly text: string;
  fits(width: number, height: number): boolean;
}

/** A PNG that can be decoded. */
export interface PlainPng {
  /** The file with the chunks that define the appearance of pixels, and no others. */
  readonly bytes: Uint8Array;
  /** Whether pixels are indexes of a palette; others may have one too, as a suggestion. */
  readonly indexed: boolean;
}

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
/** The number of channels of the color types. */
const CHANNELS: Record<number, number> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };
/** Grey and indexes may have less than 8 bits. */
const NARROW = [0, 3];
const INDEXED = 3;
/** Chunks that define the appearance of pixels. */
const KEPT = ["IHDR", "PLTE", "tRNS", "IDAT", "IEND"];
/** The passes of an interlaced picture: each has every so many pixels from the first one on. */
const PASSES = [
  { x: 0, y: 0, xStep: 8, yStep: 8 },
  { x: 4, y: 0, xStep: 8, yStep: 8 },
  { x: 0, y: 4, xStep: 4, yStep: 8 },
  { x: 2, y: 0, xStep: 4, yStep: 4 },
  { x: 0, y: 2, xStep: 2, yStep: 4 },
  { x: 1, y: 0, xStep: 2, yStep: 2 },
  { x: 0, y: 1, xStep: 1, yStep: 2 },
];
const WHOLE = [{ x: 0, y: 0, xStep: 1, yStep: 1 }];

/** Whether bytes begin with the PNG signature. */
export function isPng(bytes: Uint8Array): boolean {
  return SIGNATURE.every((byte, i) => bytes[i] === byte);
}

interface Chunk {
  readonly type: string;
  readonly data: Uint8Array;
  /** Its length, type, data and checksum. */
  readonly whole: Uint8Array;
}

/** The relevant chunks, in their order; an ImageError if the bytes are not a PNG. */
function readChunks(bytes: Uint8Array): Chunk[] {
  if (!isPng(bytes)) throw new ImageError("not a PNG file");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const chunks: Chunk[] = [];
  for (let at = SIGNATURE.length; at + 12 <= bytes.length;) {
    const length = view.getUint32(at);
    const end = at + 12 + length;
    if (end > bytes.length) break;
    const type = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    if ((chunks.length === 0) !== (type === "IHDR")) {
      throw new ImageError("the PNG does not begin with its one header");
    }
    if (KEPT.includes(type)) {
      const [data, whole] = [bytes.subarray(at + 8, end - 4), bytes.subarray(at, end)];
      chunks.push({ type, data, whole });
    }
    if (type === "IEND") return chunks;
    at = end;
  }
  throw new ImageError("the PNG is truncated");
}

/** Rejects a picture that is too large, by its header and by the inflated size of its data. */
function checkSize(header: Uint8Array, data: Uint8Array, limit: Limit): void {
  if (header.length !== 13) throw new ImageError("the PNG's header is damaged");
  const view = new DataView(header.buffer, header.byteOffset, header.byteLength);
  const [width, height] = [view.getUint32(0), view.getUint32(4)];
  const [depth, colorType, interlace] = [header[8]!, header[9]!, header[12]!];
  if (!(width >= 1 && height >= 1 && limit.fits(width, height))) {
    throw new ImageError(`the PNG has ${width} x ${height} pixels: ${limit.text}`);
  }
  const channels = CHANNELS[colorType];
  const depths = NARROW.includes(colorType) ? [1, 2, 4, 8, 16] : [8, 16];
  if (channels === undefined || !depths.includes(depth)) {
    throw new ImageError("the PNG's header is damaged");
  }
  // The decoder takes each of their samples for a byte.
  if (interlace !== 0 && depth < 8) {
    throw new ImageError("an interlaced PNG of less than 8 bits is not read");
  }
  // Rows end in whole bytes, and begin with that of their filter.
  const sizes = (interlace === 0 ? WHOLE : PASSES).map(({ x, y, xStep, yStep }) => {
    const [columns, rows] = [Math.ceil((width - x) / xStep), Math.ceil((height - y) / yStep)];
    return columns > 0 && rows > 0 ? rows * (1 + Math.ceil(columns * channels * depth / 8)) : 0;
  });
  const most = sizes.reduce((sum, size) => sum + size, 0);
  let size: number;
  try {
    size = inflateSync(data, { maxOutputLength: most }).length;
  } catch {
    throw new ImageError("the PNG's data are damaged, or are more than its pixels");
  }
  if (size !== most) throw new ImageError("the PNG's data are incomplete");
}

/** A PNG as it can be decoded; an ImageError if it is damaged or too large. */
export function plainPng(bytes: Uint8Array, limit: Limit): PlainPng {
  const chunks = readChunks(bytes);
  const header = chunks[0]!.data;
  const data = Buffer.concat(chunks.filter(({ type }) => type === "IDAT").map(({ data }) => data));
  checkSize(header, data, limit);
  const plain = Buffer.concat([Buffer.from(SIGNATURE), ...chunks.map(({ whole }) => whole)]);
  return { bytes: plain, indexed: header[9] === INDEXED };
}

/** The numbers of a picture, one by one; a byte contains several grey ones of less than 8 bits. */
export function unpack({ width, height, depth, data }: DecodedPng): ArrayLike<number> {
  if (depth >= 8) return data;
  const rowBytes = Math.ceil(width * depth / 8);
  return Uint8Array.from({ length: width * height }, (_, i) => {
    const [y, x] = [Math.floor(i / width), i % width];
    const shift = 8 - depth - (x * depth) % 8;
    return (data[y * rowBytes + (x * depth >> 3)]! >> shift) & (2 ** depth - 1);
  });
}
