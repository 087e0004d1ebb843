/**
 * Caches of keys and values: what they keep, how they grow, who frees them, and what they refuse.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  ArgumentError,
  DeviceError,
  DisposedError,
  DTypeError,
  memory,
  ones,
  OutOfMemoryError,
  quantize,
  scope,
  ShapeError,
  tensor,
  TraceError,
} from "../../../mod.ts";
import { compile } from "../../../src/compile/mod.ts";
import * as nn from "../../../src/nn/mod.ts";
import { testOnBackends } from "../../compile/support.ts";
import { MIRROR } from "../../device/mirror.ts";
import { BACKENDS, using } from "../../ops/table/backends.ts";
import { type Any, assertRefused, asView, loose } from "../../support.ts";
import { normal, numbers } from "../weights.ts";

const [LAYERS, HEADS, COLUMNS] = [2, 3, 32];
const DTYPES = ["float32", "float16", "bfloat16", "q8_0"] as const;

function cacheOf(dtype: nn.CacheDType, capacity: number, device?: Any): Any {
  return new nn.KVCache({
    ...{ layers: LAYERS, heads: HEADS, dimensions: COLUMNS },
    ...{ dtype, capacity, device },
  });
}

/** Keys and values of n tokens. */
function rowsOf(seed: number, n: number): Any {
  return normal(seed, [LAYERS, 2, HEADS, n, COLUMNS]);
}

/** What a cache of a dtype keeps of rows. */
function kept(rows: Any, dtype: string): Any {
  return dtype === "q8_0" ? quantize(rows, dtype).dequantize() : rows.astype(dtype);
}

/** The numbers of all keys and values of a cache. */
function all(cache: Any): number[][] {
  return Array.from({ length: LAYERS }, (_, i) => [cache.keys(i), cache.values(i)]).flat()
    .map((x) => numbers(x.dtype === "q8_0" ? x.dequantize() : x));
}

/** The numbers of rows in the order of {@link all}. */
function split(rows: Any): number[][] {
  return Array.from({ length: LAYERS }, (_, i) => [rows.slice(i, 0), rows.slice(i, 1)]).flat()
    .map(numbers);
}

for (const { name, on } of BACKENDS) {
  test(`keeps what is appended, truncated and grown, ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (const dtype of DTYPES) {
        using cache = cacheOf(dtype, 4, device);
        const rows = rowsOf(1, 11);
        const there = rows.to(device);
        assertEquals([cache.length, cache.capacity], [0, 4]);
        const data = cache.data;
        assertEquals([data.shape, data.dtype], [[LAYERS, 2, HEADS, 4, COLUMNS], dtype]);
        // Whole, a part of a tensor, a strided view, and the first of several.
        cache.append(there.slice("...", ":1", ":"));
        cache.append(asView(there.slice("...", "1:3", ":")));
        assertEquals([cache.length, cache.capacity], [3, 4]);
        cache.append(there.slice("...", "3:", ":"), 2);
        assertEquals([cache.length, cache.capacity], [5, 8]);
        assert(data.isDisposed);
        assertEquals(all(cache), split(kept(rows.slice("...", ":5", ":"), dtype)));
        // Rows of the cache's dtype are copied.
        const own = dtype === "q8_0" ? quantize(there, dtype) : there.astype(dtype);
        cache.append(own.slice("...", "5:", ":"));
        assertEquals([cache.length, cache.capacity], [11, 16]);
        assertEquals(all(cache), split(kept(rows, dtype)));
        cache.append(there, 0);
        cache.append(there.slice("...", "3:3", ":"));
        assertEquals(cache.length, 11);
        cache.truncate(2);
        assertEquals(cache.keys(1).shape, [HEADS, 2, COLUMNS]);
        cache.append(there.slice("...", "7:9", ":"));
        const some = [0, 1, 7, 8].map((at) => kept(rows, dtype).slice("...", at, ":").unsqueeze(3));
        assertEquals([cache.length, cache.capacity], [4, 16]);
        const merged = all(cache);
        const expected = some.map(split);
        merged.forEach((numbers, i) => {
          for (let head = 0; head < HEADS; head++) {
            for (let at = 0; at < 4; at++) {
              const from = (head * 4 + at) * COLUMNS;
              assertEquals(
                numbers.slice(from, from + COLUMNS),
                expected[at]![i]!.slice(head * COLUMNS, (head + 1) * COLUMNS),
                `${dtype}, ${i}, ${head}, ${at}`,
              );
            }
          }
        });
        cache.truncate(0);
        assertEquals([cache.length, cache.values(0).shape], [0, [HEADS, 0, COLUMNS]]);
      }
    }));
}

test("bytes are those of the memory", () => {
  for (
    const [dtype, bytes] of [["float32", 128], ["float16", 64], ["bfloat16", 64], [
      "q8_0",
      34,
    ]] as const
  ) {
    using cache = cacheOf(dtype, 5);
    assertEquals(cache.bytes, LAYERS * 2 * HEADS * 5 * bytes);
    assertEquals(cache.data.nbytes, cache.bytes);
    cache.reserve(6);
    assertEquals(cache.bytes, LAYERS * 2 * HEADS * 10 * bytes);
  }
});

test("the defaults are float16 and 256 tokens", () => {
  using cache = new nn.KVCache({ layers: 1, heads: 1, dimensions: 2 });
  assertEquals([cache.dtype, cache.capacity, cache.data.dtype], ["float16", 256, "float16"]);
  assertEquals([cache.layers, cache.heads, cache.dimensions], [1, 1, 2]);
});

test("reserve grows by doubling, and never shrinks", () => {
  using cache = cacheOf("float32", 3);
  cache.append(rowsOf(1, 2));
  const before = all(cache);
  for (const [asked, made] of [[0, 3], [3, 3], [4, 6], [100, 192], [5, 192]] as const) {
    cache.reserve(asked);
    assertEquals([cache.capacity, cache.length], [made, 2]);
    assertEquals(all(cache), before);
  }
});

test("more memory than machines have is refused before anything is allocated", () => {
  const sizes = { layers: 1, heads: 1, dimensions: 32, capacity: 1 };
  for (const name of ["layers", "heads", "dimensions", "capacity"] as const) {
    for (const size of [1e12, 2 ** 53 - 32, 2 ** 60, 1e300]) {
      for (const dtype of ["float16", "q8_0"] as const) {
        const make = () => new nn.KVCache({ ...sizes, capacity: 32, dtype, [name]: size });
        const before = memory().bytes;
        const error = assertThrows(make, OutOfMemoryError, "a KVCache [") as OutOfMemoryError;
        assertEquals(memory().bytes, before);
        assert(error.bytes > 1e12, `${name} ${size} ${dtype}`);
      }
    }
  }
  using cache = new nn.KVCache(sizes);
  for (const tokens of [1e12, 2 ** 53, 1e308]) {
    assertThrows(() => cache.reserve(tokens), OutOfMemoryError, "a KVCache [1, 2, 1, ");
    assertEquals([cache.capacity, cache.data.shape[3]], [1, 1]);
  }
});

test("a copy goes on by itself", () => {
  for (const dtype of DTYPES) {
    using cache = cacheOf(dtype, 4);
    using empty = cache.copy();
    assertEquals([empty.length, empty.capacity], [0, 4]);
    cache.append(rowsOf(1, 3));
    const before = all(cache);
    const copy = cache.copy();
    assertEquals([copy.dtype, copy.length, copy.capacity, all(copy)], [dtype, 3, 4, before]);
    copy.truncate(1);
    copy.append(rowsOf(2, 5));
    assertEquals(all(cache), before);
    copy.dispose();
    assertEquals(all(cache), before);
    cache.append(rowsOf(3, 1));
    assertEquals(cache.length, 4);
  }
});

test("views of a cache are of its memory until it grows", () => {
  using cache = cacheOf("float32", 4);
  cache.append(rowsOf(1, 2));
  const keys = cache.keys(0);
  const data = cache.data;
  assertEquals(numbers(keys), numbers(data.slice(0, 0, ":", ":2")));
  cache.append(rowsOf(2, 3));
  assert(data.isDisposed);
  // A view holds the memory it is of.
  assertEquals(numbers(keys), split(rowsOf(1, 2))[0]);
});

test("a cache belongs to no scope, whatever made it or made it grow", () => {
  const cache = scope(() => {
    const made = cacheOf("float16", 2);
    made.append(rowsOf(1, 1));
    return { made };
  }).made;
  scope(() => cache.append(rowsOf(2, 4)));
  scope(() => cache.reserve(30));
  const copy = scope(() => ({ copy: cache.copy() })).copy;
  assertEquals([cache.length, copy.length, copy.keys(0).shape], [5, 5, [HEADS, 5, COLUMNS]]);
  copy.dispose();
  cache.dispose();
});

test("after dispose, a cache refuses all but dispose", () => {
  const cache = cacheOf("float32", 4);
  cache.append(rowsOf(1, 1));
  const data = cache.data;
  cache.dispose();
  cache.dispose();
  assert(data.isDisposed);
  const calls: ((x: Any) => unknown)[] = [
    (x) => x.data,
    (x) => x.bytes,
    (x) => x.keys(0),
    (x) => x.values(0),
    (x) => x.append(rowsOf(1, 1)),
    (x) => x.append(rowsOf(1, 1), 0),
    (x) => x.reserve(1),
    (x) => x.reserve(100),
    (x) => x.truncate(0),
    (x) => x.copy(),
  ];
  for (const call of calls) assertRefused(() => call(cache), DisposedError, "KVCache");
});

test("memory is freed at once, and stays the same over many tokens", () => {
  const before = memory(MIRROR).bytes;
  for (const dtype of DTYPES) {
    const cache = cacheOf(dtype, 8, MIRROR);
    const rows = rowsOf(1, 3).to(MIRROR);
    const during = memory(MIRROR).bytes;
    for (let i = 0; i < 50; i++) {
      cache.append(rows);
      cache.append(rows, 2);
      if (i % 3 === 0) scope(() => void [cache.keys(0), cache.values(1), cache.copy().dispose()]);
      assertEquals(memory(MIRROR).bytes, during, dtype);
      cache.truncate(i % 4);
    }
    cache.reserve(16);
    assertEquals(memory(MIRROR).bytes, during + cache.bytes / 2, dtype);
    const wrong = ones([1], { device: loose(MIRROR) });
    assertThrows(() => cache.append(wrong), ShapeError);
    wrong.dispose();
    rows.dispose();
    cache.dispose();
  }
  assertEquals(memory(MIRROR).bytes, before);
});

test("what does not fit is refused, and changes nothing", () => {
  const sizes = { layers: 2, heads: 1, dimensions: 32 };
  const made = (changes: Any) => () => new nn.KVCache({ ...sizes, ...changes });
  for (const key of ["layers", "heads", "dimensions", "capacity"]) {
    for (const value of [0, -1, 1.5, NaN, Infinity, "2"]) {
      assertRefused(made({ [key]: value }), ArgumentError, ["KVCache", key]);
    }
  }
  assertRefused(made({ heads: undefined }), ArgumentError, ["heads", "undefined"]);
  for (const dtype of ["float64", "int8", "q4_0", 3]) {
    assertRefused(made({ dtype }), DTypeError, ["KVCache", String(dtype), "q8_0"]);
  }
  assertRefused(made({ dtype: "q8_0", dimensions: 48 }), ArgumentError, ["48", "q8_0", "32"]);
  assertThrows(made({ length: 1 }), TypeError, "length");
  assertThrows(made({ device: "nowhere" }), DeviceError, "nowhere");

  for (const dtype of ["float32", "q8_0"] as const) {
    using cache = cacheOf(dtype, 4);
    cache.append(rowsOf(1, 3));
    const before = all(cache);
    const refused: [() => unknown, Any, string[]][] = [
      [() => cache.append(rowsOf(1, 2).slice(0)), ShapeError, [
        "[2, 3, 2, 32]",
        "[2, 2, 3, n, 32]",
      ]],
      [() => cache.append(rowsOf(1, 2).slice("...", ":16")), ShapeError, ["[2, 2, 3, 2, 16]"]],
      [() => cache.append(rowsOf(1, 9).slice("1:")), ShapeError, ["[1, 2, 3, 9, 32]"]],
      [() => cache.append(ones([])), ShapeError, ["[]"]],
      [() => cache.append(rowsOf(1, 2), 3), ArgumentError, ["3 of 2"]],
      [() => cache.append(rowsOf(1, 2), -1), ArgumentError, ["-1 of 2"]],
      [() => cache.append(rowsOf(1, 2), 1.5), ArgumentError, ["1.5"]],
      [() => cache.append(rowsOf(1, 9).astype("int32")), DTypeError, ["int32", dtype]],
      [() => cache.append(rowsOf(1, 9).greater(0)), DTypeError, ["bool", dtype]],
      [() => cache.append(quantize(rowsOf(1, 9), "q4_0")), DTypeError, ["q4_0", dtype]],
      [() => cache.truncate(4), ArgumentError, ["3 tokens", "4"]],
      [() => cache.truncate(-1), ArgumentError, ["-1"]],
      [() => cache.truncate(0.5), ArgumentError, ["0.5"]],
      [() => cache.reserve(-1), ArgumentError, ["-1"]],
      [() => cache.reserve(NaN), ArgumentError, ["NaN"]],
      [() => cache.keys(2), Error, ["2"]],
    ];
    for (const [call, kind, parts] of refused) {
      const error = assertThrows(call, kind) as Error;
      for (const part of parts) assert(error.message.includes(part), error.message);
      assertEquals([cache.length, cache.capacity], [3, 4], error.message);
    }
    assertThrows(() => cache.append([1]), TypeError);
    assertThrows(() => cache.append(rowsOf(1, 1).to(MIRROR)), Error, "mirror");
    assertEquals(all(cache), before);
  }
  using floats = cacheOf("float32", 4);
  assertRefused(
    () => floats.append(quantize(rowsOf(1, 2), "q8_0")),
    DTypeError,
    ["q8_0", "float32"],
  );
});

test("append in a compiled function is refused, with what to do instead", () => {
  for (const dtype of ["float32", "q8_0"] as const) {
    using cache = cacheOf(dtype, 4);
    const f = compile((rows: Any) => {
      cache.append(rows);
      return rows.add(1);
    });
    const error = assertThrows(() => f(rowsOf(1, 9)), TraceError, "KVCache");
    assert(/return .*append/.test((error as Error).message), (error as Error).message);
    assertEquals([cache.length, cache.capacity], [0, 4]);
    // What a program gives is appended after it.
    const g = compile((rows: Any) => rows.mul(2));
    cache.append(g(rowsOf(1, 3)));
    assertEquals(all(cache), split(kept(rowsOf(1, 3).mul(2), dtype)));
  }
});

test("a program reads a cache that was appended to and that grew", () => {
  using cache = cacheOf("float32", 2);
  using f = compile((data: Any, length: Any) => data.slice(1, 0).sum().mul(length));
  for (let i = 1; i < 6; i++) {
    cache.append(rowsOf(i, 1));
    const expected = numbers(cache.keys(1)).reduce((a, b) => a + b, 0) * i;
    const made = f(cache.data, loose(ones([], { dtype: "int32" })).mul(i));
    assert(Math.abs(loose(made).item() - expected) < 1e-3 * Math.max(1, Math.abs(expected)));
  }
});

testOnBackends("a run off the event loop reads the cache as it was at the call", async () => {
  using cache = cacheOf("float32", 8);
  cache.append(rowsOf(1, 3));
  using f = compile((q: Any, k: Any, data: Any, length: Any) => {
    const cached = { keys: data.slice(0, 0), values: data.slice(0, 1), length };
    return nn.cachedAttention(q, k, k, cached);
  });
  const [q, k] = [normal(5, [HEADS, 2, COLUMNS]), normal(6, [HEADS, 2, COLUMNS])];
  const args = (): [Any, Any, Any, Any] => [q, k, cache.data, tensor(3, { dtype: "int32" })];
  const expected = numbers(f(...args()));
  // New rows in the same memory, then in other memory, whose old one is disposed.
  const runs = [f.async(...args())];
  cache.append(rowsOf(2, 4));
  runs.push(f.async(...args()));
  cache.append(rowsOf(3, 9));
  assertEquals(cache.capacity, 16);
  runs.push(f.async(...args()));
  for (const made of await Promise.all(runs)) assertEquals(numbers(made), expected);
});
