/**
 * BERT's pieces of words ("bert"): the longest token at each place, of lower-case letters without
 * accents unless the file says otherwise.
 *
 * @module
 */
import type { Steps } from "./steps.ts";
import {
  bytesOfText,
  checkToken,
  type Kind,
  NORMAL,
  SPACE,
  STEP,
  type Vocabulary,
} from "./vocabulary.ts";

/** The most characters of a word: longer ones are unknown, as in BERT. */
const LONGEST_WORD = 100;

const WHITE = /^[\t\n\r\p{Z}]$/u;
/** What is left out of texts: controls, and U+FFFD. */
const OMITTED = /^[\p{C}\ufffd]$/u;
/** A word of its own: punctuation, signs of ASCII, characters of Chinese. */
const ALONE =
  /^[\p{P}!-/:-@[-`{-~\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]$/u;
const MARK = /^\p{Mn}$/u;

/** The kind of such a vocabulary. */
export function* wordPieces(vocabulary: Vocabulary): Steps<Kind> {
  const { fields, tokens, types } = vocabulary;
  const unknown = vocabulary.unknown ?? fields.fail("the vocabulary has no token for unknown text");
  const isLower = fields.flag("tokenizer.ggml.normalizer.lowercase") ?? true;
  const isPlain = fields.flag("tokenizer.ggml.normalizer.strip_accents") ?? isLower;
  const used = new Set<number>();
  for (let id = 0; id < tokens.length; id++) {
    if (id % STEP === 0) yield;
    if (types[id] !== NORMAL) continue;
    checkToken(fields, id, tokens[id]!);
    used.add(tokens[id]!.length);
  }
  const lengths = [...used].sort((a, b) => b - a).filter((length) => length > 0);

  function piecesOf(word: string, all: number[]): void {
    const begin = all.length;
    const text = SPACE + word;
    const isLong = word.length > LONGEST_WORD && [...word].length > LONGEST_WORD;
    if (isLong) all.push(unknown);
    for (let at = 0; at < text.length && !isLong;) {
      let id: number | undefined, end = at;
      for (const length of lengths) {
        if (at + length > text.length) continue;
        id = vocabulary.normal(text.slice(at, at + length));
        if (id === undefined) continue;
        end = at + length;
        break;
      }
      if (id === undefined) {
        all.length = begin;
        all.push(unknown);
        return;
      }
      all.push(id);
      at = end;
    }
  }

  return {
    isPrefixed: true,
    isCleaned: true,
    addBos: true,
    addEos: true,
    pairs: "bert",
    *encode(text, all) {
      let word = "", done = 0;
      for (let at = 0; at < text.length;) {
        const code = text.codePointAt(at)!;
        at += code > 0xffff ? 2 : 1;
        if (++done % STEP === 0) yield;
        const char = String.fromCodePoint(code);
        for (const one of isPlain ? char.normalize("NFD") : char) {
          const isSpace = WHITE.test(one);
          if (!isSpace && (code === 0 || OMITTED.test(one) || isPlain && MARK.test(one))) continue;
          const own = isLower ? one.toLowerCase() : one;
          const isAlone = isSpace || ALONE.test(one);
          if (isAlone && word !== "") {
            piecesOf(word, all);
            word = "";
          }
          if (!isAlone) word += own;
          else if (!isSpace) piecesOf(own, all);
        }
      }
      if (word !== "") piecesOf(word, all);
    },
    bytesOf: (id) => bytesOfText(tokens[id]!.replaceAll(SPACE, " ")),
  };
}
