/**
 * The derivatives of convolutions by their weight, and of pooling: ops of their own, so that windows are
 * not copied.
 *
 * @module
 */
import { ShapeError } from "../../base/errors.ts";
import { formatShape, sameShape, sizeOf } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { copyAs, empty } from "../../core/composite.ts";
import { cast, writeValue } from "../../core/copy.ts";
import { dispatchAll, run } from "../../core/dispatch.ts";
import { inDType } from "../../core/prepare.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand } from "../../table/infer.ts";
import { Call, makeOp, type Op } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { INDEX } from "../index/kernels.ts";
import { iota } from "../index/selection.ts";
import { matmul } from "../matmul/op.ts";
import { rowDType } from "../softmax_norm/problem.ts";
import { reshaped, windowsOf } from "./op.ts";
import { MAX_POOL_INDICES, type PoolAttributes, pooledShape } from "./pool.ts";
import { convAxes, type ConvWeightAttributes } from "./problem.ts";

/** Checks that the two inputs are floats on one device. */
function checkFloats(call: Call): [x: readonly number[], g: readonly number[]] {
  const { inputs: [x, g], name } = call;
  for (const one of [x, g]) {
    checkOperand(one, name);
    checkDevice((x as Operand).storage, one.storage, name);
    checkKind(one.storage.info, "f", name);
  }
  return [call.operand(0).layout.shape, call.operand(1).layout.shape];
}

/** The product of the results of all images by copies of the elements that they meet. */
function byWindows(x: Operand, g: Operand, attributes: ConvWeightAttributes): Operand {
  const { groups, weight } = attributes;
  const kernel = weight.slice(2), out = g.layout.shape.slice(2);
  const [images, channels] = [g.layout.shape[0]!, weight[1]!];
  const windows = windowsOf(x, kernel, out, attributes);
  // [G, C, kernel, N, out]
  const rank = windows.layout.rank, taps = kernel.length;
  const order = [
    ...Array.from({ length: 2 + taps }, (_, k) => k + 1),
    0,
    ...Array.from({ length: rank - 3 - taps }, (_, k) => k + 3 + taps),
  ];
  const places = images * sizeOf(out), rows = weight[0]! / groups;
  const columns = copyAs(applyView(VIEWS.permute, windows, "permute", order), [
    groups,
    channels * sizeOf(kernel),
    places,
  ]);
  const split = reshaped(g, [images, groups, rows, sizeOf(out)]);
  const results = copyAs(applyView(VIEWS.permute, split, "permute", [1, 2, 0, 3]), [
    groups,
    rows,
    places,
  ]);
  return reshaped(matmul(results, applyView(VIEWS.mT, columns, "mT")), weight);
}

/**
 * The derivative by the weight of a convolution of x, [N, C, …], whose results have the derivative g,
 * [N, O, …]; of g's results alone, if x has room for more.
 */
export const CONV_WEIGHT_GRAD: Op = makeOp({
  kind: "kernel",
  name: "convWeightGrad",
  contiguous: [0, 1],
  infer(call: Call) {
    const attributes = call.attributes as ConvWeightAttributes;
    const { groups, weight } = attributes;
    const [x, g] = checkFloats(call);
    const fits = x.length === weight.length && g.length === x.length && x[0] === g[0] &&
      x[1] === weight[1]! * groups && g[1] === weight[0] &&
      convAxes(x, weight, attributes).every(({ out }, i) => g[i + 2]! <= out);
    if (!fits) {
      throw new ShapeError(
        `Cannot ${call.name} shape ${formatShape(x)} by ${formatShape(g)}: a convolution with a ` +
          `weight of shape ${formatShape(weight)} has other results`,
      );
    }
    return call.result(weight, call.operand(1).storage.info);
  },
  prepare: (call: Call) => inDType(call, rowDType(call.specs[0]!.dtype)),
  decompose(call: Call): Operand {
    const { dtype } = call.specs[0]!;
    const [x, g] = [0, 1].map((k) => cast(call.operand(k), rowDType(dtype).name));
    return cast(byWindows(x!, g!, call.attributes as ConvWeightAttributes), dtype.name);
  },
});

/** The places of the largest elements of x's windows in all of x, int64, as a run. */
export function placesOf(x: Operand, { windows }: PoolAttributes): Operand {
  const { shape } = x.layout;
  const size = sizeOf(shape.slice(-windows.length)), planes = x.layout.size / size;
  const [, found] = dispatchAll(MAX_POOL_INDICES, [x], { windows });
  const starts = apply(MAP.mul, reshaped(iota(x.storage, planes), [planes, 1]), size);
  const at = reshaped(found!, [planes, found!.layout.size / planes]);
  return reshaped(apply(MAP.add, at, starts), [at.layout.size]);
}

/**
 * The derivative by x of the largest elements of its windows, which have the derivative g: the first of
 * equal ones gets it. Windows slide.
 */
export const MAX_POOL_GRAD: Op = makeOp({
  kind: "kernel",
  name: "maxPoolGrad",
  contiguous: [0, 1],
  infer(call: Call) {
    const [x, g] = checkFloats(call);
    const results = pooledShape(call);
    if (!sameShape(g, results)) {
      throw new ShapeError(
        `Cannot ${call.name} shape ${formatShape(x)} by ${formatShape(g)}: its windows have ` +
          `results of shape ${formatShape(results)}`,
      );
    }
    return call.result(x, call.operand(1).storage.info);
  },
  decompose(call: Call): Operand {
    const [x, g] = [call.operand(0), call.operand(1)];
    const whole = empty([x.layout.size], x, g.storage.info);
    writeValue(whole, 0);
    if (x.layout.size > 0) {
      const inputs = [
        whole,
        reshaped(g, [g.layout.size]),
        placesOf(x, call.attributes as PoolAttributes),
      ];
      run(new Call(INDEX.scatterAdd, "add", inputs, { axis: 0 }));
    }
    return reshaped(whole, x.layout.shape);
  },
});
