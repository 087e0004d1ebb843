/**
 * The op of chains, and the form in which backends run them.
 *
 * @module
 */
import { writeCopy } from "../../core/copy.ts";
import { DTYPE, type DType, type DTypeInfo, type Scalar } from "../../base/dtype.ts";
import { sameShape } from "../../base/shape.ts";
import { allocateIn } from "../../memory/device.ts";
import { writeElement } from "../../memory/element.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import {
  type ChainAttributes,
  type ChainConstant,
  type ChainForm,
  type ChainStep,
  inferChain,
  isCondition,
} from "./steps.ts";
import { isScalar } from "../../table/infer.ts";
import { type Call, type Input, makeOp, type MapOp, type Op } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { SCALAR_LAYOUT } from "../../core/calls.ts";
import { comparisonWithin } from "../../core/compare.ts";
import { dispatch } from "../../core/dispatch.ts";
import { dispose, wrap } from "../../core/handles.ts";
import { newOutput } from "../../core/write.ts";

/**
 * A chain of elementwise ops, {@link ChainAttributes}: its inputs are tensors and scalars, its
 * outputs the results of the steps that it names. Scalars are read in the dtype that the step
 * computes in.
 */
export const CHAIN: Op = makeOp<Op>({
  kind: "kernel",
  name: "chain",
  strided: true,
  inPlace: true,
  infer: inferChain,
  decompose,
});

/** Runs the steps one by one. */
function decompose(call: Call): Operand | Operand[] {
  const { steps, outputs, shape } = call.attributes as ChainAttributes;
  const { length } = call.inputs;
  const like = call.like!;
  const values: Input[] = call.inputs.slice();
  const lastUse = lastUses(steps, length);
  for (const s of outputs) lastUse[length + s] = Infinity;
  steps.forEach(({ op, compute, result, inputs, parameters }, s) => {
    const operands = inputs.map((value, k): Input => {
      const input = values[value]!;
      if (!isOperand(input) || isCondition(op, k)) return input;
      return input.storage.info === compute ? input : castTo(input, compute);
    });
    const typed = op.condition ? 1 : 0;
    if (!operands.slice(typed).some(isOperand)) {
      operands[typed] = scalarTensor(operands[typed] as Scalar, compute, like.memory);
    }
    values.push(
      op === MAP.copy
        ? castTo(operands[0] as Operand, result)
        : dispatch(op, operands, attributesOf(op, parameters)),
    );
    operands.forEach((operand, k) => {
      const value = inputs[k]!;
      if (!isOperand(operand)) return;
      if (operand !== values[value]) dispose(operand);
      else if (value >= length && lastUse[value] === s && inputs.indexOf(value) === k) {
        dispose(operand);
      }
    });
  });
  const made = outputs.map((s) => {
    const value = values[length + s] as Operand;
    if (sameShape(value.layout.shape, shape)) return value;
    const whole = newOutput({ shape, dtype: value.storage.info }, like);
    writeCopy(whole, value);
    return whole;
  });
  return made.length === 1 ? made[0]! : made;
}

function castTo(x: Operand, { name }: DTypeInfo): Operand {
  return dispatch(MAP.copy, [x], { dtype: name satisfies DType }, undefined, "astype");
}

/** A tensor of one element. */
function scalarTensor(
  value: Scalar,
  info: DTypeInfo,
  memory: Operand["storage"]["memory"],
): Operand {
  const storage = allocateIn(memory, info, 1, false);
  writeElement(storage, 0, value);
  return wrap(storage, SCALAR_LAYOUT);
}

/** The last step that reads each value; undefined if there is none. */
export function lastUses(steps: readonly ChainStep[], inputs: number): (number | undefined)[] {
  const last: (number | undefined)[] = new Array(inputs + steps.length).fill(undefined);
  steps.forEach((step, s) => {
    for (const value of step.inputs) if (value >= 0) last[value] = s;
  });
  return last;
}

/** The attributes of a call of one step. */
function attributesOf(op: MapOp, parameters: readonly number[]): object | undefined {
  if (parameters.length === 0) return undefined;
  return Object.fromEntries(op.parameters.map((name, i) => [name, parameters[i]!]));
}

/** The chain of a call that `infer` has accepted, with scalars as constants. */
export function chainForm({ inputs, attributes }: Call): ChainForm {
  const { steps, outputs } = attributes as ChainAttributes;
  const operands: Operand[] = [];
  // The new number of each tensor.
  const numbers = inputs.map((input) => isOperand(input) ? operands.push(input) - 1 : -1);
  const constants: ChainConstant[] = [];
  const formed = steps.map((step): ChainStep => {
    let { op } = step;
    const values = step.inputs.map((value, k) => {
      if (value >= inputs.length) return value - inputs.length + operands.length;
      const input = inputs[value];
      if (!isScalar(input)) return numbers[value]!;
      const dtype = isCondition(op, k) ? DTYPE.bool : step.compute;
      let scalar = input as Scalar;
      if (op.compares && k === 1 && dtype.kind !== "f") {
        const within = comparisonWithin(op, dtype, scalar);
        if (within !== undefined) [op, scalar] = within;
      }
      return -constants.push({ value: scalar, dtype });
    });
    return { ...step, op, inputs: values };
  });
  return { operands, constants, steps: formed, outputs };
}
