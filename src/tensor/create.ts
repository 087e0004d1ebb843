/**
 * Making tensors: from data, by value, by rule; and the functions that take several.
 *
 * @module
 */
import { memoryOf } from "../core/backend.ts";
import {
  checkDType,
  checkScalar,
  describe,
  DTYPE,
  type DType,
  type DTypeInfo,
  type Scalar,
  scalarDType,
  type TypedArray,
} from "../base/dtype.ts";
import {
  apply,
  checkOperand,
  checkOptions,
  contiguousCopy,
  fill,
  fillScalar,
  isOn,
  isOperand,
  isScalar,
  moved,
  type Operand,
  result,
  tidily,
} from "../core/dispatch.ts";
import { writeElement } from "../memory/element.ts";
import { DisposedError, DTypeError, IndexError, ShapeError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import * as joins from "./manipulate.ts";
import { MAP } from "../ops/table.ts";
import { broadcastAll, checkShape, formatShape, type Shape, sizeOf } from "../base/shape.ts";
import {
  adopt,
  allocate,
  allocateIn,
  type DeviceMemory,
  sendTo,
  type Storage,
  takePooled,
} from "../memory/storage.ts";
import { type AnyTensor, Tensor, type TensorOrScalar } from "./tensor.ts";
import type * as t from "../types/mod.ts";

/** What functions that make tensors take. */
export interface CreateOptions<E extends DType, V extends t.Device> {
  /** The element type. */
  readonly dtype?: E;
  /** Where the tensor is made. */
  readonly device?: V;
}

const CREATE_OPTIONS = ["dtype", "device"];

/**
 * Throws for an option that `op` does not have, for a bad dtype and for a device that is not there.
 * Gives the memory that is meant.
 */
function checkCreation(
  op: string,
  options: CreateOptions<DType, t.Device>,
  known: readonly string[] = CREATE_OPTIONS,
): DeviceMemory | null {
  checkOptions(op, options, known);
  if (options.dtype !== undefined) checkDType(options.dtype, op);
  return memoryOf(options.device, `${op} on`);
}

function filled(
  op: string,
  shape: unknown,
  value: Scalar,
  dtype: DType,
  options: CreateOptions<DType, t.Device>,
): never {
  const memory = checkCreation(op, options);
  return filledWith(op, shape, value, options.dtype ?? dtype, memory);
}

/** Elements from which on used memory is set to zeros by a backend. */
const LARGE_ZEROS = 1 << 15;

/** {@link filled}, once the options have been checked. */
function filledWith(
  op: string,
  shape: unknown,
  value: Scalar,
  to: DType,
  memory: DeviceMemory | null,
): never {
  const layout = Layout.contiguous(checkShape(shape, op));
  checkScalar(to, value, op);
  const zero = value === 0 && !Object.is(value, -0) || value === false;
  const { size } = layout;
  // New memory is zeros already; what was used becomes so faster by a backend, if it is large.
  const pooled = zero && size >= LARGE_ZEROS && memory === null
    ? takePooled(DTYPE[to], size)
    : undefined;
  const storage = pooled ?? allocateIn(memory, DTYPE[to], size, zero);
  if (!zero || pooled !== undefined) fillScalar(storage, layout, value);
  return new Tensor(storage, layout) as never;
}

/**
 * A tensor of zeros.
 *
 * Throws a ShapeError for sizes that are not integers of at least 0.
 *
 * @example
 * ```ts
 * zeros([2, 3], { dtype: "int32" }).toArray(); // => [[0, 0, 0], [0, 0, 0]]
 * ```
 */
export function zeros<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  shape: t.Guard<t.NewShape<"zeros", N>, N>,
  options: CreateOptions<E, V> = {},
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"zeros", N>>, t.OnDevice<NoInfer<V>>> {
  return filled("zeros", shape, 0, "float32", options);
}

/** A tensor of ones. */
export function ones<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  shape: t.Guard<t.NewShape<"ones", N>, N>,
  options: CreateOptions<E, V> = {},
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"ones", N>>, t.OnDevice<NoInfer<V>>> {
  return filled("ones", shape, 1, "float32", options);
}

/** A tensor whose elements may be anything until they are written; here, zeros. */
export function empty<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  shape: t.Guard<t.NewShape<"empty", N>, N>,
  options: CreateOptions<E, V> = {},
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"empty", N>>, t.OnDevice<NoInfer<V>>> {
  return filled("empty", shape, 0, "float32", options);
}

/**
 * A tensor of one value; a number makes float32, a bigint int64, a boolean bool, unless `dtype` says
 * otherwise.
 */
export function full<
  const N extends Shape,
  const X extends Scalar,
  E extends DType = t.DataDType<X>,
  V extends t.Device = "cpu",
>(
  shape: t.Guard<t.NewShape<"full", N>, N>,
  value: X,
  options: CreateOptions<E, V> = {},
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"full", N>>, t.OnDevice<NoInfer<V>>> {
  return filled("full", shape, value, scalarDType(value), options);
}

/** A tensor of the smallest finite value of its dtype. */
export function fullMin<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  shape: t.Guard<t.NewShape<"fullMin", N>, N>,
  options: CreateOptions<E, V> = {},
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"fullMin", N>>, t.OnDevice<NoInfer<V>>> {
  return extreme("fullMin", "min", shape, options);
}

/** A tensor of the largest finite value of its dtype. */
export function fullMax<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  shape: t.Guard<t.NewShape<"fullMax", N>, N>,
  options: CreateOptions<E, V> = {},
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"fullMax", N>>, t.OnDevice<NoInfer<V>>> {
  return extreme("fullMax", "max", shape, options);
}

function extreme(
  op: string,
  end: "min" | "max",
  shape: unknown,
  options: CreateOptions<DType, t.Device>,
): never {
  const memory = checkCreation(op, options);
  const { dtype = "float32" } = options;
  return filledWith(op, shape, DTYPE[dtype][end], dtype, memory);
}

/** How {@link zerosLike} and its kin are called; `A` is what they take between tensor and options. */
export interface MakeLike<A extends readonly unknown[]> {
  /** In the shape, dtype and device of `x`. */
  <D extends DType, S extends Shape, V extends t.Device>(
    x: Tensor<D, S, V, t.Access>,
    ...more: A
  ): Tensor<D, S, V>;
  /** The same, but in the dtype or on the device that is given. */
  <
    D extends DType,
    S extends Shape,
    V extends t.Device,
    E extends DType = D,
    W extends t.Device = V,
  >(
    x: Tensor<D, S, V, t.Access>,
    ...more: [...A, options: CreateOptions<E, W>]
  ): Tensor<NoInfer<E>, S, t.OnDevice<NoInfer<W>>>;
}

type LikeOptions = CreateOptions<DType, t.Device>;

/** Zeros in the shape of another tensor, and in its dtype and on its device unless others are given. */
export const zerosLike: MakeLike<[]> = (x: AnyTensor, options: LikeOptions = {}): never =>
  filledLike("zerosLike", x, 0, options);

/** Ones in the shape of another tensor, and in its dtype and on its device unless others are given. */
export const onesLike: MakeLike<[]> = (x: AnyTensor, options: LikeOptions = {}): never =>
  filledLike("onesLike", x, 1, options);

/** {@link empty} in the shape of another tensor, and in its dtype and on its device likewise. */
export const emptyLike: MakeLike<[]> = (x: AnyTensor, options: LikeOptions = {}): never =>
  filledLike("emptyLike", x, 0, options);

/** One value in the shape of another tensor, and in its dtype and on its device likewise. */
export const fullLike: MakeLike<[value: Scalar]> = (
  x: AnyTensor,
  value: Scalar,
  options: LikeOptions = {},
): never => filledLike("fullLike", x, value, options);

function filledLike(
  op: string,
  x: AnyTensor,
  value: Scalar,
  options: LikeOptions,
): never {
  checkOperand(x, op);
  const asked = checkCreation(op, options);
  const memory = options.device === undefined ? x.storage.memory : asked;
  return filledWith(op, x.layout.shape, value, options.dtype ?? x.dtype, memory);
}

/** A tensor of rank 0. */
export function scalar<
  const X extends Scalar,
  E extends DType = t.DataDType<X>,
  V extends t.Device = "cpu",
>(
  value: X,
  options: CreateOptions<E, V> = {},
): Tensor<NoInfer<E>, [], t.OnDevice<NoInfer<V>>> {
  return filled("scalar", [], value, scalarDType(value), options);
}

const BY_ARRAY = new Map<unknown, DType>([
  [Int8Array, "int8"],
  [Int16Array, "int16"],
  [Int32Array, "int32"],
  [BigInt64Array, "int64"],
  [Uint8Array, "uint8"],
  [Uint8ClampedArray, "uint8"],
  [Uint16Array, "uint16"],
  [Uint32Array, "uint32"],
  [BigUint64Array, "uint64"],
  [globalThis.Float16Array, "float16"],
  [Float32Array, "float32"],
  [Float64Array, "float64"],
]);

/** The dtype of a typed array. Node's Buffer and other subclasses count as what they extend. */
function arrayDType(array: ArrayBufferView, op: string): DType {
  for (
    let proto = Object.getPrototypeOf(array);
    proto !== null;
    proto = Object.getPrototypeOf(proto)
  ) {
    const dtype = BY_ARRAY.get(proto.constructor);
    if (dtype !== undefined) return dtype;
  }
  throw new DTypeError(`Cannot ${op}: ${array.constructor.name} has no dtype`);
}

/** Arrays nested deeper than this are taken for a mistake. */
const MAX_NESTING = 64;

/** Nested arrays: their shape, and the innermost of them, each `length` long, in order. */
interface Nest {
  readonly shape: number[];
  readonly rows: readonly (readonly unknown[])[];
  readonly length: number;
}

function unnest(data: unknown): Nest {
  const lengths: number[] = [];
  for (let level = data; Array.isArray(level); level = level[0]) {
    // An array may be its own first element.
    if (lengths.length === MAX_NESTING) {
      throw new ShapeError(
        `Cannot make a tensor of arrays that are nested more than ${MAX_NESTING} deep`,
      );
    }
    lengths.push(level.length);
  }
  const shape = checkShape(lengths, "make a tensor of");
  // A value is a row of one.
  if (shape.length === 0) return { shape, rows: [[data]], length: 1 };
  let rows = [data as unknown[]];
  let length = shape[0]!;
  for (let axis = 1; axis < shape.length; axis++) {
    const inner: unknown[][] = [];
    const n = shape[axis]!;
    for (const row of rows) {
      for (let i = 0; i < length; i++) {
        const one = row[i];
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

/** How many values of a row are numbers, before the first that is none. */
function numbersOf(row: readonly unknown[], length: number): number {
  let i = 0;
  while (i < length && typeof row[i] === "number") i++;
  return i;
}

/** The dtype of values, which must be all numbers, all bigints or all booleans without `dtype`. */
function nestDType({ shape, rows, length }: Nest, dtype: DType | undefined): DType {
  if (rows.every((row) => numbersOf(row, length) === length)) return dtype ?? "float32";
  let first: Scalar | undefined;
  for (const row of rows) {
    for (let i = 0; i < length; i++) {
      const one = row[i];
      if (typeof one === typeof first && first !== undefined) continue;
      checkLeaf(one, shape.length);
      if (first === undefined) first = one;
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

function checkLeaf(leaf: unknown, axis: number): asserts leaf is Scalar {
  if (isScalar(leaf)) return;
  if (Array.isArray(leaf)) throw ragged(axis);
  if (isOperand(leaf) || ArrayBuffer.isView(leaf)) {
    throw new DTypeError(
      isOperand(leaf)
        ? "Cannot make a tensor of an array of tensors: stack() and concat() join them"
        : "Cannot make a tensor of an array of typed arrays: make one of each, and stack() them",
    );
  }
  throw new DTypeError(
    `Cannot make a tensor of ${leaf === null ? "null" : typeof leaf}: ` +
      "expected numbers, bigints or booleans",
  );
}

/** Writes values that {@link nestDType} has seen; getters may give others now. */
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
      // Floats take every number.
      if (kind !== "f") checkScalar(name, one, "write");
      writeElement(storage, at++, one);
    }
  }
}

/** `shape` against the number of elements at hand. */
function shapeFor(shape: unknown, length: number, op: string): number[] {
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

/**
 * A tensor of a value, nested arrays, a typed array or another tensor, whose elements are copied.
 * It is on the CPU, or where the other tensor is, unless `device` says otherwise.
 *
 * Numbers make float32, bigints int64, booleans bool, typed arrays their own dtype. `dtype` says
 * otherwise: values have to fit (a number that an integer dtype cannot hold is a DTypeError), typed
 * arrays and tensors are cast, as by `astype`. `shape` arranges the elements.
 *
 * Throws a ShapeError for ragged arrays and for a shape of another size.
 *
 * @example
 * ```ts
 * tensor([[1, 2], [3, 4]]).shape; // => [2, 2]
 * tensor(new Int32Array(6), { shape: [2, 3] }).dtype; // => int32
 * ```
 */
export function tensor<
  const X,
  const N extends Shape | undefined = undefined,
  E extends DType = t.DataDType<X>,
  V extends t.Device = t.DataDevice<X>,
>(
  data: t.Guard<t.DataShape<X>, X & t.DataArg<X>>,
  options: CreateOptions<E, V> & { readonly shape?: N } = {},
): Tensor<
  NoInfer<E>,
  N extends Shape ? t.Ok<t.NewShape<"tensor", N>> : t.Ok<t.DataShape<X>>,
  t.OnDevice<NoInfer<V>>
> {
  return make(data, options) as never;
}

const TENSOR_OPTIONS = ["shape", ...CREATE_OPTIONS];

function make(
  data: unknown,
  options: CreateOptions<DType, t.Device> & { readonly shape?: Shape },
): Operand {
  const memory = checkCreation("make a tensor", options, TENSOR_OPTIONS);
  const { device, dtype, shape } = options;
  if (isOperand(data)) {
    checkOperand(data, "make a tensor");
    const { storage, layout } = data;
    const arranged = shape === undefined ? layout.shape : shapeFor(shape, layout.size, "arrange");
    const cast = dtype !== undefined && dtype !== storage.info.name;
    const here = device === undefined || isOn(storage, device);
    return tidily(() => {
      let copy = cast || here ? contiguousCopy(data, dtype) : data;
      if (!here) copy = moved(copy, device);
      return result(copy.storage, Layout.contiguous(arranged));
    });
  }
  if (ArrayBuffer.isView(data) && !(data instanceof DataView)) {
    const from = arrayDType(data, "make a tensor");
    const array = data as unknown as TypedArray;
    const layout = Layout.contiguous(shapeFor(shape ?? [array.length], array.length, "arrange"));
    const bits = DTYPE[from].array === DTYPE[from].userArray
      ? array
      : new Uint16Array(array.buffer, array.byteOffset, array.length);
    const storage = allocate(dtype ?? from, array.length, false);
    if (storage.info.name === from) (storage.array as Float64Array).set(bits as Float64Array);
    else fill(storage, layout, { storage: adopt(from, bits), layout, flags: 0 });
    return result(sendTo(memory, storage), layout);
  }
  const nest = unnest(data);
  const to = nestDType(nest, dtype);
  const size = nest.rows.length * nest.length;
  const layout = Layout.contiguous(
    shape === undefined ? nest.shape : shapeFor(shape, size, "arrange"),
  );
  const storage = allocate(to, size, false);
  writeNest(storage, nest);
  return result(sendTo(memory, storage), layout);
}

/** How {@link fromBuffer} reads memory. */
export interface BufferOptions<E extends DType, N extends Shape> {
  /** The dtype; needed for an ArrayBuffer, and for bfloat16, float16 and bool on raw bits. */
  readonly dtype?: E;
  /** The shape; one axis over everything without it. */
  readonly shape?: N;
  /** Strides in elements; dense without them. */
  readonly strides?: readonly number[];
  /** The first element's position, in elements. */
  readonly offset?: number;
}

/**
 * A tensor on memory that is there already: writing to one writes the other.
 *
 * Throws a ShapeError when shape and strides leave the memory, an IndexError when the offset does, and
 * a DTypeError when the array cannot hold the dtype or its buffer may be resized. A tensor whose
 * strides let several indexes reach one element can be read, but not written.
 *
 * @example
 * ```ts
 * const bytes = new Float32Array([1, 2, 3, 4]);
 * const x = fromBuffer(bytes, { shape: [2, 2] });
 * bytes[3] = 9;
 * x.toArray(); // => [[1, 2], [3, 9]]
 * ```
 */
export function fromBuffer<
  const X extends ArrayBufferView | ArrayBufferLike,
  E extends DType = t.DataDType<X>,
  const N extends Shape = [number],
>(buffer: X, options: BufferOptions<E, N> = {}): Tensor<NoInfer<E>, N, "cpu"> {
  const op = "make a tensor from a buffer";
  const view = ArrayBuffer.isView(buffer);
  if (!view && !isBuffer(buffer)) {
    throw new DTypeError(`Cannot ${op}: expected a typed array or an ArrayBuffer`);
  }
  checkOptions(op, options, ["dtype", "shape", "strides", "offset"]);
  if (options.dtype !== undefined) checkDType(options.dtype, op);
  const dtype: DType | undefined = options.dtype ?? (view ? arrayDType(buffer, op) : undefined);
  if (dtype === undefined) throw new DTypeError(`Cannot ${op}: an ArrayBuffer needs a dtype`);
  const info = DTYPE[dtype];
  const bytes = buffer.byteLength;
  const begin = view ? buffer.byteOffset : 0;
  const memory: ArrayBufferLike = view ? buffer.buffer : buffer;
  if ((memory as ArrayBuffer).detached === true) {
    throw new DisposedError(`Cannot ${op} that was transferred to somebody else`);
  }
  if (isResizable(memory)) {
    throw new DTypeError(`Cannot ${op} that may be resized: copy it with tensor() or slice()`);
  }
  if (view && dtype !== arrayDType(buffer, op)) {
    const raw = arrayDType(buffer, op);
    if (DTYPE[raw].kind !== "u" || DTYPE[raw].bytes !== info.bytes) {
      throw new DTypeError(`Cannot ${op}: ${raw} elements are not the bits of ${dtype}`);
    }
  }
  if (begin % info.bytes !== 0 || bytes % info.bytes !== 0) {
    throw new ShapeError(
      `Cannot ${op}: ${bytes} bytes at byte ${begin} are no whole ${dtype} elements`,
    );
  }
  const length = bytes / info.bytes;
  const { offset = 0, strides } = options;
  if (!Number.isSafeInteger(offset) || offset < 0 || offset > length) {
    throw new IndexError(`Cannot ${op} of ${length} elements at offset ${describe(offset)}`);
  }
  const shape = checkShape(
    options.shape === undefined ? [length - offset] : options.shape,
    op,
  );
  if (strides !== undefined && (!Array.isArray(strides) || strides.length !== shape.length)) {
    throw new ShapeError(
      `Cannot ${op}: strides ${formatShape(strides)} for shape ${formatShape(shape)}`,
    );
  }
  for (const stride of strides ?? []) {
    if (!Number.isSafeInteger(stride)) {
      throw new ShapeError(`Cannot ${op}: stride ${describe(stride)}`);
    }
  }
  const layout = strides === undefined
    ? Layout.contiguous(shape, offset)
    : new Layout(shape, strides.slice(), offset);
  const [low, high] = layout.extent();
  if (
    strides === undefined && options.shape !== undefined && offset === 0 && layout.size !== length
  ) {
    throw new ShapeError(
      `Cannot ${op} of ${length} elements in shape ${formatShape(shape)}: it takes ${layout.size}`,
    );
  }
  if (layout.size > 0 && (low < 0 || high >= length)) {
    throw new ShapeError(
      `Cannot ${op} of ${length} elements: shape ${formatShape(shape)} with strides ${
        formatShape(layout.strides)
      } and offset ${offset} reaches positions ${low} to ${high}`,
    );
  }
  const array = new info.array(memory, begin, length);
  if (dtype === "bool" && (array as Uint8Array).some((byte) => byte > 1)) {
    throw new DTypeError(`Cannot ${op}: a bool is a byte of 0 or 1`);
  }
  return new Tensor(adopt(dtype, array), layout) as never;
}

function isBuffer(value: unknown): value is ArrayBufferLike {
  return value instanceof ArrayBuffer ||
    (typeof SharedArrayBuffer !== "undefined" && value instanceof SharedArrayBuffer);
}

function isResizable(memory: ArrayBufferLike): boolean {
  return "resizable" in memory && memory.resizable || "growable" in memory && memory.growable;
}

/**
 * The numbers from `start` (0) up to but not including `stop`, `step` (1) apart; float32 unless
 * asked. `arange(stop)` starts at 0. Bigints, of which all three have to be then, make int64, and
 * are exact beyond 2^53.
 *
 * Throws a ShapeError for what is no finite number, an IndexError for step 0 and a DTypeError for a
 * value that an integer dtype cannot hold.
 *
 * @example
 * ```ts
 * arange(5, 1, -2, { dtype: "int32" }).toArray(); // => [5, 3]
 * arange(2n ** 60n, 2n ** 60n + 2n).slice(1).item({ bigint: true }); // => 1152921504606846977n
 * ```
 */
export function arange<E extends DType = "float32", V extends t.Device = "cpu">(
  stop: number,
  options?: CreateOptions<E, V>,
): Tensor<NoInfer<E>, [number], t.OnDevice<NoInfer<V>>>;
/** {@link arange} from `start` on. */
export function arange<E extends DType = "float32", V extends t.Device = "cpu">(
  start: number,
  stop: number,
  step?: number,
  options?: CreateOptions<E, V>,
): Tensor<NoInfer<E>, [number], t.OnDevice<NoInfer<V>>>;
/** {@link arange} of bigints. */
export function arange<E extends DType = "int64", V extends t.Device = "cpu">(
  stop: bigint,
  options?: CreateOptions<E, V>,
): Tensor<NoInfer<E>, [number], t.OnDevice<NoInfer<V>>>;
/** {@link arange} of bigints from `start` on. */
export function arange<E extends DType = "int64", V extends t.Device = "cpu">(
  start: bigint,
  stop: bigint,
  step?: bigint,
  options?: CreateOptions<E, V>,
): Tensor<NoInfer<E>, [number], t.OnDevice<NoInfer<V>>>;
export function arange(...args: unknown[]): AnyTensor {
  const [first, second] = args;
  const short = args.length < 3 && (second === undefined || typeof second === "object");
  const wide = typeof first === "bigint";
  const [start, stop, step = wide ? 1n : 1] = short ? [wide ? 0n : 0, first] : args;
  const options = (short ? second : args[3]) as CreateOptions<DType, t.Device> | undefined;
  const memory = options === undefined ? null : checkCreation("arange", options);
  if (wide) return wideRange([start, stop, step], options?.dtype ?? "int64", memory);
  checkFinite("arange", start);
  checkFinite("arange", stop);
  checkFinite("arange", step);
  if (step === 0) throw new IndexError("Cannot arange by step 0");
  const length = Math.max(0, Math.ceil((stop - start) / step));
  checkShape([length], "arange");
  const at = (i: number): number => start + i * step;
  return ramp(length, at, step, options?.dtype ?? "float32", memory, "arange");
}

/** {@link arange} of bigints. */
function wideRange(
  given: readonly unknown[],
  dtype: DType,
  memory: DeviceMemory | null,
): AnyTensor {
  for (const value of given) {
    if (typeof value !== "bigint") {
      throw new ShapeError(
        `Cannot arange with ${describe(value)} beside a bigint: expected bigints only`,
      );
    }
  }
  const [start, stop, step] = given as [bigint, bigint, bigint];
  if (step === 0n) throw new IndexError("Cannot arange by step 0n");
  const gap = stop - start;
  // Division of bigints truncates; what is left of the last step counts as one.
  const steps = gap / step + (gap % step === 0n ? 0n : 1n);
  const length = (gap < 0n) === (step < 0n) ? Number(steps) : 0;
  checkShape([length], "arange");
  const last = start + BigInt(Math.max(0, length - 1)) * step;
  if (length > 0) { for (const end of [start, last]) checkScalar(dtype, end, "arange"); }
  const storage = allocate(dtype, length, false);
  for (let i = 0, value = start; i < length; i++, value += step) writeElement(storage, i, value);
  return new Tensor(sendTo(memory, storage), Layout.contiguous([length])) as never;
}

function checkFinite(op: string, value: unknown): asserts value is number {
  if (typeof value !== "number" || !Number.isFinite(value)) {
    throw new ShapeError(`Cannot ${op} with ${describe(value)}: expected a finite number`);
  }
}

/** `start + i * step` for each i. Engines make fast code of loops that see one kind of array. */
function line(array: TypedArray, length: number, start: number, step: number): void {
  if (array instanceof Float32Array) {
    for (let i = 0; i < length; i++) array[i] = start + i * step;
  } else if (array instanceof Float64Array) {
    for (let i = 0; i < length; i++) array[i] = start + i * step;
  } else if (array instanceof Int32Array) {
    for (let i = 0; i < length; i++) array[i] = start + i * step;
  } else for (let i = 0; i < length; i++) (array as Int16Array)[i] = start + i * step;
}

/** True when each of these is a number that an element of the storage's array holds as it is. */
function holdsLine({ kind, bytes, min, max }: DTypeInfo, ends: number[], step: number): boolean {
  if (kind === "f") return bytes > 2;
  return (kind === "i" || kind === "u") && bytes <= 4 && Number.isSafeInteger(step) &&
    ends.every((end) => Number.isSafeInteger(end) && end >= min && end <= max);
}

/** Lines from this length on are made of rows of so many elements, each the first plus a number. */
const LONG_LINE = 1 << 13;
const LINE_ROW = 1 << 10;

/** {@link line}, by a backend, where sums of whole numbers are exact; how many elements it made. */
function longLine(storage: Storage, length: number, start: number, step: number): number {
  const { name, kind } = storage.info;
  const most = Math.abs(start) + Math.abs(step) * length;
  const whole = Number.isInteger(start) && Number.isInteger(step);
  const exact = kind !== "f" || most <= (name === "float32" ? 2 ** 24 : 2 ** 53);
  if (length < LONG_LINE || !whole || !exact) return 0;
  const rows = Math.floor(length / LINE_ROW);
  const make = (count: number, from: number, by: number, shape: number[]): AnyTensor => {
    const part = allocate(name, count, false);
    line(part.array, count, from, by);
    return new Tensor(part, Layout.contiguous(shape)) as never;
  };
  const out = { storage, layout: Layout.contiguous([rows, LINE_ROW]), flags: 0 };
  tidily(() => {
    const row = make(LINE_ROW, start, step, [LINE_ROW]);
    const column = make(rows, 0, LINE_ROW * step, [rows, 1]);
    apply(MAP.add, column, row, undefined, { out });
  });
  return rows * LINE_ROW;
}

/** `at` of each i; with a `step` it is `start + i * step`, but for the last one. */
function ramp(
  length: number,
  at: (i: number) => number,
  step: number | undefined,
  dtype: DType,
  memory: DeviceMemory | null,
  op: string,
): AnyTensor {
  const storage = allocate(dtype, length, false);
  const { info } = storage;
  if (step !== undefined && length > 0 && holdsLine(info, [at(0), at(length - 1)], step)) {
    const made = longLine(storage, length, at(0), step);
    line(storage.array.subarray(made), length - made, at(made), step);
    writeElement(storage, length - 1, at(length - 1));
  } else {
    for (let i = 0; i < length; i++) {
      const value = at(i);
      checkScalar(dtype, value, op);
      writeElement(storage, i, value);
    }
  }
  return new Tensor(sendTo(memory, storage), Layout.contiguous([length])) as never;
}

const LINSPACE_OPTIONS = ["endpoint", ...CREATE_OPTIONS];
const EYE_OPTIONS = ["k", ...CREATE_OPTIONS];

/**
 * `count` numbers from `start` to `stop`, equally far apart; float32 unless asked. With `endpoint`
 * false, `stop` itself is left out.
 */
export function linspace<E extends DType = "float32", V extends t.Device = "cpu">(
  start: number,
  stop: number,
  count: number,
  options: CreateOptions<E, V> & { readonly endpoint?: boolean } = {},
): Tensor<NoInfer<E>, [number], t.OnDevice<NoInfer<V>>> {
  const memory = checkCreation("linspace", options, LINSPACE_OPTIONS);
  checkShape([count], "linspace");
  checkFinite("linspace", start);
  checkFinite("linspace", stop);
  const { endpoint = true, dtype = "float32" } = options;
  const gaps = Math.max(1, endpoint ? count - 1 : count);
  const step = (stop - start) / gaps;
  const finite = Number.isFinite(step), float = DTYPE[dtype].kind === "f";
  const at = (i: number): number => {
    const number = endpoint && i === count - 1 && i > 0
      ? stop
      : finite
      ? start + i * step
      : start * (1 - i / gaps) + stop * (i / gaps);
    return float ? number : Math.trunc(number);
  };
  return ramp(count, at, finite && float ? step : undefined, dtype, memory, "linspace") as never;
}

/** What `eye` takes besides its sizes. */
export interface EyeOptions<E extends DType, V extends t.Device> extends CreateOptions<E, V> {
  /** The diagonal of the ones: above the main one, or below it if negative. */
  readonly k?: number;
}

/**
 * A matrix with ones on diagonal `k` and zeros elsewhere: [rows, columns], square without the latter.
 *
 * @example
 * ```ts
 * eye(2, { dtype: "int32" }).toArray(); // => [[1, 0], [0, 1]]
 * eye(2, 3, { k: 1 }).toArray(); // => [[0, 1, 0], [0, 0, 1]]
 * ```
 */
export function eye<R extends number, E extends DType = "float32", V extends t.Device = "cpu">(
  rows: R,
  options?: EyeOptions<E, V>,
): Tensor<NoInfer<E>, [R, R], t.OnDevice<NoInfer<V>>>;
/** {@link eye} that need not be square. */
export function eye<
  R extends number,
  const C extends number = R,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  rows: R,
  columns?: C,
  options?: EyeOptions<E, V>,
): Tensor<NoInfer<E>, [R, C], t.OnDevice<NoInfer<V>>>;
export function eye(rows: number, ...args: unknown[]): AnyTensor {
  const short = args.length < 2 && typeof args[0] === "object" && args[0] !== null;
  const [columns, options = {}] = (short ? [undefined, args[0]] : args) as [
    number?,
    EyeOptions<DType, t.Device>?,
  ];
  const memory = checkCreation("eye", options, EYE_OPTIONS);
  const { k = 0, dtype = "float32" } = options;
  if (!Number.isSafeInteger(k)) throw new IndexError(`Cannot eye at diagonal ${describe(k)}`);
  const made: AnyTensor = filledWith("eye", [rows, columns ?? rows], 0, dtype, memory);
  const diagonal = made.layout.diagonal(k);
  fillScalar(made.storage, diagonal, 1);
  return made;
}

/**
 * Coordinate grids of vectors, as views: one tensor for each. `"xy"` swaps the first two axes.
 *
 * Throws a ShapeError for a tensor that is no vector.
 */
export function meshgrid(
  tensors: readonly AnyTensor[],
  options: { readonly indexing?: "xy" | "ij" } = {},
): AnyTensor[] {
  checkOptions("meshgrid", options, ["indexing"]);
  const { indexing = "xy" } = options;
  if (indexing !== "xy" && indexing !== "ij") {
    throw new TypeError(`Cannot meshgrid with indexing ${describe(indexing)}: it is "xy" or "ij"`);
  }
  if (!Array.isArray(tensors)) {
    throw new ShapeError(`Cannot meshgrid ${describe(tensors)}: it takes an array of vectors`);
  }
  for (const x of tensors) {
    checkOperand(x, "meshgrid");
    if (x.layout.shape.length !== 1) {
      throw new ShapeError(
        `Cannot meshgrid shape ${formatShape(x.layout.shape)}: it takes vectors`,
      );
    }
  }
  const swaps = indexing === "xy" && tensors.length > 1;
  const axisOf = (k: number): number => swaps && k < 2 ? 1 - k : k;
  const shape = tensors.map((_, k) => tensors[axisOf(k)]!.layout.size);
  return tensors.map((x, k) => {
    using line = x.reshape(shape.map((n, axis) => axis === axisOf(k) ? n : 1));
    return line.broadcastTo(shape) as AnyTensor;
  });
}

/**
 * Tensors joined along an existing axis (0); null joins all elements in a row. Dtypes promote.
 *
 * Throws a ShapeError that names both shapes and the axis.
 *
 * @example
 * ```ts
 * concat([zeros([1, 2]), ones([2, 2])]).shape; // => [3, 2]
 * ```
 */
export function concat<const Ts extends readonly AnyTensor[], const B extends number | null = 0>(
  tensors: t.Guard<
    t.ListOf<"concat", Ts, B extends number ? t.Concat<Ts, B> : [number]>,
    Ts
  >,
  axis?: B,
  options?: { readonly out?: AnyTensor },
): Tensor<
  t.OkDType<t.PromoteAll<Ts>>,
  t.Ok<B extends number ? t.Concat<Ts, B> : [number]>,
  Ts[number]["device"]
> {
  return joins.concat(tensors as Ts, axis, options) as never;
}

/** Tensors of one shape joined along a new axis (0). Dtypes promote. */
export function stack<const Ts extends readonly AnyTensor[], const B extends number = 0>(
  tensors: t.Guard<t.ListOf<"stack", Ts, t.Stack<Ts, B>>, Ts>,
  axis?: B,
  options?: { readonly out?: AnyTensor },
): Tensor<t.OkDType<t.PromoteAll<Ts>>, t.Ok<t.Stack<Ts, B>>, Ts[number]["device"]> {
  return joins.stack(tensors as Ts, axis, options) as never;
}

/**
 * Elements of `a` where `condition` (bool) holds, of `b` elsewhere; all three broadcast.
 *
 * @example
 * ```ts
 * const x = tensor([-1, 2]);
 * where(x.greater(0), x, 0).toArray(); // => [0, 2]
 * ```
 */
export function where<
  C extends Tensor<"bool", Shape, t.Device, t.Access>,
  const P extends TensorOrScalar,
  const Q extends TensorOrScalar,
>(
  condition: C,
  a: P,
  b: t.Guard<t.Where<C, P, Q>, Q>,
  options?: { readonly out?: AnyTensor },
): Tensor<t.BinaryDType<P, Q>, t.Ok<t.Where<C, P, Q>>, C["device"]> {
  return apply(MAP.where, condition, a as Operand, b as Operand, options) as never;
}

/** Tensors broadcast to their common shape, as views. */
export function broadcastTensors(...tensors: readonly AnyTensor[]): AnyTensor[] {
  for (const x of tensors) checkOperand(x, "broadcastTensors");
  const shape = broadcastAll("broadcastTensors", tensors.map((x) => x.layout.shape));
  return tensors.map((x) => x.broadcastTo(shape) as AnyTensor);
}

/**
 * True when both tensors look at the same memory: one is a view of the other, or both are on one
 * buffer that was handed in or out. Each message to a worker makes another object of a
 * SharedArrayBuffer; tensors on two such objects are not known to share.
 */
export function sharesBuffer(a: AnyTensor, b: AnyTensor): boolean {
  checkOperand(a, "sharesBuffer");
  checkOperand(b, "sharesBuffer");
  const [p, q] = [a.storage.base, b.storage.base];
  if (p === q) return true;
  // Others may be on one slab.
  return p.escaped && q.escaped && p.array.buffer === q.array.buffer;
}
