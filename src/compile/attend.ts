/**
 * Recognises attention: products of queries and keys, scaled and masked, their softmax, and the
 * product with values become one op.
 *
 * @module
 */
import { DTYPE } from "../base/dtype.ts";
import type { Layout } from "../base/layout.ts";
import { sameShape } from "../base/shape.ts";
import type { AttentionAttributes } from "../ops/attention/problem.ts";
import { ATTENTION } from "../ops/attention/op.ts";
import {
  type Graph,
  isValue,
  type Node,
  type NodeInput,
  readsOf,
  type TracedStorage,
  type Value,
} from "./graph.ts";
import { isWhole, pureStorages, resultStorages } from "./passes.ts";

/** The dtypes that the op computes in one precision. */
const DTYPES = new Set([DTYPE.float32, DTYPE.float16, DTYPE.bfloat16]);

/** The nodes between both products, and what they say. */
interface Scores {
  readonly q: Value;
  /** [..., N, D]. */
  readonly k: Value;
  readonly scale: number;
  readonly mask: Value | undefined;
  /** The shape of what the mask was added to, which may be another view of the scores. */
  readonly maskedShape: readonly number[];
  /** The nodes that the op replaces. */
  readonly nodes: readonly Node[];
}

/** Replaces attention by the op of that name. */
export function joinAttention(graph: Graph): Graph {
  const isPure = pureStorages(graph);
  const results = resultStorages(graph);
  const readers = new Map<TracedStorage, number>();
  const makers = new Map<TracedStorage, Node>();
  for (const node of graph.nodes) {
    for (const { storage } of readsOf(node)) readers.set(storage, (readers.get(storage) ?? 0) + 1);
    if (!node.given) { for (const { storage } of node.outputs) makers.set(storage, node); }
  }
  /** The node that made an operand, if the operand is all that uses the result. */
  const makerOf = (input: NodeInput | undefined): Node | undefined => {
    if (input === undefined || !isValue(input)) return undefined;
    const { storage } = input;
    const only = readers.get(storage) === 1 && isPure(storage) && !results.has(storage);
    return only && isWhole(input) ? makers.get(storage) : undefined;
  };
  const dropped = new Set<Node>();
  const nodes = graph.nodes.map((node) => {
    const joined = attention(node, makerOf, isPure);
    if (joined === undefined) return node;
    for (const one of joined.dropped) dropped.add(one);
    return joined.node;
  });
  return { ...graph, nodes: nodes.filter((node) => !dropped.has(node)) };
}

/** The attention that ends with the product `node`. */
function attention(
  node: Node,
  makerOf: (input: NodeInput | undefined) => Node | undefined,
  isPure: (storage: TracedStorage) => boolean,
): { node: Node; dropped: readonly Node[] } | undefined {
  const { op, inputs: [weights, v], outputs: [output], given, attributes } = node;
  if (op.name !== "matmul" || given || attributes !== undefined) return undefined;
  const softmax = makerOf(weights);
  if (softmax?.op.name !== "softmax" || v === undefined || !isValue(v)) return undefined;
  const rank = output!.layout.rank;
  const axis = (softmax.attributes as { axis: number }).axis;
  if (axis !== -1 && axis !== rank - 1) return undefined;
  const scores = scoresOf(softmax.inputs[0], makerOf);
  if (scores === undefined) return undefined;
  const { q, k } = scores;
  const info = output!.storage.info;
  // A mask may also broadcast the scores, which the op does not.
  const [n, m] = [k.layout.shape.at(-2)!, q.layout.shape.at(-2)!];
  const shape = [...q.layout.shape.slice(0, -2), m, n];
  const mask = scores.mask && maskFor(shape, scores.mask, scores.maskedShape);
  if (mask === undefined && scores.mask !== undefined) return undefined;
  const operands = [q, k, v, ...mask === undefined ? [] : [mask]];
  const plain = DTYPES.has(info) && operands.every((one) => isPure(one.storage)) &&
    [q, k, v].every(({ storage, layout }) =>
      storage.info === info && layout.rank === rank && rank >= 3 && layout.size > 0
    ) &&
    (mask === undefined || mask.storage.info === info);
  const whole = sameShape((softmax.inputs[0] as Value).layout.shape, shape) &&
    v.layout.shape.at(-2) === n;
  // The op has no broadcasting of batches, but for heads.
  if (!plain || !whole || !sameBatch(q.layout, k.layout) || !sameBatch(q.layout, v.layout)) {
    return undefined;
  }
  return {
    dropped: [softmax, ...scores.nodes],
    node: {
      ...node,
      op: ATTENTION,
      name: "attention",
      inputs: mask === undefined ? [q, k, v] : [q, k, v, mask],
      attributes: { scale: scores.scale, causal: false, plain: true } satisfies AttentionAttributes,
    },
  };
}

/**
 * A mask for scores of a shape, which was added to a view of them: undefined if it does not broadcast.
 * Models merge the axes of batches and heads after they add the mask.
 */
function maskFor(
  shape: readonly number[],
  mask: Value,
  maskedShape: readonly number[],
): Value | undefined {
  if (maskedShape.at(-1) !== shape.at(-1) || maskedShape.at(-2) !== shape.at(-2)) return undefined;
  let { layout } = mask;
  while (layout.rank > 2 && layout.shape[0] === 1) layout = layout.squeeze(0);
  const added = shape.length - layout.rank;
  const fits = added >= 0 && layout.shape.every((n, i) => n === 1 || n === shape[i + added]);
  return fits ? { ...mask, layout } : undefined;
}

function sameBatch(a: Layout, b: Layout): boolean {
  return a.shape.slice(0, -2).every((size, i) => size === b.shape[i]);
}

/** The scores that are the operand of a softmax. */
function scoresOf(
  input: NodeInput | undefined,
  makerOf: (input: NodeInput | undefined) => Node | undefined,
): Scores | undefined {
  const nodes: Node[] = [];
  let mask: Value | undefined;
  let maskedShape: readonly number[] = [];
  let scale = 1;
  for (let node = makerOf(input); node !== undefined;) {
    nodes.push(node);
    const { op, inputs: [a, b], given } = node;
    if (given) return undefined;
    switch (op.name) {
      case "matmul": {
        if (node.attributes !== undefined || !isValue(a!) || !isValue(b!)) return undefined;
        if (a.layout.rank < 3 || b.layout.rank !== a.layout.rank) return undefined;
        return {
          q: a,
          k: { ...b, layout: b.layout.swapAxes(-2, -1) },
          scale,
          mask,
          maskedShape,
          nodes,
        };
      }
      case "add": {
        // The mask is added last.
        if (mask !== undefined || scale !== 1 || !isValue(a!) || !isValue(b!)) return undefined;
        const scores = makerOf(a);
        mask = scores === undefined ? a : b;
        maskedShape = node.outputs[0]!.layout.shape;
        if (scores === undefined && makerOf(b) === undefined) return undefined;
        node = scores ?? makerOf(b);
        continue;
      }
      case "mul":
      case "div": {
        const factor = typeof b === "number"
          ? b
          : op.name === "mul" && typeof a === "number"
          ? a
          : 0;
        if (!Number.isFinite(factor) || factor === 0) return undefined;
        scale *= op.name === "mul" ? factor : 1 / factor;
        node = makerOf(typeof b === "number" ? a : b);
        continue;
      }
      default:
        return undefined;
    }
  }
  return undefined;
}
