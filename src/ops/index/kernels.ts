/**
 * The index kernels: their meaning as index formulas, and the blocks that backends move.
 *
 * `i` is at the axis of the call, `…` stands for the others.
 *
 * @module
 */
// First: the ids of ops of the table are their places in it.
import "../../table/table.ts";
import { DTYPE } from "../../base/dtype.ts";
import { Layout } from "../../base/layout.ts";
import { type Plan, planBlocks, planMap } from "../../base/plan.ts";
import { pickedShape } from "../../base/shape.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import { type Call, type Inferred, makeOp, type Op } from "../../table/op.ts";

function kernel(
  name: string,
  infer: (call: Call) => Inferred,
  more: Pick<Op, "writes" | "contiguous" | "moves" | "adds"> = {},
): Op {
  return makeOp<Op>({ kind: "kernel", name, infer, ...more });
}

/** Attributes of {@link INDEX}'s `gather`, `scatter` and `scatterAdd`. */
export interface GatherAttributes {
  /** The indexed axis, counted from the first. */
  readonly axis: number;
}

/**
 * The index kernels. Indices are contiguous, of any integer dtype and rank; `i` stands for as many
 * axes. Negative indices count from the end. `call.badIndex` is the first one out of range: then
 * nothing has been written.
 */
export const INDEX = {
  /** out[…, i, …] = source[…, indices[i], …]; inputs: source, indices. */
  gather: kernel("gather", (call) => {
    const { storage, layout } = call.operand(0);
    const { axis } = call.attributes as GatherAttributes;
    const shape = pickedShape(layout.shape, axis, call.operand(1).layout.shape, call.name);
    return [{ shape, dtype: storage.info }];
  }, { moves: true }),
  /**
   * target[…, indices[i], …] = values[…, i, …], later ones last; inputs: target, values, indices.
   */
  scatter: kernel("scatter", () => [], { moves: true, writes: [0] }),
  /**
   * target[…, indices[i], …] += values[…, i, …], in the arithmetic of the dtype; inputs as for
   * scatter.
   */
  scatterAdd: kernel("scatterAdd", () => [], { adds: true, writes: [0] }),
  /**
   * positions[…] += index[…] · stride, with the index checked against `size`; inputs: positions
   * (int32 or int64), index. Combines several indices into one.
   */
  ravelIndex: kernel("ravelIndex", () => [], { writes: [0] }),
  /**
   * The flat indices, as int32, of the first `count` nonzero elements, and zeros if there are fewer;
   * input: x.
   */
  nonzeroIndices: kernel(
    "nonzeroIndices",
    (call) => [{ shape: [call.attributes.count], dtype: DTYPE.int32 }],
    { contiguous: [0] },
  ),
} as const satisfies Record<string, Op>;

// ---- blocks ----------------------------------------------------------------------------------------

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
