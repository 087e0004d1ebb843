/**
 * Index kernels as blocks: the elements at an index along an axis, and the loop over one block.
 *
 * @module
 */
import { Layout } from "../../base/layout.ts";
import { type Plan, planBlocks, planMap } from "../../base/plan.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import type { GatherAttributes } from "../../table/kernels.ts";
import type { Call } from "../../table/op.ts";

/** A vector of indices into an axis. */
export interface IndexVector {
  /** The indices, of any integer dtype. */
  readonly indices: Storage;
  /** The offset of the first index. */
  readonly offset: number;
  /** The number of indices. */
  readonly count: number;
  /** The size of the axis that they index. */
  readonly size: number;
  /** The distance between neighbors along that axis, in elements. */
  readonly stride: number;
}

/** The blocks that an index kernel moves. */
export interface Blocks {
  /** The loop over one block: operand 0 is written, operand 1 read. */
  readonly plan: Plan;
  readonly out: Storage;
  readonly source: Storage;
  readonly index: IndexVector;
  /** The distance between blocks in the operand that is not indexed, in elements. */
  readonly step: number;
}

/** The indices, a contiguous operand, into an axis of the layout `indexed`. */
function indexVector({ storage, layout }: Operand, indexed: Layout, axis: number): IndexVector {
  return {
    indices: storage,
    offset: layout.offset,
    count: layout.size,
    size: indexed.shape[axis]!,
    stride: indexed.strides[axis]!,
  };
}

/** The distance between blocks along `picked` axes without gaps, from `axis` on. */
function stepOf({ shape, strides }: Layout, axis: number, picked: number): number {
  for (let i = axis + picked - 1; i >= axis; i--) if (shape[i] !== 1) return strides[i]!;
  return 0;
}

/** The blocks of a gather. */
export function gatherBlocks(call: Call): Blocks {
  const { axis } = call.attributes as GatherAttributes;
  const [out, source, indices] = [call.outputs[0]!, call.operand(0), call.operand(1)];
  const picked = indices.layout.shape.length;
  const plan = planBlocks(out.layout, picked, source.layout, 1, axis);
  const index = indexVector(indices, source.layout, axis);
  const step = stepOf(out.layout, axis, picked);
  return { plan, out: out.storage, source: source.storage, index, step };
}

/** The blocks of a scatter, with or without addition. */
export function scatterBlocks(call: Call): Blocks {
  const { axis } = call.attributes as GatherAttributes;
  const [target, values, indices] = [call.operand(0), call.operand(1), call.operand(2)];
  const picked = indices.layout.shape.length;
  const plan = planBlocks(target.layout, 1, values.layout, picked, axis);
  const index = indexVector(indices, target.layout, axis);
  const step = stepOf(values.layout, axis, picked);
  return { plan, out: target.storage, source: values.storage, index, step };
}

/** True for a call of `takeAlongAxis` with a tensor of indices, which kernels support. */
export function hasIndexTensor({ inputs }: Call): boolean {
  return isOperand(inputs[1]);
}

/** The axis of `takeAlongAxis`, and its loop: the output, the source at index 0, the indices. */
export function alongAxis(call: Call): { plan: Plan; size: number; stride: number } {
  const [out, source, indices] = [call.outputs[0]!, call.operand(0), call.operand(1)];
  const { axis: given } = call.attributes as { axis: number };
  const { shape, strides, offset } = source.layout;
  const axis = given < 0 ? given + shape.length : given;
  const first = new Layout(shape.with(axis, 1), strides.with(axis, 0), offset);
  const { shape: wanted } = out.layout;
  const plan = planMap(out.layout, first.broadcastTo(wanted), indices.layout, null);
  return { plan, size: shape[axis]!, stride: strides[axis]! };
}
