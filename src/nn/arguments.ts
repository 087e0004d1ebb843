/**
 * Checks of arguments that several functions share.
 *
 * @module
 */
import { ArgumentError, AxisError, ShapeError } from "../base/errors.ts";
import { Placeholder } from "../base/placeholder.ts";
import { formatShape, lengthOf } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { cast } from "../core/copy.ts";
import { ownOperand } from "../core/foreign.ts";
import { rowDType } from "../ops/softmax_norm/problem.ts";
import type { Operand } from "../memory/operand.ts";
import { checkDevice, checkKind } from "../table/infer.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";

/** A tensor like `X` whose shape only the run time knows. */
export type Like<X extends AnyTensor> = Tensor<X["dtype"], number[], X["device"]>;

/** A tensor of floats as an operand. */
export function floats(x: unknown, name: string): Operand {
  const own = ownOperand(x, name);
  checkKind(own.storage.info, "f", name);
  return own;
}

/** {@link floats} of a tensor beside `x`. */
export function floatsBeside(x: Operand, other: unknown, name: string): Operand {
  const own = floats(other, name);
  checkDevice(x.storage, own.storage, name);
  return own;
}

/** `x` in the dtype of its arithmetic: 16-bit floats are computed in float32. */
export function widened(x: Operand): Operand {
  return cast(x, rowDType(x.storage.info).name);
}

/** The error of `value` as the argument `what`. */
export function badArgument(
  name: string,
  what: string,
  value: unknown,
  wanted: string,
): ArgumentError {
  const text = lengthOf(value) === undefined ? describe(value) : formatShape(value as number[]);
  return new ArgumentError(`Cannot ${name} with ${what} ${text}: it is ${wanted}`);
}

/** Throws unless `value` is a number of at least `least`. */
export function checkNumber(
  name: string,
  what: string,
  value: unknown,
  least: number = -Infinity,
): number {
  if (value instanceof Placeholder) value.refuse();
  if (typeof value === "number" && value >= least) return value;
  const wanted = least === -Infinity ? "a number" : `a number of at least ${least}`;
  throw badArgument(name, what, value, wanted);
}

/** Throws unless `value` is true or false. */
export function checkFlag(name: string, what: string, value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw badArgument(name, what, value, "true or false");
}

/** Throws unless `value` is one of `known`. */
export function checkChoice<const T extends string>(
  name: string,
  what: string,
  value: unknown,
  known: readonly T[],
): T {
  if (known.includes(value as T)) return value as T;
  throw badArgument(name, what, value, `one of ${known.map((one) => `"${one}"`).join(", ")}`);
}

/** Throws unless `x` has one of the ranks of a batch, or of one element of it. */
export function checkSpatial(name: string, x: Operand, spatial: number): void {
  const { shape } = x.layout;
  if (shape.length === spatial + 1 || shape.length === spatial + 2) return;
  const axes = ["L", "H, W", "D, H, W"][spatial - 1];
  throw new ShapeError(
    `Cannot ${name} shape ${formatShape(shape)}: it takes [N, C, ${axes}] or [C, ${axes}]`,
  );
}

/** Throws unless `x` has an axis 1, of channels; returns its size. */
export function channelsOf(name: string, x: Operand): number {
  const { shape } = x.layout;
  if (shape.length >= 2) return shape[1]!;
  throw new AxisError(`Cannot ${name} shape ${formatShape(shape)}: axis 1 has the channels`);
}

/** Throws unless `x` is a vector of `n` elements. */
export function checkVector(name: string, what: string, x: Operand, n: number): void {
  const { shape } = x.layout;
  if (shape.length === 1 && shape[0] === n) return;
  throw new ShapeError(
    `Cannot ${name} with ${what} of shape ${formatShape(shape)}: it must have shape [${n}]`,
  );
}
