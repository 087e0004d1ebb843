/**
 * The call of an op: the inputs and attributes of a node, as ops read them.
 *
 * @module
 */
import type { DType, Scalar } from "../../base/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import type { Operand } from "../../memory/operand.ts";
import { Tensor } from "../../tensor/tensor.ts";
import type { Graph, Node } from "./graph.ts";
import {
  elementsOf,
  isKnownTensor,
  isList,
  NeedsValue,
  Strings,
  type T,
  type Value,
} from "./values.ts";

/**
 * The attribute of a node that replaces several: the largest rank of the constants that these read. The
 * constants broadcast, so that the result has at least that rank.
 */
export const LEAST_RANK = "rowmajor.leastRank";

/** A graph inside a node, with values for its inputs. */
export interface GraphRun {
  readonly graph: Graph;
  readonly inputs: readonly Value[];
}

/** Computes the outputs of a node that runs graphs: gives each of them, and takes its results. */
export type Rounds = Generator<GraphRun, readonly Value[], Value[]>;

/** What computes the outputs of a node. */
export type Implementation = (call: Call) => readonly Value[] | Rounds;

/**
 * Returns what inputs that are constants of the file were made into, such as a packed weight: makes it
 * once for all programs of the model. Returns undefined if one of the inputs is no constant.
 */
export type Prepare = <R extends Prepared>(
  inputs: readonly number[],
  make: () => R,
) => R | undefined;

/** What constants of a file were made into. */
export interface Prepared {
  /** The tensors, which the model frees. */
  readonly groups: Operand;
}

/** The call of an op. */
export class Call {
  readonly node: Node;
  readonly inputs: readonly Value[];
  /** Makes something of constants once. */
  readonly prepare: Prepare;

  constructor(node: Node, inputs: readonly Value[], prepare: Prepare) {
    this.node = node;
    this.inputs = inputs;
    this.prepare = prepare;
  }

  /** This call with another input `k`. */
  with(k: number, input: Value): Call {
    return new Call(this.node, this.inputs.with(k, input), this.prepare);
  }

  /** The version of the op's domain. */
  get opset(): number {
    return this.node.opset;
  }

  /** The number of outputs that the node names. */
  get outputs(): number {
    return this.node.outputs.length;
  }

  /** Whether the node names output `k`. */
  wants(k: number): boolean {
    return (this.node.outputs[k] ?? "") !== "";
  }

  /** Throws an error about this call. */
  fail(message: string): never {
    throw new ArgumentError(`Cannot run ${this.node.label}: ${message}`);
  }

  /** Throws an error about dtypes. */
  failDType(message: string): never {
    throw new DTypeError(`Cannot run ${this.node.label}: ${message}`);
  }

  /** Throws an error about shapes. */
  failShape(message: string): never {
    throw new ShapeError(`Cannot run ${this.node.label}: ${message}`);
  }

  /** Whether the call has input `k`. */
  has(k: number): boolean {
    return this.inputs[k] !== undefined && this.inputs[k] !== null;
  }

  /** Input `k`, a tensor. */
  tensor(k: number): T {
    const value = this.inputs[k];
    if (value instanceof Tensor) return value;
    return this.fail(`input ${k} is ${describeValue(value)}, expected a tensor`);
  }

  /** Input `k`, a tensor of at least the rank that {@link LEAST_RANK} says, which is 0 or 1. */
  ranked(k: number): T {
    const x = this.tensor(k);
    return x.rank < this.node.int(LEAST_RANK, 0) ? x.reshape([1]) : x;
  }

  /** Input `k`, a tensor; undefined if the call does not have it. */
  optional(k: number): T | undefined {
    return this.has(k) ? this.tensor(k) : undefined;
  }

  /** All inputs, tensors. */
  get tensors(): T[] {
    return this.inputs.map((_, k) => this.tensor(k));
  }

  /** Input `k`, a list of values. */
  list(k: number): readonly Value[] {
    const value = this.inputs[k];
    return isList(value)
      ? value
      : this.fail(`input ${k} is ${describeValue(value)}, expected a list`);
  }

  /** Input `k`, texts; undefined if it is a tensor. */
  strings(k: number): Strings | undefined {
    const value = this.inputs[k];
    return value instanceof Strings ? value : undefined;
  }

  /** Whether the elements of input `k` exist now. */
  knows(k: number): boolean {
    const value = this.inputs[k];
    return !(value instanceof Tensor) || isKnownTensor(value);
  }

  /** The elements of input `k` now: shapes, axes, counts. */
  elements(k: number): readonly Scalar[] {
    const x = this.tensor(k);
    if (!isKnownTensor(x)) throw new NeedsValue(k);
    return elementsOf(x);
  }

  /** The elements of input `k` as numbers. */
  numbers(k: number): number[] {
    return this.elements(k).map(Number);
  }

  /** The numbers of input `k`; undefined if the call does not have it. */
  optionalNumbers(k: number): number[] | undefined {
    return this.has(k) ? this.numbers(k) : undefined;
  }

  /** The only element of input `k` as a number. */
  number(k: number): number {
    const all = this.numbers(k);
    if (all.length === 1) return all[0]!;
    return this.failShape(
      `input ${k} has shape ${formatShape(this.tensor(k).shape)}, expected one element`,
    );
  }

  /** The only element of input `k` as a number; `otherwise`, if the call does not have it. */
  numberOr(k: number, otherwise: number): number {
    return this.has(k) ? this.number(k) : otherwise;
  }

  /** Integers that are an attribute in old opsets and input `k` in new ones. */
  ints(name: string, k: number): readonly number[] | undefined {
    return this.has(k) ? this.numbers(k) : this.node.ints(name);
  }

  /** The dtype of input `k`. */
  dtype(k: number): DType {
    return this.tensor(k).dtype;
  }

  /** The value of a table for the text of an attribute. */
  choice<V>(name: string, otherwise: string, table: Readonly<Record<string, V>>): V {
    const given = this.node.string(name, otherwise);
    const value = Object.hasOwn(table, given) ? table[given] : undefined;
    return value ??
      this.fail(`${name} ${given} is not one of ${Object.keys(table).join(", ")}`);
  }

  /** An axis of input `k`, counted from 0. */
  axis(axis: number, rank: number): number {
    const at = axis < 0 ? axis + rank : axis;
    if (at >= 0 && at < rank) return at;
    return this.fail(`axis ${axis} is not one of ${rank}`);
  }
}

/** A value in errors. */
export function describeValue(value: Value): string {
  if (value === undefined) return "absent";
  if (value === null) return "an absent optional value";
  if (value instanceof Strings) return `texts of shape ${formatShape(value.shape)}`;
  if (isList(value)) return `a list of ${value.length} values`;
  if (value.isDisposed) return "a tensor that was disposed of";
  return `${value.dtype} of shape ${formatShape(value.shape)}`;
}
