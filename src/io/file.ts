/**
 * Reads and writes whole files and parts of them, for the formats in this folder.
 *
 * The same code for Deno and Bun: node:fs/promises, loaded on first use. Errors of the system (file
 * not found, permission denied) are passed on, with a stack of the program. Knows nothing of the class Tensor.
 *
 * @module
 */
import type { FileHandle } from "node:fs/promises";
import type { Identity } from "../backend/ffi/host.ts";
import { host } from "../backend/ffi/runtime.ts";
import { DisposedError, FormatError } from "../base/errors.ts";
import { systemError } from "../base/stack.ts";
import { allocate, type RawTensor } from "./bytes.ts";
import { KIND_BYTES } from "./kinds.ts";
import {
  findInfo,
  headerLength,
  parseInSteps,
  rawTensor,
  type SafetensorsHeader,
} from "./safetensors.ts";

/** A path, or a `file:` URL. */
export type Path = string | URL;

/** Waits for a call of the system, whose own errors have no frame of the program. */
export async function passOn<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw systemError(error);
  }
}

/** The most bytes per system call. */
const CHUNK = 2 ** 30;

/** Fills a new array from `begin` to `end` of an open file. */
async function readRange(
  handle: FileHandle,
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

/** A file that can be read. */
interface Source {
  stat(): Promise<Identity>;
  /** The bytes from `begin` to `end`. */
  read(begin: number, end: number): Promise<Uint8Array<ArrayBuffer>>;
  close(): Promise<void>;
}

/** Whether a path leads to the file of before, whose bytes may be others. */
export function isSameFile(now: Identity, before: Identity): boolean {
  return now.dev === before.dev && now.ino === before.ino;
}

/** Throws a FormatError, for bytes that are to be read at `at`, unless a file is as before. */
export function checkUnchanged(now: Identity, before: Identity, file: string, at: number): void {
  const isSame = isSameFile(now, before);
  if (isSame && now.size < before.size) {
    throw new FormatError("the file has become shorter", file, now.size);
  }
  if (!isSame || now.size !== before.size || now.mtimeMs !== before.mtimeMs) {
    throw new FormatError("the file has changed since it was opened", file, at);
  }
}

/** A file inside an executable built by Bun: a Blob, of which parts are read alone. */
interface Embedded {
  readonly name: string;
  readonly size: number;
  slice(begin: number, end: number): { bytes(): Promise<Uint8Array<ArrayBuffer>> };
}

/** The file at `path` inside this executable, if Bun built it and included the file. */
function findEmbedded(path: Path): Embedded | undefined {
  const { Bun } = globalThis as { Bun?: { embeddedFiles?: readonly Embedded[] } };
  const name = /(?:\$bunfs|~BUN)[\\/]root[\\/](.*)$/.exec(String(path))?.[1];
  if (name === undefined) return undefined;
  return Bun?.embeddedFiles?.find((file) => file.name.replace(/^\.[\\/]/, "") === name);
}

/**
 * Opens a file. Files inside an executable of Bun cannot be opened, but read.
 *
 * @throws {FormatError} If the path is no regular file: opening a pipe would wait for a writer.
 */
async function openFile(path: Path): Promise<Source> {
  const embedded = findEmbedded(path);
  if (embedded === undefined) {
    const { open, stat } = await import("node:fs/promises");
    const file = String(path);
    if (!(await passOn(stat(path))).isFile()) throw new FormatError("not a file", file, 0);
    const handle = await passOn(open(path));
    return {
      stat: () => handle.stat(),
      read: (begin, end) => readRange(handle, begin, end, file),
      close: () => handle.close(),
    };
  }
  return {
    stat: () => Promise.resolve({ size: embedded.size }),
    read: (begin, end) => embedded.slice(begin, end).bytes(),
    close: () => Promise.resolve(),
  };
}

/**
 * The size of a file that this program may read.
 *
 * @throws As {@link readFile}.
 */
export async function sizeOf(path: Path): Promise<number> {
  const handle = await openFile(path);
  try {
    return (await handle.stat()).size;
  } finally {
    await handle.close();
  }
}

/** The first bytes of a file, at most `count`, and the size of the file. */
export async function readStart(
  path: Path,
  count: number,
): Promise<{ start: Uint8Array<ArrayBuffer>; size: number }> {
  const handle = await openFile(path);
  try {
    const { size } = await handle.stat();
    return { start: await handle.read(0, Math.min(count, size)), size };
  } finally {
    await handle.close();
  }
}

/** All bytes of a file, according to its size at the time of opening. */
export async function readFile(path: Path): Promise<Uint8Array<ArrayBuffer>> {
  const handle = await openFile(path);
  try {
    return await handle.read(0, (await handle.stat()).size);
  } finally {
    await handle.close();
  }
}

/**
 * Replaces a file's bytes: those who read it meet the old bytes or the new ones, whole, even if the
 * program or the machine fails meanwhile.
 *
 * Writes into the file itself where no other can be made beside it or take its place, as for a file
 * that is mounted, and for what is no regular file.
 */
export async function writeFile(path: Path, bytes: Uint8Array): Promise<void> {
  const fs = await import("node:fs/promises");
  const old = await fs.stat(path).catch(() => undefined);
  if (old?.isFile() === false || !await replaceFile(path, bytes, old?.mode)) {
    await passOn(fs.writeFile(path, bytes));
  }
}

/** The system's codes for a file that another program has open, on Windows. */
const IN_USE = ["EACCES", "EPERM", "EBUSY"];
/** The most milliseconds to wait for its end. */
const LONGEST_WAIT = 500;

/** Gives a file the name of another one, which it replaces in one step. */
export async function replace(from: string, to: string): Promise<void> {
  const { rename } = await import("node:fs/promises");
  for (let wait = 1;; wait *= 2) {
    try {
      return await rename(from, to);
    } catch (error) {
      const { code = "" } = error as { code?: string };
      const again = host.platform === "win32" && IN_USE.includes(code) && wait < LONGEST_WAIT;
      if (!again) throw error;
    }
    // Such as a scanner, which opens new files.
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

/**
 * The system's codes where a file can be written, but no other beside it, or not replaced; ENOENT is
 * a missing folder, which the error of the file itself names.
 */
const IN_PLACE = ["EACCES", "EPERM", "EROFS", "EBUSY", "EXDEV", "ENOENT"];

/** Writes a file beside `path` and renames it; false if that is not possible. */
async function replaceFile(
  path: Path,
  bytes: Uint8Array,
  mode: number | undefined,
): Promise<boolean> {
  const fs = await import("node:fs/promises");
  const { dirname, join } = await import("node:path");
  const { fileURLToPath } = await import("node:url");
  let target = typeof path === "string" ? path : fileURLToPath(path);
  let beside: string | undefined;
  try {
    if (mode !== undefined) {
      // Throws for a file that may not be written. In Deno, `access` asks for the user's number.
      await (await fs.open(target, fs.constants.O_WRONLY)).close();
      // A link stays one, to the new file.
      target = await fs.realpath(target);
    }
    // Without the target's name, which may be as long as names can be.
    beside = join(dirname(target), `.rowmajor-${crypto.randomUUID().slice(0, 8)}.new`);
    const handle = await fs.open(beside, "wx", mode);
    try {
      // The process's mask may have cleared bits of the mode.
      if (mode !== undefined) await handle.chmod(mode & 0o7777);
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await replace(beside, target);
    return true;
  } catch (error) {
    if (beside !== undefined) await fs.rm(beside, { force: true }).catch(() => {});
    const { code = "", name } = error as { code?: string; name: string };
    if (name === "NotCapable" || IN_PLACE.includes(code)) return false;
    throw systemError(error);
  }
}

/** Parses the header of a .safetensors file of `size` bytes, which `read` gives in parts. */
export async function readHeader(
  read: (begin: number, end: number) => Uint8Array | Promise<Uint8Array>,
  size: number,
  file: string,
): Promise<SafetensorsHeader> {
  const start = await read(0, Math.min(KIND_BYTES, size));
  const text = await read(8, 8 + headerLength(start, size, file));
  const steps = parseInSteps(text, size, file);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    // A long header must not keep others waiting.
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
}

/**
 * A .safetensors file: its header is in memory, its tensors are read on request.
 *
 * Each read opens the file anew, so that a file that nothing closes costs no descriptor.
 */
export class RawSafetensorsFile {
  /** The parsed header. */
  readonly header: SafetensorsHeader;
  /** The path, for errors. */
  readonly file: string;
  readonly #path: Path;
  readonly #identity: Identity;
  #closed = false;

  private constructor(path: Path, header: SafetensorsHeader, identity: Identity) {
    this.#path = path;
    this.file = String(path);
    this.header = header;
    this.#identity = identity;
  }

  /** Reads and checks the header of a file. */
  static async open(path: Path): Promise<RawSafetensorsFile> {
    const file = String(path);
    const handle = await openFile(path);
    try {
      const identity = await handle.stat();
      const header = await readHeader(handle.read, identity.size, file);
      return new RawSafetensorsFile(path, header, identity);
    } finally {
      await handle.close();
    }
  }

  /**
   * Reads one tensor.
   *
   * @throws {DisposedError} Once the file is closed.
   */
  async get(name: string): Promise<RawTensor> {
    const info = findInfo(this.header, name, this.file);
    return rawTensor(info, name, await this.read(name), this.file);
  }

  /**
   * Reads the bytes of one tensor.
   *
   * @throws {DisposedError} Once the file is closed.
   */
  async read(name: string): Promise<Uint8Array<ArrayBuffer>> {
    const info = findInfo(this.header, name, this.file);
    if (this.#closed) {
      throw new DisposedError(`Cannot get ${JSON.stringify(name)}: ${this.file} is closed`);
    }
    const handle = await openFile(this.#path);
    try {
      checkUnchanged(await handle.stat(), this.#identity, this.file, info.begin);
      return await handle.read(info.begin, info.end);
    } finally {
      await handle.close();
    }
  }

  /** Ends the use of the file; further calls do nothing. */
  close(): Promise<void> {
    this.#closed = true;
    return Promise.resolve();
  }
}
