/**
 * Weights of int8 on every backend against a model: their numbers, and products, whose rows are rounded
 * to 8 bits.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { test } from "node:test";
import {
  DisposedError,
  DTypeError,
  info,
  ones,
  quantize,
  random,
  setThreads,
  ShapeError,
  tensor,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { dequantizeInt8 } from "../../src/ops/linear/int8.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { BACKENDS, using } from "./table/backends.ts";

/** Calls `change` for each block of the rows of x, on a copy. */
function inBlocks(x: Any, change: (block: Float32Array) => void): Any {
  const columns = x.shape.at(-1);
  const values: Float32Array = x.cpu().astype("float32").copy().toTypedArray();
  for (let row = 0; row < values.length; row += columns) {
    for (let at = row; at < row + columns; at += 128) {
      change(values.subarray(at, Math.min(at + 128, row + columns)));
    }
  }
  return loose(tensor(values)).reshape(x.shape).to(x.device);
}

/** Blocks of a weight as multiples of 1/127 of their largest elements. */
const roundedWeight = (w: Any): Any =>
  inBlocks(w, (block) => {
    const scale = Math.fround(block.reduce((most, x) => Math.max(most, Math.abs(x)), 0) / 127);
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
    block.forEach((one, i) => block[i] = scale * Math.round(Math.fround(one * inverse)));
  });

/** Blocks of x as multiples of 1/255 of their ranges, from their least elements on. */
const rounded = (x: Any): Any =>
  inBlocks(x, (block) => {
    const least = block.reduce((a, b) => Math.min(a, b));
    const range = block.reduce((a, b) => Math.max(a, b)) / 2 - least / 2;
    const step = Math.fround(range / 127.5);
    const inverse = step === 0 ? 0 : Math.fround(1 / step);
    block.forEach((one, i) =>
      block[i] = least + step * Math.round(Math.fround(Math.fround(one - least) * inverse))
    );
  });

// Tiles of AMX take the last two, of which the last has three and a half blocks.
const SIZES = [
  ...[[1, 1], [3, 5], [16, 4], [17, 33], [33, 1100], [40, 64], [50, 448]],
] as const;

for (const { name, on } of BACKENDS) {
  test(`products by weights of int8 are those of rounded numbers: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const make = (key: number, shape: readonly number[]): Any =>
        loose(random.normal(random.key(key), [...shape])).to(device);
      for (const [columns, depth] of SIZES) {
        const w = make(1, [columns, depth]);
        if (columns > 2) w.set([2], 0);
        const packed = quantize(w, "int8") as Any;
        assertEquals([packed.dtype, packed.device], ["int8", device]);
        assertEquals([...packed.shape], [columns, depth]);
        const numbers = loose(dequantizeInt8(packed.panels, columns, depth));
        assertEquals(numbers.device, device);
        assert(numbers.allclose(roundedWeight(w), { rtol: 1e-6 }), `${columns} × ${depth}`);
        for (const view of [w.T.copy().T, w.astype("float64")]) {
          const same = quantize(view, "int8") as Any;
          assert(loose(dequantizeInt8(same.panels, columns, depth)).equals(numbers));
        }
        for (const rows of [1, 2, 3, 7, 16, 70]) {
          const [x, bias, add] = [
            make(2, [rows, depth]),
            make(3, [columns]),
            make(4, [rows, columns]),
          ];
          for (const cast of rows === 3 ? ["float32", "float16", "float64"] : ["float32"]) {
            const given = [x, bias, add].map((one) => one.astype(cast));
            const options = { activation: "silu", add: given[2] };
            const y = given[0].linear(packed, given[1], options);
            const plain = rounded(given[0].astype("float32"));
            const expected = plain.linear(numbers, given[1].astype("float32"), {
              activation: "silu",
              add: given[2].astype("float32"),
            });
            assertEquals([y.dtype, y.shape], [cast, [rows, columns]]);
            const close = cast === "float16"
              ? { rtol: 2e-3, atol: 2e-3 }
              : { rtol: 1e-4, atol: 1e-4 };
            assert(y.astype("float32").allclose(expected, close), `${columns} × ${depth}, ${rows}`);
          }
          const y = x.linear(packed);
          assert(x.slice("0:1").linear(packed).equals(y.slice("0:1")), "a row depends on others");
          assert(x.T.copy().T.linear(packed).equals(y));
          const out = make(5, [rows, columns]);
          assert(x.linear(packed, undefined, { out }).equals(y) && out.equals(y));
        }
        const batch = make(6, [2, 3, depth]);
        assert(
          batch.linear(packed).reshape([6, columns]).equals(
            batch.reshape([6, depth]).linear(packed),
          ),
        );
      }
      const w = make(1, [4, 8]);
      for (const value of [NaN, Infinity]) {
        const [x, odd] = [make(2, [2, 8]), w.copy()];
        x.set([0, 3], value);
        odd.set([1, 3], value);
        const y = x.linear(quantize(w, "int8"));
        assert(y.slice(1).isfinite().all().item() && !y.slice(0).isfinite().any().item());
        const z = make(2, [2, 8]).linear(quantize(odd, "int8"));
        assert(z.slice(":, 1").isnan().all().item() && z.slice(":, 2:").isfinite().all().item());
      }
      const packed = quantize(w, "int8") as Any;
      assertEquals(make(1, [0, 8]).linear(packed).shape, [0, 4]);
      assertEquals(make(1, [2, 8]).linear(quantize(w.slice("0:0"), "int8")).shape, [2, 0]);
      const none = quantize(w.slice(":, 0:0"), "int8");
      assertEquals(
        make(1, [2, 0]).linear(none, make(3, [4])).equals(
          make(3, [4]).broadcastTo([2, 4]),
        ),
        true,
      );
      assertRefused(() => make(1, [2, 7]).linear(packed), ShapeError, "inner sizes 7 and 8 differ");
      const ids = make(1, [2, 8]).astype("int32");
      assertRefused(() => ids.linear(packed), DTypeError, ["int32", "floats"]);
      assertRefused(() => quantize(w.slice(0), "int8"), ShapeError, "[O, I]");
      assertRefused(() => quantize(ids, "int8"), DTypeError, "floats");
      packed.dispose();
      assertRefused(() => make(1, [2, 8]).linear(packed), DisposedError, "disposed");
    }));
}

for (const { name, on } of BACKENDS) {
  test(`int32 products of int8 matrices are exact: ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (const [m, k, n] of [[1, 1, 1], [3, 7, 5], [70, 33, 17], [5, 1100, 32], [2, 0, 3]]) {
        const make = (key: number, shape: number[]): Any =>
          loose(random.integers(random.key(key), shape, -128, 128)).astype("int8").to(device);
        const [a, b] = [make(1, [m!, k!]), make(2, [k!, n!])];
        if (k! > 1) a.set([0, ":2"], -128), b.set([":2", 0], -128);
        const expected = a.astype("int32").matmul(b.astype("int32"));
        const y = a.matmul(b, { dtype: "int32" });
        assertEquals([y.dtype, y.shape, y.device], ["int32", [m, n], device]);
        assert(y.equals(expected), `${m} × ${k} × ${n}`);
        assert(a.T.copy().T.matmul(b.T.copy().T, { dtype: "int32" }).equals(expected));
        const out = loose(ones([m!, n!], { dtype: "int32", device: device as "cpu" }));
        assert(a.matmul(b, { dtype: "int32", out }).equals(expected) && out.equals(expected));
        const wide = loose(ones([m!, 2 * n!], { dtype: "int32", device: device as "cpu" }));
        a.matmul(b, { dtype: "int32", out: wide.slice(":, ::2") });
        assert(
          wide.slice(":, ::2").equals(expected) && wide.slice(":, 1::2").equal(1).all().item(),
        );
      }
      const [a, b] = [[2, 3], [4, 5]].map((shape) =>
        loose(ones(shape, { dtype: "int8", device: device as "cpu" }))
      );
      assertRefused(() => a.matmul(b, { dtype: "int32" }), ShapeError, "inner sizes 3 and 4");
    }));
}

test("products by weights of int8 are exact where numbers are small integers", () => {
  const w = loose(random.integers(random.key(1), [50, 300], -127, 128))
    .astype("float32");
  const x = loose(random.integers(random.key(2), [9, 300], -127, 129))
    .astype("float32");
  // The scales and steps of all blocks are 1.
  for (const at of [0, 128, 256]) {
    w.set([":", at], 127);
    x.set([":", at], -127);
    x.set([":", at + 1], 128);
  }
  assert(x.linear(quantize(w, "int8")).equals(x.linear(w)));
});

test("rows of one number, of one sign and of huge numbers", () => {
  const w = loose(random.normal(random.key(1), [20, 200]));
  const packed = quantize(w, "int8") as Any;
  const numbers = loose(dequantizeInt8(packed.panels, 20, 200));
  const same = loose(ones([3, 200])).mul(7.25);
  assert(same.linear(packed).allclose(same.linear(numbers), { rtol: 1e-5, atol: 1e-4 }));
  const positive = loose(random.uniform(random.key(2), [3, 200])).add(100);
  assert(positive.linear(packed).allclose(positive.linear(numbers), { rtol: 1e-3, atol: 0.2 }));
  const huge = loose(random.uniform(random.key(3), [1, 200])).sub(0.5).mul(3e38).mul(2);
  const tiny = loose(quantize(w.mul(1e-4), "int8"));
  assert(huge.linear(tiny).isfinite().all().item());
});

test("products by weights of int8 do not depend on threads, and join what comes after", () => {
  const before = info().threads;
  const packed = quantize(loose(random.normal(random.key(1), [500, 96])), "int8") as Any;
  const bias = loose(random.normal(random.key(2), [500]));
  for (const rows of [1, 130]) {
    const x = loose(random.normal(random.key(3), [rows, 96]));
    try {
      const [one, two] = [1, 2].map((threads) => {
        setThreads(threads);
        return x.linear(packed);
      });
      assert(one.equals(two));
    } finally {
      setThreads(before);
    }
    const f = (x: Any): Any =>
      x.linear(packed).add(bias).relu().add(ones([1, 500]).broadcastTo([rows, 500]));
    using program = compile(f);
    assert((program(x) as Any).equals(f(x)));
    const text = String((program as Any).explain()[0]);
    if (info().devices.cpu === "native") assertMatch(text, /1 kernel in 1 call/);
  }
});
