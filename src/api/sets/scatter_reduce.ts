/**
 * Reductions of values into the elements at indices.
 *
 * @module
 */
import { ArgumentError } from "../../base/errors.ts";
import { describe } from "../../base/text.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkOptions, isScalar } from "../../table/infer.ts";
import { fromData } from "../../ops/create/from_data.ts";
import { SCATTER_REDUCE, type ScatterReduction } from "../../ops/index/scatter_reduce.ts";
import type { AnyTensor, Tensor, TensorOrScalar, UnaryOptions } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";

export type { ScatterReduction };

const REDUCTIONS: readonly ScatterReduction[] = ["sum", "prod", "max", "min", "mean"];

/** Options of {@link scatterReduce}. */
export interface ScatterReduceOptions extends UnaryOptions {
  /** The axis of the indices; 0 by default. */
  readonly axis?: number;
  /** Whether the elements of the tensor count too (default). */
  readonly includeSelf?: boolean;
}

/**
 * A copy of `x` in which `values` are combined with the elements that `takeAlongAxis(indices, axis)`
 * reads: summed, multiplied, their largest, smallest or mean. Elements without an index stay as they
 * are. Indices have the rank of `x`; their other axes broadcast, and so do values.
 *
 * With `includeSelf: false` the elements of `x` at indices do not count. Means take floats only. Values
 * are combined in their order, so that results do not depend on threads.
 *
 * @throws {IndexError} For an index out of range.
 * @throws {DTypeError} For values of another dtype.
 *
 * @example
 * ```ts
 * const at = tensor([0, 0, 2], { dtype: "int32" });
 * scatterReduce(ones([3]), at, tensor([5, 2, 3]), "max").toArray(); // => [5, 1, 3]
 * const means = scatterReduce(ones([3]), at, tensor([5, 2, 3]), "mean", { includeSelf: false });
 * means.toArray(); // => [3.5, 1, 3]
 * ```
 */
export function scatterReduce<X extends AnyTensor>(
  x: X,
  indices: AnyTensor,
  values: TensorOrScalar,
  reduce: ScatterReduction,
  options?: ScatterReduceOptions,
): Tensor<X["dtype"], t.ShapeOf<X>, X["device"]>;
export function scatterReduce(
  x: AnyTensor,
  indices: AnyTensor,
  values: TensorOrScalar,
  reduce: ScatterReduction,
  options: ScatterReduceOptions = {},
): Operand {
  const name = "scatterReduce";
  checkOptions(name, options, ["axis", "includeSelf", "out"]);
  if (!REDUCTIONS.includes(reduce)) {
    throw new ArgumentError(
      `Cannot ${name} by ${describe(reduce)}: it takes ${REDUCTIONS.join(", ")}`,
    );
  }
  const { axis = 0, includeSelf = true, out } = options;
  const own = ownOperand(x, name);
  return tidy(() => {
    const { info, device } = own.storage;
    const given = isScalar(values)
      ? fromData(values, { dtype: info.name, device: device as t.Device })
      : ownOperand(values, name);
    const inputs = [own, ownOperand(indices, name), given];
    return dispatch(SCATTER_REDUCE, inputs, { axis, reduce, includeSelf }, out);
  });
}
