/**
 * Decoded pictures as tensors.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { checkOptions } from "../table/infer.ts";
import { tensor } from "../tensor/create.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** A decoded picture, as libraries for PNG and JPEG files give it. */
export interface Pixels {
  /** The width in pixels. */
  readonly width: number;
  /** The height in pixels. */
  readonly height: number;
  /** Rows of pixels, one after the other: bytes, or 16 bits for each channel. */
  readonly data: Uint8Array | Uint8ClampedArray | Uint16Array;
}

/** Options of {@link fromPixels}. */
export interface PixelsOptions<C extends number = number> {
  /** Keep the first channels only: 3 drops the transparency of a picture of 4. */
  readonly channels?: C;
}

/**
 * The pixels of a decoded picture as a tensor [height, width, channels] of uint8, or of uint16 for 16
 * bits per channel. It takes what the decoders of fast-png, jpeg-js, pngjs and sharp give, and the
 * ImageData of browsers.
 *
 * @throws {ArgumentError} For sizes that do not fit the number of samples.
 *
 * @example
 * ```ts
 * // import { decode } from "fast-png"; io.fromPixels(decode(bytes))
 * const picture = { width: 2, height: 1, data: new Uint8Array([255, 0, 0, 255, 0, 0, 255, 255]) };
 * io.fromPixels(picture).shape; // => [1, 2, 4]
 * io.fromPixels(picture, { channels: 3 }).toArray(); // => [[[255, 0, 0], [0, 0, 255]]]
 * ```
 */
export function fromPixels<C extends number = number>(
  picture: Pixels,
  options?: PixelsOptions<C>,
): Tensor<"uint8" | "uint16", [number, number, C], "cpu">;
export function fromPixels(
  picture: Pixels,
  options: PixelsOptions<number> = {},
): Tensor<"uint8" | "uint16", [number, number, number], "cpu"> {
  checkOptions("fromPixels", options, ["channels"]);
  const { width, height, data } = picture;
  const pixels = width * height;
  const isArray = data instanceof Uint8Array || data instanceof Uint8ClampedArray ||
    data instanceof Uint16Array;
  const found = isArray && width > 0 && height > 0 ? data.length / pixels : 0;
  if (
    !Number.isInteger(width) || !Number.isInteger(height) || !Number.isInteger(found) || found < 1
  ) {
    throw new ArgumentError(
      `fromPixels() needs bytes, or numbers of 16 bits, for width × height pixels, got ` +
        `${describe(width)} × ${describe(height)} and ${isArray ? data.length : describe(data)}`,
    );
  }
  const { channels = found } = options;
  if (!Number.isInteger(channels) || channels < 1 || channels > found) {
    throw new ArgumentError(
      `fromPixels() needs a number from 1 to ${found} as channels, got ${describe(channels)}`,
    );
  }
  let kept: Uint8Array | Uint16Array;
  const Samples = data instanceof Uint16Array ? Uint16Array : Uint8Array;
  if (channels === found) kept = Samples.from(data);
  else {
    kept = new Samples(pixels * channels);
    for (let i = 0, to = 0; i < pixels; i++) {
      for (let c = 0; c < channels; c++) kept[to++] = data[i * found + c]!;
    }
  }
  const shape = [height, width, channels] as const;
  return kept instanceof Uint16Array
    ? tensor(kept, { dtype: "uint16", shape })
    : tensor(kept, { dtype: "uint8", shape });
}
