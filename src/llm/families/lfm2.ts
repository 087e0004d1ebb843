/**
 * LFM2: short convolutions in most layers, and attention in the others.
 *
 * @module
 */
import { selfAttention } from "../blocks/attention.ts";
import { shortConvolution } from "../blocks/convolution.ts";
import { gatedMlp } from "../blocks/mlp.ts";
import { GGUF_NAMES, TRANSFORMERS_NAMES } from "../blocks/names.ts";
import type { MakeBlock } from "../blocks/step.ts";
import type { LayerKind, ModelConfig } from "../config/config.ts";
import { MOST, type Reader } from "../config/reader.ts";
import { type Family, SILU } from "./family.ts";

const block: MakeBlock = (w, model, place) => {
  const { names, norm, sizes: { hidden } } = model;
  const mix = place.kind === "convolution"
    ? shortConvolution(w, model, place)
    : selfAttention(w, model, place);
  const feed = gatedMlp(w, model);
  const first = w.rmsNorm(names.attentionNorm, hidden, norm);
  const second = w.rmsNorm(names.mlpNorm, hidden, norm);
  return (x, memory) => {
    const y = mix(first(x), memory, x);
    return feed(second(y), memory, y);
  };
};

/** The tokens of a convolution: few, as each is a pass over the states. */
const LENGTHS = { least: 2, most: 64 } as const;

/** The inner size, of which a config.json may have one that is adjusted. */
function innerSize(fields: Reader, { layers, intermediate }: ModelConfig): number {
  const given = fields.layerSize("block_ff_dim", MOST.intermediate, layers, intermediate);
  if (fields.flag("block_auto_adjust_ff_dim") === false) return given;
  const factor = fields.real("block_ffn_dim_multiplier", 1);
  const multiple = fields.size("block_multiple_of", MOST.intermediate, 256);
  const inner = Math.trunc(factor * Math.trunc(2 * given / 3));
  const whole = multiple * Math.ceil(inner / multiple);
  if (whole >= 1 && whole <= MOST.intermediate) return whole;
  return fields.reject("block_ffn_dim_multiplier", `a factor of ${given} that gives a size`);
}

/** The kinds of layers of older files, which list those with attention. */
function olderKinds(fields: Reader, { layers, layerKinds }: ModelConfig): Partial<ModelConfig> {
  const list = fields.integers("full_attn_idxs", { most: layers, length: layers });
  if (fields.has("layer_types") || list === undefined) return { layerKinds };
  const full = new Set(list);
  return {
    layerKinds: Array.from(
      { length: layers },
      (_, i): LayerKind => full.has(i) ? "full" : "convolution",
    ),
  };
}

export const lfm2: Family = {
  name: "LFM2",
  features: "short convolutions in most layers",
  gguf: {
    names: { ...GGUF_NAMES, norm: "token_embd_norm" },
    architectures: ["lfm2"],
    read: (fields) => ({ convolution: fields.integer("shortconv.l_cache", LENGTHS) }),
  },
  transformers: {
    names: {
      ...TRANSFORMERS_NAMES,
      norm: "model.embedding_norm",
      attentionNorm: "operator_norm",
      mlpNorm: "ffn_norm",
      qNorm: "self_attn.q_layernorm",
      kNorm: "self_attn.k_layernorm",
      attentionOutput: "self_attn.out_proj",
      gate: "feed_forward.w1",
      up: "feed_forward.w3",
      down: "feed_forward.w2",
    },
    types: ["lfm2"],
    read: (fields, config) => ({
      ...olderKinds(fields, config),
      intermediate: innerSize(fields, config),
      convolution: fields.integer("conv_L_cache", { ...LENGTHS, otherwise: 3 }),
    }),
  },
  activations: SILU,
  hasConvolutions: true,
  block,
};
