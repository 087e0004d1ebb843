/**
 * The numbers of Fourier transforms and convolutions for the shim.
 *
 * @module
 */
import { convolveOf, runsConvolve } from "../../ops/fft/convolve.ts";
import { type FftKind, fftOf, partsOf, runsFft } from "../../ops/fft/problem.ts";
import type { Call } from "../../table/op.ts";
import type { Storage } from "../../memory/storage.ts";
import { checkRun } from "../ffi/checks.ts";
import type { Kernel } from "./kernel.ts";

/** The numbers of the kinds in C. */
const KINDS: Readonly<Record<FftKind, number>> = { complex: 0, fromReal: 1, toReal: 2 };

const numbers = new Float64Array(10);

/** The arguments of a call. */
function planFft(call: Call): { numbers: Float64Array; out: Storage; a: Storage } {
  const { kind, n, inverse, scale, outer, inner, inLength, outLength } = fftOf(call);
  const [x, out] = [call.operand(0), call.outputs[0]!];
  checkRun("fft", 0, 0, outer * outLength * inner, out.storage);
  checkRun("fft", 1, x.layout.offset, x.layout.size, x.storage);
  const a = partsOf(x.storage), to = partsOf(out.storage);
  numbers[0] = KINDS[kind];
  numbers[1] = inverse ? 1 : 0;
  numbers[2] = scale;
  numbers[3] = outer;
  numbers[4] = n;
  numbers[5] = inner;
  numbers[6] = inLength;
  numbers[7] = outLength;
  numbers[8] = x.layout.offset;
  numbers[9] = a.info.bytes;
  return { numbers, out: to, a };
}

const lengths = new Float64Array(7);

/** The arguments of a convolution. */
function planConvolve(
  call: Call,
): { numbers: Float64Array; out: Storage; a: Storage; b: Storage } {
  const { rows, n, m, start, length } = convolveOf(call);
  const [a, v, out] = [call.operand(0), call.operand(1), call.outputs[0]!];
  checkRun("convolve", 0, 0, rows * length, out.storage);
  checkRun("convolve", 1, a.layout.offset, rows * n, a.storage);
  checkRun("convolve", 2, v.layout.offset, m, v.storage);
  lengths.set([rows, n, m, start, length, a.layout.offset, v.layout.offset]);
  return { numbers: lengths, out: out.storage, a: a.storage, b: v.storage };
}

/** The kernels by the names of their ops. */
export const FFT_KERNELS: Readonly<Record<string, Kernel>> = {
  fft: { supports: runsFft, prepare: planFft },
  convolve: { supports: runsConvolve, prepare: planConvolve },
};
