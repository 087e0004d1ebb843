/**
 * Conversions of the inputs of calls to what kernels take; see {@link Op.prepare}.
 *
 * The copies are no handles: dispatch frees them after the kernel.
 *
 * @module
 */
import type { DTypeInfo } from "../base/dtype.ts";
import { normalizeAxis } from "../base/shape.ts";
import { isOperand, type Operand } from "../memory/operand.ts";
import type { Call, Input, OutputSpec, Prepared } from "../table/op.ts";
import { copyOf } from "./dispatch.ts";

/** A contiguous copy of `x` in `info`, for a kernel: not a handle. */
export const kernelCopy: (x: Operand, info: DTypeInfo) => Operand = copyOf;

/** `x` itself if it is of `info`, else a copy in it. */
export function converted(x: Input, info: DTypeInfo): Input {
  return isOperand(x) && x.storage.info !== info ? copyOf(x, info) : x;
}

/**
 * Inputs in the dtype `info`, in which kernels compute; null if all are of it, and so is the result.
 */
export function inDType(call: Call, info: DTypeInfo): Prepared | null {
  const { inputs, specs } = call;
  const [spec] = specs;
  let fits = spec!.dtype === info;
  for (let k = 0; fits && k < inputs.length; k++) {
    const x = inputs[k];
    fits = !isOperand(x) || x.storage.info === info;
  }
  if (fits) return null;
  const prepared: Input[] = [];
  for (let k = 0; k < inputs.length; k++) prepared.push(converted(inputs[k], info));
  return { inputs: prepared, specs: resultIn(spec!, info) };
}

/** The outputs of a kernel that computes in `info`; undefined if that is the result's dtype. */
export function resultIn(
  { shape, dtype }: OutputSpec,
  info: DTypeInfo,
): readonly OutputSpec[] | undefined {
  return dtype === info ? undefined : [{ shape, dtype: info }];
}

/** The input with the axis of the call last; null if it is. */
export function alongLast(call: Call): Prepared | null {
  const { attributes, name, specs } = call;
  const { storage, layout, flags } = call.inputs[0] as Operand;
  const last = layout.shape.length - 1;
  if (attributes.axis === -1 || attributes.axis === last) return null;
  const axis = normalizeAxis(name, attributes.axis, layout.rank);
  if (axis === last) return null;
  return {
    inputs: [{ storage, layout: layout.moveAxis(axis, last), flags }],
    attributes: { ...attributes, axis: last },
    specs: specs.map(({ shape, dtype }) => ({
      shape: [...shape.toSpliced(axis, 1), shape[axis]!],
      dtype,
    })),
    layoutOf: (made) => made.moveAxis(last, axis),
  };
}
