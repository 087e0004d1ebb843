/**
 * Rows of attention that hidden keys made NaN, in JavaScript: the definition.
 *
 * @module
 */
import {
  type AttentionProblem,
  attentionRowsOf,
  type HeadBatch,
} from "../../ops/attention/problem.ts";
import { offsetsOf } from "../../ops/matmul/problem.ts";
import type { Call } from "../../table/op.ts";

/** The elements of an operand of float32, float64 or bool, by problem, head of the group and row. */
class Heads {
  readonly array: Float64Array;
  readonly step: number;
  readonly #offsets: ArrayLike<number>;
  readonly #group: number;
  readonly #row: number;

  constructor({ matrices, groupStride }: HeadBatch) {
    // All of these dtypes have numbers.
    this.array = matrices.storage.array as Float64Array;
    this.step = matrices.columnStride;
    this.#offsets = offsetsOf(matrices);
    this.#group = groupStride;
    this.#row = matrices.rowStride;
  }

  /** The index of the first element of a row. */
  at(problem: number, head: number, row: number): number {
    return this.#offsets[problem]! + head * this.#group + row * this.#row;
  }
}

/** A call: its problems, and their operands. */
interface Problems extends AttentionProblem {
  readonly heads: Readonly<Record<"out" | "q" | "k" | "v", Heads>>;
  readonly masks: Heads | null;
  readonly isBool: boolean;
}

/** The scores of the keys that a query sees, by key. */
function scoresOf(problems: Problems, p: number, head: number, i: number): Map<number, number> {
  const { m, n, d, scale, causal, softCap, heads: { q, k }, masks, isBool } = problems;
  const query = q.at(p, head, i);
  const mask = masks === null ? 0 : masks.at(p, head, i);
  const scores = new Map<number, number>();
  for (let j = 0; j < n; j++) {
    const given = masks === null ? 0 : Number(masks.array[mask + j * masks.step]);
    const hidden = isBool ? given === 0 : given === -Infinity;
    if (hidden || (causal && j > i + n - m)) continue;
    const key = k.at(p, 0, j);
    let sum = 0;
    for (let c = 0; c < d; c++) sum += q.array[query + c * q.step]! * k.array[key + c * k.step]!;
    const score = softCap === undefined ? sum * scale : Math.tanh(sum * scale / softCap) * softCap;
    scores.set(j, score + (isBool ? 0 : given));
  }
  return scores;
}

/** Computes a row from the keys that its query sees. */
function attendSeen(problems: Problems, p: number, head: number, i: number): void {
  const { dv, heads: { out, v } } = problems;
  const scores = scoresOf(problems, p, head, i);
  let most = -Infinity, total = 0;
  for (const score of scores.values()) if (score > most) most = score;
  const sums = new Float64Array(dv);
  for (const [j, score] of scores) {
    const weight = Math.exp(score - (most === -Infinity ? 0 : most));
    const value = v.at(p, 0, j);
    total += weight;
    for (let c = 0; c < dv; c++) sums[c]! += weight * v.array[value + c * v.step]!;
  }
  const to = out.at(p, head, i);
  for (let c = 0; c < dv; c++) out.array[to + c * out.step] = total === 0 ? 0 : sums[c]! / total;
}

/** Computes rows with NaN again, from the keys that they see. */
export function attentionRows(call: Call): void {
  const problem = attentionRowsOf(call);
  const { batch, groupSize, m, dv, mask } = problem;
  const heads = {
    out: new Heads(problem.out),
    q: new Heads(problem.q),
    k: new Heads(problem.k),
    v: new Heads(problem.v),
  };
  const isBool = mask?.matrices.storage.info.kind === "b";
  const problems = { ...problem, heads, masks: mask && new Heads(mask), isBool };
  const { array, step } = heads.out;
  for (let p = 0; p < batch; p++) {
    for (let head = 0; head < groupSize; head++) {
      for (let i = 0; i < m; i++) {
        const from = heads.out.at(p, head, i);
        let c = 0;
        while (c < dv && !Number.isNaN(array[from + c * step])) c++;
        if (c < dv) attendSeen(problems, p, head, i);
      }
    }
  }
}
