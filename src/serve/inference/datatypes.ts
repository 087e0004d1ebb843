/**
 * The datatypes of the Open Inference Protocol: tensors from JSON and from bytes, and back.
 *
 * @module
 */
import { DTYPE, type DType, type TypedArray } from "../../base/dtype.ts";
import { bf16Table, f16Table, toBf16, toF16 } from "../../base/half.ts";
import { Layout } from "../../base/layout.ts";
import { formatShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { wrap } from "../../core/handles.ts";
import { allocate } from "../../memory/pool.ts";
import { Strings } from "../../onnx/graph/values.ts";
import { type AnyTensor, Tensor } from "../../tensor/tensor.ts";
import { badRequest } from "../http/http_error.ts";

/** The dtype of elements; texts have none in the core. */
export type ElementType = DType | "string";

const NAMES: ReadonlyMap<string, ElementType> = new Map<string, ElementType>([
  ["BOOL", "bool"],
  ...(["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"] as const)
    .map((dtype) => [dtype.toUpperCase(), dtype] as const),
  ["FP16", "float16"],
  ["BF16", "bfloat16"],
  ["FP32", "float32"],
  ["FP64", "float64"],
  ["BYTES", "string"],
]);

/** The name of a dtype in the protocol; undefined for one that it does not have. */
export function datatypeOf(dtype: string): string | undefined {
  for (const [name, one] of NAMES) if (one === dtype) return name;
  return undefined;
}

/** The dtype of tensors of a dtype of a model; undefined for one that the protocol does not have. */
export function elementTypeOf(dtype: string): ElementType | undefined {
  // Elements of less than a byte are 8-bit integers.
  const name = datatypeOf(/^u?int[24]$/.test(dtype) ? dtype.replace(/[24]$/, "8") : dtype);
  return name === undefined ? undefined : NAMES.get(name);
}

/** A tensor that a request gives: the model has checked its shape. */
export interface Given {
  /** Its name in messages. */
  readonly what: string;
  readonly dtype: ElementType;
  readonly shape: readonly number[];
  /** The number of elements. */
  readonly size: number;
}

// ---- from JSON ---------------------------------------------------------------------------------

const SPECIAL: ReadonlyMap<unknown, number> = new Map([
  ["NaN", NaN],
  ["Infinity", Infinity],
  ["-Infinity", -Infinity],
]);

/** What a float dtype has in memory; undefined for a number that is too large. */
function floatOf(dtype: DType, value: number): number | undefined {
  const isFinite = Number.isFinite(value);
  if (dtype === "float16") {
    const bits = toF16(value);
    return isFinite && (bits & 0x7fff) === 0x7c00 ? undefined : bits;
  }
  if (dtype === "bfloat16") {
    const bits = toBf16(value);
    return isFinite && (bits & 0x7fff) === 0x7f80 ? undefined : bits;
  }
  const rounded = dtype === "float32" ? Math.fround(value) : value;
  return isFinite && !Number.isFinite(rounded) ? undefined : rounded;
}

/** An integer of 64 bits: a number that is exact, or its digits as text. */
function wideOf(value: unknown): bigint | undefined {
  if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
  if (typeof value === "string" && /^-?\d{1,20}$/.test(value)) return BigInt(value);
  return undefined;
}

/** A function that turns an element of JSON into that of a tensor; undefined if it is none. */
function converterOf(dtype: DType): (value: unknown) => number | bigint | undefined {
  const { kind, wide, min, max } = DTYPE[dtype];
  if (kind === "b") return (value) => typeof value === "boolean" ? Number(value) : undefined;
  if (kind === "f") {
    return (value) => {
      if (typeof value === "number") {
        // JSON.parse makes infinities of numbers such as 1e999.
        return Number.isFinite(value) ? floatOf(dtype, value) : undefined;
      }
      const special = SPECIAL.get(value);
      return special === undefined ? undefined : floatOf(dtype, special);
    };
  }
  const convert = wide
    ? wideOf
    : (value: unknown) => typeof value === "number" && Number.isInteger(value) ? value : undefined;
  return (value) => {
    const converted = convert(value);
    return converted !== undefined && converted >= min && converted <= max ? converted : undefined;
  };
}

/** Visits the elements of data, which are nested as the shape is, or flat. */
function visit(
  data: unknown,
  { what, shape, size }: Given,
  put: (value: unknown, at: number) => void,
): void {
  if (!Array.isArray(data)) {
    throw badRequest(`${what} has data ${describe(data)}: an array is expected`);
  }
  if (data.length === size && !Array.isArray(data[0])) {
    for (let at = 0; at < size; at++) put(data[at], at);
    return;
  }
  let at = 0;
  const walk = (node: unknown, axis: number): void => {
    if (axis === shape.length) return put(node, at++);
    if (!Array.isArray(node) || node.length !== shape[axis]) {
      const found = Array.isArray(node) ? `an array of ${node.length}` : describe(node);
      throw badRequest(
        `${what} of shape ${formatShape(shape)} has ${found} along axis ${axis}, ` +
          `where data have ${shape[axis]}; flat data have ${size} elements`,
      );
    }
    for (const one of node) walk(one, axis + 1);
  };
  walk(data, 0);
}

/** The tensor of data of JSON, whose text has `characters`. */
export function readJson(data: unknown, given: Given, characters: number): AnyTensor | Strings {
  const { what, dtype, shape, size } = given;
  // An element has a character at least, and another one follows it.
  if (size > characters) {
    throw badRequest(`${what} of shape ${formatShape(shape)} has fewer elements in the body`);
  }
  const fail = (value: unknown, at: number): never => {
    throw badRequest(
      `element ${at} of ${what} is ${describe(value)}, which is no ${datatypeOf(dtype)}`,
    );
  };
  if (dtype === "string") {
    const texts: string[] = [];
    visit(data, given, (value, at) => {
      texts.push(typeof value === "string" ? value : fail(value, at));
    });
    return new Strings(texts, shape);
  }
  const storage = allocate(dtype, size, false);
  const { array } = storage;
  const x = wrap(storage, Layout.contiguous(shape)) as AnyTensor;
  const convert = converterOf(dtype);
  try {
    visit(data, given, (value, at) => {
      array[at] = convert(value) ?? fail(value, at);
    });
  } catch (error) {
    x.dispose();
    throw error;
  }
  return x;
}

// ---- from bytes --------------------------------------------------------------------------------

/** Texts, each behind its number of bytes in 32 bits. */
function readTexts(bytes: Uint8Array, { what, shape, size }: Given): Strings {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const texts: string[] = [];
  let at = 0;
  while (at < bytes.length) {
    const length = at + 4 <= bytes.length ? view.getUint32(at, true) : Infinity;
    if (at + 4 + length > bytes.length) throw badRequest(`the bytes of ${what} end within a text`);
    if (texts.length === size) break;
    try {
      texts.push(decoder.decode(bytes.subarray(at + 4, at + 4 + length)));
    } catch {
      throw badRequest(`element ${texts.length} of ${what} is not UTF-8`);
    }
    at += 4 + length;
  }
  if (texts.length === size && at === bytes.length) return new Strings(texts, shape);
  throw badRequest(`${what} of shape ${formatShape(shape)} has another number of texts`);
}

/** The tensor of its bytes, little-endian in row-major order. */
export function readBinary(bytes: Uint8Array, given: Given): AnyTensor | Strings {
  const { what, dtype, shape, size } = given;
  if (dtype === "string") return readTexts(bytes, given);
  const expected = size * DTYPE[dtype].bytes;
  if (bytes.length !== expected) {
    throw badRequest(
      `${what} of shape ${formatShape(shape)} has ${bytes.length} bytes, ` +
        `where ${datatypeOf(dtype)} has ${expected}`,
    );
  }
  const storage = allocate(dtype, size, false);
  const own = bytesOf(storage.array, size);
  own.set(bytes);
  // Kernels expect 0 and 1.
  if (dtype === "bool") { for (let i = 0; i < size; i++) own[i] = Number(own[i] !== 0); }
  return wrap(storage, Layout.contiguous(shape)) as AnyTensor;
}

function bytesOf(array: TypedArray, size: number): Uint8Array<ArrayBufferLike> {
  return new Uint8Array(array.buffer, array.byteOffset, size * array.BYTES_PER_ELEMENT);
}

// ---- to JSON and to bytes ----------------------------------------------------------------------

/** A tensor that the answer has. */
export interface Result {
  readonly datatype: string;
  readonly shape: readonly number[];
  /** The elements as an array of JSON, flat. */
  json(): string;
  /** The elements as bytes, little-endian in row-major order. */
  bytes(): Uint8Array<ArrayBufferLike>;
}

/** JSON has no word for these: texts stand for them, which Python's and NumPy's floats read. */
function quoteSpecial(list: string): string {
  return /[NI]/.test(list) ? list.replace(/-?Infinity|NaN/g, '"$&"') : list;
}

function textsToBytes(texts: readonly string[]): Uint8Array<ArrayBufferLike> {
  const encoder = new TextEncoder();
  const parts = texts.map((text) => encoder.encode(text));
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + 4 + length, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const part of parts) {
    view.setUint32(at, part.length, true);
    bytes.set(part, at + 4);
    at += 4 + part.length;
  }
  return bytes;
}

/** Reads the elements of a value of a model; undefined if the protocol has no such value. */
export async function readResult(value: unknown): Promise<Result | undefined> {
  if (value instanceof Strings) {
    return {
      datatype: "BYTES",
      shape: value.shape,
      json: () => JSON.stringify(value.data),
      bytes: () => textsToBytes(value.data),
    };
  }
  if (!(value instanceof Tensor)) return undefined;
  const x: AnyTensor = value;
  const { dtype, shape } = x;
  const datatype = datatypeOf(dtype);
  if (datatype === undefined) return undefined;
  const array = await x.read();
  return {
    datatype,
    shape,
    json() {
      if (dtype === "bool") {
        return `[${array.join(",").replaceAll("0", "false").replaceAll("1", "true")}]`;
      }
      if (dtype === "float16" || dtype === "bfloat16") {
        const table = dtype === "float16" ? f16Table() : bf16Table();
        const bits = new Uint16Array(array.buffer, array.byteOffset, array.length);
        return `[${quoteSpecial(Array.from(bits, (one) => table[one]).join(","))}]`;
      }
      return `[${quoteSpecial(array.join(","))}]`;
    },
    bytes: () => bytesOf(array, array.length),
  };
}
