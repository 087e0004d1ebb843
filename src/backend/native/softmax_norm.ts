/**
 * The kernel of softmax and norms.
 *
 * @module
 */
import { isRowCall, rowsOf } from "../../ops/softmax_norm/problem.ts";
import { checkRun } from "../ffi/checks.ts";
import { type Kernel, own, setAttributes } from "./kernel.ts";

/** Softmax and norms along contiguous rows of floats. */
const rows: Kernel = {
  supports: isRowCall,
  prepare(call) {
    const [out, x] = [call.outputs[0]!.storage, call.operand(0)];
    const { rows, columns, weight, bias, epsilon } = rowsOf(call);
    const { offset } = x.layout;
    const { name } = call.op;
    checkRun(name, 0, 0, rows * columns, out);
    checkRun(name, 1, offset, rows * columns, x.storage);
    if (weight !== null) checkRun(name, 2, 0, columns, weight);
    if (bias !== null) checkRun(name, 3, 0, columns, bias);
    setAttributes(own, rows, columns, offset, epsilon);
    return { numbers: own, out, a: x.storage, b: weight, c: bias };
  },
};

/** The kernels by the names of their ops. */
export const ROW_KERNELS: Readonly<Record<string, Kernel>> = {
  softmax: rows,
  logSoftmax: rows,
  layerNorm: rows,
  rmsNorm: rows,
};
