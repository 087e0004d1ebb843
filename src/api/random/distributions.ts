/**
 * Random numbers of further distributions: those that are functions of uniform numbers, and
 * deviates, which take a varying number of random words each.
 *
 * @module
 */
import { DTYPE, type DType } from "../../base/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../base/errors.ts";
import { checkShape, formatShape, type Shape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast, isOn, toDevice } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import { FLOAT } from "../../backend/js/primitives.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkKind, checkOptions } from "../../table/infer.ts";
import type { DeviateAttributes, DeviateDistribution } from "../../ops/random/op.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { full } from "../../tensor/create.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import { checkFinite, generate, type Key, type RandomOptions } from "./create.ts";

// ---- functions of uniform numbers --------------------------------------------------------------

/** {@link RandomOptions} of distributions with a scale. */
export interface ScaledOptions<E extends DType, V extends t.Device = "cpu">
  extends RandomOptions<E, V> {
  /** The factor of all numbers; 1 by default. */
  readonly scale?: number;
}

/** {@link ScaledOptions} of distributions with a location, too. */
export interface LocatedOptions<E extends DType, V extends t.Device = "cpu">
  extends ScaledOptions<E, V> {
  /** What is added to all numbers; 0 by default. */
  readonly loc?: number;
}

function checkScale(name: string, loc: number, scale: number): void {
  if (!Number.isFinite(loc) || !Number.isFinite(scale) || scale < 0) {
    throw new ArgumentError(
      `Cannot make ${name} numbers of loc ${describe(loc)}, scale ${describe(scale)}`,
    );
  }
}

function ofUniform(
  name: "exponential" | "laplace" | "gumbel",
  key: Key,
  shape: unknown,
  options: LocatedOptions<DType, t.Device>,
): Operand {
  const known = name === "exponential" ? ["scale"] : ["loc", "scale"];
  checkOptions(name, options, ["dtype", "device", ...known]);
  const { dtype = "float32", device, loc = 0, scale = 1 } = options;
  checkScale(name, loc, scale);
  checkFinite(name, dtype, loc, scale);
  return generate(name, key, "f", {
    shape,
    dtype,
    device,
    distribution: name,
    mean: loc,
    std: scale,
  });
}

/**
 * Exponentially distributed floats with the mean `scale` (1); float32 by default.
 *
 * @throws {ArgumentError} For a scale that is not finite or below 0.
 * @throws {DTypeError} For a scale that is not finite in the dtype.
 *
 * @example
 * ```ts
 * random.exponential(random.key(1), [2, 3], { scale: 10 }).shape; // => [2, 3]
 * ```
 */
export function exponential<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"exponential", N>, N>,
  options?: ScaledOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"exponential", N>>, t.OnDevice<NoInfer<V>>>;
export function exponential(
  key: Key,
  shape: Shape,
  options: ScaledOptions<DType, t.Device> = {},
): Operand {
  return ofUniform("exponential", key, shape, options);
}

/**
 * Floats of a Laplace distribution around `loc` (0), whose distance from it has the mean `scale`
 * (1); float32 by default.
 *
 * @throws As {@link exponential}.
 */
export function laplace<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"laplace", N>, N>,
  options?: LocatedOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"laplace", N>>, t.OnDevice<NoInfer<V>>>;
export function laplace(
  key: Key,
  shape: Shape,
  options: LocatedOptions<DType, t.Device> = {},
): Operand {
  return ofUniform("laplace", key, shape, options);
}

/**
 * Floats of a Gumbel distribution with the mode `loc` (0); float32 by default.
 *
 * @throws As {@link exponential}.
 */
export function gumbel<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"gumbel", N>, N>,
  options?: LocatedOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"gumbel", N>>, t.OnDevice<NoInfer<V>>>;
export function gumbel(
  key: Key,
  shape: Shape,
  options: LocatedOptions<DType, t.Device> = {},
): Operand {
  return ofUniform("gumbel", key, shape, options);
}

// ---- deviates ----------------------------------------------------------------------------------

/**
 * Numbers of a distribution for a key of two words; inputs: words (uint32), and two parameters
 * (float64) of one element or of the shape of the result.
 */
const DEVIATES: Op = makeOp({
  kind: "kernel",
  name: "deviates",
  contiguous: [0, 1, 2],
  infer(call: Call) {
    const { shape, dtype } = call.attributes as DeviateAttributes;
    return [{ shape, dtype: DTYPE[dtype] }];
  },
  check(call: Call) {
    if (call.badIndex < 0) return;
    const { distribution } = call.attributes as DeviateAttributes;
    const what = DOMAINS[distribution];
    throw new ArgumentError(
      `Cannot make ${call.name} numbers: element ${call.badIndex} of the parameters is out of ` +
        `range; ${what}`,
    );
  },
});

const DOMAINS: Record<DeviateDistribution, string> = {
  gamma: "alpha is finite and at least 0",
  beta: "alpha and beta are finite and above 0, and one is at least 1e-300",
  poisson: "the rate is from 0 to 1e9",
  binomial: "n is an integer from 0 to 2^31 - 1, and p is from 0 to 1",
  truncatedNormal: "",
};

/** A parameter of a distribution: a number, or a tensor that broadcasts to the shape. */
export type Parameter = number | AnyTensor;

/** Two random words as a tensor on the CPU: the key of an op. */
export function wordsFor(name: string, key: Key): Operand {
  const about = { shape: [2], dtype: "uint32", device: "cpu", distribution: "bits" } as const;
  return generate(name, key, "u", about);
}

/** A parameter in float64 on the CPU, of one element or of `shape`. */
function parameterOf(name: string, value: unknown, shape: readonly number[]): Operand {
  if (typeof value === "number") return full([], value, { dtype: "float64" });
  const given = ownOperand(value, name);
  checkKind(given.storage.info, "iuf", name);
  const spread = applyView(VIEWS.broadcastTo, given, name, shape);
  const used = given.layout.size === 1 ? given : spread;
  const here = isOn(used.storage, "cpu") ? used : toDevice(used, "cpu");
  return cast(here, "float64");
}

/** The dtype in which a kernel makes numbers of `dtype`. */
function madeIn(name: string, dtype: DType, kinds: string): "float32" | "float64" {
  if (DTYPE[dtype] === undefined || !kinds.includes(DTYPE[dtype].kind)) {
    throw new DTypeError(`Cannot make random ${name} of ${dtype}`);
  }
  return dtype === "float64" ? "float64" : "float32";
}

/** The device of the result: the option's, else that of the first parameter that is a tensor. */
function deviceFor(option: t.Device | undefined, parameters: readonly unknown[]): t.Device {
  if (option !== undefined) return option;
  const given = parameters.find((value) => typeof value === "object" && value !== null);
  return (given as AnyTensor | undefined)?.device ?? "cpu";
}

function deviates(
  name: string,
  key: Key,
  given: unknown,
  distribution: DeviateDistribution,
  made: DeviateAttributes["dtype"],
  parameters: readonly [unknown, unknown],
): Operand {
  const shape = checkShape(given, name);
  const inputs = [
    wordsFor(name, key),
    ...parameters.map((value) => parameterOf(name, value, shape)),
  ];
  return dispatch(DEVIATES, inputs, { distribution, shape, dtype: made }, undefined, name);
}

/** `x` in a dtype and on a device. */
function finished(x: Operand, dtype: DType, device: t.Device): Operand {
  const own = cast(x, dtype);
  return isOn(own.storage, device) ? own : toDevice(own, device);
}

/** Options of distributions whose parameters are tensors or numbers. */
export type DeviateOptions<E extends DType, V extends t.Device = "cpu"> = RandomOptions<E, V>;

/**
 * Floats of a gamma distribution of the shape parameter `alpha`, times `scale` (1); float32 by
 * default. `alpha` is a number, or a tensor that broadcasts to `shape`, by which the numbers have
 * derivatives.
 *
 * @throws {ArgumentError} For an alpha that is negative or not finite.
 * @throws {ShapeError} For parameters that do not broadcast.
 * @throws {DTypeError} For a dtype without fractions.
 *
 * @example
 * ```ts
 * random.gamma(random.key(1), [1000], 3).mean().allclose(3, { atol: 0.3 }); // => true
 * ```
 */
export function gamma<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"gamma", N>, N>,
  alpha: Parameter,
  options?: ScaledOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"gamma", N>>, t.OnDevice<NoInfer<V>>>;
export function gamma(
  key: Key,
  shape: Shape,
  alpha: Parameter,
  options: ScaledOptions<DType, t.Device> = {},
): Operand {
  checkOptions("gamma", options, ["dtype", "device", "scale"]);
  const { dtype = "float32", device, scale = 1 } = options;
  const made = madeIn("gamma", dtype, "f");
  checkScale("gamma", 0, scale);
  checkFinite("gamma", dtype, scale);
  return tidy(() => {
    const x = deviates("gamma", key, shape, "gamma", made, [alpha, 0]);
    // Not in place: derivatives need the numbers themselves.
    const scaled = scale === 1 ? x : apply(MAP.mul, x, scale);
    return finished(scaled, dtype, deviceFor(device, [alpha]));
  });
}

/**
 * Floats from 0 to 1 of a beta distribution; float32 by default. Both parameters are numbers, or
 * tensors that broadcast to `shape`, by which the numbers have derivatives.
 *
 * @throws {ArgumentError} For parameters that are not finite and above 0, or both below 1e-300.
 * @throws {ShapeError} For parameters that do not broadcast.
 * @throws {DTypeError} For a dtype without fractions.
 */
export function beta<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"beta", N>, N>,
  a: Parameter,
  b: Parameter,
  options?: DeviateOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"beta", N>>, t.OnDevice<NoInfer<V>>>;
export function beta(
  key: Key,
  shape: Shape,
  a: Parameter,
  b: Parameter,
  options: DeviateOptions<DType, t.Device> = {},
): Operand {
  checkOptions("beta", options, ["dtype", "device"]);
  const { dtype = "float32", device } = options;
  const made = madeIn("beta", dtype, "f");
  return tidy(() =>
    finished(
      deviates("beta", key, shape, "beta", made, [a, b]),
      dtype,
      deviceFor(device, [a, b]),
    )
  );
}

/** The dtypes of counts. */
const COUNTS: readonly DType[] = ["int32", "int64", "float32", "float64"];

function counts(
  name: "poisson" | "binomial",
  key: Key,
  shape: unknown,
  parameters: readonly [unknown, unknown],
  options: DeviateOptions<DType, t.Device>,
): Operand {
  checkOptions(name, options, ["dtype", "device"]);
  const { dtype = "int32", device } = options;
  if (!COUNTS.includes(dtype)) {
    throw new DTypeError(
      `Cannot make random ${name} of ${describe(dtype)}: it takes ${COUNTS.join(", ")}`,
    );
  }
  return tidy(() =>
    finished(
      deviates(name, key, shape, name, dtype, parameters),
      dtype,
      deviceFor(device, parameters),
    )
  );
}

/**
 * Counts of a Poisson distribution with the mean `rate`: a number, or a tensor that broadcasts to
 * `shape`; int32 by default.
 *
 * @throws {ArgumentError} For a rate below 0 or above 1e9.
 * @throws {ShapeError} For parameters that do not broadcast.
 * @throws {DTypeError} For another dtype than int32, int64, float32 and float64.
 *
 * @example
 * ```ts
 * random.poisson(random.key(1), [1000], 4).astype("float32").mean().item() < 5; // => true
 * ```
 */
export function poisson<
  const N extends Shape,
  E extends DType = "int32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"poisson", N>, N>,
  rate: Parameter,
  options?: DeviateOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"poisson", N>>, t.OnDevice<NoInfer<V>>>;
export function poisson(
  key: Key,
  shape: Shape,
  rate: Parameter,
  options: DeviateOptions<DType, t.Device> = {},
): Operand {
  return counts("poisson", key, shape, [rate, 0], options);
}

/**
 * The number of successes in `n` trials of probability `p`: numbers, or tensors that broadcast to
 * `shape`; int32 by default.
 *
 * @throws {ArgumentError} For an n that is no integer from 0 to 2^31 - 1 and a p that is not from
 *   0 to 1.
 * @throws {ShapeError} For parameters that do not broadcast.
 * @throws {DTypeError} As {@link poisson}.
 */
export function binomial<
  const N extends Shape,
  E extends DType = "int32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"binomial", N>, N>,
  n: Parameter,
  p: Parameter,
  options?: DeviateOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"binomial", N>>, t.OnDevice<NoInfer<V>>>;
export function binomial(
  key: Key,
  shape: Shape,
  n: Parameter,
  p: Parameter,
  options: DeviateOptions<DType, t.Device> = {},
): Operand {
  return counts("binomial", key, shape, [n, p], options);
}

/** Options of `truncatedNormal`. */
export interface TruncatedOptions<E extends DType, V extends t.Device = "cpu">
  extends RandomOptions<E, V> {
  /** The lowest number; by default 2 standard deviations below the mean. May be -Infinity. */
  readonly low?: number;
  /** The highest number; by default 2 standard deviations above the mean. May be Infinity. */
  readonly high?: number;
  /** The mean of the normal distribution; 0 by default. */
  readonly mean?: number;
  /** Its standard deviation; 1 by default. */
  readonly std?: number;
}

/** The probability of a standard normal number below `x`; exact to the last digits in the lower tail. */
function below(x: number): number {
  if (x === 0) return 0.5;
  return x === Infinity ? 1 : x === -Infinity ? 0 : FLOAT["gelu"]!(x) / x;
}

/** Bounds further from the mean than this leave no probability that a double can express. */
const MOST_DEVIATIONS = 37;

/**
 * Normally distributed floats between two bounds: a normal distribution without the parts below `low`
 * and above `high`; float32 by default. Each number is the quantile of a uniform number.
 *
 * @throws {ArgumentError} For bounds that are not in order or leave nothing, and for a mean or a
 *   deviation that is not finite or not above 0.
 *
 * @example
 * ```ts
 * const x = random.truncatedNormal(random.key(1), [1000], { low: 0, high: 3 });
 * x.min().item() >= 0 && x.max().item() <= 3; // => true
 * ```
 */
export function truncatedNormal<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"truncatedNormal", N>, N>,
  options?: TruncatedOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"truncatedNormal", N>>, t.OnDevice<NoInfer<V>>>;
export function truncatedNormal(
  key: Key,
  shape: Shape,
  options: TruncatedOptions<DType, t.Device> = {},
): Operand {
  const name = "truncatedNormal";
  checkOptions(name, options, ["dtype", "device", "low", "high", "mean", "std"]);
  const { mean = 0, std = 1, dtype = "float32", device = "cpu" } = options;
  const made = madeIn(name, dtype, "f");
  const given = [mean, std, options.low ?? 0, options.high ?? 0];
  const wrong = given.findIndex((one) => typeof one !== "number");
  if (wrong >= 0) {
    throw new ArgumentError(
      `Cannot make ${name} numbers with ${["mean", "std", "low", "high"][wrong]} ${
        describe(given[wrong])
      }: it is not a number`,
    );
  }
  const { low = mean - 2 * std, high = mean + 2 * std } = options;
  if (!Number.isFinite(mean) || !Number.isFinite(std) || !(std > 0) || !(low < high)) {
    throw new ArgumentError(
      `Cannot make ${name} numbers from ${describe(low)} to ${describe(high)} of mean ` +
        `${describe(mean)}, std ${describe(std)}`,
    );
  }
  const finite = [low, high].filter((bound) => Math.abs(bound) !== Infinity);
  checkFinite(name, dtype, mean, std, ...finite);
  const [from, to] = [(low - mean) / std, (high - mean) / std];
  if (from > MOST_DEVIATIONS || to < -MOST_DEVIATIONS) {
    throw new ArgumentError(
      `Cannot make ${name} numbers from ${low} to ${high}: the bounds are more than ` +
        `${MOST_DEVIATIONS} standard deviations from the mean`,
    );
  }
  // The lower tail has small probabilities, which are exact.
  const flips = from > 0;
  const start = below(flips ? -to : from);
  const width = below(flips ? -from : to) - start;
  return tidy(() => {
    const x = deviates(name, key, shape, name, made, [start, width]);
    if (flips || std !== 1) apply(MAP.mul, x, flips ? -std : std, undefined, { out: x });
    if (mean !== 0) apply(MAP.add, x, mean, undefined, { out: x });
    if (low > -Infinity) apply(MAP.maximum, x, low, undefined, { out: x });
    if (high < Infinity) apply(MAP.minimum, x, high, undefined, { out: x });
    return finished(x, dtype, device);
  });
}

/** Throws a ShapeError for `shape` of an argument that the function does not take. */
export function refuseShape(name: string, shape: readonly number[], takes: string): never {
  throw new ShapeError(`Cannot ${name} shape ${formatShape(shape)}: it takes ${takes}`);
}
