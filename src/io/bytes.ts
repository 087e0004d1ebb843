/**
 * Shared code of the file readers: tensors as plain bytes, and a cursor that stays inside its
 * bytes.
 *
 * Reports every fault as a {@link FormatError} with the file and the offset. Knows no file format,
 * and nothing of the class Tensor.
 *
 * @module
 */
import { DTYPE, type DType, typedArrayName } from "../base/dtype.ts";
import { FormatError, OutOfMemoryError, ShapeError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { formatShape, MAX_RANK } from "../base/shape.ts";

/** A tensor as stored in a file: little-endian, row-major, without gaps. */
export interface RawTensor {
  /** Element type. */
  readonly dtype: DType;
  /** Sizes, outermost axis first. */
  readonly shape: readonly number[];
  /** The bytes of the elements; from a reader they may be a view of its input, at any alignment. */
  readonly data: Uint8Array;
}

/** Placeholder for the file name if there are only bytes. */
export const NO_FILE = "<bytes>";

/** The part of `node:zlib` in use, typed without Node's types. */
interface Zlib {
  crc32(data: Uint8Array): number;
  deflateSync(data: Uint8Array): Uint8Array;
  deflateRawSync(data: Uint8Array): Uint8Array;
  inflateRawSync(
    data: Uint8Array,
    options: { readonly maxOutputLength?: number; readonly finishFlush?: number },
  ): Uint8Array;
  readonly constants: { readonly Z_SYNC_FLUSH: number };
}

/**
 * Loaded on first use: a static import of a node: module would add 10 ms to every program's start.
 */
export function zlib(): Zlib {
  return globalThis.process.getBuiltinModule("node:zlib");
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes UTF-8; `undefined` if it is invalid. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    // The copy also takes the bytes out of shared memory, which TextDecoder refuses.
    return UTF8.decode(bytes.slice());
  } catch {
    return undefined;
  }
}

/** A value from a file for an error message: quoted, escaped, cut to 60 characters. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}

/** `bytes` as a Uint8Array of this realm; throws a TypeError, which names `file`, for others. */
export function asBytes(bytes: Uint8Array, file: string): Uint8Array {
  if (bytes instanceof Uint8Array) return bytes;
  if (typedArrayName(bytes) !== "Uint8Array") {
    throw typeError(`${file}: expected a Uint8Array`);
  }
  const { buffer, byteOffset, byteLength } = bytes as Uint8Array;
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Longer strings are decoded by the runtime. */
const MOST_PLAIN = 256;
/** The most strings that a cursor keeps, and their greatest length. */
const MOST_KEPT = 16;

/** The limit of a number of 16 and of 32 bits that decides neither a loop nor an allocation. */
export const ANY_16 = 0xffff, ANY_32 = 0xffffffff;

/**
 * Reads numbers and text from `bytes`, never past their end. A number is read together with its
 * limit: what the file can hold, or one that its format states.
 */
export class Cursor {
  /** Index of the next byte to read. */
  at: number;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #file: string;
  readonly #base: number;
  /** Short strings of the text by their hashes: keys and names of types occur again and again. */
  readonly #strings = new Map<number, string>();

  /** `base` is the offset in the file of the first byte; errors count from the file's start. */
  constructor(bytes: Uint8Array, file: string, at = 0, base = 0) {
    this.#bytes = asBytes(bytes, file);
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#file = file;
    this.#base = base;
    this.at = at;
  }

  /** The number of remaining bytes. */
  get left(): number {
    return this.#bytes.length - this.at;
  }

  /** Throws a {@link FormatError} that points at index `at`. */
  fail(message: string, at = this.at): never {
    throw new FormatError(message, this.#file, this.#base + at);
  }

  /** A view of the next `count` bytes, which errors call `what`. */
  take(count: number, what: string): Uint8Array {
    const start = this.#step(count, what);
    return this.#bytes.subarray(start, start + count);
  }

  /** The next two bytes, little-endian: a number up to `most`. */
  u16(what: string, most: number): number {
    return this.#limited(this.#view.getUint16(this.#step(2, what), true), 2, what, most);
  }

  /** The next four bytes, little-endian: a number up to `most`. */
  u32(what: string, most: number): number {
    return this.#limited(this.#view.getUint32(this.#step(4, what), true), 4, what, most);
  }

  /** The next eight bytes, little-endian: an integer up to `most`, which is below 2^53. */
  u64(what: string, most: number): number {
    return Number(this.#limited(this.#view.getBigUint64(this.#step(8, what), true), 8, what, most));
  }

  /** Throws for a number above `most`: what decides a loop or an allocation has a limit. */
  #limited<T extends number | bigint>(value: T, width: number, what: string, most: number): T {
    if (value > most) this.fail(`${what} is ${value}, above ${most}`, this.at - width);
    return value;
  }

  #step(count: number, what: string): number {
    if (count > this.left) {
      this.fail(`truncated: ${what} needs ${count} bytes, but ${Math.max(this.left, 0)} are left`);
    }
    const start = this.at;
    this.at += count;
    return start;
  }

  /** Skips blanks and consumes `token` if it is next. */
  accept(token: string): boolean {
    this.skipSpace();
    for (let i = 0; i < token.length; i++) {
      if (this.#bytes[this.at + i] !== token.charCodeAt(i)) return false;
    }
    this.at += token.length;
    return true;
  }

  /** Skips blanks and consumes `token`, which must be next. */
  expect(token: string): void {
    if (!this.accept(token)) this.fail(`expected ${quote(token)}, found ${this.#found()}`);
  }

  /** Skips blanks; throws unless that reaches the end. */
  expectEnd(): void {
    this.skipSpace();
    if (this.left > 0) this.fail(`expected the end of the header, found ${this.#found()}`);
  }

  /** Skips blanks. */
  skipSpace(): void {
    for (;; this.at++) {
      const byte = this.#bytes[this.at]!;
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return;
    }
  }

  /** The text from here to the byte `close` or the end, at most 60 bytes, for a message. */
  excerpt(close = -1): string {
    let end = this.at;
    while (end < this.#bytes.length && end - this.at < 60 && this.#bytes[end] !== close) end++;
    return Array.from(this.#bytes.subarray(this.at, end), (b) => String.fromCharCode(b)).join("");
  }

  /** Skips blanks and reads a decimal integer of 0 to `most`, which errors call `what`. */
  integer(what: string, most: number): number {
    this.skipSpace();
    const start = this.at;
    let value = 0;
    for (; this.at < this.#bytes.length; this.at++) {
      const digit = this.#bytes[this.at]! - 0x30;
      if (digit < 0 || digit > 9) break;
      value = value * 10 + digit;
      if (value > most) {
        const limit = most === Number.MAX_SAFE_INTEGER ? "2^53 - 1" : most;
        this.fail(`${what} is above ${limit}`, start);
      }
    }
    const digits = this.at - start;
    if (digits === 0) {
      this.fail(`expected ${what} (an integer of 0 or more), found ${this.#found()}`);
    }
    if (digits > 1 && this.#bytes[start] === 0x30) this.fail(`${what} has leading zeros`, start);
    return value;
  }

  /** Skips blanks and reads a JSON string. */
  jsonString(): string {
    this.expect('"');
    const start = this.at - 1;
    const bytes = this.#bytes;
    let isPlain = true;
    let hash = 0;
    while (this.left > 0) {
      const byte = bytes[this.at]!;
      if (byte === 0x22) break;
      if (byte < 0x20 || byte > 0x7e || byte === 0x5c) isPlain = false;
      hash = Math.imul(hash, 31) + byte | 0;
      this.at += byte === 0x5c ? 2 : 1;
    }
    if (this.left <= 0) this.fail("the string does not end", start);
    if (isPlain && this.at - start <= MOST_PLAIN) {
      return this.#plainString(start + 1, this.at++, hash);
    }
    const text = decodeUtf8(this.#bytes.subarray(start, ++this.at));
    if (text === undefined) this.fail("the string is not UTF-8", start);
    try {
      const value: string = JSON.parse(text);
      if (value.isWellFormed()) return value;
    } catch {
      // A bad escape or a raw control character: reported below like a lone surrogate.
    }
    this.fail(`the string ${quote(text)} is not valid JSON`, start);
  }

  /** The characters of ASCII from `from` to `to`. */
  #plainString(from: number, to: number, hash: number): string {
    const known = this.#strings.get(hash);
    if (known?.length === to - from) {
      let i = 0;
      while (i < known.length && known.charCodeAt(i) === this.#bytes[from + i]) i++;
      if (i === known.length) return known;
    }
    // `apply` takes bytes as it takes an array, and spreading them is slower.
    const text = String.fromCharCode.apply(
      null,
      this.#bytes.subarray(from, to) as unknown as number[],
    );
    if (text.length <= MOST_KEPT && this.#strings.size < MOST_KEPT) this.#strings.set(hash, text);
    return text;
  }

  #found(): string {
    return this.left > 0 ? quote(this.excerpt().slice(0, 12)) : "the end";
  }
}

/**
 * Bytes of a tensor of `shape` with `width` bytes per element; `undefined` beyond 2^53 − 1. Sizes
 * of 0 count as 1 in that check, since strides are products of the other sizes.
 */
export function checkedBytes(shape: readonly number[], width: number): number | undefined {
  let bound = width;
  for (const size of shape) bound *= Math.max(size, 1);
  if (bound > Number.MAX_SAFE_INTEGER) return undefined;
  return shape.includes(0) ? 0 : bound;
}

/** Throws unless every byte of a bool tensor, which begins at `offset` in `file`, is 0 or 1. */
export function checkBools(data: Uint8Array, file: string, offset: number): void {
  for (let i = 0; i < data.length; i++) {
    if (data[i]! > 1) {
      throw new FormatError(`bool byte is ${data[i]}, not 0 or 1`, file, offset + i);
    }
  }
}

/** Throws a {@link ShapeError} unless the data of a tensor to write fits its shape. */
export function checkRaw(raw: RawTensor, op: string): void {
  const shape = formatShape(raw.shape);
  if (raw.shape.length > MAX_RANK) {
    throw new ShapeError(
      `Cannot ${op} shape ${shape}: ${raw.shape.length} axes, at most ${MAX_RANK}`,
    );
  }
  if (checkedBytes(raw.shape, DTYPE[raw.dtype].bytes) !== raw.data.length) {
    throw new ShapeError(
      `Cannot ${op} shape ${shape} of ${raw.dtype}: it does not take ${raw.data.length} bytes`,
    );
  }
}

/** Zeroed bytes; throws an {@link OutOfMemoryError} if there is no memory. */
export function allocate(count: number): Uint8Array<ArrayBuffer> {
  try {
    return new Uint8Array(count);
  } catch {
    throw new OutOfMemoryError(count, "cpu");
  }
}

/** The concatenation of `parts`; throws an {@link OutOfMemoryError} if there is no memory. */
export function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = allocate(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
