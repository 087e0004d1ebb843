/**
 * Pictures in PNG and JPEG files, by fast-png and jpeg-js, which are plain JavaScript.
 *
 * A file is untrusted: pictures above 100 million pixels are refused by their headers.
 *
 * @module
 */
import { Buffer } from "node:buffer";

/** A picture: rows of pixels of 1 (grey), 2 (grey, alpha), 3 (red, green, blue) or 4 bytes. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly channels: number;
  readonly data: Uint8Array;
}

const PNG = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const JPEG = [0xff, 0xd8, 0xff];
const MOST_PIXELS = 1e8;

const beginsWith = (bytes: Uint8Array, start: readonly number[]): boolean =>
  start.every((byte, i) => bytes[i] === byte);

/** Passes errors of an import on, with what is to be done. */
const missing = (name: string) => (cause: unknown): never => {
  throw new Error(`it takes the package ${name} (npm install ${name})`, { cause });
};

async function decodePng(bytes: Uint8Array): Promise<Picture> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 33) throw new Error("the PNG is truncated");
  if (view.getUint32(16) * view.getUint32(20) > MOST_PIXELS) {
    throw new Error("the PNG has more than 100 million pixels");
  }
  const { decode, convertIndexedToRgb } = await import("fast-png").catch(missing("fast-png"));
  const image = decode(bytes);
  const { width, height, depth, data, palette } = image;
  if (palette !== undefined && bytes[25] === 3) {
    return { width, height, channels: palette[0]!.length, data: convertIndexedToRgb(image) };
  }
  const { channels } = image;
  const size = width * height * channels;
  if (depth === 8) return { width, height, channels, data: data as Uint8Array };
  if (depth === 16) {
    return { width, height, channels, data: Uint8Array.from(data, (value) => value >> 8) };
  }
  // A byte has several grey pixels, and rows end in whole bytes.
  const [rowBytes, most] = [Math.ceil(width * depth / 8), 2 ** depth - 1];
  const grey = Uint8Array.from({ length: size }, (_, i) => {
    const [y, x] = [Math.floor(i / width), i % width];
    const shift = 8 - depth - (x * depth) % 8;
    return ((data[y * rowBytes + (x * depth >> 3)]! >> shift) & most) * 255 / most;
  });
  return { width, height, channels, data: grey };
}

async function decodeJpeg(bytes: Uint8Array): Promise<Picture> {
  const { decode } = await import("jpeg-js").catch(missing("jpeg-js"));
  const { width, height, data } = decode(Buffer.from(bytes), {
    useTArray: true,
    formatAsRGBA: false,
    maxResolutionInMP: MOST_PIXELS / 1e6,
    maxMemoryUsageInMB: 2048,
  });
  return { width, height, channels: data.length / (width * height), data };
}

/** Reads a PNG or a JPEG; throws an Error that says why it cannot. */
export async function decodeImage(bytes: Uint8Array): Promise<Picture> {
  if (beginsWith(bytes, PNG)) return await decodePng(bytes);
  if (beginsWith(bytes, JPEG)) return await decodeJpeg(bytes);
  throw new Error("it is no PNG and no JPEG");
}
