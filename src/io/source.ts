/**
 * Sources of tensors: the names, dtypes and shapes in a file at once, the elements of each tensor on
 * request, into memory that the caller has allocated, or on the memory of a mapped file.
 *
 * Requests are synchronous, and no file stays open between them. Knows nothing of the class Tensor.
 *
 * @module
 */
import type { Unavailable } from "../backend/ffi/abi.ts";
import type { MappedFile } from "../backend/ffi/files.ts";
import type { Identity } from "../backend/ffi/host.ts";
import { host } from "../backend/ffi/runtime.ts";
import type { DType } from "../base/dtype.ts";
import { FormatError } from "../base/errors.ts";
import { describePath } from "../base/text.ts";
import type { Operand } from "../memory/operand.ts";
import type { Storage } from "../memory/storage.ts";
import { allocate, asBytes, checkBools, NO_FILE, quote } from "./bytes.ts";
import {
  checkUnchanged,
  isSameFile,
  type Path,
  RawSafetensorsFile,
  readFile,
  readHeader,
  readStart,
} from "./file.ts";
import { bytesIn, isAligned, storageIn, tryToMap } from "./mapped.ts";
import { type GgufHeader, parseGguf } from "./gguf.ts";
import { KIND_BYTES, type KindName, kindOf } from "./kinds.ts";
import { checkWhole } from "./gguf_parts.ts";
import { type Metadata, textMetadata } from "./metadata.ts";
import { fillFromMxfp4, MXFP4 } from "./mxfp4.ts";
import { decodeNpz } from "./npz.ts";
import {
  headerLength,
  parseHeader,
  type SafetensorsHeader,
  type SafetensorsInfo,
} from "./safetensors.ts";

/** What a file says of a tensor. */
interface EntryInfo {
  /** The element type; undefined if it is not read. */
  readonly dtype: DType | undefined;
  /** The name of the element type in the file. */
  readonly type: string;
  /** The shape. */
  readonly shape: readonly number[];
  /** A product that is added to the weight, whose elements stay as they are: they are quantized. */
  readonly factors?: Factors | undefined;
}

/** The product of B [O, r], which has the order of the file's rows, and A [r, I], times a number. */
export interface Factors {
  readonly a: TensorEntry;
  readonly b: TensorEntry;
  readonly scale: number;
}

/** A tensor whose elements are copied. */
export interface FilledEntry extends EntryInfo {
  /** Writes the bytes of all elements to `into`, which has their size. */
  fill(into: Uint8Array): void;
  readonly view?: undefined;
  /** The tensor of the program whose elements they are. */
  readonly given?: Operand | undefined;
}

/** A tensor whose elements can be used where they are. */
interface ViewedEntry extends EntryInfo {
  /**
   * The elements, for as long as the storage is reachable; nothing may write it, nor count it as
   * allocated. The same storage in each call.
   */
  view(): Storage;
  readonly fill?: undefined;
  readonly given?: undefined;
}

/** A tensor in a file. */
export type TensorEntry = FilledEntry | ViewedEntry;

/** The tensors of one or several files. */
export interface TensorSource {
  /** The path, for errors. */
  readonly file: string;
  /** What the file says of itself. */
  readonly metadata?: Metadata;
  /** The tensors by name, in the file's order. */
  readonly entries: ReadonlyMap<string, TensorEntry>;
}

/** The most bytes per system call. */
const CHUNK = 2 ** 30;
/** Paths inside an executable of Bun, which cannot be opened. */
const EMBEDDED = /(?:\$bunfs|~BUN)[\\/]root[\\/]/;

/** Node's synchronous functions, loaded on first use. */
function files(): typeof import("node:fs") {
  return globalThis.process.getBuiltinModule("node:fs");
}

/** Fills `into` with the bytes of a file from `begin` on. */
export type Read = (begin: number, into: Uint8Array) => void;

/** {@link Read} of a file that has to be as before. */
function readInto(path: Path, identity: Identity, begin: number, into: Uint8Array): void {
  const { openSync, fstatSync, readSync, closeSync } = files();
  const descriptor = openSync(path, "r");
  try {
    checkUnchanged(fstatSync(descriptor), identity, String(path), begin);
    for (let at = 0; at < into.length;) {
      const length = Math.min(CHUNK, into.length - at);
      const count = readSync(descriptor, into, at, length, begin + at);
      if (count === 0) {
        throw new FormatError("the file has become shorter", String(path), begin + at);
      }
      at += count;
    }
  } finally {
    closeSync(descriptor);
  }
}

/** A file that is mapped, or read on request. */
export interface FileBytes {
  /** Its path. */
  readonly path: Path;
  /** What it was before its header was read. */
  readonly identity: Identity;
  /** Its memory, or why it is not mapped. */
  readonly mapped: MappedFile | Unavailable;
}

/** Opens a file. */
export async function openBytes(path: Path, { mmap = true }: SourceOptions): Promise<FileBytes> {
  const identity = host.identity(path);
  const mapped = await tryToMap(path, mmap);
  if (identity !== undefined && !("reason" in mapped)) return { path, identity, mapped };
  // Times of Node's functions have more digits.
  const { stat } = await import("node:fs/promises");
  return { path, identity: await stat(path), mapped };
}

/**
 * Throws a FormatError if the bytes of a mapped file have changed where they are. A file that
 * another one has replaced, or that was removed, has its bytes.
 */
function checkMapped({ path, identity }: FileBytes, begin: number): void {
  const now = host.identity(path);
  if (now === undefined || !isSameFile(now, identity)) return;
  checkUnchanged(now, identity, String(path), begin);
}

/**
 * What reads a file: from its memory, if it is mapped. With `copies` it reads from the file, so that the
 * pages of what is copied do not stay in the memory of the process.
 */
export function readerOf(bytes: FileBytes, copies = false): Read {
  const { path, identity, mapped } = bytes;
  if ("reason" in mapped) return (begin, into) => readInto(path, identity, begin, into);
  return (begin, into) => {
    // The path may lead to another file meanwhile.
    const isThere = copies && isSameFile(host.identity(path) ?? { size: 0 }, identity);
    if (isThere) return readInto(path, identity, begin, into);
    checkMapped(bytes, begin);
    into.set(bytesIn(mapped, begin, begin + into.length, String(path)));
  };
}

/**
 * The entry of elements that have the same bytes in the file as in memory, and of MXFP4, which is
 * unpacked. They are copied unless they are aligned in a mapped file; bools are, as they are checked
 * and must not change with it.
 */
export function entryOf(
  { dtype, type, shape, begin, end }: SafetensorsInfo,
  file: string,
  read: Read,
  bytes?: FileBytes,
): TensorEntry {
  if (type === MXFP4) {
    const fill = (into: Uint8Array): void => fillFromMxfp4(read, begin, into);
    return { dtype: "bfloat16", type, shape, fill };
  }
  const entry = { dtype, type, shape };
  const mapped = bytes?.mapped;
  const copied = dtype === undefined || dtype === "bool" || !isAligned(dtype, begin);
  if (mapped === undefined || "reason" in mapped || copied) {
    const fill = (into: Uint8Array): void => {
      read(begin, into);
      if (dtype === "bool") checkBools(into, file, begin);
    };
    return { ...entry, fill };
  }
  let found: Storage | undefined;
  const view = (): Storage => {
    checkMapped(bytes!, begin);
    return found ??= storageIn(dtype, mapped, begin, end, file);
  };
  return { ...entry, view };
}

/** The tensors that a header lists. */
function sourceOf(
  { tensors, metadata }: GgufHeader,
  file: string,
  read: Read,
  bytes?: FileBytes,
): TensorSource {
  const entries = new Map<string, TensorEntry>();
  for (const [name, info] of tensors) entries.set(name, entryOf(info, file, read, bytes));
  return { file, metadata, entries };
}

function safetensorsSource(
  { tensors, metadata }: SafetensorsHeader,
  file: string,
  read: Read,
  bytes?: FileBytes,
): TensorSource {
  return sourceOf({ tensors, metadata: textMetadata(metadata) }, file, read, bytes);
}

/** The tensors in the bytes of a safetensors file. */
function safetensorsBytes(bytes: Uint8Array, file: string): TensorSource {
  const end = 8 + headerLength(bytes, bytes.length, file);
  const header = parseHeader(bytes.subarray(8, end), bytes.length, file);
  const read: Read = (begin, into) => into.set(bytes.subarray(begin, begin + into.length));
  return safetensorsSource(header, file, read);
}

/** Options of sources of files. */
export interface SourceOptions {
  /** The most bytes of an npz archive once inflated. */
  readonly maxBytes?: number | undefined;
  /** If false, no file is mapped. */
  readonly mmap?: boolean | undefined;
}

/** The tensors of a safetensors file: on its memory if it can be mapped, else read on request. */
export async function safetensorsFile(
  path: Path,
  options: SourceOptions = {},
): Promise<TensorSource> {
  const file = String(path);
  if (EMBEDDED.test(file)) return safetensorsBytes(await readFile(path), file);
  const bytes = await openBytes(path, options);
  const { mapped } = bytes;
  const header = "reason" in mapped
    ? (await RawSafetensorsFile.open(path)).header
    : await readHeader((begin, end) => bytesIn(mapped, begin, end, file), mapped.bytes, file);
  return safetensorsSource(header, file, readerOf(bytes), bytes);
}

// ---- GGUF --------------------------------------------------------------------------------------

/** The most bytes of a header that are read at first. */
const FIRST_BYTES = 1 << 22;

/** The tensors in the bytes of a GGUF file. */
function ggufBytes(bytes: Uint8Array, file: string): TensorSource {
  const read: Read = (begin, into) => into.set(bytes.subarray(begin, begin + into.length));
  return checkWhole(sourceOf(parseGguf(bytes, bytes.length, file)!, file, read));
}

/** The tensors of a GGUF file: on its memory if it can be mapped, else read on request. */
export async function ggufFile(path: Path, options: SourceOptions = {}): Promise<TensorSource> {
  const file = String(path);
  if (EMBEDDED.test(file)) return ggufBytes(await readFile(path), file);
  const bytes = await openBytes(path, options);
  const read = readerOf(bytes);
  const { size } = bytes.identity;
  for (let count = FIRST_BYTES;; count *= 2) {
    // A copy, as metadata is decoded later.
    const start = allocate(Math.min(count, size));
    read(0, start);
    const header = parseGguf(start, size, file);
    if (header !== undefined) return sourceOf(header, file, read, bytes);
  }
}

// ---- archives, and files by name ---------------------------------------------------------------

/** The arrays of an npz archive, which stays in memory. */
function npzBytes(bytes: Uint8Array, file: string, maxBytes: number | undefined): TensorSource {
  const entries = new Map<string, TensorEntry>();
  for (const [name, raw] of decodeNpz(bytes, { file, maxBytes })) {
    if (raw instanceof FormatError) {
      const fill = (): never => {
        throw raw;
      };
      entries.set(name, { dtype: undefined, type: raw.message, shape: [], fill });
    } else {
      const { dtype, shape, data } = raw;
      entries.set(name, { dtype, type: dtype, shape, fill: (into) => into.set(data) });
    }
  }
  if (entries.size === 0) throw new FormatError("an npz archive without arrays", file, 0);
  return { file, entries };
}

/**
 * The tensors in the bytes of a safetensors or GGUF file, or of an npz archive of at most `maxBytes`
 * once inflated.
 */
export function sourceOfBytes(given: Uint8Array, maxBytes?: number): TensorSource {
  const bytes = asBytes(given, NO_FILE);
  switch (kindOf(bytes)) {
    case "npz":
    case "zip":
      return npzBytes(bytes, NO_FILE, maxBytes);
    case "gguf":
      return ggufBytes(bytes, NO_FILE);
    default:
      return safetensorsBytes(bytes, NO_FILE);
  }
}

/** The names of files that say their kind. */
const NAMES: readonly (readonly [RegExp, KindName])[] = [
  [/\.npz$/i, "npz"],
  [/\.gguf$/i, "gguf"],
  [/\.safetensors$/i, "safetensors"],
];

/**
 * The tensors of a safetensors or GGUF file, or of an npz archive: by the file's name, or by its first
 * bytes, if the name does not say it.
 */
export async function sourceOfFile(path: Path, options: SourceOptions): Promise<TensorSource> {
  const name = String(path);
  const kind = NAMES.find(([pattern]) => pattern.test(name))?.[1] ??
    kindOf((await readStart(path, KIND_BYTES)).start);
  if (kind === "npz" || kind === "zip") {
    return npzBytes(await readFile(path), name, options.maxBytes);
  }
  return await (kind === "gguf" ? ggufFile : safetensorsFile)(path, options);
}

/** One source of the tensors of several, by a map from names to files. */
export function joinSources(
  file: string,
  files: ReadonlyMap<string, string>,
  sources: ReadonlyMap<string, TensorSource>,
): TensorSource {
  const entries = new Map<string, TensorEntry>();
  for (const [name, part] of files) {
    const entry = sources.get(part)?.entries.get(name);
    if (entry === undefined) {
      throw new FormatError(`tensor ${quote(name)} is not in ${describePath(part)}`, file, 0);
    }
    entries.set(name, entry);
  }
  return { file, entries };
}
