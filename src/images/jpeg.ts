/**
 * JPEG files, baseline and progressive, by jpeg-js.
 *
 * The library gets files whose segments jpeg_segments.ts has checked and rewritten. Knows nothing of the class Tensor.
 *
 * @module
 */
import { FormatError, PackageError } from "../base/errors.ts";
import { joined } from "../io/bytes.ts";
import { checkJpeg } from "./jpeg_segments.ts";
import { type Limits, type Picture, reasonOf, type Samples } from "./pixels.ts";

/** The part of jpeg-js that is in use. */
interface JpegJs {
  decode(bytes: Uint8Array, options: object): { width: number; height: number; data: Uint8Array };
  encode(picture: object, quality: number): { data: Uint8Array };
}

/** The most bytes of memory that jpeg-js takes per pixel of three components. */
const BYTES_PER_PIXEL = 40;
/** The most megabytes of memory for small pictures, whose tables count. */
const LEAST_MEGABYTES = 64;

function importJpeg(op: string): Promise<JpegJs> {
  return import("jpeg-js").then((library) => {
    const { default: all } = library as { default?: JpegJs };
    return all ?? library as JpegJs;
  }, (cause) => {
    throw new PackageError(op, "jpeg-js", { cause });
  });
}

/** Whether bytes begin as JPEG files do. */
export function isJpeg(bytes: Uint8Array): boolean {
  return bytes[0] === 0xff && bytes[1] === 0xd8;
}

/** Adobe's segment, by which jpeg-js knows that four components are inverted colors. */
function adobeSegment(transform: number): Uint8Array {
  const text = Array.from("Adobe", (letter) => letter.charCodeAt(0));
  return Uint8Array.of(0xff, 0xee, 0, 14, ...text, 0, 100, 0, 0, 0, 0, transform);
}

/**
 * Decodes a JPEG: 1 channel for grey, else 3. What the components stand for is decided as in libjpeg,
 * and four are inverted as in Pillow. Throws a FormatError for a damaged one.
 */
export async function decodeJpeg(bytes: Uint8Array, op: string, limits: Limits): Promise<Picture> {
  const { file, maxPixels } = limits;
  const { width, height, components, colors, bytes: checked } = checkJpeg(bytes, limits);
  const { decode } = await importJpeg(op);
  const isTurned = colors === "ycc" || colors === "ycck";
  const plain = components < 4 ? checked : joined([
    checked.subarray(0, 2),
    adobeSegment(isTurned ? 2 : 0),
    checked.subarray(2),
  ]);
  let data: Samples;
  try {
    const decoded = decode(plain, {
      useTArray: true,
      formatAsRGBA: false,
      colorTransform: isTurned,
      // In a scan of one component, it looks for blocks up to the end of the last restart interval.
      tolerantDecoding: true,
      maxResolutionInMP: maxPixels / 1e6,
      maxMemoryUsageInMB: LEAST_MEGABYTES + Math.ceil(BYTES_PER_PIXEL * width * height / 2 ** 20),
    });
    if (decoded.width !== width || decoded.height !== height) throw new Error("two sizes");
    data = decoded.data as Samples;
  } catch (error) {
    throw new FormatError(`the JPEG is damaged${reasonOf(error)}`, file, 0);
  }
  if (components > 1) return { width, height, channels: 3, data };
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
