/**
 * The shapes of `einsum`, for equations that are literals.
 *
 * @module
 */
import type { Shape } from "../base/shape.ts";
import type { ShapeOf, Show, Typed } from "./core.ts";
import type { PromoteAll, Taken } from "./dtype.ts";

type Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

type Strip<E extends string> = E extends `${infer A} ${infer B}` ? Strip<`${A}${B}`> : E;

type Split<E extends string, Out extends string[] = []> = E extends `${infer A},${infer B}`
  ? Split<B, [...Out, A]>
  : [...Out, E];

/** The letters of a term as a tuple. */
type Chars<E extends string, Out extends string[] = []> = E extends `${infer A}${infer B}`
  ? Chars<B, [...Out, A]>
  : Out;

/** The first character that is no index; `never` if there is none. */
type BadChar<E extends string> = E extends `${infer A}${infer B}`
  ? Letters extends `${string}${A}${string}` ? BadChar<B> : A
  : never;

/** `shapes [2, 3] and [4]`. */
type ShowShapes<Ts extends readonly Shape[], Out extends string = ""> = Ts extends
  readonly [infer A extends Shape]
  ? Out extends "" ? `shape ${Show<A>}` : `shapes ${Out} and ${Show<A>}`
  : Ts extends readonly [infer A extends Shape, ...infer R extends readonly Shape[]]
    ? ShowShapes<R, Out extends "" ? Show<A> : `${Out}, ${Show<A>}`>
  : Out;

type Mismatch<E extends string, Ts extends readonly Shape[], Why extends string> =
  `Cannot einsum "${E}" of ${ShowShapes<Ts>}: ${Why}`;

type Sizes = Record<string, number>;

/** The sizes of the indices of one term added to `M`, or the error. */
type Bind<L extends readonly string[], S extends Shape, M extends Sizes> = L extends
  readonly [infer A extends string, ...infer R extends readonly string[]]
  ? S extends readonly [infer N extends number, ...infer T extends Shape]
    ? A extends keyof M ? number extends N ? Bind<R, T, M>
      : number extends M[A] ? Bind<R, T, Omit<M, A> & Record<A, N>>
      : M[A] extends N ? Bind<R, T, M>
      : N extends 1 ? Bind<R, T, M>
      : M[A] extends 1 ? Bind<R, T, Omit<M, A> & Record<A, N>>
      : `index ${A} has sizes ${M[A]} and ${N}`
    : Bind<R, T, M & Record<A, N>>
  : M
  : M;

/** The sizes of all indices, or the error. */
type BindAll<
  Terms extends readonly string[],
  Ts extends readonly Shape[],
  // deno-lint-ignore ban-types
  M extends Sizes = {},
  Seen extends unknown[] = [],
> = Terms extends readonly [infer E extends string, ...infer R extends readonly string[]]
  ? Ts extends readonly [infer S extends Shape, ...infer T extends readonly Shape[]]
    ? number extends S["length"] ? BindAll<R, T, M & Unknown<E>, [...Seen, 0]>
    : Chars<E>["length"] extends S["length"]
      ? Bind<Chars<E>, S, M> extends infer N ? N extends Sizes ? BindAll<R, T, N, [...Seen, 0]> : N
      : never
    : `operand ${Seen["length"]} has rank ${S["length"]}, and ${Chars<E>["length"]} indices`
  : M
  : M;

/** The indices of a term of unknown rank, whose sizes are unknown. */
type Unknown<E extends string> = Record<Chars<E>[number], number>;

/** The sizes of `L` among `M`. */
type Lookup<L extends readonly string[], M, Out extends number[] = []> = L extends
  readonly [infer A extends string, ...infer R extends readonly string[]]
  ? Lookup<R, M, [...Out, A extends keyof M ? M[A] extends number ? M[A] : number : number]>
  : Out;

/** The letters that occur once in `All`, in order. */
type Once<All extends string, L extends string = Letters, Out extends string = ""> = L extends
  `${infer A}${infer R}` ? Once<
    All,
    R,
    All extends `${string}${A}${infer Rest}`
      ? Rest extends `${string}${A}${string}` ? Out : `${Out}${A}`
      : Out
  >
  : Out;

/** The first letter that occurs twice; `never` if none does. */
type Twice<E extends string> = E extends `${infer A}${infer R}`
  ? R extends `${string}${A}${string}` ? A : Twice<R>
  : never;

/** The first letter of `E` that `All` does not have. */
type Missing<E extends string, All extends string> = E extends `${infer A}${infer R}`
  ? All extends `${string}${A}${string}` ? Missing<R, All> : A
  : never;

type Wrong<E extends string, Why extends string> = `Cannot einsum "${E}": ${Why}`;

/** The result of checked terms, whose indices are `Out`. */
type Result<
  E extends string,
  Terms extends readonly string[],
  Out extends string,
  Ts extends readonly Shape[],
> = Terms["length"] extends Ts["length"]
  ? BindAll<Terms, Ts> extends infer M
    ? M extends string ? Mismatch<E, Ts, M> : Lookup<Chars<Out>, M>
  : never
  : Wrong<E, `it has ${Terms["length"]} terms for ${Ts["length"]} tensors`>;

/** The result for the operands `Left`, and the indices `Out` of the result. */
type Explicit<
  E extends string,
  Left extends string,
  Out extends string,
  Ts extends readonly Shape[],
> = [Twice<Out>] extends [infer A extends string]
  ? [A] extends [never]
    ? [Missing<Out, Left>] extends [infer B extends string]
      ? [B] extends [never] ? Result<E, Split<Left>, Out, Ts>
      : Wrong<E, `no operand has index ${B} of the result`>
    : never
  : Wrong<E, `the result has index ${A} twice`>
  : never;

type Joined<E extends string> = E extends `${infer A},${infer B}` ? Joined<`${A}${B}`> : E;

type Checked<E extends string, T extends string, Ts extends readonly Shape[]> = T extends
  `${infer Left}->${infer Out}`
  ? [BadChar<`${Joined<Left>}${Out}`>] extends [infer C extends string]
    ? [C] extends [never] ? Explicit<E, Left, Out, Ts>
    : Wrong<E, `"${C}" is no index; indices are letters, or "..." once`>
  : never
  : [BadChar<Joined<T>>] extends [infer C extends string]
    ? [C] extends [never] ? Result<E, Split<T>, Once<Joined<T>>, Ts>
    : Wrong<E, `"${C}" is no index; indices are letters, or "..." once`>
  : never;

/** The shapes of the tensors of a list. */
export type ShapesOf<Ts extends readonly Typed[]> = { [K in keyof Ts]: ShapeOf<Ts[K]> };

/**
 * The shape of `einsum` of tensors of shapes `Ts`, or the error. Only the run time knows those of
 * equations that are no literals, or that have an ellipsis.
 */
export type EinsumOf<E extends string, Ts extends readonly Typed[]> = [
  Taken<"einsum", PromoteAll<Ts, "einsum">>,
] extends [infer R extends `Cannot ${string}`] ? R : Einsum<E, ShapesOf<Ts>>;

/** {@link EinsumOf} of shapes, without dtypes. */
export type Einsum<E extends string, Ts extends readonly Shape[]> = string extends E ? Shape
  : number extends Ts["length"] ? Shape
  : E extends `${string}...${string}` ? Shape
  : Checked<E, Strip<E>, Ts>;
