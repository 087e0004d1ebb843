/**
 * The type of the kernels of the shim, and their common parts.
 *
 * @module
 */
import { ATTRIBUTES } from "../../base/plan.ts";
import type { Storage } from "../../memory/storage.ts";
import type { Call, Op } from "../../table/op.ts";

/** The arguments of `rm_run`, or with `more` those of `rm_run_many`. */
export interface Handed {
  /** The plan, or the kernel's own numbers. */
  readonly numbers: Float64Array;
  readonly out: Storage;
  readonly a?: Storage | null;
  readonly b?: Storage | null;
  readonly c?: Storage | null;
  /** Up to five further storages; null for none. */
  readonly more?: readonly (Storage | null)[];
}

/** A kernel of the shim. */
export interface Kernel {
  /** Whether it may call OpenBLAS. */
  readonly usesBlas?: boolean;
  /** Whether it can run the call; `numberOf` gives the shim's number of an op, −1 if it has none. */
  supports(call: Call, numberOf: (op: Op) => number): boolean;
  /** The arguments of the call; null if the kernel has nothing to do. */
  prepare(call: Call, numberOf: (op: Op) => number): Handed | null;
  /** Whether the first output may be an input of its shape and of elements of its size; not by default. */
  inPlace?(call: Call): boolean;
  /** Reads the results that the kernel has written to the numbers. */
  finish?(call: Call, numbers: Float64Array): void;
}

/** The numbers of calls without a plan. */
export const own = new Float64Array(ATTRIBUTES + 8);

/** For kernels that support all calls. */
export const always = (): boolean => true;

/** Writes attributes of a kernel. */
export function setAttributes(numbers: Float64Array, ...attributes: readonly number[]): void {
  for (let i = 0; i < attributes.length; i++) numbers[ATTRIBUTES + i] = attributes[i]!;
}

/** Reads the place of the first index out of range. */
export function takeBadIndex(call: Call, numbers: Float64Array): void {
  call.badIndex = numbers[ATTRIBUTES]!;
}
