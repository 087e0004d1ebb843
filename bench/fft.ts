/**
 * Fourier transforms, convolutions and complex arithmetic beside NumPy's.
 *
 *     deno run -A bench/fft.ts [filter]
 *     bun bench/fft.ts [filter]
 *
 * Prints for each the fastest times in microseconds, and ours relative to NumPy's. Both libraries take
 * turns, and use as many threads as `ROWMAJOR_THREADS` allows (NumPy's transforms one).
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
  readonly shapes: readonly (readonly number[])[];
  /** The call for NumPy. */
  readonly numpy: string;
  readonly milliseconds: number;
}

interface Work extends Omit<Request, "milliseconds"> {
  readonly call: (x: Any, y: Any) => Any;
}

const ROUNDS = 4, MILLISECONDS = 40;

class Peer extends LineProcess<"numpy", Request, number> {
  begin(): Promise<unknown> {
    return this.next();
  }
}

function fastest(call: () => Any, milliseconds: number): number {
  const run = (): void => call().dispose();
  run();
  let begin = performance.now();
  run();
  const calls = Math.max(1, Math.floor(0.2 / (performance.now() - begin + 1e-6)));
  const end = begin + milliseconds;
  let best = Infinity;
  while ((begin = performance.now()) < end) {
    for (let i = 0; i < calls; i++) run();
    best = Math.min(best, (performance.now() - begin) / calls);
  }
  return best * 1e3;
}

const SINGLE = [16, 64, 256, 1000, 1009, 1024, 4096, 6561, 16384, 65536, 100000, 2 ** 20];
const MANY = [[1000, 16], [1000, 100], [400, 256], [200, 512], [100, 1024]];

function* work(): Generator<Work> {
  for (const wide of [true, false]) {
    const [real, complex] = wide ? ["float64", "complex128"] : ["float32", "complex64"] as const;
    const { fft } = rm;
    for (const shape of [...SINGLE.map((n) => [n]), ...MANY]) {
      const shapes = [shape];
      yield { dtype: complex, shapes, numpy: "np.fft.fft(x)", call: (x) => fft.fft(x) };
      yield { dtype: real, shapes, numpy: "np.fft.rfft(x)", call: (x) => fft.rfft(x) };
    }
    for (const sizes of [[1000, 9], [100000, 9], [100000, 64], [100000, 1000]]) {
      const shapes = sizes.map((n) => [n]);
      yield { dtype: real, shapes, numpy: "np.convolve(x, y)", call: (x, y) => rm.convolve(x, y) };
    }
    for (const n of [1000, 100_000, 1_000_000]) {
      const shapes = [[n], [n]];
      yield { dtype: complex, shapes, numpy: "x + y", call: (x, y) => x.add(y) };
      yield { dtype: complex, shapes, numpy: "x * y", call: (x, y) => x.mul(y) };
      yield { dtype: complex, shapes: [[n]], numpy: "np.exp(x)", call: (x) => x.exp() };
    }
    for (const n of [64, 256, 512]) {
      const shapes = [[n, n], [n, n]];
      yield { dtype: complex, shapes, numpy: "x @ y", call: (x, y) => x.matmul(y) };
    }
    const shapes = [[512, 512]];
    yield { dtype: complex, shapes, numpy: "np.fft.fft2(x)", call: (x) => fft.fft2(x) };
    yield { dtype: real, shapes, numpy: "np.fft.rfft2(x)", call: (x) => fft.rfft2(x) };
  }
}

function tensorOf(dtype: string, shape: readonly number[]): Any {
  const numbers = (seed: number): Any =>
    rm.random.normal(rm.random.key(seed), shape, { dtype: "float64" });
  const x = dtype.startsWith("complex") ? rm.complex(numbers(1), numbers(2)) : numbers(1);
  return (x as Any).astype(dtype);
}

const python = findPython(["numpy"], []);
if (python.path === undefined) throw new Error("there is no Python with NumPy");
const peer = new Peer("numpy", [python.path, join(root, "bench", "fft_peer.py")], {
  cwd: root,
  env: environment(1),
});
await peer.begin();
const [filter = ""] = process.argv.slice(2);
for (const { dtype, shapes, numpy, call } of work()) {
  const name = `${numpy.replace("np.", "")} ${dtype} ${shapes.map((s) => `[${s}]`).join(" ")}`;
  if (!name.includes(filter)) continue;
  const [x, y = x] = shapes.map((shape) => tensorOf(dtype, shape));
  let [ours, theirs] = [Infinity, Infinity];
  for (let round = 0; round < ROUNDS; round++) {
    ours = Math.min(ours, fastest(() => call(x, y), MILLISECONDS));
    const milliseconds = MILLISECONDS;
    theirs = Math.min(theirs, await peer.ask({ dtype, shapes, numpy, milliseconds }));
  }
  console.log(
    `${name}: ${ours.toFixed(1)} µs, NumPy ${theirs.toFixed(1)}: ${(ours / theirs).toFixed(2)}`,
  );
}
await peer.close();
