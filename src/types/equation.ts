/**
 * Equations of `einsum` at compile time: terms of letters, their sizes, and the sizes of the result.
 *
 * @module
 */
import type { Shape } from "../base/shape.ts";
import type { Show } from "./core.ts";

/** The letters of indices. */
export type IndexLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** An equation without spaces. */
export type WithoutSpaces<E extends string> = E extends `${infer A} ${infer B}`
  ? WithoutSpaces<`${A}${B}`>
  : E;

/** The terms between commas. */
export type EquationTerms<E extends string, Out extends string[] = []> = E extends
  `${infer A},${infer B}` ? EquationTerms<B, [...Out, A]>
  : [...Out, E];

/** The letters of a term as a tuple. */
export type TermLetters<E extends string, Out extends string[] = []> = E extends
  `${infer A}${infer B}` ? TermLetters<B, [...Out, A]>
  : Out;

/** The first character that is no index; `never` if there is none. */
export type BadLetter<E extends string> = E extends `${infer A}${infer B}`
  ? IndexLetters extends `${string}${A}${string}` ? BadLetter<B> : A
  : never;

/** `shapes [2, 3] and [4]`. */
export type ShowShapes<Ts extends readonly Shape[], Out extends string = ""> = Ts extends
  readonly [infer A extends Shape]
  ? Out extends "" ? `shape ${Show<A>}` : `shapes ${Out} and ${Show<A>}`
  : Ts extends readonly [infer A extends Shape, ...infer R extends readonly Shape[]]
    ? ShowShapes<R, Out extends "" ? Show<A> : `${Out}, ${Show<A>}`>
  : Out;

/** The error of shapes that do not fit the equation. */
export type EinsumMismatch<E extends string, Ts extends readonly Shape[], Why extends string> =
  `Cannot einsum "${E}" of ${ShowShapes<Ts>}: ${Why}`;

/** The sizes of indices by letter. */
export type IndexSizes = Record<string, number>;

/** The sizes of the indices of one term added to `M`, or the error. */
export type BindTerm<L extends readonly string[], S extends Shape, M extends IndexSizes> = L extends
  readonly [infer A extends string, ...infer R extends readonly string[]]
  ? S extends readonly [infer N extends number, ...infer T extends Shape]
    ? A extends keyof M ? number extends N ? BindTerm<R, T, M>
      : number extends M[A] ? BindTerm<R, T, Omit<M, A> & Record<A, N>>
      : M[A] extends N ? BindTerm<R, T, M>
      : N extends 1 ? BindTerm<R, T, M>
      : M[A] extends 1 ? BindTerm<R, T, Omit<M, A> & Record<A, N>>
      : `index ${A} has sizes ${M[A]} and ${N}`
    : BindTerm<R, T, M & Record<A, N>>
  : M
  : M;

/** The sizes of all indices, or the error. */
export type BindTerms<
  Terms extends readonly string[],
  Ts extends readonly Shape[],
  // deno-lint-ignore ban-types
  M extends IndexSizes = {},
  Seen extends unknown[] = [],
> = Terms extends readonly [infer E extends string, ...infer R extends readonly string[]]
  ? Ts extends readonly [infer S extends Shape, ...infer T extends readonly Shape[]]
    ? number extends S["length"] ? BindTerms<R, T, M & UnknownSizes<E>, [...Seen, 0]>
    : TermLetters<E>["length"] extends S["length"]
      ? BindTerm<TermLetters<E>, S, M> extends infer N
        ? N extends IndexSizes ? BindTerms<R, T, N, [...Seen, 0]> : N
      : never
    : `operand ${Seen["length"]} has rank ${S["length"]}, and ${TermLetters<E>["length"]} indices`
  : M
  : M;

/** The indices of a term of unknown rank, whose sizes are unknown. */
export type UnknownSizes<E extends string> = Record<TermLetters<E>[number], number>;

/** The sizes of `L` among `M`. */
export type LookupSizes<L extends readonly string[], M, Out extends number[] = []> = L extends
  readonly [infer A extends string, ...infer R extends readonly string[]]
  ? LookupSizes<R, M, [...Out, A extends keyof M ? M[A] extends number ? M[A] : number : number]>
  : Out;

/** The letters that occur once in `All`, in order. */
export type LettersOnce<
  All extends string,
  L extends string = IndexLetters,
  Out extends string = "",
> = L extends `${infer A}${infer R}` ? LettersOnce<
    All,
    R,
    All extends `${string}${A}${infer Rest}`
      ? Rest extends `${string}${A}${string}` ? Out : `${Out}${A}`
      : Out
  >
  : Out;

/** The first letter that occurs twice; `never` if none does. */
export type RepeatedLetter<E extends string> = E extends `${infer A}${infer R}`
  ? R extends `${string}${A}${string}` ? A : RepeatedLetter<R>
  : never;

/** The first letter of `E` that `All` does not have. */
export type MissingLetter<E extends string, All extends string> = E extends `${infer A}${infer R}`
  ? All extends `${string}${A}${string}` ? MissingLetter<R, All> : A
  : never;

/** The error of a text that is no equation. */
export type WrongEquation<E extends string, Why extends string> = `Cannot einsum "${E}": ${Why}`;

/** The result of checked terms, whose indices are `Out`. */
export type EinsumResult<
  E extends string,
  Terms extends readonly string[],
  Out extends string,
  Ts extends readonly Shape[],
> = Terms["length"] extends Ts["length"]
  ? BindTerms<Terms, Ts> extends infer M
    ? M extends string ? EinsumMismatch<E, Ts, M> : LookupSizes<TermLetters<Out>, M>
  : never
  : WrongEquation<E, `it has ${Terms["length"]} terms for ${Ts["length"]} tensors`>;

/** The result for the operands `Left`, and the indices `Out` of the result. */
export type ExplicitEinsum<
  E extends string,
  Left extends string,
  Out extends string,
  Ts extends readonly Shape[],
> = [RepeatedLetter<Out>] extends [infer A extends string]
  ? [A] extends [never]
    ? [MissingLetter<Out, Left>] extends [infer B extends string]
      ? [B] extends [never] ? EinsumResult<E, EquationTerms<Left>, Out, Ts>
      : WrongEquation<E, `no operand has index ${B} of the result`>
    : never
  : WrongEquation<E, `the result has index ${A} twice`>
  : never;

/** The terms without commas. */
export type JoinedTerms<E extends string> = E extends `${infer A},${infer B}`
  ? JoinedTerms<`${A}${B}`>
  : E;

/** The shape that an equation gives of shapes `Ts`, or the error. */
export type EinsumShape<E extends string, Ts extends readonly Shape[]> = WithoutSpaces<E> extends
  `${infer Left}->${infer Out}`
  ? [BadLetter<`${JoinedTerms<Left>}${Out}`>] extends [infer C extends string]
    ? [C] extends [never] ? ExplicitEinsum<E, Left, Out, Ts>
    : WrongEquation<E, `"${C}" is not an index; indices are letters, or "..." once`>
  : never
  : [BadLetter<JoinedTerms<WithoutSpaces<E>>>] extends [infer C extends string]
    ? [C] extends [never] ? EinsumResult<
        E,
        EquationTerms<WithoutSpaces<E>>,
        LettersOnce<JoinedTerms<WithoutSpaces<E>>>,
        Ts
      >
    : WrongEquation<E, `"${C}" is not an index; indices are letters, or "..." once`>
  : never;
