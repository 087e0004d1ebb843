/**
 * Writes in place as new values, so that they can be shared and fused, and the other way round: results
 * that are made where they belong.
 *
 * @module
 */
import { DTYPE } from "../base/dtype.ts";
import { broadcastShapes, sameShape } from "../base/shape.ts";
import { CHAIN } from "../ops/chain/op.ts";
import type { ChainAttributes } from "../ops/chain/steps.ts";
import type { MapOp } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import {
  type Graph,
  isFinalCopy,
  isOutside,
  isValue,
  type Node,
  type NodeInput,
  readsOf,
  TracedStorage,
  type Value,
  writesOf,
} from "./graph.ts";
import { isWhole, redirected, resultStorages } from "./passes.ts";

/** The dtype of the result of an elementwise node that no output is given. */
function resultOf({ op, compute, attributes }: Node): string {
  if (op === MAP.copy) {
    return (attributes as { readonly dtype?: string } | undefined)?.dtype ?? compute.name;
  }
  return (op as MapOp).result === "bool" ? DTYPE.bool.name : compute.name;
}

/** Whether a node writes all elements of its output, as it would to a new one. */
function isRenamable(node: Node): boolean {
  const { op, given, outputs, compute } = node;
  const [output] = outputs;
  return given && op.kind === "map" && outputs.length === 1 && isWhole(output!) &&
    compute.lane === null && output!.storage.info.lane === null &&
    resultOf(node) === output!.storage.info.name && hasShape(node, output!.layout.shape);
}

/** Whether the operands of a node make a result of `shape` by themselves. */
function hasShape(node: Node, shape: readonly number[]): boolean {
  const made = readsOf(node).reduce<readonly number[]>(
    (all, { layout }) => broadcastShapes(node.name, all, layout.shape),
    [],
  );
  return sameShape(made, shape);
}

/** The storages of which all writes can be new values. */
function renamable({ nodes }: Graph): Set<TracedStorage> {
  const found = new Set<TracedStorage>(), others = new Set<TracedStorage>();
  for (const node of nodes) {
    const all = isRenamable(node) ? found : others;
    for (const storage of writesOf(node)) all.add(storage);
  }
  for (const storage of others) found.delete(storage);
  return found;
}

/**
 * A graph in which ops in place make new values. Memory outside gets the last ones at the end, by copies
 * that {@link isFinalCopy} knows.
 */
export function renameWrites(graph: Graph): Graph {
  const wanted = renamable(graph);
  if (wanted.size === 0) return graph;
  const storages = graph.storages.slice();
  const current = new Map<TracedStorage, TracedStorage>();
  const last = new Map<TracedStorage, Value>();
  const nodes = graph.nodes.map((original): Node => {
    const node = withInputs(original, current);
    const [output] = node.outputs;
    if (!isRenamable(original) || !wanted.has(output!.storage)) return node;
    const { storage, layout } = output!;
    const { info, length, memory } = storage;
    const fresh = new TracedStorage(storages.length, info, length, memory, { kind: "made" });
    storages.push(fresh);
    current.set(storage, fresh);
    last.set(storage, output!);
    return { ...node, outputs: [{ storage: fresh, layout, flags: 0 }], given: false };
  });
  for (const [storage, value] of last) {
    if (!isOutside(storage.origin)) continue;
    const made = current.get(storage)!;
    const { layout, flags } = value;
    nodes.push({
      op: MAP.copy,
      name: "copy",
      inputs: [{ storage: made, layout, flags }],
      outputs: [value],
      given: true,
      attributes: undefined,
      compute: storage.info,
    });
  }
  const results = graph.results.map((value) => {
    const made = isOutside(value.storage.origin) ? undefined : current.get(value.storage);
    return made === undefined ? value : { ...value, storage: made };
  });
  return { storages, nodes, results };
}

/** A node that reads other storages; what it writes stays. */
function withInputs(node: Node, to: ReadonlyMap<TracedStorage, TracedStorage>): Node {
  if (!readsOf(node).some(({ storage }) => to.has(storage))) return node;
  const inputs = node.inputs.map((input): NodeInput => {
    const storage = isValue(input) ? to.get(input.storage) : undefined;
    return storage === undefined ? input : { ...input as Value, storage };
  });
  return { ...node, inputs };
}

/** Whether a node may write `target` in place of its output `k` while it reads the same memory. */
function canReplace(node: Node, k: number, target: Value): boolean {
  const reads = readsOf(node).filter(({ storage }) => storage === target.storage);
  if (node.op !== CHAIN) {
    if (node.op.kind !== "map") return reads.length === 0 && k === 0 && node.outputs.length === 1;
  } else if (reads.length > 0) {
    const { steps, outputs } = node.attributes as ChainAttributes;
    const places = node.inputs.flatMap((input, i) =>
      isValue(input) && input.storage === target.storage ? [i] : []
    );
    const later = steps.slice(outputs[k]! + 1);
    if (later.some(({ inputs }) => inputs.some((value) => places.includes(value)))) return false;
  }
  const { shape } = node.outputs[k]!.layout;
  return reads.every((one) => isWhole(one) && sameShape(one.layout.shape, shape));
}

/** A graph whose last values of memory outside are made there, where nothing reads the earlier ones. */
export function placeWrites(graph: Graph): Graph {
  let { nodes } = graph;
  const results = resultStorages(graph);
  for (const copy of nodes.filter(isFinalCopy)) {
    const [made] = copy.inputs as [Value], [target] = copy.outputs as [Value];
    if (!isWhole(made) || !isWhole(target) || results.has(made.storage)) continue;
    if (made.storage.info !== target.storage.info) continue;
    const at = nodes.findIndex(({ outputs }) =>
      outputs.some(({ storage }) => storage === made.storage)
    );
    const maker = nodes[at];
    if (maker === undefined || maker.given || maker.op.writes !== undefined) continue;
    const isRead = (storage: TracedStorage, from: number): boolean =>
      nodes.slice(from).some((node) =>
        node !== copy && readsOf(node).some((value) => value.storage === storage)
      );
    const isWritten = nodes.some((node) =>
      node !== copy && writesOf(node).includes(target.storage)
    );
    // Another copy of the same value would read what this one has replaced: as it is the same, it may.
    if (isWritten || isRead(target.storage, at + 1)) continue;
    const k = maker.outputs.findIndex(({ storage }) => storage === made.storage);
    if (!canReplace(maker, k, target)) continue;
    const to = new Map([[made.storage, target.storage]]);
    nodes = nodes.flatMap((node, i): Node[] => {
      if (node === copy) return [];
      if (i !== at) return [i > at ? redirected(node, to) : node];
      const { layout, flags } = target;
      const shape = node.outputs[k]!.layout.shape;
      const place = sameShape(layout.shape, shape) ? layout : node.outputs[k]!.layout;
      return [{
        ...node,
        outputs: node.outputs.with(k, { storage: target.storage, layout: place, flags }),
      }];
    });
  }
  return { ...graph, nodes };
}
