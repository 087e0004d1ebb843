/**
 * Derivatives of layers whose weights are packed or quantized, which are constants: those of the plain
 * numbers of the weight, on all backends; and the memory of programs with them.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { grad, valueAndGrad } from "../../src/grad/mod.ts";
import * as int8 from "../../src/ops/linear/int8.ts";
import { assertNear, everywhere, normal } from "../nn/weights.ts";
import { assertRefused } from "../support.ts";

// Tests pass weights that types would refuse.
// deno-lint-ignore no-explicit-any
type T = any;

/** A loss whose derivative by x is `by` times the weight. */
const lossOf = (weight: T, by: T, { bias, ...options }: T) => (x: T): T =>
  x.linear(weight, bias, options).mul(by).sum();

/** Frozen weights of `plain`, with their numbers. */
function frozenOf(plain: T): [form: string, weight: T, numbers: T][] {
  const { dequantizeInt8 }: T = int8;
  const made: [string, T, T][] = ["float32", "float16", "bfloat16"].map((dtype) => {
    const weight = plain.astype(dtype);
    return [`packed ${dtype}`, rm.pack(weight), weight];
  });
  for (const dtype of ["q8_0", "q4_0"] as const) {
    const rows: T = rm.quantize(plain, dtype);
    made.push([dtype, rows, rows.dequantize()]);
    made.push([`packed ${dtype}`, rm.pack(rows), rows.dequantize()]);
  }
  const groups: T = rm.quantize(plain, "int8");
  made.push(["int8", groups, dequantizeInt8(groups.panels, ...plain.shape)]);
  return made;
}

test("x.linear: the derivative by x is that of the weight's numbers", () => {
  everywhere((at, _, backend) => {
    // The last group of rows is not whole.
    const [x, by] = [at(normal(2, [2, 3, 64])), at(normal(3, [2, 3, 35]))];
    const [bias, add] = [at(normal(4, [35])), at(normal(5, [2, 3, 35]))];
    for (const [form, weight, numbers] of frozenOf(at(normal(1, [35, 64])))) {
      const all = [
        ...[{}, { bias, add }, { bias, activation: "relu" }, { activation: "silu" }],
        { bias, add, activation: "gelu" },
      ];
      for (const options of all) {
        const made: T = grad(lossOf(weight, by, options))(x);
        const expected: T = grad(lossOf(numbers.astype("float32"), by, options))(x);
        const about = `${backend}: ${form} ${Object.keys(options)}`;
        if (!("activation" in options)) assertNear(made, expected, about);
        else {
          // Rows of x are rounded on the way forward: results near 0 may have another sign.
          const off = made.sub(expected).abs().mean().item() / expected.abs().mean().item();
          assert(off < 0.1, `${about}: ${off} off`);
        }
      }
    }
  });
});

test("x.linear with a weight of many rows: it is dequantized in parts", () => {
  const [rows, depth] = [2100, 576];
  const by: T = normal(1, [2, rows]), x: T = normal(2, [2, depth]);
  const weight: T = rm.quantize(normal(3, [rows, depth]), "q4_0");
  const expected = by.matmul(weight.dequantize());
  for (const own of [weight, rm.pack(weight), rm.pack(weight.dequantize())] as T[]) {
    const loss = lossOf(own, by, {});
    assertNear(grad(loss)(x), expected);
    using step = compile((x: T) => grad(loss)(x));
    assertNear(step(x), expected);
  }
  // Second derivatives, and those by a bias.
  const square = (x: T): T => x.linear(weight).square().sum();
  const second: T = grad((x: T): T => (grad(square)(x) as T).mul(x).sum())(x);
  // Rows are rounded, and this is quadratic.
  const twice = x.matmul(weight.dequantize().T).matmul(weight.dequantize()).mul(4);
  assert(second.sub(twice).abs().max().item() < 0.02 * twice.abs().max().item());
});

test("Programs keep no plain numbers of quantized weights", () => {
  const size = 576;
  const layers: T[] = Array.from(
    { length: 4 },
    (_, i) => rm.quantize(normal(i, [size, size]), "q8_0"),
  );
  const bytes = 4 * size * size / 32 * 34;
  const steps: Record<string, (x: T, weight: T) => T> = {
    "tanh": (x, weight) => x.linear(weight).tanh(),
    "gelu": (x, weight) => x.linear(weight, undefined, { activation: "gelu" }),
    "silu and a residual": (x, weight) =>
      x.linear(weight, undefined, { activation: "silu", add: x }),
  };
  const x: T = normal(9, [8, size]);
  for (const [name, layer] of Object.entries(steps)) {
    const loss = (x: T): T => layers.reduce(layer, x).square().mean();
    using step = compile((x: T) => grad(loss)(x));
    assertNear(step(x), grad(loss)(x));
    const [{ data }] = step.explain() as T;
    assertEquals(data.bytes.packed, bytes, name);
    assert(data.bytes.constants < 100, `${name}: ${data.bytes.constants}`);
    // One weight at a time is plain numbers.
    assert(data.bytes.arena < 2 * 4 * size * size, `${name}: ${data.bytes.arena}`);
  }
});

test("Activations after products with weights of blocks have the values that they have alone", () => {
  const weight: T = rm.quantize(normal(1, [40, 64]), "q8_0");
  for (const dtype of ["float32", "float16", "bfloat16"]) {
    const [x, add] = [normal(2, [3, 64]), normal(3, [3, 40])].map((one: T) => one.astype(dtype));
    const f = (x: T): T => x.linear(weight, undefined, { activation: "gelu", add });
    const [, , made]: T = (valueAndGrad as T)((x: T) => [f(x).astype("float32").sum(), f(x)], {
      aux: true,
    })(x);
    assertEquals(made.toArray(), f(x).toArray());
  }
});

test("A packed weight itself has no derivative", () => {
  const x: T = normal(1, [2, 32]);
  assertRefused(
    () => grad((w: T): T => x.linear(rm.pack(w)).sum())(normal(2, [3, 32])),
    ...[rm.DerivativeError, ["pack"]] as const,
  );
});
