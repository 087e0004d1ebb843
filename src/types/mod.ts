/**
 * Shapes and dtypes at compile time: the type functions that the signatures of Tensor use.
 *
 * Each gives a shape or dtype, or an error text; {@link Guard} shows that text at the argument,
 * {@link Ok} drops it in the result. Knows nothing of the class Tensor.
 *
 * @module
 */
export type * from "./core.ts";
export type * from "./digits.ts";
export type * from "./table_ops.ts";
export type * from "./dtype.ts";
export type * from "./broadcast.ts";
export type * from "./axes.ts";
export type * from "./reshape.ts";
export type * from "./slice.ts";
export type * from "./einsum.ts";
export type * from "./equation.ts";
export type * from "./nested.ts";
export type * from "./linalg.ts";
export type * from "./contract.ts";
export type * from "./signal.ts";
