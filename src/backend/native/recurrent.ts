/**
 * The kernel of recurrent layers, and the calls that it supports.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import {
  activationsOf,
  CELLS,
  GATE_ORDERS,
  RECURRENT_INPUTS,
  type RecurrentAttributes,
  recurrentSizes,
} from "../../ops/recurrent/op.ts";
import type { Call } from "../../table/op.ts";
import { ACTIVATION } from "../ffi/abi.ts";
import { checkRun } from "../ffi/checks.ts";
import type { Kernel } from "./kernel.ts";

/** The buffers of operands that are not given, and of the first one that may be. */
const [NO_BUFFER, FIRST_OPTIONAL] = [-1, 5];
/** The most gates, directions, and activations of a direction. */
const [GATES, DIRECTIONS, FUNCTIONS] = [4, 2, 3];

/** The number of an activation; undefined if the kernel has none. */
function activationNumber(name: string): number | undefined {
  return name === "sigmoid" || name === "tanh" || name === "relu" ? ACTIVATION[name] : undefined;
}

/** The numbers of the activations of a direction, filled with others; undefined if one has none. */
function functionsOf(attributes: RecurrentAttributes, direction: number): number[] | undefined {
  const { reversed = [false] } = attributes;
  const own = direction < reversed.length ? activationsOf(attributes, direction) : [];
  const made = new Array<number>(FUNCTIONS).fill(ACTIVATION.tanh);
  for (const [i, { name }] of own.entries()) {
    const number = activationNumber(name);
    if (number === undefined) return undefined;
    made[i] = number;
  }
  return made;
}

function plan(call: Call): { numbers: Float64Array<ArrayBuffer>; optional: readonly Storage[] } {
  const attributes = call.attributes as RecurrentAttributes;
  const { cell, reversed = [false], clip = Infinity, resetsAfter, coupled } = attributes;
  const { steps, batch, size, directions } = recurrentSizes(call);
  const gates: readonly number[] = attributes.gates ?? GATE_ORDERS.onnx[cell];
  const { products, weight, initial, peepholes, bias, lengths, scales } = RECURRENT_INPUTS;
  const [output, last] = call.outputs as [Operand, Operand];
  const required = [output, ...[products, weight, initial].map((k) => call.operand(k)), last];
  const options = [peepholes, bias, lengths, scales].map((k) => call.inputs[k]);
  const offsets: number[] = [], buffers: number[] = [], optional: Storage[] = [];
  [...required, ...options].forEach((operand, i) => {
    const isOption = i >= FIRST_OPTIONAL;
    if (!isOperand(operand)) {
      offsets.push(0);
      buffers.push(NO_BUFFER);
      return;
    }
    const { storage, layout: { offset, size } } = operand;
    checkRun("recurrent", i, offset, size, storage);
    offsets.push(offset);
    if (!isOption) return;
    buffers.push(FIRST_OPTIONAL + optional.length);
    optional.push(storage);
  });
  const bits = reversed.reduce((all, one, d) => all + (one ? 1 << d : 0), 0);
  const numbers = Float64Array.of(
    ...[steps, batch, size, CELLS.indexOf(cell), directions, bits],
    ...[clip === Infinity ? 0 : clip, Number(resetsAfter ?? false), Number(coupled ?? false)],
    ...Array.from({ length: GATES }, (_, k) => gates[k] ?? 0),
    ...Array.from({ length: DIRECTIONS }, (_, d) => functionsOf(attributes, d)!).flat(),
    ...offsets,
    ...buffers,
  );
  return { numbers, optional };
}

/** The kernel of `recurrent`. */
export const recurrent: Kernel = {
  supports(call) {
    const attributes = call.attributes as RecurrentAttributes;
    const { weight, lengths, scales } = RECURRENT_INPUTS;
    const { dtype, shape } = call.specs[0]!;
    const isOfBytes = isOperand(call.inputs[scales]);
    const fits = call.inputs.every((x, k) => {
      const wanted = k === lengths ? "int32" : k === weight && isOfBytes ? "int8" : "float32";
      return !isOperand(x) || x.storage.info.name === wanted;
    });
    return dtype === DTYPE.float32 && !shape.includes(0) && fits &&
      [0, 1].every((d) => functionsOf(attributes, d) !== undefined);
  },
  prepare(call) {
    const { numbers, optional } = plan(call);
    const [output, last] = call.outputs as [Operand, Operand];
    const { products, weight, initial } = RECURRENT_INPUTS;
    return {
      numbers,
      out: output.storage,
      a: call.operand(products).storage,
      b: call.operand(weight).storage,
      c: call.operand(initial).storage,
      more: [last.storage, ...optional],
    };
  },
};
