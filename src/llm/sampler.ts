/**
 * Samples tokens from logits.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { tokensIn } from "../tokenizers/text_stream.ts";
import { checkOptions } from "../table/infer.ts";
import * as random from "../api/random.ts";

/** Options of sampling, in the order in which they are applied. */
export interface SamplerOptions {
  /**
   * The divisor of positive logits of earlier tokens, and the factor of negative ones; 1, without
   * effect, by default.
   */
  readonly repetitionPenalty?: number | undefined;
  /** The number of last tokens to which the penalty applies; all by default. */
  readonly repetitionWindow?: number | undefined;
  /** The divisor of logits; 0, the default, selects the most likely token. */
  readonly temperature?: number | undefined;
  /** Keeps only the K most likely tokens; 0, the default, keeps all. */
  readonly topK?: number | undefined;
  /** Keeps only the most likely tokens up to this sum of probabilities; 1 by default. */
  readonly topP?: number | undefined;
  /** Keeps only tokens with at least this fraction of the largest probability; 0 by default. */
  readonly minP?: number | undefined;
  /** The seed of the random numbers; a new one by default. */
  readonly seed?: number | bigint | undefined;
}

/** The names of all options. */
export const SAMPLER_OPTIONS: readonly (keyof SamplerOptions)[] = [
  "repetitionPenalty",
  "repetitionWindow",
  "temperature",
  "topK",
  "topP",
  "minP",
  "seed",
];

function check(
  name: string,
  value: unknown,
  fits: (value: number) => boolean,
  what: string,
): void {
  if (typeof value === "number" && fits(value)) return;
  throw new ArgumentError(`Cannot sample with ${name} ${describe(value)}: it is ${what}`);
}

/** The first index of the greatest element; NaN counts as less than all. */
function indexOfGreatest(logits: Float32Array): number {
  let best = -1, most = -Infinity;
  for (let i = 0; i < logits.length; i++) {
    const x = logits[i]!;
    if (x > most || best < 0 && x === most) {
      most = x;
      best = i;
    }
  }
  return Math.max(best, 0);
}

/** The indices of at least the `count` greatest of `from`, in falling order; ties by index. */
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

/**
 * Chooses tokens by logits, as transformers does: repetition penalty, temperature, `topK`, `topP`,
 * `minP`. The same seed and the same logits give the same tokens on all machines.
 *
 * @example
 * ```ts
 * const sampler = new llm.Sampler({ temperature: 0.8, topK: 2, seed: 1 });
 * const logits = new Float32Array([1, 5, 4.5, -2]);
 * [1, 2].includes(sampler.sample(logits)); // => true
 * new llm.Sampler().sample(logits); // => 1
 * ```
 */
export class Sampler {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Sampler";
  }

  readonly #penalty: number;
  readonly #window: number;
  readonly #temperature: number;
  readonly #topK: number;
  readonly #topP: number;
  readonly #minP: number;
  readonly #key: random.Key;
  /** The tokens chosen so far. */
  #count = 0;

  /** Throws an ArgumentError for options outside of their ranges. */
  constructor(options: SamplerOptions = {}) {
    checkOptions("sample", options, SAMPLER_OPTIONS);
    const {
      repetitionPenalty = 1,
      repetitionWindow = Infinity,
      temperature = 0,
      topK = 0,
      topP = 1,
      minP = 0,
      seed,
    } = options;
    const isCount = (n: number): boolean => n >= 0 && (Number.isInteger(n) || n === Infinity);
    check("repetitionPenalty", repetitionPenalty, (x) => x > 0 && x < Infinity, "greater than 0");
    check("repetitionWindow", repetitionWindow, isCount, "an integer of at least 0");
    check("temperature", temperature, (x) => x >= 0 && x < Infinity, "a number of at least 0");
    check("topK", topK, isCount, "an integer of at least 0");
    check("topP", topP, (x) => x > 0 && x <= 1, "greater than 0, and at most 1");
    check("minP", minP, (x) => x >= 0 && x <= 1, "between 0 and 1");
    this.#penalty = repetitionPenalty;
    this.#window = repetitionWindow;
    this.#temperature = temperature;
    this.#topK = topK;
    this.#topP = topP;
    this.#minP = minP;
    this.#key = random.key(seed ?? crypto.getRandomValues(new BigUint64Array(1))[0]!);
  }

  /**
   * A token. `logits` has one for each token, and may be changed; `seen` are the tokens of the text so
   * far, which the repetition penalty needs.
   */
  sample(logits: Float32Array, seen: readonly number[] = []): number {
    if (!(logits instanceof Float32Array) || logits.length === 0) {
      throw new ArgumentError(`Cannot sample by ${describe(logits)}: it takes a Float32Array`);
    }
    this.#penalize(logits, seen);
    if (this.#temperature === 0) return indexOfGreatest(logits);
    const best = logits[indexOfGreatest(logits)]!;
    // All logits are -Infinity or NaN, or one is Infinity: there are no probabilities.
    if (!Number.isFinite(best)) return indexOfGreatest(logits);
    const weightOf = (i: number): number => Math.exp((logits[i]! - best) / this.#temperature);
    let candidates = this.#likely(logits, best);
    if (this.#topK > 0 && this.#topK < candidates.length) {
      candidates = greatest(logits, candidates, this.#topK);
    }
    if (this.#topP < 1) candidates = this.#nucleus(logits, candidates, weightOf);
    if (this.#minP > 0) candidates = candidates.filter((i) => weightOf(i) >= this.#minP);
    const total = candidates.reduce((sum, i) => sum + weightOf(i), 0);
    using part = random.uniform(random.foldIn(this.#key, this.#count++), [], { dtype: "float64" });
    let left = part.item() * total;
    for (const i of candidates) {
      left -= weightOf(i);
      if (left < 0) return i;
    }
    return candidates.at(-1)!;
  }

  #penalize(logits: Float32Array, seen: readonly number[]): void {
    if (this.#penalty === 1 || this.#window === 0) return;
    const tokens = tokensIn(seen);
    for (const id of new Set(tokens.slice(Math.max(0, tokens.length - this.#window)))) {
      const x = logits[id];
      if (x !== undefined) logits[id] = x > 0 ? x / this.#penalty : x * this.#penalty;
    }
  }

  /** The tokens whose weights are more than 0 in float64. */
  #likely(logits: Float32Array, best: number): number[] {
    const least = best - 745 * this.#temperature;
    const made: number[] = [];
    for (let i = 0; i < logits.length; i++) if (logits[i]! >= least) made.push(i);
    return made;
  }

  /** The most likely candidates whose weights reach `topP` of all. */
  #nucleus(
    logits: Float32Array,
    candidates: readonly number[],
    weightOf: (i: number) => number,
  ): number[] {
    const wanted = this.#topP * candidates.reduce((sum, i) => sum + weightOf(i), 0);
    for (let count = FIRST_CANDIDATES;; count *= 8) {
      const sorted = greatest(logits, candidates, count);
      let sum = 0;
      for (let k = 0; k < sorted.length; k++) {
        sum += weightOf(sorted[k]!);
        if (sum >= wanted) return sorted.slice(0, k + 1);
      }
      if (sorted.length === candidates.length) return sorted;
    }
  }
}
