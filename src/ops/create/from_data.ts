/**
 * Creates tensors from JavaScript data: numbers, nested arrays and typed arrays.
 *
 * @module
 */
import {
  checkScalar,
  type Complex,
  DTYPE,
  type DType,
  type Scalar,
  scalarDType,
  type TypedArray,
  typedArrayName,
} from "../../base/dtype.ts";
import { DTypeError, ShapeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { checkShape, formatShape, ownAxes, type Shape, sizeOf } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { contiguousCopy, isOn, toDevice } from "../../core/copy.ts";
import { applyCreate } from "../../core/apply.ts";
import { copyInto, dispatch, memoryOf } from "../../core/dispatch.ts";
import { adopt } from "../../core/foreign.ts";
import { wrap } from "../../core/handles.ts";
import { writeElement } from "../../memory/element.ts";
import { isOperandArgument, type Operand } from "../../memory/operand.ts";
import { sendTo } from "../../memory/device.ts";
import { allocate, wrapExternal } from "../../memory/pool.ts";
import type { Storage } from "../../memory/storage.ts";
import { checkOperand, isScalar } from "../../table/infer.ts";
import { type Call, type CreateOp, makeOp, type Op, type OutputSpec } from "../../table/op.ts";

/** The dtypes of typed arrays, by the names of their classes. */
const BY_ARRAY: ReadonlyMap<string | undefined, DType> = new Map<string | undefined, DType>([
  ["Int8Array", "int8"],
  ["Int16Array", "int16"],
  ["Int32Array", "int32"],
  ["BigInt64Array", "int64"],
  ["Uint8Array", "uint8"],
  ["Uint8ClampedArray", "uint8"],
  ["Uint16Array", "uint16"],
  ["Uint32Array", "uint32"],
  ["BigUint64Array", "uint64"],
  ["Float16Array", "float16"],
  ["Float32Array", "float32"],
  ["Float64Array", "float64"],
]);

/** The dtype of a typed array. Node's Buffer and other subclasses count as their base class. */
export function arrayDType(array: ArrayBufferView, op: string): DType {
  const dtype = BY_ARRAY.get(typedArrayName(array));
  if (dtype !== undefined) return dtype;
  throw new DTypeError(`Cannot ${op}: ${array.constructor.name} has no dtype`);
}

/** Arrays nested deeper than this are most likely a mistake. */
const MAX_NESTING = 64;

/** Nested arrays: their shape, and the innermost of them, each `length` long, in order. */
interface Nest {
  readonly shape: number[];
  readonly rows: readonly (readonly unknown[])[];
  readonly length: number;
}

function unnest(data: unknown): Nest {
  const lengths: number[] = [];
  // Read once: a getter may give something else after a check.
  const firsts: unknown[] = [data];
  for (let level = data; Array.isArray(level); firsts.push(level = level[0])) {
    // An array may be its own first element.
    if (lengths.length === MAX_NESTING) {
      throw new ShapeError(
        `Cannot make a tensor of arrays that are nested more than ${MAX_NESTING} deep`,
      );
    }
    lengths.push(level.length);
  }
  const shape = checkShape(lengths, "make a tensor of");
  // A single value is a row of length 1.
  if (shape.length === 0) return { shape, rows: [[data]], length: 1 };
  let rows = [data as unknown[]];
  let length = shape[0]!;
  for (let axis = 1; axis < shape.length; axis++) {
    const inner: unknown[][] = [];
    const n = shape[axis]!;
    for (let k = 0; k < rows.length; k++) {
      const row = rows[k]!;
      for (let i = 0; i < length; i++) {
        const one = k + i === 0 ? firsts[axis] : row[i];
        if (!Array.isArray(one) || one.length !== n) throw ragged(axis);
        inner.push(one);
      }
    }
    rows = inner;
    length = n;
  }
  return { shape, rows, length };
}

function ragged(axis: number): ShapeError {
  return new ShapeError(
    `Cannot make a tensor of ragged arrays: axis ${axis} has more than one size`,
  );
}

/** The number of leading values of a row that are numbers. */
function numbersOf(row: readonly unknown[], length: number): number {
  let i = 0;
  while (i < length && typeof row[i] === "number") i++;
  return i;
}

/** The dtype of values; without `dtype`, they must be all numbers, all bigints or all booleans. */
function nestDType({ shape, rows, length }: Nest, dtype: DType | undefined): DType {
  if (rows.every((row) => numbersOf(row, length) === length)) return dtype ?? "float32";
  let first: Scalar | Complex | undefined;
  for (const row of rows) {
    for (let i = 0; i < length; i++) {
      const one = row[i];
      if (typeof one === typeof first && first !== undefined) continue;
      checkLeaf(one, shape.length);
      if (first === undefined) first = one;
      else if (isComplexPair(first, one)) first = { re: 0, im: 0 };
      else if (dtype === undefined) {
        throw new DTypeError(
          `Cannot make a tensor of a ${typeof first} and a ${typeof one}: ` +
            "say which dtype is meant",
        );
      }
    }
  }
  return dtype ?? (first === undefined ? "float32" : scalarDType(first));
}

/** Whether one is a complex number and the other one too, or a number. */
function isComplexPair(a: Scalar | Complex, b: Scalar | Complex): boolean {
  const complex = typeof a === "object" || typeof b === "object";
  return complex && [a, b].every((one) => typeof one === "object" || typeof one === "number");
}

function checkLeaf(leaf: unknown, axis: number): asserts leaf is Scalar | Complex {
  if (isScalar(leaf)) return;
  if (Array.isArray(leaf)) throw ragged(axis);
  if (isOperandArgument(leaf) || ArrayBuffer.isView(leaf)) {
    throw new DTypeError(
      isOperandArgument(leaf)
        ? "Cannot make a tensor of an array of tensors: stack() and concat() join them"
        : "Cannot make a tensor of an array of typed arrays: make one of each, and stack() them",
    );
  }
  // Names a number of a traced function.
  describe(leaf);
  throw new DTypeError(
    `Cannot make a tensor of ${leaf === null ? "null" : typeof leaf}: ` +
      "expected numbers, bigints, booleans or complex numbers",
  );
}

/** Writes values that {@link nestDType} has checked; getters may return others now. */
function writeNest(storage: Storage, { shape, rows, length }: Nest): void {
  const { name, kind } = storage.info;
  const plain = name === "float32" || name === "float64";
  let at = 0;
  for (const row of rows) {
    let i = 0;
    if (plain) {
      const array = storage.array as Float64Array;
      for (; i < length; i++) {
        const one = row[i];
        if (typeof one !== "number") break;
        array[at++] = one;
      }
    }
    for (; i < length; i++) {
      const one = row[i];
      checkLeaf(one, shape.length);
      // Floats accept every number but complex ones.
      if (kind !== "f" || typeof one === "object") checkScalar(name, one, "write");
      writeElement(storage, at++, one);
    }
  }
}

/** Checks `shape` against the number of elements. */
export function shapeFor(shape: unknown, length: number, op: string): number[] {
  const checked = checkShape(shape, op);
  if (sizeOf(checked) !== length) {
    throw new ShapeError(
      `Cannot ${op} ${length} elements in shape ${formatShape(checked)}: it takes ${
        sizeOf(checked)
      }`,
    );
  }
  return checked;
}

// ---- ops ---------------------------------------------------------------------------------------

/** Options for converting data. */
export interface DataOptions {
  readonly shape?: Shape | undefined;
  readonly dtype?: DType | undefined;
  readonly device?: string | undefined;
}

interface DataAttributes extends DataOptions {
  readonly data: unknown;
}

const WHAT = "make a tensor";

function isTypedArray(data: unknown): data is TypedArray {
  return ArrayBuffer.isView(data) && typedArrayName(data) !== undefined;
}

/** Whether `array` has the parts of complex numbers of `dtype` in turn. */
function isInterleaved(array: TypedArray, dtype: DType | undefined): dtype is DType {
  if (dtype === undefined) return false;
  const { kind, lane } = DTYPE[dtype];
  return kind === "c" && lane!.name === arrayDType(array, WHAT);
}

/** The number of elements of a tensor of `array`. */
function lengthOf(array: TypedArray, dtype: DType | undefined): number {
  if (!isInterleaved(array, dtype)) return array.length;
  if (array.length % 2 !== 0) {
    throw new ShapeError(
      `Cannot ${WHAT} of ${array.length} numbers in ${dtype}: an element has two, in turn`,
    );
  }
  return array.length / 2;
}

function fromTypedArray(array: TypedArray, { shape, dtype }: DataOptions): [Storage, Layout] {
  const from = arrayDType(array, WHAT);
  if (isInterleaved(array, dtype)) {
    const length = lengthOf(array, dtype);
    const layout = Layout.contiguous(shapeFor(shape ?? [length], length, "arrange"));
    const storage = allocate(dtype, length, false);
    (storage.array as Float64Array).set(array as Float64Array);
    return [storage, layout];
  }
  const layout = Layout.contiguous(shapeFor(shape ?? [array.length], array.length, "arrange"));
  const bits = DTYPE[from].array === DTYPE[from].userArray
    ? array
    : new Uint16Array(array.buffer, array.byteOffset, array.length);
  const storage = allocate(dtype ?? from, array.length, false);
  if (storage.info.name === from) (storage.array as Float64Array).set(bits as Float64Array);
  else {
    const source = { storage: wrapExternal(from, bits), layout, flags: 0 };
    copyInto({ storage, layout, flags: 0 }, source);
  }
  return [storage, layout];
}

function fromNested(data: unknown, { shape, dtype }: DataOptions): [Storage, Layout] {
  const nest = unnest(data);
  const to = nestDType(nest, dtype);
  const size = nest.rows.length * nest.length;
  const layout = Layout.contiguous(
    shape === undefined ? nest.shape : shapeFor(shape, size, "arrange"),
  );
  const storage = allocate(to, size, false);
  writeNest(storage, nest);
  return [storage, layout];
}

/** A tensor of numbers, nested arrays or a typed array. */
const FROM_DATA: CreateOp = makeOp({
  kind: "create",
  name: "tensor",
  infer({ attributes }: Call): readonly OutputSpec[] {
    const { data, dtype, shape } = attributes as DataAttributes;
    if (isTypedArray(data)) {
      const length = [lengthOf(data, dtype)];
      return [{ shape: shape ?? length, dtype: DTYPE[dtype ?? arrayDType(data, WHAT)] }];
    }
    const nest = unnest(data);
    return [{ shape: shape ?? nest.shape, dtype: DTYPE[nestDType(nest, dtype)] }];
  },
  create(given: unknown): Operand {
    const attributes = given as DataAttributes;
    const { data, device } = attributes;
    const memory = memoryOf(device, `${WHAT} on`);
    const [storage, layout] = isTypedArray(data)
      ? fromTypedArray(data, attributes)
      : fromNested(data, attributes);
    return wrap(sendTo(memory, storage), layout);
  },
});

/** A copy of a tensor, in another shape, dtype or on another device if requested. */
const FROM_TENSOR: Op = makeOp({
  kind: "kernel",
  name: "tensorOf",
  infer(call: Call): readonly OutputSpec[] {
    const [x] = call.inputs;
    checkOperand(x, WHAT);
    const { shape, dtype } = call.attributes as DataOptions;
    const { layout } = x;
    const arranged = shape === undefined ? layout.shape : shapeFor(shape, layout.size, "arrange");
    return [{ shape: arranged, dtype: dtype ? DTYPE[dtype] : x.storage.info }];
  },
  run(call: Call): Operand {
    const x = call.operand(0);
    const { dtype, device } = call.attributes as DataOptions;
    const here = device === undefined || isOn(x.storage, device);
    const casts = dtype !== undefined && dtype !== x.storage.info.name;
    let copy = casts || here ? contiguousCopy(x, dtype) : x;
    if (!here) copy = toDevice(copy, device);
    return wrap(copy.storage, Layout.contiguous(call.specs[0]!.shape));
  },
});

/** A tensor of data, or a copy of one. */
export function fromData(data: unknown, options: DataOptions): Operand {
  const { dtype, device } = options;
  const shape = ownAxes(options.shape, WHAT);
  const from = adopt(data, WHAT);
  return isOperandArgument(from)
    ? dispatch(FROM_TENSOR, [from], { shape, dtype, device }, undefined, WHAT)
    : applyCreate(FROM_DATA, { data, shape, dtype, device });
}
