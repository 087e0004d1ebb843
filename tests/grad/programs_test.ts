/**
 * Derivatives of the program of every method and function: those of differences, or an error that names
 * the op. No op with a float result has a derivative of 0 because its elements got there beside the calls.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { arange, DerivativeError, einsum, linalg } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import "../../src/distributed/mod.ts";
import "../../src/llm/mod.ts";
import { valueAndGrad } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import "../../src/onnx/mod.ts";
import { isTableOp, OPS } from "../../src/table/op.ts";
import { RULES, WITHOUT } from "../../src/grad/tape/rule.ts";
import { operands, PROGRAMS } from "../ops/programs.ts";
import { isSampled, RUNS_ALL } from "../support/amount.ts";
import { IN_BUN, runsHere } from "../support/engine.ts";
import { loose } from "../support.ts";
import { float64, floatsIn, numbers, type T, weighted, worstDifference } from "./differences.ts";

/** Programs that read values, keep tensors, or have no tensors of floats as results. */
const ABOUT =
  /^(io\.|nn\.(open|findModel|weights|fuse|fold|KVCache)|random\.)|^(capture|dispose|setBackend|setThreads|cuda|warmUp|into.*|offload|compile|profile|sharesBuffer|ownership|constructor|emptyCache|synchronize|memory|info|read|asDType|pack|digitize)$|Symbol|toString/;
/** Programs whose results jump, or whose operands are outside of their domain here. */
const JUMPS = new Set([
  ...["quantize [int8]", "nn.binaryCrossEntropy", "special.erfinv", "special.erfcinv"],
  ...["special.ndtri", "special.logit", "asin", "acos", "acosh", "atanh"],
]);
/** What programs say that have no derivative. */
const NONE: Readonly<Record<string, string>> = {
  // The number of elements depends on values, and equal ones are one.
  ...Object.fromEntries(
    ["uniqueValues", "uniqueCounts", "uniqueInverse", "uniqueAll", "union", "intersect"]
      .map((name) => [name, "uniqueRuns"]),
  ),
  setdiff: "uniqueRuns",
  setxor: "uniqueRuns",
  mode: "modesOfRows",
  "special.zeta": "zeta by operand 0",
  "linalg.svd": "svd with all vectors",
  // They read values.
  ...Object.fromEntries(
    ["item", "get", "toArray", "toJSON", "toTypedArray", "data", "withPointer"]
      .map((name) => [name, name]),
  ),
};

const SHAPES: Readonly<Record<string, readonly number[]>> = {
  x: [2, 3],
  y: [2, 3],
  v: [3],
  w: [4, 3],
  s: [],
};
const NAMES = Object.keys(SHAPES);

const next = numbers(7);
const BASE: readonly T[] = NAMES.map((name) => {
  const shape = SHAPES[name]!;
  const count = shape.reduce((a, b) => a * b, 1);
  const low = name === "y" ? 0.71 : 0.3;
  return float64(Array.from({ length: count }, () => low + next() * 2), shape);
});

test("programs have the derivatives of differences, or errors that name the op", () => {
  const wrong: string[] = [];
  let checked = 0;
  for (const [name, program] of PROGRAMS) {
    if (ABOUT.test(name) || JUMPS.has(name) || !runsHere(name, 4)) continue;
    if (!isSampled(name, 3)) continue;
    const value = (params: readonly T[]): T => {
      const given = operands();
      NAMES.forEach((own, k) => given[own] = params[k].mul(1));
      const results = floatsIn(program(given));
      // What programs write, too.
      return weighted([...results, ...NAMES.map((own) => given[own])]);
    };
    try {
      const { error, at } = worstDifference(value, BASE, 1e-6);
      checked++;
      if (!(error < 2e-5)) wrong.push(`${name}: ${at}`);
      else if (name in NONE) wrong.push(`${name} has a derivative`);
    } catch (problem) {
      const expected = NONE[name];
      const isExpected = problem instanceof DerivativeError && expected !== undefined &&
        problem.message.includes(expected);
      if (!isExpected) wrong.push(`${name}: ${problem}`);
    }
  }
  assertEquals(wrong, []);
  assert(checked > (RUNS_ALL ? 380 : IN_BUN ? 20 : 100), `${checked} programs`);
});

/** Kernels that are not composed of ops and have no derivative, with the reason. */
const KERNELS: Readonly<Record<string, readonly string[]>> = {
  "their results are integers, or counts": [
    ...["argsort", "argpartition", "nonzeroIndices", "ravelIndex", "runIndices", "isAmong"],
    ...["searchIndices", "binCounts", "histogramCounts", "binIndices", "uniqueTable"],
  ],
  "they round, or hold weights that are constants": [
    ...["packBytes", "unpackBytes", "packBlocks", "quantize", "quantizeInt8", "dequantizeInt8"],
    ...["dequantizeBlocks", "packNibbles", "dequantizeNibbles"],
  ],
  "they draw random numbers": ["categorical", "sampleRows"],
  "parts of ops that have a rule": [
    ...["complexMap", "attentionRows", "tensorOf", "checkpoint", "scatterFold"],
  ],
  "the number or the choice of results depends on values": ["uniqueRuns", "modesOfRows"],
  "eigenvalues of matrices that are not symmetric; use eigh, svd or solve": [
    ...["eig", "eigvals", "lu"],
  ],
  "each process has its own tape; see averageGradients": [
    ...["allReduce", "allGather", "reduceScatter", "broadcast", "allToAll"],
  ],
};

test("every kernel has a rule, is composed of ops, or has a reason", () => {
  const listed = Object.values(KERNELS).flat();
  const without = [...OPS.values()].filter((op) =>
    op.kind === "kernel" && !isTableOp(op) && !RULES.has(op.name) && !WITHOUT.has(op.name) &&
    op.decompose === undefined
  ).map(({ name }) => name);
  // Files of other tests define ops of their own.
  assertEquals(
    without.filter((name) => !listed.includes(name) && !/^(recorded|grad|random[A-Z])/.test(name)),
    [],
  );
});

test("rules are those of ops that exist", () => {
  const unknown = [...RULES.keys(), ...WITHOUT.keys()].filter((name) => !OPS.has(name));
  assertEquals(unknown, []);
  const own = [...OPS.values()].filter((op) => !isTableOp(op) && RULES.has(op.name));
  assert(own.length > 50, `${own.length} rules`);
});

test("programs of derivatives make the results of composed ops in each run", async () => {
  const calls: Readonly<Record<string, (x: T) => T>> = {
    roll: (x) => x.roll(1, 0),
    "roll of an axis of one element": (x) => x.reshape([1, 12]).roll(1, 0),
    "roll of two axes": (x) => x.roll([1, 2], [0, 1]),
    cross: (x) => loose(linalg.cross)(x, x.roll(1, 0).mul(2)),
    "cross of a constant": (x) => loose(linalg.cross)(loose(arange)(12).reshape([4, 3]).add(1), x),
    "einsum of a constant": (x) => loose(einsum)("ij,ik->ijk", loose(arange)(8).reshape([4, 2]), x),
    einsum: (x) => loose(einsum)("ij,kj->ki", x, x),
    "einsum of stacks": (x) => loose(einsum)("ij,ik->ijk", x, x),
    pad: (x) => x.pad(1),
    cumulative: (x) => x.cumulativeProd(0),
    maxPool: (x) => loose(nn.maxPool2d)(x.reshape([1, 1, 4, 3]), 2),
  };
  for (const [name, call] of Object.entries(calls)) {
    const both = loose(valueAndGrad)((x: T) => {
      const made = call(x);
      return [made.square().sum(), made];
    }, { aux: true });
    using program: T = compile((x: T) => both(x));
    const given = [1, 2, 3].map((k) => loose(arange)(12).add(k).div(7).reshape([4, 3]));
    // Results of one run stay what they are in the next one.
    const made = [...given.map((x) => program(x)), ...given.map((x) => program.async(x))];
    for (const [k, results] of (await Promise.all(made)).entries()) {
      const expected = both(given[k % 3]);
      results.forEach((x: T, i: number) => {
        assert(x.allclose(expected[i], { rtol: 1e-5 }), `${name}, run ${k}, result ${i}`);
      });
    }
  }
});
