/**
 * Matrix products of every operand layout, batch and dtype, through the public API.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  type AnyTensor,
  arange,
  DTypeError,
  emptyCache,
  full,
  memory,
  ShapeError,
  tensor,
  zeros,
} from "../../mod.ts";
import { DTYPE } from "../../src/base/dtype.ts";
import { assertRefused, asView, iota, loose } from "../support.ts";

const EXAMPLE = [[22, 28], [49, 64], [76, 100]];

/** [M, K] by [K, N] in three loops, as numbers. */
function naive(a: AnyTensor, b: AnyTensor): number[][] {
  const [[m, k], n] = [a.shape as number[], b.shape[1]!];
  return Array.from({ length: m! }, (_, i) =>
    Array.from({ length: n }, (_, j) => {
      let sum = 0;
      for (let l = 0; l < k!; l++) sum += Number(a.get(i, l)) * Number(b.get(l, j));
      return sum;
    }));
}

/** `x` in layouts with the same values: dense, column-major, reversed, sliced, spaced out. */
function layouts(x: AnyTensor): [string, AnyTensor][] {
  const y = loose(x);
  const [m, n] = x.shape as [number, number];
  const wide = loose(zeros([m, n + 5], { dtype: x.dtype }));
  wide.slice(`:, 2:${n + 2}`).set(["..."], x);
  return [
    ["row-major", x],
    ["column-major", y.T.toOwned().T],
    ["reversed", y.flip().toOwned().flip()],
    ["with a longer row stride", wide.slice(`:, 2:${n + 2}`)],
    ["with gaps everywhere", asView(x)],
  ];
}

test("Matmul: 3 by 3 times 3 by 2 of 1…9 and 1…6", () => {
  const a = arange(1, 10).reshape([3, 3]);
  const b = arange(1, 7).reshape([3, 2]);
  assertEquals(a.matmul(b).toArray(), EXAMPLE);
  assertEquals([...a.matmul(b).shape], [3, 2]);
});

test("Matmul: inner sizes that differ are a ShapeError that names both shapes", () => {
  const [a, b] = [iota([2, 3]), iota([4, 5])];
  assertRefused(() => a.matmul(b), ShapeError, ["matmul", "[2, 3]", "[4, 5]", "3 and 4"], a, b);
  assertRefused(() => a.matmul(loose(iota([]))), ShapeError, ["matmul", "[]"], a);
  const batches = "Cannot matmul shapes [2, 2, 3] and [3, 3, 4]: axis -3 has sizes 2 and 3";
  assertRefused(() => loose(iota([2, 2, 3])).matmul(iota([3, 3, 4])), ShapeError, batches);
});

test("Matmul: a vector with each of many matrices", () => {
  const [x, left, right] = [loose(iota([3])), loose(iota([2, 4, 3])), loose(iota([2, 3, 4]))];
  assertEquals(x.matmul(right).toArray(), [0, 1].map((i) => x.matmul(right.slice(i)).toArray()));
  assertEquals(left.matmul(x).toArray(), [0, 1].map((i) => left.slice(i).matmul(x).toArray()));
  const apart = loose(iota([6])).slice("::2").mul(0.5).slice("::-1");
  assertEquals(
    loose(iota([6])).slice("::2").matmul(right).toArray(),
    x.mul(2).matmul(right).toArray(),
  );
  assertEquals(apart.matmul(right.slice(0)).toArray(), x.flip().matmul(right.slice(0)).toArray());
  assertEquals(x.matmul(right).toArray(), [[20, 23, 26, 29], [56, 59, 62, 65]]);
});

test("Matmul: an inner size of 0 gives zeros", () => {
  assertEquals(zeros([2, 0]).matmul(zeros([0, 2])).toArray(), [[0, 0], [0, 0]]);
});

test("Matmul operands: row-major, column-major, reversed and strided ones give the same", () => {
  for (const [m, k, n] of [[3, 3, 2], [1, 7, 5], [17, 33, 9], [40, 21, 1]] as const) {
    const [a, b] = [iota([m, k]).remainder(11).sub(5), iota([k, n]).remainder(7).sub(3)];
    const expected = naive(a, b);
    for (const [aName, left] of layouts(a)) {
      for (const [bName, right] of layouts(b)) {
        const product = left.matmul(loose(right)).toArray();
        assertEquals(product, loose(expected), `${m}x${k}x${n}: ${aName} by ${bName}`);
      }
    }
  }
});

test("Matmul without copies: transposed and sliced operands take no memory but the result's", () => {
  const [a, b] = [iota([64, 48]).remainder(5), iota([48, 80]).remainder(5)];
  const expected = loose(naive(a, b));
  for (const [aName, left] of layouts(a)) {
    for (const [bName, right] of layouts(b)) {
      emptyCache();
      const before = memory().bytes;
      const product = left.matmul(loose(right));
      assertEquals(memory().bytes - before, 64 * 80 * 4, `${aName} by ${bName}`);
      assertEquals(product.toArray(), expected);
    }
  }
});

test("Matmul operands: stride 0 along either axis", () => {
  const a = loose(tensor([1, 2, 3]).broadcastTo([4, 3]));
  const b = loose(tensor([[1], [2], [3]]).broadcastTo([3, 2]));
  assertEquals(a.matmul(b).toArray(), [[14, 14], [14, 14], [14, 14], [14, 14]]);
});

test("Matmul operands: into an output with gaps, and into one of its own operands", () => {
  const [a, b] = [iota([3, 3]).add(1), arange(1, 10).reshape([3, 3])];
  const expected = naive(a, b);
  const wide = zeros([3, 6]);
  loose(a).matmul(b, { out: loose(wide).slice(":, ::-2") });
  assertEquals(loose(wide).slice(":, ::-2").toArray(), expected);
  assertEquals(loose(wide).slice(":, ::2").toArray(), [[0, 0, 0], [0, 0, 0], [0, 0, 0]]);
  for (const n of [3, 40, 300]) {
    const x = iota([n, n]).remainder(7).sub(3);
    const y = iota([n, n]).remainder(5).sub(2);
    const product = x.matmul(y).toArray();
    const [left, right] = [x.toOwned(), y.toOwned()];
    assertEquals(loose(left).matmul(y, { out: left }).toArray(), product);
    assertEquals(loose(x).matmul(right, { out: right }).toArray(), product);
    assertEquals(loose(x).matmul(y, { out: x.T }).toArray(), product);
  }
  // The product of the first matrices overwrites memory that the second ones are read from.
  const batch = loose(iota([3, 2, 2]));
  const [front, back] = [batch.slice(":2"), batch.slice("1:")];
  const products = front.matmul(b.slice(":2, :2")).toArray();
  assertEquals(front.matmul(b.slice(":2, :2"), { out: back }).toArray(), products);
});

test("Matmul over an output full of NaN: what was there is not read", () => {
  const a = arange(1, 10).reshape([3, 3]);
  const b = arange(1, 7).reshape([3, 2]);
  for (const dtype of ["float32", "float64", "float16", "bfloat16"] as const) {
    const out = full([3, 2], NaN, { dtype });
    loose(a.astype(dtype)).matmul(b.astype(dtype), { out });
    assertEquals(out.toArray(), EXAMPLE);
    const empty = full([3, 2], NaN, { dtype });
    loose(zeros([3, 0], { dtype })).matmul(zeros([0, 2], { dtype }), { out: empty });
    assertEquals(empty.sum().item(), 0);
  }
});

test("Matmul batches: leading axes broadcast", () => {
  const a = iota([2, 1, 3, 4]);
  const b = iota([5, 4, 2]);
  const product = loose(a).matmul(b);
  assertEquals([...product.shape], [2, 5, 3, 2]);
  for (const [i, j] of [[0, 0], [1, 4], [0, 3]] as const) {
    const expected = naive(loose(a).slice(i, 0), loose(b).slice(j));
    assertEquals(product.slice(i, j).toArray(), expected);
  }
});

test("Matmul batches: one matrix, or a batch of one, times many", () => {
  const [one, many] = [iota([2, 3]), iota([4, 3, 2])];
  for (const left of [one, loose(one).unsqueeze(0)]) {
    const product = loose(left).matmul(many);
    assertEquals([...product.shape], [4, 2, 2]);
    for (let i = 0; i < 4; i++) {
      assertEquals(product.slice(i).toArray(), naive(one, loose(many).slice(i)));
    }
  }
  const turned = loose(many).matmul(loose(one).unsqueeze(0));
  for (let i = 0; i < 4; i++) {
    assertEquals(turned.slice(i).toArray(), naive(loose(many).slice(i), one));
  }
});

test("Matmul batches: batch axes that no single stride reaches", () => {
  const a = loose(iota([3, 4, 2, 2])).permute(1, 0, 2, 3).slice("::2");
  const b = loose(iota([2, 6, 2, 2])).slice(":, ::-2");
  assertEquals([...a.shape], [2, 3, 2, 2]);
  const product = a.matmul(b);
  for (let i = 0; i < 2; i++) {
    for (let j = 0; j < 3; j++) {
      assertEquals(product.slice(i, j).toArray(), naive(a.slice(i, j), b.slice(i, j)));
    }
  }
});

test("Matmul dtypes: every numeric dtype multiplies, bool does not", () => {
  const dtypes = [
    ...["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"],
    ...["float16", "bfloat16", "float32", "float64"],
  ] as const;
  for (const dtype of loose(dtypes)) {
    const a = arange(1, 10, 1, { dtype }).reshape([3, 3]);
    const b = arange(1, 7, 1, { dtype }).reshape([3, 2]);
    const product = loose(a).matmul(b);
    assertEquals(product.toArray(), EXAMPLE, dtype);
    assertEquals(product.dtype, dtype);
  }
  const mask = zeros([2, 2], { dtype: "bool" });
  assertRefused(() => loose(mask).matmul(mask), DTypeError, ["matmul", "bool"], mask);
});

test("Matmul dtypes: they promote, and integers wrap exactly", () => {
  assertEquals(iota([2, 2], "int8").matmul(loose(iota([2, 2], "int32"))).dtype, "int32");
  assertEquals(iota([2, 2], "int32").matmul(loose(iota([2, 2], "float64"))).dtype, "float64");
  const big = full([1, 2], 2147483647, { dtype: "int32" });
  assertEquals(big.matmul(loose(big.T)).item(), 2);
  const wide = full([1, 2], 2n ** 62n + 1n);
  assertEquals(loose(wide).matmul(wide.T).item({ bigint: true }), 2n);
});

test("Matmul dtypes: products of integers wrap in every column", () => {
  for (const [dtype, value] of [["int32", 123456789n], ["int64", 1234567890123456789n]] as const) {
    const bits = DTYPE[dtype].bytes * 8;
    const a = zeros([3, 2], { dtype }).add(tensor(value, { dtype }));
    const b = tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], { dtype }).mul(tensor(value, { dtype }));
    const wrap = (x: bigint): bigint => BigInt.asIntN(bits, x);
    const row = [1n, 2n, 3n, 4n, 5n].map((i) =>
      wrap(value * wrap(i * value) + value * wrap((i + 5n) * value))
    );
    assertEquals(loose(a).matmul(b).toArray({ bigint: true }), [row, row, row]);
  }
});

test("Matmul dtypes: with dtype, operands are cast first", () => {
  const [a, b] = [full([2, 300], 127, { dtype: "int8" }), full([300, 1], -128, { dtype: "int8" })];
  const exact = 300 * 127 * -128;
  assertEquals(a.matmul(b, { dtype: "int32" }).toArray(), [[exact], [exact]]);
  assertEquals(a.matmul(b, { dtype: "float64" }).dtype, "float64");
  assertEquals(a.matmul(b).toArray(), [[exact << 24 >> 24], [exact << 24 >> 24]]);
  assertEquals(a.slice(0).dot(b.slice(":, 0"), { dtype: "int32" }).item(), exact);
  const out = zeros([2, 1], { dtype: "int64" });
  a.matmul(b, { dtype: "int32", out });
  assertEquals(out.toArray(), [[exact], [exact]]);
  // With a dtype, operands that do not promote are valid.
  const [x, y] = [iota([2, 2], "uint64"), loose(iota([2, 2], "int64"))];
  assertRefused(() => loose(x).matmul(y), DTypeError, ["matmul", "uint64", "int64"], x);
  assertEquals(loose(x).matmul(y, { dtype: "float64" }).dtype, "float64");
  assertRefused(() => loose(a).matmul(b, { dtype: "bool" }), DTypeError, ["matmul", "bool"], a);
  assertRefused(() => loose(a).matmul(b, { dtype: loose("int4") }), DTypeError, ["int4"], a);
});

test("Linear: a bias is a vector with one element for each row of the weight", () => {
  const [x, weight] = [loose(iota([4, 3])), iota([4, 3])];
  for (const shape of [[4, 1], [3], [1, 4], []]) {
    assertRefused(() => x.linear(weight, zeros(shape)), ShapeError, "linear", x, weight);
  }
  assertEquals(x.linear(weight, zeros([4])).shape, [4, 4]);
});

test("Matrix-vector and dot: (3, 4) of 0…11 times 0…3 is [14, 38, 62]", () => {
  const x = arange(12).reshape([3, 4]);
  assertEquals(x.matmul(arange(4)).toArray(), [14, 38, 62]);
  assertEquals(loose(arange(3)).matmul(x).toArray(), [20, 23, 26, 29]);
  assertEquals(loose(x).matmul(arange(4).flip()).toArray(), [4, 28, 52]);
});

test("Matrix-vector and dot: 0…4 with itself reversed is 10, of rank 0", () => {
  const product = arange(5).dot(arange(5).flip());
  assertEquals(product.item(), 10);
  assertEquals([...product.shape], []);
  assertEquals([...arange(5).matmul(arange(5)).shape], []);
  assertEquals(arange(2).outer(arange(3)).toArray(), [[0, 0, 0], [0, 1, 2]]);
  const out = zeros([2, 3]);
  loose(arange(2)).outer(arange(3), { out });
  assertEquals(out.toArray(), [[0, 0, 0], [0, 1, 2]]);
  const [a, b] = [iota([3]), iota([4])];
  assertRefused(() => a.dot(loose(b)), ShapeError, ["dot", "[3]", "[4]"], a, b);
  assertRefused(() => a.dot(loose(iota([3, 3]))), ShapeError, ["dot", "[3, 3]"], a);
});

test("Matrix-vector and dot: linear is x times the transposed weight, plus bias", () => {
  const x = tensor([[1, 2], [3, 4]]);
  const weight = tensor([[1, 0], [0, 1], [1, 1]]);
  assertEquals(x.linear(weight, tensor([10, 20, 30])).toArray(), [[11, 22, 33], [13, 24, 37]]);
});
