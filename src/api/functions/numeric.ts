/**
 * Functions of samples: gradients, interpolation, integrals.
 *
 * @module
 */
import { DTYPE, type DType, promoteTypes } from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { ArgumentError, ShapeError } from "../../base/errors.ts";
import {
  formatShape,
  lengthOf,
  listIn,
  normalizeAxes,
  normalizeAxis,
  ownAxes,
  sameShape,
} from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { onHost, runKernel, widened } from "../../ops/sets/op.ts";
import { empty } from "../../core/composite.ts";
import { difference, fromFirst, widen } from "../../ops/reduce/differences.ts";
import type { AnyTensor, Tensor, UnaryOptions } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import { floatOf } from "./statistics.ts";

function narrow(x: Operand, axis: number, start: number, length: number): Operand {
  return applyView(VIEWS.narrow, x, "narrow", axis, start, length);
}

/** A vector in the shape of an axis of a tensor of this rank. */
function alongAxis(vector: Operand, axis: number, rank: number): Operand {
  const line = Array.from({ length: rank }, (_, i) => i === axis ? vector.layout.size : 1);
  return applyView(VIEWS.reshape, vector, "reshape", line);
}

// ---- gradients ---------------------------------------------------------------------------------

interface GradientAttributes {
  readonly axis: number;
  readonly spacing: number | undefined;
  readonly edgeOrder: 1 | 2;
}

const GRADIENT: Op = makeOp({
  kind: "kernel",
  name: "gradient",
  infer(call: Call) {
    const { name, inputs: [x, positions] } = call;
    checkOperand(x, name);
    checkKind(x.storage.info, "iuf", name);
    const { axis, spacing, edgeOrder } = call.attributes as GradientAttributes;
    const { shape } = x.layout;
    const along = normalizeAxis(name, axis, shape.length);
    if (edgeOrder !== 1 && edgeOrder !== 2) {
      throw new ArgumentError(`${name}() needs 1 or 2 as edgeOrder, got ${describe(edgeOrder)}`);
    }
    if (shape[along]! < edgeOrder + 1) {
      throw new ShapeError(
        `Cannot ${name} axis ${along} of shape ${
          formatShape(shape)
        }: edges of order ${edgeOrder} ` +
          `need ${edgeOrder + 1} elements`,
      );
    }
    if (isOperand(positions)) {
      checkOperand(positions, name);
      checkDevice(x.storage, positions.storage, name);
      checkKind(positions.storage.info, "biuf", name);
      if (!sameShape(positions.layout.shape, [shape[along]!])) {
        throw new ShapeError(
          `Cannot ${name} axis ${along} of shape ${formatShape(shape)} at positions of shape ${
            formatShape(positions.layout.shape)
          }: it takes a vector with one for each element`,
        );
      }
    } else if (typeof spacing !== "number") {
      throw new ArgumentError(`${name}() needs a number as spacing, got ${describe(spacing)}`);
    }
    return [{ shape, dtype: DTYPE[floatOf(x.storage.info.name)] }];
  },
  decompose(call: Call) {
    const { axis, spacing, edgeOrder } = call.attributes as GradientAttributes;
    const { dtype } = call.specs[0]!;
    const positions = call.inputs[1];
    // Differences and quotients are rounded once.
    const { shape } = call.operand(0).layout;
    const along = normalizeAxis(call.name, axis, shape.length);
    const moved = fromFirst(call.operand(0), along, call.name);
    const [x] = widen(moved, ...(isOperand(positions) ? [positions] : [])) as [Operand];
    const n = shape[along]!;
    const made = empty(shape, x);
    const at = (i: number): Operand => narrow(x, along, i, 1);
    const to = (i: number, length = 1): { out: Operand } => ({
      out: narrow(made, along, i, length),
    });
    if (!isOperand(positions)) {
      const h = spacing!;
      if (n > 2) {
        const inner = apply(
          MAP.sub,
          narrow(x, along, 2, n - 2),
          narrow(x, along, 0, n - 2),
          undefined,
          to(1, n - 2),
        );
        apply(MAP.div, inner, 2 * h, undefined, to(1, n - 2));
      }
      for (const [edge, next, far, sign] of [[0, 1, 2, 1], [n - 1, n - 2, n - 3, -1]] as const) {
        if (edgeOrder === 1) {
          const step = sign > 0
            ? apply(MAP.sub, at(next), at(edge))
            : apply(MAP.sub, at(edge), at(next));
          apply(MAP.div, step, h, undefined, to(edge));
          continue;
        }
        const near = apply(MAP.mul, at(edge), -1.5 / h * sign);
        const two = apply(MAP.add, near, apply(MAP.mul, at(next), 2 / h * sign));
        apply(MAP.sub, two, apply(MAP.mul, at(far), 0.5 / h * sign), undefined, to(edge));
      }
      return cast(made, dtype.name);
    }
    const distances = cast(stepsOf(positions), x.storage.info.name);
    const steps = alongAxis(distances, along, shape.length);
    const step = (i: number): Operand => narrow(steps, along, i < 0 ? n - 1 + i : i, 1);
    if (n > 2) {
      const before = narrow(steps, along, 0, n - 2);
      const after = narrow(steps, along, 1, n - 2);
      const both = apply(MAP.add, before, after);
      const a = apply(MAP.neg, apply(MAP.div, after, apply(MAP.mul, before, both)));
      const b = apply(MAP.div, apply(MAP.sub, after, before), apply(MAP.mul, before, after));
      const c = apply(MAP.div, before, apply(MAP.mul, after, both));
      const [first, second, third] = [0, 1, 2].map((i) => narrow(x, along, i, n - 2));
      const two = apply(MAP.add, apply(MAP.mul, a, first), apply(MAP.mul, b, second));
      apply(MAP.add, two, apply(MAP.mul, c, third), undefined, to(1, n - 2));
    }
    for (const [edge, next, far, near, other, sign] of edges(n)) {
      if (edgeOrder === 1) {
        const gap = sign > 0
          ? apply(MAP.sub, at(next), at(edge))
          : apply(MAP.sub, at(edge), at(next));
        apply(MAP.div, gap, step(near), undefined, to(edge));
        continue;
      }
      const [d1, d2] = [step(near), step(other)];
      const both = apply(MAP.add, d1, d2);
      const a = apply(MAP.div, apply(MAP.add, both, d1), apply(MAP.mul, d1, both));
      const b = apply(MAP.div, both, apply(MAP.mul, d1, d2));
      const c = apply(MAP.div, d1, apply(MAP.mul, d2, both));
      const positive = apply(MAP.mul, b, at(next));
      const negative = apply(
        MAP.add,
        apply(MAP.mul, a, at(edge)),
        apply(MAP.mul, c, at(far)),
      );
      if (sign > 0) apply(MAP.sub, positive, negative, undefined, to(edge));
      else apply(MAP.sub, negative, positive, undefined, to(edge));
    }
    return cast(made, dtype.name);
  },
});

/** The steps between positions in float64. */
function stepsOf(positions: Operand, axis = 0): Operand {
  const length = positions.layout.shape[axis]! - 1;
  return difference(narrow(positions, axis, 1, length), narrow(positions, axis, 0, length));
}

/** The elements at each edge, the steps beside them, and the direction. */
function edges(n: number) {
  return [[0, 1, 2, 0, 1, 1], [n - 1, n - 2, n - 3, -1, -2, -1]] as const;
}

/** Options of `gradient`. */
export interface GradientOptions<B = number> {
  /** The axis, or several; all by default. */
  readonly axis?: B;
  /** The distance of the samples (1), or a vector of their positions; or one of these for each axis. */
  readonly spacing?: number | AnyTensor | readonly (number | AnyTensor)[];
  /** The order of the differences at the edges: 1 (default) or 2. */
  readonly edgeOrder?: 1 | 2;
}

/** One tensor for one axis, else one for each axis. */
export type Gradients<X extends AnyTensor, B> = B extends number
  ? Tensor<t.ToFloat[X["dtype"]], t.ShapeOf<X>, X["device"]>
  : t.TupleOf<
    B extends readonly number[] ? B["length"] : t.ShapeOf<X>["length"],
    Tensor<t.ToFloat[X["dtype"]], t.ShapeOf<X>, X["device"]>
  >;

/**
 * The derivatives of samples by second-order central differences, and one-sided ones at the edges.
 * With one number as `axis` one tensor, else an array with one for each axis. Integers are computed in
 * float64 and give float32.
 *
 * @throws {ShapeError} For fewer than edgeOrder + 1 samples, or positions that do not fit.
 *
 * @example
 * ```ts
 * gradient(tensor([1, 2, 4, 7]), { axis: 0 }).toArray(); // => [1, 1.5, 2.5, 3]
 * ```
 */
export function gradient<
  X extends AnyTensor,
  const B extends number | readonly number[] | undefined = undefined,
>(
  x: X,
  options?: GradientOptions<t.Guard<t.AlongAxes<"gradient", t.ShapeOf<X>, B>, B>>,
): Gradients<X, B>;
export function gradient(
  x: AnyTensor,
  options: GradientOptions<number | readonly number[] | undefined> = {},
): Operand | Operand[] {
  const name = "gradient";
  checkOptions(name, options, ["axis", "spacing", "edgeOrder"]);
  const own = ownOperand(x, name);
  const { axis, spacing = 1, edgeOrder = 1 } = options;
  const axes = normalizeAxes(name, ownAxes(axis, name), own.layout.shape.length);
  const length = lengthOf(spacing);
  if (length !== undefined && length !== axes.length) {
    throw new ArgumentError(
      `${name}() needs one spacing for each of ${axes.length} axes, got ${length}`,
    );
  }
  const spacingOf = (one: unknown): unknown =>
    typeof one === "number" ? one : ownOperand(one, name);
  const given = listIn(spacing, spacingOf, length) ?? axes.map(() => spacing);
  const made = tidy(() =>
    axes.map((along, k) => {
      const one = given[k];
      const isNumber = typeof one === "number";
      const attributes = { axis: along, spacing: isNumber ? one : undefined, edgeOrder };
      const inputs = isNumber || one === undefined
        ? [own]
        : [own, ownOperand(one as Operand, name)];
      return dispatch(GRADIENT, inputs, attributes);
    })
  );
  return typeof axis === "number" ? made[0]! : made;
}

// ---- integrals ---------------------------------------------------------------------------------

const TRAPEZOID: Op = makeOp({
  kind: "kernel",
  name: "trapezoid",
  infer(call: Call) {
    const { name, inputs: [y, x], attributes: { axis, dx } } = call;
    checkOperand(y, name);
    checkKind(y.storage.info, "iuf", name);
    const { shape } = y.layout;
    const along = normalizeAxis(name, axis, shape.length);
    let dtype: DType = y.storage.info.name;
    if (isOperand(x)) {
      checkOperand(x, name);
      checkDevice(y.storage, x.storage, name);
      checkKind(x.storage.info, "iuf", name);
      if (!sameShape(x.layout.shape, [shape[along]!]) && !sameShape(x.layout.shape, shape)) {
        throw new ShapeError(
          `Cannot ${name} shape ${formatShape(shape)} at positions of shape ${
            formatShape(x.layout.shape)
          }: it takes a vector with one for each element along axis ${along}, or the same shape`,
        );
      }
      dtype = promoteTypes(dtype, x.storage.info.name, name);
    } else if (typeof dx !== "number") {
      throw new ArgumentError(`${name}() needs a number as dx, got ${describe(dx)}`);
    }
    return [{ shape: shape.toSpliced(along, 1), dtype: DTYPE[floatOf(dtype)] }];
  },
  decompose(call: Call) {
    const { axis, dx } = call.attributes as { axis: number; dx: number };
    const { dtype } = call.specs[0]!;
    const x = call.inputs[1];
    const [y] = widen(...(isOperand(x) ? [call.operand(0), x] : [call.operand(0)])) as [Operand];
    const { shape } = y.layout;
    const along = normalizeAxis(call.name, axis, shape.length);
    const n = shape[along]!;
    const sum = (one: Operand): Operand =>
      dispatch(REDUCE.sum, [one], { axis: along }, undefined, call.name);
    if (n < 2) return cast(sum(narrow(y, along, 0, 0)), dtype.name);
    if (!isOperand(x)) {
      const ends = apply(
        MAP.add,
        applyView(VIEWS.selectAxis, y, "selectAxis", along, 0),
        applyView(VIEWS.selectAxis, y, "selectAxis", along, n - 1),
      );
      const inner = sum(narrow(y, along, 1, n - 2));
      const whole = apply(MAP.add, inner, apply(MAP.mul, ends, 0.5));
      return cast(apply(MAP.mul, whole, dx), dtype.name);
    }
    const isLine = x.layout.shape.length === 1;
    const distances = cast(stepsOf(x, isLine ? 0 : along), y.storage.info.name);
    const steps = isLine ? alongAxis(distances, along, shape.length) : distances;
    const pairs = apply(MAP.add, narrow(y, along, 1, n - 1), narrow(y, along, 0, n - 1));
    return cast(apply(MAP.mul, sum(apply(MAP.mul, pairs, steps)), 0.5), dtype.name);
  },
});

/** Options of `trapezoid`. */
export interface TrapezoidOptions<B = number, P = AnyTensor | undefined> extends UnaryOptions {
  /** The positions of the samples: a vector along the axis, or of the shape of the samples. */
  readonly x?: P;
  /** The distance of the samples without `x`; 1. */
  readonly dx?: number;
  /** The axis; the last one by default. */
  readonly axis?: B;
}

/**
 * The integral of samples along an axis by the trapezoidal rule. Integers are computed in float64 and
 * give float32.
 *
 * @example
 * ```ts
 * trapezoid(tensor([1, 2, 3])).item(); // => 4
 * trapezoid(tensor([1, 2, 3]), { x: tensor([4, 6, 8]) }).item(); // => 8
 * ```
 */
export function trapezoid<
  X extends AnyTensor,
  const B extends number = -1,
  P extends AnyTensor | undefined = undefined,
>(
  y: X,
  options?: TrapezoidOptions<t.Guard<t.Reduce<"trapezoid", t.ShapeOf<X>, B, false>, B>, P>,
): Tensor<
  t.FloatBeside<X, P>,
  t.Ok<t.Reduce<"trapezoid", t.ShapeOf<X>, B, false>>,
  X["device"]
>;
export function trapezoid(
  y: AnyTensor,
  options: TrapezoidOptions<number, AnyTensor | undefined> = {},
): Operand {
  const name = "trapezoid";
  checkOptions(name, options, ["x", "dx", "axis", "out"]);
  const { x, dx = 1, axis = -1, out } = options;
  const inputs = x === undefined ? [y] : [y, ownOperand(x, name)];
  return dispatch(TRAPEZOID, inputs as Operand[], { axis, dx }, out);
}

// ---- interpolation -----------------------------------------------------------------------------

const INTERP: Op = makeOp({
  kind: "kernel",
  name: "interp",
  infer(call: Call) {
    const { name, inputs } = call;
    for (const one of inputs) checkOperand(one, name);
    const [x, xs, ys] = inputs as Operand[];
    for (const one of [x!, xs!, ys!]) {
      checkKind(one.storage.info, "iuf", name);
      checkDevice(x!.storage, one.storage, name);
    }
    const [first, second] = [xs!.layout.shape, ys!.layout.shape];
    if (first.length !== 1 || !sameShape(first, second) || first[0] === 0) {
      throw new ShapeError(
        `Cannot ${name} between points of shapes ${formatShape(first)} and ${
          formatShape(second)
        }: it takes two vectors of one size, of at least 1`,
      );
    }
    const dtype = promoteTypes(x!.storage.info.name, ys!.storage.info.name, name);
    return [{ shape: x!.layout.shape, dtype: DTYPE[floatOf(dtype)] }];
  },
  decompose(call: Call) {
    const { left, right } = call.attributes as { left?: number; right?: number };
    const { dtype: { name, bytes } } = call.specs[0]!;
    const dtype = bytes === 2 ? "float32" : name;
    return onHost(call, (inputs) => {
      const [x, xs, ys] = inputs as [Operand, Operand, Operand];
      const points = [cast(xs, "float64"), cast(ys, "float64")];
      const made = runKernel("interpolate", [widened(x), ...points], { left, right, dtype });
      return [cast(made, name)];
    });
  },
});

/** Options of `interp`. */
export interface InterpOptions {
  /** The value below the first point; that of the first point by default. */
  readonly left?: number;
  /** The value above the last point; that of the last point by default. */
  readonly right?: number;
}

/**
 * Linear interpolation between points: `xs`, in ascending order, and `ys`, their values. Computed in
 * double precision; integers give float32. NaN stays.
 *
 * @throws {ShapeError} Unless the points are two vectors of one size.
 *
 * @example
 * ```ts
 * interp(tensor([0, 1.5, 9]), tensor([1, 2, 3]), tensor([3, 2, 0])).toArray(); // => [3, 2.5, 0]
 * ```
 */
export function interp<X extends AnyTensor, P extends AnyTensor, Y extends AnyTensor>(
  x: X,
  xs: t.Guard<t.Points<t.ShapeOf<P>, t.ShapeOf<Y>>, P>,
  ys: Y,
  options?: InterpOptions,
): Tensor<t.FloatBeside<X, Y>, t.ShapeOf<X>, X["device"]>;
export function interp(
  x: AnyTensor,
  xs: AnyTensor,
  ys: AnyTensor,
  options: InterpOptions = {},
): Operand {
  const name = "interp";
  checkOptions(name, options, ["left", "right"]);
  const { left, right } = options;
  for (const one of [left, right]) {
    if (one !== undefined && typeof one !== "number") {
      throw new ArgumentError(`${name}() needs numbers as left and right, got ${describe(one)}`);
    }
  }
  const inputs = [x, ownOperand(xs, name), ownOperand(ys, name)] as Operand[];
  return dispatch(INTERP, inputs, { left, right });
}
