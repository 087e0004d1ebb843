/**
 * Encoders of GGUF files: those of llama.cpp's converter against transformers, from texts to vectors,
 * and metadata that does not fit.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { test } from "node:test";
import { FormatError, fromBuffer, memory } from "../../mod.ts";
import { Reader } from "../../src/llm/config/reader.ts";
import { ENCODERS } from "../../src/models/encoders/families.ts";
import { Embedder, type Pooling } from "../../src/models/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as tokenizers from "../../src/tokenizers/mod.ts";
import { testOnBackends } from "../compile/support.ts";
import { distance, floatsOf, type Vector } from "../llm/models.ts";
import type { GgufValue } from "../support/gguf.ts";
import { gguf, ggufOf } from "./gguf.ts";
import { padded, statesBy } from "./golden.ts";

const { texts, models } = gguf;

/** How far numbers may be off. */
function allowed(numbers: Float32Array): number {
  return 1e-4 * numbers.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
}

for (const [name, golden] of Object.entries(models)) {
  testOnBackends(`${name} of a GGUF file as transformers`, async () => {
    const bytes = ggufOf(golden);
    const wanted = floatsOf(golden.states);
    using weights = await nn.open(bytes);
    const reader = new Reader((key) => weights.metadata.get(key), "model.gguf");
    const architecture = golden.metadata["general.architecture"]![1];
    const family = ENCODERS.find(({ gguf }) => gguf === architecture)!;
    const encoder = family.makeOfGguf!(weights, reader, {});
    weights.done({ ignore: ["dense_*"] });
    using ids = padded(golden.ids, 0);
    using lengths = fromBuffer(Int32Array.from(golden.ids, (row) => row.length));
    using states = statesBy(encoder, { ids, lengths });
    const all = states.toTypedArray(), width = ids.shape[1] * encoder.hidden;
    const made = golden.ids.flatMap((row, i) => [
      ...all.subarray(i * width, i * width + row.length * encoder.hidden),
    ]);
    const off = distance(Float32Array.from(made), wanted);
    assert(off <= allowed(wanted), `states are ${off} off, and may be ${allowed(wanted)}`);
    // From texts to vectors: the tokenizer, the pooling and the products after it.
    using embedder = await Embedder.open({ "model.gguf": bytes });
    const vectors = await embedder.embed(texts, { normalize: false });
    const far = distance(
      Float32Array.from(vectors.flatMap((x) => [...x])),
      floatsOf(golden.vectors),
    );
    assert(far <= allowed(floatsOf(golden.vectors)), `vectors are ${far} off`);
  });
  if (Object.keys(golden.types).length > 0) {
    test(`${name} in the converter's types of Q8_0 gives close vectors`, async () => {
      const bytes = ggufOf(golden, {}, [], golden.types);
      using weights = await nn.open(bytes);
      assertEquals(weights.info("token_embd.weight")!.dtype, "q8_0");
      const wanted = floatsOf(golden.vectors), size = wanted.length / texts.length;
      for (const quantize of [undefined, "int8"] as const) {
        using embedder = await Embedder.open({ "model.gguf": bytes }, { quantize });
        const made = await embedder.embed(texts, { normalize: false });
        for (const [i, x] of made.entries()) {
          const y = wanted.subarray(i * size, (i + 1) * size);
          const product = x.reduce((sum, one, j) => sum + one * y[j]!, 0);
          const cosine = product / (Math.hypot(...x) * Math.hypot(...y));
          assert(cosine > 0.9998 && cosine < 1 - 1e-9, `text ${i}: ${cosine}`);
        }
      }
    });
  }
  test(`${name} has the tokens of its own tokenizer`, async () => {
    using weights = await nn.open(ggufOf(golden));
    const tokenizer = await tokenizers.open(weights.metadata);
    const made = await tokenizer.encodeBatch(texts);
    assertEquals(made.map(({ ids }) => [...ids]), golden.ids.map((row) => [...row]));
  });
}

test("the pooling of the metadata, and another one", async () => {
  const { metadata, ids, states } = models.distilbert!;
  const hidden = metadata["bert.embedding_length"]![1] as number;
  const all = floatsOf(states).subarray(0, ids[0]!.length * hidden);
  const vectorOf = async (type: number | undefined, pooling?: Pooling): Promise<Vector> => {
    const changed: GgufValue | undefined = type === undefined ? type : ["uint32", type];
    const bytes = ggufOf(models.distilbert!, { "bert.pooling_type": changed });
    using embedder = await Embedder.open({ "model.gguf": bytes }, { pooling });
    return await embedder.embed(texts[0]!, { normalize: false });
  };
  const near = (a: Vector, b: Vector) => assert(distance(a, b) < 1e-4, `${distance(a, b)} apart`);
  const mean = await vectorOf(1);
  near(await vectorOf(undefined), mean);
  near(await vectorOf(2), all.subarray(0, hidden));
  near(await vectorOf(3), all.subarray(-hidden));
  near(await vectorOf(1, "cls"), all.subarray(0, hidden));
  assert(distance(mean, all.subarray(0, hidden)) > 0.01);
});

/** Changes of metadata, and a part of the message. */
const REFUSED: readonly (readonly [
  name: string,
  key: string,
  value: GgufValue | undefined,
  part: string,
])[] = [
  ["bert", "general.architecture", ["string", "neo-bert"], "neo-bert"],
  ["bert", "general.architecture", ["string", "modern-bert"], "modern-bert"],
  ["bert", "bert.pooling_type", ["uint32", 4], "pooling_type"],
  ["bert", "bert.pooling_type", ["uint32", 0], "pooling_type"],
  ["bert", "bert.attention.causal", ["bool", true], "causal"],
  ["bert", "bert.block_count", ["uint32", 2 ** 31], "block_count"],
  ["bert", "bert.block_count", ["uint32", 4], "blk.3"],
  ["bert", "bert.block_count", ["uint32", 0], "block_count"],
  ["bert", "bert.block_count", undefined, "block_count"],
  ["bert", "bert.attention.head_count", ["uint32", 5], "5 heads"],
  ["bert", "bert.attention.head_count", ["string", "4"], "head_count"],
  ["bert", "bert.embedding_length", ["uint32", 64], "token_embd"],
  ["bert", "bert.feed_forward_length", ["uint32", 47], "ffn_up"],
  ["bert", "bert.attention.layer_norm_epsilon", ["float32", -1], "epsilon"],
  ["bert", "bert.attention.layer_norm_epsilon", ["float32", NaN], "epsilon"],
  ["bert", "bert.context_length", ["float32", 1.5], "context_length"],
  ["nomic", "nomic-bert.expert_count", ["uint32", 8], "mixture"],
  ["modernbert", "modern-bert.hidden_activation", ["string", "swish2"], "hidden_activation"],
  ["modernbert", "modern-bert.attention.sliding_window", ["uint32", 0], "sliding_window"],
  ["modernbert", "modern-bert.attention.sliding_window_pattern", ["uint32", 0], "pattern"],
  ["modernbert", "modern-bert.vocab_size", ["uint32", 67], "token_embd"],
  ["gemma", "gemma-embedding.attention.head_count_kv", ["uint32", 3], "heads of keys"],
  ["gemma", "gemma-embedding.attention.key_length", ["uint32", 15], "15"],
  ["gemma", "gemma-embedding.rope.freq_base", ["float32", 0], "freq_base"],
  ["gemma", "gemma-embedding.rope.freq_base_swa", ["float32", -5], "freq_base_swa"],
  ["bert", "tokenizer.ggml.tokens", undefined, "tokenizer.ggml.tokens"],
  ["bert", "tokenizer.ggml.model", ["string", "rwkv"], "rwkv"],
];

test("metadata that does not fit is refused with the key, and leaves nothing", async () => {
  const before = memory().bytes;
  for (const [name, key, value, part] of REFUSED) {
    const bytes = ggufOf(models[name]!, { [key]: value });
    const about = `${key} ${value}`;
    const open = () => Embedder.open({ "model.gguf": bytes });
    const error = await assertRejects(open, FormatError, "", about) as Error;
    assert(error.message.includes(part), `${about}: ${error.message}`);
    assertEquals(memory().bytes, before, about);
  }
});
