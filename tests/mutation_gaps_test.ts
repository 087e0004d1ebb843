/**
 * What only mutation testing missed: rules that no other test would notice if they were gone.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertNotStrictEquals,
  assertStrictEquals,
  assertThrows,
} from "@std/assert";
import { describe, it } from "node:test";
import { sharesBuffer, zeros } from "../mod.ts";
import { apply, applyInPlace, applyReduce, overlaps, undisturbed } from "../src/dispatch.ts";
import { DTYPE, DTYPES } from "../src/dtype.ts";
import { DeviceError, IndexError, ShapeError } from "../src/errors.ts";
import { Layout } from "../src/layout.ts";
import { MAP, REDUCE, type ReduceRow, ROWS } from "../src/ops.ts";
import { parseIndexString, range, resolveSlice } from "../src/slice.ts";
import { adopt, allocate, Storage } from "../src/storage.ts";
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

describe("layouts", () => {
  it("windows that slide by less than their length overlap", () => {
    const windows = (step: number): boolean => new Layout([3, 4], [step, 1], 0).overlapsItself;
    assertEquals([1, 2, 3, 4, 5].map(windows), [true, true, true, false, false]);
  });

  it("a new axis has stride 0, of size 1 too", () => {
    assertEquals(Layout.contiguous([3]).broadcastTo([1, 3]).strides, [0, 1]);
  });

  it("sizes beyond 2^53 do not pass because a tensor is empty", () => {
    const x = zeros([0]);
    assertRefused(() => x.reshape([2 ** 30, 2 ** 30, -1] as number[]), ShapeError, "reshape", x);
  });
});

describe("writing", () => {
  it("operands overlap when their bytes do, not when they only share a buffer", () => {
    const part = (from: number, n: number) => operand(storage, new Layout([n], [1], from));
    const storage = adopt("float32", new Float32Array(10));
    assert(!overlaps(part(0, 5), part(5, 5)));
    assert(overlaps(part(0, 6), part(5, 5)), "one element in common");
    assert(overlaps(part(5, 5), part(0, 6)), "one element in common");
    // Two arrays on one buffer: what counts is where each begins.
    const { buffer } = storage.array;
    const later = operand(
      adopt("float32", new Float32Array(buffer, 20, 5)),
      new Layout([5], [1], 0),
    );
    assert(!overlaps(part(0, 5), later));
    assert(overlaps(part(0, 6), later));
    const bytes = operand(adopt("int8", new Int8Array(buffer, 0, 40)), new Layout([4], [1], 20));
    assert(overlaps(bytes, later));
    assert(!overlaps(bytes, part(0, 5)));
  });

  it("an operand that is the target itself is not copied", () => {
    const x = operand(allocate("float32", 4, true), Layout.contiguous([2, 2]));
    assertStrictEquals(undisturbed(x, x), x);
    assertNotStrictEquals(undisturbed(operand(x.storage, x.layout.transpose()), x), x);
  });

  it("a write to one copy-on-write tensor leaves the others where they are", () => {
    const x = iota([4]);
    const [a, b] = [x.intoCow(), x.intoCow()];
    a.set([0], 9);
    assert(!sharesBuffer(a, x));
    assert(sharesBuffer(b, x));
    assertEquals([...x.toTypedArray() as Float32Array], [0, 1, 2, 3]);
  });
});

describe("devices", () => {
  class Elsewhere extends Storage {
    override get device(): string {
      return "elsewhere:0";
    }
  }

  it("an op on two devices is refused, whatever the dtypes", () => {
    const layout = Layout.contiguous([2]);
    const here = operand(allocate("float32", 2, true), layout);
    for (const dtype of ["float32", "float64"] as const) {
      const { array, info } = allocate(dtype, 2, true);
      const there = operand(new Elsewhere(array, info, true, false), layout);
      const parts = ["on cpu and elsewhere:0", "on elsewhere:0 and cpu"];
      assertThrows(() => apply(MAP.add, here, there), DeviceError, parts[0]);
      assertThrows(() => apply(MAP.add, there, here), DeviceError, parts[1]);
      assertThrows(() => apply(MAP.where, true, here, there), DeviceError, parts[0]);
      assertThrows(() => applyInPlace(MAP.add, there, here), DeviceError, parts[1]);
      assertThrows(() => apply(MAP.neg, here, undefined, undefined, { out: there }), DeviceError);
      assertThrows(() => applyReduce(REDUCE.sum, here, 0, { out: there }), DeviceError);
    }
  });
});
