/**
 * The heads of attention as an axis of their own.
 *
 * @module
 */
import { ShapeError } from "../base/errors.ts";
import { formatShape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { applyView } from "../core/apply.ts";
import { ownOperand } from "../core/foreign.ts";
import { tidy } from "../core/handles.ts";
import type { Operand } from "../memory/operand.ts";
import { VIEWS } from "../table/views.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";

/** The shape of `splitHeads` of a tensor of shape `S`. */
export type SplitHeads<S extends readonly number[], H extends number> = S extends
  readonly [...infer B extends number[], infer N extends number, number] ? [...B, H, N, number]
  : number[];

/** The shape of `mergeHeads` of a tensor of shape `S`. */
export type MergeHeads<S extends readonly number[]> = S extends
  readonly [...infer B extends number[], number, infer N extends number, number] ? [...B, N, number]
  : number[];

/** The second and third axis from the end exchanged, as a view. */
function exchanged(x: Operand): Operand {
  const rank = x.layout.shape.length;
  return applyView(VIEWS.swapAxes, x, "swapAxes", rank - 3, rank - 2);
}

/**
 * [..., N, H · D] as [..., H, N, D], a view for {@link attention}.
 *
 * @throws {ShapeError} If the columns are no multiple of `heads`.
 *
 * @example
 * ```ts
 * nn.splitHeads(ones([1, 5, 12]), 3).shape; // => [1, 3, 5, 4]
 * ```
 */
export function splitHeads<X extends AnyTensor, const H extends number>(
  x: X,
  heads: H,
): Tensor<X["dtype"], SplitHeads<t.ShapeOf<X>, H>, X["device"]>;
export function splitHeads(x: AnyTensor, heads: number): Operand {
  const own = ownOperand(x, "splitHeads");
  const { shape } = own.layout;
  const columns = shape.at(-1) ?? 0;
  if (shape.length < 2 || !Number.isInteger(heads) || heads < 1 || columns % heads !== 0) {
    throw new ShapeError(
      `Cannot splitHeads shape ${formatShape(shape)} into ${describe(heads)}: it takes ` +
        `[..., N, H · D] and a number of heads that divides the last axis`,
    );
  }
  const split = [...shape.slice(0, -1), heads, columns / heads];
  return tidy(() => exchanged(applyView(VIEWS.reshape, own, "reshape", split)));
}

/**
 * [..., H, N, D], the result of {@link attention}, as [..., N, H · D].
 *
 * @throws {ShapeError} For fewer than 3 axes.
 *
 * @example
 * ```ts
 * nn.mergeHeads(ones([1, 3, 5, 4])).shape; // => [1, 5, 12]
 * ```
 */
export function mergeHeads<X extends AnyTensor>(
  x: X,
): Tensor<X["dtype"], MergeHeads<t.ShapeOf<X>>, X["device"]>;
export function mergeHeads(x: AnyTensor): Operand {
  const own = ownOperand(x, "mergeHeads");
  const { shape } = own.layout;
  if (shape.length < 3) {
    throw new ShapeError(
      `Cannot mergeHeads shape ${formatShape(shape)}: it takes [..., H, N, D]`,
    );
  }
  const [heads, n, columns] = shape.slice(-3) as [number, number, number];
  const merged = [...shape.slice(0, -3), n, heads * columns];
  return tidy(() => applyView(VIEWS.reshape, exchanged(own), "reshape", merged));
}
