/**
 * Where the library that a package carries is kept: a library has to be a file to be opened, and
 * what is in a module, or in an executable, is none.
 *
 * A file's folder is called by the SHA-256 of the library, so that versions do not meet; files are
 * there whole or not at all, whoever writes at the same time; a library is compared with its hash
 * before it is opened, and one that differs is replaced. A folder that others can write into, or
 * that belongs to somebody else, is not used. Nothing here prompts.
 *
 * @module
 */
import type { Unavailable } from "./abi.ts";
import type { Entry } from "./host.ts";
import { host } from "./runtime.ts";

/** A file that a package carries. */
export interface CarriedFile {
  readonly name: string;
  readonly size: number;
  /** In hexadecimal digits. */
  readonly sha256: string;
}

/** What a package carries for one machine. */
export interface Carried {
  /** The library, and what it looks for in its own folder; none where there is no such library. */
  readonly files: readonly CarriedFile[];
  /** Where they lie by their names, if they are files of the package too. */
  readonly own?: Readonly<Record<string, URL>>;
  /** The files by their names, deflated, as base64, where they are at hand. */
  readonly content: () => Readonly<Record<string, string>> | undefined;
  /** The library in the cache, if it was found to be as it should when this was imported. */
  readonly intact?: string;
}

/** An error's message in one line. */
export function inWords(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/\s+/g, " ").trim();
}

/** The path of a `file:` URL, without what Deno takes long to load. */
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

/** `path` from the root on, wherever the program goes. */
export function fromRoot(path: string): string {
  return isFromRoot(path) ? path : below(host.folder(), path);
}

/** The value of a variable that names a folder, from the root on. */
function folderIn(name: string): string | undefined {
  const value = host.variable(name);
  return value !== undefined && isFromRoot(value) ? value : undefined;
}

/** The folder of this library in that of the user, or why it is not known. */
function usualFolder(): string | Unavailable {
  const windows = host.platform === "win32";
  const [variable, inHome] = windows
    ? ["LOCALAPPDATA", undefined]
    : host.platform === "darwin"
    ? ["HOME", "Library/Caches"]
    : ["HOME", ".cache"];
  const named = windows ? undefined : folderIn("XDG_CACHE_HOME");
  if (named !== undefined) return below(named, "rowmajor");
  const home = folderIn(variable);
  if (home !== undefined) {
    return below(inHome === undefined ? home : below(home, inHome), "rowmajor");
  }
  return {
    reason: host.may("env", variable)
      ? `${variable} names no folder`
      : `not allowed to know ${variable}, where the library is kept: use -A, or --allow-ffi, ` +
        `--allow-env=${variable}, and --allow-read and --allow-write of the cache`,
  };
}

/** The two folders in which the library may be kept, better first, or why one is not known. */
function folders(): (string | Unavailable)[] {
  const named = host.variable("ROWMAJOR_CACHE");
  const temporary = host.platform === "win32" ? folderIn("TEMP") : folderIn("TMPDIR") ?? "/tmp";
  const own = `rowmajor-${host.userId() ?? "cache"}`;
  return [
    named !== undefined && named !== "" ? named : usualFolder(),
    ...temporary === undefined ? [] : [below(temporary, own)],
  ];
}

/** The library's place in `folder`. */
function placeIn(folder: string, files: readonly CarriedFile[]): string {
  return below(below(folder, files[0]!.sha256), files[0]!.name);
}

/** A name that no other process and no other call chooses. */
function temporaryName(): string {
  return `new-${crypto.randomUUID()}`;
}

/** The number of the user, as it shows on a new file in `folder`, where one can be made. */
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

/** Why `folder`, at which `entry` lies, is not to be trusted; undefined where it is. */
function distrust(folder: string, entry: Entry): string | undefined {
  if (entry.kind !== "folder") {
    return `${folder} is ${entry.kind === "link" ? "a link, not a folder" : "no folder"}`;
  }
  if (host.platform === "win32") return undefined;
  if ((entry.mode & 0o022) !== 0) return `others can write into ${folder}`;
  // Who can look into a folder that is for its owner only is the owner.
  const user = host.userId() ?? ownerOfNew(folder);
  const foreign = user === undefined ? (entry.mode & 0o077) !== 0 : user !== entry.owner;
  return foreign ? `${folder} belongs to somebody else` : undefined;
}

/** True when all files lie beside `path`, the library, and have their sizes. */
function areThere(path: string, files: readonly CarriedFile[]): boolean {
  return files.every(({ name, size }) => {
    const entry = host.look(path.slice(0, -files[0]!.name.length) + name);
    return entry?.kind === "file" && entry.size === size;
  });
}

/** Whether this program may open the library at `path` in `folder`, and read it before that. */
function mayUse(folder: string, path: string): boolean {
  return host.may("read", folder) && host.may("ffi", path);
}

/**
 * The library in the cache, if it is as it should be. For modules that can wait and carry what takes
 * long to get; never throws.
 */
export async function findIntact(files: readonly CarriedFile[]): Promise<string | undefined> {
  if (!isWanted(files)) return undefined;
  for (const folder of folders()) {
    if (typeof folder !== "string") continue;
    try {
      const path = placeIn(folder, files);
      if (!mayUse(folder, path)) continue;
      const entry = host.look(folder);
      if (entry === undefined || distrust(folder, entry) !== undefined) continue;
      if (!areThere(path, files)) continue;
      if (await host.sha256Later(host.read(path)) === files[0]!.sha256) return path;
    } catch {
      // What cannot be read is not there; keeping it will say why.
    }
  }
  return undefined;
}

/** What Deno has to be told for `folder` to be used. */
function forbidden(folder: string): string {
  const flags = `--allow-ffi=${folder} --allow-read=${folder} --allow-write=${folder}`;
  return `not allowed to keep the library in ${folder}: use -A, or ${flags}`;
}

/** True where what a package carries would be used, and so is worth the time to get it. */
export function isWanted(files: readonly CarriedFile[]): boolean {
  return files.length > 0 && host.opens() && (host.variable("ROWMAJOR_LIB") ?? "") === "" &&
    folders().some((folder) =>
      typeof folder === "string" && mayUse(folder, placeIn(folder, files))
    );
}

/**
 * What the module at `url` holds, if this program may import it, which `load` does; undefined where it
 * cannot be had. Never throws.
 */
export async function importContent(
  url: URL,
  load: () => Promise<{ content: Readonly<Record<string, string>> }>,
): Promise<Readonly<Record<string, string>> | undefined> {
  try {
    return host.mayImport(url) ? (await load()).content : undefined;
  } catch {
    return undefined;
  }
}

/** The bytes of a file that a package carries. */
function bytesOf(file: CarriedFile, { content, own }: Carried): Uint8Array {
  const packed = content()?.[file.name];
  const url = own?.[file.name];
  let bytes: Uint8Array;
  if (packed !== undefined) {
    const { Buffer } = globalThis.process.getBuiltinModule("node:buffer");
    const { inflateRawSync } = globalThis.process.getBuiltinModule("node:zlib");
    bytes = inflateRawSync(Buffer.from(packed, "base64"));
  } else if (url !== undefined) bytes = host.read(pathOf(url));
  else throw new Error(`${file.name} could not be fetched`);
  if (host.sha256(bytes) !== file.sha256) throw new Error(`${file.name} of the package is damaged`);
  return bytes;
}

/**
 * Makes sure that the library and its files lie in `folder`, unharmed, and gives the library's path,
 * or why it cannot be kept there.
 */
function keepIn(folder: string, carried: Carried): string | Unavailable {
  const { files, intact } = carried;
  const path = placeIn(folder, files);
  if (intact === path) return path;
  if (!mayUse(folder, path)) return { reason: forbidden(folder) };
  if (host.look(folder) === undefined && host.may("write", folder)) host.makeFolder(folder);
  const entry = host.look(folder);
  if (entry === undefined) return { reason: forbidden(folder) };
  const doubt = distrust(folder, entry);
  if (doubt !== undefined) return { reason: doubt };
  if (areThere(path, files) && host.sha256(host.read(path)) === files[0]!.sha256) return path;
  if (!host.may("write", folder)) return { reason: forbidden(folder) };
  const all = files.map((file) => ({ file, bytes: bytesOf(file, carried) }));
  host.makeFolder(below(folder, files[0]!.sha256));
  // The library comes last: where it is, the others are.
  for (const { file, bytes } of all.reverse()) {
    const target = path.slice(0, -files[0]!.name.length) + file.name;
    const temporary = below(folder, temporaryName());
    try {
      host.create(temporary, bytes);
      host.rename(temporary, target);
    } catch (error) {
      if (host.look(temporary) !== undefined) host.remove(temporary);
      // On Windows a file that another process has opened stays; it came from there too.
      if (host.look(target)?.size !== file.size) throw error;
      if (host.sha256(host.read(target)) !== file.sha256) throw error;
    }
  }
  return path;
}

/**
 * The places of the library in the cache, best first; at each of them it lies unharmed when the place
 * is given, or there is a reason why not.
 */
export function* keep(carried: Carried): Generator<string | Unavailable> {
  for (const [i, folder] of folders().entries()) {
    if (typeof folder !== "string") yield folder;
    // The system's temporary folder is taken where it may be; nobody is told to allow it.
    else if (i === 0 || mayUse(folder, placeIn(folder, carried.files))) {
      try {
        yield keepIn(folder, carried);
      } catch (error) {
        yield { reason: `cannot keep the library in ${folder}: ${inWords(error)}` };
      }
    }
  }
}
