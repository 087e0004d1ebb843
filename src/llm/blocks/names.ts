/**
 * The names of tensors: what a block calls a tensor, and what files call it.
 *
 * @module
 */

/** The tensors of decoders by what they are for. Names within a layer have no prefix. */
export interface Names {
  /** Rows of tokens. */
  readonly embedding: string;
  /** The prefix of layers. */
  readonly layers: string;
  /** The norm before the output. */
  readonly norm: string;
  /** The product that makes logits; the embedding, if the file does not have it. */
  readonly output: string;

  /** The norms before and after attention. */
  readonly attentionNorm: string;
  readonly attentionPostNorm: string;
  /** The norms before and after the feed-forward part. */
  readonly mlpNorm: string;
  readonly mlpPostNorm: string;

  readonly q: string;
  readonly k: string;
  readonly v: string;
  /** All three as one tensor. */
  readonly qkv: string;
  readonly qNorm: string;
  readonly kNorm: string;
  readonly attentionOutput: string;
  /** A score of each head, which takes part in the softmax: the whole name. */
  readonly sinks: string;

  readonly gate: string;
  readonly up: string;
  /** Both as one tensor. */
  readonly gateUp: string;
  readonly down: string;

  /** The scores of experts. */
  readonly router: string;
  /** The prefix of the tensors of experts. */
  readonly experts: string;

  /** The products before and after a short convolution, and its kernel. */
  readonly convolutionInput: string;
  readonly convolution: string;
  readonly convolutionOutput: string;
}

/** The names in GGUF files, as llama.cpp's converter writes them. */
export const GGUF_NAMES: Names = {
  embedding: "token_embd",
  layers: "blk",
  norm: "output_norm",
  output: "output",
  attentionNorm: "attn_norm",
  attentionPostNorm: "post_attention_norm",
  mlpNorm: "ffn_norm",
  mlpPostNorm: "post_ffw_norm",
  q: "attn_q",
  k: "attn_k",
  v: "attn_v",
  qkv: "attn_qkv",
  qNorm: "attn_q_norm",
  kNorm: "attn_k_norm",
  attentionOutput: "attn_output",
  sinks: "attn_sinks.weight",
  gate: "ffn_gate",
  up: "ffn_up",
  gateUp: "ffn_up",
  down: "ffn_down",
  router: "ffn_gate_inp",
  experts: "",
  convolutionInput: "shortconv.in_proj",
  convolution: "shortconv.conv",
  convolutionOutput: "shortconv.out_proj",
};

/** The usual names of transformers. */
export const TRANSFORMERS_NAMES: Names = {
  embedding: "model.embed_tokens",
  layers: "model.layers",
  norm: "model.norm",
  output: "lm_head",
  attentionNorm: "input_layernorm",
  attentionPostNorm: "post_attention_layernorm",
  mlpNorm: "post_attention_layernorm",
  mlpPostNorm: "post_feedforward_layernorm",
  q: "self_attn.q_proj",
  k: "self_attn.k_proj",
  v: "self_attn.v_proj",
  qkv: "self_attn.qkv_proj",
  qNorm: "self_attn.q_norm",
  kNorm: "self_attn.k_norm",
  attentionOutput: "self_attn.o_proj",
  sinks: "self_attn.sinks",
  gate: "mlp.gate_proj",
  up: "mlp.up_proj",
  gateUp: "mlp.gate_up_proj",
  down: "mlp.down_proj",
  router: "mlp.gate",
  experts: "mlp.experts",
  convolutionInput: "conv.in_proj",
  convolution: "conv.conv",
  convolutionOutput: "conv.out_proj",
};
