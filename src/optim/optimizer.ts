/**
 * Optimizers that change parameters in place: descent, Adam, AdamW.
 *
 * @module
 */
import { DTYPE } from "../base/dtype.ts";
import { ArgumentError, ShapeError } from "../base/errors.ts";
import { listIn } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { applyInto } from "../core/apply.ts";
import { tidy } from "../core/handles.ts";
import { add, castTo, conj, div, mul, sub, zeros } from "../grad/tape/arithmetic.ts";
import { checkPaths, inOrderOf, type PathLeaves, treeOf } from "../grad/trees.ts";
import type { Gradients } from "../grad/mod.ts";
import { contiguousCopy } from "../core/copy.ts";
import { adopt } from "../core/foreign.ts";
import { isOperandArgument, type Operand } from "../memory/operand.ts";
import { checkAlive } from "../memory/storage.ts";
import { fullOperand } from "../ops/create/full.ts";
import { checkDevice, checkOptions } from "../table/infer.ts";
import type { Input } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import type { Tensor } from "../tensor/tensor.ts";
import {
  checkBelongs,
  checkDType,
  checkNumberInput,
  checkTargets,
  checkTrained,
  type Named,
  named,
} from "./checks.ts";

/** What an optimizer keeps for parameters: tensors, which can be saved and be arguments of programs. */
export interface OptimizerState<P = unknown> {
  /** The number of updates, float32 of shape []. */
  readonly step: Tensor;
  /** Weights in float32 of parameters of 16 bits, by their paths, such as `layers[0].w`. */
  readonly weights: Readonly<Record<string, Tensor>>;
  /** Means of derivatives and of their squares, float32 for parameters of 16 bits. */
  readonly moments: readonly Gradients<P>[];
}

/** Options of an update. */
export interface UpdateOptions {
  /** The learning rate of this update, in place of that of the optimizer. */
  readonly learningRate?: number | undefined;
}

/** Changes parameters by their derivatives. */
export interface Optimizer {
  /** The state for parameters: zeros on their devices. */
  init<P>(params: P): OptimizerState<P>;
  /**
   * Changes parameters and state in place, one update for each tensor. In `compile`, both are arguments
   * of the program; the learning rate may be one.
   *
   * An error changes nothing: all tensors are checked first.
   *
   * @throws {ShapeError} For derivatives of other shapes.
   * @throws {DTypeError} For complex derivatives of real parameters, and a state of other dtypes.
   * @throws {ArgumentError} For derivatives at other paths, another state, a rate that is no number, and
   *   tensors that share memory.
   * @throws {ReadOnlyError} For parameters that are read-only or broadcast, and for weights of `nn.open`
   *   without `{ trainable: true }`.
   */
  update<P>(
    params: P,
    gradients: Gradients<P>,
    state: OptimizerState<P>,
    options?: UpdateOptions,
  ): void;
}

/** Options of all optimizers. */
export interface OptimizerOptions {
  /** How far an update goes. */
  readonly learningRate: number;
  /**
   * Whether the weight of a path such as `layers[0].w` decays; all do by default, if `weightDecay` is
   * not 0.
   */
  readonly decays?: ((path: string, shape: readonly number[]) => boolean) | undefined;
}

/** Options of {@link sgd}. */
export interface SgdOptions extends OptimizerOptions {
  /** The part of the last update that is added to the next; 0 by default. */
  readonly momentum?: number | undefined;
  /** Whether the momentum counts before the derivative, as Nesterov's does; false by default. */
  readonly nesterov?: boolean | undefined;
  /** The part of weights that is added to their derivatives; 0 by default. */
  readonly weightDecay?: number | undefined;
}

/** Options of {@link adam}. */
export interface AdamOptions extends OptimizerOptions {
  /** How much of the means of derivatives and of their squares stays; [0.9, 0.999] by default. */
  readonly betas?: readonly [number, number] | undefined;
  /** Added to roots of means; 1e-8 by default. */
  readonly epsilon?: number | undefined;
  /** The part of weights that is added to their derivatives; 0 by default. */
  readonly weightDecay?: number | undefined;
}

/** Options of {@link adamw}. */
export interface AdamWOptions extends Omit<AdamOptions, "weightDecay"> {
  /** The part of weights, times the learning rate, that an update takes away; 0.01 by default. */
  readonly weightDecay?: number | undefined;
}

/** A rule of one tensor: writes the moments, and returns what the weight loses. */
type Rule = (
  weight: Operand,
  gradient: Operand,
  moments: readonly Operand[],
  numbers: Numbers,
) => Operand;

/** Numbers of an update. */
interface Numbers {
  readonly rate: Input;
  readonly decay: number;
  /** The number of updates with this one. */
  readonly step: Operand;
}

function checkNumber(name: string, what: string, value: unknown, most = Infinity): void {
  const isIn = typeof value === "number" && value >= 0 && value <= most && value < Infinity;
  if (isIn) return;
  throw new ArgumentError(
    `Cannot make ${name} with ${what} ${describe(value)}: it is a number ${
      most === Infinity ? "of at least 0" : `from 0 to ${most}`
    }`,
  );
}

/** `target = value`, in the dtype of the target. */
function write(target: Operand, value: Operand): void {
  applyInto(MAP.copy, "update", value, undefined, undefined, target);
}

/** mean = beta · mean + (1 − beta) · x */
function average(mean: Operand, x: Operand, beta: number): void {
  applyInto(MAP.add, "update", mul(mean, beta), mul(x, 1 - beta), undefined, mean);
}

const isShort = ({ storage: { info } }: Operand): boolean => info.bytes === 2;

function optimizer(
  name: string,
  count: number,
  { learningRate, decays }: OptimizerOptions,
  weightDecay: number,
  rule: Rule,
): Optimizer {
  checkNumber(name, "learningRate", learningRate);
  checkNumber(name, "weightDecay", weightDecay);
  if (decays !== undefined && typeof decays !== "function") {
    throw new ArgumentError(
      `Cannot make ${name} with decays ${describe(decays)}: it is a function`,
    );
  }
  return {
    init(params) {
      const what = `init ${name} for`;
      const tree = treeOf(`init ${name}`, params);
      checkTrained(what, tree.leaves);
      const parameters = named("parameter", tree, tree.leaves);
      checkTargets(what, parameters);
      const short = shortOf(tree);
      checkPaths(what, short);
      const [first] = tree.leaves as [Operand];
      const wide = (x: Operand): Operand =>
        isShort(x) ? fullOperand("zeros", x.layout.shape, 0, "float32", x.storage.device) : zeros(
          x.layout.shape,
          x,
        );
      return {
        step: fullOperand("zeros", [], 0, "float32", first.storage.device) as Tensor,
        weights: Object.fromEntries(
          short.leaves.map((x, i) => [short.paths[i]!, contiguousCopy(x, "float32") as Tensor]),
        ),
        moments: Array.from({ length: count }, () => tree.map(wide) as Gradients<typeof params>),
      };
    },
    update(params, gradients, state, options = {}) {
      const what = "update";
      checkOptions(what, options, ["learningRate"]);
      const rate: Input = options.learningRate ?? learningRate;
      checkNumberInput(what, "learningRate", rate, 0);
      const kept = state?.moments;
      if (!Array.isArray(kept) || kept.length !== count) {
        throw new ArgumentError(`Cannot update: the state is not that of ${name}, by init()`);
      }
      const own = treeOf(what, params);
      checkTrained(what, own.leaves);
      const parameters = named("parameter", own, own.leaves);
      const [slopes, ...moments] = [gradients, ...kept].map((one, k) => {
        const leaves = matched(what, one, own);
        return named(k === 0 ? "derivative" : "moment", own, leaves);
      }) as [Named[], ...Named[][]];
      const wide = weightsOf(what, parameters, state.weights, own);
      const step = stepOf(what, state.step);
      parameters.forEach((parameter, i) => {
        checkBelongs(what, parameter, slopes[i]!);
        const info = isShort(parameter.x) ? DTYPE.float32 : parameter.x.storage.info;
        for (const one of [wide[i]!, ...moments.map((all) => all[i]!)]) {
          checkBelongs(what, parameter, one);
          checkDType(what, one, info);
        }
        // Two means are divided by what depends on the step.
        if (count === 2) checkDevice(step.x.storage, parameter.x.storage, what);
      });
      const beside = wide.filter((one, i) => one !== parameters[i]);
      checkTargets(what, [...parameters, ...beside, ...moments.flat(), step], slopes);
      const isDecaying = own.leaves.map(({ layout: { shape } }, i) => {
        const given: unknown = decays === undefined || decays(own.paths[i]!, shape);
        if (typeof given === "boolean") return given;
        throw new ArgumentError(
          `Cannot update: decays() gave ${describe(given)} for ${
            parameters[i]!.what
          }, not true or false`,
        );
      });
      tidy(() => {
        applyInto(MAP.add, what, step.x, 1, undefined, step.x);
        own.leaves.forEach((param, i) => {
          const weight = wide[i]!.x;
          const gradient = castTo(slopes[i]!.x, weight.storage.info);
          const numbers = { rate, decay: isDecaying[i] ? weightDecay : 0, step: step.x };
          const loss = rule(weight, gradient, moments.map((leaves) => leaves[i]!.x), numbers);
          applyInto(MAP.sub, what, weight, loss, undefined, weight);
          if (weight !== param) write(param, weight);
        });
      });
    },
  };
}

/** The parameters of 16 bits. */
function shortOf({ leaves, paths }: PathLeaves): PathLeaves {
  const places = leaves.flatMap((x, i) => isShort(x) ? [i] : []);
  return { leaves: places.map((i) => leaves[i]!), paths: places.map((i) => paths[i]!) };
}

/** The tensors of a tree at the paths of parameters. */
function matched(name: string, given: unknown, own: PathLeaves): readonly Operand[] {
  const tree = treeOf(name, given);
  if (tree.leaves.length === own.leaves.length) return inOrderOf(name, tree, own);
  throw new ShapeError(
    `Cannot ${name} ${own.leaves.length} parameters by ${tree.leaves.length} tensors`,
  );
}

/** What updates change: parameters, or their weights of float32. */
function weightsOf(
  name: string,
  parameters: readonly Named[],
  given: unknown,
  own: PathLeaves,
): readonly Named[] {
  const short = shortOf(own);
  if (short.leaves.length === 0) return parameters;
  const weights = named("weight", short, matched(name, given, short));
  return parameters.map((one) => isShort(one.x) ? weights.shift()! : one);
}

/** The number of updates, in the state. */
function stepOf(name: string, given: unknown): Named {
  const x = adopt(given, name);
  const what = "the step of the state";
  if (isOperandArgument(x)) {
    checkAlive(x.storage, `${name} by ${what}`);
    if (x.layout.shape.length === 0 && x.storage.info === DTYPE.float32) return { what, x };
  }
  throw new ArgumentError(
    `Cannot ${name}: ${what} is ${describe(given)}, and not float32 of shape []`,
  );
}

/**
 * Gradient descent, with momentum as in PyTorch: v = momentum · v + g, w −= rate · v.
 *
 * @throws {ArgumentError} For numbers out of range.
 *
 * @example
 * ```ts
 * const params = [tensor([1, 2])];
 * const optimizer = optim.sgd({ learningRate: 0.5 });
 * const gradients = [tensor([2, 2])];
 * optimizer.update(params, gradients, optimizer.init(params));
 * params[0]!.toArray(); // => [0, 1]
 * ```
 */
export function sgd(options: SgdOptions): Optimizer {
  checkOptions("make sgd", options, [
    ...["learningRate", "decays", "momentum", "nesterov", "weightDecay"],
  ]);
  const { momentum = 0, nesterov = false, weightDecay = 0 } = options;
  checkNumber("sgd", "momentum", momentum, 1);
  if (typeof nesterov !== "boolean" || nesterov && momentum === 0) {
    throw new ArgumentError(
      `Cannot make sgd with nesterov ${
        describe(nesterov)
      } and momentum ${momentum}: it is true or ` +
        "false, and true takes a momentum above 0",
    );
  }
  return optimizer("sgd", momentum === 0 ? 0 : 1, options, weightDecay, (
    weight,
    gradient,
    [velocity],
    { rate, decay },
  ) => {
    const slope = decay === 0 ? gradient : add(gradient, mul(weight, decay));
    if (velocity === undefined) return mul(slope, rate);
    applyInto(MAP.add, "update", mul(velocity, momentum), slope, undefined, velocity);
    return mul(nesterov ? add(slope, mul(velocity, momentum)) : velocity, rate);
  });
}

function adamRule(
  [first, second]: readonly [number, number],
  epsilon: number,
  isDecoupled: boolean,
): Rule {
  return (weight, gradient, [mean, square], { rate, decay, step }) => {
    const slope = decay === 0 || isDecoupled ? gradient : add(gradient, mul(weight, decay));
    average(mean!, slope, first);
    average(square!, mul(slope, conj(slope)), second);
    // The means begin at 0: what they lack is known.
    const info = weight.storage.info;
    const corrected = (mean: Operand, beta: number): Operand =>
      div(mean, castTo(sub(1, applyInto(MAP.pow, "pow", beta, step, undefined, undefined)), info));
    const root = applyInto(
      MAP.sqrt,
      "sqrt",
      corrected(square!, second),
      undefined,
      undefined,
      undefined,
    );
    const change = mul(div(corrected(mean!, first), add(root, epsilon)), rate);
    return decay !== 0 && isDecoupled ? add(change, mul(mul(weight, decay), rate)) : change;
  };
}

function makeAdam(name: string, options: AdamOptions, decay: number, isDecoupled: boolean) {
  checkOptions(`make ${name}`, options, [
    ...["learningRate", "decays", "betas", "epsilon", "weightDecay"],
  ]);
  const { betas = [0.9, 0.999], epsilon = 1e-8 } = options;
  const all: readonly unknown[] | undefined = listIn(betas, (one) => one);
  const areTwo = all?.length === 2 &&
    all.every((one) => typeof one === "number" && one >= 0 && one < 1);
  if (!areTwo) {
    throw new ArgumentError(
      `Cannot make ${name} with betas ${describe(betas)}: they are two numbers from 0 to below 1`,
    );
  }
  const [first, second] = all as [number, number];
  checkNumber(name, "epsilon", epsilon);
  return optimizer(name, 2, options, decay, adamRule([first, second], epsilon, isDecoupled));
}

/**
 * Adam: descent along means of derivatives, over the roots of means of their squares.
 *
 * @throws {ArgumentError} For numbers out of range.
 */
export function adam(options: AdamOptions): Optimizer {
  return makeAdam("adam", options, options.weightDecay ?? 0, false);
}

/**
 * {@link adam} with weights that decay by themselves, not by their derivatives.
 *
 * @throws {ArgumentError} For numbers out of range.
 */
export function adamw(options: AdamWOptions): Optimizer {
  return makeAdam("adamw", options, options.weightDecay ?? 0.01, true);
}
