/**
 * Chains for the shim: the plan of all operands, the constants and the steps, in one array of
 * numbers.
 *
 * @module
 */
import type { DTypeInfo } from "../../base/dtype.ts";
import { ATTRIBUTES, type Plan, planMaps } from "../../base/plan.ts";
import { chainForm } from "../../ops/chain/op.ts";
import { writeElement } from "../../memory/element.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { Storage } from "../../memory/storage.ts";
import {
  type ChainAttributes,
  type ChainConstant,
  type ChainForm,
  type ChainStep,
  MAX_CHAIN_STEPS,
} from "../../ops/chain/steps.ts";
import type { Call, MapOp, Op } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { CHAIN_AT, CHAIN_CONSTANT, CHAIN_STEP } from "../ffi/abi.ts";
import { checkOperand } from "../ffi/checks.ts";
import { type ExprChain, exprChain } from "./expr_chain.ts";
import type { Kernel } from "./kernel.ts";

/** The arguments of the kernel of a chain. */
interface ChainArguments {
  /** The plan, the constants and the steps: memory of its own. */
  readonly numbers: Float64Array;
  /** The buffers: the outputs, then the inputs that are tensors. */
  readonly operands: readonly Operand[];
}

/** Whether the op of a step is an expression of a program. */
function isExpr({ op }: ChainStep): boolean {
  return !(op.name in MAP);
}

/** The chain of a step that is an expression of a program. */
function chainOfStep({ op, compute, result, parameters }: ChainStep): ExprChain | null {
  return translate(op, compute, parameters, result);
}

/** Whether the shim has the ops of all steps. */
export function hasChainKernels(
  steps: readonly ChainStep[],
  numberOf: (op: Op) => number,
): boolean {
  let count = 0;
  const found = steps.every((step) => {
    const own = isExpr(step) ? chainOfStep(step)?.steps : [step];
    if (own === undefined) return false;
    count += own.length;
    return own.every(({ op }) => numberOf(op) >= 0);
  });
  return found && count <= MAX_CHAIN_STEPS;
}

/** A chain with the steps of expressions of programs in their place. */
function withoutExprs(form: ChainForm): ChainForm {
  if (!form.steps.some(isExpr)) return form;
  const first = form.operands.length;
  const constants = form.constants.slice();
  const steps: ChainStep[] = [];
  // The new numbers of the values.
  const values = form.operands.map((_, k) => k);
  for (const step of form.steps) {
    const operands = step.inputs.map((value) => value < 0 ? value : values[value]!);
    if (!isExpr(step)) steps.push({ ...step, inputs: operands });
    else {
      const own = chainOfStep(step)!;
      const before = first + steps.length - operands.length;
      const firstConstant = constants.length;
      constants.push(...own.constants);
      for (const part of own.steps) {
        const inputs = part.inputs.map((value) =>
          value < 0
            ? value - firstConstant
            : value < operands.length
            ? operands[value]!
            : value + before
        );
        steps.push({ ...part, inputs });
      }
    }
    values.push(first + steps.length - 1);
  }
  return {
    operands: form.operands,
    constants,
    steps,
    outputs: form.outputs.map((s) => values[first + s]! - first),
  };
}

/**
 * The arguments of a call of a chain whose outputs are allocated; null if there is nothing to
 * compute. `numberOf` gives the shim's number of an op, −1 if it has none. Every operand is checked
 * against its storage.
 */
export function chainNumbers(call: Call, numberOf: (op: Op) => number): ChainArguments | null {
  const form = withoutExprs(chainForm(call));
  const operands = [...call.outputs, ...form.operands];
  const plan = planMaps(
    call.outputs.map(({ layout }) => layout),
    form.operands.map(({ layout }) => layout),
  );
  if (plan.size === 0) return null;
  operands.forEach(({ storage }, k) => checkOperand("chain", plan, k, storage));
  return { numbers: writeChain(plan, form, call.outputs.length, numberOf), operands };
}

/** The last translation of each expression, by the id of its op. */
const translations: (Translated | undefined)[] = [];

interface Translated {
  readonly compute: DTypeInfo;
  readonly out: DTypeInfo;
  readonly parameters: readonly number[];
  readonly chain: ExprChain | null;
}

function translate(
  op: MapOp,
  compute: DTypeInfo,
  parameters: readonly number[],
  out: DTypeInfo,
): ExprChain | null {
  const last = translations[op.id];
  const same = last?.compute === compute && last.out === out &&
    last.parameters.every((value, i) => Object.is(value, parameters[i]));
  if (same) return last.chain;
  const chain = exprChain(op, compute, parameters, out);
  translations[op.id] = { compute, out, parameters, chain };
  return chain;
}

/**
 * The arguments of the kernel of a chain for a planned call of an expression of a program; null if
 * the shim cannot run it.
 */
export function exprNumbers(call: Call, numberOf: (op: Op) => number): ChainArguments | null {
  const plan = call.plan!;
  const out = call.outputs[0]!;
  const op = call.op as MapOp;
  const parameters = op.parameters.map((_, i) => plan.data[ATTRIBUTES + i]!);
  const chain = translate(op, call.compute, parameters, out.storage.info);
  if (chain === null || !hasChainKernels(chain.steps, numberOf)) return null;
  const inputs = call.inputs as Operand[];
  const operands = [out, ...inputs];
  operands.forEach(({ storage }, k) => checkOperand(call.name, plan, k, storage));
  const form = { ...chain, operands: inputs, outputs: [chain.steps.length - 1] };
  return { numbers: writeChain(plan, form, 1, numberOf), operands };
}

/** The numbers of a chain over `plan`, whose first operands are the outputs. */
function writeChain(
  plan: Plan,
  form: ChainForm,
  outputs: number,
  numberOf: (op: Op) => number,
): Float64Array {
  const { constants, steps } = form;
  const { length } = plan;
  const firstStep = length + constants.length * CHAIN_CONSTANT.numbers;
  const numbers = new Float64Array(firstStep + steps.length * CHAIN_STEP.numbers);
  numbers.set(plan.data.subarray(0, length));
  numbers[ATTRIBUTES + CHAIN_AT.outputs] = outputs;
  numbers[ATTRIBUTES + CHAIN_AT.steps] = steps.length;
  numbers[ATTRIBUTES + CHAIN_AT.constants] = constants.length;
  constants.forEach((constant, c) =>
    writeConstant(numbers, length + c * CHAIN_CONSTANT.numbers, constant)
  );
  const single = form.operands.map(({ layout }) => layout.size === 1);
  steps.forEach(({ op, compute, result, inputs, parameters }, s) => {
    const at = firstStep + s * CHAIN_STEP.numbers;
    const isSingle = inputs.every((value) => value < 0 || single[value]);
    single.push(isSingle);
    numbers[at + CHAIN_STEP.op] = numberOf(op);
    numbers[at + CHAIN_STEP.compute] = compute.id;
    numbers[at + CHAIN_STEP.result] = result.id;
    numbers[at + CHAIN_STEP.output] = form.outputs.indexOf(s);
    numbers[at + CHAIN_STEP.single] = isSingle ? 1 : 0;
    numbers.set(inputs, at + CHAIN_STEP.inputs);
    numbers.set(parameters, at + CHAIN_STEP.parameters);
  });
  return numbers;
}

/** Storages of one element, by the ids of dtypes. */
const elements: Storage[] = [];

function elementOf(info: DTypeInfo): Storage {
  return elements[info.id] ??= new Storage(new info.array(1), info, true, false);
}

/** Writes a constant: its bits survive as two integers, where a NaN would not. */
function writeConstant(numbers: Float64Array, at: number, { value, dtype }: ChainConstant): void {
  const element = elementOf(dtype);
  writeElement(element, 0, value);
  const { buffer, byteOffset, byteLength } = element.array as Uint8Array;
  const bits = new DataView(new ArrayBuffer(8));
  new Uint8Array(bits.buffer).set(new Uint8Array(buffer, byteOffset, byteLength));
  numbers[at + CHAIN_CONSTANT.dtype] = dtype.id;
  numbers[at + CHAIN_CONSTANT.low] = bits.getUint32(0, true);
  numbers[at + CHAIN_CONSTANT.high] = bits.getUint32(4, true);
}

/** The buffers that `rm_run_many` takes. */
const BUFFERS = 9;

/** The kernel. */
export const chain: Kernel = {
  supports({ inputs, attributes }, numberOf) {
    const { steps, outputs } = attributes as ChainAttributes;
    return inputs.filter(isOperand).length + outputs.length <= BUFFERS &&
      hasChainKernels(steps, numberOf);
  },
  prepare(call, numberOf) {
    const ready = chainNumbers(call, numberOf);
    if (ready === null) return null;
    const [out, a = null, b = null, c = null, ...rest] = ready.operands
      .map(({ storage }) => storage);
    const more = rest.length === 0 ? {} : { more: rest };
    return { numbers: ready.numbers, out: out!, a, b, c, ...more };
  },
};
