/**
 * Quantized tensors against the Python package of ggml (tests/golden/quantized.json): their numbers,
 * blocks of numbers, and products with them on every backend, what moves them, and what other ops say.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  ArgumentError,
  concat,
  DisposedError,
  DTypeError,
  fromBuffer,
  info,
  memory,
  ones,
  pack,
  quantize,
  random,
  ReadOnlyError,
  scope,
  setThreads,
  ShapeError,
  tensor,
  where,
  zeros,
} from "../../mod.ts";
import type { Shim } from "../../src/backend/ffi/abi.ts";
import { findShim } from "../../src/backend/ffi/load.ts";
import { NativeBackend } from "../../src/backend/native/backend.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { BACKENDS, using } from "./table/backends.ts";

/** Rows of blocks and their numbers; for formats that are made, also numbers and their blocks. */
interface Golden {
  readonly blocks: string;
  readonly numbers: string;
  readonly given?: string;
  readonly made?: string;
}

const { formats }: { formats: Record<string, Golden> } = JSON.parse(
  readFileSync(new URL("../golden/quantized.json", import.meta.url), "utf8"),
);
const bytesOf = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** Four rows of a format, and their numbers. */
function rowsOf(dtype: string, device = "cpu"): [quantized: Any, numbers: Any] {
  const { blocks, numbers } = formats[dtype]!;
  const plain = new Float32Array(bytesOf(numbers).buffer);
  const shape = [4, plain.length / 4];
  const quantized = loose(fromBuffer)(bytesOf(blocks), { dtype, shape }).to(device);
  return [quantized, loose(fromBuffer(plain, { shape })).to(device)];
}

/** x as native kernels round it: to 8 bits, in parts of 32 elements. */
function rounded(x: Any): Any {
  const values: Float32Array = x.toTypedArray();
  for (let at = 0; at < values.length; at += 32) {
    const part = values.subarray(at, at + 32);
    const d = Math.fround(part.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127);
    part.forEach((value, i) => part[i] = Math.fround(d * Math.round(value / d)));
  }
  return loose(fromBuffer(values)).reshape(x.shape);
}

for (const { name, on } of BACKENDS) {
  test(`numbers of quantized tensors are those of ggml, and products are with them: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (const dtype of Object.keys(formats)) {
        const [quantized, numbers] = rowsOf(dtype, device);
        assertEquals([quantized.dtype, quantized.device], [dtype, device]);
        const made = quantized.dequantize();
        assertEquals([made.dtype, made.device, made.shape], ["float32", device, [
          ...numbers.shape,
        ]]);
        assert(made.equals(numbers), dtype);
        assert(quantized.slice("::-2").dequantize().equals(numbers.slice("::-2")), dtype);
        assert(quantized.slice(2).dequantize().equals(numbers.slice(2)), dtype);
        assertEquals(quantized.slice("0:0").dequantize().shape, [0, numbers.shape[1]]);
        const depth = numbers.shape[1];
        const make = (key: number, shape: number[]): Any =>
          loose(random.normal(random.key(key), shape)).to(device);
        const [x, bias, add] = [make(1, [3, depth]), make(2, [4]), make(3, [3, 4])];
        for (const cast of ["float32", "float64", "float16"]) {
          const given = [x, bias, add].map((one) => one.astype(cast));
          const options = { activation: "relu", add: given[2] };
          const y = given[0].linear(quantized, given[1], options);
          const rounds = /^(native|wasm)/.test(name) && cast !== "float64";
          const left = rounds ? rounded(given[0].astype("float32")) : given[0];
          const expected = left.linear(numbers, given[1], options);
          assertEquals([y.dtype, y.shape], [cast, [3, 4]], dtype);
          assert(y.allclose(expected.astype(cast), { rtol: 1e-3, atol: 1e-3 * depth }), dtype);
        }
        assertEquals(make(1, [2, 5, depth]).linear(quantized).shape, [2, 5, 4]);
      }
    }));
}

for (const { name, on } of BACKENDS) {
  if (!name.startsWith("native")) continue;
  test(`native products by quantized weights are those of rows in 8 bits: ${name}`, () =>
    using(on, () => {
      for (const dtype of Object.keys(formats)) {
        const [part, plain] = rowsOf(dtype);
        // More columns and parts than a task and a row of ggml's blocks have.
        const weight = loose(concat)(Array.from({ length: 21 }, () => part));
        const numbers = loose(concat)(Array.from({ length: 21 }, () => plain));
        const depth = numbers.shape[1];
        const large = Math.max(...numbers.abs().sum(1).toArray());
        for (const rows of [1, 2, 4, 5, 16, 67]) {
          const x = loose(random.normal(random.key(rows), [rows, depth]));
          const [bias, add] = [5, 6].map((key) => loose(random.normal(random.key(key), [84])));
          const options = { activation: "silu", add: add.broadcastTo([rows, 84]).copy() };
          const y = x.linear(weight, bias, options);
          const expected = rounded(x).linear(numbers, bias, options);
          assert(
            y.allclose(expected, { rtol: 1e-5, atol: 1e-6 * large }),
            `${dtype}, ${rows} rows`,
          );
          const one = x.slice("0:1").linear(weight, bias, {
            ...options,
            add: options.add.slice("0:1"),
          });
          assert(one.equals(y.slice("0:1")), "a row depends on others");
          const out = loose(random.normal(random.key(1), [rows, 84]));
          assert(x.linear(weight, bias, { ...options, out }).equals(y) && out.equals(y));
        }
        const strided = loose(random.normal(random.key(2), [depth, 3])).T;
        assert(strided.linear(weight).equals(strided.copy().linear(weight)));
        for (const value of [0, NaN, Infinity]) {
          const x = loose(random.normal(random.key(3), [2, depth]));
          x.set([0], value);
          const y = x.linear(weight);
          assert(y.slice(1).isfinite().all().item(), `${value} in another row`);
          if (value === 0) assertEquals(y.slice(0).abs().max().item(), 0);
          else assert(!y.slice(0).isfinite().any().item(), `${dtype}: ${value} is lost`);
        }
      }
    }));
}

/** The formats that are made. */
const MADE = Object.keys(formats).filter((dtype) => formats[dtype]!.made !== undefined);

/** The bytes of a quantized tensor. */
const blocksOf = (q: Any): number[] => [...q.cpu().copy().toTypedArray()];

for (const { name, on } of BACKENDS) {
  test(`blocks of numbers are those of ggml: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      assertEquals(MADE, ["q4_0", "q8_0"]);
      for (const dtype of MADE) {
        const { given, made } = formats[dtype]!;
        const expected = [...bytesOf(made!)];
        const rows = loose(fromBuffer)(new Float32Array(bytesOf(given!).buffer), {
          shape: [8, 64],
        });
        const x = rows.to(device);
        const q = loose(quantize)(x, dtype);
        assertEquals([q.dtype, q.shape, q.device], [dtype, [8, 64], device]);
        assertEquals(blocksOf(q), expected, dtype);
        const size = expected.length / 8;
        const row = (i: number): number[] => expected.slice(i * size, (i + 1) * size);
        const quantized = (view: Any): number[] => blocksOf(loose(quantize)(view, dtype));
        assertEquals(quantized(x.slice("::-3")), [...row(7), ...row(4), ...row(1)]);
        assertEquals(quantized(x.slice(4)), row(4));
        assertEquals(quantized(x.T.copy().T), expected);
        assertEquals(quantized(x.astype("float64")), expected);
        for (const narrow of ["float16", "bfloat16"]) {
          const cast = x.slice("0:5").astype(narrow);
          assertEquals(quantized(cast), quantized(cast.astype("float32")), narrow);
        }
        assertEquals(loose(quantize)(x.slice("0:0"), dtype).shape, [0, 64]);

        const out = loose(zeros)([8, 2, 64], { dtype, device });
        assert(
          loose(quantize)(x, dtype, { out: out.slice(":, 1") }).dequantize().equals(
            q.dequantize(),
          ),
        );
        assert(out.slice(":, 1").dequantize().equals(q.dequantize()));
        assertEquals(out.slice(":, 0").dequantize().abs().max().item(), 0);
        loose(quantize)(x.slice(0), dtype, { out: out.slice(3, 0) });
        assertEquals(blocksOf(out.slice(3, 0)), row(0));
      }
    }));

  test(`halves are rounded away from zero in q8_0: ${name}`, () =>
    using(on, () => {
      // The largest magnitude makes the scale 1.
      const whole = Array.from({ length: 32 }, (_, i) => i === 0 ? 127 : i % 2 === 0 ? -i : i);
      const x = loose(tensor)(whole.map((n, i) => i === 0 ? n : n - Math.sign(n) / 2));
      const q = loose(quantize)(x.to(typeof on === "string" ? on : "cpu"), "q8_0");
      assertEquals(q.dequantize().toArray(), whole);
    }));

  test(`quantized numbers are near, and all NaN beside what is not finite: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (const [dtype, steps, largest] of [["q8_0", 127, 65504 * 127], ["q4_0", 8, 65504 * 8]]) {
        const x = loose(random.normal(random.key(1), [7, 4, 96])).to(device);
        const back = loose(quantize)(x, dtype).dequantize();
        // Half a step, and what float16 adds; q4_0 has one step less on one side of 0.
        const error = x.reshape([7, 4, 3, 32]).abs().max(-1, { keepDims: true })
          .mul((dtype === "q8_0" ? 0.57 : 1.01) / Number(steps));
        const off = back.sub(x).abs().reshape([7, 4, 3, 32]);
        assert(off.lessEqual(error).all().item(), String(dtype));
        for (const value of [NaN, Infinity, -Infinity]) {
          const some = x.copy();
          some.set([2, 1, 40], value);
          const numbers = loose(quantize)(some, dtype).dequantize();
          assert(numbers.slice(2, 1, "32:64").isnan().all().item(), `${dtype}: ${value} is lost`);
          assertEquals(numbers.isnan().countNonzero().item(), 32);
          assert(numbers.slice(2, 1, "64:").equals(back.slice(2, 1, "64:")));
        }
        const edge = loose(tensor)([[largest, 2 * Number(largest), 1e-44, 1e-40]]).to(device);
        const wide = loose(quantize)(edge.T.tile([1, 32]), dtype).dequantize().slice(":, 0");
        assertEquals(wide.toArray(), [largest, Infinity, 0, 0], String(dtype));
      }
    }));
}

test("what cannot be quantized is refused, and changes nothing; scopes free what was", () => {
  const x = loose(ones)([2, 64]);
  const call = loose(quantize);
  assertRefused(() => call(x, "q4_1"), ArgumentError, ['"q4_1"', "q4_0, q8_0 and int8"], x);
  assertRefused(() => call(x), ArgumentError, "undefined", x);
  assertRefused(() => call(x, "toString"), ArgumentError, '"toString"', x);
  assertRefused(() => call([1], "q8_0"), DTypeError, "quantize", x);
  assertRefused(() => call(x.astype("int32"), "q8_0"), DTypeError, ["int32", "floats"], x);
  assertRefused(() => call(call(x, "q8_0"), "q8_0"), DTypeError, ["q8_0", "floats"], x);
  assertRefused(() => call(x.slice(":, 0:48"), "q8_0"), ShapeError, ["[2, 48]", "32"], x);
  assertRefused(() => call(x.slice(0, 0), "q8_0"), ShapeError, ["[]", "32"], x);
  const out = call(x, "q8_0");
  assertRefused(() => call(x, "q4_0", { out }), DTypeError, "into q8_0", out);
  assertRefused(() => call(x, "q8_0", { out: out.slice(0) }), ShapeError, "[64]", out);
  assertRefused(() => call(x, "q8_0", { out: x.copy() }), DTypeError, "into float32", x);
  const both = out.slice(0).broadcastTo([2, 64]);
  assertRefused(() => call(x, "q8_0", { out: both }), ReadOnlyError, "", out);
  assertThrows(() => call(x, "q8_0", { into: out }), TypeError, "into");
  const mirror = loose("mirror");
  const before = memory(mirror).bytes;
  scope(() => {
    for (const dtype of MADE) {
      for (const from of ["float32", "float64", "bfloat16"]) {
        call(x.to(mirror).T.T.astype(from), dtype);
      }
    }
  });
  assertEquals(memory(mirror).bytes, before);
});

test("compiled functions quantize, and write blocks to tensors", () => {
  for (const dtype of MADE) {
    const make = (x: Any): Any => loose(quantize)(x.mul(2), dtype);
    using compiled = compile(make);
    const x = loose(random.normal(random.key(1), [3, 64]));
    const expected = make(x);
    assertEquals(blocksOf(compiled(x)), blocksOf(expected));
    using round = compile((x: Any) => make(x).dequantize().add(1));
    assert((round(x) as Any).equals(expected.dequantize().add(1)));
    using write = compile((x: Any, cache: Any) => {
      cache.set(["1:4"], make(x));
      return x.linear(cache);
    });
    const cache = loose(zeros)([5, 64], { dtype });
    const y = write(x, cache) as Any;
    assert(cache.slice("1:4").dequantize().equals(expected.dequantize()));
    assert(cache.slice("::4").dequantize().equals(loose(zeros)([2, 64])));
    assert(y.equals(x.linear(cache)));
  }
});

for (const { name, on } of BACKENDS) {
  test(`products by packed quantized weights are those by the weights: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (const dtype of Object.keys(formats)) {
        const [part] = rowsOf(dtype, device);
        // Whole groups of 16 rows, a part of one, and a view of every second row.
        const many = loose(concat)(Array.from({ length: 9 }, () => part));
        for (const weight of [part, many.slice(":32"), many.slice("1:"), many.slice("::2")]) {
          const [columns, depth] = weight.shape;
          const packed = loose(pack)(weight);
          assertEquals([packed.dtype, packed.device], [dtype, device]);
          assertEquals([...packed.shape], [columns, depth]);
          const make = (key: number, shape: number[]): Any =>
            loose(random.normal(random.key(key), shape)).to(device);
          for (const cast of ["float32", "float16", "float64"]) {
            const [x, bias, add] = [
              make(1, [2, 3, depth]),
              make(2, [columns]),
              make(3, [6, columns]),
            ]
              .map((one) => one.astype(cast));
            const options = { activation: "gelu", add: add.reshape([2, 3, columns]) };
            const y = x.linear(packed, bias, options);
            assertEquals([y.dtype, y.shape], [cast, [2, 3, columns]]);
            assert(y.equals(x.linear(weight, bias, options)), `${dtype} ${columns} ${cast}`);
          }
          const strided = make(4, [depth, 3]).T;
          assert(strided.linear(packed).equals(strided.copy().linear(weight)));
          const out = make(5, [3, columns]);
          assert(strided.linear(packed, undefined, { out }).equals(out));
          packed.dispose();
          assertRefused(() => strided.linear(packed), DisposedError, "disposed");
        }
      }
      const [q] = rowsOf("q4_k", device);
      assertRefused(() => loose(pack)(q.slice(":, 32:")), DTypeError, "cuts through blocks");
      assertRefused(() => loose(pack)(q.slice(0)), ShapeError, "[O, I]");
      const none = loose(pack)(q.slice("0:0"));
      assertEquals([none.bytes, [...none.shape]], [0, [0, 256]]);
      assertEquals(q.dequantize().linear(none).shape, [4, 0]);
      assertEquals(q.dequantize().slice("0:0").linear(loose(pack)(q)).shape, [0, 4]);
    }));
}

for (const { name, on } of BACKENDS) {
  test(`products of no rows by quantized and packed weights, in any layout: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const there = { device: loose(device) };
      const plain = loose(ones)([4, 256], there);
      const weights = [plain, loose(pack)(plain), loose(pack)(plain.astype("bfloat16"))];
      for (const dtype of Object.keys(formats)) {
        const [weight] = rowsOf(dtype, device);
        weights.push(weight, loose(pack)(weight));
      }
      // Weights of int8 are made on the CPU.
      if (device === "cpu") weights.push(loose(quantize)(plain, "int8"));
      const layouts: ((x: Any) => Any)[] = [
        (x) => x,
        (x) => x.flip(),
        (x) => x.T.copy().T,
        (x) => x.repeat(2, -1).slice("..., ::2"),
        (x) => x.expandDims(0).broadcastTo([2, ...x.shape]),
      ];
      for (const weight of weights) {
        for (const dtype of ["float32", "float16"] as const) {
          for (const layout of layouts) {
            const x = layout(loose(zeros)([0, weight.shape[1]], { ...there, dtype }));
            const add = layout(loose(zeros)([0, 4], { ...there, dtype }));
            const shape = [...x.shape.slice(0, -1), 4];
            const bias = loose(zeros)([8], { ...there, dtype }).slice("::-2");
            const options = { activation: "gelu", add };
            assertEquals(x.linear(weight).shape, shape);
            assertEquals(x.linear(weight, bias, options).shape, shape);
          }
        }
      }
    }));
}

test("products by quantized weights do not depend on the number of threads", () => {
  const before = info().threads;
  for (const dtype of Object.keys(formats)) {
    const [part] = rowsOf(dtype);
    const weight = loose(concat)(Array.from({ length: 130 }, () => part));
    const packed = loose(pack)(weight);
    for (const rows of [1, 3, 130]) {
      const x = loose(random.normal(random.key(rows), [rows, weight.shape[1]]));
      try {
        const [one, two] = [1, 2].map((threads) => {
          setThreads(threads);
          return x.linear(packed);
        });
        assert(one.equals(two), dtype);
        assert(one.equals(x.linear(weight)), dtype);
      } finally {
        setThreads(before);
      }
    }
  }
});

test("rows of quantized tensors are copied, gathered, joined, moved and printed", () => {
  for (const dtype of Object.keys(formats)) {
    const [quantized, numbers] = rowsOf(dtype);
    assert(quantized.copy().dequantize().equals(numbers));
    assert(quantized.take([2, 0]).dequantize().equals(numbers.take([2, 0])));
    const ids = loose(fromBuffer(Int32Array.of(3, 1)));
    assert((nn.embedding(ids, quantized) as Any).equals(numbers.take([3, 1])));
    assert(
      loose(concat)([quantized, quantized]).dequantize().equals(loose(concat)([numbers, numbers])),
    );
    assertEquals(quantized.get(1, 5), numbers.get(1, 5));
    assertEquals(quantized.toArray(), numbers.toArray());
    assert(String(quantized.slice(0, ":2")).endsWith(`shape [2], ${dtype})`));
  }
});

test("compiled functions multiply by quantized weights, given and constant", () => {
  const [weight, numbers] = rowsOf("q4_1");
  const x = loose(random.normal(random.key(1), [2, numbers.shape[1]]));
  const expected = (info().devices.cpu === "native" ? rounded(x) : x).linear(numbers).relu();
  using constant = compile((x: Any) => x.linear(weight).relu());
  assert((constant(x) as Any).allclose(expected, { rtol: 1e-4, atol: 1e-3 }));
  using given = compile((x: Any, w: Any) => x.linear(w).relu());
  assert((given(x, weight) as Any).allclose(expected, { rtol: 1e-4, atol: 1e-3 }));
  const packed = loose(pack)(weight);
  const bias = loose(random.normal(random.key(2), [4])), add = x.linear(weight);
  const rest = (y: Any): Any => y.add(bias).silu().add(add);
  using closed = compile((x: Any) => rest(x.linear(packed)));
  assert((closed(x) as Any).equals(rest(x.linear(weight))));
  const own = weight.copy();
  using folded = compile((x: Any) => rest(x.linear(own)));
  assert((folded(x) as Any).equals(rest(x.linear(weight))));
  for (const program of [closed, folded]) {
    // One product with a group of 16 rows, and no op by dispatch.
    const text = String((program as Any).explain()[0]);
    if (info().devices.cpu === "native") assertMatch(text, /runs +native: 1 kernel in 1 call/);
    assertMatch(text, /linear → add → silu → add\(.* q4_1 \[1, 16, 32\]/);
  }
});

test("all other ops refuse quantized tensors, and name dequantize", () => {
  const [q, numbers] = rowsOf("q4_k");
  const refuse = (run: () => unknown): void => assertRefused(run, DTypeError, "q4_k", q, numbers);
  const named = (run: () => unknown): void => assertRefused(run, DTypeError, "dequantize()", q);
  const unary = [
    "neg",
    "exp",
    "sum",
    "mean",
    "max",
    "argmax",
    "softmax",
    "norm",
    "sort",
    "any",
    "layerNorm",
  ];
  for (const op of unary) named(() => q[op]());
  for (const op of ["add", "mul", "maximum", "equal", "matmul", "less"]) {
    named(() => q[op](numbers));
    named(() => numbers[op](q));
    named(() => q[op](q));
  }
  for (const op of ["add", "div", "atan2", "copysign", "hypot", "logaddexp", "equal", "pow"]) {
    for (const value of [0, 2, 1n, true]) named(() => q[op](value));
  }
  named(() => q.astype("float32"));
  named(() => q.cumulativeSum(0));
  named(() => q.sum(0, { dtype: "float64" }));
  named(() => q.take([1, 0], 1));
  named(() => loose(concat)([q, numbers]));
  refuse(() => loose(where)(q, 1, 2));
  refuse(() => numbers.take([0]).linear(numbers.take([0]), q.slice(0, ":1")));
  assertRefused(() => numbers.dequantize(), DTypeError, ["dequantize float32", "q4_0, q4_1"]);
  assertRefused(() => q.slice(":, :32").dequantize(), DTypeError, "cuts through blocks");
  assertRefused(() => q.T.dequantize(), DTypeError, "cuts through blocks");
  const ids = loose(fromBuffer(Int32Array.of(3, 1))).reshape([1, 2]);
  assertRefused(() => ids.linear(q), DTypeError, ["int32", "q4_k", "floats"]);
  const short = loose(random.normal(random.key(1), [3, 5]));
  assertRefused(() => short.linear(q), ShapeError, "inner sizes 5 and 256 differ");
  assertRefused(() => short.linear(q.slice(0)), ShapeError, "weight: [O, I]");
  const wrong = { dtype: "q8_0", shape: [31] };
  assertRefused(() => loose(fromBuffer)(new Uint8Array(34), wrong), ShapeError, "");
});

const shim = findShim();
const lacks = "reason" in shim;
const why = lacks ? " (skipped: there is no library)" : "";

test(`a library without the kernels leaves them to the definitions${why}`, { skip: lacks }, () => {
  const bare = new NativeBackend({ ...shim as Shim, rm_find_kernel: () => -1 });
  const loops = BACKENDS.find(({ name }) => name === "generated loops")!.on;
  const w = loose(random.normal(random.key(1), [3, 64]));
  const run = (): Any[] => {
    const blocks = loose(quantize(w, "q8_0")), x = loose(ones([2, 64]));
    return [blocks.dequantize(), x.linear(blocks), x.linear(quantize(w, "int8")), w.matmul(w.T)];
  };
  const expected = using(loops, run);
  using(bare, run).forEach((made, i) => assert(made.allclose(expected[i], { atol: 1e-5 }), `${i}`));
});
