/**
 * Tensors on the memory of mapped files, and what stands in for them where no file can be mapped:
 * tensors on bytes that were read.
 *
 * Knows nothing of the class Tensor.
 *
 * @module
 */
import type { Unavailable } from "../backend/ffi/abi.ts";
import { mapFile, type MappedFile } from "../backend/ffi/files.ts";
import { host } from "../backend/ffi/runtime.ts";
import { DTYPE, type DType } from "../base/dtype.ts";
import { FormatError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { describe } from "../base/text.ts";
import { lazyStorage } from "../memory/lazy.ts";
import type { Storage } from "../memory/storage.ts";
import type { RawTensor } from "./bytes.ts";
import { type Path, RawSafetensorsFile, readFile, readHeader, sizeOf } from "./file.ts";
import { decodeNpy, type NpyOptions } from "./npy.ts";
import {
  findInfo,
  rawTensor,
  type SafetensorsHeader,
  type SafetensorsInfo,
} from "./safetensors.ts";

/** A tensor that nothing may write. */
export interface FixedTensor {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly storage: Storage;
}

/** Whether to map files, by the option of that name. */
export function mmapOf(op: string, { mmap = true }: { readonly mmap?: unknown }): boolean {
  if (typeof mmap === "boolean") return mmap;
  throw typeError(`Cannot ${op} with mmap ${describe(mmap)}: it takes true or false`);
}

/** The path that the system takes. */
async function systemPath(path: Path): Promise<string> {
  if (typeof path === "string" && host.platform !== "win32") return path;
  const [{ fileURLToPath }, { toNamespacedPath }] = await Promise.all([
    import("node:url"),
    import("node:path"),
  ]);
  return toNamespacedPath(typeof path === "string" ? path : fileURLToPath(path));
}

/** A mapped file, or why it is not mapped. Throws the errors of the system, as {@link readFile}. */
export async function tryToMap(path: Path, mmap: boolean): Promise<MappedFile | Unavailable> {
  if (!mmap) return { reason: "{ mmap: false }" };
  // The runtime checks that this program may read it; the library does not.
  // Node's functions take Deno 20 ms to load.
  const size = host.identity(path)?.size ?? await sizeOf(path);
  if (size === 0) return { reason: "the file is empty" };
  const mapped = mapFile(await systemPath(path));
  if ("reason" in mapped || mapped.bytes === size) return mapped;
  // A file inside an executable may have the path of one outside.
  return { reason: "the file has changed" };
}

/** Throws a FormatError unless a mapped file has `end` bytes still. */
function checkSize(mapped: MappedFile, end: number, file: string): void {
  const size = mapped.bytesNow;
  if (size < end) throw new FormatError("the file has become shorter", file, size);
}

/** The bytes from `begin` to `end`, which change with the file. */
export function bytesIn(
  mapped: MappedFile,
  begin: number,
  end: number,
  file: string,
): Uint8Array<ArrayBuffer> {
  if (begin === end) return new Uint8Array(0);
  checkSize(mapped, end, file);
  return new Uint8Array(mapped.view(begin, end));
}

/** Whether elements that begin there can be used where they are. */
export function isAligned(dtype: DType, begin: number): boolean {
  return begin % DTYPE[dtype].array.BYTES_PER_ELEMENT === 0;
}

/**
 * The elements from `begin` to `end`, which are first touched when they are used; a copy, if they
 * are not aligned.
 */
export function storageIn(
  dtype: DType,
  mapped: MappedFile,
  begin: number,
  end: number,
  file: string,
): Storage {
  const info = DTYPE[dtype];
  return lazyStorage(info, () => {
    const { buffer } = bytesIn(mapped, begin, end, file);
    return new info.array(isAligned(dtype, begin) ? buffer : buffer.slice(0));
  });
}

/** A tensor on bytes in memory; on a copy, if they are not aligned. */
function inMemory({ dtype, shape, data }: RawTensor): FixedTensor {
  const info = DTYPE[dtype];
  const size = info.array.BYTES_PER_ELEMENT;
  const { buffer, byteOffset, length } = data.byteOffset % size === 0 ? data : data.slice();
  const array = new info.array(buffer as ArrayBuffer, byteOffset, length / size);
  return { dtype, shape, storage: lazyStorage(info, () => array) };
}

/** The tensor of a .npy file, which is mapped if `mmap` is true and it can be. */
export async function mapNpy(path: Path, mmap: boolean, options: NpyOptions): Promise<FixedTensor> {
  const mapped = await tryToMap(path, mmap);
  if ("reason" in mapped) return inMemory(decodeNpy(await readFile(path), options));
  const { bytes } = mapped;
  const all = bytesIn(mapped, 0, bytes, options.file!);
  const raw = decodeNpy(all, options);
  // Bools have been checked, and must not change with the file.
  if (raw.dtype === "bool") return inMemory({ ...raw, data: raw.data.slice() });
  // Of another order of bytes or axes.
  if (raw.data.buffer !== all.buffer) return inMemory(raw);
  const { dtype, shape, data: { byteOffset } } = raw;
  return { dtype, shape, storage: storageIn(dtype, mapped, byteOffset, bytes, options.file!) };
}

/** The tensors of a .safetensors file. */
export interface FixedSafetensors {
  readonly header: SafetensorsHeader;
  /** `"mapped"`, or `"read: "` and why. */
  readonly backing: string;
  /**
   * The same tensor in each call.
   *
   * @throws {FormatError} If there is none of that name, if it is not read, or if the file has
   *   become shorter.
   */
  get(name: string): FixedTensor;
}

/** Makes the tensor of that name. */
type Find = (info: SafetensorsInfo, name: string) => FixedTensor;

/** Calls `find` once for each tensor. */
function once(header: SafetensorsHeader, file: string, find: Find): FixedSafetensors["get"] {
  const found = new Map<string, FixedTensor>();
  return (name) => {
    const known = found.get(name);
    if (known !== undefined) return known;
    const made = find(findInfo(header, name, file), name);
    found.set(name, made);
    return made;
  };
}

/** The tensors of a .safetensors file, which is mapped if `mmap` is true and it can be. */
export async function mapSafetensors(path: Path, mmap: boolean): Promise<FixedSafetensors> {
  const file = String(path);
  const mapped = await tryToMap(path, mmap);
  if ("reason" in mapped) return await readAll(path, `read: ${mapped.reason}`);
  const read = (begin: number, end: number): Uint8Array => bytesIn(mapped, begin, end, file);
  const header = await readHeader(read, mapped.bytes, file);
  const find: Find = (info, name) => {
    const { dtype, shape, begin, end } = info;
    if (dtype !== undefined && dtype !== "bool") {
      return { dtype, shape, storage: storageIn(dtype, mapped, begin, end, file) };
    }
    return inMemory(rawTensor(info, name, read(begin, end).slice(), file));
  };
  const get = once(header, file, find);
  return {
    header,
    backing: "mapped",
    get(name) {
      checkSize(mapped, findInfo(header, name, file).end, file);
      return get(name);
    },
  };
}

async function readAll(path: Path, backing: string): Promise<FixedSafetensors> {
  const file = await RawSafetensorsFile.open(path);
  const { header } = file;
  const data = new Map<string, Uint8Array>();
  for (const [name, { dtype }] of header.tensors) {
    data.set(name, dtype === undefined ? new Uint8Array(0) : await file.read(name));
  }
  const find: Find = (info, name) => inMemory(rawTensor(info, name, data.get(name)!, file.file));
  return { header, backing, get: once(header, file.file, find) };
}
