/**
 * Times text generation beside node-llama-cpp, in processes that take turns: opening, the first token
 * from the start of a process, prompts of 128 tokens, tokens after 64 and 512 cached ones, how late a
 * timer is meanwhile, and memory.
 *
 *     generate.ts [--models=FILE.gguf,…] [--peer=FOLDER] [--onnx=FOLDER] [--rounds=3] [--threads=1,2]
 *
 * The models are those of models/smollm2 (`deno task models smollm2`) by default. FOLDER is that of an
 * npm project with `node-llama-cpp`; without it only rowmajor is timed. With --onnx, tokens of the first
 * model in float32 are timed instead, beside ONNX Runtime: FOLDER is for its model, and
 * ROWMAJOR_PYTHON names a Python that has what llama_onnx.py needs. Each figure is the median of the
 * rounds.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ones, setThreads } from "../mod.ts";
import { findTool, root } from "../scripts/tools.ts";
import * as llm from "../src/llm/mod.ts";
import * as nn from "../src/nn/mod.ts";
import { type PeerLine, promptIds, runPeer } from "./llama_peer.ts";
import { compileSpin, lateness, quantile, spin } from "./programs/timer.ts";
import { median } from "./report.ts";

const CACHED = [64, 512] as const;
/** The tokens that are timed after them. */
const COUNT = 48;
const PROMPT = 128;
const PROMPTS = 7;

/** The rows of the tables, and their units. */
const ROWS = [
  ["open", "ms"],
  ["resident memory by opening", "MiB"],
  ["start to first token", "ms"],
  ["program of a new length", "ms"],
  [`prompt of ${PROMPT}`, "ms"],
  ...CACHED.map((n) => [`token after ${n}`, "ms"] as const),
  ["timer, 99.9%", "ms"],
  ["timer beside spinning threads, 99.9%", "ms"],
  ["timer when idle, 99.9%", "ms"],
  ["resident memory", "MiB"],
  ["read bandwidth, 1 thread", "GB/s"],
] as const;
type Row = typeof ROWS[number][0];
type Figures = Partial<Record<Row, number>>;

const MIB = 2 ** 20;
const resident = (): number => process.memoryUsage().rss / MIB;

/** The bytes that a sum of float32 reads in a second, in GB/s. */
function bandwidth(): number {
  setThreads(1);
  using x = ones([2 ** 25]);
  let best = 0;
  for (let i = 0; i < 5; i++) {
    const begin = performance.now();
    x.sum().dispose();
    best = Math.max(best, 4 * x.size / (performance.now() - begin) / 1e6);
  }
  return best;
}

/** The milliseconds of each of `count` tokens, the first of which is that of the prompt. */
async function times(session: llm.Session, ids: number[], count: number): Promise<number[]> {
  session.truncate(0);
  const made: number[] = [];
  let last = performance.now();
  const tokens = session.generate(ids, { maxTokens: count, stopTokens: [] });
  for (let next = await tokens.next(); next.done !== true; next = await tokens.next()) {
    const now = performance.now();
    made.push(now - last);
    last = now;
  }
  return made;
}

/** The median milliseconds of a token in float32 after 64 cached ones. */
async function inFloat32(path: string, threads: number): Promise<Figures> {
  setThreads(threads);
  using model = await llm.open(path, { dtype: "float32", cache: "float32" });
  using session = model.session();
  const [n] = CACHED;
  await times(session, promptIds(n), 2);
  return { [`token after ${n}`]: median((await times(session, promptIds(n), COUNT + 1)).slice(1)) };
}

/** The same by ONNX Runtime. */
function byOnnxRuntime(model: string, folder: string, threads: number): Figures {
  const script = join(root, "bench", "llama_onnx.py");
  const args = [script, model, folder, `--threads=${threads}`, `--cached=${CACHED[0]}`];
  const { median } = inProcess(process.env.ROWMAJOR_PYTHON || "python3", args) as {
    readonly median?: number;
  };
  return { [`token after ${CACHED[0]}`]: median! };
}

/** `spinner` is the path of the compiled spin.c. */
async function ours(path: string, threads: number, spinner: string): Promise<Figures> {
  setThreads(threads);
  const before = resident();
  const begin = performance.now();
  (await nn.open(path)).dispose();
  const open = performance.now() - begin, opened = resident() - before;
  using model = await llm.open(path);
  using session = model.session({ capacity: 1024 });
  await times(session, promptIds(64), 1);
  const figures: Figures = {
    "open": open,
    "resident memory by opening": opened,
    "start to first token": performance.now() - open,
  };
  const [made] = await times(session, promptIds(32), 1),
    [again] = await times(session, promptIds(32), 1);
  figures["program of a new length"] = made! - again!;
  const prompts: number[] = [];
  for (let i = 0; i < PROMPTS; i++) prompts.push((await times(session, promptIds(PROMPT), 1))[0]!);
  figures[`prompt of ${PROMPT}`] = Math.min(...prompts);
  for (const n of CACHED) {
    const each = (await times(session, promptIds(n), COUNT + 1)).slice(1);
    figures[`token after ${n}`] = median(each);
  }
  const late = await lateness(async () => {
    for (let i = 0; i < 4; i++) await times(session, promptIds(64), COUNT);
  });
  figures["timer, 99.9%"] = quantile(late, 0.999);
  const spinning = await lateness(() => spin(spinner, threads, 10));
  figures["timer beside spinning threads, 99.9%"] = quantile(spinning, 0.999);
  const idle = await lateness(() => new Promise((resolve) => setTimeout(resolve, 1000)));
  figures["timer when idle, 99.9%"] = quantile(idle, 0.999);
  figures["resident memory"] = resident();
  figures["read bandwidth, 1 thread"] = bandwidth();
  return figures;
}

function ofPeer(lines: readonly PeerLine[]): Figures {
  const figures: Figures = {};
  for (const line of lines) {
    if (line.what === "first") figures["start to first token"] = line.ms;
    else if (line.what === "prefill") figures[`prompt of ${PROMPT}`] = line.ms;
    else if (line.what === "decode") {
      figures[`token after ${line.cached as typeof CACHED[number]}`] = line.median;
    }
  }
  return figures;
}

/** The figures of a process of this file. */
function inProcess(command: string, args: string[]): Figures {
  const { stdout, stderr, status } = spawnSync(command, args, { cwd: root, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} failed: ${stderr}`);
  return JSON.parse(stdout.trim().split("\n").at(-1)!);
}

const { values } = parseArgs({
  options: {
    models: { type: "string" },
    peer: { type: "string" },
    onnx: { type: "string" },
    rounds: { type: "string", default: "3" },
    threads: { type: "string", default: "1,2" },
    own: { type: "string" },
    spinner: { type: "string" },
  },
});
if (values.own !== undefined) {
  const threads = Number(values.own);
  const figures = values.spinner === undefined
    ? await inFloat32(values.models!, threads)
    : await ours(values.models!, threads, values.spinner);
  console.log(JSON.stringify(figures));
  process.exit(0);
}
const folder = join(root, "models", "smollm2");
const models = values.models?.split(",") ??
  (existsSync(folder)
    ? readdirSync(folder).filter((name) => name.endsWith(".gguf")).map((name) => join(folder, name))
    : []);
if (models.length === 0) {
  console.error("Cannot time generation: deno task models smollm2 makes models/smollm2");
  process.exit(1);
}
const path = fileURLToPath(import.meta.url);
const { peer, onnx } = values;
const temporary = mkdtempSync(join(tmpdir(), "rowmajor-generate-"));
process.on("exit", () => rmSync(temporary, { recursive: true }));
const spinner = onnx === undefined ? compileSpin(temporary) : undefined;
for (const model of onnx === undefined ? models : models.slice(0, 1)) {
  for (const threads of values.threads.split(",").map(Number)) {
    const own = [path, `--own=${threads}`, `--models=${model}`];
    if (spinner !== undefined) own.push(`--spinner=${spinner}`);
    const sides: [name: string, run: () => Figures][] = [
      ["Deno", () => inProcess(findTool("deno"), ["run", "-A", "--no-check", ...own])],
      ["Bun", () => inProcess(findTool("bun"), own)],
    ];
    if (onnx !== undefined) {
      sides.unshift(["ONNX Runtime", () => byOnnxRuntime(model, onnx, threads)]);
    } else if (peer !== undefined) {
      const request = { model, threads, cached: CACHED, count: COUNT };
      sides.unshift(["node-llama-cpp", () => ofPeer(runPeer(peer, request))]);
    }
    const figures = sides.map((): Figures[] => []);
    for (let round = 0; round < Number(values.rounds); round++) {
      for (const [i, [, run]] of sides.entries()) figures[i]!.push(run());
    }
    const title = `${basename(model)}, ${threads} thread${threads > 1 ? "s" : ""}`;
    console.log(`\n| ${title} | ${sides.map(([name]) => name).join(" | ")} |`);
    console.log(`| --- |${" ---: |".repeat(sides.length)}`);
    for (const [row, unit] of ROWS) {
      if (figures.every((all) => all.every((one) => one[row] === undefined))) continue;
      const cells = figures.map((all) => {
        const known = all.map((one) => one[row]).filter((value) => value !== undefined);
        return known.length === 0 ? undefined : median(known);
      });
      const texts = cells.map((cell, i) => {
        if (cell === undefined) return "";
        const first = cells[0];
        const ratio = i > 0 && (peer ?? onnx) !== undefined && first !== undefined
          ? `, ${(cell / first).toFixed(2)}×`
          : "";
        return `${cell.toPrecision(3)} ${unit}${ratio}`;
      });
      console.log(`| ${row} | ${texts.join(" | ")} |`);
    }
  }
}
