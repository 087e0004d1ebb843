/**
 * Resizing images, signals and volumes: axis by axis, by the weights of PyTorch.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../base/errors.ts";
import { formatShape, lengthOf, listIn } from "../base/shape.ts";
import { applyView } from "../core/apply.ts";
import { cast, contiguousCopy } from "../core/copy.ts";
import { dispatch } from "../core/dispatch.ts";
import { ownOperand } from "../core/foreign.ts";
import { tidy } from "../core/handles.ts";
import type { Operand } from "../memory/operand.ts";
import { checkKind, checkOptions } from "../table/infer.ts";
import { VIEWS } from "../table/views.ts";
import { zeros } from "../tensor/create.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import {
  badArgument,
  checkChoice,
  checkFlag,
  checkNumber,
  type Like,
  widened,
} from "./arguments.ts";
import { AVG_POOL } from "../ops/conv/pool.ts";
import { coveringTaps, nearestIndices, neighborTaps, type Resize } from "../ops/image/taps.ts";
import { GRID_PADDINGS, gridSample as sample } from "../ops/image/grid_sample.ts";
import { pick, resample } from "../ops/image/resample.ts";
import { perAxis } from "./windows.ts";

/** How {@link interpolate} finds elements; see there. */
export type InterpolationMode =
  | "nearest"
  | "nearest-exact"
  | "linear"
  | "bilinear"
  | "bicubic"
  | "trilinear"
  | "area";

/** Options of {@link interpolate}. */
export interface InterpolateOptions {
  /** The sizes after it: one for all axes, or one for each. */
  readonly size?: number | readonly number[];
  /** What sizes are multiplied by, in place of `size`; results are rounded down. */
  readonly scaleFactor?: number | readonly number[];
  /** `"nearest"` by default. */
  readonly mode?: InterpolationMode;
  /** Whether the first and last elements keep their places; for linear and cubic modes. */
  readonly alignCorners?: boolean;
  /** Whether smaller results are means of all that they cover; for bilinear and bicubic. */
  readonly antialias?: boolean;
}

const RANKS: Readonly<Record<InterpolationMode, readonly number[]>> = {
  "nearest": [3, 4, 5],
  "nearest-exact": [3, 4, 5],
  "linear": [3],
  "bilinear": [4],
  "bicubic": [4],
  "trilinear": [5],
  "area": [3, 4, 5],
};

const MODES = Object.keys(RANKS) as InterpolationMode[];
const SHAPES = ["", "", "", "[N, C, L]", "[N, C, H, W]", "[N, C, D, H, W]"];

/** The axes after the channels, with their sizes before and after. */
function resizesOf(name: string, x: Operand, options: InterpolateOptions): Resize[] {
  const { size, scaleFactor, alignCorners = false } = options;
  const sizes = x.layout.shape.slice(2);
  if ((size === undefined) === (scaleFactor === undefined)) {
    throw new ArgumentError(`Cannot ${name}: give either size or scaleFactor`);
  }
  if (size !== undefined) {
    const all = perAxis(size, sizes.length, 1, "size", name);
    return sizes.map((from, i) => ({ from, to: all[i]!, factor: undefined, alignCorners }));
  }
  const length = lengthOf(scaleFactor);
  if (length !== undefined && length !== sizes.length) {
    const wanted = `one number, or one for each of ${sizes.length} axes`;
    throw badArgument(name, "scaleFactor", scaleFactor, wanted);
  }
  const factorOf = (one: unknown): number => checkNumber(name, "scaleFactor", one, 0);
  const factors = listIn(scaleFactor, factorOf, length);
  return sizes.map((from, i) => {
    const factor = factors === undefined ? factorOf(scaleFactor) : factors[i]!;
    const to = Math.floor(from * factor);
    if (to >= 1 && Number.isSafeInteger(to)) return { from, to, factor, alignCorners };
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(x.layout.shape)} by ${factor}: axis ${
        i + 2
      } would have ` +
        `size ${to}`,
    );
  });
}

/** Each element repeated along all axes after the channels. */
function repeated(x: Operand, resizes: readonly Resize[]): Operand {
  const { shape } = x.layout;
  const split = [...shape.slice(0, 2), ...shape.slice(2).flatMap((n) => [n, 1])];
  const wide = [...shape.slice(0, 2), ...resizes.flatMap(({ from, to }) => [from, to / from])];
  const apart = applyView(VIEWS.reshape, x, "reshape", split);
  const copy = contiguousCopy(applyView(VIEWS.broadcastTo, apart, "broadcastTo", wide));
  const to = [...shape.slice(0, 2), ...resizes.map((one) => one.to)];
  return applyView(VIEWS.reshape, copy, "reshape", to);
}

function nearest(x: Operand, resizes: readonly Resize[], exact: boolean): Operand {
  const whole = resizes.every(({ from, to, factor }) =>
    to % from === 0 && (factor === undefined || factor === to / from)
  );
  if (whole) return repeated(x, resizes);
  const single = x.storage.info.name !== "float64";
  return inOrder(resizes).reduce((from, i) => {
    const indices = nearestIndices(resizes[i]!, exact, single);
    const weights = new Float64Array(indices.length).fill(1);
    return pick("interpolate", from, i + 2, { indices: [indices], weights: [weights] });
  }, x);
}

/** The axes that shrink, then those that grow, the last one first, so that copies are small. */
function inOrder(resizes: readonly Resize[]): number[] {
  const all = resizes.map((_, i) => i).reverse();
  const shrinks = (i: number): boolean => resizes[i]!.to < resizes[i]!.from;
  return [...all.filter(shrinks).reverse(), ...all.filter((i) => !shrinks(i))];
}

function smooth(x: Operand, resizes: readonly Resize[], cubic: boolean, covers: boolean): Operand {
  const made = inOrder(resizes).reduce((from, i) => {
    const resize = resizes[i]!;
    const same = resize.from === resize.to && (resize.factor ?? 1) === 1;
    if (same) return from;
    const taps = (covers ? coveringTaps : neighborTaps)(resize, cubic);
    return resample("interpolate", from, i + 2, taps);
  }, widened(x));
  return made === x ? contiguousCopy(x) : cast(made, x.storage.info.name);
}

/** Options of {@link gridSample}. */
export interface GridSampleOptions {
  /** `"bilinear"` by default, which is linear along all axes. */
  readonly mode?: "bilinear" | "nearest" | "bicubic";
  /** What lies beyond the elements: `"zeros"` by default, the last element, or mirrored ones. */
  readonly paddingMode?: "zeros" | "border" | "reflection";
  /** Whether -1 and 1 are the centers of the first and last elements, not their outer edges. */
  readonly alignCorners?: boolean;
}

const SAMPLE_MODES = { bilinear: "linear", nearest: "nearest", bicubic: "cubic" } as const;

/**
 * Samples of `x`: [N, C, H, W] or [N, C, D, H, W] at the places `grid`: [N, Ho, Wo, 2] or
 * [N, Do, Ho, Wo, 3] give [N, C, Ho, Wo] or [N, C, Do, Ho, Wo]. A place has numbers from -1 to 1 along the
 * last axis of `x`, then the one before. 16-bit floats are computed in float32.
 *
 * @throws {ShapeError} For shapes that do not fit.
 * @throws {DTypeError} For tensors that are not of floats.
 *
 * @example
 * ```ts
 * const x = tensor([[[[1, 2], [3, 4]]]]);
 * nn.gridSample(x, tensor([[[[0, 0], [0.5, 0.5]]]])).toArray(); // => [[[[2.5, 4]]]]
 * ```
 */
export function gridSample<X extends AnyTensor>(
  x: X,
  grid: AnyTensor,
  options?: GridSampleOptions,
): Like<X>;
export function gridSample(
  x: AnyTensor,
  grid: AnyTensor,
  options: GridSampleOptions = {},
): Operand {
  const name = "gridSample";
  checkOptions(name, options, ["mode", "paddingMode", "alignCorners"]);
  const { mode = "bilinear", paddingMode = "zeros", alignCorners = false } = options;
  const known = Object.keys(SAMPLE_MODES) as (keyof typeof SAMPLE_MODES)[];
  return sample(name, ownOperand(x, name), ownOperand(grid, name), {
    mode: SAMPLE_MODES[checkChoice(name, "mode", mode, known)],
    padding: checkChoice(name, "paddingMode", paddingMode, GRID_PADDINGS),
    alignCorners: checkFlag(name, "alignCorners", alignCorners),
    cubicCoeff: -0.75,
  });
}

/**
 * `x`: [N, C, L], [N, C, H, W] or [N, C, D, H, W] in another `size`, or by `scaleFactor`. Modes:
 *
 * - `"nearest"`: the element at the start of a result, of any dtype; `"nearest-exact"`: the element
 *   at its center.
 * - `"linear"`, `"bilinear"`, `"trilinear"`: between 2 neighbors along 1, 2 or 3 axes.
 * - `"bicubic"`: a cubic convolution of 4 neighbors along 2 axes.
 * - `"area"`: the mean of the elements that a result covers.
 *
 * 16-bit floats are computed in float32. In a program, indices and weights are constants.
 *
 * @throws {ShapeError} For a rank that the mode does not take and for empty axes.
 * @throws {ArgumentError} For sizes and options that do not fit.
 * @throws {DTypeError} For a tensor that is not of floats in all modes but the nearest.
 *
 * @example
 * ```ts
 * const x = tensor([[[0, 4, 8]]]);
 * nn.interpolate(x, { scaleFactor: 2 }).toArray(); // => [[[0, 0, 4, 4, 8, 8]]]
 * nn.interpolate(x, { size: 5, mode: "linear", alignCorners: true }).toArray();
 * // => [[[0, 2, 4, 6, 8]]]
 * ```
 */
export function interpolate<X extends AnyTensor>(x: X, options: InterpolateOptions): Like<X>;
export function interpolate(x: AnyTensor, options: InterpolateOptions): Operand {
  const name = "interpolate";
  checkOptions(name, options, ["size", "scaleFactor", "mode", "alignCorners", "antialias"]);
  const mode = checkChoice(name, "mode", options.mode ?? "nearest", MODES);
  const corners = checkFlag(name, "alignCorners", options.alignCorners ?? false);
  const covers = checkFlag(name, "antialias", options.antialias ?? false);
  const isNearest = mode === "nearest" || mode === "nearest-exact";
  if (corners && (isNearest || mode === "area")) {
    throw new ArgumentError(`Cannot ${name} with alignCorners in mode "${mode}"`);
  }
  if (covers && mode !== "bilinear" && mode !== "bicubic") {
    throw new ArgumentError(
      `Cannot ${name} with antialias in mode "${mode}": it is for "bilinear" and "bicubic"`,
    );
  }
  return tidy(() => {
    const own = ownOperand(x, name);
    if (!isNearest) checkKind(own.storage.info, "f", name);
    const { shape, size } = own.layout;
    if (!RANKS[mode].includes(shape.length)) {
      const taken = RANKS[mode].map((rank) => SHAPES[rank]).join(", ");
      throw new ShapeError(`Cannot ${name} shape ${formatShape(shape)}: "${mode}" takes ${taken}`);
    }
    const empty = shape.findIndex((n, i) => i > 1 && n === 0);
    if (empty >= 0) {
      throw new ShapeError(
        `Cannot ${name} axis ${empty} of shape ${formatShape(shape)}: it is empty`,
      );
    }
    const resizes = resizesOf(name, own, options);
    if (size === 0) {
      const { info, device } = own.storage;
      const to = [...shape.slice(0, 2), ...resizes.map((one) => one.to)];
      return zeros(to, { dtype: info.name, device: device as "cpu" });
    }
    if (isNearest) return nearest(own, resizes, mode === "nearest-exact");
    if (mode === "area") {
      const windows = resizes.map(({ to }) => to);
      return dispatch(AVG_POOL, [own], { windows }, undefined, name);
    }
    return smooth(own, resizes, mode === "bicubic", covers);
  });
}
