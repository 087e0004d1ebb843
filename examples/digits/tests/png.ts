/**
 * PNG files written by hand: kinds that encoders do not produce, and damaged ones.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { crc32, deflateSync } from "node:zlib";

/** A chunk with its length and checksum. */
function chunk(type: string, data: Uint8Array): Buffer {
  const bytes = Buffer.alloc(12 + data.length);
  bytes.writeUInt32BE(data.length, 0);
  bytes.write(type, 4, "latin1");
  bytes.set(data, 8);
  bytes.writeUInt32BE(crc32(bytes.subarray(4, 8 + data.length)), 8 + data.length);
  return bytes;
}

/** The first bytes of every PNG. */
const SIGNATURE = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");

/** The header fields of a PNG. */
export interface PngOptions {
  readonly width?: number;
  readonly height?: number;
  readonly depth?: number;
  readonly color?: number;
  readonly interlace?: number;
  readonly palette?: readonly number[];
  /** The bytes of each row, which are not filtered. */
  readonly rows?: readonly (readonly number[])[];
  /** The data before they are deflated, instead of rows. */
  readonly raw?: Uint8Array;
  /** Chunks between the header and the data. */
  readonly extra?: readonly Uint8Array[];
}

/** A PNG of 8 x 8 grey pixels by default. */
export function makePng(options: PngOptions): Buffer {
  const { width = 8, height = 8, depth = 8, color = 0, interlace = 0 } = options;
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([depth, color, 0, 0, interlace], 8);
  const raw = options.raw ?? Buffer.concat((options.rows ?? []).map((row) => Buffer.of(0, ...row)));
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", header),
    ...options.palette ? [chunk("PLTE", Buffer.from(options.palette))] : [],
    ...options.extra ?? [],
    chunk("IDAT", deflateSync(raw)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

const ROWS = Array.from({ length: 8 }, (_, y) => Array.from({ length: 8 }, (_, x) => x * y));

/** PNG files that decoders should reject. */
export function damagedPngs(): Record<string, Uint8Array> {
  const good = makePng({ rows: ROWS });
  const changed = (at: number, value: number) => {
    const copy = Buffer.from(good);
    copy[at] = value;
    return copy;
  };
  return {
    "no bytes": new Uint8Array(),
    "the signature alone": SIGNATURE,
    "no PNG": Buffer.from("GIF89a and so on"),
    truncated: good.subarray(0, good.length - 24),
    "a wrong checksum": changed(29, good[29]! ^ 1),
    "a long chunk": changed(8, 0xff),
    "no pixels": makePng({ width: 0, rows: ROWS }),
    "four billion pixels a side": makePng({ width: 0xffffffff, height: 0xffffffff, rows: ROWS }),
    "257 pixels wide": makePng({ width: 257, height: 1, rows: [Array(257).fill(0)] }),
    "data that inflate to 64 MB": makePng({ raw: Buffer.alloc(64e6, 9) }),
    "an interlaced bomb": makePng({ interlace: 1, raw: Buffer.alloc(1e6, 9) }),
    "rows that are missing": makePng({ rows: ROWS.slice(1) }),
    "interlaced rows that are missing": makePng({ interlace: 1, rows: ROWS.slice(4) }),
    "an unknown filter": makePng({ raw: Buffer.alloc(72, 9) }),
    "an unknown colour type": makePng({ color: 5, rows: ROWS }),
    "a depth of 3": makePng({ depth: 3, rows: ROWS }),
    "16 bits of palette": makePng({ depth: 16, color: 3, palette: [0, 0, 0], rows: ROWS }),
    "a palette that is missing": makePng({ color: 3, rows: ROWS }),
    "half a colour": makePng({ color: 3, palette: [0, 0], rows: ROWS }),
    "two headers": makePng({
      rows: ROWS,
      extra: [chunk("IHDR", Buffer.from("\0\x40\0\0\0\x40\0\0\x08\0\0\0\0", "latin1"))],
    }),
    "a header of no size": Buffer.concat([SIGNATURE, chunk("IHDR", Buffer.alloc(0)), good]),
  };
}
