/**
 * The programs of the cookbook give what NumPy gives for the same inputs: the golden data is made by
 * bench/suites/cookbook_peer.py.
 *
 * @module
 */
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { random, tensor } from "../../../mod.ts";
import { countWords } from "../tf_idf.ts";
import { readCsv } from "../csv_statistics.ts";
import { decode, encode } from "../one_hot.ts";
import { callPrice, simulatedPrice } from "../option_pricing.ts";
import { classify, train } from "../softmax_regression.ts";
import { PROGRAMS } from "../inputs.ts";

type Result = [shape: number[], values: number[]];
const golden: Record<string, Result[]> = JSON.parse(
  readFileSync(new URL("../../../tests/golden/cookbook/results.json", import.meta.url), "utf8"),
);

/** The largest error, relative to the largest value, by dtype. */
const TOLERANCE = { float32: 2e-5, float64: 1e-9, int32: 0, uint8: 0 };

test("cookbook: every program has golden data", () => {
  assertEquals(Object.keys(PROGRAMS), Object.keys(golden));
});

for (const [name, make] of Object.entries(PROGRAMS)) {
  test(`cookbook: ${name} gives NumPy's results`, () => {
    const run = make(false);
    // A second run finds the inputs unchanged.
    for (const results of [run(), run()]) {
      assertEquals(results.map((x) => [...x.shape]), golden[name]!.map(([shape]) => shape));
      results.forEach((x, k) => {
        const expected = golden[name]![k]![1];
        const scale = Math.max(...expected.map(Math.abs));
        const values = Array.from(x.toTypedArray(), Number);
        values.forEach((value, i) => {
          const error = Math.abs(value - expected[i]!);
          assert(error <= TOLERANCE[x.dtype] * scale, `${value} at ${i}, not ${expected[i]}`);
        });
      });
    }
  });
}

test("cookbook: one-hot rows give their names back", () => {
  const names = ["b", "a", "c", "a"];
  const { categories, rows } = encode(names);
  assertEquals([categories, decode(categories, rows)], [["a", "b", "c"], names]);
});

test("cookbook: words are counted, and columns of CSV have names", () => {
  const { words, counts } = countWords(["To be, or not to be", "Be"]);
  assertEquals([words, counts.toArray() as unknown], [["be", "not", "or", "to"], [[2, 1, 1, 2], [
    1,
    0,
    0,
    0,
  ]]]);
  const { names, rows } = readCsv("x, y\n1,2\n3,4.5\n");
  assertEquals([names, rows.toArray() as unknown], [["x", "y"], [[1, 2], [3, 4.5]]]);
});

test("cookbook: a classifier learns what can be learned", () => {
  const points = random.normal(random.key(1), [200, 2]);
  const labels = points.slice(":", 0).greater(0).astype("int32");
  const model = train(points, labels, 2, 200, 1);
  const right = classify(model, points).equal(labels).astype("float32").mean().item();
  assert(right > 0.95, `${right}`);
});

test("cookbook: the formula and the simulation of an option agree", () => {
  const one = (x: number) => tensor([x], { dtype: "float64" });
  const option = { spot: one(100), strike: one(105), years: one(0.5) };
  const exact = callPrice(option, 0.03, 0.2).get(0);
  // Outcomes have a standard deviation of about 9: 6 of the mean's are 0.17.
  const simulated = simulatedPrice(random.key(3), [100, 105, 0.5], 0.03, 0.2, 100_000);
  assertAlmostEquals(simulated, exact, 0.17);
});
