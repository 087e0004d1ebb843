/**
 * A service on a socket: what clients see of it, and do to it and to each other.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Tensor } from "../../mod.ts";
import { type Handler, listen, type Listener } from "../../src/serve/http/listen.ts";
import type { Service, ServiceLimits } from "../../src/serve/http/service.ts";
import { inference } from "../../src/serve/inference.ts";

/** A service that doubles 64 numbers, on a free port. */
function start(limits: Partial<ServiceLimits>): { service: Service; listener: Listener } {
  const double = {
    inputs: [{ name: "x", dtype: "float32", shape: [64] }],
    outputs: [{ name: "y", dtype: "float32", shape: [64] }],
    run: ({ x }: { x: Tensor }) => ({ y: x.mul(2) }),
  };
  const service = inference({ models: { double } }, { limits });
  return { service, listener: onSocket(service.fetch) };
}

function onSocket(handler: Handler): Listener {
  return listen(handler, { hostname: "127.0.0.1", port: 0, maxBodyBytes: 1e6, idleSeconds: 30 });
}

/** A connection that has sent `text`, and the whole of its first answer. */
async function send(
  port: number,
  text: string,
): Promise<{ socket: Socket; answer: Promise<string> }> {
  const socket = connect(port, "127.0.0.1");
  let answer = "";
  const answered = new Promise<string>((resolve) => {
    socket.setEncoding("latin1").on("data", (part) => {
      answer += part;
      const [, head, body] = /^([^]*?)\r\n\r\n([^]*)$/.exec(answer) ?? [];
      const length = Number(/content-length: (\d+)/i.exec(head ?? "")?.[1] ?? 0);
      if (body !== undefined && body.length >= length) socket.destroy();
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve(answer));
  });
  await new Promise<void>((resolve) => socket.on("connect", () => resolve()));
  socket.write(text);
  return { socket, answer: answered };
}

async function ask(port: number, text: string): Promise<string> {
  return await (await send(port, text)).answer;
}

const INFER = "/v2/models/double/infer";
const BODY = JSON.stringify({
  inputs: [{ name: "x", datatype: "FP32", shape: [64], data: Array(64).fill(1) }],
});
const POST = `POST ${INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n`;
const HEAD = `${POST}Content-Length: ${BODY.length}\r\n\r\n`;

/** Waits for a condition, at most 5 seconds. */
async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 500 && !condition(); i++) await delay(10);
  assert(condition());
}

test("socket: a URL that does not parse is a 400 without sources and paths", async (t) => {
  const logged = t.mock.method(console, "error", () => {});
  const { service, listener } = start({});
  const bad = ["x:99999999", "[", "xn--a", "%00", "x:y"];
  for (const path of ["/readyz", "/", INFER, "/nowhere"]) {
    for (const host of bad) {
      const answer = await ask(listener.port, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      assertMatch(answer, /^HTTP\/1\.1 40[03] /, `${path} of ${host}`);
      assert(!/<|\.ts\b|\/server/.test(answer), answer);
    }
  }
  const inLine = await ask(listener.port, "GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n");
  assertMatch(inLine, /^HTTP\/1\.1 (40[04]|200) /);
  const healthy = "GET /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n";
  assertMatch(await ask(listener.port, healthy), /^HTTP\/1\.. 200 [^]*"ok"\}$/);
  assertEquals(logged.mock.callCount(), 0, "the client's fault is not the server's");
  assert(service.stats.failed >= 20);
  await listener.stop();
});

test("socket: an error of the handler is a 500 that tells nothing", async (t) => {
  const logged = t.mock.method(console, "error", () => {});
  const listener = onSocket(() => Promise.reject(new Error("secret")));
  const answer = await ask(listener.port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  assertMatch(answer, /^HTTP\/1\.1 500 [^]*\r\n\r\nthe server failed\n$/);
  assertEquals(logged.mock.callCount(), 1);
  await listener.stop();
});

/** Fills every place with bodies of which `part` arrives, and expects others to be served. */
async function starve(part: string, limits: Partial<ServiceLimits>): Promise<string[]> {
  const { service, listener } = start({ ...limits, inFlight: 40 });
  const slow = [];
  for (let i = 0; i < 40; i++) slow.push(await send(listener.port, HEAD + part));
  const begin = performance.now();
  let answer = "";
  // An answer may be 503 at first, with the time to retry after.
  while (!answer.startsWith("HTTP/1.1 200 ") && performance.now() - begin < 5000) {
    answer = await ask(listener.port, HEAD + BODY);
    await delay(20);
  }
  // Bodies that do not give way end after 10 s.
  assertMatch(answer, /^HTTP\/1\.1 200 /);
  for (const { socket } of slow.slice(20)) socket.destroy();
  const answers = await Promise.all(slow.slice(0, 20).map(({ answer }) => answer));
  await until(() => service.stats.inFlight === 0);
  await listener.stop();
  return answers;
}

test("socket: slow bodies of one client give way to other requests", async () => {
  // Each oldest body gives way.
  for (const answer of await starve(BODY.slice(0, 9), { perClient: 10 })) {
    assertMatch(answer, /^HTTP\/1\.1 503 [^]*retry-after: 1[^]*too many bodies of this client/i);
  }
  // Also where they are not bounded, a body has to begin.
  for (const answer of await starve("", { perClient: 1000, firstByteMs: 300 })) {
    assertMatch(answer, /^HTTP\/1\.1 408 [^]*the body did not begin within 300 ms/);
  }
});

test("socket: all addresses of an IPv6 network, and an IPv4 address in IPv6, are one client", async () => {
  const cases: [first: string, second: string, same: boolean][] = [
    ["2001:db8:1:2::1", "2001:db8:1:2:3:4:5:6", true],
    ["2001:DB8:1:2::1", "2001:0db8:1:2::2", true],
    ["2001:db8::1", "2001:db8:0:0:1::", true],
    ["2001:db8:1:2::1", "2001:db8:1:3::1", false],
    ["2001:db8:1::", "2001:db8::1", false],
    ["::ffff:192.0.2.1", "192.0.2.1", true],
    ["::ffff:192.0.2.1", "::ffff:192.0.2.2", false],
    ["::1", "127.0.0.1", false],
    ["fe80::1%eth0", "fe80::2%eth0", true],
  ];
  for (const [first, second, same] of cases) {
    const { service, listener } = start({ perClient: 1 });
    const { promise: both, resolve: arrive } = Promise.withResolvers<void>();
    const answers = [first, second].map((client) => {
      let canceled = false;
      const body = new ReadableStream<Uint8Array>({
        cancel: () => void (canceled = true),
        async pull(controller) {
          await both;
          if (canceled) return;
          controller.enqueue(new TextEncoder().encode(BODY));
          controller.close();
        },
      });
      const headers = { "content-type": "application/json" };
      const options = { method: "POST", headers, body, duplex: "half" };
      return service.fetch(new Request(`http://localhost${INFER}`, options), {
        requestIP: () => ({ address: client }),
      });
    });
    await delay(5);
    arrive();
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    assertEquals(statuses, [same ? 503 : 200, 200], `${first} and ${second}`);
    await listener.stop();
  }
});

test("socket: slow, endless and broken clients do no harm", async () => {
  const { service, listener } = start({ bodyBytes: 10_000, bodyMs: 300 });
  const status = async (text: string) => Number((await ask(listener.port, text)).split(" ")[1]);
  assertEquals(await status(`${POST}Content-Length: 50\r\n\r\n{"images"`), 408);
  assertEquals(await status(`${POST}Transfer-Encoding: chunked\r\n\r\n9\r\n{"images"\r\n`), 408);
  assertEquals(await status(`${POST}Content-Length: 10001\r\n\r\n`), 413);
  const endless = `2710\r\n${" ".repeat(10_000)}\r\n`.repeat(2);
  assertEquals(await status(`${POST}Transfer-Encoding: chunked\r\n\r\n${endless}`), 413);
  const broken = await send(listener.port, `${POST}Content-Length: 50\r\n\r\n{"images"`);
  broken.socket.destroy();
  const good = await ask(listener.port, HEAD + BODY);
  assert(good.startsWith("HTTP/1.1 200 "), good);
  // The broken connection is noticed, at the latest when its body times out.
  await until(() => service.stats.inFlight === 0);
  await listener.stop();
});
