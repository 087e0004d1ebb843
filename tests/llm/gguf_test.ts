/**
 * The golden models as GGUF files, as llama.cpp's converter writes them: rows of queries and keys of
 * Llama in pairs of neighbors, other names, and divisors of frequencies as a tensor.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { FormatError } from "../../mod.ts";
import * as llm from "../../src/llm/mod.ts";
import { testOnBackends } from "../compile/support.ts";
import { ggufMetadata, type GgufTensor, type GgufValue, writeGguf } from "../support/gguf.ts";
import { collect, distance, floatsOf, golden, temporary, weight } from "./models.ts";

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

interface Changes {
  readonly metadata?: Readonly<Record<string, GgufValue>>;
  readonly without?: string;
  /** More tensors of one axis. */
  readonly more?: readonly (readonly [name: string, data: Float32Array<ArrayBuffer>])[];
  /** A factor of the weights of queries. */
  readonly queries?: number;
}

/** A golden model as a GGUF file of an architecture. */
function ggufOf(
  name: string,
  architecture: string,
  { metadata, without, more = [], queries = 1 }: Changes = {},
) {
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

const ARCHITECTURES: [name: string, architecture: string][] = [
  ["llama", "llama"],
  ["llama3", "llama"],
  ["llama with biases", "llama"],
  ["yarn", "llama"],
  ["mistral", "mistral"],
  ["mistral", "llama"],
  ["qwen2", "qwen2"],
  ["qwen3", "qwen3"],
];

for (const [name, architecture] of ARCHITECTURES) {
  testOnBackends(`${name} of a GGUF file of ${architecture}`, async (backend) => {
    const { prompt, logits, tokens } = golden.models[name]!;
    const bytes = ggufOf(name, architecture);
    const path = temporary(`${name}.gguf`);
    writeFileSync(path, bytes);
    using model = await llm.open(backend === "js" ? bytes : path, { cache: "float32" });
    using session = model.session();
    const off = distance(await session.logits(prompt, { all: true }), floatsOf(logits));
    assert(off < 1e-4, `logits are ${off} off`);
    const { all } = await collect(model.generate(prompt, { maxTokens: tokens.length }));
    assertEquals(all, [...tokens]);
    assertEquals(model.metadata.get("general.architecture"), architecture);
  });
}

test("end tokens and sizes of the metadata count", async () => {
  const { prompt, tokens } = golden.models.llama!;
  const metadata: Record<string, GgufValue> = {
    "tokenizer.ggml.eos_token_id": ["uint32", tokens[3]!],
    "llama.vocab_size": ["uint32", 96],
  };
  using model = await llm.open(ggufOf("llama", "llama", { metadata }), { cache: "float32" });
  const at = tokens.indexOf(tokens[3]!);
  assertEquals(await collect(model.generate(prompt)), { all: tokens.slice(0, at), end: "stop" });
});

/** The logits of all tokens of a prompt. */
async function logitsOf(bytes: Uint8Array): Promise<Float32Array> {
  using model = await llm.open(bytes, { cache: "float32" });
  using session = model.session();
  return await session.logits(golden.models.llama!.prompt, { all: true });
}

testOnBackends("scalings of positions have the numbers of llama.cpp", async () => {
  const key = (name: string): string => `llama.rope.scaling.${name}`;
  const factor: Record<string, GgufValue> = { [key("factor")]: ["float32", 4] };
  const grown: Record<string, GgufValue> = { [key("attn_factor")]: ["float32", 1.5] };
  const linear: Record<string, GgufValue> = { ...factor, [key("type")]: ["string", "linear"] };
  const yarn: Record<string, GgufValue> = {
    ...factor,
    [key("type")]: ["string", "yarn"],
    [key("original_context_length")]: ["uint32", 16],
  };
  const of = (metadata: Changes["metadata"], more: Changes = {}) =>
    logitsOf(ggufOf("llama", "llama", { metadata, ...more }));
  const plain = await of({});
  const divided = await of(linear);
  assert(distance(plain, divided) > 1e-2);
  assertEquals(await of(factor), divided);
  assertEquals(await of({ "llama.rope.scale_linear": ["float32", 4] }), divided);
  // Queries and keys that grow by 1.5 are queries that grow by 2.25.
  for (const metadata of [{}, linear, yarn]) {
    const wanted = await of(metadata, { queries: 2.25 });
    assert(distance(await of(metadata), wanted) > 1e-2);
    const off = distance(await of({ ...metadata, ...grown }), wanted);
    assert(off < 1e-4, `logits are ${off} off`);
  }
});

testOnBackends(
  "longrope has its short factors up to the original length, then its long ones",
  async () => {
    const { length } = golden.models.llama!.prompt;
    const factors = (scale: number): Float32Array<ArrayBuffer> =>
      Float32Array.from({ length: 16 }, (_, i) => 1 + scale * i);
    const tensors = [["short", 0.5], ["long", 2]].map(([name, scale]) =>
      [`rope_factors_${name}.weight`, factors(scale as number)] as const
    );
    const of = (original: number) =>
      logitsOf(ggufOf("llama", "llama", {
        metadata: {
          "llama.rope.scaling.type": ["string", "longrope"],
          "llama.rope.scaling.original_context_length": ["uint32", original],
        },
        more: tensors,
      }));
    const by = (scale: number) =>
      logitsOf(ggufOf("llama", "llama", { more: [["rope_freqs.weight", factors(scale)]] }));
    const [short, long] = [await by(0.5), await by(2)];
    assert(distance(short, long) > 1e-2);
    assertEquals([await of(length), await of(length - 1)], [short, long]);
  },
);

test("names of tokens in the vocabulary end a text", async () => {
  const { prompt, tokens } = golden.models.llama!;
  const names = Array.from({ length: 96 }, (_, i) => i === tokens[2] ? "<|im_end|>" : `w${i}`);
  const metadata: Record<string, GgufValue> = { "tokenizer.ggml.tokens": ["string", names] };
  using model = await llm.open(ggufOf("llama", "llama", { metadata }), { cache: "float32" });
  const at = tokens.indexOf(tokens[2]!);
  assertEquals(await collect(model.generate(prompt)), { all: tokens.slice(0, at), end: "stop" });
});

test("files that lack something are refused", async () => {
  const refused = async (changes: Changes, ...parts: string[]): Promise<void> => {
    const error = await assertRejects(
      () => llm.open(ggufOf("llama", "llama", changes)),
      FormatError,
    ) as Error;
    for (const part of parts) assert(error.message.includes(part), error.message);
  };
  await refused({ without: "blk.1.ffn_up.weight" }, "blk.1.ffn_up.weight");
  await refused({ without: "output_norm.weight" }, "output_norm");
  const uint = (key: string, value: number): Changes => ({
    metadata: { [key]: ["uint32", value] },
  });
  await refused(uint("llama.block_count", 4_000_000_000), "4000000000 layers");
  await refused(uint("llama.block_count", 3), "blk.2");
  for (const key of ["context_length", "embedding_length", "attention.key_length", "vocab_size"]) {
    for (const value of [1e9, 2 ** 31]) {
      await refused(uint(`llama.${key}`, value), `llama.${key} is`);
    }
  }
  const factors = (name: string, data: number[]): Changes => ({
    more: [[name, Float32Array.from(data)]],
  });
  await refused(factors("rope_freqs.weight", [...Array(15).fill(1), 0]), "frequency Infinity");
  await refused(factors("rope_freqs.weight", [1, 2]), "2 factors");
  await refused(factors("rope_factors_long.weight", [1, 2]), "longrope");
  await refused(uint("llama.vocab_size", 97), "[96, 64]", "[97, 64]");
  await refused(uint("llama.attention.head_count", 0), "head_count");
  await refused(uint("llama.attention.head_count_kv", 2), "attn_k");
  await refused({ metadata: { "llama.rope.freq_base": ["float32", NaN] } }, "freq_base");
  await refused({ metadata: { "general.architecture": ["string", "mamba"] } }, "mamba");
});
