/**
 * PNG and JPEG files as tensors, by the packages `fast-png` and `jpeg-js`, which a program installs
 * itself. Nothing else of this library needs them; each is imported when it is needed for the first time.
 *
 * Pictures are tensors [height, width, channels] of uint8, or of uint16 for PNG files of 16 bits.
 *
 * @module
 */
import { ArgumentError, DTypeError, FormatError, ShapeError } from "../base/errors.ts";
import { formatShape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { ownOperand } from "../core/foreign.ts";
import { wrap } from "../core/handles.ts";
import { asBytes, NO_FILE } from "../io/bytes.ts";
import { type Path, readFile, writeFile } from "../io/file.ts";
import { checkKind } from "../io/kinds.ts";
import { encodePng as encodePngFile } from "../io/png.ts";
import { checkOptions } from "../table/infer.ts";
import { tensor } from "../tensor/create.ts";
import "../tensor/tensor.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import { decodeJpeg, encodeJpeg as encodeJpegFile, isJpeg } from "./jpeg.ts";
import { type Picture, type Samples, withChannels } from "./pixels.ts";
import { decodePng, isPng } from "./png.ts";

export type { Path } from "../io/file.ts";

/** A picture: [height, width, channels]. */
export type ImageTensor<C extends number = number> = Tensor<
  "uint8" | "uint16",
  [number, number, C],
  "cpu"
>;

/** Options of reading. */
export interface DecodeOptions<C extends 1 | 3 | 4 = 1 | 3 | 4> {
  /**
   * The number of channels: 1 for grey, 3 for red, green and blue, 4 for those and alpha. By default
   * that of the file, which may also be 2: grey and alpha.
   */
  readonly channels?: C;
  /** The most pixels of a picture; 1e8 by default. It limits memory for files of strangers. */
  readonly maxPixels?: number;
  /** The name of the file in errors. */
  readonly file?: string;
}

/** Options of writing JPEG files. */
export interface JpegOptions {
  /** From 1 to 100; 90 by default. */
  readonly quality?: number;
}

const MOST_PIXELS = 1e8;
/** The longest side of a JPEG. */
const JPEG_SIDE = 65535;
const QUALITY = 90;

/** The options of reading, checked. */
function settle(op: string, options: DecodeOptions, name?: string) {
  checkOptions(op, options, ["channels", "maxPixels", "file"]);
  const { channels, maxPixels = MOST_PIXELS, file = name ?? NO_FILE } = options;
  if (channels !== undefined && channels !== 1 && channels !== 3 && channels !== 4) {
    throw new ArgumentError(`${op}() needs 1, 3 or 4 as channels, got ${describe(channels)}`);
  }
  if (!Number.isInteger(maxPixels) || maxPixels < 1) {
    throw new ArgumentError(
      `${op}() needs an integer of at least 1 as maxPixels, got ${describe(maxPixels)}`,
    );
  }
  return { channels, limits: { maxPixels, file } };
}

async function decode(
  op: string,
  bytes: Uint8Array,
  { channels, limits }: ReturnType<typeof settle>,
): Promise<ImageTensor> {
  const own = asBytes(bytes, limits.file);
  let picture: Picture;
  if (isPng(own)) picture = await decodePng(own, op, limits);
  else if (isJpeg(own)) picture = await decodeJpeg(own, op, limits);
  else {
    checkKind(["png", "jpeg"], own, limits.file);
    throw new FormatError("neither a PNG nor a JPEG file", limits.file, 0);
  }
  if (channels !== undefined) picture = withChannels(picture, channels);
  const { data, height, width } = picture;
  const shape = [height, width, picture.channels] as const;
  return data instanceof Uint16Array
    ? tensor(data, { dtype: "uint16", shape })
    : tensor(data, { dtype: "uint8", shape });
}

/**
 * The picture in the bytes of a PNG or JPEG file, as a tensor [height, width, channels] of uint8,
 * or of uint16 for a PNG of 16 bits. Samples of 1, 2 and 4 bits are scaled to 255. A palette gives
 * 3 channels, or 4 with transparent colors. Colors are converted to grey as in Pillow. Color
 * profiles, and the orientation in metadata, are not applied.
 *
 * @throws {PackageError} If the package `fast-png` for PNG files or `jpeg-js` for JPEG files is not
 *   installed.
 * @throws {FormatError} For damaged and truncated files, and for files with more than `maxPixels`
 *   pixels, before memory for the pixels is allocated.
 *
 * @example
 * ```ts
 * const file = encodePng(arange(6, { dtype: "uint8" }).reshape([2, 3]));
 * (await decodeImage(file, { channels: 3 })).shape; // => [2, 3, 3]
 * ```
 */
export async function decodeImage<C extends 1 | 3 | 4 = 1 | 3 | 4>(
  bytes: Uint8Array,
  options: DecodeOptions<C> = {},
): Promise<ImageTensor<C>> {
  const settled = settle("decodeImage", options);
  return await decode("decodeImage", bytes, settled) as ImageTensor<C>;
}

/** The picture in a file at a path or a `file:` URL: see {@link decodeImage}. */
export async function readImage<C extends 1 | 3 | 4 = 1 | 3 | 4>(
  path: Path,
  options: DecodeOptions<C> = {},
): Promise<ImageTensor<C>> {
  const settled = settle("readImage", options, String(path));
  return await decode("readImage", await readFile(path), settled) as ImageTensor<C>;
}

/** The elements of a tensor as a picture, copied. */
function pictureOf(op: string, x: AnyTensor, dtypes: readonly string[], most: number[]): Picture {
  const own = ownOperand(x, op);
  if (own !== x) {
    return pictureOf(op, wrap(own.storage, own.layout, own.flags) as AnyTensor, dtypes, most);
  }
  const { shape, dtype } = x;
  const [height = 0, width = 0, channels = 1] = shape;
  const isPicture = (shape.length === 2 || shape.length === 3) && most.includes(channels);
  if (!isPicture || height < 1 || width < 1) {
    throw new ShapeError(
      `${op}() needs [height, width] or [height, width, channels] with ${most.join(" or ")} ` +
        `channels and at least one pixel, got shape ${formatShape(shape)}`,
    );
  }
  if (!dtypes.includes(dtype)) {
    throw new DTypeError(
      `Cannot ${op} ${dtype}: it takes ${dtypes.join(" and ")}; for numbers from 0 to 1, ` +
        `x.mul(255).round().astype("uint8")`,
    );
  }
  const data = x.toTypedArray() as Samples;
  return { width, height, channels, data };
}

/**
 * The bytes of a PNG file of a picture: [height, width] or [height, width, channels] with 1 to 4
 * channels, uint8 or uint16. Needs no package.
 *
 * @throws {ShapeError} For another shape.
 * @throws {DTypeError} For another dtype.
 */
export function encodePng(x: AnyTensor): Uint8Array<ArrayBuffer> {
  return pngOf("encodePng", x);
}

function pngOf(op: string, x: AnyTensor): Uint8Array<ArrayBuffer> {
  const picture = pictureOf(op, x, ["uint8", "uint16"], [1, 2, 3, 4]);
  return encodePngFile(picture.data, picture.width, picture.height, picture.channels);
}

function qualityOf(op: string, options: JpegOptions): number {
  checkOptions(op, options, ["quality"]);
  const { quality = QUALITY } = options;
  if (!Number.isInteger(quality) || quality < 1 || quality > 100) {
    throw new ArgumentError(
      `${op}() needs an integer from 1 to 100 as quality, got ${describe(quality)}`,
    );
  }
  return quality;
}

function jpegOf(op: string, x: AnyTensor, quality: number): Promise<Uint8Array<ArrayBuffer>> {
  const picture = pictureOf(op, x, ["uint8"], [1, 3]);
  if (Math.max(picture.width, picture.height) > JPEG_SIDE) {
    throw new ShapeError(
      `${op}() needs sides of at most ${JPEG_SIDE} pixels, got shape ${formatShape(x.shape)}`,
    );
  }
  return encodeJpegFile(picture, op, quality);
}

/**
 * The bytes of a baseline JPEG file of a picture: [height, width] or [height, width, channels] with 1
 * or 3 channels, uint8. The file has three components also for grey. Needs the package `jpeg-js`.
 *
 * @throws {ShapeError} For another shape.
 * @throws {DTypeError} For another dtype.
 * @throws {PackageError} If the package `jpeg-js` is not installed.
 */
export async function encodeJpeg(
  x: AnyTensor,
  options: JpegOptions = {},
): Promise<Uint8Array<ArrayBuffer>> {
  return await jpegOf("encodeJpeg", x, qualityOf("encodeJpeg", options));
}

/**
 * Writes a picture to a file, whose name ends in .png, .jpg or .jpeg. `quality` is that of JPEG.
 *
 * @throws {ArgumentError} For other names.
 * @throws As {@link encodePng} and {@link encodeJpeg}.
 */
export async function writeImage(
  path: Path,
  x: AnyTensor,
  options: JpegOptions = {},
): Promise<void> {
  const quality = qualityOf("writeImage", options);
  const extension = /\.(png|jpe?g)$/i.exec(String(path))?.[1]?.toLowerCase();
  if (extension === undefined) {
    throw new ArgumentError(
      `writeImage() needs a name that ends in .png, .jpg or .jpeg, got ${describe(String(path))}`,
    );
  }
  const bytes = extension === "png"
    ? pngOf("writeImage", x)
    : await jpegOf("writeImage", x, quality);
  await writeFile(path, bytes);
}
