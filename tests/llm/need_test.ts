/**
 * The memory that a model needs, by its headers, and models that need more than there is.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { closeSync, ftruncateSync, openSync, rmSync, writeFileSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { ArgumentError, OutOfMemoryError } from "../../mod.ts";
import * as llm from "../../src/llm/mod.ts";
import { ggufMetadata, type GgufValue, writeGguf } from "../support/gguf.ts";
import { loose } from "../support.ts";
import { families, ggufOf } from "./families.ts";
import { golden, modelFolder, temporary } from "./models.ts";

/** The bytes of float32 of all tensors. */
function bytesOf(tensors: Readonly<Record<string, readonly number[]>>): number {
  return Object.values(tensors).reduce((sum, shape) => sum + 4 * shape.reduce((a, b) => a * b), 0);
}

test("the memory of a model is that of its weights and of a cache", async () => {
  const { tensors } = golden.models.llama!;
  const folder = modelFolder("llama");
  const { weights, cache, bytes, free } = await llm.memory(folder);
  assertEquals([weights, cache], [bytesOf(tensors), 2 * 2 * 32 * 256 * 2]);
  assertEquals(bytes, weights + cache);
  assert(free !== undefined && free > 2 ** 20, `${free}`);
  const small = await llm.memory(folder, { context: 10, cache: "q8_0", dtype: "bfloat16" });
  assertEquals([small.weights, small.cache], [bytesOf(tensors) / 2, 2 * 2 * 32 * 10 * 34 / 32]);
  // The embedding makes logits, too.
  const tied = golden.models.qwen2!.tensors;
  const twice = bytesOf({ x: tied["model.embed_tokens.weight"]! });
  assertEquals((await llm.memory(modelFolder("qwen2"))).weights, bytesOf(tied) + twice);
  // Convolutions have no keys; MXFP4 becomes bfloat16.
  const { lfm2, "gpt_oss in mxfp4": oss } = families.models;
  const own = await llm.memory(modelFolder("lfm2", {}, lfm2), { cache: "float32" });
  assertEquals(own.cache, 1 * 2 * 2 * 12 * 256 * 4);
  const [file, safe] = [
    await llm.memory(ggufOf(oss!)),
    await llm.memory(modelFolder("oss", {}, oss)),
  ];
  assertEquals(file.weights, safe.weights);
  for (const context of [0, -1, 1.5, "2"]) {
    await assertRejects(
      () => llm.memory(folder, { context: loose(context) }),
      ArgumentError,
      "context",
    );
  }
  await assertRejects(() => llm.memory(folder, loose({ tokens: 1 })), TypeError, "tokens");
});

test("a model that needs more memory than there is, is refused before it is loaded", {
  skip: process.platform === "win32",
}, async () => {
  const [vocabulary, hidden] = [2 ** 22, 2 ** 17];
  const values: Record<string, GgufValue> = {
    "general.architecture": ["string", "llama"],
    "llama.block_count": ["uint32", 1],
    "llama.context_length": ["uint32", 128],
    "llama.embedding_length": ["uint32", hidden],
    "llama.feed_forward_length": ["uint32", 64],
    "llama.attention.head_count": ["uint32", 1024],
    "llama.attention.layer_norm_rms_epsilon": ["float32", 1e-5],
  };
  const bytes = writeGguf(ggufMetadata(values), Object.keys(values).length, [
    { name: "token_embd.weight", type: 0, shape: [vocabulary, hidden], bytes: new Uint8Array(0) },
  ]);
  const path = temporary("large.gguf");
  writeFileSync(path, bytes);
  // A sparse file.
  const descriptor = openSync(path, "r+");
  const size = 4 * vocabulary * hidden;
  ftruncateSync(descriptor, bytes.length + size);
  closeSync(descriptor);
  try {
    const error = await assertRejects(() => llm.open(path), OutOfMemoryError) as OutOfMemoryError;
    const { weights, bytes: needed, free } = await llm.memory(path, { context: 128 });
    assertEquals(weights, 2 * size);
    assertEquals([error.bytes, error.device], [needed, "cpu"]);
    for (const part of [String(weights), "are free", "checkMemory"]) {
      assert(error.message.includes(part), error.message);
    }
    assert(free! < needed);
  } finally {
    rmSync(path);
  }
});
