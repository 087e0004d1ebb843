/**
 * Ops that programs define: elementwise ones by an expression, all others by a function.
 *
 * @module
 */
import { checkDType, DTYPE, type DType, type TypedArray } from "../base/dtype.ts";
import { describe } from "../base/text.ts";
import { DeviceError, DTypeError, OpError, ShapeError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { brandOf } from "../base/version.ts";
import { Layout } from "../base/layout.ts";
import { checkShape, formatShape, listIn, sameShape, type Shape } from "../base/shape.ts";
import { applyInto } from "../core/apply.ts";
import { contiguousOnCpu } from "../core/copy.ts";
import { performCall } from "../core/dispatch.ts";
import { ownOperand } from "../core/foreign.ts";
import { wrap } from "../core/handles.ts";
import { asUserArray } from "../memory/element.ts";
import { isOperand, type Operand } from "../memory/operand.ts";
import { allocateFor, recycle } from "../memory/pool.ts";
import { fullOperand } from "../ops/create/full.ts";
import { checkDevice, checkOperand, checkOptions } from "../table/infer.ts";
import {
  type BackwardCall,
  Call,
  type Input,
  makeOp,
  type Op,
  OPS,
  type OutputSpec,
} from "../table/op.ts";
import {
  checkUserExpr,
  EXPR_FUNCTIONS,
  expressionOp,
  ownParameters,
  type UserExpr,
} from "../table/user_expr.ts";
import type * as t from "../types/mod.ts";
import type { AnyTensor, Tensor, TensorOrScalar } from "./tensor.ts";

/** A call of an op that has run, for {@link ElementwiseDefinition.backward}. */
export interface OpBackward<A extends object = object> {
  /** The inputs, which are read-only; scalars as tensors of shape []. */
  readonly inputs: readonly Tensor<DType>[];
  /** The results, which are read-only. */
  readonly outputs: readonly Tensor<DType>[];
  /**
   * The derivatives of the value that is differentiated by each result, of its shape and dtype: zeros
   * for a result that does not matter, and those of float32 for one of integers.
   */
  readonly gradients: readonly Tensor<DType>[];
  /** The attributes, or the parameters. */
  readonly attributes: A;
}

/**
 * Derivatives by the inputs, or the only one. In the array, undefined is for 0, and for inputs of
 * integers.
 */
export type InputGradients = AnyTensor | readonly (AnyTensor | undefined)[];

/** An elementwise op by an expression. */
export interface ElementwiseDefinition {
  /** Its name: letters and digits. */
  readonly name: string;
  /**
   * The expression of one element: uses `x`, `y` and `z` (as many as it has operands) and
   * `parameters`, with numbers, `+ - * /`, comparisons, `&& || !`, `a ? b : c` and the functions
   * `abs sign sqrt exp expm1 exp2 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf sigmoid silu gelu floor ceil trunc round pow atan2 copysign hypot logaddexp floorDivide remainder maximum minimum isnan isinf isfinite signbit`.
   */
  readonly expr: string;
  /** Names of numbers in it that calls pass as options. */
  readonly parameters?: readonly string[];
  /**
   * Returns the derivatives by the operands, in the place of those of the expression, which are known
   * without it: each has the shape of the operand, or that of the result, which is then summed over the
   * axes that the operand was repeated along. See {@link KernelDefinition.backward}.
   */
  backward?(call: OpBackward<Readonly<Record<string, number>>>): InputGradients;
}

/**
 * Options of calls of an elementwise op: all of its parameters, and the options of all such ops.
 */
export interface ElementwiseOptions {
  /** Write the result here instead of allocating; its shape must be the result's. */
  readonly out?: AnyTensor;
  /** If `false`, operands of different shapes are an error. */
  readonly broadcast?: boolean;
  /** A parameter. */
  readonly [parameter: string]: unknown;
}

/** An elementwise op made by {@link defineOp}. */
export interface ElementwiseFunction {
  /** With one operand. */
  <X extends AnyTensor>(
    x: X,
    options?: ElementwiseOptions,
  ): Tensor<DType, t.ShapeOf<X>, X["device"]>;
  /** With two or three operands, which broadcast. */
  (x: TensorOrScalar, y: TensorOrScalar, ...more: unknown[]): Tensor<DType>;
}

/** A tensor as a parameter of functions of {@link KernelDefinition}. */
export interface KernelArray<D extends DType = DType> {
  /** The elements in row-major order, valid until the function returns; bfloat16 as bits. */
  readonly data: TypedArray;
  /** Its shape. */
  readonly shape: Shape;
  /** Its dtype. */
  readonly dtype: D;
}

/** The properties of a tensor without its elements. */
export interface TensorSpec {
  /** Its shape. */
  readonly shape: Shape;
  /** Its dtype. */
  readonly dtype: DType;
}

/** An op defined by a function. */
export interface KernelDefinition<A extends object = object> {
  /** Its name: letters and digits. */
  readonly name: string;
  /**
   * Returns the shape and the dtype of the result, or of each of several results, for the given
   * inputs; throws for unsupported inputs and attributes.
   */
  infer(inputs: readonly TensorSpec[], attributes: A): TensorSpec | readonly TensorSpec[];
  /** Reads the inputs and writes the outputs, which are initially zero. */
  run(
    inputs: readonly KernelArray[],
    outputs: readonly KernelArray[],
    attributes: A,
  ): void;
  /**
   * Returns the derivatives by the inputs, given those by the results: one for each input, of its shape
   * and dtype, or the only one. `[undefined]` is 0 for an only input: `undefined` itself, which a
   * function without `return` gives, is an OpError. Without `backward`, the op has no derivative.
   *
   * Ops compute them: it may call this op too, and derivatives of derivatives are those of its ops.
   * Inputs and results stay in memory until then. `grad` throws a ShapeError and a DTypeError for
   * derivatives of another shape and dtype, an OpError for another number of them, and a
   * DerivativeError if an input or a result that it uses was written since.
   */
  backward?(call: OpBackward<A>): InputGradients;
}

/**
 * An op that {@link defineOp} has made from a function. Its arguments are tensors, followed by an
 * object of attributes; it returns a tensor, or several in an array.
 */
export type KernelFunction = (...args: unknown[]) => Tensor<DType> | Tensor<DType>[];

const defined = new Map<string, ElementwiseFunction | KernelFunction>();

/**
 * Defines an op, and returns the function that calls it.
 *
 * An elementwise op takes tensors, which promote and broadcast, and scalars. It computes in the
 * operands' float dtype, or in float32 for integers. If the expression is a condition, it takes
 * only floats and gives bool. Every backend runs it: as a loop in JavaScript, in C on the native
 * backend, and compiled on CUDA devices. JavaScript rounds float32 once; the others round it at every
 * operator, so each may add an error of half a unit in the last place, and each function its own.
 *
 * An op defined by a function runs on the CPU; for inputs on a device it throws a DeviceError. One that
 * calls itself without end throws an OpError.
 *
 * Derivatives of an elementwise op are those of its expression, or of `backward`; an op defined by a
 * function has those of `backward`.
 *
 * Each worker has only the ops that it defines itself.
 *
 * @throws {OpError} For an invalid or existing name, and for an invalid definition.
 *
 * @example
 * ```ts
 * const leaky = defineOp({ name: "leaky", expr: "x > 0 ? x : slope * x", parameters: ["slope"] });
 * leaky(tensor([-2, 3]), { slope: 0.5 }).toArray(); // => [-1, 3]
 * ```
 */
export function defineOp(definition: ElementwiseDefinition): ElementwiseFunction;
/** {@link defineOp} by a function. */
export function defineOp<A extends object = object>(
  definition: KernelDefinition<A>,
): KernelFunction;
export function defineOp(
  definition: ElementwiseDefinition | KernelDefinition,
): ElementwiseFunction | KernelFunction {
  if (typeof definition !== "object" || definition === null) {
    throw new OpError(`Cannot defineOp: expected a definition, got ${describe(definition)}`);
  }
  const { name } = definition;
  if (typeof name !== "string" || !/^[A-Za-z][A-Za-z0-9]{0,63}$/.test(name)) {
    throw new OpError(`Cannot defineOp ${describe(name)}: a name has letters and digits`);
  }
  if (OPS.has(name)) throw new OpError(`Cannot defineOp ${name}: there is an op of that name`);
  const made = "expr" in definition ? elementwise(name, definition) : kernel(name, definition);
  defined.set(name, made);
  return made;
}

/**
 * The op that {@link defineOp} has made under `name` in this thread.
 *
 * @throws {OpError} If there is none: each worker defines its own ops.
 */
export function getOp(name: string): KernelFunction {
  const found = defined.get(name) as KernelFunction | undefined;
  if (found === undefined) {
    throw new OpError(
      `Cannot getOp ${
        describe(name)
      }: defineOp has not made it in this thread; import the module ` +
        "that does",
    );
  }
  return found;
}

// ---- elementwise -------------------------------------------------------------------------------

function elementwise(
  name: string,
  { expr, parameters: given = [], backward }: ElementwiseDefinition,
): ElementwiseFunction {
  checkBackward(name, backward);
  let parameters: readonly string[];
  let checked: UserExpr;
  try {
    parameters = ownParameters(given);
    checked = checkUserExpr(expr, parameters);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new OpError(`Cannot defineOp ${name} by ${describe(expr)}: ${error.message}`);
  }
  const { arity } = checked;
  const op = expressionOp({
    name,
    ...checked,
    backward: backward && ((call) => {
      const values = (call.attributes ?? {}) as Readonly<Record<string, number>>;
      const named = parameters.map((own, i) => [own, values[checked.parameters[i]!]!] as const);
      const outputs = call.gradients.map(({ layout: { shape }, storage }) => ({
        shape,
        dtype: storage.info,
      }));
      return gradientsBy(backward, call, Object.fromEntries(named), outputs);
    }),
  });
  const options = ["out", "broadcast", ...parameters];
  return ((...args: unknown[]) => {
    if (args.length < arity || args.length > arity + 1) {
      throw typeError(`Cannot ${name}: it takes ${arity} operands and options`);
    }
    const [a, b, c] = args.slice(0, arity) as Input[];
    const given = (args[arity] ?? {}) as ElementwiseOptions;
    checkOptions(name, given, options);
    const { out, broadcast } = given;
    const attributes = attributesOf(name, parameters, checked.parameters, given, broadcast);
    return applyInto(op, name, a, b, c, out, attributes);
  }) as ElementwiseFunction;
}

/** The numbers of a call; undefined if it has none, which is fastest. */
function attributesOf(
  name: string,
  parameters: readonly string[],
  texts: readonly string[],
  given: ElementwiseOptions,
  broadcast: boolean | undefined,
): object | undefined {
  if (parameters.length === 0 && broadcast !== false) return undefined;
  const attributes: Record<string, unknown> = { broadcast };
  parameters.forEach((parameter, i) => {
    const value = given[parameter];
    if (typeof value !== "number") {
      throw new DTypeError(
        `Cannot ${name} with ${parameter} ${describe(value)}: it takes a number`,
      );
    }
    attributes[texts[i]!] = value;
  });
  return attributes;
}

// ---- by a function -----------------------------------------------------------------------------

function kernel(name: string, definition: KernelDefinition): KernelFunction {
  const { backward } = definition;
  checkBackward(name, backward);
  if (typeof definition.infer !== "function" || typeof definition.run !== "function") {
    throw new OpError(
      `Cannot defineOp ${name}: it takes an expr of ${EXPR_FUNCTIONS.length} functions, or infer() ` +
        "and run()",
    );
  }
  const op: Op = makeOp({
    kind: "kernel",
    name,
    infer: (call) => inferBy(definition, call),
    run: (call) => runBy(definition, call),
    backward: backward &&
      ((call) => gradientsBy(backward.bind(definition), call, call.attributes as object, [])),
  });
  return ((...args: unknown[]) => {
    const last = args.at(-1);
    const hasAttributes = typeof last === "object" && last !== null &&
      brandOf(last, "tensor") === undefined;
    const attributes = hasAttributes ? last : {};
    const inputs = (hasAttributes ? args.slice(0, -1) : args) as Input[];
    if (inputs.length === 0) throw typeError(`Cannot ${name}: it takes at least one tensor`);
    const call = new Call(op, name, inputs, attributes);
    performCall(call);
    return (call.memo as Inferences).several ? call.outputs : call.outputs[0];
  }) as KernelFunction;
}

/** The results of a definition's `infer` for a call. */
interface Inferences {
  /** Whether it returned an array. */
  readonly several: boolean;
}

function inferBy(definition: KernelDefinition, call: Call): readonly OutputSpec[] {
  const { name, inputs, attributes } = call;
  const [first] = inputs;
  for (const input of inputs) {
    checkOperand(input, name);
    checkDevice((first as Operand).storage, input.storage, name);
  }
  const given = (inputs as Operand[]).map(({ layout, storage }) => ({
    shape: layout.frozenShape as Shape,
    dtype: storage.info.name,
  }));
  const inferred = definition.infer(given, attributes as object);
  const specOf = (spec: unknown): OutputSpec => {
    if (typeof spec !== "object" || spec === null) {
      throw new OpError(`Cannot ${name}: infer() gave ${describe(spec)}, not { shape, dtype }`);
    }
    const { dtype, shape } = spec as TensorSpec;
    checkDType(dtype, name);
    return { shape: checkShape(shape, name), dtype: DTYPE[dtype] };
  };
  const several = listIn(inferred, specOf);
  call.memo = { several: several !== undefined } satisfies Inferences;
  return several ?? [specOf(inferred)];
}

function runBy(definition: KernelDefinition, call: Call): Operand[] {
  const { name, inputs, specs, attributes } = call;
  const operands = inputs as Operand[];
  for (const { storage } of operands) {
    if (storage.memory !== null) {
      throw new DeviceError(
        `Cannot ${name} on ${storage.device}: the op is a function on the CPU; move its inputs ` +
          "there with cpu()",
      );
    }
  }
  const given = operands.map((x) => contiguousOnCpu(x));
  const made = specs.map(({ shape, dtype }) => {
    const layout = Layout.contiguous(shape);
    return { storage: allocateFor(dtype, layout.size, true), layout, flags: 0 };
  });
  let done = false;
  try {
    const result: unknown = definition.run(
      given.map(kernelArray),
      made.map(kernelArray),
      attributes as object,
    );
    if (typeof (result as PromiseLike<unknown> | undefined)?.then === "function") {
      throw typeError(`Cannot ${name}: run() is to write its outputs before it returns`);
    }
    done = true;
  } finally {
    given.forEach((x, k) => x !== operands[k] && recycle(x.storage));
    if (!done) { for (const { storage } of made) recycle(storage); }
  }
  return made.map(({ storage, layout }) => wrap(storage, layout));
}

function kernelArray({ storage: { array, info }, layout: { shape, offset, size } }: Operand) {
  return { data: asUserArray(array, info, offset, size), shape, dtype: info.name };
}

// ---- derivatives -------------------------------------------------------------------------------

function checkBackward(name: string, backward: unknown): void {
  if (backward === undefined || typeof backward === "function") return;
  throw new OpError(
    `Cannot defineOp ${name} with backward ${describe(backward)}: it is a function`,
  );
}

/** The derivatives that a definition returns, which may have the shapes and dtypes `others`, too. */
function gradientsBy<A extends object>(
  backward: (call: OpBackward<A>) => InputGradients,
  { name, specs, inputs, outputs, gradients }: BackwardCall,
  attributes: A,
  others: readonly OutputSpec[],
): (Operand | undefined)[] {
  const [result] = gradients;
  const scalar = (x: Input): Operand =>
    fullOperand(name, [], x as number, result!.storage.info.name, result!.storage.device);
  // Inputs may be parameters, and other derivatives need them, too.
  const constant = (list: readonly Operand[]): readonly Tensor<DType>[] =>
    (list as readonly Tensor<DType>[]).map((x) => x.readonly() as Tensor<DType>);
  const made = backward({
    get inputs() {
      return constant(inputs().map((x) => isOperand(x) ? x : scalar(x)));
    },
    get outputs() {
      return constant(outputs());
    },
    gradients: gradients as Tensor<DType>[],
    attributes,
  });
  const list = brandOf(made, "tensor") === undefined ? listIn(made, (one) => one) : [made];
  if (list?.length !== specs.length) {
    const given = list === undefined ? describe(made) : list.length;
    throw new OpError(
      `Cannot differentiate ${name}: backward() gave ${given}, not a derivative for each of ` +
        `${specs.length} inputs; an array may have undefined for those without one`,
    );
  }
  return list.map((one, k) => {
    const spec = specs[k];
    return one === undefined || spec === undefined ? undefined : gradientOf(name, one, k, [
      spec,
      ...others,
    ]);
  });
}

/** A derivative by input `k`, which has one of the shapes and one of the dtypes of `specs`. */
function gradientOf(
  name: string,
  given: unknown,
  k: number,
  specs: readonly OutputSpec[],
): Operand {
  const what = `Cannot differentiate ${name}: backward() gave`;
  if (brandOf(given, "tensor") === undefined) {
    throw new OpError(`${what} ${describe(given)} for input ${k}, not a tensor or undefined`);
  }
  const made = ownOperand(given, name);
  const { layout: { shape }, storage: { info } } = made;
  const [{ shape: expected, dtype }] = specs as [OutputSpec];
  if (dtype.kind !== "f" && dtype.kind !== "c") {
    throw new DTypeError(
      `${what} ${info.name} for input ${k}, of ${dtype.name}, which has no derivative: return undefined`,
    );
  }
  if (!specs.some((spec) => spec.dtype === info)) {
    throw new DTypeError(`${what} ${info.name} for input ${k}, which is ${dtype.name}`);
  }
  if (!specs.some((spec) => sameShape(spec.shape, shape))) {
    throw new ShapeError(
      `${what} shape ${formatShape(shape)} for input ${k}, which has shape ${
        formatShape(expected)
      }`,
    );
  }
  return made;
}
