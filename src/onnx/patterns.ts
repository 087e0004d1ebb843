/**
 * Functions that exporters write as several ops, as the ops that they are: x · sigmoid(x), hard swish,
 * gelu by erf, and norms of the last axis.
 *
 * @module
 */
import { Tensor } from "../tensor/tensor.ts";
import { LEAST_RANK } from "./graph/call.ts";
import type { Graph, Node } from "./graph/graph.ts";
import { elementsOf, type T, type Value } from "./graph/values.ts";

/** A multiple of a function of x: `factor` · f(x). */
interface Gate {
  readonly x: string;
  /** The op that is x · f(x). */
  readonly op: "Swish" | "HardSwish" | "Gelu";
  readonly factor: number;
}

/** The nodes and constants of a graph, in which patterns are found. */
class Patterns {
  readonly #makers = new Map<string, Node>();
  readonly #constants: ReadonlyMap<string, Value>;
  /** By how much factors differ that are the same, as a part: they are rounded, in some files to float16. */
  readonly #tolerance: number;
  /** The largest rank of the operands that are numbers. The result has it too, as they broadcast. */
  #rank = 0;

  constructor(constants: ReadonlyMap<string, Value>) {
    this.#constants = constants;
    const isHalf = (x: Value): boolean => x instanceof Tensor && x.dtype === "float16";
    this.#tolerance = [...constants.values()].some(isHalf) ? 1e-3 : 1e-6;
  }

  #isNear(x: number, y: number): boolean {
    return Math.abs(x - y) <= this.#tolerance * y;
  }

  /** Adds a node whose inputs are known. */
  add(node: Node): void {
    for (const name of node.outputs) this.#makers.set(name, node);
  }

  #constant(name: string | undefined): T | undefined {
    if (name === undefined || this.#makers.has(name)) return undefined;
    const value = this.#constants.get(name);
    return value instanceof Tensor ? value : undefined;
  }

  /** A constant of one element. */
  #element(name: string | undefined): number | undefined {
    const value = this.#constant(name);
    return value?.size === 1 && value.rank <= 1 ? Number(elementsOf(value)[0]) : undefined;
  }

  /** That of floats: with integers, the ops are others. */
  #number(name: string | undefined): number | undefined {
    return /float/.test(this.#constant(name)?.dtype ?? "") ? this.#element(name) : undefined;
  }

  /** That of an operand of an op of two. */
  #operand(name: string | undefined): number | undefined {
    const number = this.#number(name);
    if (number !== undefined) this.#rank = Math.max(this.#rank, this.#constant(name)!.rank);
    return number;
  }

  /** The inputs of the node that makes a value by `op`; undefined if another one makes it. */
  #inputs(name: string | undefined, op: string): readonly string[] | undefined {
    const node = this.#makers.get(name ?? "");
    // In opsets before 7, the axes of a second operand may begin at another axis.
    return node?.type === op && !node.has("axis") ? node.inputs : undefined;
  }

  /** The other operand of an op of two, one of which is a number that `fits`. */
  #beside(
    name: string | undefined,
    op: string,
    fits: (x: number) => boolean,
  ): string | undefined {
    const [a, b] = this.#inputs(name, op) ?? [];
    const [first, second] = [this.#operand(a), this.#operand(b)];
    if (second !== undefined && fits(second)) return a;
    return first !== undefined && fits(first) ? b : undefined;
  }

  /** A value as a multiple of another one. */
  #multiple(name: string): [value: string, factor: number] {
    for (const op of ["Mul", "Div"]) {
      const [a, b] = this.#inputs(name, op) ?? [];
      const [first, second] = [this.#operand(a), this.#operand(b)];
      if (second !== undefined) return [a!, op === "Mul" ? second : 1 / second];
      if (first !== undefined && op === "Mul") return [b!, first];
    }
    return [name, 1];
  }

  /** The function of x that a value is a multiple of. */
  #gate(name: string): Gate | undefined {
    const [value, factor] = this.#multiple(name);
    const node = this.#makers.get(value);
    const [x] = node?.inputs ?? [];
    if (node === undefined || x === undefined) return undefined;
    if (node.type === "Sigmoid") return { x, op: "Swish", factor };
    if (node.type === "HardSigmoid") {
      const fits = this.#isNear(node.float("alpha", 0.2), 1 / 6) && node.float("beta", 0.5) === 0.5;
      return fits ? { x, op: "HardSwish", factor } : undefined;
    }
    if (node.type === "Clip") {
      const [low, high] = node.inputs.length > 1
        ? [1, 2].map((k) => this.#number(node.inputs[k]))
        : ["min", "max"].map((bound) => node.has(bound) ? node.float(bound) : undefined);
      const shifted = low === 0 && high === 6 ? this.#beside(x, "Add", (n) => n === 3) : undefined;
      return shifted === undefined
        ? undefined
        : { x: shifted, op: "HardSwish", factor: 6 * factor };
    }
    // erf(x / √2) + 1
    const [inside] = this.#inputs(this.#beside(value, "Add", (n) => n === 1), "Erf") ?? [];
    if (inside === undefined) return undefined;
    const [own, scale] = this.#multiple(inside);
    return this.#isNear(scale, Math.SQRT1_2)
      ? { x: own, op: "Gelu", factor: 2 * factor }
      : undefined;
  }

  /** The multiple of x · f(x) that a value is. */
  #gated(name: string): Gate | undefined {
    const [value, factor] = this.#multiple(name);
    const [a, b] = this.#inputs(value, "Mul") ?? [];
    if (a === undefined || b === undefined) return undefined;
    for (const [plain, other] of [[a, b], [b, a]] as const) {
      const gate = this.#gate(other);
      if (gate === undefined) continue;
      const [own, scale] = plain === gate.x ? [plain, 1] : this.#multiple(plain);
      if (own === gate.x) return { ...gate, factor: gate.factor * factor * scale };
    }
    return undefined;
  }

  /** The value of which `name` is the mean along the last axis. */
  #mean(name: string | undefined): string | undefined {
    const node = this.#makers.get(name ?? "");
    if (node?.type !== "ReduceMean" || !node.flag("keepdims", true)) return undefined;
    const axes = node.ints("axes") ?? [this.#element(node.inputs[1])];
    return axes.length === 1 && axes[0] === -1 ? node.inputs[0] : undefined;
  }

  /** The value whose mean along the last axis is subtracted from it. */
  #centered(name: string | undefined): string | undefined {
    const [x, mean] = this.#inputs(name, "Sub") ?? [];
    return x !== undefined && this.#mean(mean) === x ? x : undefined;
  }

  /** A norm of the last axis, with its weight and bias. */
  #norm(node: Node): Node | undefined {
    const sum = this.#inputs(node.outputs[0], "Add") ?? [];
    for (const [scaled, bias] of [sum, sum.toReversed()]) {
      if (this.#constant(bias)?.rank !== 1) continue;
      const parts = this.#inputs(scaled, "Mul") ?? [];
      for (const [divided, weight] of [parts, parts.toReversed()]) {
        const [difference, deviation] = this.#inputs(divided, "Div") ?? [];
        const x = this.#centered(difference);
        if (this.#constant(weight)?.rank !== 1 || x === undefined) continue;
        let epsilon = 0;
        const [shifted] = this.#inputs(deviation, "Sqrt") ?? [];
        const square = this.#mean(this.#beside(shifted, "Add", (n) => {
          epsilon = n;
          return n >= 0;
        }));
        const [a, b] = this.#inputs(square, "Mul") ?? [];
        const [base, power] = this.#inputs(square, "Pow") ?? [];
        const same = a !== undefined && a === b ? a : this.#element(power) === 2 ? base : undefined;
        if (this.#centered(same) !== x) continue;
        const inputs = [x, weight!, bias!];
        const changes = { op: "LayerNormalization", domain: "", inputs };
        return node.with(changes, { epsilon }, { [LEAST_RANK]: 1 });
      }
    }
    return undefined;
  }

  /** The op that a node completes; undefined for none. */
  find(node: Node): Node | undefined {
    if (node.type === "Mul" || node.type === "Div") {
      this.#rank = 0;
      const gate = this.#gated(node.outputs[0]!);
      if (gate === undefined || !this.#isNear(gate.factor, 1)) return undefined;
      const changes = { op: gate.op, domain: "", inputs: [gate.x] };
      return node.with(changes, {}, this.#rank === 0 ? {} : { [LEAST_RANK]: this.#rank });
    }
    return this.#norm(node);
  }
}

/**
 * Replaces the patterns of a graph and of the graphs inside. Nodes that nothing reads any more are
 * left, and so are those for which a program has ops of its own: `isOwn` tells.
 */
export function namePatterns(
  graph: Graph,
  isOwn: (node: Node) => boolean,
  outer: ReadonlyMap<string, Value> = new Map(),
): void {
  const constants = new Map([...outer, ...graph.constants]);
  for (const { name } of graph.inputs) if (!graph.constants.has(name)) constants.delete(name);
  const patterns = new Patterns(constants);
  graph.nodes = graph.nodes.map((node) => {
    for (const inner of node.graphs) namePatterns(inner, isOwn, constants);
    for (const name of node.outputs) constants.delete(name);
    if (!isOwn(node)) return node;
    patterns.add(node);
    const found = patterns.find(node);
    return found !== undefined && isOwn(found) ? found : node;
  });
}
