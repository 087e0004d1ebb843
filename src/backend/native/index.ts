/**
 * The kernels that read and write elements at indices.
 *
 * @module
 */
import { type Plan, planMap } from "../../base/plan.ts";
import { alongAxis, gatherBlocks, hasIndexTensor, scatterBlocks } from "../../ops/index/kernels.ts";
import { checkBlocks, checkOperand, checkRun, movesNothing } from "../ffi/checks.ts";
import { always, type Kernel, own, setAttributes, takeBadIndex } from "./kernel.ts";

/** A kernel that moves blocks of elements by a vector of indices. */
function mover(gathers: boolean): Kernel {
  return {
    supports: always,
    prepare(call) {
      const blocks = gathers ? gatherBlocks(call) : scatterBlocks(call);
      const { plan, out, source, step } = blocks;
      const { indices, offset, count, size, stride } = blocks.index;
      if (movesNothing(blocks)) return null;
      const [stepped, indexed] = [(count - 1) * step, (size - 1) * stride];
      checkBlocks(call.op.name, plan, 0, out, gathers ? stepped : indexed);
      checkBlocks(call.op.name, plan, 1, source, gathers ? indexed : stepped);
      checkRun(call.op.name, 2, offset, count, indices);
      setAttributes(plan.data, offset, count, size, stride, step);
      return { numbers: plan.data, out, a: source, b: indices };
    },
    finish: takeBadIndex,
  };
}

const ravelIndex: Kernel = {
  supports: always,
  prepare(call) {
    const [positions, index] = [call.operand(0), call.operand(1)];
    const plan: Plan = planMap(positions.layout, index.layout, null, null);
    if (plan.size === 0) return null;
    checkOperand("ravelIndex", plan, 0, positions.storage);
    checkOperand("ravelIndex", plan, 1, index.storage);
    setAttributes(plan.data, call.attributes.size, call.attributes.stride);
    return { numbers: plan.data, out: positions.storage, a: index.storage };
  },
  finish: takeBadIndex,
};

const takeAlongAxis: Kernel = {
  supports: hasIndexTensor,
  prepare(call) {
    const { plan, size, stride } = alongAxis(call);
    const [out, source] = [call.outputs[0]!.storage, call.operand(0).storage];
    const indices = call.operand(1).storage;
    if (plan.size === 0 || size === 0) return null;
    checkOperand("takeAlongAxis", plan, 0, out);
    checkBlocks("takeAlongAxis", plan, 1, source, (size - 1) * stride);
    checkOperand("takeAlongAxis", plan, 2, indices);
    setAttributes(plan.data, size, stride);
    return { numbers: plan.data, out, a: source, b: indices };
  },
  finish: takeBadIndex,
};

const nonzeroIndices: Kernel = {
  supports: always,
  prepare(call) {
    const { storage, layout: { offset, size } } = call.operand(0);
    const out = call.outputs[0]!.storage;
    if (size === 0) return null;
    checkRun("nonzeroIndices", 1, offset, size, storage);
    setAttributes(own, offset, size, out.length);
    return { numbers: own, out, a: storage };
  },
};

/** The kernels by the names of their ops. */
export const INDEX_KERNELS: Readonly<Record<string, Kernel>> = {
  gather: mover(true),
  scatter: mover(false),
  scatterAdd: mover(false),
  ravelIndex,
  takeAlongAxis,
  nonzeroIndices,
};
