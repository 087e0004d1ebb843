/**
 * Arithmetic, broadcasting, in-place ops and overlap, through the public API.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  type AnyTensor,
  arange,
  attempt,
  broadcastTensors,
  DTypeError,
  ones,
  ReadOnlyError,
  ShapeError,
  sharesBuffer,
  tensor,
  where,
  zeros,
} from "../../mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { assertRefused, asView, iota, loose } from "../support.ts";

test("Arithmetic: + - * / with a tensor", () => {
  const [a, b] = [tensor([[6, 8], [10, 12]]), tensor([[2, 4], [5, 3]])];
  assertEquals(a.add(b).toArray(), [[8, 12], [15, 15]]);
  assertEquals(a.sub(b).toArray(), [[4, 4], [5, 9]]);
  assertEquals(a.mul(b).toArray(), [[12, 32], [50, 36]]);
  assertEquals(a.div(b).toArray(), [[3, 2], [2, 4]]);
});

test("Arithmetic: with a scalar the shape stays", () => {
  const x = iota([2, 1, 3]);
  for (const y of [x.add(2), x.sub(2), x.mul(2), x.div(2)]) {
    assertEquals([...y.shape], [2, 1, 3]);
    assertEquals(y.dtype, "float32");
  }
  assertEquals(x.mul(2).add(1).toArray(), [[[1, 3, 5]], [[7, 9, 11]]]);
});

test("Arithmetic: Python's signs for floor division and remainder", () => {
  const x = tensor([7, -7, 7, -7], { dtype: "int32" });
  const y = tensor([2, 2, -2, -2], { dtype: "int32" });
  assertEquals(x.floorDivide(y).toArray(), [3, -4, -4, 3]);
  assertEquals(x.remainder(y).toArray(), [1, 1, -1, -1]);
});

test("Arithmetic: operands stay as they were", () => {
  const [a, b] = [iota([2, 3]), iota([3])];
  a.add(b).fill_(-1);
  assertEquals([a.get(1, 2), b.get(2)], [5, 2]);
});

test("Sign of zero: sign(0) is 0, also for negative zero and integers; NaN stays NaN", () => {
  assertEquals(tensor([0, 3, -2]).sign().toArray(), [0, 1, -1]);
  assertEquals(tensor([0, 3, -2], { dtype: "int8" }).sign().toArray(), [0, 1, -1]);
  assertEquals(Math.abs(tensor([-0]).sign().item()), 0);
  assertEquals(tensor([NaN]).sign().isnan().item(), true);
  for (const dtype of ["float16", "bfloat16", "float64", "int64", "uint8"] as const) {
    assertEquals(Number(zeros([1], { dtype }).sign().item()), 0);
  }
});

test("Sign of zero: atan2 of a tiny negative number by a large one is -0", () => {
  for (const { on } of BACKENDS) {
    if (typeof on === "string") continue;
    using(on, () => {
      const x = loose(tensor([-5e-324], { dtype: "float64" }));
      assert(Object.is(x.atan2(1e300).item(), -0));
    });
  }
});

test("Broadcasting: shapes are aligned at the right, sizes equal or 1, stride 0", () => {
  const x = tensor([[[1, 2]], [[3, 4]]]);
  const y = iota([3, 1, 4, 2]);
  const wide = x.broadcastTo([3, 2, 4, 2]);
  assertEquals([...x.strides], [2, 2, 1]);
  assertEquals([...wide.strides], [0, 2, 0, 1]);
  assert(sharesBuffer(x, wide));
  const sum = loose(x).add(y);
  assertEquals([...sum.shape], [3, 2, 4, 2]);
  for (const [i, j, k, l] of [[0, 0, 0, 0], [2, 1, 3, 1], [1, 0, 2, 1]] as const) {
    assertEquals(sum.get(i, j, k, l), x.get(j, 0, l) + Number(y.get(i, 0, k, l)));
  }
});

test("Broadcasting: size 0 with size 1 gives size 0", () => {
  assertEquals([...zeros([0, 3]).add(zeros([1, 3])).shape], [0, 3]);
  assertEquals([...loose(zeros([2, 1])).mul(zeros([0])).shape], [2, 0]);
  assertEquals(zeros([0]).add(5).toArray(), []);
});

test("Broadcasting: sizes that do not fit are a ShapeError naming op, shapes and axis", () => {
  const [a, b] = [iota([2, 3]), iota([4])];
  const message = "Cannot add shapes [2, 3] and [4]: axis -1 has sizes 3 and 4";
  assertRefused(() => a.add(b), ShapeError, message, a, b);
  assertRefused(() => a.maximum(iota([3, 3])), ShapeError, ["maximum", "axis -2"], a);
  assertRefused(() => where(a.greater(0), a, b), ShapeError, ["where", "[4]"], a, b);
  // Scalars alone promote as tensors of their dtypes do.
  const mask = tensor([true, false]);
  assertEquals(loose(where)(mask, true, 5n).dtype, "int64");
  assertEquals(loose(where)(mask, 5n, 0.5).toArray(), [5, 0.5]);
  assertRefused(() => broadcastTensors(a, b), ShapeError, ["[2, 3]", "[4]"], a, b);
  assertRefused(() => loose(a).broadcastTo([3, 3]), ShapeError, ["[2, 3]", "[3, 3]"], a);
});

test("Empty is not broadcast: an axis of size 0 does not stretch, nor is it taken for size 1", () => {
  const [none, x] = [zeros([0, 3]), iota([2, 3])];
  assertRefused(() => loose(none).add(x), ShapeError, ["[0, 3]", "[2, 3]", "0 and 2"], none, x);
  assertRefused(() => loose(none).broadcastTo([2, 3]), ShapeError, "[0, 3]", none);
  assertRefused(() => loose(x).add_(zeros([0, 3])), ShapeError, "add_", x);
  assertRefused(() => x.set(["..."], zeros([0, 3])), ShapeError, "set", x);
  assertEquals([...loose(none).matmul(zeros([3, 4])).shape], [0, 4]);
  assertEquals(loose(zeros([2, 0])).matmul(zeros([0, 3])).toArray(), [[0, 0, 0], [0, 0, 0]]);
});

/** Adds 0, 1, 2, … in two shapes, as owned tensors and as views, against a loop over indexes. */
function checkBroadcast(left: number[], right: number[], shape: number[]): void {
  const [p, q] = [iota(left), iota(right).mul(100)];
  const at = (x: AnyTensor, index: number[]): number =>
    Number(x.get(...x.shape.map((n, axis) => n === 1 ? 0 : index.at(axis - x.rank)!)));
  const size = shape.reduce((a, b) => a * b, 1);
  const expected = Array.from({ length: size }, (_, flat) => {
    const index = shape.map((n, axis) => {
      const inner = shape.slice(axis + 1).reduce((a, b) => a * b, 1);
      return Math.floor(flat / inner) % n;
    });
    return at(p, index) + at(q, index);
  });
  for (const a of [p, asView(p)]) {
    for (const b of [q, asView(q)]) {
      for (const sum of [a.add(b), b.add(a)]) {
        assertEquals([...sum.shape], shape);
        assertEquals([...sum.toTypedArray() as Float32Array], expected);
      }
    }
  }
}

test("Broadcast cases: () + (3, 4)", () => checkBroadcast([], [3, 4], [3, 4]));

test("Broadcast cases: (3) + (4, 3)", () => checkBroadcast([3], [4, 3], [4, 3]));

test("Broadcast cases: (1, 4) + (3, 1)", () => checkBroadcast([1, 4], [3, 1], [3, 4]));

test("Broadcast cases: (3, 4) + (2, 3, 4)", () => checkBroadcast([3, 4], [2, 3, 4], [2, 3, 4]));

test("Broadcast cases: (1, 3, 1) + (2, 3, 4)", () => {
  checkBroadcast([1, 3, 1], [2, 3, 4], [2, 3, 4]);
});

test("Broadcast cases: (2) + (3, 4, 5, 2)", () => {
  checkBroadcast([2], [3, 4, 5, 2], [3, 4, 5, 2]);
});

test("Broadcast cases: (1, 1, 5, 1) + (2, 3, 5, 4)", () => {
  checkBroadcast([1, 1, 5, 1], [2, 3, 5, 4], [2, 3, 5, 4]);
});

test("Broadcast cases: (1, 4, 5) + (3, 1, 5)", () => {
  checkBroadcast([1, 4, 5], [3, 1, 5], [3, 4, 5]);
});

test("Broadcast cases: (1, 3, 1, 5) + (2, 1, 4, 1)", () => {
  checkBroadcast([1, 3, 1, 5], [2, 1, 4, 1], [2, 3, 4, 5]);
});

test("In place: (3, 4) += (4) works, in the same memory", () => {
  const a = iota([3, 4]);
  const view = a.view();
  assertEquals(loose(a).add_(tensor([10, 20, 30, 40])), a);
  assertEquals(a.toArray(), [[10, 21, 32, 43], [14, 25, 36, 47], [18, 29, 40, 51]]);
  assertEquals(view.toArray(), a.toArray());
  a.mul_(2).sub_(20).div_(2);
  assertEquals(a.get(0, 0), 0);
});

test("In place: (4) += (3, 4) is a ShapeError", () => {
  const [a, b] = [iota([4]), iota([3, 4])];
  assertRefused(() => a.add_(b), ShapeError, ["add_", "[4]", "[3, 4]"], a, b);
  assertRefused(() => loose(a).add_(iota([1, 4])), ShapeError, ["add_", "[1, 4]"], a);
});

test("In place: into a strided view, leaving the elements between alone", () => {
  const x = zeros([3, 4]);
  loose(x).slice("::2, ::-2").add_(tensor([1, 2]));
  assertEquals(x.toArray(), [[0, 2, 0, 1], [0, 0, 0, 0], [0, 2, 0, 1]]);
  loose(x).T.slice(1).fill_(5);
  assertEquals(loose(x).slice(":, 1").toArray(), [5, 5, 5]);
});

test("In place: a target with stride 0 is a ReadOnlyError", () => {
  const x = tensor([1, 2, 3]);
  const wide = loose(x.broadcastTo([2, 3]));
  assertRefused(() => wide.add_(1), ReadOnlyError, ["add", "[2, 3]"], x, wide);
  assertRefused(() => wide.set([0, 0], 1), ReadOnlyError, "set", x, wide);
  assertRefused(() => wide.fill_(1), ReadOnlyError, "fill_", x, wide);
  assertRefused(() => ones([2, 3]).add(1, { out: wide }), ReadOnlyError, "add", x, wide);
});

test("In place: a result that the target's dtype cannot hold is a DTypeError", () => {
  const n = tensor([1, 2], { dtype: "int32" });
  assertRefused(() => loose(n).add_(tensor([0.5, 0.5])), DTypeError, ["add", "int32"], n);
  assertRefused(() => loose(n).add_(0.5), DTypeError, ["add", "0.5", "int32"], n);
  assertRefused(() => loose(n).div_(2), DTypeError, ["div", "int32"], n);
  assertEquals(n.add_(tensor([1, 1], { dtype: "int8" })).toArray(), [2, 3]);
});

test("In place: clip_ changes nothing when either limit is refused", () => {
  const x = iota([2, 3]);
  assertRefused(() => loose(x).clip_(3, zeros([5])), ShapeError, "[5]", x);
  assertEquals(x.clip_(1, 4).toArray(), [[1, 1, 2], [3, 4, 4]]);
  assertEquals(loose(x.toOwned()).clip_(undefined, 2).toArray(), [[1, 1, 2], [2, 2, 2]]);
  assertEquals(x.clip(2).toArray(), [[2, 2, 2], [3, 4, 4]]);
  assertEquals(x.clip(undefined, 2).toArray(), [[1, 1, 2], [2, 2, 2]]);
  assertEquals(x.clip().toArray(), x.toArray());
});

test("Overlapping in place: operands that share memory give the same as copies", () => {
  const cases: [string, (x: ReturnType<typeof loose>) => [unknown, unknown]][] = [
    ["its transpose", (x) => [x, x.T]],
    ["itself", (x) => [x, x]],
    ["its rows in reverse", (x) => [x, x.flip(0)]],
    ["one of its rows", (x) => [x, x.slice(1)]],
    ["one of its columns", (x) => [x, x.slice(":, 2:3")]],
    ["a shifted part", (x) => [x.slice("1:"), x.slice(":-1")]],
    ["the part before", (x) => [x.slice(":-1"), x.slice("1:")]],
    ["its last element", (x) => [x, x.slice(-1, -1)]],
  ];
  for (const [name, pick] of cases) {
    for (const op of ["add_", "sub_", "mul_"] as const) {
      const x = iota([5, 5]);
      const [target, other] = pick(x).map(loose);
      const expected = target.toOwned()[op](other.toOwned()).toArray();
      assertEquals(target[op](other).toArray(), expected, `${op} ${name}`);
    }
  }
});

test("Overlapping in place: an output or an assignment that overlaps its inputs", () => {
  const x = arange(6);
  x.slice("1:").add(x.slice(":-1"), { out: loose(x.slice("1:")) });
  assertEquals(x.toArray(), [0, 1, 3, 5, 7, 9]);
  const y = arange(6);
  y.set(["2:"], y.slice(":4"));
  assertEquals(y.toArray(), [0, 1, 0, 1, 2, 3]);
  const z = arange(4);
  z.set([[3, 2, 1, 0]], z);
  assertEquals(z.toArray(), [3, 2, 1, 0]);
  const m = loose(iota([3, 3]));
  m.set(["..."], m.T);
  assertEquals(m.toArray(), [[0, 3, 6], [1, 4, 7], [2, 5, 8]]);
  const s = arange(5);
  s.cumulativeSum(0, { out: s } as never);
  assertEquals(s.toArray(), [0, 1, 3, 6, 10]);
});

test("Strict shapes: { broadcast: false } refuses what would be broadcast", () => {
  const [a, b] = [iota([2, 3]), iota([3])];
  const refused = ["add", "[2, 3]", "[3]", "broadcast"];
  assertRefused(() => a.add(b, { broadcast: false }), ShapeError, refused, a, b);
  assertRefused(() => a.less(b, { broadcast: false }), ShapeError, "less", a, b);
  assertEquals(a.add(a, { broadcast: false }).get(1, 2), 10);
  assertEquals(a.add(1, { broadcast: false }).get(1, 2), 6);
});

test("Reversed views in ops of several operands: every mix of directions gives the same", () => {
  const x = iota([3, 4, 5]);
  const flips = [[], [0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]];
  const flip = (axes: number[]) => axes.length === 0 ? x : loose(x).flip(axes);
  for (const p of flips) {
    for (const q of flips) {
      const [a, b] = [flip(p), flip(q)];
      const expected = a.toOwned().sub(b.toOwned().mul(3));
      assertEquals(a.sub(b.mul(3)).toArray(), expected.toArray());
      const chosen = where(a.greater(b), a, b);
      assertEquals(chosen.toArray(), a.toOwned().maximum(b.toOwned()).toArray());
    }
  }
});

test("Errors as values: attempt gives the value or the error", () => {
  const [a, b] = [iota([2, 3]), iota([4])];
  const bad = attempt(() => a.add(b));
  assert(bad.error instanceof ShapeError);
  assertEquals(bad.value, undefined);
  assertEquals(bad.error.code, "RM_SHAPE");
  const good = attempt(() => a.add(a).get(1, 2));
  assertEquals([good.value, good.error], [10, undefined]);
  assert(
    attempt(() => {
      throw "text";
    }).error instanceof Error,
  );
});
