/**
 * Fault 4: types without `Float16Array` in the library of the compiler.
 *
 * @module
 */
import type { TypedArrayOf } from "../../../src/base/dtype.ts";
import type { ArrayDType, DataDType, DataShape } from "../../../src/types/mod.ts";

/** True when `A` and `B` are the same type, which `any` is with nothing else. */
type Equal<A, B> = (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? true
  : false;

export const floats: Equal<ArrayDType<Float32Array>, "float32"> = true;
export const bytes: Equal<ArrayDType<Uint8ClampedArray>, "uint8"> = true;
export const nested: Equal<DataDType<number[][]>, "float32"> = true;
export const shape: Equal<DataShape<[[1, 2, 3], [4, 5, 6]]>, [2, 3]> = true;
export const elements: TypedArrayOf["float32"] = new Float32Array(2);
export const length = (halves: TypedArrayOf["float16"]): number => halves.length + halves[0]!;
