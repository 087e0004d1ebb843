/**
 * Samples at places and largest elements of windows in JavaScript: the definitions.
 *
 * @module
 */
import { poolAxes, type PoolAxis } from "../../ops/conv/pool.ts";
import type { GridSampleAttributes } from "../../ops/image/grid_sample.ts";
import type { RoiAlignAttributes } from "../../ops/image/roi_align.ts";
import { cubicAt } from "../../ops/image/taps.ts";
import { readElement, writeElement } from "../../memory/element.ts";
import type { Call } from "../../table/op.ts";

type Floats = Float32Array | Float64Array;

/** The elements along an axis that a sample is made of: undefined for those that count as 0. */
interface AxisTaps {
  readonly indices: readonly (number | undefined)[];
  readonly weights: readonly number[];
}

/** A place, mirrored at both ends until it is inside. */
function reflected(x: number, least: number, most: number): number {
  const range = most - least;
  if (!(range > 0)) return least;
  const away = x < least ? least - x : x > most ? x - most : 0;
  if (away === 0) return x;
  const turns = Math.floor(away / range), rest = away - turns * range;
  return (x < least) === (turns % 2 === 0) ? least + rest : most - rest;
}

function clamp(x: number, size: number): number {
  return x > 0 ? Math.min(Math.trunc(x), size - 1) : 0;
}

/** The nearest integer, the even one of two. */
function nearest(x: number): number {
  const down = Math.floor(x), rest = x - down;
  return rest < 0.5 || (rest === 0.5 && down % 2 === 0) ? down : down + 1;
}

/** The elements along an axis of `size` for a place from -1 to 1. */
function tapsAt(place: number, size: number, attributes: GridSampleAttributes): AxisTaps {
  const { mode, padding, alignCorners, cubicCoeff } = attributes;
  const edge = alignCorners ? 0 : -0.5;
  let at = alignCorners ? (place + 1) / 2 * (size - 1) : ((place + 1) * size - 1) / 2;
  if (mode !== "cubic" && padding !== "zeros") {
    if (padding === "reflection") at = reflected(at, edge, size - 1 - edge);
    at = Math.min(Math.max(at, 0), size - 1);
  }
  const elementOf = (i: number): number | undefined => {
    if (i >= 0 && i <= size - 1) return i;
    if (padding === "zeros") return undefined;
    return clamp(padding === "border" ? i : reflected(i, edge, size - 1 - edge), size);
  };
  if (mode === "nearest") return { indices: [elementOf(nearest(at))], weights: [1] };
  const first = Math.floor(at), t = at - first;
  const places = mode === "cubic" ? [-1, 0, 1, 2] : [0, 1];
  return {
    indices: places.map((k) => elementOf(first + k)),
    weights: places.map((k) =>
      mode === "cubic" ? cubicAt(Math.abs(t - k), cubicCoeff) : 1 - Math.abs(t - k)
    ),
  };
}

/** The elements of a plane and their weights, of several axes. */
function cornersOf(sizes: readonly number[], taps: readonly AxisTaps[]): [number, number][] {
  return taps.reduce<[number, number][]>(
    (before, { indices, weights }, axis) =>
      before.flatMap(([offset, weight]) =>
        indices.flatMap((i, k): [number, number][] =>
          i === undefined ? [] : [[offset * sizes[axis]! + i, weight * weights[k]!]]
        )
      ),
    [[0, 1]],
  );
}

/** Samples of float32 and float64. */
export function gridSample(call: Call): void {
  const attributes = call.attributes as GridSampleAttributes;
  const [x, grid, out] = [call.operand(0), call.operand(1), call.outputs[0]!];
  const [source, places, target] = [x, grid, out].map(({ storage }) => storage.array as Floats);
  const [images, channels, ...sizes] = x.layout.shape as [number, number, ...number[]];
  const plane = sizes.reduce((a, b) => a * b, 1);
  const count = out.layout.shape.slice(2).reduce((a, b) => a * b, 1);
  for (let image = 0; image < images; image++) {
    for (let i = 0; i < count; i++) {
      const from = grid.layout.offset + (image * count + i) * sizes.length;
      const taps = sizes.map((size, axis) =>
        tapsAt(places![from + sizes.length - 1 - axis]!, size, attributes)
      );
      const corners = cornersOf(sizes, taps);
      for (let c = 0; c < channels; c++) {
        const first = x.layout.offset + (image * channels + c) * plane;
        let sum = 0;
        for (const [offset, weight] of corners) sum += source![first + offset]! * weight;
        target![out.layout.offset + (image * channels + c) * count + i] = sum;
      }
    }
  }
}

/** The elements of a window that are inside: the first one, and how many there are. */
function inside({ size, kernel, stride, before, dilation }: PoolAxis, window: number): number[] {
  const begin = window * stride - before;
  const skipped = begin < 0 ? Math.ceil(-begin / dilation) : 0;
  const first = begin + skipped * dilation;
  const count = Math.min(kernel - skipped, Math.ceil((size - first) / dilation));
  return Array.from({ length: Math.max(0, count) }, (_, k) => first + k * dilation);
}

/** The places in a plane of a window's elements, in order. */
function* windowOf(axes: readonly PoolAxis[], window: number): Generator<number> {
  let rest = window;
  const lists = axes.toReversed().map((axis) => {
    const own = rest % axis.count;
    rest = (rest - own) / axis.count;
    return inside(axis, own);
  }).reverse();
  const visit = function* (axis: number, at: number): Generator<number> {
    if (axis === axes.length) yield at;
    else for (const i of lists[axis]!) yield* visit(axis + 1, at * axes[axis]!.size + i);
  };
  yield* visit(0, 0);
}

/** The largest elements of the windows of a call, and their places in their planes. */
function* largestOf(call: Call): Generator<[value: number | bigint, plane: number, place: number]> {
  const axes = poolAxes(call);
  const x = call.operand(0);
  const [plane, windows] = (["size", "count"] as const).map((key) =>
    axes.reduce((product, axis) => product * axis[key], 1)
  ) as [number, number];
  const { kind, min } = x.storage.info;
  const lowest = kind === "f" ? -Infinity : min as number | bigint;
  for (let from = 0; from < x.layout.size; from += plane) {
    for (let w = 0; w < windows; w++) {
      let best = -1;
      let most: number | bigint = lowest;
      for (const place of windowOf(axes, w)) {
        const value = readElement(x.storage, x.layout.offset + from + place);
        const isNan = value !== value;
        if (best >= 0 && !(value > most) && !(isNan && most === most)) continue;
        [best, most] = [place, value];
      }
      yield [most, from, best];
    }
  }
}

/** The largest element of each window, and its place in the plane. */
export function maxPoolIndices(call: Call): void {
  const [out, indices] = [call.outputs[0]!, call.outputs[1]!];
  let i = 0;
  for (const [value, , place] of largestOf(call)) {
    writeElement(out.storage, out.layout.offset + i, value);
    writeElement(indices.storage, indices.layout.offset + i, BigInt(place));
    i++;
  }
}

/** The sums of the derivatives by the windows in which each element is the largest. */
export function maxPoolGrad(call: Call): void {
  const [g, out] = [call.operand(1), call.outputs[0]!];
  const sums = new Float64Array(out.layout.size);
  let i = g.layout.offset;
  for (const [, plane, place] of largestOf(call)) {
    const own = Number(readElement(g.storage, i++));
    if (place >= 0) sums[plane + place]! += own;
  }
  for (const [k, sum] of sums.entries()) writeElement(out.storage, out.layout.offset + k, sum);
}

/** The elements around a place along an axis, and the weight of the second. */
type Neighbors = readonly [low: number, high: number, rest: number];

/** The samples of a bin, one for each element: none of a bin without a size, or of infinite size. */
function samplesFor(step: number): number {
  return step > 0 && step < MOST_STEP ? Math.ceil(step) : 0;
}

/** The elements of larger bins have no numbers of their own. */
const MOST_STEP = 2 ** 30;

/** Those of `count` samples of a bin that are in the image: work for its elements, not for the bin's. */
function samplesOf(start: number, step: number, count: number, size: number): Neighbors[] {
  const width = step / count;
  let [first, last] = [0, count];
  if (width > 0) {
    first = Math.max(first, Math.floor((-1 - start) / width) - 2);
    last = Math.min(last, Math.ceil((size - start) / width) + 2);
  }
  const found: Neighbors[] = [];
  for (let k = first; k < last; k++) {
    const sample = neighborsOf(start + (k + 0.5) * step / count, size);
    if (sample !== null) found.push(sample);
  }
  return found;
}

/** {@link Neighbors} of a place; null outside. */
function neighborsOf(at: number, size: number): Neighbors | null {
  if (!(at >= -1 && at <= size)) return null;
  const place = Math.max(at, 0), low = Math.trunc(place);
  return low >= size - 1 ? [size - 1, size - 1, 0] : [low, low + 1, place - low];
}

/** Regions of images of float32 and float64. */
export function roiAlign(call: Call): void {
  const { bins, samplingRatio, spatialScale, halfPixel, mode } = call
    .attributes as RoiAlignAttributes;
  const [x, boxes, batch] = [call.operand(0), call.operand(1), call.operand(2)];
  const [images, channels, height, width] = x.layout.shape as [number, number, number, number];
  const [source, target] = [x, call.outputs[0]!].map(({ storage }) => storage.array as Floats);
  const regions = boxes.layout.shape[0]!;
  const imageOf = (r: number): number =>
    Number(readElement(batch.storage, batch.layout.offset + r));
  for (let r = 0; r < regions; r++) {
    if (imageOf(r) >= 0 && imageOf(r) < images) continue;
    call.badIndex = r;
    return;
  }
  let to = call.outputs[0]!.layout.offset;
  for (let r = 0; r < regions; r++) {
    const [x0, y0, x1, y1] = Array.from(
      { length: 4 },
      (_, i) =>
        Number(readElement(boxes.storage, boxes.layout.offset + 4 * r + i)) * spatialScale -
        (halfPixel ? 0.5 : 0),
    ) as [number, number, number, number];
    const sizes = [y1 - y0, x1 - x0].map((size) => halfPixel ? size : Math.max(size, 1));
    const steps = sizes.map((size, i) => size / bins[i]!) as [number, number];
    const grid = steps.map((step) => samplingRatio > 0 ? samplingRatio : samplesFor(step)) as [
      number,
      number,
    ];
    // The samples of each bin along both axes.
    const along = [y0, x0].map((start, i) =>
      Array.from(
        { length: bins[i]! },
        (_, k) => samplesOf(start + k * steps[i]!, steps[i]!, grid[i]!, i === 0 ? height : width),
      )
    ) as [Neighbors[][], Neighbors[][]];
    for (let c = 0; c < channels; c++) {
      const plane = x.layout.offset + (imageOf(r) * channels + c) * height * width;
      for (let bin = 0; bin < bins[0] * bins[1]; bin++) {
        const rows = along[0][Math.floor(bin / bins[1])]!, columns = along[1][bin % bins[1]]!;
        const count = grid[0] * grid[1];
        // Samples outside are 0.
        let sum = 0, most = rows.length * columns.length < count ? 0 : -Infinity;
        for (const p of rows) {
          for (const q of columns) {
            const parts = [
              (1 - p[2]) * (1 - q[2]) * source![plane + p[0] * width + q[0]]!,
              (1 - p[2]) * q[2] * source![plane + p[0] * width + q[1]]!,
              p[2] * (1 - q[2]) * source![plane + p[1] * width + q[0]]!,
              p[2] * q[2] * source![plane + p[1] * width + q[1]]!,
            ];
            for (const part of parts) {
              sum += part;
              if (part > most) most = part;
            }
          }
        }
        const mean = sum / Math.max(1, count);
        target![to++] = mode === "avg" ? mean : most === -Infinity ? 0 : most;
      }
    }
  }
}
