/**
 * Text generation beside node-llama-cpp on the same files: opening, the first token from the start of a
 * process, prompts of 128 tokens, tokens after 64 and 512 cached ones, how late a timer is meanwhile,
 * and memory; and tokens in float32 beside ONNX Runtime.
 *
 * The models are those of models/smollm2 (`deno task models smollm2`), or of the folder that
 * ROWMAJOR_BENCH_MODELS names.
 *
 * @module
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { root } from "../../scripts/tools.ts";
import * as llm from "../../src/llm/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { ones } from "../../mod.ts";
import { environment } from "../harness/line_process.ts";
import { findPython } from "../harness/python.ts";
import { mayHold, ownSides, WholeSide } from "../harness/served.ts";
import {
  best,
  type Figure,
  middle,
  type Outcome,
  quantile,
  type RunOptions,
  type Side,
  Stopwatch,
  type Suite,
} from "../harness/suite.ts";
import { peerCommand, promptIds } from "./llama_peer.ts";
import { PEERS_FOLDER, versionOf } from "./node_peers.ts";
import { lateness, spin } from "./timer.ts";

const FOLDER = process.env.ROWMAJOR_BENCH_MODELS || join(root, "models", "smollm2");
const MODELS = existsSync(FOLDER)
  ? readdirSync(FOLDER).filter((name) => name.endsWith(".gguf")).map((name) => name.slice(0, -5))
  : [];
const CACHED = [64, 512] as const;
/** The tokens that are timed after them. */
const COUNT = 48;
const PROMPT = 128;
const PROMPTS = 7;
/** The mark of groups in float32. */
const FLOAT32 = " in float32";

const pathOf = (group: string): string => join(FOLDER, `${group.replace(FLOAT32, "")}.gguf`);

/** The figures of each of `count` tokens, the first of which is that of the prompt. */
async function times(session: llm.Session, ids: number[], count: number): Promise<Figure[]> {
  session.truncate(0);
  const made: Figure[] = [];
  let watch = new Stopwatch();
  const tokens = session.generate(ids, { maxTokens: count, stopTokens: [] });
  for (let next = await tokens.next(); next.done !== true; next = await tokens.next()) {
    made.push(watch.read());
    watch = new Stopwatch();
  }
  return made;
}

/** A token in float32 after 64 cached ones. */
async function inFloat32(path: string): Promise<Outcome> {
  using model = await llm.open(path, { dtype: "float32", cache: "float32" });
  using session = model.session();
  const [n] = CACHED;
  await times(session, promptIds(n), 2);
  const each = (await times(session, promptIds(n), COUNT + 1)).slice(1);
  return { figures: { [`token after ${n}`]: middle(each) } };
}

async function run(group: string, threads: number): Promise<Outcome> {
  const path = pathOf(group);
  if (group.endsWith(FLOAT32)) return await inFloat32(path);
  const figures: Record<string, Figure> = {};
  const before = process.memoryUsage().rss;
  const opening = new Stopwatch();
  (await nn.open(path)).dispose();
  figures.open = opening.read();
  figures["memory by opening"] = { wall: Math.max(1, process.memoryUsage().rss - before) };
  using model = await llm.open(path);
  using session = model.session({ capacity: 1024 });
  await times(session, promptIds(64), 1);
  const { user, system } = process.cpuUsage();
  const cpu = (user + system) * 1e3 - figures.open.cpu!;
  figures["start to first token"] = { wall: performance.now() * 1e6 - figures.open.wall, cpu };
  const [made] = await times(session, promptIds(32), 1);
  const [again] = await times(session, promptIds(32), 1);
  figures["program of a new length"] = { wall: Math.max(1, made!.wall - again!.wall) };
  const prompts: Figure[] = [];
  for (let i = 0; i < PROMPTS; i++) prompts.push((await times(session, promptIds(PROMPT), 1))[0]!);
  figures[`prompt of ${PROMPT}`] = best(prompts);
  for (const n of CACHED) {
    figures[`token after ${n}`] = middle((await times(session, promptIds(n), COUNT + 1)).slice(1));
  }
  const late = async (work: () => Promise<unknown>): Promise<Figure> => {
    const all = await lateness(async () => void await work());
    return { wall: Math.max(0, quantile(all, 0.999)) * 1e6 };
  };
  figures["delay of a timer"] = await late(async () => {
    for (let i = 0; i < 4; i++) await times(session, promptIds(64), COUNT);
  });
  figures["delay beside spinning threads"] = await late(() => spin(threads, 10));
  figures["delay when idle"] = await late(() => new Promise((done) => setTimeout(done, 1000)));
  figures["resident memory"] = { wall: process.memoryUsage().rss };
  using x = ones([2 ** 25]);
  figures["read of 128 MiB"] = best(Array.from({ length: 5 }, () => {
    const watch = new Stopwatch();
    x.sum().dispose();
    return watch.read();
  }));
  return { figures };
}

/** The modules that llama_onnx.py imports. */
const MODULES = ["gguf", "numpy", "onnx", "onnxruntime", "torch"];

function sides(options: RunOptions): Side[] {
  const { threads, without } = options;
  const made: Side[] = [];
  const env = environment(threads);
  const version = versionOf(options, "node-llama-cpp", "node-llama-cpp");
  if (version !== undefined) {
    made.push(
      new WholeSide({ name: "node-llama-cpp", peer: true }, (group) => {
        if (group.endsWith(FLOAT32)) return undefined;
        const request = { model: pathOf(group), threads, cached: CACHED, count: COUNT };
        return { command: peerCommand({ ...request, version }), cwd: PEERS_FOLDER, env };
      }),
    );
  }
  if (mayHold(options, "ONNX Runtime")) {
    const python = findPython([], MODULES);
    const [reason] = python.missing.values();
    if (reason !== undefined) without("ONNX Runtime", reason);
    else {
      const script = join(root, "bench", "suites", "llama_onnx.py");
      made.push(
        new WholeSide({ name: "ONNX Runtime", peer: true }, (group) => {
          if (!group.endsWith(FLOAT32)) return undefined;
          const folder = join(FOLDER, "onnx", group.replace(FLOAT32, ""));
          const args = [`--threads=${threads}`, `--cached=${CACHED[0]}`];
          return { command: [python.path!, script, pathOf(group), folder, ...args], env };
        }),
      );
    }
  }
  return [...made, ...ownSides(options)];
}

const bytes = { unit: "bytes" } as const;
const ROWS = [
  { name: "open" },
  { name: "memory by opening", ...bytes },
  { name: "start to first token" },
  { name: "program of a new length" },
  { name: `prompt of ${PROMPT}` },
  ...CACHED.map((n) => ({ name: `token after ${n}` })),
  { name: "delay of a timer" },
  { name: "delay beside spinning threads" },
  { name: "delay when idle" },
  { name: "resident memory", ...bytes },
  { name: "read of 128 MiB" },
];

/** The suite. */
export const suite: Suite = {
  title: "Text generation beside node-llama-cpp and ONNX Runtime",
  groups: Object.fromEntries(
    [...MODELS, ...MODELS.slice(0, 1).map((name) => name + FLOAT32)].map((name) => [name, name]),
  ),
  rows: [
    ...MODELS.flatMap((group) => ROWS.map((row) => ({ group, ...row }))),
    ...MODELS.slice(0, 1).map((name) => ({
      ...{ group: name + FLOAT32, name: `token after ${CACHED[0]}` },
    })),
  ],
  whole: true,
  ...{ rounds: 3, ms: 0 },
  beside: "each",
  lines: "row",
  shortRows: /: (start to first token|prompt of 128|token after 64)$/,
  modules: MODULES,
  unable: () => MODELS.length > 0 ? undefined : "deno task models smollm2 makes models/smollm2",
  sides,
  run,
};
