/**
 * Convolutions and polynomials against NumPy, and long convolutions against short ones.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import {
  ArgumentError,
  convolve,
  correlate,
  DTypeError,
  polyfit,
  polyval,
  random,
  ShapeError,
  tensor,
  zeros,
} from "../../mod.ts";
import { type Any, loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";

type Convolution = [
  name: "convolve" | "correlate",
  mode: Any,
  n: number,
  m: number,
  dtype: string,
  numbers: number[],
];

const GOLDEN: {
  readonly convolutions: Convolution[];
  readonly values: [p: number[], x: number[], y: number[]][];
  readonly fits: [degree: number, w: Any, x: number[], y: Any, fit: Any][];
} = JSON.parse(readFileSync(new URL("../golden/fft/signal.json", import.meta.url), "utf8"));

const FUNCTIONS: Record<string, Any> = { convolve, correlate };

/** A vector of the golden data. */
function vector(n: number, k: number, m: number, dtype: string): Any {
  const x = Array.from({ length: n }, (_, i) => (k * i + 3) % m - Math.floor(m / 2));
  if (dtype === "bool") return tensor(x.map((one) => one > 0));
  if (dtype.startsWith("complex")) {
    const pairs = x.map((re, i) => ({ re, im: x[n - 1 - i]! }));
    return tensor(pairs as Any, { dtype: dtype as Any });
  }
  const numbers = dtype.startsWith("u") ? x.map(Math.abs) : x;
  return tensor(numbers, { dtype: dtype as Any });
}

const FACTORS: Record<string, [number, number, number, number]> = {
  float64: [5, 9, 4, 7],
  complex128: [5, 9, 4, 7],
  bool: [5, 9, 4, 7],
};

function everywhere(run: (name: string, device: string) => void): void {
  for (const { name, on } of BACKENDS) {
    if (typeof on === "string") run(name, on);
    else using(on, () => run(name, "cpu"));
  }
}

describe("convolve and correlate", () => {
  it("give NumPy's numbers in every dtype and mode", () => {
    everywhere((backend, device) => {
      for (const [name, mode, n, m, dtype, numbers] of GOLDEN.convolutions) {
        const [k, size, l, other] = FACTORS[dtype] ?? [25, 127, 29, 101];
        const a = vector(n, k, size, dtype).to(device), v = vector(m, l, other, dtype).to(device);
        const y = FUNCTIONS[name](a, v, { mode });
        assertEquals(y.dtype, dtype);
        const made = Array.from(y.to("cpu").toTypedArray(), Number);
        assertEquals(made, numbers, `${backend}: ${name} ${mode} ${n} ${m} ${dtype}`);
      }
    });
  });

  it("take smaller floats, other layouts and batches", () => {
    everywhere((backend) => {
      const x = loose(random.normal(random.key(1), [3, 50])), v = loose(tensor([1, -2, 0.5, 3]));
      const all = convolve(x, v) as Any;
      for (let i = 0; i < 3; i++) {
        const row = convolve(x.slice(i), v) as Any;
        assert(row.allclose(all.slice(i), { atol: 1e-6 }), backend);
      }
      const reversed = convolve(x.flip(), v.flip()) as Any;
      assert(reversed.slice(0).flip().allclose(all.slice(2), { atol: 1e-5 }), backend);
      for (const dtype of ["float16", "bfloat16"]) {
        const half = convolve(tensor([1, 2, 3]).astype(dtype as Any), v.astype(dtype)) as Any;
        assertEquals(half.dtype, dtype);
        assertEquals(half.astype("float32").toArray(), [1, 0, -0.5, -2, 7.5, 9]);
      }
      assertEquals(convolve(tensor([1, 2]), tensor([1, 2], { dtype: "int32" })).dtype, "float32");
      const huge = tensor([2n ** 62n, 1n], { dtype: "int64" });
      const powers = convolve(huge, tensor([4n, 1n], { dtype: "int64" })) as Any;
      assertEquals(powers.toArray({ bigint: true }), [0n, 2n ** 62n + 4n, 1n]);
    });
  });

  it("multiply spectra of long operands", () => {
    everywhere((backend) => {
      for (const dtype of ["float64", "float32", "complex128"]) {
        const [a, v] = [random.normal(random.key(1), [2, 400]), random.normal(random.key(2), [193])]
          .map((x) => (x as Any).astype(dtype));
        for (const mode of ["full", "same", "valid"] as const) {
          const long = convolve(a, v, { mode }) as Any;
          const parts = [v.slice("0:100"), v.slice("100:193")];
          const full = loose(zeros([2, 592], { dtype: dtype as Any }));
          parts.forEach((part, i) => {
            const y = convolve(a, part) as Any;
            const at = `${100 * i}:${100 * i + y.shape[1]}`;
            full.slice(":", at).add_(y);
          });
          const [from, to] = { full: [0, 592], same: [96, 496], valid: [192, 400] }[mode];
          const expected = full.slice(":", `${from}:${to}`);
          const atol = dtype === "float32" ? 1e-4 : 1e-12;
          assert(long.allclose(expected, { rtol: 0, atol }), `${backend}: ${dtype} ${mode}`);
        }
      }
    });
  });

  it("cut a long row into tasks", () => {
    everywhere(() => {
      const ones = loose(zeros([20000], { dtype: "int32" })).add(1);
      const y = convolve(ones, tensor([1, 2, 3], { dtype: "int32" }), { mode: "same" }) as Any;
      const made = y.toTypedArray();
      assertEquals([made[0], made[4095], made[4096], made[19999]], [3, 6, 6, 5]);
      assertEquals(y.sum().item(), 6 * 20000 - 4);
    });
  });

  it("write into out, and throw errors that say what is wrong", () => {
    const x = tensor([1, 2, 3]);
    const out = loose(zeros([4]));
    assert(convolve(x, tensor([1, 1]), { out }) as Any === out);
    assertEquals(out.toArray(), [1, 3, 5, 3]);
    assertThrows(() => convolve(x, x, { out }), ShapeError, "Cannot convolve");
    assertThrows(
      () => convolve(x, tensor(1).asDynamic()),
      ShapeError,
      "Cannot convolve shapes [3] and []",
    );
    assertThrows(
      () => correlate(x, zeros([0]).asDynamic()),
      ShapeError,
      "Cannot correlate shapes [3] and [0]",
    );
    assertThrows(() => convolve(x, zeros([1, 2]).asDynamic()), ShapeError, "a vector");
    assertThrows(() => convolve(x, x, { mode: "some" as Any }), ArgumentError, "mode");
    assertThrows(
      () => convolve(tensor([1], { dtype: "uint64" }), tensor([1], { dtype: "int64" }) as Any),
      DTypeError,
    );
  });
});

describe("polyval and polyfit", () => {
  it("give NumPy's values", () => {
    everywhere((_, device) => {
      for (const [p, x, y] of GOLDEN.values) {
        const at = loose(tensor(x, { dtype: "float64" })).to(device);
        assertEquals((polyval(p, at) as Any).toArray(), y);
        const factors = loose(tensor(p as Any, { dtype: "int32", shape: [p.length] } as Any)).to(
          device,
        );
        const whole = loose(tensor(x, { dtype: "int32" })).to(device);
        const made = polyval(factors, whole) as Any;
        assertEquals([made.dtype, made.toArray()], ["int32", y]);
      }
    });
    const z = polyval(tensor([1, 0, 1]), tensor([{ re: 0, im: 1 }] as Any) as Any) as Any;
    assertEquals(z.toArray(), [{ re: 0, im: 0 }]);
    assertThrows(() => polyval(zeros([1, 2]), tensor([1])), ShapeError, "they are a vector");
    assertThrows(() => polyval([1], tensor([true])), DTypeError, "polyval");
  });

  it("give NumPy's fits", () => {
    for (const [degree, w, x, y, fit] of GOLDEN.fits) {
      const options = w === null ? {} : { w: tensor(w) as Any };
      const wide = { dtype: "float64" } as const;
      const made = polyfit(tensor(x, wide), tensor(y, wide), degree, options) as Any;
      assertEquals(made.dtype, "float64");
      assert(made.allclose(tensor(fit, wide), { atol: 1e-10 }), `degree ${degree}`);
      const single = polyfit(tensor(x), tensor(y), degree, options) as Any;
      assertEquals(single.dtype, "float32");
      assert(single.allclose(tensor(fit), { atol: 1e-5 }), `degree ${degree}`);
    }
    assertThrows(
      () => polyfit(tensor([1, 2]), tensor([1]).asDynamic(), 1),
      ShapeError,
      "Cannot polyfit",
    );
    assertThrows(() => polyfit(tensor([1]), tensor([1]), -1), ArgumentError, "degree");
    assertThrows(() => polyfit(tensor([1]), tensor([1]), 0, { w: tensor([1, 2]) }), ShapeError);
  });
});
