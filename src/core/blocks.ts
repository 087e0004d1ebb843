/**
 * Index kernels as blocks: the elements at an index along the first axis, and the loop over one
 * block.
 *
 * @module
 */
import { Layout } from "../base/layout.ts";
import { type Plan, planMap } from "../base/plan.ts";
import { isOperand, type Operand } from "../memory/operand.ts";
import type { Storage } from "../memory/storage.ts";
import type { Call } from "../ops/op.ts";

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

function block({ shape, strides, offset }: Layout): Layout {
  return new Layout(shape.slice(1), strides.slice(1), offset);
}

function indexVector({ storage, layout }: Operand, indexed: Layout): IndexVector {
  return {
    indices: storage,
    offset: layout.offset,
    count: layout.size,
    size: indexed.shape[0]!,
    stride: indexed.strides[0]!,
  };
}

function blocksOf(out: Operand, source: Operand, index: IndexVector, step: number): Blocks {
  const plan = planMap(block(out.layout), block(source.layout), null, null);
  return { plan, out: out.storage, source: source.storage, index, step };
}

/** The blocks of a gather. */
export function gatherBlocks(call: Call): Blocks {
  const [out, source] = [call.outputs[0]!, call.operand(0)];
  const index = indexVector(call.operand(1), source.layout);
  return blocksOf(out, source, index, out.layout.strides[0]!);
}

/** The blocks of a scatter, with or without addition. */
export function scatterBlocks(call: Call): Blocks {
  const [target, values] = [call.operand(0), call.operand(1)];
  const index = indexVector(call.operand(2), target.layout);
  return blocksOf(target, values, index, values.layout.strides[0]!);
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
