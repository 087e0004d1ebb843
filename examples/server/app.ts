/**
 * The server without its socket: a function from Request to Response, the same for Bun and Deno.
 *
 * @module
 */
/// <reference path="./text.d.ts" />
import { createHash } from "node:crypto";
import { setImmediate } from "node:timers";
import type { Answer } from "../digits/classifier.ts";
import { imagesOfJson, TooManyError } from "../digits/inputs.ts";
import { ImageError, type Pixels } from "../digits/pictures.ts";
import { pixelsOfPng } from "../digits/png.ts";
import { Batcher, type BatchRun } from "./batcher.ts";
import { type BodyLimits, BodyReader } from "./body.ts";
import { HttpError, RETRY } from "./http_error.ts";
import { makeMetrics, type Metrics } from "./metrics.ts";
import page from "./page.html" with { type: "text" };

/** The limits of a server; docs/serving.md explains the value of each. */
export interface Limits extends BodyLimits {
  /** The most images of a batch. */
  readonly maxBatch: number;
  /** The time in milliseconds that an image waits for others. */
  readonly maxWaitMs: number;
  /** The most images that wait for a batch. */
  readonly queue: number;
  /** The most requests accepted and not answered: each may have a body in memory. */
  readonly inFlight: number;
  /** The most images of a request. */
  readonly images: number;
}

/** The default limits of a server. */
export const LIMITS: Limits = {
  maxBatch: 64,
  maxWaitMs: 2,
  queue: 1024,
  inFlight: 256,
  bodyBytes: 256 * 1024,
  images: 64,
  firstByteMs: 1000,
  bodyMs: 10_000,
  perClient: 64,
};

/** A server without its socket. */
export interface App {
  /** Answers a request of the client with an address, if known; it never rejects. */
  handle(request: Request, client?: string): Promise<Response>;
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

/** The only script that the page may run is the one in it. */
const SCRIPT = /<script>([^]*?)<\/script>/.exec(page)?.[1] ?? "";
const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; " +
    `script-src 'sha256-${createHash("sha256").update(SCRIPT).digest("base64")}'`,
};

/**
 * The path of a request; undefined if its URL does not parse. A client chooses the URL by the Host
 * header too; without that header it may be only a path.
 */
function pathOf(url: string): string | undefined {
  return URL.parse(url, "http://localhost")?.pathname;
}

/** The digits in a body. */
async function readImages(type: string, body: Uint8Array, most: number): Promise<Pixels[]> {
  if (type === "image/png") return [await pixelsOfPng(body)];
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

/** Makes a server of a classifier; one that gives promises leaves the event loop to other requests. */
export function makeApp(classify: BatchRun<Pixels, Answer>, limits: Limits = LIMITS): App {
  let inFlight = 0;
  let draining = false;
  const batcher = new Batcher<Pixels, Answer>(classify, {
    maxBatch: limits.maxBatch,
    maxWaitMs: limits.maxWaitMs,
    capacity: limits.queue,
    onBatch: (size, seconds) => metrics.batch(size, seconds),
  });
  const metrics = makeMetrics({ queue: () => batcher.length, inFlight: () => inFlight });

  const bodies = new BodyReader(limits);

  let turn = Promise.resolve();
  /** Decoding a picture takes milliseconds: each one has a turn of the event loop of its own. */
  function nextTurn(): Promise<void> {
    turn = turn.then(() => new Promise((resolve) => void setImmediate(resolve)));
    return turn;
  }

  async function answerImages(request: Request, client?: string): Promise<Response> {
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
      const body = await bodies.read(request, client);
      if (type === "image/png") await nextTurn();
      const images = await readImages(type, body, limits.images);
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

  async function answer(
    request: Request,
    path: string | undefined,
    client?: string,
  ): Promise<Response> {
    if (path === undefined) throw new HttpError(400, "the address of the request is no URL");
    const method = METHODS[path];
    if (method === undefined) throw new HttpError(404, `there is no ${path}`);
    if (request.method !== method) {
      throw new HttpError(405, `${path} takes ${method}`, { allow: method });
    }
    switch (path) {
      case "/classify":
        return answerImages(request, client);
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
    async handle(request, client) {
      const begin = performance.now();
      const path = pathOf(request.url);
      const response = await answer(request, path, client).catch(answerError);
      if (draining) response.headers.set("connection", "close");
      const seconds = (performance.now() - begin) / 1000;
      metrics.request(
        path !== undefined && path in METHODS ? path : "other",
        response.status,
        seconds,
      );
      return response;
    },
    drain: () => void (draining = true),
    get inFlight() {
      return inFlight;
    },
    metrics,
  };
}
