/**
 * PNG files as pictures.
 *
 * @module
 */
import { FormatError } from "../../mod.ts";
import { decodeImage, type ImageTensor } from "../../src/images/mod.ts";
import { ImageError, type Picture, type Pixels, scaleInk, toPixels } from "./pictures.ts";

/** The most pixels along a side. */
export const MAX_SIDE = 256;

/** Whether bytes begin as a PNG does, and as no file of another kind that is read. */
export function isPng(bytes: Uint8Array): boolean {
  return bytes[0] === 0x89;
}

/** The brightness of each pixel on white paper, from 0 to 1. */
function brightness(image: ImageTensor): Float32Array {
  const [height, width, channels] = image.shape;
  const samples = image.toTypedArray();
  const most = image.dtype === "uint16" ? 65535 : 255;
  const [colored, clear] = [channels > 2, channels % 2 === 0];
  const bright = new Float32Array(width * height);
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

/** The image in a PNG; an ImageError for other bytes, and for one that is damaged or too large. */
async function readImage(bytes: Uint8Array): Promise<ImageTensor> {
  if (!isPng(bytes)) throw new ImageError("not a PNG file");
  try {
    return await decodeImage(bytes, { maxPixels: MAX_SIDE ** 2, file: "the PNG" });
  } catch (error) {
    if (error instanceof FormatError) throw new ImageError(error.message, { cause: error });
    throw error;
  }
}

/** Reads a PNG of at most 256 x 256 pixels, of dark ink on bright paper or the reverse. */
export async function decodePng(bytes: Uint8Array): Promise<Picture> {
  using image = await readImage(bytes);
  const [height, width] = image.shape;
  if (Math.max(width, height) > MAX_SIDE) {
    throw new ImageError(
      `the PNG has ${width} x ${height} pixels: from 1 x 1 to ${MAX_SIDE} x ${MAX_SIDE} are read`,
    );
  }
  const bright = brightness(image);
  if (isOnPaper(bright, width, height)) {
    for (let i = 0; i < bright.length; i++) bright[i] = 1 - bright[i]!;
  }
  return { width, height, ink: bright };
}

/** The digit in a PNG; one of 8 x 8 pixels is used unchanged, any other is cropped and scaled. */
export async function pixelsOfPng(bytes: Uint8Array): Promise<Pixels> {
  const picture = await decodePng(bytes);
  const ready = picture.width === 8 && picture.height === 8;
  return ready ? scaleInk(picture.ink) : toPixels(picture);
}
