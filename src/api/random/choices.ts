/**
 * Random choices: places by weights, elements of tensors, shuffled tensors, and vectors of a
 * multivariate normal distribution.
 *
 * @module
 */
import { checkDType, DTYPE, type DType, finfo } from "../../base/dtype.ts";
import { ArgumentError, DTypeError } from "../../base/errors.ts";
import { checkShape, formatShape, normalizeAxis, type Shape, sizeOf } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast, contiguousCopy, isOn, toDevice } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkKind, checkOptions } from "../../table/infer.ts";
import type { CategoricalAttributes } from "../../ops/random/op.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { take } from "../../ops/index/op.ts";
import { matmul } from "../../ops/matmul/op.ts";
import { topk } from "../../ops/sort/op.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import { generate, type Key, type PlaceOptions, type RandomOptions } from "./create.ts";
import { refuseShape, wordsFor } from "./distributions.ts";

/**
 * Places along the last axis of weights (float64), drawn by them or by their exponentials; inputs:
 * two random words, weights. The first axes of the result are the draws, then come those of the rows.
 */
const CATEGORICAL: Op = makeOp({
  kind: "kernel",
  name: "categorical",
  contiguous: [0, 1],
  infer(call: Call) {
    const { shape } = call.attributes as CategoricalAttributes;
    return [{
      shape: [...shape, ...call.operand(1).layout.shape.slice(0, -1)],
      dtype: DTYPE.int32,
    }];
  },
  check({ badIndex, name, attributes }: Call) {
    if (badIndex < 0) return;
    const { logits } = attributes as CategoricalAttributes;
    throw new ArgumentError(
      `Cannot ${name}: row ${badIndex} of the ${logits ? "logits" : "weights"} is no ` +
        `distribution: ${
          logits ? "it has NaN, Infinity, or -Infinity only" : "weights are at least 0, not all 0"
        }`,
    );
  },
});

/** Attributes of {@link DISTINCT}. */
interface DistinctAttributes {
  /** The number of places, and how many of them are chosen. */
  readonly n: number;
  readonly count: number;
}

/** Places without repetition, in random order; input: two random words for each. */
const DISTINCT: Op = makeOp({
  kind: "kernel",
  name: "distinctPlaces",
  contiguous: [0],
  infer(call: Call) {
    const { count } = call.attributes as DistinctAttributes;
    return [{ shape: [count], dtype: DTYPE.int32 }];
  },
});

/** `x` in float64 on the CPU. */
function doubles(x: Operand): Operand {
  return cast(isOn(x.storage, "cpu") ? x : toDevice(x, "cpu"), "float64");
}

/** `x` on the device of `like`. */
function besides(like: Operand, x: Operand): Operand {
  const { device } = like.storage;
  return isOn(x.storage, device) ? x : toDevice(x, device);
}

/** Options of `categorical`. */
export interface CategoricalOptions<B = number, N extends Shape = Shape> {
  /** The axis of the categories; the last one by default. */
  readonly axis?: B;
  /** The shape of independent draws from each distribution: the first axes of the result. */
  readonly shape?: N;
}

/**
 * Indices of categories, drawn with probabilities proportional to exp(logits) along an axis, as
 * int32. The result has the shape `shape` ([]), then that of the logits without the axis.
 *
 * @throws {DTypeError} For logits that are no floats.
 * @throws {ArgumentError} For a row with NaN, Infinity or -Infinity only.
 *
 * @example
 * ```ts
 * const logits = tensor([[0, -Infinity], [-Infinity, 0]]);
 * random.categorical(random.key(1), logits).toArray(); // => [0, 1]
 * random.categorical(random.key(1), logits, { shape: [5] }).shape; // => [5, 2]
 * ```
 */
export function categorical<
  X extends AnyTensor,
  const B extends number = -1,
  const N extends Shape = [],
>(
  key: Key,
  logits: X,
  options?: CategoricalOptions<
    t.Guard<t.Reduce<"categorical", t.ShapeOf<X>, B, false>, B>,
    N
  >,
): Tensor<
  "int32",
  t.Joined<N, t.Ok<t.Reduce<"categorical", t.ShapeOf<X>, B, false>>>,
  X["device"]
>;
export function categorical(key: Key, logits: AnyTensor, options: CategoricalOptions<
  number,
  Shape
> = {}): Operand {
  checkOptions("categorical", options, ["axis", "shape"]);
  const given = ownOperand(logits, "categorical");
  checkKind(given.storage.info, "f", "categorical");
  const { shape: sizes } = given.layout;
  if (sizes.length === 0) refuseShape("categorical", sizes, "logits along an axis");
  const axis = normalizeAxis("categorical", (options.axis ?? -1) as number, sizes.length);
  if (sizes[axis] === 0) refuseShape("categorical", sizes, "at least one category");
  const shape = checkShape(options.shape ?? [], "categorical");
  return tidy(() => {
    const last = applyView(VIEWS.moveAxis, given, "categorical", axis, -1);
    const attributes = { logits: true, shape, draws: sizeOf(shape) };
    const words = wordsFor("categorical", key);
    const drawn = dispatch(
      CATEGORICAL,
      [words, doubles(last)],
      attributes,
      undefined,
      "categorical",
    );
    return besides(given, drawn);
  });
}

/** Options of `choice`. */
export interface ChoiceOptions<V extends t.Device = "cpu", B = number> extends PlaceOptions<V> {
  /** Whether one element may be chosen several times (default). */
  readonly replace?: boolean;
  /** Weights of the elements, which need no sum of 1; equal ones by default. */
  readonly p?: AnyTensor;
  /** The axis of a tensor whose slices are the elements; 0 by default. */
  readonly axis?: B;
}

/** The indices of `count` of `n` elements, without repetition. */
function distinct(key: Key, n: number, count: number, weights: Operand | undefined): Operand {
  const uniform = { shape: [n], dtype: "float64", device: "cpu" } as const;
  if (weights === undefined) {
    const attributes: DistinctAttributes = { n, count };
    const words = generate("choice", key, "u", {
      ...{ shape: [2 * count], dtype: "uint32", device: "cpu", distribution: "bits" },
    });
    return dispatch(DISTINCT, [words], attributes, undefined, "choice");
  }
  // Gumbel noise: the largest sums are a sample of the weights without replacement.
  const noise = { ...uniform, distribution: "gumbel", mean: 0, std: 1 } as const;
  const x = apply(MAP.log, weights);
  apply(MAP.add, x, generate("choice", key, "f", noise), undefined, { out: x });
  return topk(x, count).indices;
}

/** Throws an ArgumentError for weights that are invalid, or too few for `count` elements. */
function checkWeights(weights: Operand, count: number): void {
  const values = weights as Tensor<"float64">;
  let positive = 0;
  for (const weight of values.toTypedArray()) {
    if (!(weight >= 0 && weight < Infinity)) {
      throw new ArgumentError(`Cannot choice by the weight ${weight}: it takes finite ones from 0`);
    }
    if (weight > 0) positive++;
  }
  if (positive < count) {
    throw new ArgumentError(
      `Cannot choice ${count} elements without replacement: ${positive} have weights above 0`,
    );
  }
}

function chosen(key: Key, n: number, shape: readonly number[], options: ChoiceOptions): Operand {
  const { replace = true, p } = options;
  const count = sizeOf(shape);
  if (count > 0 && n === 0) throw new ArgumentError("Cannot choice from no elements");
  if (!replace && count > n) {
    throw new ArgumentError(`Cannot choice ${count} of ${n} elements without replacement`);
  }
  let weights: Operand | undefined;
  if (p !== undefined) {
    const given = ownOperand(p, "choice");
    checkKind(given.storage.info, "iuf", "choice");
    if (given.layout.shape.length !== 1 || given.layout.size !== n) {
      refuseShape("choice with weights of", given.layout.shape, `one for each of ${n} elements`);
    }
    weights = doubles(given);
  }
  if (!replace) {
    if (weights !== undefined) checkWeights(weights, count);
    const places = distinct(key, n, count, weights);
    if (shape.length === 1) return places;
    return contiguousCopy(applyView(VIEWS.reshape, places, "reshape", shape));
  }
  if (weights !== undefined) {
    const attributes = { logits: false, shape, draws: count };
    return dispatch(
      CATEGORICAL,
      [wordsFor("choice", key), weights],
      attributes,
      undefined,
      "choice",
    );
  }
  const [low, high] = [0n, BigInt(Math.max(n, 1))];
  const about = { shape, dtype: "int32", device: "cpu", distribution: "integers" } as const;
  return generate("choice", key, "i", { ...about, low, high });
}

/**
 * Elements chosen at random: integers below a number, as int32, or slices of a tensor along an axis
 * (0), with replacement by default, and by the weights `p` if given. `shape` takes the place of the
 * axis in the result.
 *
 * @throws {ArgumentError} For more elements than there are without replacement, and for weights
 *   that are negative, not finite, or 0 for too many; a ShapeError for another number of weights
 *   than of elements. Without replacement, weights are read on the CPU.
 *
 * @example
 * ```ts
 * const key = random.key(3);
 * random.choice(key, 3, [3], { replace: false }).sort().toArray(); // => [0, 1, 2]
 * random.choice(key, tensor([5, 6, 7]), [4], { p: tensor([0, 1, 0]) }).toArray(); // => [6, 6, 6, 6]
 * ```
 */
export function choice<const N extends Shape, V extends t.Device = "cpu">(
  key: Key,
  from: number,
  shape: t.Guard<t.NewShape<"choice", N>, N>,
  options?: ChoiceOptions<V>,
): Tensor<"int32", t.Ok<t.NewShape<"choice", N>>, t.OnDevice<NoInfer<V>>>;
/** Slices of a tensor, chosen at random. */
export function choice<
  X extends AnyTensor,
  const N extends Shape,
  const B extends number = 0,
>(
  key: Key,
  from: X,
  shape: t.Guard<t.NewShape<"choice", N>, N>,
  options?: ChoiceOptions<"cpu", t.Guard<t.Take<t.ShapeOf<X>, N, B>, B>>,
): Tensor<X["dtype"], t.Ok<t.Take<t.ShapeOf<X>, N, B>>, X["device"]>;
export function choice(
  key: Key,
  from: number | AnyTensor,
  shape: Shape,
  options: ChoiceOptions<t.Device> = {},
): Operand {
  checkOptions("choice", options, ["replace", "p", "axis", "device"]);
  const own = options as ChoiceOptions;
  const sizes = checkShape(shape, "choice");
  if (typeof from === "number") {
    checkShape([from], "choice from");
    if (from > 2 ** 31) throw new ArgumentError(`Cannot choice from ${from}: indices are int32`);
    return tidy(() => {
      const made = chosen(key, from, sizes, own);
      const { device = "cpu" } = options;
      return isOn(made.storage, device) ? made : toDevice(made, device);
    });
  }
  const x = ownOperand(from, "choice");
  const axis = normalizeAxis("choice", options.axis ?? 0, x.layout.shape.length);
  return tidy(() => take(x, besides(x, chosen(key, x.layout.shape[axis]!, sizes, own)), axis));
}

/** Options of `shuffle`. */
export interface ShuffleOptions {
  /** The axis whose slices change places; 0 by default. */
  readonly axis?: number;
}

/**
 * A copy of a tensor with its slices along an axis (0) in random order: `x.take(permutation(key, n))`.
 *
 * @throws {AxisError} For an axis that the tensor does not have.
 *
 * @example
 * ```ts
 * random.shuffle(random.key(2), tensor([1, 2, 3])).sort().toArray(); // => [1, 2, 3]
 * ```
 */
export function shuffle<D extends DType, S extends Shape, V extends t.Device>(
  key: Key,
  x: Tensor<D, S, V, t.Access>,
  options?: ShuffleOptions,
): Tensor<D, S, V>;
export function shuffle(key: Key, x: AnyTensor, options: ShuffleOptions = {}): Operand {
  checkOptions("shuffle", options, ["axis"]);
  const given = ownOperand(x, "shuffle");
  const axis = normalizeAxis("shuffle", options.axis ?? 0, given.layout.shape.length);
  const n = given.layout.shape[axis]!;
  return tidy(() => {
    const device = given.storage.device as t.Device;
    const about = { shape: [n], dtype: "int32", device, distribution: "permutation" } as const;
    return take(given, generate("shuffle", key, "i", about), axis);
  });
}

// ---- vectors -----------------------------------------------------------------------------------

/**
 * The lower triangular factor of a covariance matrix, float64 [D, D]. A pivot of 0, to within rounding
 * errors, gives a column of zeros, so that the matrix may be singular.
 */
const COVARIANCE_FACTOR: Op = makeOp({
  kind: "kernel",
  name: "covarianceFactor",
  contiguous: [0],
  infer(call: Call) {
    return call.result(call.operand(0).layout.shape, DTYPE.float64);
  },
  check({ badIndex, name }: Call) {
    if (badIndex < 0) return;
    throw new ArgumentError(
      `Cannot ${name}: the covariance matrix is not symmetric and positive semidefinite (at ` +
        `pivot ${badIndex})`,
    );
  },
});

/** Options of `multivariateNormal`. */
export type MultivariateOptions<E extends DType, V extends t.Device = "cpu"> = RandomOptions<E, V>;

/**
 * Normally distributed vectors of the given mean [D] and covariance [D, D]; the result has the shape
 * [...shape, D], and is float32 by default. Computed in float64.
 *
 * @throws {ShapeError} For other shapes.
 * @throws {ArgumentError} For a covariance that is not symmetric and positive semidefinite.
 *
 * @example
 * ```ts
 * const mean = tensor([1, 2]), covariance = tensor([[2, 1], [1, 2]]);
 * random.multivariateNormal(random.key(1), [10], mean, covariance).shape; // => [10, 2]
 * ```
 */
export function multivariateNormal<
  const N extends Shape,
  X extends AnyTensor,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"multivariateNormal", N>, N>,
  mean: X,
  covariance: AnyTensor,
  options?: MultivariateOptions<E, V>,
): Tensor<
  NoInfer<E>,
  t.Joined<N, t.ShapeOf<X>>,
  t.OnDevice<NoInfer<V>>
>;
export function multivariateNormal(
  key: Key,
  shape: Shape,
  mean: AnyTensor,
  covariance: AnyTensor,
  options: MultivariateOptions<DType, t.Device> = {},
): Operand {
  const name = "multivariateNormal";
  checkOptions(name, options, ["dtype", "device"]);
  const { dtype = "float32", device = "cpu" } = options;
  checkDType(dtype, name);
  if (DTYPE[dtype].kind !== "f") throw new DTypeError(`Cannot make random ${name} of ${dtype}`);
  const [center, spread] = [ownOperand(mean, name), ownOperand(covariance, name)];
  checkKind(center.storage.info, "iuf", name);
  checkKind(spread.storage.info, "iuf", name);
  const { shape: [d = 0, ...rest] } = center.layout;
  if (center.layout.shape.length !== 1) refuseShape(name, center.layout.shape, "a vector as mean");
  const [rows, columns, ...more] = spread.layout.shape;
  if (rest.length > 0 || more.length > 0 || rows !== d || columns !== d) {
    refuseShape(`${name} with a covariance of`, spread.layout.shape, formatShape([d, d]));
  }
  const sizes = checkShape(shape, name);
  return tidy(() => {
    const { kind, bytes, name: given } = spread.storage.info;
    // Rounding errors of the elements leave this much of a variance that is 0.
    const epsilon = kind === "f" && bytes < 8 ? 4 * finfo(given as "float32").eps : 1e-12;
    const factor = dispatch(COVARIANCE_FACTOR, [doubles(spread)], { epsilon }, undefined, name);
    const normal = { distribution: "normal", mean: 0, std: 1 } as const;
    const about = { shape: [sizeOf(sizes), d], dtype: "float64", device: "cpu" } as const;
    const z = generate(name, key, "f", { ...about, ...normal });
    const x = matmul(z, applyView(VIEWS.transpose, factor, "transpose"));
    apply(MAP.add, x, doubles(center), undefined, { out: x });
    const made = contiguousCopy(applyView(VIEWS.reshape, x, "reshape", [...sizes, d]), dtype);
    return isOn(made.storage, device) ? made : toDevice(made, device);
  });
}
