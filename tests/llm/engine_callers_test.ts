/**
 * Engines and sessions whose callers do wrong, change their mind or stop to read: only their own text
 * fails, with an error of the library, and all is free afterwards.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { test } from "node:test";
import { ArgumentError, DisposedError, memory, OutOfMemoryError } from "../../mod.ts";
import * as llm from "../../src/llm/mod.ts";
import { Engine } from "../../src/llm/engine.ts";
import { Scheduler } from "../../src/llm/batch/scheduler.ts";
import { SequenceMemory } from "../../src/llm/batch/sequence.ts";
import { loose } from "../support.ts";
import { collectGarbage } from "../support/garbage.ts";
import { families } from "./families.ts";
import { collect, modelFolder } from "./models.ts";

const VOCABULARY = 96, WORDS = 3;
const LONG = { max_position_embeddings: 2048 };

/** Tokens of a text of any length. */
const textOf = (n: number, seed = 1): number[] =>
  Array.from({ length: n }, (_, i) => (i * i * 31 + i * 7 + seed * 13) % VOCABULARY);

function openModel(name: string): Promise<llm.LanguageModel> {
  const family = families.models[name];
  return llm.open(modelFolder(name, LONG, family && { ...family }));
}

const OPTIONS = { maxTokens: 6, stopTokens: [] };

async function idsOf(tokens: AsyncGenerator<llm.GeneratedToken>): Promise<(number | undefined)[]> {
  return (await collect(tokens)).all.map(({ id }) => id);
}

/** A constraint whose state has these members. */
function constraintOf(members: object): unknown {
  return { start: () => ({ mask: () => undefined, accept() {}, done: false, ...members }) };
}

/** Lets the code that waits for promises go on. */
async function soon(): Promise<void> {
  for (let k = 0; k < 6; k++) await undefined;
}

const never = (): Promise<never> => new Promise(() => {});
const fails = (): never => {
  throw new EvalError("own");
};

test("a wrong constraint ends its own text only", async () => {
  using model = await openModel("llama");
  using engine = await llm.engine(model, { slots: 4, context: 256 });
  const expected = await idsOf(engine.generate(textOf(9, 2), OPTIONS));
  const wrong: [unknown, typeof ArgumentError | EvalErrorConstructor][] = [
    [{}, ArgumentError],
    [{ start: () => undefined }, ArgumentError],
    [{ start: () => null }, ArgumentError],
    [{ start: () => ({}) }, ArgumentError],
    [{ start: fails }, EvalError],
    [{ start: async () => await fails() }, EvalError],
    [constraintOf({ mask: fails }), EvalError],
    [constraintOf({ mask: async () => await fails() }), EvalError],
    [constraintOf({ mask: () => null }), ArgumentError],
    [constraintOf({ mask: () => new Int32Array(WORDS - 1) }), ArgumentError],
    [constraintOf({ mask: () => new Uint32Array(WORDS) }), ArgumentError],
    [constraintOf({ mask: () => new Int32Array(WORDS) }), ArgumentError],
    [constraintOf({ mask: () => new Proxy(new Int32Array(WORDS), {}) }), ArgumentError],
    [constraintOf({ accept: 3 }), ArgumentError],
    [constraintOf({ accept: fails }), EvalError],
    [constraintOf({ accept: async () => await fails() }), EvalError],
    [constraintOf({ dispose: fails }), EvalError],
    [constraintOf({ dispose: async () => await fails() }), EvalError],
  ];
  const others = wrong.map(() => idsOf(engine.generate(textOf(9, 2), OPTIONS)));
  for (const [constraint, type] of wrong) {
    const options = loose({ ...OPTIONS, constraint });
    await assertRejects(() => idsOf(engine.generate(textOf(9, 3), options)), type);
    await assertRejects(() => collect(model.generate(textOf(9, 3), options)), type);
  }
  assertEquals(await Promise.all(others), wrong.map(() => expected));
  const { active, cached, kept } = engine.stats;
  assertEquals([active, cached], [0, kept]);
});

test("texts whose constraints share a mask have each its own", async () => {
  using model = await openModel("llama");
  using engine = await llm.engine(model, { slots: 4, context: 256 });
  const shared = new Int32Array(WORDS);
  const only = (id: number) =>
    constraintOf({
      mask() {
        shared.fill(0);
        shared[id >> 5] = 1 << (id & 31);
        return shared;
      },
    });
  const made = await Promise.all(
    [3, 40, 90].map((id) =>
      idsOf(engine.generate(textOf(9), loose({ ...OPTIONS, constraint: only(id) })))
    ),
  );
  assertEquals(made, [3, 40, 90].map((id) => new Array(6).fill(id)));
});

test("a signal and the end of an iteration end a text that waits for its constraint", async () => {
  using model = await openModel("llama");
  using engine = await llm.engine(model, { slots: 1, context: 256 });
  let disposed = 0, calls = 0;
  let finish = (_: unknown): void => {};
  const late = { start: () => new Promise((resolve) => finish = resolve) };
  for (const constraint of [constraintOf({ mask: never }), late]) {
    const controller = new AbortController();
    const options = loose({ ...OPTIONS, constraint, signal: controller.signal });
    const text = engine.generate([1], options).next();
    await soon();
    controller.abort(new EvalError("own"));
    await assertRejects(() => text, EvalError);
  }
  // The state that comes too late is freed.
  finish({ dispose: () => disposed++ });
  await soon();
  assertEquals(disposed, 1);
  const third = constraintOf({ mask: () => calls++ === 0 ? undefined : never() });
  for await (const _ of engine.generate([1], loose({ ...OPTIONS, constraint: third }))) break;
  assertEquals(engine.stats.active, 0);
});

test("a signal that is none is refused, and one that lies ends its own text", async () => {
  using model = await openModel("llama");
  using engine = await llm.engine(model, { slots: 1, context: 256 });
  using session = model.session();
  for (const signal of [null, 5, {}, { aborted: true }]) {
    const options = loose({ ...OPTIONS, signal });
    await assertRejects(() => engine.generate([1], options).next(), ArgumentError, "signal");
    await assertRejects(() => session.generate([1], options).next(), ArgumentError, "signal");
    await assertRejects(() => session.logits([1], loose({ signal })), ArgumentError, "signal");
  }
  const { signal } = new AbortController();
  let reads = 0;
  const lies = (): void => {
    if (reads++ > 1) throw new EvalError("own");
  };
  Object.defineProperty(signal, "throwIfAborted", { value: lies });
  Object.defineProperty(signal, "aborted", { get: () => (lies(), false) });
  await assertRejects(() => collect(session.generate([1], { ...OPTIONS, signal })), EvalError);
  assertEquals((await collect(session.generate([1], OPTIONS))).all.length, 6);
});

test("options are those of the call, whatever the caller changes later", async () => {
  using model = await openModel("llama");
  const tokenizer = { encode: () => [1], decode: () => "" };
  using engine = await llm.engine(model, { context: 256, tokenizer });
  const made: Promise<readonly unknown[]>[] = [];
  const logitBias = new Map<number, number>(), stopTokens: number[] = [], prompt = [1];
  const options = { maxTokens: 3, logitBias, stopTokens };
  for (const id of [5, 6, 7]) {
    logitBias.clear();
    logitBias.set(id, 100);
    const texts = [engine.generate(prompt, options), engine.generate("a", options)];
    const sessions = [model.generate(prompt, options), model.session().generate(prompt, options)];
    made.push(...texts.map(idsOf));
    made.push(...sessions.map(async (text) => (await collect(text)).all));
    options.maxTokens++;
    prompt.push(0);
    stopTokens.push(id);
  }
  logitBias.clear();
  prompt.length = 0;
  const expected = [5, 6, 7].flatMap((id, i) => new Array(4).fill(new Array(3 + i).fill(id)));
  assertEquals(await Promise.all(made), expected);
  // Those of a prototype count too.
  const inherited = Object.create({ maxTokens: 2, stopTokens: [], logitBias: { 9: 100 } });
  assertEquals(await idsOf(engine.generate([1], inherited)), [9, 9]);
  const getter = loose({
    get maxTokens() {
      return fails();
    },
  });
  await assertRejects(() => engine.generate([1], getter).next(), EvalError);
});

test("a tokenizer is checked, may be a function, and is opened once", async () => {
  using model = await openModel("llama");
  for (const tokenizer of [null, 5, {}, { encode: () => [1] }]) {
    await assertRejects(() => llm.engine(model, loose({ tokenizer })), ArgumentError, "tokenizer");
    await assertRejects(
      () => model.generateText(loose(tokenizer), "a").next(),
      ArgumentError,
      "tokenizer",
    );
  }
  // As those of transformers.js.
  const callable = Object.assign(() => [], { encode: () => [1], decode: () => "" });
  using engine = await llm.engine(model, { tokenizer: callable });
  assertEquals((await idsOf(engine.generate("a", OPTIONS))).length, 6);
  using wrong = await llm.engine(
    model,
    loose({ tokenizer: { encode: () => [1], decode: () => 5 } }),
  );
  await assertRejects(() => idsOf(wrong.generate("a", OPTIONS)), ArgumentError, "decode gave 5");
  let opened = 0;
  const opening = async () => {
    opened++;
    await soon();
    return callable;
  };
  using lazy = new Engine({ model, ownsModel: false, tokenizer: opening, options: {} });
  const texts = [1, 2, 3].map(() => idsOf(lazy.generate("a", OPTIONS)));
  // They were asked for before, and wait for the tokenizer.
  await lazy.drain();
  assertEquals(lazy.stats.finished, 3);
  assertEquals((await Promise.all(texts)).map(({ length }) => length), [6, 6, 6]);
  assertEquals(opened, 1);
});

test("an engine that is disposed frees texts that nobody reads", async () => {
  for (const name of ["llama", "lfm2"]) {
    using model = await openModel(name);
    const before = memory().bytes - memory().pooledBytes;
    const engine = await llm.engine(model, { slots: 2, context: 256 });
    const parked = engine.generate(textOf(50), { stopTokens: [] });
    await parked.next();
    const drained = engine.drain();
    engine.dispose();
    await drained;
    await engine.drain();
    const left = (): number => memory().bytes - memory().pooledBytes - before;
    // The step that ran ends first.
    for (let k = 0; k < 500 && left() > 0; k++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert(left() <= 0, `${name}: ${left()} bytes are left`);
    await assertRejects(() => parked.next(), DisposedError, "the engine was disposed");
  }
});

test("texts that are dropped take nothing, or give back what they have", async () => {
  for (const name of ["llama", "lfm2"]) {
    using model = await openModel(name);
    using engine = await llm.engine(model, { slots: 2, queue: 1, context: 256 });
    using session = model.session();
    const before = memory().bytes - memory().pooledBytes;
    // Nobody reads them.
    for (let k = 0; k < 20; k++) engine.generate(textOf(9), OPTIONS);
    assertEquals([engine.stats.active, engine.stats.waiting], [0, 0]);
    const states = { made: 0, freed: 0 };
    const constraint = {
      start() {
        states.made++;
        return { mask: () => undefined, accept() {}, done: false, dispose: () => states.freed++ };
      },
    };
    const { signal } = new AbortController();
    const options = loose({ maxTokens: 100, stopTokens: [], constraint, signal });
    // Nobody reads more than their beginnings.
    const texts: AsyncGenerator[] = [];
    const begin = async (): Promise<void> => {
      for (const seed of [1, 2]) texts.push(engine.generate(textOf(60, seed), options));
      texts.push(session.generate(textOf(9), options), model.generate(textOf(9), options));
      for (const text of texts) assertEquals((await text.next()).done, false);
    };
    await begin();
    assertEquals([engine.stats.active, states], [2, { made: 4, freed: 0 }]);
    assertThrows(() => session.fork(), ArgumentError, "generating");
    const waits = idsOf(engine.generate(textOf(9, 2), OPTIONS));
    texts.length = 0;
    for (let k = 0; k < 200 && states.freed < 4; k++) await collectGarbage();
    assertEquals(states.freed, 4);
    assertEquals((await waits).length, 6);
    const { active, waiting, cached, kept } = engine.stats;
    assertEquals([active, waiting, cached], [0, 0, kept]);
    assertEquals((await collect(session.generate(textOf(9), OPTIONS))).all.length, 6);
    await engine.drain();
    engine.dispose();
    session.dispose();
    model.dispose();
    assert(memory().bytes - memory().pooledBytes <= before, `${name}: memory is left`);
  }
});

test("a text that has ended is not kept by closures of its reader", async () => {
  using model = await openModel("llama");
  using engine = await llm.engine(model, { slots: 2, context: 256 });
  let collected = 0;
  const registry = new FinalizationRegistry(() => collected++);
  const reader = {
    decoded: 0,
    decode(ids: readonly number[]): string {
      this.decoded++;
      return ids.map((id) => String.fromCharCode(97 + id % 26)).join("");
    },
    /** A closure of the iteration is an option of the text. */
    async *read(seed: number): AsyncGenerator<llm.GeneratedToken> {
      const decode = (ids: readonly number[]): string => this.decode(ids);
      const text = engine.generate(textOf(9, seed), loose({ ...OPTIONS, decode }));
      registry.register(text, undefined);
      for (let next = await text.next(); next.done !== true; next = await text.next()) {
        yield next.value;
      }
    },
  };
  for (let seed = 0; seed < 8; seed++) {
    assertEquals((await collect(reader.read(seed))).all.length, 6);
  }
  assert(reader.decoded >= 8 * OPTIONS.maxTokens);
  for (let k = 0; k < 50 && collected < 4; k++) await collectGarbage();
  // Stacks may refer to the latest ones.
  assert(collected >= 4, `${collected} of 8 are collected`);
});

test("drafts take no memory beyond the end of a text", async () => {
  using model = await openModel("llama");
  using engine = await llm.engine(model, { slots: 2, context: 128, cache: 128, speculate: true });
  // The tokens 5, 6 and 7 in turns, so that drafts of three are right.
  const forced = {
    logitBias: { 5: 100, 6: 100, 7: 100 },
    repetitionPenalty: 2,
    repetitionWindow: 2,
  };
  const made = await Promise.all([8, 9].map((first) => {
    const prompt = Array.from({ length: 94 }, (_, i) => i === 0 ? first : 5 + i % 3);
    return idsOf(engine.generate(prompt, { maxTokens: 2, stopTokens: [], ...forced }));
  }));
  assertEquals(made, [[6, 7], [6, 7]]);
});

test("texts of any length fork and begin alike", async () => {
  using model = await openModel("llama");
  const sizes = { capacity: 64, most: 64, context: 64, history: 0 };
  const own = { dtype: "float16", device: undefined } as const;
  using texts = new SequenceMemory(model.config, { ...sizes, ...own });
  const length = 320_000;
  using from = texts.sequence();
  for (let k = 0; k < length; k++) from.tokens.push(k % VOCABULARY);
  assertEquals(texts.fork(from).length, length);
  const parts = Array.from({ length: length / 32 }, () => ({ pages: [], state: undefined }));
  using begun = texts.sequence();
  texts.begin(begun, from.tokens, parts);
  assertEquals(begun.length, length);
});

test("logits of more tokens than memory has are an error of memory", async () => {
  const scheduler = new Scheduler(fails, 2 ** 40);
  const none = loose({ length: 0, tokens: [] });
  await assertRejects(() => scheduler.prompt(none, [1, 2], { all: true }), OutOfMemoryError);
});
