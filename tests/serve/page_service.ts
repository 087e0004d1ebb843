/**
 * A service for tests of the page: the paths of the APIs with answers that are known, which the
 * tests hold and release.
 *
 * @module
 */
import { makeClassifier } from "../../examples/digits/classifier.ts";
import { loadLargeModel } from "../../examples/digits/large.ts";
import { badRequest, HttpError } from "../../src/serve/http/http_error.ts";
import { listen } from "../../src/serve/http/listen.ts";
import { Metrics } from "../../src/serve/http/metrics.ts";
import {
  json,
  makeService,
  type Route,
  type ServiceOptions,
  type ServiceStats,
} from "../../src/serve/http/service.ts";
import { type PageModels, pageRoutes } from "../../src/serve/page/routes.ts";

/** The parts of the answer to a message; a number is a pause in milliseconds, "hold" lasts. */
export type Answers = Readonly<Record<string, readonly (string | number)[]>>;

/** A service that listens, and what the page asked it. */
export interface PageService {
  readonly url: string;
  readonly stats: ServiceStats;
  /** Bodies by path, oldest first. */
  readonly asked: Record<string, Record<string, unknown>[]>;
  /** How many streams ended because their client was gone. */
  readonly gone: number;
  drain(): Promise<void>;
  stop(): Promise<void>;
}

/** What {@link startPageService} needs. */
export interface PageServiceOptions extends ServiceOptions {
  readonly models: PageModels;
  /** Answers of chats by the last message. */
  readonly answers?: Answers;
  /** The routes of the APIs in place of those with known answers. */
  readonly routes?: readonly Route[];
}

/** Numbers of the words of a text that stand for its meaning: texts with common words are near. */
function wordsOf(text: string): Float32Array {
  const vector = new Float32Array(256);
  for (const [word] of text.toLowerCase().matchAll(/\p{L}{4,}/gu)) {
    let hash = 7;
    for (const char of word.replace(/s$/, "")) hash = (hash * 31 + char.codePointAt(0)!) % 65_521;
    vector[hash % 256]! += 1;
  }
  vector[0]! += 0.25;
  return vector;
}

const inBase64 = (vector: Float32Array): string =>
  btoa(String.fromCharCode(...new Uint8Array(vector.buffer)));

/** Starts a service for the page. */
export async function startPageService(
  { models, answers = {}, routes, ...options }: PageServiceOptions,
): Promise<PageService> {
  const asked: Record<string, Record<string, unknown>[]> = {};
  let gone = 0;
  const classify = makeClassifier(await loadLargeModel());
  const chat: Route = {
    method: "POST",
    path: "/v1/chat/completions",
    async answer({ json: body, stream, signal, request }) {
      const given = await body();
      (asked[new URL(request.url).pathname] ??= []).push(given);
      const { content } = (given.messages as { content: string }[]).at(-1)!;
      const parts = answers[content];
      if (parts === undefined) throw badRequest(`there is no answer to "${content}"`);
      const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
      async function* events(): AsyncGenerator<string> {
        signal.addEventListener("abort", () => gone++);
        let count = 0;
        for (const part of parts!) {
          if (typeof part === "number") {
            await new Promise((resolve) => setTimeout(resolve, part));
            continue;
          }
          if (part === "hold") {
            await new Promise((resolve) => signal.addEventListener("abort", resolve));
            return;
          }
          if (part === "fail") throw new HttpError(504, "the answer took too long");
          if (part === "end") return;
          count++;
          yield event({ choices: [{ index: 0, delta: { content: part } }] });
        }
        yield event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
        const usage = { prompt_tokens: 11, completion_tokens: count, total_tokens: 11 + count };
        yield event({ choices: [], usage });
        yield "data: [DONE]\n\n";
      }
      return stream(
        events(),
        { "content-type": "text/event-stream" },
        ({ message }) => event({ error: { message } }),
      );
    },
  };
  const embeddings: Route = {
    method: "POST",
    path: "/v1/embeddings",
    async answer({ json: body, request }) {
      const given = await body();
      (asked[new URL(request.url).pathname] ??= []).push(given);
      const vectors = (given.input as string[]).map(wordsOf);
      // One model gives numbers, as a server may that does not know the other format.
      const data = vectors.map((vector, index) => ({
        index,
        embedding: given.model === "numbers" ? [...vector] : inBase64(vector),
      }));
      return json({ object: "list", data: data.reverse(), model: given.model });
    },
  };
  const digits: Route[] = [
    {
      method: "GET",
      path: "/v2/models/:name",
      answer: ({ params: { name } }) =>
        json({ name, inputs: [{ name: "images", datatype: "FP32", shape: [-1, 64] }] }),
    },
    {
      method: "POST",
      path: "/v2/models/:name/infer",
      errorBody: ({ message }) => ({ error: message }),
      async answer({ json: body, request }) {
        const given = await body();
        (asked[new URL(request.url).pathname] ??= []).push(given);
        const [{ data }] = given.inputs as [{ data: number[] }];
        const [answer] = classify([Float32Array.from(data, (x) => x * 16)]);
        return json({
          model_name: "digits",
          outputs: [{ name: "y", datatype: "FP32", shape: [1, 10], data: answer!.probabilities }],
        });
      },
    },
  ];
  const metrics = new Metrics(undefined);
  const own = routes ?? [chat, embeddings, ...digits];
  const service = makeService({ routes: [...pageRoutes(models), ...own], metrics }, options);
  const listener = listen(service.fetch, {
    hostname: "127.0.0.1",
    port: 0,
    maxBodyBytes: 1e6,
    idleSeconds: 30,
  });
  return {
    url: `http://127.0.0.1:${listener.port}/`,
    asked,
    get gone() {
      return gone;
    },
    get stats() {
      return service.stats;
    },
    drain: () => service.drain(),
    stop: () => listener.stop(),
  };
}
