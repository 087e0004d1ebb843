/**
 * node-llama-cpp on a GGUF file: the time of its tokens, and which tokens it gives. Node runs it in a
 * folder that has the package.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { resolve } from "node:path";

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
  /** That of the package, for the figures. */
  readonly version?: string;
}

/** The tokens after a prompt, and the margins between the logits of the best two. */
export interface PeerLine {
  readonly tokens: number[];
  readonly margins: number[];
}

/** The numbers of tokens that prompts of `count` tokens have, which every vocabulary has. */
export function promptIds(count: number): number[] {
  return Array.from({ length: count }, (_, i) => 100 + i * 7 % 391);
}

/** Runs in Node, so it has no types and uses nothing of this file. */
const PROGRAM = `
import { getLlama, LlamaLogLevel } from "node-llama-cpp";
// The package tests its library in a process with the arguments of this one.
process.execArgv = [];
const { model: modelPath, threads, cached, prompts, count, version } = JSON.parse(process.argv.at(-1));
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
const cpu = () => { const { user, system } = process.cpuUsage(); return (user + system) * 1e3; };
/** The figures of each of some tokens after a prompt, whose own is the first. */
async function times(ids, tokens) {
  await sequence.clearHistory();
  const made = [];
  let [last, used] = [performance.now(), cpu()];
  for await (const _ of sequence.evaluate(ids, options)) {
    const [now, spent] = [performance.now(), cpu()];
    made.push({ wall: (now - last) * 1e6, cpu: spent - used });
    [last, used] = [now, spent];
    if (made.length > tokens) break;
  }
  return made;
}
const sorted = (all) => all.toSorted((a, b) => a.wall - b.wall);
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
    print({ tokens, margins });
  }
} else {
  await times(promptIds(64), 0);
  const figures = { "start to first token": { wall: performance.now() * 1e6, cpu: cpu() } };
  const whole = [];
  for (let i = 0; i < 7; i++) whole.push((await times(promptIds(128), 0))[0]);
  figures["prompt of 128"] = sorted(whole)[0];
  for (const n of cached) {
    const each = sorted((await times(promptIds(n), count)).slice(1));
    figures["token after " + n] = each[each.length >> 1];
  }
  print({ version: "node-llama-cpp " + version, figures });
}
process.exit(0);
`;

/** The command of a request, which prints lines of JSON. */
export function peerCommand(request: PeerRequest): string[] {
  const given = JSON.stringify({ ...request, model: resolve(request.model) });
  return ["node", "--input-type=module", "--eval", PROGRAM, given];
}

/** The tokens after each prompt of a request. */
export function runPeer(folder: string, request: PeerRequest): PeerLine[] {
  const [node, ...args] = peerCommand(request);
  const options = { cwd: resolve(folder), encoding: "utf8", maxBuffer: 2 ** 26 } as const;
  const { stdout, stderr, status } = spawnSync(node!, args, options);
  if (status !== 0) throw new Error(`node-llama-cpp failed: ${stderr}`);
  return stdout.trim().split("\n").map((line) => JSON.parse(line) as PeerLine);
}
