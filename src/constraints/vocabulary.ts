/**
 * The bytes of the tokens of a tokenizer, and masks of tokens.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { Pauses, type Steps } from "../tokenizers/steps.ts";
import type { Tokenizer } from "../tokenizers/tokenizer.ts";

/** What constraints need of a tokenizer. */
export type TokenBytes = Pick<Tokenizer, "size" | "tokenBytes">;

/** The bytes of each token; undefined for those that are in no constrained text. */
export type Vocabulary = readonly (Uint8Array | undefined)[];

/** The tokens between two pauses. */
const STEP = 1000;

function* read(tokenizer: TokenBytes): Steps<Vocabulary> {
  const all: (Uint8Array | undefined)[] = [];
  for (let id = 0; id < tokenizer.size; id++) {
    if (id % STEP === 0) yield;
    const bytes = tokenizer.tokenBytes(id);
    all.push(bytes?.length === 0 ? undefined : bytes);
  }
  return all;
}

const known = new WeakMap<TokenBytes, Promise<Vocabulary>>();

/** The bytes of the tokens of a tokenizer, which are read once. */
export function vocabularyOf(op: string, tokenizer: TokenBytes): Promise<Vocabulary> {
  if (typeof tokenizer?.tokenBytes !== "function" || !Number.isInteger(tokenizer.size)) {
    throw new ArgumentError(
      `Cannot ${op} with the tokenizer ${describe(tokenizer)}: it is one of tokenizers.open`,
    );
  }
  let vocabulary = known.get(tokenizer);
  if (vocabulary === undefined) {
    vocabulary = new Pauses(undefined).finish(read(tokenizer));
    known.set(tokenizer, vocabulary);
    vocabulary.catch(() => known.delete(tokenizer));
  }
  return vocabulary;
}

/** Whether a mask allows a token. */
export function allows(mask: Int32Array, id: number): boolean {
  return (mask[id >> 5]! >>> (id & 31) & 1) === 1;
}

/** Lets a mask allow a token, or forbid it; others than those of the mask are ignored. */
export function setAllowed(mask: Int32Array, id: number, isAllowed: boolean): void {
  if (!(id >= 0 && id >> 5 < mask.length)) return;
  if (isAllowed) mask[id >> 5]! |= 1 << (id & 31);
  else mask[id >> 5]! &= ~(1 << (id & 31));
}
