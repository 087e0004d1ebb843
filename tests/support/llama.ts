/**
 * Models of the Llama family with random weights, as GGUF files.
 *
 * @module
 */
import { QUANT, type QuantName } from "../../src/ops/quantized/formats.ts";
import { encodeBlocks } from "./blocks.ts";
import { ggufMetadata, type GgufTensor, type GgufValue, writeGguf } from "./gguf.ts";

/** The sizes of a model. */
export interface LlamaSizes {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  /** Heads of keys and values. */
  readonly groups: number;
  /** The width of the feed-forward layers. */
  readonly hidden: number;
  /** The number of tokens, at least 300. */
  readonly vocabulary: number;
  /** The number of positions; 2048 by default. */
  readonly context?: number;
  /** The template of chats; none by default. */
  readonly template?: string;
}

/** A model whose products are as wide as those of large models, and that is small otherwise. */
export const WIDE: LlamaSizes = {
  layers: 2,
  width: 2048,
  heads: 32,
  groups: 8,
  hidden: 3072,
  vocabulary: 512,
};

/** The different blocks of a file: more would only take longer to make. */
const BLOCKS = 2048;
const FLOAT32 = 0;
/** Types of tokens. */
const NORMAL = 1, CONTROL = 3;

/** The characters that stand for bytes in vocabularies of GPT-2. */
function byteTexts(): string[] {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const shown = byte >= 33 && byte <= 126 || byte >= 161 && byte <= 172 || byte >= 174;
    return String.fromCodePoint(shown ? byte : next++);
  });
}

/** A tokenizer of bytes and pairs of letters, and of two tokens that are no text. */
function vocabularyOf(count: number): Record<string, GgufValue> {
  const bytes = byteTexts();
  const letters = [..."etaoinshrdlucmfwypvbgkjqxz"];
  const pairs = letters.flatMap((a) => letters.map((b) => [a, b] as const))
    .slice(0, count - bytes.length - 2);
  const control = ["<|begin|>", "<|end|>"];
  const tokens = [...control, ...bytes, ...pairs.map((pair) => pair.join(""))];
  return {
    "tokenizer.ggml.model": ["string", "gpt2"],
    "tokenizer.ggml.pre": ["string", "smollm"],
    "tokenizer.ggml.tokens": ["string", tokens],
    "tokenizer.ggml.token_type": ["int32", tokens.map((_, i) => i < 2 ? CONTROL : NORMAL)],
    "tokenizer.ggml.merges": ["string", pairs.map((pair) => pair.join(" "))],
    "tokenizer.ggml.bos_token_id": ["uint32", 0],
    "tokenizer.ggml.eos_token_id": ["uint32", 1],
    "tokenizer.ggml.add_bos_token": ["bool", false],
  };
}

/** Random numbers from 0 to 1, the same on every machine, by `seed`. */
function uniform(seed: number): () => number {
  let state = seed;
  return () => {
    state = state + 0x6d2b79f5 | 0;
    let mixed = Math.imul(state ^ state >>> 15, 1 | state);
    mixed = mixed + Math.imul(mixed ^ mixed >>> 7, 61 | mixed) ^ mixed;
    return ((mixed ^ mixed >>> 14) >>> 0) / 2 ** 32;
  };
}

/** A file of a Llama whose products have random weights of a format, by `seed`. */
export function randomLlama(
  format: QuantName,
  sizes: LlamaSizes = WIDE,
  seed = 1,
): Uint8Array<ArrayBuffer> {
  const { layers, width, heads, groups, hidden, vocabulary, context = 2048, template } = sizes;
  const { type, size, bytes } = QUANT[format];
  const next = uniform(seed);
  /** Nearly normal numbers, by sums and products that have one right result. */
  const normal = (count: number): Float32Array =>
    Float32Array.from({ length: count }, () => (next() + next() + next() + next() - 2) * 1.75);
  const tensors: GgufTensor[] = [];
  // Products keep the size of their inputs.
  const blocks = encodeBlocks(
    format,
    normal(BLOCKS * size).map((one) => one * Math.sqrt(1 / width)),
  );
  const matrix = (name: string, rows: number, columns: number): void => {
    const count = rows * columns / size;
    const made = new Uint8Array(count * bytes);
    for (let i = 0; i < count; i++) {
      const from = Math.floor(next() * BLOCKS) * bytes;
      made.set(blocks.subarray(from, from + bytes), i * bytes);
    }
    tensors.push({ name, type, shape: [rows, columns], bytes: made });
  };
  const norm = (name: string, scale = 1): void => {
    const weight = normal(width).map((value) => scale * (1 + value / 10));
    const whole = new Uint8Array(weight.buffer as ArrayBuffer);
    tensors.push({ name, type: FLOAT32, shape: [width], bytes: whole });
  };
  matrix("token_embd.weight", vocabulary, width);
  const few = width / heads * groups;
  for (let i = 0; i < layers; i++) {
    norm(`blk.${i}.attn_norm.weight`);
    matrix(`blk.${i}.attn_q.weight`, width, width);
    matrix(`blk.${i}.attn_k.weight`, few, width);
    matrix(`blk.${i}.attn_v.weight`, few, width);
    matrix(`blk.${i}.attn_output.weight`, width, width);
    norm(`blk.${i}.ffn_norm.weight`);
    matrix(`blk.${i}.ffn_gate.weight`, hidden, width);
    matrix(`blk.${i}.ffn_up.weight`, hidden, width);
    matrix(`blk.${i}.ffn_down.weight`, width, hidden);
  }
  // Logits of a standard deviation of 4: most best ones are further from the second than rounding is.
  norm("output_norm.weight", 4);
  matrix("output.weight", vocabulary, width);
  const values: Record<string, GgufValue> = {
    "general.architecture": ["string", "llama"],
    "general.name": ["string", "random"],
    "llama.block_count": ["uint32", layers],
    "llama.context_length": ["uint32", context],
    "llama.embedding_length": ["uint32", width],
    "llama.feed_forward_length": ["uint32", hidden],
    "llama.attention.head_count": ["uint32", heads],
    "llama.attention.head_count_kv": ["uint32", groups],
    "llama.attention.layer_norm_rms_epsilon": ["float32", 1e-5],
    "llama.rope.freq_base": ["float32", 10000],
    "llama.rope.dimension_count": ["uint32", width / heads],
    "llama.vocab_size": ["uint32", vocabulary],
    ...vocabularyOf(vocabulary),
    ...template !== undefined && { "tokenizer.chat_template": ["string", template] },
  };
  return writeGguf(ggufMetadata(values), Object.keys(values).length, tensors);
}
