/**
 * Derivatives of reads and writes by indices, of joins, and of sorting.
 *
 * @module
 */
import { normalizeAxis } from "../../base/shape.ts";
import { apply } from "../../core/apply.ts";
import { toDevice } from "../../core/copy.ts";
import { dispatch, run } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import { SCATTER_REDUCE } from "../../ops/index/scatter_reduce.ts";
import { INDEX } from "../../ops/index/kernels.ts";
import { takeAlongAxis } from "../../ops/index/op.ts";
import { padPairs, type PadWidths } from "../../ops/manipulate/op.ts";
import { iota } from "../../ops/index/selection.ts";
import { ARGPARTITION } from "../../ops/sort/partition.ts";
import { sort as sorted } from "../../ops/sort/op.ts";
import { Call, type Op } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { castTo, matmul, narrow, reshape, select, sub, zeros } from "../tape/arithmetic.ts";
import { addRules, type Rule } from "../tape/rule.ts";

/** `values` added at `indices` of zeros of `shape`, along an axis that the indices' axes replace. */
function scattered(
  shape: readonly number[],
  values: Operand,
  indices: Operand,
  axis: number,
  op: Op = INDEX.scatterAdd,
): Operand {
  const whole = zeros(shape, values);
  run(new Call(op, "add", [whole, values, indices], { axis }));
  return whole;
}

/** `values` added at `indices` of zeros of `shape`, as `takeAlongAxis` reads them. */
export const scatteredAlong = (
  shape: readonly number[],
  values: Operand,
  indices: Operand,
  axis: number,
): Operand =>
  dispatch(SCATTER_REDUCE, [zeros(shape, values), indices, values], {
    axis,
    reduce: "sum",
    includeSelf: true,
  });

const gather: Rule = ({ call, inputs, keep }) => {
  const { axis } = call.attributes, { shape } = (inputs[0] as Operand).layout;
  const indices = keep(inputs[1] as Operand);
  return ([g]) => [scattered(shape, g!, indices(), axis)];
};

const gathered = (g: Operand, indices: Operand, axis: number): Operand =>
  dispatch(INDEX.gather, [g, indices], { axis });

const scatterAdd: Rule = ({ call, inputs, keep }) => {
  const indices = keep(inputs[2] as Operand), { axis } = call.attributes;
  return ([g]) => [g, gathered(g!, indices(), axis)];
};

/** Elements that are written over have no derivative. */
const scatter: Rule = ({ call, inputs, wants, keep }) => {
  const indices = keep(inputs[2] as Operand), { axis } = call.attributes;
  const { shape } = (inputs[1] as Operand).layout;
  return ([g]) => {
    const at = indices();
    if (!wants(0)) return [undefined, gathered(g!, at, axis)];
    const rest = apply(MAP.copy, g);
    run(new Call(INDEX.scatter, "set", [rest, zeros(shape, g!), at], { axis }));
    return [rest, gathered(g!, at, axis)];
  };
};

const takenAlong: Rule = ({ call, inputs, keep }) => {
  const [x, indices] = inputs as [Operand, Operand];
  const { shape } = x.layout;
  const axis = normalizeAxis(call.name, call.attributes.axis, shape.length);
  const at = keep(indices);
  return ([g]) => {
    // The other axes of the result are those of both.
    const whole = g!.layout.shape.with(axis, shape[axis]!);
    return [scatteredAlong(whole, g!, at(), axis)];
  };
};

const scatterReduce: Rule = ({ call, inputs, keep }) => {
  const indices = keep(inputs[1] as Operand), { axis } = call.attributes;
  return ([g]) => [g, undefined, takeAlongAxis(g!, indices(), axis)];
};

// ---- joins -------------------------------------------------------------------------------------

const concat: Rule = ({ call, inputs }) => {
  const parts = inputs as readonly Operand[];
  const { axis } = call.attributes;
  const sizes = parts.map(({ layout }) =>
    axis === null ? layout.size : layout.shape[normalizeAxis(call.name, axis, layout.rank)]!
  );
  return ([g]) => {
    let end = 0;
    return parts.map(({ layout }, k) => {
      const along = axis === null ? 0 : normalizeAxis(call.name, axis, layout.rank);
      const part = narrow(g!, along, end, sizes[k]!);
      end += sizes[k]!;
      return axis === null ? reshape(part, layout.shape) : part;
    });
  };
};

const stack: Rule = ({ call, inputs, outputs }) => {
  const axis = normalizeAxis(call.name, call.attributes.axis, outputs[0]!.layout.rank);
  return ([g]) => inputs.map((_, k) => select(g!, axis, k));
};

const padded: Rule = ({ call, inputs }) => {
  const { shape } = (inputs[0] as Operand).layout;
  const pairs = padPairs(call.attributes.widths as PadWidths, shape);
  return ([g]) => [
    shape.reduce((part, n, axis) => narrow(part, axis, pairs[axis]![0]!, n), g!),
  ];
};

// ---- sorting -----------------------------------------------------------------------------------

const sort: Rule = ({ call, inputs, keep }) => {
  const { axis, descending } = call.attributes;
  const order = keep(sorted("argsort", inputs[0] as Operand, axis, { descending }));
  return ([g]) => [takeAlongAxis(g!, sorted("argsort", order(), axis), axis)];
};

const topk: Rule = ({ call, inputs, outputs, keep }) => {
  const { shape } = (inputs[0] as Operand).layout;
  const axis = normalizeAxis(call.name, call.attributes.axis, shape.length);
  const at = keep(outputs[1]!);
  return ([g]) => [g && scatteredAlong(shape, g, at(), axis)];
};

/**
 * A quantile is a sum of two elements in order. Its shares are those of its place between their indices:
 * the quantile of 0, 1, 2, ….
 */
const quantilesOfRows: Rule = ({ call, inputs, keep }) => {
  const x = inputs[0] as Operand;
  const n = x.layout.shape.at(-1)!, count: number = call.attributes.q.length;
  const order = keep(sorted("argsort", x, -1, {}));
  const { info } = call.outputs[0]!.storage;
  const ramp = castTo(iota(x.storage, n), info);
  const places = dispatch(call.op, [reshape(ramp, [1, n])], call.attributes);
  const distance = apply(MAP.abs, sub(reshape(places, [count, 1]), ramp));
  const shares = keep(apply(MAP.maximum, sub(1, distance), 0));
  return ([g]) => {
    const byOrder = matmul(reshape(g!, [-1, count]), shares());
    const places = sorted("argsort", order(), -1, {});
    return [takeAlongAxis(reshape(byOrder, x.layout.shape), places, -1)];
  };
};

const ignoresNothing = (call: Call): boolean => call.attributes.ignoreNaN !== true;

/** The indices of a partition are those of the op that returns them. */
const partition: Rule = ({ call, inputs, keep }) => {
  const x = inputs[0] as Operand;
  const { shape } = x.layout;
  const axis = normalizeAxis(call.name, call.attributes.axis, shape.length);
  const at = keep(dispatch(ARGPARTITION, [x], call.attributes));
  return ([g]) => [scatteredAlong(shape, g!, at(), axis)];
};

const isSum = (call: Call): boolean => call.attributes.reduce === "sum";
const isConstantPad = (call: Call): boolean => call.attributes.mode === "constant";
const isAlongTensor = (call: Call): boolean => typeof call.inputs[1] === "object";

/** A move between devices. */
const moved: Rule = ({ inputs }) => {
  const { device } = (inputs[0] as Operand).storage;
  return ([g]) => [toDevice(g!, device)];
};

addRules({
  to: moved,
  gather,
  scatter,
  scatterAdd,
  takeAlongAxis: { rule: takenAlong, applies: isAlongTensor },
  scatterReduce: { rule: scatterReduce, applies: isSum },
  concat,
  stack,
  pad: { rule: padded, applies: isConstantPad },
  sort,
  topk,
  partition,
  quantilesOfRows: { rule: quantilesOfRows, applies: ignoresNothing },
});
