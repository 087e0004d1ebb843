/**
 * The ops of Fourier transforms: along one axis, and along several.
 *
 * @module
 */
import { DTYPE, type DType, type DTypeInfo } from "../../base/dtype.ts";
import { ArgumentError, DTypeError } from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import { cast, onCpu, toDevice } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { type FftAttributes, fftLength } from "./problem.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkKind, checkOperand } from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { empty } from "../../core/composite.ts";
import { fullOperand } from "../create/full.ts";

/** The dtypes of a transform of elements of `info`: of the input it computes with, and of the result. */
function dtypesOf(
  { name, attributes: { kind } }: Call,
  info: DTypeInfo,
): { readonly input: DTypeInfo; readonly result: DTypeInfo } {
  checkKind(info, "biufc", name);
  if (kind === "fromReal" && info.kind === "c") {
    throw new DTypeError(`Cannot ${name} ${info.name}: it takes real numbers; see fft()`);
  }
  const wide = info === DTYPE.float64 || info === DTYPE.complex128;
  const real = wide ? DTYPE.float64 : DTYPE.float32;
  const complex = wide ? DTYPE.complex128 : DTYPE.complex64;
  return {
    input: kind === "fromReal" ? real : complex,
    result: kind === "toReal" ? real : complex,
  };
}

/** A tensor of zeros like `x`. */
function zerosLike(x: Operand, shape: readonly number[], dtype: DType): Operand {
  return fullOperand("zeros", shape, 0, dtype, x.storage.device);
}

/** One axis: attributes are {@link FftAttributes}. */
export const FFT: Op = makeOp<Op>({
  kind: "kernel",
  name: "fft",
  contiguous: [0],
  complex: true,
  defined: true,
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
    const { result } = dtypesOf(call, x.storage.info);
    const length = fftLength(attributes);
    return call.result(shape.map((size, k) => k === axis ? length : size), result);
  },
  decompose(call) {
    const x = call.operand(0);
    const { name, attributes, specs: [spec], outputs: [out] } = call;
    const { shape, dtype } = spec as OutputSpec;
    if (shape.includes(0)) return empty(shape, x, dtype);
    if (x.layout.size === 0) return zerosLike(x, shape, dtype.name);
    const { input } = dtypesOf(call, x.storage.info);
    if (x.storage.info !== input) {
      return dispatch(FFT, [cast(x, input.name)], attributes, out, name);
    }
    const { device } = x.storage;
    return onCpu(
      x,
      (here) => toDevice(dispatch(FFT, [here], attributes, undefined, name), device),
    );
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
      info = dtypesOf({ name, attributes } as unknown as Call, info).result;
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
