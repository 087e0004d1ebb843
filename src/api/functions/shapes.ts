/**
 * Views and indices: turned planes, given strides, triangles, flat indices.
 *
 * @module
 */
import { DTYPE, type DType, promoteTypes } from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { ArgumentError, AxisError, IndexError, ShapeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import {
  broadcastAll,
  broadcastShapes as commonShape,
  checkShape,
  formatShape,
  lengthOf,
  listIn,
  normalizeAxis,
  ownAxes,
  type Shape,
  sizeOf,
} from "../../base/shape.ts";
import { apply, applyCreate, applyView } from "../../core/apply.ts";
import { cast, contiguousCopy } from "../../core/copy.ts";
import { dispatch, dispatchAll, memoryOf } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy, wrap } from "../../core/handles.ts";
import { hostRead } from "../../core/interpreter.ts";
import { sendTo } from "../../memory/device.ts";
import { readElement, writeElement } from "../../memory/element.ts";
import type { Operand } from "../../memory/operand.ts";
import { allocate } from "../../memory/pool.ts";
import { checkDevice, checkKind, checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, type CreateOp, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";

// ---- views -------------------------------------------------------------------------------------

/**
 * Turns the plane of two axes (0 and 1) by 90 degrees, `times` times, from the first axis to the
 * second: a view.
 *
 * @throws {AxisError} If both axes are the same.
 * @throws {ArgumentError} Unless `times` is an integer.
 *
 * @example
 * ```ts
 * rot90(tensor([[1, 2], [3, 4]])).toArray(); // => [[2, 4], [1, 3]]
 * ```
 */
export function rot90<
  X extends AnyTensor,
  N extends number = 1,
  const P extends readonly [number, number] = [0, 1],
>(
  x: X,
  times?: N,
  axes?: t.Guard<t.Rotated<t.ShapeOf<X>, N, P>, P>,
): Tensor<X["dtype"], t.Ok<t.Rotated<t.ShapeOf<X>, N, P>>, X["device"], X["access"]>;
export function rot90(
  x: AnyTensor,
  times: number = 1,
  axes: readonly [number, number] = [0, 1],
): Operand {
  const name = "rot90";
  checkOperand(x, name);
  if (!Number.isInteger(times)) {
    throw new ArgumentError(`${name}() needs an integer as times, got ${describe(times)}`);
  }
  if (lengthOf(axes) !== 2) {
    throw new AxisError(`Cannot ${name} along axes ${describe(axes)}: it takes two`);
  }
  const { rank } = x.layout;
  const [a, b] = listIn(axes, (axis) => normalizeAxis(name, axis as number, rank), 2) as [
    number,
    number,
  ];
  if (a === b) {
    throw new AxisError(`Cannot ${name} along axes ${formatShape([a, b])}: they are the same`);
  }
  const turns = ((times % 4) + 4) % 4;
  const flip = (y: Operand, axis: number | number[]): Operand =>
    applyView(VIEWS.flip, y, "flip", axis);
  if (turns === 0) return applyView(VIEWS.view, x, "view");
  if (turns === 2) return flip(x, [a, b]);
  return tidy(() => {
    const swapped = applyView(VIEWS.swapAxes, turns === 1 ? flip(x, b) : x, "swapAxes", a, b);
    return turns === 1 ? swapped : flip(swapped, b);
  });
}

/** Options of `asStrided`. */
export interface AsStridedOptions {
  /** The position of the first element, after the first element of `x`; 0. */
  readonly offset?: number;
}

/**
 * A view with the given shape and strides, which count elements of `x` from its first one. Elements
 * may be reached in several ways: writing to such a view is not defined.
 *
 * @throws {ShapeError} For strides that lead out of the memory between the first and the last
 *   element of `x`.
 *
 * @example
 * ```ts
 * asStrided(arange(5), [3, 3], [1, 1]).toArray(); // => [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
 * ```
 */
export function asStrided<X extends AnyTensor, const N extends Shape>(
  x: X,
  shape: N,
  strides: readonly number[],
  options?: AsStridedOptions,
): Tensor<X["dtype"], t.Ok<t.NewShape<"asStrided", N>>, X["device"], X["access"]>;
export function asStrided(
  x: AnyTensor,
  shape: Shape,
  strides: readonly number[],
  options: AsStridedOptions = {},
): Operand {
  const name = "asStrided";
  checkOperand(x, name);
  checkOptions(name, options, ["offset"]);
  const { offset = 0 } = options;
  return applyView(
    VIEWS.asStrided,
    x,
    name,
    ownAxes(shape, name),
    ownAxes(strides, name),
    offset,
  );
}

/**
 * The shape that all `shapes` broadcast to.
 *
 * @throws {ShapeError} If the shapes do not broadcast; the message names the axis.
 *
 * @example
 * ```ts
 * broadcastShapes([3, 1], [4]); // => [3, 4]
 * ```
 */
export function broadcastShapes(...shapes: readonly Shape[]): number[] {
  const own = shapes.map((shape) => checkShape(shape, "broadcastShapes"));
  return own.length === 0 ? [] : [...broadcastAll("broadcastShapes", own)];
}

// ---- triangles ---------------------------------------------------------------------------------

interface TriangleAttributes {
  readonly rows: number;
  readonly columns: number;
  readonly k: number;
  readonly upper: boolean;
  readonly device: string | undefined;
}

/** The number of elements of a row in a triangle, and the first of them. */
function rowOf({ columns, k, upper }: TriangleAttributes, row: number): [from: number, to: number] {
  const at = Math.max(0, Math.min(columns, row + k + (upper ? 0 : 1)));
  return upper ? [at, columns] : [0, at];
}

/** The number of elements in a triangle. */
function countIn({ rows, columns, k, upper }: TriangleAttributes): number {
  const shift = upper ? k : k + 1;
  const within = (row: number): number => Math.max(0, Math.min(rows, row));
  // Rows from `first` to `last` end inside the matrix, later ones have all columns left of the diagonal.
  const [first, last] = [within(-shift), within(columns - shift)];
  const inner = last > first ? (last - first) * (first + last - 1 + 2 * shift) / 2 : 0;
  const left = inner + (rows - last) * columns;
  return upper ? rows * columns - left : left;
}

const TRIANGLE_INDICES: CreateOp = makeOp({
  kind: "create",
  name: "triangleIndices",
  infer({ attributes }: Call): readonly OutputSpec[] {
    const count = countIn(attributes as TriangleAttributes);
    return [{ shape: [2, count], dtype: DTYPE.int32 }];
  },
  create(attributes: unknown, name: string): Operand {
    const given = attributes as TriangleAttributes;
    const memory = memoryOf(given.device, `${name} on`);
    const count = countIn(given);
    const storage = allocate("int32", 2 * count, false);
    let at = 0;
    for (let row = given.upper ? 0 : Math.max(0, -given.k); at < count; row++) {
      const [from, to] = rowOf(given, row);
      for (let column = from; column < to; column++, at++) {
        writeElement(storage, at, row);
        writeElement(storage, count + at, column);
      }
    }
    return wrap(sendTo(memory, storage), Layout.contiguous([2, count]));
  },
});

/** Options of `triIndices`. */
export interface TriangleOptions<V extends t.Device> {
  /** The last diagonal of a lower triangle, the first one of an upper triangle; 0. */
  readonly k?: number;
  /** The number of columns; that of the rows by default. */
  readonly columns?: number;
  /** The device of the indices. */
  readonly device?: V;
}

/** The indices of a triangle: of the rows, and of the columns. */
export type TriangleIndices<V extends t.Device> = [
  rows: Tensor<"int32", [number], t.OnDevice<V>>,
  columns: Tensor<"int32", [number], t.OnDevice<V>>,
];

function triangleIndices(
  name: string,
  rows: number,
  upper: boolean,
  options: TriangleOptions<t.Device>,
): Operand[] {
  const { k = 0, columns = rows, device } = options;
  checkShape([rows, columns], name);
  if (rows > 2 ** 31 || columns > 2 ** 31) {
    throw new ShapeError(`Cannot ${name} shape ${formatShape([rows, columns])}: indices are int32`);
  }
  if (!Number.isInteger(k)) {
    throw new ArgumentError(`${name}() needs an integer as k, got ${describe(k)}`);
  }
  return tidy(() => {
    const both = applyCreate(TRIANGLE_INDICES, { rows, columns, k, upper, device }, name);
    return [0, 1].map((i) => applyView(VIEWS.selectAxis, both, "selectAxis", 0, i));
  });
}

const TRIANGLE_OPTIONS = ["k", "columns", "device"];

/**
 * The indices of the elements of a triangle, in row-major order: of the lower one unless `upper` is
 * true.
 *
 * @example
 * ```ts
 * const [rows, columns] = triIndices(2);
 * [rows.toArray(), columns.toArray()]; // => [[0, 1, 1], [0, 0, 1]]
 * ```
 */
export function triIndices<V extends t.Device = "cpu">(
  rows: number,
  options?: TriangleOptions<V> & { readonly upper?: boolean },
): TriangleIndices<NoInfer<V>>;
export function triIndices(
  rows: number,
  options: TriangleOptions<t.Device> & { readonly upper?: boolean } = {},
): Operand[] {
  checkOptions("triIndices", options, ["upper", ...TRIANGLE_OPTIONS]);
  return triangleIndices("triIndices", rows, options.upper === true, options);
}

/** {@link triIndices} of the lower triangle, as NumPy calls it. */
export function trilIndices<V extends t.Device = "cpu">(
  rows: number,
  options?: TriangleOptions<V>,
): TriangleIndices<NoInfer<V>>;
export function trilIndices(rows: number, options: TriangleOptions<t.Device> = {}): Operand[] {
  checkOptions("trilIndices", options, TRIANGLE_OPTIONS);
  return triangleIndices("trilIndices", rows, false, options);
}

/** {@link triIndices} of the upper triangle, as NumPy calls it. */
export function triuIndices<V extends t.Device = "cpu">(
  rows: number,
  options?: TriangleOptions<V>,
): TriangleIndices<NoInfer<V>>;
export function triuIndices(rows: number, options: TriangleOptions<t.Device> = {}): Operand[] {
  checkOptions("triuIndices", options, TRIANGLE_OPTIONS);
  return triangleIndices("triuIndices", rows, true, options);
}

// ---- flat indices ------------------------------------------------------------------------------

/** Throws an IndexError unless all indices are in range; reads them. */
function checkRange(name: string, index: Operand, size: number, what: string): void {
  if (index.layout.size === 0) return;
  tidy(() => {
    for (const row of [REDUCE.max, REDUCE.min]) {
      const extreme = dispatch(row, [index], { axis: undefined }, undefined, name);
      hostRead(extreme, name);
      const value = readElement(extreme.storage, extreme.layout.offset);
      if (value >= 0 && value < size) continue;
      throw new IndexError(
        `Cannot ${name}: index ${value} is out of range for ${what} of size ${size}`,
      );
    }
  });
}

/** How indices out of range count. */
export type OutOfRange = "raise" | "wrap" | "clip";

/** Options of `ravelMultiIndex`. */
export interface RavelOptions {
  /** Indices out of range: an error (default), taken modulo the size, or limited. */
  readonly mode?: OutOfRange;
}

/** The dtype of flat indices up to `most`: that of the indices if it can hold them. */
function placeDType(dtype: DType, most: number): DType {
  if (most <= (DTYPE[dtype].max as number)) return dtype;
  return most < 2 ** 31 ? "int32" : "int64";
}

/** Attributes of the ops of flat indices: the shape that they are in, and how others count. */
interface FlatAttributes extends RavelOptions {
  readonly shape: Shape;
}

/** The flat indices of one operand for each axis. */
const RAVEL_MULTI_INDEX: Op = makeOp({
  kind: "kernel",
  name: "ravelMultiIndex",
  infer({ inputs, name, attributes }): readonly OutputSpec[] {
    const { shape: sizes, mode } = attributes as FlatAttributes;
    let common: Shape = [];
    for (const one of inputs) {
      checkOperand(one, name);
      checkKind(one.storage.info, "iu", name);
      checkDevice((inputs[0] as Operand).storage, one.storage, name);
      common = commonShape(name, common, one.layout.shape);
    }
    const dtype = placeDType(
      (inputs as Operand[]).map(({ storage }) => storage.info.name)
        .reduce((a, b) => promoteTypes(a, b, name)),
      Math.max(sizeOf(sizes) - 1, ...sizes),
    );
    if (mode !== "raise" && sizes.includes(0) && !common.includes(0)) {
      throw new IndexError(`Cannot ${name} in shape ${formatShape(sizes)}: it has no elements`);
    }
    return [{ shape: common, dtype: DTYPE[dtype] }];
  },
  decompose(call: Call): Operand {
    const { name, attributes } = call;
    const { shape: sizes, mode } = attributes as FlatAttributes;
    const { name: dtype } = call.specs[0]!.dtype;
    if (mode === "raise") {
      sizes.forEach((n, k) => checkRange(name, call.operand(k), n, `axis ${k}`));
    }
    let stride = 1;
    let flat: Operand | undefined;
    for (let k = sizes.length - 1; k >= 0; k--) {
      let one = cast(call.operand(k), dtype);
      const size = sizes[k]!;
      if (mode === "wrap") one = apply(MAP.remainder, one, size);
      if (mode === "clip") one = apply(MAP.clip, one, 0, Math.max(0, size - 1));
      const scaled = apply(MAP.mul, one, stride);
      flat = flat === undefined ? scaled : apply(MAP.add, flat, scaled);
      stride *= size;
    }
    return flat!;
  },
});

/**
 * The flat indices, in row-major order, of elements of `shape` with these indices along its axes.
 * Indices broadcast. With mode `"raise"` their values are read. The result has the dtype that the
 * indices promote to, or int32 or int64 where that cannot hold all flat indices of `shape`.
 *
 * @throws {IndexError} For an index out of range.
 * @throws {DTypeError} For floats.
 *
 * @example
 * ```ts
 * const [i, j] = [tensor([0, 1], { dtype: "int32" }), tensor([2, 0], { dtype: "int32" })];
 * ravelMultiIndex([i, j], [2, 3]).toArray(); // => [2, 3]
 * ```
 */
export function ravelMultiIndex<const Ts extends readonly AnyTensor[]>(
  indices: t.Guard<t.BroadcastAll<t.ShapesOf<Ts>, "ravelMultiIndex">, Ts>,
  shape: Shape,
  options?: RavelOptions,
): Tensor<
  t.PlaceDType<t.OkDType<t.PromoteAll<Ts>>>,
  t.Ok<t.BroadcastAll<t.ShapesOf<Ts>, "ravelMultiIndex">>,
  Ts[number]["device"]
>;
export function ravelMultiIndex(
  indices: readonly AnyTensor[],
  shape: Shape,
  options: RavelOptions = {},
): Operand {
  const name = "ravelMultiIndex";
  checkOptions(name, options, ["mode"]);
  const { mode = "raise" } = options;
  if (mode !== "raise" && mode !== "wrap" && mode !== "clip") {
    throw new ArgumentError(
      `${name}() needs "raise", "wrap" or "clip" as mode, got ${describe(mode)}`,
    );
  }
  const sizes = checkShape(shape, name);
  if (lengthOf(indices) !== sizes.length || sizes.length === 0) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(sizes)}: it takes an array with one tensor for each axis`,
    );
  }
  const own = listIn(indices, (one) => ownOperand(one as Operand, name), sizes.length)!;
  return dispatch(RAVEL_MULTI_INDEX, own, { shape: sizes, mode });
}

/** The indices along each axis, of one operand. */
const UNRAVEL_INDEX: Op = makeOp({
  kind: "kernel",
  name: "unravelIndex",
  infer({ inputs: [index], name, attributes }): readonly OutputSpec[] {
    checkOperand(index, name);
    const { storage: { info }, layout } = index;
    checkKind(info, "iu", name);
    return (attributes as FlatAttributes).shape.map(() => ({ shape: layout.shape, dtype: info }));
  },
  decompose(call: Call): Operand[] {
    const { name, attributes } = call;
    const { shape: sizes } = attributes as FlatAttributes;
    const index = call.operand(0);
    checkRange(name, index, sizeOf(sizes), `shape ${formatShape(sizes)}`);
    const { name: dtype } = index.storage.info;
    let rest = cast(index, placeDType(dtype, Math.max(0, ...sizes)));
    const made: Operand[] = [];
    for (let k = sizes.length - 1; k >= 0; k--) {
      const size = Math.max(1, sizes[k]!);
      const one = k === 0 ? contiguousCopy(rest) : apply(MAP.remainder, rest, size);
      made.unshift(cast(one, dtype));
      if (k > 0) rest = apply(MAP.floorDivide, rest, size);
    }
    return made;
  },
});

/**
 * The indices along the axes of `shape` of elements with these flat indices, in row-major order: one
 * tensor for each axis. Their values are read.
 *
 * @throws {IndexError} For an index out of range.
 * @throws {DTypeError} For floats.
 *
 * @example
 * ```ts
 * unravelIndex(tensor([2, 3], { dtype: "int32" }), [2, 3]).map((i) => i.toArray()); // => [[0, 1], [2, 0]]
 * ```
 */
export function unravelIndex<X extends AnyTensor, const N extends Shape>(
  index: X,
  shape: N,
): t.TupleOf<N["length"], Tensor<X["dtype"], t.ShapeOf<X>, X["device"]>>;
export function unravelIndex(index: AnyTensor, shape: Shape): Operand[] {
  const name = "unravelIndex";
  const own = ownOperand(index, name);
  return dispatchAll(UNRAVEL_INDEX, [own], { shape: checkShape(shape, name) }, name);
}
