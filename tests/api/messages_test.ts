/**
 * Every error of a method names that method, even if the method consists of several ops. Calls all
 * methods with invalid arguments, on tensors of all kinds, a third of these calls in `npm test`;
 * none may fail with an error of JavaScript.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import * as rm from "../../mod.ts";
import { concat, full, IndexError, ones, ShapeError, stack, Tensor, zeros } from "../../mod.ts";
import { type Any, iota, loose } from "../support.ts";
import { isSampled } from "../support/amount.ts";
import { runsHere } from "../support/engine.ts";

/** Methods whose errors describe the operation in English. */
const IN_ENGLISH: Record<string, RegExp> = {
  asRank: /^Cannot take shape .* as rank /,
  broadcastTo: /^Cannot broadcast (to )?shape /,
  cuda: /^Cannot move a tensor to /,
  to: /^Cannot move a tensor to /,
};

const receivers: (() => Tensor)[] = [
  () => loose(iota([2, 3])),
  () => loose(iota([2, 2], "int64")),
  () => loose(iota([4])),
  () => loose(zeros([2, 3], { dtype: "bool" })),
  () => loose(zeros([0, 3])),
  () => loose(zeros([])),
  () => loose(iota([2, 3]).readonly()),
  () => {
    const gone = iota([2, 3]);
    gone.dispose();
    return loose(gone);
  },
];

const other = iota([7]);
const badArguments: unknown[][] = [
  [],
  ...[5, -1, 0.5, 5n, "a", true, null, {}, [0, 0, 0], other, Symbol("s")].map((one) => [one]),
  ...[0, 9, "a", other, { typo: 1 }, { out: other }, { dtype: "x" }].map((one) => [null, one]),
  ...["a", null, { typo: 1 }, { out: other }, { dtype: "x" }].map((one) => [0, one]),
  ...[1, "a", other, { typo: 1 }].map((one) => [other, one]),
  [9, 9],
  [0, 0, "a"],
  [0, 0, { typo: 1 }],
  [[5], 1],
  [[0, 0, 0], 1],
  ["a", 1],
];

/** The error of a call, if any. */
async function thrown(x: Tensor, name: string, args: unknown[]): Promise<unknown> {
  try {
    const member = loose(x)[name];
    const made = typeof member === "function" ? member.apply(x, args) : member;
    if (name === "iterate") [...made];
    await made;
    return undefined;
  } catch (error) {
    return error;
  }
}

for (const name of Object.getOwnPropertyNames(Tensor.prototype)) {
  if (name === "constructor" || !runsHere(name, 4)) continue;
  test(`Messages: what ${name} refuses, it refuses by its name`, async () => {
    for (const make of receivers) {
      for (const [i, args] of badArguments.entries()) {
        if (!isSampled(`${name} of ${receivers.indexOf(make)}, ${i}`, 3)) continue;
        const error = await thrown(make(), name, args);
        if (error === undefined) continue;
        assert(error instanceof Error);
        const named = new RegExp(`^(Cannot ${name}(?!\\w)|${name}(\\(\\))? (needs|cannot) )`).test(
          error.message,
        ) ||
          IN_ENGLISH[name]?.test(error.message) === true;
        assert(named, `${name}(${args.map((one) => String(one))}): ${error.message}`);
      }
    }
    assertEquals(other.shape, [7]);
  });
}

test("Messages: what tensors lack and other libraries have names what to write", () => {
  const x = loose(ones([2, 3]));
  const absent = Object.getPrototypeOf(Tensor.prototype);
  const names = Object.getOwnPropertyNames(absent).filter((name) => !/^-?\d+$/.test(name));
  assert(names.includes("cumsum") && names.includes("clone"));
  for (const name of names) {
    assert(!Object.hasOwn(Tensor.prototype, name), name);
    const error = assertThrows(() => x[name](0), TypeError, `Cannot ${name}: `);
    const [, instead] = /write x\.(\w+)/.exec(error.message)!;
    assert(instead! in Tensor.prototype, error.message);
  }
  for (const i of [-1, 0, 1, 9]) {
    assertThrows(() => x[i], IndexError, `Cannot read x[${i}]: write x.slice(${i})`);
    assertThrows(() => x[i] = 5, IndexError, `Cannot write x[${i}]: write x.set([${i}]`);
  }
  assertEquals(x.toArray(), [[1, 1, 1], [1, 1, 1]]);
  // Whatever lists or compares properties meets none of these.
  const keys: string[] = [];
  for (const key in x) keys.push(key);
  assertEquals(keys.filter((key) => names.includes(key) || /\d/.test(key)), []);
  assert(isDeepStrictEqual(x, ones([2, 3])) && !isDeepStrictEqual(x, ones([3, 2])));
  assertEquals([...x].length, 2);
  assertEquals(x.thing, undefined);
});

test("Messages: sizes, axes and tensors that are no array are shown as one", () => {
  const x = loose(ones([2, 3]));
  const cases: [() => unknown, new () => Error, string][] = [
    [
      () => x.reshape(3, 2),
      ShapeError,
      "Cannot reshape [2, 3] to 3: a shape is an array of sizes, such as [3] or [3, ...]",
    ],
    [
      () => x.reshape("3"),
      ShapeError,
      'Cannot reshape [2, 3] to "3": a shape is an array of sizes',
    ],
    [() => x.broadcastTo(4, 2, 3), ShapeError, "such as [4] or [4, ...]"],
    [() => x.view(3, 2), ShapeError, "Cannot view another shape: use reshape()"],
    [
      () => loose(full)(2, 3),
      ShapeError,
      "Cannot full shape 2: a shape is an array of sizes, such as [2]",
    ],
    [() => loose(ones)(2, 3), TypeError, "not 3; several sizes or axes are one array"],
    [() => x.sum(0, 1), TypeError, "not 1; several sizes or axes are one array"],
    [() => loose(concat)(x, x), ShapeError, "at least one tensor, as in concat([a, b])"],
    [() => loose(concat)(x, x, 1), ShapeError, "at least one tensor, as in concat([a, b])"],
    [() => loose(stack)(x, x), ShapeError, "as in stack([a, b])"],
    [() => loose(stack)([]), ShapeError, "Cannot stack: it takes an array of at least one tensor"],
  ];
  for (const [run, type, text] of cases) assertThrows(run, type, text);
});

const lib: Any = rm;
const { io, tensor } = lib;
const matrix = (): Any => loose(iota([2, 3]));
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
  reshape: () => matrix().reshape(many(1.5)),
  asShape: () => matrix().asShape(many(2)),
  broadcastTo: () => matrix().broadcastTo(many(2)),
  permute: () => matrix().permute(many(0)),
  "permute by arguments": () => matrix().permute(...new Array(50_000).fill(0)),
  sum: () => matrix().sum(many(0)),
  "sum along a bigint": () => matrix().sum(digits),
  "sum with an option": () => matrix().sum(0, { [text]: 1 }),
  squeeze: () => matrix().squeeze(many(0)),
  flip: () => matrix().flip(many(0)),
  expandDims: () => matrix().expandDims(many(0)),
  tile: () => matrix().tile(many(1)),
  repeat: () => matrix().repeat(many(1)),
  roll: () => matrix().roll(many(1), [0]),
  pad: () => matrix().pad(many([1, 1])),
  "pad by pairs": () => matrix().pad([many(1), [0, 0]]),
  split: () => matrix().split(many(1.5)),
  get: () => matrix().get(...new Array(50_000).fill(0)),
  slice: () => matrix().slice(text),
  "slice by a bigint": () => matrix().slice(digits),
  "slice by arguments": () => matrix().slice(...new Array(50_000).fill(0)),
  "slice by arrays": () => matrix().slice(many(1.5)),
  set: () => matrix().set(many(0), 1),
  "set of a bigint": () => matrix().astype("int8").set([0], digits),
  take: () => matrix().take(many(1.5)),
  add: () => lib.zeros([2], { dtype: "int8" }).add(digits),
  "add of a string": () => matrix().add(text),
  full: () => lib.full([2], digits, { dtype: "int8" }),
  asRank: () => matrix().asRank(digits),
  to: () => matrix().to(text),
  fromBuffer: () => lib.fromBuffer(new Float32Array(4), { shape: [2], strides: many(1) }),
  tensor: () => tensor([1], { shape: many(1) }),
  broadcastTensors: () =>
    lib.broadcastTensors(...Array.from({ length: 5000 }, (_, i) => lib.zeros([i + 2]))),
  toString: () => matrix().toString({ precision: digits }),
  image: () => lib.image(matrix(), { max: digits }),
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
  "io.decodeNpz": () => io.decodeNpz(io.encodeNpz({ a: matrix() }), { names: [text] }),
  "io.decodeSafetensors": () =>
    io.decodeSafetensors(io.encodeSafetensors({ a: matrix() })).get(text),
  "io.encodeSafetensors": () => io.encodeSafetensors({ a: matrix() }, { metadata: { [text]: 1 } }),
};

test("Messages: they stay short, however long lists, names and numbers are", () => {
  for (const [name, call] of Object.entries(LONG)) {
    const error = assertThrows(call, Error, undefined, name);
    // A path is shown whole, as long as one may be.
    const most = name === "io.decodeNpy" ? 4200 : 1000;
    assert(error.message.length < most, `${name}: ${error.message.length} characters`);
  }
  const lists: Record<string, () => unknown> = {
    reshape: () => matrix().reshape(endless()),
    zeros: () => lib.zeros([1.5, endless()]),
    asShape: () => matrix().asShape(endless()),
    pad: () => matrix().pad([endless(), [1, 1]]),
    take: () => matrix().take(endless()),
  };
  for (const [name, call] of Object.entries(lists)) {
    assert(assertThrows(call, RangeError, undefined, name).message.length < 200);
  }
  assertThrows(() => matrix().reshape(many(1.5).slice(0, 64)), ShapeError, "1.5, 1.5]");
  const error = assertThrows(() => matrix().asShape(many(2)), ShapeError);
  assert(error.message.includes("[2, 2, 2, 2, 2, 2, 2, 2, … 999992 more]"), error.message);
});
