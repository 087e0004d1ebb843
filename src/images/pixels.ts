/**
 * Samples of pictures: other numbers of channels, and bits that share a byte.
 *
 * Knows no file format, and nothing of the class Tensor.
 *
 * @module
 */

/** Samples of a picture: of 8 bits, or of 16. */
export type Samples = Uint8Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;

/** A decoded picture. */
export interface Picture {
  /** The width in pixels. */
  readonly width: number;
  /** The height in pixels. */
  readonly height: number;
  /** 1: grey, 2: grey and alpha, 3: red, green and blue, 4: those and alpha. */
  readonly channels: number;
  /** The samples, pixel by pixel. */
  readonly data: Samples;
}

/** Which files are read. */
export interface Limits {
  /** The name of the file in errors. */
  readonly file: string;
  /** The most pixels. */
  readonly maxPixels: number;
}

/** Numbers of less than 8 bits, which share bytes; every row begins with a byte of its own. */
export function unpackBits(
  data: ArrayLike<number>,
  width: number,
  height: number,
  depth: number,
): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(width * height);
  const rowBytes = Math.ceil(width * depth / 8);
  const mask = 2 ** depth - 1;
  for (let y = 0, to = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const bit = x * depth;
      out[to++] = (data[y * rowBytes + (bit >> 3)]! >> (8 - depth - (bit & 7))) & mask;
    }
  }
  return out;
}

/** An array of `length` samples of the kind of `data`. */
function alike(data: Samples, length: number): Samples {
  return data instanceof Uint16Array ? new Uint16Array(length) : new Uint8Array(length);
}

/**
 * The picture with that number of channels. A color becomes grey by its luma (ITU-R 601-2, as in
 * Pillow), grey becomes all three colors, new alpha is opaque, and alpha that is too much is dropped.
 */
export function withChannels(picture: Picture, channels: number): Picture {
  const { width, height, data, channels: given } = picture;
  if (channels === given) return picture;
  const pixels = width * height;
  const out = alike(data, pixels * channels);
  const opaque = data instanceof Uint16Array ? 65535 : 255;
  const isGrey = given < 3;
  for (let i = 0, from = 0, to = 0; i < pixels; i++, from += given, to += channels) {
    const [r, g, b] = [
      data[from]!,
      data[isGrey ? from : from + 1]!,
      data[isGrey ? from : from + 2]!,
    ];
    if (channels >= 3) {
      out[to] = r;
      out[to + 1] = g;
      out[to + 2] = b;
    } else out[to] = isGrey ? r : Math.floor((19595 * r + 38470 * g + 7471 * b + 32768) / 65536);
    if (channels % 2 === 0) {
      out[to + channels - 1] = given % 2 === 0 ? data[from + given - 1]! : opaque;
    }
  }
  return { width, height, channels, data: out };
}

/** What a library says of a damaged file: nothing, if it went on as if nothing was wrong. */
export function reasonOf(error: unknown): string {
  const { message, constructor } = error as Error;
  return constructor === Error ? `: ${message}` : "";
}
