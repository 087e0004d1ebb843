/**
 * Pictures in PNG and JPEG files, by fast-png and jpeg-js, which are plain JavaScript.
 *
 * A file is untrusted: pictures above 100 million pixels are refused by their headers.
 *
 * @module
 */
import type { DecodedPng } from "fast-png";
import { Buffer } from "node:buffer";
import { ImageError, isPng, type Limit, plainPng, unpack } from "../shared/png.ts";

/** A picture: rows of pixels of 1 (grey), 2 (grey, alpha), 3 (red, green, blue) or 4 bytes. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly channels: number;
  readonly data: Uint8Array;
}

const JPEG = [0xff, 0xd8, 0xff];
const MOST_PIXELS = 1e8;
const LIMIT: Limit = {
  text: "at most 100 million pixels are read",
  fits: (width, height) => width * height <= MOST_PIXELS,
};

/** Passes errors of an import on, with what is to be done. */
const missing = (name: string) => (cause: unknown): never => {
  throw new Error(`it takes the package ${name} (npm install ${name})`, { cause });
};

/** The samples of a PNG as bytes. */
function samplesOf(image: DecodedPng): Uint8Array {
  const { depth, data } = image;
  if (depth === 8) return data as Uint8Array;
  if (depth === 16) return Uint8Array.from(data, (value) => value >> 8);
  return Uint8Array.from(unpack(image), (value) => value * 255 / (2 ** depth - 1));
}

async function decodePng(bytes: Uint8Array): Promise<Picture> {
  const { bytes: plain, indexed } = plainPng(bytes, LIMIT);
  const { decode, convertIndexedToRgb } = await import("fast-png").catch(missing("fast-png"));
  try {
    const image = decode(plain, { checkCrc: true });
    const { width, height } = image;
    const data = indexed ? convertIndexedToRgb(image) : samplesOf(image);
    return { width, height, channels: data.length / (width * height), data };
  } catch (error) {
    throw new ImageError(`the PNG is damaged: ${(error as Error).message}`);
  }
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
  if (isPng(bytes)) return await decodePng(bytes);
  if (JPEG.every((byte, i) => bytes[i] === byte)) return await decodeJpeg(bytes);
  throw new Error("it is no PNG and no JPEG");
}
