/**
 * Derivatives of reductions and scans.
 *
 * @module
 */
import { normalizeAxes, normalizeAxis } from "../../base/shape.ts";
import { apply } from "../../core/apply.ts";
import { dispatch } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import { iota } from "../../ops/index/selection.ts";
import { nanVariance } from "../../ops/reduce/nan.ts";
import type { Call } from "../../table/op.ts";
import { MAP, REDUCE, SCAN } from "../../table/table.ts";
import {
  broadcastTo,
  castTo,
  conj,
  countOf,
  div,
  equal,
  exp,
  flip,
  keptAxes,
  mean,
  mul,
  narrow,
  reshape,
  sub,
  sum,
  where,
} from "../tape/arithmetic.ts";
import { scatteredAlong } from "./indexes.ts";
import { addRules, type Performed, type Rule } from "../tape/rule.ts";
import { pullBack } from "../tape/tape.ts";

/** The input of a reduction, and its axes. */
export function reducedAxes(performed: Performed): { x: Operand; axes: number[] } {
  const { call, inputs } = performed;
  const x = inputs[0] as Operand;
  const { rank } = x.layout;
  const axis: number | readonly number[] | null | undefined = call.attributes?.axis;
  const axes = axis === undefined || axis === null
    ? Array.from({ length: rank }, (_, k) => k)
    : normalizeAxes(call.name, axis, rank);
  return { x, axes };
}

/** A rule for reductions: `backward` gets the derivative with the axes as axes of size 1. */
function reduction(
  make: (
    performed: Performed,
    x: Operand,
    axes: readonly number[],
  ) => (g: Operand) => readonly (Operand | undefined)[],
): Rule {
  return (performed) => {
    const { x, axes } = reducedAxes(performed);
    const { shape } = x.layout;
    const backward = make(performed, x, axes);
    return ([g]) => backward(keptAxes(g!, shape, axes));
  };
}

const summed = reduction((_, x) => (g) => [broadcastTo(g, x.layout.shape)]);

const averaged = reduction((_, x, axes) => {
  const count = countOf(x.layout.shape, axes);
  return (g) => [broadcastTo(div(g, count), x.layout.shape)];
});

/** Elements that are equal to the result share the derivative, as in JAX and PyTorch's `amax`. */
const extreme = reduction(({ keep, outputs }, x, axes) => {
  const [value, result] = [keep(x), keep(outputs[0]!)];
  const { shape } = x.layout;
  return (g) => {
    const isNumber = equal(value(), keptAxes(result(), shape, axes));
    const share = castTo(isNumber, g.storage.info);
    return [mul(share, div(g, sum(share, axes, true)))];
  };
});

/** The product of the other elements: without division, which zeros do not allow. */
function othersAlong(x: Operand, axis: number): Operand {
  const n = x.layout.shape[axis]!;
  const before = dispatch(SCAN.cumulativeProd, [x], { axis, includeInitial: true });
  const after = flip(
    dispatch(SCAN.cumulativeProd, [flip(x, axis)], { axis, includeInitial: true }),
    axis,
  );
  return mul(narrow(before, axis, 0, n), narrow(after, axis, 1, n));
}

const multiplied = reduction(({ keep }, x, axes) => {
  const value = keep(x);
  return (g) => {
    // One axis after the other: the product of the others along it, times the products along the rest.
    let whole = value();
    let factor: Operand | undefined;
    for (const axis of axes) {
      const others = othersAlong(whole, axis);
      factor = factor === undefined ? others : mul(factor, others);
      whole = dispatch(REDUCE.prod, [whole], { axis: [axis], keepDims: true });
    }
    return [factor === undefined ? g : mul(g, conj(factor))];
  };
});

/** x minus its mean along axes. */
const centred = (x: Operand, axes: readonly number[]): Operand => sub(x, mean(x, axes));

/** The derivative by a root, by what is below it twice: 0 for roots of 0, as in PyTorch. */
const byRoot = (g: Operand, root: Operand, count: number): Operand =>
  where(equal(root, 0), 0, div(g, mul(root, count)));

/** The composites `var` and `std`; the rows of the table get the mean as a second input. */
const varied = (isRoot: boolean): Rule =>
  reduction(({ call, keep, outputs }, x, axes) => {
    const value = keep(x), root = isRoot ? keep(outputs[0]!) : undefined;
    const count = countOf(x.layout.shape, axes) - (call.attributes.correction ?? 0);
    const { shape } = x.layout;
    return (g) => {
      const scaled = root === undefined
        ? mul(g, 2 / count)
        : byRoot(g, keptAxes(root(), shape, axes), count);
      return [mul(centred(value(), axes), scaled)];
    };
  });

/** The rows `var` and `std`: means of squared differences from a second input. */
const squaredFrom = (isRoot: boolean): Rule =>
  reduction(({ keep, inputs, outputs, wants, call }, x, axes) => {
    const value = keep(x), from = keep(inputs[1] as Operand);
    const root = isRoot ? keep(outputs[0]!) : undefined;
    const { shape } = x.layout;
    const correction: number = call.attributes.correction ?? 0;
    const count = countOf(shape, axes) - correction;
    return (g) => {
      const scaled = root === undefined
        ? mul(g, 2 / count)
        : byRoot(g, keptAxes(root(), shape, axes), count);
      const each = mul(sub(value(), from()), scaled);
      return [each, wants(1) ? apply(MAP.neg, each) : undefined];
    };
  });

/** Standard deviations whose ops have no root of their own: by the variance, which is computed again. */
const rootOf =
  (variance: (inputs: readonly Operand[], call: Call) => Operand): Rule =>
  ({ call, inputs, outputs, keep, wants }) => {
    const kept = (inputs as readonly Operand[]).map((x) => keep(x)), root = keep(outputs[0]!);
    return ([g]) =>
      pullBack(
        (own) => [variance(own, call)],
        kept.map((x) => x()),
        [byRoot(g!, root(), 2)],
        wants,
      );
  };

const rooted = reduction(({ keep, outputs }, x, axes) => {
  const value = keep(x), result = keep(outputs[0]!);
  const { shape } = x.layout;
  return (g) => {
    const norm = keptAxes(result(), shape, axes);
    return [mul(value(), byRoot(g, norm, 1))];
  };
});

const absolute = reduction(({ keep }, x) => {
  const value = keep(x);
  return (g) => [mul(apply(MAP.sign, value()), g)];
});

const powered = reduction(({ call, keep, outputs }, x, axes) => {
  const value = keep(x), result = keep(outputs[0]!);
  const { shape } = x.layout, ord: number = call.attributes.ord;
  return (g) => {
    const size = apply(MAP.abs, value());
    const norm = keptAxes(result(), shape, axes);
    const share = apply(MAP.pow, div(size, norm), ord - 1);
    return [mul(mul(apply(MAP.sign, value()), where(equal(size, 0), 0, share)), g)];
  };
});

const extremeSize = reduction(({ keep, outputs }, x, axes) => {
  const value = keep(x), result = keep(outputs[0]!);
  const { shape } = x.layout;
  return (g) => {
    const size = apply(MAP.abs, value());
    const share = castTo(equal(size, keptAxes(result(), shape, axes)), g.storage.info);
    return [mul(mul(share, apply(MAP.sign, value())), div(g, sum(share, axes, true)))];
  };
});

/** log(sum(exp(x − y))): the shares of the elements; y has the negative ones. */
const logSumExp = reduction(({ keep, inputs, outputs, wants }, x, axes) => {
  const value = keep(x), shift = keep(inputs[1] as Operand), result = keep(outputs[0]!);
  const { shape } = x.layout;
  return (g) => {
    const share = exp(sub(sub(value(), shift()), keptAxes(result(), shape, axes)));
    const each = mul(share, g);
    return [each, wants(1) ? apply(MAP.neg, each) : undefined];
  };
});

/** The composite, whose second input is none. */
const logsumexp = reduction(({ keep, outputs }, x, axes) => {
  const value = keep(x), result = keep(outputs[0]!);
  const { shape } = x.layout;
  return (g) => [mul(exp(sub(value(), keptAxes(result(), shape, axes))), g)];
});

/** Elements that are numbers. */
const isNumber = (x: Operand): Operand => equal(x, x);

const nansum = reduction(({ keep }, x) => {
  const value = keep(x);
  return (g) => [where(isNumber(value()), g, 0)];
});

const nanSquares = reduction(({ keep, inputs, wants }, x) => {
  const value = keep(x), from = keep(inputs[1] as Operand);
  return (g) => {
    const x = value();
    const each = where(isNumber(x), mul(mul(sub(x, from()), 2), g), 0);
    return [each, wants(1) ? apply(MAP.neg, each) : undefined];
  };
});

const nanprod = reduction(({ keep }, x, axes) => {
  const value = keep(x);
  return (g) => {
    const given = value();
    let whole = where(isNumber(given), given, 1);
    let factor: Operand | undefined;
    for (const axis of axes) {
      const others = othersAlong(whole, axis);
      factor = factor === undefined ? others : mul(factor, others);
      whole = dispatch(REDUCE.prod, [whole], { axis: [axis], keepDims: true });
    }
    return [where(isNumber(given), factor === undefined ? g : mul(g, factor), 0)];
  };
});

// ---- scans -------------------------------------------------------------------------------------

function scanOf({ call, inputs }: Performed): { x: Operand; axis: number; skips: boolean } {
  const x = inputs[0] as Operand;
  const { axis, includeInitial } = call.attributes ?? {};
  return {
    x,
    axis: normalizeAxis(call.name, axis ?? 0, x.layout.rank),
    skips: includeInitial === true,
  };
}

/** The sums of the elements from each one on. */
const sumsFrom = (g: Operand, axis: number): Operand =>
  flip(dispatch(SCAN.cumulativeSum, [flip(g, axis)], { axis }), axis);

/** A derivative without that by the start value. */
const withoutFirst = (g: Operand, axis: number, n: number, skips: boolean): Operand =>
  skips ? narrow(g, axis, 1, n) : g;

const cumulativeSum: Rule = (performed) => {
  const { x, axis, skips } = scanOf(performed);
  const n = x.layout.shape[axis]!;
  return ([g]) => [sumsFrom(withoutFirst(g!, axis, n, skips), axis)];
};

/**
 * The derivative by an element is the sum of those by the results after it, times the other elements:
 * without division by the first zero, after which all derivatives are 0.
 */
const cumulativeProd: Rule = (performed) => {
  const { x, axis, skips } = scanOf(performed);
  const value = performed.keep(x);
  const n = x.layout.shape[axis]!;
  return ([given]) => {
    const g = withoutFirst(given!, axis, n, skips);
    const x = value();
    const isZero = equal(x, 0);
    const zeros = dispatch(SCAN.cumulativeSum, [isZero], { axis });
    const isFirst = apply(MAP.logicalAnd, isZero, equal(zeros, 1));
    const products = (of: Operand): Operand =>
      sumsFrom(mul(g, conj(dispatch(SCAN.cumulativeProd, [of], { axis }))), axis);
    const others = div(products(x), conj(where(isZero, 1, x)));
    const atFirst = products(where(isFirst, 1, x));
    return [where(equal(zeros, 0), others, where(isFirst, atFirst, 0))];
  };
};

/** Each result is an element before it: the last one of equal ones. */
const cumulativeExtreme: Rule = (performed) => {
  const { x, axis } = scanOf(performed);
  const { shape } = x.layout;
  const isHit = equal(x, performed.outputs[0]!);
  const places = reshape(iota(x.storage, shape[axis]!), shape.map((n, k) => k === axis ? n : 1));
  const at = dispatch(SCAN.cumulativeMax, [where(isHit, places, 0)], { axis });
  const kept = performed.keep(at);
  return ([g]) => [scatteredAlong(shape, g!, kept(), axis)];
};

addRules({
  cumulativeMax: cumulativeExtreme,
  cumulativeMin: cumulativeExtreme,
  sum: summed,
  mean: averaged,
  max: extreme,
  min: extreme,
  nanmax: extreme,
  nanmin: extreme,
  prod: multiplied,
  var: squaredFrom(false),
  std: squaredFrom(true),
  nanstd: rootOf(([x], { attributes: { axis, ...options } }) =>
    nanVariance("nanvar", x!, axis, options)
  ),
  maskedReduce: {
    rule: rootOf((own, { op, name, attributes }) =>
      dispatch(op, [...own], { ...attributes, row: "var" }, undefined, name)
    ),
    applies: ({ attributes }) => attributes.row === "std",
  },
  variance: varied(false),
  standardDeviation: varied(true),
  norm1: absolute,
  norm2: rooted,
  normP: powered,
  normMax: extremeSize,
  normMin: extremeSize,
  logSumExp,
  logsumexp,
  nansum,
  nanprod,
  nanSquares,
  cumulativeSum,
  cumulativeProd,
});
