/**
 * Probabilities of tokens as OpenAI's answers have them.
 *
 * @module
 */
import { attempt } from "../../base/errors.ts";
import type { GeneratedToken } from "../../llm/engine.ts";
import type { Tokenizer } from "../../tokenizers/mod.ts";

/** A token of an answer, with its probability. */
export interface TokenEntry {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[] | null;
}

/** The least logarithm: JSON has no infinity. */
const LEAST = -9999;

/** The text of a token alone; none for ids without one. */
export function tokenText(tokenizer: Tokenizer, id: number): string {
  return attempt(() => tokenizer.tokenText(id)).value ?? "";
}

/** The logarithm of a probability, as a number of JSON. */
export function finite(logprob: number | undefined): number {
  return Math.max(logprob ?? LEAST, LEAST);
}

function entryOf(tokenizer: Tokenizer, id: number, logprob: number | undefined): TokenEntry {
  const bytes = attempt(() => tokenizer.tokenBytes(id)).value;
  return {
    token: tokenText(tokenizer, id),
    logprob: finite(logprob),
    bytes: bytes === undefined ? null : [...bytes],
  };
}

/** The entries of tokens in the answers of chats. */
export function chatLogprobs(tokenizer: Tokenizer, tokens: readonly GeneratedToken[]) {
  return tokens.flatMap(({ id, logprob, top }) =>
    id === undefined ? [] : [{
      ...entryOf(tokenizer, id, logprob),
      top_logprobs: top.map((one) => entryOf(tokenizer, one.id, one.logprob)),
    }]
  );
}
