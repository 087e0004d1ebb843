/**
 * Columns of Apache Arrow as tensors, and tensors as columns, on the same memory.
 *
 * Knows the objects of the npm package apache-arrow by their properties only; nothing of it is
 * imported. A column consists of chunks, each with a buffer of values and a bitmap of those that are
 * not null.
 *
 * @module
 */
import { DTYPE, type DType, type Scalar, type TypedArray } from "../base/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { checkRank, formatShape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { applyView } from "../core/apply.ts";
import { contiguousCopy, isOn } from "../core/copy.ts";
import { ownOperand } from "../core/foreign.ts";
import { tidy } from "../core/handles.ts";
import type { Operand } from "../memory/operand.ts";
import { checkOptions } from "../table/infer.ts";
import { VIEWS } from "../table/views.ts";
import { fromBuffer } from "../tensor/create.ts";
import { concat } from "../ops/join/op.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";

/** What `fromArrow` reads of the type of a column. */
export interface ArrowType {
  /** The number of the type's family. */
  readonly typeId: number;
  /** The length of fixed-size lists. */
  readonly listSize?: number;
}

/** What `fromArrow` reads of a chunk: a `Data` of apache-arrow. */
export interface ArrowData {
  /** The type of its elements. */
  readonly type: ArrowType;
  /** The number of elements. */
  readonly length: number;
  /** The position of the first element in bitmaps. */
  readonly offset: number;
  /** The number of elements that are null. */
  readonly nullCount: number;
  /** A bit for each element: 0 for null. */
  readonly nullBitmap?: Uint8Array | null;
  /** The values; the bits of bools. */
  readonly values?: unknown;
  /** The elements of lists. */
  readonly children: readonly (ArrowData | undefined)[];
}

/** What `fromArrow` reads of a column: a `Vector` of apache-arrow. */
export interface ArrowVector {
  /** Its chunks. */
  readonly data: readonly ArrowData[];
}

/** Options of `fromArrow`. */
export interface FromArrowOptions {
  /** The value of nulls, such as NaN. Without it, a column with nulls is an error. */
  readonly fill?: Scalar;
}

/** What `toArrow` uses of the module apache-arrow. */
export interface ArrowModule<R> {
  // Any: the classes of each version of apache-arrow have types of their own, which fit no others.
  /** Makes the data of a chunk. */
  // deno-lint-ignore no-explicit-any
  readonly makeData: (...args: any[]) => any;
  /** The class of columns. */
  // deno-lint-ignore no-explicit-any
  readonly Vector: new (data: any) => R;
  /** The class of named types. */
  // deno-lint-ignore no-explicit-any
  readonly Field: new (name: string, type: any, nullable?: boolean) => any;
  /** The type of lists of one length. */
  // deno-lint-ignore no-explicit-any
  readonly FixedSizeList: new (size: number, child: any) => any;
}

/** The families of types, by their numbers: those whose values are numbers, and others. */
const FAMILY = {
  number: new Set([2, 3, 8, 9, 10, 18]),
  bool: 6,
  fixedSizeList: 16,
};
const FLOAT = 3;

const WHAT = "convert an Arrow column";

function checkNulls(data: ArrowData, fill: Scalar | undefined): void {
  if (data.nullCount > 0 && fill === undefined) {
    throw new ArgumentError(
      `Cannot ${WHAT} with ${data.nullCount} nulls: a tensor has no nulls; say which value stands ` +
        "for them, as in { fill: NaN }",
    );
  }
}

/** Throws unless a buffer has the elements that a chunk says: bits, or numbers. */
function checkBuffer(
  what: string,
  has: number,
  { length, offset }: ArrowData,
  bits: boolean,
): void {
  const needs = bits ? offset + length : length;
  if ((bits ? 8 * has : has) >= needs) return;
  throw new ArgumentError(
    `Cannot ${WHAT} of ${length} elements: its ${what} have ${has} ${bits ? "bytes" : "elements"}`,
  );
}

/** Throws unless the sizes of a chunk are counts, and its bitmap has a bit for each element. */
function checkSizes(data: ArrowData, fill: Scalar | undefined): void {
  const { length, offset, nullCount, nullBitmap } = data;
  for (const [name, value] of Object.entries({ length, offset, nullCount })) {
    if (Number.isSafeInteger(value) && value >= 0) continue;
    throw new ArgumentError(
      `Cannot ${WHAT} with ${name} ${describe(value)}: it is an integer of at least 0`,
    );
  }
  checkNulls(data, fill);
  if (nullCount > 0) checkBuffer("null bits", nullBitmap?.length ?? 0, data, true);
}

function isValid({ nullBitmap, offset }: ArrowData, i: number): boolean {
  const bit = offset + i;
  return (nullBitmap![bit >> 3]! >> (bit & 7) & 1) === 1;
}

/** The bits of bools as bytes: a copy. */
function bytesOf(data: ArrowData): Uint8Array<ArrayBuffer> {
  const { values, offset, length } = data;
  const bits = values as Uint8Array;
  checkBuffer("values", bits?.length ?? 0, data, true);
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) {
    const bit = offset + i;
    bytes[i] = bits[bit >> 3]! >> (bit & 7) & 1;
  }
  return bytes;
}

function numbersOf(data: ArrowData): [TypedArray, DType | undefined] {
  const { type, values, length } = data;
  const isHalf = type.typeId === FLOAT && values instanceof Uint16Array;
  if (!ArrayBuffer.isView(values) || values instanceof DataView) {
    throw new DTypeError(`Cannot ${WHAT} of ${String(type)}: it has no values`);
  }
  const array = values as TypedArray;
  checkBuffer("values", array.length, data, false);
  return [
    array.length === length ? array : array.subarray(0, length) as TypedArray,
    isHalf ? "float16" : undefined,
  ];
}

/** A chunk, and the lengths of the lists in it. */
function chunkTensor(data: ArrowData, fill: Scalar | undefined, sizes: number[]): Operand {
  const { type, length } = data;
  if (type.typeId === FAMILY.fixedSizeList) return listTensor(data, fill, sizes);
  checkSizes(data, fill);
  let array: TypedArray, dtype: DType | undefined;
  if (type.typeId === FAMILY.bool) [array, dtype] = [bytesOf(data), "bool"];
  else if (FAMILY.number.has(type.typeId)) [array, dtype] = numbersOf(data);
  else throw new DTypeError(`Cannot ${WHAT} of ${String(type)}: it takes numbers and bools`);
  const options = dtype === undefined ? {} : { dtype };
  const shared = fromBuffer(array, options) as Tensor;
  if (data.nullCount === 0) return shared;
  const made = shared.copy();
  for (let i = 0; i < length; i++) if (!isValid(data, i)) made.set([i], fill!);
  return made;
}

function listTensor(data: ArrowData, fill: Scalar | undefined, sizes: number[]): Operand {
  const { type, length, children: [child] } = data;
  // Also for objects that are their own child.
  checkRank(sizes.length + 2, WHAT);
  checkSizes(data, fill ?? 0);
  if (data.nullCount > 0) {
    throw new ArgumentError(
      `Cannot ${WHAT} with ${data.nullCount} lists that are null: "fill" replaces null elements`,
    );
  }
  const size = type.listSize!;
  if (!Number.isSafeInteger(size) || size < 0) {
    throw new ArgumentError(
      `Cannot ${WHAT} with listSize ${describe(size)}: it is an integer of at least 0`,
    );
  }
  sizes.push(size);
  if (child === undefined) throw new DTypeError(`Cannot ${WHAT} of ${String(type)} without child`);
  const elements = chunkTensor(child, fill, sizes) as Tensor;
  const inner = elements.shape.slice(1);
  const rows = length * size;
  if (!(rows <= elements.shape[0]!)) {
    throw new ArgumentError(
      `Cannot ${WHAT} of ${length} lists of ${size}: they have ${elements.shape[0]} elements`,
    );
  }
  const used = elements.shape[0] === rows
    ? elements
    : applyView(VIEWS.narrow, elements, "narrow", 0, 0, rows) as Tensor;
  return used.reshape([length, size, ...inner]);
}

function isVector(value: object): value is ArrowVector {
  return Array.isArray((value as ArrowVector).data);
}

/**
 * A tensor of a column of Apache Arrow: a `Vector` or a `Data` of the npm package apache-arrow. Ints,
 * floats, dates, times, timestamps and durations have the dtype of their values; lists of a fixed size
 * add an axis. One chunk of numbers is shared: writes to the tensor change the column. Bools, several
 * chunks and columns with nulls are copied.
 *
 * @throws {ArgumentError} For nulls without the option `fill`.
 * @throws {DTypeError} For other types.
 */
export function fromArrow(
  column: ArrowVector | ArrowData,
  options?: FromArrowOptions,
): Tensor<DType>;
export function fromArrow(
  column: ArrowVector | ArrowData,
  options: FromArrowOptions = {},
): Operand {
  checkOptions(WHAT, options, ["fill"]);
  const { fill } = options;
  if (typeof column !== "object" || column === null) {
    throw typeError(`Cannot ${WHAT}: expected a Vector or a Data, got ${describe(column)}`);
  }
  const chunks = isVector(column) ? column.data : [column];
  const known = chunks.every((data) => typeof data?.type?.typeId === "number");
  if (!known || chunks.length === 0) {
    throw typeError(`Cannot ${WHAT}: expected a Vector or a Data of apache-arrow`);
  }
  return tidy(() => {
    const tensors = chunks.map((data) => chunkTensor(data, fill, []));
    if (tensors.length === 1) return tensors[0]!;
    return concat(tensors, 0);
  });
}

/**
 * A column of Apache Arrow on the memory of a tensor: a `Vector` of the module `arrow`, which is
 * apache-arrow. Axes after the first become lists of a fixed size. Shares the elements of a contiguous
 * tensor on the CPU; others are copied, and bools become bits.
 *
 * @throws {ShapeError} For a tensor without axes.
 * @throws {DTypeError} For bfloat16 and other dtypes that Arrow does not have.
 *
 * @example
 * ```ts
 * import * as arrow from "apache-arrow";
 * import { io, tensor } from "@rowmajor/tensor";
 *
 * const table = new arrow.Table({ x: io.toArrow(arrow, tensor([1, 2, 3])) });
 * table.numRows; // => 3
 * ```
 */
export function toArrow<R>(arrow: ArrowModule<R>, tensor: AnyTensor): R {
  const what = "convert to an Arrow column";
  const x = ownOperand(tensor, what);
  const { storage: { info }, layout: { shape } } = x;
  if (shape.length === 0) throw new ShapeError(`Cannot ${what} shape ${formatShape(shape)}`);
  const own = isOn(x.storage, "cpu") ? x : (tensor as Tensor).cpu();
  const made = own.layout.contiguous ? own : contiguousCopy(own);
  const values = (made as Tensor).data as TypedArray;
  const { size } = made.layout;
  let data = elementsOf(arrow, info.name, values, size, what);
  for (let axis = shape.length - 1; axis > 0; axis--) {
    const { FixedSizeList, Field } = arrow;
    const type = new FixedSizeList(shape[axis]!, new Field("item", data.type, false));
    const length = shape.slice(0, axis).reduce((all, n) => all * n, 1);
    data = arrow.makeData({ type, length, nullCount: 0, child: data });
  }
  return new arrow.Vector([data]);
}

/** The classes of Arrow's types, by dtypes. */
const CLASSES: Partial<Record<DType, string>> = {
  bool: "Bool",
  int8: "Int8",
  int16: "Int16",
  int32: "Int32",
  int64: "Int64",
  uint8: "Uint8",
  uint16: "Uint16",
  uint32: "Uint32",
  uint64: "Uint64",
  float16: "Float16",
  float32: "Float32",
  float64: "Float64",
};

/** What a module makes for the elements of a column. */
interface ArrowMade {
  readonly type: unknown;
}

function elementsOf(
  arrow: ArrowModule<unknown>,
  dtype: DType,
  values: TypedArray,
  length: number,
  what: string,
): ArrowMade {
  const name = CLASSES[dtype];
  if (name === undefined) throw new DTypeError(`Cannot ${what} ${dtype}: Arrow has no such type`);
  const Type = (arrow as ArrowModule<unknown> & Record<string, new () => unknown>)[name]!;
  let data: ArrayBufferView = values as ArrayBufferView;
  if (dtype === "bool") {
    const bits = new Uint8Array((length + 7) >> 3);
    for (let i = 0; i < length; i++) if (values[i]) bits[i >> 3]! |= 1 << (i & 7);
    data = bits;
  } else if (DTYPE[dtype].bytes === 2 && dtype === "float16") {
    data = new Uint16Array(data.buffer, data.byteOffset, length);
  }
  return arrow.makeData({ type: new Type(), length, nullCount: 0, data });
}
