/**
 * Convolutions of 3 × 3 by Winograd's minimal filtering F(4 × 4, 3 × 3), which takes a quarter of the
 * products: tiles of 6 × 6 elements and the kernels are transformed, multiplied element by element
 * and summed over the channels, and tiles of 4 × 4 results are made of the sums.
 *
 * The points of interpolation are 0, ±3/4, ±3/2 and infinity: they give half the error of the usual
 * 0, ±1, ±2 and infinity, and the matrices of x and of the results have exact entries.
 *
 * @module
 */
import { ArgumentError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { formatShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { applyView } from "../../core/apply.ts";
import { type ConvAttributes, winogradOf } from "./problem.ts";
import { cast, contiguousCopy } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { rowDType } from "../softmax_norm/problem.ts";
import type { Operand } from "../../memory/operand.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { VIEWS } from "../../table/views.ts";
import { copyAs, part } from "../../core/composite.ts";
import { fromData } from "../create/from_data.ts";
import { pad } from "../manipulate/op.ts";
import { matmul } from "../matmul/op.ts";
import { checkOperands, convOp, doesNotFit, reshaped, specOf } from "./op.ts";

type Matrix = readonly (readonly number[])[];

/** Of a line of a tile: six elements. */
const TILE: Matrix = [
  [81 / 64, 0, -45 / 16, 0, 1, 0],
  [0, -27 / 16, -9 / 4, 3 / 4, 1, 0],
  [0, 27 / 16, -9 / 4, -3 / 4, 1, 0],
  [0, -27 / 32, -9 / 16, 3 / 2, 1, 0],
  [0, 27 / 32, -9 / 16, -3 / 2, 1, 0],
  [0, 81 / 64, 0, -45 / 16, 0, 1],
];
/** Of a line of a kernel. */
const KERNEL: Matrix = [
  [64 / 81, 0, 0],
  [-128 / 243, -32 / 81, -8 / 27],
  [-128 / 243, 32 / 81, -8 / 27],
  [32 / 243, 16 / 81, 8 / 27],
  [32 / 243, -16 / 81, 8 / 27],
  [0, 0, 1],
];
/** Of a line of six sums: four results. */
const RESULT: Matrix = [
  [1, 1, 1, 1, 1, 0],
  [0, 3 / 4, -3 / 4, 3 / 2, -3 / 2, 0],
  [0, 9 / 16, 9 / 16, 9 / 4, 9 / 4, 0],
  [0, 27 / 64, -27 / 64, 27 / 8, -27 / 8, 1],
];

/** The matrix that applies `matrix` to both axes of a square. */
function squared(matrix: Matrix, { storage: { device, info } }: Operand): Operand {
  const rows = matrix.flatMap((a) => matrix.map((b) => a.flatMap((x) => b.map((y) => x * y))));
  return fromData(rows, { device, dtype: info.name });
}

/** The transformed weight [36, O, C] of a weight [O, C, 3, 3]; of at least 32 bits. */
const WINOGRAD_WEIGHT: Op = makeOp({
  kind: "kernel",
  name: "winogradWeight",
  infer(call: Call): readonly OutputSpec[] {
    const { storage: { info }, layout: { shape: [outputs, inputs] } } = call.operand(0);
    return call.result([36, outputs!, inputs!], rowDType(info));
  },
  decompose(call: Call): Operand {
    const [{ shape, dtype }] = call.specs as [OutputSpec];
    const wide = cast(call.operand(0), dtype.name);
    const kernels = applyView(VIEWS.mT, reshaped(wide, [shape[1]! * shape[2]!, 9]), "mT");
    return reshaped(matmul(squared(KERNEL, wide), kernels), shape);
  },
});

/** The transformed weight of a weight [O, C, 3, 3] that is checked. */
export function winogradWeight(weight: Operand): Operand {
  return dispatch(WINOGRAD_WEIGHT, [weight]);
}

/** Checks the option `winograd` of a convolution with kernels of the sizes `kernel`. */
export function checkWinograd(
  winograd: unknown,
  { stride, dilation, groups }: Pick<ConvAttributes, "stride" | "dilation" | "groups">,
  kernel: readonly number[],
  name: string,
): void {
  if (typeof winograd !== "boolean") {
    throw new ArgumentError(`Cannot ${name} with winograd ${describe(winograd)}: it is a boolean`);
  }
  if (!winograd) return;
  const fits = kernel.length === 2 && kernel.every((n) => n === 3) && groups === 1 &&
    [...stride, ...dilation].every((n) => n === 1);
  if (fits) return;
  throw new ArgumentError(
    `Cannot ${name} with winograd, a kernel of ${formatShape(kernel)}, stride ${
      formatShape(stride)
    }, dilation ${formatShape(dilation)} and ${groups} groups: it takes kernels of [3, 3], and 1 ` +
      "for all others",
  );
}

function infer(call: Call): readonly OutputSpec[] {
  const [p, q] = checkOperands(call, "36, O, C");
  if (q[0] !== 36) throw doesNotFit(call, "it takes 36 matrices");
  if (p[1] !== q[2]) {
    throw doesNotFit(call, `${p[1]} channels do not match ${q[2]} channels of the weight`);
  }
  const { images, rows, axes } = winogradOf(call);
  axes.forEach(({ out }, i) => {
    if (out > 0) return;
    throw doesNotFit(call, `the kernel does not fit axis ${i + 2}, of ${out + 2} with its padding`);
  });
  return specOf(call, [images, rows, ...axes.map(({ out }) => out)]);
}

/** The definition, in which each transform is a product with a matrix. */
function compose(call: Call, x: Operand, weight: Operand): Operand {
  const { images, channels, rows, axes: [height, width] } = winogradOf(call);
  const sizes = [height, width].map(({ tiles }) => 4 * tiles + 2);
  const padded = pad(x, [
    [0, 0],
    [0, 0],
    ...[height, width].map(({ size, padding }, i): [number, number] => [
      padding,
      sizes[i]! - size - padding,
    ]),
  ]);
  const tiles = images * height.tiles * width.tiles;
  const { strides, offset } = padded.layout;
  const [n, c, row, column] = strides as [number, number, number, number];
  const squares = new Layout(
    [6, 6, channels, images, height.tiles, width.tiles],
    [row, column, c, n, 4 * row, 4 * column],
    offset,
  );
  const elements = copyAs(part(padded, squares), [36, channels * tiles]);
  const transformed = reshaped(matmul(squared(TILE, x), elements), [36, channels, tiles]);
  const sums = reshaped(matmul(weight, transformed), [36, rows * tiles]);
  const results = reshaped(
    matmul(squared(RESULT, x), sums),
    [4, 4, rows, images, height.tiles, width.tiles],
  );
  const order = applyView(VIEWS.permute, results, "permute", [3, 2, 4, 0, 5, 1]);
  const whole = copyAs(order, [images, rows, 4 * height.tiles, 4 * width.tiles]);
  if ([height, width].every(({ out, tiles }) => out === 4 * tiles)) return whole;
  const inside = whole.layout.sliceAxis(2, 0, height.out, 1).sliceAxis(3, 0, width.out, 1);
  return contiguousCopy(part(whole, inside));
}

/**
 * x: [N, C, H, W], weight: [36, O, C] of {@link winogradWeight}, bias: [O] and a residual; of
 * {@link ConvAttributes}, padding and activation.
 */
export const WINOGRAD: Op = convOp("winograd", infer, compose);
