/**
 * Linear algebra: factors, systems of equations, eigenvalues, singular values, norms.
 *
 * Functions work on the last two axes; those before them are a batch. Integers are computed in
 * float32; float16 and bfloat16 are a DTypeError. A NaN in a matrix gives NaN in its results; a
 * matrix without a result is a {@link LinAlgError}. Tensors on a device are computed on the CPU.
 *
 * @module
 */
import "../tensor/tensor.ts";
export * from "./linalg/factors.ts";
export * from "./linalg/spectral.ts";
export * from "./linalg/systems.ts";
export * from "./linalg/norms.ts";
export * from "./linalg/products.ts";
