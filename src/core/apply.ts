/**
 * Entry points of elementwise ops, views and creation, with little code between a method and its
 * loop; dispatch.ts handles all ops.
 *
 * @module
 */
import { broadcastShapes, ownAxes, sameShape } from "../base/shape.ts";
import { isOperand, type Operand, VIEW } from "../memory/operand.ts";
import { checkAlive } from "../memory/storage.ts";
import { checkOptions } from "../table/infer.ts";
import type { CreateOp, Input, MapOp, ViewOp } from "../table/op.ts";
import { viewAttributes } from "../table/views.ts";
import { giveCall, scalarOperand, takeCall } from "./calls.ts";
import { wrap } from "./handles.ts";
import { frame } from "./interpreter.ts";
import { checkFits } from "./write.ts";
import { copyOf, dispatch, finishMap, laneCalls, runMap } from "./dispatch.ts";

/** Options of elementwise ops. */
export interface OpOptions {
  /** Write the result here instead of allocating; its shape must be the result's. */
  readonly out?: Operand | undefined;
  /** If `false`, operands of different shapes are an error. */
  readonly broadcast?: boolean;
}

const MAP_OPTIONS = ["out"];
const BINARY_OPTIONS = ["out", "broadcast"];
const NO_BROADCAST = { broadcast: false };

/**
 * An elementwise op. Tensors promote together, scalars are weak; shapes broadcast unless
 * `options.broadcast` is false.
 */
export function apply(
  op: MapOp,
  a: Input,
  b?: Input,
  c?: Input,
  options?: OpOptions,
  name: string = op.name,
  attributes?: object,
): Operand {
  let out: Operand | undefined;
  if (options !== undefined) {
    checkOptions(name, options, op.arity === 2 ? BINARY_OPTIONS : MAP_OPTIONS);
    out = options.out;
    if (options.broadcast === false) attributes = NO_BROADCAST;
  }
  return applyInto(op, name, a, b, c, out, attributes);
}

/** {@link apply} with the options as separate arguments. */
export function applyInto(
  op: MapOp,
  name: string,
  a: Input,
  b: Input,
  c: Input,
  out: Operand | undefined,
  attributes?: object,
): Operand {
  const { arity } = op;
  if (frame !== null) {
    return dispatch(op, [a, b, c].slice(0, arity), attributes, out, name);
  }
  // Operands of one dtype on one device need few checks.
  if (arity < 3 && attributes === undefined && isOperand(a)) {
    const { storage, layout } = a;
    // Before the dtype is read: a disposed storage has none.
    checkAlive(storage, name);
    const other = typeof b === "object" && isOperand(b) ? b : null;
    if (other !== null) checkAlive(other.storage, name);
    const { info } = storage;
    const rule = op.rules[info.id];
    if (rule === undefined) {
      const complex = info.kind === "c" && out === undefined &&
        (arity === 1 || other?.storage.info === info);
      const made = complex ? laneCalls.applyDense(op, name, a, other) : null;
      if (made !== null) return made;
    } else {
      if (arity === 1) {
        const call = takeCall(op, name, 1, undefined);
        finishMap(call, rule.compute, rule.result, layout.shape, storage, a, null, null, out);
        return giveCall(call);
      }
      if (typeof b === "number") {
        if (info.kind === "f") {
          const one = scalarOperand(b, info, 1);
          const call = takeCall(op, name, 2, undefined);
          finishMap(call, rule.compute, rule.result, layout.shape, storage, a, one, null, out);
          return giveCall(call);
        }
      } else if (
        other !== null && other.storage.info === info && other.storage.device === storage.device
      ) {
        const { shape: left } = layout;
        const { shape: right } = other.layout;
        const shape = sameShape(left, right) ? left : broadcastShapes(name, left, right);
        const call = takeCall(op, name, 2, undefined);
        finishMap(call, rule.compute, rule.result, shape, storage, a, other, null, out);
        return giveCall(call);
      }
    }
  }
  const call = takeCall(op, name, arity, attributes);
  const { inputs } = call;
  inputs[0] = a;
  if (arity > 1) inputs[1] = b;
  if (arity > 2) inputs[2] = c;
  if (out !== undefined) call.outputs[0] = out;
  runMap(call);
  return giveCall(call);
}

/** An elementwise op with `target` as first operand and output; the result's shape must be its own. */
export function applyInPlace(
  op: MapOp,
  name: string,
  target: Operand,
  other?: Input,
  third?: Input,
): Operand {
  if (isOperand(other)) checkFits(target, other, name);
  if (isOperand(third)) checkFits(target, third, name);
  return applyInto(op, name, target, other, third, target);
}

/**
 * A view of `x`; the op's parameters are separate arguments, as an object would cost more than the
 * view.
 */
export function applyView(
  op: ViewOp,
  x: Operand,
  name: string,
  a?: unknown,
  b?: unknown,
  c?: unknown,
): Operand {
  if (frame !== null) {
    // An interpreter keeps the attributes: the arrays of the caller may change.
    const own = [a, b, c].map((value) => ownAxes(value, name));
    return dispatch(op, [x], viewAttributes(op, own), undefined, name);
  }
  checkAlive(x.storage, name);
  const layout = op.layout(x.layout, name, a, b, c);
  if (layout !== null) return wrap(x.storage, layout, x.flags | VIEW);
  const copy = copyOf(x);
  return wrap(copy.storage, op.layout(copy.layout, name, a, b, c)!);
}

/** Creates a tensor from no other tensor. */
export function applyCreate(op: CreateOp, attributes: unknown, name: string = op.name): Operand {
  if (frame !== null) return dispatch(op, [], attributes, undefined, name);
  return op.create(attributes, name);
}
