/**
 * Tensors of ONNX files: on the memory of the mapped file, read from it, or from the list of a message.
 *
 * @module
 */
import { DTYPE, type DType, type TypedArray } from "../../base/dtype.ts";
import { FormatError } from "../../base/errors.ts";
import { formatShape, MAX_RANK, sizeOf } from "../../base/shape.ts";
import { checkBools, checkedBytes, decodeUtf8, quote } from "../../io/bytes.ts";
import type { Path } from "../../io/file.ts";
import { entryOf, type FileBytes, openBytes, type Read, readerOf } from "../../io/source.ts";
import { Layout } from "../../base/layout.ts";
import { wrap } from "../../core/handles.ts";
import { copiedStorage } from "../../memory/lazy.ts";
import type { Operand } from "../../memory/operand.ts";
import { cowOf } from "../../memory/snapshot.ts";
import type { Storage } from "../../memory/storage.ts";
import { load } from "../../nn/weights/load.ts";
import { fromBuffer, full } from "../../tensor/create.ts";
import type { SparseMessage, TensorMessage } from "./messages.ts";
import { Strings, type T, type Value } from "./values.ts";

/** ONNX's element types by their numbers: the dtypes of tensors. */
const DTYPES: readonly (DType | undefined)[] = [
  undefined,
  "float32",
  "uint8",
  "int8",
  "uint16",
  "int16",
  "int32",
  "int64",
  undefined,
  "bool",
  "float16",
  "float64",
  "uint32",
  "uint64",
  "complex64",
  "complex128",
  "bfloat16",
];
const STRING = 8;
/** Tensors with fewer bytes are copied: a view of the file takes more memory. */
const LEAST_VIEW = 4096;
/** Larger tensors that are copied are read from the file, as its mapped pages would take memory too. */
export const LARGE_BYTES = 1 << 18;
/** The types of less than a byte, which become 8-bit integers. */
const SMALL: ReadonlyMap<number, { readonly dtype: "int8" | "uint8"; readonly bits: number }> =
  new Map([
    [21, { dtype: "uint8", bits: 4 }],
    [22, { dtype: "int8", bits: 4 }],
    [25, { dtype: "uint8", bits: 2 }],
    [26, { dtype: "int8", bits: 2 }],
  ]);
const NAMES: Readonly<Record<number, string>> = {
  8: "string",
  17: "float8e4m3fn",
  18: "float8e4m3fnuz",
  19: "float8e5m2",
  20: "float8e5m2fnuz",
  21: "uint4",
  22: "int4",
  23: "float4e2m1",
  24: "float8e8m0",
  25: "uint2",
  26: "int2",
};

/** The name of an element type of ONNX: a dtype, or the type's own name. */
export function typeName(type: number): string {
  return DTYPES[type] ?? NAMES[type] ?? `type ${type}`;
}

/** The dtype of tensors of an element type of ONNX; undefined if there is none. */
export function dtypeOf(type: number): DType | undefined {
  return DTYPES[type] ?? SMALL.get(type)?.dtype;
}

/** Whether elements of a type of ONNX have less than a byte. */
export function isSmallType(type: number): boolean {
  return SMALL.has(type);
}

/** The number of the element type of a dtype. */
export function typeOf(dtype: string): number {
  const at = DTYPES.findIndex((one) => one === dtype);
  if (at > 0) return at;
  const other = Object.entries(NAMES).find(([, name]) => name === dtype);
  return other === undefined ? 0 : Number(other[0]);
}

/** Where the elements of a storage are in the files of a model. */
export interface Origin {
  /** The name of the file in the model; empty for the model itself. */
  readonly location: string;
  readonly begin: number;
}

/** Where the elements of a model's tensors are. */
export interface Place {
  /** The file, for errors. */
  readonly file: string;
  /** All bytes of the file. */
  readonly bytes: Uint8Array;
  /** The file on disk, if it is there. */
  readonly source: FileBytes | undefined;
  /** Opens a file beside it, by the name in the model. */
  external(location: string): ExternalFile;
  /** Told of the storages of tensors that have the bytes of a file. */
  note?(storage: Storage, origin: Origin): void;
}

/** A file beside the model. */
export interface ExternalFile {
  readonly file: string;
  readonly size: number;
  readonly read: Read;
  readonly source: FileBytes | undefined;
}

/** The names of all external files of tensors. */
export function externalNames(tensors: Iterable<TensorMessage>): Set<string> {
  const names = new Set<string>();
  for (const { isExternal, external } of tensors) {
    const location = external.get("location");
    if (isExternal && location !== undefined) names.add(location);
  }
  return names;
}

/** Opens an external file that is at `path`. */
export async function openExternal(path: Path): Promise<ExternalFile> {
  const source = await openBytes(path, {});
  return { file: String(path), size: source.identity.size, read: readerOf(source), source };
}

/** An external file whose bytes are in memory. */
export function externalBytes(file: string, bytes: Uint8Array): ExternalFile {
  const read: Read = (begin, into) => into.set(bytes.subarray(begin, begin + into.length));
  return { file, size: bytes.length, read, source: undefined };
}

/**
 * Elements of a file: on its memory if it is mapped and they are aligned there, else read when they are
 * used first.
 */
export function elementsAt(
  dtype: DType,
  begin: number,
  length: number,
  { file, read, source }: ExternalFile,
): Storage {
  const info = DTYPE[dtype];
  const end = begin + length * info.bytes;
  const entry = entryOf({ dtype, type: dtype, shape: [length], begin, end }, file, read, source);
  if (entry.view !== undefined) return entry.view();
  return copiedStorage(info, length, (into) => entry.fill(into));
}

/** A tensor of all elements of a storage that nothing writes. */
function onLazy(storage: Storage, shape: readonly number[]): Operand {
  const layout = Layout.contiguous([...shape]);
  return wrap(cowOf(storage, 0, layout.size - 1), layout);
}

/** A tensor of elements in memory of its own: programs take an array as memory that may change. */
function owned(
  elements: TypedArray,
  options: { readonly dtype?: DType; readonly shape: readonly number[] },
): T {
  using view = fromBuffer(elements, options);
  return view.copy() as T;
}

/** Reads the tensors of a file. */
export class Initializers {
  readonly #place: Place;

  constructor(place: Place) {
    this.#place = place;
  }

  #fail(message: string, at: Uint8Array | undefined): never {
    const { file, bytes } = this.#place;
    const offset = at !== undefined && at.buffer === bytes.buffer
      ? at.byteOffset - bytes.byteOffset
      : 0;
    throw new FormatError(message, file, offset);
  }

  /** A tensor, or texts. */
  read(message: TensorMessage): Value {
    const { dims: shape, type, name, raw } = message;
    const label = `tensor ${quote(name)}`;
    if (shape.length > MAX_RANK || shape.some((n) => !Number.isSafeInteger(n) || n < 0)) {
      this.#fail(`${label} has shape ${formatShape(shape)}`, raw);
    }
    if (!Number.isSafeInteger(sizeOf(shape))) {
      this.#fail(`${label} has shape ${formatShape(shape)}, which is too large`, raw);
    }
    if (type === STRING) return this.#strings(message, label);
    const small = SMALL.get(type);
    const dtype = small?.dtype ?? DTYPES[type];
    if (dtype === undefined) {
      this.#fail(`${label} has element type ${typeName(type)}, which is not read`, raw);
    }
    if (small !== undefined) return this.#small(message, label, small.bits, small.dtype === "int8");
    if (message.isExternal) return this.#external(message, label, dtype);
    if (raw === undefined) return this.#listed(message, label, dtype);
    const bytes = checkedBytes(shape, DTYPE[dtype].bytes);
    if (raw.length !== bytes) {
      this.#fail(
        `${label} of ${dtype} and shape ${formatShape(shape)} does not take ${raw.length} bytes`,
        raw,
      );
    }
    const { file, bytes: all, source } = this.#place;
    const read: Read = (at, into) => into.set(all.subarray(at, at + into.length));
    if (raw.buffer !== all.buffer) {
      const given: Read = (_, into) => into.set(raw);
      return this.#load(dtype, shape, 0, { file, size: bytes, read: given, source: undefined });
    }
    const begin = raw.byteOffset - all.byteOffset;
    // Small tensors of mapped files are copied: a page of memory each would be more.
    const isSmall = source === undefined || bytes < LEAST_VIEW;
    const contents = isSmall
      ? { file, size: all.length, read, source: undefined }
      : { file, size: all.length, read: readerOf(source, bytes >= LARGE_BYTES), source };
    return this.#load(dtype, shape, begin, contents, "");
  }

  /** A tensor of a file; `location` is the name of it in the model, if others can read it there. */
  #load(
    dtype: DType,
    shape: readonly number[],
    begin: number,
    contents: ExternalFile,
    location?: string,
  ): T {
    const bytes = checkedBytes(shape, DTYPE[dtype].bytes)!;
    const { file, read, source } = contents;
    const info = { dtype, type: dtype, shape, begin, end: begin + bytes };
    // Convolutions read those of float16 as float32.
    const least = dtype === "float16" ? LEAST_VIEW : LARGE_BYTES;
    const made = source !== undefined && bytes >= least
      ? onLazy(elementsAt(dtype, begin, sizeOf(shape), contents), shape)
      : load(entryOf(info, file, read, source), undefined);
    if (location !== undefined && dtype !== "bool" && bytes >= LEAST_VIEW) {
      this.#place.note?.(made.storage, { location, begin });
    }
    return made as T;
  }

  #external({ external, dims: shape }: TensorMessage, label: string, dtype: DType): T {
    const location = external.get("location");
    if (location === undefined) this.#fail(`${label} is in another file without a name`, undefined);
    const contents = this.#place.external(location);
    const { file, size } = contents;
    const begin = Number(external.get("offset") ?? 0);
    const bytes = checkedBytes(shape, DTYPE[dtype].bytes);
    const length = Number(external.get("length") ?? bytes);
    const fits = Number.isSafeInteger(begin) && begin >= 0 && length === bytes &&
      begin + bytes! <= size;
    if (!fits) {
      throw new FormatError(
        `${label} of ${dtype} and shape ${formatShape(shape)} is at bytes ${begin} to ` +
          `${begin + length}, but the file has ${size} bytes`,
        file,
        0,
      );
    }
    return this.#load(dtype, shape, begin, contents, location);
  }

  #strings({ strings, dims }: TensorMessage, label: string): Strings {
    if (strings.length !== sizeOf(dims)) {
      this.#fail(`${label} has ${strings.length} texts for shape ${formatShape(dims)}`, undefined);
    }
    const texts = strings.map((bytes) =>
      decodeUtf8(bytes) ?? this.#fail(`${label} is not UTF-8`, bytes)
    );
    return new Strings(texts, dims);
  }

  /** Elements of 2 and 4 bits, the first in the lowest bits of a byte. */
  #small(message: TensorMessage, label: string, bits: number, signed: boolean): T {
    const { dims: shape, ints } = message;
    const count = sizeOf(shape);
    const length = Math.ceil(count * bits / 8);
    const packed = message.isExternal
      ? this.#externalBytes(message, label, length)
      : message.raw ?? Uint8Array.from(ints);
    if (packed.length !== length) {
      this.#fail(`${label} of ${bits} bits has ${packed.length} bytes, not ${length}`, message.raw);
    }
    const out = signed ? new Int8Array(count) : new Uint8Array(count);
    const shift = 32 - bits;
    for (let i = 0; i < count; i++) {
      const value = packed[i * bits >> 3]! >> (i * bits & 7) << shift;
      out[i] = signed ? value >> shift : value >>> shift;
    }
    return owned(out, { shape });
  }

  #externalBytes({ external }: TensorMessage, label: string, length: number): Uint8Array {
    const location = external.get("location") ??
      this.#fail(`${label} is in another file without a name`, undefined);
    const { file, size, read } = this.#place.external(location);
    const begin = Number(external.get("offset") ?? 0);
    if (!Number.isSafeInteger(begin) || begin < 0 || begin + length > size) {
      throw new FormatError(`${label} goes beyond the end of the file`, file, 0);
    }
    const bytes = new Uint8Array(length);
    read(begin, bytes);
    return bytes;
  }

  /** Elements that are numbers of the message. */
  #listed(message: TensorMessage, label: string, dtype: DType): T {
    const { dims: shape, floats, doubles, ints, longs, unsignedLongs } = message;
    const { array: Elements, kind } = DTYPE[dtype];
    const isComplex = kind === "c";
    const list: ArrayLike<number | bigint> = dtype === "float32" || dtype === "complex64"
      ? floats
      : dtype === "float64" || dtype === "complex128"
      ? doubles
      : dtype === "int64"
      ? longs
      : dtype === "uint64"
      ? unsignedLongs
      : dtype === "uint32"
      ? unsignedLongs.map(Number)
      : ints;
    const count = sizeOf(shape) * (isComplex ? 2 : 1);
    if (list.length !== count) {
      this.#fail(`${label} has ${list.length} elements for shape ${formatShape(shape)}`, undefined);
    }
    const array: TypedArray = new Elements(count);
    for (let i = 0; i < count; i++) array[i] = list[i]!;
    if (dtype === "bool") checkBools(array as Uint8Array, this.#place.file, 0);
    return owned(array, { dtype, shape });
  }

  /** A tensor of which the file has the elements that are not 0. */
  sparse({ values, indices, dims }: SparseMessage): { readonly name: string; readonly value: T } {
    if (values === undefined || indices === undefined) {
      this.#fail("a sparse tensor lacks values or indices", undefined);
    }
    const label = `sparse tensor ${quote(values.name)}`;
    const [elements, places] = [this.read(values), this.read(indices)];
    if (elements instanceof Strings || places instanceof Strings) {
      this.#fail(`${label} has texts`, undefined);
    }
    const [all, at] = [elements as T, places as T];
    const size = sizeOf(dims);
    const isFlat = at.shape.length === 1;
    const fits = dims.every((n) => Number.isSafeInteger(n) && n >= 0) &&
      Number.isSafeInteger(size) && size <= MOST_SPARSE && at.dtype === "int64" &&
      at.shape[0] === all.size && (isFlat || at.shape.length === 2 && at.shape[1] === dims.length);
    if (!fits) {
      this.#fail(
        `${label} of shape ${formatShape(dims)} has ${all.size} values at indices of ${at.dtype} ` +
          `and shape ${formatShape(at.shape)}`,
        undefined,
      );
    }
    const list = Array.from(at.toTypedArray() as BigInt64Array, Number);
    const rank = dims.length;
    const flat = isFlat ? list : Array.from(
      { length: all.size },
      (_, i) => dims.reduce((sum, n, k) => sum * n + list[i * rank + k]!, 0),
    );
    if (flat.some((place) => place < 0 || place >= size)) {
      this.#fail(`${label} has an index outside of shape ${formatShape(dims)}`, undefined);
    }
    const dense = full([size], 0, { dtype: all.dtype });
    dense.putAlongAxis_(fromBuffer(BigInt64Array.from(flat, BigInt)), all, 0);
    return { name: values.name, value: dense.reshape(dims) };
  }
}

/** The most elements of a sparse tensor, which takes all of its memory. */
const MOST_SPARSE = 2 ** 28;
