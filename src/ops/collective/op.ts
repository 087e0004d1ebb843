/**
 * The ops of collectives. All ranks of a group call them in the same order.
 *
 * @module
 */
import { DTYPE, type DTypeInfo } from "../../base/dtype.ts";
import { DTypeError, ShapeError } from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import type { CollectiveAttributes } from "./problem.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkOperand } from "../../table/infer.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";

/** The input of a call, which has whole elements. */
function inputOf({ inputs: [x], name }: Call): Operand {
  checkOperand(x, name);
  const { info } = x.storage;
  if (info.block > 1) {
    throw new DTypeError(`Cannot ${name} ${info.name}: its elements are blocks; dequantize them`);
  }
  return x;
}

/** Throws for a dtype without the reduction of a call. */
function checkReduction({ name, attributes }: Call, info: DTypeInfo): void {
  const { reduction } = attributes as CollectiveAttributes;
  if (info.kind === "c" && reduction !== "sum") {
    throw new DTypeError(`Cannot ${name} ${info.name}: complex numbers have no order`);
  }
  if (info === DTYPE.bool && reduction === "sum") {
    throw new DTypeError(`Cannot ${name} bool: cast with astype(), or use allMax or allMin`);
  }
}

/** The first axis of an input, which ranks share evenly. */
function sharedSize({ name, attributes }: Call, { layout: { shape } }: Operand): number {
  const { size } = attributes as CollectiveAttributes;
  if (shape.length > 0 && shape[0]! % size === 0) return shape[0]! / size;
  throw new ShapeError(
    `Cannot ${name} shape ${formatShape(shape)} over ${size} ranks: ` +
      (shape.length === 0 ? "it has no axis" : `axis 0 has ${shape[0]} elements`),
  );
}

function collective(name: string, inPlace: boolean, infer: Op["infer"]): Op {
  return makeOp<Op>({
    kind: "kernel",
    name,
    contiguous: [0],
    complex: true,
    inPlace,
    infer,
  });
}

/** Combines the elements of all ranks. */
export const ALL_REDUCE: Op = collective("allReduce", true, (call) => {
  const { layout, storage: { info } } = inputOf(call);
  checkReduction(call, info);
  return call.result(layout.shape, info);
});

/** The elements of all ranks, joined along the first axis. */
export const ALL_GATHER: Op = collective("allGather", false, (call) => {
  const { layout: { shape }, storage } = inputOf(call);
  const [first, ...rest] = shape;
  if (first === undefined) {
    throw new ShapeError(`Cannot ${call.name} a tensor without axes: reshape it to [1]`);
  }
  const { size } = call.attributes as CollectiveAttributes;
  return call.result([first * size, ...rest], storage.info);
});

/** Combines the elements of all ranks, of which each gets its part of the first axis. */
export const REDUCE_SCATTER: Op = collective("reduceScatter", false, (call) => {
  const x = inputOf(call);
  checkReduction(call, x.storage.info);
  return call.result([sharedSize(call, x), ...x.layout.shape.slice(1)], x.storage.info);
});

/** The elements of one rank. */
export const BROADCAST: Op = collective("broadcast", true, (call) => {
  const { layout, storage } = inputOf(call);
  return call.result(layout.shape, storage.info);
});

/** Rank i gets part i of the first axis of every rank, in their order. */
export const ALL_TO_ALL: Op = collective("allToAll", false, (call) => {
  const x = inputOf(call);
  sharedSize(call, x);
  return call.result(x.layout.shape, x.storage.info);
});
