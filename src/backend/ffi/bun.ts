/**
 * Opens the shim and handles its files in Bun and in Node.
 *
 * Requests modules by name at the time of use, so that other runtimes never load them.
 *
 * @module
 */
import {
  BUFFERS,
  FILES,
  type ForeignSymbol,
  type Shim,
  STATUS,
  SYMBOLS,
  type Unavailable,
} from "./abi.ts";
import type { Buffers, Entry, Host, View } from "./host.ts";
import { Collections, type Collector } from "./jsc.ts";

interface BunFfi {
  dlopen(
    path: string,
    symbols: Record<string, { args: string[]; returns: "i32" }>,
  ): { symbols: unknown };
  toArrayBuffer(
    address: number,
    from: number,
    bytes: number,
    context: number,
    lost: number,
  ): ArrayBuffer;
}

interface NodeFfi {
  dlopen(
    path: string,
    symbols: Record<string, { arguments: readonly string[]; return: "i32" }>,
  ): { functions: unknown };
}

interface BunNamespace {
  readonly isStandaloneExecutable?: boolean;
  readonly CryptoHasher: new (name: "sha256") => {
    update(bytes: Uint8Array): { digest(encoding: "hex"): string };
  };
}

/** Bun, if this runs in Bun. */
const bun = (globalThis as { Bun?: BunNamespace }).Bun;
/** Absent in browsers and in the workers of some clouds. */
const process = "Deno" in globalThis
  ? undefined
  : (globalThis as { process?: NodeJS.Process }).process;

function fs(): typeof import("node:fs") {
  return globalThis.process.getBuiltinModule("node:fs");
}

function bunFfi(): BunFfi {
  return globalThis.process.getBuiltinModule("bun:ffi") as BunFfi;
}

/** {@link Host.open} in Bun. */
function openInBun(path: string): Shim {
  const symbols: Record<string, { args: string[]; returns: "i32" }> = {};
  for (const [name, { parameters }] of Object.entries<ForeignSymbol>(SYMBOLS)) {
    const args = parameters.map((type) => type === "buffer" ? "ptr" : type);
    symbols[name] = { args, returns: "i32" };
  }
  return bunFfi().dlopen(path, symbols).symbols as Shim;
}

/**
 * {@link Host.buffers}; undefined in Node, which finalizes lost buffers only when the program
 * waits.
 */
function buffers(shim: Shim): Buffers | undefined {
  if (bun === undefined) return undefined;
  const { toArrayBuffer } = bunFfi();
  const numbers = new Float64Array(3);
  if (shim.rm_buffers(BUFFERS.open, numbers) !== STATUS.ok) return undefined;
  const [owner, ownerLost, bufferLost] = [numbers[0]!, numbers[1]!, numbers[2]!];
  // The context must be an address; the callback does not read it.
  const bytes = toArrayBuffer(owner, 0, 8, owner, ownerLost);
  const inUse = new Float64Array(bytes);
  const collector = globalThis.process.getBuiltinModule("bun:jsc") as
    | Collector
    | undefined;
  const objects = (): number => {
    const { heapUsed, external } = globalThis.process.memoryUsage();
    return heapUsed - external;
  };
  const collections = collector &&
    new Collections(collector, () => inUse[0]!, objects);
  const take = (what: number, bytes: number, zeroed: 0 | 1): boolean => {
    numbers[0] = owner;
    numbers[1] = bytes;
    numbers[2] = zeroed;
    return shim.rm_buffers(what, numbers) === STATUS.ok && numbers[0] !== 0;
  };
  return {
    bytes,
    take(bytes, zeroed) {
      collections?.count(bytes);
      if (
        !take(BUFFERS.takeKept, bytes, zeroed) &&
        !(collections?.look() && take(BUFFERS.takeKept, bytes, zeroed)) &&
        !take(BUFFERS.take, bytes, zeroed)
      ) return undefined;
      try {
        return toArrayBuffer(numbers[0]!, 0, bytes, owner, bufferLost);
      } catch {
        shim.rm_buffers(BUFFERS.give, numbers);
        return undefined;
      }
    },
  };
}

/** {@link Host.views}; none in Node, as with {@link buffers}. */
function views(shim: Shim): View | Unavailable {
  if (bun === undefined) return { reason: "Node reports lost buffers only when the program waits" };
  const { toArrayBuffer } = bunFfi();
  const numbers = new Float64Array(1);
  return (mapping, address, bytes) => {
    numbers[0] = mapping;
    shim.rm_files(FILES.hold, null, numbers);
    try {
      return toArrayBuffer(address, 0, bytes, mapping, numbers[0]!);
    } catch {
      numbers[0] = mapping;
      shim.rm_files(FILES.release, null, numbers);
      return undefined;
    }
  };
}

/**
 * Whether Node has an FFI of its own: since 26.1, unless a flag turns it off. Access prints a
 * warning.
 */
function nodeOpens(): boolean {
  return process?.getBuiltinModule?.("node:module").isBuiltin("node:ffi") ?? false;
}

/** {@link Host.open} in Node. */
function openInNode(path: string): Shim {
  const symbols: Record<string, { arguments: readonly string[]; return: "i32" }> = {};
  for (const [name, { parameters }] of Object.entries<ForeignSymbol>(SYMBOLS)) {
    symbols[name] = { arguments: parameters, return: "i32" };
  }
  const ffi = globalThis.process.getBuiltinModule("node:ffi") as NodeFfi;
  return ffi.dlopen(path, symbols).functions as Shim;
}

function look(path: string): Entry | undefined {
  const found = fs().lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return undefined;
  const kind = found.isSymbolicLink()
    ? "link"
    : found.isDirectory()
    ? "folder"
    : found.isFile()
    ? "file"
    : "other";
  const windows = process?.platform === "win32";
  return {
    kind,
    size: found.size,
    mode: windows ? 0 : found.mode & 0o7777,
    owner: windows ? -1 : found.uid,
  };
}

function memoryLimit(): number | undefined {
  const total = process?.getBuiltinModule?.("node:os").totalmem();
  // Node gives 0 where there is no limit.
  return total && Math.min(total, process?.constrainedMemory?.() || total);
}

function freeMemory(): number | undefined {
  const limit = memoryLimit();
  // macOS counts memory that it can take from caches as used.
  if (limit === undefined || process?.platform === "darwin") return limit;
  return Math.min(limit, process!.getBuiltinModule!("node:os").freemem());
}

function sha256(bytes: Uint8Array): string {
  if (bun !== undefined) return new bun.CryptoHasher("sha256").update(bytes).digest("hex");
  const { createHash } = globalThis.process.getBuiltinModule("node:crypto");
  return createHash("sha256").update(bytes).digest("hex");
}

/** Bun, or Node. */
export const nodeHost: Host = {
  platform: process?.platform ?? "unknown",
  arch: process?.arch ?? "unknown",
  standalone: bun?.isStandaloneExecutable === true,
  isMainThread: () => process?.getBuiltinModule("node:worker_threads").isMainThread ?? false,
  variable: (name) => process?.env[name],
  may: () => true,
  mayImport: () => true,
  userId: () => process?.getuid?.(),
  memoryLimit,
  freeMemory,
  folder: () => globalThis.process.cwd(),
  look,
  identity: (path) => {
    const found = fs().statSync(path, { throwIfNoEntry: false });
    return found?.isFile() ? found : undefined;
  },
  resolve: (path) => fs().realpathSync(path),
  read: (path) => fs().readFileSync(path),
  create: (path, bytes) => fs().writeFileSync(path, bytes, { flag: "wx", mode: 0o600 }),
  makeFolder: (path) => void fs().mkdirSync(path, { recursive: true, mode: 0o700 }),
  rename: (from, to) => fs().renameSync(from, to),
  names: (folder) => fs().readdirSync(folder),
  remove: (path) => fs().unlinkSync(path),
  sha256,
  sha256Later: (bytes) => Promise.resolve(sha256(bytes)),
  opens: () => bun !== undefined || nodeOpens(),
  open: bun !== undefined ? openInBun : openInNode,
  buffers,
  views,
};
