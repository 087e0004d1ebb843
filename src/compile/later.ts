/**
 * Asynchronous runs without another thread: in a later task of this one.
 *
 * @module
 */
import { QueueFullError } from "../base/errors.ts";
import { copyOf } from "../core/dispatch.ts";
import { elementsOf } from "../memory/operand.ts";
import { letGo } from "../memory/pool.ts";
import { cowOf } from "../memory/snapshot.ts";
import type { Storage } from "../memory/storage.ts";
import { type Graph, isOutside, outsideStorage } from "./graph.ts";
import { type Executor, type LaterOptions, Replay, writeBack, writtenStorages } from "./replay.ts";

/** The runs that have not begun. */
let pending = 0;

/** The elements of a storage at the time of a call. */
interface Snapshot {
  /** The storage itself as long as it has not been written, or a copy. */
  read(): Storage;
  free(): void;
}

function snapshotOf(storage: Storage, isWritten: boolean): Snapshot {
  if (storage.length > 0 && !storage.exposed && !isWritten) {
    const cow = cowOf(storage, 0, storage.length - 1);
    return { read: () => cow.base === storage.base ? storage : cow.base, free: () => cow.free!() };
  }
  const { storage: copy } = copyOf(elementsOf(storage));
  // Ops that make and dispose of handles of it would free it otherwise.
  copy.handles++;
  return { read: () => copy, free: () => letGo(copy) };
}

/** Runs `executor` in a later task, on the elements that its tensors have now. */
export function laterOnThread(
  executor: Executor,
  graph: Graph,
  stack: { depth: number },
): (args: readonly Storage[], options: LaterOptions) => Promise<readonly Storage[]> {
  const written = [...writtenStorages(graph)];
  return async (args, { queue, signal, restore }) => {
    signal?.throwIfAborted();
    if (pending >= queue.limit) throw new QueueFullError(queue.limit);
    const snapshots = new Map<Storage, Snapshot>();
    const isWritten = new Set(
      written.flatMap(({ origin }) => isOutside(origin) ? [outsideStorage(origin, args)] : []),
    );
    const captured = graph.storages.flatMap(({ origin }) =>
      origin.kind === "captured" ? [origin.storage] : []
    );
    try {
      for (const storage of new Set([...args, ...captured])) {
        snapshots.set(storage, snapshotOf(storage, isWritten.has(storage)));
      }
      pending++;
      try {
        await new Promise((resolve) => setTimeout(resolve, 0));
      } finally {
        pending--;
      }
      stack.depth++;
      try {
        signal?.throwIfAborted();
        restore();
        return runOn(executor, graph, args, snapshots);
      } finally {
        stack.depth--;
      }
    } finally {
      for (const one of snapshots.values()) one.free();
    }
  };
}

/** Runs the graph on snapshots, and writes what it wrote to the tensors themselves. */
function runOn(
  executor: Executor,
  graph: Graph,
  args: readonly Storage[],
  snapshots: ReadonlyMap<Storage, Snapshot>,
): readonly Storage[] {
  const own = new Map<Storage, Storage>();
  for (const [storage, snapshot] of snapshots) own.set(storage, snapshot.read());
  const moved = graph.storages.some(({ origin }) =>
    origin.kind === "captured" && own.get(origin.storage) !== origin.storage
  );
  const used = moved ? new Replay(graph, own) : executor;
  let made: readonly Storage[];
  try {
    made = used.run(args.map((storage) => own.get(storage)!));
  } catch (error) {
    used.release();
    throw error;
  }
  const results = writeBack(graph, made, args, own);
  // Those that no handle holds are freed with the run.
  for (const storage of results) storage.handles++;
  used.release();
  for (const storage of results) storage.handles--;
  return results;
}
