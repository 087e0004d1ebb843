/**
 * Reads and writes whole files and parts of them, for the formats in this folder.
 *
 * The same code for Deno and Bun: node:fs/promises, loaded on first use. Errors of the system (file
 * not found, permission denied) are passed on unchanged. Knows nothing of the class Tensor.
 *
 * @module
 */
import type { FileHandle } from "node:fs/promises";
import { DisposedError, FormatError } from "../base/errors.ts";
import { allocate, type RawTensor } from "./bytes.ts";
import {
  findInfo,
  headerLength,
  parseHeader,
  rawTensor,
  type SafetensorsHeader,
} from "./safetensors.ts";

/** A path, or a `file:` URL. */
export type Path = string | URL;

/** The most bytes per system call. */
const CHUNK = 2 ** 30;

/** Fills a new array from `begin` to `end` of an open file. */
async function readRange(
  handle: Source,
  begin: number,
  end: number,
  file: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = allocate(end - begin);
  for (let at = 0; at < bytes.length;) {
    const length = Math.min(CHUNK, bytes.length - at);
    const { bytesRead } = await handle.read(bytes, at, length, begin + at);
    if (bytesRead === 0) throw new FormatError("the file has become shorter", file, begin + at);
    at += bytesRead;
  }
  return bytes;
}

/** A readable source: an open file, or the bytes of one. */
type Source = Pick<FileHandle, "close"> & {
  stat(): Promise<{ size: number }>;
  read(
    bytes: Uint8Array,
    at: number,
    length: number,
    position: number,
  ): Promise<{ bytesRead: number }>;
};

/** A file inside an executable built by Bun. */
interface Embedded {
  readonly name: string;
  bytes(): Promise<Uint8Array>;
}

/** The file at `path` inside this executable, if Bun built it and included the file. */
function findEmbedded(path: Path): Embedded | undefined {
  const { Bun } = globalThis as { Bun?: { embeddedFiles?: readonly Embedded[] } };
  const name = /(?:\$bunfs|~BUN)[\\/]root[\\/](.*)$/.exec(String(path))?.[1];
  if (name === undefined) return undefined;
  return Bun?.embeddedFiles?.find((file) => file.name.replace(/^\.[\\/]/, "") === name);
}

/** Opens a file. Files inside an executable of Bun are read whole, as they cannot be opened. */
async function openFile(path: Path): Promise<Source> {
  const embedded = findEmbedded(path);
  if (embedded === undefined) return (await import("node:fs/promises")).open(path);
  const all = await embedded.bytes();
  return {
    stat: () => Promise.resolve({ size: all.length }),
    read: (bytes, at, length, position) => {
      const part = all.subarray(position, position + length);
      bytes.set(part, at);
      return Promise.resolve({ bytesRead: part.length });
    },
    close: () => Promise.resolve(),
  };
}

/** All bytes of a file, according to its size at the time of opening. */
export async function readFile(path: Path): Promise<Uint8Array<ArrayBuffer>> {
  const handle = await openFile(path);
  try {
    return await readRange(handle, 0, (await handle.stat()).size, String(path));
  } finally {
    await handle.close();
  }
}

/** Replaces a file's bytes. */
export async function writeFile(path: Path, bytes: Uint8Array): Promise<void> {
  const { writeFile } = await import("node:fs/promises");
  await writeFile(path, bytes);
}

/** An open .safetensors file: its header is in memory, its tensors are read on request. */
export class RawSafetensorsFile {
  /** The parsed header. */
  readonly header: SafetensorsHeader;
  /** The path, for errors. */
  readonly file: string;
  #handle: Source | undefined;

  private constructor(handle: Source, file: string, header: SafetensorsHeader) {
    this.#handle = handle;
    this.file = file;
    this.header = header;
  }

  /** Opens a file and checks its header; closes the file if that fails. */
  static async open(path: Path): Promise<RawSafetensorsFile> {
    const file = String(path);
    const handle = await openFile(path);
    try {
      const { size } = await handle.stat();
      const start = await readRange(handle, 0, Math.min(8, size), file);
      const length = headerLength(start, size, file);
      const text = await readRange(handle, 8, 8 + length, file);
      return new RawSafetensorsFile(handle, file, parseHeader(text, size, file));
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Reads one tensor. Throws a DisposedError once the file is closed. */
  async get(name: string): Promise<RawTensor> {
    const info = findInfo(this.header, name, this.file);
    if (this.#handle === undefined) {
      throw new DisposedError(`Cannot get ${JSON.stringify(name)}: ${this.file} is closed`);
    }
    const data = await readRange(this.#handle, info.begin, info.end, this.file);
    return rawTensor(info, name, data, this.file);
  }

  /** Closes the file; further calls do nothing. */
  async close(): Promise<void> {
    const handle = this.#handle;
    this.#handle = undefined;
    await handle?.close();
  }
}
