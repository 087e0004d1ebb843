/**
 * The goals of the figures. Committed before the code was tuned.
 *
 * Knows nothing of measurements.
 *
 * @module
 */

/** The goal of a row. */
export interface Goal {
  /** The most nanoseconds for each element. */
  readonly ns?: number;
  /** The largest ratio to a reference's time. */
  readonly ratio?: number;
}

/**
 * The goals of the JavaScript backend, with one thread; ratios are to NumPy's time. The first
 * pattern that `group/name` matches counts.
 */
const JS_GOALS: readonly (readonly [rows: RegExp, goal: Goal])[] = [
  [/^views\//, { ratio: 1 }],
  [/^small sizes\/add 16 (float32|int32)$/, { ratio: 0.6 }],
  [/^(elementwise|layouts)\/(float32|int32) add (1e6|a scalar|a row|a column)$/, { ns: 1.5 }],
  [/^(elementwise|reductions|layouts)\/(b?float16|u?int64) /, { ns: 6 }],
  [/^elementwise\/float32 to (b?float16|u?int64)$/, { ns: 6 }],
];

/** The goals of the native backend, as ratios to the better of NumPy's and PyTorch's times. */
export const NATIVE_GOALS = {
  /** The geometric mean over the rows of all {@link COUNTED} groups. */
  overall: 0.8,
  /** The geometric mean of each of these groups. */
  group: 1,
  /** Each row without a goal of its own. */
  row: 1.3,
} as const;

/** The groups of the overall mean. Views and sorting are separate. */
export const COUNTED: readonly string[] = [
  "matmul",
  "elementwise",
  "reductions",
  "layouts",
  "small sizes",
];

/** The goal of the row `group/name`, if it has one. */
export function goalOf(key: string, backend: "js" | "native"): Goal | undefined {
  if (backend === "js") return JS_GOALS.find(([rows]) => rows.test(key))?.[1];
  if (key.startsWith("views/")) return { ratio: 1.5 };
  if (/^sort and gather\/(arg)?sort /.test(key)) return { ratio: 2.5 };
  if (/^small sizes\/add 16 \w+\d\d(, disposed)?$/.test(key)) return { ratio: 0.5 };
  return { ratio: NATIVE_GOALS.row };
}
