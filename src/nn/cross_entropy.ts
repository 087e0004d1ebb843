/**
 * Losses of classification: how unlikely the right classes are.
 *
 * @module
 */
import { DTypeError, ShapeError } from "../base/errors.ts";
import { formatShape, sameShape } from "../base/shape.ts";
import { apply, applyView } from "../core/apply.ts";
import { cast } from "../core/copy.ts";
import { ownOperand } from "../core/foreign.ts";
import { tidy } from "../core/handles.ts";
import type { Operand } from "../memory/operand.ts";
import { checkDevice, checkOptions } from "../table/infer.ts";
import { MAP, REDUCE } from "../table/table.ts";
import { VIEWS } from "../table/views.ts";
import { take, takeClasses } from "../ops/index/op.ts";
import { reduce } from "../ops/reduce/op.ts";
import { softmax } from "../ops/softmax_norm/op.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import {
  badArgument,
  checkNumber,
  checkVector,
  floats,
  floatsBeside,
  type Like,
  widened,
} from "./arguments.ts";
import { type LossOptions, reduced, type Reduction, reductionOf } from "./loss.ts";

/** Options of {@link nllLoss}. */
export interface NllLossOptions extends LossOptions {
  /** The factor of the losses of each class: [C]. */
  readonly weight?: AnyTensor;
  /** Targets of this class have no loss; −100 by default. */
  readonly ignoreIndex?: number;
}

/** Options of {@link crossEntropy}. */
export interface CrossEntropyOptions extends NllLossOptions {
  /** The part of each target that all classes share; 0 by default. */
  readonly labelSmoothing?: number;
}

/** Inputs of a loss of classes, in the dtype of the arithmetic. */
interface Classes {
  readonly name: string;
  /** The logarithms of probabilities: [N, C, ...] or [C]. */
  readonly logs: Operand;
  /** The axis of the classes. */
  readonly axis: number;
  readonly weight: Operand | undefined;
  readonly how: Reduction;
}

function classAxis(name: string, { layout: { shape } }: Operand): number {
  if (shape.length === 0) {
    throw new ShapeError(`Cannot ${name} shape []: it takes [N, C, ...] or [C]`);
  }
  return shape.length === 1 ? 0 : 1;
}

function weightOf(name: string, x: Operand, axis: number, given: unknown): Operand | undefined {
  if (given === undefined) return undefined;
  const own = floatsBeside(x, given, name);
  checkVector(name, "weight", own, x.layout.shape[axis]!);
  return cast(own, widened(x).storage.info.name);
}

/** The targets as classes that exist, and whether each has a loss. */
function targetsOf(
  { name, logs, axis }: Classes,
  target: Operand,
  ignoreIndex: number,
): [targets: Operand, counts: Operand] {
  const { shape } = logs.layout;
  const wanted = shape.toSpliced(axis, 1);
  if (!sameShape(target.layout.shape, wanted)) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(shape)} with targets of shape ` +
        `${formatShape(target.layout.shape)}: there is one class for each of ${
          formatShape(wanted)
        }`,
    );
  }
  const wide = target.storage.info.bytes < 4 ? cast(target, "int32") : target;
  const counts = apply(MAP.notEqual, wide, ignoreIndex);
  return [apply(MAP.where, counts, wide, 0), counts];
}

/** The loss of each target, 0 for those without one, and what the mean divides their sum by. */
function losses(
  classes: Classes,
  given: Operand,
  ignoreIndex: number,
  smoothing: number,
): Operand {
  const { name, logs, axis, weight, how } = classes;
  const { info } = logs.storage;
  const [targets, counts] = targetsOf(classes, given, ignoreIndex);
  const index = applyView(VIEWS.expandDims, targets, "expandDims", axis);
  const along = takeClasses(logs, index, axis, name);
  const picked = applyView(VIEWS.squeeze, along, "squeeze", axis);
  const factors = weight === undefined ? undefined : take(weight, targets);
  let made = apply(MAP.neg, picked);
  if (factors !== undefined) made = apply(MAP.mul, made, factors);
  if (smoothing > 0) {
    const scaled = weight === undefined
      ? logs
      : apply(MAP.mul, logs, alongClasses(weight, logs, axis));
    const all = reduce(REDUCE.sum, scaled, axis);
    const share = apply(MAP.mul, all, -smoothing / logs.layout.shape[axis]!);
    made = apply(MAP.add, apply(MAP.mul, made, 1 - smoothing), share);
  }
  made = apply(MAP.where, counts, made, 0);
  if (how !== "mean") return made;
  const sizes = factors === undefined
    ? cast(counts, info.name)
    : apply(MAP.where, counts, factors, 0);
  return apply(MAP.div, reduce(REDUCE.sum, made, null), reduce(REDUCE.sum, sizes, null));
}

/** A vector of classes that broadcasts along their axis. */
function alongClasses(vector: Operand, like: Operand, axis: number): Operand {
  const shape = like.layout.shape.map((n, i) => i === axis ? n : 1);
  return applyView(VIEWS.reshape, vector, "reshape", shape);
}

function finished(made: Operand, how: Reduction, like: Operand): Operand {
  return reduced(made, how === "mean" ? "none" : how, like);
}

function checkClasses(name: string, target: Operand): void {
  const { kind, name: dtype } = target.storage.info;
  if (kind === "i" || kind === "u") return;
  throw new DTypeError(`Cannot ${name} with targets of ${dtype}: classes are integers`);
}

/**
 * The mean of −x at the classes `target`, for logarithms x of probabilities: [N, C, ...] with integers
 * of shape [N, ...], or [C] with one integer. With `weight`, it is the mean that these weigh. 16-bit
 * floats are computed in float32.
 *
 * @throws {ShapeError} For targets that do not fit.
 * @throws {DTypeError} For targets that are no integers.
 * @throws {IndexError} For a class that does not exist. A mean of no targets is NaN.
 *
 * @example
 * ```ts
 * const x = tensor([[0.5, 0.5], [0.25, 0.75]]).log2();
 * nn.nllLoss(x, tensor([0, 0], { dtype: "int32" })).item(); // => 1.5
 * ```
 */
export function nllLoss<X extends AnyTensor>(
  input: X,
  target: AnyTensor,
  options?: NllLossOptions,
): Like<X>;
export function nllLoss(
  input: AnyTensor,
  target: AnyTensor,
  options: NllLossOptions = {},
): Operand {
  const name = "nllLoss";
  checkOptions(name, options, ["reduction", "weight", "ignoreIndex"]);
  const how = reductionOf(name, options);
  const ignored = checkNumber(name, "ignoreIndex", options.ignoreIndex ?? -100);
  return tidy(() => {
    const own = floats(input, name);
    const classes = ownOperand(target, name);
    checkDevice(own.storage, classes.storage, name);
    checkClasses(name, classes);
    const axis = classAxis(name, own);
    const weight = weightOf(name, own, axis, options.weight);
    const made = losses({ name, logs: widened(own), axis, weight, how }, classes, ignored, 0);
    return finished(made, how, own);
  });
}

/**
 * {@link nllLoss} of the softmax of logits: [N, C, ...] or [C]. Targets are classes, or the
 * probabilities of all classes: floats of the input's shape, whose mean divides by N.
 *
 * @throws As {@link nllLoss}.
 * @throws {ArgumentError} For a labelSmoothing that is not between 0 and 1.
 *
 * @example
 * ```ts
 * const x = tensor([[0, 0], [1000, 0]]);
 * nn.crossEntropy(x, tensor([0, 1], { dtype: "int32" }), { reduction: "none" }).toArray();
 * // => [0.6931471824645996, 1000]
 * ```
 */
export function crossEntropy<X extends AnyTensor>(
  input: X,
  target: AnyTensor,
  options?: CrossEntropyOptions,
): Like<X>;
export function crossEntropy(
  input: AnyTensor,
  target: AnyTensor,
  options: CrossEntropyOptions = {},
): Operand {
  const name = "crossEntropy";
  checkOptions(name, options, ["reduction", "weight", "ignoreIndex", "labelSmoothing"]);
  const how = reductionOf(name, options);
  const ignored = checkNumber(name, "ignoreIndex", options.ignoreIndex ?? -100);
  const smoothing = checkNumber(name, "labelSmoothing", options.labelSmoothing ?? 0, 0);
  if (smoothing > 1) throw badArgument(name, "labelSmoothing", smoothing, "at most 1");
  return tidy(() => {
    const own = floats(input, name);
    const given = ownOperand(target, name);
    checkDevice(own.storage, given.storage, name);
    const axis = classAxis(name, own);
    const weight = weightOf(name, own, axis, options.weight);
    const byClass = given.storage.info.kind !== "f";
    if (byClass) checkClasses(name, given);
    else if (!sameShape(given.layout.shape, own.layout.shape)) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(own.layout.shape)} with probabilities of shape ` +
          `${formatShape(given.layout.shape)}: both have one shape`,
      );
    }
    const logs = softmax("logSoftmax", widened(own), axis);
    const classes: Classes = { name, logs, axis, weight, how };
    const made = byClass
      ? losses(classes, given, ignored, smoothing)
      : expected(classes, given, smoothing);
    return finished(made, how, own);
  });
}

/** The loss of target probabilities. */
function expected(
  { logs, axis, weight, how }: Classes,
  given: Operand,
  smoothing: number,
): Operand {
  const { shape } = logs.layout;
  let target = cast(given, logs.storage.info.name);
  if (smoothing > 0) {
    target = apply(MAP.add, apply(MAP.mul, target, 1 - smoothing), smoothing / shape[axis]!);
  }
  const scaled = weight === undefined
    ? logs
    : apply(MAP.mul, logs, alongClasses(weight, logs, axis));
  const made = apply(MAP.neg, reduce(REDUCE.sum, apply(MAP.mul, scaled, target), axis));
  if (how !== "mean") return made;
  const count = shape.reduce((size, n) => size * n, 1) / shape[axis]!;
  return apply(MAP.div, reduce(REDUCE.sum, made, null), count);
}
