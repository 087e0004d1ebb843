/**
 * Kernels that are one line each: a macro of a header of shim/cuda/kernels, with a name and types.
 *
 * @module
 */
import { constantsOf, type Header } from "./constants.ts";
import type { CudaDevice, Family } from "./device.ts";

/** A kernel that a line of C makes of what a header defines. */
export interface Instance {
  /** Its name, which says all that makes it different from the others. */
  readonly name: string;
  /** The file of shim/cuda/kernels. */
  readonly header: Header;
  /** The line. */
  readonly line: string;
}

/** Those of one header, together. */
export function familyOf(instances: readonly Instance[]): Family {
  const lines = instances.map(({ line }) => line);
  const { header } = instances[0]!;
  return {
    source: `${constantsOf(header)}#include "${header}"\n${lines.join("\n")}\n`,
    names: instances.map(({ name }) => name),
  };
}

/** {@link kernelOf}, but 0 where it cannot be had. */
export function findKernel(device: CudaDevice, instance: Instance): number {
  return device.find(instance.name, () => familyOf([instance]).source);
}

/** The kernel on `device`, compiled by the first call. */
export function kernelOf(device: CudaDevice, instance: Instance): number {
  return device.kernel(instance.name, () => familyOf([instance]).source);
}
