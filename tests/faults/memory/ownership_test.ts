/**
 * Faults of ownership: entry 30.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { arange, sharesBuffer } from "../../../mod.ts";
import { loose } from "../../support.ts";
import { fault } from "../support.ts";

fault({
  entry: 30,
  kind: "a dense tensor is copied though it could move, for the stride of an axis of size 1",
  others: ["intoShared of views with an offset"],
}, () => {
  const shared = loose(arange(117)).reshape([117, 1]).intoShared();
  for (
    const make of [
      () => shared.T.T.T,
      () => shared.T,
      () => shared.slice("3:").T,
      () => shared.slice("3:10").expandDims(1),
    ]
  ) {
    const x = make();
    const before = x.toArray();
    const moved = x.intoShared();
    assert(sharesBuffer(moved, shared), "it moves");
    assert(moved.isContiguous && x.isDisposed);
    assertEquals(moved.toArray(), before);
    const { strides, shape } = moved;
    const dense = shape.map((_: number, i: number) =>
      shape.slice(i + 1).reduce((p: number, q: number) => p * q, 1)
    );
    assertEquals([...strides], dense);
  }
  const gaps = shared.slice("::2").intoShared();
  assert(!sharesBuffer(gaps, shared));
  assertEquals(gaps.toArray(), shared.slice("::2").toArray());
});
