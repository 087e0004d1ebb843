/**
 * The .npz format: a zip archive with one .npy file per array, stored or deflated.
 *
 * Reads the output of NumPy's `savez` and `savez_compressed` and of common zip tools, with zip64;
 * rejects encryption and several disks. Writes no archives beyond 4 GiB or 65,534 members. Knows
 * nothing of the class Tensor.
 *
 * @module
 */
import { FormatError } from "../base/errors.ts";
import {
  asBytes,
  Cursor,
  decodeUtf8,
  joined,
  NO_FILE,
  quote,
  type RawTensor,
  zlib,
} from "./bytes.ts";
import { decodeNpy, encodeNpy, type NpyOptions } from "./npy.ts";

/** Options for reading .npz bytes. */
export interface NpzOptions extends NpyOptions {
  /** The maximum inflated size of compressed members together, in bytes; 1 GiB by default. */
  readonly maxBytes?: number | undefined;
  /** Read these arrays only; all by default. */
  readonly names?: readonly string[] | undefined;
}

/** Options for writing .npz bytes. */
export interface NpzWriteOptions {
  /** Deflate the arrays; stored by default. */
  readonly compress?: boolean;
}

/** The maximum ratio of any deflate stream: 258 bytes from a 2-bit code. */
const MAX_DEFLATE_RATIO = 1032;
const STORED = 0;
const DEFLATED = 8;
const UTF8_NAME = 0x800;
const ZIP64 = 0xffffffff;

interface Member {
  readonly name: string;
  readonly method: number;
  readonly crc: number;
  readonly packed: number;
  readonly size: number;
  readonly local: number;
}

/**
 * The arrays in .npz bytes, by name without ".npy", in the archive's order; the error in the place
 * of an array that is not read, unless `names` selects it. Members whose names do not end in .npy,
 * and those that macOS adds, are skipped. Offsets in errors that name a member count from the start
 * of that member.
 *
 * Throws a FormatError for a damaged or hostile archive, and an unknown name.
 */
export function decodeNpz(
  given: Uint8Array,
  options: NpzOptions = {},
): Map<string, RawTensor | FormatError> {
  const { file = NO_FILE, maxBytes = 2 ** 30, names } = options;
  const bytes = asBytes(given, file);
  const members = readDirectory(bytes, file);
  const missing = names?.find((name) => !members.has(name));
  if (missing !== undefined) {
    throw new FormatError(`no array is named ${quote(missing)}`, file, 0);
  }
  const wanted = names === undefined
    ? [...members]
    : [...members].filter(([name]) => names.includes(name));
  let inflated = 0;
  for (const [, member] of wanted) {
    if (member.method === DEFLATED) inflated += member.size;
    if (!(inflated <= maxBytes)) {
      throw new FormatError(
        `arrays inflate to over ${maxBytes} bytes (maxBytes)`,
        file,
        member.local,
      );
    }
  }
  const out = new Map<string, RawTensor | FormatError>();
  for (const [name, member] of wanted) {
    const data = readMember(bytes, member, file);
    try {
      out.set(name, decodeNpy(data, { ...options, file: `${file}/${member.name}` }));
    } catch (error) {
      if (names !== undefined || !(error instanceof FormatError)) throw error;
      out.set(name, error);
    }
  }
  return out;
}

function readDirectory(bytes: Uint8Array, file: string): Map<string, Member> {
  const end = findEnd(bytes, file);
  const cursor = new Cursor(bytes, file, end + 4);
  let disks = cursor.u32("the disk numbers");
  let countHere = cursor.u16("the number of members");
  let count = cursor.u16("the number of members");
  let size = cursor.u32("the directory's size");
  let start = cursor.u32("the directory's offset");
  let directoryEnd = end;
  if (count === 0xffff || size === ZIP64 || start === ZIP64) {
    ({ disks, countHere, count, size, start, directoryEnd } = readZip64End(cursor, end));
  }
  if (disks !== 0 || countHere !== count) cursor.fail("the archive spans several disks", end);
  if (start + size !== directoryEnd) {
    cursor.fail("the directory does not end at the end record", end);
  }

  const members = new Map<string, Member>();
  let packed = 0;
  cursor.at = start;
  for (let i = 0; i < count; i++) {
    const at = cursor.at;
    const member = readEntry(cursor);
    if (member.name.endsWith(".npy") && !/^__MACOSX\/(.*\/)?\._/.test(member.name)) {
      const name = member.name.slice(0, -4);
      if (members.has(name)) cursor.fail(`two members are named ${quote(name)}`, at);
      members.set(name, member);
    }
    packed += member.packed;
    if (packed > start) cursor.fail("members overlap or are larger than the archive", at);
  }
  if (cursor.at !== directoryEnd) cursor.fail("the directory is longer than its members");
  return members;
}

/** The end record of zip64, which a locator before the end record at `end` points to. */
function readZip64End(cursor: Cursor, end: number): {
  disks: number;
  countHere: number;
  count: number;
  size: number;
  start: number;
  directoryEnd: number;
} {
  const locator = end - 20;
  cursor.at = locator;
  if (locator < 0 || cursor.u32("the locator of zip64") !== 0x07064b50) {
    cursor.fail("the end record of zip64 is missing", end);
  }
  cursor.take(4, "the disk number");
  const directoryEnd = integer64(cursor, "the offset of the end record of zip64");
  if (directoryEnd > locator) cursor.fail("the end record of zip64 is missing", locator);
  cursor.at = directoryEnd;
  if (cursor.u32("the end record of zip64") !== 0x06064b50) {
    cursor.fail("the end record of zip64 is missing", directoryEnd);
  }
  cursor.take(12, "the versions");
  const disks = cursor.u32("the disk numbers") + cursor.u32("the disk numbers");
  const countHere = integer64(cursor, "the number of members");
  const count = integer64(cursor, "the number of members");
  const size = integer64(cursor, "the directory's size");
  return { disks, countHere, count, size, start: integer64(cursor, "the offset"), directoryEnd };
}

/** The next eight bytes as an integer, which must be below 2^53. */
function integer64(cursor: Cursor, what: string): number {
  const { at } = cursor;
  const value = cursor.u64(what);
  if (value > Number.MAX_SAFE_INTEGER) cursor.fail(`${what} is above 2^53 - 1`, at);
  return Number(value);
}

/** The end record is last, except for a comment of up to 65,535 bytes, whose length it contains. */
function findEnd(bytes: Uint8Array, file: string): number {
  const cursor = new Cursor(bytes, file);
  const lowest = Math.max(0, bytes.length - 22 - 0xffff);
  for (let at = bytes.length - 22; at >= lowest; at--) {
    if (bytes[at] !== 0x50 || bytes[at + 1] !== 0x4b) continue;
    if (bytes[at + 2] !== 5 || bytes[at + 3] !== 6) continue;
    cursor.at = at + 20;
    if (cursor.u16("the comment's length") === cursor.left) return at;
  }
  return cursor.fail("not a zip archive: it has no end record", 0);
}

function readEntry(cursor: Cursor): Member {
  const start = cursor.at;
  if (cursor.u32("a directory entry") !== 0x02014b50) {
    cursor.fail("expected a directory entry", start);
  }
  cursor.u32("the versions");
  const flags = cursor.u16("the flags");
  const method = cursor.u16("the method");
  cursor.u32("the time");
  const crc = cursor.u32("the checksum");
  let packed = cursor.u32("the compressed size");
  let size = cursor.u32("the size");
  const nameLength = cursor.u16("the name's length");
  const extraLength = cursor.u16("the extra field's length");
  const commentLength = cursor.u16("the comment's length");
  cursor.take(8, "the attributes");
  let local = cursor.u32("the member's offset");
  const name = decodeUtf8(cursor.take(nameLength, "the name"));
  const extraEnd = cursor.at + extraLength;
  if (packed === ZIP64 || size === ZIP64 || local === ZIP64) {
    findZip64Field(cursor, extraEnd);
    // The field has those numbers that do not fit above, in this order.
    if (size === ZIP64) size = integer64(cursor, "the size");
    if (packed === ZIP64) packed = integer64(cursor, "the compressed size");
    if (local === ZIP64) local = integer64(cursor, "the member's offset");
    if (cursor.at > extraEnd) cursor.fail("the field of zip64 is too short", start);
  }
  cursor.take(extraEnd - cursor.at, "the extra field");
  cursor.take(commentLength, "the comment");
  if (name === undefined) cursor.fail("a member's name is not UTF-8", start);
  if (flags & 0x2061) cursor.fail(`member ${quote(name)} is encrypted or a patch`, start);
  if (method !== STORED && method !== DEFLATED) {
    cursor.fail(`member ${quote(name)} has method ${method}, not stored or deflate`, start);
  }
  if (method === STORED && packed !== size) {
    cursor.fail(
      `member ${quote(name)} is stored, but its sizes ${packed} and ${size} differ`,
      start,
    );
  }
  if (method === DEFLATED && size > packed * MAX_DEFLATE_RATIO) {
    cursor.fail(`member ${quote(name)} cannot inflate from ${packed} to ${size} bytes`, start);
  }
  return { name, method, crc, packed, size, local };
}

/** Goes to the data of the field of zip64 among the extra fields, which end at `end`. */
function findZip64Field(cursor: Cursor, end: number): void {
  const start = cursor.at;
  while (cursor.at + 4 <= end) {
    const id = cursor.u16("an extra field");
    const length = cursor.u16("an extra field's length");
    if (id === 1) return;
    cursor.take(length, "an extra field");
  }
  cursor.fail("a field of zip64 is missing", start);
}

function readMember(bytes: Uint8Array, member: Member, file: string): Uint8Array {
  const { name, local, size } = member;
  const cursor = new Cursor(bytes, file, local);
  if (cursor.u32("a member's header") !== 0x04034b50) cursor.fail("expected a member", local);
  cursor.u32("the version and flags");
  if (cursor.u16("the method") !== member.method) {
    cursor.fail(`member ${quote(name)} and the directory differ in method`, local);
  }
  cursor.take(16, "the time, checksum and sizes");
  const nameLength = cursor.u16("the name's length");
  const extraLength = cursor.u16("the extra field's length");
  if (decodeUtf8(cursor.take(nameLength, "the name")) !== name) {
    cursor.fail(`member ${quote(name)} and the directory differ in name`, local);
  }
  cursor.take(extraLength, "the extra field");
  const start = cursor.at;
  const packed = cursor.take(member.packed, `member ${quote(name)}`);
  const data = member.method === STORED ? packed : inflate(packed, size, cursor, start);
  if (data.length !== size) {
    cursor.fail(`member ${quote(name)} has ${data.length} bytes, but declares ${size}`, start);
  }
  if (zlib().crc32(data) !== member.crc) {
    cursor.fail(`member ${quote(name)} is damaged: its checksum differs`, start);
  }
  return data;
}

function inflate(packed: Uint8Array, size: number, cursor: Cursor, start: number): Uint8Array {
  let out: Uint8Array;
  try {
    out = zlib().inflateRawSync(packed, { maxOutputLength: Math.max(size, 1) });
  } catch (error) {
    cursor.fail(`cannot inflate: ${error instanceof Error ? error.message : error}`, start);
  }
  // A Buffer is a Uint8Array with different behavior (its slice() aliases): return the plain class.
  return new Uint8Array(out.buffer, out.byteOffset, out.length);
}

/**
 * The bytes of an .npz archive of the arrays; if uncompressed, the same as NumPy's `savez` writes.
 *
 * Throws a DTypeError for bfloat16, and a FormatError if zip cannot represent a name or the sizes.
 */
export function encodeNpz(
  arrays: Iterable<readonly [string, RawTensor]>,
  options: NpzWriteOptions = {},
): Uint8Array<ArrayBuffer> {
  const method = options.compress === true ? DEFLATED : STORED;
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let at = 0;
  for (const [key, raw] of arrays) {
    const name = memberName(key);
    const npy = encodeNpy(raw);
    const packed = method === DEFLATED ? zlib().deflateRawSync(npy) : npy;
    const entry = { name, method, crc: zlib().crc32(npy), size: npy.length, packed: packed.length };
    const local = localHeader(entry);
    parts.push(local, packed);
    directory.push(directoryEntry(entry, at));
    at += local.length + packed.length;
    if (at >= ZIP64 || directory.length >= 0xffff) {
      throw new FormatError("over 4 GiB or 65534 arrays do not fit in a zip archive", NO_FILE, at);
    }
  }
  const size = directory.reduce((sum, entry) => sum + entry.length, 0);
  const count = directory.length;
  const end = record(22, [
    [4, 0x06054b50],
    [4, 0],
    [2, count],
    [2, count],
    [4, size],
    [4, at],
    [2, 0],
  ]);
  return joined([...parts, ...directory, end]);
}

interface Entry {
  readonly name: Uint8Array;
  readonly method: number;
  readonly crc: number;
  readonly size: number;
  readonly packed: number;
}

function memberName(key: string): Uint8Array {
  const name = new TextEncoder().encode(`${key}.npy`);
  if (!key.isWellFormed() || key.includes("\0") || name.length > 0xffff) {
    throw new FormatError(`a zip archive cannot hold the name ${quote(key)}`, NO_FILE, 0);
  }
  return name;
}

/** Version, flags, method, time and date: the start of both headers of a member. */
function common({ name, method, crc }: Entry): [number, number][] {
  const flags = name.some((byte) => byte > 0x7f) ? UTF8_NAME : 0;
  return [[2, 45], [2, flags], [2, method], [2, 0], [2, 0x21], [4, crc]];
}

/** As NumPy writes it: always with the sizes in a zip64 field. */
function localHeader(entry: Entry): Uint8Array {
  return record(
    50,
    [
      [4, 0x04034b50],
      ...common(entry),
      [4, ZIP64],
      [4, ZIP64],
      [2, entry.name.length],
      [2, 20],
    ],
    entry.name,
    [[2, 1], [2, 16], [4, entry.size], [4, 0], [4, entry.packed], [4, 0]],
  );
}

function directoryEntry(entry: Entry, offset: number): Uint8Array {
  return record(46, [
    [4, 0x02014b50],
    [2, (3 << 8) | 45],
    ...common(entry),
    [4, entry.packed],
    [4, entry.size],
    [2, entry.name.length],
    [4, 0],
    [4, 0],
    [4, 0o600 << 16],
    [4, offset],
  ], entry.name);
}

type Fields = readonly (readonly [bytes: number, value: number])[];

function record(
  size: number,
  fields: Fields,
  name: Uint8Array = new Uint8Array(),
  tail: Fields = [],
): Uint8Array {
  const out = new Uint8Array(size + name.length);
  const view = new DataView(out.buffer);
  let at = 0;
  const write = ([bytes, value]: readonly [number, number]): void => {
    if (bytes === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += bytes;
  };
  fields.forEach(write);
  out.set(name, at);
  at += name.length;
  tail.forEach(write);
  return out;
}
