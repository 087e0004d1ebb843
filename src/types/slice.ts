/**
 * `slice` and `sliceAxis` at compile time: numbers, `"start:stop:step"` strings, new axes, ellipsis.
 *
 * Slice objects give an unknown size. Indexing by arrays and tensors is exact only if there is one
 * of them and no number. Knows nothing of strides.
 *
 * @module
 */
import type { Shape } from "../base/shape.ts";
import type { Range, Slice } from "../base/slice.ts";
import type { AxisIndex, DropAxes, HasAxis, OneLess, SetAxes } from "./axes.ts";
import type { Show, Sizes, Typed } from "./core.ts";
import type {
  AddDigits,
  Digits,
  DivDigits,
  SubDigits,
  ToDigits,
  ToNumber,
  ToText,
} from "./digits.ts";

/** One argument of `slice`. */
export type SliceArg =
  | number
  | string
  | null
  | Slice
  | Range
  | readonly number[]
  | readonly boolean[]
  | Typed;

/** Text without the spaces around it. */
export type Trim<T extends string> = T extends ` ${infer R}` ? Trim<R>
  : T extends `${infer R} ` ? Trim<R>
  : T;

/** The arguments as one entry per axis: a lone string cut at its commas, and parsed texts. */
export type SliceArgs<A extends readonly unknown[], Out extends unknown[] = []> = A extends
  readonly [`${infer P},${infer Q}`] ? SliceArgs<[Q], [...Out, TextArg<Trim<P>>]>
  : A extends readonly [infer H, ...infer R]
    ? SliceArgs<R, [...Out, H extends string ? TextArg<Trim<H>> : H]>
  : Out;

/**
 * A trimmed text as a number or a new axis, if it is one. A pattern is a number or a slice whose
 * bounds only the run time knows.
 */
export type TextArg<T extends string> = T extends "None" | "newaxis" ? null
  : T extends `${bigint}` ? T extends `${infer N extends number}` ? N : number
  : IsLiteral<T> extends true ? T
  : T extends `${number}` ? number
  : T extends `${string}:${string}` ? Slice
  : T;

/** The arguments that consume axes, one entry per axis: neither new axes nor the ellipsis. */
export type Consuming<A extends readonly unknown[], Out extends number[] = []> = A extends
  readonly [infer H, ...infer R] ? Consuming<
    R,
    H extends null | "..." ? Out
      : H extends Mask ? [...Out, ...Unknowns<H["shape"]>]
      : [...Out, number]
  >
  : Out;

/** {@link Sizes} for spreading. */
export type Unknowns<S extends Shape> = Sizes<S> extends infer Z extends number[] ? Z : [];

/** A boolean tensor, which picks elements along as many axes as it has. */
export interface Mask extends Typed {
  /** Only bool tensors are masks; other tensors contain indexes. */
  readonly dtype: "bool";
}

/** The shape of `slice(...A)`, or the error for an argument. */
export type SliceShape<S extends Shape, A extends readonly unknown[]> = number extends
  A["length"] | S["length"] ? Shape
  : SliceArgs<A> extends infer T extends readonly unknown[] ? IndexSpec<T> extends "many" ? Shape
    : S extends readonly [...Consuming<T>, ...Shape] ? SliceWalk<S, T, S>
    : `Cannot slice shape ${Show<S>} by ${Consuming<
      T
    >["length"]} indexes: it has rank ${S["length"]}`
  : never;

/** "many" if the shape is only known at run time: unknown texts, or a pick next to another index. */
export type IndexSpec<
  A extends readonly unknown[],
  Seen extends "none" | "index" | "pick" = "none",
> = A extends readonly [infer H, ...infer R]
  ? H extends number ? Seen extends "pick" ? "many" : IndexSpec<R, "index">
  : H extends string ? IsLiteral<H> extends true ? IndexSpec<R, Seen> : "many"
  : H extends Typed
    ? Seen extends "none" ? number extends H["shape"]["length"] ? "many" : IndexSpec<R, "pick">
    : "many"
  : H extends readonly number[] | readonly boolean[]
    ? Seen extends "none" ? IndexSpec<R, "pick"> : "many"
  : IndexSpec<R, Seen>
  : Seen;

/** Whether a text is known: neither `string` nor a pattern such as `${number}:`. */
export type IsLiteral<T extends string> = Record<never, never> extends Record<T, 0> ? false : true;

/** Applies the arguments `A` to the remaining axes `S` of `All`, from the left. */
export type SliceWalk<
  S extends Shape,
  A extends readonly unknown[],
  All extends Shape,
  Out extends Shape = [],
> = A extends readonly [infer H, ...infer R] ? H extends null ? SliceWalk<S, R, All, [...Out, 1]>
  : H extends "..." ? "..." extends R[number] ? 'Cannot slice with more than one "..."'
    : S extends readonly [...infer Skip extends Shape, ...Consuming<R>]
      ? S extends readonly [...Skip, ...infer Left extends Shape]
        ? SliceWalk<Left, R, All, [...Out, ...Skip]>
      : never
    : never
  : H extends Mask
    ? S extends readonly [...Sizes<H["shape"]>, ...infer Left extends Shape]
      ? SliceWalk<Left, R, All, [...Out, number]>
    : never
  : S extends readonly [infer N extends number, ...infer Left extends Shape]
    ? H extends number ? InBounds<H, N> extends true ? SliceWalk<Left, R, All, Out>
      : BadIndex<All, AxisAt<All, S>, H, N>
    : H extends string
      ? SliceText<H, N> extends infer L
        ? L extends number ? SliceWalk<Left, R, All, [...Out, L]> : L
      : never
    : H extends Typed ? SliceWalk<Left, R, All, [...Out, ...H["shape"]]>
    : H extends readonly number[] ? SliceWalk<Left, R, All, [...Out, H["length"]]>
    : SliceWalk<Left, R, All, [...Out, number]>
  : never
  : [...Out, ...S];

/** The number of used axes if `Left` remains of `All`. */
export type AxisAt<All extends Shape, Left extends Shape> = All extends
  readonly [...infer Used extends Shape, ...Unknowns<Left>] ? Used["length"] : number;

/** The error for an index outside its axis. */
export type BadIndex<S extends Shape, A extends number, I extends number, N extends number> =
  `Cannot slice axis ${A} of shape ${Show<S>} at ${I}: it has size ${N}`;

/** Whether an axis of size `N` has the index `I`. */
export type InBounds<I extends number, N extends number> = number extends I | N ? true
  : `${I}` extends `-${infer P}` ? AtMost<ToDigits<P>, ToDigits<N>>
  : AtMost<AddDigits<ToDigits<I>, ["1"]>, ToDigits<N>>;

/** Whether `A` is at most `B`. */
export type AtMost<A extends Digits, B extends Digits> = [SubDigits<B, A>] extends [never] ? false
  : true;

/** The number of elements of `N` that `"start:stop:step"` takes, or the error for the text. */
export type SliceText<T extends string, N extends number> = T extends ":" ? N
  : T extends `${infer A}:${infer B}:${infer C}` ? SliceParts<T, Trim<A>, Trim<B>, Trim<C>, N>
  : T extends `${infer A}:${infer B}` ? SliceParts<T, Trim<A>, Trim<B>, "", N>
  : BadText<T>;

/** The error for a text that is not an index. */
export type BadText<T extends string> =
  `Cannot slice by "${T}": it is not an index, start:stop:step, "..." or None`;

/** {@link SliceText} in its three parts. */
export type SliceParts<
  T extends string,
  A extends string,
  B extends string,
  C extends string,
  N extends number,
> = [A | B | C] extends ["" | `${bigint}`] ? C extends "0" | "-0" ? "Cannot slice with step 0"
  : number extends N ? number
  : C extends `-${infer P}` ? `${A}${B}` extends "" ? EveryNth<ToDigits<N>, P> : number
  : EveryNth<
    OrZero<SubDigits<Bound<B, N, ToDigits<N>>, Bound<A, N, []>>>,
    C extends "" ? "1" : C
  >
  : BadText<T>;

/** A bound as a position from 0 to `N`; `Default` if it is omitted. */
export type Bound<T extends string, N extends number, Default extends Digits> = T extends ""
  ? Default
  : T extends `-${infer P}` ? OrZero<SubDigits<ToDigits<N>, ToDigits<P>>>
  : AtMost<ToDigits<T>, ToDigits<N>> extends true ? ToDigits<T>
  : ToDigits<N>;

/** A difference, or zero if it is negative. */
export type OrZero<D> = [D] extends [never] ? [] : D extends Digits ? D : [];

/** The number of `D` elements taken with a step: the quotient, rounded up. */
export type EveryNth<D extends Digits, Step extends string> = Step extends "1" ? ToNumber<D>
  : DivDigits<D, ToDigits<Step>> extends [infer Q extends Digits, infer R extends Digits]
    ? ToText<R> extends "0" ? ToNumber<Q> : ToNumber<AddDigits<Q, ["1"]>>
  : never;

/** The shape of `sliceAxis(axis, index)`, or the error for an argument. */
export type SliceAxis<S extends Shape, A extends number, I> = I extends string
  ? TextArg<Trim<I>> extends infer T
    ? T extends string ? IsLiteral<T> extends true ? SliceAxisBy<S, A, T>
      : Shape
    : SliceAxisBy<S, A, T>
  : never
  : SliceAxisBy<S, A, I>;

/** {@link SliceAxis} by a parsed argument. */
export type SliceAxisBy<S extends Shape, A extends number, I> = number extends S["length"] ? Shape
  : number extends A ? I extends number ? OneLess<S> : Sizes<S>
  : HasAxis<"slice", S, A> extends infer E ? E extends string ? E
    : I extends number ? InBounds<I, S[AxisIndex<S, A>]> extends true ? DropAxes<S, AxisIndex<S, A>>
      : BadIndex<S, AxisIndex<S, A>, I, S[AxisIndex<S, A>]>
    : I extends string
      ? SliceText<I, S[AxisIndex<S, A>]> extends infer L
        ? L extends number ? SetAxes<S, AxisIndex<S, A>, L> : L
      : never
    : SetAxes<S, AxisIndex<S, A>, number>
  : never;
