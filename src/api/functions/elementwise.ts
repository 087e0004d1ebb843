/**
 * Functions of each element that are made of several ops, and comparisons of whole tensors.
 *
 * @module
 */
import { finfo } from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { ArgumentError } from "../../base/errors.ts";
import { sameShape } from "../../base/shape.ts";
import { apply } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatch, dispatchAll } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import { hostRead } from "../../core/interpreter.ts";
import { readElement } from "../../memory/element.ts";
import type { Operand } from "../../memory/operand.ts";
import { DTYPE } from "../../base/dtype.ts";
import { checkDevice, checkKind, checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import type { AnyTensor, Tensor, UnaryOptions } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";

const FREXP: Op = makeOp({
  kind: "kernel",
  name: "frexp",
  infer(call: Call) {
    const { name, inputs: [x] } = call;
    checkOperand(x, name);
    checkKind(x.storage.info, "f", name);
    const { shape } = x.layout;
    return [{ shape, dtype: x.storage.info }, { shape, dtype: DTYPE.int32 }];
  },
  decompose(call: Call) {
    const x = call.operand(0);
    const { name } = x.storage.info;
    const wide = cast(x, "float64");
    const size = apply(MAP.abs, wide);
    const finite = apply(MAP.logicalAnd, apply(MAP.isfinite, wide), apply(MAP.notEqual, wide, 0));
    const positive = apply(MAP.where, finite, size, 0.5);
    // The logarithm may be rounded to the next integer.
    const guess = apply(MAP.add, apply(MAP.floor, apply(MAP.log2, positive)), 1);
    const share = apply(MAP.ldexp, positive, apply(MAP.neg, guess));
    const above = cast(apply(MAP.greaterEqual, share, 1), "float64");
    const below = cast(apply(MAP.less, share, 0.5), "float64");
    const exponent = apply(MAP.sub, apply(MAP.add, guess, above), below);
    const mantissa = apply(MAP.ldexp, wide, apply(MAP.neg, exponent));
    return [
      cast(apply(MAP.where, finite, mantissa, wide), name),
      cast(apply(MAP.where, finite, exponent, 0), "int32"),
    ];
  },
});

/**
 * Mantissas of at least 0.5 and less than 1, and exponents as int32: x = mantissa * 2^exponent. 0,
 * infinities and NaN are their own mantissas, with exponent 0.
 *
 * @throws {DTypeError} For other dtypes than floats.
 *
 * @example
 * ```ts
 * const { mantissa, exponent } = frexp(tensor([8, 0.75]));
 * [mantissa.toArray(), exponent.toArray()]; // => [[0.5, 0.75], [4, 0]]
 * ```
 */
export function frexp<X extends AnyTensor>(x: X): {
  mantissa: Tensor<X["dtype"], t.ShapeOf<X>, X["device"]>;
  exponent: Tensor<"int32", t.ShapeOf<X>, X["device"]>;
};
export function frexp(x: AnyTensor): Readonly<Record<"mantissa" | "exponent", Operand>> {
  const [mantissa, exponent] = dispatchAll(FREXP, [x]);
  return { mantissa: mantissa!, exponent: exponent! };
}

const NAN_TO_NUM: Op = makeOp({
  kind: "kernel",
  name: "nanToNum",
  infer(call: Call) {
    const { name, inputs: [x], attributes } = call;
    checkOperand(x, name);
    checkKind(x.storage.info, "biuf", name);
    for (const value of Object.values(attributes)) {
      if (value !== undefined && typeof value !== "number") {
        throw new ArgumentError(`${name}() needs numbers, got ${describe(value)}`);
      }
    }
    return [{ shape: x.layout.shape, dtype: x.storage.info }];
  },
  decompose(call: Call) {
    const x = call.operand(0);
    const { info } = x.storage;
    if (info.kind !== "f") return apply(MAP.copy, x);
    const limits = finfo(info.name as "float32");
    const { nan = 0, posinf = limits.max, neginf = limits.min } = call.attributes;
    const numbers = apply(MAP.where, apply(MAP.isnan, x), nan, x);
    const low = apply(MAP.where, apply(MAP.equal, x, -Infinity), neginf, numbers);
    return apply(MAP.where, apply(MAP.equal, x, Infinity), posinf, low);
  },
});

/** Options of `nanToNum`. */
export interface NanToNumOptions extends UnaryOptions {
  /** Instead of NaN; 0. */
  readonly nan?: number;
  /** Instead of Infinity; the largest number of the dtype. */
  readonly posinf?: number;
  /** Instead of -Infinity; the smallest number of the dtype. */
  readonly neginf?: number;
}

/**
 * `x` with numbers in the places of NaN and infinities. Integers and bools stay.
 *
 * @example
 * ```ts
 * nanToNum(tensor([NaN, 1, Infinity]), { posinf: 9 }).toArray(); // => [0, 1, 9]
 * ```
 */
export function nanToNum<X extends AnyTensor>(
  x: X,
  options?: NanToNumOptions,
): Tensor<X["dtype"], t.ShapeOf<X>, X["device"]>;
export function nanToNum(x: AnyTensor, options: NanToNumOptions = {}): Operand {
  checkOptions("nanToNum", options, ["nan", "posinf", "neginf", "out"]);
  const { nan, posinf, neginf, out } = options;
  return dispatch(NAN_TO_NUM, [x], { nan, posinf, neginf }, out);
}

/** Options of `arrayEqual`. */
export interface ArrayEqualOptions {
  /** Count NaN as equal to NaN. */
  readonly equalNan?: boolean;
}

/**
 * Whether two tensors have one shape and equal elements, after promotion; {@link Tensor.equals}
 * requires one dtype too.
 *
 * @example
 * ```ts
 * arrayEqual(tensor([1, 2]), tensor([1, 2], { dtype: "int8" })); // => true
 * ```
 */
export function arrayEqual(
  x: AnyTensor,
  y: AnyTensor,
  options: ArrayEqualOptions = {},
): boolean {
  const name = "arrayEqual";
  checkOptions(name, options, ["equalNan"]);
  const [a, b] = [ownOperand(x, name) as Operand, ownOperand(y, name) as Operand];
  checkOperand(a, name);
  checkOperand(b, name);
  checkDevice(a.storage, b.storage, name);
  if (!sameShape(a.layout.shape, b.layout.shape)) return false;
  return tidy(() => {
    let same = apply(MAP.equal, a, b);
    const haveNaN = [a, b].every(({ storage: { info } }) => info.kind === "f" || info.kind === "c");
    if (options.equalNan === true && haveNaN) {
      same = apply(
        MAP.logicalOr,
        same,
        apply(MAP.logicalAnd, apply(MAP.isnan, a), apply(MAP.isnan, b)),
      );
    }
    const all = dispatch(REDUCE.all, [same], { axis: undefined }, undefined, name);
    hostRead(all, name);
    return readElement(all.storage, all.layout.offset) === 1;
  });
}
