/**
 * A server that classifies digits, in Bun and in Deno: the Open Inference Protocol for a compiled
 * program, a page to draw on, metrics, and an end that loses no request.
 *
 *     bun examples/server/main.ts
 *     deno run --allow-net --allow-read --allow-ffi --allow-env examples/server/main.ts
 *
 * docs/serving.md explains how to run it in production. TERM and INT end it: it stops accepting
 * work, answers accepted requests, and exits with 0.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import * as prom from "prom-client";
import { info, scope, setThreads, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { listen, type Listener } from "../../src/serve/http/listen.ts";
import { Metrics } from "../../src/serve/http/metrics.ts";
import { LIMITS, makeService, type Service } from "../../src/serve/http/service.ts";
import { inferenceError, inferenceRoutes } from "../../src/serve/inference.ts";
import type { InferenceModel } from "../../src/serve/inference/model.ts";
import { pageRoutes } from "../../src/serve/page/routes.ts";
import { type LargeModel, loadLargeModel, probabilities } from "../digits/large.ts";
import type { Images } from "../digits/model.ts";

const USAGE = `usage: main.ts [options]

  --host NAME       the address to listen on (127.0.0.1); others need --key-file
  --port N          the port (8000; 0 for any that is free)
  --key-file FILE   keys of clients, a line each, sent as "authorization: Bearer KEY"
  --batch N         the most images of a batch (64; 1 for no batching)
  --wait-ms N       how long a request waits for others (2)
  --queue N         the most requests that wait (1024); beyond, the answer is 503
  --in-flight N     the most requests at once (${LIMITS.inFlight}); beyond, the answer is 503
  --per-client N    the most requests of one address (${LIMITS.perClient}); beyond, the answer is 429
  --threads N       how many threads compute a batch (1)
  --drain-ms N      how long to go on answering 503 after TERM (500)
  --grace-ms N      how long, after TERM, accepted requests may take (10000)
  --model FILE      another model
  -h, --help        prints this`;

/** The longest batch: without the native library, nothing else runs in the process meanwhile. */
const BATCH_BUDGET_MS = 5;

class UsageError extends Error {}

function parse(args: string[]) {
  const text = (value: string) => ({ type: "string", default: value }) as const;
  const { values } = parseArgs({
    args,
    options: {
      host: text("127.0.0.1"),
      port: text("8000"),
      "key-file": { type: "string" },
      batch: text("64"),
      "wait-ms": text("2"),
      queue: text("1024"),
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
  const isLocal = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/.test(values.host);
  if (!isLocal && values["key-file"] === undefined) {
    throw new UsageError(`--host ${values.host}: others reach this address; give --key-file`);
  }
  return {
    help: values.help,
    model: values.model,
    keyFile: values["key-file"],
    hostname: values.host,
    port: number("port", 0, 65535),
    threads: number("threads", 1, 256),
    drainMs: number("drain-ms", 0, 600_000),
    graceMs: number("grace-ms", 0, 600_000),
    most: number("batch", 1, 1024),
    waitMs: number("wait-ms", 0, 1000),
    queue: number("queue", 1, 1_000_000),
    limits: {
      inFlight: number("in-flight", 1, 100_000),
      perClient: number("per-client", 1, 100_000),
    },
  };
}

type Options = ReturnType<typeof parse>;

/** A model of images, 64 numbers from 0, paper, to 1, ink, and its most images of a batch. */
function makeModel(weights: LargeModel, most: number): { model: InferenceModel; most: number } {
  const program = compile((images: Images) => probabilities(weights, images));
  /** The milliseconds of a batch: the least of three, after one that compiles. */
  const time = (size: number): number =>
    scope(() => {
      const images = zeros([size, 64]);
      program(images);
      return Math.min(...[1, 2, 3].map(() => {
        const begin = performance.now();
        program(images);
        return performance.now() - begin;
      }));
    });
  while (most > 1 && time(most) > BATCH_BUDGET_MS) most = Math.ceil(most / 2);
  for (let size = 1; size < most; size *= 2) time(size);
  const model: InferenceModel = {
    inputs: [{ name: "images", dtype: "float32", shape: ["count", 64] }],
    outputs: [{ name: "probabilities", dtype: "float32", shape: ["count", 10] }],
    run: async ({ images }: { images: Images }) => ({ probabilities: await program.async(images) }),
  };
  return { model, most };
}

async function start(options: Options): Promise<{ service: Service; listener: Listener }> {
  const { hostname, port, limits, keyFile, queue, waitMs } = options;
  // A batch takes less than a millisecond: a second thread gains little, and waits for a core.
  setThreads(options.threads);
  const keys = keyFile === undefined ? [] : (await readFile(keyFile, "utf8")).match(/\S+/g);
  if (keys === null) throw new Error(`${keyFile} has no keys`);
  const { model, most } = makeModel(await loadLargeModel(options.model), options.most);
  if (most < options.most) console.log(`batches of at most ${most}, for ${BATCH_BUDGET_MS} ms`);
  const metrics = new Metrics(prom);
  const digits = { model, queue, batch: { most, waitMs } };
  const routes = [
    ...inferenceRoutes({ digits }, metrics),
    ...pageRoutes({ chat: [], embeddings: [], digits: "digits" }),
  ];
  const service = makeService(
    { routes, metrics, errorBody: inferenceError },
    { limits, metrics: prom, keys },
  );
  const listener = listen(service.fetch, {
    ...{ hostname, port },
    maxBodyBytes: 2 * LIMITS.bodyBytes,
    idleSeconds: LIMITS.bodyMs / 1000 + 5,
  });
  return { service, listener };
}

/** Shuts down in order; returns the exit code. */
async function shutDown(
  service: Service,
  listener: Listener,
  { drainMs, graceMs }: Options,
): Promise<number> {
  // The socket stays open meanwhile: closing it would break bodies in transit.
  await Promise.all([delay(drainMs), Promise.race([service.drain(), delay(graceMs)])]);
  const lost = service.stats.inFlight;
  // The last answers may still be in transit; idle connections are not waited for.
  await Promise.race([listener.stop(), delay(1000)]);
  if (lost > 0) console.error(`${lost} requests were not done after ${graceMs} ms`);
  return lost > 0 ? 1 : 0;
}

async function main(args: string[]): Promise<void> {
  let options: Options;
  try {
    options = parse(args);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    process.exitCode = 2;
    return;
  }
  if (options.help) return console.log(USAGE);
  let started: { service: Service; listener: Listener };
  try {
    started = await start(options);
  } catch (error) {
    console.error(`Cannot start: ${(error as Error).message}`);
    process.exitCode = 1;
    return;
  }
  const { service, listener } = started;
  const { devices, level, runtime } = info();
  console.log(`${runtime}, backend ${devices.cpu}${level === null ? "" : `, ${level}`}`);
  console.log(`listening on http://${options.hostname}:${listener.port}/`);
  let ending = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      // A second signal does not wait.
      if (ending) process.exit(1);
      ending = true;
      console.log(`${signal}: no new work, ${service.stats.inFlight} requests to answer`);
      shutDown(service, listener, options).then((code) => process.exit(code));
    });
  }
}

if (import.meta.main) await main(process.argv.slice(2));
