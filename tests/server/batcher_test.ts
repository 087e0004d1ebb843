/**
 * Dynamic batching with fake models, so that calls can be counted.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Batcher, fitBatch } from "../../examples/server/batcher.ts";

/** A batcher that doubles numbers, and the sizes of the batches it has run. */
function doubler(options: { maxBatch?: number; maxWaitMs?: number; capacity?: number } = {}) {
  const sizes: number[] = [];
  const batcher = new Batcher<number, number>((items) => {
    if (items.includes(-1)) throw new Error("no");
    return items.map((item) => 2 * item);
  }, {
    maxBatch: 4,
    maxWaitMs: 5,
    capacity: 16,
    ...options,
    onBatch: (size, seconds) => {
      assert(seconds >= 0);
      sizes.push(size);
    },
  });
  return { batcher, sizes };
}

test("batcher: items that come together are one call, each gets its own result", async () => {
  const { batcher, sizes } = doubler({ maxBatch: 64 });
  const results = await Promise.all(Array.from({ length: 16 }, (_, i) => batcher.add([i])));
  assertEquals(results, Array.from({ length: 16 }, (_, i) => [2 * i]));
  assertEquals([sizes, batcher.length], [[16], 0]);
});

test("batcher: a full batch does not wait, and what is left over waits its time", async () => {
  const { batcher, sizes } = doubler({ maxWaitMs: 60_000 });
  const first = batcher.add([1, 2, 3]);
  await delay(20);
  assertEquals([sizes, batcher.length], [[], 3]);
  const second = batcher.add([4, 5]);
  assertEquals(await first, [2, 4, 6]);
  assertEquals([sizes, batcher.length], [[4], 1]);
  const third = batcher.add([6, 7, 8]);
  assertEquals([await second, await third], [[8, 10], [12, 14, 16]]);
  assertEquals(sizes, [4, 4]);
});

test("batcher: an item alone waits for its time only", async () => {
  const { batcher, sizes } = doubler();
  assertEquals(await batcher.add([1]), [2]);
  const later = [batcher.add([2]), delay(1).then(() => batcher.add([3]))];
  assertEquals(await Promise.all(later), [[4], [6]]);
  assertEquals(sizes.reduce((a, b) => a + b), 3);
});

test("batcher: one request may fill several batches, in order", async () => {
  const { batcher, sizes } = doubler();
  const items = Array.from({ length: 10 }, (_, i) => i);
  assertEquals(await batcher.add(items), items.map((i) => 2 * i));
  assertEquals(sizes, [4, 4, 2]);
});

test("batcher: the queue is bounded, and has room again later", async () => {
  const { batcher } = doubler();
  const accepted = [batcher.add(Array(15).fill(1)), batcher.add([2])];
  assertEquals([batcher.length, batcher.add([3])], [16, undefined]);
  assertEquals((await Promise.all(accepted)).flat()!.length, 16);
  assertEquals([batcher.length, await batcher.add([3])], [0, [6]]);
});

test("batcher: a call that fails fails its items, and no others", async () => {
  const { batcher, sizes } = doubler({ maxBatch: 2 });
  const bad = assertRejects(() => batcher.add([1, -1])!, Error, "no");
  const good = batcher.add([2, 3]);
  await bad;
  assertEquals([await good, sizes], [[4, 6], [2, 2]]);
});

test("batcher: the event loop gets its turn between batches", async () => {
  let calls = 0;
  const batcher = new Batcher<number, number>((items) => {
    calls++;
    const end = performance.now() + 3;
    while (performance.now() < end);
    return items;
  }, { maxBatch: 1, maxWaitMs: 0, capacity: 100, sliceMs: 4 });
  const done = batcher.add(Array(40).fill(0));
  const seen: number[] = [];
  while (calls < 40) {
    await new Promise<void>((resolve) => setTimeout(resolve, 0));
    seen.push(calls);
  }
  await done;
  // Two calls fill a slice; timers and sockets run between slices.
  const turns = seen.map((count, i) => count - (seen[i - 1] ?? 0));
  assert(Math.max(...turns) <= 8 && seen.length >= 5, `${turns}`);
});

test("batcher: two batches off the event loop at once, and others wait for one of them", async () => {
  const open: { items: number[]; end: (error?: Error) => void }[] = [];
  const sizes: number[] = [];
  const batcher = new Batcher<number, number>((items) =>
    new Promise((resolve, reject) => {
      const end = (error?: Error) => error ? reject(error) : resolve(items.map((i) => 2 * i));
      open.push({ items, end });
    }), { maxBatch: 2, maxWaitMs: 0, capacity: 8, atOnce: 2, onBatch: (size) => sizes.push(size) });
  const first = batcher.add([1, 2, 3, 4, 5])!;
  const last = assertRejects(() => batcher.add([6])!, Error, "no");
  const opened = async (count: number) => {
    while (open.length < count) await delay(1);
  };
  await opened(2);
  await delay(5);
  assertEquals([open.map(({ items }) => items), batcher.length], [[[1, 2], [3, 4]], 2]);
  assertEquals(batcher.add([7, 8, 9, 10, 11, 12, 13]), undefined);
  open[1]!.end();
  await opened(3);
  assertEquals(open.map(({ items }) => items), [[1, 2], [3, 4], [5, 6]]);
  open[2]!.end(new Error("no"));
  await assertRejects(() => first, Error, "no");
  await last;
  open[0]!.end();
  const more = batcher.add([14]);
  await opened(4);
  open[3]!.end();
  assertEquals([await more, sizes], [[28], [2, 2, 2, 1]]);
});

test("batcher: batches are as large as the time allows", () => {
  const tried: number[] = [];
  const fit = (perItem: number) => {
    tried.length = 0;
    return fitBatch(64, 5, (size) => {
      tried.push(size);
      return size * perItem;
    });
  };
  assertEquals([fit(0.05), tried], [64, [64]]);
  assertEquals([fit(0.5), tried], [8, [64, 32, 16, 8]]);
  assertEquals([fit(100), tried], [1, [64, 32, 16, 8, 4, 2]]);
});
