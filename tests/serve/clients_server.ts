/**
 * A server of models with the interface of OpenAI, for tests with clients and loads.
 *
 * Reads commands from its standard input, one a line, and ends with it, so that it does not outlive
 * its test.
 *
 *     bun tests/serve/clients_server.ts '{"chat": "model.gguf", "embeddings": "folder"}'
 *
 * @module
 */
import process from "node:process";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import * as prom from "prom-client";
import type { EngineStats } from "../../src/llm/mod.ts";
import { Chat, Classifier, Embedder } from "../../src/models/mod.ts";
import { listen } from "../../src/serve/http/listen.ts";
import type { ServiceLimits } from "../../src/serve/http/service.ts";
import { openai } from "../../src/serve/mod.ts";

/** What a server serves, and how. Its models have the names "chat", "embeddings" and "rerank". */
export interface Setup {
  /** Paths of models. */
  readonly chat?: string;
  readonly embeddings?: string;
  readonly rerank?: string;
  /** Texts that are generated at the same time. */
  readonly slots?: number;
  /** The most tokens of a text with its prompt. */
  readonly context?: number;
  /** Texts that wait for a slot. */
  readonly queue?: number;
  readonly keys?: readonly string[];
  readonly limits?: Partial<ServiceLimits>;
  /** Whether there are metrics. */
  readonly metrics?: boolean;
}

/** What a server answers to "stats". */
export interface Stats {
  readonly inFlight: number;
  readonly answered: number;
  readonly failed: number;
  /** Texts that are generated and that wait; steps, and texts that have ended. */
  readonly active: number;
  readonly waiting: number;
  readonly cancelled: number;
  readonly steps: number;
  /** Bytes. */
  readonly resident: number;
  /** How late a timer of 1 ms was since "timer", in milliseconds. */
  readonly late: { readonly p50: number; readonly p99: number; readonly max: number };
}

const setup = JSON.parse(process.argv[2]!) as Setup;
const { slots, context, queue, keys, limits } = setup;
const service = openai({
  ...setup.chat !== undefined && { chat: { chat: await Chat.open(setup.chat) } },
  ...setup.embeddings !== undefined &&
    { embeddings: { embeddings: await Embedder.open(setup.embeddings) } },
  ...setup.rerank !== undefined && { rerank: { rerank: await Classifier.open(setup.rerank) } },
}, {
  ...{ keys, limits, engine: { slots, context, queue } },
  ...setup.metrics === true && { metrics: prom },
});
const listener = listen(service.fetch, {
  ...{ hostname: "127.0.0.1", port: 0, maxBodyBytes: 64 * 1024 * 1024, idleSeconds: 120 },
});

/** How often a timer of 1 ms was late, in steps of 0.05 ms: a list of an hour would be a leak. */
const LATE_STEPS_PER_MS = 20;
const late = new Uint32Array(20_000);
let latest = Number.NaN;
function watchTimer(): void {
  late.fill(0);
  latest = 0;
  let last = performance.now();
  setInterval(() => {
    const now = performance.now();
    const ms = Math.max(0, now - last - 1);
    late[Math.min(late.length - 1, Math.floor(ms * LATE_STEPS_PER_MS))]!++;
    [latest, last] = [Math.max(latest, ms), now];
  }, 1);
}

/** The lateness that so many of all ticks do not exceed. */
function latenessOf(part: number): number {
  const count = late.reduce((sum, one) => sum + one, 0);
  let [step, ticks] = [0, late[0]!];
  while (ticks < part * count) ticks += late[++step]!;
  return Math.min(latest, (step + 1) / LATE_STEPS_PER_MS);
}

function stats(): Stats {
  const { inFlight, answered, failed, models } = service.stats;
  const { active, waiting, cancelled, steps } = {
    ...{ active: 0, waiting: 0, cancelled: 0, steps: 0 },
    ...(models as Readonly<Record<string, Partial<EngineStats>>>)["chat"],
  };
  return {
    ...{ inFlight, answered, failed, active, waiting, cancelled, steps },
    resident: process.memoryUsage().rss,
    late: { p50: latenessOf(0.5), p99: latenessOf(0.99), max: latest },
  };
}

createInterface({ input: process.stdin }).on("line", (command) => {
  if (command === "timer") watchTimer();
  else console.log(JSON.stringify(stats()));
}).on("close", () => process.exit(1));

process.on("SIGTERM", async () => {
  console.log("ending");
  await service.drain();
  // Clients that keep their connections learn of the end by a 503.
  await delay(300);
  await listener.stop();
  process.exit(0);
});
console.log(`listening on ${listener.port}`);
