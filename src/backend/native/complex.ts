/**
 * The kernel of elementwise ops on complex numbers.
 *
 * @module
 */
import { ATTRIBUTES } from "../../base/plan.ts";
import { planComplex } from "../../core/lanes.ts";
import { COMPLEX_NUMBER, type ComplexAttributes } from "../../ops/complex/op.ts";
import { checkOperand } from "../ffi/checks.ts";
import { always, type Kernel } from "./kernel.ts";

/** The kernel. */
export const complexMap: Kernel = {
  supports: always,
  prepare(call) {
    const plan = planComplex(call);
    if (plan.size === 0) return null;
    const { op } = call.attributes as ComplexAttributes;
    const out = call.operand(0).storage, a = call.operand(1).storage;
    const b = call.inputs.length > 2 ? call.operand(2).storage : null;
    checkOperand("complexMap", plan, 0, out);
    checkOperand("complexMap", plan, 1, a);
    if (b !== null) checkOperand("complexMap", plan, 2, b);
    plan.data[ATTRIBUTES] = COMPLEX_NUMBER.get(op)!;
    return { numbers: plan.data, out, a, b };
  },
};
