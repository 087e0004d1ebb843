/**
 * rowmajor: tensors for Deno and Bun.
 *
 * @example
 * ```ts
 * const x = tensor([[1, 2], [3, 4]]);
 * x.matmul(x.T).add(1).toArray(); // => [[6, 12], [12, 26]]
 * ```
 *
 * @module
 */
export * from "./src/base/errors.ts";
export {
  type Complex,
  type ComplexDType,
  type DType,
  type DTypeInfo,
  finfo,
  type Float16ArrayLike,
  type Float16Elements,
  type FloatInfo,
  iinfo,
  type IntInfo,
  type Kind,
  type OfQuantized,
  type PlainDType,
  promoteTypes,
  type QuantDType,
  type Scalar,
  type TypedArray,
  type TypedArrayConstructor,
  type TypedArrayOf,
} from "./src/base/dtype.ts";
export type { Shape } from "./src/base/shape.ts";
export { Layout } from "./src/base/layout.ts";
export { type BasicIndex, Range, range, rangeInclusive, Slice } from "./src/base/slice.ts";
export type {
  CopyOnWrite,
  CpuMemoryInfo,
  DeviceMemory,
  DeviceMemoryInfo,
  MemoryInfo,
  Storage,
} from "./src/memory/storage.ts";
export type { Operand } from "./src/memory/operand.ts";
export * from "./src/tensor/tensor.ts";
export * from "./src/tensor/create.ts";
export { type AnyPackedWeight, PackedWeight } from "./src/tensor/products/packed_weight.ts";
export * from "./src/tensor/complex.ts";
export * from "./src/tensor/functions.ts";
export * from "./src/sets/contractions.ts";
export * from "./src/tensor/define_op.ts";
export {
  uniqueAll,
  uniqueCounts,
  uniqueInverse,
  type UniqueOptions,
  uniqueValues,
  type VectorOf,
} from "./src/sets/unique.ts";
export * from "./src/sets/search.ts";
export { bincount, type BincountOptions } from "./src/sets/bincount.ts";
export * from "./src/sets/histogram.ts";
export * from "./src/sets/scatter_reduce.ts";
export * from "./src/functions/dtypes.ts";
export * from "./src/functions/elementwise.ts";
export {
  gradient,
  type GradientOptions,
  type Gradients,
  interp,
  type InterpOptions,
  trapezoid,
  type TrapezoidOptions,
} from "./src/functions/numeric.ts";
export * from "./src/functions/shapes.ts";
export * from "./src/functions/spaces.ts";
export {
  average,
  type AverageOptions,
  corrcoef,
  type CorrelationOptions,
  cov,
  type CovarianceOptions,
  ptp,
} from "./src/functions/statistics.ts";
export * from "./src/device/devices.ts";
export * from "./src/io/image.ts";
export * from "./src/signal/convolve.ts";
export * from "./src/signal/polynomial.ts";
export * from "./src/device/info.ts";
export * as linalg from "./src/linalg/mod.ts";
export * as random from "./src/random/mod.ts";
export * as fft from "./src/fft/mod.ts";
export * as special from "./src/special/mod.ts";
export * as io from "./src/io/mod.ts";
export type * as types from "./src/types/mod.ts";
