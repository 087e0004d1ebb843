/**
 * Improves a graph when a model is opened: computes what is of the file only, keeps quantized values as
 * bytes, folds norms into convolutions, and scales queries in the place of keys.
 *
 * @module
 */
import { DTYPE } from "../base/dtype.ts";
import { scope, Tensor } from "../tensor/tensor.ts";
import { LEAST_RANK } from "./graph/call.ts";
import { capturedOf, countReads, type Graph, type Node } from "./graph/graph.ts";
import { OPS } from "./ops/mod.ts";
import { namePatterns } from "./patterns.ts";
import { Environment, evaluate, isRandom, type Shared } from "./runner.ts";
import { isList, type T, tensorsIn, type Value } from "./graph/values.ts";
import { keepBytes } from "./quantized.ts";

/** Whether the library computes a node, not an op that a program brings. */
type IsOwn = (node: Node) => boolean;

/** Improves a graph, and the graphs inside. Ops that a program brings in the place of others stay. */
export function optimize(graph: Graph, shared: Shared): void {
  const isOwn: IsOwn = (node) => shared.resolve(node) === OPS.get(node.type);
  foldConstants(graph, new Environment(new Map()), shared, isDequantizing);
  if (!replacesOps(graph, isOwn)) keepBytes(graph);
  foldConstants(graph, new Environment(new Map()), shared);
  foldNorms(graph, isOwn);
  namePatterns(graph, isOwn);
  scaleFirst(graph, isOwn, new Map());
  dropUnused(graph);
}

/** Whether a program brings ops for nodes of a graph that the library computes, too. */
const replacesOps = (graph: Graph, isOwn: IsOwn): boolean =>
  graph.nodes.some((node) =>
    OPS.has(node.type) && !isOwn(node) || node.graphs.some((inner) => replacesOps(inner, isOwn))
  );

const bytesOf = (values: Iterable<Value>): number => {
  let bytes = 0;
  for (const x of tensorsIn(values)) bytes += x.size * DTYPE[x.dtype].bytes;
  return bytes;
};

/** How many times the bytes of its inputs, and more, a result may have that is computed at once. */
const MOST_GROWTH = 8, FREE_BYTES = 1 << 20;

/** Weights of bytes become floats only if nothing takes them as they are. */
const isDequantizing = ({ op }: Node): boolean => op === "DequantizeLinear";

/** Computes the nodes whose inputs are all of the file, except some. */
function foldConstants(
  graph: Graph,
  outer: Environment,
  shared: Shared,
  isLeft: (node: Node) => boolean = () => false,
): void {
  const { constants } = graph;
  const environment = new Environment(constants, outer);
  const rest: Node[] = [];
  // Values of a graph inside may have the names of constants around it.
  const hide = (name: string): void => environment.set(name, undefined);
  for (const { name } of graph.inputs) hide(name);
  for (const node of graph.nodes) {
    for (const inner of node.graphs) foldConstants(inner, environment, shared, isLeft);
    const isConstant = node.graphs.length === 0 && !isRandom(node) && !isLeft(node) &&
      node.inputs.every((name) => name === "" || environment.isConstant(name));
    const made = isConstant ? tryToCompute(node, environment, shared) : undefined;
    if (made === undefined) {
      rest.push(node);
      node.outputs.forEach(hide);
      continue;
    }
    const given = new Set(tensorsIn(node.inputs.map((name) => environment.get(name))));
    // Each name has tensors of its own, which it disposes of.
    const own = (value: Value): Value => {
      if (isList(value)) return value.map(own);
      return value instanceof Tensor && given.has(value) ? value.view() : value;
    };
    node.outputs.forEach((name, k) => {
      if (name !== "") constants.set(name, own(made[k]));
    });
  }
  graph.nodes = rest;
}

/** The outputs of a node of constants; undefined if it fails, as it would in each run, or is too large. */
function tryToCompute(
  node: Node,
  environment: Environment,
  shared: Shared,
): readonly Value[] | undefined {
  let made: readonly Value[];
  try {
    made = evaluate(node, environment, shared);
  } catch {
    return undefined;
  }
  const inputs = node.inputs.map((name) => environment.get(name));
  const given = new Set(tensorsIn(inputs));
  // The tensor is in the file.
  if (node.op === "Constant") return made;
  const own = [...tensorsIn(made)].filter((x) => !given.has(x));
  if (bytesOf(own) <= FREE_BYTES + MOST_GROWTH * bytesOf(inputs)) return made;
  for (const x of own) x.dispose();
  return undefined;
}

/** Folds a norm of channels, which is a factor and a summand each, into the convolution before it. */
function foldNorms(graph: Graph, isOwn: IsOwn): void {
  const { constants } = graph;
  const reads = countReads(graph);
  const makers = new Map<string, number>();
  const nodes: (Node | undefined)[] = graph.nodes.slice();
  graph.nodes.forEach((node, at) => {
    for (const inner of node.graphs) foldNorms(inner, isOwn);
    node.outputs.forEach((name) => makers.set(name, at));
    const [source] = node.inputs;
    const place = source === undefined ? undefined : makers.get(source);
    const before = place === undefined ? undefined : nodes[place];
    const isPair = node.type === "BatchNormalization" && before?.type === "Conv" &&
      isOwn(node) && isOwn(before) && reads.get(source!) === 1 && node.outputs.filter((name) =>
          name !== ""
        ).length === 1 &&
      !(node.has("training_mode") && node.flag("training_mode"));
    if (!isPair) return;
    const given = [...node.inputs.slice(1, 5), ...before.inputs.slice(1)].map((name) =>
      constants.get(name)
    );
    if (!given.every((one) => one instanceof Tensor)) return;
    const [scale, shift, mean, variance, weight, bias] = given as T[];
    const output = node.outputs[0]!;
    const names = [`${output}/weight`, `${output}/bias`] as const;
    const folded = scope(() => {
      const factor = scale!.div(variance!.add(node.float("epsilon", 1e-5)).sqrt());
      const channels = [weight!.shape[0]!, ...weight!.shape.slice(1).map(() => 1)];
      const own: T = weight!.mul(factor.reshape(channels));
      const centered: T = bias === undefined ? mean!.neg() : bias.sub(mean!);
      // The numbers of a norm may be wider than those of the convolution.
      const { dtype } = weight!;
      return [own.astype(dtype), shift!.add(centered.mul(factor)).astype(dtype)] as const;
    });
    constants.set(names[0], folded[0]);
    constants.set(names[1], folded[1]);
    nodes[place!] = undefined;
    nodes[at] = before.with({ inputs: [before.inputs[0]!, ...names], outputs: [output] });
    makers.set(output, at);
  });
  graph.nodes = nodes.filter((node) => node !== undefined);
}

/**
 * Moves the factor of the second operand of a product to the first one, which has one too. Exporters
 * scale queries and keys by the same number, and keys are all rows of a cache.
 */
function scaleFirst(
  graph: Graph,
  isOwn: IsOwn,
  outer: ReadonlyMap<string, Value>,
): void {
  const makers = new Map<string, Node>();
  const constants = new Map([...outer, ...graph.constants]);
  for (const { name } of graph.inputs) constants.delete(name);
  /** The place of the number that a value is a multiple by; -1 for none. */
  const factorOf = (node: Node | undefined): number =>
    node?.type !== "Mul" || !isOwn(node) ? -1 : node.inputs.findIndex((name) => {
      const factor = constants.get(name);
      return factor instanceof Tensor && factor.size === 1 && factor.rank <= 1;
    });
  graph.nodes = graph.nodes.flatMap((node) => {
    for (const inner of node.graphs) scaleFirst(inner, isOwn, constants);
    for (const name of node.outputs) {
      constants.delete(name);
      makers.set(name, node);
    }
    if (node.type !== "MatMul" || !isOwn(node)) return [node];
    const [first, second] = node.inputs as [string, string];
    const scaling = makers.get(second), at = factorOf(scaling);
    if (scaling === undefined || at < 0 || factorOf(makers.get(first)) < 0) return [node];
    const scaled = `${node.outputs[0]}/scaled`;
    const { rank } = constants.get(scaling.inputs[at]!) as T;
    return [
      scaling.with({ inputs: [first, scaling.inputs[at]!], outputs: [scaled] }),
      node.with({ inputs: [scaled, scaling.inputs[1 - at]!] }, {}, { [LEAST_RANK]: rank }),
    ];
  });
}

/** Drops nodes and constants that nothing reads. */
function dropUnused(graph: Graph, outer: ReadonlySet<string> = new Set()): void {
  const used = new Set([...outer, ...graph.outputs.map(({ name }) => name)]);
  const kept: Node[] = [];
  for (const node of graph.nodes.toReversed()) {
    if (!node.outputs.some((name) => used.has(name))) continue;
    kept.push(node);
    node.inputs.forEach((name) => used.add(name));
    for (const inner of node.graphs) {
      dropUnused(inner);
      capturedOf(inner).forEach((name) => used.add(name));
    }
  }
  graph.nodes = kept.reverse();
  for (const [name, value] of graph.constants) {
    if (used.has(name)) continue;
    graph.constants.delete(name);
    for (const x of tensorsIn([value])) x.dispose();
  }
}
