/**
 * Exact int32 convolutions of bytes, signed or not, with zero points: one of the images, and one of each
 * channel of the weight, which is packed once.
 *
 * @module
 */
import { ArgumentError, DTypeError, ShapeError } from "../../base/errors.ts";
import { formatShape, sizeOf } from "../../base/shape.ts";
import { apply } from "../../core/apply.ts";
import { part } from "../../core/composite.ts";
import { cast, contiguousCopy } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkDevice, checkOperand } from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import {
  checkBytes,
  finishSums,
  packBytes,
  type Requantization,
  sumsDType,
  unpackBytes,
  withOutput,
} from "../linear/bytes.ts";
import { pad } from "../manipulate/op.ts";
import { matmul } from "../matmul/op.ts";
import { columnsOf, reshaped } from "./op.ts";
import {
  type ConvAttributes,
  convAxes,
  type ConvBytesAttributes,
  hasWordsOfTaps,
  WORD,
  wordsOf,
} from "./problem.ts";

function permuted(x: Operand, axes: readonly number[]): Operand {
  return contiguousCopy(part(x, x.layout.permute(axes)));
}

/**
 * A weight [O, C, …] as a matrix with columns of channels O: rows are channels, taps, and four channels
 * or four taps along the last axis; those that lack are 0.
 */
function matrixOf(weight: Operand): Operand {
  const { shape } = weight.layout;
  const axis = hasWordsOfTaps(shape) ? shape.length - 1 : 1;
  const n = shape[axis]!, missing = wordsOf(n) * WORD - n;
  const whole = missing === 0
    ? weight
    : pad(weight, shape.map((_, k): [number, number] => [0, k === axis ? missing : 0]));
  const split = whole.layout.shape.flatMap((size, k) => k === axis ? [size / WORD, WORD] : [size]);
  const axes = split.map((_, k) => k).filter((k) => k !== 0 && k !== axis + 1);
  const rows = permuted(reshaped(contiguousCopy(whole), split), [...axes, axis + 1, 0]);
  return reshaped(rows, [whole.layout.size / Math.max(shape[0]!, 1), shape[0]!]);
}

/** The weight whose matrix {@link matrixOf} made. */
function weightOf(matrix: Operand, shape: readonly number[]): Operand {
  const axis = hasWordsOfTaps(shape) ? shape.length - 1 : 1;
  const n = shape[axis]!;
  const split = shape.flatMap((size, k) => k === axis ? [wordsOf(n), WORD] : [size]);
  const axes = split.map((_, k) => k).filter((k) => k !== 0 && k !== axis + 1);
  const order = [...axes, axis + 1, 0];
  const rows = reshaped(matrix, order.map((k) => split[k]!));
  const back = split.map((_, k) => order.indexOf(k));
  const whole = reshaped(
    permuted(rows, back),
    shape.map((size, k) => k === axis ? wordsOf(n) * WORD : size),
  );
  return part(whole, whole.layout.sliceAxis(axis, 0, n, 1));
}

/** A weight of bytes [O, C / groups, …] with its zero points, packed for {@link convInteger}. */
export interface PackedConv {
  readonly groups: Operand;
  /** The shape of the weight. */
  readonly weight: readonly number[];
}

/** Packs a weight of bytes [O, C / groups, …] with zero points: one, or [O]. */
export function packConv(name: string, weight: Operand, zeros?: Operand): PackedConv {
  return tidy(() => {
    checkBytes(weight, name);
    const { shape, rank } = weight.layout;
    if (rank < 3 || rank > 5) {
      throw new ShapeError(
        `Cannot ${name} shape ${
          formatShape(shape)
        }: it takes a weight of shape [O, C, …] with 1 to 3 ` +
          "axes of space",
      );
    }
    const { groups } = packBytes(name, matrixOf(weight), zeros);
    return { groups, weight: [...shape] };
  });
}

function infer(call: Call): readonly OutputSpec[] {
  const { inputs: [x, packed, zero], name } = call;
  const attributes = call.attributes as ConvBytesAttributes;
  checkBytes(x, name);
  checkOperand(packed, name);
  checkDevice(x.storage, packed.storage, name);
  const { shape } = x.layout, { weight, groups, padding } = attributes;
  const fail = (why: string): ShapeError =>
    new ShapeError(
      `Cannot ${name} shape ${formatShape(shape)} with a weight of shape ${
        formatShape(weight)
      }: ${why}`,
    );
  if (shape.length !== weight.length) throw fail("they have as many axes");
  const { stride, dilation } = attributes;
  const areFrom = (least: number, list: readonly number[]): boolean =>
    list.every((n) => Number.isSafeInteger(n) && n >= least);
  const fits = [stride, dilation, padding].every(({ length }) => length === shape.length - 2) &&
    areFrom(1, [...stride, ...dilation, groups]) && areFrom(0, padding.flat());
  if (!fits) {
    throw new ArgumentError(
      `Cannot ${name} with stride ${formatShape(stride)}, dilation ${
        formatShape(dilation)
      }, padding ` +
        `${padding.map(formatShape).join(", ")} and ${groups} groups`,
    );
  }
  if (shape[1] !== weight[1]! * groups) {
    throw fail(`${shape[1]} channels in ${groups} groups do not match ${weight[1]} of the weight`);
  }
  if (weight[0]! % groups !== 0) {
    throw fail(`${weight[0]} output channels are no multiple of ${groups} groups`);
  }
  const axes = convAxes(shape, weight, attributes);
  axes.forEach(({ size, kernel, out }, i) => {
    if (kernel > 0 && out > 0) return;
    const padded = size + padding[i]![0] + padding[i]![1];
    throw fail(`the kernel does not fit axis ${i + 2}, of ${padded} with its padding`);
  });
  if (zero !== undefined) {
    checkOperand(zero, name);
    checkDevice(x.storage, zero.storage, name);
    if (zero.storage.info !== x.storage.info) {
      throw new DTypeError(
        `Cannot ${name} ${x.storage.info.name} with a zero point of ${zero.storage.info.name}`,
      );
    }
    if (zero.layout.size !== 1) {
      throw fail(`the zero point is one number, got shape ${formatShape(zero.layout.shape)}`);
    }
  }
  const dtype = sumsDType(call, weight[0]!);
  return call.result([shape[0]!, weight[0]!, ...axes.map(({ out }) => out)], dtype);
}

/**
 * Inputs: bytes [N, C, …], the groups of {@link packConv}, and perhaps the zero point of x, of its dtype, and
 * for bytes as results a bias and factors.
 */
const CONV_BYTES: Op = makeOp({
  kind: "kernel",
  name: "convBytes",
  contiguous: [0, 1, 2, 3, 4],
  outOffset: true,
  infer,
  decompose(call: Call): Operand {
    const attributes = call.attributes as ConvBytesAttributes;
    const { weight: shape, groups } = attributes;
    const { inputs: [, packed, zero] } = call;
    let x = cast(call.operand(0), "int32");
    if (zero !== undefined) {
      const one = reshaped(cast(zero as Operand, "int32"), []);
      x = apply(MAP.sub, x, one);
    }
    const matrix = unpackBytes(call.name, packed as Operand, matrixSizes(shape));
    const rows = reshaped(contiguousCopy(weightOf(matrix, shape)), [
      groups,
      shape[0]! / groups,
      sizeOf(shape.slice(1)),
    ]);
    const result = call.specs[0]!.shape;
    const made = matmul(rows, columnsOf(x, shape, result, attributes), { dtype: "int32" });
    const ones = new Array<number>(shape.length - 2).fill(1);
    return finishSums(call, reshaped(made, result), [shape[0]!, ...ones]);
  },
});

/** The rows and columns of the matrix of a weight. */
function matrixSizes(weight: readonly number[]): { depth: number; columns: number } {
  const axis = hasWordsOfTaps(weight) ? weight.length - 1 : 1;
  const depth = sizeOf(weight.slice(1).map((n, k) => k + 1 === axis ? wordsOf(n) * WORD : n));
  return { depth, columns: weight[0]! };
}

/**
 * The exact int32 convolution of bytes x [N, C, …] less their zero point, of the dtype of x, by a packed
 * weight less its zero points. Padding counts as the zero point. With `output` it becomes bytes.
 */
export function convInteger(
  name: string,
  x: Operand,
  { groups, weight }: PackedConv,
  zero: Operand | undefined,
  attributes: ConvAttributes,
  output?: Requantization,
): Operand {
  return tidy(() => {
    const inputs = withOutput([x, groups, zero], output);
    const all: ConvBytesAttributes = { ...attributes, weight, to: output?.to };
    return dispatch(CONV_BYTES, inputs, all, undefined, name);
  });
}
