/**
 * What training needs of nn: first values of weights, dropout by keys, and batch norms.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { grad } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { assertDerivatives, numbers, type T, uniform } from "../grad/differences.ts";
import { assertRefused, loose } from "../support.ts";

const key = rm.random.key(5);

function assertNear(own: unknown, expected: unknown, tolerance: number): void {
  const difference = Math.abs(Number(own) - Number(expected));
  assert(difference <= tolerance, `${own} beside ${expected}`);
}

test("First values of weights: the deviations of their rules", () => {
  const shape = [80, 40, 3, 3] as const;
  const [inputs, outputs] = [40 * 9, 80 * 9];
  const cases: [x: T, std: number, isUniform: boolean][] = [
    [nn.kaimingUniform(key, shape), Math.sqrt(2 / inputs), true],
    [nn.kaimingNormal(key, shape, { mode: "out" }), Math.sqrt(2 / outputs), false],
    [nn.kaimingUniform(key, shape, { activation: "tanh" }), 5 / 3 / Math.sqrt(inputs), true],
    [
      nn.kaimingNormal(key, shape, { activation: "leakyRelu", slope: 1 }),
      Math.sqrt(1 / inputs),
      false,
    ],
    [nn.xavierUniform(key, shape), Math.sqrt(2 / (inputs + outputs)), true],
    [nn.xavierNormal(key, shape, { gain: 3 }), 3 * Math.sqrt(2 / (inputs + outputs)), false],
  ];
  for (const [x, std, isUniform] of cases) {
    assertNear(x.std().item(), std, std * 0.02);
    assertNear(x.mean().item(), 0, std * 0.02);
    const largest = x.abs().max().item() / std;
    assert(isUniform ? largest <= Math.sqrt(3) + 1e-6 && largest > 1.72 : largest > 3);
  }
  const options = { dtype: "bfloat16", gain: 0.5 } as const;
  const w: rm.Tensor<"bfloat16", [2, 3]> = nn.xavierUniform(key, [2, 3], options);
  assertEquals(w.dtype, "bfloat16");
  assertEquals(
    nn.kaimingNormal(key, [2, 3]).toArray(),
    nn.kaimingNormal(key, [2, 3]).toArray(),
  );
  assertEquals(nn.kaimingUniform(key, [0, 3]).shape, [0, 3]);
  assertEquals(nn.xavierNormal(key, [3, 0]).shape, [3, 0]);
  const { ArgumentError, DTypeError, ShapeError } = rm;
  const N: T = nn;
  assertRefused(() => N.kaimingUniform(key, [3]), ShapeError, ["kaimingUniform", "[3]"]);
  assertRefused(() => N.xavierNormal(key, [3, -1]), ShapeError, ["xavierNormal", "-1"]);
  assertRefused(() => N.kaimingNormal(key, [3, 1], { mode: "both" }), ArgumentError, ["both"]);
  assertRefused(() => N.kaimingNormal(key, [3, 1], { activation: "x" }), ArgumentError, ['"x"']);
  assertRefused(() => N.xavierNormal(key, [3, 1], { gain: -1 }), ArgumentError, ["gain -1"]);
  assertRefused(() => N.xavierNormal(3, [3, 1]), ArgumentError, ["random.key"]);
  assertRefused(() => N.xavierNormal(key, [3, 1], { dtype: "int32" }), DTypeError, ["int32"]);
  assertThrows(() => N.xavierNormal(key, [3, 1], { mode: "in" }), TypeError, "mode");
});

test("Dropout: a key sets a part of the elements to 0, and keeps the mean", () => {
  const x = rm.random.uniform(key, [100, 100], { low: 1, high: 2 });
  for (const p of [0, 0.1, 0.5, 0.9, 1]) {
    const y = nn.dropout(x, { p, key });
    const dropped = y.equal(0);
    assertNear(dropped.mean().item(), p, 0.02);
    const rest = rm.where(dropped, 0, x.mul(p === 1 ? 0 : 1 / (1 - p)));
    assertEquals(y.sub(rest).abs().max().item(), 0);
    assertEquals(nn.dropout(x, { p, key }).sub(y).abs().max().item(), 0);
  }
  assert(
    nn.dropout(x, { key }).sub(nn.dropout(x, { key: rm.random.key(6) })).abs().sum().item() > 1,
  );
  for (const dtype of ["float16", "bfloat16", "float64"] as const) {
    const y = nn.dropout(rm.ones([8], { dtype }), { p: 0.5, key });
    assertEquals(y.dtype, dtype);
    assertEquals(y.toArray(), nn.dropout(rm.ones([8]), { p: 0.5, key }).toArray());
  }
  const infinite = rm.full([64], Infinity);
  assert(!nn.dropout(infinite, { key }).isnan().any().item());
  assertRefused(() => nn.dropout(x, { key: loose(3) }), rm.ArgumentError, [
    "dropout",
    "random.key",
  ]);
  // A program takes the key as an argument.
  using program: T = compile(loose((x: T, key: T) => nn.dropout(x, { key }).sum()));
  for (const own of [key, rm.random.key(9)]) {
    assertNear(program(x, own).item(), nn.dropout(x, { key: own }).sum().item(), 0.01);
  }
  assertEquals(program.programs, 1);
});

test("derivatives of dropout and of batch norms are those of differences", () => {
  const next = numbers(7);
  const [x, w, b] = [uniform([4, 3, 2], next), uniform([3], next), uniform([3], next)];
  assertDerivatives("dropout", (x: T) => nn.dropout(x, { p: 0.4, key }).square(), [x]);
  const all = loose(grad)((x: T) => nn.dropout(x, { p: 1, key }).sum())(x);
  assertEquals(all.abs().max().item(), 0);
  const [mean, variance] = [uniform([3], next), uniform([3], next, 1, 2)];
  const norm = (x: T, weight?: T, bias?: T): T =>
    nn.batchNorm(x, mean, variance, { training: true, weight, bias, momentum: 0.3 });
  // The running statistics have derivatives, too.
  assertDerivatives("batch norm", (x, w, b) => norm(x, w, b), [x, w, b]);
  assertDerivatives("batch norm of vectors", (x) => norm(x).value, [uniform([5, 3], next)]);
});

test("Batch norms in training: the batch's statistics, and new running ones", () => {
  const x = rm.random.normal(key, [8, 3, 5]);
  const before = [rm.full([3], 2), rm.full([3], 4)] as const;
  const made = nn.batchNorm(x, ...before, { training: true, momentum: 0.25 });
  const mean: T = x.mean([0, 2]), variance: T = x.var([0, 2], { correction: 1 });
  assert(loose(made.mean).allclose(loose(mean.mul(0.25).add(1.5)), { rtol: 1e-5 }));
  assert(loose(made.variance).allclose(loose(variance.mul(0.25).add(3)), { rtol: 1e-5 }));
  assert(loose(made.value.mean([0, 2])).allclose(rm.zeros([3]), { atol: 1e-6 }));
  assertEquals(before.map((one) => one.toArray()), [[2, 2, 2], [4, 4, 4]]);
  // Momentum 1 makes the statistics of this batch, by which inference gives nearly the same.
  const { mean: own, variance: square } = nn.batchNorm(x, ...before, {
    training: true,
    momentum: 1,
  });
  const biased = square.mul(39 / 40);
  assert(loose(nn.batchNorm(x, own, biased)).allclose(made.value, { rtol: 1e-4, atol: 1e-5 }));
  const half = nn.batchNorm(x.astype("bfloat16"), ...before, { training: true });
  assertEquals([half.value.dtype, half.mean.dtype], ["bfloat16", "float32"]);
  assertEquals(nn.batchNorm(x, ...before, { training: loose(false) }).value, undefined);
  const batch = (x: T, options: T) => () => loose(nn).batchNorm(x, ...before, options);
  const training = { training: true };
  assertRefused(batch(rm.ones([1, 3]), training), rm.ShapeError, ["batchNorm", "[1, 3]"]);
  assertRefused(batch(x, { ...training, momentum: 2 }), rm.ArgumentError, ["momentum 2"]);
  assertRefused(batch(x, { training: 1 }), rm.ArgumentError, ["training 1"]);
  assertThrows(batch(x, { momentum: 1 }), TypeError, "momentum");
});
