/**
 * Whole numbers of any length at compile time: sums, differences, products, quotients.
 *
 * TypeScript has no arithmetic on literal types, so numbers are tuples of decimal digits, and one
 * digit is a tuple of that length. Knows nothing of shapes beyond being lists of numbers.
 *
 * @module
 */

/** The decimal digits as tuples of their lengths. */
export type Unary = [
  [],
  [0],
  [0, 0],
  [0, 0, 0],
  [0, 0, 0, 0],
  [0, 0, 0, 0, 0],
  [0, 0, 0, 0, 0, 0],
  [0, 0, 0, 0, 0, 0, 0],
  [0, 0, 0, 0, 0, 0, 0, 0],
  [0, 0, 0, 0, 0, 0, 0, 0, 0],
];

/** A decimal digit. */
export type Digit = "0" | "1" | "2" | "3" | "4" | "5" | "6" | "7" | "8" | "9";

/** A whole number, its highest digit first; leading zeros are harmless. */
export type Digits = readonly Digit[];

/** The digits of a number or of its text. */
export type ToDigits<N extends number | string, Out extends Digits = []> = `${N}` extends
  `${infer H extends Digit}${infer R}` ? ToDigits<R, [...Out, H]> : Out;

/** The text of digits, without leading zeros. */
export type ToText<D extends Digits, Out extends string = ""> = D extends
  readonly [infer H extends Digit, ...infer R extends Digits]
  ? ToText<R, `${Out}${H}` extends "0" ? "" : `${Out}${H}`>
  : Out extends "" ? "0"
  : Out;

/** Digits as a number literal; `number` beyond 2^53, where literals are no longer exact. */
export type ToNumber<D extends Digits> = ToText<D> extends `${infer N extends number}` ? N : number;

/** The last digit, 0 if there is none. */
export type Last<D extends Digits> = D extends readonly [...Digits, infer L extends Digit] ? L
  : "0";

/** All digits but the last. */
export type Rest<D extends Digits> = D extends readonly [...infer R extends Digits, Digit] ? R : [];

/** Adds `A`, `B` and a carry digit, from the right. */
export type AddDigits<
  A extends Digits,
  B extends Digits,
  Carry extends 0[] = [],
  Out extends Digits = [],
> = [A, B] extends [readonly [], readonly []] ? Carry extends [] ? Out : ["1", ...Out]
  : `${[...Unary[Last<A>], ...Unary[Last<B>], ...Carry]["length"] & number}` extends
    `${infer T extends Digit}${infer O}`
    ? O extends Digit ? AddDigits<Rest<A>, Rest<B>, [0], [O, ...Out]>
    : AddDigits<Rest<A>, Rest<B>, [], [T, ...Out]>
  : never;

/** Subtracts `B` from `A`, from the right; `never` if the result would be negative. */
export type SubDigits<
  A extends Digits,
  B extends Digits,
  Borrow extends 0[] = [],
  Out extends Digits = [],
> = [A, B] extends [readonly [], readonly []] ? Borrow extends [] ? Out : never
  : [...Unary[Last<A>], ...Unary[9], 0] extends
    readonly [...Unary[Last<B>], ...Borrow, ...infer R extends 0[]]
    ? `${R["length"]}` extends `1${infer D extends Digit}`
      ? SubDigits<Rest<A>, Rest<B>, [], [D, ...Out]>
    : `${R["length"]}` extends infer D extends Digit ? SubDigits<Rest<A>, Rest<B>, [0], [D, ...Out]>
    : never
  : never;

/** `T`, repeated each digit's number of times. */
export type Times<T extends 0[]> = [
  [],
  [...T],
  [...T, ...T],
  [...T, ...T, ...T],
  [...T, ...T, ...T, ...T],
  [...T, ...T, ...T, ...T, ...T],
  [...T, ...T, ...T, ...T, ...T, ...T],
  [...T, ...T, ...T, ...T, ...T, ...T, ...T],
  [...T, ...T, ...T, ...T, ...T, ...T, ...T, ...T],
  [...T, ...T, ...T, ...T, ...T, ...T, ...T, ...T, ...T],
];

/** Multiplies `A` by one digit and adds a carry, from the right. */
export type MulDigit<
  A extends Digits,
  D extends Digit,
  Carry extends Digit = "0",
  Out extends Digits = [],
> = A extends readonly [...infer R extends Digits, infer L extends Digit]
  ? `${[...Times<Unary[L]>[D], ...Unary[Carry]]["length"] & number}` extends
    `${infer T extends Digit}${infer O}`
    ? O extends Digit ? MulDigit<R, D, T, [O, ...Out]> : MulDigit<R, D, "0", [T, ...Out]>
  : never
  : [Carry, ...Out];

/** Multiplies `A` by `B`, digit by digit from the left. */
export type MulDigits<A extends Digits, B extends Digits, Out extends Digits = []> = B extends
  readonly [infer H extends Digit, ...infer R extends Digits]
  ? MulDigit<A, H> extends infer M extends Digits ? MulDigits<A, R, AddDigits<[...Out, "0"], M>>
  : never
  : Out;

/** The product of all sizes, as text. */
export type Product<S extends readonly number[], Out extends string = "1"> = S extends
  readonly [infer H extends number, ...infer R extends readonly number[]]
  ? Product<R, Out extends "1" ? `${H}` : ToText<MulDigits<ToDigits<Out>, ToDigits<H>>>>
  : Out;

/**
 * The number of times that `B` fits into `A` (below 10), and the remainder: one step of a long
 * division.
 */
export type Fits<A extends Digits, B extends Digits, N extends 0[] = []> = SubDigits<A, B> extends
  infer R ? [R] extends [never] ? [`${N["length"]}`, A]
  : R extends Digits ? Fits<R, B, [...N, 0]>
  : never
  : never;

/** `[quotient, remainder]` of a long division by `B`, which is not 0. */
export type DivDigits<
  A extends Digits,
  B extends Digits,
  Rem extends Digits = [],
  Out extends Digits = [],
> = A extends readonly [infer H extends Digit, ...infer R extends Digits]
  ? Fits<[...Rem, H], B> extends [infer Q extends Digit, infer Left extends Digits]
    ? DivDigits<R, B, Left, [...Out, Q]>
  : never
  : [Out, Rem];

/** The exact quotient of two numbers (or their texts); `never` if there is a remainder. */
export type Quotient<A extends number | string, B extends number | string> = `${B}` extends "1"
  ? ToNumber<ToDigits<A>>
  : DivDigits<ToDigits<A>, ToDigits<B>> extends [infer Q extends Digits, infer R extends Digits]
    ? ToText<R> extends "0" ? ToNumber<Q> : never
  : never;

/** The sum of two sizes; unknown if one of them is. */
export type Sum<A extends number, B extends number> = number extends A | B ? number
  : ToNumber<AddDigits<ToDigits<A>, ToDigits<B>>>;

/** `A` less `B`; 0 if that would be negative, unknown if one of them is. */
export type Difference<A extends number, B extends number> = number extends A | B ? number
  : SubDigits<ToDigits<A>, ToDigits<B>> extends infer D
    ? [D] extends [never] ? 0 : D extends Digits ? ToNumber<D> : never
  : never;

/** The smaller one of two sizes; unknown if one of them is. */
export type Smaller<A extends number, B extends number> = number extends A | B ? number
  : A extends B ? A
  : [SubDigits<ToDigits<A>, ToDigits<B>>] extends [never] ? A
  : B;

/** The larger one of two sizes; unknown if one of them is. */
export type Larger<A extends number, B extends number> = number extends A | B ? number
  : A extends B ? A
  : [SubDigits<ToDigits<A>, ToDigits<B>>] extends [never] ? B
  : A;

/** The product of two sizes; unknown if one of them is. */
export type Multiply<A extends number, B extends number> = number extends A | B ? number
  : Product<[A, B]> extends `${infer N extends number}` ? N
  : number;

/** Half of a size, rounded down, and 1. */
export type HalfAndOne<N extends number> = number extends N ? number
  : DivDigits<ToDigits<N>, ["2"]> extends [infer Q extends Digits, Digits]
    ? ToNumber<AddDigits<Q, ["1"]>>
  : number;
