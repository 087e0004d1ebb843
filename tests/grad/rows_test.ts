/**
 * Derivatives of every row of the op table, first and second ones, beside central differences.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import "../../mod.ts";
import "../../src/nn/mod.ts";
import { grad } from "../../src/grad/mod.ts";
import { dispatch } from "../../src/core/dispatch.ts";
import { isTableOp, OPS, type TableOp } from "../../src/table/op.ts";
import { loose } from "../support.ts";
import { float64, numbers, type T, weighted, worstDifference } from "./differences.ts";

/** Rows that have no derivative, by operand. */
const NONE = ["zeta by operand 0"];

/** Values of parameters of rows. */
const PARAMETERS: Readonly<Record<string, number>> = {
  count: 3,
  ord: 3,
  threshold: 0.5,
  beta: 1.2,
  min: -1,
  max: 1,
  low: -1,
  high: 1,
  correction: 0,
};

/** Rows whose operands are positive, or in another interval than their `domain`. */
const INTERVALS: Readonly<Record<string, readonly [number, number]>> = {
  pow: [0.2, 3],
  xlogy: [0.2, 3],
  xlog1py: [0.2, 3],
  nn_klDiv: [0.2, 0.9],
  nn_klDivLog: [-2, 0.5],
  nn_binaryCrossEntropy: [0.1, 0.9],
  nn_lengths: [0.2, 3],
  nn_localResponse: [0.2, 3],
  normP: [0.2, 3],
  zeta: [1.5, 4],
};

const rows = [...OPS.values()].filter(isTableOp).filter((op) =>
  op.dtypes.includes("f") && op.result !== "bool" && op.result !== "int32" &&
  op.kind !== "argReduce"
);

interface Case {
  readonly params: readonly T[];
  /** The places of the parameters among the operands. */
  readonly wanted: readonly number[];
  readonly value: (params: readonly T[]) => T;
}

function caseOf(op: TableOp, next: () => number): Case {
  const [low, high] = INTERVALS[op.name] ??
    [Math.max(op.domain[0], -3), Math.min(op.domain[1], 3)];
  const isMap = op.kind === "map";
  const shape = isMap ? [6] : [3, 2];
  const operands: T[] = Array.from({ length: op.arity }, (_, k) => {
    const own = k === 1 && !isMap ? [1, 2] : shape;
    const size = own.reduce((a, b) => a * b, 1);
    const data = Array.from(
      { length: size },
      () => low + (high - low) * (0.05 + 0.9 * next()),
    );
    if (isMap && op.condition && k === 0) {
      return float64(data.map((_, i) => i % 2), own).astype("bool");
    }
    if (op.name === "clip" && k > 0) return float64(data.map(() => k === 1 ? -1.1 : 1.2), own);
    return float64(data, own);
  });
  const numbersOf = op.parameters.map((name) => [name, PARAMETERS[name] ?? 0.7]);
  const attributes = {
    ...Object.fromEntries(numbersOf),
    ...isMap ? {} : { axis: op.kind === "scan" ? 0 : [0], correction: 0 },
  };
  const wanted = operands.flatMap((x, k) => x.dtype === "float64" ? [k] : []);
  const value = (params: readonly T[]): T => {
    const all = operands.slice();
    wanted.forEach((place, i) => all[place] = params[i]);
    return weighted([dispatch(op, all, attributes)]);
  };
  return { params: wanted.map((place) => operands[place]), wanted, value };
}

test("the derivative of every row is that of differences", () => {
  const next = numbers(1);
  const wrong: string[] = [];
  for (const op of rows) {
    const { params, wanted, value } = caseOf(op, next);
    const missing = wanted.filter((place) => NONE.includes(`${op.name} by operand ${place}`));
    if (missing.length > 0) continue;
    const { error, at } = worstDifference(value, params);
    if (!(error < 1e-6)) wrong.push(`${op.name}: ${at}`);
  }
  assertEquals(wrong, []);
  assert(rows.length > 140, `${rows.length} rows`);
});

test("the second derivative of every row is that of differences of the first", () => {
  const next = numbers(2);
  const wrong: string[] = [];
  for (const op of rows) {
    const { params, wanted, value } = caseOf(op, next);
    if (wanted.some((place) => NONE.includes(`${op.name} by operand ${place}`))) continue;
    const slope = (own: readonly T[]): T => weighted(loose(grad)(value)(own));
    const { error, at } = worstDifference(slope, params);
    if (!(error < 1e-5)) wrong.push(`${op.name}: ${at}`);
  }
  assertEquals(wrong, []);
});
