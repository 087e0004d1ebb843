/**
 * Reductions of values into the elements at indices.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { ArgumentError, DTypeError } from "../../base/errors.ts";
import { describe } from "../../base/text.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast, contiguousCopy, writeValue } from "../../core/copy.ts";
import { dispatch, run } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand, checkOptions, isScalar } from "../../table/infer.ts";
import { Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { empty } from "../../core/composite.ts";
import { fromData } from "../../ops/create/from_data.ts";
import { alongAxis, checkAlong, checkFound, withIndices } from "../../ops/index/selection.ts";
import type { AnyTensor, Tensor, TensorOrScalar, UnaryOptions } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import { flat, onHost, widened } from "../../ops/sets/op.ts";
import { broadcastAll, normalizeAxis } from "../../base/shape.ts";

/** How values are combined. */
export type ScatterReduction = "sum" | "prod" | "max" | "min" | "mean";

const REDUCTIONS: readonly ScatterReduction[] = ["sum", "prod", "max", "min", "mean"];

/** Options of {@link scatterReduce}. */
export interface ScatterReduceOptions extends UnaryOptions {
  /** The axis of the indices; 0 by default. */
  readonly axis?: number;
  /** Whether the elements of the tensor count too (default). */
  readonly includeSelf?: boolean;
}

interface Attributes {
  readonly axis: number;
  readonly reduce: ScatterReduction;
  readonly includeSelf: boolean;
}

/** Folds values into the elements of a contiguous target; inputs: target, values, indices. */
const FOLD: Op = makeOp({
  kind: "kernel",
  name: "scatterFold",
  writes: [0],
  infer: () => [],
});

/** The shape of the values: that of `x`, with as many indices along the axis. */
function shapeOfValues(
  name: string,
  x: Operand,
  indices: Operand,
  axis: number,
): readonly number[] {
  const along = normalizeAxis(name, axis, x.layout.shape.length);
  return broadcastAll(name, [x.layout.shape.with(along, 1), indices.layout.shape]);
}

/** Folds `values` into the elements of `target`, which is contiguous. */
function fold(call: Call, target: Operand, values: Operand, reduce: string, keeps: boolean): void {
  const { name, attributes } = call;
  const axis = normalizeAxis(name, (attributes as Attributes).axis, target.layout.shape.length);
  const indices = call.operand(1);
  withIndices(name, target, alongAxis(target, axis, indices), (what) => {
    const line = flat(target);
    const inner = new Call(FOLD, name, [line, flat(values), what.indices], {
      reduce,
      includeSelf: keeps,
    });
    run(inner);
    checkFound(name, target.layout, what, inner.badIndex);
  });
}

/** The means of values, and of elements that count. */
function means(call: Call, x: Operand, values: Operand): Operand {
  const { includeSelf } = call.attributes as Attributes;
  const sums = contiguousCopy(x);
  fold(call, sums, values, "sum", includeSelf);
  const counts = empty(x.layout.shape, x, DTYPE.int32);
  writeValue(counts, includeSelf ? 1 : 0);
  const ones = empty(values.layout.shape, values, DTYPE.int32);
  writeValue(ones, 1);
  fold(call, counts, ones, "sum", true);
  const quotients = apply(MAP.div, sums, cast(counts, "float64"));
  return apply(MAP.where, apply(MAP.equal, counts, 0), x, cast(quotients, x.storage.info.name));
}

/** `x` with values combined into the elements at indices along an axis; inputs: x, indices, values. */
export const SCATTER_REDUCE: Op = makeOp({
  kind: "kernel",
  name: "scatterReduce",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, indices, values], name } = call;
    const { axis, reduce } = call.attributes as Attributes;
    checkOperand(x, name);
    checkOperand(values, name);
    checkAlong(call, indices as Operand);
    checkDevice(x.storage, values.storage, name);
    checkKind(x.storage.info, reduce === "mean" ? "f" : "iuf", name);
    if (values.storage.info !== x.storage.info) {
      throw new DTypeError(
        `Cannot ${name} ${values.storage.info.name} into ${x.storage.info.name}: cast with astype()`,
      );
    }
    const shape = shapeOfValues(name, x, indices as Operand, axis);
    values.layout.broadcastTo(shape);
    return call.result(x.layout.shape, x.storage.info);
  },
  decompose: (call: Call) =>
    onHost(call, ([x, indices, values]) => {
      const here = new Call(call.op, call.name, [x, indices, values], call.attributes);
      const { axis, reduce, includeSelf } = call.attributes as Attributes;
      const shape = shapeOfValues(call.name, x!, indices!, axis);
      // Sums, products and counts of 16-bit floats are rounded once, at the end.
      const target = reduce === "max" || reduce === "min" ? x! : widened(x!);
      const { name: dtype } = target.storage.info;
      const spread = applyView(VIEWS.broadcastTo, values!, "broadcastTo", shape);
      const all = contiguousCopy(spread, dtype);
      let made: Operand;
      if (reduce === "mean") made = means(here, target, all);
      else fold(here, made = contiguousCopy(target), all, reduce, includeSelf);
      return [cast(made, x!.storage.info.name)];
    })[0]!,
});

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
