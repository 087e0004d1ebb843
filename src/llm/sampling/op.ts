/**
 * The op that chooses tokens by rows of logits.
 *
 * @module
 */
import { CHANGE_NUMBERS, ROW_NUMBERS } from "../../backend/js/sampling.ts";
import { DTYPE } from "../../base/dtype.ts";
import { ShapeError } from "../../base/errors.ts";
import { formatShape, sameShape } from "../../base/shape.ts";
import { dispatch } from "../../core/dispatch.ts";
import { checkDevice, checkOperand } from "../../table/infer.ts";
import { makeOp, type Op } from "../../table/op.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";

/** A tensor of two axes. */
export type Matrix<D extends "float32" | "float64" | "int32"> = Tensor<D, [number, number]>;

/**
 * Tokens of rows of logits: the numbers of each row ({@link ROW}), ids of changed logits and what
 * changes them, and perhaps masks.
 */
const SAMPLE_ROWS: Op = makeOp({
  kind: "kernel",
  name: "sampleRows",
  contiguous: [0, 1, 2, 3, 4],
  infer(call) {
    const { name, inputs: [logits] } = call;
    checkOperand(logits, name);
    const [rows = 0, vocabulary = 0] = logits.layout.shape;
    const room = call.operand(2).layout.shape[1] ?? 0;
    const wanted = [
      ["float32", [rows, vocabulary]],
      ["float64", [rows, ROW_NUMBERS]],
      ["int32", [rows, room]],
      ["float64", [rows, room, CHANGE_NUMBERS]],
      ["int32", [rows, Math.ceil(vocabulary / 32)]],
    ] as const;
    call.inputs.forEach((given, k) => {
      checkOperand(given, name);
      checkDevice(logits.storage, given.storage, name);
      const [dtype, shape] = wanted[k]!;
      const { storage: { info }, layout } = given;
      if (info.name === dtype && sameShape(layout.shape, shape)) return;
      throw new ShapeError(
        `Cannot ${name} logits ${formatShape(logits.layout.shape)}: input ${k} must be ` +
          `${dtype} ${formatShape(shape)}, got ${info.name} ${formatShape(layout.shape)}`,
      );
    });
    return call.result([rows], DTYPE.int32);
  },
});

/**
 * A token for each row of logits [B, V]; -1 for a row without a finite one.
 *
 * @param numbers The settings of each row, [B, {@link ROW_NUMBERS}].
 * @param ids The tokens whose logits change, [B, E]; the row's number of changes counts them.
 * @param changes Bias, factor and what is subtracted for each of them, [B, E, {@link CHANGE_NUMBERS}].
 * @param mask A bit for each token, [B, ceil(V / 32)]; 0 bans it.
 */
export function sampleRows(
  logits: Matrix<"float32">,
  numbers: Matrix<"float64">,
  ids: Matrix<"int32">,
  changes: AnyTensor,
  mask?: Matrix<"int32">,
): Tensor<"int32", [number]> {
  const inputs = [logits, numbers, ids, changes, ...mask === undefined ? [] : [mask]];
  return dispatch(SAMPLE_ROWS, inputs, {}) as Tensor<"int32", [number]>;
}
