/**
 * The public namespace `io`: reads and writes tensors as .npy, .npz and .safetensors.
 *
 * Only converts between tensors and plain bytes; the other files of this folder implement the
 * formats. Functions on bytes are synchronous, functions on paths are asynchronous. Every fault in
 * a file throws a FormatError that names the file and the offset.
 *
 * @module
 */
import { DTYPE, type DType } from "../base/dtype.ts";
import { describe } from "../base/text.ts";
import { contiguousOnCpu } from "../core/copy.ts";
import { applyCreate } from "../core/apply.ts";
import { ownOperand } from "../core/foreign.ts";
import { wrap } from "../core/handles.ts";
import { hostRead } from "../core/interpreter.ts";
import { DTypeError, FormatError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { brandOf } from "../base/version.ts";
import { Layout } from "../base/layout.ts";
import { ownNames, type Shape } from "../base/shape.ts";
import { allocate } from "../memory/pool.ts";
import { checkOptions } from "../table/infer.ts";
import { type CreateOp, makeOp } from "../table/op.ts";
import { READ_ONLY, VIEW } from "../memory/operand.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import { asBytes, NO_FILE, type RawTensor } from "./bytes.ts";
import { type Path, RawSafetensorsFile, readFile, writeFile } from "./file.ts";
import "../tensor/tensor.ts";
import {
  type FixedTensor,
  mapNpy as mapNpyFile,
  mapSafetensors as mapSafetensorsFile,
  mmapOf,
} from "./mapped.ts";
import * as npy from "./npy.ts";
import * as npz from "./npz.ts";
import * as safetensors from "./safetensors.ts";

export {
  type ArrowData,
  type ArrowModule,
  type ArrowType,
  type ArrowVector,
  fromArrow,
  type FromArrowOptions,
  toArrow,
} from "./arrow.ts";
export type { Path } from "./file.ts";
export type { NpyOptions } from "./npy.ts";
export { fromPixels, type Pixels, type PixelsOptions } from "./pixels.ts";
export type { NpzOptions, NpzWriteOptions } from "./npz.ts";
export type { SafetensorsInfo } from "./safetensors.ts";

/** Tensors to write, by name. */
export type TensorRecord = Readonly<Record<string, AnyTensor>>;

/** Options for reading safetensors bytes. */
export interface SafetensorsOptions {
  /** The file's name in errors. */
  readonly file?: string;
}

/** Options for mapping files. */
export interface MapOptions {
  /** If false, the file is read into memory and not mapped. */
  readonly mmap?: boolean;
}

/** Options for mapping a .npy file. */
export interface MapNpyOptions extends MapOptions, npy.NpyOptions {}

/** A read-only tensor of a file. */
export type FileTensor = Tensor<DType, Shape, "cpu", "read">;

/** Options for writing safetensors. */
export interface SafetensorsWriteOptions {
  /** Strings to store with the tensors, as `__metadata__`. */
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Creates a tensor from the bytes of a file. */
const FROM_FILE: CreateOp = makeOp({
  kind: "create",
  name: "fromFile",
  infer({ attributes: { shape, dtype } }) {
    return [{ shape, dtype: DTYPE[dtype as DType] }];
  },
  create(attributes: unknown) {
    const { dtype, shape, data } = attributes as RawTensor;
    const layout = Layout.contiguous([...shape]);
    const storage = allocate(dtype, layout.size, false);
    const { buffer, byteOffset, byteLength } = storage.array;
    new Uint8Array(buffer, byteOffset, byteLength).set(data);
    return wrap(storage, layout);
  },
});

/** A tensor that nothing may write, of a file. */
const MAP_FILE: CreateOp = makeOp({
  kind: "create",
  name: "mapFile",
  infer({ attributes: { shape, dtype } }) {
    return [{ shape, dtype: DTYPE[dtype as DType] }];
  },
  create(attributes: unknown) {
    const { shape, storage } = attributes as FixedTensor;
    return wrap(storage, Layout.contiguous([...shape]), VIEW | READ_ONLY);
  },
});

function fromFixed(one: FixedTensor): FileTensor {
  return applyCreate(MAP_FILE, one) as FileTensor;
}

function fromRaw(raw: RawTensor): Tensor<DType> {
  return applyCreate(FROM_FILE, raw) as Tensor<DType>;
}

function toRaw(tensor: AnyTensor, op: string): RawTensor {
  const x = ownOperand(tensor, op);
  hostRead(x, op);
  const { info } = x.storage;
  const { storage, layout } = contiguousOnCpu(x);
  const begin = storage.array.byteOffset + layout.offset * info.bytes;
  const data = new Uint8Array(storage.array.buffer, begin, layout.size * info.bytes);
  return { dtype: info.name, shape: layout.shape, data };
}

function toRaws(tensors: TensorRecord, op: string): [string, RawTensor][] {
  const single = brandOf(tensors, "tensor") !== undefined;
  if (typeof tensors !== "object" || tensors === null || single || Symbol.iterator in tensors) {
    const given = single ? "a tensor" : describe(tensors);
    throw new DTypeError(`Cannot ${op}: expected tensors by name, as { x }, got ${given}`);
  }
  return Object.entries(tensors).map(([name, tensor]) => [name, toRaw(tensor, op)]);
}

const NPY_OPTIONS = ["file", "bfloat16"];

// Options are read once, and before a file is: getters may return others later.

function npyOptions(op: string, options: npy.NpyOptions, path?: Path): npy.NpyOptions {
  checkOptions(op, options, NPY_OPTIONS);
  const { file = path === undefined ? NO_FILE : String(path), bfloat16 } = options;
  return { file, bfloat16 };
}

function npzOptions(op: string, options: npz.NpzOptions, path?: Path): npz.NpzOptions {
  checkOptions(op, options, [...NPY_OPTIONS, "maxBytes", "names"]);
  const { file = path === undefined ? NO_FILE : String(path), bfloat16, maxBytes, names } = options;
  return { file, bfloat16, maxBytes, names: ownNames(op, "names", names) };
}

/** The strings to store with tensors. */
function metadataOf(op: string, options: SafetensorsWriteOptions): Record<string, string> {
  checkOptions(op, options, ["metadata"]);
  const { metadata = {} } = options;
  if (typeof metadata !== "object" || metadata === null) {
    throw typeError(
      `Cannot ${op} with metadata ${describe(metadata)}: it takes strings by name`,
    );
  }
  const entries = Object.entries(metadata);
  for (const [name, text] of entries) {
    if (typeof text !== "string") {
      throw typeError(
        `Cannot ${op} with metadata ${describe(name)} of ${describe(text)}: it takes strings`,
      );
    }
  }
  return Object.fromEntries(entries);
}

/**
 * The tensor in .npy bytes (NumPy's `save`), of any byte order and memory order.
 *
 * @throws {FormatError} For damaged bytes and for unsupported dtypes.
 */
export function decodeNpy(bytes: Uint8Array, options: npy.NpyOptions = {}): Tensor<DType> {
  return fromRaw(npy.decodeNpy(bytes, npyOptions("decodeNpy", options)));
}

/**
 * The .npy bytes, the same as NumPy's `save` writes.
 *
 * @throws {DTypeError} For bfloat16, which the format cannot represent; safetensors can.
 */
export function encodeNpy(tensor: AnyTensor): Uint8Array<ArrayBuffer> {
  return npy.encodeNpy(toRaw(tensor, "encodeNpy"));
}

/** {@link decodeNpy} of a file. */
export async function readNpy(path: Path, options: npy.NpyOptions = {}): Promise<Tensor<DType>> {
  const own = npyOptions("readNpy", options, path);
  return fromRaw(npy.decodeNpy(await readFile(path), own));
}

/**
 * The read-only tensor of a .npy file, mapped into memory if files can be mapped. The system reads
 * the file at the first use of the tensor, and all workers and processes share the memory.
 *
 * With `{ mmap: false }`, and if `info().files` reports that files cannot be mapped, the file is
 * read. An array in Fortran order, with another byte order or alignment, or of bools is always
 * copied.
 *
 * @throws {FormatError} As {@link decodeNpy}; also at the first use of the tensor, if the file has
 *   become shorter.
 */
export async function mapNpy(path: Path, options: MapNpyOptions = {}): Promise<FileTensor> {
  checkOptions("mapNpy", options, [...NPY_OPTIONS, "mmap"]);
  const { file = String(path), bfloat16 } = options;
  const mmap = mmapOf("mapNpy", options);
  return fromFixed(await mapNpyFile(path, mmap, { file, bfloat16 }));
}

/**
 * Writes a tensor to a .npy file.
 *
 * @throws As {@link encodeNpy}.
 */
export async function writeNpy(path: Path, tensor: AnyTensor): Promise<void> {
  await writeFile(path, npy.encodeNpy(toRaw(tensor, "writeNpy")));
}

/**
 * The tensors in .npz bytes (NumPy's `savez`, compressed or not), by name, on an object without a
 * prototype. Members whose names do not end in .npy are skipped.
 *
 * @param options `names` selects tensors; `maxBytes` limits the inflated size of compressed
 *   members.
 * @throws {FormatError} For a damaged archive. An array that {@link decodeNpy} cannot read, such as
 *   one of strings, does not hide others: it is not among the names of the result, and reading its
 *   property throws the error. If `names` selects it, `decodeNpz` throws.
 */
export function decodeNpz(
  bytes: Uint8Array,
  options: npz.NpzOptions = {},
): Record<string, Tensor<DType>> {
  return tensorsOf(npz.decodeNpz(bytes, npzOptions("decodeNpz", options)));
}

function tensorsOf(arrays: Map<string, RawTensor | FormatError>): Record<string, Tensor<DType>> {
  const out: Record<string, Tensor<DType>> = Object.create(null);
  for (const [name, raw] of arrays) {
    if (!(raw instanceof FormatError)) out[name] = fromRaw(raw);
    else {
      const get = (): never => {
        throw raw;
      };
      Object.defineProperty(out, name, { get, enumerable: false });
    }
  }
  return out;
}

/**
 * The bytes of an .npz archive of the tensors; if uncompressed, the same as NumPy's `savez` writes.
 *
 * @throws {DTypeError} For bfloat16.
 */
export function encodeNpz(
  tensors: TensorRecord,
  options: npz.NpzWriteOptions = {},
): Uint8Array<ArrayBuffer> {
  return npzOf("encodeNpz", tensors, options);
}

function npzOf(
  op: string,
  tensors: TensorRecord,
  options: npz.NpzWriteOptions,
): Uint8Array<ArrayBuffer> {
  checkOptions(op, options, ["compress"]);
  return npz.encodeNpz(toRaws(tensors, op), options);
}

/** {@link decodeNpz} of a file. */
export async function readNpz(
  path: Path,
  options: npz.NpzOptions = {},
): Promise<Record<string, Tensor<DType>>> {
  const own = npzOptions("readNpz", options, path);
  return tensorsOf(npz.decodeNpz(await readFile(path), own));
}

/**
 * Writes tensors to a .npz file.
 *
 * @throws As {@link encodeNpz}.
 */
export async function writeNpz(
  path: Path,
  tensors: TensorRecord,
  options: npz.NpzWriteOptions = {},
): Promise<void> {
  await writeFile(path, npzOf("writeNpz", tensors, options));
}

/** The contents of a safetensors header. */
export interface SafetensorsIndex {
  /** The tensors' names, in the header's order. */
  readonly names: readonly string[];
  /** The strings stored with the tensors, on an object without a prototype. */
  readonly metadata: Readonly<Record<string, string>>;
  /**
   * Dtype, shape and byte range of a tensor.
   *
   * @throws {FormatError} If there is none of that name.
   */
  info(name: string): safetensors.SafetensorsInfo;
}

/** Tensors in safetensors bytes. */
export interface Safetensors extends SafetensorsIndex {
  /**
   * Copies the tensor of that name out of the bytes.
   *
   * @throws {FormatError} If there is none, and for unsupported element types.
   */
  get(name: string): Tensor<DType>;
}

/** An open .safetensors file. `await using` closes it. */
export interface SafetensorsFile extends SafetensorsIndex, AsyncDisposable {
  /**
   * Reads the tensor of that name from the file.
   *
   * @throws {FormatError} As {@link Safetensors.get}.
   * @throws {DisposedError} If the file is closed.
   */
  get(name: string): Promise<Tensor<DType>>;
  /** Closes the file. */
  close(): Promise<void>;
}

function indexOf(header: safetensors.SafetensorsHeader, file: string): SafetensorsIndex {
  return {
    names: [...header.tensors.keys()],
    metadata: header.metadata,
    info: (name) => safetensors.findInfo(header, name, file),
  };
}

/**
 * The tensors in safetensors bytes. Keeps a reference to the bytes and does not copy them.
 *
 * @throws {FormatError} For a header that breaks the format's rules: tensors must match their
 *   shapes and cover the bytes without gap or overlap.
 */
export function decodeSafetensors(
  bytes: Uint8Array,
  options: SafetensorsOptions = {},
): Safetensors {
  checkOptions("decodeSafetensors", options, ["file"]);
  const { file = NO_FILE } = options;
  const own = asBytes(bytes, file);
  const end = 8 + safetensors.headerLength(own, own.length, file);
  const header = safetensors.parseHeader(own.subarray(8, end), own.length, file);
  const index = indexOf(header, file);
  return {
    ...index,
    get(name): Tensor<DType> {
      const info = index.info(name);
      const data = own.subarray(info.begin, info.end);
      return fromRaw(safetensors.rawTensor(info, name, data, file));
    },
  };
}

/**
 * The safetensors bytes, the same as the reference implementation writes.
 *
 * @throws {FormatError} For names that the format cannot represent.
 */
export function encodeSafetensors(
  tensors: TensorRecord,
  options: SafetensorsWriteOptions = {},
): Uint8Array<ArrayBuffer> {
  return safetensorsOf("encodeSafetensors", tensors, options);
}

function safetensorsOf(
  op: string,
  tensors: TensorRecord,
  options: SafetensorsWriteOptions,
): Uint8Array<ArrayBuffer> {
  const metadata = metadataOf(op, options);
  return safetensors.encodeSafetensors(toRaws(tensors, op), metadata);
}

/**
 * Opens a .safetensors file and reads its header.
 *
 * @throws As {@link decodeSafetensors}.
 */
export async function openSafetensors(path: Path): Promise<SafetensorsFile> {
  const raw = await RawSafetensorsFile.open(path);
  return {
    ...indexOf(raw.header, raw.file),
    get: async (name) => fromRaw(await raw.get(name)),
    close: () => raw.close(),
    [Symbol.asyncDispose]: () => raw.close(),
  };
}

/** The tensors of a .safetensors file, as {@link mapSafetensors} gives them. */
export interface MappedSafetensors extends SafetensorsIndex {
  /** `"mapped"` if the tensors use the mapped file, otherwise `"read: "` and the reason. */
  readonly backing: string;
  /**
   * The tensor of that name, read-only; the same memory for each call.
   *
   * @throws {FormatError} If there is none, for unsupported element types, and if the file has
   *   become shorter, which is checked once more at the first use of the tensor.
   */
  get(name: string): FileTensor;
}

/**
 * All tensors of a .safetensors file, read-only, mapped into memory if files can be mapped. The
 * system reads a tensor at its first use, and all workers and processes share the memory. The file
 * is unmapped when the garbage collector has freed the result and all of its tensors.
 *
 * With `{ mmap: false }`, and if `info().files` reports that files cannot be mapped, all tensors
 * are read immediately. A tensor that is not aligned in the file, or of bools, is always copied.
 *
 * @throws As {@link decodeSafetensors}.
 */
export async function mapSafetensors(
  path: Path,
  options: MapOptions = {},
): Promise<MappedSafetensors> {
  checkOptions("mapSafetensors", options, ["mmap"]);
  const { header, backing, get } = await mapSafetensorsFile(
    path,
    mmapOf("mapSafetensors", options),
  );
  return { ...indexOf(header, String(path)), backing, get: (name) => fromFixed(get(name)) };
}

/**
 * Writes tensors to a .safetensors file.
 *
 * @throws As {@link encodeSafetensors}.
 */
export async function writeSafetensors(
  path: Path,
  tensors: TensorRecord,
  options: SafetensorsWriteOptions = {},
): Promise<void> {
  await writeFile(path, safetensorsOf("writeSafetensors", tensors, options));
}
