/**
 * Dynamic batching with fake functions, so that calls can be counted.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { ArgumentError, DisposedError, QueueFullError } from "../../mod.ts";
import { batches, type BatchesOptions } from "../../src/serve/batches.ts";

/** Batches that double numbers, and the batches that ran. */
function doubler(options: BatchesOptions<number> = {}) {
  const ran: number[][] = [];
  const double = batches((items: number[]) => {
    ran.push(items);
    if (items.includes(-1)) throw new Error("no");
    return items.map((item) => 2 * item);
  }, { most: 4, waitMs: 5, queue: 16, ...options });
  return { double, ran, sizes: () => ran.map(({ length }) => length) };
}

/** Batches that double numbers when the test says so. */
function manual(options: BatchesOptions<number> = {}) {
  const open: { items: number[]; end: (error?: Error) => void }[] = [];
  const double = batches((items: number[]) =>
    new Promise<number[]>((resolve, reject) => {
      const end = (error?: Error) => error ? reject(error) : resolve(items.map((i) => 2 * i));
      open.push({ items, end });
    }), { most: 2, waitMs: 0, queue: 8, ...options });
  const opened = async (count: number) => {
    while (open.length < count) await delay(1);
  };
  return { double, open, opened };
}

test("batches: calls that come together are one call, each gets its own result", async () => {
  const { double, sizes } = doubler({ most: 64 });
  const results = await Promise.all(Array.from({ length: 16 }, (_, i) => double(i)));
  assertEquals(results, Array.from({ length: 16 }, (_, i) => 2 * i));
  assertEquals(sizes(), [16]);
  assertEquals(double.stats, { waiting: 0, running: 0, batches: 1, items: 16 });
});

test("batches: a full batch does not wait, and what is left over waits its time", async () => {
  const { double, sizes } = doubler({ waitMs: 60_000 });
  const first = double.all([1, 2, 3]);
  await delay(20);
  assertEquals([sizes(), double.stats.waiting], [[], 3]);
  const second = double.all([4, 5]);
  assertEquals(await first, [2, 4, 6]);
  assertEquals([sizes(), double.stats.waiting], [[4], 1]);
  const third = double.all([6, 7, 8]);
  assertEquals([await second, await third], [[8, 10], [12, 14, 16]]);
  assertEquals(sizes(), [4, 4]);
});

test("batches: an item alone waits for its time only", async () => {
  const { double, ran } = doubler();
  assertEquals(await double(1), 2);
  const later = [double(2), delay(1).then(() => double(3))];
  assertEquals(await Promise.all(later), [4, 6]);
  assertEquals(ran.flat(), [1, 2, 3]);
});

test("batches: one call may fill several batches, in order", async () => {
  const { double, sizes } = doubler();
  const items = Array.from({ length: 10 }, (_, i) => i);
  assertEquals(await double.all(items), items.map((i) => 2 * i));
  assertEquals([sizes(), await double.all([])], [[4, 4, 2], []]);
});

test("batches: the queue is bounded, and has room again later", async () => {
  const { double } = doubler();
  const accepted = [double.all(Array(15).fill(1)), double.all([2])];
  assertEquals(double.stats.waiting, 16);
  const error = await assertRejects(() => double(3), QueueFullError);
  assertEquals(error.limit, 16);
  assertEquals((await Promise.all(accepted)).flat().length, 16);
  assertEquals([double.stats.waiting, await double(3)], [0, 6]);
  await assertRejects(() => double.all(Array(17).fill(1)), ArgumentError, "at most 16 can wait");
});

test("batches: a call that fails fails its items, and no others", async () => {
  const { double, sizes } = doubler({ most: 2 });
  const bad = assertRejects(() => double.all([1, -1]), Error, "no");
  const good = double.all([2, 3]);
  await bad;
  assertEquals([await good, sizes()], [[4, 6], [2, 2]]);
  // What is left of a failed call does not run.
  await assertRejects(() => double.all([-1, 0, 7, 8]), Error, "no");
  assertEquals([await double(9), sizes()], [18, [2, 2, 2, 1]]);
});

test("batches: a function that returns another number of results is an error", async () => {
  for (const [made, said] of [[[1], "1 results"], [undefined, "undefined"], ["ab", '"ab"']]) {
    for (const results of [made, Promise.resolve(made)]) {
      const call = batches(() => results as number[]);
      const error = await assertRejects(() => call.all([1, 2]), ArgumentError);
      assertEquals(error.message, `Cannot batch 2 items: the function returned ${said}`);
    }
  }
});

test("batches: the event loop gets its turn between batches", async () => {
  let calls = 0;
  const call = batches((items: number[]) => {
    calls++;
    const end = performance.now() + 3;
    while (performance.now() < end);
    return items;
  }, { most: 1, waitMs: 0 });
  const done = call.all(Array(40).fill(0));
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

test("batches: one batch at a time runs off the event loop, and others wait for it", async () => {
  const { double, open, opened } = manual();
  const first = double.all([1, 2, 3]);
  const last = double(4);
  await opened(1);
  await delay(5);
  assertEquals([open.map(({ items }) => items), double.stats.running], [[[1, 2]], 2]);
  assertEquals(double.stats.waiting, 2);
  await assertRejects(() => double.all([5, 6, 7, 8, 9, 10, 11]), QueueFullError);
  open[0]!.end();
  await opened(2);
  assertEquals(open[1]!.items, [3, 4]);
  open[1]!.end(new Error("no"));
  await assertRejects(() => first, Error, "no");
  await assertRejects(() => last, Error, "no");
  const more = double(14);
  await opened(3);
  open[2]!.end();
  assertEquals([await more, double.stats.batches, double.stats.items], [28, 3, 5]);
});

test("batches: a cancelled call leaves the queue, unless it runs", async () => {
  const { double, open, opened } = manual();
  const [running, waiting] = [new AbortController(), new AbortController()];
  const first = double.all([1, 2], { signal: running.signal });
  await opened(1);
  const second = double.all([3, 4], { signal: waiting.signal });
  const third = double(5);
  running.abort();
  waiting.abort(new Error("gone"));
  await assertRejects(() => second, Error, "gone");
  assertEquals(double.stats.waiting, 1);
  open[0]!.end();
  assertEquals(await first, [2, 4]);
  await opened(2);
  assertEquals(open[1]!.items, [5]);
  open[1]!.end();
  assertEquals(await third, 10);
  await assertRejects(() => double(6, { signal: waiting.signal }), Error, "gone");
  // Half of a call runs already: its other half leaves.
  const half = new AbortController();
  const split = double.all([6, 7, 8], { signal: half.signal });
  await opened(3);
  half.abort(new Error("half"));
  await assertRejects(() => split, Error, "half");
  assertEquals(double.stats.waiting, 0);
  open[2]!.end();
  await double.drain();
  assertEquals(open.length, 3);
});

test("batches: items of similar lengths are together, within a length with padding", async () => {
  const lengths = [10, 100, 11, 90, 1000, 12, 101, 9, 500, 10];
  const { double, ran } = doubler({ most: 4, lengthOf: (n) => n, mostLength: 300 });
  assertEquals(await Promise.all(lengths.map((n) => double(n))), lengths.map((n) => 2 * n));
  assertEquals(ran, [[10, 10, 11, 9], [100, 101], [90], [1000], [12], [500]]);
});

test("batches: the oldest item runs next, whatever others there are", async () => {
  const { double, open, opened } = manual({ lengthOf: (n) => n, queue: 100 });
  const all = [double(1)];
  await opened(1);
  all.push(double(50), ...Array.from({ length: 6 }, () => double(1)));
  open[0]!.end();
  await opened(2);
  assertEquals(open[1]!.items, [50]);
  for (let i = 1; i < 5; i++) {
    await opened(i + 1);
    open[i]!.end();
  }
  await Promise.all(all);
});

test("batches: drain refuses new items, and waits for the accepted ones", async () => {
  const { double, ran } = doubler({ waitMs: 60_000 });
  const accepted = double.all([1, 2, 3]);
  const drained = double.drain();
  await assertRejects(() => double(4), DisposedError, "the queue is drained");
  await drained;
  assertEquals([await accepted, ran], [[2, 4, 6], [[1, 2, 3]]]);
  await double.drain();
});

test("batches: options and items that cannot be are errors", async () => {
  const table: [options: object, said: string][] = [
    [{ most: 0 }, "most 0"],
    [{ queue: 1.5 }, "queue 1.5"],
    [{ waitMs: -1 }, "waitMs -1"],
    [{ waitMs: "2" }, 'waitMs "2"'],
    [{ mostLength: NaN }, "mostLength NaN"],
    [{ lengthOf: 5 }, "lengthOf 5"],
  ];
  for (const [options, said] of table) {
    const error = assertThrows(() => batches((items: number[]) => items, options), ArgumentError);
    assertStringIncludes(error.message, said);
  }
  assertThrows(() => batches((items: number[]) => items, { size: 3 } as object), Error, "size");
  assertThrows(() => batches(5 as unknown as () => number[]), ArgumentError, "a function");
  const call = batches((items: number[]) => items, { lengthOf: () => NaN });
  await assertRejects(() => call(1), ArgumentError, "an item of length NaN");
  await assertRejects(() => call.all(5 as unknown as number[]), ArgumentError, "Cannot batch 5");
  await assertRejects(() => call(1, { signal: 5 as unknown as AbortSignal }), ArgumentError);
  assertEquals(call.stats.waiting, 0);
});
