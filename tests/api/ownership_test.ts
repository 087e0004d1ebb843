/**
 * Ownership of memory, moves and copies, through the public API.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertFalse,
  assertNotStrictEquals,
  assertThrows,
} from "@std/assert";
import { once } from "node:events";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import {
  arange,
  concat,
  DisposedError,
  emptyCache,
  fromBuffer,
  full,
  memory,
  scope,
  ShapeError,
  SharedError,
  sharesBuffer,
  type Tensor,
  tensor,
  zeros,
} from "../../mod.ts";
import { assertRefused, iota, loose } from "../support.ts";

test("intoOwned: an owned tensor moves, and its source is gone", () => {
  const x = iota([2, 3]);
  const { data } = x.toOwned().intoOwned();
  assertEquals(data.length, 6);
  const own = x.toOwned();
  const memoryOf = own.data.buffer;
  const moved = own.intoOwned();
  assert(moved.data.buffer === memoryOf);
  assertEquals(moved.ownership, "owned");
  assert(own.isDisposed);
  assertRefused(() => own.add(1), DisposedError, "add");
});

test("intoOwned: a view is copied densely, with no more than its own elements", () => {
  const x = iota([4, 6]);
  const view = loose(x).slice("1:3, ::-2");
  const own = view.intoOwned();
  assertFalse(sharesBuffer(x, own));
  assertEquals([...own.strides], [3, 1]);
  assertEquals(own.offset, 0);
  assertEquals(own.toArray(), [[11, 9, 7], [17, 15, 13]]);
  assertEquals(own.intoRaw().length, 6);
  assert(view.isDisposed);
  assertEquals(x.get(0, 1), 1);
});

test("intoOwnedKeepLayout: a view keeps strides and offset, and copies the whole buffer", () => {
  const x = iota([4, 6]).toOwned();
  const own = loose(x).slice("1:3, ::-2").intoOwnedKeepLayout();
  assertFalse(sharesBuffer(x, own));
  assertEquals([...own.strides], [6, -2]);
  assertEquals(own.offset, 11);
  assertEquals(own.toArray(), [[11, 9, 7], [17, 15, 13]]);
  own.fill_(0);
  assertEquals(x.get(1, 5), 11);
  assertEquals(own.intoRaw().length, 24);
  const moved = x.intoOwnedKeepLayout();
  assertEquals(moved.ownership, "owned");
  assert(x.isDisposed);
});

test("toOwned: it always copies", () => {
  const x = tensor([1, 2]);
  const y = x.toOwned();
  assertFalse(sharesBuffer(x, y));
  y.fill_(9);
  assertEquals(x.toArray(), [1, 2]);
  assertFalse(sharesBuffer(x, x.view().toOwned()));
  assertFalse(sharesBuffer(x, x.copy()));
});

test("intoOwned: shared memory moves for its only holder, else it is a SharedError", () => {
  const x = tensor([1, 2, 3]).intoShared();
  const other = x.view();
  assertRefused(() => x.intoOwned(), SharedError, ["intoOwned", "2"], x, other);
  assertRefused(() => x.intoOwnedKeepLayout(), SharedError, "intoOwnedKeepLayout", x, other);
  other.dispose();
  const own = x.intoOwned();
  assertEquals(own.toArray(), [1, 2, 3]);
  assert(x.isDisposed);
});

test("intoOwned: parts of shared memory count as holders until they are disposed of", () => {
  const x = tensor([1, 2, 3, 4]).intoShared();
  const parts = x.split(2);
  assertRefused(() => x.intoOwned(), SharedError, "intoOwned", x);
  for (const part of [...parts, ...x.unstack()]) part.dispose();
  assertEquals(x.intoOwned().toArray(), [1, 2, 3, 4]);
});

test("intoCow: it costs nothing, and its source stays usable", () => {
  const x = tensor([1, 2, 3]);
  const cow = x.intoCow();
  assertEquals(cow.ownership, "cow");
  assert(sharesBuffer(x, cow));
  assertEquals(x.toArray(), [1, 2, 3]);
  assertEquals(cow.toArray(), [1, 2, 3]);
});

test("intoCow: the first write to it copies, and the source does not see it", () => {
  const x = tensor([1, 2, 3]);
  const cow = x.intoCow();
  cow.set([0], 10);
  assertFalse(sharesBuffer(x, cow));
  assertEquals(x.toArray(), [1, 2, 3]);
  assertEquals(cow.toArray(), [10, 2, 3]);
  assertEquals(cow.ownership, "owned");
});

test("intoTypedArray: of a part that is left alone, no more than the part", () => {
  const whole = loose(iota([3000]));
  const part = whole.slice("0:2");
  whole.dispose();
  assertEquals([...part.intoTypedArray()], [0, 1]);
});

test("intoCow: elements that were handed out are not used again", () => {
  for (const take of ["data", "intoTypedArray"]) {
    const x = loose(iota([1000]));
    const cow = x.intoCow();
    const taken = take === "data" ? cow.data : cow[take]();
    if (take === "data") cow.dispose();
    x.dispose();
    for (let n = 0; n < 3; n++) full([1000], -1);
    assertEquals([taken[1], taken[999]], [1, 999], take);
  }
});

test("intoCow: elements that code outside can change are copied at once", () => {
  const x = tensor([1, 2]);
  const { data } = x;
  const copy = x.intoCow();
  data[0] = 9;
  assertEquals([x.toArray(), copy.toArray()], [[9, 2], [1, 2]]);
});

test("intoCow: of a broadcast tensor it can be written, and its source is not", () => {
  const x = tensor([1, 2, 3]);
  const cow = x.broadcastTo([2, 3]).intoCow();
  assertFalse(sharesBuffer(x, cow));
  cow.slice(0).add_(1);
  assertEquals(cow.toArray(), [[2, 3, 4], [1, 2, 3]]);
  assertEquals(x.toArray(), [1, 2, 3]);
});

test("intoCow: a write to the source, by any way, is not seen through it", () => {
  const writes: ((x: ReturnType<typeof loose>) => void)[] = [
    (x) => x.set([0], 10),
    (x) => x.add_(1),
    (x) => x.fill_(7),
    (x) => x.slice("1:").neg_(),
    (x) => x.view().mul_(3),
    (x) => tensor([1, 1, 1]).add(2, { out: x }),
    (x) => (x.data[0] = 99),
    (x) => x.putAlongAxis_(tensor([1], { dtype: "int32" }), 5, 0),
    (x) => x.clip_(2, 2),
    (x) => x.sum(0, { keepDims: true, out: x.slice("1:2") }),
  ];
  for (const write of writes) {
    const x = tensor([1, 2, 3]);
    const [one, two] = [x.intoCow(), x.intoCow()];
    const part = loose(one).slice("1:");
    write(x);
    for (const cow of [one, two]) assertEquals(cow.toArray(), [1, 2, 3], String(write));
    assertEquals(part.toArray(), [2, 3]);
    assertFalse(sharesBuffer(x, one));
  }
});

test("intoCow: one that is moved is copied; the last one left has what it borrowed", () => {
  const x = tensor([1, 2, 3]);
  const moved = x.intoCow().intoOwned();
  assertEquals([moved.ownership, sharesBuffer(moved, x)], ["owned", false]);
  const cow = x.intoCow();
  assertEquals(cow.ownership, "cow");
  x.dispose();
  cow.set([0], 4);
  assertEquals([cow.ownership, cow.toArray()], ["owned", [4, 2, 3]]);
});

test("intoCow: disposing of either side leaves the other", () => {
  const x = tensor([1, 2, 3]);
  const cow = x.intoCow();
  x.dispose();
  assertEquals(cow.toArray(), [1, 2, 3]);
  const y = tensor([4]);
  y.intoCow().dispose();
  assertEquals(y.add_(1).toArray(), [5]);
});

test("intoShared: dense, on memory that can be shared; the source is gone", () => {
  const x = iota([2, 3]);
  const shared = loose(x).T.intoShared();
  assertEquals(shared.ownership, "shared");
  assert(shared.data.buffer instanceof SharedArrayBuffer);
  assertEquals(shared.toArray(), [[0, 3], [1, 4], [2, 5]]);
  assertEquals([...shared.strides], [2, 1]);
  const source = x.toOwned();
  source.intoShared();
  assert(source.isDisposed);
});

// The stride of an axis of size 1 says nothing.
test("intoShared: a dense tensor of shared memory moves, whatever its axes of size 1", () => {
  const shared = loose(arange(117)).reshape([117, 1]).intoShared();
  for (
    const make of [
      () => shared.T.T.T,
      () => shared.T,
      () => shared.slice("3:").T,
      () => shared.slice("3:10").expandDims(1),
    ]
  ) {
    const x = make();
    const before = x.toArray();
    const moved = x.intoShared();
    assert(sharesBuffer(moved, shared), "it moves");
    assert(moved.isContiguous && x.isDisposed);
    assertEquals(moved.toArray(), before);
    const { strides, shape } = moved;
    const dense = shape.map((_: number, i: number) =>
      shape.slice(i + 1).reduce((p: number, q: number) => p * q, 1)
    );
    assertEquals([...strides], dense);
  }
  const gaps = shared.slice("::2").intoShared();
  assert(!sharesBuffer(gaps, shared));
  assertEquals(gaps.toArray(), shared.slice("::2").toArray());
});

test("intoSharedKeepLayout: the whole buffer, strides and offset", () => {
  const x = iota([4, 6]).toOwned();
  const shared = loose(x).slice("1:3, ::-2").intoSharedKeepLayout();
  assertEquals([...shared.strides], [6, -2]);
  assertEquals(shared.offset, 11);
  assertEquals(shared.toArray(), [[11, 9, 7], [17, 15, 13]]);
  const raw = shared.intoRaw();
  assert(raw.buffer instanceof SharedArrayBuffer);
  assertEquals(raw.length, 24);
});

test("Shared between workers: several work on parts of one tensor at a time", async () => {
  const shape = [1000, 300] as const;
  const x = full(shape, 3).intoShared();
  const halves = [[0, 500], [500, 1000]].map(([from, to]) => {
    const { buffer } = x.data;
    const workerData = { buffer, shape, dtype: x.dtype, from, to };
    return new Worker(new URL("../workers/shares.ts", import.meta.url), { workerData });
  });
  const answers = await Promise.all(halves.map((worker) => once(worker, "message")));
  await Promise.all(halves.map((worker) => worker.terminate()));
  for (const [answer] of answers) {
    assertEquals(answer, { sum: 500 * 300 * 7, ownership: "shared" });
  }
  assert(x.equal(7).all().item());
});

test("Buffer identity: reshaping an owned tensor keeps its buffer, view().intoOwned() does not", () => {
  const x = arange(6);
  assert(sharesBuffer(x, x.reshape([2, 3])));
  assert(sharesBuffer(x, x.view()));
  assertFalse(sharesBuffer(x, x.view().intoOwned()));
  assertFalse(sharesBuffer(x, x.add(0)));
  assertFalse(sharesBuffer(zeros([2]), zeros([2])));
});

test("To typed arrays: toTypedArray copies the elements in row-major order", () => {
  const x = iota([2, 3]);
  const copy = loose(x).T.toTypedArray();
  assertEquals([...copy], [0, 3, 1, 4, 2, 5]);
  copy[0] = 9;
  assertEquals(x.get(0, 0), 0);
  assertEquals(arange(3, { dtype: "int16" }).toTypedArray(), Int16Array.of(0, 1, 2));
});

test("To typed arrays: intoTypedArray moves a contiguous tensor, which is then unusable", () => {
  const x = arange(2000);
  const { buffer } = x.data;
  const moved = x.intoTypedArray();
  assert(moved.buffer === buffer);
  assertEquals(moved.length, 2000);
  for (const use of [() => x.add(1), () => x.toArray(), () => x.get(0), () => x.slice(0)]) {
    assertRefused(use, DisposedError, "disposed or moved");
  }
  const y = loose(iota([2, 3]));
  const view = y.T;
  assertEquals([...view.intoTypedArray()], [0, 3, 1, 4, 2, 5]);
  assert(view.isDisposed);
  assertEquals(y.get(1, 2), 5);
});

test("To typed arrays: a tensor that others look at is copied, not moved from under them", () => {
  const x = arange(4);
  const view = x.slice("1:3");
  const array = x.intoTypedArray();
  array[1] = 50;
  assertEquals(view.toArray(), [1, 2]);
});

test("To typed arrays: intoRaw gives the whole buffer in storage order", () => {
  const x = loose(iota([2, 3]).toOwned());
  assertEquals([...x.T.intoRaw()], [0, 1, 2, 3, 4, 5]);
  const raw = x.slice("1:").intoRaw();
  assertEquals([...raw], [0, 1, 2, 3, 4, 5]);
  raw[0] = 9;
  assertEquals(x.get(0, 0), 0);
  assertEquals([...x.intoRaw()], [0, 1, 2, 3, 4, 5]);
  assert(x.isDisposed);
});

test("To typed arrays: item reads a single element at its offset, else it is a ShapeError", () => {
  const x = iota([2, 3]);
  assertEquals(loose(x).slice(1, 1).item(), 4);
  assertEquals(loose(x).slice("1:, 2:").item(), 5);
  assertRefused(() => x.item(), ShapeError, ["item", "[2, 3]"], x);
  assertRefused(() => zeros([0]).item(), ShapeError, ["item", "[0]"]);
});

test("To typed arrays: data is the memory itself, only when contiguous", () => {
  const x = iota([2, 3]);
  const { data } = loose(x);
  data[4] = 40;
  assertEquals(x.get(1, 1), 40);
  assertRefused(() => loose(x).T.data, ShapeError, ["data", "[3, 2]"], x);
  assertEquals(loose(x).slice(1).data.length, 3);
});

test("To typed arrays: int64 beyond 2^53 is a RangeError that names { bigint: true }", () => {
  const x = tensor([2n ** 53n + 1n]);
  for (const read of [() => x.item(), () => x.toArray(), () => x.get(0)]) {
    const error = (() => {
      try {
        read();
      } catch (error) {
        return error as Error;
      }
    })();
    assert(error instanceof RangeError);
    assert(error.message.includes("bigint: true"));
  }
  const message = assertThrows(() => x.get(0), RangeError).message;
  assert(message.endsWith("use slice(0).item({ bigint: true })"), message);
  assertEquals(x.slice(0).item({ bigint: true }), 2n ** 53n + 1n);
  assertEquals(x.item({ bigint: true }), 2n ** 53n + 1n);
  assertEquals(x.toArray({ bigint: true }), [2n ** 53n + 1n]);
});

test("To typed arrays: JSON gets nested arrays, of a view what it shows", () => {
  const x = arange(6).reshape([2, 3]);
  assertEquals(
    JSON.stringify({ x, y: [x.T.slice("1:")] }),
    '{"x":[[0,1,2],[3,4,5]],"y":[[[1,4],[2,5]]]}',
  );
  assertEquals(JSON.stringify(tensor([NaN, -Infinity, -0])), "[null,null,0]");
  assertEquals(JSON.stringify(tensor([[true], [false]])), "[[true],[false]]");
  assertEquals(JSON.stringify(tensor([2n ** 53n - 1n])), "[9007199254740991]");
  assertEquals(JSON.stringify([tensor(7), zeros([0, 2])]), "[7,[]]");
  const wide = tensor([2n ** 53n + 1n]);
  const { message } = assertThrows(() => JSON.stringify(wide), RangeError);
  assert(message.startsWith("toJSON() cannot give 9007199254740993 as a number"), message);
  assert(message.includes("toArray({ bigint: true })"), message);
});

test("Dispose: a tensor whose buffer was transferred is gone for every use", () => {
  const lost = (): Tensor<"float32", [number]> => {
    const x = arange(4).add(0);
    const { buffer } = x.data;
    structuredClone(buffer, { transfer: [buffer as ArrayBuffer] });
    return x;
  };
  const live = loose(arange(4));
  const uses: Record<string, (x: Tensor<"float32", [number]>) => unknown> = {
    add: (x) => x.add(1),
    sub: (x) => live.sub(x),
    mul_: (x) => x.mul_(2),
    neg: (x) => live.neg({ out: x }),
    exp: (x) => x.exp(),
    sum: (x) => x.sum(),
    get: (x) => x.get(0),
    set: (x) => x.set([0], 1),
    fill_: (x) => x.fill_(0),
    slice: (x) => x.slice("1:"),
    toArray: (x) => x.toArray(),
    toTypedArray: (x) => x.toTypedArray(),
    data: (x) => x.data,
    intoRaw: (x) => x.intoRaw(),
    matmul: (x) => live.matmul(x),
    concat: (x) => concat([live, x]),
    sort: (x) => x.sort(),
  };
  for (const [op, use] of Object.entries(uses)) {
    const parts = [`Cannot ${op}: `, "transferred"];
    assertRefused(() => use(lost()), DisposedError, parts, live);
  }
  assertEquals(String(lost()), "tensor(transferred)");
  // An empty tensor has no elements to lose.
  const none = zeros([0]);
  assertEquals(none.data.length, 0);
  assertEquals(none.add(1).shape, [0]);
});

test("Dispose: the memory of the last handle is used again, and any later use is an error", () => {
  emptyCache();
  const x = zeros([5000]);
  const view = x.view();
  x.dispose();
  assertEquals(memory().pooledBytes, 0);
  view.dispose();
  view.dispose();
  assertEquals(memory().pooledBytes, 20000);
  const y = zeros([5000]);
  assertEquals(memory().pooledBytes, 0);
  assertEquals(y.sum().item(), 0);
  assertRefused(() => x.add(1), DisposedError, "add");
  emptyCache();
});

test("Dispose: memory that was handed out or handed in is never used again", () => {
  emptyCache();
  const x = zeros([5000]);
  const { data } = x;
  x.dispose();
  const mine = new Float32Array(5000);
  fromBuffer(mine).dispose();
  assertEquals(memory().pooledBytes, 0);
  zeros([5000]).fill_(7);
  assertEquals([data[0], mine[0]], [0, 0]);
});

test("Dispose: using and scope free the tensors they made, except returned ones", () => {
  let inner;
  {
    using x = tensor([1, 2]);
    inner = x;
  }
  assert(inner.isDisposed);
  const outside = tensor([1, 2]);
  const kept = scope(() => {
    inner = outside.add(1);
    return { list: inner.mul(2) };
  });
  assert(inner.isDisposed);
  assertFalse(outside.isDisposed);
  assertEquals(kept.list.toArray(), [4, 6]);
  assertNotStrictEquals(inner, kept.list);
});

test("fromBuffer: two tensors on one buffer share it, and see each other's writes", () => {
  const bytes = new Float32Array(4);
  const [x, y] = [fromBuffer(bytes), fromBuffer(bytes)];
  x.fill_(7);
  assertEquals(y.toArray(), [7, 7, 7, 7]);
  assert(sharesBuffer(x, y));
  assert(sharesBuffer(fromBuffer(x.data), x));
  assertFalse(sharesBuffer(x, fromBuffer(bytes.slice())));
  // Small arrays may be stored on one slab, a buffer that belongs to none of them.
  assertFalse(sharesBuffer(tensor([1]), tensor([2])));
  assertFalse(sharesBuffer(tensor([1]).add(1), tensor([2]).add(1)));
});

test("fromBuffer: shared memory that came in two messages is one memory", () => {
  const memory = new SharedArrayBuffer(32);
  new Float32Array(memory).set([1, 2, 3, 4, 5, 6, 7, 8]);
  const again = structuredClone(memory);
  assertNotStrictEquals(again, memory);
  const [x, y] = [memory, again].map((one) => loose(fromBuffer(one, { dtype: "float32" })));
  x.slice("1:").add_(y.slice(":-1"));
  assertEquals(x.toArray(), [1, 3, 5, 7, 9, 11, 13, 15]);
  y.slice("::-1").copysign(x.neg(), { out: x });
  assertEquals(x.toArray(), [-15, -13, -11, -9, -7, -5, -3, -1]);
});

test("fromBuffer: a buffer that was transferred is refused", () => {
  const bytes = new Float32Array(4);
  structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
  for (const lost of [bytes, bytes.buffer]) {
    const parts = ["Cannot make a tensor from a buffer", "transferred"];
    assertRefused(() => fromBuffer(lost, { dtype: "float32" }), DisposedError, parts);
  }
});

test("Dispose: a copy in another shape is the only handle on its memory", () => {
  emptyCache();
  const x = tensor(iota([60, 50]), { shape: [3000] });
  assertEquals(x.ownership, "owned");
  x.dispose();
  assertEquals(memory().pooledBytes, 12000);
  emptyCache();
});

test("Dispose: a result that is reshaped or split frees its memory too", () => {
  for (
    const make of [
      () => loose(iota([60, 50])).T.reshape([3000]),
      () => loose(iota([60, 50])).T.flatten(),
      () => loose(iota([3000])).repeat(2),
      () => loose(iota([3000])).tile([2]),
      () => loose(iota([3000])).roll(1),
    ]
  ) {
    emptyCache();
    const x = make();
    const bytes = memory().pooledBytes;
    x.dispose();
    assert(memory().pooledBytes - bytes >= 12000, String(make));
  }
  emptyCache();
  const x = loose(iota([3000]).toOwned());
  for (const part of [...x.split(3), ...x.reshape([3, 1000]).unstack()]) part.dispose();
  const before = memory().pooledBytes;
  x.dispose();
  assert(memory().pooledBytes - before < 12000, "the view that reshape made is still there");
  emptyCache();
});
