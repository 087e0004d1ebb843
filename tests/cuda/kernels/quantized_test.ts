/**
 * Quantized weights on a CUDA device, on the emulator or a real one: the numbers of every format to
 * the bit, and products against sums in double precision, by the blocks and by cuBLAS.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  capture,
  type DType,
  finfo,
  fromBuffer,
  pack,
  random,
  scope,
  tensor,
  zeros,
} from "../../../mod.ts";
import { compile } from "../../../src/compile/mod.ts";
import * as nn from "../../../src/nn/mod.ts";
import { QUANT, type QuantName } from "../../../src/ops/quantized/formats.ts";
import { type Any, loose } from "../../support.ts";
import { openCudaForTests, whyNoCuda } from "../support/device.ts";
import { assertListed, recordKernels } from "../support/kernels.ts";

const reason = whyNoCuda();
const launched = recordKernels();
const FORMATS = Object.keys(QUANT) as QuantName[];
const FLOATS = ["float32", "float16", "bfloat16"] as const;
const ACTIVATIONS = ["relu", "gelu", "silu", "tanh", "sigmoid"] as const;

/** The positions of float16 in a block. */
const HALVES: Readonly<Record<QuantName, readonly number[]>> = {
  q4_0: [0],
  q4_1: [0, 2],
  q5_0: [0],
  q5_1: [0, 2],
  q8_0: [0],
  q4_k: [0, 2],
  q5_k: [0, 2],
  q6_k: [208],
  iq4_nl: [0],
};

/** A weight of random blocks, on the CPU and the device, and its numbers. */
interface Weight {
  readonly here: Any;
  readonly there: Any;
  readonly numbers: Float32Array;
}

/** With `finite`, scales are between 2^-6 and 2^-4 in size; else any float16. */
function weightOf(format: QuantName, shape: [number, number], seed = 1, finite = true): Weight {
  const { size, bytes, decode } = QUANT[format];
  const blocks = shape[0] * shape[1] / size;
  const raw: Uint8Array = loose(random.integers(random.key(seed), [blocks * bytes], 0, 256))
    .astype("uint8").toTypedArray();
  const numbers = new Float32Array(blocks * size);
  for (let block = 0; block < blocks; block++) {
    for (const at of HALVES[format]) {
      const high = block * bytes + at + 1;
      if (finite) raw[high] = raw[high]! & 0x80 | 0x24 + (raw[high]! & 7);
    }
    decode(raw, block * bytes, numbers, block * size);
  }
  const here = loose(fromBuffer)(raw, { dtype: format, shape });
  return { here, there: here.to("cuda"), numbers };
}

const normal = (seed: number, shape: number[], dtype: DType = "float32"): Any =>
  loose(random.normal(random.key(seed), shape)).astype(dtype);

const bitsOf = (numbers: Float32Array): Uint32Array =>
  // All NaN are the same.
  new Uint32Array(Float32Array.from(numbers, (x) => x !== x ? NaN : x).buffer);

function assertSameBits(made: Any, numbers: Float32Array, about: string): void {
  assertEquals([made.dtype, made.device], ["float32", "cuda"], about);
  const found: Float32Array = made.toTypedArray();
  const [is, want] = [bitsOf(found), bitsOf(numbers)];
  const at = is.findIndex((bits, i) => bits !== want[i]);
  assert(
    at < 0 && is.length === want.length,
    `${about}: ${at} is ${found[at]}, not ${numbers[at]}`,
  );
}

/** The names of kernels that `run` asks for. */
function kernelsOf(run: () => void): string[] {
  const before = [...launched];
  launched.clear();
  try {
    run();
    return [...launched];
  } finally {
    for (const name of before) launched.add(name);
  }
}

const numbersOf = (x: Any): Float64Array => x.to("cpu").astype("float64").toTypedArray();

/** x by the numbers of a weight, and the sums of sizes of terms. */
function productOf(x: Any, numbers: Float32Array, depth: number): [Float64Array, Float64Array] {
  const left = numbersOf(x), rows = left.length / depth, columns = numbers.length / depth;
  const [sums, sizes] = [new Float64Array(rows * columns), new Float64Array(rows * columns)];
  for (let i = 0; i < sums.length; i++) {
    const row = Math.floor(i / columns) * depth, column = i % columns * depth;
    for (let k = 0; k < depth; k++) {
      const term = left[row + k]! * numbers[column + k]!;
      sums[i]! += term;
      sizes[i]! += Math.abs(term);
    }
  }
  return [sums, sizes];
}

/** `weights` is the relative error of a weight. */
function assertProduct(
  made: Any,
  x: Any,
  { numbers }: Weight,
  depth: number,
  about: string,
  weights = 0,
): void {
  const [sums, sizes] = productOf(x, numbers, depth);
  const { eps } = finfo(made.dtype), found = numbersOf(made);
  assertEquals(found.length, sums.length, about);
  for (const [i, want] of sums.entries()) {
    const bound = eps / 2 * Math.abs(want) + (2e-6 + weights) * sizes[i]! + 1e-6;
    assert(Math.abs(found[i]! - want) <= bound, `${about}: ${i} is ${found[i]}, not ${want}`);
  }
}

function run(): void {
  openCudaForTests({ apart: true });

  for (const format of FORMATS) {
    const { size } = QUANT[format];

    test(`quantized ${format}: numbers, of whole weights, of rows and of copies`, () => {
      for (const [rows, blocks, finite] of [[1, 1, true], [3, 5, true], [37, 33, false]] as const) {
        const depth = blocks * size;
        const { there, numbers } = weightOf(format, [rows, depth], rows, finite);
        let made: Any;
        const names = kernelsOf(() => made = there.dequantize());
        assertEquals(names, [`dequantize_${format}_f32`]);
        assertEquals(made.shape, [rows, depth]);
        assertSameBits(made, numbers, `${rows} rows of ${blocks} blocks`);
        const all: Any = loose(fromBuffer(numbers.slice(), { shape: [rows, depth] }));
        for (const view of ["1:", "::-2", "0:0"]) {
          const expected = all.slice(view).toTypedArray();
          assertSameBits(there.slice(view).dequantize(), expected, view);
          assertSameBits(there.slice(view).copy().dequantize(), expected, `a copy of ${view}`);
        }
        assertSameBits(there.slice(rows - 1).dequantize(), numbers.slice(-depth), "a row");
        const last: Any = there.slice(0, `${depth - size}:`);
        assertSameBits(last.dequantize(), numbers.slice(depth - size, depth), "a block");
        assertSameBits(there.cpu().to("cuda").dequantize(), numbers, "there and back");
      }
      const { here, there, numbers } = weightOf(format, [9, 2 * size]);
      const rows = (list: number[]): Float32Array =>
        Float32Array.from(
          list.flatMap((row) => [...numbers.subarray(row * 2 * size).subarray(0, 2 * size)]),
        );
      const ids = loose(tensor([[3, 0], [8, 3]], { dtype: "int32" })).to("cuda");
      assertSameBits(there.take(ids).dequantize(), rows([3, 0, 8, 3]), "rows that indices pick");
      const embedded: Any = nn.embedding(ids, there);
      assertEquals(embedded.shape, [2, 2, 2 * size]);
      assertSameBits(embedded, rows([3, 0, 8, 3]), "an embedding");
      assertEquals(there.get(4, 7), here.get(4, 7));
    });

    test(`quantized ${format}: products of few rows, by the blocks`, () => {
      const sizes = size === 32
        ? [[1, 32], [4, 96], [5, 288], [6, 1056], [9, 544]]
        : [[1, 256], [5, 768], [9, 2304], [4, 512]];
      for (const [columns, depth] of sizes as [number, number][]) {
        const weight = weightOf(format, [columns, depth], depth);
        for (const dtype of FLOATS) {
          let first: Any;
          for (const rows of [1, 2, 3, 8, 13]) {
            const about = `${dtype}, ${rows} × ${depth} × ${columns}`;
            const all = normal(depth, [13, depth], dtype), x = all.slice(`:${rows}`);
            let y: Any;
            const names = kernelsOf(() => y = x.to("cuda").linear(weight.there));
            const block = [1, 2, 4, 8].find((count) => count >= Math.min(rows, 8));
            const suffix = { float32: "f32", float16: "f16", bfloat16: "bf16" }[dtype];
            assertEquals(names, [`linear_${format}_${suffix}_${block}`]);
            assertEquals([y.dtype, y.shape], [dtype, [rows, columns]]);
            assertProduct(y, x, weight, depth, about);
            first ??= y;
            assert(y.slice(0).equals(first.slice(0)), `${about}: a row depends on others`);
          }
        }
      }
    });

    test(`quantized ${format}: products of many rows, by cuBLAS`, () => {
      const depth = 3 * size, weight = weightOf(format, [7, depth]);
      const bias = normal(2, [7]), add = normal(3, [17, 7]);
      for (const dtype of FLOATS) {
        const x = normal(1, [17, depth], dtype), { eps } = finfo(dtype);
        const there = x.to("cuda");
        const weights = dtype === "float32" ? 0 : eps / 2;
        assertProduct(there.linear(weight.there), x, weight, depth, dtype, weights);
        const [b, r] = [bias, add].map((one) => one.astype(dtype).to("cuda"));
        const y = there.linear(weight.there, b, { activation: "silu", add: r });
        const parts = there.linear(weight.there).add(b).silu().add(r);
        const scale = parts.abs().max().item();
        assert(y.allclose(parts, { rtol: 4 * eps, atol: 4 * eps * scale }), dtype);
      }
    });
  }

  test("quantized weights that are views, and operands of other layouts and dtypes", () => {
    const depth = 320, weight = weightOf("q5_0", [12, depth]);
    const rowsOf = (from: number, to: number): Weight => (
      { ...weight, numbers: weight.numbers.slice(from * depth, to * depth) }
    );
    const x = normal(1, [3, depth]), there = x.to("cuda");
    assertProduct(there.linear(weight.there.slice("3:8")), x, rowsOf(3, 8), depth, "rows");
    let odd: Any;
    const names = kernelsOf(() => odd = there.linear(weight.there.slice("::2")));
    assert(names.includes("linear_q5_0_f32_4"), names.join());
    assert(odd.allclose(there.linear(weight.there).slice(":, ::2"), { rtol: 1e-5, atol: 1e-3 }));
    const expected = there.linear(weight.there);
    const same = (made: Any, about: string): void => assert(made.equals(expected), about);
    same(normal(1, [3, depth]).T.copy().to("cuda").T.linear(weight.there), "transposed");
    const shifted = zeros([3 * depth + 1], { device: "cuda" }).slice("1:") as Any;
    same(shifted.reshape([3, depth]).set(["..."], there).linear(weight.there), "shifted");
    const out = loose(zeros([4, 12], { device: "cuda" })).slice("1:");
    assert(there.linear(weight.there, undefined, { out }) === out);
    same(out, "into a given output");
    same(there.reshape([3, 1, depth]).linear(weight.there).reshape([3, 12]), "more axes");
    assertEquals(there.slice(0).linear(weight.there).shape, [12]);
    const exact = there.astype("float64").linear(weight.there);
    assertEquals(exact.dtype, "float64");
    assert(exact.astype("float32").allclose(expected, { rtol: 1e-5, atol: 1e-4 }), "float64");
    const half = there.astype("float16"), bias = normal(2, [12]).to("cuda");
    const mixed = half.linear(weight.there, bias);
    assertEquals(mixed.dtype, "float32");
    assert(mixed.equals(half.astype("float32").linear(weight.there, bias)));
    using packed: Any = loose(pack)(weight.there);
    same(there.linear(packed), "packed");
    assertEquals(there.slice("0:0").linear(weight.there).shape, [0, 12]);
    assertEquals(there.linear(weight.there.slice("0:0")).shape, [3, 0]);
  });

  test("quantized products with a bias, activations and residuals", () => {
    const depth = 512, weight = weightOf("q4_k", [10, depth]);
    for (const dtype of FLOATS) {
      const [x, bias, add] = [[3, depth], [10], [3, 10]]
        .map((shape, i) => normal(i, shape, dtype).to("cuda"));
      const { eps } = finfo(dtype);
      const plain = x.astype("float32").linear(weight.there).add(bias.astype("float32"));
      const close = (made: Any, expected: Any, about: string): void => {
        assertEquals(made.dtype, dtype);
        const atol = 2 * eps * plain.abs().max().item();
        assert(made.astype("float32").allclose(expected, { rtol: 2 * eps, atol }), about);
      };
      close(x.linear(weight.there, bias), plain, "bias");
      close(x.linear(weight.there, bias, { add }), plain.add(add.astype("float32")), "residual");
      for (const activation of ACTIVATIONS) {
        const expected = plain[activation]();
        close(x.linear(weight.there, bias, { activation }), expected, activation);
        const both = x.linear(weight.there, bias, { activation, add });
        close(both, expected.add(add.astype("float32")), `${activation}, residual`);
      }
    }
  });

  test("quantized products: values that are not finite stay in their rows and columns", () => {
    const depth = 544, weight = weightOf("q8_0", [9, depth]);
    for (const value of [NaN, Infinity]) {
      const x = normal(1, [4, depth]);
      x.set([2, 543], value);
      const y = x.to("cuda").linear(weight.there).cpu();
      assert(!y.slice(2).isfinite().any().item(), `${value} is lost`);
      assert(y.slice("::3").isfinite().all().item() && y.slice(1).isfinite().all().item());
    }
  });

  test("quantized weights in programs and graphs", () => {
    const weight = weightOf("q6_k", [8, 512]), table = weightOf("q8_0", [20, 512]);
    const ids = loose(tensor([5, 19], { dtype: "int32" })).to("cuda");
    const bias = normal(2, [8]).to("cuda");
    const work = (ids: Any): Any =>
      loose(nn.embedding(ids, table.there)).linear(weight.there, bias, { activation: "gelu" });
    const expected = work(ids);
    using program = compile(work as never);
    assert((program as Any)(ids).allclose(expected, { rtol: 1e-5, atol: 1e-4 }));
    using given = compile(((x: Any, w: Any) => x.linear(w, bias)) as never);
    const x = normal(1, [2, 512]).to("cuda");
    const product = (given as Any)(x, weight.there);
    assert(product.allclose(x.linear(weight.there, bias), { rtol: 1e-5, atol: 1e-4 }));
    const out = loose(zeros([2, 8], { device: "cuda" }));
    const many = loose(zeros([20, 8], { device: "cuda" }));
    using step = capture("cuda", () => {
      scope(() => {
        out.set(["..."], work(ids));
        many.set(["..."], loose(table.there.dequantize()).linear(weight.there));
      });
    });
    step.run();
    assert(out.equals(expected));
    ids.set([0], 7);
    step.run();
    assert(out.equals(work(ids)) && !out.equals(expected));
    assert(many.equals(loose(table.there.dequantize()).linear(weight.there)));
  });

  test("all launched kernels of quantized weights are in the list", () => {
    assertListed(launched, 9 * (3 + 12));
  });
}

if (reason !== undefined) test(`quantized weights on CUDA (${reason})`, { skip: true }, () => {});
else run();
