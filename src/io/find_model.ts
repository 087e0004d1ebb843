/**
 * Models on this machine: folders, and the cache that the tools of the Hugging Face hub share.
 *
 * The cache has a folder `models--org--name` for each model: `refs/main` has the commit of a
 * revision, and `snapshots/<commit>` the files. Knows nothing of what is in them.
 *
 * @module
 */
import { host } from "../backend/ffi/runtime.ts";
import { ArgumentError } from "../base/errors.ts";
import { describe, describePath } from "../base/text.ts";
import { checkOptions } from "../table/infer.ts";

/** Options of {@link findModel}. */
export interface FindModelOptions {
  /** A branch, a tag or a commit; `"main"` by default, or the only one there is. */
  readonly revision?: string | undefined;
  /** The folder of the cache, in the place of the usual one. */
  readonly cache?: string | undefined;
}

/** The variables that say where the cache is, the first one first, and where it is in each. */
const VARIABLES: readonly (readonly [name: string, inside: readonly string[]])[] = [
  ["HF_HUB_CACHE", []],
  ["HUGGINGFACE_HUB_CACHE", []],
  ["HF_HOME", ["hub"]],
  ["XDG_CACHE_HOME", ["huggingface", "hub"]],
];
const IN_HOME = [".cache", "huggingface", "hub"];

/** The system, as far as the place of the cache depends on it. */
export interface CacheHost {
  /** `"win32"` for Windows. */
  readonly platform: string;
  /** The value of an environment variable that may be read. */
  variable(name: string): string | undefined;
  /** Whether an environment variable may be read. */
  may(what: "env", name: string): boolean;
}

/** The folder of the cache; undefined without a home. And the variables that could not be read. */
export function cacheFolder(
  { platform, variable, may }: CacheHost,
): { folder: string | undefined; hidden: string[] } {
  const windows = platform === "win32";
  const below = (folder: string, parts: readonly string[]): string =>
    [folder.replace(/[\\/]+$/, ""), ...parts].join(windows ? "\\" : "/");
  const home = windows ? "USERPROFILE" : "HOME";
  const places = [...VARIABLES, [home, IN_HOME] as const];
  const hidden = places.flatMap(([name]) => may("env", name) ? [] : [name]);
  for (const [name, inside] of places) {
    const value = variable(name);
    if (value === undefined || value === "") continue;
    const homeless = /^~(?=$|[\\/])/.test(value) ? variable(home) : undefined;
    const folder = homeless === undefined ? value : homeless + value.slice(1);
    return { folder: below(folder, inside), hidden };
  }
  return { folder: undefined, hidden };
}

/** Throws unless `id` is that of a model and `revision` that of a revision. */
export function checkModel(op: string, id: unknown, revision: unknown): void {
  const part = "[A-Za-z0-9_][\\w.-]*";
  if (typeof id !== "string" || !new RegExp(`^${part}(/${part})?$`).test(id)) {
    throw new ArgumentError(`Cannot ${op} ${describe(id)}: expected "organization/name"`);
  }
  // Revisions are names of files, also in folders.
  if (
    typeof revision !== "string" || !/^[\w.-]+(\/[\w.-]+)*$/.test(revision) ||
    /(^|\/)\.\.?(\/|$)/.test(revision)
  ) {
    throw new ArgumentError(
      `Cannot ${op} ${describe(id)} at revision ${describe(revision)}: expected a branch, a tag ` +
        "or a commit",
    );
  }
}

/** The folder of a model in a cache. */
export async function modelFolder(cache: string, id: string): Promise<string> {
  const { join } = await import("node:path");
  return join(cache, `models--${id.replaceAll("/", "--")}`);
}

/** Whether `path` is a folder. Throws the errors of the system, but not that nothing is there. */
async function isFolder(path: string): Promise<boolean> {
  const { stat } = await import("node:fs/promises");
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    const { code } = error as { code?: string };
    if (code === "ENOENT" || code === "ENOTDIR") return false;
    throw error;
  }
}

/** The names in a folder; none if there is no such folder. */
async function namesIn(path: string): Promise<string[]> {
  const { readdir } = await import("node:fs/promises");
  return await isFolder(path) ? (await readdir(path)).sort() : [];
}

/** The snapshot of a revision in the folder of a model, or what there is instead. */
async function findSnapshot(
  folder: string,
  asked: string | undefined,
): Promise<{ path?: string; reason?: string }> {
  const { readFile } = await import("node:fs/promises");
  const { join } = await import("node:path");
  const snapshots = await namesIn(join(folder, "snapshots"));
  const revision = asked ?? "main";
  let commit: string | undefined = snapshots.includes(revision) ? revision : undefined;
  if (commit === undefined) {
    const text = await readFile(join(folder, "refs", revision), "utf8").catch((error) => {
      if (["ENOENT", "ENOTDIR", "EISDIR"].includes(error.code)) return undefined;
      throw error;
    });
    commit = text?.trim();
    if (commit === undefined && asked === undefined && snapshots.length === 1) {
      commit = snapshots[0]!;
    }
  }
  if (commit !== undefined && snapshots.includes(commit)) {
    return { path: join(folder, "snapshots", commit) };
  }
  const refs = await namesIn(join(folder, "refs"));
  const known = [...refs, ...snapshots].slice(0, 8).join(", ");
  const has = known === "" ? "which has no revision" : `which has the revisions ${known}`;
  return { reason: `${folder}, ${has}, but not ${describe(revision)}` };
}

/** Whether an id is meant as a path, and not as the name of a model. */
function isPath(id: string): boolean {
  return /^(\.{0,2}[\\/]|\.{1,2}$|~|[a-z]:[\\/]|file:)/i.test(id) || id.includes("\\") ||
    (id.match(/\//g)?.length ?? 0) > 1;
}

/**
 * The folder of a model on this machine: of `"organization/name"` in the cache that the tools of the
 * Hugging Face hub share, or a folder at a path. {@link open} opens it.
 *
 * The cache is the option `cache`, or by the first variable that is set: `HF_HUB_CACHE`,
 * `HUGGINGFACE_HUB_CACHE`, `HF_HOME`, `XDG_CACHE_HOME`, or else `~/.cache/huggingface/hub`. Deno
 * needs permission to read the folder, and these variables unless `cache` is given.
 *
 * @throws {ArgumentError} If the cache does not have the model; the message names the folders that
 *   were searched, and how to get the model.
 *
 * @example
 * ```ts
 * const folder = await nn.findModel("."); // a path; or "organization/name"
 * folder; // => .
 * await nn.findModel("no/model", { cache: "." }); // throws ArgumentError: Cannot find model
 * ```
 */
export async function findModel(id: string, options: FindModelOptions = {}): Promise<string> {
  checkOptions("find a model", options, ["revision", "cache"]);
  const { revision, cache } = options;
  if (typeof id === "string" && isPath(id)) {
    if (await isFolder(id)) return id;
    throw new ArgumentError(`Cannot find model ${describePath(id)}: there is no such folder`);
  }
  checkModel("find model", id, revision ?? "main");
  const { folder: usual, hidden } = cacheFolder(host);
  const root = cache ?? usual;
  const looked: string[] = [];
  if (root !== undefined) {
    const folder = await modelFolder(root, id);
    if (await isFolder(folder)) {
      const { path, reason } = await findSnapshot(folder, revision);
      if (path !== undefined) return path;
      looked.push(reason!);
    } else looked.push(`${folder}, which is not there`);
  }
  // A folder of that name, as a program may have one beside it; without a prompt for permission.
  if (host.may("read", id)) {
    if (await isFolder(id)) return id;
    looked.push(`${id} in the working directory`);
  }
  const unknown = cache === undefined && hidden.length > 0
    ? `; not allowed to read the variables that may name another cache: --allow-env=${hidden}, ` +
      "or pass { cache }"
    : "";
  const where = looked.length === 0 ? "nowhere" : looked.join("; ");
  throw new ArgumentError(
    `Cannot find model ${id}: looked at ${where}${unknown}. To get it, run ` +
      `"hf download ${id}${revision === undefined ? "" : ` --revision ${revision}`}", or use ` +
      "download() of @rowmajor/tensor/hub",
  );
}
