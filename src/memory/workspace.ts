/**
 * Storages for the duration of one call, for work without a kernel of its own.
 *
 * Knows nothing of ops.
 *
 * @module
 */
import { DTYPE, type DType } from "../base/dtype.ts";
import { DeviceStorage } from "./device.ts";
import type { Storage } from "./storage.ts";

/**
 * Calls `use` with storages of the given lengths and dtypes on the device of `beside`, and frees
 * them afterwards.
 */
export function withWorkspace(
  beside: Storage,
  wanted: readonly (readonly [dtype: DType, length: number])[],
  use: (made: readonly Storage[]) => void,
): void {
  const made: DeviceStorage[] = [];
  try {
    for (const [dtype, length] of wanted) {
      made.push(new DeviceStorage(beside.memory!, DTYPE[dtype], length, false));
    }
    use(made);
  } finally {
    // The device runs queued work before any later use of the memory.
    for (const storage of made) storage.free();
  }
}
