/**
 * Damaged and hostile files of embedders and classifiers: an error of the library or a model that runs,
 * in bounded time, and nothing is left.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  ArgumentError,
  DTypeError,
  FormatError,
  io,
  memory,
  OutOfMemoryError,
  ShapeError,
  tensor,
} from "../../mod.ts";
import { Classifier, Embedder } from "../../src/models/mod.ts";
import { weight } from "../llm/models.ts";
import { loose } from "../support.ts";
import { isSampled } from "../support/amount.ts";
import { encoders, safetensorsOf } from "./golden.ts";
import { gguf, ggufOf } from "./gguf.ts";
import { tinyTokenizer } from "./tokenizer.ts";

type Files = Readonly<Record<string, string | Uint8Array>>;
type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** What files may have in place of a value. */
const WRONG: readonly unknown[] = [
  ...[null, true, false, -1, 0, 0.5, 7, 1e300, 2 ** 31, 2 ** 53, "", "x", "../..", "\ud800"],
  ...[[], [[]], [null], ["a"], {}, { a: 1 }, { __proto__: null, toString: 1 }],
  ...[new Array(2000).fill(0), "9".repeat(5000)],
];

const { tokenizer, config } = tinyTokenizer(96);
const embedder = encoders["bert"]!;
const modernBert = encoders["modernbert"]!;
const classifier = encoders["roberta with a head"]!;
const hidden: number = embedder.config["hidden_size"];

/** The values of the JSON files of an embedder. */
const EMBEDDER: Readonly<Record<string, unknown>> = {
  "config.json": embedder.config,
  "tokenizer.json": tokenizer,
  "tokenizer_config.json": config,
  "modules.json": ["Transformer", "Pooling", "Dense", "Normalize"].map((kind, i) => ({
    ...{ idx: i, name: `${i}`, path: i === 0 ? "" : `${i}_${kind}` },
    type: `sentence_transformers.models.${kind}`,
  })),
  "1_Pooling/config.json": { word_embedding_dimension: hidden, pooling_mode_mean_tokens: true },
  "2_Dense/config.json": {
    ...{ in_features: hidden, out_features: 7, bias: true },
    activation_function: "torch.nn.modules.activation.Tanh",
  },
  "sentence_bert_config.json": { max_seq_length: 20, do_lower_case: false },
  "config_sentence_transformers.json": { prompts: { query: "w1 " }, default_prompt_name: null },
};
const dense = {
  "linear.weight": tensor(weight("dense", [7, hidden]), { shape: [7, hidden] }),
  "linear.bias": tensor(weight("bias", [7])),
};
const WEIGHTS: Files = {
  "model.safetensors": safetensorsOf(embedder),
  "2_Dense/model.safetensors": io.encodeSafetensors(loose(dense)),
};
for (const one of Object.values(dense)) one.dispose();

const text = (values: Readonly<Record<string, unknown>>): Files =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, JSON.stringify(value)]));
const files: Files = { ...text(EMBEDDER), ...WEIGHTS };

/** The memory in use. */
const used = (): number => memory().bytes - memory().pooledBytes;

/** What the files of a model may fail with. */
const EXPECTED = [FormatError, ArgumentError, ShapeError, DTypeError, OutOfMemoryError];
/** Milliseconds of a processor; the usual ones are a hundredth of that. */
const LONGEST = 5000;

/** Opens and uses a model; throws for other errors than those of files, and if anything is left. */
async function use(
  kind: typeof Embedder | typeof Classifier,
  given: Files,
  about: string,
): Promise<"ran" | "refused"> {
  const before = used(), { user, system } = process.cpuUsage();
  let outcome: "ran" | "refused" = "ran";
  try {
    using model = await kind.open(given);
    if (model instanceof Embedder) await model.embed(["w1 w2", ""]);
    else await model.classify(["w1 w2", ""]);
  } catch (error) {
    const isExpected = EXPECTED.some((one) => error instanceof one);
    if (!isExpected) throw new Error(`${about}: ${(error as Error).stack}`);
    assert((error as Error).message.length < 2000, `${about}: a long message`);
    outcome = "refused";
  }
  const after = process.cpuUsage();
  const ms = (after.user - user + after.system - system) / 1000;
  assert(ms < LONGEST, `${about}: ${ms} ms`);
  // Garbage of other tests may be collected meanwhile.
  assert(used() <= before, `${about}: ${used() - before} bytes are left`);
  return outcome;
}

/** A value with each of its members replaced, one at a time, up to a depth. */
function* replaced(value: unknown, wrong: unknown, depth = 3): Generator<readonly [string, Json]> {
  if (depth === 0 || typeof value !== "object" || value === null) return;
  for (const key of Object.keys(value)) {
    const put = (one: unknown): Json =>
      (Array.isArray(value)
        ? value.map((x, i) => String(i) === key ? one : x)
        : { ...value, [key]: one }) as Json;
    yield [key, put(wrong)];
    const own = (value as Record<string, unknown>)[key];
    for (const [rest, inner] of replaced(own, wrong, depth - 1)) {
      yield [`${key}.${rest}`, put(inner)];
    }
  }
}

/** Opens a model with each wrong value in each place of a file. */
async function tryValues(
  kind: typeof Embedder | typeof Classifier,
  base: Files,
  name: string,
  value: unknown,
  every: number,
): Promise<void> {
  const outcomes = { ran: 0, refused: 0 };
  for (const [i, wrong] of WRONG.entries()) {
    if (isSampled(`${kind.name} ${name} ${i}`, 4)) {
      outcomes[await use(kind, { ...base, [name]: JSON.stringify(wrong) }, `${name} = ${i}`)]++;
    }
    for (const [path, made] of replaced(value, wrong)) {
      const about = `${name}: ${path} = ${JSON.stringify(wrong).slice(0, 60)}`;
      if (!isSampled(`${kind.name} ${about}`, every)) continue;
      outcomes[await use(kind, { ...base, [name]: JSON.stringify(made) }, about)]++;
    }
  }
  assert(outcomes.refused > 0, name);
}

// The first model makes caches.
using first = await Embedder.open(files);
await first.embed(["w1 w2", ""]);

test("wrong values in the files of an embedder", async () => {
  assertEquals(await use(Embedder, files, "the files"), "ran");
  for (const [name, value] of Object.entries(EMBEDDER)) {
    if (name === "tokenizer.json" || name.startsWith("config_")) continue;
    await tryValues(Embedder, files, name, value, 64);
  }
  const modern = {
    ...text({ "tokenizer.json": tokenizer, "tokenizer_config.json": config }),
    "model.safetensors": safetensorsOf(modernBert),
  };
  await tryValues(Embedder, modern, "config.json", modernBert.config, 64);
});

test("wrong values in tokenizer.json", async () => {
  // Tokens have a test of their own.
  const small = { ...tokenizer, model: { ...tokenizer.model, vocab: { "[UNK]": 1, w1: 6 } } };
  const every = 128;
  for (const [i, wrong] of WRONG.entries()) {
    for (const [path, made] of replaced(small, wrong)) {
      const about = `tokenizer.json: ${path} = ${i}`;
      if (!isSampled(about, every)) continue;
      const { model, ...rest } = made as { model?: unknown };
      const isModel = typeof model === "object" && model !== null;
      const { vocab } = tokenizer.model;
      const own = isModel && !path.startsWith("model.vocab")
        ? { ...rest, model: { ...model, vocab } }
        : made;
      await use(Embedder, { ...files, "tokenizer.json": JSON.stringify(own) }, about);
    }
  }
});

test("ids beyond the rows of the embedding", async () => {
  for (const id of [96, 1e6, 2 ** 31 - 1, -1, 2 ** 40]) {
    const vocab = { ...tokenizer.model.vocab, w1: id };
    const own = { ...tokenizer, model: { ...tokenizer.model, vocab } };
    const given = { ...files, "tokenizer.json": JSON.stringify(own) };
    assertEquals(await use(Embedder, given, `an id of ${id}`), "refused");
  }
});

test("wrong values in the files of a classifier", async () => {
  const base: Files = {
    ...text({ "tokenizer.json": tokenizer, "tokenizer_config.json": config }),
    "model.safetensors": safetensorsOf(classifier),
  };
  const own = { ...classifier.config, id2label: { 0: "a", 1: "b", 2: "c" } };
  assertEquals(
    await use(Classifier, { ...base, "config.json": JSON.stringify(own) }, "the files"),
    "ran",
  );
  await tryValues(Classifier, base, "config.json", own, 64);
});

test("damaged weights", async () => {
  const whole = WEIGHTS["model.safetensors"] as Uint8Array;
  const header = Number(new DataView(whole.buffer, whole.byteOffset).getBigUint64(0, true));
  const cut = [0, 1, 7, 8, 9, 100, header, 8 + header, 9 + header, whole.length - 1];
  for (const length of cut) {
    const given = { ...files, "model.safetensors": whole.slice(0, length) };
    assertEquals(await use(Embedder, given, `${length} bytes`), "refused");
  }
  for (let i = 0; i < 300; i++) {
    if (!isSampled(`byte ${i}`, 8)) continue;
    const own = whole.slice();
    const at = Math.imul(i, 0x9e3779b9) >>> 0;
    own[at % (8 + header)]! ^= 1 << i % 8;
    await use(Embedder, { ...files, "model.safetensors": own }, `byte ${at % (8 + header)}`);
  }
  const info = JSON.parse(new TextDecoder().decode(whole.subarray(8, 8 + header)));
  for (const [name, one] of Object.entries(info) as [string, Record<string, Json>][]) {
    if (!isSampled(name, 8)) continue;
    for (
      const change of [
        ...[{ dtype: "F16" }, { dtype: "I64" }, { dtype: "F64" }, { shape: [1e9, 1e9] }],
        ...[{ shape: [] }, { shape: [-1] }, { data_offsets: [0, 2 ** 53] }],
      ]
    ) {
      const text = new TextEncoder().encode(
        JSON.stringify({ ...info, [name]: { ...one, ...change } }),
      );
      const own = new Uint8Array(8 + text.length + whole.length - 8 - header);
      new DataView(own.buffer).setBigUint64(0, BigInt(text.length), true);
      own.set(text, 8);
      own.set(whole.subarray(8 + header), 8 + text.length);
      const given = { ...files, "model.safetensors": own };
      const outcome = await use(Embedder, given, `${name}: ${JSON.stringify(change)}`);
      // Nothing reads the pooler.
      if (!name.startsWith("pooler")) assertEquals(outcome, "refused");
    }
  }
});

test("damaged GGUF files", async () => {
  for (const name of ["bert", "modernbert", "gemma"]) {
    const whole = ggufOf(gguf.models[name]!);
    for (let i = 0; i < 400; i++) {
      if (!isSampled(`${name} ${i}`, 40)) continue;
      const own = whole.slice(0, i % 4 === 0 ? (whole.length * i / 400) >>> 0 : whole.length);
      const at = (Math.imul(i, 0x9e3779b9) >>> 0) % 4000;
      if (i % 4 !== 0) own[at]! ^= 1 << i % 8;
      await use(Embedder, { "model.gguf": own }, `${name}, case ${i}`);
    }
  }
});
