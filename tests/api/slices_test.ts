/**
 * Slices and ranges on one axis and several, through the public API.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  AxisError,
  IndexError,
  Layout,
  range,
  rangeInclusive,
  sharesBuffer,
  Slice,
  zeros,
} from "../../mod.ts";
import { assertRefused, iota, loose, ten } from "../support.ts";

/** The elements that `index` selects of 0…9, in both notations, which must agree. */
function take(index: Slice | ReturnType<typeof range> | string): number[] {
  const one: number[] = loose(ten()).sliceAxis(0, index).toArray();
  assertEquals(loose(ten()).slice(index).toArray(), one);
  return one;
}

const ALL = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

test("Range on one axis: range(2, 5) gives 2, 3, 4", () => {
  assertEquals(take(range(2, 5)), [2, 3, 4]);
  assertEquals(take("2:5"), [2, 3, 4]);
});

test("Range on one axis: Slice.to(5) gives 0 to 4, Slice.from(2) gives 2 to 9, Slice.full() all", () => {
  assertEquals(take(Slice.to(5)), ALL.slice(0, 5));
  assertEquals(take(Slice.from(2)), ALL.slice(2));
  assertEquals(take(Slice.full()), ALL);
  assertEquals(take(":"), ALL);
});

test("Range on one axis: rangeInclusive(2, 5) gives 2 to 5, rangeInclusive(0, 2) gives 0, 1, 2", () => {
  assertEquals(take(rangeInclusive(2, 5)), [2, 3, 4, 5]);
  assertEquals(take(rangeInclusive(0, 2)), [0, 1, 2]);
});

test("Range on one axis: another axis than the first, counted from the end too", () => {
  const x = iota([2, 3, 4]);
  assertEquals(x.sliceAxis(1, range(1, 3)).shape, [2, 2, 4]);
  assertEquals(loose(x).sliceAxis(-1, range(1, 3)).get(1, 2, 0), 21);
});

test("Range on one axis: a slice is a view of the same memory", () => {
  const x = ten();
  const part = x.sliceAxis(0, range(2, 5));
  assertEquals(sharesBuffer(x, part), true);
  part.set([0], 50);
  assertEquals(x.get(2), 50);
});

test("Index on one axis: it drops the axis and moves the offset", () => {
  const x = iota([2, 3, 4]);
  const row = x.sliceAxis(1, 2);
  assertEquals([...row.shape], [2, 4]);
  assertEquals(row.offset, 8);
  assertEquals(row.toArray(), [[8, 9, 10, 11], [20, 21, 22, 23]]);
  assertEquals(ten().sliceAxis(0, 3).item(), 3);
  assertEquals(ten().sliceAxis(0, -1).item(), 9);
});

test("Index on one axis: the type's rank goes down by one", () => {
  const shape: readonly [3, 4] = zeros([3, 2, 4]).sliceAxis(1, 0).shape;
  assertEquals([...shape], [3, 4]);
  // @ts-expect-error the axis that is indexed is gone
  const wrong: readonly [3, 2, 4] = zeros([3, 2, 4]).sliceAxis(1, 0).shape;
  assertEquals(wrong.length as number, 2);
});

test("Auto-reverse: range(5, 2) gives 5, 4, 3", () => assertEquals(take(range(5, 2)), [5, 4, 3]));

test("Auto-reverse: rangeInclusive(9, 0) gives 9 to 0, range(9, 0) gives 9 to 1", () => {
  assertEquals(take(rangeInclusive(9, 0)), ALL.toReversed());
  assertEquals(take(range(9, 0)), ALL.toReversed().slice(0, 9));
});

test("Auto-reverse: negative bounds are resolved before they are compared", () => {
  assertEquals(take(range(-1, 6)), [9, 8, 7]);
  assertEquals(take(range(2, -5)), [2, 3, 4]);
});

test('Auto-reverse: only for range objects, a "5:2" string and a Slice are empty', () => {
  assertEquals(take("5:2"), []);
  assertEquals(take(new Slice(5, 2)), []);
});

test("Negative step: all by -1 gives 9 to 0", () => {
  assertEquals(take(Slice.full().step(-1)), ALL.toReversed());
  assertEquals(take("::-1"), ALL.toReversed());
});

test("Negative step: from 8 by -1 gives 8 to 0", () => {
  assertEquals(take(Slice.from(8).step(-1)), ALL.slice(0, 9).toReversed());
});

test("Negative step: to 5 by -1 gives 9, 8, 7, 6, as the end is exclusive", () => {
  assertEquals(take(Slice.to(5).step(-1)), [9, 8, 7, 6]);
});

test("Step: 2 gives 0, 2, 4, 6, 8 and -2 gives 9, 7, 5, 3, 1", () => {
  assertEquals(take(Slice.full().step(2)), [0, 2, 4, 6, 8]);
  assertEquals(take(Slice.full().step(-2)), [9, 7, 5, 3, 1]);
});

test("Step: 1 to 8 by 3 gives 1, 4, 7", () => {
  assertEquals(take(Slice.from(1).to(8).step(3)), [1, 4, 7]);
  assertEquals(take("1:8:3"), [1, 4, 7]);
});

test("Manual slice: (8, 2, -2) gives 8, 6, 4", () => {
  assertEquals(take(new Slice(8, 2, -2)), [8, 6, 4]);
});

test("Manual slice: (null, null, -1) gives 9 to 0, (5, null, 1) gives 5 to 9", () => {
  assertEquals(take(new Slice(null, null, -1)), ALL.toReversed());
  assertEquals(take(new Slice(5, null, 1)), [5, 6, 7, 8, 9]);
});

test("Empty slice: 1 to 3 by -1, and 5 to 5, have size 0 and keep the rank", () => {
  for (const index of [new Slice(1, 3, -1), range(5, 5), "5:5"]) {
    const none = loose(ten()).sliceAxis(0, index);
    assertEquals([...none.shape], [0]);
    assertEquals(none.toArray(), []);
    assertEquals(none.sum().item(), 0);
  }
  assertEquals([...loose(iota([2, 3, 4])).slice(":, 1:1").shape], [2, 0, 4]);
});

test("Bad slice: step 0 is an IndexError", () => {
  const x = ten();
  assertRefused(() => new Slice(0, 5, 0), IndexError, "step 0");
  assertRefused(() => Slice.full().step(0), IndexError, "step 0");
  assertRefused(() => loose(x).slice("::0"), IndexError, "step 0", x);
});

test("Bad slice: an axis that is not there is an AxisError that names it", () => {
  const x = iota([2, 3]);
  for (const axis of [2, -3, 0.5, NaN]) {
    assertRefused(() => loose(x).sliceAxis(axis, range(0, 1)), AxisError, [
      "slice",
      String(axis),
      "rank 2",
    ], x);
  }
});

test("Bad slice: an index outside its axis is an IndexError that names axis, index and size", () => {
  const x = iota([2, 3]);
  assertRefused(() => loose(x).sliceAxis(1, 3), IndexError, ["axis 1", "3"], x);
  assertRefused(() => loose(x).slice(0, -4), IndexError, ["axis 1", "-4"], x);
  assertRefused(() => loose(x).slice(0, 0, 0), IndexError, ["[2, 3]", "3 indexes"], x);
  assertRefused(() => loose(x).slice(0.5), IndexError, "0.5", x);
  assertRefused(() => loose(x).slice("..., ..."), IndexError, "...", x);
});

test("Slices of several axes: (6, 6, 4, 4) by [2:, 3, :, 1] is (4, 4), then by [1:, :4] (3, 4)", () => {
  const x = iota([6, 6, 4, 4]);
  const first = loose(x.slice("2:, 3, :, 1"));
  assertEquals([...first.shape], [4, 4]);
  assertEquals(first.offset, 2 * 96 + 3 * 16 + 1);
  assertEquals([...first.strides], [96, 4]);
  const second = first.slice("1:, :4");
  assertEquals([...second.shape], [3, 4]);
  assertEquals(second.offset, 3 * 96 + 3 * 16 + 1);
  assertEquals(sharesBuffer(x, second), true);
  for (let i = 0; i < 3; i++) {
    for (let j = 0; j < 4; j++) assertEquals(second.get(i, j), x.get(3 + i, 3, j, 1));
  }
});

test("Slices of several axes: strides multiply by the step, the offset grows by start times stride", () => {
  const x = loose(iota([10, 12])).slice("1:9:2, ::3").slice("::-1, 1:");
  assertEquals([...x.strides], [-24, 3]);
  assertEquals(x.offset, 7 * 12 + 3);
  assertEquals(x.get(1, 2), 5 * 12 + 9);
});

test("One slice expression: one string for all axes is the same as one argument for each", () => {
  const x = iota([6, 6, 4, 4]);
  const parts = [
    x.slice("2:, 3, :, 1"),
    x.slice("2:", 3, ":", 1),
    x.slice(Slice.from(2), 3, Slice.full(), 1),
  ];
  for (const part of parts) {
    assertEquals([...part.shape], [4, 4]);
    assertEquals(part.toArray(), parts[0]!.toArray());
  }
});

test("One slice expression: dots for the axes between, null and None for a new one", () => {
  const x = loose(iota([2, 3, 4]));
  assertEquals(x.slice("1, ..., -1").toArray(), [15, 19, 23]);
  assertEquals([...x.slice("None, ..., newaxis").shape], [1, 2, 3, 4, 1]);
  assertEquals([...x.slice(null, 0).shape], [1, 3, 4]);
  const shape: readonly [1, 2, 1] = zeros([2, 3, 4]).slice("None, :, 0, 1:2").shape;
  assertEquals([...shape], [1, 2, 1]);
});

test("One slice expression: a layout can be sliced in the same way", () => {
  assertEquals([...Layout.contiguous([4, 5]).sliceAxis(1, 1, 2, 2).strides], [5, 2]);
});
