/**
 * Texts to the ids of tokens and back: what all tokenizers have, whatever their files.
 *
 * A {@link Model} is what one kind of file gives; this module adds the tokens around texts, the cut to
 * a length, and batches that leave the event loop free.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { lengthOf, listIn } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { checkOptions } from "../table/infer.ts";
import { finish, Pauses, type Steps } from "./steps.ts";

/** Whether special tokens such as `<|im_start|>` are meant. */
export interface SpecialOption {
  /**
   * In texts to encode: whether `<|im_start|>` in the text is the special token. False by default: the
   * text of a user is only text. In ids to decode: whether special tokens are in the text or are left
   * out, which is the default.
   */
  readonly special?: boolean | undefined;
}

/** Options of {@link Tokenizer.encode}. */
export interface EncodeOptions extends SpecialOption {
  /**
   * Whether the result has the tokens that the model expects around a text, such as BOS or
   * `[CLS] … [SEP]`; false by default.
   */
  readonly addSpecial?: boolean | undefined;
}

/** A text, or two that a model compares. */
export type TextInput = string | readonly [text: string, pair: string];

/** Options of {@link Tokenizer.encodeInput}. */
export interface InputOptions extends SpecialOption {
  /** Whether the result has the tokens that the model expects around texts; true by default. */
  readonly addSpecial?: boolean | undefined;
  /**
   * The maximum number of tokens. Longer texts lose tokens at their ends, the longer text of a pair
   * first; the tokens around them stay.
   */
  readonly maxLength?: number | undefined;
}

/** Options of {@link Tokenizer.encodeBatch}. */
export interface BatchOptions extends InputOptions {
  /** Stops the work: the promise rejects with the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
}

/** A text, or a pair of texts, as a model takes it. */
export interface Encoding {
  /** The tokens. */
  readonly ids: readonly number[];
  /** For each token, which text it belongs to, as the model counts them: 0, or 1 for the second. */
  readonly typeIds: readonly number[];
}

/** Makes text of tokens as they come. */
export interface TokenDecoder {
  /**
   * Takes tokens.
   *
   * @param ids The next token, or several.
   * @returns The characters that are complete.
   */
  push(ids: number | readonly number[]): string;
  /**
   * Ends the text. The next token begins another one.
   *
   * @returns The rest, with U+FFFD for an incomplete character.
   */
  flush(): string;
}

/** The ids of special tokens; undefined for those that a tokenizer lacks. */
export interface SpecialIds {
  /** The token at the begin of a text. */
  readonly bos: number | undefined;
  /** The token at the end of a text. */
  readonly eos: number | undefined;
  /** The token for unknown text. */
  readonly unk: number | undefined;
  /** The token that fills short rows of a batch. */
  readonly pad: number | undefined;
  /** The token between two texts. */
  readonly sep: number | undefined;
  /** The first token of a text whose vector stands for all of it. */
  readonly cls: number | undefined;
  /** The token for text to guess. */
  readonly mask: number | undefined;
  /** The token that ends a turn of a chat. */
  readonly eot: number | undefined;
}

/** A tokenizer of a model. */
export interface Tokenizer extends SpecialIds {
  /** The number of ids. */
  readonly size: number;
  /** Whether the model expects a token such as BOS in front of a text. */
  readonly addBos: boolean;
  /** Whether the model expects a token such as EOS after a text. */
  readonly addEos: boolean;
  /** The template of chats, in Jinja's language: see {@link chatTemplate}. */
  readonly chatTemplate: string | undefined;
  /** Returns the tokens of a text. */
  encode(text: string, options?: EncodeOptions): number[];
  /**
   * Encodes a text or a pair of texts as an encoder takes them, cut to a length.
   *
   * @throws {ArgumentError} If `maxLength` does not hold the tokens around the texts.
   */
  encodeInput(input: TextInput, options?: InputOptions): Encoding;
  /**
   * {@link Tokenizer.encodeInput} of many texts, or of long ones, in slices of 2 milliseconds that
   * leave the event loop free. The result is the same.
   */
  encodeBatch(inputs: readonly TextInput[], options?: BatchOptions): Promise<Encoding[]>;
  /**
   * Returns the text of tokens, with U+FFFD for bytes of an incomplete character. Ids from `size` on,
   * which some models have, add no text.
   */
  decode(ids: readonly number[], options?: SpecialOption): string;
  /** Returns a decoder of tokens as they come. */
  decoder(options?: SpecialOption): TokenDecoder;
  /**
   * Returns the text of a token alone, with the space in front if it has one.
   *
   * @throws {ArgumentError} If there is no such token.
   */
  tokenText(id: number): string;
  /**
   * Returns the bytes that a token adds to a text in UTF-8, with the space in front if it has one: a
   * token may have a part of a character only. Undefined for special tokens, which add no text, and
   * for ids without a token.
   *
   * @throws {FormatError} If tokens add no bytes of their own, as those of BERT.
   */
  tokenBytes(id: number): Uint8Array | undefined;
  /** Returns the id of a token as the file spells it; undefined if there is none. */
  tokenToId(token: string): number | undefined;
  /** Returns a token as the file spells it; undefined if there is none. */
  idToToken(id: number): string | undefined;
}

/** The tokens around texts. */
export interface Frame {
  readonly before: readonly number[];
  readonly after: readonly number[];
  /** Between the texts of a pair. */
  readonly between: readonly number[];
  /** The types of the parts: before, first text, between, second text, after. */
  readonly types: readonly [number, number, number, number, number];
}

/** What one kind of file gives. */
export interface Model {
  readonly size: number;
  readonly special: SpecialIds;
  readonly chatTemplate: string | undefined;
  /** The tokens around one text, and around two. */
  readonly frames: readonly [single: Frame, pair: Frame];
  encode(text: string, special: boolean): Steps<number[]>;
  decode(ids: readonly number[], special: boolean): string;
  decoder(special: boolean): TokenDecoder;
  tokenText(id: number): string;
  tokenBytes(id: number): Uint8Array | undefined;
  tokenToId(token: string): number | undefined;
  idToToken(id: number): string | undefined;
}

const ENCODE_OPTIONS = ["special", "addSpecial"];
const INPUT_OPTIONS = [...ENCODE_OPTIONS, "maxLength"];

/** A frame of nothing. */
export const NO_FRAME: Frame = { before: [], after: [], between: [], types: [0, 0, 0, 0, 0] };

function fail(op: string, given: unknown, takes: string): never {
  throw new ArgumentError(`Cannot ${op} ${describe(given)}: it takes ${takes}`);
}

function checkText(op: string, text: unknown): string {
  return typeof text === "string" ? text : fail(op, text, "a text");
}

/** The ids of tokens among `ids`, checked and copied: models have rows beyond their tokens. */
function checkIds(op: string, ids: unknown, size: number): number[] {
  const list = listIn(ids, (id) => {
    if (typeof id === "number" && Number.isInteger(id) && id >= 0) return id;
    throw new ArgumentError(`Cannot ${op} token ${describe(id)}: it is no integer of at least 0`);
  });
  return list?.filter((id) => id < size) ?? fail(op, ids, "an array of tokens");
}

/** The text or the pair of texts of an input, checked and copied. */
function textsOf(op: string, input: unknown): readonly string[] {
  if (typeof input === "string") return [input];
  const count = lengthOf(input) ?? 0;
  if (count < 1 || count > 2) fail(op, input, "a text or a pair of texts");
  return listIn(input, (text) => checkText(op, text), count) ?? [];
}

/** A tokenizer of a {@link Model}. */
export class ModelTokenizer implements Tokenizer {
  readonly size: number;
  readonly bos: number | undefined;
  readonly eos: number | undefined;
  readonly unk: number | undefined;
  readonly pad: number | undefined;
  readonly sep: number | undefined;
  readonly cls: number | undefined;
  readonly mask: number | undefined;
  readonly eot: number | undefined;
  readonly addBos: boolean;
  readonly addEos: boolean;
  readonly chatTemplate: string | undefined;
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
    this.size = model.size;
    const { bos, eos, unk, pad, sep, cls, mask, eot } = model.special;
    this.bos = bos;
    this.eos = eos;
    this.unk = unk;
    this.pad = pad;
    this.sep = sep;
    this.cls = cls;
    this.mask = mask;
    this.eot = eot;
    this.addBos = model.frames[0].before.length > 0;
    this.addEos = model.frames[0].after.length > 0;
    this.chatTemplate = model.chatTemplate;
  }

  encode(text: string, options: EncodeOptions = {}): number[] {
    checkOptions("encode", options, ENCODE_OPTIONS);
    const ids = finish(this.#model.encode(checkText("encode", text), options.special === true));
    if (options.addSpecial !== true) return ids;
    const { before, after } = this.#model.frames[0];
    return [...before, ...ids, ...after];
  }

  encodeInput(input: TextInput, options: InputOptions = {}): Encoding {
    checkOptions("encodeInput", options, INPUT_OPTIONS);
    return finish(this.#encodeInput("encodeInput", textsOf("encodeInput", input), options));
  }

  async encodeBatch(
    inputs: readonly TextInput[],
    { signal, ...options }: BatchOptions = {},
  ): Promise<Encoding[]> {
    checkOptions("encodeBatch", options, INPUT_OPTIONS);
    const own = listIn(inputs, (input) => textsOf("encodeBatch", input)) ??
      fail("encodeBatch", inputs, "an array of texts");
    const pauses = new Pauses(signal);
    const all: Encoding[] = [];
    for (const texts of own) {
      all.push(await pauses.finish(this.#encodeInput("encodeBatch", texts, options)));
      // Short texts have no steps.
      await pauses.rest();
    }
    return all;
  }

  *#encodeInput(
    op: string,
    texts: readonly string[],
    options: InputOptions,
  ): Steps<Encoding> {
    const { special = false, addSpecial = true, maxLength = Infinity } = options;
    const isLength = maxLength === Infinity || Number.isInteger(maxLength);
    if (!isLength || maxLength < 0) {
      throw new ArgumentError(
        `${op}() needs an integer of at least 0 as maxLength, got ${describe(maxLength)}`,
      );
    }
    const parts: number[][] = [];
    for (const text of texts) parts.push(yield* this.#model.encode(text, special));
    // Between two texts, so that many short ones pause too.
    yield;
    const frame = addSpecial ? this.#model.frames[parts.length === 2 ? 1 : 0] : NO_FRAME;
    const { before, between, after, types } = frame;
    const room = maxLength - before.length - between.length - after.length;
    if (room < 0) {
      throw new ArgumentError(
        `Cannot ${op} with maxLength ${maxLength}: the model has ` +
          `${before.length + between.length + after.length} tokens around texts`,
      );
    }
    const [first = [], second = []] = parts;
    if (first.length + second.length > room) {
      const [short, long] = first.length > second.length ? [second, first] : [first, second];
      if (2 * short.length > room) short.length = Math.floor(room / 2);
      long.length = room - short.length;
    }
    const all = [before, first, between, second, after];
    return {
      ids: all.flat(),
      typeIds: all.flatMap((ids, i) => ids.map(() => types[i]!)),
    };
  }

  decode(ids: readonly number[], options: SpecialOption = {}): string {
    checkOptions("decode", options, ["special"]);
    return this.#model.decode(checkIds("decode", ids, this.size), options.special === true);
  }

  decoder(options: SpecialOption = {}): TokenDecoder {
    checkOptions("decoder", options, ["special"]);
    const { size } = this;
    const decoder = this.#model.decoder(options.special === true);
    return {
      push: (ids) => decoder.push(checkIds("decode", typeof ids === "number" ? [ids] : ids, size)),
      flush: () => decoder.flush(),
    };
  }

  tokenText(id: number): string {
    if (this.#model.idToToken(id) !== undefined) return this.#model.tokenText(id);
    throw new ArgumentError(
      `Cannot get the text of token ${describe(id)}: there are the tokens 0 to ${this.size - 1}`,
    );
  }

  tokenBytes(id: number): Uint8Array | undefined {
    return this.#model.idToToken(id) === undefined ? undefined : this.#model.tokenBytes(id);
  }

  tokenToId(token: string): number | undefined {
    return this.#model.tokenToId(token);
  }

  idToToken(id: number): string | undefined {
    return this.#model.idToToken(id);
  }
}
