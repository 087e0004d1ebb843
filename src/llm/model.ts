/**
 * Models that generate text, and sessions, which cache keys and values of their tokens.
 *
 * @module
 */
import { ArgumentError, DisposedError, FormatError } from "../base/errors.ts";
import { lengthOf, listIn } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { compile, type Compiled } from "../compile/mod.ts";
import type { Path } from "../io/file.ts";
import * as nn from "../nn/mod.ts";
import { checkOptions } from "../table/infer.ts";
import { tensor } from "../tensor/create.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import type { Angles, AnyWeights, Past, Step, Stepped, Wanted } from "./blocks/step.ts";
import { DecoderCache } from "./cache.ts";
import { checkRope, type ModelConfig, ropesOf } from "./config/config.ts";
import { objectOf } from "./config/reader.ts";
import { stepOf } from "./families/registry.ts";
import { checkMemory, memoryOfModel } from "./memory.ts";
import { configOf, factorsOf } from "./model_files.ts";
import { Sampler, SAMPLER_OPTIONS, type SamplerOptions } from "./sampler.ts";
import { stopTexts, TextStream, tokensIn } from "../tokenizers/text_stream.ts";

/** Options of {@link open}. */
export interface OpenOptions<V extends t.Device = t.Device> {
  /** The dtype of the key-value cache; float16 by default. q8_0 needs half the memory. */
  readonly cache?: nn.CacheDType | undefined;
  /** The device of the weights and of the cache; the CPU by default. */
  readonly device?: V | undefined;
  /** The dtype to which weights are cast or dequantized; by default they keep that of the file. */
  readonly dtype?: t.PackedDType | undefined;
  /** The sizes of the model, for weights without config.json or metadata. */
  readonly config?: ModelConfig | undefined;
  /** A function that gets the progress while weights are loaded. */
  readonly onProgress?: ((progress: nn.LoadProgress) => void) | undefined;
  /**
   * A folder with a LoRA adapter of PEFT (adapter_config.json and adapter_model.safetensors), which is
   * merged with weights in safetensors. By default there is none.
   */
  readonly adapter?: Path | undefined;
  /** Whether the model's memory is compared with the free memory before loading, as by default. */
  readonly checkMemory?: boolean | undefined;
  /** Stops loading. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of a session. */
export interface SessionOptions {
  /** The initial capacity of the cache in tokens; 256 by default. The cache grows by doubling. */
  readonly capacity?: number | undefined;
}

/** The reason why a text has ended: a stop token or text, or one of two limits. */
export type FinishReason = "stop" | "maxTokens" | "contextLength";

/** Options of `generate`. */
export interface GenerateOptions extends SamplerOptions {
  /** The maximum number of tokens to generate; by default the rest of the context. */
  readonly maxTokens?: number | undefined;
  /** The tokens that end the text; they are not part of it. By default those of the file. */
  readonly stopTokens?: readonly number[] | undefined;
  /** Stops the generation: the iteration throws the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
}

/** Converts text to tokens and back, such as a tokenizer of `@huggingface/tokenizers`. */
export interface TextCodec {
  /** Returns the tokens of a text, or an object with the tokens as `ids`. */
  encode(text: string): readonly number[] | { readonly ids: readonly number[] };
  /** Returns the text of tokens, with U+FFFD for bytes of an incomplete character. */
  decode(ids: number[]): string;
}

/** Options of `generateText`. */
export interface GenerateTextOptions extends GenerateOptions {
  /** Texts that end the generated text; they are not part of it. */
  readonly stop?: string | readonly string[] | undefined;
  /** A function that gets each token before its text. */
  readonly onToken?: ((id: number) => void) | undefined;
}

/** The tokens that a session has room for at first. */
const USUAL_CAPACITY = 256;

/** The names of {@link OpenOptions}, without `config`. */
export const OPEN_OPTIONS: readonly string[] = [
  ...["cache", "device", "dtype", "adapter", "checkMemory", "onProgress", "signal"],
];

const GENERATE_OPTIONS = ["maxTokens", "stopTokens", "signal", ...SAMPLER_OPTIONS];

/** Sizes of chunks of tokens, the largest first: one program each. */
const CHUNKS: readonly number[] = [128, 64, 32, 16, 8, 4, 2, 1];

/** The next chunk of `left` tokens: nearly full, or full. */
function chunkOf(left: number): number {
  for (const size of CHUNKS) if (left > size * 3 / 4) return size;
  return 1;
}

/**
 * Opens a language model of a family in the table of docs/which-models.md. Quantized weights stay
 * quantized.
 *
 * @param source The path of a GGUF file or of a folder with config.json and safetensors, or the
 *   bytes of a file.
 * @returns The model, with loaded weights; `using` or `dispose` frees it.
 * @throws {FormatError} For other models, for damaged files, for files without a required tensor or
 *   size, and for an adapter that does not fit.
 * @throws {OutOfMemoryError} If the weights and a small cache need more than the free memory.
 *
 * @example
 * ```ts
 * using model = await llm.open("SmolLM2-135M-Instruct.Q4_1.gguf");
 * for await (const id of model.generate([1, 9690, 198], { maxTokens: 20 })) console.log(id);
 * ```
 */
export async function open<V extends t.Device = "cpu">(
  source: Path | Uint8Array,
  options: OpenOptions<V> = {},
): Promise<LanguageModel> {
  checkOptions("open a model", options, [...OPEN_OPTIONS, "config"]);
  const { cache = "float16", device, dtype, config, adapter, onProgress, signal } = options;
  signal?.throwIfAborted();
  const weights = await nn.open(source, { device, dtype, adapter });
  try {
    const sizes = config ?? await configOf(source, weights);
    // Throws if the cache cannot be of that dtype.
    new nn.KVCache({
      ...{ layers: 1, heads: 1, capacity: 1 },
      ...{ dimensions: sizes.headDimensions, dtype: cache, device },
    }).dispose();
    if (options.checkMemory !== false) {
      const context = Math.min(sizes.contextLength, USUAL_CAPACITY);
      checkMemory(memoryOfModel(weights, sizes, { context, cache, dtype, device }), device);
    }
    const step = stepOf(weights, sizes, cache);
    const file = ArrayBuffer.isView(source) ? "<bytes>" : String(source);
    const fail = (message: string): never => {
      throw new FormatError(message, file, 0);
    };
    const factors = factorsOf(weights, "rope_freqs.weight", file);
    if (factors !== undefined && sizes.rope.scaling?.type === "longrope") {
      throw fail(
        "the file has rope_freqs.weight and the factors of longrope: only one of them fits",
      );
    }
    checkRope(sizes.rope, fail, factors);
    await weights.load({
      ignore: ["*.rotary_emb.inv_freq"],
      onProgress,
      signal,
    });
    return new LanguageModel(weights, sizes, step, { cache, device, factors });
  } catch (error) {
    weights.dispose();
    throw error;
  }
}

/** The parts of a model other than its weights and the function of a step. */
interface ModelParts {
  readonly cache: nn.CacheDType;
  readonly device: t.Device | undefined;
  /** Divisors of the frequencies of positions. */
  readonly factors: Float32Array | undefined;
}

/** A model whose weights are loaded; made by {@link open}. */
export class LanguageModel implements Disposable {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "LanguageModel";
  }

  /** The sizes of the model. */
  readonly config: ModelConfig;
  readonly #weights: AnyWeights;
  readonly #step: Compiled<Step>;
  readonly #cache: nn.CacheDType;
  readonly #device: t.Device | undefined;
  readonly #factors: Float32Array | undefined;
  #disposed = false;

  /** Programs use {@link open}. @ignore */
  constructor(
    weights: AnyWeights,
    config: ModelConfig,
    step: Step,
    { cache, device, factors }: ModelParts,
  ) {
    this.#weights = weights;
    this.config = config;
    this.#step = compile(step, { maxPrograms: 64 });
    this.#cache = cache;
    this.#device = device;
    this.#factors = factors;
  }

  /** The metadata of the file: see {@link nn.Weights.metadata}. */
  get metadata(): nn.Metadata {
    return this.#weights.metadata;
  }

  /** Returns a new session without tokens. */
  session(options: SessionOptions = {}): Session {
    this.#checkAlive();
    checkOptions("make a session", options, ["capacity"]);
    const { capacity } = options;
    const cache = DecoderCache.of(this.config, {
      ...{ dtype: this.#cache, device: this.#device, capacity },
    });
    return new Session(this, cache, []);
  }

  /** Generates the tokens after `ids`: {@link Session.generate} of a new session. */
  async *generate(
    ids: readonly number[],
    options: GenerateOptions = {},
  ): AsyncGenerator<number, FinishReason> {
    using session = this.session();
    return yield* session.generate(ids, options);
  }

  /** Generates the text after `prompt`: {@link Session.generateText} of a new session. */
  async *generateText(
    codec: TextCodec,
    prompt: string | readonly number[],
    options: GenerateTextOptions = {},
  ): AsyncGenerator<string, FinishReason> {
    using session = this.session();
    return yield* session.generateText(codec, prompt, options);
  }

  #checkAlive(): void {
    if (this.#disposed) throw new DisposedError("Cannot generate: the model was disposed");
  }

  /**
   * Computes the tokens `ids`, which follow those of `cache`, of a text of `length` tokens; pads them to
   * `chunk`.
   *
   * @ignore
   */
  async step(
    ids: readonly number[],
    chunk: number,
    cache: DecoderCache,
    wanted: "all" | "last" | "none",
    signal: AbortSignal | undefined,
    length: number,
  ): Promise<Float32Array | undefined> {
    this.#checkAlive();
    const on = this.#device === undefined ? {} : { device: this.#device };
    const start = cache.length;
    const padded = [...ids, ...new Array<number>(chunk - ids.length).fill(0)];
    const inputs: AnyTensor[] = [];
    const note = <X extends AnyTensor>(x: X): X => (inputs.push(x), x);
    const integer = (value: number): AnyTensor => note(tensor(value, { dtype: "int32", ...on }));
    try {
      const positions = padded.map((_, i) => start + i);
      const angles = ropesOf(this.config).map(({ dimensions, base, scaling }, i): Angles => {
        // The factors of a file are those of the usual positions.
        const factors = i === 0 ? this.#factors : undefined;
        const own = { dimensions, base, scaling, factors, length, ...on };
        const { cos, sin } = nn.ropeAngles(positions, own);
        return { cos: note(cos), sin: note(sin) };
      });
      const convolved = cache.convolved();
      if (convolved !== undefined) note(convolved);
      const past: Past = { data: cache.data, length: integer(start), convolved };
      const which: Wanted = wanted === "last" ? integer(ids.length - 1) : wanted;
      const tokens = note(tensor(padded, { dtype: "int32", ...on }));
      const made: Stepped = await this.#step.async(tokens, angles, past, which, {
        ...signal && { signal },
      });
      note(made.rows);
      if (made.convolved !== undefined) note(made.convolved);
      if (made.logits !== undefined) note(made.logits);
      this.#checkAlive();
      cache.append(made.rows, made.convolved, ids.length);
      if (made.logits === undefined) return undefined;
      const all = await made.logits.read();
      return wanted === "all" ? all.subarray(0, ids.length * this.config.vocabulary) : all;
    } finally {
      for (const one of inputs) one.dispose();
    }
  }

  /** Frees the weights and the programs. Sessions then throw a DisposedError. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#step.dispose();
    this.#weights.dispose();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** The tokens of a text; throws an ArgumentError unless `codec` gives them. */
function encoded(codec: TextCodec, text: string): readonly number[] {
  const made: unknown = codec.encode(text);
  const ids = Array.isArray(made) ? made : objectOf(made)["ids"];
  if (Array.isArray(ids)) return ids;
  throw new ArgumentError(
    `Cannot generate: encode gave ${
      describe(made)
    }, and must give an array of tokens or an object ` +
      "with the array ids",
  );
}

/** How many first elements are the same. */
function commonLength(a: readonly number[], b: readonly number[]): number {
  const least = Math.min(a.length, b.length);
  let n = 0;
  while (n < least && a[n] === b[n]) n++;
  return n;
}

/**
 * The tokens that a model has seen, with their keys and values. What they have in common with the next
 * prompt is not computed again: a chat's earlier turns, or a long prompt for many questions.
 *
 * A session runs one call at a time. Sessions of one model may run at the same time: their steps take
 * turns, off the event loop.
 */
export class Session implements Disposable {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Session";
  }

  /** The model. */
  readonly model: LanguageModel;
  readonly #cache: DecoderCache;
  readonly #tokens: number[];
  #busy = false;

  /** Programs use {@link LanguageModel.session}. @ignore */
  constructor(model: LanguageModel, cache: DecoderCache, tokens: readonly number[]) {
    this.model = model;
    this.#cache = cache;
    this.#tokens = [...tokens];
  }

  /** The tokens whose keys and values are in the cache. */
  get tokens(): readonly number[] {
    return this.#tokens.slice();
  }

  /** The memory of the cache in bytes. */
  get bytes(): number {
    return this.#cache.bytes;
  }

  /** Returns a new session with a copy of the cache. */
  fork(): Session {
    this.#checkIdle();
    return new Session(this.model, this.#cache.copy(), this.#tokens);
  }

  /**
   * Removes all tokens except the first `length` from the cache. A model with convolutions can go back
   * by 256 tokens, and removes all of them otherwise: the next call computes them again.
   */
  truncate(length: number): void {
    this.#checkIdle();
    this.#tokens.length = this.#cache.truncate(length);
  }

  #checkIdle(): void {
    if (!this.#busy) return;
    throw new ArgumentError(
      "Cannot use a session that is generating: end the iteration first, or fork() it before",
    );
  }

  /** The tokens of the caller, who may change them while this session works. */
  #ownTokens(ids: unknown): number[] {
    if (lengthOf(ids)) return tokensIn(ids, this.model.config.vocabulary);
    throw new ArgumentError(
      `Cannot generate after ${describe(ids)}: it takes an array of at least one token`,
    );
  }

  /** Throws unless `count` tokens fit the context of the model. */
  #checkContext(count: number): void {
    const { contextLength } = this.model.config;
    if (count <= contextLength) return;
    throw new ArgumentError(
      `Cannot generate after ${count} tokens: the model has a context of ${contextLength}`,
    );
  }

  /** Computes what of `ids` is not in the cache; at least the last token. */
  async #extend(
    ids: readonly number[],
    wanted: "all" | "last",
    signal: AbortSignal | undefined,
  ): Promise<Float32Array> {
    const common = wanted === "all" ? 0 : Math.min(commonLength(ids, this.#tokens), ids.length - 1);
    const known = this.#cache.truncate(common);
    this.#tokens.length = known;
    this.#cache.reserve(ids.length);
    const { vocabulary } = this.model.config;
    const all = wanted === "all" ? new Float32Array(ids.length * vocabulary) : undefined;
    let logits: Float32Array | undefined;
    for (let at = known; at < ids.length;) {
      signal?.throwIfAborted();
      const chunk = chunkOf(ids.length - at);
      const part = ids.slice(at, at + chunk);
      const isLast = at + part.length === ids.length;
      const need = all !== undefined ? "all" : isLast ? "last" : "none";
      logits = await this.model.step(part, chunk, this.#cache, need, signal, ids.length);
      all?.set(logits!, at * vocabulary);
      this.#tokens.push(...part);
      at += part.length;
    }
    return all ?? logits!;
  }

  /**
   * Computes the logits of the token after `ids`. The cache then has `ids`.
   *
   * @param ids The whole text as tokens.
   * @param options `all` returns the logits after each token; `signal` stops the computation.
   * @returns One logit for each token of the vocabulary; with `all`, one such vector for each of
   *   `ids`, in one array.
   * @throws {ArgumentError} For tokens out of range, and for more tokens than the context has.
   */
  async logits(
    ids: readonly number[],
    options: { readonly all?: boolean; readonly signal?: AbortSignal } = {},
  ): Promise<Float32Array> {
    checkOptions("compute logits", options, ["all", "signal"]);
    this.#checkIdle();
    const own = this.#ownTokens(ids);
    this.#checkContext(own.length);
    this.#busy = true;
    try {
      return await this.#extend(own, options.all === true ? "all" : "last", options.signal);
    } finally {
      this.#busy = false;
    }
  }

  /**
   * Generates the tokens after `ids`, one at a time, each computed off the event loop. Only tokens
   * that are not in the cache are computed.
   *
   * @param ids The whole text as tokens.
   * @returns The tokens, and at the end the reason why the text has ended.
   * @throws {ArgumentError} For options and tokens out of range.
   * @throws The reason of `signal`, if it aborts.
   */
  async *generate(
    ids: readonly number[],
    options: GenerateOptions = {},
  ): AsyncGenerator<number, FinishReason> {
    checkOptions("generate", options, GENERATE_OPTIONS);
    const { maxTokens = Infinity, stopTokens, signal, ...sampling } = options;
    if (maxTokens !== Infinity && (!Number.isInteger(maxTokens) || maxTokens < 0)) {
      throw new ArgumentError(
        `Cannot generate with maxTokens ${describe(maxTokens)}: it is an integer of at least 0`,
      );
    }
    const wrong = (what: unknown): ArgumentError =>
      new ArgumentError(
        `Cannot generate with stopTokens ${describe(what)}: it is an array of integers`,
      );
    const ends = listIn(stopTokens ?? this.model.config.endTokens, (id) => {
      if (Number.isInteger(id)) return id as number;
      throw wrong(id);
    });
    if (ends === undefined) throw wrong(stopTokens);
    const sampler = new Sampler(sampling);
    this.#checkIdle();
    const text = this.#ownTokens(ids);
    this.#checkContext(text.length);
    signal?.throwIfAborted();
    const stop = new Set(ends);
    this.#busy = true;
    try {
      // One program for the whole text, if its length is known.
      const longest = Math.min(text.length + maxTokens, this.model.config.contextLength);
      this.#cache.reserve(Math.min(longest, Math.max(1024, 2 * text.length)));
      for (let made = 0;; made++) {
        if (made >= maxTokens) return "maxTokens";
        const logits = await this.#extend(text, "last", signal);
        const id = sampler.sample(logits, text);
        if (stop.has(id)) return "stop";
        yield id;
        text.push(id);
        if (text.length > this.model.config.contextLength) return "contextLength";
      }
    } finally {
      this.#busy = false;
    }
  }

  /**
   * Generates the text after `prompt`, in pieces of whole characters, without stop texts.
   *
   * @param codec Converts text to tokens and back.
   * @param prompt The whole text before, as text or as tokens.
   * @returns The pieces, and at the end the reason why the text has ended.
   * @throws As {@link Session.generate}.
   */
  async *generateText(
    codec: TextCodec,
    prompt: string | readonly number[],
    options: GenerateTextOptions = {},
  ): AsyncGenerator<string, FinishReason> {
    checkOptions("generate", options, [...GENERATE_OPTIONS, "stop", "onToken"]);
    const { stop, onToken, ...rest } = options;
    const ids = this.#ownTokens(typeof prompt === "string" ? encoded(codec, prompt) : prompt);
    const stream = new TextStream((ids) => codec.decode(ids), stopTexts(stop), ids);
    const tokens = this.generate(ids, rest);
    try {
      for (let next = await tokens.next();; next = await tokens.next()) {
        if (next.done === true) {
          const rest = stream.flush();
          if (rest !== "") yield rest;
          return stream.done ? "stop" : next.value;
        }
        onToken?.(next.value);
        const { text, done } = stream.push(next.value);
        if (text !== "") yield text;
        if (done) return "stop";
      }
    } finally {
      await tokens.return("stop");
    }
  }

  /** Frees the cache. */
  dispose(): void {
    this.#cache.dispose();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}
