/**
 * Losses of regression and of similarity: how far predictions are from targets.
 *
 * @module
 */
import { ShapeError } from "../base/errors.ts";
import { formatShape, normalizeAxis, sameShape } from "../base/shape.ts";
import { apply, applyInto } from "../core/apply.ts";
import { cast } from "../core/copy.ts";
import { tidy } from "../core/handles.ts";
import type { Operand } from "../memory/operand.ts";
import { checkOptions } from "../table/infer.ts";
import type { MapOp } from "../table/op.ts";
import { MAP, REDUCE } from "../table/table.ts";
import { reduce } from "../ops/reduce/op.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import {
  badArgument,
  checkChoice,
  checkFlag,
  checkNumber,
  checkVector,
  floats,
  floatsBeside,
  type Like,
  widened,
} from "./arguments.ts";
import { expression } from "../ops/chain/expression.ts";

/** What becomes of the losses of all elements: their mean, their sum, or nothing. */
export type Reduction = "mean" | "sum" | "none";

/** Options of losses. */
export interface LossOptions {
  /** `"mean"` by default. */
  readonly reduction?: Reduction;
}

const REDUCTIONS = ["mean", "sum", "none"] as const;

/** The losses of elements, reduced, in the dtype of `like`. */
export function reduced(losses: Operand, how: Reduction, like: Operand): Operand {
  const made = how === "none"
    ? losses
    : reduce(how === "sum" ? REDUCE.sum : REDUCE.mean, losses, null);
  return cast(made, like.storage.info.name);
}

/** The checked reduction of a loss. */
export function reductionOf(name: string, { reduction = "mean" }: LossOptions): Reduction {
  return checkChoice(name, "reduction", reduction, REDUCTIONS);
}

/** Predictions and targets of one shape. */
function pair(name: string, x: unknown, y: unknown): [Operand, Operand] {
  const input = floats(x, name);
  const target = floatsBeside(input, y, name);
  const [{ shape }, { shape: other }] = [input.layout, target.layout];
  if (sameShape(shape, other)) return [input, target];
  throw new ShapeError(
    `Cannot ${name} shape ${formatShape(shape)} with a target of shape ${formatShape(other)}: ` +
      "both have one shape",
  );
}

/** The loss of an expression of predictions and targets. */
function elementwise<X extends AnyTensor>(
  op: MapOp,
  name: string,
  x: X,
  y: unknown,
  options: LossOptions,
  numbers?: object,
): Like<X>;
function elementwise(
  op: MapOp,
  name: string,
  x: unknown,
  y: unknown,
  options: LossOptions,
  numbers?: object,
): Operand {
  const how = reductionOf(name, options);
  return tidy(() => {
    const [input, target] = pair(name, x, y);
    const wide = widened(input);
    const other = cast(target, wide.storage.info.name);
    const losses = applyInto(op, name, wide, other, undefined, undefined, numbers);
    return reduced(losses, how, input);
  });
}

// ---- regression --------------------------------------------------------------------------------

const MSE = expression("mseLoss", "(x - y) * (x - y)");
const L1 = expression("l1Loss", "fabs(x - y)");
const SMOOTH_L1 = expression(
  "smoothL1Loss",
  "fabs(x - y) < beta ? 0.5 * (x - y) * (x - y) / beta : fabs(x - y) - 0.5 * beta",
  ["beta"],
);
const HUBER = expression(
  "huberLoss",
  "fabs(x - y) <= delta ? 0.5 * (x - y) * (x - y) : delta * (fabs(x - y) - 0.5 * delta)",
  ["delta"],
);

/**
 * The mean of (`input` − `target`)². All losses take floats of one shape, sum 16-bit ones in float32,
 * and give a tensor of rank 0 in the dtype of the input, or one of its shape for the reduction
 * `"none"`.
 *
 * @throws {ShapeError} For other shapes.
 * @throws {DTypeError} For tensors that are not of floats.
 * @throws {ArgumentError} For an unknown reduction.
 *
 * @example
 * ```ts
 * nn.mseLoss(tensor([1, 2]), tensor([1, 4])).item(); // => 2
 * ```
 */
export function mseLoss<X extends AnyTensor>(
  input: X,
  target: AnyTensor,
  options: LossOptions = {},
): Like<X> {
  checkOptions("mseLoss", options, ["reduction"]);
  return elementwise(MSE, "mseLoss", input, target, options);
}

/**
 * The mean of |`input` − `target`|; arguments and errors as for {@link mseLoss}.
 *
 * @example
 * ```ts
 * nn.l1Loss(tensor([1, 2]), tensor([1, 4]), { reduction: "sum" }).item(); // => 2
 * ```
 */
export function l1Loss<X extends AnyTensor>(
  input: X,
  target: AnyTensor,
  options: LossOptions = {},
): Like<X> {
  checkOptions("l1Loss", options, ["reduction"]);
  return elementwise(L1, "l1Loss", input, target, options);
}

/** Options of {@link smoothL1Loss}. */
export interface SmoothL1LossOptions extends LossOptions {
  /** Where squares end and differences begin; 1 by default, and 0 for differences only. */
  readonly beta?: number;
}

/**
 * The mean of d² / (2 `beta`) for differences d below `beta`, and of |d| − `beta` / 2 for others.
 * Arguments and errors as for {@link mseLoss}.
 *
 * @example
 * ```ts
 * nn.smoothL1Loss(tensor([1, 2]), tensor([2, 5]), { reduction: "none" }).toArray(); // => [0.5, 2.5]
 * ```
 */
export function smoothL1Loss<X extends AnyTensor>(
  input: X,
  target: AnyTensor,
  options: SmoothL1LossOptions = {},
): Like<X> {
  const name = "smoothL1Loss";
  checkOptions(name, options, ["reduction", "beta"]);
  const beta = checkNumber(name, "beta", options.beta ?? 1, 0);
  if (beta === 0) return elementwise(L1, name, input, target, options);
  return elementwise(SMOOTH_L1, name, input, target, options, { beta });
}

/** Options of {@link huberLoss}. */
export interface HuberLossOptions extends LossOptions {
  /** Where squares end and differences begin; 1 by default. */
  readonly delta?: number;
}

/**
 * The mean of d² / 2 for differences d up to `delta`, and of `delta` · (|d| − `delta` / 2) for
 * others. Arguments and errors as for {@link mseLoss}.
 *
 * @example
 * ```ts
 * nn.huberLoss(tensor([1, 2]), tensor([2, 5]), { reduction: "none" }).toArray(); // => [0.5, 2.5]
 * ```
 */
export function huberLoss<X extends AnyTensor>(
  input: X,
  target: AnyTensor,
  options: HuberLossOptions = {},
): Like<X> {
  const name = "huberLoss";
  checkOptions(name, options, ["reduction", "delta"]);
  const delta = checkNumber(name, "delta", options.delta ?? 1);
  if (delta <= 0) throw badArgument(name, "delta", delta, "above 0");
  return elementwise(HUBER, name, input, target, options, { delta });
}

// ---- similarity --------------------------------------------------------------------------------

/** Options of {@link cosineSimilarity}. */
export interface CosineSimilarityOptions {
  /** The axis of the vectors; 1 by default. */
  readonly axis?: number;
  /** The least norm that is divided by; 1e-8 by default. */
  readonly epsilon?: number;
}

/** x · y / (‖x‖ ‖y‖) along an axis, in the dtype of the arithmetic. */
function cosines(x: Operand, y: Operand, axis: number, epsilon: number): Operand {
  const dtype = widened(x).storage.info.name;
  const unit = (one: Operand): Operand => {
    const wide = cast(one, dtype);
    const length = reduce(REDUCE.norm2, wide, axis, { keepDims: true });
    return apply(MAP.div, wide, apply(MAP.maximum, length, epsilon));
  };
  return reduce(REDUCE.sum, apply(MAP.mul, unit(x), unit(y)), axis);
}

/**
 * The cosines of the angles between the vectors of `x` and `y` along `axis`, 1 by default: tensors of
 * one shape [B, D, ...] give [B, ...]. 16-bit floats are computed in float32.
 *
 * @throws {ShapeError} For other shapes.
 * @throws {AxisError} For an axis that the tensors do not have.
 * @throws {DTypeError} For tensors that are not of floats.
 *
 * @example
 * ```ts
 * nn.cosineSimilarity(tensor([[3, 0], [1, 0]]), tensor([[2, 0], [0, 5]])).toArray(); // => [1, 0]
 * ```
 */
export function cosineSimilarity<X extends AnyTensor>(
  x: X,
  y: AnyTensor,
  options?: CosineSimilarityOptions,
): Like<X>;
export function cosineSimilarity(
  x: AnyTensor,
  y: AnyTensor,
  options: CosineSimilarityOptions = {},
): Operand {
  const name = "cosineSimilarity";
  checkOptions(name, options, ["axis", "epsilon"]);
  const { axis = 1 } = options;
  const epsilon = checkNumber(name, "epsilon", options.epsilon ?? 1e-8, 0);
  return tidy(() => {
    const [own, other] = pair(name, x, y);
    const along = normalizeAxis(name, axis, own.layout.shape.length);
    return cast(cosines(own, other, along, epsilon), own.storage.info.name);
  });
}

/** Options of {@link cosineEmbeddingLoss}. */
export interface CosineEmbeddingLossOptions extends LossOptions {
  /** Cosines of unlike pairs up to it cost nothing; 0 by default. */
  readonly margin?: number;
}

// PyTorch's, whose cosine of a vector of zeros is 0.
const LENGTHS = expression("lengths", "sqrt((x + 1e-12) * (y + 1e-12))");
// The cosine x, for a pair that is alike if y is 1.
const COSINE = expression("cosineEmbeddingLoss", "y > 0 ? 1 - x : maximum(x - margin, 0)", [
  "margin",
]);

/**
 * The mean of 1 − c for pairs of vectors that are alike, and of max(0, c − `margin`) for others, with
 * the cosine c: x and y: [B, D] and `target`: [B] of 1 for alike ones and −1.
 *
 * Errors as for {@link mseLoss}.
 *
 * @example
 * ```ts
 * const [x, y] = [tensor([[1, 0], [1, 0]]), tensor([[2, 0], [0, 1]])];
 * nn.cosineEmbeddingLoss(x, y, tensor([1, -1])).item(); // => 0
 * ```
 */
export function cosineEmbeddingLoss<X extends AnyTensor>(
  x: X,
  y: AnyTensor,
  target: AnyTensor,
  options?: CosineEmbeddingLossOptions,
): Like<X>;
export function cosineEmbeddingLoss(
  x: AnyTensor,
  y: AnyTensor,
  target: AnyTensor,
  options: CosineEmbeddingLossOptions = {},
): Operand {
  const name = "cosineEmbeddingLoss";
  checkOptions(name, options, ["reduction", "margin"]);
  const margin = checkNumber(name, "margin", options.margin ?? 0);
  const how = reductionOf(name, options);
  return tidy(() => {
    const [own, other] = pair(name, x, y);
    const { shape } = own.layout;
    if (shape.length !== 2) {
      throw new ShapeError(`Cannot ${name} shape ${formatShape(shape)}: it takes [B, D]`);
    }
    const [a, b] = [widened(own), cast(other, widened(own).storage.info.name)];
    const product = (p: Operand, q: Operand): Operand =>
      reduce(REDUCE.sum, apply(MAP.mul, p, q), 1);
    const lengths = applyInto(LENGTHS, name, product(a, a), product(b, b), undefined, undefined);
    const cosine = apply(MAP.div, product(a, b), lengths);
    const alike = floatsBeside(own, target, name);
    checkVector(name, "a target", alike, shape[0]!);
    const same = cast(alike, cosine.storage.info.name);
    const losses = applyInto(COSINE, name, cosine, same, undefined, undefined, { margin });
    return reduced(losses, how, own);
  });
}

// ---- probabilities -----------------------------------------------------------------------------

/** Options of {@link binaryCrossEntropy}. */
export interface BinaryCrossEntropyOptions extends LossOptions {
  /** The factor of each loss; broadcasts to the input's shape. */
  readonly weight?: AnyTensor;
}

/** Options of {@link bceWithLogits}. */
export interface BceWithLogitsOptions extends BinaryCrossEntropyOptions {
  /** The factor of the losses of targets that are 1; broadcasts to the input's shape. */
  readonly posWeight?: AnyTensor;
}

// PyTorch limits logarithms, so that a wrong certain prediction has a finite loss.
const BCE = expression(
  "binaryCrossEntropy",
  "-(y * maximum(log(x), -100) + (1 - y) * maximum(log1p(-x), -100))",
);
const BCE_LOGITS = expression(
  "bceWithLogits",
  "(1 - y) * x + maximum(-x, 0) + log1p(exp(-fabs(x)))",
);
const BCE_WEIGHTED = expression(
  "bceWithLogitsWeighted",
  "(1 - y) * x + (1 + (z - 1) * y) * (log1p(exp(-fabs(x))) + maximum(-x, 0))",
);

/** A weight that broadcasts to `x`, in the dtype of the arithmetic. */
function weightOf(name: string, what: string, x: Operand, given: unknown): Operand {
  const own = floatsBeside(x, given, name);
  const [{ shape }, { shape: wanted }] = [own.layout, x.layout];
  const added = wanted.length - shape.length;
  if (added < 0 || !shape.every((n, i) => n === 1 || n === wanted[i + added])) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(wanted)} with ${what} of shape ${formatShape(shape)}: ` +
        "it must broadcast to the input",
    );
  }
  return cast(own, widened(x).storage.info.name);
}

/**
 * The mean of −y log(x) − (1 − y) log(1 − x) for probabilities x and targets y between 0 and 1.
 * Logarithms are −100 at least. Arguments and errors as for {@link mseLoss}.
 *
 * @example
 * ```ts
 * nn.binaryCrossEntropy(tensor([0.5, 1]), tensor([1, 0]), { reduction: "none" }).toArray();
 * // => [0.6931471824645996, 100]
 * ```
 */
export function binaryCrossEntropy<X extends AnyTensor>(
  input: X,
  target: AnyTensor,
  options: BinaryCrossEntropyOptions = {},
): Like<X> {
  return binary("binaryCrossEntropy", input, target, options);
}

/**
 * {@link binaryCrossEntropy} of sigmoid(`input`), without overflow and rounding errors.
 *
 * @example
 * ```ts
 * nn.bceWithLogits(tensor([0, 1000]), tensor([1, 0]), { reduction: "none" }).toArray();
 * // => [0.6931471824645996, 1000]
 * ```
 */
export function bceWithLogits<X extends AnyTensor>(
  input: X,
  target: AnyTensor,
  options: BceWithLogitsOptions = {},
): Like<X> {
  return binary("bceWithLogits", input, target, options);
}

function binary<X extends AnyTensor>(
  name: "binaryCrossEntropy" | "bceWithLogits",
  x: X,
  y: unknown,
  options: BceWithLogitsOptions,
): Like<X>;
function binary(
  name: "binaryCrossEntropy" | "bceWithLogits",
  x: unknown,
  y: unknown,
  options: BceWithLogitsOptions,
): Operand {
  const isLogits = name === "bceWithLogits";
  checkOptions(name, options, ["reduction", "weight", ...isLogits ? ["posWeight"] : []]);
  const how = reductionOf(name, options);
  const { weight, posWeight } = options;
  return tidy(() => {
    const [input, target] = pair(name, x, y);
    const wide = widened(input);
    const other = cast(target, wide.storage.info.name);
    const positive = posWeight === undefined
      ? undefined
      : weightOf(name, "posWeight", input, posWeight);
    const factor = weight === undefined ? undefined : weightOf(name, "weight", input, weight);
    const op = !isLogits ? BCE : positive === undefined ? BCE_LOGITS : BCE_WEIGHTED;
    let losses = applyInto(op, name, wide, other, positive, undefined);
    if (factor !== undefined) losses = apply(MAP.mul, losses, factor);
    return reduced(losses, how, input);
  });
}

/** Options of {@link klDiv}. */
export interface KlDivOptions {
  /** `"batchMean"` divides the sum by the size of the first axis; `"mean"` by default. */
  readonly reduction?: Reduction | "batchMean";
  /** Whether targets are logarithms too. */
  readonly logTarget?: boolean;
}

const KL = expression("klDiv", "y > 0 ? y * (log(y) - x) : y == 0 ? 0 : y * log(y)");
const KL_LOG = expression("klDivLog", "exp(y) * (y - x)");

/**
 * The mean of y · (log(y) − x) for logarithms x of probabilities and target probabilities y: the
 * divergence of Kullback and Leibler. With `logTarget`, targets are logarithms too. Arguments and
 * errors as for {@link mseLoss}.
 *
 * @example
 * ```ts
 * const x = tensor([[0.5, 0.5]]).log();
 * nn.klDiv(x, tensor([[0, 1]]), { reduction: "batchMean" }).item(); // => 0.6931471824645996
 * ```
 */
export function klDiv<X extends AnyTensor>(
  input: X,
  target: AnyTensor,
  options?: KlDivOptions,
): Like<X>;
export function klDiv(input: AnyTensor, target: AnyTensor, options: KlDivOptions = {}): Operand {
  const name = "klDiv";
  checkOptions(name, options, ["reduction", "logTarget"]);
  const { reduction = "mean", logTarget = false } = options;
  const how = checkChoice(name, "reduction", reduction, [...REDUCTIONS, "batchMean"]);
  const op = checkFlag(name, "logTarget", logTarget) ? KL_LOG : KL;
  if (how !== "batchMean") return elementwise(op, name, input, target, { reduction: how });
  return tidy(() => {
    const [own, other] = pair(name, input, target);
    const wide = widened(own);
    const losses = applyInto(
      op,
      name,
      wide,
      cast(other, wide.storage.info.name),
      undefined,
      undefined,
    );
    const sum = reduce(REDUCE.sum, losses, null);
    const made = apply(MAP.div, sum, own.layout.shape[0] ?? 1);
    return cast(made, own.storage.info.name);
  });
}
