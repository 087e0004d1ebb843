/**
 * `reshape` at compile time: exact element counts, and the inferred size of -1.
 *
 * Knows nothing of strides: a reshape decides at run time whether it copies.
 *
 * @module
 */
import type { Shape } from "../base/shape.ts";
import type { BadSize, Same, Show } from "./core.ts";
import type { Product, Quotient } from "./digits.ts";

/** `S` without its first size that is identical to `N`; `never` if there is none. */
export type Without<S extends Shape, N extends number, Out extends Shape = []> = S extends
  readonly [infer H extends number, ...infer R extends Shape]
  ? Same<H, N> extends true ? [...Out, ...R] : Without<R, N, [...Out, H]>
  : never;

/** Both shapes without their common known sizes: the remaining products are small. */
export type Cancel<S extends Shape, To extends Shape, Left extends Shape = []> = S extends
  readonly [infer H extends number, ...infer R extends Shape]
  ? number extends H ? Cancel<R, To, [...Left, H]>
  : Without<To, H> extends infer T ? [T] extends [never] ? Cancel<R, To, [...Left, H]>
    : T extends Shape ? Cancel<R, T, Left>
    : never
  : never
  : [Left, To];

/** The sizes of `To` with `N` in the place of -1. */
export type Infer<To extends Shape, N extends number> = {
  -readonly [K in keyof To]: To[K] extends -1 ? N : To[K];
};

/** The shape of `reshape(To)`, or why the sizes do not fit. */
export type Reshape<S extends Shape, To extends Shape> = number extends To["length"] ? Shape
  : number extends S["length"] ? Infer<To, number>
  : Cancel<S, To> extends [infer L extends Shape, infer R extends Shape]
    ? [...L, ...R] extends readonly [] ? [...To]
    : -1 extends KnownSizes<R> ? ReshapeInferred<S, To, L, R>
    : [BadSize<To>] extends [never] ? number extends L[number] | R[number] ? [...To]
      : Product<L> extends Product<R> ? [...To]
      : 0 extends S[number] ? 0 extends To[number] ? [...To] : BadCount<S, To>
      : BadCount<S, To>
    : BadReshape<S, To, `${BadSize<To>}, which is not -1 or an integer of at least 0`>
  : never;

/** The known sizes of `S` as a union. */
export type KnownSizes<S extends Shape> = S extends
  readonly [infer H extends number, ...infer R extends Shape]
  ? number extends H ? KnownSizes<R> : H | KnownSizes<R>
  : never;

/** {@link Reshape} with a -1 among the sizes `R` that remain of `To`; `L` remain of `S`. */
export type ReshapeInferred<S extends Shape, To extends Shape, L extends Shape, R extends Shape> =
  Without<R, -1> extends infer Others extends Shape
    ? -1 extends KnownSizes<Others> ? BadReshape<S, To, "more than one size is -1">
    : [BadSize<Infer<To, 0>>] extends [never]
      ? 0 extends KnownSizes<To> ? BadReshape<S, To, "-1 beside a size of 0 has no single answer">
      : number extends L[number] | Others[number] ? Infer<To, number>
      : Quotient<Product<L>, Product<Others>> extends infer Q ? [Q] extends [never] ? BadReshape<
            S,
            To,
            `${Product<S>} elements do not divide by ${Product<Without<To, -1>>}`
          >
        : Infer<To, Q & number>
      : never
    : BadReshape<S, To, `${BadSize<Infer<To, 0>>}, which is not -1 or an integer of at least 0`>
    : never;

/** The error of a reshape. */
export type BadReshape<S extends Shape, To extends Shape, Why extends string> =
  `Cannot reshape ${Show<S>} to ${Show<To>}: ${Why}`;

/** The error of a reshape whose element counts differ. */
export type BadCount<S extends Shape, To extends Shape> = BadReshape<
  S,
  To,
  `they have ${Product<S>} and ${Product<To>} elements`
>;
