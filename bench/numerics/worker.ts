/**
 * A runtime that times rows of `deno task bench:numerics`: a request per line, the fastest time in
 * microseconds.
 *
 * @module
 */
import process from "node:process";
import { createInterface } from "node:readline";
import * as rm from "../../mod.ts";
import { type Data, ROWS } from "./rows.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

function make({ kind, shape, dtype, high }: Data): Any {
  const { key, integers, normal } = rm.random;
  if (kind === "integers") return (integers as Any)(key(1), shape, 0, high, { dtype });
  const numbers = (seed: number): Any => normal(key(seed), shape, { dtype: "float64" });
  if (kind === "scaled") return numbers(1).mul(10000).clip(-32768, 32767).astype(dtype);
  if (kind === "sorted") return numbers(1).sort().astype(dtype);
  if (kind === "definite") {
    const [x, n] = [numbers(1), shape.at(-1)!];
    return x.matmul(x.mT).add(rm.eye(n, { dtype: "float64" }).mul(n)).astype(dtype);
  }
  const x = dtype.startsWith("complex") ? rm.complex(numbers(1), numbers(2)) as Any : numbers(1);
  return x.astype(dtype);
}

function drop(made: unknown): void {
  if (made instanceof rm.Tensor) made.dispose();
  else if (typeof made === "object" && made !== null) Object.values(made).forEach(drop);
}

function fastest(call: () => unknown, milliseconds: number): number {
  const run = (): void => drop(call());
  let begin, first = Infinity;
  for (let i = 0; i < 4; i++) {
    begin = performance.now();
    run();
    first = Math.min(first, performance.now() - begin);
  }
  const calls = Math.max(1, Math.floor(0.2 / (first + 1e-6)));
  const end = performance.now() + milliseconds;
  let best = first;
  while ((begin = performance.now()) < end) {
    for (let i = 0; i < calls; i++) run();
    best = Math.min(best, (performance.now() - begin) / calls);
  }
  return best * 1e3;
}

rm.setThreads(Number(process.argv[2]));
const { backends, level } = rm.info();
if (backends.native !== "in use") throw new Error(backends.native);
console.log(JSON.stringify(level));
let last: { readonly specs: Row["data"]; readonly data: Any } | undefined;
type Row = typeof ROWS[number];
for await (const line of createInterface({ input: process.stdin })) {
  const { row, ms } = JSON.parse(line) as { row: number; ms: number };
  const { data: specs, call } = ROWS[row]!;
  if (last?.specs !== specs) {
    drop(last?.data);
    const data = Object.fromEntries(
      Object.entries(specs).map(([name, one]) => [name, make(one)]),
    );
    last = { specs, data };
  }
  console.log(fastest(() => call(last!.data), ms));
}
