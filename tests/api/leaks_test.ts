/**
 * An op keeps no memory except its result's: its temporaries are freed, also if it throws. Garbage
 * collectors do not see a device's memory, and a loop that disposes of its results would exhaust
 * it.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import "../device/mirror.ts";
import * as rm from "../../mod.ts";
import { iota, loose } from "../support.ts";
import { isSampled } from "../support/amount.ts";

// Most calls throw, and taking the stacks would be a quarter of the time.
Error.stackTraceLimit = 0;

const device = loose("mirror");

/** The bytes in use there, minus those before this file. */
function inUse(): number {
  return rm.memory(device).bytes;
}

type Make = () => unknown;

const on = (x: rm.AnyTensor): unknown => {
  const there = loose(x).to(device);
  x.dispose();
  return there;
};

const receivers: Record<string, Make> = {
  matrix: () => on(iota([2, 3])),
  square: () => on(iota([3, 3])),
  transposed: () => {
    const whole = loose(on(iota([3, 2])));
    const view = whole.T;
    whole.dispose();
    return view;
  },
  vector: () => on(iota([3])),
  element: () => on(rm.full([], 2) as never),
  integers: () => on(iota([2, 3], "int32")),
  halves: () => on(iota([2, 3], "float16")),
  mask: () => on(iota([2, 3]).greater(2) as never),
  blocks: () => on(loose(rm.fromBuffer)(new Uint8Array(68), { dtype: "q8_0", shape: [2, 32] })),
};

const good: readonly Make[][] = [
  [],
  ...[0, 1, 2, -1, "1:", null, [0, 1], [1], [2, 3], [3, 2], [1, 0], [0, 1, 1], true, 0.5, device]
    .map((one): Make[] => [() => one]),
  ...["float32", "float64", "int8", "cpu", undefined, [-1], [1, 2], [1, 3, 2]].map((
    one,
  ): Make[] => [() => one]),
  ...Object.values(receivers).map((make) => [make]),
  ...[{ descending: true }, { dtype: "float64" }, { bigint: true }, { axis: 0 }, { alpha: 2 }]
    .map((options): Make[] => [() => options]),
  ...[
    { keepDims: true },
    { dtype: "float64" },
    { dtype: "float16" },
    { correction: 1 },
    { ord: 3 },
    { ord: 0 },
    {
      descending: true,
    },
    { includeInitial: true },
    { mode: "wrap" },
  ].map((options): Make[] => [() => 0, () => options]),
  ...[[2], [3], [2, 3], [3, 3], []].flatMap((shape): Make[][] => {
    const out = (): unknown => ({ out: on(rm.zeros(shape)) });
    return [[out], [() => 0, out], [() => -1, out], [() => 1, out], [() => undefined, out], [
      receivers.matrix!,
      out,
    ]];
  }),
  [() => 0, () => 1],
  [() => 1, () => 0],
  [() => [0, 1], () => 0],
  [() => [1, 2], () => [0, 1]],
  [() => 0, () => 9],
  [() => [[0, 1]], () => 5],
  [() => ["1:"], () => 5],
  [() => [[0, 1], [1, 2]], () => 5],
  [() => [on(iota([2], "int32"))], () => 5],
  [() => [receivers.mask!()], () => 5],
  [() => [receivers.mask!()], () => on(iota([7]))],
  [() => [[0, 1]], () => on(iota([7]))],
  [() => on(iota([2], "int32")), () => 0],
  [() => on(iota([1, 1], "int32")), () => 0],
  [() => on(iota([1, 1], "int32")), () => 7, () => 0],
  [() => on(iota([2, 3], "int32").remainder_(2)), () => 0],
  [() => on(iota([1, 1], "int32")), () => on(iota([1, 1])), () => 0],
  [receivers.matrix!, receivers.matrix!],
  [receivers.square!, receivers.vector!],
  [receivers.mask!, receivers.matrix!],
  [() => 9],
  [() => 9, () => ({ dtype: "float16" })],
  [() => -1, () => ({ weight: on(iota([3])), bias: on(iota([1], "int32")) })],
  [() => 0, () => ({ weight: on(iota([2], "float64")) })],
  [() => iota([2, 3])],
  [() => () => undefined],
];

/** Disposes of every tensor in `x`: alone, in an array, in an object, or in arguments. */
function drop(x: unknown): void {
  if (x instanceof rm.Tensor) x.dispose();
  else if (Array.isArray(x)) x.forEach(drop);
  else if (x !== null && typeof x === "object" && Object.getPrototypeOf(x) === Object.prototype) {
    Object.values(x).forEach(drop);
  }
}

/** The bytes still in use after a call's result, its arguments and `x` are disposed. */
async function leavings(call: () => unknown, ...given: unknown[]): Promise<[number, boolean]> {
  let works = true;
  let made: unknown;
  try {
    made = await call();
    if (Object.prototype.toString.call(made) === "[object Generator]") made = [...loose(made)];
  } catch {
    works = false;
  }
  drop(made);
  drop(given);
  return [inUse(), works];
}

/** Methods for tensors on the CPU, or on another device than this one. */
const ELSEWHERE = ["constructor", "data", "cuda", "intoShared", "intoSharedKeepLayout"];

for (const name of Object.getOwnPropertyNames(rm.Tensor.prototype)) {
  if (ELSEWHERE.includes(name)) continue;
  test(`Leavings: ${name} holds nothing but its result`, async () => {
    const before = inUse();
    let worked = false;
    const check = async (what: string, makers: readonly Make[]): Promise<void> => {
      const x = loose(receivers[what]!());
      const args = makers.map((make) => make());
      const call = (): unknown => {
        const member = x[name];
        return typeof member === "function" ? member.apply(x, args) : member;
      };
      const [after, works] = await leavings(call, x, args);
      worked ||= works;
      assertEquals(after - before, 0, `${what}.${name}(${args.map(String)})`);
    };
    const others: [what: string, makers: readonly Make[]][] = [];
    for (const what of Object.keys(receivers)) {
      for (const [i, makers] of good.entries()) {
        if (isSampled(`${name} ${what} ${i}`, 6)) await check(what, makers);
        else others.push([what, makers]);
      }
    }
    // Of those that are not in the sample, up to the first that works.
    for (const [what, makers] of others) {
      if (worked) break;
      await check(what, makers);
    }
    assert(worked, `no call of ${name} was one that works`);
  });
}

/** Functions with their first arguments, which are disposed of like their results. */
// deno-lint-ignore no-explicit-any
const functions: Record<string, [given: Make[], call: (...given: any[]) => unknown]> = {
  "tensor in another shape": [[receivers.matrix!], (x) => rm.tensor(x, { shape: [3, 2] })],
  "tensor of another dtype": [[receivers.matrix!], (x) => rm.tensor(x, { dtype: "float64" })],
  "tensor of another dtype on the CPU": [
    [receivers.transposed!],
    (x) => rm.tensor(x, { dtype: "float64", device: "cpu" }),
  ],
  "tensor of arrays": [[], () => rm.tensor([[1, 2], [3, 4]], { device })],
  "concat into out": [
    [receivers.matrix!, receivers.halves!, () => on(rm.zeros([2, 6]))],
    (x, y, out) => rm.concat([x, y], 1, { out }),
  ],
  "concat of views along no axis": [
    [receivers.transposed!, receivers.matrix!],
    (x, y) => rm.concat([x, y], null),
  ],
  "stack into out": [
    [receivers.matrix!, () => on(rm.zeros([2, 3, 2]))],
    (x, out) => rm.stack([x, x], -1, { out }),
  ],
  where: [[receivers.mask!, receivers.matrix!], (m, x) => rm.where(m, x, 0)],
  "where into what is read": [
    [receivers.square!],
    (x) => {
      using m = x.greater(2);
      using columns = x.T;
      rm.where(m, columns, 0, { out: x });
    },
  ],
  "sub from what is read": [
    [receivers.square!],
    (x) => {
      using columns = x.T;
      columns.sub(1, { out: x });
    },
  ],
  "add to what is read": [
    [receivers.square!],
    (x) => {
      using columns = x.T;
      x.add_(columns);
    },
  ],
  fft: [[receivers.transposed!], (x) => rm.fft.fft(x)],
  "fft into out": [
    [receivers.matrix!, () => on(rm.zeros([2, 3], { dtype: "complex64" }))],
    (x, out) => rm.fft.fft(x, { out }),
  ],
  irfftn: [[receivers.matrix!], (x) => rm.fft.irfftn(x)],
  fftshift: [[receivers.matrix!], (x) => rm.fft.fftshift(x)],
  "uniform in a range": [
    [],
    () => rm.random.uniform(rm.random.key(1), [9], { low: 1, high: 2, device }),
  ],
  normal: [[], () => rm.random.normal(rm.random.key(1), [9], { mean: 1, std: 2, device })],
  integers: [[], () => rm.random.integers(rm.random.key(1), [9], 0, 5, { device })],
  permutation: [[], () => rm.random.permutation(rm.random.key(1), 9, { device })],
  laplace: [[], () => rm.random.laplace(rm.random.key(1), [9], { loc: 1, scale: 2, device })],
  gamma: [[], () => rm.random.gamma(rm.random.key(1), [9], 2, { scale: 2, device })],
  "gamma of a tensor": [[receivers.matrix!], (x) => {
    using shape = x.abs();
    return rm.random.gamma(rm.random.key(1), [2, 3], shape);
  }],
  binomial: [[], () => rm.random.binomial(rm.random.key(1), [9], 5, 0.5, { device })],
  truncatedNormal: [
    [],
    () => rm.random.truncatedNormal(rm.random.key(1), [9], { mean: 3, std: 2, device }),
  ],
  categorical: [[receivers.matrix!], (x) => rm.random.categorical(rm.random.key(1), x)],
  choice: [[receivers.matrix!], (x) => rm.random.choice(rm.random.key(1), x, [5])],
  "choice by weights": [
    [],
    () => {
      using p = rm.tensor([1, 2, 3]);
      return rm.random.choice(rm.random.key(1), 3, [2], { p, replace: false, device });
    },
  ],
  shuffle: [[receivers.transposed!], (x) => rm.random.shuffle(rm.random.key(1), x)],
  multivariateNormal: [
    [],
    () => {
      using mean = rm.zeros([2]);
      using covariance = rm.eye(2);
      return rm.random.multivariateNormal(rm.random.key(1), [9], mean, covariance, { device });
    },
  ],
  factors: [[receivers.square!], (x) => {
    using positive = rm.eye(3).mul(2).to(device);
    return [
      rm.linalg.cholesky(positive),
      ...Object.values(rm.linalg.lu(x)),
      ...Object.values(rm.linalg.qr(x, { mode: "complete" })),
    ];
  }],
  "eigenvalues and singular values": [[receivers.square!, receivers.transposed!], (x, y) => [
    ...[rm.linalg.eig(x), rm.linalg.eigh(x), rm.linalg.svd(y)].flatMap(Object.values),
    ...[rm.linalg.eigvals(x), rm.linalg.eigvalsh(x), rm.linalg.svdvals(y)],
  ]],
  systems: [[receivers.square!, receivers.transposed!, receivers.vector!], (x, y, v) => {
    using regular = rm.eye(3).mul(2).to(device);
    return [
      ...[
        rm.linalg.solve(regular, v),
        rm.linalg.solveTriangular(regular, x),
        rm.linalg.inv(regular),
      ],
      ...[rm.linalg.det(x), rm.linalg.expm(x), rm.linalg.pinv(y), rm.linalg.matrixRank(y)],
      rm.linalg.pinv(x, { hermitian: true }),
      ...[rm.linalg.slogdet(x), rm.linalg.lstsq(x, v)].flatMap(Object.values),
      ...[-3, 0, 1, 5].map((n) => rm.linalg.matrixPower(regular, n)),
    ];
  }],
  "a system without a solution": [[receivers.square!], (x) => {
    using zeros = x.mul(0);
    for (const name of ["inv", "cholesky", "matrixPower"] as const) {
      assertThrows(() => loose(rm.linalg)[name](zeros, name === "matrixPower" ? -1 : undefined));
    }
    assertThrows(() => rm.linalg.solve(zeros, x), rm.LinAlgError);
  }],
  norms: [[receivers.square!, receivers.matrix!], (x, y) => [
    ...["fro", "nuc", 1, -1, 2, -2, Infinity, -Infinity].flatMap((ord) => [
      loose(rm.linalg).matrixNorm(y, { ord, keepDims: true }),
      loose(rm.linalg).cond(x, { ord }),
    ]),
    ...[2, 0, -1, Infinity].map((ord) => rm.linalg.vectorNorm(y, { ord, axis: 1 })),
  ]],
  multiDot: [[receivers.matrix!, receivers.square!], (x, y) => rm.linalg.multiDot([x, y, y])],
  einsum: [[receivers.matrix!], (x) => rm.einsum("ij,kj->ki", x, x)],
  "einsum of three tensors": [
    [receivers.matrix!],
    (x) => rm.einsum("ij,kj,kl->il", x, x, x),
  ],
  "einsum of one tensor": [[receivers.square!], (x) => rm.einsum("ii->", x)],
  "einsum into out": [[receivers.square!], (x) => {
    const out = rm.zerosLike(x);
    rm.einsum("ij,kj->ki", x, x, { out: out as rm.AnyTensor });
    return out;
  }],
  "isclose within tensors": [
    [receivers.matrix!],
    (x) => x.isclose(x, { rtol: x, atol: x, equalNan: true }),
  ],
  "choice without replacement": [
    [receivers.matrix!],
    () => rm.random.choice(rm.random.key(1), 5, [3], { replace: false }),
  ],
  "einsum as a view": [[receivers.matrix!], (x) => rm.einsum("ij->ji", x)],
  tensordot: [[receivers.matrix!], (x) => rm.tensordot(x, x, [[0], [0]])],
  vecdot: [[receivers.matrix!], (x) => rm.vecdot(x, x)],
  inner: [[receivers.matrix!], (x) => rm.inner(x, x)],
  kron: [[receivers.matrix!, receivers.square!], (x, y) => rm.kron(x, y)],
  trace: [[receivers.square!], (x) => rm.trace(x, { offset: 1 })],
  cross: [[receivers.matrix!], (x) => rm.cross(x, x)],
  unique: [[receivers.transposed!], (x) => rm.uniqueAll(x)],
  "unique integers": [[receivers.matrix!], (x) => {
    using integers = x.astype("int32");
    return rm.uniqueCounts(integers);
  }],
  sets: [[receivers.matrix!, receivers.square!], (x, y) => [
    rm.union(x, y),
    rm.intersect(x, y),
    rm.setdiff(x, y),
    rm.setxor(x, y),
    rm.isin(x, [1, 2.5]),
  ]],
  searchsorted: [[receivers.matrix!], (x) => {
    using line = x.flatten();
    return [rm.searchsorted(line, x), rm.searchsorted(line, 3), rm.digitize(x, [1, 2])];
  }],
  bincount: [[receivers.matrix!], (x) => {
    using line = x.flatten();
    using integers = line.astype("int32");
    return rm.bincount(integers, { weights: line });
  }],
  histogram: [[receivers.transposed!], (x) => [
    rm.histogram(x, 3),
    rm.histogram(x, [0, 2, 9], { density: true }),
    rm.histogramBinEdges(x, 2),
  ]],
  histogram2d: [[receivers.matrix!], (x) => {
    using line = x.flatten();
    return rm.histogram2d(line, line, [2, [0, 3, 9]], { weights: line });
  }],
  scatterReduce: [[receivers.matrix!], (x) => {
    using at = rm.zeros([1, 3], { dtype: "int32", device });
    return [
      rm.scatterReduce(x, at, 2, "max"),
      rm.scatterReduce(x, at, 2, "mean", { includeSelf: false }),
    ];
  }],
  arange: [[], () => rm.arange(20_000, { device })],
  linspace: [[], () => rm.linspace(0, 1, 9, { device })],
  image: [[receivers.transposed!], (x) => rm.image(x)],
  eye: [[], () => rm.eye(4, { device })],
  "npy bytes": [[receivers.transposed!], (x) => rm.io.encodeNpy(x)],
};

for (const [name, [makers, call]] of Object.entries(functions)) {
  test(`Leavings: ${name} holds nothing but its result`, async () => {
    const before = inUse();
    const given = makers.map((make) => make());
    const [after, works] = await leavings(() => call(...given), given);
    assert(works, "it throws");
    assertEquals(after - before, 0);
  });
}

test("Leavings: what was given is not given back", () => {
  const x = iota([3]);
  const index = rm.tensor([2, 0], { dtype: "int32" });
  const mask = rm.tensor([true, false, true]);
  loose(x).slice(index).dispose();
  loose(x).take(index).dispose();
  loose(x).slice(mask).dispose();
  loose(x).set([index], 5);
  for (const dtype of ["int32", "bool"] as const) {
    for (let n = 2; n <= 3; n++) for (let i = 0; i < 4; i++) rm.full([n], true, { dtype });
  }
  assertEquals(index.toArray(), [2, 0]);
  assertEquals(mask.toArray(), [true, false, true]);
  assertEquals(x.toArray(), [5, 1, 5]);
});
