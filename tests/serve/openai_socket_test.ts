/**
 * OpenAI's API through a socket: clients that go away, read slowly, or send slowly, and hostile bytes.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { connect, type Socket } from "node:net";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { listen, type Listener } from "../../src/serve/http/listen.ts";
import { openai, type Service } from "../../src/serve/mod.ts";
import { type Any, loose } from "../support.ts";
import { openChat } from "./models.ts";

const chat = await openChat();
let service: Service, listener: Listener, url: string;
before(() => {
  service = openai({ chat: { tiny: chat } }, {
    engine: { slots: 2, queue: 4 },
    limits: { tokens: 1900, perClient: 16, firstByteMs: 3000, bodyMs: 3000, bodyBytes: 300_000 },
  });
  const sizes = { maxBodyBytes: 1_000_000, idleSeconds: 20 };
  listener = listen(service.fetch, { hostname: "127.0.0.1", port: 0, ...sizes });
  url = `http://127.0.0.1:${listener.port}`;
});
after(async () => {
  await service.drain();
  await Promise.race([listener.stop(), delay(1000, undefined, { ref: false })]);
  chat.dispose();
});

// It goes on to its limit.
const LONG = {
  ...{ model: "tiny", messages: [{ role: "user", content: "hello" }], temperature: 0 },
  ...{ max_tokens: 1900, logit_bias: { 1: -100 } },
};
const SHORT = { ...LONG, max_tokens: 3 };
const stats = (): Any => loose(service.stats)["models"].tiny;

function post(body: unknown, signal?: AbortSignal): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
    ...signal && { signal },
  });
}

async function until(holds: () => boolean, what: string): Promise<void> {
  for (const end = performance.now() + 20_000; performance.now() < end;) {
    if (holds()) return;
    await delay(5);
  }
  throw new Error(`not within 20 seconds: ${what}`);
}

/** A connection that has sent something; what it gets is in `text`. */
function send(bytes: string | Uint8Array): Promise<Socket & { text: string }> {
  return new Promise((resolve, reject) => {
    const socket = Object.assign(connect(listener.port, "127.0.0.1"), { text: "" });
    socket.on("connect", () => socket.write(bytes, () => resolve(socket)));
    socket.on("data", (data) => socket.text += data);
    socket.on("error", reject);
  });
}

const head = (length: number, more = "") =>
  `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n` +
  `content-length: ${length}\r\n${more}\r\n`;

test("a client that goes away frees its slot, whole and streamed", async () => {
  for (const stream of [false, true]) {
    const { completionTokens, cancelled } = stats();
    const gone = new AbortController();
    const asked = post({ ...LONG, stream }, gone.signal);
    asked.catch(() => {});
    if (stream) await (await asked).body!.getReader().read();
    else await until(() => stats().completionTokens > completionTokens, "a token");
    const { stepped } = stats();
    gone.abort();
    await until(() => stats().active === 0, "the slot");
    assertEquals(stats().cancelled, cancelled + 1);
    assert(stats().stepped - stepped < 1500, `${stats().stepped - stepped} tokens`);
  }
  await until(() => service.stats.inFlight === 0, "the requests");
  assertEquals((await post(SHORT)).status, 200);
});

test("a client that does not read keeps no slot, and others are answered", async () => {
  // About a megabyte.
  const more = { stream: true, max_tokens: 300, logprobs: true, top_logprobs: 20 };
  const body = JSON.stringify({ ...LONG, ...more });
  const sockets = await Promise.all([1, 2].map(async () => {
    const socket = await send(head(body.length) + body);
    socket.pause();
    return socket;
  }));
  const { finished } = stats();
  assertEquals((await (await post(SHORT)).json()).usage.completion_tokens, 3);
  await until(() => stats().active === 0 && stats().finished >= finished + 2, "the slots");
  for (const socket of sockets) {
    socket.resume();
    await until(() => socket.text.includes("data: [DONE]"), "the stream");
    assert(socket.text.includes('"finish_reason":"length"'));
    socket.destroy();
  }
});

test("slow bodies leave others their answers", async () => {
  const slow = await Promise.all(Array.from({ length: 256 }, () => send(`${head(1000)}{"mess`)));
  const begin = performance.now();
  assertEquals((await post(SHORT)).status, 200);
  assert(performance.now() - begin < 2500, "it did not wait for them");
  const first = (text: string) => /^HTTP\/1\.1 (\d+)/.exec(text)?.[1];
  await until(() => slow.every(({ text }) => text !== ""), "all answers");
  for (const { text } of slow) assert(["503", "408"].includes(first(text)!), text.slice(0, 100));
  for (const socket of slow) socket.destroy();
  await until(() => service.stats.inFlight === 0, "no requests");
});

test("hostile bodies, hosts and paths are refused, and show nothing of the server", async () => {
  const message = (content: string) => ({ ...SHORT, messages: [{ role: "user", content }] });
  const bodies: [status: number, body: unknown][] = [
    [400, message("word ".repeat(50_000))],
    [413, message("a".repeat(400_000))],
    [400, "[".repeat(200_000)],
    [400, `{"messages":${"[".repeat(100_000)}${"]".repeat(100_000)}}`],
    [400, `{"messages":[{"role":"user","content":"\\ud800"}],"model":"../../etc/passwd"}`],
    [400, {
      ...SHORT,
      response_format: { type: "json_schema", json_schema: { schema: { pattern: "(" } } },
    }],
    [400, {
      ...SHORT,
      response_format: {
        type: "json_schema",
        json_schema: { schema: { type: "string", pattern: "(a+)+$".repeat(100) } },
      },
    }],
    [400, { ...SHORT, stop: Array(1000).fill("a") }],
    [400, { ...SHORT, messages: Array(5000).fill({ role: "user", content: "" }) }],
  ];
  for (const [status, body] of bodies) {
    const response = await post(body);
    const text = await response.text();
    const expected = status === 400 && response.status === 404 ? 404 : status;
    assertEquals(response.status, expected, text.slice(0, 300));
    assert(!/\.ts\b|\/src\/|node_modules|\/work|at async/.test(text) && text.length < 1000, text);
  }
  const raw: [begin: string, status: RegExp][] = [
    [
      "GET /v1/models HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n",
      /^HTTP\/1\.1 403/,
    ],
    [
      "GET /../../etc/passwd HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
      /^HTTP\/1\.1 404/,
    ],
    [
      "GET /v1/models/%00%ff HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
      /^HTTP\/1\.1 404/,
    ],
    ["OPTIONS * HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", /^HTTP\/1\.1 40[045]/],
    [
      "HEAD /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
      /^HTTP\/1\.1 200[^]*\r\n\r\n$/,
    ],
    [`${head(2, "origin: https://evil.example\r\nconnection: close\r\n")}{}`, /^HTTP\/1\.1 403/],
  ];
  for (const [bytes, expected] of raw) {
    const socket = await send(bytes);
    await until(() => expected.test(socket.text) || socket.closed, bytes);
    assert(expected.test(socket.text), `${bytes}: ${socket.text}`);
    assert(!/\.ts\b|\/src\//.test(socket.text));
    socket.destroy();
  }
});
