/**
 * A small WordPiece tokenizer: the words "w0", "w1", … have the ids from 5 on.
 *
 * @module
 */

const SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/** The values of tokenizer.json and tokenizer_config.json, with `size` ids. */
export function tinyTokenizer(size: number) {
  const words = Array.from({ length: size - SPECIAL.length }, (_, i) => `w${i}`);
  const vocab = Object.fromEntries([...SPECIAL, ...words].map((word, id) => [word, id]));
  const tokenizer = {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: SPECIAL.map((content, id) => ({
      ...{ id, content, single_word: false, lstrip: false, rstrip: false },
      ...{ normalized: false, special: true },
    })),
    normalizer: { type: "BertNormalizer", lowercase: true },
    pre_tokenizer: { type: "BertPreTokenizer" },
    post_processor: {
      type: "TemplateProcessing",
      single: [
        { SpecialToken: { id: "[CLS]", type_id: 0 } },
        { Sequence: { id: "A", type_id: 0 } },
        { SpecialToken: { id: "[SEP]", type_id: 0 } },
      ],
      pair: [
        { SpecialToken: { id: "[CLS]", type_id: 0 } },
        { Sequence: { id: "A", type_id: 0 } },
        { SpecialToken: { id: "[SEP]", type_id: 0 } },
        { Sequence: { id: "B", type_id: 1 } },
        { SpecialToken: { id: "[SEP]", type_id: 1 } },
      ],
      special_tokens: Object.fromEntries(["[CLS]", "[SEP]"].map((id) => [
        id,
        { id, ids: [SPECIAL.indexOf(id)], tokens: [id] },
      ])),
    },
    decoder: { type: "WordPiece", prefix: "##", cleanup: true },
    model: {
      type: "WordPiece",
      unk_token: "[UNK]",
      continuing_subword_prefix: "##",
      max_input_chars_per_word: 100,
      vocab,
    },
  };
  const config = {
    ...{ cls_token: "[CLS]", sep_token: "[SEP]", pad_token: "[PAD]", unk_token: "[UNK]" },
    ...{ mask_token: "[MASK]", tokenizer_class: "BertTokenizer" },
  };
  return { tokenizer, config };
}

/** The text of words. */
export function wordsOf(ids: readonly number[]): string {
  return ids.map((id) => `w${id - SPECIAL.length}`).join(" ");
}
