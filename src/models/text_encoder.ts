/**
 * Models that encode texts: the tokenizer, the encoder and what is computed of its states, as one
 * program for each shape of a batch, off the event loop.
 *
 * @module
 */
import { ArgumentError, DisposedError, FormatError } from "../base/errors.ts";
import { listIn } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { compile } from "../compile/mod.ts";
import { objectOf, Reader } from "../llm/config/reader.ts";
import * as nn from "../nn/mod.ts";
import { fromBuffer } from "../tensor/create.ts";
import type { Tensor } from "../tensor/tensor.ts";
import {
  type Encoding,
  open as openTokenizer,
  type TextInput,
  type Tokenizer,
} from "../tokenizers/mod.ts";
import { batchesOf, type TextBatch } from "./batches.ts";
import { ENCODERS } from "./encoders/families.ts";
import type {
  AnyWeights,
  Encoder,
  Ids,
  LayerOptions,
  Lengths,
  Sight,
  State,
} from "./encoders/parts.ts";
import { filesOf, type FindOptions, jsonOf, type ModelFiles, type ModelSource } from "./files.ts";

/** Options of opening a model that encodes texts. */
export interface EncoderOptions extends FindOptions {
  /**
   * `"int8"` rounds the weights of products to 8 bits, and the rows that they multiply too: a quarter
   * of the memory of float32, and faster products. By default weights stay as in the file.
   */
  readonly quantize?: "int8" | undefined;
  /** A function that gets the progress while weights are loaded. */
  readonly onProgress?: ((progress: nn.LoadProgress) => void) | undefined;
}

/** The names of {@link EncoderOptions}. */
export const ENCODER_OPTIONS: readonly string[] = ["quantize", "download", "onProgress", "signal"];

/** What is computed of the states of a batch: a row for each text, [B, R]. */
export type Finish = (states: State, lengths: Lengths) => Tensor<"float32", [number, number]>;

/** What a task makes of an opened model. */
export interface Task {
  /** The parts of the weights' names that it does not use. */
  readonly ignore: readonly string[];
  /** The most tokens of a text; by default as many as the encoder takes. */
  readonly longest?: number | undefined;
  readonly finish: Finish;
}

/** An opened model, before its weights are loaded. */
export interface Opened {
  readonly files: ModelFiles;
  readonly weights: AnyWeights;
  readonly encoder: Encoder;
  /** config.json, or the metadata of a GGUF file. */
  readonly reader: Reader;
  /** The prefix of the keys of a GGUF file, such as `"bert"`; undefined for config.json. */
  readonly architecture: string | undefined;
  readonly options: LayerOptions;
}

/** The rows of a text: its tokens, and the place that it had. */
interface Row {
  readonly place: number;
  readonly ids: readonly number[];
  readonly typeIds: readonly number[];
}

/** The encoder of opened weights. */
function encoderOf(
  weights: AnyWeights,
  json: unknown,
  label: string,
  options: LayerOptions,
): Pick<Opened, "encoder" | "reader" | "architecture"> {
  const { metadata } = weights;
  const isGguf = metadata.has("general.architecture");
  if (!isGguf && json === undefined) {
    throw new FormatError(
      "the sizes of the model are missing: there is no config.json, and no metadata of GGUF",
      label,
      0,
    );
  }
  const fields = objectOf(json);
  const reader = isGguf ? new Reader((key) => metadata.get(key), label) : new Reader(
    (key) => Object.hasOwn(fields, key) ? fields[key] : undefined,
    `config.json of ${label}`,
  );
  const key = isGguf ? "general.architecture" : "model_type";
  const kind = reader.value(key);
  const family = ENCODERS.find(({ json, gguf }) =>
    isGguf ? gguf === kind : typeof kind === "string" && json.includes(kind)
  );
  const make = isGguf ? family?.makeOfGguf : family?.make;
  if (make === undefined) {
    const known = ENCODERS.flatMap(({ json, gguf }) => isGguf ? gguf ?? [] : json).join(", ");
    return reader.reject(key, `one of the encoders ${known}`);
  }
  const encoder = make(weights, reader, options);
  return { encoder, reader, architecture: isGguf ? String(kind) : undefined };
}

/** The tokenizer of a model. */
async function tokenizerOf(
  files: ModelFiles,
  { weights, architecture }: Pick<Opened, "weights" | "architecture">,
): Promise<Tokenizer> {
  if (architecture !== undefined) {
    return await openTokenizer(weights.metadata, { file: files.label });
  }
  const tokenizer = await jsonOf(files, "tokenizer.json");
  if (typeof tokenizer !== "object" || tokenizer === null) {
    throw new FormatError("there is no tokenizer.json", files.label, 0);
  }
  const config = objectOf(await jsonOf(files, "tokenizer_config.json"));
  return await openTokenizer({ tokenizer, config }, { file: `tokenizer.json of ${files.label}` });
}

/** Throws unless `maxTokens` is a number of tokens, or undefined. */
export function checkMaxTokens(op: string, maxTokens: unknown): void {
  if (maxTokens === undefined || Number.isInteger(maxTokens) && Number(maxTokens) >= 1) return;
  throw new ArgumentError(
    `Cannot ${op} with maxTokens ${describe(maxTokens)}: it is an integer of at least 1`,
  );
}

/** Texts as the caller gives them, checked and copied. */
export function textsIn(op: string, texts: unknown): string[] {
  const list = listIn(texts, (text) => {
    if (typeof text === "string") return text;
    throw new ArgumentError(`Cannot ${op} ${describe(text)}: it takes texts`);
  });
  if (list !== undefined) return list;
  throw new ArgumentError(`Cannot ${op} ${describe(texts)}: it takes a text or an array of texts`);
}

/** Texts and pairs of texts as the caller gives them, checked and copied. */
export function inputsIn(op: string, inputs: unknown): TextInput[] {
  const list = listIn(inputs, (input): TextInput => {
    if (typeof input === "string") return input;
    const [text, pair, ...others] = listIn(input, (one) => one) ?? [];
    if (typeof text === "string" && typeof pair === "string" && others.length === 0) {
      return [text, pair];
    }
    throw new ArgumentError(`Cannot ${op} ${describe(input)}: it takes texts and pairs of texts`);
  });
  if (list !== undefined) return list;
  throw new ArgumentError(`Cannot ${op} ${describe(inputs)}: it takes a text or an array of texts`);
}

/** The most programs of a part: one for each number of texts and each length. */
const PROGRAMS = { maxPrograms: 128 };

/**
 * The parts of a model, each of which has a program for each shape: a part is traced and compiled in a
 * few milliseconds, and the event loop is free between parts. A whole model would block it ten times
 * as long.
 */
function partsOf(encoder: Encoder, finish: Finish) {
  return {
    begin: compile(
      (ids: Ids, types: Ids, lengths: Lengths) => encoder.begin({ ids, types, lengths }),
      PROGRAMS,
    ),
    layers: encoder.layers.map(({ kind, run }) => ({
      kind,
      run: compile(
        (x: State, lengths: Lengths, sight: Sight) => run(x, { ...sight, lengths }),
        PROGRAMS,
      ),
    })),
    end: compile((x: State, lengths: Lengths) => finish(encoder.end(x), lengths), PROGRAMS),
  };
}

/** A model that gives a row of numbers for each text. */
export class TextEncoder implements Disposable {
  readonly tokenizer: Tokenizer;
  /** The name of the model. */
  readonly name: string;
  /** The most tokens of a text. */
  readonly longest: number;
  readonly #label: string;
  readonly #sizes: Pick<Encoder, "vocabulary" | "types">;
  readonly #weights: AnyWeights;
  readonly #more: Disposable[];
  readonly #parts: ReturnType<typeof partsOf>;
  #disposed = false;

  private constructor(
    { weights, files, encoder }: Opened,
    { finish, longest = encoder.longest }: Task,
    tokenizer: Tokenizer,
    more: Disposable[],
  ) {
    this.tokenizer = tokenizer;
    this.longest = Math.min(longest, encoder.longest);
    this.name = files.name;
    this.#label = files.label;
    this.#sizes = encoder;
    this.#weights = weights;
    this.#more = more;
    this.#parts = partsOf(encoder, finish);
  }

  /**
   * Opens a model. `task` asks for the layers that it needs besides the encoder, and passes weights of
   * other files to `own`.
   */
  static async open(
    source: ModelSource,
    { quantize, download, onProgress, signal }: EncoderOptions,
    task: (opened: Opened, own: <X extends Disposable>(x: X) => X) => Task | Promise<Task>,
  ): Promise<TextEncoder> {
    if (quantize !== undefined && quantize !== "int8") {
      throw new ArgumentError(
        `Cannot open a model with quantize ${describe(quantize)}: "int8" is known`,
      );
    }
    signal?.throwIfAborted();
    const files = await filesOf(source, { download, signal });
    const place = await files.weights();
    if (place === undefined) throw new FormatError("there are no weights", files.label, 0);
    const weights = await nn.open(place);
    const more: Disposable[] = [];
    try {
      const options: LayerOptions = { quantize };
      const known = encoderOf(weights, await jsonOf(files, "config.json"), files.label, options);
      const opened: Opened = { files, weights, options, ...known };
      const made = await task(opened, (x) => {
        more.push(x);
        return x;
      });
      const tokenizer = await tokenizerOf(files, opened);
      await weights.load({
        ignore: made.ignore,
        ...onProgress === undefined ? {} : { onProgress },
        ...signal === undefined ? {} : { signal },
      });
      const encoder = new TextEncoder(opened, made, tokenizer, more);
      // Engines compile what the first text runs, which would block its call as long as ten others.
      await encoder.rows(["a"], { signal }, () => {});
      return encoder;
    } catch (error) {
      weights.dispose();
      for (const one of more) one[Symbol.dispose]();
      throw error;
    }
  }

  /** The number of tokens that it knows. */
  get vocabulary(): number {
    return this.#sizes.vocabulary;
  }

  #checkAlive(): void {
    if (this.#disposed) {
      throw new DisposedError(`Cannot use the model ${this.#label}: it was disposed`);
    }
  }

  /** Throws a FormatError for tokens, or types of tokens, without a row in their embedding. */
  #checkRows(ids: readonly number[], what: string, rows: number): void {
    const other = ids.find((id) => !(id >= 0 && id < rows));
    if (other === undefined) return;
    throw new FormatError(
      `the tokenizer gives the ${what} ${other}, and the model has ${rows} of them`,
      this.#label,
      0,
    );
  }

  /** The tokens of texts; those beyond `maxLength`, by default `longest`, are left out. */
  async encode(
    inputs: readonly TextInput[],
    { signal, maxLength = this.longest }: {
      readonly signal?: AbortSignal | undefined;
      readonly maxLength?: number | undefined;
    } = {},
  ): Promise<readonly Encoding[]> {
    this.#checkAlive();
    return await this.tokenizer.encodeBatch(inputs, {
      maxLength,
      ...signal === undefined ? {} : { signal },
    });
  }

  /**
   * What `finish` makes of the row of each text, in their order. Rows are finished batch by batch, so
   * that the event loop is free in between.
   */
  async compute<R>(
    encoded: readonly Encoding[],
    { signal }: { readonly signal?: AbortSignal | undefined },
    finish: (row: Float32Array) => R,
  ): Promise<R[]> {
    this.#checkAlive();
    const rows = encoded.map(({ ids, typeIds }, place): Row => {
      const { vocabulary, types } = this.#sizes;
      this.#checkRows(ids, "token", vocabulary);
      if (types > 1) this.#checkRows(typeIds, "type", types);
      // A text without tokens has a vector too: that of one token of padding.
      if (ids.length === 0) return { place, ids: [this.tokenizer.pad ?? 0], typeIds: [0] };
      return { place, ids, typeIds };
    });
    const made: R[] = [];
    for (const batch of batchesOf(rows, this.longest)) {
      signal?.throwIfAborted();
      this.#checkAlive();
      const values = await this.#valuesOf(batch);
      const size = values.length / batch.texts.length;
      batch.texts.forEach(({ place }, i) => {
        made[place] = finish(values.slice(i * size, (i + 1) * size));
      });
    }
    return made;
  }

  /** {@link encode} and {@link compute}: texts of more than `longest` tokens are cut. */
  async rows<R>(
    inputs: readonly TextInput[],
    { signal }: { readonly signal?: AbortSignal | undefined },
    finish: (row: Float32Array) => R,
  ): Promise<R[]> {
    return await this.compute(await this.encode(inputs, { signal }), { signal }, finish);
  }

  /** The rows of a batch, one after the other. */
  async #valuesOf(
    { width, texts }: TextBatch<Pick<Row, "ids" | "typeIds">>,
  ): Promise<Float32Array> {
    const shape = [texts.length, width] as const;
    const [ids, types] = [
      new Int32Array(texts.length * width),
      new Int32Array(texts.length * width),
    ];
    texts.forEach((text, i) => {
      ids.set(text.ids, i * width);
      types.set(text.typeIds, i * width);
    });
    using tokens = fromBuffer(ids, { shape });
    using kinds = fromBuffer(types, { shape });
    using lengths = fromBuffer(Int32Array.from(texts, ({ ids }) => ids.length));
    using result = await this.#run(tokens, kinds, lengths);
    return await result.read();
  }

  /** The rows of a batch, part by part. */
  async #run(ids: Ids, types: Ids, lengths: Lengths): Promise<Tensor<"float32", [number, number]>> {
    const { begin, layers, end } = this.#parts;
    const { x: first, sights } = await begin.async(ids, types, lengths);
    // Not a DisposableStack, which Node 22 lacks.
    using _ = {
      [Symbol.dispose]() {
        for (const { angles, mask } of sights) {
          for (const one of [angles?.cos, angles?.sin, mask]) one?.dispose();
        }
      },
    };
    let x = first;
    for (const { kind, run } of layers) {
      using before = x;
      x = await run.async(before, lengths, sights[kind]!);
    }
    using last = x;
    return await end.async(last, lengths);
  }

  /** Frees the weights and the programs. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    const { begin, layers, end } = this.#parts;
    for (const one of [begin, ...layers.map(({ run }) => run), end]) one.dispose();
    this.#weights.dispose();
    for (const one of this.#more) one[Symbol.dispose]();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}
