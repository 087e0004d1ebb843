/**
 * PNG files: fast-png undoes their filters, this file does what has to be safe or exact.
 *
 * A PNG is untrusted: sizes are compared with the compressed data, and these with the sizes, before
 * the library sees them. Palettes, samples of less than 8 bits and transparent colors are applied here.
 * Knows nothing of the class Tensor.
 *
 * @module
 */
import { FormatError, PackageError } from "../base/errors.ts";
import { allocate, joined } from "../io/bytes.ts";
import { type Limits, type Picture, reasonOf, type Samples, unpackBits } from "./pixels.ts";

/** The part of fast-png that is in use. */
interface FastPng {
  decode(bytes: Uint8Array): { data: Uint8Array | Uint16Array };
}

/** Options of node:zlib: it flushes at the end of data that are cut. */
interface InflateOptions {
  readonly finishFlush: number;
  /** The bytes of a part of the output; one part is fastest. */
  readonly chunkSize: number;
}

/** A stream of inflated parts. */
interface Inflater {
  on(event: "data", take: (part: Uint8Array) => void): void;
  on(event: "end", done: () => void): void;
  on(event: "error", fail: (error: Error) => void): void;
  end(data: Uint8Array): void;
  destroy(): void;
}

/** The part of `node:zlib` in use, typed without Node's types. */
interface Zlib {
  readonly constants: { readonly Z_SYNC_FLUSH: number };
  crc32(data: Uint8Array): number;
  deflateSync(data: Uint8Array, options: { level: number }): Uint8Array;
  inflateRawSync(
    data: Uint8Array,
    options: InflateOptions & { readonly maxOutputLength: number },
  ): Uint8Array;
  createInflateRaw(options: InflateOptions): Inflater;
}

const SIGNATURE = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
/** The number of samples per pixel in the file, by color type. */
const CHANNELS: Readonly<Record<number, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };
/** The depths by color type. */
const DEPTHS: Readonly<Record<number, readonly number[]>> = {
  0: [1, 2, 4, 8, 16],
  2: [8, 16],
  3: [1, 2, 4, 8],
  4: [8, 16],
  6: [8, 16],
};
const INDEXED = 3;
/** The most bytes that deflate makes of one: 258 of 2 bits. */
const MAX_DEFLATE_RATIO = 1032;
/** Memory for data that may be few. */
const MOST_AT_ONCE = 2 ** 22;
/** Chunks that decide which pixels there are. */
const KNOWN = ["IHDR", "PLTE", "tRNS", "IDAT", "IEND"];

/** Every how many pixels from the first one on a pass has. */
interface Pass {
  readonly x: number;
  readonly y: number;
  readonly xStep: number;
  readonly yStep: number;
}

const WHOLE: readonly Pass[] = [{ x: 0, y: 0, xStep: 1, yStep: 1 }];
/** The passes of an interlaced picture. */
const PASSES: readonly Pass[] = [
  { x: 0, y: 0, xStep: 8, yStep: 8 },
  { x: 4, y: 0, xStep: 8, yStep: 8 },
  { x: 0, y: 4, xStep: 4, yStep: 8 },
  { x: 2, y: 0, xStep: 4, yStep: 4 },
  { x: 0, y: 2, xStep: 2, yStep: 4 },
  { x: 1, y: 0, xStep: 2, yStep: 2 },
  { x: 0, y: 1, xStep: 1, yStep: 2 },
];

interface Header {
  readonly width: number;
  readonly height: number;
  readonly depth: number;
  readonly colorType: number;
  readonly isInterlaced: boolean;
}

/** The known chunks of a file, checked; data of those that occur once. */
interface Chunks {
  readonly header: Header;
  readonly palette: Uint8Array | undefined;
  readonly transparency: Uint8Array | undefined;
  /** The compressed data. */
  readonly data: Uint8Array;
  /** Where they begin in the file. */
  readonly dataAt: number;
  /** Whether the file ends with its last chunk. */
  readonly isWhole: boolean;
}

function zlib(): Zlib {
  return globalThis.process.getBuiltinModule("node:zlib");
}

function importPng(op: string): Promise<FastPng> {
  return import("fast-png").then((library) => library as FastPng, (cause) => {
    throw new PackageError(op, "fast-png", { cause });
  });
}

/** Whether bytes begin as PNG files do. */
export function isPng(bytes: Uint8Array): boolean {
  return SIGNATURE.every((byte, i) => bytes[i] === byte);
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function readHeader(data: Uint8Array, at: number, { file, maxPixels }: Limits): Header {
  if (data.length !== 13) throw new FormatError("the header of the PNG has a wrong size", file, at);
  const view = viewOf(data);
  const [width, height] = [view.getUint32(0), view.getUint32(4)];
  const [depth, colorType, compression, filter, interlace] = data.subarray(8);
  const isKnown = DEPTHS[colorType!]?.includes(depth!) && compression === 0 && filter === 0 &&
    interlace! <= 1;
  if (!isKnown || width === 0 || height === 0 || Math.max(width, height) >= 2 ** 31) {
    throw new FormatError("the header of the PNG is damaged", file, at);
  }
  if (width * height > maxPixels) {
    throw new FormatError(
      `the picture has ${width} × ${height} pixels, more than maxPixels, ${maxPixels}`,
      file,
      at,
    );
  }
  return { width, height, depth: depth!, colorType: colorType!, isInterlaced: interlace === 1 };
}

/** The transparent colors of a picture; as in libpng, none if they do not fit its colors. */
function transparencyOf(
  { colorType }: Header,
  palette: Uint8Array | undefined,
  data: Uint8Array,
): Uint8Array | undefined {
  const fits = colorType === INDEXED
    ? data.length > 0 && palette !== undefined && 3 * data.length <= palette.length
    : colorType < INDEXED && data.length === 2 * CHANNELS[colorType]!;
  return fits ? data : undefined;
}

function readChunks(bytes: Uint8Array, limits: Limits): Chunks {
  const { file } = limits;
  const view = viewOf(bytes);
  let header: Header | undefined;
  let palette: Uint8Array | undefined;
  let transparency: Uint8Array | undefined;
  const parts: Uint8Array[] = [];
  let dataAt = 0;
  const chunks = (isWhole: boolean): Chunks => {
    return { header: header!, palette, transparency, data: joined(parts), dataAt, isWhole };
  };
  for (let at = SIGNATURE.length; at + 8 <= bytes.length;) {
    const length = view.getUint32(at);
    const end = at + 12 + length;
    const type = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    if (end > bytes.length) {
      // The part that there is may have all pixels.
      if (type === "IDAT" && header !== undefined) {
        if (parts.length === 0) dataAt = at;
        parts.push(bytes.subarray(at + 8));
      }
      break;
    }
    const data = bytes.subarray(at + 8, end - 4);
    if ((header === undefined) !== (type === "IHDR")) {
      throw new FormatError("the PNG does not begin with its one header", file, at);
    }
    if (KNOWN.includes(type)) {
      if (zlib().crc32(bytes.subarray(at + 4, end - 4)) !== view.getUint32(end - 4)) {
        throw new FormatError(`the checksum of the chunk ${type} is wrong`, file, at);
      }
    } else if (!/^[a-z][a-zA-Z]{3}$/.test(type)) {
      throw new FormatError("the PNG has a chunk of an unknown type", file, at);
    }
    if (type === "IHDR") header = readHeader(data, at + 8, limits);
    else if (type === "PLTE" && parts.length === 0) palette ??= data;
    else if (type === "tRNS" && parts.length === 0) {
      transparency ??= transparencyOf(header!, palette, data);
    } else if (type === "IDAT") {
      if (parts.length === 0) dataAt = at;
      parts.push(data);
    } else if (type === "IEND") {
      return chunks(true);
    }
    at = end;
  }
  // A file without its end may have all pixels.
  if (parts.length > 0) return chunks(false);
  throw new FormatError("truncated", file, bytes.length);
}

/** The numbers of columns and rows of a pass, and of the bytes of its filtered rows. */
function sizeOf({ width, height, depth, colorType }: Header, { x, y, xStep, yStep }: Pass) {
  const columns = Math.max(0, Math.ceil((width - x) / xStep));
  const rows = Math.max(0, Math.ceil((height - y) / yStep));
  const row = 1 + Math.ceil(columns * CHANNELS[colorType]! * depth / 8);
  return { columns, rows, bytes: columns > 0 ? rows * row : 0 };
}

/** The first `size` bytes of a stream, or all that there are; it stops behind them. */
function inflateSome(data: Uint8Array, size: number, options: InflateOptions): Promise<Uint8Array> {
  const stream = zlib().createInflateRaw(options);
  const parts: Uint8Array[] = [];
  let length = 0;
  return new Promise((resolve, reject) => {
    stream.on("data", (part) => {
      parts.push(part);
      length += part.length;
      if (length < size) return;
      stream.destroy();
      resolve(joined(parts).subarray(0, size));
    });
    stream.on("end", () => resolve(joined(parts)));
    stream.on("error", reject);
    stream.end(data);
  });
}

/**
 * The filtered rows, whose number is that of the header. As in libpng, more data may follow them, and
 * the checksum behind the data does not matter: chunks have their own.
 */
async function inflate(
  { data, dataAt, isWhole }: Chunks,
  size: number,
  { file }: Limits,
  fileSize: number,
): Promise<Uint8Array> {
  const [method, flags] = data;
  // Deflate, no preset dictionary, and the check of both bytes.
  const isZlib = (method! & 15) === 8 && (flags! & 32) === 0 && (method! * 256 + flags!) % 31 === 0;
  if (data.length > 1 && !isZlib) {
    throw new FormatError("the data of the PNG are damaged", file, dataAt);
  }
  const raw = data.subarray(2);
  let rows = new Uint8Array(0) as Uint8Array;
  if (size <= raw.length * MAX_DEFLATE_RATIO) {
    const finishFlush = zlib().constants.Z_SYNC_FLUSH;
    const options = { finishFlush, chunkSize: Math.max(64, Math.min(size, MOST_AT_ONCE)) };
    try {
      rows = zlib().inflateRawSync(raw, { ...options, maxOutputLength: size });
    } catch {
      rows = await inflateSome(raw, size, options).catch(() => {
        throw new FormatError("the data of the PNG are damaged", file, dataAt);
      });
    }
  }
  if (rows.length === size) return rows;
  if (!isWhole) throw new FormatError("truncated", file, fileSize);
  throw new FormatError("the data of the PNG are less than its pixels", file, dataAt);
}

function chunk(type: string, data: Uint8Array): Uint8Array {
  const bytes = allocate(12 + data.length);
  const view = viewOf(bytes);
  view.setUint32(0, data.length);
  for (let i = 0; i < 4; i++) bytes[4 + i] = type.charCodeAt(i);
  bytes.set(data, 8);
  view.setUint32(8 + data.length, zlib().crc32(bytes.subarray(4, 8 + data.length)));
  return bytes;
}

/** The samples of filtered rows: a PNG of its own, not interlaced nor compressed, by the library. */
function unfilter(
  library: FastPng,
  rows: Uint8Array,
  width: number,
  height: number,
  { depth, colorType }: Header,
): Samples {
  const header = new Uint8Array(13);
  viewOf(header).setUint32(0, width);
  viewOf(header).setUint32(4, height);
  header[8] = depth;
  header[9] = colorType;
  const { data } = library.decode(joined([
    SIGNATURE,
    chunk("IHDR", header),
    chunk("IDAT", zlib().deflateSync(rows, { level: 0 })),
    chunk("IEND", new Uint8Array(0)),
  ]));
  return depth < 8 ? unpackBits(data, width, height, depth) : data as Samples;
}

/** The samples of all pixels, as they are in the file. */
async function samplesOf(
  library: FastPng,
  chunks: Chunks,
  limits: Limits,
  fileSize: number,
): Promise<Samples> {
  const { header } = chunks;
  const { width, height, depth, colorType } = header;
  const passes = (header.isInterlaced ? PASSES : WHOLE)
    .map((pass) => ({ ...pass, ...sizeOf(header, pass) }))
    .filter(({ bytes }) => bytes > 0);
  const size = passes.reduce((sum, { bytes }) => sum + bytes, 0);
  const rows = await inflate(chunks, size, limits, fileSize);
  if (!header.isInterlaced) return unfilter(library, rows, width, height, header);
  const channels = CHANNELS[colorType]!;
  const samples = width * height * channels;
  const all = depth === 16 ? new Uint16Array(samples) : new Uint8Array(samples);
  let begin = 0;
  for (const { x, y, xStep, yStep, columns, rows: count, bytes } of passes) {
    const some = unfilter(library, rows.subarray(begin, begin + bytes), columns, count, header);
    begin += bytes;
    for (let i = 0, from = 0; i < count; i++) {
      for (let j = 0; j < columns; j++) {
        const to = ((y + i * yStep) * width + x + j * xStep) * channels;
        for (let c = 0; c < channels; c++) all[to + c] = some[from++]!;
      }
    }
  }
  return all;
}

/** The colors of indexes of the palette. */
function fromPalette(samples: Samples, chunks: Chunks, file: string): Picture {
  const { header: { width, height }, palette, transparency: alphas } = chunks;
  if (palette === undefined || palette.length === 0 || palette.length % 3 !== 0) {
    throw new FormatError("the PNG has no palette of whole colors", file, SIGNATURE.length);
  }
  const channels = alphas === undefined ? 3 : 4;
  const data = new Uint8Array(samples.length * channels);
  for (let i = 0, to = 0; i < samples.length; i++, to += channels) {
    const index = samples[i]!;
    // As in libpng, colors that the palette lacks are black.
    for (let c = 0; c < 3; c++) data[to + c] = palette[3 * index + c] ?? 0;
    if (alphas !== undefined) data[to + 3] = alphas[index] ?? 255;
  }
  return { width, height, channels, data };
}

/** Adds alpha to a picture: pixels of the color of `transparency` are transparent, others opaque. */
function withAlpha(picture: Picture, transparency: Uint8Array, depth: number): Picture {
  const { width, height, channels, data } = picture;
  const view = viewOf(transparency);
  // Bits above those of samples do not count.
  const mask = 2 ** depth - 1;
  const color = Array.from({ length: channels }, (_, c) => view.getUint16(2 * c) & mask);
  const size = width * height * (channels + 1);
  const all = data instanceof Uint16Array ? new Uint16Array(size) : new Uint8Array(size);
  const opaque = data instanceof Uint16Array ? 65535 : 255;
  for (let from = 0, to = 0; from < data.length;) {
    let isOpaque = false;
    for (const wanted of color) {
      const value = data[from++]!;
      if (value !== wanted) isOpaque = true;
      all[to++] = value;
    }
    all[to++] = isOpaque ? opaque : 0;
  }
  return { width, height, channels: channels + 1, data: all };
}

/** Decodes a PNG. Throws a FormatError for a damaged one. */
export async function decodePng(bytes: Uint8Array, op: string, limits: Limits): Promise<Picture> {
  const { file } = limits;
  const chunks = readChunks(bytes, limits);
  const { header: { width, height, depth, colorType }, transparency } = chunks;
  const library = await importPng(op);
  let samples: Samples;
  try {
    samples = await samplesOf(library, chunks, limits, bytes.length);
  } catch (error) {
    if (error instanceof FormatError) throw error;
    throw new FormatError(`the PNG is damaged${reasonOf(error)}`, file, chunks.dataAt);
  }
  if (colorType === INDEXED) return fromPalette(samples, chunks, file);
  let picture: Picture = { width, height, channels: CHANNELS[colorType]!, data: samples };
  if (transparency !== undefined) picture = withAlpha(picture, transparency, depth);
  if (depth < 8) {
    // Alpha is of 8 bits already.
    const { channels, data } = picture;
    const step = 255 / (2 ** depth - 1);
    for (let i = 0; i < data.length; i += channels) data[i]! *= step;
  }
  return picture;
}
