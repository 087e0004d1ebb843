/**
 * The layers of Llama-style models: Llama, Mistral, Qwen 2 and 3, SmolLM.
 *
 * @module
 */
import type { DType } from "../base/dtype.ts";
import { FormatError } from "../base/errors.ts";
import * as nn from "../nn/mod.ts";
import { quantize, stack } from "../api/functions/tensors.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import type { LlamaConfig } from "./config.ts";

/** The names of layers: of the model, and within a block. */
interface Names {
  readonly embedding: string;
  readonly blocks: string;
  readonly norm: string;
  readonly output: string;
  readonly firstNorm: string;
  readonly secondNorm: string;
  readonly q: string;
  readonly k: string;
  readonly v: string;
  readonly qNorm: string;
  readonly kNorm: string;
  readonly attentionOutput: string;
  readonly gate: string;
  readonly up: string;
  readonly down: string;
}

const GGUF: Names = {
  embedding: "token_embd",
  blocks: "blk",
  norm: "output_norm",
  output: "output",
  firstNorm: "attn_norm",
  secondNorm: "ffn_norm",
  q: "attn_q",
  k: "attn_k",
  v: "attn_v",
  qNorm: "attn_q_norm",
  kNorm: "attn_k_norm",
  attentionOutput: "attn_output",
  gate: "ffn_gate",
  up: "ffn_up",
  down: "ffn_down",
};

const TRANSFORMERS: Names = {
  embedding: "model.embed_tokens",
  blocks: "model.layers",
  norm: "model.norm",
  output: "lm_head",
  firstNorm: "input_layernorm",
  secondNorm: "post_attention_layernorm",
  q: "self_attn.q_proj",
  k: "self_attn.k_proj",
  v: "self_attn.v_proj",
  qNorm: "self_attn.q_norm",
  kNorm: "self_attn.k_norm",
  attentionOutput: "self_attn.o_proj",
  gate: "mlp.gate_proj",
  up: "mlp.up_proj",
  down: "mlp.down_proj",
};

declare const SIZE: unique symbol;

/**
 * A size of the model or of a step. Its type has a name, so that a shape with another size in its
 * place does not compile.
 */
type Size<Name extends string> = number & { readonly [SIZE]: Name };

/** The tokens of a step. */
type Tokens = Size<"tokens">;
type Hidden = Size<"hidden">;
type Intermediate = Size<"intermediate">;
type Vocabulary = Size<"vocabulary">;
/** The columns of a head. */
type Columns = Size<"headDimensions">;

interface Sizes {
  readonly hidden: Hidden;
  readonly intermediate: Intermediate;
  readonly vocabulary: Vocabulary;
  readonly columns: Columns;
  /** The columns of all heads of queries. */
  readonly queries: Size<"heads · headDimensions">;
  /** The columns of all heads of keys; values have as many. */
  readonly keys: Size<"kvHeads · headDimensions">;
}

function sizesOf(config: LlamaConfig): Sizes {
  const { heads, kvHeads, headDimensions } = config;
  return {
    hidden: config.hidden as Hidden,
    intermediate: config.intermediate as Intermediate,
    vocabulary: config.vocabulary as Vocabulary,
    columns: headDimensions as Columns,
    queries: heads * headDimensions as Sizes["queries"],
    keys: kvHeads * headDimensions as Sizes["keys"],
  };
}

/** The state of M tokens. */
type State = Tensor<"float32", [Tokens, Hidden]>;
/** Queries, keys or values: [heads, M, headDimensions]. */
type Heads = Tensor<"float32", [number, Tokens, number]>;

/** Weights on any device. */
export type AnyWeights = nn.Weights<t.PackedDType, t.Device>;

/** What a step reads besides the new tokens. */
export interface Past {
  /** [layers, 2, kvHeads, capacity, headDimensions]. */
  readonly data: AnyTensor;
  /** The number of tokens in `data`: int32 []. */
  readonly length: AnyTensor;
}

/** Angles of the new tokens: [M, R / 2]. */
export interface Angles {
  /** Their cosines. */
  readonly cos: AnyTensor;
  /** Their sines. */
  readonly sin: AnyTensor;
}

/** The logits a step gives: of all tokens, of the one at an index, int32 [], or none. */
export type Wanted = "all" | "none" | AnyTensor;

/** What a step gives. */
export interface Stepped {
  /** [V], or [M, V] for all tokens. */
  readonly logits: Tensor<"float32"> | undefined;
  /** Keys and values of the new tokens: [layers, 2, kvHeads, M, headDimensions], in the cache's dtype. */
  readonly rows: AnyTensor;
}

/** A function of M tokens, int32 [M]. */
export type Step = (ids: AnyTensor, angles: Angles, past: Past, wanted: Wanted) => Stepped;

/** A {@link Step}, with the shapes of what it takes. */
type ShapedStep = (
  ids: Tensor<DType, [number]>,
  angles: ShapedAngles,
  past: {
    readonly data: Tensor<DType, [number, 2, number, number, number]>;
    readonly length: AnyTensor;
  },
  wanted: "all" | "none" | Tensor<DType, []>,
) => Stepped;

interface ShapedAngles {
  readonly cos: Tensor<DType, [number, number]>;
  readonly sin: Tensor<DType, [number, number]>;
}

/** The cached keys and values of a block: [kvHeads, capacity, headDimensions]. */
type Cached = Tensor<DType, [number, number, number]>;

/** The state between blocks, and the keys and values that a block adds. */
type Block = (
  x: State,
  angles: ShapedAngles,
  past: { readonly keys: Cached; readonly values: Cached; readonly length: AnyTensor },
) => { readonly x: State; readonly k: Heads; readonly v: Heads };

function block(w: AnyWeights, names: Names, config: LlamaConfig): Block {
  const { heads, epsilon, rope } = config;
  const { hidden, intermediate, columns, queries, keys } = sizesOf(config);
  const bias = { bias: "optional" } as const, norm = { epsilon };
  const qkv = nn.fuse(
    w.linear(names.q, queries, hidden, bias),
    w.linear(names.k, keys, hidden, bias),
    w.linear(names.v, keys, hidden, bias),
  );
  const out = w.linear(names.attentionOutput, hidden, queries, bias);
  const gateUp = nn.fuse(
    w.linear(names.gate, intermediate, hidden, bias),
    w.linear(names.up, intermediate, hidden, bias),
  );
  const down = w.linear(names.down, hidden, intermediate, bias);
  const first = w.rmsNorm(names.firstNorm, hidden, norm);
  const second = w.rmsNorm(names.secondNorm, hidden, norm);
  const [qNorm, kNorm] = [names.qNorm, names.kNorm].map((name) =>
    w.has(name) ? w.rmsNorm(name, columns, norm) : undefined
  );
  const { interleaved } = rope;
  return (x, { cos, sin }, past) => {
    const turned = (one: Heads, normed: typeof qNorm): Heads =>
      nn.rope(normed === undefined ? one : normed(one), { cos, sin, interleaved });
    const [q, k, v] = qkv(first(x), { heads });
    const turnedK = turned(k, kNorm);
    const seen = nn.mergeHeads(nn.cachedAttention(turned(q, qNorm), turnedK, v, past));
    const y = out(seen.asShape([x.shape[0], queries]), { add: x });
    const [gate, up] = gateUp(second(y));
    return { x: down(gate.silu().mul(up), { add: y }), k: turnedK, v };
  };
}

/** A quantized or cast copy of rows for the cache. */
function stored(rows: Heads, dtype: nn.CacheDType): AnyTensor {
  return dtype === "q8_0" ? quantize(rows, dtype) : rows.astype(dtype);
}

/**
 * Asks `weights` for the layers of a model. Call `weights.done` or `load` before the function that it
 * returns is used.
 */
export function llama(
  weights: nn.Weights<t.PackedDType, t.Device>,
  config: LlamaConfig,
  cache: nn.CacheDType,
): Step;
export function llama(weights: AnyWeights, config: LlamaConfig, cache: nn.CacheDType): ShapedStep {
  const names = weights.has(GGUF.embedding) ? GGUF : TRANSFORMERS;
  const { layers, epsilon, kvHeads, headDimensions } = config;
  const { vocabulary, hidden } = sizesOf(config);
  // Each missing one would be listed.
  const tensors = weights.names().length;
  if (layers > tensors) {
    throw new FormatError(
      `the model has ${layers} layers, and the file only ${tensors} tensors`,
      weights.path,
      0,
    );
  }
  const embedding = weights.embedding(names.embedding, vocabulary, hidden, { dtype: "float32" });
  const blocks = weights.list(names.blocks, layers, (w) => block(w, names, config));
  const norm = weights.rmsNorm(names.norm, hidden, { epsilon });
  // Many models multiply by the embedding.
  const head = weights.has(names.output) ? names.output : names.embedding;
  const output = weights.linear(head, vocabulary, hidden, { bias: false });
  return (ids, angles, { data, length }, wanted) => {
    const count = ids.shape[0] as Tokens;
    let x: State = embedding(ids.asShape([count]));
    const rows: AnyTensor[] = [];
    blocks.forEach((run, i) => {
      const [keys, values] = [data.slice(i, 0), data.slice(i, 1)];
      const made = run(x, angles, { keys, values, length });
      x = made.x;
      rows.push(stored(made.k, cache), stored(made.v, cache));
    });
    const all = stack(rows).reshape([layers, 2, kvHeads, count, headDimensions]);
    if (wanted === "none") return { logits: undefined, rows: all };
    const last = wanted === "all" ? x : x.take(wanted, 0);
    return { logits: output(norm(last)), rows: all };
  };
}
