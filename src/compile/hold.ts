/**
 * What a program holds of tensors outside: their memory, for as long as tensors hold it too.
 *
 * Once all tensors of a captured storage are disposed of, the program can only throw: it ends, so
 * that the memory is freed, and that of its constants with it.
 *
 * @module
 */
import { letGo } from "../memory/pool.ts";
import type { Hold, Storage } from "../memory/storage.ts";

/** What a {@link ProgramHold} knows of its program. */
export interface Holder {
  /** The handles of storages that its executor has. */
  readonly handles: ReadonlyMap<Storage, number>;
  /** Frees the program. */
  dispose(): void;
}

/** The handles of a program. It does not refer to the program, which may be collected. */
export class ProgramHold implements Hold {
  readonly #storages = new Set<Storage>();
  readonly #followed = new Set<Storage>();
  #holder: WeakRef<Holder> | undefined;

  /** Holds a storage. */
  add(storage: Storage): void {
    if (this.#storages.has(storage)) return;
    this.#storages.add(storage);
    storage.handles++;
  }

  /** Has `holder` end when one of these storages has no tensor any more. */
  follow(storages: Iterable<Storage>, holder: Holder): void {
    this.#holder = new WeakRef(holder);
    lost.register(holder, this, this);
    for (const storage of storages) {
      if (!this.#storages.has(storage)) continue;
      this.#followed.add(storage);
      (storage.holds ??= new Set()).add(this);
    }
  }

  count(storage: Storage): number {
    const own = this.#storages.has(storage) ? 1 : 0;
    return own + (this.#holder?.deref()?.handles.get(storage) ?? 0);
  }

  end(): void {
    this.#holder?.deref()?.dispose();
  }

  /** Lets all storages go. */
  release(): void {
    lost.unregister(this);
    for (const storage of this.#followed) {
      storage.holds!.delete(this);
      if (storage.holds!.size === 0) storage.holds = null;
    }
    this.#followed.clear();
    for (const storage of this.#storages) {
      this.#storages.delete(storage);
      letGo(storage);
    }
  }
}

/** Lets go what programs held that were collected. */
const lost = new FinalizationRegistry<ProgramHold>((hold) => hold.release());
