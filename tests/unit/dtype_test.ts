/**
 * Element types: promotion of each pair, limits, rounding, and the text of values in messages.
 *
 * @module
 */
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  addDType,
  checkDType,
  DTYPE,
  type DType,
  DTYPES,
  finfo,
  iinfo,
  promoteScalar,
  promoteTypes,
} from "../../src/base/dtype.ts";
import { describe, describePath } from "../../src/base/text.ts";
import { DTypeError } from "../../src/base/errors.ts";
import { roundHalf, toBf16, toF16 } from "../../src/base/half.ts";

/** Short names, in the order of {@link DTYPES}; `--` is an error. */
const SHORT = "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 bf f4 f8".split(" ");

/** The promoted dtype of a row with each column. */
const PROMOTED: Readonly<Record<string, string>> = {
  b1: "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 bf f4 f8",
  i1: "i1 i1 i2 i4 i8 i2 i4 i8 -- f2 bf f4 f8",
  i2: "i2 i2 i2 i4 i8 i2 i4 i8 -- f2 bf f4 f8",
  i4: "i4 i4 i4 i4 i8 i4 i4 i8 -- f2 bf f4 f8",
  i8: "i8 i8 i8 i8 i8 i8 i8 i8 -- f2 bf f4 f8",
  u1: "u1 i2 i2 i4 i8 u1 u2 u4 u8 f2 bf f4 f8",
  u2: "u2 i4 i4 i4 i8 u2 u2 u4 u8 f2 bf f4 f8",
  u4: "u4 i8 i8 i8 i8 u4 u4 u4 u8 f2 bf f4 f8",
  u8: "u8 -- -- -- -- u8 u8 u8 u8 f2 bf f4 f8",
  f2: "f2 f2 f2 f2 f2 f2 f2 f2 f2 f2 f4 f4 f8",
  bf: "bf bf bf bf bf bf bf bf bf f4 bf f4 f8",
  f4: "f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f8",
  f8: "f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8",
};

test("dtypes: each two promote as the table says", () => {
  const shortOf = (a: DType, b: DType): string => {
    try {
      return SHORT[DTYPES.indexOf(promoteTypes(a, b))]!;
    } catch (error) {
      assertEquals((error as Error).name, "DTypeError");
      return "--";
    }
  };
  DTYPES.forEach((a, i) => {
    assertEquals(DTYPES.map((b) => shortOf(a, b)).join(" "), PROMOTED[SHORT[i]!], a);
  });
});

test("dtypes: numbers in the table of dtypes", () => {
  assertEquals(DTYPES.map((name) => DTYPE[name].id), DTYPES.map((_, i) => i));
  const wide = DTYPES.filter((name) => DTYPE[name].wide);
  assertEquals(wide, ["int64", "uint64"]);
});

test("dtypes: limits of floats", () => {
  assertEquals(finfo("float16"), {
    bits: 16,
    eps: 2 ** -10,
    smallestNormal: 2 ** -14,
    min: -65504,
    max: 65504,
    dtype: "float16",
  });
  const largest = (2 - 2 ** -7) * 2 ** 127;
  assertEquals(finfo("bfloat16"), {
    bits: 16,
    eps: 2 ** -7,
    smallestNormal: 2 ** -126,
    min: -largest,
    max: largest,
    dtype: "bfloat16",
  });
  const most = (2 - 2 ** -23) * 2 ** 127;
  assertEquals(finfo("float32"), {
    bits: 32,
    eps: 2 ** -23,
    smallestNormal: 2 ** -126,
    min: -most,
    max: most,
    dtype: "float32",
  });
  assertEquals(finfo("float64"), {
    bits: 64,
    eps: Number.EPSILON,
    smallestNormal: 2 ** -1022,
    min: -Number.MAX_VALUE,
    max: Number.MAX_VALUE,
    dtype: "float64",
  });
  assertThrows(() => finfo("bool"), DTypeError, "finfo bool");
});

test("dtypes: limits of integers", () => {
  for (const bits of [8, 16, 32] as const) {
    const [signed, unsigned] = [`int${bits}`, `uint${bits}`] as ["int8", "uint8"];
    assertEquals(iinfo(signed), {
      bits,
      min: -(2 ** (bits - 1)),
      max: 2 ** (bits - 1) - 1,
      dtype: signed,
    });
    assertEquals(iinfo(unsigned), { bits, min: 0, max: 2 ** bits - 1, dtype: unsigned });
  }
  const [min, max] = [-(2n ** 63n), 2n ** 63n - 1n];
  assertEquals(iinfo("int64"), { bits: 64, min, max, dtype: "int64" });
  assertEquals(iinfo("uint64"), { bits: 64, min: 0n, max: 2n ** 64n - 1n, dtype: "uint64" });
  assertThrows(() => iinfo("bool"), DTypeError, "iinfo bool");
});

test("dtypes: the limits themselves are in range as scalars, and what is beyond is not", () => {
  for (const dtype of DTYPES) {
    const { kind, min, max } = DTYPE[dtype];
    if (kind === "f" || kind === "b") continue;
    for (const value of [min, max, BigInt(min), BigInt(max)]) {
      assertEquals(promoteScalar(dtype, value, "add"), dtype);
    }
    for (const value of [BigInt(min) - 1n, BigInt(max) + 1n]) {
      assertThrows(() => promoteScalar(dtype, value, "add"), DTypeError, `add ${value}n`);
    }
  }
  assertEquals(promoteScalar("bool", 2, "add"), "float32");
  assertEquals(promoteScalar("bool", 2n, "add"), "int64");
  assertEquals(promoteScalar("bool", true, "add"), "bool");
  assertEquals(promoteScalar("float16", 1e300, "add"), "float16");
});

test("float16 and bfloat16: values next to the middle of two are rounded to the nearer one", () => {
  const tiny = 2 ** -40;
  for (
    const [convert, unit, one] of [[toF16, 2 ** -10, 0x3c00], [toBf16, 2 ** -7, 0x3f80]] as const
  ) {
    for (const [sign, bits] of [[1, 0], [-1, 0x8000]] as const) {
      const at = (value: number): number => convert(sign * value) - bits;
      assertEquals([at(1 + unit / 2), at(1 + 1.5 * unit)], [one, one + 2]);
      assertEquals([at(1 + unit / 2 - tiny), at(1 + unit / 2 + tiny)], [one, one + 1]);
      assertEquals([at(1 + 1.5 * unit - tiny), at(1 + 1.5 * unit + tiny)], [one + 1, one + 2]);
    }
  }
});

test("roundHalf rounds doubles to float16 once, half to even", () => {
  const [half, tiny] = [2 ** -11, 2 ** -40];
  // float32 would make a tie of what is next to one.
  assertEquals(
    [1 + half - tiny, 1 + half, 1 + half + tiny, 1 + 3 * half].map((x) => roundHalf(x)),
    [
      1,
      1,
      1 + 2 * half,
      1 + 4 * half,
    ],
  );
  assertEquals(roundHalf(-1 - half + tiny), -1);
});

test("dtypes: values as messages show them", () => {
  const shown: [value: unknown, text: string][] = [
    [null, "null"],
    [undefined, "undefined"],
    [1.5, "1.5"],
    [7n, "7n"],
    [true, "true"],
    [[], "an array"],
    [{}, "an object"],
    [() => 1, "a function"],
    [Symbol("s"), "Symbol(s)"],
    ["x".repeat(40), JSON.stringify("x".repeat(40))],
    ["x".repeat(40) + "y", JSON.stringify("x".repeat(40) + "…")],
  ];
  for (const [value, text] of shown) assertEquals(describe(value), text);
  const path = `/home/user/${"models/".repeat(20)}`;
  assertEquals(describePath(`${path}a.gguf`), `"${path}a.gguf"`);
  assertMatch(describePath(`${path.repeat(9)}a.gguf`), /^"….*\/a\.gguf"$/);
});

test("dtypes: there is room for 255", () => {
  const add = (n: number): void =>
    void addDType({ name: `added ${n}`, kind: "t", lane: "int8", lanes: 2, read: () => n });
  for (let n = Object.keys(DTYPE).length; n < 255; n++) add(n);
  assertThrows(() => add(255), DTypeError, "Cannot add dtype added 255: there are 255 already");
  assertThrows(() => add(254), DTypeError, "there is one already");
});

test("dtypes: what is none is refused by name", () => {
  for (const given of ["float31", "toString", "", undefined, null, 32, ["float32"]]) {
    assertThrows(() => checkDType(given as never, "make"), DTypeError, "Cannot make");
  }
  checkDType("float32", "make");
});
