/**
 * The .npy format, versions 1.0 to 3.0: one array, as NumPy writes it.
 *
 * Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. The header is a
 * Python literal; the parser accepts only the one form that the format allows, and evaluates
 * nothing. Knows nothing of the class Tensor.
 *
 * @module
 */
import { DTYPE, type DType } from "../base/dtype.ts";
import { DTypeError } from "../base/errors.ts";
import { formatShape, MAX_RANK } from "../base/shape.ts";
import {
  allocate,
  asBytes,
  checkBools,
  checkedBytes,
  checkRaw,
  Cursor,
  NO_FILE,
  quote,
  type RawTensor,
} from "./bytes.ts";
import { checkKind } from "./kinds.ts";

/** Options for reading .npy bytes. */
export interface NpyOptions {
  /** The file's name in errors. */
  readonly file?: string | undefined;
  /** Read two-byte void data, which NumPy writes for bfloat16 arrays, as bfloat16. */
  readonly bfloat16?: boolean | undefined;
}

const MAGIC = "\x93NUMPY";
/** NumPy's writer keeps headers of plain arrays below 200 bytes. */
const MAX_HEADER = 65535;
/** NumPy reserves room to grow the first axis in place: the digits of 2^66. */
const GROWTH_DIGITS = 21;

const DESCR: { readonly [D in DType]?: string } = {
  bool: "|b1",
  int8: "|i1",
  int16: "<i2",
  int32: "<i4",
  int64: "<i8",
  uint8: "|u1",
  uint16: "<u2",
  uint32: "<u4",
  uint64: "<u8",
  float16: "<f2",
  float32: "<f4",
  float64: "<f8",
  complex64: "<c8",
  complex128: "<c16",
};
/** The dtypes by their codes, by NumPy's letters for types of C, and by their own names. */
const BY_CODE: ReadonlyMap<string, DType> = new Map<string, DType>([
  ...Object.entries(DESCR).map(([d, descr]): [string, DType] => [descr.slice(1), d as DType]),
  ...Object.keys(DESCR).map((d): [string, DType] => [d, d as DType]),
  ["?", "bool"],
  ["b", "int8"],
  ["B", "uint8"],
  ["h", "int16"],
  ["H", "uint16"],
  ["i", "int32"],
  ["I", "uint32"],
  // A long of Windows has 4 bytes: the data would be too short.
  ["l", "int64"],
  ["L", "uint64"],
  ["q", "int64"],
  ["Q", "uint64"],
  ["e", "float16"],
  ["f", "float32"],
  ["d", "float64"],
  ["F", "complex64"],
  ["D", "complex128"],
]);

interface Header {
  readonly dtype: DType;
  readonly bigEndian: boolean;
  readonly fortran: boolean;
  readonly shape: number[];
}

/** What a header says of its array. */
export interface NpyInfo {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** The offset of the first element in the file; the elements end with it. */
  readonly begin: number;
  /** Whether the elements have their bytes in the order of other machines. */
  readonly bigEndian: boolean;
  /** Whether the elements are in another order than the row-major one. */
  readonly fortran: boolean;
}

/** The most bytes before the elements. */
export const NPY_START: number = MAGIC.length + 6 + MAX_HEADER;

/**
 * The array in .npy bytes. Big-endian data is swapped and Fortran order transposed; otherwise
 * `data` is a view of `bytes`.
 *
 * @throws {FormatError} Unless the bytes are one whole array of a numeric or bool dtype.
 */
export function decodeNpy(bytes: Uint8Array, options: NpyOptions = {}): RawTensor {
  const file = options.file ?? NO_FILE;
  const own = asBytes(bytes, file);
  const { dtype, shape, begin, bigEndian, fortran } = npyInfo(own, own.length, options);
  const width = DTYPE[dtype].bytes;
  let data = own.subarray(begin);
  if (dtype === "bool") checkBools(data, file, begin);
  // Parts of complex numbers have an order of bytes each.
  if (bigEndian) data = swapBytes(data, width / DTYPE[dtype].lanes);
  if (fortran) data = toRowMajor(data, shape, width);
  return { dtype, shape, data };
}

/**
 * What the header of a file of `size` bytes says, of its first {@link NPY_START} bytes.
 *
 * @throws {FormatError} Where {@link decodeNpy} of the whole file does, except for bools.
 */
export function npyInfo(first: Uint8Array, size: number, options: NpyOptions = {}): NpyInfo {
  const cursor: Cursor = new Cursor(first, options.file ?? NO_FILE);
  const { dtype, shape, bigEndian, fortran, start } = parseStart(cursor, first, options);
  const begin = cursor.at;
  const width = DTYPE[dtype].bytes;
  const count = checkedBytes(shape, width);
  if (count === undefined) cursor.fail(`shape ${formatShape(shape)} is too large`, start);
  if (begin + count > size) {
    cursor.fail(
      `truncated: shape ${formatShape(shape)} of ${dtype} needs ${count} bytes, but ` +
        `${size - begin} are left`,
    );
  }
  const left = size - begin - count;
  if (left > 0) cursor.fail(`${left} bytes follow the array; only one is read`, begin + count);
  return {
    ...{ dtype, shape, begin },
    bigEndian: bigEndian && width > 1,
    fortran: fortran && shape.length > 1,
  };
}

/** Reads the header, whose text begins at `start`. */
function parseStart(
  cursor: Cursor,
  first: Uint8Array,
  options: NpyOptions,
): Header & { readonly start: number } {
  checkKind(["npy"], first, options.file ?? NO_FILE);
  for (const byte of cursor.take(MAGIC.length, "the magic string").entries()) {
    if (byte[1] !== MAGIC.charCodeAt(byte[0])) cursor.fail("not an npy file", 0);
  }
  const version = cursor.take(2, "the version");
  const [major, minor] = [version[0]!, version[1]!];
  if (major < 1 || major > 3 || minor !== 0) {
    cursor.fail(`npy version ${major}.${minor} is not 1.0, 2.0 or 3.0`, MAGIC.length);
  }
  const length = major === 1
    ? cursor.u16("the header's length", MAX_HEADER)
    : cursor.u32("the header's length", MAX_HEADER);
  const start = cursor.at;
  const text = cursor.take(length, "the header");
  const inner = new Cursor(text, options.file ?? NO_FILE, 0, start);
  return { ...readHeader(inner, options.bfloat16 === true), start };
}

function readHeader(cursor: Cursor, voidIsBfloat16: boolean): Header {
  let type: { dtype: DType; bigEndian: boolean } | undefined;
  let fortran: boolean | undefined;
  let shape: number[] | undefined;
  cursor.expect("{");
  while (!cursor.accept("}")) {
    cursor.skipSpace();
    const start = cursor.at;
    const key = pythonString(cursor);
    cursor.expect(":");
    if (key === "descr" && type === undefined) type = readDescr(cursor, voidIsBfloat16);
    else if (key === "fortran_order" && fortran === undefined) fortran = readBool(cursor);
    else if (key === "shape" && shape === undefined) shape = readShape(cursor);
    else cursor.fail(`key ${quote(key)} is repeated or unknown`, start);
    if (!cursor.accept(",")) {
      cursor.expect("}");
      break;
    }
  }
  cursor.expectEnd();
  if (type === undefined || fortran === undefined || shape === undefined) {
    cursor.fail("the header lacks one of 'descr', 'fortran_order' and 'shape'", 0);
  }
  return { ...type, fortran, shape };
}

function pythonString(cursor: Cursor): string {
  // Python 2 writes u before strings with unicode_literals.
  cursor.accept("u");
  const mark = cursor.accept('"') ? '"' : "'";
  if (mark === "'") cursor.expect("'");
  const text = cursor.excerpt(mark.charCodeAt(0));
  if (text.includes("\\")) cursor.fail("escapes in strings are not read");
  cursor.at += text.length;
  if (cursor.left === 0 || cursor.excerpt()[0] !== mark) cursor.fail("the string does not end");
  cursor.at++;
  return text;
}

function readDescr(
  cursor: Cursor,
  voidIsBfloat16: boolean,
): { dtype: DType; bigEndian: boolean } {
  cursor.skipSpace();
  const start = cursor.at;
  if (cursor.accept("[") || cursor.accept("(")) {
    cursor.at = start;
    cursor.fail(`structured dtypes are not read: descr ${quote(cursor.excerpt())}`);
  }
  const descr = pythonString(cursor);
  // Without a byte order, and with "=" or "|", the order is that of the reading machine.
  const [, order = "=", code = ""] = /^([<>=|])?(.*)$/.exec(descr) ?? [];
  if (code === "V2" && (order === "|" || order === "<")) {
    if (voidIsBfloat16) return { dtype: "bfloat16", bigEndian: false };
    cursor.fail(`descr '${descr}' is raw data; { bfloat16: true } reads it as bfloat16`, start);
  }
  const dtype = BY_CODE.get(code);
  if (dtype === undefined) {
    cursor.fail(`descr ${quote(descr)} is not a dtype that is read`, start);
  }
  return { dtype, bigEndian: order === ">" };
}

function readBool(cursor: Cursor): boolean {
  if (cursor.accept("True")) return true;
  cursor.expect("False");
  return false;
}

function readShape(cursor: Cursor): number[] {
  const shape: number[] = [];
  cursor.expect("(");
  const start = cursor.at;
  while (!cursor.accept(")")) {
    shape.push(cursor.integer("a size", Number.MAX_SAFE_INTEGER));
    if (shape.length > MAX_RANK) cursor.fail(`more than ${MAX_RANK} axes`, start);
    cursor.accept("L"); // Python 2 appends an L to long integers.
    if (cursor.accept(",")) continue;
    cursor.expect(")");
    if (shape.length === 1) cursor.fail("the shape is a number in brackets, not a tuple", start);
    break;
  }
  return shape;
}

function swapBytes(data: Uint8Array, width: number): Uint8Array {
  const out = allocate(data.length);
  for (let i = 0; i < data.length; i += width) {
    for (let j = 0; j < width; j++) out[i + j] = data[i + width - 1 - j]!;
  }
  return out;
}

/** Copies column-major elements into row-major order. */
function toRowMajor(data: Uint8Array, shape: readonly number[], width: number): Uint8Array {
  const out = allocate(data.length);
  const strides: number[] = [];
  shape.reduce((stride, size) => (strides.push(stride), stride * size), width);
  const last = shape.length - 1;
  const index = shape.map(() => 0);
  let from = 0;
  for (let to = 0; to < out.length;) {
    for (let i = 0, at = from; i < shape[last]!; i++, at += strides[last]!) {
      for (let j = 0; j < width; j++) out[to++] = data[at + j]!;
    }
    for (let axis = last - 1; axis >= 0; axis--) {
      from += strides[axis]!;
      if (++index[axis]! < shape[axis]!) break;
      from -= strides[axis]! * shape[axis]!;
      index[axis] = 0;
    }
  }
  return out;
}

/**
 * The .npy bytes, the same as NumPy's `save` writes.
 *
 * @throws {DTypeError} For bfloat16, which the format cannot represent.
 */
export function encodeNpy(raw: RawTensor): Uint8Array<ArrayBuffer> {
  checkRaw(raw, "encodeNpy");
  const { dtype, shape, data } = raw;
  const descr = DESCR[dtype]!;
  if (descr === undefined) {
    throw new DTypeError(
      `Cannot encodeNpy ${dtype}: the format has no such type; use encodeSafetensors, or cast ` +
        `with astype("float32")`,
    );
  }
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
  const growth = shape.length === 0 ? 0 : GROWTH_DIGITS - String(shape[0]!).length;
  const dict = `{'descr': '${descr}', 'fortran_order': False, 'shape': ${tuple}, }` +
    " ".repeat(growth);
  const prefix = MAGIC.length + 4;
  // NumPy adds a whole block of 64 even if no padding is needed.
  const size = (Math.floor((prefix + dict.length + 1) / 64) + 1) * 64;
  const text = `${MAGIC}\x01\x00__${dict.padEnd(size - prefix - 1)}\n`;
  const out = allocate(size + data.length);
  for (let i = 0; i < size; i++) out[i] = text.charCodeAt(i);
  new DataView(out.buffer).setUint16(MAGIC.length + 2, size - prefix, true);
  out.set(data, size);
  return out;
}
