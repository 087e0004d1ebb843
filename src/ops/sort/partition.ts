/**
 * Partitions: the elements of some ranks where sorting would put them, smaller ones before them.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { ArgumentError } from "../../base/errors.ts";
import { formatShape, listIn, normalizeAxis } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { dispatch } from "../../core/dispatch.ts";
import { alongLast } from "../../core/prepare.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkCount, checkKind, checkOperand } from "../../table/infer.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";

/** Attributes of `partition` and `argpartition`. */
export interface PartitionAttributes {
  /** The ranks from 0 on, in ascending order. */
  readonly kth: readonly number[];
  /** The axis; kernels work along the last one. */
  readonly axis: number;
}

function partitionOp(name: "partition" | "argpartition"): Op {
  return makeOp({
    kind: "kernel",
    name,
    contiguous: [0],
    infer(call: Call) {
      const x = call.operand(0);
      const { storage: { info }, layout: { shape } } = x;
      checkKind(info, "biuf", call.name);
      const axis = normalizeAxis(call.name, call.attributes.axis, shape.length);
      if (name === "argpartition") checkCount(call.name, x.layout, shape[axis]!);
      return [{ shape, dtype: name === "partition" ? info : DTYPE.int32 }];
    },
    prepare: alongLast,
  });
}

const PARTITION = partitionOp("partition");
export const ARGPARTITION = partitionOp("argpartition");

/** Ranks from 0 on, each once, in ascending order. */
function ranksOf(name: string, kth: unknown, axis: number, shape: readonly number[]): number[] {
  const size = shape[axis]!;
  const rankOf = (k: unknown): number => {
    if (typeof k === "number" && Number.isInteger(k) && k >= -size && k < size) {
      return k < 0 ? k + size : k;
    }
    throw new ArgumentError(
      `${name}() needs integers from ${-size} to ${size - 1} as kth along axis ${axis} of shape ${
        formatShape(shape)
      }, got ${describe(k)}`,
    );
  };
  return [...new Set(listIn(kth, rankOf) ?? [rankOf(kth)])].sort((a, b) => a - b);
}

/** The elements along an axis around those of the ranks `kth`, or (argpartition) their indices. */
export function partition(
  name: "partition" | "argpartition",
  x: Operand,
  kth: number | readonly number[],
  along = -1,
): Operand {
  checkOperand(x, name);
  const { shape } = x.layout;
  const axis = normalizeAxis(name, along, shape.length);
  const ranks = ranksOf(name, kth, axis, shape);
  return dispatch(name === "partition" ? PARTITION : ARGPARTITION, [x], { kth: ranks, axis });
}
