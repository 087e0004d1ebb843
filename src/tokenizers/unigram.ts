/**
 * SentencePiece's unigrams ("t5"): the tokens of the greatest sum of scores. T5, XLM-RoBERTa.
 *
 * @module
 */
import type { Fields } from "../io/metadata.ts";
import { scoresOf } from "./sentence_pieces.ts";
import type { Steps } from "./steps.ts";
import {
  bytesOfText,
  checkToken,
  type Kind,
  NORMAL,
  SPACE,
  STEP,
  UNUSED,
  USER_DEFINED,
  type Vocabulary,
} from "./vocabulary.ts";

/** How much worse unknown text is than the worst token. */
const UNKNOWN_PENALTY = 10;
/** The longest text that a map of characters replaces, and by which it does, in bytes. */
const LONGEST_REPLACED = 256;
/** The most bytes of a map: that of NFKC has 300,000. */
const MOST_MAP = 16_000_000;

/**
 * The map of characters that SentencePiece compiles: a trie in a double array, whose leaves are places
 * in a list of texts that end with 0.
 */
class CharacterMap {
  readonly #fields: Fields;
  readonly #trie: Uint32Array;
  readonly #texts: Uint8Array;

  constructor(bytes: Uint8Array, fields: Fields) {
    this.#fields = fields;
    const size = bytes.length < 4 ? -1 : new DataView(bytes.buffer).getUint32(0, true);
    if (size < 4 || size % 4 !== 0 || size + 4 >= bytes.length) this.#fail("is truncated");
    this.#trie = new Uint32Array(bytes.slice(4, 4 + size).buffer);
    this.#texts = bytes.subarray(4 + size);
    if (this.#texts.at(-1) !== 0) this.#fail("has a text without an end");
  }

  #fail(what: string): never {
    return this.#fields.fail(`tokenizer.ggml.precompiled_charsmap ${what}`);
  }

  #node(index: number): number {
    return this.#trie[index] ?? this.#fail("leads outside of itself");
  }

  /** How many bytes from `at` on are replaced, and where the replacement begins and ends. */
  find(bytes: Uint8Array, at: number): readonly [count: number, begin: number, end: number] {
    const baseOf = (node: number): number => ((node >>> 10) << ((node & 0x200) >>> 6)) >>> 0;
    let count = 0, begin = 0;
    let index = baseOf(this.#node(0));
    const last = Math.min(bytes.length, at + LONGEST_REPLACED);
    for (let i = at; i < last; i++) {
      const byte = bytes[i]!;
      if (byte === 0) break;
      index = (index ^ byte) >>> 0;
      const node = this.#node(index);
      if (((node & 0x800000ff) >>> 0) !== byte) break;
      index = (index ^ baseOf(node)) >>> 0;
      if ((node & 0x100) !== 0) [count, begin] = [i - at + 1, this.#node(index) & 0x7fffffff];
    }
    if (count === 0) return [0, 0, 0];
    const end = this.#texts.indexOf(0, begin);
    if (end < 0 || end - begin > LONGEST_REPLACED) this.#fail("has a text of no use");
    return [count, begin, end];
  }

  /** The replacement from `begin` to `end`. */
  text(begin: number, end: number): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.#texts.subarray(begin, end));
  }
}

function mapOf(fields: Fields): CharacterMap | undefined {
  const limits = { least: -128, most: 255, length: MOST_MAP };
  const numbers = fields.integers("tokenizer.ggml.precompiled_charsmap", limits);
  if (numbers === undefined || numbers.length === 0) return undefined;
  return new CharacterMap(Uint8Array.from(numbers), fields);
}

/** The kind of such a vocabulary. */
export function* unigram(vocabulary: Vocabulary): Steps<Kind> {
  const { fields, tokens, types } = vocabulary;
  const scores = scoresOf(vocabulary);
  const unknown = vocabulary.unknown ?? fields.fail("the vocabulary has no token for unknown text");
  const map = mapOf(fields);
  const isPrefixed = fields.flag("tokenizer.ggml.add_space_prefix") ?? false;
  const isMerged = fields.flag("tokenizer.ggml.remove_extra_whitespaces") ?? false;
  const texts = new Map<string, number>();
  /** The lengths of tokens by their first code unit, the shortest first. */
  const lengths = new Map<number, number[]>();
  let worst = Infinity;
  for (let id = 0; id < tokens.length; id++) {
    if (id % STEP === 0) yield;
    const type = types[id];
    if (type === NORMAL) worst = Math.min(worst, scores[id]!);
    if (type !== NORMAL && type !== USER_DEFINED && type !== UNUSED) continue;
    const token = tokens[id]!;
    if (token === "") continue;
    checkToken(fields, id, token);
    texts.set(token, id);
    const first = token.charCodeAt(0);
    const own = lengths.get(first);
    if (own === undefined) lengths.set(first, [token.length]);
    else if (!own.includes(token.length)) own.push(token.length);
  }
  for (const own of lengths.values()) own.sort((a, b) => a - b);
  if (worst === Infinity) fields.fail("the vocabulary has no token that texts are made of");

  /** The text as the model was trained with it. */
  function* normalize(text: string): Steps<string> {
    const parts: string[] = [];
    let isWord = false, isStart = true;
    const add = (part: string): void => {
      for (const char of part) {
        if (char === " ") {
          isWord = false;
          if (!isMerged) parts.push(SPACE);
          continue;
        }
        if (!isWord) {
          isWord = true;
          if (isPrefixed && isStart || isMerged) {
            parts.push(SPACE);
            isStart = false;
          }
        }
        parts.push(char);
      }
    };
    const bytes = map === undefined ? undefined : bytesOfText(text);
    let at = 0, done = 0;
    for (let unit = 0; unit < text.length;) {
      const char = String.fromCodePoint(text.codePointAt(unit)!);
      if (++done % STEP === 0) yield;
      const [count, begin, end] = bytes === undefined ? [0, 0, 0] : map!.find(bytes, at);
      if (count > 0) add(map!.text(begin, end));
      else add(char.isWellFormed() ? char : "\ufffd");
      const stop = at + Math.max(count, 1);
      while (unit < text.length && at < stop) {
        const code = text.codePointAt(unit)!;
        unit += code > 0xffff ? 2 : 1;
        at += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
      }
    }
    return parts.join("");
  }

  return {
    isPrefixed: isPrefixed || isMerged,
    addBos: false,
    addEos: true,
    pairs: "each",
    *encode(text, all) {
      const normal = yield* normalize(text);
      const count = normal.length;
      const best = new Float64Array(count + 1).fill(-Infinity);
      const from = new Int32Array(count + 1), by = new Int32Array(count + 1);
      best[0] = 0;
      for (let at = 0, done = 0; at < count; done++) {
        if (done % STEP === STEP - 1) yield;
        const width = normal.codePointAt(at)! > 0xffff ? 2 : 1;
        let isKnown = false;
        const put = (id: number, length: number, score: number): void => {
          const sum = best[at]! + score;
          if (sum <= best[at + length]!) return;
          best[at + length] = sum;
          from[at + length] = at;
          by[at + length] = id;
        };
        for (const length of lengths.get(normal.charCodeAt(at)) ?? []) {
          if (at + length > count) break;
          const id = texts.get(normal.slice(at, at + length));
          if (id === undefined) continue;
          if (length === width) isKnown = true;
          put(id, length, types[id] === USER_DEFINED ? 0 : scores[id]!);
        }
        if (!isKnown) put(unknown, width, worst - UNKNOWN_PENALTY);
        at += width;
      }
      const ids: number[] = [];
      for (let at = count, done = 1; at > 0; at = from[at]!, done++) {
        if (done % STEP === 0) yield;
        // Unknown text is one token.
        if (by[at] !== unknown || ids.at(-1) !== unknown) ids.push(by[at]!);
      }
      for (let i = ids.length - 1; i >= 0; i--) all.push(ids[i]!);
    },
    bytesOf: (id) => bytesOfText(tokens[id]!.replaceAll(SPACE, " ")),
  };
}
