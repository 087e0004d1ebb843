/**
 * Ops that are not an expression of one element and that every backend has a kernel for: their
 * meaning as index formulas, and their arguments. Public ops built on these are in src/tensor.
 *
 * `i` is at the axis of the call, `…` stands for the others.
 *
 * @module
 */
// First: the ids of ops of the table are their places in it.
import "./table.ts";
import { DTYPE, type DType } from "../base/dtype.ts";
import { pickedShape } from "../base/shape.ts";
import { type Call, type Inferred, makeOp, type Op } from "./op.ts";

function kernel(
  name: string,
  infer: (call: Call) => Inferred,
  more: Pick<Op, "writes" | "contiguous" | "moves" | "strided"> = {},
): Op {
  return makeOp<Op>({ kind: "kernel", name, infer, ...more });
}

/** Attributes of {@link INDEX}'s `gather`, `scatter` and `scatterAdd`. */
export interface GatherAttributes {
  /** The indexed axis, counted from the first. */
  readonly axis: number;
}

/**
 * The index kernels. Indices are contiguous, of any integer dtype and rank; `i` stands for as many
 * axes. Negative indices count from the end. `call.badIndex` is the first one out of range: then
 * nothing has been written.
 */
export const INDEX = {
  /** out[…, i, …] = source[…, indices[i], …]; inputs: source, indices. */
  gather: kernel("gather", (call) => {
    const { storage, layout } = call.operand(0);
    const { axis } = call.attributes as GatherAttributes;
    const shape = pickedShape(layout.shape, axis, call.operand(1).layout.shape, call.name);
    return [{ shape, dtype: storage.info }];
  }, { moves: true }),
  /**
   * target[…, indices[i], …] = values[…, i, …], later ones last; inputs: target, values, indices.
   */
  scatter: kernel("scatter", () => [], { moves: true, writes: [0] }),
  /**
   * target[…, indices[i], …] += values[…, i, …], in the arithmetic of the dtype; inputs as for
   * scatter.
   */
  scatterAdd: kernel("scatterAdd", () => [], { writes: [0] }),
  /**
   * positions[…] += index[…] · stride, with the index checked against `size`; inputs: positions
   * (int32 or int64), index. Combines several indices into one.
   */
  ravelIndex: kernel("ravelIndex", () => [], { writes: [0] }),
  /**
   * The flat indices, as int32, of the first `count` nonzero elements, and zeros if there are fewer;
   * input: x.
   */
  nonzeroIndices: kernel(
    "nonzeroIndices",
    (call) => [{ shape: [call.attributes.count], dtype: DTYPE.int32 }],
    { contiguous: [0] },
  ),
} as const satisfies Record<string, Op>;

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
export const RANDOM: Op = kernel("random", () => [], { writes: [0] });

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

/** Attributes of `sort` and `argsort`. */
export interface SortAttributes {
  /** The axis; kernels sort along the last one. */
  readonly axis: number;
  /** Largest first; NaN still goes last. */
  readonly descending: boolean;
}

/** True if the call sorts a nonempty tensor along the last axis. */
export function sortsLastAxis(call: Call): boolean {
  const { axis } = call.attributes as SortAttributes;
  const { shape, size } = call.operand(0).layout;
  return size > 0 && (axis === -1 || axis === shape.length - 1);
}

/** Attributes of `partition` and `argpartition`. */
export interface PartitionAttributes {
  /** The ranks from 0 on, in ascending order. */
  readonly kth: readonly number[];
  /** The axis; kernels work along the last one. */
  readonly axis: number;
}

/** How a quantile follows from the elements around its place, as in NumPy; kernels know the order. */
export const QUANTILE_METHODS = [
  "median",
  "linear",
  "lower",
  "higher",
  "midpoint",
  "nearest",
  "invertedCdf",
  "averagedInvertedCdf",
  "closestObservation",
  "interpolatedInvertedCdf",
  "hazen",
  "weibull",
  "medianUnbiased",
  "normalUnbiased",
] as const;

/** Attributes of `quantilesOfRows`. */
export interface QuantileRowsAttributes {
  /** The quantiles, from 0 to 1. */
  readonly q: readonly number[];
  /** How to interpolate; `"median"` is the mean of the elements in the middle. */
  readonly method: (typeof QUANTILE_METHODS)[number];
  /** Whether NaN does not count; else it gives NaN. */
  readonly ignoreNaN: boolean;
  /** The float dtype of the result. */
  readonly dtype: DType;
}

/** Attributes of `interpolate`. */
export interface InterpolateAttributes {
  /** The value below the first point; that of the first point if missing. */
  readonly left: number | undefined;
  /** The value above the last point; that of the last point if missing. */
  readonly right: number | undefined;
  /** The dtype of the result: float32 or float64. */
  readonly dtype: DType;
}
