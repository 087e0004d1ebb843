/**
 * What servers answer before their models are loaded, their logs, the progress of loading, and the
 * socket of Node.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { bytesText, countText, digits } from "../../src/command/arguments.ts";
import { progressOf } from "../../src/command/progress.ts";
import { logOf, openServer } from "../../src/command/server.ts";
import type { Connection } from "../../src/serve/http/service.ts";
import { Metrics } from "../../src/serve/http/metrics.ts";
import { listenInNode } from "../../src/serve/http/node.ts";
import { json, makeService } from "../../src/serve/http/service.ts";

const LOCAL = { hostname: "127.0.0.1", port: 0, maxBodyBytes: 1e6, idleSeconds: 5 };

test("a server answers 503 until it has a service, and lives", async () => {
  const server = await openServer(LOCAL, { drainMs: 0, graceMs: 0 });
  const ask = async (path: string, body?: string) => {
    const response = await fetch(`http://127.0.0.1:${server.port}${path}`, {
      ...body !== undefined && { method: "POST", body },
    });
    return [response.status, response.headers.get("retry-after"), await response.json()];
  };
  const error = { message: "the models are loading", type: "server_error", code: "loading" };
  const early = [503, "1", { error: { ...error, param: null } }];
  assertEquals(await ask("/v1/models"), early);
  assertEquals(await ask("/v1/chat/completions", "x".repeat(100_000)), early);
  assertEquals(await ask("/readyz"), early);
  assertEquals(await ask("/livez"), [200, null, { status: "ok" }]);
  assertEquals(await ask("/livez?verbose"), [200, null, { status: "ok" }]);
  assertEquals(await ask("/a?b=/livez"), early);
  const metrics = new Metrics(undefined);
  const answer = () => json({ hello: "there" });
  server.serve(makeService({ routes: [{ method: "GET", path: "/a", answer }], metrics }));
  assertEquals(await ask("/a"), [200, null, { hello: "there" }]);
  assertEquals((await ask("/readyz"))[0], 200);

  await assertRejects(
    () => openServer({ ...LOCAL, port: server.port }, { drainMs: 0, graceMs: 0 }),
    Error,
    `Cannot listen on 127.0.0.1, port ${server.port}: another program has this port`,
  );
  await server.close();
});

test("logs are lines of text or of JSON", () => {
  const entry = {
    ...{ time: "2026-01-01T00:00:00.000Z", method: "POST", path: "/v1/embeddings", status: 400 },
    ...{ ms: 1.25, client: "127.0.0.1", key: 0, error: "no input", model: "m", promptTokens: 3 },
  };
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  logOf("text", write)!(entry);
  logOf("json", write)!(entry);
  assertEquals(lines, [
    "2026-01-01T00:00:00.000Z 127.0.0.1 POST /v1/embeddings 400 1.25 ms key=0 model=m " +
    'promptTokens=3 error="no input"',
    JSON.stringify(entry),
  ]);
  // No text of a client makes another line, another field or a command of a terminal.
  const prompt = 'a\nb=1 "\x1b[2J\x9b2J\u2028';
  for (const kind of ["text", "json"] as const) {
    lines.length = 0;
    logOf(kind, write)!({ ...entry, prompt, input: ["a"] });
    assertEquals(lines.length, 1);
    // deno-lint-ignore no-control-regex
    assert(!/[\x00-\x1f\x7f-\x9f\u2028\u2029]/.test(lines[0]!), lines[0]);
    const value = String.raw`"a\nb=1 \"\u001b[2J\u009b2J\u2028"`;
    assert(lines[0]!.includes(kind === "json" ? `"prompt":${value}` : ` prompt=${value} `));
    if (kind === "text") assert(lines[0]!.includes(' input=["a"] '), lines[0]);
  }
  assertEquals(logOf("off", write), undefined);
});

test("progress is one line on a terminal, and plain lines elsewhere", () => {
  for (const isTTY of [true, false]) {
    let text = "";
    let now = 0;
    const write = (part: string) => void (text += part);
    const progress = progressOf("loading m", { isTTY, write }, () => now);
    progress.show({ loaded: 1, total: 4e6 });
    assertEquals(text, "", "what is fast shows nothing");
    now = isTTY ? 500 : 2000;
    progress.show({ loaded: 2e6, total: 4e6 });
    progress.show({ loaded: 3e6, total: 4e6 });
    now += isTTY ? 100 : 3000;
    progress.show({ loaded: 4e6, total: 4e6 });
    progress.end();
    const lines = ["loading m: 50% of 4.00 MB", "loading m: 100% of 4.00 MB"];
    const [before, after] = isTTY ? ["\r\x1b[K", ""] : ["", "\n"];
    const last = isTTY ? "\r\x1b[K" : "";
    assertEquals(text, lines.map((line) => before + line + after).join("") + last);
  }
});

test("sizes have three digits", () => {
  assertEquals([0, 999, 1000, 98_765_432, 999_600_000].map(bytesText), [
    ...["0 bytes", "999 bytes", "1.00 kB", "98.8 MB", "1.00 GB"],
  ]);
  assertEquals([12, 1500, 134_515_008].map(countText), ["12", "1.50 K", "135 M"]);
  assertEquals([0.5, 9.996, 99.96, 1234.5].map(digits), ["0.50", "10.0", "100", "1235"]);
});

/** Sends lines as they are, and returns what comes back until the end. */
function send(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    socket.setEncoding("utf8").on("data", (part) => answer += part);
    socket.on("error", reject).on("close", () => resolve(answer));
  });
}

test("the socket of Node passes on bodies, addresses, streams and the end of clients", async () => {
  let gone = 0, cancelled = 0;
  const listener = await listenInNode(async (request: Request, connection?: Connection) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/refuse") {
      await request.body?.cancel();
      return new Response("too large", { status: 413 });
    }
    if (pathname === "/fail") throw new Error("a failure of the test");
    if (pathname === "/stream") {
      request.signal.addEventListener("abort", () => gone++);
      return new Response(
        new ReadableStream({
          async pull(controller) {
            await delay(2);
            controller.enqueue(new TextEncoder().encode("x".repeat(1000)));
          },
          cancel: () => void cancelled++,
        }),
      );
    }
    const body = await request.text();
    const { remoteAddr } = connection ?? {};
    return Response.json({
      ...{ method: request.method, length: body.length, end: body.slice(-3) },
      ...{ host: request.headers.get("host"), client: remoteAddr?.hostname },
    }, { status: 201, headers: { "x-own": "1" } });
  }, LOCAL);
  const url = `http://127.0.0.1:${listener.port}`;
  const posted = await fetch(url, { method: "POST", body: "a".repeat(300_000) + "end" });
  assertEquals([posted.status, posted.headers.get("x-own")], [201, "1"]);
  assertEquals(await posted.json(), {
    ...{ method: "POST", length: 300_003, end: "end" },
    ...{ host: `127.0.0.1:${listener.port}`, client: "127.0.0.1" },
  });
  assertEquals((await (await fetch(url)).json()).method, "GET");
  const refused = await fetch(`${url}/refuse`, { method: "POST", body: "a".repeat(300_000) });
  assertEquals([refused.status, await refused.text()], [413, "too large"]);
  const wrong = await send(
    listener.port,
    "GET //[ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
  );
  assertMatch(wrong, /^HTTP\/1\.1 400 /);

  // A client that goes away ends its stream.
  const client = httpRequest(`${url}/stream`, (response) => {
    response.once("data", () => client.destroy());
    response.on("error", () => {});
  });
  client.on("error", () => {});
  client.end();
  for (let i = 0; i < 400 && (gone < 1 || cancelled < 1); i++) await delay(5);
  assertEquals([gone, cancelled], [1, 1]);

  const { error } = console;
  const printed: unknown[] = [];
  console.error = (one: unknown) => void printed.push(one);
  try {
    await assertRejects(() => fetch(`${url}/fail`));
  } finally {
    console.error = error;
  }
  assert(printed.some((one) => String(one).includes("a failure of the test")));
  await listener.stop();
  await assertRejects(() => fetch(url));
});
