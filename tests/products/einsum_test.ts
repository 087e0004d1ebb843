/**
 * `einsum`, `tensordot`, `vecdot`, `inner`, `kron`, `trace` and `cross` give exactly what NumPy gives
 * (scripts/golden/numerics/products.py), for every dtype, layout and backend; errors; views.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { contractionOrder } from "../../src/ops/einsum/path.ts";
import { type Any, asView, loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { site } from "../ops/table/operands.ts";

type Made = [shape: number[], elements: number[]];
type Case = [name: string, args: Any[], inputs: Made[], output: Made];

const CASES: Case[] = JSON.parse(
  readFileSync(new URL("../golden/products/products.json", import.meta.url), "utf8"),
);

const DTYPES = [
  ...["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"],
  ...["float16", "bfloat16", "float32", "float64"],
] as rm.DType[];

const CALLS: Record<string, (inputs: Any[], args: Any[]) => Any> = {
  einsum: (xs, [equation]) => loose(rm.einsum)(equation, ...xs),
  tensordot: ([a, b], [axes]) => rm.tensordot(a, b, axes),
  vecdot: ([a, b], [axis]) => rm.vecdot(a, b, axis),
  inner: ([a, b]) => rm.inner(a, b),
  kron: ([a, b]) => rm.kron(a, b),
  trace: ([x], [options]) => rm.trace(x, { ...options, dtype: x.dtype }),
  cross: ([a, b], [axis]) => rm.cross(a, b, axis),
};

function made(dtype: rm.DType, [shape, elements]: Made): Any {
  const wide = dtype.endsWith("int64");
  const values = wide ? elements.map(BigInt) : elements;
  return rm.tensor(values as Any, { dtype, shape, device: site.device } as Any);
}

/** The elements as the dtype holds them: integers wrap. */
function expected(dtype: rm.DType, elements: number[]): number[] {
  if (dtype.includes("float")) return elements;
  const { bits, min } = rm.iinfo(dtype as "int8") as Any;
  return elements.map((v) => {
    const wrapped = BigInt.asUintN(bits, BigInt(v));
    return Number(BigInt(min) < 0n ? BigInt.asIntN(bits, wrapped) : wrapped);
  });
}

for (const { name: backend, on } of BACKENDS) {
  for (const [name, call] of Object.entries(CALLS)) {
    test(`${name} is that of NumPy (${backend})`, () => {
      using(on, () => {
        for (const [own, args, inputs, [shape, elements]] of CASES) {
          if (own !== name) continue;
          for (const dtype of DTYPES) {
            const dense = inputs.map((one) => made(dtype, one));
            const layouts = dtype === "float32" || dtype === "int64"
              ? [dense, dense.map(asView)]
              : [dense];
            for (const given of layouts) {
              const result = call(given, args);
              const what = `${name} ${JSON.stringify(args)} of ${dtype} [${
                inputs.map(([s]) => `[${s}]`)
              }]`;
              assertEquals([...result.shape], shape, what);
              assertEquals(result.dtype, dtype, what);
              const list = dtype.endsWith("int64")
                ? [...result.toTypedArray()]
                : [result.toArray()];
              const flat = list.flat(Infinity).map(Number);
              assertEquals(flat.map((v) => v + 0), expected(dtype, elements), what);
            }
          }
        }
      });
    });
  }
}

test("einsum gives complex products, and vecdot conjugates its first operand", () => {
  const { complex } = loose(rm);
  const [a, b] = [
    complex(rm.tensor([1, 2]), rm.tensor([1, 0])),
    complex(rm.tensor([3, 0]), rm.tensor([0, 1])),
  ];
  const plain = (x: Any): number[] => [x.item().re, x.item().im];
  assertEquals(plain(rm.einsum("i,i->", a, b)), [3, 5]);
  assertEquals(plain(rm.vecdot(a, b)), [3, -1]);
  assertEquals(plain(rm.inner(a, b)), [3, 5]);
});

test("einsum writes into out, in its dtype, also where it would be a view", () => {
  const { einsum, tensor, zeros } = rm;
  const x = tensor([[1, 2], [3, 4]]);
  const out = zeros([2, 2]);
  const made = einsum("ij,jk->ik", x, x, { out });
  assert(made === out);
  assertEquals(out.toArray(), [[7, 10], [15, 22]]);
  einsum("ij->ji", x, { out });
  assertEquals(out.toArray(), [[1, 3], [2, 4]]);
  assert(!rm.sharesBuffer(x, out));
  einsum("ij,jk->ik", x, x, { out: x });
  assertEquals(x.toArray(), [[7, 10], [15, 22]]);
  const wide = zeros([], { dtype: "float64" });
  assertEquals(einsum("ii->", out, { out: wide as Any }).item(), 5);
  assertThrows(() => einsum("ij->i", x, { out }), rm.ShapeError, "einsum");
  assertThrows(() => loose(einsum)("ij->i", x, { typo: out }), TypeError, "Cannot einsum");
  assertThrows(() => loose(einsum)("ij->i", { out }), rm.ArgumentError, "without tensors");
  assertThrows(
    () => einsum("ij->i", x, { out: zeros([2], { dtype: "int32" }) }),
    rm.DTypeError,
    "einsum",
  );
});

test("einsum: sizes of 1 and dtypes that promote are as in longer ways", () => {
  const { einsum, ones, tensor } = rm;
  const e = loose(einsum);
  const x = ones([2, 3], { dtype: "int32" }), y = tensor([[1], [2], [3]]);
  assertEquals([e("ij,jk->ik", x, y).dtype, e("ij,jk->ik", x, y).toArray()], ["float32", [[6], [
    6,
  ]]]);
  assertEquals(e("i,j->ji", tensor([1, 2], { dtype: "int32" }), tensor([3])).toArray(), [[3, 6]]);
  assertEquals(e("ij,kj->ki", ones([1, 3]), ones([2, 1])).toArray(), [[3], [3]]);
  assertEquals(e("i,ij->j", tensor([1, 2, 3]), y).toArray(), [14]);
  assertEquals(e("bij,bkj->bki", ones([2, 3, 4]), ones([2, 5, 4])).shape, [2, 5, 3]);
  assertEquals(e("ij,ij->", x, x).item(), 6);
  assertEquals(e("iij->j", ones([3, 3, 2])).toArray(), [3, 3]);
  assertEquals(e("i,i->", rm.zeros([0]), rm.zeros([0])).item(), 0);
  assertEquals(e("ij,jk->ik", rm.zeros([2, 0]), rm.zeros([0, 2])).toArray(), [[0, 0], [0, 0]]);
  // The same shapes in other layouts, one after the other.
  const square = rm.arange(9).reshape([3, 3]);
  for (const view of [square, square.T, square.slice("::-1")]) {
    assertEquals(e("ii->", view).item(), loose(view).diagonal().sum().item());
    assertEquals(e("ij->j", view).toArray(), loose(view).sum(0).toArray());
  }
});

test("einsum again: other elements, dtypes, layouts and operands than before", () => {
  const e = loose(rm.einsum);
  const [a, b, c] = [1, 10, 100].map((n) => rm.arange(4).mul(n).reshape([2, 2]) as Any);
  for (const x of [a, a, b, c, a]) {
    assertEquals(e("ii->", x).item(), x.diagonal().sum().item());
    assertEquals(e("ij,jk->ki", a, x).toArray(), a.matmul(x).T.toArray());
    assertEquals(e("ij,ij->ji", x, b).toArray(), x.mul(b).T.toArray());
  }
  for (const dtype of ["int8", "float64", "float32"] as const) {
    const [x, y] = [a.astype(dtype), b.astype(dtype)];
    assertEquals([e("ii->", x).dtype, e("ii->", x).item()], [dtype, 3]);
    assertEquals(e("ij,jk->ki", x, y).dtype, dtype);
    assertEquals(e("ij,jk->ki", x, y).dtype, dtype);
    assertEquals(e("ij,ij->ji", x, b).dtype, rm.promoteTypes(dtype, b.dtype));
  }
  assertThrows(() => e("ii->", a.astype("bool")), rm.DTypeError, "Cannot einsum bool");
  assertThrows(() => e("ii->", a, a), rm.ArgumentError, "1 terms for 2 tensors");
  assertThrows(() => e("ii->", [[1, 2], [3, 4]]), rm.DTypeError, "einsum");
  const out = rm.zeros([], { dtype: a.dtype });
  assert(e("ii->", a, { out }) === out);
  assertEquals(out.item(), 3);
  a.dispose();
  assertThrows(() => e("ii->", a), rm.DisposedError, "Cannot einsum");
  assertThrows(() => e("ij,jk->ki", b, a), rm.DisposedError, "Cannot einsum");
});

test("einsum of one tensor is a view where nothing is summed", () => {
  const x = rm.ones([2, 3]);
  for (const [equation, shape] of [["ij->ji", [3, 2]], ["ij", [2, 3]]] as const) {
    const view = rm.einsum(equation as string, x);
    assertEquals([view.ownership, ...view.shape], ["view", ...shape]);
    assert(rm.sharesBuffer(x, view));
  }
  const diagonal = rm.einsum("ii->i", rm.eye(3));
  assertEquals(diagonal.ownership, "view");
});

test("einsum refuses equations and shapes that do not fit", () => {
  const [x, y] = [rm.ones([2, 3]), rm.ones([4])];
  const fails = (equation: string, given: Any[], type: Any, message: string): void => {
    assertThrows(() => loose(rm.einsum)(equation, ...given), type, message);
  };
  const { ArgumentError, ShapeError } = rm;
  fails("ij,jk->ik", [x], ArgumentError, 'Cannot einsum "ij,jk->ik": it has 2 terms for 1 tensors');
  fails("ij->ii", [x], ArgumentError, "the result has index i twice");
  fails("ij->k", [x], ArgumentError, "no operand has index k of the result");
  fails("i1->i", [x], ArgumentError, '"1" is not an index; indices are letters, or "..." once');
  fails("i...j...", [x], ArgumentError, "is not an index");
  fails("ij->...i", [x], ArgumentError, "only the result has an ellipsis");
  fails("i->j->k", [x], ArgumentError, 'there is more than one "->"');
  fails(
    "ijk",
    [x],
    ShapeError,
    'Cannot einsum "ijk" of shape [2, 3]: operand 0 has rank 2, and 3 indices',
  );
  fails(
    "ij,j->i",
    [x, y],
    ShapeError,
    'Cannot einsum "ij,j->i" of shapes [2, 3] and [4]: index j has sizes 3 and 4',
  );
  fails("ii", [x], ShapeError, "index i has sizes 2 and 3");
  fails("ii,i", [rm.ones([1, 2]), rm.ones([2])], ShapeError, "index i has sizes 1 and 2");
  fails("i,ii", [rm.ones([2]), rm.ones([1, 2])], ShapeError, "index i has sizes 1 and 2");
  fails("i,ii", [rm.ones([2]), rm.ones([2, 1])], ShapeError, "index i has sizes 2 and 1");
  fails("...,...", [x, y], ShapeError, "axis -1 of the ellipsis has sizes 3 and 4");
  fails("ij->", [rm.ones([2, 2], { dtype: "bool" })], rm.DTypeError, "Cannot einsum bool");
  assertThrows(() => loose(rm.einsum)(5, x), ArgumentError, "the equation is a string");
  assertThrows(() => loose(rm.einsum)("ij"), ArgumentError, "without tensors");
});

test("a diagonal of size 1 broadcasts in einsum", () => {
  const [v, one, e] = [rm.tensor([1, 2, 3]), rm.full([1, 1], 5), loose(rm.einsum)];
  assertEquals(e("i,ii->i", v, one).toArray(), [5, 10, 15]);
  assertEquals(e("ii,i", one, v).item(), 30);
  assertEquals(e("...ii,i...->...i", one, v).toArray(), [5, 10, 15]);
  // Axes of the ellipsis that the result does not have are summed.
  assertEquals(e("i...->i", rm.ones([2, 3])).toArray(), [3, 3]);
});

test("products along axes refuse shapes that do not fit", () => {
  const [x, y]: [rm.Tensor, rm.Tensor] = [rm.ones([2, 3]), rm.ones([4])];
  const { AxisError, ShapeError } = rm;
  assertThrows(() => rm.tensordot(x, y, 1), ShapeError, "axes 1 and 0 have sizes 3 and 4");
  assertThrows(() => rm.tensordot(x, y, 2), AxisError, "it is from 0 to 1");
  assertThrows(() => rm.tensordot(x, y, [[0, 1], [0]]), AxisError, "over 2 axes and 1 axes");
  assertThrows(() => rm.vecdot(x, y), ShapeError, "axis -1 has sizes 3 and 4");
  assertThrows(() => rm.vecdot(x, y, 0), AxisError, "it is negative");
  assertThrows(() => rm.inner(x, y), ShapeError, "inner sizes 3 and 4 differ");
  assertThrows(() => rm.trace(y), ShapeError, "it takes at least 2 axes");
  assertThrows(() => rm.cross(x, y), ShapeError, "axis -1 must have size 3");
});

test("the order of a chain of products is the cheapest", () => {
  const sizes = new Map(Object.entries({ a: 100, b: 2, c: 100, d: 2, e: 100, f: 3 }));
  const order = (...terms: string[]) =>
    contractionOrder(terms.map((term) => [...term]), ["a", "e"], sizes);
  assertEquals(order("ab", "bc", "cd", "de"), [[1, 2], [0, 2], [0, 1]]);
  // Six terms: the greedy choice, then all orders of the last four.
  assertEquals(order("ab", "bc", "cd", "de", "ef", "f").length, 5);
});
