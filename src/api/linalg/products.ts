/**
 * Products and views of matrices, under the names of the array API's extension.
 *
 * @module
 */
import { ShapeError } from "../../base/errors.ts";
import { formatShape, listOf } from "../../base/shape.ts";
import { applyView } from "../../core/apply.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkOptions } from "../../table/infer.ts";
import { VIEWS } from "../../table/views.ts";
import * as products from "../../ops/matmul/op.ts";
import { trace as sumDiagonal } from "../../ops/einsum/op.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";

/** `a.matmul(b)`: [..., M, K] times [..., K, N]. */
export function matmul<X extends AnyTensor, U extends AnyTensor>(
  a: X,
  b: t.Guard<t.ProductOf<"matmul", X, U, t.MatMul<t.ShapeOf<X>, t.ShapeOf<U>>, never>, U>,
): Tensor<t.OperandDType<"matmul", X, U>, t.Ok<t.MatMul<t.ShapeOf<X>, t.ShapeOf<U>>>, X["device"]>;
/** The implementation. @ignore */
export function matmul(a: AnyTensor, b: AnyTensor): Operand {
  return products.matmul(a as Operand, b as Operand);
}

/** `a.outer(b)`: vectors [M] and [N] give [M, N]. */
export function outer<X extends AnyTensor, U extends AnyTensor>(
  a: X,
  b: t.Guard<t.ProductOf<"outer", X, U, t.Outer<t.ShapeOf<X>, t.ShapeOf<U>>>, U>,
): Tensor<t.OperandDType<"outer", X, U>, t.Ok<t.Outer<t.ShapeOf<X>, t.ShapeOf<U>>>, X["device"]>;
/** The implementation. @ignore */
export function outer(a: AnyTensor, b: AnyTensor): Operand {
  return products.outer(a as Operand, b as Operand);
}

/** `x.mT`: the last two axes exchanged, a view. */
export function matrixTranspose<X extends AnyTensor>(x: X): X["mT"];
/** The implementation. @ignore */
export function matrixTranspose(x: AnyTensor): Operand {
  return applyView(VIEWS.mT, ownOperand(x, "matrixTranspose"), "matrixTranspose");
}

/**
 * The diagonals of matrices [..., M, N] as a view; `offset` is above the main one, or below it if
 * negative.
 */
export function diagonal<X extends AnyTensor>(
  x: t.Guard<t.Diagonal<t.ShapeOf<X>, -2, -1>, X>,
  options?: { readonly offset?: number },
): Tensor<X["dtype"], t.Ok<t.Diagonal<t.ShapeOf<X>, -2, -1>>, X["device"], X["access"]>;
/** The implementation. @ignore */
export function diagonal(x: AnyTensor, options: { readonly offset?: number } = {}): Operand {
  checkOptions("diagonal", options, ["offset"]);
  const { offset = 0 } = options;
  return applyView(VIEWS.diagonal, ownOperand(x, "diagonal"), "diagonal", offset, -2, -1);
}

/** The costs of products in their best order, and where each is cut. */
function bestOrder(sizes: readonly number[]): number[][] {
  const n = sizes.length - 1;
  const costs = Array.from({ length: n }, () => new Array<number>(n).fill(0));
  const cuts = Array.from({ length: n }, () => new Array<number>(n).fill(0));
  for (let length = 1; length < n; length++) {
    for (let i = 0; i + length < n; i++) {
      const j = i + length;
      costs[i]![j] = Infinity;
      for (let k = i; k < j; k++) {
        const cost = costs[i]![k]! + costs[k + 1]![j]! + sizes[i]! * sizes[k + 1]! * sizes[j + 1]!;
        if (cost < costs[i]![j]!) {
          costs[i]![j] = cost;
          cuts[i]![j] = k;
        }
      }
    }
  }
  return cuts;
}

/**
 * The product of at least two matrices in the order that takes the fewest multiplications. The first
 * and the last may be vectors.
 *
 * @example
 * ```ts
 * linalg.multiDot([ones([2, 9]), ones([9, 1]), ones([1, 3])]).toArray(); // => [[9, 9, 9], [9, 9, 9]]
 * ```
 */
export function multiDot<const Ts extends readonly AnyTensor[]>(
  tensors: Ts,
): Tensor<t.OkDType<t.PromoteAll<Ts>>, t.MultiDot<t.ShapesOf<Ts>>, Ts[number]["device"]>;
/** The implementation. @ignore */
export function multiDot(tensors: readonly AnyTensor[]): Operand {
  const all = listOf<Operand>(tensors, (x) => ownOperand(x, "multiDot"));
  const shapes = all.map(({ layout }) => layout.shape);
  const last = all.length - 1;
  const fits = shapes.every((shape, i) =>
    shape.length === 2 || (shape.length === 1 && (i === 0 || i === last))
  );
  if (last < 1 || !fits) {
    throw new ShapeError(
      `Cannot multiDot shapes ${
        shapes.map((shape) => formatShape(shape)).join(", ")
      }: it takes two ` +
        "or more matrices; the first and last may be vectors",
    );
  }
  const sizes = shapes.map((shape, i) => shape.length === 2 || i > 0 ? shape[0]! : 1);
  sizes.push(shapes[last]!.length === 2 ? shapes[last]![1]! : 1);
  const cuts = bestOrder(sizes);
  const join = (i: number, j: number): Operand =>
    i === j
      ? all[i]!
      : products.matmul(join(i, cuts[i]![j]!), join(cuts[i]![j]! + 1, j), undefined, "multiDot");
  return tidy(() => join(0, last));
}

/** The sums of the diagonals of matrices [..., M, N]: [...]. Sums of integers are int64. */
export function trace<X extends AnyTensor>(
  x: t.Guard<t.Trace<t.ShapeOf<X>, -2, -1>, X>,
  options?: { readonly offset?: number },
): Tensor<t.ResultDType<"sum", X["dtype"]>, t.Batch<t.ShapeOf<X>>, X["device"]>;
/** The implementation. @ignore */
export function trace(x: AnyTensor, options: { readonly offset?: number } = {}): Operand {
  checkOptions("trace", options, ["offset"]);
  const { offset = 0 } = options;
  return sumDiagonal(ownOperand(x, "trace"), { offset, axis1: -2, axis2: -1 });
}

export { cross, kron, tensordot, vecdot } from "../sets/contractions.ts";
