/**
 * Regions of images as grids of bins, and the choice of boxes that overlap little.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { ArgumentError, IndexError, ShapeError } from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { cast, contiguousCopy, toDevice } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { kernelCopy } from "../../core/prepare.ts";
import { tidy } from "../../core/handles.ts";
import { readElement } from "../../memory/element.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand } from "../../table/infer.ts";
import { type Call, type Input, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { fromData } from "../create/from_data.ts";
import { rowDType } from "../softmax_norm/problem.ts";

/** Attributes of `roiAlign`. */
export interface RoiAlignAttributes {
  /** The bins along the height and the width. */
  readonly bins: readonly [number, number];
  /** The samples along each axis of a bin; 0 for as many as a bin has elements. */
  readonly samplingRatio: number;
  /** What the corners are multiplied by. */
  readonly spatialScale: number;
  /** Whether corners are shifted by half an element; else regions have at least one element. */
  readonly halfPixel: boolean;
  /**
   * The mean of samples, or the largest weighted element of all samples, which is how ONNX defines it.
   */
  readonly mode: "avg" | "max";
}

/** Inputs: images [N, C, H, W], regions [R, 4] of two corners (x, y), and their images, integers [R]. */
const ROI_ALIGN: Op = makeOp({
  kind: "kernel",
  name: "roiAlign",
  contiguous: [0, 1, 2],
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, boxes, batch], name } = call;
    const { bins, samplingRatio, mode } = call.attributes as RoiAlignAttributes;
    checkOperand(x, name);
    checkOperand(boxes, name);
    checkOperand(batch, name);
    for (const one of [boxes, batch]) checkDevice(x.storage, one.storage, name);
    checkKind(x.storage.info, "f", name);
    checkKind(boxes.storage.info, "f", name);
    checkKind(batch.storage.info, "iu", name);
    const [from, regions, numbers] = [x, boxes, batch].map(({ layout }) => layout.shape) as [
      readonly number[],
      readonly number[],
      readonly number[],
    ];
    const fits = from.length === 4 && regions.length === 2 && regions[1] === 4 &&
      numbers.length === 1 && numbers[0] === regions[0];
    if (!fits) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(from)} with regions ${formatShape(regions)} of images ${
          formatShape(numbers)
        }: they are [N, C, H, W], [R, 4] and [R]`,
      );
    }
    for (const count of [...bins, samplingRatio + 1]) {
      if (Number.isSafeInteger(count) && count >= 1) continue;
      throw new ArgumentError(
        `Cannot ${name} with ${describe(count)} bins or samples: they are counted by integers`,
      );
    }
    if (mode !== "avg" && mode !== "max") {
      throw new ArgumentError(`Cannot ${name} with mode ${describe(mode)}: it is "avg" or "max"`);
    }
    const to = [regions[0]!, from[1]!, ...bins];
    if ((from[2] === 0 || from[3] === 0) && !to.includes(0)) {
      throw new ShapeError(`Cannot ${name} shape ${formatShape(from)}: it has no elements`);
    }
    return call.result(to, x.storage.info);
  },
  prepare(call: Call) {
    const wanted = [call.specs[0]!.dtype, call.specs[0]!.dtype, DTYPE.int32];
    const inputs = call.inputs.map((x, i): Input =>
      isOperand(x) && x.storage.info !== wanted[i] ? kernelCopy(x, wanted[i]!) : x
    );
    return inputs.every((x, i) => x === call.inputs[i]) ? null : { inputs };
  },
  check(call: Call) {
    if (call.badIndex < 0) return;
    const batch = call.operand(2);
    throw new IndexError(
      `Cannot ${call.name} with image ${
        readElement(batch.storage, batch.layout.offset + call.badIndex)
      } of ${call.operand(0).layout.shape[0]}`,
    );
  },
});

/** Regions of images, in their dtype; 16-bit floats are computed in float32. */
export function roiAlign(
  name: string,
  x: Operand,
  boxes: Operand,
  batch: Operand,
  attributes: RoiAlignAttributes,
): Operand {
  return tidy(() => {
    checkOperand(x, name);
    const { info } = x.storage;
    if (info.kind !== "f") {
      return dispatch(ROI_ALIGN, [x, boxes, batch], attributes, undefined, name);
    }
    const wide = cast(x, rowDType(info).name);
    return cast(dispatch(ROI_ALIGN, [wide, boxes, batch], attributes, undefined, name), info.name);
  });
}

// ---- boxes -------------------------------------------------------------------------------------

/** Options of {@link nonMaxSuppression}. */
export interface SuppressionOptions {
  /** The most boxes of each class of an image; 0, the default, for none. */
  readonly maxOutput?: number;
  /** Boxes that overlap one of a higher score by more than this part of their union are left out. */
  readonly iouThreshold?: number;
  /** Boxes of scores up to this one are left out; none by default. */
  readonly scoreThreshold?: number;
  /** Whether boxes are centers and sizes (x, y, w, h); else two corners (y, x, y, x). */
  readonly centers?: boolean;
}

/** The elements of a tensor of floats on the CPU, in order. */
function floatsOf(x: Operand): Float32Array {
  const here = contiguousCopy(toDevice(x, "cpu"), "float32");
  const { storage: { array }, layout: { offset, size } } = here;
  return (array as Float32Array).subarray(offset, offset + size);
}

/** Boxes as their least and largest corners, and their areas. */
function cornersOf(boxes: Float32Array, centers: boolean): Float32Array {
  const round = Math.fround;
  const made = new Float32Array(boxes.length / 4 * 5);
  for (let i = 0, to = 0; i < boxes.length; i += 4, to += 5) {
    const [a, b, c, d] = [boxes[i]!, boxes[i + 1]!, boxes[i + 2]!, boxes[i + 3]!];
    const [y0, y1, x0, x1] = centers
      ? [round(b - d / 2), round(b + d / 2), round(a - c / 2), round(a + c / 2)]
      : [Math.min(a, c), Math.max(a, c), Math.min(b, d), Math.max(b, d)];
    made.set([y0, x0, y1, x1, round(round(y1 - y0) * round(x1 - x0))], to);
  }
  return made;
}

/** Whether two boxes of {@link cornersOf} overlap by more than `limit` of their union. */
function overlap(corners: Float32Array, i: number, j: number, limit: number): boolean {
  const [p, q] = [5 * i, 5 * j];
  const height = Math.min(corners[p + 2]!, corners[q + 2]!) - Math.max(corners[p]!, corners[q]!);
  if (!(height > 0)) return false;
  const width = Math.min(corners[p + 3]!, corners[q + 3]!) -
    Math.max(corners[p + 1]!, corners[q + 1]!);
  if (!(width > 0)) return false;
  const [area, other] = [corners[p + 4]!, corners[q + 4]!];
  const both = height * width, all = area + other - both;
  return area > 0 && other > 0 && all > 0 && Math.fround(both / all) > limit;
}

/** The boxes of one class that stay, in the order of their scores. */
function chosen(
  corners: Float32Array,
  scores: Float32Array,
  { maxOutput = 0, iouThreshold = 0, scoreThreshold = -Infinity }: SuppressionOptions,
): number[] {
  const limit = Math.fround(iouThreshold), least = Math.fround(scoreThreshold);
  const candidates: number[] = [];
  for (let i = 0; i < scores.length; i++) if (scores[i]! > least) candidates.push(i);
  const order = Uint32Array.from(candidates)
    .sort((i, j) => scores[j]! - scores[i]! || i - j);
  const kept: number[] = [];
  for (const i of order) {
    if (kept.length >= maxOutput) break;
    if (!kept.some((j) => overlap(corners, i, j, limit))) kept.push(i);
  }
  return kept;
}

/**
 * The boxes that stay after those that overlap better ones are left out, class by class, as ONNX's
 * NonMaxSuppression: boxes [N, B, 4] and scores [N, C, B] give int64 [selected, 3] of image, class and box.
 * Reads the values, so that it cannot be part of a program.
 */
export function nonMaxSuppression(
  name: string,
  boxes: Operand,
  scores: Operand,
  options: SuppressionOptions = {},
): Operand {
  for (const x of [boxes, scores]) {
    checkOperand(x, name);
    checkKind(x.storage.info, "f", name);
  }
  const [from, each] = [boxes.layout.shape, scores.layout.shape];
  const fits = from.length === 3 && from[2] === 4 && each.length === 3 && each[0] === from[0] &&
    each[2] === from[1];
  if (!fits) {
    throw new ShapeError(
      `Cannot ${name} boxes ${formatShape(from)} with scores ${formatShape(each)}: they are ` +
        "[N, B, 4] and [N, C, B]",
    );
  }
  return tidy(() => {
    const [images, classes, count] = each as [number, number, number];
    const [all, values] = [floatsOf(boxes), floatsOf(scores)];
    const selected: number[] = [];
    for (let n = 0; n < images; n++) {
      const own = all.subarray(n * count * 4, (n + 1) * count * 4);
      const corners = cornersOf(own, options.centers ?? false);
      for (let c = 0; c < classes; c++) {
        const at = (n * classes + c) * count;
        const kept = chosen(corners, values.subarray(at, at + count), options);
        for (const box of kept) selected.push(n, c, box);
      }
    }
    const data = BigInt64Array.from(selected, BigInt);
    const { device } = boxes.storage;
    return fromData(data, { shape: [selected.length / 3, 3], device: device as "cpu" });
  });
}
