/**
 * What an op is, and what one call of it is. Every op of the library is an {@link Op}, and everything
 * that a program asks for is a {@link Call}: backends run calls, interpreters see them.
 *
 * Knows nothing of how calls are dispatched or run.
 *
 * @module
 */
import { DTYPE, type DTypeInfo, type Scalar } from "../base/dtype.ts";
import type { Layout } from "../base/layout.ts";
import type { Plan } from "../base/plan.ts";
import { isOperand, type Operand } from "../memory/operand.ts";
import type { Storage } from "../memory/storage.ts";

/**
 * How an op is run: by a loop over elements (`map`), along axes (`reduce`, `argReduce`, `scan`), by
 * another layout of the same storage (`view`), from nothing (`create`), or by a kernel of its own or
 * other ops (`kernel`).
 */
export type OpKind = "map" | "reduce" | "argReduce" | "scan" | "view" | "create" | "kernel";

/** What an op takes: tensors, JavaScript scalars, which are weak, and nothing where one is optional. */
export type Input = Operand | Scalar | undefined;

/** What is known of a result before it is computed. */
export interface OutputSpec {
  /** Its shape. */
  readonly shape: readonly number[];
  /** Its dtype. */
  readonly dtype: DTypeInfo;
}

/** The results of an op; `"data-dependent"` where their shapes depend on values. */
export type Inferred = readonly OutputSpec[] | "data-dependent";

/** An op. */
export interface Op {
  /** How it is run. */
  readonly kind: OpKind;
  /** Its name, unique among all ops. */
  readonly name: string;
  /** A small number, unique in this process: the place of the op in tables. */
  readonly id: number;
  /**
   * Checks the inputs and the attributes, and gives the results' shapes and dtypes. Throws the errors
   * of the op; the call's `name` is what they say.
   */
  infer(call: Call): Inferred;
  /** The places of the inputs that it writes. */
  readonly writes?: readonly number[] | undefined;
  /** Which outputs are views of which inputs. */
  readonly aliases?: readonly (readonly [output: number, input: number])[] | undefined;
  /**
   * The inputs that a kernel gets contiguous: dispatch copies those that are not. All others arrive in
   * any layout.
   */
  readonly contiguous?: readonly number[] | undefined;
  /** True for a kernel that moves whole elements, whatever they are. */
  readonly moves?: boolean | undefined;
  /** True when kernels write outputs in any layout; else they get contiguous ones. */
  readonly strided?: boolean | undefined;
  /** Throws what a kernel has found: an index out of range. */
  check?: ((call: Call) => void) | undefined;
  /** A call of it that dispatch has made and uses again. */
  idle: Call | null;
  /** The same result by other ops, for backends without a kernel. Gives the outputs. */
  decompose?: ((call: Call) => Operand | readonly Operand[]) | undefined;
}

/** An op whose result is the input's storage in another layout. */
export interface ViewOp extends Op {
  readonly kind: "view";
  /** The names of its attributes, in the order in which {@link layout} takes them. */
  readonly parameters: readonly string[];
  /** That layout; null where strides do not allow it, and the result is a copy in row-major order. */
  layout(x: Layout, name: string, a?: unknown, b?: unknown, c?: unknown): Layout | null;
}

/** An op that makes a tensor of no other. */
export interface CreateOp extends Op {
  readonly kind: "create";
  /** Makes it. */
  create(attributes: unknown, name: string): Operand;
}

/** The output's dtype: the promoted one, bool, the index dtype, a float, or that of sums. */
export type ResultRule = "same" | "bool" | "int32" | "float" | "sum";

/** What an op does with a dtype. */
export interface DTypeRule {
  /** The dtype of the arithmetic. */
  readonly compute: DTypeInfo;
  /** The dtype of the result. */
  readonly result: DTypeInfo;
}

/** What the ops that are expressions of one element have in common. */
export interface ElementOp extends Op {
  /** The kinds of dtype it takes, e.g. `"iuf"`; others are refused with a DTypeError. */
  readonly dtypes: string;
  /** The output's dtype. With `"float"`, integers are computed in and give float32. */
  readonly result: ResultRule;
  /** What one element is, for every kind of dtype that has no expression of its own. */
  readonly expr: string;
  /** For signed and unsigned integers, when that differs. */
  readonly int: string | undefined;
  /** For bool, when that differs. */
  readonly bool: string | undefined;
  /** Names of numbers that the expressions use besides the operands. */
  readonly parameters: readonly string[];
  /** The function of NumPy that means the same; a Python expression of `np`, x, y and z. */
  readonly numpy: string;
  /** Largest error of a float32 result, in units in the last place; in C one more, unless it is 0. */
  readonly ulp: number;
  /** Interval from which tests draw float operands. */
  readonly domain: readonly [number, number];
  /** The rules of the dtypes seen so far, by their ids. */
  readonly rules: (DTypeRule | undefined)[];
}

/** An elementwise op. */
export interface MapOp extends ElementOp {
  readonly kind: "map";
  /** How many operands it reads. */
  readonly arity: 1 | 2 | 3;
  /** True when the first operand is a bool that takes no part in promotion (`where`). */
  readonly condition: boolean;
  /** True for comparisons, which take every number beside integers. */
  readonly compares: boolean;
}

/** A reduction: `expr` folds the mapped element `x` into the accumulator `a`. */
export interface ReduceOp extends ElementOp {
  readonly kind: "reduce";
  /** How many operands it reads. */
  readonly arity: 1 | 2;
  /** What is folded; the default is `x`. */
  readonly map: string | undefined;
  /** What the accumulator becomes at the end; the default is `a`. */
  readonly finish: string | undefined;
  /** The start value: a number, or the dtype's smallest or largest value (∓∞ for floats). */
  readonly identity: number | "lowest" | "highest";
  /** True when reducing nothing is an error. */
  readonly nonEmpty: boolean;
  /** True when sums of float64 are compensated. */
  readonly compensated: boolean;
}

/** The index of the first element that `expr` prefers over the best so far (`a`). */
export interface ArgReduceOp extends ElementOp {
  readonly kind: "argReduce";
  readonly arity: 1;
}

/** A running reduction along one axis. */
export interface ScanOp extends ElementOp {
  readonly kind: "scan";
  readonly arity: 1;
  readonly identity: number;
}

/** An op along axes. */
export type AxisOp = ReduceOp | ArgReduceOp | ScanOp;

/** An op that is an expression of the table. */
export type TableOp = MapOp | AxisOp;

/** Every op by its name. */
export const OPS: Map<string, Op> = new Map();

type Described<O extends Op> = Omit<O, "id" | "idle" | "rules">;

/**
 * An op from what is said of it. All ops have all properties in one order: engines are slow with
 * objects that differ in them.
 *
 * Throws a TypeError for a name that another op has.
 */
export function makeOp<O extends Op>(about: Described<O>): O {
  const given: Record<string, unknown> = { ...about };
  const op = {
    kind: about.kind,
    name: about.name,
    id: OPS.size,
    infer: about.infer,
    writes: given.writes,
    aliases: given.aliases,
    contiguous: given.contiguous,
    moves: given.moves,
    strided: given.strided,
    check: given.check,
    decompose: given.decompose,
    layout: given.layout,
    create: given.create,
    arity: given.arity,
    dtypes: given.dtypes,
    result: given.result,
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
  if (OPS.has(op.name)) throw new TypeError(`Cannot make op ${op.name}: there is one already`);
  OPS.set(op.name, op as unknown as O);
  return op as unknown as O;
}

const NO_SPEC: OutputSpec = { shape: [], dtype: DTYPE.bool };

/**
 * One call of an op: who is asked for what. Dispatch fills it, an op's `infer` completes it, a backend
 * runs it.
 */
export class Call {
  /** The op. */
  op: Op;
  /** What errors call the op: the method that was called. */
  name: string;
  /** What the op works on. */
  inputs: Input[];
  /** Where results go: given ones before the call, all of them after it. */
  outputs: Operand[];
  /** The op's other arguments, by name. */
  // Each op knows its own.
  // deno-lint-ignore no-explicit-any
  attributes: any;
  /** The results, as `infer` gave them. */
  specs: readonly OutputSpec[];
  /** What {@link result} gives. */
  readonly #own: { shape: readonly number[]; dtype: DTypeInfo }[];
  /** The dtype of the arithmetic, which `infer` works out for elementwise ops. */
  compute: DTypeInfo;
  /** The loop over elements, for ops whose kernels take one. */
  plan: Plan | null = null;
  /** Where a kernel found the first index out of range, counted in the order of its indices; or -1. */
  badIndex = -1;
  /** What `infer` has worked out that running the call needs too. */
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

  /** What `infer` gives where there is one result: the call's own spec, made anew each time. */
  result(shape: readonly number[], dtype: DTypeInfo): readonly OutputSpec[] {
    const own = this.#own;
    const spec = own[0]!;
    // Of a call that is used again, most is as it was: to compare costs less than to write.
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
      if (isOperand(input)) return input.storage;
    }
    return this.outputs[0]?.storage;
  }

  /** Input `k`, which is a tensor. */
  operand(k: number): Operand {
    return this.inputs[k] as Operand;
  }
}
