/**
 * The kernels of images: weighted sums along an axis, samples at places, largest elements of windows.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { ATTRIBUTES } from "../../base/plan.ts";
import type { Operand } from "../../memory/operand.ts";
import {
  GRID_MODES,
  GRID_PADDINGS,
  type GridSampleAttributes,
} from "../../ops/image/grid_sample.ts";
import type { RoiAlignAttributes } from "../../ops/image/roi_align.ts";
import { resampleSizes } from "../../ops/image/resample.ts";
import { type PoolAttributes, poolAxes } from "../../ops/conv/pool.ts";
import type { Call } from "../../table/op.ts";
import { checkRun } from "../ffi/checks.ts";
import { type Kernel, takeBadIndex } from "./kernel.ts";

/** The axes of space that kernels have. */
const AXES = 3;

/** Checks contiguous operands, and gives their offsets. */
function offsetsOf(call: Call, operands: readonly Operand[]): number[] {
  return operands.map(({ storage, layout: { offset, size } }, i) => {
    checkRun(call.op.name, i, offset, size, storage);
    return offset;
  });
}

/** Sizes of up to three axes, with 1 for those that lack before them. */
function padded(sizes: readonly number[]): number[] {
  return [...new Array<number>(AXES - sizes.length).fill(1), ...sizes];
}

const resample: Kernel = {
  supports(call) {
    const { dtype, shape } = call.specs[0]!;
    return dtype === DTYPE.float32 && !shape.includes(0) &&
      call.operand(1).storage.info === DTYPE.int32 && call.operand(2).storage.info === dtype;
  },
  prepare(call) {
    const { outer, from, to, inner, taps } = resampleSizes(call);
    const out = call.outputs[0]!;
    const inputs = [0, 1, 2].map((k) => call.operand(k)) as [Operand, Operand, Operand];
    const offsets = offsetsOf(call, [out, ...inputs]);
    const [a, b, c] = inputs.map(({ storage }) => storage);
    return {
      numbers: Float64Array.of(outer, from, to, inner, taps, ...offsets),
      ...{ out: out.storage, a: a!, b: b!, c: c! },
    };
  },
};

const gridSample: Kernel = {
  supports(call) {
    const { dtype, shape } = call.specs[0]!;
    return dtype === DTYPE.float32 && !shape.includes(0) && shape.length - 2 <= AXES &&
      call.operand(0).layout.size > 0 && call.operand(1).storage.info === dtype;
  },
  prepare(call) {
    const { mode, padding, alignCorners, cubicCoeff } = call.attributes as GridSampleAttributes;
    const [x, grid, out] = [call.operand(0), call.operand(1), call.outputs[0]!];
    const [images, channels, ...sizes] = x.layout.shape as [number, number, ...number[]];
    const numbers = Float64Array.of(
      ...[images, channels, sizes.length],
      ...[GRID_MODES.indexOf(mode), GRID_PADDINGS.indexOf(padding), Number(alignCorners)],
      cubicCoeff,
      ...padded(sizes),
      ...padded(out.layout.shape.slice(2)),
      ...offsetsOf(call, [out, x, grid]),
    );
    return { numbers, out: out.storage, a: x.storage, b: grid.storage };
  },
};

/**
 * The largest elements of windows, and their places as a second output, if there is one; of a derivative by
 * them, a second input, the derivative by x.
 */
const maxPool: Kernel = {
  supports(call) {
    const { dtype, shape } = call.specs[0]!;
    const { windows } = call.attributes as PoolAttributes;
    return dtype === DTYPE.float32 && call.operand(0).storage.info === dtype &&
      !shape.includes(0) && windows.length <= AXES &&
      windows.every((own) => typeof own !== "number");
  },
  prepare(call) {
    const [x, out] = [call.operand(0), call.outputs[0]!];
    const second = call.outputs[1] ?? call.inputs[1] as Operand | undefined;
    const axes = poolAxes(call);
    const planes = x.layout.shape.slice(0, -axes.length).reduce((a, b) => a * b, 1);
    const none = { size: 1, count: 1, kernel: 1, stride: 1, before: 0, dilation: 1 };
    const all = [...new Array<typeof none>(AXES - axes.length).fill(none), ...axes];
    const numbers = Float64Array.of(
      planes,
      ...all.flatMap(({ size, count, kernel, stride, before, dilation }) => [
        ...[size, count, kernel],
        ...[stride, before, dilation],
      ]),
      ...offsetsOf(call, second === undefined ? [out, x] : [out, x, second]),
    );
    return { numbers, out: out.storage, a: x.storage, b: second?.storage ?? null };
  },
};

/** The most elements of a row that the derivative may be written over. */
const ROW_IN_PLACE = 1024;

const maxPoolGrad: Kernel = {
  ...maxPool,
  inPlace(call) {
    const axes = poolAxes(call);
    const isCovered = axes.every(({ size, count, kernel, stride, before, dilation }) =>
      kernel === 2 && stride === 2 && dilation === 1 && before === 0 && size === 2 * count
    );
    const { size, count } = axes.at(-1)!;
    return axes.length === 2 && isCovered && count >= 4 && size <= ROW_IN_PLACE;
  },
};

const roiAlign: Kernel = {
  supports(call) {
    const { dtype, shape } = call.specs[0]!;
    return dtype === DTYPE.float32 && !shape.includes(0) &&
      call.operand(1).storage.info === dtype && call.operand(2).storage.info === DTYPE.int32;
  },
  prepare(call) {
    const { bins, samplingRatio, spatialScale, halfPixel, mode } = call
      .attributes as RoiAlignAttributes;
    const [x, boxes, batch] = [call.operand(0), call.operand(1), call.operand(2)];
    const [images, channels, height, width] = x.layout.shape as [number, number, number, number];
    const out = call.outputs[0]!;
    const attributes = [
      ...[-1, channels, height, width, boxes.layout.shape[0]!, ...bins, samplingRatio],
      ...[spatialScale, Number(halfPixel), Number(mode === "max"), images],
      ...offsetsOf(call, [out, x, boxes, batch]),
    ];
    const numbers = new Float64Array(ATTRIBUTES + attributes.length);
    numbers.set(attributes, ATTRIBUTES);
    return { numbers, out: out.storage, a: x.storage, b: boxes.storage, c: batch.storage };
  },
  finish: takeBadIndex,
};

/** The kernels by the names of their ops. */
export const IMAGE_KERNELS: Readonly<Record<string, Kernel>> = {
  resample,
  gridSample,
  maxPool,
  maxPoolIndices: maxPool,
  maxPoolGrad,
  roiAlign,
};
