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
  assertEquals([active, waiting, finished], [0, 0, 2 * requests.length]);
  assert(cancelled > 0 && reused > 0, `${cancelled} cancelled, ${reused} reused`);
  assertEquals(cached, kept);
});
