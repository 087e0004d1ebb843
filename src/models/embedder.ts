/**
 * Texts to vectors, with the models of sentence-transformers.
 *
 * @module
 */
import { ArgumentError, FormatError, ShapeError } from "../base/errors.ts";
import { formatShape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { compile } from "../compile/mod.ts";
import { type Json, objectOf, Reader } from "../llm/config/reader.ts";
import * as nn from "../nn/mod.ts";
import { checkOptions } from "../table/infer.ts";
import { checkAlive } from "../memory/storage.ts";
import { leaseOf } from "../memory/lease.ts";
import { fromBuffer } from "../tensor/create.ts";
import { type AnyTensor, Tensor } from "../tensor/tensor.ts";
import { jsonOf, type ModelFiles, type ModelSource } from "./files.ts";
import { pool, type Pooling, POOLINGS, type Vectors } from "./pooling.ts";
import {
  checkMaxTokens,
  ENCODER_OPTIONS,
  type EncoderOptions,
  type Opened,
  type Task,
  TextEncoder,
  textsIn,
} from "./text_encoder.ts";

/** Options of {@link Embedder.open}. */
export interface EmbedderOptions extends EncoderOptions {
  /** How vectors of tokens become one; by default as the files of the model have it, or the mean. */
  readonly pooling?: Pooling | undefined;
  /** The maximum number of tokens of a text; longer texts are cut. By default that of the model. */
  readonly maxTokens?: number | undefined;
}

/** Options of {@link Embedder.embed}. */
export interface EmbedOptions {
  /** The name of a text of the model that precedes each text, such as `"query"`. */
  readonly prompt?: string | undefined;
  /** A text that precedes each text. */
  readonly prefix?: string | undefined;
  /**
   * The first numbers of vectors only: models that were trained for that (Matryoshka) keep most of
   * their meaning there.
   */
  readonly dimensions?: number | undefined;
  /** Whether vectors get length 1; true by default. */
  readonly normalize?: boolean | undefined;
  /** Stops the work: the promise rejects with the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of {@link Embedder.search}. */
export interface SearchOptions extends EmbedOptions {
  /** The maximum number of results; 10 by default. */
  readonly top?: number | undefined;
}

/** A result of {@link Embedder.search}. */
export interface SearchResult {
  /** The index of the text, or of the row. */
  readonly index: number;
  /** The cosine of the angle between the vectors: 1 for the same direction. */
  readonly score: number;
}

const EMBED_OPTIONS = ["prompt", "prefix", "dimensions", "normalize", "signal"];

/** Modules of sentence-transformers between the pooling and the vector. */
type Module = (x: Vectors) => Vectors;

/** The modes of 1_Pooling/config.json. */
const MODES: Readonly<Record<string, Pooling>> = {
  pooling_mode_cls_token: "cls",
  pooling_mode_mean_tokens: "mean",
  pooling_mode_max_tokens: "max",
  pooling_mode_lasttoken: "last",
};

/** The fields of a JSON file; none if there is no such file. */
async function fieldsOf(
  files: ModelFiles,
  name: string,
): Promise<{ readonly fields: Json; readonly reader: Reader }> {
  const value = await jsonOf(files, name) ?? {};
  const file = `${name} of ${files.label}`;
  if (typeof value !== "object" || Array.isArray(value)) {
    throw new FormatError(`the file has ${describe(value)}, and must have an object`, file, 0);
  }
  const fields = objectOf(value);
  const get = (key: string): unknown => Object.hasOwn(fields, key) ? fields[key] : undefined;
  return { fields, reader: new Reader(get, file) };
}

/** The pooling of 1_Pooling/config.json. */
async function poolingOf(files: ModelFiles, path: string): Promise<Pooling> {
  const { fields: json, reader } = await fieldsOf(files, `${path}/config.json`);
  const fail = (message: string): never => reader.fail(message);
  const modes = Object.entries(json)
    .filter(([key]) => key.startsWith("pooling_mode_") && reader.flag(key) === true);
  if (modes.length === 0) {
    const mode = json["pooling_mode"] ?? "mean";
    return POOLINGS.find((one) => one === mode) ??
      fail(`the pooling_mode is ${describe(mode)}, and must be one of ${POOLINGS.join(", ")}`);
  }
  const [[key]] = modes as [[string, unknown]];
  if (modes.length > 1) {
    return fail(`the modes ${modes.map(([key]) => key).join(", ")} at once are not supported`);
  }
  return MODES[key] ??
    fail(`${key} is not supported: it must be one of ${Object.keys(MODES).join(", ")}`);
}

/** The activations of 2_Dense/config.json, by the last part of their names. */
const DENSE: Readonly<Record<string, "tanh" | "relu" | "gelu" | undefined>> = {
  Identity: undefined,
  Tanh: "tanh",
  ReLU: "relu",
  GELU: "gelu",
};

/** A product of a module of its own. */
async function denseOf(
  files: ModelFiles,
  path: string,
  own: <X extends Disposable>(x: X) => X,
): Promise<{ readonly run: Module; readonly outputs: number }> {
  const { reader } = await fieldsOf(files, `${path}/config.json`);
  const [inputs, outputs] = ["in_features", "out_features"].map((key) =>
    reader.size(key, 2 ** 20)
  ) as [number, number];
  const name = (reader.text("activation_function") ?? "Identity").split(".").at(-1)!;
  if (!Object.hasOwn(DENSE, name)) {
    return reader.reject("activation_function", `one of ${Object.keys(DENSE).join(", ")}`);
  }
  const place = await files.weights(path);
  if (place === undefined) throw new FormatError(`there are no weights in ${path}`, files.label, 0);
  const weights = own(await nn.open(place));
  const bias = reader.flag("bias") ?? true;
  const dense = weights.linear("linear", outputs, inputs, { bias, activation: DENSE[name] });
  weights.done();
  return { run: (x) => dense(x), outputs };
}

/** What the files of a model have after its encoder. */
async function modulesOf(
  { files, weights, reader, architecture, encoder, options }: Opened,
  own: <X extends Disposable>(x: X) => X,
): Promise<{ pooling: Pooling; modules: Module[]; size: number }> {
  if (architecture !== undefined) {
    const type = reader.integer(`${architecture}.pooling_type`, { most: 4, otherwise: 1 });
    const pooling = ([undefined, "mean", "cls", "last"] as const)[type];
    if (pooling === undefined) {
      return reader.reject(`${architecture}.pooling_type`, "1 (mean), 2 (cls) or 3 (last)");
    }
    const modules: Module[] = [];
    let size = encoder.hidden;
    for (const name of ["dense_2", "dense_3"]) {
      const shape = weights.info(`${name}.weight`)?.shape;
      if (shape === undefined) continue;
      const [outputs = 0] = shape;
      const dense = weights.linear(name, outputs, size, { bias: "optional", ...options });
      modules.push((x) => dense(x));
      size = outputs;
    }
    return { pooling, modules, size };
  }
  const list = await jsonOf(files, "modules.json");
  let pooling: Pooling | undefined;
  let size = encoder.hidden;
  const modules: Module[] = [];
  if (list !== undefined && !Array.isArray(list)) {
    throw new FormatError("the modules are no list", `modules.json of ${files.label}`, 0);
  }
  for (const each of list ?? []) {
    const { type, path } = objectOf(each);
    const kind = typeof type === "string" ? type.split(".").at(-1)! : "";
    if (kind === "Transformer" || kind === "Normalize") continue;
    if (typeof path !== "string" || !/^[\w.-]{1,100}$/.test(path) || path.startsWith(".")) {
      throw new FormatError(
        `the module ${describe(type)} has the path ${describe(path)}`,
        `modules.json of ${files.label}`,
        0,
      );
    }
    if (kind === "Pooling") pooling = await poolingOf(files, path);
    else if (kind === "Dense") {
      const { run, outputs } = await denseOf(files, path, own);
      modules.push(run);
      size = outputs;
    } else {
      throw new FormatError(
        `the module ${
          describe(type)
        } is not supported: Transformer, Pooling, Dense and Normalize are`,
        `modules.json of ${files.label}`,
        0,
      );
    }
  }
  // Older files have no list of modules.
  const other = async (): Promise<Pooling> =>
    await files.text("1_Pooling/config.json") === undefined
      ? "mean"
      : await poolingOf(files, "1_Pooling");
  return { pooling: pooling ?? await other(), modules, size };
}

/**
 * Turns texts into vectors, whose directions are close for texts of close meaning.
 *
 * Texts are tokenized in slices and computed off the event loop, in batches of about equal length.
 *
 * @example
 * ```ts
 * import { Embedder } from "@rowmajor/tensor/models";
 *
 * using embedder = await Embedder.open("sentence-transformers/all-MiniLM-L6-v2");
 * const [a, b] = await embedder.embed(["a cat", "a kitten"]);
 * ```
 */
export class Embedder implements Disposable {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Embedder";
  }

  /** The size of vectors. */
  readonly dimensions: number;
  /** The maximum number of tokens of a text; longer texts are cut. */
  readonly maxTokens: number;
  /** The texts of the model that precede texts, by name: see {@link EmbedOptions.prompt}. */
  readonly prompts: Readonly<Record<string, string>>;
  /** The name of the model: that of its file or folder, or of the hub, such as `"organization/name"`. */
  readonly name: string;
  /**
   * The encoder, and what is computed of its states.
   *
   * @ignore
   */
  readonly encoder: TextEncoder;

  private constructor(encoder: TextEncoder, dimensions: number, prompts: Record<string, string>) {
    this.encoder = encoder;
    this.name = encoder.name;
    this.dimensions = dimensions;
    this.maxTokens = encoder.longest;
    this.prompts = Object.freeze(prompts);
  }

  /**
   * Opens a model of {@link https://sbert.net sentence-transformers}, or another encoder.
   *
   * @param source A folder, a GGUF file, `"organization/name"` in the cache of the Hugging Face hub,
   *   or files in memory by name.
   * @throws {FormatError} For a model of another kind, and for damaged files.
   * @throws {PackageError} If the files have a tokenizer.json, and the package
   *   `@huggingface/tokenizers` is not installed.
   */
  static async open(source: ModelSource, options: EmbedderOptions = {}): Promise<Embedder> {
    checkOptions("open an embedder", options, [...ENCODER_OPTIONS, "pooling", "maxTokens"]);
    const { pooling, maxTokens, ...rest } = options;
    if (pooling !== undefined && !POOLINGS.includes(pooling)) {
      throw new ArgumentError(
        `Cannot open an embedder with pooling ${describe(pooling)}: it is one of ${
          POOLINGS.join(", ")
        }`,
      );
    }
    checkMaxTokens("open an embedder", maxTokens);
    let dimensions = 0;
    const prompts: Record<string, string> = {};
    const encoder = await TextEncoder.open(source, rest, async (opened, own): Promise<Task> => {
      const { files } = opened;
      const { pooling: usual, modules, size } = await modulesOf(opened, own);
      dimensions = size;
      const { fields } = await fieldsOf(files, "config_sentence_transformers.json");
      for (const [name, text] of Object.entries(objectOf(fields["prompts"]))) {
        if (typeof text === "string") prompts[name] = text;
      }
      const { reader } = await fieldsOf(files, "sentence_bert_config.json");
      const key = "max_seq_length";
      const limit = reader.has(key) ? reader.size(key, Number.MAX_SAFE_INTEGER) : undefined;
      return {
        ignore: [
          "pooler.*",
          "*.pooler.*",
          "*position_ids",
          "cls.*",
          "lm_head.*",
          "head.*",
          "*inv_freq",
        ],
        longest: maxTokens ?? limit,
        finish: (states, lengths) =>
          modules.reduce(
            (x, module) => module(x),
            pool(states, lengths, pooling ?? usual),
          ),
      };
    });
    return new Embedder(encoder, dimensions, prompts);
  }

  /** The text before texts. */
  #prefixOf({ prompt, prefix }: EmbedOptions): string {
    if (prompt === undefined) return prefix ?? "";
    if (prefix !== undefined) {
      throw new ArgumentError("Cannot embed with a prompt and a prefix: only one of them fits");
    }
    if (Object.hasOwn(this.prompts, prompt)) return this.prompts[prompt]!;
    const names = Object.keys(this.prompts);
    throw new ArgumentError(
      `Cannot embed with prompt ${describe(prompt)}: the model has ` +
        (names.length === 0 ? "none" : names.join(", ")),
    );
  }

  /** What `made` makes of the vector of each text, checked and finished. */
  async #vectors<R>(
    op: string,
    texts: readonly string[],
    options: EmbedOptions,
    made: (vector: Float32Array) => R,
  ): Promise<R[]> {
    checkOptions(op, options, EMBED_OPTIONS);
    const { dimensions = this.dimensions, normalize = true, signal } = options;
    if (!Number.isInteger(dimensions) || dimensions < 1 || dimensions > this.dimensions) {
      throw new ArgumentError(
        `Cannot ${op} with dimensions ${
          describe(dimensions)
        }: they are from 1 to ${this.dimensions}`,
      );
    }
    const prefix = this.#prefixOf(options);
    return await this.encoder.rows(
      texts.map((text) => prefix + text),
      { signal },
      (row) => made(vectorOf(row, dimensions, normalize)),
    );
  }

  /**
   * Returns the vector of a text, or the vectors of texts in their order: arrays of `dimensions`
   * numbers. {@link matrix} returns them as one tensor.
   *
   * @throws {ArgumentError} For values that are no texts, and for options that do not fit.
   * @throws {DisposedError} After `dispose`.
   */
  embed(text: string, options?: EmbedOptions): Promise<number[]>;
  /** The vector of each of several texts. */
  embed(texts: readonly string[], options?: EmbedOptions): Promise<number[][]>;
  async embed(
    texts: string | readonly string[],
    options: EmbedOptions = {},
  ): Promise<number[] | number[][]> {
    const isOne = typeof texts === "string";
    // JSON has no arrays with a type: an embedding is most often sent on, or kept in a database.
    const made = await this.#vectors(
      "embed",
      isOne ? [texts] : textsIn("embed", texts),
      options,
      (vector) => [...vector],
    );
    return isOne ? made[0]! : made;
  }

  /** Returns the vectors of texts as the rows of a tensor: [N, D]. Throws as {@link embed}. */
  async matrix(
    texts: readonly string[],
    options: EmbedOptions = {},
  ): Promise<Tensor<"float32", [number, number]>> {
    const { dimensions: size = this.dimensions } = options;
    const rows = await this.#vectors("embed", textsIn("embed", texts), options, (vector) => vector);
    const all = new Float32Array(rows.length * size);
    rows.forEach((row, i) => all.set(row, i * size));
    using view = fromBuffer(all, { shape: [rows.length, size] });
    // Memory that only tensors reach: searches read it in place.
    return view.copy();
  }

  /** Returns the cosine of the angle between the vectors of two texts. Throws as {@link embed}. */
  async similarity(a: string, b: string, options: EmbedOptions = {}): Promise<number> {
    const [x, y] = await this.#vectors("compare", textsIn("compare", [a, b]), {
      ...options,
      normalize: true,
    }, (vector) => vector);
    return x!.reduce((sum, value, i) => sum + value * y![i]!, 0);
  }

  /**
   * Finds the texts whose vectors are closest to that of `query`.
   *
   * @param texts Texts, or their vectors as the rows of a tensor [N, D]: see {@link matrix}. Use a
   *   tensor for many searches.
   * @returns The closest first.
   */
  async search(
    query: string,
    texts: readonly string[] | AnyTensor,
    options: SearchOptions = {},
  ): Promise<SearchResult[]> {
    const { top = 10, ...rest } = options;
    if (!Number.isInteger(top) || top < 1) {
      throw new ArgumentError(
        `Cannot search with top ${describe(top)}: it is an integer of at least 1`,
      );
    }
    const { dimensions, signal } = rest;
    const isMatrix = typeof texts === "object" && texts !== null && "shape" in texts;
    // The texts may change, and the tensor be disposed of, after the call.
    using given = isMatrix ? held(texts as AnyTensor) : undefined;
    const own = isMatrix ? [] : textsIn("search", texts);
    const [vector] = await this.#vectors("search", textsIn("search", [query]), {
      ...rest,
      normalize: true,
    }, (vector) => vector);
    using made = given === undefined ? await this.matrix(own, { dimensions, signal }) : undefined;
    const matrix = given?.tensor ?? made!;
    const [rows = 0, size] = matrix.shape;
    if (matrix.shape.length !== 2 || size !== vector!.length) {
      throw new ShapeError(
        `Cannot search shape ${formatShape(matrix.shape)}: it takes [N, ${vector!.length}]`,
      );
    }
    if (rows === 0) return [];
    using target = fromBuffer(vector!, { shape: [size, 1] });
    const found = await ranked.async(matrix.asShape([rows, size]), target, Math.min(top, rows), {
      ...signal && { signal },
    });
    using values = found.values;
    using indices = found.indices;
    const [scores, places] = [await values.read(), await indices.read()];
    return Array.from(scores, (score, i) => ({ index: Number(places[i]), score }));
  }

  /** Frees the weights and the programs. Calls then throw a DisposedError. */
  dispose(): void {
    this.encoder.dispose();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/**
 * A matrix as it is now, in float32, until it is disposed of: its own elements if it has them so on the
 * CPU, else a copy.
 */
function held(x: AnyTensor): { readonly tensor: Tensor<"float32"> } & Disposable {
  checkAlive(x.storage, "search");
  if (x.dtype !== "float32" || x.device !== "cpu") {
    const copy = x.astype("float32");
    return { tensor: copy, [Symbol.dispose]: () => copy.dispose() };
  }
  const lease = leaseOf(x.storage);
  const own = new Tensor<"float32">(lease.storage, x.layout);
  return {
    tensor: own,
    [Symbol.dispose]() {
      own.dispose();
      lease.end();
    },
  };
}

/** The rows of a matrix that are closest to a vector. */
const ranked = compile((
  matrix: Tensor<"float32", [number, number]>,
  vector: Tensor<"float32", [number, number]>,
  count: number,
) => {
  const lengths = matrix.norm(1, { keepDims: true }).maximum(1e-12);
  return matrix.matmul(vector).div(lengths).reshape([-1]).topk(count);
}, { static: [2] });

/** The first numbers of a row, of length 1 if asked for. */
export function vectorOf(row: Float32Array, dimensions: number, unit: boolean): Float32Array {
  const cut = dimensions === row.length ? row : row.slice(0, dimensions);
  if (!unit) return cut;
  const length = Math.sqrt(cut.reduce((sum, x) => sum + x * x, 0));
  // As PyTorch's normalize.
  return cut.map((x) => x / Math.max(length, 1e-12));
}
