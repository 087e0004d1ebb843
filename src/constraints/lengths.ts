/**
 * Limits of the lengths of strings, where the place of a string in JSON tells its schema. A grammar has
 * a rule for each number of characters that is left, each of which takes time to compile; here they are
 * counted.
 *
 * @module
 */
import { Pauses, type Steps } from "../tokenizers/steps.ts";
import { isObject, type JsonSchema, referred } from "./values.ts";
import { allows, setAllowed, type TokenBytes, type Vocabulary } from "./vocabulary.ts";

const QUOTE = 0x22, BACKSLASH = 0x5c, COMMA = 0x2c, U = 0x75;
const ARRAY = 0x5b, ARRAY_END = 0x5d, OBJECT = 0x7b, OBJECT_END = 0x7d;
/** The digits of an escaped code unit. */
const HEX_DIGITS = 4;
/** The most references from one part of a schema to another. */
const MOST_REFERENCES = 100;
/** The tokens between two pauses. */
const STEP = 1000;

/** The keywords whose value is a list of schemas, of which one counts. */
export const CHOICES = ["anyOf", "oneOf", "allOf"];

/** Whether a byte begins a character of UTF-8. */
function isStart(byte: number): boolean {
  return (byte & 0xc0) !== 0x80;
}

/** A bracket that is open, with what is known of the value in it. */
interface Bracket {
  readonly outer: Bracket | undefined;
  readonly schema: JsonSchema | undefined;
  readonly isObject: boolean;
  /** Of an array, the number of the element. */
  readonly index: number;
  /** Of an object, the name of the member; undefined where one comes. */
  readonly name: string | undefined;
}

/** A string that is open. */
interface Text {
  /** Its bytes so far as characters, if it is a name. */
  name: string | undefined;
  readonly least: number;
  readonly most: number;
  /** The characters that have begun. */
  length: number;
  /** Whether a backslash was the last byte, and the digits that are left of an escape. */
  isEscaped: boolean;
  digits: number;
}

/** A string that has begun. */
function textOf(name: string | undefined, least: number, most: number): Text {
  return { name, least, most, length: 0, isEscaped: false, digits: 0 };
}

/** The schema of a value that comes at one place; undefined if there are several. */
function single(given: unknown, root: JsonSchema): JsonSchema | undefined {
  let schema = given;
  for (let k = 0; k < MOST_REFERENCES && isObject(schema); k++) {
    const { $ref } = schema;
    if (typeof $ref === "string") {
      schema = referred(root, $ref);
      continue;
    }
    const own: JsonSchema = schema;
    const list = CHOICES.map((key) => own[key]).find((one) => one !== undefined);
    if (list === undefined) return own;
    schema = Array.isArray(list) && list.length === 1 ? list[0] : undefined;
  }
  return undefined;
}

/** What the tokens of a vocabulary are in strings. */
interface TokenLengths {
  /** The characters of each token in a string, without those of `marked`. */
  readonly counts: Uint16Array;
  readonly longest: number;
  /** The tokens with a quotation mark or a backslash: what they are depends on what is before. */
  readonly marked: readonly number[];
  /** Masks of the tokens of more than so many characters, which are made when they are needed. */
  readonly above: Map<number, Int32Array>;
}

function* measure(vocabulary: Vocabulary): Steps<TokenLengths> {
  const counts = new Uint16Array(vocabulary.length);
  const marked: number[] = [];
  let longest = 0;
  for (const [id, bytes] of vocabulary.entries()) {
    if (id % STEP === 0) yield;
    if (bytes === undefined) continue;
    if (bytes.includes(QUOTE) || bytes.includes(BACKSLASH)) marked.push(id);
    else {
      counts[id] = Math.min(bytes.filter(isStart).length, 0xffff);
      longest = Math.max(longest, counts[id]!);
    }
  }
  return { counts, longest, marked, above: new Map() };
}

/** Adds a byte that does not end a string to it. */
function go(text: Text, byte: number): void {
  if (text.isEscaped) {
    text.isEscaped = false;
    text.digits = byte === U ? HEX_DIGITS : 0;
  } else if (text.digits > 0) text.digits--;
  else {
    if (isStart(byte)) text.length++;
    text.isEscaped = byte === BACKSLASH;
  }
}

/** A mask of the tokens of more than `most` characters. */
function tokensAbove(most: number, { counts, above }: TokenLengths): Int32Array {
  let mask = above.get(most);
  if (mask === undefined) {
    mask = new Int32Array(Math.ceil(counts.length / 32));
    for (const [id, count] of counts.entries()) if (count > most) setAllowed(mask, id, true);
    above.set(most, mask);
  }
  return mask;
}

const measured = new WeakMap<TokenBytes, Promise<TokenLengths>>();

/** Follows JSON of a schema byte by byte, and knows the limits of its strings. */
class Reader {
  readonly #root: JsonSchema;
  #bracket: Bracket | undefined;
  #text: Text | undefined;

  constructor(root: JsonSchema) {
    this.#root = root;
  }

  copy(): Reader {
    const made = new Reader(this.#root);
    made.#bracket = this.#bracket;
    made.#text = this.#text && { ...this.#text };
    return made;
  }

  /** The characters that the string may still have; infinite where there is no limit. */
  get left(): number {
    return this.#text === undefined ? Infinity : this.#text.most - this.#text.length;
  }

  /** Whether it is in an escape, whose character has been counted. */
  get isWithin(): boolean {
    return this.#text !== undefined && (this.#text.isEscaped || this.#text.digits > 0);
  }

  /** The schema of the value that comes. */
  #value(): JsonSchema | undefined {
    const bracket = this.#bracket, root = this.#root;
    if (bracket === undefined) return single(root, root);
    const { schema, isObject: hasNames, index, name = "" } = bracket;
    if (schema === undefined) return undefined;
    if (!hasNames) {
      const { prefixItems, items } = schema;
      const first: readonly unknown[] = Array.isArray(prefixItems) ? prefixItems : [];
      return single(index < first.length ? first[index] : items, root);
    }
    const { properties, additionalProperties } = schema;
    const isKnown = isObject(properties) && Object.hasOwn(properties, name);
    return single(isKnown ? properties[name] : additionalProperties, root);
  }

  #begin(): void {
    if (this.#bracket?.isObject === true && this.#bracket.name === undefined) {
      this.#text = textOf("", 0, Infinity);
      return;
    }
    const { minLength, maxLength } = this.#value() ?? {};
    const least = typeof minLength === "number" ? minLength : 0;
    const most = typeof maxLength === "number" ? maxLength : Infinity;
    this.#text = textOf(undefined, least, most);
  }

  /** Reads a byte; false if it is against a limit. */
  read(byte: number): boolean {
    const text = this.#text, bracket = this.#bracket;
    if (text !== undefined) {
      const isEnd = byte === QUOTE && !text.isEscaped;
      if (!isEnd) {
        if (text.name !== undefined) text.name += String.fromCharCode(byte);
        go(text, byte);
        return text.length <= text.most;
      }
      this.#text = undefined;
      if (text.name !== undefined && bracket !== undefined) {
        const bytes = Uint8Array.from(text.name, (char) => char.charCodeAt(0));
        const name = String(JSON.parse(`"${new TextDecoder().decode(bytes)}"`));
        this.#bracket = { ...bracket, name };
      }
      return text.length >= text.least;
    }
    if (byte === QUOTE) this.#begin();
    else if (byte === OBJECT || byte === ARRAY) {
      const schema = this.#value();
      const own = { isObject: byte === OBJECT, index: 0, name: undefined };
      this.#bracket = { outer: bracket, schema, ...own };
    } else if (byte === OBJECT_END || byte === ARRAY_END) this.#bracket = bracket?.outer;
    else if (byte === COMMA && bracket !== undefined) {
      this.#bracket = { ...bracket, index: bracket.index + 1, name: undefined };
    }
    return true;
  }
}

/** The limits of a schema for the tokens of a vocabulary. */
export class Lengths {
  readonly #root: JsonSchema;
  readonly #vocabulary: Vocabulary;
  readonly #tokens: TokenLengths;

  private constructor(root: JsonSchema, vocabulary: Vocabulary, tokens: TokenLengths) {
    this.#root = root;
    this.#vocabulary = vocabulary;
    this.#tokens = tokens;
  }

  /** The limits of a schema, which is not changed later. */
  static async of(
    root: JsonSchema,
    tokenizer: TokenBytes,
    vocabulary: Vocabulary,
  ): Promise<Lengths> {
    let tokens = measured.get(tokenizer);
    if (tokens === undefined) {
      tokens = new Pauses(undefined).finish(measure(vocabulary));
      measured.set(tokenizer, tokens);
    }
    return new Lengths(root, vocabulary, await tokens);
  }

  /** The limits for a new text. */
  start(): LengthsState {
    return new LengthsState(new Reader(this.#root), this.#vocabulary, this.#tokens);
  }
}

/** The limits for the tokens of one text. */
export class LengthsState {
  readonly #reader: Reader;
  readonly #vocabulary: Vocabulary;
  readonly #tokens: TokenLengths;

  /** {@link Lengths.start} makes them. */
  constructor(reader: Reader, vocabulary: Vocabulary, tokens: TokenLengths) {
    this.#reader = reader;
    this.#vocabulary = vocabulary;
    this.#tokens = tokens;
  }

  /** Takes a token that has come. */
  accept(id: number): void {
    for (const byte of this.#vocabulary[id] ?? []) this.#reader.read(byte);
  }

  #fits(id: number): boolean {
    const reader = this.#reader.copy();
    const bytes = this.#vocabulary[id];
    return bytes === undefined || bytes.every((byte) => reader.read(byte));
  }

  /** Takes the tokens from a mask that are against a limit. */
  limit(mask: Int32Array): void {
    for (const id of this.#tokens.marked) {
      if (id >> 5 < mask.length && allows(mask, id) && !this.#fits(id)) setAllowed(mask, id, false);
    }
    const { left, isWithin } = this.#reader;
    if (left >= this.#tokens.longest) return;
    for (const [word, bits] of tokensAbove(left, this.#tokens).entries()) {
      const over = mask[word]! & bits;
      if (over === 0) continue;
      if (!isWithin) mask[word]! ^= over;
      else {
        for (let id = 32 * word; id < 32 * word + 32; id++) {
          if ((over >>> (id & 31) & 1) === 1 && !this.#fits(id)) setAllowed(mask, id, false);
        }
      }
    }
  }
}
