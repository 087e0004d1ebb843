/**
 * Transforms, linear algebra, sorts, sets, einsum and complex numbers beside NumPy and PyTorch.
 *
 * `ROWMAJOR_OPENBLAS` names an OpenBLAS whose LAPACK linear algebra uses, such as that of NumPy's
 * package (in `numpy.libs`), and adds rows of complex matrices.
 *
 * @module
 */
import process from "node:process";
import * as rm from "../../mod.ts";
import { drop } from "../harness/inputs.ts";
import type { Input, ServedRow, Suite } from "../harness/suite.ts";

// Rows take tensors of every dtype.
// deno-lint-ignore no-explicit-any
type Any = any;

/** A call, and the same in Python on the names of `data`. */
interface Part {
  readonly group: string;
  readonly name: string;
  readonly data: Readonly<Record<string, Input>>;
  readonly numpy: string;
  readonly torch?: string;
  readonly call: (data: Any) => unknown;
}

/** A group, in the order of the table. */
interface Group {
  readonly title: string;
  /** The largest ratio to NumPy's time; none where issues name none. */
  readonly goal?: number;
}

/** The groups by name. */
const GROUPS: Readonly<Record<string, Group>> = {
  fft: { title: "fft, rfft: a vector of 16 to 16384, batches", goal: 0.8 },
  "fft long": { title: "fft, rfft: 65536 to 1048576; fft2 of 512 × 512", goal: 1.05 },
  convolve: { title: "convolve with 9 to 1000 weights" },
  "linalg 4": { title: "1000 matrices of 4 × 4: all of the below but det", goal: 0.4 },
  "linalg 32": { title: "32 × 32: all of the below but det", goal: 1.5 },
  linalg: { title: "100 × 100, 500 × 500: solve, inv, cholesky, qr", goal: 1.5 },
  eigen: { title: "100 × 100, 500 × 500: svd, eigh, eig", goal: 2.5 },
  det: { title: "det of all of these" },
  sort: { title: "sort of 1e4 to 1e6", goal: 1.1 },
  argsort: { title: "argsort (stable) of 1e4 to 1e6", goal: 0.8 },
  select: { title: "topk of 10, median, partition of 1e4 to 1e6", goal: 0.8 },
  short: { title: "sort, argsort, topk, median of 100" },
  sets: { title: "unique, bincount, histogram of 1e5, 1e6", goal: 0.8 },
  search: { title: "isin, searchsorted, digitize of 1e5, 1e6" },
  einsum: { title: "einsum: five usual forms, 300 × 300", goal: 0.5 },
  complex: { title: "complex add, mul, exp of 1e3 to 1e6", goal: 1 },
  "complex matmul": { title: "complex matmul of 64, 256, 512", goal: 1 },
};

const normal = (shape: readonly number[], dtype: string): Input => ({
  kind: "normal",
  shape,
  dtype,
});

const PAIRS = [["float64", "complex128"], ["float32", "complex64"]] as const;
const { fft, linalg } = rm;

function* transforms(): Generator<Part> {
  const single = [16, 64, 256, 1000, 1009, 1024, 4096, 6561, 16384, 65536, 100000, 2 ** 20];
  const many = [[1000, 16], [1000, 100], [400, 256], [200, 512], [100, 1024]];
  for (const [real, complex] of PAIRS) {
    for (const shape of [...single.map((n) => [n]), ...many]) {
      const group = shape[0]! > 20000 ? "fft long" : "fft";
      for (const [name, dtype] of [["fft", complex], ["rfft", real]] as const) {
        yield {
          ...{ group, name: `${name} ${dtype} [${shape}]`, data: { x: normal(shape, dtype) } },
          ...{ numpy: `np.fft.${name}(x)`, torch: `torch.fft.${name}(x)` },
          call: ({ x }) => fft[name](x),
        };
      }
    }
    for (const [name, dtype] of [["fft2", complex], ["rfft2", real]] as const) {
      const data = { x: normal([512, 512], dtype) };
      yield {
        ...{ group: "fft long", name: `${name} ${dtype} [512,512]`, data },
        ...{ numpy: `np.fft.${name}(x)`, torch: `torch.fft.${name}(x)` },
        call: ({ x }) => fft[name](x),
      };
    }
    for (const [n, k] of [[1000, 9], [100000, 9], [100000, 64], [100000, 1000]] as const) {
      yield {
        ...{ group: "convolve", name: `convolve ${real} [${n}] [${k}]` },
        data: { x: normal([n], real), y: normal([k], real) },
        numpy: "np.convolve(x, y)",
        torch:
          "torch.nn.functional.conv1d(x[None, None], y.flip(0)[None, None], padding=len(y) - 1)",
        call: ({ x, y }) => rm.convolve(x, y),
      };
    }
  }
}

/** Our call, NumPy's, and PyTorch's where it has another name. */
const LINALG: Readonly<Record<string, [(a: Any, s: Any) => unknown, string, string?]>> = {
  solve: [(a, s) => linalg.solve(a, s), "solve(a, s)"],
  inv: [(a) => linalg.inv(a), "inv(a)"],
  cholesky: [(_, s) => linalg.cholesky(s), "cholesky(s)"],
  qr: [(a) => linalg.qr(a), "qr(a)"],
  det: [(a) => linalg.det(a), "det(a)"],
  svd: [(a) => linalg.svd(a), "svd(a)"],
  svdvals: [(a) => linalg.svdvals(a), "svdvals(a)"],
  eigh: [(_, s) => linalg.eigh(s), "eigh(s)"],
  eigvalsh: [(_, s) => linalg.eigvalsh(s), "eigvalsh(s)"],
  eig: [(a) => linalg.eig(a), "eig(a)"],
};
const EIGEN = ["svd", "svdvals", "eigh", "eigvalsh", "eig"];

function* matrices(): Generator<Part> {
  // Complex matrices too where LAPACK of OpenBLAS computes them.
  const dtypes = ["float64", "float32"];
  if (process.env.ROWMAJOR_OPENBLAS) dtypes.push("complex128", "complex64");
  for (const dtype of dtypes) {
    for (const shape of [[1000, 4, 4], [32, 32], [100, 100], [500, 500]]) {
      const n = shape.at(-1)!;
      const data = { a: normal(shape, dtype), s: { kind: "definite", shape, dtype } as const };
      for (const [name, [call, expression]] of Object.entries(LINALG)) {
        const large = EIGEN.includes(name) ? "eigen" : "linalg";
        const group = name === "det" ? name : n <= 32 ? `linalg ${n}` : large;
        yield {
          ...{ group, name: `${name} ${dtype} [${shape}]`, data },
          ...{ numpy: `np.linalg.${expression}`, torch: `torch.linalg.${expression}` },
          call: ({ a, s }) => call(a, s),
        };
      }
    }
  }
}

function* sorts(): Generator<Part> {
  const calls: [string, string, (x: Any) => unknown, string, string?][] = [
    ["sort", "sort", (x) => x.sort(), "np.sort(x)", "torch.sort(x).values"],
    [
      ...["argsort", "argsort"] as const,
      (x) => x.argsort(),
      "np.argsort(x, kind='stable')",
      "torch.argsort(x, stable=True)",
    ],
    ["partition", "select", (x) => x.partition(x.size >> 1), "np.partition(x, len(x) // 2)"],
    [
      ...["topk 10", "select"] as const,
      (x) => x.topk(10),
      "(lambda i: i[np.argsort(x[i])])(np.argpartition(x, len(x) - 10)[-10:])",
      "torch.topk(x, 10)",
    ],
    ["median", "select", (x) => x.median(), "np.median(x)", "torch.median(x)"],
  ];
  for (const dtype of ["float32", "int32", "float64", "int64", "int16"]) {
    for (const n of [100, 10_000, 100_000, 1_000_000]) {
      const data = { x: { kind: "scaled", shape: [n], dtype } as const };
      for (const [name, group, call, numpy, torch] of calls) {
        yield {
          ...{ group: n === 100 ? "short" : group, name: `${name} ${dtype} ${n}`, data, numpy },
          ...torch === undefined ? {} : { torch },
          call: ({ x }) => call(x),
        };
      }
    }
  }
}

function* sets(): Generator<Part> {
  const calls: [string, string, (data: Any) => unknown, string, string?][] = [
    ["unique float32", "sets", ({ x }) => rm.uniqueValues(x), "np.unique(x)", "torch.unique(x)"],
    ["unique int32", "sets", ({ i }) => rm.uniqueValues(i), "np.unique(i)", "torch.unique(i)"],
    ["unique int64", "sets", ({ j }) => rm.uniqueValues(j), "np.unique(j)", "torch.unique(j)"],
    ["uniqueAll float32", "sets", ({ x }) => rm.uniqueAll(x), "np.unique(x, True, True, True)"],
    ["bincount", "sets", ({ i }) => rm.bincount(i), "np.bincount(i)", "torch.bincount(i)"],
    [
      ...["bincount weights", "sets"] as const,
      ({ i, x }) => rm.bincount(i, { weights: x }),
      ...["np.bincount(i, x)", "torch.bincount(i, x)"] as const,
    ],
    [
      ...["histogram 10", "sets"] as const,
      ({ x }) => rm.histogram(x, 10),
      ...["np.histogram(x, 10)", "torch.histogram(x, 10)"] as const,
    ],
    [
      ...["histogram 1000", "sets"] as const,
      ({ x }) => rm.histogram(x, 1000),
      ...["np.histogram(x, 1000)", "torch.histogram(x, 1000)"] as const,
    ],
    [
      ...["histogram edges", "sets"] as const,
      ({ x, edges }) => rm.histogram(x, edges),
      ...["np.histogram(x, edges)", "torch.histogram(x, edges)"] as const,
    ],
    [
      ...["isin int32", "search"] as const,
      ({ i, few }) => rm.isin(i, few),
      ...["np.isin(i, few)", "torch.isin(i, few)"] as const,
    ],
    [
      ...["isin float32", "search"] as const,
      ({ x }) => rm.isin(x, x.slice("::10")),
      ...["np.isin(x, x[::10])", "torch.isin(x, x[::10])"] as const,
    ],
    [
      ...["searchsorted", "search"] as const,
      ({ sorted, x }) => rm.searchsorted(sorted, x),
      ...["np.searchsorted(sorted, x)", "torch.searchsorted(sorted, x)"] as const,
    ],
    [
      ...["digitize", "search"] as const,
      ({ x, edges }) => rm.digitize(x, edges),
      ...["np.digitize(x, edges)", "torch.bucketize(x, edges)"] as const,
    ],
  ];
  for (const n of [100_000, 1_000_000]) {
    const integers = { kind: "integers", low: 0, high: 1000, dtype: "int32" } as const;
    const data: Part["data"] = {
      x: normal([n], "float32"),
      i: { ...integers, shape: [n] },
      j: { ...integers, shape: [n], dtype: "int64", high: 1_000_000_000 },
      few: { ...integers, shape: [100] },
      edges: { kind: "sorted", shape: [101], dtype: "float32" },
      sorted: { kind: "sorted", shape: [n], dtype: "float32" },
    };
    for (const [name, group, call, numpy, torch] of calls) {
      yield {
        ...{ group, name: `${name} ${n}`, data, numpy, call },
        ...torch === undefined ? {} : { torch },
      };
    }
  }
}

function* products(): Generator<Part> {
  const row = normal([300], "float32"), matrix = normal([300, 300], "float32");
  for (const equation of ["ij,jk->ik", "ij,kj->ik", "i,j->ij", "ij,j->i", "ii->"]) {
    const terms = equation.split("->")[0]!.split(",");
    const data = Object.fromEntries(
      terms.map((term, i) => ["xy"[i]!, term.length === 1 ? row : matrix]),
    );
    const names = Object.keys(data).join(", ");
    yield {
      ...{ group: "einsum", name: `einsum ${equation}`, data },
      ...{
        numpy: `np.einsum("${equation}", ${names})`,
        torch: `torch.einsum("${equation}", ${names})`,
      },
      call: (data) => (rm.einsum as Any)(equation, ...Object.values(data)),
    };
  }
}

function* complexNumbers(): Generator<Part> {
  for (const [, dtype] of PAIRS) {
    for (const n of [1000, 100_000, 1_000_000]) {
      const [x, y] = [normal([n], dtype), normal([n], dtype)];
      const rows: [string, Part["data"], string, Part["call"], string?][] = [
        ["add", { x, y }, "x + y", ({ x, y }) => x.add(y)],
        ["mul", { x, y }, "x * y", ({ x, y }) => x.mul(y)],
        ["exp", { x }, "np.exp(x)", ({ x }) => x.exp(), "torch.exp(x)"],
      ];
      for (const [name, data, numpy, call, torch = numpy] of rows) {
        yield { group: "complex", name: `${name} ${dtype} ${n}`, data, numpy, torch, call };
      }
    }
    for (const n of [64, 256, 512]) {
      const [x, y] = [normal([n, n], dtype), normal([n, n], dtype)];
      yield {
        ...{ group: "complex matmul", name: `matmul ${dtype} ${n}`, data: { x, y } },
        ...{ numpy: "x @ y", torch: "x @ y", call: ({ x, y }) => x.matmul(y) },
      };
    }
  }
}

function rowOf({ group, name, data, numpy, torch, call }: Part): ServedRow {
  return {
    ...{ group, name, inputs: data },
    call: (x) => ({ run: () => drop(call(x)) }),
    statements: { NumPy: numpy, ...(torch === undefined ? {} : { PyTorch: torch }) },
  };
}

const parts = [transforms, matrices, sorts, sets, products, complexNumbers];

/** The suite. */
export const suite: Suite = {
  title: "Numerics beside NumPy and PyTorch",
  groups: Object.fromEntries(Object.entries(GROUPS).map(([name, { title }]) => [name, title])),
  rows: parts.flatMap((part) => [...part()].map(rowOf)),
  python: ["NumPy", "PyTorch"],
  spins: /^(linalg|eigen|det|einsum|complex matmul)/,
  rounds: 3,
  ms: 40,
  beside: "fastest",
  lines: "group",
  goal: (row) => {
    const ratio = GROUPS[row.slice(0, row.indexOf("/"))]!.goal;
    return ratio === undefined ? undefined : { ratio, beside: "NumPy" };
  },
};
