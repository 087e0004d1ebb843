/**
 * Shapes of linear algebra at compile time: matrices in the last two axes, and a batch before them.
 *
 * @module
 */
import type { Shape } from "../base/shape.ts";
import type { Agree, Broadcast } from "./broadcast.ts";
import type { Show } from "./core.ts";
import type { Smaller } from "./digits.ts";

/** `Yes` if `S` may be that of matrices, else the error. */
export type Matrices<Op extends string, S extends Shape, Yes = S> = number extends S["length"] ? Yes
  : S extends readonly [...Shape, number, number] ? Yes
  : `Cannot ${Op} shape ${Show<S>}: it takes matrices`;

/** `Yes` if `S` may be that of square matrices, else the error. */
export type Square<Op extends string, S extends Shape, Yes = S> = number extends S["length"] ? Yes
  : S extends readonly [...Shape, infer M extends number, infer N extends number]
    ? Agree<M, N> extends true ? Yes : `Cannot ${Op} shape ${Show<S>}: it takes square matrices`
  : `Cannot ${Op} shape ${Show<S>}: it takes matrices`;

/** The axes before matrices of the shape `S`. */
export type Batch<S extends Shape> = S extends readonly [...infer B extends Shape, number, number]
  ? B
  : Shape;

/** A vector of the columns of each matrix of `S`. */
export type ColumnVectors<S extends Shape> = S extends
  readonly [...infer B extends Shape, number, infer N extends number] ? [...B, N] : Shape;

/** A vector of the rows of each matrix of `S`. */
export type RowVectors<S extends Shape> = S extends
  readonly [...infer B extends Shape, infer M extends number, number] ? [...B, M] : Shape;

/** The smaller number of rows and columns of each matrix of `S`. */
export type LeastVectors<S extends Shape> = S extends
  readonly [...infer B extends Shape, infer M extends number, infer N extends number]
  ? [...B, Smaller<M, N>]
  : Shape;

/** Matrices [..., M, K] for [..., M, N], K = min(M, N); `All` makes it M. */
export type LeftFactor<S extends Shape, All extends boolean = false> = S extends
  readonly [...infer B extends Shape, infer M extends number, infer N extends number]
  ? [...B, M, boolean extends All ? number : All extends true ? M : Smaller<M, N>]
  : Shape;

/** Matrices [..., K, N] for [..., M, N], K = min(M, N). */
export type RightFactor<S extends Shape> = S extends
  readonly [...infer B extends Shape, infer M extends number, infer N extends number]
  ? [...B, Smaller<M, N>, N]
  : Shape;

/** The right singular vectors, [..., K, N] for [..., M, N], K = min(M, N), or N with `All`. */
export type RightVectors<S extends Shape, All extends boolean> = S extends
  readonly [...infer B extends Shape, infer M extends number, infer N extends number]
  ? [...B, boolean extends All ? number : All extends true ? N : Smaller<M, N>, N]
  : Shape;

/** The shape of R of a QR factorization: [..., K, N] for [..., M, N], K = min(M, N), or M with `All`. */
export type TriangularFactor<S extends Shape, All extends boolean> = S extends
  readonly [...infer B extends Shape, infer M extends number, infer N extends number]
  ? [...B, boolean extends All ? number : All extends true ? M : Smaller<M, N>, N]
  : Shape;

/** The error of a system whose sides do not fit. */
export type BadSystem<Op extends string, A extends Shape, B extends Shape, Why extends string> =
  `Cannot ${Op} shapes ${Show<A>} and ${Show<B>}: ${Why}`;

/** The shape of the solution of a system, or the error. */
export type Solve<Op extends string, A extends Shape, B extends Shape> = Square<Op, A> extends
  infer E extends string ? E
  : number extends A["length"] | B["length"] ? Shape
  : A extends readonly [...infer P extends Shape, number, infer N extends number]
    ? B extends readonly [infer L extends number]
      ? Agree<N, L> extends true ? [...P, number extends N ? L : N] : OddSystem<Op, A, B, N, L>
    : B extends readonly [...infer Q extends Shape, infer L extends number, infer K extends number]
      ? Agree<N, L> extends true ? AppendTo<Broadcast<P, Q, Op>, [number extends N ? L : N, K]>
      : OddSystem<Op, A, B, N, L>
    : BadSystem<Op, A, B, "the right side has no rows">
  : never;

/** The error of a system whose numbers of columns and of rows differ. */
export type OddSystem<
  Op extends string,
  A extends Shape,
  B extends Shape,
  N extends number,
  L extends number,
> = BadSystem<Op, A, B, `sizes ${N} and ${L} of the system differ`>;

/** The shape `R` with the sizes `N` after it, or the error in `R`. */
export type AppendTo<R, N extends Shape> = R extends Shape
  ? number extends R["length"] ? Shape : [...R, ...N]
  : R;

/** The shape of the result x of `lstsq`, or the error. */
export type LeastSquares<A extends Shape, B extends Shape> = number extends
  A["length"] | B["length"] ? Shape
  : A extends readonly [...infer P extends Shape, infer M extends number, infer N extends number]
    ? B extends readonly [infer L extends number]
      ? Agree<M, L> extends true ? [...P, N] : OddRows<A, B>
    : B extends readonly [...infer Q extends Shape, infer L extends number, infer K extends number]
      ? Agree<M, L> extends true ? AppendTo<Broadcast<P, Q, "lstsq">, [N, K]> : OddRows<A, B>
    : OddRows<A, B>
  : OddRows<A, B>;

/** The error of a system whose numbers of rows differ. */
export type OddRows<A extends Shape, B extends Shape> = BadSystem<
  "lstsq",
  A,
  B,
  "the rows of the matrices differ"
>;

/** The shape of the residuals of `lstsq`: the sizes of its result without the rows. */
export type Residuals<A extends Shape, B extends Shape> = number extends A["length"] | B["length"]
  ? Shape
  : LeastSquares<A, B> extends infer R
    ? B extends readonly [number]
      ? R extends readonly [...infer P extends Shape, number] ? P : Shape
    : R extends readonly [...infer P extends Shape, number, infer K extends number] ? [...P, K]
    : Shape
  : never;

/** The shape of the product of several matrices, whose first and last may be vectors. */
export type MultiDot<Ss extends readonly Shape[]> = number extends Ss["length"] ? Shape
  : Ss extends readonly [infer A extends Shape, ...Shape[], infer Z extends Shape]
    ? number extends A["length"] | Z["length"] ? Shape
    : [...Outside<A, true>, ...Outside<Z, false>]
  : Shape;

/** The rows of the first matrix of a product, or the columns of the last; none of a vector. */
export type Outside<S extends Shape, First extends boolean> = S extends
  readonly [infer M extends number, infer N extends number] ? [First extends true ? M : N]
  : [];
