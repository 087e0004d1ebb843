/**
 * Activations: each is one expression, which runs in one pass over memory on every backend.
 *
 * @module
 */
import { DTypeError, ShapeError } from "../base/errors.ts";
import { formatShape, normalizeAxis, type Shape } from "../base/shape.ts";
import { applyInto, applyView } from "../core/apply.ts";
import { cast } from "../core/copy.ts";
import { ownOperand } from "../core/foreign.ts";
import { tidy } from "../core/handles.ts";
import type { Operand } from "../memory/operand.ts";
import { checkDevice, checkOptions, ruleFor } from "../table/infer.ts";
import type { MapOp } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import { VIEWS } from "../table/views.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import { badArgument, channelsOf, checkChoice, checkNumber } from "./arguments.ts";
import { expression } from "../ops/chain/expression.ts";
import { BENDS } from "../ops/conv/op.ts";

/** Options of activations. */
export interface ActivationOptions {
  /** The result is written here. */
  readonly out?: AnyTensor;
}

/** The type of an activation of `X`: integers give float32. */
export type Activated<X extends AnyTensor> = Tensor<
  t.ToFloat[X["dtype"]],
  t.ShapeOf<X>,
  X["device"]
>;

/** Runs an expression of `x` with the numbers `defaults`, or those of `options`. */
function activate<X extends AnyTensor>(
  op: MapOp,
  name: string,
  x: X,
  options?: ActivationOptions,
  defaults?: Readonly<Record<string, number>>,
): Activated<X>;
function activate(
  op: MapOp,
  name: string,
  x: unknown,
  options: ActivationOptions = {},
  defaults: Readonly<Record<string, number>> = {},
): Operand {
  const names = Object.keys(defaults);
  checkOptions(name, options, [...names, "out"]);
  const own = ownOperand(x, name);
  const given = options as Readonly<Record<string, unknown>>;
  const numbers = names.map((key) => [key, checkNumber(name, key, given[key] ?? defaults[key])]);
  const attributes = names.length === 0 ? undefined : Object.fromEntries(numbers);
  return applyInto(
    op,
    name,
    own,
    undefined,
    undefined,
    options.out as Operand,
    attributes,
  );
}

const ELU = expression("elu", "x > 0 ? x : alpha * expm1(x)", ["alpha"]);
const SELU = expression(
  "selu",
  "1.0507009873554804934193349852946 * (x > 0 ? x : 1.6732632423543772848170429916717 * expm1(x))",
);
const CELU = expression("celu", "x > 0 ? x : alpha * expm1(x / alpha)", ["alpha"]);
const LEAKY_RELU = expression("leakyRelu", "x > 0 ? x : negativeSlope * x", ["negativeSlope"]);
const PRELU = expression("prelu", "x > 0 ? x : y * x");
const RELU6 = expression("relu6", "minimum(maximum(x, 0), 6)");
const SOFTPLUS = expression(
  "softplus",
  "beta * x > threshold ? x : log1p(exp(beta * x)) / beta",
  ["beta", "threshold"],
);
const HARD_SIGMOID = expression("hardSigmoid", "minimum(maximum(x + 3, 0), 6) / 6");
const HARD_TANH = expression("hardTanh", "minimum(maximum(x, min), max)", ["min", "max"]);
const LOG_SIGMOID = expression("logSigmoid", "minimum(x, 0) - log1p(exp(-fabs(x)))");
const SOFTSIGN = expression("softsign", "x / (1 + fabs(x))");
const TANHSHRINK = expression("tanhshrink", "x - tanh(x)");
const GLU = expression("glu", "x * sigmoid(y)");
const SWIGLU = expression("swiglu", "silu(x) * y");
// 0.5 x (1 + tanh(√(2 / π) (x + 0.044715 x³))) without the cancellation for negative x.
const GELU_TANH = expression(
  "geluTanh",
  "x * sigmoid(1.5957691216057307117597842397375 * (x + 0.044715 * x * x * x))",
);

/** Options of {@link elu} and {@link celu}. */
export interface EluOptions extends ActivationOptions {
  /** The limit of the result for small x is its negative; 1 by default. */
  readonly alpha?: number;
}

/**
 * x above 0, else `alpha` · (exp(x) − 1). Integers give float32.
 *
 * @example
 * ```ts
 * nn.elu(tensor([-1000, 0, 2]), { alpha: 0.5 }).toArray(); // => [-0.5, 0, 2]
 * ```
 */
export function elu<X extends AnyTensor>(x: X, options?: EluOptions): Activated<X> {
  return activate(ELU, "elu", x, options, { alpha: 1 });
}

/**
 * {@link elu} with the alpha and the scale that keep mean 0 and variance 1.
 *
 * @example
 * ```ts
 * nn.selu(tensor([0, 1])).toArray(); // => [0, 1.0507010221481323]
 * ```
 */
export function selu<X extends AnyTensor>(x: X, options?: ActivationOptions): Activated<X> {
  return activate(SELU, "selu", x, options);
}

/**
 * x above 0, else `alpha` · (exp(x / `alpha`) − 1), whose derivative is continuous. Integers give
 * float32.
 *
 * @throws {ArgumentError} For an alpha of 0.
 *
 * @example
 * ```ts
 * nn.celu(tensor([-1000, 0, 2]), { alpha: 2 }).toArray(); // => [-2, 0, 2]
 * ```
 */
export function celu<X extends AnyTensor>(x: X, options?: EluOptions): Activated<X> {
  if (options?.alpha === 0) throw badArgument("celu", "alpha", 0, "not zero");
  return activate(CELU, "celu", x, options, { alpha: 1 });
}

/** Options of {@link leakyRelu}. */
export interface LeakyReluOptions extends ActivationOptions {
  /** The factor of x below 0; 0.01 by default. */
  readonly negativeSlope?: number;
}

/**
 * x above 0, else `negativeSlope` · x. Integers give float32.
 *
 * @example
 * ```ts
 * nn.leakyRelu(tensor([-2, 3]), { negativeSlope: 0.5 }).toArray(); // => [-1, 3]
 * ```
 */
export function leakyRelu<X extends AnyTensor>(x: X, options?: LeakyReluOptions): Activated<X> {
  return activate(LEAKY_RELU, "leakyRelu", x, options, { negativeSlope: 0.01 });
}

/**
 * x above 0, else `weight` · x, with one weight, or one for each channel of x: [N, C, ...]. Dtypes
 * promote.
 *
 * @throws {ShapeError} For a weight of another shape than [], [1] and [C].
 *
 * @example
 * ```ts
 * nn.prelu(tensor([[-2, -2]]), tensor([0.5, 2])).toArray(); // => [[-1, -4]]
 * ```
 */
export function prelu<X extends AnyTensor>(
  x: X,
  weight: AnyTensor,
  options?: ActivationOptions,
): Activated<X>;
export function prelu(x: AnyTensor, weight: AnyTensor, options: ActivationOptions = {}): Operand {
  checkOptions("prelu", options, ["out"]);
  return tidy(() => {
    const [own, given] = [ownOperand(x, "prelu"), ownOperand(weight, "prelu")];
    checkDevice(own.storage, given.storage, "prelu");
    const { shape } = given.layout;
    const single = given.layout.size === 1 && shape.length <= 1;
    const channels = single ? 1 : channelsOf("prelu", own);
    if (!single && (shape.length !== 1 || shape[0] !== channels)) {
      throw new ShapeError(
        `Cannot prelu shape ${formatShape(own.layout.shape)} with a weight of shape ` +
          `${formatShape(shape)}: there is one for all, or one for each of ${channels} channels`,
      );
    }
    const slope = cast(given, ruleFor(PRELU, own.storage.info, "prelu").result.name);
    const aligned = single ? [] : [channels, ...own.layout.shape.slice(2).fill(1)];
    const along = applyView(VIEWS.reshape, slope, "reshape", aligned);
    return applyInto(PRELU, "prelu", own, along, undefined, options.out as Operand | undefined);
  });
}

/**
 * x between 0 and 6. Integers give float32.
 *
 * @example
 * ```ts
 * nn.relu6(tensor([-1, 3, 8])).toArray(); // => [0, 3, 6]
 * ```
 */
export function relu6<X extends AnyTensor>(x: X, options?: ActivationOptions): Activated<X> {
  return activate(RELU6, "relu6", x, options);
}

/** Options of {@link softplus}. */
export interface SoftplusOptions extends ActivationOptions {
  /** How sharp the bend is; 1 by default. */
  readonly beta?: number;
  /** Above it, `beta` · x counts as the result; 20 by default. */
  readonly threshold?: number;
}

/**
 * log(1 + exp(`beta` · x)) / `beta`, without overflow. Integers give float32.
 *
 * @example
 * ```ts
 * nn.softplus(tensor([-1000, 0, 1000])).toArray(); // => [0, 0.6931471824645996, 1000]
 * ```
 */
export function softplus<X extends AnyTensor>(x: X, options?: SoftplusOptions): Activated<X> {
  if (options?.beta === 0) throw badArgument("softplus", "beta", 0, "not zero");
  return activate(SOFTPLUS, "softplus", x, options, { beta: 1, threshold: 20 });
}

/**
 * x · tanh(log(1 + exp(x))), without overflow. Integers give float32.
 *
 * @example
 * ```ts
 * nn.mish(tensor([0, 1000])).toArray(); // => [0, 1000]
 * ```
 */
export function mish<X extends AnyTensor>(x: X, options?: ActivationOptions): Activated<X> {
  return activate(BENDS.mish, "mish", x, options);
}

/**
 * (x + 3) / 6 between 0 and 1. Integers give float32.
 *
 * @example
 * ```ts
 * nn.hardSigmoid(tensor([-4, 0, 4])).toArray(); // => [0, 0.5, 1]
 * ```
 */
export function hardSigmoid<X extends AnyTensor>(x: X, options?: ActivationOptions): Activated<X> {
  return activate(HARD_SIGMOID, "hardSigmoid", x, options);
}

/**
 * x times {@link hardSigmoid} of x. Integers give float32.
 *
 * @example
 * ```ts
 * nn.hardSwish(tensor([-1, 0, 4])).toArray(); // => [-0.3333333432674408, 0, 4]
 * ```
 */
export function hardSwish<X extends AnyTensor>(x: X, options?: ActivationOptions): Activated<X> {
  return activate(BENDS.hardSwish, "hardSwish", x, options);
}

/** Options of {@link hardTanh}. */
export interface HardTanhOptions extends ActivationOptions {
  /** The least result; −1 by default. */
  readonly min?: number;
  /** The largest result; 1 by default. */
  readonly max?: number;
}

/**
 * x between `min` and `max`. Integers give float32.
 *
 * @throws {ArgumentError} For a min above max.
 *
 * @example
 * ```ts
 * nn.hardTanh(tensor([-3, 0.5, 3]), { max: 2 }).toArray(); // => [-1, 0.5, 2]
 * ```
 */
export function hardTanh<X extends AnyTensor>(x: X, options: HardTanhOptions = {}): Activated<X> {
  const { min = -1, max = 1 } = options;
  if (min > max) throw badArgument("hardTanh", "min", min, `at most max, ${max}`);
  return activate(HARD_TANH, "hardTanh", x, options, { min: -1, max: 1 });
}

/**
 * log(sigmoid(x)), without its rounding error. Integers give float32.
 *
 * @example
 * ```ts
 * nn.logSigmoid(tensor([-1000, 1000])).toArray(); // => [-1000, 0]
 * ```
 */
export function logSigmoid<X extends AnyTensor>(x: X, options?: ActivationOptions): Activated<X> {
  return activate(LOG_SIGMOID, "logSigmoid", x, options);
}

/**
 * x / (1 + |x|). Integers give float32.
 *
 * @example
 * ```ts
 * nn.softsign(tensor([-1, 0, 3])).toArray(); // => [-0.5, 0, 0.75]
 * ```
 */
export function softsign<X extends AnyTensor>(x: X, options?: ActivationOptions): Activated<X> {
  return activate(SOFTSIGN, "softsign", x, options);
}

/**
 * x − tanh(x). Integers give float32.
 *
 * @example
 * ```ts
 * nn.tanhshrink(tensor([0, 20])).toArray(); // => [0, 19]
 * ```
 */
export function tanhshrink<X extends AnyTensor>(x: X, options?: ActivationOptions): Activated<X> {
  return activate(TANHSHRINK, "tanhshrink", x, options);
}

/** Options of {@link gelu}. */
export interface GeluOptions extends ActivationOptions {
  /** `"tanh"` replaces the error function by a tanh, as the first GPT models do. */
  readonly approximate?: "none" | "tanh";
}

/**
 * x · Φ(x), with the distribution function Φ of normal numbers, exactly or by a tanh. Integers give
 * float32.
 *
 * @example
 * ```ts
 * nn.gelu(tensor([0, 1000]), { approximate: "tanh" }).toArray(); // => [0, 1000]
 * ```
 */
export function gelu<X extends AnyTensor>(x: X, options: GeluOptions = {}): Activated<X> {
  checkOptions("gelu", options, ["approximate", "out"]);
  const { approximate = "none", out } = options;
  const tanh = checkChoice("gelu", "approximate", approximate, ["none", "tanh"]) === "tanh";
  return activate(tanh ? GELU_TANH : MAP.gelu, "gelu", x, out === undefined ? {} : { out });
}

/**
 * a · sigmoid(b) of the two halves a and b of `x` along `axis`, the last one by default. Integers
 * give float32.
 *
 * @throws {ShapeError} For an axis of odd size.
 *
 * @example
 * ```ts
 * nn.glu(tensor([2, 4, 0, 1000])).toArray(); // => [1, 4]
 * ```
 */
export function glu<X extends AnyTensor>(
  x: X,
  axis?: number,
  options?: ActivationOptions,
): Tensor<t.ToFloat[X["dtype"]], number[], X["device"]>;
export function glu(x: AnyTensor, axis: number = -1, options: ActivationOptions = {}): Operand {
  checkOptions("glu", options, ["out"]);
  return tidy(() => {
    const own = ownOperand(x, "glu");
    ruleFor(GLU, own.storage.info, "glu");
    const { shape } = own.layout;
    const along = normalizeAxis("glu", axis, shape.length);
    const half = shape[along]! / 2;
    if (!Number.isInteger(half)) {
      throw new ShapeError(
        `Cannot glu shape ${formatShape(shape)}: axis ${along} has ${shape[along]} elements, ` +
          "which do not halve",
      );
    }
    const [a, b] = [0, half].map((start) =>
      applyView(VIEWS.narrow, own, "narrow", along, start, half)
    );
    return applyInto(GLU, "glu", a, b, undefined, options.out as Operand | undefined);
  });
}

/**
 * silu(`gate`) · `up`, as between the linear layers of Llama models. Integers give float32.
 *
 * @throws {ShapeError} For operands of different shapes.
 * @throws {DTypeError} For operands of different dtypes.
 *
 * @example
 * ```ts
 * nn.swiglu(tensor([0, 1000]), tensor([3, 2])).toArray(); // => [0, 2000]
 * ```
 */
export function swiglu<X extends AnyTensor>(
  gate: X,
  up: Tensor<X["dtype"], Shape, X["device"], t.Access>,
  options?: ActivationOptions,
): Activated<X>;
export function swiglu(gate: AnyTensor, up: AnyTensor, options: ActivationOptions = {}): Operand {
  checkOptions("swiglu", options, ["out"]);
  return tidy(() => {
    const [x, y] = [ownOperand(gate, "swiglu"), ownOperand(up, "swiglu")];
    const [{ info }, { info: other }] = [x.storage, y.storage];
    if (info !== other) {
      throw new DTypeError(`Cannot swiglu ${info.name} and ${other.name}: both have one dtype`);
    }
    const attributes = { broadcast: false };
    return applyInto(SWIGLU, "swiglu", x, y, undefined, options.out as Operand, attributes);
  });
}
