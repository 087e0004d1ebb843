/**
 * Fourier transforms along one axis in the form that backends run.
 *
 * @module
 */
import type { Storage } from "../../memory/storage.ts";
import type { Call } from "../../table/op.ts";

/**
 * What a transform takes and gives: complex numbers, real ones to the half of a spectrum that has the
 * rest as its conjugate, or such a half to real ones.
 */
export type FftKind = "complex" | "fromReal" | "toReal";

/** Attributes of the op `fft`. */
export interface FftAttributes {
  readonly kind: FftKind;
  /** The axis, counted from the first. */
  readonly axis: number;
  /** The length of the transform. The axis is cut, or continued by zeros. */
  readonly n: number;
  /** Whether exponents are positive. */
  readonly inverse: boolean;
  /** The factor of all results. */
  readonly scale: number;
}

/** The sizes of a call. Operands are [outer, length, inner]. */
export interface FftSizes extends FftAttributes {
  readonly outer: number;
  readonly inner: number;
  /** The length of the axis of the input. */
  readonly inLength: number;
  /** That of the result. */
  readonly outLength: number;
  /** The elements of a line of the input that are read. */
  readonly given: number;
}

/** The length of the axis of the result. */
export function fftLength({ kind, n }: FftAttributes): number {
  return kind === "fromReal" ? Math.floor(n / 2) + 1 : n;
}

/** The sizes of a call whose input is contiguous. */
export function fftOf(call: Call): FftSizes {
  const attributes = call.attributes as FftAttributes;
  const { kind, axis, n, inverse, scale } = attributes;
  const { shape } = call.operand(0).layout;
  let [outer, inner] = [1, 1];
  for (let k = 0; k < axis; k++) outer *= shape[k]!;
  for (let k = axis + 1; k < shape.length; k++) inner *= shape[k]!;
  const inLength = shape[axis]!, outLength = fftLength(attributes);
  const given = Math.min(inLength, kind === "toReal" ? Math.floor(n / 2) + 1 : n);
  return { kind, axis, n, inverse, scale, outer, inner, inLength, outLength, given };
}

/** The storage of the real and imaginary parts, for a storage of complex numbers; else the same. */
export function partsOf(storage: Storage): Storage {
  return storage.info.lanes === 1 ? storage : storage.lanes;
}

/** Whether a kernel can run a call: its input has elements of the dtype that it computes with. */
export function runsFft(call: Call): boolean {
  const { storage: { info, memory }, layout: { size } } = call.operand(0);
  const { kind } = call.attributes as FftAttributes;
  if (memory !== null || size === 0 || call.specs[0]!.shape.includes(0)) return false;
  return kind === "fromReal" ? info.kind === "f" && info.bytes >= 4 : info.kind === "c";
}
