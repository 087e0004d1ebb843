/**
 * The kernels of random numbers.
 *
 * @module
 */
import type {
  CategoricalAttributes,
  DeviateAttributes,
  RandomAttributes,
} from "../../ops/random/op.ts";
import type { Call } from "../../table/op.ts";
import { DEVIATE, RANDOM } from "../ffi/abi.ts";
import { checkRun } from "../ffi/checks.ts";
import { always, type Kernel, own, setAttributes, takeBadIndex } from "./kernel.ts";

const random: Kernel = {
  supports: always,
  prepare(call) {
    const { distribution, key: [key0, key1], low, high } = call.attributes as RandomAttributes;
    const { storage } = call.operand(0);
    if (storage.length === 0) return null;
    const words = new Uint32Array(new BigInt64Array([low, high - low]).buffer);
    const keys = [key0 >>> 0, key1 >>> 0];
    setAttributes(own, RANDOM[distribution], ...keys, ...words, storage.length);
    return { numbers: own, out: storage };
  },
};

/** Checks a contiguous operand, and returns its offset. */
function offsetOf(call: Call, k: number): number {
  const { storage, layout: { offset, size } } = call.operand(k);
  checkRun(call.op.name, k + 1, offset, size, storage);
  return offset;
}

const deviates: Kernel = {
  supports: always,
  prepare(call) {
    const { distribution } = call.attributes as DeviateAttributes;
    const [key, a, b] = [call.operand(0), call.operand(1), call.operand(2)];
    const { storage, layout: { size } } = call.outputs[0]!;
    if (size === 0) return null;
    checkRun("deviates", 0, 0, size, storage);
    const [many, pairs] = [Number(a.layout.size > 1), Number(b.layout.size > 1)];
    const offsets = [offsetOf(call, 0), offsetOf(call, 1), offsetOf(call, 2)];
    setAttributes(own, DEVIATE[distribution], size, many, pairs, ...offsets);
    return { numbers: own, out: storage, a: key.storage, b: a.storage, c: b.storage };
  },
  finish: takeBadIndex,
};

const categorical: Kernel = {
  supports: always,
  prepare(call) {
    const { logits, draws } = call.attributes as CategoricalAttributes;
    const [key, weights] = [call.operand(0), call.operand(1)];
    const { storage, layout: { size } } = call.outputs[0]!;
    if (size === 0) return null;
    const length = weights.layout.shape.at(-1)!;
    checkRun("categorical", 0, 0, size, storage);
    const offsets = [offsetOf(call, 0), offsetOf(call, 1)];
    setAttributes(own, draws, size / draws, length, Number(logits), ...offsets);
    return { numbers: own, out: storage, a: key.storage, b: weights.storage };
  },
  finish: takeBadIndex,
};

/** The kernels by the names of their ops. */
export const RANDOM_KERNELS: Readonly<Record<string, Kernel>> = {
  random,
  deviates,
  categorical,
};
