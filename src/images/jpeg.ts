/**
 * JPEG files, baseline and progressive, by jpeg-js.
 *
 * A JPEG is untrusted: its size and the end of its data are checked before the library sees it.
 * Knows nothing of the class Tensor.
 *
 * @module
 */
import { FormatError, PackageError } from "../base/errors.ts";
import { type Limits, type Picture, reasonOf, type Samples } from "./pixels.ts";

/** The part of jpeg-js that is in use. */
interface JpegJs {
  decode(bytes: Uint8Array, options: object): { width: number; height: number; data: Uint8Array };
  encode(picture: object, quality: number): { data: Uint8Array };
}

interface Frame {
  readonly width: number;
  readonly height: number;
  readonly components: number;
}

/** The most bytes of memory that jpeg-js takes per pixel of three components. */
const BYTES_PER_PIXEL = 40;
/** The most megabytes of memory for small pictures, whose tables count. */
const LEAST_MEGABYTES = 64;

function importJpeg(op: string): Promise<JpegJs> {
  return import("jpeg-js").then((library) => {
    const { default: all } = library as unknown as { default?: JpegJs };
    return all ?? library as unknown as JpegJs;
  }, (cause) => {
    throw new PackageError(op, "jpeg-js", { cause });
  });
}

/** Whether bytes begin as JPEG files do. */
export function isJpeg(bytes: Uint8Array): boolean {
  return bytes[0] === 0xff && bytes[1] === 0xd8;
}

/** Whether a marker is that of a frame: of baseline, progressive, lossless or arithmetic coding. */
function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
}

/** The frame's header, found by the lengths of the segments before it. */
function readFrame(bytes: Uint8Array, { file, maxPixels }: Limits): Frame {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 2; at + 4 <= bytes.length;) {
    if (bytes[at] !== 0xff) throw new FormatError("the JPEG is damaged: no marker", file, at);
    const marker = bytes[at + 1]!;
    if (marker === 0xff) {
      at++;
      continue;
    }
    const length = view.getUint16(at + 2);
    if (length < 2 || at + 2 + length > bytes.length) break;
    if (isFrame(marker)) {
      if (marker > 0xc2) {
        throw new FormatError("the JPEG is neither baseline nor progressive", file, at);
      }
      const [height, width] = length < 8
        ? [0, 0]
        : [view.getUint16(at + 5), view.getUint16(at + 7)];
      const components = bytes[at + 9]!;
      if (length !== 8 + 3 * components || width === 0 || height === 0 || components === 0) {
        throw new FormatError("the header of the JPEG is damaged", file, at);
      }
      if (bytes[at + 4] !== 8) {
        throw new FormatError("the JPEG does not have 8 bits per sample", file, at);
      }
      if (width * height > maxPixels) {
        throw new FormatError(
          `the picture has ${width} × ${height} pixels, more than maxPixels, ${maxPixels}`,
          file,
          at,
        );
      }
      for (let c = 0; c < components; c++) {
        const [h, v] = [bytes[at + 11 + 3 * c]! >> 4, bytes[at + 11 + 3 * c]! & 15];
        if (h < 1 || h > 4 || v < 1 || v > 4) {
          throw new FormatError("the header of the JPEG is damaged", file, at);
        }
      }
      return { width, height, components };
    }
    if (marker === 0xda || marker === 0xd9) {
      throw new FormatError("the JPEG has no header before its data", file, at);
    }
    at += 2 + length;
  }
  throw new FormatError("truncated", file, bytes.length);
}

/** Whether data end with the marker that ends pictures; padding may follow. */
function hasEnd(bytes: Uint8Array): boolean {
  for (let at = bytes.length - 2; at >= 2; at--) {
    if (bytes[at] === 0xff && bytes[at + 1] === 0xd9) return true;
  }
  return false;
}

/** Decodes a JPEG: 1 channel for grey, else 3. Throws a FormatError for a damaged one. */
export async function decodeJpeg(bytes: Uint8Array, op: string, limits: Limits): Promise<Picture> {
  const { file, maxPixels } = limits;
  const frame = readFrame(bytes, limits);
  if (!hasEnd(bytes)) throw new FormatError("truncated", file, bytes.length);
  const { decode } = await importJpeg(op);
  const { width, height } = frame;
  let data: Samples;
  try {
    const decoded = decode(bytes, {
      useTArray: true,
      formatAsRGBA: false,
      tolerantDecoding: false,
      maxResolutionInMP: maxPixels / 1e6,
      maxMemoryUsageInMB: LEAST_MEGABYTES + Math.ceil(BYTES_PER_PIXEL * width * height / 2 ** 20),
    });
    if (decoded.width !== width || decoded.height !== height) throw new Error("two sizes");
    data = decoded.data as Samples;
  } catch (error) {
    throw new FormatError(`the JPEG is damaged${reasonOf(error)}`, file, 0);
  }
  if (frame.components > 1) return { width, height, channels: 3, data };
  const grey = new Uint8Array(width * height);
  for (let i = 0; i < grey.length; i++) grey[i] = data[3 * i]!;
  return { width, height, channels: 1, data: grey };
}

/** The bytes of a JPEG file of a picture of 1 or 3 channels. */
export async function encodeJpeg(
  { width, height, channels, data }: Picture,
  op: string,
  quality: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const { encode } = await importJpeg(op);
  const rgba = new Uint8Array(4 * width * height);
  for (let i = 0, from = 0; i < rgba.length; i += 4, from += channels) {
    for (let c = 0; c < 3; c++) rgba[i + c] = data[channels === 1 ? from : from + c]!;
    rgba[i + 3] = 255;
  }
  // A plain array of this realm, of its own memory, and no Buffer.
  return new Uint8Array(encode({ width, height, data: rgba }, quality).data);
}
