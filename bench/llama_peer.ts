/**
 * node-llama-cpp on a GGUF file: what it takes for tokens, and which tokens it gives. Node runs it in
 * a folder that has the package:
 *
 *     npm install node-llama-cpp
 *     llama_peer.ts --peer=FOLDER --model=FILE.gguf [--threads=1] [--cached=64,512]
 *     llama_peer.ts --peer=FOLDER --model=FILE.gguf --prompts=FILE.json [--count=32]
 *
 * The first prints times as lines of JSON, in milliseconds: from the start of the process to the first
 * token after 64, of a prompt of 128 tokens, and of a token after each number of cached ones. The
 * second prints the best tokens after prompts, which are arrays of the numbers of tokens, and the
 * margin between the logits of the best two at each step.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";

/** What to do with a model. */
export interface PeerRequest {
  /** The path of the file. */
  readonly model: string;
  readonly threads: number;
  /** Numbers of cached tokens after which to time tokens. */
  readonly cached?: readonly number[];
  /** Prompts after which to give tokens. */
  readonly prompts?: readonly (readonly number[])[];
  /** The number of tokens to give, or to time. */
  readonly count: number;
}

/** A time, or the tokens after a prompt. */
export type PeerLine =
  | { readonly what: "first" | "load"; readonly ms: number }
  | { readonly what: "prefill"; readonly tokens: number; readonly ms: number }
  | {
    readonly what: "decode";
    readonly cached: number;
    readonly ms: number;
    readonly median: number;
  }
  | { readonly what: "tokens"; readonly tokens: number[]; readonly margins: number[] };

/** The numbers of tokens that prompts of `count` tokens have, which every vocabulary has. */
export function promptIds(count: number): number[] {
  return Array.from({ length: count }, (_, i) => 100 + i * 7 % 391);
}

/** Runs in Node, so it has no types and uses nothing of this file. */
const PROGRAM = `
import { getLlama, LlamaLogLevel } from "node-llama-cpp";
// The package tests its library in a process with the arguments of this one.
process.execArgv = [];
const { model: modelPath, threads, cached, prompts, count } = JSON.parse(process.argv.at(-1));
const promptIds = ${promptIds};
const print = (line) => console.log(JSON.stringify(line));
const llama = await getLlama({
  gpu: false, build: "never", maxThreads: threads, logLevel: LlamaLogLevel.error,
  progressLogs: false,
});
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({ contextSize: 1024, threads });
const sequence = context.getSequence();
const options = { temperature: 0, yieldEogToken: true };
const load = performance.now();
/** The milliseconds of each of some tokens after a prompt, whose own time is the first. */
async function times(ids, tokens) {
  await sequence.clearHistory();
  const made = [];
  let last = performance.now();
  for await (const _ of sequence.evaluate(ids, options)) {
    const now = performance.now();
    made.push(now - last);
    last = now;
    if (made.length > tokens) break;
  }
  return made;
}
const least = (all) => Math.min(...all);
const median = (all) => all.toSorted((a, b) => a - b)[all.length >> 1];
if (prompts !== undefined) {
  for (const ids of prompts) {
    await sequence.clearHistory();
    const tokens = [], margins = [];
    const steps = sequence.evaluateWithMetadata(ids, { probabilities: true }, options);
    for await (const { token, probabilities } of steps) {
      const [best, second] = [...probabilities.values()].sort((a, b) => b - a);
      tokens.push(token);
      margins.push(Number(Math.log(best / second).toFixed(4)));
      if (tokens.length === count) break;
    }
    print({ what: "tokens", tokens, margins });
  }
} else {
  await times(promptIds(64), 0);
  print({ what: "load", ms: load });
  print({ what: "first", ms: performance.now() });
  const whole = [];
  for (let i = 0; i < 7; i++) whole.push((await times(promptIds(128), 0))[0]);
  print({ what: "prefill", tokens: 128, ms: least(whole) });
  for (const n of cached) {
    const each = (await times(promptIds(n), count)).slice(1);
    print({ what: "decode", cached: n, ms: least(each), median: median(each) });
  }
}
process.exit(0);
`;

/** Runs a request in the folder of the peer. */
export function runPeer(folder: string, request: PeerRequest): PeerLine[] {
  const given = JSON.stringify({ ...request, model: resolve(request.model) });
  const args = ["--input-type=module", "--eval", PROGRAM, given];
  const options = { cwd: resolve(folder), encoding: "utf8", maxBuffer: 2 ** 26 } as const;
  const { stdout, stderr, status } = spawnSync("node", args, options);
  if (status !== 0) throw new Error(`node-llama-cpp failed: ${stderr}`);
  return stdout.trim().split("\n").map((line) => JSON.parse(line) as PeerLine);
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      peer: { type: "string" },
      model: { type: "string" },
      threads: { type: "string", default: "1" },
      cached: { type: "string", default: "64,512" },
      prompts: { type: "string" },
      count: { type: "string", default: "32" },
    },
  });
  const { peer, model, prompts } = values;
  if (peer === undefined || model === undefined) {
    console.error("Cannot run node-llama-cpp: --peer=FOLDER and --model=FILE.gguf are missing");
    process.exit(2);
  }
  const request = { model, threads: Number(values.threads), count: Number(values.count) };
  const more = prompts === undefined
    ? { cached: values.cached.split(",").map(Number) }
    : { prompts: JSON.parse(readFileSync(prompts, "utf8")) };
  for (const line of runPeer(peer, { ...request, ...more })) console.log(JSON.stringify(line));
}
