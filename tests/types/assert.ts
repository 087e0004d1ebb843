/**
 * Assertions on types: a file that uses them passes when it type-checks.
 *
 * @module
 */
import type { DType } from "../../src/base/dtype.ts";
import type { Shape } from "../../src/base/shape.ts";
import type { Guard, Show } from "../../src/types/mod.ts";

/** True when `A` and `B` are the same type, `readonly` and `any` included. */
export type Equal<A, B> = (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? true
  : false;

/** Compiles only for `true`. */
export type Assert<T extends true> = T;

/** Asserts that a tensor has exactly the dtype `D` and the shape `S`. */
export function is<D extends DType, S extends Shape>(): <
  X extends { readonly dtype: DType; readonly shape: Shape },
>(
  tensor: Guard<
    Equal<[X["dtype"], X["shape"]], [D, Readonly<S>]> extends true ? true
      : `expected ${D} ${Show<S>}, got ${X["dtype"]} ${Show<X["shape"]>}`,
    X
  >,
) => void {
  return () => {};
}

/** {@link is} for float32. */
export const shape = is as <S extends Shape>() => ReturnType<typeof is<"float32", S>>;
