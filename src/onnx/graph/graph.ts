/**
 * Graphs of ONNX files: nodes with checked attributes, and values known from the file. Calls of a file's
 * functions are replaced by the nodes of these.
 *
 * @module
 */
import { FormatError } from "../../base/errors.ts";
import { decodeUtf8, quote } from "../../io/bytes.ts";
import { type Initializers, isSmallType, typeName } from "./initializers.ts";
import type {
  AttributeMessage,
  FunctionMessage,
  GraphMessage,
  ModelMessage,
  NodeMessage,
  TypeMessage,
  ValueInfoMessage,
} from "./messages.ts";
import type { Value } from "./values.ts";

/** An input or output of a model. */
export interface ValueInfo {
  /** Its name. */
  readonly name: string;
  /** A tensor, a list of values, or a value that may be absent. */
  readonly kind: "tensor" | "sequence" | "optional" | "other";
  /** The dtype of the tensors: that of a `Tensor`, or a type of ONNX such as `"string"`. */
  readonly dtype: string;
  /** The sizes: numbers, names of sizes that vary, or null; undefined if the file does not have them. */
  readonly shape: readonly (number | string | null)[] | undefined;
}

/** What attributes are, by their kinds. */
interface AttributeValues {
  readonly float: number;
  readonly int: number;
  readonly string: Uint8Array;
  readonly tensor: Value;
  readonly graph: Graph;
  readonly floats: readonly number[];
  readonly ints: readonly number[];
  readonly strings: readonly Uint8Array[];
  readonly other: undefined;
}

/** An attribute of a node. */
export type Attribute = {
  readonly [K in keyof AttributeValues]: { readonly kind: K; readonly value: AttributeValues[K] };
}[keyof AttributeValues];

/** A node: an op, the names of its inputs and outputs, and its attributes. */
export class Node {
  readonly op: string;
  readonly domain: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** The version of the op's domain. */
  readonly opset: number;
  /** The type of less than a byte that its last input, or the table of a gather, has in the file. */
  readonly likeType: string | undefined;
  /** The graphs inside. */
  readonly graphs: readonly Graph[];
  readonly #attributes: ReadonlyMap<string, Attribute>;
  readonly #file: string;

  constructor(
    given: Pick<Node, "op" | "domain" | "name" | "inputs" | "outputs" | "opset"> & {
      readonly likeType?: string | undefined;
    },
    attributes: ReadonlyMap<string, Attribute>,
    file: string,
  ) {
    this.op = given.op;
    this.domain = given.domain;
    this.name = given.name;
    this.inputs = given.inputs;
    this.outputs = given.outputs;
    this.opset = given.opset;
    this.likeType = given.likeType;
    this.#attributes = attributes;
    this.#file = file;
    this.graphs = [...attributes.values()].flatMap(({ kind, value }) =>
      kind === "graph" ? [value] : []
    );
  }

  /** The op with its domain, unless that is ONNX's own. */
  get type(): string {
    return typeOf(this.domain, this.op);
  }

  /** The node in errors. */
  get label(): string {
    return this.name === "" ? `${this.type} that makes ${quote(this.outputs[0] ?? "")}` : (
      `${this.type} ${quote(this.name)}`
    );
  }

  /** The attributes by name. */
  get attributes(): ReadonlyMap<string, Attribute> {
    return this.#attributes;
  }

  /** Whether the file has the attribute. */
  has(name: string): boolean {
    return this.#attributes.has(name);
  }

  #value<K extends Attribute["kind"]>(name: string, kind: K): AttributeValues[K] | undefined {
    const attribute = this.#attributes.get(name);
    if (attribute === undefined) return undefined;
    if (attribute.kind === kind) return attribute.value as AttributeValues[K];
    throw new FormatError(
      `attribute ${name} of ${this.label} is ${attribute.kind}, expected ${kind}`,
      this.#file,
      0,
    );
  }

  #required<X>(name: string, value: X | undefined): X {
    if (value !== undefined) return value;
    throw new FormatError(`${this.label} lacks attribute ${name}`, this.#file, 0);
  }

  /** An integer; `otherwise`, if the file does not have it; a FormatError without that. */
  int(name: string, otherwise?: number): number {
    return this.#required(name, this.#value(name, "int") ?? otherwise);
  }

  /** An integer that is 0 or 1. */
  flag(name: string, otherwise = false): boolean {
    return this.int(name, Number(otherwise)) !== 0;
  }

  /** A list of integers; undefined if the file does not have it. */
  ints(name: string): readonly number[] | undefined {
    return this.#value(name, "ints");
  }

  /** A float; `otherwise`, if the file does not have it; a FormatError without that. */
  float(name: string, otherwise?: number): number {
    return this.#required(name, this.#value(name, "float") ?? otherwise);
  }

  /** A list of floats; undefined if the file does not have it. */
  floats(name: string): readonly number[] | undefined {
    return this.#value(name, "floats");
  }

  /** A text; `otherwise`, if the file does not have it; a FormatError without that. */
  string(name: string, otherwise?: string): string {
    const bytes = this.#value(name, "string");
    return this.#required(name, bytes === undefined ? otherwise : decodeUtf8(bytes));
  }

  /** A list of texts; undefined if the file does not have it. */
  strings(name: string): readonly string[] | undefined {
    return this.#value(name, "strings")?.map((bytes) => this.#required(name, decodeUtf8(bytes)));
  }

  /** A tensor or texts; undefined if the file does not have it. */
  value(name: string): Value {
    return this.#value(name, "tensor");
  }

  /** A graph; a FormatError if the file does not have it. */
  graph(name: string): Graph {
    return this.#required(name, this.#value(name, "graph"));
  }

  /** An attribute as a value of JavaScript; undefined if the file does not have it. */
  attribute(name: string): number | string | readonly number[] | readonly string[] | Value {
    switch (this.#attributes.get(name)?.kind) {
      case "int":
        return this.int(name);
      case "float":
        return this.float(name);
      case "string":
        return this.string(name);
      case "ints":
        return this.ints(name);
      case "floats":
        return this.floats(name);
      case "strings":
        return this.strings(name);
      case "tensor":
        return this.value(name);
      default:
        return undefined;
    }
  }

  /** A node that has some parts of this one, and attributes that are floats and integers. */
  with(
    changes: Partial<Pick<Node, "op" | "domain" | "inputs" | "outputs">>,
    floats: Readonly<Record<string, number>> = {},
    ints: Readonly<Record<string, number>> = {},
  ): Node {
    const all = new Map(this.#attributes);
    for (const [name, value] of Object.entries(floats)) all.set(name, { kind: "float", value });
    for (const [name, value] of Object.entries(ints)) all.set(name, { kind: "int", value });
    const { op, domain, name, inputs, outputs, opset, likeType } = this;
    return new Node(
      { op, domain, name, inputs, outputs, opset, likeType, ...changes },
      all,
      this.#file,
    );
  }
}

/** An op with its domain. */
function typeOf(domain: string, op: string): string {
  return domain === "" ? op : `${domain}.${op}`;
}

/** Nodes in the order in which they run, and the values that they share. */
export interface Graph {
  readonly name: string;
  nodes: Node[];
  /** The values that the file has, by name. */
  readonly constants: Map<string, Value>;
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
}

/** The values that a graph takes from the graph around it. */
export function capturedOf(graph: Graph): Set<string> {
  const own = new Set([...graph.constants.keys(), ...graph.inputs.map(({ name }) => name)]);
  const taken = new Set<string>();
  const take = (name: string): void => {
    if (name !== "" && !own.has(name)) taken.add(name);
  };
  for (const node of graph.nodes) {
    node.inputs.forEach(take);
    for (const inner of node.graphs) capturedOf(inner).forEach(take);
    node.outputs.forEach((name) => own.add(name));
  }
  for (const { name } of graph.outputs) take(name);
  return taken;
}

/** How often each value is read. */
export function countReads(graph: Graph): Map<string, number> {
  const reads = new Map<string, number>();
  const add = (name: string): void => void reads.set(name, (reads.get(name) ?? 0) + 1);
  for (const node of graph.nodes) {
    node.inputs.forEach(add);
    for (const inner of node.graphs) capturedOf(inner).forEach(add);
  }
  for (const { name } of graph.outputs) add(name);
  return reads;
}

/** All values that a node reads, with those of the graphs inside it. */
export function readsOf(node: Node): Set<string> {
  const all = new Set(node.inputs.filter((name) => name !== ""));
  for (const graph of node.graphs) for (const name of capturedOf(graph)) all.add(name);
  return all;
}

/** ONNX's numbers of kinds of attributes. */
const KINDS: Readonly<Record<number, Attribute["kind"]>> = {
  1: "float",
  2: "int",
  3: "string",
  4: "tensor",
  5: "graph",
  6: "floats",
  7: "ints",
  8: "strings",
};

/** More nodes than any model has: functions in functions could make more than memory has place for. */
const MOST_NODES = 1_000_000;
/** Functions that call one another. */
const MOST_CALLS = 64;

/** Attributes of the call of a function. */
type Bindings = ReadonlyMap<string, Attribute>;

/** How the names inside a function are written in the graph around it. */
type Rename = (name: string) => string;

/** Makes graphs of messages. */
export class GraphReader {
  readonly #file: string;
  readonly #initializers: Initializers;
  readonly #functions = new Map<string, FunctionMessage>();
  /** The values of types of less than a byte, which are tensors of bytes. */
  readonly #smallTypes = new Map<string, string>();
  readonly #opsets: ReadonlyMap<string, number>;
  #nodes = 0;
  #calls = 0;

  constructor(model: ModelMessage, initializers: Initializers, file: string) {
    this.#file = file;
    this.#initializers = initializers;
    this.#opsets = model.opsets;
    for (const one of model.functions) this.#functions.set(typeOf(one.domain, one.name), one);
  }

  #fail(message: string): never {
    throw new FormatError(message, this.#file, 0);
  }

  /** The graph of a message. */
  read(message: GraphMessage): Graph {
    return this.#graph(message, this.#opsets, new Map(), (name) => name, 0);
  }

  #graph(
    message: GraphMessage,
    opsets: ReadonlyMap<string, number>,
    bindings: Bindings,
    rename: Rename,
    depth: number,
  ): Graph {
    const constants = new Map<string, Value>();
    const types = [
      ...message.initializers,
      ...message.inputs.map(({ name, type }) => ({ name, type: type?.type ?? 0 })),
    ];
    for (const { name, type } of types) {
      if (isSmallType(type)) this.#smallTypes.set(rename(name), typeName(type));
    }
    for (const one of message.initializers) {
      constants.set(rename(one.name), this.#initializers.read(one));
    }
    for (const one of message.sparse) {
      const { name, value } = this.#initializers.sparse(one);
      constants.set(rename(name), value);
    }
    const nodes: Node[] = [];
    for (const one of message.nodes) this.#add(one, nodes, opsets, bindings, rename, depth);
    const infos = (list: readonly ValueInfoMessage[]): ValueInfo[] =>
      list.map(({ name, type }) => infoOf(rename(name), type));
    return {
      name: message.name,
      nodes: this.#sorted(nodes),
      constants,
      // Old files list initializers among the inputs.
      inputs: infos(message.inputs).filter(({ name }) => !constants.has(name)),
      outputs: infos(message.outputs),
    };
  }

  /** Nodes in an order in which they run: converters append nodes whose results earlier ones read. */
  #sorted(nodes: readonly Node[]): Node[] {
    const makers = new Map<string, number>();
    nodes.forEach(({ outputs }, at) => {
      for (const name of outputs) if (!makers.has(name)) makers.set(name, at);
    });
    const before = nodes.map((node) =>
      [...readsOf(node)].flatMap((name) => makers.has(name) ? [makers.get(name)!] : [])
    );
    if (before.every((list, at) => list.every((one) => one < at))) return [...nodes];
    const sorted: Node[] = [];
    const states = new Uint8Array(nodes.length);
    const [OPEN, DONE] = [1, 2];
    for (let first = 0; first < nodes.length; first++) {
      for (const path = [first]; path.length > 0;) {
        const at = path.at(-1)!;
        const next = before[at]!.find((one) => states[one] !== DONE);
        if (states[at] === DONE) path.pop();
        else if (next === undefined) {
          states[at] = DONE;
          sorted.push(nodes[at]!);
        } else if (states[next] === OPEN || next === at) {
          this.#fail(`node ${nodes[next]!.label} reads what is computed of its own result`);
        } else {
          states[at] = OPEN;
          path.push(next);
        }
      }
    }
    return sorted;
  }

  /** Appends a node, or those of the function that it calls. */
  #add(
    message: NodeMessage,
    into: Node[],
    opsets: ReadonlyMap<string, number>,
    bindings: Bindings,
    rename: Rename,
    depth: number,
  ): void {
    if (++this.#nodes > MOST_NODES) this.#fail(`the file has more than ${MOST_NODES} nodes`);
    const { op, domain, name } = message;
    const attributes = new Map<string, Attribute>();
    for (const one of message.attributes) {
      const made = this.#attribute(one, opsets, bindings, rename, depth);
      if (made !== undefined) attributes.set(one.name, made);
    }
    const [inputs, outputs] = [message.inputs.map(rename), message.outputs.map(rename)];
    const called = this.#functions.get(typeOf(domain, op));
    if (called === undefined) {
      const opset = opsets.get(domain) ?? 1;
      // All inputs of this op that may have such a type have the same one.
      const typed = op === "GatherBlockQuantized" ? inputs[0] : inputs.at(-1);
      const likeType = this.#smallTypes.get(typed ?? "");
      const given = { op, domain, name, inputs, outputs, opset, likeType };
      into.push(new Node(given, attributes, this.#file));
      return;
    }
    if (depth === MOST_CALLS) {
      this.#fail(`function ${quote(op)} calls functions more than ${MOST_CALLS} deep`);
    }
    this.#inline(called, { inputs, outputs, attributes }, into, depth + 1);
  }

  #inline(
    called: FunctionMessage,
    { inputs, outputs, attributes }: {
      inputs: readonly string[];
      outputs: readonly string[];
      attributes: ReadonlyMap<string, Attribute>;
    },
    into: Node[],
    depth: number,
  ): void {
    const own = new Map([...this.#opsets, ...called.opsets]);
    const bindings = new Map<string, Attribute>();
    for (const one of called.defaults) {
      const made = this.#attribute(one, own, new Map(), (name) => name, depth);
      if (made !== undefined) bindings.set(one.name, made);
    }
    for (const [name, value] of attributes) bindings.set(name, value);
    const names = new Map<string, string>();
    called.inputs.forEach((name, i) => names.set(name, inputs[i] ?? ""));
    const call = `${called.name}#${this.#calls++}/`;
    const rename: Rename = (name) => name === "" ? "" : names.get(name) ?? call + name;
    // An output may be an input: then it needs a node that passes it on.
    const passed: [from: string, to: string][] = [];
    called.outputs.forEach((name, i) => {
      const to = outputs[i] ?? "";
      if (to === "") return;
      if (names.has(name)) passed.push([names.get(name)!, to]);
      else names.set(name, to);
    });
    for (const one of called.nodes) this.#add(one, into, own, bindings, rename, depth);
    for (const [from, to] of passed) {
      const identity = { op: "Identity", domain: "", name: "", inputs: [from], outputs: [to] };
      into.push(new Node({ ...identity, opset: own.get("") ?? 1 }, new Map(), this.#file));
    }
  }

  #attribute(
    message: AttributeMessage,
    opsets: ReadonlyMap<string, number>,
    bindings: Bindings,
    rename: Rename,
    depth: number,
  ): Attribute | undefined {
    if (message.reference !== "") return bindings.get(message.reference);
    const kind = KINDS[message.type] ?? kindWithoutType(message);
    switch (kind) {
      case "float":
        return { kind, value: message.float };
      case "int":
        return { kind, value: message.int };
      case "string":
        return { kind, value: message.string };
      case "tensor":
        if (message.tensor === undefined) this.#fail(`attribute ${message.name} has no tensor`);
        return { kind, value: this.#initializers.read(message.tensor) };
      case "graph":
        if (message.graph === undefined) this.#fail(`attribute ${message.name} has no graph`);
        return { kind, value: this.#graph(message.graph, opsets, bindings, rename, depth) };
      case "floats":
        return { kind, value: Array.from(message.floats) };
      case "ints":
        return { kind, value: message.ints };
      case "strings":
        return { kind, value: message.strings };
      default:
        if (message.sparse === undefined) return { kind: "other", value: undefined };
        return { kind: "tensor", value: this.#initializers.sparse(message.sparse).value };
    }
  }
}

/** The kind of an attribute in files before ONNX had the kind in the file. */
function kindWithoutType(message: AttributeMessage): Attribute["kind"] {
  if (message.type !== 0) return "other";
  if (message.tensor !== undefined) return "tensor";
  if (message.graph !== undefined) return "graph";
  if (message.floats.length > 0) return "floats";
  if (message.ints.length > 0) return "ints";
  if (message.strings.length > 0) return "strings";
  if (message.string.length > 0) return "string";
  return message.float === 0 ? "int" : "float";
}

function infoOf(name: string, type: TypeMessage | undefined): ValueInfo {
  if (type === undefined) return { name, kind: "tensor", dtype: "undefined", shape: undefined };
  return { name, kind: type.kind, dtype: typeName(type.type), shape: type.shape };
}
