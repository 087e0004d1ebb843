/**
 * Model folders: which of their files has the weights, and weights in several files by an index.
 *
 * Knows nothing of the class Tensor.
 *
 * @module
 */
import { host } from "../backend/ffi/runtime.ts";
import { FormatError } from "../base/errors.ts";
import { describe, describeAll } from "../base/text.ts";
import { decodeUtf8, quote } from "./bytes.ts";
import { type Path, readFile, readStart } from "./file.ts";
import { checkKind, hintOfName, KIND_BYTES } from "./kinds.ts";
import { firstOfParts, withParts } from "./gguf_parts.ts";
import { npyFolder } from "./npy_folder.ts";
import {
  joinSources,
  safetensorsFile,
  sourceOfFile,
  type SourceOptions,
  type TensorSource,
} from "./source.ts";

/** The names of files with weights, the preferred ones first. */
const USUAL = ["model.safetensors", "model.safetensors.index.json", "weights.npz"];
const INDEX = /\.safetensors\.index\.json$/i;
/** The most bytes of a file of JSON: the index of a million tensors has fewer. */
const MOST_JSON = 100_000_000;

/** The value in a file of JSON. */
async function parseJson(path: Path): Promise<unknown> {
  const file = String(path);
  const { start, size } = await readStart(path, KIND_BYTES);
  checkKind(["json"], start, file);
  if (size > MOST_JSON) {
    throw new FormatError(`a JSON file of ${size} bytes, above ${MOST_JSON}`, file, 0);
  }
  const text = decodeUtf8(await readFile(path));
  try {
    return JSON.parse(text ?? "");
  } catch {
    throw new FormatError("the file is not JSON", file, 0);
  }
}

/** The names of the files by the names of their tensors. */
async function readIndex(path: Path): Promise<Map<string, string>> {
  const file = String(path);
  const index = await parseJson(path) as { weight_map?: Record<string, unknown> } | null;
  const map = index?.weight_map;
  if (typeof map !== "object" || map === null || Array.isArray(map)) {
    throw new FormatError("the index has no weight_map: the files by names of tensors", file, 0);
  }
  return new Map(
    Object.entries(map).map(([name, part]) => {
      // Other folders are none of the index's business.
      if (typeof part !== "string" || /[\\/\0]|^\.*$/.test(part)) {
        throw new FormatError(
          `tensor ${quote(name)} is in ${describe(part)}, which is not the name of a file`,
          file,
          0,
        );
      }
      return [name, part];
    }),
  );
}

/** The tensors of all files that an index names, which are in its folder. */
async function sourceOfIndex(path: string, options: SourceOptions): Promise<TensorSource> {
  const { dirname, join } = await import("node:path");
  const files = await readIndex(path);
  const sources = new Map<string, TensorSource>();
  for (const part of new Set(files.values())) {
    sources.set(part, await safetensorsFile(join(dirname(path), part), options));
  }
  return joinSources(path, files, sources);
}

/** The file of a folder that has the weights, or all files of arrays. */
function chooseFiles(folder: string, names: readonly string[]): string | readonly string[] {
  const usual = USUAL.find((name) => names.includes(name));
  if (usual !== undefined) return usual;
  const indexes = names.filter((name) => INDEX.test(name));
  // An index names the other files.
  const found = indexes.length > 0
    ? indexes
    : names.filter((name) => /\.(safetensors|npz|gguf)$/i.test(name));
  const only = found.length === 1 ? found[0] : firstOfParts(found);
  if (only !== undefined) return only;
  const list = (some: readonly string[]): string => describeAll(some, quote).join(", ");
  if (found.length > 1) {
    throw new FormatError(`several files have weights, open one: ${list(found)}`, folder, 0);
  }
  const arrays = names.filter((name) => /\.npy$/i.test(name));
  if (arrays.length > 0) return arrays;
  const hints = names.flatMap((name) => {
    const what = hintOfName(name);
    return what === undefined ? [] : [`${quote(name)} ${what}`];
  });
  throw new FormatError(
    `the folder has none of ${USUAL.join(", ")}, and no other .safetensors, .gguf, .npz or .npy; ` +
      (names.length === 0 ? "it is empty" : `it has ${list(names)}`) +
      hints.slice(0, 3).map((hint) => `; ${hint}`).join(""),
    folder,
    0,
  );
}

/** The path of a file URL, or the path itself. */
async function localPath(path: Path): Promise<string> {
  if (!(path instanceof URL) && !/^file:/i.test(path)) return path;
  const { fileURLToPath } = await import("node:url");
  return fileURLToPath(path);
}

/** Makes a folder, unless it is there; gives the paths of files in it. */
export async function makeFolder(folder: Path): Promise<(name: string) => string> {
  const path = await localPath(folder);
  const [{ mkdir }, { join }] = await Promise.all([
    import("node:fs/promises"),
    import("node:path"),
  ]);
  await mkdir(path, { recursive: true });
  return (name) => join(path, name);
}

/** Whether there is a file at `path`, and no folder. */
function isFile(path: string): boolean {
  try {
    return host.identity(path) !== undefined;
  } catch {
    // The reader of the file tells what is wrong.
    return false;
  }
}

/** The names in a folder, sorted; undefined if there is none at `path`. */
async function namesIn(path: string): Promise<string[] | undefined> {
  const { stat, readdir } = await import("node:fs/promises");
  // The reader of the file tells what is wrong with others.
  const entry = await stat(path).catch(() => undefined);
  return entry?.isDirectory() ? (await readdir(path)).sort() : undefined;
}

/**
 * The tensors of a safetensors or GGUF file, an npz archive, files that an index names, all parts of a
 * GGUF model by the first one, or a folder with one of these or with .npy files.
 */
export async function openSource(
  path: Path,
  options: SourceOptions = {},
): Promise<TensorSource> {
  let target = await localPath(path);
  // For files, Node's functions are not needed, which take Deno 20 ms to load.
  const names = isFile(target) ? undefined : await namesIn(target);
  if (names !== undefined) {
    const chosen = chooseFiles(target, names);
    if (typeof chosen !== "string") return await npyFolder(target, chosen, options);
    const { join } = await import("node:path");
    target = join(target, chosen);
  }
  if (/\.json$/i.test(target)) return await sourceOfIndex(target, options);
  const open = (path: string): Promise<TensorSource> => sourceOfFile(path, options);
  return await withParts(await open(target), target, isFile, open);
}

/**
 * What a JSON file in a folder says, which may be named by a file in it; undefined if there is no
 * such file.
 *
 * @throws {FormatError} For a file that is not JSON.
 */
export async function readJson(folder: Path, name: string): Promise<unknown> {
  const path = await pathIn(folder, name);
  if (!isFile(path)) return undefined;
  return await parseJson(path);
}

/** The path of a file in a folder, which may be named by a file in it. */
export async function pathIn(folder: Path, name: string): Promise<string> {
  const { dirname, join } = await import("node:path");
  const given = await localPath(folder);
  return join(isFile(given) ? dirname(given) : given, name);
}
