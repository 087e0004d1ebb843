/**
 * Chains: several elementwise ops as one call, which kernels compute in one pass over memory.
 *
 * A chain means exactly what its steps mean one after the other: each step casts its operands,
 * computes, and rounds its result to its dtype. Knows nothing of how chains are found or run.
 *
 * @module
 */
import { DTYPE, type DTypeInfo, type Scalar } from "../../base/dtype.ts";
import { DTypeError } from "../../base/errors.ts";
import { broadcastShapes, formatShape, sameShape } from "../../base/shape.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import {
  checkDevice,
  checkOperand,
  computeOf,
  isScalar,
  resultOf,
  takes,
} from "../../table/infer.ts";
import type { Call, MapOp, OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";

/** The most steps of a chain. */
export const MAX_CHAIN_STEPS = 32;
/** The most inputs that are tensors. */
export const MAX_CHAIN_OPERANDS = 16;
/** The most inputs that are scalars. */
export const MAX_CHAIN_SCALARS = 32;
/** The most outputs. */
export const MAX_CHAIN_OUTPUTS = 8;

/** One op of a chain. */
export interface ChainStep {
  /** The op. */
  readonly op: MapOp;
  /** The dtype of the arithmetic: operands are cast to it, except for the condition of `where`. */
  readonly compute: DTypeInfo;
  /** The dtype of the result: the op's own for `compute`; any for a copy, which casts. */
  readonly result: DTypeInfo;
  /** The operands: 0 … n − 1 are the inputs of the call, n + s is the result of step s. */
  readonly inputs: readonly number[];
  /** The numbers of the op's expression, in the order of its `parameters`. */
  readonly parameters: readonly number[];
}

/** Attributes of a chain. */
export interface ChainAttributes {
  /** The ops, in an order in which each follows those whose results it reads. */
  readonly steps: readonly ChainStep[];
  /** The steps whose results are the outputs, each of the whole shape. */
  readonly outputs: readonly number[];
  /** The shape of the outputs, to which the inputs broadcast. */
  readonly shape: readonly number[];
}

/** The operands of a step that is not a copy of its own dtype: whether `k` is a condition. */
export function isCondition(op: MapOp, k: number): boolean {
  return op.condition && k === 0;
}

/**
 * {@link Op.infer} of chains. A tensor of a dtype of several lanes is a DTypeError, as in the ops. A
 * malformed chain is an error of the library, which makes them: a plain Error.
 */
export function inferChain(call: Call): readonly OutputSpec[] {
  const { name, inputs } = call;
  const { steps, outputs, shape } = call.attributes as ChainAttributes;
  let first: Storage | undefined;
  let operands = 0;
  for (const input of inputs) {
    if (isScalar(input)) continue;
    checkOperand(input, name);
    operands++;
    if (input.storage.info.lane !== null) {
      throw new DTypeError(`Cannot ${name} ${input.storage.info.name}: it takes numbers`);
    }
    if (first === undefined) first = input.storage;
    else checkDevice(first, input.storage, name);
    if (!sameShape(broadcastShapes(name, input.layout.shape, shape), shape)) {
      throw malformed(
        `the input of shape ${formatShape(input.layout.shape)} exceeds ${formatShape(shape)}`,
      );
    }
  }
  const within = operands > 0 && operands <= MAX_CHAIN_OPERANDS &&
    inputs.length - operands <= MAX_CHAIN_SCALARS && steps.length > 0 &&
    steps.length <= MAX_CHAIN_STEPS && outputs.length > 0 && outputs.length <= MAX_CHAIN_OUTPUTS;
  if (!within) {
    throw malformed(
      `${steps.length} steps of ${operands} tensors and ${inputs.length - operands} scalars, ` +
        `${outputs.length} outputs`,
    );
  }
  steps.forEach((step, s) => checkStep(call, steps, step, s));
  return outputs.map((s) => {
    const step = steps[s];
    if (step === undefined || outputs.indexOf(s) !== outputs.lastIndexOf(s)) {
      throw malformed(`output of step ${s}, among ${outputs}`);
    }
    return { shape, dtype: step.result };
  });
}

function checkStep(
  { inputs: given }: Call,
  steps: readonly ChainStep[],
  { op, compute, result, inputs, parameters }: ChainStep,
  s: number,
): void {
  const fail = (why: string): Error => malformed(`step ${s}, ${op.name}, ${why}`);
  if (
    op.kind !== "map" || inputs.length !== op.arity || parameters.length !== op.parameters.length
  ) {
    throw fail(`of ${inputs.length} operands and ${parameters.length} parameters`);
  }
  const isCopy = op === MAP.copy;
  const fits = compute.lane === null && takes(op, compute.name) &&
    computeOf(op, compute.name) === compute.name &&
    (isCopy ? result.lane === null : DTYPE[resultOf(op, compute.name)] === result);
  if (!fits) throw fail(`computes ${compute.name} and gives ${result.name}`);
  let tensors = 0;
  inputs.forEach((value, k) => {
    if (!Number.isInteger(value) || value < 0 || value >= given.length + s) {
      throw fail(`reads value ${value}, which is not known yet`);
    }
    const input = value < given.length ? given[value] : undefined;
    if (isScalar(input)) return;
    tensors++;
    const dtype = isOperand(input) ? input.storage.info : steps[value - given.length]!.result;
    if (isCondition(op, k) && dtype !== DTYPE.bool) {
      throw fail(`has a condition of ${dtype.name}`);
    }
  });
  if (tensors === 0) throw fail("has only scalars");
}

function malformed(what: string): Error {
  return new Error(`Internal error: malformed chain: ${what}`);
}

/** A scalar operand of a step. */
export interface ChainConstant {
  readonly value: Scalar;
  /** The dtype in which the step reads it. */
  readonly dtype: DTypeInfo;
}

/** A chain without scalars among its inputs, as kernels compute it. */
export interface ChainForm {
  /** The tensors among the inputs. */
  readonly operands: readonly Operand[];
  /** The scalars, in the dtypes in which steps read them. */
  readonly constants: readonly ChainConstant[];
  /**
   * The steps. Their operands are numbered from the tensors on, as in {@link ChainStep}; −1 − c is
   * constant c.
   */
  readonly steps: readonly ChainStep[];
  /** The steps whose results are the outputs. */
  readonly outputs: readonly number[];
}
