/**
 * The ops that derivatives consist of, on operands.
 *
 * @module
 */
import type { DTypeInfo } from "../../base/dtype.ts";
import { sameShape } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast, contiguousCopy } from "../../core/copy.ts";
import { frame } from "../../core/interpreter.ts";
import { fullOperand } from "../../ops/create/full.ts";
import { matmul as product } from "../../ops/matmul/op.ts";
import { reduce } from "../../ops/reduce/op.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Input, MapOp } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";

const binary = (op: MapOp) => (a: Input, b: Input): Operand => apply(op, a, b);
const unary = (op: MapOp) => (x: Input): Operand => apply(op, x);

export const add: (a: Input, b: Input) => Operand = binary(MAP.add);
export const sub: (a: Input, b: Input) => Operand = binary(MAP.sub);
export const mul: (a: Input, b: Input) => Operand = binary(MAP.mul);
export const div: (a: Input, b: Input) => Operand = binary(MAP.div);
export const equal: (a: Input, b: Input) => Operand = binary(MAP.equal);
export const neg: (x: Input) => Operand = unary(MAP.neg);
export const exp: (x: Input) => Operand = unary(MAP.exp);
export const where = (test: Input, then: Input, otherwise: Input): Operand =>
  apply(MAP.where, test, then, otherwise);

/** The complex conjugate; real numbers as they are. */
export const conj = (x: Operand): Operand => x.storage.info.kind === "c" ? apply(MAP.conj, x) : x;

export const shapeOf = (x: Operand): readonly number[] => x.layout.shape;
export const reshape = (x: Operand, shape: readonly number[]): Operand =>
  sameShape(shapeOf(x), shape) ? x : applyView(VIEWS.reshape, x, "reshape", shape);
export const broadcastTo = (x: Operand, shape: readonly number[]): Operand =>
  applyView(VIEWS.broadcastTo, x, "broadcastTo", shape);
export const permute = (x: Operand, axes: readonly number[]): Operand =>
  applyView(VIEWS.permute, x, "permute", axes);
export const swapAxes = (x: Operand, a: number, b: number): Operand =>
  applyView(VIEWS.swapAxes, x, "swapAxes", a, b);
export const moveAxis = (
  x: Operand,
  from: number | readonly number[],
  to: number | readonly number[],
): Operand => applyView(VIEWS.moveAxis, x, "moveAxis", from, to);
export const flip = (x: Operand, axes: number | readonly number[]): Operand =>
  applyView(VIEWS.flip, x, "flip", axes);
export const narrow = (x: Operand, axis: number, start: number, length: number): Operand =>
  applyView(VIEWS.narrow, x, "narrow", axis, start, length);
export const select = (x: Operand, axis: number, index: number): Operand =>
  applyView(VIEWS.selectAxis, x, "selectAxis", axis, index);
/** The last two axes swapped. */
export const mT = (x: Operand): Operand => applyView(VIEWS.mT, x, "mT");
export const matmul = (a: Operand, b: Operand): Operand => product(a, b);

/** The sum along axes. */
export function sum(x: Operand, axes: readonly number[], keepDims = false): Operand {
  return axes.length === 0 ? x : reduce(REDUCE.sum, x, axes, { keepDims });
}

/** The mean along axes, which stay as axes of size 1. */
export const mean = (x: Operand, axes: readonly number[]): Operand =>
  axes.length === 0 ? x : reduce(REDUCE.mean, x, axes, { keepDims: true });

/**
 * Zeros of a dtype on the device of `like`: copies of one number, so that programs make them in each
 * run, and keep no constant of their size.
 */
export function zeros(shape: readonly number[], like: Operand, info?: DTypeInfo): Operand {
  const { storage: { info: own, device } } = like;
  const of = (shape: readonly number[]): Operand =>
    fullOperand("zeros", shape, 0, (info ?? own).name, device);
  return frame === null ? of(shape) : contiguousCopy(broadcastTo(of([]), shape));
}

/** Axes of size 1 in the place of `axes` that a reduction has left out. */
export function keptAxes(
  x: Operand,
  shape: readonly number[],
  axes: readonly number[],
): Operand {
  return reshape(x, shape.map((n, k) => axes.includes(k) ? 1 : n));
}

/** The product of the sizes of axes. */
export const countOf = (shape: readonly number[], axes: readonly number[]): number =>
  axes.reduce((count, axis) => count * shape[axis]!, 1);

/** `x` as the derivative by a value of `shape`: summed over the axes along which that was repeated. */
export function fit(x: Operand, shape: readonly number[], info: DTypeInfo): Operand {
  const from = shapeOf(x);
  let made = x;
  if (!sameShape(from, shape)) {
    const more = from.length - shape.length;
    const axes = from.flatMap((n, k) => k < more || (shape[k - more] === 1 && n !== 1) ? [k] : []);
    made = reshape(sum(made, axes), shape);
  }
  const { kind } = made.storage.info;
  if (kind === "c" && info.kind !== "c") made = apply(MAP.real, made);
  return cast(made, info.name);
}

/** `x` in another dtype. */
export const castTo = (x: Operand, info: DTypeInfo): Operand => cast(x, info.name);
