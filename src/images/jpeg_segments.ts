/**
 * The segments of JPEG files: checked against their data, and rewritten in the plainest form.
 *
 * A JPEG is untrusted, and cameras and programs write what the standard does not allow. This file
 * finds segments as libjpeg does, and checks every number in them that decides how much a decoder
 * allocates or how often it loops. Knows no decoder.
 *
 * @module
 */
import { FormatError } from "../base/errors.ts";
import { joined } from "../io/bytes.ts";
import type { Limits } from "./pixels.ts";

/** What three or four components stand for. */
export type JpegColors = "grey" | "rgb" | "ycc" | "cmyk" | "ycck";

/** A JPEG that a decoder can read. */
export interface CheckedJpeg {
  readonly width: number;
  readonly height: number;
  readonly components: number;
  readonly colors: JpegColors;
  /** Whether the coefficients are in several scans. */
  readonly progressive: boolean;
  /** The file with the segments that decide pixels, and nothing between them. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

interface Component {
  readonly id: number;
  /** The blocks that scans of this component have. */
  readonly blocks: number;
}

interface Frame {
  readonly width: number;
  readonly height: number;
  readonly progressive: boolean;
  readonly components: readonly Component[];
}

const SOF0 = 0xc0, SOF2 = 0xc2, DHT = 0xc4, DAC = 0xcc, RST0 = 0xd0, RST7 = 0xd7;
const SOI = 0xd8, EOI = 0xd9, SOS = 0xda, DQT = 0xdb, DNL = 0xdc, DRI = 0xdd;
const APP0 = 0xe0, APP14 = 0xee, APP15 = 0xef, COM = 0xfe, TEM = 0x01;
/** The most scans of a file: encoders write up to 20, and each one visits all blocks. */
const MOST_SCANS = 100;
/** The most blocks that one code of a progressive scan stands for, and its fewest bits. */
const LONGEST_RUN = 32767, RUN_BITS = 15;

/** Whether a marker is that of a frame: of baseline, progressive, lossless or arithmetic coding. */
function isFrame(marker: number): boolean {
  return marker >= SOF0 && marker <= 0xcf && marker !== DHT && marker !== 0xc8 && marker !== DAC;
}

/** The name of what components stand for, as libjpeg decides it. */
function colorsOf(
  ids: readonly number[],
  hasJfif: boolean,
  adobe: number | undefined,
): JpegColors | undefined {
  switch (ids.length) {
    case 1:
      return "grey";
    case 3:
      if (hasJfif) return "ycc";
      if (adobe !== undefined) return adobe === 0 ? "rgb" : "ycc";
      return String.fromCharCode(...ids) === "RGB" ? "rgb" : "ycc";
    case 4:
      return adobe === undefined || adobe === 0 ? "cmyk" : "ycck";
    default:
      return undefined;
  }
}

/** Reads the segments of a file in order. */
class Segments {
  readonly #bytes: Uint8Array;
  readonly #limits: Limits;
  readonly #parts: Uint8Array[] = [];
  #at = 2;
  #frame: Frame | undefined;
  #hasJfif = false;
  #adobe: number | undefined;
  #scans = 0;
  /** The bits that the scans need at least, and those that they have. */
  #needed = 0;
  #bits = 0;

  constructor(bytes: Uint8Array, limits: Limits) {
    this.#bytes = bytes;
    this.#limits = limits;
  }

  read(): CheckedJpeg {
    for (;;) {
      const start = this.#at;
      const marker = this.#nextMarker();
      if (marker === EOI) break;
      // These have no length, and are skipped.
      if (marker === TEM || (marker >= RST0 && marker <= RST7)) continue;
      const end = this.#segmentEnd(marker, start);
      this.#segment(marker, this.#bytes.subarray(this.#at, end), start);
      this.#at = end;
      if (marker === SOS) this.#scanData(start);
    }
    const frame = this.#frame;
    if (frame === undefined) this.#fail("the JPEG has no header before its data");
    this.#checkAmount(frame);
    const { width, height, progressive, components } = frame;
    const colors = colorsOf(components.map(({ id }) => id), this.#hasJfif, this.#adobe);
    if (colors === undefined) this.#fail(`the JPEG has ${components.length} components`, 0);
    const bytes = joined([Uint8Array.of(0xff, SOI), ...this.#parts, Uint8Array.of(0xff, EOI)]);
    return { width, height, progressive, components: components.length, colors, bytes };
  }

  #fail(message: string, at = this.#at): never {
    throw new FormatError(message, this.#limits.file, at);
  }

  #damaged(what: string, at: number): never {
    this.#fail(`the JPEG is damaged: ${what}`, at);
  }

  #truncated(): never {
    this.#fail("truncated", this.#bytes.length);
  }

  /** Goes behind the next marker. As libjpeg, skips bytes before it. */
  #nextMarker(): number {
    const bytes = this.#bytes;
    for (;;) {
      const at = bytes.indexOf(0xff, this.#at);
      if (at < 0) this.#truncated();
      this.#at = at + 1;
      // Fill bytes.
      while (bytes[this.#at] === 0xff) this.#at++;
      if (this.#at >= bytes.length) this.#truncated();
      const marker = bytes[this.#at++]!;
      if (marker !== 0) return marker;
    }
  }

  /** Goes behind the length of a segment; where the segment ends. */
  #segmentEnd(marker: number, start: number): number {
    const bytes = this.#bytes;
    const isKnown = isFrame(marker) || (marker >= APP0 && marker <= APP15) ||
      [DHT, DAC, SOS, DQT, DNL, DRI, COM].includes(marker);
    if (!isKnown) this.#damaged(`the marker ${marker.toString(16)} is not known`, start);
    if (this.#at + 2 > bytes.length) this.#truncated();
    const length = bytes[this.#at]! * 256 + bytes[this.#at + 1]!;
    if (length < 2) this.#damaged("a segment is shorter than its length", start);
    const end = this.#at + length;
    if (end > bytes.length) this.#truncated();
    this.#at += 2;
    return end;
  }

  /** Checks a segment and keeps it, if it decides pixels. */
  #segment(marker: number, data: Uint8Array, start: number): void {
    const begins = (text: string): boolean =>
      [...text].every((one, i) => data[i] === one.charCodeAt(0));
    if (isFrame(marker)) this.#readFrame(marker, data, start);
    else if (marker === APP0) this.#hasJfif ||= data.length >= 14 && begins("JFIF\0");
    else if (marker === APP14 && data.length >= 12 && begins("Adobe")) this.#adobe = data[11]!;
    else if (marker === DQT) this.#keep(marker, checkTables(data, quantizationSize), start);
    else if (marker === DHT) this.#keep(marker, checkTables(data, huffmanSize), start);
    else if (marker === DRI) this.#keep(marker, data.length === 2 ? data : undefined, start);
    else if (marker === SOS) this.#readScan(data, start);
  }

  /** Adds a segment to the file; one without data is damaged. */
  #keep(marker: number, data: Uint8Array | undefined, start: number): void {
    if (data === undefined) this.#damaged("a table has a wrong size", start);
    const length = data.length + 2;
    this.#parts.push(Uint8Array.of(0xff, marker, length >> 8, length & 255), data);
  }

  #readFrame(marker: number, data: Uint8Array, start: number): void {
    const { maxPixels } = this.#limits;
    if (marker > SOF2) this.#fail("the JPEG is neither baseline nor progressive", start);
    if (this.#frame !== undefined) this.#damaged("it has two headers", start);
    const [depth, high, low, wide, narrow, count] = data;
    const height = high! * 256 + low!, width = wide! * 256 + narrow!;
    if (data.length < 6 || data.length !== 6 + 3 * count! || !(width * height > 0) || count === 0) {
      this.#fail("the header of the JPEG is damaged", start);
    }
    if (depth !== 8) this.#fail("the JPEG does not have 8 bits per sample", start);
    if (width * height > maxPixels) {
      this.#fail(
        `the picture has ${width} × ${height} pixels, more than maxPixels, ${maxPixels}`,
        start,
      );
    }
    const parts = Array.from({ length: count! }, (_, i) => data.subarray(6 + 3 * i, 9 + 3 * i));
    const sizes = parts.map(([id, size, table]) => ({
      id: id!,
      h: size! >> 4,
      v: size! & 15,
      table,
    }));
    const isValid = sizes.every(({ h, v, table }) =>
      h > 0 && h < 5 && v > 0 && v < 5 && table! < 4
    );
    if (!isValid || new Set(sizes.map(({ id }) => id)).size < count!) {
      this.#fail("the header of the JPEG is damaged", start);
    }
    const most = [
      Math.max(...sizes.map(({ h }) => h)),
      Math.max(...sizes.map(({ v }) => v)),
    ] as const;
    const components = sizes.map(({ id, h, v }) => ({
      id,
      blocks: Math.ceil(width * h / (8 * most[0])) * Math.ceil(height * v / (8 * most[1])),
    }));
    const kept = data.slice();
    // The only component is in no smaller steps than itself, whatever the header says.
    if (count === 1) kept[7] = 0x11;
    this.#frame = { width, height, progressive: marker === SOF2, components };
    this.#keep(marker, kept, start);
  }

  #readScan(data: Uint8Array, start: number): void {
    const frame = this.#frame;
    if (frame === undefined) this.#fail("the JPEG has no header before its data", start);
    if (++this.#scans > MOST_SCANS) this.#damaged(`it has more than ${MOST_SCANS} scans`, start);
    const count = data[0]!;
    if (count < 1 || count > 4 || data.length !== 4 + 2 * count) {
      this.#damaged("a scan has a wrong header", start);
    }
    const ids = Array.from({ length: count }, (_, i) => data[1 + 2 * i]!);
    const components = ids.map((id) => frame.components.find((one) => one.id === id));
    const [from, to, successive] = data.subarray(1 + 2 * count);
    const isDc = from === 0;
    const isValid = !components.includes(undefined) && new Set(ids).size === count &&
      (!frame.progressive ||
        (from! <= to! && to! < 64 && (isDc ? to === 0 : count === 1) && (successive! & 15) < 14));
    if (!isValid) this.#damaged("a scan has a wrong header", start);
    const blocks = components.reduce((sum, one) => sum + one!.blocks, 0);
    // A code has a bit at least; a block of a baseline scan has a code for its mean and for its end.
    if (!frame.progressive) this.#needed = 2 * blocks;
    else if (isDc) this.#needed = blocks;
    else this.#needed = 1 + Math.floor(blocks / LONGEST_RUN) * RUN_BITS;
    this.#keep(SOS, data, start);
  }

  /** Keeps the data of a scan, up to the next marker that ends them. */
  #scanData(start: number): void {
    const bytes = this.#bytes;
    const begin = this.#at;
    let from = begin;
    for (let at = begin;;) {
      at = bytes.indexOf(0xff, at);
      if (at < 0 || at + 1 >= bytes.length) this.#truncated();
      const next = bytes[at + 1]!;
      if (next === 0 || (next >= RST0 && next <= RST7)) at += 2;
      else if (next === 0xff) {
        // Of several bytes of fill, one is enough.
        this.#parts.push(bytes.subarray(from, at));
        from = ++at;
      } else {
        this.#parts.push(bytes.subarray(from, at));
        this.#at = at;
        break;
      }
    }
    const bits = 8 * (this.#at - begin);
    if (bits < this.#needed) {
      const { width, height } = this.#frame!;
      this.#fail(
        `the JPEG has ${width} × ${height} pixels, but ${
          bits / 8
        } bytes of data in a scan, fewer ` +
          "than they need",
        start,
      );
    }
    this.#bits += bits;
  }

  /** Throws unless the scans have the bits that the blocks of all components need. */
  #checkAmount({ width, height, progressive, components }: Frame): void {
    const blocks = components.reduce((sum, one) => sum + one.blocks, 0);
    if (this.#bits >= (progressive ? blocks : 2 * blocks)) return;
    this.#fail(
      `the JPEG has ${width} × ${height} pixels, but ${this.#bits / 8} bytes of data, fewer than ` +
        "they need",
      0,
    );
  }
}

/** The data of tables, if they are whole; `sizeAt` gives the size of one, from its begin. */
function checkTables(
  data: Uint8Array,
  sizeAt: (data: Uint8Array) => number | undefined,
): Uint8Array | undefined {
  for (let at = 0; at < data.length;) {
    const size = sizeAt(data.subarray(at));
    if (size === undefined || at + size > data.length) return undefined;
    at += size;
  }
  return data;
}

function quantizationSize([first]: Uint8Array): number | undefined {
  return first! >> 4 > 1 || (first! & 15) > 3 ? undefined : 1 + 64 * (1 + (first! >> 4));
}

function huffmanSize(data: Uint8Array): number | undefined {
  const [first] = data;
  if (first! >> 4 > 1 || (first! & 15) > 3 || data.length < 17) return undefined;
  const count = data.subarray(1, 17).reduce((sum, one) => sum + one, 0);
  return count > 256 ? undefined : 17 + count;
}

/**
 * The segments of a JPEG, checked: the sizes of the picture against the data of its scans, tables and
 * scans against their lengths. Bytes between segments are dropped, as libjpeg does.
 *
 * Throws a FormatError for files that are damaged or not read.
 */
export function checkJpeg(bytes: Uint8Array, limits: Limits): CheckedJpeg {
  return new Segments(bytes, limits).read();
}
