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
export * from "./src/errors.ts";
export {
  type DType,
  type DTypeInfo,
  finfo,
  type FloatInfo,
  iinfo,
  type IntInfo,
  type Kind,
  promoteTypes,
  type Scalar,
  type TypedArray,
  type TypedArrayConstructor,
  type TypedArrayOf,
} from "./src/dtype.ts";
export type { Shape } from "./src/shape.ts";
export { Layout } from "./src/layout.ts";
export { type BasicIndex, Range, range, rangeInclusive, Slice } from "./src/slice.ts";
export type {
  CpuMemoryInfo,
  DeviceMemory,
  DeviceMemoryInfo,
  MemoryInfo,
  Storage,
} from "./src/storage.ts";
export type { Snapshot } from "./src/cow.ts";
export type { Operand } from "./src/dispatch.ts";
export type { Axes, CloseOptions, LayerNormOptions, RmsNormOptions } from "./src/composites.ts";
export type { FormatOptions } from "./src/format.ts";
export type { SetOptions } from "./src/indexing.ts";
export type { PadOptions, PadWidths, SortOptions } from "./src/manipulate.ts";
export * from "./src/tensor.ts";
export * from "./src/create.ts";
export * from "./src/devices.ts";
export * from "./src/image.ts";
export * from "./src/info.ts";
export * as random from "./src/random.ts";
export * as io from "./src/io/mod.ts";
export type * as types from "./src/types.ts";
