/**
 * The golden models as GGUF files: logits and tokens, metadata, and files that lack something.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { FormatError } from "../../mod.ts";
import * as llm from "../../src/llm/mod.ts";
import { testOnBackends } from "../compile/support.ts";
import type { GgufValue } from "../support/gguf.ts";
import { type Changes, ggufOf } from "./gguf.ts";
import { collect, distance, floatsOf, golden, temporary } from "./models.ts";

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
