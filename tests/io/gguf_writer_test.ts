/**
 * The writer of GGUF files that other tests use: the library reads what it writes, and blocks are near
 * the numbers that they are made of.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fromBuffer, random } from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { QUANT, type QuantName } from "../../src/ops/quantized/formats.ts";
import { type Any, loose } from "../support.ts";
import { encodeBlocks } from "../support/blocks.ts";
import { ggufMetadata, writeGguf } from "../support/gguf.ts";
import { type LlamaSizes, randomLlama } from "../support/llama.ts";

/** The largest distance to numbers of a block, whose range is `range`, in steps of the format. */
const STEPS: Readonly<Record<QuantName, number>> = {
  q4_0: 16,
  q4_1: 15,
  q5_0: 32,
  q5_1: 31,
  q8_0: 254,
  q4_k: 15,
  q5_k: 31,
  q6_k: 63,
  iq4_nl: 10,
};

test("blocks are near their numbers, and equal if those are 0", () => {
  for (const [name, steps] of Object.entries(STEPS) as [QuantName, number][]) {
    const { size } = QUANT[name];
    const numbers = loose(random.normal(random.key(1), [40, size]));
    const values = numbers.toTypedArray() as Float32Array;
    values.fill(0, 0, size);
    const dtype = { dtype: name, shape: [40, size] };
    const decoded = loose(fromBuffer)(encodeBlocks(name, values), dtype).dequantize();
    const plain = loose(fromBuffer)(values, { shape: [40, size] });
    const range = plain.abs().max(1, { keepDims: true }).mul(2);
    // Scales of parts are rounded, too.
    const near = decoded.sub(plain).abs().lessEqual(range.mul(1.2 / steps));
    assert(near.all().item(), name);
    assert(!decoded.slice(1).equals(decoded.slice(2)));
  }
});

test("what is written is read: metadata of every type, and tensors", async () => {
  const metadata = ggufMetadata({
    "a.uint32": ["uint32", 2 ** 32 - 1],
    "a.int32": ["int32", -5],
    "a.float32": ["float32", 0.5],
    "a.bool": ["bool", true],
    "a.string": ["string", "grün"],
    "a.strings": ["string", ["", "🐈"]],
    "a.numbers": ["int32", [1, -2]],
  });
  const values = Float32Array.from({ length: 6 }, (_, i) => i);
  const bytes = writeGguf(metadata, 7, [
    { name: "x", type: 0, shape: [2, 3], bytes: new Uint8Array(values.buffer) },
    { name: "q", type: QUANT.q8_0.type, shape: [1, 32], bytes: new Uint8Array(34) },
    { name: "y", type: 0, shape: [6], bytes: new Uint8Array(values.buffer) },
  ]);
  using w = await nn.open(bytes);
  const found = w.metadata.keys().map((key) => w.metadata.get(key));
  assertEquals(found, [2 ** 32 - 1, -5, 0.5, true, "grün", ["", "🐈"], [1, -2]]);
  assertEquals((w.tensor("x") as Any).toArray(), [[0, 1, 2], [3, 4, 5]]);
  assertEquals((w.tensor("y") as Any).toArray(), [0, 1, 2, 3, 4, 5]);
  assertEquals((w.tensor("q") as Any).dequantize().toArray(), [new Array(32).fill(0)]);
});

test("random models have weights of the format, and are the same for a seed", async () => {
  const sizes: LlamaSizes = {
    ...{ layers: 1, width: 256, heads: 4, groups: 2, hidden: 512, vocabulary: 300 },
  };
  for (const format of ["q4_k", "iq4_nl"] as const) {
    const bytes = randomLlama(format, sizes);
    assertEquals(randomLlama(format, sizes), bytes);
    using w = await nn.open(bytes);
    const weight = w.tensor("blk.0.ffn_down.weight") as Any;
    assertEquals([weight.dtype, weight.shape], [format, [256, 512]]);
    const deviation = weight.dequantize().std().item() * 16;
    assert(deviation > 0.9 && deviation < 1.1, String(deviation));
    assertEquals((w.metadata.get("tokenizer.ggml.tokens") as string[]).length, 300);
  }
});

test("the golden tokens of random models are those of the models that are made now", () => {
  const { formats } = JSON.parse(
    readFileSync(new URL("../golden/models/random_llama.json", import.meta.url), "utf8"),
  );
  const hash = createHash("sha256").update(randomLlama("iq4_nl")).digest("hex");
  assertEquals(hash, formats.iq4_nl.sha256);
});
