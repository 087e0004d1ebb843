/**
 * Interpolation as PyTorch computes it; other dtypes, special values, errors.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { ArgumentError, DTypeError, ones, random, ShapeError, tensor, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, assertRefused, iota, loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { testGolden } from "./golden.ts";

testGolden("gridSample");
testGolden("interpolate");

for (const { name, on } of BACKENDS) {
  const device = loose(typeof on === "string" ? on : "cpu");
  test(`the nearest elements, of every dtype, ${name}`, () =>
    using(on, () => {
      for (const dtype of ["bool", "int8", "uint64", "float16", "float64"] as const) {
        const x = iota([1, 1, 3], "int32").astype(dtype).to(device);
        for (const size of [5, 6]) {
          const made = nn.interpolate(x, { size });
          const picked = Array.from({ length: size }, (_, i) => Math.floor(i * 3 / size));
          assertEquals(made.dtype, dtype);
          assertEquals(String(made.cpu()), String(x.take(picked, 2).cpu()));
        }
      }
    }));

  test(`infinite elements stay where they are, ${name}`, () =>
    using(on, () => {
      const x = tensor([[[1, 1, Infinity, 1, 1, 1]]]).to(device);
      const made = nn.interpolate(x, { size: 12, mode: "linear" }).cpu().flatten().toArray();
      made.forEach((value, i) => assertEquals(Number.isFinite(value), i < 3 || i > 6, `${i}`));
    }));
}

test("a program takes other sizes in other calls, and its weights are constants", () => {
  const f = compile((x: Any, size: number) => nn.interpolate(x, { size, mode: "bicubic" }), {
    static: [1],
  });
  const x = random.normal(random.key(1), [1, 2, 5, 6]);
  for (const size of [3, 9, 3]) {
    assertEquals(String(f(x, size)), String(nn.interpolate(x, { size, mode: "bicubic" })));
  }
  assertEquals(f.programs, 2);
});

test("the same size is a copy", () => {
  const x = iota([1, 1, 4]);
  for (const mode of ["nearest", "linear", "area"] as const) {
    const made = loose(nn.interpolate(x, { size: 4, mode }));
    assertEquals(made.toArray(), x.toArray());
    made.fill_(7);
    assertEquals(x.toArray(), [[[0, 1, 2, 3]]]);
  }
  assertEquals(nn.interpolate(zeros([0, 2, 3]), { size: 4 }).shape, [0, 2, 4]);
  const empty = nn.interpolate(zeros([2, 0, 3, 3]), { size: [4, 5], mode: "bilinear" });
  assertEquals(empty.shape, [2, 0, 4, 5]);
});

test("a mean of what results cover is exact for whole factors", () => {
  const x = random.normal(random.key(1), [1, 2, 6, 4]);
  const made = nn.interpolate(x, { size: [3, 2], mode: "area" });
  assertEquals(String(made), String(nn.avgPool2d(x, 2)));
  assert(made.isContiguous);
});

test("arguments that do not fit are refused", () => {
  const x = ones([1, 1, 4, 4]);
  const f = (options: object) => () => nn.interpolate(x, loose(options));
  assertRefused(f({}), ArgumentError, ["interpolate", "size", "scaleFactor"], x);
  assertRefused(f({ size: 2, scaleFactor: 2 }), ArgumentError, "either", x);
  assertRefused(f({ size: 0 }), ArgumentError, ["interpolate", "size 0"], x);
  assertRefused(f({ size: [2] }), ArgumentError, ["1 numbers as size", "2"], x);
  assertRefused(f({ scaleFactor: [2, 2, 2] }), ArgumentError, ["scaleFactor", "2 axes"], x);
  assertRefused(f({ scaleFactor: -1 }), ArgumentError, ["scaleFactor -1"], x);
  assertRefused(f({ scaleFactor: 0.2 }), ShapeError, ["[1, 1, 4, 4]", "0.2", "size 0"], x);
  assertRefused(f({ size: 2, mode: "cubic" }), ArgumentError, ['mode "cubic"', '"bicubic"'], x);
  assertRefused(f({ size: 2, mode: "linear" }), ShapeError, ['"linear"', "[N, C, L]"], x);
  assertRefused(f({ size: 2, alignCorners: true }), ArgumentError, ["alignCorners", "nearest"], x);
  assertRefused(f({ size: 2, mode: "area", antialias: true }), ArgumentError, ["antialias"], x);
  assertThrows(f({ size: 2, align_corners: true }), TypeError, "align_corners");
  assertRefused(
    () => nn.interpolate(ones([1, 1, 4, 4], { dtype: "uint8" }), { size: 2, mode: "bilinear" }),
    DTypeError,
    ["interpolate", "uint8"],
  );
  assertRefused(() => nn.interpolate(ones([1, 4]), { size: 2 }), ShapeError, ["[1, 4]"]);
  assertRefused(() => nn.interpolate(zeros([1, 1, 0]), { size: 2 }), ShapeError, ["axis 2"]);
});
