/**
 * Reading by indices: slices with tensors among their arguments, `take`, `takeAlongAxis`, `nonzero`.
 *
 * @module
 */
import { Layout } from "../base/layout.ts";
import { broadcastAll, normalizeAxis } from "../base/shape.ts";
import { dispatch, dispatchAll, performCall } from "../core/dispatch.ts";
import { tidy, wrap } from "../core/handles.ts";
import { isOperandArgument, type Operand } from "../memory/operand.ts";
import { allocateIn } from "../memory/device.ts";
import { checkDevice, checkOperand } from "../ops/infer.ts";
import { INDEX } from "../ops/kernels.ts";
import { Call, type Inferred, makeOp, type Op } from "../ops/op.ts";
import {
  alongAxis,
  asInput,
  blocksAlong,
  checkAlong,
  checkIndices,
  checkNonzero,
  type IndexArgument,
  indexed,
  type Indices,
  indicesOf,
  nonzeroAxes,
  operand,
  outOfRange,
  partsOf,
  pickAlong,
  type Selection,
  spend,
  toIndices,
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
  decompose: (call) => nonzeroAxes(call.operand(0), call.name),
});

/** The indices of the nonzero elements, one int32 vector for each axis. */
export function nonzero(x: Operand): Operand[] {
  return dispatchAll(NONZERO, [x]);
}

// ---- reading -----------------------------------------------------------------------------------

/** A copy of the picked elements. */
function gather(name: string, x: Operand, what: Selection): Operand {
  const layout = Layout.contiguous(what.shape);
  const storage = allocateIn(x.storage.memory, x.storage.info, layout.size, false);
  const call = new Call(INDEX.gather, name, [indexed(x, what), what.indices]);
  call.outputs[0] = operand(storage, blocksAlong(layout, what));
  performCall(call);
  checkFound(name, x.layout, what, call.badIndex);
  return wrap(storage, layout);
}

/** Whether the number of picked elements depends on the argument's values. */
function isMask(argument: IndexArgument): boolean {
  return isOperandArgument(argument)
    ? argument.storage.info.kind === "b"
    : Array.isArray(argument) && argument.length > 0 && typeof argument[0] === "boolean";
}

const GET: Op = makeOp({
  kind: "kernel",
  name: "index",
  infer(call): Inferred {
    const [x] = call.inputs;
    checkOperand(x, call.name);
    const args = argumentsOf(call, 1);
    if (args.some(isMask)) return "data-dependent";
    const [first] = args;
    const { shape } = x.layout;
    if (args.length === 1 && isOperandArgument(first) && shape.length > 0) {
      return [{ shape: [...first.layout.shape, ...shape.slice(1)], dtype: x.storage.info }];
    }
    return tidy(() => {
      const { tensors, block, place } = partsOf(call.name, x, args);
      const picked = broadcastAll(call.name, tensors.map(({ tensor }) => tensor.layout.shape));
      return [{ shape: block.shape.toSpliced(place, 0, ...picked), dtype: x.storage.info }];
    });
  },
  decompose(call) {
    const x = call.operand(0);
    return withIndices(call.name, x, argumentsOf(call, 1), (what) => gather(call.name, x, what));
  },
});

/** A copy of the elements at an index with arrays, masks or tensors. */
export function index(x: Operand, args: readonly IndexArgument[], name = "slice"): Operand {
  return dispatch(GET, [x, ...args.filter(isOperandArgument)], { index: args }, undefined, name);
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
    return [{ shape: shape.toSpliced(axis, 1, ...picked), dtype: x.storage.info }];
  },
  decompose(call) {
    const x = call.operand(0);
    const { name } = call;
    const { shape, strides, offset } = x.layout;
    const axis = normalizeAxis(name, call.attributes.axis, shape.length);
    const tensor = toIndices(name, x.storage, indicesOf(call));
    const picked = tensor.layout.shape;
    const what = {
      ...pickAlong(x, tensor, axis),
      axis,
      block: new Layout(shape.toSpliced(axis, 1), strides.toSpliced(axis, 1), offset),
      shape: call.specs[0]!.shape,
      place: axis,
      picked,
    };
    return spend(what, () => gather(name, x, what));
  },
});

/** The elements at `indices` along `axis`; the axes of `indices` replace it. */
export function take(x: Operand, indices: Indices, axis = 0): Operand {
  return dispatch(TAKE, [x, asInput(indices)], {
    axis,
    indices: isOperandArgument(indices) ? undefined : indices,
  });
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
    const axis = normalizeAxis(call.name, call.attributes.axis, x.layout.shape.length);
    throw outOfRange(call.name, x.layout, axis, broadcastIndices(call, indices), call.badIndex);
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
  return dispatch(TAKE_ALONG, [x, asInput(indices)], {
    axis,
    indices: isOperandArgument(indices) ? undefined : indices,
  });
}
