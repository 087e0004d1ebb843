/**
 * Byte pair encoding of bytes, as in GPT-2 ("gpt2"), or of characters, as in Gemma 4 ("gemma4").
 *
 * @module
 */
import { joinPairs, type RankOf } from "./bpe.ts";
import { type Cut, CUTS, patternsOf, wordsOf } from "./pre_tokenizers.ts";
import { finish, type Steps } from "./steps.ts";
import { bytesOfText, byteTokens, type Kind, SPACE, STEP, type Vocabulary } from "./vocabulary.ts";

/** The most words whose ids are kept, and the longest of them. */
const MOST_WORDS = 10_000, LONGEST_WORD = 64;

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
const BYTES: ReadonlyMap<string, number> = new Map(CHARS.map((char, byte) => [char, byte]));

/** The cut that a file names. */
function cutOf({ fields }: Vocabulary, name: string): Cut {
  const cut = CUTS.find(({ names }) => names.includes(name));
  if (cut !== undefined) return cut;
  const known = CUTS.flatMap(({ names }) => names);
  return fields.fail(
    `tokenizer.ggml.pre is ${JSON.stringify(name.slice(0, 60))}, and how that cuts words is not ` +
      `known: only ${known.slice(0, -1).join(", ")} and ${known.at(-1)}`,
  );
}

function* ranksOf({ fields }: Vocabulary): Steps<RankOf> {
  const merges = fields.texts("tokenizer.ggml.merges") ??
    fields.fail("the metadata has no tokenizer.ggml.merges");
  const ranks = new Map<string, number>();
  /** The ranks of texts that several pairs make, by the length of the left one. */
  const more = new Map<string, Map<number, number>>();
  const lefts = new Int32Array(merges.length);
  for (let i = 0; i < merges.length; i++) {
    if (i % STEP === 0) yield;
    const merge = merges[i]!;
    const left = merge.indexOf(" ", 1);
    if (left < 0) continue;
    lefts[i] = left;
    const both = merge.slice(0, left) + merge.slice(left + 1);
    const first = ranks.get(both);
    if (first === undefined) {
      ranks.set(both, i);
      continue;
    }
    let own = more.get(both);
    if (own === undefined) more.set(both, own = new Map([[lefts[first]!, first]]));
    if (!own.has(left)) own.set(left, i);
  }
  return (both, left) => {
    const rank = ranks.get(both);
    if (rank === undefined || lefts[rank] === left) return rank;
    return more.get(both)?.get(left);
  };
}

/** Cuts a text into words and encodes them; the ids of short words are kept. */
function* encodeWords(
  text: string,
  patterns: readonly RegExp[],
  words: Map<string, readonly number[]>,
  idsOf: (word: string) => Steps<readonly number[]>,
  all: number[],
): Steps<void> {
  let done = 0;
  for (const word of wordsOf(text, patterns)) {
    if (word.length > LONGEST_WORD) {
      for (const id of yield* idsOf(word)) all.push(id);
    } else {
      let made = words.get(word);
      if (made === undefined) {
        if (words.size === MOST_WORDS) words.clear();
        words.set(word, made = finish(idsOf(word)));
      }
      for (const id of made) all.push(id);
    }
    done += word.length;
    if (done < STEP) continue;
    done = 0;
    yield;
  }
}

/** The bytes of a token of such a vocabulary, whose characters stand for bytes. */
export function bytesOfChars(token: string): Uint8Array {
  return Uint8Array.from([...token].flatMap((char) => BYTES.get(char) ?? [...bytesOfText(char)]));
}

/** Pairs of bytes. */
function* ofBytes(vocabulary: Vocabulary, cut: Cut): Steps<Kind> {
  const { tokens, fields } = vocabulary;
  const rankOf = yield* ranksOf(vocabulary);
  const patterns = patternsOf(cut);
  function* idsOf(word: string): Steps<readonly number[]> {
    let chars = "";
    for (let at = 0; at < word.length;) {
      // No cut within a surrogate pair, whose halves have other bytes.
      const end = at + STEP + ((word.charCodeAt(at + STEP - 1) & 0xfc00) === 0xd800 ? 1 : 0);
      for (const byte of bytesOfText(word.slice(at, end))) chars += CHARS[byte]!;
      at = end;
      if (at < word.length) yield;
    }
    const whole = cut.isWhole === true ? vocabulary.normal(chars) : undefined;
    if (whole !== undefined) return [whole];
    const ids: number[] = [];
    let done = 0;
    // Bytes without a token are left out, as in other tokenizers.
    for (const part of yield* joinPairs(chars, rankOf)) {
      if (++done % STEP === 0) yield;
      const own = vocabulary.normal(part);
      const found = own === undefined ? [...part].map((char) => vocabulary.normal(char)) : [own];
      for (const id of found) if (id !== undefined) ids.push(id);
    }
    return ids;
  }
  const words = new Map<string, readonly number[]>();
  return {
    isPrefixed: false,
    addBos: cut.addBos ?? false,
    addEos: false,
    pairs: fields.flag("tokenizer.ggml.add_sep_token") ?? cut.addSep ?? false ? "roberta" : "each",
    encode: (text, ids) => encodeWords(text, patterns, words, idsOf, ids),
    bytesOf: (id) => bytesOfChars(tokens[id]!),
  };
}

/** Pairs of characters. */
function* ofCharacters(vocabulary: Vocabulary, cut: Cut): Steps<Kind> {
  const { tokens } = vocabulary;
  const rankOf = yield* ranksOf(vocabulary);
  const patterns = patternsOf(cut);
  const { ids: byteIds, bytes } = yield* byteTokens(vocabulary);
  function* idsOf(word: string): Steps<readonly number[]> {
    const whole = word[0] === "\n" ? vocabulary.normal(word) : undefined;
    if (whole !== undefined) return [whole];
    const ids: number[] = [];
    let done = 0;
    for (const part of yield* joinPairs(word, rankOf)) {
      if (++done % STEP === 0) yield;
      const own = vocabulary.normal(part);
      const found = own === undefined
        ? Array.from(bytesOfText(part), (byte) => byteIds[byte])
        : [own];
      for (const id of found) if (id !== undefined) ids.push(id);
    }
    return ids;
  }
  const words = new Map<string, readonly number[]>();
  return {
    isPrefixed: false,
    addBos: cut.addBos ?? false,
    addEos: false,
    pairs: "each",
    encode: (text, ids) => encodeWords(text.replaceAll(" ", SPACE), patterns, words, idsOf, ids),
    bytesOf(id) {
      const byte = bytes.get(id);
      if (byte !== undefined) return Uint8Array.of(byte);
      return bytesOfText(tokens[id]!.replaceAll(SPACE, " "));
    },
  };
}

/** The kind of a vocabulary of pairs; `pre` is the name of its cut. */
export function bytePairs(vocabulary: Vocabulary, pre: string): Steps<Kind> {
  const cut = cutOf(vocabulary, pre);
  return cut.isOfCharacters === true ? ofCharacters(vocabulary, cut) : ofBytes(vocabulary, cut);
}
