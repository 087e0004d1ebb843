/**
 * The ops of the table as CUDA C: the definitions that the headers in shim/cuda/kernels need of
 * each.
 *
 * @module
 */
export * from "./folds.ts";
export * from "./maps.ts";
export * from "./text.ts";
export * from "./usual.ts";
