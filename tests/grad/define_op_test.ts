/**
 * Derivatives of ops that programs define: by an expression, and by a function with `backward`.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { checkpoint, grad as gradOf, vjp as vjpOf } from "../../src/grad/mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { loose } from "../support.ts";
import { assertDerivatives, float64, numbers, type T, uniform } from "./differences.ts";

const [grad, vjp] = [gradOf, vjpOf].map(loose);
const define: T = rm.defineOp;
const next = numbers(11);

/** The square and the cube of a tensor, by a function, with its derivative by other ops. */
const powers: T = define({
  name: "gradPowers",
  infer: ([x]: T) => [x, x],
  run([x]: T, [square, cube]: T) {
    for (let i = 0; i < x.data.length; i++) {
      square.data[i] = x.data[i] ** 2;
      cube.data[i] = x.data[i] ** 3;
    }
  },
  backward: ({ inputs: [x], outputs: [square], gradients: [g, h] }: T) =>
    g.mul(x).mul(2).add(h.mul(square).mul(3)),
});

/** Rows weighted by a vector, plus an integer: two inputs with derivatives of different shapes. */
const weighted: T = define({
  name: "gradWeighted",
  infer: ([x]: T) => ({ shape: [x.shape[0]], dtype: x.dtype }),
  run([x, w, k]: T, [sums]: T, { scale }: T) {
    const n = w.data.length;
    for (let i = 0; i < sums.data.length; i++) {
      for (let j = 0; j < n; j++) sums.data[i] += scale * x.data[i * n + j] * w.data[j];
      sums.data[i] += k.data[0];
    }
  },
  backward: ({ inputs: [x, w], gradients: [g], attributes: { scale } }: T) => [
    g.expandDims(1).mul(w).mul(scale),
    g.matmul(x).mul(scale),
    undefined,
  ],
});
const k = rm.tensor([2], { dtype: "int32" });

test("defineOp: derivatives of functions are those of differences, and second ones too", () => {
  const x = uniform([2, 3], next);
  assertDerivatives("both", (own) => powers(own), [x]);
  assertDerivatives("one of two", (own) => powers(own)[1], [x]);
  assertDerivatives("second", (own) => grad((one: T) => powers(one)[1].sum())(own), [x]);
  const f = (a: T, w: T): T => weighted(a, w, k, { scale: 3 });
  const w = uniform([3], next);
  assertDerivatives("weighted", f, [x, w]);
  assertDerivatives(
    "second of weighted",
    (a, b) => grad(([c, d]: T[]) => f(c, d).square().sum())([a, b]),
    [x, w],
  );
  // A view that is no run of memory, and a constant as the first input.
  assertDerivatives("transposed", (own) => f(own.T, w), [uniform([3, 2], next)]);
  assertDerivatives("by the second", (own) => f(x, own), [w]);
});

/** Of all kinds of functions, conditions and parameters. */
const wave: T = define({
  name: "gradWave",
  expr: "x > y ? amplitude * sin(x * z) : tanh(y) * exp(z) + atan2(x, y + 5)",
  parameters: ["amplitude"],
});
/** Rounds on the way forward only. */
const rounded: T = define({
  name: "gradRounded",
  expr: "round(x * steps) / steps",
  parameters: ["steps"],
  backward: ({ gradients: [g] }: T) => g,
});
/** A derivative that uses operands, result, scalars and parameters. */
const scaled: T = define({
  name: "gradScaled",
  expr: "x * y * s",
  parameters: ["s"],
  backward: ({ inputs: [x, y], outputs: [r], gradients: [g], attributes: { s } }: T) => [
    g.mul(y).mul(s),
    g.mul(r).div(y).add(x.mul(0)),
  ],
});

for (const target of BACKENDS) {
  test(`defineOp: derivatives of expressions, ${target.name}`, () => {
    using(target.on, () => {
      const device = typeof target.on === "string" ? target.on : "cpu";
      const own = (x: T): T => x.to(device);
      const [x, y, z] = [uniform([2, 3], next), uniform([3], next), uniform([2, 1], next)];
      assertDerivatives(
        "wave",
        (...all) => wave(...all.map(own), { amplitude: 2 }).to("cpu"),
        [x, y, z],
      );
      const sums = (a: T): T => rounded(own(a), { steps: 2 }).square().sum().to("cpu");
      assertEquals(grad(sums)(float64([0.6, 1.1], [2])).toArray(), [1, 2]);
      assertDerivatives(
        "scaled",
        (a, b) => scaled(own(a), own(b), { s: 3 }).to("cpu"),
        [x, uniform([3], next, 1, 2)],
      );
      assertDerivatives("by a scalar", (a) => scaled(own(a), 4, { s: 3 }).to("cpu"), [x]);
    });
  });
}

test("defineOp: derivatives in programs and checkpoints are those of single ops", () => {
  const x = uniform([4], next);
  const f = (own: T): T => {
    const [square, cube] = powers(own.mul(2));
    return square.mul(rounded(cube, { steps: 4 })).sum();
  };
  const expected = grad(f)(x).toArray();
  using program: T = compile((own: T) => grad(f)(own));
  assertEquals(program(x).toArray(), expected);
  assertEquals(program(x.mul(1)).toArray(), expected);
  assertEquals(grad(checkpoint(f))(x).toArray(), expected);
  const before = rm.memory().bytes;
  for (let n = 0; n < 20; n++) grad(f)(x).dispose();
  assert(rm.memory().bytes <= before, `${rm.memory().bytes} beside ${before}`);
});

test("defineOp: results of integers, and what backward does not use", () => {
  // The largest element and its index: only the index is kept.
  const largest: T = define({
    name: "gradLargest",
    infer: ([x]: T) => [{ shape: [], dtype: x.dtype }, { shape: [1], dtype: "int32" }],
    run([x]: T, [value, index]: T) {
      index.data[0] = x.data.indexOf(Math.max(...x.data));
      value.data[0] = x.data[index.data[0]];
    },
    backward: ({ outputs: [, index], gradients: [g, none], inputs }: T) => {
      assertEquals([none.dtype, none.toArray(), inputs.length], ["float32", [0], 1]);
      const made = rm.zeros([3], { dtype: g.dtype });
      made.set([index], g);
      return made;
    },
  });
  const y = float64([1, 5, 2], [3]);
  assertEquals(grad((x: T) => largest(x)[0].mul(2))(y).toArray(), [0, 2, 0]);
  // A result is written, and backward does not use it.
  const written: T = define({
    name: "gradWritten",
    expr: "3 * x",
    backward: ({ gradients: [g] }: T) => g.mul(3),
  });
  const f = (x: T): T => {
    const made = written(x);
    made.mul_(2);
    return made.sum();
  };
  assertEquals(grad(f)(y).toArray(), [6, 6, 6]);
});

test("defineOp: wrong derivatives are errors that name the op and the input", () => {
  const x = float64([1, 2], [2]);
  let made = 0;
  const by = (backward: unknown, inputs: readonly T[] = [x]): () => unknown => {
    const op: T = define({
      name: `gradWrong${made++}`,
      infer: ([first]: T) => first,
      run: ([first]: T, [out]: T) => out.data.set(first.data),
      backward,
    });
    return () => grad((own: T) => op(own, ...inputs.slice(1)).sum())(x);
  };
  const n = rm.tensor([1, 2], { dtype: "int32" });
  const cases: [run: () => unknown, error: T, text: string][] = [
    [by(() => rm.ones([3])), rm.DTypeError, "gave float32 for input 0, which is float64"],
    [
      by(({ gradients: [g] }: T) => g.sum()),
      rm.ShapeError,
      "Cannot differentiate gradWrong1: backward() gave shape [] for input 0, which has shape [2]",
    ],
    [by(() => 3), rm.OpError, "gave 3, not a derivative for each of 1 inputs"],
    [by(() => []), rm.OpError, "gave 0, not a derivative for each of 1 inputs"],
    [by(({ gradients: [g] }: T) => [g, g]), rm.OpError, "gave 2, not a derivative for each of 1"],
    [by(() => [[1, 2]]), rm.OpError, "for input 0, not a tensor or undefined"],
    [by(() => null), rm.OpError, "gave null"],
    [
      by(({ gradients: [g] }: T) => void g.mul(2)),
      rm.OpError,
      "Cannot differentiate gradWrong7: backward() gave undefined, not a derivative for each of 1 " +
      "inputs; an array may have undefined",
    ],
    [by(({ gradients: [g] }: T) => [g, g], [x, n]), rm.DTypeError, "input 1, of int32"],
    [by(({ gradients: [g] }: T) => g.sum().item()), rm.OpError, "gave 2,"],
    [by(() => Promise.resolve(x)), rm.OpError, "not a derivative for each of 1 inputs"],
  ];
  for (const [run, error, text] of cases) {
    assertThrows(run, error, text);
    assertEquals(x.toArray(), [1, 2]);
  }
  assertEquals((by(() => [undefined])() as T).toArray(), [0, 0]);
  assertThrows(() => by(3), rm.OpError, "with backward 3: it is a function");
  assertThrows(
    () => define({ name: "gradWrong", expr: "x", backward: {} }),
    rm.OpError,
    "backward",
  );
  assertThrows(
    by(undefined),
    rm.DerivativeError,
    "no derivative is known; pass backward() to defineOp(), or use stopGradient()",
  );
  const narrow: T = define({
    name: "gradNarrow",
    expr: "x * y",
    backward: ({ gradients: [g] }: T) => [g.slice(0), undefined],
  });
  const f = (own: T): T => narrow(own, rm.ones([3, 1], { dtype: "float64" })).sum();
  // Shapes of operands and of results only.
  assertEquals(grad(f)(x).toArray(), [1, 1]);
  assertThrows(
    () =>
      grad((own: T) => narrow(own.expandDims(0), rm.ones([3, 2], { dtype: "float64" })).sum())(x),
    rm.ShapeError,
    "gave shape [2] for input 0, which has shape [1, 2]",
  );
  const overwritten = (own: T): T => {
    const [square] = powers(own);
    square.mul_(2);
    return square.sum();
  };
  assertThrows(() => grad(overwritten)(x), rm.DerivativeError, "Cannot differentiate gradPowers");
  using run: T = vjp((own: T) => powers(own)[0], x);
  assertEquals(run.pullback(float64([1, 10], [2])).toArray(), [2, 40]);
});

test("defineOp: backward cannot write what it gets", () => {
  const x: T = rm.tensor([1, 2]);
  for (const which of ["inputs", "outputs"]) {
    const own: T = loose(rm.defineOp)({
      name: `gradWrites${which}`,
      infer: ([x]: T) => x,
      run: ([x]: T, [out]: T) => out.data.set(x.data),
      backward: (call: T) => call[which][0].add_(1),
    });
    assertThrows(() => loose(grad)((x: T) => own(x).sum())(x), rm.ReadOnlyError, "add_");
    assertEquals(x.toArray(), [1, 2]);
  }
});
