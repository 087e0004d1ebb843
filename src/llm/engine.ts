/**
 * Engines, which generate many texts at a time: one step computes the next tokens of all.
 *
 * @module
 */
import { host } from "../backend/ffi/runtime.ts";
import {
  ArgumentError,
  type Attempt,
  attempt,
  DisposedError,
  QueueFullError,
} from "../base/errors.ts";
import { checkSignal, type Follower, following } from "../base/signals.ts";
import { describe } from "../base/text.ts";
import { cpuBackendName, memoryOf } from "../core/dispatch.ts";
import type { Path } from "../io/file.ts";
import { checkOptions } from "../table/infer.ts";
import { stopTexts, TextStream, tokensIn } from "../tokenizers/text_stream.ts";
import { ahead, endedWhenLost } from "./batch/ahead.ts";
import { Beginnings } from "./batch/beginnings.ts";
import {
  type FinishReason,
  GENERATE_OPTIONS,
  type GenerateOptions,
  type Limits,
  ownOptions,
  type Plan,
  planOf,
  tokensOf,
} from "./batch/generation.ts";
import { PAGE } from "./batch/pages.ts";
import type { Scheduler, SchedulerCounts } from "./batch/scheduler.ts";
import type { Sequence, SequenceMemory } from "./batch/sequence.ts";
import {
  encoded,
  LanguageModel,
  open,
  type OpenOptions,
  ownCodec,
  type TextCodec,
} from "./model.ts";
import type { TokenLogprob } from "./sampling/batch.ts";

/** Options of {@link engine}. */
export interface EngineOptions {
  /** The most texts that are generated at the same time; 16 by default. */
  readonly slots?: number | undefined;
  /** The most tokens of a text with its prompt; by default those of the model, at most 8192. */
  readonly context?: number | undefined;
  /**
   * The tokens of all texts that there is memory for; by default `slots` · `context`, or what fits into
   * a quarter of the free memory. Memory that was never used takes no place on the CPU with the native
   * library.
   */
  readonly cache?: number | undefined;
  /** The most texts that wait for a slot; 256 by default. */
  readonly queue?: number | undefined;
  /**
   * Whether texts try several tokens at a time that followed the same tokens before, as in a prompt: the
   * same tokens, faster for texts that repeat. `generate` has the same option. False by default.
   */
  readonly speculate?: boolean | undefined;
  /** Converts text to tokens and back; by default the tokenizer of the model's files. */
  readonly tokenizer?: TextCodec | undefined;
  /** Options of `open` for a model that is given by its path. */
  readonly open?: OpenOptions | undefined;
}

/** Options of {@link Engine.generate}. */
export interface EngineGenerateOptions extends GenerateOptions {
  /** Texts that end the generated text; they are not part of it. */
  readonly stop?: string | readonly string[] | undefined;
  /** How many of the most likely tokens are reported, 0 to 20; without it, no logprobs are. */
  readonly logprobs?: number | undefined;
  /** See {@link EngineOptions.speculate}. */
  readonly speculate?: boolean | undefined;
  /** Returns the text of tokens; by default the tokenizer's `decode`, without special tokens. */
  readonly decode?: TextCodec["decode"] | undefined;
  /**
   * Called when the text has its slot, with the number of tokens of its prompt that are not computed, as
   * another prompt began with them.
   */
  readonly onPrompt?: ((reused: number) => void) | undefined;
}

/** A generated token. */
export interface GeneratedToken {
  /** The token; undefined for text that was held back until the end. */
  readonly id: number | undefined;
  /** The text that is complete with it, which may be none; none without a tokenizer. */
  readonly text: string;
  /** The logarithm of its probability, if `logprobs` was given. */
  readonly logprob: number | undefined;
  /** The most likely tokens, as many as `logprobs`. */
  readonly top: readonly TokenLogprob[];
}

/** What an engine does and has done. */
export interface EngineStats extends Readonly<SchedulerCounts> {
  /** The most texts at the same time. */
  readonly slots: number;
  /** The texts that are generated now. */
  readonly active: number;
  /** The texts that wait for a slot. */
  readonly waiting: number;
  /** The texts that have ended. */
  readonly finished: number;
  /** Those of them that ended by a signal or with the iteration. */
  readonly cancelled: number;
  /** Tokens of prompts that were not computed, as another prompt began with them. */
  readonly reused: number;
  /** Tokens that there is memory for. */
  readonly cache: number;
  /** Tokens whose memory is in use, in whole pages, also by kept beginnings. */
  readonly cached: number;
  /** Tokens of beginnings that are kept for later prompts. */
  readonly kept: number;
}

const ENGINE_OPTIONS = ["slots", "context", "cache", "queue", "speculate", "tokenizer", "open"];
const OWN_OPTIONS = ["stop", "logprobs", "speculate", "decode", "onPrompt"];
/** The tokens that are made before they are asked for. */
const AHEAD = 8;
/** The longest text of an engine that does not say. */
const USUAL_CONTEXT = 8192;
/** The most slots: texts beyond 16 share steps in turns. */
const MOST_SLOTS = 1024;

function checkCount(name: string, value: unknown, least: number, most: number): number {
  if (Number.isInteger(value) && Number(value) >= least && Number(value) <= most) {
    return Number(value);
  }
  throw new ArgumentError(
    `Cannot make an engine with ${name} ${
      describe(value)
    }: it is an integer from ${least} to ${most}`,
  );
}

/** A text that waits for a slot. */
interface Waiting {
  readonly pages: number;
  readonly start: () => void;
}

/** What {@link Engine.generate} was called with: checked as far as it can be, and copied. */
interface Request {
  readonly prompt: string | readonly number[];
  readonly stops: readonly string[];
  readonly logprobs: number | undefined;
  readonly speculates: boolean;
  readonly signal: AbortSignal | undefined;
  readonly decode: TextCodec["decode"] | undefined;
  readonly onPrompt: EngineGenerateOptions["onPrompt"];
  readonly rest: GenerateOptions;
}

/** What an engine is made of. */
interface EngineParts {
  readonly model: LanguageModel;
  readonly ownsModel: boolean;
  readonly tokenizer: TextCodec | (() => Promise<TextCodec>) | undefined;
  readonly options: EngineOptions;
}

/**
 * Generates many texts at a time with one model: requests join and leave between steps, each of which
 * computes the next tokens of all. A text has the same tokens alone and among others.
 *
 * @example
 * ```ts
 * using engine = await llm.engine("SmolLM2-135M-Instruct.Q4_1.gguf");
 * const prompts = ["Paris is", "Rome is", "Berlin is"];
 * await Promise.all(prompts.map(async (prompt) => {
 *   let text = prompt;
 *   for await (const token of engine.generate(prompt, { maxTokens: 20 })) text += token.text;
 *   console.log(text);
 * }));
 * ```
 */
export class Engine implements Disposable {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Engine";
  }

  /** The model. */
  readonly model: LanguageModel;
  /** The most tokens of a text with its prompt. */
  readonly context: number;
  readonly #ownsModel: boolean;
  readonly #scheduler: Scheduler;
  readonly #memory: SequenceMemory;
  readonly #beginnings: Beginnings;
  readonly #limits: Limits;
  readonly #slots: number;
  readonly #queue: number;
  readonly #pages: number;
  readonly #speculates: boolean;
  #tokenizer: EngineParts["tokenizer"];
  #opening: Promise<TextCodec> | undefined;
  readonly #waiting: Waiting[] = [];
  /** Functions that are called when nothing is generated any more. */
  readonly #drained: (() => void)[] = [];
  readonly #end: AbortController = new AbortController();
  /** Those of the texts that are generated now. */
  readonly #sequences = new Set<Sequence>();
  /** The texts that were asked for and have not ended. */
  #asked = 0;
  #active = 0;
  /** The pages that active texts may come to need. */
  #reserved = 0;
  #finished = 0;
  #cancelled = 0;
  #reused = 0;
  #closed = false;

  /** Programs use {@link engine}. @ignore */
  constructor({ model, ownsModel, tokenizer, options }: EngineParts) {
    const { contextLength, vocabulary, endTokens } = model.config;
    const { slots = 16, queue = 256, speculate = false } = options;
    this.#slots = checkCount("slots", slots, 1, MOST_SLOTS);
    this.#queue = checkCount("queue", queue, 0, Number.MAX_SAFE_INTEGER);
    const { context = Math.min(contextLength, USUAL_CONTEXT) } = options;
    checkCount("context", context, 1, contextLength);
    this.context = context;
    const { cache = usualCache(model, this.#slots * context, context) } = options;
    checkCount("cache", cache, context, Number.MAX_SAFE_INTEGER);
    this.model = model;
    this.#ownsModel = ownsModel;
    this.#tokenizer = tokenizer;
    this.#speculates = checkFlag("speculate", speculate);
    this.#limits = { vocabulary, context, endTokens };
    // A page of each text may have few tokens.
    this.#pages = Math.ceil(cache / PAGE) + this.#slots;
    const most = this.#pages * PAGE;
    this.#memory = model.memory({ capacity: most, most, context, history: 0 });
    this.#beginnings = new Beginnings(this.#memory);
    this.#scheduler = model.scheduler();
  }

  /** What the engine does and has done. */
  get stats(): EngineStats {
    const used = Math.max(0, ...this.#memory.pools.map((pool) => pool.used));
    return {
      ...this.#scheduler.counts,
      slots: this.#slots,
      active: this.#active,
      waiting: this.#waiting.length,
      finished: this.#finished,
      cancelled: this.#cancelled,
      reused: this.#reused,
      cache: this.#pages * PAGE,
      cached: used * PAGE,
      kept: this.#beginnings.pages * PAGE,
    };
  }

  /**
   * Generates the tokens after `prompt`, off the event loop. A prompt that begins with whole pages of 32
   * tokens of an earlier one does not compute them again.
   *
   * The text takes a slot or a place in the queue when its first token is asked for, until its end:
   * read it to the end, call `return`, or abort `signal`. The slot of a text that is dropped without
   * these is free when its iteration was collected as garbage.
   *
   * @param prompt The whole text before, as text or as tokens.
   * @returns The tokens with their texts, and at the end the reason why the text has ended.
   * @throws {ArgumentError} For options and tokens out of range, for texts without a tokenizer, and if
   *   the prompt is longer than the context.
   * @throws {QueueFullError} If too many texts wait for a slot.
   * @throws {DisposedError} If the engine was disposed, or drains.
   * @throws The reason of `signal`, if it aborts: within one step.
   */
  generate(
    prompt: string | readonly number[],
    options: EngineGenerateOptions = {},
  ): AsyncGenerator<GeneratedToken, FinishReason> {
    // The caller may change them before it asks for the first token.
    const request = attempt(() => this.#request(prompt, options));
    return endedWhenLost(this.#generate(request), "stop");
  }

  #request(prompt: string | readonly number[], options: EngineGenerateOptions): Request {
    checkOptions("generate", options, [...GENERATE_OPTIONS, ...OWN_OPTIONS]);
    const own = ownOptions(options);
    const { stop, logprobs, speculate = this.#speculates, signal, decode, onPrompt, ...rest } = own;
    const stops = stopTexts(stop);
    const speculates = checkFlag("speculate", speculate);
    if (
      logprobs !== undefined && !(Number.isInteger(logprobs) && logprobs >= 0 && logprobs <= 20)
    ) {
      throw new ArgumentError(
        `Cannot generate with logprobs ${describe(logprobs)}: it is an integer from 0 to 20`,
      );
    }
    if (decode !== undefined && typeof decode !== "function") {
      throw new ArgumentError(
        `Cannot generate with decode ${describe(decode)}: it is a function of tokens`,
      );
    }
    if (onPrompt !== undefined && typeof onPrompt !== "function") {
      throw new ArgumentError(
        `Cannot generate with onPrompt ${describe(onPrompt)}: it is a function of a number`,
      );
    }
    const text = typeof prompt === "string" ? prompt : tokensIn(prompt, this.#limits.vocabulary);
    return { prompt: text, stops, logprobs, speculates, signal, decode, onPrompt, rest };
  }

  async *#generate(
    { value: request, error }: Attempt<Request>,
  ): AsyncGenerator<GeneratedToken, FinishReason> {
    this.#checkOpen();
    if (error !== undefined) throw error;
    const { prompt, stops, logprobs: top, speculates, signal, decode, onPrompt, rest } = request;
    checkSignal("generate", signal);
    this.#asked++;
    const ended = following(signal, this.#end.signal);
    try {
      const needsDecode = stops.length > 0 && decode === undefined;
      const codec = await this.#codec(typeof prompt === "string" || needsDecode);
      const ids = typeof prompt === "string"
        ? tokensIn(encoded(codec!, prompt), this.#limits.vocabulary)
        : prompt;
      const { context } = this.#limits;
      if (ids.length === 0) {
        throw new ArgumentError("Cannot generate after no tokens: a prompt has at least one");
      }
      if (ids.length > context) {
        throw new ArgumentError(
          `Cannot generate after ${ids.length} tokens: the engine has a context of ${context}`,
        );
      }
      const plan = {
        ...planOf(ids, { ...rest, signal: ended.signal }, this.#limits),
        ...{ top, speculates },
        onPages: (sequence: Sequence, first: number) => this.#beginnings.keep(sequence, first),
      };
      const textOf = decode ?? (codec && ((tokens: number[]) => codec.decode(tokens)));
      const stream = textOf && new TextStream(textOf, stops, ids);
      return yield* this.#run(plan, stream, ended, onPrompt);
    } finally {
      ended.end();
      if (--this.#asked === 0) this.#endDrain();
    }
  }

  /** Generates a text in a slot. */
  async *#run(
    plan: Plan,
    stream: TextStream | undefined,
    { signal, end }: Follower,
    onPrompt: Request["onPrompt"],
  ): AsyncGenerator<GeneratedToken, FinishReason> {
    const { ids, maxTokens, context } = plan;
    const longest = Math.min(ids.length + maxTokens, context);
    const release = await this.#acquire(Math.ceil(longest / PAGE), signal);
    let isWhole = false;
    const sequence = this.#memory.sequence();
    this.#sequences.add(sequence);
    try {
      const reused = this.#beginnings.begin(sequence, ids);
      this.#reused += reused;
      onPrompt?.(reused);
      const made = ahead(textsOf(tokensOf(this.#scheduler, sequence, plan), stream), AHEAD, "stop");
      // What fails after an abort fails for it.
      const fail = (error: unknown): never => {
        signal.throwIfAborted();
        throw error;
      };
      try {
        for (let next = await made.next().catch(fail);; next = await made.next().catch(fail)) {
          if (next.done === true) {
            isWhole = true;
            return next.value;
          }
          // Some were made before it aborted.
          signal.throwIfAborted();
          yield next.value;
        }
      } finally {
        end();
        await made.return("stop");
      }
    } finally {
      this.#sequences.delete(sequence);
      sequence[Symbol.dispose]();
      if (!isWhole) this.#cancelled++;
      release();
    }
  }

  #checkOpen(): void {
    if (!this.#closed) return;
    throw new DisposedError("Cannot generate: the engine was disposed, or drains");
  }

  /** The tokenizer, which is opened when it is needed for the first time; undefined if there is none. */
  async #codec(isNeeded: boolean): Promise<TextCodec | undefined> {
    if (typeof this.#tokenizer === "function") {
      // Once for all texts that wait for it.
      const opening = this.#opening ??= this.#tokenizer();
      try {
        this.#tokenizer = await opening;
      } catch (error) {
        if (!isNeeded) return undefined;
        this.#opening = undefined;
        throw error;
      }
    }
    if (this.#tokenizer === undefined && isNeeded) {
      throw new ArgumentError(
        "Cannot generate after a text without a tokenizer: give the engine a tokenizer, or tokens",
      );
    }
    return this.#tokenizer;
  }

  /** Waits for a slot and for room for some pages; the function that it returns gives both back. */
  async #acquire(pages: number, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#waiting.length > 0 || !this.#fits(pages)) {
      if (this.#waiting.length >= this.#queue) throw new QueueFullError(this.#queue);
      await new Promise<void>((resolve, reject) => {
        const leave = (): void => {
          const at = this.#waiting.indexOf(waiting);
          if (at >= 0) this.#waiting.splice(at, 1);
          this.#cancelled++;
          this.#finished++;
          this.#admit();
          reject(signal.reason);
        };
        const start = (): void => {
          signal.removeEventListener("abort", leave);
          resolve();
        };
        const waiting: Waiting = { pages, start };
        this.#waiting.push(waiting);
        signal.addEventListener("abort", leave, { once: true });
      });
    } else this.#take(pages);
    return () => {
      this.#active--;
      this.#reserved -= pages;
      this.#finished++;
      this.#admit();
    };
  }

  #fits(pages: number): boolean {
    return this.#active < this.#slots && this.#reserved + pages <= this.#pages;
  }

  #take(pages: number): void {
    this.#active++;
    this.#reserved += pages;
  }

  /** Starts those that wait, in their order. */
  #admit(): void {
    while (this.#waiting.length > 0 && this.#fits(this.#waiting[0]!.pages)) {
      const { pages, start } = this.#waiting.shift()!;
      this.#take(pages);
      start();
    }
  }

  #endDrain(): void {
    for (const done of this.#drained.splice(0)) done();
  }

  /**
   * Computes a step of each size with tokens that nobody reads, so that the first texts do not wait for
   * programs to be compiled.
   */
  async warmUp(): Promise<void> {
    this.#checkOpen();
    await this.#scheduler.warmUp(this.#memory, this.#slots, this.#speculates);
  }

  /** Refuses new texts, and waits for the end of those that were asked for. */
  async drain(): Promise<void> {
    this.#closed = true;
    if (this.#asked === 0 || this.#end.signal.aborted) return;
    await new Promise<void>((resolve) => this.#drained.push(resolve));
  }

  /** Ends all texts and frees their memory; for an engine of a path also the model. */
  dispose(): void {
    if (this.#end.signal.aborted) return;
    this.#closed = true;
    this.#end.abort(new DisposedError("Cannot generate: the engine was disposed"));
    // Also those that nobody reads any more.
    for (const sequence of this.#sequences) sequence[Symbol.dispose]();
    this.#beginnings.clear();
    this.#endDrain();
    this.#scheduler[Symbol.dispose]();
    this.#memory[Symbol.dispose]();
    if (this.#ownsModel) this.model.dispose();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

function checkFlag(name: string, value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw new ArgumentError(`Cannot generate with ${name} ${describe(value)}: it is true or false`);
}

/** The tokens of an engine's memory that does not say: those that fit into a quarter of what is free. */
function usualCache(model: LanguageModel, wanted: number, context: number): number {
  const { device } = model;
  const found = memoryOf(device, "make an engine on");
  const free = found === null ? host.freeMemory() : found.usage().freeBytes;
  // Elsewhere memory takes place that was never used.
  const isLazy = found === null && cpuBackendName() === "native";
  const most = isLazy ? wanted : Math.min(wanted, 4 * context);
  if (free === undefined) return most;
  return Math.max(context, Math.min(most, Math.floor(free / 4 / model.tokenBytes)));
}

/** Tokens with their texts; a stop text ends them. */
async function* textsOf(
  tokens: ReturnType<typeof tokensOf>,
  stream: TextStream | undefined,
): AsyncGenerator<GeneratedToken, FinishReason> {
  try {
    for (let next = await tokens.next();; next = await tokens.next()) {
      if (next.done === true) {
        const text = stream?.flush() ?? "";
        if (text !== "") yield { id: undefined, text, logprob: undefined, top: [] };
        return stream?.done === true ? "stop" : next.value;
      }
      const { id, logprob, top } = next.value;
      const { text, done } = stream?.push(id) ?? { text: "", done: false };
      if (done) {
        // The token belongs to the stop text.
        if (text !== "") yield { id: undefined, text, logprob: undefined, top: [] };
        return "stop";
      }
      yield { id, text, logprob, top };
    }
  } finally {
    await tokens.return("stop");
  }
}

/**
 * Makes an engine, which generates many texts at a time.
 *
 * @param source A model, which the engine does not dispose of, or what {@link open} takes.
 * @throws {ArgumentError} For options out of range.
 * @throws {OutOfMemoryError} If there is no memory for the texts.
 * @throws As {@link open}.
 *
 * @example
 * ```ts
 * using engine = await llm.engine("SmolLM2-135M-Instruct.Q4_1.gguf", { slots: 8 });
 * await engine.warmUp();
 * for await (const { text } of engine.generate("The capital of France", { maxTokens: 8 })) {
 *   console.log(text);
 * }
 * ```
 */
export async function engine(
  source: LanguageModel | Path | Uint8Array,
  options: EngineOptions = {},
): Promise<Engine> {
  checkOptions("make an engine", options, ENGINE_OPTIONS);
  const given = options.tokenizer === undefined
    ? undefined
    : ownCodec("make an engine", options.tokenizer);
  if (source instanceof LanguageModel) {
    const { metadata } = source;
    const tokenizer = given ??
      (metadata.has("tokenizer.ggml.model") ? () => tokenizerOf(metadata, source) : undefined);
    return new Engine({ model: source, ownsModel: false, tokenizer, options });
  }
  const model = await open(source, options.open);
  try {
    const tokenizer = given ?? (() => tokenizerOf(source, model));
    return new Engine({ model, ownsModel: true, tokenizer, options });
  } catch (error) {
    model.dispose();
    throw error;
  }
}

/** The tokenizer of a model's files. */
async function tokenizerOf(
  source: Path | Uint8Array | LanguageModel["metadata"],
  { config: { endTokens } }: LanguageModel,
): Promise<TextCodec> {
  const tokenizers = await import("../tokenizers/mod.ts");
  const tokenizer = await tokenizers.open(source, { endTokens });
  return {
    encode: (text) => tokenizer.encode(text, { special: true }),
    decode: (ids) => tokenizer.decode(ids),
  };
}
