/**
 * What is done to derivatives before an update: clipping, and sums of several batches.
 *
 * @module
 */
import { DTYPE, realOf } from "../base/dtype.ts";
import { ArgumentError, DTypeError } from "../base/errors.ts";
import { describe } from "../base/text.ts";
import { apply, applyInto } from "../core/apply.ts";
import { tidy } from "../core/handles.ts";
import { add, castTo, div, mul } from "../grad/tape/arithmetic.ts";
import { inOrderOf, treeOf } from "../grad/trees.ts";
import { reduce } from "../ops/reduce/op.ts";
import { MAP, REDUCE } from "../table/table.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { checkBelongs, checkNumberInput, checkTargets, named } from "./checks.ts";

function checkMost(name: string, most: unknown): void {
  if (typeof most === "number" && most > 0) return;
  throw new ArgumentError(`Cannot ${name} to ${describe(most)}: it is a number above 0`);
}

/**
 * Scales derivatives in place so that the root of the sum of all squares is at most `most`; returns that
 * norm before, float32 of shape [].
 *
 * @throws {ReadOnlyError} For a derivative that cannot be written. Nothing has changed then.
 * @throws {ArgumentError} For a limit that is no number above 0, and derivatives that share memory.
 *
 * @example
 * ```ts
 * const gradients = { w: tensor([3, 4]) };
 * optim.clipByNorm(gradients, 1).item(); // => 5
 * gradients.w.toArray().map((x) => Math.round(x * 10)); // => [6, 8]
 * ```
 */
export function clipByNorm(gradients: unknown, most: number): Tensor {
  const name = "clip by norm";
  checkMost(name, most);
  const tree = treeOf(name, gradients);
  const { leaves } = tree;
  checkTargets(name, named("derivative", tree, leaves));
  // Numbers of 64 bits have norms that float32 does not, and those of 16 bits norms that they do not.
  const isLong = leaves.some(({ storage: { info } }) => realOf(info).bytes === 8);
  const wide = isLong ? DTYPE.float64 : DTYPE.float32;
  return tidy(() => {
    const norms = leaves.map((x) => {
      const own = x.storage.info.bytes === 2 ? castTo(x, wide) : x;
      return castTo(reduce(REDUCE.norm2, own, null), wide);
    });
    const norm = norms.reduce((a, b) => apply(MAP.hypot, a, b));
    const factor = apply(MAP.minimum, div(most, add(norm, 1e-6)), 1);
    for (const x of leaves) {
      const { info } = x.storage;
      applyInto(MAP.mul, "clip", x, info.bytes === 2 ? factor : castTo(factor, info), undefined, x);
    }
    return castTo(norm, DTYPE.float32) as Tensor;
  });
}

/**
 * Limits each derivative in place to −most … most.
 *
 * @throws {DTypeError} For complex derivatives. Nothing has changed then.
 * @throws As {@link clipByNorm}.
 *
 * @example
 * ```ts
 * const gradients = [tensor([3, -0.5])];
 * optim.clipByValue(gradients, 1);
 * gradients[0]!.toArray(); // => [1, -0.5]
 * ```
 */
export function clipByValue(gradients: unknown, most: number): void {
  const name = "clip by value";
  checkMost(name, most);
  const tree = treeOf(name, gradients);
  const all = named("derivative", tree, tree.leaves);
  for (const { what, x: { storage: { info } } } of all) {
    if (info.kind !== "c") continue;
    throw new DTypeError(
      `Cannot ${name} ${what} of ${info.name}: complex numbers have no order; use clipByNorm()`,
    );
  }
  checkTargets(name, all);
  for (const { x } of all) {
    applyInto(MAP.clip, "clip", x, -most, most, x);
  }
}

/**
 * Adds derivatives, times `scale`, to sums in place: those of several batches for one update.
 *
 * @throws {ShapeError} For derivatives of other shapes. Nothing has changed then.
 * @throws {DTypeError} For complex derivatives and real sums.
 * @throws {ReadOnlyError} For a sum that cannot be written.
 * @throws {ArgumentError} For derivatives at other paths, a scale that is no number, and sums that share
 *   memory.
 *
 * @example
 * ```ts
 * const sums = [tensor([1, 1])];
 * optim.accumulate(sums, [tensor([2, 4])], 0.5);
 * sums[0]!.toArray(); // => [2, 3]
 * ```
 */
export function accumulate<G>(sums: G, gradients: G, scale = 1): void {
  const name = "accumulate";
  const [into, from] = [treeOf(name, sums), treeOf(name, gradients)];
  checkNumberInput(name, "scale", scale, -Infinity);
  const own = named("sum", into, into.leaves);
  const others = named("derivative", into, inOrderOf(name, from, into));
  own.forEach((one, i) => checkBelongs(name, one, others[i]!));
  checkTargets(name, own, others);
  tidy(() => {
    own.forEach(({ x }, i) => {
      const other = others[i]!.x;
      const more = scale === 1 ? other : mul(other, scale);
      applyInto(MAP.add, name, x, more, undefined, x);
    });
  });
}
