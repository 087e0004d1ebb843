/**
 * Indices among more elements than int32 counts, put together from parts: here of a few elements.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { type AnyTensor, tensor } from "../../mod.ts";
import type { Operand } from "../../src/memory/operand.ts";
import { ARG_REDUCE } from "../../src/table/table.ts";
import { argReduceParts } from "../../src/ops/reduce/large_index.ts";
import { flatNonzero } from "../../src/ops/index/selection.ts";
import { type Any, asView } from "../support.ts";

const X = tensor([[[3, 1, 4], [1, 5, 9]], [[2, 9, 5], [3, 0, NaN]], [[8, NaN, 7], [9, 3, 0]]]);
const LAYOUTS: ((x: AnyTensor) => Any)[] = [
  (x) => x,
  (x) => x.dtype === "bool" ? x : asView(x),
  (x) => x.toOwned().broadcastTo([2, ...x.shape] as Any),
];

const plain = (x: Operand): unknown => {
  const own = x as AnyTensor;
  return [own.shape, own.toArray()];
};

for (const name of ["argmax", "argmin"] as const) {
  test(`${name} of parts is that of all, as int64`, () => {
    for (const layout of LAYOUTS) {
      for (const x of [layout(X), layout(X.greater(2))]) {
        for (const limit of [1, 2, 5, 7]) {
          for (const axis of [null, ...x.shape.keys()]) {
            for (const keepDims of [true, false]) {
              const made = argReduceParts(ARG_REDUCE[name], x, axis, keepDims, undefined, limit);
              assertEquals(made.storage.info.name, "int64");
              assertEquals(plain(made), plain(x[name](axis, { keepDims })));
            }
          }
        }
      }
    }
  });
}

test("nonzero elements of parts are those of all, as int64", () => {
  for (const layout of LAYOUTS) {
    for (const x of [layout(X.greater(3)), layout(X.notEqual(X)), layout(X)]) {
      const all = flatNonzero(x, "nonzero");
      for (const part of [1, 3, 7]) {
        const { storage, layout: { size } } = flatNonzero(x, "nonzero", 5, part);
        assertEquals(storage.info.name, "int64");
        assertEquals(
          [...storage.array].map(Number).slice(0, size),
          [...all.storage.array].map(Number).slice(0, all.layout.size),
        );
      }
    }
  }
});
