/**
 * Texts and tokens as clients send them: one text, its tokens, or a list of either.
 *
 * @module
 */
import type { Field } from "./fields.ts";

/** The most tokens of a list. */
const MOST_TOKENS = 1_000_000;

/** The tokens of a list. */
function tokensOf(field: Field, vocabulary: number): readonly number[] {
  const { value } = field;
  const list: readonly unknown[] = Array.isArray(value) ? value : field.fail("a list of tokens");
  if (list.length === 0) field.fail("a list of at least one token");
  if (list.length > MOST_TOKENS) field.fail(`a list of at most ${MOST_TOKENS} tokens`);
  return list.map((id) => {
    if (Number.isInteger(id) && Number(id) >= 0 && Number(id) < vocabulary) return Number(id);
    return field.fail(`a list of tokens from 0 to ${vocabulary - 1}`);
  });
}

/** A text or the tokens of one. */
export type TextOrTokens =
  & { readonly place: string }
  & (
    | { readonly text: string }
    | { readonly ids: readonly number[] }
  );

/** What a field has: a text, tokens, or up to `most` of either. */
export function textsOf(field: Field, most: number, vocabulary: number): readonly TextOrTokens[] {
  const { value, place } = field;
  if (typeof value === "string") return [{ text: value, place }];
  if (!Array.isArray(value)) return field.fail("a text, a list of texts, or tokens");
  if (typeof value[0] === "number") return [{ ids: tokensOf(field, vocabulary), place }];
  return field.list(most, 1)!.map((one): TextOrTokens =>
    typeof one.value === "string"
      ? { text: one.value, place: one.place }
      : { ids: tokensOf(one, vocabulary), place: one.place }
  );
}
