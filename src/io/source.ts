/**
 * Sources of tensors: the names, dtypes and shapes in a file at once, the elements of each tensor on
 * request, into memory that the caller has allocated, or on the memory of a mapped file.
 *
 * Requests are synchronous, and no file stays open between them. Knows nothing of the class Tensor.
 *
 * @module
 */
import type { DType } from "../base/dtype.ts";
import { FormatError } from "../base/errors.ts";
import type { Storage } from "../memory/storage.ts";
import { asBytes, checkBools, NO_FILE, quote } from "./bytes.ts";
import { type Path, RawSafetensorsFile, readFile } from "./file.ts";
import { tryToMapSafetensors } from "./mapped.ts";
import { decodeNpz } from "./npz.ts";
import {
  headerLength,
  parseHeader,
  type SafetensorsHeader,
  type SafetensorsInfo,
} from "./safetensors.ts";

/** A tensor in a file. */
export interface TensorEntry {
  /** The element type; undefined if it is not read. */
  readonly dtype: DType | undefined;
  /** The name of the element type in the file. */
  readonly type: string;
  /** The shape. */
  readonly shape: readonly number[];
  /** Writes the bytes of all elements to `into`, which has their size. */
  fill(into: Uint8Array): void;
  /**
   * The elements where they are, for as long as the storage is reachable; nothing may write it, nor
   * count it as allocated. Undefined if they have to be read by `fill`.
   */
  readonly view?: (() => Storage) | undefined;
}

/** The tensors of one or several files. */
export interface TensorSource {
  /** The path, for errors. */
  readonly file: string;
  /** The tensors by name, in the file's order. */
  readonly entries: ReadonlyMap<string, TensorEntry>;
}

/** The most bytes per system call. */
const CHUNK = 2 ** 30;
/** Paths inside an executable of Bun, which cannot be opened. */
const EMBEDDED = /(?:\$bunfs|~BUN)[\\/]root[\\/]/;
/** How zip archives begin, empty ones too. */
const ZIP: readonly (readonly number[])[] = [[0x50, 0x4b, 3, 4], [0x50, 0x4b, 5, 6]];

/** Node's synchronous functions, loaded on first use. */
function files(): typeof import("node:fs") {
  return globalThis.process.getBuiltinModule("node:fs");
}

/** What shows that a file is still the same. */
export interface Identity {
  readonly size: number;
  readonly ino: number;
  readonly mtimeMs: number;
}

/** Fills `into` with the bytes of a file from `begin` on, if it is still the same file. */
export function readInto(
  path: Path,
  { size, ino, mtimeMs }: Identity,
  begin: number,
  into: Uint8Array,
): void {
  const { openSync, fstatSync, readSync, closeSync } = files();
  const descriptor = openSync(path, "r");
  try {
    const now = fstatSync(descriptor);
    if (now.size !== size || now.ino !== ino || now.mtimeMs !== mtimeMs) {
      throw new FormatError("the file has changed since it was opened", String(path), begin);
    }
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

/**
 * Throws a FormatError if the bytes of a mapped file have changed where they are. A file that
 * another one has replaced, or that was removed, has its bytes.
 */
function checkUnchanged(path: Path, { size, ino, mtimeMs }: Identity): void {
  const now = files().statSync(path, { throwIfNoEntry: false });
  if (now === undefined || now.ino !== ino) return;
  if (now.size < size) {
    throw new FormatError("the file has become shorter", String(path), now.size);
  }
  if (now.size !== size || now.mtimeMs !== mtimeMs) {
    throw new FormatError("the file has changed since it was opened", String(path), 0);
  }
}

/** An entry of elements on the memory of a file. */
export function mappedEntry(
  { dtype, type, shape }: Pick<TensorEntry, "dtype" | "type" | "shape">,
  path: Path,
  identity: Identity,
  find: () => Storage,
): TensorEntry {
  const view = (): Storage => {
    checkUnchanged(path, identity);
    return find();
  };
  const fill = (into: Uint8Array): void => {
    const { buffer, byteOffset } = view().array;
    into.set(new Uint8Array(buffer, byteOffset, into.length));
  };
  return { dtype, type, shape, fill, view };
}

function safetensorsSource(
  header: SafetensorsHeader,
  file: string,
  read: (info: SafetensorsInfo, into: Uint8Array) => void,
): TensorSource {
  const entries = new Map<string, TensorEntry>();
  for (const [name, info] of header.tensors) {
    const { dtype, type, shape, begin } = info;
    const fill = (into: Uint8Array): void => {
      read(info, into);
      if (dtype === "bool") checkBools(into, file, begin);
    };
    entries.set(name, { dtype, type, shape, fill });
  }
  return { file, entries };
}

/** The tensors in the bytes of a safetensors file. */
function safetensorsBytes(bytes: Uint8Array, file: string): TensorSource {
  const end = 8 + headerLength(bytes, bytes.length, file);
  const header = parseHeader(bytes.subarray(8, end), bytes.length, file);
  return safetensorsSource(
    header,
    file,
    (info, into) => into.set(bytes.subarray(info.begin, info.end)),
  );
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
  { mmap = true }: SourceOptions = {},
): Promise<TensorSource> {
  const file = String(path);
  if (EMBEDDED.test(file)) return safetensorsBytes(await readFile(path), file);
  const { stat } = await import("node:fs/promises");
  const identity = await stat(path);
  const mapped = await tryToMapSafetensors(path, mmap);
  if (!("reason" in mapped)) {
    const entries = new Map<string, TensorEntry>();
    for (const [name, info] of mapped.header.tensors) {
      const find = (): Storage => mapped.get(name).storage;
      entries.set(name, mappedEntry(info, path, identity, find));
    }
    return { file, entries };
  }
  const { header } = await RawSafetensorsFile.open(path);
  return safetensorsSource(
    header,
    file,
    ({ begin }, into) => readInto(path, identity, begin, into),
  );
}

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
  if (entries.size === 0) {
    throw new FormatError(
      "a zip archive without arrays: a PyTorch checkpoint, perhaps, whose weights " +
        "safetensors.torch.save_file writes to a file that can be read",
      file,
      0,
    );
  }
  return { file, entries };
}

/**
 * The tensors in the bytes of a safetensors file or an npz archive, of at most `maxBytes` once
 * inflated.
 */
export function sourceOfBytes(given: Uint8Array, maxBytes?: number): TensorSource {
  const bytes = asBytes(given, NO_FILE);
  return ZIP.some((start) => start.every((byte, i) => bytes[i] === byte))
    ? npzBytes(bytes, NO_FILE, maxBytes)
    : safetensorsBytes(bytes, NO_FILE);
}

/** The tensors of a safetensors file or an npz archive, by the file's name. */
export async function sourceOfFile(path: Path, options: SourceOptions): Promise<TensorSource> {
  return /\.npz$/i.test(String(path))
    ? npzBytes(await readFile(path), String(path), options.maxBytes)
    : await safetensorsFile(path, options);
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
      throw new FormatError(`tensor ${quote(name)} is not in ${quote(part)}`, file, 0);
    }
    entries.set(name, entry);
  }
  return { file, entries };
}
