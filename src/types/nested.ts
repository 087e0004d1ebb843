/**
 * Nested arrays at compile time: the shape and dtype of the argument of `tensor(data)`, and the
 * type of the result of `toArray()`.
 *
 * @module
 */
import type { Complex, DType, Float16Elements, Scalar, TypedArray } from "../base/dtype.ts";
import type { Shape } from "../base/shape.ts";
import type { Device, ShapeOf, Typed } from "./core.ts";

/** Scalars in arrays of any depth. */
export type Nested<E = Scalar | Complex> = E | readonly Nested<E>[];

/** Any typed array. */
export type DataArray = TypedArray | Uint8ClampedArray;

/** The data that `tensor` accepts. */
export type TensorData = Nested | DataArray;

/**
 * The bound of the argument of `tensor`: `unknown`, `any` and tensors unchanged, all other types as
 * data.
 */
export type DataArg<X> = unknown extends X ? X : X extends Typed ? X : TensorData;

/** The shape of nested arrays, of a typed array or a tensor, or the error for ragged arrays. */
export type DataShape<X, Out extends number[] = []> = unknown extends X ? Shape
  : [X] extends [Typed] ? ShapeOf<X>
  : [X] extends [Scalar | Complex] ? Out
  : [X] extends [DataArray] ? [...Out, number]
  : [X] extends [readonly unknown[]] ? Out["length"] extends 16 ? Shape
    : X["length"] extends infer N
      ? IsUnion<N> extends true
        ? `Cannot make a tensor of ragged arrays: axis ${Out["length"]} has more than one size`
      : N extends 0 ? [...Out, 0]
      : DataShape<X[number], [...Out, N & number]>
    : never
  : Shape;

/** True for a union of at least two types. */
export type IsUnion<X, All = X> = X extends unknown ? [All] extends [X] ? false : true : never;

/** The innermost elements of nested arrays. */
export type Leaf<X> = X extends readonly (infer E)[] ? Leaf<E> : X;

/** The device of `tensor` of `X`: a tensor's own, else the CPU. */
export type DataDevice<X> = unknown extends X ? Device
  : X extends { readonly device: infer V extends Device } ? V
  : "cpu";

/** The dtype of nested arrays, of a typed array or a tensor. */
export type DataDType<X> = unknown extends X ? DType
  : X extends Typed ? X["dtype"]
  : X extends DataArray ? ArrayDType<X>
  : LeafDType<Leaf<X>>;

/** The dtype of innermost elements; any for a mixture. */
export type LeafDType<E> = [E] extends [never] ? "float32"
  : [E] extends [number] ? "float32"
  : [E] extends [bigint] ? "int64"
  : [E] extends [boolean] ? "bool"
  : [E] extends [Complex] ? "complex64"
  : DType;

/** The dtype of a typed array. */
export type ArrayDType<X extends DataArray> = X extends Int8Array ? "int8"
  : X extends Int16Array ? "int16"
  : X extends Int32Array ? "int32"
  : X extends BigInt64Array ? "int64"
  : X extends Uint8Array | Uint8ClampedArray ? "uint8"
  : X extends Uint16Array ? "uint16"
  : X extends Uint32Array ? "uint32"
  : X extends BigUint64Array ? "uint64"
  : X extends Float16Elements ? "float16"
  : X extends Float32Array ? "float32"
  : X extends Float64Array ? "float64"
  : DType;

/** The nested arrays of elements `E` that a tensor of shape `S` unpacks to. */
export type ToArray<S extends Shape, E> = number extends S["length"] ? Nested<E>
  : S extends readonly [number, ...infer R extends Shape] ? ToArray<R, E>[]
  : E;
