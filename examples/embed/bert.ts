/**
 * Sentence vectors of a BERT-style encoder, such as all-MiniLM-L6-v2.
 *
 * @module
 */
import { arange, type Tensor } from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";

/** The fields of a model's config.json that matter here. */
export interface BertConfig {
  readonly vocab_size: number;
  readonly hidden_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly intermediate_size: number;
  readonly max_position_embeddings: number;
  readonly type_vocab_size?: number;
  readonly layer_norm_eps?: number;
  readonly hidden_act?: string;
}

/** How the vectors of tokens become one. */
export type Pooling = "mean" | "cls";

type Ids = Tensor<"int32", readonly [number, number]>;
type Lengths = Tensor<"int32", readonly [number]>;
type Floats = Tensor<"float32">;

/** A block of the encoder; names are those of the file. */
function block(
  w: nn.Weights<"float32">,
  config: BertConfig,
): (x: Floats, lengths: Lengths) => Floats {
  const { hidden_size: d, num_attention_heads: heads, intermediate_size: wide } = config;
  const norm = { epsilon: config.layer_norm_eps ?? 1e-12 };
  const own = w.at("attention");
  const qkv = nn.fuse(
    own.linear("self.query", d, d),
    own.linear("self.key", d, d),
    own.linear("self.value", d, d),
  );
  const out = own.linear("output.dense", d, d);
  const up = w.linear("intermediate.dense", wide, d, { activation: "gelu" });
  const down = w.linear("output.dense", d, wide);
  const [first, second] = [own, w].map((at) => at.layerNorm("output.LayerNorm", d, norm));
  return (x, lengths) => {
    const [q, k, v] = qkv(x, {
      heads,
    }) as unknown as Floats[];
    const seen = nn.mergeHeads(nn.attention(q!, k!, v!, { lengths }));
    const y = first!(out(seen), { add: x });
    return second!(down(up(y)), { add: y });
  };
}

/**
 * Makes a function of the weights: token ids [B, T] and their numbers [B] give vectors [B, D] of
 * length 1. Ids beyond a text's number may be any.
 */
export function encoder(
  weights: nn.Weights<"float32">,
  config: BertConfig,
  pooling: Pooling,
): (ids: Ids, lengths: Lengths) => Floats {
  if ((config.hidden_act ?? "gelu") !== "gelu") {
    throw new Error(`this model needs the activation ${config.hidden_act}, and only gelu is here`);
  }
  const w = weights.has("bert.embeddings") ? weights.at("bert") : weights;
  const { hidden_size: d, max_position_embeddings: longest } = config;
  const embeddings = w.at("embeddings");
  const words = embeddings.embedding("word_embeddings", config.vocab_size, d);
  const positions = embeddings.tensor("position_embeddings.weight", [longest, d]);
  const types = embeddings.tensor("token_type_embeddings.weight", [config.type_vocab_size ?? 2, d]);
  const norm = embeddings.layerNorm("LayerNorm", d, { epsilon: config.layer_norm_eps ?? 1e-12 });
  const blocks = w.list("encoder.layer", config.num_hidden_layers, (w) => block(w, config));
  return (ids, lengths) => {
    const count = ids.shape[1];
    const places = positions.slice(`:${count}`).add(types.slice(0));
    let x = norm(words(ids), {
      add: places.broadcastTo([...ids.shape, d]),
    }) as Floats;
    for (const run of blocks) x = run(x, lengths);
    let y: Floats;
    if (pooling === "cls") y = x.slice(":", 0) as Floats;
    else {
      const counted = arange(count, { dtype: "int32" }).less(lengths.reshape([-1, 1]));
      const kept = x.mul(counted.reshape([-1, count, 1]).astype("float32")) as Floats;
      y = kept.sum(1).div(lengths.astype("float32").reshape([-1, 1])) as Floats;
    }
    return y.div(y.mul(y).sum(-1, { keepDims: true }).sqrt()) as Floats;
  };
}
