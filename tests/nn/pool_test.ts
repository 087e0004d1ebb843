/**
 * Pooling and sliding windows as PyTorch computes them; special values, other dtypes, errors.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  arange,
  ArgumentError,
  AxisError,
  DTypeError,
  ones,
  ReadOnlyError,
  ShapeError,
  tensor,
  zeros,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { assertRefused, iota, loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { testGolden } from "./golden.ts";

testGolden("pool");

for (const { name, on } of BACKENDS) {
  const device = loose(typeof on === "string" ? on : "cpu");
  test(`special values and integers in windows, ${name}`, () =>
    using(on, () => {
      const x = tensor([[NaN, 1, -Infinity, -Infinity, 2, Infinity]]).to(device);
      assertEquals(nn.maxPool1d(x, 2).cpu().toArray(), [[NaN, -Infinity, Infinity]]);
      assertEquals(nn.avgPool1d(x, 2).cpu().toArray(), [[NaN, -Infinity, Infinity]]);
      for (const dtype of ["int8", "uint8", "int32", "int64", "uint64"] as const) {
        const whole = iota([1, 2, 4], dtype).to(device);
        const made = nn.maxPool1d(whole, 3, { stride: 1, padding: 1 });
        assertEquals(made.dtype, dtype);
        assertEquals(made.cpu().toArray({ bigint: false }), [[[1, 2, 3, 3], [5, 6, 7, 7]]]);
      }
      // A window of padding only: elements −1 and 1 of one element.
      const one = tensor([[5]]);
      const options = { padding: 1, dilation: 2, stride: 1 };
      assertEquals(nn.maxPool1d(one.to(device), 2, options).cpu().toArray(), [[-Infinity]]);
      const least = nn.maxPool1d(one.astype("int16").to(device), 2, options);
      assertEquals(least.cpu().toArray(), [[-32768]]);
    }));
}

test("padding by name, as for convolutions", () => {
  const x = iota([1, 1, 5, 6]);
  const stride = 2;
  const same = nn.maxPool2d(x, 2, { stride, padding: "same" });
  assertEquals(same.toArray(), nn.maxPool2d(x, 2, { stride, padding: [[0, 1], 0] }).toArray());
  assertEquals(same.shape, [1, 1, 3, 3]);
  assertEquals(nn.avgPool2d(x, 3, { stride: 1, padding: "same" }).shape, x.shape);
  assertEquals(nn.avgPool2d(x, 3, { stride, padding: "valid" }).shape, [1, 1, 2, 2]);
});

test("pooling of no elements", () => {
  assertEquals(nn.maxPool2d(zeros([0, 3, 4, 4]), 2).shape, [0, 3, 2, 2]);
  assertEquals(nn.avgPool1d(zeros([2, 0, 4]), 2).shape, [2, 0, 2]);
  assertRefused(() => nn.maxPool1d(zeros([2, 3, 0]), 2), ShapeError, ["maxPool1d", "[2, 3, 0]"]);
  assertRefused(() => nn.adaptiveAvgPool1d(zeros([2, 0]), 2), ShapeError, ["adaptiveAvgPool1d"]);
});

test("a pooling is one op of a program, and takes other numbers of windows in other calls", () => {
  const pool = compile((x: ReturnType<typeof loose>) => nn.maxPool2d(x.mul(2), 3, { stride: 2 }));
  for (const n of [7, 9, 7]) {
    const x = iota([1, 2, n, n]);
    assertEquals(pool(x).toArray(), nn.maxPool2d(loose(x).mul(2), 3, { stride: 2 }).toArray());
  }
  assertEquals(pool.programs, 2);
});

test("unfold is a view that cannot be written where windows overlap", () => {
  const x = arange(6);
  const apart = loose(nn.unfold(x, 0, 2, 3));
  apart.fill_(9);
  assertEquals(x.toArray(), [9, 9, 2, 9, 9, 5]);
  assertThrows(() => loose(nn.unfold(x, 0, 3, 1)).fill_(0), ReadOnlyError);
  assertEquals(nn.unfold(x, 0, 6, 1).shape, [1, 6]);
  assertEquals(nn.unfold(x, 0, 0, 2).shape, [4, 0]);
  assertRefused(() => nn.unfold(x, 1, 2, 1), AxisError, "unfold", x);
  assertRefused(() => nn.unfold(x, 0, 7, 1), ShapeError, ["unfold", "[6]", "7"], x);
  assertRefused(() => nn.unfold(x, 0, 2, 0), ArgumentError, ["unfold", "step 0"], x);
  assertRefused(() => nn.unfold(x, 0, 1.5, 1), ShapeError, ["unfold", "1.5"], x);
});

test("arguments that do not fit are refused", () => {
  const x = ones([1, 2, 5, 5]);
  const max = (...args: unknown[]) => () => loose(nn).maxPool2d(x, ...args);
  const mean = (...args: unknown[]) => () => loose(nn).avgPool2d(x, ...args);
  assertRefused(max(6), ShapeError, ["maxPool2d", "[1, 2, 5, 5]", "axis 2", "6"], x);
  assertRefused(max(3, { dilation: 3 }), ShapeError, ["dilation 3"], x);
  assertRefused(max(0), ArgumentError, ["maxPool2d", "kernelSize 0"], x);
  assertRefused(max([2, 2, 2]), ArgumentError, ["3 numbers as kernelSize", "2"], x);
  assertRefused(max(2, { stride: 0 }), ArgumentError, ["stride 0"], x);
  assertRefused(max(2, { stride: 1.5 }), ArgumentError, ["stride 1.5"], x);
  assertRefused(max(2, { padding: 2 }), ArgumentError, ["padding 2"], x);
  assertRefused(max(2, { padding: "full" }), ArgumentError, ['padding "full"', '"same"'], x);
  assertRefused(max(2, { padding: -1 }), ArgumentError, ["padding -1"], x);
  assertRefused(max(2, { padding: [[1, 0, 1], 0] }), ArgumentError, ["padding"], x);
  assertRefused(max(2, { ceilMode: 1 }), ArgumentError, ["ceilMode 1"], x);
  assertRefused(mean(2, { divisorOverride: 0 }), ArgumentError, ["divisorOverride 0"], x);
  assertThrows(max(2, { countIncludePad: true }), TypeError, "countIncludePad");
  assertThrows(mean(2, { dilation: 2 }), TypeError, "dilation");
  assertRefused(
    () => nn.avgPool2d(loose(ones([1, 4, 4], { dtype: "int32" })), 2),
    DTypeError,
    ["avgPool2d", "int32", "float"],
  );
  assertRefused(() => nn.maxPool2d(ones([4, 4]), 2), ShapeError, ["maxPool2d", "[4, 4]", "[C, H"]);
  assertRefused(() => nn.maxPool1d(ones([1, 1, 1, 4]), 2), ShapeError, ["maxPool1d", "[C, L]"]);
  assertRefused(() => nn.adaptiveAvgPool2d(x, 0), ArgumentError, ["adaptiveAvgPool2d", "0"], x);
  assertRefused(
    () => nn.adaptiveAvgPool2d(x, [1]),
    ArgumentError,
    ["1 numbers as outputSize", "2"],
    x,
  );
});
