/**
 * Times sets, searching, histograms and einsum beside NumPy, in turns: the fastest of many calls each.
 *
 *     deno run -A bench/sets.ts [--rows=TEXT] [--sizes=100000,1000000] [--threads=1] [--ms=300]
 *
 * Prints a line for each row and size: both times, and ours as a part of NumPy's.
 *
 * @module
 */
import process from "node:process";
import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import * as rm from "../mod.ts";
import { ensureInstalled } from "../scripts/tools.ts";
import { findPython } from "./python_env.ts";

// Rows take tensors of every dtype.
// deno-lint-ignore no-explicit-any
type Any = any;
type Data = Record<"f32" | "i32" | "i64" | "few" | "edges" | "sorted" | "matrix", Any>;

/** A row: its name, our call, and NumPy's on arrays of the same names. */
const ROWS: [name: string, ours: (data: Data) => unknown, numpy: string][] = [
  ["unique float32", ({ f32 }) => rm.uniqueValues(f32), "np.unique(f32)"],
  ["unique small int32", ({ i32 }) => rm.uniqueValues(i32), "np.unique(i32)"],
  ["unique int64", ({ i64 }) => rm.uniqueValues(i64), "np.unique(i64)"],
  ["unique all parts", ({ f32 }) => rm.uniqueAll(f32), "np.unique(f32, True, True, True)"],
  ["bincount", ({ i32 }) => rm.bincount(i32), "np.bincount(i32)"],
  [
    "bincount weights",
    ({ i32, f32 }) => rm.bincount(i32, { weights: f32 }),
    "np.bincount(i32, f32)",
  ],
  ["histogram 10", ({ f32 }) => rm.histogram(f32, 10), "np.histogram(f32, 10)"],
  ["histogram 1000", ({ f32 }) => rm.histogram(f32, 1000), "np.histogram(f32, 1000)"],
  ["histogram edges", ({ f32, edges }) => rm.histogram(f32, edges), "np.histogram(f32, edges)"],
  ["isin small int32", ({ i32, few }) => rm.isin(i32, few), "np.isin(i32, few)"],
  ["isin float32", ({ f32 }) => rm.isin(f32, f32.slice("::10")), "np.isin(f32, f32[::10])"],
  [
    "searchsorted",
    ({ sorted, f32 }) => rm.searchsorted(sorted, f32),
    "np.searchsorted(sorted, f32)",
  ],
  ["digitize", ({ f32, edges }) => rm.digitize(f32, edges), "np.digitize(f32, edges)"],
  ...["ij,jk->ik", "ij,kj->ik", "i,j->ij", "ij,j->i", "ii->", "ij->ji"].map((
    equation,
  ): typeof ROWS[number] => {
    const terms = equation.split("->")[0]!.split(",");
    const names = terms.map((term) => term.length === 1 ? "row" : "matrix");
    return [
      `einsum ${equation}`,
      ({ matrix }) =>
        (rm.einsum as Any)(equation, ...names.map((n) => n === "row" ? matrix.slice(0) : matrix)),
      `np.einsum("${equation}", ${names.map((n) => n === "row" ? "matrix[0]" : n).join(", ")})`,
    ];
  }),
];

const PYTHON = `
import json, sys, time, numpy as np
rows, n, ms = json.loads(sys.argv[1])
r = np.random.default_rng(1)
f32 = r.standard_normal(n).astype(np.float32); i32 = r.integers(0, 1000, n).astype(np.int32)
i64 = r.integers(0, 10**9, n); few = r.integers(0, 1000, 100).astype(np.int32)
edges = np.linspace(-4, 4, 101).astype(np.float32); sorted = np.sort(f32)
side = int(n ** 0.5); matrix = f32[:side * side].reshape(side, side)
made = []
for row in rows:
    call = eval("lambda: " + row); best = 1e9; end = time.perf_counter() + ms / 1000
    while time.perf_counter() < end:
        start = time.perf_counter(); call(); best = min(best, time.perf_counter() - start)
    made.append(best * 1000)
print(json.dumps(made))
`;

function drop(x: unknown): void {
  if (x instanceof rm.Tensor) x.dispose();
  else if (typeof x === "object" && x !== null) Object.values(x).forEach(drop);
}

function fastest(call: () => unknown, ms: number): number {
  let best = Infinity;
  for (const end = performance.now() + ms; performance.now() < end;) {
    const start = performance.now();
    const made = call();
    best = Math.min(best, performance.now() - start);
    drop(made);
  }
  return best;
}

function dataOf(n: number): Data {
  const key = rm.random.key(1);
  const f32: Any = rm.random.normal(key, [n]);
  const side = Math.floor(Math.sqrt(n));
  return {
    f32,
    i32: rm.random.integers(key, [n], 0, 1000, { dtype: "int32" }),
    i64: rm.random.integers(key, [n], 0, 1e9, { dtype: "int64" }),
    few: rm.random.integers(rm.random.key(2), [100], 0, 1000, { dtype: "int32" }),
    edges: rm.linspace(-4, 4, 101),
    sorted: f32.sort(),
    matrix: f32.slice(`:${side * side}`).reshape([side, side]),
  };
}

const { values } = parseArgs({
  args: process.argv.slice(2),
  options: {
    rows: { type: "string", default: "" },
    sizes: { type: "string", default: "100000,1000000" },
    threads: { type: "string", default: "1" },
    ms: { type: "string", default: "300" },
  },
});
await ensureInstalled();
const { path: python } = findPython(["numpy"], ["numpy"]);
if (python === undefined) throw new Error("This benchmark needs a Python with numpy");
rm.setThreads(Number(values.threads));
const rows = ROWS.filter(([name]) => name.includes(values.rows));
for (const n of values.sizes.split(",").map(Number)) {
  const data = dataOf(n);
  for (const [name, ours, numpy] of rows) {
    const own = fastest(() => ours(data), Number(values.ms));
    const args = ["-c", PYTHON, JSON.stringify([[numpy], n, Number(values.ms)])];
    const env = { ...process.env, OPENBLAS_NUM_THREADS: values.threads };
    const { stdout } = spawnSync(python, args, { encoding: "utf8", env });
    const [peer] = JSON.parse(stdout) as [number];
    console.log(
      `${name.padEnd(22)} ${n}  ${own.toFixed(3)} ms, NumPy ${peer.toFixed(3)} ms: ${
        (own / peer).toFixed(2)
      }`,
    );
  }
}
