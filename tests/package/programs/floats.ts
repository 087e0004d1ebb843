/**
 * Types that name `Float16Array`, for compilers and libraries that lack it.
 *
 * @module
 */
import type { TypedArrayOf, types } from "@rowmajor/tensor";

/** True when `A` and `B` are the same type, which `any` is with nothing else. */
type Equal<A, B> = (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? true
  : false;

export const floats: Equal<types.ArrayDType<Float32Array>, "float32"> = true;
export const bytes: Equal<types.ArrayDType<Uint8ClampedArray>, "uint8"> = true;
export const nested: Equal<types.DataDType<number[][]>, "float32"> = true;
export const shape: Equal<types.DataShape<[[1, 2, 3], [4, 5, 6]]>, [2, 3]> = true;
export const elements: TypedArrayOf["float32"] = new Float32Array(2);
export const length = (halves: TypedArrayOf["float16"]): number => halves.length + halves[0]!;
