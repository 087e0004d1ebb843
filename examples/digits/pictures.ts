/**
 * Pictures of any size, and their conversion to the models' format: 8 x 8 pixels from 0 to 16.
 *
 * Knows nothing of files or of the network; an invalid picture is an ImageError.
 *
 * @module
 */
import { arange, scope, type Tensor, tensor } from "../../mod.ts";

/** A fault in an image from the user. */
export class ImageError extends Error {
  override name = "ImageError";
}

/** A picture, row by row: the ink of each pixel, from 0, paper, to 1. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  readonly ink: Float32Array;
}

/** An image in the models' format: 64 numbers from 0, paper, to 16, ink. */
export type Pixels = Float32Array;

/** The number of pixels of an image of the data set. */
export const PIXELS = 64;
const CELLS = 8;
/** The most ink of a pixel of the data set. */
export const FULL = 16;

/** The first and the last position of set pixels along an axis. */
function extent(set: Tensor<"bool">): [first: number, last: number] | undefined {
  const places = set.nonzero()[0]!.toArray() as number[];
  return places.length === 0 ? undefined : [places[0]!, places.at(-1)!];
}

/**
 * The share of each of `size` pixels in each of 8 cells of `step` pixels that begin at `start`: [8,
 * size].
 */
function coverage(size: number, start: number, step: number): Tensor<"float32"> {
  const left = arange(CELLS).mul(step).add(start).reshape([CELLS, 1]);
  const pixel = arange(size).reshape([1, -1]);
  const begin = left.maximum(pixel);
  const end = left.add(step).minimum(pixel.add(1));
  return end.sub(begin).maximum(0).div(step).astype("float32").asDynamic();
}

/**
 * Converts a picture to the format of the data set: crops the digit, in black and white, and scales
 * it to fill the square. The square has 8 x 8 cells, and a pixel counts the ink of its cell in
 * sixteenths. The data set counts the bits in 4 x 4 blocks of a bitmap of 32 x 32; this function
 * counts them at the original resolution.
 */
export function toPixels({ width, height, ink }: Picture): Pixels {
  return scope(() => {
    const picture = tensor(ink).reshape([height, width]);
    const most = picture.max().item();
    if (!(most > 0)) throw new ImageError("the picture is blank");
    const black = picture.greaterEqual(most / 2);
    const [top, bottom] = extent(black.any(1).asDynamic())!;
    const [left, right] = extent(black.any(0).asDynamic())!;
    const side = Math.max(bottom - top, right - left) + 1;
    const start = (first: number, last: number) => (first + last + 1 - side) / 2;
    const rows = coverage(height, start(top, bottom), side / CELLS);
    const columns = coverage(width, start(left, right), side / CELLS);
    const shares = rows.matmul(black.astype("float32").asDynamic()).matmul(columns.T);
    return shares.mul(FULL).round().toTypedArray() as Pixels;
  });
}

/** An image that already has 8 x 8 pixels: only the scale changes. */
export function scaleInk(ink: Float32Array): Pixels {
  return ink.map((share) => Math.round(share * FULL));
}
