/**
 * Reading and writing by coordinates, masks and integer tensors, through the public API.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  arange,
  DTypeError,
  iinfo,
  IndexError,
  ShapeError,
  sharesBuffer,
  Slice,
  tensor,
  zeros,
} from "../../mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { site } from "../ops/table/operands.ts";
import { type Any, assertRefused, iota, loose } from "../support.ts";

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
  assertRefused(() => loose(x).slice("...", [0], "..."), IndexError, "more than one", x);
  assertEquals(loose(x).slice([]).shape, [0, 4]);
  // The index as it was given, though it was broadcast.
  const rows = tensor([[0], [7]], { dtype: "int32" });
  const columns = tensor([0, 1], { dtype: "int32" });
  assertRefused(() => loose(x).slice(rows, columns), IndexError, "at 7", x);
});

test("Integer indexes: values are cast, strided or of more axes than the places they go to", () => {
  const places = [[0, 2]] as never;
  const x = zeros([3, 2]);
  x.set(places, loose(tensor([[1, 2], [3, 4]], { dtype: "float16" })));
  assertEquals(x.toArray(), [[1, 2], [0, 0], [3, 4]]);
  x.set(places, loose(tensor([[1, 2], [3, 4]]).transpose()));
  assertEquals(x.toArray(), [[1, 3], [0, 0], [2, 4]]);
  x.set(places, loose(tensor([[[5, 6], [7, 8]]])));
  assertEquals(x.toArray(), [[5, 6], [0, 0], [7, 8]]);
  const y = zeros([4]);
  y.set([tensor([[0, 1], [2, 3]], { dtype: "int32" })], tensor([[1, 2], [3, 4]]).transpose());
  assertEquals(y.toArray(), [1, 3, 2, 4]);
});

test("Integer indexes: long rows are picked from where they are, dense or not", () => {
  const x = iota([5, 1200]);
  const first = (rows: unknown) => loose(rows).toArray().map((row: number[]) => row.slice(0, 2));
  assertEquals(first(loose(x).slice("1:, 4:").slice([2, 0])), [[3604, 3605], [1204, 1205]]);
  assertEquals(first(loose(x).slice(":, ::2").slice([2, 0])), [[2400, 2402], [0, 2]]);
  const y = zeros([5, 1200]);
  loose(y).slice("1:, 4:").set([[2, 0]], loose(x).slice("1:3, 4:"));
  assertEquals(first(y.slice("1:4, 4:")), [[2404, 2405], [0, 0], [1204, 1205]]);
});

for (const { name, on } of BACKENDS) {
  test(`Integer indexes: elements of 64 bits are moved whole, there and back: ${name}`, () => {
    using(on, () => {
      const values = [2n ** 40n, -3n, 2n ** 62n, 5n];
      const x = tensor(values, { dtype: "int64", device: site.device });
      const picked = loose(x).slice([2, 0]);
      assertEquals(picked.toArray({ bigint: true }), [values[2], values[0]]);
      x.set([[1, 3]], picked);
      assertEquals(x.toArray({ bigint: true }), [values[0], values[2], values[2], values[0]]);
    });
  });
}

// Memory that another worker may change is copied before its indexes are checked.
test("Integer indexes: those in shared memory give what the same ones elsewhere give", () => {
  const index = arange(0, 300, 3, { dtype: "int32" });
  const expected = arange(300).slice(index).toArray();
  assertEquals(arange(300).slice(loose(index).intoShared()).toArray(), expected);
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

test("Masks: those of rank 0 take all or nothing, like NumPy's", () => {
  for (const { name, on } of BACKENDS) {
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const y = (): Any => loose(iota([2, 3])).to(device);
      const [yes, no] = [true, false].map((one) => loose(tensor(one)).to(device));
      const i = loose(tensor([1, 0], { dtype: "int32" })).to(device);
      const s = loose(tensor(3)).to(device);
      /** What NumPy gives for `y[...]`: the shape, and the elements. */
      const cases: [index: Any[], shape: number[], elements: unknown][] = [
        [[yes], [1, 2, 3], [[[0, 1, 2], [3, 4, 5]]]],
        [[no], [0, 2, 3], []],
        [[yes, 0], [1, 3], [[0, 1, 2]]],
        [[0, yes], [1, 3], [[0, 1, 2]]],
        [[yes, ":", 1], [1, 2], [[1, 4]]],
        [[":", yes], [2, 1, 3], [[[0, 1, 2]], [[3, 4, 5]]]],
        [[":", no], [2, 0, 3], [[], []]],
        [[yes, i], [2, 3], [[3, 4, 5], [0, 1, 2]]],
        [[i, yes], [2, 3], [[3, 4, 5], [0, 1, 2]]],
        [[yes, yes], [1, 2, 3], [[[0, 1, 2], [3, 4, 5]]]],
        [[yes, no], [0, 2, 3], []],
        [[yes, null], [1, 1, 2, 3], [[[[0, 1, 2], [3, 4, 5]]]]],
        [["...", yes], [2, 3, 1], [[[0], [1], [2]], [[3], [4], [5]]]],
        [[i, ":", yes], [2, 3], [[3, 4, 5], [0, 1, 2]]],
        [[":", yes, 1], [2, 1], [[1], [4]]],
        [[yes, [0], [1]], [1], [1]],
      ];
      for (const [index, shape, elements] of cases) {
        const made = y().slice(...index);
        const what = `${name}: ${index}`;
        assertEquals([[...made.shape], made.toArray()], [shape, elements], what);
      }
      assertEquals([s.slice(yes).toArray(), s.slice(no).toArray()], [[3], []], name);
      const written = (index: Any[], value: Any): unknown => y().set(index, value).toArray();
      assertEquals(written([yes], 5), [[5, 5, 5], [5, 5, 5]], name);
      assertEquals(written([no], 5), [[0, 1, 2], [3, 4, 5]], name);
      assertEquals(written([yes, 0], 9), [[9, 9, 9], [3, 4, 5]], name);
      const row = loose(tensor([[[1, 2, 3]]])).to(device);
      assertEquals(written([":", yes], row), [[1, 2, 3], [1, 2, 3]], name);
      const z = loose(tensor(3)).to(device);
      assertEquals(z.set([z.greater(1)], 2).item(), 2, name);
      assertThrows(() => y().slice(no, i), ShapeError, "Cannot slice");
    });
  }
  assertRefused(() => loose(iota([2, 3])).slice(true), IndexError, "Cannot slice by true");
});

test("Adding at indexes: what is written adds up, wherever the index names a place again", () => {
  const add = { accumulate: true };
  assertEquals(zeros([4]).set([[1, 3, 1, -1]], 1, add).toArray(), [0, 2, 0, 2]);
  const x = zeros([3, 2], { dtype: "int16" });
  const values = tensor([[1, 2], [3, 4], [5, 6]], { dtype: "int16" });
  x.set([tensor([2, 0, 2], { dtype: "uint8" })], values, add);
  assertEquals(x.toArray(), [[3, 4], [0, 0], [6, 8]]);
  // By several arrays, with an axis between them, by masks, and by slices, which contain each place
  // once.
  x.set([[2, 2, 0], [0, 0, 1]], tensor([10, 20, 30], { dtype: "int16" }), add);
  assertEquals(x.toArray(), [[3, 34], [0, 0], [36, 8]]);
  x.set([x.greater(30)], -30, add);
  assertEquals(x.toArray(), [[3, 4], [0, 0], [6, 8]]);
  x.set("1:, 0", 100, add).set([":", 1], tensor([1, 2, 3], { dtype: "int8" }), add);
  assertEquals(x.toArray(), [[3, 5], [100, 2], [106, 11]]);
  const cube = zeros([2, 3, 2]);
  cube.set([[1, 1], ":", [0, 0]], tensor([[1, 2, 3], [4, 5, 6]]), add);
  assertEquals(cube.slice(1).toArray(), [[5, 0], [7, 0], [9, 0]]);
  // Along an axis; and from itself, which is read first.
  const y = zeros([2, 3]).putAlongAxis_(tensor([[0, 0], [2, 1]], { dtype: "int32" }), 5, 1, add);
  assertEquals(y.toArray(), [[10, 0, 0], [0, 5, 5]]);
  const z = tensor([1, 2, 3]);
  z.set([[0, 0, 0]], z, add).set(["1:"], z.slice(":2"), add);
  assertEquals(z.toArray(), [7, 9, 5]);
  // Without it, or with false, the last one wins.
  assertEquals(zeros([2]).set([[1, 1]], tensor([3, 4]), { accumulate: false }).toArray(), [0, 4]);
});

test("Adding at indexes: in numbers of the dtype, one after the other", () => {
  const add = { accumulate: true };
  for (const dtype of ["int8", "uint8", "int32", "uint64", "int64"] as const) {
    const { min, max } = iinfo(dtype);
    const x = tensor([max, min], { dtype }).set([[0, 1, 0]], 1, add);
    assertEquals(x.sub(tensor([min, min], { dtype })).toArray({ bigint: true }).map(Number), [
      1,
      1,
    ]);
  }
  // From 2048 and 256 on, these dtypes have no odd numbers: each sum is rounded to even.
  const halves = tensor([2048, 0], { dtype: "float16" }).set([[0, 0, 1, 1]], 1, add);
  assertEquals(halves.toArray(), [2048, 2]);
  const bf16 = tensor([256, 0], { dtype: "bfloat16" }).set([[0, 0, 1, 1]], 1, add);
  assertEquals(bf16.toArray(), [256, 2]);
  const ordered = zeros([1]).set([[0, 0, 0]], tensor([1, 1e30, -1e30]), add);
  assertEquals(ordered.toArray(), [0]);
  // Values of another dtype are cast to that of the target before the addition.
  const narrow = tensor([2 ** 24]).set([[0, 0]], tensor([0.6, 0.6], { dtype: "float64" }), add);
  assertEquals(narrow.toArray(), [2 ** 24]);
  const wide = tensor([1 + 2 ** -26], { dtype: "float64" });
  assertEquals(tensor([2 ** 24]).set([":"], wide, add).toArray(), [2 ** 24]);
  // Longer rows than a task contains, each with many additions.
  const [rows, columns] = [7, 3000];
  const by = arange(500, { dtype: "int64" }).remainder(rows);
  const counted = zeros([rows, columns]).set([by], arange(columns), add);
  const times = zeros([rows]).set([by], 1, add);
  assertEquals(counted.toArray(), arange(columns).mul(times.unsqueeze(1)).toArray());
});

test("Adding at indexes: what cannot be added is refused, and nothing changes", () => {
  const add = { accumulate: true };
  const x = iota([2, 3]);
  assertRefused(() => x.set([[0, 2]], 1, add), IndexError, ["set", "at 2"], x);
  assertRefused(() => x.set([[0, 1]], zeros([2]), add), ShapeError, "set", x);
  assertRefused(() => x.set([0], loose("1"), add), DTypeError, "set", x);
  assertThrows(() => x.set([0], 1, loose({ add: true })), TypeError, 'set with option "add"');
  assertThrows(() => x.set([0], 1, loose(true)), TypeError, "options come last");
  assertEquals(x.toArray(), iota([2, 3]).toArray());
  const none = zeros([0]), many = zeros([40_000], { dtype: "int32" });
  assertRefused(() => none.set([many], 1, add), IndexError, "size 0", none);
  const mask = zeros([3], { dtype: "bool" });
  assertRefused(() => mask.set([[0]], true, add), DTypeError, "accumulate bool", mask);
  assertRefused(() => mask.set([0], true, add), DTypeError, "accumulate bool", mask);
  const whole = zeros([3], { dtype: "int32" });
  assertRefused(() => whole.set([[0]], 1.5, add), DTypeError, "int32", whole);
  assertRefused(() => whole.set([[0]], tensor([1]), add), DTypeError, "int32", whole);
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
  // Several tensors of indexes, which use another path.
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
  assertEquals(loose(y).takeAlongAxis(y.argsort(1)).toArray(), y.sort(1).toArray());
  assertEquals(zeros([2, 0]).takeAlongAxis(zeros([2, 0], { dtype: "int32" }), 1).shape, [2, 0]);
  const none = zeros([2, 0]);
  const one = zeros([2, 1], { dtype: "int32" });
  assertRefused(() => none.takeAlongAxis(one, 1), IndexError, ["axis 1", "[2, 0]"], none, one);
  const last = loose(y.copy());
  last.putAlongAxis_(y.argmin(1, { keepDims: true }), -5);
  assertEquals(last.toArray(), [[3, -5, 2], [-5, 9, 4]]);
  y.putAlongAxis_(y.argmin(1, { keepDims: true }), -5, 1);
  assertEquals(y.toArray(), [[3, -5, 2], [-5, 9, 4]]);
  assertRefused(() => x.take([3], 1), IndexError, ["axis 1", "3"], x);
});

test("take and takeAlongAxis: an index out of range is found, at the first place too", () => {
  const x = loose(iota([2, 3]));
  for (const { on } of BACKENDS) {
    if (typeof on === "string") continue;
    using(on, () => {
      assertEquals(loose(tensor([5, 6, 7])).takeAlongAxis([2, -3], 0).toArray(), [7, 5]);
      for (const indexes of [[[3, 0], [0, 0]], [[0, 0], [0, -4]]]) {
        const bad = tensor(indexes, { dtype: "int32" });
        assertRefused(() => x.takeAlongAxis(bad, 1), IndexError, ["takeAlongAxis", "axis 1"], x);
      }
    });
  }
  const flat = tensor([0, 1, 0], { dtype: "int32" });
  assertRefused(() => x.takeAlongAxis(flat, 0), ShapeError, "ranks differ", x);
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
