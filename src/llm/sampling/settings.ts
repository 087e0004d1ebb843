/**
 * Options of sampling, checked, and what they make of logits.
 *
 * @module
 */
import * as random from "../../api/random.ts";
import { philox4x32 } from "../../backend/js/philox.ts";
import type { RowSettings } from "../../backend/js/sampling.ts";
import { ArgumentError } from "../../base/errors.ts";
import { lengthOf } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { checkOptions } from "../../table/infer.ts";

/** Options of sampling, in the order in which they are applied. */
export interface SamplerOptions {
  /**
   * Numbers from −100 to 100 that are added to the logits of tokens, by their ids; −Infinity bans a
   * token. None by default.
   */
  readonly logitBias?: Readonly<Record<number, number>> | ReadonlyMap<number, number> | undefined;
  /**
   * The divisor of positive logits of earlier tokens, and the factor of negative ones; 1, without
   * effect, by default.
   */
  readonly repetitionPenalty?: number | undefined;
  /** The number of last tokens to which the repetition penalty applies; all by default. */
  readonly repetitionWindow?: number | undefined;
  /**
   * From −2 to 2: what is subtracted once from the logits of all tokens that were generated, as OpenAI
   * does. 0 by default.
   */
  readonly presencePenalty?: number | undefined;
  /**
   * From −2 to 2: what is subtracted from the logit of a token for each time that it was generated, as
   * OpenAI does. 0 by default.
   */
  readonly frequencyPenalty?: number | undefined;
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
  ...["logitBias", "repetitionPenalty", "repetitionWindow"] as const,
  ...["presencePenalty", "frequencyPenalty", "temperature"] as const,
  ...["topK", "topP", "minP", "seed"] as const,
];

/** The checked options. */
export interface SamplingSettings {
  readonly bias: ReadonlyMap<number, number>;
  /** The repetition penalty, and its window. */
  readonly penalty: number;
  readonly window: number;
  readonly presence: number;
  readonly frequency: number;
  readonly row: RowSettings;
  readonly key: random.Key;
}

function check(
  name: string,
  value: unknown,
  fits: (value: number) => boolean,
  what: string,
): void {
  if (typeof value === "number" && fits(value)) return;
  throw new ArgumentError(`Cannot sample with ${name} ${describe(value)}: it is ${what}`);
}

/** The biases of tokens, checked and copied. */
export function biasesOf(given: unknown): ReadonlyMap<number, number> {
  if (typeof given !== "object" || given === null || lengthOf(given) !== undefined) {
    throw new ArgumentError(
      `Cannot sample with logitBias ${describe(given)}: it is an object or a Map of numbers by ` +
        "the ids of tokens",
    );
  }
  const made = new Map<number, number>();
  const entries: Iterable<readonly [unknown, unknown]> = given instanceof Map
    ? given
    : Object.entries(given);
  for (const [key, value] of entries) {
    const id = typeof key === "string" && /^\d+$/.test(key) ? Number(key) : key;
    if (!Number.isSafeInteger(id) || Number(id) < 0) {
      throw new ArgumentError(
        `Cannot sample with logitBias of token ${describe(key)}: tokens are integers of at least 0`,
      );
    }
    const fits = (x: number): boolean => x >= -100 && x <= 100 || x === -Infinity;
    check(`logitBias of token ${id}:`, value, fits, "from -100 to 100, or -Infinity");
    made.set(Number(id), Number(value));
  }
  return made;
}

/**
 * The options, checked and copied.
 *
 * @throws {ArgumentError} For options outside of their ranges.
 */
export function settingsOf(options: SamplerOptions): SamplingSettings {
  checkOptions("sample", options, SAMPLER_OPTIONS);
  const {
    logitBias = {},
    repetitionPenalty: penalty = 1,
    repetitionWindow: window = Infinity,
    presencePenalty: presence = 0,
    frequencyPenalty: frequency = 0,
    temperature = 0,
    topK = 0,
    topP = 1,
    minP = 0,
    seed,
  } = options;
  const isCount = (n: number): boolean => n >= 0 && (Number.isInteger(n) || n === Infinity);
  const isPenalty = (x: number): boolean => x >= -2 && x <= 2;
  check("repetitionPenalty", penalty, (x) => x > 0 && x < Infinity, "greater than 0");
  check("repetitionWindow", window, isCount, "an integer of at least 0");
  check("presencePenalty", presence, isPenalty, "from -2 to 2");
  check("frequencyPenalty", frequency, isPenalty, "from -2 to 2");
  check("temperature", temperature, (x) => x >= 0 && x < Infinity, "a number of at least 0");
  check("topK", topK, isCount, "an integer of at least 0");
  check("topP", topP, (x) => x > 0 && x <= 1, "greater than 0, and at most 1");
  check("minP", minP, (x) => x >= 0 && x <= 1, "between 0 and 1");
  // The inverse of the least temperatures is finite too, times log2(e): 0 · Infinity is NaN.
  const inverse = temperature === 0 ? 0 : Math.min(1 / temperature, Number.MAX_VALUE / 2);
  return {
    bias: biasesOf(logitBias),
    ...{ penalty, window, presence, frequency },
    row: { inverse, topK: topK === Infinity ? 0 : topK, topP, minP },
    key: random.key(seed ?? crypto.getRandomValues(new BigUint64Array(1))[0]!),
  };
}

/** Throws an ArgumentError for biases of tokens that a vocabulary does not have. */
export function checkBiases({ bias }: SamplingSettings, vocabulary: number): void {
  for (const id of bias.keys()) {
    if (id < vocabulary) continue;
    throw new ArgumentError(
      `Cannot sample with logitBias of token ${id}: the vocabulary has ${vocabulary} tokens`,
    );
  }
}

/** The random number from 0 to below 1 of the token at a position of the generated text. */
export function partAt({ key }: SamplingSettings, position: number): number {
  const { word0, word1 } = random.foldIn(key, position);
  // The first float64 of random.uniform.
  const [low, high] = philox4x32(word0, word1, 0, 0, 0, 0);
  return (high! * 2 ** 21 + (low! >>> 11)) * 2 ** -53;
}

/**
 * What changes the logit of a token: its bias, the factor of repetition, and what is subtracted if it
 * was generated `count` times.
 */
export function changeOf(
  { bias, penalty, presence, frequency }: SamplingSettings,
  id: number,
  isRecent: boolean,
  count: number,
): readonly [bias: number, factor: number, subtracted: number] {
  const subtracted = count > 0 ? presence + frequency * count : 0;
  return [bias.get(id) ?? 0, isRecent ? penalty : 1, subtracted];
}
