/**
 * Arguments that types reject: each has its typed error that names the op, for every value, and
 * arguments that only resemble such a mistake give the correct result.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  allowTF32,
  type AnyTensor,
  arange,
  ArgumentError,
  AxisError,
  concat,
  type DType,
  DTypeError,
  empty,
  eye,
  fft,
  fromBuffer,
  full,
  fullLike,
  fullMax,
  fullMin,
  IndexError,
  linalg,
  linspace,
  meshgrid,
  ones,
  OutOfMemoryError,
  promoteTypes,
  random,
  range,
  ReadOnlyError,
  scalar,
  scope,
  setBackend,
  setThreads,
  ShapeError,
  special,
  stack,
  tensor,
  where,
  zeros,
} from "../../mod.ts";
import { assertRefused, iota, loose } from "../support.ts";

/** Runs a function that must throw a plain TypeError of ours, and returns the error. */
function refusal(run: () => unknown): Error {
  const error = assertThrows(run, TypeError);
  assertEquals(error.constructor, TypeError);
  assertStringIncludes(error.message, "Cannot ");
  assert(!error.message.includes("properties of"), error.message);
  return error;
}

const key = random.key(1);
const x = iota([2, 3]);
const v = arange(5);
const m = iota([3, 3]);

/** Every function and method that takes options, with its required arguments filled in. */
const TAKES_OPTIONS: Record<string, (options?: unknown) => unknown> = {
  zeros: (o) => loose(zeros)([2], o),
  ones: (o) => loose(ones)([2], o),
  empty: (o) => loose(empty)([2], o),
  full: (o) => loose(full)([2], 1, o),
  fullMin: (o) => loose(fullMin)([2], o),
  fullMax: (o) => loose(fullMax)([2], o),
  scalar: (o) => loose(scalar)(1, o),
  "make a tensor": (o) => loose(tensor)([1, 2], o),
  "make a tensor from a buffer": (o) => loose(fromBuffer)(new Float32Array(2), o),
  arange: (o) => loose(arange)(0, 4, 1, o),
  linspace: (o) => loose(linspace)(0, 1, 3, o),
  eye: (o) => loose(eye)(2, 2, o),
  meshgrid: (o) => loose(meshgrid)([v, v], o),
  concat: (o) => loose(concat)([v, v], 0, o),
  outer: (o) => loose(v).outer(v, o),
  stack: (o) => loose(stack)([v, v], 0, o),
  uniform: (o) => loose(random.uniform)(key, [2], o),
  normal: (o) => loose(random.normal)(key, [2], o),
  integers: (o) => loose(random.integers)(key, [2], 0, 9, o),
  pad: (o) => loose(v).pad(1, o),
  sort: (o) => loose(v).sort(0, o),
  argsort: (o) => loose(v).argsort(0, o),
  topk: (o) => loose(v).topk(1, 0, o),
  median: (o) => loose(v).median(0, o),
  nanmedian: (o) => loose(v).nanmedian(0, o),
  quantile: (o) => loose(v).quantile(0.5, 0, o),
  percentile: (o) => loose(v).percentile(50, 0, o),
  nanquantile: (o) => loose(v).nanquantile(0.5, 0, o),
  nanpercentile: (o) => loose(v).nanpercentile(50, 0, o),
  mode: (o) => loose(v).mode(0, o),
  matmul: (o) => loose(m).matmul(m, o),
  dot: (o) => loose(v).dot(v, o),
  linear: (o) => loose(m).linear(m, ones([3]), o),
  isclose: (o) => loose(v).isclose(v, o),
  allclose: (o) => loose(v).allclose(v, o),
  logsumexp: (o) => loose(v).logsumexp(0, o),
  softmax: (o) => loose(v).softmax(0, o),
  logSoftmax: (o) => loose(v).logSoftmax(0, o),
  layerNorm: (o) => loose(v).layerNorm(0, o),
  rmsNorm: (o) => loose(v).rmsNorm(0, o),
  var: (o) => loose(v).var(0, o),
  std: (o) => loose(v).std(0, o),
  norm: (o) => loose(v).norm(0, o),
  sum: (o) => loose(v).sum(0, o),
  item: (o) => loose(v).sum().item(o),
  toArray: (o) => loose(v).toArray(o),
};

for (const [op, call] of Object.entries(TAKES_OPTIONS)) {
  test(`Bad options: ${op} takes an object of its own options, or undefined`, () => {
    call();
    call(undefined);
    call({});
    for (const options of [null, 5, "float32", true, v]) {
      const error = refusal(() => call(options));
      assert(error.message.startsWith(`Cannot ${op}`), error.message);
      assertStringIncludes(error.message, "options come last");
    }
    const misspelt = refusal(() => call({ dTypo: "int32" }));
    assert(misspelt.message.includes(op) && misspelt.message.includes("dTypo"));
  });
}

test("Bad options: arange takes its options after a lone stop, or fourth", () => {
  assertEquals(arange(3, { dtype: "int8" }).dtype, "int8");
  assertEquals(loose(arange)(3, undefined).shape, [3]);
  assertEquals(loose(arange)(1, 3, undefined, { dtype: "int8" }).toArray(), [1, 2]);
  refusal(() => loose(arange)(3, null));
  refusal(() => loose(arange)(3, { dtypo: "int8" }));
  for (const args of [[1, undefined, 2], [], [0, 3, { dtype: "int8" }], [0, 3, null], ["3"]]) {
    assertRefused(() => loose(arange)(...args), ShapeError, ["arange", "expected a finite number"]);
  }
});

test("Bad options: eye takes its options after its rows, or third", () => {
  refusal(() => loose(eye)(2, { dtypo: "int8" }));
  refusal(() => loose(eye)(2, [2]));
  assertRefused(() => loose(eye)(2, {}, {}), ShapeError, ["eye"]);
});

test("Bad dtypes: reductions, extremes and promotion check the name", () => {
  const calls: Record<string, (dtype: unknown) => unknown> = {
    var: (dtype) => loose(x).var(null, { dtype }),
    std: (dtype) => loose(x).std(null, { dtype }),
    logsumexp: (dtype) => loose(x).logsumexp(null, { dtype }),
    fullMin: (dtype) => loose(fullMin)([2], { dtype }),
    fullMax: (dtype) => loose(fullMax)([2], { dtype }),
    oneHot: (dtype) => loose(tensor([0], { dtype: "int32" })).oneHot(2, { dtype: dtype ?? "null" }),
    uniform: (dtype) => loose(random.uniform)(key, [2], { dtype }),
    normal: (dtype) => loose(random.normal)(key, [2], { dtype }),
    promote: (dtype) => loose(promoteTypes)("float32", dtype),
  };
  for (const [op, call] of Object.entries(calls)) {
    for (const dtype of ["x", "toString", 5, null, Symbol("s"), {}, Object.create(null)]) {
      assertRefused(() => call(dtype), DTypeError, [op, "is not a dtype"], x);
    }
  }
  for (const [a, b] of [["a", "b"], ["a", "a"], ["a", "int8"]]) {
    assertRefused(() => loose(promoteTypes)(a, b), DTypeError, ['"a" is not a dtype']);
  }
});

const NO_SCALARS = [
  "7",
  null,
  undefined,
  [5],
  {},
  Object.create(null),
  () => 1,
  Symbol("s"),
];

test("Bad scalars: what is no number, bigint or boolean is never written", () => {
  for (const dtype of ["float32", "int32", "int64", "bool", "float16"] as DType[]) {
    const target: AnyTensor = zeros([3], { dtype });
    const calls: Record<string, (value: unknown) => unknown> = {
      fill_: (value) => loose(target).fill_(value),
      fullLike: (value) => loose(fullLike)(target, value),
      full: (value) => loose(full)([2], value, { dtype }),
      scalar: (value) => loose(scalar)(value, { dtype }),
      set: (value) => loose(target).set([0], value),
    };
    for (const [op, call] of Object.entries(calls)) {
      for (const value of NO_SCALARS) {
        assertRefused(() => call(value), DTypeError, [`Cannot ${op}`, "expected"], target);
      }
    }
    assertRefused(() => loose(target).fill_(target), DTypeError, "fill_ an object", target);
    for (const value of NO_SCALARS) {
      if (value === undefined) continue;
      assertRefused(() => loose(target).pad(1, { value }), DTypeError, "Cannot pad", target);
    }
  }
});

test("Bad scalars: a bool takes booleans, 0 and 1", () => {
  const target = zeros([2], { dtype: "bool" });
  for (const value of [2.5, 2, -1, NaN, Infinity, 2n, -1n, 0.5]) {
    const shown = typeof value === "bigint" ? `${value}n to bool` : `${value} to bool`;
    assertRefused(() => target.fill_(value), DTypeError, ["fill_", shown], target);
    assertRefused(() => target.set([0], value), DTypeError, ["set", shown], target);
    assertRefused(() => full([2], value, { dtype: "bool" }), DTypeError, shown);
    assertRefused(() => fullLike(target, value), DTypeError, shown, target);
    assertRefused(() => target.pad(1, { value }), DTypeError, shown, target);
  }
  for (const value of [true, 1, 1n]) {
    assertEquals(full([1], value, { dtype: "bool" }).toArray(), [true]);
  }
  for (const value of [false, 0, 0n, -0]) {
    assertEquals(ones([1], { dtype: "bool" }).fill_(value).toArray(), [false]);
  }
});

test("Bad scalars: isclose and allclose take tensors and scalars, and tolerances that are numbers", () => {
  for (const value of NO_SCALARS) {
    assertRefused(() => loose(v).isclose(value), DTypeError, "isclose", v);
    assertRefused(() => loose(v).allclose(value), DTypeError, "allclose", v);
  }
  for (const value of ["x", null, [1], 1n, {}]) {
    assertRefused(() => loose(v).isclose(v, { rtol: value }), DTypeError, "isclose", v);
    assertRefused(() => loose(v).allclose(v, { atol: value }), DTypeError, "allclose", v);
  }
  assertEquals(tensor([0, 1]).isclose(true).toArray(), [false, true]);
  assertEquals(tensor([0, 1]).isclose(1n).toArray(), [false, true]);
});

test("Bad structure: what takes a function, a mode or values says so", () => {
  for (const body of [5, null, {}]) {
    const error = refusal(() => loose(scope)(body));
    assertStringIncludes(error.message, "Cannot scope ");
    assertStringIncludes(error.message, "expected a function");
  }
  for (const mode of ["mirrored", 5, null]) {
    const modes = ["pad with mode", '"constant", "edge", "reflect", "symmetric" or "wrap"'];
    assertRefused(() => loose(x).pad(1, { mode }), ArgumentError, modes, x);
  }
  const nested: [unknown, string][] = [
    [[x, x], "Cannot make a tensor of an array of tensors: stack() and concat() join them"],
    [[[x], [x]], "stack()"],
    [
      [new Float32Array(2), new Float32Array(2)],
      "typed arrays: make one of each, and stack() them",
    ],
    [[{}], "of object"],
  ];
  for (const [data, message] of nested) {
    assertRefused(() => loose(tensor)(data), DTypeError, message, x);
  }
});

test("Bad structure: functions of namespaces refuse what is no number and no options", () => {
  const key = random.key(1);
  const one = Symbol("one");
  const calls: [() => unknown, string][] = [
    [() => loose(random).truncatedNormal(key, [2], { low: 1n }), "with low 1n"],
    [() => loose(random).truncatedNormal(key, [2], { mean: one }), "with mean"],
    [() => loose(fft).fftfreq(1n), "fftfreq() needs an integer"],
    [() => loose(fft).rfftfreq(one), "rfftfreq() needs an integer"],
    [() => loose(linalg).vectorNorm(x, { ord: one }), "Cannot vectorNorm with ord"],
  ];
  for (const [call, message] of calls) assertRefused(call, ArgumentError, message, x);
  for (const name of ["beta", "betaln"]) {
    const error = refusal(() => loose(special)[name](x, x, null));
    assertStringIncludes(error.message, `Cannot ${name}: options come last`);
  }
});

test("Bad structure: permute names the way to write the axes of an array", () => {
  for (const op of ["permute", "permuteDims"]) {
    const message = `Cannot ${op} by an array: axes are arguments of their own, ${op}(1, 0)`;
    assertRefused(() => loose(x)[op]([1, 0]), AxisError, message, x);
    assertRefused(() => loose(x)[op](null), AxisError, op, x);
  }
});

test("Bad structure: repeat takes counts, whose sum is bounded and not their product", () => {
  for (const counts of [null, "2", {}, 2n, [1, -1], [1, 0.5], [1, "1"], [1, 1n], [NaN, 1]]) {
    assertRefused(() => loose(x).repeat(counts, 0), ShapeError, "Cannot repeat by ", x);
  }
  assertRefused(() => loose(x).repeat([2 ** 53, 1], 0), ShapeError, ["repeat", "2^53"], x);
  assertRefused(() => loose(x).repeat([1, 2, 3], 0), ShapeError, ["repeat axis 0", "3 counts"], x);
  const many = arange(60).repeat(new Array(60).fill(2));
  assertEquals(many.shape, [120]);
  assertEquals(many.slice("-3:").toArray(), [58, 59, 59]);
  assertEquals(loose(arange(3)).repeat([0, -0, 2]).toArray(), [2, 2]);
});

test("Bad seeds: no integer, one that a number does not hold, or of more than 64 bits", () => {
  const makers: [string, (seed: never) => unknown][] = [
    ["make a key of", random.key],
    ["foldIn", (seed) => random.foldIn(key, seed)],
  ];
  for (const [op, make] of makers) {
    const bad: [unknown, string][] = [
      ["5", `Cannot ${op} "5": it is not an integer`],
      [0.5, `Cannot ${op} 0.5: it is not an integer`],
      [NaN, `Cannot ${op} NaN: it is not an integer`],
      [2 ** 60, "give a bigint"],
      [2n ** 64n, `Cannot ${op} 18446744073709551616n: it has more than 64 bits`],
      [-(2n ** 63n) - 1n, "more than 64 bits"],
    ];
    for (const [seed, message] of bad) {
      assertRefused(() => make(seed as never), ArgumentError, message);
    }
    assertEquals(make(-1 as never), make(2n ** 64n - 1n as never));
    assertEquals(make(-(2n ** 63n) as never), make(2n ** 63n as never));
  }
});

test("Bad structure: split, pad, broadcastTo, asShape and meshgrid name what they got", () => {
  for (const parts of [null, "a", {}, v, Symbol("s")]) {
    assertRefused(() => loose(x).split(parts), ShapeError, ["split", "[2, 3]"], x);
  }
  assertRefused(() => loose(v).split([1, Symbol("s")]), IndexError, ["split", "Symbol(s)"], v);
  for (
    const widths of [
      null,
      "x",
      {},
      [],
      [[1, 1]],
      [[1, 1], 2],
      [[1], [1]],
      [[1, 2, 3], [1, 2, 3]],
      [1],
      [1, 2, 3],
      [1, "a"],
      [null, null],
      -1,
      0.5,
      [[1, 1], [1, Symbol("s")]],
    ]
  ) assertRefused(() => loose(x).pad(widths), ShapeError, "pad", x);
  assertRefused(() => tensor(1).pad(-1), ShapeError, "pad");
  assertEquals(loose(tensor(1)).pad([]).shape, []);
  assertEquals(x.pad([1, 2]).shape, [5, 6]);
  assertEquals(x.pad([[1, 0], [0, 2]]).shape, [3, 5]);
  for (const shape of [null, undefined, 5, "ab", {}, Symbol("s")]) {
    assertRefused(() => loose(x).broadcastTo(shape), ShapeError, "broadcast", x);
    assertRefused(() => loose(tensor(1)).broadcastTo(shape), ShapeError, "broadcast");
  }
  for (const shape of [5, "ab", {}, Symbol("s"), [2, Symbol("s")]]) {
    assertRefused(() => loose(x).asShape(shape), ShapeError, ["asShape", "[2, 3]"], x);
  }
  for (const list of [5, null, undefined, {}, "ab"]) {
    assertRefused(() => loose(meshgrid)(list), ShapeError, "meshgrid");
  }
});

test("Bad structure: pad and roll name the width, pair, shift or axis at fault", () => {
  const calls: [() => unknown, new (text: string) => Error, string][] = [
    [
      () => loose(x).pad([[0, 0], [-1, 0]]),
      ShapeError,
      "Cannot pad axis 1 of shape [2, 3] by [-1, 0]: a width is an integer of at least 0; slice()",
    ],
    [() => loose(x).pad(-1), ShapeError, "Cannot pad shape [2, 3] by -1: a width is"],
    [() => loose(x).pad([-1, 0]), ShapeError, "Cannot pad shape [2, 3] by [-1, 0]: a width is"],
    [
      () => loose(x).pad([[1, 1], [0.5, 0]]),
      ShapeError,
      "Cannot pad axis 1 of shape [2, 3] by [0.5",
    ],
    [() => loose(x).pad([[1, 1], 2]), ShapeError, "Cannot pad axis 1 of shape [2, 3] by 2: a pair"],
    [() => loose(x).pad([[1, 1], [1]]), ShapeError, "by [1]: a pair is [before, after]"],
    [() => loose(x).roll(2n), ArgumentError, "Cannot roll by 2n: a shift is an integer number"],
    [() => loose(x).roll("2"), ArgumentError, 'Cannot roll by "2": a shift is an integer number'],
    [() => loose(x).roll([1, 2n], [0, 1]), ArgumentError, "Cannot roll by 2n"],
    [() => loose(x).roll([1, 2]), AxisError, "Cannot roll by several shifts without axes"],
  ];
  for (const [call, kind, words] of calls) assertRefused(call, kind, words, x);
});

test("Bad indexes: take and its kin refuse what is no integer", () => {
  const target = iota([2, 3]);
  const calls: Record<string, (indexes: unknown) => unknown> = {
    take: (indexes) => loose(target).take(indexes, 0),
    takeAlongAxis: (indexes) => loose(target).takeAlongAxis(indexes, 0),
    putAlongAxis_: (indexes) => loose(target).putAlongAxis_(indexes, 1, 0),
  };
  for (const [op, call] of Object.entries(calls)) {
    for (const indexes of [null, undefined, "a", {}, true, Symbol("s"), [true, false], 1n]) {
      assertRefused(() => call(indexes), DTypeError, [op, "indexes are integers"], target);
    }
    for (const indexes of [1.5, NaN, Infinity, [0, 1.5], [0, "1"], [0, true], [Symbol("s")]]) {
      assertRefused(() => call(indexes), IndexError, [op, "an index is an integer"], target);
    }
  }
  for (const index of [2, -3, 2 ** 31, 2 ** 32, -(2 ** 32), 2 ** 53, 1e300]) {
    assertRefused(() => target.take(index, 0), IndexError, ["take axis 0", "size 2"], target);
    assertRefused(() => target.take([0, index], 0), IndexError, ["take", "[2, 3]"], target);
  }
});

test("Bad indexes: integers beyond int32 do not wrap into range", () => {
  for (const index of [2 ** 32 + 1, 2 ** 31, -(2 ** 32), 2 ** 53, -1e300]) {
    assertRefused(() => v.slice([index]), IndexError, ["axis 0", "[5]"], v);
    assertRefused(() => v.slice([1, index]), IndexError, "axis 0", v);
    assertRefused(() => v.toOwned().set([[index]], 1), IndexError, "axis 0");
  }
  assertRefused(() => v.slice([2 ** 32 + 1]), IndexError, "4294967297", v);
});

test("Bad symbols: messages show them", () => {
  const s = Symbol("s");
  const calls: [() => unknown, abstract new (...args: never[]) => Error][] = [
    [() => loose(x).get(s), IndexError],
    [() => loose(x).get(0, s), IndexError],
    [() => loose(eye)(s), ShapeError],
    [() => loose(eye)(2, 2, { k: s }), ArgumentError],
    [() => loose(linspace)(0, 1, s), ShapeError],
    [() => loose(linspace)(s, 1, 2), ShapeError],
    [() => loose(random.permutation)(key, s), ArgumentError],
    [() => loose(x).reshape([s, 2]), ShapeError],
    [() => loose(x).permute(s, 0), AxisError],
    [() => loose(zeros)([s]), ShapeError],
  ];
  for (const [call, kind] of calls) assertRefused(call, kind, "Symbol(s)", x);
});

test("Bad values: messages show bigints with their n, and strings in quotes", () => {
  const calls: [() => unknown, string][] = [
    [() => loose(zeros)([2n]), "Cannot zeros shape [2n]: axis 0 has size 2n"],
    [() => loose(x).slice(1n), "Cannot slice by 1n: "],
    [() => loose(x).get(0, "1"), 'axis 1 of shape [2, 3] at "1"'],
    [() => loose(x).sum(1n), "Cannot sum along axis 1n: "],
    [() => loose(x).argmax("1"), 'Cannot argmax along axis "1": '],
    [() => [...loose(x).iterate(0, 2n)], "by step 2n"],
    [() => loose(x).asRank("2"), 'as rank "2": '],
    [() => loose(range)(0, 2n), "with stop 2n: "],
    [() => loose(zeros)([2], { dtype: "float" }), 'Cannot zeros: "float" is not a dtype'],
    [() => loose(zeros)([2], { device: "gpu" }), 'Cannot zeros on "gpu": '],
    [() => full([2], 300n, { dtype: "uint8" }), "Cannot full 300n to uint8: "],
    [() => random.integers(key, [2], 5n, 5n), "from 5n to 5n: "],
    [
      () => loose(random.uniform)(1n, [2]),
      "a key made by random.key(seed) as its first argument, got 1n",
    ],
    [
      () => loose(random.split)("1"),
      "split() needs a key made by ",
    ],
    [() => loose(setThreads)("2"), 'from 0 to 256, got "2"'],
    [() => loose(setThreads)(2n), "from 0 to 256, got 2n"],
    [() => setThreads(-1), "from 0 to 256, got -1"],
    [() => loose(setBackend)("c"), 'Cannot use backend "c": '],
  ];
  for (const [call, part] of calls) assertStringIncludes(assertThrows(call, Error).message, part);
});

test("Bad sizes: nested without end, or more parts than memory holds", () => {
  const endless: unknown[] = [];
  endless.push(endless);
  assertRefused(() => tensor(endless as never), ShapeError, ["nested", "64"]);
  let deep: unknown = 1;
  for (let i = 0; i < 64; i++) deep = [deep];
  assertEquals(loose(tensor)(deep).shape, new Array(64).fill(1));
  assertRefused(() => loose(tensor)([deep]), ShapeError, "nested");

  for (const count of [2 ** 40, 2 ** 28]) {
    assertRefused(() => random.split(key, count), ArgumentError, ["split a key", `${count}`]);
    const many = loose(ones([1])).broadcastTo([count]);
    assertRefused(() => many.unstack(), ShapeError, ["unstack", `[${count}]`]);
    assertRefused(() => many.split(count), ShapeError, ["split", `[${count}]`]);
    const batch = loose(ones([1, 1])).broadcastTo([count, 1, 1]);
    assertRefused(() => batch.matmul(ones([1, 1])), ShapeError, ["matmul", `[${count}, 1, 1]`]);
  }
  assertRefused(() => zeros([0]).split(2 ** 40), ShapeError, "split");
  assertEquals(loose(zeros([1, 0])).broadcastTo([2 ** 28, 1, 0]).matmul(zeros([0, 0])).size, 0);
  // The mode with the most parts; each failed allocation costs V8 several collections.
  assertRefused(() => v.pad(2 ** 45, { mode: "wrap" }), OutOfMemoryError, "bytes", v);
  assertRefused(() => v.repeat([2 ** 45, 0, 0, 0, 0], 0), OutOfMemoryError, "bytes", v);
});

test("Edge values: oneHot counts classes beyond the dtype of its indexes", () => {
  for (const dtype of ["uint8", "int8", "uint16", "int32", "uint32", "int64", "uint64"] as const) {
    const made = tensor([0, 44], { dtype }).oneHot(300);
    assertEquals(made.sum(1).toArray(), [1, 1]);
    assertEquals(made.argmax(1).toArray(), [0, 44]);
  }
  const wide = tensor([-(2n ** 40n), 2n ** 32n]);
  assertRefused(() => wide.slice("0:1").oneHot(3), IndexError, ["oneHot", "3 classes"], wide);
  assertRefused(() => wide.slice("1:").oneHot(3), IndexError, "oneHot 4294967296", wide);
});

test("Edge values: tril and triu clamp their diagonal", () => {
  for (const k of [2 ** 31, 2 ** 40, 1e300, 3]) {
    assertEquals(x.tril(k).toArray(), x.toArray());
    assertEquals(loose(x.triu(k)).sum().item(), 0);
    assertEquals(loose(x.tril(-k)).sum().item(), 0);
    assertEquals(x.triu(-k).toArray(), x.toArray());
  }
  assertEquals(x.triu(2).toArray(), [[0, 0, 2], [0, 0, 0]]);
  assertEquals(x.tril(-1).toArray(), [[0, 0, 0], [3, 0, 0]]);
});

test("Edge values: random bounds must be finite in the dtype, and so must their difference", () => {
  const bounds: [number, number, DType][] = [
    [-1e308, 1e308, "float64"],
    [0, 1e6, "float16"],
    [-1e6, 0, "float16"],
    [-4e4, 4e4, "float16"],
    [0, 1e39, "float32"],
  ];
  for (const [low, high, dtype] of bounds) {
    assertRefused(
      () => random.uniform(key, [3], { low, high, dtype }),
      DTypeError,
      ["uniform", dtype],
    );
  }
  for (const options of [{ mean: -1e6 }, { std: 1e6 }]) {
    assertRefused(
      () => random.normal(key, [3], { ...options, dtype: "float16" }),
      DTypeError,
      ["normal", "float16"],
    );
  }
  const wide = loose(random.uniform(key, [100], { low: -3e4, high: 3e4, dtype: "float16" }));
  assert(wide.abs().max().item() < 3e4 && wide.std().item() > 1e4);
});

test("Edge values: linspace over more than float64 spans has no NaN", () => {
  const ends = { dtype: "float64" } as const;
  assertEquals(linspace(-1e308, 1e308, 3, ends).toArray(), [-1e308, 0, 1e308]);
  assertEquals(
    linspace(1.5e308, -1.5e308, 3, { ...ends, endpoint: false }).toArray()
      .map((value) => Math.round(value / 1e307)),
    [15, 5, -5],
  );
});

// Rounding each value would make steps of several sizes.
test("Edge values: arange checks every value against an integer dtype", () => {
  assertRefused(() => arange(0, 1.1, 0.5, { dtype: "int32" }), DTypeError, ["arange", "0.5"]);
  assertRefused(() => arange(0, 300, 1, { dtype: "uint8" }), DTypeError, ["arange", "256"]);
  assertRefused(() => arange(3, { dtype: "bool" }), DTypeError, ["arange", "2 to bool"]);
  assertEquals(arange(2, { dtype: "bool" }).toArray(), [false, true]);
});

test("Edge values: linear promotes its bias, and its errors name it", () => {
  const dtypes = ["int32", "float32", "float64", "bool"] as const;
  for (const dtype of dtypes) {
    const a = tensor([[1, 2]], { dtype: "int32" });
    const weight = tensor([[1, 1], [1, 0]], { dtype: "int32" });
    const made = a.linear(weight, ones([2], { dtype }));
    assertEquals(made.dtype, dtype === "bool" ? "int32" : dtype as never);
    assertEquals(made.toArray(), [[4, 2]]);
    const out = loose(zeros([2, 1], { dtype })).transpose();
    if (dtype !== "bool") {
      assertEquals(loose(a).linear(weight, ones([2], { dtype }), { out }), out);
      assertEquals(out.toArray(), [[4, 2]]);
    }
  }
  const [a, bias] = [ones([1, 2]), ones([2])];
  const weight = ones([2, 2]);
  const bad = zeros([3]);
  assertRefused(() => loose(a).linear(weight, bias, { out: bad }), ShapeError, "linear", a, bad);
  const ints = zeros([1, 2], { dtype: "int32" });
  assertRefused(() => loose(a).linear(weight, bias, { out: ints }), DTypeError, "linear", ints);
  const unsigned = ones([2], { dtype: "uint64" });
  const signed = ones([2, 2], { dtype: "int64" });
  assertRefused(() => loose(signed).linear(signed, unsigned), DTypeError, ["linear", "uint64"]);
});

test("Edge values: logSoftmax of large and equal values", () => {
  const rows = tensor([[1000, 1000], [-1000, 0]], { dtype: "float64" }).logSoftmax(1).toArray();
  assertEquals(rows, [[-Math.LN2, -Math.LN2], [-1000, 0]]);
  const columns = iota([2, 3]).logSoftmax(0);
  assert(columns.exp().sum(0).allclose(1));
});

test("Foreign memory: buffers that may be resized are refused", () => {
  const buffer = new ArrayBuffer(16, { maxByteLength: 64 });
  assertRefused(
    () => fromBuffer(buffer, { dtype: "float32" }),
    DTypeError,
    ["make a tensor from a buffer", "resized"],
  );
  assertRefused(() => fromBuffer(new Float32Array(buffer)), DTypeError, "resized");
  const shared = new SharedArrayBuffer(16, { maxByteLength: 64 });
  assertRefused(() => fromBuffer(new Float32Array(shared)), DTypeError, "resized");
  assertEquals(tensor(new Float32Array(buffer)).shape, [4]);
  assertEquals(fromBuffer(new SharedArrayBuffer(16), { dtype: "float32" }).shape, [4]);
});

test("Foreign memory: windows that overlap can be read, not written", () => {
  const overlapping: [shape: number[], strides: number[], offset: number][] = [
    [[3, 3], [1, 1], 0],
    [[3, 3], [-1, 1], 2],
    [[3, 2], [1, 2], 0],
    [[2, 3], [1, -1], 3],
    [[2, 2], [0, 1], 0],
    [[2, 2, 2], [1, 1, 0], 0],
  ];
  for (const [shape, strides, offset] of overlapping) {
    const bytes = Float32Array.of(1, 2, 3, 4, 5);
    const windows = loose(fromBuffer(bytes, { shape, strides, offset }));
    const first = new Array(shape.length).fill(0);
    assertEquals(windows.get(...first), bytes[offset]);
    assertRefused(() => windows.fill_(0), ReadOnlyError, ["fill_", "[", `${strides}`[0]], windows);
    assertRefused(() => windows.add_(1), ReadOnlyError, "add_", windows);
    assertRefused(() => windows.set(first, 1), ReadOnlyError, "set", windows);
    assertRefused(() => v.add(1, { out: windows.slice(0) }), ShapeError, "add", windows);
  }
  const apart: [shape: number[], strides: number[], offset: number][] = [
    [[2, 2], [3, 1], 0],
    [[2, 2], [-3, 1], 3],
    [[2, 2], [1, 3], 0],
    [[1, 3], [1, 1], 0],
    [[2, 1, 2], [2, 0, -1], 1],
    [[0, 3], [0, 0], 0],
  ];
  for (const [shape, strides, offset] of apart) {
    const x = loose(fromBuffer(new Float32Array(5), { shape, strides, offset }));
    x.fill_(2);
    assertEquals(x.sum().item(), 2 * x.size);
  }
});

test("null is no axis where one is needed: it is not the default", () => {
  for (const op of ["softmax", "logSoftmax", "layerNorm", "rmsNorm"]) {
    assertRefused(() => loose(x)[op](null), AxisError, `Cannot ${op}`, x);
    assertEquals(loose(x)[op](undefined).shape, [2, 3]);
  }
  assertRefused(() => loose(v).take([0], null), AxisError, "Cannot take", v);
});

test("only ops of two operands broadcast, and have the option", () => {
  for (
    const call of [
      () => loose(x).exp({ broadcast: false }),
      () => loose(x).clip(0, 1, { broadcast: false }),
      () => loose(where)(x.greater(0), x, 0, { broadcast: false }),
    ]
  ) assertStringIncludes(refusal(call).message, "it takes out");
  assertEquals(loose(x).add(x, { broadcast: false }).shape, [2, 3]);
});

test("norms take numbers, whatever their order; allowTF32 takes true or false", () => {
  for (const ord of [0, 1, 2, 3, Infinity]) {
    assertRefused(() => loose(x.greater(0)).norm(null, { ord }), DTypeError, "Cannot norm bool");
  }
  assertEquals(loose(iota([2, 3], "int8")).norm(null, { ord: 0 }).dtype, "float32");
  for (const one of ["yes", 1, undefined]) refusal(() => loose(allowTF32)(one));
});

test("what toString takes is checked", () => {
  for (const one of ["yes", 1, null]) refusal(() => loose(x).toString({ scientific: one }));
  refusal(() => loose(x).toString({ digits: 3 }));
  assertEquals(loose(x).toString({ scientific: true, precision: 1 }).includes("e+"), true);
});
