/**
 * Texts to vectors by MiniLM beside transformers.js in Node: from the start of a process to the first
 * vector, texts one by one, texts of mixed lengths in a batch, and the resident memory; and its encoder
 * alone, with our pooling, beside a session of the ONNX Runtime that transformers.js uses.
 *
 * `deno task models` makes models/minilm; transformers.js needs onnx/model.onnx in it, which
 * scripts/golden/minilm.py makes. A figure is the best of the calls in one process.
 *
 * @module
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { full } from "../../mod.ts";
import { root } from "../../scripts/tools.ts";
import { compile } from "../../src/compile/mod.ts";
import { Reader } from "../../src/llm/config/reader.ts";
import { bert } from "../../src/models/encoders/bert.ts";
import type { Ids, Lengths } from "../../src/models/encoders/parts.ts";
import { Embedder } from "../../src/models/mod.ts";
import { pool } from "../../src/models/pooling.ts";
import * as nn from "../../src/nn/mod.ts";
import { environment } from "../harness/line_process.ts";
import { ownSides, WholeSide } from "../harness/served.ts";
import type { Outcome, RunOptions, Side, Suite } from "../harness/suite.ts";
import { PEERS_FOLDER, versionOf } from "./node_peers.ts";

const TEXTS = [
  "hello world",
  "How do I reset my password?",
  "I cannot log in to my account any more.",
  "The quick brown fox jumps over the lazy dog.",
  "Das Wetter ist heute schön, und morgen soll es regnen.",
  "A man is eating food. ".repeat(3),
  "Tensors are arrays of numbers with a shape, a dtype and strides. ".repeat(6),
  "one two three four five six seven eight nine ten ".repeat(10),
];
/** Token ids of the encoder alone: texts of one length. */
const SIZES: readonly (readonly [texts: number, tokens: number])[] = [[1, 16], [1, 128], [8, 128]];
const FOLDER = join(root, "models", "minilm");

/**
 * The figures of `embed`, which gives the first vector, and of the encoder. The peer's program
 * contains the text of this function, so it uses nothing of this file.
 */
async function measure(
  { TEXTS, SIZES }: {
    readonly TEXTS: readonly string[];
    readonly SIZES: readonly (readonly [number, number])[];
  },
  embed: (texts: string[]) => Promise<number[]>,
  encode: (texts: number, tokens: number) => Promise<unknown>,
): Promise<{ figures: Record<string, { wall: number; cpu?: number }>; result: number[] }> {
  const cpu = (): number => {
    const { user, system } = process.cpuUsage();
    return (user + system) * 1e3;
  };
  const result = await embed(TEXTS.slice(0, 1));
  const figures: Record<string, { wall: number; cpu?: number }> = {
    "start to first vector": { wall: performance.now() * 1e6, cpu: cpu() },
  };
  const best = async (name: string, run: () => Promise<unknown>): Promise<void> => {
    let least = Infinity;
    const before = cpu();
    for (let i = 0; i < 20; i++) {
      const from = performance.now();
      await run();
      least = Math.min(least, performance.now() - from);
    }
    figures[name] = { wall: least * 1e6, cpu: (cpu() - before) / 20 };
  };
  await best("one text", () => embed(TEXTS.slice(1, 2)));
  await best("8 texts, one by one", async () => {
    for (const text of TEXTS) await embed([text]);
  });
  await best("8 texts", () => embed([...TEXTS]));
  figures["resident memory"] = { wall: process.memoryUsage().rss };
  for (const [texts, tokens] of SIZES) {
    await best(`encoder, ${texts}×${tokens}`, () => encode(texts, tokens));
  }
  return { figures, result };
}

const GIVEN = { TEXTS, SIZES };

/** The encoder alone, with our pooling. */
async function openEncoder() {
  const config = JSON.parse(readFileSync(join(FOLDER, "config.json"), "utf8"));
  const weights = await nn.open(FOLDER);
  const encoder = bert(weights, new Reader((key) => config[key], "config.json"), {});
  await weights.load({ ignore: ["pooler.*", "*position_ids"] });
  return compile((ids: Ids, types: Ids, lengths: Lengths) => {
    const { x, sights } = encoder.begin({ ids, types, lengths });
    const states = encoder.layers.reduce(
      (state, { kind, run }) => run(state, { ...sights[kind], lengths }),
      x,
    );
    return pool(encoder.end(states), lengths, "mean");
  });
}

async function run(): Promise<Outcome> {
  const embedder = await Embedder.open(FOLDER, { maxTokens: 512 });
  let encoder: Awaited<ReturnType<typeof openEncoder>> | undefined;
  return await measure(
    GIVEN,
    async (texts) => Array.from((await embedder.embed(texts))[0]!),
    async (texts, tokens) => {
      if (encoder === undefined) {
        embedder.dispose();
        encoder = await openEncoder();
      }
      using ids = full([texts, tokens], 1000, { dtype: "int32" });
      using types = full([texts, tokens], 0, { dtype: "int32" });
      using lengths = full([texts], tokens, { dtype: "int32" });
      (await encoder.async(ids, types, lengths)).dispose();
    },
  );
}

/** The program of the peer, which Node runs in its folder. */
const peerProgram = (threads: number, version: string): string => `
import { env, pipeline } from "@huggingface/transformers";
import { Tensor } from "onnxruntime-node";
env.allowRemoteModels = false;
env.localModelPath = ${JSON.stringify(join(root, "models") + "/")};
const pipe = await pipeline("feature-extraction", "minilm", {
  dtype: "fp32", device: "cpu",
  session_options: { intraOpNumThreads: ${threads}, interOpNumThreads: 1 },
});
const outcome = await (${measure})(${JSON.stringify(GIVEN)}, async (texts) => {
  const vectors = await pipe(texts, { pooling: "mean", normalize: true });
  return Array.from(vectors.data.slice(0, vectors.dims[1]));
}, async (texts, tokens) => {
  const session = pipe.model.sessions.model, shape = [texts, tokens];
  const filled = (value) =>
    new Tensor("int64", new BigInt64Array(texts * tokens).fill(value), shape);
  const all = { input_ids: filled(1000n), attention_mask: filled(1n), token_type_ids: filled(0n) };
  await session.run(Object.fromEntries(session.inputNames.map((name) => [name, all[name]])));
});
console.log(JSON.stringify({ version: ${JSON.stringify(version)}, ...outcome }));
process.exit(0);
`;

function sides(options: RunOptions): Side[] {
  const { threads } = options;
  const made: Side[] = [];
  const version = versionOf(options, "transformers.js", "@huggingface/transformers");
  if (version !== undefined && existsSync(join(FOLDER, "onnx", "model.onnx"))) {
    const program = peerProgram(threads, `transformers.js ${version}`);
    const command = ["node", "--input-type=module", "--eval", program];
    const given = { command, cwd: PEERS_FOLDER, env: environment(threads) };
    made.push(new WholeSide({ name: "transformers.js", peer: true }, () => given));
  } else if (version !== undefined) {
    options.without("transformers.js", "scripts/golden/minilm.py makes models/minilm/onnx");
  }
  return [...made, ...ownSides(options)];
}

const names = ["start to first vector", "one text", "8 texts, one by one", "8 texts"];
const sizes = SIZES.map(([texts, tokens]) => `encoder, ${texts}×${tokens}`);

/** The goals: texts, and the encoder by size. */
const GOALS: Readonly<Record<string, number>> = {
  ...Object.fromEntries(names.map((name) => [name, 0.8])),
  ...Object.fromEntries(sizes.map((name, i) => [name, [0.9, 0.95, 1][i]!])),
};

/** The suite. */
export const suite: Suite = {
  title: "Texts to vectors beside transformers.js",
  groups: { MiniLM: "MiniLM" },
  rows: [
    ...[...names, ...sizes].map((name) => ({ group: "MiniLM", name })),
    { group: "MiniLM", name: "resident memory", unit: "bytes" },
  ],
  whole: true,
  ...{ rounds: 3, ms: 0 },
  beside: "each",
  lines: "row",
  goal: (row) => {
    const ratio = GOALS[row.split("/")[1]!];
    return ratio === undefined ? undefined : { ratio };
  },
  unable: () => existsSync(FOLDER) ? undefined : "deno task models makes models/minilm",
  sides,
  run,
};
