/**
 * Rounding to decimals.
 *
 * @module
 */
import { describe } from "../../base/text.ts";
import { ArgumentError } from "../../base/errors.ts";
import { apply, applyInPlace, type OpOptions } from "../../core/apply.ts";
import { dispatch } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkKind, checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";

const ROUND_TO: Op = makeOp({
  kind: "kernel",
  name: "roundTo",
  infer(call: Call) {
    const { name, inputs: [x], attributes: { decimals } } = call;
    checkOperand(x, name);
    checkKind(x.storage.info, "iuf", name);
    if (!Number.isInteger(decimals)) {
      throw new ArgumentError(`${name}() needs an integer as decimals, got ${describe(decimals)}`);
    }
    return [{ shape: x.layout.shape, dtype: x.storage.info }];
  },
  // As in NumPy: scaled, rounded, scaled back.
  decompose(call: Call) {
    const { decimals } = call.attributes as { decimals: number };
    const x = call.operand(0);
    if (x.storage.info.kind !== "f") {
      if (decimals >= 0) return apply(MAP.copy, x);
      const unit = 10 ** -decimals;
      const half = apply(
        MAP.div,
        apply(MAP.copy, x, undefined, undefined, undefined, "copy", { dtype: "float64" }),
        unit,
      );
      const whole = apply(MAP.mul, applyInPlace(MAP.round, "round", half), unit);
      return apply(MAP.copy, whole, undefined, undefined, undefined, "copy", {
        dtype: x.storage.info.name,
      });
    }
    const unit = 10 ** Math.abs(decimals);
    const [scale, back] = decimals >= 0 ? [MAP.mul, MAP.div] : [MAP.div, MAP.mul];
    const made = apply(scale, x, unit);
    applyInPlace(MAP.round, "round", made);
    return applyInPlace(back, "round", made, unit);
  },
});

/** `x` rounded to `decimals`, half to even. */
export function roundTo(
  x: Operand,
  decimals: number,
  options: OpOptions = {},
  name = "round",
): Operand {
  checkOptions(name, options, ["out"]);
  return dispatch(ROUND_TO, [x], { decimals }, options.out, name);
}
