/**
 * Rows of a table by their indices.
 *
 * @module
 */
import { DTypeError, ShapeError } from "../base/errors.ts";
import { formatShape } from "../base/shape.ts";
import { apply } from "../core/apply.ts";
import { cast } from "../core/copy.ts";
import { dispatch, run } from "../core/dispatch.ts";
import { dispose } from "../core/handles.ts";
import { ownOperand } from "../core/foreign.ts";
import type { Operand } from "../memory/operand.ts";
import { checkDevice, checkOperand } from "../table/infer.ts";
import { INDEX } from "../ops/index/kernels.ts";
import { Call, makeOp, type Op } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import { isQuantized } from "../ops/quantized/dtypes.ts";
import { dequantize } from "../ops/quantized/op.ts";
import { outOfRange, selectAlong, spend } from "../ops/index/selection.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import type { Like } from "./arguments.ts";

/** `indices` without negative ones that count from the end: those become too negative for `size`. */
function withoutWrap(indices: Operand, size: number): Operand {
  const { kind, bytes } = indices.storage.info;
  if (kind === "u") return indices;
  const wide = bytes < 4 ? cast(indices, "int32") : indices;
  return apply(MAP.where, apply(MAP.less, wide, 0), apply(MAP.sub, wide, size), wide);
}

/** The rows of a weight [V, D] at indices, none of which counts from the end. */
const EMBEDDING: Op = makeOp({
  kind: "kernel",
  name: "embedding",
  infer(call) {
    const { inputs: [indices, weight], name } = call;
    checkOperand(indices, name);
    checkOperand(weight, name);
    checkDevice(indices.storage, weight.storage, name);
    const { info: { kind, name: dtype } } = indices.storage;
    if (kind !== "i" && kind !== "u") {
      throw new DTypeError(`Cannot ${name} by ${dtype}: indices are integers`);
    }
    const { shape } = weight.layout;
    if (shape.length !== 2) {
      throw new ShapeError(
        `Cannot ${name} with a weight of shape ${formatShape(shape)}: it is [V, D]`,
      );
    }
    return [{ shape: [...indices.layout.shape, shape[1]!], dtype: weight.storage.info }];
  },
  decompose(call) {
    const { name } = call;
    const [indices, weight] = [call.operand(0), call.operand(1)];
    const plain = withoutWrap(indices, weight.layout.shape[0]!);
    return spend(selectAlong(name, weight, plain, 0, false), (what) => {
      const gather = new Call(INDEX.gather, name, [weight, what.indices], { axis: 0 });
      run(gather);
      // The error has the index that was given.
      if (gather.badIndex < 0) return gather.outputs[0]!;
      throw outOfRange(name, weight.layout, 0, indices, gather.badIndex);
    });
  },
});

/**
 * The rows of `weight`: [V, D] at `indices` of any integer dtype and shape: [..., D]. Those of a
 * quantized weight are dequantized.
 *
 * @throws {DTypeError} For indices that are no integers.
 * @throws {ShapeError} For a weight that is no matrix.
 * @throws {IndexError} For an index outside of 0 … V − 1. Negative ones do not count from the
 *   end, unlike those of `take`: they often stand for padding or unknown tokens.
 *
 * @example
 * ```ts
 * const weight = tensor([[0, 0], [1, 2], [3, 4]]);
 * nn.embedding(tensor([2, 1], { dtype: "int32" }), weight).toArray(); // => [[3, 4], [1, 2]]
 * ```
 */
export function embedding<W extends AnyTensor>(indices: AnyTensor, weight: W): Like<W>;
export function embedding(indices: AnyTensor, weight: AnyTensor): Operand {
  const [index, table] = [indices, weight].map((x) => ownOperand(x, "embedding"));
  const rows = dispatch(EMBEDDING, [index!, table!]);
  if (!isQuantized(rows.storage.info)) return rows;
  try {
    return dequantize(rows);
  } finally {
    dispose(rows);
  }
}
