/**
 * Derivatives of samples at places: of images, of regions and of lines between points. Each is that of a
 * composition of ops, by the samples and by the places.
 *
 * @module
 */
import { apply } from "../../core/apply.ts";
import type { Operand } from "../../memory/operand.ts";
import type { GridSampleAttributes } from "../../ops/image/grid_sample.ts";
import type { RoiAlignAttributes } from "../../ops/image/roi_align.ts";
import { take, takeAlongAxis } from "../../ops/index/op.ts";
import { iota } from "../../ops/index/selection.ts";
import { concat } from "../../ops/join/op.ts";
import { type InterpolateAttributes, runKernel } from "../../ops/sets/op.ts";
import { DTYPE } from "../../base/dtype.ts";
import type { Call, Input } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import {
  add,
  castTo,
  countOf,
  div,
  equal,
  matmul,
  mT,
  mul,
  permute,
  reshape,
  select,
  sub,
  sum,
  where,
} from "../tape/arithmetic.ts";
import { addRules } from "../tape/rule.ts";
import { byComposition } from "../tape/tape.ts";
import { scatteredAlong } from "./indexes.ts";

const floor = (x: Input): Operand => apply(MAP.floor, x);
const less = (a: Input, b: Input): Operand => apply(MAP.less, a, b);
const greater = (a: Input, b: Input): Operand => apply(MAP.greater, a, b);
const both = (a: Operand, b: Operand): Operand => apply(MAP.logicalAnd, a, b);

/** Whether a place is from `least` to `most`; not NaN. */
const within = (x: Operand, least: number, most: number): Operand =>
  both(apply(MAP.greaterEqual, x, least), apply(MAP.lessEqual, x, most));

/** Places from 0 to `size` − 1 as indices. */
const indexOf = (x: Operand, size: number): Operand =>
  castTo(where(greater(x, 0), apply(MAP.minimum, x, size - 1), 0), DTYPE.int32);

/** A place, mirrored at both ends until it is inside. */
function reflected(x: Operand, least: number, most: number): Operand {
  const range = most - least;
  if (!(range > 0)) return add(mul(x, 0), least);
  const isBelow = less(x, least);
  const away = where(isBelow, sub(least, x), where(greater(x, most), sub(x, most), 0));
  const turns = floor(div(away, range));
  const rest = sub(away, mul(turns, range));
  const isEven = equal(turns, mul(floor(div(turns, 2)), 2));
  const inside = where(equal(isBelow, isEven), add(rest, least), sub(most, rest));
  return where(equal(away, 0), x, inside);
}

// ---- samples of images -------------------------------------------------------------------------

/** Elements of each place: their indices and weights, and whether there are such. */
interface Taps {
  readonly index: Operand;
  readonly weight: Operand | undefined;
  readonly counts: Operand | undefined;
}

/** The weights of the elements around a place, `t` after the second of four, or the first of two. */
function weightsAt(t: Operand, a: number | undefined): Operand[] {
  if (a === undefined) return [sub(1, t), t];
  const near = (x: Operand): Operand => add(mul(mul(sub(mul(x, a + 2), a + 3), x), x), 1);
  const far = (x: Operand): Operand =>
    sub(mul(add(mul(sub(mul(x, a), 5 * a), x), 8 * a), x), 4 * a);
  return [far(add(t, 1)), near(t), near(sub(1, t)), far(sub(2, t))];
}

/** The elements along an axis of `size` for places from −1 to 1. */
function tapsOf(place: Operand, size: number, attributes: GridSampleAttributes): Taps[] {
  const { mode, padding, alignCorners, cubicCoeff } = attributes;
  const edge = alignCorners ? 0 : -0.5;
  let at = alignCorners
    ? mul(add(place, 1), (size - 1) / 2)
    : div(sub(mul(add(place, 1), size), 1), 2);
  if (mode !== "cubic" && padding !== "zeros") {
    if (padding === "reflection") at = reflected(at, edge, size - 1 - edge);
    // As in PyTorch, a place at an end has no derivative.
    at = where(
      greater(at, 0),
      where(less(at, size - 1), at, size - 1),
      where(equal(at, at), 0, at),
    );
  }
  const tap = (i: Operand, weight: Operand | undefined): Taps => {
    if (padding === "zeros") {
      return { index: indexOf(i, size), weight, counts: within(i, 0, size - 1) };
    }
    const inside = padding === "border" ? i : where(
      within(i, 0, size - 1),
      i,
      reflected(i, edge, size - 1 - edge),
    );
    return { index: indexOf(inside, size), weight, counts: undefined };
  };
  if (mode === "nearest") return [tap(apply(MAP.round, at), undefined)];
  const first = floor(at);
  const isCubic = mode === "cubic";
  return weightsAt(sub(at, first), isCubic ? cubicCoeff : undefined)
    .map((weight, k) => tap(add(first, isCubic ? k - 1 : k), weight));
}

/** The elements of a plane, of those along its axes. */
function corners(sizes: readonly number[], taps: readonly (readonly Taps[])[]): readonly Taps[] {
  const joined = (a: Operand | undefined, b: Operand | undefined, join: typeof both) =>
    a === undefined || b === undefined ? a ?? b : join(a, b);
  return taps.reduce((before, own, axis) =>
    before.flatMap((one) =>
      own.map((other) => ({
        index: add(mul(one.index, sizes[axis]!), other.index),
        weight: joined(one.weight, other.weight, mul),
        counts: joined(one.counts, other.counts, both),
      }))
    )
  );
}

function gridSampled([x, grid]: readonly Operand[], call: Call): Operand {
  const [images, channels, ...sizes] = x!.layout.shape as [number, number, ...number[]];
  const to = grid!.layout.shape.slice(1, -1), axes = sizes.length;
  const places = countOf(to, to.map((_, k) => k)), plane = countOf(sizes, sizes.map((_, k) => k));
  const flat = reshape(grid!, [images, places, axes]);
  const taps = sizes.map((size, axis) =>
    tapsOf(select(flat, 2, axes - 1 - axis), size, call.attributes)
  );
  const all = corners(sizes, taps);
  const row = (of: (one: Taps) => Operand | undefined): Operand | undefined =>
    of(all[0]!) && reshape(concat(all.map((one) => of(one)!), 1), [images, 1, -1]);
  let taken = takeAlongAxis(
    reshape(x!, [images, channels, plane]),
    row(({ index }) => index)!,
    2,
  );
  const [counts, weights] = [row((one) => one.counts), row((one) => one.weight)];
  if (counts !== undefined) taken = where(counts, taken, 0);
  if (weights !== undefined) taken = mul(taken, weights);
  return reshape(sum(reshape(taken, [images, channels, all.length, places]), [2]), [
    images,
    channels,
    ...to,
  ]);
}

// ---- regions of images -------------------------------------------------------------------------

/** The elements of larger bins have no numbers of their own. */
const MOST_STEP = 2 ** 30;

/**
 * The weights of the elements along an axis of `size` in the bins of regions, [regions, bins, size]: each
 * bin is the mean of samples between elements.
 */
function binWeights(
  start: Operand,
  end: Operand,
  size: number,
  bins: number,
  { samplingRatio, halfPixel }: RoiAlignAttributes,
): Operand {
  const column = (x: Operand): Operand => reshape(x, [-1, 1, 1]);
  const ramp = (n: number, shape: readonly number[]): Operand =>
    castTo(reshape(iota(start.storage, n), shape), start.storage.info);
  const extent = halfPixel ? sub(end, start) : apply(MAP.maximum, sub(end, start), 1);
  const step = column(div(extent, bins));
  const begin = add(column(start), mul(ramp(bins, [1, bins, 1]), step));
  let count: Input = samplingRatio, first: Input = 0, most = samplingRatio;
  if (samplingRatio === 0) {
    const isSized = both(greater(step, 0), less(step, MOST_STEP));
    count = where(isSized, apply(MAP.ceil, step), 0);
    // Neighboring samples are at least half an element apart: so many are in the image.
    most = 2 * size + 8;
    const before = floor(div(sub(-1, begin), div(step, apply(MAP.maximum, count, 1))));
    first = apply(MAP.maximum, where(isSized, sub(before, 2), 0), 0);
  }
  const divisor = apply(MAP.maximum, count, 1);
  const k = add(ramp(most, [1, 1, most]), first);
  const at = add(begin, mul(add(k, 0.5), div(step, divisor)));
  const isIn = both(less(k, count), within(at, -1, size));
  const place = apply(MAP.maximum, at, 0);
  const low = apply(MAP.minimum, floor(place), size - 1);
  const rest = where(apply(MAP.greaterEqual, low, size - 1), 0, sub(place, low));
  const part = (weight: Operand, index: Operand): Operand =>
    scatteredAlong(
      [start.layout.size, bins, size],
      where(isIn, div(weight, divisor), 0),
      indexOf(where(isIn, index, 0), size),
      2,
    );
  return add(part(sub(1, rest), low), part(rest, add(low, 1)));
}

/** The means of bins: products with the weights of rows, then with those of columns. */
function roiMeans([x, boxes, batch]: readonly Operand[], call: Call): Operand {
  const attributes = call.attributes as RoiAlignAttributes;
  const { bins, spatialScale, halfPixel } = attributes;
  const [images, channels, height, width] = x!.layout.shape as [number, number, number, number];
  const regions = boxes!.layout.shape[0]!;
  const scaled = mul(castTo(boxes!, x!.storage.info), spatialScale);
  const [x0, y0, x1, y1] = [0, 1, 2, 3].map((k) =>
    sub(select(scaled, 1, k), halfPixel ? 0.5 : 0)
  ) as [Operand, Operand, Operand, Operand];
  const rows = binWeights(y0, y1, height, bins[0], attributes);
  const columns = binWeights(x0, x1, width, bins[1], attributes);
  const isImage = equal(
    reshape(batch!, [-1, 1]),
    castTo(iota(x!.storage, images), batch!.storage.info),
  );
  const own = mul(
    reshape(rows, [regions, bins[0], 1, height]),
    reshape(castTo(isImage, x!.storage.info), [regions, 1, images, 1]),
  );
  const lines = reshape(permute(x!, [0, 2, 1, 3]), [images * height, channels * width]);
  const alongRows = matmul(reshape(own, [regions * bins[0], images * height]), lines);
  const made = matmul(reshape(alongRows, [regions, bins[0] * channels, width]), mT(columns));
  return permute(reshape(made, [regions, bins[0], channels, bins[1]]), [0, 2, 1, 3]);
}

// ---- lines between points ----------------------------------------------------------------------

function interpolated([x, xs, ys]: readonly Operand[], call: Call): Operand {
  const { left, right, dtype } = call.attributes as InterpolateAttributes;
  const at = castTo(x!, xs!.storage.info);
  const last = xs!.layout.size - 1;
  const [low, high] = [left ?? select(ys!, 0, 0), right ?? select(ys!, 0, last)];
  let line = select(ys!, 0, last);
  if (last > 0) {
    const places = runKernel("searchIndices", [xs, at], { right: true });
    const index = apply(MAP.clip, sub(places, 1), 0, last - 1);
    const [x0, y0] = [take(xs!, index), take(ys!, index)];
    const [x1, y1] = [take(xs!, add(index, 1)), take(ys!, add(index, 1))];
    line = add(mul(div(sub(y1, y0), sub(x1, x0)), sub(at, x0)), y0);
  }
  const isBefore = less(at, select(xs!, 0, 0)), isAfter = greater(at, select(xs!, 0, last));
  return castTo(where(isBefore, low, where(isAfter, high, line)), DTYPE[dtype]);
}

const isMean = (call: Call): boolean => (call.attributes as RoiAlignAttributes).mode === "avg";

addRules({
  gridSample: byComposition(gridSampled),
  roiAlign: { rule: byComposition(roiMeans), applies: isMean },
  interpolate: byComposition(interpolated),
});
