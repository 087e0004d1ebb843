/**
 * The numbers of collectives for the shim.
 *
 * @module
 */
import type { DistributedError } from "../../base/errors.ts";
import {
  type CollectiveAttributes,
  collectiveError,
  countOf,
} from "../../ops/collective/problem.ts";
import { partsOf } from "../../ops/fft/problem.ts";
import type { Storage } from "../../memory/storage.ts";
import type { Call } from "../../table/op.ts";
import { COLLECTIVE, COLLECTIVE_AT, METHOD, REDUCTION } from "../ffi/abi.ts";
import { checkRun } from "../ffi/checks.ts";
import type { Kernel } from "./kernel.ts";

/**
 * Whether there are other ranks: one alone copies its elements. A call without elements runs, too: other
 * ranks may have some.
 */
function runsCollective({ attributes, like }: Call): boolean {
  // Programs record on storages without elements, of which lanes are not known.
  const isKnown = like!.memory === null || like!.info.lanes === 1;
  return (attributes as CollectiveAttributes).size > 1 && isKnown;
}

/** Writes what a call asks for, which ranks compare. */
export function setAsked(numbers: Float64Array, call: Call): void {
  const { op, attributes } = call;
  const { group, method, reduction, root, timeout } = attributes as CollectiveAttributes;
  const { storage } = call.operand(0);
  numbers[COLLECTIVE_AT.kind] = COLLECTIVE[op.name as "allReduce"];
  numbers[COLLECTIVE_AT.group] = group;
  numbers[COLLECTIVE_AT.reduction] = reduction === undefined ? 0 : REDUCTION[reduction];
  numbers[COLLECTIVE_AT.count] = countOf(call);
  numbers[COLLECTIVE_AT.peer] = root ?? 0;
  numbers[COLLECTIVE_AT.tag] = 0;
  numbers[COLLECTIVE_AT.timeout] = timeout;
  numbers[COLLECTIVE_AT.dtype] = partsOf(storage).info.id;
  numbers[COLLECTIVE_AT.lanes] = storage.info.lanes;
  numbers[COLLECTIVE_AT.method] = METHOD[method];
}

/** Writes the numbers of a call. */
export function setCollective(numbers: Float64Array, call: Call): void {
  const [x, out] = [call.operand(0), call.outputs[0]!];
  const { lanes } = x.storage.info;
  setAsked(numbers, call);
  numbers[COLLECTIVE_AT.in] = x.layout.offset * lanes;
  numbers[COLLECTIVE_AT.out] = out.layout.offset * lanes;
  numbers[COLLECTIVE_AT.limit] = (call.attributes as CollectiveAttributes).limit;
}

/** The numbers of a request without a tensor. */
export function plainNumbers(
  kind: keyof typeof COLLECTIVE,
  group: number,
  timeout: number,
): Float64Array {
  const numbers = new Float64Array(COLLECTIVE_AT.numbers);
  numbers[COLLECTIVE_AT.kind] = COLLECTIVE[kind];
  numbers[COLLECTIVE_AT.group] = group;
  numbers[COLLECTIVE_AT.timeout] = timeout;
  if (kind in METHOD) numbers[COLLECTIVE_AT.method] = METHOD[kind as "barrier"];
  return numbers;
}

const numbers = new Float64Array(COLLECTIVE_AT.numbers);

/** The arguments of a call. */
export function planCollective(call: Call): { numbers: Float64Array; out: Storage; a: Storage } {
  const [x, out] = [call.operand(0), call.outputs[0]!];
  checkRun(call.op.name, 0, out.layout.offset, out.layout.size, out.storage);
  checkRun(call.op.name, 1, x.layout.offset, x.layout.size, x.storage);
  setCollective(numbers, call);
  return { numbers, out: partsOf(out.storage), a: partsOf(x.storage) };
}

/** The error of the last call that was planned, by the text of the library. */
export function collectiveFailure(call: Call, text: string): DistributedError {
  const inUse = numbers[COLLECTIVE_AT.count]! > 0;
  return collectiveError(call, numbers[COLLECTIVE_AT.peer]!, text, inUse);
}

const collective: Kernel = { supports: runsCollective, prepare: planCollective };

/** The kernels by the names of their ops. */
export const COLLECTIVE_KERNELS: Readonly<Record<string, Kernel>> = {
  allReduce: collective,
  allGather: collective,
  reduceScatter: collective,
  broadcast: collective,
  allToAll: collective,
};
