/**
 * Element types at compile time: promotion, and the dtype and JavaScript type of results.
 *
 * The rules are those of `promoteTypes` and `promoteScalar` in src/base/dtype.ts. Tables are interfaces
 * indexed by a dtype, because a conditional type over it would make Tensor invariant.
 *
 * @module
 */
import type { DType } from "../base/dtype.ts";
import type { Same, Typed } from "./core.ts";
import type { BinaryOp } from "./table_ops.ts";

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

/** The products, which take no bool. */
export type ProductOp = "matmul" | "dot" | "outer" | "linear";

/** The elementwise ops on two operands that take no bool. */
export type NumberOp = Extract<BinaryOp, readonly [string, "iuf", string]>[0];

/** The ops on bits, which take no floats. */
export type BitOp = Extract<BinaryOp, readonly [string, "biu", string]>[0];

/** The ops that take integers only. */
export type ShiftOp = Extract<BinaryOp, readonly [string, "iu", string]>[0];

/** The ops that take floats only. */
export type FloatOnlyOp = Extract<BinaryOp, readonly [string, "f", string]>[0];

/** The kinds of dtype that `Op` takes; `never` for those that take all. */
export type Takes<Op extends string> = Op extends NumberOp | `${NumberOp}_`
  ? "signed, unsigned, float"
  : Op extends BitOp | `${BitOp}_` ? "bool, signed, unsigned"
  : Op extends ShiftOp ? "signed, unsigned"
  : Op extends FloatOnlyOp ? "float"
  : Op extends ProductOp ? "number"
  : never;

/** The dtypes that `Op` does not take. */
export type Refused<Op extends string> = Op extends NumberOp | `${NumberOp}_` | ProductOp ? "bool"
  : Op extends BitOp | `${BitOp}_` ? FloatDType
  : Op extends ShiftOp ? FloatDType | "bool"
  : Op extends FloatOnlyOp ? IntDType | "bool"
  : never;

/** `R`, a dtype or an error, or why `Op` does not take that dtype; unions pass if a part does. */
export type Taken<Op extends string, R> = [R] extends [never] ? R
  : [R] extends [Refused<Op>] ? `Cannot ${Op} ${R & DType}: it takes ${Takes<Op>} dtypes`
  : R;

/** The dtypes whose values a tensor of `D` is written with: those of its kind, and of earlier ones. */
export type StoredIn<D extends DType> = D extends "bool" ? "bool"
  : D extends `uint${string}` ? "bool" | Extract<DType, `uint${string}`>
  : D extends IntDType ? "bool" | IntDType
  : DType;

/** `Yes` when results of `R` may be written to a tensor of `D`, else why not. */
export type Stored<Op extends string, R, D extends DType, Yes> = [Extract<R, StoredIn<D>>] extends
  [never] ? `Cannot ${Op} into ${D}: the result is ${R & DType}; cast with astype()`
  : Yes;

/** The dtype that was asked for, or `D` when none was. */
export type Asked<E extends DType, D extends DType> = [E] extends [never] ? D : E;

/** `E`, or why an op that gives floats cannot be asked for it; unions pass if a part does. */
export type AskFloat<Op extends string, E extends DType> = [Extract<E, FloatDType>] extends [never]
  ? `Cannot ${Op} to ${E}: it takes a float dtype`
  : E;

/** `E`, or why a sum cannot be asked for it. */
export type AskNumber<Op extends string, E extends DType> = [E] extends ["bool"]
  ? `Cannot ${Op} to bool: it takes a number dtype; use any() or all()`
  : E;

/** For each dtype the other dtypes that promote to it. */
export interface Absorbs {
  /** Gives way to every other dtype. */
  bool: never;
  /** Takes bool. */
  int8: "bool";
  /** Takes what it holds exactly. */
  int16: "bool" | "int8" | "uint8";
  /** Takes what it holds exactly. */
  int32: "bool" | "int8" | "int16" | "uint8" | "uint16";
  /** Takes what it holds exactly. */
  int64: "bool" | "int8" | "int16" | "int32" | "uint8" | "uint16" | "uint32";
  /** Takes bool. */
  uint8: "bool";
  /** Takes what it holds exactly. */
  uint16: "bool" | "uint8";
  /** Takes what it holds exactly. */
  uint32: "bool" | "uint8" | "uint16";
  /** Takes what it holds exactly. */
  uint64: "bool" | "uint8" | "uint16" | "uint32";
  /** Floats take all integers. */
  float16: "bool" | IntDType;
  /** Floats take all integers. */
  bfloat16: "bool" | IntDType;
  /** Takes the short floats too. */
  float32: "bool" | IntDType | "float16" | "bfloat16";
  /** Takes everything. */
  float64: "bool" | IntDType | "float16" | "bfloat16" | "float32";
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

/** The smallest dtype above two of which neither takes the other. */
export type PromoteUp<A extends DType, B extends DType, Op extends string> = [A | B] extends
  ["float16" | "bfloat16"] ? "float32"
  : [A | B] extends [Absorbs["int16"]] ? "int16"
  : [A | B] extends [Absorbs["int32"]] ? "int32"
  : [A | B] extends [Absorbs["int64"]] ? "int64"
  : `Cannot ${Op} ${A} and ${B}: no integer dtype holds both; cast one with astype()`;

/** The dtype that a JavaScript value makes on its own. */
export type ScalarDType<X> = X extends boolean ? "bool" : X extends bigint ? "int64" : "float32";

/** The ops on two operands that give floats of integers, which take fractions beside integers. */
export type FloatOp = Extract<BinaryOp, readonly [string, string, "float"]>[0];

/** The ops that compare two operands, which take every number beside integers. */
export type ComparisonOp = Extract<BinaryOp, readonly [string, string, "compares"]>[0];

/** The dtype of `D` with a weak scalar, or why it does not fit. */
export type PromoteScalar<D extends DType, X, Op extends string = "promote"> = Op extends
  FloatOp | `${FloatOp}_` ? ToFloat[D]
  : Op extends ComparisonOp ? D
  : X extends boolean ? D
  : D extends "bool" ? ScalarDType<X>
  : D extends IntDType
    ? X extends number
      ? `${X}` extends `${string}.${string}` | `${string}e-${string}`
        ? `Cannot ${Op} ${X} to ${D}: it is not an integer`
      : D
    : D
  : D;

/** The dtype of an op between operands, of which either may be a scalar, or why there is none. */
export type PromoteOperands<A, B, Op extends string = "promote"> = A extends
  { readonly dtype: infer D extends DType }
  ? B extends { readonly dtype: infer E extends DType } ? Promote<D, E, Op>
  : PromoteScalar<D, B, Op>
  : B extends { readonly dtype: infer E extends DType } ? PromoteScalar<E, A, Op>
  : Promote<ScalarDType<A>, ScalarDType<B>, Op>;

/** The dtype in `R`, or any dtype where `R` is an error. */
export type OkDType<R> = [R] extends [DType] ? R
  : [Extract<R, DType>] extends [never] ? DType
  : Extract<R, DType>;

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

/** The dtype of the float functions (`exp`, `mean`, …): floats keep theirs, others give float32. */
export interface ToFloat {
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
}

/** The dtype of `sum` and `prod`: bool and integers give int64, uint64 and floats stay. */
export interface ToSum {
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
}

/** The JavaScript value that `item()` and `toArray()` give for one element. */
export interface Item {
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
}

/** {@link Item} under the option `{ bigint: true }`. */
export interface BigItem extends Omit<Item, "int64" | "uint64"> {
  /** A bigint. */
  int64: bigint;
  /** A bigint. */
  uint64: bigint;
}
