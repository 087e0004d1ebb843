/**
 * Element types, promotion and display, through the public API.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { deepStrictEqual } from "node:assert";
import { test } from "node:test";
import {
  arange,
  concat,
  type DType,
  DTypeError,
  fromBuffer,
  full,
  iinfo,
  promoteTypes,
  ShapeError,
  stack,
  tensor,
  zeros,
} from "../../mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { assertRefused, iota, loose } from "../support.ts";

const INTEGERS = [
  "int8",
  "int16",
  "int32",
  "int64",
  "uint8",
  "uint16",
  "uint32",
  "uint64",
] as const;
const FLOATS = ["float16", "bfloat16", "float32", "float64"] as const;
const DTYPES: readonly DType[] = ["bool", ...INTEGERS, ...FLOATS];

test("Element types: each can be made, read, written, cast and computed with", () => {
  for (const dtype of DTYPES) {
    const x = tensor([0, 1, 1], { dtype });
    assertEquals(x.dtype, dtype);
    assertEquals(x.astype("float64").toArray(), [0, 1, 1], dtype);
    loose(x).set([0], dtype === "bool" ? true : 1);
    assertEquals(Number(x.get(0)), 1, dtype);
    assertEquals(x.countNonzero().item(), 3, dtype);
    assertEquals(tensor([0, 1], { dtype: "int32" }).astype(dtype).dtype, dtype);
    if (dtype === "bool") continue;
    assertEquals(loose(x).add(x).mul(3).toArray().map(Number), [6, 6, 6], dtype);
    assertEquals(loose(x).add(x).dtype, dtype);
  }
});

test("Element types: their sizes in bytes", () => {
  const bytes = DTYPES.map((dtype) => zeros([3], { dtype }).nbytes / 3);
  assertEquals(bytes, [1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8]);
});

test("Element types: an op refuses what it does not take, with a DTypeError", () => {
  const mask = tensor([true, false]);
  const x = tensor([1, 2]);
  for (const name of ["neg", "positive", "sqrt", "abs"]) {
    assertRefused(() => loose(mask)[name](), DTypeError, [name, "bool"], mask);
  }
  assertRefused(() => loose(mask).sub(mask), DTypeError, ["sub", "bool"], mask);
  for (const name of ["bitwiseAnd", "bitwiseLeftShift"]) {
    assertRefused(() => loose(x)[name](x), DTypeError, [name, "float32"], x);
  }
  assertRefused(() => loose(x).bitwiseInvert(), DTypeError, ["bitwiseInvert", "float32"], x);
  assertRefused(() => loose(x).add("1"), DTypeError, ["add", "1"], x);
  assertRefused(() => loose(x).add([1, 2]), DTypeError, ["add", "array"], x);
  assertRefused(() => loose(x).astype("float8"), DTypeError, ["astype", "float8"], x);
});

test("Element types: two of them promote, or are a DTypeError that names both", () => {
  assertEquals(promoteTypes("int8", "uint8"), "int16");
  assertEquals(promoteTypes("int32", "uint32"), "int64");
  assertEquals(promoteTypes("int64", "float16"), "float16");
  assertEquals(promoteTypes("float16", "bfloat16"), "float32");
  assertEquals(promoteTypes("bool", "uint8"), "uint8");
  assertEquals(iota([2], "int8").add(iota([2], "uint8")).dtype, "int16");
  assertEquals(concat([iota([2], "int32"), iota([2], "float64")]).dtype, "float64");
  assertEquals(stack([iota([2], "bool"), iota([2], "int16")]).dtype, "int16");
  const [a, b] = [iota([2], "int64"), iota([2], "uint64")];
  for (const mix of [() => a.add(b), () => promoteTypes("int64", "uint64"), () => concat([a, b])]) {
    assertRefused(mix, DTypeError, ["int64", "uint64"], a, b);
  }
});

test("Element types: scalars are weak, and must fit", () => {
  const n = tensor([1, 2], { dtype: "uint8" });
  assertEquals(n.add(1).dtype, "uint8");
  assertEquals(n.add(1n).dtype, "uint8");
  assertEquals(tensor([1, 2], { dtype: "float16" }).mul(0.5).dtype, "float16");
  assertEquals(n.div(2).dtype, "float32");
  assertRefused(() => loose(n).add(1.5), DTypeError, ["add", "1.5", "uint8"], n);
  assertRefused(() => n.add(256), DTypeError, ["add", "256", "uint8"], n);
  assertRefused(() => n.add(-1), DTypeError, ["add", "-1", "uint8"], n);
  assertRefused(() => n.mul(NaN), DTypeError, ["mul", "NaN", "uint8"], n);
});

test("Element types: integers wrap, divide by zero to 0, and shift out to 0", () => {
  assertEquals(full([1], 255, { dtype: "uint8" }).add(1).item(), 0);
  assertEquals(full([1], -128, { dtype: "int8" }).neg().item(), -128);
  assertEquals(full([1], 65536, { dtype: "int32" }).mul(65537).item(), 65536);
  assertEquals(full([1], 2147483647, { dtype: "int32" }).mul(2147483647).item(), 1);
  assertEquals(full([1], 7, { dtype: "int32" }).floorDivide(0).item(), 0);
  assertEquals(full([1], 7, { dtype: "int64" }).remainder(0).item(), 0);
  assertEquals(full([1], 7, { dtype: "uint16" }).bitwiseLeftShift(16).item(), 0);
});

test("Element types: int64 is shifted by 63, 64 and 65 bits", () => {
  for (const { on } of BACKENDS) {
    if (typeof on === "string") continue;
    using(on, () => {
      const x = loose(tensor([-8n, -8n, -8n])), n = tensor([63n, 64n, 65n]);
      assertEquals(x.bitwiseRightShift(n).toArray(), [-1, 0, 0]);
      assertEquals(x.bitwiseLeftShift(n).toArray(), [0, 0, 0]);
    });
  }
});

test("Element types: int64 beyond 2^53 is rounded once on the way to float32", () => {
  const beyond = 2n ** 53n + 2n ** 29n + 1n;
  for (const { on } of BACKENDS) {
    if (typeof on === "string") continue;
    using(on, () => {
      const x = loose(tensor([beyond, -beyond, 2n ** 53n + 2n ** 29n, -(2n ** 53n)]));
      const up = 2 ** 53 + 2 ** 30;
      assertEquals(x.astype("float32").toArray(), [up, -up, 2 ** 53, -(2 ** 53)]);
    });
  }
});

test("Element types: NaN of any bits stays NaN in 16 bits", () => {
  const bits = new Uint32Array([0x7fffffff, 0xffffffff, 0x7f800001]);
  const x = fromBuffer(new Float32Array(bits.buffer));
  assertEquals(x.astype("bfloat16").isnan().toArray(), [true, true, true]);
  assertEquals(x.astype("float16").isnan().toArray(), [true, true, true]);
});

test("Element types: casts saturate, truncate, and turn NaN to 0", () => {
  const x = tensor([1.9, -1.9, 300, -300, NaN, Infinity]);
  assertEquals(x.astype("uint8").toArray(), [1, 0, 255, 0, 0, 255]);
  assertEquals(x.astype("int8").toArray(), [1, -1, 127, -128, 0, 127]);
  assertEquals(x.astype("bool").toArray(), [true, true, true, true, true, true]);
  assertEquals(tensor([65520, 65519]).astype("float16").toArray(), [Infinity, 65504]);
  assertEquals(tensor([0.5, 1.5, 2.5]).round().toArray(), [0, 2, 2]);
});

test("Dtypes without arithmetic: bool takes comparisons and logic, and casts to numbers", () => {
  const [a, b] = [tensor([true, true, false]), tensor([true, false, false])];
  assertEquals(a.logicalAnd(b).toArray(), [true, false, false]);
  assertEquals(a.bitwiseXor(b).toArray(), [false, true, false]);
  assertEquals(a.equal(b).toArray(), [true, false, true]);
  assertEquals(a.logicalNot().toArray(), [false, false, true]);
  assertEquals(a.any().item(), true);
  assertEquals(a.astype("int32").sub(b.astype("int32")).toArray(), [0, 1, 0]);
  assertRefused(() => loose(a).sub(b), DTypeError, ["sub", "bool"], a, b);
  assertEquals([...a.slice("::2").toTypedArray()], [1, 0]);
});

test("Display: rows are aligned, with shape and dtype", () => {
  assertEquals(
    String(tensor([[1, -20], [300, 4]], { dtype: "int32" })),
    "tensor([[  1, -20],\n        [300,   4]], shape [2, 2], int32)",
  );
  assertEquals(String(tensor(5)), "tensor(5, shape [], float32)");
  assertEquals(String(tensor([true, false])), "tensor([true, false], shape [2], bool)");
});

test("Display: a view shows what it looks at", () => {
  const x = iota([2, 3], "int16");
  assertEquals(String(x.T), String(x.T.toOwned()));
  assertEquals(String(x.flip()), String(x.flip().toOwned()));
  assertEquals(String(loose(x).slice(1)), "tensor([3, 4, 5], shape [3], int16)");
  assertStringIncludes(String(loose(tensor(7)).broadcastTo([2, 2])), "[7, 7]");
});

test("Display: long tensors are elided", () => {
  const text = String(arange(100000));
  assert(text.length < 200, text);
  assertMatch(text, /\[\s*0,\s+1,\s+2, \.\.\.,\s+99997,\s+99998,\s+99999\]/);
  assert(String(zeros([50, 50, 50])).split("\n").length < 60);
});

test("Display: consoles and notebooks show it too", () => {
  const x = tensor([[1, 2], [3, 4]]);
  const hooks = loose(x);
  assertEquals(hooks[Symbol.for("nodejs.util.inspect.custom")](), String(x));
  const shown = hooks[Symbol.for("Jupyter.display")]();
  assertEquals(shown["text/plain"], String(x));
  assertStringIncludes(shown["text/html"], "<table>");
  const { Deno, Bun } = loose(globalThis);
  const inspect = Deno?.inspect ?? Bun?.inspect;
  assertStringIncludes(inspect(x), "shape [2, 2], float32");
  assertStringIncludes(inspect({ weights: x }), "float32");
});

test("Display: what wants text gets it, and operators are an error, whatever the rank", () => {
  for (const x of [loose(tensor([10])), loose(tensor(10)), loose(tensor([true, false]))]) {
    assertEquals(`${x}`, x.toString());
    assertEquals([x, x].join(), `${x},${x}`);
    const uses = [
      () => x < tensor([9]),
      () => x >= 9,
      () => x + 1,
      () => "" + x,
      () => x - x,
      () => +x,
      () => x == 10,
      () => Math.max(x, 1),
      () => new Float32Array([x]),
    ];
    for (const use of uses) {
      assertRefused(use, DTypeError, ["Cannot use operators", "less()", "add()", "item()"], x);
    }
    assert(x !== null && x != undefined);
    deepStrictEqual(x, x);
    assertEquals(assertThrows(() => deepStrictEqual(x, 1), Error).name, "AssertionError");
  }
});

test("Display: a tensor that is gone says so", () => {
  const x = tensor([1]);
  x.dispose();
  assertEquals(String(x), "tensor(disposed)");
});

test("Comparisons of integers with every number are exact", () => {
  const cases = {
    equal: (x: number, y: number) => x === y,
    notEqual: (x: number, y: number) => x !== y,
    less: (x: number, y: number) => x < y,
    lessEqual: (x: number, y: number) => x <= y,
    greater: (x: number, y: number) => x > y,
    greaterEqual: (x: number, y: number) => x >= y,
  };
  const others = [NaN, Infinity, -Infinity, 300, -1, -129, 1e300, -1e300, 2.5, -2.5, 0.5, 5e-324];
  for (const dtype of INTEGERS) {
    const { min, max } = iinfo(dtype);
    const x = tensor([BigInt(min), 0n, 2n, 3n, BigInt(max)], { dtype });
    // As doubles, which order integers and all of `others` rightly: none of them is near a limit.
    const values = x.astype("float64").toArray();
    for (const [name, compares] of Object.entries(cases)) {
      for (const y of others) {
        const what = `${name} of ${dtype} and ${y}`;
        const want = values.map((value) => compares(value, y));
        const [given, out] = [x.copy(), zeros([5], { dtype: "bool" })];
        deepStrictEqual(loose(x)[name](y).toArray(), want, what);
        assertEquals(loose(x)[name](y).dtype, "bool", what);
        loose(x)[name](y, { out, broadcast: false });
        deepStrictEqual(out.toArray(), want, `${what} into out`);
        deepStrictEqual(x.toTypedArray(), given.toTypedArray(), what);
      }
      const [below, above] = [BigInt(min) - 1n, BigInt(max) + 1n];
      deepStrictEqual(
        loose(x)[name](below).toArray(),
        values.map(() => compares(1, 0)),
        `${name} of ${dtype} and ${below}`,
      );
      deepStrictEqual(
        loose(x)[name](above).toArray(),
        values.map(() => compares(0, 1)),
        `${name} of ${dtype} and ${above}`,
      );
    }
  }
  const x = tensor([1, 2], { dtype: "uint8" });
  assertRefused(() => loose(x).less(300, { out: zeros([3]) }), ShapeError, "Cannot less into", x);
  assertRefused(() => loose(x).add(300), DTypeError, "outside 0 to 255", x);
  // bools are 0 and 1, however long a number is.
  const mask = loose(tensor([true, false]));
  assertEquals(mask.equal(2n ** 64n).toArray(), [false, false]);
  assertEquals(mask.less(2n ** 70n).toArray(), [true, true]);
  assertEquals(mask.less(1 + 1e-9).toArray(), [true, true]);
  assertEquals(mask.greaterEqual(1e-300).toArray(), [true, false]);
  assertEquals(mask.notEqual(NaN).toArray(), [true, true]);
  assertEquals(mask.greater(-0.5).toArray(), [true, true]);
  assertEquals(mask.equal(1).toArray(), [true, false]);
  assertRefused(() => mask.add(2n ** 64n), DTypeError, "to int64: it is outside", mask as never);
});
