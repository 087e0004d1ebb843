/**
 * Reading and writing by coordinates, masks and integer tensors, through the public API.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  arange,
  DTypeError,
  IndexError,
  ShapeError,
  sharesBuffer,
  Slice,
  tensor,
  zeros,
} from "../mod.ts";
import { assertRefused, iota, loose } from "./support.ts";

test("Read and write: get and set take one index for each axis", () => {
  const x = zeros([2, 3]);
  x.set([1, 1], 42);
  assertEquals(x.get(1, 1), 42);
  assertEquals(x.get(-1, -2), 42);
  assertEquals(x.toArray(), [[0, 0, 0], [0, 42, 0]]);
});

test("Read and write: through a view, at its place in the buffer", () => {
  const x = iota([3, 4]);
  const view = x.slice("1:, ::-2").transpose();
  assertEquals(loose(view).get(1, 0), 5);
  loose(view).set([1, 0], 50);
  assertEquals(x.get(1, 1), 50);
});

test("Read and write: too few, too many, fractional or distant indexes are IndexErrors", () => {
  const x = iota([2, 3]);
  for (const index of [[0], [0, 0, 0], [2, 0], [0, 3], [0, -4], [0.5, 0], [NaN, 0]]) {
    assertRefused(() => x.get(...index), IndexError, "get", x);
  }
  for (const index of [[0, 0, 0], [2, 0], [0, -4], [0.5, 0], [NaN, 0], [Infinity]]) {
    assertRefused(() => x.set(index, 1), IndexError, ["Cannot s"], x);
  }
  assertRefused(() => loose(x).set(1, 1), IndexError, "set", x);
});

test("Read and write: set takes slices, strings and tensors that broadcast", () => {
  const x = zeros([3, 4]);
  x.set([1], 1);
  x.set(":, -1", 7);
  x.set([Slice.from(1), "::2"], tensor([5, 6]));
  assertEquals(x.toArray(), [[0, 0, 0, 7], [5, 1, 6, 7], [5, 0, 6, 7]]);
  x.set(["..."], tensor([[1], [2], [3]]));
  assertEquals(x.toArray(), [[1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]]);
});

test("Read and write: a value that does not fit is refused before anything is written", () => {
  const x = iota([3, 4]);
  const n = iota([3], "int32");
  assertRefused(() => x.set([0], tensor([1, 2, 3])), ShapeError, ["set", "[3]", "[4]"], x);
  assertRefused(() => n.set([0], 1.5), DTypeError, ["set", "1.5", "int32"], n);
  assertRefused(() => n.set(["..."], zeros([3])), DTypeError, ["set", "int32", "float32"], n);
  assertRefused(() => x.set([0], loose("7")), DTypeError, ["set", "7"], x);
  assertRefused(() => x.set([[0, 3], 0], 1), IndexError, ["set", "axis 0", "3"], x);
  assertRefused(() => x.set([[0, 1, 5]], zeros([3, 4])), IndexError, ["set", "5"], x);
});

test("Integer indexes: arrays and tensors pick elements, with negatives, and make a copy", () => {
  const x = iota([3, 4]);
  assertEquals(loose(x.slice([2, 0, -1])).toArray(), [[8, 9, 10, 11], [0, 1, 2, 3], [
    8,
    9,
    10,
    11,
  ]]);
  assertEquals(loose(x).slice([0, 2], [1, -1]).toArray(), [1, 11]);
  const rows = tensor([[0, 1], [2, 0]], { dtype: "int8" });
  assertEquals([...loose(x).slice(rows, "1:").shape], [2, 2, 3]);
  assertEquals(sharesBuffer(x, loose(x).slice([0])), false);
});

test("Integer indexes: set writes where slice reads, and the last of equal indexes wins", () => {
  const x = zeros([5]);
  x.set([[1, 3, 1]], tensor([7, 8, 9]));
  assertEquals(x.toArray(), [0, 9, 0, 8, 0]);
  x.set([tensor([-1, 0], { dtype: "int64" })], 4);
  assertEquals(x.toArray(), [4, 9, 0, 8, 4]);
});

test("Integer indexes: an array may be written by itself, and is read as it was", () => {
  const [n, steps] = [5000, 1237];
  const x = arange(n, { dtype: "int32" }).mul(steps).remainder(n).astype("int32");
  const before = x.toArray() as number[];
  x.set([x], arange(n, { dtype: "int32" }));
  const after = x.toArray() as number[];
  assert(before.every((to, i) => after[to] === i));
});

test("Integer indexes: several of them, into axes that run backwards or are empty", () => {
  const x = iota([3, 4, 2]);
  const back = loose(x.slice("::-1, :, ::-1"));
  assertEquals(back.slice([0, -1, 1], [1, 0, -1]).toArray(), [[19, 18], [1, 0], [15, 14]]);
  assertEquals(back.slice([0, 1], ":", [-1, 0]).toArray(), [[16, 18, 20, 22], [9, 11, 13, 15]]);
  assertRefused(() => back.slice([0, 3], [1, 1]), IndexError, ["axis 0", "3"], x);
  assertRefused(() => back.slice([0, -4], [1, 1]), IndexError, ["axis 0", "-4"], x);
  const none = zeros([0, 3]);
  assertEquals([...loose(none).take([1, -1, 0, 0], 1).shape], [0, 4]);
  assertRefused(() => loose(none).take([3], 1), IndexError, ["axis 1", "3"], none);
  assertRefused(() => loose(none).slice([0]), IndexError, ["axis 0", "0"], none);
  assertRefused(() => loose(none).slice([0], [0]), IndexError, ["axis 0", "0"], none);
});

test("Integer indexes: bad ones are IndexErrors that name axis, index and size", () => {
  const x = iota([3, 4]);
  assertRefused(() => loose(x).slice(":", [0, 4]), IndexError, ["axis 1", "4"], x);
  assertRefused(() => loose(x).slice([-4]), IndexError, ["axis 0", "-4"], x);
  assertRefused(() => loose(x).slice([0.5]), IndexError, "0.5", x);
  assertRefused(() => loose(x).slice([0, 1], [0, 1, 2]), ShapeError, ["[2]", "[3]"], x);
  assertRefused(() => loose(x).slice([0], [0], [0]), IndexError, ["[3, 4]", "3"], x);
  assertRefused(() => loose(x).slice(zeros([2])), DTypeError, "float32", x);
});

test("Masks: a bool tensor picks where it is true, for reading and for writing", () => {
  const x = iota([2, 3]);
  assertEquals(loose(x).slice(x.greater(2)).toArray(), [3, 4, 5]);
  assertEquals(loose(x).slice(":", [true, false, true]).toArray(), [[0, 2], [3, 5]]);
  x.set([x.less(2)], -1);
  assertEquals(x.toArray(), [[-1, -1, 2], [3, 4, 5]]);
  x.set([x.greater(2)], tensor([30, 40, 50]));
  assertEquals(x.toArray(), [[-1, -1, 2], [30, 40, 50]]);
});

test("Masks: one of another shape is an IndexError, and picking nothing is empty", () => {
  const x = iota([2, 3]);
  const mask = zeros([3, 2], { dtype: "bool" });
  assertRefused(() => loose(x).slice(mask), IndexError, ["[2, 3]", "[3, 2]"], x);
  assertRefused(() => loose(x).set([[true]], 0), IndexError, ["set", "[1]"], x);
  assertEquals(loose(x).slice(x.greater(9)).toArray(), []);
  assertEquals([...loose(x).slice([false, false]).shape], [0, 3]);
});

test("take and takeAlongAxis: by integer tensors along one axis", () => {
  const x = iota([2, 3]);
  assertEquals(x.take([2, 0], 1).toArray(), [[2, 0], [5, 3]]);
  assertEquals([...x.take(1, 1).shape], [2]);
  assertEquals(x.take(arange(4, { dtype: "int8" }).slice("2:0:-1"), 1).toArray(), [[2, 1], [5, 4]]);
  assertEquals(x.take(arange(4, { dtype: "uint64" }).slice("1:3"), 1).toArray(), [[1, 2], [4, 5]]);
  const y = tensor([[3, 1, 2], [0, 9, 4]]);
  assertEquals(y.takeAlongAxis(y.argsort(1), 1).toArray(), y.sort(1).toArray());
  assertEquals(y.takeAlongAxis(y.argmax(1, { keepDims: true }), 1).toArray(), [[3], [9]]);
  // What several tensors of indexes pick, which take another way.
  const cube = loose(iota([3, 4, 5]).permute(2, 0, 1));
  const cases = { 0: [7, 3, 4], 1: [5, 2, 1], 2: [1, 3, 9], "-1": [5, 1, 1] };
  for (const [axis, shape] of Object.entries(cases)) {
    const at = Number(axis);
    const n = cube.shape.at(at);
    const size = shape.reduce((a, b) => a * b);
    const picks = arange(size).mul(7).remainder(2 * n).sub(n).astype("int32").reshape(shape);
    const grids = cube.shape.map((m: number, i: number) => {
      const line = cube.shape.map((_: number, j: number) => i === j ? m : 1);
      return i === (at + 3) % 3 ? picks : arange(m, { dtype: "int32" }).reshape(line);
    });
    const taken = cube.takeAlongAxis(picks, at);
    assertEquals(taken.toArray(), cube.slice(...grids).toArray());
    assert(taken.isContiguous);
  }
  assertEquals(zeros([2, 0]).takeAlongAxis(zeros([2, 0], { dtype: "int32" }), 1).shape, [2, 0]);
  const none = zeros([2, 0]);
  const one = zeros([2, 1], { dtype: "int32" });
  assertRefused(() => none.takeAlongAxis(one, 1), IndexError, ["axis 1", "[2, 0]"], none, one);
  y.putAlongAxis_(y.argmin(1, { keepDims: true }), -5, 1);
  assertEquals(y.toArray(), [[3, -5, 2], [-5, 9, 4]]);
  assertRefused(() => x.take([3], 1), IndexError, ["axis 1", "3"], x);
});

test("Stepping iterator: views along any axis, every n-th, backwards when negative", () => {
  const x = iota([4, 3]);
  assertEquals([...x].map((row) => loose(row).toArray()), loose(x).toArray());
  const columns = [...x.iterate(1, 2)].map((column) => loose(column).toArray());
  assertEquals(columns, [[0, 3, 6, 9], [2, 5, 8, 11]]);
  assertEquals([...arange(10).iterate(0, -4)].map((one) => loose(one).item()), [9, 5, 1]);
  for (const row of x.iterate(0, 2)) loose(row).fill_(0);
  assertEquals(x.get(2, 1), 0);
  assertEquals(x.get(1, 1), 4);
  assert([...zeros([0, 3])].length === 0);
});

test("Stepping iterator: a step of 0 is refused", () => {
  const x = iota([4]);
  assertRefused(() => [...x.iterate(0, 0)], IndexError, ["axis 0", "step 0"], x);
  assertRefused(() => [...x.iterate(0, 0.5)], IndexError, "0.5", x);
});
