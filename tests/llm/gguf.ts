/**
 * The golden models as GGUF files, as llama.cpp's converter writes them: rows of queries and keys of
 * Llama in pairs of neighbors, other names, and divisors of frequencies as a tensor.
 *
 * @module
 */
import { QUANT, type QuantName } from "../../src/ops/quantized/formats.ts";
import { encodeBlocks } from "../support/blocks.ts";
import { ggufMetadata, type GgufTensor, type GgufValue, writeGguf } from "../support/gguf.ts";
import { golden, weight } from "./models.ts";

const FLOAT32 = 0;

const NAMES: Readonly<Record<string, string>> = {
  "model.embed_tokens": "token_embd",
  "model.norm": "output_norm",
  lm_head: "output",
  input_layernorm: "attn_norm",
  post_attention_layernorm: "ffn_norm",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "self_attn.o_proj": "attn_output",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
};

/** The name of a tensor of transformers in GGUF files. */
function renamed(name: string): string {
  const [, block, part, kind] = /^(?:model\.layers\.(\d+)\.)?(.*)\.(weight|bias)$/.exec(name)!;
  return `${block === undefined ? "" : `blk.${block}.`}${NAMES[part!]}.${kind}`;
}

/** Rows of heads, whose halves become pairs of neighbors. */
function paired(x: Float32Array, rows: number, heads: number): Float32Array {
  const columns = x.length / rows, size = rows / heads, half = size / 2;
  const made = new Float32Array(x.length);
  for (let row = 0; row < rows; row++) {
    const at = row % size, first = row - at;
    const to = first + at % half * 2 + Math.floor(at / half);
    made.set(x.subarray(row * columns, (row + 1) * columns), to * columns);
  }
  return made;
}

/** The divisors of frequencies that llama3's scaling is in GGUF files. */
function llama3Factors(
  dimensions: number,
  // deno-lint-ignore camelcase
  { rope_theta, factor, low_freq_factor, high_freq_factor, original_max_position_embeddings }:
    Record<string, number>,
): Float32Array {
  return Float32Array.from({ length: dimensions / 2 }, (_, i) => {
    const turns = original_max_position_embeddings! /
      (2 * Math.PI * rope_theta! ** (2 * i / dimensions));
    if (turns > high_freq_factor!) return 1;
    if (turns < low_freq_factor!) return factor!;
    const smooth = (turns - low_freq_factor!) / (high_freq_factor! - low_freq_factor!);
    return 1 / ((1 - smooth) / factor! + smooth);
  });
}

/** What differs from the golden model. */
export interface Changes {
  readonly metadata?: Readonly<Record<string, GgufValue>>;
  readonly without?: string;
  /** More tensors of one axis. */
  readonly more?: readonly (readonly [name: string, data: Float32Array<ArrayBuffer>])[];
  /** A factor of the weights of queries. */
  readonly queries?: number;
  /** The blocks of matrices whose rows have whole ones; float32 by default. */
  readonly format?: QuantName;
}

/** A golden model as a GGUF file of an architecture. */
export function ggufOf(
  name: string,
  architecture: string,
  { metadata, without, more = [], queries = 1, format }: Changes = {},
): Uint8Array<ArrayBuffer> {
  const { config, tensors } = golden.models[name]!;
  const rope = config.rope_parameters,
    head = config.head_dim ?? config.hidden_size / config.num_attention_heads;
  const isPaired = architecture === "llama" || architecture === "mistral";
  const own = (key: string): string => `${architecture}.${key}`;
  const context: number = rope.original_max_position_embeddings;
  const values: Record<string, GgufValue> = {
    "general.architecture": ["string", architecture],
    [own("block_count")]: ["uint32", config.num_hidden_layers],
    [own("context_length")]: ["uint32", config.max_position_embeddings],
    [own("embedding_length")]: ["uint32", config.hidden_size],
    [own("feed_forward_length")]: ["uint32", config.intermediate_size],
    [own("attention.head_count")]: ["uint32", config.num_attention_heads],
    [own("attention.head_count_kv")]: ["uint32", config.num_key_value_heads],
    [own("attention.key_length")]: ["uint32", head],
    [own("attention.layer_norm_rms_epsilon")]: ["float32", config.rms_norm_eps],
    [own("rope.freq_base")]: ["float32", rope.rope_theta],
    ...rope.rope_type === "yarn" && {
      [own("rope.scaling.type")]: ["string", "yarn"],
      [own("rope.scaling.factor")]: ["float32", rope.factor],
      [own("rope.scaling.original_context_length")]: ["uint32", context],
    },
    ...metadata,
  };
  const all: GgufTensor[] = [];
  const add = (to: string, shape: readonly number[], x: Float32Array): void => {
    if (to === without) return;
    if (format !== undefined && shape.length === 2 && shape[1]! % QUANT[format].size === 0) {
      return void all.push({
        name: to,
        type: QUANT[format].type,
        shape,
        bytes: encodeBlocks(format, x),
      });
    }
    all.push({ name: to, type: FLOAT32, shape, bytes: new Uint8Array(x.buffer) });
  };
  for (const [key, shape] of Object.entries(tensors)) {
    const x = weight(key, shape).map((one) => /q_proj/.test(key) ? one * queries : one);
    const heads = /q_proj/.test(key) ? config.num_attention_heads : config.num_key_value_heads;
    const turns = isPaired && /[qk]_proj/.test(key);
    add(renamed(key), shape, turns ? paired(x, shape[0]!, heads) : x);
  }
  if (rope.rope_type === "llama3") {
    add("rope_freqs.weight", [head / 2], llama3Factors(head, rope));
  }
  for (const [to, x] of more) add(to, [x.length], x);
  return writeGguf(ggufMetadata(values), Object.keys(values).length, all);
}
