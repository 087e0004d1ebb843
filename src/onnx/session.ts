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
import {
  ArgumentError,
  DeviceError,
  DisposedError,
  DTypeError,
  ShapeError,
} from "../base/errors.ts";
import { checkShape, formatShape, listIn, sizeOf } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { readFile } from "../io/file.ts";
import { fromBuffer } from "../tensor/create.ts";
import { Tensor as CoreTensor } from "../tensor/tensor.ts";
import type { ValueInfo } from "./graph/graph.ts";
import { Strings, type T as CoreValue, type Value } from "./graph/values.ts";
import { GrowingCache } from "./growing_cache.ts";
import { type Model, open } from "./model.ts";

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
  float16: Uint16Array,
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
  /** The bits of 16-bit floats. */
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

/** The type of data that a program gives without one. */
function typeOfData(data: unknown): TensorType {
  if (Array.isArray(data)) return typeof data[0] === "boolean" ? "bool" : "string";
  if (data instanceof Uint8ClampedArray) return "uint8";
  for (const [type, array] of Object.entries(ARRAYS)) {
    // Bits of float16 need their type.
    if (data instanceof array) return type as TensorType;
  }
  throw new DTypeError(`Cannot make a tensor of ${describe(data)}: expected a typed array`);
}

/** Data of a type, from what the constructor takes. */
function dataOf(type: TensorType, data: unknown): TensorData {
  if (type === "string") {
    const texts = listIn(data, (one) => {
      if (typeof one === "string") return one;
      throw new DTypeError(`Cannot make a tensor of texts of ${describe(one)}`);
    });
    if (texts !== undefined) return texts;
    throw new DTypeError(`Cannot make a tensor of texts of ${describe(data)}`);
  }
  const Elements = ARRAYS[type];
  if (data instanceof Elements) return data;
  if (type === "uint8" && data instanceof Uint8ClampedArray) {
    return new Uint8Array(data.buffer, data.byteOffset, data.length);
  }
  // Float16Array has these bits.
  if (type === "float16" && ArrayBuffer.isView(data) && isHalf(data)) {
    return new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2);
  }
  const isWide = type === "int64" || type === "uint64";
  const list = listIn(data, (one) => {
    const isNumber = typeof one === "number" || typeof one === "bigint" || typeof one === "boolean";
    if (!isNumber || isWide && !Number.isInteger(Number(one))) {
      throw new DTypeError(`Cannot make a tensor of ${type} of ${describe(one)}`);
    }
    return isWide ? BigInt(one) : Number(one);
  });
  if (list === undefined || type === "float16") {
    throw new DTypeError(`Cannot make a tensor of ${type} of ${describe(data)}`);
  }
  return isWide
    ? ARRAYS[type].from(list as bigint[])
    : (ARRAYS[type] as Float32ArrayConstructor).from(list as number[]) as TensorData;
}

function isHalf(data: ArrayBufferView): boolean {
  return Object.prototype.toString.call(data) === "[object Float16Array]";
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
  /** The elements; with `releaseData` the tensor is disposed of. */
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
  /** The methods. */
  readonly prototype: Tensor;
}

function noDevice(what: string): never {
  throw new DeviceError(`Cannot ${what} of a tensor of ONNX Runtime's interface: it is on the CPU`);
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

class HostTensor<T extends TensorType = TensorType> implements Tensor<T> {
  readonly type: T;
  // Programs of other runtimes write sizes.
  dims: readonly number[];
  readonly size: number;
  #data: TensorDataTypes[T] | undefined;
  #value: Value;

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
    const value = this.#value;
    if (!(value instanceof CoreTensor)) {
      throw new DisposedError("Cannot read the data of a tensor that was disposed of");
    }
    const raw = (value.isContiguous ? value : value.contiguous()).toTypedArray();
    const data = dataOf(this.type, this.type === "float16" ? bitsOf(raw) : raw);
    return this.#data = data as TensorDataTypes[T];
  }

  /** The elements, under the name that transformers.js replaces. */
  get cpuData(): TensorDataTypes[T] {
    return this.data;
  }

  set cpuData(data: TensorDataTypes[T]) {
    this.#data = dataOf(this.type, data) as TensorDataTypes[T];
    this.#value = undefined;
  }

  get location(): "cpu" | "none" {
    return this.#data === undefined && this.#value === undefined ? "none" : "cpu";
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

  getData(releaseData = false): Promise<TensorDataTypes[T]> {
    const { data } = this;
    if (releaseData) this.dispose();
    return Promise.resolve(data);
  }

  reshape(dims: readonly number[]): HostTensor<T> {
    return new HostTensor<T>(this.type, this.data, dims);
  }

  dispose(): void {
    if (this.#value instanceof CoreTensor) this.#value.dispose();
    this.#value = this.#data = undefined;
  }

  /** The value of an unread result. */
  get unread(): CoreValue | undefined {
    return this.#data === undefined && this.#value instanceof CoreTensor ? this.#value : undefined;
  }
}

/** Tensors: `new Tensor("float32", data, [2, 3])`, or `new Tensor(data, dims)` of the type of the data. */
export const Tensor: TensorConstructor = HostTensor;

/** The tensor of a result, whose data are those of `into` if that is given. */
function resultOf(
  value: CoreValue | Strings,
  type: TensorType,
  into: TensorLike | null | undefined,
): Tensor {
  const made = value instanceof Strings
    ? new HostTensor("string", value.data, value.shape)
    : new HostTensor(new Lazy(value, type));
  if (into === undefined || into === null) return made;
  const target = dataOf(type, into.data);
  if (into.type !== type || target.length !== made.size) {
    throw new ShapeError(
      `Cannot write a result of ${type} and shape ${formatShape(made.dims)} to a tensor of ` +
        `${into.type} and shape ${formatShape(into.dims)}`,
    );
  }
  // Both are arrays of the same type.
  Object.assign(target, made.data);
  made.dispose();
  return new HostTensor(type, target, made.dims);
}

/** The value of an input of a run: that of a result, or one on the data. The second one is the run's own. */
function valueOf(
  given: TensorLike,
): { readonly value: CoreValue | Strings; readonly own: boolean } {
  const unread = given instanceof HostTensor ? given.unread : undefined;
  if (unread !== undefined) {
    const isSame = unread.shape.length === given.dims.length &&
      unread.shape.every((n, k) => n === given.dims[k]);
    return isSame
      ? { value: unread, own: false }
      : { value: unread.reshape(given.dims), own: true };
  }
  const { type, dims } = given;
  if (!isType(type)) throw new DTypeError(`Cannot run with a tensor of ${describe(type)}`);
  const data = dataOf(type, given.data);
  if (type === "string") return { value: new Strings(data as string[], dims), own: false };
  const dtype = type === "uint4" ? "uint8" : type === "int4" ? "int8" : type;
  return { value: fromBuffer(data as Uint8Array, { dtype, shape: dims }) as CoreValue, own: true };
}

/** The bits of 16-bit floats. */
function bitsOf(raw: ArrayBufferView): Uint16Array {
  return new Uint16Array(raw.buffer, raw.byteOffset, raw.byteLength / 2);
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
  /** Has no effect. */
  readonly extra?: Readonly<Record<string, unknown>>;
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

/** Warns of options without an effect. */
function checkSessionOptions(options: SessionOptions): void {
  for (const [name, value] of Object.entries(options)) {
    if (!QUIET.has(name) && value !== undefined) {
      warnOnce(`InferenceSession.create has no use for the option ${name}`);
    }
  }
  const { executionProviders } = options;
  for (const one of listIn(executionProviders, (one) => one) ?? []) {
    const name = typeof one === "string" ? one : (one as { name?: unknown } | null)?.name;
    if (name !== "cpu") {
      warnOnce(`InferenceSession runs on the CPU, not on ${describe(name)}`);
      return;
    }
  }
}

/** The bytes that `create` takes. */
function bytesOf(first: unknown, second?: unknown, third?: unknown): Uint8Array | undefined {
  if (first instanceof Uint8Array) return first;
  const isBuffer = first instanceof ArrayBuffer ||
    typeof SharedArrayBuffer !== "undefined" && first instanceof SharedArrayBuffer;
  if (!isBuffer) return undefined;
  if (typeof second !== "number") return new Uint8Array(first);
  return new Uint8Array(first, second, typeof third === "number" ? third : undefined);
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

/** A model as ONNX Runtime's interface has it. */
export class InferenceSession {
  readonly #model: Model;
  /** Runs the steps of a decoder. */
  readonly #cache: GrowingCache | undefined;
  /** The names of the inputs. */
  readonly inputNames: readonly string[];
  /** The names of the outputs. */
  readonly outputNames: readonly string[];
  /** The inputs. */
  readonly inputMetadata: readonly ValueMetadata[];
  /** The outputs. */
  readonly outputMetadata: readonly ValueMetadata[];

  private constructor(model: Model, sizes: Readonly<Record<string, number>>) {
    this.#model = model;
    this.#cache = GrowingCache.of(model);
    this.inputNames = model.inputs.map(({ name }) => name);
    this.outputNames = model.outputs.map(({ name }) => name);
    this.inputMetadata = model.inputs.map((info) => metadataOf(info, sizes));
    this.outputMetadata = model.outputs.map((info) => metadataOf(info, sizes));
  }

  /**
   * Opens a model: a path, or its bytes.
   *
   * @throws As `open` of `@rowmajor/tensor/onnx`.
   */
  static create(path: string, options?: SessionOptions): Promise<InferenceSession>;
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
    from: string | ArrayBufferLike | Uint8Array,
    ...rest: readonly (SessionOptions | number | undefined)[]
  ): Promise<InferenceSession> {
    const options =
      rest.find((one): one is SessionOptions => typeof one === "object" && one !== null) ?? {};
    checkSessionOptions(options);
    const external: Record<string, Uint8Array> = {};
    for (const one of options.externalData ?? []) {
      // A name alone is a file beside the model.
      if (typeof one !== "string") external[one.path] = await externalBytes(one.path, one.data);
    }
    const source = typeof from === "string" ? from : bytesOf(from, rest[0], rest[1]);
    if (source === undefined) {
      throw new ArgumentError(
        `Cannot create a session of ${describe(from)}: it takes a path or bytes`,
      );
    }
    const model = await open(source, { external });
    return new InferenceSession(model, options.freeDimensionOverrides ?? {});
  }

  /** The model. */
  get model(): Model {
    return this.#model;
  }

  /**
   * Runs the model off the event loop. Feeds that are no inputs are left out. `fetches` are the names of
   * the results, or tensors by these names, whose data the results are written to; all by default.
   *
   * @throws {ArgumentError} For a missing feed, and for a name that no output has.
   * @throws {ShapeError} If a result does not fit the tensor that it is written to.
   */
  async run(
    feeds: Feeds,
    fetches?: Fetches | RunOptions,
    _options?: RunOptions,
  ): Promise<Record<string, Tensor>> {
    const wanted = this.#fetched(fetches);
    const values: Record<string, Value> = {};
    const own: Value[] = [];
    for (const name of this.inputNames) {
      const given = Object.hasOwn(feeds, name) ? feeds[name] : undefined;
      if (given === undefined) continue;
      const made = valueOf(given);
      values[name] = made.value;
      if (made.own) own.push(made.value);
    }
    try {
      const results = await this.#cache?.run(values) ??
        await this.#model.async(values);
      const found: Record<string, Tensor> = {};
      for (const info of this.outputMetadata) {
        const { name } = info;
        const value = results[name];
        if (!wanted.has(name)) {
          if (value instanceof CoreTensor) value.dispose();
        } else if (info.isTensor && (value instanceof CoreTensor || value instanceof Strings)) {
          found[name] = resultOf(value, info.type, wanted.get(name));
        } else throw new DTypeError(`Cannot return ${describe(name)}: it is no tensor`);
      }
      return found;
    } finally {
      for (const value of own) if (value instanceof CoreTensor) value.dispose();
    }
  }

  /** The names of the results, with the tensors that they are written to. */
  #fetched(fetches: Fetches | RunOptions | undefined): Map<string, TensorLike | null> {
    const names = fetches === undefined ? undefined : listIn(fetches, (name) => {
      if (typeof name === "string" && this.outputNames.includes(name)) return name;
      throw new ArgumentError(
        `Cannot fetch ${describe(name)}: the model has the outputs ${this.outputNames.join(", ")}`,
      );
    });
    if (names !== undefined) return new Map(names.map((name) => [name, null]));
    // The options of a run may come second.
    const tensors: Readonly<Record<string, unknown>> = { ...fetches };
    const given = this.outputNames.filter((name) => tensors[name] !== undefined);
    const all = given.length === 0 ? this.outputNames : given;
    return new Map(all.map((name) => [name, (tensors[name] ?? null) as TensorLike | null]));
  }

  /** Frees the model. */
  release(): Promise<void> {
    this.#model.dispose();
    return Promise.resolve();
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

/** What a program sets for the whole runtime. Nothing here reads it. */
export const env: {
  logLevel: "verbose" | "info" | "warning" | "error" | "fatal";
  debug: boolean;
  readonly versions: { readonly common: string; readonly node: string };
  readonly wasm: Record<string, unknown>;
  readonly webgl: Record<string, unknown>;
  readonly webgpu: Record<string, unknown>;
} = {
  logLevel: "warning",
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
