/**
 * Values that are combined into the elements at indices along an axis.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { DTypeError } from "../../base/errors.ts";
import { broadcastAll, normalizeAxis } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { empty } from "../../core/composite.ts";
import { cast, contiguousCopy, writeValue } from "../../core/copy.ts";
import { run } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand } from "../../table/infer.ts";
import { Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { alongAxis, checkAlong, checkFound, withIndices } from "./selection.ts";
import { flat, onHost, widened } from "../sets/op.ts";

/** How values are combined. */
export type ScatterReduction = "sum" | "prod" | "max" | "min" | "mean";

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
