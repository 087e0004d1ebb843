/**
 * Derivatives of random numbers by the parameters of their distributions.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { grad as gradOf } from "../../src/grad/mod.ts";
import { betaSlope, gammaSlope } from "../../src/grad/rules/random.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { loose } from "../support.ts";
import { assertDerivatives, float64, numbers, type T, uniform } from "./differences.ts";

const { random, ...R } = loose({ ...rm });
const [grad, byGamma, byBeta] = [gradOf, gammaSlope, betaSlope].map(loose);
const next = numbers(17);

/** alpha, a number, and the derivative by alpha: by mpmath, with 40 digits. */
const GAMMA: readonly (readonly number[])[] = [
  [0.01, 0.0033333333333333335, 1.721058086666234],
  [0.01, 0.61, 50.61619707388345],
  [0.1, 0.11000000000000001, 2.2770522915267324],
  [0.5, 0.16666666666666666, 0.709357998788376],
  [0.5, 4.742640687119285, 3.382250349505555],
  [1, 1.1, 1.2312734008760942],
  [2.5, 1.0769750529242292, 0.6792627623834696],
  [2.5, 11.986832980505138, 2.1096263058216547],
  [10, 11.0, 1.0660531163565257],
  [100, 91.0, 0.9551761009373942],
  [100, 160.0, 1.2554191648515343],
  [1000, 1100.0, 1.048586678561617],
  [0.1, 1e-08, 1.7996925975414167e-06],
  [0.1, 0.999999, 6.7900809359230045],
  [0.1, 1, 6.790083413327752],
  [0.01, 3, 80.28073918093466],
  [0.5, 30, 5.310732160958596],
  [5, 0.5, 0.26303346197741995],
  [50, 1.5, 0.1087089952566787],
];

/** Both parameters, a number, and the derivative by the first parameter. */
const BETA: readonly (readonly number[])[] = [
  [0.1, 0.1, 0.005, 0.5059146080467571],
  [0.1, 0.1, 0.85, 6.722581382890867],
  [0.5, 0.5, 0.15, 0.7030638084794018],
  [0.5, 0.5, 0.995, 0.013823117368929001],
  [1, 1, 0.475, 0.35360922560006053],
  [1, 1, 0.9999995, 4.999998749588459e-07],
  [2, 3, 0.43000000000000005, 0.13747289897325812],
  [0.2, 5, 0.00038461538461538467, 0.011603064370035736],
  [0.2, 5, 0.1929267940197113, 0.6364628081132985],
  [5, 0.2, 0.28846153846153844, 0.07636075225378866],
  [5, 0.2, 0.9996153846153846, 8.328440623924146e-05],
  [20, 30, 0.38, 0.012266466301569669],
  [100, 2, 0.9998039215686274, 1.9508864832977855e-06],
  [0.05, 2, 0.023170731707317076, 1.3427604757216662],
  [0.05, 2, 0.9999990243902439, 1.022067016038169e-05],
];

for (const { name, on } of BACKENDS) {
  test(`deviates: derivatives are those of the distribution function, ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (const [rows, slope] of [[GAMMA, byGamma], [BETA, byBeta]] as const) {
        const columns = rows[0]!.map((_, k) => float64(rows.map((row) => row[k]!), [rows.length]));
        const made = slope(...columns.slice(0, -1).map((one: T) => one.to(device))).to("cpu");
        made.toArray().forEach((value: number, i: number) => {
          const expected = rows[i]!.at(-1)!;
          assert(Math.abs(value - expected) < 1e-8 * expected, `${rows[i]}: ${value}`);
        });
      }
    }));
}

test("gamma and beta: the derivative by each parameter", () => {
  const key = rm.random.key(4);
  const alpha = uniform([4], next, 0.2, 9), other = uniform([4], next, 0.2, 9);
  const by = uniform([3, 4], next);
  const scaled = (a: T): T => random.gamma(key, [3, 4], a, { dtype: "float64", scale: 2 });
  const x = scaled(alpha).div(2);
  const expected = byGamma(alpha.broadcastTo([3, 4]), x).mul(by).mul(2).sum(0);
  const loss = (a: T): T => scaled(a).mul(by).sum();
  for (const f of [grad(loss), loose(compile)(grad(loss))]) {
    assert(f(alpha).allclose(expected, { rtol: 1e-12 }));
  }
  const [a, b] = grad(([a, b]: T[]) =>
    random.beta(key, [3, 4], a, b, { dtype: "float64" }).mul(by).sum()
  )([alpha, other]);
  const y = random.beta(key, [3, 4], alpha, other, { dtype: "float64" });
  assert(a.allclose(byBeta(alpha, other, y).mul(by).sum(0), { rtol: 1e-12 }));
  const second = byBeta(other, alpha, y.mul(-1).add(1)).mul(by).sum(0).neg();
  assert(b.allclose(second, { rtol: 1e-12 }));
  // One number for all, of any shape and dtype.
  for (const [shape, dtype] of [[[], "float32"], [[1], "float64"], [[1, 1], "float32"]] as const) {
    const one = R.full(shape, 2, { dtype });
    const sum = (a: T): T => random.gamma(key, [3, 4], a).sum();
    const made = grad(sum)(one);
    assertEquals([made.dtype, [...made.shape]], [dtype, [...shape]]);
    const whole = byGamma(float64([2], [1]), random.gamma(key, [3, 4], 2).astype("float64")).sum();
    assert(Math.abs(made.sum().item() - whole.item()) < 1e-4);
  }
});

test("gamma and beta: means of derivatives are derivatives of means", () => {
  const key = rm.random.key(6), count = 4000;
  for (const alpha of [0.05, 0.7, 3, 40]) {
    const mean = (a: T): T => random.gamma(key, [count], a, { dtype: "float64" }).mean();
    const slope = grad(mean)(float64([alpha], [1])).item();
    assert(Math.abs(slope - 1) < 0.1, `${alpha}: ${slope}`);
    // a / (a + b)
    const part = ([a, b]: T[]): T => random.beta(key, [count], a, b, { dtype: "float64" }).mean();
    const both = grad(part)([float64([alpha], [1]), float64([2], [1])]);
    const square = (alpha + 2) ** 2;
    [2 / square, -alpha / square].forEach((expected, i) => {
      const made = both[i].item();
      assert(Math.abs(made - expected) < 0.1 * Math.abs(expected), `${alpha}: ${made}`);
    });
  }
});

test("gamma and beta: second derivatives", () => {
  const x = float64([0.1, 0.9, 1.5, 3, 7], [5]), alpha = float64([0.5, 2, 1.1, 5, 3], [5]);
  assertDerivatives("gamma", (a, x) => byGamma(a, x), [alpha, x]);
  assertDerivatives("beta", (a, b, x) => byBeta(a, b, x), [
    ...[alpha, uniform([5], next, 0.3, 4), uniform([5], next, 0.1, 0.9)],
  ]);
});

test("numbers that are 0 or 1 have finite derivatives", () => {
  const zeros = R.zeros([2], { dtype: "float64" });
  assertEquals(byGamma(float64([1e-3, 2], [2]), zeros).toArray().every(Number.isFinite), true);
  for (const x of [0, 1]) {
    const made = byBeta(
      float64([1e-2, 2], [2]),
      float64([3, 1e-2], [2]),
      R.full([2], x, { dtype: "float64" }),
    );
    assertEquals(made.toArray().every(Number.isFinite), true, `${made}`);
  }
});

test("multivariateNormal: derivatives by mean and covariance are those of differences", () => {
  const key = rm.random.key(2);
  const eye = R.eye(3, { dtype: "float64" });
  assertDerivatives("multivariateNormal", (mean, x) => {
    const covariance = x.matmul(x.T).add(eye);
    return random.multivariateNormal(key, [4], mean, covariance, { dtype: "float64" });
  }, [uniform([3], next), uniform([3, 3], next)]);
});

test("counts have no derivative by their parameters", () => {
  const key = rm.random.key(2), rate = float64([2], [1]);
  for (
    const f of [
      (x: T): T => random.poisson(key, [3], x, { dtype: "float64" }).sum(),
      (x: T): T => random.binomial(key, [3], 9, x.div(4), { dtype: "float64" }).sum(),
    ]
  ) assertThrows(() => grad(f)(rate), rm.DerivativeError, "deviates");
});
