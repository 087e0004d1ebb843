/**
 * Shapes and layouts: strides, flat indexes, every view, and the errors of each.
 *
 * Uses no tensor: the elements of a fresh layout are their own buffer positions.
 *
 * @module
 */
import { describe, it } from "node:test";
import { assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { ArgumentError, AxisError, IndexError, ShapeError } from "../../src/base/errors.ts";
import { Layout } from "../../src/base/layout.ts";
import {
  broadcastAll,
  broadcastShapes,
  checkShape,
  formatShape,
  normalizeAxes,
  normalizeAxis,
  resolveReshape,
  sameShape,
  sizeOf,
} from "../../src/base/shape.ts";

/** Shape, strides and offset: the whole state of a layout. */
function parts(layout: Layout | null): [readonly number[], readonly number[], number] | null {
  return layout && [layout.shape, layout.strides, layout.offset];
}

const x234 = Layout.contiguous([2, 3, 4]);

describe("shape: checks", () => {
  it("a shape is copied, and its size is the product of its sizes", () => {
    const given = [2, 0, 3];
    const shape = checkShape(given, "make");
    assertEquals(shape, given);
    assertNotEquals(shape, given.reverse());
    assertEquals([sizeOf([]), sizeOf([2, 3, 4]), sizeOf([2, 0])], [1, 24, 0]);
    assertEquals(formatShape([2, 3]), "[2, 3]");
    assertEquals(Object.is(checkShape([-0], "make")[0], 0), true);
  });
  it("bad shape: fractional, NaN, negative or missing sizes are a ShapeError", () => {
    for (const bad of [1.5, NaN, -1, Infinity, "2", undefined, null, 2n]) {
      assertThrows(() => checkShape([2, bad], "make"), ShapeError, "Cannot make shape [2, ");
      const text = typeof bad === "string" ? `"${bad}"` : String(bad);
      assertThrows(() => checkShape([2, bad], "make"), ShapeError, `axis 1 has size ${text}`);
    }
    assertThrows(() => checkShape(3, "make"), ShapeError, "Cannot make shape 3");
    assertThrows(() => checkShape(undefined, "make"), ShapeError, "a shape is an array of sizes");
  });
  it("bad shape: more than 2^53 - 1 elements are a ShapeError, also beside a 0", () => {
    assertEquals(checkShape([2 ** 52], "make"), [2 ** 52]);
    assertThrows(() => checkShape([2 ** 27, 2 ** 26], "make"), ShapeError, "2^53 - 1");
    assertThrows(() => checkShape([2 ** 27, 0, 2 ** 26], "make"), ShapeError, "2^53 - 1");
  });
  it("shapes are the same when rank and sizes are", () => {
    assertEquals(sameShape([2, 3], [2, 3]), true);
    assertEquals(sameShape([2, 3], [3, 2]), false);
    assertEquals(sameShape([2, 3], [2, 3, 1]), false);
    assertEquals(sameShape([], []), true);
  });
  it("what is no shape is shown as messages show values", () => {
    assertEquals(formatShape([2, 3]), "[2, 3]");
    assertEquals([formatShape(5 as never), formatShape("ab" as never)], ["5", '"ab"']);
  });

  it("axes count from the end when negative, and keep their order", () => {
    assertEquals(normalizeAxis("sum", -1, 3), 2);
    assertEquals(normalizeAxes("sum", [2, -3], 3), [2, 0]);
    assertEquals(normalizeAxes("sum", 1, 3), [1]);
    assertEquals(normalizeAxes("sum", undefined, 3), [0, 1, 2]);
    assertEquals(normalizeAxes("sum", null, 0), []);
    assertEquals(normalizeAxes("sum", [], 3), []);
  });
  it("bad axis: out of range, fractional or named twice is an AxisError naming op, axis and rank", () => {
    assertThrows(
      () => normalizeAxis("sum", 2, 2),
      AxisError,
      "Cannot sum along axis 2: rank 2 has axes -2 to 1",
    );
    assertThrows(() => normalizeAxis("sum", -3, 2), AxisError, "axis -3");
    assertThrows(() => normalizeAxis("sum", 0, 0), AxisError, "rank 0 has no axes");
    assertThrows(() => normalizeAxis("sum", 0.5, 2), AxisError, "axis 0.5");
    assertThrows(() => normalizeAxis("sum", NaN, 2), AxisError, "axis NaN");
    assertThrows(() => normalizeAxes("sum", [0, -2], 2), AxisError, "[0, -2]: axis 0 of rank 2");
    assertThrows(() => normalizeAxes("sum", "0" as unknown as number, 2), AxisError, 'axis "0"');
  });
});

describe("shape: broadcasting", () => {
  const cases: [a: number[], b: number[], result: number[]][] = [
    [[], [3, 4], [3, 4]],
    [[3], [4, 3], [4, 3]],
    [[1, 4], [3, 1], [3, 4]],
    [[3, 4], [2, 3, 4], [2, 3, 4]],
    [[1, 3, 1], [2, 3, 4], [2, 3, 4]],
    [[2], [3, 4, 5, 2], [3, 4, 5, 2]],
    [[1, 1, 5, 1], [2, 3, 5, 4], [2, 3, 5, 4]],
    [[1, 4, 5], [3, 1, 5], [3, 4, 5]],
    [[1, 3, 1, 5], [2, 1, 4, 1], [2, 3, 4, 5]],
    [[2, 1, 2], [3, 1, 4, 2], [3, 2, 4, 2]],
    [[0], [1], [0]],
    [[1, 3], [0, 1], [0, 3]],
    [[2, 3], [2, 3], [2, 3]],
  ];
  for (const [a, b, result] of cases) {
    it(`broadcast shapes: ${formatShape(a)} with ${formatShape(b)} gives ${formatShape(result)}`, () => {
      assertEquals(broadcastShapes("add", a, b), result);
      assertEquals(broadcastShapes("add", b, a), result);
      assertEquals(broadcastAll("add", [a, b, a, []]), result);
      assertEquals(Layout.contiguous(a).broadcastTo(result).shape, result);
    });
  }
  it("broadcast error: the message names the op, the shapes and the axis", () => {
    const text = "Cannot add shapes [2, 3] and [4]: axis -1 has sizes 3 and 4";
    assertEquals(assertThrows(() => broadcastShapes("add", [2, 3], [4]), ShapeError).message, text);
    assertEquals(
      assertThrows(() => broadcastAll("where", [[2, 1], [1, 3], [5, 3]]), ShapeError).message,
      "Cannot where shapes [2, 1], [1, 3] and [5, 3]: axis -2 has sizes 2 and 5",
    );
    assertThrows(() => broadcastShapes("add", [2, 3], [3, 3]), ShapeError, "axis -2 has sizes 2");
    assertThrows(() => broadcastShapes("add", [0], [2]), ShapeError, "sizes 0 and 2");
    assertThrows(() => broadcastShapes("add", [2], [0]), ShapeError, "sizes 2 and 0");
  });
  it("broadcast error: a result beyond 2^53 - 1 elements", () => {
    assertThrows(() => broadcastShapes("add", [2 ** 27, 1], [2 ** 26]), ShapeError, "2^53 - 1");
  });
  it("broadcast of many: none gives [], one gives itself", () => {
    assertEquals(broadcastAll("add", []), []);
    assertEquals(broadcastAll("add", [[2, 3]]), [2, 3]);
  });
});

describe("layout: strides, flat index, rank 0", () => {
  it("row-major strides: (2, 3, 4) gives [12, 4, 1]", () => {
    assertEquals(parts(x234), [[2, 3, 4], [12, 4, 1], 0]);
    assertEquals(Layout.contiguous([5, 6, 7, 8]).strides, [6 * 7 * 8, 7 * 8, 8, 1]);
    assertEquals(Layout.contiguous([2, 0, 3]).strides, [3, 3, 1]);
    assertEquals([x234.size, x234.rank, x234.contiguous], [24, 3, true]);
  });
  it("flat index: (1, 0, 2) in (2, 3, 4) is 14, (1, 1) in (2, 3) is 4", () => {
    assertEquals(x234.flatIndex("get", [1, 0, 2]), 14);
    assertEquals(x234.flatIndex("get", [-1, -3, -2]), 14);
    assertEquals(Layout.contiguous([2, 3]).flatIndex("get", [1, 1]), 4);
    assertEquals(Layout.contiguous([2, 3], 5).flatIndex("get", [1, 1]), 9);
  });
  it("flat index: each axis is bounds-checked, not just the buffer", () => {
    const text = "Cannot get axis 1 of shape [2, 3, 4] at 3: it has size 3";
    assertEquals(assertThrows(() => x234.flatIndex("get", [0, 3, 0]), IndexError).message, text);
    assertThrows(() => x234.flatIndex("get", [0, 0, -5]), IndexError, "axis 2");
    assertThrows(() => x234.flatIndex("get", [1.5, 0, 0]), IndexError, "an index is an integer");
    assertThrows(() => x234.flatIndex("get", [NaN, 0, 0]), IndexError, "at NaN");
    assertEquals(Object.is(x234.checkIndex("get", 0, -0), 0), true);
    assertThrows(() => x234.flatIndex("set", [0, 0]), IndexError, "takes 3 indexes, not 2");
  });
  it("rank 0: shape [] has one element, at its offset", () => {
    const scalar = Layout.contiguous([], 9);
    assertEquals(parts(scalar), [[], [], 9]);
    assertEquals([scalar.size, scalar.contiguous, scalar.isColumnMajor], [1, true, true]);
    assertEquals(scalar.flatIndex("get", []), 9);
    assertEquals(scalar.extent(), [9, 9]);
    assertEquals(parts(scalar.transpose()), [[], [], 9]);
    assertEquals(parts(scalar.reshape([1, 1])), [[1, 1], [1, 1], 9]);
    assertEquals(parts(scalar.expandDims()), [[1], [1], 9]);
    assertEquals(scalar.broadcastTo([2]).flatIndex("get", [1]), 9);
  });
});

describe("layout: what a layout says of itself", () => {
  it("contiguous: dense and in order, whatever the strides of size-1 axes", () => {
    assertEquals(new Layout([2, 1, 3], [3, 99, 1], 4).contiguous, true);
    assertEquals(new Layout([2, 3], [4, 1], 0).contiguous, false);
    assertEquals(new Layout([2, 3], [1, 2], 0).contiguous, false);
    assertEquals(new Layout([2, 3], [-3, 1], 3).contiguous, false);
    assertEquals(new Layout([4], [2], 0).contiguous, false);
    assertEquals(new Layout([3, 0], [7, 7], 5).contiguous, true);
    assertEquals(x234.transpose().transpose().contiguous, true);
    assertEquals(Layout.contiguous([1, 5]).transpose().contiguous, true);
  });
  it("column-major: dense with the first axis fastest", () => {
    assertEquals(x234.isColumnMajor, false);
    assertEquals(x234.transpose().isColumnMajor, true);
    assertEquals(x234.permute([2, 0, 1]).isColumnMajor, false);
    assertEquals(Layout.contiguous([7]).isColumnMajor, true);
    assertEquals(Layout.contiguous([0, 3]).isColumnMajor, true);
  });
  it("extent: the first and last position in use, for negative strides too", () => {
    assertEquals(x234.extent(), [0, 23]);
    assertEquals(x234.flip([0, 2]).extent(), [0, 23]);
    assertEquals(x234.sliceAxis(2, 1, 2, 2).extent(), [1, 23]);
    assertEquals(Layout.contiguous([2, 0], 5).extent(), [5, 4]);
    assertEquals(Layout.contiguous([3], 2).broadcastTo([4, 3]).extent(), [2, 4]);
  });
  it("overlaps itself: only where a stride-0 axis repeats elements", () => {
    assertEquals(x234.overlapsItself, false);
    assertEquals(Layout.contiguous([3]).broadcastTo([2, 3]).overlapsItself, true);
    assertEquals(Layout.contiguous([3]).broadcastTo([1, 3]).overlapsItself, false);
    assertEquals(Layout.contiguous([0]).broadcastTo([2, 0]).overlapsItself, false);
    for (const strides of [[1, 1], [-1, 1], [2, 1], [0, 4], [-2, -2], [4, 3, 1], [1, 6, 3]]) {
      const overlapping = new Layout(strides.map((_, i) => i === 0 ? 2 : 3), strides, 20);
      assertEquals(overlapping.overlapsItself, true, `${strides}`);
    }
    for (const strides of [[3, 1], [1, 2], [-3, 1], [1, -2], [9, 3, 1], [1, 6, -2], [3, 7, 1]]) {
      const apart = new Layout(strides.map((_, i) => i === 0 ? 2 : 3), strides, 20);
      assertEquals(apart.overlapsItself, false, `${strides}`);
    }
    assertEquals(Layout.contiguous([3, 3]).flip(1).diagonal().overlapsItself, false);
    // Windows that slide by less than their length.
    const windows = (step: number): boolean => new Layout([3, 4], [step, 1], 0).overlapsItself;
    assertEquals([1, 2, 3, 4, 5].map(windows), [true, true, true, false, false]);
  });
});

describe("layout: axes in another order", () => {
  it("permute: (1, 2, 3) by [2, 0, 1] gives (3, 1, 2)", () => {
    assertEquals(parts(Layout.contiguous([1, 2, 3]).permute([2, 0, 1])), [[3, 1, 2], [1, 6, 3], 0]);
    assertEquals(parts(x234.permute([-1, 0, 1])), [[4, 2, 3], [1, 12, 4], 0]);
  });
  it("transpose reverses all axes, swapAxes exchanges two, moveAxis moves one", () => {
    assertEquals(parts(x234.transpose()), [[4, 3, 2], [1, 4, 12], 0]);
    assertEquals(parts(x234.swapAxes(-1, -2)), [[2, 4, 3], [12, 1, 4], 0]);
    assertEquals(parts(x234.swapAxes(1, 1)), parts(x234));
    assertEquals(parts(x234.moveAxis(0, -1)), [[3, 4, 2], [4, 1, 12], 0]);
    assertEquals(parts(x234.moveAxis(2, 0)), [[4, 2, 3], [1, 12, 4], 0]);
  });
  it("permute error: missing, extra, repeated or unknown axes are an AxisError", () => {
    assertThrows(
      () => x234.permute([0, 1]),
      AxisError,
      "Cannot permute shape [2, 3, 4] by [0, 1]: it has 3 axes, and 2 are named",
    );
    assertThrows(() => x234.permute([0, 1, 1]), AxisError, "named twice");
    assertThrows(() => x234.permute([0, 1, 3]), AxisError, "Cannot permute along axis 3");
    assertThrows(() => x234.swapAxes(0, 3), AxisError, "Cannot swapAxes along axis 3");
    assertThrows(() => x234.moveAxis(-4, 0), AxisError, "Cannot moveAxis along axis -4");
  });
});

describe("layout: axes of size 1", () => {
  const x = Layout.contiguous([3, 4]);

  it("unsqueeze: (3, 4) gives (1, 3, 4), at 2 gives (3, 4, 1)", () => {
    assertEquals(parts(x.expandDims()), [[1, 3, 4], [12, 4, 1], 0]);
    assertEquals(parts(x.expandDims(1)), [[3, 1, 4], [4, 4, 1], 0]);
    assertEquals(parts(x.expandDims(2)), [[3, 4, 1], [4, 1, 1], 0]);
    assertEquals(parts(x.expandDims(-1)), parts(x.expandDims(2)));
    assertEquals(parts(x.expandDims(-3)), parts(x.expandDims(0)));
    assertEquals([x.expandDims().contiguous, x.transpose().expandDims().contiguous], [true, false]);
  });
  it("unsqueeze beyond the rank is an AxisError", () => {
    assertThrows(() => x.expandDims(3), AxisError, "Cannot expandDims along axis 3");
    assertThrows(() => x.expandDims(-4), AxisError, "axis -4");
  });
  it("squeeze drops all axes of size 1, or those that are named", () => {
    const y = Layout.contiguous([1, 3, 1, 4]);
    assertEquals(parts(y.squeeze()), [[3, 4], [4, 1], 0]);
    assertEquals(y.squeeze(0).shape, [3, 1, 4]);
    assertEquals(y.squeeze([-2, 0]).shape, [3, 4]);
    assertEquals(y.squeeze([]).shape, [1, 3, 1, 4]);
  });
  it("squeeze error: an axis of another size is a ShapeError", () => {
    assertThrows(
      () => x.squeeze(1),
      ShapeError,
      "Cannot squeeze axis 1 of shape [3, 4]: it has size 4, not 1",
    );
    assertThrows(() => x.squeeze(2), AxisError, "Cannot squeeze along axis 2");
  });
});

describe("layout: broadcastTo", () => {
  it("broadcast by stride 0: (2, 1, 2) to (3, 2, 4, 2) turns strides [2, 2, 1] into [0, 2, 0, 1]", () => {
    const x = Layout.contiguous([2, 1, 2], 6);
    assertEquals(x.strides, [2, 2, 1]);
    assertEquals(parts(x.broadcastTo([3, 2, 4, 2])), [[3, 2, 4, 2], [0, 2, 0, 1], 6]);
    assertEquals(x.broadcastTo([3, 2, 4, 2]).size, 48);
    // A new axis of size 1, too.
    assertEquals(Layout.contiguous([3]).broadcastTo([1, 3]).strides, [0, 1]);
  });
  it("broadcast of size 1 to size 0 is empty, and size 0 does not grow", () => {
    assertEquals(Layout.contiguous([1, 3]).broadcastTo([0, 3]).size, 0);
    assertThrows(() => Layout.contiguous([0]).broadcastTo([2]), ShapeError, "sizes 0 and 2");
    assertThrows(() => Layout.contiguous([0]).broadcastTo([1]), ShapeError, "sizes 0 and 1");
  });
  it("broadcastTo error: names both shapes and the axis", () => {
    assertThrows(
      () => Layout.contiguous([2, 3]).broadcastTo([2, 4]),
      ShapeError,
      "Cannot broadcast shape [2, 3] to [2, 4]: axis -1 has sizes 3 and 4",
    );
    assertThrows(
      () => x234.broadcastTo([3, 4]),
      ShapeError,
      "[2, 3, 4] to [3, 4]: rank 3 is above",
    );
    assertThrows(() => x234.broadcastTo([-1, 3, 4]), ShapeError, "size -1");
    assertThrows(() => Layout.contiguous([1]).broadcastTo([2 ** 53]), ShapeError, "2^53 - 1");
  });
});

describe("layout: reshape", () => {
  it("reshape of contiguous elements is a view, with one -1 inferred", () => {
    assertEquals(parts(x234.reshape([6, 4])), [[6, 4], [4, 1], 0]);
    assertEquals(parts(x234.reshape([-1])), [[24], [1], 0]);
    assertEquals(parts(x234.reshape([4, -1, 2])), [[4, 3, 2], [6, 2, 1], 0]);
    assertEquals(x234.reshape([24, -1])!.shape, [24, 1]);
    assertEquals(Layout.contiguous([1]).reshape([])!.shape, []);
  });
  it("reshape after slice or permute is a view where the strides allow it, else null", () => {
    const columns = x234.sliceAxis(2, 0, 2, 1);
    assertEquals(parts(columns.reshape([6, 2])), [[6, 2], [4, 1], 0]);
    assertEquals(columns.reshape([12]), null);
    const t = x234.permute([2, 0, 1]);
    assertEquals(parts(t.reshape([2, 2, 6])), [[2, 2, 6], [2, 1, 4], 0]);
    assertEquals(t.reshape([24]), null);
    assertEquals(t.reshape([8, 3]), null);
    assertEquals(parts(x234.flip().reshape([24])), [[24], [-1], 23]);
    assertEquals(x234.flip(1).reshape([24]), null);
  });
  it("reshape of a broadcast view keeps stride 0", () => {
    const x = Layout.contiguous([2]).broadcastTo([6, 2]);
    assertEquals(parts(x.reshape([3, 2, 2])), [[3, 2, 2], [0, 0, 1], 0]);
    assertEquals(x.reshape([12]), null);
    assertEquals(parts(Layout.contiguous([1], 3).broadcastTo([6]).reshape([2, 3])), [
      [2, 3],
      [0, 0],
      3,
    ]);
  });
  it("reshape with axes of size 1, old and new", () => {
    const x = new Layout([1, 3, 1, 4], [99, 8, 77, 2], 5);
    assertEquals(parts(x.reshape([12])), [[12], [2], 5]);
    const y = x.reshape([3, 1, 2, 2, 1])!;
    assertEquals([y.strides[0], y.strides[2], y.strides[3]], [8, 4, 2]);
    assertEquals(new Layout([4, 1], [2, 0], 0).reshape([1, 2, 2])!.strides.slice(1), [4, 2]);
  });
  it("reshape of nothing: a 0 axis can go elsewhere, and -1 beside a 0 is refused", () => {
    const empty = Layout.contiguous([0, 3]);
    assertEquals(empty.reshape([3, 0])!.shape, [3, 0]);
    assertEquals(empty.transpose().reshape([5, 0, 2])!.shape, [5, 0, 2]);
    assertEquals(empty.reshape([-1, 3])!.shape, [0, 3]);
    assertEquals(empty.reshape([-1])!.shape, [0]);
    assertThrows(() => empty.reshape([0, -1]), ShapeError, "no single answer");
    assertThrows(() => Layout.contiguous([4]).reshape([-1, 0]), ShapeError, "no single answer");
  });
  it("reshape error: sizes that do not fit are a ShapeError that names both shapes", () => {
    const message = (shape: number[]): string =>
      assertThrows(() => x234.reshape(shape), ShapeError).message;
    assertEquals(
      message([5, 5]),
      "Cannot reshape [2, 3, 4] to [5, 5]: they have 24 and 25 elements",
    );
    assertEquals(
      message([7, -1]),
      "Cannot reshape [2, 3, 4] to [7, -1]: 24 elements do not divide by 7",
    );
    assertEquals(
      message([-1, -1]),
      "Cannot reshape [2, 3, 4] to [-1, -1]: more than one size is -1",
    );
    assertEquals(message([-2, 12]).includes("axis 0 has size -2"), true);
    assertEquals(message([1.5, 16]).includes("axis 0 has size 1.5"), true);
    assertEquals(message([NaN]).includes("size NaN"), true);
    assertThrows(() => x234.reshape(24 as unknown as number[]), ShapeError, "a shape is an array");
  });
  it("reshape overflow: a product beyond 2^53 - 1 is a ShapeError, also beside a 0", () => {
    assertThrows(() => x234.reshape([2 ** 40, 2 ** 40]), ShapeError, "more than 2^53 - 1");
    assertThrows(() => x234.reshape([2 ** 40, 2 ** 40, -1]), ShapeError, "do not divide");
    assertThrows(() => resolveReshape([2 ** 40, 2 ** 40, 0], 0, [0]), ShapeError, "2^53 - 1");
    assertThrows(() => resolveReshape([1e200, 1e200, 0], 0, [0]), ShapeError, "2^53 - 1");
  });
});

describe("layout: flip and diagonal", () => {
  it("flip reverses some axes or all", () => {
    assertEquals(parts(x234.flip()), [[2, 3, 4], [-12, -4, -1], 23]);
    assertEquals(parts(x234.flip(-1)), [[2, 3, 4], [12, 4, -1], 3]);
    assertEquals(parts(x234.flip([0, 1])), [[2, 3, 4], [-12, -4, 1], 20]);
    assertEquals(x234.flip().flip(), x234);
    assertEquals(parts(Layout.contiguous([1, 3]).flip(0)), [[1, 3], [3, 1], 0]);
    assertEquals(Layout.contiguous([3, 0], 4).flip().offset, 4);
    assertThrows(() => x234.flip(3), AxisError, "Cannot flip along axis 3");
    const repeated = Layout.contiguous([1]).broadcastTo([3]).flip();
    assertEquals(Object.is(repeated.strides[0], 0), true);
  });
  it("diagonal: a new last axis over the diagonals of two axes", () => {
    const x = Layout.contiguous([3, 4]);
    assertEquals(parts(x.diagonal()), [[3], [5], 0]);
    assertEquals(parts(x.diagonal(1)), [[3], [5], 1]);
    assertEquals(parts(x.diagonal(2)), [[2], [5], 2]);
    assertEquals(parts(x.diagonal(-1)), [[2], [5], 4]);
    assertEquals(parts(x234.diagonal(0, 0, 2)), [[3, 2], [4, 13], 0]);
    assertEquals(parts(x234.diagonal(1, -1, 0)), [[3, 1], [4, 13], 12]);
  });
  it("diagonal beyond the corner is empty, and bad arguments are errors", () => {
    const x = Layout.contiguous([3, 4], 2);
    assertEquals(parts(x.diagonal(4)), [[0], [5], 2]);
    assertEquals(parts(x.diagonal(-9)), [[0], [5], 2]);
    assertThrows(() => x.diagonal(0, 1, 1), AxisError, "named twice");
    assertThrows(() => x.diagonal(0, 0, 2), AxisError, "Cannot diagonal along axis 2");
    assertThrows(() => Layout.contiguous([3]).diagonal(), AxisError, "axis 1");
    assertThrows(() => x.diagonal(0.5), ArgumentError, "0.5");
  });
});
