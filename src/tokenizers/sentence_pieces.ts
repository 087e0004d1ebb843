/**
 * SentencePiece's pairs of characters with scores ("llama"): Llama 2, Mistral, Gemma, Phi-3.
 *
 * @module
 */
import { joinPairs, type RankOf } from "./bpe.ts";
import type { Steps } from "./steps.ts";
import {
  bytesOfText,
  byteTokens,
  checkToken,
  type Kind,
  NORMAL,
  SPACE,
  STEP,
  UNUSED,
  type Vocabulary,
} from "./vocabulary.ts";

/** The scores of all tokens. */
export function scoresOf({ fields, tokens }: Vocabulary): readonly number[] {
  const key = "tokenizer.ggml.scores";
  const limits = { least: -3.5e38, most: 3.5e38, length: tokens.length };
  const scores = fields.numbers(key, limits);
  if (scores === undefined) return fields.fail(`the metadata has no ${key}`);
  if (scores.length !== tokens.length) {
    fields.fail(`${key} has ${scores.length} numbers for ${tokens.length} tokens`);
  }
  return scores;
}

/** The kind of such a vocabulary. */
export function* sentencePieces(vocabulary: Vocabulary): Steps<Kind> {
  const { fields, tokens, types, unknown } = vocabulary;
  const scores = scoresOf(vocabulary);
  let longest = 0, read = 0;
  for (const [text, id] of vocabulary.ids) {
    if (read++ % STEP === 0) yield;
    if (types[id] !== NORMAL && types[id] !== UNUSED) continue;
    checkToken(fields, id, text);
    if (text.length > longest) longest = text.length;
  }
  const known = (text: string): number | undefined => {
    const id = vocabulary.ids.get(text);
    return id !== undefined && (types[id] === NORMAL || types[id] === UNUSED) ? id : undefined;
  };
  const rankOf: RankOf = (both) => {
    const id = both.length > longest ? undefined : known(both);
    return id === undefined ? undefined : -scores[id]!;
  };
  const { ids: byteIds, bytes } = yield* byteTokens(vocabulary);
  const isPrefixed = fields.flag("tokenizer.ggml.add_space_prefix") ?? true;
  return {
    isPrefixed,
    addBos: true,
    addEos: false,
    pairs: "each",
    *encode(text, all) {
      const chars = (isPrefixed ? SPACE : "") + text.replaceAll(" ", SPACE);
      let done = 0;
      for (const part of yield* joinPairs(chars, rankOf)) {
        if (++done % STEP === 0) yield;
        const id = known(part);
        if (id !== undefined) all.push(id);
        else {
          for (const byte of bytesOfText(part)) {
            const own = byteIds[byte] ?? unknown;
            if (own !== undefined) all.push(own);
          }
        }
      }
    },
    bytesOf(id) {
      const byte = bytes.get(id);
      if (byte !== undefined) return Uint8Array.of(byte);
      return bytesOfText(tokens[id]!.replaceAll(SPACE, " "));
    },
  };
}
