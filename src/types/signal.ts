/**
 * Shapes of transforms and convolutions at compile time, and of ops whose sizes are those of inputs
 * plus or minus something.
 *
 * @module
 */
import type { DType } from "../base/dtype.ts";
import type { Shape } from "../base/shape.ts";
import type { AxisIndex, SetAxes } from "./axes.ts";
import type { Agree } from "./broadcast.ts";
import type { Show, Sizes } from "./core.ts";
import type { EdgeDType } from "./dtype.ts";
import type { Difference, HalfAndOne, Larger, Smaller, Sum } from "./digits.ts";

/** The size of `S` along the axis `X`. */
export type SizeAlong<S extends Shape, X extends number> = AxisIndex<S, X> extends
  infer I extends number ? S[I] : number;

/** `S` with the size `N` along the axis `X`. */
export type WithSize<S extends Shape, X extends number, N extends number> = number extends
  S["length"] ? Shape
  : number extends X ? Sizes<S>
  : SetAxes<S, AxisIndex<S, X>, N>;

/** The length `N` of a transform; that of the axis `X` by default. */
export type Length<S extends Shape, X extends number, N extends number> = [N] extends [never]
  ? SizeAlong<S, X>
  : N;

/** The shape of a transform of length `N` along the axis `X`. */
export type Fft<S extends Shape, X extends number, N extends number> = [N] extends [never] ? S
  : WithSize<S, X, N>;

/** The shape of a transform of real numbers. */
export type RealFft<S extends Shape, X extends number, N extends number> = WithSize<
  S,
  X,
  HalfAndOne<Length<S, X, N>>
>;

/** The shape of an inverse transform to real numbers. */
export type InverseRealFft<S extends Shape, X extends number, N extends number> = WithSize<
  S,
  X,
  [N] extends [never] ? DoubleLess<SizeAlong<S, X>> : N
>;

/** Twice a size less 2. */
export type DoubleLess<N extends number> = Difference<Sum<N, N>, 2>;

/** The shape of a transform along several axes: that of `S` without lengths. */
export type FftMany<S extends Shape, L> = L extends undefined ? S : Sizes<S>;

/** The shape of a transform of real numbers along several axes: the last one is halved. */
export type RealFftMany<S extends Shape, L, X> = L extends undefined
  ? X extends undefined ? RealFft<S, -1, never> : Sizes<S>
  : Sizes<S>;

/** The shape of an inverse transform to real numbers along several axes. */
export type InverseRealFftMany<S extends Shape, L, X> = L extends undefined
  ? X extends undefined ? InverseRealFft<S, -1, never> : Sizes<S>
  : Sizes<S>;

/** The number of results of a convolution of `N` and `M` elements. */
export type ConvolveLength<N extends number, M extends number, Mode> = Mode extends "full"
  ? Difference<Sum<N, M>, 1>
  : Mode extends "same" ? Larger<N, M>
  : Mode extends "valid" ? Sum<Difference<Larger<N, M>, Smaller<N, M>>, 1>
  : number;

/** The shape of a convolution of rows with a vector, or the error. */
export type Convolve<Op extends string, A extends Shape, V extends Shape, Mode> = number extends
  A["length"] | V["length"] ? Shape
  : A extends readonly [...infer B extends Shape, infer N extends number]
    ? V extends readonly [infer M extends number] ? N extends 0 ? BadConvolve<Op, A, V>
      : M extends 0 ? BadConvolve<Op, A, V>
      : [...B, ConvolveLength<N, M, Mode>]
    : BadConvolve<Op, A, V>
  : BadConvolve<Op, A, V>;

/** The error of operands that are not rows and a vector. */
export type BadConvolve<Op extends string, A extends Shape, V extends Shape> =
  `Cannot ${Op} shapes ${Show<A>} and ${Show<
    V
  >}: it takes rows and a vector, of at least one element each`;

/** The shape of `diff` of order `N` along the axis `X`; unknown along it with more elements. */
export type Diff<S extends Shape, N extends number, X extends number, O> = N extends 0 ? S
  : [O] extends [undefined]
    ? WithSize<S, X, number extends N ? number : Difference<SizeAlong<S, X>, N>>
  : WithSize<S, X, number>;

/** The shape of the coefficients of a fit of the degree `N` to values of shape `Y`. */
export type Polyfit<Y extends Shape, N extends number> = Y extends readonly [number] ? [Sum<N, 1>]
  : Y extends readonly [number, infer K extends number] ? [Sum<N, 1>, K]
  : Shape;

/** The shape of the values of a fit at points of the shape `X`, or the error. */
export type FitPoints<X extends Shape, Y extends Shape> = number extends X["length"] | Y["length"]
  ? Shape
  : [X, Y] extends [readonly [infer M extends number], readonly [infer N extends number, number?]]
    ? Agree<M, N> extends true ? Y : BadFit<X, Y>
  : BadFit<X, Y>;

/** The error of points and values of a fit. */
export type BadFit<X extends Shape, Y extends Shape> = `Cannot polyfit shapes ${Show<
  X
>} and ${Show<Y>}: x is a vector, and y has a number or a row for each of its elements`;

/** The dtype of the edges of the bins `B` of elements of dtype `D`. */
export type EdgesDType<D extends DType, B> = B extends { readonly dtype: infer E extends DType } ? E
  : EdgeDType<D>;

/** The numbers of bins that `B` says: a number, edges, or unknown. */
export type BinCount<B> = B extends number ? B
  : B extends readonly unknown[] ? Difference<B["length"], 1>
  : B extends { readonly shape: readonly [infer N extends number] } ? Difference<N, 1>
  : number;

/** The number of edges of bins. */
export type EdgeCount<B> = B extends number ? Sum<B, 1>
  : B extends readonly unknown[] ? B["length"]
  : B extends { readonly shape: readonly [infer N extends number] } ? N
  : number;

/** The shape of grids of vectors of the shapes `Ss`; the first two axes are exchanged by default. */
export type Grid<Ss extends readonly Shape[], I> = VectorSizes<Ss> extends infer G
  ? G extends readonly [infer M, infer N, ...infer R]
    ? I extends "ij" ? G : I extends "xy" ? [N, M, ...R] : Sizes<G & Shape>
  : G
  : never;

/** The sizes of vectors. */
export type VectorSizes<Ss extends readonly Shape[]> = number extends Ss["length"] ? Shape
  : { -readonly [K in keyof Ss]: Ss[K] extends readonly [infer N extends number] ? N : number };

/** The shape of covariances of `N` variables, of which there are no more: of rank 0 for one. */
export type CovariancesOf<N extends number> = number extends N ? Shape : N extends 1 ? [] : [N, N];

/** The shape of covariances of variables in rows (`R`) or columns, or the error. */
export type Covariances<Op extends string, S extends Shape, R extends boolean, Y> = number extends
  S["length"] ? Shape
  : S extends readonly [] | readonly [number] ? Y extends undefined ? [] : [number, number]
  : S extends readonly [infer M extends number, infer N extends number]
    ? Y extends undefined
      ? R extends true ? CovariancesOf<M> : R extends false ? CovariancesOf<N> : Shape
    : [number, number]
  : `Cannot ${Op} shape ${Show<S>}: it takes at most 2 axes`;

/** The shape of the points of `interp`, or the error. */
export type Points<X extends Shape, Y extends Shape> = number extends X["length"] | Y["length"]
  ? Shape
  : [X, Y] extends [readonly [infer M extends number], readonly [infer N extends number]]
    ? Agree<M, N> extends true ? X : BadPoints<X, Y>
  : BadPoints<X, Y>;

/** The error of points that are no two vectors of one size. */
export type BadPoints<X extends Shape, Y extends Shape> =
  `Cannot interp between points of shapes ${Show<X>} and ${Show<
    Y
  >}: it takes two vectors of one size, of at least 1`;

/** `Yes` if `S` may be that of a vector, else the error. */
export type VectorOnly<Op extends string, S extends Shape, Why extends string, Yes = true> =
  number extends S["length"] ? Yes
    : S extends readonly [number] ? Yes
    : `Cannot ${Op} shape ${Show<S>}: ${Why}`;
