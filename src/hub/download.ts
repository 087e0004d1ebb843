/**
 * Downloads the files of a model into the cache that the tools of the hub share: see
 * io/find_model.ts for its layout.
 *
 * blobs.ts writes the files, requests.ts reads what the hub sends. Knows nothing of what is in the
 * files.
 *
 * @module
 */
import type { FileHandle } from "node:fs/promises";
import { host } from "../backend/ffi/runtime.ts";
import { ArgumentError, FormatError, PackageError } from "../base/errors.ts";
import { ownNames } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { cacheFolder, checkModel, modelFolder } from "../io/find_model.ts";
import { writeFile } from "../io/file.ts";
import { matcher } from "../nn/weights/names.ts";
import { checkOptions } from "../table/infer.ts";
import { cleanBlobs, linkBlob, makeBlob, type Wanted } from "./blobs.ts";
import { jsonFetch, request, type Rules } from "./requests.ts";

/** The progress of a download. */
export interface DownloadProgress {
  /** The file that was read last. */
  readonly file: string;
  /** The number of downloaded bytes of all files. */
  readonly loaded: number;
  /** The number of bytes of all files. */
  readonly total: number;
}

/** Options of {@link download}. */
export interface DownloadOptions {
  /** A branch, a tag or a commit; `"main"` by default. */
  readonly revision?: string | undefined;
  /**
   * Names of files; * stands for any characters. By default the weights, settings, vocabularies and
   * templates in the top folder (`*.safetensors`, `*.json`, `*.txt`, `*.model`, `*.jinja`), and the
   * settings and weights of modules of sentence-transformers, such as `1_Pooling/config.json`.
   */
  readonly files?: readonly string[] | undefined;
  /** An access token for private models. It is sent only to the origin of the hub. */
  readonly token?: string | undefined;
  /** The folder of the cache; by default that of the Hugging Face hub. */
  readonly cache?: string | undefined;
  /** The address of the hub; https://huggingface.co by default. */
  readonly hubUrl?: string | undefined;
  /** A function that gets the progress after each piece of a file. */
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
  /** Stops the download; a later download resumes it. */
  readonly signal?: AbortSignal | undefined;
  /**
   * The maximum number of milliseconds without data from the hub; 30,000 by default, Infinity for
   * no limit.
   */
  readonly timeout?: number | undefined;
}

/** The part of the package that is in use. */
interface Hub {
  modelInfo(params: object): Promise<{ sha?: unknown }>;
  listFiles(params: object): AsyncIterable<ListedFile>;
}

/** An entry of the hub's list of files, as another machine sends it. */
interface ListedFile {
  readonly type?: unknown;
  readonly path?: unknown;
  readonly size?: unknown;
  readonly oid?: unknown;
  readonly lfs?: { readonly oid?: unknown; readonly size?: unknown } | null;
}

/** What all steps of a download need. */
interface Task {
  readonly rules: Rules;
  /** The address of the files. */
  readonly address: string;
  readonly token: string | undefined;
  /** The bytes that are here. */
  loaded: number;
  /** Notes that `bytes` more of `file` are here. */
  note(file: string, bytes: number): void;
}

const HUB = "https://huggingface.co";
const TIMEOUT = 30_000;
/** The longest name of a file that systems take, in bytes. */
const LONGEST_NAME = 255;
const USUAL =
  /^([^/]+\.(safetensors|json|txt|model|jinja)|\d+_\w+\/(config\.json|model\.safetensors))$/;

async function importHub(): Promise<Hub> {
  try {
    return await import("@huggingface/hub") as Hub;
  } catch (cause) {
    throw new PackageError("download", "@huggingface/hub", { cause });
  }
}

/** Whether a name fits one of the patterns. */
function selector(patterns: readonly string[] | undefined): (path: string) => boolean {
  if (patterns === undefined) return (path) => USUAL.test(path);
  const matchers = patterns.map(matcher);
  return (path) => matchers.some((matches) => matches(path));
}

function isName(part: string): boolean {
  return part !== "" && part !== "." && part !== ".." && !/[\\:\0]/.test(part) &&
    new TextEncoder().encode(part).length <= LONGEST_NAME;
}

/** The entry of the list, checked: it comes from another machine, and becomes paths here. */
function wantedFile({ path, size, oid, lfs }: ListedFile, id: string): Wanted {
  const checksum = lfs?.oid ?? oid;
  const bytes = lfs?.size ?? size;
  const isPath = typeof path === "string" && path.split("/").every(isName);
  const isChecksum = typeof checksum === "string" &&
    /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(checksum);
  const isSize = typeof bytes === "number" && Number.isSafeInteger(bytes) && bytes >= 0;
  if (!isPath || !isChecksum || !isSize) {
    throw new FormatError(
      `the hub lists the file ${describe(path)} of ${describe(bytes)} bytes with the checksum ` +
        describe(checksum),
      id,
      0,
    );
  }
  return { path, size: bytes, checksum };
}

/** Throws a FormatError if a file is listed twice, or as a folder of another one. */
function checkPaths(list: readonly Wanted[], id: string): void {
  const paths = new Set<string>();
  const folders = new Set<string>();
  for (const { path } of list) {
    const twice = paths.has(path);
    paths.add(path);
    for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
      folders.add(path.slice(0, at));
    }
    if (twice) throw new FormatError(`the hub lists the file ${describe(path)} twice`, id, 0);
  }
  const both = [...paths].find((path) => folders.has(path));
  if (both !== undefined) {
    throw new FormatError(`the hub lists ${describe(both)} as a file and as a folder`, id, 0);
  }
}

/** Writes a file from `here` on; false if the server sends whole files only. */
async function fetchRest(
  { rules, address, token, note }: Task,
  file: Wanted,
  handle: FileHandle,
  here: number,
): Promise<boolean> {
  let at = here;
  note(file.path, here);
  if (at === file.size) return true;
  const url = `${address}/${file.path.split("/").map(encodeURIComponent).join("/")}`;
  const headers = {
    "accept-encoding": "identity",
    ...here === 0 ? {} : { range: `bytes=${here}-${file.size - 1}` },
    ...token === undefined ? {} : { authorization: `Bearer ${token}` },
  };
  const { response, pieces } = await request(url, headers, rules);
  const { status } = response;
  if (here === 0 ? !response.ok : status !== 206) {
    response.body?.cancel().catch(() => {});
    if (here > 0 && (status === 200 || status === 416)) return false;
    throw new FormatError(`the hub answers with the status ${status}`, file.path, at);
  }
  for await (const piece of pieces()) {
    const bytes = piece.subarray(0, file.size - at);
    for (let done = 0; done < bytes.length;) {
      const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, at + done);
      done += bytesWritten;
    }
    at += bytes.length;
    note(file.path, bytes.length);
    if (bytes.length < piece.length) return false;
  }
  if (at < file.size) {
    throw new FormatError(`the download ended at ${at} of ${file.size} bytes`, file.path, at);
  }
  return true;
}

/**
 * Downloads a model of the Hugging Face hub into the cache that other Hugging Face tools share.
 * Complete files are not downloaded again, an interrupted download resumes, and checksums are
 * verified. Several programs can download the same model at the same time.
 *
 * Needs the package `@huggingface/hub`. The cache is that of `nn.findModel`.
 *
 * @param id The name of the model, such as `sentence-transformers/all-MiniLM-L6-v2`.
 * @returns The folder of the files, which `nn.open` takes.
 * @throws {FormatError} For files with wrong checksums, for malformed lists, and if the hub sends
 *   no data for too long.
 * @throws {ArgumentError} For an invalid name of a model, and if no file is selected.
 * @throws The errors of the package, for models that do not exist or need a token.
 *
 * @example
 * ```ts check: it loads a model from the network
 * import { download } from "@rowmajor/tensor/hub";
 * import * as nn from "@rowmajor/tensor/nn";
 *
 * const folder = await download("sentence-transformers/all-MiniLM-L6-v2", {
 *   onProgress: ({ file, loaded, total }) => console.log(file, loaded / total),
 * });
 * const w = await nn.open(folder);
 * ```
 */
export async function download(id: string, options: DownloadOptions = {}): Promise<string> {
  const known = [
    "revision",
    "files",
    "token",
    "cache",
    "hubUrl",
    "onProgress",
    "signal",
    "timeout",
  ];
  checkOptions("download", options, known);
  const { revision = "main", files, token, cache, hubUrl = HUB, onProgress, signal } = options;
  const { timeout = TIMEOUT } = options;
  checkModel("download", id, revision);
  if (typeof timeout !== "number" || !(timeout > 0)) {
    throw new ArgumentError(
      `Cannot download with timeout ${describe(timeout)}: expected milliseconds above 0`,
    );
  }
  if (typeof hubUrl !== "string" || !/^https?:/.test(hubUrl) || !URL.canParse(hubUrl)) {
    throw new ArgumentError(
      `Cannot download from ${describe(hubUrl)}: expected an address that begins with https:`,
    );
  }
  const wanted = selector(ownNames("download", "files", files));
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
  const { mkdir, readFile } = await import("node:fs/promises");
  const { dirname, join } = await import("node:path");
  const base = hubUrl.replace(/\/+$/, "");
  const rules = { origin: new URL(hubUrl).origin, signal, timeout };
  const common = { hubUrl: base, ...token === undefined ? {} : { accessToken: token } };

  const { sha: commit } = await hub.modelInfo({
    ...{ ...common, name: id, revision, additionalFields: ["sha"] },
    fetch: jsonFetch("object", rules),
  });
  if (typeof commit !== "string" || !/^[0-9a-f]{40}$/.test(commit)) {
    throw new FormatError(`the hub gives the commit ${describe(commit)}`, id, 0);
  }
  const list: Wanted[] = [];
  const names: string[] = [];
  const entries = hub.listFiles({
    ...{ ...common, repo: { type: "model", name: id }, recursive: true, revision: commit },
    fetch: jsonFetch("list", rules),
  });
  for await (const entry of entries) {
    if (entry.type !== "file") continue;
    const { path } = entry;
    if (typeof path === "string" && !wanted(path)) names.push(path);
    else list.push(wantedFile(entry, id));
  }
  checkPaths(list, id);
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
  const address = `${base}/${id}/resolve/${commit}`;
  const task: Task = { rules, address, token, loaded: 0, note };
  const blobs = join(folder, "blobs");
  await mkdir(blobs, { recursive: true });
  const snapshot = join(folder, "snapshots", commit);
  for (const file of list) {
    signal?.throwIfAborted();
    const blob = join(blobs, file.checksum);
    const before = task.loaded;
    await makeBlob(file, blob, (handle, here) => {
      task.loaded = before;
      return fetchRest(task, file, handle, here);
    });
    note(file.path, before + file.size - task.loaded);
    await linkBlob(file, blob, join(snapshot, ...file.path.split("/")));
  }
  await cleanBlobs(blobs);
  // Last, so that a revision that is found has its files.
  if (revision !== commit) {
    const ref = join(folder, "refs", ...revision.split("/"));
    if (await readFile(ref, "utf8").catch(() => undefined) === commit) return snapshot;
    await mkdir(dirname(ref), { recursive: true });
    await writeFile(ref, new TextEncoder().encode(commit));
  }
  return snapshot;
}
