/**
 * Downloads the files of a model into the cache that the tools of the hub share: see
 * io/find_model.ts for its layout.
 *
 * A file is written to `blobs/<checksum>.incomplete`, which a later call continues, compared with its
 * checksum, and renamed; a link in the folder of the commit has its name. Knows nothing of what is
 * in the files.
 *
 * @module
 */
import type { Hash } from "node:crypto";
import { host } from "../backend/ffi/runtime.ts";
import { ArgumentError, FormatError, PackageError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { describe } from "../base/text.ts";
import { cacheFolder, checkModel, modelFolder } from "../io/find_model.ts";
import { checkOptions } from "../ops/infer.ts";

/** How far a download is. */
export interface DownloadProgress {
  /** The file that was read last. */
  readonly file: string;
  /** The bytes of all files that are here. */
  readonly loaded: number;
  /** The bytes of all files. */
  readonly total: number;
}

/** Options of {@link download}. */
export interface DownloadOptions {
  /** A branch, a tag or a commit; `"main"` by default. */
  readonly revision?: string | undefined;
  /**
   * Names of files; * stands for any characters. By default the weights, settings and vocabularies
   * in the top folder: `*.safetensors`, `*.json`, `*.txt`, `*.model`.
   */
  readonly files?: readonly string[] | undefined;
  /** An access token, for models that are not public. */
  readonly token?: string | undefined;
  /** The folder of the cache, in the place of the usual one. */
  readonly cache?: string | undefined;
  /** The address of a hub other than the usual one. */
  readonly hubUrl?: string | undefined;
  /** Called after each piece of a file. */
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
  /** Ends the download; a later one continues it. */
  readonly signal?: AbortSignal | undefined;
}

/** The part of the package that is in use. */
interface Hub {
  modelInfo(params: object): Promise<{ sha?: unknown }>;
  listFiles(params: object): AsyncIterable<ListedFile>;
  downloadFile(params: object): Promise<Blob | null>;
}

/** An entry of the hub's list of files. */
interface ListedFile {
  readonly type: string;
  readonly path: string;
  readonly size: number;
  readonly oid?: string;
  readonly lfs?: { readonly oid: string; readonly size: number };
}

/** A file to have. */
interface Wanted {
  readonly path: string;
  readonly size: number;
  /** Of SHA-256, or of git, which is SHA-1 of a header and the bytes. */
  readonly checksum: string;
}

/** What all steps of a download need. */
interface Task {
  readonly hub: Hub;
  /** The model, in the package's terms. */
  readonly repo: object;
  readonly commit: string;
  /** Parameters of all functions of the package. */
  readonly common: object;
  readonly signal: AbortSignal | undefined;
  /** The bytes that are here. */
  loaded: number;
  /** Notes that `bytes` more of `file` are here. */
  note(file: string, bytes: number): void;
}

const USUAL = /^[^/]+\.(safetensors|json|txt|model)$/;

async function importHub(): Promise<Hub> {
  try {
    return await import("@huggingface/hub") as unknown as Hub;
  } catch (cause) {
    throw new PackageError("download", "@huggingface/hub", { cause });
  }
}

/** Whether a name fits one of the patterns. */
function selector(patterns: readonly string[] | undefined): (path: string) => boolean {
  if (patterns === undefined) return (path) => USUAL.test(path);
  const expressions = patterns.map((pattern) =>
    new RegExp(
      `^${
        pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join(".*")
      }$`,
    )
  );
  return (path) => expressions.some((expression) => expression.test(path));
}

/** The entry of the list, checked: it comes from another machine, and becomes paths here. */
function wantedFile({ path, size, oid, lfs }: ListedFile, id: string): Wanted {
  const checksum = lfs?.oid ?? oid;
  const bytes = lfs?.size ?? size;
  const parts = typeof path === "string" ? path.split("/") : [];
  const isPath = parts.length > 0 &&
    parts.every((part) => part !== "" && part !== "." && part !== ".." && !/[\\:\0]/.test(part));
  const isChecksum = typeof checksum === "string" &&
    /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(checksum);
  if (!isPath || !isChecksum || !Number.isSafeInteger(bytes) || bytes < 0) {
    throw new FormatError(
      `the hub lists the file ${describe(path)} of ${describe(bytes)} bytes with the checksum ` +
        describe(checksum),
      id,
      0,
    );
  }
  return { path, size: bytes, checksum };
}

/** The server sent a whole file instead of the rest of it. */
const WHOLE = "the server sends whole files only";

/** `fetch` that ends with the signal, and refuses answers that begin elsewhere than asked. */
function fetcher(signal: AbortSignal | undefined): typeof fetch {
  return async (input: Parameters<typeof fetch>[0], init?: RequestInit) => {
    const response = await fetch(input, signal === undefined ? init : { ...init, signal });
    const range = new Headers(init?.headers).get("range");
    if (range !== null && !range.startsWith("bytes=0-") && response.status === 200) {
      await response.body?.cancel();
      throw new Error(WHOLE);
    }
    return response;
  };
}

/** The size of a file; undefined if there is none. */
async function sizeOf(path: string): Promise<number | undefined> {
  const { stat } = await import("node:fs/promises");
  try {
    return (await stat(path)).size;
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return undefined;
    throw error;
  }
}

/** The hash of a file by its checksum, after the bytes that are here already. */
async function hashOf({ checksum, size }: Wanted, path: string, here: number): Promise<Hash> {
  const { createHash } = await import("node:crypto");
  const { createReadStream } = await import("node:fs");
  const git = checksum.length === 40;
  const hash = createHash(git ? "sha1" : "sha256");
  if (git) hash.update(`blob ${size}\0`);
  if (here > 0) { for await (const piece of createReadStream(path)) hash.update(piece); }
  return hash;
}

/** The pieces of a file from `here` on. */
async function* piecesOf(task: Task, file: Wanted, here: number): AsyncGenerator<Uint8Array> {
  const { hub, repo, commit, common, signal } = task;
  const params = { ...common, repo, path: file.path, revision: commit, xet: false };
  try {
    const blob = await hub.downloadFile(params);
    if (blob === null) throw new FormatError("the hub does not have the file", file.path, 0);
    const rest = here === 0 ? blob : blob.slice(here, file.size);
    for await (const piece of rest.stream() as unknown as AsyncIterable<Uint8Array>) {
      signal?.throwIfAborted();
      yield piece;
    }
  } catch (error) {
    signal?.throwIfAborted();
    // Streams of the package end with the message alone.
    throw error instanceof Error ? error : new Error(`Cannot download ${file.path}: ${error}`);
  }
}

/**
 * Continues `path`, which has the first `here` bytes of a file; false if the whole does not have its
 * checksum.
 */
async function fetchRest(task: Task, file: Wanted, path: string, here: number): Promise<boolean> {
  const { open } = await import("node:fs/promises");
  const hash = await hashOf(file, path, here);
  let at = here;
  task.note(file.path, here);
  const handle = await open(path, here > 0 ? "a" : "w");
  try {
    if (at < file.size) {
      for await (const piece of piecesOf(task, file, here)) {
        at += piece.length;
        if (at > file.size) break;
        await handle.writeFile(piece);
        hash.update(piece);
        task.note(file.path, piece.length);
      }
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
  if (at < file.size) {
    throw new FormatError(`the download ended at ${at} of ${file.size} bytes`, file.path, at);
  }
  return at === file.size && hash.digest("hex") === file.checksum;
}

/** Downloads a file to `blob`, unless it is there. */
async function fetchBlob(task: Task, file: Wanted, blob: string): Promise<void> {
  if (await sizeOf(blob) === file.size) return task.note(file.path, file.size);
  const { rename, rm } = await import("node:fs/promises");
  const path = `${blob}.incomplete`;
  const found = await sizeOf(path) ?? 0;
  // What continues a damaged file cannot be right, so it begins anew.
  for (const here of found > 0 && found <= file.size ? [found, 0] : [0]) {
    const before = task.loaded;
    const whole = await fetchRest(task, file, path, here).catch((error) => {
      if (here > 0 && error.message.includes(WHOLE)) return false;
      throw error;
    });
    if (whole) return rename(path, blob);
    task.loaded = before;
  }
  await rm(path, { force: true });
  throw new FormatError(
    `the downloaded file does not have the checksum ${file.checksum} that the hub gives for it`,
    file.path,
    0,
  );
}

/** Gives `blob` the name of a file in the folder of a commit. */
async function link(blob: string, path: string): Promise<void> {
  const fs = await import("node:fs/promises");
  const { dirname, relative } = await import("node:path");
  await fs.mkdir(dirname(path), { recursive: true });
  await fs.rm(path, { force: true });
  try {
    await fs.symlink(relative(dirname(path), blob), path);
  } catch {
    // Windows and Deno permit symbolic links to few programs.
    await fs.link(blob, path).catch(() => fs.copyFile(blob, path));
  }
}

/**
 * Downloads a model of the Hugging Face hub into the cache that its other tools share, and returns
 * the folder of its files, which `nn.open` takes. Files that are there are not loaded again, and
 * a download that was cut off continues. Checksums are verified.
 *
 * Needs the package `@huggingface/hub`. The cache is that of `nn.findModel`.
 *
 * Throws a FormatError for files whose checksums differ, an ArgumentError for names of no model and
 * if no file is selected, and the errors of the package: of models that do not exist or need a
 * token.
 *
 * @example
 * ```ts ignore
 * import { download } from "@rowmajor/tensor/hub";
 *
 * const folder = await download("sentence-transformers/all-MiniLM-L6-v2", {
 *   onProgress: ({ file, loaded, total }) => console.log(file, loaded / total),
 * });
 * const w = await nn.open(folder);
 * ```
 */
export async function download(id: string, options: DownloadOptions = {}): Promise<string> {
  const known = ["revision", "files", "token", "cache", "hubUrl", "onProgress", "signal"];
  checkOptions("download", options, known);
  const { revision = "main", files, token, cache, hubUrl, onProgress, signal } = options;
  checkModel("download", id, revision);
  if (files !== undefined && !(Array.isArray(files) && files.every((f) => typeof f === "string"))) {
    throw typeError(`Cannot download files ${describe(files)}: expected an array of names`);
  }
  const wanted = selector(files);
  const { folder: usual, hidden } = cacheFolder(host);
  const root = cache ?? usual;
  if (root === undefined) {
    throw new ArgumentError(
      `Cannot download ${id}: the folder of the cache is unknown; ` +
        (hidden.length > 0 ? `use --allow-env=${hidden}, or ` : "") + "pass { cache }",
    );
  }
  signal?.throwIfAborted();
  const hub = await importHub();
  const { mkdir, writeFile } = await import("node:fs/promises");
  const { dirname, join } = await import("node:path");
  const common = {
    fetch: fetcher(signal),
    ...hubUrl === undefined ? {} : { hubUrl },
    ...token === undefined ? {} : { accessToken: token },
  };

  const info = await hub.modelInfo({ ...common, name: id, revision, additionalFields: ["sha"] });
  const { sha: commit } = info;
  if (typeof commit !== "string" || !/^[0-9a-f]{40}$/.test(commit)) {
    throw new FormatError(`the hub gives the commit ${describe(commit)}`, id, 0);
  }
  const list: Wanted[] = [];
  const names: string[] = [];
  const repo = { type: "model", name: id };
  for await (
    const entry of hub.listFiles({ ...common, repo, recursive: true, revision: commit })
  ) {
    if (entry.type !== "file") continue;
    names.push(entry.path);
    if (wanted(entry.path)) list.push(wantedFile(entry, id));
  }
  if (list.length === 0) {
    throw new ArgumentError(
      `Cannot download ${id}: none of its ${names.length} files is selected; ` +
        `it has ${names.slice(0, 8).map(describe).join(", ")}`,
    );
  }

  const folder = await modelFolder(root, id);
  const total = list.reduce((sum, { size }) => sum + size, 0);
  const note = (file: string, bytes: number): void => {
    task.loaded += bytes;
    if (bytes > 0) onProgress?.({ file, loaded: task.loaded, total });
  };
  const task: Task = { hub, repo, commit, common, signal, loaded: 0, note };
  await mkdir(join(folder, "blobs"), { recursive: true });
  const snapshot = join(folder, "snapshots", commit);
  for (const file of list) {
    signal?.throwIfAborted();
    const blob = join(folder, "blobs", file.checksum);
    await fetchBlob(task, file, blob);
    await link(blob, join(snapshot, ...file.path.split("/")));
  }
  // Last, so that a revision that is found has its files.
  if (revision !== commit) {
    const ref = join(folder, "refs", ...revision.split("/"));
    await mkdir(dirname(ref), { recursive: true });
    await writeFile(ref, commit);
  }
  return snapshot;
}
