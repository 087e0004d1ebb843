/**
 * Texts that llama.cpp generates at the same time: by node-llama-cpp, which batches the sequences of a
 * context, and by llama-server with as many slots.
 *
 * @module
 */
import { resolve } from "node:path";

/** What a peer generates. */
export interface BatchRequest {
  readonly model: string;
  readonly threads: number;
  /** Numbers of texts at a time. */
  readonly texts: readonly number[];
  /** The tokens of each. */
  readonly count: number;
  /** The tokens of a prompt. */
  readonly prompt: number;
  readonly version: string;
}

/** The tokens of the prompt of a text, which every vocabulary has. */
export function batchIds(count: number, text: number): number[] {
  return Array.from({ length: count }, (_, i) => 100 + (i * 7 + text * 13) % 391);
}

/** Programs run in Node, so they have no types and use nothing of this file. */
const SHARED = `
import process from "node:process";
const request = JSON.parse(process.argv.at(-1));
const { model: modelPath, threads, texts, count, prompt, version } = request;
const batchIds = ${batchIds};
/** The time per token of some texts after the first token of each. */
async function figureOf(n, one, cpu) {
  let begun = 0, wall, used;
  const begin = () => { if (++begun === n) { wall = performance.now(); used = cpu(); } };
  await Promise.all(Array.from({ length: n }, (_, k) => one(k, begin)));
  const tokens = n * (count - 1);
  return { wall: (performance.now() - wall) * 1e6 / tokens, cpu: (cpu() - used) / tokens };
}
async function run(one, cpu) {
  const figures = {};
  for (const n of texts) {
    await figureOf(n, one, cpu);
    const all = [];
    for (let i = 0; i < 3; i++) all.push(await figureOf(n, one, cpu));
    figures[n === 1 ? "1 text" : n + " texts"] = all.sort((a, b) => a.cpu - b.cpu)[0];
  }
  console.log(JSON.stringify({ version, figures }));
}
`;

const BINDING = `${SHARED}
import { getLlama, LlamaLogLevel } from "node-llama-cpp";
// The package tests its library in a process with the arguments of this one.
process.execArgv = [];
const llama = await getLlama({
  gpu: false, build: "never", maxThreads: threads, logLevel: LlamaLogLevel.error,
  progressLogs: false,
});
const model = await llama.loadModel({ modelPath });
const most = Math.max(...texts);
const context = await model.createContext({ contextSize: 512, sequences: most, threads, batchSize: 512 });
const sequences = Array.from({ length: most }, () => context.getSequence());
await run(async (k, begin) => {
  let made = 0;
  await sequences[k].clearHistory();
  for await (const _ of sequences[k].evaluate(batchIds(prompt, k), { temperature: 0, yieldEogToken: true })) {
    if (++made === 1) begin();
    if (made === count) break;
  }
}, () => { const { user, system } = process.cpuUsage(); return (user + system) * 1e3; });
process.exit(0);
`;

const SERVER = `${SHARED}
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
const port = 20000 + process.pid % 20000, most = Math.max(...texts);
const server = spawn(process.env.ROWMAJOR_LLAMA_SERVER, [
  "-m", modelPath, "--port", String(port), "-t", String(threads), "-tb", String(threads),
  "-np", String(most), "-c", String(512 * most), "--no-webui", "-ngl", "0",
], { stdio: "ignore" });
process.on("exit", () => server.kill());
const url = "http://127.0.0.1:" + port;
for (;;) {
  try { if ((await fetch(url + "/health")).ok) break; } catch { /* It starts. */ }
  await new Promise((resolve) => setTimeout(resolve, 100));
}
/** The CPU time of the server in nanoseconds: ticks of 10 ms. */
const cpu = () => {
  const fields = readFileSync("/proc/" + server.pid + "/stat", "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 1e7;
};
await run(async (k, begin) => {
  const body = {
    prompt: batchIds(prompt, k), n_predict: count, temperature: 0, ignore_eos: true, stream: true,
    cache_prompt: false, id_slot: k,
  };
  const answer = await fetch(url + "/completion", { method: "POST", body: JSON.stringify(body) });
  let isFirst = true;
  for await (const _ of answer.body) {
    if (isFirst) begin();
    isFirst = false;
  }
}, cpu);
process.exit(0);
`;

/** The command of a request, which prints a line of JSON. */
export function batchCommand(request: BatchRequest, which: "binding" | "server"): string[] {
  const given = JSON.stringify({ ...request, model: resolve(request.model) });
  const program = which === "binding" ? BINDING : SERVER;
  return ["node", "--input-type=module", "--eval", program, given];
}
