/**
 * The tokens that end an answer. Files name one of them, by its id; models write others too, which
 * have the same names in all vocabularies.
 *
 * @module
 */

/** The names of tokens that end an answer or a turn, as llama.cpp has them. */
const NAMES: ReadonlySet<unknown> = new Set([
  ...["<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>"],
  ...["<end_of_turn>", "<end_of_utterance>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>"],
  ...["<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<｜end▁of▁sentence｜>"],
]);

/** A token of a vocabulary. */
export type NamedToken = readonly [id: unknown, name: unknown];

/**
 * The tokens that end a text: those of `ids` and the ones of `tokens` with such a name, without those
 * that a vocabulary of `count` tokens does not have. Files that lack a token have −1 for its id.
 */
export function endTokensOf(
  ids: readonly unknown[],
  tokens: Iterable<NamedToken>,
  count: number,
): readonly number[] {
  const ends = new Set<number>();
  const add = (id: unknown): void => {
    if (Number.isInteger(id) && id as number >= 0 && id as number < count) ends.add(id as number);
  };
  for (const id of ids) add(id);
  for (const [id, name] of tokens) if (NAMES.has(name)) add(id);
  return [...ends];
}
