/**
 * Writing by indices: `set`, `putAlongAxis_`, and one-hot vectors.
 *
 * @module
 */
import {
  checkDType,
  checkScalar,
  type Complex,
  DTYPE,
  type DType,
  type Scalar,
} from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { DTypeError, IndexError, ShapeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { broadcastShapes, formatShape, normalizeAxis, sameShape } from "../../base/shape.ts";
import { parseIndexString, sliceBasic } from "../../base/slice.ts";
import { contiguousCopy, looseCopy, writeCopy, writeValue } from "../../core/copy.ts";
import { apply, applyInto } from "../../core/apply.ts";
import { dispatch, run } from "../../core/dispatch.ts";
import { checkStore, disturbs, overlaps, prepareWrite } from "../../core/write.ts";
import { readElement } from "../../memory/element.ts";
import { isOperandArgument, type Operand } from "../../memory/operand.ts";
import { part } from "../../core/composite.ts";
import { checkWholeBlocks } from "../../core/lanes.ts";
import { allocateIn } from "../../memory/device.ts";
import { recycle } from "../../memory/pool.ts";
import type { Storage } from "../../memory/storage.ts";
import { checkDevice, checkOperand, checkOptions, isScalar, ruleFor } from "../../table/infer.ts";
import { INDEX } from "./kernels.ts";
import { Call, type Input, makeOp, type Op } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { reduce } from "../reduce/op.ts";
import {
  alongAxis,
  asAttribute,
  asInput,
  checkAlong,
  checkIndices,
  type IndexArgument,
  type Indices,
  indicesOf,
  iota,
  isBasic,
  operand,
  ownIndex,
  ownIndexes,
  type Selection,
  toIndices,
  withIndices,
} from "./selection.ts";
import { argumentsOf, checkFound } from "./selection.ts";

// ---- writing -----------------------------------------------------------------------------------

/** Options of writing by an index. */
export interface SetOptions {
  /**
   * Adds the written values to the existing ones, once for each occurrence of a place in the index.
   */
  readonly accumulate?: boolean;
}

const SET_OPTIONS = ["accumulate"];

/** Throws unless `value` may be written to elements of `x`. */
function checkValue(
  name: string,
  x: Operand,
  value: unknown,
): asserts value is Operand | Scalar | Complex {
  const { info } = x.storage;
  if (isOperandArgument(value)) {
    checkOperand(value, name);
    checkDevice(x.storage, value.storage, name);
    checkStore(value.storage.info, info, name);
  } else if (isScalar(value)) checkScalar(info.name, value, name);
  else throw new DTypeError(`Cannot ${name} to ${describe(value)}: expected a tensor or a scalar`);
}

/** Writes to the elements at an index; inputs: the target, the value, the tensors in the index. */
const SET: Op = makeOp({
  kind: "kernel",
  name: "set",
  writes: [0],
  aliases: [[0, 0]],
  infer(call) {
    const { inputs: [x, value], name, attributes } = call;
    prepareWrite(x as Operand, name);
    checkValue(name, x as Operand, value);
    for (let k = 2; k < call.inputs.length; k++) checkOperand(call.inputs[k], name);
    const { info } = (x as Operand).storage;
    if (attributes.accumulate) ruleFor(MAP.add, info, "accumulate");
    return [{ shape: (x as Operand).layout.shape, dtype: info }];
  },
  decompose(call) {
    const { name, inputs: [, value], attributes: { accumulate } } = call;
    const x = call.operand(0);
    const args = argumentsOf(call, 2);
    if (args.every(isBasic)) {
      const part = operand(x.storage, sliceBasic(x.layout, args, name));
      if (accumulate) addTo(name, part, value as Operand | Scalar | Complex);
      else writeTo(name, part, value as Operand | Scalar | Complex);
    } else {
      withIndices(
        name,
        x,
        args,
        (what) => scatter(name, x, value as Operand | Scalar | Complex, what, accumulate),
      );
    }
    return x;
  },
});

/** Writes `value`, broadcast, to all of `target`. */
function writeTo(name: string, target: Operand, value: Operand | Scalar | Complex): void {
  if (!isOperandArgument(value)) return writeValue(target, value);
  const source = broadcastValue(name, value, target.layout.shape);
  if (!disturbs(target, source)) return writeCopy(target, source);
  const copy = looseCopy(source);
  writeCopy(target, copy);
  recycle(copy.storage);
}

/** Adds `value`, in the dtype of `target`, to all of it. */
function addTo(name: string, target: Operand, value: Operand | Scalar | Complex): void {
  const add = (one: Operand | Scalar | Complex): unknown =>
    applyInto(MAP.add, "accumulate", target, one, undefined, target);
  if (!isOperandArgument(value)) return void add(value);
  const { info } = target.storage;
  const same = value.storage.info === info ? value : looseCopy(value, info);
  add(broadcastValue(name, same, target.layout.shape));
  if (same !== value) recycle(same.storage);
}

/** Writes `value` to the picked elements, or adds it. */
function scatter(
  name: string,
  x: Operand,
  value: Operand | Scalar | Complex,
  what: Selection,
  accumulate: boolean,
): void {
  const { info } = x.storage;
  const given = isOperandArgument(value) ? broadcastValue(name, value, what.shape) : undefined;
  const source = given === undefined
    ? broadcastScalar(value as Scalar | Complex, x.storage, what.shape)
    : given.storage.info === info && given.layout.contiguous && !overlaps(x, given)
    ? given
    : looseCopy(given, info);
  const op = accumulate ? INDEX.scatterAdd : INDEX.scatter;
  const target = operand(x.storage, what.source);
  const call = new Call(op, name, [target, source, what.indices], { axis: what.place });
  run(call);
  if (source !== given) recycle(source.storage);
  checkFound(name, x.layout, what, call.badIndex);
}

/** `value`, broadcast to `shape`, in the dtype and on the device of `like`. */
function broadcastScalar(
  value: Scalar | Complex,
  like: Storage,
  shape: readonly number[],
): Operand {
  checkWholeBlocks(like.info, [], "write a number to");
  const layout = Layout.contiguous([]);
  const one = operand(allocateIn(like.memory, like.info, 1, false), layout);
  writeValue(one, value);
  return operand(one.storage, layout.broadcastTo(shape));
}

/** Checks a value against the target's shape; it may have extra leading axes of size 1. */
function broadcastValue(name: string, value: Operand, shape: readonly number[]): Operand {
  let { layout } = value;
  if (sameShape(layout.shape, shape)) return value;
  while (layout.shape.length > shape.length && layout.shape[0] === 1) layout = layout.squeeze(0);
  if (!sameShape(broadcastShapes(name, shape, layout.shape), shape)) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(shape)} to a value of shape ${formatShape(layout.shape)}`,
    );
  }
  return part(value, layout.broadcastTo(shape));
}

/** Writes `value`, broadcast, to the elements of `x` at the index. */
export function setAt(
  x: Operand,
  given: readonly IndexArgument[] | string,
  value: Operand | Scalar | Complex,
  options?: SetOptions,
): void {
  const name = "set";
  if (options !== undefined) checkOptions(name, options, SET_OPTIONS);
  checkOperand(x, name);
  if (typeof given !== "string" && !Array.isArray(given)) {
    throw new IndexError(`Cannot ${name}: the index is an array of arguments, one for each axis`);
  }
  // Everything of the caller is read before SET prepares the write: a getter may make a view, or a
  // copy on write, of the target.
  const accumulate = options?.accumulate ?? false;
  const args = typeof given === "string" ? parseIndexString(given, name) : ownIndexes(given, name);
  const inputs: Input[] = [x, value];
  for (const argument of args) if (isOperandArgument(argument)) inputs.push(argument);
  dispatch(SET, inputs, { index: args, accumulate });
}

const PUT_ALONG: Op = makeOp({
  kind: "kernel",
  name: "putAlongAxis_",
  writes: [0],
  aliases: [[0, 0]],
  infer(call) {
    const { inputs: [x, , value], name } = call;
    checkAlong(call, indicesOf(call));
    prepareWrite(x as Operand, name);
    checkValue(name, x as Operand, value);
    if (call.attributes.accumulate) ruleFor(MAP.add, (x as Operand).storage.info, "accumulate");
    return [{ shape: (x as Operand).layout.shape, dtype: (x as Operand).storage.info }];
  },
  decompose(call) {
    const { name, inputs: [, , value], attributes } = call;
    const x = call.operand(0);
    const axis = normalizeAxis(name, attributes.axis, x.layout.shape.length);
    const indices = toIndices(name, x.storage, indicesOf(call));
    withIndices(
      name,
      x,
      alongAxis(x, axis, indices),
      (what) => scatter(name, x, value as Operand | Scalar | Complex, what, attributes.accumulate),
    );
    return x;
  },
});

/** Writes `values` to the elements that {@link takeAlongAxis} reads. */
export function putAlongAxis(
  x: Operand,
  indices: Indices,
  values: Operand | Scalar | Complex,
  axis: number,
  options?: SetOptions,
): void {
  if (options !== undefined) checkOptions("putAlongAxis_", options, SET_OPTIONS);
  const name = "putAlongAxis_";
  const own = ownIndex(indices, name);
  dispatch(PUT_ALONG, [x, asInput(own), values], {
    axis,
    indices: asAttribute(own),
    accumulate: options?.accumulate ?? false,
  });
}

// ---- one-hot -----------------------------------------------------------------------------------

const ONE_HOT: Op = makeOp({
  kind: "kernel",
  name: "oneHot",
  infer(call) {
    const { inputs: [x], name, attributes: { classes, dtype } } = call;
    checkIndices(name, x as Operand);
    checkOperand(x, name);
    checkDType(dtype, name);
    if (!Number.isInteger(classes) || classes < 0 || classes > 2 ** 31) {
      throw new ShapeError(
        `oneHot() needs an integer from 0 to 2^31 as classes, got ${describe(classes)}`,
      );
    }
    return [{ shape: [...x.layout.shape, classes], dtype: DTYPE[dtype as DType] }];
  },
  decompose(call) {
    const x = call.operand(0);
    const { classes, dtype } = call.attributes as { classes: number; dtype: DType };
    if (x.layout.size > 0) {
      const extreme = (op: typeof REDUCE.max | typeof REDUCE.min): number => {
        const found = reduce(op, x, undefined);
        return Number(readElement(found.storage, found.layout.offset));
      };
      const [low, high] = [extreme(REDUCE.min), extreme(REDUCE.max)];
      if (low < 0 || high >= classes) {
        throw new IndexError(
          `Cannot oneHot ${low < 0 ? low : high} to ${classes} classes: it is not 0 to ${
            classes - 1
          }`,
        );
      }
    }
    // All are classes at this point, which int32 can represent, while the dtype of `x` may not
    // represent all classes.
    const column = contiguousCopy(operand(x.storage, x.layout.expandDims(-1, call.name)), "int32");
    return contiguousCopy(apply(MAP.equal, column, iota(column.storage, classes)), dtype);
  },
});

/** Class numbers as one-hot rows. */
export function oneHot(x: Operand, classes: number, dtype: DType): Operand {
  return dispatch(ONE_HOT, [x], { classes, dtype });
}
