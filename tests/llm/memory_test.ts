/**
 * Memory of models and sessions: all is freed by dispose, however a text ends, and many texts take no
 * more than one.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { memory, scope } from "../../mod.ts";
import * as llm from "../../src/llm/mod.ts";
import { testOnBackends } from "../compile/support.ts";
import { collect, distance, golden, modelFolder } from "./models.ts";

const { prompt: PROMPT } = golden.models.llama!;
const LLAMA = modelFolder("llama");

/** Bytes in use after `body`, minus those before it. */
async function growth(body: () => Promise<void>): Promise<number> {
  const before = memory().bytes;
  await body();
  return memory().bytes - before;
}

for (const cache of ["float32", "float16", "q8_0"] as const) {
  testOnBackends(`a disposed model leaves nothing, with a cache of ${cache}`, async () => {
    const run = async (): Promise<void> => {
      using model = await llm.open(LLAMA, { cache });
      assert(memory().bytes > 0);
      using session = model.session({ capacity: 3 });
      await session.logits(PROMPT, { all: true });
      using fork = session.fork();
      await collect(fork.generate(PROMPT, { maxTokens: 5, temperature: 1, seed: 1 }));
      await collect(model.generate(PROMPT, { maxTokens: 5 }));
      for await (const _ of model.generate(PROMPT)) break;
      const controller = new AbortController();
      const ended = model.generate(PROMPT, { signal: controller.signal });
      await ended.next();
      controller.abort(new RangeError("no more"));
      await assertRejects(() => ended.next(), RangeError);
      await assertRejects(() => model.generate([100]).next(), Error, "100");
    };
    // The first run makes what all programs share.
    await run();
    assertEquals(await growth(run), 0);
  });
}

testOnBackends("a model disposed while it generates leaves nothing", async () => {
  const run = async (): Promise<void> => {
    const model = await llm.open(LLAMA);
    const tokens = model.generate(PROMPT);
    await tokens.next();
    const next = tokens.next();
    model.dispose();
    await assertRejects(() => next);
  };
  await run();
  assertEquals(await growth(run), 0);
});

testOnBackends("a model that cannot be opened leaves nothing", async () => {
  const wrong = modelFolder("llama", { num_hidden_layers: 3 });
  const run = async (): Promise<void> => {
    await assertRejects(() => llm.open(wrong), Error, "model.layers.2");
    await assertRejects(() => llm.open(LLAMA, { cache: "int8" as never }), Error, "int8");
  };
  await run();
  assertEquals(await growth(run), 0);
});

testOnBackends("many texts take the memory of one", async () => {
  using model = await llm.open(LLAMA);
  using session = model.session();
  const text = async (i: number): Promise<void> => {
    const ids = [...PROMPT.slice(0, 2 + i % 4), i % 96];
    await collect(session.generate(ids, { maxTokens: 2, temperature: 1, topK: 5, seed: i }));
    if (i % 10 !== 0) return;
    await collect(model.generate(ids, { maxTokens: 1 }));
    session.fork().dispose();
  };
  // All programs.
  for (let i = 0; i < 24; i++) await text(i);
  const before = memory();
  for (let i = 0; i < 200; i++) await text(i);
  assertEquals(memory().bytes, before.bytes);
  assert(memory().peakBytes <= before.peakBytes * 1.05 + 100_000);
});

testOnBackends("a scope around a call frees none of a session's memory", async () => {
  using model = await llm.open(LLAMA);
  const session = scope(() => ({ session: model.session({ capacity: 2 }) })).session;
  const first = await scope(() => ({ made: session.logits(PROMPT) })).made;
  const next = await session.logits(PROMPT);
  // The last token now sees rounded keys.
  assert(distance(next, first) < 0.02);
  session.dispose();
});
