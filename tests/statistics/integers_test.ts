/**
 * Statistics of integers that float32, or float64, cannot tell apart: differences do not depend on where
 * the numbers are, so the results are those of small ones.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { weights as weightsOf } from "../../src/nn/mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { type Any, loose } from "../support.ts";

const SMALL = [[3, 0, 12, 7, 1], [5, 5, 9, 0, 30]];
const MASK = loose(rm.tensor([[true, false, true, true, true], [false, true, true, false, true]]));
const POSITIONS = [0, 1, 5, 6, 10];

/** What depends on differences only. */
const CALLS: Record<string, (x: Any, at: Any) => Any> = {
  "var": (x) => x.var(1),
  "var as float64": (x) => x.var(null, { correction: 1, dtype: "float64" }),
  "var as float32": (x) => x.var(0, { dtype: "float32", keepDims: true }),
  "var as float16": (x) => x.var(1, { dtype: "float16" }),
  "std": (x) => x.std(),
  "nanvar": (x) => x.nanvar([0, 1], { correction: 1 }),
  "nanstd": (x) => x.nanstd(1),
  "var where": (x) => x.var(1, { where: MASK }),
  "std where": (x) => x.std(0, { where: MASK, keepDims: true }),
  "var where as float64": (x) => x.var(1, { where: MASK, dtype: "float64" }),
  "cov": (x) => rm.cov(x),
  "cov of columns": (x) => rm.cov(x, { rowVariables: false }),
  "cov of one": (x) => rm.cov(x.slice(0)),
  "cov of two": (x) => rm.cov(x.slice(0), { y: x.slice(1) } as never),
  "cov with weights": (x) => rm.cov(x, { weights: rm.tensor([1, 2, 0.5, 1, 3]) }),
  "cov with frequencies": (x) => rm.cov(x, { frequencies: rm.tensor([1, 2, 3, 1, 1]) }),
  "corrcoef": (x) => rm.corrcoef(x),
  "gradient": (x) => rm.gradient(x, { axis: 1 }),
  "gradient of order 2": (x) => rm.gradient(x, { axis: 1, edgeOrder: 2, spacing: 0.5 }),
  "gradient at positions": (x, at) => rm.gradient(x, { axis: 1, edgeOrder: 2, spacing: at }),
  "gradient at positions of order 1": (x, at) => rm.gradient(x, { axis: 1, spacing: at }),
  "trapezoid at positions": (_, at) => rm.trapezoid(rm.tensor([1, 2, 4, 0, 3]), { x: at } as never),
  "softmax": (x) => x.softmax(1),
  "logSoftmax": (x) => x.logSoftmax(0),
  "layerNorm": (x) => x.layerNorm(),
  "layerNorm with weights": (x) =>
    x.layerNorm(-1, { weight: rm.tensor([1, 2, 3, 4, 5]), bias: rm.ones([5]) }),
  "ptp": (x) => rm.ptp(x, 1),
};

/** The smallest and the largest place for numbers up to 30 of each dtype. */
const PLACES = (["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"] as const)
  .flatMap((dtype) => {
    const { min, max } = rm.iinfo(dtype);
    return [BigInt(min), BigInt(max) - 30n].map((base) => [dtype, base] as const);
  });

function near(actual: Any, wanted: Any, what: string): void {
  assertEquals(actual.shape, wanted.shape, what);
  const tolerance = actual.dtype === "float64" ? 1e-12 : actual.dtype === "float16" ? 1e-3 : 1e-6;
  const options = { rtol: tolerance, atol: tolerance };
  const [a, b] = [actual, wanted].map((x) => x.astype("float64"));
  assert(a.allclose(b, options), `${what}: ${actual}, not ${wanted}`);
}

for (const { name, on } of BACKENDS) {
  test(`statistics of integers are those of their differences (${name})`, () => {
    using(on, () =>
      rm.scope(() => {
        for (const [dtype, base] of PLACES) {
          const moved = (values: Any): Any =>
            Array.isArray(values) ? values.map(moved) : base + BigInt(values);
          const large = loose(rm.tensor)(moved(SMALL), { dtype });
          const far = loose(rm.tensor)(moved(POSITIONS), { dtype });
          const at = rm.tensor(POSITIONS, { dtype: "float64" });
          for (const [what, f] of Object.entries(CALLS)) {
            const wanted = f(loose(rm.tensor)(SMALL, { dtype: "float64" }), at);
            const actual = f(large, far);
            const label = `${what} of ${dtype} from ${base}`;
            near(actual, wanted, label);
            if (dtype !== "int32" && dtype !== "uint64") continue;
            const program = compile((x: Any, p: Any) => f(x, p))(large, far) as Any;
            assertEquals(program.dtype, actual.dtype, label);
            near(program, wanted, `${label}, compiled`);
          }
        }
      }));
  });

  test(`sums of integers cancel before they are rounded (${name})`, () => {
    using(on, () =>
      rm.scope(() => {
        const x = rm.tensor([16777217, -16777216], { dtype: "int32" });
        const all = rm.tensor([true, true]);
        assertEquals(x.mean().item(), 0.5);
        assertEquals(x.mean(null, { where: all }).item(), 0.5);
        assertEquals(x.quantile(0.5).item(), 0.5);
        assertEquals(rm.trapezoid(x).item(), 0.5);
        const weights = rm.tensor([1, 1], { dtype: "uint8" });
        assertEquals(rm.average(x, 0, { weights }).item(), 0.5);
        assertEquals(rm.average(rm.stack([x, x]), 1, { weights }).toArray(), [0.5, 0.5]);
      }));
  });
}

test("positions of 64 bits may be further apart than their dtype holds", () => {
  for (const { on } of BACKENDS) {
    using(on, () => {
      const ends = rm.tensor([-(2n ** 63n), 2n ** 63n - 1n]);
      assertEquals(rm.trapezoid(rm.ones([2]), { x: ends }).item(), 2 ** 64);
      assertEquals(rm.trapezoid(rm.ones([2, 1]), { x: ends, axis: 0 }).toArray(), [2 ** 64]);
      const spacing = rm.tensor([-1n, 2n ** 63n - 1n]);
      const values = rm.tensor([-(2n ** 62n), 0n]);
      assertEquals(rm.gradient(values, { spacing, axis: 0 }).toArray(), [0.5, 0.5]);
      assertEquals(rm.gradient(ends, { axis: 0 }).toArray(), [2 ** 64, 2 ** 64]);
      const down = rm.tensor([2n ** 63n + 1n, 1n], { dtype: "uint64" });
      assertEquals(rm.trapezoid(rm.ones([2]), { x: down }).item(), -(2 ** 63));
    });
  }
});

test("layers that normalize take the differences of integers", () => {
  const given = { "n.weight": rm.ones([2]), "n.bias": rm.zeros([2]) };
  const layer = loose(weightsOf(given)).groupNorm("n", 1, 2);
  const x = rm.tensor([[1_700_000_000, 1_700_000_010]], { dtype: "int32" });
  assert(layer(x).allclose(rm.tensor([[-1, 1]])));
});
