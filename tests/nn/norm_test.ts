/**
 * Norms as PyTorch computes them, dropout; folding in programs, errors.
 *
 * @module
 */
import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  ArgumentError,
  AxisError,
  DTypeError,
  ones,
  random,
  ShapeError,
  zeros,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { testGolden } from "./golden.ts";

testGolden("norm");

test("the weights of a norm of 16-bit floats may have 32 bits", () => {
  const x = random.normal(random.key(1), [2, 3, 50]).astype("bfloat16");
  const [weight, bias] = [2, 3].map((k) => random.normal(random.key(k), [3])) as [Any, Any];
  const wide = x.astype("float32");
  for (
    const f of [
      (x: Any) => nn.batchNorm(x, bias, ones([3]), { weight, bias }),
      (x: Any) => nn.groupNorm(x, 1, { weight, bias }),
      (x: Any) => nn.instanceNorm(x, { weight, bias }),
    ]
  ) {
    assertEquals(String(f(x)), String(f(wide).astype("bfloat16")));
  }
});

test("a program has the factors of a batch norm of fixed weights as constants", () => {
  const [mean, variance] = [zeros([3]), ones([3])];
  const f = compile((x: Any) => nn.batchNorm(x, mean, variance).relu());
  const x = random.normal(random.key(1), [2, 3, 5]);
  assertEquals(String(f(x)), String(nn.batchNorm(x, mean, variance).relu()));
  // What it computes of x is one op.
  assertEquals(f.explain()[0]!.data.ops.at(-1)!.op, "chain");
});

test("norms of no elements", () => {
  assertEquals(nn.batchNorm(zeros([0, 2, 3]), ones([2]), ones([2])).shape, [0, 2, 3]);
  assertEquals(nn.groupNorm(zeros([2, 4, 0]), 2).shape, [2, 4, 0]);
  assertEquals(nn.instanceNorm(zeros([2, 0, 3])).shape, [2, 0, 3]);
  assertEquals(nn.localResponseNorm(zeros([2, 0, 3]), 2).shape, [2, 0, 3]);
});

test("dropout without a key is the identity", () => {
  const x = ones([2]);
  assertStrictEquals(nn.dropout(x, { p: 1 }), x);
  assertRefused(() => nn.dropout(x, { p: 1.5 }), ArgumentError, ["dropout", "p 1.5"], x);
  assertRefused(() => nn.dropout(x, { p: -1 }), ArgumentError, ["dropout", "p -1"], x);
  assertThrows(() => nn.dropout(x, loose({ training: true })), TypeError, "training");
});

test("arguments that do not fit are refused", () => {
  const [x, c] = [ones([2, 4, 3]), ones([4])];
  const batch = (...args: unknown[]) => () => loose(nn).batchNorm(x, ...args);
  assertRefused(batch(ones([3]), c), ShapeError, ["batchNorm", "mean", "[3]", "[4]"], x);
  assertRefused(batch(c, ones([1, 4])), ShapeError, ["variance", "[1, 4]"], x);
  assertRefused(batch(c, c, { weight: ones([2]) }), ShapeError, ["weight", "[2]"], x);
  assertRefused(batch(c, c, { bias: ones([2]) }), ShapeError, ["bias", "[2]"], x);
  assertRefused(batch(c, c, { epsilon: -1 }), ArgumentError, ["epsilon -1"], x);
  assertRefused(batch(c, undefined), DTypeError, ["batchNorm", "undefined"], x);
  assertRefused(batch(c.astype("int32"), c), DTypeError, ["batchNorm", "int32"], x);
  assertThrows(batch(c, c, { momentum: 1 }), TypeError, "momentum");
  assertRefused(() => nn.batchNorm(c, c, c), AxisError, ["batchNorm", "[4]"], c);
  assertRefused(() => nn.groupNorm(x, 3), ShapeError, ["groupNorm", "4 channels", "3"], x);
  assertRefused(() => nn.groupNorm(x, 0), ArgumentError, ["groupNorm", "groups 0"], x);
  assertRefused(() => nn.instanceNorm(ones([2, 4])), ShapeError, ["instanceNorm", "[2, 4]"]);
  assertRefused(() => nn.instanceNorm(loose(x.greater(0))), DTypeError, ["instanceNorm", "bool"]);
  assertRefused(() => nn.localResponseNorm(x, 0), ArgumentError, ["size 0"], x);
  assertRefused(() => nn.localResponseNorm(c, 2), AxisError, ["localResponseNorm", "[4]"], c);
});
