/**
 * What becomes of memory: slabs, reuse, scopes, moves, and who counts and watches it.
 *
 * @module
 */
import { assert, assertEquals, assertNotStrictEquals, assertStrictEquals } from "@std/assert";
import { describe, it } from "node:test";
import { fromBuffer, memory, scope, tensor, zeros } from "../mod.ts";
import { allocate, emptyPool, recycle } from "../src/storage.ts";
import { iota } from "./support.ts";

describe("memory", () => {
  it("bytes that are handed out are the tensor's alone, and its words follow", () => {
    const storage = allocate("int64", 2, true);
    const before = storage.words;
    storage.escape();
    assertEquals(storage.array.buffer.byteLength, storage.array.byteLength);
    if (before.buffer !== storage.array.buffer) assertNotStrictEquals(storage.words, before);
    assertStrictEquals(storage.words.buffer, storage.array.buffer);
  });

  it("zeroing reused memory leaves its neighbours alone", () => {
    const [first, second] = [allocate("float32", 5, true), allocate("float32", 5, true)];
    second.array.fill(7 as never);
    recycle(first);
    const again = allocate("float32", 5, true);
    assertStrictEquals(again.array, first.array);
    assertEquals([...second.array as Float32Array], [7, 7, 7, 7, 7]);
  });

  it("memory is reused for its own dtype, once, and not after the pool is emptied", () => {
    emptyPool();
    const wide = allocate("float64", 1000, false);
    recycle(wide);
    recycle(wide);
    assertEquals(memory().pooledBytes, 8000);
    assert(allocate("int32", 1000, false).array instanceof Int32Array);
    emptyPool();
    recycle(allocate("float64", 999, false));
    assertNotStrictEquals(allocate("float64", 1000, false).array, wide.array);
    emptyPool();
  });

  it("no more than 256 MiB is kept, and the peak is at least what is there", () => {
    emptyPool();
    const [first, second] = [allocate("uint8", 150e6, false), allocate("uint8", 150e6, false)];
    assert(memory().peakBytes >= memory().bytes);
    recycle(first);
    recycle(second);
    assertEquals(memory().pooledBytes, 150e6);
    emptyPool();
  });

  it("what was used once makes room for what is used again, and not for what is not", () => {
    emptyPool();
    const used = allocate("uint8", 8e6, false);
    const { array } = used;
    recycle(used);
    for (let i = 0; i < 40; i++) recycle(allocate("uint8", 9e6 + i, false));
    const full = memory().pooledBytes;
    assert(full > 240e6 && full <= 2 ** 28, String(full));
    // One that comes for the first time goes back at once, whoever collects.
    const { bytes } = memory();
    const first = allocate("uint8", 10e6, false);
    assertEquals(memory().bytes, bytes + 10e6);
    recycle(first);
    assertEquals([memory().bytes, first.array.length, memory().pooledBytes], [bytes, 0, full]);
    const second = allocate("uint8", 10e6, false);
    recycle(second);
    assert(memory().pooledBytes <= 2 ** 28);
    assertStrictEquals(allocate("uint8", 10e6, false).array, second.array);
    // Of those that were there, the oldest went first.
    assertEquals(array.length, 0);
    emptyPool();
  });

  it("what is larger than the pool drives out nothing", () => {
    emptyPool();
    const kept = allocate("uint8", 100e6, false);
    recycle(kept);
    for (let n = 0; n < 2; n++) {
      const large = allocate("uint8", 2 ** 28 + 1, false);
      recycle(large);
      assertEquals(large.array.length, 0);
    }
    assertEquals(memory().pooledBytes, 100e6);
    assertStrictEquals(allocate("uint8", 100e6, false).array, kept.array);
  });

  it("what is taken again and again stays, whatever else comes twice", () => {
    emptyPool();
    const often = allocate("uint8", 8e6, false);
    const { array } = often;
    recycle(often);
    for (let i = 0; i < 80; i++) {
      const again = allocate("uint8", 8e6, false);
      assertStrictEquals(again.array, array);
      recycle(again);
      recycle(allocate("uint8", 9e6 + i % 40, false));
    }
    emptyPool();
    assertEquals([memory().pooledBytes, array.length], [0, 0]);
  });

  it("lengths that never come again take no more memory than the pool may", () => {
    emptyPool();
    const { bytes } = memory();
    for (let i = 0; i < 40_000; i++) recycle(allocate("uint8", 3000 + i, false));
    assert(memory().pooledBytes <= 2 ** 28);
    assert(memory().bytes - bytes <= 2 ** 28 + 1e6, String(memory().bytes - bytes));
    emptyPool();
    assert(memory().bytes <= bytes + 1e6);
  });

  it("a scope that ends hands over to the one around it", () => {
    let late = zeros([2]);
    scope(() => {
      scope(() => undefined);
      late = zeros([2]);
    });
    assert(late.isDisposed);
  });

  it("a read-only tensor does not give its memory away", () => {
    const array = new Float32Array([1, 2]);
    const x = fromBuffer(array);
    const readonly = x.readonly();
    x.dispose();
    (readonly.intoTypedArray() as Float32Array)[0] = 9;
    assertEquals([...array], [1, 2]);
    const shared = iota([2]).intoShared();
    shared.readonly().intoShared().set([0], 9);
    assertEquals(shared.toArray(), [0, 1]);
  });

  it("a shared tensor is not copied to be shared", () => {
    const shared = iota([3]).intoShared();
    const { buffer } = shared.storage.array;
    assertStrictEquals(shared.intoShared().storage.array.buffer, buffer);
  });
});

describe("copy on write", () => {
  it("after its copy nobody counts or watches it", () => {
    const x = iota([6]);
    const cow = x.slice("2:4").intoCow();
    cow.set([0], 9);
    assertEquals(cow.toArray(), [9, 3]);
    assertEquals(x.toArray(), [0, 1, 2, 3, 4, 5]);
    assertEquals(cow.storage.handles, 1);
    assertEquals(x.storage.cows, null);
    const second = x.intoCow();
    const { handles } = x.storage;
    second.set([0], 9);
    assertEquals(x.storage.handles, handles - 1);
    x.intoCow().dispose();
    assertEquals(x.storage.cows, null);
  });

  it("the last one left writes where it is", () => {
    const x = tensor([0, 1, 2]);
    const cow = x.intoCow();
    const { storage } = x;
    x.dispose();
    cow.set([0], 9);
    assertStrictEquals(cow.storage, storage);
    assertEquals(cow.toArray(), [9, 1, 2]);
  });

  it("a view of it that ends does not end it", () => {
    const x = iota([3]);
    const cow = x.intoCow();
    cow.view().dispose();
    x.set([0], 9);
    assertEquals(cow.toArray(), [0, 1, 2]);
  });

  it("made owned it has memory of its own", () => {
    const x = iota([3]);
    x.intoCow().intoOwned().set([0], 9);
    assertEquals(x.toArray(), [0, 1, 2]);
  });
});
