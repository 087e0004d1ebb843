/**
 * Every error of a method names that method, even if the method consists of several ops. Calls all
 * methods with invalid arguments, on tensors of all kinds; none may fail with an error of
 * JavaScript.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { concat, full, IndexError, ones, ShapeError, stack, Tensor, zeros } from "../../mod.ts";
import { iota, loose } from "../support.ts";

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
  if (name === "constructor") continue;
  test(`Messages: what ${name} refuses, it refuses by its name`, async () => {
    for (const make of receivers) {
      for (const args of badArguments) {
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
