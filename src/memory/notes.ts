/**
 * Notes of a graph during its recording: storages that work reads and writes, and allocated memory.
 *
 * @module
 */
import type { Storage } from "./storage.ts";

/** Collects the storages and allocations of ops while a graph is recorded. */
export class Notes {
  /** Used storages, and whether the recording made them. */
  readonly #used = new Map<Storage, boolean>();
  /** Addresses of memory allocated during the recording. */
  readonly #taken = new Set<number>();
  /** Written storages. */
  readonly written = new Set<Storage>();

  /** Notes an allocation. */
  take(address: number): void {
    this.#taken.add(address);
  }

  /** Notes a storage that an op writes. */
  write(storage: Storage): void {
    this.written.add(storage.base);
    this.#use(storage.base);
  }

  /** Notes a storage that an op reads; scalars are stored on the CPU. */
  read(storage: Storage): void {
    if (storage.device !== "cpu") this.#use(storage.base);
  }

  #use(storage: Storage): void {
    if (this.#used.has(storage)) return;
    const own = this.#taken.has(storage.address);
    this.#used.set(storage, own);
    // The recording may reuse memory that it allocated and freed, but not older memory.
    if (!own) storage.handles++;
  }

  /** Returns the storages that the graph holds from now on; each has a handle for it. */
  end(): Storage[] {
    for (const [storage, own] of this.#used) if (own) storage.handles++;
    return [...this.#used.keys()];
  }
}
