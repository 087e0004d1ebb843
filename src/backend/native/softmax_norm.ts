/**
 * The kernels of softmax and norms, and of the derivatives of norms.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { sizeOf } from "../../base/shape.ts";
import type { Operand } from "../../memory/operand.ts";
import {
  isRowCall,
  isRun,
  type NormBackwardAttributes,
  rowsOf,
} from "../../ops/softmax_norm/problem.ts";
import { checkRun } from "../ffi/checks.ts";
import { always, type Kernel, own, setAttributes } from "./kernel.ts";

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

/** The elements of the vectors of `normBackward`. */
const LANES = 16;

/** The derivatives of norms of rows that are whole vectors of float32. */
const normBackward: Kernel = {
  inPlace: always,
  supports({ inputs, attributes }) {
    const [x, g, weight] = inputs as [Operand, Operand, Operand?];
    const { axes } = attributes as NormBackwardAttributes;
    const { rank, shape, size } = x.layout;
    const columns = sizeOf(shape.slice(rank - axes.length));
    return size > 0 && columns % LANES === 0 && axes.every((k) => k >= rank - axes.length) &&
      x.storage.info === DTYPE.float32 && g.storage.info === DTYPE.float32 &&
      isRun(weight, DTYPE.float32, columns);
  },
  prepare({ inputs, outputs, attributes }) {
    const [x, g, weight] = inputs as [Operand, Operand, Operand?];
    const { axes, epsilon, isCentred } = attributes as NormBackwardAttributes;
    const { rank, shape, size } = x.layout;
    const columns = sizeOf(shape.slice(rank - axes.length));
    const [out, ...more] = outputs.map(({ storage }) => storage);
    checkRun("normBackward", 0, 0, size, out!);
    checkRun("normBackward", 1, x.layout.offset, size, x.storage);
    if (weight !== undefined) checkRun("normBackward", 2, 0, columns, weight.storage);
    checkRun("normBackward", 3, g.layout.offset, size, g.storage);
    more.forEach((sums, i) => checkRun("normBackward", 4 + i, 0, columns, sums));
    setAttributes(
      own,
      ...[size / columns, columns, x.layout.offset, g.layout.offset, epsilon, Number(isCentred)],
    );
    const handed = { numbers: own, out: out!, a: x.storage, b: weight?.storage ?? null };
    return { ...handed, c: g.storage, ...more.length === 0 ? {} : { more } };
  },
};

/** The kernels by the names of their ops. */
export const ROW_KERNELS: Readonly<Record<string, Kernel>> = {
  softmax: rows,
  logSoftmax: rows,
  layerNorm: rows,
  rmsNorm: rows,
  normBackward,
};
