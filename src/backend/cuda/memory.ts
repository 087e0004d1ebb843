/**
 * The memory of a CUDA device: the shim's allocator, copies in stream order, and reads that wait
 * without blocking.
 *
 * Knows nothing of dtypes or ops.
 *
 * @module
 */
import { pause, turn } from "../../base/turn.ts";
import { DeviceError } from "../../base/errors.ts";
import type { DeviceMemory, DeviceMemoryInfo, Storage } from "../../memory/storage.ts";
import { CUDA_MEMORY, CUDA_READ } from "../ffi/abi.ts";
import { type CudaDevice, FAULT_WORDS } from "./device.ts";

/**
 * For this many milliseconds, and while parts arrive, a read polls at every turn of the event loop,
 * which costs least.
 */
const EAGER_MS = 0.2;
/** Then it sleeps between polls for this fraction of the time waited, but no longer than this. */
const PATIENCE = 1 / 8;
const LONGEST_SLEEP_MS = 10;

/** The memory of one device. */
export class CudaMemory implements DeviceMemory {
  readonly device: string;
  /** The number of the device, for copies between devices. */
  readonly index: number;
  readonly #cuda: CudaDevice;

  constructor(cuda: CudaDevice) {
    this.device = cuda.name;
    this.index = cuda.index;
    this.#cuda = cuda;
  }

  get recording(): boolean {
    return this.#cuda.notes !== null;
  }

  allocate(bytes: number): number {
    const address = this.#cuda.memory(CUDA_MEMORY.allocate, null, bytes);
    this.#cuda.notes?.take(address);
    return address;
  }

  free(address: number): void {
    this.#cuda.memory(CUDA_MEMORY.free, null, address);
  }

  zero(address: number, bytes: number): void {
    this.#cuda.memory(CUDA_MEMORY.zero, null, address, bytes);
  }

  write(address: number, bytes: Uint8Array): void {
    this.#cuda.memory(CUDA_MEMORY.upload, bytes, address, bytes.length);
  }

  read(address: number, bytes: Uint8Array): void {
    this.#cuda.memory(CUDA_MEMORY.download, bytes, address, bytes.length);
    this.#cuda.checkFaults();
  }

  async readLater(address: number, bytes: Uint8Array): Promise<void> {
    const cuda = this.#cuda;
    const ticket = cuda.memory(CUDA_MEMORY.beginRead, null, address, bytes.length);
    if (!cuda.mayHaveFaults) return await this.#endRead(ticket, bytes);
    // Errors up to now are read together with the data, since the read does not wait for later
    // work.
    const faults = new BigInt64Array(FAULT_WORDS);
    const { indexings } = cuda;
    let told: number;
    try {
      told = cuda.memory(CUDA_MEMORY.beginRead, null, cuda.indexErrors, faults.byteLength);
    } catch (error) {
      cuda.memory(CUDA_MEMORY.endRead, null, ticket);
      throw error;
    }
    await this.#endRead(ticket, bytes);
    await this.#endRead(told, new Uint8Array(faults.buffer));
    cuda.checkIndexErrors(faults, indexings);
  }

  /** Waits without blocking until the data is in `bytes`. */
  async #endRead(ticket: number, bytes: Uint8Array): Promise<void> {
    const begin = performance.now();
    for (;;) {
      const came = this.#cuda.memory(CUDA_MEMORY.endRead, bytes, ticket, 0, bytes.length);
      if (came === CUDA_READ.ended) return;
      const waited = performance.now() - begin;
      const soon = came === CUDA_READ.moves || waited < EAGER_MS;
      await (soon ? turn() : pause(Math.min(LONGEST_SLEEP_MS, waited * PATIENCE)));
    }
  }

  note(out: Storage, input: Storage): void {
    this.#cuda.notes?.write(out);
    this.#cuda.notes?.read(input);
  }

  copy(to: number, source: DeviceMemory, from: number, bytes: number): void {
    const { index, recording } = source as CudaMemory;
    if (source !== this && (recording || this.recording)) {
      throw new DeviceError(
        `${this.device}: cannot copy from ${source.device} while a graph is being captured`,
      );
    }
    this.#cuda.memory(CUDA_MEMORY.copy, null, to, from, bytes, index);
  }

  synchronize(): void {
    this.#cuda.synchronize();
    this.#cuda.checkFaults();
  }

  usage(): DeviceMemoryInfo {
    this.#cuda.memory(CUDA_MEMORY.usage, null);
    const [inUse, kept, peakBytes, freeBytes, totalBytes] = this.#cuda
      .numbers;
    return {
      bytes: inUse! + kept!,
      peakBytes: peakBytes!,
      pooledBytes: kept!,
      freeBytes: freeBytes!,
      totalBytes: totalBytes!,
    };
  }

  release(): void {
    this.#cuda.memory(CUDA_MEMORY.release, null);
  }
}
