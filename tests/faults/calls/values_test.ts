/**
 * Faults of values: entries 27 and 28.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { type AnyTensor, arange, DTypeError, linspace, type Tensor, tensor } from "../../../mod.ts";
import { BACKENDS, using } from "../../ops/table/backends.ts";
import { loose } from "../../support.ts";
import { fault } from "../support.ts";

const UNSIGNED = ["uint8", "uint16", "uint32", "uint64"] as const;

fault({
  entry: 28,
  kind: "products of unsigned integers turn negative",
  others: ["prod", "cumulativeProd", "products along axes", "the types of both"],
}, () => {
  for (const { name, on } of BACKENDS) {
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (const dtype of UNSIGNED) {
        const what = `${name}, ${dtype}`;
        const x = loose(tensor([[255, 255, 255, 255], [255, 255, 255, 255]], { dtype })).to(device);
        const read = (y: AnyTensor): unknown => [y.dtype, loose(y).toArray({ bigint: true })];
        // 255^8 is above 2^63.
        assertEquals(read(x.prod()), ["uint64", 255n ** 8n], what);
        assertEquals(read(x.T.prod()), ["uint64", 255n ** 8n], what);
        assertEquals(read(x.prod(1)), ["uint64", [255n ** 4n, 255n ** 4n]], what);
        const running = Array.from({ length: 8 }, (_, i) => 255n ** BigInt(i + 1));
        assertEquals(read(x.reshape([8]).cumulativeProd()), ["uint64", running], what);
        const from = { includeInitial: true };
        assertEquals(
          read(x.slice(0).cumulativeProd(0, from)),
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

/** `np.linspace(start, stop, count, endpoint=endpoint, dtype=np.int32)`, by NumPy 2.4. */
const LINES: [start: number, stop: number, count: number, closed: number[], open: number[]][] = [
  [-3, 3, 6, [-3, -2, -1, 0, 1, 3], [-3, -2, -1, 0, 1, 2]],
  [0, 1, 5, [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]],
  [-1, 1, 4, [-1, -1, 0, 1], [-1, -1, 0, 0]],
  [5, -5, 7, [5, 3, 1, 0, -2, -4, -5], [5, 3, 2, 0, -1, -3, -4]],
  [-2.5, 2.5, 6, [-3, -2, -1, 0, 1, 2], [-3, -2, -1, 0, 0, 1]],
  [0, 10, 4, [0, 3, 6, 10], [0, 2, 5, 7]],
  [-7, -1, 4, [-7, -5, -3, -1], [-7, -6, -4, -3]],
  [3, -4, 3, [3, -1, -4], [3, 0, -2]],
];

fault({
  entry: 27,
  kind: "linspace of an integer dtype truncates towards 0 where NumPy rounds down",
  others: ["linspace of bool, which made false of fractions"],
}, () => {
  for (const [start, stop, count, closed, open] of LINES) {
    for (const dtype of ["int32", "int64", "int8"] as const) {
      assertEquals(linspace(start, stop, count, { dtype }).toArray(), closed);
      assertEquals(linspace(start, stop, count, { dtype, endpoint: false }).toArray(), open);
    }
  }
  assertThrows(() => linspace(-0.5, 3, 6, { dtype: "uint8" }), DTypeError, "it is outside 0 to");
  assertThrows(() => linspace(0, 1, 3, { dtype: "bool" }), DTypeError, "Cannot linspace 0.5");
  assertEquals(linspace(0, 1, 2, { dtype: "bool" }).toArray(), [false, true]);
  // arange of integers has integer steps: rounding each value would make steps of several sizes.
  assertThrows(() => arange(0, 2, 0.5, { dtype: "int32" }), DTypeError, "Cannot arange 0.5");
});
