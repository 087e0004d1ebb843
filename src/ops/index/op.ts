/**
 * Reading by indices: slices with tensors among their arguments, `take`, `takeAlongAxis`, `nonzero`.
 *
 * @module
 */
import { broadcastAll, normalizeAxis, pickedShape } from "../../base/shape.ts";
import { apply } from "../../core/apply.ts";
import { dispatch, dispatchAll, run } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import { isOperandArgument, type Operand } from "../../memory/operand.ts";
import { part } from "../../core/composite.ts";
import { checkDevice, checkOperand } from "../../table/infer.ts";
import { INDEX } from "./kernels.ts";
import { Call, type Inferred, makeOp, type Op } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import {
  alongAxis,
  asAttribute,
  asInput,
  checkAlong,
  checkIndices,
  checkNonzero,
  type IndexArgument,
  type Indices,
  indicesOf,
  nonzeroAxes,
  operand,
  outOfRange,
  ownIndex,
  ownIndexes,
  type Parts,
  partsOf,
  select,
  selectAlong,
  type Selection,
  shapeOf,
  spend,
  toIndices,
  unknownClass,
  withIndices,
} from "./selection.ts";
import { argumentsOf, checkFound } from "./selection.ts";

const NONZERO: Op = makeOp({
  kind: "kernel",
  name: "nonzero",
  infer(call) {
    const [x] = call.inputs;
    checkNonzero(x, call.name);
    return "data-dependent";
  },
  decompose(call) {
    const x = call.operand(0);
    const complex = x.storage.info.kind === "c";
    const one = complex ? apply(MAP.notEqual, x, 0, undefined, undefined, call.name) : x;
    return nonzeroAxes(one, call.name);
  },
});

/** The indices of the nonzero elements, one int32 vector for each axis. */
export function nonzero(x: Operand): Operand[] {
  return dispatchAll(NONZERO, [x]);
}

// ---- reading -----------------------------------------------------------------------------------

/** A copy of the picked elements. */
function gather(name: string, x: Operand, what: Selection): Operand {
  const source = what.source === x.layout ? x : part(x, what.source);
  const call = new Call(INDEX.gather, name, [source, what.indices], { axis: what.place });
  run(call);
  checkFound(name, x.layout, what, call.badIndex);
  return call.outputs[0]!;
}

/** Whether the number of picked elements depends on the argument's values. */
function isMask(argument: IndexArgument): boolean {
  return isOperandArgument(argument)
    ? argument.storage.info.kind === "b"
    : Array.isArray(argument) && argument.length > 0 && typeof argument[0] === "boolean";
}

/** The tensor that is the only argument of an index, if it is one. */
function onlyTensor(call: Call): Operand | undefined {
  return call.inputs.length === 2 && call.attributes.index.length === 1
    ? call.operand(1)
    : undefined;
}

const GET: Op = makeOp({
  kind: "kernel",
  name: "index",
  infer(call): Inferred {
    const { inputs, name } = call;
    for (let k = 0; k < inputs.length; k++) checkOperand(inputs[k], name);
    const x = call.operand(0);
    call.memo = undefined;
    const { shape } = x.layout;
    const only = onlyTensor(call);
    if (only !== undefined && shape.length > 0) {
      if (isMask(only)) return "data-dependent";
      return [{
        shape: pickedShape(shape, 0, only.layout.shape, call.name),
        dtype: x.storage.info,
      }];
    }
    const args = argumentsOf(call, 1);
    if (args.some(isMask)) return "data-dependent";
    return tidy(() => {
      const parts = partsOf(call.name, x, args);
      // Tensors made of arrays do not outlive this function.
      call.memo = args.some((argument) => Array.isArray(argument)) ? undefined : parts;
      return [{ shape: shapeOf(call.name, parts), dtype: x.storage.info }];
    });
  },
  decompose(call) {
    const x = call.operand(0);
    const { name, memo } = call;
    if (memo !== undefined) {
      return spend(select(name, x, memo as Parts), (what) => gather(name, x, what));
    }
    const only = onlyTensor(call);
    const args = only === undefined ? argumentsOf(call, 1) : [only];
    return withIndices(name, x, args, (what) => gather(name, x, what));
  },
});

/** A copy of the elements at an index with arrays, masks or tensors. */
export function index(x: Operand, args: readonly IndexArgument[], name = "slice"): Operand {
  if (args.length === 1 && isOperandArgument(args[0])) {
    return dispatch(GET, [x, args[0]], { index: args }, undefined, name);
  }
  const own = ownIndexes(args, name);
  const tensors = own.filter(isOperandArgument);
  return dispatch(GET, [x, ...tensors], { index: own }, undefined, name);
}

const TAKE: Op = makeOp({
  kind: "kernel",
  name: "take",
  infer(call) {
    const { inputs: [x], name } = call;
    checkOperand(x, name);
    const { shape } = x.layout;
    const axis = normalizeAxis(name, call.attributes.axis, shape.length);
    const indices = indicesOf(call);
    checkIndices(name, indices);
    if (isOperandArgument(indices)) checkDevice(x.storage, indices.storage, name);
    const picked = isOperandArgument(indices)
      ? indices.layout.shape
      : typeof indices === "number"
      ? []
      : [indices.length];
    return [{ shape: pickedShape(shape, axis, picked, name), dtype: x.storage.info }];
  },
  decompose(call) {
    const x = call.operand(0);
    const { name } = call;
    const axis = normalizeAxis(name, call.attributes.axis, x.layout.shape.length);
    const tensor = toIndices(name, x.storage, indicesOf(call));
    const what = selectAlong(name, x, tensor, axis, false);
    return spend(what, (what) => gather(name, x, what));
  },
});

/** The elements at `indices` along `axis`; the axes of `indices` replace it. */
export function take(x: Operand, indices: Indices, axis = 0): Operand {
  const own = ownIndex(indices, "take");
  return dispatch(TAKE, [x, asInput(own)], { axis, indices: asAttribute(own) });
}

// ---- along an axis -----------------------------------------------------------------------------

/** x[…, indices[…], …] along an axis; backends may have a kernel for a tensor of indices. */
const TAKE_ALONG: Op = makeOp({
  kind: "kernel",
  name: "takeAlongAxis",
  infer(call) {
    const indices = indicesOf(call);
    const axis = checkAlong(call, indices);
    const x = call.operand(0);
    const shape = isOperandArgument(indices)
      ? indices.layout.shape
      : [(indices as number[]).length];
    const first = x.layout.shape.with(axis, 1);
    return [{ shape: broadcastAll(call.name, [first, shape]), dtype: x.storage.info }];
  },
  check(call) {
    if (call.badIndex < 0) return;
    const [x, indices] = [call.operand(0), call.operand(1)];
    const { axis: given, isClasses } = call.attributes;
    const axis = normalizeAxis(call.name, given, x.layout.shape.length);
    const all = broadcastIndices(call, indices);
    throw isClasses
      ? unknownClass(call.name, x.layout, axis, all, call.badIndex)
      : outOfRange(call.name, x.layout, axis, all, call.badIndex);
  },
  decompose(call) {
    const x = call.operand(0);
    const axis = normalizeAxis(call.name, call.attributes.axis, x.layout.shape.length);
    const indices = toIndices(call.name, x.storage, indicesOf(call));
    if (!isOperandArgument(call.inputs[1])) return takeAlongAxis(x, indices, axis);
    const args = alongAxis(x, axis, indices);
    return withIndices(call.name, x, args, (what) => gather(call.name, x, what));
  },
});

/** Indices broadcast to the shape of the output. */
function broadcastIndices(call: Call, indices: Operand): Operand {
  return operand(indices.storage, indices.layout.broadcastTo(call.specs[0]!.shape));
}

/** `x[…, indices[…], …]` along `axis`: both have the same rank, and other axes broadcast. */
export function takeAlongAxis(x: Operand, indices: Indices, axis: number): Operand {
  const { name } = TAKE_ALONG;
  const own = ownIndex(indices, name);
  const attributes = { axis, indices: asAttribute(own) };
  return dispatch(TAKE_ALONG, [x, asInput(own)], attributes, undefined, name);
}

/**
 * The elements of `x` at the classes `targets` along `axis`, which they have with size 1. Classes are not
 * negative: those below 0 are errors, and do not count from the last one.
 */
export function takeClasses(x: Operand, targets: Operand, axis: number, name: string): Operand {
  let indices = targets;
  if (targets.storage.info.kind === "i") {
    // They become too negative; the error has the class.
    const low = apply(MAP.sub, targets, x.layout.shape[axis]!);
    indices = apply(MAP.where, apply(MAP.less, targets, 0), low, targets);
  }
  const attributes = { axis, indices: undefined, isClasses: true };
  return dispatch(TAKE_ALONG, [x, indices], attributes, undefined, name);
}
