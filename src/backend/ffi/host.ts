/**
 * What a runtime does to find, keep and open the shim.
 *
 * @module
 */
import type { Shim } from "./abi.ts";

/** What lies at a path; a link is not followed. */
export interface Entry {
  readonly kind: "file" | "folder" | "link" | "other";
  readonly size: number;
  /** The permission bits; 0 on Windows. */
  readonly mode: number;
  /** The owner; -1 on Windows. */
  readonly owner: number;
}

/** Buffers in the memory of the shim, which has them again once a collector finds them lost. */
export interface Buffers {
  /** Makes one, with zeros if `zeroed` is 1; undefined where there is no memory. */
  readonly take: (bytes: number, zeroed: 0 | 1) => ArrayBuffer | undefined;
  /** A double: how many bytes they have. */
  readonly bytes: ArrayBuffer;
}

/** What a runtime does for the shim. Nothing here ever prompts. */
export interface Host {
  /** The system and the processor, as Node calls them: `"linux"`, `"x64"`. */
  readonly platform: string;
  readonly arch: string;
  /** True in a single-file executable. */
  readonly standalone: boolean;
  /** The environment variable `name`, where this program may read it. */
  variable(name: string): string | undefined;
  /** Whether this program may do that with the file or the variable `name`. */
  may(what: "ffi" | "read" | "write" | "env", name: string): boolean;
  /** Whether this program may import the module at `url`. */
  mayImport(url: URL): boolean;
  /** The number of the user, where there is one and this program may know it. */
  userId(): number | undefined;
  /** The folder in which paths begin that do not begin at the root. */
  folder(): string;
  /** What lies at `path`; undefined where nothing does. Throws what the system refuses. */
  look(path: string): Entry | undefined;
  /** The bytes of a file. */
  read(path: string): Uint8Array<ArrayBuffer>;
  /** Writes a new file for the user alone; throws where there is one. */
  create(path: string, bytes: Uint8Array): void;
  /** Makes a folder for the user alone, and those above it. */
  makeFolder(path: string): void;
  /** Moves a file, and replaces what lies there. */
  rename(from: string, to: string): void;
  /** Removes a file. */
  remove(path: string): void;
  /** The SHA-256 of `bytes`, in hexadecimal digits. */
  sha256(bytes: Uint8Array): string;
  /** The same, by what needs nothing to be loaded for it. */
  sha256Later(bytes: Uint8Array<ArrayBuffer>): Promise<string>;
  /** Whether there is a way to open libraries at all. */
  opens(): boolean;
  /** Opens the library at `path`. Throws what the runtime throws. */
  open(path: string): Shim;
  /**
   * How `shim`, opened at `path`, makes buffers; undefined where the runtime tells nobody of lost
   * ones in time. May throw.
   */
  buffers(shim: Shim, path: string): Buffers | undefined;
}
