/**
 * Times texts to vectors by MiniLM beside transformers.js in Node: from the start of a process to
 * the first vector, texts one by one, texts of mixed lengths in a batch, and the resident memory;
 * and its encoder alone, with our pooling, beside a session of the ONNX Runtime that transformers.js
 * uses.
 *
 *     texts.ts --peer=FOLDER [--rounds=3] [--threads=1,2]
 *
 * FOLDER is that of an npm project with `@huggingface/transformers`; models/minilm in it has the
 * JSON files of models/minilm here (`deno task models`), and onnx/model.onnx, which
 * scripts/golden/minilm.py makes. Without it only rowmajor is timed. Each figure is the median of
 * processes that take turns, and the best of the calls in one process.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { full, setThreads } from "../mod.ts";
import { encoder } from "../examples/embed/bert.ts";
import { Embedder, readFolder } from "../examples/embed/embedder.ts";
import { findTool, root } from "../scripts/tools.ts";
import { compile } from "../src/compile/mod.ts";
import * as nn from "../src/nn/mod.ts";
import { median } from "./report.ts";

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
const ROWS = [
  ...["start to first vector", "one text", "8 texts, one by one", "8 texts"],
  ...SIZES.map(([texts, tokens]) => `encoder, ${texts}×${tokens}`),
];
/** Milliseconds of each row, then MiB. */
type Figures = readonly number[];

/** Prints the figures of `embed`, which gives the first vector, and of the encoder. */
async function report(
  embed: (texts: string[]) => Promise<number[]>,
  encode: (texts: number, tokens: number) => Promise<unknown>,
): Promise<void> {
  const vector = await embed(TEXTS.slice(0, 1));
  const start = performance.now();
  const best = async (run: () => Promise<unknown>): Promise<number> => {
    let least = Infinity;
    for (let i = 0; i < 20; i++) {
      const from = performance.now();
      await run();
      least = Math.min(least, performance.now() - from);
    }
    return least;
  };
  const one = await best(() => embed(TEXTS.slice(1, 2)));
  const each = await best(async () => {
    for (const text of TEXTS) await embed([text]);
  });
  const all = await best(() => embed(TEXTS));
  const memory = process.memoryUsage().rss / 2 ** 20;
  const sizes: number[] = [];
  for (const [texts, tokens] of SIZES) sizes.push(await best(() => encode(texts, tokens)));
  console.log(JSON.stringify({ figures: [start, one, each, all, ...sizes, memory], vector }));
}

async function ours(threads: number): Promise<void> {
  setThreads(threads);
  const files = readFolder(join(root, "models", "minilm"));
  const embedder = await Embedder.open(files);
  let run: ReturnType<typeof compile<ReturnType<typeof encoder>>> | undefined;
  await report(
    async (texts) => Array.from((await embedder.embed(texts))[0]!),
    async (texts, tokens) => {
      if (run === undefined) {
        embedder[Symbol.dispose]();
        run = compile(
          encoder(await nn.open(files.weights, { dtype: "float32" }), files.config, "mean"),
        );
      }
      using ids = full([texts, tokens], 1000, { dtype: "int32" });
      using lengths = full([texts], tokens, { dtype: "int32" });
      (await run.async(ids as never, lengths as never)).dispose();
    },
  );
}

/** The program of the peer, which Node runs in its folder. */
const peerProgram = (threads: number): string => `
import { env, pipeline } from "@huggingface/transformers";
import { Tensor } from "onnxruntime-node";
env.allowRemoteModels = false;
env.localModelPath = process.cwd() + "/models/";
const pipe = await pipeline("feature-extraction", "minilm", {
  dtype: "fp32", device: "cpu",
  session_options: { intraOpNumThreads: ${threads}, interOpNumThreads: 1 },
});
const TEXTS = ${JSON.stringify(TEXTS)}, SIZES = ${JSON.stringify(SIZES)};
await (${report})(async (texts) => {
  const vectors = await pipe(texts, { pooling: "mean", normalize: true });
  return Array.from(vectors.data.slice(0, vectors.dims[1]));
}, async (texts, tokens) => {
  const session = pipe.model.sessions.model, shape = [texts, tokens];
  const filled = (value) =>
    new Tensor("int64", new BigInt64Array(texts * tokens).fill(value), shape);
  const all = { input_ids: filled(1000n), attention_mask: filled(1n), token_type_ids: filled(0n) };
  await session.run(Object.fromEntries(session.inputNames.map((name) => [name, all[name]])));
});
process.exit(0);
`;

function run(command: string, args: string[], cwd: string): { figures: Figures; vector: number[] } {
  const { stdout, stderr, status } = spawnSync(command, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} failed: ${stderr}`);
  return JSON.parse(stdout.trim().split("\n").at(-1)!);
}

const { values } = parseArgs({
  options: {
    peer: { type: "string" },
    rounds: { type: "string", default: "3" },
    threads: { type: "string", default: "1,2" },
    own: { type: "string" },
  },
});
if (values.own !== undefined) {
  await ours(Number(values.own));
  process.exit(0);
}
if (!existsSync(join(root, "models", "minilm"))) {
  console.error("Cannot time texts: deno task models makes models/minilm");
  process.exit(1);
}
const path = fileURLToPath(import.meta.url);
for (const threads of values.threads.split(",").map(Number)) {
  const own = [path, `--own=${threads}`];
  const sides: [name: string, ...call: Parameters<typeof run>][] = [
    ["Deno", findTool("deno"), ["run", "-A", "--no-check", ...own], root],
    ["Bun", findTool("bun"), own, root],
  ];
  if (values.peer !== undefined) {
    const program = ["--input-type=module", "--eval", peerProgram(threads)];
    sides.unshift(["transformers.js", "node", program, resolve(values.peer)]);
  }
  const figures = sides.map((): Figures[] => []);
  for (let round = 0; round < Number(values.rounds); round++) {
    let expected: number[] | undefined;
    for (const [i, [name, ...call]] of sides.entries()) {
      const { figures: own, vector } = run(...call);
      expected ??= vector;
      const cosine = vector.reduce((sum, x, j) => sum + x * expected![j]!, 0);
      if (!(cosine > 0.9999)) throw new Error(`${name} gives another vector: cosine ${cosine}`);
      figures[i]!.push(own);
    }
  }
  const names = sides.map(([name]) => name);
  console.log(`\n| ${threads} thread${threads > 1 ? "s" : ""} | ${names.join(" | ")} |`);
  console.log(`| --- |${" ---: |".repeat(names.length)}`);
  [...ROWS, "resident memory"].forEach((row, k) => {
    const cells = figures.map((all) => median(all.map((one) => one[k]!)));
    const unit = k < ROWS.length ? "ms" : "MiB";
    const texts = cells.map((cell, i) =>
      `${cell.toPrecision(3)} ${unit}` +
      (i > 0 && values.peer !== undefined ? `, ${(cell / cells[0]!).toFixed(2)}×` : "")
    );
    console.log(`| ${row} | ${texts.join(" | ")} |`);
  });
}
