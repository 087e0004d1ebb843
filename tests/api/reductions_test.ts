/**
 * Reductions over all axes and some, through the public API.
 *
 * @module
 */
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  type AnyTensor,
  ArgumentError,
  AxisError,
  DTypeError,
  full,
  ShapeError,
  type Tensor,
  tensor,
  zeros,
} from "../../mod.ts";
import { Layout } from "../../src/base/layout.ts";
import { dispatch } from "../../src/core/dispatch.ts";
import { allocate } from "../../src/memory/pool.ts";
import type { ReduceOp } from "../../src/table/op.ts";
import { REDUCE } from "../../src/table/table.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { operand, read } from "../ops/table/operands.ts";
import { assertRefused, asView, iota, loose } from "../support.ts";

test("Reductions: over axis 1 of (2, 3, 4) the shape is (2, 4), or (2, 1, 4) when kept", () => {
  const x = iota([2, 3, 4]);
  assertEquals(x.sum(1).toArray(), [[12, 15, 18, 21], [48, 51, 54, 57]]);
  for (const name of ["sum", "mean", "min", "max", "prod", "var", "std", "any", "all"]) {
    assertEquals([...loose(x)[name](1).shape], [2, 4], name);
    assertEquals([...loose(x)[name](1, { keepDims: true }).shape], [2, 1, 4], name);
    assertEquals([...loose(x)[name]([0, -1]).shape], [3], name);
    assertEquals([...loose(x)[name]().shape], [], name);
  }
  for (const name of ["argmin", "argmax"]) {
    assertEquals([...loose(x)[name](1).shape], [2, 4], name);
    assertEquals([...loose(x)[name](1, { keepDims: true }).shape], [2, 1, 4], name);
    assertEquals([...loose(x)[name]().shape], [], name);
  }
});

test("Reductions: the values of each, over all elements", () => {
  const x = tensor([[3, 1], [2, 6]]);
  assertEquals(x.sum().item(), 12);
  assertEquals(x.prod().item(), 36);
  assertEquals(x.mean().item(), 3);
  assertEquals([x.min().item(), x.max().item()], [1, 6]);
  assertEquals([x.argmin().item(), x.argmax().item()], [1, 3]);
  assertEquals(x.var().item(), 3.5);
  assertAlmostEquals(x.var(undefined, { correction: 1 }).item(), 14 / 3, 1e-6);
  assertAlmostEquals(x.std().item(), Math.sqrt(3.5), 1e-6);
  assertEquals([x.greater(5).any().item(), x.greater(5).all().item()], [true, false]);
  assertEquals(x.greater(1).countNonzero().item(), 3);
  assertAlmostEquals(x.norm().item(), Math.sqrt(50), 1e-5);
  assertAlmostEquals(
    x.logsumexp().item(),
    Math.log(Math.exp(3) + Math.E + Math.exp(2) + Math.exp(6)),
    1e-5,
  );
});

test("Reductions: views give the same as dense tensors", () => {
  const x = iota([3, 4, 5]).remainder(7);
  const view = asView(x);
  for (const axis of [undefined, 0, 1, 2, [0, 2], [0, 1, 2]]) {
    for (const name of ["sum", "max", "mean", "countNonzero"]) {
      assertEquals(loose(view)[name](axis).toArray(), loose(x)[name](axis).toArray(), name);
    }
  }
  assertEquals(loose(view).argmax(1).toArray(), loose(x).argmax(1).toArray());
});

test("Reductions: sums of integers are int64, means float32", () => {
  const x = full([4], 100, { dtype: "int8" });
  assertEquals(x.sum().dtype, "int64");
  assertEquals(x.sum().item(), 400);
  assertEquals(x.mean().dtype, "float32");
  assertEquals(x.sum(0, { dtype: "float64" }).dtype, "float64");
});

test("Reductions: sums of many floats keep their digits", () => {
  assertEquals(full([100000], 0.1).sum().item(), Math.fround(100000 * Math.fround(0.1)));
  const x = full([1000000], 0.1, { dtype: "float64" });
  // In sequence, they sum to 100000.00000133.
  assertAlmostEquals(x.sum().item(), 100000, 1e-9);
});

// One large term, and many that are too small to change it one by one.
const SMALL_TERMS = 4000;
const LARGE = 1e16;
/** The input whose mapped value is `LARGE`, if it differs from the value itself. */
const LARGE_INPUTS: Readonly<
  Record<string, [x: number, y: number, result: (sum: number) => number]>
> = {
  var: [1e8, 0, (sum) => sum / (SMALL_TERMS + 1)],
  std: [1e8, 0, (sum) => Math.sqrt(sum / (SMALL_TERMS + 1))],
  norm2: [1e8, 0, Math.sqrt],
  normP: [LARGE ** (1 / 3), 0, Math.cbrt],
  nanSquares: [1e8, 0, (sum) => sum],
  mean: [LARGE, 0, (sum) => sum / (SMALL_TERMS + 1)],
};

for (const row of Object.values(REDUCE) as ReduceOp[]) {
  // Every sum, whatever the op claims.
  if (row.expr !== "a + x" || row.result === "int32") continue;
  test(`Reductions: ${row.name} of float64 keeps what is small beside the largest term`, () => {
    const exponential = row.name.toLowerCase().endsWith("sumexp");
    const [x, y, result] = exponential
      ? [Math.log(LARGE), 0, row.name === "sumExp" ? (s: number) => s : Math.log]
      : LARGE_INPUTS[row.name] ?? [LARGE, 0, (s: number) => s];
    const storage = allocate("float64", SMALL_TERMS + 1, false);
    storage.array.fill((exponential ? 0 : 1) as never);
    storage.array[0] = x;
    const second = allocate("float64", 1, false);
    second.array[0] = y;
    const given = row.name === "normP" ? { [row.parameters[0]!]: 3 } : {};
    const operands = [
      operand(storage, Layout.contiguous([SMALL_TERMS + 1])),
      operand(second, Layout.contiguous([1])),
    ];
    const made = dispatch(row, operands.slice(0, row.arity), { axis: 0, ...given });
    const [found] = read(made) as [number];
    const first = exponential ? Math.exp(x) : row.name === "normP" ? x ** 3 : LARGE;
    // Within a block terms are added plainly; without blocks, a whole lane of them is lost.
    const expected = result(first + SMALL_TERMS);
    const allowed = Math.abs(expected - result(first + SMALL_TERMS - 500));
    assert(Math.abs(found - expected) < allowed, `${found}, not ${expected}`);
  });
}

test("Reductions: sums in uint32 wrap at each step, so that they stay exact beyond 2^53", () => {
  const n = 2 ** 21 + 100;
  const x = full([n], 2 ** 32 - 1, { dtype: "uint32" });
  assertEquals(x.sum(null, { dtype: "uint32" }).item(), 2 ** 32 - n);
  const running = loose(x).cumulativeSum(0, { dtype: "uint32" });
  assertEquals(running.get(n - 1), 2 ** 32 - n);
});

test("Reductions: products of unsigned integers are uint64, along axes and running too", () => {
  for (const { name, on } of BACKENDS) {
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (const dtype of ["uint8", "uint16", "uint32", "uint64"] as const) {
        const what = `${name}, ${dtype}`;
        const x = loose(tensor([[255, 255, 255, 255], [255, 255, 255, 255]], { dtype })).to(device);
        const show = (y: AnyTensor): unknown => [y.dtype, loose(y).toArray({ bigint: true })];
        // 255^8 is above 2^63.
        assertEquals(show(x.prod()), ["uint64", 255n ** 8n], what);
        assertEquals(show(x.T.prod()), ["uint64", 255n ** 8n], what);
        assertEquals(show(x.prod(1)), ["uint64", [255n ** 4n, 255n ** 4n]], what);
        const running = Array.from({ length: 8 }, (_, i) => 255n ** BigInt(i + 1));
        assertEquals(show(x.reshape([8]).cumulativeProd()), ["uint64", running], what);
        const from = { includeInitial: true };
        assertEquals(
          show(x.slice(0).cumulativeProd(0, from)),
          ["uint64", [1n, ...running.slice(0, 4)]],
          what,
        );
        assertEquals(x.sum().dtype, dtype === "uint64" ? "uint64" : "int64", what);
        assertEquals(x.prod(null, { dtype }).dtype, dtype, what);
      }
      assertEquals(loose(tensor([-2, 3], { dtype: "int8" })).to(device).prod().dtype, "int64");
      const bits = loose(tensor([true, false])).to(device);
      assertEquals([bits.prod().dtype, bits.cumulativeProd().dtype], ["int64", "int64"]);
    });
  }
  const product: Tensor<"uint64", [], "cpu"> = tensor([3], { dtype: "uint8" }).prod();
  const running: Tensor<"uint64", [1], "cpu"> = tensor([3], { dtype: "uint32" }).cumulativeProd();
  const sum: Tensor<"int64", [], "cpu"> = tensor([3], { dtype: "uint8" }).sum();
  const signed: Tensor<"int64", [], "cpu"> = tensor([3], { dtype: "int8" }).prod();
  assertEquals([product, running, sum, signed].map((x) => x.size), [1, 1, 1, 1]);
});

test("Reductions: means and other floats refuse a dtype that is no float", () => {
  const x = tensor([1, 2, 4], { dtype: "int32" });
  for (const name of ["mean", "var", "std", "norm", "logsumexp"]) {
    assertEquals(loose(x)[name](null, { dtype: "float64" }).dtype, "float64", name);
    for (const dtype of ["int32", "uint8", "bool"]) {
      assertRefused(() => loose(x)[name](null, { dtype }), DTypeError, [`to ${dtype}`, "float"], x);
    }
  }
  assertRefused(() => loose(x).norm(0, { ord: 0, dtype: "int32" }), DTypeError, ["norm to int32"]);
  assertEquals(x.sum(0, { dtype: "int32" }).dtype, "int32");
  assertEquals(x.cumulativeSum(0, { dtype: "uint8" }).dtype, "uint8");
});

test("Reductions: of nothing, sums are 0, products 1, means NaN; extremes are ShapeErrors", () => {
  const x = zeros([2, 0]);
  assertEquals(x.sum(1).toArray(), [0, 0]);
  assertEquals(x.prod(1).toArray(), [1, 1]);
  assert(Number.isNaN(x.mean().item()));
  assertEquals([x.any().item(), x.all().item()], [false, true]);
  for (const name of ["min", "max", "argmin", "argmax"]) {
    assertRefused(() => loose(x)[name](1), ShapeError, [name, "[2, 0]", "axis 1"], x);
    assertEquals([...loose(x)[name](0).shape], [0], name);
  }
});

test("Reductions: NaN wins in min, max, argmin and argmax", () => {
  const x = tensor([1, NaN, 3, NaN]);
  assert(Number.isNaN(x.min().item()) && Number.isNaN(x.max().item()));
  assertEquals([x.argmin().item(), x.argmax().item()], [1, 1]);
});

test("Reductions: an axis that is not there or named twice is an AxisError", () => {
  const x = iota([2, 3]);
  for (const axis of [2, -3, [0, 0], [0, -2], 0.5, NaN]) {
    assertRefused(() => loose(x).sum(axis), AxisError, "sum", x);
  }
  assertRefused(() => loose(x).argmax([0, 1]), AxisError, "argmax", x);
  assertRefused(() => loose(x).cumulativeSum(), AxisError, "cumulativeSum", x);
});

test("Reductions: nothing along an axis is no error where there is no result either", () => {
  const none = loose(zeros([0, 0]));
  assertEquals(none.max(0).shape, [0]);
  assertEquals(loose(zeros([2, 0, 0])).min(1).shape, [2, 0]);
  assertRefused(() => loose(zeros([2, 0])).max(1), ShapeError, ["max", "axis 1 is empty"]);
});

test("Isclose: the relative tolerance is of the second operand", () => {
  for (const dtype of ["float32", "int32"] as const) {
    const [x, y] = [loose(tensor([10], { dtype })), loose(tensor([11], { dtype }))];
    const options = { rtol: 0.095, atol: 0 };
    assertEquals([x.isclose(y, options).item(), y.isclose(x, options).item()], [true, false]);
    assertEquals([x.allclose(y, options), y.allclose(x, options)], [true, false]);
  }
});

test("Isclose: tolerances are tensors, too, which broadcast to the result", () => {
  const x = loose(tensor([1, 2, NaN, Infinity, 5])),
    y = loose(tensor([1.01, 2.01, NaN, Infinity, 6]));
  const rtol = tensor([0.1, 1e-4, 0, 0, 0.1]);
  assertEquals(x.isclose(y, { rtol, equalNan: true }).toArray(), [true, false, true, true, false]);
  assertEquals(x.isclose(y, { atol: tensor([0.1]) }).toArray(), [true, true, false, true, false]);
  const whole = tensor([0, 1], { dtype: "int32" });
  assertEquals(loose(whole).isclose(tensor([1, 2]), { atol: whole }).toArray(), [false, true]);
  assertEquals(x.isclose(1, { atol: tensor([4]), rtol: 0 }).toArray(), [
    true,
    true,
    false,
    false,
    true,
  ]);
  const z = loose(tensor([{ re: 1, im: 2 }, { re: 0, im: 1 }]));
  assertEquals(z.isclose(z.add(0.1), { atol: tensor([0.2, 0.01]) }).toArray(), [true, false]);
  assertEquals(x.allclose(y, { atol: tensor([1, 1, 0, 0, 1]), equalNan: true }), true);
  assertEquals(x.allclose(y, { atol: tensor([1, 0, 0, 0, 1]), equalNan: true }), false);
  const within = "Cannot isclose within shape [1, 1]: the result has shape [5]";
  assertRefused(() => x.isclose(y, { atol: tensor([[1]]) }), ShapeError, within);
  assertRefused(() => x.isclose(y, { rtol: z }), DTypeError, "isclose");
});

test("Scans: with the initial value there is one element more along the axis", () => {
  const x = loose(iota([2, 3]));
  assertEquals(x.cumulativeSum(1, { includeInitial: true }).toArray(), [[0, 0, 1, 3], [
    0,
    3,
    7,
    12,
  ]]);
  assertEquals(x.cumulativeProd(0, { includeInitial: true }).toArray(), [
    [1, 1, 1],
    [0, 1, 2],
    [0, 4, 10],
  ]);
});

test("Norms: that of order 0 counts what is not zero", () => {
  assertEquals(loose(tensor([0, -1, 2, -0, 0])).norm(null, { ord: 0 }).item(), 2);
});

test("Norms and variances: an order or a correction that is no number is refused", () => {
  const x = iota([2, 3]);
  for (const correction of ["1", NaN, null, 1n]) {
    assertRefused(() => loose(x).var(null, { correction }), ArgumentError, "correction", x);
  }
  for (const ord of ["2", NaN, null, 2n]) {
    assertRefused(
      () => loose(x).norm(null, { ord }),
      ArgumentError,
      "norm() needs a number as ord",
      x,
    );
  }
});

test("Arg-reductions at rank 3: the first largest along each axis, and among all", () => {
  const x = tensor([[[1, 9, 2], [7, 7, 0]], [[4, 4, 4], [0, 5, 9]]]);
  assertEquals(x.argmax(0).toArray(), [[1, 0, 1], [0, 0, 1]]);
  assertEquals(x.argmax(1).toArray(), [[1, 0, 0], [0, 1, 1]]);
  assertEquals(x.argmax(2).toArray(), [[1, 0], [0, 2]]);
  assertEquals(x.argmax().item(), 1);
  assertEquals(x.argmin().item(), 5);
  assertEquals(x.argmax(1).dtype, "int32");
  const view = asView(x);
  for (const axis of [0, 1, 2]) {
    assertEquals(loose(view).argmax(axis).toArray(), loose(x).argmax(axis).toArray());
  }
  assertEquals(loose(x).permute(2, 0, 1).argmax().item(), 4);
});

test("Sum over a broadcast axis: an element counts as often as it is repeated", () => {
  const x = loose(tensor([1, 2, 3]).broadcastTo([4, 3]));
  assertEquals(x.sum().item(), 24);
  assertEquals(x.sum(0).toArray(), [4, 8, 12]);
  assertEquals(x.sum(1).toArray(), [6, 6, 6, 6]);
  assertEquals(x.mean(0).toArray(), [1, 2, 3]);
  assertEquals(x.prod(0).toArray(), [1, 16, 81]);
  assertEquals(x.greater(0).countNonzero().item(), 12);
  assertEquals(x.cumulativeSum(0).slice(-1).toArray(), [4, 8, 12]);
  assertEquals(loose(tensor(5).broadcastTo([1000])).sum().item(), 5000);
});
