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
  ANY_16,
  ANY_32,
  asBytes,
  Cursor,
  decodeUtf8,
  joined,
  NO_FILE,
  quote,
  type RawTensor,
  zlib,
} from "./bytes.ts";
import { checkKind, kindOf } from "./kinds.ts";
import { decodeNpy, encodeNpy, NPY_START, npyInfo, type NpyOptions } from "./npy.ts";

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
/** The fewest bytes of a member's entry in the directory. */
const LEAST_ENTRY = 46;
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
 * @throws {FormatError} For a damaged or hostile archive, and an unknown name.
 */
export function decodeNpz(
  given: Uint8Array,
  options: NpzOptions = {},
): Map<string, RawTensor | FormatError> {
  const { file = NO_FILE, maxBytes = 2 ** 30, names } = options;
  const bytes = asBytes(given, file);
  // The arrays may be behind other files.
  const isZip = kindOf(bytes) === "zip";
  if (!isZip) checkKind(["npz"], bytes, file);
  const members = readDirectory(bytes, file);
  if (isZip && members.size === 0) checkKind(["npz"], bytes, file);
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
    const own = { ...options, file: `${file}/${member.name}` };
    try {
      out.set(name, decodeNpy(readMember(bytes, member, file, own), own));
    } catch (error) {
      const isOfArray = error instanceof FormatError && error.file === own.file;
      if (names !== undefined || !isOfArray) throw error;
      out.set(name, error);
    }
  }
  return out;
}

function readDirectory(bytes: Uint8Array, file: string): Map<string, Member> {
  const end = findEnd(bytes, file);
  const cursor = new Cursor(bytes, file, end + 4);
  let disks = cursor.u32("the disk numbers", ANY_32);
  let countHere = cursor.u16("the number of members", ANY_16);
  let count = cursor.u16("the number of members", ANY_16);
  // 2^32 - 1 says that the number is in the record of zip64.
  let size = cursor.u32("the directory's size", ANY_32);
  let start = cursor.u32("the directory's offset", ANY_32);
  let directoryEnd = end;
  if (count === 0xffff || size === ZIP64 || start === ZIP64) {
    ({ disks, countHere, count, size, start, directoryEnd } = readZip64End(cursor, end));
  }
  if (disks !== 0 || countHere !== count) cursor.fail("the archive spans several disks", end);
  if (start + size !== directoryEnd) {
    cursor.fail("the directory does not end at the end record", end);
  }
  if (count * LEAST_ENTRY > size) {
    cursor.fail(`${count} members need more than the directory's ${size} bytes`, end);
  }

  const members = new Map<string, Member>();
  let packed = 0;
  cursor.at = start;
  for (let i = 0; i < count; i++) {
    const at = cursor.at;
    const member = readEntry(cursor, start);
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
  if (locator < 0 || cursor.u32("the locator of zip64", ANY_32) !== 0x07064b50) {
    cursor.fail("the end record of zip64 is missing", end);
  }
  cursor.take(4, "the disk number");
  const directoryEnd = cursor.u64("the offset of the end record of zip64", locator);
  cursor.at = directoryEnd;
  if (cursor.u32("the end record of zip64", ANY_32) !== 0x06064b50) {
    cursor.fail("the end record of zip64 is missing", directoryEnd);
  }
  cursor.take(12, "the versions");
  const disks = cursor.u32("the disk numbers", ANY_32) + cursor.u32("the disk numbers", ANY_32);
  const countHere = cursor.u64("the number of members", directoryEnd / LEAST_ENTRY);
  const count = cursor.u64("the number of members", directoryEnd / LEAST_ENTRY);
  const size = cursor.u64("the directory's size", directoryEnd);
  const start = cursor.u64("the directory's offset", directoryEnd);
  return { disks, countHere, count, size, start, directoryEnd };
}

/**
 * The end record is last, except for a comment of up to 65,535 bytes, whose length it contains. As
 * NumPy's zip reader, takes the last record that ends a directory if other bytes follow it.
 */
function findEnd(bytes: Uint8Array, file: string): number {
  const cursor = new Cursor(bytes, file);
  const lowest = Math.max(0, bytes.length - 22 - 0xffff);
  let last: number | undefined;
  for (let at = bytes.length - 22; at >= lowest; at--) {
    if (bytes[at] !== 0x50 || bytes[at + 1] !== 0x4b) continue;
    if (bytes[at + 2] !== 5 || bytes[at + 3] !== 6) continue;
    cursor.at = at + 12;
    const size = cursor.u32("the directory's size", ANY_32);
    const start = cursor.u32("the directory's offset", ANY_32);
    if (cursor.u16("the comment's length", ANY_16) === cursor.left) return at;
    if (start + size === at || start === ZIP64 || size === ZIP64) last ??= at;
  }
  return last ?? cursor.fail("not a zip archive: it has no end record", 0);
}

/** An entry of the directory, which begins at `directory`, behind all members. */
function readEntry(cursor: Cursor, directory: number): Member {
  const start = cursor.at;
  if (cursor.u32("a directory entry", ANY_32) !== 0x02014b50) {
    cursor.fail("expected a directory entry", start);
  }
  cursor.u32("the versions", ANY_32);
  const flags = cursor.u16("the flags", ANY_16);
  const method = cursor.u16("the method", ANY_16);
  cursor.u32("the time", ANY_32);
  const crc = cursor.u32("the checksum", ANY_32);
  let packed = cursor.u32("the compressed size", ANY_32);
  let size = cursor.u32("the size", ANY_32);
  const nameLength = cursor.u16("the name's length", ANY_16);
  const extraLength = cursor.u16("the extra field's length", ANY_16);
  const commentLength = cursor.u16("the comment's length", ANY_16);
  cursor.take(8, "the attributes");
  let local = cursor.u32("the member's offset", ANY_32);
  const name = decodeUtf8(cursor.take(nameLength, "the name"));
  const extraEnd = cursor.at + extraLength;
  if (packed === ZIP64 || size === ZIP64 || local === ZIP64) {
    findZip64Field(cursor, extraEnd);
    // The field has those numbers that do not fit above, in this order.
    if (size === ZIP64) size = cursor.u64("the size", directory * MAX_DEFLATE_RATIO);
    if (packed === ZIP64) packed = cursor.u64("the compressed size", directory);
    if (local === ZIP64) local = cursor.u64("the member's offset", directory);
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
    const id = cursor.u16("an extra field", ANY_16);
    const length = cursor.u16("an extra field's length", ANY_16);
    if (id === 1) return;
    cursor.take(length, "an extra field");
  }
  cursor.fail("a field of zip64 is missing", start);
}

/** The bytes of a member, which is an array of `options`. */
function readMember(
  bytes: Uint8Array,
  member: Member,
  file: string,
  options: NpyOptions,
): Uint8Array {
  const { name, local, size } = member;
  const cursor = new Cursor(bytes, file, local);
  if (cursor.u32("a member's header", ANY_32) !== 0x04034b50) {
    cursor.fail("expected a member", local);
  }
  cursor.u32("the version and flags", ANY_32);
  if (cursor.u16("the method", ANY_16) !== member.method) {
    cursor.fail(`member ${quote(name)} and the directory differ in method`, local);
  }
  cursor.take(16, "the time, checksum and sizes");
  const nameLength = cursor.u16("the name's length", ANY_16);
  const extraLength = cursor.u16("the extra field's length", ANY_16);
  if (decodeUtf8(cursor.take(nameLength, "the name")) !== name) {
    cursor.fail(`member ${quote(name)} and the directory differ in name`, local);
  }
  cursor.take(extraLength, "the extra field");
  const start = cursor.at;
  const packed = cursor.take(member.packed, `member ${quote(name)}`);
  const isPacked = member.method === DEFLATED;
  if (isPacked && size > LARGE) checkPacked(packed, size, options);
  const data = isPacked ? inflate(packed, size, cursor, start) : packed;
  if (data.length !== size) {
    cursor.fail(`member ${quote(name)} has ${data.length} bytes, but declares ${size}`, start);
  }
  if (zlib().crc32(data) !== member.crc) {
    cursor.fail(`member ${quote(name)} is damaged: its checksum differs`, start);
  }
  return data;
}

/** Members that inflate to more than this are compared with the header of their array before. */
const LARGE = 2 ** 20;
/** The packed bytes that are inflated for it: they are at most 2 MB then. */
const FIRST_PACKED = 2048;

/** Throws a FormatError unless the header of a large packed array says that it has `size` bytes. */
function checkPacked(packed: Uint8Array, size: number, options: NpyOptions): void {
  const { inflateRawSync, constants: { Z_SYNC_FLUSH } } = zlib();
  let first: Uint8Array;
  try {
    const some = packed.subarray(0, FIRST_PACKED);
    first = inflateRawSync(some, { finishFlush: Z_SYNC_FLUSH });
  } catch {
    // Reported where the whole member is inflated.
    return;
  }
  // Headers are rarely longer.
  if (first.length >= NPY_START || first[9] === 0 && first.length >= 10 + first[8]!) {
    npyInfo(first, size, options);
  }
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
 * @throws {DTypeError} For bfloat16.
 * @throws {FormatError} If zip cannot represent a name or the sizes.
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
