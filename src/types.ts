/**
 * Shapes and dtypes at compile time: the type functions that the signatures of Tensor use.
 *
 * Each gives a shape or dtype, or a text that says what is wrong; {@link Guard} shows that text at
 * the argument, {@link Ok} drops it in the result. Knows nothing of the class Tensor.
 *
 * @module
 */
export type * from "./types/core.ts";
export type * from "./types/digits.ts";
export type * from "./types/dtype.ts";
export type * from "./types/broadcast.ts";
export type * from "./types/axes.ts";
export type * from "./types/reshape.ts";
export type * from "./types/slice.ts";
export type * from "./types/nested.ts";
