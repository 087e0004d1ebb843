/**
 * Opens the shim in Deno, handles its files, and queries permissions; never prompts.
 *
 * Declares Deno's API in an interface of its own, so that it type-checks without Deno's types.
 * Calls Deno's functions: the modules of Node take milliseconds to load.
 *
 * @module
 */
import { type ForeignSymbol, type Shim, SYMBOLS, type Unavailable } from "./abi.ts";
import type { Buffers, Entry, Host, Identity, View } from "./host.ts";
import { openModule } from "./node_api.ts";

interface DenoEntry {
  readonly isFile: boolean;
  readonly isDirectory: boolean;
  readonly isSymlink: boolean;
  readonly size: number;
  readonly mode: number | null;
  readonly uid: number | null;
}

interface DenoStatus {
  readonly isFile: boolean;
  readonly size: number;
  readonly dev: number;
  readonly ino: number | null;
  readonly mtime: Date | null;
  readonly ctime: Date | null;
}

interface DenoNamespace {
  readonly build: { readonly os: string; readonly arch: string; readonly standalone?: boolean };
  dlopen(
    path: string,
    symbols: Record<string, { parameters: readonly string[]; result: "i32" }>,
  ): { symbols: unknown };
  permissions: { querySync(descriptor: Record<string, string>): { state: string } };
  env: { get(name: string): string | undefined };
  uid(): number | null;
  systemMemoryInfo(): { readonly total: number; readonly available: number };
  cwd(): string;
  lstatSync(path: string): DenoEntry;
  statSync(path: string | URL): DenoStatus;
  realPathSync(path: string): string;
  readFileSync(path: string): Uint8Array<ArrayBuffer>;
  writeFileSync(path: string, bytes: Uint8Array, options: object): void;
  mkdirSync(path: string, options: object): void;
  renameSync(from: string, to: string): void;
  readDirSync(path: string): Iterable<{ readonly name: string }>;
  removeSync(path: string): void;
}

/** Deno, if this runs in Deno. */
// The types of the runtime that checks this file may have another Deno, or none.
const deno = (globalThis as unknown as { Deno?: DenoNamespace }).Deno;

function granted(descriptor: Record<string, string>): boolean {
  return deno!.permissions.querySync(descriptor).state === "granted";
}

function open(path: string): Shim {
  const symbols: Record<string, { parameters: readonly string[]; result: "i32" }> = {};
  for (const [name, { parameters }] of Object.entries<ForeignSymbol>(SYMBOLS)) {
    symbols[name] = { parameters, result: "i32" };
  }
  return deno!.dlopen(path, symbols).symbols as Shim;
}

/** Deno's FFI can export memory but gets no notice when it is collected: that takes Node-API. */
function buffers(shim: Shim, path: string): Buffers | undefined {
  // A program may have dropped the permission since.
  if (!granted({ name: "ffi", path })) return undefined;
  const { take, bytes }: Partial<Buffers> = openModule(shim, path, "buffers");
  return take && bytes && { take, bytes };
}

/** As {@link buffers}; an UnsafePointerView has no finalizer, and needs all of `--allow-ffi`. */
function views(shim: Shim, path: string): View | Unavailable {
  if (!granted({ name: "ffi", path })) {
    return { reason: `not allowed to open ${path} any more: use --allow-ffi=${path}` };
  }
  const { view } = openModule(shim, path, "files");
  if (view !== undefined) return view as View;
  return { reason: `${path} has changed since it was opened` };
}

function look(path: string): Entry | undefined {
  try {
    const { isFile, isDirectory, isSymlink, size, mode, uid } = deno!.lstatSync(path);
    const kind = isSymlink ? "link" : isDirectory ? "folder" : isFile ? "file" : "other";
    return { kind, size, mode: mode ?? 0, owner: uid ?? -1 };
  } catch (error) {
    if ((error as Error).name === "NotFound") return undefined;
    throw error;
  }
}

function identity(path: string | URL): Identity | undefined {
  try {
    const { isFile, size, dev, ino, mtime, ctime } = deno!.statSync(path);
    return !isFile ? undefined : {
      ...{ size, dev, ...ino !== null && { ino } },
      ...mtime !== null && { mtimeMs: +mtime },
      ...ctime !== null && { ctimeMs: +ctime },
    };
  } catch (error) {
    if ((error as Error).name === "NotFound") return undefined;
    throw error;
  }
}

/** The origin of a module as permissions name it: the host with its port. */
function hostOf({ protocol, hostname, port }: URL): string {
  return `${hostname}:${port || (protocol === "https:" ? "443" : "80")}`;
}

/** Deno's functions, if this runs in Deno. */
export const denoHost: Host | undefined = deno && {
  platform: deno.build.os === "windows" ? "win32" : deno.build.os,
  arch: { x86_64: "x64", aarch64: "arm64" }[deno.build.arch] ?? deno.build.arch,
  standalone: deno.build.standalone === true,
  // Workers of the web count as main threads in Node's module, and those of Node lack the scope.
  isMainThread: () =>
    !("WorkerGlobalScope" in globalThis) &&
    globalThis.process.getBuiltinModule("node:worker_threads").isMainThread,
  variable: (name) => granted({ name: "env", variable: name }) ? deno.env.get(name) : undefined,
  may: (what, name) => granted({ name: what, [what === "env" ? "variable" : "path"]: name }),
  mayImport: (url) =>
    url.protocol === "file:"
      ? granted({ name: "read", path: url.pathname })
      : granted({ name: "import", host: hostOf(url) }),
  userId: () => granted({ name: "sys", kind: "uid" }) ? deno.uid() ?? undefined : undefined,
  memoryLimit: () => {
    if (!granted({ name: "sys", kind: "systemMemoryInfo" })) return undefined;
    return Math.min(deno.systemMemoryInfo().total, globalThis.process.constrainedMemory());
  },
  freeMemory: () => {
    if (!granted({ name: "sys", kind: "systemMemoryInfo" })) return undefined;
    return Math.min(deno.systemMemoryInfo().available, globalThis.process.constrainedMemory());
  },
  folder: () => deno.cwd(),
  look,
  identity,
  resolve: (path) => deno.realPathSync(path),
  read: (path) => deno.readFileSync(path),
  create: (path, bytes) => deno.writeFileSync(path, bytes, { createNew: true, mode: 0o600 }),
  makeFolder: (path) => deno.mkdirSync(path, { recursive: true, mode: 0o700 }),
  rename: (from, to) => deno.renameSync(from, to),
  names: (folder) => Array.from(deno.readDirSync(folder), ({ name }) => name),
  remove: (path) => deno.removeSync(path),
  sha256: (bytes) => {
    const { createHash } = globalThis.process.getBuiltinModule("node:crypto");
    return createHash("sha256").update(bytes).digest("hex");
  },
  sha256Later: async (bytes) => {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  },
  opens: () => true,
  open,
  buffers,
  views,
};
