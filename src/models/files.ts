/**
 * The files of a model: in a folder, in the cache of the Hugging Face hub, in one GGUF file, in an
 * executable, or in memory.
 *
 * @module
 */
import { ArgumentError, FormatError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { decodeUtf8 } from "../io/bytes.ts";
import type { Path } from "../io/file.ts";
import type { DownloadOptions } from "../hub/mod.ts";
import { findModel } from "../io/find_model.ts";

/**
 * Where a model is: a path or a URL of a folder or of a file, `"organization/name"` in the cache of
 * the Hugging Face hub, or the contents of files by their names.
 */
export type ModelSource = Path | Readonly<Record<string, Uint8Array | string>>;

/** Options of finding a model. */
export interface FindOptions {
  /**
   * Downloads a model that is not in the cache of the Hugging Face hub into it, by the package
   * `@huggingface/hub`: true, or the options of `download` of `@rowmajor/tensor/hub`. By default such
   * a model throws an ArgumentError.
   */
  readonly download?: boolean | DownloadOptions | undefined;
  /** Stops the work: the promise rejects with the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
}

/** The files of a model. */
export interface ModelFiles {
  /** The model in errors. */
  readonly label: string;
  /** The name of the model: that of its file or folder, or of the hub. */
  readonly name: string;
  /** The text of a file; undefined if there is no such file. */
  text(name: string): Promise<string | undefined>;
  /** The weights of the model, or of a folder in it; undefined if that has none. */
  weights(folder?: string): Promise<Path | Uint8Array | undefined>;
}

/** The most bytes of a text file: a vocabulary of a million tokens has fewer. */
const MOST_TEXT = 200_000_000;
/** The names of files with weights, the preferred one first. */
const WEIGHTS = ["model.safetensors", "model.safetensors.index.json"];

function isAbsent(error: unknown): boolean {
  const code = (error as { code?: unknown }).code;
  return code === "ENOENT" || code === "ENOTDIR";
}

/** The text in bytes. */
function textOf(bytes: Uint8Array, file: string): string {
  if (bytes.length > MOST_TEXT) {
    throw new FormatError(`a text of ${bytes.length} bytes, above ${MOST_TEXT}`, file, 0);
  }
  const text = decodeUtf8(bytes);
  if (text === undefined) throw new FormatError("the file is not UTF-8", file, 0);
  return text;
}

/** The value of a JSON file; undefined if there is no such file. */
export async function jsonOf(files: ModelFiles, name: string): Promise<unknown> {
  const text = await files.text(name);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    throw new FormatError("the file is not JSON", `${name} of ${files.label}`, 0);
  }
}

/** The last part of a path; in the cache of the hub, the name of the model. */
function nameIn(path: string): string {
  const parts = path.split(/[\\/]+/).filter((part) => part !== "" && part !== ".");
  const cached = parts.at(-2) === "snapshots" ? parts.at(-3) : undefined;
  const id = cached?.startsWith("models--") ? cached.slice("models--".length) : undefined;
  return id?.replaceAll("--", "/") ?? parts.at(-1) ?? "model";
}

/** Files in memory. */
function inMemory(given: Readonly<Record<string, Uint8Array | string>>): ModelFiles {
  const entries = new Map(Object.entries(given));
  for (const [name, content] of entries) {
    if (typeof content === "string" || ArrayBuffer.isView(content)) continue;
    throw new ArgumentError(
      `Cannot open a model with ${name}: ${describe(content)}; it takes texts and bytes by name`,
    );
  }
  const label = "<files>";
  return {
    label,
    name: "model",
    text(name) {
      const content = entries.get(name);
      return Promise.resolve(
        content === undefined || typeof content === "string"
          ? content
          : textOf(content, `${name} of ${label}`),
      );
    },
    weights(folder = "") {
      const start = folder === "" ? "" : `${folder}/`;
      const found = [...entries].find(([name, content]) =>
        name.startsWith(start) && !name.slice(start.length).includes("/") &&
        /\.(safetensors|gguf)$/i.test(name) && typeof content !== "string"
      );
      return Promise.resolve(found?.[1] as Uint8Array | undefined);
    },
  };
}

/**
 * The files of a folder. In an executable, names may end in `.data`: there the runtimes take other
 * endings for modules.
 */
async function inFolder(folder: string, name = nameIn(folder)): Promise<ModelFiles> {
  const [{ join }, { readFile, stat }] = await Promise.all([
    import("node:path"),
    import("node:fs/promises"),
  ]);
  const read = async (name: string): Promise<Uint8Array | undefined> => {
    for (const own of [name, `${name}.data`]) {
      try {
        return await readFile(join(folder, own));
      } catch (error) {
        if (!isAbsent(error)) throw error;
      }
    }
    return undefined;
  };
  const isFile = async (path: string): Promise<boolean> => {
    try {
      return (await stat(path)).isFile();
    } catch (error) {
      if (isAbsent(error)) return false;
      throw error;
    }
  };
  return {
    label: folder,
    name,
    async text(name) {
      const bytes = await read(name);
      return bytes === undefined ? undefined : textOf(bytes, join(folder, name));
    },
    async weights(inside = "") {
      const place = join(folder, inside);
      for (const name of WEIGHTS) {
        const path = join(place, name);
        if (await isFile(path)) return path;
      }
      return inside === "" ? place : undefined;
    },
  };
}

/** One file with weights, tokenizer and sizes. */
function oneFile(path: string): ModelFiles {
  return {
    label: path,
    name: nameIn(path).replace(/\.gguf$/i, ""),
    text: () => Promise.resolve(undefined),
    weights: (folder = "") => Promise.resolve(folder === "" ? path : undefined),
  };
}

/** The folder of a model of the hub: in the cache, or downloaded into it. */
async function folderOf(id: string, { download, signal }: FindOptions): Promise<string> {
  const { revision, cache } = typeof download === "object" ? download : {};
  try {
    return await findModel(id, { revision, cache });
  } catch (error) {
    if (download === undefined || download === false || !(error instanceof ArgumentError)) {
      throw error;
    }
    const hub = await import("../hub/mod.ts");
    return await hub.download(id, { signal, ...download === true ? {} : download });
  }
}

/** The files of a model. */
export async function filesOf(source: ModelSource, options: FindOptions): Promise<ModelFiles> {
  const { download } = options;
  if (
    download !== undefined && typeof download !== "boolean" &&
    (typeof download !== "object" || download === null)
  ) {
    throw new ArgumentError(
      `Cannot open a model with download ${
        describe(download)
      }: it is a boolean or the options of ` +
        "a download",
    );
  }
  if (typeof source === "object" && !(source instanceof URL)) {
    if (source !== null && !ArrayBuffer.isView(source)) return inMemory(source);
  } else if (typeof source === "string" || source instanceof URL) {
    const [{ fileURLToPath }, { stat }] = await Promise.all([
      import("node:url"),
      import("node:fs/promises"),
    ]);
    const isUrl = source instanceof URL || /^file:/i.test(source);
    const path = isUrl ? fileURLToPath(source) : source;
    // Folders of executables cannot be asked what they are.
    if (isUrl && /[\\/]$/.test(path)) return await inFolder(path);
    const entry = await stat(path).catch((error) => {
      if (isAbsent(error)) return undefined;
      throw error;
    });
    if (entry === undefined) {
      return await inFolder(await folderOf(path, options), path);
    }
    return entry.isDirectory() ? await inFolder(path) : oneFile(path);
  }
  throw new ArgumentError(
    `Cannot open the model ${
      describe(source)
    }: it takes a path, the name of a model, or files by name`,
  );
}
