/**
 * What tensors of other libraries have and tensors here lack: its use throws an error that names what to
 * write, where JavaScript would give undefined.
 *
 * Knows nothing of tensors.
 *
 * @module
 */
import { IndexError } from "./errors.ts";
import { typeError } from "./stack.ts";

/** Methods of NumPy, PyTorch and TensorFlow.js by another name here. */
const METHODS: Readonly<Record<string, string>> = {
  argMax: "argmax(axis)",
  argMin: "argmin(axis)",
  amax: "max(axis)",
  amin: "min(axis)",
  arraySync: "toArray()",
  bmm: "matmul(other)",
  broadcast_to: "broadcastTo(shape)",
  cast: "astype(dtype)",
  clamp: "clip(min, max)",
  clipByValue: "clip(min, max)",
  clone: "copy()",
  cumprod: "cumulativeProd(axis)",
  cumsum: "cumulativeSum(axis)",
  dataSync: "toTypedArray()",
  eq: "equal(other)",
  expand: "broadcastTo(shape)",
  expand_dims: "expandDims(axis)",
  ge: "greaterEqual(other)",
  gt: "greater(other)",
  index_select: "take(indices, axis)",
  le: "lessEqual(other)",
  logSumExp: "logsumexp(axis)",
  log_softmax: "logSoftmax(axis)",
  lt: "less(other)",
  matMul: "matmul(other)",
  mm: "matmul(other)",
  ne: "notEqual(other)",
  numel: "size",
  numpy: "toTypedArray()",
  ravel: "flatten()",
  swapaxes: "swapAxes(axis, axis)",
  t: "T",
  tolist: "toArray()",
};

/** The last index of rows that programs read as they do of arrays. */
const MOST_INDEX = 9;

/** Puts what tensors lack behind the methods of a class of tensors, where lists of them do not show it. */
export function refuseAbsent(prototype: object): void {
  const absent: object = Object.create(Object.getPrototypeOf(prototype));
  for (const [name, instead] of Object.entries(METHODS)) {
    const value = (): never => {
      throw typeError(`Cannot ${name}: a tensor has no such method; write x.${instead}`);
    };
    Object.defineProperty(absent, name, { value, writable: true, configurable: true });
  }
  for (let i = -1; i <= MOST_INDEX; i++) {
    const get = (): never => {
      throw new IndexError(
        `Cannot read x[${i}]: write x.slice(${i}) for a row, or x.get(${i}, ...) for an element`,
      );
    };
    const set = (): never => {
      throw new IndexError(`Cannot write x[${i}]: write x.set([${i}], values)`);
    };
    Object.defineProperty(absent, String(i), { get, set, configurable: true });
  }
  Object.setPrototypeOf(prototype, absent);
}
