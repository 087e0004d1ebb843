/**
 * Messages of chats as the tokens that a model continues, by the template of its files.
 *
 * @module
 */
import { attempt } from "../base/errors.ts";
import { objectOf } from "../llm/config/reader.ts";
import { Finder } from "../tokenizers/finder.ts";
import {
  type ChatTemplate,
  chatTemplate,
  type Message,
  type Tokenizer,
} from "../tokenizers/mod.ts";
import { Pauses, type Steps } from "../tokenizers/steps.ts";
import { type CallFormat, callFormatOf } from "./calls.ts";

/** The tokens that are looked at between two pauses. */
const STEP = 1000;

/** What the tokens of a tokenizer are. */
interface Tokens {
  /** Finds the special ones, which add no bytes to a text. */
  readonly special: Finder;
  /** The most characters of one; Infinity if that is not known. */
  readonly longest: number;
}

function* tokensOf(tokenizer: Tokenizer): Steps<Tokens> {
  const special = new Finder();
  let longest = 1;
  for (let id = 0; id < tokenizer.size; id++) {
    if (id % STEP === 0) yield;
    const { value: bytes, error } = attempt(() => tokenizer.tokenBytes(id));
    // The tokens of such a tokenizer have no bytes.
    if (error !== undefined) return { special, longest: Infinity };
    const text = bytes === undefined ? tokenizer.idToToken(id) ?? "" : "";
    if (bytes === undefined) special.add(text, id);
    // A character has a byte at least.
    longest = Math.max(longest, bytes?.length ?? text.length);
  }
  return { special, longest };
}

/** How a model reads and writes the messages of chats. */
export class ChatFormat {
  readonly tokenizer: Tokenizer;
  /** The most characters of a token; Infinity if that is not known. */
  readonly longest: number;
  readonly #render: ChatTemplate;
  readonly #special: Finder;
  #calls: { readonly format: CallFormat | undefined } | undefined;

  private constructor(tokenizer: Tokenizer, render: ChatTemplate, { special, longest }: Tokens) {
    this.tokenizer = tokenizer;
    this.longest = longest;
    this.#render = render;
    this.#special = special;
  }

  /**
   * The format of the template of a tokenizer.
   *
   * @throws {PackageError} If the package `@huggingface/jinja` is not installed.
   * @throws {FormatError} For a template that is not supported.
   */
  static async of(tokenizer: Tokenizer): Promise<ChatFormat> {
    const render = await chatTemplate(tokenizer);
    const tokens = await new Pauses(undefined).finish(tokensOf(tokenizer));
    return new ChatFormat(tokenizer, render, tokens);
  }

  /** How the model writes calls of functions; undefined if its template has none of a known kind. */
  get calls(): CallFormat | undefined {
    this.#calls ??= { format: callFormatOf(this.#render) };
    return this.#calls.format;
  }

  /**
   * The tokens of messages, up to where the answer begins, in slices that leave the event loop free.
   * The special tokens are those of the template: a text of a message such as `<|im_start|>` is only
   * text.
   *
   * @throws {ArgumentError} If the template refuses the messages.
   * @throws {FormatError} If the template fails.
   */
  async encode(
    messages: readonly Message[],
    variables: Readonly<Record<string, unknown>> = {},
    signal?: AbortSignal,
  ): Promise<number[]> {
    // Nobody knows it before, and templates leave it as it is.
    const mark = `\ufdd0${crypto.randomUUID()}\ufdd1`;
    const own = messages.map(({ role, ...rest }): Message => ({
      role: this.#markedText(role, mark),
      ...objectOf(this.#marked(rest, mark)),
    }));
    const text = this.#render(own, { variables: objectOf(this.#marked(variables, mark)) });
    return await this.encodeText(text.split(mark).filter((part) => part !== ""), signal);
  }

  /** The tokens of texts, one after the other, with special tokens in them. */
  async encodeText(parts: readonly string[], signal?: AbortSignal): Promise<number[]> {
    const encoded = await this.tokenizer.encodeBatch(parts, {
      ...{ special: true, addSpecial: false },
      ...signal && { signal },
    });
    return encoded.flatMap(({ ids }) => ids);
  }

  /** A text with `mark` within each special token in it. */
  #markedText(text: string, mark: string): string {
    let marked = "";
    for (const part of this.#special.split(text)) {
      if (part === undefined) continue;
      if (typeof part === "string") {
        marked += part;
        continue;
      }
      const token = this.tokenizer.idToToken(part)!;
      const [first] = token;
      marked += first + mark + token.slice(first!.length);
    }
    return marked;
  }

  /** A value with such marks in all of its texts. */
  #marked(value: unknown, mark: string): unknown {
    if (typeof value === "string") return this.#markedText(value, mark);
    if (Array.isArray(value)) return value.map((one) => this.#marked(one, mark));
    if (!isPlain(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map((
        [key, one],
      ) => [this.#markedText(key, mark), this.#marked(one, mark)]),
    );
  }
}

/** Whether a value is an object of JSON. */
function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}
