/**
 * Minima of smooth functions, by L-BFGS with a line search.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { apply, applyInto } from "../core/apply.ts";
import { contiguousCopy } from "../core/copy.ts";
import { dispose, tidy } from "../core/handles.ts";
import { hostRead } from "../core/interpreter.ts";
import { conj, mul } from "../grad/tape/arithmetic.ts";
import { type Gradients, valueAndGrad } from "../grad/mod.ts";
import { treeOf } from "../grad/trees.ts";
import { readElement } from "../memory/element.ts";
import type { Operand } from "../memory/operand.ts";
import { reduce } from "../ops/reduce/op.ts";
import { checkOptions } from "../table/infer.ts";
import { MAP, REDUCE } from "../table/table.ts";
import type { AnyTensor } from "../tensor/tensor.ts";
import { checkTargets, checkTrained, named } from "./checks.ts";

/** Options of {@link minimize}. */
export interface MinimizeOptions {
  /** The most steps; 100 by default. */
  readonly steps?: number | undefined;
  /** The largest derivative at which it ends; 1e-5 by default. */
  readonly tolerance?: number | undefined;
  /** The number of steps that the curvature is estimated from; 10 by default. */
  readonly history?: number | undefined;
}

/** What {@link minimize} found. */
export interface Minimum {
  /** The value of the function. */
  readonly value: number;
  /** The steps that were made. */
  readonly steps: number;
  /** Whether all derivatives are at most the tolerance. */
  readonly converged: boolean;
}

type Vector = readonly Operand[];

/** The sum of the products of all elements, and of all parts of complex ones. */
const dot = (a: Vector, b: Vector): number =>
  a.reduce((sum, x, i) => sum + tidyNumber(() => reduce(REDUCE.sum, product(x, b[i]!), null)), 0);

function product(a: Operand, b: Operand): Operand {
  return a.storage.info.kind === "c" ? apply(MAP.real, mul(conj(a), b)) : mul(a, b);
}

function tidyNumber(body: () => Operand): number {
  const made = tidy(body);
  hostRead(made, "minimize by");
  const value = Number(readElement(made.storage, made.layout.offset));
  dispose(made);
  return value;
}

const copyOf = (x: Vector): Operand[] => x.map((one) => contiguousCopy(one));
const drop = (x: Vector): void => x.forEach((one) => dispose(one));

/** y += factor · x */
function addTo(y: Vector, x: Vector, factor: number): void {
  tidy(() => {
    y.forEach((one, i) => void applyInto(MAP.add, "step", one, mul(x[i]!, factor), undefined, one));
  });
}

const largest = (x: Vector): number =>
  Math.max(...x.map((one) => tidyNumber(() => reduce(REDUCE.normMax, one, null))));

/** A pair of a step and the change of the derivatives. */
interface Pair {
  readonly step: Vector;
  readonly change: Vector;
  readonly inverse: number;
}

/** Minus the inverse of the estimated curvature times the derivatives. */
function directionOf(slope: Vector, pairs: readonly Pair[]): Operand[] {
  const made = copyOf(slope);
  const factors: number[] = [];
  for (const { step, change, inverse } of pairs.toReversed()) {
    const factor = inverse * dot(step, made);
    addTo(made, change, -factor);
    factors.unshift(factor);
  }
  const last = pairs.at(-1);
  const scale = last === undefined
    ? 1 / Math.max(1, Math.sqrt(dot(slope, slope)))
    : 1 / (last.inverse * dot(last.change, last.change));
  for (const one of made) applyInto(MAP.mul, "step", one, -scale, undefined, one);
  pairs.forEach(({ step, change, inverse }, k) => {
    const factor = inverse * dot(change, made);
    // The sign of the direction is turned already.
    addTo(made, step, -factors[k]! - factor);
  });
  return made;
}

/**
 * Changes `params` in place to a minimum of `f`, a smooth function without randomness, such as the loss
 * of all data: by L-BFGS, with a line search by Wolfe's conditions. It runs on the event loop, and reads
 * values after each step.
 *
 * In a function that is differentiated, neither `f` nor the parameters may have a derivative.
 *
 * An error of `f` leaves the parameters as the last whole step has made them.
 *
 * @throws {ArgumentError} For numbers out of range, and parameters that share memory.
 * @throws {DerivativeError} In a function that is differentiated, for what has a derivative.
 * @throws {ReadOnlyError} For parameters that are read-only or broadcast, and for weights of `nn.open`
 *   without `{ trainable: true }`.
 *
 * @example
 * ```ts
 * const params = { x: tensor([-1.2, 1], { dtype: "float64" }) };
 * const rosenbrock = ({ x }: typeof params) => {
 *   const [a, b] = [x.slice(0), x.slice(1)];
 *   return b.sub(a.square()).square().mul(100).add(a.sub(1).square());
 * };
 * optim.minimize(rosenbrock, params).converged; // => true
 * params.x.toArray().map((n) => Math.round(n * 1000) / 1000); // => [1, 1]
 * ```
 */
export function minimize<P>(
  f: (params: P) => AnyTensor,
  params: P,
  options: MinimizeOptions = {},
): Minimum {
  checkOptions("minimize", options, ["steps", "tolerance", "history"]);
  const { steps = 100, tolerance = 1e-5, history = 10 } = options;
  for (const [what, value] of Object.entries({ steps, tolerance, history })) {
    const isCount = Number.isInteger(value) || value === Infinity || what === "tolerance";
    if (typeof value === "number" && value >= 0 && isCount) continue;
    throw new ArgumentError(
      `Cannot minimize with ${what} ${describe(value)}: it is ${
        what === "tolerance" ? "a number" : "an integer"
      } of at least 0`,
    );
  }
  const tree = treeOf("minimize", params);
  const { leaves } = tree;
  checkTrained("minimize", leaves);
  checkTargets("minimize by", named("parameter", tree, leaves));
  const both = valueAndGrad(f);
  const evaluate = (): { value: number; slope: Vector } => {
    const [made, gradients] = both(params);
    const own = made as Operand;
    hostRead(own, "minimize by");
    const value = Number(readElement(own.storage, own.layout.offset));
    dispose(own);
    return { value, slope: treeOf("minimize", gradients as Gradients<P>).leaves };
  };
  let { value, slope } = evaluate();
  let pairs: Pair[] = [];
  let made = 0;
  try {
    for (; made < steps && largest(slope) > tolerance; made++) {
      const direction = directionOf(slope, pairs);
      let found: Found | undefined;
      try {
        found = search(leaves, direction, value, slope, evaluate);
      } catch (error) {
        drop(direction);
        throw error;
      }
      if (found === undefined) {
        drop(direction);
        if (pairs.length === 0) break;
        // The estimate of the curvature is no longer of use.
        for (const { step, change } of pairs) drop([...step, ...change]);
        pairs = [];
        continue;
      }
      const change = copyOf(found.slope);
      addTo(change, slope, -1);
      for (const one of direction) {
        applyInto(MAP.mul, "step", one, found.length, undefined, one);
      }
      const curvature = dot(direction, change);
      if (curvature > 1e-10 * dot(change, change)) {
        pairs.push({ step: direction, change, inverse: 1 / curvature });
        if (pairs.length > history) {
          const { step, change: old } = pairs.shift()!;
          drop([...step, ...old]);
        }
      } else drop([...direction, ...change]);
      drop(slope);
      ({ value, slope } = found);
    }
    return { value, steps: made, converged: largest(slope) <= tolerance };
  } finally {
    drop(slope);
    for (const { step, change } of pairs) drop([...step, ...change]);
  }
}

interface Found {
  readonly value: number;
  readonly slope: Vector;
  readonly length: number;
}

/** The most evaluations of a line search. */
const MOST_TRIES = 25;

/**
 * Moves `x` along a direction to where the function is lower and its slope less steep: Wolfe's
 * conditions, by bisection. Undefined if there is no such place, with `x` as before.
 */
function search(
  x: Vector,
  direction: Vector,
  value: number,
  slope: Vector,
  evaluate: () => { value: number; slope: Vector },
): Found | undefined {
  const steepness = dot(slope, direction);
  if (!(steepness < 0)) return undefined;
  const start = copyOf(x);
  const goBack = (): void =>
    x.forEach((one, i) => void applyInto(MAP.copy, "step", start[i]!, undefined, undefined, one));
  let [low, high, length] = [0, Infinity, 1];
  let found: Found | undefined;
  try {
    for (let k = 0; k < MOST_TRIES; k++) {
      goBack();
      addTo(x, direction, length);
      const next = evaluate();
      const isLower = next.value <= value + 1e-4 * length * steepness;
      if (!isLower) high = length;
      else if (dot(next.slope, direction) < 0.9 * steepness) low = length;
      else return found = { ...next, length };
      drop(next.slope);
      length = high === Infinity ? 2 * length : (low + high) / 2;
    }
    return undefined;
  } finally {
    // Also after an error of the function.
    if (found === undefined) goBack();
    drop(start);
  }
}
