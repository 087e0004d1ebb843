/**
 * Embedders: the vectors of texts from the files of a model, with their pooling, modules and prompts.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { test } from "node:test";
import { ArgumentError, DisposedError, FormatError, io, memory, tensor, zeros } from "../../mod.ts";
import { Reader } from "../../src/llm/config/reader.ts";
import { modernBert } from "../../src/models/encoders/modern_bert.ts";
import { Embedder, type EmbedderOptions } from "../../src/models/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { distance, type Vector, weight } from "../llm/models.ts";
import { type Any, loose } from "../support.ts";
import { encoders, padded, safetensorsOf, statesBy } from "./golden.ts";
import { tinyTokenizer, wordsOf } from "./tokenizer.ts";

const golden = encoders["modernbert"]!;
const { vocab_size: size, hidden_size: hidden } = golden.config as {
  vocab_size: number;
  hidden_size: number;
};

/** The files of the model, with more or others. */
function files(more: Readonly<Record<string, unknown>> = {}): Record<string, Uint8Array | string> {
  const { tokenizer, config } = tinyTokenizer(size);
  const all: Record<string, unknown> = {
    "config.json": golden.config,
    "tokenizer.json": tokenizer,
    "tokenizer_config.json": config,
    "model.safetensors": safetensorsOf(golden),
    ...more,
  };
  return Object.fromEntries(
    Object.entries(all).filter(([, value]) => value !== undefined).map(([name, value]) => [
      name,
      typeof value === "string" || ArrayBuffer.isView(value)
        ? value as string
        : JSON.stringify(value),
    ]),
  );
}

const open = (more?: Readonly<Record<string, unknown>>, options?: EmbedderOptions) =>
  Embedder.open(files(more), options);

const norm = (x: Vector): number => Math.hypot(...Array.from(x));

test("vectors have length 1, and are the same alone and together", async () => {
  using embedder = await open();
  assertEquals(embedder.dimensions, hidden);
  const texts = Array.from(
    { length: 21 },
    (_, i) => wordsOf(Array.from({ length: 1 + i % 9 }, (_, j) => 5 + i + j)),
  );
  const all = await embedder.embed(texts);
  for (const [i, text] of texts.entries()) {
    const one = await embedder.embed(text);
    assert(Math.abs(norm(one) - 1) < 1e-6);
    assert(distance(one, all[i]!) < 2e-6, `${distance(one, all[i]!)} apart`);
  }
  assertEquals(await embedder.embed([]), []);
  assertEquals((await embedder.embed("")).length, hidden);
});

test("pooling: as asked for, by modules.json, by 1_Pooling, or the mean", async () => {
  const text = wordsOf([8, 9, 10]);
  const by = async (more: Readonly<Record<string, unknown>>, options?: EmbedderOptions) => {
    using embedder = await open(more, options);
    return await embedder.embed(text, { normalize: false });
  };
  const states = await statesOf(text);
  const rows = states.length / hidden;
  const row = (i: number): Float32Array => states.slice(i * hidden, (i + 1) * hidden);
  const mean = row(0).map((_, j) =>
    Array.from({ length: rows }, (_, i) => row(i)[j]!).reduce((a, b) => a + b) / rows
  );
  const max = row(0).map((_, j) => Math.max(...Array.from({ length: rows }, (_, i) => row(i)[j]!)));
  const modes = (name: string) => ({
    [`pooling_mode_${name}`]: true,
    pooling_mode_mean_tokens: false,
  });
  const modules = (...kinds: string[]) =>
    kinds.map((kind, i) => ({
      idx: i,
      path: i === 0 ? "" : `${i}_${kind}`,
      type: `sentence_transformers.models.${kind}`,
    }));
  const near = (made: Vector, wanted: Vector): void =>
    assert(distance(made, wanted) < 1e-5, `${distance(made, wanted)} apart`);
  near(await by({}), mean);
  near(await by({}, { pooling: "cls" }), row(0));
  near(await by({}, { pooling: "last" }), row(rows - 1));
  near(await by({}, { pooling: "max" }), max);
  near(await by({ "1_Pooling/config.json": modes("cls_token") }), row(0));
  const listed = {
    "modules.json": modules("Transformer", "Pooling", "Normalize"),
    "1_Pooling/config.json": modes("lasttoken"),
  };
  near(await by(listed), row(rows - 1));
  near(await by({ "1_Pooling/config.json": { pooling_mode: "max" } }), max);
  const fails = (more: Readonly<Record<string, unknown>>, text: string) =>
    assertRejects(() => open(more), FormatError, text);
  await fails(
    { "1_Pooling/config.json": modes("weightedmean_tokens") },
    "pooling_mode_weightedmean_tokens",
  );
  await fails(
    { "1_Pooling/config.json": { pooling_mode_cls_token: true, pooling_mode_max_tokens: true } },
    "at once",
  );
  await fails({ "modules.json": modules("Transformer", "LSTM") }, "LSTM");
  await fails({ "modules.json": [{ type: "x.Pooling", path: "../other" }] }, "../other");
});

/** The states of the tokens of a text. */
async function statesOf(text: string): Promise<Float32Array> {
  using weights = await nn.open(safetensorsOf(golden));
  const reader = new Reader((key) => golden.config[key], "config.json");
  const encoder = modernBert(weights, reader, {});
  weights.done();
  const ids = [2, ...text.split(" ").map((word) => Number(word.slice(1)) + 5), 3];
  using tokens = padded([ids], 0);
  using lengths = tensor([ids.length], { dtype: "int32" });
  using states = statesBy(encoder, { ids: tokens, lengths });
  return states.toTypedArray().slice();
}

test("modules of products follow the pooling", async () => {
  const [shape, bias] = [[7, hidden], weight("bias", [7])];
  const dense = weight("dense", shape);
  const files = {
    "modules.json": ["Transformer", "Pooling", "Dense", "Normalize"].map((kind, i) => ({
      path: i === 0 ? "" : `${i}_${kind}`,
      type: `sentence_transformers.models.${kind}`,
    })),
    "1_Pooling/config.json": { pooling_mode_mean_tokens: true },
    "2_Dense/config.json": {
      ...{ in_features: hidden, out_features: 7, bias: true },
      activation_function: "torch.nn.modules.activation.Tanh",
    },
    "2_Dense/model.safetensors": io.encodeSafetensors(loose({
      "linear.weight": tensor(dense, { shape: [7, hidden] }),
      "linear.bias": tensor(bias),
    })),
  };
  using plain = await open();
  using embedder = await open(files);
  assertEquals(embedder.dimensions, 7);
  const [x, y] = [
    await plain.embed("w3", { normalize: false }),
    await embedder.embed("w3", { normalize: false }),
  ];
  const wanted = Float32Array.from(
    { length: 7 },
    (_, i) =>
      Math.tanh(x.reduce((sum, value, j) => sum + value * dense[i * hidden + j]!, bias[i]!)),
  );
  assert(distance(y, wanted) < 1e-5);
  const bad = {
    ...files,
    "2_Dense/config.json": { in_features: hidden, out_features: 7, activation_function: "x.Swish" },
  };
  await assertRejects(() => open(bad), FormatError, "activation_function");
  await assertRejects(
    () => open({ ...files, "2_Dense/model.safetensors": undefined }),
    FormatError,
    "2_Dense",
  );
});

test("prompts, prefixes, dimensions and lengths", async () => {
  using embedder = await open({
    "config_sentence_transformers.json": { prompts: { query: "w1 w2 ", document: "" } },
    "sentence_bert_config.json": { max_seq_length: 6 },
  });
  assertEquals(embedder.prompts, { query: "w1 w2 ", document: "" });
  assertEquals(embedder.maxTokens, 6);
  const wanted = await embedder.embed("w1 w2 w9");
  assertEquals(await embedder.embed("w9", { prompt: "query" }), wanted);
  assertEquals(await embedder.embed("w9", { prefix: "w1 w2 " }), wanted);
  const short = await embedder.embed("w9", { dimensions: 5 });
  const whole = await embedder.embed("w9", { normalize: false });
  const length = norm(whole.slice(0, 5));
  assert(distance(short, whole.slice(0, 5).map((x) => x / length)) < 1e-6);
  // Four words between [CLS] and [SEP].
  assertEquals(await embedder.embed("w1 w2 w3 w4 w5 w6"), await embedder.embed("w1 w2 w3 w4"));
  await assertRejects(
    () => embedder.embed("w9", { prompt: "other" }),
    ArgumentError,
    "query, document",
  );
  await assertRejects(
    () => embedder.embed("w9", { dimensions: hidden + 1 }),
    ArgumentError,
    "dimensions",
  );
  await assertRejects(
    () => embedder.embed("w9", { dimension: 3 } as Any),
    TypeError,
    "dimension",
  );
  await assertRejects(() => embedder.embed(["w9", 3] as Any), ArgumentError, "3");
});

test("similarity and search", async () => {
  using embedder = await open();
  const texts = Array.from({ length: 30 }, (_, i) => wordsOf([5 + i, 7 + 2 * i, 9]));
  using matrix = await embedder.matrix(texts);
  assertEquals(matrix.shape, [30, hidden]);
  const found = await embedder.search(texts[11]!, matrix, { top: 3 });
  assertEquals(found.length, 3);
  assertEquals(found[0]!.index, 11);
  assert(Math.abs(found[0]!.score - 1) < 1e-5);
  assert(found[0]!.score >= found[1]!.score && found[1]!.score >= found[2]!.score);
  const again = await embedder.search(texts[11]!, texts, { top: 3 });
  assertEquals(again.map(({ index }) => index), found.map(({ index }) => index));
  const cosine = await embedder.similarity(texts[11]!, texts[found[1]!.index]!);
  assert(Math.abs(cosine - found[1]!.score) < 1e-5);
  assertEquals((await embedder.search("w1", texts.slice(0, 2))).length, 2);
  assertEquals(await embedder.search("w1", []), []);
  using scaled = matrix.mul(3);
  assertEquals((await embedder.search(texts[4]!, scaled, { top: 1 }))[0]!.index, 4);
});

test("search reads a matrix of float32 in place, as it was at the call", async () => {
  using embedder = await open();
  const texts = Array.from({ length: 30 }, (_, i) => wordsOf([5 + i, 7 + 2 * i, 9]));
  using few = await embedder.matrix(texts);
  const wanted = await embedder.search(texts[7]!, few, { top: 5 });
  const rows = 200_000, bytes = rows * hidden * 4;
  const matrix = zeros([rows, hidden]);
  matrix.set([`:${texts.length}`], few);
  await embedder.search(texts[7]!, matrix);
  const before = memory().bytes;
  const calls = [1, 2].map(() => embedder.search(texts[7]!, matrix, { top: 5 }));
  assertEquals(await Promise.all(calls), [wanted, wanted]);
  const more = memory().peakBytes - before;
  assert(more < bytes / 4, `${more} bytes more than the matrix of ${bytes}`);
  for (const change of [() => matrix.set([":"], 1), () => matrix.dispose()]) {
    matrix.set([`:${texts.length}`], few);
    matrix.set([`${texts.length}:`], 0);
    const found = embedder.search(texts[7]!, matrix, { top: 5 });
    change();
    assertEquals(await found, wanted);
  }
  await assertRejects(() => embedder.search(texts[7]!, matrix), DisposedError);
  // Other dtypes, and memory that code outside may change, are copied.
  for (const other of [few.astype("float64"), tensor(few.toTypedArray(), { shape: few.shape })]) {
    const found = await embedder.search(texts[7]!, other, { top: 5 });
    assertEquals(found.map(({ index }) => index), wanted.map(({ index }) => index));
    other.dispose();
  }
});

test("int8 weights give close vectors", async () => {
  using plain = await open();
  using int8 = await open({}, { quantize: "int8" });
  const [a, b] = [await plain.embed("w1 w2 w3"), await int8.embed("w1 w2 w3")];
  const cosine = a.reduce((sum, x, i) => sum + x * b[i]!, 0);
  assert(cosine > 0.99 && cosine < 1 - 1e-7, `${cosine}`);
});

test("a model that is disposed of, or aborted, leaves nothing", async () => {
  const before = memory().bytes;
  const embedder = await open();
  await embedder.embed("w1");
  embedder.dispose();
  embedder.dispose();
  await assertRejects(() => embedder.embed("w1"), DisposedError);
  const signal = AbortSignal.abort(new Error("stopped"));
  await assertRejects(() => open({}, { signal }), Error, "stopped");
  using other = await open();
  await assertRejects(() => other.embed(["w1"], { signal }), Error, "stopped");
  other.dispose();
  // What other tests have left may be collected meanwhile.
  assert(memory().bytes <= before, `${memory().bytes} bytes, and ${before} before`);
});

test("files that are missing or of other models", async () => {
  const fails = (more: Readonly<Record<string, unknown>>, text: string) =>
    assertRejects(() => open(more), FormatError, text);
  const changed = (changes: Readonly<Record<string, unknown>>) => ({
    "config.json": { ...golden.config, ...changes },
  });
  await fails({ "config.json": undefined }, "config.json");
  await fails({ "tokenizer.json": undefined }, "tokenizer.json");
  await fails({ "model.safetensors": undefined }, "weights");
  await fails({ "config.json": "{" }, "not JSON");
  await fails(changed({ model_type: "t5" }), "bert");
  await fails(changed({ num_hidden_layers: 10 ** 9 }), "layers");
  await fails(changed({ hidden_size: 33 }), "33");
  await fails(changed({ vocab_size: -1 }), "vocab_size");
  await fails(changed({ hidden_activation: "other" }), "hidden_activation");
  await fails(changed({ layer_types: ["full_attention"] }), "layer_types");
  await assertRejects(() => Embedder.open(7 as Any), ArgumentError, "7");
  await assertRejects(() => Embedder.open("no/model"), ArgumentError, "no/model");
  await assertRejects(() => open({}, { pooling: "sum" as Any }), ArgumentError, "sum");
  await assertRejects(() => open({}, { quantize: "int4" as Any }), ArgumentError, "int4");
  await assertRejects(() => open({}, { maxTokens: 0 }), ArgumentError, "maxTokens");
});
