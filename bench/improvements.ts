/**
 * Measures what each improvement of programs is worth, by switching it off.
 *
 *     deno task bench:improvements [--rows=TEXT,...] [--rounds=9] [--ms=40] [--save]
 *
 * Compiles each function once with all improvements and once without each of them, and runs all of
 * these in turns, on one thread. Prints the time with all, and the medians over the rounds of the
 * times without one relative to it: 1.50 means that the program takes half as long again without.
 * `--save` writes the table of docs/benchmarks.md.
 *
 * @module
 */
import process from "node:process";
import { parseArgs } from "node:util";
import { type AnyTensor, fromBuffer, info, setThreads } from "../mod.ts";
import { compile } from "../src/compile/mod.ts";
import { ALL_PASSES, type Passes } from "../src/compile/optimize.ts";
import { ensureInstalled, writeTable } from "../scripts/tools.ts";
import { type Input, keyOf, ROWS, uniform } from "./programs/rows.ts";
import { formatNs, formatRatio, median, toTable } from "./report.ts";

/** A function, and the tensors that it is called with; it captures the others. */
interface Work {
  readonly name: string;
  readonly f: (...args: AnyTensor[]) => AnyTensor;
  readonly args: readonly AnyTensor[];
}

function make({ shape, low, high }: Input, stream: number): AnyTensor {
  const size = shape.reduce((product, n) => product * n, 1);
  return fromBuffer(uniform(size, stream, low, high)).copy().reshape(shape) as AnyTensor;
}

/** Rows of bench:programs in which improvements take part. */
const NAMES = [
  "chains/relu(a * b + c)",
  "chains/sum of (a - b)² along rows",
  "chains/exp(x - max) / sum along rows",
  "MLP/784-256-128-10, batch 16",
  "encoder/1×16",
  "encoder/1×128",
];

function fromRows(): Work[] {
  return NAMES.map((name) => {
    const row = ROWS.find((candidate) => keyOf(candidate) === name)!;
    const x = Object.fromEntries(
      Object.entries(row.inputs).map(([key, input], i) => [key, make(input, i)]),
    );
    return { name, f: row.program(x), args: row.args.map((key) => x[key]!) };
  });
}

/** Functions as they are when they are assembled from parts. */
function assembled(): Work[] {
  const [rows, inner, outer] = [16, 384, 1536];
  const x = make({ shape: [rows, inner], low: -1, high: 1 }, 0);
  const [v, w] = [1, 2].map((i) => make({ shape: [inner, outer], low: -0.1, high: 0.1 }, i));
  return [
    {
      name: "a result that nothing reads",
      f: (x) => {
        x.matmul(v!).gelu();
        return x.matmul(w!);
      },
      args: [x],
    },
    {
      name: "two branches that normalize their input",
      f: (x) => x.layerNorm(-1).matmul(v!).add(x.layerNorm(-1).matmul(w!)),
      args: [x],
    },
    { name: "a weight that is scaled", f: (x) => x.matmul(w!.mul(0.5)), args: [x] },
  ];
}

/** The time of a call in ms, over calls that take about `ms`. */
function time(body: () => unknown, ms: number): number {
  const begin = performance.now();
  let calls = 0;
  let spent = 0;
  do {
    body();
    calls++;
    spent = performance.now() - begin;
  } while (spent < ms);
  return spent / calls;
}

/** The time in ms with all improvements, and those without each, relative to it. */
function measure({ f, args }: Work, rounds: number, ms: number): [number, number[]] {
  const passes = [{}, ...Object.keys(ALL_PASSES).map((name) => ({ [name]: false }))];
  const compiled = passes.map((optimize: Partial<Passes>) => compile(f, { optimize }));
  const bodies = compiled.map((one) => () => (one(...args) as AnyTensor).dispose());
  for (const body of bodies) time(body, 2 * ms);
  const all: number[] = [];
  const ratios = passes.slice(1).map(() => [] as number[]);
  for (let round = 0; round < rounds; round++) {
    const [whole, ...without] = bodies.map((body) => time(body, ms));
    all.push(whole!);
    without.forEach((one, i) => ratios[i]!.push(one / whole!));
  }
  for (const one of compiled) one.dispose();
  return [median(all), ratios.map(median)];
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      rows: { type: "string", default: "" },
      rounds: { type: "string", default: "9" },
      ms: { type: "string", default: "40" },
      save: { type: "boolean", default: false },
    },
  });
  ensureInstalled();
  setThreads(1);
  if (info().devices.cpu !== "native") throw new Error("the native library is not built");
  const texts = values.rows.split(",");
  const header = ["", "all", ...Object.keys(ALL_PASSES).map((name) => `no ${name}`)];
  const lines: string[][] = [];
  for (const work of [...fromRows(), ...assembled()]) {
    if (!texts.some((text) => work.name.includes(text))) continue;
    const [all, ratios] = measure(work, Number(values.rounds), Number(values.ms));
    lines.push([work.name, formatNs(all * 1e6), ...ratios.map(formatRatio)]);
    console.error(lines.at(-1)!.join("  "));
  }
  const text = toTable([header, ...lines], true);
  console.log(text);
  if (values.save) writeTable("docs/benchmarks.md", text, "improvements");
  process.exit(0);
}
