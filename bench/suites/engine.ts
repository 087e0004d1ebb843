/**
 * Texts that are generated at the same time, beside node-llama-cpp's batching and llama-server with as
 * many slots: the time per token of 1, 4 and 16 texts, after their prompts.
 *
 * The models are those of models/smollm2 in q4_1 (`deno task models smollm2`), or of the folder that
 * ROWMAJOR_BENCH_MODELS names. ROWMAJOR_LLAMA_SERVER is the path of llama-server.
 *
 * @module
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { root } from "../../scripts/tools.ts";
import * as llm from "../../src/llm/mod.ts";
import { environment } from "../harness/line_process.ts";
import { mayHold, ownSides, WholeSide } from "../harness/served.ts";
import {
  best,
  type Figure,
  type Outcome,
  type RunOptions,
  type Side,
  Stopwatch,
  type Suite,
} from "../harness/suite.ts";
import { batchCommand, batchIds, type BatchRequest } from "./engine_peer.ts";
import { PEERS_FOLDER, versionOf } from "./node_peers.ts";

const FOLDER = process.env.ROWMAJOR_BENCH_MODELS || join(root, "models", "smollm2");
const MODELS = existsSync(FOLDER)
  ? readdirSync(FOLDER).filter((name) => name.endsWith("Q4_1.gguf")).map((name) =>
    name.slice(0, -5)
  )
  : [];
const TEXTS = [1, 4, 16] as const;
const COUNT = 48, PROMPT = 45, ROUNDS = 3;

const nameOf = (texts: number): string => texts === 1 ? "1 text" : `${texts} texts`;

/** The time per token of some texts, after the first token of each. */
async function figureOf(
  engine: llm.Engine,
  texts: number,
  options: llm.EngineGenerateOptions,
): Promise<Figure> {
  let begun = 0, watch = new Stopwatch();
  await Promise.all(Array.from({ length: texts }, async (_, k) => {
    let made = 0;
    const own = { ...options, maxTokens: COUNT, stopTokens: [] };
    for await (const _ of engine.generate(batchIds(PROMPT, k), own)) {
      if (++made === 1 && ++begun === texts) watch = new Stopwatch();
    }
  }));
  const { wall, cpu } = watch.read();
  const tokens = texts * (COUNT - 1);
  return { wall: wall / tokens, cpu: cpu! / tokens };
}

async function run(group: string): Promise<Outcome> {
  using engine = await llm.engine(join(FOLDER, `${group}.gguf`), { context: 512 });
  await engine.warmUp();
  const figures: Record<string, Figure> = {};
  const add = async (name: string, texts: number, options: llm.EngineGenerateOptions = {}) => {
    await figureOf(engine, texts, options);
    const all: Figure[] = [];
    for (let i = 0; i < ROUNDS; i++) all.push(await figureOf(engine, texts, options));
    figures[name] = best(all);
  };
  for (const texts of TEXTS) await add(nameOf(texts), texts);
  await add("16 texts, sampled", 16, { temperature: 0.8, topP: 0.95, seed: 1 });
  return { figures };
}

function sides(options: RunOptions): Side[] {
  const { threads, without } = options;
  const made: Side[] = [];
  const env = environment(threads);
  const requestOf = (group: string, version: string): BatchRequest => ({
    ...{ model: join(FOLDER, `${group}.gguf`), threads, texts: TEXTS, count: COUNT },
    ...{ prompt: PROMPT, version },
  });
  const version = versionOf(options, "node-llama-cpp", "node-llama-cpp");
  if (version !== undefined) {
    made.push(
      new WholeSide({ name: "node-llama-cpp", peer: true }, (group) => {
        const request = requestOf(group, `node-llama-cpp ${version}`);
        return { command: batchCommand(request, "binding"), cwd: PEERS_FOLDER, env };
      }),
    );
  }
  if (mayHold(options, "llama-server")) {
    const server = process.env.ROWMAJOR_LLAMA_SERVER;
    if (server === undefined) without("llama-server", "ROWMAJOR_LLAMA_SERVER is not set");
    else {
      made.push(
        new WholeSide({ name: "llama-server", peer: true }, (group) => {
          const request = requestOf(group, "llama-server");
          const own = { ...env, ROWMAJOR_LLAMA_SERVER: server };
          return { command: batchCommand(request, "server"), env: own };
        }),
      );
    }
  }
  return [...made, ...ownSides(options)];
}

/** The suite. */
export const suite: Suite = {
  title: "Texts at a time beside node-llama-cpp and llama-server",
  groups: Object.fromEntries(MODELS.map((name) => [name, name])),
  rows: MODELS.flatMap((group) =>
    [...TEXTS.map(nameOf), "16 texts, sampled"].map((name) => ({ group, name }))
  ),
  whole: true,
  ...{ rounds: 3, ms: 0 },
  beside: "each",
  lines: "row",
  shortRows: /: (1|16) texts?$/,
  unable: () => MODELS.length > 0 ? undefined : "deno task models smollm2 makes models/smollm2",
  sides,
  run,
};
