/**
 * The interface of ONNX Runtime for JavaScript: programs that use `onnxruntime-node` run with this module
 * in its place.
 *
 * `InferenceSession`, `Tensor` and `env` are as the types of `onnxruntime-common` describe them.
 * Programs run off the event loop. The data of results are copied when they are read first: a result
 * that is an input of the next run, such as a cache of keys and values, is not copied.
 *
 * @example
 * ```ts
 * import { InferenceSession, Tensor } from "@rowmajor/tensor/onnx/session";
 *
 * const session = await InferenceSession.create("model.onnx");
 * const x = new Tensor("float32", Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]);
 * const { y } = await session.run({ x });
 * y!.dims; // => [2, 3]
 * ```
 *
 * @module
 */
import { typedArrayName } from "../base/dtype.ts";
import {
  ArgumentError,
  DeviceError,
  DisposedError,
  DTypeError,
  ShapeError,
} from "../base/errors.ts";
import { checkShape, formatShape, listIn, sameShape, sizeOf } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { readFile } from "../io/file.ts";
import { fromBuffer } from "../tensor/create.ts";
import { Tensor as CoreTensor } from "../tensor/tensor.ts";
import type { ValueInfo } from "./graph/graph.ts";
import { Strings, type T as CoreValue, tensorsIn, type Value } from "./graph/values.ts";
import { GrowingCache, rowsOf } from "./growing_cache.ts";
import { Model, open } from "./model.ts";

/** `Float16Array`, as `onnxruntime-common` chooses it, or the bits where a runtime has none. */
const { Float16Array: Float16 = Uint16Array }: { Float16Array?: Uint16ArrayConstructor } = Object(
  globalThis,
);

/** The arrays of the types of elements. */
const ARRAYS = {
  float32: Float32Array,
  uint8: Uint8Array,
  int8: Int8Array,
  uint16: Uint16Array,
  int16: Int16Array,
  int32: Int32Array,
  int64: BigInt64Array,
  bool: Uint8Array,
  float16: Float16,
  float64: Float64Array,
  uint32: Uint32Array,
  uint64: BigUint64Array,
  uint4: Uint8Array,
  int4: Int8Array,
} as const;

/** The data of tensors by their types. */
export interface TensorDataTypes {
  /** 32-bit floats. */
  float32: Float32Array;
  /** 8-bit unsigned integers. */
  uint8: Uint8Array;
  /** 8-bit integers. */
  int8: Int8Array;
  /** 16-bit unsigned integers. */
  uint16: Uint16Array;
  /** 16-bit integers. */
  int16: Int16Array;
  /** 32-bit integers. */
  int32: Int32Array;
  /** 64-bit integers. */
  int64: BigInt64Array;
  /** Texts. */
  string: string[];
  /** Bytes of 0 and 1. */
  bool: Uint8Array;
  /**
   * 16-bit floats: a `Float16Array` where the runtime has that class, as in Deno and Bun, and the bits
   * elsewhere. The type is that of `onnxruntime-common`.
   */
  float16: Uint16Array;
  /** 64-bit floats. */
  float64: Float64Array;
  /** 32-bit unsigned integers. */
  uint32: Uint32Array;
  /** 64-bit unsigned integers. */
  uint64: BigUint64Array;
  /** Integers of 4 bits, one in each byte. */
  uint4: Uint8Array;
  /** Signed integers of 4 bits, one in each byte. */
  int4: Int8Array;
}

/** The type of the elements of a tensor. */
export type TensorType = keyof TensorDataTypes;
/** The data of a tensor. */
export type TensorData = TensorDataTypes[TensorType];

function isType(value: unknown): value is TensorType {
  return typeof value === "string" && (value === "string" || Object.hasOwn(ARRAYS, value));
}

/** A value of the caller for messages: typed arrays by their class. */
function nameOf(data: unknown): string {
  const name = typedArrayName(data);
  if (name === undefined) return describe(data);
  return `${name.startsWith("I") ? "an" : "a"} ${name}`;
}

/** The type of data that a program gives without one. */
function typeOfData(data: unknown): TensorType {
  if (data instanceof Uint8ClampedArray) return "uint8";
  for (const [type, array] of Object.entries(ARRAYS)) {
    // Bits of float16 need their type.
    if (data instanceof array) return type as TensorType;
  }
  const first: unknown = Array.isArray(data) ? data[0] : undefined;
  if (typeof first === "string") return "string";
  if (typeof first === "boolean") return "bool";
  throw new DTypeError(
    `Cannot make a tensor of ${nameOf(data)} without a type: the first argument is a type, ` +
      "a typed array, or a list of texts or booleans",
  );
}

/** The list itself, which a program may write to; throws unless it is of texts. */
function checkTexts(data: unknown): string[] {
  const texts = listIn(data, (one) => {
    if (typeof one === "string") return one;
    throw new DTypeError(`Cannot make a tensor of texts of ${describe(one)}`);
  });
  if (texts !== undefined) return data as string[];
  throw new DTypeError(
    `Cannot make a tensor of texts of ${nameOf(data)}: it takes a list of texts`,
  );
}

/** Data of a type, from what the constructor takes: arrays of the type are not copied. */
function dataOf(type: TensorType, data: unknown): TensorData {
  if (type === "string") return checkTexts(data);
  const Elements = ARRAYS[type];
  if (data instanceof Elements) return data;
  if (type === "uint8" && data instanceof Uint8ClampedArray) {
    return new Uint8Array(data.buffer, data.byteOffset, data.length);
  }
  // These are the bits.
  if (type === "float16" && data instanceof Uint16Array) {
    return new Float16(data.buffer, data.byteOffset, data.length);
  }
  const isWide = type === "int64" || type === "uint64";
  const list = listIn(data, (one) => {
    const isNumber = typeof one === "number" || typeof one === "bigint" || typeof one === "boolean";
    if (!isNumber || isWide && !Number.isInteger(Number(one))) {
      throw new DTypeError(`Cannot make a tensor of ${type} of ${describe(one)}`);
    }
    return isWide ? BigInt(one) : Number(one);
  });
  if (list === undefined || type === "float16" && Float16 === Uint16Array) {
    const own = Elements.name;
    throw new DTypeError(`Cannot make a tensor of ${type} of ${nameOf(data)}: it takes ${own}`);
  }
  return isWide
    ? ARRAYS[type].from(list as bigint[])
    : (ARRAYS[type] as Float32ArrayConstructor).from(list as number[]) as TensorData;
}

/** What tensors of other copies of ONNX Runtime's interface have. */
export interface TensorLike {
  /** The type of the elements. */
  readonly type: string;
  /** The sizes. */
  readonly dims: readonly number[];
  /** The elements. */
  readonly data: unknown;
}

/** The elements that the constructor of tensors takes in a list, by the type. */
export type TensorElement<T extends TensorType> = T extends "string" ? string
  : T extends "bool" ? boolean
  : T extends "int64" | "uint64" ? bigint | number
  : number;

/** The type of the tensor that data make. */
export type TypeOfData<D> = D extends Float32Array ? "float32"
  : D extends Uint8Array | Uint8ClampedArray ? "uint8"
  : D extends Int8Array ? "int8"
  : D extends Uint16Array ? "uint16"
  : D extends Int16Array ? "int16"
  : D extends Int32Array ? "int32"
  : D extends BigInt64Array ? "int64"
  : D extends Float64Array ? "float64"
  : D extends Uint32Array ? "uint32"
  : D extends BigUint64Array ? "uint64"
  : D extends readonly boolean[] ? "bool"
  : D extends readonly string[] ? "string"
  : TensorType;

/** A tensor of ONNX Runtime's interface. */
export interface Tensor<T extends TensorType = TensorType> {
  /** The type of the elements. */
  readonly type: T;
  /** The sizes, outermost axis first. */
  readonly dims: readonly number[];
  /** The number of elements. */
  readonly size: number;
  /**
   * The elements.
   *
   * @throws {DisposedError} If the tensor was disposed of.
   */
  readonly data: TensorDataTypes[T];
  /** Where the elements are; `"none"` if the tensor was disposed of. */
  readonly location: "cpu" | "none";
  /**
   * Elements are never in a texture.
   *
   * @throws {DeviceError} Always.
   */
  readonly texture: never;
  /**
   * Elements are never in a buffer of WebGPU.
   *
   * @throws {DeviceError} Always.
   */
  readonly gpuBuffer: never;
  /**
   * Elements are never in a tensor of WebNN.
   *
   * @throws {DeviceError} Always.
   */
  readonly mlTensor: never;
  /** The elements. `releaseData` has no effect: the elements are on the CPU. */
  getData(releaseData?: boolean): Promise<TensorDataTypes[T]>;
  /**
   * The same elements with other sizes.
   *
   * @throws {ShapeError} Unless the sizes have as many elements.
   */
  reshape(dims: readonly number[]): Tensor<T>;
  /** Frees the elements. */
  dispose(): void;
  /**
   * There is no canvas that makes pictures.
   *
   * @throws {DeviceError} Always.
   */
  toDataURL(): never;
  /**
   * There is no canvas that makes pictures.
   *
   * @throws {DeviceError} Always.
   */
  toImageData(): never;
}

/** Makes tensors. */
export interface TensorConstructor {
  /**
   * Makes a tensor of a type, of data and of sizes. Without sizes the tensor is a vector.
   *
   * @throws {DTypeError} For data of another type.
   * @throws {ShapeError} Unless the data have as many elements as the sizes say.
   */
  new <T extends TensorType>(
    type: T,
    data: TensorDataTypes[T] | readonly TensorElement<T>[],
    dims?: readonly number[],
  ): Tensor<T>;
  /** Makes a tensor of the bytes of a picture. */
  new (type: "uint8", data: Uint8ClampedArray, dims?: readonly number[]): Tensor<"uint8">;
  /** Makes a tensor of a type that is known at run time. */
  new (
    type: TensorType,
    data: TensorData | readonly (number | bigint | boolean | string)[],
    dims?: readonly number[],
  ): Tensor;
  /** Makes a tensor of the type that the data have. */
  new <D extends TensorData | Uint8ClampedArray | readonly string[] | readonly boolean[]>(
    data: D,
    dims?: readonly number[],
  ): Tensor<TypeOfData<D>>;
  /** Makes a tensor of the memory of `buffer`, as `new Tensor(type, buffer, dims)` does. */
  fromPinnedBuffer<T extends TensorType>(
    type: T,
    buffer: TensorDataTypes[T],
    dims?: readonly number[],
  ): Tensor<T>;
  /**
   * There is no canvas that reads pictures: pass their pixels.
   *
   * @throws {DeviceError} Always.
   */
  fromImage(image: unknown, options?: unknown): Promise<never>;
  /**
   * Elements are never in a texture.
   *
   * @throws {DeviceError} Always.
   */
  fromTexture(texture: unknown, options?: unknown): never;
  /**
   * Elements are never in a buffer of WebGPU.
   *
   * @throws {DeviceError} Always.
   */
  fromGpuBuffer(buffer: unknown, options?: unknown): never;
  /**
   * Elements are never in a tensor of WebNN.
   *
   * @throws {DeviceError} Always.
   */
  fromMLTensor(tensor: unknown, options?: unknown): never;
  /** The methods. */
  readonly prototype: Tensor;
}

function noDevice(what: string): never {
  throw new DeviceError(`Cannot ${what} of a tensor of ONNX Runtime's interface: it is on the CPU`);
}

function noSource(what: string): never {
  throw new DeviceError(`Cannot make a tensor of ${what}: pass its elements as a typed array`);
}

/** A result, whose elements a tensor copies when they are read. */
class Lazy {
  readonly value: CoreValue;
  readonly type: TensorType;

  constructor(value: CoreValue, type: TensorType) {
    this.value = value;
    this.type = type;
  }
}

/** A console's function that writes values. */
type Inspect = (value: unknown, options: object) => string;

class HostTensor<T extends TensorType = TensorType> implements Tensor<T> {
  readonly type: T;
  // Programs of other runtimes write sizes.
  dims: readonly number[];
  readonly size: number;
  #data: TensorDataTypes[T] | undefined;
  /** The value of a result, until its elements are read. */
  #value: CoreValue | undefined;
  /** The runs that read the value: it lives until they end. */
  #readers = 0;
  /** The result that has the elements of this one as its first rows, in the place of a value. */
  #later: HostTensor | undefined;
  /** How many of the rows there. */
  #rows = 0;
  /** The result that has its elements here. */
  #earlier: WeakRef<HostTensor> | undefined;

  /** Makes a tensor as {@link TensorConstructor} describes. */
  constructor(first: unknown, second?: unknown, third?: readonly number[]) {
    if (first instanceof Lazy) {
      const { value, type } = first;
      this.type = type as T;
      this.size = value.size;
      this.dims = value.shape;
      this.#value = value;
      return;
    }
    if (typeof first === "string" && !isType(first)) {
      throw new DTypeError(
        `Cannot make a tensor of type ${describe(first)}: types are string, ${
          Object.keys(ARRAYS).join(", ")
        }`,
      );
    }
    const hasType = isType(first);
    const type = hasType ? first : typeOfData(first);
    const data = dataOf(type, hasType ? second : first);
    const given = (hasType ? third : second) as readonly number[] | undefined;
    const dims = given === undefined ? [data.length] : checkShape(given, "make a tensor of");
    if (sizeOf(dims) !== data.length) {
      throw new ShapeError(
        `Cannot make a tensor of shape ${formatShape(dims)} of ${data.length} elements`,
      );
    }
    this.type = type as T;
    this.dims = dims;
    this.size = data.length;
    this.#data = data as TensorDataTypes[T];
  }

  get data(): TensorDataTypes[T] {
    if (this.#data !== undefined) return this.#data;
    const value = this.#own();
    if (value === undefined) {
      throw new DisposedError("Cannot read the data of a tensor that was disposed of");
    }
    const raw = (value.isContiguous ? value : value.contiguous()).toTypedArray();
    this.dispose();
    return this.#data = dataOf(this.type, raw) as TensorDataTypes[T];
  }

  /**
   * The elements, under the name that transformers.js replaces; undefined as long as nothing has read
   * those of a result. transformers.js asks for the class of this for each input of a run.
   */
  get cpuData(): TensorDataTypes[T] | undefined {
    return this.#data;
  }

  set cpuData(data: TensorDataTypes[T]) {
    const own = dataOf(this.type, data) as TensorDataTypes[T];
    this.dispose();
    this.#data = own;
  }

  get location(): "cpu" | "none" {
    const has = this.#data ?? this.#value ?? this.#later;
    return has === undefined ? "none" : "cpu";
  }

  get texture(): never {
    return noDevice("take the texture");
  }

  get gpuBuffer(): never {
    return noDevice("take the buffer");
  }

  get mlTensor(): never {
    return noDevice("take the tensor of WebNN");
  }

  toDataURL(): never {
    return noDevice("make a picture");
  }

  toImageData(): never {
    return noDevice("make a picture");
  }

  // deno-lint-ignore require-await -- errors are rejections
  async getData(_releaseData = false): Promise<TensorDataTypes[T]> {
    return this.data;
  }

  /** See {@link TensorConstructor}. */
  static fromPinnedBuffer<T extends TensorType>(
    type: T,
    buffer: TensorDataTypes[T],
    dims?: readonly number[],
  ): Tensor<T> {
    return new HostTensor<T>(type, buffer, dims);
  }

  /** See {@link TensorConstructor}. */
  // deno-lint-ignore require-await -- errors are rejections
  static async fromImage(): Promise<never> {
    return noSource("a picture");
  }

  /** See {@link TensorConstructor}. */
  static fromTexture(): never {
    return noSource("a texture");
  }

  /** See {@link TensorConstructor}. */
  static fromGpuBuffer(): never {
    return noSource("a buffer of WebGPU");
  }

  /** See {@link TensorConstructor}. */
  static fromMLTensor(): never {
    return noSource("a tensor of WebNN");
  }

  reshape(dims: readonly number[]): HostTensor<T> {
    return new HostTensor<T>(this.type, this.data, dims);
  }

  dispose(): void {
    const earlier = this.#earlier?.deref();
    if (earlier !== undefined) earlier.#own();
    if (this.#readers === 0) this.#value?.dispose();
    if (this.#later !== undefined) this.#later.#earlier = undefined;
    this.#value =
      this.#data =
      this.#later =
      this.#earlier =
        undefined;
  }

  /** The value of an unread result, which takes it from a later one that has it. */
  #own(): CoreValue | undefined {
    const later = this.#later;
    if (later === undefined) return this.#value;
    this.#later = later.#earlier = undefined;
    const value = later.#own();
    return this.#value = value && rowsOf(value, this.#rows);
  }

  /** Gives up the memory of an unread result, as `later` has its elements as its first rows. */
  continueIn(later: HostTensor): void {
    const value = this.#value, whole = later.#value;
    if (value === undefined || whole === undefined || later.#earlier !== undefined) return;
    const { shape } = value;
    if (shape.length !== 4 || !sameShape(whole.shape, shape.with(2, whole.shape[2]!))) return;
    this.#rows = shape[2]!;
    if (this.#readers === 0) value.dispose();
    this.#value = undefined;
    this.#later = later;
    later.#earlier = new WeakRef<HostTensor>(this);
  }

  /** The value of an unread result, for a run that gives it back. */
  borrow(): CoreValue | undefined {
    const value = this.#own();
    if (value !== undefined) this.#readers++;
    return value;
  }

  /** Ends what {@link HostTensor.borrow} began. */
  giveBack(value: CoreValue): void {
    if (--this.#readers === 0 && this.#value !== value) value.dispose();
  }

  /** What a tensor of `onnxruntime-common` is in JSON. */
  toJSON(): object {
    const { type, dims, size, location } = this;
    const isThere = location === "cpu";
    return { ...isThere && { cpuData: this.data }, dataLocation: location, type, dims, size };
  }

  #told(inspect: Inspect, options: object): string {
    const { type, dims, location } = this;
    const told = location === "cpu" ? { type, dims, data: this.data } : { type, dims, location };
    return `Tensor ${inspect(told, options)}`;
  }

  /** The type, the sizes and the elements, for the console of Deno. */
  [Symbol.for("Deno.customInspect")](inspect: Inspect, options: object): string {
    return this.#told(inspect, options);
  }

  /** The same, for the console of Bun and Node. */
  [Symbol.for("nodejs.util.inspect.custom")](_: number, options: object, inspect: Inspect): string {
    return this.#told(inspect, options);
  }
}

/** Tensors: `new Tensor("float32", data, [2, 3])`, or `new Tensor(data, dims)` of the type of the data. */
export const Tensor: TensorConstructor = HostTensor;

/** Whether a value is a tensor of this module or of another copy of the interface. */
function isTensorLike(value: unknown): value is TensorLike {
  return value instanceof HostTensor ||
    typeof value === "object" && value !== null && "dims" in value && "type" in value &&
      typeof value.type === "string";
}

/** The array of a tensor that a result is written to. Throws unless its type is that of the result. */
function targetOf({ name, type }: TensorMetadata, into: TensorLike): TensorData {
  if (into.type === type) return dataOf(type, into.data);
  throw new DTypeError(
    `Cannot write output ${describe(name)} of ${type} to a tensor of ${describe(into.type)}`,
  );
}

/** Throws unless a result has the shape of the tensor that it is written to. */
function checkTarget(name: string, shape: readonly number[], into: TensorLike): void {
  if (sameShape(shape, into.dims)) return;
  throw new ShapeError(
    `Cannot write output ${describe(name)} of shape ${formatShape(shape)} to a tensor of shape ${
      formatShape(into.dims)
    }`,
  );
}

/** The tensor of a result, whose elements are copied to `target` if that is given. */
function resultOf(
  value: CoreValue | Strings,
  type: TensorType,
  target: TensorData | undefined,
): Tensor {
  const made = value instanceof Strings
    ? new HostTensor("string", [...value.data], value.shape)
    : new HostTensor(new Lazy(value, type));
  if (target === undefined) return made;
  // Both are arrays of the same type.
  if (value instanceof Strings) value.data.forEach((text, k) => target[k] = text);
  else (target as Float32Array).set(made.data as Float32Array);
  const { dims } = made;
  made.dispose();
  return new HostTensor(type, target, dims);
}

/** Bytes of 0 and 1. */
function bools(bytes: Uint8Array): Uint8Array {
  return bytes.some((byte) => byte > 1) ? bytes.map((byte) => byte === 0 ? 0 : 1) : bytes;
}

/** The value of an input of a run, and what frees it at the end of the run. */
interface Feed {
  readonly value: CoreValue | Strings;
  readonly end: () => void;
}

/**
 * The value of an input of a run: that of a result, which may be disposed of meanwhile, or one with a copy
 * of the data, which may change meanwhile.
 */
function feedOf(name: string, given: unknown): Feed {
  const op = `run a model with input ${describe(name)}`;
  if (!isTensorLike(given)) {
    throw new ArgumentError(`Cannot ${op}: it is ${nameOf(given)}, expected a tensor`);
  }
  const { type } = given;
  const dims = checkShape(given.dims, `${op} of`);
  const unread = given instanceof HostTensor ? given.borrow() : undefined;
  if (unread !== undefined) {
    const back = (): void => (given as HostTensor).giveBack(unread);
    if (sameShape(unread.shape, dims)) return { value: unread, end: back };
    try {
      const value = unread.reshape(dims) as CoreValue;
      return { value, end: () => (value.dispose(), back()) };
    } catch (error) {
      back();
      throw error;
    }
  }
  if (!isType(type)) throw new DTypeError(`Cannot ${op} of type ${describe(type)}`);
  const data = dataOf(type, given.data);
  if (sizeOf(dims) !== data.length) {
    throw new ShapeError(`Cannot ${op} of shape ${formatShape(dims)} and ${data.length} elements`);
  }
  if (type === "string") return { value: new Strings(data as string[], dims), end: () => {} };
  const dtype = type === "uint4" ? "uint8" : type === "int4" ? "int8" : type;
  const elements = type === "bool" ? bools(data as Uint8Array) : data as Uint8Array;
  using view = fromBuffer(elements, { dtype, shape: dims });
  const value = view.copy() as CoreValue;
  return { value, end: () => value.dispose() };
}

/** Frees a cache that a step was given if its result, which begins with it, can stand for it. */
function continueIn(past: unknown, now: unknown): void {
  const areResults = past instanceof HostTensor && now instanceof HostTensor;
  if (areResults) past.continueIn(now);
}

/** Options of {@link InferenceSession.create}. Those that have no effect here warn once. */
export interface SessionOptions {
  /** Numbers for names of sizes. */
  readonly freeDimensionOverrides?: Readonly<Record<string, number>>;
  /** The files with external data: their names, and bytes by name. */
  readonly externalData?: readonly (string | {
    readonly path: string;
    readonly data: unknown;
  })[];
  /** The names of places that run models: `"cpu"`. */
  readonly executionProviders?: readonly unknown[];
  /** Has no effect: the library's own number of threads counts. */
  readonly intraOpNumThreads?: number;
  /** Has no effect. */
  readonly interOpNumThreads?: number;
  /** Has no effect. */
  readonly graphOptimizationLevel?: string;
  /** Has no effect. */
  readonly executionMode?: string;
  /** Has no effect. */
  readonly enableCpuMemArena?: boolean;
  /** Has no effect. */
  readonly enableMemPattern?: boolean;
  /** Has no effect. */
  readonly enableProfiling?: boolean;
  /** Has no effect. */
  readonly enableGraphCapture?: boolean;
  /** Has no effect. */
  readonly profileFilePrefix?: string;
  /** Has no effect. */
  readonly optimizedModelFilePath?: string;
  /** Has no effect: results are on the CPU. */
  readonly preferredOutputLocation?: unknown;
  /** Has no effect. */
  readonly logId?: string;
  /** Has no effect. */
  readonly logSeverityLevel?: number;
  /** Has no effect. */
  readonly logVerbosityLevel?: number;
  /**
   * Settings by name, of which `rowmajor` alone has an effect: its `cache` is that of `open` of
   * `@rowmajor/tensor/onnx`.
   */
  readonly extra?: Readonly<Record<string, unknown>> & {
    readonly rowmajor?: { readonly cache?: boolean | string | URL };
  };
}

/** Options of a run. None has an effect. */
export interface RunOptions {
  /** The least severity that is logged. */
  readonly logSeverityLevel?: number;
  /** How much is logged. */
  readonly logVerbosityLevel?: number;
  /** Ends other runs. */
  readonly terminate?: boolean;
  /** The name of the run in logs. */
  readonly tag?: string;
  /** Others. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** Inputs by name: tensors of this module, or of `onnxruntime-common`. */
export type Feeds = Readonly<Record<string, TensorLike>>;
/** The names of results, or tensors by name that they are written to. */
export type Fetches = readonly string[] | Readonly<Record<string, TensorLike | null>>;

/** Describes an input or output that is a tensor. */
export interface TensorMetadata {
  /** Its name. */
  readonly name: string;
  /** True for tensors. */
  readonly isTensor: true;
  /** The type of the elements. */
  readonly type: TensorType;
  /** The sizes: numbers, or names. */
  readonly shape: readonly (number | string)[];
}

/** Describes an input or output; lists and optional values have a name alone. */
export type ValueMetadata = TensorMetadata | { readonly name: string; readonly isTensor: false };

/** Options that change nothing: programs of other runtimes give them. */
const QUIET = new Set([
  ...["logSeverityLevel", "logVerbosityLevel", "logId", "graphOptimizationLevel", "executionMode"],
  ...["enableCpuMemArena", "enableMemPattern", "interOpNumThreads", "intraOpNumThreads", "extra"],
  ...["freeDimensionOverrides", "externalData", "executionProviders", "preferredOutputLocation"],
]);

const warned = new Set<string>();

function warnOnce(text: string): void {
  if (warned.has(text)) return;
  warned.add(text);
  console.warn(`rowmajor: ${text}`);
}

/** The names of {@link RunOptions}. */
const RUN_OPTIONS = new Set(["logSeverityLevel", "logVerbosityLevel", "terminate", "tag", "extra"]);

/** Throws unless options are an object. */
function checkObject(op: string, what: string, given: unknown): void {
  if (typeof given === "object" && given !== null && !(Symbol.iterator in given)) return;
  throw new ArgumentError(`Cannot ${op} with ${what} ${nameOf(given)}: expected an object`);
}

const CREATE = "create a session";

/** A list of an option. */
function listOption(option: string, given: unknown): readonly unknown[] {
  const list = given === undefined ? [] : listIn(given, (one) => one);
  if (list !== undefined) return list;
  throw new ArgumentError(`Cannot ${CREATE} with ${option} ${describe(given)}: it is a list`);
}

/** The sizes of names; warns of options without an effect. */
function checkSessionOptions(options: SessionOptions): Readonly<Record<string, number>> {
  for (const [name, value] of Object.entries(options)) {
    if (!QUIET.has(name) && value !== undefined) {
      warnOnce(`InferenceSession.create has no use for the option ${name}`);
    }
  }
  for (const one of listOption("executionProviders", options.executionProviders)) {
    const name = typeof one === "string" ? one : (one as { name?: unknown } | null)?.name;
    if (typeof name !== "string") {
      throw new ArgumentError(`Cannot ${CREATE} with executionProviders of ${describe(one)}`);
    }
    if (name !== "cpu") warnOnce(`InferenceSession runs on the CPU, not on ${describe(name)}`);
  }
  const { freeDimensionOverrides = {} } = options;
  checkObject(CREATE, "freeDimensionOverrides", freeDimensionOverrides);
  for (const [name, size] of Object.entries(freeDimensionOverrides)) {
    if (Number.isInteger(size) && size >= 0) continue;
    throw new ArgumentError(
      `Cannot ${CREATE} with freeDimensionOverrides of ${describe(size)} for ${describe(name)}`,
    );
  }
  return { ...freeDimensionOverrides };
}

/** A part of a buffer. */
function partOf(buffer: ArrayBufferLike, offset: number, length: unknown): Uint8Array {
  const most = buffer.byteLength;
  if (!Number.isInteger(offset) || offset < 0 || offset > most) {
    throw new ArgumentError(`Cannot ${CREATE} at byte ${offset}: the buffer has ${most} bytes`);
  }
  const own = length === undefined ? most - offset : length;
  if (typeof own === "number" && Number.isInteger(own) && own >= 0 && offset + own <= most) {
    return new Uint8Array(buffer, offset, own);
  }
  throw new ArgumentError(
    `Cannot ${CREATE} of ${describe(length)} bytes at byte ${offset}: the buffer has ${most} bytes`,
  );
}

/** Bytes in memory: an array, or a buffer. */
function bytesOf(given: unknown): Uint8Array | undefined {
  if (typedArrayName(given) === "Uint8Array") return given as Uint8Array;
  return isBuffer(given) ? new Uint8Array(given) : undefined;
}

function isBuffer(given: unknown): given is ArrayBufferLike {
  return given instanceof ArrayBuffer ||
    typeof SharedArrayBuffer !== "undefined" && given instanceof SharedArrayBuffer;
}

/** Names of files as ONNX Runtime compares them. */
function fileName(path: string): string {
  return path.replace(/^(?:\.[\\/]+)+/, "");
}

/** The bytes of a file with external data: a path, a Blob, or bytes. */
async function externalBytes(name: string, data: unknown): Promise<Uint8Array> {
  if (typeof data === "string") return await readFile(data);
  const bytes = bytesOf(data instanceof Blob ? await data.arrayBuffer() : data);
  if (bytes !== undefined) return bytes;
  throw new ArgumentError(
    `Cannot create a session with external data ${describe(name)} of ${describe(data)}: ` +
      "they are a path or bytes",
  );
}

/** The files with external data that the caller gives, by name. */
async function externalFiles(list: readonly unknown[]): Promise<Record<string, Uint8Array>> {
  const files: Record<string, Uint8Array> = {};
  for (const one of list) {
    // A name alone is a file beside the model.
    if (typeof one === "string") continue;
    const { path, data } = (one ?? {}) as { readonly path?: unknown; readonly data?: unknown };
    if (typeof path !== "string") {
      throw new ArgumentError(
        `Cannot ${CREATE} with externalData of ${describe(one)}: they are names, ` +
          "or objects with a path and data",
      );
    }
    files[path] = files[fileName(path)] = await externalBytes(path, data);
  }
  return files;
}

/** A model as ONNX Runtime's interface has it. */
export class InferenceSession {
  readonly #model: Model;
  /** Runs the steps of a decoder. */
  readonly #cache: GrowingCache | undefined;
  /** The runs that have not ended. */
  readonly #runs = new Set<Promise<unknown>>();
  #isReleased = false;
  /** The names of the inputs. */
  readonly inputNames: readonly string[];
  /** The names of the outputs. */
  readonly outputNames: readonly string[];
  /** The inputs. */
  readonly inputMetadata: readonly ValueMetadata[];
  /** The outputs. */
  readonly outputMetadata: readonly ValueMetadata[];

  private constructor(model: Model, sizes: Readonly<Record<string, number>>) {
    if (!(model instanceof Model)) {
      throw new ArgumentError(
        "Cannot make a session by new: InferenceSession.create opens a model",
      );
    }
    this.#model = model;
    this.#cache = GrowingCache.of(model);
    this.inputNames = model.inputs.map(({ name }) => name);
    this.outputNames = model.outputs.map(({ name }) => name);
    this.inputMetadata = model.inputs.map((info) => metadataOf(info, sizes));
    this.outputMetadata = model.outputs.map((info) => metadataOf(info, sizes));
  }

  /**
   * Opens a model: a path, a URL, or its bytes, which must not change until the promise resolves.
   *
   * @throws {ArgumentError} For anything else, and for options of another kind.
   * @throws As `open` of `@rowmajor/tensor/onnx`.
   */
  static create(path: string | URL, options?: SessionOptions): Promise<InferenceSession>;
  /** Opens a model in memory. */
  static create(
    bytes: ArrayBufferLike | Uint8Array,
    options?: SessionOptions,
  ): Promise<InferenceSession>;
  /** Opens a model in a part of a buffer. */
  static create(
    buffer: ArrayBufferLike,
    byteOffset: number,
    byteLength?: number,
    options?: SessionOptions,
  ): Promise<InferenceSession>;
  static async create(
    from: string | URL | ArrayBufferLike | Uint8Array,
    ...rest: readonly (SessionOptions | number | undefined)[]
  ): Promise<InferenceSession> {
    const isPath = typeof from === "string" || from instanceof URL;
    const offset = isBuffer(from) && typeof rest[0] === "number" ? rest[0] : undefined;
    // The length may be left out.
    const place = offset === undefined ? 0 : typeof rest[1] === "object" ? 1 : 2;
    const options: unknown = rest[place] === undefined ? {} : rest[place];
    checkObject(CREATE, "options", options);
    const given: SessionOptions = { ...options as SessionOptions };
    const sizes = checkSessionOptions(given);
    const files = listOption("externalData", given.externalData);
    const source = isPath
      ? from
      : isBuffer(from) && offset !== undefined
      ? partOf(from, offset, place === 1 ? undefined : rest[1])
      : bytesOf(from);
    if (source === undefined) {
      throw new ArgumentError(`Cannot ${CREATE} of ${nameOf(from)}: it takes a path or bytes`);
    }
    const { rowmajor = {} } = given.extra ?? {};
    checkObject(CREATE, "extra.rowmajor", rowmajor);
    const { cache = false } = rowmajor;
    return new InferenceSession(
      await open(source, { external: await externalFiles(files), cache }),
      sizes,
    );
  }

  /** The model. */
  get model(): Model {
    return this.#model;
  }

  /**
   * Runs the model off the event loop, on copies of the feeds. Feeds that are no inputs are left out.
   * `fetches` are the names of the results, or tensors by these names, whose data the results are written
   * to; all by default.
   *
   * @throws {ArgumentError} For a missing feed, one that is no tensor, and a name that no output has.
   * @throws {DTypeError} If a feed, or a tensor that a result is written to, has another type.
   * @throws {ShapeError} If a feed, or a tensor that a result is written to, has another shape. Nothing
   * is written then.
   * @throws {DisposedError} If the session was released.
   */
  async run(
    feeds: Feeds,
    fetches?: Fetches | RunOptions,
    options?: RunOptions,
  ): Promise<Record<string, Tensor>> {
    if (this.#isReleased) throw new DisposedError("Cannot run: the session was released");
    const op = "run a model";
    if (isTensorLike(feeds)) {
      throw new ArgumentError(`Cannot ${op} with a tensor: it takes tensors by name`);
    }
    checkObject(op, "feeds", feeds);
    if (options !== undefined) checkObject(op, "options", options);
    const wanted = this.#fetched(fetches);
    const values: Record<string, Value> = {};
    const ends: (() => void)[] = [];
    const tensors = new Map<string, TensorLike>();
    try {
      for (const name of this.inputNames) {
        const given = Object.hasOwn(feeds, name) ? feeds[name] : undefined;
        if (given === undefined) continue;
        tensors.set(name, given);
        const { value, end } = feedOf(name, given);
        values[name] = value;
        ends.push(end);
      }
      const running = this.#run(values);
      this.#runs.add(running);
      try {
        const results = await running;
        const pairs = [...this.#cache?.continued(results) ?? []];
        const returned = this.#returned(results, wanted);
        for (const [past, now] of pairs) continueIn(tensors.get(past), returned[now]);
        return returned;
      } finally {
        this.#runs.delete(running);
      }
    } finally {
      for (const end of ends) end();
    }
  }

  async #run(values: Readonly<Record<string, Value>>): Promise<Record<string, Value>> {
    return await this.#cache?.run(values) ?? await this.#model.async(values);
  }

  /** The tensors of results; all of them are checked before one is written. */
  #returned(
    results: Readonly<Record<string, Value>>,
    wanted: ReadonlyMap<string, TensorLike | null>,
  ): Record<string, Tensor> {
    const kept = new Set<Value>();
    try {
      const found = this.outputMetadata.filter(({ name }) => wanted.has(name)).map((info) => {
        const { name } = info;
        const value = results[name], into = wanted.get(name)!;
        if (!info.isTensor || !(value instanceof CoreTensor || value instanceof Strings)) {
          throw new DTypeError(`Cannot return ${describe(name)}: it is no tensor`);
        }
        if (into === null) return { info, value, target: undefined };
        checkTarget(name, value.shape, into);
        return { info, value, target: targetOf(info, into) };
      });
      return Object.fromEntries(found.map(({ info, value, target }) => {
        kept.add(value);
        return [info.name, resultOf(value, info.type, target)];
      }));
    } finally {
      for (const value of Object.values(results)) {
        if (!kept.has(value)) { for (const x of tensorsIn([value])) x.dispose(); }
      }
    }
  }

  /** The names of the results, with the tensors that they are written to. */
  #fetched(fetches: Fetches | RunOptions | undefined): Map<string, TensorLike | null> {
    const outputs = this.outputNames;
    const all = (): Map<string, null> => new Map(outputs.map((name) => [name, null]));
    if (fetches === undefined) return all();
    const fail = (what: string): never => {
      throw new ArgumentError(
        `Cannot fetch ${what}: the model has the outputs ${outputs.join(", ")}`,
      );
    };
    const names = listIn(fetches, (name) => {
      return typeof name === "string" && outputs.includes(name) ? name : fail(describe(name));
    });
    if (names?.length === 0) fail("nothing");
    if (names !== undefined) return new Map(names.map((name) => [name, null]));
    if (isTensorLike(fetches)) fail("a tensor");
    checkObject("run a model", "fetches", fetches);
    // The options of a run may come second.
    const tensors: Readonly<Record<string, unknown>> = { ...fetches };
    const found = new Map<string, TensorLike | null>();
    for (const info of this.outputMetadata) {
      const { name } = info;
      const into = tensors[name];
      if (into === undefined) continue;
      if (into === null) found.set(name, null);
      else if (isTensorLike(into)) {
        if (info.isTensor) targetOf(info, into);
        found.set(name, into);
      } else if (!RUN_OPTIONS.has(name)) fail(`${describe(name)} to ${nameOf(into)}`);
    }
    return found.size === 0 ? all() : found;
  }

  /** Frees the model when the runs have ended that were called before. Later ones are errors. */
  async release(): Promise<void> {
    this.#isReleased = true;
    await Promise.allSettled(this.#runs);
    this.#model.dispose();
  }

  /** Does nothing: `explain()` of {@link model} describes the programs. */
  startProfiling(): void {}

  /** Does nothing. */
  endProfiling(): void {}
}

function metadataOf(
  { name, kind, dtype, shape = [] }: ValueInfo,
  sizes: Readonly<Record<string, number>>,
): ValueMetadata {
  if (kind !== "tensor" || !isType(dtype)) return { name, isTensor: false };
  const own = shape.map((size) => typeof size === "string" ? sizes[size] ?? size : size ?? "");
  return { name, isTensor: true, type: dtype, shape: own };
}

const LEVELS = ["verbose", "info", "warning", "error", "fatal"] as const;
let logLevel: typeof LEVELS[number] = "warning";

/** What a program sets for the whole runtime. Nothing here reads it. */
export const env: {
  /** The least severity that is logged: see `onnxruntime-common`. Other levels are an ArgumentError. */
  logLevel: "verbose" | "info" | "warning" | "error" | "fatal";
  debug: boolean;
  readonly versions: { readonly common: string; readonly node: string };
  readonly wasm: Record<string, unknown>;
  readonly webgl: Record<string, unknown>;
  readonly webgpu: Record<string, unknown>;
} = {
  get logLevel() {
    return logLevel;
  },
  set logLevel(level) {
    const found = LEVELS.find((one) => one === level);
    if (found !== undefined) logLevel = found;
    else if (level !== undefined) {
      throw new ArgumentError(
        `Cannot set logLevel to ${describe(level)}: levels are ${LEVELS.join(", ")}`,
      );
    }
  },
  debug: false,
  versions: { common: "1.30.0", node: "1.30.0" },
  wasm: {},
  webgl: {},
  webgpu: {},
};

/** The places where models run. */
export function listSupportedBackends(): { readonly name: string; readonly bundled: boolean }[] {
  return [{ name: "cpu", bundled: true }];
}
