/**
 * Creates tensors: from data, by value, by rule.
 *
 * @module
 */
import {
  checkDType,
  type Complex,
  DTYPE,
  type DType,
  type Scalar,
  scalarDType,
} from "../base/dtype.ts";
import { describe } from "../base/text.ts";
import {
  ArgumentError,
  DisposedError,
  DTypeError,
  IndexError,
  ShapeError,
} from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import { checkShape, formatShape, lengthOf, ownAxes, type Shape } from "../base/shape.ts";
import { applyCreate } from "../core/apply.ts";
import { ownOperand } from "../core/foreign.ts";
import { wrap } from "../core/handles.ts";
import { checkWholeBlocks } from "../core/lanes.ts";
import type { Operand } from "../memory/operand.ts";
import { wrapExternal } from "../memory/pool.ts";
import { checkOptions } from "../table/infer.ts";
import { type Call, type CreateOp, makeOp, type OutputSpec } from "../table/op.ts";
import type * as t from "../types/mod.ts";
import { arrayDType, fromData } from "../ops/create/from_data.ts";
import { EYE, fullOperand } from "../ops/create/full.ts";
import { rangeOf } from "../ops/create/ranges.ts";
import type { AnyTensor, Tensor } from "./tensor.ts";

/** Options of functions that make tensors. */
export interface CreateOptions<E extends DType, V extends t.Device> {
  /** The element type. */
  readonly dtype?: E;
  /** The device of the tensor. */
  readonly device?: V;
}

const CREATE_OPTIONS = ["dtype", "device"];

function filled(
  name: string,
  shape: unknown,
  value: Scalar | Complex,
  dtype: DType,
  options: CreateOptions<DType, t.Device>,
): Operand {
  checkOptions(name, options, CREATE_OPTIONS);
  const { dtype: asked, device } = options;
  if (asked !== undefined) checkDType(asked, name);
  return fullOperand(name, shape, value, asked ?? dtype, device);
}

/**
 * A tensor of zeros.
 *
 * @throws {ShapeError} For sizes that are not nonnegative integers.
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
  options?: CreateOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"zeros", N>>, t.OnDevice<NoInfer<V>>>;
export function zeros(shape: Shape, options: CreateOptions<DType, t.Device> = {}): Operand {
  return filled("zeros", shape, 0, "float32", options);
}

/** A tensor of ones. */
export function ones<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  shape: t.Guard<t.NewShape<"ones", N>, N>,
  options?: CreateOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"ones", N>>, t.OnDevice<NoInfer<V>>>;
export function ones(shape: Shape, options: CreateOptions<DType, t.Device> = {}): Operand {
  return filled("ones", shape, 1, "float32", options);
}

/** A tensor with undefined elements until they are written; here, zeros. */
export function empty<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  shape: t.Guard<t.NewShape<"empty", N>, N>,
  options?: CreateOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"empty", N>>, t.OnDevice<NoInfer<V>>>;
export function empty(shape: Shape, options: CreateOptions<DType, t.Device> = {}): Operand {
  return filled("empty", shape, 0, "float32", options);
}

/**
 * A tensor of one value; a number gives float32, a bigint int64, a boolean bool, `{ re, im }`
 * complex64, unless `dtype` is given.
 */
export function full<
  const N extends Shape,
  const X extends Scalar | Complex,
  E extends DType = t.DataDType<X>,
  V extends t.Device = "cpu",
>(
  shape: t.Guard<t.NewShape<"full", N>, N>,
  value: X,
  options?: CreateOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"full", N>>, t.OnDevice<NoInfer<V>>>;
export function full(
  shape: Shape,
  value: Scalar | Complex,
  options: CreateOptions<DType, t.Device> = {},
): Operand {
  return filled("full", shape, value, scalarDType(value), options);
}

/** A tensor of the smallest finite value of its dtype. */
export function fullMin<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  shape: t.Guard<t.NewShape<"fullMin", N>, N>,
  options?: CreateOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"fullMin", N>>, t.OnDevice<NoInfer<V>>>;
export function fullMin(shape: Shape, options: CreateOptions<DType, t.Device> = {}): Operand {
  return extreme("fullMin", "min", shape, options);
}

/** A tensor of the largest finite value of its dtype. */
export function fullMax<
  const N extends Shape,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  shape: t.Guard<t.NewShape<"fullMax", N>, N>,
  options?: CreateOptions<E, V>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"fullMax", N>>, t.OnDevice<NoInfer<V>>>;
export function fullMax(shape: Shape, options: CreateOptions<DType, t.Device> = {}): Operand {
  return extreme("fullMax", "max", shape, options);
}

function extreme(
  name: string,
  end: "min" | "max",
  shape: unknown,
  options: CreateOptions<DType, t.Device>,
): Operand {
  checkOptions(name, options, CREATE_OPTIONS);
  const { dtype = "float32", device } = options;
  checkDType(dtype, name);
  if (DTYPE[dtype].kind === "c") {
    throw new DTypeError(`Cannot ${name} ${dtype}: complex numbers have no order`);
  }
  return fullOperand(name, shape, DTYPE[dtype][end], dtype, device);
}

/**
 * The call signature of {@link zerosLike} and similar functions; `A` is the parameters between
 * tensor and options.
 */
export interface MakeLike<A extends readonly unknown[]> {
  /** In the shape, dtype and device of `x`. */
  <D extends DType, S extends Shape, V extends t.Device>(
    x: Tensor<D, S, V, t.Access>,
    ...more: A
  ): Tensor<D, S, V>;
  /** The same in the given dtype or on the given device. */
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

/** Zeros in the shape of another tensor; dtype and device are also the same by default. */
export const zerosLike: MakeLike<[]> =
  ((x: AnyTensor, options: LikeOptions = {}): Operand =>
    filledLike("zerosLike", x, 0, options)) as MakeLike<[]>;

/** Ones in the shape of another tensor; dtype and device are also the same by default. */
export const onesLike: MakeLike<[]> =
  ((x: AnyTensor, options: LikeOptions = {}): Operand =>
    filledLike("onesLike", x, 1, options)) as MakeLike<[]>;

/** {@link empty} in the shape of another tensor; dtype and device are also the same by default. */
export const emptyLike: MakeLike<[]> =
  ((x: AnyTensor, options: LikeOptions = {}): Operand =>
    filledLike("emptyLike", x, 0, options)) as MakeLike<[]>;

/** One value in the shape of another tensor; dtype and device are also the same by default. */
export const fullLike: MakeLike<[value: Scalar | Complex]> = ((
  x: AnyTensor,
  value: Scalar | Complex,
  options: LikeOptions = {},
): Operand => filledLike("fullLike", x, value, options)) as MakeLike<[value: Scalar | Complex]>;

function filledLike(
  name: string,
  x: AnyTensor,
  value: Scalar | Complex,
  options: LikeOptions,
): Operand {
  const { layout, storage } = ownOperand(x, name);
  checkOptions(name, options, CREATE_OPTIONS);
  const { dtype = storage.info.name, device = storage.device as t.Device } = options;
  checkDType(dtype, name);
  return fullOperand(name, layout.shape, value, dtype, device);
}

/** A tensor of rank 0. */
export function scalar<
  const X extends Scalar | Complex,
  E extends DType = t.DataDType<X>,
  V extends t.Device = "cpu",
>(
  value: X,
  options?: CreateOptions<E, V>,
): Tensor<NoInfer<E>, [], t.OnDevice<NoInfer<V>>>;
export function scalar(
  value: Scalar | Complex,
  options: CreateOptions<DType, t.Device> = {},
): Operand {
  return filled("scalar", [], value, scalarDType(value), options);
}

/**
 * A tensor of a value, nested arrays, a typed array or another tensor, whose elements are copied.
 * It is on the CPU, or on the device of the other tensor, unless `device` is given.
 *
 * Numbers give float32, bigints int64, booleans bool, `{ re, im }` complex64, typed arrays their own
 * dtype. With `dtype`, values must fit (a number that an integer dtype cannot represent is a
 * DTypeError), and typed arrays and tensors are cast, as by `astype`; a float array with a complex
 * dtype of its precision has real and imaginary parts in turn. `shape` arranges the elements.
 *
 * @throws {ShapeError} For ragged arrays and for a shape of another size.
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
  options?: CreateOptions<E, V> & { readonly shape?: N },
): Tensor<
  NoInfer<E>,
  N extends Shape ? t.Ok<t.NewShape<"tensor", N>> : t.Ok<t.DataShape<X>>,
  t.OnDevice<NoInfer<V>>
>;
export function tensor(
  data: unknown,
  options: CreateOptions<DType, t.Device> & { readonly shape?: Shape | undefined } = {},
): Operand {
  checkOptions("make a tensor", options, TENSOR_OPTIONS);
  const { shape, dtype, device } = options;
  if (dtype !== undefined) checkDType(dtype, "make a tensor");
  return fromData(data, { shape, dtype, device });
}

const TENSOR_OPTIONS = ["shape", ...CREATE_OPTIONS];

/** Options of {@link fromBuffer}. */
export interface BufferOptions<E extends DType, N extends Shape> {
  /** The dtype; required for an ArrayBuffer, and for bfloat16, float16 and bool on raw bits. */
  readonly dtype?: E;
  /** The shape; by default one axis over all elements. */
  readonly shape?: N;
  /** Strides in elements; dense by default. */
  readonly strides?: readonly number[];
  /** The position of the first element, in elements. */
  readonly offset?: number;
}

/**
 * A tensor on existing memory: writes to one change the other.
 *
 * @throws {ShapeError} If shape and strides exceed the memory.
 * @throws {IndexError} If the offset exceeds the memory.
 * @throws {DTypeError} If the array cannot contain the dtype or its buffer is resizable. A tensor
 *   whose strides let several indexes reach one element is readable, but not writable.
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
>(
  buffer: X,
  options?: BufferOptions<E, N>,
): Tensor<NoInfer<E>, t.Ok<t.NewShape<"make a tensor from a buffer of", N>>, "cpu">;
export function fromBuffer(
  buffer: ArrayBufferView | ArrayBufferLike,
  options: BufferOptions<DType, Shape> = {},
): Operand {
  const name = "make a tensor from a buffer";
  if (!ArrayBuffer.isView(buffer) && !isBuffer(buffer)) {
    throw new DTypeError(`Cannot ${name}: expected a typed array or an ArrayBuffer`);
  }
  checkOptions(name, options, ["dtype", "shape", "strides", "offset"]);
  const { dtype, shape, strides, offset } = options;
  const own = { dtype, shape: ownAxes(shape, name), strides: ownAxes(strides, name), offset };
  return applyCreate(FROM_BUFFER, { buffer, options: own }, name);
}

/** A tensor on memory of the caller. */
const FROM_BUFFER: CreateOp = makeOp({
  kind: "create",
  name: "fromBuffer",
  infer({ attributes, name }: Call): readonly OutputSpec[] {
    const { storage, layout } = fromMemory(attributes, name);
    return [{ shape: layout.shape, dtype: storage.info }];
  },
  create: fromMemory,
});

function fromMemory(attributes: unknown, op: string): Operand {
  const { buffer, options } = attributes as {
    buffer: ArrayBufferView | ArrayBufferLike;
    options: BufferOptions<DType, Shape>;
  };
  const view = ArrayBuffer.isView(buffer);
  const { dtype: asked, shape: arranged, strides, offset = 0 } = options;
  if (asked !== undefined) checkDType(asked, op);
  const dtype: DType | undefined = asked ?? (view ? arrayDType(buffer, op) : undefined);
  if (dtype === undefined) throw new DTypeError(`Cannot ${op}: an ArrayBuffer needs a dtype`);
  const info = DTYPE[dtype];
  const bytes = buffer.byteLength;
  const begin = view ? buffer.byteOffset : 0;
  const memory: ArrayBufferLike = view ? buffer.buffer : buffer;
  if ((memory as ArrayBuffer).detached === true) {
    throw new DisposedError(`Cannot ${op} that was transferred`);
  }
  if (isResizable(memory)) {
    throw new DTypeError(`Cannot ${op} that may be resized: copy it with tensor() or slice()`);
  }
  const lane = info.lane ?? info;
  if (view && lane.name !== arrayDType(buffer, op)) {
    const raw = arrayDType(buffer, op);
    if (DTYPE[raw].kind !== "u" || DTYPE[raw].bytes !== lane.bytes) {
      throw new DTypeError(`Cannot ${op}: ${raw} elements are not the bits of ${dtype}`);
    }
  }
  if (begin % lane.bytes !== 0 || bytes % (lane.bytes * info.lanes) !== 0) {
    throw new ShapeError(
      `Cannot ${op}: ${bytes} bytes at byte ${begin} are no whole ${dtype} elements`,
    );
  }
  const length = bytes / info.bytes;
  if (!Number.isSafeInteger(offset) || offset < 0 || offset > length) {
    throw new IndexError(`Cannot ${op} of ${length} elements at offset ${describe(offset)}`);
  }
  const shape = checkShape(arranged === undefined ? [length - offset] : arranged, op);
  if (strides !== undefined && lengthOf(strides) !== shape.length) {
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
    : new Layout(shape, strides, offset);
  const [low, high] = layout.extent();
  if (
    strides === undefined && arranged !== undefined && offset === 0 && layout.size !== length
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
  checkWholeBlocks(info, shape, op);
  const array = new info.array(memory, begin, length * info.entries);
  if (dtype === "bool" && (array as Uint8Array).some((byte) => byte > 1)) {
    throw new DTypeError(`Cannot ${op}: a bool is a byte of 0 or 1`);
  }
  return wrap(wrapExternal(dtype, array), layout);
}

/** True for a buffer of any realm: only those have an internal length. */
function isBuffer(value: unknown): value is ArrayBufferLike {
  const classes = [ArrayBuffer, globalThis.SharedArrayBuffer].filter((one) => one !== undefined);
  return classes.some(({ prototype }) => {
    try {
      Reflect.get(prototype, "byteLength", value);
      return typeof value === "object";
    } catch {
      return false;
    }
  });
}

function isResizable(memory: ArrayBufferLike): boolean {
  return "resizable" in memory && memory.resizable || "growable" in memory && memory.growable;
}

/**
 * The numbers from `start` (0) up to but not including `stop`, `step` (1) apart; float32 by
 * default. `arange(stop)` starts at 0. Bigints give int64 and are exact beyond 2^53; then all three
 * must be bigints.
 *
 * @throws {ShapeError} For a number that is not finite.
 * @throws {IndexError} For step 0.
 * @throws {DTypeError} For a value that an integer dtype cannot represent.
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
export function arange(...args: unknown[]): Operand {
  const [first, second] = args;
  const short = args.length < 3 && (second === undefined || typeof second === "object");
  const wide = typeof first === "bigint";
  const [start, stop, step = wide ? 1n : 1] = short ? [wide ? 0n : 0, first] : args;
  const options = (short ? second : args[3]) as CreateOptions<DType, t.Device> | undefined;
  if (options !== undefined) checkOptions("arange", options, CREATE_OPTIONS);
  const { dtype = wide ? "int64" : "float32", device } = options ?? {};
  checkDType(dtype, "arange");
  return rangeOf({ start, stop, step, dtype, device });
}

const EYE_OPTIONS = ["k", ...CREATE_OPTIONS];

/** Options of `eye`. */
export interface EyeOptions<E extends DType, V extends t.Device> extends CreateOptions<E, V> {
  /** The diagonal of the ones: above the main one, or below it if negative. */
  readonly k?: number;
}

/**
 * A matrix with ones on diagonal `k` and zeros elsewhere: [rows, columns]; square without
 * `columns`.
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
/** {@link eye} with a number of columns. */
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
export function eye(rows: number, ...args: unknown[]): Operand {
  const short = args.length < 2 && typeof args[0] === "object" && args[0] !== null;
  const [columns, options = {}] = (short ? [undefined, args[0]] : args) as [
    number?,
    EyeOptions<DType, t.Device>?,
  ];
  checkOptions("eye", options, EYE_OPTIONS);
  const { k = 0, dtype = "float32", device } = options;
  checkDType(dtype, "eye");
  if (!Number.isSafeInteger(k)) {
    throw new ArgumentError(`eye() needs an integer as k, got ${describe(k)}`);
  }
  const shape = checkShape([rows, columns ?? rows], "eye");
  return applyCreate(EYE, { shape, k, dtype, device });
}
