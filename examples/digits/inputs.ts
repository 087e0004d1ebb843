/**
 * Images in JSON, CSV and npy, as lists of 64 numbers; png.ts reads PNG.
 *
 * @module
 */
import { io } from "../../mod.ts";
import { FULL, ImageError, PIXELS, type Pixels } from "./pictures.ts";
import { isPng, pixelsOfPng } from "./png.ts";

/** The numbers of one image, checked; errors contain `where`. */
function toImage(numbers: ArrayLike<unknown>, where: string): Pixels {
  if (numbers.length !== PIXELS) {
    throw new ImageError(`${where} has ${numbers.length} numbers: an image has ${PIXELS}`);
  }
  return Float32Array.from(numbers, (value, i) => {
    if (typeof value === "number" && value >= 0 && value <= FULL) return value;
    const shown = typeof value === "number" ? `${value}` : "no number";
    throw new ImageError(`${where}, pixel ${i}: ${shown}, where 0 (paper) to ${FULL} (ink) go`);
  });
}

/** One image in JSON: 64 numbers, or 8 rows of 8. */
function imageOfJson(value: unknown, where: string): Pixels {
  if (!Array.isArray(value)) throw new ImageError(`${where} is no array`);
  const nested = value.length === 8 && value.every((row) => Array.isArray(row) && row.length === 8);
  return toImage(nested ? value.flat() : value, where);
}

/** The images of `{ "images": [...] }`. */
function imagesOfJson(value: unknown): Pixels[] {
  const images = typeof value === "object" && value !== null
    ? (value as { images?: unknown }).images
    : undefined;
  if (!Array.isArray(images)) {
    throw new ImageError('expected { "images": [...] }, each of 64 numbers or of 8 rows of 8');
  }
  if (images.length === 0) throw new ImageError("there is no image");
  return images.map((image, i) => imageOfJson(image, `image ${i}`));
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ImageError(`not JSON: ${(error as Error).message}`);
  }
}

/** One image per line, 64 numbers with commas or spaces between them. */
function imagesOfCsv(text: string): Pixels[] {
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  return lines.flatMap((line, i) => {
    if (line === "") return [];
    return [toImage(line.split(/[\s,;]+/).map(Number), `line ${i + 1}`)];
  });
}

/** An array of shape [64], [8, 8], [N, 64] or [N, 8, 8]. */
function imagesOfNpy(bytes: Uint8Array): Pixels[] {
  const array = io.decodeNpy(bytes);
  const { shape } = array;
  const fits = (tail: number[]) => tail.every((size, i) => shape.at(i - tail.length) === size);
  const flat = fits([8, 8]) && shape.length <= 3 || fits([PIXELS]) && shape.length <= 2;
  if (!flat) {
    throw new ImageError(`the array's shape is [${shape}]: [N, 64] or [N, 8, 8] are expected`);
  }
  const numbers = array.astype("float64").reshape([-1, PIXELS]).toArray() as number[][];
  return numbers.map((image, i) => toImage(image, `image ${i}`));
}

/** The images in a file, whose first bytes determine the format: PNG, npy, JSON, or CSV. */
export async function imagesOfBytes(bytes: Uint8Array): Promise<Pixels[]> {
  if (isPng(bytes)) return [await pixelsOfPng(bytes)];
  if (bytes[0] === 0x93) return imagesOfNpy(bytes);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes).trim();
  } catch {
    throw new ImageError("neither PNG, npy, JSON nor CSV");
  }
  const images = /^[[{]/.test(text) ? imagesOfText(parseJson(text)) : imagesOfCsv(text);
  if (images.length === 0) throw new ImageError("there is no image");
  return images;
}

/** The images of `{ images }`, of a list of images, or of a single image. */
function imagesOfText(value: unknown): Pixels[] {
  if (!Array.isArray(value)) return imagesOfJson(value);
  const alone = value.length === PIXELS && !Array.isArray(value[0]) ||
    value.length === 8 && Array.isArray(value[0]) && value[0].length === 8;
  return imagesOfJson({ images: alone ? [value] : value });
}
