/**
 * Measures the rows of a suite: sides take turns, row by row and round by round, so that a slow spell
 * of the machine weighs on all of them.
 *
 * Knows nothing of tables or files.
 *
 * @module
 */
import { type Figure, keyOf, type Row, type Side, type Suite } from "./suite.ts";

/** The figures of a row, one for each round, by the names of sides. */
export interface Timing {
  readonly row: Row;
  readonly threads: number;
  /** Absent if a side has no such row. */
  readonly figures: Readonly<Record<string, readonly Figure[]>>;
}

/** How rows are measured, and who hears of it. */
export interface Effort {
  readonly threads: number;
  readonly rounds: number;
  readonly progress: (text: string) => void;
  /** A row that a side cannot do, or whose result disagrees: the side has no figure for it. */
  readonly fail: (message: string) => void;
}

/** The time in ms that workers of OpenBLAS and ONNX Runtime keep a core busy after a call. */
const SPINNING = 120;

/**
 * How much results may differ, relative to the expected number plus the mean of their sizes. Each side of a
 * deep network in float32 is up to 1e-4 from the exact one.
 */
export const TOLERANCE = 2e-4;

/** Why two results disagree, if they do. */
export function disagreement(result: Float32Array, expected: Float32Array): string | undefined {
  if (result.length !== expected.length) {
    return `${result.length} elements instead of ${expected.length}`;
  }
  const mean = expected.reduce((sum, x) => sum + Math.abs(x), 0) / Math.max(1, expected.length);
  for (const [i, x] of expected.entries()) {
    const error = Math.abs(result[i]! - x);
    // Written so that NaN disagrees.
    if (!(error <= TOLERANCE * (Math.abs(x) + mean))) return `${result[i]} instead of ${x} at ${i}`;
  }
  return undefined;
}

/** Prepares a row everywhere and compares the results; returns the sides that agree. */
async function prepare(row: Row, sides: readonly Side[], { fail }: Effort): Promise<Side[]> {
  const agreeing: Side[] = [];
  let expected: Float32Array | undefined;
  for (const side of sides.filter((side) => side.has(row))) {
    let result: Float32Array | undefined;
    try {
      result = await side.prepare(row);
    } catch (error) {
      fail(`${side.name} cannot do "${keyOf(row)}": ${(error as Error).message}`);
      continue;
    }
    const problem = expected && result && disagreement(result, expected);
    if (problem === undefined) agreeing.push(side);
    else fail(`${side.name} disagrees with ${agreeing[0]!.name} in "${keyOf(row)}": ${problem}`);
    expected ??= result;
  }
  return agreeing;
}

/** The rows that are measured together: one, or those of a group. */
interface Step {
  readonly rows: readonly Row[];
  sides: Side[];
  /** The result of the first side, if sides of a whole suite have results. */
  expected?: Float32Array;
}

/**
 * Measures rows, group by group, so that the small calls do not run in a heap full of large arrays
 * of other groups.
 */
export async function measureRows(
  suite: Suite,
  rows: readonly Row[],
  sides: readonly Side[],
  effort: Effort,
): Promise<Timing[]> {
  const { threads, rounds, progress, fail } = effort;
  const figures = new Map<Row, Record<string, Figure[]>>(rows.map((row) => [row, {}]));
  for (const group of new Set(rows.map((row) => row.group))) {
    const mine = rows.filter((row) => row.group === group);
    const steps: Step[] = [];
    for (const together of suite.whole ? [mine] : mine.map((row) => [row])) {
      progress(`preparing ${keyOf(together[0]!)}`);
      steps.push({ rows: together, sides: await prepare(together[0]!, sides, effort) });
    }
    for (let round = 0; round < rounds; round++) {
      for (const step of steps) {
        const name = suite.whole ? group : keyOf(step.rows[0]!);
        progress(`${threads} threads, round ${round + 1} of ${rounds}: ${name}`);
        // Each round starts with another side.
        const turns = step.sides.map((_, i, all) => all[(i + round) % all.length]!);
        for (const side of turns) {
          try {
            const { figures: made, result } = await side.measure(step.rows);
            const problem = result && step.expected &&
              disagreement(Float32Array.from(result), step.expected);
            if (problem !== undefined) throw new Error(`its result has ${problem}`);
            if (result !== undefined) step.expected ??= Float32Array.from(result);
            for (const row of step.rows) {
              const figure = made[row.name];
              if (figure !== undefined) (figures.get(row)![side.name] ??= []).push(figure);
            }
          } catch (error) {
            fail(`${side.name} cannot do "${name}": ${(error as Error).message}`);
            step.sides = step.sides.filter((other) => other !== side);
            for (const row of step.rows) delete figures.get(row)![side.name];
          }
          if (side.spins && threads > 1 && (suite.spins?.test(keyOf(step.rows[0]!)) ?? true)) {
            await new Promise((resolve) => setTimeout(resolve, SPINNING));
          }
        }
      }
    }
  }
  return rows.map((row) => ({ row, threads, figures: figures.get(row)! }));
}
