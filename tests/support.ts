/**
 * Shared code of the feature tests: untyped calls, and errors that leave every operand unchanged.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { type AnyTensor, arange, type DType, type Shape, type Tensor } from "../mod.ts";

/** A value of any type, for calls that would not compile. */
// deno-lint-ignore no-explicit-any
export type Any = any;

/** A tensor whose types know nothing, for calls that would not compile. */
export function loose(x: unknown): Any {
  return x;
}

/** 0, 1, 2, … in a shape that the types do not know. */
export function iota(shape: Shape, dtype: DType = "float32"): Tensor<DType> {
  const size = shape.reduce((a, b) => a * b, 1);
  return arange(0, size, 1, { dtype }).reshape(shape as number[]) as Tensor<DType>;
}

/** The vector 0…9 of the slice examples. */
export function ten(): Tensor<"float32", [number]> {
  return arange(10);
}

/**
 * The same values as `x` in other memory of its device: every second element of a reversed,
 * transposed buffer, so that no stride is that of a dense tensor.
 */
export function asView(x: AnyTensor): Tensor<DType> {
  const { shape, dtype } = x;
  const wide = loose(iota([...shape].reverse().map((n) => 2 * n + 1), dtype)).to(x.device);
  const part = shape.map(() => "-2::-2").join(", ");
  const view = shape.length === 0 ? wide.reshape([1]).slice(0) : wide.slice(part).transpose();
  assertEquals(view.shape, [...shape]);
  view.set(["..."], x);
  return view;
}

type ErrorClass = abstract new (...args: never[]) => Error;

/**
 * Runs a function that must throw, and checks the class, parts of the message, and that no tensor
 * changed.
 */
export function assertRefused(
  run: () => unknown,
  kind: ErrorClass,
  parts: string | readonly string[],
  ...operands: readonly AnyTensor[]
): void {
  const before = operands.map(state);
  const error = assertThrows(run, kind as never) as Error;
  assertEquals(error.name, kind.name);
  for (const part of [parts].flat()) assertStringIncludes(error.message, part);
  assert("code" in error && typeof error.code === "string");
  assertEquals(operands.map(state), before);
}

function state(x: AnyTensor): unknown {
  if (x.isDisposed) return "disposed";
  const { shape, strides, offset, dtype, ownership, access } = x;
  return {
    shape,
    strides,
    offset,
    dtype,
    ownership,
    access,
    data: [...x.toTypedArray() as Float64Array],
  };
}
