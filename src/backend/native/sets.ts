/**
 * The C kernels of sets, searching and histograms: the calls that each supports, and its arguments.
 *
 * @module
 */
import { ATTRIBUTES } from "../../base/plan.ts";
import type { Operand } from "../../memory/operand.ts";
import type { InterpolateAttributes } from "../../ops/sets/op.ts";
import type { Call } from "../../table/op.ts";
import { checkRun } from "../ffi/checks.ts";
import type { Kernel } from "./kernel.ts";

/** The numbers of calls, which have no plan. */
function numbersOf(...attributes: readonly number[]): Float64Array {
  const numbers = new Float64Array(ATTRIBUTES + 12);
  numbers.set(attributes, ATTRIBUTES);
  return numbers;
}

/** Checks the operands of a call, all contiguous; `outs` are the sizes of its outputs. */
function check(call: Call): void {
  const { op: { name }, outputs, inputs } = call;
  outputs.forEach(({ storage, layout }, k) => checkRun(name, k, 0, layout.size, storage));
  inputs.forEach((input, k) => {
    if (input === undefined) return;
    const { storage, layout: { offset, size } } = input as Operand;
    checkRun(name, outputs.length + k, offset, size, storage);
  });
}

const hasElements = (call: Call): boolean => call.operand(0).layout.size > 0;

/** 16-bit floats are cast by callers. */
const isPlain = (call: Call): boolean => {
  const { info } = call.operand(0).storage;
  return hasElements(call) && !(info.kind === "f" && info.bytes === 2);
};

const uniqueRuns: Kernel = {
  supports: hasElements,
  prepare(call) {
    check(call);
    const { storage: a, layout: { offset, size } } = call.operand(0);
    const [values, starts, found] = call.outputs.map(({ storage }) => storage);
    const { equalNan } = call.attributes as { readonly equalNan: boolean };
    const numbers = numbersOf(offset, size, Number(equalNan), Number(starts!.length > 0));
    return { numbers, out: values!, a, b: starts!, c: found! };
  },
};

const runIndices: Kernel = {
  supports: hasElements,
  prepare(call) {
    check(call);
    const [order, starts] = [call.operand(0), call.operand(1)];
    const numbers = numbersOf(
      order.layout.offset,
      order.layout.size,
      starts.layout.offset,
      starts.layout.size,
    );
    return { numbers, out: call.outputs[0]!.storage, a: order.storage, b: starts.storage };
  },
};

const uniqueTable: Kernel = {
  supports: hasElements,
  prepare(call) {
    check(call);
    const { storage: a, layout: { offset, size: n } } = call.operand(0);
    const { low, size, full } = call.attributes as { low: number; size: number; full: boolean };
    const [out, b, c, inverse, found] = call.outputs.map(({ storage }) => storage);
    const numbers = numbersOf(offset, n, low, size, Number(full));
    return { numbers, out: out!, a, b: b!, c: c!, more: [inverse!, found!] };
  },
};

/** A kernel of two contiguous operands and a flag. */
function pair(flag: "invert" | "right"): Kernel {
  return {
    supports: (call) => isPlain(call) && call.operand(1).layout.size > 0,
    prepare(call) {
      check(call);
      const [a, b] = [call.operand(0), call.operand(1)];
      const numbers = numbersOf(
        a.layout.offset,
        a.layout.size,
        b.layout.offset,
        b.layout.size,
        Number((call.attributes as Record<string, boolean>)[flag]),
      );
      return { numbers, out: call.outputs[0]!.storage, a: a.storage, b: b.storage };
    },
  };
}

const interpolate: Kernel = {
  supports: isPlain,
  prepare(call) {
    check(call);
    const [x, xs, ys] = [call.operand(0), call.operand(1), call.operand(2)];
    const { left, right } = call.attributes as InterpolateAttributes;
    const numbers = numbersOf(
      x.layout.offset,
      x.layout.size,
      xs.layout.offset,
      xs.layout.size,
      ys.layout.offset,
      Number(left !== undefined),
      left ?? 0,
      Number(right !== undefined),
      right ?? 0,
    );
    return {
      numbers,
      out: call.outputs[0]!.storage,
      a: x.storage,
      b: xs.storage,
      c: ys.storage,
    };
  },
};

const bins: Kernel = {
  supports: isPlain,
  prepare(call) {
    check(call);
    const { storage: a, layout: { offset, size } } = call.operand(0);
    const { bins, uniform } = call.attributes as { bins: number; uniform?: boolean };
    const counts = call.op.name === "binCounts";
    const edges = counts ? undefined : call.operand(1);
    const weights = call.inputs[counts ? 1 : 2] as Operand | undefined;
    const numbers = numbersOf(
      offset,
      size,
      bins,
      edges?.layout.offset ?? 0,
      Number(uniform === true),
      Number(weights !== undefined),
      weights?.layout.offset ?? 0,
    );
    return {
      numbers,
      out: call.outputs[0]!.storage,
      a,
      b: edges?.storage ?? null,
      c: weights?.storage ?? null,
    };
  },
};

/** The numbers of reductions in C. */
const REDUCTIONS = ["sum", "prod", "max", "min"];

const scatterFold: Kernel = {
  supports: (call) => hasElements(call) && call.operand(2).layout.size > 0,
  prepare(call) {
    check(call);
    const [x, values, indices] = call.inputs as [Operand, Operand, Operand];
    const { reduce, includeSelf } = call.attributes as { reduce: string; includeSelf: boolean };
    const numbers = numbersOf(
      x.layout.offset,
      x.layout.size,
      values.layout.offset,
      indices.layout.offset,
      indices.layout.size,
      REDUCTIONS.indexOf(reduce),
      Number(!includeSelf),
    );
    return { numbers, out: x.storage, a: values.storage, b: indices.storage };
  },
  finish(call, numbers) {
    call.badIndex = numbers[ATTRIBUTES]!;
  },
};

/** The kernels by the names of their ops. */
export const SET_KERNELS: Readonly<Record<string, Kernel>> = {
  uniqueRuns,
  runIndices,
  uniqueTable,
  isAmong: pair("invert"),
  searchIndices: pair("right"),
  interpolate,
  binCounts: bins,
  histogramCounts: bins,
  binIndices: bins,
  scatterFold,
};
