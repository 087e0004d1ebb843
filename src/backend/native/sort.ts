/**
 * The kernels that sort and select: orders, partitions, quantiles and modes along the last axis.
 *
 * @module
 */
import { copyInto } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import { type SortAttributes, sortsLastAxis } from "../../ops/sort/op.ts";
import type { PartitionAttributes } from "../../ops/sort/partition.ts";
import { QUANTILE_METHODS, type QuantileRowsAttributes } from "../../ops/sort/quantile.ts";
import type { Call } from "../../table/op.ts";
import { checkRun } from "../ffi/checks.ts";
import { type Kernel, own, setAttributes } from "./kernel.ts";

/** Writes the attributes of a sort of the runs of `values`, along the last axis. */
function setRuns(call: Call, { storage, layout: { offset, shape, size } }: Operand): void {
  const length = shape.at(-1)!;
  checkRun(call.op.name, 0, offset, size, storage);
  const { descending } = call.attributes as SortAttributes;
  setAttributes(own, offset, size / length, length, descending ? 1 : 0);
}

const sort: Kernel = {
  supports: sortsLastAxis,
  prepare(call) {
    const [out] = call.outputs;
    copyInto(out!, call.operand(0));
    setRuns(call, out!);
    return { numbers: own, out: out!.storage };
  },
};

const argsort: Kernel = {
  supports: sortsLastAxis,
  prepare(call) {
    const [x, out] = [call.operand(0), call.outputs[0]!.storage];
    setRuns(call, x);
    checkRun("argsort", 1, 0, x.layout.size, out);
    return { numbers: own, out, a: x.storage };
  },
};

/** The longest rows of results kept in heaps; sorting is faster for most longer ones. */
const SMALL_K = 64;

const topk: Kernel = {
  supports(call) {
    const { k } = call.attributes;
    return sortsLastAxis(call) && k > 0 &&
      (k <= SMALL_K || 16 * k <= call.operand(0).layout.shape.at(-1)!);
  },
  prepare(call) {
    const { storage, layout: { offset, size, shape } } = call.operand(0);
    const [values, indices] = call.outputs as [Operand, Operand];
    const { k, largest, sorted } = call.attributes;
    const n = shape.at(-1)!;
    checkRun("topk", 0, 0, values.layout.size, values.storage);
    checkRun("topk", 1, offset, size, storage);
    checkRun("topk", 2, 0, indices.layout.size, indices.storage);
    setAttributes(own, offset, size / n, n, k, Number(largest), Number(sorted));
    return { numbers: own, out: values.storage, a: storage, b: indices.storage };
  },
};

// ---- selection -------------------------------------------------------------------------------------

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
function selects(supports: (call: Call) => boolean, plan: (call: Call) => Float64Array): Kernel {
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
export const SORT_KERNELS: Readonly<Record<string, Kernel>> = {
  sort,
  argsort,
  topk,
  partition: selects(sortsLastAxis, planPartition),
  argpartition: selects(sortsLastAxis, planPartition),
  quantilesOfRows: selects(hasElements, planQuantiles),
  modesOfRows: selects(hasElements, planModes),
};
