/**
 * A load on a server: connections that send a request, wait for its answer and send the next.
 *
 * A minimal client of HTTP on plain sockets: one that worked as hard as the server would distort the
 * measurement.
 *
 *     bun tests/serve/load.ts '{"port": 8080, "connections": 64, "seconds": 20, "what": "short"}'
 *
 * @module
 */
import { connect, type Socket } from "node:net";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";

/** A request. */
export interface Ask {
  readonly path: string;
  /** JSON. */
  readonly body: unknown;
}

/** What a load does. */
export interface LoadOptions {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  /** The requests of all connections in a second; without it, each answer is followed by the next. */
  readonly rate?: number | undefined;
  /** The n-th request of a connection. */
  readonly ask: (connection: number, n: number) => Ask;
}

/** Times in milliseconds. */
export interface Times {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** What came of a load. */
export interface Load {
  /** Answers by status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Connections that broke, and streams without their end. */
  readonly broken: number;
  /** Answers with 200. */
  readonly good: number;
  /** Their generated tokens. */
  readonly tokens: number;
  readonly seconds: number;
  /** From the request to the end of an answer. */
  readonly answers: Times;
  /** From the request to the first text of a stream. */
  readonly firsts: Times;
  /** Between two parts of a stream. */
  readonly gaps: Times;
}

/** The greatest of the least part of values. */
export function timesOf(values: readonly number[]): Times {
  const sorted = Float64Array.from(values).sort();
  const at = (part: number) =>
    sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? Number.NaN;
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}

/** An answer that has ended. */
export interface Answer {
  readonly status: number;
  /** In latin1, with the sizes of chunks. */
  readonly text: string;
  /** When parts with text came. */
  readonly parts: readonly number[];
}

/** A connection, on which one request is sent after the other. */
export class Client {
  readonly #port: number;
  #socket: Socket | undefined;

  constructor(port: number) {
    this.#port = port;
  }

  /** Sends a request; its answer, or undefined if the connection broke before its end. */
  async ask({ path, body }: Ask, headers = ""): Promise<Answer | undefined> {
    const text = JSON.stringify(body);
    const socket = this.#socket ??= await this.#connect();
    if (socket.destroyed) return this.#lose();
    const { promise, resolve } = Promise.withResolvers<Answer | undefined>();
    const parts: number[] = [];
    let seen = "", head = -1, size = -1;
    const end = (answer: Answer | undefined): void => {
      socket.off("data", read).off("close", lost);
      if (answer === undefined || /\r\nconnection: *close/i.test(answer.text)) this.#lose();
      resolve(answer);
    };
    const read = (part: string): void => {
      if (/"(?:content|text)": *"[^"]/.test(part)) parts.push(performance.now());
      seen += part;
      if (head < 0) {
        head = seen.indexOf("\r\n\r\n");
        if (head < 0) return;
        head += 4;
        const length = /\r\ncontent-length: *(\d+)/i.exec(seen.slice(0, head))?.[1];
        size = length === undefined ? -1 : Number(length);
      }
      const isWhole = size >= 0
        ? seen.length >= head + size
        : seen.endsWith("\r\n0\r\n\r\n") || seen.startsWith("0\r\n\r\n", head);
      if (!isWhole) return;
      end({ status: Number(seen.slice(9, 12)), text: seen, parts });
    };
    const lost = (): void => end(undefined);
    socket.on("data", read).on("close", lost);
    socket.write(
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${headers}` +
        `Content-Length: ${new TextEncoder().encode(text).length}\r\n\r\n${text}`,
    );
    return await promise;
  }

  #lose(): undefined {
    this.#socket?.destroy();
    this.#socket = undefined;
  }

  async #connect(): Promise<Socket> {
    const socket = connect({ port: this.#port, host: "127.0.0.1", noDelay: true });
    socket.setEncoding("latin1").on("error", () => {});
    await new Promise<void>((resolve) => {
      socket.once("connect", () => resolve());
      socket.once("close", () => resolve());
    });
    return socket;
  }

  close(): void {
    this.#lose();
  }
}

/** Puts a server under load. */
export async function load({ port, connections, seconds, rate, ask }: LoadOptions): Promise<Load> {
  const statuses: Record<string, number> = {};
  const answers: number[] = [], firsts: number[] = [], gaps: number[] = [];
  let [broken, tokens] = [0, 0];
  const begin = performance.now();
  const end = begin + seconds * 1000;
  const pause = rate === undefined ? 0 : 1000 * connections / rate;
  await Promise.all(Array.from({ length: connections }, async (_, connection) => {
    const client = new Client(port);
    // Connections of a rate take turns.
    let due = begin + pause * connection / connections;
    for (let n = 0;; n++, due += pause) {
      if (pause > 0) await delay(Math.max(due - performance.now(), 0));
      const sent = performance.now();
      if (sent >= end) break;
      const given = ask(connection, n);
      const answer = await client.ask(given);
      const isStream = (given.body as { stream?: boolean }).stream === true;
      if (
        answer === undefined || isStream && answer.status === 200 && !/\[DONE\]/.test(answer.text)
      ) {
        broken++;
        await delay(10);
        continue;
      }
      const { status, text, parts } = answer;
      statuses[status] = (statuses[status] ?? 0) + 1;
      // A refused client retries later, as it is told to.
      if (status !== 200) {
        await delay(10);
        continue;
      }
      answers.push(performance.now() - sent);
      tokens += Number(/"completion_tokens": *(\d+)/.exec(text)?.[1] ?? 0);
      if (!isStream || parts.length === 0) continue;
      firsts.push(parts[0]! - sent);
      for (let i = 1; i < parts.length; i++) gaps.push(parts[i]! - parts[i - 1]!);
    }
    client.close();
  }));
  return {
    ...{ statuses, broken, tokens, good: statuses["200"] ?? 0 },
    seconds: (performance.now() - begin) / 1000,
    ...{ answers: timesOf(answers), firsts: timesOf(firsts), gaps: timesOf(gaps) },
  };
}

const WORDS =
  "the a of river stone light house garden winter market small old bright quiet walks sings keeps finds"
    .split(" ");

/** A text of so many words, the same for the same numbers. */
export function wordsOf(count: number, seed: number): string {
  let state = seed * 2654435761 >>> 0;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return WORDS[state >>> 16 & 15];
  }).join(" ");
}

/** Loads by name. `model` is that of the server. */
export const LOADS: Readonly<Record<string, (model: string) => LoadOptions["ask"]>> = {
  /** Embeddings of texts of 8 words. */
  short: (model) => (connection, n) => ({
    path: "/v1/embeddings",
    body: { model, input: wordsOf(8, connection * 1000 + n) },
  }),
  /** Embeddings of texts of 4 to 200 words. */
  mixed: (model) => (connection, n) => ({
    path: "/v1/embeddings",
    body: { model, input: wordsOf([4, 12, 40, 100, 200][(connection + n) % 5]!, connection + n) },
  }),
  /** Chats: a question of about 45 tokens, an answer of 128. */
  chat: (model) => (connection, n) => ({
    path: "/v1/chat/completions",
    body: {
      ...{ model, stream: true, max_tokens: 128, temperature: 0 },
      stream_options: { include_usage: true },
      messages: [{
        role: "user",
        content: `Write a long story of many pages. These words have to be in it: ${
          wordsOf(16, connection * 1000 + n)
        }.`,
      }],
    },
  }),
};

if (import.meta.main) {
  const { what, model = "model", ...options } = JSON.parse(process.argv[2]!);
  console.log(JSON.stringify(await load({ ...options, ask: LOADS[what]!(model) })));
  process.exit(0);
}
