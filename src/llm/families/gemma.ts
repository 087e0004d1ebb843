/**
 * Gemma 2 and 3: norms before and after both parts, and windows in most layers.
 *
 * @module
 */
import { selfAttention } from "../blocks/attention.ts";
import { gatedMlp, geluTanh } from "../blocks/mlp.ts";
import { GGUF_NAMES, TRANSFORMERS_NAMES } from "../blocks/names.ts";
import type { MakeBlock } from "../blocks/step.ts";
import type { ModelConfig } from "../config/config.ts";
import type { Reader } from "../config/reader.ts";
import { type Family, GELU_TANH } from "./family.ts";

/** A layer: x + norm(attention(norm(x))), and the same with the feed-forward part. */
const block: MakeBlock = (w, model, place) => {
  const { names, norm, sizes: { hidden } } = model;
  const attend = selfAttention(w, model, place);
  const feed = gatedMlp(w, model, { activation: geluTanh });
  const before = w.rmsNorm(names.attentionNorm, hidden, norm);
  const after = w.rmsNorm(names.attentionPostNorm, hidden, norm);
  const beforeFeed = w.rmsNorm(names.mlpNorm, hidden, norm);
  const afterFeed = w.rmsNorm(names.mlpPostNorm, hidden, norm);
  return (x, memory) => {
    const y = x.add(after(attend(before(x), memory)));
    return y.add(afterFeed(feed(beforeFeed(y), memory)));
  };
};

/** Names in safetensors, whose norms have factors less 1. */
const transformers = {
  names: { ...TRANSFORMERS_NAMES, mlpNorm: "pre_feedforward_layernorm" },
  normOffset: 1,
} as const;

/** The limit of scores or logits in a field; undefined if it is off. */
function limit(fields: Reader, key: string): number | undefined {
  const value = fields.real(key, 0);
  if (value < 0) fields.reject(key, "a number of at least 0");
  return value === 0 ? undefined : value;
}

/** The limits of scores and of logits, by the same keys in both formats. */
function limits(fields: Reader): Partial<ModelConfig> {
  return {
    attentionSoftCap: limit(fields, "attn_logit_softcapping"),
    logitSoftCap: limit(fields, "final_logit_softcapping"),
  };
}

/**
 * Those of a GGUF file. It lacks the scale, which is another one in the model of 27 billion parameters:
 * llama.cpp knows that by the number of layers.
 */
function readGguf(fields: Reader, config: ModelConfig, layersOf27B: number): Partial<ModelConfig> {
  const { hidden, heads, headDimensions, layers } = config;
  const columns = layers === layersOf27B ? Math.trunc(hidden / heads) : headDimensions;
  const softCaps = limits(fields);
  return { ...softCaps, embeddingScale: Math.sqrt(hidden), attentionScale: 1 / Math.sqrt(columns) };
}

function readJson(fields: Reader, { hidden, headDimensions }: ModelConfig): Partial<ModelConfig> {
  const columns = fields.real("query_pre_attn_scalar", headDimensions);
  if (!(columns > 0)) fields.reject("query_pre_attn_scalar", "a number greater than 0");
  fields.refuse("use_bidirectional_attention", false);
  const softCaps = limits(fields);
  return { ...softCaps, embeddingScale: Math.sqrt(hidden), attentionScale: 1 / Math.sqrt(columns) };
}

/** The base of positions in windows, if a file lacks it. */
const LOCAL_BASE = 10000;

export const gemma2: Family = {
  name: "Gemma 2",
  features: "limits of scores and logits, a window in every second layer",
  gguf: {
    architectures: ["gemma2"],
    names: GGUF_NAMES,
    window: 4096,
    read: (fields, config) => readGguf(fields, config, 46),
  },
  transformers: { ...transformers, types: ["gemma2"], read: readJson },
  activations: GELU_TANH,
  windowPeriod: 2,
  block,
};

export const gemma3: Family = {
  name: "Gemma 3",
  features: "text only: a window in five of six layers, with positions of their own; norms of " +
    "queries and keys",
  gguf: {
    architectures: ["gemma3"],
    names: GGUF_NAMES,
    read: (fields, config) => {
      const base = fields.real("rope.freq_base_swa", LOCAL_BASE);
      const slidingRope = { ...config.rope, base, scaling: undefined };
      const own = readGguf(fields, config, 62);
      return config.slidingWindow === undefined ? own : { ...own, slidingRope };
    },
  },
  transformers: {
    ...transformers,
    types: ["gemma3_text"],
    read: (fields, config) => {
      const own = readJson(fields, config);
      const base = LOCAL_BASE;
      const { slidingRope = { ...config.rope, base, scaling: undefined } } = config;
      return config.slidingWindow === undefined
        ? { ...own, slidingRope: undefined }
        : { ...own, slidingRope };
    },
  },
  activations: GELU_TANH,
  windowPeriod: 6,
  block,
};
