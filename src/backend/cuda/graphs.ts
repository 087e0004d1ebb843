/**
 * CUDA graphs: recorded work of a device, run again at the cost of one launch.
 *
 * Until a graph is freed, it holds every storage that its work reads or writes, so that their
 * memory is not reused. Knows nothing of ops.
 *
 * @module
 */
import type { Recording } from "../../core/backend.ts";
import { letGo } from "../../memory/pool.ts";
import type { Storage } from "../../memory/storage.ts";
import { CUDA_CONTROL } from "../ffi/abi.ts";
import type { CudaDevice } from "./device.ts";
import { Notes } from "../../memory/notes.ts";

/** The resources of a graph. */
interface Owned {
  readonly device: CudaDevice;
  readonly handle: number;
  readonly held: readonly Storage[];
}

function free({ device, handle, held }: Owned): void {
  const numbers = Float64Array.of(handle);
  const status = device.shim.rm_cuda_control(CUDA_CONTROL.graphFree, device.index, numbers);
  drop(held);
  device.check("rm_cuda_control", status);
}

function drop(held: readonly Storage[]): void {
  for (const storage of held) letGo(storage);
}

/** Frees graphs that were collected without a call of `free`. */
const lost = new FinalizationRegistry<Owned>((owned) => {
  try {
    free(owned);
  } catch {
    // The device has failed: its next use throws.
  }
});

class Graph implements Recording {
  readonly #numbers: Float64Array;
  readonly #owned: Owned;

  constructor(
    owned: Owned,
    readonly written: ReadonlySet<Storage>,
    readonly indexes: boolean,
  ) {
    this.#owned = owned;
    this.#numbers = Float64Array.of(owned.handle);
    lost.register(this, owned, this);
  }

  run(): void {
    const { device } = this.#owned;
    // The next read checks for indexes out of range.
    if (this.indexes) device.nextIndexing();
    const status = device.shim
      .rm_cuda_control(CUDA_CONTROL.graphLaunch, device.index, this.#numbers);
    device.check("rm_cuda_control", status);
  }

  free(): void {
    lost.unregister(this);
    free(this.#owned);
  }
}

/** Records what `body` requests of `device`, without running it. */
export function record(device: CudaDevice, body: () => void): Recording {
  const { shim, index } = device;
  // Indexing needs this memory, and recording a graph does not allow writing it.
  void device.indexErrors;
  const before = device.indexings;
  device.check("rm_cuda_control", shim.rm_cuda_control(CUDA_CONTROL.captureBegin, index, null));
  const notes = device.notes = new Notes();
  const numbers = new Float64Array(1);
  let status: number;
  try {
    body();
  } catch (error) {
    // A graph that may be incomplete, or no graph.
    status = shim.rm_cuda_control(CUDA_CONTROL.captureEnd, index, numbers);
    device.notes = null;
    if (status === 0) shim.rm_cuda_control(CUDA_CONTROL.graphFree, index, numbers);
    drop(notes.end());
    throw error;
  }
  status = shim.rm_cuda_control(CUDA_CONTROL.captureEnd, index, numbers);
  device.notes = null;
  const held = notes.end();
  if (status !== 0) drop(held);
  device.check("rm_cuda_control", status);
  const indexes = device.indexings > before;
  return new Graph({ device, handle: numbers[0]!, held }, notes.written, indexes);
}
