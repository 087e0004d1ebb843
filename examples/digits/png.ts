/**
 * PNG files as pictures, read by fast-png, which is plain JavaScript and runs in both runtimes.
 *
 * A PNG is untrusted: the code checks the size in the header and limits the inflated size before
 * decoding, and skips unnecessary chunks (text, color profiles).
 *
 * @module
 */
import { convertIndexedToRgb, decode, type DecodedPng } from "fast-png";
import { Buffer } from "node:buffer";
import { inflateSync } from "node:zlib";
import { ImageError, type Picture, type Pixels, scaleInk, toPixels } from "./pictures.ts";

/** The most pixels along a side. */
export const MAX_SIDE = 256;

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
/** The number of channels of the color types. */
const CHANNELS: Record<number, number> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };
/** Chunks that define the appearance of pixels. */
const KEPT = ["IHDR", "PLTE", "tRNS", "IDAT", "IEND"];

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
function checkSize(header: Uint8Array, data: Uint8Array): void {
  if (header.length !== 13) throw new ImageError("the PNG's header is damaged");
  const view = new DataView(header.buffer, header.byteOffset, header.byteLength);
  const [width, height] = [view.getUint32(0), view.getUint32(4)];
  const [depth, colorType, interlace] = [header[8]!, header[9]!, header[12]!];
  if (!(width >= 1 && width <= MAX_SIDE && height >= 1 && height <= MAX_SIDE)) {
    throw new ImageError(
      `the PNG has ${width} x ${height} pixels: from 1 x 1 to ${MAX_SIDE} x ${MAX_SIDE} are read`,
    );
  }
  const channels = CHANNELS[colorType];
  if (channels === undefined || ![1, 2, 4, 8, 16].includes(depth)) {
    throw new ImageError("the PNG's header is damaged");
  }
  const row = Math.ceil(width * channels * depth / 8) + 1;
  // The seven passes of an interlaced picture have rows of their own, which end in whole bytes.
  const most = interlace === 0 ? row * height : (row + 14) * (height + 14) * 2;
  let size: number;
  try {
    size = inflateSync(data, { maxOutputLength: most }).length;
  } catch {
    throw new ImageError("the PNG's data are damaged, or are more than its pixels");
  }
  if (interlace === 0 && size !== most) throw new ImageError("the PNG's data are incomplete");
}

/** The numbers of a picture, one by one; a byte contains several grey ones of less than 8 bits. */
function unpack({ width, height, depth, data }: DecodedPng): ArrayLike<number> {
  if (depth >= 8) return data;
  const rowBytes = Math.ceil(width * depth / 8);
  return Uint8Array.from({ length: width * height }, (_, i) => {
    const [y, x] = [Math.floor(i / width), i % width];
    const shift = 8 - depth - (x * depth) % 8;
    return (data[y * rowBytes + (x * depth >> 3)]! >> shift) & (2 ** depth - 1);
  });
}

/** The brightness of each pixel on white paper, from 0 to 1. */
function brightness(image: DecodedPng, indexed: boolean): Float32Array {
  const samples = indexed ? convertIndexedToRgb(image) : unpack(image);
  const channels = indexed ? image.palette![0]!.length : image.channels;
  const most = 2 ** (indexed ? 8 : image.depth) - 1;
  const [colored, clear] = [channels > 2, channels % 2 === 0];
  const bright = new Float32Array(image.width * image.height);
  for (let i = 0, at = 0; i < bright.length; i++, at += channels) {
    let color = samples[at]!;
    if (colored) color = (color + samples[at + 1]! + samples[at + 2]!) / 3;
    const opaque = clear ? samples[at + channels - 1]! / most : 1;
    bright[i] = 1 - opaque * (1 - color / most);
  }
  return bright;
}

/** Whether most of a picture's border is bright: then it shows dark ink on bright paper. */
function isOnPaper(bright: Float32Array, width: number, height: number): boolean {
  let sum = 0;
  for (let x = 0; x < width; x++) sum += bright[x]! + bright[(height - 1) * width + x]!;
  for (let y = 0; y < height; y++) sum += bright[y * width]! + bright[y * width + width - 1]!;
  return sum > width + height;
}

/** Reads a PNG of at most 256 x 256 pixels, of dark ink on bright paper or the reverse. */
export function decodePng(bytes: Uint8Array): Picture {
  const chunks = readChunks(bytes);
  const data = Buffer.concat(chunks.filter(({ type }) => type === "IDAT").map(({ data }) => data));
  checkSize(chunks[0]!.data, data);
  const plain = Buffer.concat([Buffer.from(SIGNATURE), ...chunks.map(({ whole }) => whole)]);
  let image: DecodedPng;
  let bright: Float32Array;
  try {
    image = decode(plain, { checkCrc: true });
    // A truecolor picture may have a palette, too, as a suggestion.
    bright = brightness(image, chunks[0]!.data[9] === 3);
  } catch (error) {
    throw new ImageError(`the PNG is damaged: ${(error as Error).message}`);
  }
  const { width, height } = image;
  if (isOnPaper(bright, width, height)) {
    for (let i = 0; i < bright.length; i++) bright[i] = 1 - bright[i]!;
  }
  return { width, height, ink: bright };
}

/** The digit in a PNG; one of 8 x 8 pixels is used unchanged, any other is cropped and scaled. */
export function pixelsOfPng(bytes: Uint8Array): Pixels {
  const picture = decodePng(bytes);
  const ready = picture.width === 8 && picture.height === 8;
  return ready ? scaleInk(picture.ink) : toPixels(picture);
}
