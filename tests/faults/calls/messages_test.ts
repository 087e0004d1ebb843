/**
 * Faults of messages, and of arguments that were refused with the wrong one: entry 26.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import * as rm from "../../../mod.ts";
import { BACKENDS, using } from "../../ops/table/backends.ts";
import { loose } from "../../support.ts";
import { fault } from "../support.ts";

// deno-lint-ignore no-explicit-any
type Any = any;
const lib: Any = rm;
const { io, tensor } = lib;
const x = (): Any => loose(rm.arange(6)).reshape([2, 3]);

const COUNT = 1e6;
const many = (one: unknown): Any => new Array(COUNT).fill(one);
const text = "x".repeat(COUNT);
const digits = 10n ** 100_000n;
/** A list whose own iterator never ends. */
const endless = (): Any =>
  Object.assign([1.5, 2, 4], {
    *[Symbol.iterator]() {
      for (;;) yield 1;
    },
  });

/** Calls with lists, names and numbers of a million elements, letters and digits. */
const LONG: Record<string, () => unknown> = {
  zeros: () => lib.zeros(many(1.5)),
  "zeros of a bigint": () => lib.zeros([digits]),
  "zeros of a dtype": () => lib.zeros([2], { dtype: text }),
  "zeros on a device": () => lib.zeros([2], { device: text }),
  "zeros of a symbol": () => lib.zeros([Symbol(text)]),
  reshape: () => x().reshape(many(1.5)),
  asShape: () => x().asShape(many(2)),
  broadcastTo: () => x().broadcastTo(many(2)),
  permute: () => x().permute(many(0)),
  "permute by arguments": () => x().permute(...new Array(50_000).fill(0)),
  sum: () => x().sum(many(0)),
  "sum along a bigint": () => x().sum(digits),
  "sum with an option": () => x().sum(0, { [text]: 1 }),
  squeeze: () => x().squeeze(many(0)),
  flip: () => x().flip(many(0)),
  expandDims: () => x().expandDims(many(0)),
  tile: () => x().tile(many(1)),
  repeat: () => x().repeat(many(1)),
  roll: () => x().roll(many(1), [0]),
  pad: () => x().pad(many([1, 1])),
  "pad by pairs": () => x().pad([many(1), [0, 0]]),
  split: () => x().split(many(1.5)),
  get: () => x().get(...new Array(50_000).fill(0)),
  slice: () => x().slice(text),
  "slice by a bigint": () => x().slice(digits),
  "slice by arguments": () => x().slice(...new Array(50_000).fill(0)),
  "slice by arrays": () => x().slice(many(1.5)),
  set: () => x().set(many(0), 1),
  "set of a bigint": () => x().astype("int8").set([0], digits),
  take: () => x().take(many(1.5)),
  add: () => lib.zeros([2], { dtype: "int8" }).add(digits),
  "add of a string": () => x().add(text),
  full: () => lib.full([2], digits, { dtype: "int8" }),
  asRank: () => x().asRank(digits),
  to: () => x().to(text),
  fromBuffer: () => lib.fromBuffer(new Float32Array(4), { shape: [2], strides: many(1) }),
  tensor: () => tensor([1], { shape: many(1) }),
  broadcastTensors: () =>
    lib.broadcastTensors(...Array.from({ length: 5000 }, (_, i) => lib.zeros([i + 2]))),
  toString: () => x().toString({ precision: digits }),
  image: () => lib.image(x(), { max: digits }),
  key: () => lib.random.key(digits),
  warmUp: () => lib.warmUp("cpu", [text]),
  defineOp: () => lib.defineOp({ name: text, expr: "x" }),
  "defineOp by an expression": () => lib.defineOp({ name: "longOne", expr: text }),
  "defineOp with a parameter": () =>
    lib.defineOp({ name: "longOne", expr: "x", parameters: [text] }),
  getOp: () => lib.getOp(text),
  setBackend: () => lib.setBackend(text),
  finfo: () => lib.finfo(text),
  "io.decodeNpy": () => io.decodeNpy(new Uint8Array(10), { file: text }),
  "io.decodeNpz": () => io.decodeNpz(io.encodeNpz({ a: x() }), { names: [text] }),
  "io.decodeSafetensors": () => io.decodeSafetensors(io.encodeSafetensors({ a: x() })).get(text),
  "io.encodeSafetensors": () => io.encodeSafetensors({ a: x() }, { metadata: { [text]: 1 } }),
};

fault({
  entry: 26,
  kind: "messages are as long as what a program passes: a million sizes give megabytes",
  others: [
    "axes",
    "shapes of several tensors",
    "names of options",
    "bigints",
    "symbols",
    "names of files",
    "lists whose iterators never end",
  ],
}, () => {
  for (const [name, call] of Object.entries(LONG)) {
    const error = assertThrows(call, Error, undefined, name);
    // A path is shown whole, as long as one may be.
    const most = name === "io.decodeNpy" ? 4200 : 1000;
    assert(error.message.length < most, `${name}: ${error.message.length} characters`);
  }
  const lists: Record<string, () => unknown> = {
    reshape: () => x().reshape(endless()),
    zeros: () => lib.zeros([1.5, endless()]),
    asShape: () => x().asShape(endless()),
    pad: () => x().pad([endless(), [1, 1]]),
    take: () => x().take(endless()),
  };
  for (const [name, call] of Object.entries(lists)) {
    assert(assertThrows(call, RangeError, undefined, name).message.length < 200);
  }
  assertThrows(() => x().reshape(many(1.5).slice(0, 64)), rm.ShapeError, "1.5, 1.5]");
  const error = assertThrows(() => x().asShape(many(2)), rm.ShapeError);
  assert(error.message.includes("[2, 2, 2, 2, 2, 2, 2, 2, … 999992 more]"), error.message);
});

fault({
  entry: 26,
  kind: "the message of a wrong argument speaks of another one",
  others: ["pad by numbers and by pairs", "roll by bigints and by strings"],
}, () => {
  const calls: [() => unknown, new (text: string) => Error, string][] = [
    [
      () => x().pad([[0, 0], [-1, 0]]),
      rm.ShapeError,
      "Cannot pad axis 1 of shape [2, 3] by [-1, 0]: a width is an integer of at least 0; slice()",
    ],
    [() => x().pad(-1), rm.ShapeError, "Cannot pad shape [2, 3] by -1: a width is"],
    [() => x().pad([-1, 0]), rm.ShapeError, "Cannot pad shape [2, 3] by [-1, 0]: a width is"],
    [() => x().pad([[1, 1], [0.5, 0]]), rm.ShapeError, "Cannot pad axis 1 of shape [2, 3] by [0.5"],
    [() => x().pad([[1, 1], 2]), rm.ShapeError, "Cannot pad axis 1 of shape [2, 3] by 2: a pair"],
    [() => x().pad([[1, 1], [1]]), rm.ShapeError, "by [1]: a pair is [before, after]"],
    [() => x().roll(2n), rm.ArgumentError, "Cannot roll by 2n: a shift is an integer number"],
    [() => x().roll("2"), rm.ArgumentError, 'Cannot roll by "2": a shift is an integer number'],
    [() => x().roll([1, 2n], [0, 1]), rm.ArgumentError, "Cannot roll by 2n"],
    [() => x().roll([1, 2]), rm.AxisError, "Cannot roll by several shifts without axes"],
  ];
  for (const [call, kind, words] of calls) assertThrows(call, kind, words);
});

fault({
  entry: 26,
  kind: "masks of rank 0 are refused, which NumPy takes",
  others: ["writes", "beside other indices", "tensors of rank 0"],
}, () => {
  for (const { name, on } of BACKENDS) {
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const y = (): Any => x().to(device);
      const [yes, no] = [true, false].map((one) => tensor(one).to(device));
      const i = tensor([1, 0], { dtype: "int32" }).to(device);
      const s = tensor(3).to(device);
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
      const row = tensor([[[1, 2, 3]]]).to(device);
      assertEquals(written([":", yes], row), [[1, 2, 3], [1, 2, 3]], name);
      const z = tensor(3).to(device);
      assertEquals(z.set([z.greater(1)], 2).item(), 2, name);
      assertThrows(() => y().slice(no, i), rm.ShapeError, "Cannot slice");
    });
  }
  assertThrows(() => x().slice(true), rm.IndexError, "Cannot slice by true");
});
