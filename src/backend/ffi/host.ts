/**
 * The functions of a runtime to find, keep and open the shim.
 *
 * @module
 */
import type { Shim, Unavailable } from "./abi.ts";

/** The status of a path; a link is not followed. */
export interface Entry {
  readonly kind: "file" | "folder" | "link" | "other";
  readonly size: number;
  /** The permission bits; 0 on Windows. */
  readonly mode: number;
  /** The owner; -1 on Windows. */
  readonly owner: number;
}

/** What shows that a file is still the same. */
export interface Identity {
  readonly size: number;
  readonly dev?: number;
  readonly ino?: number;
  readonly mtimeMs?: number;
  /** The time of the last change of the file or of its status. */
  readonly ctimeMs?: number;
}

/** Buffers in the memory of the shim, which reuses them after garbage collection. */
export interface Buffers {
  /** Makes one, zeroed if `zeroed` is 1; undefined if there is no memory. */
  readonly take: (bytes: number, zeroed: 0 | 1) => ArrayBuffer | undefined;
  /** A double: the bytes of the live buffers. */
  readonly bytes: ArrayBuffer;
}

/**
 * Makes an ArrayBuffer of `bytes` bytes from `address` on, in a mapped file of the shim, which
 * stays mapped until it is lost; undefined if the runtime refuses it.
 */
export type View = (mapping: number, address: number, bytes: number) => ArrayBuffer | undefined;

/** The functions that a runtime provides for the shim. None of them prompts. */
export interface Host {
  /** The system and the processor in Node's terms: `"linux"`, `"x64"`. */
  readonly platform: string;
  readonly arch: string;
  /** True in a single-file executable. */
  readonly standalone: boolean;
  /** False in a worker. */
  isMainThread(): boolean;
  /** The environment variable `name`, if this program may read it. */
  variable(name: string): string | undefined;
  /** Whether this program may access the file or variable `name` in that way. */
  may(what: "ffi" | "read" | "write" | "env", name: string): boolean;
  /** Whether this program may import the module at `url`. */
  mayImport(url: URL): boolean;
  /** The user id, if the system has one and this program may read it. */
  userId(): number | undefined;
  /** The most bytes that this process may use, if this program may know it. */
  memoryLimit(): number | undefined;
  /** The bytes that programs can still use, if this program may know it. */
  freeMemory(): number | undefined;
  /** The folder that relative paths start from. */
  folder(): string;
  /** The status of `path`; undefined if nothing exists there. Throws the errors of the system. */
  look(path: string): Entry | undefined;
  /** The identity of the regular file that a path leads to; undefined if there is none. */
  identity(path: string | URL): Identity | undefined;
  /** `path` without links; throws if nothing exists there. */
  resolve(path: string): string;
  /** The bytes of a file. */
  read(path: string): Uint8Array<ArrayBuffer>;
  /** Writes a new file with access for the user only; throws if it exists. */
  create(path: string, bytes: Uint8Array): void;
  /** Makes a folder with access for the user only, and its parents. */
  makeFolder(path: string): void;
  /** Moves a file, and replaces the target. */
  rename(from: string, to: string): void;
  /** The names in a folder. */
  names(folder: string): readonly string[];
  /** Removes a file. */
  remove(path: string): void;
  /** The SHA-256 of `bytes`, in hexadecimal digits. */
  sha256(bytes: Uint8Array): string;
  /** The same, without loading a module. */
  sha256Later(bytes: Uint8Array<ArrayBuffer>): Promise<string>;
  /** Whether the runtime can open libraries at all. */
  opens(): boolean;
  /** Opens the library at `path`. Throws the errors of the runtime. */
  open(path: string): Shim;
  /**
   * The buffers of `shim`, opened at `path`; undefined if the runtime does not report lost buffers
   * in time. May throw.
   */
  buffers(shim: Shim, path: string): Buffers | undefined;
  /** The views on files that `shim`, opened at `path`, maps, or why there are none. May throw. */
  views(shim: Shim, path: string): View | Unavailable;
}
