/**
 * The namespace `random`: defaults, bounds and errors. philox_test.ts tests the generator itself.
 *
 * @module
 */
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { ArgumentError, DTypeError, random, ShapeError } from "../../mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { loose } from "../support.ts";

const key = random.key(5);
const any = loose(random);

test("random: a seed's 64 bits are the key, and no others are taken", () => {
  assertEquals(random.key(2n ** 64n - 1n), { word0: 0xffffffff, word1: 0xffffffff });
  assertEquals(random.key(-1), random.key(2n ** 64n - 1n));
  assertEquals(random.key(-(2n ** 63n)), { word0: 0, word1: 0x80000000 });
  assertEquals(random.key(3n << 32n), { word0: 0, word1: 3 });
  assertEquals(random.key(Number.MAX_SAFE_INTEGER), { word0: 0xffffffff, word1: 0x1fffff });
  for (const seed of [2n ** 64n, -(2n ** 63n) - 1n, 2 ** 53, 0.5, NaN, "1", undefined]) {
    assertThrows(() => any.key(seed), ArgumentError, "Cannot make a key of");
  }
});

test("random: what is no key is refused by the name of the function", () => {
  for (const wrong of [5, undefined, {}, { word0: 1 }, { word1: 1 }, { word0: 1, word1: 0.5 }]) {
    assertThrows(() => any.bits(wrong, [2]), ArgumentError, "bits() needs a key made by");
    assertThrows(() => any.foldIn(wrong, 1), ArgumentError, "foldIn() needs a key");
  }
});

test("random: split makes two keys unless told otherwise, up to 2^22", () => {
  assertEquals(random.split(key), random.split(key, 2));
  assertEquals(random.split(key, 0), []);
  assertEquals(random.split(key, 3).slice(0, 2), random.split(key));
  assertThrows(() => random.split(key, 2 ** 22 + 1), ArgumentError, "at most 4194304");
  assertThrows(() => random.split(key, -1), ShapeError, "split a key");
  assertNotEquals(random.foldIn(key, 1), random.foldIn(key, 2));
});

test("random: without options uniforms are from 0 to 1, and normals of mean 0 and std 1", () => {
  assertEquals(
    random.uniform(key, [50]).toArray(),
    random.uniform(key, [50], { low: 0, high: 1, dtype: "float32" }).toArray(),
  );
  assert(random.uniform(key, [1000]).min().item() < 0.05);
  assert(random.uniform(key, [1000]).max().item() > 0.95);
  const plain = random.normal(key, [50]);
  assertEquals(plain.toArray(), random.normal(key, [50], { mean: 0, std: 1 }).toArray());
  assertEquals(
    random.normal(key, [50], { mean: 3, std: 2 }).toArray(),
    plain.mul(2).add(3).toArray(),
  );
  assertEquals(random.normal(key, [3], { mean: 2, std: 0 }).toArray(), [2, 2, 2]);
});

test("random: every backend draws the same", () => {
  for (const dtype of ["float32", "float64", "float16", "bfloat16"] as const) {
    const draws = BACKENDS.filter(({ on }) => typeof on !== "string").map(({ on }) =>
      using(on, () => [
        random.uniform(key, [60], { dtype }).toArray(),
        random.normal(key, [60], { dtype }).toArray(),
      ])
    );
    for (const [uniform, normal] of draws) {
      assertEquals(uniform, draws[0]![0]);
      assert(uniform!.every((x) => Number(x) >= 0 && Number(x) < 1));
      assert(normal!.some((x) => Number(x) < 0));
    }
  }
});

test("random: uniforms keep within their bounds, the upper one left out", () => {
  const low = 1 - 2 ** -24; // the float32 below 1
  assertEquals(random.uniform(key, [20], { low, high: 1 }).toArray(), new Array(20).fill(low));
  assertEquals(random.uniform(key, [2], { low: 3, high: 3 }).toArray(), [3, 3]);
  assertEquals(
    random.uniform(key, [50], { low: -1, high: 1 }).toArray(),
    random.uniform(key, [50]).mul(2).sub(1).toArray(),
  );
  const halves = random.uniform(key, [500], { low: -2, high: 5, dtype: "float16" });
  assert(halves.min().item() >= -2 && halves.max().item() < 5);
  for (const options of [{ low: 2, high: 1 }, { low: NaN }, { high: Infinity }]) {
    assertThrows(() => random.uniform(key, [2], options), ArgumentError, "uniform numbers from");
  }
  for (const options of [{ high: 1e5 }, { low: -6e4, high: 6e4 }]) {
    const half = { dtype: "float16" as const, ...options };
    assertThrows(() => random.uniform(key, [2], half), DTypeError, "not all finite");
  }
  random.uniform(key, [2], { high: 65504, dtype: "float16" });
});

test("random: normals take finite means and stds of at least 0", () => {
  for (const options of [{ std: -1 }, { std: NaN }, { mean: Infinity }]) {
    assertThrows(() => random.normal(key, [2], options), ArgumentError, "normal numbers of mean");
  }
  const half = { dtype: "float16" as const, std: 7e4 };
  assertThrows(() => random.normal(key, [2], half), DTypeError, "not all finite");
});

test("random: integers fill exactly what the dtype holds", () => {
  const bytes = random.integers(key, [2000], 0, 256, { dtype: "uint8" });
  assertEquals([bytes.min().item(), bytes.max().item()], [0, 255]);
  assertEquals(random.integers(key, [3], 7, 8).toArray(), [7, 7, 7]);
  assertEquals(random.integers(key, [3], 7, 9).dtype, "int32");
  for (const [low, high] of [[0, 257], [-1, 5]] as const) {
    const make = () => random.integers(key, [2], low, high, { dtype: "uint8" });
    assertThrows(make, DTypeError, `from ${low} to ${high} of uint8`);
  }
  assertThrows(() => random.integers(key, [2], 5, 5), ArgumentError, "none fits");
  assertThrows(() => random.integers(key, [2], 0, 2 ** 53), ArgumentError, "make integers from 0");
  assertThrows(() => any.integers(key, [2], 0, 5, { dtype: "float32" }), DTypeError, "float32");
});

test("random: a permutation has each number once, in another order for another key", () => {
  const order = random.permutation(key, 100);
  assertEquals(order.dtype, "int32");
  assertNotEquals(order.toArray(), random.permutation(random.key(6), 100).toArray());
  assertEquals(
    order.toArray().sort((a, b) => a - b),
    Array.from({ length: 100 }, (_, i) => i),
  );
  assertThrows(() => any.permutation(key, [3]), ArgumentError, "Cannot permute an array");
  assertThrows(() => any.permutation(key, 2 ** 31 + 1), ShapeError, "an index is an int32");
  assertThrows(() => any.permutation(key, -1), ShapeError, "permutation");
});

test("random: dtypes, shapes and options that are none are refused by the function's name", () => {
  assertThrows(
    () => any.uniform(key, [2], { dtype: "int32" }),
    DTypeError,
    "random uniform of int32",
  );
  for (const name of ["bits", "uniform", "normal", "integers", "permutation"]) {
    const rest = name === "permutation" ? [3] : name === "integers" ? [[2], 0, 5] : [[2]];
    assertThrows(() => any[name](key, ...rest, { typo: 1 }), TypeError, `Cannot ${name}`);
  }
  assertThrows(() => any.bits(key, [2], { dtype: "int32" }), TypeError, "Cannot bits");
  assertThrows(() => any.bits(key, [-1]), ShapeError, "Cannot bits");
});
