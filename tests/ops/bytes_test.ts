/**
 * Products of bytes with zero points and of weights of four bits, on all backends; their errors.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { ArgumentError, DTypeError, ones, ShapeError, tensor, zeros } from "../../mod.ts";
import { matmulInteger, packBytes } from "../../src/ops/linear/bytes.ts";
import { linearNibbles, packNibbles } from "../../src/ops/linear/nibbles.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { testOnnxCases } from "./onnx_golden.ts";
import { BACKENDS, using } from "./table/backends.ts";

testOnnxCases("matmul_integer", 0, (_, [a, b, p, q]) => {
  const packed = b.rank === 2 ? packBytes("packBytes", b, q) : b;
  return [matmulInteger("matmulInteger", a, packed, p, b.rank === 2 ? undefined : q)];
});

testOnnxCases("matmul_nbits", 2e-5, ({ attributes }, [x, b, scales, points, , bias]) => {
  const { N: columns, K: depth, block_size: block } = attributes;
  const packed = packNibbles("packNibbles", b, scales, points, { columns, depth, block });
  return [linearNibbles("linearNibbles", x, packed, bias)];
});

for (const { name, on } of BACKENDS) {
  test(`products of bytes and of four bits of views and other dtypes, ${name}`, () =>
    using(on, () => {
      const device = loose(typeof on === "string" ? on : "cpu");
      const a = loose(tensor([[1, -2, 3], [4, 5, -6]], { dtype: "int8" })).to(device);
      const product = (x: Any, y: Any): Any =>
        loose(matmulInteger("matmulInteger", x, y)).toArray();
      assertEquals(product(a, a.T), [[14, -24], [-24, 77]]);
      assertEquals(product(a.flip(1), a.flip(1).T), [[14, -24], [-24, 77]]);
      const none = loose(zeros([2, 0], { dtype: "uint8" })).to(device);
      assertEquals(product(none, none.T), [[0, 0], [0, 0]]);
      const b = loose(tensor(new Uint8Array(16).fill(0x9a), { shape: [2, 1, 8] })).to(device);
      const scales = loose(tensor([0.5, 2], { dtype: "float16" })).to(device);
      const sizes = { columns: 2, depth: 10, block: 16 };
      const packed = packNibbles("packNibbles", b, scales, undefined, sizes);
      for (const dtype of ["float16", "bfloat16", "float32", "float64"] as const) {
        const x = loose(ones([3, 10], { dtype })).to(device);
        const y: Any = linearNibbles("linearNibbles", x, packed);
        // Five numbers 10 and five 9, less 8.
        assertEquals([y.dtype, y.toArray()], [dtype, new Array(3).fill([7.5, 30])]);
      }
    }));
}

test("products of bytes and of four bits refuse what does not fit", () => {
  const a = ones([2, 3], { dtype: "int8" });
  const product = (x: Any, y: Any, ...zeros: Any[]) => () =>
    matmulInteger("product", x, y, ...zeros);
  assertRefused(product(a, ones([3, 2])), DTypeError, ["float32", "int8 and uint8"], a);
  assertRefused(product(a, a), ShapeError, ["[2, 3]"], a);
  assertRefused(product(a, a.T, ones([3], { dtype: "int8" })), ShapeError, ["[3]"], a);
  assertRefused(product(a.slice(0), a.T), ShapeError, ["[..., M, K]"], a);
  const [b, scales] = [zeros([2, 2, 16], { dtype: "uint8" }), ones([2, 2])];
  const pack = (block: number, ...given: Any[]) => () =>
    packNibbles("pack", given[0] ?? b, given[1] ?? scales, given[2], {
      ...{ columns: 2, depth: 50, block },
    });
  assertRefused(pack(24), ArgumentError, ["blocks of 24"], b);
  assertRefused(pack(128), ShapeError, ["bytes", "[2, 1, 64]"], b);
  assertRefused(pack(32, b, ones([3])), ShapeError, ["scales", "[2, 2]"], b);
  assertRefused(pack(32, b, scales, ones([1])), ShapeError, ["zero points"], b);
  assertRefused(pack(32, b.astype("int8")), DTypeError, ["int8", "uint8"], b);
  const packed = pack(32)();
  const linear = (x: Any, bias?: Any) => () => linearNibbles("linear", x, packed, bias);
  assertRefused(linear(ones([1, 49])), ShapeError, ["[1, 49]", "[2, 50]"], b);
  assertRefused(linear(ones([1, 50]), ones([3])), ShapeError, ["bias", "[2]"], b);
  assertRefused(linear(ones([1, 50], { dtype: "int32" })), DTypeError, ["int32"], b);
});
