/**
 * Elementwise ops join products whose results have other axes when they are read, where biases and
 * residuals mean the same there, and nowhere else.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { ones, random, tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { amount } from "../support/amount.ts";
import { type Any, loose } from "../support.ts";

const normal = (seed: number, shape: readonly number[]): Any =>
  loose(random.normal(random.key(seed), [...shape]));

test("an activation, a bias and a residual join a product that was reshaped", () => {
  const w = normal(1, [4, 3]), bias = normal(2, [4, 1, 1]), rest = normal(3, [2, 4, 1, 1]);
  const steps: Record<string, (y: Any) => Any> = {
    "linear → relu": (y) => y.relu(),
    "linear → add": (y) => y.add(bias),
    "linear → add → silu → add": (y) => y.add(bias).silu().add(rest),
  };
  for (const [name, step] of Object.entries(steps)) {
    using f = compile((x: Any) => step(x.linear(w).reshape([2, 4, 1, 1])));
    const x = normal(4, [2, 3]);
    f(x);
    assert(f(x).allclose(step(x.linear(w).reshape([2, 4, 1, 1])), { rtol: 1e-5, atol: 1e-6 }));
    assertEquals(f.explain()[0]!.data.improvements.joined, [name]);
  }
});

test("numbers for rows of a product, of as many elements as its columns, are no bias", () => {
  const w = normal(1, [2, 3]), rows = tensor([[10], [20]]), x = loose(ones([2, 3]));
  using f = compile((x: Any) => x.linear(w).reshape([2, 2, 1]).squeeze(-1).add(rows));
  const wanted = x.linear(w).add(rows);
  for (let run = 0; run < 2; run++) assert(f(x).allclose(wanted, { rtol: 1e-5 }));
});

const COUNT = amount(200, 2000);

test(`${COUNT} random chains after reshaped products give what they give without a program`, () => {
  for (let k = 0; k < COUNT; k++) {
    const draws = random.integers(random.key(k), [40], 0, 2 ** 20).toArray().map(Number);
    const draw = <V>(from: readonly V[]): V => from[draws.pop()! % from.length]!;
    const dtype = draw(["float32", "float32", "float16", "float64"] as const);
    const made = (seed: number, shape: readonly number[]): Any =>
      normal(100 * k + seed, shape).astype(dtype);
    const [rows, columns] = [draw([1, 2, 3, 6]), draw([1, 2, 4, 6])], size = rows * columns;
    const shape = draw([
      ...[[size], [size, 1], [1, size], [rows, columns, 1], [rows, 1, columns], [columns, rows]],
      ...[2, 3].flatMap((n) => size % n === 0 ? [[size / n, n], [n, 1, size / n, 1]] : []),
    ]);
    const x = made(1, [rows, 5]), w = made(2, [columns, 5]);
    const b = draw([made(3, [columns]), undefined]);
    const steps = [1, 2, 3].map((step) => {
      const other = shape.slice(draw([0, 0, 1, shape.length])).map((n) => draw([n, n, 1]));
      return [draw(["relu", "silu", "tanh", "add", "add", "mul"]), made(3 + step, other)] as const;
    });
    const run = (x: Any): Any =>
      steps.reduce(
        (y, [name, other]) => /add|mul/.test(name) ? y[name](other) : y[name](),
        x.linear(w, b).reshape(shape),
      );
    using f = compile(run);
    const wanted = run(x), tolerance = dtype === "float16" ? 1e-2 : 1e-5;
    for (let times = 0; times < 2; times++) {
      const y: Any = f(x);
      assertEquals(y.shape, wanted.shape);
      assert(
        y.allclose(wanted, { rtol: tolerance, atol: tolerance }),
        `${k}: ${dtype} ${rows} x ${columns} as ${shape}, ${steps.map(([name]) => name)}`,
      );
    }
  }
});
