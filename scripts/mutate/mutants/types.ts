/**
 * Mutants of the compile-time shapes.
 *
 * @module
 */
import { edits, type Mutant } from "./core.ts";

const TYPES = [
  ...edits("type", "src/types/broadcast.ts", ["types"], {
    "broadcast: differing sizes fit": [': "differ";', ": number;"],
    "broadcast: 1 with a size": [
      "  : A extends 1 ? B\n  : B extends 1 ? A\n",
      "  : A extends 1 ? A\n  : B extends 1 ? A\n",
    ],
    "broadcast: unknown sizes": ["? B extends 1 ? number : B", "? B"],
    "in place: results that grow": [
      "    : R extends Shape\n      ?",
      "    : R extends Shape ? R\n    : R extends Shape\n      ?",
    ],
    "write: read-only tensors": ['readonly access: "read" }', 'readonly access: "none" }'],
    "inner sizes": ["= Agree<K, L> extends true ? Yes\n", "= true extends true ? Yes\n"],
    "broadcastTo: sizes": [
      ": Agree<A, B> extends true ? Stretch<SR, TR, [...Seen, 0]>",
      ": true extends true ? Stretch<SR, TR, [...Seen, 0]>",
    ],
  }),
  ...edits("type", "src/types/dtype.ts", ["types"], {
    "dtype: operands that an op refuses": ["[R] extends [Refused<Op>] ?", "[R] extends [0] ?"],
    "dtype: results beside the target": ["[Extract<R, StoredIn<D>>]", "[Extract<R, DType>]"],
    "dtype: fractions beside integers": ["= Op extends FloatOp\n", '= Op extends "div_"\n'],
    "dtype: a mean that is to be an integer": ["[Extract<E, FloatDType>]", "[Extract<E, DType>]"],
  }),
  ...edits("type", "src/types/reshape.ts", ["types"], {
    "reshape: counts": ["Product<L> extends Product<R> ? [...To]", "true extends true ? [...To]"],
    "reshape: -1": ["To[K] extends -1 ? N : To[K]", "To[K]"],
    "reshape: -1 twice": ["-1 extends KnownSizes<Others> ?", "-2 extends KnownSizes<Others> ?"],
  }),
  ...edits("type", "src/types/axes.ts", ["types"], {
    "axes: any": [
      "[AxisIndex<S, A>] extends [never] ? NoAxis<Op, S, A>\n    : Yes;",
      "[AxisIndex<S, A>] extends [1, 2] ? NoAxis<Op, S, A>\n    : Yes;",
    ],
    "axes: negative": [
      '? S extends readonly [...infer H, ...Span<P>] ? H["length"] : never',
      "? never",
    ],
    "reduce: keepDims": ["Keep extends true ? SetAxes<S, number, 1> : []", "[]"],
    "reduce: axes that stay": [
      'Seen["length"] extends I ? Out : [...Out, H]',
      'Seen["length"] extends I ? [...Out, H] : Out',
    ],
    "permute: order": [
      "Is[K] extends keyof S ? S[Is[K]] : number;",
      "K extends keyof S ? S[K] & number : number;",
    ],
    "transpose: order": ["? Transpose<R, [H, ...Out]>", "? Transpose<R, [...Out, H]>"],
    "concat: sum of sizes": ["[...Out, Sum<M, N>]", "[...Out, M]"],
    "concat: other sizes": [": Agree<M, N> extends true ? Join", ": true extends true ? Join"],
    "squeeze: sizes": [
      "? Agree<S[I], 1> extends true ? NotOne<S, R>",
      "? true extends true ? NotOne<S, R>",
    ],
    "rank: another": [': Same<S["length"], N> extends true ? S', ": true extends true ? S"],
  }),
  ...edits("type", "src/types/slice.ts", ["types"], {
    "slice: length rounded down": [
      'ToNumber<Q> : ToNumber<AddDigits<Q, ["1"]>>',
      "ToNumber<Q> : ToNumber<Q>",
    ],
    "slice: negative bounds": [
      ": T extends `-${infer P}` ? OrZero<SubDigits<ToDigits<N>, ToDigits<P>>>",
      ": T extends `-${infer P}` ? ToDigits<P>",
    ],
    "slice: clipped bounds": [
      "  : AtMost<ToDigits<T>, ToDigits<N>> extends true ? ToDigits<T>\n  : ToDigits<N>;",
      "  : ToDigits<T>;",
    ],
    "slice: step 0": ['C extends "0" | "-0" ?', 'C extends "00" ?'],
    "slice: index out of bounds": [
      "H extends number ? InBounds<H, N> extends true ?",
      "H extends number ? true extends true ?",
    ],
    "slice: new axis": [
      "H extends null ? SliceWalk<S, R, All, [...Out, 1]>",
      "H extends null ? SliceWalk<S, R, All, Out>",
    ],
    "slice: ellipsis twice": ['"..." extends R[number] ?', '"...." extends R[number] ?'],
    "slice: texts that are no index": [
      '[A | B | C] extends ["" | `${bigint}`]',
      "[A | B | C] extends [string]",
    ],
  }),
];

/** Faults of the types. */
export const TYPE_MUTANTS: readonly Mutant[] = [...TYPES];
