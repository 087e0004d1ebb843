/**
 * First values of weights, by a random key. `random.uniform`, `random.normal` and
 * `random.truncatedNormal` make those without a rule.
 *
 * @module
 */
import { generate, type Key, type RandomOptions } from "../api/random/create.ts";
import type { DType } from "../base/dtype.ts";
import { ShapeError } from "../base/errors.ts";
import { checkShape, formatShape, type Shape } from "../base/shape.ts";
import type { Operand } from "../memory/operand.ts";
import { checkOptions } from "../table/infer.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import { checkChoice, checkNumber } from "./arguments.ts";

/** Options of first values. */
export type InitOptions<E extends DType = "float32", V extends t.Device = "cpu"> = RandomOptions<
  E,
  V
>;

/** Options of {@link xavierUniform} and {@link xavierNormal}. */
export interface XavierOptions<E extends DType = "float32", V extends t.Device = "cpu">
  extends InitOptions<E, V> {
  /** A factor of the values, such as 5/3 before tanh; 1 by default. */
  readonly gain?: number | undefined;
}

/** Options of {@link kaimingUniform} and {@link kaimingNormal}. */
export interface KaimingOptions<E extends DType = "float32", V extends t.Device = "cpu">
  extends InitOptions<E, V> {
  /** What keeps its size: values on the way forward (`"in"`, the default), or derivatives on the way back. */
  readonly mode?: "in" | "out" | undefined;
  /** The activation after the layer: its gain is a factor of the values; `"relu"` by default. */
  readonly activation?: "relu" | "leakyRelu" | "tanh" | "selu" | "linear" | undefined;
  /** The slope of `leakyRelu` below 0; 0.01 by default. */
  readonly slope?: number | undefined;
}

const PLACE = ["dtype", "device"];

/** The numbers of inputs and outputs of each element: of a layer [O, I], or of filters [O, I, ...]. */
function fans(name: string, shape: readonly number[]): Record<"in" | "out", number> {
  if (shape.length < 2) {
    throw new ShapeError(
      `Cannot ${name} of shape ${formatShape(shape)}: weights have the axes [O, I, ...]`,
    );
  }
  const window = shape.slice(2).reduce((a, b) => a * b, 1);
  return { in: shape[1]! * window, out: shape[0]! * window };
}

/** Values of the deviation `std`. */
function spreadBy(
  name: string,
  key: Key,
  shape: readonly number[],
  std: number,
  { dtype = "float32", device }: InitOptions<DType, t.Device>,
): Operand {
  const place = { shape, dtype, device };
  // Weights without inputs are no weights at all.
  const size = Number.isFinite(std) ? std : 0;
  if (name.endsWith("Normal")) {
    return generate(name, key, "f", { ...place, distribution: "normal", mean: 0, std: size });
  }
  const high = Math.sqrt(3) * size;
  return generate(name, key, "f", { ...place, distribution: "uniform", low: -high, high });
}

function kaiming(
  name: string,
  key: Key,
  given: unknown,
  options: KaimingOptions<DType, t.Device>,
): Operand {
  checkOptions(name, options, [...PLACE, "mode", "activation", "slope"]);
  const shape = checkShape(given, name);
  const fan = fans(name, shape)[checkChoice(name, "mode", options.mode ?? "in", ["in", "out"])];
  const slope = checkNumber(name, "slope", options.slope ?? 0.01);
  const gains = {
    relu: Math.SQRT2,
    leakyRelu: Math.sqrt(2 / (1 + slope ** 2)),
    tanh: 5 / 3,
    selu: 3 / 4,
    linear: 1,
  };
  const activation = checkChoice(name, "activation", options.activation ?? "relu", [
    ...["relu", "leakyRelu", "tanh", "selu", "linear"] as const,
  ]);
  return spreadBy(name, key, shape, gains[activation] / Math.sqrt(fan), options);
}

function xavier(
  name: string,
  key: Key,
  given: unknown,
  options: XavierOptions<DType, t.Device>,
): Operand {
  checkOptions(name, options, [...PLACE, "gain"]);
  const shape = checkShape(given, name);
  const fan = fans(name, shape);
  const gain = checkNumber(name, "gain", options.gain ?? 1, 0);
  return spreadBy(name, key, shape, gain * Math.sqrt(2 / (fan.in + fan.out)), options);
}

/**
 * Uniform numbers within ±gain · √(3 / inputs), which keep the size of values before relu (He et al., 2015).
 *
 * @throws {ShapeError} For a shape of fewer than 2 axes: weights have the axes [O, I, ...].
 * @throws {DTypeError} For a dtype that is not of floats.
 *
 * @example
 * ```ts
 * const w = nn.kaimingUniform(random.key(1), [128, 64]);
 * w.abs().max().item() <= Math.sqrt(6 / 64); // => true
 * ```
 */
export function kaimingUniform<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"kaimingUniform", N>, N>,
  options?: KaimingOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"kaimingUniform", N>>, t.OnDevice<NoInfer<V>>>;
export function kaimingUniform(
  key: Key,
  shape: Shape,
  options: KaimingOptions<DType, t.Device> = {},
): Operand {
  return kaiming("kaimingUniform", key, shape, options);
}

/**
 * Normal numbers of the deviation gain / √inputs; see {@link kaimingUniform}.
 *
 * @throws {ShapeError} For a shape of fewer than 2 axes: weights have the axes [O, I, ...].
 * @throws {DTypeError} For a dtype that is not of floats.
 *
 * @example
 * ```ts
 * const w = nn.kaimingNormal(random.key(1), [128, 64]);
 * Math.abs(w.std().item() - Math.sqrt(2 / 64)) < 0.005; // => true
 * ```
 */
export function kaimingNormal<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"kaimingNormal", N>, N>,
  options?: KaimingOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"kaimingNormal", N>>, t.OnDevice<NoInfer<V>>>;
export function kaimingNormal(
  key: Key,
  shape: Shape,
  options: KaimingOptions<DType, t.Device> = {},
): Operand {
  return kaiming("kaimingNormal", key, shape, options);
}

/**
 * Uniform numbers within ±gain · √(6 / (inputs + outputs)), which keep the sizes of values and of derivatives (Glorot and Bengio, 2010).
 *
 * @throws {ShapeError} For a shape of fewer than 2 axes: weights have the axes [O, I, ...].
 * @throws {DTypeError} For a dtype that is not of floats.
 *
 * @example
 * ```ts
 * const w = nn.xavierUniform(random.key(1), [128, 64]);
 * w.abs().max().item() <= Math.sqrt(6 / (64 + 128)); // => true
 * ```
 */
export function xavierUniform<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"xavierUniform", N>, N>,
  options?: XavierOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"xavierUniform", N>>, t.OnDevice<NoInfer<V>>>;
export function xavierUniform(
  key: Key,
  shape: Shape,
  options: XavierOptions<DType, t.Device> = {},
): Operand {
  return xavier("xavierUniform", key, shape, options);
}

/**
 * Normal numbers of the deviation gain · √(2 / (inputs + outputs)); see {@link xavierUniform}.
 *
 * @throws {ShapeError} For a shape of fewer than 2 axes: weights have the axes [O, I, ...].
 * @throws {DTypeError} For a dtype that is not of floats.
 *
 * @example
 * ```ts
 * const w = nn.xavierNormal(random.key(1), [128, 64]);
 * Math.abs(w.std().item() - Math.sqrt(2 / (64 + 128))) < 0.005; // => true
 * ```
 */
export function xavierNormal<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  key: Key,
  shape: t.Guard<t.NewShape<"xavierNormal", N>, N>,
  options?: XavierOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"xavierNormal", N>>, t.OnDevice<NoInfer<V>>>;
export function xavierNormal(
  key: Key,
  shape: Shape,
  options: XavierOptions<DType, t.Device> = {},
): Operand {
  return xavier("xavierNormal", key, shape, options);
}
