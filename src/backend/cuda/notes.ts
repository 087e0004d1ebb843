/**
 * What a graph is told of while it is recorded: storages that are read and written, memory that is
 * taken.
 *
 * @module
 */
import type { Storage } from "../../memory/storage.ts";

/** What ops and the memory of a device tell while a graph is recorded. */
export class Notes {
  /** Storages that are used, and whether they were made meanwhile. */
  readonly #used = new Map<Storage, boolean>();
  /** Where memory was taken meanwhile. */
  readonly #taken = new Set<number>();
  /** Storages that are written. */
  readonly written = new Set<Storage>();

  /** Notes that memory was taken. */
  take(address: number): void {
    this.#taken.add(address);
  }

  /** Notes a storage that an op writes. */
  write(storage: Storage): void {
    this.written.add(storage.base);
    this.#use(storage.base);
  }

  /** Notes a storage that an op reads; scalars lie on the CPU. */
  read(storage: Storage): void {
    if (storage.device !== "cpu") this.#use(storage.base);
  }

  #use(storage: Storage): void {
    if (this.#used.has(storage)) return;
    const own = this.#taken.has(storage.address);
    this.#used.set(storage, own);
    // What is made and given back meanwhile may serve again, what was there before may not.
    if (!own) storage.handles++;
  }

  /** Gives what the graph holds from now on; there is a handle on each for it. */
  end(): Storage[] {
    for (const [storage, own] of this.#used) if (own) storage.handles++;
    return [...this.#used.keys()];
  }
}
