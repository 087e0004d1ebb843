/**
 * Element types at compile time: promotion, and the dtype and JavaScript type of results.
 *
 * The rules are those of `promoteTypes` and `promoteScalar` in src/base/dtype.ts. Tables are interfaces
 * indexed by a dtype, because a conditional type over it would make Tensor invariant.
 *
 * @module
 */
import type { Complex, ComplexDType, DType, OfQuantized, QuantDType } from "../base/dtype.ts";
import type { Same, Typed } from "./core.ts";
import type { OpTable } from "./table_ops.ts";

/** The integer dtypes. */
export type IntDType =
  | "int8"
  | "int16"
  | "int32"
  | "int64"
  | "uint8"
  | "uint16"
  | "uint32"
  | "uint64";

/** The float dtypes. */
export type FloatDType = "float16" | "bfloat16" | "float32" | "float64";

/** The dtypes that are not bool. */
export type NumberDType = IntDType | FloatDType;

/** The dtypes of packed weights. */
export type PackedDType = "float16" | "bfloat16" | "float32";

/** The dtype of `linear` of `D` with the activation `F`; `never` for none. */
export type Activated<D extends DType, F> = [F] extends [never] ? D
  : [F] extends ["relu"] ? D
  : ToFloat[D];

/** The products, which do not support bool. */
export type ProductOp =
  | "matmul"
  | "dot"
  | "outer"
  | "linear"
  | "einsum"
  | "tensordot"
  | "vecdot"
  | "inner"
  | "kron"
  | "cross";

/** The kinds of dtype in the order of the op table, as messages name them. */
export interface KindNames {
  /** Numbers. */
  iuf: "signed, unsigned, float";
  /** What has bits. */
  biu: "bool, signed, unsigned";
  /** Integers. */
  iu: "signed, unsigned";
  /** Floats. */
  f: "float";
  /** What has an order. */
  biuf: "bool, signed, unsigned, float";
  /** Numbers, also complex ones. */
  iufc: "signed, unsigned, float, complex";
  /** All. */
  biufc: "bool, signed, unsigned, float, complex";
}

/** The dtypes that are not of the kinds. */
export interface OtherKinds {
  /** Not a number with an order. */
  iuf: "bool" | ComplexDType | QuantDType;
  /** Without bits. */
  biu: FloatDType | ComplexDType | QuantDType;
  /** Not an integer. */
  iu: FloatDType | "bool" | ComplexDType | QuantDType;
  /** Not a float. */
  f: IntDType | "bool" | ComplexDType | QuantDType;
  /** Without an order. */
  biuf: ComplexDType | QuantDType;
  /** Not a number. */
  iufc: "bool" | QuantDType;
  /** None. */
  biufc: QuantDType;
}

/** The kinds of dtype that `Op` supports, for messages. */
export type Takes<Op extends string> = Op extends keyof OpTable ? KindNames[OpTable[Op][0]]
  : Op extends `${infer N}_` ? Takes<N>
  : "number";

/** The dtypes that `Op` does not support. */
export type Refused<Op extends string> = Op extends keyof OpTable ? OtherKinds[OpTable[Op][0]]
  : Op extends `${infer N}_` ? Refused<N>
  : Op extends ProductOp ? "bool" | QuantDType
  : never;

/** The rule of the result's dtype of `Op`, which may be in place; `never` for other names. */
export type Rule<Op extends string> = Op extends keyof OpTable ? OpTable[Op][1]
  : Op extends `${infer N}_` ? Rule<N>
  : never;

/** The dtype of a result by the rule, for operands that promote to `D`. */
export interface Results<D extends DType> {
  /** That of the operands. */
  same: D;
  /** bool. */
  bool: "bool";
  /** bool, from operands beside which any number may stand. */
  compares: "bool";
  /** A count or an index. */
  int32: "int32";
  /** A float. */
  float: ToFloat[D];
  /** That of the operands, or of the parts of complex ones. */
  real: ToReal[D];
  /** A float, also of complex operands. */
  realFloat: ToReal[ToFloat[D]];
  /** A sum. */
  sum: ToSum[D];
  /** A product. */
  prod: ToProd[D];
}

/** The dtype that the op `Op` of the table gives for operands that promote to `D`. */
export type ResultDType<Op extends keyof OpTable, D extends DType> = Results<D>[OpTable[Op][1]];

/** `D` if it is a float, also as a type parameter; else float32. */
export type AsFloat<D extends DType> = { dtype: D } extends
  { dtype: infer F extends FloatDType | ComplexDType } ? F
  : ToFloat[D];

/**
 * `R`, a dtype or an error, or why `Op` does not support that dtype; unions pass if a part does.
 */
export type Taken<Op extends string, R> = [R] extends [never] ? R
  : [R] extends [Refused<Op>]
    ? `Cannot ${Op} ${R & DType}: it takes ${Takes<Op>} dtypes${Advice<R>}`
  : R;

/** What to do with a dtype that an op does not take, for messages. */
export type Advice<R> = [R] extends [QuantDType]
  ? "; dequantize() makes floats of quantized tensors"
  : [R] extends [ComplexDType] ? "; real(), imag() and abs() make floats of complex tensors"
  : "";

/**
 * The operand that decides with `X` on the dtype of a product with the weight `W`: quantized weights
 * give that of `X`.
 */
export type Weighed<X extends Typed, W extends Typed> = [W["dtype"]] extends [QuantDType] ? X : W;

/**
 * The dtypes whose values may be written to a tensor of `D`: those of its kind, and of lower ones.
 */
export type StoredIn<D extends DType> = D extends "bool" ? "bool"
  : D extends `uint${string}` ? "bool" | Extract<DType, `uint${string}`>
  : D extends IntDType ? "bool" | IntDType
  : D extends FloatDType ? Exclude<DType, ComplexDType>
  : DType;

/** `Yes` if results of `R` may be written to a tensor of `D`, else the error. */
export type Stored<Op extends string, R, D extends DType, Yes> = [Extract<R, StoredIn<D>>] extends
  [never] ? `Cannot ${Op} into ${D}: the result is ${R & DType}; cast with astype()`
  : Yes;

/** The requested dtype, or `D` if there is none. */
export type Asked<E extends DType, D extends DType> = [E] extends [never] ? D : E;

/** `E`, or why an op with float results does not accept it; unions pass if a part does. */
export type AskFloat<Op extends string, E extends DType> = [Extract<E, FloatDType>] extends [never]
  ? `Cannot ${Op} to ${E}: it takes a float dtype`
  : E;

/** `E`, or why a sum does not accept it. */
export type AskNumber<Op extends string, E extends DType> = [E] extends ["bool"]
  ? `Cannot ${Op} to bool: it takes a number dtype; use any() or all()`
  : E;

/** For each dtype the other dtypes that promote to it. */
export interface Absorbs extends OfQuantized<never> {
  /** Every other dtype promotes bool. */
  bool: never;
  /** bool promotes to it. */
  int8: "bool";
  /** Smaller dtypes that it represents exactly. */
  int16: "bool" | "int8" | "uint8";
  /** Smaller dtypes that it represents exactly. */
  int32: "bool" | "int8" | "int16" | "uint8" | "uint16";
  /** Smaller dtypes that it represents exactly. */
  int64: "bool" | "int8" | "int16" | "int32" | "uint8" | "uint16" | "uint32";
  /** bool promotes to it. */
  uint8: "bool";
  /** Smaller dtypes that it represents exactly. */
  uint16: "bool" | "uint8";
  /** Smaller dtypes that it represents exactly. */
  uint32: "bool" | "uint8" | "uint16";
  /** Smaller dtypes that it represents exactly. */
  uint64: "bool" | "uint8" | "uint16" | "uint32";
  /** All integers promote to floats. */
  float16: "bool" | IntDType;
  /** All integers promote to floats. */
  bfloat16: "bool" | IntDType;
  /** The 16-bit floats promote to it too. */
  float32: "bool" | IntDType | "float16" | "bfloat16";
  /** Every dtype but the complex ones promotes to it. */
  float64: "bool" | IntDType | "float16" | "bfloat16" | "float32";
  /** All dtypes whose numbers float32 takes promote to it. */
  complex64: "bool" | IntDType | "float16" | "bfloat16" | "float32";
  /** Every dtype promotes to it. */
  complex128: "bool" | IntDType | FloatDType | "complex64";
}

/** The dtype that `A` and `B` promote to, or why they do not. */
export type Promote<A extends DType, B extends DType, Op extends string = "promote"> = Same<
  A,
  B,
  A,
  PromotePair<A, B, Op>
>;

/** {@link Promote} without its short cut, one pair of a union at a time. */
export type PromotePair<A extends DType, B extends DType, Op extends string> = A extends B ? A
  : B extends Absorbs[A] ? A
  : A extends DType ? B extends DType ? A extends Absorbs[B] ? B : PromoteUp<A, B, Op> : never
  : never;

/** The smallest common dtype of two dtypes if neither promotes to the other. */
export type PromoteUp<A extends DType, B extends DType, Op extends string> = [A | B] extends
  ["float16" | "bfloat16"] ? "float32"
  : [A | B] extends ["float64" | "complex64"] ? "complex128"
  : [A | B] extends [Absorbs["int16"]] ? "int16"
  : [A | B] extends [Absorbs["int32"]] ? "int32"
  : [A | B] extends [Absorbs["int64"]] ? "int64"
  : [Extract<A | B, QuantDType>] extends [never]
    ? `Cannot ${Op} ${A} and ${B}: no integer dtype holds both; cast one with astype()`
  : `Cannot ${Op} ${A} and ${B}: they do not promote${Advice<Extract<A | B, QuantDType>>}`;

/** The default dtype of a JavaScript value. */
export type ScalarDType<X> = X extends boolean ? "bool"
  : X extends bigint ? "int64"
  : X extends Complex ? "complex64"
  : "float32";

/** The dtype of `D` with a weak scalar, or why it does not fit. */
export type PromoteScalar<D extends DType, X, Op extends string = "promote"> = [D] extends
  [QuantDType] ? ScalarOfQuantized<D, X, Op>
  : X extends Complex ? ToComplex[D]
  : "float" extends Rule<Op> ? ToFloat[D]
  : "compares" extends Rule<Op> ? D
  : X extends boolean ? D
  : D extends "bool" ? ScalarDType<X>
  : D extends IntDType
    ? X extends number
      ? `${X}` extends `${string}.${string}` | `${string}e-${string}`
        ? `Cannot ${Op} ${X} to ${D}: it is not an integer`
      : D
    : D
  : D;

/** {@link PromoteScalar} of a quantized dtype: 0 is the same bits in every dtype. */
export type ScalarOfQuantized<D extends DType, X, Op extends string> = [X] extends [0] ? D
  : `Cannot ${Op} ${ScalarText<X>} to ${D}: it takes only the number 0${Advice<D>}`;

/**
 * A scalar as text. Booleans are no placeholder: TypeScript 7.0.2 fails where a template literal has
 * an intersection of a boolean and an object, which the constraint of `X` may have.
 */
export type ScalarText<X> = X extends true ? "true"
  : X extends false ? "false"
  : X extends number | bigint ? `${X}`
  : string;

/** The dtype of an op between operands, either of which may be a scalar, or the error. */
export type PromoteOperands<A, B, Op extends string = "promote"> = A extends
  { readonly dtype: infer D extends DType }
  ? B extends { readonly dtype: infer E extends DType } ? Promote<D, E, Op>
  : PromoteScalar<D, B, Op>
  : B extends { readonly dtype: infer E extends DType } ? PromoteScalar<E, A, Op>
  : Promote<ScalarDType<A>, ScalarDType<B>, Op>;

/**
 * `P`, an operand beside one of the same dtype, by that dtype; or the error. Generic code looks a
 * type parameter up in it, and a value fits if it fits for each dtype that the parameter may be.
 */
export type SameOperand<Op extends string, P> = {
  readonly [D in DType]: Taken<Op, D> extends infer R extends `Cannot ${string}` ? R : P;
};

/** The weak scalar `U` by the dtype of the tensor beside it, or the error. */
export type ScalarOperand<Op extends string, U> = {
  readonly [D in DType]: Taken<Op, PromoteScalar<D, U, Op>> extends
    infer R extends `Cannot ${string}` ? R : U;
};

/** {@link SameOperand} of an op in place, whose result must fit the dtype. */
export type SameOperandInPlace<Op extends string, P> = {
  readonly [D in DType]: Taken<Op, D> extends infer R extends `Cannot ${string}` ? R
    : Stored<Op, "float" extends Rule<Op> ? ToFloat[D] : D, D, P>;
};

/** {@link ScalarOperand} of an op in place, whose result must fit the dtype. */
export type ScalarOperandInPlace<Op extends string, U> = {
  readonly [D in DType]: Taken<Op, PromoteScalar<D, U, Op>> extends infer R
    ? R extends DType ? Stored<Op, R, D, U> : R
    : never;
};

/** The dtype in `R`, or any dtype if `R` is an error. */
// With infer, TypeScript knows it to be a dtype without computing `R`.
export type OkDType<R> = [R] extends [infer D extends DType] ? D
  : [DTypesIn<R>] extends [never] ? DType
  : DTypesIn<R>;

/** The dtypes among a dtype and errors. */
export type DTypesIn<R> = R extends infer D extends DType ? D : never;

/** The dtype that all tensors of a list promote to, or why they do not. */
export type PromoteAll<
  Ts extends readonly Typed[],
  Op extends string = "promote",
  D extends DType | undefined = undefined,
> = number extends Ts["length"] ? Ts[number]["dtype"]
  : Ts extends
    readonly [{ readonly dtype: infer H extends DType }, ...infer R extends readonly Typed[]]
    ? D extends DType
      ? Promote<D, H, Op> extends infer N ? N extends DType ? PromoteAll<R, Op, N> : N : never
    : PromoteAll<R, Op, H>
  : D extends DType ? D
  : DType;

/**
 * The dtype of the float functions (`exp`, `mean`, …): floats keep their dtype, others give
 * float32.
 */
export interface ToFloat extends OfQuantized<never> {
  /** float32. */
  bool: "float32";
  /** float32. */
  int8: "float32";
  /** float32. */
  int16: "float32";
  /** float32. */
  int32: "float32";
  /** float32. */
  int64: "float32";
  /** float32. */
  uint8: "float32";
  /** float32. */
  uint16: "float32";
  /** float32. */
  uint32: "float32";
  /** float32. */
  uint64: "float32";
  /** Kept. */
  float16: "float16";
  /** Kept. */
  bfloat16: "bfloat16";
  /** Kept. */
  float32: "float32";
  /** Kept. */
  float64: "float64";
  /** Kept. */
  complex64: "complex64";
  /** Kept. */
  complex128: "complex128";
}

/** The dtype of the parts of complex numbers; all other dtypes stay. */
export interface ToReal extends OfQuantized<never> {
  /** Kept. */
  bool: "bool";
  /** Kept. */
  int8: "int8";
  /** Kept. */
  int16: "int16";
  /** Kept. */
  int32: "int32";
  /** Kept. */
  int64: "int64";
  /** Kept. */
  uint8: "uint8";
  /** Kept. */
  uint16: "uint16";
  /** Kept. */
  uint32: "uint32";
  /** Kept. */
  uint64: "uint64";
  /** Kept. */
  float16: "float16";
  /** Kept. */
  bfloat16: "bfloat16";
  /** Kept. */
  float32: "float32";
  /** Kept. */
  float64: "float64";
  /** float32. */
  complex64: "float32";
  /** float64. */
  complex128: "float64";
}

/** The dtype of complex numbers beside numbers of a dtype. */
export interface ToComplex extends OfQuantized<never> {
  /** complex64. */
  bool: "complex64";
  /** complex64. */
  int8: "complex64";
  /** complex64. */
  int16: "complex64";
  /** complex64. */
  int32: "complex64";
  /** complex64. */
  int64: "complex64";
  /** complex64. */
  uint8: "complex64";
  /** complex64. */
  uint16: "complex64";
  /** complex64. */
  uint32: "complex64";
  /** complex64. */
  uint64: "complex64";
  /** complex64. */
  float16: "complex64";
  /** complex64. */
  bfloat16: "complex64";
  /** complex64. */
  float32: "complex64";
  /** complex128. */
  float64: "complex128";
  /** Kept. */
  complex64: "complex64";
  /** Kept. */
  complex128: "complex128";
}

/** The dtype of `sum`: bool and integers give int64, uint64 and floats stay. */
export interface ToSum extends OfQuantized<never> {
  /** int64: a count. */
  bool: "int64";
  /** int64. */
  int8: "int64";
  /** int64. */
  int16: "int64";
  /** int64. */
  int32: "int64";
  /** int64. */
  int64: "int64";
  /** int64. */
  uint8: "int64";
  /** int64. */
  uint16: "int64";
  /** int64. */
  uint32: "int64";
  /** Kept. */
  uint64: "uint64";
  /** Kept. */
  float16: "float16";
  /** Kept. */
  bfloat16: "bfloat16";
  /** Kept. */
  float32: "float32";
  /** Kept. */
  float64: "float64";
  /** Kept. */
  complex64: "complex64";
  /** Kept. */
  complex128: "complex128";
}

/** The dtype of `prod`: that of `sum`, but all unsigned integers give uint64. */
export interface ToProd extends Omit<ToSum, "uint8" | "uint16" | "uint32"> {
  /** uint64. */
  uint8: "uint64";
  /** uint64. */
  uint16: "uint64";
  /** uint64. */
  uint32: "uint64";
}

/**
 * The dtype of flat indices from indices of dtype `D`: int32 if `D` is too small. Shapes beyond 2^31
 * elements, which the types do not know, give int64.
 */
export type PlaceDType<D extends DType> = D extends "int8" | "int16" | "uint8" | "uint16"
  ? D | "int32"
  : D;

/** The dtype of counts with weights of type `W`: int32 without, else that of their sum. */
export type CountDType<W> = W extends Typed ? ToSum[W["dtype"] & keyof ToSum] : "int32";

/** The dtype of the edges of the bins of a histogram of dtype `D`. */
export type EdgeDType<D extends DType> = D extends FloatDType ? D : "float64";

/** The JavaScript value of one element in `item()` and `toArray()`. */
export interface Item extends OfQuantized<number> {
  /** `true` or `false`. */
  bool: boolean;
  /** A number. */
  int8: number;
  /** A number. */
  int16: number;
  /** A number. */
  int32: number;
  /** A number; an ArgumentError beyond ±2^53. */
  int64: number;
  /** A number. */
  uint8: number;
  /** A number. */
  uint16: number;
  /** A number. */
  uint32: number;
  /** A number; an ArgumentError beyond 2^53. */
  uint64: number;
  /** A number. */
  float16: number;
  /** A number. */
  bfloat16: number;
  /** A number. */
  float32: number;
  /** A number. */
  float64: number;
  /** Its parts. */
  complex64: Complex;
  /** Its parts. */
  complex128: Complex;
}

/** {@link Item} under the option `{ bigint: true }`. */
export interface BigItem extends Omit<Item, "int64" | "uint64"> {
  /** A bigint. */
  int64: bigint;
  /** A bigint. */
  uint64: bigint;
}
