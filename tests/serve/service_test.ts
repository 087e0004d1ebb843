/**
 * Services without a model: keys, hosts, origins, paths, limits, deadlines, logs, streams and the end.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import * as prom from "prom-client";
import { ArgumentError } from "../../mod.ts";
import { HttpError } from "../../src/serve/http/http_error.ts";
import { Metrics } from "../../src/serve/http/metrics.ts";
import {
  json,
  type LogEntry,
  makeService,
  type Route,
  type Service,
  type ServiceOptions,
} from "../../src/serve/http/service.ts";
import { eventStream } from "../../src/serve/openai/sse.ts";
import type { Any } from "../support.ts";

/** Calls that wait until a test lets them go on. */
class Gate {
  readonly #waiting: (() => void)[] = [];

  wait(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  open(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

const gate = new Gate();
const signals: AbortSignal[] = [];

async function* numbers(count: number, wait = false): AsyncGenerator<string> {
  for (let i = 0; i < count; i++) {
    if (wait && i > 0) await gate.wait();
    yield `${i};`;
  }
}

const fail = (error: HttpError): string => `failed ${error.status}`;
const ROUTES: readonly Route[] = [
  { method: "POST", path: "/echo", answer: async (incoming) => json(await incoming.json()) },
  {
    method: "POST",
    path: "/bytes",
    answer: async (incoming) => json((await incoming.bytes()).length),
  },
  { method: "GET", path: "/things/:id", answer: ({ params }) => json(params) },
  { method: "GET", path: "/files/*path", answer: ({ params }) => json(params) },
  { method: "GET", path: "/open", isOpen: true, answer: () => json("open") },
  {
    method: "POST",
    path: "/wait",
    async answer(incoming) {
      await incoming.bytes();
      incoming.note({ model: "m" });
      signals.push(incoming.signal);
      await gate.wait();
      return json("done");
    },
  },
  {
    method: "POST",
    path: "/broken",
    answer: () => Promise.reject(new Error("at /home/secret.ts")),
  },
  {
    method: "POST",
    path: "/stream",
    answer: (incoming) => incoming.stream(numbers(3), { "content-type": "text/plain" }, fail),
  },
  {
    method: "POST",
    path: "/slow",
    answer: (incoming) => incoming.stream(numbers(3, true), {}, fail),
  },
  {
    method: "POST",
    path: "/late",
    answer: (incoming) =>
      incoming.stream(
        (async function* () {
          yield "a;";
          throw new HttpError(507, "full");
        })(),
        {},
        fail,
      ),
  },
];

function make(options: ServiceOptions = {}): Service {
  return makeService({ routes: ROUTES, metrics: new Metrics(options.metrics) }, options);
}

interface Sent {
  readonly method?: string;
  readonly body?: string | Uint8Array<ArrayBuffer> | ReadableStream;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly client?: string;
}

function send(of: Service, path: string, sent: Sent = {}): Promise<Response> {
  const { client, body, ...rest } = sent;
  const init = {
    ...{ ...rest, headers: { "content-type": "application/json", ...rest.headers } },
    ...body !== undefined && { method: "POST", body, duplex: "half" },
  };
  const connection = client === undefined ? undefined : { requestIP: () => ({ address: client }) };
  return of.fetch(new Request(`http://localhost:8000${path}`, init as RequestInit), connection);
}

/** The status and the code of an answer. */
async function codeOf(of: Service, path: string, sent: Sent = {}): Promise<unknown[]> {
  const response = await send(of, path, sent);
  const { error } = await response.json() as Any;
  return [response.status, error?.code];
}

/** Runs `body` without what it prints as errors. */
async function quietly<T>(body: () => Promise<T>): Promise<[T, unknown[]]> {
  const { error } = console;
  const printed: unknown[] = [];
  console.error = (...args: unknown[]) => void printed.push(...args);
  try {
    return [await body(), printed];
  } finally {
    console.error = error;
  }
}

test("service: paths and methods", async () => {
  using service = make();
  const of = async (path: string, sent?: Sent) => {
    const response = await send(service, path, sent);
    return [response.status, await response.json()];
  };
  assertEquals(await of("/things/a%2Fb?x=1"), [200, { id: "a/b" }]);
  assertEquals(await of("/files/a/b%20c"), [200, { path: "a/b c" }]);
  assertEquals(await of("/echo", { body: '{"a":[1]}' }), [200, { a: [1] }]);
  assertEquals(await of("/health"), [200, { status: "ok" }]);
  assertEquals(await of("/v1/health"), [200, { status: "ok" }]);
  for (
    const path of [
      "/",
      "/nothing",
      "/things",
      "/things/a/b",
      "/echo/",
      "/things/%ff",
      "//health",
      "/files",
      "/ECHO",
      `/${"a".repeat(10_000)}`,
    ]
  ) {
    assertEquals(await codeOf(service, path), [404, null], path.slice(0, 20));
  }
  for (const [method, path, allow] of [["GET", "/echo", "POST"], ["DELETE", "/open", "GET"]]) {
    const response = await send(service, path!, { method: method! });
    assertEquals([response.status, response.headers.get("allow")], [405, allow]);
  }
  const head = await send(service, "/open", { method: "HEAD" });
  assertEquals([head.status, await head.text()], [200, ""]);
  assertEquals(head.headers.get("content-type"), "application/json");
  assertEquals(head.headers.get("x-content-type-options"), "nosniff");
  assertEquals((await send(service, "/open", { method: "OPTIONS" })).status, 405);
});

test("service: keys are needed except for what is open", async () => {
  const key = "sk-1234", other = "sk-5678";
  const entries: LogEntry[] = [];
  using service = make({ keys: [key, other], log: (entry) => entries.push(entry) });
  for (
    const authorization of [
      ...[
        undefined,
        "",
        "Bearer",
        "Bearer ",
        key,
        `Basic ${key}`,
        `Bearer ${key}x`,
        "Bearer sk-123",
      ],
      ...[`Bearer ${key} ${key}`, `Bearer ${key},${other}`, `Bearer ${"a".repeat(10_000)}`],
    ]
  ) {
    const response = await send(service, "/things/1", {
      ...authorization !== undefined && { headers: { authorization } },
    });
    assertEquals(response.status, 401, authorization);
    assertEquals(response.headers.get("www-authenticate"), "Bearer");
    const { error } = await response.json() as Any;
    assertEquals([error.code, error.type], ["invalid_api_key", "authentication_error"]);
    assert(!JSON.stringify(error).includes("sk-"));
  }
  for (const authorization of [`Bearer ${key}`, `bearer   ${other} `]) {
    assertEquals((await send(service, "/things/1", { headers: { authorization } })).status, 200);
  }
  assertEquals((await send(service, "/open")).status, 200);
  assertEquals((await send(service, "/health")).status, 200);
  assertEquals((await send(service, "/metrics")).status, 401);
  assertEquals(entries.filter(({ key }) => key !== undefined).map(({ key }) => key), [0, 1]);
  assert(!JSON.stringify(entries).includes("sk-"));
  for (const keys of [["a b"], [""], ["é"], [5], "sk-1", ["a".repeat(513)], {}]) {
    assertThrows(() => make({ keys: keys as Any }), ArgumentError, "Cannot serve");
  }
});

test("service: without keys, other hosts and pages of other servers are refused", async () => {
  using service = make();
  for (
    const host of [
      ...["localhost:8000", "127.0.0.1", "[::1]:8000", "LOCALHOST", "localhost:", "localhost."],
      ...["localhost.:80", "[0:0:0:0:0:0:0:1]"],
    ]
  ) {
    assertEquals((await send(service, "/open", { headers: { host } })).status, 200, host);
  }
  for (
    const host of [
      ...["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "a@b"],
      ...["localhost..", "localhost@evil.example", "evil.example@localhost", "localhost:80:80"],
      ...["[::1", "[::1]x", "[::2]", "[x]", ".", ":80", "127.1"],
    ]
  ) {
    assertEquals(await codeOf(service, "/open", { headers: { host } }), [403, "host_not_allowed"]);
  }
  for (const origin of ["http://localhost:3000", "http://127.0.0.1"]) {
    const response = await send(service, "/open", { headers: { origin } });
    assertEquals(response.status, 200, origin);
    assertEquals(response.headers.get("access-control-allow-origin"), null);
  }
  for (
    const origin of ["https://evil.example", "null", "http://localhost.evil.example", "file://"]
  ) {
    assertEquals(
      await codeOf(service, "/echo", { headers: { origin }, body: "{}" }),
      [403, "origin_not_allowed"],
    );
  }
  using named = make({ hosts: ["Models.example"] });
  const host = "models.example:443";
  assertEquals((await send(named, "/open", { headers: { host } })).status, 200);
  assertEquals((await send(named, "/open", { headers: { host: "localhost" } })).status, 403);
  using far = make({ hosts: ["[2001:DB8:0:0::1]"] });
  assertEquals((await send(far, "/open", { headers: { host: "[2001:db8::1]" } })).status, 200);
  // Whoever has a key may call the server as they like.
  using keyed = make({ keys: ["k"] });
  assertEquals((await send(keyed, "/open", { headers: { host: "a.example" } })).status, 200);
  for (const hosts of [["a:80"], ["http://a"], [""], "localhost", [1]]) {
    assertThrows(() => make({ hosts: hosts as Any }), ArgumentError, "Cannot serve");
  }
});

test("service: pages of named origins may use it", async () => {
  const origin = "https://app.example";
  using service = make({ cors: [origin] });
  const asked = {
    method: "OPTIONS",
    headers: {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization,x-stainless-os",
    },
  };
  const allowed = await send(service, "/echo", asked);
  assertEquals(allowed.status, 204);
  const header = (name: string) => allowed.headers.get(`access-control-${name}`);
  assertEquals(header("allow-origin"), origin);
  assertEquals(header("allow-methods"), "GET, POST");
  assertEquals(header("allow-headers"), "authorization,x-stainless-os");
  const answer = await send(service, "/echo", { headers: { origin }, body: "{}" });
  assertEquals([answer.status, answer.headers.get("access-control-allow-origin")], [200, origin]);
  assertEquals(answer.headers.get("vary"), "origin");
  // A page reads errors too.
  const wrong = await send(service, "/echo", { headers: { origin }, body: "[" });
  assertEquals([wrong.status, wrong.headers.get("access-control-allow-origin")], [400, origin]);
  const other = { ...asked, headers: { ...asked.headers, origin: "https://other.example" } };
  const refused = await send(service, "/echo", other);
  assertEquals([refused.status, refused.headers.get("access-control-allow-origin")], [403, null]);
  using all = make({ cors: "*", keys: ["k"] });
  assertEquals((await send(all, "/echo", other)).status, 204);
  assertEquals((await send(all, "/echo", { body: "{}" })).status, 401);
  for (const cors of [["app.example"], ["https://app.example/"], "https://a.example", [5], true]) {
    assertThrows(() => make({ cors: cors as Any }), ArgumentError, "Cannot serve");
  }
});

/** A body in parts, which ends or stalls. */
function parts(texts: readonly string[], isWhole: boolean): ReadableStream {
  const left = [...texts];
  return new ReadableStream({
    pull(controller) {
      const next = left.shift();
      if (next !== undefined) controller.enqueue(new TextEncoder().encode(next));
      else if (isWhole) controller.close();
      else return new Promise(() => {});
    },
  });
}

test("service: bodies that are no JSON, too large or too slow", async () => {
  using service = make({ limits: { bodyBytes: 1000, firstByteMs: 60, bodyMs: 150 } });
  const table: [name: string, status: number, sent: Sent][] = [
    ["nothing", 400, { method: "POST" }],
    ["half", 400, { body: '{"a":' }],
    ["a list", 400, { body: "[1]" }],
    ["null", 400, { body: "null" }],
    ["no UTF-8", 400, { body: Uint8Array.of(0x7b, 0xff, 0x7d) }],
    ["a deep list", 400, { body: `{"a":${"[".repeat(400)}${"]".repeat(400)}}` }],
    ["101 levels", 400, { body: `{"a":${"[".repeat(100)}${"]".repeat(100)}}` }],
    ["99 levels", 200, { body: `{"a":${"[".repeat(98)}${"]".repeat(98)}}` }],
    ["a form", 415, {
      body: "a=b",
      headers: { "content-type": "application/x-www-form-urlencoded" },
    }],
    ["text", 415, { body: "{}", headers: { "content-type": "text/plain" } }],
    ["JSON", 200, { body: "{}", headers: { "content-type": "application/json; charset=utf-8" } }],
    ["large", 413, { body: `{"a":"${"a".repeat(1000)}"}` }],
    ["large in parts", 413, { body: parts(['{"a":"', "a".repeat(600), "b".repeat(600)], false) }],
    ["that never begins", 408, { body: parts([], false) }],
    ["that never ends", 408, { body: parts(["{"], false) }],
    ["in parts", 200, { body: parts(["{", "}"], true) }],
  ];
  for (const [name, status, sent] of table) {
    assertEquals((await send(service, "/echo", sent)).status, status, name);
  }
  const broken = new ReadableStream({ pull: (controller) => controller.error(new Error("reset")) });
  assertEquals(await codeOf(service, "/echo", { body: broken }), [400, null]);
  assertEquals(service.stats.inFlight, 0);
  // A prototype is only a field.
  const response = await send(service, "/echo", { body: '{"__proto__":{"a":1}}' });
  assertEquals(await response.text(), '{"__proto__":{"a":1}}');
});

test("service: compressed bodies are refused", async () => {
  using service = make();
  for (
    const [encoding, status] of [["gzip", 415], ["br, gzip", 415], [" Identity", 200]] as const
  ) {
    const headers = { "content-encoding": encoding, "content-type": "application/json" };
    assertEquals((await send(service, "/echo", { headers, body: "{}" })).status, status, encoding);
  }
});

test("service: slow bodies of a client leave room for others and for its own", async () => {
  using service = make({
    limits: { perClient: 4, firstByteMs: 2000, bodyMs: 2000, inFlight: 300 },
  });
  const slow = Array.from(
    { length: 256 },
    () => send(service, "/echo", { body: parts(["{"], false), client: "10.0.0.1" }),
  );
  await delay(5);
  for (const client of ["10.0.0.1", "10.0.0.2"]) {
    assertEquals((await send(service, "/echo", { body: "{}", client })).status, 200, client);
  }
  const statuses = (await Promise.all(slow)).map(({ status }) => status);
  assertEquals(statuses.filter((status) => status === 503).length, 253);
  assertEquals(statuses.filter((status) => status === 408).length, 3);
  assertEquals(service.stats.inFlight, 0);
});

test("service: the requests at once are limited, of all, of a client and of a key", async () => {
  using service = make({ keys: ["a", "b"], limits: { inFlight: 5, perKey: 3, perClient: 2 } });
  const ask = (key: string, client: string) =>
    send(service, "/wait", { body: "", client, headers: { authorization: `Bearer ${key}` } });
  const held = [ask("a", "1.1.1.1"), ask("a", "1.1.1.1")];
  await delay(1);
  const third = await ask("b", "1.1.1.1");
  assertEquals([third.status, third.headers.get("retry-after")], [429, "1"]);
  held.push(ask("a", "1.1.1.2"));
  await delay(1);
  assertEquals((await ask("a", "1.1.1.3")).status, 429);
  // All of an IPv6 network is one client.
  held.push(ask("b", "2001:db8::1"), ask("b", "2001:db8::2"));
  await delay(1);
  const full = await ask("b", "2.2.2.2");
  assertEquals([full.status, full.headers.get("retry-after")], [503, "1"]);
  // Requests that make no work are answered.
  const models = await send(service, "/things/1", { headers: { authorization: "Bearer a" } });
  assertEquals(models.status, 200);
  gate.open();
  assertEquals((await Promise.all(held)).map(({ status }) => status), [200, 200, 200, 200, 200]);
  const again = ask("a", "1.1.1.1");
  await delay(1);
  gate.open();
  assertEquals((await again).status, 200);
  assertEquals(service.stats, { inFlight: 0, answered: 10, failed: 3, draining: false });
  for (const limits of [{ inFlight: 0 }, { perKey: 1.5 }, { bodyBytes: "1" }, { answerMs: -1 }]) {
    assertThrows(() => make({ limits: limits as Any }), ArgumentError, "Cannot serve with");
  }
  assertThrows(() => make({ limits: { most: 1 } as Any }), TypeError, "most");
  assertThrows(() => make({ logs: true } as Any), TypeError, "logs");
  assertThrows(() => make({ log: true as Any }), ArgumentError, "log");
  assertThrows(() => make({ metrics: {} as Any }), ArgumentError, "prom-client");
});

test("service: an answer that takes too long is a 504, and its handler stops", async () => {
  using service = make({ limits: { answerMs: 60 } });
  signals.length = 0;
  assertEquals(await codeOf(service, "/wait", { body: "" }), [504, "deadline_exceeded"]);
  assertEquals((signals[0]!.reason as HttpError).status, 504);
  const stream = await send(service, "/slow", { body: "" });
  assertEquals(await stream.text(), "0;failed 504");
  assertEquals(service.stats.inFlight, 0);
  gate.open();
});

test("service: an error of a handler shows nothing of it", async () => {
  using service = make();
  const [[status, text], printed] = await quietly(async () => {
    const response = await send(service, "/broken", { body: "" });
    return [response.status, await response.text()] as const;
  });
  assertEquals(status, 500);
  assertEquals(JSON.parse(text), {
    error: {
      message: "the server failed",
      type: "server_error",
      param: null,
      code: "internal_error",
    },
  });
  assert(printed.some((one) => String(one).includes("secret")));
});

test("service: a log that throws changes no answer", async () => {
  using service = make({
    log() {
      throw new Error("disk");
    },
  });
  const [status, printed] = await quietly(async () => (await send(service, "/open")).status);
  assertEquals(status, 200);
  assert(String(printed[0]).includes("disk"));
});

test("service: streams are answered in parts, and end with their client", async () => {
  const entries: LogEntry[] = [];
  using service = make({ log: (entry) => entries.push(entry) });
  const whole = await send(service, "/stream", { body: "" });
  assertEquals(whole.headers.get("content-type"), "text/plain");
  assertEquals(service.stats.inFlight, 1);
  assertEquals(await whole.text(), "0;1;2;");
  const late = await send(service, "/late", { body: "" });
  assertEquals([late.status, await late.text()], [200, "a;failed 507"]);
  // The reader cancels; the client of the request is gone; nobody ever reads.
  const slow = await send(service, "/slow", { body: "" });
  const reader = slow.body!.getReader();
  await reader.read();
  await reader.cancel();
  const gone = new AbortController();
  await send(service, "/slow", { body: "", signal: gone.signal });
  gone.abort();
  await delay(1);
  assertEquals(service.stats.inFlight, 0);
  assertEquals(entries.map(({ status }) => status), [200, 507, 499, 499]);
  gate.open();
});

test("service: a stream that begins while its client leaves is over", async () => {
  for (const turns of [0, 1, 2, 3, 4, 5, 6, 8, 12, 50]) {
    let returned = 0;
    const service = makeService({
      metrics: new Metrics(undefined),
      routes: [{
        ...{ method: "POST", path: "/late" },
        async answer({ signal, stream }) {
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          for (let i = 0; i < turns; i++) await undefined;
          const parts = (async function* () {
            yield "";
          })();
          const end = parts.return.bind(parts);
          parts.return = (value) => {
            returned++;
            return end(value);
          };
          return stream(parts, {}, () => "");
        },
      }],
    });
    const client = new AbortController();
    const request = new Request("http://localhost/late", { method: "POST", signal: client.signal });
    const answer = service.fetch(request);
    await delay(0);
    assertEquals(service.stats.inFlight, 1);
    client.abort();
    assertEquals((await answer).status, 499);
    await delay(0);
    assertEquals([service.stats.inFlight, returned], [0, 1], `${turns} turns`);
    service.dispose();
  }
});

test("service: events are made before they are read, and a reader that is too slow is given up", async () => {
  let made = 0, hasEnded = false;
  async function* values(count: number): AsyncGenerator<unknown, void> {
    try {
      for (; made < count; made++) {
        await undefined;
        yield { text: "a".repeat(10_000) };
      }
    } finally {
      hasEnded = true;
    }
  }
  let count = 100;
  const route: Route = {
    ...{ method: "POST", path: "/events" },
    answer: (incoming) => eventStream(incoming, values(count)),
  };
  using service = makeService({ routes: [route], metrics: new Metrics(undefined) });
  const patient = await send(service, "/events", { body: "" });
  assertEquals(patient.headers.get("cache-control"), "no-cache, no-transform");
  await delay(20);
  assertEquals([made, hasEnded], [100, true]);
  const events = (await patient.text()).split("\n\n");
  assertEquals([events.length, events.at(-2)], [102, "data: [DONE]"]);
  [made, count, hasEnded] = [0, Infinity, false];
  const slow = await send(service, "/events", { body: "" });
  while (!hasEnded) await delay(5);
  assert(made > 400 && made < 430, `${made} events`);
  const [error, done] = (await slow.text()).split("\n\n").slice(-3);
  assertEquals(JSON.parse(error!.slice("data: ".length)).error.code, "slow_client");
  assertEquals(done, "data: [DONE]");
  assertEquals(service.stats.inFlight, 0);
});

test("service: drain waits for what was accepted, and refuses the rest", async () => {
  const service = make();
  const waiting = send(service, "/wait", { body: "" });
  const slow = await send(service, "/slow", { body: "" });
  await delay(1);
  let isDrained = false;
  const drained = service.drain().then(() => isDrained = true);
  assertEquals(await codeOf(service, "/wait", { body: "" }), [503, "draining"]);
  assertEquals((await send(service, "/readyz")).status, 503);
  const health = await send(service, "/health");
  assertEquals([health.status, health.headers.get("connection")], [200, "close"]);
  gate.open();
  assertEquals((await waiting).status, 200);
  assertEquals(isDrained, false);
  const timer = setInterval(() => gate.open(), 1);
  assertEquals(await slow.text(), "0;1;2;");
  clearInterval(timer);
  await drained;
  await service.drain();
});

test("service: dispose ends what runs at once", async () => {
  const service = make();
  const waiting = codeOf(service, "/wait", { body: "" });
  const slow = await send(service, "/slow", { body: "" });
  await delay(1);
  service.dispose();
  assertEquals(await waiting, [503, "draining"]);
  assertEquals(await slow.text(), "failed 503");
  assertEquals(service.stats.inFlight, 0);
  gate.open();
});

test("service: metrics need prom-client, and count answers and refusals", async () => {
  using plain = make();
  assertEquals((await send(plain, "/metrics")).status, 501);
  using service = make({ metrics: prom });
  await send(service, "/open");
  await send(service, "/nothing/1");
  await send(service, "/nothing/2");
  await send(service, "/echo", { body: "[" });
  const response = await send(service, "/metrics");
  assert(response.headers.get("content-type")!.startsWith("text/plain"));
  const text = await response.text();
  for (
    const line of [
      'rowmajor_requests_total{path="/open",code="200"} 1',
      'rowmajor_requests_total{path="other",code="404"} 2',
      'rowmajor_rejected_total{reason="not_found_error"} 2',
      'rowmajor_rejected_total{reason="invalid_request_error"} 1',
      'rowmajor_request_seconds_count{path="/open"} 1',
      "rowmajor_in_flight_requests 0",
    ]
  ) assert(text.includes(`${line}\n`), line);
});

test("service: fetch answers whatever it gets", async () => {
  using service = make();
  const request = () => new Request("http://localhost/open");
  const thrower = {
    requestIP() {
      throw new Error("no address");
    },
  };
  // Frameworks pass an environment or a context.
  for (const second of [undefined, null, {}, { env: 1 }, "context", { remoteAddr: {} }, thrower]) {
    assertEquals((await service.fetch(request(), second as Any)).status, 200);
  }
});
