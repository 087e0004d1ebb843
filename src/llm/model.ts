/**
 * Models that generate text, and sessions, which cache keys and values of their tokens.
 *
 * @module
 */
import {
  ArgumentError,
  type Attempt,
  attempt,
  DisposedError,
  FormatError,
} from "../base/errors.ts";
import { lengthOf } from "../base/shape.ts";
import { checkSignal } from "../base/signals.ts";
import { describe } from "../base/text.ts";
import { concat } from "../api/functions/tensors.ts";
import { compile, type Compiled } from "../compile/mod.ts";
import type { Path } from "../io/file.ts";
import * as nn from "../nn/mod.ts";
import { checkOptions } from "../table/infer.ts";
import { tensor } from "../tensor/create.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import type { Angles, AnyWeights, Step, Stepped, Wanted } from "./blocks/step.ts";
import { endedWhenLost } from "./batch/ahead.ts";
import {
  type FinishReason,
  GENERATE_OPTIONS,
  type GenerateOptions,
  ownOptions,
  planOf,
  tokensOf,
} from "./batch/generation.ts";
import { free, Scheduler, type StepCall } from "./batch/scheduler.ts";
import { type Sequence, SequenceMemory, type SequenceMemoryOptions } from "./batch/sequence.ts";
import { checkRope, type ModelConfig, ropesOf } from "./config/config.ts";
import { objectOf } from "./config/reader.ts";
import { placesIn, stepOf } from "./families/registry.ts";
import { cacheBytes, checkMemory, memoryOfModel } from "./memory.ts";
import { configOf, factorsOf } from "./model_files.ts";
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
   * merged with weights of floats, and added to products with quantized ones. By default there is none.
   */
  readonly adapter?: Path | undefined;
  /** Whether the model's memory is compared with the free memory before loading, as by default. */
  readonly checkMemory?: boolean | undefined;
  /** Stops loading. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of a session. */
export interface SessionOptions {
  /** The tokens that memory is made for at once; 256 by default. It grows by doubling. */
  readonly capacity?: number | undefined;
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
/** The tokens that a model's sessions have room for at first. */
const FIRST_CAPACITY = 1024;
/** The tokens by which sessions of models with windows or convolutions can go back. */
const HISTORY = 256;

/** The names of {@link GenerateTextOptions}. */
export const TEXT_OPTIONS: readonly string[] = [...GENERATE_OPTIONS, "stop", "onToken"];

/** What a call was given. */
interface OwnCall<P, O> {
  readonly prompt: P;
  readonly options: O;
}

/** The tokens of the caller, who may change them meanwhile. */
function ownTokens(ids: unknown, { vocabulary }: ModelConfig): number[] {
  if (lengthOf(ids)) return tokensIn(ids, vocabulary);
  throw new ArgumentError(
    `Cannot generate after ${describe(ids)}: it takes an array of at least one token`,
  );
}

function ownPrompt(
  prompt: string | readonly number[],
  config: ModelConfig,
): string | readonly number[] {
  return typeof prompt === "string" ? prompt : ownTokens(prompt, config);
}

/** What a call is given, copied: the caller may change it before it asks for the first token. */
function ownCall<P, O extends GenerateTextOptions>(
  prompt: P,
  options: O,
  names: readonly string[],
): OwnCall<P, O> {
  checkOptions("generate", options, names);
  const own = ownOptions(options);
  const { stop } = own;
  return {
    prompt,
    options: { ...own, ...stop !== undefined && { stop: stopTexts(stop) } },
  };
}

/** The names of {@link OpenOptions}, without `config`. */
export const OPEN_OPTIONS: readonly string[] = [
  ...["cache", "device", "dtype", "adapter", "checkMemory", "onProgress", "signal"],
];

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
  const weights = await nn.open(source, { device, dtype });
  try {
    const sizes = config ?? await configOf(source, weights);
    if (adapter !== undefined) await weights.adapt(adapter, placesIn(weights, sizes));
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
  /** What runs the texts of sessions, and their memory; made for the first session. */
  #texts: { readonly memory: SequenceMemory; readonly scheduler: Scheduler } | undefined;
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
    const { capacity = USUAL_CAPACITY } = options;
    if (!Number.isInteger(capacity) || capacity < 1) {
      throw new ArgumentError(
        `Cannot make a session with capacity ${describe(capacity)}: it is an integer of at least 1`,
      );
    }
    this.#texts ??= {
      memory: this.memory({
        capacity: Math.max(capacity, Math.min(this.config.contextLength, FIRST_CAPACITY)),
        ...{ most: Infinity, context: this.config.contextLength, history: HISTORY },
      }),
      scheduler: this.scheduler(),
    };
    const { memory, scheduler } = this.#texts;
    const sequence = memory.sequence();
    memory.reserve(sequence, capacity);
    return new Session(this, scheduler, sequence);
  }

  /**
   * The device of the weights; undefined for the CPU.
   *
   * @ignore
   */
  get device(): t.Device | undefined {
    return this.#device;
  }

  /**
   * The bytes that each token of a text takes.
   *
   * @ignore
   */
  get tokenBytes(): number {
    return cacheBytes(this.config, 1, this.#cache);
  }

  /**
   * Memory for texts.
   *
   * @ignore
   */
  memory(options: Omit<SequenceMemoryOptions, "dtype" | "device">): SequenceMemory {
    this.#checkAlive();
    const own = { dtype: this.#cache, device: this.#device };
    return new SequenceMemory(this.config, { ...options, ...own });
  }

  /**
   * What runs texts.
   *
   * @ignore
   */
  scheduler(): Scheduler {
    return new Scheduler((call) => this.step(call), this.config.vocabulary);
  }

  /** Generates the tokens after `ids`: {@link Session.generate} of a new session. */
  generate(
    ids: readonly number[],
    options: GenerateOptions = {},
  ): AsyncGenerator<number, FinishReason> {
    const given = attempt(() => ownCall(ownTokens(ids, this.config), options, GENERATE_OPTIONS));
    return endedWhenLost(
      this.#inSession(given, (session, own) => session.generate(own.prompt, own.options)),
      "stop",
    );
  }

  /** Generates the text after `prompt`: {@link Session.generateText} of a new session. */
  generateText(
    codec: TextCodec,
    prompt: string | readonly number[],
    options: GenerateTextOptions = {},
  ): AsyncGenerator<string, FinishReason> {
    const given = attempt(() => ownCall(ownPrompt(prompt, this.config), options, TEXT_OPTIONS));
    return endedWhenLost(
      this.#inSession(
        given,
        (session, own) => session.generateText(codec, own.prompt, own.options),
      ),
      "stop",
    );
  }

  async *#inSession<C, T>(
    { value: call, error }: Attempt<C>,
    begin: (session: Session, call: C) => AsyncGenerator<T, FinishReason>,
  ): AsyncGenerator<T, FinishReason> {
    using session = this.session();
    if (error !== undefined) throw error;
    return yield* begin(session, call);
  }

  #checkAlive(): void {
    if (this.#disposed) throw new DisposedError("Cannot generate: the model was disposed");
  }

  /** The angles of tokens at positions of texts of some lengths. */
  #angles(
    positions: readonly number[],
    lengths: readonly number[],
    note: <X extends AnyTensor>(x: X) => X,
  ): Angles[] {
    const on = this.#device === undefined ? {} : { device: this.#device };
    return ropesOf(this.config).map(({ dimensions, base, scaling }, i): Angles => {
      // The factors of a file are those of the usual positions.
      const factors = i === 0 ? this.#factors : undefined;
      const anglesOf = (at: readonly number[], length: number): Angles => {
        const own = { dimensions, base, scaling, factors, length, ...on };
        const { cos, sin } = nn.ropeAngles(at, own);
        return { cos: note(cos), sin: note(sin) };
      };
      const isSame = lengths.every((length) => length === lengths[0]);
      const needsLength = scaling?.type === "dynamic" || scaling?.type === "longrope";
      if (isSame || !needsLength) return anglesOf(positions, lengths[0]!);
      const each = positions.map((position, k) => anglesOf([position], lengths[k]!));
      return {
        cos: note(concat(each.map(({ cos }) => cos), 0)),
        sin: note(concat(each.map(({ sin }) => sin), 0)),
      };
    });
  }

  /**
   * Computes new tokens of texts, which the caller adds to them.
   *
   * @ignore
   */
  async step(call: StepCall): Promise<Stepped> {
    const { sequences, ids, rows, columns, pace, wanted, length } = call;
    this.#checkAlive();
    const on = this.#device === undefined ? {} : { device: this.#device };
    const inputs: AnyTensor[] = [];
    const note = <X extends AnyTensor>(x: X): X => (inputs.push(x), x);
    try {
      const tokens = new Int32Array(rows * columns);
      ids.forEach((each, row) => tokens.set(each, row * columns));
      const positions = Array.from(tokens, (_, k) => {
        const start = sequences[Math.floor(k / columns)]?.length ?? 0;
        return start + k % columns;
      });
      const lengths = positions.map((position) => length ?? position + 1);
      const angles = this.#angles(positions, lengths, note);
      const { memory } = sequences[0]!;
      const past = memory.past(sequences, { rows, note });
      const which: Wanted = typeof wanted === "number"
        ? note(tensor(wanted, { dtype: "int32", ...on }))
        : wanted;
      const given = note(tensor(tokens, { shape: [rows, columns], ...on }));
      const made = await this.#step.async(given, angles, past, which, pace);
      if (!this.#disposed) return made;
      free(made);
      this.#checkAlive();
      return made;
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
    this.#texts?.scheduler[Symbol.dispose]();
    this.#texts?.memory[Symbol.dispose]();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** A codec of the caller, which may be a function with methods; throws an ArgumentError for others. */
export function ownCodec(op: string, codec: TextCodec): TextCodec {
  if (typeof codec?.encode !== "function" || typeof codec.decode !== "function") {
    throw new ArgumentError(
      `Cannot ${op} with the tokenizer ${describe(codec)}: it has encode() and decode()`,
    );
  }
  return {
    encode: (text) => codec.encode(text),
    decode(ids) {
      const text: unknown = codec.decode(ids);
      if (typeof text === "string") return text;
      throw new ArgumentError(
        `Cannot generate: decode gave ${describe(text)}, and must give a text`,
      );
    },
  };
}

/** The tokens of a text; throws an ArgumentError unless `codec` gives them. */
export function encoded(codec: TextCodec, text: string): readonly number[] {
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
 * A session runs one call at a time. Sessions of one model may run at the same time: one step computes
 * the next tokens of up to 16, off the event loop, and each gives the same tokens as alone.
 */
export class Session implements Disposable {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Session";
  }

  /** The model. */
  readonly model: LanguageModel;
  readonly #scheduler: Scheduler;
  readonly #sequence: Sequence;
  #busy = false;
  #disposed = false;

  /** Programs use {@link LanguageModel.session}. @ignore */
  constructor(model: LanguageModel, scheduler: Scheduler, sequence: Sequence) {
    this.model = model;
    this.#scheduler = scheduler;
    this.#sequence = sequence;
  }

  /** The tokens whose keys and values are in the cache. */
  get tokens(): readonly number[] {
    return this.#sequence.tokens.slice();
  }

  /** The memory of the tokens in bytes, in whole pages of 32; forks share it. */
  get bytes(): number {
    this.#checkAlive();
    return this.#sequence.memory.bytesOf(this.#sequence);
  }

  /** Returns a new session with the same tokens, whose memory it shares as far as they are the same. */
  fork(): Session {
    this.#checkIdle();
    const { memory } = this.#sequence;
    return new Session(this.model, this.#scheduler, memory.fork(this.#sequence));
  }

  /**
   * Removes all tokens except the first `length` from the cache. A model with sliding windows or
   * convolutions can go back by 256 tokens, one with convolutions to a multiple of 32; else it removes
   * all of them. The next call computes what is missing.
   *
   * @throws {ArgumentError} For a length above the present one.
   */
  truncate(length: number): void {
    this.#checkIdle();
    const { tokens, memory } = this.#sequence;
    if (!Number.isInteger(length) || length < 0 || length > tokens.length) {
      throw new ArgumentError(
        `Cannot truncate a session of ${tokens.length} tokens to ${describe(length)}`,
      );
    }
    memory.truncate(this.#sequence, length);
  }

  #checkAlive(): void {
    if (this.#disposed) throw new DisposedError("Cannot use a session: it was disposed");
  }

  #checkIdle(): void {
    this.#checkAlive();
    if (!this.#busy) return;
    throw new ArgumentError(
      "Cannot use a session that is generating: end the iteration first, or fork() it before",
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

  /** Forgets what the text `ids` does not begin with, and its last token. */
  #begin(ids: readonly number[]): void {
    const { tokens, memory } = this.#sequence;
    memory.truncate(this.#sequence, Math.min(commonLength(ids, tokens), ids.length - 1));
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
    const { all = false, signal } = options;
    checkSignal("compute logits", signal);
    this.#checkIdle();
    const own = ownTokens(ids, this.model.config);
    this.#checkContext(own.length);
    this.#busy = true;
    try {
      if (all) this.#sequence.memory.truncate(this.#sequence, 0);
      else this.#begin(own);
      const rest = own.slice(this.#sequence.length);
      const { logits } = await this.#scheduler.prompt(this.#sequence, rest, { all, signal });
      return logits;
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
  generate(
    ids: readonly number[],
    options: GenerateOptions = {},
  ): AsyncGenerator<number, FinishReason> {
    const { config } = this.model;
    const given = attempt(() => ownCall(ownTokens(ids, config), options, GENERATE_OPTIONS));
    return endedWhenLost(this.#generate(given), "stop");
  }

  async *#generate(
    { value: call, error }: Attempt<OwnCall<readonly number[], GenerateOptions>>,
  ): AsyncGenerator<number, FinishReason> {
    this.#checkIdle();
    if (error !== undefined) throw error;
    const own = call.prompt;
    this.#checkContext(own.length);
    const { vocabulary, contextLength: context, endTokens } = this.model.config;
    const plan = planOf(own, call.options, { vocabulary, context, endTokens });
    this.#busy = true;
    try {
      // Memory for the whole text, if its length is known: each growth makes new programs.
      const longest = Math.min(own.length + plan.maxTokens, context);
      this.#begin(own);
      const { memory } = this.#sequence;
      memory.reserve(this.#sequence, Math.min(longest, Math.max(1024, 2 * own.length)));
      const tokens = tokensOf(this.#scheduler, this.#sequence, plan);
      try {
        for (let next = await tokens.next();; next = await tokens.next()) {
          if (next.done === true) return next.value;
          yield next.value.id;
        }
      } finally {
        await tokens.return("stop");
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
  generateText(
    codec: TextCodec,
    prompt: string | readonly number[],
    options: GenerateTextOptions = {},
  ): AsyncGenerator<string, FinishReason> {
    const { config } = this.model;
    const given = attempt(() => ownCall(ownPrompt(prompt, config), options, TEXT_OPTIONS));
    return endedWhenLost(this.#generateText(codec, given), "stop");
  }

  async *#generateText(
    codec: TextCodec,
    { value: call, error }: Attempt<OwnCall<string | readonly number[], GenerateTextOptions>>,
  ): AsyncGenerator<string, FinishReason> {
    if (error !== undefined) throw error;
    const { prompt, options: { stop, onToken, ...rest } } = call;
    const own = ownCodec("generate", codec);
    const ids = typeof prompt === "string"
      ? ownTokens(encoded(own, prompt), this.model.config)
      : prompt;
    const stream = new TextStream((ids) => own.decode(ids), stopTexts(stop), ids);
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

  /** Frees its memory. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#sequence[Symbol.dispose]();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}
