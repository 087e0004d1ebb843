/**
 * Calls of the CUDA backend made by hand.
 *
 * @module
 */
import { CudaBackend } from "../../../src/backend/cuda/backend.ts";
import type { CudaDevice } from "../../../src/backend/cuda/device.ts";
import type { Backend } from "../../../src/core/backend.ts";
import { BackendCalls } from "../../calls.ts";

/** Has no kernel, so that a call without a kernel in the tested backend is an error. */
const NOTHING: Backend = { name: "nothing", supports: () => false, run: () => false };

/** Calls on `device`, which must have a kernel for each. */
export function cudaCalls(device: CudaDevice): BackendCalls {
  return new BackendCalls(new CudaBackend(device), NOTHING);
}
