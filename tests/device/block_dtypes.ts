/**
 * Two dtypes that are not in the table of this repository, added by a call: one whose elements are
 * two float64, and one whose elements share blocks of 32, as quantized weights do. Contains the
 * tests of every backend with them.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import {
  concat,
  DTypeError,
  eye,
  fromBuffer,
  io,
  quantize,
  ShapeError,
  stack,
  tensor,
  zeros,
} from "../../mod.ts";
import { addDType, type TypedArray } from "../../src/base/dtype.ts";
import { assertRefused, loose } from "../support.ts";

const pair = loose(
  addDType({
    name: "pair",
    kind: "p",
    lane: "float64",
    lanes: 2,
    read: (array: TypedArray, at: number) => `${array[2 * at]}+${array[2 * at + 1]}i`,
    write: (array: TypedArray, at: number, value: unknown) => {
      array[2 * at] = Number(value);
      array[2 * at + 1] = 0;
    },
  }).name,
);

/** 32 signed bytes after two that are their scale, as bits of a float16: 34 bytes. */
const blocks = loose(
  addDType({
    name: "blocks",
    kind: "q",
    lane: "uint8",
    lanes: 34,
    block: 32,
    read(array: TypedArray, at: number): number {
      const bytes = array as Uint8Array;
      const block = 34 * Math.floor(at / 32);
      const scale = bytes[block]! | bytes[block + 1]! << 8;
      const value = bytes[block + 2 + at % 32]! << 24 >> 24;
      return scale / 256 * value;
    },
  }).name,
);

/** A tensor of `shape` whose element i is i + (i + 0.5)i. */
// deno-lint-ignore no-explicit-any
function pairs(shape: readonly number[], device: string): any {
  const n = shape.reduce((a, b) => a * b, 1);
  const array = Float64Array.from({ length: 2 * n }, (_, k) => k % 2 ? (k - 1) / 2 + 0.5 : k / 2);
  return loose(fromBuffer)(array, { dtype: pair, shape }).to(device);
}

function text(i: number): string {
  return `${i}+${i + 0.5}i`;
}

/** Rows of 64 elements: element j of row i is i + 1 times j % 32 - 16, of the scale 256. */
// deno-lint-ignore no-explicit-any
function quantized(rows: number, device: string): any {
  const bytes = new Uint8Array(rows * 68);
  for (let block = 0; block < 2 * rows; block++) {
    bytes[block * 34 + 1] = 1 + (block >> 1);
    for (let j = 0; j < 32; j++) bytes[block * 34 + 2 + j] = j - 16;
  }
  return loose(fromBuffer)(bytes, { dtype: blocks, shape: [rows, 64] }).to(device);
}

function row(i: number): number[] {
  return Array.from({ length: 64 }, (_, j) => (i + 1) * (j % 32 - 16) + 0);
}

/** The tests of both dtypes on `device`, by name. */
export const BLOCK_DTYPE_TESTS: Record<string, (device: string) => void> = {
  "pairs are created, copied, moved and printed": (device) => {
    const x = pairs([2, 3], device);
    const expected = [[0, 1, 2].map(text), [3, 4, 5].map(text)];
    assertEquals([x.dtype, x.size, x.nbytes, x.byteStrides], [pair, 6, 96, [48, 16]]);
    assertEquals(x.toArray(), expected);
    assertEquals(x.copy().toArray(), expected);
    assertEquals(x.T.copy().toArray(), [[0, 3], [1, 4], [2, 5]].map((one) => one.map(text)));
    assertEquals(x.cpu().toArray(), expected);
    assertEquals(x.cpu().to(device).flip(0).copy().cpu().toArray(), expected.toReversed());
    assertEquals(x.slice(1, 2).item(), text(5));
    assertEquals(String(x.slice(0)), "tensor([0+0.5i, 1+1.5i, 2+2.5i], shape [3], pair)");
    assertEquals([...x.toTypedArray().slice(2, 6)], [1, 1.5, 2, 2.5]);
    assertEquals(loose(zeros)([2], { dtype: pair, device }).toArray(), ["0+0i", "0+0i"]);
    assertEquals(x.intoCow().toArray(), expected);
  },

  "pairs are sliced, joined, gathered and scattered": (device) => {
    const x = pairs([3, 4], device);
    assertEquals(x.slice("::2, 1:3").copy().toArray(), [[1, 2], [9, 10]].map((r) => r.map(text)));
    assertEquals(loose(concat)([x.slice(0), x.slice(2)]).slice("3:5").toArray(), [3, 8].map(text));
    assertEquals(loose(stack)([x, x], 1).shape, [3, 2, 4]);
    assertEquals(x.take([2, 0], 1).toArray(), [[2, 0], [6, 4], [10, 8]].map((r) => r.map(text)));
    assertEquals(x.slice([1, -1]).slice(":, 0").toArray(), [4, 8].map(text));
    const y = pairs([3, 4], device);
    y.set([[2, 0]], x.slice("0:2"));
    assertEquals(y.slice(":, 0").toArray(), [4, 4, 0].map(text));
    y.set([1, "1:"], 7);
    assertEquals(y.slice(1).toArray(), [text(4), "7+0i", "7+0i", "7+0i"]);
    assertEquals(x.tile([1, 2]).slice(0, "3:6").toArray(), [3, 0, 1].map(text));
    assertEquals(x.roll(1, 1).slice(0).toArray(), [3, 0, 1, 2].map(text));
    assertEquals(x.repeat(2, 0).slice("1:3, 0").toArray(), [0, 4].map(text));
    const last = tensor([[3], [0], [1]], { dtype: "int32" }).to(loose(device));
    assertEquals(x.takeAlongAxis(last, 1).toArray(), [[3], [4], [9]].map((r) => r.map(text)));
  },

  "blocks are created, copied, moved and printed": (device) => {
    const x = quantized(3, device);
    const expected = [0, 1, 2].map(row);
    assertEquals([x.dtype, x.size, x.nbytes], [blocks, 192, 204]);
    assertEquals(x.toArray(), expected);
    assertEquals(x.copy().toArray(), expected);
    assertEquals(x.cpu().toArray(), expected);
    assertEquals(x.slice("::-2").copy().toArray(), [row(2), row(0)]);
    assertEquals(x.slice(":, 32:").copy().slice(1).toArray(), row(1).slice(32));
    assertEquals(x.take([1, 1]).toArray(), [row(1), row(1)]);
    assertEquals(loose(concat)([x, x]).slice(4).toArray(), row(1));
    assertEquals([x.slice(1, 40).item(), x.get(2, 31)], [row(1)[40], row(2)[31]]);
    assertEquals(x.copy().fill_(0).toArray(), expected.map((one) => one.map(() => 0)));
    assertEquals(x.slice(0, "14:19").toArray(), [-2, -1, 0, 1, 2]);
    assertEquals(String(x.slice(0, "30:34")), "tensor([14, 15, -16, -15], shape [4], blocks)");
    assertEquals(loose(zeros)([32], { dtype: blocks, device }).toArray(), new Array(32).fill(0));
  },

  "numbers of quantized dtypes are read, and multiplied": (device) => {
    // A scale of 2, then 0, 1, … 31.
    const bytes = Uint8Array.from(
      { length: 68 },
      (_, i) => [0, 0x40, i % 34 - 2][Math.min(i % 34, 2)]!,
    );
    const w = loose(fromBuffer)(bytes, { dtype: "q8_0", shape: [2, 32] }).to(device);
    const row = Array.from({ length: 32 }, (_, i) => 2 * i);
    const numbers = w.dequantize();
    assertEquals([numbers.device, numbers.toArray()], [w.device, [row, row]]);
    const x = loose(zeros)([1, 32], { device });
    x.set([0, 3], 10);
    assertEquals(x.linear(w).toArray(), [[60, 60]]);
    // Into a part that begins anywhere, of few rows and of many.
    for (const rows of [1, 40]) {
      const all = loose(zeros)([2 * rows + 3], { device });
      const part = all.slice(`1:${2 * rows + 1}`).reshape([rows, 2]);
      x.broadcastTo([rows, 32]).linear(w, undefined, { activation: "relu", out: part });
      assertEquals(all.toArray(), [0, ...new Array(2 * rows).fill(60), 0, 0]);
    }
    // 127 steps of 2, and 8 of -16.
    for (const [dtype, low] of [["q8_0", -254], ["q4_0", 128]]) {
      x.set([0, 5], low);
      const q = loose(quantize)(x, dtype);
      assertEquals([q.device, q.dtype], [x.device, dtype]);
      assertEquals(q.dequantize().add(0).slice(0, "3:6").toArray(), [
        dtype === "q8_0" ? 10 : 16,
        0,
        low,
      ]);
    }
  },

  "what such dtypes cannot do is refused, and changes nothing": (device) => {
    const x = pairs([2, 2], device);
    const q = quantized(2, device);
    for (const op of ["add", "matmul", "equal", "maximum"]) {
      assertRefused(() => x[op](x), DTypeError, [op, "pair"], x);
      assertRefused(() => q[op](q), DTypeError, [op, "blocks"], q);
    }
    for (const op of ["neg", "sum", "argmax", "sort", "argsort", "nonzero", "softmax", "abs_"]) {
      assertRefused(() => x[op](), DTypeError, [op, "pair"], x);
    }
    assertRefused(() => x.cumulativeSum(0), DTypeError, ["cumulativeSum", "pair"], x);
    assertRefused(() => x.astype("float64"), DTypeError, ["astype", "pair", "float64"], x);
    assertRefused(() => x.mul(2), DTypeError, ["mul", "pair"], x);
    assertRefused(() => x.div(2), DTypeError, ["div", "pair"], x);
    assertRefused(() => q.slice(":, 1:33").copy(), DTypeError, ["copy", "blocks of 32"], q);
    assertRefused(() => q.slice(":, ::2").copy(), DTypeError, ["copy", "blocks of 32"], q);
    assertRefused(() => q.T.copy(), DTypeError, ["copy", "blocks of 32"], q);
    assertRefused(() => q.set([0], 1), DTypeError, ["set", "blocks"], q);
    assertRefused(() => io.encodeNpy(x.cpu()), DTypeError, ["encodeNpy", "pair"], x);
    assertRefused(() => io.encodeSafetensors({ x }), DTypeError, ["encodeSafetensors", "pair"], x);
    assertThrows(() => loose(eye)(32, { dtype: blocks, device }), DTypeError, "blocks");
    assertThrows(
      () => loose(zeros)([2, 16], { dtype: blocks, device }),
      ShapeError,
      "blocks of 32",
    );
    assertThrows(() => loose(zeros)([], { dtype: blocks, device }), ShapeError, "blocks of 32");
    assertThrows(() =>
      addDType({ name: "pair", kind: "p", lane: "int8", lanes: 2, read: () => 0 })
    );
  },
};
