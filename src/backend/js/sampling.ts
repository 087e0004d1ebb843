/**
 * The choice of tokens by rows of logits: the definition of the op `sampleRows`.
 *
 * Weights are whole numbers, in doubles: the exponentials, rounded to a multiple of a power of two.
 * Their sums are exact in any order, and the arithmetic has one right answer, so that all backends
 * choose the same tokens. shim/cpu/sort/sample.c takes the same steps.
 *
 * @module
 */
import type { Call } from "../../table/op.ts";

/** The places of the numbers of a row: an input of the op, float64 [rows, {@link ROW_NUMBERS}]. */
export const ROW = { inverse: 0, topK: 1, topP: 2, minP: 3, part: 4, changes: 5 } as const;

/** How many numbers a row has. */
export const ROW_NUMBERS = 6;

/** How many numbers a change of a logit has: bias, factor and what is subtracted. */
export const CHANGE_NUMBERS = 3;

/** How a token is chosen. */
export interface RowSettings {
  /** 1 / temperature; 0 chooses the first of the greatest logits. */
  readonly inverse: number;
  /** How many of the most likely tokens are kept; 0 for all. */
  readonly topK: number;
  /** The sum of probabilities of the most likely tokens that are kept. */
  readonly topP: number;
  /** The least fraction of the largest probability that is kept. */
  readonly minP: number;
}

/** Weights are whole multiples of 2^-40 of the largest one at most, and their sums are below 2^52. */
const [MOST_BITS, SUM_BITS] = [40, 52];

/** Weights of so many halvings are 0. */
const LEAST = -44;

/** Added to a double of less than 2^51 and subtracted again, it rounds to an integer. */
const ROUND = 1.5 * 2 ** 52;

/** The largest weight of a vocabulary. */
function scaleOf(vocabulary: number): number {
  let [bits, size] = [SUM_BITS, 1];
  for (; size < vocabulary; size *= 2) bits--;
  return 2 ** Math.min(MOST_BITS, bits);
}

/** The weights of logits: exp((logit − best) · inverse) · scale, as whole numbers; 0 of NaN. */
function weigh(logits: Float32Array, best: number, inverse: number, scale: number): Float64Array {
  const powers = Float64Array.from({ length: 1 - LEAST }, (_, i) => scale * 2 ** (i + LEAST));
  const weights = new Float64Array(logits.length), factor = inverse * Math.LOG2E;
  for (let i = 0; i < logits.length; i++) {
    const exponent = (logits[i]! - best) * factor;
    if (!(exponent > LEAST)) continue;
    const n = (exponent + ROUND) - ROUND;
    const r = exponent - n;
    // (2^r − 1) / r, with an error of 4e-9.
    let q = 1.5352154e-4 * r + 1.339909e-3;
    q = q * r + 9.618443e-3;
    q = q * r + 5.5503324e-2;
    q = q * r + 2.4022648e-1;
    q = q * r + 6.931472e-1;
    weights[i] = ((q * r + 1) * powers[n - LEAST]! + ROUND) - ROUND;
  }
  return weights;
}

/** The first index of the greatest element; -1 if all are -Infinity or NaN. */
function indexOfGreatest(logits: Float32Array): number {
  let best = -1, most = -Infinity;
  for (let i = 0; i < logits.length; i++) {
    if (logits[i]! > most) {
      most = logits[i]!;
      best = i;
    }
  }
  return best;
}

/** The indices of at most `count` greatest of `from`, in falling order; ties by index. */
function greatest(logits: Float32Array, from: readonly number[], count: number): number[] {
  const order = (a: number, b: number): number => logits[b]! - logits[a]! || a - b;
  if (count >= from.length) return from.slice().sort(order);
  // A heap whose root is the last of those that are kept.
  const heap: number[] = [];
  const isAfter = (a: number, b: number): boolean => order(a, b) > 0;
  const sink = (): void => {
    for (let i = 0;;) {
      let last = i;
      for (const child of [2 * i + 1, 2 * i + 2]) {
        if (child < heap.length && isAfter(heap[child]!, heap[last]!)) last = child;
      }
      if (last === i) return;
      [heap[i], heap[last]] = [heap[last]!, heap[i]!];
      i = last;
    }
  };
  for (const one of from) {
    if (heap.length === count) {
      if (!isAfter(heap[0]!, one)) continue;
      heap[0] = one;
      sink();
      continue;
    }
    let i = heap.push(one) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!isAfter(heap[i]!, heap[parent]!)) break;
      [heap[i], heap[parent]] = [heap[parent]!, heap[i]!];
      i = parent;
    }
  }
  return heap.sort(order);
}

/** How many candidates are sorted at first, to find those that `topP` keeps. */
const FIRST_CANDIDATES = 64;

/** The most likely of `candidates` whose weights reach `topP` of all. */
function nucleus(
  logits: Float32Array,
  weights: Float64Array,
  candidates: readonly number[],
  topP: number,
): number[] {
  const wanted = topP * candidates.reduce((sum, i) => sum + weights[i]!, 0);
  for (let count = FIRST_CANDIDATES;; count *= 8) {
    const sorted = greatest(logits, candidates, count);
    let sum = 0;
    for (let k = 0; k < sorted.length; k++) {
      sum += weights[sorted[k]!]!;
      if (sum >= wanted) return sorted.slice(0, k + 1);
    }
    if (sorted.length === candidates.length) return sorted;
  }
}

/**
 * A token, by a random number `part` from 0 to below 1; -1 if all logits are -Infinity or NaN. Tokens
 * that are kept share the numbers in the order of their ids.
 */
export function chooseToken(
  logits: Float32Array,
  { inverse, topK, topP, minP }: RowSettings,
  part: number,
): number {
  const first = indexOfGreatest(logits);
  if (first < 0 || inverse === 0 || logits[first] === Infinity) return first;
  const scale = scaleOf(logits.length);
  const weights = weigh(logits, logits[first]!, inverse, scale);
  let kept: number[] = [];
  for (let i = 0; i < weights.length; i++) if (weights[i]! > 0) kept.push(i);
  if (topK > 0 && topK < kept.length) kept = greatest(logits, kept, topK);
  if (topP < 1) kept = nucleus(logits, weights, kept, topP);
  // Those that a limit has sorted.
  if (topK > 0 || topP < 1) kept.sort((a, b) => a - b);
  if (minP > 0) kept = kept.filter((i) => weights[i]! >= minP * scale);
  const target = part * kept.reduce((sum, i) => sum + weights[i]!, 0);
  let sum = 0;
  for (const i of kept) {
    sum += weights[i]!;
    if (sum > target) return i;
  }
  return kept.at(-1)!;
}

/** A logit with a change: a bias, a factor of negative logits that divides positive ones, a penalty. */
export function changedLogit(
  logit: number,
  bias: number,
  factor: number,
  subtracted: number,
): number {
  const x = logit + bias;
  return Math.fround((x > 0 ? x / factor : x * factor) - subtracted);
}

/** The place of the first element of an input, which is contiguous, and of the one after the last. */
function rangeOf(call: Call, k: number): [begin: number, end: number] {
  const { offset, size } = call.operand(k).layout;
  return [offset, offset + size];
}

/** Writes a token for each row of logits. */
export function sampleRows(call: Call): void {
  const [count, vocabulary] = call.operand(0).layout.shape as [number, number];
  const arrayOf = (k: number): unknown => call.operand(k).storage.array;
  const logits = (arrayOf(0) as Float32Array).subarray(...rangeOf(call, 0));
  const numbers = (arrayOf(1) as Float64Array).subarray(...rangeOf(call, 1));
  const ids = (arrayOf(2) as Int32Array).subarray(...rangeOf(call, 2));
  const changes = (arrayOf(3) as Float64Array).subarray(...rangeOf(call, 3));
  const mask = call.inputs[4] === undefined
    ? undefined
    : (arrayOf(4) as Int32Array).subarray(...rangeOf(call, 4));
  const room = ids.length / count;
  const { storage, layout: { offset } } = call.outputs[0]!;
  const out = storage.array as Int32Array;
  for (let row = 0; row < count; row++) {
    const own = logits.slice(row * vocabulary, (row + 1) * vocabulary);
    const at = row * ROW_NUMBERS;
    const changed = Math.min(numbers[at + ROW.changes]!, room);
    for (let k = row * room; k < row * room + changed; k++) {
      const id = ids[k]!, c = k * CHANGE_NUMBERS;
      if (id < 0 || id >= vocabulary) continue;
      own[id] = changedLogit(own[id]!, changes[c]!, changes[c + 1]!, changes[c + 2]!);
    }
    if (mask !== undefined) {
      const words = mask.length / count;
      for (let i = 0; i < vocabulary; i++) {
        if ((mask[row * words + (i >> 5)]! >>> (i & 31) & 1) === 0) own[i] = -Infinity;
      }
    }
    const settings = {
      inverse: numbers[at + ROW.inverse]!,
      topK: numbers[at + ROW.topK]!,
      topP: numbers[at + ROW.topP]!,
      minP: numbers[at + ROW.minP]!,
    };
    out[offset + row] = chooseToken(own, settings, numbers[at + ROW.part]!);
  }
}
