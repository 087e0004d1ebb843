/**
 * The server without its socket: a function from Request to Response, the same for Bun and Deno.
 *
 * @module
 */
/// <reference path="./text.d.ts" />
import { createHash } from "node:crypto";
import { setImmediate } from "node:timers";
import type { Answer, Classifier } from "../digits/classifier.ts";
import { imagesOfJson, TooManyError } from "../digits/inputs.ts";
import { ImageError, type Pixels } from "../digits/pictures.ts";
import { pixelsOfPng } from "../digits/png.ts";
import { Batcher } from "./batcher.ts";
import { readBody } from "./body.ts";
import { HttpError } from "./http_error.ts";
import { makeMetrics, type Metrics } from "./metrics.ts";
import page from "./page.html" with { type: "text" };

/** The limits of a server; docs/serving.md explains the value of each. */
export interface Limits {
  /** The most images of a batch. */
  readonly maxBatch: number;
  /** The time in milliseconds that an image waits for others. */
  readonly maxWaitMs: number;
  /** The most images that wait for a batch. */
  readonly queue: number;
  /** The most requests accepted and not answered: each may have a body in memory. */
  readonly inFlight: number;
  /** The most bytes of a body. */
  readonly bodyBytes: number;
  /** The most images of a request. */
  readonly images: number;
  /** The most milliseconds for a body. */
  readonly bodyMs: number;
}

/** The default limits of a server. */
export const LIMITS: Limits = {
  maxBatch: 64,
  maxWaitMs: 2,
  queue: 1024,
  inFlight: 256,
  bodyBytes: 256 * 1024,
  images: 64,
  bodyMs: 10_000,
};

/** A server without its socket. */
export interface App {
  /** Answers a request; it never rejects. */
  handle(request: Request): Promise<Response>;
  /** Stops accepting work: /classify answers 503 from now on; accepted requests are answered. */
  drain(): void;
  /** The number of requests accepted and not answered. */
  readonly inFlight: number;
  readonly metrics: Metrics;
}

/** Paths, and the method of each. */
const METHODS: Record<string, string> = {
  "/": "GET",
  "/classify": "POST",
  "/healthz": "GET",
  "/metrics": "GET",
};

const JSON_HEADERS = { "content-type": "application/json", "x-content-type-options": "nosniff" };
/** The time to retry after, in seconds: a queue is processed in less. */
const RETRY = { "retry-after": "1" };

/** The only script that the page may run is the one in it. */
const SCRIPT = /<script>([^]*?)<\/script>/.exec(page)?.[1] ?? "";
const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; " +
    `script-src 'sha256-${createHash("sha256").update(SCRIPT).digest("base64")}'`,
};

/** The digits in a body. */
function readImages(type: string, body: Uint8Array, most: number): Pixels[] {
  if (type === "image/png") return [pixelsOfPng(body)];
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    // Also for arrays nested too deeply to parse.
    throw new HttpError(400, "the body is not JSON");
  }
  return imagesOfJson(value, most);
}

/** The answer to a failed request; prints errors that are not the client's fault. */
function answerError(error: unknown): Response {
  let known: HttpError;
  if (error instanceof HttpError) known = error;
  else if (error instanceof TooManyError) known = new HttpError(413, error.message);
  else if (error instanceof ImageError) known = new HttpError(400, error.message);
  else {
    console.error(error);
    known = new HttpError(500, "the server failed");
  }
  const headers = { ...JSON_HEADERS, ...known.headers };
  return new Response(JSON.stringify({ error: known.message }), { status: known.status, headers });
}

/** Makes a server of a classifier. */
export function makeApp(classify: Classifier, limits: Limits = LIMITS): App {
  let inFlight = 0;
  let draining = false;
  const batcher = new Batcher<Pixels, Answer>(classify, {
    maxBatch: limits.maxBatch,
    maxWaitMs: limits.maxWaitMs,
    capacity: limits.queue,
    onBatch: (size, seconds) => metrics.batch(size, seconds),
  });
  const metrics = makeMetrics({ queue: () => batcher.length, inFlight: () => inFlight });

  let turn = Promise.resolve();
  /** Decoding a picture takes milliseconds: each one has a turn of the event loop of its own. */
  function nextTurn(): Promise<void> {
    turn = turn.then(() => new Promise((resolve) => void setImmediate(resolve)));
    return turn;
  }

  async function answerImages(request: Request): Promise<Response> {
    if (draining) throw new HttpError(503, "the server is shutting down", RETRY);
    if (inFlight >= limits.inFlight) throw new HttpError(503, "too many requests at once", RETRY);
    const type = request.headers.get("content-type")?.split(";")[0].trim().toLowerCase() ?? "";
    if (type !== "application/json" && type !== "image/png") {
      throw new HttpError(415, "send application/json or image/png", {
        accept: "application/json, image/png",
      });
    }
    inFlight++;
    try {
      const body = await readBody(request, limits.bodyBytes, limits.bodyMs);
      if (type === "image/png") await nextTurn();
      const images = readImages(type, body, limits.images);
      const answers = batcher.add(images);
      if (answers === undefined) throw new HttpError(503, "the queue is full", RETRY);
      const results = await answers;
      // A sender of pictures needs the converted pixels; a sender of numbers does not.
      const shown = type === "image/png"
        ? results.map((result, i) => ({ ...result, pixels: [...images[i]!] }))
        : results;
      return new Response(JSON.stringify({ results: shown }), { headers: JSON_HEADERS });
    } finally {
      inFlight--;
    }
  }

  async function answer(request: Request, path: string): Promise<Response> {
    const method = METHODS[path];
    if (method === undefined) throw new HttpError(404, `there is no ${path}`);
    if (request.method !== method) {
      throw new HttpError(405, `${path} takes ${method}`, { allow: method });
    }
    switch (path) {
      case "/classify":
        return answerImages(request);
      case "/healthz":
        return draining
          ? new Response("draining\n", { status: 503, headers: RETRY })
          : new Response("ok\n");
      case "/metrics": {
        const headers = { "content-type": metrics.contentType };
        return new Response(await metrics.text(), { headers });
      }
      default:
        return new Response(page, { headers: PAGE_HEADERS });
    }
  }

  return {
    async handle(request) {
      const begin = performance.now();
      const path = new URL(request.url).pathname;
      const response = await answer(request, path).catch(answerError);
      if (draining) response.headers.set("connection", "close");
      const seconds = (performance.now() - begin) / 1000;
      metrics.request(path in METHODS ? path : "other", response.status, seconds);
      return response;
    },
    drain: () => void (draining = true),
    get inFlight() {
      return inFlight;
    },
    metrics,
  };
}
