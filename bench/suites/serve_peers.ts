/**
 * The servers that the suite "serve" compares with: transformers.js in a plain server of Bun, and
 * node-llama-cpp's batching in one of Node. They write `listening on PORT`, and figures for each line
 * that they read, as tests/serve/clients_server.ts does.
 *
 * @module
 */

/** What a peer serves. */
export interface PeerSetup {
  /** The folder of the model, and its name there; or the path of its file. */
  readonly folder: string;
  readonly model: string;
  readonly threads: number;
  /** Texts that are generated at the same time. */
  readonly slots: number;
}

/** Programs run in the folder of the peers, so they have no types and use nothing of this file. */
const SHARED = `
import process from "node:process";
import { createInterface } from "node:readline";
const { folder, model: name, threads, slots } = JSON.parse(process.argv.at(-1));
let late = [];
createInterface({ input: process.stdin }).on("line", (command) => {
  if (command === "timer") {
    late = [];
    let last = performance.now();
    setInterval(() => {
      const now = performance.now();
      late.push(now - last - 1);
      last = now;
    }, 1);
    return;
  }
  const sorted = Float64Array.from(late).sort();
  const at = (part) => sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)];
  console.log(JSON.stringify({
    resident: process.memoryUsage().rss,
    late: { p50: at(0.5), p99: at(0.99), max: at(1) },
  }));
}).on("close", () => process.exit(1));
`;

const TRANSFORMERS = `${SHARED}
import { env, pipeline } from "@huggingface/transformers";
env.allowRemoteModels = false;
env.localModelPath = folder;
const pipe = await pipeline("feature-extraction", name, {
  dtype: "fp32", device: "cpu",
  session_options: { intraOpNumThreads: threads, interOpNumThreads: 1 },
});
const server = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 120,
  async fetch(request) {
    const { model, input } = await request.json();
    const vectors = await pipe([input].flat(), { pooling: "mean", normalize: true });
    const [count, size] = vectors.dims;
    const data = Array.from({ length: count }, (_, index) => ({
      object: "embedding",
      index,
      embedding: Array.from(vectors.data.subarray(index * size, (index + 1) * size)),
    }));
    return Response.json({ object: "list", data, model });
  },
});
console.log("listening on " + server.port);
`;

const LLAMA = `${SHARED}
import { createServer } from "node:http";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";
// The package tests its library in a process with the arguments of this one.
process.execArgv = [];
const llama = await getLlama({
  gpu: false, build: "never", maxThreads: threads, logLevel: LlamaLogLevel.error,
  progressLogs: false,
});
const model = await llama.loadModel({ modelPath: folder + "/" + name });
const context = await model.createContext({ contextSize: 512, sequences: slots, threads, batchSize: 512 });
const free = Array.from({ length: slots }, () => context.getSequence());
const waiting = [];
const system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
const turn = (role, text) => "<|im_start|>" + role + "\\n" + text + "<|im_end|>\\n";
const server = createServer(async (request, response) => {
  let body = "";
  for await (const part of request) body += part;
  const { messages, max_tokens: most } = JSON.parse(body);
  const text = turn("system", system) + messages.map((m) => turn(m.role, m.content)).join("") +
    "<|im_start|>assistant\\n";
  const sequence = free.pop() ?? await new Promise((resolve) => waiting.push(resolve));
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (value) => response.write("data: " + JSON.stringify(value) + "\\n\\n");
  await sequence.clearHistory();
  let made = 0;
  const ids = model.tokenize(text, true);
  for await (const token of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true })) {
    if (model.isEogToken(token)) break;
    made++;
    send({ choices: [{ index: 0, delta: { content: model.detokenize([token]) } }] });
    if (made === most) break;
  }
  send({ choices: [], usage: { prompt_tokens: ids.length, completion_tokens: made } });
  response.end("data: [DONE]\\n\\n");
  const next = waiting.shift();
  if (next === undefined) free.push(sequence);
  else next(sequence);
});
server.keepAliveTimeout = 120000;
server.listen(0, "127.0.0.1", () => console.log("listening on " + server.address().port));
`;

/** The command of a server of transformers.js, which has the vectors of texts. */
export function transformersCommand(bun: string, setup: PeerSetup): string[] {
  return [bun, "-e", TRANSFORMERS, JSON.stringify(setup)];
}

/** The command of a server of node-llama-cpp, which has the answers to chats. */
export function llamaCommand(setup: PeerSetup): string[] {
  return ["node", "--input-type=module", "--eval", LLAMA, JSON.stringify(setup)];
}
