/**
 * The sizes of Llama-style models.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { ropeAngles, type RopeScaling } from "../nn/mod.ts";

/** The sizes of a Llama-style model, and the variants of its layers. */
export interface LlamaConfig {
  /** The kind of model, such as `llama` or `qwen2`. */
  readonly architecture: string;
  /** The number of layers. */
  readonly layers: number;
  /** The size of hidden states. */
  readonly hidden: number;
  /** The inner size of a feed-forward part. */
  readonly intermediate: number;
  /** The number of query heads. */
  readonly heads: number;
  /** The number of key and value heads. */
  readonly kvHeads: number;
  /** The columns of a head. */
  readonly headDimensions: number;
  /** The number of tokens in the vocabulary. */
  readonly vocabulary: number;
  /** The maximum number of tokens of a text. */
  readonly contextLength: number;
  /** The number of previous tokens in the attention window; undefined for all. */
  readonly slidingWindow: number | undefined;
  /** The epsilon that norms add to the mean of squares. */
  readonly epsilon: number;
  /** The rotary positions. */
  readonly rope: {
    /** The number of rotated columns of a head. */
    readonly dimensions: number;
    readonly base: number;
    readonly scaling: RopeScaling | undefined;
    /** Whether neighboring columns form a pair, as in GGUF files of Llama. */
    readonly interleaved: boolean;
  };
  /** The tokens that end a text: those of the file, and the end-of-turn tokens of its vocabulary. */
  readonly endTokens: readonly number[];
}

/** Calls `fail`, which throws, for frequencies of positions that are no numbers. */
export function checkRope(
  { rope: { dimensions, base, scaling } }: Pick<LlamaConfig, "rope">,
  fail: (message: string) => never,
  factors?: Float32Array,
): void {
  // Scalings may have other frequencies for long sequences.
  for (const length of [0, 2 ** 31]) {
    try {
      const angles = ropeAngles([], { dimensions, base, scaling, factors, length });
      for (const one of [angles.cos, angles.sin]) one.dispose();
    } catch (error) {
      if (error instanceof ArgumentError) fail(error.message);
      throw error;
    }
  }
}

/** A config whose sizes fit each other; calls `fail`, which throws, for others. */
export function checkConfig(
  config: LlamaConfig,
  fail: (message: string) => never,
): LlamaConfig {
  const { heads, kvHeads, headDimensions, epsilon, rope: { dimensions } } = config;
  if (heads % kvHeads !== 0) {
    fail(`${heads} heads are no multiple of ${kvHeads} heads of keys`);
  }
  if (dimensions < 2 || dimensions % 2 !== 0 || dimensions > headDimensions) {
    fail(`${dimensions} columns of heads of ${headDimensions} cannot be turned`);
  }
  if (!(epsilon >= 0 && epsilon <= 1)) {
    fail(`the epsilon of norms is ${epsilon}, and must be from 0 to 1`);
  }
  checkRope(config, fail);
  return config;
}
