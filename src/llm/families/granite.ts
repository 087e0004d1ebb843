/**
 * Granite: Llama's layers, with factors of embeddings, scores, sums and logits.
 *
 * @module
 */
import { selfAttention } from "../blocks/attention.ts";
import { gatedMlp } from "../blocks/mlp.ts";
import type { MakeBlock } from "../blocks/step.ts";
import type { ModelConfig } from "../config/config.ts";
import type { Reader } from "../config/reader.ts";
import { type Family, GGUF, SILU, TRANSFORMERS } from "./family.ts";

const block: MakeBlock = (w, model, place) => {
  const { names, norm, sizes: { hidden }, config: { residualScale = 1 } } = model;
  const attend = selfAttention(w, model, place);
  const feed = gatedMlp(w, model);
  const first = w.rmsNorm(names.attentionNorm, hidden, norm);
  const second = w.rmsNorm(names.mlpNorm, hidden, norm);
  return (x, memory) => {
    const y = x.add(attend(first(x), memory).mul(residualScale));
    return y.add(feed(second(y), memory).mul(residualScale));
  };
};

/** The names of the factors of embeddings, scores, sums, and of the divisor of logits. */
type FactorNames = readonly [embedding: string, scores: string, sums: string, logits: string];

/** A factor; undefined if the file lacks it. */
function factorOf(fields: Reader, key: string): number | undefined {
  const value = fields.optional(key);
  // GGUF files have 0 for a factor that is off.
  return value === 0 ? undefined : value;
}

function readFactors(fields: Reader, names: FactorNames): Partial<ModelConfig> {
  const [embeddingScale, attentionScale, residualScale, logits] = names.map((name) =>
    factorOf(fields, name)
  );
  return {
    ...{ embeddingScale, attentionScale, residualScale },
    logitScale: logits === undefined ? undefined : 1 / logits,
  };
}

const GGUF_FACTORS = [
  "embedding_scale",
  "attention.scale",
  "residual_scale",
  "logit_scale",
] as const;
const JSON_FACTORS: FactorNames = [
  ...["embedding_multiplier", "attention_multiplier"] as const,
  ...["residual_multiplier", "logits_scaling"] as const,
];

export const granite: Family = {
  name: "Granite",
  features: "Granite 3: factors of embeddings, scores, sums and logits",
  gguf: {
    ...GGUF,
    architectures: ["granite"],
    interleaved: true,
    read: (fields) => {
      // llama.cpp takes it for a switch of positions.
      fields.refuse("rope.scaling.finetuned", true);
      return readFactors(fields, GGUF_FACTORS);
    },
  },
  transformers: {
    ...TRANSFORMERS,
    types: ["granite"],
    read: (fields) => {
      const factors = readFactors(fields, JSON_FACTORS);
      return { ...factors, attentionScale: factors.attentionScale ?? 1 };
    },
  },
  activations: SILU,
  block,
};
