/**
 * What only mutation testing missed: rules that no other test would notice if they were gone.
 *
 * @module
 */
import { assert, assertEquals, assertNotStrictEquals, assertStrictEquals } from "@std/assert";
import { describe, it } from "node:test";
import { applyReduce } from "../src/dispatch.ts";
import { DTYPE, DTYPES } from "../src/dtype.ts";
import { IndexError } from "../src/errors.ts";
import { Layout } from "../src/layout.ts";
import { REDUCE, type ReduceRow, ROWS } from "../src/ops.ts";
import { parseIndexString, range, resolveSlice } from "../src/slice.ts";
import { allocate } from "../src/storage.ts";
import "../src/tensor.ts";
import { assertRefused, iota } from "./support.ts";
import { golden } from "./table/golden.ts";
import { operand, read } from "./table/operands.ts";

describe("op rows", () => {
  it("each takes the dtypes that there is golden data for, and no others", () => {
    for (const dtype of DTYPES) {
      const kind = DTYPE[dtype].kind;
      const taken = ROWS.filter((row) => row.takes.includes(kind)).map(({ name }) => name);
      assertEquals(taken.sort(), Object.keys(golden(dtype).rows).sort(), dtype);
    }
  });

  // One large term and many that vanish beside it one by one.
  const ones = 4000;
  const large = 1e16;
  /** The input whose mapped value is `large`, where that is not the value itself. */
  const inputs: Record<string, [x: number, y: number, result: (sum: number) => number]> = {
    var: [1e8, 0, (sum) => sum / (ones + 1)],
    std: [1e8, 0, (sum) => Math.sqrt(sum / (ones + 1))],
    norm2: [1e8, 0, Math.sqrt],
    normP: [large ** (1 / 3), 0, Math.cbrt],
    mean: [large, 0, (sum) => sum / (ones + 1)],
  };

  for (const row of Object.values(REDUCE) as ReduceRow[]) {
    // Every sum, whatever the row says of itself.
    if (row.expr !== "a + x" || row.result === "int32") continue;
    it(`${row.name} of float64 keeps what is small beside the largest term`, () => {
      const exponential = row.name.toLowerCase().endsWith("sumexp");
      const [x, y, result] = exponential
        ? [Math.log(large), 0, row.name === "sumExp" ? (s: number) => s : Math.log]
        : inputs[row.name] ?? [large, 0, (s: number) => s];
      const storage = allocate("float64", ones + 1, false);
      storage.array.fill((exponential ? 0 : 1) as never);
      storage.array[0] = x;
      const second = allocate("float64", 1, false);
      second.array[0] = y;
      const attributes = row.name === "normP" ? [3] : [ones + 1];
      const given = (row.attributes ?? []).map((_, i) => attributes[i]!);
      const [found] = read(
        applyReduce(
          row,
          operand(storage, Layout.contiguous([ones + 1])),
          0,
          {},
          () => given,
          row.arity === 2 ? operand(second, Layout.contiguous([1])) : undefined,
        ),
      ) as [number];
      const first = exponential ? Math.exp(x) : row.name === "normP" ? x ** 3 : large;
      // Within a block terms are added plainly; without blocks a whole lane of them is lost.
      const expected = result(first + ones);
      const allowed = Math.abs(expected - result(first + ones - 500));
      assert(Math.abs(found - expected) < allowed, `${found}, not ${expected}`);
    });
  }
});

describe("slices", () => {
  it("a range that begins behind the end is empty", () => {
    for (const [start, stop] of [[12, 15], [12, 12], [10, 12]]) {
      assertEquals(resolveSlice(range(start!, stop!), 10).length, 0);
    }
    assertEquals(iota([10]).sliceAxis(0, range(12, 15)).shape, [0]);
  });

  it("bounds in texts are decimal integers, whatever else Number() takes", () => {
    const x = iota([10]);
    for (const text of ["1e0:", ":0x4", "1.0:", "::1e0", ":Infinity", "+1:"]) {
      assertRefused(() => x.slice(text as ":"), IndexError, ["slice", text], x);
    }
  });

  it("texts are parsed once, and not all are kept for good", () => {
    const parts = parseIndexString("1:, ::-1, 0");
    assertStrictEquals(parseIndexString("1:, ::-1, 0"), parts);
    for (let i = 0; i < 1000; i++) parseIndexString(`${i}`);
    const again = parseIndexString("1:, ::-1, 0");
    assertNotStrictEquals(again, parts);
    assertEquals(again, parts);
  });
});
