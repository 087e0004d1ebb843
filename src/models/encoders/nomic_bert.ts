/**
 * NomicBERT: BERT with rotary positions, and a gate in its feed-forward parts.
 *
 * @module
 */
import type { Reader } from "../../llm/config/reader.ts";
import {
  type ActivationName,
  activationOf,
  anglesOf,
  type AnyWeights,
  type AttentionNames,
  type Encoder,
  gatedFeedForward,
  type LayerOptions,
  selfAttention,
  type State,
} from "./parts.ts";
import { checkSizes, type EncoderSizes, ggufBase, ggufSizes, layersOf, MOST } from "./sizes.ts";

/** The names of tensors. */
interface Names {
  readonly words: string;
  readonly types: string;
  readonly norm: string;
  readonly blocks: string;
  readonly attention: AttentionNames;
  readonly attentionNorm: string;
  readonly gate: string;
  readonly up: string;
  readonly down: string;
  readonly downNorm: string;
}

/** The names of the hub. */
const HUB: Names = {
  words: "embeddings.word_embeddings",
  types: "embeddings.token_type_embeddings",
  norm: "emb_ln",
  blocks: "encoder.layers",
  attention: { qkv: "attn.Wqkv", out: "attn.out_proj" },
  attentionNorm: "norm1",
  gate: "mlp.fc12",
  up: "mlp.fc11",
  down: "mlp.fc2",
  downNorm: "norm2",
};

/** The names of transformers. */
const TRANSFORMERS: Names = {
  ...HUB,
  norm: "embeddings.LayerNorm",
  blocks: "layers",
  attention: {
    q: "self_attn.q_proj",
    k: "self_attn.k_proj",
    v: "self_attn.v_proj",
    out: "self_attn.o_proj",
  },
  attentionNorm: "post_attention_layernorm",
  gate: "mlp.gate_proj",
  up: "mlp.up_proj",
  down: "mlp.down_proj",
  downNorm: "post_mlp_layernorm",
};

const GGUF: Names = {
  words: "token_embd",
  types: "token_types",
  norm: "token_embd_norm",
  blocks: "blk",
  attention: { qkv: "attn_qkv", out: "attn_output" },
  attentionNorm: "attn_output_norm",
  gate: "ffn_gate",
  up: "ffn_up",
  down: "ffn_down",
  downNorm: "layer_output_norm",
};

interface NomicSizes extends EncoderSizes {
  readonly types: number;
  readonly activation: ActivationName;
  readonly base: number;
}

function nomicOf(
  w: AnyWeights,
  names: Names,
  sizes: NomicSizes,
  options: LayerOptions,
): Encoder {
  const { hidden, intermediate, heads, epsilon, activation, types, base } = sizes;
  const norm = { epsilon }, float = { dtype: "float32" } as const;
  const words = w.embedding(names.words, sizes.vocabulary, hidden, float);
  // The tokens of models with one type have that type, whatever tokenizers give.
  const kinds = types > 1 ? w.embedding(names.types, types, hidden, float) : undefined;
  const kind = types > 0 ? w.tensor(`${names.types}.weight`, [types, hidden], float) : undefined;
  const normalize = w.layerNorm(names.norm, hidden, norm);
  const blocks = w.list(names.blocks, sizes.layers, (w) => {
    const attend = selfAttention(w, names.attention, { hidden, heads, bias: false, ...options });
    const attentionNorm = w.layerNorm(names.attentionNorm, hidden, norm);
    const feed = gatedFeedForward(w, names, {
      ...{ hidden, intermediate, activation, bias: false, ...options },
    });
    const downNorm = w.layerNorm(names.downNorm, hidden, norm);
    return (x: State, seen: Parameters<typeof attend>[1]): State => {
      const y = attentionNorm(attend(x, seen), { add: x });
      return downNorm(feed(y), { add: y });
    };
  });
  return {
    hidden,
    vocabulary: sizes.vocabulary,
    types: sizes.types,
    longest: sizes.longest,
    begin({ ids, types }) {
      const [texts, count] = ids.shape;
      let x: State = words(ids);
      if (kinds !== undefined && types !== undefined) x = x.add(kinds(types));
      else if (kind !== undefined) x = x.add(kind.slice(0));
      return {
        x: normalize(x).asShape([texts, count, hidden]),
        sights: [{ angles: anglesOf(count, { dimensions: hidden / heads, base }) }],
      };
    },
    layers: blocks.map((run) => ({ kind: 0, run })),
    end: (x) => x,
  };
}

/** The sizes under the names of the hub, which are those of GPT-2. */
function hubSizes(weights: AnyWeights, reader: Reader): NomicSizes {
  for (const key of ["prenorm", "causal", "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"]) {
    reader.refuse(key, false);
  }
  for (const key of ["rotary_emb_interleaved", "use_rms_norm", "parallel_block"]) {
    reader.refuse(key, false);
  }
  reader.refuse("rotary_emb_fraction", 1);
  reader.refuse("rotary_emb_scale_base", 0);
  const hidden = reader.size("n_embd", MOST.hidden);
  const activation = reader.value("activation_function") ?? "swiglu";
  if (activation !== "swiglu") reader.reject("activation_function", "swiglu");
  // The model turns positions beyond those of its training by other frequencies.
  const longest = reader.size("n_positions", MOST.tokens, 2048);
  const trained = reader.value("rotary_scaling_factor") === undefined
    ? longest
    : reader.size("max_trained_positions", MOST.tokens, 2048);
  return {
    vocabulary: reader.size("vocab_size", MOST.vocabulary),
    layers: layersOf(weights, reader, "n_layer"),
    hidden,
    intermediate: reader.size("n_inner", MOST.intermediate, 4 * hidden),
    heads: reader.size("n_head", MOST.heads),
    epsilon: reader.real("layer_norm_epsilon", 1e-12),
    activation: "silu",
    longest: Math.min(longest, trained),
    types: reader.integer("type_vocab_size", { most: MOST.tokens, otherwise: 2 }),
    base: reader.real("rotary_emb_base", 1000),
  };
}

/** The sizes under the names of transformers. */
function transformersSizes(weights: AnyWeights, reader: Reader): NomicSizes {
  const own = reader.within("rope_parameters");
  const type = own.text("rope_type") ?? "default";
  if (type !== "default") own.reject("rope_type", "default: others are not supported");
  const hidden = reader.size("hidden_size", MOST.hidden);
  const heads = reader.size("num_attention_heads", MOST.heads);
  reader.refuse("head_dim", hidden / heads);
  return {
    vocabulary: reader.size("vocab_size", MOST.vocabulary),
    layers: layersOf(weights, reader, "num_hidden_layers"),
    hidden,
    intermediate: reader.size("intermediate_size", MOST.intermediate),
    heads,
    epsilon: reader.real("layer_norm_eps", 1e-12),
    activation: activationOf(reader, "hidden_act", "silu"),
    longest: reader.size("max_position_embeddings", MOST.tokens, 2048),
    types: reader.integer("type_vocab_size", { most: MOST.tokens, otherwise: 2 }),
    base: own.number("rope_theta", { least: 1, most: MOST.number, otherwise: 1000 }),
  };
}

/** NomicBERT. */
export function nomicBert(weights: AnyWeights, reader: Reader, options: LayerOptions): Encoder {
  const sizes = (reader.has("n_embd") ? hubSizes : transformersSizes)(weights, reader);
  const w = weights.has("nomic_bert") ? weights.at("nomic_bert") : weights;
  const names = w.has(HUB.norm) ? HUB : TRANSFORMERS;
  return nomicOf(w, names, checkSizes(sizes, reader), options);
}

/** NomicBERT of GGUF files. */
export function nomicBertOfGguf(
  weights: AnyWeights,
  reader: Reader,
  options: LayerOptions,
): Encoder {
  const architecture = "nomic-bert";
  const own = ggufSizes(weights, reader, architecture, "attention.layer_norm_epsilon");
  if (reader.real(`${architecture}.expert_count`, 0) > 0) {
    reader.fail("the model is a mixture of experts, which is not supported");
  }
  return nomicOf(
    weights,
    GGUF,
    checkSizes({
      ...own,
      activation: "silu",
      types: weights.info(`${GGUF.types}.weight`)?.shape[0] ?? 0,
      base: ggufBase(reader, `${architecture}.rope.freq_base`, 10000),
    }, reader),
    options,
  );
}
