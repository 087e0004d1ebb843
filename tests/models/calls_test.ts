/**
 * Calls of embedders and classifiers that overlap, are stopped, or get unusual texts; and their memory
 * over many texts.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { test } from "node:test";
import { ArgumentError, DisposedError, memory } from "../../mod.ts";
import { Classifier, Embedder } from "../../src/models/mod.ts";
import { distance, type Vector } from "../llm/models.ts";
import type { Any } from "../support.ts";
import { amount } from "../support/amount.ts";
import { encoders, type GoldenEncoder, safetensorsOf } from "./golden.ts";
import { tinyTokenizer } from "./tokenizer.ts";

function files(golden: GoldenEncoder): Record<string, Uint8Array | string> {
  const { tokenizer, config } = tinyTokenizer(golden.config["vocab_size"]);
  return {
    "config.json": JSON.stringify(golden.config),
    "tokenizer.json": JSON.stringify(tokenizer),
    "tokenizer_config.json": JSON.stringify(config),
    "model.safetensors": safetensorsOf(golden),
  };
}

const openEmbedder = (): Promise<Embedder> => Embedder.open(files(encoders["bert"]!));
const openClassifier = (): Promise<Classifier> =>
  Classifier.open(files(encoders["roberta with a head"]!));

/** Texts of 1 to 40 words. */
const texts = (count: number, from = 0): string[] =>
  Array.from(
    { length: count },
    (_, i) =>
      Array.from({ length: 1 + (7 * i) % 40 }, (_, j) => `w${(from + i + 3 * j) % 80}`).join(" "),
  );
const used = (): number => memory().bytes - memory().pooledBytes;
const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

/** Waits until no more bytes than `before` are in use: programs that were aborted end later. */
async function assertFreed(before: number): Promise<void> {
  for (let i = 0; i < 1000 && used() > before; i++) await turn();
  assert(used() <= before, `${used() - before} bytes are left`);
}

function assertNear(made: readonly Vector[], wanted: readonly Vector[]): void {
  assertEquals(made.length, wanted.length);
  made.forEach((row, i) => assert(distance(row, wanted[i]!) < 1e-5, `row ${i}`));
}

test("a model that is disposed of amid calls", async () => {
  {
    using first = await openEmbedder();
    await first.embed(texts(3));
  }
  const before = used();
  for (const turns of [0, 1, 3, 6]) {
    const embedder = await openEmbedder();
    const calls = [embedder.embed(texts(60)), embedder.embed("w1"), embedder.embed(texts(9, 5))];
    const outcomes = Promise.allSettled(calls);
    for (let i = 0; i < turns; i++) await turn();
    embedder.dispose();
    for (const one of await outcomes) {
      if (one.status === "rejected") assert(one.reason instanceof DisposedError, `${one.reason}`);
    }
    await assertRejects(() => embedder.embed("w1"), DisposedError);
  }
  await assertFreed(before);
});

test("a call that is aborted ends alone", async () => {
  using embedder = await openEmbedder();
  const wanted = await embedder.embed(texts(30));
  // Programs of its lengths stay.
  await embedder.embed(texts(200));
  const before = used();
  let stopped = 0;
  for (const turns of [0, 1, 2, 4, 8]) {
    const controller = new AbortController();
    const reason = new Error("enough");
    const calls = Promise.allSettled([
      embedder.embed(texts(200, turns), { signal: controller.signal }),
      embedder.embed(texts(30)),
    ]);
    for (let i = 0; i < turns; i++) await turn();
    controller.abort(reason);
    const [aborted, other] = await calls;
    if (aborted.status === "rejected") {
      assertEquals(aborted.reason, reason);
      stopped++;
    }
    assert(other.status === "fulfilled");
    assertNear(other.value, wanted);
  }
  assert(stopped > 0);
  assertNear(await embedder.embed(texts(30)), wanted);
  await assertFreed(before);
  using classifier = await openClassifier();
  const signal = AbortSignal.abort(new Error("before"));
  await assertRejects(() => classifier.classify("w1", { signal }), Error, "before");
  await assertRejects(() => embedder.search("w1", texts(3), { signal }), Error, "before");
  await assertRejects(() => embedder.matrix(texts(3), { signal }), Error, "before");
  await assertRejects(() => embedder.similarity("w1", "w2", { signal }), Error, "before");
});

test("calls at once give what calls one by one give", async () => {
  using embedder = await openEmbedder();
  using classifier = await openClassifier();
  const lists = Array.from({ length: 8 }, (_, i) => texts(5 + i, 11 * i));
  const wanted: Vector[][] = [];
  for (const list of lists) wanted.push(await embedder.embed(list));
  const labels = await classifier.classify(lists[0]!);
  const [made, again] = await Promise.all([
    Promise.all(lists.map((list) => embedder.embed(list))),
    Promise.all([1, 2, 3].map(() => classifier.classify(lists[0]!))),
  ]);
  made.forEach((rows, i) => assertNear(rows, wanted[i]!));
  for (const one of again) assertEquals(one, labels);
});

test("arguments that change after the call", async () => {
  using embedder = await openEmbedder();
  using classifier = await openClassifier();
  const list = texts(20), pairs: [string, string][] = [["w1", "w2"], ["w3", "w4 w5"]];
  const query = "w9";
  const [wanted, labels, found] = [
    await embedder.embed(list),
    await classifier.classify(pairs),
    await embedder.search(query, list),
  ];
  const options = { dimensions: 32, normalize: true };
  const calls = [
    embedder.embed(list, options),
    classifier.classify(pairs),
    embedder.search(query, list),
  ] as const;
  list.fill("w50");
  list.length = 3;
  for (const pair of pairs) pair[0] = "w70";
  pairs.length = 1;
  Object.assign(options, { dimensions: 1, normalize: false });
  assertNear(await calls[0], wanted);
  assertEquals(await calls[1], labels);
  assertEquals((await calls[2]).map(({ index }) => index), found.map(({ index }) => index));
});

test("a new length of texts does not block the event loop as long as all layers take", async () => {
  const { config, tensors, ...golden } = encoders["bert"]!;
  const layers = 12;
  const first = Object.entries(tensors).filter(([name]) => name.includes("layer.0."));
  const more = Array.from(
    { length: layers },
    (_, i) =>
      first.map(([name, shape]) => [name.replace("layer.0.", `layer.${i}.`), shape] as const),
  );
  using embedder = await Embedder.open(files({
    ...golden,
    config: { ...config, num_hidden_layers: layers },
    tensors: { ...tensors, ...Object.fromEntries(more.flat()) },
  }));
  const parts: number[] = [];
  // Each call makes new programs. Other programs on the machine may delay one of them.
  for (let words = 3; words < 12 && !(Math.min(...parts) < 0.4); words += 2) {
    const start = performance.now();
    let last = start, longest = 0, ended = false;
    const call = embedder.embed("w1 ".repeat(words)).finally(() => ended = true);
    while (!ended) {
      await turn();
      const now = performance.now();
      longest = Math.max(longest, now - last);
      last = now;
    }
    await call;
    parts.push(longest / (last - start));
  }
  assert(Math.min(...parts) < 0.4, `${parts.join(", ")} of the time`);
});

test("no texts, empty texts, long ones and halves of characters", async () => {
  using embedder = await openEmbedder();
  using classifier = await openClassifier();
  assertEquals(await embedder.embed([]), []);
  assertEquals(await classifier.classify([]), []);
  using none = await embedder.matrix([]);
  assertEquals(none.shape, [0, embedder.dimensions]);
  assertEquals(await embedder.search("w1", none), []);
  const long = "w1 ".repeat(34_000), word = "w".repeat(100_000);
  const odd = ["", " ", "\ud800", "\udc00\ud800", "a\ud800b", "\u0000", "\ufeff", "🙂", long, word];
  const made = await embedder.embed(odd);
  for (const [i, row] of made.entries()) {
    assertEquals(row.length, embedder.dimensions);
    assert(row.every(Number.isFinite), `text ${i}`);
    assertNear([await embedder.embed(odd[i]!)], [row]);
  }
  // Cut to the length of the model.
  assertNear([made[8]!], [await embedder.embed("w1 ".repeat(embedder.maxTokens))]);
  const labels = await classifier.classify(odd);
  assert(labels.every((list) => list.every(({ score }) => Number.isFinite(score))));
  for (const wrong of [null, undefined, 5, {}, [null], [["a"]], [5], new Map()] as Any[]) {
    await assertRejects(() => embedder.embed(wrong), ArgumentError);
  }
  for (
    const wrong of [null, undefined, 5, {}, [null], [5], [["a", "b", "c"]], [["a", 5]]] as Any[]
  ) {
    await assertRejects(() => classifier.classify(wrong), ArgumentError);
  }
});

test("memory stays flat over many texts", async () => {
  using embedder = await openEmbedder();
  const count = amount(10_000, 1000), step = 500;
  await embedder.embed(texts(step));
  const before = memory().bytes;
  for (let i = 0; i < count; i += step) {
    const rows = await embedder.embed(texts(step, i));
    assertEquals(rows.length, step);
    assert(memory().bytes <= before, `${memory().bytes - before} bytes more after ${i} texts`);
  }
});
