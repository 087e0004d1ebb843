/**
 * Finds and opens the shim on request, and reports why it cannot.
 *
 * Importing this module opens nothing. A missing library, a denied permission or a library of
 * another version is no error: the reason is returned and the current backend stays in use. Knows
 * nothing of ops.
 *
 * @module
 */
import { ArgumentError } from "../../base/errors.ts";
import { abiHash, CONFIGURE, type Shim, STATUS, type Unavailable, VERSION } from "./abi.ts";
import { type Carried, COMPRESSED_SUFFIX, fromRoot, inWords, keep, pathOf } from "./cache.ts";
import { embedded } from "./embedded.ts";
import { host } from "./runtime.ts";
import { lastError } from "./text.ts";

export type { Unavailable } from "./abi.ts";

const FILES: Record<string, string> = {
  win32: "rowmajor.dll",
  darwin: "librowmajor.dylib",
};

/** The file name of the library on this system. */
export const LIBRARY_FILE: string = FILES[host.platform] ?? "librowmajor.so";

const NO_FFI = "this Node has no node:ffi, which opens native libraries: 26.1 and newer have it";

let shared: Shim | Unavailable | undefined;

const paths = new WeakMap<Shim, string>();

/** {@link findShim} without opening anything: undefined if no call has opened the shim yet. */
export function openedShim(): Shim | Unavailable | undefined {
  return shared;
}

/** The absolute path of an open shim: Deno accepts no other path for Node-API. */
export function shimPath(shim: Shim): string | undefined {
  return paths.get(shim);
}

/**
 * The shim from its usual place, opened once for all backends, or why there is none.
 *
 * Throws an ArgumentError if an environment variable has a value that the shim does not take.
 */
export function findShim(): Shim | Unavailable {
  if (shared !== undefined) return shared;
  const opened = openShim();
  if (!("reason" in opened) && opened.rm_configure(CONFIGURE.environment, 0) !== STATUS.ok) {
    throw new ArgumentError(lastError(opened));
  }
  return shared = opened;
}

/**
 * Opens the shim at `path`, or at the usual place: the path in `ROWMAJOR_LIB`, else the package,
 * else the output folder of zig. Checks its version. Never throws and never prompts.
 */
export function openShim(path?: string): Shim | Unavailable {
  try {
    const named = path ?? host.variable("ROWMAJOR_LIB");
    if (path !== undefined || (named !== undefined && named !== "")) return openAt(named!);
    if (embedded !== undefined) return openCarried(embedded);
    const built = new URL(`../../../zig-out/lib/${LIBRARY_FILE}`, import.meta.url);
    if (built.protocol === "file:") return openAt(pathOf(built));
    return { reason: "a remote module has no native library: set ROWMAJOR_LIB" };
  } catch (error) {
    return { reason: inWords(error) };
  }
}

/** Opens the library that a package contains: the file itself, or a copy in the cache. */
export function openCarried(carried: Carried): Shim | Unavailable {
  const { files, own } = carried;
  if (files.length === 0) {
    return {
      reason: `there is no native library for ${host.platform}-${host.arch} in this package`,
    };
  }
  // Files in an executable can be read at most, not opened.
  const file = own?.()?.[files[0]!.name];
  const isPlain = file?.protocol === "file:" && !file.pathname.endsWith(COMPRESSED_SUFFIX);
  if (isPlain && !host.standalone && mayBeThere(pathOf(file))) {
    return openAt(pathOf(file));
  }
  if (!host.opens()) return { reason: NO_FFI };
  const reasons = new Set<string>();
  for (const place of keep(carried)) {
    const opened = typeof place === "string" ? openAt(place) : place;
    if (!("reason" in opened)) return opened;
    reasons.add(opened.reason);
  }
  return { reason: [...reasons].join("; ") };
}

/** False when there is certainly no file at `path`. */
function mayBeThere(path: string): boolean {
  return !host.may("read", path) || host.look(path) !== undefined;
}

/** Whether there is something at `path` that is no file, as far as this program may look. */
function isSpecial(path: string): boolean {
  if (!host.may("read", path)) return false;
  const entry = host.look(path);
  if (entry?.kind !== "link") return entry?.kind === "other";
  const target = host.resolve(path);
  return host.may("read", target) && host.look(target)?.kind === "other";
}

/** Opens the library at `path`. */
function openAt(path: string): Shim | Unavailable {
  if (!host.opens()) return { reason: NO_FFI };
  if (!host.may("ffi", path)) {
    return { reason: `not allowed to open ${path}: use --allow-ffi=${path}` };
  }
  try {
    // To open a FIFO takes until something writes to it.
    if (isSpecial(path)) return { reason: `${path} is not a regular file` };
    const shim = host.open(path);
    if (shim.rm_version() !== VERSION) {
      return {
        reason: `${path} has version ${shim.rm_version()}, not ${VERSION}: build it again`,
      };
    }
    if (shim.rm_abi_hash() !== abiHash()) {
      return { reason: `${path} was built from other declarations: build it again` };
    }
    paths.set(shim, fromRoot(path));
    return shim;
  } catch (error) {
    const reason = explained(inWords(error));
    // Some messages of Windows contain the file name and some do not.
    return { reason: reason.includes(path) ? reason : `${path}: ${reason}` };
  }
}

/** The system's message about a library that it cannot open, with an explanation. */
export function explained(text: string): string {
  if (host.platform !== "linux") return text;
  if (/\bGLIBC_|ld-linux|lib(c|m|dl|pthread)\.so\.\d|symbol not found/.test(text)) {
    return `${text} (the native library needs glibc 2.17 or newer)`;
  }
  if (/failed to map segment/.test(text)) {
    return `${text} (its file system may be mounted noexec: name another place in ROWMAJOR_CACHE, ` +
      "or a copy of the library in ROWMAJOR_LIB)";
  }
  return text;
}
