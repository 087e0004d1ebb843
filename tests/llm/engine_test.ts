/**
 * Engines: texts that are generated together are those of each alone, whatever joins, leaves, begins
 * alike or is cancelled; limits, errors, and what is free afterwards.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { test } from "node:test";
import { ArgumentError, DisposedError, memory, QueueFullError } from "../../mod.ts";
import * as llm from "../../src/llm/mod.ts";
import { testOnBackends } from "../compile/support.ts";
import { loose } from "../support.ts";
import { families } from "./families.ts";
import { collect, golden, modelFolder } from "./models.ts";
import { RUNS_ALL } from "../support/amount.ts";

const VOCABULARY = 96;
const LONG = { max_position_embeddings: 2048 };

/** Tokens of a text of any length. */
const textOf = (n: number, seed = 1): number[] =>
  Array.from({ length: n }, (_, i) => (i * i * 31 + i * 7 + seed * 13) % VOCABULARY);

/** A text: its prompt, and how it is generated. */
interface Request {
  readonly ids: readonly number[];
  readonly options: llm.EngineGenerateOptions;
  /** After how many tokens it is cancelled. */
  readonly cancelled: number | undefined;
}

/** Texts of many lengths, of which some begin alike. */
function requestsOf(count: number): Request[] {
  const system = textOf(70, 5);
  return Array.from({ length: count }, (_, i) => {
    const own = textOf(1 + (i * 37) % 150, i);
    const ids = i % 3 === 1 ? [...system, ...own.slice(0, 40)] : own;
    const maxTokens = 3 + (i * 11) % 38;
    const sampling = i % 2 === 0 ? {} : { temperature: 0.9, topK: 20, topP: 0.95, seed: i };
    const penalties = i % 5 === 3 ? { frequencyPenalty: 0.5, repetitionPenalty: 1.1 } : {};
    return {
      ids,
      options: { maxTokens, stopTokens: [], speculate: i % 4 === 2, ...sampling, ...penalties },
      cancelled: i % 3 === 2 ? 1 + i % 7 : undefined,
    };
  });
}

/** The tokens of a request, up to where it is cancelled. */
async function run(engine: llm.Engine, { ids, options, cancelled }: Request): Promise<number[]> {
  const made: number[] = [];
  const controller = new AbortController();
  try {
    for await (const { id } of engine.generate(ids, { ...options, signal: controller.signal })) {
      made.push(id!);
      if (made.length === cancelled) controller.abort(new RangeError("enough"));
    }
  } catch (error) {
    assert(error instanceof RangeError, String(error));
  }
  return made;
}

/** Opens a model of a name with a long context. */
function openModel(name: string, options: llm.OpenOptions = {}): Promise<llm.LanguageModel> {
  const family = families.models[name];
  const folder = family === undefined
    ? modelFolder(name, LONG)
    : modelFolder(name, LONG, { ...family });
  return llm.open(folder, options);
}

/** Full attention, two with sliding windows, convolutions, and experts. */
const MODELS = [
  ...["llama", "gemma2", "lfm2", "mistral with a window", "gpt_oss", "qwen3_moe"],
];
/** In `npm test`, one model on the usual backend. */
const testModel = (name: string, body: (model: string) => Promise<void>): void => {
  for (const model of RUNS_ALL ? MODELS : MODELS.slice(0, 1)) {
    const whole = `${name}: ${model}`;
    if (RUNS_ALL) testOnBackends(whole, () => body(model));
    else test(whole, () => body(model));
  }
};

testModel("texts of an engine are those of each alone", async (name) => {
  using model = await openModel(name);
  const requests = requestsOf(RUNS_ALL ? 64 : 16);
  const alone: number[][] = [];
  for (const request of requests) {
    using engine = await llm.engine(model, { slots: 1, context: 512 });
    alone.push(
      await run(engine, { ...request, options: { ...request.options, speculate: false } }),
    );
  }
  using engine = await llm.engine(model, { context: 512 });
  const made = await Promise.all(requests.map((request) => run(engine, request)));
  assertEquals(made, alone);
  // With beginnings that are kept, in slots that were used, in another order.
  const again = await Promise.all(requests.toReversed().map((request) => run(engine, request)));
  assertEquals(again.toReversed(), alone);
  const { active, waiting, finished, cancelled, reused, kept, cached } = engine.stats;
  const { drafted, confirmed, steps, stepped } = engine.stats;
  // What repeats depends on the weights, and what is tried on the texts that run.
  const isTried = name === "llama" ? drafted > confirmed && confirmed > 0 : drafted > 0;
  assert(isTried && drafted >= confirmed, `${confirmed} of ${drafted} tokens were right`);
  assert(stepped > 2 * steps, `${stepped} tokens in ${steps} steps`);
  assertEquals([active, waiting, finished], [0, 0, 2 * requests.length]);
  assert(cancelled > 0 && reused > 0, `${cancelled} cancelled, ${reused} reused`);
  assertEquals(cached, kept);
});

const PROMPT = golden.models.llama!.prompt;

/** The tokens of a text, its pieces and why it ended. */
async function whole(tokens: AsyncGenerator<llm.GeneratedToken, llm.FinishReason>): Promise<{
  ids: (number | undefined)[];
  text: string;
  reason: llm.FinishReason;
}> {
  const { all, end: reason } = await collect(tokens);
  return { ids: all.map(({ id }) => id), text: all.map(({ text }) => text).join(""), reason };
}

/** Texts of letters, one for each token. */
const LETTERS: llm.TextCodec = {
  encode: (text) => [...text].map((letter) => letter.codePointAt(0)! - 32),
  decode: (ids) => ids.map((id) => String.fromCodePoint(id + 32)).join(""),
};

testOnBackends("an engine gives the tokens of a session", async () => {
  using model = await openModel("llama");
  const expected = await collect(model.generate(PROMPT, { maxTokens: 12, stopTokens: [] }));
  using engine = await llm.engine(model, { slots: 2 });
  await engine.warmUp();
  const made = await whole(engine.generate(PROMPT, { maxTokens: 12, stopTokens: [] }));
  assertEquals([made.ids, made.reason, made.text], [expected.all, "maxTokens", ""]);
  // A stop token is no part of the text.
  const stopTokens = [expected.all[5]!];
  const first = expected.all.indexOf(stopTokens[0]!);
  const ended = await whole(engine.generate(PROMPT, { stopTokens }));
  assertEquals([ended.ids, ended.reason], [expected.all.slice(0, first), "stop"]);
  const none = await whole(engine.generate(PROMPT, { maxTokens: 0 }));
  assertEquals([none.ids, none.reason], [[], "maxTokens"]);
});

test("texts, stop texts and logprobs", async () => {
  using model = await openModel("llama");
  using engine = await llm.engine(model, { tokenizer: LETTERS });
  const plain = await whole(engine.generate("Hello", { maxTokens: 20, stopTokens: [] }));
  assertEquals(plain.text, LETTERS.decode(plain.ids as number[]));
  assertEquals(plain.ids.length, 20);
  const stop = plain.text.slice(6, 8);
  const cut = await whole(engine.generate("Hello", { maxTokens: 20, stopTokens: [], stop }));
  assertEquals([cut.text, cut.reason], [plain.text.slice(0, plain.text.indexOf(stop)), "stop"]);
  const held = `${plain.text.slice(-1)}~~~`;
  const late = await whole(engine.generate("Hello", { maxTokens: 20, stopTokens: [], stop: held }));
  assertEquals([late.text, late.reason], [plain.text, "maxTokens"]);
  const { all } = await collect(engine.generate("Hello", { maxTokens: 4, logprobs: 3 }));
  using session = model.session();
  const logits = await session.logits(LETTERS.encode("Hello") as number[]);
  const sum = Math.log(logits.reduce((a, x) => a + Math.exp(x), 0));
  assertEquals(all[0]!.top.length, 3);
  assertEquals(all[0]!.top[0]!.id, all[0]!.id);
  assert(Math.abs(all[0]!.logprob! - (logits[all[0]!.id!]! - sum)) < 1e-4);
  // Without a tokenizer.
  using bare = await llm.engine(model);
  await assertRejects(() => bare.generate("Hello").next(), ArgumentError, "tokenizer");
  await assertRejects(() => bare.generate([1], { stop: "a" }).next(), ArgumentError, "tokenizer");
});

test("what an engine refuses changes nothing", async () => {
  using model = await openModel("llama");
  for (
    const options of [
      ...[{ slots: 0 }, { slots: 1.5 }, { slots: 1e9 }, { queue: -1 }, { context: 4096 }],
      ...[{ context: 0 }, { context: 512, cache: 100 }, { cache: "1" }, { speculate: 1 }],
    ]
  ) {
    await assertRejects(() => llm.engine(model, loose(options)), ArgumentError);
  }
  await assertRejects(() => llm.engine(model, loose({ slot: 1 })), TypeError, "slot");
  await assertRejects(() => llm.engine("/nothing.gguf"), Error, "nothing");
  using engine = await llm.engine(model, { context: 64 });
  for (
    const [prompt, options, part] of [
      [[], {}, "no tokens"],
      [[96], {}, "96"],
      [[1.5], {}, "1.5"],
      [null, {}, "null"],
      [textOf(65), {}, "context of 64"],
      [[1], { maxTokens: -1 }, "maxTokens"],
      [[1], { logprobs: 21 }, "logprobs"],
      [[1], { temperature: NaN }, "temperature"],
      [[1], { speculate: "yes" }, "speculate"],
      [[1], { onPrompt: 1 }, "onPrompt"],
      [[1], { stopTokens: 1 }, "stopTokens"],
      [[1], { logitBias: { 96: 1 } }, "96"],
    ] as const
  ) {
    const error = await assertRejects(
      () => engine.generate(loose(prompt), loose(options)).next(),
      ArgumentError,
    ) as Error;
    assert(error.message.includes(part), error.message);
  }
  const { active, waiting, cached } = engine.stats;
  assertEquals([active, waiting, cached], [0, 0, 0]);
  const long = await whole(engine.generate(textOf(60), { stopTokens: [] }));
  assertEquals([long.ids.length, long.reason], [5, "contextLength"]);
});

test("a full queue refuses texts, and signals end those that wait, begin or run", async () => {
  using model = await openModel("llama");
  using engine = await llm.engine(model, { slots: 2, queue: 3, context: 512 });
  const options = { maxTokens: 200, stopTokens: [] };
  const ends = Array.from({ length: 5 }, () => new AbortController());
  const texts = ends.map(({ signal }, i) =>
    engine.generate(textOf(i === 1 ? 300 : 20, i), { ...options, signal })
  );
  const firsts = texts.map((text) => text.next().then(() => "token", (error) => error.message));
  await new Promise((resolve) => setTimeout(resolve, 0));
  const { active, waiting } = engine.stats;
  assertEquals([active, waiting], [2, 3]);
  const error = await assertRejects(
    () => engine.generate([1], options).next(),
    QueueFullError,
  ) as QueueFullError;
  assertEquals(error.limit, 3);
  // One that waits, one whose prompt is computed, then one that runs.
  ends[3]!.abort(new RangeError("waits"));
  ends[1]!.abort(new RangeError("begins"));
  assertEquals(await firsts[3], "waits");
  assertEquals(await firsts[1], "begins");
  assertEquals(await firsts[0], "token");
  ends[0]!.abort(new RangeError("runs"));
  await assertRejects(() => texts[0]!.next(), RangeError, "runs");
  assertEquals([await firsts[2], await firsts[4]], ["token", "token"]);
  await texts[2]!.return("stop");
  await texts[4]!.return("stop");
  const { active: left, cached, kept } = engine.stats;
  assertEquals([left, cached], [0, kept]);
  await assertRejects(
    () => engine.generate([1], { signal: AbortSignal.abort(new RangeError("before")) }).next(),
    RangeError,
  );
});

test("an engine drains, and one that is disposed ends its texts", async () => {
  const before = memory().bytes;
  const model = await openModel("llama");
  const first = await llm.engine(model, { slots: 1 });
  const texts = [1, 2, 3].map((i) => whole(first.generate(textOf(9, i), { maxTokens: 5 })));
  await new Promise((resolve) => setTimeout(resolve, 0));
  const drained = first.drain();
  await assertRejects(() => first.generate([1]).next(), DisposedError, "drains");
  await drained;
  assertEquals((await Promise.all(texts)).map(({ ids }) => ids.length), [5, 5, 5]);
  await first.drain();
  first.dispose();
  const second = await llm.engine(model, { slots: 1 });
  const running = second.generate(PROMPT, { stopTokens: [] });
  await running.next();
  const waiting = second.generate(PROMPT).next();
  const next = running.next().then(() => running.next()).then(() => whole(running));
  second.dispose();
  second.dispose();
  await assertRejects(() => waiting, DisposedError);
  await assertRejects(() => next, DisposedError);
  await assertRejects(() => second.generate([1]).next(), DisposedError);
  // The model is the caller's.
  assertEquals((await collect(model.generate(PROMPT, { maxTokens: 2 }))).all.length, 2);
  const third = await llm.engine(model);
  const cut = third.generate(PROMPT, { stopTokens: [] });
  await cut.next();
  model.dispose();
  await assertRejects(async () => {
    for await (const _ of cut);
  }, DisposedError);
  assertThrows(() => model.session(), DisposedError);
  await assertRejects(() => llm.engine(model), DisposedError);
  third.dispose();
  assert(memory().bytes - memory().pooledBytes <= before, "memory is left");
});

test("texts wait for room, and use all of it", async () => {
  using model = await openModel("llama");
  using engine = await llm.engine(model, { slots: 8, context: 256, cache: 256 });
  const lengths = await Promise.all(Array.from({ length: 12 }, async (_, i) => {
    const made = await whole(engine.generate(textOf(100, i), { maxTokens: 20, stopTokens: [] }));
    assert(engine.stats.active <= 4);
    return made.ids.length;
  }));
  assertEquals(lengths, new Array(12).fill(20));
  // Beginnings give way to texts.
  const longest = await whole(engine.generate(textOf(200, 50), { stopTokens: [] }));
  assertEquals([longest.ids.length, longest.reason], [57, "contextLength"]);
});

test("weights of NaN end a text with an error, and free its slot", async () => {
  using model = await openModel("llama");
  using engine = await llm.engine(model);
  const own = model.step;
  model.step = async (call) => {
    const made = await own.call(model, call);
    made.logits?.set([], NaN);
    return made;
  };
  await assertRejects(() => engine.generate(PROMPT).next(), ArgumentError, "NaN");
  model.step = own;
  assertEquals(engine.stats.active, 0);
  assertEquals((await whole(engine.generate(PROMPT, { maxTokens: 3 }))).ids.length, 3);
});

testModel(
  "long chunks of prompts give the bits of pages, and their whole pages are kept",
  async (name) => {
    using model = await openModel(name);
    // The last chunk is one of a page, or a long one that ends within a page.
    for (const length of [300, 115, 60]) {
      const prompt = textOf(length, 4);
      const made: string[] = [];
      for (const texts of [1, 2]) {
        using engine = await llm.engine(model, { context: 512 });
        const reused: number[] = [];
        const onPrompt = (count: number): void => void reused.push(count);
        const options = { maxTokens: 30, stopTokens: [], logprobs: 1, onPrompt };
        const text = async (): Promise<string> => {
          const { all } = await collect(engine.generate(prompt, options));
          return JSON.stringify(all);
        };
        // Two that begin at once share nothing; the chunks of each have a page.
        const all = await Promise.all(Array.from({ length: texts }, text));
        made.push(...all);
        assertEquals([engine.stats.reused, ...reused], new Array(texts + 1).fill(0));
        made.push(await text());
        assertEquals(engine.stats.reused, 32 * Math.floor(length / 32));
        assertEquals(reused.at(-1), engine.stats.reused);
      }
      assertEquals(new Set(made).size, 1, `${length} tokens`);
    }
  },
);

test("the text of tokens can be that of another function", async () => {
  using model = await openModel("llama");
  using engine = await llm.engine(model);
  const decode = (ids: readonly (number | undefined)[]): string =>
    ids.map((id) => `<${id}>`).join("");
  const options = { maxTokens: 5, stopTokens: [] };
  const { ids } = await whole(engine.generate(PROMPT, options));
  let text = "";
  for await (const token of engine.generate(PROMPT, { ...options, decode })) text += token.text;
  assertEquals(text, decode(ids));
  // Also for texts that end it.
  const stop = `><${ids[3]}`;
  text = "";
  for await (const token of engine.generate(PROMPT, { ...options, decode, stop })) {
    text += token.text;
  }
  assertEquals(text, decode(ids).slice(0, decode(ids).indexOf(stop)));
  await assertRejects(
    () => engine.generate(PROMPT, loose({ decode: true })).next(),
    ArgumentError,
    "decode",
  );
});

const requests = RUNS_ALL ? 10_000 : 300;
test(`memory is flat over ${requests} texts`, { timeout: 600_000 }, async () => {
  using model = await openModel("llama");
  using engine = await llm.engine(model, { slots: 8, context: 128, cache: 512 });
  // One signal of all texts, which keeps nothing of them.
  const { signal } = new AbortController();
  const texts = async (from: number, to: number): Promise<void> => {
    let next = from;
    await Promise.all(Array.from({ length: 12 }, async () => {
      while (next < to) {
        const i = next++;
        const options = {
          maxTokens: 1 + i % 3,
          stopTokens: [],
          seed: i,
          temperature: i % 2,
          signal,
        };
        for await (const _ of engine.generate(textOf(1 + i * 7 % 100, i), options)) {
          if (i % 7 === 0) break;
        }
      }
    }));
  };
  const first = Math.floor(requests / 3);
  await texts(0, first);
  const used = (): number => memory().bytes - memory().pooledBytes;
  const before = used();
  await texts(first, requests);
  assertEquals(engine.stats.finished, requests);
  assert(used() <= before + 65536, `${used() - before} bytes more`);
});
