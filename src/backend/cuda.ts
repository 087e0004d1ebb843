/**
 * The backend of CUDA devices. The first tensor on such a device opens it through the shim.
 *
 * Importing this module opens nothing. Knows nothing of ops.
 *
 * @module
 */
import type { Device } from "../core/backend.ts";
import { registerDevices } from "../core/dispatch.ts";
import { CudaBackend } from "./cuda/backend.ts";
import { CudaDevice } from "./cuda/device.ts";
import { CudaMemory } from "./cuda/memory.ts";
export { allowTF32 } from "./cuda/matmul.ts";
import { type Shim, STATUS, tableHash, type Unavailable } from "./ffi/abi.ts";
import { findShim } from "./ffi/load.ts";
import { lastError, readCudaInfo } from "./ffi/text.ts";

/** The CUDA devices of this machine. */
export interface CudaDevices {
  /** The shim, with CUDA open. */
  readonly shim: Shim;
  /** The number of devices, at least 1. */
  readonly count: number;
}

/** Opens CUDA without using a device, or says why it cannot. Never prompts. */
export function findCuda(): CudaDevices | Unavailable {
  const shim = findShim();
  if ("reason" in shim) return { reason: `it needs the native library: ${shim.reason}` };
  // The kernels of the shim, compiled ahead or not, belong to the ops of its own table.
  if (shim.rm_table_hash() !== tableHash()) {
    return { reason: "the native library was built from another op table: build it again" };
  }
  const numbers = new Float64Array(3);
  const status = shim.rm_cuda_open(null, numbers);
  if (status !== STATUS.ok) return { reason: lastError(shim) };
  const count = numbers[0]!;
  return count > 0 ? { shim, count } : { reason: "there is no CUDA device on this machine" };
}

/** One line about a device: its name, memory and capabilities. */
export function describeDevice(shim: Shim, index: number): string {
  const about = readCudaInfo(shim, index);
  const parts = [about.get("name") ?? "CUDA device"];
  const bytes = Number(about.get("memory"));
  if (bytes > 0) parts.push(`${(bytes / 2 ** 30).toFixed(1)} GiB`);
  const capability = about.get("capability");
  if (capability !== undefined) parts.push(`compute capability ${capability}`);
  return parts.join(", ");
}

/** The version and the path of a library of NVIDIA, or why it is not open. */
export function describeLibrary(
  cuda: CudaDevices | Unavailable,
  name: "cublas" | "cufft" | "cusolver",
): string {
  if ("reason" in cuda) return "needs the cuda backend";
  return readCudaInfo(cuda.shim, -1).get(name) ?? "unknown";
}

/** The backend and the memory of `device`. */
export function deviceFor(device: CudaDevice): Device {
  return { backend: new CudaBackend(device), memory: new CudaMemory(device) };
}

function open(index: number): Device | string {
  const found = findCuda();
  if ("reason" in found) return found.reason;
  if (index >= found.count) {
    return found.count === 1
      ? "there is one CUDA device on this machine"
      : `there are ${found.count} CUDA devices on this machine`;
  }
  return deviceFor(new CudaDevice(found.shim, index));
}

registerDevices("cuda", open);
