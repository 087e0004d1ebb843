/**
 * The tokenizer in the metadata of a GGUF file, whose ids are those of llama.cpp.
 *
 * @module
 */
import { Fields } from "../io/metadata.ts";
import { bytePairs } from "./byte_pairs.ts";
import { Finder } from "./finder.ts";
import { sentencePieces } from "./sentence_pieces.ts";
import type { Steps } from "./steps.ts";
import {
  type Frame,
  type Model,
  NO_FRAME,
  type SpecialIds,
  type TokenDecoder,
} from "./tokenizer.ts";
import { unigram } from "./unigram.ts";
import {
  BYTE,
  bytesOfText,
  CONTROL,
  type Kind,
  NORMAL,
  STEP,
  UNKNOWN,
  UNUSED,
  USER_DEFINED,
  type Vocabulary,
} from "./vocabulary.ts";
import { wordPieces } from "./word_pieces.ts";

/** The metadata of a GGUF file, by key: `metadata` of an opened model, or any object with `get`. */
export interface MetadataSource {
  /** Returns the value of a key; undefined if there is none. */
  get(key: string): unknown;
  /** Decodes the value of a key in steps; `get` then returns it at once. */
  decode?(key: string): Generator<void, void, void>;
}

/** The arrays with an element for each token. */
const ARRAYS = ["tokens", "token_type", "scores", "merges"];

/** The most tokens of a vocabulary. */
const MOST_TOKENS = 10_000_000;
/** The longest special token, and all of them, in code units: those of models have 31 and 26,000. */
const LONGEST_SPECIAL = 256, MOST_SPECIAL = 2_000_000;
/** What files without a token have as its id. */
const NO_ID = 2 ** 32 - 1;

/** Makes the kind of a vocabulary; `pre` names how texts are cut. */
type MakeKind = (vocabulary: Vocabulary, pre: string | undefined) => Steps<Kind>;

/** The kinds of vocabularies by `tokenizer.ggml.model`. */
const KINDS: Readonly<Record<string, MakeKind>> = {
  gpt2: (vocabulary, pre) => bytePairs(vocabulary, pre ?? "default"),
  gemma4: (vocabulary) => bytePairs(vocabulary, "gemma4"),
  llama: sentencePieces,
  t5: unigram,
  bert: wordPieces,
};

/** Ids of special tokens that files of a kind may leave out. */
const DEFAULTS: Readonly<Record<string, Partial<SpecialIds>>> = {
  llama: { bos: 1, eos: 2, unk: 0 },
  bert: { cls: 101, unk: 100, sep: 102, pad: 0, mask: 103 },
  t5: { eos: 1, unk: 2, pad: 0 },
};

/** Tokens that end turns, the likeliest first: files seldom name theirs. */
const TURN_ENDS = [
  ...["<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<turn|>", "<|endoftext|>"],
  ...["<|end_of_text|>", "<EOT>", "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>"],
];
/** More tokens that are special whatever their type in the file: no text of a user is meant by them. */
const ALSO_SPECIAL = [
  ...["<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<|eom_id|>", "[EOS]", "<eos>"],
];

interface Read {
  readonly vocabulary: Vocabulary;
  readonly special: SpecialIds;
  /** By id, whether a token is found in texts as it is, and whether it is left out of them. */
  readonly isHidden: ReadonlyMap<number, boolean>;
}

function* readVocabulary(
  fields: Fields,
  model: string,
  endTokens: readonly number[],
): Steps<Read> {
  const tokens = fields.texts("tokenizer.ggml.tokens") ?? [];
  if (tokens.length === 0) fields.fail("the metadata has no tokenizer.ggml.tokens");
  if (tokens.length > MOST_TOKENS) fields.fail(`there are ${tokens.length} tokens`);
  const key = "tokenizer.ggml.token_type";
  const types = [
    ...fields.integers(key, { most: 2 ** 31, length: tokens.length }) ??
      new Array<number>(tokens.length).fill(NORMAL),
  ];
  if (types.length !== tokens.length) {
    fields.fail(`${key} has ${types.length} numbers for ${tokens.length} tokens`);
  }
  const defaults = DEFAULTS[model] ?? {};
  const idOf = (name: string, otherwise: number | undefined): number | undefined => {
    const full = `tokenizer.ggml.${name}_token_id`;
    const given = fields.has(full)
      ? fields.integer(full, { least: -1, most: NO_ID })
      : otherwise ?? NO_ID;
    return given >= 0 && given < tokens.length ? given : undefined;
  };
  const bos = idOf("bos", defaults.bos);
  const cls = idOf("cls", model === "bert" ? bos ?? defaults.cls : undefined);
  // The format's own spelling.
  const sep = idOf("seperator", idOf("sep", defaults.sep));
  const [eos, unk] = [idOf("eos", defaults.eos), idOf("unknown", defaults.unk)];

  const ids = new Map<string, number>();
  for (let id = 0; id < tokens.length; id++) {
    if (id % STEP === 0) yield;
    const token = tokens[id]!;
    const other = ids.get(token);
    if (other === undefined || types[other] !== NORMAL && types[id] === NORMAL) ids.set(token, id);
  }
  for (const token of [...TURN_ENDS, ...ALSO_SPECIAL]) {
    const id = ids.get(token);
    if (id !== undefined) types[id] = CONTROL;
  }
  // Phi-3 has it as a token of the user, and in the vocabulary of Qwen it is a text of HTML.
  const end = ids.get("</s>");
  if (end !== undefined && types[end] === USER_DEFINED) types[end] = CONTROL;
  for (const id of endTokens) if (id >= 0 && id < types.length) types[id] = CONTROL;
  const isHidden = new Map<number, boolean>();
  for (let id = 0; id < tokens.length; id++) {
    if (id % STEP === 0) yield;
    const type = types[id];
    if (type === CONTROL || type === UNKNOWN || type === USER_DEFINED) {
      isHidden.set(id, type !== USER_DEFINED);
    } else if (type !== UNUSED && type !== BYTE) types[id] = NORMAL;
  }
  const turnEnd = TURN_ENDS.map((token) => ids.get(token)).find((id) => id !== undefined);
  return {
    vocabulary: {
      ...{ fields, tokens, types, ids, unknown: unk },
      normal(token) {
        const id = ids.get(token);
        return id !== undefined && types[id] === NORMAL ? id : undefined;
      },
    },
    special: {
      ...{ bos, eos, unk, sep, cls },
      pad: idOf("padding", defaults.pad),
      mask: idOf("mask", defaults.mask),
      eot: idOf("eot", turnEnd),
    },
    isHidden,
  };
}

/** The tokens around texts. */
function framesOf(
  fields: Fields,
  kind: Kind,
  { bos, eos, sep, cls }: SpecialIds,
): readonly [Frame, Frame] {
  const list = (id: number | undefined): readonly number[] => id === undefined ? [] : [id];
  if (kind.pairs === "bert") {
    const frame: Frame = {
      ...NO_FRAME,
      before: list(cls),
      after: list(sep),
    };
    return [frame, { ...frame, between: list(sep), types: [0, 0, 0, 1, 1] }];
  }
  const isRoberta = kind.pairs === "roberta";
  const addBos = fields.flag("tokenizer.ggml.add_bos_token") ?? (kind.addBos || isRoberta);
  const addEos = fields.flag("tokenizer.ggml.add_eos_token") ?? (kind.addEos || isRoberta);
  const [before, after] = [addBos ? list(bos) : [], addEos ? list(eos) : []];
  const single: Frame = { ...NO_FRAME, before, after };
  // XLM-RoBERTa is a vocabulary of unigrams with pairs of RoBERTa.
  const isDouble = isRoberta || sep !== undefined && sep === eos && addBos && addEos;
  return [single, { ...single, between: [...after, ...isDouble ? list(sep ?? eos) : before] }];
}

/** The special tokens that take the white space around them: before them, and after them. */
interface Strips {
  readonly before: ReadonlySet<number>;
  readonly after: ReadonlySet<number>;
}

/** GGUF files do not have them, so models are known by their names, as in llama.cpp. */
function stripsOf(
  { fields, ids }: Vocabulary,
  isHidden: ReadonlyMap<number, boolean>,
): Strips {
  const named = (...names: readonly string[]): ReadonlySet<number> =>
    new Set(names.flatMap((name) => ids.get(name) ?? []));
  const none = named();
  const pre = fields.text("tokenizer.ggml.pre") ?? "";
  const architecture = fields.text("general.architecture") ?? "";
  const name = (fields.text("general.name") ?? "").toLowerCase();
  if (
    /jina-v2-(de|es|code)|mmbert/.test(pre) || /nomic-bert-moe|jina-bert-v3/.test(architecture)
  ) {
    return { before: named("<mask>"), after: none };
  }
  if (/phi-?3/.test(name)) {
    const kept = named("<unk>", "<s>", "<|endoftext|>");
    return { before: none, after: new Set([...isHidden.keys()].filter((id) => !kept.has(id))) };
  }
  return { before: name.includes("modern-bert") ? named("[MASK]") : none, after: none };
}

/** The decoded texts of tokenizers such as BERT's have no spaces in front of marks. */
function cleaned(text: string): string {
  return text.replace(/ ([.?!,])/g, "$1").replaceAll(" ' ", "'").replace(
    / (n't|'m|'s|'ve|'re)/g,
    "$1",
  );
}

/** The tokenizer of a file. */
class GgufModel implements Model {
  readonly size: number;
  readonly special: SpecialIds;
  readonly chatTemplate: string | undefined;
  readonly frames: readonly [Frame, Frame];
  readonly #vocabulary: Vocabulary;
  readonly #kind: Kind;
  /** Tokens that are found in texts as they are; all, and those of the user. */
  readonly #all = new Finder();
  readonly #userDefined = new Finder();
  readonly #isHidden: ReadonlyMap<number, boolean>;
  readonly #strips: Strips;

  constructor({ vocabulary, special, isHidden }: Read, kind: Kind) {
    const { fields, tokens } = vocabulary;
    this.size = tokens.length;
    this.special = special;
    this.#vocabulary = vocabulary;
    this.#kind = kind;
    this.#isHidden = isHidden;
    let all = 0;
    for (const [id, hidden] of isHidden) {
      const token = tokens[id]!;
      if (token.length > LONGEST_SPECIAL) {
        fields.fail(
          `the special token ${id} has ${token.length} code units, above ${LONGEST_SPECIAL}`,
        );
      }
      all += token.length;
      if (all > MOST_SPECIAL) {
        fields.fail(`the special tokens have more than ${MOST_SPECIAL} code units`);
      }
      this.#all.add(token, id);
      if (!hidden) this.#userDefined.add(token, id);
    }
    this.#strips = stripsOf(vocabulary, isHidden);
    this.frames = framesOf(fields, kind, special);
    this.chatTemplate = fields.text("tokenizer.chat_template");
  }

  *encode(text: string, special: boolean): Steps<number[]> {
    const ids: number[] = [];
    const { before, after } = this.#strips;
    /** The text that waits for the token after it, and whether the token before it takes its spaces. */
    let held = "", isTaken = false, done = 0;
    for (const part of (special ? this.#all : this.#userDefined).split(text)) {
      if (part === undefined || ++done % STEP === 0) yield;
      if (part === undefined) continue;
      if (typeof part === "string") {
        held = isTaken ? part.replace(/^[\t-\r ]+/, "") : part;
        continue;
      }
      if (before.has(part)) held = held.replace(/(?<![\t-\r ])[\t-\r ]+$/, "");
      if (held !== "") yield* this.#kind.encode(held, ids);
      held = "";
      isTaken = after.has(part);
      ids.push(part);
    }
    if (held !== "") yield* this.#kind.encode(held, ids);
    return ids;
  }

  decode(ids: readonly number[], special: boolean): string {
    const decoder = new BytesDecoder((id, isStart) => this.#piece(id, isStart, special));
    const text = decoder.push(ids) + decoder.flush();
    return this.#kind.isCleaned ? cleaned(text) : text;
  }

  decoder(special: boolean): TokenDecoder {
    return new BytesDecoder((id, isStart) => this.#piece(id, isStart, special));
  }

  tokenText(id: number): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.#bytesOf(id));
  }

  tokenBytes(id: number): Uint8Array | undefined {
    const { fields, types } = this.#vocabulary;
    if (this.#kind.isCleaned === true) {
      fields.fail("the tokens of such a tokenizer add no bytes of their own to a text");
    }
    return this.#isHidden.get(id) === true || types[id] === UNUSED ? undefined : this.#bytesOf(id);
  }

  tokenToId(token: string): number | undefined {
    return this.#vocabulary.ids.get(token);
  }

  idToToken(id: number): string | undefined {
    return this.#vocabulary.tokens[id];
  }

  #bytesOf(id: number): Uint8Array {
    return this.#isHidden.has(id)
      ? bytesOfText(this.#vocabulary.tokens[id]!)
      : this.#kind.bytesOf(id);
  }

  /** The bytes that a token adds to a text, and whether the next one begins a text. */
  #piece(id: number, isStart: boolean, special: boolean): readonly [Uint8Array, boolean] {
    const { isPrefixed } = this.#kind;
    const isHidden = this.#isHidden.get(id);
    if (isHidden === true && !special) return [new Uint8Array(0), isStart];
    const bytes = this.#bytesOf(id);
    const isSpace = isPrefixed && isStart && isHidden === undefined && bytes[0] === 0x20;
    return [isSpace ? bytes.subarray(1) : bytes, isHidden !== undefined];
  }
}

/** Decodes the bytes of tokens as they come. */
class BytesDecoder implements TokenDecoder {
  readonly #piece: (id: number, isStart: boolean) => readonly [Uint8Array, boolean];
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #isStart = true;

  constructor(piece: (id: number, isStart: boolean) => readonly [Uint8Array, boolean]) {
    this.#piece = piece;
  }

  push(ids: number | readonly number[]): string {
    let text = "";
    for (const id of typeof ids === "number" ? [ids] : ids) {
      const [bytes, isStart] = this.#piece(id, this.#isStart);
      this.#isStart = isStart;
      text += this.#decoder.decode(bytes, { stream: true });
    }
    return text;
  }

  flush(): string {
    this.#isStart = true;
    return this.#decoder.decode();
  }
}

/**
 * The tokenizer of metadata; `endTokens` are special tokens, whatever the file says of them.
 *
 * @throws {FormatError} If the metadata has no vocabulary, one of another kind, or a damaged one.
 */
export function* ggufModel(
  metadata: MetadataSource,
  file: string,
  endTokens: readonly number[],
): Steps<Model> {
  const fields: Fields = new Fields((key) => metadata.get(key), file);
  const model = fields.text("tokenizer.ggml.model");
  const make = model !== undefined && Object.hasOwn(KINDS, model) ? KINDS[model] : undefined;
  if (model === undefined || make === undefined) {
    const known = Object.keys(KINDS).map((kind) => JSON.stringify(kind));
    fields.fail(
      `the tokenizer is ${
        model === undefined ? "not named" : JSON.stringify(model.slice(0, 60))
      } ` +
        `(tokenizer.ggml.model): only ${known.slice(0, -1).join(", ")} and ${
          known.at(-1)
        } are read`,
    );
  }
  for (const name of ARRAYS) {
    if (metadata.decode !== undefined) yield* metadata.decode(`tokenizer.ggml.${name}`);
    yield;
  }
  const read = yield* readVocabulary(fields, model, endTokens);
  yield;
  const kind = yield* make(read.vocabulary, fields.text("tokenizer.ggml.pre"));
  yield;
  return new GgufModel(read, kind);
}
