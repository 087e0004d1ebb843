/**
 * Runs ops on a CUDA device: the place of its kernels, which are not in this tree yet.
 *
 * @module
 */
import type { Backend } from "../../backend.ts";
import { DeviceError } from "../../errors.ts";
import type { CudaDevice } from "./device.ts";

/** Refuses every device. */
export const CudaBackend: new (device: CudaDevice) => Backend = class {
  constructor(device: CudaDevice) {
    throw new DeviceError(`Cannot use ${device.name}: this build has no kernels for it`);
  }
} as never;
