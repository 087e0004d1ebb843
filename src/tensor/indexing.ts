/**
 * Reading and writing by numbers, slices, masks and integer tensors, with NumPy's rules.
 *
 * Numbers and slices only move the layout. A mask or a tensor of integers picks along one axis, by
 * the backend's gather or scatter; several together are first made into positions of elements, which
 * then pick as one index does. Indexes are all checked before anything is written.
 *
 * @module
 */
import { backendFor, type Picks } from "../core/backend.ts";
import {
  checkDType,
  checkScalar,
  describe,
  DTYPE,
  type DType,
  type Scalar,
} from "../base/dtype.ts";
import {
  apply,
  applyReduce,
  applyTo,
  checkDevice,
  checkOperand,
  checkOptions,
  checkStore,
  contiguousCopy,
  fill,
  fillScalar,
  isOperand,
  isScalar,
  lens,
  type Operand,
  overlaps,
  packed,
  prepareWrite,
  recycleCopy,
  result,
  resultDType,
  tidily,
  undisturbed,
  withDense,
} from "../core/dispatch.ts";
import { readElement, writeElement } from "../memory/element.ts";
import { DTypeError, IndexError, ShapeError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import { called, MAP, REDUCE } from "../ops/table.ts";
import { planMap } from "../core/plan.ts";
import {
  broadcastAll,
  broadcastShapes,
  formatShape,
  normalizeAxis,
  sameShape,
} from "../base/shape.ts";
import {
  type BasicIndex,
  notAnIndex,
  parseIndexString,
  parseOne,
  sliceAxisBy,
  sliceBasic,
} from "../base/slice.ts";
import { allocate, allocateIn, recycle, sendTo, type Storage } from "../memory/storage.ts";

/** One argument of an index: see `Tensor.slice`. */
export type IndexArgument = BasicIndex | Operand | readonly number[] | readonly boolean[];

/** A vector of what has been written to `storage`, on the device of `like`. */
function vector(like: Storage, storage: Storage): Operand {
  const { length } = storage;
  return result(sendTo(like.memory, storage), Layout.contiguous([length]));
}

/** `at(0)`, `at(1)`, … `at(n - 1)`, which int32 must hold, on the device of `like`. */
export function indexesBy(like: Storage, n: number, at: (i: number) => number): Operand {
  const storage = allocate("int32", n, false);
  const array = storage.array as Int32Array;
  for (let i = 0; i < n; i++) array[i] = at(i);
  return vector(like, storage);
}

/** 0, 1, … n - 1 as int32, on the device of `like`. */
export function iota(like: Storage, n: number): Operand {
  return indexesBy(like, n, (i) => i);
}

/** A vector of integers: int32, or int64 where one is too large for that; on the device of `like`. */
function integers(op: string, like: Storage, values: readonly unknown[]): Operand {
  let wide = false;
  for (const value of values) {
    if (!Number.isInteger(value)) {
      const advice = Array.isArray(value) ? '; tensor(…, { dtype: "int32" }) makes one of it' : "";
      throw new IndexError(`Cannot ${op} at ${describe(value)}: an index is an integer${advice}`);
    }
    const { min, max } = DTYPE.int32;
    if (value as number < min || value as number > max) wide = true;
  }
  if (!wide) return indexesBy(like, values.length, (i) => values[i] as number);
  const storage = allocate("int64", values.length, false);
  for (let i = 0; i < values.length; i++) writeElement(storage, i, values[i] as number);
  return vector(like, storage);
}

function isBasic(argument: IndexArgument): argument is BasicIndex {
  return argument === null || typeof argument !== "object" ||
    (!Array.isArray(argument) && !isOperand(argument));
}

/** What an index with tensors in it picks, and the blocks that lie there. */
interface Selection {
  /** One index for each place of `shape`'s picked axes. */
  readonly picks: Picks;
  /** The axis that they are of; -1 where they are positions. */
  readonly axis: number;
  /** Whether their memory was made for this call, and nothing else holds it. */
  readonly own: boolean;
  /** The source's layout along the axes that are sliced, not picked. */
  readonly block: Layout;
  /** The result's shape, and the place in it where the `picked` axes stand. */
  readonly shape: number[];
  readonly place: number;
  readonly picked: readonly number[];
}

/** Turns a JavaScript array into a tensor of indexes or a mask, on the device of `like`. */
function fromArray(op: string, like: Storage, values: readonly unknown[]): Operand {
  if (values.length > 0 && values.every((value) => typeof value === "boolean")) {
    const storage = allocate("bool", values.length, false);
    values.forEach((value, i) => storage.array[i] = value ? 1 : 0);
    return vector(like, storage);
  }
  return integers(op, like, values);
}

/** The places of the nonzero elements, one int32 vector for each axis. */
export function nonzero(x: Operand, op = "nonzero"): Operand[] {
  checkOperand(x, op);
  const { shape } = x.layout;
  if (shape.length === 0) {
    throw new ShapeError(`Cannot ${op} shape []: it has no axes; use expandDims()`);
  }
  return tidily(() => {
    const storage = placesOf(x);
    let rest = result(storage, Layout.contiguous([storage.length]));
    const axes: Operand[] = [];
    for (let axis = shape.length - 1; axis > 0; axis--) {
      const n = Math.max(1, shape[axis]!);
      axes.unshift(apply(MAP.remainder, rest, n));
      rest = apply(MAP.floorDivide, rest, n);
    }
    return [rest, ...axes];
  });
}

/** Where the nonzero elements are, counted in order: on a storage that nobody else sees. */
function placesOf(x: Operand): Storage {
  return placesIn(x) ?? placesBy(x);
}

const COUNT = called(REDUCE.countNonzero, "nonzero");

/** The same, found by the backend. */
function placesBy(x: Operand): Storage {
  const count = tidily(() => {
    const counted = applyReduce(COUNT, x, undefined);
    return Number(readElement(counted.storage, counted.layout.offset));
  });
  const storage = allocateIn(x.storage.memory, DTYPE.int32, count, false);
  withDense(x, ({ storage: from, layout: { offset, size } }) => {
    backendFor(from).nonzero(storage, from, offset, size);
  });
  return storage;
}

/** Masks of up to so many elements take JavaScript less time than two calls of a backend. */
const SMALL_MASK = 128;

/** The same for a small dense mask; undefined for others. */
function placesIn({ storage: mask, layout }: Operand): Storage | undefined {
  const { contiguous, offset, size } = layout;
  if (size > SMALL_MASK || !contiguous || mask.info.kind !== "b" || mask.memory !== null) {
    return undefined;
  }
  const { array } = mask;
  let count = 0;
  for (let i = 0; i < size; i++) if (array[offset + i] !== 0) count++;
  const storage = allocate("int32", count, true);
  // Another thread may write to the mask meanwhile: what is then left over picks the first.
  for (let i = 0, place = 0; i < size && place < count; i++) {
    if (array[offset + i] !== 0) storage.array[place++] = i;
  }
  return storage;
}

/** What one tensor picks from the first axis, as {@link select} finds it for any arguments. */
function selectFirst(op: string, x: Operand, index: Operand): Selection | undefined {
  const { shape, strides, offset } = x.layout;
  const { kind } = index.storage.info;
  if (shape.length === 0 || kind === "f") return undefined;
  checkOperand(index, op);
  checkDevice(x.storage, index.storage, op);
  if (kind === "b") {
    if (index.layout.shape.length !== 1 || index.layout.shape[0] !== shape[0]) return undefined;
    const storage = placesOf(index);
    index = { storage, layout: Layout.contiguous([storage.length]), flags: 0 };
  }
  const picked = index.layout.shape;
  const rest = shape.slice(1);
  const block = new Layout(rest, strides.slice(1), offset);
  const { picks, own } = picksOf(x, index, 0);
  return {
    shape: [...picked, ...rest],
    place: 0,
    picked,
    picks,
    axis: 0,
    own: own || kind === "b",
    block,
  };
}

/** What `use` gives for what the arguments pick. */
function selecting<R>(
  op: string,
  x: Operand,
  given: readonly IndexArgument[],
  use: (what: Selection) => R,
): R {
  if (given.length === 1 && isOperand(given[0])) {
    const found = selectFirst(op, x, given[0]);
    if (found !== undefined) return spend(found, use);
  }
  return tidily(() => spend(select(op, x, given), use));
}

/** What `use` gives for a selection, whose memory is then given back. */
function spend<R>(what: Selection, use: (what: Selection) => R): R {
  try {
    return use(what);
  } finally {
    if (what.own) recycle(what.picks.indexes);
  }
}

function select(op: string, x: Operand, given: readonly IndexArgument[]): Selection {
  const { layout } = x;
  const rank = layout.shape.length;
  const args = given.map((argument): BasicIndex | Operand => {
    if (Array.isArray(argument)) return fromArray(op, x.storage, argument);
    return typeof argument === "string" ? parseOne(argument, op) : argument as BasicIndex | Operand;
  });
  const axesOf = (argument: BasicIndex | Operand): number =>
    argument === null || argument === "..."
      ? 0
      : isOperand(argument) && argument.storage.info.kind === "b"
      ? argument.layout.shape.length
      : 1;
  const used = args.reduce<number>((sum, argument) => sum + axesOf(argument), 0);
  const ellipses = args.filter((argument) => argument === "...").length;
  if (used > rank || ellipses > 1) throw notAnIndex(op, layout.shape, used, ellipses);
  const dots = args.indexOf("...");
  const full: ":"[] = new Array(rank - used).fill(":");
  if (dots === -1) args.push(...full);
  else if (full.length > 0) args.splice(dots, 1, ...full);

  const blockShape: number[] = [];
  const blockStrides: number[] = [];
  let offset = layout.offset;
  const indexes: { tensor: Operand; axis: number }[] = [];
  let place = -1;
  let apart = false;
  let last = -1;
  let axis = 0;
  args.forEach((argument, i) => {
    // Dots for no axis still part the tensors on either side, as in NumPy.
    if (argument === "...") return;
    if (argument === null) {
      blockShape.push(1);
      blockStrides.push(0);
      return;
    }
    const tensor = isOperand(argument);
    const line = new Layout([layout.shape[axis]!], [layout.strides[axis]!], 0);
    if (!tensor) {
      const part = lineSlice(op, layout, axis, line, argument);
      offset += part.offset;
      if (part.shape.length === 1) {
        blockShape.push(part.shape[0]!);
        blockStrides.push(part.strides[0]!);
        axis++;
        return;
      }
    }
    // Beside tensors a number counts as one of them, as in NumPy.
    if (place === -1) place = blockShape.length;
    else if (last !== i - 1) apart = true;
    last = i;
    if (!tensor) {
      axis++;
      return;
    }
    checkOperand(argument, op);
    checkDevice(x.storage, argument.storage, op);
    const { kind, name } = argument.storage.info;
    if (kind === "b") {
      const { shape } = argument.layout;
      const covered = layout.shape.slice(axis, axis + shape.length);
      if (!sameShape(shape, covered)) {
        throw new IndexError(
          `Cannot ${op} shape ${formatShape(layout.shape)} by a mask of shape ${
            formatShape(shape)
          }: its axes ${axis} to ${axis + shape.length - 1} are ${formatShape(covered)}`,
        );
      }
      for (const tensor of nonzero(argument, op)) indexes.push({ tensor, axis: axis++ });
    } else if (kind === "f") {
      throw new DTypeError(`Cannot ${op} by a tensor of ${name}: indexes are integers or bools`);
    } else indexes.push({ tensor: argument, axis: axis++ });
  });
  if (apart) place = 0;

  const picked = broadcastAll(op, indexes.map(({ tensor }) => tensor.layout.shape));
  const shape = blockShape.toSpliced(place, 0, ...picked);
  const found = { shape, place, picked };
  if (indexes.length === 1) {
    const { tensor, axis } = indexes[0]!;
    const block = new Layout(blockShape, blockStrides, offset);
    return { ...found, ...picksOf(x, tensor, axis), axis, block };
  }

  // Several indexes pick as one does from an axis of all positions that they can reach.
  let size = 1;
  let before = 0;
  for (const { axis } of indexes) {
    const reach = Math.max(0, layout.shape[axis]! - 1) * layout.strides[axis]!;
    size += Math.abs(reach);
    if (reach < 0) before -= reach;
  }
  const target = Layout.contiguous(picked);
  const { huge, memory } = x.storage;
  const dtype = DTYPE[huge ? "int64" : "int32"];
  const positions = allocateIn(memory, dtype, target.size, before === 0);
  if (before !== 0) fillScalar(positions, target, before);
  const backend = backendFor(x.storage);
  for (const { tensor, axis } of indexes) {
    const index = tensor.layout.broadcastTo(picked);
    const plan = planMap(target, index, null, null);
    const n = layout.shape[axis]!;
    const bad = backend.position(plan, positions, tensor.storage, n, layout.strides[axis]!);
    if (bad >= 0) {
      const { storage } = packed(lens(tensor, index), tensor.storage.info);
      throw outOfRange(op, layout, axis, { indexes: storage, offset: 0 }, bad);
    }
  }
  const picks = { indexes: positions, offset: 0, count: target.size, size, stride: 1 };
  const block = new Layout(blockShape, blockStrides, offset - before);
  return { ...found, picks, axis: -1, own: true, block };
}

/** What the elements of `index` pick from one axis of `x`; `own` if they had to be copied. */
function picksOf(x: Operand, index: Operand, axis: number): Pick<Selection, "picks" | "own"> {
  // What is written must not change the indexes on the way.
  const usable = index.layout.contiguous && !overlaps(x, index);
  const { storage, layout } = usable ? index : packed(index, index.storage.info);
  const size = x.layout.shape[axis]!;
  const stride = x.layout.strides[axis]!;
  const { offset, size: count } = layout;
  return { picks: { indexes: storage, offset, count, size, stride }, own: !usable };
}

/** What to throw for the index in place `bad`. */
function outOfRange(
  op: string,
  { shape }: Layout,
  axis: number,
  { indexes, offset }: Pick<Picks, "indexes" | "offset">,
  bad: number,
): IndexError {
  return new IndexError(
    `Cannot ${op} axis ${axis} of shape ${formatShape(shape)} at ${
      readElement(indexes, offset + bad)
    }: it has size ${shape[axis]}`,
  );
}

/** Slices one axis, with the axis and the whole shape in the error. */
function lineSlice(
  op: string,
  layout: Layout,
  axis: number,
  line: Layout,
  argument: BasicIndex,
): Layout {
  if (typeof argument === "number") {
    return line.selectAxis(0, layout.checkIndex(op, axis, argument));
  }
  return sliceAxisBy(line, 0, argument, op, axis);
}

/** The layout of the axes of `dense` that belong to the blocks, and the step from pick to pick. */
function blockOf(layout: Layout, { place, picked }: Selection): { block: Layout; step: number } {
  let step = 0;
  // The picked axes are dense among themselves: the innermost that counts gives the step.
  for (let i = place + picked.length - 1; i >= place && step === 0; i--) {
    if (layout.shape[i] !== 1) step = layout.strides[i]!;
  }
  const shape = layout.shape.toSpliced(place, picked.length);
  const strides = layout.strides.toSpliced(place, picked.length);
  return { block: new Layout(shape, strides, layout.offset), step };
}

/** Throws for the index in place `bad`, if there is one. */
function checkFound(op: string, layout: Layout, { axis, picks }: Selection, bad: number): void {
  if (bad >= 0) throw outOfRange(op, layout, axis, picks, bad);
}

/** A copy of what an index with arrays, masks or tensors in it picks. */
export function index(x: Operand, args: readonly IndexArgument[], op = "slice"): Operand {
  checkOperand(x, op);
  return selecting(op, x, args, (what) => gather(op, x, what));
}

/** A copy of what is picked. */
function gather(op: string, x: Operand, what: Selection): Operand {
  const layout = Layout.contiguous(what.shape);
  const storage = allocateIn(x.storage.memory, x.storage.info, layout.size, false);
  const to = blockOf(layout, what);
  const plan = planMap(to.block, what.block, null, null);
  const bad = backendFor(x.storage).gather(plan, storage, x.storage, what.picks, to.step);
  checkFound(op, x.layout, what, bad);
  return result(storage, layout);
}

/** What writing by an index takes besides. */
export interface SetOptions {
  /** Adds what is written to what is there, once for each time that the index names a place. */
  readonly accumulate?: boolean;
}

const SET_OPTIONS = ["accumulate"];
const ACCUMULATE = called(MAP.add, "accumulate");

/** Writes `value`, broadcast, to the elements of `x` that the index picks. */
export function setAt(
  x: Operand,
  given: readonly IndexArgument[] | string,
  value: Operand | Scalar,
  options?: SetOptions,
  op = "set",
): void {
  if (options !== undefined) checkOptions(op, options, SET_OPTIONS);
  const accumulate = options?.accumulate ?? false;
  prepareWrite(x, op);
  if (typeof given !== "string" && !Array.isArray(given)) {
    throw new IndexError(`Cannot ${op}: the index is an array of arguments, one for each axis`);
  }
  const args = typeof given === "string" ? parseIndexString(given, op) : given;
  const dtype = x.storage.info.name;
  if (isOperand(value)) {
    checkOperand(value, op);
    checkDevice(x.storage, value.storage, op);
    checkStore(value.storage.info.name, dtype, op);
  } else if (isScalar(value)) {
    checkScalar(dtype, value, op);
  } else throw new DTypeError(`Cannot ${op} to ${describe(value)}: expected a tensor or a scalar`);
  if (accumulate) resultDType(ACCUMULATE, dtype, ACCUMULATE.op);

  if (args.every(isBasic)) {
    const layout = sliceBasic(x.layout, args, op);
    if (accumulate) addTo(op, lens(x, layout), value);
    else if (!isOperand(value)) fillScalar(x.storage, layout, value);
    else {
      const source = broadcastValue(op, value, layout.shape);
      const safe = undisturbed(source, lens(x, layout));
      fill(x.storage, layout, safe);
      recycleCopy(safe, source);
    }
    x.storage.version++;
    return;
  }
  selecting(op, x, args, (what) => {
    const given = isOperand(value) ? broadcastValue(op, value, what.shape) : undefined;
    const source = given === undefined
      ? spread(value as Scalar, x.storage, what.shape)
      : given.storage.info.name === dtype && given.layout.contiguous && !overlaps(x, given)
      ? given
      : packed(given, x.storage.info);
    const { storage } = source;
    const from = blockOf(source.layout, what);
    const plan = planMap(what.block, from.block, null, null);
    const backend = backendFor(storage);
    const bad = backend.scatter(plan, x.storage, storage, what.picks, from.step, accumulate);
    if (source !== given) recycle(storage);
    checkFound(op, x.layout, what, bad);
  });
  x.storage.version++;
}

/** Adds `value`, in the dtype of `target`, to all of it. */
function addTo(op: string, target: Operand, value: Operand | Scalar): void {
  if (!isOperand(value)) {
    applyTo(ACCUMULATE, target, value);
    return;
  }
  const { info } = target.storage;
  const same = value.storage.info === info ? value : packed(value, info);
  applyTo(ACCUMULATE, target, broadcastValue(op, same, target.layout.shape));
  recycleCopy(same, value);
}

/** `value`, broadcast to `shape`, in the dtype and on the device of `like`: no handle. */
function spread(value: Scalar, like: Storage, shape: readonly number[]): Operand {
  const storage = allocateIn(like.memory, like.info, 1, false);
  const layout = Layout.contiguous([]);
  fillScalar(storage, layout, value);
  return { storage, layout: layout.broadcastTo(shape), flags: 0 };
}

/** A value against the shape that it is assigned to; leading axes of size 1 may be too many. */
function broadcastValue(op: string, value: Operand, shape: readonly number[]): Operand {
  let { layout } = value;
  while (layout.shape.length > shape.length && layout.shape[0] === 1) layout = layout.squeeze(0);
  if (!sameShape(broadcastShapes(op, shape, layout.shape), shape)) {
    throw new ShapeError(
      `Cannot ${op} shape ${formatShape(shape)} to a value of shape ${formatShape(layout.shape)}`,
    );
  }
  return lens(value, layout.broadcastTo(shape));
}

/** An integer tensor from what a caller gave as indexes for `like`. */
function toIndexes(
  op: string,
  like: Storage,
  indexes: Operand | readonly number[] | number,
): Operand {
  if (isOperand(indexes)) {
    checkOperand(indexes, op);
    const { kind, name } = indexes.storage.info;
    if (kind !== "i" && kind !== "u") {
      throw new DTypeError(`Cannot ${op} by a tensor of ${name}: indexes are integers`);
    }
    return indexes;
  }
  if (typeof indexes === "number") {
    const one = integers(op, like, [indexes]);
    return lens(one, Layout.contiguous([], one.layout.offset));
  }
  if (!Array.isArray(indexes) || typeof indexes[0] === "boolean") {
    throw new DTypeError(
      `Cannot ${op} by ${
        Array.isArray(indexes) ? "booleans" : describe(indexes)
      }: indexes are integers`,
    );
  }
  return integers(op, like, indexes);
}

/** The elements at `indexes` along `axis`, whose place the axes of `indexes` take. */
export function take(
  x: Operand,
  indexes: Operand | readonly number[] | number,
  axis = 0,
): Operand {
  checkOperand(x, "take");
  const along = normalizeAxis("take", axis, x.layout.shape.length);
  const run = (): Operand => {
    const tensor = toIndexes("take", x.storage, indexes);
    checkDevice(x.storage, tensor.storage, "take");
    const { shape, strides, offset } = x.layout;
    const picked = tensor.layout.shape;
    const what = {
      ...picksOf(x, tensor, along),
      axis: along,
      block: new Layout(shape.toSpliced(along, 1), strides.toSpliced(along, 1), offset),
      shape: shape.toSpliced(along, 1, ...picked),
      place: along,
      picked,
    };
    return spend(what, () => gather("take", x, what));
  };
  return isOperand(indexes) ? run() : tidily(run);
}

/** The axis, and indexes along it, of as many axes as `x`. */
function checkAlong(
  op: string,
  x: Operand,
  indexes: Operand,
  axis: number,
): { along: number; tensor: Operand } {
  checkOperand(x, op);
  const rank = x.layout.shape.length;
  const along = normalizeAxis(op, axis, rank);
  const tensor = toIndexes(op, x.storage, indexes);
  if (tensor.layout.shape.length !== rank) {
    throw new ShapeError(
      `Cannot ${op} shape ${formatShape(x.layout.shape)} by indexes of shape ${
        formatShape(tensor.layout.shape)
      }: the ranks differ`,
    );
  }
  return { along, tensor };
}

/** One index tensor for each axis, so that element `indexes[i, j, …]` replaces i, j, … at `axis`. */
function alongAxis(x: Operand, along: number, tensor: Operand): Operand[] {
  return x.layout.shape.map((n, i) => {
    if (i === along) return tensor;
    const places = iota(x.storage, n);
    const shape = x.layout.shape.map((_, j) => i === j ? n : 1);
    return lens(places, Layout.contiguous(shape, places.layout.offset));
  });
}

/** `x[…, indexes[…], …]` along `axis`: the two have one rank, and other axes broadcast. */
export function takeAlongAxis(x: Operand, indexes: Operand, axis: number): Operand {
  const op = "takeAlongAxis";
  if (!isOperand(indexes)) {
    return tidily(() => takeAlongAxis(x, toIndexes(op, x.storage, indexes), axis));
  }
  const { along, tensor } = checkAlong(op, x, indexes, axis);
  const backend = backendFor(x.storage);
  if (backend.takeAlong === undefined) {
    return tidily(() => index(x, alongAxis(x, along, tensor), op));
  }
  checkDevice(x.storage, tensor.storage, op);
  const { shape, strides, offset } = x.layout;
  // Where index 0 would read.
  const first = new Layout(shape.with(along, 1), strides.with(along, 0), offset);
  const layout = Layout.contiguous(broadcastAll(op, [first.shape, tensor.layout.shape]));
  const places = tensor.layout.broadcastTo(layout.shape);
  const storage = allocateIn(x.storage.memory, x.storage.info, layout.size, false);
  const plan = planMap(layout, first.broadcastTo(layout.shape), places, null);
  const bad = backend.takeAlong(plan, storage, x.storage, {
    indexes: tensor.storage,
    size: shape[along]!,
    stride: strides[along]!,
  });
  if (bad >= 0) {
    const { storage: indexes } = packed(lens(tensor, places), tensor.storage.info);
    throw outOfRange(op, x.layout, along, { indexes, offset: 0 }, bad);
  }
  return result(storage, layout);
}

/** Writes `values` where {@link takeAlongAxis} would read. */
export function putAlongAxis(
  x: Operand,
  indexes: Operand,
  values: Operand | Scalar,
  axis: number,
  options?: SetOptions,
): void {
  const op = "putAlongAxis_";
  tidily(() => {
    const { along, tensor } = checkAlong(op, x, indexes, axis);
    setAt(x, alongAxis(x, along, tensor), values, options, op);
  });
}

/** Class numbers as rows of zeros with a single one. */
export function oneHot(
  x: Operand,
  classes: number,
  dtype: DType,
): Operand {
  const tensor = toIndexes("oneHot", x.storage, x);
  checkDType(dtype, "oneHot");
  if (!Number.isInteger(classes) || classes < 0 || classes > 2 ** 31) {
    throw new ShapeError(`Cannot oneHot to ${describe(classes)} classes: not a size of int32`);
  }
  return tidily(() => {
    if (tensor.layout.size > 0) {
      const extreme = (row: typeof REDUCE.max | typeof REDUCE.min): number => {
        const found = applyReduce(row, tensor, undefined);
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
    // All are classes by now, which int32 holds, while the dtype of `x` may not hold all classes.
    const column = contiguousCopy(lens(tensor, tensor.layout.expandDims(-1)), "int32");
    return contiguousCopy(apply(MAP.equal, column, iota(column.storage, classes)), dtype);
  });
}
