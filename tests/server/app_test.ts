/**
 * The example's server, called in this process: its answers, its limits, its metrics.
 *
 * @module
 */
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { encode } from "fast-png";
import { test } from "node:test";
import { type Answer, makeClassifier } from "../../examples/digits/classifier.ts";
import { loadDigits } from "../../examples/digits/digits.ts";
import { loadLargeModel } from "../../examples/digits/large.ts";
import { type App, LIMITS, type Limits, makeApp } from "../../examples/server/app.ts";
import { memory } from "../../mod.ts";
import { parseMetrics } from "./child.ts";
import { damagedPngs } from "./png.ts";

const classify = makeClassifier(await loadLargeModel());
const { heldOut } = await loadDigits();
const images = heldOut.images.mul(16).toArray();
const expected = classify(images.map((image) => Float32Array.from(image)));

type Body = string | Uint8Array<ArrayBuffer> | ReadableStream;
const JSON_TYPE = "application/json";

/** Asks an app at /classify. */
function ask(app: App, body: Body, type: string | null = JSON_TYPE): Promise<Response> {
  const headers = type === null ? undefined : { "content-type": type };
  const init = { method: "POST", headers, body, duplex: "half" };
  return app.handle(new Request("http://localhost/classify", init as RequestInit));
}

const bodyOf = (...of: number[]) => JSON.stringify({ images: of.map((i) => images[i]) });

/** The samples of /metrics. */
async function metricsOf(app: App): Promise<Record<string, number>> {
  const response = await app.handle(new Request("http://localhost/metrics"));
  assertEquals(response.status, 200);
  assert(response.headers.get("content-type")!.startsWith("text/plain; version=0.0.4"));
  return parseMetrics(await response.text());
}

/** An app whose model answers 3 for every image. */
function fakeApp(limits: Partial<Limits> = {}): { app: App; sizes: number[] } {
  const sizes: number[] = [];
  const three: Answer = { digit: 3, probabilities: [0, 0, 0, 1, 0, 0, 0, 0, 0, 0] };
  const app = makeApp((items) => {
    sizes.push(items.length);
    return items.map(() => three);
  }, { ...LIMITS, ...limits });
  return { app, sizes };
}

test("server: answers are the model's, for one image, for many, and for many requests", async () => {
  const app = makeApp(classify);
  const check = async (response: Response, of: number[]) => {
    assertEquals([response.status, response.headers.get("content-type")], [200, JSON_TYPE]);
    const { results } = await response.json() as { results: Answer[] };
    assertEquals(results.map(({ digit }) => digit), of.map((i) => expected[i]!.digit));
    results.forEach(({ probabilities }, i) => {
      probabilities.forEach((share, j) => {
        assertAlmostEquals(share, expected[of[i]!]!.probabilities[j]!, 1e-4);
      });
    });
  };
  await check(await ask(app, bodyOf(5)), [5]);
  await check(await ask(app, bodyOf(1, 2, 3), "application/json; charset=utf-8"), [1, 2, 3]);
  const many = Array.from({ length: 100 }, (_, i) => i);
  const answers = await Promise.all(many.map((i) => ask(app, bodyOf(i, i + 1))));
  await Promise.all(answers.map((answer, i) => check(answer, [i, i + 1])));
});

test("server: a PNG is answered with what it was taken for", async () => {
  const data = Uint8Array.from(images[7]!, (ink) => Math.round(255 - ink * 255 / 16));
  const png = encode({ width: 8, height: 8, channels: 1, depth: 8, data });
  const response = await ask(makeApp(classify), new Uint8Array(png), "image/png");
  assertEquals(response.status, 200);
  const { results: [result] } = await response.json();
  assertEquals([result.digit, result.pixels], [expected[7]!.digit, images[7]!]);
});

test("server: requests at the same time are one call of the model", async () => {
  const { app, sizes } = fakeApp({ maxBatch: 40, maxWaitMs: 1000 });
  const answers = await Promise.all(Array.from({ length: 40 }, () => ask(app, bodyOf(0))));
  assert(answers.every(({ status }) => status === 200));
  assertEquals(sizes, [40]);
});

test("server: what is no request for digits is refused, whatever it is", async () => {
  const { app, sizes } = fakeApp({ bodyBytes: 20_000, images: 4 });
  const row = (value: string) => `{"images":[[${Array(63).fill("1").join()},${value}]]}`;
  const table: [name: string, status: number, body: Body, type?: string | null][] = [
    ["no body", 400, ""],
    ["half a body", 400, '{"images":[['],
    ["no JSON", 400, "hello"],
    ["no UTF-8", 400, Uint8Array.of(0x22, 0xff, 0x22)],
    ["null", 400, "null"],
    ["a number", 400, "5"],
    ["no images", 400, "{}"],
    ["images that are none", 400, '{"images":"all"}'],
    ["an empty list", 400, '{"images":[]}'],
    ["an empty image", 400, '{"images":[[]]}'],
    ["too short an image", 400, '{"images":[[1,2,3]]}'],
    ["too long an image", 400, JSON.stringify({ images: [Array(65).fill(0)] })],
    ["a wrong shape", 400, JSON.stringify({ images: [Array(8).fill(Array(7).fill(0))] })],
    ["nesting", 400, JSON.stringify({ images: [Array(64).fill([1])] })],
    ["a nested bomb", 400, "[".repeat(19_999)],
    ["a nested bomb that ends", 400, `{"images":${"[".repeat(9000)}${"]".repeat(9000)}}`],
    ["NaN", 400, row("NaN")],
    ["null in an image", 400, row("null")],
    ["a string in an image", 400, row('"1"')],
    ["true in an image", 400, row("true")],
    ["infinity", 400, row("1e999")],
    ["a huge number", 400, row("9".repeat(5000))],
    ["a negative number", 400, row("-1")],
    ["more than ink", 400, row("16.5")],
    ["a prototype", 400, '{"__proto__":{"images":[[]]}}'],
    ["too many images", 413, bodyOf(0, 1, 2, 3, 4)],
    ["too large a body", 413, " ".repeat(20_001)],
    ["no type", 415, Uint8Array.of(1), null],
    ["text", 415, bodyOf(0), "text/plain"],
    ["a form", 415, "a=b", "application/x-www-form-urlencoded"],
    ["a GIF", 415, "GIF89a", "image/gif"],
    ["JSON that says it is a PNG", 400, bodyOf(0), "image/png"],
    ...Object.entries(damagedPngs()).map(([name, png]) =>
      [`PNG: ${name}`, png.length > 20_000 ? 413 : 400, new Uint8Array(png), "image/png"] as [
        string,
        number,
        Uint8Array<ArrayBuffer>,
        string,
      ]
    ),
  ];
  for (const [name, status, body, type] of table) {
    const response = await ask(app, body, type);
    assertEquals(response.status, status, name);
    const { error } = await response.json();
    assert(typeof error === "string" && error.length > 5, name);
  }
  assertEquals(sizes, [], "nothing of it reached the model");
  assertEquals(app.inFlight, 0);
});

test("server: a body without a length is bounded, and one that stalls is given up", async () => {
  const { app } = fakeApp({ bodyBytes: 10_000, bodyMs: 300 });
  const stream = (chunks: string[], end: boolean) =>
    new ReadableStream({
      pull(controller) {
        const next = chunks.shift();
        if (next !== undefined) controller.enqueue(new TextEncoder().encode(next));
        else if (end) controller.close();
        else return new Promise(() => {});
      },
    });
  const text = bodyOf(0);
  assertEquals((await ask(app, stream([text.slice(0, 9), text.slice(9)], true))).status, 200);
  assertEquals((await ask(app, stream(Array(100).fill(" ".repeat(999)), true))).status, 413);
  assertEquals((await ask(app, stream([text.slice(0, 9)], false))).status, 408);
  assertEquals(app.inFlight, 0);
});

test("server: paths and methods that are not there are 404 and 405", async () => {
  const { app } = fakeApp();
  const get = (path: string, method = "GET") =>
    app.handle(new Request(`http://localhost${path}`, { method }));
  assertEquals((await get("/nowhere")).status, 404);
  assertEquals((await get("/classify/../../etc/passwd")).status, 404);
  assertEquals((await get("/__proto__")).status, 404);
  const wrong = await get("/classify");
  assertEquals([wrong.status, wrong.headers.get("allow")], [405, "POST"]);
  assertEquals((await get("/metrics", "DELETE")).status, 405);
  const healthy = await get("/healthz");
  assertEquals([healthy.status, await healthy.text()], [200, "ok\n"]);
});

test("server: beyond its limits it answers 503 at once, and what it accepted", async () => {
  const queue = fakeApp({ queue: 64, maxBatch: 64, maxWaitMs: 20 });
  const answers = await Promise.all(Array.from({ length: 200 }, () => ask(queue.app, bodyOf(0))));
  const refused = answers.filter(({ status }) => status === 503);
  const accepted = answers.filter(({ status }) => status === 200);
  assertEquals([accepted.length + refused.length, refused.length > 0], [200, true]);
  assert(accepted.length >= 64);
  assertEquals(refused[0]!.headers.get("retry-after"), "1");
  assertEquals((await refused[0]!.json()).error, "the queue is full");
  assertEquals(queue.sizes.reduce((a, b) => a + b), accepted.length);

  const flight = fakeApp({ inFlight: 10 });
  const statuses = (await Promise.all(
    Array.from({ length: 30 }, () => ask(flight.app, bodyOf(0))),
  )).map(({ status }) => status);
  assertEquals(statuses.filter((status) => status === 200).length, 10);
  assertEquals(statuses.filter((status) => status === 503).length, 20);
  assertEquals((await ask(flight.app, bodyOf(0))).status, 200, "there is room again");
});

test("server: tensors' memory stays where it is, whatever comes", async () => {
  const app = makeApp(classify, { ...LIMITS, queue: 100, inFlight: 100 });
  const png = Object.values(damagedPngs()).map((bytes) => new Uint8Array(bytes));
  const round = async () => {
    const asked = Array.from({ length: 150 }, (_, i) => ask(app, bodyOf(i)));
    for (const bytes of png) asked.push(ask(app, bytes, "image/png"));
    await Promise.all((await Promise.all(asked)).map((response) => response.text()));
  };
  for (let i = 0; i < 5; i++) await round();
  const { bytes } = memory();
  for (let i = 0; i < 20; i++) await round();
  // Batch sizes vary from run to run, by at most a few buffers of the pool.
  assert(memory().bytes - bytes < 2e6, `${memory().bytes - bytes} bytes more`);
});

test("server: a model that fails is a 500 that tells nothing, and the next request works", async (t) => {
  t.mock.method(console, "error", () => {});
  let fails = true;
  const app = makeApp((items) => {
    if (fails) throw new Error("secret");
    return classify(items);
  });
  const response = await ask(app, bodyOf(0));
  assertEquals([response.status, await response.json()], [500, { error: "the server failed" }]);
  fails = false;
  assertEquals((await ask(app, bodyOf(0))).status, 200);
});

test("server: metrics say what happened", async () => {
  const { app } = fakeApp({ maxBatch: 10, maxWaitMs: 1000 });
  await Promise.all(Array.from({ length: 5 }, () => ask(app, bodyOf(0, 1))));
  await ask(app, "no");
  await app.handle(new Request("http://localhost/what/ever"));
  app.metrics.late(0.004);
  const samples = await metricsOf(app);
  const has = (name: string, value: number) => assertEquals(samples[name], value, name);
  has('digits_requests_total{path="/classify",code="200"}', 5);
  has('digits_requests_total{path="/classify",code="400"}', 1);
  has('digits_requests_total{path="other",code="404"}', 1);
  has("digits_request_seconds_count", 6);
  has('digits_request_seconds_bucket{le="+Inf"}', 6);
  has("digits_batch_size_sum", 10);
  has("digits_batch_size_count", 1);
  has('digits_batch_size_bucket{le="8"}', 0);
  has('digits_batch_size_bucket{le="16"}', 1);
  has("digits_inference_seconds_count", 1);
  has("digits_queue_length", 0);
  has("digits_in_flight_requests", 0);
  has("digits_event_loop_lateness_seconds_count", 1);
  has("digits_event_loop_lateness_max_seconds", 0.004);
  assert(samples.digits_resident_bytes! > 1e7 && samples.process_cpu_seconds_total! > 0);
  assert(Object.keys(samples).some((name) => name.startsWith("digits_backend_info{backend=")));
  assertEquals((await metricsOf(app)).digits_event_loop_lateness_max_seconds, 0);
});

test("server: once it drains, /healthz and /classify say so, and what was accepted is answered", async () => {
  const { app } = fakeApp({ maxWaitMs: 30 });
  const accepted = ask(app, bodyOf(0));
  assertEquals(app.inFlight, 1);
  app.drain();
  const health = await app.handle(new Request("http://localhost/healthz"));
  assertEquals([health.status, await health.text()], [503, "draining\n"]);
  const late = await ask(app, bodyOf(0));
  assertEquals([late.status, late.headers.get("connection")], [503, "close"]);
  const answer = await accepted;
  assertEquals([answer.status, answer.headers.get("connection")], [200, "close"]);
});
