/**
 * The types of ops and calls. Every op of the library is an {@link Op}, and every request of a
 * program is a {@link Call}: backends run calls, interpreters see them.
 *
 * Knows nothing of how calls are dispatched or run.
 *
 * @module
 */
import { typeError } from "../base/stack.ts";
import { type Complex, DTYPE, type DTypeInfo, type Scalar } from "../base/dtype.ts";
import { Layout } from "../base/layout.ts";
import type { Plan } from "../base/plan.ts";
import type { Operand } from "../memory/operand.ts";
import type { Storage } from "../memory/storage.ts";

/**
 * How an op runs: by a loop over elements (`map`), along axes (`reduce`, `argReduce`, `scan`), by
 * another layout of the same storage (`view`), without tensors as inputs (`create`), or by a kernel
 * of its own or other ops (`kernel`).
 */
export type OpKind = "map" | "reduce" | "argReduce" | "scan" | "view" | "create" | "kernel";

/** An input of an op: a tensor, a JavaScript scalar, which is weak, or undefined if optional. */
export type Input = Operand | Scalar | Complex | undefined;

/** The properties of a result before it is computed. */
export interface OutputSpec {
  /** Its shape. */
  readonly shape: readonly number[];
  /** Its dtype. */
  readonly dtype: DTypeInfo;
}

/** The results of an op; `"data-dependent"` if their shapes depend on values. */
export type Inferred = readonly OutputSpec[] | "data-dependent";

/** An output that is a view of an input. */
export type Alias = readonly [output: number, input: number];

/** A call in the form that kernels take. */
export interface Prepared {
  /** The inputs. Dispatch frees copies: those whose storage is not that of the input. */
  readonly inputs: Input[];
  /** The attributes, if they differ from those of the call. */
  readonly attributes?: unknown;
  /** The outputs of kernels, if they differ from the results: dispatch casts them. */
  readonly specs?: readonly OutputSpec[] | undefined;
  /** The layout of a result within the memory that a kernel has written. */
  readonly layoutOf?: ((made: Layout) => Layout) | undefined;
}

/** A call that has run, and the derivatives by its results: see {@link Op.backward}. */
export interface BackwardCall {
  readonly name: string;
  readonly attributes: unknown;
  /** The shapes and dtypes of the inputs; undefined for scalars. */
  readonly specs: readonly (OutputSpec | undefined)[];
  /** The inputs and the results, as they were. Throws if one was written since. */
  readonly inputs: () => readonly Input[];
  readonly outputs: () => readonly Operand[];
  /** The derivatives by the results; zeros for results that do not matter. */
  readonly gradients: readonly Operand[];
}

/** An op. */
export interface Op {
  /** How it runs. */
  readonly kind: OpKind;
  /** Its name, unique among all ops. */
  readonly name: string;
  /** A small number, unique in this process: the index of the op in tables. */
  readonly id: number;
  /**
   * Checks the inputs and the attributes, and returns the results' shapes and dtypes. Throws the
   * errors of the op, which contain the call's `name`.
   */
  infer(call: Call): Inferred;
  /** The positions of the inputs that it writes. */
  readonly writes?: readonly number[] | undefined;
  /** The outputs that are views of inputs; `"each"` if output k is a view of input k. */
  readonly aliases?: readonly Alias[] | "each" | undefined;
  /**
   * The positions of inputs that a kernel needs contiguous: dispatch copies those that are not. All
   * others may have any layout.
   */
  readonly contiguous?: readonly number[] | undefined;
  /** True for a kernel that moves whole elements of any dtype. */
  readonly moves?: boolean | undefined;
  /** True for a kernel that adds elements: those of complex numbers part by part. */
  readonly adds?: boolean | undefined;
  /** True if kernels take complex numbers themselves; else dispatch makes lanes of them. */
  readonly complex?: boolean | undefined;
  /** True if kernels write outputs in any layout; else they get contiguous ones. */
  readonly strided?: boolean | undefined;
  /** True if kernels write contiguous outputs from any element of a storage on; else from the first. */
  readonly outOffset?: boolean | undefined;
  /** True if kernels read each element before they write one in its place, as elementwise ops do. */
  readonly inPlace?: boolean | undefined;
  /**
   * Converts the inputs to the dtypes and layouts that kernels take. Dispatch calls it once, before
   * it asks a backend; null if the inputs are as kernels take them.
   */
  prepare?: ((call: Call) => Prepared | null) | undefined;
  /** Throws the error that a kernel has found: an index out of range. */
  check?: ((call: Call) => void) | undefined;
  /** A finished call that dispatch reuses. */
  idle: Call | null;
  /**
   * Computes the results by other ops, for backends without a kernel and for interpreters. Returns
   * the outputs. An op without it and without {@link Op.run} has a definition in JavaScript, which
   * runs on the CPU if the backend of the device has no kernel.
   */
  decompose?: ((call: Call) => Operand | readonly Operand[]) | undefined;
  /**
   * Computes complex results by ops on real and imaginary parts. No decomposition: the parts are
   * lanes of the memory, which interpreters do not see.
   */
  complexParts?: ((call: Call) => Operand) | undefined;
  /**
   * Computes the results itself, on every device: a move between devices, a function of the program.
   * Returns the outputs.
   */
  run?: ((call: Call) => Operand | readonly Operand[]) | undefined;
  /**
   * The derivatives by the inputs, undefined for 0, by other ops: for ops that programs define. Those of
   * the library have rules in `grad`.
   */
  backward?: ((call: BackwardCall) => readonly (Operand | undefined)[]) | undefined;
}

/** An op whose result is the input's storage in another layout. */
export interface ViewOp extends Op {
  readonly kind: "view";
  /** The names of its attributes, in the order of the parameters of {@link layout}. */
  readonly parameters: readonly string[];
  /**
   * The result's layout; null if strides do not allow it, and the result is a copy in row-major
   * order.
   */
  layout(x: Layout, name: string, a?: unknown, b?: unknown, c?: unknown): Layout | null;
}

/** An op that makes a tensor without other tensors. */
export interface CreateOp extends Op {
  readonly kind: "create";
  /** Makes it. */
  create(attributes: unknown, name: string): Operand;
}

/**
 * The output's dtype: the promoted one, bool, the index dtype, a float, or the dtype of sums or of
 * products.
 */
export type ResultRule = "same" | "bool" | "int32" | "float" | "sum" | "prod";

/** The rule of an op for a dtype. */
export interface DTypeRule {
  /** The dtype of the arithmetic. */
  readonly compute: DTypeInfo;
  /** The dtype of the result. */
  readonly result: DTypeInfo;
}

/** The common properties of ops that are expressions of one element. */
export interface ElementOp<N extends string = string> extends Op {
  readonly name: N;
  /** The supported kinds of dtype, e.g. `"iuf"`; others throw a DTypeError. */
  readonly dtypes: string;
  /** The output's dtype. With `"float"`, integers are computed in float32 and give float32. */
  readonly result: ResultRule;
  /** True if the result for complex numbers is a float: their distance from 0, a part. */
  readonly realResult?: boolean;
  /** The expression of one element, for every kind of dtype without its own. */
  readonly expr: string;
  /** The expression for signed and unsigned integers, if it differs. */
  readonly int: string | undefined;
  /** The expression for bool, if it differs. */
  readonly bool: string | undefined;
  /** Names of numbers that the expressions use in addition to the operands. */
  readonly parameters: readonly string[];
  /** The equivalent function of NumPy; a Python expression of `np`, x, y and z. */
  readonly numpy: string;
  /**
   * Largest error of a float32 result, in units in the last place; in C one more, unless it is 0.
   */
  readonly ulp: number;
  /** Interval from which tests draw float operands. */
  readonly domain: readonly [number, number];
  /** The rules of the dtypes seen so far, by their ids. */
  readonly rules: (DTypeRule | undefined)[];
}

/** An elementwise op. */
export interface MapOp<N extends string = string> extends ElementOp<N> {
  readonly kind: "map";
  /** The number of operands. */
  readonly arity: 1 | 2 | 3;
  /** True if the first operand is a bool that is excluded from promotion (`where`). */
  readonly condition: boolean;
  /** True for comparisons, which accept any number next to integers. */
  readonly compares: boolean;
}

/** A reduction: `expr` folds the mapped element `x` into the accumulator `a`. */
export interface ReduceOp<N extends string = string> extends ElementOp<N> {
  readonly kind: "reduce";
  /** The number of operands. */
  readonly arity: 1 | 2;
  /** The mapped expression; the default is `x`. */
  readonly map: string | undefined;
  /** The final expression of the accumulator; the default is `a`. */
  readonly finish: string | undefined;
  /** The start value: a number, or the dtype's smallest or largest value (∓∞ for floats). */
  readonly identity: number | "lowest" | "highest";
  /** True if reducing no elements is an error. */
  readonly nonEmpty: boolean;
  /** True when sums of float64 are compensated. */
  readonly compensated: boolean;
}

/** The index of the first element that `expr` prefers over the best so far (`a`). */
export interface ArgReduceOp<N extends string = string> extends ElementOp<N> {
  readonly kind: "argReduce";
  readonly arity: 1;
}

/** A running reduction along one axis. */
export interface ScanOp<N extends string = string> extends ElementOp<N> {
  readonly kind: "scan";
  readonly arity: 1;
  /** The start value, as for reductions. */
  readonly identity: number | "lowest" | "highest";
}

/** An op along axes. */
export type AxisOp = ReduceOp | ArgReduceOp | ScanOp;

/** An op that is an expression of the table. */
export type TableOp = MapOp | AxisOp;

/** Whether an expression defines the op: of the table, or of a program. */
export function isTableOp(op: Op): op is TableOp {
  return (op as TableOp).expr !== undefined;
}

/** Every op by its name. */
export const OPS: Map<string, Op> = new Map();

type KindOfOp = ViewOp | CreateOp | TableOp;
type PropertyOf<O> = O extends Op ? keyof O : never;
type Described<O extends Op> = Omit<O, "id" | "idle" | "rules">;

/** Names with a meaning of their own in expressions. */
const OWN_NAMES = ["x", "y", "z", "a", "bits"];

/** Throws a TypeError for parameters of an expression that are no names, or have the name of another. */
function checkParameters(op: string, parameters: readonly string[]): void {
  parameters.forEach((name, i) => {
    const taken = OWN_NAMES.includes(name) || parameters.indexOf(name) !== i;
    if (/^[A-Za-z]\w*$/.test(name) && !taken) return;
    throw typeError(
      `Cannot make op ${op} with the parameter ${name}: the name is taken or none`,
    );
  });
}

/**
 * Makes an op from its description. All ops have all properties in one order: engines are slow with
 * objects of different shapes.
 *
 * Throws a TypeError for a name that another op has, and for parameters with names of operands.
 */
export function makeOp<O extends Op>(about: Described<O>): O {
  const given: Partial<Record<PropertyOf<KindOfOp>, unknown>> = about;
  const op = {
    kind: about.kind,
    name: about.name,
    id: OPS.size,
    infer: about.infer,
    writes: given.writes,
    aliases: given.aliases,
    contiguous: given.contiguous,
    moves: given.moves,
    adds: given.adds,
    complex: given.complex,
    strided: given.strided,
    outOffset: given.outOffset,
    inPlace: given.inPlace,
    prepare: given.prepare,
    check: given.check,
    decompose: given.decompose,
    complexParts: given.complexParts,
    run: given.run,
    backward: given.backward,
    layout: given.layout,
    create: given.create,
    arity: given.arity,
    dtypes: given.dtypes,
    result: given.result,
    realResult: given.realResult ?? false,
    expr: given.expr,
    int: given.int,
    bool: given.bool,
    parameters: given.parameters,
    numpy: given.numpy,
    ulp: given.ulp,
    domain: given.domain,
    idle: null,
    rules: new Array(16).fill(undefined),
    condition: given.condition,
    compares: given.compares,
    map: given.map,
    finish: given.finish,
    identity: given.identity,
    nonEmpty: given.nonEmpty,
    compensated: given.compensated,
  };
  if (OPS.has(op.name)) throw typeError(`Cannot make op ${op.name}: there is one already`);
  if (op.expr !== undefined) checkParameters(op.name, given.parameters as readonly string[]);
  // It has the properties of all kinds of ops, of which an O has its own.
  const made = op as unknown as O;
  OPS.set(op.name, made);
  return made;
}

const NO_SPEC: OutputSpec = { shape: [], dtype: DTYPE.bool };

/** One call of an op. Dispatch fills it, the op's `infer` completes it, a backend runs it. */
export class Call {
  /** The op. */
  op: Op;
  /** The op's name in errors: the method that was called. */
  name: string;
  /** The inputs of the op. */
  inputs: Input[];
  /** The outputs: given ones before the call, all of them after it. */
  outputs: Operand[];
  /** The op's other arguments, by name. */
  // Each op knows the type of its own, and asserts it where it reads them.
  // deno-lint-ignore no-explicit-any
  attributes: any;
  /** The results as `infer` returned them. */
  specs: readonly OutputSpec[];
  /** The result of {@link result}. */
  readonly #own: { shape: readonly number[]; dtype: DTypeInfo }[];
  /** The dtype of the arithmetic, inferred for elementwise ops. */
  compute: DTypeInfo;
  /** The loop over elements, for ops whose kernels need one. */
  plan: Plan | null = null;
  /**
   * The place of the first index out of range, in the order of the indices; -1 if there is none.
   */
  badIndex = -1;
  /** Data of `infer` that running the call needs too. */
  memo: unknown = undefined;

  /** A call that is not pooled. */
  constructor(
    op: Op,
    name: string,
    inputs: Input[],
    attributes?: unknown,
    outputs: Operand[] = [],
  ) {
    this.op = op;
    this.name = name;
    this.inputs = inputs;
    this.outputs = outputs;
    this.attributes = attributes;
    this.specs = this.#own = [{ ...NO_SPEC }];
    this.compute = NO_SPEC.dtype;
  }

  /** The specs of a call with one result: the call's own object, overwritten by each use. */
  result(shape: readonly number[], dtype: DTypeInfo): readonly OutputSpec[] {
    const own = this.#own;
    const spec = own[0]!;
    // Most values of a reused call are unchanged: a comparison costs less than a write.
    if (spec.shape !== shape) spec.shape = shape;
    if (spec.dtype !== dtype) spec.dtype = dtype;
    if (this.specs !== own) this.specs = own;
    return own;
  }

  /** A storage on the device of the call; undefined while only scalars are known. */
  get like(): Storage | undefined {
    const { inputs } = this;
    for (let k = 0; k < inputs.length; k++) {
      const input = inputs[k];
      if (typeof input === "object" && (input as Operand | null)?.layout instanceof Layout) {
        return (input as Operand).storage;
      }
    }
    return this.outputs[0]?.storage;
  }

  /** Input `k`, which is a tensor. */
  operand(k: number): Operand {
    return this.inputs[k] as Operand;
  }
}
