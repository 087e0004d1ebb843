/**
 * The ops of Fourier transforms: along one axis, and along several.
 *
 * @module
 */
import { complexOf, DTYPE, type DTypeInfo, realOf } from "../../base/dtype.ts";
import { ArgumentError, DTypeError } from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import { dispatch } from "../../core/dispatch.ts";
import { kernelCopy } from "../../core/prepare.ts";
import { type FftAttributes, fftLength } from "./problem.ts";
import { checkKind, checkOperand } from "../../table/infer.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";

/** The dtype of a transform of elements of `info`. */
function resultOf(
  { name, attributes: { kind } }: Pick<Call, "name" | "attributes">,
  info: DTypeInfo,
): DTypeInfo {
  checkKind(info, "biufc", name);
  if (kind === "fromReal" && info.kind === "c") {
    throw new DTypeError(`Cannot ${name} ${info.name}: it takes real numbers; see fft()`);
  }
  const wide = info === DTYPE.float64 || info === DTYPE.complex128;
  if (kind === "toReal") return wide ? DTYPE.float64 : DTYPE.float32;
  return wide ? DTYPE.complex128 : DTYPE.complex64;
}

/** One axis: attributes are {@link FftAttributes}. */
export const FFT: Op = makeOp<Op>({
  kind: "kernel",
  name: "fft",
  contiguous: [0],
  complex: true,
  infer(call) {
    const { inputs: [x], name } = call;
    checkOperand(x, name);
    const attributes = call.attributes as FftAttributes;
    const { axis, n } = attributes;
    const { shape } = x.layout;
    if (!Number.isSafeInteger(n) || n < 1) {
      throw new ArgumentError(
        `Cannot ${name} shape ${formatShape(shape)}: ` +
          `a transform has a length of at least 1, got ${n} along axis ${axis}`,
      );
    }
    const length = fftLength(attributes);
    const result = resultOf(call, x.storage.info);
    return call.result(shape.map((size, k) => k === axis ? length : size), result);
  },
  prepare(call) {
    const x = call.operand(0);
    const { dtype } = call.specs[0]!, { kind } = call.attributes as FftAttributes;
    const input = kind === "fromReal"
      ? realOf(dtype)
      : kind === "toReal"
      ? complexOf(dtype)
      : dtype;
    return x.storage.info === input ? null : { inputs: [kernelCopy(x, input)] };
  },
});

/** Attributes of {@link FFTN}: the transforms along its axes, in their order. */
export interface FftnAttributes {
  readonly steps: readonly FftAttributes[];
}

/** Several axes, one after the other. */
export const FFTN: Op = makeOp<Op>({
  kind: "kernel",
  name: "fftn",
  infer(call) {
    const { inputs: [x], name } = call;
    checkOperand(x, name);
    const { steps } = call.attributes as FftnAttributes;
    let { info } = x.storage;
    let { shape } = x.layout;
    for (const attributes of steps) {
      const { axis, n } = attributes;
      if (n < 1) {
        throw new ArgumentError(
          `Cannot ${name} shape ${formatShape(x.layout.shape)}: ` +
            `a transform has a length of at least 1, got ${n} along axis ${axis}`,
        );
      }
      info = resultOf({ name, attributes }, info);
      shape = shape.map((size, k) => k === axis ? fftLength(attributes) : size);
    }
    return call.result(shape, info);
  },
  decompose(call) {
    const { name, attributes } = call;
    const { steps } = attributes as FftnAttributes;
    let y = call.operand(0);
    for (const step of steps) y = dispatch(FFT, [y], step, undefined, name);
    return y;
  },
});
