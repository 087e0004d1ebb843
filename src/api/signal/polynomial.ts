/**
 * Polynomials: values, and least-squares fits.
 *
 * @module
 */
import { DTYPE, type DType, promoteTypes } from "../../base/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../base/errors.ts";
import { formatShape, listIn } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast, contiguousCopy } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import { lstsq } from "../linalg/systems.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand, checkOptions } from "../../table/infer.ts";
import { makeOp, type Op } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { full, tensor } from "../../tensor/create.ts";
import { stack } from "../../ops/join/op.ts";
import { reduce } from "../../ops/reduce/op.ts";
import type { AnyTensor, Tensor, UnaryOptions } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";

/** Horner's rule; inputs: coefficients, x. */
const POLYVAL: Op = makeOp<Op>({
  kind: "kernel",
  name: "polyval",
  infer(call) {
    const { inputs: [p, x], name } = call;
    for (const one of [p, x]) {
      checkOperand(one, name);
      checkKind(one.storage.info, "iufc", name);
    }
    const [factors, at] = [p as Operand, x as Operand];
    checkDevice(factors.storage, at.storage, name);
    if (factors.layout.rank !== 1) {
      throw new ShapeError(
        `Cannot ${name} with coefficients of shape ${formatShape(factors.layout.shape)}: ` +
          "they are a vector",
      );
    }
    const dtype = promoteTypes(factors.storage.info.name, at.storage.info.name, name);
    return call.result(at.layout.shape, DTYPE[dtype]);
  },
  decompose(call) {
    const { shape, dtype } = call.specs[0]!;
    const x = cast(call.operand(1), dtype.name), p = cast(call.operand(0), dtype.name);
    const { device } = x.storage;
    const y = full(shape, 0, { dtype: dtype.name, device: device as "cpu" }) as Operand;
    const count = p.layout.size;
    for (let k = 0; k < count; k++) {
      const factor = applyView(VIEWS.narrow, p, "narrow", 0, k, 1);
      const scalar = applyView(VIEWS.reshape, factor, "reshape", []);
      if (k > 0) apply(MAP.mul, y, x, undefined, { out: y });
      apply(MAP.add, y, scalar, undefined, { out: y });
    }
    return y;
  },
});

/** The dtype of the values of a polynomial. */
export type PolyvalDType<P, X extends AnyTensor> = P extends { readonly dtype: DType }
  ? t.OperandDType<"where", P, X>
  : X["dtype"];

/**
 * The values of a polynomial at x. Its coefficients are a vector, or an array of numbers, the one of the
 * highest power first; none give 0.
 *
 * @throws {ShapeError} For coefficients that are no vector.
 * @throws {DTypeError} For bool.
 *
 * @example
 * ```ts
 * polyval([1, 0, 2], tensor([0, 1, 2])).toArray(); // => [2, 3, 6]
 * ```
 */
export function polyval<P extends AnyTensor | readonly number[], X extends AnyTensor>(
  p: P,
  x: X,
  options?: UnaryOptions,
): Tensor<
  PolyvalDType<P, X>,
  t.ShapeOf<X>,
  X["device"]
>;
export function polyval(
  p: AnyTensor | readonly number[],
  x: AnyTensor,
  options: UnaryOptions = {},
): Operand {
  checkOptions("polyval", options, ["out"]);
  const at = ownOperand(x, "polyval");
  const { info, device } = at.storage;
  return tidy(() => {
    const list = listIn(p, (factor) => {
      if (typeof factor === "number" || typeof factor === "bigint") return factor;
      throw new DTypeError(`Cannot polyval with the factor ${describe(factor)}: it is a number`);
    });
    const factors = list === undefined
      ? ownOperand(p, "polyval")
      : tensor(list as number[], { dtype: info.name, device: device as "cpu" }) as Operand;
    return dispatch(POLYVAL, [factors, at], undefined, options.out);
  });
}

/** Options of {@link polyfit}. */
export interface PolyfitOptions {
  /** A vector of weights: the residual at each x is multiplied by its weight. */
  readonly w?: AnyTensor;
  /**
   * Singular values below this part of the largest one count as 0; by default the number of points
   * times the spacing of float64 at 1.
   */
  readonly rcond?: number;
}

/** The float dtype of a fit. */
export type FitDType<X extends AnyTensor, Y extends AnyTensor> = [X["dtype"], Y["dtype"]] extends
  [infer D, infer E] ? D extends "float64" ? "float64" : E extends "float64" ? "float64" : "float32"
  : never;

/** Attributes of {@link POLYFIT}. */
interface PolyfitAttributes {
  readonly degree: number;
  readonly rcond: number;
}

/** By the singular values of the powers of x; inputs: x, y, weights. */
const POLYFIT: Op = makeOp<Op>({
  kind: "kernel",
  name: "polyfit",
  infer(call) {
    const { inputs: [x, y, w], name } = call;
    const { degree } = call.attributes as PolyfitAttributes;
    for (const one of [x, y, w]) {
      if (one === undefined) continue;
      checkOperand(one, name);
      checkKind(one.storage.info, "biuf", name);
      checkDevice((x as Operand).storage, one.storage, name);
    }
    const [at, values] = [x as Operand, y as Operand];
    const [n] = at.layout.shape;
    const { shape } = values.layout;
    const fits = at.layout.rank === 1 && n! > 0 && shape.length >= 1 && shape.length <= 2 &&
      shape[0] === n;
    if (!fits) {
      throw new ShapeError(
        `Cannot ${name} shapes ${formatShape(at.layout.shape)} and ${formatShape(shape)}: ` +
          "x is a vector, and y has a number or a row for each of its elements",
      );
    }
    const weights = w as Operand | undefined;
    if (weights !== undefined && (weights.layout.rank !== 1 || weights.layout.size !== n)) {
      throw new ShapeError(
        `Cannot ${name} ${n} points with weights of shape ${formatShape(weights.layout.shape)}`,
      );
    }
    const isWide = [at, values].some(({ storage }) => storage.info === DTYPE.float64);
    const dtype = isWide ? DTYPE.float64 : DTYPE.float32;
    return call.result([degree + 1, ...shape.slice(1)], dtype);
  },
  decompose(call) {
    const [x, y] = [call.operand(0), call.operand(1)];
    const w = call.inputs[2] as Operand | undefined;
    const { degree, rcond } = call.attributes as PolyfitAttributes;
    const { shape, dtype } = call.specs[0]!;
    const n = x.layout.size;
    const reshaped = (one: Operand, to: readonly number[]): Operand =>
      applyView(VIEWS.reshape, one, "reshape", to);
    const wide = cast(x, "float64");
    const ones = full([n], 1, { dtype: "float64", device: x.storage.device as "cpu" });
    const powers: Operand[] = [ones];
    for (let k = 0; k < degree; k++) powers.unshift(apply(MAP.mul, powers[0]!, wide));
    let left = stack(powers, 1);
    let right = reshaped(cast(y, "float64"), [n, y.layout.size / n]);
    if (w !== undefined) {
      const column = reshaped(contiguousCopy(w, "float64"), [n, 1]);
      left = apply(MAP.mul, left, column);
      right = apply(MAP.mul, right, column);
    }
    // Columns of length 1 are better conditioned.
    const lengths = apply(MAP.sqrt, reduce(REDUCE.sum, apply(MAP.square, left), 0));
    const unit = apply(MAP.div, left, lengths) as AnyTensor;
    const { x: scaled } = lstsq(unit, right as AnyTensor, { rtol: rcond });
    const fit = apply(MAP.div, scaled, reshaped(lengths, [degree + 1, 1]));
    return contiguousCopy(reshaped(fit, shape), dtype.name);
  },
});

/** The largest degree of a fit. */
const MOST_DEGREE = 1000;

/**
 * The coefficients of the polynomial of a degree that fits points best, in the sense of least squares,
 * the one of the highest power first: [degree + 1], or [degree + 1, K] for y [N, K]. Computed in
 * float64; the result is float64 if x or y is, else float32.
 *
 * @throws {ShapeError} For shapes that do not fit.
 * @throws {ArgumentError} For a degree that is not from 0 to 1000.
 * @throws {DTypeError} For complex numbers.
 *
 * @example
 * ```ts
 * const p = polyfit(tensor([0, 1, 2, 3]), tensor([1, 3, 7, 13]), 2);
 * p.allclose(tensor([1, 1, 1]), { atol: 1e-5 }); // => true
 * ```
 */
export function polyfit<X extends AnyTensor, Y extends AnyTensor, const N extends number>(
  x: X,
  y: t.Guard<t.FitPoints<t.ShapeOf<X>, t.ShapeOf<Y>>, Y>,
  degree: N,
  options?: PolyfitOptions,
): Tensor<FitDType<X, Y>, t.Polyfit<t.ShapeOf<Y>, N>, X["device"]>;
export function polyfit(
  x: AnyTensor,
  y: AnyTensor,
  degree: number,
  options: PolyfitOptions = {},
): Operand {
  checkOptions("polyfit", options, ["w", "rcond"]);
  const { w, rcond } = options;
  if (!Number.isInteger(degree) || degree < 0 || degree > MOST_DEGREE) {
    throw new ArgumentError(
      `polyfit() needs an integer from 0 to ${MOST_DEGREE} as the degree, got ${describe(degree)}`,
    );
  }
  const at = ownOperand(x, "polyfit");
  const inputs = [at, ownOperand(y, "polyfit")];
  if (w !== undefined) inputs.push(ownOperand(w, "polyfit"));
  const attributes = { degree, rcond: rcond ?? at.layout.size * 2 ** -52 };
  return dispatch(POLYFIT, inputs, attributes);
}
