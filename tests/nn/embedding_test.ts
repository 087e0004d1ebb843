/**
 * Rows of a table: as PyTorch, by every integer dtype, and indices out of range.
 *
 * @module
 */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { test } from "node:test";
import { DTypeError, IndexError, ones, ShapeError, tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, assertRefused, iota, loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { testGolden } from "./golden.ts";

testGolden("embedding");

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

for (const { name, on } of BACKENDS) {
  const device = loose(typeof on === "string" ? on : "cpu");
  test(`indices of every integer dtype, and none out of range, ${name}`, () =>
    using(on, () => {
      const weight = iota([200, 2], "int16").to(device);
      for (const dtype of INTEGERS) {
        const indices = (values: number[]): Any => tensor(values, { dtype }).to(device);
        const made = nn.embedding(indices([120, 0, 7]), weight).cpu();
        assertEquals(made.toArray(), [[240, 241], [0, 1], [14, 15]]);
        const bad = dtype === "int8" ? [-1, -128] : dtype.startsWith("u") ? [200] : [-1, -200, 200];
        for (const index of bad) {
          const read = (): unknown => nn.embedding(indices([3, index]), weight).cpu().toArray();
          const { message } = assertThrows(read, IndexError);
          if (device === "cpu") {
            assertEquals(
              message,
              `Cannot embedding axis 0 of shape [200, 2] at ${index}: it has size 200`,
            );
          }
        }
      }
    }));
}

test("a program checks indices in each run", () => {
  const weight = iota([5, 2]);
  const f = compile((indices: Any) => nn.embedding(indices, weight).mul(2));
  assertEquals(f(tensor([4], { dtype: "int32" })).toArray(), [[16, 18]]);
  for (const bad of [-1, 5]) {
    const { message } = assertThrows(() => f(tensor([bad], { dtype: "int32" })), IndexError);
    assertStringIncludes(message, "embedding");
  }
  assertEquals(f(tensor([0], { dtype: "int32" })).toArray(), [[0, 2]]);
});

test("arguments that do not fit are refused", () => {
  const [indices, weight] = [tensor([0], { dtype: "int32" }), ones([3, 2])];
  assertRefused(() => nn.embedding(ones([2]), weight), DTypeError, ["embedding", "float32"]);
  assertRefused(() => nn.embedding(loose([0]), weight), DTypeError, ["embedding", "array"]);
  assertRefused(() => nn.embedding(indices, ones([3])), ShapeError, ["embedding", "[3]", "[V, D]"]);
  assertEquals(nn.embedding(tensor([], { dtype: "int32" }), weight).shape, [0, 2]);
});
