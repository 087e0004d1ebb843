/**
 * Ops of pictures: sizes, samples, grids, windows that overlap, convolutions with offsets.
 *
 * @module
 */
import { stack, where } from "../../api/functions/tensors.ts";
import { formatShape, sizeOf } from "../../base/shape.ts";
import { Slice } from "../../base/slice.ts";
import { GRID_PADDINGS, gridSample } from "../../ops/image/grid_sample.ts";
import { resize, type ResizeAxis } from "../../ops/image/resample.ts";
import { nonMaxSuppression, roiAlign } from "../../ops/image/roi_align.ts";
import { COORDINATES, NEAREST_MODES } from "../../ops/image/taps.ts";
import { arange, full, zeros } from "../../tensor/create.ts";
import type { Call, Implementation } from "../graph/call.ts";
import { NeedsHost } from "../graph/needs.ts";
import type { T, Value } from "../graph/values.ts";
import { windowsOf } from "./convolutions.ts";

/** The indexes of an array of `shape`, in row-major order. */
function* indexesOf(shape: readonly number[]): Generator<number[]> {
  const size = sizeOf(shape);
  for (let flat = 0; flat < size; flat++) {
    const index: number[] = [];
    let rest = flat;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      index.unshift(rest % shape[axis]!);
      rest = Math.floor(rest / shape[axis]!);
    }
    yield index;
  }
}

/** The coordinates of a picture, x first, by matrices of affine maps [N, 2, 3] or [N, 3, 4]. */
function affineGrid(call: Call): readonly Value[] {
  const theta = call.tensor(0);
  const [batches, , ...sizes] = call.numbers(1);
  const rank = sizes.length;
  if (theta.rank !== 3 || theta.shape[1] !== rank || theta.shape[2] !== rank + 1) {
    call.failShape(`maps of shape ${formatShape(theta.shape)} for pictures of ${rank} axes`);
  }
  const corners = call.node.flag("align_corners");
  if (sizes.some((n) => n < 1)) call.failShape(`a grid of ${formatShape(sizes)}`);
  const wide = { dtype: "float64" } as const;
  const places = sizes.map((n, axis): T => {
    const k = arange(n, wide) as T;
    const along = corners ? n === 1 ? k : k.mul(2 / (n - 1)).sub(1) : k.mul(2).add(1).div(n).sub(1);
    return along.reshape(sizes.map((_, j) => j === axis ? n : 1)).broadcastTo(sizes) as T;
  });
  const ones = full([], 1, wide).broadcastTo(sizes) as T;
  const grid: T = (stack([...places.reverse(), ones], -1) as T)
    .reshape([sizeOf(sizes), rank + 1]).astype(theta.dtype) as T;
  return [grid.matmul(theta.swapAxes(1, 2)).reshape([batches!, ...sizes, rank])];
}

/** Adds windows [N, C · window, count] up to pictures. */
function col2im(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const sizes = call.numbers(1), kernel = call.numbers(2);
  if (x.rank !== 3 || sizes.length !== kernel.length) {
    call.failShape(
      `windows of shape ${formatShape(x.shape)} and ${formatShape(kernel)} for pictures of ` +
        formatShape(sizes),
    );
  }
  const { stride, dilation, padding } = windowsOf(call, sizes, kernel);
  const padded = sizes.map((n, k) => n + padding[k]![0] + padding[k]![1]);
  const counts = padded.map((n, k) =>
    Math.floor((n - dilation[k]! * (kernel[k]! - 1) - 1) / stride[k]!) + 1
  );
  const [batches, rows, blocks] = x.shape;
  const channels = rows! / sizeOf(kernel);
  if (!Number.isInteger(channels) || blocks !== sizeOf(counts)) {
    call.failShape(`windows of shape ${formatShape(x.shape)} are not ${formatShape(counts)}`);
  }
  const windows: T = x.reshape([batches!, channels, sizeOf(kernel), ...counts]);
  const sums = zeros([batches!, channels, ...padded], { dtype: x.dtype });
  let element = 0;
  for (const index of indexesOf(kernel)) {
    let at = sums;
    index.forEach((k, axis) => {
      const from = k * dilation[axis]!;
      at = at.sliceAxis(
        axis + 2,
        new Slice(from, from + (counts[axis]! - 1) * stride[axis]! + 1, stride[axis]!),
      );
    });
    at.add_(windows.sliceAxis(2, element++));
  }
  let made: T = sums;
  sizes.forEach((n, k) => {
    made = made.sliceAxis(k + 2, new Slice(padding[k]![0], padding[k]![0] + n));
  });
  return [made];
}

/** The elements of planes [N, G, C, H · W] at coordinates [N, G, P], linear between them, 0 outside. */
function sampled(planes: T, size: readonly [height: number, width: number], y: T, x: T): T {
  const [height, width] = size;
  const [batches, groups, channels] = planes.shape;
  const points = y.shape[2]!;
  const top = y.floor(), left = x.floor();
  let sum: T | undefined;
  for (const [dy, dx] of [[0, 0], [0, 1], [1, 0], [1, 1]] as const) {
    const [row, column]: [T, T] = [top.add(dy), left.add(dx)];
    const near = (at: T, to: T): T => to.sub(at).abs().neg().add(1);
    const within = (at: T, n: number): T => at.greaterEqual(0).logicalAnd(at.less(n));
    const seen: T = within(row, height).logicalAnd(within(column, width));
    const weight: T = where(seen.asDType("bool"), near(row, y).mul(near(column, x)), 0) as T;
    const place: T = row.clip(0, height - 1).mul(width).add(column.clip(0, width - 1));
    const index: T = place.astype("int32").reshape([batches!, groups!, 1, points]).broadcastTo([
      batches!,
      groups!,
      channels!,
      points,
    ]);
    const part: T = planes.takeAlongAxis(index, 3).mul(weight.unsqueeze(2));
    sum = sum === undefined ? part : sum.add(part);
  }
  return sum!;
}

/** A convolution whose windows are moved: offsets [N, groups · 2 · window, H, W], y first. */
function deformConv(call: Call): readonly Value[] {
  const { node } = call;
  const [x, weight, offset] = [call.tensor(0), call.tensor(1), call.tensor(2)];
  const [bias, mask] = [call.optional(3), call.optional(4)];
  if (x.rank !== 4) {
    call.failShape(`input 0 has shape ${formatShape(x.shape)}, expected [N, C, H, W]`);
  }
  const kernel = node.ints("kernel_shape") ?? weight.shape.slice(2);
  const { stride, dilation, padding } = windowsOf(call, x.shape, kernel);
  const batches = x.shape[0]!, channels = x.shape[1]!, height = x.shape[2]!, width = x.shape[3]!;
  const groups = node.int("offset_group", 1), parts = node.int("group", 1);
  const window = sizeOf(kernel);
  const rows = offset.shape[2]!, columns = offset.shape[3]!;
  if (offset.shape[1] !== groups * window * 2 || channels % groups !== 0) {
    call.failShape(`offsets of shape ${formatShape(offset.shape)} for ${groups} groups`);
  }
  /** Where windows begin, and what their elements add to that: [window, rows, columns]. */
  const grid = (axis: 0 | 1): T => {
    const [count, k] = [axis === 0 ? rows : columns, kernel[axis]!];
    const begin = arange(count, { dtype: x.dtype }).mul(stride[axis]!).sub(padding[axis]![0]) as T;
    const step = arange(k, { dtype: x.dtype }).mul(dilation[axis]!) as T;
    return axis === 0
      ? step.reshape([k, 1, 1, 1]).add(begin.reshape([1, 1, count, 1]))
      : step.reshape([1, k, 1, 1]).add(begin.reshape([1, 1, 1, count]));
  };
  const moves: T = offset.reshape([batches, groups, ...kernel, 2, rows, columns]);
  const points = window * rows * columns;
  const place = (axis: 0 | 1): T =>
    moves.sliceAxis(4, axis).add(grid(axis)).reshape([batches, groups, points]);
  const planes: T = x.reshape([batches, groups, channels / groups, height * width]);
  let taken = sampled(planes, [height, width], place(0), place(1));
  if (mask !== undefined) taken = taken.mul(mask.reshape([batches, groups, 1, points]));
  const depth = channels / parts * window;
  const cells: T = taken.reshape([batches, parts, depth, rows * columns]);
  const filters: T = weight.reshape([1, parts, weight.shape[0]! / parts, depth]);
  const made: T = filters.matmul(cells).reshape([batches, weight.shape[0]!, rows, columns]);
  return [bias === undefined ? made : made.add(bias.reshape([bias.size, 1, 1]))];
}

/** The elements that an array can have. */
const MOST_ELEMENTS = 2 ** 32 - 1;
const MODES = { nearest: "nearest", linear: "linear", bilinear: "linear", cubic: "cubic" } as const;

const own = <K extends string>(names: readonly K[]): Record<string, K> =>
  Object.fromEntries(names.map((name) => [name, name]));

/** The axes of a call of Resize, with their new sizes. */
function resizedAxes(call: Call): ResizeAxis[] {
  const { node } = call;
  const { shape, rank } = call.tensor(0);
  const numbers = (k: number): number[] | undefined =>
    call.has(k) && call.tensor(k).size > 0 ? call.numbers(k) : undefined;
  const [scales, sizes] = call.opset < 11 ? [numbers(1)] : [numbers(2), numbers(3)];
  const axes = node.ints("axes")?.map((axis) => call.axis(axis, rank)) ?? shape.map((_, k) => k);
  const given = scales ?? sizes ?? call.fail("it has neither scales nor sizes");
  if (given.length !== axes.length) call.fail(`${given.length} sizes for ${axes.length} axes`);
  const roi = call.opset < 11 ? undefined : numbers(1);
  if (roi !== undefined && roi.length !== 2 * axes.length) {
    call.fail(`a region of ${roi.length} numbers for ${axes.length} axes`);
  }
  const policy = node.string("keep_aspect_ratio_policy", "stretch");
  const factors = given.map((n, k) => scales === undefined ? n / shape[axes[k]!]! : n);
  const common = policy === "not_larger"
    ? Math.min(...factors)
    : policy === "not_smaller"
    ? Math.max(...factors)
    : policy === "stretch"
    ? undefined
    : call.fail(`keep_aspect_ratio_policy ${policy} is not known`);
  const resized = axes.map((axis, k): ResizeAxis => {
    const from = shape[axis]!;
    const part = roi === undefined ? {} : { roi: [roi[k]!, roi[k + axes.length]!] as const };
    if (scales !== undefined) {
      return { axis, to: Math.floor(from * factors[k]!), scale: factors[k]!, ...part };
    }
    if (common === undefined) return { axis, to: given[k]!, ...part };
    return { axis, to: Math.floor(from * common + 0.5), scale: common, ...part };
  });
  checkSizes(call, resized);
  return resized;
}

/** Throws before tables are made for sizes that no tensor has. */
function checkSizes(call: Call, axes: readonly ResizeAxis[]): void {
  const to = [...call.tensor(0).shape];
  for (const one of axes) to[one.axis] = one.to;
  if (!(sizeOf(to) <= MOST_ELEMENTS)) call.failShape(`a result of shape ${formatShape(to)}`);
}

function resizeOf(call: Call): readonly Value[] {
  const { node } = call;
  const x = call.tensor(0), axes = resizedAxes(call);
  const mode = call.choice("mode", "nearest", MODES);
  if (call.opset < 11) return [asymmetric(node.op, x, axes, mode)];
  return [
    resize(node.op, x, axes, {
      mode,
      coordinates: call.choice("coordinate_transformation_mode", "half_pixel", own(COORDINATES)),
      nearest: call.choice("nearest_mode", "round_prefer_floor", own(NEAREST_MODES)),
      cubicCoeff: node.float("cubic_coeff_a", -0.75),
      excludeOutside: node.flag("exclude_outside"),
      antialias: node.flag("antialias"),
      extrapolationValue: node.float("extrapolation_value", 0),
    }) as T,
  ];
}

/** What old opsets do: places are not those of centers, and axes that shrink round up. */
function asymmetric(
  name: string,
  x: T,
  axes: readonly ResizeAxis[],
  mode: "nearest" | "linear" | "cubic",
): T {
  const grows = ({ scale = 1 }: ResizeAxis): boolean => scale >= 1;
  const coordinates = "asymmetric";
  const wider = resize(name, x, axes.filter(grows), { mode, coordinates, nearest: "floor" });
  const rest = axes.filter((axis) => !grows(axis));
  return resize(name, wider, rest, { mode, coordinates, nearest: "ceil" }) as T;
}

function upsample(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const scales = call.opset < 9 ? call.node.floats("scales") : call.numbers(1);
  if (scales?.length !== x.rank) return call.fail(`scales do not fit ${x.rank} axes`);
  const axes = scales.map((scale, axis): ResizeAxis => ({
    ...{ axis, scale, to: Math.floor(x.shape[axis]! * scale) },
  }));
  checkSizes(call, axes);
  return [asymmetric(call.node.op, x, axes, call.choice("mode", "nearest", MODES))];
}

const SAMPLE_MODES = { ...MODES, bicubic: "cubic" } as const;

function gridSampleOf(call: Call): readonly Value[] {
  const { node } = call;
  return [
    gridSample(node.op, call.tensor(0), call.tensor(1), {
      mode: call.choice("mode", "linear", SAMPLE_MODES),
      padding: call.choice("padding_mode", "zeros", own(GRID_PADDINGS)),
      alignCorners: node.flag("align_corners"),
      cubicCoeff: -0.75,
    }) as T,
  ];
}

/** The most samples along an axis of a bin: the work is that of their square. */
const MOST_SAMPLES = 1024;
const REGION_MODES = { avg: "avg", max: "max" } as const;

function roiAlignOf(call: Call): readonly Value[] {
  const { node } = call;
  // Opset 10 has no attribute, and takes corners as they are.
  const otherwise = call.opset < 16 ? "output_half_pixel" : "half_pixel";
  const samplingRatio = node.int("sampling_ratio", 0);
  if (samplingRatio > MOST_SAMPLES) {
    call.fail(`sampling_ratio is ${samplingRatio}, expected at most ${MOST_SAMPLES}`);
  }
  return [
    roiAlign(node.op, call.tensor(0), call.tensor(1), call.tensor(2), {
      bins: [node.int("output_height", 1), node.int("output_width", 1)],
      samplingRatio,
      spatialScale: node.float("spatial_scale", 1),
      halfPixel: call.choice("coordinate_transformation_mode", otherwise, {
        ...{ half_pixel: true, output_half_pixel: false },
      }),
      mode: call.choice("mode", "avg", REGION_MODES),
    }) as T,
  ];
}

/** The boxes that stay: how many depends on elements. */
function suppress(call: Call): readonly Value[] {
  const options = {
    maxOutput: call.numberOr(2, 0),
    iouThreshold: call.numberOr(3, 0),
    centers: call.node.flag("center_point_box"),
    ...(call.has(4) ? { scoreThreshold: call.number(4) } : {}),
  };
  for (const k of [0, 1]) if (!call.knows(k)) throw new NeedsHost("its size depends on elements");
  return [nonMaxSuppression(call.node.op, call.tensor(0), call.tensor(1), options) as T];
}

/** The ops. */
export const IMAGES: Readonly<Record<string, Implementation>> = {
  RoiAlign: roiAlignOf,
  NonMaxSuppression: suppress,
  Resize: resizeOf,
  Upsample: upsample,
  GridSample: gridSampleOf,
  AffineGrid: affineGrid,
  Col2Im: col2im,
  DeformConv: deformConv,
};
