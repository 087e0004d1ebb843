/**
 * The distributions of `random`, by chi-square tests against SciPy's probabilities: a correct
 * generator fails one with probability 1e-6, and keys are fixed. Every backend draws the same.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { ArgumentError, DTypeError, random, ShapeError, type Tensor, tensor } from "../../mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { loose } from "../support.ts";

type Case = [name: string, parameters: number[], edges: number[], probabilities: number[]];
const { cases, limits }: { cases: Case[]; limits: Record<string, number> } = JSON.parse(
  readFileSync(new URL("../golden/random/bins.json", import.meta.url), "utf8"),
);

const any = loose(random);
const key = random.key(2024);
const N = 40_000;

/** Draws of a case of the golden data. */
function draw(name: string, parameters: readonly number[], dtype: string, n = N): Tensor {
  const [a, b, c, d] = parameters;
  switch (name) {
    case "exponential":
      return any.exponential(key, [n], { scale: a, dtype });
    case "laplace":
    case "gumbel":
      return any[name](key, [n], { loc: a, scale: b, dtype });
    case "truncatedNormal":
      return any.truncatedNormal(key, [n], { low: a, high: b, mean: c, std: d, dtype });
    default:
      return any[name](key, [n], ...parameters, { dtype });
  }
}

/** Pearson's statistic of values in bins. */
function chiSquare(values: ArrayLike<number>, edges: number[], probabilities: number[]): number {
  const counts = new Array(probabilities.length).fill(0);
  for (let i = 0; i < values.length; i++) {
    let [low, high] = [0, edges.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[i]! <= edges[middle]!) high = middle;
      else low = middle + 1;
    }
    counts[low]++;
  }
  return probabilities.reduce((sum, p, k) => {
    const expected = p * values.length;
    return sum + (counts[k] - expected) ** 2 / expected;
  }, 0);
}

const isCount = (name: string): boolean => name === "poisson" || name === "binomial";

for (const [name, parameters, edges, probabilities] of cases) {
  test(`random.${name} of ${parameters} has its distribution`, () => {
    for (const dtype of isCount(name) ? ["int32"] : ["float32", "float64"]) {
      const x = draw(name, parameters, dtype);
      const values = loose(x).toTypedArray() as Float64Array;
      const statistic = chiSquare(values, edges, probabilities);
      const limit = limits[probabilities.length - 1]!;
      assert(statistic < limit, `${dtype}: chi-square ${statistic}, at most ${limit}`);
    }
  });
}

/** The difference of two numbers in units in the last place of the larger of `a` and `shift`. */
function ulps(a: number, b: number, dtype: string, shift: number): number {
  const [wide, digits] = dtype === "float32" ? [2 ** -23, 2 ** -126] : [2 ** -52, 2 ** -1022];
  return Math.abs(a - b) / Math.max(digits, Math.abs(a) * wide, Math.abs(shift) * wide);
}

// A gamma of a shape below 1, and a beta of one, has the factor exp(log(u) / alpha), which multiplies the error of log(u).
test("random: every backend draws the same numbers, to within 4 units in the last place", () => {
  for (const [name, parameters] of cases) {
    const located = ["laplace", "gumbel", "truncatedNormal"].includes(name);
    for (const dtype of isCount(name) ? ["int32", "float64"] : ["float32", "float64"]) {
      const draws = BACKENDS.filter(({ on }) => typeof on !== "string").map(({ on }) =>
        using(on, () => loose(draw(name, parameters, dtype, 1500)).toTypedArray() as Float64Array)
      );
      for (const other of draws.slice(1)) {
        const differences = Array.from(
          other,
          (x, i) =>
            ulps(
              x,
              draws[0]![i]!,
              dtype,
              located ? Math.abs(parameters[0]!) + Math.abs(parameters[1]!) : 0,
            ),
        );
        const least = Math.min(...parameters);
        const multiplied = ["gamma", "beta"].includes(name) && least < 1;
        const most = isCount(name) ? 0 : multiplied ? 40 / least : name === "beta" ? 12 : 4;
        assert(
          Math.max(...differences) <= most,
          `${name} ${parameters} ${dtype}: ${Math.max(...differences)}`,
        );
      }
    }
  }
});

test("random: an element depends on the key, its parameters and its index only", () => {
  for (const [name, parameters] of cases) {
    const dtype = isCount(name) ? "int32" : "float64";
    const long = loose(draw(name, parameters, dtype, 2000)).toTypedArray() as Float64Array;
    const short = loose(draw(name, parameters, dtype, 77)).toTypedArray() as Float64Array;
    assertEquals([...short], [...long.subarray(0, 77)]);
  }
  const alpha = tensor([0.5, 2, 30], { dtype: "float64" });
  const mixed = random.gamma(key, [3], alpha, { dtype: "float64" }).toArray();
  mixed.forEach((x, i) => {
    assertEquals(x, random.gamma(key, [3], alpha.get(i), { dtype: "float64" }).toArray()[i]);
  });
});

test("random: parameters broadcast, and results have the dtype and the device of the options", () => {
  const n = tensor([[10], [1000]], { dtype: "int32" });
  const p = tensor([0, 0.25, 1]);
  const x = random.binomial(key, [2, 3], n, p, { dtype: "int64" });
  const rows = x.toArray() as unknown as number[][];
  assertEquals(rows.map((row) => [Number(row[0]), Number(row[2])]), [[0, 10], [0, 1000]]);
  assertEquals([x.dtype, x.shape], ["int64", [2, 3]]);
  assertEquals(random.gamma(key, [4], 2, { dtype: "float16" }).dtype, "float16");
  assertEquals(random.gamma(key, [3], 0).toArray(), [0, 0, 0]);
  assertEquals(random.poisson(key, [3], 0).toArray(), [0, 0, 0]);
  assertEquals(random.beta(key, [0, 2], 1, 1).shape, [0, 2]);
  const mirror = loose("mirror");
  const there = random.gamma(key, [50], alphaOn(mirror), { dtype: "float64" });
  assertEquals(String(there.device), "mirror");
  assert(there.to("cpu").allclose(random.gamma(key, [50], 3, { dtype: "float64" })));
  for (const name of ["exponential", "laplace", "gumbel"]) {
    const made = any[name](key, [40], { device: mirror });
    assertEquals(made.device, "mirror");
    assert(made.to("cpu").allclose(any[name](key, [40])), name);
    const half = any[name](key, [40], { dtype: "float16" });
    assertEquals(half.toArray(), any[name](key, [40]).astype("float16").toArray());
  }
});

function alphaOn(device: "cpu"): Tensor<"float32"> {
  return rm.full([1], 3, { device }) as Tensor<"float32">;
}

test("random: parameters out of range are errors, and nothing is drawn", () => {
  for (const alpha of [-1, NaN, Infinity, tensor([1, -1])]) {
    assertThrows(() => any.gamma(key, [2], alpha), ArgumentError, "Cannot make gamma numbers");
  }
  assertThrows(() => random.beta(key, [2], 0, 1), ArgumentError, "beta are finite and above 0");
  assertThrows(() => random.poisson(key, [2], 2e9), ArgumentError, "from 0 to 1e9");
  assertThrows(() => random.binomial(key, [2], 1.5, 0.5), ArgumentError, "n is an integer");
  assertThrows(() => random.binomial(key, [2], 3, tensor([0.5, 2])), ArgumentError, "element 1");
  assertThrows(() => random.gamma(key, [2], tensor([1, 2, 3])), ShapeError, "broadcast");
  assertThrows(() => any.gamma(key, [2], "1"), DTypeError);
  assertThrows(() => any.gamma(key, [2], tensor([true, true])), DTypeError, "bool");
  assertThrows(() => any.gamma(key, [2], 1, { dtype: "int32" }), DTypeError, "gamma of int32");
  assertThrows(() => any.poisson(key, [2], 1, { dtype: "int8" }), DTypeError, "poisson of");
  assertThrows(() => any.gamma(5, [2], 1), ArgumentError, "gamma() needs a key");
  for (const options of [{ scale: -1 }, { scale: NaN }, { loc: Infinity }]) {
    assertThrows(() => any.laplace(key, [2], options), ArgumentError, "laplace numbers of loc");
  }
  for (const options of [{ low: 1, high: 0 }, { low: NaN }, { std: 0 }, { low: 40 }]) {
    assertThrows(() => any.truncatedNormal(key, [2], options), ArgumentError, "truncatedNormal");
  }
  assertThrows(() => any.exponential(key, [2], { loc: 1 }), TypeError, "Cannot exponential");
});

test("random: truncated normals keep within their bounds", () => {
  for (const [low, high] of [[-1, 1], [30, 31], [-Infinity, -20], [2, Infinity], [0, 1e-9]]) {
    for (const dtype of ["float32", "float64", "float16"] as const) {
      const x = random.truncatedNormal(key, [500], { low: low!, high: high!, dtype });
      const values = x.astype("float64").toTypedArray();
      const slack = dtype === "float64" ? 0 : 1e-3 * Math.abs(low!);
      const isInside = (value: number): boolean =>
        value >= low! - slack && value <= high! + 1e-3 && Number.isFinite(value);
      assert(values.every(isInside), `${low} to ${high} in ${dtype}`);
    }
  }
});

test("parameters and keys that have no numbers are refused", () => {
  for (const { on } of BACKENDS) {
    using(on, () => {
      assertThrows(() => random.beta(key, [2], 1e-310, 1e-305), ArgumentError, "at least 1e-300");
      const one = random.beta(key, [64], 1e-310, 1);
      assertEquals(one.max().item(), 0);
    });
  }
  assertThrows(() => random.gamma(key, [1], 1, { scale: 1e39 }), DTypeError, "float32");
  for (const words of [[2 ** 33, 0], [0, -1], [0.5, 0], ["1", 0]]) {
    const wrong = { word0: words[0], word1: words[1] };
    assertThrows(() => any.uniform(wrong, [1]), ArgumentError, "uniform() needs a key");
  }
});
