/**
 * Where the elements of a resized axis come from: the indices and weights of interpolation, as
 * PyTorch computes them.
 *
 * @module
 */

/** How an axis is resized. */
export interface Resize {
  /** The sizes of the axis before and after. */
  readonly from: number;
  readonly to: number;
  /** The factor that the caller gave, if any. */
  readonly factor: number | undefined;
  /** Whether the first and last elements keep their places. */
  readonly alignCorners: boolean;
}

/** The elements that each result is a weighted sum of: for each of them, all indices and weights. */
export interface Taps {
  readonly indices: readonly Int32Array[];
  readonly weights: readonly Float64Array[];
}

/** The distance of neighboring results in the input. */
export function scaleOf({ from, to, factor, alignCorners }: Resize): number {
  if (alignCorners) return to > 1 ? (from - 1) / (to - 1) : 0;
  return factor === undefined ? from / to : 1 / factor;
}

/** The index of the nearest element for each result; `exact` takes the middles of elements. */
export function nearestIndices(resize: Resize, exact: boolean, single: boolean): Int32Array {
  const { from, to } = resize;
  // PyTorch computes float64 in float64, and all other dtypes in float32.
  const round = single ? Math.fround : (x: number): number => x;
  const scale = round(scaleOf(resize));
  return Int32Array.from({ length: to }, (_, i) => {
    const at = exact ? round(round(i + 0.5) * scale) : round(i * scale);
    return Math.min(Math.floor(at), from - 1);
  });
}

/** The weights of the elements before, at and after a place `t` beyond the second one. */
type Kernel = (t: number) => readonly number[];

const LINEAR: Kernel = (t) => [1 - t, t];

/** The cubic convolution of an element at distance `x`, with its parameter `a`. */
function cubicAt(x: number, a: number): number {
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

const CUBIC: Kernel = (t) => [1 + t, t, 1 - t, 2 - t].map((x) => cubicAt(x, -0.75));

/** The taps of interpolation between neighbors. */
export function neighborTaps(resize: Resize, cubic: boolean): Taps {
  const { from, to, alignCorners } = resize;
  const scale = scaleOf(resize);
  const count = cubic ? 4 : 2;
  const indices = Array.from({ length: count }, () => new Int32Array(to));
  const weights = Array.from({ length: count }, () => new Float64Array(to));
  for (let i = 0; i < to; i++) {
    const middle = alignCorners ? scale * i : scale * (i + 0.5) - 0.5;
    const at = cubic ? middle : Math.max(0, middle);
    const first = Math.min(Math.floor(at), from - 1);
    const own = (cubic ? CUBIC : LINEAR)(Math.min(Math.max(at - first, 0), 1));
    for (let k = 0; k < count; k++) {
      const index = first + k - (cubic ? 1 : 0);
      indices[k]![i] = Math.min(Math.max(index, 0), from - 1);
      weights[k]![i] = own[k]!;
    }
  }
  return { indices, weights };
}

/** The taps of interpolation over all elements that a result covers, without aliasing. */
export function coveringTaps(resize: Resize, cubic: boolean): Taps {
  const { from, to } = resize;
  const scale = scaleOf(resize);
  const reach = (cubic ? 2 : 1) * Math.max(scale, 1);
  const squeeze = 1 / Math.max(scale, 1);
  const weigh = (x: number): number => cubic ? cubicAt(x, -0.5) : Math.max(0, 1 - x);
  const first = new Int32Array(to);
  const sizes = new Int32Array(to);
  let count = 0;
  for (let i = 0; i < to; i++) {
    const center = scale * (i + 0.5);
    first[i] = Math.max(Math.trunc(center - reach + 0.5), 0);
    sizes[i] = Math.min(Math.trunc(center + reach + 0.5), from) - first[i]!;
    count = Math.max(count, sizes[i]!);
  }
  const indices = Array.from({ length: count }, () => new Int32Array(to));
  const weights = Array.from({ length: count }, () => new Float64Array(to));
  for (let i = 0; i < to; i++) {
    const shift = first[i]! - scale * (i + 0.5) + 0.5;
    let sum = 0;
    for (let k = 0; k < sizes[i]!; k++) {
      sum += weights[k]![i] = weigh(Math.abs((k + shift) * squeeze));
    }
    for (let k = 0; k < count; k++) {
      // Shorter windows repeat their last element, with weight 0.
      indices[k]![i] = first[i]! + Math.min(k, sizes[i]! - 1);
      weights[k]![i]! /= sum;
    }
  }
  return { indices, weights };
}
