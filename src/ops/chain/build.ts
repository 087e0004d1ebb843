/**
 * Builds chains: several elementwise ops that run in one pass over memory.
 *
 * @module
 */
import type { DTypeInfo } from "../../base/dtype.ts";
import { CHAIN } from "./op.ts";
import { dispatch } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import type { ChainAttributes, ChainStep } from "./steps.ts";
import type { Input, MapOp } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";

/** The most tensors that a chain with one result reads in one call of the C library. */
export const MAX_OPERANDS = 7;

/** A value of a chain: input `k`, or −1 − s for the result of step s. */
export type Value = number & { readonly brand: "value of a chain" };

/** A chain whose arithmetic has one dtype. */
export class Chain {
  readonly #inputs: Input[] = [];
  readonly #steps: (Omit<ChainStep, "inputs"> & { readonly inputs: readonly number[] })[] = [];

  /** A chain in the arithmetic of `work`. */
  constructor(readonly work: DTypeInfo) {}

  /** A tensor or a number as a value. */
  input(x: Operand | number): Value {
    return (this.#inputs.push(x) - 1) as Value;
  }

  /** The result of `op`, whose result has the dtype of its arithmetic. */
  step(op: MapOp, ...operands: readonly Value[]): Value {
    return this.#add(op, this.work, operands);
  }

  /** `value` in another dtype. */
  cast(value: Value, to: DTypeInfo): Value {
    return to === this.work ? value : this.#add(MAP.copy, to, [value]);
  }

  #add(op: MapOp, result: DTypeInfo, inputs: readonly Value[]): Value {
    const step = { op, compute: this.work, result, inputs, parameters: [] };
    return -this.#steps.push(step) as Value;
  }

  /** Runs it: the result of the step `output`, of `shape`. */
  run(output: Value, shape: readonly number[], out?: Operand): Operand {
    return dispatch(CHAIN, this.#inputs, this.#attributes([output], shape), out);
  }

  #attributes(outputs: readonly Value[], shape: readonly number[]): ChainAttributes {
    const count = this.#inputs.length;
    const steps = this.#steps.map((step) => ({
      ...step,
      inputs: step.inputs.map((value) => value < 0 ? count - 1 - value : value),
    }));
    return { steps, outputs: outputs.map((s) => -1 - s), shape };
  }
}
