/**
 * A small BERT-style model with random weights, as a folder.
 *
 * @module
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type AnyTensor, io, ones, random } from "../../mod.ts";

const WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "dog", "sat", "##s", "the", "."];

/** The sizes of the model. */
const CONFIG = {
  model_type: "bert",
  vocab_size: WORDS.length,
  hidden_size: 24,
  num_hidden_layers: 2,
  num_attention_heads: 3,
  intermediate_size: 40,
  max_position_embeddings: 20,
  type_vocab_size: 2,
  layer_norm_eps: 1e-12,
  hidden_act: "gelu",
};

/** Writes the model to `folder`. */
export async function writeModel(folder: string): Promise<void> {
  const { hidden_size: d, intermediate_size: wide } = CONFIG;
  let seed = 1;
  const normal = (...shape: number[]): AnyTensor =>
    random.normal(random.key(seed++), shape).mul(0.3);
  const tensors: Record<string, AnyTensor> = {
    "embeddings.word_embeddings.weight": normal(CONFIG.vocab_size, d),
    "embeddings.position_embeddings.weight": normal(CONFIG.max_position_embeddings, d),
    "embeddings.token_type_embeddings.weight": normal(2, d),
    "embeddings.LayerNorm.weight": ones([d]),
    "embeddings.LayerNorm.bias": normal(d),
    "pooler.dense.weight": normal(d, d),
    "pooler.dense.bias": normal(d),
  };
  for (let i = 0; i < CONFIG.num_hidden_layers; i++) {
    const at = `encoder.layer.${i}`;
    const linear = (name: string, outputs: number, inputs: number): void => {
      tensors[`${at}.${name}.weight`] = normal(outputs, inputs);
      tensors[`${at}.${name}.bias`] = normal(outputs);
    };
    for (const part of ["query", "key", "value"]) linear(`attention.self.${part}`, d, d);
    linear("attention.output.dense", d, d);
    linear("intermediate.dense", wide, d);
    linear("output.dense", d, wide);
    for (const name of ["attention.output.LayerNorm", "output.LayerNorm"]) {
      tensors[`${at}.${name}.weight`] = ones([d]);
      tensors[`${at}.${name}.bias`] = normal(d);
    }
  }
  mkdirSync(folder, { recursive: true });
  await io.writeSafetensors(join(folder, "model.safetensors"), tensors);
  const write = (name: string, value: unknown): void =>
    writeFileSync(join(folder, name), JSON.stringify(value));
  const special = (content: string) => ({
    id: WORDS.indexOf(content),
    content,
    ...{ single_word: false, lstrip: false, rstrip: false, normalized: false, special: true },
  });
  write("config.json", CONFIG);
  write("tokenizer_config.json", { tokenizer_class: "BertTokenizer", model_max_length: 20 });
  write("tokenizer.json", {
    version: "1.0",
    added_tokens: WORDS.slice(0, 4).map(special),
    normalizer: {
      type: "BertNormalizer",
      clean_text: true,
      handle_chinese_chars: true,
      lowercase: true,
    },
    pre_tokenizer: { type: "BertPreTokenizer" },
    post_processor: {
      type: "TemplateProcessing",
      single: [
        { SpecialToken: { id: "[CLS]", type_id: 0 } },
        { Sequence: { id: "A", type_id: 0 } },
        { SpecialToken: { id: "[SEP]", type_id: 0 } },
      ],
      pair: [],
      special_tokens: {
        "[CLS]": { id: "[CLS]", ids: [2], tokens: ["[CLS]"] },
        "[SEP]": { id: "[SEP]", ids: [3], tokens: ["[SEP]"] },
      },
    },
    decoder: { type: "WordPiece", prefix: "##", cleanup: true },
    model: {
      type: "WordPiece",
      unk_token: "[UNK]",
      continuing_subword_prefix: "##",
      max_input_chars_per_word: 100,
      vocab: Object.fromEntries(WORDS.map((word, id) => [word, id])),
    },
  });
}
