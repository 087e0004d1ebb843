/**
 * Ops of signals: transforms, windows, and the matrix of mel filters.
 *
 * @module
 */
import * as fft from "../../api/fft.ts";
import { stack } from "../../api/functions/tensors.ts";
import type { DType } from "../../base/dtype.ts";
import { formatShape } from "../../base/shape.ts";
import { Slice } from "../../base/slice.ts";
import * as nn from "../../nn/mod.ts";
import { complex } from "../../tensor/complex.ts";
import { arange, fromBuffer } from "../../tensor/create.ts";
import type { Call, Implementation } from "../graph/call.ts";
import { dtypeOf } from "../graph/initializers.ts";
import type { T, Value } from "../graph/values.ts";

/** Numbers of the host as a tensor of `dtype`. */
function hosted(data: Float64Array<ArrayBuffer>, shape: readonly number[], dtype: DType): T {
  return fromBuffer(data, { shape }).astype(dtype) as T;
}

/** The dtype of the attribute `output_datatype`. */
function outputDType(call: Call): DType {
  const type = call.node.int("output_datatype", 1);
  return dtypeOf(type) ?? call.failDType(`no tensor has the element type ${type}`);
}

/** A window of cosines: `factors[k] · cos(2π k n / N)` with alternating signs. */
function cosines(...factors: readonly number[]): Implementation {
  return (call) => {
    const size = call.number(0);
    if (!(size >= 0)) call.fail(`a window has ${size} elements`);
    const period = call.node.flag("periodic", true) ? size : Math.max(size - 1, 1);
    const turns: T = arange(size, { dtype: "float64" }).mul(2 * Math.PI / period);
    const terms = factors.map((factor, k): T => turns.mul(k).cos().mul((-1) ** k * factor));
    return [terms.reduce((sum, term) => sum.add(term)).astype(outputDType(call))];
  };
}

/** The most weights of mel filters. */
const MOST_WEIGHTS = 2 ** 28;

/** Triangles on the mel scale, for the bins of a spectrum: [bins, filters]. */
function melWeights(call: Call): readonly Value[] {
  const [filters, length, rate, low, high] = [0, 1, 2, 3, 4].map((k) => call.number(k));
  const bins = Math.floor(length! / 2) + 1;
  const isSane = filters! >= 0 && length! >= 1 && rate! >= 1 && bins * filters! <= MOST_WEIGHTS &&
    low! >= 0 && high! >= low! && high! <= rate!;
  if (!isSane) {
    call.fail(`${filters} filters of ${length} samples at ${rate} Hz, from ${low} to ${high} Hz`);
  }
  const mel = (hertz: number): number => 2595 * Math.log1p(hertz / 700) / Math.LN10;
  const step = (mel(high!) - mel(low!)) / (filters! + 2);
  const places = Array.from({ length: filters! + 2 }, (_, k) => {
    const hertz = 700 * Math.expm1((k * step + mel(low!)) / 2595 * Math.LN10);
    return Math.floor((length! + 1) * hertz / rate!);
  });
  const data = new Float64Array(bins * filters!);
  const put = (bin: number, filter: number, value: number): void => {
    if (bin >= 0 && bin < bins) data[bin * filters! + filter] = value;
  };
  for (let k = 0; k < filters!; k++) {
    const [from, center, to] = [places[k]!, places[k + 1]!, places[k + 2]!];
    if (from === center) put(center, k, 1);
    else for (let j = from; j <= center; j++) put(j, k, (j - from) / (center - from));
    for (let j = center; j < to; j++) put(j, k, (to - j) / (to - center));
  }
  return [hosted(data, [bins, filters!], outputDType(call))];
}

/** The parts of complex numbers as a last axis of two. */
function parts(x: T): T {
  return stack([x.real() as T, x.imag() as T], -1) as T;
}

/** The complex numbers, or the real ones, of a last axis of two or one. */
function joined(call: Call, x: T): T {
  const last = x.shape.at(-1);
  if (last === 1) return x.squeeze(-1);
  if (last === 2) return complex(x.sliceAxis(-1, 0), x.sliceAxis(-1, 1)) as T;
  return call.failShape(
    `a signal of shape ${formatShape(x.shape)} has a last axis that is neither 1 nor 2`,
  );
}

/** The least dtype that transforms compute with. */
const wide = (x: T): T => x.dtype === "float16" || x.dtype === "bfloat16" ? x.astype("float32") : x;

/** The transform of the axis `axis` of real or complex numbers; the first half of it, if asked for. */
function transform(x: T, axis: number, n: number, isHalf: boolean): T {
  if (x.dtype.startsWith("complex")) {
    const whole = fft.fft(x, { axis, n }) as T;
    return isHalf ? whole.sliceAxis(axis, new Slice(0, Math.floor(n / 2) + 1)) : whole;
  }
  return (isHalf ? fft.rfft(x, { axis, n }) : fft.fft(x, { axis, n })) as T;
}

function dft(call: Call): readonly Value[] {
  const { node } = call;
  const x = call.tensor(0);
  const given = call.opset < 20 ? node.int("axis", 1) : call.numberOr(2, -2);
  const axis = call.axis(given, x.rank);
  if (axis === x.rank - 1) call.fail("the last axis has the parts of numbers, not a signal");
  const isHalf = node.flag("onesided"), isInverse = node.flag("inverse");
  const size = x.shape[axis]!;
  const n = call.numberOr(1, isHalf && isInverse ? 2 * (size - 1) : size);
  const numbers = joined(call, wide(x));
  let made: T;
  if (!isInverse) made = parts(transform(numbers, axis, n, isHalf));
  else if (isHalf) made = (fft.irfft(numbers, { axis, n }) as T).unsqueeze(-1);
  else made = parts(fft.ifft(numbers, { axis, n }) as T);
  return [made.astype(x.dtype)];
}

/** The transforms of frames of a signal [B, L, 1 or 2]: [B, frames, bins, 2]. */
function stft(call: Call): readonly Value[] {
  const x = call.tensor(0), step = call.number(1);
  if (x.rank !== 3) call.failShape(`a signal of shape ${formatShape(x.shape)}, expected [B, L, 1]`);
  const window = call.optional(2);
  const length = call.numberOr(3, window?.size ?? x.shape[1]!);
  const numbers = joined(call, wide(x));
  const shape = `${length} elements, ${step} apart, of a signal of ${x.shape[1]}`;
  if (!(length >= 1 && length <= x.shape[1]! && step >= 1)) call.failShape(`frames of ${shape}`);
  let frames: T = nn.unfold(numbers, 1, length, step) as T;
  if (window !== undefined) {
    frames = frames.mul(
      window.astype(numbers.dtype.startsWith("complex") ? wide(x).dtype : numbers.dtype),
    );
  }
  const isHalf = call.node.flag("onesided", true);
  return [parts(transform(frames, 2, length, isHalf)).astype(x.dtype)];
}

/** The ops. */
export const SIGNAL: Readonly<Record<string, Implementation>> = {
  DFT: dft,
  STFT: stft,
  HannWindow: cosines(0.5, 0.5),
  HammingWindow: cosines(25 / 46, 21 / 46),
  BlackmanWindow: cosines(0.42, 0.5, 0.08),
  MelWeightMatrix: melWeights,
};
