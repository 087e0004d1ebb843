/**
 * Basic indexing at the level of layouts: the elements that each slice, range and index string
 * selects.
 *
 * Uses no tensor: the elements of a fresh layout are their own buffer positions.
 *
 * @module
 */
import { describe, it } from "node:test";
import { assertEquals, assertThrows } from "@std/assert";
import { AxisError, IndexError } from "../../src/base/errors.ts";
import { Layout } from "../../src/base/layout.ts";
import {
  type BasicIndex,
  parseIndexString,
  range,
  rangeInclusive,
  resolveSlice,
  Slice,
  sliceAxisBy,
  sliceBasic,
} from "../../src/base/slice.ts";

const ten = Layout.contiguous([10]);

function elements(layout: Layout): number[] {
  assertEquals(layout.shape.length, 1, "a rank-1 view");
  return Array.from({ length: layout.shape[0] }, (_, i) => layout.flatIndex("get", [i]));
}

/** The elements that `arg` selects of 0…9, in every notation. */
function take(arg: BasicIndex): number[] {
  const taken = elements(sliceBasic(ten, [arg]));
  assertEquals(elements(sliceAxisBy(ten, 0, arg)), taken);
  return taken;
}

function rejects(f: () => unknown, message: string): void {
  assertThrows(f, IndexError, message);
}

const NONE: number[] = [];
const DOWN = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0];
const UP = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

describe("slice: ranges on one axis", () => {
  it("range(2, 5) gives 2, 3, 4", () => assertEquals(take(range(2, 5)), [2, 3, 4]));
  it("Slice.to(5) gives 0 to 4", () => assertEquals(take(Slice.to(5)), [0, 1, 2, 3, 4]));
  it("Slice.from(2) gives 2 to 9", () => assertEquals(take(Slice.from(2)), UP.slice(2)));
  it("Slice.full() gives all", () => assertEquals(take(Slice.full()), UP));
  it("rangeInclusive(2, 5) gives 2, 3, 4, 5", () => {
    assertEquals(take(rangeInclusive(2, 5)), [2, 3, 4, 5]);
  });
  it("rangeInclusive(0, 2) gives 0, 1, 2", () => {
    assertEquals(take(rangeInclusive(0, 2)), [0, 1, 2]);
  });
  it("rangeInclusive(4, 4) gives 4", () => assertEquals(take(rangeInclusive(4, 4)), [4]));
  it("a range of one goes forwards", () => {
    assertEquals(resolveSlice(rangeInclusive(4, 4), 10), { start: 4, length: 1, step: 1 });
  });
});

describe("slice: auto-reverse of range objects", () => {
  it("auto-reverse: range(5, 2) gives 5, 4, 3", () => assertEquals(take(range(5, 2)), [5, 4, 3]));
  it("auto-reverse: rangeInclusive(9, 0) gives 9 to 0", () => {
    assertEquals(take(rangeInclusive(9, 0)), DOWN);
  });
  it("auto-reverse: range(9, 0) gives 9 to 1", () => {
    assertEquals(take(range(9, 0)), DOWN.slice(0, 9));
  });
  it("auto-reverse: negatives are resolved before the bounds are compared", () => {
    assertEquals(take(range(-1, 6)), [9, 8, 7]);
    assertEquals(take(range(-3, -1)), [7, 8]);
    assertEquals(take(range(0, -7)), [0, 1, 2]);
    assertEquals(take(rangeInclusive(-1, -3)), [9, 8, 7]);
  });
  it("auto-reverse: the bounds are compared before they are clipped", () => {
    assertEquals(take(range(20, 6)), [9, 8, 7]);
    assertEquals(take(range(6, 20)), [6, 7, 8, 9]);
    assertEquals(take(range(2, -20)), [2, 1, 0]);
    assertEquals(take(rangeInclusive(2, -20)), [2, 1, 0]);
    assertEquals(take(range(-20, 2)), [0, 1]);
    assertEquals(take(range(20, 12)), NONE);
    for (const [start, stop] of [[12, 15], [12, 12], [10, 12]] as const) {
      assertEquals(take(range(start, stop)), NONE);
    }
    assertEquals(take(range(-12, -20)), NONE);
  });
  it('auto-reverse: a "5:2" string is empty, as in NumPy', () => assertEquals(take("5:2"), NONE));
  it("auto-reverse: any range of an empty axis is empty", () => {
    const empty = Layout.contiguous([0]);
    for (const arg of [range(0, 3), range(3, 0), rangeInclusive(0, 0), rangeInclusive(-1, 0)]) {
      assertEquals(sliceBasic(empty, [arg]).shape, [0]);
    }
  });
});

describe("slice: negative steps", () => {
  it("negative step: all with step -1 gives 9 to 0", () => {
    assertEquals(take(Slice.full().step(-1)), DOWN);
    assertEquals(take("::-1"), DOWN);
  });
  it("negative step: from 8 with step -1 gives 8 to 0", () => {
    assertEquals(take(Slice.from(8).step(-1)), DOWN.slice(1));
    assertEquals(take("8::-1"), DOWN.slice(1));
  });
  it("negative step: to 5 with step -1 gives 9, 8, 7, 6 (the end is exclusive)", () => {
    assertEquals(take(Slice.to(5).step(-1)), [9, 8, 7, 6]);
    assertEquals(take(":5:-1"), [9, 8, 7, 6]);
  });
});

describe("slice: steps", () => {
  it("step 2 gives 0, 2, 4, 6, 8", () => assertEquals(take(Slice.step(2)), [0, 2, 4, 6, 8]));
  it("step -2 gives 9, 7, 5, 3, 1", () => assertEquals(take(Slice.step(-2)), [9, 7, 5, 3, 1]));
  it("1 to 8 by 3 gives 1, 4, 7", () => {
    assertEquals(take(Slice.from(1).to(8).step(3)), [1, 4, 7]);
    assertEquals(take("1:8:3"), [1, 4, 7]);
  });
  it("a step beyond the axis gives one element", () => {
    assertEquals(take(Slice.step(99)), [0]);
    assertEquals(take(Slice.step(-99)), [9]);
  });
  it("the parts of a slice chain in any order, and leave their source as it was", () => {
    const source = Slice.step(3);
    assertEquals(take(source.to(8).from(1)), [1, 4, 7]);
    assertEquals(take(source), [0, 3, 6, 9]);
    assertEquals(take(Slice.from(1).to(8).step(3).full()), [0, 3, 6, 9]);
  });
});

describe("slice: manual slices", () => {
  it("manual slice: (8, 2, -2) gives 8, 6, 4", () => {
    assertEquals(take(new Slice(8, 2, -2)), [8, 6, 4]);
  });
  it("manual slice: (null, null, -1) gives 9 to 0", () => {
    assertEquals(take(new Slice(null, null, -1)), DOWN);
  });
  it("manual slice: (5, null, 1) gives 5 to 9", () => {
    assertEquals(take(new Slice(5, null, 1)), [5, 6, 7, 8, 9]);
  });
  it("manual slice: bounds beyond the axis are clipped", () => {
    assertEquals(take(new Slice(-99, 99)), UP);
    assertEquals(take(new Slice(99, -99, -1)), DOWN);
    assertEquals(resolveSlice(new Slice(-99, 3), 10), { start: 0, length: 3, step: 1 });
  });
});

describe("slice: empty slices", () => {
  it("empty slice: 1 to 3 with step -1 gives a size-0 axis", () => {
    assertEquals(take(new Slice(1, 3, -1)), NONE);
    assertEquals(take("1:3:-1"), NONE);
  });
  it("empty slice: range(5, 5) gives a size-0 axis", () => assertEquals(take(range(5, 5)), NONE));
  it("empty slice: the rank is kept, and the offset stays inside the buffer", () => {
    const view = sliceBasic(Layout.contiguous([2, 3], 7), [Slice.from(2), Slice.step(-1)]);
    assertEquals(view.shape, [0, 3]);
    assertEquals([view.size, view.offset, view.contiguous], [0, 7, true]);
    assertEquals(sliceAxisBy(Layout.contiguous([2, 3], 7), 0, Slice.from(2)).offset, 7);
    const row = sliceBasic(Layout.contiguous([2, 0, 3], 4), [1]);
    assertEquals([row.offset, row.size], [4, 0]);
  });
});

describe("slice: several axes", () => {
  const x = Layout.contiguous([6, 6, 4, 4]);

  it('x(6, 6, 4, 4) by "2:, 3, :, 1" gives (4, 4) with one offset, then "1:, :4" gives (3, 4)', () => {
    const first = sliceBasic(x, ["2:, 3, :, 1"]);
    assertEquals(first.shape, [4, 4]);
    assertEquals(first.strides, [96, 4]);
    assertEquals(first.offset, 2 * 96 + 3 * 16 + 1);
    const second = sliceBasic(first, ["1:, :4"]);
    assertEquals(second.shape, [3, 4]);
    assertEquals(second.strides, [96, 4]);
    assertEquals(second.offset, first.offset + 96);
    assertEquals(second.flatIndex("get", [2, 3]), x.flatIndex("get", [5, 3, 3, 1]));
  });
  it("separate arguments mean the same as one string for all axes", () => {
    const expected = sliceBasic(x, ["2:, 3, :, 1"]);
    assertEquals(sliceBasic(x, ["2:", 3, ":", 1]), expected);
    assertEquals(sliceBasic(x, [Slice.from(2), 3, Slice.full(), 1]), expected);
    assertEquals(sliceBasic(x, [range(2, 6), "3", rangeInclusive(0, -1), "1"]), expected);
  });
  it("slice of a slice: strides multiply by the step, the offset grows by start times stride", () => {
    const once = sliceBasic(x, [Slice.from(1).step(2), Slice.full(), Slice.step(-1)]);
    assertEquals(once.strides, [192, 16, -4, 1]);
    assertEquals(once.offset, 96 + 3 * 4);
    const twice = sliceBasic(once, [Slice.step(-1), 0, "1::2"]);
    assertEquals(twice.shape, [3, 2, 4]);
    assertEquals(twice.strides, [-192, -8, 1]);
    assertEquals(twice.offset, once.offset + 2 * 192 - 4);
  });
  it("axes that are not mentioned stay whole", () => {
    assertEquals(sliceBasic(x, [1]), sliceBasic(x, [1, ":", ":", ":"]));
    assertEquals(sliceBasic(x, []), x);
  });
  it('"..." stands for the axes in the middle, also for none', () => {
    assertEquals(sliceBasic(x, [1, "...", 2]), sliceBasic(x, [1, ":", ":", 2]));
    assertEquals(sliceBasic(x, ["1, ..., 2"]), sliceBasic(x, [1, ":", ":", 2]));
    assertEquals(sliceBasic(x, ["...", 2]), sliceBasic(x, [":", ":", ":", 2]));
    assertEquals(sliceBasic(x, [1, 2, "...", 3, 0]), sliceBasic(x, [1, 2, 3, 0]));
    assertEquals(sliceBasic(x, ["..."]), x);
  });
  it("null, None and newaxis make an axis of size 1", () => {
    assertEquals(sliceBasic(ten, [null, "2:"]).shape, [1, 8]);
    assertEquals(sliceBasic(ten, ["2:", null]).shape, [8, 1]);
    assertEquals(sliceBasic(ten, [null, null, 3, null]).shape, [1, 1, 1]);
    assertEquals(sliceBasic(ten, ["None, ..., newaxis"]).shape, [1, 10, 1]);
    assertEquals(sliceBasic(ten, [null]).contiguous, true);
  });
  it("a rank-0 tensor can be sliced by nothing, by dots and by new axes", () => {
    const scalar = Layout.contiguous([], 3);
    assertEquals(sliceBasic(scalar, []).offset, 3);
    assertEquals(sliceBasic(scalar, ["..."]).shape, []);
    assertEquals(sliceBasic(scalar, [null]).shape, [1]);
    rejects(() => sliceBasic(scalar, [0]), "Cannot slice shape [] by 1 indexes: it has rank 0");
  });
  it("reversing a broadcast axis leaves stride 0, not -0", () => {
    const view = sliceBasic(ten.broadcastTo([3, 10]), [Slice.step(-1)]);
    assertEquals(Object.is(view.strides[0], 0), true);
  });
});

describe("slice: an index on one axis", () => {
  const x = Layout.contiguous([5, 4, 3]);

  it("an index drops the axis and folds into the offset", () => {
    const view = sliceAxisBy(x, 0, 3);
    assertEquals([view.shape, view.strides, view.offset], [[4, 3], [3, 1], 36]);
    assertEquals(sliceAxisBy(x, 1, -1).offset, 9);
    assertEquals(sliceAxisBy(x, -1, 2).shape, [5, 4]);
    assertEquals(sliceBasic(x, [3]), view);
    assertEquals(sliceBasic(x, ["3"]), view);
    // A row of a transposed layout is not dense.
    const columns = Layout.contiguous([3, 4]).transpose();
    assertEquals(
      [columns.selectAxis(0, 1), sliceBasic(columns, [1])].map((row) => row.contiguous),
      [
        false,
        false,
      ],
    );
  });
  it("one axis by a slice, a range or a string", () => {
    assertEquals(sliceAxisBy(x, 1, range(3, 1)), sliceBasic(x, [":", range(3, 1)]));
    assertEquals(sliceAxisBy(x, -2, "::-2"), sliceBasic(x, [":", "::-2"]));
    assertEquals(sliceAxisBy(x, 2, "-1"), sliceBasic(x, ["...", -1]));
  });
  it("one axis by what makes no sense there is an IndexError, a missing axis an AxisError", () => {
    for (const bad of [null, "...", "1, 2", true, [1], {}, undefined]) {
      assertThrows(
        () => sliceAxisBy(x, 0, bad as BasicIndex),
        IndexError,
        "Cannot slice axis 0 by",
      );
    }
    assertThrows(() => sliceAxisBy(x, 3, 0), AxisError, "Cannot slice along axis 3: rank 3 has");
    assertThrows(() => sliceAxisBy(x, 0.5, 0), AxisError, "Cannot slice along axis 0.5");
  });
});

describe("slice: bad slices", () => {
  const x = Layout.contiguous([2, 3]);

  it("bad slice: an index out of range names the axis, the shape and the size", () => {
    rejects(() => sliceBasic(x, [1, 5]), "Cannot slice axis 1 of shape [2, 3] at 5: it has size 3");
    rejects(
      () => sliceBasic(x, ["-3"]),
      "Cannot slice axis 0 of shape [2, 3] at -3: it has size 2",
    );
    rejects(() => sliceAxisBy(x, 1, 3), "Cannot slice axis 1 of shape [2, 3] at 3: it has size 3");
    rejects(() => sliceBasic(x, [2]), "at 2: it has size 2");
    rejects(() => sliceBasic(Layout.contiguous([0]), [0]), "at 0: it has size 0");
  });
  it("bad slice: an index that is not an integer", () => {
    rejects(() => sliceBasic(x, [0.5]), "Cannot slice axis 0 of shape [2, 3] at 0.5: an index is");
    rejects(() => sliceBasic(x, [NaN]), "at NaN: an index is an integer");
  });
  it("bad slice: step 0", () => {
    rejects(() => Slice.full().step(0), "Cannot slice with step 0");
    rejects(() => new Slice(1, 2, 0), "Cannot slice with step 0");
    rejects(() => sliceBasic(x, ["::0"]), "Cannot slice with step 0");
  });
  it("bad slice: bounds and steps that are not integers", () => {
    rejects(() => Slice.from(1.5), "Cannot slice with start 1.5: it is not an integer");
    rejects(() => Slice.to(NaN), "Cannot slice with stop NaN");
    rejects(() => Slice.step(Infinity), "Cannot slice with step Infinity");
    rejects(() => range(0, 1.5), "Cannot slice by a range with stop 1.5");
    rejects(() => rangeInclusive(undefined as unknown as number, 1), "with start undefined");
  });
  it("bad slice: too many indexes, or more than one ellipsis", () => {
    rejects(
      () => sliceBasic(x, [0, 0, 0]),
      "Cannot slice shape [2, 3] by 3 indexes: it has rank 2",
    );
    rejects(() => sliceBasic(x, [":, :, ..., :"]), "by 3 indexes: it has rank 2");
    rejects(() => sliceBasic(x, ["...", "..."]), 'more than one "..."');
  });
  it("bad slice: arguments of another kind", () => {
    for (const bad of [undefined, true, 1n, {}, [0]]) {
      rejects(() => sliceBasic(x, [bad as BasicIndex]), "it is not an index, slice or range");
    }
  });
});

describe("slice: index strings", () => {
  it("an index string is read into numbers, slices, new axes and dots", () => {
    assertEquals(parseIndexString("2:, 3,:,-1, ..., None,newaxis, 1 : -2 : 3"), [
      new Slice(2, null, 1),
      3,
      new Slice(null, null, 1),
      -1,
      "...",
      null,
      null,
      new Slice(1, -2, 3),
    ]);
    assertEquals(Object.is((parseIndexString("-0"))[0], 0), true);
  });
  it("an index string that is not one is an IndexError that quotes it", () => {
    for (
      const bad of [
        ...["", "1,", ",1", "a", "1.5", "1:2:3:4", "1e3", "0x1", "--1", "1 2", "..", "+1"],
        // Bounds are decimal integers, whatever else Number() takes.
        ...["1e0:", ":0x4", "1.0:", "::1e0", ":Infinity", "+1:"],
      ]
    ) {
      rejects(() => parseIndexString(bad), `Cannot slice by "${bad}": `);
    }
  });
  it("a string for all axes stands alone", () => {
    const x = Layout.contiguous([2, 3, 4]);
    rejects(() => sliceBasic(x, ["1:, 2", 0]), 'Cannot slice by "1:, 2" beside other indexes');
  });
  it("the cache of parsed strings is bounded and changes no answer", () => {
    const before = parseIndexString("7:9");
    for (let i = 0; i < 5000; i++) assertEquals(parseIndexString(`${i}`), [i]);
    assertEquals(parseIndexString("7:9"), before);
    assertEquals(parseIndexString("7:9") === before, false, "long forgotten");
    assertEquals(parseIndexString("7:9") === parseIndexString("7:9"), true, "just read");
  });
});
