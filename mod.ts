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
  Hold,
  MemoryInfo,
  Slot,
  Storage,
} from "./src/memory/storage.ts";
export type { Operand } from "./src/memory/operand.ts";
export * from "./src/tensor/tensor.ts";
export * from "./src/tensor/create.ts";
export { type AnyPackedWeight, PackedWeight } from "./src/ops/linear/packed_weight.ts";
export * from "./src/tensor/complex.ts";
export * from "./src/api/functions/tensors.ts";
export * from "./src/api/sets/contractions.ts";
export * from "./src/tensor/define_op.ts";
export {
  uniqueAll,
  uniqueCounts,
  uniqueInverse,
  type UniqueOptions,
  uniqueValues,
  type VectorOf,
} from "./src/api/sets/unique.ts";
export * from "./src/api/sets/search.ts";
export { bincount, type BincountOptions } from "./src/api/sets/bincount.ts";
export * from "./src/api/sets/histogram.ts";
export * from "./src/api/sets/scatter_reduce.ts";
export * from "./src/api/functions/dtypes.ts";
export * from "./src/api/functions/elementwise.ts";
export {
  gradient,
  type GradientOptions,
  type Gradients,
  interp,
  type InterpOptions,
  trapezoid,
  type TrapezoidOptions,
} from "./src/api/functions/numeric.ts";
export * from "./src/api/functions/shapes.ts";
export * from "./src/api/functions/spaces.ts";
export {
  average,
  type AverageOptions,
  corrcoef,
  type CorrelationOptions,
  cov,
  type CovarianceOptions,
  ptp,
} from "./src/api/functions/statistics.ts";
export * from "./src/device/devices.ts";
export * from "./src/io/image.ts";
export * from "./src/api/signal/convolve.ts";
export * from "./src/api/signal/polynomial.ts";
export * from "./src/device/info.ts";
export * as linalg from "./src/api/linalg.ts";
export * as random from "./src/api/random.ts";
export * as fft from "./src/api/fft.ts";
export * as special from "./src/api/special.ts";
export * as io from "./src/io/mod.ts";
export type * as types from "./src/types/mod.ts";
