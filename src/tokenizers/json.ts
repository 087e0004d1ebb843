/**
 * The tokenizer of a tokenizer.json, by the package of Hugging Face, which a program installs itself.
 *
 * @module
 */
import { FormatError, PackageError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { Fields } from "../io/metadata.ts";
import { TextStream } from "./text_stream.ts";
import { isExponential } from "./ambiguity.ts";
import { bytesOfChars } from "./byte_pairs.ts";
import type { Steps } from "./steps.ts";
import {
  type Frame,
  type Model,
  NO_FRAME,
  type SpecialIds,
  type TokenDecoder,
} from "./tokenizer.ts";
import { bytesOfText, SPACE } from "./vocabulary.ts";

/** The files of a tokenizer: values of JSON. */
export interface TokenizerFiles {
  /** The value of tokenizer.json. */
  readonly tokenizer: object;
  /** The value of tokenizer_config.json. */
  readonly config?: object | undefined;
  /** The text of chat_template.jinja. */
  readonly chatTemplate?: string | undefined;
}

/** The part of the package in use. */
interface Library {
  readonly Tokenizer: new (tokenizer: object, config: object) => LibraryTokenizer;
}

/** Its tokenizer. */
interface LibraryTokenizer {
  encode(
    text: string,
    options: {
      readonly text_pair?: string;
      readonly add_special_tokens: boolean;
      readonly return_token_type_ids?: boolean;
    },
  ): { readonly ids: number[]; readonly token_type_ids?: number[] };
  decode(ids: number[], options: { readonly clean_up_tokenization_spaces: boolean }): string;
  token_to_id(token: string): number | undefined;
  id_to_token(id: number): string | undefined;
  get_vocab(): Map<string, number>;
}

/** A token of the file's list. */
interface AddedToken {
  readonly id: number;
  readonly content: string;
  readonly special: boolean;
}

const PACKAGE = "@huggingface/tokenizers";
/** The most ids of a vocabulary, and tokens in the file's list. */
const MOST_ID = 10_000_000, MOST_ADDED = 1_000_000;
/** The fewest characters of a slice of a long text. */
const SLICE = 2000;
/** The tokens that end turns, the likeliest first. */
const TURN_ENDS = [
  ...["<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<turn|>", "<|endoftext|>"],
  ...["<|end_of_text|>", "<｜end▁of▁sentence｜>", "<end_of_utterance>"],
];

async function importLibrary(): Promise<Library> {
  try {
    return await import("@huggingface/tokenizers") as Library;
  } catch (cause) {
    throw new PackageError("open a tokenizer.json", PACKAGE, { cause });
  }
}

/** Calls the package, which has errors without a class. */
function calling<T>(file: string, what: string, call: () => T): T {
  try {
    return call();
  } catch (cause) {
    const { message } = cause as Error;
    throw new FormatError(`${PACKAGE} cannot ${what}: ${String(message).slice(0, 200)}`, file, 0, {
      cause,
    });
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The list of tokens that are found in texts, checked. */
function addedTokens(json: Readonly<Record<string, unknown>>, file: string): AddedToken[] {
  const list = json["added_tokens"] ?? [];
  const fail = (why: string): never => {
    throw new FormatError(why, file, 0);
  };
  if (!Array.isArray(list) || list.length > MOST_ADDED) {
    return fail("added_tokens is no list of tokens");
  }
  return list.map((token: unknown) => {
    if (!isObject(token)) return fail(`an added token is ${describe(token)}, not an object`);
    const { content } = token;
    const fields = new Fields((key) => token[key], file, "added_tokens: ");
    const id = fields.integer("id", { most: MOST_ID });
    if (typeof content !== "string" || content === "") {
      return fail(`the added token ${id} has no content`);
    }
    return { id, content, special: fields.flag("special") ?? false };
  });
}

/** Throws for a pattern that may take exponential time, in the parts of a tokenizer that have patterns. */
function checkPatterns(json: Readonly<Record<string, unknown>>, file: string): void {
  const open: unknown[] = [
    json["normalizer"],
    json["pre_tokenizer"],
    json["post_processor"],
    json["decoder"],
  ];
  while (open.length > 0) {
    const part = open.pop();
    if (typeof part !== "object" || part === null) continue;
    for (const [key, value] of Object.entries(part)) {
      if (key !== "Regex" || typeof value !== "string") open.push(value);
      else if (isExponential(value)) {
        throw new FormatError(
          `the pattern ${
            JSON.stringify(value.slice(0, 100))
          } may take exponential time: it repeats ` +
            "a part that matches the same text in two ways",
          file,
          0,
        );
      }
    }
  }
}

/** Throws unless the ids of a vocabulary are those of an array of bounded length. */
function checkVocabulary(model: Readonly<Record<string, unknown>>, file: string): void {
  if (!isObject(model["vocab"])) return;
  for (const id of Object.values(model["vocab"])) {
    if (Number.isInteger(id) && Number(id) >= 0 && Number(id) <= MOST_ID) continue;
    throw new FormatError(`a token has the id ${describe(id)}, not 0 to ${MOST_ID}`, file, 0);
  }
}

/**
 * The tokenizer without its special tokens, for texts of users. A model of unigrams finds the tokens
 * of its vocabulary in texts, so there they have other names.
 */
function withoutSpecial(
  json: Readonly<Record<string, unknown>>,
  added: readonly AddedToken[],
): object {
  const special = new Set(added.filter(({ special }) => special).map(({ id }) => id));
  const list = json["added_tokens"] ?? [];
  const added_tokens = (list as readonly AddedToken[]).filter(({ id }) => !special.has(id));
  const { model } = json;
  if (!isObject(model) || !Array.isArray(model["vocab"])) return { ...json, added_tokens };
  const vocab = model["vocab"].map((entry: unknown, id: number) =>
    special.has(id) && id !== model["unk_id"] && Array.isArray(entry)
      ? [`\u{10fffe}${id}`, entry[1]]
      : entry
  );
  return { ...json, added_tokens, model: { ...model, vocab } };
}

/** The patterns of GPT-2, GPT-4 and GPT-4o in tokenizer.json, without their groups of digits. */
const KNOWN_PATTERNS: readonly RegExp[] = [
  /^'s\|'t\|'re\|'ve\|'m\|'ll\|'d\| \?\\p\{L\}\+\|/,
  /^\(\?i:'s\|'t\|'re\|'ve\|'m\|'ll\|'d\)\|\[\^\\r\\n\\p\{L\}\\p\{N\}\]\?\\p\{L\}\+\|\\p\{N\}(\{1,3\})?\| \?\[\^\\s\\p\{L\}\\p\{N\}\]\+\[\\r\\n\]\*\|\\s\*\[\\r\\n\]\+\|/,
];

/** Whether a pre-tokenizer always cuts a text between a letter and a space that a letter follows. */
function cutsAtSpaces(pre: unknown): boolean {
  if (!isObject(pre)) return false;
  switch (pre["type"]) {
    case "BertPreTokenizer":
    case "Whitespace":
    case "WhitespaceSplit":
      return true;
    case "ByteLevel":
      return pre["use_regex"] !== false;
    case "Metaspace":
      return pre["split"] !== false;
    case "Split": {
      const { pattern, behavior, invert } = pre;
      const source = isObject(pattern) ? pattern["Regex"] : undefined;
      return typeof source === "string" && invert !== true && behavior !== "Removed" &&
        KNOWN_PATTERNS.some((known) => known.test(source));
    }
    case "Sequence":
      return Array.isArray(pre["pretokenizers"]) && pre["pretokenizers"].some(cutsAtSpaces);
    default:
      return false;
  }
}

/** Whether a normalizer changes each character alone, or with its neighbors that are no spaces. */
function isLocal(normalizer: unknown): boolean {
  if (normalizer === null || normalizer === undefined) return true;
  if (!isObject(normalizer)) return false;
  const local = [
    ...["BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Precompiled"],
  ];
  if (normalizer["type"] === "Sequence") {
    return Array.isArray(normalizer["normalizers"]) && normalizer["normalizers"].every(isLocal);
  }
  return local.includes(String(normalizer["type"]));
}

/** Whether the ids of a text are those of its slices, which begin at a space between letters. */
function canSlice(json: Readonly<Record<string, unknown>>, added: readonly AddedToken[]): boolean {
  return cutsAtSpaces(json["pre_tokenizer"]) && isLocal(json["normalizer"]) &&
    !added.some(({ content }) => /\p{L} \p{L}|^ \p{L}|\p{L} $/u.test(content));
}

/** Characters of Chinese beyond 16 bits, which BERT takes as words: the package takes halves of them. */
const CHINESE =
  /[\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;

/** Whether a normalizer puts spaces around characters of Chinese. */
function partsChinese(normalizer: unknown): boolean {
  if (!isObject(normalizer)) return false;
  if (normalizer["type"] === "Sequence") {
    return Array.isArray(normalizer["normalizers"]) && normalizer["normalizers"].some(partsChinese);
  }
  return normalizer["type"] === "BertNormalizer" && normalizer["handle_chinese_chars"] !== false;
}

/** The slices of a text. */
function* slicesOf(text: string): Generator<string, void, void> {
  const border = /(?<=\p{L}) (?=\p{L})/gu;
  for (let at = 0; at < text.length;) {
    border.lastIndex = at + SLICE;
    const end = at + SLICE < text.length ? border.exec(text)?.index ?? text.length : text.length;
    yield text.slice(at, end);
    at = end;
  }
}

/** Where `part` is in `all`, from `from` on. */
function placeOf(part: readonly number[], all: readonly number[], from: number): number {
  for (let at = from; at + part.length <= all.length; at++) {
    if (part.every((id, i) => all[at + i] === id)) return at;
  }
  return -1;
}

/** The tokens around one text and around two, from what the package puts around letters. */
function framesOf(tokenizer: LibraryTokenizer): readonly [Frame, Frame] {
  const bare = (text: string) => tokenizer.encode(text, { add_special_tokens: false }).ids;
  const [a, b] = [bare("a"), bare("b")];
  const one = tokenizer.encode("a", { add_special_tokens: true }).ids;
  const at = placeOf(a, one, 0);
  if (a.length === 0 || at < 0) return [NO_FRAME, NO_FRAME];
  const single = { ...NO_FRAME, before: one.slice(0, at), after: one.slice(at + a.length) };
  const options = { text_pair: "b", add_special_tokens: true, return_token_type_ids: true };
  const { ids, token_type_ids: types = [] } = tokenizer.encode("a", options);
  const first = placeOf(a, ids, 0);
  const second = first < 0 ? -1 : placeOf(b, ids, first + a.length);
  if (second < 0 || b.length === 0) return [single, single];
  const [middle, end] = [first + a.length, second + b.length];
  const typeAt = (place: number) => types[place] ?? 0;
  return [single, {
    before: ids.slice(0, first),
    between: ids.slice(middle, second),
    after: ids.slice(end),
    types: [typeAt(0), typeAt(first), typeAt(middle), typeAt(second), typeAt(end)],
  }];
}

/** The names of special tokens are texts, or objects with more about them. */
function nameOf(token: unknown): string | undefined {
  const name = isObject(token) ? token["content"] : token;
  return typeof name === "string" ? name : undefined;
}

/** The template of chats in tokenizer_config.json: a text, or several with names. */
function templateOf(template: unknown): string | undefined {
  if (!Array.isArray(template)) return typeof template === "string" ? template : undefined;
  const named = template.find((one) => isObject(one) && one["name"] === "default");
  return isObject(named) && typeof named["template"] === "string" ? named["template"] : undefined;
}

/** The bytes of a token by its spelling, by what the decoder does; undefined for other decoders. */
function bytesBy(decoder: unknown): ((token: string) => Uint8Array) | undefined {
  const parts = isObject(decoder) && decoder["type"] === "Sequence" ? decoder["decoders"] : decoder;
  const types = (Array.isArray(parts) ? parts : [parts]).map((part: unknown) =>
    isObject(part) ? part["type"] : undefined
  );
  if (types.includes("ByteLevel")) return bytesOfChars;
  if (!types.includes("ByteFallback") && !types.includes("Metaspace")) return undefined;
  return (token) => {
    const [, hex] = types.includes("ByteFallback") && /^<0x([0-9A-F]{2})>$/.exec(token) || [];
    if (hex !== undefined) return Uint8Array.of(Number.parseInt(hex, 16));
    return bytesOfText(token.replaceAll(SPACE, " "));
  };
}

/** The tokenizer of a tokenizer.json. */
class JsonModel implements Model {
  readonly size: number;
  readonly special: SpecialIds;
  readonly chatTemplate: string | undefined;
  readonly frames: readonly [Frame, Frame];
  readonly #file: string;
  readonly #all: LibraryTokenizer;
  readonly #makePlain: () => LibraryTokenizer;
  /** One that knows no special tokens, made when it is needed. */
  #plain: LibraryTokenizer | undefined;
  readonly #hidden: ReadonlySet<number>;
  /** The tokens that are found in texts as they are. */
  readonly #added: ReadonlyMap<number, string>;
  readonly #bytesOf: ((token: string) => Uint8Array) | undefined;
  readonly #isSliced: boolean;
  readonly #partsChinese: boolean;

  constructor({ Tokenizer }: Library, files: TokenizerFiles, file: string) {
    const { tokenizer: json, config = {} } = files;
    if (!isObject(json) || !isObject(json["model"])) {
      throw new FormatError("the file is no tokenizer.json: it has no model", file, 0);
    }
    if (!isObject(config)) throw new FormatError("the config is no object", file, 0);
    this.#file = file;
    checkVocabulary(json["model"], file);
    checkPatterns(json, file);
    const added = addedTokens(json, file);
    const read = { added_tokens: [], normalizer: null, pre_tokenizer: null };
    const whole = { ...read, post_processor: null, decoder: null, ...json };
    const make = (of: object) => calling(file, "read it", () => new Tokenizer(of, config));
    this.#all = make(whole);
    this.#makePlain = () => make(withoutSpecial(whole, added));
    this.#hidden = new Set(added.filter(({ special }) => special).map(({ id }) => id));
    this.#added = new Map(added.map(({ id, content }) => [id, content]));
    this.#bytesOf = bytesBy(json["decoder"]);
    this.#isSliced = canSlice(json, added);
    this.#partsChinese = partsChinese(json["normalizer"]);
    let last = -1;
    for (const id of this.#all.get_vocab().values()) if (id > last) last = id;
    this.size = last + 1;
    if (this.size === 0) throw new FormatError("the vocabulary is empty", file, 0);
    const idOf = (name: string): number | undefined => {
      const text = nameOf(config[`${name}_token`]);
      return text === undefined ? undefined : this.#all.token_to_id(text);
    };
    this.special = {
      ...{ bos: idOf("bos"), eos: idOf("eos"), unk: idOf("unk"), pad: idOf("pad") },
      ...{ sep: idOf("sep"), cls: idOf("cls"), mask: idOf("mask") },
      eot: TURN_ENDS.map((name) => added.find(({ content }) => content === name)?.id)
        .find((id) => id !== undefined),
    };
    const [single, pair] = calling(file, "encode with it", () => framesOf(this.#all));
    this.frames = [this.#configured(single, config), this.#configured(pair, config)];
    this.chatTemplate = files.chatTemplate ?? templateOf(config["chat_template"]);
  }

  /** A frame with what the config says of BOS and EOS. */
  #configured(frame: Frame, config: Readonly<Record<string, unknown>>): Frame {
    const { bos, eos } = this.special;
    const { add_bos_token: addBos, add_eos_token: addEos } = config;
    const { before, after } = frame;
    const put = (ids: readonly number[], id: number | undefined, add: unknown) => {
      if (id === undefined || typeof add !== "boolean" || add === ids.includes(id)) return ids;
      return add ? [...ids, id] : ids.filter((one) => one !== id);
    };
    return { ...frame, before: put(before, bos, addBos), after: put(after, eos, addEos) };
  }

  *encode(text: string, special: boolean): Steps<number[]> {
    const tokenizer = special ? this.#all : this.#plain ??= this.#makePlain();
    const encode = (part: string) =>
      calling(
        this.#file,
        "encode a text",
        () =>
          tokenizer.encode(this.#partsChinese ? part.replace(CHINESE, " $& ") : part, {
            add_special_tokens: false,
          }).ids,
      );
    if (!this.#isSliced || text.length <= SLICE) return encode(text);
    const ids: number[] = [];
    for (const slice of slicesOf(text)) {
      for (const id of encode(slice)) ids.push(id);
      yield;
    }
    return ids;
  }

  decode(ids: readonly number[], special: boolean): string {
    const shown = special ? [...ids] : ids.filter((id) => !this.#hidden.has(id));
    if (shown.length === 0) return "";
    const options = { clean_up_tokenization_spaces: false };
    return calling(this.#file, "decode", () => this.#all.decode(shown, options));
  }

  decoder(special: boolean): TokenDecoder {
    const make = () => new TextStream((ids) => this.decode(ids, special));
    let stream = make();
    return {
      push: (ids) => {
        let text = "";
        for (const id of typeof ids === "number" ? [ids] : ids) text += stream.push(id).text;
        return text;
      },
      flush: () => {
        const rest = stream.flush();
        stream = make();
        return rest;
      },
    };
  }

  tokenText(id: number): string {
    // What is at the start of a text loses its space, so the token follows another.
    const options = { add_special_tokens: false };
    const before = this.#all.encode("a", options).ids.at(-1);
    const first = before === undefined ? [] : [before];
    return this.decode([...first, id], true).slice(this.decode(first, true).length);
  }

  tokenBytes(id: number): Uint8Array | undefined {
    if (this.#bytesOf === undefined) {
      throw new FormatError(
        "the decoder of the tokenizer does not give each token bytes of its own",
        this.#file,
        0,
      );
    }
    if (this.#hidden.has(id)) return undefined;
    const added = this.#added.get(id);
    if (added !== undefined) return bytesOfText(added);
    const token = this.#all.id_to_token(id);
    return token === undefined ? undefined : this.#bytesOf(token);
  }

  tokenToId(token: string): number | undefined {
    return this.#all.token_to_id(token);
  }

  idToToken(id: number): string | undefined {
    return this.#all.id_to_token(id);
  }
}

/**
 * The tokenizer of a tokenizer.json.
 *
 * @throws {PackageError} If the package is not installed.
 * @throws {FormatError} If it cannot read the file.
 */
export async function jsonModel(files: TokenizerFiles, file: string): Promise<Model> {
  return new JsonModel(await importLibrary(), files, file);
}
