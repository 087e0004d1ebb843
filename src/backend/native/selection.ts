/**
 * The numbers of the kernels that select: partitions, quantiles and modes along the last axis.
 *
 * @module
 */
import type { Call } from "../../table/op.ts";
import type { PartitionAttributes } from "../../ops/sort/partition.ts";
import { QUANTILE_METHODS, type QuantileRowsAttributes } from "../../ops/sort/quantile.ts";
import { sortsLastAxis } from "../../ops/sort/op.ts";
import { checkRun } from "../ffi/checks.ts";

/** Checks all operands; returns the offset of the first input, and the number and length of runs. */
function runsOf(call: Call): [offset: number, runs: number, length: number] {
  const { storage, layout: { offset, size, shape } } = call.operand(0);
  checkRun(call.op.name, 1, offset, size, storage);
  call.outputs.forEach((out, k) => {
    checkRun(call.op.name, k === 0 ? 0 : 2, 0, out!.layout.size, out!.storage);
  });
  const length = shape.at(-1)!;
  return [offset, size / length, length];
}

/** The numbers of `partition` and `argpartition`. */
function planPartition(call: Call): Float64Array {
  const { kth } = call.attributes as PartitionAttributes;
  return Float64Array.of(...runsOf(call), kth.length, ...kth);
}

/** The numbers of `quantilesOfRows`. */
function planQuantiles(call: Call): Float64Array {
  const { q, method, ignoreNaN } = call.attributes as QuantileRowsAttributes;
  const numbers = [QUANTILE_METHODS.indexOf(method), Number(ignoreNaN), q.length, ...q];
  return Float64Array.of(...runsOf(call), ...numbers);
}

/** The numbers of `modesOfRows`. */
function planModes(call: Call): Float64Array {
  return Float64Array.of(...runsOf(call));
}

/** A kernel whose numbers are made by `plan`. */
function selects(supports: (call: Call) => boolean, plan: (call: Call) => Float64Array) {
  return {
    supports,
    prepare(call: Call) {
      const [out, b = null] = call.outputs.map((one) => one!.storage);
      return { numbers: plan(call), out: out!, a: call.operand(0).storage, b };
    },
  };
}

const hasElements = (call: Call): boolean => call.operand(0).layout.size > 0;

/** The kernels by the names of their ops. */
export const SELECTION = {
  partition: selects(sortsLastAxis, planPartition),
  argpartition: selects(sortsLastAxis, planPartition),
  quantilesOfRows: selects(hasElements, planQuantiles),
  modesOfRows: selects(hasElements, planModes),
};
