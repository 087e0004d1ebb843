/**
 * Improvements of graphs that remove nodes: those without use, those that repeat others, and those
 * of constants.
 *
 * A pass never changes its graph; it returns another one on the same storages.
 *
 * @module
 */
import { Layout } from "../base/layout.ts";
import { sameShape } from "../base/shape.ts";
import { isOperand } from "../memory/operand.ts";
import type { Storage } from "../memory/storage.ts";
import type { Input } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import type { Computation } from "./constants.ts";
import {
  finalCopies,
  type Graph,
  isGiven,
  isOutside,
  isTotal,
  isValue,
  type Node,
  type NodeInput,
  readsOf,
  TracedStorage,
  type Value,
  writesOf,
} from "./graph.ts";
import { sameInput, sameValue } from "./same.ts";

/** How often the nodes of a graph write each storage; those that are made count once. */
function writeCounts(graph: Graph): Map<TracedStorage, number> {
  const final = finalCopies(graph);
  const counts = new Map<TracedStorage, number>();
  const add = (storage: TracedStorage): void => {
    counts.set(storage, (counts.get(storage) ?? 0) + 1);
  };
  for (const node of graph.nodes) {
    // Nothing reads what they write.
    if (final.has(node)) continue;
    for (const storage of writesOf(node)) add(storage);
    node.outputs.forEach(({ storage }, k) => {
      if (!isGiven(node, k) && !node.given) add(storage);
    });
  }
  return counts;
}

/** Tells of the storages whose elements are the same at every node that can read them. */
export function pureStorages(graph: Graph): (storage: TracedStorage) => boolean {
  const counts = writeCounts(graph);
  return (storage) =>
    storage.origin.kind === "joined" ||
    (counts.get(storage) ?? 0) <= (storage.origin.kind === "made" ? 1 : 0);
}

/** The storages that results refer to. */
export function resultStorages({ results }: Graph): Set<TracedStorage> {
  return new Set(results.map(({ storage }) => storage));
}

/**
 * Drops nodes that neither a result nor memory outside depends on, unless they may throw: a program
 * throws where its function would.
 */
export function dropDeadCode(graph: Graph): Graph {
  const live = resultStorages(graph);
  for (const storage of graph.storages) {
    if (isOutside(storage.origin)) live.add(storage);
  }
  const kept: Node[] = [];
  for (const node of graph.nodes.toReversed()) {
    const written = [...writesOf(node), ...node.outputs.map(({ storage }) => storage)];
    if (isTotal(node) && !written.some((storage) => live.has(storage))) continue;
    kept.push(node);
    for (const storage of written) live.add(storage);
    for (const { storage } of readsOf(node)) live.add(storage);
  }
  return { ...graph, nodes: kept.reverse() };
}

/** A copy of `node` whose operands are in other storages. */
export function redirected(node: Node, to: ReadonlyMap<TracedStorage, TracedStorage>): Node {
  const moveValue = (value: Value): Value => {
    const storage = to.get(value.storage);
    return storage === undefined ? value : { ...value, storage };
  };
  const move = (input: NodeInput): NodeInput => isValue(input) ? moveValue(input) : input;
  const { inputs, outputs } = node;
  if (!inputs.some((input) => isValue(input) && to.has(input.storage))) return node;
  return { ...node, inputs: inputs.map(move), outputs: outputs.map(moveValue) };
}

/** Computes equal ops of equal operands once. */
export function shareSubexpressions(graph: Graph): Graph {
  const isPure = pureStorages(graph);
  const results = resultStorages(graph);
  const moved = new Map<TracedStorage, TracedStorage>();
  /** By op and storages of inputs. */
  const seen = new Map<string, Node[]>();
  const nodes: Node[] = [];
  for (const original of graph.nodes) {
    const node = redirected(original, moved);
    const { op, inputs, outputs, given, attributes } = node;
    const pure = !given && op.writes === undefined && outputs.length > 0 &&
      [...readsOf(node), ...outputs].every(({ storage }) => isPure(storage));
    if (!pure) {
      nodes.push(node);
      continue;
    }
    const key = `${op.name} ${inputs.map((input) => isValue(input) ? input.storage.id : "")}`;
    const same = seen.get(key)?.find((other) =>
      other.inputs.length === inputs.length &&
      other.inputs.every((input, k) => sameInput(input, inputs[k]!)) &&
      sameValue(other.attributes, attributes) &&
      // Results have memory of their own.
      !outputs.some(({ storage }) => results.has(storage)) &&
      !other.outputs.some(({ storage }) => results.has(storage))
    );
    if (same !== undefined) {
      outputs.forEach(({ storage }, k) => moved.set(storage, same.outputs[k]!.storage));
      continue;
    }
    if (!seen.has(key)) seen.set(key, []);
    seen.get(key)!.push(node);
    nodes.push(node);
  }
  return { ...graph, nodes };
}

/** Reads what checkpoints compute once more from where it is: no later pass takes it for what was made before. */
export function dropBarriers(graph: Graph): Graph {
  const isPure = pureStorages(graph);
  const results = resultStorages(graph);
  const moved = new Map<TracedStorage, TracedStorage>();
  const nodes = graph.nodes.flatMap((original): Node[] => {
    const node = redirected(original, moved);
    const { op, inputs: [input], outputs: [output], attributes } = node;
    const isBarrier = op === MAP.copy &&
      (attributes as { readonly again?: number } | undefined)?.again !== undefined;
    if (!isBarrier || !isValue(input!) || !isWhole(input) || !isWhole(output!)) return [node];
    const isPlain = [input, output!].every(({ storage }) => isPure(storage)) &&
      input.storage.info === output!.storage.info && !results.has(output!.storage);
    if (isPlain) moved.set(output!.storage, input.storage);
    return isPlain ? [] : [node];
  });
  return { ...graph, nodes };
}

/** The windows of a node that takes the largest element of each, or the derivative by it. */
const windowsOf = ({ attributes }: Node): unknown =>
  (attributes as { readonly windows?: unknown }).windows;

/**
 * Takes the derivative of relu before pooling to that of the largest elements of windows, which are
 * positive where the elements at their places are. So the pass goes over the results of pooling only, and
 * the activation is read for the last time by the derivative of pooling, which may be written over it.
 */
export function maskPooled(graph: Graph): Graph {
  const isPure = pureStorages(graph);
  const storages = graph.storages.slice();
  const made = new Map<TracedStorage, Node>();
  const readers = new Map<TracedStorage, number>();
  for (const node of graph.nodes) {
    for (const { storage } of node.outputs) made.set(storage, node);
    for (const { storage } of readsOf(node)) readers.set(storage, (readers.get(storage) ?? 0) + 1);
  }
  for (const storage of resultStorages(graph)) readers.set(storage, Infinity);
  const fresh = (shape: readonly number[], { storage }: Value): Value => {
    const layout = Layout.contiguous(shape);
    const { info, memory } = storage;
    const own = new TracedStorage(storages.length, info, layout.size, memory, { kind: "made" });
    storages.push(own);
    return { storage: own, layout, flags: 0 };
  };
  const nodes = graph.nodes.flatMap((node, i): Node[] => {
    const [test, spread, other] = node.inputs;
    if (node.op !== MAP.where || node.given || other !== 0) return [node];
    if (!isValue(test!) || !isValue(spread!)) return [node];
    const positive = made.get(test.storage), back = made.get(spread.storage);
    if (positive?.op !== MAP.greater || back?.op.name !== "maxPoolGrad") return [node];
    const [x, zero] = positive.inputs as [Value, NodeInput],
      [from, g] = back.inputs as [Value, Value];
    const pooled = graph.nodes.slice(0, i).find((one) =>
      (one.op.name === "maxPool" || one.op.name === "maxPoolIndices") &&
      sameInput(one.inputs[0]!, from) &&
      sameValue(windowsOf(one), windowsOf(back))
    );
    const [output] = node.outputs as [Value];
    const fits = zero === 0 && isValue(x) && sameInput(x, from) && pooled !== undefined &&
      !positive.given && !back.given && readers.get(spread.storage) === 1 &&
      [test, spread, output].every((one) =>
        isWhole(one) && sameShape(one.layout.shape, x.layout.shape)
      ) &&
      [test, spread, x, g, output, pooled.outputs[0]!].every(({ storage }) => isPure(storage));
    if (!fits) return [node];
    const { shape } = g.layout;
    const mask = fresh(shape, test), masked = fresh(shape, g);
    return [
      { ...positive, inputs: [pooled.outputs[0]!, 0], outputs: [mask] },
      { ...node, inputs: [mask, g, 0], outputs: [masked] },
      { ...back, inputs: [from, masked], outputs: [output] },
    ];
  });
  return { ...graph, storages, nodes };
}

/** A graph whose constants are computed, and the tensors outside that they depend on. */
export interface Folded {
  readonly graph: Graph;
  /** The version of each tensor outside that a constant was computed of. */
  readonly versions: Map<Storage, number>;
}

/**
 * A constant that takes more than this, beside four times its operands, is computed in each run.
 */
const MOST_BYTES = 1 << 20;

/** The storage of a constant of the graph; undefined for those that only a run knows. */
export function constantOf(
  { origin }: TracedStorage,
  isPure: boolean,
): Storage | undefined {
  if (!isPure) return undefined;
  if (origin.kind === "created" && origin.constant !== null) return origin.constant;
  // Code outside may write memory that it can reach at any time.
  if (origin.kind === "captured" && !origin.storage.exposed) return origin.storage;
  return undefined;
}

/** The results of an op of constants, each all of a storage. */
export type Fold = (computation: Computation) => readonly Storage[];

/** Has `compute` compute the nodes whose operands are constants. */
export function foldConstants(graph: Graph, compute: Fold): Folded {
  const isPure = pureStorages(graph);
  const versions = new Map<Storage, number>();
  const storages = graph.storages.slice();
  const made = new Map<TracedStorage, TracedStorage>();
  const nodes: Node[] = [];
  for (const original of graph.nodes) {
    const node = redirected(original, made);
    const computation = computationOf(node, isPure);
    if (computation === undefined) {
      nodes.push(node);
      continue;
    }
    const folded = compute(computation);
    for (const { storage } of readsOf(node)) {
      if (storage.origin.kind === "captured") {
        versions.set(storage.origin.storage, storage.origin.storage.version);
      }
    }
    node.outputs.forEach(({ storage }, k) => {
      const constant = folded[k]!;
      const { op, name } = node;
      // The op is only named in reports: a constant is never created again.
      const origin = { kind: "created", op: op as never, name, attributes: {}, constant } as const;
      const { info, length, memory, id } = storage;
      const replaced = new TracedStorage(id, info, length, memory, origin);
      storages[id] = replaced;
      made.set(storage, replaced);
    });
  }
  const results = graph.results.map((value) => {
    const storage = made.get(value.storage);
    return storage === undefined ? value : { ...value, storage };
  });
  return { graph: { storages, nodes, results }, versions };
}

/** What a node computes, if all its operands are constants and the results are not too large. */
function computationOf(
  node: Node,
  isPure: (storage: TracedStorage) => boolean,
): Computation | undefined {
  const { op, name, inputs, outputs, given, attributes } = node;
  if (given || op.writes !== undefined || outputs.length === 0) return undefined;
  if (!outputs.every(({ storage }) => isPure(storage))) return undefined;
  let bytes = MOST_BYTES;
  const real: Input[] = [];
  for (const input of inputs) {
    if (!isValue(input)) {
      if (typeof input === "object" && input !== null) return undefined;
      real.push(input as Input);
      continue;
    }
    const { storage, layout, flags } = input;
    const constant = constantOf(storage, isPure(storage));
    if (constant === undefined) return undefined;
    // Elements that broadcasting repeats are in memory once.
    bytes += 4 * Math.min(layout.size, storage.length) * storage.info.bytes;
    real.push({ storage: constant, layout, flags });
  }
  if (!real.some(isOperand)) return undefined;
  const all = outputs.reduce((sum, { storage }) => sum + storage.length * storage.info.bytes, 0);
  const results = outputs.map(({ storage: { info, length } }) => ({ info, length }));
  return all > bytes ? undefined : { op, name, inputs: real, attributes, results };
}

/** Whether `value` is all of its storage in row-major order. */
export function isWhole({ storage, layout }: Value): boolean {
  return layout.contiguous && layout.offset === 0 && layout.size === storage.length;
}
