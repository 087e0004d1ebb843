/**
 * Opens tokenizers, of all kinds of files.
 *
 * @module
 */
import { ArgumentError, FormatError } from "../base/errors.ts";
import { listIn } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { asBytes, decodeUtf8, NO_FILE } from "../io/bytes.ts";
import { type Path, readFile, readStart } from "../io/file.ts";
import { parseGguf } from "../io/gguf.ts";
import { openSource, readJson } from "../io/model_folder.ts";
import { checkOptions } from "../table/infer.ts";
import { ggufModel, type MetadataSource } from "./gguf.ts";
import { jsonModel, type TokenizerFiles } from "./json.ts";
import { Pauses, type Steps } from "./steps.ts";
import { type Model, ModelTokenizer, type Tokenizer } from "./tokenizer.ts";

/** The value of a tokenizer.json. */
export interface TokenizerJson {
  /** The vocabulary, and what is done with it. */
  readonly model: object;
}

/** Where a tokenizer is. */
export type TokenizerSource = Path | Uint8Array | MetadataSource | TokenizerFiles | TokenizerJson;

/** Options of {@link open}. */
export interface OpenOptions {
  /** More tokens of a GGUF file that are special, whatever the file says of them. */
  readonly endTokens?: readonly number[] | undefined;
  /** The name of the file in errors. */
  readonly file?: string | undefined;
}

const MAGIC = [0x47, 0x47, 0x55, 0x46];
/** The most bytes of a template, and of a file of JSON. */
const MOST_TEMPLATE = 1_000_000, MOST_JSON = 100_000_000;

function isGguf(bytes: Uint8Array): boolean {
  return MAGIC.every((byte, i) => bytes[i] === byte);
}

/** The value of JSON in bytes. */
function jsonOf(bytes: Uint8Array, file: string): object {
  try {
    const value: unknown = JSON.parse(decodeUtf8(bytes) ?? "");
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // Reported below.
  }
  throw new FormatError("neither GGUF nor JSON of a tokenizer", file, 0);
}

/** Files of JSON that are beside a tokenizer.json. */
const BESIDE = /(^|[\\/])(tokenizer|config|.*_config|.*\.index)\.json$/i;

/**
 * The value of a file of JSON with a name of its own, such as one within an executable; undefined for
 * other paths.
 */
async function readOtherName(path: Path): Promise<object | undefined> {
  const file = String(path);
  if (!/\.json$/i.test(file) || BESIDE.test(file)) return undefined;
  const { stat } = await import("node:fs/promises");
  if (!(await stat(path)).isFile()) return undefined;
  const { size } = await readStart(path, 1);
  if (size > MOST_JSON) {
    throw new FormatError(`a JSON file of ${size} bytes, above ${MOST_JSON}`, file, 0);
  }
  return jsonOf(await readFile(path), file);
}

/** The text of a file beside another one; undefined if there is none. */
async function readTemplate(folder: Path): Promise<string | undefined> {
  const [{ join, dirname }, { fileURLToPath }, { stat }] = await Promise.all([
    import("node:path"),
    import("node:url"),
    import("node:fs/promises"),
  ]);
  const given = folder instanceof URL ? fileURLToPath(folder) : folder;
  const isFolder = (await stat(given)).isDirectory();
  const path = join(isFolder ? given : dirname(given), "chat_template.jinja");
  const entry = await stat(path).catch(() => undefined);
  if (!entry?.isFile()) return undefined;
  if (entry.size > MOST_TEMPLATE) {
    throw new FormatError(`a template of ${entry.size} bytes, above ${MOST_TEMPLATE}`, path, 0);
  }
  return decodeUtf8(await readFile(path)) ??
    (() => {
      throw new FormatError("the template is not UTF-8", path, 0);
    })();
}

/** The tokenizer of a folder with tokenizer.json, or of that file; undefined if it is not there. */
async function openFolder(folder: Path, endTokens: readonly number[]): Promise<Model> {
  const file = String(folder);
  const other = await readOtherName(folder);
  if (other !== undefined) return await jsonModel({ tokenizer: other }, file);
  const tokenizer = await readJson(folder, "tokenizer.json");
  if (typeof tokenizer === "object" && tokenizer !== null) {
    const config = await readJson(folder, "tokenizer_config.json");
    const named = await readJson(folder, "chat_template.json");
    const chatTemplate = await readTemplate(folder) ??
      (named as { chat_template?: unknown } | undefined)?.chat_template;
    return await jsonModel({
      tokenizer,
      config: typeof config === "object" && config !== null ? config : {},
      chatTemplate: typeof chatTemplate === "string" ? chatTemplate : undefined,
    }, file);
  }
  let metadata: MetadataSource | undefined;
  try {
    ({ metadata } = await openSource(folder, { mmap: false }));
  } catch (error) {
    if (!(error instanceof FormatError)) throw error;
    throw new FormatError(
      `there is no tokenizer.json, and no GGUF file: ${error.message}`,
      file,
      0,
    );
  }
  if (metadata?.get("tokenizer.ggml.tokens") === undefined) {
    throw new FormatError("there is no tokenizer.json, and no GGUF file with a tokenizer", file, 0);
  }
  return await read(ggufModel(metadata, file, endTokens));
}

/** Reads a vocabulary, which takes up to a second, with pauses. */
async function read(model: Steps<Model>): Promise<Model> {
  return await new Pauses(undefined).finish(model);
}

async function openModel(source: TokenizerSource, options: OpenOptions): Promise<Model> {
  const { endTokens = [], file = NO_FILE } = options;
  if (typeof source === "string" || source instanceof URL) {
    return await openFolder(source, endTokens);
  }
  if (ArrayBuffer.isView(source)) {
    const bytes = asBytes(source, file);
    if (!isGguf(bytes)) return await jsonModel({ tokenizer: jsonOf(bytes, file) }, file);
    const header = parseGguf(bytes, bytes.length, file);
    if (header === undefined) throw new FormatError("the file is truncated", file, bytes.length);
    return await read(ggufModel(header.metadata, file, endTokens));
  }
  if (typeof source === "object" && source !== null) {
    if ("get" in source && typeof source.get === "function") {
      return await read(ggufModel(source, file, endTokens));
    }
    if ("tokenizer" in source) return await jsonModel(source, file);
    if ("model" in source) return await jsonModel({ tokenizer: source }, file);
  }
  throw new ArgumentError(
    `Cannot open the tokenizer ${
      describe(source)
    }: it takes a path, bytes, the metadata of a GGUF ` +
      `file, or the JSON of a tokenizer`,
  );
}

/**
 * Opens the tokenizer of a model.
 *
 * @param source The path of a folder, of a tokenizer.json or of a GGUF file; their bytes; the metadata
 *   of an opened GGUF file; or values of JSON: the one of tokenizer.json, or `{ tokenizer, config }`
 *   with that of tokenizer_config.json.
 * @returns A tokenizer. It holds no file open, and needs no `dispose`. A large vocabulary is made in
 *   slices that leave the event loop free.
 * @throws {PackageError} If the package `@huggingface/tokenizers`, which reads tokenizer.json, is not
 *   installed. GGUF files need no package.
 * @throws {FormatError} For a damaged file, and for a vocabulary of a kind that is not read.
 *
 * @example
 * ```ts
 * const tokenizer = await open({
 *   get: (key: string) => ({
 *     "tokenizer.ggml.model": "gpt2",
 *     "tokenizer.ggml.pre": "gpt-2",
 *     "tokenizer.ggml.tokens": ["a", "b", "ab", "<|end|>"],
 *     "tokenizer.ggml.merges": ["a b"],
 *   })[key],
 * });
 * tokenizer.encode("abba"); // => [2, 1, 0]
 * tokenizer.encode("ab<|end|>", { special: true }); // => [2, 3]
 * tokenizer.decode([2, 1, 0, 3]); // => abba
 * ```
 */
export async function open(
  source: TokenizerSource,
  options: OpenOptions = {},
): Promise<Tokenizer> {
  checkOptions("open", options, ["endTokens", "file"]);
  const wrong = (what: unknown): ArgumentError =>
    new ArgumentError(
      `Cannot open a tokenizer with endTokens ${describe(what)}: they are an array of integers`,
    );
  const endTokens = listIn(options.endTokens ?? [], (id): number => {
    if (Number.isInteger(id)) return Number(id);
    throw wrong(id);
  });
  if (endTokens === undefined) throw wrong(options.endTokens);
  return new ModelTokenizer(await openModel(source, { ...options, endTokens }));
}
