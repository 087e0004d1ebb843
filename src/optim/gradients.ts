/**
 * What is done to derivatives before an update: clipping, and sums of several batches.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../base/errors.ts";
import { formatShape, sameShape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { applyInto } from "../core/apply.ts";
import { tidy } from "../core/handles.ts";
import { add, castTo, div, mul } from "../grad/tape/arithmetic.ts";
import { inOrderOf, treeOf } from "../grad/trees.ts";
import { reduce } from "../ops/reduce/op.ts";
import { MAP, REDUCE } from "../table/table.ts";
import { DTYPE } from "../base/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";

function checkMost(name: string, most: unknown): void {
  if (typeof most === "number" && most > 0) return;
  throw new ArgumentError(`Cannot ${name} to ${describe(most)}: it is a number above 0`);
}

/**
 * Scales derivatives in place so that the root of the sum of all squares is at most `most`; returns that
 * norm before, float32 of shape [].
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
  const { leaves } = treeOf(name, gradients);
  return tidy(() => {
    const squares = leaves.map((x) => {
      const norm = castTo(reduce(REDUCE.norm2, x, null), DTYPE.float32);
      return mul(norm, norm);
    });
    const norm = applyInto(
      MAP.sqrt,
      "sqrt",
      squares.reduce((a, b) => add(a, b)),
      undefined,
      undefined,
      undefined,
    );
    const factor = applyInto(
      MAP.minimum,
      "minimum",
      div(most, add(norm, 1e-6)),
      1,
      undefined,
      undefined,
    );
    for (const x of leaves) {
      applyInto(MAP.mul, "clip", x, castTo(factor, x.storage.info), undefined, x);
    }
    return norm as Tensor;
  });
}

/**
 * Limits each derivative in place to −most … most.
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
  for (const x of treeOf(name, gradients).leaves) {
    applyInto(MAP.clip, "clip", x, -most, most, x);
  }
}

/**
 * Adds derivatives, times `scale`, to sums in place: those of several batches for one update.
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
  const [own, others] = [into.leaves, inOrderOf(name, from, into)];
  own.forEach(({ layout: { shape } }, i) => {
    const other = others[i]!.layout.shape;
    if (sameShape(shape, other)) return;
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(other)} into ${into.paths[i]} of shape ${
        formatShape(shape)
      }`,
    );
  });
  tidy(() => {
    own.forEach((x, i) => {
      const more = scale === 1 ? others[i]! : mul(others[i]!, scale);
      applyInto(MAP.add, name, x, more, undefined, x);
    });
  });
}
