/**
 * Derivatives beside central differences, in float64.
 *
 * @module
 */
import { assert } from "@std/assert";
import { type AnyTensor, type Tensor, tensor } from "../../mod.ts";
import { grad } from "../../src/grad/mod.ts";
import { loose } from "../support.ts";

// Functions of tests take tensors of any shape and dtype.
// deno-lint-ignore no-explicit-any
export type T = any;

/** The same numbers in each run. */
export function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  };
}

/** A tensor of float64. */
export function float64(data: readonly number[], shape: readonly number[]): T {
  return tensor(new Float64Array(data), { shape: [...shape] });
}

/** A tensor of numbers between two others. */
export function uniform(
  shape: readonly number[],
  next: () => number,
  low = -1,
  high = 1,
): T {
  const count = shape.reduce((a, b) => a * b, 1);
  return float64(Array.from({ length: count }, () => low + (high - low) * next()), shape);
}

/** The float tensors in a result. */
export function floatsIn(value: unknown, depth = 0): T[] {
  if (isTensor(value)) return /^(float|complex)/.test(value.dtype) ? [value] : [];
  if (depth > 4 || typeof value !== "object" || value === null) return [];
  const prototype = Object.getPrototypeOf(value);
  if (!Array.isArray(value) && prototype !== Object.prototype) return [];
  return Object.values(value).flatMap((one) => floatsIn(one, depth + 1));
}

function isTensor(value: unknown): value is Tensor {
  return typeof value === "object" && value !== null && "layout" in value && "storage" in value;
}

/** A sum of all elements of some results, each with a weight of its own. */
export function weighted(results: readonly T[]): T {
  let count = 0;
  let sum: T;
  for (const result of results) {
    count++;
    const isComplex = /^complex/.test(result.dtype);
    const real = isComplex ? result.real().mul(0.7).add(result.imag()) : result;
    const weights = Array.from({ length: real.size }, (_, i) => Math.sin(i * 1.7 + count));
    const part = real.astype("float64").mul(float64(weights, real.shape)).sum();
    sum = sum === undefined ? part : sum.add(part);
  }
  return sum;
}

/** The largest difference of derivatives from central differences, and where it is. */
export function worstDifference(
  f: (params: readonly T[]) => T,
  params: readonly T[],
  step = 1e-5,
): { readonly error: number; readonly at: string } {
  const gradients: T[] = loose(grad)(f)(params);
  let error = 0, at = "";
  for (const [k, param] of params.entries()) {
    const data = Array.from<number>(param.toTypedArray());
    const own = gradients[k].toTypedArray();
    data.forEach((_, j) => {
      const value = (change: number): number => {
        const moved = float64(data.with(j, data[j]! + change), param.shape);
        return f(params.with(k, moved)).item();
      };
      const expected = (value(step) - value(-step)) / (2 * step);
      const difference = Math.abs(expected - own[j]) / (1 + Math.abs(expected));
      if (difference <= error) return;
      error = difference;
      at = `element ${j} of parameter ${k}: ${own[j]}, by differences ${expected}`;
    });
  }
  return { error, at };
}

/** Asserts that the derivatives of all results of `f` are those of differences. */
export function assertDerivatives(
  name: string,
  f: (...params: T[]) => unknown,
  params: readonly AnyTensor[],
  tolerance = 1e-6,
): void {
  const value = (own: readonly T[]): T => weighted(floatsIn(f(...own)));
  const { error, at } = worstDifference(value, params);
  assert(error < tolerance, `${name}: ${at}`);
}
