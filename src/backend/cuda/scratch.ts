/**
 * Storages that last as long as a call: for what there is no kernel for.
 *
 * Knows nothing of ops.
 *
 * @module
 */
import { DTYPE, type DType } from "../../base/dtype.ts";
import { DeviceStorage } from "../../memory/device.ts";
import type { Storage } from "../../memory/storage.ts";

/**
 * Calls `use` with storages of so many elements of these dtypes, on the device of `beside`, which
 * last as long as the call.
 */
export function withScratch(
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
    // What is queued comes before whoever gets the memory next.
    for (const storage of made) storage.free();
  }
}
