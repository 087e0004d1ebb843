/**
 * The meaning of the op table's expressions and entries: the parser and printer, the compute and
 * result dtypes of ops, and the properties that kernels in C use. Some ops are made for the test.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { addDType, DTYPE, type DType, DTYPES } from "../../src/base/dtype.ts";
import { DTypeError } from "../../src/base/errors.ts";
import { Layout } from "../../src/base/layout.ts";
import { writeElement } from "../../src/memory/element.ts";
import type { Operand } from "../../src/memory/operand.ts";
import { allocate } from "../../src/memory/pool.ts";
import { ignoresSign, isComputeBound, needsDouble } from "../../src/table/c_rules.ts";
import { type Expr, parseExpr, printExpr, someExpr, type Spelling } from "../../src/table/expr.ts";
import { computeOf, inferCopy, inferMap, resultOf, takes } from "../../src/table/infer.ts";
import { Call, type MapOp } from "../../src/table/op.ts";
import { checkUserExpr, ownParameters } from "../../src/table/user_expr.ts";
import { exprFor, MAP, REDUCE, TABLE } from "../../src/table/table.ts";
import { golden } from "./table/golden.ts";

const plain: Spelling = {
  num: (text) => text,
  call: (name, args) => `${name}(${args.join(", ")})`,
};

const printed = (text: string): string => printExpr(parseExpr(text), plain);

test("expressions: precedence is that of C", () => {
  assertEquals(printed("x + y * z"), "(x + (y * z))");
  assertEquals(printed("x * y + z"), "((x * y) + z)");
  assertEquals(printed("x - y - z"), "((x - y) - z)");
  assertEquals(printed("x < y == z"), "((x < y) == z)");
  assertEquals(printed("x & y ^ z | a"), "(((x & y) ^ z) | a)");
  assertEquals(printed("x == y & z"), "((x == y) & z)");
  assertEquals(printed("x || y && z"), "(x || (y && z))");
  assertEquals(printed("x | y && z"), "((x | y) && z)");
  assertEquals(printed("-x * y"), "((-x) * y)");
  assertEquals(printed("!x != ~y"), "((!x) != (~y))");
  assertEquals(printed("x ? y : z ? a : 1.5e-3"), "(x ? y : (z ? a : 1.5e-3))");
  assertEquals(printed("(x + y) * pow(x, y + 1)"), "((x + y) * pow(x, (y + 1)))");
});

test("expressions: what is none is a SyntaxError that says where", () => {
  const bad: [text: string, message: string][] = [
    ["x +", "Unexpected end"],
    ["x $ y", "Bad expression at 1"],
    ["(x", 'Expected ) before "undefined"'],
    ["x ? y", "Expected :"],
    ["x y", 'Unexpected "y"'],
    ["x + )", 'Unexpected ")"'],
    ["f(x y)", 'Expected ) before "y"'],
  ];
  for (const [text, message] of bad) assertThrows(() => parseExpr(text), SyntaxError, message);
  assertEquals(printed("  x  "), "x");
});

test("expressions: any part is found, wherever it is, and asked once", () => {
  const named = (name: string) => (part: Expr) => part.kind === "name" && part.name === name;
  for (const text of ["a ? b : c", "f(a, b, c)", "a + b * -c", "!a == b - c", "c"]) {
    for (const name of ["a", "b", "c", "d"]) {
      assertEquals(someExpr(parseExpr(text), named(name)), text.includes(name), `${name}: ${text}`);
    }
  }
  assert(someExpr(parseExpr("-x"), (part) => part.kind === "unary"));
});

test("expressions: a spelling may say calls, numbers, conditions and operators its own way", () => {
  const own: Spelling = {
    num: (text) => `${text}f`,
    call: (name, args) => `rm_${name}(${args.join("; ")})`,
    select: (test, then, otherwise) => `select(${test}, ${then}, ${otherwise})`,
    binary: (op, left, right) => op === "/" ? `div(${left}, ${right})` : undefined,
  };
  assertEquals(
    printExpr(parseExpr("x / 2 + exp(y) ? 1 : z"), own),
    "select((div(x, 2f) + rm_exp(y)), 1f, z)",
  );
});

test("expressions of programs: up to 1000 characters and 32 levels", () => {
  assertEquals(checkUserExpr("x".padEnd(1000), []).text, "x");
  assertThrows(() => checkUserExpr("x".padEnd(1001), []), SyntaxError, "1000 characters");
  assertEquals(checkUserExpr("a * x + b + c + d", ["a", "b", "c", "d"]).arity, 1);
  assertThrows(() => ownParameters([..."abcde"]), SyntaxError, "at most 4 names");
  assertThrows(() => ownParameters(["1abc"]), SyntaxError, 'not "1abc"');
  const nested = (levels: number): string => `${"-(".repeat(levels)}x${")".repeat(levels)}`;
  const deepest = [...Array(40).keys()].filter((levels) => {
    try {
      return checkUserExpr(nested(levels), []).arity === 1;
    } catch {
      return false;
    }
  });
  assertEquals(deepest.at(-1), 32);
});

const op = (fields: Partial<MapOp>): MapOp => ({ ...MAP.add, ...fields });

test("ops: a kind without an expression of its own takes that of integers, then the first", () => {
  const all = op({ expr: "x", int: "y", bool: "z" });
  assertEquals([exprFor(all, "f"), exprFor(all, "i"), exprFor(all, "b")], ["x", "y", "z"]);
  const noBool = op({ expr: "x", int: "y" });
  assertEquals([exprFor(noBool, "u"), exprFor(noBool, "b")], ["y", "y"]);
  const one = op({ expr: "x" });
  assertEquals([exprFor(one, "f"), exprFor(one, "u"), exprFor(one, "b")], ["x", "x", "x"]);
});

test("ops: each takes the dtypes that there is golden data for, and no others", () => {
  for (const dtype of DTYPES) {
    const { kind } = DTYPE[dtype];
    const taken = TABLE.filter((row) => row.dtypes.includes(kind)).map(({ name }) => name);
    assertEquals(taken.sort(), Object.keys(golden(dtype).rows).sort(), dtype);
  }
});

test("ops: the dtypes that they compute in and give", () => {
  assertEquals([computeOf(MAP.sqrt, "int64"), computeOf(MAP.sqrt, "float16")], [
    "float32",
    "float16",
  ]);
  assertEquals(computeOf(MAP.add, "int64"), "int64");
  assertEquals([resultOf(MAP.less, "float64"), resultOf(REDUCE.countNonzero, "float64")], [
    "bool",
    "int32",
  ]);
  const sums = ["bool", "int8", "uint32", "int64", "uint64", "float16"] as const;
  assertEquals(sums.map((dtype) => resultOf(REDUCE.sum, dtype)), [
    "int64",
    "int64",
    "int64",
    "int64",
    "uint64",
    "float16",
  ]);
  assertEquals(resultOf(MAP.add, "int8"), "int8");
  assertEquals([takes(MAP.neg, "bool"), takes(MAP.neg, "uint8")], [false, true]);
});

test("ops: errors name the method of the call, not the op", () => {
  const call = new Call(MAP.add, "addTo", [true, true]);
  assertEquals([call.op.name, call.name], ["add", "addTo"]);
  assertThrows(() => inferMap(call), DTypeError, "Cannot addTo bool: it takes");
});

test("ops: scalars alone give a result without axes", () => {
  const call = new Call(MAP.add, "add", [1, 2.5]);
  assertEquals(inferMap(call), [{ shape: [], dtype: DTYPE.float32 }]);
  assertEquals(inferMap(new Call(MAP.neg, "neg", [2n])), [{ shape: [], dtype: DTYPE.int64 }]);
});

test("ops: a copy has no cast between numbers and other elements", () => {
  const info = addDType({
    name: "of two",
    kind: "p",
    lane: "float64",
    lanes: 2,
    read: (array, at) => array[2 * at],
  });
  const of = (dtype: DType): Operand => ({
    storage: allocate(dtype, 3, true),
    layout: Layout.contiguous([3]),
    flags: 0,
  });
  const cast = (from: DType, dtype: DType) =>
    inferCopy(new Call(MAP.copy, "cast", [of(from)], { dtype }));
  assertThrows(() => cast(info.name, "float64"), DTypeError, "Cannot cast of two to float64");
  assertThrows(() => cast("float64", info.name), DTypeError, "Cannot cast float64 to of two");
  assertEquals(cast(info.name, info.name), [{ shape: [3], dtype: info }]);
  const { storage } = of(info.name);
  assertEquals([storage.length, storage.array.length, storage.lanes.length], [3, 6, 6]);
  assertThrows(() => writeElement(storage, 0, 1), DTypeError, "takes only the number 0");
  writeElement(storage, 0, 0);
  assertEquals(cast("int8", "float64"), [{ shape: [3], dtype: DTYPE.float64 }]);
});

test("rules of C: float32 is computed in double where more than one operation rounds", () => {
  const inDouble = (expr: string, ulp = 0) => needsDouble(op({ expr, ulp }));
  assertEquals([inDouble("x + y"), inDouble("x + y * z"), inDouble("exp(x) / y")], [
    false,
    true,
    true,
  ]);
  // These round nothing.
  assertEquals([inDouble("-floor(x) + y"), inDouble("fabs(x) < y"), inDouble("x & y")], [
    false,
    false,
    false,
  ]);
  assertEquals(inDouble("x + y * z", 1), false);
});

test("rules of C: functions are heavy, but for square roots and what is exact", () => {
  const heavy = (expr: string, int?: string) => isComputeBound(op({ expr, int }));
  assertEquals([heavy("exp(x)"), heavy("x", "ipow(x, y)"), heavy("sqrt(exp(x))")], [
    true,
    true,
    true,
  ]);
  assertEquals([heavy("sqrt(x) / y"), heavy("floor(x)"), heavy("x * y")], [false, false, false]);
});

test("rules of C: comparisons, divisions and most functions depend on the sign", () => {
  const ignores = (text: string) => ignoresSign(parseExpr(text));
  for (const text of ["x + y", "x * -y", "x & ~y", "x == y", "shl(x, y, bits)"]) {
    assert(ignores(text), text);
  }
  for (const text of ["x < y", "x <= y", "x > y", "x >= y", "x / y", "shr(x, y, bits)"]) {
    assert(!ignores(text), text);
  }
});
