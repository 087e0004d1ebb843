/**
 * Chats with models that generate text.
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
import { listIn } from "../base/shape.ts";
import { checkSignal } from "../base/signals.ts";
import { describe } from "../base/text.ts";
import { objectOf } from "../llm/config/reader.ts";
import * as llm from "../llm/mod.ts";
import { endedWhenLost } from "../llm/batch/ahead.ts";
import { ownOptions } from "../llm/batch/generation.ts";
import { OPEN_OPTIONS, TEXT_OPTIONS } from "../llm/model.ts";
import { checkOptions } from "../table/infer.ts";
import { type Message, open as openTokenizer, type Tokenizer } from "../tokenizers/mod.ts";
import { stopTexts } from "../tokenizers/text_stream.ts";
import { ChatFormat } from "./chat_format.ts";
import { filesOf, type FindOptions, jsonOf, type ModelFiles, type ModelSource } from "./files.ts";
import { type Tool, ToolKit, visibleText } from "./tools.ts";

/** Options of {@link Chat.open}. */
export interface ChatOptions extends Omit<llm.OpenOptions, "config">, FindOptions {
  /** The first message, which tells the model how to answer. */
  readonly system?: string | undefined;
  /**
   * What happens when a chat does not fit the context of the model: `"error"`, the default, throws an
   * ArgumentError and changes nothing; `"truncate"` leaves out the oldest questions with their answers,
   * but not the system message.
   */
  readonly overflow?: "error" | "truncate" | undefined;
}

/** Options of a turn. */
export interface AskOptions extends llm.GenerateTextOptions {
  /** More values for the template of the model, such as `{ enable_thinking: false }`. */
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
  /** Functions that the model may call before it answers. */
  readonly tools?: readonly Tool[] | undefined;
  /** The most times that the model calls functions before it has to answer; 5 by default. */
  readonly toolRounds?: number | undefined;
}

/** What {@link Chat.stream} was called with: checked and copied. */
interface Turn {
  readonly question: string;
  readonly options: Omit<AskOptions, "tools" | "toolRounds">;
  readonly kit: ToolKit | undefined;
  readonly toolRounds: number;
}

/** The least tokens of an answer for which a chat has to leave room. */
const LEAST_ANSWER = 16;

/** The tokenizer of a model, which its files or its GGUF metadata have. */
async function tokenizerOf(files: ModelFiles, model: llm.LanguageModel): Promise<Tokenizer> {
  const { metadata, config: { endTokens } } = model;
  if (metadata.has("tokenizer.ggml.model")) {
    return await openTokenizer(metadata, { endTokens, file: files.label });
  }
  const tokenizer = await jsonOf(files, "tokenizer.json");
  if (typeof tokenizer !== "object" || tokenizer === null) {
    throw new FormatError("there is no tokenizer.json", files.label, 0);
  }
  const config = await jsonOf(files, "tokenizer_config.json");
  const chatTemplate = await files.text("chat_template.jinja");
  return await openTokenizer({
    tokenizer,
    ...typeof config === "object" && config !== null ? { config } : {},
    ...chatTemplate === undefined ? {} : { chatTemplate },
  }, { file: `tokenizer.json of ${files.label}` });
}

/**
 * A chat with a model that generates text: its messages, and what the model has seen of them, so that a
 * turn computes the new tokens only.
 *
 * A chat runs one turn at a time, off the event loop. {@link Chat.fork} begins others with the same
 * model.
 *
 * @example
 * ```ts
 * import { Chat } from "@rowmajor/tensor/models";
 *
 * using chat = await Chat.open("SmolLM2-135M-Instruct.Q4_1.gguf");
 * console.log(await chat.ask("Why is the sky blue?", { maxTokens: 100 }));
 * for await (const text of chat.stream("And at sunset?", { maxTokens: 100 })) console.log(text);
 * ```
 */
export class Chat implements Disposable {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Chat";
  }

  /** The model. */
  readonly model: llm.LanguageModel;
  /** Its tokenizer. */
  readonly tokenizer: Tokenizer;
  /** The name of the model: that of its file or folder, or of the hub, such as `"organization/name"`. */
  readonly name: string;
  /**
   * How the model reads and writes messages.
   *
   * @ignore
   */
  readonly format: ChatFormat;
  readonly #overflow: "error" | "truncate";
  readonly #session: llm.Session;
  /** Whether `dispose` frees the model. */
  readonly #ownsModel: boolean;
  #messages: readonly Message[];
  #busy = false;
  #disposed = false;

  private constructor(
    { model, name, format, overflow, messages, session, ownsModel }: {
      readonly model: llm.LanguageModel;
      readonly name: string;
      readonly format: ChatFormat;
      readonly overflow: "error" | "truncate";
      readonly messages: readonly Message[];
      readonly session: llm.Session;
      readonly ownsModel: boolean;
    },
  ) {
    this.model = model;
    this.tokenizer = format.tokenizer;
    this.name = name;
    this.format = format;
    this.#overflow = overflow;
    this.#messages = messages;
    this.#session = session;
    this.#ownsModel = ownsModel;
  }

  /**
   * Opens a model that was trained for chats.
   *
   * @param source A GGUF file, a folder with config.json, safetensors and tokenizer.json, or
   *   `"organization/name"` in the cache of the Hugging Face hub.
   * @returns A chat without questions.
   * @throws {FormatError} For a model of another kind, for damaged files, and for a template that is
   *   not supported.
   * @throws {PackageError} If the package `@huggingface/jinja`, which parses templates, is not
   *   installed; for tokenizer.json also `@huggingface/tokenizers`.
   */
  static async open(source: ModelSource, options: ChatOptions = {}): Promise<Chat> {
    checkOptions("open a chat", options, [...OPEN_OPTIONS, "system", "overflow", "download"]);
    const { system, overflow = "error", download, ...rest } = options;
    if (overflow !== "error" && overflow !== "truncate") {
      throw new ArgumentError(
        `Cannot open a chat with overflow ${describe(overflow)}: it is "error" or "truncate"`,
      );
    }
    if (system !== undefined && typeof system !== "string") {
      throw new ArgumentError(`Cannot open a chat with system ${describe(system)}: it is a text`);
    }
    const files = await filesOf(source, { download, signal: rest.signal });
    const place = await files.weights();
    if (place === undefined) throw new FormatError("there are no weights", files.label, 0);
    const json = ArrayBuffer.isView(place) ? await jsonOf(files, "config.json") : undefined;
    const config = json === undefined
      ? undefined
      : llm.configOfJson(objectOf(json), `config.json of ${files.label}`);
    const model = await llm.open(place, { ...rest, config });
    try {
      const format = await ChatFormat.of(await tokenizerOf(files, model));
      const messages = system === undefined ? [] : [{ role: "system", content: system }];
      const session = model.session();
      const { name } = files;
      return new Chat({ model, name, format, overflow, messages, session, ownsModel: true });
    } catch (error) {
      model.dispose();
      throw error;
    }
  }

  /** The messages so far: a copy. */
  get messages(): Message[] {
    return this.#messages.map((message) => ({ ...message }));
  }

  /** Replaces the messages. What they have in common with those before is not computed again. */
  set messages(messages: readonly Message[]) {
    this.#checkIdle();
    const fail = (): never => {
      throw new ArgumentError(
        `Cannot use the messages ${describe(messages)}: they are an array of { role, content }`,
      );
    };
    const isMessage = (one: unknown): one is Message => typeof objectOf(one)["role"] === "string";
    this.#messages = listIn(messages, (one) => isMessage(one) ? { ...one } : fail()) ?? fail();
  }

  #checkIdle(): void {
    if (this.#disposed) throw new DisposedError("Cannot use the chat: it was disposed");
    if (!this.#busy) return;
    throw new ArgumentError(
      "Cannot use a chat that answers: end the turn first, or fork() it before",
    );
  }

  /** The tokens of messages, and the messages that are left of them. */
  async #prompt(
    given: readonly Message[],
    { variables, maxTokens, signal }: AskOptions,
  ): Promise<{ ids: number[]; messages: readonly Message[] }> {
    const { contextLength } = this.model.config;
    const most = contextLength - Math.min(LEAST_ANSWER, maxTokens ?? LEAST_ANSWER);
    let messages = given;
    for (;;) {
      const ids = await this.format.encode(messages, variables, signal);
      if (ids.length <= most) return { ids, messages };
      const shorter = this.#overflow === "truncate" ? withoutOldest(messages) : undefined;
      if (shorter === undefined) {
        throw new ArgumentError(
          `Cannot answer after ${ids.length} tokens: the model has a context of ${contextLength}, ` +
            `of which an answer needs ${contextLength - most}`,
        );
      }
      messages = shorter;
    }
  }

  /**
   * Asks the model, and returns its answer as it comes, in pieces of whole characters. The question and
   * the answer become messages; those of an iteration that ends early do not. The turn begins when the
   * first piece is asked for.
   *
   * With `tools`, the model may call functions. Each call and its result become messages too, and the
   * model goes on with the results. It gets wrong arguments, unknown functions and errors of functions
   * as results.
   *
   * @returns The pieces, and at the end the reason why the answer has ended.
   * @throws {ArgumentError} If the chat does not fit the context of the model; see
   *   {@link ChatOptions.overflow}. For tools, if the template of the model has none.
   */
  stream(question: string, options: AskOptions = {}): AsyncGenerator<string, llm.FinishReason> {
    // The caller may change them before it asks for the first piece.
    const turn = attempt(() => this.#turn(question, options));
    return endedWhenLost(this.#stream(turn), "stop");
  }

  #turn(question: string, options: AskOptions): Turn {
    if (typeof question !== "string") {
      throw new ArgumentError(`Cannot ask ${describe(question)}: it is a text`);
    }
    checkOptions("ask", options, [...TEXT_OPTIONS, "variables", "tools", "toolRounds"]);
    const { variables, tools, toolRounds = 5, stop, ...rest } = ownOptions(options);
    checkSignal("ask", rest.signal);
    if (!Number.isInteger(toolRounds) || toolRounds < 0) {
      throw new ArgumentError(
        `Cannot ask with toolRounds ${describe(toolRounds)}: it is an integer of at least 0`,
      );
    }
    const kit = tools && new ToolKit(tools, this.format.calls);
    const own = { ...rest, ...stop !== undefined && { stop: stopTexts(stop) } };
    return { question, options: { ...own, variables: { ...variables } }, kit, toolRounds };
  }

  async *#stream(
    { value: turn, error }: Attempt<Turn>,
  ): AsyncGenerator<string, llm.FinishReason> {
    this.#checkIdle();
    if (error !== undefined) throw error;
    const { question, options: plain, kit: all, toolRounds } = turn;
    const { variables, ...rest } = plain;
    const withTools = { ...plain, variables: { ...variables, tools: all?.specs } };
    let asked: readonly Message[] = [...this.#messages, { role: "user", content: question }];
    this.#busy = true;
    try {
      for (let round = 0;; round++) {
        // In the end the model does not know of functions, so that it answers.
        const kit = round < toolRounds ? all : undefined;
        const { ids, messages } = await this.#prompt(asked, kit ? withTools : plain);
        const pieces = this.#session.generateText(this.#codec(all !== undefined), ids, rest);
        const { text, shown, reason } = yield* visibleText(pieces, kit);
        const made = await kit?.run(text, rest.signal);
        if (made === undefined) {
          this.#messages = [...messages, { role: "assistant", content: text }];
          if (shown < text.length) yield text.slice(shown);
          return reason;
        }
        asked = [...messages, ...made];
      }
    } finally {
      this.#busy = false;
    }
  }

  /** The tokenizer as sessions take it; calls of functions may begin with special tokens. */
  #codec(special: boolean): llm.TextCodec {
    return {
      encode: (text) => this.tokenizer.encode(text, { special: true }),
      decode: (ids) => this.tokenizer.decode(ids, { special }),
    };
  }

  /** Asks the model and returns its whole answer; see {@link Chat.stream}. */
  async ask(question: string, options: AskOptions = {}): Promise<string> {
    let answer = "";
    for await (const piece of this.stream(question, options)) answer += piece;
    return answer;
  }

  /** Returns a chat with the same model and messages, which does not compute them again. */
  fork(): Chat {
    this.#checkIdle();
    return new Chat({
      model: this.model,
      name: this.name,
      format: this.format,
      overflow: this.#overflow,
      messages: this.#messages,
      session: this.#session.fork(),
      ownsModel: false,
    });
  }

  /** Frees what the model has seen; for a chat of {@link Chat.open} also the model. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#session.dispose();
    if (this.#ownsModel) this.model.dispose();
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

/** The messages without the oldest question and what follows it; undefined for the last question. */
function withoutOldest(messages: readonly Message[]): readonly Message[] | undefined {
  const start = messages.findIndex(({ role }) => role !== "system" && role !== "developer");
  const next = messages.findIndex(({ role }, i) => i > start && role === "user");
  return start < 0 || next < 0 ? undefined : [...messages.slice(0, start), ...messages.slice(next)];
}
