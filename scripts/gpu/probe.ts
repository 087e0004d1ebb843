/**
 * Prints the CUDA device, and runs a kernel of every kind on it.
 *
 *     gpu_probe.ts [--every-kernel]
 *
 * Compares results with those of the CPU. `--every-kernel` is for compute-sanitizer: no timings,
 * small and odd sizes.
 *
 * @module
 */
import process from "node:process";
import * as rm from "../../mod.ts";

/** Names of checks with different results. */
const wrong: string[] = [];

function check(name: string, run: (device: "cpu" | "cuda") => rm.AnyTensor, tolerance = 0): void {
  const [expected, found] = (["cpu", "cuda"] as const).map((device) =>
    Array.from(run(device).cpu().astype("float64").toTypedArray())
  ) as [number[], number[]];
  // Of all elements together: those near 0 of a product or sum may differ by more than themselves.
  let [difference, reference] = [0, 0];
  expected.forEach((x, i) => {
    const y = found[i]!;
    if (Object.is(x, y) || (x !== x && y !== y)) return;
    difference += (x - y) ** 2;
    reference += x ** 2;
  });
  const error = difference === 0 ? 0 : Math.sqrt(difference / reference);
  const ok = expected.length === found.length && error <= tolerance;
  if (!ok || !every) {
    console.log(`${ok ? "ok  " : "BAD "} ${name}${error > 0 ? `: ${error.toExponential(1)}` : ""}`);
  }
  if (!ok) wrong.push(name);
}

const info = rm.info();
console.log(`rowmajor ${info.version} on ${info.runtime}; cuda: ${info.backends.cuda}`);
console.log(`device: ${info.devices.cuda ?? "none"}`);

const every = process.argv.includes("--every-kernel");
const key = rm.random.key(7);
const begin = performance.now();
rm.ones([3], { device: "cuda" }).add(1).toTypedArray();
if (!every) console.log(`first result after ${(performance.now() - begin).toFixed(0)} ms`);

for (const n of every ? [1, 33, 1000] : [1, 1000, 100_003]) {
  const x = rm.random.normal(key, [n]) as rm.Tensor<"float32">;
  const square = rm.random.normal(key, [37, n % 91 + 5]) as rm.Tensor<"float32">;
  const at = (device: "cpu" | "cuda"): rm.Tensor<"float32"> => x.to(device) as never;
  const on = (device: "cpu" | "cuda"): rm.Tensor<"float32"> => square.to(device) as never;
  check(`add ${n}`, (device) => at(device).add(at(device)));
  check(`exp ${n}`, (device) => at(device).exp(), 1e-6);
  check(`cast ${n}`, (device) => at(device).astype("bfloat16"));
  check(`transposed copy ${n}`, (device) => on(device).T.copy());
  // Tiles of 64 and of 32, whole and partial ones.
  const wide = rm.random.normal(key, [n % 173 + 130, 197]).mul(100) as rm.Tensor<"float32">;
  for (const dtype of ["uint8", "bfloat16", "float32", "float64"] as const) {
    const as = (device: "cpu" | "cuda"): rm.AnyTensor => wide.astype(dtype).to(device);
    check(`transposed copy of ${dtype} ${n}`, (device) => as(device).T.copy());
    check(`largest of columns of ${dtype} ${n}`, (device) => as(device).max(0));
    check(`where the largest of columns of ${dtype} are ${n}`, (device) => as(device).argmax(0));
  }
  check(`column plus row ${n}`, (device) => on(device).add(on(device).slice(":, :1")));
  check(`sum ${n}`, (device) => at(device).sum(), 1e-5);
  check(`sums of rows ${n}`, (device) => on(device).sum(1), 1e-4);
  check(`sums of columns ${n}`, (device) => on(device).sum(0), 1e-4);
  check(`argmax ${n}`, (device) => at(device).argmax());
  check(`cumulative sum ${n}`, (device) => at(device).cumulativeSum(0), 1e-2);
  check(`softmax ${n}`, (device) => on(device).softmax(-1), 1e-5);
  check(`layer norm ${n}`, (device) => on(device).layerNorm(-1), 1e-3);
  check(`sort ${n}`, (device) => at(device).sort());
  check(`argsort ${n}`, (device) => at(device).argsort());
  check(`take ${n}`, (device) => at(device).take([0, -1, n >> 1], 0));
  check(`mask ${n}`, (device) => at(device).slice(at(device).greater(0)) as rm.AnyTensor);
  check(`set ${n}`, (device) => at(device).copy().set([[0, -1]], 7));
  check(`matmul ${n}`, (device) => on(device).matmul(on(device).T), 1e-3);
  check(`int32 matmul ${n}`, (device) => {
    const whole = on(device).mul(10).astype("int32");
    return whole.matmul(whole.T);
  });
  check(`uniform ${n}`, (device) => rm.random.uniform(key, [n], { device } as never));
  check(`normal ${n}`, (device) => rm.random.normal(key, [n], { device } as never), 1e-6);
}
if (wrong.length > 0) {
  console.error(`${wrong.length} differ from the CPU: ${wrong.join(", ")}`);
  process.exit(1);
}
