/**
 * Linear algebra beside NumPy's: single matrices, and batches of small ones.
 *
 *     deno run -A bench/linalg.ts [filter]
 *     bun bench/linalg.ts [filter]
 *
 * Prints for each the fastest times in microseconds, and ours relative to NumPy's. Both libraries take
 * turns, and use as many threads as `ROWMAJOR_THREADS` allows.
 *
 * @module
 */
import { join } from "node:path";
import process from "node:process";
import * as rm from "../mod.ts";
import { root } from "../scripts/tools.ts";
import { environment, LineProcess } from "./line_process.ts";
import { findPython } from "./python_env.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

interface Request {
  readonly dtype: string;
  readonly shape: readonly number[];
  /** The call for NumPy: `a` is the matrix, `s` a positive definite one. */
  readonly numpy: string;
  readonly milliseconds: number;
}

const ROUNDS = 3, MILLISECONDS = 60;

class Peer extends LineProcess<"numpy", Request, number> {
  begin(): Promise<unknown> {
    return this.next();
  }
}

function dispose(made: Any): void {
  for (const x of made instanceof rm.Tensor ? [made] : Object.values(made as object)) x.dispose();
}

function fastest(call: () => Any, milliseconds: number): number {
  dispose(call());
  const end = performance.now() + milliseconds;
  let best = Infinity, begin;
  while ((begin = performance.now()) < end) {
    const made = call();
    best = Math.min(best, performance.now() - begin);
    dispose(made);
  }
  return best * 1e3;
}

const { linalg } = rm;
const CALLS: Readonly<Record<string, (a: Any, s: Any) => Any>> = {
  "L.solve(a, s)": (a, s) => linalg.solve(a, s),
  "L.inv(a)": (a) => linalg.inv(a),
  "L.det(a)": (a) => linalg.det(a),
  "L.cholesky(s)": (_, s) => linalg.cholesky(s),
  "L.qr(a)": (a) => linalg.qr(a),
  "L.svd(a)": (a) => linalg.svd(a),
  "L.svdvals(a)": (a) => linalg.svdvals(a),
  "L.eigh(s)": (_, s) => linalg.eigh(s),
  "L.eigvalsh(s)": (_, s) => linalg.eigvalsh(s),
  "L.eig(a)": (a) => linalg.eig(a),
};
const SHAPES = [[1000, 4, 4], [32, 32], [100, 100], [500, 500]];
const DTYPES = ["float64", "float32"] as const;

const python = findPython(["numpy"], []);
if (python.path === undefined) throw new Error("there is no Python with NumPy");
const peer = new Peer("numpy", [python.path, join(root, "bench", "linalg_peer.py")], {
  cwd: root,
  env: environment(Number(process.env.ROWMAJOR_THREADS ?? 1)),
});
await peer.begin();
const [filter = ""] = process.argv.slice(2);
for (const [dtype, shape] of DTYPES.flatMap((dtype) => SHAPES.map((s) => [dtype, s] as const))) {
  const a: Any = rm.random.normal(rm.random.key(1), shape, { dtype });
  const n = shape.at(-1)!;
  const s = a.matmul(a.mT).add(rm.eye(n, { dtype }).mul(n));
  for (const [numpy, call] of Object.entries(CALLS)) {
    const name = `${numpy} ${dtype} [${shape}]`;
    if (!name.includes(filter)) continue;
    let [ours, theirs] = [Infinity, Infinity];
    for (let round = 0; round < ROUNDS; round++) {
      const milliseconds = MILLISECONDS;
      ours = Math.min(ours, fastest(() => call(a, s), milliseconds));
      theirs = Math.min(theirs, await peer.ask({ dtype, shape, numpy, milliseconds }));
    }
    console.log(
      `${name}: ${ours.toFixed(1)} µs, NumPy ${theirs.toFixed(1)}: ${(ours / theirs).toFixed(2)}`,
    );
  }
}
await peer.close();
