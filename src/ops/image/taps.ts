/**
 * Where the elements of a resized axis come from: the indices and weights of interpolation, as
 * PyTorch and ONNX compute them.
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
export function cubicAt(x: number, a: number): number {
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

// ---- ONNX ----------------------------------------------------------------------------------------

/** ONNX's ways from the place of a result to one of the input. */
export const COORDINATES = [
  "half_pixel",
  "half_pixel_symmetric",
  "pytorch_half_pixel",
  "align_corners",
  "asymmetric",
  "tf_crop_and_resize",
] as const;
export type Coordinates = (typeof COORDINATES)[number];

/** ONNX's ways to round a place to an element. */
export const NEAREST_MODES = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"] as const;
export type NearestMode = (typeof NEAREST_MODES)[number];

/** An axis of {@link resizeTaps}. */
export interface ResizedAxis {
  /** The sizes of the axis before and after. */
  readonly from: number;
  readonly to: number;
  /** What the size is multiplied by; `to` / `from` by default. */
  readonly scale?: number | undefined;
  /** The part of the axis that `tf_crop_and_resize` takes, from 0 to 1; all by default. */
  readonly roi?: readonly [start: number, end: number] | undefined;
}

/** How {@link resizeTaps} interpolates. */
export interface ResizeModes {
  readonly mode: "nearest" | "linear" | "cubic";
  /** `"half_pixel"` by default. */
  readonly coordinates?: Coordinates;
  /** `"round_prefer_floor"` by default. */
  readonly nearest?: NearestMode;
  /** The parameter of the cubic convolution; -0.75 by default. */
  readonly cubicCoeff?: number;
  /** Whether elements beyond the ends do not count; else the last ones are repeated. */
  readonly excludeOutside?: boolean;
  /** Whether smaller results are weighted means of all that they cover. */
  readonly antialias?: boolean;
}

/** The place of result `i` in the input. */
function placeOf(
  { from, to, scale = to / from, roi = [0, 1] }: ResizedAxis,
  how: Coordinates,
  i: number,
): number {
  // Not rounded, as ONNX's definition has it.
  const width = scale * from;
  switch (how) {
    case "align_corners":
      return width === 1 ? 0 : i * (from - 1) / (width - 1);
    case "asymmetric":
      return i / scale;
    case "tf_crop_and_resize": {
      const [start, end] = roi;
      const step = width === 1
        ? (end - start) * (from - 1) / 2
        : i * (end - start) * (from - 1) / (width - 1);
      return step + start * (from - 1);
    }
    case "pytorch_half_pixel":
      return width === 1 ? -0.5 : (i + 0.5) / scale - 0.5;
    case "half_pixel_symmetric":
      return from / 2 * (1 - to / width) + (i + 0.5) / scale - 0.5;
    default:
      return (i + 0.5) / scale - 0.5;
  }
}

const ROUNDINGS: Readonly<Record<NearestMode, (place: number) => number>> = {
  round_prefer_floor: (place) => Math.ceil(place - 0.5),
  round_prefer_ceil: (place) => Math.floor(place + 0.5),
  floor: Math.floor,
  ceil: Math.ceil,
};

/** The weights of neighbors at distances of `1` / `squeeze` elements, `t` beyond the first of the middle ones. */
function weightsAt(
  t: number,
  count: number,
  squeeze: number,
  cubic: number | undefined,
): number[] {
  const own = Array.from({ length: count }, (_, k) => {
    const distance = Math.abs((k + 1 - count / 2 - t) * squeeze);
    return cubic === undefined ? Math.max(0, 1 - distance) : cubicAt(distance, cubic);
  });
  if (squeeze === 1) return own;
  const sum = own.reduce((a, b) => a + b, 0);
  return own.map((weight) => weight / sum);
}

/**
 * The taps of ONNX's Resize along an axis, and which results lie outside of the input, where
 * `tf_crop_and_resize` gives another value; null if none does.
 */
export function resizeTaps(
  axis: ResizedAxis,
  modes: ResizeModes,
): { taps: Taps; outside: readonly boolean[] | null } {
  const { from, to, scale = to / from } = axis;
  const { mode, coordinates = "half_pixel", nearest = "round_prefer_floor" } = modes;
  const { cubicCoeff = -0.75, excludeOutside = false, antialias = false } = modes;
  const squeeze = antialias ? Math.min(scale, 1) : 1;
  const reach = mode === "cubic" ? 2 : 1;
  const count = mode === "nearest" ? 1 : 2 - 2 * (Math.floor(-reach / squeeze) + 1);
  const indices = Array.from({ length: count }, () => new Int32Array(to));
  const weights = Array.from({ length: count }, () => new Float64Array(to));
  const outside: boolean[] = new Array(to).fill(false);
  const clamp = (index: number): number => Math.min(Math.max(index, 0), from - 1);
  for (let i = 0; i < to; i++) {
    const place = placeOf(axis, coordinates, i);
    outside[i] = coordinates === "tf_crop_and_resize" && !(place >= 0 && place <= from - 1);
    if (mode === "nearest") {
      indices[0]![i] = clamp(ROUNDINGS[nearest](place));
      weights[0]![i] = 1;
      continue;
    }
    const first = Math.ceil(place) - 1;
    const own = weightsAt(place - first, count, squeeze, mode === "cubic" ? cubicCoeff : undefined);
    const places = own.map((_, k) => first + 1 - count / 2 + k);
    const counts = places.map((at, k) => !excludeOutside || at === clamp(at) ? own[k]! : 0);
    const sum = excludeOutside ? counts.reduce((a, b) => a + b, 0) : 1;
    for (let k = 0; k < count; k++) {
      indices[k]![i] = clamp(places[k]!);
      weights[k]![i] = counts[k]! / sum;
    }
  }
  return { taps: { indices, weights }, outside: outside.includes(true) ? outside : null };
}
