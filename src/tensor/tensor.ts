/**
 * The class Tensor: documented methods, most of one line, over the lower layers.
 *
 * A tensor is a handle: a storage, a layout and a few flags. Methods call the ops of src/core,
 * src/ops and the other files of this folder. This file decides only which tensor owns memory
 * (`dispose`, `scope`, `into…`) and how elements become JavaScript values. The types that compute
 * shapes are in src/types.
 *
 * @module
 */
import { addressOf } from "../backend/cpu.ts";
import "../backend/cuda.ts";
import {
  checkDType,
  checkScalar,
  type Complex,
  type DType,
  type Scalar,
  type TypedArray,
  type TypedArrayOf,
} from "../base/dtype.ts";
import { describe } from "../base/text.ts";
import {
  ArgumentError,
  AxisError,
  DeviceError,
  DTypeError,
  IndexError,
  ShapeError,
  SharedError,
} from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { BRAND, brandFor, brandOf } from "../base/version.ts";
import { Layout } from "../base/layout.ts";
import { formatShape, normalizeAxis, ownAxes, type Shape } from "../base/shape.ts";
import type { Range, Slice } from "../base/slice.ts";
import { contiguousCopy, onCpu, toArrayCopy, toDevice, withContiguous } from "../core/copy.ts";
import { apply, applyInPlace, applyInto, applyView } from "../core/apply.ts";
import { copyInto, copyOf } from "../core/dispatch.ts";
import "../ops/complex/wrapper.ts";
import { ownOperand } from "../core/foreign.ts";
import { born, registerHandles } from "../core/handles.ts";
import { hostRead } from "../core/interpreter.ts";
import { prepareWrite } from "../core/write.ts";
import { asUserArray, readElement } from "../memory/element.ts";
import { type Operand, READ_ONLY, VIEW } from "../memory/operand.ts";
import { cowOf } from "../memory/snapshot.ts";
import { allocateIn, copyElements, download, downloadLater } from "../memory/device.ts";
import { allocateShared, letGo } from "../memory/pool.ts";
import { checkAlive, DISPOSED, type Storage } from "../memory/storage.ts";
import { checkOperand, checkOptions } from "../table/infer.ts";
import type { ArgReduceOp, MapOp, ReduceOp, ViewOp } from "../table/op.ts";
import { ARG_REDUCE, MAP, REDUCE, SCAN } from "../table/table.ts";
import { VIEWS } from "../table/views.ts";
import type { ACCESS, SHAPE } from "../types/core.ts";
import type * as t from "../types/mod.ts";
import { isFormatting } from "./console.ts";
import { formatHtml, type FormatOptions, formatTensor, inspectTensor } from "./format.ts";
import { index as pick, nonzero, take, takeAlongAxis } from "../ops/index/op.ts";
import { oneHot, putAlongAxis, setAt, type SetOptions } from "../ops/index/put.ts";
import { split, unstack } from "../ops/join/op.ts";
import { dot, matmul, outer } from "../ops/matmul/op.ts";
import { type Activation, linear } from "../ops/linear/op.ts";
import { dequantize } from "../ops/quantized/op.ts";
import {
  diff,
  type DiffOptions,
  pad,
  type PadMode,
  type PadOptions,
  type PadWidths,
  repeat,
  roll,
  tile,
  triangle,
} from "../ops/manipulate/op.ts";
import {
  allclose,
  argReduce,
  type Axes,
  type CloseOptions,
  equals,
  type EqualsOptions,
  isclose,
  logSumExp,
  norm,
  reduce,
  scan,
  variance,
} from "../ops/reduce/op.ts";
import { normalizeAlong, softmax } from "../ops/softmax_norm/op.ts";
import { type AnyPackedWeight, PackedWeight } from "../ops/linear/packed_weight.ts";
import { refuseAbsent } from "../base/absent.ts";
import { reachable } from "../base/reachable.ts";
import type { IndexArgument } from "../ops/index/selection.ts";
import { sort, type SortOptions, topk, type TopKOptions } from "../ops/sort/op.ts";
import { roundTo } from "../ops/reduce/round.ts";
import { nanArgReduce, nanMean, nanReduce, nanScan, nanVariance } from "../ops/reduce/nan.ts";
import { partition } from "../ops/sort/partition.ts";
import { median, mode, quantile, type QuantileMethod } from "../ops/sort/quantile.ts";

export type {
  Activation,
  Axes,
  CloseOptions,
  DiffOptions,
  EqualsOptions,
  FormatOptions,
  PadMode,
  PadOptions,
  PadWidths,
  QuantileMethod,
  SetOptions,
  SortOptions,
  TopKOptions,
};

/** Any tensor, read-only or not: the parameter type of functions that accept all tensors. */
export type AnyTensor = Tensor<DType, Shape, t.Device, t.Access>;

/** A tensor that a function only reads. */
export type ReadonlyTensor<D extends DType = "float32", S extends Shape = Shape> = Tensor<
  D,
  S,
  t.Device,
  t.Access
>;

/** The second operand of an elementwise op. */
export type TensorOrScalar = AnyTensor | Scalar | Complex;

/** The type of `x.T`. */
export type TransposeOf<X> = X extends Tensor<infer D, infer S, infer V, infer A>
  ? Tensor<D, t.Transpose<S>, V, A>
  : never;

/** The type of `x.mT`. */
export type MatrixTransposeOf<X> = X extends Tensor<infer D, infer S, infer V, infer A>
  ? Tensor<D, t.MatrixTranspose<S>, V, A>
  : never;

/** The type of the items in an iteration over `x`. */
export type RowOf<X> = X extends Tensor<infer D, infer S, infer V, infer A>
  ? Tensor<D, t.Row<S>, V, A>
  : never;

/** A tensor as a property, by which aliases give types that editors show as tensors. */
export interface TensorOf<
  D extends DType,
  S extends Shape,
  V extends t.Device,
  A extends t.Access = "write",
> {
  /** The tensor. */
  readonly tensor: Tensor<D, S, V, A>;
}

/** The result of the elementwise op `Op` on a tensor and another operand. */
export type Elementwise<Op extends keyof t.OpTable, X extends AnyTensor, U> = TensorOf<
  t.BinaryDType<Op, X, U>,
  t.BinaryShape<X, U>,
  X["device"]
>["tensor"];

/** The result of an op on a tensor and two operands that broadcast, either of which may be missing. */
export type Ternary<X extends AnyTensor, P, Q> = TensorOf<
  t.TernaryDType<X, P, Q>,
  t.TernaryShape<t.ShapeOf<X>, P, Q>,
  X["device"]
>["tensor"];

/** The result, of dtype `D`, of the reduction `Op` along `B`. */
export type Reduced<
  Op extends string,
  X extends AnyTensor,
  B extends t.AxisArg,
  K extends boolean,
  D extends DType,
> = TensorOf<D, t.Ok<t.Reduce<Op, t.ShapeOf<X>, B, K>>, X["device"]>["tensor"];

/** The quantiles `Q` along `B`. */
export type QuantilesOf<
  Op extends string,
  X extends AnyTensor,
  Q,
  B extends t.AxisArg,
  K extends boolean,
> = TensorOf<
  t.ToFloat[X["dtype"]],
  t.Ok<t.Quantiles<Q, t.Reduce<Op, t.ShapeOf<X>, B, K>>>,
  X["device"]
>["tensor"];

/** The result of a running sum or product, which `I` makes longer by 1. */
export type Scanned<X extends AnyTensor, I extends boolean, D extends DType> = TensorOf<
  D,
  I extends false ? t.ShapeOf<X> : t.Sizes<t.ShapeOf<X>>,
  X["device"]
>["tensor"];

/** Options of elementwise ops on one tensor. */
export interface UnaryOptions {
  /**
   * Write the result here instead of allocating: a tensor of the result's shape and kind of dtype.
   */
  readonly out?: AnyTensor;
}

/** The types of tensors of the dtypes, devices and access of `Ts`, all of the shape `S`. */
export type OfShape<Ts extends readonly AnyTensor[], S extends Shape> = {
  -readonly [K in keyof Ts]: Tensor<Ts[K]["dtype"], S, Ts[K]["device"], Ts[K]["access"]>;
};

/** Options of products. */
export interface ProductOptions<E extends DType> extends UnaryOptions {
  /** Cast the operands to this dtype first. */
  readonly dtype?: E;
}

/** Options of elementwise ops on two tensors. */
export interface BinaryOptions extends UnaryOptions {
  /** If `false`, tensors of different shapes are an error. */
  readonly broadcast?: boolean;
}

/** Options of reductions. */
export interface KeepOptions<K extends boolean> extends UnaryOptions {
  /** Keep the reduced axes, with size 1. */
  readonly keepDims?: K;
}

/** Options of quantiles. */
export interface QuantileMethodOptions<K extends boolean> extends KeepOptions<K> {
  /** How to interpolate between two elements; `"linear"` by default. */
  readonly method?: QuantileMethod;
}

/** Options of reductions that accept a dtype; `R` is `E`, or the error for it. */
export interface ReductionOptions<K extends boolean, E extends DType, R = E>
  extends KeepOptions<K> {
  /** Cast the input to this dtype first. */
  readonly dtype?: t.Guard<R, E>;
}

/** The elements that a reduction takes. */
export interface WhereOptions {
  /** A bool tensor that broadcasts to the shape of the input: other elements do not count. */
  readonly where?: Tensor<"bool", Shape, t.Device, t.Access>;
}

/** The elements that a reduction takes, and one more value. */
export interface InitialOptions extends WhereOptions {
  /** A value that counts as one more element of each reduction; `max` and `min` with `where` need it. */
  readonly initial?: Scalar;
}

/** Options of running sums and products. */
export interface ScanOptions<I extends boolean, E extends DType, R = E> extends UnaryOptions {
  /** Cast the input to this dtype first. */
  readonly dtype?: t.Guard<R, E>;
  /** Begin with the value of no elements: 0 for sums, 1 for products. */
  readonly includeInitial?: I;
}

/** Options of `rmsNorm`. */
export interface RmsNormOptions extends UnaryOptions {
  /** Scale of the result; its shape broadcasts to that of the axes. */
  readonly weight?: AnyTensor;
  /** Added before the square root. */
  readonly epsilon?: number;
}

/** Options of `layerNorm`. */
export interface LayerNormOptions extends RmsNormOptions {
  /** Shift of the result; its shape broadcasts to that of the axes. */
  readonly bias?: AnyTensor;
}

/** Options of `linear`; `R` is the residual, or the error for it. */
export interface LinearOptions<F extends Activation, R = AnyTensor> extends UnaryOptions {
  /** A function that is applied to the product with its bias. */
  readonly activation?: F | undefined;
  /** A tensor of the shape of the result, which is added last. */
  readonly add?: R | undefined;
}

/** The owner of a tensor's memory; see docs/memory.md. */
export type Ownership = "owned" | "view" | "cow" | "shared";

// ---- the ops of the core, with the types of tensors --------------------------------------------

// The core knows operands. Here the op table gives the dtype of a result, and src/types its shape:
// a method whose signature says another dtype does not compile. These are the functions of the core
// themselves, so that a call costs nothing more.

type Name = keyof t.OpTable;

/** An elementwise op on one tensor. */
// Twice, as the compiler does not relate an operand to a tensor of several type parameters.
const unary = apply as unknown as <
  N extends Name,
  D extends DType,
  S extends Shape,
  V extends t.Device,
>(
  op: MapOp<N>,
  x: Tensor<D, S, V, t.Access>,
  second: undefined,
  third: undefined,
  options: UnaryOptions | undefined,
) => Tensor<t.ResultDType<N, D>, S, V>;

/** An elementwise op on a tensor and an operand that fits it. */
const binary = apply as <N extends Name, X extends AnyTensor, U>(
  op: MapOp<N>,
  x: X,
  other: t.OperandOf<N, X, U>,
  third: undefined,
  options: BinaryOptions | undefined,
) => Elementwise<N, X, U>;

/** An elementwise op whose result replaces the elements of `x`. */
const inPlace = applyInPlace as <N extends Name, X extends AnyTensor>(
  op: MapOp<N>,
  name: `${N}_`,
  x: X,
  other?: unknown,
) => X;

/** A reduction over `axis`, which the signature of the method has checked. */
const reduction = reduce as <
  N extends Name,
  X extends AnyTensor,
  B extends t.AxisArg,
  K extends boolean,
  E extends DType = t.ResultDType<N, X["dtype"]>,
>(
  op: ReduceOp<N>,
  x: X,
  axis: unknown,
  options: object | undefined,
) => Reduced<N, X, B, K, E>;

/** A reduction to an index. */
const argReduction = argReduce as <
  N extends Name,
  X extends AnyTensor,
  B extends t.AxisArg,
  K extends boolean,
>(
  op: ArgReduceOp<N>,
  x: X,
  axis: unknown,
  options: object | undefined,
) => Reduced<N, X, B, K, t.ResultDType<N, X["dtype"]>>;

/** A view of `x`, or a copy where strides permit none: all but the shape stays. */
const view = applyView as <
  X extends AnyTensor,
  R extends Tensor<X["dtype"], Shape, X["device"], X["access"]>,
>(op: ViewOp, x: X, name: string, a?: unknown, b?: unknown, c?: unknown) => R;

/** A view with all axes in reverse order. */
const reversed = applyView as <X extends AnyTensor>(
  op: ViewOp,
  x: X,
  name: string,
) => TransposeOf<X>;

/** A view with the last two axes exchanged. */
const exchanged = applyView as <X extends AnyTensor>(
  op: ViewOp,
  x: X,
  name: string,
) => MatrixTransposeOf<X>;

/** A matrix product. */
const product = matmul as <X extends AnyTensor, U extends AnyTensor, E extends DType>(
  x: X,
  other: U,
  options: ProductOptions<E> | undefined,
) => Tensor<
  t.Asked<NoInfer<E>, t.OperandDType<"matmul", X, U>>,
  t.Ok<t.MatMul<t.ShapeOf<X>, t.ShapeOf<U>>>,
  X["device"]
>;

/** A product of vectors. */
const dotProduct = dot as <X extends AnyTensor, U extends AnyTensor, E extends DType>(
  x: X,
  other: U,
  options: ProductOptions<E> | undefined,
) => Tensor<t.Asked<NoInfer<E>, t.OperandDType<"matmul", X, U>>, [], X["device"]>;

// ---- scopes ------------------------------------------------------------------------------------

/** Tensors made since a `scope` began, if one is open. */
let scoped: Tensor<DType, Shape, t.Device, t.Access>[] | null = null;

/** Tensors that none of the open scopes disposes of. */
const keptTensors = new Set<unknown>();

/**
 * Runs `body` and disposes of every tensor made in it, except those that it returns or passes to
 * {@link keep}. Existing tensors stay.
 *
 * Tensors are found in arrays, maps, sets and own properties of objects, at any depth, but not
 * behind getters and in private fields.
 *
 * @throws {TypeError} If `body` is async.
 * @throws {RangeError} If `body` returns more than 100,000 objects; no tensor is then disposed of.
 *
 * @example
 * ```ts
 * const y = scope(() => tensor([1, 2]).add(1).mul(2)); // the sum is gone, the product is kept
 * y.toArray(); // => [4, 6]
 * ```
 */
export function scope<R>(body: () => R): R {
  if (typeof body !== "function") {
    throw typeError(`Cannot scope ${describe(body)}: expected a function`);
  }
  return tidy(() => {
    const made = body();
    if (isThenable(made)) {
      // No one else may wait for it, and its rejection would end the process.
      made.then(() => {}, () => {});
      throw typeError(
        "Cannot scope an async function: code after its first await would run outside",
      );
    }
    return made;
  }, reachableTensors);
}

/**
 * Keeps a tensor or a packed weight when the scopes around this call end; returns it. Outside of scopes it does
 * nothing.
 *
 * @example
 * ```ts
 * const found: Tensor[] = [];
 * scope(() => void found.push(keep(tensor([1, 2]).add(1)))); // the sum is kept
 * found[0]!.toArray(); // => [2, 3]
 * ```
 */
export function keep<X extends AnyTensor | AnyPackedWeight>(x: X): X {
  if (x instanceof PackedWeight) {
    if (scoped !== null) keptTensors.add(x.panels);
    return x;
  }
  if (brandOf(x, "tensor") === undefined) checkOperand(x, "keep");
  if (scoped !== null) keptTensors.add(x);
  return x;
}

function isThenable(x: unknown): x is PromiseLike<unknown> {
  return typeof x === "object" && x !== null && !(x instanceof Tensor) &&
    typeof (x as { then?: unknown }).then === "function";
}

/** {@link scope} for ops as well; `find` gives the tensors in a result that is no tensor. */
function tidy<R>(body: () => R, find: (kept: object) => Set<unknown> | null = tensorsIn): R {
  const outer = scoped;
  const mine: AnyTensor[] = scoped = [];
  let kept: unknown;
  try {
    const made = body();
    kept = made;
    return made;
  } finally {
    scoped = outer;
    endScope(mine, kept, find);
  }
}

/** Disposes of the tensors of a scope except those in `kept`, which the scope around it gets. */
function endScope(
  mine: readonly AnyTensor[],
  kept: unknown,
  find: (kept: object) => Set<unknown> | null,
): void {
  let keep: Set<unknown> | null = null;
  if (typeof kept === "object" && kept !== null && !(kept instanceof Tensor)) {
    try {
      keep = find(kept);
    } catch (error) {
      if (scoped !== null) scoped.push(...mine);
      throw error;
    }
  }
  for (const one of mine) {
    if (keptTensors.size > 0 && keptTensors.has(one)) continue;
    if (keep === null ? one !== kept : !keep.has(one)) one.dispose();
    else if (scoped !== null) scoped.push(one);
  }
  if (scoped === null && keptTensors.size > 0) keptTensors.clear();
}

function reachableTensors(kept: object): Set<unknown> {
  return reachable(kept, (one) => brandOf(one, "tensor") !== undefined);
}

function tensorsIn(kept: object): Set<unknown> | null {
  // Objects with many members, such as typed arrays, contain no tensors.
  if (ArrayBuffer.isView(kept)) return null;
  const members: unknown[] = Array.isArray(kept) ? kept : Object.values(kept);
  return new Set(members.filter((member) => member instanceof Tensor));
}

/** Throws a DeviceError unless the elements of `x` are on the CPU. */
function checkOnCpu(x: AnyTensor, op: string, instead: string): void {
  const { device, memory } = x.storage;
  if (memory !== null) throw new DeviceError(`Cannot ${op} a tensor on ${device}: ${instead}`);
}

/**
 * An n-dimensional array of one dtype on one device.
 *
 * `D` is the dtype, `S` the shape as far as it is known (`[2, 3]`, `[number, 3]`, or any), `V` the
 * device, `A` whether the tensor is writable. Make one with {@link tensor}, {@link zeros} and
 * similar functions.
 *
 * Ops return new tensors; methods that end in `_` write in place; views (`slice`, `reshape`,
 * `permute`, …) share memory with their source.
 */
export class Tensor<
  out D extends DType = "float32",
  out S extends Shape = Shape,
  out V extends t.Device = t.Device,
  A extends t.Access = "write",
> {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "Tensor";
  }

  static {
    refuseAbsent(this.prototype);
  }

  /** The shape, for types. @ignore */
  declare readonly [SHAPE]: S;
  /** Has types compare tensors by {@link access} and not by their type arguments. @ignore */
  declare readonly [ACCESS]: { readonly [K in A as never]: K };
  /** Shape, strides and offset, for backends; immutable, and usable without the data. @internal */
  readonly layout: Layout;
  /** The memory: for backends; programs use {@link data}. @internal */
  storage: Storage;
  // Private, so that tools that compare objects find a view equal to other tensors.
  #flags: number;

  /** Programs use {@link tensor} and similar functions. @ignore */
  constructor(storage: Storage, layout: Layout, flags: number = 0) {
    // The layout first: what compares objects finds other shapes before it looks into a storage.
    this.layout = layout;
    this.storage = storage;
    this.#flags = flags;
    storage.handles++;
    if (scoped !== null) {
      scoped.push(this);
      if (born !== null) born.add(this);
    }
  }

  /** @internal */
  get flags(): number {
    return this.#flags;
  }

  // ---- what it is ------------------------------------------------------------------------------

  /** The element type. */
  get dtype(): D {
    checkAlive(this.storage, "dtype");
    return this.storage.info.name as D;
  }

  /** The size of each axis, frozen; `[]` for a single element. */
  get shape(): Readonly<S> {
    return this.layout.frozenShape as Readonly<S>;
  }

  /** The distance between neighbors along each axis, in elements, frozen; 0 where broadcast. */
  get strides(): readonly number[] {
    return this.layout.frozenStrides;
  }

  /** {@link strides} in bytes, for native code. */
  get byteStrides(): readonly number[] {
    checkAlive(this.storage, "byteStrides");
    return this.layout.strides.map((stride) => stride * this.storage.info.bytes);
  }

  /** The position of the first element in its buffer, in elements. */
  get offset(): number {
    return this.layout.offset;
  }

  /** The number of axes. */
  get rank(): S["length"] {
    return this.layout.shape.length;
  }

  /** The number of elements. */
  get size(): number {
    return this.layout.size;
  }

  /** The number of bytes of the elements, each counted once. */
  get nbytes(): number {
    checkAlive(this.storage, "nbytes");
    return this.layout.size * this.storage.info.bytes;
  }

  /** The device of the elements. */
  get device(): V {
    return this.storage.device as V;
  }

  /** `"read"` for a read-only tensor, else `"write"`. */
  get access(): A extends "write" ? "write" : t.Access {
    return (this.flags & READ_ONLY ? "read" : "write") as A extends "write" ? "write" : t.Access;
  }

  /** True if the elements are dense in row-major order. */
  get isContiguous(): boolean {
    return this.layout.contiguous;
  }

  /** True after `dispose()` or a move. */
  get isDisposed(): boolean {
    return this.storage === DISPOSED;
  }

  /** The owner of the memory: this tensor, another one, another until the first write, or all. */
  get ownership(): Ownership {
    if (this.storage.isShared) return "cow";
    return this.flags & VIEW ? "view" : this.storage.shared ? "shared" : "owned";
  }

  // ---- values ----------------------------------------------------------------------------------

  /**
   * The only element of a tensor of any rank, as a JavaScript value.
   *
   * @throws {ShapeError} Unless there is exactly one.
   * @throws {ArgumentError} For an int64 or uint64 beyond ±2^53 without the option `bigint`.
   *
   * @example
   * ```ts
   * tensor([[7]]).item(); // => 7
   * ```
   */
  item(options: { readonly bigint: true }): t.BigItem[D];
  /** {@link item} as a number or boolean. */
  item(options?: { readonly bigint?: false }): t.Item[D];
  item(options?: { readonly bigint?: boolean }): Scalar | Complex {
    checkAlive(this.storage, "item");
    hostRead(this, "item");
    if (options !== undefined) checkOptions("item", options, VALUE_OPTIONS);
    if (this.layout.size !== 1) {
      throw new ShapeError(
        `item() needs exactly 1 element, got shape ${formatShape(this.layout.shape)}`,
      );
    }
    return toValue(this.storage, this.layout.offset, options?.bigint ?? false, "item");
  }

  /**
   * The element at one index for each axis, as a JavaScript value; negative ones count from the
   * end.
   *
   * @throws {IndexError} For an index out of range; the message names the axis.
   * @throws {ArgumentError} For an int64 or uint64 beyond ±2^53: use `x.slice(i, j).item({
   *   bigint: true })` for those.
   */
  get<X extends AnyTensor, const I extends readonly number[]>(
    this: X,
    ...index: t.GuardRest<t.OneIndexEach<"get", t.ShapeOf<X>, I>, I>
  ): t.Item[X["dtype"]] {
    checkAlive(this.storage, "get");
    const list = index as readonly number[];
    hostRead(this, "get");
    const position = this.layout.flatIndex("get", list);
    return toValue(this.storage, position, false, "get", list) as t.Item[X["dtype"]];
  }

  /**
   * All elements as nested arrays (a bare value at rank 0).
   *
   * @throws {ArgumentError} For an int64 or uint64 beyond ±2^53 without the option `bigint`.
   *
   * @example
   * ```ts
   * tensor([[1, 2], [3, 4]]).T.toArray(); // => [[1, 3], [2, 4]]
   * ```
   */
  toArray<X extends AnyTensor>(
    this: X,
    options: { readonly bigint: true },
  ): t.ToArray<X["shape"], t.BigItem[X["dtype"]]>;
  /** {@link toArray} of numbers or booleans. */
  toArray<X extends AnyTensor>(
    this: X,
    options?: { readonly bigint?: false },
  ): t.ToArray<X["shape"], t.Item[X["dtype"]]>;
  toArray(options?: { readonly bigint?: boolean }): Nested {
    checkAlive(this.storage, "toArray");
    if (options !== undefined) checkOptions("toArray", options, VALUE_OPTIONS);
    return nested(this, options?.bigint ?? false, "toArray");
  }

  /**
   * The value for `JSON.stringify`: {@link toArray}'s nested arrays. JSON has no NaN and no
   * infinities, and writes null for them.
   *
   * @throws {ArgumentError} For an int64 or uint64 beyond ±2^53, as JSON has no bigints.
   *
   * @example
   * ```ts
   * JSON.stringify({ x: tensor([[1, 2], [3, NaN]]) }); // => {"x":[[1,2],[3,null]]}
   * ```
   */
  toJSON<X extends AnyTensor>(this: X): t.ToArray<X["shape"], t.Item[X["dtype"]]>;
  toJSON(): Nested {
    checkAlive(this.storage, "toJSON");
    return nested(this, false, "toJSON");
  }

  /**
   * The elements in row-major order in a new typed array. bfloat16 gives raw bits. For a tensor on
   * a device, waits for all its queued work; {@link read} does not block.
   *
   * @example
   * ```ts
   * tensor([[1, 2], [3, 4]]).T.toTypedArray(); // => Float32Array [1, 3, 2, 4]
   * ```
   */
  toTypedArray(): TypedArrayOf[D] {
    checkAlive(this.storage, "toTypedArray");
    hostRead(this, "toTypedArray");
    return userCopy(this) as TypedArrayOf[D];
  }

  /**
   * The elements themselves, not a copy: writes to the array change the tensor.
   *
   * @throws {ShapeError} If the elements are not dense in row-major order.
   * @throws {ReadOnlyError} For a read-only tensor.
   * @throws {DeviceError} For a tensor that is not on the CPU: {@link toTypedArray} copies.
   */
  get data(): TypedArrayOf[D] {
    checkAlive(this.storage, "data");
    hostRead(this, "data");
    checkOnCpu(this, "data", "toTypedArray() and read() copy its elements");
    if (!this.layout.contiguous) {
      throw new ShapeError(
        `data needs contiguous elements, got shape ${formatShape(this.layout.shape)} with strides ${
          formatShape(this.layout.strides)
        }; use toTypedArray()`,
      );
    }
    prepareWrite(this, "data");
    const { storage, layout } = this;
    storage.expose();
    return asUserArray(storage.array, storage.info, layout.offset, layout.size) as TypedArrayOf[D];
  }

  /**
   * {@link toTypedArray} without blocking: the elements at the time of the call, available once the
   * device has finished earlier work.
   *
   * @example
   * ```ts
   * await tensor([1, 2]).mul(2).read(); // => Float32Array [2, 4]
   * ```
   */
  async read(): Promise<TypedArrayOf[D]> {
    checkAlive(this.storage, "read");
    hostRead(this, "read");
    if (this.storage.memory === null) return userCopy(this) as TypedArrayOf[D];
    const { info } = this.storage;
    const { size } = this.layout;
    const reading = withContiguous(
      this,
      ({ storage, layout }) => downloadLater(storage, layout.offset, size),
    );
    return asUserArray(await reading, info, 0, size) as TypedArrayOf[D];
  }

  /**
   * Moves the elements out: the array is the tensor's own memory if it is contiguous, writable, on
   * the CPU and not shared with other tensors, else a copy. This tensor is then unusable.
   */
  intoTypedArray(): TypedArrayOf[D] {
    checkAlive(this.storage, "intoTypedArray");
    hostRead(this, "intoTypedArray");
    const { storage, layout } = this;
    if (!layout.contiguous || !ownsAlone(this)) {
      const copy = userCopy(this);
      this.dispose();
      return copy as TypedArrayOf[D];
    }
    release(this);
    storage.expose();
    const { array, info } = storage;
    return asUserArray(array, info, layout.offset, layout.size) as TypedArrayOf[D];
  }

  /**
   * Moves the whole buffer out in storage order, independent of the view: the memory itself if it
   * is writable, on the CPU and not shared with other tensors, else a copy. This tensor is then
   * unusable.
   */
  intoRaw(): TypedArrayOf[D] {
    checkAlive(this.storage, "intoRaw");
    hostRead(this, "intoRaw");
    const { storage } = this;
    const { info, length } = storage;
    if (!ownsAlone(this)) {
      const copy = download(storage, 0, length);
      this.dispose();
      return asUserArray(copy, info, 0, length) as TypedArrayOf[D];
    }
    release(this);
    storage.expose();
    return asUserArray(storage.array, info, 0, length) as TypedArrayOf[D];
  }

  /**
   * Calls `f` with the address of the first element, for other native code, and returns the result;
   * the other elements are `byteStrides` apart. The address is valid until `f` returns; a device
   * finishes all its queued work before `f` runs. Writes of `f` change the tensor. If it is
   * read-only or has several indexes for one element, `f` must not write.
   *
   * @throws {DeviceError} If the native library, which finds addresses, is unavailable.
   */
  withPointer<R>(f: (address: bigint) => R): R {
    checkAlive(this.storage, "withPointer");
    hostRead(this, "withPointer");
    if (typeof f !== "function") {
      throw typeError(`Cannot withPointer ${describe(f)}: expected a function`);
    }
    const { storage, layout } = this;
    if (!(this.flags & READ_ONLY) && !layout.overlapsItself) prepareWrite(this, "withPointer");
    else if (storage.isShared) storage.settle();
    // Keeps the memory until f returns, even if f disposes of this tensor.
    const held = new Tensor(storage, layout);
    try {
      return f(placeOf(storage) + BigInt(layout.offset * storage.info.bytes));
    } finally {
      held.dispose();
    }
  }

  /**
   * Text with aligned columns, the shape and the dtype; long tensors are elided.
   *
   * @example
   * ```ts
   * tensor([1, 2 / 3]).toString({ precision: 3 }); // => tensor([1, 0.667], shape [2], float32)
   * ```
   */
  toString(options?: FormatOptions): string {
    return formatTensor(this, options);
  }

  /**
   * Text for `${x}` and other conversions to a string; an error for operators, which would compare
   * and join texts: use methods such as `less` and `add`.
   *
   * @throws {DTypeError} For `x < y`, `x + 1`, `+x` and the like, of tensors of any size.
   *
   * @example
   * ```ts
   * const x = tensor([9, 10]);
   * `${x.less(10)}`; // => tensor([true, false], shape [2], bool)
   * x < tensor([10, 10]); // throws DTypeError: Cannot use operators on a tensor
   * ```
   */
  [Symbol.toPrimitive](hint: "default" | "number" | "string"): string | number {
    if (hint === "string") return this.toString();
    if (hint === "number" && isFormatting()) return NaN;
    throw new DTypeError(
      `Cannot use operators on a tensor of shape ${
        formatShape(this.layout.shape)
      }: add(), less() ` +
        "and others are methods; item() gives its only element as a number, String() its text",
    );
  }

  /** The output of `console.log` in Deno, Bun and Node: one line inside other objects. */
  [Symbol.for("nodejs.util.inspect.custom")](
    depth?: number,
    options?: { readonly depth?: number },
  ): string {
    return depth === options?.depth ? formatTensor(this) : inspectTensor(this);
  }

  /** The output in Jupyter: a table, with text as a fallback. */
  [Symbol.for("Jupyter.display")](): { "text/html": string; "text/plain": string } {
    return { "text/html": formatHtml(this), "text/plain": this.toString() };
  }

  /** Iterates over views at each index of axis 0. */
  *[Symbol.iterator](): Generator<RowOf<this>> {
    yield* this.iterate(0) as Generator<RowOf<this>>;
  }

  /** Iterates over views at every `step`-th index of `axis`; a negative step starts at the end. */
  iterate(axis?: number, step?: number): Generator<Tensor<D, Shape, V, A>>;
  *iterate(axis: number = 0, step: number = 1): Generator<Operand> {
    checkAlive(this.storage, "iterate");
    const along = normalizeAxis("iterate", axis, this.layout.shape.length);
    if (!Number.isInteger(step) || step === 0) {
      throw new IndexError(`Cannot iterate axis ${along} by step ${describe(step)}`);
    }
    const n = this.layout.shape[along]!;
    for (let i = step > 0 ? 0 : n - 1; i >= 0 && i < n; i += step) {
      yield applyView(VIEWS.selectAxis, this, "iterate", along, i);
    }
  }

  // ---- ownership -------------------------------------------------------------------------------

  /** Frees the memory at once, unless other tensors hold it. Any later use is an error. */
  dispose(): void {
    if (this.storage === DISPOSED) return;
    const { storage } = this;
    this.storage = DISPOSED;
    letGo(storage);
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Another handle to the same elements. */
  view(): Tensor<D, S, V, A>;
  view(): Operand {
    if (arguments.length > 0) throw new ShapeError("Cannot view another shape: use reshape()");
    return applyView(VIEWS.view, this, "view");
  }

  /** Another handle to the same elements that does not permit writes. */
  readonly(): Tensor<D, S, V, "read">;
  readonly(): Operand {
    const view = applyView(VIEWS.view, this, "readonly") as AnyTensor;
    view.#flags |= READ_ONLY;
    return view;
  }

  /** A contiguous copy in new memory. */
  toOwned(): Tensor<D, S, V>;
  toOwned(): Operand {
    return contiguousCopy(this, undefined, "toOwned");
  }

  /** {@link toOwned}. */
  copy(): Tensor<D, S, V>;
  copy(): Operand {
    return contiguousCopy(this);
  }

  /** A view if the tensor is dense, else a dense copy. */
  contiguous(): Tensor<D, S, V, A>;
  contiguous(): Operand {
    return this.layout.contiguous
      ? applyView(VIEWS.view, this, "contiguous")
      : contiguousCopy(this, undefined, "contiguous");
  }

  /**
   * A tensor that owns its memory. An owned tensor moves (this handle is then unusable). A view or a
   * copy-on-write tensor is copied contiguously. A shared tensor moves if no other tensor holds it.
   *
   * @throws {SharedError} For a shared tensor that other tensors hold.
   */
  intoOwned(): Tensor<D, S, V>;
  intoOwned(): Operand {
    return intoOwned(this, "intoOwned", () => ownedCopy(this));
  }

  /** {@link intoOwned}, but a copy keeps strides and offset, and includes the whole buffer. */
  intoOwnedKeepLayout(): Tensor<D, S, V>;
  intoOwnedKeepLayout(): Operand {
    return intoOwned(
      this,
      "intoOwnedKeepLayout",
      () => new Tensor(wholeCopy(this.storage), this.layout),
    );
  }

  /**
   * A tensor that shares this one's memory until either is written, and then gets a copy. This
   * tensor stays usable, and neither sees writes to the other. A tensor with several indexes for
   * one element, such as a broadcast one, is copied at once, and so are elements that code outside
   * can access.
   */
  intoCow(): Tensor<D, S, V>;
  intoCow(): Operand {
    checkAlive(this.storage, "intoCow");
    hostRead(this, "intoCow");
    // Code outside can change exposed bytes without notice.
    if (this.storage.exposed || this.layout.overlapsItself) {
      return ownedCopy(this);
    }
    const [low, high] = this.layout.extent();
    return new Tensor(cowOf(this.storage, low, high), this.layout);
  }

  /**
   * A dense tensor on memory that workers can share; this handle is then unusable.
   *
   * @throws {DeviceError} For a tensor that is not on the CPU.
   */
  intoShared(): Tensor<D, S, V>;
  intoShared(): Operand {
    return intoShared(
      this,
      Layout.contiguous(this.layout.shape),
      "intoShared",
      this.layout.size,
    );
  }

  /** {@link intoShared}, with the whole buffer, strides and offset. */
  intoSharedKeepLayout(): Tensor<D, S, V>;
  intoSharedKeepLayout(): Operand {
    return intoShared(
      this,
      this.layout,
      "intoSharedKeepLayout",
      this.storage.length,
    );
  }

  /**
   * This tensor on `device`: a view if it is there already, else a dense copy. `"cuda"` is the
   * first CUDA device, and so is `"cuda:0"`; the others are `"cuda:1"` and so on.
   *
   * @throws {DeviceError} If there is no such device; the message names the reason.
   */
  to<W extends t.Device>(device: W): Tensor<D, S, t.OnDevice<NoInfer<W>>>;
  to(device: t.Device): Operand {
    return toDevice(this, device);
  }

  /** {@link to} the CPU. */
  cpu(): Tensor<D, S, "cpu">;
  cpu(): Operand {
    return toDevice(this, "cpu", "cpu");
  }

  /** {@link to} the first CUDA device. */
  cuda(): Tensor<D, S, "cuda">;
  cuda(): Operand {
    return toDevice(this, "cuda", "cuda");
  }

  // ---- writing ---------------------------------------------------------------------------------

  /**
   * Writes `value`, a scalar or a tensor that broadcasts, to the elements at `index`: an array of
   * arguments as {@link slice} accepts them, or one string.
   *
   * With `accumulate`, adds numbers to the existing elements, in the dtype of this tensor, once for
   * each occurrence of a place in the index: histograms, gradients of embeddings. Equal indexes add
   * one after the other; very many of them, and those on a device, add in a fixed order that is the
   * same every time.
   *
   * @throws {IndexError} For an index out of range.
   * @throws {ShapeError} If `value` does not broadcast.
   * @throws {DTypeError} If `value` does not fit the dtype.
   * @throws {ReadOnlyError} For a read-only tensor. No element is written before an error.
   *
   * @example
   * ```ts
   * zeros([2, 2]).set([1, ":"], 5).toArray(); // => [[0, 0], [5, 5]]
   * zeros([3]).set([[0, 2, 2]], 1, { accumulate: true }).toArray(); // => [1, 0, 2]
   * ```
   */
  set<X extends AnyTensor>(
    this: t.Writable<"set", X>,
    index: readonly t.SliceArg[] | string,
    value: TensorOrScalar,
    options?: SetOptions,
  ): X {
    setAt(this as X, index as readonly IndexArgument[] | string, value, options);
    return this as X;
  }

  /** Writes `value` to every element. */
  fill_<X extends AnyTensor>(this: t.Writable<"fill_", X>, value: Scalar | Complex): X;
  fill_(value: Scalar | Complex): Operand {
    checkAlive(this.storage, "fill_");
    checkScalar(this.dtype, value, "fill_");
    return applyInto(MAP.copy, "fill_", value, undefined, undefined, this, {
      dtype: this.dtype,
    });
  }

  /** Limits every element in place; see {@link clip}. */
  clip_<X extends AnyTensor>(
    this: t.Writable<"clip_", X>,
    min?: TensorOrScalar | null,
    max?: TensorOrScalar | null,
  ): X {
    const x = this as X;
    const [low, high] = [min ?? undefined, max ?? undefined];
    if (low !== undefined && high !== undefined) applyInPlace(MAP.clip, "clip_", x, low, high);
    else if (low !== undefined) applyInPlace(MAP.maximum, "clip_", x, low);
    else if (high !== undefined) applyInPlace(MAP.minimum, "clip_", x, high);
    else prepareWrite(x, "clip_");
    return x;
  }

  // ---- in place --------------------------------------------------------------------------------

  /** {@link add} in place: the result's shape must be this tensor's. */
  add_<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandInPlace<"add_", X, U>,
  ): X {
    return inPlace(MAP.add, "add_", this, other);
  }

  /** {@link sub} in place: the result's shape must be this tensor's. */
  sub_<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandInPlace<"sub_", X, U>,
  ): X {
    return inPlace(MAP.sub, "sub_", this, other);
  }

  /** {@link mul} in place: the result's shape must be this tensor's. */
  mul_<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandInPlace<"mul_", X, U>,
  ): X {
    return inPlace(MAP.mul, "mul_", this, other);
  }

  /** {@link div} in place: the result's shape must be this tensor's. */
  div_<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandInPlace<"div_", X, U>,
  ): X {
    return inPlace(MAP.div, "div_", this, other);
  }

  /** {@link floorDivide} in place: the result's shape must be this tensor's. */
  floorDivide_<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandInPlace<"floorDivide_", X, U>,
  ): X {
    return inPlace(MAP.floorDivide, "floorDivide_", this, other);
  }

  /** {@link remainder} in place: the result's shape must be this tensor's. */
  remainder_<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandInPlace<"remainder_", X, U>,
  ): X {
    return inPlace(MAP.remainder, "remainder_", this, other);
  }

  /** {@link pow} in place: the result's shape must be this tensor's. */
  pow_<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandInPlace<"pow_", X, U>,
  ): X {
    return inPlace(MAP.pow, "pow_", this, other);
  }

  /** {@link minimum} in place: the result's shape must be this tensor's. */
  minimum_<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandInPlace<"minimum_", X, U>,
  ): X {
    return inPlace(MAP.minimum, "minimum_", this, other);
  }

  /** {@link maximum} in place: the result's shape must be this tensor's. */
  maximum_<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandInPlace<"maximum_", X, U>,
  ): X {
    return inPlace(MAP.maximum, "maximum_", this, other);
  }

  /** {@link bitwiseAnd} in place: the result's shape must be this tensor's. */
  bitwiseAnd_<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandInPlace<"bitwiseAnd_", X, U>,
  ): X {
    return inPlace(MAP.bitwiseAnd, "bitwiseAnd_", this, other);
  }

  /** {@link bitwiseOr} in place: the result's shape must be this tensor's. */
  bitwiseOr_<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandInPlace<"bitwiseOr_", X, U>,
  ): X {
    return inPlace(MAP.bitwiseOr, "bitwiseOr_", this, other);
  }

  /** {@link bitwiseXor} in place: the result's shape must be this tensor's. */
  bitwiseXor_<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandInPlace<"bitwiseXor_", X, U>,
  ): X {
    return inPlace(MAP.bitwiseXor, "bitwiseXor_", this, other);
  }

  /** {@link neg} in place. */
  neg_<X extends AnyTensor>(this: t.Writable<"neg_", X>): X {
    return inPlace(MAP.neg, "neg_", this as X);
  }

  /** {@link abs} in place. */
  abs_<X extends AnyTensor>(this: t.Writable<"abs_", X>): X {
    return inPlace(MAP.abs, "abs_", this as X);
  }

  /** {@link square} in place. */
  square_<X extends AnyTensor>(this: t.Writable<"square_", X>): X {
    return inPlace(MAP.square, "square_", this as X);
  }

  /** {@link sqrt} in place. */
  sqrt_<X extends AnyTensor>(this: t.Writable<"sqrt_", X>): X {
    return inPlace(MAP.sqrt, "sqrt_", this as X);
  }

  /** {@link exp} in place. */
  exp_<X extends AnyTensor>(this: t.Writable<"exp_", X>): X {
    return inPlace(MAP.exp, "exp_", this as X);
  }

  /** {@link log} in place. */
  log_<X extends AnyTensor>(this: t.Writable<"log_", X>): X {
    return inPlace(MAP.log, "log_", this as X);
  }

  /** {@link tanh} in place. */
  tanh_<X extends AnyTensor>(this: t.Writable<"tanh_", X>): X {
    return inPlace(MAP.tanh, "tanh_", this as X);
  }

  /** {@link sigmoid} in place. */
  sigmoid_<X extends AnyTensor>(this: t.Writable<"sigmoid_", X>): X {
    return inPlace(MAP.sigmoid, "sigmoid_", this as X);
  }

  /** {@link relu} in place. */
  relu_<X extends AnyTensor>(this: t.Writable<"relu_", X>): X {
    return inPlace(MAP.relu, "relu_", this as X);
  }

  /** {@link gelu} in place. */
  gelu_<X extends AnyTensor>(this: t.Writable<"gelu_", X>): X {
    return inPlace(MAP.gelu, "gelu_", this as X);
  }

  /** {@link silu} in place. */
  silu_<X extends AnyTensor>(this: t.Writable<"silu_", X>): X {
    return inPlace(MAP.silu, "silu_", this as X);
  }

  /** {@link floor} in place. */
  floor_<X extends AnyTensor>(this: t.Writable<"floor_", X>): X {
    return inPlace(MAP.floor, "floor_", this as X);
  }

  /** {@link ceil} in place. */
  ceil_<X extends AnyTensor>(this: t.Writable<"ceil_", X>): X {
    return inPlace(MAP.ceil, "ceil_", this as X);
  }

  /** {@link round} in place. */
  round_<X extends AnyTensor>(this: t.Writable<"round_", X>, decimals?: number): X;
  round_(decimals?: number): Operand {
    if (decimals === undefined) return inPlace(MAP.round, "round_", this);
    return roundTo(this, decimals, { out: this }, "round_");
  }

  // ---- views -----------------------------------------------------------------------------------

  /** All axes in reverse order: a view. */
  get T(): TransposeOf<this> {
    return reversed(VIEWS.transpose, this, "T");
  }

  /** The last two axes exchanged: a view. */
  get mT(): MatrixTransposeOf<this> {
    return exchanged(VIEWS.mT, this, "mT");
  }

  /** All axes in reverse order: a view. */
  transpose(): TransposeOf<this>;
  transpose(): Operand {
    if (arguments.length > 0) throw new AxisError("Cannot transpose by axes: use permute()");
    return applyView(VIEWS.transpose, this, "transpose");
  }

  /**
   * The axes in the given order: a view.
   *
   * @example
   * ```ts
   * zeros([1, 2, 3]).permute(2, 0, 1).shape; // => [3, 1, 2]
   * ```
   */
  permute<X extends AnyTensor, const B extends readonly number[]>(
    this: X,
    ...axes: t.GuardRest<t.Permute<t.ShapeOf<X>, B>, B>
  ): Tensor<X["dtype"], t.Ok<t.Permute<t.ShapeOf<X>, B>>, X["device"], X["access"]> {
    return view(VIEWS.permute, this, "permute", axes);
  }

  /** {@link permute} under its name in the array API standard. */
  permuteDims<X extends AnyTensor, const B extends readonly number[]>(
    this: X,
    ...axes: t.GuardRest<t.Permute<t.ShapeOf<X>, B>, B>
  ): Tensor<X["dtype"], t.Ok<t.Permute<t.ShapeOf<X>, B>>, X["device"], X["access"]> {
    return view(VIEWS.permute, this, "permuteDims", axes);
  }

  /** Exchanges two axes: a view. */
  swapAxes<X extends AnyTensor, const B extends number, const C extends number>(
    this: X,
    axis1: B,
    axis2: t.Guard<t.SwapAxes<t.ShapeOf<X>, B, C>, C>,
  ): Tensor<X["dtype"], t.Ok<t.SwapAxes<t.ShapeOf<X>, B, C>>, X["device"], X["access"]> {
    return view(VIEWS.swapAxes, this, "swapAxes", axis1, axis2);
  }

  /** Moves one axis, or several, to other places: a view. */
  moveAxis<
    X extends AnyTensor,
    const B extends number | readonly number[],
    const C extends number | readonly number[],
  >(
    this: X,
    source: B,
    destination: t.Guard<t.MoveAxis<t.ShapeOf<X>, B, C>, C>,
  ): Tensor<X["dtype"], t.Ok<t.MoveAxis<t.ShapeOf<X>, B, C>>, X["device"], X["access"]> {
    return view(
      VIEWS.moveAxis,
      this,
      "moveAxis",
      ownAxes(source, "moveAxis"),
      ownAxes(destination, "moveAxis"),
    );
  }

  /**
   * Another shape of the same size, one entry of which may be -1: a view if strides allow it, else
   * a copy.
   *
   * @example
   * ```ts
   * arange(6).reshape([2, -1]).toArray(); // => [[0, 1, 2], [3, 4, 5]]
   * ```
   */
  reshape<X extends AnyTensor, const N extends Shape>(
    this: X,
    shape: t.Guard<t.Reshape<t.ShapeOf<X>, N>, N>,
  ): Tensor<X["dtype"], t.Ok<t.Reshape<t.ShapeOf<X>, N>>, X["device"], X["access"]> {
    // A copy reads the shape twice.
    const sizes = this.layout.contiguous ? shape : ownAxes(shape, "reshape");
    return view(VIEWS.reshape, this, "reshape", sizes);
  }

  /** All elements in one axis: a view if strides allow it, else a copy. */
  flatten<X extends AnyTensor>(
    this: X,
  ): Tensor<X["dtype"], t.Ok<t.Reshape<t.ShapeOf<X>, [-1]>>, X["device"], X["access"]> {
    return view(VIEWS.flatten, this, "flatten");
  }

  /** New axes of size 1 before `axis`, one or several of the result: a view. */
  expandDims<X extends AnyTensor, const B extends number | readonly number[] = 0>(
    this: X,
    axis?: t.Guard<t.ExpandDims<t.ShapeOf<X>, B>, B>,
  ): Tensor<X["dtype"], t.Ok<t.ExpandDims<t.ShapeOf<X>, B>>, X["device"], X["access"]> {
    return view(VIEWS.expandDims, this, "expandDims", ownAxes(axis, "expandDims"));
  }

  /** {@link expandDims}. */
  unsqueeze<X extends AnyTensor, const B extends number | readonly number[] = 0>(
    this: X,
    axis?: t.Guard<t.ExpandDims<t.ShapeOf<X>, B>, B>,
  ): Tensor<X["dtype"], t.Ok<t.ExpandDims<t.ShapeOf<X>, B>>, X["device"], X["access"]> {
    return view(VIEWS.expandDims, this, "unsqueeze", ownAxes(axis, "unsqueeze"));
  }

  /** Without the given axes, or all axes, of size 1: a view. */
  squeeze<X extends AnyTensor, const B extends t.AxisArg = undefined>(
    this: X,
    axis?: t.Guard<t.Squeeze<t.ShapeOf<X>, B>, B>,
  ): Tensor<X["dtype"], t.Ok<t.Squeeze<t.ShapeOf<X>, B>>, X["device"], X["access"]> {
    return view(VIEWS.squeeze, this, "squeeze", axis);
  }

  /** Reverses the order of the elements along the given axes, or all: a view. */
  flip<X extends AnyTensor, const B extends t.AxisArg = undefined>(
    this: X,
    axis?: t.Guard<t.AlongAxes<"flip", t.ShapeOf<X>, B>, B>,
  ): Tensor<X["dtype"], t.ShapeOf<X>, X["device"], X["access"]> {
    return view(VIEWS.flip, this, "flip", axis);
  }

  /**
   * Repeats the elements to a larger shape without copying: a read-only view with strides of 0, as
   * several indexes reach one element.
   */
  broadcastTo<X extends AnyTensor, const N extends Shape>(
    this: X,
    shape: t.Guard<t.BroadcastTo<t.ShapeOf<X>, N>, N>,
  ): Tensor<X["dtype"], t.Ok<t.BroadcastTo<t.ShapeOf<X>, N>>, X["device"], "read">;
  broadcastTo(shape: Shape): Operand {
    const made = applyView(VIEWS.broadcastTo, this, "broadcastTo", shape) as AnyTensor;
    made.#flags |= READ_ONLY;
    return made;
  }

  /** The elements at `row + offset = column` of two axes, as a new last axis: a view. */
  diagonal<X extends AnyTensor, const B extends number = 0, const C extends number = 1>(
    this: X,
    offset?: number,
    axis1?: B,
    axis2?: t.Guard<t.Diagonal<t.ShapeOf<X>, B, C>, C>,
  ): Tensor<X["dtype"], t.Ok<t.Diagonal<t.ShapeOf<X>, B, C>>, X["device"], X["access"]> {
    return view(VIEWS.diagonal, this, "diagonal", offset, axis1, axis2);
  }

  /**
   * Part of the tensor, one argument for each axis: a number, a `"start:stop:step"` string, a Slice
   * or range, `"..."`, `null` for a new axis; or one string for all axes. These give a view. Arrays
   * of numbers, integer tensors and bool masks pick elements, and give a copy.
   *
   * @throws {IndexError} For an index out of range; the message names the axis.
   *
   * @example
   * ```ts
   * const x = arange(12).reshape([3, 4]);
   * x.slice("1:, ::2").toArray(); // => [[4, 6], [8, 10]]
   * x.slice(-1, [0, 3]).toArray(); // => [8, 11]
   * ```
   */
  slice<X extends AnyTensor, const I extends readonly t.SliceArg[]>(
    this: X,
    ...index: t.GuardRest<t.SliceShape<t.ShapeOf<X>, I>, I>
  ): Tensor<X["dtype"], t.Ok<t.SliceShape<t.ShapeOf<X>, I>>, X["device"], X["access"]>;
  slice(...args: readonly IndexArgument[]): Operand {
    for (let i = 0; i < args.length; i++) {
      const arg = args[i];
      if (typeof arg === "object" && (Array.isArray(arg) || brandOf(arg, "tensor"))) {
        return pick(this, args);
      }
    }
    return view(VIEWS.slice, this, "slice", args);
  }

  /** Part of one axis: a number (which drops it), a string, a Slice or a range. A view. */
  sliceAxis<
    X extends AnyTensor,
    const B extends number,
    const I extends number | string | Slice | Range,
  >(
    this: X,
    axis: B,
    index: t.Guard<t.SliceAxis<t.ShapeOf<X>, B, I>, I>,
  ): Tensor<X["dtype"], t.Ok<t.SliceAxis<t.ShapeOf<X>, B, I>>, X["device"], X["access"]> {
    return view(VIEWS.sliceAxis, this, "sliceAxis", axis, index);
  }

  /** Views along `axis` (0): this many equal parts, or cut before each of the given indexes. */
  split<
    X extends AnyTensor,
    const N extends number | readonly number[],
    const B extends number = 0,
  >(
    this: X,
    parts: t.Guard<t.Split<t.ShapeOf<X>, N, B>, N>,
    axis?: B,
  ): t.Parts<
    N,
    Tensor<X["dtype"], t.Ok<t.Split<t.ShapeOf<X>, N, B>>, X["device"], X["access"]>
  >;
  split(parts: number | readonly number[], axis?: number): Operand[] {
    return split(this, parts, axis);
  }

  /** A view of every index of `axis` (0). */
  unstack(axis?: number): Tensor<D, Shape, V, A>[];
  unstack(axis?: number): Operand[] {
    return unstack(this, axis);
  }

  /**
   * The same tensor with rank `N` in its type.
   *
   * @throws {ShapeError} If the tensor has another rank.
   */
  asRank<X extends AnyTensor, const N extends number>(
    this: X,
    rank: t.Guard<t.AsRank<t.ShapeOf<X>, N>, N>,
  ): Tensor<X["dtype"], t.Ok<t.AsRank<t.ShapeOf<X>, N>>, X["device"], X["access"]> {
    return view(VIEWS.asRank, this, "asRank", rank);
  }

  /**
   * The same tensor with the given dtype in its type.
   *
   * @throws {DTypeError} If the tensor has another dtype.
   */
  asDType<E extends DType>(dtype: E): Tensor<NoInfer<E>, S, V, A>;
  asDType(dtype: DType): Operand {
    checkDType(dtype, "asDType");
    checkAlive(this.storage, "asDType");
    if (this.storage.info.name !== dtype as DType) {
      throw new DTypeError(`Cannot take ${this.storage.info.name} as ${dtype}: astype() casts`);
    }
    return applyView(VIEWS.view, this, "asDType");
  }

  /** The same tensor with a dynamic shape in its type. */
  asDynamic(): Tensor<D, Shape, V, A>;
  asDynamic(): Operand {
    return applyView(VIEWS.view, this, "asDynamic");
  }

  /**
   * The same tensor with the given shape in its type.
   *
   * @throws {ShapeError} If the tensor has another shape.
   */
  asShape<X extends AnyTensor, const N extends Shape>(
    this: X,
    shape: t.Guard<t.AsShape<t.ShapeOf<X>, N>, N>,
  ): Tensor<X["dtype"], t.Ok<t.AsShape<t.ShapeOf<X>, N>>, X["device"], X["access"]> {
    return view(VIEWS.asShape, this, "asShape", shape);
  }

  /**
   * The same tensor with the shape of `other` in its type.
   *
   * @throws {ShapeError} If the shapes differ.
   */
  like<N extends Shape>(other: Tensor<DType, N, t.Device, t.Access>): Tensor<D, N, V, A>;
  like(other: AnyTensor): Operand {
    const { shape } = ownOperand(other, "like").layout;
    return applyView(VIEWS.asShape, this, "like", shape);
  }

  // ---- copies ----------------------------------------------------------------------------------

  /**
   * The elements in another dtype. Floats to integers truncate and saturate, NaN gives 0; integers
   * wrap; to bool, everything but 0 is true.
   *
   * @example
   * ```ts
   * tensor([1.9, -1.9, 300]).astype("uint8").toArray(); // => [1, 0, 255]
   * ```
   */
  astype<E extends DType>(dtype: E): Tensor<NoInfer<E>, S, V>;
  astype(dtype: DType): Operand {
    checkDType(dtype, "astype");
    return contiguousCopy(this, dtype, "astype");
  }

  /**
   * The numbers of a quantized tensor, such as a weight of a GGUF file, as float32.
   *
   * @throws {DTypeError} For other dtypes.
   */
  dequantize(): Tensor<"float32", S, V>;
  dequantize(): Operand {
    return dequantize(this);
  }

  /** The whole tensor, repeated `repeats[i]` times along axis i. */
  tile<X extends AnyTensor, const N extends Shape>(
    this: X,
    repeats: N,
  ): Tensor<X["dtype"], t.Tile<t.ShapeOf<X>, N>, X["device"]>;
  tile(repeats: Shape): Operand {
    return tile(this, repeats);
  }

  /** Each element repeated along `axis` (flat without one), by one number or one per element. */
  repeat<X extends AnyTensor, const B extends number | undefined = undefined>(
    this: X,
    repeats: number | readonly number[],
    axis?: t.Guard<t.Repeat<t.ShapeOf<X>, B>, B>,
  ): Tensor<X["dtype"], t.Ok<t.Repeat<t.ShapeOf<X>, B>>, X["device"]>;
  repeat(repeats: number | readonly number[], axis?: number | undefined): Operand {
    return repeat(this, repeats, axis as number);
  }

  /** Elements moved along `axis` (flat without one), cyclically. */
  roll(shift: number | readonly number[], axis?: number | readonly number[]): Tensor<D, S, V>;
  roll(shift: number | readonly number[], axis?: number | readonly number[]): Operand {
    return roll(this, shift, axis);
  }

  /** Adds elements before and after each axis: a value, or by another {@link PadOptions.mode}. */
  pad<X extends AnyTensor>(
    this: X,
    widths: PadWidths,
    options?: PadOptions,
  ): Tensor<X["dtype"], t.Sizes<t.ShapeOf<X>>, X["device"]>;
  pad(widths: PadWidths, options?: PadOptions): Operand {
    return pad(this, widths, options);
  }

  /** The lower triangle of the last two axes, up to diagonal `k`; zero elsewhere. */
  tril(k?: number): Tensor<D, S, V>;
  tril(k?: number): Operand {
    return triangle("tril", this, k);
  }

  /** The upper triangle of the last two axes, from diagonal `k` on; zero elsewhere. */
  triu(k?: number): Tensor<D, S, V>;
  triu(k?: number): Operand {
    return triangle("triu", this, k);
  }

  /** The sub-tensors at `indexes` along `axis` (0); the axes of `indexes` take its place. */
  take<
    X extends AnyTensor,
    const I extends AnyTensor | readonly number[] | number,
    const B extends number = 0,
  >(
    this: X,
    indexes: I,
    axis?: t.Guard<t.Take<t.ShapeOf<X>, IndexShape<I>, B>, B>,
  ): Tensor<X["dtype"], t.Ok<t.Take<t.ShapeOf<X>, IndexShape<I>, B>>, X["device"]>;
  take(indexes: AnyTensor | readonly number[] | number, axis?: number): Operand {
    return take(this, indexes as Operand, axis as number);
  }

  /**
   * `x[…, indexes[…], …]`: the elements at the indexes of `argsort(axis)` or
   * `argmax(axis, { keepDims: true })`.
   */
  takeAlongAxis(indexes: AnyTensor, axis?: number): Tensor<D, Shape, V>;
  takeAlongAxis(indexes: AnyTensor, axis: number = -1): Operand {
    return takeAlongAxis(this, indexes, axis);
  }

  /**
   * Writes `values` in place to the elements that {@link takeAlongAxis} reads; options as in
   * {@link set}.
   */
  putAlongAxis_<X extends AnyTensor>(
    this: t.Writable<"putAlongAxis_", X>,
    indexes: AnyTensor,
    values: TensorOrScalar,
    axis: number = -1,
    options?: SetOptions,
  ): X {
    putAlongAxis(this as X, indexes, values, axis, options);
    return this as X;
  }

  /**
   * The indexes (int32) of the nonzero elements: one vector for each axis. For more than 2^31 - 1
   * elements they are int64, unlike in the type: `asDType("int64")` corrects it.
   */
  nonzero<X extends AnyTensor>(
    this: X,
  ): t.TupleOf<t.ShapeOf<X>["length"], Tensor<"int32", [number], X["device"]>>;
  nonzero(): Operand[] {
    return nonzero(this);
  }

  /** Class numbers as one-hot rows, along a new last axis. */
  oneHot<X extends AnyTensor, const N extends number, E extends DType = "float32">(
    this: X,
    classes: N,
    options?: { readonly dtype?: E },
  ): Tensor<NoInfer<E>, t.Append<t.ShapeOf<X>, N>, X["device"]>;
  oneHot(classes: number, options: { readonly dtype?: DType } = {}): Operand {
    checkOptions("oneHot", options, ["dtype"]);
    const { dtype = "float32" } = options;
    return oneHot(this, classes, dtype);
  }

  /** The elements along `axis` (the last one) from small to large; NaN goes last. */
  sort<X extends AnyTensor, const B extends number = -1>(
    this: X,
    axis?: t.Guard<t.AlongAxes<"sort", t.ShapeOf<X>, B>, B>,
    options?: SortOptions,
  ): Tensor<X["dtype"], t.ShapeOf<X>, X["device"]>;
  sort(axis?: number, options?: SortOptions): Operand {
    return sort("sort", this, axis as number, options);
  }

  /** The indexes (int32) that {@link sort} along `axis`; those of equal elements stay in order. */
  argsort<X extends AnyTensor, const B extends number = -1>(
    this: X,
    axis?: t.Guard<t.AlongAxes<"argsort", t.ShapeOf<X>, B>, B>,
    options?: SortOptions,
  ): Tensor<"int32", t.ShapeOf<X>, X["device"]>;
  argsort(axis?: number, options?: SortOptions): Operand {
    return sort("argsort", this, axis as number, options);
  }

  /**
   * The `k` largest elements along an axis, largest first, or the smallest ones, and their indices
   * (int32). NaN counts as the largest number; of equal elements the first are taken.
   *
   * @throws {ArgumentError} Unless `k` is from 0 to the size of the axis.
   *
   * @example
   * ```ts
   * const { values, indices } = tensor([3, 1, 4, 1, 5]).topk(2);
   * [values.toArray(), indices.toArray()]; // => [[5, 4], [4, 2]]
   * ```
   */
  topk<X extends AnyTensor, const K extends number, const B extends number = -1>(
    this: X,
    k: K,
    axis?: t.Guard<t.AlongAxes<"topk", t.ShapeOf<X>, B>, B>,
    options?: TopKOptions,
  ): {
    readonly values: Tensor<X["dtype"], t.Ok<t.Take<t.ShapeOf<X>, [K], B>>, X["device"]>;
    readonly indices: Tensor<"int32", t.Ok<t.Take<t.ShapeOf<X>, [K], B>>, X["device"]>;
  };
  topk(
    k: number,
    axis?: number,
    options?: TopKOptions,
  ): Readonly<Record<"values" | "indices", Operand>> {
    return topk(this, k, axis as number, options);
  }

  /**
   * The elements along an axis around those of the ranks `kth`: these are where {@link sort} would
   * put them, with all smaller elements before them and all greater ones after them, in their
   * order. NaN counts as the largest number. Negative ranks count from the end.
   *
   * @throws {ArgumentError} For a rank that the axis does not have.
   *
   * @example
   * ```ts
   * tensor([4, 1, 5, 2, 3]).partition(2).toArray(); // => [1, 2, 3, 4, 5]
   * tensor([9, 1, 8, 2]).partition(1).toArray(); // => [1, 2, 9, 8]
   * ```
   */
  partition<X extends AnyTensor, const B extends number = -1>(
    this: X,
    kth: number | readonly number[],
    axis?: t.Guard<t.AlongAxes<"partition", t.ShapeOf<X>, B>, B>,
  ): Tensor<X["dtype"], t.ShapeOf<X>, X["device"]>;
  partition(kth: number | readonly number[], axis?: number): Operand {
    return partition("partition", this, kth, axis as number);
  }

  /**
   * The indexes (int32) that {@link partition} an axis.
   *
   * @example
   * ```ts
   * tensor([9, 1, 8, 2]).argpartition(1).toArray(); // => [1, 3, 0, 2]
   * ```
   */
  argpartition<X extends AnyTensor, const B extends number = -1>(
    this: X,
    kth: number | readonly number[],
    axis?: t.Guard<t.AlongAxes<"argpartition", t.ShapeOf<X>, B>, B>,
  ): Tensor<"int32", t.ShapeOf<X>, X["device"]>;
  argpartition(kth: number | readonly number[], axis?: number): Operand {
    return partition("argpartition", this, kth, axis as number);
  }

  /**
   * The `n`-th differences between neighbors along `axis` (the last one), after the elements
   * `prepend` and before `append`, which have the same dtype and broadcast to the other axes.
   *
   * @example
   * ```ts
   * tensor([1, 4, 9]).diff(1, 0, { prepend: 0 }).toArray(); // => [1, 3, 5]
   * ```
   */
  diff<
    X extends AnyTensor,
    const N extends number = 1,
    const B extends number = -1,
    O extends DiffOptions | undefined = undefined,
  >(
    this: X,
    n?: N,
    axis?: t.Guard<t.AlongAxes<"diff", t.ShapeOf<X>, B>, B>,
    options?: O,
  ): Tensor<X["dtype"], t.Diff<t.ShapeOf<X>, N, B, O>, X["device"]>;
  diff(n?: number, axis?: number, options?: DiffOptions | undefined): Operand {
    return diff(this, n, axis as number, options);
  }

  // ---- products --------------------------------------------------------------------------------

  /**
   * The matrix product: [..., M, K] by [..., K, N] gives [..., M, N]. Batches broadcast; a vector
   * counts as one row or column, and that axis is dropped. Operands may have any strides.
   *
   * Integers wrap in the dtype of the result. With `dtype`, operands are cast to it first, which
   * avoids overflow in products of int8.
   *
   * @throws {ShapeError} If the inner sizes differ or the batches do not broadcast; the message names
   *   both shapes.
   * @throws {DTypeError} For bool.
   *
   * @example
   * ```ts
   * tensor([[1, 2], [3, 4]]).matmul(tensor([1, 1])).toArray(); // => [3, 7]
   * const bytes = full([2, 2], 100, { dtype: "int8" });
   * bytes.matmul(bytes, { dtype: "int32" }).toArray(); // => [[20000, 20000], [20000, 20000]]
   * ```
   */
  matmul<X extends AnyTensor, U extends AnyTensor, E extends DType = never>(
    this: X,
    other: t.Guard<t.ProductOf<"matmul", X, U, t.MatMul<t.ShapeOf<X>, t.ShapeOf<U>>, E>, U>,
    options?: ProductOptions<E>,
  ): Tensor<
    t.Asked<NoInfer<E>, t.OperandDType<"matmul", X, U>>,
    t.Ok<t.MatMul<t.ShapeOf<X>, t.ShapeOf<U>>>,
    X["device"]
  > {
    return product(this, other as U, options);
  }

  /** The sum of the products of two vectors [K], of rank 0. */
  dot<X extends AnyTensor, U extends AnyTensor, E extends DType = never>(
    this: X,
    other: t.Guard<t.ProductOf<"dot", X, U, t.Dot<t.ShapeOf<X>, t.ShapeOf<U>>, E>, U>,
    options?: ProductOptions<E>,
  ): Tensor<t.Asked<NoInfer<E>, t.OperandDType<"matmul", X, U>>, [], X["device"]> {
    return dotProduct(this, other as U, options);
  }

  /** Every product of an element of [M] and one of [N]: [M, N]. */
  outer<X extends AnyTensor, U extends AnyTensor>(
    this: X,
    other: t.Guard<t.ProductOf<"outer", X, U, t.Outer<t.ShapeOf<X>, t.ShapeOf<U>>>, U>,
    options?: UnaryOptions,
  ): Tensor<t.OperandDType<"outer", X, U>, t.Ok<t.Outer<t.ShapeOf<X>, t.ShapeOf<U>>>, X["device"]>;
  outer(other: AnyTensor, options?: UnaryOptions): Operand {
    return outer(this, other, options);
  }

  /**
   * [..., I] by weight: [O, I], plus bias: [O], gives [..., O]; then `activation` and the residual
   * `add`, if given. A weight from {@link pack} is faster for few rows.
   *
   * With a packed weight, sums are float32 and results are rounded once. Otherwise each step computes
   * the same as the op of its name.
   *
   * @throws {DTypeError} For a float64 result of a packed weight.
   *
   * @example
   * ```ts
   * const w = tensor([[1, 0], [0, -1]]);
   * const x = tensor([[1, 2]]);
   * x.linear(w, tensor([1, 1]), { activation: "relu", add: x }).toArray(); // => [[3, 2]]
   * x.linear(pack(w)).toArray(); // => [[1, -2]]
   * ```
   */
  linear<
    X extends AnyTensor,
    W extends AnyTensor | AnyPackedWeight,
    B extends AnyTensor = X,
    R extends AnyTensor = X,
    F extends Activation = never,
  >(
    this: X,
    weight: t.Guard<t.LinearOf<X, W, t.Linear<t.ShapeOf<X>, t.ShapeOf<W>>>, W>,
    bias?: t.Guard<
      t.ListOf<"linear", [X, t.Weighed<X, W>, B], t.Bias<t.ShapeOf<W>, t.ShapeOf<B>>>,
      B
    >,
    options?: LinearOptions<
      F,
      t.Guard<
        t.ListOf<
          "linear",
          [X, t.Weighed<X, W>, B, R],
          t.Residual<t.ShapeOf<W>, t.Linear<t.ShapeOf<X>, t.ShapeOf<W>>, t.ShapeOf<R>>
        >,
        R
      >
    >,
  ): Tensor<
    t.Activated<t.OkDType<t.PromoteAll<[X, t.Weighed<X, W>, B, R]>>, F>,
    t.Ok<t.Linear<t.ShapeOf<X>, t.ShapeOf<W>>>,
    X["device"]
  >;
  linear(
    weight: AnyTensor | AnyPackedWeight,
    bias?: AnyTensor,
    options?: LinearOptions<
      Activation,
      AnyTensor
    >,
  ): Operand {
    return linear(this, weight, bias, options as object);
  }

  /**
   * x limited to `min` and `max`, either of which may be omitted (or null); NaN stays.
   *
   * @example
   * ```ts
   * tensor([-1, 0.5, 2]).clip(0, 1).toArray(); // => [0, 0.5, 1]
   * ```
   */
  clip<
    X extends AnyTensor,
    const P extends TensorOrScalar | null | undefined = undefined,
    const Q extends TensorOrScalar | null | undefined = undefined,
  >(
    this: X,
    min?: P,
    max?: Q,
    options?: UnaryOptions,
  ): Ternary<X, P, Q>;
  clip(
    min?: TensorOrScalar | null | undefined,
    max?: TensorOrScalar | null | undefined,
    options?: UnaryOptions,
  ): Operand {
    const [low, high] = [min ?? undefined, max ?? undefined];
    if (low === undefined && high === undefined) {
      return apply(MAP.copy, this, undefined, undefined, options, "clip");
    }
    if (low === undefined) {
      return apply(MAP.minimum, this, high, undefined, options, "clip");
    }
    if (high === undefined) {
      return apply(MAP.maximum, this, low, undefined, options, "clip");
    }
    return apply(MAP.clip, this, low, high, options);
  }

  /** Where |x - y| <= atol + rtol |y| (1e-8, 1e-5). */
  isclose<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.Guard<t.Broadcast<t.ShapeOf<X>, t.ShapeOf<U>, "isclose">, U>,
    options?: CloseOptions,
  ): Tensor<"bool", t.Ok<t.Broadcast<t.ShapeOf<X>, t.ShapeOf<U>, "isclose">>, X["device"]>;
  isclose(other: TensorOrScalar, options?: CloseOptions): Operand {
    return isclose(this, other as TensorOrScalar, options);
  }

  /**
   * Whether both have one dtype, one shape and the same elements, in whatever layouts.
   *
   * NaN equals nothing, unless `equalNan` is true.
   *
   * @throws {DeviceError} For tensors on two devices.
   *
   * @example
   * ```ts
   * tensor([[1, 2], [3, 4]]).T.equals(tensor([[1, 3], [2, 4]])); // => true
   * tensor([1]).equals(tensor([1], { dtype: "int32" })); // => false
   * ```
   */
  equals(other: AnyTensor, options?: EqualsOptions): boolean {
    return equals(this, other, options);
  }

  /** Whether {@link isclose} holds everywhere. */
  allclose(other: TensorOrScalar, options?: CloseOptions): boolean {
    return allclose(this, other, options);
  }

  // ---- elementwise -----------------------------------------------------------------------------

  /**
   * -x. Unsigned integers wrap.
   *
   * @example
   * ```ts
   * tensor([1, -2]).neg().toArray(); // => [-1, 2]
   * ```
   */
  neg(options?: UnaryOptions): Tensor<D, S, V> {
    return unary(MAP.neg, this, undefined, undefined, options);
  }

  /** A copy of x; bool is an error. */
  positive(options?: UnaryOptions): Tensor<D, S, V> {
    return unary(MAP.positive, this, undefined, undefined, options);
  }

  /**
   * The absolute value: of complex numbers, the distance from 0, as floats. The smallest signed
   * integer is unchanged.
   */
  abs(options?: UnaryOptions): Tensor<t.ToReal[D], S, V> {
    return unary(MAP.abs, this, undefined, undefined, options);
  }

  /** The real parts of complex numbers, as floats; a copy of other tensors. */
  real(options?: UnaryOptions): Tensor<t.ToReal[D], S, V> {
    return unary(MAP.real, this, undefined, undefined, options);
  }

  /**
   * The imaginary parts of complex numbers, as floats; zeros for other tensors.
   *
   * @example
   * ```ts
   * tensor([{ re: 1, im: 2 }, { re: 3, im: -4 }]).imag().toArray(); // => [2, -4]
   * ```
   */
  imag(options?: UnaryOptions): Tensor<t.ToReal[D], S, V> {
    return unary(MAP.imag, this, undefined, undefined, options);
  }

  /** The complex conjugate; a copy of other tensors. */
  conj(options?: UnaryOptions): Tensor<D, S, V> {
    return unary(MAP.conj, this, undefined, undefined, options);
  }

  /** The angle of complex numbers from the positive real axis, from -π to π, as floats. */
  angle(options?: UnaryOptions): Tensor<t.ToReal[t.ToFloat[D]], S, V> {
    return unary(MAP.angle, this, undefined, undefined, options);
  }

  /** -1, 0 or 1 by the sign of x; NaN stays NaN. Complex numbers become x / |x|, and 0 stays. */
  sign(options?: UnaryOptions): Tensor<D, S, V> {
    return unary(MAP.sign, this, undefined, undefined, options);
  }

  /** x * x. */
  square(options?: UnaryOptions): Tensor<D, S, V> {
    return unary(MAP.square, this, undefined, undefined, options);
  }

  /** The square root; NaN below 0. */
  sqrt(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.sqrt, this, undefined, undefined, options);
  }

  /** One over the square root. */
  rsqrt(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.rsqrt, this, undefined, undefined, options);
  }

  /** One over x. */
  reciprocal(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.reciprocal, this, undefined, undefined, options);
  }

  /** e to the power of x. */
  exp(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.exp, this, undefined, undefined, options);
  }

  /** exp(x) - 1, exact near 0. */
  expm1(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.expm1, this, undefined, undefined, options);
  }

  /** 2 to the power of x. */
  exp2(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.exp2, this, undefined, undefined, options);
  }

  /** The natural logarithm. */
  log(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.log, this, undefined, undefined, options);
  }

  /** log(1 + x), exact near 0. */
  log1p(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.log1p, this, undefined, undefined, options);
  }

  /** The logarithm to base 2. */
  log2(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.log2, this, undefined, undefined, options);
  }

  /** The logarithm to base 10. */
  log10(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.log10, this, undefined, undefined, options);
  }

  /** The sine of x in radians. */
  sin(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.sin, this, undefined, undefined, options);
  }

  /** The cosine of x in radians. */
  cos(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.cos, this, undefined, undefined, options);
  }

  /** The tangent of x in radians. */
  tan(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.tan, this, undefined, undefined, options);
  }

  /** The inverse sine, in radians; NaN outside [-1, 1]. */
  asin(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.asin, this, undefined, undefined, options);
  }

  /** The inverse cosine, in radians; NaN outside [-1, 1]. */
  acos(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.acos, this, undefined, undefined, options);
  }

  /** The inverse tangent, in radians. */
  atan(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.atan, this, undefined, undefined, options);
  }

  /** The hyperbolic sine. */
  sinh(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.sinh, this, undefined, undefined, options);
  }

  /** The hyperbolic cosine. */
  cosh(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.cosh, this, undefined, undefined, options);
  }

  /** The hyperbolic tangent. */
  tanh(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.tanh, this, undefined, undefined, options);
  }

  /** The inverse hyperbolic sine. */
  asinh(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.asinh, this, undefined, undefined, options);
  }

  /** The inverse hyperbolic cosine; NaN below 1. */
  acosh(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.acosh, this, undefined, undefined, options);
  }

  /** The inverse hyperbolic tangent; NaN outside [-1, 1]. */
  atanh(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.atanh, this, undefined, undefined, options);
  }

  /** The error function. */
  erf(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.erf, this, undefined, undefined, options);
  }

  /** 1 / (1 + exp(-x)), without overflow. */
  sigmoid(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.sigmoid, this, undefined, undefined, options);
  }

  /**
   * x if it is above 0, else 0; NaN stays NaN.
   *
   * @example
   * ```ts
   * tensor([-1, 2]).relu().toArray(); // => [0, 2]
   * ```
   */
  relu(options?: UnaryOptions): Tensor<D, S, V> {
    return unary(MAP.relu, this, undefined, undefined, options);
  }

  /** x times the normal distribution function of x (the exact form). */
  gelu(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.gelu, this, undefined, undefined, options);
  }

  /** x * sigmoid(x). */
  silu(options?: UnaryOptions): Tensor<t.ToFloat[D], S, V> {
    return unary(MAP.silu, this, undefined, undefined, options);
  }

  /** The nearest integer at or below x; integers stay. */
  floor(options?: UnaryOptions): Tensor<D, S, V> {
    return unary(MAP.floor, this, undefined, undefined, options);
  }

  /** The nearest integer at or above x; integers stay. */
  ceil(options?: UnaryOptions): Tensor<D, S, V> {
    return unary(MAP.ceil, this, undefined, undefined, options);
  }

  /** The nearest integer towards 0; integers stay. */
  trunc(options?: UnaryOptions): Tensor<D, S, V> {
    return unary(MAP.trunc, this, undefined, undefined, options);
  }

  /**
   * The nearest integer, halves to the even one; integers stay.
   *
   * @example
   * ```ts
   * tensor([0.5, 1.5, 2.5]).round().toArray(); // => [0, 2, 2]
   * ```
   */
  round(options?: UnaryOptions): Tensor<D, S, V>;
  /** {@link round} to a number of decimals, which may be negative. */
  round(decimals?: number, options?: UnaryOptions): Tensor<D, S, V>;
  round(first?: number | UnaryOptions, options?: UnaryOptions): Operand {
    if (typeof first === "number") return roundTo(this, first, options);
    return unary(MAP.round, this, undefined, undefined, first ?? options);
  }

  /** Where x is NaN. */
  isnan(options?: UnaryOptions): Tensor<"bool", S, V> {
    return unary(MAP.isnan, this, undefined, undefined, options);
  }

  /** Where x is infinite. */
  isinf(options?: UnaryOptions): Tensor<"bool", S, V> {
    return unary(MAP.isinf, this, undefined, undefined, options);
  }

  /** Where x is neither infinite nor NaN. */
  isfinite(options?: UnaryOptions): Tensor<"bool", S, V> {
    return unary(MAP.isfinite, this, undefined, undefined, options);
  }

  /** Where the sign bit of x is set: below 0, or -0. */
  signbit(options?: UnaryOptions): Tensor<"bool", S, V> {
    return unary(MAP.signbit, this, undefined, undefined, options);
  }

  /** Where x is 0 or false. */
  logicalNot(options?: UnaryOptions): Tensor<"bool", S, V> {
    return unary(MAP.logicalNot, this, undefined, undefined, options);
  }

  /** Inverts every bit of an integer; logical not for bool. */
  bitwiseInvert(options?: UnaryOptions): Tensor<D, S, V> {
    return unary(MAP.bitwiseInvert, this, undefined, undefined, options);
  }

  /**
   * x + y. Integers wrap.
   *
   * @example
   * ```ts
   * tensor([1, 2]).add(tensor([10, 20])).toArray(); // => [11, 22]
   * ```
   */
  add<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"add", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"add", X, U> {
    return binary<"add", X, U>(MAP.add, this, other, undefined, options);
  }

  /** x - y. Integers wrap. */
  sub<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"sub", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"sub", X, U> {
    return binary<"sub", X, U>(MAP.sub, this, other, undefined, options);
  }

  /** x * y, element by element; integers wrap. For matrices see {@link matmul}. */
  mul<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"mul", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"mul", X, U> {
    return binary<"mul", X, U>(MAP.mul, this, other, undefined, options);
  }

  /**
   * x / y; integers give float32.
   *
   * @example
   * ```ts
   * tensor([1, 2], { dtype: "int32" }).div(2).toArray(); // => [0.5, 1]
   * ```
   */
  div<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"div", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"div", X, U> {
    return binary<"div", X, U>(MAP.div, this, other, undefined, options);
  }

  /** x / y rounded down; an integer divided by 0 gives 0. */
  floorDivide<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"floorDivide", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"floorDivide", X, U> {
    return binary<"floorDivide", X, U>(MAP.floorDivide, this, other, undefined, options);
  }

  /**
   * The remainder of {@link floorDivide}, with the sign of y.
   *
   * @example
   * ```ts
   * tensor([-7, 7]).remainder(3).toArray(); // => [2, 1]
   * ```
   */
  remainder<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"remainder", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"remainder", X, U> {
    return binary<"remainder", X, U>(MAP.remainder, this, other, undefined, options);
  }

  /** x to the power of y. Integers wrap; a negative power truncates. */
  pow<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"pow", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"pow", X, U> {
    return binary<"pow", X, U>(MAP.pow, this, other, undefined, options);
  }

  /** The angle of the point (y, x), in radians: x is the second argument. */
  atan2<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"atan2", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"atan2", X, U> {
    return binary<"atan2", X, U>(MAP.atan2, this, other, undefined, options);
  }

  /** The size of x with the sign of y. */
  copysign<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"copysign", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"copysign", X, U> {
    return binary<"copysign", X, U>(MAP.copysign, this, other, undefined, options);
  }

  /** The square root of x² + y², without overflow. */
  hypot<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"hypot", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"hypot", X, U> {
    return binary<"hypot", X, U>(MAP.hypot, this, other, undefined, options);
  }

  /** log(exp(x) + exp(y)), without overflow. */
  logaddexp<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"logaddexp", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"logaddexp", X, U> {
    return binary<"logaddexp", X, U>(MAP.logaddexp, this, other, undefined, options);
  }

  /** The smaller of x and y; NaN if either is. */
  minimum<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"minimum", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"minimum", X, U> {
    return binary<"minimum", X, U>(MAP.minimum, this, other, undefined, options);
  }

  /** The larger of x and y; NaN if either is. */
  maximum<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"maximum", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"maximum", X, U> {
    return binary<"maximum", X, U>(MAP.maximum, this, other, undefined, options);
  }

  /** The float next to x in the direction of y. */
  nextafter<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"nextafter", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"nextafter", X, U> {
    return binary<"nextafter", X, U>(MAP.nextafter, this, other, undefined, options);
  }

  /** Where x equals y. */
  equal<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"equal", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"equal", X, U> {
    return binary<"equal", X, U>(MAP.equal, this, other, undefined, options);
  }

  /** Where x differs from y. */
  notEqual<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"notEqual", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"notEqual", X, U> {
    return binary<"notEqual", X, U>(MAP.notEqual, this, other, undefined, options);
  }

  /** Where x is below y. */
  less<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"less", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"less", X, U> {
    return binary<"less", X, U>(MAP.less, this, other, undefined, options);
  }

  /** Where x is at most y. */
  lessEqual<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"lessEqual", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"lessEqual", X, U> {
    return binary<"lessEqual", X, U>(MAP.lessEqual, this, other, undefined, options);
  }

  /** Where x is above y. */
  greater<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"greater", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"greater", X, U> {
    return binary<"greater", X, U>(MAP.greater, this, other, undefined, options);
  }

  /** Where x is at least y. */
  greaterEqual<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"greaterEqual", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"greaterEqual", X, U> {
    return binary<"greaterEqual", X, U>(MAP.greaterEqual, this, other, undefined, options);
  }

  /** Where both are nonzero. */
  logicalAnd<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"logicalAnd", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"logicalAnd", X, U> {
    return binary<"logicalAnd", X, U>(MAP.logicalAnd, this, other, undefined, options);
  }

  /** Where at least one is nonzero. */
  logicalOr<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"logicalOr", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"logicalOr", X, U> {
    return binary<"logicalOr", X, U>(MAP.logicalOr, this, other, undefined, options);
  }

  /** Where exactly one is nonzero. */
  logicalXor<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"logicalXor", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"logicalXor", X, U> {
    return binary<"logicalXor", X, U>(MAP.logicalXor, this, other, undefined, options);
  }

  /** The bits set in both integers, or bools. */
  bitwiseAnd<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"bitwiseAnd", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"bitwiseAnd", X, U> {
    return binary<"bitwiseAnd", X, U>(MAP.bitwiseAnd, this, other, undefined, options);
  }

  /** The bits set in either integer, or bool. */
  bitwiseOr<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"bitwiseOr", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"bitwiseOr", X, U> {
    return binary<"bitwiseOr", X, U>(MAP.bitwiseOr, this, other, undefined, options);
  }

  /** The bits set in exactly one integer, or bool. */
  bitwiseXor<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"bitwiseXor", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"bitwiseXor", X, U> {
    return binary<"bitwiseXor", X, U>(MAP.bitwiseXor, this, other, undefined, options);
  }

  /** x shifted left by y bits; 0 for y of at least the width. */
  bitwiseLeftShift<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"bitwiseLeftShift", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"bitwiseLeftShift", X, U> {
    return binary<"bitwiseLeftShift", X, U>(MAP.bitwiseLeftShift, this, other, undefined, options);
  }

  /** x shifted right by y bits, keeping its sign; 0 for y of at least the width. */
  bitwiseRightShift<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"bitwiseRightShift", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"bitwiseRightShift", X, U> {
    return binary<"bitwiseRightShift", X, U>(
      MAP.bitwiseRightShift,
      this,
      other,
      undefined,
      options,
    );
  }

  /** The larger of x and y, element by element; a number beside NaN. */
  fmax<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"fmax", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"fmax", X, U> {
    return binary<"fmax", X, U>(MAP.fmax, this, other, undefined, options);
  }

  /** The smaller of x and y, element by element; a number beside NaN. */
  fmin<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"fmin", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"fmin", X, U> {
    return binary<"fmin", X, U>(MAP.fmin, this, other, undefined, options);
  }

  /** The remainder of x / y with the sign of x, as in C; {@link remainder} has the sign of y. Integers
   * divided by 0 give 0. */
  fmod<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"fmod", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"fmod", X, U> {
    return binary<"fmod", X, U>(MAP.fmod, this, other, undefined, options);
  }

  /**
   * x / y of integers, truncated toward zero, as in C and by PyTorch's `rounding_mode="trunc"`;
   * {@link floorDivide} rounds down. Integers divided by 0 give 0. {@link fmod} is the remainder.
   *
   * @example
   * ```ts
   * tensor([-7, 7], { dtype: "int32" }).truncDivide(2).toArray(); // => [-3, 3]
   * ```
   */
  truncDivide<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"truncDivide", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"truncDivide", X, U> {
    return binary<"truncDivide", X, U>(MAP.truncDivide, this, other, undefined, options);
  }

  /** The greatest common divisor of integers; 0 for two zeros. */
  gcd<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"gcd", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"gcd", X, U> {
    return binary<"gcd", X, U>(MAP.gcd, this, other, undefined, options);
  }

  /** The least common multiple of integers, wrapping; 0 beside 0. */
  lcm<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"lcm", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"lcm", X, U> {
    return binary<"lcm", X, U>(MAP.lcm, this, other, undefined, options);
  }

  /** x * 2^n, rounded once; n is truncated to an integer and has the dtype of floats. */
  ldexp<X extends AnyTensor, const U extends TensorOrScalar>(
    this: X,
    other: t.OperandOf<"ldexp", X, U>,
    options?: BinaryOptions,
  ): Elementwise<"ldexp", X, U> {
    return binary<"ldexp", X, U>(MAP.ldexp, this, other, undefined, options);
  }

  /**
   * x + weight * (end - x), computed in double precision for floats of up to 32 bits. All three
   * operands broadcast.
   *
   * @throws {DTypeError} For integers.
   *
   * @example
   * ```ts
   * tensor([0, 10]).lerp(tensor([10, 20]), 0.5).toArray(); // => [5, 15]
   * ```
   */
  lerp<X extends AnyTensor, const P extends TensorOrScalar, const Q extends TensorOrScalar>(
    this: X,
    end: P,
    weight: Q,
    options?: UnaryOptions,
  ): Ternary<X, P, Q>;
  lerp(end: TensorOrScalar, weight: TensorOrScalar, options?: UnaryOptions): Operand {
    return apply(MAP.lerp, this, end, weight, options);
  }

  /** x + y * z; all three broadcast. Integers wrap; floats of up to 32 bits are rounded once. */
  addcmul<X extends AnyTensor, const P extends TensorOrScalar, const Q extends TensorOrScalar>(
    this: X,
    y: P,
    z: Q,
    options?: UnaryOptions,
  ): Ternary<X, P, Q>;
  addcmul(y: TensorOrScalar, z: TensorOrScalar, options?: UnaryOptions): Operand {
    return apply(MAP.addcmul, this, y, z, options);
  }

  /**
   * x + y / z; all three broadcast. Floats of up to 32 bits are rounded once.
   *
   * @throws {DTypeError} For integers.
   */
  addcdiv<X extends AnyTensor, const P extends TensorOrScalar, const Q extends TensorOrScalar>(
    this: X,
    y: P,
    z: Q,
    options?: UnaryOptions,
  ): Ternary<X, P, Q>;
  addcdiv(y: TensorOrScalar, z: TensorOrScalar, options?: UnaryOptions): Operand {
    return apply(MAP.addcdiv, this, y, z, options);
  }

  // ---- reductions ------------------------------------------------------------------------------

  /**
   * The sum over `axis` (all axes without one). Integers sum in int64, wrapping (uint64 stays).
   * Floats sum in double precision, float64 with compensation between blocks; native code first
   * adds long runs of float32 by fours in float32. 0 for no elements.
   *
   * @example
   * ```ts
   * tensor([[1, 2], [3, 4]]).sum(0).toArray(); // => [4, 6]
   * ```
   */
  sum<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
    E extends DType = t.ResultDType<"sum", X["dtype"]>,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"sum", t.ShapeOf<X>, B, K>, B>,
    options?: ReductionOptions<K, E, t.AskNumber<"sum", E>> & InitialOptions,
  ): Reduced<"sum", X, B, K, NoInfer<E>> {
    return reduction<"sum", X, B, K, E>(REDUCE.sum, this, axis, options);
  }

  /**
   * The product over `axis`: signed integers and bool give int64, unsigned ones uint64, floats their
   * dtype, unless `dtype` sets another. 1 for no elements.
   */
  prod<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
    E extends DType = t.ResultDType<"prod", X["dtype"]>,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"prod", t.ShapeOf<X>, B, K>, B>,
    options?: ReductionOptions<K, E, t.AskNumber<"prod", E>> & InitialOptions,
  ): Reduced<"prod", X, B, K, NoInfer<E>> {
    return reduction<"prod", X, B, K, E>(REDUCE.prod, this, axis, options);
  }

  /** The arithmetic mean over `axis`; integers give float32. NaN for no elements. */
  mean<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
    E extends DType = t.ResultDType<"mean", X["dtype"]>,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"mean", t.ShapeOf<X>, B, K>, B>,
    options?: ReductionOptions<K, E, t.AskFloat<"mean", E>> & WhereOptions,
  ): Reduced<"mean", X, B, K, NoInfer<E>> {
    return reduction<"mean", X, B, K, E>(REDUCE.mean, this, axis, options);
  }

  /** The largest element over `axis`; NaN if there is one. A ShapeError for no elements. */
  max<X extends AnyTensor, const B extends t.AxisArg = undefined, const K extends boolean = false>(
    this: X,
    axis?: t.Guard<t.Reduce<"max", t.ShapeOf<X>, B, K>, B>,
    options?: KeepOptions<K> & InitialOptions,
  ): Reduced<"max", X, B, K, X["dtype"]> {
    return reduction<"max", X, B, K>(REDUCE.max, this, axis, options);
  }

  /** The smallest element over `axis`; NaN if there is one. A ShapeError for no elements. */
  min<X extends AnyTensor, const B extends t.AxisArg = undefined, const K extends boolean = false>(
    this: X,
    axis?: t.Guard<t.Reduce<"min", t.ShapeOf<X>, B, K>, B>,
    options?: KeepOptions<K> & InitialOptions,
  ): Reduced<"min", X, B, K, X["dtype"]> {
    return reduction<"min", X, B, K>(REDUCE.min, this, axis, options);
  }

  /** Whether any element over `axis` is nonzero. False for no elements. */
  any<X extends AnyTensor, const B extends t.AxisArg = undefined, const K extends boolean = false>(
    this: X,
    axis?: t.Guard<t.Reduce<"any", t.ShapeOf<X>, B, K>, B>,
    options?: KeepOptions<K> & WhereOptions,
  ): Reduced<"any", X, B, K, "bool"> {
    return reduction<"any", X, B, K>(REDUCE.any, this, axis, options);
  }

  /** Whether all elements over `axis` are nonzero. True for no elements. */
  all<X extends AnyTensor, const B extends t.AxisArg = undefined, const K extends boolean = false>(
    this: X,
    axis?: t.Guard<t.Reduce<"all", t.ShapeOf<X>, B, K>, B>,
    options?: KeepOptions<K> & WhereOptions,
  ): Reduced<"all", X, B, K, "bool"> {
    return reduction<"all", X, B, K>(REDUCE.all, this, axis, options);
  }

  /** The number of nonzero elements over `axis`. */
  countNonzero<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"countNonzero", t.ShapeOf<X>, B, K>, B>,
    options?: KeepOptions<K>,
  ): Reduced<"countNonzero", X, B, K, "int32"> {
    return reduction<"countNonzero", X, B, K>(REDUCE.countNonzero, this, axis, options);
  }

  /**
   * The log of the sum of exponentials over `axis`, without overflow. -Infinity for no elements.
   */
  logsumexp<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
    E extends DType = t.ToFloat[X["dtype"]],
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"logsumexp", t.ShapeOf<X>, B, K>, B>,
    options?: ReductionOptions<K, E, t.AskFloat<"logsumexp", E>>,
  ): Reduced<"logsumexp", X, B, K, NoInfer<E>>;
  logsumexp(axis?: t.AxisArg, options?: ReductionOptions<boolean, DType, unknown>): Operand {
    return logSumExp(this, axis as Axes, options as object);
  }

  /**
   * The variance over `axis`, in two passes; the sum of squares is divided by the count minus
   * `correction` (0). Integers give float32.
   */
  var<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
    E extends DType = t.ToReal[t.ToFloat[X["dtype"]]],
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"var", t.ShapeOf<X>, B, K>, B>,
    options?: ReductionOptions<K, E, t.AskFloat<"var", E>> & WhereOptions & {
      readonly correction?: number;
    },
  ): Reduced<"var", X, B, K, NoInfer<E>>;
  var(
    axis?: t.AxisArg,
    options?: ReductionOptions<boolean, DType, unknown> & WhereOptions & {
      readonly correction?: number;
    },
  ): Operand {
    return variance("var", this, axis as Axes, options as object);
  }

  /**
   * The standard deviation over `axis`, in two passes; the sum of squares is divided by the count
   * minus `correction` (0). Integers give float32.
   */
  std<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
    E extends DType = t.ToReal[t.ToFloat[X["dtype"]]],
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"std", t.ShapeOf<X>, B, K>, B>,
    options?: ReductionOptions<K, E, t.AskFloat<"std", E>> & WhereOptions & {
      readonly correction?: number;
    },
  ): Reduced<"std", X, B, K, NoInfer<E>>;
  std(
    axis?: t.AxisArg,
    options?: ReductionOptions<boolean, DType, unknown> & WhereOptions & {
      readonly correction?: number;
    },
  ): Operand {
    return variance("std", this, axis as Axes, options as object);
  }

  /**
   * The norm of the elements over `axis`: the 2-norm, or that of `ord` (0 counts nonzero elements,
   * ±Infinity give the largest and smallest magnitude). Integers give float32.
   */
  norm<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
    E extends DType = t.ToReal[t.ToFloat[X["dtype"]]],
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"norm", t.ShapeOf<X>, B, K>, B>,
    options?: ReductionOptions<K, E, t.AskFloat<"norm", E>> & { readonly ord?: number },
  ): Reduced<"norm", X, B, K, NoInfer<E>>;
  norm(
    axis?: t.AxisArg,
    options?: ReductionOptions<boolean, DType, unknown> & { readonly ord?: number },
  ): Operand {
    return norm(this, axis as Axes, options as object);
  }

  /**
   * The median over `axis`: the element in the middle of the sorted ones, or the mean of the two
   * there. Floats keep their dtype, integers give float32. NaN gives NaN, and so do no elements.
   *
   * @example
   * ```ts
   * tensor([[5, 1, 4], [2, 9, 3]]).median(1).toArray(); // => [4, 3]
   * tensor([5, 1, 4, 2], { dtype: "int32" }).median().item(); // => 3
   * ```
   */
  median<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"median", t.ShapeOf<X>, B, K>, B>,
    options?: KeepOptions<K>,
  ): Reduced<"median", X, B, K, t.ToFloat[X["dtype"]]>;
  median(axis?: t.AxisArg, options?: KeepOptions<boolean>): Operand {
    return median("median", this, axis as Axes, options as object);
  }

  /**
   * The {@link median} of the elements that are not NaN; NaN if there is none.
   */
  nanmedian<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"nanmedian", t.ShapeOf<X>, B, K>, B>,
    options?: KeepOptions<K>,
  ): Reduced<"nanmedian", X, B, K, t.ToFloat[X["dtype"]]>;
  nanmedian(axis?: t.AxisArg, options?: KeepOptions<boolean>): Operand {
    return median("nanmedian", this, axis as Axes, options as object);
  }

  /**
   * The quantile `q` over `axis`, from 0, the smallest element, to 1, the largest; an array of them
   * gives a new first axis. Floats keep their dtype, integers give float32. NaN gives NaN, and so do
   * no elements.
   *
   * Methods between two elements: `"linear"` (default), `"lower"`, `"higher"`, `"midpoint"`,
   * `"nearest"`; those of Hyndman and Fan: `"invertedCdf"`, `"averagedInvertedCdf"`,
   * `"closestObservation"`, `"interpolatedInvertedCdf"`, `"hazen"`, `"weibull"`,
   * `"medianUnbiased"`, `"normalUnbiased"`.
   *
   * @throws {ArgumentError} For a quantile outside 0 to 1 and for an unknown method.
   *
   * @example
   * ```ts
   * tensor([1, 2, 3, 5]).quantile([0.5, 1]).toArray(); // => [2.5, 5]
   * tensor([1, 2, 3, 5]).quantile(0.5, null, { method: "lower" }).item(); // => 2
   * ```
   */
  quantile<
    X extends AnyTensor,
    const Q extends number | readonly number[],
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
  >(
    this: X,
    q: Q,
    axis?: t.Guard<t.Reduce<"quantile", t.ShapeOf<X>, B, K>, B>,
    options?: QuantileMethodOptions<K>,
  ): QuantilesOf<"quantile", X, Q, B, K>;
  quantile(
    q: number | readonly number[],
    axis?: t.AxisArg,
    options?: QuantileMethodOptions<boolean>,
  ): Operand {
    return quantile("quantile", this, q, axis as Axes, options as object);
  }

  /**
   * The percentile `q` over `axis`: the {@link quantile} of `q` / 100.
   *
   * @example
   * ```ts
   * tensor([1, 2, 3, 5]).percentile([25, 50, 75]).toArray(); // => [1.75, 2.5, 3.5]
   * ```
   */
  percentile<
    X extends AnyTensor,
    const Q extends number | readonly number[],
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
  >(
    this: X,
    q: Q,
    axis?: t.Guard<t.Reduce<"percentile", t.ShapeOf<X>, B, K>, B>,
    options?: QuantileMethodOptions<K>,
  ): QuantilesOf<"percentile", X, Q, B, K>;
  percentile(
    q: number | readonly number[],
    axis?: t.AxisArg,
    options?: QuantileMethodOptions<boolean>,
  ): Operand {
    return quantile("percentile", this, q, axis as Axes, options as object);
  }

  /**
   * The {@link quantile} of the elements that are not NaN; NaN if there is none.
   */
  nanquantile<
    X extends AnyTensor,
    const Q extends number | readonly number[],
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
  >(
    this: X,
    q: Q,
    axis?: t.Guard<t.Reduce<"nanquantile", t.ShapeOf<X>, B, K>, B>,
    options?: QuantileMethodOptions<K>,
  ): QuantilesOf<"nanquantile", X, Q, B, K>;
  nanquantile(
    q: number | readonly number[],
    axis?: t.AxisArg,
    options?: QuantileMethodOptions<boolean>,
  ): Operand {
    return quantile("nanquantile", this, q, axis as Axes, options as object);
  }

  /**
   * The {@link percentile} of the elements that are not NaN; NaN if there is none.
   */
  nanpercentile<
    X extends AnyTensor,
    const Q extends number | readonly number[],
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
  >(
    this: X,
    q: Q,
    axis?: t.Guard<t.Reduce<"nanpercentile", t.ShapeOf<X>, B, K>, B>,
    options?: QuantileMethodOptions<K>,
  ): QuantilesOf<"nanpercentile", X, Q, B, K>;
  nanpercentile(
    q: number | readonly number[],
    axis?: t.AxisArg,
    options?: QuantileMethodOptions<boolean>,
  ): Operand {
    return quantile("nanpercentile", this, q, axis as Axes, options as object);
  }

  /**
   * The most frequent element over `axis` and how often it occurs (int32); the smallest one of
   * several. NaN counts as the largest number, and as equal to itself.
   *
   * @throws {ShapeError} For no elements.
   *
   * @example
   * ```ts
   * const { values, counts } = tensor([[3, 1, 3], [2, 1, 4]]).mode(1);
   * [values.toArray(), counts.toArray()]; // => [[3, 1], [2, 1]]
   * ```
   */
  mode<X extends AnyTensor, const B extends t.AxisArg = undefined, const K extends boolean = false>(
    this: X,
    axis?: t.Guard<t.Reduce<"mode", t.ShapeOf<X>, B, K>, B>,
    options?: { readonly keepDims?: K },
  ): {
    readonly values: Reduced<"mode", X, B, K, X["dtype"]>;
    readonly counts: Reduced<"mode", X, B, K, "int32">;
  };
  mode(
    axis?: t.AxisArg,
    options?: { readonly keepDims?: boolean },
  ): Readonly<Record<"values" | "counts", Operand>> {
    return mode(this, axis as Axes, options as object);
  }

  /**
   * The index (int32) of the first largest element along `axis`, or among all in row-major order;
   * NaN wins. A ShapeError for no elements. Among more than 2^31 - 1 elements the index is int64,
   * unlike in the type: `asDType("int64")` corrects it.
   */
  argmax<
    X extends AnyTensor,
    const B extends number | null | undefined = undefined,
    const K extends boolean = false,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"argmax", t.ShapeOf<X>, B, K>, B>,
    options?: KeepOptions<K>,
  ): Reduced<"argmax", X, B, K, "int32"> {
    return argReduction<"argmax", X, B, K>(ARG_REDUCE.argmax, this, axis, options);
  }

  /**
   * The index (int32) of the first smallest element along `axis`, or among all in row-major order;
   * NaN wins. A ShapeError for no elements. Among more than 2^31 - 1 elements the index is int64,
   * unlike in the type: `asDType("int64")` corrects it.
   */
  argmin<
    X extends AnyTensor,
    const B extends number | null | undefined = undefined,
    const K extends boolean = false,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"argmin", t.ShapeOf<X>, B, K>, B>,
    options?: KeepOptions<K>,
  ): Reduced<"argmin", X, B, K, "int32"> {
    return argReduction<"argmin", X, B, K>(ARG_REDUCE.argmin, this, axis, options);
  }

  /**
   * The running sums along `axis`, which is optional for a vector only; dtypes as for {@link sum}.
   * With `includeInitial` the result starts with 0 and is one longer.
   */
  cumulativeSum<
    X extends AnyTensor,
    const B extends number | undefined = undefined,
    const I extends boolean = false,
    E extends DType = t.ToSum[X["dtype"]],
  >(
    this: t.Guard<t.AxisNeeded<"cumulativeSum", t.ShapeOf<X>, B>, X>,
    axis?: t.Guard<t.AlongAxes<"cumulativeSum", t.ShapeOf<X>, B>, B>,
    options?: ScanOptions<I, E, t.AskNumber<"cumulativeSum", E>>,
  ): Scanned<X, I, NoInfer<E>>;
  cumulativeSum(
    axis?: number | undefined,
    options?: ScanOptions<boolean, DType, unknown>,
  ): Operand {
    return scan(SCAN.cumulativeSum, this, axis as number, options as object);
  }

  /**
   * The running products along `axis`, which is optional for a vector only; dtypes as for
   * {@link prod}. With `includeInitial` the result starts with 1 and is one longer.
   */
  cumulativeProd<
    X extends AnyTensor,
    const B extends number | undefined = undefined,
    const I extends boolean = false,
    E extends DType = t.ToProd[X["dtype"]],
  >(
    this: t.Guard<t.AxisNeeded<"cumulativeProd", t.ShapeOf<X>, B>, X>,
    axis?: t.Guard<t.AlongAxes<"cumulativeProd", t.ShapeOf<X>, B>, B>,
    options?: ScanOptions<I, E, t.AskNumber<"cumulativeProd", E>>,
  ): Scanned<X, I, NoInfer<E>>;
  cumulativeProd(
    axis?: number | undefined,
    options?: ScanOptions<boolean, DType, unknown>,
  ): Operand {
    return scan(SCAN.cumulativeProd, this, axis as number, options as object);
  }

  // ---- reductions without NaN -------------------------------------------------------------------

  /** {@link sum} with NaN as 0. */
  nansum<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
    E extends DType = t.ResultDType<"sum", X["dtype"]>,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"nansum", t.ShapeOf<X>, B, K>, B>,
    options?: ReductionOptions<K, E, t.AskNumber<"sum", E>>,
  ): Reduced<"nansum", X, B, K, NoInfer<E>>;
  nansum(axis?: t.AxisArg, options?: ReductionOptions<boolean, DType, unknown>): Operand {
    return nanReduce("nansum", this, axis as Axes, options as object);
  }

  /** {@link prod} with NaN as 1. */
  nanprod<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
    E extends DType = t.ResultDType<"prod", X["dtype"]>,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"nanprod", t.ShapeOf<X>, B, K>, B>,
    options?: ReductionOptions<K, E, t.AskNumber<"prod", E>>,
  ): Reduced<"nanprod", X, B, K, NoInfer<E>>;
  nanprod(axis?: t.AxisArg, options?: ReductionOptions<boolean, DType, unknown>): Operand {
    return nanReduce("nanprod", this, axis as Axes, options as object);
  }

  /** The mean of the numbers over `axis`: {@link mean} without NaN. NaN if there are none. */
  nanmean<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
    E extends DType = t.ResultDType<"mean", X["dtype"]>,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"nanmean", t.ShapeOf<X>, B, K>, B>,
    options?: ReductionOptions<K, E, t.AskFloat<"mean", E>>,
  ): Reduced<"nanmean", X, B, K, NoInfer<E>>;
  nanmean(axis?: t.AxisArg, options?: ReductionOptions<boolean, DType, unknown>): Operand {
    return nanMean(this, axis as Axes, options as object);
  }

  /** The largest number over `axis`; NaN if there is none. A ShapeError for no elements. */
  nanmax<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"nanmax", t.ShapeOf<X>, B, K>, B>,
    options?: KeepOptions<K>,
  ): Reduced<"nanmax", X, B, K, X["dtype"]>;
  nanmax(axis?: t.AxisArg, options?: KeepOptions<boolean>): Operand {
    return nanReduce("nanmax", this, axis as Axes, options as object);
  }

  /** The smallest number over `axis`; NaN if there is none. A ShapeError for no elements. */
  nanmin<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"nanmin", t.ShapeOf<X>, B, K>, B>,
    options?: KeepOptions<K>,
  ): Reduced<"nanmin", X, B, K, X["dtype"]>;
  nanmin(axis?: t.AxisArg, options?: KeepOptions<boolean>): Operand {
    return nanReduce("nanmin", this, axis as Axes, options as object);
  }

  /** The variance of the numbers over `axis`: {@link var} without NaN. NaN if there are no more numbers
   * than the correction. */
  nanvar<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
    E extends DType = t.ToReal[t.ToFloat[X["dtype"]]],
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"nanvar", t.ShapeOf<X>, B, K>, B>,
    options?: ReductionOptions<K, E, t.AskFloat<"var", E>> & {
      readonly correction?: number;
    },
  ): Reduced<"nanvar", X, B, K, NoInfer<E>>;
  nanvar(
    axis?: t.AxisArg,
    options?: ReductionOptions<boolean, DType, unknown> & {
      readonly correction?: number;
    },
  ): Operand {
    return nanVariance("nanvar", this, axis as Axes, options as object);
  }

  /** The square root of {@link nanvar}. */
  nanstd<
    X extends AnyTensor,
    const B extends t.AxisArg = undefined,
    const K extends boolean = false,
    E extends DType = t.ToReal[t.ToFloat[X["dtype"]]],
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"nanstd", t.ShapeOf<X>, B, K>, B>,
    options?: ReductionOptions<K, E, t.AskFloat<"std", E>> & {
      readonly correction?: number;
    },
  ): Reduced<"nanstd", X, B, K, NoInfer<E>>;
  nanstd(
    axis?: t.AxisArg,
    options?: ReductionOptions<boolean, DType, unknown> & {
      readonly correction?: number;
    },
  ): Operand {
    return nanVariance("nanstd", this, axis as Axes, options as object);
  }

  /** The index of the largest number along `axis`, or among all elements; 0 if there is none. */
  nanargmax<
    X extends AnyTensor,
    const B extends number | null | undefined = undefined,
    const K extends boolean = false,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"nanargmax", t.ShapeOf<X>, B, K>, B>,
    options?: KeepOptions<K>,
  ): Reduced<"nanargmax", X, B, K, "int32">;
  nanargmax(axis?: number | null | undefined, options?: KeepOptions<boolean>): Operand {
    return nanArgReduce("nanargmax", this, axis as number, options as object);
  }

  /** The index of the smallest number along `axis`, or among all elements; 0 if there is none. */
  nanargmin<
    X extends AnyTensor,
    const B extends number | null | undefined = undefined,
    const K extends boolean = false,
  >(
    this: X,
    axis?: t.Guard<t.Reduce<"nanargmin", t.ShapeOf<X>, B, K>, B>,
    options?: KeepOptions<K>,
  ): Reduced<"nanargmin", X, B, K, "int32">;
  nanargmin(axis?: number | null | undefined, options?: KeepOptions<boolean>): Operand {
    return nanArgReduce("nanargmin", this, axis as number, options as object);
  }

  /** {@link cumulativeSum} with NaN as 0. */
  nancumsum<
    X extends AnyTensor,
    const B extends number | undefined = undefined,
    const I extends boolean = false,
    E extends DType = t.ToSum[X["dtype"]],
  >(
    this: t.Guard<t.AxisNeeded<"nancumsum", t.ShapeOf<X>, B>, X>,
    axis?: t.Guard<t.AlongAxes<"nancumsum", t.ShapeOf<X>, B>, B>,
    options?: ScanOptions<I, E, t.AskNumber<"cumulativeSum", E>>,
  ): Scanned<X, I, NoInfer<E>>;
  nancumsum(axis?: number | undefined, options?: ScanOptions<boolean, DType, unknown>): Operand {
    return nanScan("nancumsum", this, axis as number, options as object);
  }

  /** {@link cumulativeProd} with NaN as 1. */
  nancumprod<
    X extends AnyTensor,
    const B extends number | undefined = undefined,
    const I extends boolean = false,
    E extends DType = t.ToProd[X["dtype"]],
  >(
    this: t.Guard<t.AxisNeeded<"nancumprod", t.ShapeOf<X>, B>, X>,
    axis?: t.Guard<t.AlongAxes<"nancumprod", t.ShapeOf<X>, B>, B>,
    options?: ScanOptions<I, E, t.AskNumber<"cumulativeProd", E>>,
  ): Scanned<X, I, NoInfer<E>>;
  nancumprod(axis?: number | undefined, options?: ScanOptions<boolean, DType, unknown>): Operand {
    return nanScan("nancumprod", this, axis as number, options as object);
  }

  /** The largest element so far along `axis`, which is optional for a vector only; NaN from the first NaN on. */
  cumulativeMax<X extends AnyTensor, const B extends number | undefined = undefined>(
    this: t.Guard<t.AxisNeeded<"cumulativeMax", t.ShapeOf<X>, B>, X>,
    axis?: t.Guard<t.AlongAxes<"cumulativeMax", t.ShapeOf<X>, B>, B>,
    options?: UnaryOptions,
  ): Tensor<X["dtype"], t.ShapeOf<X>, X["device"]>;
  cumulativeMax(axis?: number | undefined, options?: UnaryOptions): Operand {
    return scan(SCAN.cumulativeMax, this, axis as number, options as object);
  }

  /** The smallest element so far along `axis`, which is optional for a vector only; NaN from the first NaN on. */
  cumulativeMin<X extends AnyTensor, const B extends number | undefined = undefined>(
    this: t.Guard<t.AxisNeeded<"cumulativeMin", t.ShapeOf<X>, B>, X>,
    axis?: t.Guard<t.AlongAxes<"cumulativeMin", t.ShapeOf<X>, B>, B>,
    options?: UnaryOptions,
  ): Tensor<X["dtype"], t.ShapeOf<X>, X["device"]>;
  cumulativeMin(axis?: number | undefined, options?: UnaryOptions): Operand {
    return scan(SCAN.cumulativeMin, this, axis as number, options as object);
  }

  /** exp(x) over its sum along `axis` (the last one); integers give float32. */
  softmax<X extends AnyTensor, const B extends number = -1>(
    this: X,
    axis?: t.Guard<t.AlongAxes<"softmax", t.ShapeOf<X>, B>, B>,
    options?: UnaryOptions,
  ): Tensor<t.ToFloat[X["dtype"]], t.ShapeOf<X>, X["device"]>;
  softmax(axis?: number, options?: UnaryOptions): Operand {
    return softmax("softmax", this, axis as number, options);
  }

  /**
   * The log of {@link softmax}, computed without its rounding error, along `axis` (the last one);
   * integers give float32.
   */
  logSoftmax<X extends AnyTensor, const B extends number = -1>(
    this: X,
    axis?: t.Guard<t.AlongAxes<"logSoftmax", t.ShapeOf<X>, B>, B>,
    options?: UnaryOptions,
  ): Tensor<t.ToFloat[X["dtype"]], t.ShapeOf<X>, X["device"]>;
  logSoftmax(axis?: number, options?: UnaryOptions): Operand {
    return softmax("logSoftmax", this, axis as number, options);
  }

  /**
   * (x − mean) / √(variance + `epsilon`) · `weight` + `bias`, with the mean and the variance over
   * `axis` (the last one, or several). The variance is that of a population, `epsilon` 1e-5.
   *
   * `weight` and `bias` are optional; they broadcast to the sizes of the axes, in the tensor's
   * order, and are cast. Integers give float32; 16-bit floats are computed as float32.
   *
   * @throws {ShapeError} For a weight or bias that does not fit.
   * @throws {AxisError} For no axes.
   *
   * @example
   * ```ts
   * const x = tensor([[1, 3], [5, 5]]);
   * x.layerNorm().round().toArray(); // => [[-1, 1], [0, 0]]
   * x.layerNorm(-1, { weight: tensor([2, 2]), bias: tensor([10, 20]) }).round().toArray();
   * // => [[8, 22], [10, 20]]
   * ```
   */
  layerNorm<X extends AnyTensor, const B extends number | readonly number[] = -1>(
    this: X,
    axis?: t.Guard<t.AlongAxes<"layerNorm", t.ShapeOf<X>, B>, B>,
    options?: LayerNormOptions,
  ): Tensor<t.ToFloat[X["dtype"]], t.ShapeOf<X>, X["device"]>;
  layerNorm(axis?: number | readonly number[], options?: LayerNormOptions): Operand {
    return normalizeAlong("layerNorm", this, axis as number, options);
  }

  /**
   * x / √(mean of x² + `epsilon`) · `weight`, with the mean over `axis` (the last one, or several).
   * The default `epsilon` is that of the compute dtype: 2⁻²³, or 2⁻⁵² in float64. `weight`, dtypes
   * and errors as for {@link layerNorm}.
   *
   * @example
   * ```ts
   * tensor([[0, 0, 0, 4], [2, -2, 2, -2]]).rmsNorm(1, { epsilon: 0 }).toArray();
   * // => [[0, 0, 0, 2], [1, -1, 1, -1]]
   * ```
   */
  rmsNorm<X extends AnyTensor, const B extends number | readonly number[] = -1>(
    this: X,
    axis?: t.Guard<t.AlongAxes<"rmsNorm", t.ShapeOf<X>, B>, B>,
    options?: RmsNormOptions,
  ): Tensor<t.ToFloat[X["dtype"]], t.ShapeOf<X>, X["device"]>;
  rmsNorm(axis?: number | readonly number[], options?: RmsNormOptions): Operand {
    return normalizeAlong("rmsNorm", this, axis as number, options);
  }
}

// By which other copies of the library know tensors.
Object.defineProperty(Tensor.prototype, BRAND, { value: brandFor("tensor") });
registerHandles(
  (storage, layout, flags) => new Tensor(storage, layout, flags),
  tidy,
  (handle) => (handle as AnyTensor).dispose(),
);

/** The shape of the indexes of `take`. */
export type IndexShape<I> = I extends t.Typed ? t.ShapeOf<I>
  : I extends readonly unknown[] ? [number]
  : [];

const VALUE_OPTIONS = ["bigint"];

/** The fixed address of a storage in the memory of its device. */
function placeOf(storage: Storage): bigint {
  const { memory } = storage;
  if (memory !== null) {
    memory.synchronize();
    return BigInt(storage.address);
  }
  storage.expose();
  const address = addressOf(storage.array);
  if (typeof address === "string") throw new DeviceError(`Cannot withPointer: ${address}`);
  return address;
}

/** True if only the handle `x` holds its memory, which is on the CPU and can be moved out. */
function ownsAlone({ storage, flags }: AnyTensor): boolean {
  return storage.handles === 1 && !(flags & READ_ONLY) && storage.cows === null &&
    storage.memory === null;
}

/** Releases the storage of the handle. */
function release(x: AnyTensor): void {
  x.storage.handles--;
  x.storage = DISPOSED;
}

/** A storage with the same elements that shares nothing. */
function wholeCopy(storage: Storage): Storage {
  const { info, length, memory } = storage;
  const copy = allocateIn(memory, info, length, false);
  copyElements(copy, 0, storage, 0, length);
  return copy;
}

function intoOwned(x: AnyTensor, op: string, copy: () => AnyTensor): AnyTensor {
  checkAlive(x.storage, op);
  hostRead(x, op);
  const { storage, layout, flags } = x;
  if (flags & VIEW || storage.isShared) {
    const made = copy();
    x.dispose();
    return made;
  }
  if (storage.shared && storage.handles > 1) {
    throw new SharedError(
      `Cannot ${op}: the memory is shared by ${storage.handles} tensors; toOwned() copies`,
    );
  }
  release(x);
  return new Tensor(storage, layout);
}

function intoShared(x: AnyTensor, layout: Layout, op: string, length: number): AnyTensor {
  checkAlive(x.storage, op);
  hostRead(x, op);
  checkOnCpu(x, op, "workers share memory of the CPU; move it with cpu()");
  const { storage } = x;
  const keeps = layout === x.layout;
  // Contiguous layouts differ in the strides of axes of size 1 at most.
  if (storage.shared && !(x.flags & READ_ONLY) && (keeps || x.layout.contiguous)) {
    const same = keeps ? layout : Layout.contiguous(layout.shape, x.layout.offset);
    release(x);
    return new Tensor(storage, same);
  }
  const shared = allocateShared(storage.info.name, length);
  if (length === storage.length && layout === x.layout) {
    (shared.array as Float64Array).set(storage.array as Float64Array);
  } else copyInto({ storage: shared, layout, flags: 0 }, x);
  x.dispose();
  return new Tensor(shared, layout);
}

/** A contiguous copy in new memory, made without an op. */
function ownedCopy(x: AnyTensor): AnyTensor {
  const { storage, layout } = copyOf(x);
  return new Tensor(storage, layout);
}

/** The elements in row-major order, in a new typed array. */
function userCopy(x: AnyTensor): TypedArray {
  return asUserArray(toArrayCopy(x), x.storage.info, 0, x.layout.size);
}

/** All elements as nested arrays. */
/** An element, or elements in arrays, one in the other for each axis. */
type Nested = Scalar | Complex | Nested[];

function nested(x: AnyTensor, bigint: boolean, op: string): Nested {
  hostRead(x, op);
  return onCpu(x, ({ storage, layout }) => {
    const { shape, strides } = layout;
    const { array, info } = storage;
    const numbers = !bigint && (info.name === "float32" || info.name === "float64");
    const unpack = (axis: number, position: number): Nested => {
      if (axis === shape.length) return toValue(storage, position, bigint, op);
      const [n, stride] = [shape[axis]!, strides[axis]!];
      const made: Nested[] = [];
      if (numbers && axis === shape.length - 1) {
        for (let i = 0; i < n; i++) made.push(array[position + i * stride]!);
      } else for (let i = 0; i < n; i++) made.push(unpack(axis + 1, position + i * stride));
      return made;
    };
    return unpack(0, layout.offset);
  });
}

/** Element `position`; `index` is the index of the element, if there is one. */
function toValue(
  storage: Storage,
  position: number,
  bigint: boolean,
  op: string,
  index?: readonly number[],
): Scalar | Complex {
  const value = readElement(storage, position);
  const { kind, read } = storage.info;
  if (read !== undefined) return value;
  if (kind === "b") return value !== 0;
  if (typeof value !== "bigint" || bigint) {
    return bigint && kind !== "f" ? BigInt(value) : value;
  }
  const number = Number(value);
  if (!Number.isSafeInteger(number)) {
    const use = index !== undefined
      ? `slice(${index.join(", ")}).item({ bigint: true })`
      : op === "toJSON"
      ? "toArray({ bigint: true }), and write its bigints as strings"
      : "{ bigint: true }";
    throw new ArgumentError(`${op}() cannot give ${value} as a number beyond 2^53; use ${use}`);
  }
  return number;
}
