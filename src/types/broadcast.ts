/**
 * Shapes of ops on two or more tensors at compile time: elementwise, in place, and products.
 *
 * Knows nothing of axis arguments, or of the class Tensor.
 *
 * @module
 */
import type { Shape } from "../base/shape.ts";
import type { Guard, NewShape, Ok, Operand, Same, ShapeOf, Show, Typed } from "./core.ts";
import type { Complex, DType, QuantDType, Scalar } from "../base/dtype.ts";
import type {
  AsFloat,
  FloatDType,
  NumberDType,
  OkDType,
  PackedDType,
  Promote,
  PromoteAll,
  PromoteOperands,
  PromoteScalar,
  ResultDType,
  Rule,
  SameOperand,
  SameOperandInPlace,
  ScalarOperand,
  ScalarOperandInPlace,
  Stored,
  Taken,
  ToComplex,
  ToFloat,
} from "./dtype.ts";
import type { OpTable } from "./table_ops.ts";

/** The size that different sizes `A` and `B` broadcast to, or "differ"; an unknown one fits. */
export type FitOther<A extends number, B extends number> = number extends A
  ? B extends 1 ? number : B
  : number extends B ? A extends 1 ? number : A
  : A extends 1 ? B
  : B extends 1 ? A
  : "differ";

/**
 * Broadcasts `A` and `B` from the right, before the sizes `Out`; or the error for a mismatched
 * axis.
 */
export type Align<A extends Shape, B extends Shape, Out extends number[] = []> = A extends
  readonly [...infer AR extends Shape, infer AL extends number]
  ? B extends readonly [...infer BR extends Shape, infer BL extends number]
    // Same, written out: identical sizes of generic code need no FitOther.
    ? ((x: AL) => AL) extends ((x: BL) => BL) ? Align<AR, BR, [AL, ...Out]>
    : FitOther<AL, BL> extends infer N extends number ? Align<AR, BR, [N, ...Out]>
    : `axis -${[...Out, 0]["length"]} has sizes ${AL} and ${BL}`
  : [...A, ...Out]
  : [...B, ...Out];

/** The shape that `A` and `B` broadcast to, or why they do not. */
export type Broadcast<A extends Shape, B extends Shape, Op extends string = "broadcast"> =
  number extends A["length"] | B["length"] ? Shape
    : Align<A, B> extends infer R
      ? R extends string ? `Cannot ${Op} shapes ${Show<A>} and ${Show<B>}: ${R}` : R
    : never;

/** The shape that all of a list of shapes broadcast to, or why they do not. */
export type BroadcastAll<
  Ss extends readonly Shape[],
  Op extends string = "broadcast",
  Out extends Shape = [],
> = number extends Ss["length"] ? Shape
  : Ss extends readonly [infer H extends Shape, ...infer R extends readonly Shape[]]
    ? Broadcast<Out, H, Op> extends infer N ? N extends Shape ? BroadcastAll<R, Op, N> : N : never
  : Out;

/**
 * {@link Broadcast} for the shapes of generic code: that of one shape with itself is certain. It is
 * in brackets, as TypeScript does not decide whether a type parameter is a text.
 */
export type Fit<Op extends string, A extends Shape, B extends Shape> = ((x: A) => A) extends
  ((x: B) => B) ? [A] : Broadcast<A, B, Op>;

/** The shape that `A` and `B` broadcast to; dynamic if they do not. */
export type FitShape<A extends Shape, B extends Shape> = ((x: A) => A) extends ((x: B) => B) ? A
  : Ok<Broadcast<A, B>>;

/** The shape of an elementwise op on two operands of different dtypes, or why they do not fit. */
export type Binary<Op extends string, A extends Operand, B extends Operand> = [
  Taken<Op, PromoteOperands<A, B, Op>>,
] extends [infer E extends `Cannot ${string}`] ? E
  : Fit<Op, ShapeOf<A>, ShapeOf<B>>;

/** The second operand `U` of the elementwise op `Op` on `X`, or why it does not fit. */
export type OperandOf<Op extends string, X extends Typed, U> = U extends Scalar | Complex
  ? ScalarOperand<Op, U>[X["dtype"]]
  : X extends { readonly dtype: infer D extends DType }
    ? U extends { readonly dtype: infer E extends DType }
      ? ((x: D) => D) extends ((x: E) => E)
        ? Guard<Fit<Op, ShapeOf<X>, ShapeOf<U>>, SameOperand<Op, U>[D]>
      : Guard<Binary<Op, X, U & Typed>, U>
    : never
  : never;

/** The dtype that the operands of an elementwise op promote to; any for an error. */
export type OperandDType<Op extends string, A, B> = A extends
  { readonly dtype: infer D extends DType }
  ? B extends { readonly dtype: infer E extends DType }
    ? ((x: D) => D) extends ((x: E) => E) ? D : OkDType<Promote<D, E, Op>>
  : B extends Complex ? ToComplex[D]
    // The bound decides for a type parameter too, as its constraint fits.
  : A extends { readonly dtype: infer N extends NumberDType } ? N
  : OkDType<PromoteScalar<D, B, Op>>
  : OkDType<PromoteOperands<A, B, Op>>;

/** The dtype of the elementwise op `Op` on two operands. */
export type BinaryDType<Op extends keyof OpTable, A, B> = { dtype: OperandDType<Op, A, B> } extends
  { dtype: infer D extends DType }
  ? "float" extends OpTable[Op][1] ? AsFloat<D> : ResultDType<Op, D>
  : DType;

/** The float dtype of `X` beside a tensor `Y`, which may be missing. */
export type FloatBeside<X extends Typed, Y> = Y extends Typed ? ToFloat[OperandDType<"where", X, Y>]
  : ToFloat[X["dtype"]];

/** The dtype of an op on the tensor `X` and two operands, each of which may be missing. */
export type TernaryDType<X extends Typed, P, Q> = X extends
  { readonly dtype: infer D extends DType } ? DTypeBeside<DTypeBeside<D, P>, Q>
  : never;

/** The dtype of a tensor of `D` beside an operand, which may be missing. */
export type DTypeBeside<D extends DType, P> = P extends { readonly dtype: infer E extends DType }
  ? ((x: D) => D) extends ((x: E) => E) ? D : OkDType<Promote<D, E, "clip">>
  : P extends Complex ? ToComplex[D]
  : { dtype: D } extends { dtype: infer N extends NumberDType } ? N
  : P extends Scalar ? OkDType<PromoteScalar<D, P, "clip">>
  : D;

/** The shape of an op on the shape `S` and two operands, each of which may be missing. */
export type TernaryShape<S extends Shape, P, Q> = OptionalShape<OptionalShape<S, P>, Q>;

/** The shape that `S` and that of an operand broadcast to, or `S` without one. */
export type OptionalShape<S extends Shape, P> = P extends Typed ? FitShape<S, ShapeOf<P>> : S;

/** The shape of an elementwise op on two operands. */
export type BinaryShape<A, B> = B extends Scalar | Complex ? ShapeOf<A>
  : FitShape<ShapeOf<A>, ShapeOf<B>>;

/** The shape of `where(condition, a, b)`, or why its shapes or dtypes do not fit. */
export type Where<C extends Operand, A extends Operand, B extends Operand> = [
  PromoteOperands<A, B, "where">,
] extends [infer E extends `Cannot ${string}`] ? E
  : BroadcastAll<[ShapeOf<C>, ShapeOf<A>, ShapeOf<B>], "where">;

/** `T` if it is writable, else the error. */
export type Writable<Op extends string, T> = T extends { readonly access: "write" } ? T
  : `Cannot ${Op} a read-only tensor: copy it with toOwned()`;

/** {@link Fit} of a write of `B` into `A`, whose shape must not grow; or the error. */
export type FitInPlace<Op extends string, A extends Shape, B extends Shape> = ((x: A) => A) extends
  ((x: B) => B) ? [A]
  : Broadcast<A, B, Op> extends infer R ? R extends string ? R
    : R extends A ? R
    : A extends R ? R
    : R extends Shape ? `Cannot ${Op} shapes ${Show<A>} and ${Show<B>}: the result ${Show<
        R
      >} does not fit the target`
    : never
  : never;

/** The shape of a write of `B`, of another dtype, into `A`; or the error. */
export type InPlace<Op extends string, A extends Typed, B extends Typed> =
  Taken<Op, PromoteOperands<A, B, Op>> extends infer D
    ? D extends DType
      ? FitInPlace<Op, ShapeOf<A>, ShapeOf<B>> extends infer R ? R extends string ? R
        : Stored<Op, "float" extends Rule<Op> ? ToFloat[D] : D, A["dtype"], R>
      : never
    : D
    : never;

/** The second operand `U` of the op `Op` in place on `X`, or why it does not fit. */
export type OperandInPlace<Op extends string, X extends Typed, U> = Writable<Op, X> extends
  infer E extends string ? E
  : U extends Scalar ? ScalarOperandInPlace<Op, U>[X["dtype"]]
  : X extends { readonly dtype: infer D extends DType }
    ? U extends { readonly dtype: infer E extends DType }
      ? ((x: D) => D) extends ((x: E) => E)
        ? Guard<FitInPlace<Op, ShapeOf<X>, ShapeOf<U>>, SameOperandInPlace<Op, U>[D]>
      : Guard<InPlace<Op, X, U & Typed>, U>
    : never
  : never;

/** True if sizes can be equal. */
export type Agree<A extends number, B extends number> = Same<
  A,
  B,
  true,
  number extends A ? true : number extends B ? true : false
>;

/** `Yes` if inner sizes agree, else the error of `Op`. */
export type Inner<
  Op extends string,
  A extends Shape,
  B extends Shape,
  K extends number,
  L extends number,
  Yes,
> = Agree<K, L> extends true ? Yes
  : `Cannot ${Op} shapes ${Show<A>} and ${Show<B>}: inner sizes ${K} and ${L} differ`;

/** The shape of a matrix product (1-D, 2-D or batched with broadcasting), or the error. */
export type MatMul<A extends Shape, B extends Shape> = number extends A["length"] | B["length"]
  ? Shape
  : A extends readonly [] ? NoScalars<A, B>
  : B extends readonly [] ? NoScalars<A, B>
  : A extends readonly [infer K extends number]
    ? B extends readonly [infer L extends number] ? Inner<"matmul", A, B, K, L, []>
    : B extends readonly [...infer BB extends Shape, infer L extends number, infer N extends number]
      ? Inner<"matmul", A, B, K, L, [...BB, N]>
    : never
  : A extends readonly [...infer AB extends Shape, infer M extends number, infer K extends number]
    ? B extends readonly [infer L extends number] ? Inner<"matmul", A, B, K, L, [...AB, M]>
    : B extends readonly [...infer BB extends Shape, infer L extends number, infer N extends number]
      ? Inner<"matmul", A, B, K, L, Align<AB, BB, [M, N]>> extends infer R
        ? R extends `axis ${string}` ? `Cannot matmul shapes ${Show<A>} and ${Show<B>}: ${R}` : R
      : never
    : never
  : never;

/** The error for a matrix product with a rank-0 tensor. */
export type NoScalars<A extends Shape, B extends Shape> = `Cannot matmul shapes ${Show<
  A
>} and ${Show<B>}: both need at least 1 axis`;

/** The shape `[]` of the inner product of two vectors, or the error. */
export type Dot<A extends Shape, B extends Shape> = number extends A["length"] | B["length"] ? []
  : A extends readonly [infer K extends number]
    ? B extends readonly [infer L extends number] ? Inner<"dot", A, B, K, L, []>
    : `Cannot dot shapes ${Show<A>} and ${Show<B>}: both need 1 axis`
  : `Cannot dot shapes ${Show<A>} and ${Show<B>}: both need 1 axis`;

/** The shape [M, N] of the outer product of two vectors, or the error. */
export type Outer<A extends Shape, B extends Shape> = number extends A["length"] | B["length"]
  ? [number, number]
  : A extends readonly [infer M extends number]
    ? B extends readonly [infer N extends number] ? [M, N]
    : `Cannot outer shapes ${Show<A>} and ${Show<B>}: both need 1 axis`
  : `Cannot outer shapes ${Show<A>} and ${Show<B>}: both need 1 axis`;

/** The shape of `linear`: x: [..., I] with weight: [O, I] gives [..., O]; or the error. */
export type Linear<X extends Shape, W extends Shape> = number extends X["length"] | W["length"]
  ? Shape
  : W extends readonly [infer O extends number, infer I extends number]
    ? X extends readonly [...infer R extends Shape, infer K extends number]
      ? Inner<"linear", X, W, K, I, [...R, O]>
    : `Cannot linear shapes ${Show<X>} and ${Show<W>}: the input needs at least 1 axis`
  : `Cannot linear shapes ${Show<X>} and ${Show<W>}: the weight needs 2 axes`;

/** The shape of the bias that fits a `linear` with weights of shape `W`, or why `B` does not. */
export type Bias<W extends Shape, B extends Shape> = number extends W["length"] | B["length"] ? B
  : W extends readonly [infer O extends number, number]
    ? B extends readonly [infer N extends number] ? Agree<N, O> extends true ? B : BadBias<W, B, O>
    : BadBias<W, B, O>
  : B;

/** The error for a bias of another shape. */
export type BadBias<W extends Shape, B extends Shape, O extends number> =
  `Cannot linear shapes ${Show<
    B
  >} and ${Show<W>}: the bias must have shape ${Show<[O]>}`;

/** {@link ProductOf} of `linear` with shape `R`; packed weights have no float64 results. */
export type LinearOf<X extends Typed, W extends Typed, R> = W extends { readonly panels: unknown }
  ? X extends { readonly dtype: "float64" } ? `Cannot linear float64 with a packed weight of ${W[
      "dtype"
    ]}: the result would be float64; cast to float32 with astype(), or do not pack the weight`
  : ProductOf<"linear", X, W, R>
  : [W["dtype"]] extends [QuantDType]
    ? [Extract<X["dtype"], FloatDType>] extends [never]
      ? `Cannot linear ${X["dtype"]} by a weight of ${W["dtype"]}: it takes floats`
    : R
  : ProductOf<"linear", X, W, R>;

/** True if shapes can be equal. */
export type SameSizes<A extends Shape, B extends Shape> = A extends
  readonly [infer M extends number, ...infer AR extends Shape]
  ? B extends readonly [infer N extends number, ...infer BR extends Shape]
    ? Agree<M, N> extends true ? SameSizes<AR, BR> : false
  : false
  : B extends readonly [] ? true
  : false;

/** The shape of the residual that fits a `linear` of shape `Y`, or why `R` does not. */
export type Residual<W extends Shape, Y, R extends Shape> = Y extends Shape
  ? number extends Y["length"] | R["length"] ? R
  : SameSizes<Y, R> extends true ? R
  : `Cannot linear shapes ${Show<R>} and ${Show<W>}: the residual must have shape ${Show<Y>}`
  : R;

/** The shape of the weight that `pack` takes, or why it does not take it. */
export type Packable<D extends DType, S extends Shape> = [Extract<D, PackedDType>] extends [never]
  ? `Cannot pack ${D}: it takes float32, float16, bfloat16 and quantized dtypes; cast with astype()`
  : number extends S["length"] ? S
  : S extends readonly [number, number] ? S
  : `Cannot pack shape ${Show<S>}: it takes a weight of shape [O, I]`;

/** The shape of what `quantize` takes, or why it does not take it. */
export type Quantizable<D extends DType, F extends string, S extends Shape> = [
  Extract<D, FloatDType>,
] extends [never] ? `Cannot quantize ${D} to ${F}: it takes floats` : S;

/** The shape of `broadcastTo(to)`, or why `S` does not broadcast to it. */
export type BroadcastTo<S extends Shape, To extends Shape> = NewShape<"broadcast to", To> extends
  infer N ? N extends string ? N
  : number extends S["length"] | To["length"] ? N
  : [Stretch<S, To>] extends [never] ? N
  : `Cannot broadcast shape ${Show<S>} to ${Show<To>}: ${Stretch<S, To>}`
  : never;

/** The first axis of `S`, from the right, that does not broadcast to `To`; `never` if all do. */
export type Stretch<S extends Shape, To extends Shape, Seen extends unknown[] = []> = S extends
  readonly [...infer SR extends Shape, infer A extends number]
  ? To extends readonly [...infer TR extends Shape, infer B extends number]
    ? A extends 1 ? Stretch<SR, TR, [...Seen, 0]>
    : Agree<A, B> extends true ? Stretch<SR, TR, [...Seen, 0]>
    : `axis -${[...Seen, 0]["length"]} has sizes ${A} and ${B}`
  : `rank ${[...S, ...Seen]["length"] & number} is above ${Seen["length"]}`
  : never;

/**
 * The shape of a product of two tensors whose shapes give `R`, or why their dtypes do not fit. With
 * a requested dtype `E`, they are cast and need not promote.
 */
export type ProductOf<
  Op extends string,
  A extends Typed,
  B extends Typed,
  R,
  E extends DType = never,
> = [
  Taken<Op, [E] extends [never] ? PromoteOperands<A, B, Op> : E>,
] extends [infer E extends `Cannot ${string}`] ? E
  : R;

/** The shape `R` of an op on a list of tensors, or why their dtypes do not fit. */
export type ListOf<Op extends string, Ts extends readonly Typed[], R> = [PromoteAll<Ts, Op>] extends
  [infer E extends `Cannot ${string}`] ? E
  : R;
