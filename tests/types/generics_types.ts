/**
 * Generic code: scalars, and two operands of one type parameter.
 *
 * @module
 */
import { type DType, type Shape, type Tensor, zeros } from "./api.ts";

type Float = "float32" | "float64";

export function twice<S extends Shape>(y: Tensor<"float32", S>): Tensor<"float32", S> {
  return y.mul(2);
}

export function half<D extends Float>(x: Tensor<D>): Tensor<D> {
  return x.div(2).sub(0.5).maximum(0);
}

export function square<D extends Float, S extends Shape>(
  x: Tensor<D, S>,
  y: Tensor<D, S>,
): Tensor<D, S> {
  return x.add(y).mul(x.sub(y)).pow(2).minimum(y).hypot(1);
}

export function odd<D extends "int32" | "int64">(x: Tensor<D>): Tensor<D> {
  return x.mul(2).add(x).add(1n).bitwiseAnd(1);
}

export function between<D extends Float, S extends Shape>(x: Tensor<D, S>): Tensor<"bool", S> {
  x.add_(1).mul_(x).div_(x);
  return x.greater(0).logicalAnd(x.less(3));
}

export function promoted<S extends Shape>(
  x: Tensor<"int32", S>,
  y: Tensor<"float32", S>,
): Tensor<"float32", S> {
  return y.mul(x);
}

export function rows<N extends number>(x: Tensor<"float32", [N, 3]>): Tensor<"float32", [N, 3]> {
  return x.add(x).mul(3).sub(x);
}

export class Box<S extends Shape> {
  constructor(readonly weight: Tensor<"float32", S>) {}

  scaled(factor: number): Tensor<"float32", S> {
    return this.weight.mul(factor).add(this.weight);
  }

  step(gradient: Tensor<"float32", S>, rate: number): void {
    this.weight.sub_(gradient.mul(rate));
  }

  below(other: Box<S>): Tensor<"bool", S> {
    return this.weight.less(other.weight);
  }
}

export const shape: [2, 3] = new Box(zeros([2, 3])).scaled(2).shape as [2, 3];
export const result: Tensor<"float32", [2, 3]> = twice(zeros([2, 3]));

export function wrong<D extends DType, S extends Shape>(x: Tensor<D, S>, y: Tensor<"bool", S>) {
  // @ts-expect-error: D may be bool
  x.add(x);
  // @ts-expect-error: bool
  y.mul(y);
  // @ts-expect-error: D may be an integer
  x.add(0.5);
}
