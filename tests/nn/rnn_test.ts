/**
 * Recurrent layers as PyTorch computes them; memory, errors.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { ArgumentError, DTypeError, memory, ones, ShapeError, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { testGolden } from "./golden.ts";

testGolden("recurrent");

const one = { weightIh: ones([8, 3]), weightHh: ones([8, 2]) };

test("a recurrent layer leaves nothing but its results", () => {
  const x = ones([20, 2, 3]);
  const run = (): void => {
    for (const made of Object.values(nn.lstm(x, [one]))) made.dispose();
  };
  run();
  const before = memory().bytes;
  run();
  assertEquals(memory().bytes, before);
});

test("another number of steps is another program", () => {
  const f = compile((x: Any) => nn.lstm(x, one).output);
  for (const steps of [3, 1, 3]) {
    const x = ones([steps, 2, 3]);
    assertEquals(String(f(x)), String(nn.lstm(x, one).output));
  }
  assertEquals(f.programs, 2);
});

test("arguments that do not fit are refused", () => {
  const x = ones([4, 1, 3]);
  const lstm = (...args: unknown[]) => () => loose(nn).lstm(x, ...args);
  assertRefused(lstm({ ...one, weightHh: ones([8, 3]) }), ShapeError, ["weightHh 0", "[12, 3]"], x);
  assertRefused(lstm({ ...one, weightIh: ones([8, 2]) }), ShapeError, ["weightIh 0", "[8, 3]"], x);
  assertRefused(lstm({ ...one, biasHh: ones([2]) }), ShapeError, ["biasHh 0", "[8]"], x);
  assertRefused(lstm([one, one]), ShapeError, ["lstm", "weightIh 1", "[8, 2]"], x);
  assertRefused(lstm([one], { bidirectional: true }), ArgumentError, ["weights", "2 members"], x);
  assertRefused(lstm([]), ArgumentError, ["lstm", "weights"], x);
  assertRefused(lstm(undefined), ArgumentError, ["lstm", "weights 0", "undefined"], x);
  assertRefused(lstm({ weightIh: ones([8, 3]) }), DTypeError, ["lstm", "undefined"], x);
  assertThrows(lstm({ ...one, weight: x }), TypeError, "weight");
  assertRefused(lstm(one, { hidden: zeros([1, 2]) }), ShapeError, ["hidden", "[1, 1, 2]"], x);
  assertRefused(lstm(one, { cell: zeros([2, 1, 2]) }), ShapeError, ["cell", "[1, 1, 2]"], x);
  assertRefused(lstm(one, { batchFirst: 1 }), ArgumentError, ["batchFirst 1"], x);
  assertThrows(() => loose(nn).gru(x, one, { cell: zeros([1, 1, 2]) }), TypeError, "cell");
  assertRefused(
    () => nn.rnn(x, one, { nonlinearity: loose("gelu") }),
    ArgumentError,
    ["rnn", '"gelu"', '"relu"'],
    x,
  );
  const wide = { weightIh: ones([12, 2]), weightHh: ones([12, 3]) };
  assertRefused(lstm([one, wide]), ShapeError, ["weightHh 1", "[12, 3]", "[8, 2]"], x);
  assertRefused(() => nn.lstm(ones([4, 3]), one), ShapeError, ["lstm", "[4, 3]", "[T, B, I]"]);
  assertRefused(() => nn.lstm(zeros([0, 1, 3]), one), ShapeError, ["lstm", "[0, 1, 3]"]);
  assertRefused(
    () => nn.lstm(loose(ones([4, 1, 3], { dtype: "int32" })), one),
    DTypeError,
    ["lstm", "int32"],
  );
});
