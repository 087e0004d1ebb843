/**
 * Convolutions along the last axis in the form that backends run.
 *
 * @module
 */
import type { Call } from "../../table/op.ts";

/** Attributes of the op `convolve`; inputs: rows, and the kernel, which is a vector. */
export interface ConvolveAttributes {
  /** The first of all results that is wanted, counted from the first product of ends. */
  readonly start: number;
  /** The number of results. */
  readonly length: number;
}

/** The sizes of a call. */
export interface ConvolveSizes extends ConvolveAttributes {
  readonly rows: number;
  /** The length of a row. */
  readonly n: number;
  /** The length of the kernel. */
  readonly m: number;
}

/** The sizes of a call. */
export function convolveOf(call: Call): ConvolveSizes {
  const { shape, size } = call.operand(0).layout;
  const { start, length } = call.attributes as ConvolveAttributes;
  const n = shape.at(-1)!;
  return { rows: size / n, n, m: call.operand(1).layout.size, start, length };
}

/** The dtypes of kernels. */
const KERNELS: ReadonlySet<string> = new Set(["float32", "float64", "int32", "int64"]);

/** Kernels of this length and longer are multiplied as spectra, if rows are that long. */
export const LONG_KERNEL = 192;

/** Whether both operands are so long that transforms take less time than products. */
export function isLong(n: number, m: number): boolean {
  return Math.min(n, m) >= LONG_KERNEL;
}

/** Whether a call is a sum of products in one of the dtypes of kernels, on the CPU. */
export function runsConvolve(call: Call): boolean {
  const [a, v] = [call.operand(0), call.operand(1)];
  const { info, memory } = a.storage;
  if (memory !== null || info !== v.storage.info || !KERNELS.has(info.name)) return false;
  return a.layout.size > 0 && v.layout.size > 0 && !call.specs[0]!.shape.includes(0);
}
