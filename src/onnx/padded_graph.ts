/**
 * The graph of a decoder's step for caches with room: rows of zeros before those that count, on which no
 * result depends.
 *
 * A few sizes of caches have the programs of all lengths then. Three changes make it so. A softmax over
 * the rows of a cache leaves the first ones out by a bias. What nodes compute of the length alone, such
 * as a position, becomes an input, which is computed for each step. Conditions that are inputs choose
 * their branch.
 *
 * Nothing is known of a model but its graph. Shapes and known values for caches with room are compared
 * with those for some lengths. An axis that is longer by the rows before them belongs to a cache, and
 * only ops that do not mix these rows with others may have such an axis.
 *
 * @module
 */
import { DTYPE, type DType } from "../base/dtype.ts";
import { Layout } from "../base/layout.ts";
import { sizeOf } from "../base/shape.ts";
import { Slice } from "../base/slice.ts";
import { Tracer } from "../compile/trace.ts";
import { wrap } from "../core/handles.ts";
import { fromBuffer } from "../tensor/create.ts";
import { scope, Tensor } from "../tensor/tensor.ts";
import { type Graph, Node } from "./graph/graph.ts";
import { elementsOf, int64, isKnownTensor, type T, type Value } from "./graph/values.ts";
import { ELEMENTWISE } from "./ops/elementwise.ts";
import { narrowed } from "./halves.ts";
import { Environment, type Shared, step } from "./runner.ts";

/** Thrown where rows before those of a cache could change results. */
export class Unfit extends Error {}

/** A dtype and a shape. */
export interface Kind {
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** Ops that keep rows of zeros apart from others, beside those on elements. */
const PLAIN = new Set([
  ...["MatMul", "com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul", "Transpose"],
  ...["Unsqueeze", "Squeeze", "Identity", "Expand", "ReduceSum", "ConstantOfShape", "Softmax"],
]);
/** Ops of attention, with the input that they add to scores. */
const BIASED: Readonly<Record<string, number>> = {
  "Attention": 3,
  "com.microsoft.MultiHeadAttention": 5,
  "com.microsoft.GroupQueryAttention": 10,
};
/** Ops whose inputs from one on are sizes and axes. */
const SIZES: Readonly<Record<string, number>> = {
  ...{ ConstantOfShape: 0, Reshape: 1, Expand: 1, Slice: 1, Tile: 1, Unsqueeze: 1, Squeeze: 1 },
  ...{ Split: 1, Pad: 1, ReduceSum: 1, ReduceMean: 1, ReduceMax: 1 },
};

/** The inputs of a node whose elements it computes with. */
function dataOf({ type, inputs }: Node): readonly string[] {
  return inputs.slice(0, Object.hasOwn(SIZES, type) ? SIZES[type] : undefined);
}

// ---- branches ----------------------------------------------------------------------------------

/** A node of an op of ONNX without attributes. */
function nodeOf(op: string, { opset }: Node, inputs: readonly string[], output: string): Node {
  const given = { op, domain: "", name: output, inputs, outputs: [output], opset };
  return new Node(given, new Map(), "");
}

/** A graph with the values of some inputs; branches that these choose are part of it. */
function chosen(graph: Graph, fixed: ReadonlyMap<string, T>): Graph {
  const constants = new Map(graph.constants);
  // Of their owner's tensors, which it may free.
  for (const [name, value] of fixed) constants.set(name, value.copy() as T);
  const nodes = graph.nodes.flatMap((node) => {
    const condition = fixed.get(node.inputs[0] ?? "");
    if (node.type !== "If" || condition === undefined) return [node];
    const branch = node.graph(elementsOf(condition)[0] === true ? "then_branch" : "else_branch");
    return inlined(node, chosen(branch, fixed), constants);
  });
  if (nodes.some(({ graphs }) => graphs.length > 0)) throw new Unfit("it has graphs inside");
  const inputs = graph.inputs.filter(({ name }) => !fixed.has(name));
  return { ...graph, nodes, constants, inputs };
}

/** The nodes of a branch as those of the graph around it, to whose constants it adds its own. */
function inlined(node: Node, branch: Graph, constants: Map<string, Value>): Node[] {
  const names = new Map<string, string>();
  const made = new Set(branch.nodes.flatMap(({ outputs }) => outputs));
  const own = [...branch.constants.keys()].filter((name) => !constants.has(name));
  for (const name of [...made, ...own]) {
    if (name !== "") names.set(name, `${node.outputs[0]}/${name}`);
  }
  const copies: [from: string, to: string][] = [];
  branch.outputs.forEach(({ name }, k) => {
    const output = node.outputs[k] ?? "";
    const isFirst = branch.outputs.findIndex((one) => one.name === name) === k;
    if (output === "") return;
    if (isFirst && made.has(name)) names.set(name, output);
    else copies.push([name, output]);
  });
  const rename = (name: string): string => names.get(name) ?? name;
  for (const [name, value] of branch.constants) constants.set(rename(name), value);
  return [
    ...branch.nodes.map((one) =>
      one.with({ inputs: one.inputs.map(rename), outputs: one.outputs.map(rename) })
    ),
    ...copies.map(([from, to]) => nodeOf("Identity", node, [rename(from)], to)),
  ];
}

// ---- values for two sizes of caches ------------------------------------------------------------

/** The values of a graph: those that are known, and tensors without elements for others. */
function walk(graph: Graph, shared: Shared, kinds: ReadonlyMap<string, Kind>): Environment {
  const tracer = new Tracer();
  const environment = new Environment(graph.constants);
  for (const { name } of graph.inputs) {
    const kind = kinds.get(name);
    if (kind === undefined) throw new Unfit(`input ${name} is no tensor`);
    const storage = tracer.add(DTYPE[kind.dtype], sizeOf(kind.shape), null, { kind: "made" });
    environment.set(name, wrap(storage, Layout.contiguous(kind.shape)) as T);
  }
  try {
    tracer.trace(() => {
      for (const node of graph.nodes) step(node, environment, shared);
    });
  } finally {
    tracer.hold.release();
  }
  return environment;
}

/** A value for caches with room, and for those without. */
interface Pair {
  readonly padded: T;
  readonly plain: T;
  /** The axes that have rows of caches, with the kinds of these. */
  readonly axes: ReadonlyMap<number, number>;
}

/** The values of a graph for caches with room, and for those without. */
class Pairs {
  readonly #padded: Environment;
  readonly #plain: Environment;
  readonly #pads: readonly number[];

  /** Compares values for caches with room to those for caches with so many rows less of each kind. */
  constructor(padded: Environment, plain: Environment, pads: readonly number[]) {
    this.#padded = padded;
    this.#plain = plain;
    this.#pads = pads;
  }

  /** The kind of the caches that have so many rows less; undefined for none. */
  kindOf(difference: number): number | undefined {
    if (difference === 0) return undefined;
    const kind = this.#pads.indexOf(difference);
    if (kind < 0) throw new Unfit("a size does not grow as a cache does");
    return kind;
  }

  /** The values of a name. */
  of(name: string): Pair {
    const [padded, plain] = [this.#padded.get(name), this.#plain.get(name)];
    const areTensors = padded instanceof Tensor && plain instanceof Tensor &&
      padded.rank === plain.rank && isKnownTensor(padded) === isKnownTensor(plain);
    if (!areTensors) throw new Unfit(`${name} is another value with another length`);
    const axes = new Map<number, number>();
    padded.shape.forEach((n, k) => {
      const kind = this.kindOf(n - plain.shape[k]!);
      if (kind !== undefined) axes.set(k, kind);
    });
    return { padded, plain, axes };
  }

  isKnown(name: string): boolean {
    const value = this.#padded.get(name);
    return value instanceof Tensor && isKnownTensor(value);
  }

  /** Whether a known value is the same for both, apart from the rows before those of a cache. */
  isSame(name: string): boolean {
    const { padded, plain, axes } = this.of(name);
    if (padded === plain) return true;
    return scope(() => {
      const rows = [...axes].reduce<T>(
        (x, [k, kind]) => x.sliceAxis(k, new Slice(this.#pads[kind])),
        padded,
      );
      const [a, b] = [elementsOf(rows), elementsOf(plain)];
      return a.every((one, k) => Object.is(one, b[k]));
    });
  }
}

/** Throws if a node could mix the rows before those of a cache with others. */
function check(node: Node, pairs: Pairs): void {
  const all = (names: readonly string[]) =>
    names.filter((name) => name !== "").map((name) => pairs.of(name));
  const inputs = all(dataOf(node)), outputs = all(node.outputs);
  if (![...inputs, ...outputs].some(({ axes }) => axes.size > 0)) return;
  const { type } = node;
  const isPlain = PLAIN.has(type) || Object.hasOwn(ELEMENTWISE, type) ||
    Object.hasOwn(BIASED, type);
  if (isPlain) return;
  const [x] = inputs, [y] = outputs;
  const axis = (one: Pair, otherwise?: number): number => {
    const given = node.int("axis", otherwise);
    return given < 0 ? given + one.padded.rank : given;
  };
  // What is before and after an axis with rows.
  const around = ({ padded: { shape }, axes }: Pair): string =>
    [...axes.keys()].map((k) => [sizeOf(shape.slice(0, k)), sizeOf(shape.slice(k + 1))]).join("|");
  let isFit = false;
  if (type === "Reshape") isFit = around(x!) === around(y!);
  else if (type === "Gather" || type === "Split") isFit = !x!.axes.has(axis(x!, 0));
  else if (type === "Slice") isFit = keepsLast(node, x!, y!, pairs);
  else if (type === "Concat") {
    const at = axis(y!);
    const [first, ...rest] = inputs.map(({ axes }) => axes.has(at));
    isFit = !y!.axes.has(at) || first === true && !rest.includes(true);
  }
  if (!isFit) throw new Unfit(`the rows of a cache reach ${node.label}`);
}

/** Whether a slice has the last rows of a cache, or all. */
function keepsLast(node: Node, x: Pair, y: Pair, pairs: Pairs): boolean {
  const [starts, ends, axes, steps] = [1, 2, 3, 4].map((k) => {
    const name = node.inputs[k] ?? "";
    if (name === "" || !pairs.isKnown(name)) return undefined;
    const { padded, plain } = pairs.of(name);
    return [elementsOf(padded).map(Number), elementsOf(plain).map(Number)] as const;
  });
  if (starts === undefined || ends === undefined) return false;
  return [...x.axes.keys()].every((axis) => {
    const at = axes?.[0].findIndex((one) => (one < 0 ? one + x.padded.rank : one) === axis) ?? axis;
    const isWhole = at < 0 || at >= starts[0].length;
    if (isWhole) return true;
    const [padded, plain] = [x.padded, x.plain].map(({ shape }, k) => {
      const n = shape[axis]!;
      const place = (one: number): number => Math.min(Math.max(one < 0 ? one + n : one, 0), n);
      return { n, from: place(starts[k]![at]!), to: place(ends[k]![at]!) };
    }) as [Place, Place];
    const fromEnd = ({ n, from }: Place): number => n - from;
    return (steps?.[0][at] ?? 1) === 1 && padded.to === padded.n && plain.to === plain.n &&
      (y.axes.has(axis)
        ? padded.from === 0 && plain.from === 0
        : fromEnd(padded) === fromEnd(plain));
  });
}

/** The rows of a slice. */
interface Place {
  readonly n: number;
  readonly from: number;
  readonly to: number;
}

/** Whether a node has a softmax over the rows of a cache. */
function needsBias(node: Node, pairs: Pairs): boolean {
  if (Object.hasOwn(BIASED, node.type)) {
    return node.inputs.some((name) => name !== "" && pairs.of(name).axes.size > 0);
  }
  if (node.type !== "Softmax") return false;
  const { padded: { rank }, axes } = pairs.of(node.inputs[0]!);
  const given = node.int("axis", node.opset >= 13 ? -1 : 1);
  const axis = given < 0 ? given + rank : given;
  // In old opsets it is over all axes from one on.
  if (node.opset < 13 && axis !== rank - 1 && [...axes.keys()].some((k) => k >= axis)) {
    throw new Unfit(`the rows of a cache reach ${node.label}`);
  }
  return axes.has(axis);
}

/** The known values with which nodes compute, and that depend on the length. */
function lengthValues(nodes: readonly Node[], pairs: Pairs): string[] {
  return nodes.flatMap((node) =>
    dataOf(node).filter((name) => name !== "" && pairs.isKnown(name) && !pairs.isSame(name))
  );
}

// ---- changes of the graph ----------------------------------------------------------------------

/** What leaves rows of a kind of caches out: its shape is 1 except along the rows. */
interface Bias extends Kind {
  readonly of: number;
}

/** Adds biases to scores. */
class Biases {
  /** By the name of their input. */
  readonly inputs: Map<string, Bias> = new Map();
  readonly nodes: Node[];
  readonly #pairs: Pairs;

  constructor(nodes: readonly Node[], pairs: Pairs) {
    this.nodes = nodes.slice();
    this.#pairs = pairs;
  }

  /** Adds a bias to a node with a softmax over the rows of a cache. */
  add(node: Node): void {
    const k = BIASED[node.type];
    if (k === undefined) {
      const { padded: { dtype, shape }, axes } = this.#pairs.of(node.inputs[0]!);
      const given = node.int("axis", node.opset >= 13 ? -1 : 1);
      const axis = given < 0 ? given + shape.length : given;
      const sizes = shape.map((n, d) => d === axis ? n : 1);
      this.#add(node, 0, this.#input({ dtype, shape: sizes, of: axes.get(axis)! }));
      return;
    }
    const keys = node.inputs.filter((name) => name !== "").map((name) => this.#pairs.of(name))
      .find(({ padded, axes }) => padded.rank === 4 && axes.has(2));
    if (keys === undefined) throw new Unfit(`${node.label} has no cache of 4 axes`);
    const { padded: { dtype, shape }, axes } = keys;
    if (shape[0] !== 1) throw new Unfit(`${node.label} has several texts`);
    const size = this.#pairs.of(node.outputs[1]!).padded.shape[2]!;
    const bias = this.#input({ dtype, shape: [1, 1, 1, size], of: axes.get(2)! });
    if ((node.inputs[k] ?? "") !== "") this.#add(node, k, bias);
    else {
      const inputs = [...node.inputs, ...Array<string>(k + 1).fill("")].slice(0, k).concat(bias);
      this.#set(node, [...inputs, ...node.inputs.slice(k + 1)]);
    }
  }

  #input(bias: Bias): string {
    const name = `/bias/${bias.of}/${bias.dtype}/${bias.shape}`;
    this.inputs.set(name, bias);
    return name;
  }

  /** Adds a bias to input `k` of a node: to a mask that was added to it, if there is one. */
  #add(node: Node, k: number, bias: string): void {
    const name = node.inputs[k]!;
    const maker = this.nodes.find(({ outputs }) => outputs.includes(name));
    const { padded } = this.#pairs.of(name);
    if (maker?.type === "Cast") {
      const isSame = this.#pairs.of(maker.inputs[0]!).padded.dtype === padded.dtype;
      if (isSame) return this.#add(maker, 0, bias);
    }
    // A mask is smaller than scores, or known: products with a mask are one op of a program.
    const mask = maker?.type !== "Add" ? -1 : maker.inputs.findIndex((one) => {
      if (!this.#isOfGraph(one)) return false;
      const { size, shape } = this.#pairs.of(one).padded;
      return shape.at(-1) === padded.shape.at(-1) &&
        (this.#pairs.isKnown(one) || size < padded.size);
    });
    if (mask < 0) this.#replace(node, k, bias);
    else this.#replace(maker!, mask, bias);
  }

  /** Whether a value is not a sum that was added here. */
  #isOfGraph(name: string): boolean {
    return !name.includes("/bias/");
  }

  /** Gives a node the sum of its input `k` and a bias. */
  #replace(node: Node, k: number, bias: string): void {
    const name = node.inputs[k]!, sum = name + bias;
    this.#set(node, node.inputs.with(k, sum));
    if (this.nodes.some(({ outputs }) => outputs.includes(sum))) return;
    const maker = this.nodes.findIndex(({ outputs }) => outputs.includes(name));
    this.nodes.splice(maker + 1, 0, nodeOf("Add", node, [name, bias], sum));
  }

  #set(node: Node, inputs: readonly string[]): void {
    this.nodes[this.nodes.indexOf(node)] = node.with({ inputs });
  }
}

/** A shape of which values that depend on the length are computed. */
interface LengthShape {
  readonly name: string;
  readonly padded: readonly number[];
  /** The kinds of caches whose rows are among the sizes. */
  readonly kinds: readonly (number | undefined)[];
}

/** Computes values that depend on the length. */
class LengthNodes {
  readonly #graph: Graph;
  readonly #shared: Shared;
  /** The values, with the axes that have rows of caches. */
  readonly #values: ReadonlyMap<string, ReadonlyMap<number, number>>;
  readonly #shapes: readonly LengthShape[];
  readonly #nodes: readonly Node[];

  constructor(graph: Graph, shared: Shared, pairs: Pairs, names: ReadonlySet<string>) {
    this.#graph = graph;
    this.#shared = shared;
    this.#values = new Map([...names].map((name) => [name, pairs.of(name).axes]));
    const wanted = new Set(names);
    const shapes: LengthShape[] = [];
    const nodes: Node[] = [];
    for (const node of graph.nodes.toReversed()) {
      const { type, inputs, outputs: [name = ""] } = node;
      if (!node.outputs.some((one) => wanted.has(one))) continue;
      if (type === "Shape") {
        const { padded, plain } = pairs.of(name);
        const [a, b] = [elementsOf(padded).map(Number), elementsOf(plain).map(Number)];
        shapes.push({ name, padded: a, kinds: a.map((n, k) => pairs.kindOf(n - b[k]!)) });
        continue;
      }
      const needed = inputs.filter((one) => one !== "");
      if (!needed.every((one) => pairs.isKnown(one))) throw new Unfit(`${node.label} needs data`);
      needed.forEach((one) => wanted.add(one));
      nodes.push(node);
    }
    this.#shapes = shapes;
    this.#nodes = nodes.reverse();
  }

  /** The values for numbers of rows before those of caches. */
  compute(pads: readonly number[]): T[] {
    return scope(() => {
      const environment = new Environment(this.#graph.constants);
      for (const { name, padded, kinds } of this.#shapes) {
        environment.set(name, int64(padded.map((n, k) => n - (pads[kinds[k] ?? -1] ?? 0))));
      }
      for (const node of this.#nodes) step(node, environment, this.#shared);
      return [...this.#values].map(([name, axes]) => {
        const value = narrowed(environment.get(name)) as T;
        if (axes.size === 0) return value;
        return value.pad(value.shape.map((_, k) => [pads[axes.get(k) ?? -1] ?? 0, 0])) as T;
      });
    });
  }
}

/** Whether nodes can compute what they compute of sizes alone for numbers of rows of caches. */
export function fits(
  graph: Graph,
  shared: Shared,
  inputs: StepInputs,
  rows: readonly number[],
): boolean {
  try {
    scope(() => void walk(chosen(graph, inputs.fixed), shared, inputs.kinds(rows)));
    return true;
  } catch {
    return false;
  }
}

/** What a step's inputs are. */
export interface StepInputs {
  /** The values of inputs that are part of the graph. */
  readonly fixed: ReadonlyMap<string, T>;
  /** The dtypes and shapes of the other ones, for numbers of rows of each kind of caches. */
  kinds(rows: readonly number[]): ReadonlyMap<string, Kind>;
}

/** Runs steps whose caches have zeros before their rows. */
export class PaddedGraph {
  readonly #shared: Shared;
  readonly #graph: Graph;
  readonly #lengths: LengthNodes;
  /** Of each bias twice the elements: the first half leaves rows out. */
  readonly #biases: readonly (Bias & { readonly all: Float32Array })[];

  /**
   * Makes the graph for caches of `rows` rows of each kind. `pads` are some numbers of rows that may be
   * before those that count; those of different kinds differ, or are 0.
   *
   * @throws {Unfit} If rows before those of caches could change results.
   */
  constructor(
    graph: Graph,
    shared: Shared,
    inputs: StepInputs,
    rows: readonly number[],
    pads: readonly (readonly number[])[],
  ) {
    this.#shared = shared;
    const made = scope(() => {
      const own = chosen(graph, inputs.fixed);
      const padded = walk(own, shared, inputs.kinds(rows));
      const all = pads.map((one) => {
        const less = rows.map((n, kind) => n - one[kind]!);
        return new Pairs(padded, walk(own, shared, inputs.kinds(less)), one);
      });
      const pairs = all[0]!;
      const isKnown = ({ outputs }: Node): boolean =>
        outputs.every((name) => name === "" || pairs.isKnown(name));
      const nodes = own.nodes.filter((node) => !isKnown(node));
      for (const one of all) for (const node of nodes) check(node, one);
      const names = new Set(all.flatMap((one) => lengthValues(nodes, one)));
      const biases = new Biases(own.nodes, pairs);
      for (const node of nodes) if (needsBias(node, pairs)) biases.add(node);
      const lengths = new LengthNodes(own, shared, pairs, names);
      const changed = biases.nodes.map((node) => {
        if (isKnown(node)) return node;
        const count = dataOf(node).length;
        return node.with({
          inputs: node.inputs.map((name, k) => k < count && names.has(name) ? `${name}/own` : name),
        });
      });
      const input = (name: string) =>
        ({ name, kind: "tensor", dtype: "undefined", shape: undefined }) as const;
      return {
        lengths,
        graph: {
          ...own,
          nodes: changed,
          inputs: [
            ...own.inputs,
            ...[...names].map((name) => input(`${name}/own`)),
            ...[...biases.inputs.keys()].map(input),
          ],
        },
        biases: [...biases.inputs.values()].map((kind) => ({
          ...kind,
          all: new Float32Array(2 * sizeOf(kind.shape)).fill(-Infinity, 0, sizeOf(kind.shape)),
        })),
      };
    });
    this.#graph = made.graph;
    this.#lengths = made.lengths;
    this.#biases = made.biases;
  }

  /** Whether an input has any effect. */
  reads(name: string): boolean {
    return this.#graph.nodes.some(({ inputs }) => inputs.includes(name));
  }

  /** The results of a step with rows before those of its caches, by the names of outputs. */
  async run(
    feeds: Readonly<Record<string, Value>>,
    pads: readonly number[],
  ): Promise<Record<string, Value>> {
    const { inputs, outputs } = this.#graph;
    const made = this.#lengths.compute(pads);
    for (const { dtype, shape, of, all } of this.#biases) {
      const size = sizeOf(shape), pad = pads[of]!;
      const own = fromBuffer(all.subarray(size - pad, 2 * size - pad), { shape }) as T;
      made.push(dtype === "float32" ? own : own.astype(dtype));
    }
    const given = inputs.slice(0, inputs.length - made.length).map(({ name }) => feeds[name]);
    try {
      const results = await this.#shared.later(this.#graph, [...given, ...made]);
      return Object.fromEntries(outputs.map(({ name }, k) => [name, results[k]]));
    } finally {
      for (const x of made) x.dispose();
    }
  }

  /** Frees the programs. */
  dispose(): void {
    this.#shared.forget(this.#graph);
  }
}
