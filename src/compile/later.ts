/**
 * Asynchronous runs without another thread: in a later task of this one.
 *
 * @module
 */
import { QueueFullError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import { copyInto, copyOf } from "../core/dispatch.ts";
import type { Operand } from "../memory/operand.ts";
import { recycle } from "../memory/pool.ts";
import type { Storage } from "../memory/storage.ts";
import type { Graph } from "./graph.ts";
import { type Executor, type LaterOptions, writtenStorages } from "./replay.ts";

/** The runs that have not begun. */
let pending = 0;

/** Runs `executor` in a later task, on copies of the elements that the arguments have now. */
export function laterOnThread(
  executor: Executor,
  graph: Graph,
): (args: readonly Storage[], options: LaterOptions) => Promise<readonly Storage[]> {
  return async (args, { queue, signal, restore }) => {
    signal?.throwIfAborted();
    if (pending >= queue.limit) throw new QueueFullError(queue.limit);
    const copies = args.map((storage) => copyOf(whole(storage)).storage);
    for (const copy of copies) copy.handles++;
    pending++;
    try {
      await new Promise((resolve) => setTimeout(resolve, 0));
    } finally {
      pending--;
    }
    const free = (): void => {
      for (const copy of copies) if (--copy.handles === 0) recycle(copy);
    };
    let made: readonly Storage[];
    try {
      signal?.throwIfAborted();
      restore();
      made = executor.run(copies);
    } catch (error) {
      free();
      throw error;
    }
    for (const storage of writtenStorages(graph)) {
      const { origin } = storage as typeof graph.storages[number];
      if (origin.kind !== "argument") continue;
      const to = args[origin.group]!;
      to.settle();
      copyInto(whole(to), whole(copies[origin.group]!));
    }
    const results = made.map((storage) => {
      const argument = copies.indexOf(storage);
      return argument < 0 ? storage : args[argument]!;
    });
    // Those that no handle holds are freed with the run.
    for (const storage of results) storage.handles++;
    executor.release();
    for (const storage of results) storage.handles--;
    free();
    return results;
  };
}

function whole(storage: Storage): Operand {
  return { storage, layout: Layout.contiguous([storage.length]), flags: 0 };
}
