/**
 * Fuses elementwise ops of one shape into chains, which run in one pass over memory.
 *
 * @module
 */
import { DTYPE } from "../base/dtype.ts";
import { Placeholder } from "../base/placeholder.ts";
import { sameShape } from "../base/shape.ts";
import { CHAIN } from "../ops/chain/op.ts";
import {
  type ChainAttributes,
  type ChainStep,
  isCondition,
  MAX_CHAIN_OPERANDS,
  MAX_CHAIN_OUTPUTS,
  MAX_CHAIN_SCALARS,
  MAX_CHAIN_STEPS,
} from "../ops/chain/steps.ts";
import { parseExpr, someExpr } from "../table/expr.ts";
import type { MapOp } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import {
  type Graph,
  isValue,
  type Node,
  type NodeInput,
  readsOf,
  type TracedStorage,
  type Value,
  writesOf,
} from "./graph.ts";
import { isWhole, pureStorages, resultStorages } from "./passes.ts";

/** Elementwise ops that run as one. */
interface Group {
  /** Their places in the graph, in order. */
  members: number[];
  readonly shape: readonly number[];
  /** Whether no op may join: one outside of the group reads a result. */
  closed: boolean;
}

/** Whether a node can be a step of a chain. */
function canFuse(
  { op, inputs, outputs, given, compute, attributes }: Node,
  isPure: (storage: TracedStorage) => boolean,
): boolean {
  if (op.kind !== "map" || given || outputs.length !== 1) return false;
  const [output] = outputs;
  const own = (op as MapOp).parameters;
  return compute.lane === null && output!.storage.info.lane === null && isPure(output!.storage) &&
    output!.layout.size > 0 && inputs.some(isValue) &&
    (own.length === 0 || attributes !== undefined) &&
    inputs.every((input) =>
      !isValue(input) || (isPure(input.storage) && input.storage.info.lane === null)
    ) && !((op as MapOp).condition && inputs[0] instanceof Placeholder);
}

/** The most steps that a node becomes: an expression that is no entry of the table has several. */
function stepsOf({ op }: Node): number {
  if ((MAP as Record<string, unknown>)[op.name] === op) return 1;
  let parts = 0;
  someExpr(parseExpr((op as MapOp).expr), ({ kind }) => {
    if (kind !== "num" && kind !== "name") parts++;
    return false;
  });
  // Its result is cast twice at most.
  return parts + 2;
}

/** The distinct inputs of the steps of a group: a number of its own for each use of a scalar. */
class Inputs {
  readonly list: NodeInput[] = [];
  operands = 0;
  scalars = 0;
  readonly #values: Value[] = [];

  /** The number of the input. */
  add(input: NodeInput): number {
    if (!isValue(input)) {
      this.scalars++;
      return this.list.push(input) - 1;
    }
    const known = this.#values.find((one) =>
      one.storage === input.storage && one.layout.offset === input.layout.offset &&
      sameShape(one.layout.shape, input.layout.shape) &&
      sameShape(one.layout.strides, input.layout.strides)
    );
    if (known !== undefined) return this.list.indexOf(known);
    this.#values.push(input);
    this.operands++;
    return this.list.push(input) - 1;
  }
}

/** Fuses the elementwise ops of `graph`. */
export function fuseElementwise(graph: Graph): Graph {
  const { nodes } = graph;
  const isPure = pureStorages(graph);
  const results = resultStorages(graph);
  const groupOf = new Map<number, Group>();
  /** The node that makes each storage. */
  const maker = new Map<TracedStorage, number>();
  /** The nodes that read each storage. */
  const readers = new Map<TracedStorage, number[]>();
  nodes.forEach((node, i) => {
    for (const { storage } of readsOf(node)) {
      const list = readers.get(storage) ?? [];
      if (list.at(-1) !== i) list.push(i);
      readers.set(storage, list);
    }
  });
  const fits = (members: readonly number[]): boolean => {
    const steps = members.reduce((sum, member) => sum + stepsOf(nodes[member]!), 0);
    if (steps > MAX_CHAIN_STEPS) return false;
    const built = chainOf(graph, members, readers, results, maker);
    const outputs = (built.attributes as ChainAttributes).outputs.length;
    const operands =
      built.inputs.filter((input) => isValue(input) || input instanceof Placeholder).length;
    return operands <= MAX_CHAIN_OPERANDS && outputs <= MAX_CHAIN_OUTPUTS &&
      built.inputs.length - operands <= MAX_CHAIN_SCALARS;
  };
  nodes.forEach((node, i) => {
    const inputs = readsOf(node);
    const { layout: { shape } = { shape: [] as readonly number[] } } = node.outputs[0] ?? {};
    let group: Group | undefined;
    if (canFuse(node, isPure)) {
      group = { members: [i], shape, closed: false };
      const isRead = (one: Value): boolean => isWhole(one) && sameShape(one.layout.shape, shape);
      // A step cannot read other elements of a result than its own.
      const apart = new Set(
        inputs.filter((one) => !isRead(one)).map(({ storage }) => groupOf.get(maker.get(storage)!)),
      );
      for (const input of inputs) {
        const from = maker.get(input.storage);
        const other = from === undefined ? undefined : groupOf.get(from);
        if (other === undefined || other === group || other.closed) continue;
        if (!sameShape(other.shape, shape) || apart.has(other)) continue;
        const members = [...other.members, ...group.members].sort((a, b) => a - b);
        if (!fits(members)) continue;
        group.members = members;
        for (const member of members) groupOf.set(member, group);
      }
      groupOf.set(i, group);
    }
    for (const input of inputs) {
      const from = maker.get(input.storage);
      const other = from === undefined ? undefined : groupOf.get(from);
      if (other !== undefined && other !== group) other.closed = true;
    }
    // What writes in place comes after all that was before it.
    if (writesOf(node).length > 0) { for (const other of groupOf.values()) other.closed = true; }
    for (const { storage } of node.outputs) maker.set(storage, i);
  });
  const fused: Node[] = [];
  nodes.forEach((node, i) => {
    const group = groupOf.get(i);
    if (group === undefined || group.members.length < 2) fused.push(node);
    else if (group.members.at(-1) === i) {
      fused.push(chainOf(graph, group.members, readers, results, maker));
    }
  });
  return { ...graph, nodes: fused };
}

/** The chain of the nodes at these places. */
function chainOf(
  { nodes }: Graph,
  members: readonly number[],
  readers: ReadonlyMap<TracedStorage, readonly number[]>,
  results: ReadonlySet<TracedStorage>,
  maker: ReadonlyMap<TracedStorage, number>,
): Node {
  const stepOf = new Map(members.map((member, s) => [member, s]));
  const inputs = new Inputs();
  // Steps count from the number of inputs on, which is known only at the end: negative until then.
  const read = (input: NodeInput): number => {
    if (isValue(input) && isWhole(input)) {
      const from = maker.get(input.storage);
      const step = from === undefined ? undefined : stepOf.get(from);
      if (step !== undefined) return -1 - step;
    }
    return inputs.add(input);
  };
  const reads = members.map((member) => nodes[member]!.inputs.map(read));
  const count = inputs.list.length;
  const steps = members.map((member, s): ChainStep => {
    const { op, compute, outputs, attributes } = nodes[member]!;
    const own = attributes as Record<string, number | boolean> | undefined;
    return {
      op: op as MapOp,
      compute,
      result: outputs[0]!.storage.info,
      inputs: reads[s]!.map((value) => value < 0 ? count - 1 - value : value),
      parameters: (op as MapOp).parameters.map((name) => Number(own?.[name])),
    };
  });
  const outputs = members.flatMap((member, s) => {
    const { storage } = nodes[member]!.outputs[0]!;
    const all = readers.get(storage) ?? [];
    // What nothing reads is there only if no pass drops it: each chain has an output.
    const outside = results.has(storage) || all.length === 0 ||
      all.some((reader) => !stepOf.has(reader));
    return outside ? [s] : [];
  });
  const { outputs: [last], name } = nodes[members.at(-1)!]!;
  return {
    op: CHAIN,
    name: members.length === 1 ? name : members.map((one) => nodes[one]!.name).join(" → "),
    inputs: inputs.list,
    outputs: outputs.map((s) => nodes[members[s]!]!.outputs[0]!),
    given: false,
    attributes: { steps, outputs, shape: last!.layout.shape } satisfies ChainAttributes,
    compute: DTYPE.bool,
  };
}

/** The dtype in which a chain reads its input `k`. */
export function readDType({ attributes }: Node, k: number): ChainStep["compute"] {
  for (const { op, compute, inputs: values } of (attributes as ChainAttributes).steps) {
    const at = values.indexOf(k);
    if (at >= 0) return isCondition(op, at) ? DTYPE.bool : compute;
  }
  return DTYPE.bool;
}
