/**
 * The op that computes the ops of the table on complex numbers: backends have kernels for it by the
 * name of the op. Ops of lanes, such as sums, run as ops on floats (ops/complex/run.ts).
 *
 * @module
 */
// First: the ids of ops of the table are their places in it.
import "../../table/table.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";

/** Attributes of {@link COMPLEX_MAP}. */
export interface ComplexAttributes {
  /** The op of the table. */
  readonly op: ComplexName;
}

/**
 * The ops with kernels on complex numbers, by what the kernels write: complex numbers, floats or
 * bools. Kernels in C have the numbers of these names, in this order.
 */
export const COMPLEX_RESULT = {
  mul: "c",
  div: "c",
  conj: "c",
  square: "c",
  reciprocal: "c",
  sign: "c",
  sqrt: "c",
  rsqrt: "c",
  exp: "c",
  expm1: "c",
  exp2: "c",
  log: "c",
  log1p: "c",
  log2: "c",
  log10: "c",
  sin: "c",
  cos: "c",
  tan: "c",
  asin: "c",
  acos: "c",
  atan: "c",
  sinh: "c",
  cosh: "c",
  tanh: "c",
  asinh: "c",
  acosh: "c",
  atanh: "c",
  pow: "c",
  abs: "f",
  angle: "f",
  equal: "b",
  notEqual: "b",
  isnan: "b",
  isinf: "b",
  isfinite: "b",
} as const;

/** The name of an op with a kernel on complex numbers. */
export type ComplexName = keyof typeof COMPLEX_RESULT;

/** The number of an op in kernels. */
export const COMPLEX_NUMBER: ReadonlyMap<string, number> = new Map(
  Object.keys(COMPLEX_RESULT).map((name, i) => [name, i]),
);

/**
 * out = op(x, y) of complex numbers, which are floats with a last axis of two; inputs: out, x, y. If
 * the result is a float or a bool, out has no such axis.
 */
export const COMPLEX_MAP: Op = makeOp({
  kind: "kernel",
  name: "complexMap",
  writes: [0],
  infer: (_call: Call) => [],
});
