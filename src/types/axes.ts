/**
 * Shapes of ops along given axes, at compile time: reductions, permutations, new and dropped axes,
 * joining and splitting.
 *
 * An axis may count from the end. For an axis of type `number`, at most the rank is known.
 *
 * @module
 */
import type { Shape } from "../base/shape.ts";
import type { Agree } from "./broadcast.ts";
import type { OfRank, Same, ShapeOf, Show, ShowSize, Sizes, Span, Typed } from "./core.ts";
import type { Quotient, Sum } from "./digits.ts";

/** One axis, several, or none for all. */
export type AxisArg = number | readonly number[] | null | undefined;

/** The axis `A` of `S` from 0 on; `never` if it does not exist. */
export type AxisIndex<S extends Shape, A extends number> = `${A}` extends `-${infer P}`
  ? S extends readonly [...infer H, ...Span<P>] ? H["length"] : never
  : `${A}` extends keyof S ? A
  : never;

/** The error for an axis that `S` does not have. */
export type NoAxis<Op extends string, S extends Shape, A extends number> =
  `Cannot ${Op} along axis ${A}: ${S extends readonly [number, ...infer R extends Shape]
    ? `rank ${S["length"]} has axes -${S["length"]} to ${R["length"]}`
    : "rank 0 has no axes"}`;

/** `Yes` if `S` may have the axis `A`, else the error. */
export type HasAxis<Op extends string, S extends Shape, A extends number, Yes = true> =
  number extends A | S["length"] ? Yes
    : [AxisIndex<S, A>] extends [never] ? NoAxis<Op, S, A>
    : Yes;

/** Axes from 0 on as a tuple, or the error for a missing or repeated one. */
export type AxisIndexes<
  Op extends string,
  S extends Shape,
  As extends Shape,
  All extends Shape = As,
  Out extends number[] = [],
> = As extends readonly [infer H extends number, ...infer R extends Shape]
  ? number extends H ? AxisIndexes<Op, S, R, All, [...Out, number]>
  : AxisIndex<S, H> extends infer I ? [I] extends [never] ? NoAxis<Op, S, H>
    : I extends (number extends Out[number] ? never : Out[number])
      ? `Cannot ${Op} along axes ${Show<All>}: axis ${I & number} of rank ${S[
        "length"
      ]} is named twice`
    : AxisIndexes<Op, S, R, All, [...Out, I & number]>
  : never
  : Out;

/** The sizes of `S` with those at the axes `I` set to `N`. */
export type SetAxes<S extends Shape, I extends number, N extends number> = {
  -readonly [K in keyof S]: K extends `${I}` ? N : S[K];
};

/** The sizes of `S` without the axes `I`. */
export type DropAxes<
  S extends Shape,
  I extends number,
  Out extends Shape = [],
  Seen extends unknown[] = [],
> = S extends readonly [infer H extends number, ...infer R extends Shape]
  ? DropAxes<R, I, Seen["length"] extends I ? Out : [...Out, H], [...Seen, 0]>
  : Out;

/** The sizes of `S` with the sizes `N` inserted before the axis `I`. */
export type InsertAt<S extends Shape, I extends number, N extends Shape, Out extends Shape = []> =
  Out["length"] extends I ? [...Out, ...N, ...S]
    : S extends readonly [infer H extends number, ...infer R extends Shape]
      ? InsertAt<R, I, N, [...Out, H]>
    : Shape;

/** The sizes of `S` at the axes `Is`, in that order. */
export type PickAxes<S extends Shape, Is extends Shape> = {
  [K in keyof Is]: number extends Is[K] ? number : Is[K] extends keyof S ? S[Is[K]] : number;
};

/** The shape at one index of axis 0. */
export type Row<S extends Shape> = S extends readonly [number, ...infer R extends Shape] ? R
  : Shape;

/** Unknown sizes, one axis fewer than `S`. */
export type OneLess<S extends Shape> = Sizes<S> extends [number, ...infer R extends Shape] ? R
  : Shape;

/** The shape of a reduction of `S` along `A`, or the error for a wrong axis. */
export type Reduce<Op extends string, S extends Shape, A extends AxisArg, Keep extends boolean> =
  boolean extends Keep ? Shape
    : A extends null | undefined ? Keep extends true ? SetAxes<S, number, 1> : []
    : number extends S["length"] ? Shape
    : A extends number
      ? number extends A ? Keep extends true ? Sizes<S> : OneLess<S> : ReduceAxes<Op, S, [A], Keep>
    : A extends Shape ? number extends A["length"] ? Keep extends true ? Sizes<S> : Shape
      : ReduceAxes<Op, S, A, Keep>
    : never;

/** {@link Reduce} along a tuple of axes. */
export type ReduceAxes<Op extends string, S extends Shape, As extends Shape, Keep> =
  AxisIndexes<Op, S, As> extends infer Is
    ? Is extends Shape
      ? Keep extends true ? number extends Is[number] ? Sizes<S> : SetAxes<S, Is[number], 1>
      : number extends Is[number] ? Shape
      : DropAxes<S, Is[number]>
    : Is
    : never;

/** The shape of quantiles `Q` of a reduction to `R`: an array of them is a new first axis. */
export type Quantiles<Q, R> = R extends Shape
  ? Q extends readonly unknown[] ? [Q["length"], ...R] : R
  : R;

/** The shape after an op along the axes `A` that keeps all sizes, or the error for a wrong axis. */
export type AlongAxes<Op extends string, S extends Shape, A extends AxisArg> = A extends Shape
  ? number extends S["length"] | A["length"] ? S
  : AxisIndexes<Op, S, A> extends infer E extends string ? E
  : S
  : A extends number ? HasAxis<Op, S, A, S>
  : S;

/** `I`, or the error that it is not one index for each axis. */
export type OneIndexEach<Op extends string, S extends Shape, I extends Shape> = number extends
  S["length"] | I["length"] ? I
  : I["length"] extends S["length"] ? I
  : `Cannot ${Op} an element of shape ${Show<S>} at ${Show<
    I
  >}: it takes ${S["length"]} indexes, not ${I[
    "length"
  ]}`;

/** The axes of `S` in the order `As`, or the error for an invalid order. */
export type Permute<S extends Shape, As extends Shape> = number extends S["length"]
  ? number extends As["length"] ? Shape : OfRank<As["length"]>
  : number extends As["length"] ? Sizes<S>
  : AxisIndexes<"permute", S, As> extends infer Is
    ? Is extends Shape ? Is["length"] extends S["length"] ? PickAxes<S, Is>
      : `Cannot permute shape ${Show<S>} by ${Show<As>}: it has ${S["length"]} axes, and ${As[
        "length"
      ]} are named`
    : Is
  : never;

/** All axes in reverse order. */
export type Transpose<S extends Shape, Out extends Shape = []> = number extends S["length"] ? Shape
  : S extends readonly [infer H extends number, ...infer R extends Shape]
    ? Transpose<R, [H, ...Out]>
  : Out;

/** The last two axes exchanged; dynamic below rank 2, which is an error at run time. */
export type MatrixTranspose<S extends Shape> = S extends
  readonly [...infer B extends Shape, infer M extends number, infer N extends number] ? [...B, N, M]
  : Shape;

/** Two axes exchanged, or the error for a missing one. */
export type SwapAxes<S extends Shape, A extends number, B extends number> = number extends
  S["length"] ? Shape
  : number extends A | B ? Sizes<S>
  : [AxisIndex<S, A>] extends [never] ? NoAxis<"swapAxes", S, A>
  : [AxisIndex<S, B>] extends [never] ? NoAxis<"swapAxes", S, B>
  : {
    -readonly [K in keyof S]: K extends `${AxisIndex<S, A>}` ? S[AxisIndex<S, B>]
      : K extends `${AxisIndex<S, B>}` ? S[AxisIndex<S, A>]
      : S[K];
  };

/** The axis `A` moved to `B`, the others in their order; or the error for a missing one. */
export type MoveAxis<
  S extends Shape,
  A extends number | readonly number[],
  B extends number | readonly number[],
> = number extends S["length"] ? Shape
  : A extends readonly number[] ? Sizes<S>
  : B extends readonly number[] ? Sizes<S>
  : MoveOne<S, A & number, B & number>;

/** {@link MoveAxis} of one axis. */
export type MoveOne<S extends Shape, A extends number, B extends number> = number extends A | B
  ? Sizes<S>
  : [AxisIndex<S, A>] extends [never] ? NoAxis<"moveAxis", S, A>
  : [AxisIndex<S, B>] extends [never] ? NoAxis<"moveAxis", S, B>
  : InsertAt<DropAxes<S, AxisIndex<S, A>>, AxisIndex<S, B>, [S[AxisIndex<S, A>]]>;

/** The shape of `rot90` by `N` quarter turns in the plane of the axes `P`, or the error. */
export type Rotated<S extends Shape, N extends number, P extends readonly [number, number]> =
  number extends S["length"] ? Shape
    : AxisIndexes<"rot90", S, P> extends infer E extends string ? E
    : number extends N ? Sizes<S>
    : `${N}` extends `${string}${"1" | "3" | "5" | "7" | "9"}` ? SwapAxes<S, P[0], P[1]>
    : S;

/** A new axis of size `N` before the axis `A` of the result, or the error for an invalid axis. */
export type ExpandDims<
  S extends Shape,
  A extends number | readonly number[],
  N extends number = 1,
  Op extends string = "expandDims",
> = number extends S["length"] ? Shape
  : A extends readonly number[] ? Shape
  : number extends A ? Sizes<[...S, 1]>
  : AxisIndex<[...S, 1], A & number> extends infer I
    ? [I] extends [never] ? NoAxis<Op, [...S, 1], A & number> : InsertAt<S, I & number, [N]>
  : never;

/** `S` without the axes `A` (without all of size 1 if none is given), or the error. */
export type Squeeze<S extends Shape, A extends AxisArg> = number extends S["length"] ? Shape
  : A extends null | undefined ? DropOnes<S>
  : A extends number ? SqueezeAxes<S, [A]>
  : A extends Shape ? SqueezeAxes<S, A>
  : never;

/** `S` without its sizes of 1; dynamic if a size is unknown. */
export type DropOnes<S extends Shape, Out extends Shape = []> = S extends
  readonly [infer H extends number, ...infer R extends Shape]
  ? number extends H ? Shape : DropOnes<R, H extends 1 ? Out : [...Out, H]>
  : Out;

/** {@link Squeeze} along a list of axes. */
export type SqueezeAxes<S extends Shape, As extends Shape> = number extends As["length"] ? Shape
  : AxisIndexes<"squeeze", S, As> extends infer Is
    ? Is extends Shape
      ? number extends Is[number] ? As extends readonly [number] ? OneLess<S> : Shape
      : [NotOne<S, Is>] extends [never] ? DropAxes<S, Is[number]>
      : NotOne<S, Is>
    : Is
  : never;

/** The error for the first of the axes `Is` whose size is known and is not 1. */
export type NotOne<S extends Shape, Is extends Shape> = Is extends
  readonly [infer I extends number, ...infer R extends Shape]
  ? Agree<S[I], 1> extends true ? NotOne<S, R>
  : `Cannot squeeze axis ${I} of shape ${Show<S>}: it has size ${ShowSize<S[I]>}, not 1`
  : never;

/** The shapes of a tuple of tensors, for a message. */
export type ShowAll<Ts extends readonly Typed[], Out extends string = ""> = Ts extends
  readonly [infer H extends Typed, ...infer R extends readonly Typed[]] ? ShowAll<
    R,
    Out extends "" ? Show<ShapeOf<H>>
      : R extends readonly [] ? `${Out} and ${Show<ShapeOf<H>>}`
      : `${Out}, ${Show<ShapeOf<H>>}`
  >
  : Out;

/** The shape of tensors joined along the axis `A`, or why they do not join. */
export type Concat<Ts extends readonly Typed[], A extends number> = number extends Ts["length"]
  ? JoinList<ShapeOf<Ts[number]>, A>
  : Ts extends readonly [infer H extends Typed, ...infer R extends readonly Typed[]]
    ? HasAxis<"concat", ShapeOf<H>, A, JoinAll<Ts, R, ShapeOf<H>, A>>
  : "Cannot concat no tensors: it needs at least 1";

/** The shape of an array of tensors, all of shape `S`, joined along `A`. */
export type JoinList<S extends Shape, A extends number> = number extends S["length"] ? Shape
  : number extends A ? Sizes<S>
  : HasAxis<"concat", S, A, SetAxes<S, AxisIndex<S, A>, number>>;

/** Joins the tensors `R` to the shape `Out`, one by one. */
export type JoinAll<
  Ts extends readonly Typed[],
  R extends readonly Typed[],
  Out extends Shape,
  A extends number,
> = number extends Out["length"] ? Shape
  : R extends readonly [infer H extends Typed, ...infer Others extends readonly Typed[]]
    ? number extends ShapeOf<H>["length"] ? OfRank<Out["length"]>
    : number extends A ? JoinAll<Ts, Others, Sizes<Out>, A>
    : Join<Out, ShapeOf<H>, AxisIndex<Out, A>> extends infer N
      ? N extends Shape ? JoinAll<Ts, Others, N, A>
      : `Cannot concat shapes ${ShowAll<Ts>} along axis ${A}: ${N & string}`
    : never
  : Out;

/** `A` and `B` joined along the axis `I`, or the error for a mismatched axis. */
export type Join<A extends Shape, B extends Shape, I extends number, Out extends Shape = []> =
  A extends readonly [infer M extends number, ...infer AR extends Shape]
    ? B extends readonly [infer N extends number, ...infer BR extends Shape]
      ? Out["length"] extends I ? Join<AR, BR, I, [...Out, Sum<M, N>]>
      : Agree<M, N> extends true ? Join<AR, BR, I, [...Out, number extends M ? N : M]>
      : `axis ${Out["length"]} has sizes ${M} and ${N}`
    : "their ranks differ"
    : B extends readonly [] ? Out
    : "their ranks differ";

/** The shape of tensors of one shape stacked along a new axis `A`, or why they do not stack. */
export type Stack<Ts extends readonly Typed[], A extends number> = number extends Ts["length"]
  ? ExpandDims<ShapeOf<Ts[number]>, A, number, "stack">
  : Ts extends readonly [infer H extends Typed, ...infer R extends readonly Typed[]]
    ? StackAll<Ts, R, ShapeOf<H>> extends infer S
      ? S extends Shape ? ExpandDims<S, A, Ts["length"] & number, "stack"> : S
    : never
  : "Cannot stack no tensors: it needs at least 1";

/** The common shape of `Out` and the tensors `R`, or the error for the axis that differs. */
export type StackAll<
  Ts extends readonly Typed[],
  R extends readonly Typed[],
  Out extends Shape,
> = R extends readonly [infer H extends Typed, ...infer Others extends readonly Typed[]]
  ? number extends ShapeOf<H>["length"] ? StackAll<Ts, Others, Out>
  : number extends Out["length"] ? StackAll<Ts, Others, ShapeOf<H>>
  : Join<Out, ShapeOf<H>, -1> extends infer N ? N extends Shape ? StackAll<Ts, Others, N>
    : `Cannot stack shapes ${ShowAll<Ts>}: ${N & string}`
  : never
  : Out;

/** The shape of each part of `S` cut along `A` into `N` equal parts, or the error. */
export type Split<S extends Shape, N extends number | Shape, A extends number> = number extends
  S["length"] ? Shape
  : number extends A ? Sizes<S>
  : HasAxis<
    "split",
    S,
    A,
    N extends number ? SplitEqual<S, AxisIndex<S, A>, N> : SetAxes<S, AxisIndex<S, A>, number>
  >;

/** {@link Split} into equal parts along an axis from 0 on. */
export type SplitEqual<S extends Shape, I extends number, N extends number> = number extends
  S[I] | N ? SetAxes<S, I, number>
  : [Quotient<S[I], N>] extends [never]
    ? `Cannot split shape ${Show<S>} along axis ${I}: size ${S[I]} is not a multiple of ${N}`
  : SetAxes<S, I, Quotient<S[I], N>>;

/** The shape of `repeat` along `A`, or of all elements in one axis without it. */
export type Repeat<S extends Shape, A extends number | undefined> = A extends number
  ? number extends A ? Sizes<S>
  : number extends S["length"] ? Shape
  : HasAxis<"repeat", S, A, SetAxes<S, AxisIndex<S, A>, number>>
  : [number];

/** `unknown`, or the error that an op along one axis needs the axis. */
export type AxisNeeded<Op extends string, S extends Shape, A extends number | undefined> =
  [A] extends [undefined] ? number extends S["length"] ? unknown
    : S extends readonly [number] ? unknown
    : `Cannot ${Op} shape ${Show<S>}: name an axis when the rank is not 1`
    : unknown;

/** The shape of `tile` by `R` (its sizes are computed at run time). */
export type Tile<S extends Shape, R extends Shape> = number extends S["length"] | R["length"]
  ? Shape
  : S extends readonly [...Sizes<R>, ...Shape] ? Sizes<S>
  : Sizes<R>;

/**
 * The shape of `take` with indexes of shape `I` along the axis `A`, or the error for a missing
 * axis.
 */
export type Take<S extends Shape, I extends Shape, A extends number> = number extends
  S["length"] | I["length"] ? Shape
  : number extends A ? OfRank<[...OneLess<S>, ...I]["length"] & number>
  : HasAxis<
    "take",
    S,
    A,
    InsertAt<DropAxes<S, AxisIndex<S, A>>, AxisIndex<S, A>, I>
  >;

/** The shape of `diagonal`: without the two axes, and with one of unknown size at the end. */
export type Diagonal<S extends Shape, A extends number = 0, B extends number = 1> = number extends
  S["length"] ? Shape
  : ReduceAxes<"diagonal", S, [A, B], false> extends infer R
    ? R extends Shape ? number extends A | B ? OneLess<S> : [...R, number] : R
  : never;

/** `S` as a shape of rank `N`, or the error for another rank. */
export type AsRank<S extends Shape, N extends number> = number extends S["length"] ? OfRank<N>
  : number extends N ? S
  : Same<S["length"], N> extends true ? S
  : `Cannot take shape ${Show<S>} as rank ${N}: its rank is ${S["length"]}`;

/** `To`, or why a tensor of shape `S` cannot have it; unknown sizes on either side pass. */
export type AsShape<S extends Shape, To extends Shape> = number extends S["length"] | To["length"]
  ? number extends To["length"] ? S : [...To]
  : Join<S, To, -1> extends infer R
    ? R extends Shape ? R : `Cannot take shape ${Show<S>} as ${Show<To>}: ${R & string}`
  : never;
