/**
 * Creation of tensors, extremes and devices, through the public API.
 *
 * @module
 */
import { assertEquals, assertFalse, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  arange,
  DeviceError,
  type DType,
  DTypeError,
  empty,
  emptyLike,
  eye,
  finfo,
  fromBuffer,
  full,
  fullLike,
  fullMax,
  fullMin,
  iinfo,
  IndexError,
  linspace,
  meshgrid,
  ones,
  onesLike,
  type Shape,
  ShapeError,
  sharesBuffer,
  type Tensor,
  tensor,
  type types,
  zeros,
  zerosLike,
} from "../../mod.ts";
import { assertRefused, loose } from "../support.ts";

test("Creation: zeros, ones, full and empty have the shape and dtype that was asked for", () => {
  assertEquals(zeros([2, 3]).toArray(), [[0, 0, 0], [0, 0, 0]]);
  assertEquals(ones([3], { dtype: "int16" }).toArray(), [1, 1, 1]);
  assertEquals(full([2], 7n).dtype, "int64");
  assertEquals(full([2], true).toArray(), [true, true]);
  assertEquals([...empty([2, 0, 3], { dtype: "uint8" }).shape], [2, 0, 3]);
  assertEquals(zeros([2]).dtype, "float32");
});

test("Creation: like another tensor, in its dtype or in one that is given", () => {
  const x = tensor([[1, 2, 3], [4, 5, 6]], { dtype: "int16" }).transpose();
  for (const [made, value] of [[zerosLike(x), 0], [onesLike(x), 1], [fullLike(x, 7), 7]] as const) {
    assertEquals([made.shape, made.dtype, made.isContiguous], [[3, 2], "int16", true]);
    assertEquals(made.toArray(), [[value, value], [value, value], [value, value]]);
  }
  assertEquals([emptyLike(x).shape, emptyLike(x).dtype], [[3, 2], "int16"]);
  const halves = fullLike(x, 0.5, { dtype: "float64", device: "cpu" });
  halves satisfies Tensor<"float64", [3, 2], "cpu">;
  assertEquals([halves.dtype, halves.sum().item()], ["float64", 3]);
  // Generic parameters stay generic.
  const half = <D extends DType, S extends Shape, V extends types.Device>(y: Tensor<D, S, V>) => {
    const made: Tensor<D, S, V> = zerosLike(y);
    return made;
  };
  half(x) satisfies Tensor<"int16", [3, 2], "cpu">;
  assertEquals(zerosLike(x, { dtype: undefined }).dtype, "int16");
  assertEquals(zerosLike(x, { dtype: "bool" }).dtype, "bool");
  assertEquals(onesLike(x, { dtype: "float16" }).dtype, "float16");
  assertEquals(emptyLike(x, { dtype: "uint64" }).dtype, "uint64");
  assertRefused(() => fullLike(x, 0.5), DTypeError, "Cannot fullLike 0.5 to int16", x);
  assertThrows(
    () => loose(zerosLike)(x, { type: "int8" }),
    TypeError,
    'zerosLike with option "type"',
  );
  assertRefused(() => loose(onesLike)(x, { device: "tpu" }), DeviceError, 'onesLike on "tpu"', x);
});

test("Creation: arange of bigints makes int64, exact beyond 2^53", () => {
  const big = 2n ** 60n;
  assertEquals(arange(3n).dtype, "int64");
  assertEquals(arange(3n).toArray(), [0, 1, 2]);
  const cases: [bigint, bigint, bigint][] = [
    [big, big + 5n, 2n],
    [big, big + 4n, 2n],
    [big + 5n, big, -2n],
    [-3n, 3n, 1n],
    [3n, -3n, -4n],
    [0n, 3n, -1n],
    [3n, 3n, 1n],
    [-(2n ** 63n), 2n ** 63n - 1n, 2n ** 63n - 1n],
  ];
  for (const [start, stop, step] of cases) {
    const expected: bigint[] = [];
    for (let i = start; step > 0n ? i < stop : i > stop; i += step) expected.push(i);
    assertEquals(arange(start, stop, step).toArray({ bigint: true }), expected);
  }
  assertEquals(arange(big, big + 2n, 1n, { dtype: "uint64" }).dtype, "uint64");
  assertEquals(arange(3n, { dtype: "int8" }).dtype, "int8");
  assertEquals(arange(3n, { dtype: "float32" }).toArray(), [0, 1, 2]);
  assertEquals(arange(2n, { dtype: "bool" }).toArray(), [false, true]);
  assertRefused(() => loose(arange)(0n, 5), ShapeError, "Cannot arange with 5 beside a bigint");
  assertRefused(() => loose(arange)(0, 5n), ShapeError, "Cannot arange with 5n: expected a finite");
  assertRefused(() => loose(arange)(0n, 5n, 1), ShapeError, "with 1 beside a bigint");
  assertRefused(() => arange(0n, 5n, 0n), IndexError, "step 0n");
  assertRefused(() => arange(2n ** 70n), ShapeError, ["arange", "2^53"]);
  assertRefused(
    () => arange(2n ** 63n, 2n ** 63n + 1n),
    DTypeError,
    "9223372036854775808n to int64",
  );
  assertRefused(() => arange(300n, { dtype: "uint8" }), DTypeError, "arange 299n to uint8");
});

test("Creation: zeros are zeros in memory that was used before", () => {
  for (const size of [7, 5000, 50_000]) {
    full([size], 9).dispose();
    assertEquals(zeros([size]).sum().item(), 0);
  }
});

test("Creation: rows of any length are filled, and nothing beside them", () => {
  for (const dtype of ["bool", "int8", "uint16", "float16", "float32", "int64"] as const) {
    for (const n of [3, 63, 64, 65, 1030]) {
      const x = loose(zeros([2, n + 2], { dtype }));
      x.slice(":, 1:-1").fill_(1);
      const row = [0, ...new Array<number>(n).fill(1), 0];
      assertEquals(x.toArray().map((line: unknown[]) => line.map(Number)), [row, row]);
      // A row each of its own.
      const lines = [0, 1].map((value) => new Array<number>(n).fill(value));
      const column = loose(tensor([[0], [1]])).astype(dtype);
      const wide = column.broadcastTo([2, n]).toOwned();
      assertEquals(wide.toArray().map((line: unknown[]) => line.map(Number)), lines);
    }
  }
});

test("Creation: from nested arrays, copied; ragged ones are refused", () => {
  const data = [[1, 2], [3, 4]];
  const x = tensor(data);
  data[0]![0] = 9;
  assertEquals(x.toArray(), [[1, 2], [3, 4]]);
  assertRefused(() => tensor(loose([[1, 2], [3]])), ShapeError, ["ragged", "axis 1"]);
  assertRefused(() => tensor(loose([1, [2]])), ShapeError, "ragged");
  assertRefused(() => tensor(loose([[1], 2])), ShapeError, "ragged");
  // Nothing is allocated for the length that the first elements suggest.
  const long = new Array(1e6).fill(0);
  assertRefused(() => tensor(loose([long, ...long])), ShapeError, "ragged");
  for (const promised of [new Array(2 ** 32 - 1), [new Array(2 ** 32 - 1)]]) {
    assertRefused(() => tensor(loose(promised)), DTypeError, "undefined");
  }
  const sparse: unknown[] = new Array(2e8);
  sparse[0] = [1];
  assertRefused(() => tensor(loose(sparse)), ShapeError, "ragged");
  let reads = 0;
  const shrinking = [[1], [2], [3]];
  const get = () => {
    if (++reads === 1) shrinking.length = 1;
    return [1];
  };
  Object.defineProperty(shrinking, 0, { get });
  assertRefused(() => tensor(shrinking), ShapeError, "ragged");
  const holes = [[1], [2]];
  delete holes[0];
  assertEquals(tensor(loose([[], []])).shape, [2, 0]);
  assertRefused(() => tensor(holes), DTypeError, "undefined");
  assertRefused(() => tensor(holes.toReversed()), ShapeError, "ragged");
  assertRefused(() => tensor([new Array(2), [1, 2]]), DTypeError, "undefined");
  assertRefused(() => tensor([[1, 2], new Array(2)]), DTypeError, "undefined");
  assertEquals(tensor([[[1, 2]], [[3, 4.5]]]).toArray(), [[[1, 2]], [[3, 4.5]]]);
  assertEquals(tensor([[1, 300], [-1, 2]], { dtype: "int16" }).toArray(), [[1, 300], [-1, 2]]);
  assertRefused(() => tensor([[1, 300]], { dtype: "uint8" }), DTypeError, ["300", "uint8"]);
});

test("Creation: numbers make float32, bigints int64, booleans bool, typed arrays their own", () => {
  assertEquals(tensor([1]).dtype, "float32");
  assertEquals(tensor([1n]).dtype, "int64");
  assertEquals(tensor([true]).dtype, "bool");
  assertEquals(tensor(new Uint16Array(2)).dtype, "uint16");
  assertEquals(tensor(new Float64Array(2)).dtype, "float64");
  assertEquals(tensor([1, 2], { dtype: "uint8" }).dtype, "uint8");
  assertRefused(() => tensor(loose([1, 2n])), DTypeError, ["number", "bigint"]);
});

test("Creation: a class that extends a typed array counts as that, other views are refused", () => {
  class Samples extends Float64Array {}
  assertEquals(tensor(new Samples([1, 2])).dtype, "float64");
  assertThrows(() => loose(tensor)(new DataView(new ArrayBuffer(4))), DTypeError);
  assertThrows(
    () => loose(fromBuffer)(new DataView(new ArrayBuffer(4))),
    DTypeError,
    "DataView has no dtype",
  );
});

test("Creation: a Uint8ClampedArray makes uint8, in its type too", () => {
  const pixels = new Uint8ClampedArray([1, 2, 300]);
  const x: Tensor<"uint8", [number], "cpu"> = tensor(pixels);
  assertEquals([x.dtype, x.toArray()], ["uint8", [1, 2, 255]]);
  const y: Tensor<"uint8", [number], "cpu"> = fromBuffer(pixels);
  pixels[0] = 9;
  assertEquals(y.toArray(), [9, 2, 255]);
});

test("Creation: a value that turns into something else while it is read is refused", () => {
  for (const dtype of ["float32", "int32", "float64"] as const) {
    const row = [1, 2];
    let reads = 0;
    Object.defineProperty(row, 1, { get: () => reads++ === 0 ? 2 : "x" });
    assertThrows(() => tensor(row, { dtype }), DTypeError, "string");
  }
});

test("Creation: memory that was given stays shared after it was handed out", () => {
  const array = new Float32Array(4);
  const x = loose(fromBuffer(array));
  assertEquals(x.data.buffer === array.buffer, true);
  array[0] = 5;
  assertEquals([x.get(0), x.data[0]], [5, 5]);
});

test("Creation: a buffer has whole elements", () => {
  const of = loose(fromBuffer);
  assertThrows(() => of(new ArrayBuffer(10), { dtype: "float32" }), ShapeError, "10");
  assertEquals(of(new ArrayBuffer(8), { dtype: "float32" }).shape, [2]);
});

test("Creation: values of several kinds need a dtype, and then are taken", () => {
  const mixed = [1, 2n, true];
  assertThrows(() => loose(tensor)(mixed), DTypeError, "say which dtype is meant");
  assertEquals(loose(tensor)(mixed, { dtype: "int64" }).toArray({ bigint: true }), [1n, 2n, 1n]);
  assertEquals(loose(tensor)(mixed, { dtype: "float64" }).toArray(), [1, 2, 1]);
});

test("Creation: a linear space ends exactly at its stop", () => {
  for (let count = 2; count < 60; count++) {
    const x = linspace(0.1, 0.7, count, { dtype: "float64" });
    assertEquals([x.get(0), x.get(count - 1)], [0.1, 0.7]);
  }
});

/** `np.linspace(start, stop, count, endpoint=endpoint, dtype=np.int32)`, by NumPy 2.4. */
const INTEGER_LINES: [
  start: number,
  stop: number,
  count: number,
  closed: number[],
  open: number[],
][] = [
  [-3, 3, 6, [-3, -2, -1, 0, 1, 3], [-3, -2, -1, 0, 1, 2]],
  [0, 1, 5, [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]],
  [-1, 1, 4, [-1, -1, 0, 1], [-1, -1, 0, 0]],
  [5, -5, 7, [5, 3, 1, 0, -2, -4, -5], [5, 3, 2, 0, -1, -3, -4]],
  [-2.5, 2.5, 6, [-3, -2, -1, 0, 1, 2], [-3, -2, -1, 0, 0, 1]],
  [0, 10, 4, [0, 3, 6, 10], [0, 2, 5, 7]],
  [-7, -1, 4, [-7, -5, -3, -1], [-7, -6, -4, -3]],
  [3, -4, 3, [3, -1, -4], [3, 0, -2]],
];

test("Creation: a linear space of integers rounds down, like NumPy's", () => {
  for (const [start, stop, count, closed, open] of INTEGER_LINES) {
    for (const dtype of ["int32", "int64", "int8"] as const) {
      assertEquals(linspace(start, stop, count, { dtype }).toArray(), closed);
      assertEquals(linspace(start, stop, count, { dtype, endpoint: false }).toArray(), open);
    }
  }
  assertThrows(() => linspace(-0.5, 3, 6, { dtype: "uint8" }), DTypeError, "it is outside 0 to");
  assertThrows(() => linspace(0, 1, 3, { dtype: "bool" }), DTypeError, "Cannot linspace 0.5");
  assertEquals(linspace(0, 1, 2, { dtype: "bool" }).toArray(), [false, true]);
});

test("Creation: long ranges are exact, whatever the step", () => {
  for (const [start, step] of [[0, 3], [7, -2], [-20000, 5]] as const) {
    for (const dtype of ["int32", "float32", "float64"] as const) {
      const x = loose(arange)(start, start + 20_000 * step, step, { dtype });
      const expected = Float64Array.from({ length: 20_000 }, (_, i) => start + i * step);
      assertEquals(Float64Array.from(x.data), expected);
    }
  }
});

test("Creation: grids swap the first two axes of any number, unless told otherwise", () => {
  const vectors = [arange(2), arange(3), arange(4)];
  const shapes = (grids: readonly { shape: readonly number[] }[]) =>
    grids.map(({ shape }) => shape);
  assertEquals(shapes(meshgrid(vectors)), new Array(3).fill([3, 2, 4]));
  assertEquals(shapes(meshgrid(vectors, { indexing: "ij" })), new Array(3).fill([2, 3, 4]));
  const [x, y, z] = meshgrid(vectors).map((grid) => loose(grid).get(2, 1, 3));
  assertEquals([x, y, z], [1, 2, 3]);
});

test("Creation: every value fills, those next to 0 and -0 too", () => {
  for (const value of [-1, 1, 0, -0, NaN]) {
    const x = full([3], value);
    for (const element of x.data) assertEquals(Object.is(element, value), true, String(value));
  }
  assertEquals(full([2], false, { dtype: "bool" }).toArray(), [false, false]);
});

test("Creation: a range that starts below its dtype is refused", () => {
  const range = loose(arange);
  assertThrows(() => range(-3, 2, 1, { dtype: "uint8" }), DTypeError, "-3");
  assertThrows(() => range(-129, -120, 1, { dtype: "int8" }), DTypeError, "-129");
  assertThrows(() => range(250, 257, 1, { dtype: "uint8" }), DTypeError, "256");
  assertEquals(range(-128, -126, 1, { dtype: "int8" }).toArray(), [-128, -127]);
});

test("Creation: from a buffer and a shape, in the same memory", () => {
  const data = Float32Array.from([1, 2, 3, 4, 5, 6]);
  const x = fromBuffer(data, { shape: [2, 3] });
  assertEquals(x.toArray(), [[1, 2, 3], [4, 5, 6]]);
  data[4] = 50;
  assertEquals(x.get(1, 1), 50);
  x.set([0, 0], 10);
  assertEquals(data[0], 10);
  assertFalse(sharesBuffer(tensor(data, { shape: [2, 3] }), x));
});

test("Creation: a buffer of another length than the shape is a ShapeError", () => {
  const six = new Float32Array(6);
  assertRefused(() => fromBuffer(six, { shape: [2, 2] }), ShapeError, ["[2, 2]", "6", "4"]);
  assertRefused(() => fromBuffer(six, { shape: [2, 4] }), ShapeError, ["[2, 4]", "6"]);
  assertRefused(() => tensor(six, { shape: [7] }), ShapeError, ["[7]", "6"]);
  assertRefused(() => tensor([1, 2, 3], { shape: [2] }), ShapeError, ["[2]", "3"]);
});

test("Creation: strides and an offset of a buffer must stay inside it", () => {
  const data = Float32Array.from([0, 1, 2, 3, 4, 5]);
  const x = fromBuffer(data, { shape: [3, 2], strides: [1, 3] });
  assertEquals(x.toArray(), [[0, 3], [1, 4], [2, 5]]);
  const reversed = fromBuffer(data, { shape: [6], strides: [-1], offset: 5 });
  assertEquals(reversed.toArray(), [5, 4, 3, 2, 1, 0]);
  const outside = [
    { shape: [3, 2], strides: [1, 4] },
    { shape: [6], strides: [-1], offset: 4 },
    { shape: [6], offset: 1 },
  ];
  for (const options of outside) {
    assertRefused(() => fromBuffer(data, loose(options)), ShapeError, "6 elements");
  }
  assertRefused(() => fromBuffer(data, { shape: [1], offset: -1 }), IndexError, "-1");
  assertRefused(() => fromBuffer(data, { shape: [1], offset: 0.5 }), IndexError, "0.5");
});

test("Creation: ranges, linear spaces and identity matrices", () => {
  assertEquals(arange(3).toArray(), [0, 1, 2]);
  assertEquals(arange(5, 1, -2).toArray(), [5, 3]);
  assertEquals(arange(2, 2).toArray(), []);
  assertEquals(linspace(0, 1, 5).toArray(), [0, 0.25, 0.5, 0.75, 1]);
  assertEquals(linspace(0, 1, 4, { endpoint: false }).toArray(), [0, 0.25, 0.5, 0.75]);
  assertEquals(linspace(3, 9, 1).toArray(), [3]);
  assertEquals(eye(2, 3, { k: 1 }).toArray(), [[0, 1, 0], [0, 0, 1]]);
  assertEquals(eye(2, { k: -1, dtype: "int8" }).toArray(), [[0, 0], [1, 0]]);
  assertEquals(eye(2, undefined, { dtype: "int8" }).dtype, "int8");
});

test("Extremes: tensors of the smallest and largest finite value of each dtype", () => {
  assertEquals(fullMin([2]).toArray(), [-3.4028234663852886e38, -3.4028234663852886e38]);
  assertEquals(fullMax([1]).item(), 3.4028234663852886e38);
  assertEquals(fullMin([1], { dtype: "float64" }).item(), -Number.MAX_VALUE);
  assertEquals(fullMin([1], { dtype: "int8" }).item(), -128);
  assertEquals(fullMax([1], { dtype: "uint32" }).item(), 4294967295);
  assertEquals(fullMax([1], { dtype: "int64" }).item({ bigint: true }), 2n ** 63n - 1n);
  assertEquals(fullMax([1], { dtype: "uint64" }).item({ bigint: true }), 2n ** 64n - 1n);
  assertEquals(fullMax([1], { dtype: "float16" }).item(), 65504);
  assertEquals(fullMax([1], { dtype: "bfloat16" }).item(), 3.3895313892515355e38);
  assertEquals(fullMin([1], { dtype: "bool" }).item(), false);
});

test("Extremes: they are the most negative numbers, not the smallest positive ones", () => {
  const low = fullMin([1]);
  assertEquals(low.less(-1e38).item(), true);
  assertEquals(low.isfinite().item(), true);
  assertEquals(low.mul(2).item(), -Infinity);
});

test("Extremes: finfo and iinfo tell the limits", () => {
  assertEquals(finfo("float32").min, -3.4028234663852886e38);
  assertEquals(finfo("float32").smallestNormal, 2 ** -126);
  assertEquals(finfo("float16").eps, 2 ** -10);
  assertEquals(iinfo("int16").min, -32768);
  assertEquals(iinfo("uint64").max, 2n ** 64n - 1n);
  assertRefused(() => finfo("int8"), DTypeError, "int8");
  assertRefused(() => iinfo("float32"), DTypeError, "float32");
});

test("Device: it is a property of a tensor, and moving to where it is makes a view", () => {
  const x = tensor([1, 2]);
  assertEquals(x.device, "cpu");
  assertEquals(x.add(1).device, "cpu");
  for (const y of [x.to("cpu"), x.cpu()]) {
    assertEquals(y.device, "cpu");
    assertEquals(y.toArray(), [1, 2]);
    assertEquals(sharesBuffer(x, y), true);
  }
});

test("Device: one that is not there is a DeviceError that names it", () => {
  const x = tensor([1, 2]);
  assertRefused(() => x.to(loose("quantum:0")), DeviceError, "quantum:0", x);
  assertRefused(() => zeros([2], { device: loose("quantum") }), DeviceError, "quantum");
});
