/**
 * Functions on tensors that are products over axes by name or by number.
 *
 * @module
 */
import type { DType } from "../../base/dtype.ts";
import type * as t from "../../types/mod.ts";
import * as products from "../../ops/einsum/op.ts";
import type { AnyTensor, Tensor, TensorOf, UnaryOptions } from "../../tensor/tensor.ts";
import type { Operand } from "../../memory/operand.ts";

/** The axes of {@link tensordot}: how many, or those of each tensor. */
export type ContractedAxes = products.ContractedAxes;

/** Options of {@link trace}. */
export interface TraceOptions<E extends DType, P extends number = number, Q extends number = number>
  extends UnaryOptions {
  /** Which diagonal: 0, the default, is the main one, 1 the one above it, -1 the one below. */
  readonly offset?: number;
  /** The first axis of the matrices; 0 by default. */
  readonly axis1?: P;
  /** The second axis of the matrices; 1 by default. */
  readonly axis2?: Q;
  /** The dtype that the elements are cast to first, and of the result. */
  readonly dtype?: E;
}

/** Options of {@link einsum}, after the tensors. */
export interface EinsumOptions {
  /** Write the result here instead of allocating; its shape must be that of the result. */
  readonly out: AnyTensor;
}

/** The tensors of the arguments of {@link einsum} after its equation. */
export type TensorsOf<As extends readonly unknown[]> = As extends
  readonly [...infer Ts extends readonly AnyTensor[], infer L]
  ? [L] extends [AnyTensor] ? [...Ts, L]
  : Ts
  : As extends readonly AnyTensor[] ? As
  : never;

/** The result of {@link einsum} of tensors. */
export type Summed<E extends string, Ts extends readonly AnyTensor[]> = TensorOf<
  t.OkDType<t.PromoteAll<Ts, "einsum">>,
  t.Ok<t.Einsum<E, t.ShapesOf<Ts>>>,
  Ts[number]["device"]
>["tensor"];

/**
 * Einstein summation: the product of tensors over axes that have letters, summed over all letters
 * that the result does not have. `"ij,jk->ik"` is a matrix product, `"ii->"` a trace, `"bhqd,bhkd->bhqk"`
 * a product of queries and keys. Without `->`, the result has the letters that occur once, in
 * alphabetical order, after the axes of `...`, which stands for axes that broadcast. Axes of size 1
 * broadcast too.
 *
 * Tensors are multiplied two at a time, in the cheapest order (up to 4 tensors; a greedy one for
 * more), as batched matrix products of views. Without a product or a sum, the result is a view. Dtypes
 * promote as in `matmul`; integers wrap.
 *
 * The last argument may be `{ out }`: the result is written there, in its dtype.
 *
 * If the equation is a literal, the compiler checks it and knows the shape of the result.
 *
 * @throws {ArgumentError} For a text that is no equation.
 * @throws {ShapeError} For shapes that do not fit it.
 * @throws {DTypeError} For bool.
 *
 * @example
 * ```ts
 * const x = tensor([[1, 2], [3, 4]]);
 * einsum("ij,jk->ik", x, x).toArray(); // => [[7, 10], [15, 22]]
 * einsum("ii->", x).item(); // => 5
 * einsum("i,j", tensor([1, 2]), tensor([3, 4])).toArray(); // => [[3, 4], [6, 8]]
 * einsum("...ij->...ji", ones([5, 2, 3])).shape; // => [5, 3, 2]
 * ```
 */
export function einsum<
  const E extends string,
  const As extends readonly (AnyTensor | EinsumOptions)[],
>(
  equation: t.Guard<t.EinsumOf<E, TensorsOf<As>>, E>,
  ...tensors: As
): Summed<E, TensorsOf<As>>;
export function einsum(
  equation: string,
  ...tensors: readonly (AnyTensor | EinsumOptions)[]
): Operand {
  return products.einsum(equation as string, tensors);
}

/**
 * The product of `a` and `b` summed over several axes: the last `axes` of `a` and the first of `b` (2
 * by default), or `[axes of a, axes of b]`. The result has the other axes of `a`, then those of `b`.
 *
 * @throws {AxisError} For axes that do not exist.
 * @throws {ShapeError} For sizes that differ.
 *
 * @example
 * ```ts
 * tensordot(ones([2, 3, 4]), ones([3, 4, 5])).shape; // => [2, 5]
 * tensordot(ones([2, 3]), ones([4, 3]), [1, 1]).shape; // => [2, 4]
 * ```
 */
export function tensordot<
  X extends AnyTensor,
  U extends AnyTensor,
  const P extends ContractedAxes = 2,
>(
  a: X,
  b: t.Guard<t.ProductOf<"tensordot", X, U, t.TensorDot<t.ShapeOf<X>, t.ShapeOf<U>, P>>, U>,
  axes?: P,
  options?: UnaryOptions,
): Tensor<
  t.OperandDType<"tensordot", X, U>,
  t.Ok<t.TensorDot<t.ShapeOf<X>, t.ShapeOf<U>, P>>,
  X["device"]
>;
export function tensordot(
  a: AnyTensor,
  b: AnyTensor,
  axes?: ContractedAxes,
  options?: UnaryOptions,
): Operand {
  return products.tensordot(a, b, axes, options);
}

/**
 * The sum of the products along `axis` (the last one), which must have one size in both tensors; the
 * other axes broadcast. The first tensor is conjugated if it is complex.
 *
 * @example
 * ```ts
 * vecdot(tensor([[1, 2], [3, 4]]), tensor([1, 10])).toArray(); // => [21, 43]
 * ```
 */
export function vecdot<X extends AnyTensor, U extends AnyTensor, const B extends number = -1>(
  a: X,
  b: t.Guard<t.ProductOf<"vecdot", X, U, t.VecDot<t.ShapeOf<X>, t.ShapeOf<U>, B>>, U>,
  axis?: B,
  options?: UnaryOptions,
): Tensor<
  t.OperandDType<"vecdot", X, U>,
  t.Ok<t.VecDot<t.ShapeOf<X>, t.ShapeOf<U>, B>>,
  X["device"]
>;
export function vecdot(a: AnyTensor, b: AnyTensor, axis?: number, options?: UnaryOptions): Operand {
  return products.vecdot(a, b, axis, options);
}

/**
 * The sums of products along the last axis of both tensors: [..., K] and [..., K] give the other axes
 * of `a`, then those of `b`. A tensor of rank 0 multiplies all elements.
 *
 * @example
 * ```ts
 * inner(tensor([1, 2, 3]), tensor([0, 1, 0])).item(); // => 2
 * inner(ones([2, 3]), ones([4, 3])).shape; // => [2, 4]
 * ```
 */
export function inner<X extends AnyTensor, U extends AnyTensor>(
  a: X,
  b: t.Guard<t.ProductOf<"inner", X, U, t.InnerProduct<t.ShapeOf<X>, t.ShapeOf<U>>>, U>,
  options?: UnaryOptions,
): Tensor<
  t.OperandDType<"inner", X, U>,
  t.Ok<t.InnerProduct<t.ShapeOf<X>, t.ShapeOf<U>>>,
  X["device"]
>;
export function inner(a: AnyTensor, b: AnyTensor, options?: UnaryOptions): Operand {
  return products.inner(a, b, options);
}

/**
 * The Kronecker product: blocks of `b`, each times one element of `a`. The smaller rank gets axes of
 * size 1 in front.
 *
 * @example
 * ```ts
 * kron(tensor([[1, 2]]), ones([2, 2])).toArray(); // => [[1, 1, 2, 2], [1, 1, 2, 2]]
 * ```
 */
export function kron<X extends AnyTensor, U extends AnyTensor>(
  a: X,
  b: t.Guard<t.ProductOf<"kron", X, U, 0>, U>,
  options?: UnaryOptions,
): Tensor<t.OperandDType<"kron", X, U>, t.Kron<t.ShapeOf<X>, t.ShapeOf<U>>, X["device"]>;
export function kron(a: AnyTensor, b: AnyTensor, options?: UnaryOptions): Operand {
  return products.kron(a, b, options);
}

/**
 * The sum of the diagonal of a matrix, or of each plane of two axes. Sums of integers are int64, as
 * those of `sum`.
 *
 * @throws {ShapeError} For fewer than 2 axes.
 *
 * @example
 * ```ts
 * trace(tensor([[1, 2], [3, 4]])).item(); // => 5
 * trace(ones([3, 3, 2]), { offset: 1 }).toArray(); // => [2, 2]
 * ```
 */
export function trace<
  X extends AnyTensor,
  E extends DType = t.ResultDType<"sum", X["dtype"]>,
  P extends number = 0,
  Q extends number = 1,
>(
  x: t.Guard<t.Trace<t.ShapeOf<X>, P, Q>, X>,
  options?: TraceOptions<E, P, Q>,
): Tensor<E, t.Ok<t.Trace<t.ShapeOf<X>, P, Q>>, X["device"]>;
export function trace(x: AnyTensor, options?: TraceOptions<DType, number, number>): Operand {
  return products.trace(x, options);
}

/**
 * The vector product of vectors of size 3 along `axis` (the last one); the other axes broadcast.
 *
 * @throws {ShapeError} For vectors of another size.
 *
 * @example
 * ```ts
 * cross(tensor([1, 0, 0]), tensor([0, 1, 0])).toArray(); // => [0, 0, 1]
 * ```
 */
export function cross<X extends AnyTensor, U extends AnyTensor, const B extends number = -1>(
  a: X,
  b: t.Guard<t.ProductOf<"cross", X, U, t.Cross<t.ShapeOf<X>, t.ShapeOf<U>, B>>, U>,
  axis?: B,
  options?: UnaryOptions,
): Tensor<
  t.OperandDType<"cross", X, U>,
  t.Ok<t.Cross<t.ShapeOf<X>, t.ShapeOf<U>, B>>,
  X["device"]
>;
export function cross(a: AnyTensor, b: AnyTensor, axis?: number, options?: UnaryOptions): Operand {
  return products.cross(a, b, axis, options);
}
