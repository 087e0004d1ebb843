/**
 * Shapes of products over chosen axes at compile time: `tensordot`, `vecdot`, `inner`, `kron`,
 * `cross`, `trace`.
 *
 * @module
 */
import type { Shape } from "../base/shape.ts";
import type { AxisIndex, AxisIndexes, DropAxes, HasAxis, PickAxes, ReduceAxes } from "./axes.ts";
import type { Agree, Broadcast } from "./broadcast.ts";
import type { OfRank, Show } from "./core.ts";
import type { Multiply, Smaller } from "./digits.ts";

/** The axes of `tensordot`: how many, or those of each tensor. */
export type PairOfAxes =
  | number
  | readonly [number | readonly number[], number | readonly number[]];

/** The error of two shapes that do not fit. */
export type DoNotFit<Op extends string, A extends Shape, B extends Shape, Why extends string> =
  `Cannot ${Op} shapes ${Show<A>} and ${Show<B>}: ${Why}`;

/** The shape of `tensordot`, or the error. */
export type TensorDot<A extends Shape, B extends Shape, P extends PairOfAxes> = number extends
  A["length"] | B["length"] ? Shape
  : P extends number ? number extends P ? Shape : TensorDotOver<A, B, P>
  : P extends readonly [infer I extends number | Shape, infer J extends number | Shape]
    ? TensorDotAlong<A, B, AsList<I>, AsList<J>>
  : Shape;

/** One axis or several as a list. */
export type AsList<I extends number | Shape> = I extends number ? [I]
  : I extends Shape ? I
  : never;

/** {@link TensorDot} over the last `N` axes of `A` and the first of `B`. */
export type TensorDotOver<A extends Shape, B extends Shape, N extends number> = A extends
  readonly [...infer L extends Shape, ...OfRank<N>]
  ? B extends readonly [...OfRank<N>, ...infer R extends Shape]
    ? A extends readonly [...L, ...infer K extends Shape]
      ? B extends readonly [...infer M extends Shape, ...R]
        ? [Mismatch<K, M, [...L, 0], [0]>] extends [infer E extends string]
          ? [E] extends [never] ? [...L, ...R] : DoNotFit<"tensordot", A, B, E>
        : never
      : never
    : never
  : TooManyAxes<A, B, N>
  : TooManyAxes<A, B, N>;

/** The error of a number of axes that one of the tensors does not have. */
export type TooManyAxes<A extends Shape, B extends Shape, N extends number> =
  `Cannot tensordot shapes ${Show<A>} and ${Show<B>} over ${N} axes: it is from 0 to ${Smaller<
    A["length"],
    B["length"]
  >}`;

/**
 * The first pair of sizes of `K` and `M` that differ; `never` if none does. The lengths of `I` and `J`
 * less 1 are the axes of the first ones.
 */
export type Mismatch<K extends Shape, M extends Shape, I extends Shape, J extends Shape> = K extends
  readonly [infer P extends number, ...infer KR extends Shape]
  ? M extends readonly [infer Q extends number, ...infer MR extends Shape]
    ? Agree<P, Q> extends true ? Mismatch<KR, MR, [...I, 0], [...J, 0]>
    : I extends readonly [...infer IR extends Shape, number]
      ? J extends readonly [...infer JR extends Shape, number]
        ? `axes ${IR["length"]} and ${JR["length"]} have sizes ${P} and ${Q}`
      : never
    : never
  : never
  : never;

/** {@link TensorDot} along lists of axes. */
export type TensorDotAlong<A extends Shape, B extends Shape, I extends Shape, J extends Shape> =
  number extends I["length"] | J["length"] | I[number] | J[number] ? Shape
    : AxisIndexes<"tensordot", A, I> extends infer P
      ? AxisIndexes<"tensordot", B, J> extends infer Q
        ? P extends Shape
          ? Q extends Shape
            ? P["length"] extends Q["length"]
              ? [MismatchAt<PickAxes<A, P>, PickAxes<B, Q>, P, Q>] extends [infer E extends string]
                ? [E] extends [never] ? [...DropAxes<A, P[number]>, ...DropAxes<B, Q[number]>]
                : DoNotFit<"tensordot", A, B, E>
              : never
            : `Cannot tensordot over ${P["length"]} axes and ${Q["length"]} axes`
          : Q
        : P
      : never
    : never;

/** The first pair of sizes of `K` and `M`, at the axes `I` and `J`, that differ. */
export type MismatchAt<K, M, I extends Shape, J extends Shape> = K extends
  readonly [infer P extends number, ...infer KR]
  ? M extends readonly [infer Q extends number, ...infer MR]
    ? I extends readonly [infer U extends number, ...infer IR extends Shape]
      ? J extends readonly [infer V extends number, ...infer JR extends Shape]
        ? Agree<P, Q> extends true ? MismatchAt<KR, MR, IR, JR>
        : `axes ${U} and ${V} have sizes ${P} and ${Q}`
      : never
    : never
  : never
  : never;

/** The shape of `vecdot` along the axis `X`, or the error. */
export type VecDot<A extends Shape, B extends Shape, X extends number> = number extends
  A["length"] | B["length"] | X ? Shape
  : [A, B] extends [readonly [number, ...Shape], readonly [number, ...Shape]]
    ? `${X}` extends `-${string}` ? VecDotAlong<A, B, X>
    : A["length"] extends B["length"] ? VecDotAlong<A, B, X>
    : `Cannot vecdot shapes ${Show<A>} and ${Show<
      B
    >} along axis ${X}: for tensors of different ranks it is negative`
  : DoNotFit<"vecdot", A, B, "both need at least 1 axis">;

/** {@link VecDot} for an axis that may be one of both. */
export type VecDotAlong<A extends Shape, B extends Shape, X extends number> = HasAxis<
  "vecdot",
  A,
  X,
  HasAxis<"vecdot", B, X>
> extends infer E ? E extends string ? E
  : Agree<A[AxisIndex<A, X>], B[AxisIndex<B, X>]> extends true
    ? Broadcast<DropAxes<A, AxisIndex<A, X>>, DropAxes<B, AxisIndex<B, X>>, "vecdot">
  : DoNotFit<
    "vecdot",
    A,
    B,
    `axis ${X} has sizes ${A[AxisIndex<A, X>]} and ${B[AxisIndex<B, X>]}`
  >
  : never;

/** The shape of `inner`, or the error. */
export type InnerProduct<A extends Shape, B extends Shape> = number extends
  A["length"] | B["length"] ? Shape
  : A extends readonly [...infer L extends Shape, infer P extends number]
    ? B extends readonly [...infer R extends Shape, infer Q extends number]
      ? Agree<P, Q> extends true ? [...L, ...R]
      : DoNotFit<"inner", A, B, `inner sizes ${P} and ${Q} differ`>
    : A
  : B;

/** The shape of `kron`: products of sizes from the right, before the sizes `Out`. */
export type Kron<A extends Shape, B extends Shape, Out extends Shape = []> = number extends
  A["length"] | B["length"] ? Shape
  : A extends readonly [...infer L extends Shape, infer P extends number]
    ? B extends readonly [...infer R extends Shape, infer Q extends number]
      ? Kron<L, R, [Multiply<P, Q>, ...Out]>
    : [...A, ...Out]
  : [...B, ...Out];

/** The shape of `cross` along the axis `X`, or the error. */
export type Cross<A extends Shape, B extends Shape, X extends number> = number extends
  A["length"] | B["length"] | X ? Shape
  : HasAxis<"cross", A, X, HasAxis<"cross", B, X>> extends infer E ? E extends string ? E
    : [Agree<A[AxisIndex<A, X>], 3>, Agree<B[AxisIndex<B, X>], 3>] extends [true, true]
      ? Broadcast<A, B, "cross">
    : DoNotFit<"cross", A, B, `axis ${X} must have size 3`>
  : never;

/** The shape of the traces of the planes of two axes, or the error. */
export type Trace<S extends Shape, P extends number, Q extends number> = number extends S["length"]
  ? Shape
  : S extends readonly [number, number, ...Shape] ? ReduceAxes<"trace", S, [P, Q], false>
  : `Cannot trace shape ${Show<S>}: it takes at least 2 axes`;
