/**
 * A model of each family, with all of its switches on, against transformers: logits of a text that is
 * longer than its windows, the tokens that follow, chunks of any size, and what sessions keep; from
 * safetensors, and from the GGUF file that llama.cpp's converter makes of it.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { test } from "node:test";
import { FormatError } from "../../mod.ts";
import * as llm from "../../src/llm/mod.ts";
import { FAMILIES } from "../../src/llm/families/registry.ts";
import { testOnBackends } from "../compile/support.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { families, ggufOf } from "./families.ts";
import { collect, distance, floatsOf, modelFolder } from "./models.ts";

const { prompt, models } = families;
const FLOAT32 = { cache: "float32" } as const;

/** On every backend, or in `npm test` on the usual one. */
const testModel: (name: string, body: () => Promise<void>) => void = RUNS_ALL
  ? testOnBackends
  : (name, body) => void test(name, body);

/** The largest logit, and how far logits may be off. */
function allowed(logits: Float32Array): number {
  return 1e-4 * logits.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
}

/** Compares all logits and the tokens that follow with those of transformers. */
async function check(model: llm.LanguageModel, name: string): Promise<void> {
  const { logits, tokens } = models[name]!;
  const expected = floatsOf(logits);
  using session = model.session();
  const off = distance(await session.logits(prompt, { all: true }), expected);
  assert(off <= allowed(expected), `logits are ${off} off, and may be ${allowed(expected)}`);
  const { all } = await collect(model.generate(prompt, { maxTokens: tokens.length }));
  assertEquals(all, [...tokens]);
}

for (const [name, golden] of Object.entries(models)) {
  testModel(`${name} as transformers`, async () => {
    using model = await llm.open(modelFolder(name, {}, { ...golden }), FLOAT32);
    await check(model, name);
    // One token at a time, and then back to what the session has.
    const expected = floatsOf(golden.logits);
    const { vocabulary } = model.config;
    const last = expected.slice(-vocabulary);
    using session = model.session({ capacity: 8 });
    let made = new Float32Array();
    for (let n = 1; n <= prompt.length; n++) {
      made = await session.logits(prompt.slice(0, n)) as Float32Array<ArrayBuffer>;
      const own = expected.subarray((n - 1) * vocabulary, n * vocabulary);
      const off = distance(made, own as Float32Array<ArrayBuffer>);
      assert(off <= allowed(expected), `token ${n} is ${off} off`);
    }
    using fork = session.fork();
    session.truncate(25);
    // The state of convolutions is there after whole pages.
    const kept = model.config.convolution === undefined ? 25 : 0;
    assertEquals(session.tokens, prompt.slice(0, kept));
    const other = [...prompt.slice(0, 20), 3, 5];
    for (const one of [session, fork]) {
      await one.logits(other);
      assert(distance(await one.logits(prompt), last) <= allowed(expected));
      assertEquals(one.tokens, prompt);
    }
  });
  if (golden.gguf === undefined) continue;
  testModel(`${name} of a GGUF file as transformers`, async () => {
    using model = await llm.open(ggufOf(golden), FLOAT32);
    await check(model, name);
  });
}

test("a text that is longer than the history of convolutions begins anew", async () => {
  const name = "lfm2", { tokens } = models[name]!;
  using model = await llm.open(modelFolder(name, { max_position_embeddings: 2048 }, models[name]), {
    ...FLOAT32,
  });
  const text = Array.from({ length: 900 }, (_, i) => (i * i * 7 + i * 3) % 96);
  using session = model.session();
  await session.logits([...prompt, ...text]);
  // Within the history of 256 tokens, and beyond it.
  session.truncate(prompt.length + 800);
  assertEquals(session.tokens.length, Math.floor((prompt.length + 800) / 32) * 32);
  const end = await session.logits([...prompt, ...text]);
  using other = model.session();
  const whole = await other.logits([...prompt, ...text]);
  assert(distance(end, whole) <= allowed(whole));
  session.truncate(prompt.length);
  assertEquals(session.tokens, []);
  const { all } = await collect(session.generate(prompt, { maxTokens: 5 }));
  assertEquals(all, tokens.slice(0, 5));
});

test("each family has a model here, and files of other families are refused by name", async () => {
  const types = new Set(Object.values(models).map(({ config }) => config.model_type));
  const architectures = new Set(
    Object.values(models).map(({ gguf }) => gguf?.metadata["general.architecture"]?.[1]),
  );
  // models_test.ts and gguf_test.ts have these.
  for (const type of ["llama", "smollm", "mistral", "qwen2", "qwen3"]) types.add(type);
  for (const type of ["llama", "mistral", "qwen2", "qwen3"]) architectures.add(type);
  for (const { gguf, transformers } of FAMILIES) {
    for (const type of transformers.types) assert(types.has(type), type);
    for (const name of gguf.architectures) assert(architectures.has(name), name);
  }
  const { config } = models.gemma2!;
  const changes = { model_type: "gemma3n_text" };
  const open = () => llm.open(modelFolder("gemma2", changes, { ...models.gemma2!, config }));
  await assertRejects(open, FormatError, "gemma3n_text");
});

/** Changes of config.json that a model refuses, and a part of the message. */
const REFUSED:
  readonly (readonly [name: string, changes: Record<string, unknown>, part: string])[] = [
    ["gemma2", { attn_logit_softcapping: -1 }, "attn_logit_softcapping"],
    ["gemma2", { attn_logit_softcapping: "50" }, "attn_logit_softcapping"],
    ["gemma2", { query_pre_attn_scalar: 0 }, "query_pre_attn_scalar"],
    ["gemma2", { hidden_activation: "gelu" }, "hidden_activation"],
    ["gemma2", { layer_types: ["sliding_attention"] }, "layer_types"],
    ["gemma2", { layer_types: ["conv", "full_attention"] }, "layer_types"],
    ["gemma2", { sliding_window: -5 }, "sliding_window"],
    ["gemma2", { use_bidirectional_attention: true }, "use_bidirectional_attention"],
    ["gemma3_text", { rope_parameters: { full_attention: {} } }, "full_attention"],
    ["gemma3_text", { num_hidden_layers: 1e9 }, "1000000000 layers"],
    ["granite", { logits_scaling: "8" }, "logits_scaling"],
    ["granite", { residual_multiplier: [] }, "residual_multiplier"],
    ["qwen3_moe", { num_local_experts: 1e9 }, "num_local_experts"],
    ["qwen3_moe", { num_local_experts: 7 }, "mlp.experts.7"],
    ["qwen3_moe", { num_local_experts: null, num_experts: 9 }, "mlp.experts.8"],
    ["qwen3_moe", { num_experts_per_tok: 9 }, "9 experts"],
    ["qwen3_moe", { num_experts_per_tok: 0 }, "num_experts_per_tok"],
    ["qwen3_moe", { mlp_only_layers: [5] }, "mlp_only_layers"],
    ["qwen3_moe", { moe_intermediate_size: 25 }, "[24, 48]"],
    ["gpt_oss", { swiglu_limit: 5 }, "swiglu_limit"],
    ["gpt_oss", { num_local_experts: 3 }, "mlp.experts"],
    ["gpt_oss", { num_experts_per_tok: 5 }, "5 experts"],
    ["smollm3", { no_rope_layers: [1, 1] }, "no_rope_layers"],
    ["smollm3", { no_rope_layers: [2, 1, 1, 1] }, "no_rope_layers"],
    ["smollm3", { no_rope_layers: "all" }, "no_rope_layers"],
    ["lfm2", { conv_L_cache: 1 }, "conv_L_cache"],
    ["lfm2", { conv_L_cache: 1e9 }, "conv_L_cache"],
    ["lfm2", { conv_L_cache: 4 }, "conv.conv"],
    ["lfm2", { layer_types: ["conv", "attention", "conv"] }, "layer_types"],
    ["lfm2", { block_auto_adjust_ff_dim: true, block_ffn_dim_multiplier: 1e300 }, "multiplier"],
    ["phi3", { rope_parameters: { rope_type: "su" } }, "su"],
    ["olmo2", { num_key_value_heads: 3 }, "heads"],
  ];

test("configs that do not fit are refused with the key", async () => {
  for (const [name, changes, part] of REFUSED) {
    const folder = modelFolder(name, changes, models[name]!);
    const about = `${name} ${JSON.stringify(changes)}`;
    const error = await assertRejects(() => llm.open(folder), FormatError, "", about) as Error;
    assert(error.message.includes(part), `${about}: ${error.message}`);
  }
});

/** Changes of metadata that a GGUF file may have, and a part of the message. */
const REFUSED_GGUF: readonly (readonly [
  name: string,
  key: string,
  value: readonly ["uint32" | "float32" | "bool" | "string", number | boolean | string | number[]],
  part: string,
])[] = [
  ["gemma2", "gemma2.attn_logit_softcapping", ["float32", -1], "attn_logit_softcapping"],
  ["gemma2", "gemma2.attention.sliding_window_pattern", ["uint32", 0], "sliding_window_pattern"],
  ["gemma2", "gemma2.attention.sliding_window", ["uint32", 2 ** 31], "sliding_window"],
  ["gemma3_text", "gemma3.rope.freq_base_swa", ["float32", 0], "base 0"],
  ["granite", "granite.rope.scaling.finetuned", ["bool", false], "finetuned"],
  ["granite", "granite.logit_scale", ["string", "8"], "logit_scale"],
  ["qwen3_moe", "qwen3moe.expert_count", ["uint32", 2 ** 31], "expert_count"],
  ["qwen3_moe", "qwen3moe.expert_count", ["uint32", 9], "ffn_gate_exps"],
  ["qwen3_moe", "qwen3moe.expert_used_count", ["uint32", 9], "9 experts"],
  ["gpt_oss", "gpt-oss.expert_feed_forward_length", ["uint32", 31], "ffn_gate_exps"],
  ["lfm2", "lfm2.shortconv.l_cache", ["uint32", 1], "l_cache"],
  ["lfm2", "lfm2.attention.head_count_kv", ["uint32", [0, 2]], "head_count_kv"],
  ["lfm2", "lfm2.attention.head_count_kv", ["uint32", [1, 2, 0]], "head_count_kv"],
  ["olmo2", "olmo2.expert_count", ["uint32", 8], "mixture of experts"],
  ["phi3", "phi3.rope.scaling.type", ["string", "none"], "longrope"],
];

test("metadata that does not fit is refused with the key", async () => {
  for (const [name, key, value, part] of REFUSED_GGUF) {
    const bytes = ggufOf(models[name]!, { [key]: value });
    const error = await assertRejects(() => llm.open(bytes), FormatError) as Error;
    assert(error.message.includes(part), `${key} ${value}: ${error.message}`);
  }
});
