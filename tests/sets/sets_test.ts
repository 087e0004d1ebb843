/**
 * Sets, searching and histograms of many elements, the kernels in C beside the definitions in
 * JavaScript; `scatterReduce` beside a model; errors.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { JsBackend } from "../../src/backend/js/backend.ts";
import { compile } from "../../src/compile/mod.ts";
import { type Any, assertRefused, asView, loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";

const native = BACKENDS.filter(({ name }) => name.startsWith("native"));
const definition = new JsBackend(true);

/** The arrays of a tensor, or of the tensors in a record or an array. */
function plain(x: Any): ArrayLike<unknown>[] {
  if (x instanceof rm.Tensor) return [loose(x).toTypedArray()];
  return Object.values(x).flatMap(plain);
}

/** Asserts that arrays have equal elements; assertEquals takes many times as long. */
function assertSame(all: ArrayLike<unknown>[], expected: ArrayLike<unknown>[], what: string): void {
  assertEquals(all.map(({ length }) => length), expected.map(({ length }) => length), what);
  for (const [k, one] of all.entries()) {
    const other = expected[k]!;
    for (let i = 0; i < one.length; i++) {
      if (!Object.is(one[i], other[i])) {
        assertEquals(one[i], other[i], `${what}: element ${i} of array ${k}`);
      }
    }
  }
}

const N = 150_000;

/** Calls with many elements: several tables, tasks and blocks. */
const LARGE: Record<string, () => Any> = {
  unique: () => rm.uniqueAll(floats().mul(1000).round()),
  "unique integers": () => rm.uniqueAll(integers(-50, 900, "int64")),
  "unique of a wide range": () => rm.uniqueCounts(integers(-1e9, 1e9, "int32")),
  isin: () => rm.isin(integers(0, 5000, "int32"), integers(0, 10_000, "int32").slice(":300")),
  "isin of a wide range": () => {
    const x = integers(0, 1e9, "int64");
    return rm.isin(x, x.slice("::7"));
  },
  "isin of floats": () => rm.isin(floats(), floats().slice(":5000").mul(1.0)),
  "isin of uint64": () => {
    const x = integers(0, 1e15, "int64").astype("uint64");
    return rm.isin(x, x.slice("::11"), { invert: true });
  },
  searchsorted: () => rm.searchsorted(floats().sort(), floats(), { side: "right" }),
  bincount: () => rm.bincount(integers(0, 30, "int64")),
  "bincount of many": () => rm.bincount(integers(0, 90_000, "int32")),
  "bincount of weights": () =>
    rm.bincount(integers(0, 5000, "int32"), {
      weights: integers(0, 9, "int32"),
    }),
  histogram: () => rm.histogram(floats(), 1000),
  "histogram of few bins": () => rm.histogram(floats(), 7, { range: [-1, 1] }),
  "histogram of edges": () => rm.histogram(floats(), [-2, -0.5, -0.25, 0, 3]),
  histogram2d: () => rm.histogram2d(floats(), floats().neg(), [30, [-1, 0, 2]]),
};

function floats(): Any {
  return rm.random.normal(rm.random.key(1), [N]);
}

function integers(low: number, high: number, dtype: "int32" | "int64"): Any {
  return rm.random.integers(rm.random.key(2), [N], low, high, { dtype } as Any);
}

for (const [name, call] of Object.entries(LARGE)) {
  test(`${name}: many elements in C give what JavaScript gives`, () => {
    const expected = using(definition, () => plain(call()));
    for (const { name: level, on } of native.slice(-1)) {
      assertSame(using(on, () => plain(call())), expected, level);
    }
  });
}

// ---- scatterReduce -----------------------------------------------------------------------------

type Reduction = "sum" | "prod" | "max" | "min" | "mean";
const REDUCTIONS: Reduction[] = ["sum", "prod", "max", "min", "mean"];

/** The model: lists of what falls on each element. */
function model(x: number[], at: number[], values: number[], reduce: Reduction, self: boolean) {
  const all: number[][] = x.map((one) => self ? [one] : []);
  at.forEach((i, k) => all[i < 0 ? i + x.length : i]!.push(values[k]!));
  return all.map((list, i) => {
    if (list.length === 0) return x[i]!;
    const sum = list.reduce((a, b) => a + b, 0);
    return {
      sum,
      prod: list.reduce((a, b) => a * b, 1),
      max: Math.max(...list),
      min: Math.min(...list),
      mean: sum / list.length,
    }[reduce];
  });
}

for (const { name, on } of BACKENDS) {
  test(`scatterReduce is that of a model (${name})`, () => {
    using(on, () => {
      const at = [0, 3, -1, 0, 3, 3];
      const [x, values] = [[2, 1, 4, -1, 8], [1, 2, 4, -2, 4, 1]];
      for (
        const dtype of [
          "int8",
          "int32",
          "int64",
          "uint16",
          "float16",
          "bfloat16",
          "float32",
          "float64",
        ] as const
      ) {
        for (const reduce of REDUCTIONS) {
          if (reduce === "mean" && !dtype.includes("float")) continue;
          for (const includeSelf of [true, false]) {
            for (const view of [(t: Any) => t, asView]) {
              const [a, b] = [x, values].map((list) =>
                view(
                  rm.tensor(
                    dtype === "int64"
                      ? list.map(BigInt)
                      : dtype === "uint16"
                      ? list.map(Math.abs)
                      : list as Any,
                    { dtype } as Any,
                  ),
                )
              );
              const index = view(rm.tensor(at, { dtype: "int32" }));
              const made = rm.scatterReduce(a, index, b, reduce, { includeSelf });
              const [p, q] = [a, b].map((t) => loose(t).toArray().map(Number));
              const expected = rm.tensor(model(p, at, q, reduce, includeSelf), {
                dtype: "float64",
              });
              const what = `${reduce} of ${dtype}, ${includeSelf}`;
              assertEquals(made.dtype, dtype, what);
              const close = made.astype("float64").allclose(expected, { rtol: 0.02 });
              assertEquals(close, true, what);
              if (!["bfloat16", "float16"].includes(dtype)) {
                loose(made).astype("float64").toArray().forEach((v: Any, i: number) =>
                  assertEquals(Math.abs(v - (expected.toArray() as Any)[i]) < 1e-6, true, what)
                );
              }
            }
          }
        }
      }
      const grid = rm.zeros([2, 3]);
      const rows = rm.tensor([[1, 1, 0, 1]], { dtype: "int64" });
      assertEquals(
        rm.scatterReduce(grid, rows, 2, "sum", { axis: 1 }).toArray(),
        [[2, 6, 0], [2, 6, 0]],
      );
      assertEquals(
        rm.scatterReduce(
          rm.zeros([2]),
          rm.tensor([0, 0], { dtype: "int32" }),
          rm.tensor([NaN, 1]),
          "max",
        )
          .toArray(),
        [NaN, 0],
      );
    });
  });
}

test("scatterReduce is a kernel of programs, whose errors are those of a call", () => {
  for (const reduce of REDUCTIONS) {
    const f = compile((x: Any, at: Any, y: Any) =>
      rm.scatterReduce(x.mul(2), at, y, reduce, { axis: 1, includeSelf: false }).add(1)
    );
    const [x, y] = [rm.ones([3, 4]), rm.arange(6).reshape([3, 2]).astype("float32")];
    const at = rm.tensor([[0, -1], [2, 2], [1, 0]], { dtype: "int32" });
    const wanted = rm.scatterReduce(x.mul(2), at, y, reduce, { axis: 1, includeSelf: false });
    assertEquals((f(x, at, y) as Any).toArray(), wanted.add(1).toArray(), reduce);
    const [report] = f.explain();
    if (report!.data.executor === "native") {
      const dispatched = report!.data.ops.filter((op) => op.dispatched !== undefined);
      assertEquals(dispatched, [], String(report));
    }
    const bad = rm.tensor([[0, 4], [0, 0], [0, 0]], { dtype: "int32" });
    assertRefused(() => f(x, bad, y), rm.IndexError, "scatterReduce axis 1", x);
    f.dispose();
  }
});

test("scatterReduce refuses indices out of range and other dtypes", () => {
  const x = rm.zeros([3]);
  const at = rm.tensor([0, 3], { dtype: "int32" });
  assertRefused(() => rm.scatterReduce(x, at, 1, "sum"), rm.IndexError, "scatterReduce axis 0", x);
  assertRefused(
    () => rm.scatterReduce(x, at, rm.ones([2], { dtype: "float64" }), "sum"),
    rm.DTypeError,
    "float64 into float32",
    x,
  );
  assertRefused(() => rm.scatterReduce(x, at, 1, loose("or")), rm.ArgumentError, "it takes sum", x);
});

test("bins may be as narrow as the smallest number", () => {
  const x = rm.tensor([0, 5e-324, 1e-323, 5e-323, 1], { dtype: "float64" });
  for (const on of [...native.map(({ on }) => on), definition]) {
    const counts = using(on, () => rm.histogram(x, 10, { range: [0, 5e-323] }).counts.toArray());
    assertEquals(counts, [1, 1, 1, 0, 0, 0, 0, 0, 0, 1]);
  }
});

test("a flag of any type counts as true or false", () => {
  const x = rm.tensor([1, 2]);
  assertEquals(rm.isin(x, 1, { invert: loose(Symbol()) }).toArray(), [false, true]);
  assertEquals(rm.uniqueValues(x, { equalNan: loose(Symbol()) }).toArray(), [1, 2]);
});

// ---- errors ------------------------------------------------------------------------------------

test("sets, searching and histograms refuse what they cannot do", () => {
  const x = rm.tensor([1, 2, 3]);
  const i = rm.tensor([-1, 2], { dtype: "int32" });
  assertThrows(() => rm.bincount(i), rm.ArgumentError, "Cannot bincount -1");
  assertThrows(() => rm.bincount(x), rm.DTypeError, "Cannot bincount float32");
  assertThrows(() => rm.bincount(i, { minLength: -1 }), rm.ArgumentError, "minLength");
  assertThrows(() => rm.digitize(x, [1, 3, 2]), rm.ArgumentError, "neither rise nor fall");
  assertThrows(() => rm.histogram(x, 0), rm.ArgumentError, "at least 1");
  assertThrows(() => rm.histogram(x, [2, 1]), rm.ArgumentError, "1 follows 2");
  assertThrows(() => rm.histogram(rm.tensor([1, NaN])), rm.ArgumentError, "pass a range");
  assertThrows(() => rm.trace(rm.eye(2), { dtype: loose("x") }), rm.DTypeError, "trace");
  assertThrows(() => rm.canCast(loose(null), "int8"), rm.DTypeError, "canCast");
  assertThrows(() => rm.canCast("int8", "int8", loose(null)), TypeError, "options");
  assertThrows(() => rm.polyfit(x, x, 2 ** 40), rm.ArgumentError, "from 0 to 1000");
  assertThrows(() => rm.histogram(x, 3, { range: [2, 1] }), rm.ArgumentError, "the smaller first");
  const large = [rm.full([9], 3e7), rm.tensor([1e17], { dtype: "float64" })];
  const apart = rm.tensor([-1.5e308, 1.5e308], { dtype: "float64" });
  for (const one of [...large, apart, rm.tensor([0, 5e-324], { dtype: "float64" })] as Any[]) {
    assertThrows(() => rm.histogram(one), rm.ArgumentError, "in 10 bins: the float");
    assertThrows(() => rm.histogram2d(one, one), rm.ArgumentError, "in 10 bins: the float");
  }
  assertThrows(
    () => rm.histogram(x, 3, { weights: rm.ones([2]) }),
    rm.ShapeError,
    "Cannot histogram shape [3] by weights of shape [2]",
  );
  assertThrows(() => rm.histogram2d(x, rm.ones([2])), rm.ShapeError, "two vectors of one size");
  assertThrows(
    () => rm.searchsorted(rm.ones([2, 2]).asDynamic(), x),
    rm.ShapeError,
    "must have 1 axis",
  );
  assertThrows(() => rm.searchsorted(x, x, { side: loose("up") }), rm.ArgumentError, "side");
  assertThrows(() => rm.isin(x, loose("a")), rm.DTypeError);
  const complex = loose(rm).complex?.(x, x);
  if (complex !== undefined) {
    assertThrows(() => rm.uniqueValues(complex), rm.DTypeError, "Cannot uniqueValues complex64");
  }
  const traced = compile((t: Any) => rm.uniqueValues(t));
  assertThrows(() => traced(x), rm.TraceError, "Cannot uniqueValues in a traced function");
});

test("complex numbers are refused where real ones are compared or counted", () => {
  const x = loose(rm.tensor([1, 2])), z = { re: 1, im: 2 };
  const one = rm.tensor([z, z]);
  assertRefused(() => rm.isin(x, loose(z)), rm.DTypeError, "Cannot isin", x);
  assertRefused(() => rm.searchsorted(x, loose(z)), rm.DTypeError, "Cannot searchsorted", x);
  assertRefused(() => rm.digitize(x, loose([z])), rm.DTypeError, "Cannot digitize", x);
  const places = rm.tensor([0, 1], { dtype: "int32" });
  assertRefused(() => rm.histogram(x, 2, { weights: one }), rm.DTypeError, "Cannot histogram", x);
  assertRefused(() => rm.bincount(places, { weights: one }), rm.DTypeError, "Cannot bincount", x);
});

test("scatterReduce counts and sums 16-bit floats without rounding in between", () => {
  const n = 5000;
  const at = rm.zeros([n], { dtype: "int32" });
  for (const dtype of ["float16", "bfloat16"] as const) {
    for (const { on, name } of BACKENDS) {
      using(on, () => {
        const [x, values] = [rm.zeros([2], { dtype }), rm.full([n], 3, { dtype })];
        const here = [x, at, values].map((one) => typeof on === "string" ? one.to(on) : one) as Any;
        const reduce = (by: Reduction): unknown =>
          loose(rm.scatterReduce)(...here, by, { includeSelf: false }).astype("float32").toArray();
        assertEquals(reduce("mean"), [3, 0], `${dtype}, ${name}`);
        const sum = rm.tensor([3 * n], { dtype }).astype("float32").item();
        assertEquals(reduce("sum"), [sum, 0], `${dtype}, ${name}`);
      });
    }
  }
});

test("isin of keys that share one hash, in any number", () => {
  // Multiples of the inverse of the first factor: the upper bits of all products are 0.
  const factor = 0x9e3779b97f4a7c15n;
  let inverse = factor;
  for (let k = 0; k < 6; k++) inverse = BigInt.asUintN(64, inverse * (2n - factor * inverse));
  const n = 40_000;
  const keys = BigInt64Array.from({ length: n }, (_, i) => BigInt(i + 1) * inverse);
  const tests = rm.tensor(keys);
  const x = rm.concat([tests.slice("::3"), rm.tensor(keys.map((v) => v + 1n))]);
  for (const { on } of [...native, { on: definition }]) {
    using(on, () => {
      const made = rm.isin(x, tests);
      assertEquals(made.countNonzero().item(), Math.ceil(n / 3));
      assertEquals(made.slice(`:${Math.ceil(n / 3)}`).all().item(), true);
    });
  }
});

test("counts that int32 cannot hold are refused", () => {
  const x = loose(rm.ones([1], { dtype: "uint8" }).broadcastTo([2 ** 31]));
  const text = "int32 does not count 2147483648 elements";
  for (
    const run of [
      () => x.countNonzero(),
      () => rm.bincount(x),
      () => rm.histogram(x, 2),
      () => rm.histogram2d(x, x, 2),
      () => rm.searchsorted(x, 1),
      () => rm.digitize(rm.ones([1]), x),
    ]
  ) assertThrows(run, rm.ShapeError, text);
});
