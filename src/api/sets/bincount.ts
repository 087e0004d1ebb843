/**
 * How many elements there are of each integer, and weights of elements.
 *
 * @module
 */
import { DTYPE, type DTypeInfo } from "../../base/dtype.ts";
import { ArgumentError, ShapeError } from "../../base/errors.ts";
import { formatShape, sameShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import type { Operand } from "../../memory/operand.ts";
import {
  checkCount,
  checkDevice,
  checkKind,
  checkOperand,
  checkOptions,
  ruleFor,
} from "../../table/infer.ts";
import { type Call, type Input, makeOp, type Op } from "../../table/op.ts";
import { REDUCE } from "../../table/table.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import { flat, onHost, readOnly, runKernel, widened } from "../../ops/sets/op.ts";

// ---- weights -----------------------------------------------------------------------------------

/** The dtype of counts: int32, or with weights that of their sum. */
export function countDType(name: string, x: Operand, weights: Input): DTypeInfo {
  if (weights === undefined) {
    checkCount(name, x.layout, x.layout.size);
    return DTYPE.int32;
  }
  checkOperand(weights, name);
  checkKind(weights.storage.info, "biuf", name);
  checkDevice(x.storage, weights.storage, name);
  if (!sameShape(x.layout.shape, weights.layout.shape)) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(x.layout.shape)} by weights of shape ${
        formatShape(weights.layout.shape)
      }: they must have one shape`,
    );
  }
  return ruleFor(REDUCE.sum, weights.storage.info, name).result;
}

/** Weights in a dtype of kernels: int64, float32 or float64. */
export function ownWeights(weights: Operand | undefined): Operand | undefined {
  if (weights === undefined) return undefined;
  const { storage: { info } } = weights;
  return flat(info.kind === "f" ? widened(weights) : cast(weights, "int64"));
}

/** Adds the optional input of weights. */
export function withWeights(name: string, inputs: Operand[], weights: unknown): Input[] {
  return weights === undefined ? inputs : [...inputs, ownOperand(weights, name)];
}

/** The smallest or the largest element. */
export function extreme(op: typeof REDUCE.min | typeof REDUCE.max, x: Operand): number {
  return Number(readOnly(() => dispatch(op, [x], { axis: undefined })));
}

// ---- bincount ----------------------------------------------------------------------------------

/** More counts than this are an error. */
export const MOST_BINS = 2 ** 31 - 2;

/** Options of {@link bincount}. */
export interface BincountOptions<W = AnyTensor | undefined> {
  /** A weight for each element: the result has sums of weights instead of counts. */
  readonly weights?: W;
  /** The least number of counts; 0 by default. */
  readonly minLength?: number;
}

const BINCOUNT: Op = makeOp({
  kind: "kernel",
  name: "bincount",
  infer(call: Call) {
    const { inputs: [x, weights], name } = call;
    checkOperand(x, name);
    checkKind(x.storage.info, "biu", name);
    if (x.layout.shape.length !== 1) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(x.layout.shape)}: it takes a vector`,
      );
    }
    countDType(name, x, weights);
    return "data-dependent";
  },
  decompose(call: Call) {
    const { name } = call;
    const { minLength } = call.attributes as Required<BincountOptions>;
    const dtype = countDType(name, call.operand(0), call.inputs[1]);
    return onHost(call, ([x, weights]) => {
      const line = flat(x!);
      let bins = minLength;
      if (line.layout.size > 0) {
        const [low, high] = [extreme(REDUCE.min, line), extreme(REDUCE.max, line)];
        if (low < 0 || high > MOST_BINS) {
          throw new ArgumentError(
            `Cannot ${name} ${low < 0 ? low : high}: integers are from 0 to ${MOST_BINS}`,
          );
        }
        bins = Math.max(bins, high + 1);
      }
      const own = ownWeights(weights);
      const inputs = own === undefined ? [line] : [line, own];
      return [cast(runKernel("binCounts", inputs, { bins }), dtype.name)];
    });
  },
});

/**
 * How often each integer from 0 to the largest occurs in a vector (int32), or the sum of its weights,
 * in the dtype that a sum of them has.
 *
 * @throws {ArgumentError} For negative integers.
 * @throws {TraceError} In compiled functions.
 *
 * @example
 * ```ts
 * const x = tensor([0, 2, 2], { dtype: "int32" });
 * bincount(x).toArray(); // => [1, 0, 2]
 * bincount(x, { weights: tensor([0.5, 1, 2]), minLength: 4 }).toArray(); // => [0.5, 0, 3, 0]
 * ```
 */
export function bincount<X extends AnyTensor, W extends AnyTensor | undefined = undefined>(
  x: t.Guard<t.VectorOnly<"bincount", t.ShapeOf<X>, "it takes a vector">, X>,
  options?: BincountOptions<W>,
): Tensor<t.CountDType<W>, [number], X["device"]>;
export function bincount(
  x: AnyTensor,
  options: BincountOptions<AnyTensor | undefined> = {},
): Operand {
  const name = "bincount";
  checkOptions(name, options, ["weights", "minLength"]);
  const { weights, minLength = 0 } = options;
  if (!Number.isInteger(minLength) || minLength < 0 || minLength > MOST_BINS) {
    throw new ArgumentError(
      `${name}() needs an integer from 0 to ${MOST_BINS} as minLength, got ${describe(minLength)}`,
    );
  }
  const inputs = withWeights(name, [ownOperand(x, name)], weights);
  return dispatch(BINCOUNT, inputs, { minLength });
}
