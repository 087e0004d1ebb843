/**
 * The basis of the type functions in this folder: the distinction of results and errors, the
 * comparison of sizes, and the text of shapes in messages.
 *
 * A type function gives a shape (or a dtype), or a string with the error in the words of the error
 * at run time. Unknown sizes are `number`, an unknown rank is {@link Shape}; both pass every check
 * here and are checked at run time. Knows nothing of the class Tensor.
 *
 * @module
 */
import type { Complex, DType, Scalar } from "../base/dtype.ts";
import type { Shape } from "../base/shape.ts";

/**
 * The key of a tensor's shape as its type argument says it, which `shape` shows as read-only. It
 * exists in types only.
 */
export declare const SHAPE: unique symbol;

/**
 * The key that has TypeScript compare tensors of different access member by member, so that a
 * writable tensor fits a parameter that is only read. It exists in types only.
 */
export declare const ACCESS: unique symbol;

/** The properties of a tensor that type functions need. */
export interface Typed {
  /** The element type. */
  readonly dtype: DType;
  /** The sizes. */
  readonly shape: Shape;
  /** The sizes, not read-only. */
  readonly [SHAPE]: Shape;
}

/** The name of a device as programs write it. */
export type Device = "cpu" | "cuda" | `cuda:${number}`;

/** The canonical name of a device: the first one of a kind has no number. */
export type OnDevice<V extends Device> = V extends "cuda:0" ? "cuda" : V;

/** Whether a tensor may be written through this handle. */
export type Access = "read" | "write";

/**
 * The type of a parameter that `R` checks: `P`, or the error text, so that the compiler's message
 * about the argument shows it. NoInfer excludes the text from the inference of `P`.
 */
export type Guard<R, P> = [R] extends [string] ? NoInfer<R> : P;

/** {@link Guard} for rest parameters: `P`, or a tuple that the error text does not fit. */
export type GuardRest<R, P extends readonly unknown[]> = [R] extends [string]
  ? [error: NoInfer<R>, ...rest: unknown[]]
  : P;

/** The shape in `R`, or the dynamic shape where `R` is an error. */
// `any`, because `extends Shape` would stay undecided for generic sizes.
// deno-lint-ignore no-explicit-any
export type Ok<R> = R extends readonly any[] ? R : Shape;

/**
 * `Yes` if both types are identical, else `No`. The function types compare at once even if the
 * types are type parameters, so generic code can be checked. Never call it with `T["key"]` of two
 * type parameters: the compiler would compare their constraints too early.
 */
export type Same<A, B, Yes = true, No = false> = ((x: A) => A) extends ((x: B) => B) ? Yes : No;

/** The shape of a tensor; `[]` for a scalar. */
export type ShapeOf<T> = T extends { readonly [SHAPE]: infer S extends Shape } ? S : [];

/** The second operand of an elementwise op. */
export type Operand = Typed | Scalar | Complex;

/** A size in a message: `?` if it is unknown. */
export type ShowSize<N extends number> = number extends N ? "?" : `${N}`;

/** A shape in a message, as at run time: `[2, 3]`. */
export type Show<S extends Shape, Out extends string = ""> = number extends S["length"] ? "[...]"
  : S extends readonly [infer H extends number, ...infer R extends Shape]
    ? Show<R, Out extends "" ? ShowSize<H> : `${Out}, ${ShowSize<H>}`>
  : `[${Out}]`;

/** Every size unknown, the rank kept. */
export type Sizes<S extends Shape> = number extends S["length"] ? Shape
  : { -readonly [K in keyof S]: number };

/** `S` with the size `N` after its last; a dynamic rank stays dynamic. */
export type Append<S extends Shape, N extends number> = number extends S["length"] ? Shape
  : [...S, N];

/** The sizes `A`, then `B`. */
export type Joined<A extends Shape, B extends Shape> = number extends A["length"] | B["length"]
  ? Shape
  : [...A, ...B];

/** A shape of `N` unknown sizes, for a shape of known rank only. */
export type OfRank<N extends number, Out extends number[] = []> = number extends N ? Shape
  : Out["length"] extends N ? Out
  : Out["length"] extends 32 ? Shape
  : OfRank<N, [...Out, number]>;

/** A tuple of `N` times `X`; a list if the number is unknown or above 64. */
export type TupleOf<N extends number, X, Out extends X[] = []> = number extends N ? X[]
  : Out["length"] extends N ? Out
  : Out["length"] extends 64 ? X[]
  : TupleOf<N, X, [...Out, X]>;

/** The parts that `split` makes of `X`: as many as `N` says, or one more than indexes to cut at. */
export type Parts<N extends number | Shape, X> = N extends number ? TupleOf<N, X>
  : N extends Shape ? number extends N["length"] ? X[] : TupleOf<[...N, 0]["length"] & number, X>
  : never;

/** `N` (a decimal text) as a tuple of that length; `never` above 64. */
export type Span<N extends string, Out extends unknown[] = []> = `${Out["length"]}` extends N ? Out
  : Out["length"] extends 64 ? never
  : Span<N, [...Out, unknown]>;

/** The first invalid size, as `axis 1 has size -2`; `never` if all are valid. */
export type BadSize<S extends Shape, Seen extends unknown[] = []> = S extends
  readonly [infer H extends number, ...infer R extends Shape]
  ? `${H}` extends `-${string}` | `${string}.${string}` | `${string}e${string}`
    ? `axis ${Seen["length"]} has size ${H}`
  : BadSize<R, [...Seen, H]>
  : never;

/** `S` without its `readonly` as the shape of a new tensor, or the error. */
export type NewShape<Op extends string, S extends Shape> = number extends S["length"] ? Shape
  : [BadSize<S>] extends [never] ? [...S]
  : `Cannot ${Op} shape ${Show<S>}: ${BadSize<S>}, which is not an integer of at least 0`;
