/**
 * The safetensors format: a JSON header, then the tensors' bytes without gaps.
 *
 * Format: https://github.com/huggingface/safetensors#format. Header and bytes are read separately,
 * so that a file's tensors can be loaded on demand. The parser checks the header in one pass and
 * reports offsets, which JSON.parse (last duplicate wins, no offsets) cannot do. Knows nothing of
 * files or of the class Tensor.
 *
 * @module
 */
import { DTYPE, type DType, type PlainDType } from "../base/dtype.ts";
import { DTypeError, FormatError } from "../base/errors.ts";
import { formatShape, MAX_RANK } from "../base/shape.ts";
import { checkKind } from "./kinds.ts";
import {
  allocate,
  checkBools,
  checkedBytes,
  checkRaw,
  Cursor,
  NO_FILE,
  quote,
  type RawTensor,
} from "./bytes.ts";

/** The header's entry for one tensor. */
export interface SafetensorsInfo {
  /** The element type; undefined for unsupported ones (the 8-bit floats, for example). */
  readonly dtype: DType | undefined;
  /** The name of the element type in the file: `"F32"`. */
  readonly type: string;
  /** The shape. */
  readonly shape: readonly number[];
  /** The offset of the first byte in the file. */
  readonly begin: number;
  /** The offset after the last byte in the file. */
  readonly end: number;
}

/** A parsed header. */
export interface SafetensorsHeader {
  /** The tensors by name, in the header's order. */
  readonly tensors: ReadonlyMap<string, SafetensorsInfo>;
  /** The strings of `__metadata__`, on an object without a prototype. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** The reference implementation's limit. */
const MAX_HEADER = 100_000_000;
const LENGTH_BYTES = 8;

/** The format's names, in the order in which the reference implementation stores tensors. */
const TYPE: { readonly [D in PlainDType | "complex64"]: string } = {
  uint64: "U64",
  int64: "I64",
  float64: "F64",
  complex64: "C64",
  float32: "F32",
  uint32: "U32",
  int32: "I32",
  bfloat16: "BF16",
  float16: "F16",
  uint16: "U16",
  int16: "I16",
  int8: "I8",
  uint8: "U8",
  bool: "BOOL",
};
const BY_TYPE = new Map(Object.entries(TYPE).map(([dtype, type]) => [type, dtype as DType]));
const ORDER = Object.keys(TYPE);

/**
 * The length of the header, from the first {@link KIND_BYTES} bytes of a file of `fileSize` bytes.
 */
export function headerLength(start: Uint8Array, fileSize: number, file: string = NO_FILE): number {
  checkKind(["safetensors"], start, file);
  const length = new Cursor(start, file).u64("the header's length", MAX_HEADER);
  if (LENGTH_BYTES + length > fileSize) {
    throw new FormatError(
      `truncated: a header of ${length} bytes in a file of ${fileSize}`,
      file,
      0,
    );
  }
  return length;
}

/**
 * Parses and checks a header: `text` is its JSON, which begins at byte 8 of a file of `fileSize`
 * bytes.
 *
 * @throws {FormatError} Unless every tensor's bytes match its shape and together they cover the
 *   rest of the file without gap or overlap.
 */
export function parseHeader(
  text: Uint8Array,
  fileSize: number,
  file: string = NO_FILE,
): SafetensorsHeader {
  const steps = parseInSteps(text, fileSize, file);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Some milliseconds of parsing. */
const TENSORS_PER_STEP = 5000;

/** {@link parseHeader}, which returns after each few thousand tensors. */
export function* parseInSteps(
  text: Uint8Array,
  fileSize: number,
  file: string = NO_FILE,
): Generator<undefined, SafetensorsHeader> {
  const cursor = new Cursor(text, file, 0, LENGTH_BYTES);
  const dataStart = LENGTH_BYTES + text.length;
  const tensors = new Map<string, SafetensorsInfo>();
  let metadata: Record<string, string> | undefined;
  if (text[0] !== 0x7b) cursor.fail("the header does not begin with {");
  cursor.expect("{");
  if (!cursor.accept("}")) {
    do {
      const [name, start] = readKey(cursor);
      if (name !== "__metadata__") {
        if (tensors.has(name)) cursor.fail(`tensor ${quote(name)} is there twice`, start);
        tensors.set(name, readInfo(cursor, name, start, dataStart, fileSize));
        if (tensors.size % TENSORS_PER_STEP === 0) yield;
      } else if (metadata !== undefined) cursor.fail("__metadata__ is there twice", start);
      // The reference implementation takes null for no metadata.
      else metadata = cursor.accept("null") ? Object.create(null) : readMetadata(cursor);
    } while (cursor.accept(","));
    cursor.expect("}");
  }
  cursor.expectEnd();
  if (tensors.size > TENSORS_PER_STEP) yield;
  checkCoverage(tensors, dataStart, fileSize, file);
  return { tensors, metadata: metadata ?? Object.create(null) };
}

/**
 * Reads `{"key": value, …}`; calls `readValue` for each value, with its key and the key's position.
 */
function readObject(cursor: Cursor, readValue: (key: string, start: number) => void): void {
  cursor.expect("{");
  if (cursor.accept("}")) return;
  do {
    const [key, start] = readKey(cursor);
    readValue(key, start);
  } while (cursor.accept(","));
  cursor.expect("}");
}

/** Reads `"key":`; returns the key and its position. */
function readKey(cursor: Cursor): [key: string, start: number] {
  cursor.skipSpace();
  const start = cursor.at;
  const key = cursor.jsonString();
  cursor.expect(":");
  return [key, start];
}

/** Skips the value of an unknown key, as the reference implementation does. */
function skipJson(cursor: Cursor, depth: number): void {
  if (depth > 100) cursor.fail("more than 100 values inside each other");
  cursor.skipSpace();
  const next = cursor.excerpt()[0]!;
  if (next === "{") readObject(cursor, () => skipJson(cursor, depth + 1));
  else if (next === "[") {
    cursor.expect("[");
    if (cursor.accept("]")) return;
    do skipJson(cursor, depth + 1); while (cursor.accept(","));
    cursor.expect("]");
  } else if (next === '"') cursor.jsonString();
  else if (!["true", "false", "null"].some((word) => cursor.accept(word))) {
    const number = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/.exec(cursor.excerpt())?.[0];
    if (number === undefined) cursor.fail("expected a JSON value");
    cursor.at += number.length;
  }
}

function readIntegers(cursor: Cursor, what: string, most: number): number[] {
  const out: number[] = [];
  cursor.expect("[");
  if (cursor.accept("]")) return out;
  do {
    // Sizes and offsets are compared with the bytes of the file.
    out.push(cursor.integer(what, Number.MAX_SAFE_INTEGER));
    if (out.length > most) cursor.fail(`more than ${most} numbers`);
  } while (cursor.accept(","));
  cursor.expect("]");
  return out;
}

function readMetadata(cursor: Cursor): Record<string, string> {
  const out: Record<string, string> = Object.create(null);
  readObject(cursor, (key, start) => {
    if (Object.hasOwn(out, key)) cursor.fail(`metadata ${quote(key)} is there twice`, start);
    out[key] = cursor.jsonString();
  });
  return out;
}

function readInfo(
  cursor: Cursor,
  name: string,
  start: number,
  dataStart: number,
  fileSize: number,
): SafetensorsInfo {
  let type: string | undefined;
  let shape: number[] | undefined;
  let offsets: number[] | undefined;
  readObject(cursor, (key, at) => {
    if (key === "dtype" && type === undefined) type = cursor.jsonString();
    else if (key === "shape" && shape === undefined) {
      shape = readIntegers(cursor, "a size", MAX_RANK);
    } else if (key === "data_offsets" && offsets === undefined) {
      offsets = readIntegers(cursor, "an offset", 2);
    } else if (key === "dtype" || key === "shape" || key === "data_offsets") {
      cursor.fail(`key ${quote(key)} is repeated`, at);
    } else skipJson(cursor, 0);
  });
  if (type === undefined || shape === undefined || offsets?.length !== 2) {
    cursor.fail(`tensor ${quote(name)} lacks a dtype, a shape or two data_offsets`, start);
  }
  const [begin, end] = [dataStart + offsets[0]!, dataStart + offsets[1]!];
  if (begin > end || end > fileSize) {
    cursor.fail(
      `tensor ${quote(name)} has data_offsets ${formatShape(offsets)}, but the file holds ` +
        `${fileSize - dataStart} bytes of data`,
      start,
    );
  }
  const dtype = BY_TYPE.get(type);
  if (dtype !== undefined && checkedBytes(shape, DTYPE[dtype].bytes) !== end - begin) {
    cursor.fail(
      `tensor ${quote(name)} of ${type} and shape ${formatShape(shape)} does not take ` +
        `${end - begin} bytes`,
      start,
    );
  }
  return { dtype, type, shape, begin, end };
}

function checkCoverage(
  tensors: ReadonlyMap<string, SafetensorsInfo>,
  dataStart: number,
  fileSize: number,
  file: string,
): void {
  let at = dataStart;
  let inOrder = true;
  for (const { begin, end } of tensors.values()) {
    inOrder &&= begin === at;
    at = end;
  }
  if (inOrder && at === fileSize) return;
  const sorted = [...tensors].sort(([, a], [, b]) => a.begin - b.begin || a.end - b.end);
  at = dataStart;
  for (const [name, { begin, end }] of sorted) {
    if (begin !== at) {
      const fault = begin < at ? "overlaps the tensor before it" : "has a gap before it";
      throw new FormatError(`tensor ${quote(name)} ${fault}`, file, begin);
    }
    at = end;
  }
  if (at !== fileSize) throw new FormatError(`${fileSize - at} bytes follow the data`, file, at);
}

/**
 * The header's entry for `name`.
 *
 * @throws {FormatError} If the file has no such tensor.
 */
export function findInfo(
  header: SafetensorsHeader,
  name: string,
  file: string = NO_FILE,
): SafetensorsInfo {
  const info = header.tensors.get(name);
  if (info === undefined) {
    throw new FormatError(`no tensor is named ${quote(name)}`, file, LENGTH_BYTES);
  }
  return info;
}

/**
 * The tensor that `info` describes, from its bytes.
 *
 * @throws {FormatError} For an unsupported element type, and for bools other than 0 and 1.
 */
export function rawTensor(
  info: SafetensorsInfo,
  name: string,
  data: Uint8Array,
  file: string = NO_FILE,
): RawTensor {
  const { dtype, type, shape, begin } = info;
  if (dtype === undefined) {
    throw new FormatError(
      `tensor ${quote(name)} has dtype ${quote(type)}, which is not read`,
      file,
      begin,
    );
  }
  if (dtype === "bool") checkBools(data, file, begin);
  return { dtype, shape, data };
}

/**
 * The safetensors bytes, the same as the reference implementation writes: widest types first, then
 * by name, the header padded to 8 bytes.
 *
 * @throws {FormatError} For names that the format cannot represent.
 * @throws {DTypeError} For such dtypes.
 */
export function encodeSafetensors(
  tensors: Iterable<readonly [string, RawTensor]>,
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array<ArrayBuffer> {
  const sorted = [...tensors].sort(([nameA, a], [nameB, b]) =>
    ORDER.indexOf(a.dtype) - ORDER.indexOf(b.dtype) || compareCodePoints(nameA, nameB)
  );
  const parts: string[] = [];
  const strings = Object.entries(metadata).map(([key, value]) => `${json(key)}:${json(value)}`);
  if (strings.length > 0) parts.push(`"__metadata__":{${strings.join(",")}}`);
  let size = 0;
  for (const [name, raw] of sorted) {
    checkRaw(raw, "encodeSafetensors");
    if (!Object.hasOwn(TYPE, raw.dtype)) {
      throw new DTypeError(`Cannot encodeSafetensors ${raw.dtype}: the format has no such type`);
    }
    if (name === "__metadata__") {
      throw new FormatError('a tensor cannot be named "__metadata__"', NO_FILE, LENGTH_BYTES);
    }
    const end = size + raw.data.length;
    parts.push(
      `${json(name)}:{"dtype":"${TYPE[raw.dtype as PlainDType]}","shape":[${
        raw.shape.join(",")
      }],` +
        `"data_offsets":[${size},${end}]}`,
    );
    size = end;
  }
  const header = new TextEncoder().encode(`{${parts.join(",")}}`);
  const length = Math.ceil(header.length / 8) * 8;
  if (length > MAX_HEADER) {
    throw new FormatError(`a header of ${length} bytes is above ${MAX_HEADER}`, NO_FILE, 0);
  }
  const out = allocate(LENGTH_BYTES + length + size);
  new DataView(out.buffer).setBigUint64(0, BigInt(length), true);
  out.set(header, LENGTH_BYTES);
  let at = LENGTH_BYTES + length;
  out.fill(0x20, LENGTH_BYTES + header.length, at);
  for (const [, { data }] of sorted) {
    out.set(data, at);
    at += data.length;
  }
  return out;
}

function json(text: unknown): string {
  if (typeof text !== "string" || !text.isWellFormed()) {
    throw new FormatError(
      `${quote(String(text))} is not a well-formed string`,
      NO_FILE,
      LENGTH_BYTES,
    );
  }
  return JSON.stringify(text);
}

/** JavaScript compares UTF-16 units, which sorts U+FFFF after characters of higher planes. */
function compareCodePoints(a: string, b: string): number {
  const [left, right] = [a[Symbol.iterator](), b[Symbol.iterator]()];
  for (;;) {
    const [x, y] = [left.next(), right.next()];
    if (x.done || y.done) return Number(y.done ?? false) - Number(x.done ?? false);
    if (x.value !== y.value) return x.value.codePointAt(0)! - y.value.codePointAt(0)!;
  }
}
