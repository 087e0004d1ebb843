/**
 * Times sorting, partitions, medians and top-k next to NumPy, for each dtype and length.
 *
 *     deno run -A bench/sort.ts [--threads=1] [--rounds=5] [--name=TEXT]
 *
 * Needs a Python with NumPy, which ROWMAJOR_PYTHON may name. Both take turns; each number is the
 * shortest of all rounds in microseconds. Prints the ratio to NumPy's time and the goal for it, and
 * the instruction set, which ROWMAJOR_LEVEL may lower.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { info, random, setThreads, type Tensor } from "../mod.ts";
import { root } from "../scripts/tools.ts";
import { environment, LineProcess } from "./line_process.ts";
import { findPython } from "./python_env.ts";

const { values: options } = parseArgs({
  options: {
    threads: { type: "string", default: "1" },
    rounds: { type: "string", default: "5" },
    name: { type: "string", default: "" },
  },
});
const threads = Number(options.threads);

type T = Tensor<"float32", [number]>;

interface Work {
  readonly name: string;
  /** The same in Python, for an array `a` of `n` elements. */
  readonly numpy: string;
  readonly run: (x: T, n: number) => void;
  /** The largest ratio to NumPy's time. */
  readonly goal: number;
}

const WORK: readonly Work[] = [
  { name: "sort", numpy: "np.sort(a)", run: (x) => x.sort().dispose(), goal: 1.1 },
  {
    name: "argsort",
    numpy: "np.argsort(a, kind='stable')",
    run: (x) => x.argsort().dispose(),
    goal: 0.8,
  },
  {
    name: "partition",
    numpy: "np.partition(a, n // 2)",
    run: (x, n) => x.partition(n >> 1).dispose(),
    goal: 1.1,
  },
  {
    name: "argpartition",
    numpy: "np.argpartition(a, n // 2)",
    run: (x, n) => x.argpartition(n >> 1).dispose(),
    goal: 1.1,
  },
  {
    name: "topk 10",
    numpy: "(lambda i: i[np.argsort(a[i])])(np.argpartition(a, n - 10)[n - 10:])",
    run(x) {
      const { values, indices } = x.topk(10);
      values.dispose();
      indices.dispose();
    },
    goal: 0.8,
  },
  { name: "median", numpy: "np.median(a)", run: (x) => x.median().dispose(), goal: 0.8 },
];

/** Makes the same numbers of a dtype from uniform ones, and times an expression. */
const SCRIPT = `
import json, sys, time
import numpy as np
print(json.dumps(np.__version__), flush=True)
for line in sys.stdin:
    dtype, n, code, rounds = json.loads(line)
    a = ((np.random.default_rng(1).random(n) - 0.5) * 60000).astype(dtype)
    run = eval("lambda: " + code, {"np": np, "a": a, "n": n})
    best = 1e9
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    print(json.dumps(best * 1e6), flush=True)
`;

/** NumPy. */
class Peer extends LineProcess<"NumPy", [string, number, string, number], number | string> {
  /** Waits until it is ready; returns its version. */
  async ready(): Promise<string> {
    return String(await this.next());
  }
}

function fastest(run: () => void, rounds: number): number {
  let best = Infinity;
  for (let i = 0; i < rounds; i++) {
    const begin = performance.now();
    run();
    best = Math.min(best, performance.now() - begin);
  }
  return best * 1000;
}

const { path } = findPython(["numpy"], ["numpy"]);
if (path === undefined) throw new Error("there is no Python with NumPy");
setThreads(threads);
const env = environment(threads);
const numpy = new Peer("NumPy", [path, "-c", SCRIPT], { cwd: root, env });
console.log(`NumPy ${await numpy.ready()}, ${threads} threads, ${info().level}`);
for (const dtype of ["float32", "int32", "float64", "int64", "int16"] as const) {
  for (const n of [100, 10000, 100000, 1000000]) {
    const uniform = random.uniform(random.key(1), [n], { dtype: "float64" });
    const x = uniform.sub(0.5).mul(60000).astype(dtype) as unknown as T;
    for (const { name, numpy: code, run, goal } of WORK) {
      if (!`${name} ${dtype} ${n}`.includes(options.name)) continue;
      let [own, theirs] = [Infinity, Infinity];
      for (let round = 0; round < Number(options.rounds); round++) {
        const calls = Math.max(3, Math.min(100, 1e6 / n));
        theirs = Math.min(theirs, Number(await numpy.ask([dtype, n, code, calls])));
        own = Math.min(own, fastest(() => run(x, n), calls));
      }
      console.log(
        `${name} ${dtype} ${n}`.padEnd(30),
        own.toFixed(1).padStart(10),
        theirs.toFixed(1).padStart(10),
        `${(own / theirs).toFixed(2)}× (≤ ${goal}×)`.padStart(18),
      );
    }
  }
}
await numpy.close();
