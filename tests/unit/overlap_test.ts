/**
 * Operands of a write that share memory: which of them overlap the target, and which have to be
 * copied first.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { Layout } from "../../src/base/layout.ts";
import { disturbs, overlaps } from "../../src/core/write.ts";
import { allocate, wrapExternal } from "../../src/memory/pool.ts";
import { operand } from "../ops/table/operands.ts";

test("operands overlap when their bytes do, not when they only share a buffer", () => {
  const part = (from: number, n: number) => operand(storage, new Layout([n], [1], from));
  const storage = wrapExternal("float32", new Float32Array(10));
  assert(!overlaps(part(0, 5), part(5, 5)));
  assert(overlaps(part(0, 6), part(5, 5)), "one element in common");
  assert(overlaps(part(5, 5), part(0, 6)), "one element in common");
  // Two arrays on one buffer: their offsets count.
  const { buffer } = storage.array;
  const later = operand(
    wrapExternal("float32", new Float32Array(buffer, 20, 5)),
    new Layout([5], [1], 0),
  );
  assert(!overlaps(part(0, 5), later));
  assert(overlaps(part(0, 6), later));
  const bytes = operand(
    wrapExternal("int8", new Int8Array(buffer, 0, 40)),
    new Layout([4], [1], 20),
  );
  assert(overlaps(bytes, later));
  assert(!overlaps(bytes, part(0, 5)));
  const [first, last, after] = [0, 7, 8].map((from) =>
    operand(wrapExternal("uint8", new Uint8Array(buffer, from, 8)), Layout.contiguous([8]))
  );
  assertEquals(
    [overlaps(first!, last!), overlaps(last!, first!)],
    [true, true],
    "one byte in common",
  );
  assertEquals([overlaps(first!, after!), overlaps(after!, first!)], [false, false]);
  // The same shape, strides and offset, but other widths.
  const wide = operand(
    wrapExternal("float64", new Float64Array(buffer, 0, 4)),
    Layout.contiguous([4]),
  );
  assert(disturbs(wide, part(0, 4)));
});

test("an operand that is the target itself is not copied", () => {
  const x = operand(allocate("float32", 4, true), Layout.contiguous([2, 2]));
  assert(!disturbs(x, x));
  assert(!disturbs(x, operand(x.storage, x.layout)));
  assert(disturbs(x, operand(x.storage, x.layout.transpose())));
});
