/**
 * PNG files as pictures, read by fast-png, which is plain JavaScript and runs in both runtimes.
 *
 * @module
 */
import { convertIndexedToRgb, decode, type DecodedPng } from "fast-png";
import { ImageError, type Limit, plainPng, unpack } from "../shared/png.ts";
import { type Picture, type Pixels, scaleInk, toPixels } from "./pictures.ts";

/** The most pixels along a side. */
export const MAX_SIDE = 256;

const LIMIT: Limit = {
  text: `from 1 x 1 to ${MAX_SIDE} x ${MAX_SIDE} are read`,
  fits: (width, height) => width <= MAX_SIDE && height <= MAX_SIDE,
};

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
  const plain = plainPng(bytes, LIMIT);
  let image: DecodedPng;
  let bright: Float32Array;
  try {
    image = decode(plain.bytes, { checkCrc: true });
    bright = brightness(image, plain.indexed);
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
