/**
 * Derivatives of functions of trees of tensors.
 *
 * @example
 * ```ts
 * import { type Tensor, tensor } from "@rowmajor/tensor";
 * import { grad } from "@rowmajor/tensor/grad";
 *
 * const slope = grad((x: Tensor) => x.mul(x).sum());
 * slope(tensor([1, 2, 3])).toArray(); // => [2, 4, 6]
 * ```
 *
 * @module
 */
import { ArgumentError, DerivativeError, DisposedError, ShapeError } from "../base/errors.ts";
import { reachable } from "../base/reachable.ts";
import { formatShape, sameShape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { applyView } from "../core/apply.ts";
import { contiguousCopy } from "../core/copy.ts";
import { dispatchAll } from "../core/dispatch.ts";
import { dispose as disposeOf, wrap } from "../core/handles.ts";
import { frame } from "../core/interpreter.ts";
import { fullOperand } from "../ops/create/full.ts";
import { isOperandArgument, type Operand, READ_ONLY } from "../memory/operand.ts";
import type { Storage } from "../memory/storage.ts";
import { checkOptions } from "../table/infer.ts";
import { VIEWS } from "../table/views.ts";
import "../tensor/tensor.ts";
import { type AnyTensor, scope, type Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import { zeros } from "./tape/arithmetic.ts";
import { elementwise } from "./tape/elementwise.ts";
import { setMapRule } from "./tape/rule.ts";
import { CHECKPOINT, CONSTANT, isTaped, Tape } from "./tape/tape.ts";
import { inOrderOf, looseTree, type Tree, treeOf } from "./trees.ts";
import "./rules/views.ts";
import "./rules/axes.ts";
import "./rules/products.ts";
import "./rules/rows.ts";
import "./rules/indexes.ts";
import "./rules/conv.ts";
import "./rules/linalg.ts";
import "./rules/signals.ts";
import "./rules/images.ts";
import "./rules/random.ts";

setMapRule(elementwise);

/** The derivatives by a tree: a tensor of the same shape and dtype for each tensor. */
export type Gradients<P> = P extends Tensor<infer D, infer S, infer V, t.Access> ? Tensor<D, S, V>
  : P extends readonly unknown[] ? { [K in keyof P]: Gradients<P[K]> }
  : { [K in keyof P]: Gradients<P[K]> };

/** Options of {@link grad} and {@link valueAndGrad}. */
export interface GradOptions {
  /** Whether the function returns `[value, aux]`, of which only the value is differentiated. */
  readonly aux?: boolean | undefined;
}

/** A function of a tree of tensors and other arguments. */
export type Differentiable<P, R extends readonly unknown[], Y> = (params: P, ...rest: R) => Y;

/** A run of a function on a tape. */
interface Run<Y> {
  readonly tape: Tape;
  readonly tree: Tree;
  readonly ids: readonly number[];
  readonly result: Y;
}

function checkFunction(name: string, f: unknown): void {
  if (typeof f === "function") return;
  throw new ArgumentError(`Cannot ${name} ${describe(f)}: it is a function`);
}

/** Runs `f` on handles of its own of the tensors of `params`. */
function recorded<P, R extends readonly unknown[], Y>(
  name: string,
  f: Differentiable<P, R, Y>,
  params: P,
  rest: R,
): Run<Y> {
  const tree = treeOf(name, params);
  const tape = new Tape();
  try {
    const [result, ids] = scope(() => {
      const own = tree.leaves.map((x) => tape.argument(x));
      const given = tree.map((_, i) => own[i]!.handle);
      return [tape.record(() => f(given as P, ...rest)), own.map(({ id }) => id)] as const;
    });
    tape.release(reachable(result, isOperandArgument));
    return { tape, tree, ids, result };
  } catch (error) {
    tape.dispose();
    throw error;
  }
}

/** The derivatives of a run by its tree, given that by its result. */
function gradientsOf<Y>(
  { tape, tree, ids }: Run<Y>,
  from: readonly (readonly [number, Operand])[],
  isLast: boolean,
): unknown {
  const outside = [...tree.leaves, ...from.map(([, x]) => x)];
  const made = tape.backward(from, ids, isLast);
  const own = ownMemory(tree.leaves.map((x, i) => made[i] ?? zeros(x.layout.shape, x)), outside);
  return tree.map((_, i) => own[i]);
}

/**
 * Derivatives that can be written, each without a change of another one: rules give views of one value,
 * and numbers that are repeated.
 */
function ownMemory(made: readonly Operand[], outside: readonly Operand[]): Operand[] {
  const others = new Set(outside.map(({ storage }) => storage));
  const counts = new Map<Storage, number>();
  for (const { storage } of made) counts.set(storage, (counts.get(storage) ?? 0) + 1);
  const parts = new Map<Storage, (readonly [low: number, high: number])[]>();
  return made.map((x) => {
    const { storage, layout, flags } = x;
    const [low, high] = layout.extent();
    const taken = parts.get(storage) ?? [];
    const isOwn = !layout.overlapsItself && (flags & READ_ONLY) === 0 && !others.has(storage) &&
      // Traces do not count handles.
      (frame !== null || storage.handles <= counts.get(storage)!) &&
      taken.every(([from, to]) => high < from || to < low);
    if (isOwn) {
      parts.set(storage, [...taken, [low, high]]);
      return x;
    }
    const copy = contiguousCopy(x);
    disposeOf(x);
    return copy;
  });
}

/** The value that a function returned, which is a float without axes. */
function checkValue(name: string, value: unknown): asserts value is Operand {
  if (!isOperandArgument(value)) {
    throw new ArgumentError(
      `Cannot ${name}: the function returned ${describe(value)}; it returns a tensor of shape []`,
    );
  }
  const { layout: { shape }, storage: { info } } = value;
  if (shape.length > 0 || info.kind !== "f") {
    throw new ShapeError(
      `Cannot ${name}: the function returned ${info.name} of shape ${
        formatShape(shape)
      }; it returns a float of shape [], such as a mean`,
    );
  }
}

/**
 * Returns a function that returns the value of `f` and the derivatives by the tensors of its first
 * argument: a tensor, or tensors in arrays and objects.
 *
 * `f` runs once, by ordinary ops, on handles of its own: it consumes nothing, and may use `if`, loops,
 * `scope` and `using`. Derivatives can be taken of derivatives, and inside of `compile`.
 *
 * @returns `[value, gradients]`, or `[value, gradients, aux]` with `aux`.
 * @throws {DerivativeError} For an op without a derivative, a read of values, a write to an argument or
 *   to what the derivative needs, and a function that uses none of the tensors that it gets.
 * @throws {ShapeError} If the value has axes.
 *
 * @example
 * ```ts
 * const params = { w: tensor([1, 2]), b: tensor(0.5) };
 * const loss = (p: typeof params, x: Tensor) => x.mul(p.w).sum().add(p.b);
 * const [value, gradients] = valueAndGrad(loss)(params, tensor([3, 4]));
 * value.item(); // => 11.5
 * gradients.w.toArray(); // => [3, 4]
 * ```
 */
export function valueAndGrad<P, R extends readonly unknown[], Y extends AnyTensor>(
  f: Differentiable<P, R, Y>,
  options?: GradOptions & { readonly aux?: false | undefined },
): (params: P, ...rest: R) => [value: Y, gradients: Gradients<P>];
/** {@link valueAndGrad} of a function that returns `[value, aux]`. */
export function valueAndGrad<P, R extends readonly unknown[], Y extends AnyTensor, A>(
  f: Differentiable<P, R, readonly [Y, A]>,
  options: { readonly aux: true },
): (params: P, ...rest: R) => [value: Y, gradients: Gradients<P>, aux: A];
export function valueAndGrad(
  f: (params: never, ...rest: never[]) => unknown,
  options: GradOptions = {},
): (params: unknown, ...rest: readonly unknown[]) => unknown {
  const both = withGradient(f, options);
  return (params, ...rest) => {
    const made = both(params, ...rest);
    return options.aux ? made : made.slice(0, 2);
  };
}

/** The value, the derivatives and what else the function returned. */
function withGradient(
  f: (params: never, ...rest: never[]) => unknown,
  options: GradOptions,
): (params: unknown, ...rest: readonly unknown[]) => [Operand, unknown, unknown] {
  const name = "differentiate";
  checkFunction(name, f);
  checkOptions(name, options, ["aux"]);
  const { aux = false } = options;
  // After an error, nothing that the function returned stays in memory.
  return (params, ...rest) =>
    scope(() => {
      const run = recorded(
        name,
        f as Differentiable<unknown, readonly unknown[], unknown>,
        params,
        rest,
      );
      try {
        const given = run.result;
        if (aux && (!Array.isArray(given) || given.length !== 2)) {
          throw new ArgumentError(`Cannot ${name} with aux: the function returns [value, aux]`);
        }
        const value: unknown = aux ? (given as unknown[])[0] : given;
        checkValue(name, value);
        const id = run.tape.idOf(value);
        if (!run.tape.isUsed) {
          throw new DerivativeError(
            `Cannot ${name}: the function uses no tensor of argument 0; use those that it gets, not ` +
              "tensors from outside",
          );
        }
        const { storage } = value;
        const one = fullOperand("ones", [], 1, storage.info.name, storage.device);
        // A value that is constant in the arguments has the derivative 0.
        const gradients = gradientsOf(run, id < 0 ? [] : [[id, one]], true);
        return [value, gradients, aux ? (given as unknown[])[1] : undefined];
      } finally {
        run.tape.dispose();
      }
    });
}

/**
 * Returns a function that returns the derivatives of `f` by the tensors of its first argument, in its
 * structure; see {@link valueAndGrad}. With `aux` it returns `[gradients, aux]`.
 *
 * @example
 * ```ts
 * const cube = (x: Tensor) => x.pow(3).sum();
 * grad(cube)(tensor([1, 2])).toArray(); // => [3, 12]
 * const second = grad((x: Tensor) => grad(cube)(x).sum());
 * second(tensor([1, 2])).toArray(); // => [6, 12]
 * ```
 */
export function grad<P, R extends readonly unknown[], Y extends AnyTensor>(
  f: Differentiable<P, R, Y>,
  options?: GradOptions & { readonly aux?: false | undefined },
): (params: P, ...rest: R) => Gradients<P>;
/** {@link grad} of a function that returns `[value, aux]`. */
export function grad<P, R extends readonly unknown[], Y extends AnyTensor, A>(
  f: Differentiable<P, R, readonly [Y, A]>,
  options: { readonly aux: true },
): (params: P, ...rest: R) => [gradients: Gradients<P>, aux: A];
export function grad(
  f: (params: never, ...rest: never[]) => unknown,
  options: GradOptions = {},
): (params: unknown, ...rest: readonly unknown[]) => unknown {
  const both = withGradient(f, options);
  return (params, ...rest) => {
    const [value, gradients, aux] = both(params, ...rest);
    disposeOf(value);
    return options.aux ? [gradients, aux] : gradients;
  };
}

/** The value of a function, and the way back from it: see {@link vjp}. */
export interface Pullback<P, Y> extends Disposable {
  /** What the function returned: a tensor, or tensors in arrays and objects. */
  readonly value: Y;
  /** The derivatives by the first argument, given those by the value, in its structure. */
  pullback(gradients: Gradients<Y>): Gradients<P>;
  /** Frees what the way back needs; the value stays. */
  dispose(): void;
}

/**
 * Runs `f`, and returns its value and a function that multiplies a vector by the Jacobian of `f`: from
 * derivatives by the value to those by the tensors of the first argument. The function can be called
 * several times, until `dispose`.
 *
 * @throws {DerivativeError} As {@link valueAndGrad}.
 *
 * @example
 * ```ts
 * using run = vjp((x: Tensor) => x.mul(x), tensor([1, 2]));
 * run.value.toArray(); // => [1, 4]
 * run.pullback(tensor([1, 10])).toArray(); // => [2, 40]
 * ```
 */
export function vjp<P, R extends readonly unknown[], Y>(
  f: Differentiable<P, R, Y>,
  params: P,
  ...rest: R
): Pullback<P, Y> {
  const name = "differentiate";
  checkFunction(name, f);
  const [run, results] = scope(() => {
    const run = recorded(name, f, params, rest);
    try {
      return [run, treeOf(name, run.result)] as const;
    } catch (error) {
      run.tape.dispose();
      throw error;
    }
  });
  const ids = results.leaves.map((x) => run.tape.idOf(x));
  // The program may dispose of the value before.
  const specs = results.leaves.map(({ layout: { shape }, storage: { info } }) => ({ shape, info }));
  let disposed = false;
  const dispose = (): void => {
    disposed = true;
    run.tape.dispose();
  };
  return {
    value: run.result,
    pullback(gradients) {
      if (disposed) throw new DisposedError("Cannot pull back: the run was disposed");
      return scope(() => {
        const given = treeOf(name, gradients);
        if (given.leaves.length !== results.leaves.length) {
          throw new ArgumentError(
            `Cannot ${name}: ${given.leaves.length} derivatives are given for ${results.leaves.length} values`,
          );
        }
        const from = inOrderOf(name, given, results).flatMap((x, i) => {
          const { shape, info } = specs[i]!;
          if (!sameShape(x.layout.shape, shape) || x.storage.info !== info) {
            throw new ShapeError(
              `Cannot ${name}: derivative ${i} is ${x.storage.info.name} of shape ${
                formatShape(x.layout.shape)
              }, and the value ${info.name} of shape ${formatShape(shape)}`,
            );
          }
          return ids[i]! < 0 ? [] : [[ids[i]!, applyView(VIEWS.view, x, "view")] as const];
        });
        return gradientsOf(run, from, false) as Gradients<P>;
      });
    },
    dispose,
    [Symbol.dispose]: dispose,
  };
}

/**
 * Returns the same tensors, by other handles, as constants for derivatives.
 *
 * @example
 * ```ts
 * grad((x: Tensor) => x.mul(stopGradient(x)).sum())(tensor([3])).toArray(); // => [3]
 * ```
 */
export function stopGradient<P>(x: P): P {
  const tree = treeOf("stop the gradient", x);
  return tree.map(({ storage, layout, flags }) => wrap(storage, layout, flags | CONSTANT)) as P;
}

/**
 * Returns a function with the results of `f` that keeps nothing but its arguments for derivatives: the
 * way back runs `f` again. It takes time for memory.
 *
 * Tensors are found in arguments that are trees of tensors; other arguments are as they are. `f` may use
 * constants from outside, which stay in memory for the second run, and returns tensors, alone or in arrays
 * and objects, which may have other values too.
 *
 * @throws {ArgumentError} If `f` returns no tensor.
 * @throws {DerivativeError} If `f` uses a tensor that has a derivative and is no argument, or a constant
 *   that is written before the second run.
 *
 * @example
 * ```ts
 * const block = checkpoint((x: Tensor) => x.sin().exp());
 * grad((x: Tensor) => block(x).sum())(tensor([0])).toArray(); // => [1]
 * ```
 */
export function checkpoint<A extends readonly unknown[], Y>(
  f: (...args: A) => Y,
): (...args: A) => Y {
  checkFunction("checkpoint", f);
  return (...args) => {
    if (!isTaped()) return f(...args);
    const trees = args.map((arg) => looseTree(arg));
    const leaves = trees.flatMap((tree) => tree.leaves);
    let shape: Tree | undefined;
    const flat = (inputs: readonly Operand[]): readonly Operand[] => {
      let at = 0;
      const own: readonly unknown[] = trees.map((tree) => {
        const from = at;
        at += tree.leaves.length;
        return tree.map((_, i) => inputs[from + i]);
      });
      const made: unknown = f(...own as A);
      shape = looseTree(made, () => true);
      if (shape.leaves.length > 0) return shape.leaves;
      throw new ArgumentError(
        `Cannot checkpoint: the function returned ${describe(made)}; it returns tensors`,
      );
    };
    const results = dispatchAll(CHECKPOINT, leaves, { f: flat });
    return shape!.map((_, i) => results[i]) as Y;
  };
}
