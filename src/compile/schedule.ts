/**
 * The order of nodes: those that need memory no longer run as soon as they can, so that it is free for
 * others. A parameter is updated when its derivative is ready, and products that are the last to read an
 * activation come before those that make new values.
 *
 * @module
 */
import {
  type Graph,
  isFinalCopy,
  isOutside,
  isTotal,
  type Node,
  readsOf,
  type TracedStorage,
  writesOf,
} from "./graph.ts";
import { resultStorages } from "./passes.ts";
import { findTiles } from "./tiles.ts";

/** A node, with the storages that it reads and writes. */
interface Step {
  readonly node: Node;
  readonly reads: ReadonlySet<TracedStorage>;
  readonly writes: ReadonlySet<TracedStorage>;
  /** The group of nodes that run tile by tile, which stay together; undefined for none. */
  readonly group: object | undefined;
}

const bytesOf = (storages: Iterable<TracedStorage>): number =>
  [...storages].reduce((sum, { length, info }) => sum + length * info.bytes, 0);

const isMade = ({ origin }: TracedStorage): boolean => origin.kind === "made";

const meets = (a: ReadonlySet<TracedStorage>, b: ReadonlySet<TracedStorage>): boolean =>
  [...a].some((storage) => b.has(storage));

/** Whether `step` has to stay behind `other`. */
function follows({ node, reads, writes }: Step, other: Step): boolean {
  if (meets(other.writes, reads) || meets(other.writes, writes)) return true;
  if (meets(other.reads, writes)) return true;
  // What throws does so before memory outside is written.
  return !isTotal(other.node) && writesOf(node).some(({ origin }) => isOutside(origin));
}

/** The same nodes in an order in which large intermediate results live shorter. */
export function releaseEarly(graph: Graph): Graph {
  const results = resultStorages(graph);
  const groups = findTiles(graph);
  const steps = graph.nodes.map((node, i): Step => ({
    node,
    reads: new Set(readsOf(node).map(({ storage }) => storage)),
    writes: new Set([...writesOf(node), ...node.outputs.map(({ storage }) => storage)]),
    group: groups.find(({ first, end }) => i >= first && i < end),
  }));
  const lastReader = new Map<TracedStorage, Step>();
  for (const step of steps) for (const storage of step.reads) lastReader.set(storage, step);
  steps.slice().forEach((step, i) => {
    const { node, reads, writes, group } = step;
    if (group !== undefined || !isTotal(node) || isFinalCopy(node)) return;
    let freed = new Set(
      [...reads].filter((one) => isMade(one) && !results.has(one) && lastReader.get(one) === step),
    );
    // Large nodes may wait for what is computed of numbers, which take no memory that counts.
    const isScalar = [...reads, ...writes].every(({ length }) => length === 1);
    const made = bytesOf([...writes].filter(isMade));
    if (!isScalar && bytesOf(freed) < made) return;
    let place = i;
    while (place > 0) {
      const before = steps[place - 1]!;
      if (follows(step, before)) break;
      // What the other reads, too, is needed as long as before.
      const left = new Set([...freed].filter((storage) => !before.reads.has(storage)));
      if (!isScalar && left.size < freed.size && bytesOf(left) < made) break;
      freed = left;
      place--;
    }
    // Between two nodes of a group it would part them.
    while (place < i && isInside(steps, place)) place++;
    if (place === i) return;
    steps.splice(i, 1);
    steps.splice(place, 0, step);
    for (const storage of reads) {
      if (lastReader.get(storage) !== step) continue;
      const last = steps.slice(place, i + 1).findLast((other) => other.reads.has(storage))!;
      lastReader.set(storage, last);
    }
  });
  return { ...graph, nodes: steps.map(({ node }) => node) };
}

/** Whether the steps around `place` are of one group. */
function isInside(steps: readonly Step[], place: number): boolean {
  const group = steps[place]!.group;
  return group !== undefined && steps[place - 1]?.group === group;
}
