/**
 * A server on a socket against bodies, hosts, paths, schemas and prompts that are made to harm it: each
 * is a 4xx, no answer has a source or a path, and others are served meanwhile.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { connect } from "node:net";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { amount, sampled } from "../support/amount.ts";
import { startServer } from "./clients_child.ts";
import { writeModels } from "./clients_models.ts";

const SLOW = { timeout: 120_000 };
const server = await startServer({ ...writeModels(), context: 512, slots: 4 });
after(() => server.end());

/** What no answer may have: a file, a stack, a folder of this machine. */
const SECRETS = /\.(?:ts|js|gguf|safetensors)\b|\/src\/|node_modules|\n\s+at |\/tmp\/|file:\/\//;

/** Sends text as it is; the whole answer, or "" for a connection that is closed without one. */
function send(parts: readonly (string | Uint8Array)[]): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(server.port, "127.0.0.1", () => {
      for (const part of parts) socket.write(part);
    });
    let text = "";
    socket.setEncoding("latin1").on("data", (part: string) => {
      text += part;
      const head = text.indexOf("\r\n\r\n");
      if (head < 0) return;
      const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, head + 2))?.[1];
      const isWhole = length === undefined
        ? text.endsWith("0\r\n\r\n")
        : text.length >= head + 4 + Number(length);
      if (isWhole) socket.destroy();
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(text));
  });
}

/** The status of an answer, which shows nothing of the server. */
function statusOf(answer: string, what: string): number {
  assertMatch(answer, /^HTTP\/1\.1 \d\d\d/, `${what}: ${answer.slice(0, 500)}`);
  assert(!SECRETS.test(answer), `${what}: ${answer.slice(0, 2000)}`);
  return Number(answer.slice(9, 12));
}

async function post(
  path: string,
  body: string | Uint8Array,
  headers = "Content-Type: application/json\r\n",
): Promise<string> {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\n${headers}` +
    `Content-Length: ${bytes.length}\r\n\r\n`;
  return await send([head, bytes]);
}

/** Expects a 4xx. */
function assertRefused(answer: string, what: string): void {
  const status = statusOf(answer, what);
  assert(status >= 400 && status < 500, `${what}: ${answer.slice(0, 500)}`);
}

const CHAT = "/v1/chat/completions", COMPLETION = "/v1/completions";
const EMBEDDINGS = "/v1/embeddings", RERANK = "/v1/rerank";
const VALID: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  [CHAT]: { model: "chat", messages: [{ role: "user", content: "a" }], max_tokens: 2 },
  [COMPLETION]: { model: "chat", prompt: "a", max_tokens: 2 },
  [EMBEDDINGS]: { model: "embeddings", input: "w1" },
  [RERANK]: { model: "rerank", query: "w1", documents: ["w2"] },
};

/** The server answers, has no request left, and wrote of no failure. */
async function assertSound(): Promise<void> {
  for (const [path, body] of Object.entries(VALID)) {
    const answer = await post(path, JSON.stringify(body));
    assertEquals(statusOf(answer, path), 200, answer);
  }
  for (let i = 0; i < 200 && (await server.stats()).inFlight > 0; i++) await delay(5);
  const { inFlight, active, waiting } = await server.stats();
  assertEquals([inFlight, active, waiting], [0, 0, 0]);
  assert(!/error/i.test(server.output()), server.output());
}

test("hostile: bodies that are no JSON, or no object", SLOW, async () => {
  const bodies: (string | Uint8Array)[] = [
    ...["", "{", "nul", "[]", "1", '"a"', "null", "{}", '{"model": 1}', "{'model': 'chat'}"],
    ...["[".repeat(100_000), '{"a":'.repeat(100_000), `{"model": "${"\\u0000".repeat(1000)}"}`],
    ...['{"__proto__": {"model": "chat"}}', '{"constructor": {"prototype": {"model": "chat"}}}'],
    Uint8Array.of(0xff, 0xfe, 0x7b, 0x7d),
    Uint8Array.of(0x7b, 0x22, 0xc3, 0x28, 0x22, 0x3a, 0x31, 0x7d),
  ];
  for (const path of Object.keys(VALID)) {
    for (const [i, body] of bodies.entries()) assertRefused(await post(path, body), `body ${i}`);
  }
  const text = JSON.stringify(VALID[CHAT]);
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
    assertRefused(await post(CHAT, text, `Content-Type: ${type}\r\n`), type);
  }
  assertRefused(await post(CHAT, " ".repeat(5_000_000)), "5 MB");
  await assertSound();
});

test("hostile: fields of other types and sizes", SLOW, async () => {
  const values: unknown[] = [
    ...[true, -1, 1e308, 0.5, "", "x", [], [null], [[]], {}, { a: 1 }, [{}]],
    ...["a".repeat(5000), Array(5000).fill(0), { toString: 1, length: -1, __proto__: null }],
  ];
  /** Names that no value of another type fits. */
  const fields: Readonly<Record<string, readonly string[]>> = {
    [CHAT]: [
      ...["messages", "max_tokens", "temperature", "top_p", "n", "stop", "seed", "stream", "tools"],
      ...["tool_choice", "response_format", "logit_bias", "logprobs", "top_logprobs", "model"],
      ...["stream_options", "presence_penalty", "frequency_penalty"],
    ],
    [COMPLETION]: ["prompt", "max_tokens", "stop", "logprobs", "n", "echo", "suffix", "model"],
    [EMBEDDINGS]: ["input", "dimensions", "encoding_format", "model"],
    [RERANK]: ["query", "documents", "top_n", "model"],
  };
  let refused = 0, all = 0;
  for (const [path, names] of Object.entries(fields)) {
    for (const name of names) {
      for (const value of sampled(values, 6, (one) => name + JSON.stringify(one))) {
        const body = JSON.stringify({ ...VALID[path], [name]: value });
        const answer = await post(path, body);
        const status = statusOf(answer, body.slice(0, 200));
        assert(status === 200 || status >= 400 && status < 500, body.slice(0, 200) + answer);
        all++;
        if (status !== 200) refused++;
      }
    }
  }
  assert(refused > 0.7 * all, `${refused} of ${all} were refused`);
  await assertSound();
});

test("hostile: hosts, paths and lines", SLOW, async () => {
  const hosts = [
    "x:99999999",
    "[",
    "xn--a",
    "%00",
    "x:y",
    "evil.example",
    "localhost.evil.com",
    "a b",
  ];
  for (const path of ["/health", "/", CHAT, "/nowhere"]) {
    for (const host of hosts) {
      const answer = await send([`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`]);
      assertRefused(answer, `${path} of ${host}`);
    }
  }
  const paths = [
    ...["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//", "///etc/passwd", "/v1//models"],
    ...["/%00", "/%", "/%ff", "/v1/models/%2e%2e%2fetc", "/v1/models/%", "/v1/models/../../x"],
    ...["/v1/models/__proto__", "/v1/models/constructor", "/V1/MODELS", "/v1/models/none"],
    ...[
      `/${"a".repeat(10_000)}`,
      `/v1/models/${"a/".repeat(2000)}`,
      "/tests/serve/hostile_test.ts",
    ],
  ];
  for (const path of paths) {
    const answer = await send([`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`]);
    // Answers may name the path that was asked for, but no other.
    assertRefused(answer.replaceAll(path, ""), path);
  }
  for (const method of ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO"]) {
    const answer = await send([`${method} ${CHAT} HTTP/1.1\r\nHost: localhost\r\n\r\n`]);
    // A runtime may answer methods that it does not know itself.
    assert(answer === "" || /^HTTP\/1\.1 4/.test(answer), answer);
    assert(!SECRETS.test(answer), answer);
  }
  for (
    const text of ["\r\n\r\n", "GET\r\n\r\n", `GET / HTTP/1.1\r\n${"a: b\r\n".repeat(5000)}\r\n`]
  ) {
    const answer = await send([text]);
    assert(answer === "" || /^HTTP\/1\.1 4/.test(answer), answer.slice(0, 200));
    assert(!SECRETS.test(answer), answer.slice(0, 2000));
  }
  await assertSound();
});

/** A schema in itself, so many levels deep. */
function nested(depth: number): unknown {
  let schema: unknown = { type: "string" };
  for (let i = 0; i < depth; i++) schema = { type: "object", properties: { a: schema } };
  return schema;
}

test("hostile: schemas of answers and functions", SLOW, async () => {
  const wrong: unknown[] = [
    ...[nested(200), { $ref: "#" }, { $ref: "#/$defs/none" }, { $ref: "http://localhost/x" }],
    ...[{ $ref: "file:///etc/passwd" }, { type: "string", pattern: "(a+)+$(" }, { type: "hiccup" }],
    ...[{ type: "string", minLength: 1e9 }, { type: "array", items: {}, minItems: 1e9 }],
    ...[{ allOf: [{ $ref: "#" }] }, { not: {} }, 5, "x", [], { enum: [] }, { type: [] }],
    ...[{ type: "string", pattern: "(a{1,999}){1,999}" }, { properties: 3 }, { required: "a" }],
    ...[{ enum: Array.from({ length: 30_000 }, (_, i) => `value ${i}`) }],
    ...[{ anyOf: Array(5000).fill(nested(5)) }],
  ];
  let refused = 0;
  for (const [i, schema] of wrong.entries()) {
    const formats = [
      { response_format: { type: "json_schema", json_schema: { name: "a", schema } } },
      {
        tools: [{ type: "function", function: { name: "f", parameters: schema } }],
        tool_choice: "required",
      },
    ];
    for (const format of formats) {
      const begin = performance.now();
      const answer = await post(CHAT, JSON.stringify({ ...VALID[CHAT], ...format }));
      // An answer may name the place that the schema refers to.
      const status = statusOf(answer.replaceAll("file:///etc/passwd", ""), `schema ${i}`);
      // Some are allowed, as they say nothing.
      assert(status === 200 || status >= 400 && status < 500, `schema ${i}: ${answer}`);
      assert(performance.now() - begin < 10_000, `schema ${i} took too long`);
      if (status !== 200) refused++;
    }
  }
  assert(refused >= wrong.length, `${refused} were refused`);
  await assertSound();
});

test("hostile: prompts of 1 MB are refused, and others are served meanwhile", SLOW, async () => {
  const words = "w1 ".repeat(350_000), word = "a".repeat(1_000_000);
  const odd = "\u{1F917}é\u0000".repeat(120_000);
  /** What an encoder cuts. */
  const answered: [path: string, changes: object][] = [
    [EMBEDDINGS, { input: word, truncate: true }],
    [RERANK, { documents: [words] }],
    [RERANK, { documents: [word] }],
    [EMBEDDINGS, { input: words, truncate: true }],
  ];
  const refused: [path: string, changes: object][] = [
    [CHAT, { messages: [{ role: "user", content: odd }] }],
    [EMBEDDINGS, { input: words }],
    [EMBEDDINGS, { input: word }],
    [COMPLETION, { prompt: Array(300_000).fill(5) }],
    [CHAT, { stop: word }],
    [CHAT, { model: word }],
    // Those that take more time.
    ...[words, word, odd].flatMap((text): [string, object][] => [
      [CHAT, { messages: [{ role: "user", content: text }] }],
      [CHAT, { messages: [{ role: "user", content: [{ type: "text", text }] }], stream: true }],
      [COMPLETION, { prompt: text }],
    ]),
    [EMBEDDINGS, { input: Array(300_000).fill(5) }],
    [COMPLETION, { prompt: Array(100_000).fill("a") }],
  ];
  let longest = 0, isOver = false;
  const others = (async () => {
    while (!isOver) {
      const begin = performance.now();
      const answer = await send(["GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"]);
      assertEquals(statusOf(answer, "health"), 200);
      longest = Math.max(longest, performance.now() - begin);
      await delay(5);
    }
  })();
  try {
    for (const [path, changes] of refused.slice(0, amount(5, refused.length))) {
      const answer = await post(path, JSON.stringify({ ...VALID[path], ...changes }));
      assertRefused(answer, `${path} ${Object.keys(changes)}`);
      assert(answer.length < 2000, "an answer repeats a long text");
    }
    for (const [path, changes] of answered) {
      const answer = await post(path, JSON.stringify({ ...VALID[path], ...changes }));
      assertEquals(statusOf(answer, path), 200, answer.slice(0, 500));
    }
  } finally {
    isOver = true;
    await others;
  }
  assert(longest < 15_000, `another client waited ${longest} ms`);
  await assertSound();
});
