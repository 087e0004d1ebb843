/**
 * Sets, searching and histograms are those of NumPy (scripts/golden/numerics/sets.py), for every dtype,
 * layout and backend. Counts, indices and values are equal; edges and densities differ by at most 2 ulp
 * of the largest one, densities of float16 by 32.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { type Any, asView, loose } from "../support.ts";
import { site } from "../ops/table/operands.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";

type Listed = (number | string | boolean)[];
type Case = [name: string, dtype: rm.DType, inputs: Listed[], outputs: Listed[], options: Any];

const CASES: Case[] = JSON.parse(
  readFileSync(new URL("../golden/sets/sets.json", import.meta.url), "utf8"),
);

const numbers = (list: Listed): number[] =>
  list.map((x) => typeof x === "string" ? { nan: NaN, inf: Infinity, "-inf": -Infinity }[x]! : +x);

/** A tensor in one of the layouts. */
const LAYOUTS: readonly ((x: rm.AnyTensor) => Any)[] = [
  (x) => x,
  (x) => x.dtype === "bool" ? x : asView(x),
  (x) => loose(x).flip().copy().flip(),
];

function made(dtype: rm.DType, list: Listed): Any {
  const wide = dtype === "int64" || dtype === "uint64";
  const values = numbers(list).map((x) => dtype === "bool" ? x !== 0 : wide ? BigInt(x) : x);
  return rm.tensor(values as number[], {
    dtype,
    shape: [values.length],
    device: site.device,
  } as Any);
}

function plain(x: rm.AnyTensor): number[] {
  return loose(x).toArray().flat(Infinity).map(Number);
}

/** Asserts that numbers are equal, -0 and 0 included, or within `ulps` of the largest. */
function same(x: rm.AnyTensor, list: Listed, what: string, ulps = 0): void {
  const [actual, expected] = [plain(x), numbers(list)];
  if (ulps === 0) {
    const [a, b] = [actual, expected].map((list) => list.map((v) => v + 0)) as [number[], number[]];
    // assertEquals takes many times as long.
    const isSame = a.length === b.length && a.every((v, i) => Object.is(v, b[i]));
    return isSame ? undefined : assertEquals(a, b, what);
  }
  const { eps } = rm.finfo(x.dtype as "float32") as Any;
  assertEquals(actual.length, expected.length, what);
  const most = ulps * eps * Math.max(...expected.map(Math.abs));
  actual.forEach((v, i) => {
    assert(Math.abs(v - expected[i]!) <= most, `${what}: ${v} is not ${expected[i]}`);
  });
}

/** How each case is called, and what is compared. */
const CALLS: Record<string, (given: Any[], options: Any, out: Listed[], what: string) => void> = {
  unique([x], _, [values, indices, inverse, counts], what) {
    const all = rm.uniqueAll(x);
    same(all.values, values!, what);
    same(all.indices, indices!, what);
    same(all.inverseIndices, inverse!, what);
    same(all.counts, counts!, what);
    same(rm.uniqueValues(x), values!, what);
    same(rm.uniqueCounts(x).counts, counts!, what);
    same(rm.uniqueInverse(x).inverseIndices, inverse!, what);
  },
  isin([x, y], _, [out], what) {
    same(rm.isin(x, y), out!, what);
    same(rm.isin(x, y, { invert: true }).logicalNot(), out!, what);
  },
  searchsorted([x, y], { side, sorted }, [out], what) {
    const sorter = sorted === false ? { sorter: x.argsort() } : {};
    same(rm.searchsorted(x, y, { side, ...sorter }), out!, what);
  },
  digitize: ([x, edges], { right }, [out], what) =>
    same(rm.digitize(x, edges, { right }), out!, what),
  bincount([x, w], options, [counts, sums], what) {
    same(rm.bincount(x, options), counts!, what);
    same(rm.bincount(x, { ...options, weights: w }), sums!, what);
  },
  histogram([x, weights], { bins, range: span }, [counts, edges, sums, density], what) {
    const range = span === null ? {} : { range: span };
    const plainly = rm.histogram(x, bins, range);
    same(plainly.counts, counts!, what);
    same(plainly.edges, edges!, what, 2);
    same(rm.histogramBinEdges(x, bins, range), edges!, what, 2);
    same(rm.histogram(x, bins, { ...range, weights }).counts, sums!, what);
    // NumPy subtracts edges of float16 in float16.
    const ulps = x.dtype === "float16" ? 32 : 2;
    same(rm.histogram(x, bins, { ...range, density: true }).counts, density!, what, ulps);
  },
  histogram2d([x, y, weights], _, [counts, xEdges, yEdges, sums, density], what) {
    const bins = [3, 4] as const;
    const all = rm.histogram2d(x, y, bins);
    same(all.counts, counts!, what);
    same(all.xEdges, xEdges!, what, 2);
    same(all.yEdges, yEdges!, what, 2);
    same(rm.histogram2d(x, y, bins, { weights }).counts, sums!, what);
    // Edges of float32 and float16 are rounded before.
    if (x.dtype === "float64") {
      same(rm.histogram2d(x, y, bins, { density: true }).counts, density!, what, 4);
    }
  },
};
for (const name of ["union", "intersect", "setdiff", "setxor"] as const) {
  CALLS[name] = ([x, y], _, [out], what) => same(rm[name](x, y), out!, what);
}

/** The inputs that are weights: float64. */
const WEIGHTS: Record<string, number> = { bincount: 1, histogram: 1, histogram2d: 2 };

for (const target of BACKENDS) {
  for (const name of Object.keys(CALLS)) {
    test(`${name} is that of NumPy (${target.name})`, () => {
      using(target.on, () => {
        for (const [call, dtype, inputs, outputs, options] of CASES) {
          if (call !== name) continue;
          LAYOUTS.forEach((layout, k) => {
            const given = inputs.map((list, i) =>
              layout(made(i === WEIGHTS[name] ? "float64" : dtype, list))
            );
            const what = `${name} of ${dtype} [${inputs[0]}] in layout ${k}, ${
              JSON.stringify(options)
            }`;
            CALLS[name]!(given, options, outputs, what);
          });
        }
      });
    });
  }
}
