/**
 * What programs ask of devices beside ops: to wait, and how much memory they use.
 *
 * @module
 */
import { memoryOf } from "./backend.ts";
import {
  type DeviceMemoryInfo,
  emptyPool as emptyCpuPool,
  memory as cpuMemory,
} from "./storage.ts";
import type { MemoryInfo } from "./storage.ts";
import type { Device } from "./types.ts";

/**
 * Waits until `device` has done all that it was asked for. Ops on a device other than the CPU return
 * before they are done, and what reads a tensor waits by itself: this is for measuring times.
 *
 * Throws a DeviceError for what went wrong in it, and an IndexError for an index that was out of
 * range.
 */
export function synchronize(device: Device): void {
  memoryOf(device, "synchronize")?.synchronize();
}

/**
 * How much memory tensors take on the CPU. Memory that was handed in (`fromBuffer`) is not counted,
 * nor, in Bun, are arrays of up to 2 KiB.
 */
export function memory(device?: "cpu"): MemoryInfo;
/** How much memory tensors take on `device`. Throws a DeviceError when there is no such device. */
export function memory(device: Exclude<Device, "cpu">): DeviceMemoryInfo;
/** How much memory tensors take on a device that may be the CPU. */
export function memory(device: Device): MemoryInfo;
export function memory(device?: Device): MemoryInfo {
  return memoryOf(device, "tell the memory of")?.usage() ?? cpuMemory();
}

/** Lets go of the memory that is kept for reuse on `device`, the CPU unless it is given. */
export function emptyPool(device?: Device): void {
  const found = memoryOf(device, "empty the pool of");
  if (found === null) emptyCpuPool();
  else found.release();
}
