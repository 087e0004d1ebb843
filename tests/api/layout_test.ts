/**
 * Layouts, strides, flat indexes and rank 0, through the public API.
 *
 * @module
 */
import { assert, assertEquals, assertFalse, assertNotStrictEquals } from "@std/assert";
import { test } from "node:test";
import { arange, IndexError, Layout, scalar, tensor, zeros } from "../../mod.ts";
import { OFFSETS, planMap, planReduce } from "../../src/base/plan.ts";
import { assertRefused, iota, loose } from "../support.ts";

test("Layout: shape, strides and offset of a slice, negative strides included", () => {
  const x = zeros([4, 6]);
  const part = x.slice("1:, ::-2");
  assertEquals([...part.shape], [3, 3]);
  assertEquals([...part.strides], [6, -2]);
  assertEquals(part.offset, 11);
});

test("Layout: it can be used without the data, after the tensor is gone too", () => {
  const x = iota([2, 3]);
  const { layout } = x;
  x.dispose();
  assert(layout instanceof Layout);
  assertEquals([...layout.transpose().shape], [3, 2]);
  assertEquals(layout.size, 6);
});

test("Layout: a tensor's shape and strides cannot be changed from outside", () => {
  const x = loose(iota([2, 3]));
  for (const list of [x.shape, x.strides]) {
    try {
      list[0] = 7;
    } catch (error) {
      assert(error instanceof TypeError);
    }
  }
  assertEquals([...x.shape], [2, 3]);
  assertEquals([...x.strides], [3, 1]);
  assertEquals(x.get(1, 2), 5);
});

test("Layout: two views of one tensor have layouts of their own", () => {
  const x = iota([2, 3]);
  const y = x.transpose();
  assertNotStrictEquals(x.layout, y.layout);
  assertEquals([...x.shape], [2, 3]);
  assert(x.isContiguous);
  assertFalse(y.isContiguous);
});

test("Row-major strides: (2, 3, 4) has strides (12, 4, 1)", () => {
  assertEquals([...zeros([2, 3, 4]).strides], [12, 4, 1]);
  assertEquals([...Layout.contiguous([2, 3, 4]).strides], [12, 4, 1]);
});

test("Row-major strides: (u, v, w, x) has strides (vwx, wx, x, 1)", () => {
  const [u, v, w, x] = [3, 5, 7, 11];
  assertEquals([...Layout.contiguous([u, v, w, x]).strides], [v * w * x, w * x, x, 1]);
});

test("Flat index: (1, 0, 2) of (2, 3, 4) is element 14", () => {
  assertEquals(iota([2, 3, 4]).get(1, 0, 2), 14);
});

test("Flat index: (1, 1) of a 2 by 3 matrix is element 4", () => {
  assertEquals(iota([2, 3]).get(1, 1), 4);
});

test("Flat index: it is the offset plus the sum of index times stride", () => {
  const x = iota([4, 6]).slice("1:, ::-2");
  for (let i = 0; i < 3; i++) {
    for (let j = 0; j < 3; j++) assertEquals(x.get(i, j), 11 + 6 * i - 2 * j);
  }
});

test("Flat index: each axis is checked, not only the end of the buffer", () => {
  const x = iota([2, 3, 4]);
  // Position 8 is in the buffer, but axis 2 ends at 3.
  assertRefused(() => x.get(0, 1, 4), IndexError, ["get", "axis 2", "4"], x);
  assertRefused(() => x.get(0, -4, 0), IndexError, ["get", "axis 1", "-4"], x);
  assertEquals(x.get(0, -3, 0), 0);
});

test("Rank 0: shape [] holds one element", () => {
  for (const x of [scalar(5), tensor(5)]) {
    assertEquals([...x.shape], []);
    assertEquals([...x.strides], []);
    assertEquals(x.rank, 0);
    assertEquals(x.size, 1);
    assertEquals(x.item(), 5);
    assertEquals(x.get(), 5);
    assertEquals(x.toArray(), 5);
  }
});

test("Rank 0: it takes part in ops and broadcasts with every shape", () => {
  assertEquals(scalar(5).add(scalar(2)).item(), 7);
  assertEquals(scalar(5).add(tensor([1, 2])).toArray(), [6, 7]);
  assertEquals(scalar(5).sum().item(), 5);
});

test("Byte strides: strides times the bytes of an element, for other programs", () => {
  assertEquals([...zeros([2, 3, 4], { dtype: "float64" }).byteStrides], [96, 32, 8]);
  assertEquals([...zeros([2, 3], { dtype: "int16" }).slice("::-1, ::2").byteStrides], [-6, 4]);
  assertEquals([...zeros([3], { dtype: "bool" }).broadcastTo([2, 3]).byteStrides], [0, 1]);
});

test("Rank-0 view with an offset: every way to read it sees the element that it points at", () => {
  const x = arange(10).slice(7);
  assertEquals([...x.shape], []);
  assertEquals(x.offset, 7);
  assertEquals(x.item(), 7);
  assertEquals(x.get(), 7);
  assertEquals(x.toArray(), 7);
  assertEquals([...x.toTypedArray()], [7]);
  assertEquals(x.add(1).item(), 8);
  assertEquals(x.add(x).item(), 14);
  assertEquals(x.sum().item(), 7);
  assertEquals(x.broadcastTo([2]).toArray(), [7, 7]);
  assertEquals(x.astype("int32").item(), 7);
  assertEquals([...x.view().intoTypedArray()], [7]);
});

test("Collapsed axes: axes that lie without a gap in every operand become one loop", () => {
  const dense = Layout.contiguous([4, 5, 6]);
  const swapped = Layout.contiguous([6, 5, 4]).transpose();
  assertEquals(planMap(dense, dense, dense, null).rank, 1);
  assertEquals(planMap(swapped, swapped, swapped, null).rank, 1);
  const part = Layout.contiguous([9, 5, 6]).sliceAxis(0, 2, 4, 2);
  assertEquals(planMap(dense, part, null, null).rank, 2);
  assertEquals(planMap(dense, Layout.contiguous([6]).broadcastTo([4, 5, 6]), null, null).rank, 2);
  assertEquals(
    planReduce(Layout.contiguous([1, 1, 6]), dense, null, [true, true, false], false).rank,
    2,
  );
});

test("Large copies: a view is materialised in runs as long as its layout allows", () => {
  // Rows 1 to 3 of 8 have 10 * 7 elements each without a gap, in both.
  const view = Layout.contiguous([5, 8, 10, 7]).sliceAxis(1, 1, 3, 1);
  const plan = planMap(Layout.contiguous(view.shape), view, null, null);
  assertEquals(plan.rank, 2);
  assertEquals([...plan.data.subarray(OFFSETS + 2, OFFSETS + 4)], [5, 3 * 10 * 7]);
  const x = iota([5, 8, 10, 7]);
  const part = x.slice(":, 1:4");
  assertEquals([...part.toTypedArray() as Float32Array].slice(0, 3), [70, 71, 72]);
  assertEquals(part.toOwned().get(4, 2, 9, 6), x.get(4, 3, 9, 6));
});

test("Vector loops on strided data: the innermost loop is dense wherever an axis is", () => {
  const ones = (pattern: number, operands: number) =>
    assertEquals(pattern, (3 ** operands - 1) / 2, "strides are not 1, 1, …");
  const block = Layout.contiguous([64, 100]).sliceAxis(1, 10, 50, 1);
  const out = Layout.contiguous([64, 50]);
  const plan = planMap(out, block, block, null);
  assertEquals(plan.rank, 2);
  ones(plan.innerStrideKey, 3);
  // Column-major operands and outputs are iterated over by column.
  const columns = Layout.contiguous([50, 64]).transpose();
  ones(planMap(columns, columns, columns, null).innerStrideKey, 3);
  // Reversed ones are iterated over from the other end.
  const reversed = Layout.contiguous([640]).flip();
  ones(planMap(reversed, reversed, null, null).innerStrideKey, 2);
});

test("Cost of broadcasting: an op walks its result once, however many axes are broadcast", () => {
  const shape = [2, 3, 2, 3, 2, 3, 50];
  const row = Layout.contiguous([50]).broadcastTo(shape);
  const out = Layout.contiguous(shape);
  // All leading axes are merged, and the innermost loop computes no index.
  const plan = planMap(out, out, row, null);
  assertEquals(plan.rank, 2);
  assertEquals([...plan.data.subarray(OFFSETS + 3, OFFSETS + 5)], [216, 50]);
  const x = iota([50]);
  assertEquals(x.add(zeros(shape as number[])).sum().item(), 216 * (49 * 50 / 2));
});
