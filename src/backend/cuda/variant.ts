/**
 * Kernels of one line each: a macro of a header in shim/cuda/kernels, with a name and types.
 *
 * @module
 */
import { constantsOf, type Header } from "./source/constants.ts";
import type { CudaDevice } from "./device.ts";
import type { Family } from "./source/mod.ts";

/** A kernel: one line of C, and the header that it needs. */
export interface KernelVariant {
  /** The name, which distinguishes it from all other kernels. */
  readonly name: string;
  /** The file of shim/cuda/kernels. */
  readonly header: Header;
  /** The line. */
  readonly line: string;
}

/** The kernels of one header, together. */
export function familyOf(variants: readonly KernelVariant[]): Family {
  const lines = variants.map(({ line }) => line);
  const { header } = variants[0]!;
  return {
    source: `${constantsOf(header)}#include "${header}"\n${lines.join("\n")}\n`,
    names: variants.map(({ name }) => name),
  };
}

/** {@link kernelOf}, but 0 if the kernel is unavailable. */
export function findKernel(device: CudaDevice, variant: KernelVariant): number {
  return device.find(variant.name, () => familyOf([variant]).source);
}

/** The kernel on `device`, compiled by the first call. */
export function kernelOf(device: CudaDevice, variant: KernelVariant): number {
  return device.kernel(variant.name, () => familyOf([variant]).source);
}
