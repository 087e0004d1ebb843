/**
 * A server that classifies digits in pictures, in Bun and in Deno.
 *
 *     bun examples/server/main.ts
 *     deno run --allow-net --allow-read --allow-ffi --allow-env examples/server/main.ts
 *
 * docs/serving.md explains how to run it in production. TERM and INT end it: it stops accepting
 * work, answers accepted requests, and exits with 0.
 *
 * @module
 */
import process from "node:process";
import { setInterval } from "node:timers";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { info, setThreads } from "../../mod.ts";
import { type Classifier, makeClassifier } from "../digits/classifier.ts";
import { loadLargeModel } from "../digits/large.ts";
import { PIXELS } from "../digits/pictures.ts";
import { type App, LIMITS, makeApp } from "./app.ts";
import { fitBatch } from "./batcher.ts";
import { listen, type Listener } from "./listen.ts";

const USAGE = `usage: main.ts [options]

  --host NAME       the address to listen on (127.0.0.1; 0.0.0.0 for all)
  --port N          the port (8000; 0 for any that is free)
  --batch N         the most images of a batch (${LIMITS.maxBatch}; 1 for no batching)
  --wait-ms N       how long an image waits for others (${LIMITS.maxWaitMs})
  --queue N         the most images that wait (${LIMITS.queue}); beyond, the answer is 503
  --in-flight N     the most requests at once (${LIMITS.inFlight}); beyond, the answer is 503
  --per-client N    the most bodies that arrive from one address (${LIMITS.perClient})
  --threads N       how many threads compute a batch (1)
  --drain-ms N      how long to go on answering 503 after TERM (500)
  --grace-ms N      how long, after TERM, accepted requests may take (10000)
  --model FILE      another model
  -h, --help        prints this`;

/** The longest batch: without the native library, nothing else runs in the process meanwhile. */
const BATCH_BUDGET_MS = 5;
/** The interval of checks whether the event loop is late. */
const TICK_MS = 10;

class UsageError extends Error {}

function parse(args: string[]) {
  const text = (value: string) => ({ type: "string", default: value }) as const;
  const { values } = parseArgs({
    args,
    options: {
      host: text("127.0.0.1"),
      port: text("8000"),
      batch: text(`${LIMITS.maxBatch}`),
      "wait-ms": text(`${LIMITS.maxWaitMs}`),
      queue: text(`${LIMITS.queue}`),
      "in-flight": text(`${LIMITS.inFlight}`),
      "per-client": text(`${LIMITS.perClient}`),
      threads: text("1"),
      "drain-ms": text("500"),
      "grace-ms": text("10000"),
      model: { type: "string" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  const number = (name: Exclude<keyof typeof values, "help">, least: number, most: number) => {
    const value = Number(values[name] || NaN);
    if (Number.isInteger(value) && value >= least && value <= most) return value;
    throw new UsageError(
      `--${name} ${values[name]}: an integer from ${least} to ${most} goes here`,
    );
  };
  return {
    help: values.help,
    model: values.model,
    hostname: values.host,
    port: number("port", 0, 65535),
    threads: number("threads", 1, 256),
    drainMs: number("drain-ms", 0, 600_000),
    graceMs: number("grace-ms", 0, 600_000),
    limits: {
      ...LIMITS,
      maxBatch: number("batch", 1, 1024),
      maxWaitMs: number("wait-ms", 0, 1000),
      queue: number("queue", LIMITS.images, 1_000_000),
      inFlight: number("in-flight", 1, 100_000),
      perClient: number("per-client", 1, 100_000),
    },
  };
}

/**
 * The duration of a batch in milliseconds: the best of three, after one that opens and compiles.
 */
function timeBatch(classify: Classifier, size: number): number {
  const images = Array.from({ length: size }, () => new Float32Array(PIXELS));
  classify(images);
  const times = [1, 2, 3].map(() => {
    const begin = performance.now();
    classify(images);
    return performance.now() - begin;
  });
  return Math.min(...times);
}

/** Reports the lateness of timers to the metrics. */
function watchEventLoop(app: App): void {
  let due = performance.now() + TICK_MS;
  setInterval(() => {
    const now = performance.now();
    app.metrics.late(Math.max(now - due, 0) / 1000);
    due = now + TICK_MS;
  }, TICK_MS).unref();
}

/** Shuts down in order; returns the exit code. */
async function shutDown(
  app: App,
  listener: Listener,
  drainMs: number,
  graceMs: number,
): Promise<number> {
  app.drain();
  const end = performance.now() + graceMs;
  await delay(drainMs);
  // The socket stays open meanwhile: closing it would break bodies in transit.
  while (app.inFlight > 0 && performance.now() < end) await delay(5);
  const lost = app.inFlight;
  // The last answers may still be in transit; idle connections are not waited for.
  await Promise.race([listener.stop(), delay(1000)]);
  if (lost > 0) console.error(`${lost} requests were not done after ${graceMs} ms`);
  return lost > 0 ? 1 : 0;
}

async function main(args: string[]): Promise<void> {
  let options: ReturnType<typeof parse>;
  try {
    options = parse(args);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    process.exitCode = 2;
    return;
  }
  if (options.help) return console.log(USAGE);
  let listener: Listener;
  let app: App;
  try {
    // A batch takes less than a millisecond: a second thread gains little, and waits for a core.
    setThreads(options.threads);
    const classify = makeClassifier(await loadLargeModel(options.model));
    const most = options.limits.maxBatch;
    const maxBatch = fitBatch(most, BATCH_BUDGET_MS, (size) => timeBatch(classify, size));
    if (maxBatch < most) console.log(`batches of at most ${maxBatch}, for ${BATCH_BUDGET_MS} ms`);
    app = makeApp(classify.async, { ...options.limits, maxBatch });
    listener = listen(app.handle, {
      hostname: options.hostname,
      port: options.port,
      maxBodyBytes: 2 * LIMITS.bodyBytes,
      idleSeconds: LIMITS.bodyMs / 1000 + 5,
    });
  } catch (error) {
    console.error(`Cannot start: ${(error as Error).message}`);
    process.exitCode = 1;
    return;
  }
  watchEventLoop(app);
  const { devices, level, runtime } = info();
  console.log(`${runtime}, backend ${devices.cpu}${level === null ? "" : `, ${level}`}`);
  console.log(`listening on http://${options.hostname}:${listener.port}/`);
  let ending = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      // A second signal does not wait.
      if (ending) process.exit(1);
      ending = true;
      console.log(`${signal}: no new work, ${app.inFlight} requests to answer`);
      shutDown(app, listener, options.drainMs, options.graceMs).then((code) => process.exit(code));
    });
  }
}

if (import.meta.main) await main(process.argv.slice(2));
