/**
 * Derivatives of reads and writes by indices, of joins, and of sorting.
 *
 * @module
 */
import { broadcastAll, normalizeAxis, sameShape } from "../../base/shape.ts";
import { apply } from "../../core/apply.ts";
import { contiguousCopy, toDevice } from "../../core/copy.ts";
import { dispatch, run } from "../../core/dispatch.ts";
import { isOperandArgument, type Operand } from "../../memory/operand.ts";
import { SCATTER_REDUCE } from "../../ops/index/scatter_reduce.ts";
import { INDEX } from "../../ops/index/kernels.ts";
import { index, takeAlongAxis } from "../../ops/index/op.ts";
import { putAlongAxis, setAt } from "../../ops/index/put.ts";
import { padPairs, type PadWidths } from "../../ops/manipulate/op.ts";
import { argumentsOf, type IndexArgument, iota, toIndices } from "../../ops/index/selection.ts";
import { reduce } from "../../ops/reduce/op.ts";
import { ARGPARTITION } from "../../ops/sort/partition.ts";
import { sort as sorted } from "../../ops/sort/op.ts";
import { Call, type Op } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import {
  add,
  castTo,
  div,
  equal,
  matmul,
  mul,
  narrow,
  reshape,
  select,
  sub,
  where,
  zeros,
} from "../tape/arithmetic.ts";
import { addRules, type Gradient, type Performed, type Rule } from "../tape/rule.ts";

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
export function scatteredAlong(
  shape: readonly number[],
  values: Operand,
  indices: Operand,
  axis: number,
): Operand {
  const along = normalizeAxis("takeAlongAxis", axis, shape.length);
  const { info } = indices.storage;
  const isOne = values.layout.shape[along] === 1 && info.bytes < 8 &&
    values.storage.info.kind === "f" &&
    sameShape(values.layout.shape, shape.map((n, k) => k === along ? 1 : n));
  if (!isOne) {
    const attributes = { axis, reduce: "sum", includeSelf: true };
    return dispatch(SCATTER_REDUCE, [zeros(shape, values), indices, values], attributes);
  }
  // One element of each row: a step of a chain, which needs no memory of its own.
  const n = shape[along]!;
  const places = reshape(iota(values.storage, n), shape.map((_, k) => k === along ? n : 1));
  const at = apply(MAP.where, apply(MAP.less, indices, 0), apply(MAP.add, indices, n), indices);
  return apply(MAP.where, apply(MAP.equal, places, at), values, 0);
}

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

/** Indices as kernels take them. */
const dense = (x: Operand): Operand => x.layout.contiguous ? x : contiguousCopy(x);

/**
 * Reads at the indices of a program have rules of their own, not only their kernels: in programs, the whole op
 * finds an index that is out of range.
 */
const taken: Rule = ({ call, inputs, keep }) => {
  const x = inputs[0] as Operand, { shape } = x.layout;
  const axis = normalizeAxis(call.name, call.attributes.axis, shape.length);
  const given = inputs[1] as Operand | undefined ?? call.attributes.indices;
  const at = keep(toIndices(call.name, x.storage, given));
  return ([g]) => [scattered(shape, g!, dense(at()), axis)];
};

const embedded: Rule = ({ inputs, keep }) => {
  const at = keep(inputs[0] as Operand), { shape } = (inputs[1] as Operand).layout;
  return ([g]) => [undefined, scattered(shape, g!, dense(at()), 0)];
};

/** The arguments of an index, with tensors as they were. */
function keptIndex({ call, keep }: Performed, from: number): () => IndexArgument[] {
  const args = argumentsOf(call, from).map((argument) =>
    isOperandArgument(argument) ? keep(argument) : () => argument
  );
  return () => args.map((argument) => argument());
}

const isMask = (argument: IndexArgument): boolean =>
  isOperandArgument(argument)
    ? argument.storage.info.kind === "b"
    : Array.isArray(argument) && typeof argument[0] === "boolean";

/** Whether an index has arrays or tensors of integers; parts of memory and masks are decomposed. */
const isByIndices = (from: number) => (call: Call): boolean => {
  const args = argumentsOf(call, from);
  return args.some((one) => isOperandArgument(one) || Array.isArray(one)) && !args.some(isMask);
};

const indexed: Rule = (performed) => {
  const { shape } = (performed.inputs[0] as Operand).layout;
  const args = keptIndex(performed, 1);
  return ([g]) => {
    const whole = zeros(shape, g!);
    setAt(whole, args(), g!, { accumulate: true });
    return [whole];
  };
};

/** A write: the derivative by the target is 0 where it is written, and by the value that there. */
const written = (
  accumulate: boolean,
  wants: Performed["wants"],
  g: Operand,
  clear: (copy: Operand) => void,
): Gradient => {
  if (accumulate || !wants(0)) return accumulate ? g : undefined;
  const rest = apply(MAP.copy, g);
  clear(rest);
  return rest;
};

const set: Rule = (performed) => {
  const { call: { attributes }, wants } = performed;
  const args = keptIndex(performed, 2);
  return ([g]) => [
    written(attributes.accumulate, wants, g!, (copy) => setAt(copy, args(), 0)),
    wants(1) ? index(g!, args()) : undefined,
  ];
};

const putAlong: Rule = ({ call, inputs, keep, wants }) => {
  const x = inputs[0] as Operand, { axis, accumulate } = call.attributes;
  const given = inputs[1] as Operand | undefined ?? call.attributes.indices;
  const at = keep(toIndices(call.name, x.storage, given));
  return ([g]) => [
    written(accumulate, wants, g!, (copy) => putAlongAxis(copy, at(), 0, axis)),
    undefined,
    wants(2) ? takeAlongAxis(g!, at(), axis) : undefined,
  ];
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

/**
 * Values that are combined into elements. `reached` tells the elements that no value reaches: they stay
 * as they are, whether elements count or not.
 */
const scatterReduce: Rule = ({ call, inputs, outputs, keep }) => {
  const [x, indices, values] = inputs as [Operand, Operand, Operand];
  const { axis, reduce: how, includeSelf } = call.attributes;
  const at = keep(indices);
  const needsValues = how !== "sum" && how !== "mean";
  const [own, others] = needsValues ? [keep(x), keep(values)] : [];
  const result = needsValues && how !== "prod" ? keep(outputs[0]!) : undefined;
  const single = x.layout.shape.with(normalizeAxis(call.name, axis, x.layout.rank), 1);
  const shape = broadcastAll(call.name, [single, indices.layout.shape]);
  return ([given]) => {
    const g = given!, index = at();
    const folded = (into: Operand, from: Operand, reduce: string, counts: boolean): Operand =>
      dispatch(SCATTER_REDUCE, [into, index, from], { axis, reduce, includeSelf: counts });
    const along = (of: Operand): Operand => takeAlongAxis(of, index, axis);
    const ones = (like: readonly number[]): Operand => sub(1, zeros(like, g));
    const counted = folded(zeros(x.layout.shape, g), ones(shape), "sum", true);
    const isLeft = equal(counted, 0);
    /** The derivative by the elements: that of their shares if they count. */
    const byElements = (share: Operand): Operand => includeSelf ? share : where(isLeft, g, 0);
    if (how === "sum") return [byElements(g), undefined, along(g)];
    if (how === "mean") {
      const share = div(g, includeSelf ? add(counted, 1) : where(isLeft, 1, counted));
      return [byElements(share), undefined, along(share)];
    }
    const [element, value] = [own!(), others!()];
    if (how === "prod") {
      // Zeros are counted: the product of the others of the only one is that of those that are not 0.
      const [isZero, isNone] = [equal(element, 0), equal(value, 0)];
      const product = folded(
        where(isZero, 1, element),
        where(isNone, 1, value),
        "prod",
        includeSelf,
      );
      const of = (test: Operand): Operand => castTo(test, g.storage.info);
      const empty = folded(of(isZero), of(isNone), "sum", includeSelf);
      const factor = (isOwn: Operand, divisor: Operand, all: Operand, number: Operand): Operand =>
        where(
          isOwn,
          where(equal(number, 1), all, 0),
          where(equal(number, 0), div(all, where(isOwn, 1, divisor)), 0),
        );
      return [
        byElements(mul(g, factor(isZero, element, product, empty))),
        undefined,
        mul(along(g), factor(isNone, value, along(product), along(empty))),
      ];
    }
    // The largest or smallest ones share the derivative, as those of a reduction.
    const extreme = result!();
    const isOwn = castTo(equal(element, extreme), g.storage.info);
    const isValue = castTo(equal(value, along(extreme)), g.storage.info);
    const share = div(g, apply(MAP.maximum, folded(isOwn, isValue, "sum", includeSelf), 1));
    return [byElements(mul(isOwn, share)), undefined, mul(isValue, along(share))];
  };
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
 * the quantile of 0, 1, 2, …, as many as there are numbers in the row if NaN does not count.
 */
const quantilesOfRows: Rule = ({ call, inputs, keep }) => {
  const x = inputs[0] as Operand;
  const { q: { length: count }, ignoreNaN } = call.attributes;
  const n = x.layout.shape.at(-1)!;
  const order = keep(sorted("argsort", x, -1, {}));
  const { info } = call.outputs[0]!.storage;
  let ramp = castTo(iota(x.storage, n), info);
  if (ignoreNaN) {
    const numbers = reduce(REDUCE.sum, castTo(equal(x, x), info), [-1], { keepDims: true });
    ramp = where(apply(MAP.less, ramp, reshape(numbers, [-1, 1])), ramp, NaN);
  }
  const rows = reshape(ramp, [-1, n]);
  const places = reshape(dispatch(call.op, [rows], call.attributes), [-1, count, 1]);
  const distance = apply(MAP.abs, sub(places, reshape(rows, [-1, 1, n])));
  // What is no number has no share.
  const shares = keep(where(apply(MAP.less, distance, 1), sub(1, distance), 0));
  return ([g]) => {
    const byOrder = matmul(reshape(g!, [-1, 1, count]), shares());
    const places = sorted("argsort", order(), -1, {});
    return [takeAlongAxis(reshape(byOrder, x.layout.shape), places, -1)];
  };
};

/** The indices of a partition are those of the op that returns them. */
const partition: Rule = ({ call, inputs, keep }) => {
  const x = inputs[0] as Operand;
  const { shape } = x.layout;
  const axis = normalizeAxis(call.name, call.attributes.axis, shape.length);
  const at = keep(dispatch(ARGPARTITION, [x], call.attributes));
  return ([g]) => [scatteredAlong(shape, g!, at(), axis)];
};

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
  take: taken,
  embedding: embedded,
  index: { rule: indexed, applies: isByIndices(1) },
  set: { rule: set, applies: isByIndices(2) },
  putAlongAxis_: putAlong,
  takeAlongAxis: { rule: takenAlong, applies: isAlongTensor },
  scatterReduce,
  concat,
  stack,
  pad: { rule: padded, applies: isConstantPad },
  sort,
  topk,
  partition,
  quantilesOfRows,
});
