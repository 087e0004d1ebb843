/**
 * The tokenizer in the metadata of a GGUF file: byte pair encoding of bytes ("gpt2"), or of characters
 * with scores, as SentencePiece has it ("llama"). Its ids are those of llama.cpp.
 *
 * @module
 */
import { joinPairs, type RankOf } from "./bpe.ts";
import { cutOf, wordsOf } from "./words.ts";

/** The metadata of a file. */
export interface Metadata {
  get(key: string): unknown;
}

/** Types of tokens. */
const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, BYTE = 6;
/** The most words whose ids are kept. */
const MOST_WORDS = 10_000;

const encoder = new TextEncoder();

/** Where the metadata's values have a wrong type, an Error says so. */
class Values {
  readonly #metadata: Metadata;

  constructor(metadata: Metadata) {
    this.#metadata = metadata;
  }

  #get<T>(key: string, isRight: (value: unknown) => boolean, what: string): T | undefined {
    const name = key.startsWith("tokenizer.") ? key : `tokenizer.ggml.${key}`;
    const value = this.#metadata.get(name);
    if (value === undefined || isRight(value)) return value as T | undefined;
    throw new Error(`the metadata ${name} is no ${what}`);
  }

  text(key: string): string | undefined {
    return this.#get(key, (value) => typeof value === "string", "text");
  }

  flag(key: string): boolean | undefined {
    return this.#get(key, (value) => typeof value === "boolean", "bool");
  }

  /** An id of one of `count` tokens. */
  id(key: string, count: number): number | undefined {
    const isId = (value: unknown) => Number.isInteger(value) && value as number >= 0;
    const id = this.#get<number>(key, isId, "id of a token");
    // Files without such a token have -1 as an unsigned number.
    return id !== undefined && id < count ? id : undefined;
  }

  texts(key: string): readonly string[] | undefined {
    return this.#list(key, "string", "array of texts");
  }

  /** An array with a number for each of `count` tokens. */
  numbers(key: string, count: number): readonly number[] | undefined {
    const numbers = this.#list<number>(key, "number", "array of numbers");
    if (numbers === undefined || numbers.length === count) return numbers;
    throw new Error(`the metadata tokenizer.ggml.${key} has ${numbers.length} of ${count} numbers`);
  }

  /** All items of an array have one type. */
  #list<T>(key: string, type: string, what: string): readonly T[] | undefined {
    const isRight = (value: unknown) =>
      Array.isArray(value) && (value.length === 0 || typeof value[0] === type);
    return this.#get(key, isRight, what);
  }
}

interface Vocabulary {
  readonly tokens: readonly string[];
  readonly types: readonly number[];
  /** The ids of tokens that texts are made of. */
  readonly ids: ReadonlyMap<string, number>;
}

/** What differs between the kinds of vocabularies. */
interface Kind {
  /** Appends the ids of a text without special tokens. */
  encode(text: string, ids: number[]): void;
  /** The bytes of a token that texts are made of. */
  bytesOf(id: number): Uint8Array;
  /** Whether texts get a space in front, which is left out again. */
  readonly isPrefixed: boolean;
  readonly addBos: boolean;
}

/** Characters that stand for bytes in vocabularies of bytes: printable ones for themselves. */
const CHARS: readonly string[] = (() => {
  const isPrintable = (byte: number) =>
    (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
  let others = 0x100;
  return Array.from(
    { length: 256 },
    (_, byte) => String.fromCharCode(isPrintable(byte) ? byte : others++),
  );
})();

function bytePairs(values: Values, { tokens, ids }: Vocabulary): Kind {
  const cut = cutOf(values.text("pre") ?? "default");
  const merges = values.texts("merges");
  if (merges === undefined) throw new Error("the metadata has no tokenizer.ggml.merges");
  const ranks = new Map<string, number>();
  for (let i = 0; i < merges.length; i++) ranks.set(merges[i]!, i);
  const rankOf: RankOf = (left, right) => ranks.get(`${left} ${right}`);
  const bytes = new Map(CHARS.map((char, byte) => [char, byte]));
  const words = new Map<string, readonly number[]>();
  const idsOf = (word: string): readonly number[] => {
    const chars = Array.from(encoder.encode(word), (byte) => CHARS[byte]!);
    const whole = cut.isWhole ? ids.get(chars.join("")) : undefined;
    if (whole !== undefined) return [whole];
    // Bytes without a token are left out, as in other tokenizers.
    return joinPairs(chars, rankOf)
      .flatMap((part) => ids.get(part) ?? [...part].map((char) => ids.get(char)))
      .filter((id) => id !== undefined);
  };
  return {
    isPrefixed: false,
    addBos: cut.addBos ?? false,
    encode(text, all) {
      for (const word of wordsOf(text, cut.patterns)) {
        let made = words.get(word);
        if (made === undefined) {
          if (words.size === MOST_WORDS) words.clear();
          words.set(word, made = idsOf(word));
        }
        for (const id of made) all.push(id);
      }
    },
    bytesOf: (id) =>
      Uint8Array.from(
        [...tokens[id]!].flatMap((char) => bytes.get(char) ?? [...encoder.encode(char)]),
      ),
  };
}

/** SentencePiece's space. */
const SPACE = "\u2581";

function sentencePieces(values: Values, { tokens, types, ids }: Vocabulary): Kind {
  const scores = values.numbers("scores", tokens.length);
  if (scores === undefined) throw new Error("the metadata has no tokenizer.ggml.scores");
  const rankOf: RankOf = (left, right) => {
    const id = ids.get(left + right);
    return id === undefined ? undefined : -scores[id]!;
  };
  const unknown = values.id("unknown_token_id", tokens.length);
  /** The byte of a token "<0x0A>". */
  const byteOf = (id: number) => Number.parseInt(tokens[id]!.slice(3, 5), 16);
  const byteIds: number[] = [];
  for (let id = 0; id < types.length; id++) if (types[id] === BYTE) byteIds[byteOf(id)] = id;
  const isPrefixed = values.flag("add_space_prefix") ?? true;
  return {
    isPrefixed,
    addBos: true,
    encode(text, all) {
      const chars = [...(isPrefixed ? ` ${text}` : text).replaceAll(" ", SPACE)];
      for (const part of joinPairs(chars, rankOf)) {
        const id = ids.get(part);
        const made = id === undefined
          ? Array.from(encoder.encode(part), (byte) => byteIds[byte] ?? unknown)
          : [id];
        for (const one of made) if (one !== undefined) all.push(one);
      }
    },
    bytesOf: (id) =>
      types[id] === BYTE
        ? Uint8Array.of(byteOf(id))
        : encoder.encode(tokens[id]!.replaceAll(SPACE, " ")),
  };
}

/** Finds tokens that are in a text as they are, the longest at each place. */
class Finder {
  readonly #byFirst = new Map<string, [text: string, id: number][]>();

  add(text: string, id: number): void {
    if (text === "") return;
    const found = this.#byFirst.get(text[0]!);
    if (found === undefined) this.#byFirst.set(text[0]!, [[text, id]]);
    else {
      const at = found.findIndex(([other]) => other.length < text.length);
      found.splice(at < 0 ? found.length : at, 0, [text, id]);
    }
  }

  /** The parts of a text: ids of such tokens, and the texts between them. */
  split(text: string): (string | number)[] {
    const parts: (string | number)[] = [];
    let from = 0;
    for (let at = 0; at < text.length;) {
      const found = this.#byFirst.get(text[at]!)?.find(([token]) => text.startsWith(token, at));
      if (found === undefined) at++;
      else {
        if (at > from) parts.push(text.slice(from, at));
        parts.push(found[1]);
        from = at += found[0].length;
      }
    }
    if (from < text.length) parts.push(text.slice(from));
    return parts;
  }
}

/** The tokenizer in the metadata of a GGUF file. */
export class GgufTokenizer {
  readonly bos: number | undefined;
  readonly eos: number | undefined;
  readonly addBos: boolean;
  readonly chatTemplate: string | undefined;
  readonly #tokens: readonly string[];
  readonly #kind: Kind;
  /** Tokens that are found in texts as they are; the ids of those that are shown on request. */
  readonly #all = new Finder();
  readonly #userDefined = new Finder();
  readonly #isHidden = new Map<number, boolean>();

  /** Throws an Error if the metadata has no vocabulary, or one of another kind. */
  constructor(metadata: Metadata, endTokens: readonly number[]) {
    const values = new Values(metadata);
    const tokens = this.#tokens = values.texts("tokens") ?? [];
    if (tokens.length === 0) throw new Error("the metadata has no tokenizer.ggml.tokens");
    const types = values.numbers("token_type", tokens.length) ?? tokens.map(() => NORMAL);
    const ids = new Map<string, number>();
    const ends = new Set(endTokens);
    for (let id = 0; id < tokens.length; id++) {
      const token = tokens[id]!, type = types[id]!;
      const isHidden = ends.has(id) || type === CONTROL || type === UNKNOWN;
      if (isHidden || type === USER_DEFINED) {
        this.#all.add(token, id);
        if (!isHidden) this.#userDefined.add(token, id);
        this.#isHidden.set(id, isHidden);
      } else if (type === NORMAL) ids.set(token, id);
    }
    const model = values.text("model");
    const makes = { gpt2: bytePairs, llama: sentencePieces };
    if (model !== "gpt2" && model !== "llama") {
      throw new Error(
        `the tokenizer is ${model === undefined ? "not named" : `"${model}"`} ` +
          `(tokenizer.ggml.model): only "gpt2" and "llama" are read`,
      );
    }
    this.#kind = makes[model](values, { tokens, types, ids });
    this.bos = values.id("bos_token_id", tokens.length);
    this.eos = values.id("eos_token_id", tokens.length);
    this.addBos = this.bos !== undefined && (values.flag("add_bos_token") ?? this.#kind.addBos);
    this.chatTemplate = values.text("tokenizer.chat_template");
  }

  encode(text: string, { special = false }: { readonly special?: boolean } = {}): number[] {
    const ids: number[] = [];
    for (const part of (special ? this.#all : this.#userDefined).split(text)) {
      if (typeof part === "number") ids.push(part);
      else this.#kind.encode(part, ids);
    }
    return ids;
  }

  decode(ids: readonly number[], { special = false }: { readonly special?: boolean } = {}): string {
    const bytes: number[] = [];
    let isStart = this.#kind.isPrefixed;
    for (const id of ids) {
      const own = this.#bytesOf(id);
      const isHidden = this.#isHidden.get(id);
      if (isHidden && !special) continue;
      const isSpace = isHidden === undefined && isStart && own[0] === 0x20;
      for (let i = isSpace ? 1 : 0; i < own.length; i++) bytes.push(own[i]!);
      isStart = this.#kind.isPrefixed && isHidden !== undefined;
    }
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }

  tokenText(id: number): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.#bytesOf(id));
  }

  /** The bytes of a token; throws a RangeError unless there is one. */
  #bytesOf(id: number): Uint8Array {
    const token = this.#tokens[id];
    if (token === undefined) {
      throw new RangeError(`there is no token ${id}: the vocabulary has ${this.#tokens.length}`);
    }
    return this.#isHidden.has(id) ? encoder.encode(token) : this.#kind.bytesOf(id);
  }
}
