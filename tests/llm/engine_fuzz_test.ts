/**
 * Random mixes of engines and sessions of one model: texts that are cancelled, forked, cut and freed at
 * random times leave the tokens of all others as they are alone, and no memory and no slot in use.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { cpuBackendName } from "../../src/core/dispatch.ts";
import { memory } from "../../mod.ts";
import * as llm from "../../src/llm/mod.ts";
import { testOnBackends } from "../compile/support.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { families } from "./families.ts";
import { collect, modelFolder } from "./models.ts";
import { randomOf } from "./schemas.ts";

const VOCABULARY = 96, CONTEXT = 256;
const LONG = { max_position_embeddings: 2048 };

function openModel(name: string): Promise<llm.LanguageModel> {
  const family = families.models[name];
  return llm.open(modelFolder(name, LONG, family && { ...family }));
}

/** Random integers below a number. */
function integersOf(seed: number): (below: number) => number {
  const random = randomOf(seed);
  return (below) => Math.floor(random() * below);
}

interface Request {
  readonly ids: readonly number[];
  readonly options: llm.GenerateOptions;
}

/** A random text, which may begin as others do. */
function requestOf(next: (below: number) => number): Request {
  const length = 1 + next(next(3) === 0 ? 150 : 20);
  const own = Array.from({ length }, () => next(VOCABULARY));
  const system = Array.from({ length: 33 * next(3) }, (_, i) => (i * 7 + i % 5) % VOCABULARY);
  const sampling = next(2) === 0 ? {} : { temperature: 0.8, topK: 30, topP: 0.9, seed: next(1e6) };
  // Texts that repeat, which drafts are right for.
  const repeats = next(3) === 0
    ? { logitBias: { 5: 60, 6: 60, 7: 60 }, repetitionPenalty: 2, repetitionWindow: 2 }
    : {};
  const options = { maxTokens: 1 + next(20), stopTokens: [next(VOCABULARY)] };
  return { ids: [...system, ...own], options: { ...options, ...sampling, ...repeats } };
}

/** The bytes in use, once what ran has ended. */
async function used(): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, 20));
  return memory().bytes - memory().pooledBytes;
}

/** Runs `body` for each of `count`, `most` at a time. */
async function inTurns(
  count: number,
  most: number,
  body: (i: number) => Promise<void>,
): Promise<void> {
  let at = 0;
  await Promise.all(Array.from({ length: most }, async () => {
    while (at < count) await body(at++);
  }));
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const MODELS = RUNS_ALL ? ["llama", "gemma2", "lfm2", "mistral with a window"] : ["llama"];

for (const name of MODELS) {
  testOnBackends(`a request has the same tokens in any mix: ${name}`, async () => {
    const isFast = cpuBackendName() === "native";
    const count = RUNS_ALL ? isFast ? 300 : 60 : isFast ? 16 : 4;
    using model = await openModel(name);
    const next = integersOf(11);
    const requests = Array.from({ length: count }, () => requestOf(next));
    const expected: number[][] = [];
    for (const { ids, options } of requests) {
      expected.push((await collect(model.generate(ids, options))).all);
    }
    const engines: llm.Engine[] = [];
    try {
      for (const slots of [1, 3, 16]) {
        const sizes = { slots, context: CONTEXT, cache: CONTEXT * Math.min(slots, 2) };
        engines.push(await llm.engine(model, { ...sizes, speculate: slots !== 3 }));
      }
      using base = model.session({ capacity: 32 });
      await inTurns(count, 12, async (i) => {
        const { ids, options } = requests[i]!;
        const engine = engines[next(6)];
        let made: (number | undefined)[];
        if (engine !== undefined) {
          made = (await collect(engine.generate(ids, options))).all.map(({ id }) => id);
        } else {
          using session = next(2) === 0 ? model.session({ capacity: 32 }) : base.fork();
          const other = requests[next(count)]!;
          await collect(session.generate(other.ids, other.options));
          session.truncate(next(session.tokens.length + 1));
          using fork = session.fork();
          const both = [session, fork].map((one) => collect(one.generate(ids, options)));
          const [first, second] = await Promise.all(both);
          assertEquals(second!.all, first!.all);
          made = first!.all;
        }
        assertEquals(made, expected[i], `request ${i}: ${JSON.stringify(requests[i])}`);
      });
      for (const { stats } of engines) {
        assertEquals([stats.active, stats.waiting, stats.cached], [0, 0, stats.kept]);
      }
    } finally {
      for (const engine of engines) engine.dispose();
    }
  });
}

const texts = RUNS_ALL ? 2000 : 100;
test(`${texts} texts end at random times and leave nothing`, { timeout: 600_000 }, async () => {
  using model = await openModel("llama");
  const next = integersOf(12);
  const witness = requestOf(integersOf(5));
  const { all: expected } = await collect(model.generate(witness.ids, witness.options));
  const stop = new EvalError("stop");
  const run = async (count: number): Promise<void> => {
    using engine = await llm.engine(model, {
      ...{ slots: 4, context: CONTEXT, cache: CONTEXT, queue: 6, speculate: true },
    });
    let refused = 0, ended = 0;
    await inTurns(count, 14, async (i) => {
      if (i % 10 === 0) {
        using session = model.session({ capacity: 32 });
        const { all } = await collect(session.generate(witness.ids, witness.options));
        assertEquals(all, expected);
        return;
      }
      const { ids, options } = requestOf(next);
      const controller = new AbortController();
      const { signal } = controller;
      const text = engine.generate(ids, { ...options, signal });
      const [how, tokens, wait] = [next(7), next(10), next(3)];
      const abort = (): void => controller.abort(stop);
      let timer: ReturnType<typeof setTimeout> | undefined;
      try {
        if (how === 0) assertEquals((await text.return("stop")).value, "stop");
        else if (how === 1) await text.throw(stop);
        else if (how === 2) timer = setTimeout(abort, next(8));
        else if (how === 3) abort();
        let made = 0;
        for await (const _ of text) {
          if (wait === 0) await pause(next(3));
          if (++made <= tokens) continue;
          if (how === 4) break;
          if (how === 5) throw stop;
          if (how === 6) abort();
        }
        for await (const _ of text) throw new Error("it has ended");
      } catch (error) {
        if (error instanceof Error && error.name === "QueueFullError") refused++;
        else if (error === stop) ended++;
        else throw error;
      } finally {
        clearTimeout(timer);
      }
    });
    const { active, waiting, cached, kept } = engine.stats;
    assertEquals([active, waiting, cached], [0, 0, kept]);
    assert(ended > 0 && refused > 0, `${ended} ended, ${refused} were refused`);
  };
  await run(100);
  const before = await used();
  await run(texts);
  assert(await used() <= before + 65536, `${await used() - before} bytes more`);
});

test("sessions, engines and the model are freed in any order and phase", async () => {
  const next = integersOf(13);
  for (let round = 0; round < (RUNS_ALL ? 200 : 12); round++) {
    const name = ["llama", "lfm2", "gemma2"][round % 3]!;
    const before = await used();
    const model = await openModel(name);
    const engine = await llm.engine(model, { slots: 2, context: CONTEXT });
    const sessions = [model.session({ capacity: 32 }), model.session()];
    const fork = sessions[0]!.fork();
    const runs = [
      ...[0, 1, 2].map(() => engine.generate(requestOf(next).ids, { maxTokens: 30 })),
      ...[...sessions, fork].map((one) => one.generate(requestOf(next).ids, { maxTokens: 30 })),
    ].map(async (text) => {
      try {
        for (let k = 0; k < 30 && (await text.next()).done !== true; k++) await pause(next(2));
      } catch (error) {
        assert(error instanceof Error && error.name === "DisposedError", String(error));
      }
    });
    const gone = [engine, ...sessions, fork, model, engine, sessions[0]!, model];
    while (gone.length > 0) {
      if (next(2) === 0) await pause(next(6));
      gone.splice(next(gone.length), 1)[0]!.dispose();
    }
    await Promise.all(runs);
    const left = await used() - before;
    assert(left <= 4096, `${name}, round ${round}: ${left} bytes are left`);
  }
});
