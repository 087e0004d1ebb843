/**
 * The sizes of models in the metadata of GGUF files and in config.json, and what is wrong with them.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { FormatError } from "../../mod.ts";
import { Metadata } from "../../src/io/metadata.ts";
import { configOfGguf, configOfJson } from "../../src/llm/mod.ts";
import { type Any, loose } from "../support.ts";
import { golden } from "./models.ts";

type Values = Readonly<Record<string, unknown>>;

const metadataOf = (values: Values): Metadata =>
  new Metadata(
    new Map(
      Object.entries(values).filter(([, value]) => value !== undefined)
        .map(([key, value]) => [key, () => loose(value)]),
    ),
  );

/** The metadata of a model of an architecture. */
function gguf(architecture: string, changes: Values = {}): Values {
  const own = {
    block_count: 3,
    context_length: 128,
    embedding_length: 64,
    feed_forward_length: 80,
    "attention.head_count": 4,
    "attention.layer_norm_rms_epsilon": 1e-5,
    ...changes,
  };
  return {
    "general.architecture": architecture,
    ...Object.fromEntries(
      Object.entries(own).map(([key, value]) => [
        key.includes(":") ? key.slice(1) : `${architecture}.${key}`,
        value,
      ]),
    ),
  };
}

const ofGguf = (architecture: string, changes?: Values): Any =>
  configOfGguf(metadataOf(gguf(architecture, changes)), "x.gguf", 96);

test("sizes of GGUF files, with their defaults", () => {
  for (
    const [architecture, interleaved] of [
      ["llama", true],
      ["mistral", true],
      ["qwen2", false],
      ["qwen3", false],
    ] as const
  ) {
    assertEquals(ofGguf(architecture), {
      architecture,
      layers: 3,
      hidden: 64,
      intermediate: 80,
      heads: 4,
      kvHeads: 4,
      headDimensions: 16,
      vocabulary: 96,
      contextLength: 128,
      slidingWindow: undefined,
      epsilon: 1e-5,
      rope: { dimensions: 16, base: 10000, scaling: undefined, interleaved },
      endTokens: [],
    });
  }
});

test("what GGUF files say counts", () => {
  const made = ofGguf("qwen3", {
    "attention.head_count_kv": 2,
    "attention.key_length": 32,
    "attention.sliding_window": 100,
    "rope.dimension_count": 8,
    "rope.freq_base": 1e6,
    vocab_size: 70,
    ":tokenizer.ggml.eos_token_id": 2,
    ":tokenizer.ggml.eot_token_id": 5,
    ":tokenizer.ggml.eom_token_id": 2,
  });
  assertEquals([made.kvHeads, made.headDimensions, made.slidingWindow], [2, 32, 100]);
  assertEquals([made.rope.dimensions, made.rope.base, made.vocabulary], [8, 1e6, 70]);
  assertEquals(made.endTokens, [2, 5]);
});

test("scalings of GGUF files", () => {
  const scaling = (changes: Values): unknown => ofGguf("llama", changes).rope.scaling;
  assertEquals(scaling({ "rope.scaling.type": "none", "rope.scaling.factor": 4 }), undefined);
  assertEquals(scaling({ "rope.scaling.type": "linear", "rope.scaling.factor": 4 }), {
    ...{ type: "linear", factor: 4 },
  });
  const yarn = { "rope.scaling.type": "yarn", "rope.scaling.factor": 4 };
  assertEquals(scaling(yarn), { type: "yarn", factor: 4, originalLength: 128 });
  assertEquals(scaling({ ...yarn, "rope.scaling.original_context_length": 32 }), {
    ...{ type: "yarn", factor: 4, originalLength: 32 },
  });
  // As llama.cpp: linear without a type, by the old key too, and turned vectors grow in each type.
  const linear = { type: "linear", factor: 4 };
  assertEquals(scaling({ "rope.scaling.factor": 4 }), linear);
  assertEquals(scaling({ "rope.scale_linear": 4 }), linear);
  assertEquals(scaling({ "rope.scaling.factor": 4, "rope.scale_linear": 2 }), linear);
  assertEquals(scaling({ "rope.scaling.factor": 0 }), undefined);
  assertEquals(scaling({ "rope.scaling.factor": 1, "rope.scaling.attn_factor": 1 }), undefined);
  const grown = { "rope.scaling.attn_factor": 1.5 };
  assertEquals(scaling({ "rope.scale_linear": 4, ...grown }), { ...linear, attentionFactor: 1.5 });
  for (const more of [{}, { "rope.scaling.type": "none", "rope.scaling.factor": 4 }]) {
    assertEquals(scaling({ ...more, ...grown }), {
      ...{ type: "linear", factor: 1, attentionFactor: 1.5 },
    });
  }
  const more = { "rope.scaling.yarn_beta_fast": 16, "rope.scaling.yarn_beta_slow": 2 };
  assertEquals(scaling({ ...yarn, ...grown, ...more }), {
    ...{ type: "yarn", factor: 4, originalLength: 128, betaFast: 16, betaSlow: 2 },
    attentionFactor: 1.5 * (1 + 0.1 * Math.log(4)),
  });
});

test("longrope of GGUF files has its factors in tensors", () => {
  const values = metadataOf(gguf("llama", {
    "rope.scaling.type": "longrope",
    "rope.scaling.original_context_length": 32,
    "rope.scaling.attn_factor": 1.2,
  }));
  const [shortFactors, longFactors] = [1, 2].map((x) => Array(8).fill(x)) as [number[], number[]];
  const tensors = { vocabulary: 96, shortFactors, longFactors };
  assertEquals(configOfGguf(values, "x.gguf", tensors).rope.scaling, {
    ...{ type: "longrope", originalLength: 32, shortFactors, longFactors, attentionFactor: 1.2 },
  });
  const refused: [Any, string][] = [
    [{ vocabulary: 96, longFactors }, "rope_factors_short.weight"],
    [{ vocabulary: 96, shortFactors }, "rope_factors_long.weight"],
    [{ ...tensors, longFactors: [1, 2] }, "2 factors"],
    [{ ...tensors, longFactors: Array(8).fill(0) }, "frequency Infinity"],
    [{ ...tensors, shortFactors: Array(8).fill(NaN) }, "frequency NaN"],
  ];
  for (const [more, part] of refused) {
    assertThrows(() => configOfGguf(values, "x.gguf", more), FormatError, part);
  }
  const plain = metadataOf(gguf("llama"));
  assertEquals(configOfGguf(plain, "x.gguf", tensors).rope.scaling, {
    ...{ type: "longrope", originalLength: 128, shortFactors, longFactors, attentionFactor: 1 },
  });
  const linear = metadataOf(gguf("llama", { "rope.scaling.type": "linear" }));
  assertThrows(() => configOfGguf(linear, "x.gguf", tensors), FormatError, "only longrope");
});

test("sizes may be lists with the same number for each layer", () => {
  const made = ofGguf("qwen3", {
    "attention.head_count": [4, 4, 4],
    "attention.head_count_kv": [2, 2, 2],
    "attention.key_length": [32, 32, 32],
    "attention.value_length": [32, 32, 32],
    "rope.dimension_count": [8, 8, 8],
    feed_forward_length: [80, 80, 80],
  });
  assertEquals([made.heads, made.kvHeads, made.headDimensions], [4, 2, 32]);
  assertEquals([made.rope.dimensions, made.intermediate], [8, 80]);
  const json = ofJson({ intermediate_size: [80, 80, 80], num_key_value_heads: [2, 2, 2] });
  assertEquals([json.intermediate, json.kvHeads], [80, 2]);
  for (
    const list of [[80, 80, 81], [80, 80], [], [80, 80, NaN], ["80", "80", "80"], [1.5, 1.5, 1.5]]
  ) {
    const gguf = () => ofGguf("llama", { feed_forward_length: list });
    assertThrows(gguf, FormatError, "llama.feed_forward_length");
    assertThrows(() => ofJson({ intermediate_size: list }), FormatError, "intermediate_size");
  }
});

test("keys of positions and attention that may change results are refused, or known", () => {
  const taken: Values[] = [
    { "rope.scaling.finetuned": true, "rope.scaling.original_context_length": 32 },
    { "rope.scaling.factor": 0, "rope.scaling.original_context_length": 0 },
    { "attention.layer_norm_epsilon": 1e-6, "attention.causal": true },
    { "attention.value_length": 16, "attention.scale": 0.25, "attention.clamp_kqv": 0 },
    { "attention.sliding_window": 0, "attention.sliding_window_pattern": [true, false, true] },
    { "attention.sliding_window": 0, "attention.sliding_window_pattern": 2 },
    { "rope.scaling.yarn_ext_factor": -1, "rope.scaling.yarn_log_multiplier": 0, logit_scale: 1 },
  ];
  for (const changes of taken) assertEquals(ofGguf("llama", changes), ofGguf("llama"));
  const refused: Values[] = [
    ...[{ "rope.unheard_of": 1 }, { "attention.unheard_of": 0 }, { "rope.scaling.new": "x" }],
    ...[{ "rope.scaling.yarn_ext_factor": 0.5 }, { "rope.scaling.yarn_attn_factor": 2 }],
    ...[{ "rope.scaling.yarn_log_multiplier": 0.1 }, { "rope.scaling.alpha": 1000 }],
    ...[{ "rope.dimension_sections": [16, 24, 24, 0] }, { "rope.freq_base_swa": 1e4 }],
    ...[{ "attention.scale": 1 }, { "attention.causal": false }, { "attention.clamp_kqv": 8 }],
    ...[{ "attention.max_alibi_bias": 8 }, { "attention.value_length": 8 }, { logit_scale: 8 }],
    ...[{ "attention.temperature_scale": 0.1 }, { "attention.key_length_mla": 16 }],
    ...[{ attn_logit_softcapping: 50 }, { final_logit_softcapping: 30 }, { residual_scale: 0.2 }],
    { "rope.scaling.type": "su" },
  ];
  for (const changes of refused) {
    const [key] = Object.keys(changes);
    assertThrows(() => ofGguf("llama", changes), FormatError, `llama.${key}`);
  }
  // Those of another architecture are none of this one's.
  assertEquals(ofGguf("llama", { ":qwen2.rope.unheard_of": 1 }), ofGguf("llama"));
});

test("tokens that end a turn are known by their names", () => {
  const tokens = ["<unk>", "<s>", "</s>", "<|im_end|>", "a", "<|eot_id|>", "<end_of_turn>"];
  const ends = (changes: Values): unknown => ofGguf("llama", changes).endTokens;
  assertEquals(ends({ ":tokenizer.ggml.tokens": tokens }), [3, 5, 6]);
  const named = { ":tokenizer.ggml.tokens": tokens, ":tokenizer.ggml.eos_token_id": 2 };
  assertEquals(ends({ ...named, ":tokenizer.ggml.eot_token_id": 5 }), [2, 5, 3, 6]);
  // Ids that the vocabulary does not have are those of tokens that the file lacks.
  for (const id of [2 ** 32 - 1, -1, 96, 1.5, NaN, "2"]) {
    assertEquals(ends({ ":tokenizer.ggml.eos_token_id": id }), []);
  }
  for (const eos_token_id of [-1, 96, 1e9, null, []]) {
    assertEquals(ofJson({ eos_token_id }).endTokens, []);
  }
  const all = ["<|end|>", "<|endoftext|>", "<|eom_id|>", "<|end_of_text|>", "<end_of_utterance>"];
  const others = ["<|return|>", "<|call|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]"];
  assertEquals(ends({ ":tokenizer.ggml.tokens": [...all, ...others] }), [...Array(11).keys()]);
});

test("a vocabulary that is not UTF-8 has no names, and its numbers count", () => {
  const fail = (): never => {
    throw new FormatError("the metadata is not UTF-8", "x.gguf", 0);
  };
  const values = gguf("llama", { ":tokenizer.ggml.eos_token_id": 5 });
  const entries = Object.entries(values).map(([key, value]) => [key, () => loose(value)] as const);
  const metadata = new Metadata(new Map([...entries, ["tokenizer.ggml.tokens", fail]]));
  assertEquals(configOfGguf(metadata, "x.gguf", 96).endTokens, [5]);
});

test("sizes beyond what is read are refused before anything is made of them", () => {
  const sizes = ["block_count", "context_length", "embedding_length", "feed_forward_length"];
  const more = ["head_count", "head_count_kv", "key_length", "value_length", "sliding_window"];
  const keys = [
    ...[...sizes, "vocab_size", "rope.dimension_count"],
    ...["rope.scaling.original_context_length", ...more.map((key) => `attention.${key}`)],
  ];
  for (const key of keys) {
    for (const value of [1e9, 2 ** 31, 2 ** 53, 2n ** 53n, -1, NaN, 1.5, Infinity]) {
      // The number of layers is compared with the tensors of the file.
      if (key === "block_count" && (value === 1e9 || value === 2 ** 31)) continue;
      const error = assertThrows(() => ofGguf("llama", { [key]: value }), FormatError) as Error;
      assertEquals(error.message.includes(`llama.${key} is`), true, error.message);
    }
  }
  const jsonKeys = [
    ...["hidden_size", "intermediate_size", "max_position_embeddings", "num_attention_heads"],
    ...["num_key_value_heads", "head_dim", "vocab_size", "sliding_window"],
  ];
  for (const key of jsonKeys) {
    for (const value of [1e9, 2 ** 31, 2 ** 53, -1, 1.5, Infinity]) {
      const error = assertThrows(() => ofJson({ [key]: value }), FormatError) as Error;
      assertEquals(error.message.includes(`${key} is`), true, error.message);
    }
  }
  const yarn = { type: "yarn", factor: 2 };
  for (const value of [1e9, 2 ** 53, -1, 1.5]) {
    const rope_scaling = { ...yarn, original_max_position_embeddings: value };
    assertThrows(
      () => ofJson({ rope_scaling }),
      FormatError,
      "original_max_position_embeddings is",
    );
    assertThrows(() => ofJson({ partial_rotary_factor: value }), FormatError);
  }
  for (const value of [-1, 2, 1e9]) {
    assertThrows(() => ofJson({ rms_norm_eps: value }), FormatError, "epsilon");
  }
});

test("GGUF files that do not fit are refused, with the key", () => {
  const refused: [Values, string[]][] = [
    ...["block_count", "context_length", "embedding_length", "feed_forward_length"].flatMap((
      key,
    ): [Values, string[]][] => [
      [{ [key]: undefined }, [`llama.${key}`, "undefined"]],
      [{ [key]: 0 }, [`llama.${key}`, "0"]],
      [{ [key]: -1 }, [`llama.${key}`, "-1"]],
      [{ [key]: 1.5 }, [`llama.${key}`, "1.5"]],
      [{ [key]: "3" }, [`llama.${key}`, '"3"']],
      [{ [key]: NaN }, [`llama.${key}`, "NaN"]],
      [{ [key]: 2n ** 60n }, [`llama.${key}`]],
      [{ [key]: [1, 2] }, [`llama.${key}`]],
    ]),
    [{ "attention.head_count": 5 }, ["key_length", "12.8"]],
    [{ "attention.head_count_kv": 3 }, ["4 heads", "3 heads of keys"]],
    [{ "attention.head_count_kv": [1, 2, 4] }, ["head_count_kv"]],
    [{ "attention.layer_norm_rms_epsilon": undefined }, ["rms_epsilon"]],
    [{ "attention.key_length": 15, "rope.dimension_count": undefined }, ["15", "turned"]],
    [{ "rope.dimension_count": 18 }, ["18", "16", "turned"]],
    [{ "rope.freq_base": 0 }, ["base 0"]],
    [{ "rope.freq_base": "1" }, ["rope.freq_base"]],
    [{ "rope.scaling.type": "longrope" }, ["scaling.type", '"longrope"', "rope_factors"]],
    [{ "rope.scaling.type": "linear", "rope.scaling.factor": -1 }, ["factor -1"]],
    [{ expert_count: 8 }, ["mixture of experts"]],
    [{ vocab_size: 0 }, ["vocab_size", "0"]],
  ];
  for (const [changes, parts] of refused) {
    const error = assertThrows(() => ofGguf("llama", changes), FormatError, "x.gguf") as Error;
    for (const part of parts) {
      assertEquals(error.message.includes(part), true, `${error.message} has no ${part}`);
    }
  }
  for (const architecture of ["gemma", "", "toString", 3, undefined, ["llama"]]) {
    const values = { ...gguf("llama"), "general.architecture": architecture };
    const error = assertThrows(() => configOfGguf(metadataOf(values), "x.gguf"), FormatError);
    assertEquals((error as Error).message.includes("llama, mistral, qwen2, qwen3"), true);
  }
});

/** A config.json as transformers wrote it before version 5. */
const JSON_OF_LLAMA = {
  model_type: "llama",
  hidden_act: "silu",
  hidden_size: 64,
  intermediate_size: 80,
  max_position_embeddings: 128,
  num_attention_heads: 4,
  num_hidden_layers: 3,
  num_key_value_heads: 2,
  rms_norm_eps: 1e-5,
  rope_scaling: null,
  rope_theta: 5000,
  sliding_window: null,
  head_dim: null,
  vocab_size: 96,
  eos_token_id: 2,
};

const ofJson = (changes: Values = {}): Any =>
  configOfJson({ ...JSON_OF_LLAMA, ...changes }, "c.json");

test("sizes of config.json, old and new", () => {
  assertEquals(ofJson(), {
    architecture: "llama",
    layers: 3,
    hidden: 64,
    intermediate: 80,
    heads: 4,
    kvHeads: 2,
    headDimensions: 16,
    vocabulary: 96,
    contextLength: 128,
    slidingWindow: undefined,
    epsilon: 1e-5,
    rope: { dimensions: 16, base: 5000, scaling: undefined, interleaved: false },
    endTokens: [2],
  });
  const parameters = { rope_type: "default", rope_theta: 777, partial_rotary_factor: 0.5 };
  const made = ofJson({ rope_theta: undefined, rope_parameters: parameters });
  assertEquals(made.rope, { dimensions: 8, base: 777, scaling: undefined, interleaved: false });
  assertEquals(ofJson({ partial_rotary_factor: 0.4 }).rope.dimensions, 6);
  assertEquals(ofJson({ rope_theta: undefined }).rope.base, 10000);
  assertEquals(ofJson({ num_key_value_heads: undefined }).kvHeads, 4);
  assertEquals(ofJson({ head_dim: 32 }).headDimensions, 32);
  assertEquals(ofJson({ eos_token_id: [5, 6] }).endTokens, [5, 6]);
  assertEquals(ofJson({ eos_token_id: undefined }).endTokens, []);
});

test("attention to a window is what the architecture makes of it", () => {
  const window = (model_type: string, changes: Values = {}): unknown =>
    ofJson({ model_type, sliding_window: 32, ...changes }).slidingWindow;
  assertEquals([window("mistral"), window("llama")], [32, 32]);
  for (const qwen of ["qwen2", "qwen3"]) {
    assertEquals(window(qwen), undefined);
    assertEquals(window(qwen, { use_sliding_window: false }), undefined);
    assertEquals(window(qwen, { use_sliding_window: true }), 32);
    const types = (last: string): Values => ({
      use_sliding_window: true,
      layer_types: ["full_attention", "full_attention", last],
    });
    assertEquals(window(qwen, types("sliding_attention")), 32);
    assertEquals(window(qwen, types("full_attention")), undefined);
    const kinds = (changes: Values): unknown =>
      ofJson({ model_type: qwen, sliding_window: 32, use_sliding_window: true, ...changes })
        .layerKinds;
    assertEquals(kinds(types("sliding_attention")), ["full", "full", "sliding"]);
    assertEquals(kinds({ max_window_layers: 1 }), ["full", "sliding", "sliding"]);
    assertEquals([kinds({ max_window_layers: 0 }), kinds({ max_window_layers: 9 })], [
      ...[undefined, undefined],
    ]);
    assertEquals(window(qwen, { use_sliding_window: true, max_window_layers: 9 }), undefined);
  }
});

test("the layers of a GGUF file that have a window", () => {
  const of = (changes: Values): unknown => {
    const { slidingWindow, layerKinds } = ofGguf("mistral", changes);
    return [slidingWindow, layerKinds];
  };
  const size = { "attention.sliding_window": 32 }, key = "attention.sliding_window_pattern";
  assertEquals(of(size), [32, undefined]);
  assertEquals(of({ ...size, [key]: 2 }), [32, ["sliding", "full", "sliding"]]);
  assertEquals(of({ ...size, [key]: [false, true, true] }), [32, ["full", "sliding", "sliding"]]);
  assertEquals(of({ ...size, [key]: [true, true, true] }), [32, undefined]);
  assertEquals(of({ ...size, [key]: [false, false, false] }), [undefined, undefined]);
  assertThrows(() => of({ ...size, [key]: [true] }), FormatError, "1 layers");
  assertThrows(() => of({ ...size, [key]: 0 }), FormatError, key);
});

test("keys of config.json that are off or that transformers ignores are no matter", () => {
  const changes = {
    ...{ attention_dropout: 0.1, attention_bias: true, rope_interleaved: false, use_mrope: false },
    ...{ attn_logit_softcapping: null, _attn_implementation: "sdpa", max_window_layers: 3 },
    ...{ attention_softmax_in_fp32: true, scale_attn_weights: true, rotary_pct: 1 },
    ...{ logits_scaling: 1, residual_multiplier: 1.0, rescale_every: 0 },
    ...{ rope_scaling: { rope_type: "default", factor: 2 } },
  };
  assertEquals(ofJson(changes), ofJson());
  for (const key of ["logits_scaling", "residual_multiplier", "rotary_pct", "attn_scale"]) {
    assertThrows(() => ofJson({ [key]: 0.5 }), FormatError, key);
  }
});

test("scalings of config.json", () => {
  const original = { original_max_position_embeddings: 32 };
  const cases: [Values, unknown][] = [
    [{ rope_type: "default" }, undefined],
    [{ type: "linear", factor: 2 }, { type: "linear", factor: 2 }],
    [{ rope_type: "dynamic", factor: 2 }, { type: "dynamic", factor: 2, originalLength: 128 }],
    [
      { rope_type: "llama3", factor: 8, low_freq_factor: 1, high_freq_factor: 4, ...original },
      {
        ...{ type: "llama3", factor: 8, originalLength: 32 },
        ...{ lowFrequencyFactor: 1, highFrequencyFactor: 4 },
      },
    ],
    [
      { type: "yarn", factor: 4, beta_fast: 16, attention_factor: 0.5, ...original },
      {
        ...{ type: "yarn", factor: 4, originalLength: 32 },
        ...{ betaFast: 16, betaSlow: undefined, attentionFactor: 0.5 },
      },
    ],
    [
      { type: "yarn", factor: 40, mscale: 0.7, mscale_all_dim: 0.7, ...original },
      {
        ...{ type: "yarn", factor: 40, originalLength: 32 },
        ...{ betaFast: undefined, betaSlow: undefined, attentionFactor: 1 },
      },
    ],
    [
      {
        type: "longrope",
        short_factor: Array(8).fill(1),
        long_factor: Array(8).fill(2),
        ...original,
      },
      {
        ...{ type: "longrope", originalLength: 32, factor: 4, attentionFactor: undefined },
        ...{ shortFactors: Array(8).fill(1), longFactors: Array(8).fill(2) },
      },
    ],
  ];
  for (const [rope_scaling, expected] of cases) {
    assertEquals(ofJson({ rope_scaling }).rope.scaling, expected);
    // Files have both names of the kind; the new one counts.
    const { type, rope_type = type, ...others }: Values = rope_scaling;
    for (const old of [rope_type, "su"]) {
      const both = { ...others, type: old, rope_type };
      assertEquals(ofJson({ rope_scaling: both }).rope.scaling, expected);
    }
    // The length before the scaling may be beside it.
    const inner = { ...others, rope_type, original_max_position_embeddings: undefined };
    const beside = others.original_max_position_embeddings;
    const made = ofJson({ original_max_position_embeddings: beside, rope_scaling: inner });
    assertEquals(made.rope.scaling, expected);
  }
});

test("the config.json of each golden model is taken", () => {
  for (const [name, { config }] of Object.entries(golden.models)) {
    const made: Any = configOfJson(config, name);
    assertEquals(made.architecture, config.model_type);
    assertEquals(
      made.headDimensions,
      config.head_dim ?? config.hidden_size / config.num_attention_heads,
    );
    assertEquals(made.rope.base, config.rope_parameters.rope_theta);
  }
});

test("a config.json that does not fit is refused, with the key", () => {
  const keys = [
    ...["hidden_size", "intermediate_size", "max_position_embeddings", "num_attention_heads"],
    ...["num_hidden_layers", "vocab_size"],
  ];
  const refused: [Values, string[]][] = [
    ...keys.flatMap((key): [Values, string[]][] => [
      [{ [key]: undefined }, [key, "undefined"]],
      [{ [key]: null }, [key]],
      [{ [key]: 0 }, [key, "0"]],
      [{ [key]: 2.5 }, [key, "2.5"]],
      [{ [key]: "64" }, [key, '"64"']],
      [{ [key]: {} }, [key]],
    ]),
    [{ model_type: "gpt2" }, ["model_type", '"gpt2"', "llama, smollm, mistral"]],
    [{ model_type: undefined }, ["model_type", "undefined"]],
    [{ hidden_act: "gelu" }, ["hidden_act", '"gelu"', "silu"]],
    [{ rms_norm_eps: undefined }, ["rms_norm_eps"]],
    [{ num_key_value_heads: 3 }, ["4 heads", "3 heads of keys"]],
    [{ num_attention_heads: 5 }, ["head_dim", "12.8"]],
    [{ head_dim: 7 }, ["7", "turned"]],
    [{ partial_rotary_factor: 0.01 }, ["0 columns", "turned"]],
    [{ partial_rotary_factor: -1 }, ["-16 columns", "turned"]],
    [{ partial_rotary_factor: 2 }, ["32 columns", "turned"]],
    [{ rope_theta: "big" }, ["rope_theta", '"big"']],
    [{ rope_theta: -1 }, ["base -1"]],
    [{ rope_theta: undefined, rope_parameters: { rope_theta: "big" } }, ["rope_theta", '"big"']],
    [{ rope_scaling: { type: "su" } }, ['"su"', "longrope"]],
    [{ rope_scaling: { type: "linear" } }, ["factor", "undefined"]],
    [{ rope_scaling: { type: "linear", factor: 0 } }, ["factor 0"]],
    [{ rope_scaling: { type: "llama3", factor: 2 } }, ["low_freq_factor"]],
    [{ rope_scaling: { type: "yarn", factor: 2, truncate: 1 } }, ["truncate"]],
    [{ rope_scaling: { factor: 4 } }, ["factor", "rope_type"]],
    [{ rope_scaling: { type: "dynamic", factor: 2, alpha: 1000 } }, ["alpha", "1000"]],
    [{ rope_scaling: { full_attention: { rope_type: "default" } } }, ["full_attention"]],
    [{ rope_scaling: { type: "mrope", mrope_section: [16, 24, 24] } }, ["mrope_section"]],
    [{ rope_scaling: { type: "yarn", factor: 2, llama_4_scaling_beta: 0.1 } }, ["llama_4_scaling"]],
    [{ rope_scaling: 4 }, ["rope_scaling", "4"]],
    [{ rope_scaling: { type: "linear", factor: 2 }, rope_parameters: {} }, ["rope_parameters"]],
    [{ rope_interleaved: true }, ["rope_interleaved"]],
    [{ attention_multiplier: 0.5 }, ["attention_multiplier"]],
    [{ final_logit_softcapping: 30 }, ["final_logit_softcapping"]],
    [{ logits_scaling: 8 }, ["logits_scaling"]],
    [{ layer_types: ["full_attention", "linear_attention", "full_attention"] }, ["layer_types"]],
    [{ layer_types: ["full_attention"] }, ["layer_types", "1 layers"]],
    [{ rope_scaling: { type: "longrope" } }, ["0 factors", "8 frequencies"]],
    [{ rope_scaling: { type: "longrope", short_factor: ["a"] } }, ["short_factor"]],
    [{ rope_scaling: { type: "dynamic", factor: 2, original_max_position_embeddings: 0 } }, [
      ...["original_max_position_embeddings", "0"],
    ]],
    [{ eos_token_id: "</s>" }, ["eos_token_id"]],
    [{ sliding_window: "no" }, ["sliding_window"]],
  ];
  for (const [changes, parts] of refused) {
    const error = assertThrows(() => ofJson(changes), FormatError) as Error;
    for (const part of parts) {
      assertEquals(error.message.includes(part), true, `${error.message} has no ${part}`);
    }
  }
  for (const json of [null, undefined, [], "text", 3, true]) {
    assertThrows(() => configOfJson(json, "c.json"), FormatError, "model_type");
  }
});
