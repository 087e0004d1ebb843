/**
 * Statistics and functions of tensors against NumPy and SciPy, for every dtype and layout, with and
 * without the library.
 *
 * Data: tests/golden/statistics, made by scripts/golden/numerics/statistics.py. Relative to the largest
 * result, errors are at most 1e-14 in float64, 1e-6 in float32, 2 ** -9 in float16 and 2 ** -6 in
 * bfloat16.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { loose } from "../support.ts";

interface Values {
  readonly shape: number[];
  readonly values: (number | string)[];
}

type Case = [call: string, numpy: string, expected: Values];

const golden: {
  readonly inputs: Record<string, Values>;
  readonly floats: Case[];
  readonly integers: Case[];
  readonly plain: Case[];
  readonly canCast: Record<"safe" | "sameKind", Record<rm.DType, rm.DType[]>>;
} = JSON.parse(
  readFileSync(new URL("../golden/statistics/functions.json", import.meta.url), "utf8"),
);

const NAMES = Object.keys(golden.inputs);
const TOLERANCE: Readonly<Record<string, number>> = {
  float64: 1e-14,
  float32: 1e-6,
  float16: 2 ** -9,
  bfloat16: 2 ** -6,
};

const numbers = ({ values }: Values): number[] =>
  values.map((v) => Number(v === "inf" ? Infinity : v === "-inf" ? -Infinity : v));

type Arrange = (x: rm.AnyTensor) => rm.AnyTensor;

/** The same elements in other places. */
const LAYOUTS: Record<string, Arrange> = {
  contiguous: (x) => x,
  transposed: (x) => loose(x).T.copy().T,
  sliced: (x) => {
    const shape = x.shape.map((n) => 2 * n + 1);
    const whole = rm.zeros(shape, { dtype: x.dtype as "float32" });
    const view = loose(whole).slice(...shape.map(() => "1::2"));
    loose(view).set([], x);
    return view;
  },
  reversed: (x) => loose(x).flip().copy().flip(),
};

function input(name: string, dtype: rm.DType): rm.AnyTensor {
  const given = golden.inputs[name]!;
  const isFloat = dtype in TOLERANCE;
  const integers = name === "i" || name === "j";
  const as = name === "m"
    ? "bool"
    : name === "f"
    ? "int32"
    : isFloat === integers
    ? "float32"
    : dtype;
  const values = numbers(given);
  return loose(rm.tensor)(as === "bool" ? values.map(Boolean) : values, { dtype: as })
    .reshape(given.shape);
}

function check(what: string, made: rm.AnyTensor, expected: Values): void {
  assertEquals([...made.shape], expected.shape, what);
  const actual = [...loose(made).astype("float64").toTypedArray()] as number[];
  const wanted = numbers(expected);
  const size = Math.max(1, ...wanted.filter(Number.isFinite).map(Math.abs));
  const tolerance = (TOLERANCE[made.dtype] ?? 0) * size;
  wanted.forEach((e, i) => {
    const a = actual[i]!;
    const fine = Object.is(a, e) || a === e || Math.abs(a - e) <= tolerance;
    assert(fine, `${what}: element ${i} is ${a}, expected ${e}`);
  });
}

/** Runs the call of a case. */
function call(text: string, arrange: Arrange, dtype: rm.DType): rm.AnyTensor {
  const given = NAMES.map((name) => arrange(input(name, dtype)));
  return new Function("rm", ...NAMES, `return ${text}`)(rm, ...given);
}

for (const backend of ["js", "native"] as const) {
  const within = (body: () => void): void => {
    rm.setBackend(backend);
    try {
      rm.scope(body);
    } finally {
      rm.setBackend("native");
    }
  };
  for (const [name, arrange] of Object.entries(LAYOUTS)) {
    test(`functions of ${name} floats give NumPy's results (${backend})`, () => {
      within(() => {
        const dtypes = name === "contiguous"
          ? ["float32", "float64", "float16", "bfloat16"] as const
          : ["float32", "float64"] as const;
        for (const dtype of dtypes) {
          for (const [text, , expected] of golden.floats) {
            check(`${text} of ${dtype}`, call(text, arrange, dtype), expected);
          }
        }
      });
    });
    test(`functions of ${name} integers give NumPy's results (${backend})`, () => {
      within(() => {
        for (const dtype of ["int8", "int16", "int32", "int64"] as const) {
          for (const [text, , expected] of golden.integers) {
            if (dtype === "int8" && text.includes("lcm")) continue;
            check(`${text} of ${dtype}`, call(text, arrange, dtype), expected);
          }
        }
      });
    });
  }
  test(`functions without tensors give NumPy's results (${backend})`, () => {
    within(() => {
      for (const [text, , expected] of golden.plain) {
        check(text, call(text, (x) => x, "float32"), expected);
      }
    });
  });
}

test("canCast follows NumPy", () => {
  for (const casting of ["safe", "sameKind"] as const) {
    const table = golden.canCast[casting];
    for (const from of Object.keys(table) as rm.DType[]) {
      const among = casting === "safe" ? Object.keys(golden.canCast.safe) : Object.keys(table);
      const made = among.filter((to) => rm.canCast(from, to as rm.DType, { casting }));
      assertEquals(made.sort(), table[from].slice().sort(), `${from}, ${casting}`);
    }
  }
});

test("canCast of complex dtypes follows NumPy", () => {
  const safe = (to: rm.DType): rm.DType[] => rm.dtypes().filter((from) => rm.canCast(from, to));
  const few = ["bool", "int8", "int16", "uint8", "uint16", "float16", "bfloat16", "float32"];
  assertEquals(safe("complex64").sort(), [...few, "complex64"].sort() as rm.DType[]);
  const more = ["int32", "int64", "uint32", "uint64", "float64", "complex128"];
  assertEquals(safe("complex128").sort(), [...few, "complex64", ...more].sort() as rm.DType[]);
  assert(!rm.canCast("complex64", "float64") && !rm.canCast("q8_0", "complex64"));
});

test("isdtype, resultType and the defaults follow the array API standard", () => {
  assert(rm.isdtype("int8", "signed integer") && !rm.isdtype("int8", "unsigned integer"));
  assert(rm.isdtype("bool", "bool") && !rm.isdtype("bool", "numeric"));
  assert(rm.isdtype("float16", ["bool", "real floating"]));
  assertEquals(rm.resultType("int8", "uint8"), "int16");
  assertEquals(rm.resultType(rm.tensor([1], { dtype: "int8" }), 3), "int8");
  assertEquals(rm.resultType(1n), "int64");
  assertEquals(rm.dtypes("complex floating"), ["complex64", "complex128"]);
  assert(rm.dtypes("numeric").includes("complex64") && rm.dtypes().includes("q8_0"));
  assertEquals(rm.dtypes("unsigned integer"), ["uint8", "uint16", "uint32", "uint64"]);
  assertEquals(rm.capabilities().maxDimensions, 64);
  assertEquals(rm.defaultDtypes().indexing, "int32");
  assertThrows(() => rm.resultType(), rm.ArgumentError, "at least one");
});

test("errors name the op, shapes and axes, before anything is written", () => {
  const x = rm.ones([2, 3]);
  const refused: [body: () => unknown, error: new () => Error, text: string][] = [
    [() => loose(x).sum(0, { where: rm.ones([3]) }), rm.DTypeError, "Cannot sum where float32"],
    [
      () => loose(x).sum(0, { where: rm.ones([4, 2, 3]).greater(0) }),
      rm.ShapeError,
      "Cannot sum shape [2, 3] where shape [4, 2, 3]",
    ],
    [() => loose(x).max(0, { where: x.greater(0) }), rm.ArgumentError, "initial"],
    [() => loose(x).nanmean(2), rm.AxisError, "Cannot nanmean along axis 2"],
    [() => loose(x).slice("0:0").nanmax(0), rm.ShapeError, "Cannot nanmax shape [0, 3]"],
    [() => loose(rm.average)(x, 0, { weights: rm.ones([3]) }), rm.ShapeError, "Cannot average"],
    [() => rm.cov(loose(rm.ones([2, 2, 2]))), rm.ShapeError, "Cannot cov shape [2, 2, 2]"],
    [() => rm.gradient(rm.ones([1])), rm.ShapeError, "Cannot gradient axis 0 of shape [1]"],
    [() => rm.interp(x, loose(rm.ones([2])), rm.ones([3])), rm.ShapeError, "[2] and [3]"],
    [() => rm.asStrided(x, [3], [3]), rm.ShapeError, "it reaches elements 0 to 6, of 0 to 5"],
    [() => rm.rot90(x, 1, [0, 0 as number]), rm.AxisError, "Cannot rot90 along axes [0, 0]"],
    [() => rm.geomspace(-1, 1, 3), rm.ArgumentError, "geomspace() needs two numbers of one sign"],
    [
      () => rm.unravelIndex(rm.tensor([6], { dtype: "int32" }), [2, 3]),
      rm.IndexError,
      "index 6 is out of range",
    ],
    [() => loose(x).moveAxis([0, 1], [1]), rm.AxisError, "Cannot moveAxis 2 axes to 1 places"],
    [() => rm.special.polygamma(-1, x), rm.ArgumentError, "polygamma()"],
    [() => loose(x).gcd(x), rm.DTypeError, "Cannot gcd float32"],
  ];
  for (const [body, error, text] of refused) assertThrows(body, error, text);
});

test("reductions write into out, and keep the axes they are asked to keep", () => {
  const x = rm.tensor([[1, NaN], [3, 4]]);
  const out = rm.zeros([2], { dtype: "float64" });
  x.nanmean(0, { out });
  assertEquals(out.toArray(), [2, 4]);
  x.sum(0, { where: x.greater(2), out });
  assertEquals(out.toArray(), [3, 4]);
  assertEquals(x.nanmax(1, { keepDims: true }).toArray(), [[1], [4]]);
});

test("interp does not make NaN of infinities where there is a value", () => {
  // The answers of np.interp, NumPy 2.4.
  const f64 = (data: number[]) => rm.tensor(data, { dtype: "float64" });
  const { Infinity: inf } = globalThis;
  const cases: [number[], number[], number[], number[]][] = [
    [[0, 0.5, 1, 2], [0, 1, 2], [1, inf, 3], [1, inf, inf, 3]],
    [[-inf, NaN, 0.5, inf], [0, 1], [inf, inf], [inf, NaN, inf, inf]],
    [[0, 5], [-inf, 1, inf], [1, 2, 3], [2, 2]],
    [[0, 1, 1.5, 2, 3], [0, 1, 1, 2], [1, 2, 3, 4], [1, 3, 3.5, 4, 4]],
  ];
  for (const { on } of BACKENDS) {
    using(on, () => {
      for (const [x, xs, ys, wanted] of cases) {
        assertEquals(rm.interp(f64(x), f64(xs), f64(ys)).toArray() as unknown, wanted);
      }
    });
  }
  const many = rm.random.uniform(rm.random.key(1), [20_000], { low: -1, high: 11 });
  const points = rm.linspace(0, 10, 1001);
  const made = BACKENDS.map(({ on }) =>
    using(
      on,
      () =>
        [many, many.astype("float64"), many.astype("int8"), many.astype("float16")].map((
          x,
        ) => [...rm.interp(x, points, points.square(), { left: -1, right: NaN }).toTypedArray()]),
    )
  );
  for (const one of made) assertEquals(one, made[0]);
});

test("NaN as the first point of interp gives NaN up to the next, and only there", () => {
  const f64 = (data: number[]) => rm.tensor(data, { dtype: "float64" });
  // x, xs, ys, and what np.interp of NumPy 2.4 gives with left = -1 and right = -2.
  const cases: [number[], number[], number[], number[]][] = [
    [[0.5, 1, 2], [NaN, 1], [0, 10], [NaN, 10, -2]],
    [[-9, 0.5, 1, 1.5, 2, 9], [NaN, 1, 2], [4, 10, 20], [NaN, NaN, 10, 15, 20, -2]],
    [[0.5], [NaN, 1], [3, 3], [3]],
    [[0.5, 1], [0, NaN], [0, 10], [NaN, NaN]],
    [[1, 2], [NaN], [7], [7, 7]],
  ];
  for (const { on } of BACKENDS) {
    using(on, () => {
      for (const [x, xs, ys, wanted] of cases) {
        const made = rm.interp(f64(x), f64(xs), f64(ys), { left: -1, right: -2 });
        assertEquals(made.toArray() as unknown, wanted);
      }
    });
  }
});

test("cov and corrcoef of one variable are numbers", () => {
  const row = rm.tensor([[0, 1, 2]]);
  assertEquals([rm.cov(row).shape, rm.cov(row).item()], [[], 1]);
  const column = rm.tensor([[0], [1], [2]]);
  assertEquals(rm.cov(column, { rowVariables: false }).shape, []);
  assertEquals(rm.corrcoef(rm.tensor([[0.1, 0.7, 2]])).item(), 1);
  assertEquals(rm.corrcoef(rm.tensor([2, 2])).item(), NaN);
  assertEquals(rm.cov(column).shape, [3, 3]);
  assertEquals(rm.cov(rm.zeros([0, 3])).shape, [0, 0]);
  assertEquals(rm.cov(row, { y: row }).toArray(), [[1, 1], [1, 1]]);
});

test("diff of no differences is x, whatever is beside it", () => {
  const x = rm.tensor([1, 2]);
  const made = x.diff(0, 0, { prepend: 0, append: x });
  assertEquals([made.toArray(), made.shape], [[1, 2], [2]]);
  assert(made as unknown !== x);
  const wrong = loose(x);
  assertThrows(() => wrong.diff(0, 0, { before: 0 }), TypeError, "before");
});

test("nanvar and nanstd of what has no NaN are var and std", () => {
  const x = rm.tensor([[1, 2, 4], [7, 0, 1]], { dtype: "int32" });
  assertEquals(x.nanvar(1).toArray(), x.var(1).toArray());
  assertEquals(x.nanstd(null, { correction: 1 }).item(), x.std(null, { correction: 1 }).item());
  assertEquals(x.nanvar(0, { correction: 2 }).toArray(), x.var(0, { correction: 2 }).toArray());
  const bool = x.greater(1);
  assertThrows(() => bool.nanvar(), rm.DTypeError, "Cannot nanvar bool");
  const z = (re: number, im: number): rm.Complex => ({ re, im });
  const complex = rm.tensor([[z(1, 2), z(NaN, 1), z(3, -2)], [z(2, NaN), z(0, 1), z(0, NaN)]]);
  assertEquals([complex.nanvar(1).dtype as string, complex.nanvar(1).toArray()], ["float32", [
    5,
    0,
  ]]);
  assertEquals(complex.nanstd(1, { correction: 1 }).toArray(), [Math.fround(Math.sqrt(10)), NaN]);
});

test("trapezoid of an infinite end is infinite", () => {
  assertEquals(rm.trapezoid(rm.tensor([Infinity, 1, 2])).item(), Infinity);
  assertEquals(rm.trapezoid(rm.tensor([1, 2, 3]), { dx: 2 }).item(), 8);
  assertEquals(rm.trapezoid(rm.tensor([1, 2])).item(), 1.5);
});

test("average by a vector along any axis, and by all elements", () => {
  const x = rm.tensor([[1, 2, 3], [4, 5, 9]]), w = rm.tensor([1, 3]);
  assertEquals(rm.average(x, 0, { weights: w }).toArray(), [3.25, 4.25, 7.5]);
  assertEquals(rm.average(x.T, -1, { weights: w, keepDims: true }).toArray() as unknown, [
    [3.25],
    [4.25],
    [7.5],
  ]);
  assertEquals(rm.average(x, undefined, { weights: rm.onesLike(x) }).item(), 4);
  assertEquals(rm.average(x, undefined, { weights: x, keepDims: true }).shape as unknown, [1, 1]);
});

test("what is no tensor is refused as out, and what is no axis as one", () => {
  const x = loose(rm.tensor([1, 2]));
  for (const out of [null, "x", 1, {}]) {
    for (const run of [() => x.abs({ out }), () => x.fmax(x, { out }), () => x.add(1, { out })]) {
      assertThrows(run, rm.DTypeError, "expected a tensor");
    }
  }
  for (const axes of [null, "x", true, {}, [null]]) {
    assertThrows(() => rm.fft.fftshift(x, { axes: loose(axes) }), rm.AxisError, "fftshift");
  }
});

test("average aligns weights of all axes in the order of the axes", () => {
  const x = rm.tensor([[1, 2, 3], [4, 5, 9]]), w = rm.tensor([[1, 0], [0, 0], [0, 3]]);
  assertEquals(loose(rm.average)(x, [1, 0], { weights: w }).item(), (1 + 3 * 9) / 4);
});

test("ravelMultiIndex and unravelIndex hold indices that the dtype of the others cannot", () => {
  const of = (dtype: rm.DType, ...data: number[]): rm.AnyTensor =>
    loose(rm.tensor)(dtype === "int64" ? data.map(BigInt) : data, { dtype });
  const cases: [rm.DType, number[], number[], rm.DType, number][] = [
    ["int8", [101, 4], [137, 9], "int32", 913],
    ["uint8", [2, 200], [3, 1000], "int32", 2200],
    ["int8", [9, 9], [10, 10], "int8", 99],
    ["int32", [2 ** 20, 5], [2 ** 21, 2 ** 20], "int64", 2 ** 40 + 5],
  ];
  for (const [dtype, at, shape, wide, place] of cases) {
    for (const mode of ["raise", "wrap", "clip"] as const) {
      const made = rm.ravelMultiIndex(at.map((i) => of(dtype, i)), shape, { mode });
      assertEquals([made.dtype as string, loose(made).get(0)], [wide, place], `${dtype} ${mode}`);
    }
  }
  const mixed = rm.ravelMultiIndex([of("int8", 3), of("int32", 5)], [100, 1000]);
  assertEquals([mixed.dtype as string, mixed.toArray()], ["int32", [3005]]);
  const parts = rm.unravelIndex(of("uint8", 255), [2, 1000]);
  assertEquals(parts.map((part) => [part.dtype as string, part.toArray()]), [["uint8", [0]], [
    "uint8",
    [255],
  ]]);
  assertThrows(
    () => rm.ravelMultiIndex([of("int32", 1)], [0], { mode: "wrap" }),
    rm.IndexError,
    "shape [0]: it has no elements",
  );
});

test("gradient and trapezoid keep the steps of large positions", () => {
  const y = rm.tensor([1, 2, 4]);
  const seconds = rm.tensor([1.7e9, 1.7e9 + 0.5, 1.7e9 + 1.5], { dtype: "float64" });
  assertEquals(rm.gradient(y, { axis: 0, spacing: seconds }).toArray(), [2, 2, 2]);
  const time = rm.tensor([2n ** 60n, 2n ** 60n + 1n, 2n ** 60n + 5n]);
  assertEquals(rm.gradient(y, { axis: 0, spacing: time }).toArray().at(-1), 0.5);
  assertEquals(rm.trapezoid(y, { x: time }).item(), 1.5 + 3 * 4);
  const far = rm.tensor([1e5, 2e5, 3e5]);
  const half = rm.gradient(y.astype("float16"), { axis: 0, spacing: far, edgeOrder: 2 });
  assertEquals(half.dtype, "float16");
  assert(half.allclose(rm.tensor([0.5e-5, 1.5e-5, 2.5e-5], { dtype: "float16" }), { rtol: 0.02 }));
});

test("beta and betaln of narrow floats are computed in double precision", () => {
  const [a, b] = [118.5, 0.25].map((v) => rm.tensor([v], { dtype: "float64" })) as [
    rm.Tensor<"float64">,
    rm.Tensor<"float64">,
  ];
  for (const dtype of ["float32", "float16", "bfloat16"] as const) {
    for (const f of [rm.special.beta, rm.special.betaln]) {
      const made = f(a.astype(dtype), b.astype(dtype));
      const exact = f(a.astype(dtype).astype("float64"), b.astype(dtype).astype("float64"));
      assertEquals(made.toArray(), exact.astype(dtype).toArray(), dtype);
    }
  }
});

test("betaln keeps its digits where the terms of lgamma cancel", () => {
  // mpmath with 50 digits.
  const cases = [
    [1e-10, 1e-10, 23.7189981105004],
    [0.5, 0.5, 1.1447298858494002],
    [3, 1e10, -68.38440560956143],
    [0.25, 1e6, -2.1658550210429834],
    [9.5, 9.75, -13.195061176335525],
    [9.5, 10.5, -13.709925546998463],
    [7, 11, -11.821409665051272],
    [12, 1e15, -396.9630088930544],
    [1e15, 1e15, -1386294361119906.5],
    [1e-8, 2000, 18.420680662173684],
    [100.5, 2e5, -865.2997556174837],
    [1, 1e-300, 690.7755278982137],
    [5, Infinity, -Infinity],
    [0, 20, Infinity],
    [NaN, 20, NaN],
  ] as const;
  const column = (k: number, dtype: "float64" | "float32") =>
    rm.tensor(cases.map((row) => row[k]!), { dtype });
  for (const { name, on } of BACKENDS) {
    using(on, () => {
      const made = rm.special.betaln(column(0, "float64"), column(1, "float64")).toArray();
      const turned = rm.special.betaln(column(1, "float64"), column(0, "float64")).toArray();
      assertEquals(turned, made, name);
      cases.forEach(([a, b, wanted], k) => {
        const fine = Object.is(made[k], wanted) ||
          Math.abs(made[k]! - wanted) <= 25 * 2 ** -52 * Math.max(1, Math.abs(wanted));
        assert(fine, `betaln(${a}, ${b}) is ${made[k]}, not ${wanted} (${name})`);
      });
      const ints = rm.special.betaln(
        rm.tensor([3, 7], { dtype: "int32" }),
        rm.tensor([1e9, 11], { dtype: "int32" }),
      );
      assertEquals(ints.toArray(), [-61.47665023803711, -11.821409225463867]);
    });
  }
});

test("reductions without NaN leave complex NaN out", () => {
  const z = (re: number, im: number): rm.Complex => ({ re, im });
  const x = rm.tensor([[z(1, 2), z(NaN, 1), z(3, -1)], [z(2, NaN), z(0, 1), z(1, 1)]]);
  const cases: [string, unknown, unknown][] = [
    ["nansum", x.nansum(1).toArray(), [z(4, 1), z(1, 2)]],
    ["nanprod", x.nanprod(0).toArray(), [z(1, 2), z(0, 1), z(4, 2)]],
    ["nanmean", x.nanmean(1).toArray(), [z(2, 0.5), z(0.5, 1)]],
    ["nancumsum", x.nancumsum(1).toArray(), [[z(1, 2), z(1, 2), z(4, 1)], [
      z(0, 0),
      z(0, 1),
      z(1, 2),
    ]]],
    ["nancumprod", x.slice(1).nancumprod(0).toArray(), [z(1, 0), z(0, 1), z(-1, 1)]],
  ];
  for (const [name, actual, expected] of cases) assertEquals(actual, expected, name);
  const out = rm.zeros([2], { dtype: "complex64" });
  assert(x.nansum(1, { out }) as unknown === out && out.get(0).re === 4);
  assert(Number.isNaN(x.slice(":, 1:2").nanmean(1).get(0).re));
});

test("nanprod and nansum leave NaN out before they cast", () => {
  const x = rm.tensor([2, NaN, 3]);
  assertEquals(x.nanprod(0, { dtype: "int32" }).item(), 6);
  assertEquals(x.nansum(0, { dtype: "complex64" }).item(), { re: 5, im: 0 });
});

test("triangles of many rows and few elements", () => {
  const of = (rows: number, options: object): unknown =>
    loose(rm.triIndices)(rows, options).map((one: rm.AnyTensor) => one.toArray());
  const most = 2 ** 31;
  assertEquals(of(most, { columns: 0 }), [[], []]);
  assertEquals(of(most, { columns: 2, upper: true }), [[0, 0, 1], [0, 1, 1]]);
  assertEquals(of(most, { columns: 2, k: 2 - most }), [[most - 2, most - 1, most - 1], [0, 0, 1]]);
  assertThrows(() => rm.triIndices(2 ** 32, { columns: 1 }), rm.ShapeError, "indices are int32");
});

test("complex NaN, scalars and variances", () => {
  const z = (re: number, im: number) => rm.complex(rm.tensor([re]), rm.tensor([im]));
  assert(rm.arrayEqual(z(NaN, 1), z(2, NaN), { equalNan: true }));
  assert(!rm.arrayEqual(z(NaN, 1), z(2, NaN)));
  assertEquals(rm.resultType("float64", { re: 1, im: 2 }), "complex128");
  assertEquals(rm.resultType(1.5, { re: 1, im: 2 }), "complex64");
  assertEquals(rm.resultType(true, "int8", { re: 1, im: 2 }), "complex64");
  const x = rm.complex(rm.tensor([1, 3, 9]), rm.tensor([2, -2, 9]));
  const mask = rm.tensor([true, true, false]);
  const made = x.var(0, { where: mask });
  assertEquals([made.dtype as string, made.item()], ["float32", 5]);
});
