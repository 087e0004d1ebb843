/**
 * The numbers of the shim's kernel for convolutions, and the calls that it supports.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { type ConvAttributes, convOf, isPlainConv } from "../../core/conv.ts";
import { isOperand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import type { Call } from "../../ops/op.ts";
import { ACTIVATION } from "../ffi/abi.ts";
import { checkRun } from "../ffi/checks.ts";

/** The indices of the buffers of bias and residual, of the offsets, and of the axes. */
const [BUFFERS, OFFSETS, AXES] = [5, 7, 12];
/** The buffer of an operand that is not given, and of the first one that may be. */
const [NO_BUFFER, FIRST_OPTIONAL] = [-1, 3];

/** The length of the numbers of a call. */
export const CONV_NUMBERS: number = AXES + 18;

/** True for float32, which is all that the kernel knows, and for sums of at least one product. */
export function runsConv(call: Call): boolean {
  const { shape, dtype } = call.specs[0]!;
  return dtype === DTYPE.float32 && isPlainConv(call) && !shape.includes(0) &&
    call.operand(1).layout.size > 0;
}

/** Writes the numbers of a call; returns the storages of the operands that are optional. */
export function planConv(call: Call, numbers: Float64Array): Storage[] {
  const { images, groups, channels, rows, axes } = convOf(call);
  const { activation = "none" } = call.attributes as ConvAttributes;
  numbers.set([images, groups, channels, rows, ACTIVATION[activation], NO_BUFFER, NO_BUFFER]);
  const optional: Storage[] = [];
  [call.outputs[0]!, ...call.inputs].forEach((operand, i) => {
    if (!isOperand(operand)) return;
    const { storage, layout: { offset, size } } = operand;
    checkRun("conv", i, offset, size, storage);
    numbers[OFFSETS + i] = offset;
    if (i < FIRST_OPTIONAL) return;
    numbers[BUFFERS + i - FIRST_OPTIONAL] = FIRST_OPTIONAL + optional.length;
    optional.push(storage);
  });
  numbers.set(
    axes.flatMap(({ size, kernel, out, stride, padding, dilation }) => [
      ...[size, kernel, out],
      ...[stride, padding, dilation],
    ]),
    AXES,
  );
  return optional;
}
