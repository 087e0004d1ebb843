/**
 * What each improvement of compiled programs is worth: each program with all of them, and without
 * each. A ratio of 1.5 means that the program takes half as long again without.
 *
 * @module
 */
import { compile } from "../../src/compile/mod.ts";
import { ALL_PASSES } from "../../src/compile/optimize.ts";
import { type AnyTensor, type Input, keyOf, type ServedRow, type Suite } from "../harness/suite.ts";
import { type Program, PROGRAMS } from "./programs.ts";

/** Rows of the suite "programs" in which improvements take part. */
const NAMES = [
  "chains/relu(a * b + c)",
  "chains/sum of (a - b)² along rows",
  "chains/exp(x - max) / sum along rows",
  "MLP/784-256-128-10, batch 16",
  "encoder/1×16",
  "encoder/1×128",
];

const input = (bound: number, ...shape: number[]): Input => ({
  ...{ dtype: "float32", kind: "uniform", shape },
  ...{ low: -bound, high: bound },
});

type Part = Pick<Program, "name" | "inputs" | "args" | "program">;

/** Functions as they are when they are assembled from parts. */
const inputs = {
  x: input(1, 16, 384),
  v: input(0.1, 384, 1536),
  w: input(0.1, 384, 1536),
};
const ASSEMBLED: readonly Part[] = [
  {
    ...{ name: "a result that nothing reads", inputs, args: ["x"] },
    program: ({ v, w }) => (x) => {
      x.matmul(v!).gelu();
      return x.matmul(w!);
    },
  },
  {
    ...{ name: "two branches that normalize their input", inputs, args: ["x"] },
    program: ({ v, w }) => (x) => x.layerNorm(-1).matmul(v!).add(x.layerNorm(-1).matmul(w!)),
  },
  {
    ...{ name: "a weight that is scaled", inputs, args: ["x"] },
    program: ({ w }) => (x) => x.matmul(w!.mul(0.5)),
  },
];

const ALL = "with all";

function rowOf(group: string, { name, inputs, args, program }: Part): ServedRow {
  return {
    ...{ group, name, inputs, statements: {} },
    call: (x, way) => {
      const optimize = way === ALL ? {} : { [way.replace("no ", "")]: false };
      const compiled = compile(program(x), { optimize });
      const given = args.map((name) => x[name]!);
      return { run: () => (compiled(...given) as AnyTensor).dispose() };
    },
  };
}

/** The suite. */
export const suite: Suite = {
  title: "Compiled programs without each improvement",
  groups: { programs: "programs of the bench", assembled: "functions assembled from parts" },
  rows: [
    ...PROGRAMS.filter((program) => NAMES.includes(keyOf(program)))
      .map((program) => rowOf("programs", program)),
    ...ASSEMBLED.map((part) => rowOf("assembled", part)),
  ],
  ways: [ALL, ...Object.keys(ALL_PASSES).map((name) => `no ${name}`)],
  baseline: ALL,
  ...{ rounds: 9, ms: 40, threads: [1] },
  beside: "fastest",
  lines: "row",
};
