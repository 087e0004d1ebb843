/**
 * Matrices for the tests of linear algebra, and how close results have to be.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { type AnyTensor, complex, eye, random } from "../../mod.ts";
import { type Any, loose } from "../support.ts";

/** The dtypes of linear algebra. */
export const REAL = ["float32", "float64", "complex64", "complex128"] as const;

/** The sizes of the matrices. */
export const SIZES = [0, 1, 2, 3, 8, 33, 100] as const;

/** Random matrices of a shape. */
export function matrices(shape: readonly number[], dtype: string, seed = 1): Any {
  if (dtype.startsWith("complex")) {
    const real = dtype === "complex64" ? "float32" : "float64";
    return loose(complex)(matrices(shape, real, seed), matrices(shape, real, seed + 100));
  }
  return loose(random.normal(random.key(seed), shape as number[], { dtype: dtype as "float32" }));
}

/** The identity of a dtype. */
export function one(n: number, dtype: string): Any {
  return loose(eye(n, { dtype: dtype as "float32" }));
}

/** The epsilon of a dtype's real parts. */
export function epsilon(dtype: string): number {
  return dtype === "float32" || dtype === "complex64" ? 2 ** -23 : 2 ** -52;
}

/** The largest magnitude; 0 for no elements. */
export function largest(x: AnyTensor): number {
  return x.size === 0 ? 0 : loose(x).abs().max().item();
}

/** Throws unless `x` is `y` up to `times` units of the size of y. */
export function assertNear(x: Any, y: Any, times: number, about: string): void {
  assertEquals(x.shape, y.shape, about);
  const error = largest(x.sub(y));
  const limit = times * epsilon(y.dtype) * Math.max(1, largest(y));
  assert(error <= limit, `${about}: error ${error}, limit ${limit}`);
}

/** Throws unless the columns of x are orthonormal. */
export function assertOrthonormal(x: Any, times: number, about: string): void {
  const gram = adjoint(x).matmul(x);
  const n = x.shape.at(-1)!;
  assertNear(gram, one(n, x.dtype).broadcastTo(gram.shape), times, `${about}: orthonormal`);
}

/** The conjugate transpose. */
export function adjoint(x: Any): Any {
  return x.dtype.startsWith("complex") ? x.mT.conj() : x.mT;
}
