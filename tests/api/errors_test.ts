/**
 * Bad input: every mistake has its typed error that names op, shapes and axis, and changes no
 * operand.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  type AnyTensor,
  arange,
  ArgumentError,
  AxisError,
  broadcastTensors,
  concat,
  DeviceError,
  DisposedError,
  DTypeError,
  eye,
  full,
  IndexError,
  linspace,
  meshgrid,
  ones,
  OutOfMemoryError,
  random,
  range,
  ReadOnlyError,
  ShapeError,
  Slice,
  stack,
  tensor,
  where,
  zeros,
} from "../../mod.ts";
import { NativeError } from "../../src/base/errors.ts";
import { Layout } from "../../src/base/layout.ts";
import { apply, applyInPlace } from "../../src/core/apply.ts";
import { dispatch } from "../../src/core/dispatch.ts";
import { allocate } from "../../src/memory/pool.ts";
import { Storage } from "../../src/memory/storage.ts";
import { matmul } from "../../src/ops/matmul/op.ts";
import { MAP, REDUCE } from "../../src/table/table.ts";
import { operand } from "../ops/table/operands.ts";
import { assertRefused, iota, loose } from "../support.ts";

/** Operands of every kind that a mistake could spoil. */
function operands(): AnyTensor[] {
  const x = iota([2, 3]);
  const owned = x.toOwned();
  const view = loose(iota([4, 6])).slice("1:3, ::-2");
  return [owned, view, x.intoCow(), x.toOwned().intoShared()];
}

test("Bad shapes: elementwise ops name op, shapes and axis", () => {
  const y = iota([4]);
  const message = "shapes [2, 3] and [4]: axis -1 has sizes 3 and 4";
  for (const x of operands()) {
    for (const name of ["add", "sub", "mul", "div", "pow", "hypot", "less", "maximum"]) {
      assertRefused(() => loose(x)[name](y), ShapeError, `Cannot ${name} ${message}`, x, y);
    }
    assertRefused(() => loose(x).add_(y), ShapeError, `Cannot add_ ${message}`, x, y);
    const row = loose(iota([3]));
    const fits = "the result [2, 3] does not fit the target";
    assertRefused(() => row.add_(x), ShapeError, ["Cannot add_", "[3] and [2, 3]", fits], x, row);
    assertRefused(() => row.clip_(0, x), ShapeError, ["Cannot clip_", fits], x, row);
    assertRefused(() => where(x.greater(1), loose(x), y), ShapeError, ["where", "[4]"], x, y);
  }
});

test("Bad shapes: products and joins name op and both shapes", () => {
  const [y, wide] = [iota([4]), iota([2, 4])];
  const parts = ["[2, 3]", "[4]"];
  for (const x of operands()) {
    assertRefused(() => loose(x).matmul(y), ShapeError, ["matmul", ...parts], x, y);
    assertRefused(() => loose(x).linear(iota([5, 4])), ShapeError, ["linear", "[5, 4]"], x);
    assertRefused(() => concat([x, y] as never), ShapeError, ["concat", ...parts], x, y);
    assertRefused(() => stack([x, y] as never), ShapeError, ["stack", ...parts], x, y);
    const deep = iota([2, 3, 1]);
    assertRefused(() => concat([x, deep] as never), ShapeError, ["[2, 3] and [2, 3, 1]"], x, deep);
    const joined = ["concat", "[2, 3]", "[2, 4]", "axis 1"];
    assertRefused(() => concat([x, wide] as never), ShapeError, joined, x, wide);
  }
});

test("Bad shapes: an output of another shape is left as it was", () => {
  const out = full([3, 2], 7);
  for (const x of operands()) {
    for (
      const run of [
        () => loose(x).add(1, { out }),
        () => loose(x).sum(0, { out }),
        () => loose(x).argmax(0, { out }),
        () => loose(x).matmul(iota([3, 3]), { out }),
        () => loose(x).softmax(0, { out }),
        () => loose(x).cumulativeSum(0, { out }),
        () => concat([x, x] as never, 0, { out: loose(out) }),
      ]
    ) assertRefused(run, ShapeError, "[3, 2]", x, out);
  }
});

test("Bad shapes: views name op, shape and axis", () => {
  for (const x of operands()) {
    assertRefused(() => loose(x).reshape([4]), ShapeError, ["reshape", "[2, 3]", "[4]"], x);
    assertRefused(() => loose(x).broadcastTo([2, 4]), ShapeError, ["[2, 3]", "[2, 4]"], x);
    assertRefused(() => loose(x).squeeze(1), ShapeError, ["squeeze", "axis 1"], x);
    assertRefused(() => loose(x).split(2, 1), ShapeError, ["split", "[2, 3]", "axis 1"], x);
    assertRefused(() => loose(x).item(), ShapeError, ["item", "[2, 3]"], x);
  }
});

test("Bad axes: out of range, fractional, NaN or no number, in every op that takes one", () => {
  const x = iota([2, 3]);
  const calls: [string, (axis: number) => unknown][] = [
    ["sum", (axis) => loose(x).sum(axis)],
    ["argmax", (axis) => loose(x).argmax(axis)],
    ["cumulativeSum", (axis) => loose(x).cumulativeSum(axis)],
    ["softmax", (axis) => loose(x).softmax(axis)],
    ["layerNorm", (axis) => loose(x).layerNorm(axis)],
    ["sort", (axis) => loose(x).sort(axis)],
    ["flip", (axis) => loose(x).flip(axis)],
    ["roll", (axis) => loose(x).roll(1, axis)],
    ["repeat", (axis) => loose(x).repeat(2, axis)],
    ["squeeze", (axis) => loose(x).squeeze(axis)],
    ["split", (axis) => loose(x).split(1, axis)],
    ["unstack", (axis) => loose(x).unstack(axis)],
    ["take", (axis) => loose(x).take([0], axis)],
    ["diff", (axis) => loose(x).diff(1, axis)],
    ["concat", (axis) => concat([x, x] as never, axis as never)],
    ["diagonal", (axis) => loose(x).diagonal(0, 0, axis)],
    ["iterate", (axis) => [...x.iterate(axis)]],
    ["slice", (axis) => loose(x).sliceAxis(axis, 0)],
  ];
  for (const [name, call] of calls) {
    for (const axis of [2, -3, 0.5, NaN, Infinity, "0" as never]) {
      assertRefused(() => call(axis), AxisError, [name, String(axis)], x);
    }
  }
});

test("Bad axes: one that is named twice", () => {
  const x = iota([2, 3]);
  assertRefused(() => loose(x).sum([1, -1]), AxisError, "sum", x);
  assertRefused(() => loose(x).permute(0, 0), AxisError, "permute", x);
  assertRefused(() => loose(x).flip([0, 0]), AxisError, "flip", x);
});

test("Bad sizes: NaN, fractional, negative or overflowing ones are ShapeErrors", () => {
  const makers: [string, (n: number) => unknown][] = [
    ["zeros", (n) => zeros([2, n])],
    ["ones", (n) => ones([n])],
    ["full", (n) => full([n], 1)],
    ["eye", (n) => eye(n)],
    ["linspace", (n) => linspace(0, 1, n)],
    ["uniform", (n) => random.uniform(random.key(1), [n])],
    ["oneHot", (n) => iota([2], "int32").oneHot(n)],
    ["tile", (n) => loose(iota([2])).tile([n])],
    ["repeat", (n) => loose(iota([2])).repeat(n)],
    ["pad", (n) => loose(iota([2])).pad(n)],
    ["broadcast", (n) => loose(iota([1])).broadcastTo([n])],
    ["reshape", (n) => loose(iota([2])).reshape([n, 3])],
  ];
  for (const [name, make] of makers) {
    for (const n of [NaN, 1.5, -2, Infinity, "3" as never]) {
      assertRefused(() => make(n), ShapeError, [name, String(n)]);
    }
  }
  assertRefused(() => zeros([2 ** 27, 2 ** 27]), ShapeError, ["zeros", "2^53"]);
  assertRefused(() => loose(iota([1, 1])).broadcastTo([2 ** 27, 2 ** 27]), ShapeError, "2^53");
  assertRefused(() => loose(zeros)(3), ShapeError, ["zeros", "3"]);
  assertRefused(() => arange(0, NaN), ShapeError, ["arange", "NaN"]);
  assertRefused(() => arange(0, Infinity), ShapeError, ["arange", "Infinity"]);
});

// Thousands of axes would overflow the stack, and a shape of 1e9 sizes would take seconds.
test("Bad sizes: a tensor has at most 64 axes, whatever makes it", () => {
  const long = loose(new Array(1e9));
  const sixtyFour = loose(new Array(64).fill(1));
  const pair = loose(zeros([1, 1], { dtype: "int32" }));
  const many = loose(new Array(5000).fill(1));
  const calls: Record<string, () => unknown> = {
    zeros: () => zeros(long),
    full: () => full(many, 1),
    reshape: () => loose(arange(1)).reshape(many),
    broadcastTo: () => loose(arange(1)).broadcastTo(many),
    slice: () => loose(arange(1)).slice(...new Array(64).fill(null)),
    take: () => loose(zeros(sixtyFour)).take(pair),
    "slice by a tensor": () => loose(zeros(sixtyFour)).slice(pair),
    "slice by a tensor and null": () => loose(zeros(sixtyFour)).slice(null, pair),
    stack: () => stack([zeros(sixtyFour), zeros(sixtyFour)]),
    oneHot: () => loose(zeros(sixtyFour, { dtype: "int32" })).oneHot(2),
    expandDims: () => {
      let made = loose(arange(1));
      for (let i = 0; i < 70; i++) made = made.expandDims(0);
    },
  };
  for (const [name, call] of Object.entries(calls)) {
    const error = assertThrows(call, ShapeError, "but a tensor has at most 64", name);
    // The words of the message are those of the name.
    const said = error.message.replaceAll(" ", "").toLowerCase();
    assertStringIncludes(said, `cannot${name.split(" ")[0]!.toLowerCase()}:`);
  }
  assertEquals(loose(zeros(sixtyFour)).sum().item(), 0);
});

test("Bad sizes: more memory than there is gives an OutOfMemoryError with the bytes", () => {
  const wide = loose(iota([1, 1])).broadcastTo([2 ** 26, 2 ** 26]);
  for (const run of [() => zeros([2 ** 52]), () => wide.add(1), () => wide.toOwned()]) {
    assertRefused(run, OutOfMemoryError, "bytes");
  }
});

test("Bad dtypes: unknown names, and dtypes that an op does not take", () => {
  const x = iota([2]);
  assertRefused(() => zeros([2], { dtype: loose("float") }), DTypeError, ["zeros", "float"]);
  assertRefused(() => tensor([1], { dtype: loose("toString") }), DTypeError, "toString");
  assertRefused(() => x.sum(0, { dtype: loose("int") }), DTypeError, ["sum", "int"], x);
  assertRefused(() => where(loose(x), x, x), DTypeError, ["where", "float32"], x);
  assertRefused(() => loose(x).take(x), DTypeError, ["take", "float32"], x);
  assertRefused(() => loose(x).oneHot(3), DTypeError, ["oneHot", "float32"], x);
  assertRefused(() => loose(x).add(null), DTypeError, ["add", "null"], x);
  assertRefused(() => loose(x).add(), DTypeError, ["add", "undefined"], x);
  assertRefused(() => loose(x).matmul([1, 2]), DTypeError, ["matmul", "array"], x);
  assertRefused(() => loose(tensor)("abc"), DTypeError, "string");
  assertRefused(() => loose(tensor)([1, null]), DTypeError, "null");
  assertRefused(() => tensor([1.5], { dtype: "int32" }), DTypeError, ["1.5", "int32"]);
  assertRefused(() => tensor([300], { dtype: "uint8" }), DTypeError, ["300", "uint8"]);
  assertRefused(() => full([2], NaN, { dtype: "int8" }), DTypeError, ["NaN", "int8"]);
});

test("Bad dtypes: a pair without a common dtype is named in the order of the operands", () => {
  const [x, y] = [loose(zeros([2], { dtype: "uint64" })), loose(zeros([2], { dtype: "int8" }))];
  assertRefused(() => concat([x, y] as never), DTypeError, "Cannot concat uint64 and int8", x, y);
  for (const op of ["add", "dot", "matmul", "outer"]) {
    assertRefused(() => x[op](y), DTypeError, `Cannot ${op} uint64 and int8`, x, y);
    assertRefused(() => y[op](x), DTypeError, `Cannot ${op} int8 and uint64`, x, y);
  }
});

test("Bad arguments: messages say what would do instead", () => {
  const [x, mask] = [loose(iota([2, 3])), loose(ones([2], { dtype: "bool" }))];
  assertRefused(() => mask.neg(), DTypeError, "cast with astype()", mask);
  assertRefused(() => x.add([1, 2]), DTypeError, "an array: tensor(...) makes a tensor of it", x);
  assertRefused(() => meshgrid([x] as never), ShapeError, "it takes vectors", x);
  assertThrows(() => x.toArray({ bigints: true }), TypeError, "it takes bigint");
  assertRefused(() => x.layerNorm(-1, { bias: zeros([5]) }), ShapeError, ["bias", "[5]"], x);
  assertRefused(() => x.layerNorm(-1, { weight: zeros([5]) }), ShapeError, ["weight", "[5]"], x);
  for (const axis of [[0, 1], null, "0"]) {
    assertRefused(() => x.softmax(axis), AxisError, "an axis is an integer, and", x);
  }
  for (const axis of [[], null]) {
    assertRefused(() => x.layerNorm(axis), AxisError, "name an axis or several", x);
  }
  assertEquals(loose(ones([2])).isclose(true).toArray(), [true, true]);
});

test("Bad indexes: out of range, fractional, NaN, of another kind, too many", () => {
  const x = iota([2, 3]);
  for (const index of [2, -3, 0.5, NaN, Infinity, "2", "1:2:3:4", "x", true, {}, undefined]) {
    assertRefused(() => loose(x).slice(index), IndexError, "slice", x);
    assertRefused(() => x.set([loose(index)], 0), IndexError, "Cannot s", x);
  }
  assertRefused(() => range(0.5, 2), IndexError, "0.5");
  assertRefused(() => new Slice(NaN), IndexError, "NaN");
  assertRefused(() => tensor([3], { dtype: "int32" }).oneHot(3), IndexError, ["oneHot", "3"]);
  const far = tensor([[5]], { dtype: "int32" });
  assertRefused(() => x.takeAlongAxis(far, 1), IndexError, ["axis 1", "5"], x, far);
  assertRefused(() => loose(x).putAlongAxis_(far, 9, 1), IndexError, ["axis 1", "5"], x, far);
  assertRefused(() => x.roll(0.5), ArgumentError, ["roll", "0.5"], x);
});

test("Bad steps: 0 is an IndexError wherever there is a step", () => {
  const x = iota([4]);
  assertRefused(() => loose(x).slice("::0"), IndexError, "step 0", x);
  assertRefused(() => new Slice(null, null, 0), IndexError, "step 0");
  assertRefused(() => Slice.step(0), IndexError, "step 0");
  assertRefused(() => [...x.iterate(0, 0)], IndexError, "step 0", x);
  assertRefused(() => arange(0, 5, 0), IndexError, "step 0");
});

test("Bad writes: read-only and broadcast targets are ReadOnlyErrors that name the op", () => {
  const x = iota([3]);
  const targets = [x.readonly(), loose(x).broadcastTo([2, 3])];
  for (const target of targets.map(loose)) {
    const writes: [string, () => unknown][] = [
      ["set", () => target.set(["..."], 0)],
      ["set", () => target.set([[0]], 0)],
      ["fill_", () => target.fill_(0)],
      ["add", () => target.add_(1)],
      ["exp", () => target.exp_()],
      ["add", () => target.add(1, { out: target })],
      ["sum", () => target.sum(0, { keepDims: true, out: target.slice("0:1") })],
    ];
    for (const [name, write] of writes) {
      if (name === "sum" && target.rank === 2) continue;
      assertRefused(write, ReadOnlyError, name, x, target);
    }
  }
});

test("Bad devices: an op on two devices is refused, whatever the dtypes", () => {
  class Elsewhere extends Storage {
    override get device(): string {
      return "elsewhere:0";
    }
  }
  const layout = Layout.contiguous([2]);
  const here = operand(allocate("float32", 2, true), layout);
  for (const dtype of ["float32", "float64"] as const) {
    const { array, info } = allocate(dtype, 2, true);
    const there = operand(new Elsewhere(array, info, true, false), layout);
    const parts = ["on cpu and elsewhere:0", "on elsewhere:0 and cpu"];
    assertThrows(() => apply(MAP.add, here, there), DeviceError, parts[0]);
    assertThrows(() => apply(MAP.add, there, here), DeviceError, parts[1]);
    assertThrows(() => apply(MAP.where, true, here, there), DeviceError, parts[0]);
    assertThrows(() => applyInPlace(MAP.add, "add_", there, here), DeviceError, parts[1]);
    assertThrows(() => apply(MAP.neg, here, undefined, undefined, { out: there }), DeviceError);
    assertThrows(() => dispatch(REDUCE.sum, [here], { axis: 0 }, there), DeviceError);
    assertThrows(() => matmul(here, there), DeviceError, parts[0]);
    assertThrows(() => matmul(there, here), DeviceError, parts[1]);
  }
});

test("Use after dispose or a move: every op says that the tensor is gone, by its name", () => {
  const gone: ((x: AnyTensor) => void)[] = [
    (x) => x.dispose(),
    (x) => void x.intoOwned(),
    (x) => void x.intoTypedArray(),
    (x) => void x.intoRaw(),
    (x) => void x.intoShared(),
  ];
  for (const leave of gone) {
    const x = loose(iota([2, 3]).toOwned());
    const live = iota([2, 3]);
    leave(x);
    assert(x.isDisposed);
    const uses: [string, () => unknown][] = [
      ["add", () => x.add(1)],
      ["add", () => live.add(x)],
      ["add_", () => loose(live).add_(x)],
      ["matmul", () => x.matmul(live)],
      ["sum", () => x.sum()],
      ["argmax", () => x.argmax()],
      ["softmax", () => x.softmax()],
      ["layerNorm", () => x.layerNorm()],
      ["sort", () => x.sort()],
      ["concat", () => concat([live, x] as never)],
      ["meshgrid", () => meshgrid([x] as never)],
      ["broadcastTensors", () => broadcastTensors(live, x)],
      ["where", () => where(live.greater(0), loose(x), 0)],
      ["slice", () => x.slice(0)],
      ["set", () => x.set([0, 0], 1)],
      ["set", () => live.set(["..."], x)],
      ["get", () => x.get(0, 0)],
      ["item", () => x.item()],
      ["toArray", () => x.toArray()],
      ["toTypedArray", () => x.toTypedArray()],
      ["data", () => x.data],
      ["intoOwned", () => x.intoOwned()],
      ["", () => x.dtype],
      ["nbytes", () => x.nbytes],
      ["intoCow", () => x.intoCow()],
      ["toJSON", () => x.toJSON()],
      ["asDType", () => x.asDType("float32")],
      ["intoTypedArray", () => x.intoTypedArray()],
      ["fill_", () => x.fill_(0)],
      ["", () => x.reshape([6])],
      ["", () => x.permute(1, 0)],
      ["", () => x.unsqueeze()],
      ["", () => x.astype("int32")],
      ["", () => live.add(1, { out: x })],
    ];
    for (const [name, use] of uses) {
      assertRefused(use, DisposedError, name === "" ? "Cannot" : `Cannot ${name}`, live);
    }
  }
});

test("Bad writes: limits that are both missing still need a target to write to", () => {
  const frozen = loose(iota([2]).readonly());
  assertRefused(() => frozen.clip_(), ReadOnlyError, "Cannot clip_", frozen);
  assertEquals(loose(iota([2])).clip_().toArray(), [0, 1]);
});

test("Errors: that of the library has its status as the code", () => {
  const error = new NativeError("rm_run", 7, "no");
  assertEquals([error.symbol, error.status, error.code], ["rm_run", 7, "RM_NATIVE_7"]);
  assertEquals(error.message, "rm_run failed with status 7: no");
});

test("Errors: each class has its name, a code, and the class that it extends", () => {
  const cases: [() => unknown, typeof Error, string][] = [
    [() => zeros([-1] as number[]), RangeError, "RM_SHAPE"],
    [() => loose(iota([2])).sum(3), RangeError, "RM_AXIS"],
    [() => iota([2]).get(5), RangeError, "RM_INDEX"],
    [() => zeros([1], { dtype: loose("x") }), TypeError, "RM_DTYPE"],
    [() => loose(iota([2]).readonly()).fill_(0), TypeError, "RM_READ_ONLY"],
  ];
  for (const [run, parent, code] of cases) {
    let caught: unknown;
    try {
      run();
    } catch (error) {
      caught = error;
    }
    assert(caught instanceof parent);
    assertEquals(loose(caught).code, code);
    assertEquals(structuredClone(loose(caught)).message, caught.message);
  }
});
