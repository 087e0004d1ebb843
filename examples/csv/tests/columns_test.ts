/**
 * Columns of CSV texts as tensors.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { readColumns } from "../columns.ts";

const TEXT = `name,height,"weight, kg"
"Ann ""A"" Lee",1.62,58
Bob,1.8,
Bob,1.75,70.5
`;

test("columns of numbers and of words", () => {
  const { name, height, "weight, kg": weight } = readColumns(TEXT);
  assert(name !== undefined && "words" in name);
  assertEquals(name.words, ['Ann "A" Lee', "Bob"]);
  assertEquals(name.codes.toArray(), [0, 1, 1]);
  assert(height !== undefined && "values" in height && weight !== undefined && "values" in weight);
  assertEquals(height.values.toArray(), [1.62, 1.8, 1.75]);
  assertEquals(weight.values.toArray(), [58, NaN, 70.5]);
});

test("other separators, and no rows", () => {
  const { b } = readColumns("a;b\n1;2\n3;4\n", ";");
  assert(b !== undefined && "values" in b);
  assertEquals(b.values.sum().item(), 6);
  assertEquals(readColumns("a,b\n"), {});
});
