/**
 * Finds ops that can run tile by tile: chains, reductions, softmax and norms along rows, one after
 * the other on a few rows at a time, so that what lies between them stays in the caches.
 *
 * Each row is computed by the kernel that computes it otherwise, so results have the same bits.
 *
 * @module
 */
import { normalizeAxes } from "../base/shape.ts";
import { CHAIN } from "../ops/chain/op.ts";
import { MAP } from "../table/table.ts";
import {
  type Graph,
  isGiven,
  isValue,
  type Node,
  readsOf,
  type TracedStorage,
  type Value,
} from "./graph.ts";
import { isWhole, pureStorages, resultStorages } from "./passes.ts";

/** Consecutive nodes that run tile by tile. */
export interface TileGroup {
  /** The place of the first node. */
  readonly first: number;
  /** The place after the last one. */
  readonly end: number;
  /** The rows of all of them. */
  readonly rows: number;
  /** The rows of a tile. */
  readonly tile: number;
  /** The storages that only nodes of the group use. */
  readonly inner: ReadonlySet<TracedStorage>;
  /** The bytes that all tiles read and write. */
  readonly bytes: number;
}

/** Sizes in bytes; tests lower them. */
export const TILE_LIMITS: { tile: number; least: number } = {
  /** What a tile reads and writes, which should fit half of the second-level cache. */
  tile: 1 << 18,
  /** Less memory between the nodes than this stays in the caches anyway. */
  least: 1 << 18,
};

/** Ops along axes that no row shares with another. */
const ALONG = new Set([
  ...["variance", "standardDeviation", "norm", "logsumexp"],
  ...["softmax", "logSoftmax", "layerNorm", "rmsNorm"],
]);

/** The rows of a node that computes each of them by itself; undefined for others. */
function rowsOfNode(node: Node, isPure: (storage: TracedStorage) => boolean): number | undefined {
  const { op, inputs, outputs, given, attributes } = node;
  const [output] = outputs;
  if (given || op.writes !== undefined || output === undefined) return undefined;
  if (outputs.some((_, k) => isGiven(node, k))) return undefined;
  if (![...readsOf(node), ...outputs].every(({ storage }) => isPure(storage))) return undefined;
  if (op === CHAIN || (MAP as Record<string, unknown>)[op.name] === op) {
    const hasPlaceholder = op !== CHAIN &&
      inputs.some((input) => typeof input === "object" && !isValue(input));
    return hasPlaceholder ? undefined : output.layout.shape[0];
  }
  const along = op.kind === "reduce" || op.kind === "argReduce" || op.kind === "scan";
  if (!along && !ALONG.has(op.name)) return undefined;
  const [x] = inputs;
  if (!isValue(x!) || x.layout.rank < 2) return undefined;
  const { axis } = attributes as { axis?: number | readonly number[] | null };
  if (axis === null || (axis === undefined && along)) return undefined;
  const { rank, shape } = x.layout;
  const axes = normalizeAxes(node.name, axis ?? -1, rank);
  // The order of sums along strided axes depends on the number of rows.
  const trailing = axes.every((one) => one >= rank - axes.length) && x.layout.contiguous;
  return axes.includes(0) || !trailing ? undefined : shape[0];
}

/** The number of axes along which the operands of a node have rows. */
export function rowRank({ op, inputs, outputs }: Node): number {
  const isMap = op === CHAIN || op.kind === "map";
  return (isMap ? outputs[0]! : inputs[0] as Value).layout.rank;
}

/** Whether an operand of a node has a row of its own for each row of the node. */
export function hasRows({ layout }: Value, rank: number, rows: number): boolean {
  return layout.rank === rank && layout.shape[0] === rows;
}

/** The groups of a graph, in order. */
export function findTiles(graph: Graph): TileGroup[] {
  const { nodes } = graph;
  const isPure = pureStorages(graph);
  const results = resultStorages(graph);
  const lastRead = new Map<TracedStorage, number>();
  nodes.forEach((node, i) => {
    for (const { storage } of readsOf(node)) lastRead.set(storage, i);
  });
  const groups: TileGroup[] = [];
  for (let first = 0; first < nodes.length;) {
    const end = endOf(nodes, first, isPure);
    const group = end - first > 1
      ? groupOf(
        nodes,
        first,
        end,
        (storage) => results.has(storage) || (lastRead.get(storage) ?? -1) >= end,
      )
      : undefined;
    if (group !== undefined) groups.push(group);
    first = end;
  }
  return groups;
}

/** The place after the last node that can run with the one at `first`. */
function endOf(
  nodes: readonly Node[],
  first: number,
  isPure: (storage: TracedStorage) => boolean,
): number {
  const rows = rowsOfNode(nodes[first]!, isPure);
  if (rows === undefined) return first + 1;
  const made = new Set(nodes[first]!.outputs.map(({ storage }) => storage));
  let end = first + 1;
  for (; end < nodes.length; end++) {
    const node = nodes[end]!;
    if (rowsOfNode(node, isPure) !== rows) break;
    const inner = readsOf(node).filter(({ storage }) => made.has(storage));
    const rank = rowRank(node);
    if (inner.length === 0 || !inner.every((one) => isWhole(one) && hasRows(one, rank, rows))) {
      break;
    }
    for (const { storage } of node.outputs) made.add(storage);
  }
  return end;
}

function groupOf(
  nodes: readonly Node[],
  first: number,
  end: number,
  isOutside: (storage: TracedStorage) => boolean,
): TileGroup | undefined {
  const inner = new Set<TracedStorage>();
  const withRows = new Set<TracedStorage>();
  let rows = 0;
  for (const node of nodes.slice(first, end)) {
    rows = node.outputs[0]!.layout.shape[0]!;
    for (const { storage } of node.outputs) {
      withRows.add(storage);
      if (!isOutside(storage)) inner.add(storage);
    }
    for (const one of readsOf(node)) {
      if (hasRows(one, rowRank(node), rows)) withRows.add(one.storage);
    }
  }
  const bytesOf = (storages: Iterable<TracedStorage>): number =>
    [...storages].reduce((sum, { length, info }) => sum + length * info.bytes, 0);
  const bytes = bytesOf(withRows);
  if (rows < 2 || bytesOf(inner) < TILE_LIMITS.least) return undefined;
  const tile = Math.max(1, Math.floor(TILE_LIMITS.tile / (bytes / rows)));
  if (tile >= rows) return undefined;
  return { first, end, rows, tile: tile >= 8 ? tile - tile % 8 : tile, inner, bytes };
}
