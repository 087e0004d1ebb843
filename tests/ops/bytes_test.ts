/**
 * Products of bytes with zero points and of weights of four bits, on all backends; their errors.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  ArgumentError,
  DTypeError,
  full,
  ones,
  random,
  ShapeError,
  tensor,
  zeros,
} from "../../mod.ts";
import { matmulInteger, packBytes } from "../../src/ops/linear/bytes.ts";
import { linearNibbles, packNibbles } from "../../src/ops/linear/nibbles.ts";
import { lstmOfBytes, packLstm, recurrentLayer } from "../../src/ops/recurrent/op.ts";
import { quantizeDynamic } from "../../src/ops/reduce/quantize_dynamic.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { testOnnxCases } from "./onnx_golden.ts";
import { ALL_BACKENDS, BACKENDS, using } from "./table/backends.ts";

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

/** The bytes of numbers, with their scale and zero point, as ONNX's DynamicQuantizeLinear defines them. */
function rounded(x: readonly number[]): { bytes: number[]; scale: number; zero: number } {
  const f = Math.fround;
  const even = (a: number): number => {
    const floor = Math.floor(a), rest = a - floor;
    return rest === 0.5 ? floor + floor % 2 : rest < 0.5 ? floor : floor + 1;
  };
  const byte = (a: number): number => Number.isNaN(a) ? 0 : Math.min(Math.max(a, 0), 255);
  const low = x.reduce((a, b) => Math.min(a, b), 0), high = x.reduce((a, b) => Math.max(a, b), 0);
  const scale = f(f(high - low) / 255), divisor = scale === 0 ? 1 : scale;
  const zero = even(byte(f(-low / divisor)));
  return { bytes: x.map((a) => byte(even(f(a / divisor)) + zero)), scale, zero };
}

test("floats are rounded to bytes by their range", () => {
  const normal: Any = random.normal(random.key(3), [40_001]);
  const cases: readonly (readonly number[])[] = [
    ...[[0], [0, 0, -0], [3], [-2, -7], [1, 2, 255], [-0.5, 0.5, 1.5, 2.5, 254.5]],
    ...[[NaN, 1, -1], [-NaN], [Infinity, 1], [-Infinity, 0, 2], [3e38, -3e38], [1e-45, 0]],
    normal.toArray().slice(0, 100),
    normal.mul(5).add(1).toArray(),
  ].map((x) => [x].flat());
  for (const { name, on } of ALL_BACKENDS) {
    using(on, () => {
      const device = loose(typeof on === "string" ? on : "cpu");
      for (const x of cases) {
        const { bytes, scale, zero } = quantizeDynamic("q", loose(tensor(x)).to(device)) as Any;
        const made = { bytes: bytes.toArray(), scale: scale.item(), zero: zero.item() };
        const wanted = rounded(x);
        assertEquals(made, wanted, `${name}: ${x.slice(0, 5)}`);
        assertEquals([bytes.dtype, scale.dtype, zero.dtype], ["uint8", "float32", "uint8"]);
      }
    });
  }
  const one = ones([2]);
  assertRefused(() => quantizeDynamic("q", ones([2, 0])), ShapeError, ["[2, 0]"], one);
  assertRefused(() => quantizeDynamic("q", one.astype("int32")), DTypeError, ["int32"], one);
});

for (const { name, on } of ALL_BACKENDS) {
  test(`an LSTM with weights of bytes is near one of floats, ${name}`, () =>
    using(on, () => {
      const device = loose(typeof on === "string" ? on : "cpu");
      const key = random.key(5);
      let made = 0;
      const normal = (...shape: number[]): Any =>
        loose(random.normal(random.split(key, 99).at(made++)!, shape)).to(device);
      for (const [batch, size, directions] of [[1, 24, 1], [3, 9, 2], [14, 17, 2]] as const) {
        const [steps, inputs] = [4, 6];
        const weight = (depth: number, signed: boolean): Any => {
          const whole = normal(directions, depth, 4 * size).mul(30).round().clip(-100, 100);
          return signed ? whole.astype("int8") : whole.add(110).astype("uint8");
        };
        const [w, r] = [weight(inputs, true), weight(size, false)];
        const zero = loose(full([directions], 110, { dtype: "uint8" })).to(device);
        const scaleOf = (shape: number[]): Any => loose(full(shape, 0.01)).to(device);
        const scales = { w: scaleOf([directions, 4 * size]), r: scaleOf([directions]) };
        const x = normal(steps, batch, inputs);
        const b = normal(directions, 8 * size), p = normal(directions, 3 * size);
        const hidden = normal(directions, batch, size).tanh(),
          cell = normal(directions, batch, size);
        const lengths = loose(tensor(Array.from({ length: batch }, (_, i) => 1 + i % steps), {
          dtype: "int32",
        })).to(device);
        const attributes = {
          cell: "lstm" as const,
          reversed: directions === 1 ? [true] : [false, true],
        };
        const packed = packLstm("lstm", { weight: w }, { weight: r, zeros: zero });
        const rest = { hidden, cell, lengths };
        const got = lstmOfBytes("lstm", x, packed, scales, { b, p }, attributes, rest);
        const [wide, states] = [w.astype("float32"), r.astype("float32").sub(110)]
          .map((one) => one.mul(0.01).swapAxes(1, 2));
        const weights = { w: wide, r: states, b, p };
        const wanted = recurrentLayer("lstm", x, weights, attributes, rest);
        for (const part of ["output", "hidden", "cell"] as const) {
          const far = (got[part] as Any).sub(wanted[part]).abs().max().item();
          assertEquals(far > 0 && far < 0.05, true, `${part}, ${batch}: ${far}`);
        }
      }
    }));
}

test("LSTMs with weights of bytes refuse what does not fit", () => {
  const [w, r] = [ones([1, 3, 8], { dtype: "int8" }), ones([1, 2, 8], { dtype: "int8" })];
  const pack = (one: Any, other: Any, zeros?: Any) => () =>
    packLstm("lstm", { weight: one }, { weight: other, zeros });
  assertRefused(pack(w, w), ShapeError, ["[1, 3, 8]", "[D, H, 4 · H]"], w);
  assertRefused(pack(w, r.astype("float32")), DTypeError, ["float32"], w);
  assertRefused(pack(w, r, ones([3], { dtype: "int8" })), ShapeError, ["[3]", "[1, 8]"], w);
  const packed = pack(w, r)(), x = ones([2, 1, 3]);
  const run = (given: Any, scale: Any, attributes: Any) => () =>
    lstmOfBytes("lstm", given, packed, { w: scale, r: ones([1]) }, {}, attributes);
  const lstm = { cell: "lstm" };
  assertEquals(run(x, ones([1]), lstm)().output.layout.shape, [2, 1, 1, 2]);
  assertRefused(run(x, ones([2]), lstm), ShapeError, ["[2]", "[1, 8]"], x);
  assertRefused(run(ones([2, 1, 4]), ones([1]), lstm), ShapeError, ["[2, 1, 4]"], x);
  assertRefused(run(x, ones([1]), { cell: "gru" }), ArgumentError, ["only an LSTM"], x);
  const both = { ...lstm, reversed: [false, true] };
  assertRefused(run(x, ones([1]), both), ArgumentError, ["1 directions"], x);
});
