/**
 * EmbeddingGemma: Gemma 3 with attention in both directions.
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
  readonly blocks: string;
  readonly attention: AttentionNames;
  readonly qNorm: string;
  readonly kNorm: string;
  readonly gate: string;
  readonly up: string;
  readonly down: string;
  readonly beforeAttention: string;
  readonly afterAttention: string;
  readonly beforeFeed: string;
  readonly afterFeed: string;
  readonly finalNorm: string;
}

const TRANSFORMERS: Names = {
  words: "embed_tokens",
  blocks: "layers",
  attention: {
    q: "self_attn.q_proj",
    k: "self_attn.k_proj",
    v: "self_attn.v_proj",
    out: "self_attn.o_proj",
  },
  qNorm: "self_attn.q_norm",
  kNorm: "self_attn.k_norm",
  gate: "mlp.gate_proj",
  up: "mlp.up_proj",
  down: "mlp.down_proj",
  beforeAttention: "input_layernorm",
  afterAttention: "post_attention_layernorm",
  beforeFeed: "pre_feedforward_layernorm",
  afterFeed: "post_feedforward_layernorm",
  finalNorm: "norm",
};

const GGUF: Names = {
  words: "token_embd",
  blocks: "blk",
  attention: { q: "attn_q", k: "attn_k", v: "attn_v", out: "attn_output" },
  qNorm: "attn_q_norm",
  kNorm: "attn_k_norm",
  gate: "ffn_gate",
  up: "ffn_up",
  down: "ffn_down",
  beforeAttention: "attn_norm",
  afterAttention: "post_attention_norm",
  beforeFeed: "ffn_norm",
  afterFeed: "post_ffw_norm",
  finalNorm: "output_norm",
};

interface GemmaSizes extends EncoderSizes {
  readonly kvHeads: number;
  readonly headDimensions: number;
  readonly activation: ActivationName;
  /** The factor of scores. */
  readonly scale: number;
  readonly global: readonly boolean[];
  readonly distance: number;
  readonly bases: { readonly global: number; readonly local: number };
  /** What the weights of norms lack: 1 in files of transformers. */
  readonly offset: number;
}

function gemmaOf(
  w: AnyWeights,
  names: Names,
  sizes: GemmaSizes,
  options: LayerOptions,
): Encoder {
  const { hidden, intermediate, heads, kvHeads, headDimensions, activation, distance } = sizes;
  const { global, bases, scale } = sizes;
  const norm = { epsilon: sizes.epsilon, offset: sizes.offset };
  const words = w.embedding(names.words, sizes.vocabulary, hidden, { dtype: "float32" });
  const blocks = w.list(names.blocks, sizes.layers, (w) => {
    const before = w.rmsNorm(names.beforeAttention, hidden, norm);
    const after = w.rmsNorm(names.afterAttention, hidden, norm);
    const beforeFeed = w.rmsNorm(names.beforeFeed, hidden, norm);
    const afterFeed = w.rmsNorm(names.afterFeed, hidden, norm);
    const q = w.rmsNorm(names.qNorm, headDimensions, norm);
    const k = w.rmsNorm(names.kNorm, headDimensions, norm);
    const attend = selfAttention(w, names.attention, {
      ...{ hidden, heads, kvHeads, headDimensions, bias: false, scale, ...options },
    }, { q, k });
    const feed = gatedFeedForward(w, names, {
      ...{ hidden, intermediate, activation, bias: false, ...options },
    });
    return (x: State, seen: Seen): State => {
      const y = after(attend(before(x), seen)).add(x);
      return afterFeed(feed(beforeFeed(y))).add(y);
    };
  });
  const finalNorm = w.rmsNorm(names.finalNorm, hidden, norm);
  return {
    hidden,
    vocabulary: sizes.vocabulary,
    types: 0,
    longest: sizes.longest,
    begin({ ids }) {
      const count = ids.shape[1];
      return {
        x: words(ids).mul(Math.sqrt(hidden)),
        sights: bothSights(count, distance, { dimensions: headDimensions, bases }),
      };
    },
    layers: blocks.map((run, i) => ({ kind: global[i]! ? GLOBAL : LOCAL, run })),
    end: (x) => finalNorm(x),
  };
}

/** EmbeddingGemma. */
export function gemmaEmbedding(
  weights: AnyWeights,
  reader: Reader,
  options: LayerOptions,
): Encoder {
  if (reader.flag("use_bidirectional_attention") !== true) {
    reader.reject(
      "use_bidirectional_attention",
      "true: Gemma 3 that generates text is not an encoder",
    );
  }
  for (const key of ["attn_logit_softcapping", "final_logit_softcapping", "rope_scaling"]) {
    reader.refuse(key);
  }
  reader.refuse("attention_bias", false);
  const layers = layersOf(weights, reader, "num_hidden_layers");
  const pattern = reader.size(
    "sliding_window_pattern",
    MOST.tokens,
    reader.size("_sliding_window_pattern", MOST.tokens, 6),
  );
  const headDimensions = reader.size("head_dim", MOST.headDimensions, 256);
  const w = weights.has("model.embed_tokens") ? weights.at("model") : weights;
  return gemmaOf(
    w,
    TRANSFORMERS,
    checkHeads({
      layers,
      vocabulary: reader.size("vocab_size", MOST.vocabulary),
      hidden: reader.size("hidden_size", MOST.hidden),
      intermediate: reader.size("intermediate_size", MOST.intermediate),
      heads: reader.size("num_attention_heads", MOST.heads),
      kvHeads: reader.size("num_key_value_heads", MOST.heads),
      headDimensions,
      epsilon: reader.real("rms_norm_eps", 1e-6),
      activation: activationOf(reader, "hidden_activation", "gelu_pytorch_tanh"),
      scale: 1 / Math.sqrt(reader.size("query_pre_attn_scalar", MOST.headDimensions, 256)),
      longest: reader.size("max_position_embeddings", MOST.tokens),
      global: globalLayers(reader, layers, (i) => (i + 1) % pattern === 0),
      distance: Math.floor(reader.size("sliding_window", MOST.tokens, 4096) / 2),
      bases: {
        global: ropeBase(reader, "full_attention", "rope_theta", 1_000_000),
        local: ropeBase(reader, "sliding_attention", "rope_local_base_freq", 10_000),
      },
      offset: 1,
    }, reader),
    options,
  );
}

/** Sizes whose heads fit each other; heads may be wider or narrower than hidden / heads. */
function checkHeads(sizes: GemmaSizes, reader: Reader): GemmaSizes {
  const { heads, kvHeads, headDimensions } = sizes;
  if (heads % kvHeads !== 0) {
    reader.fail(`${heads} heads are no multiple of ${kvHeads} heads of keys`);
  }
  if (headDimensions % 2 !== 0) reader.fail(`${headDimensions} columns of heads are not even`);
  return checkSizes({ ...sizes, hidden: sizes.hidden }, reader);
}

/** EmbeddingGemma of GGUF files. */
export function gemmaEmbeddingOfGguf(
  weights: AnyWeights,
  reader: Reader,
  options: LayerOptions,
): Encoder {
  const architecture = "gemma-embedding";
  const own = (key: string): string => `${architecture}.${key}`;
  const sizes = ggufSizes(weights, reader, architecture, "attention.layer_norm_rms_epsilon");
  const pattern = reader.size(own("attention.sliding_window_pattern"), MOST.tokens, 6);
  const headDimensions = reader.size(
    own("attention.key_length"),
    MOST.headDimensions,
    sizes.hidden / sizes.heads,
  );
  return gemmaOf(
    weights,
    GGUF,
    checkHeads({
      ...sizes,
      kvHeads: reader.size(own("attention.head_count_kv"), MOST.heads, sizes.heads),
      headDimensions,
      activation: "gelu_tanh",
      scale: 1 / Math.sqrt(headDimensions),
      global: Array.from({ length: sizes.layers }, (_, i) => (i + 1) % pattern === 0),
      distance: Math.floor(reader.size(own("attention.sliding_window"), MOST.tokens, 512) / 2),
      bases: {
        global: ggufBase(reader, own("rope.freq_base"), 1_000_000),
        local: ggufBase(reader, own("rope.freq_base_swa"), 10_000),
      },
      offset: 0,
    }, reader),
    options,
  );
}
