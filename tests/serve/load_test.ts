/**
 * A server under load: a flood, its end, clients that are gone, slow bodies, an hour in short, and the
 * memory of a second process.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { existsSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { root } from "../../scripts/tools.ts";
import type { EngineStats } from "../../src/llm/mod.ts";
import { openai } from "../../src/serve/mod.ts";
import { amount, RUNS_ALL } from "../support/amount.ts";
import { type Child, memoryOf, startServer } from "./clients_child.ts";
import { writeModels } from "./clients_models.ts";
import { Client, load, type LoadOptions } from "./load.ts";
import { openChat } from "./models.ts";

const SLOW = { timeout: 300_000 };
/** Windows ends a process where others send it a signal. */
const UNIX = { ...SLOW, skip: process.platform === "win32" && "needs Unix" };
const LINUX = { ...SLOW, skip: process.platform !== "linux" && "needs Linux" };
const ONLY_ALL = { ...LINUX, skip: LINUX.skip || !RUNS_ALL && "takes a minute: in test:all" };
const models = writeModels();
const MB = 1024 * 1024;

/** A token that ends texts is forbidden, so that an answer has all of its tokens. */
const chatOf = (tokens: number): LoadOptions["ask"] => (connection, n) => ({
  path: "/v1/chat/completions",
  body: {
    ...{ model: "chat", stream: n % 2 === 0, max_tokens: tokens, logit_bias: { 1: -100 } },
    messages: [{ role: "user", content: `Question ${connection} ${n}` }],
  },
});
const vectorOf: LoadOptions["ask"] = (connection, n) => ({
  path: "/v1/embeddings",
  body: { model: "embeddings", input: `w${1 + connection % 9} w${1 + n % 9} w3` },
});

/** Waits until no request is left. */
async function untilIdle(server: Child): Promise<void> {
  for (let i = 0; i < 400 && (await server.stats()).inFlight > 0; i++) await delay(5);
  const { inFlight, active, waiting } = await server.stats();
  assertEquals([inFlight, active, waiting], [0, 0, 0]);
}

test("load: a flood is refused with 503, and memory stays flat", LINUX, async (t) => {
  const limits = { perClient: 1000, inFlight: 48 };
  const server = await startServer({ ...models, slots: 4, queue: 8, context: 512, limits });
  try {
    const flood = (ask: LoadOptions["ask"]) =>
      load({ port: server.port, connections: 160, seconds: amount(0.5, 1), ask });
    const both: LoadOptions["ask"] = (connection, n) =>
      (connection % 2 === 0 ? chatOf(64) : vectorOf)(connection, n);
    // Programs are compiled, and the heap takes its size.
    for (let i = 0; i < amount(2, 4); i++) await flood(both);
    const before = (await server.stats()).resident;
    for (const ask of [chatOf(64), both]) {
      const { statuses, broken, good } = await flood(ask);
      assertEquals([Object.keys(statuses), broken], [["200", "503"], 0]);
      assert(good > 0 && statuses["503"]! > 20, JSON.stringify(statuses));
    }
    await untilIdle(server);
    const rise = ((await server.stats()).resident - before) / MB;
    t.diagnostic(`resident memory after a flood: ${rise.toFixed(1)} MB more`);
    assert(rise < amount(60, 40), `${rise} MB more`);
    const client = new Client(server.port);
    const answer = await client.ask(chatOf(4)(0, 1));
    assertEquals(answer?.status, 200);
    client.close();
  } finally {
    await server.end();
  }
});

test("load: a full queue says when to retry", SLOW, async () => {
  const server = await startServer({ ...models, slots: 1, queue: 1, limits: { perClient: 1000 } });
  try {
    const ask = chatOf(200);
    const clients = Array.from({ length: 12 }, () => new Client(server.port));
    const answers = await Promise.all(clients.map((client, i) => client.ask(ask(i, 1))));
    const refused = answers.filter((answer) => answer?.status === 503);
    assert(refused.length >= 8, `${refused.length} were refused`);
    for (const answer of refused) {
      assertMatch(answer!.text, /^[^]*\r\nretry-after: \d+\r\n[^]*"code":"queue_full"/i);
    }
    assertEquals(answers.filter((answer) => answer?.status === 200).length + refused.length, 12);
    for (const client of clients) client.close();
  } finally {
    await server.end();
  }
});

test("load: TERM loses no accepted request, and streams reach their end", UNIX, async () => {
  const server = await startServer({ ...models, slots: 8, context: 512 });
  let isEnding = false;
  const counts = { good: 0, refused: 0 };
  const lost: string[] = [];
  const ask = async (connection: number): Promise<void> => {
    const client = new Client(server.port);
    const make = connection % 3 === 0 ? vectorOf : chatOf(48);
    for (let n = 0;; n++) {
      const answer = await client.ask(make(connection, n));
      if (answer === undefined) {
        lost.push(`${connection}: ${n}`);
        break;
      }
      const { status, text } = answer;
      if (status === 200) {
        counts.good++;
        // Also one that began before the signal is whole.
        if (/event-stream/.test(text)) assertMatch(text, /data: \[DONE\]/);
      } else {
        assertEquals([status, isEnding], [503, true], text);
        counts.refused++;
      }
      if (status !== 200 || /\r\nconnection: *close/i.test(text)) break;
    }
    client.close();
  };
  try {
    const clients = Promise.all(Array.from({ length: 24 }, (_, i) => ask(i)));
    for (let i = 0; i < 2000 && counts.good < 60; i++) await delay(5);
    isEnding = true;
    await server.terminate();
    await clients;
    assertEquals([lost, await server.ended], [[], 0], server.output());
    assert(counts.good >= 60 && counts.refused > 0, JSON.stringify(counts));
  } finally {
    await server.end();
  }
});

test("load: a client that is gone frees its slot", SLOW, async () => {
  const server = await startServer({ chat: models.chat, slots: 1, queue: 4 });
  try {
    const { path, body } = chatOf(4000)(0, 0);
    const text = JSON.stringify({ ...body as object, stream: true });
    const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${text.length}\r\n\r\n`;
    for (let i = 1; i <= 3; i++) {
      const socket = connect(server.port, "127.0.0.1", () => void socket.write(head + text));
      socket.on("error", () => {});
      await new Promise((resolve) => socket.once("data", resolve));
      assertEquals((await server.stats()).active, 1);
      socket.destroy();
      const begin = performance.now();
      let stats = await server.stats();
      for (; stats.cancelled < i && performance.now() - begin < 5000;) stats = await server.stats();
      assertEquals([stats.cancelled, stats.active, stats.inFlight], [i, 0, 0]);
      // All of the text would be 4000 steps.
      assert(stats.steps < 3000 * i, `${stats.steps} steps`);
    }
    const client = new Client(server.port);
    assertEquals((await client.ask(chatOf(2)(0, 1)))?.status, 200);
    client.close();
  } finally {
    await server.end();
  }
});

test("load: the slot of a client that is gone is free within one step", SLOW, async () => {
  using chat = await openChat("hermes", 8192);
  using service = openai({ chat: { chat } }, { engine: { slots: 1 } });
  const stats = () => (service.stats["models"] as Readonly<Record<string, EngineStats>>)["chat"]!;
  const { path, body } = chatOf(4000)(0, 0);
  const ask = (stream: boolean, signal: AbortSignal) =>
    service.fetch(
      new Request(`http://localhost${path}`, {
        ...{ method: "POST", headers: { "content-type": "application/json" }, signal },
        body: JSON.stringify({ ...body as object, stream }),
      }),
    );
  const untilFree = async (leave: () => unknown, cancelled: number): Promise<void> => {
    const { steps } = stats();
    await leave();
    while (stats().active > 0) await delay(1);
    // A step that has begun ends.
    assertEquals([stats().cancelled, stats().steps - steps <= 1], [cancelled, true]);
  };
  const { signal } = new AbortController();
  const reader = (await ask(true, signal)).body!.getReader();
  for (let i = 0; i < 5; i++) await reader.read();
  await untilFree(() => reader.cancel(), 1);
  const controller = new AbortController();
  const answer = ask(false, controller.signal);
  for (let i = 0; i < 2000 && stats().active === 0; i++) await delay(1);
  await untilFree(() => controller.abort(), 2);
  assertEquals((await answer).status, 499);
});

test("load: 256 slow bodies of one client, while another is served", LINUX, async () => {
  const limits = { firstByteMs: 60_000, bodyMs: 60_000 };
  const server = await startServer({ ...models, slots: 4, context: 512, limits });
  try {
    const head = "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\n" +
      'Content-Type: application/json\r\nContent-Length: 4000\r\n\r\n{"model"';
    const ended: string[] = [];
    const sockets = Array.from({ length: 256 }, (): Socket => {
      // Another address of this machine is another client.
      const options = { port: server.port, host: "127.0.0.1", localAddress: "127.0.0.2" };
      const socket = connect(options, () => socket.write(head));
      let text = "";
      socket.setEncoding("latin1").on("data", (part: string) => {
        text += part;
        if (text.includes("\r\n\r\n")) socket.destroy();
      });
      socket.on("error", () => {});
      socket.on("close", () => ended.push(text));
      return socket;
    });
    const ask: LoadOptions["ask"] = (connection, n) =>
      (n % 2 === 0 ? chatOf(4) : vectorOf)(connection, n);
    const { statuses, broken } = await load({
      ...{ port: server.port, connections: 4, seconds: 1, ask },
    });
    assertEquals([Object.keys(statuses), broken], [["200"], 0], JSON.stringify(statuses));
    // All but the latest 64, which are the most of a client, have given way at once.
    for (let i = 0; i < 2000 && ended.length < 192; i++) await delay(5);
    assertEquals(ended.length, 192);
    for (const text of ended) {
      assertMatch(text, /^HTTP\/1\.1 503 [^]*\r\nretry-after: \d+\r\n/i);
    }
    assertEquals((await server.stats()).inFlight, 64);
    for (const socket of sockets) socket.destroy();
    await untilIdle(server);
  } finally {
    await server.end();
  }
});

/** Seconds at half of the full load. */
const STEADY_SECONDS = Number(process.env.ROWMAJOR_TEST_SECONDS || 60);
const STEADY = { ...ONLY_ALL, timeout: (STEADY_SECONDS + 540) * 1000 };
/** Readings of memory, whose median counts: heaps rise and fall by tens of megabytes. */
const READINGS = 5;

test("load: half of the full load for a while adds at most 20 MB", STEADY, async (t) => {
  const server = await startServer({ ...models, slots: 8, context: 512, metrics: true });
  try {
    const ask: LoadOptions["ask"] = (connection, n) =>
      (connection % 4 === 0 ? chatOf(32) : vectorOf)(connection, n);
    const common = { port: server.port, connections: 16, ask };
    const full = await load({ ...common, seconds: 5 });
    assertEquals(Object.keys(full.statuses), ["200"]);
    const rate = full.good / full.seconds / 2;
    let [good, p99] = [0, 0];
    /** The resident memory after some seconds. */
    const after = async (seconds: number): Promise<number> => {
      const part = await load({ ...common, seconds, rate });
      assertEquals([Object.keys(part.statuses), part.broken], [["200"], 0]);
      [good, p99] = [good + part.good, Math.max(p99, part.answers.p99)];
      return (await server.stats()).resident;
    };
    const median = (readings: readonly number[]) =>
      readings.toSorted((a, b) => a - b)[readings.length >> 1]!;
    const step = STEADY_SECONDS > 600 ? 60 : 5;
    const first: number[] = [];
    while (first.length < READINGS) first.push(await after(step));
    const before = median(first);
    server.watchTimer();
    const rises: number[] = [];
    for (let left = STEADY_SECONDS; left > 0; left -= step) {
      rises.push((await after(Math.min(left, step)) - before) / MB);
    }
    const rise = median(rises.slice(-READINGS));
    const { late } = await server.stats();
    t.diagnostic(
      `${good} requests in ${STEADY_SECONDS} s, ${rate.toFixed(0)} per second: MB more than ` +
        `${(before / MB).toFixed(0)} every ${step} s: ${rises.map((one) => one.toFixed(1))}; ` +
        `p99 ${p99.toFixed(1)} ms, timer late by p99 ${late.p99.toFixed(2)} ms`,
    );
    assert(rise <= 20, `${rise} MB more`);
  } finally {
    await server.end();
  }
});

const REAL = join(root, "models", "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf");
const WITH_MODEL = {
  ...ONLY_ALL,
  skip: ONLY_ALL.skip || !existsSync(REAL) && "deno task models smollm2 makes the model",
};

test("load: a second process of a model shares its weights", WITH_MODEL, async (t) => {
  const start = () => startServer({ chat: REAL, slots: 4, context: 512 });
  const first = await start();
  const ask: LoadOptions["ask"] = chatOf(16);
  const warm = (server: Child) => load({ port: server.port, connections: 2, seconds: 2, ask });
  try {
    await warm(first);
    const alone = memoryOf(first.pid, "Pss");
    const second = await start();
    try {
      await warm(second);
      const [a, b] = [first, second].map(({ pid }) => memoryOf(pid, "Pss"));
      const more = a! + b! - alone;
      t.diagnostic(
        `proportional memory: one process ${(alone / MB).toFixed(0)} MB, the second ` +
          `${(more / MB).toFixed(0)} MB more (resident ${
            (memoryOf(second.pid, "Rss") / MB).toFixed(0)
          } MB)`,
      );
      assert(more < alone, `${more / MB} MB more, beside ${alone / MB}`);
    } finally {
      await second.end();
    }
  } finally {
    await first.end();
  }
});
