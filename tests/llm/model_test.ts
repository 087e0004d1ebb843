/**
 * Models and sessions: chunks of prompts, what sessions keep, what ends a text, dtypes of caches, and
 * what is refused. models_test.ts compares with transformers.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Tokenizer } from "@huggingface/tokenizers";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { ArgumentError, DisposedError, FormatError, io, ones } from "../../mod.ts";
import * as llm from "../../src/llm/mod.ts";
import { testOnBackends } from "../compile/support.ts";
import { type Any, loose } from "../support.ts";
import { collect, distance, golden, modelFolder, temporary } from "./models.ts";

const { prompt: PROMPT, tokens: TOKENS } = golden.models.llama!;
const LLAMA = modelFolder("llama");
const VOCABULARY = 96;

const openLlama = (options: Any = {}): Promise<llm.LanguageModel> =>
  llm.open(LLAMA, { cache: "float32", ...options });

/** Tokens of a text of any length. */
const textOf = (n: number, seed = 1): number[] =>
  Array.from({ length: n }, (_, i) => (i * i * 31 + i * 7 + seed * 13) % VOCABULARY);

/** Notes the numbers of tokens of each step of a model. */
function counted(model: llm.LanguageModel): number[] {
  const sizes: number[] = [];
  const own = model.step;
  model.step = (call) => {
    sizes.push(sum(call.ids.map((ids) => ids.length)));
    return own.call(model, call);
  };
  return sizes;
}

const sum = (all: number[]): number => all.reduce((a, b) => a + b, 0);

/** The logits after a text, whose tokens are computed one at a time. */
async function oneByOne(model: llm.LanguageModel, ids: readonly number[]): Promise<Float32Array> {
  using session = model.session();
  let last = new Float32Array();
  for (let n = 1; n <= ids.length; n++) {
    last = await session.logits(ids.slice(0, n)) as Float32Array<ArrayBuffer>;
  }
  return last;
}

test("prompts of every length give the logits of one token at a time", async () => {
  using model = await openLlama();
  const text = textOf(150);
  // Of every length, one after the other.
  using slow = model.session();
  for (let n = 1; n <= text.length; n++) {
    const expected = await slow.logits(text.slice(0, n));
    if (n > 40 && n % 7 !== 0 && n < 126) continue;
    using session = model.session({ capacity: 8 });
    const made = await session.logits(text.slice(0, n));
    assert(distance(made, expected) < 1e-4, `${n}: ${distance(made, expected)}`);
    assertEquals(session.tokens, text.slice(0, n));
  }
});

test("all logits are those of each prefix", async () => {
  using model = await openLlama();
  const text = textOf(29);
  using session = model.session();
  const all = await session.logits(text, { all: true });
  assertEquals(all.length, 29 * VOCABULARY);
  for (const n of [1, 2, 16, 28, 29]) {
    using own = model.session();
    const expected = await own.logits(text.slice(0, n));
    const made = all.subarray((n - 1) * VOCABULARY, n * VOCABULARY);
    assert(distance(made, expected) < 1e-4, `${n}`);
  }
});

test("a session computes only what it has not seen", async () => {
  using model = await openLlama();
  using session = model.session({ capacity: 4 });
  const sizes = counted(model);
  const take = (): number => sum(sizes.splice(0));
  const text = textOf(40);
  await session.logits(text.slice(0, 30));
  assertEquals(take(), 30);
  await session.logits(text);
  assertEquals(take(), 10);
  // The same text: only its last token.
  const expected = await session.logits(text);
  assertEquals(take(), 1);
  // Another end.
  const other = [...text.slice(0, 20), ...textOf(5, 2)];
  const made = await session.logits(other);
  assertEquals(take(), 5);
  assert(distance(made, await oneByOne(model, other)) < 1e-4);
  take();
  // A prefix of what it has seen.
  await session.logits(text.slice(0, 12));
  assertEquals([take(), session.tokens], [1, text.slice(0, 12)]);
  assert(distance(await session.logits(text), expected) < 1e-4);
  assertEquals(take(), 28);
  // Another text.
  await session.logits(textOf(3, 5));
  assertEquals([take(), session.tokens], [3, textOf(3, 5)]);
  // Generated tokens are computed once.
  const { all } = await collect(session.generate(PROMPT, { maxTokens: 6 }));
  assertEquals(take(), PROMPT.length + 5);
  await session.logits([...PROMPT, ...all]);
  assertEquals(take(), 1);
});

test("a fork goes on by itself", async () => {
  using model = await openLlama();
  using session = model.session();
  await session.logits(PROMPT);
  const sizes = counted(model);
  using fork = session.fork();
  assertEquals(fork.tokens, session.tokens);
  const other = [...PROMPT, 3, 4, 5];
  const made = await fork.logits(other);
  assertEquals([sum(sizes), session.tokens.length, fork.tokens], [3, PROMPT.length, other]);
  assert(distance(made, await oneByOne(model, other)) < 1e-4);
  sizes.length = 0;
  const { all } = await collect(session.generate(PROMPT, { maxTokens: TOKENS.length }));
  assertEquals(all, [...TOKENS]);
  assertEquals(sum(sizes), TOKENS.length);
});

test("a session forgets tokens", async () => {
  using model = await openLlama();
  using session = model.session();
  await session.logits(PROMPT);
  session.truncate(4);
  assertEquals(session.tokens, PROMPT.slice(0, 4));
  const sizes = counted(model);
  const { all } = await collect(session.generate(PROMPT, { maxTokens: 5 }));
  assertEquals([all, sizes[0]], [TOKENS.slice(0, 5), PROMPT.length - 4]);
  session.truncate(0);
  assertEquals(session.tokens, []);
  for (const length of [-1, 1, 0.5, NaN, "0"]) {
    assertThrows(() => session.truncate(loose(length)), ArgumentError, "truncate");
  }
  // What tokens() gives is no part of the session.
  loose(session.tokens).push(1);
  assertEquals(session.tokens, []);
});

testOnBackends("two sessions at once give what each gives alone", async () => {
  using model = await openLlama();
  using a = model.session();
  using b = model.session();
  const other = textOf(20);
  const options = { maxTokens: 8 };
  const alone = await collect(model.generate(other, options));
  const [x, y] = await Promise.all([
    collect(a.generate(PROMPT, options)),
    collect(b.generate(other, options)),
  ]);
  assertEquals(x.all, TOKENS.slice(0, 8));
  assertEquals(y, alone);
});

test("a session that is generating refuses other calls, and works again after it", async () => {
  using model = await openLlama();
  using session = model.session();
  const tokens = session.generate(PROMPT, { maxTokens: 5 });
  assertEquals((await tokens.next()).value, TOKENS[0]);
  for (const call of [() => session.fork(), () => session.truncate(0)]) {
    assertThrows(call, ArgumentError, "generating");
  }
  await assertRejects(() => session.logits(PROMPT), ArgumentError, "generating");
  await assertRejects(() => session.generate(PROMPT).next(), ArgumentError, "generating");
  // What was refused has changed nothing.
  assertEquals((await tokens.next()).value, TOKENS[1]);
  await tokens.return("stop");
  session.truncate(2);
  const pending = session.logits(PROMPT);
  await assertRejects(() => session.logits(PROMPT), ArgumentError, "generating");
  assertEquals((await pending).length, VOCABULARY);
  for await (const id of session.generate(PROMPT)) {
    assertEquals(id, TOKENS[0]);
    break;
  }
  assertEquals((await collect(session.generate(PROMPT, { maxTokens: 3 }))).all, TOKENS.slice(0, 3));
  await assertRejects(async () => {
    for await (const _ of session.generate(PROMPT)) throw new RangeError("mine");
  }, RangeError);
  session.fork().dispose();
});

test("a signal ends a text, before and while it is made", async () => {
  using model = await openLlama();
  using session = model.session();
  const reason = new RangeError("no more");
  const ended = AbortSignal.abort(reason);
  const sizes = counted(model);
  const first = session.generate(PROMPT, { signal: ended }).next();
  await assertRejects(() => first, RangeError, "no more");
  const logits = session.logits(PROMPT, { signal: ended });
  await assertRejects(() => logits, RangeError, "no more");
  await assertRejects(() => openLlama({ signal: ended }), RangeError, "no more");
  assertEquals([sizes, session.tokens], [[], []]);
  // While a step runs, and between two.
  for (const between of [false, true]) {
    const controller = new AbortController();
    const made: number[] = [];
    const run = async (): Promise<void> => {
      for await (const id of session.generate(PROMPT, { signal: controller.signal })) {
        made.push(id);
        if (made.length !== 3) continue;
        if (between) controller.abort(reason);
        else queueMicrotask(() => controller.abort(reason));
      }
    };
    await assertRejects(run, RangeError, "no more");
    assertEquals(made.slice(0, 3), TOKENS.slice(0, 3));
    assert(made.length <= 4);
  }
  // In the middle of a long prompt.
  const controller = new AbortController();
  const long = session.logits(textOf(200), { signal: controller.signal });
  controller.abort(reason);
  await assertRejects(() => long, RangeError, "no more");
  assert(session.tokens.length < 200);
  const { all } = await collect(session.generate(PROMPT, { maxTokens: 4 }));
  assertEquals(all, TOKENS.slice(0, 4));
});

test("texts end by tokens, by their number, and by the context", async () => {
  using model = await openLlama();
  const run = (options: llm.GenerateOptions, ids: readonly number[] = PROMPT): Promise<Any> =>
    collect(model.generate(ids, options));
  assertEquals(await run({ maxTokens: 0 }), { all: [], end: "maxTokens" });
  assertEquals(await run({ maxTokens: 1 }), { all: [TOKENS[0]], end: "maxTokens" });
  const at = TOKENS.findIndex((id, i) => i > 2 && !TOKENS.slice(0, i).includes(id));
  assert(at > 0, "all tokens are the same");
  assertEquals(await run({ stopTokens: [TOKENS[at]!, 500] }), {
    ...{ all: TOKENS.slice(0, at), end: "stop" },
  });
  assertEquals(await run({ stopTokens: [TOKENS[0]!] }), { all: [], end: "stop" });
  // The end tokens of the file, unless others are given.
  using ends = await llm.open(modelFolder("llama", { eos_token_id: [TOKENS[at], 3] }), {
    ...{ cache: "float32" },
  });
  assertEquals(ends.config.endTokens, [TOKENS[at], 3]);
  assertEquals((await collect(ends.generate(PROMPT))).all, TOKENS.slice(0, at));
  const all = await collect(ends.generate(PROMPT, { stopTokens: [], maxTokens: at + 2 }));
  assertEquals(all.all, TOKENS.slice(0, at + 2));
});

test("the context limits a text", async () => {
  using model = await llm.open(modelFolder("llama", { max_position_embeddings: 16 }), {
    ...{ cache: "float32" },
  });
  const { all, end } = await collect(model.generate(PROMPT));
  // The last token is one that no other follows.
  assertEquals([all, end], [TOKENS.slice(0, 5), "contextLength"]);
  const four = await collect(model.generate(PROMPT, { maxTokens: 4 }));
  assertEquals([four.all, four.end], [TOKENS.slice(0, 4), "maxTokens"]);
  using session = model.session();
  const message = "context of 16";
  await assertRejects(() => session.logits(textOf(17)), ArgumentError, message);
  await assertRejects(() => session.generate(textOf(17)).next(), ArgumentError, message);
  assertEquals((await session.logits(textOf(16))).length, VOCABULARY);
});

testOnBackends("caches of each dtype give nearly the same logits", async () => {
  const text = textOf(40);
  let expected = new Float32Array();
  const errors = { float32: 1e-4, float16: 0.02, bfloat16: 0.15, q8_0: 0.15 };
  for (const [cache, error] of Object.entries(errors)) {
    using model = await openLlama({ cache });
    using session = model.session();
    await session.logits(text.slice(0, 30));
    const made = await session.logits(text);
    if (cache === "float32") expected = made as Float32Array<ArrayBuffer>;
    const off = distance(made, expected);
    assert(off < error && (cache === "float32" || off > 0), `${cache}: ${off}`);
    const bytes = { float32: 4, q8_0: 34 / 32 }[cache] ?? 2;
    // Two pages of 32 tokens.
    assertEquals(session.bytes, 2 * 2 * 1 * 64 * 32 * bytes);
  }
  using usual = await llm.open(LLAMA);
  using session = usual.session({ capacity: 5 });
  assertEquals(session.bytes, 0);
  await session.logits(text.slice(0, 3));
  assertEquals(session.bytes, 2 * 2 * 1 * 32 * 32 * 2);
});

test("q8_0 needs heads of whole blocks", async () => {
  const folder = modelFolder("mistral");
  const refused = (options: Any): Promise<unknown> =>
    assertRejects(() => llm.open(folder, options), ArgumentError);
  await refused({ cache: "q8_0" });
  (await llm.open(folder, { cache: "float16" })).dispose();
});

test("weights are cast if that is asked for", async () => {
  using model = await openLlama({ dtype: "float16" });
  using plain = await openLlama();
  using session = model.session();
  using other = plain.session();
  const off = distance(await session.logits(PROMPT), await other.logits(PROMPT));
  assert(off > 0 && off < 0.05, `${off}`);
});

test("sampling repeats with its seed", async () => {
  using model = await openLlama();
  const options = { maxTokens: 12, temperature: 1.5, topK: 30, topP: 0.95, seed: 4 };
  const first = await collect(model.generate(PROMPT, options));
  assertEquals(await collect(model.generate(PROMPT, options)), first);
  const other = await collect(model.generate(PROMPT, { ...options, seed: 5 }));
  assert(String(other.all) !== String(first.all));
  // A penalty this strong never repeats a token.
  const none = await collect(model.generate(PROMPT, { maxTokens: 20, repetitionPenalty: 1e30 }));
  assertEquals(new Set([...PROMPT, ...none.all]).size, new Set(PROMPT).size + 20);
});

/** Tokens as letters. */
const CODEC: llm.TextCodec = {
  encode: (text) => [...text].map((letter) => letter.charCodeAt(0) - 32),
  decode: (ids) => String.fromCharCode(...ids.map((id) => id + 32)),
};

test("texts are made of tokens, up to a stop text", async () => {
  using model = await openLlama();
  const expected = CODEC.decode([...TOKENS]);
  const prompt = CODEC.decode([...PROMPT]);
  for (const given of [prompt, PROMPT]) {
    const { all, end } = await collect(
      model.generateText(CODEC, given, { maxTokens: TOKENS.length }),
    );
    assertEquals([all.join(""), end], [expected, "maxTokens"]);
  }
  const stop = expected.slice(5, 8);
  const cut = expected.indexOf(stop);
  const made = await collect(model.generateText(CODEC, prompt, { stop: [stop, "never"] }));
  assertEquals([made.all.join(""), made.end], [expected.slice(0, cut), "stop"]);
  using session = model.session();
  // The session is free after a stop text, and after a break.
  await collect(session.generateText(CODEC, prompt, { stop }));
  for await (const _ of session.generateText(CODEC, prompt)) break;
  session.truncate(0);
  const refused = session.generateText(CODEC, prompt, { stop: "" });
  await assertRejects(() => refused.next(), ArgumentError, "stop");
  const unknown = session.generateText(CODEC, prompt, loose({ stops: "a" }));
  await assertRejects(() => unknown.next(), TypeError, "stops");
});

/** A tokenizer of letters, of which the last token ends a turn. */
const LETTERS = {
  normalizer: null,
  pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, use_regex: true },
  post_processor: null,
  decoder: { type: "ByteLevel" },
  added_tokens: [{ id: 95, content: "<|im_end|>", special: true, normalized: false }],
  model: {
    type: "BPE",
    vocab: Object.fromEntries(
      [...Array.from({ length: 94 }, (_, i) => String.fromCharCode(33 + i)), "\u0120"]
        .map((letter, id) => [letter, id]),
    ),
    merges: [],
  },
};

test("a tokenizer of @huggingface/tokenizers makes texts", async () => {
  using model = await openLlama();
  const tokenizer = new Tokenizer(LETTERS, {});
  const { ids } = tokenizer.encode("Who is it?");
  assertEquals(ids.length, 10);
  const made = await collect(model.generate(ids, { maxTokens: 6 }));
  // Both as a text and as tokens.
  for (const prompt of ["Who is it?", ids]) {
    const pieces = await collect(model.generateText(tokenizer, prompt, { maxTokens: 6 }));
    assertEquals(pieces.all.join(""), tokenizer.decode(made.all));
    assertEquals(pieces.end, "maxTokens");
  }
  const refused = async (encode: unknown, part: string): Promise<void> => {
    const codec = loose({ encode: () => encode, decode: () => "" });
    await assertRejects(() => model.generateText(codec, "a").next(), ArgumentError, part);
  };
  await refused({ input_ids: [1] }, "encode gave an object");
  await refused(Promise.resolve([1]), "encode gave an object");
  await refused({ ids: "12" }, "encode gave an object");
  await refused(undefined, "encode gave undefined");
  await refused({ ids: [] }, "at least one token");
  await refused({ ids: [1.5] }, "token 1.5");
});

test("the files of a folder's tokenizer name tokens that end a turn", async () => {
  const ends = async (files: Readonly<Record<string, unknown>>): Promise<unknown> => {
    const folder = modelFolder("llama", { eos_token_id: 2, added: Object.keys(files) });
    for (const [name, json] of Object.entries(files)) {
      writeFileSync(join(folder, name), JSON.stringify(json));
    }
    using model = await llm.open(folder);
    for (const name of Object.keys(files)) rmSync(join(folder, name));
    return model.config.endTokens;
  };
  const named = { content: "<|eot_id|>", special: true };
  assertEquals(await ends({}), [2]);
  assertEquals(await ends({ "generation_config.json": { eos_token_id: [2, 5] } }), [2, 5]);
  assertEquals(await ends({ "tokenizer.json": LETTERS }), [2, 95]);
  const config = { eos_token: { content: "<own>" }, added_tokens_decoder: { 7: named } };
  assertEquals(await ends({ "tokenizer_config.json": config, "tokenizer.json": LETTERS }), [2, 7]);
  const more = { ...config, added_tokens_decoder: { 7: named, 9: { content: "<own>" } } };
  assertEquals(await ends({ "tokenizer_config.json": more }), [2, 9, 7]);
  for (const odd of [null, [], 3, { added_tokens_decoder: [null, 3] }, { added_tokens: [null] }]) {
    assertEquals(await ends({ "tokenizer_config.json": odd, "tokenizer.json": odd }), [2]);
  }
});

test("tokens and options out of range are refused, and change nothing", async () => {
  using model = await openLlama();
  using session = model.session();
  await session.logits(PROMPT);
  const ids: [unknown, string][] = [
    [[], "at least one token"],
    ["text", "at least one token"],
    [undefined, "at least one token"],
    [new Int32Array([1]), "at least one token"],
    [[1, 96], "96"],
    [[-1], "-1"],
    [[1.5], "1.5"],
    [[NaN], "NaN"],
    [["1"], '"1"'],
    [[1n], "1"],
  ];
  for (const [given, part] of ids) {
    await assertRejects(() => session.logits(loose(given)), ArgumentError, part);
    await assertRejects(() => session.generate(loose(given)).next(), ArgumentError, part);
    await assertRejects(() => model.generate(loose(given)).next(), ArgumentError, part);
  }
  const options: [Any, Any][] = [
    [{ maxTokens: -1 }, ArgumentError],
    [{ maxTokens: 1.5 }, ArgumentError],
    [{ maxTokens: NaN }, ArgumentError],
    [{ maxTokens: "3" }, ArgumentError],
    [{ temperature: -1 }, ArgumentError],
    [{ topP: 2 }, ArgumentError],
    [{ stopTokens: 3 }, ArgumentError],
    [{ stopTokens: ["a"] }, ArgumentError],
    [{ max_tokens: 3 }, TypeError],
  ];
  for (const [given, kind] of options) {
    await assertRejects(() => session.generate(PROMPT, given).next(), kind);
  }
  for (const capacity of [0, -1, 1.5, "2"]) {
    assertThrows(() => model.session({ capacity: loose(capacity) }), ArgumentError, "capacity");
  }
  assertThrows(() => model.session(loose({ size: 1 })), TypeError, "size");
  await assertRejects(() => session.logits(PROMPT, loose({ every: true })), TypeError, "every");
  assertEquals(session.tokens, [...PROMPT]);
});

test("a model that is disposed ends its texts", async () => {
  const model = await openLlama();
  const session = model.session();
  const tokens = session.generate(PROMPT);
  await tokens.next();
  const next = tokens.next();
  model.dispose();
  model.dispose();
  await assertRejects(() => next, DisposedError);
  await assertRejects(() => session.logits(PROMPT), DisposedError);
  assertThrows(() => model.session(), DisposedError);
  await assertRejects(() => model.generate(PROMPT).next(), DisposedError);
  session.dispose();
});

test("a session that is disposed ends its text", async () => {
  using model = await openLlama();
  const session = model.session();
  const tokens = session.generate(PROMPT);
  await tokens.next();
  const next = tokens.next();
  session.dispose();
  session.dispose();
  await assertRejects(() => next, DisposedError);
  await assertRejects(() => session.logits(PROMPT), DisposedError);
  assertThrows(() => session.fork(), DisposedError);
  assertThrows(() => session.truncate(0), DisposedError);
  assertThrows(() => session.bytes, DisposedError);
  assertEquals((await collect(model.generate(PROMPT, { maxTokens: 2 }))).all, TOKENS.slice(0, 2));
});

test("files that do not fit their sizes are refused", async () => {
  const refused = async (changes: Any, ...parts: string[]): Promise<void> => {
    const error = await assertRejects(
      () => llm.open(modelFolder("llama", changes)),
      FormatError,
    ) as Error;
    for (const part of parts) assert(error.message.includes(part), error.message);
  };
  await refused({ hidden_size: 32, head_dim: 32 }, "[96, 64]", "[96, 32]");
  await refused({ vocab_size: 95 }, "[96, 64]", "[95, 64]");
  await refused({ num_hidden_layers: 3 }, "model.layers.2");
  await refused({ num_hidden_layers: 1 }, "model.layers.1");
  await refused({ num_hidden_layers: 1e9 }, "1000000000 layers");
  await refused({ num_key_value_heads: 2 }, "k_proj");
  await refused({ intermediate_size: 2 ** 20 }, "gate_proj");
  await refused({ model_type: "bert" }, "bert");
  using byFile = await llm.open(join(LLAMA, "model.safetensors"));
  assertEquals(byFile.config.hidden, 64);
  const bytes = io.encodeSafetensors({ x: ones([1]) });
  await assertRejects(() => llm.open(bytes), FormatError, "config.json");
  await assertRejects(() => llm.open(temporary("nothing")), Error, "nothing");
  await assertRejects(() => llm.open(LLAMA, loose({ caches: 1 })), TypeError, "caches");
  await assertRejects(() => llm.open(LLAMA, { cache: loose("int8") }), Error, "int8");
});
