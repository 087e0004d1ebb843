/**
 * Hostile configs of all families, as config.json and as metadata of GGUF: a FormatError, or sizes
 * that are numbers within limits, in bounded time.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import process from "node:process";
import { test } from "node:test";
import { FormatError } from "../../mod.ts";
import { Metadata } from "../../src/io/metadata.ts";
import { MOST } from "../../src/llm/config/reader.ts";
import { configOfGguf, configOfJson, type ModelConfig } from "../../src/llm/mod.ts";
import { isSampled } from "../support/amount.ts";
import { loose } from "../support.ts";
import { families } from "./families.ts";

type Values = Readonly<Record<string, unknown>>;

/** What files may have in place of a value. */
const WRONG: readonly unknown[] = [
  ...[null, true, false, -1, 0, 1, 0.5, 1e-300, 1e300, -1e300, NaN, Infinity, -Infinity, -0],
  ...[2 ** 31, 2 ** 32 - 1, 2 ** 53, 2n ** 64n, 5n, "", "1", "constructor", "__proto__", "\ud800"],
  ...[[], [1], [NaN], [[]], [null], [-1, -1], new Array(100).fill(1), new Array(5000).fill("x")],
  ...[{}, { __proto__: null }, { length: 3 }, { constructor: 1 }, { type: "yarn" }],
  ...[{ rope_type: "yarn", factor: 0 }, { rope_type: "yarn", factor: NaN }, { rope_type: [] }],
  ...[{ rope_type: "linear", factor: -4 }, { rope_type: "linear", factor: 1e300 }],
  ...[{ rope_type: "dynamic", factor: 0 }, { rope_type: "toString", factor: 1 }],
  { rope_type: "longrope", short_factor: [0], long_factor: [1e300], factor: 1 },
  { rope_type: "longrope", short_factor: new Array(8).fill(-1), long_factor: "x" },
  { rope_type: "llama3", factor: 8, low_freq_factor: 4, high_freq_factor: 4 },
  { rope_type: "llama3", factor: 0, low_freq_factor: 0, high_freq_factor: -1 },
  { rope_type: "yarn", factor: 4, beta_fast: 0, beta_slow: 0, mscale: -1, mscale_all_dim: 1e300 },
  { rope_type: "yarn", factor: 4, original_max_position_embeddings: 0 },
  { full_attention: {}, sliding_attention: {} },
  { full_attention: { rope_theta: 0 }, sliding_attention: { rope_theta: -1 } },
  ["full_attention"],
  ["full_attention", "sliding_attention", "conv", "constructor"],
];

/** Throws unless all numbers of a config are usable. */
function checkUsable(config: ModelConfig): void {
  const { layers, heads, kvHeads, headDimensions, hidden, rope, slidingRope } = config;
  const sizes = { layers, heads, kvHeads, headDimensions, hidden };
  for (const [name, size] of Object.entries(sizes)) {
    assert(Number.isSafeInteger(size) && size > 0 && size <= MOST.hidden, `${name} is ${size}`);
  }
  assert(config.vocabulary <= MOST.vocabulary && config.contextLength <= MOST.tokens);
  assertEquals(heads % kvHeads, 0);
  assert(config.layerKinds === undefined || config.layerKinds.length === layers);
  const window = config.slidingWindow ?? 1;
  assert(Number.isInteger(window) && window > 0, `${window}`);
  for (const one of [rope, slidingRope ?? rope]) {
    assert(one.dimensions % 2 === 0 && one.dimensions <= headDimensions);
    assert(one.base > 0 && Number.isFinite(one.base));
  }
  const { attentionScale = 1, attentionSoftCap = 1, logitSoftCap = 1 } = config;
  const { embeddingScale = 1, residualScale = 1, logitScale = 1 } = config;
  const factors = { attentionScale, embeddingScale, residualScale, logitScale };
  for (const [name, one] of Object.entries(factors)) {
    assert(Number.isFinite(Math.fround(one)), `${name} is ${one}`);
  }
  for (const cap of [attentionSoftCap, logitSoftCap]) {
    assert(Math.fround(cap) > 0 && Number.isFinite(Math.fround(cap)), `a limit of ${cap}`);
  }
}

/** Reads a config; returns whether it is one. Throws for other errors than those of files. */
function read(about: string, of: () => ModelConfig): boolean {
  const begin = process.cpuUsage().user;
  let config: ModelConfig;
  try {
    config = of();
  } catch (error) {
    assert(error instanceof FormatError, `${about}: ${error}`);
    return false;
  } finally {
    const seconds = (process.cpuUsage().user - begin) / 1e6;
    assert(seconds < 1, `${about}: ${seconds} s`);
  }
  try {
    checkUsable(config);
  } catch (error) {
    throw new Error(about, { cause: error });
  }
  return true;
}

const metadataOf = (values: Values): Metadata =>
  new Metadata(new Map(Object.entries(values).map(([key, value]) => [key, () => loose(value)])));

/** Keys that a config may have though none of the test models does. */
const MORE_JSON = [
  ...["rope_scaling", "rope_parameters", "layer_types", "sliding_window", "head_dim", "rope_theta"],
  ...["partial_rotary_factor", "no_rope_layers", "original_max_position_embeddings"],
  ...["attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar", "__proto__"],
  ...["sliding_window_pattern", "eos_token_id", "mlp_only_layers", "rope_local_base_freq"],
];
const MORE_GGUF = [
  ...["attention.sliding_window", "attention.sliding_window_pattern", "rope.scaling.type"],
  ...["rope.scaling.factor", "attn_logit_softcapping", "final_logit_softcapping", "vocab_size"],
  ...["rope.dimension_count", "rope.freq_base", "attention.key_length", "attention.scale"],
  ...["embedding_scale", "residual_scale", "logit_scale", "rope.scaling.attn_factor"],
];

for (const [name, { config, gguf, tensors }] of Object.entries(families.models)) {
  test(`hostile configs of ${name} are refused, or usable`, () => {
    const count = Object.keys(tensors).length;
    const ofJson = (json: unknown) => () => configOfJson(json, "config.json", count);
    assert(read(name, ofJson(config)));
    let refused = 0, used = 0;
    const run = (about: string, of: () => ModelConfig): void => {
      if (!isSampled(about, 6)) return;
      if (read(about, of)) used++;
      else refused++;
    };
    const keys = [...Object.keys(config), ...MORE_JSON];
    for (const key of keys.filter((key) => key !== "model_type")) {
      for (const [i, wrong] of WRONG.entries()) {
        // As JSON.parse makes it: __proto__ is a key as any other.
        const json = Object.fromEntries([...Object.entries(config), [key, wrong]]);
        run(`${name}, ${key} ${i}`, ofJson(json));
      }
    }
    for (const [i, wrong] of WRONG.entries()) read(`${name} is wrong ${i}`, ofJson(wrong));
    const base = gguf === undefined ? undefined : Object.entries(gguf.metadata)
      .map(([key, value]) => [key, Array.isArray(value) ? value[1] : value] as const);
    if (base !== undefined) {
      const start = `${base.find(([key]) => key === "general.architecture")![1]}.`;
      for (const key of [...base.map(([key]) => key), ...MORE_GGUF.map((key) => start + key)]) {
        if (!key.startsWith(start)) continue;
        for (const [i, wrong] of WRONG.entries()) {
          const values = Object.fromEntries([...base, [key, wrong]]);
          const more = { vocabulary: 96, tensors: count };
          run(`${name}, ${key} ${i}`, () => configOfGguf(metadataOf(values), "x.gguf", more));
        }
      }
    }
    assert(refused > 50 && used > 10, `${refused} ${used}`);
  });
}

test("an object with the config in its prototype has no config", () => {
  const [config] = Object.values(families.models).map(({ config }) => config);
  assertThrows(
    () => configOfJson(Object.create(config!), "config.json"),
    FormatError,
    "model_type",
  );
  for (const name of ["constructor", "__proto__", "toString", "hasOwnProperty"]) {
    const json = { ...config, model_type: name };
    assertThrows(() => configOfJson(json, "config.json"), FormatError, "model_type");
  }
});
