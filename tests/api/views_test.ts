/**
 * Views: reshape, permute, unsqueeze, read-only views, rank in the type; through the public API.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  arange,
  AxisError,
  concat,
  meshgrid,
  ReadOnlyError,
  ShapeError,
  sharesBuffer,
  type Tensor,
  tensor,
  zeros,
} from "../../mod.ts";
import { assertRefused, iota, loose } from "../support.ts";

test("Reshape: the same elements in another shape, as a view of the same memory", () => {
  const x = arange(12);
  const y = x.reshape([3, 4]);
  assertEquals(y.toArray(), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]);
  assert(sharesBuffer(x, y));
  y.set([2, 3], 99);
  assertEquals(x.get(11), 99);
  assertEquals([...zeros([2, 2]).reshape([4]).shape], [4]);
});

test("Reshape: one size of -1 is inferred", () => {
  assertEquals([...zeros([2, 3, 4]).reshape([4, -1]).shape], [4, 6]);
  assertEquals([...zeros([2, 3]).reshape([-1]).shape], [6]);
  assertEquals([...zeros([0, 3]).reshape([-1, 3]).shape], [0, 3]);
});

test("Reshape: after a slice or permute it is a view where strides allow it, else a copy", () => {
  const x = iota([4, 6]);
  const rows = loose(x).slice("1:3");
  assert(sharesBuffer(x, rows.reshape([3, 4])));
  assert(sharesBuffer(x, loose(x).slice(":, ::2").reshape([2, 2, 3])));
  const turned = x.transpose();
  const flat = loose(turned).reshape([24]);
  assertEquals(sharesBuffer(x, flat), false);
  assertEquals(flat.toArray().slice(0, 5), [0, 6, 12, 18, 1]);
  // (4, 6) permuted to (6, 4) still splits as (2, 3, 4).
  const split = loose(turned).reshape([2, 3, 4]);
  assert(sharesBuffer(x, split));
  assertEquals(split.get(1, 2, 3), 23);
});

test("Reshape: the new rank is in the type", () => {
  const y: Tensor<"float32", [3, 4], "cpu"> = zeros([12]).reshape([3, 4]);
  const shape: readonly [3, 4] = y.shape;
  assertEquals([...shape], [3, 4]);
  // @ts-expect-error 12 elements are not 3 by 5
  assertRefused(() => zeros([12]).reshape([3, 5]), ShapeError, "[3, 5]");
});

test("Reshape: another number of elements, a second -1 or a bad size is a ShapeError", () => {
  const x = iota([2, 3]);
  for (const shape of [[4], [2, 4], [], [-1, 4], [-1, -1], [-2, -3], [1.5, 4], [NaN]]) {
    assertRefused(() => loose(x).reshape(shape), ShapeError, ["reshape", "[2, 3]"], x);
  }
});

test("Reshape overflow: sizes whose product is beyond 2^53 are a ShapeError, not a wrong view", () => {
  const x = iota([2, 3]);
  const none = zeros([0]);
  for (const shape of [[2 ** 32, 2 ** 32], [2 ** 53, 2], [2 ** 31, 2 ** 31, 6]]) {
    assertRefused(() => loose(x).reshape(shape), ShapeError, "reshape", x);
  }
  for (const shape of [[0, 2 ** 32, 2 ** 32], [2 ** 30, 2 ** 30, -1]]) {
    assertRefused(() => loose(none).reshape(shape), ShapeError, "reshape", none);
  }
  assertRefused(() => zeros([2 ** 32, 2 ** 32]), ShapeError, "zeros");
});

test("Reshape -1 beside a size of 0: it cannot be inferred, and says so", () => {
  const x = zeros([0, 3]);
  assertRefused(() => loose(x).reshape([0, -1]), ShapeError, ["reshape", "[0, 3]", "-1"], x);
  assertEquals([...loose(x).reshape([3, -1]).shape], [3, 0]);
});

test("Permute and transpose: (1, 2, 3) by [2, 0, 1] is (3, 1, 2)", () => {
  const x = iota([1, 2, 3]);
  const y = loose(x).permute(2, 0, 1);
  assertEquals([...y.shape], [3, 1, 2]);
  assertEquals(y.get(2, 0, 1), x.get(0, 1, 2));
  assert(sharesBuffer(x, y));
  assertEquals(loose(x).permuteDims(-1, 0, 1).toArray(), y.toArray());
});

test("Permute and transpose: transpose and T reverse all axes, mT the last two", () => {
  const x = iota([2, 3, 4]);
  for (const y of [x.transpose(), x.T]) {
    assertEquals([...y.shape], [4, 3, 2]);
    assertEquals(loose(y).get(3, 2, 1), 23);
  }
  assertEquals([...x.mT.shape], [2, 4, 3]);
  assertEquals(loose(x.mT).get(1, 3, 0), 15);
  assertEquals([...loose(x).swapAxes(0, -1).shape], [4, 3, 2]);
  assertEquals([...loose(x).moveAxis(0, -1).shape], [3, 4, 2]);
});

test("Permute and transpose: axes that are missing, double or not there are AxisErrors", () => {
  const x = iota([2, 3]);
  for (const axes of [[0], [0, 0], [0, 2], [0, 1, 2], [0, 0.5]]) {
    assertRefused(() => loose(x).permute(...axes), AxisError, "permute", x);
  }
  assertRefused(() => loose(x).transpose(1, 0), AxisError, "permute", x);
  assertRefused(() => loose(iota([2])).mT, AxisError, ["mT", "[2]"]);
});

test("Unsqueeze: (3, 4) becomes (1, 3, 4), and (3, 4, 1) at axis 2", () => {
  const x = zeros([3, 4]);
  assertEquals([...x.unsqueeze().shape], [1, 3, 4]);
  assertEquals([...x.unsqueeze(2).shape], [3, 4, 1]);
  assertEquals([...x.expandDims(1).shape], [3, 1, 4]);
  assertEquals([...x.unsqueeze(-1).shape], [3, 4, 1]);
  assert(sharesBuffer(x, x.unsqueeze(1)));
  assertEquals([...x.unsqueeze(1).squeeze().shape], [3, 4]);
});

test("Unsqueeze: an axis beyond the rank is an AxisError", () => {
  const x = iota([3, 4]);
  assertRefused(() => loose(x).unsqueeze(3), AxisError, ["axis 3"], x);
  assertRefused(() => loose(x).unsqueeze(-4), AxisError, ["axis -4"], x);
  assertRefused(() => loose(x).squeeze(0), ShapeError, ["squeeze", "[3, 4]", "axis 0"], x);
});

test("View: it never copies, and writes are seen on both sides", () => {
  const x = iota([2, 6]);
  const views = [
    x.view(),
    loose(x).slice("1:"),
    loose(x).reshape([3, 4]),
    x.T,
    loose(x).flip(),
    loose(x).broadcastTo([5, 2, 6]),
    loose(x).unsqueeze(0),
    loose(x).diagonal(),
    loose(x).split(2, 1)[1],
    x.unstack()[1]!,
    x.asDynamic(),
  ];
  for (const view of views) {
    assert(sharesBuffer(x, view));
    assertEquals(view.ownership, "view");
  }
  x.set([1, 1], -7);
  for (const view of [views[0]!, views[3]!, views[4]!]) assertEquals(loose(view).min().item(), -7);
  x.view().set([0, 0], 70);
  assertEquals(x.get(0, 0), 70);
});

test("Iterate: along the first axis unless told otherwise, by steps", () => {
  const x = loose(iota([3, 2]));
  const rows = (axis?: number, step?: number): unknown[] =>
    [...x.iterate(axis, step)].map((row) => row.toArray());
  assertEquals(rows(), [[0, 1], [2, 3], [4, 5]]);
  assertEquals(rows(1), [[0, 2, 4], [1, 3, 5]]);
  assertEquals(rows(0, -2), [[4, 5], [0, 1]]);
  assertEquals(rows(0, 2), [[0, 1], [4, 5]]);
});

test("Split: into a view for every element, and at indexes in any order", () => {
  const x = loose(iota([1000]));
  const parts = x.split(1000);
  assertEquals([parts.length, parts[999].toArray()], [1000, [999]]);
  assertEquals(concat([parts[7]!]).toArray(), [7]);
  assertEquals(loose(iota([2, 3])).tile([2]).toArray(), [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]);
  const shapes = x.split([3, 1, 7]).map(({ shape }: { shape: number[] }) => shape);
  assertEquals(shapes, [[3], [0], [6], [993]]);
});

test("Read-only view: it reads what the tensor holds and refuses every write", () => {
  const x = iota([2, 3]);
  const frozen = x.readonly();
  assertEquals(frozen.access, "read");
  assertEquals(loose(frozen.slice(0)).access, "read");
  assertEquals(frozen.add(1).access, "write");
  x.set([0, 0], 5);
  assertEquals(frozen.get(0, 0), 5);
  const writes = [
    () => loose(frozen).set([0, 0], 1),
    () => loose(frozen).add_(1),
    () => loose(frozen).fill_(1),
    () => loose(frozen).neg_(),
    () => loose(frozen).slice(0).fill_(1),
    () => loose(frozen).T.add_(1),
    () => loose(frozen).reshape([6]).add_(1),
    () => x.add(1, { out: loose(frozen) }),
    () => loose(frozen).data,
    () => loose(frozen).split(2)[0].fill_(1),
    () => loose(frozen).unstack()[0].fill_(1),
    () => [...frozen].forEach((row) => loose(row).fill_(1)),
    () => loose(frozen).putAlongAxis_(tensor([[0, 0, 0]], { dtype: "int32" }), 1, 0),
    () => loose(frozen).clip_(0, 1),
    () => loose(meshgrid([frozen.slice(0)])[0]).fill_(1),
  ];
  for (const write of writes) assertRefused(write, ReadOnlyError, "read-only", x, frozen);
  const own = frozen.toOwned();
  own.set([0, 0], 9);
  assertEquals(x.get(0, 0), 5);
});

test("Read-only view: its type has no writing methods", () => {
  const frozen = zeros([2]).readonly();
  // @ts-expect-error a read-only tensor is not written
  assertRefused(() => frozen.fill_(1), ReadOnlyError, "fill_");
  // @ts-expect-error nor passed where one is written
  const writable: Tensor<"float32", [2]> = frozen;
  assertEquals(writable.access as string, "read");
});

test("Fixed and dynamic rank: asRank checks the rank, asDynamic forgets it", () => {
  const x = iota([2, 3]).asDynamic();
  const matrix = x.asRank(2);
  const shape: readonly [number, number] = matrix.shape;
  assertEquals([...shape], [2, 3]);
  assert(sharesBuffer(x, matrix));
  assertRefused(() => x.asRank(3), ShapeError, ["[2, 3]", "3"], x);
  assertRefused(() => x.asShape([2, 4]), ShapeError, ["[2, 3]", "[2, 4]"], x);
  const back: Tensor<"float32"> = zeros([2, 3]).asDynamic();
  assertEquals([...back.shape], [2, 3]);
});

test("Fixed and dynamic rank: a loop can change the rank of a dynamic tensor", () => {
  let x: Tensor = zeros([1]).asDynamic();
  for (let i = 0; i < 3; i++) x = x.unsqueeze(0);
  assertEquals([...x.shape], [1, 1, 1, 1]);
});

test("Rank in the type: a matrix does not compile where rank 3 is asked for", () => {
  const volume = (x: Tensor<"float32", [number, number, number]>): number => x.size;
  assertEquals(volume(zeros([2, 3, 4])), 24);
  // @ts-expect-error rank 2 is not rank 3
  assertEquals(volume(zeros([2, 3])), 6);
});

test("Rank in the type: literal shapes are checked too", () => {
  const image = (x: Tensor<"float32", [8, 8]>): number => x.size;
  assertEquals(image(zeros([8, 8])), 64);
  // @ts-expect-error 8 by 9 is not 8 by 8
  assertEquals(image(zeros([8, 9])), 72);
  // @ts-expect-error int32 is not float32
  assertEquals(image(zeros([8, 8], { dtype: "int32" })), 64);
  // @ts-expect-error 3 and 4 do not broadcast
  assertRefused(() => zeros([2, 3]).add(zeros([4])), ShapeError, "axis -1 has sizes 3 and 4");
});
