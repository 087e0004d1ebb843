/**
 * Random numbers: the op that fills tensors, and the attributes of those that draw.
 *
 * @module
 */
// First: the ids of ops of the table are their places in it.
import "../../table/table.ts";
import type { DType } from "../../base/dtype.ts";
import { makeOp, type Op } from "../../table/op.ts";

/** A distribution of random numbers. */
export type Distribution = "bits" | "uniform" | "normal" | "integers";

/** Attributes of {@link RANDOM}. */
export interface RandomAttributes {
  /** The distribution of the numbers. */
  readonly distribution: Distribution;
  /** The two 32-bit words of the key. */
  readonly key: readonly [number, number];
  /** The bounds of integers. */
  readonly low: bigint;
  readonly high: bigint;
}

/** Fills the contiguous input with the random numbers of the key. */
export const RANDOM: Op = makeOp({
  kind: "kernel",
  name: "random",
  infer: () => [],
  writes: [0],
});

/** A distribution whose numbers take a varying number of random words. */
export type DeviateDistribution = "gamma" | "beta" | "poisson" | "binomial" | "truncatedNormal";

/** Attributes of the op `deviates`. */
export interface DeviateAttributes {
  /** The distribution of the numbers. */
  readonly distribution: DeviateDistribution;
  /** The shape of the result. */
  readonly shape: readonly number[];
  /** Its dtype: float32, float64, int32 or int64. */
  readonly dtype: DType;
}

/** Attributes of the op `categorical`. */
export interface CategoricalAttributes {
  /** Whether the weights are logarithms. */
  readonly logits: boolean;
  /** The shape of the draws from each row. */
  readonly shape: readonly number[];
  /** The number of draws from each row. */
  readonly draws: number;
}
