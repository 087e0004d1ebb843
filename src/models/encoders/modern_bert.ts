/**
 * ModernBERT: rotary positions, layers that see all tokens between layers that see near ones only,
 * and norms before each part.
 *
 * @module
 */
import type { Reader } from "../../llm/config/reader.ts";
import {
  type ActivationName,
  activationOf,
  type AnyWeights,
  type AttentionNames,
  bothSights,
  type Encoder,
  gatedFeedForward,
  GLOBAL,
  type LayerOptions,
  LOCAL,
  type Seen,
  selfAttention,
  type State,
} from "./parts.ts";
import {
  checkSizes,
  type EncoderSizes,
  ggufBase,
  ggufSizes,
  globalLayers,
  layersOf,
  MOST,
  ropeBase,
} from "./sizes.ts";

/** The names of tensors. */
interface Names {
  readonly words: string;
  readonly norm: string;
  readonly blocks: string;
  readonly attention: AttentionNames;
  readonly attentionNorm: string;
  readonly feedNorm: string;
  readonly gateUp: string;
  readonly down: string;
  readonly finalNorm: string;
}

const TRANSFORMERS: Names = {
  words: "embeddings.tok_embeddings",
  norm: "embeddings.norm",
  blocks: "layers",
  attention: { qkv: "attn.Wqkv", out: "attn.Wo" },
  attentionNorm: "attn_norm",
  feedNorm: "mlp_norm",
  gateUp: "mlp.Wi",
  down: "mlp.Wo",
  finalNorm: "final_norm",
};

const GGUF: Names = {
  words: "token_embd",
  norm: "token_embd_norm",
  blocks: "blk",
  attention: { qkv: "attn_qkv", out: "attn_output" },
  attentionNorm: "attn_norm",
  feedNorm: "ffn_norm",
  gateUp: "ffn_up",
  down: "ffn_down",
  finalNorm: "output_norm",
};

interface ModernSizes extends EncoderSizes {
  readonly activation: ActivationName;
  readonly attentionBias: boolean;
  readonly feedBias: boolean;
  readonly normBias: boolean;
  /** For each layer, whether it sees all tokens. */
  readonly global: readonly boolean[];
  /** How far the other layers see, to each side. */
  readonly distance: number;
  readonly bases: { readonly global: number; readonly local: number };
}

function modernOf(
  w: AnyWeights,
  names: Names,
  sizes: ModernSizes,
  options: LayerOptions,
): Encoder {
  const { hidden, intermediate, heads, activation, distance, global, bases } = sizes;
  const norm = { epsilon: sizes.epsilon, bias: sizes.normBias };
  const words = w.embedding(names.words, sizes.vocabulary, hidden, { dtype: "float32" });
  const normalize = w.layerNorm(names.norm, hidden, norm);
  const blocks = w.list(names.blocks, sizes.layers, (w, i) => {
    // The embedding is normalized already.
    const attentionNorm = i === 0 ? undefined : w.layerNorm(names.attentionNorm, hidden, norm);
    const bias = sizes.attentionBias;
    const attend = selfAttention(w, names.attention, { hidden, heads, bias, ...options });
    const feedNorm = w.layerNorm(names.feedNorm, hidden, norm);
    const feed = gatedFeedForward(w, names, {
      ...{ hidden, intermediate, activation, bias: sizes.feedBias, ...options },
    });
    return (x: State, seen: Seen): State => {
      const y = attend(attentionNorm === undefined ? x : attentionNorm(x), seen, x);
      return feed(feedNorm(y), y);
    };
  });
  const finalNorm = w.layerNorm(names.finalNorm, hidden, norm);
  return {
    hidden,
    vocabulary: sizes.vocabulary,
    types: 0,
    longest: sizes.longest,
    begin({ ids }) {
      const [texts, count] = ids.shape;
      return {
        x: normalize(words(ids)).asShape([texts, count, hidden]),
        sights: bothSights(count, distance, { dimensions: hidden / heads, bases }),
      };
    },
    layers: blocks.map((run, i) => ({ kind: global[i]! ? GLOBAL : LOCAL, run })),
    end: (x) => finalNorm(x),
  };
}

/** ModernBERT. */
export function modernBert(weights: AnyWeights, reader: Reader, options: LayerOptions): Encoder {
  const layers = layersOf(weights, reader, "num_hidden_layers");
  const every = reader.size("global_attn_every_n_layers", MOST.tokens, 3);
  const sizes: ModernSizes = {
    layers,
    vocabulary: reader.size("vocab_size", MOST.vocabulary),
    hidden: reader.size("hidden_size", MOST.hidden),
    intermediate: reader.size("intermediate_size", MOST.intermediate),
    heads: reader.size("num_attention_heads", MOST.heads),
    epsilon: reader.real("norm_eps", 1e-5),
    activation: activationOf(reader, "hidden_activation"),
    longest: reader.size("max_position_embeddings", MOST.tokens, 8192),
    attentionBias: reader.flag("attention_bias") ?? false,
    feedBias: reader.flag("mlp_bias") ?? false,
    normBias: reader.flag("norm_bias") ?? false,
    global: globalLayers(reader, layers, (i) => i % every === 0),
    distance: Math.floor(reader.size("local_attention", MOST.tokens, 128) / 2),
    bases: {
      global: ropeBase(reader, "full_attention", "global_rope_theta", 160_000),
      local: ropeBase(reader, "sliding_attention", "local_rope_theta", 10_000),
    },
  };
  const w = weights.has("model.embeddings") ? weights.at("model") : weights;
  return modernOf(w, TRANSFORMERS, checkSizes(sizes, reader), options);
}

/** ModernBERT of GGUF files. */
export function modernBertOfGguf(
  weights: AnyWeights,
  reader: Reader,
  options: LayerOptions,
): Encoder {
  const architecture = "modern-bert";
  const own = (key: string): string => `${architecture}.${key}`;
  const sizes = ggufSizes(weights, reader, architecture, "attention.layer_norm_epsilon");
  const every = reader.size(own("attention.sliding_window_pattern"), MOST.tokens, 3);
  const base = ggufBase(reader, own("rope.freq_base"), 160_000);
  return modernOf(
    weights,
    GGUF,
    checkSizes({
      ...sizes,
      activation: activationOf(reader, own("hidden_activation")),
      attentionBias: false,
      feedBias: false,
      normBias: false,
      global: Array.from({ length: sizes.layers }, (_, i) => i % every === 0),
      distance: Math.floor(reader.size(own("attention.sliding_window"), MOST.tokens, 128) / 2),
      bases: { global: base, local: ggufBase(reader, own("rope.freq_base_swa"), 10_000) },
    }, reader),
    options,
  );
}
