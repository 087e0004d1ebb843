/**
 * The cache of the library that a package contains. A runtime opens libraries only from files, and
 * data in a module or an executable is not a file.
 *
 * The folder of a file is named after the SHA-256 of the library, so that versions do not collide.
 * Writes are atomic, even if several processes write at the same time. The library is compared with
 * its hash before it is opened, and replaced if it differs. A folder is not used if another user
 * owns it, can write to it, or could replace it. Nothing here prompts.
 *
 * @module
 */
import type { Unavailable } from "./abi.ts";
import type { Entry } from "./host.ts";
import { host } from "./runtime.ts";

/** The end of the names of files that are in Brotli, of which only a copy in the cache can be opened. */
export const COMPRESSED_SUFFIX = ".br";

/** A file that a package contains. */
export interface CarriedFile {
  readonly name: string;
  readonly size: number;
  /** In hexadecimal digits. */
  readonly sha256: string;
}

/** The content of a package for one machine. */
export interface Carried {
  /** The library and its dependencies in the same folder; empty if there is no such library. */
  readonly files: readonly CarriedFile[];
  /**
   * The locations of the files by name, if they are also files of the package. Undefined in a
   * bundle that does not know its own place.
   */
  readonly own?: () => Readonly<Record<string, URL>> | undefined;
  /** The files by name, in Brotli, as base64, if available. */
  readonly content: () => Readonly<Record<string, string>> | undefined;
  /** The library in the cache, if it was intact when this module was imported. */
  readonly intact?: string | undefined;
  /** The WebAssembly module, in Brotli, as base64. May throw, in a bundle that lacks it. */
  readonly wasm?: () => string | undefined;
}

/** An error's message in one line. */
export function inWords(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/\s+/g, " ").trim();
}

/** The path of a `file:` URL, without modules that Deno loads slowly. */
export function pathOf(url: URL): string {
  const path = decodeURIComponent(url.pathname);
  return host.platform === "win32" ? path.slice(1).replaceAll("/", "\\") : path;
}

/** `name` in `folder`. */
function below(folder: string, name: string): string {
  return `${folder.replace(/[\\/]+$/, "")}${host.platform === "win32" ? "\\" : "/"}${name}`;
}

function isFromRoot(path: string): boolean {
  return /^(\/|[a-z]:[\\/]|\\\\)/i.test(path);
}

/** `path` as an absolute path, independent of the working directory. */
export function fromRoot(path: string): string {
  return isFromRoot(path) ? path : below(host.folder(), path);
}

/** The value of an environment variable that names a folder, as an absolute path. */
function folderIn(name: string): string | undefined {
  const value = host.variable(name);
  return value !== undefined && isFromRoot(value) ? value : undefined;
}

/** The folder of this library in the user's cache folder, or why it is unknown. */
function usualFolder(): string | Unavailable {
  const windows = host.platform === "win32";
  const [variable, inHome] = windows
    ? ["LOCALAPPDATA", undefined]
    : host.platform === "darwin"
    ? ["HOME", "Library/Caches"]
    : ["HOME", ".cache"];
  const named = windows ? undefined : folderIn("XDG_CACHE_HOME");
  if (named !== undefined) return below(named, "rowmajor");
  const inFolder = (home: string): string =>
    below(inHome === undefined ? home : below(home, inHome), "rowmajor");
  const home = folderIn(variable);
  if (home !== undefined) return inFolder(home);
  if (host.may("env", variable)) return { reason: `${variable} names no folder` };
  const flags = flagsFor(inFolder(windows ? `%${variable}%` : `$${variable}`));
  return {
    reason: `not allowed to know ${variable}, where the library is kept: use -A, or ` +
      `--allow-env=${variable} ${flags}`,
  };
}

/** The two folders for the library, preferred one first, or why a folder is unknown. */
function folders(): (string | Unavailable)[] {
  const named = host.variable("ROWMAJOR_CACHE");
  const temporary = host.platform === "win32" ? folderIn("TEMP") : folderIn("TMPDIR") ?? "/tmp";
  const own = `rowmajor-${host.userId() ?? "cache"}`;
  return [
    named !== undefined && named !== "" ? named : usualFolder(),
    ...temporary === undefined ? [] : [below(temporary, own)],
  ];
}

/** The folder in `folder` that contains the library. */
function subfolder(folder: string, files: readonly CarriedFile[]): string {
  return below(folder, files[0]!.sha256);
}

/** The path of the library in `folder`. */
function placeIn(folder: string, files: readonly CarriedFile[]): string {
  return below(subfolder(folder, files), files[0]!.name);
}

/** How the names of files begin that are not complete. */
const TEMPORARY = "new-";
/** Milliseconds after which such a file has no writer any more. */
const ABANDONED = 3_600_000;

/** A name that no other process or call chooses. */
function temporaryName(): string {
  return TEMPORARY + crypto.randomUUID();
}

/** Removes the files of processes that were killed while they wrote to `folder`. */
function removeAbandoned(folder: string): void {
  try {
    for (const name of host.names(folder)) {
      if (!name.startsWith(TEMPORARY)) continue;
      const path = below(folder, name);
      const { mtimeMs = Infinity } = host.identity(path) ?? {};
      if (Date.now() - mtimeMs > ABANDONED) host.remove(path);
    }
  } catch {
    // The folder cannot be listed, or another process removes them.
  }
}

/** The user id of the owner of a new file in `folder`; undefined if no file can be made. */
function ownerOfNew(folder: string): number | undefined {
  if (!host.may("write", folder)) return undefined;
  const path = below(folder, temporaryName());
  try {
    host.create(path, new Uint8Array());
  } catch {
    return undefined;
  }
  const { owner } = host.look(path)!;
  host.remove(path);
  return owner;
}

/** Why `folder`, with the status `entry`, is not trusted; undefined if it is. */
function distrust(folder: string, entry: Entry): string | undefined {
  if (entry.kind !== "folder") {
    return `${folder} is ${entry.kind === "link" ? "a link, not a folder" : "no folder"}`;
  }
  if (host.platform === "win32") return undefined;
  if ((entry.mode & 0o022) !== 0) return `others can write into ${folder}`;
  // If a folder is private to its owner, a user who can read it is the owner.
  const user = host.userId() ?? ownerOfNew(folder);
  const foreign = user === undefined ? (entry.mode & 0o077) !== 0 : user !== entry.owner;
  return foreign ? `${folder} belongs to another user` : undefined;
}

/** The folders that contain `path`, the outermost first. */
function parentsOf(path: string): string[] {
  const parts = path.split("/");
  return parts.slice(0, -1).map((_, i) => parts.slice(0, i + 1).join("/") || "/");
}

/** Whether `entry` can be changed only by root and by `owner`. */
function isPrivate(entry: Entry, owner: number): boolean {
  return (entry.mode & 0o022) === 0 && (entry.owner === owner || entry.owner === 0);
}

/**
 * Why another user could replace `folder`, which belongs to `owner`; undefined if none could, as far
 * as this program may look. In a folder with the sticky bit, users can replace only their own.
 */
function distrustParents(folder: string, owner: number): string | undefined {
  if (host.platform === "win32") return undefined;
  const absolute = fromRoot(folder);
  const all = new Set(parentsOf(absolute));
  if (host.may("read", absolute)) {
    for (const parent of parentsOf(host.resolve(absolute))) all.add(parent);
  }
  for (const parent of all) {
    const entry = host.may("read", parent) ? host.look(parent) : undefined;
    if (entry === undefined) continue;
    if (entry.owner !== owner && entry.owner !== 0) return `${parent} belongs to another user`;
    if (entry.kind === "link" || (entry.mode & 0o1000) !== 0) continue;
    if ((entry.mode & 0o022) !== 0) return `others can write into ${parent}`;
  }
  return undefined;
}

/** Why `folder`, which must exist, is not trusted with the library; undefined if it is. */
function distrustAll(folder: string, files: readonly CarriedFile[]): string | undefined {
  const entry = host.look(folder)!;
  const place = subfolder(folder, files);
  const inner = host.look(place);
  return distrust(folder, entry) ?? distrustParents(folder, entry.owner) ??
    (inner === undefined || host.platform === "win32"
      ? undefined
      : inner.kind !== "folder"
      ? `${place} is not a folder`
      : isPrivate(inner, entry.owner)
      ? undefined
      : `others can write into ${place}`);
}

/** True if all files are next to `path`, the library, private to `owner`, and have their sizes. */
function areThere(path: string, files: readonly CarriedFile[], owner: number): boolean {
  return files.every(({ name, size }) => {
    const entry = host.look(path.slice(0, -files[0]!.name.length) + name);
    if (entry?.kind !== "file" || entry.size !== size) return false;
    return host.platform === "win32" || isPrivate(entry, owner);
  });
}

/** Whether this program may read and open the library at `path` in `folder`. */
function mayUse(folder: string, path: string): boolean {
  return host.may("read", folder) && host.may("ffi", path);
}

/**
 * The library in the cache, if it is intact. For modules that can wait and whose content loads
 * slowly; never throws.
 */
export async function findIntact(files: readonly CarriedFile[]): Promise<string | undefined> {
  if (!isWanted(files)) return undefined;
  for (const folder of folders()) {
    if (typeof folder !== "string") continue;
    try {
      const path = placeIn(folder, files);
      if (!mayUse(folder, path)) continue;
      const entry = host.look(folder);
      if (entry === undefined || distrustAll(folder, files) !== undefined) continue;
      if (!areThere(path, files, entry.owner)) continue;
      if (await host.sha256Later(host.read(path)) === files[0]!.sha256) return path;
    } catch {
      // An unreadable file counts as missing; a later write reports the reason.
    }
  }
  return undefined;
}

/** The permissions that Deno needs to keep the library in `folder`. */
function flagsFor(folder: string): string {
  return `--allow-ffi=${folder} --allow-read=${folder} --allow-write=${folder}`;
}

/** The message that names the permissions Deno needs for `folder`. */
function forbidden(folder: string): string {
  return `not allowed to keep the library in ${folder}: use -A, or ${flagsFor(folder)}`;
}

/** True if the content of the package would be used, and so is worth loading. */
export function isWanted(files: readonly CarriedFile[]): boolean {
  return files.length > 0 && host.opens() && (host.variable("ROWMAJOR_LIB") ?? "") === "" &&
    folders().some((folder) =>
      typeof folder === "string" && mayUse(folder, placeIn(folder, files))
    );
}

/** Why the content of the package is unavailable, after a colon. */
let whyNoContent = "";

/** The permission that Deno needs to import the module at `url`. */
function importFlag(url: URL): string {
  return url.protocol === "file:"
    ? `--allow-read=${pathOf(new URL(".", url))}`
    : `--allow-import=${url.host}`;
}

/**
 * The content of the module at `url`, imported by `load` if this program may import it; undefined
 * if it is unavailable. Never throws.
 */
export async function importContent(
  url: URL,
  load: () => Promise<{ content: Readonly<Record<string, string>> }>,
): Promise<Readonly<Record<string, string>> | undefined> {
  try {
    if (host.mayImport(url)) return (await load()).content;
    whyNoContent = `: not allowed to import it: use ${importFlag(url)}`;
  } catch (error) {
    whyNoContent = `: ${inWords(error)}`;
  }
  return undefined;
}

/** The bytes of a file that a package contains. */
function bytesOf(file: CarriedFile, { content, own }: Carried): Uint8Array {
  const packed = content()?.[file.name];
  const url = own?.()?.[file.name];
  const unpack = (content: Uint8Array): Uint8Array =>
    globalThis.process.getBuiltinModule("node:zlib").brotliDecompressSync(content);
  let bytes: Uint8Array;
  if (packed !== undefined) {
    const { Buffer } = globalThis.process.getBuiltinModule("node:buffer");
    bytes = unpack(Buffer.from(packed, "base64"));
  } else if (url !== undefined) {
    bytes = host.read(pathOf(url));
    if (url.pathname.endsWith(COMPRESSED_SUFFIX)) bytes = unpack(bytes);
  } else if (own === undefined) {
    throw new Error(`${file.name} could not be fetched${whyNoContent}`);
  } else throw new Error(`${file.name} is not in this bundle: set ROWMAJOR_LIB to its path`);
  if (host.sha256(bytes) !== file.sha256) throw new Error(`${file.name} of the package is damaged`);
  return bytes;
}

/**
 * Ensures that the library and its files are intact in `folder`. Returns the path of the library,
 * or why the folder cannot be used.
 */
function keepIn(folder: string, carried: Carried): string | Unavailable {
  const { files, intact } = carried;
  const path = placeIn(folder, files);
  if (intact === path) return path;
  if (!mayUse(folder, path)) return { reason: forbidden(folder) };
  if (host.look(folder) === undefined && host.may("write", folder)) host.makeFolder(folder);
  const entry = host.look(folder);
  if (entry === undefined) return { reason: forbidden(folder) };
  const doubt = distrustAll(folder, files);
  if (doubt !== undefined) return { reason: doubt };
  if (areThere(path, files, entry.owner) && host.sha256(host.read(path)) === files[0]!.sha256) {
    return path;
  }
  if (!host.may("write", folder)) return { reason: forbidden(folder) };
  const all = files.map((file) => ({ file, bytes: bytesOf(file, carried) }));
  removeAbandoned(folder);
  host.makeFolder(subfolder(folder, files));
  // The library is written last, so that its presence implies that of the others.
  for (const { file, bytes } of all.reverse()) {
    const target = path.slice(0, -files[0]!.name.length) + file.name;
    const temporary = below(folder, temporaryName());
    try {
      host.create(temporary, bytes);
      host.rename(temporary, target);
    } catch (error) {
      if (host.look(temporary) !== undefined) host.remove(temporary);
      // On Windows, a file that another process has opened cannot be replaced; that process wrote
      // the same file.
      if (host.look(target)?.size !== file.size) throw error;
      if (host.sha256(host.read(target)) !== file.sha256) throw error;
    }
  }
  return path;
}

/**
 * The paths of the library in the cache, best first; each is intact when it is yielded. Yields a
 * reason for each folder that cannot be used.
 */
export function* keep(carried: Carried): Generator<string | Unavailable> {
  for (const [i, folder] of folders().entries()) {
    if (typeof folder !== "string") yield folder;
    // The system's temporary folder is used if permitted; no error message requests that
    // permission.
    else if (i === 0 || mayUse(folder, placeIn(folder, carried.files))) {
      try {
        yield keepIn(folder, carried);
      } catch (error) {
        yield { reason: `cannot keep the library in ${folder}: ${inWords(error)}` };
      }
    }
  }
}
