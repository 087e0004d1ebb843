/**
 * The tokens of a GGUF file, and what differs between kinds of vocabularies.
 *
 * @module
 */
import type { Fields } from "../io/metadata.ts";
import type { Steps } from "./steps.ts";

/** Types of tokens in GGUF files. */
export const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6;

/** The characters between two pauses. */
export const STEP = 2000;

/** The longest token that texts are made of, of kinds that compare texts with tokens, in code units. */
const LONGEST = 128;

/** Throws for a token that is too long: the time of a text grows with the longest. */
export function checkToken(fields: Fields, id: number, token: string): void {
  if (token.length <= LONGEST) return;
  fields.fail(`token ${id} has ${token.length} code units, above ${LONGEST}`);
}

/** The tokens of a file. */
export interface Vocabulary {
  readonly fields: Fields;
  readonly tokens: readonly string[];
  readonly types: readonly number[];
  /** The ids of all tokens. */
  readonly ids: ReadonlyMap<string, number>;
  /** The id of the token for unknown text. */
  readonly unknown: number | undefined;
  /** The id of a token that texts are made of; undefined for others and for special ones. */
  normal(token: string): number | undefined;
}

/** How one kind of vocabulary encodes texts. */
export interface Kind {
  /** Appends the ids of a text without special tokens. */
  encode(text: string, ids: number[]): Steps<void>;
  /** The bytes of a token that texts are made of. */
  bytesOf(id: number): Uint8Array;
  /** Whether texts get a space in front, which is left out again. */
  readonly isPrefixed: boolean;
  /** Whether spaces in front of marks are left out of decoded texts. */
  readonly isCleaned?: boolean;
  /** Whether texts begin with BOS and end with EOS, unless the file says otherwise. */
  readonly addBos: boolean;
  readonly addEos: boolean;
  /** The tokens around pairs: as in BERT, as in RoBERTa, or around each text. */
  readonly pairs: "bert" | "roberta" | "each";
}

/** SentencePiece's space. */
export const SPACE = "\u2581";

const encoder = new TextEncoder();

/** The bytes of a text in UTF-8. */
export function bytesOfText(text: string): Uint8Array {
  return encoder.encode(text);
}

/** The bytes that tokens such as `<0x0A>` stand for, both ways. */
export function* byteTokens({ tokens, types }: Vocabulary): Steps<{
  readonly ids: readonly (number | undefined)[];
  readonly bytes: ReadonlyMap<number, number>;
}> {
  const ids: (number | undefined)[] = [];
  const bytes = new Map<number, number>();
  for (let id = 0; id < tokens.length; id++) {
    if (id % STEP === 0) yield;
    if (types[id] !== BYTE && types[id] !== NORMAL) continue;
    const [, hex] = /^<0x([0-9A-F]{2})>$/.exec(tokens[id]!) ?? [];
    if (hex === undefined) continue;
    const byte = Number.parseInt(hex, 16);
    ids[byte] ??= id;
    bytes.set(id, byte);
  }
  return { ids, bytes };
}
