/**
 * Windows as a view.
 *
 * @module
 */
import { applyView } from "../core/apply.ts";
import { ownOperand } from "../core/foreign.ts";
import { VIEWS } from "../table/views.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import type { Operand } from "../memory/operand.ts";

/**
 * The windows of `size` elements along `axis`, each `step` after the one before, as a view with a
 * new last axis: [..., n, ...] gives [..., ⌊(n − size) / step⌋ + 1, ..., size]. It is `unfold` of
 * PyTorch's tensors.
 *
 * Windows that overlap share elements, so a program cannot write to the view.
 *
 * @throws {AxisError} For an axis that x does not have.
 * @throws {ShapeError} For a size that exceeds the axis.
 * @throws {ArgumentError} For a step below 1.
 *
 * @example
 * ```ts
 * nn.unfold(arange(5), 0, 3, 2).toArray(); // => [[0, 1, 2], [2, 3, 4]]
 * ```
 */
export function unfold<X extends AnyTensor>(
  x: X,
  axis: number,
  size: number,
  step: number,
): Tensor<X["dtype"], number[], X["device"], X["access"]>;
export function unfold(x: AnyTensor, axis: number, size: number, step: number): Operand {
  return applyView(VIEWS.unfold, ownOperand(x, "unfold"), "unfold", axis, size, step);
}
