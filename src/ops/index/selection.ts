/**
 * The elements at an index: arguments of every kind become blocks of elements and vectors of
 * indices, which kernels gather and scatter.
 *
 * @module
 */
import { looseCopy, writeValue } from "../../core/copy.ts";
import { DTYPE } from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { DTypeError, IndexError, ShapeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import {
  broadcastAll,
  checkRank,
  formatShape,
  listIn,
  MAX_RANK,
  normalizeAxis,
  pickedShape,
  sameShape,
} from "../../base/shape.ts";
import { type BasicIndex, notAnIndex, ownSlice, parseOne, sliceAxisBy } from "../../base/slice.ts";
import { apply } from "../../core/apply.ts";
import { run } from "../../core/dispatch.ts";
import { adopt } from "../../core/foreign.ts";
import { tidy, wrap } from "../../core/handles.ts";
import { overlaps } from "../../core/write.ts";
import { readElement, writeElement } from "../../memory/element.ts";
import { isOperandArgument, type Operand } from "../../memory/operand.ts";
import { allocateIn, sendTo } from "../../memory/device.ts";
import { allocate, recycle } from "../../memory/pool.ts";
import type { Storage } from "../../memory/storage.ts";
import { checkDevice, checkOperand } from "../../table/infer.ts";
import { INDEX } from "./kernels.ts";
import { Call, type Input } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { flatParts, MOST_INT32 } from "../reduce/large_index.ts";
import { reduce } from "../reduce/op.ts";

/** One argument of an index: see `Tensor.slice`. */
export type IndexArgument = BasicIndex | Operand | readonly number[] | readonly boolean[];

export function operand(storage: Storage, layout: Layout): Operand {
  return { storage, layout, flags: 0 };
}

// ---- vectors of indices ------------------------------------------------------------------------

/** A vector of the contents of `storage`, on the device of `like`. */
export function vector(like: Storage, storage: Storage): Operand {
  const { length } = storage;
  return wrap(sendTo(like.memory, storage), Layout.contiguous([length]));
}

/** `at(0)`, `at(1)`, … `at(n - 1)`, which must fit int32, on the device of `like`. */
export function indicesBy(like: Storage, n: number, at: (i: number) => number): Operand {
  const storage = allocate("int32", n, false);
  const array = storage.array as Int32Array;
  for (let i = 0; i < n; i++) array[i] = at(i);
  return vector(like, storage);
}

/** 0, 1, … n - 1 as int32, on the device of `like`. */
export function iota(like: Storage, n: number): Operand {
  return indicesBy(like, n, (i) => i);
}

export function checkInteger(name: string, value: unknown): void {
  if (Number.isInteger(value)) return;
  const advice = Array.isArray(value) ? '; tensor(…, { dtype: "int32" }) makes one of it' : "";
  throw new IndexError(`Cannot ${name} at ${describe(value)}: an index is an integer${advice}`);
}

/** A vector of integers: int32, or int64 if one does not fit int32; on the device of `like`. */
export function integers(name: string, like: Storage, values: readonly unknown[]): Operand {
  let wide = false;
  const { min, max } = DTYPE.int32;
  for (const value of values) {
    checkInteger(name, value);
    if (value as number < min || value as number > max) wide = true;
  }
  if (!wide) return indicesBy(like, values.length, (i) => values[i] as number);
  const storage = allocate("int64", values.length, false);
  for (let i = 0; i < values.length; i++) writeElement(storage, i, values[i] as number);
  return vector(like, storage);
}

/**
 * An argument of an index as a call keeps it: a checked copy of an array, an operand for a tensor of
 * another copy of the library.
 */
export function ownIndex<T>(argument: T, name: string): T {
  if (typeof argument !== "object") return argument;
  const list = listIn(argument, (one) => {
    if (typeof one !== "boolean") checkInteger(name, one);
    return one;
  });
  return list === undefined ? ownSlice(adopt(argument, name), name) : list as T;
}

/** {@link ownIndex} of every argument. Not by {@link listOf}, which has too many kinds of callers. */
export function ownIndexes(given: readonly IndexArgument[], name: string): IndexArgument[] {
  const own: IndexArgument[] = [];
  const { length } = given;
  // Null makes an axis.
  if (length > 2 * MAX_RANK) checkRank(length, name);
  for (let i = 0; i < length; i++) own.push(ownIndex(given[i]!, name));
  return own;
}

/** Converts an array of the call to a tensor of indices or a mask, on the device of `like`. */
export function fromArray(name: string, like: Storage, list: readonly unknown[]): Operand {
  if (list.length > 0 && list.every((value) => typeof value === "boolean")) {
    const storage = allocate("bool", list.length, false);
    list.forEach((value, i) => storage.array[i] = value ? 1 : 0);
    return vector(like, storage);
  }
  return integers(name, like, list);
}

/** Indices along one axis, as methods accept them. */
export type Indices = Operand | readonly number[] | number;

/** Throws unless `indices` are integers. */
export function checkIndices(name: string, indices: Indices): void {
  if (isOperandArgument(indices)) {
    checkOperand(indices, name);
    const { kind, name: dtype } = indices.storage.info;
    if (kind !== "i" && kind !== "u") {
      throw new DTypeError(`Cannot ${name} by a tensor of ${dtype}: indexes are integers`);
    }
  } else if (
    typeof indices !== "number" && (!Array.isArray(indices) || typeof indices[0] === "boolean")
  ) {
    throw new DTypeError(
      `Cannot ${name} by ${
        Array.isArray(indices) ? "booleans" : describe(indices)
      }: indexes are integers`,
    );
  } else if (typeof indices === "number") checkInteger(name, indices);
  else for (const index of indices) checkInteger(name, index);
}

/** A tensor of checked `indices`; a new one is on the device of `like`. */
export function toIndices(name: string, like: Storage, indices: Indices): Operand {
  if (isOperandArgument(indices)) return indices;
  if (typeof indices !== "number") return integers(name, like, indices);
  const one = integers(name, like, [indices]);
  return operand(one.storage, Layout.contiguous([], one.layout.offset));
}

/** A call passes a tensor of indices as an input, and other indices as an attribute. */
export function asInput(indices: Indices): Operand | undefined {
  return isOperandArgument(indices) ? indices : undefined;
}

export function asAttribute(indices: Indices): Indices | undefined {
  return isOperandArgument(indices) ? undefined : indices;
}

export function indicesOf(call: Call): Indices {
  return (call.inputs[1] as Operand | undefined) ?? call.attributes.indices;
}

// ---- nonzero -----------------------------------------------------------------------------------

/** For masks up to this size, JavaScript takes less time than two calls of a backend. */
export const SMALL_MASK = 128;

/** The most elements of a part whose nonzero elements are found at once, if int32 does not count all. */
const PART = 2 ** 28;

/**
 * The flat indices of the nonzero elements, in a new storage: int32, or int64 for more elements than
 * `most`, which are found in parts.
 */
export function flatNonzero(
  x: Operand,
  name: string,
  most: number = MOST_INT32,
  part: number = PART,
): Operand {
  if (x.layout.size > most) {
    const find = (one: Operand): Operand => {
      const storage = countedNonzero(one, name);
      return wrap(storage, Layout.contiguous([storage.length]));
    };
    return tidy(() => looseCopy(flatParts(x, find, part)));
  }
  const storage = smallNonzero(x) ?? countedNonzero(x, name);
  return operand(storage, Layout.contiguous([storage.length]));
}

export function countedNonzero(x: Operand, name: string): Storage {
  const count = tidy(() => {
    const counted = reduce(REDUCE.countNonzero, x, undefined, undefined, name);
    return Number(readElement(counted.storage, counted.layout.offset));
  });
  const storage = allocateIn(x.storage.memory, DTYPE.int32, count, false);
  const call = new Call(INDEX.nonzeroIndices, name, [x], { count });
  call.outputs[0] = operand(storage, Layout.contiguous([count]));
  run(call);
  return storage;
}

/** The same for a small contiguous mask; undefined for others. */
export function smallNonzero({ storage: mask, layout }: Operand): Storage | undefined {
  const { contiguous, offset, size } = layout;
  if (size > SMALL_MASK || !contiguous || mask.info.kind !== "b" || mask.memory !== null) {
    return undefined;
  }
  const { array } = mask;
  let count = 0;
  for (let i = 0; i < size; i++) if (array[offset + i] !== 0) count++;
  const storage = allocate("int32", count, true);
  // Another thread may write to the mask meanwhile: remaining entries then pick the first element.
  for (let i = 0, place = 0; i < size && place < count; i++) {
    if (array[offset + i] !== 0) storage.array[place++] = i;
  }
  return storage;
}

/** Converts flat indices into `shape` to one vector of indices for each axis. */
export function unravel(flat: Operand, shape: readonly number[]): Operand[] {
  let rest = flat;
  const axes: Operand[] = [];
  for (let axis = shape.length - 1; axis > 0; axis--) {
    const n = Math.max(1, shape[axis]!);
    axes.unshift(apply(MAP.remainder, rest, n));
    rest = apply(MAP.floorDivide, rest, n);
  }
  return [rest, ...axes];
}

export function nonzeroAxes(x: Operand, name: string): Operand[] {
  const { storage, layout } = flatNonzero(x, name);
  return unravel(wrap(storage, layout), x.layout.shape);
}

export function checkNonzero(x: Input, name: string): asserts x is Operand {
  checkOperand(x, name);
  if (x.layout.shape.length === 0) {
    throw new ShapeError(`Cannot ${name} shape []: it has no axes; use expandDims()`);
  }
}

// ---- what an index picks -----------------------------------------------------------------------

export function isBasic(argument: IndexArgument): argument is BasicIndex {
  return argument === null || typeof argument !== "object" ||
    (!Array.isArray(argument) && !isOperandArgument(argument));
}

/** The elements at an index with tensors, and the blocks of the source. */
export interface Selection {
  /** The indices, contiguous. */
  readonly indices: Operand;
  /** The indexed axis of the source; -1 if the indices are flat positions. */
  readonly axis: number;
  /** Whether their memory is new, and only this call holds it. */
  readonly own: boolean;
  /** The selectable elements, with the indexed axis at `place`. */
  readonly source: Layout;
  /** The result's shape, and the position in it of the axes of the indices. */
  readonly shape: readonly number[];
  readonly place: number;
}

/**
 * The selection by one tensor along the first axis, as {@link select} returns it for any arguments.
 */
export function selectFirst(name: string, x: Operand, index: Operand): Selection | undefined {
  const { shape } = x.layout;
  const { kind } = index.storage.info;
  if (shape.length === 0 || kind === "f") return undefined;
  checkOperand(index, name);
  checkDevice(x.storage, index.storage, name);
  let flat = index;
  if (kind === "b") {
    if (index.layout.shape.length !== 1 || index.layout.shape[0] !== shape[0]) return undefined;
    flat = flatNonzero(index, name);
  }
  return selectAlong(name, x, flat, 0, flat !== index);
}

/** Calls `use` with the selection of the arguments. */
export function withIndices<R>(
  name: string,
  x: Operand,
  given: readonly IndexArgument[],
  use: (what: Selection) => R,
): R {
  if (given.length === 1 && isOperandArgument(given[0])) {
    const found = selectFirst(name, x, given[0]);
    if (found !== undefined) return spend(found, use);
  }
  return tidy(() => spend(select(name, x, partsOf(name, x, given)), use));
}

/** Calls `use` with a selection, and then frees its memory. */
export function spend<R>(what: Selection, use: (what: Selection) => R): R {
  try {
    return use(what);
  } finally {
    if (what.own) recycle(what.indices.storage);
  }
}

/** The arguments with `:` for the axes without one. */
export function completeArguments(
  name: string,
  x: Operand,
  given: readonly IndexArgument[],
): (BasicIndex | Operand)[] {
  const { shape } = x.layout;
  const args = given.map((argument): BasicIndex | Operand => {
    if (Array.isArray(argument)) return fromArray(name, x.storage, argument);
    return typeof argument === "string"
      ? parseOne(argument, name)
      : argument as BasicIndex | Operand;
  });
  const axesOf = (argument: BasicIndex | Operand): number =>
    argument === null || argument === "..."
      ? 0
      : isOperandArgument(argument) && argument.storage.info.kind === "b"
      ? argument.layout.shape.length
      : 1;
  const used = args.reduce<number>((sum, argument) => sum + axesOf(argument), 0);
  const ellipses = args.filter((argument) => argument === "...").length;
  if (used > shape.length || ellipses > 1) throw notAnIndex(name, shape, used, ellipses);
  const dots = args.indexOf("...");
  const full: ":"[] = new Array(shape.length - used).fill(":");
  if (dots === -1) args.push(...full);
  else if (full.length > 0) args.splice(dots, 1, ...full);
  return args;
}

/**
 * The tensors among the arguments, each with its axis, and the layout of the sliced axes. A mask of
 * rank 0 has no axis, -1: as in NumPy, it picks everything once or not at all, along a new axis.
 */
export interface Parts {
  readonly tensors: { readonly tensor: Operand; readonly axis: number }[];
  readonly block: Layout;
  /** The position of the picked axes in the result. */
  readonly place: number;
}

export function partsOf(name: string, x: Operand, given: readonly IndexArgument[]): Parts {
  const { layout } = x;
  const blockShape: number[] = [];
  const blockStrides: number[] = [];
  let { offset } = layout;
  const tensors: { tensor: Operand; axis: number }[] = [];
  let place = -1;
  let apart = false;
  let last = -1;
  let axis = 0;
  completeArguments(name, x, given).forEach((argument, i) => {
    // Dots for no axis still separate the tensors on either side, as in NumPy.
    if (argument === "...") return;
    if (argument === null) {
      blockShape.push(1);
      blockStrides.push(0);
      return;
    }
    if (!isOperandArgument(argument)) {
      const part = sliceOf(name, layout, axis, argument);
      offset += part.offset;
      if (part.shape.length === 1) {
        blockShape.push(part.shape[0]!);
        blockStrides.push(part.strides[0]!);
        axis++;
        return;
      }
    }
    // Next to tensors, a number counts as a tensor, as in NumPy.
    if (place === -1) place = blockShape.length;
    else if (last !== i - 1) apart = true;
    last = i;
    if (!isOperandArgument(argument)) {
      axis++;
      return;
    }
    const picked = indexTensors(name, x, argument, axis);
    if (isMaskOfAll(argument)) tensors.push({ tensor: picked[0]!, axis: -1 });
    else for (const tensor of picked) tensors.push({ tensor, axis: axis++ });
  });
  const block = new Layout(blockShape, blockStrides, offset);
  return { tensors, block, place: apart ? 0 : place };
}

function isMaskOfAll({ storage, layout }: Operand): boolean {
  return storage.info.kind === "b" && layout.shape.length === 0;
}

/** The size and the stride of an axis that is indexed; of none: one element, which is all. */
function axisOf({ shape, strides }: Layout, axis: number): [size: number, stride: number] {
  return axis < 0 ? [1, 0] : [shape[axis]!, strides[axis]!];
}

/** The index tensors of `argument`, from `axis` on: a mask stands for one for each axis. */
export function indexTensors(name: string, x: Operand, argument: Operand, axis: number): Operand[] {
  checkOperand(argument, name);
  checkDevice(x.storage, argument.storage, name);
  const { kind, name: dtype } = argument.storage.info;
  if (kind === "f") {
    throw new DTypeError(`Cannot ${name} by a tensor of ${dtype}: indexes are integers or bools`);
  }
  if (kind !== "b") return [argument];
  const { shape } = argument.layout;
  const covered = x.layout.shape.slice(axis, axis + shape.length);
  if (!sameShape(shape, covered)) {
    throw new IndexError(
      `Cannot ${name} shape ${formatShape(x.layout.shape)} by a mask of shape ${
        formatShape(shape)
      }: its axes ${axis} to ${axis + shape.length - 1} are ${formatShape(covered)}`,
    );
  }
  return nonzeroAxes(argument, name);
}

/** The shape that the indices of several tensors have together. */
function broadcastPicked(name: string, { tensors }: Parts): readonly number[] {
  if (tensors.length === 1) return tensors[0]!.tensor.layout.shape;
  return broadcastAll(name, tensors.map(({ tensor }) => tensor.layout.shape));
}

/** The shape of the selected elements. */
export function shapeOf(name: string, parts: Parts): number[] {
  const { shape } = parts.block;
  const picked = broadcastPicked(name, parts);
  checkRank(shape.length + picked.length, name);
  return shape.toSpliced(parts.place, 0, ...picked);
}

/** The selection of checked arguments. */
export function select(name: string, x: Operand, parts: Parts): Selection {
  const { layout } = x;
  const { tensors, block, place } = parts;
  const picked = broadcastPicked(name, parts);
  const shape = shapeOf(name, parts);
  if (tensors.length === 1) {
    const { tensor, axis } = tensors[0]!;
    const source = withAxis(block, place, ...axisOf(layout, axis), 0);
    return { ...pickAlong(x, tensor), axis, source, shape, place };
  }

  // Several indices select like one index along an axis of all positions that they can reach.
  let size = 1;
  let before = 0;
  for (const { axis } of tensors) {
    const [n, stride] = axisOf(layout, axis);
    const reach = Math.max(0, n - 1) * stride;
    size += Math.abs(reach);
    if (reach < 0) before -= reach;
  }
  const target = Layout.contiguous(picked);
  const dtype = DTYPE[x.storage.needsInt64Index ? "int64" : "int32"];
  const positions = operand(
    allocateIn(x.storage.memory, dtype, target.size, before === 0),
    target,
  );
  if (before !== 0) writeValue(positions, before);
  for (const { tensor, axis } of tensors) {
    const index = operand(tensor.storage, tensor.layout.broadcastTo(picked));
    const [n, stride] = axisOf(layout, axis);
    const call = new Call(INDEX.ravelIndex, name, [positions, index], { size: n, stride });
    run(call);
    if (call.badIndex >= 0) throw outOfRange(name, layout, axis, index, call.badIndex);
  }
  const source = withAxis(block, place, size, 1, -before);
  return { indices: positions, axis: -1, own: true, source, shape, place };
}

/** `layout` with another axis at `place`, and its offset moved by `by`. */
function withAxis(
  { shape, strides, offset }: Layout,
  place: number,
  size: number,
  stride: number,
  by: number,
): Layout {
  return new Layout(
    shape.toSpliced(place, 0, size),
    strides.toSpliced(place, 0, stride),
    offset + by,
  );
}

/** The selection by `index` along one axis of `x`; `own` if the indices are the call's already. */
export function selectAlong(
  name: string,
  x: Operand,
  index: Operand,
  axis: number,
  own: boolean,
): Selection {
  const found = pickAlong(x, index);
  const { layout } = x;
  const shape = pickedShape(layout.shape, axis, index.layout.shape, name);
  const { indices } = found;
  return { indices, axis, own: own || found.own, source: layout, shape, place: axis };
}

/**
 * `index`, contiguous, where neither a write to `x` nor another thread changes it after a kernel has
 * checked it; `own` if it had to be copied.
 */
function pickAlong(x: Operand, index: Operand): Pick<Selection, "indices" | "own"> {
  const { storage, layout } = index;
  const isShared = storage.exposed && storage.shared;
  const usable = layout.contiguous && !isShared && !overlaps(x, index);
  return { indices: usable ? index : looseCopy(index), own: !usable };
}

/** The error of index `bad`, counted in row-major order. */
export function outOfRange(
  name: string,
  { shape }: Layout,
  axis: number,
  indices: Operand,
  bad: number,
): IndexError {
  const { storage, layout } = indices.layout.contiguous ? indices : looseCopy(indices);
  return new IndexError(
    `Cannot ${name} axis ${axis} of shape ${formatShape(shape)} at ${
      readElement(storage, layout.offset + bad)
    }: it has size ${shape[axis]}`,
  );
}

/** The error of class `bad` of `indices`, whose negative ones are `size` lower than what was asked for. */
export function unknownClass(
  name: string,
  { shape }: Layout,
  axis: number,
  indices: Operand,
  bad: number,
): IndexError {
  const { storage, layout } = looseCopy(indices);
  const size = shape[axis]!;
  const index = Number(readElement(storage, layout.offset + bad));
  const place: number[] = [];
  let rest = bad;
  for (const n of indices.layout.shape.toReversed()) {
    place.unshift(rest % n);
    rest = Math.floor(rest / n);
  }
  const row = place.toSpliced(axis, 1);
  return new IndexError(
    `Cannot ${name} with class ${index < 0 ? index + size : index}${
      row.length === 0 ? "" : ` at ${formatShape(row)}`
    } of the targets: there are ${size} classes`,
  );
}

/**
 * Slices one axis, with the axis and the whole shape in the error; the offset is the one to add.
 */
export function sliceOf(name: string, layout: Layout, axis: number, argument: BasicIndex): Layout {
  const line = new Layout([layout.shape[axis]!], [layout.strides[axis]!], 0);
  if (typeof argument === "number") {
    return line.selectAxis(0, layout.checkIndex(name, axis, argument));
  }
  return sliceAxisBy(line, 0, argument, name, axis);
}

/** Checks indices along an axis, whose rank must be the input's; returns the axis. */
export function checkAlong(call: Call, indices: Indices): number {
  const { inputs: [x], name, attributes } = call;
  checkOperand(x, name);
  const rank = x.layout.shape.length;
  const axis = normalizeAxis(name, attributes.axis, rank);
  checkIndices(name, indices);
  const shape = isOperandArgument(indices)
    ? indices.layout.shape
    : typeof indices === "number"
    ? []
    : [indices.length];
  if (shape.length !== rank) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(x.layout.shape)} by indexes of shape ${
        formatShape(shape)
      }: the ranks differ`,
    );
  }
  if (isOperandArgument(indices)) checkDevice(x.storage, indices.storage, name);
  return axis;
}

/** One index tensor for each axis, so that element `indices[i, j, …]` replaces i, j, … at `axis`. */
export function alongAxis(x: Operand, axis: number, indices: Operand): Operand[] {
  return x.layout.shape.map((n, i) => {
    if (i === axis) return indices;
    const places = iota(x.storage, n);
    const shape = x.layout.shape.map((_, j) => i === j ? n : 1);
    return operand(places.storage, Layout.contiguous(shape, places.layout.offset));
  });
}

/** Throws the error for the index at place `bad`, if there is one. */
export function checkFound(
  name: string,
  layout: Layout,
  { axis, indices }: Selection,
  bad: number,
): void {
  if (bad >= 0) throw outOfRange(name, layout, axis, indices, bad);
}

/** The arguments of a call of an index op, whose tensors are its inputs from `from` on. */
export function argumentsOf(call: Call, from: number): IndexArgument[] {
  let next = from;
  return (call.attributes.index as readonly IndexArgument[]).map((argument) =>
    isOperandArgument(argument) ? call.operand(next++) : argument
  );
}
