/**
 * The layers of Llama-style models: Llama, Mistral, Qwen 2 and 3, SmolLM.
 *
 * @module
 */
import { FormatError } from "../base/errors.ts";
import * as nn from "../nn/mod.ts";
import { quantize, stack } from "../api/functions/tensors.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
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

type Floats = Tensor<"float32">;
// Shapes are those of the file: checked when it is loaded.
// deno-lint-ignore no-explicit-any
type Any = any;

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

/** The state between blocks, and the keys and values that a block adds. */
type Block = (
  x: Floats,
  angles: Angles,
  past: { readonly keys: AnyTensor; readonly values: AnyTensor; readonly length: AnyTensor },
) => { x: Floats; k: AnyTensor; v: AnyTensor };

function block(w: nn.Weights, names: Names, config: LlamaConfig): Block {
  const { hidden, intermediate, heads, kvHeads, headDimensions: d, epsilon, rope } = config;
  const bias = { bias: "optional" } as const, norm = { epsilon };
  const qkv = nn.fuse(
    w.linear(names.q, heads * d, hidden, bias),
    w.linear(names.k, kvHeads * d, hidden, bias),
    w.linear(names.v, kvHeads * d, hidden, bias),
  );
  const out = w.linear(names.attentionOutput, hidden, heads * d, bias);
  const gateUp = nn.fuse(
    w.linear(names.gate, intermediate, hidden, bias),
    w.linear(names.up, intermediate, hidden, bias),
  );
  const down = w.linear(names.down, hidden, intermediate, bias);
  const [first, second] = [names.firstNorm, names.secondNorm].map((name) =>
    w.rmsNorm(name, hidden, norm)
  ) as [Any, Any];
  const [qNorm, kNorm] = [names.qNorm, names.kNorm].map((name) =>
    w.has(name) ? w.rmsNorm(name, d, norm) : undefined
  );
  const { interleaved } = rope;
  return (x, { cos, sin }, past) => {
    const [q, k, v] = qkv(first(x), { heads }) as unknown as Floats[] as [Any, Any, Any];
    const turned = (one: Any, normed: Any): Floats =>
      nn.rope(normed === undefined ? one : normed(one), { cos, sin, interleaved }) as Floats;
    const turnedK = turned(k, kNorm);
    const seen = nn.mergeHeads(nn.cachedAttention(turned(q, qNorm), turnedK, v, past));
    const y = (out as Any)(seen, { add: x }) as Floats;
    const [gate, up] = gateUp(second(y)) as unknown as [Floats, Floats];
    return { x: (down as Any)(gate.silu().mul(up), { add: y }), k: turnedK, v };
  };
}

/** A quantized or cast copy of rows for the cache. */
function stored(rows: AnyTensor, dtype: nn.CacheDType): AnyTensor {
  return dtype === "q8_0" ? quantize(rows, dtype) as AnyTensor : (rows as Any).astype(dtype);
}

/**
 * Asks `weights` for the layers of a model. Call `weights.done` or `load` before the function that it
 * returns is used.
 */
export function llama(weights: nn.Weights, config: LlamaConfig, cache: nn.CacheDType): Step {
  const names = weights.has(GGUF.embedding) ? GGUF : TRANSFORMERS;
  const { vocabulary, hidden, layers, epsilon, kvHeads, headDimensions } = config;
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
  const blocks = weights.list(names.blocks, layers, (w) => block(w as Any, names, config));
  const norm = weights.rmsNorm(names.norm, hidden, { epsilon }) as Any;
  // Many models multiply by the embedding.
  const head = weights.has(names.output) ? names.output : names.embedding;
  const output = weights.linear(head, vocabulary, hidden, { bias: false }) as Any;
  return (ids, angles, { data, length }, wanted) => {
    const whole = data as Any;
    let x = embedding(ids) as Any;
    const rows: AnyTensor[] = [];
    blocks.forEach((run, i) => {
      const [keys, values] = [whole.slice(i, 0), whole.slice(i, 1)];
      const made = run(x, angles, { keys, values, length });
      x = made.x;
      rows.push(stored(made.k, cache), stored(made.v, cache));
    });
    const count = ids.shape[0]!;
    const all = (stack(rows) as Any).reshape([layers, 2, kvHeads, count, headDimensions]);
    if (wanted === "none") return { logits: undefined, rows: all };
    const last = wanted === "all" ? x : x.take(wanted, 0);
    return { logits: output(norm(last)), rows: all };
  };
}
