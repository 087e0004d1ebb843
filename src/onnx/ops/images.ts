/**
 * Ops of pictures: grids, windows that overlap, convolutions with offsets.
 *
 * @module
 */
import { where } from "../../api/functions/tensors.ts";
import { formatShape, sizeOf } from "../../base/shape.ts";
import { Slice } from "../../base/slice.ts";
import { arange, fromBuffer, zeros } from "../../tensor/create.ts";
import type { Call, Implementation } from "../graph/call.ts";
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
  const place = (k: number, size: number): number =>
    corners ? (size === 1 ? 0 : 2 * k / (size - 1) - 1) : (2 * k + 1) / size - 1;
  const points = [...indexesOf(sizes)].flatMap((index) => [
    ...index.map((k, axis) => place(k, sizes[axis]!)).reverse(),
    1,
  ]);
  const grid: T = fromBuffer(Float64Array.from(points), { shape: [sizeOf(sizes), rank + 1] })
    .astype(theta.dtype) as T;
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

/** The ops. */
export const IMAGES: Readonly<Record<string, Implementation>> = {
  AffineGrid: affineGrid,
  Col2Im: col2im,
  DeformConv: deformConv,
};
