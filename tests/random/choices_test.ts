/**
 * Categorical draws, choices, shuffles and multivariate normal vectors. Statistical limits are those
 * of chi-square tests with an error probability of 1e-6 (30.66 for 3 degrees of freedom).
 *
 * @module
 */
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { ArgumentError, AxisError, DTypeError, random, ShapeError, tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { loose } from "../support.ts";

const any = loose(random);
const key = random.key(77);

/** Fails unless places appear by their probabilities. */
function assertShares(places: ArrayLike<number>, probabilities: readonly number[]): void {
  const counts = probabilities.map(() => 0);
  for (let i = 0; i < places.length; i++) counts[places[i]!]!++;
  let statistic = 0;
  probabilities.forEach((p, k) => {
    if (p === 0) return assertEquals(counts[k], 0);
    statistic += (counts[k]! - p * places.length) ** 2 / (p * places.length);
  });
  assert(statistic < 30.66, `chi-square ${statistic}: ${counts}`);
}

const WEIGHTS = [0.1, 0, 0.6, 0.3];

test("random.categorical draws by exp(logits), along any axis", () => {
  const logits = tensor(WEIGHTS, { dtype: "float64" }).log().add(3);
  const draws = random.categorical(key, logits, { shape: [20_000] });
  assertEquals([draws.dtype, draws.shape], ["int32", [20_000]]);
  assertShares(draws.toTypedArray(), WEIGHTS);
  const rows = rm.stack([logits, logits.flip()]);
  const along = random.categorical(key, rows, { shape: [9000] });
  assertEquals(along.shape, [9000, 2]);
  assertShares(along.T.slice(1).toTypedArray(), WEIGHTS.toReversed());
  assertEquals(
    random.categorical(key, rows.T, { axis: 0, shape: [9000] }).toArray(),
    along.toArray(),
  );
  assertEquals(random.categorical(key, rows.astype("float32")).shape, [2]);
  assertEquals(random.categorical(key, rows, { shape: [0] }).shape, [0, 2]);
});

test("random.categorical: every backend and device draws the same", () => {
  const logits = random.normal(key, [50, 20], { dtype: "float64" });
  const draws = BACKENDS.map(({ on }) =>
    using(on, () => {
      const here = logits.to(typeof on === "string" ? on : "cpu");
      return random.categorical(key, here, { shape: [3] }).to("cpu").toArray();
    })
  );
  for (const one of draws) assertEquals(one, draws[0]);
});

test("random.categorical: rows without a distribution are errors", () => {
  const none = -Infinity;
  for (const row of [[none, none], [NaN, 0], [Infinity, 0]]) {
    for (const rows of [[row], [[0, 1], row]]) {
      const place = rows.length - 1;
      assertThrows(
        () => random.categorical(key, tensor(rows)),
        ArgumentError,
        `Cannot categorical: row ${place} of the logits is no distribution`,
      );
    }
  }
  assertThrows(() => any.categorical(key, tensor([1], { dtype: "int32" })), DTypeError);
  assertThrows(() => random.categorical(key, rm.zeros([2, 0])), ShapeError, "one category");
  assertThrows(() => random.categorical(key, rm.scalar(1)), ShapeError, "along an axis");
  assertThrows(() => random.categorical(key, rm.zeros([2]), { axis: 1 as number }), AxisError);
});

test("random.choice with replacement, with and without weights", () => {
  const draws = random.choice(key, 4, [200, 100]);
  assertEquals([draws.dtype, draws.shape], ["int32", [200, 100]]);
  assertShares(draws.toTypedArray(), [0.25, 0.25, 0.25, 0.25]);
  const p = tensor(WEIGHTS).mul(5);
  assertShares(random.choice(key, 4, [20_000], { p }).toTypedArray(), WEIGHTS);
  const p32 = tensor([1, 0, 6, 3], { dtype: "int32" });
  assertShares(random.choice(key, 4, [20_000], { p: p32 }).toTypedArray(), WEIGHTS);
  const x = tensor([[1, 2, 3], [4, 5, 6]]);
  const columns = random.choice(key, x, [2, 2], { axis: 1, p: tensor([0, 0, 1]) });
  assertEquals(columns.toArray() as unknown, [[[3, 3], [3, 3]], [[6, 6], [6, 6]]]);
});

test("random.choice without replacement", () => {
  const all = random.choice(key, 50, [5, 10], { replace: false });
  assertEquals([...all.flatten().sort().toArray()], Array.from({ length: 50 }, (_, i) => i));
  // Few choices are the first ones of many, which are made in another way.
  for (const [n, count] of [[50, 7], [1000, 10], [1000, 62], [70_000, 300]] as const) {
    assertEquals(
      random.choice(key, n, [count], { replace: false }).toArray(),
      random.choice(key, n, [n], { replace: false }).slice(rm.range(0, count)).toArray(),
    );
  }
  assertEquals(random.choice(key, 9, [0], { replace: false }).shape, [0]);
  const firsts: number[] = [], missing: number[] = [];
  const p = tensor(WEIGHTS);
  for (let i = 0; i < 2000; i++) {
    const places = random.choice(random.foldIn(key, i), 4, [3], { replace: false, p }).toArray();
    assertEquals(places.toSorted(), [0, 2, 3]);
    firsts.push(places[0]!);
    const two = random.choice(random.foldIn(key, i), 4, [2], { replace: false }).toArray();
    assertNotEquals(two[0], two[1]);
    missing.push(two[1]!);
  }
  assertShares(firsts, WEIGHTS);
  assertShares(missing, [0.25, 0.25, 0.25, 0.25]);
});

test("random.choice: what cannot be chosen is an error", () => {
  const none = { replace: false };
  assertThrows(() => random.choice(key, 3, [4], none), ArgumentError, "4 of 3 elements");
  assertThrows(() => random.choice(key, 0, [1]), ArgumentError, "from no elements");
  assertEquals(random.choice(key, 0, [0]).shape, [0]);
  const p = tensor([0, 1, 0]);
  assertThrows(() => random.choice(key, 3, [2], { p, ...none }), ArgumentError, "1 have weights");
  assertThrows(() => random.choice(key, 4, [2], { p }), ShapeError, "one for each of 4");
  for (const weights of [[-1, 2], [NaN, 1], [0, 0], [Infinity, 1]]) {
    for (const options of [{}, none]) {
      const make = () => random.choice(key, 2, [1], { p: tensor(weights), ...options });
      assertThrows(make, ArgumentError, "Cannot choice");
    }
  }
  assertThrows(() => any.choice(key, 3, [2], { typo: 1 }), TypeError, "Cannot choice");
});

test("random.shuffle moves slices", () => {
  const x = rm.arange(12).reshape([6, 2]);
  const rows = random.shuffle(key, x);
  assertEquals(rows.toArray(), x.take(random.permutation(key, 6)).toArray());
  assertEquals(random.shuffle(key, x.T, { axis: 1 }).T.toArray(), rows.toArray());
  assertThrows(() => random.shuffle(key, rm.scalar(1)), AxisError);
});

test("random.multivariateNormal has its mean and covariance", () => {
  const mean = tensor([1, -2, 0.5]);
  const covariance = tensor([[2, 1, 0], [1, 2, -0.5], [0, -0.5, 0.25]]);
  const x = random.multivariateNormal(key, [200, 200], mean, covariance, { dtype: "float64" });
  assertEquals(x.shape, [200, 200, 3]);
  const rows = x.reshape([40_000, 3]);
  // Means and covariances of 40,000 vectors are within 6 of their standard deviations.
  assert(rows.mean(0).allclose(mean, { atol: 6 * Math.sqrt(2 / 40_000), rtol: 0 }));
  const centered = rows.sub(mean);
  const found = centered.T.matmul(centered).div(40_000);
  assert(found.allclose(covariance, { atol: 6 * Math.sqrt(8 / 40_000), rtol: 0 }));
  const single = random.multivariateNormal(key, [], mean, covariance);
  assertEquals([single.dtype, single.shape], ["float32", [3]]);
  // A singular covariance: all elements are equal.
  const equal = random.multivariateNormal(key, [50], tensor([0, 0]), rm.ones([2, 2]));
  assertEquals(equal.T.slice(0).toArray(), equal.T.slice(1).toArray());
});

test("random.multivariateNormal refuses what is no covariance", () => {
  const mean = tensor([0, 0]);
  for (const bad of [[[1, 2], [2, 1]], [[1, 0.5], [0, 1]], [[0, 1], [1, 1]], [[NaN, 0], [0, 1]]]) {
    assertThrows(
      () => random.multivariateNormal(key, [2], mean, tensor(bad)),
      ArgumentError,
      "not symmetric and positive semidefinite",
    );
  }
  assertThrows(() => random.multivariateNormal(key, [2], mean, rm.eye(3)), ShapeError);
  assertThrows(() => random.multivariateNormal(key, [2], rm.zeros([1, 2]), rm.eye(2)), ShapeError);
});

test("random: compiled functions draw for the key of each run", () => {
  const draw = (of: random.Key, x: rm.Tensor) => ({
    gamma: random.gamma(of, [4], 2),
    normal: random.truncatedNormal(of, [4]),
    laplace: random.laplace(of, [4]),
    places: random.categorical(of, x, { shape: [6] }),
    chosen: random.choice(of, x, [3]),
    mixed: random.shuffle(of, x),
    vector: random.multivariateNormal(of, [2], rm.zeros([2]), rm.eye(2)),
  });
  const program = compile(draw);
  const x = tensor([0, 1, 2]);
  for (const seed of [1, 2, 3]) {
    const [one, two] = [program(random.key(seed), x), draw(random.key(seed), x)];
    for (const [name, made] of Object.entries(one)) {
      assertEquals(made.toArray(), loose(two)[name].toArray(), name);
    }
  }
  const bad = compile((of: random.Key, rate: rm.Tensor) => random.poisson(of, [2], rate));
  assertEquals(bad(key, tensor([1, 2])).shape, [2]);
  assertThrows(() => bad(key, tensor([1, -2])), ArgumentError, "element 1");
  program.dispose();
  bad.dispose();
});

test("random.choice of few of many: different ones, all alike, the same on every backend", () => {
  for (const [n, count] of [[16, 1], [1000, 60], [100_000, 6000], [2 ** 31, 600]] as const) {
    const places = random.choice(key, n, [count], { replace: false }).toTypedArray();
    assertEquals(new Set(places).size, count);
    assert(places.every((place) => place >= 0 && place < n));
  }
  const firsts: number[] = [], seconds: number[] = [];
  for (let i = 0; i < 4000; i++) {
    const two = random.choice(random.foldIn(key, i), 32, [2], { replace: false }).toArray();
    firsts.push(two[0]! >> 3);
    seconds.push(two[1]! >> 3);
  }
  assertShares(firsts, [0.25, 0.25, 0.25, 0.25]);
  assertShares(seconds, [0.25, 0.25, 0.25, 0.25]);
  const draws = BACKENDS.map(({ on }) =>
    using(on, () => random.choice(key, 5000, [20, 3], { replace: false }).toArray())
  );
  for (const one of draws) assertEquals(one, draws[0]);
  const program = compile((of: random.Key) => random.choice(of, 500, [4], { replace: false }));
  for (const seed of [1, 2]) {
    const of = random.key(seed);
    assertEquals(
      program(of).toArray(),
      random.choice(of, 500, [4], { replace: false }).toArray(),
    );
  }
  program.dispose();
});

test("compiled functions run ops without a kernel in C", () => {
  const draw = (of: random.Key, covariance: rm.Tensor) =>
    random.multivariateNormal(of, [3], rm.zeros([2]), covariance);
  const program = compile(draw);
  const covariance = tensor([[2, 1], [1, 2]]);
  assertEquals(program(key, covariance).toArray(), draw(key, covariance).toArray());
  program.dispose();
});

test("random.multivariateNormal: variances of very different sizes", () => {
  const variances = [1e16, 1, 1e-12];
  for (const dtype of ["float32", "float64"] as const) {
    const covariance = rm.eye(3, { dtype }).mul(tensor(variances, { dtype }));
    const x = random.multivariateNormal(key, [4000], rm.zeros([3]), covariance, {
      dtype: "float64",
    });
    const made = x.var(0).div(tensor(variances, { dtype: "float64" })).toArray() as number[];
    for (const one of made) assert(Math.abs(one - 1) < 0.2, `${made} in ${dtype}`);
  }
  const wrong = tensor([[1e16, 0, 0], [0, 1, 2], [0, 2, 1]], { dtype: "float64" });
  assertThrows(
    () => random.multivariateNormal(key, [1], rm.zeros([3]), wrong),
    ArgumentError,
    "not symmetric and positive semidefinite",
  );
});

test("random.multivariateNormal: a singular matrix that is rounded to float32 or float16", () => {
  const rows = random.normal(random.key(3), [40, 5], { dtype: "float64" });
  const exact = rows.matmul(rows.T);
  for (const dtype of ["float64", "float32", "float16"] as const) {
    const x = random.multivariateNormal(key, [2000], rm.zeros([40]), exact.astype(dtype), {
      dtype: "float64",
    });
    const made = rm.cov(x, { rowVariables: false });
    const scale = exact.diagonal().sqrt();
    const error = made.sub(exact).abs().div(scale.reshape([40, 1])).div(scale).max().item();
    assert(error < 0.2, `${dtype}: ${error}`);
  }
});
