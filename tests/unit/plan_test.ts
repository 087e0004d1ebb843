/**
 * The steps of plans, one by one: the axes that they drop, reverse, sort, merge and tile. Most
 * steps affect only the run time, not the result.
 *
 * @module
 */
import { assert, assertEquals, assertFalse } from "@std/assert";
import { describe, it } from "node:test";
import { Layout } from "../../src/base/layout.ts";
import { OFFSETS, type Plan, planMap, planReduce } from "../../src/base/plan.ts";

/** The current shared plan, readable. */
function read(plan: Plan): {
  offsets: number[];
  shape: number[];
  strides: number[][];
  pattern: number[];
} {
  const { data, rank, operands } = plan;
  assertEquals(data[0], rank);
  assertEquals(data[1], operands);
  assertEquals(plan.length, OFFSETS + operands + rank * (1 + operands));
  const part = (from: number, n: number): number[] =>
    Array.from(data.subarray(OFFSETS + from, OFFSETS + from + n));
  const pattern: number[] = [];
  for (let k = 0, p = plan.innerStrideKey; k < operands; k++, p = Math.floor(p / 3)) {
    pattern.unshift(p % 3);
  }
  return {
    offsets: part(0, operands),
    shape: part(operands, rank),
    strides: Array.from({ length: operands }, (_, k) => part(operands + rank * (k + 1), rank)),
    pattern,
  };
}

const dense = (...shape: number[]): Layout => Layout.contiguous(shape);

/** A layout whose strides must not be read. */
function untouchable(shape: number[], offset: number): Layout {
  const layout = Layout.contiguous(shape, offset);
  return new Proxy(layout, {
    get(target, key): unknown {
      assert(key !== "strides", "the strides of a dense operand were read");
      return Reflect.get(target, key);
    },
  });
}

describe("plan of a map", () => {
  it("dense operands are one run, found without a look at their strides", () => {
    const out = untouchable([2, 3], 1);
    const plan = planMap(out, untouchable([2, 3], 2), untouchable([2, 3], 3), null);
    assertEquals(read(plan), {
      offsets: [1, 2, 3],
      shape: [6],
      strides: [[1], [1], [1]],
      pattern: [1, 1, 1],
    });
    assertEquals(plan.rank, 1);
  });

  it("so is a single element beside them, which stands still", () => {
    const out = untouchable([2, 3], 0);
    const plan = planMap(out, untouchable([], 4), untouchable([2, 3], 5), untouchable([1, 1], 6));
    assertEquals(read(plan), {
      offsets: [0, 4, 5, 6],
      shape: [6],
      strides: [[1], [0], [1], [0]],
      pattern: [1, 0, 1, 0],
    });
  });

  it("a strided output, or a third operand that is broadcast, is not dense", () => {
    const view = dense(2, 7).sliceAxis(1, 0, 3, 2);
    assertEquals(read(planMap(view, dense(2, 3), null, null)).strides, [[7, 2], [3, 1]]);
    const row = planMap(dense(2, 3), dense(2, 3), dense(2, 3), dense(3));
    assertEquals(read(row).strides, [[3, 1], [3, 1], [3, 1], [0, 1]]);
  });

  it("a dense plan after a tiled one is not tiled", () => {
    assert(planMap(dense(32, 32), dense(32, 32).transpose(), null, null).tiled);
    assertFalse(planMap(dense(4), dense(4), null, null).tiled);
  });

  it("broadcast axes have stride 0: new ones, and those of size 1", () => {
    // An example: (2, 1, 2) with (3, 1, 4, 2).
    const plan = planMap(dense(3, 2, 4, 2), dense(2, 1, 2), dense(3, 1, 4, 2), null);
    assertEquals(read(plan).shape, [3, 2, 4, 2]);
    assertEquals(read(plan).strides, [[16, 8, 2, 1], [0, 2, 0, 1], [8, 0, 2, 1]]);
  });

  it("an empty result is one axis of size 0", () => {
    const plan = planMap(dense(3, 0, 2), dense(2), null, null);
    assertEquals(plan.rank, 1);
    assertEquals(read(plan).shape, [0]);
    assertEquals(read(plan).strides, [[1], [1]]);
    assertFalse(plan.tiled);
  });

  it("axes of size 1 are dropped, wherever they stand", () => {
    const view = dense(1, 4, 1, 7, 1).sliceAxis(3, 0, 3, 2);
    const plan = planMap(dense(1, 4, 1, 3, 1), view, null, null);
    assertEquals(read(plan).shape, [4, 3]);
    assertEquals(read(plan).strides, [[3, 1], [7, 2]]);
  });

  it("when none is left there is one axis of one element", () => {
    // Only its source is larger than a single element.
    const view = dense(1, 1);
    const shifted = new Layout([1, 1], [5, 5], 7, 1, false);
    const plan = planMap(shifted, view, null, null);
    assertEquals(read(plan).shape, [1]);
    assertEquals(read(plan).offsets, [7, 0]);
    assertEquals(read(plan).strides, [[1], [1]]);
  });

  it("an axis that all operands walk backwards is walked forwards from its other end", () => {
    const plan = planMap(dense(9).flip(), dense(9).flip(), null, null);
    assertEquals(read(plan), {
      offsets: [0, 0],
      shape: [9],
      strides: [[1], [1]],
      pattern: [1, 1],
    });
    // An operand with stride 0 does not prevent it.
    const repeated = planMap(dense(4, 3).flip(0), dense(4, 3).flip(0), dense(3), null);
    assertEquals(read(repeated).offsets, [0, 0, 0]);
    assertEquals(read(repeated).strides, [[3, 1], [3, 1], [0, 1]]);
  });

  it("an axis that only some walk backwards stays", () => {
    const plan = planMap(dense(9), dense(9).flip(), null, null);
    assertEquals(read(plan).offsets, [0, 8]);
    assertEquals(read(plan).strides, [[1], [-1]]);
  });

  it("axes are sorted by the output's strides, whatever their sign", () => {
    const columns = dense(2, 3, 4).permute([2, 0, 1]);
    const part = dense(2, 3, 9).sliceAxis(2, 0, 4, 2).permute([2, 0, 1]);
    const plan = planMap(columns, part, null, null);
    // (2, 3, 4) again, of which the first two merge.
    assertEquals(read(plan).shape, [6, 4]);
    assertEquals(read(plan).strides, [[4, 1], [9, 2]]);
    const signs = new Layout([4, 5], [1, -4], 16);
    const mixed = planMap(signs, new Layout([4, 5], [10, 1], 0), null, null);
    assertEquals(read(mixed).shape, [5, 4]);
    assertEquals(read(mixed).strides, [[-4, 1], [1, 10]]);
  });

  it("the innermost axis moves all the way out where it belongs there", () => {
    const out = dense(4, 3, 2).permute([1, 2, 0]);
    const plan = planMap(out, dense(4, 3, 2).sliceAxis(2, 0, 2, 1).permute([1, 2, 0]), null, null);
    assertEquals(read(plan).shape, [24]);
  });

  it("axes merge where every operand crosses them without a gap", () => {
    const rows = dense(4, 10).sliceAxis(1, 2, 5, 1);
    assertEquals(read(planMap(dense(4, 5), rows, null, null)).shape, [4, 5]);
    assertEquals(read(planMap(rows, rows, null, null)).shape, [4, 5]);
    const blocks = dense(3, 4, 5, 6).sliceAxis(0, 0, 2, 1).sliceAxis(2, 0, 2, 1);
    const plan = planMap(dense(2, 4, 2, 6), blocks, null, null);
    assertEquals(read(plan).shape, [8, 12]);
    assertEquals(read(plan).strides, [[12, 1], [30, 1]]);
  });

  it("a short innermost axis changes places with one more than four times as long", () => {
    const swapped = planMap(dense(9, 2), new Layout([9, 2], [5, 2], 0), null, null);
    assertEquals(read(swapped).shape, [9, 2].reverse());
    assertEquals(read(swapped).strides, [[1, 2], [2, 5]]);
    const equal = planMap(dense(8, 2), new Layout([8, 2], [5, 2], 0), null, null);
    assertEquals(read(equal).shape, [8, 2]);
    const long = planMap(dense(60, 8), new Layout([60, 8], [20, 2], 0), null, null);
    assertEquals(read(long).shape, [60, 8]);
  });

  it("an operand that is dense across asks for tiles, next to the innermost axis", () => {
    const plan = planMap(dense(32, 16), dense(16, 32).transpose(), null, null);
    assert(plan.tiled);
    assertEquals(read(plan).shape, [32, 16]);
    const outer = planMap(dense(20, 3, 17), dense(17, 3, 20).permute([2, 1, 0]), null, null);
    assert(outer.tiled);
    assertEquals(read(outer).shape, [3, 20, 17]);
    assertEquals(read(outer).strides, [[17, 51, 1], [20, 1, 60]]);
  });

  it("there are no tiles for short axes, broadcast ones, or those with longer strides", () => {
    const tiled = (out: Layout, a: Layout): boolean => planMap(out, a, null, null).tiled;
    assertFalse(tiled(dense(32, 15), dense(15, 32).transpose()), "short rows");
    assertFalse(tiled(dense(15, 32), dense(32, 15).transpose()), "short columns");
    assertFalse(tiled(dense(32, 32), new Layout([32, 32], [0, 2], 0)), "broadcast");
    assertFalse(tiled(dense(32, 32), new Layout([32, 32], [100, 2], 0)), "longer strides");
    assertFalse(tiled(dense(32, 32), new Layout([32, 32], [40, 1], 0)), "dense along");
    assert(tiled(dense(16, 16), dense(16, 16).transpose()));
  });

  it("the pattern tells strides of 0 and 1 from others", () => {
    const plan = planMap(dense(4, 6), dense(4, 1), dense(4, 12).sliceAxis(1, 0, 6, 2), dense(6));
    assertEquals(read(plan).pattern, [1, 0, 2, 1]);
  });

  it("four operands in another order than their strides are one run", () => {
    const t = dense(2, 3).transpose();
    const plan = planMap(t, t, t, t);
    assertEquals(read(plan).shape, [6]);
    assertEquals(read(plan).strides, [[1], [1], [1], [1]]);
  });

  it("plans of one kind have one variant, whatever the path that makes them", () => {
    const [line, back] = [dense(9), dense(9).flip()];
    const pair = planMap(line, line, line, null).variant;
    assertEquals(planMap(back, back, back, null).variant, pair);
    const one = planMap(line, line, null, null).variant;
    assertEquals(planMap(back, back, null, null).variant, one);
    assert(one !== pair);
    const three = planMap(line, line, line, line).variant;
    assertEquals(planMap(back, back, back, back).variant, three);
  });

  it("axes of which no operand says the order stay, whatever the last plan had", () => {
    const same = new Layout([2, 3], [2, 2], 0);
    planMap(dense(2, 3), new Layout([2, 3], [1, 5], 0), new Layout([2, 3], [1, 5], 0), null);
    assertEquals(read(planMap(same, same, null, null)).shape, [2, 3]);
  });

  it("a plan of many axes has room", () => {
    const shape = new Array(20).fill(3);
    const strides = shape.map((_, i) => 2 * 4 ** (19 - i));
    const plan = planMap(new Layout(shape, strides, 0), new Layout(shape, strides, 5), null, null);
    assertEquals(plan.rank, 20);
    assertEquals(read(plan).strides, [strides, strides]);
    assertEquals(read(plan).offsets, [0, 5]);
  });
});

describe("plan of a reduction", () => {
  const over = (rank: number, ...axes: number[]): boolean[] =>
    Array.from({ length: rank }, (_, axis) => axes.includes(axis));

  it("a dense tensor folded to one element is a single run", () => {
    const input = untouchable([2, 3], 4);
    const plan = planReduce(Layout.contiguous([1, 1], 2), input, null, over(2, 0, 1), false);
    assertEquals(plan.kept, 0);
    assertEquals(read(plan), { offsets: [2, 4], shape: [6], strides: [[0], [1]], pattern: [0, 1] });
  });

  it("so are elements along one axis, except backwards", () => {
    const one = Layout.contiguous([], 2);
    const strided = dense(12).sliceAxis(0, 1, 4, 3);
    const plan = planReduce(one, strided, null, [true], false);
    assertEquals(plan.kept, 0);
    assertEquals(read(plan), { offsets: [2, 1], shape: [4], strides: [[0], [3]], pattern: [0, 2] });
    const back = planReduce(one, dense(12).sliceAxis(0, 10, 4, -3), null, [true], true);
    assertEquals(read(back).strides, [[0], [-3]]);
    assertEquals(planReduce(one, new Layout([4], [0], 0), null, [true], false).innerStrideKey, 0);
  });

  it("a second operand or gaps make it a reduction like others", () => {
    const [all, one] = [over(2, 0, 1), dense(1, 1)];
    const two = planReduce(one, dense(2, 3), dense(1, 1), all, false);
    assertEquals(read(two).strides, [[0], [1], [0]]);
    const gaps = planReduce(one, dense(2, 6).sliceAxis(1, 0, 3, 2), null, all, false);
    assertEquals(read(gaps).strides, [[0], [2]]);
    assertEquals(read(gaps).shape, [6]);
  });

  it("kept axes come first, reduced ones have output stride 0", () => {
    const plan = planReduce(dense(1, 3, 1), dense(2, 3, 4), null, over(3, 0, 2), false);
    assertEquals(plan.kept, 1);
    assertEquals(read(plan).shape, [3, 2, 4]);
    assertEquals(read(plan).strides, [[1, 0, 0], [4, 12, 1]]);
    const second = planReduce(dense(2, 1), dense(2, 3), dense(2, 1), over(2, 1), false);
    assertEquals(read(second).strides, [[1, 0], [3, 1], [1, 0]]);
  });

  it("axes of size 1 are dropped on both sides", () => {
    const input = dense(1, 4, 1, 6, 1);
    const plan = planReduce(dense(1, 4, 1, 1, 1), input, null, over(5, 2, 3, 4), false);
    assertEquals(plan.kept, 1);
    assertEquals(read(plan).shape, [4, 6]);
    const strided = dense(2, 1, 3, 1).sliceAxis(2, 0, 2, 2);
    const ordered = planReduce(dense(1, 1, 2, 1), strided, null, over(4, 0, 1), true);
    assertEquals(read(ordered).shape, [2, 2]);
    assertEquals(read(ordered).strides, [[1, 0], [2, 3]]);
  });

  it("both sides are flipped, sorted and merged by themselves", () => {
    const input = dense(2, 3, 4, 5).permute([1, 0, 3, 2]);
    const out = dense(2, 3, 1, 1).permute([1, 0, 2, 3]);
    const plan = planReduce(out, input, null, over(4, 2, 3), false);
    assertEquals(plan.kept, 1);
    assertEquals(read(plan).shape, [6, 20]);
    assertEquals(read(plan).strides, [[1, 0], [20, 1]]);
    const flipped = planReduce(
      dense(6, 1).flip(0),
      dense(6, 7).flip(),
      null,
      over(2, 1),
      false,
    );
    assertEquals(read(flipped).offsets, [0, 0]);
    assertEquals(read(flipped).strides, [[1, 0], [7, 1]]);
  });

  it("in row-major order the reduced axes stay as they are, but for merging", () => {
    const input = dense(2, 3, 4).permute([0, 2, 1]).flip(1);
    const plan = planReduce(dense(2, 1, 1), input, null, over(3, 1, 2), true);
    assertEquals(read(plan).shape, [2, 4, 3]);
    assertEquals(read(plan).strides, [[1, 0, 0], [12, -1, 4]]);
    assertEquals(read(plan).offsets, [0, 3]);
    const merged = planReduce(dense(2, 1, 1), dense(2, 3, 4), null, over(3, 1, 2), true);
    assertEquals(read(merged).shape, [2, 12]);
  });

  it("an empty axis is not walked from its other end", () => {
    const input = new Layout([3, 0], [-4, -1], 8);
    const plan = planReduce(dense(3, 1), input, null, over(2, 1), false);
    assertEquals(read(plan).offsets, [0, 8]);
    assertEquals(read(plan).strides, [[1, 0], [-4, -1]]);
  });
});
