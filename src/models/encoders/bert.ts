/**
 * BERT and its relatives: RoBERTa, XLM-R, DistilBERT and MPNet. Each layer adds an attention and a
 * feed-forward part to its input, and normalizes each sum.
 *
 * @module
 */
import { arange, tensor } from "../../tensor/create.ts";
import type { AnyTensor } from "../../tensor/tensor.ts";
import type { Reader } from "../../llm/config/reader.ts";
import {
  type ActivationName,
  activationOf,
  type AnyWeights,
  type AttentionNames,
  type Encoder,
  feedForward,
  type LayerOptions,
  selfAttention,
  type State,
} from "./parts.ts";
import { checkSizes, type EncoderSizes, ggufSizes, layersOf, MOST } from "./sizes.ts";

/** The names of tensors. */
interface Names {
  readonly words: string;
  readonly positions: string;
  readonly types: string;
  readonly norm: string;
  readonly blocks: string;
  readonly attention: AttentionNames;
  readonly attentionNorm: string;
  readonly up: string;
  readonly down: string;
  readonly downNorm: string;
}

const EMBEDDINGS = {
  words: "embeddings.word_embeddings",
  positions: "embeddings.position_embeddings",
  types: "embeddings.token_type_embeddings",
  norm: "embeddings.LayerNorm",
};

const LAYER = {
  blocks: "encoder.layer",
  attentionNorm: "attention.output.LayerNorm",
  up: "intermediate.dense",
  down: "output.dense",
  downNorm: "output.LayerNorm",
};

const BERT: Names = {
  ...EMBEDDINGS,
  ...LAYER,
  attention: {
    q: "attention.self.query",
    k: "attention.self.key",
    v: "attention.self.value",
    out: "attention.output.dense",
  },
};

const MPNET: Names = {
  ...EMBEDDINGS,
  ...LAYER,
  attention: {
    q: "attention.attn.q",
    k: "attention.attn.k",
    v: "attention.attn.v",
    out: "attention.attn.o",
  },
  attentionNorm: "attention.LayerNorm",
};

const DISTILBERT: Names = {
  ...EMBEDDINGS,
  blocks: "transformer.layer",
  attention: {
    q: "attention.q_lin",
    k: "attention.k_lin",
    v: "attention.v_lin",
    out: "attention.out_lin",
  },
  attentionNorm: "sa_layer_norm",
  up: "ffn.lin1",
  down: "ffn.lin2",
  downNorm: "output_layer_norm",
};

const GGUF: Names = {
  words: "token_embd",
  positions: "position_embd",
  types: "token_types",
  norm: "token_embd_norm",
  blocks: "blk",
  attention: { q: "attn_q", k: "attn_k", v: "attn_v", out: "attn_output" },
  attentionNorm: "attn_output_norm",
  up: "ffn_up",
  down: "ffn_down",
  downNorm: "layer_output_norm",
};

/** The sizes of a model of this kind. */
interface BertSizes extends EncoderSizes {
  /** The rows of the positions' embedding. */
  readonly positions: number;
  /** The position of the first token. */
  readonly first: number;
  /** The rows of the types' embedding; 0 without one. */
  readonly types: number;
  readonly activation: ActivationName;
  /** The names of the relative positions' embedding, and its rows. */
  readonly relative?: { readonly name: string; readonly buckets: number } | undefined;
}

/** The greatest distance with a bucket of its own: farther tokens share the last one. */
const FARTHEST = 128;

/**
 * The buckets of the distances from 1 − `count` to `count` − 1: half of them for each direction, of
 * which half are for one distance each, and the others for distances that grow by a factor.
 */
export function relativeBuckets(count: number, buckets: number): Int32Array {
  const half = buckets / 2, exact = half / 2;
  const bucketOf = (distance: number): number => {
    if (distance < exact) return distance;
    // In float32, as PyTorch computes it.
    const turns = Math.fround(Math.log(Math.fround(distance / exact)));
    const part = Math.fround(turns / Math.fround(Math.log(FARTHEST / exact)));
    return Math.min(half - 1, exact + Math.trunc(Math.fround(part * (half - exact))));
  };
  return Int32Array.from(
    { length: 2 * count - 1 },
    (_, i) => {
      const relative = i - (count - 1);
      return (relative > 0 ? half : 0) + bucketOf(Math.abs(relative));
    },
  );
}

/** What is added to the scores of T tokens: [heads, T, T]. */
function relativeBias(
  w: AnyWeights,
  { name, buckets }: { readonly name: string; readonly buckets: number },
  heads: number,
): (count: number) => AnyTensor {
  const rows = w.embedding(name, buckets, heads, { dtype: "float32" });
  return (count) => {
    const each = rows(tensor(relativeBuckets(count, buckets), { dtype: "int32" }));
    const places = arange(count, { dtype: "int32" });
    const distances = places.sub(places.reshape([-1, 1])).add(count - 1);
    return each.take(distances, 0).permute(2, 0, 1);
  };
}

/** The layers of a model of this kind. */
function bertOf(
  w: AnyWeights,
  names: Names,
  sizes: BertSizes,
  options: LayerOptions,
): Encoder {
  const { hidden, intermediate, heads, epsilon, activation, positions, first, types } = sizes;
  const norm = { epsilon };
  const words = w.embedding(names.words, sizes.vocabulary, hidden, { dtype: "float32" });
  const float = { dtype: "float32" } as const;
  const places = w.tensor(`${names.positions}.weight`, [positions, hidden], float);
  // The tokens of models with one type have that type, whatever tokenizers give.
  const kinds = types > 1 ? w.embedding(names.types, types, hidden, float) : undefined;
  const kind = types > 0 ? w.tensor(`${names.types}.weight`, [types, hidden], float) : undefined;
  const normalize = w.layerNorm(names.norm, hidden, norm);
  const bias = sizes.relative && relativeBias(w, sizes.relative, heads);
  const blocks = w.list(names.blocks, sizes.layers, (w) => {
    const attend = selfAttention(w, names.attention, { hidden, heads, bias: true, ...options });
    const attentionNorm = w.layerNorm(names.attentionNorm, hidden, norm);
    const feed = feedForward(w, names, {
      hidden,
      intermediate,
      activation,
      bias: true,
      ...options,
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
      let x: State = words(ids).add(places.slice(`${first}:${first + count}`));
      if (kinds !== undefined && types !== undefined) x = x.add(kinds(types));
      else if (kind !== undefined) x = x.add(kind.slice(0));
      return {
        x: normalize(x).asShape([texts, count, hidden]),
        sights: [bias === undefined ? {} : { mask: bias(count) }],
      };
    },
    layers: blocks.map((run) => ({ kind: 0, run })),
    end: (x) => x,
  };
}

/** The sizes in config.json, under the names of BERT. */
function jsonSizes(weights: AnyWeights, reader: Reader): Omit<BertSizes, "first"> {
  reader.refuse("position_embedding_type", "absolute");
  reader.refuse("is_decoder", false);
  reader.refuse("add_cross_attention", false);
  const positions = reader.size("max_position_embeddings", MOST.tokens, 512);
  return {
    vocabulary: reader.size("vocab_size", MOST.vocabulary),
    layers: layersOf(weights, reader, "num_hidden_layers"),
    hidden: reader.size("hidden_size", MOST.hidden),
    intermediate: reader.size("intermediate_size", MOST.intermediate),
    heads: reader.size("num_attention_heads", MOST.heads),
    epsilon: reader.real("layer_norm_eps", 1e-12),
    activation: activationOf(reader, "hidden_act"),
    positions,
    longest: positions,
    types: reader.integer("type_vocab_size", { most: MOST.tokens, otherwise: 2 }),
  };
}

/** The weights below one of `prefixes`, which the files of heads of tasks have. */
function below(w: AnyWeights, name: string, prefixes: readonly string[]): AnyWeights {
  const prefix = prefixes.find((prefix) => w.has(`${prefix}.${name}`));
  return prefix === undefined ? w : w.at(prefix);
}

/** Positions begin after that of padding. */
function shifted(reader: Reader, sizes: Omit<BertSizes, "first">): BertSizes {
  const first = reader.integer("pad_token_id", { most: MOST.vocabulary, otherwise: 1 }) + 1;
  const longest = sizes.positions - first;
  if (longest < 1) {
    reader.reject("pad_token_id", `below max_position_embeddings, ${sizes.positions}, less 1`);
  }
  return { ...sizes, first, longest };
}

/** BERT. */
export function bert(weights: AnyWeights, reader: Reader, options: LayerOptions): Encoder {
  const sizes = checkSizes({ ...jsonSizes(weights, reader), first: 0 }, reader);
  return bertOf(below(weights, EMBEDDINGS.words, ["bert"]), BERT, sizes, options);
}

/** RoBERTa and XLM-R. */
export function roberta(weights: AnyWeights, reader: Reader, options: LayerOptions): Encoder {
  const sizes = checkSizes(shifted(reader, jsonSizes(weights, reader)), reader);
  const w = below(weights, EMBEDDINGS.words, ["roberta", "xlm-roberta", "camembert"]);
  return bertOf(w, BERT, sizes, options);
}

/** MPNet. */
export function mpnet(weights: AnyWeights, reader: Reader, options: LayerOptions): Encoder {
  const most = 2 * MOST.heads;
  const buckets = reader.size("relative_attention_num_buckets", most, 32);
  if (buckets % 4 !== 0) reader.reject("relative_attention_num_buckets", "a multiple of 4");
  const relative = { name: "encoder.relative_attention_bias", buckets };
  const sizes = checkSizes(
    { ...shifted(reader, jsonSizes(weights, reader)), types: 0, relative },
    reader,
  );
  return bertOf(below(weights, EMBEDDINGS.words, ["mpnet"]), MPNET, sizes, options);
}

/** DistilBERT. */
export function distilbert(weights: AnyWeights, reader: Reader, options: LayerOptions): Encoder {
  const positions = reader.size("max_position_embeddings", MOST.tokens, 512);
  const sizes = checkSizes({
    vocabulary: reader.size("vocab_size", MOST.vocabulary),
    layers: layersOf(weights, reader, "n_layers"),
    hidden: reader.size("dim", MOST.hidden),
    intermediate: reader.size("hidden_dim", MOST.intermediate),
    heads: reader.size("n_heads", MOST.heads),
    epsilon: 1e-12,
    activation: activationOf(reader, "activation"),
    positions,
    longest: positions,
    first: 0,
    types: 0,
  }, reader);
  return bertOf(below(weights, EMBEDDINGS.words, ["distilbert"]), DISTILBERT, sizes, options);
}

/** BERT, RoBERTa and XLM-R of GGUF files, whose positions begin at the first row. */
export function bertOfGguf(weights: AnyWeights, reader: Reader, options: LayerOptions): Encoder {
  const own = ggufSizes(weights, reader, "bert", "attention.layer_norm_epsilon");
  const positions = weights.info(`${GGUF.positions}.weight`)?.shape[0] ?? own.longest;
  const sizes = checkSizes<BertSizes>({
    ...own,
    longest: Math.min(own.longest, positions),
    activation: "gelu",
    positions,
    first: 0,
    types: weights.info(`${GGUF.types}.weight`)?.shape[0] ?? 0,
  }, reader);
  return bertOf(weights, GGUF, sizes, options);
}
