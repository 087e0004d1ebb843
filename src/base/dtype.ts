/**
 * Element types: their names, sizes, limits, typed arrays, and how they promote.
 *
 * Knows nothing of tensors, shapes or ops.
 *
 * @module
 */
import { DTypeError } from "./errors.ts";
import { describe, describeAll } from "./text.ts";

/** The name of an element type that has one number per element. */
export type PlainDType =
  | "bool"
  | "int8"
  | "int16"
  | "int32"
  | "int64"
  | "uint8"
  | "uint16"
  | "uint32"
  | "uint64"
  | "float16"
  | "bfloat16"
  | "float32"
  | "float64";

/** The name of a dtype of quantized weights, as GGUF files have them. */
export type QuantDType =
  | "q4_0"
  | "q4_1"
  | "q5_0"
  | "q5_1"
  | "q8_0"
  | "q4_k"
  | "q5_k"
  | "q6_k"
  | "iq4_nl";

/** The name of a dtype of complex numbers: two floats each, the real part first. */
export type ComplexDType = "complex64" | "complex128";

/** The name of an element type. */
export type DType = PlainDType | ComplexDType | QuantDType;

/** `X` for each dtype of quantized weights. */
export type OfQuantized<X> = { readonly [D in QuantDType]: X };

/** A JavaScript value that stands for one element. */
export type Scalar = number | bigint | boolean;

/** A complex number as a JavaScript value. */
export interface Complex {
  /** The real part. */
  readonly re: number;
  /** The imaginary part. */
  readonly im: number;
}

/**
 * The `Float16Array` of compilers whose libraries lack it: what it has in common with the others.
 */
export interface Float16ArrayLike extends ArrayLike<number>, Iterable<number> {
  /** An element, which may be written. */
  [index: number]: number;
  /** Its class. */
  readonly [Symbol.toStringTag]: "Float16Array";
  /** 2. */
  readonly BYTES_PER_ELEMENT: number;
  /** The memory. */
  readonly buffer: ArrayBufferLike;
  /** The size in bytes. */
  readonly byteLength: number;
  /** The position of the first element in the memory, in bytes. */
  readonly byteOffset: number;
  /** Sets the elements from `start` to before `end`. */
  fill(value: number, start?: number, end?: number): this;
  /** Copies elements into this array, from `offset` on. */
  set(array: ArrayLike<number>, offset?: number): void;
  /** A copy of the elements from `start` to before `end`. */
  slice(start?: number, end?: number): Float16ArrayLike;
  /** The elements from `begin` to before `end`, in the same memory. */
  subarray(begin?: number, end?: number): Float16ArrayLike;
}

/** `Float16Array`, which TypeScript has since 5.8, for the libraries "esnext" and "es2025". */
export type Float16Elements = typeof globalThis extends { Float16Array: { prototype: infer A } } ? A
  : Float16ArrayLike;

/** The typed array that programs receive for each {@link DType}. bfloat16 gives its raw bits. */
export interface TypedArrayOf extends OfQuantized<Uint8Array> {
  /** One byte, 0 or 1. */
  bool: Uint8Array;
  /** 8-bit two's complement. */
  int8: Int8Array;
  /** 16-bit two's complement. */
  int16: Int16Array;
  /** 32-bit two's complement. */
  int32: Int32Array;
  /** 64-bit two's complement. */
  int64: BigInt64Array;
  /** 8-bit unsigned. */
  uint8: Uint8Array;
  /** 16-bit unsigned. */
  uint16: Uint16Array;
  /** 32-bit unsigned. */
  uint32: Uint32Array;
  /** 64-bit unsigned. */
  uint64: BigUint64Array;
  /** IEEE binary16. */
  float16: Float16Elements;
  /** The upper 16 bits of a float32, as bits. */
  bfloat16: Uint16Array;
  /** IEEE binary32. */
  float32: Float32Array;
  /** IEEE binary64. */
  float64: Float64Array;
  /** Pairs of float32: real and imaginary parts, interleaved. */
  complex64: Float32Array;
  /** Pairs of float64: real and imaginary parts, interleaved. */
  complex128: Float64Array;
}

/** Any array that can store elements. */
export type TypedArray =
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Float16Elements
  | Float32Array
  | Float64Array;

/** `b` for bool, `i` and `u` for signed and unsigned integers, `f` for floats, `c` for complex. */
export type Kind = "b" | "i" | "u" | "f" | "c";

/** Properties of one element type. */
export interface DTypeInfo {
  /** The name. */
  readonly name: DType;
  /** Its place in {@link DTYPES}: the number that kernel tables and the native side use. */
  readonly id: number;
  /** Bytes per element; a fraction where several elements share the bytes of their block. */
  readonly bytes: number;
  /** Elements of {@link array} per block: 1, except for dtypes of several numbers. */
  readonly lanes: number;
  /** Elements of the tensor per block, along the last axis: 1, except for quantized dtypes. */
  readonly block: number;
  /** Elements of {@link array} per element: lanes / block. */
  readonly entries: number;
  /** The dtype of one lane, by which whole blocks are moved. Null if an element is one lane. */
  readonly lane: DTypeInfo | null;
  /** Bool, signed, unsigned, float or complex. */
  readonly kind: Kind;
  /** True for the 64-bit integers: a JavaScript number cannot represent all their values. */
  readonly wide: boolean;
  /** The array that storages use (float16 and bfloat16 as bits). */
  readonly array: TypedArrayConstructor;
  /** The array that programs see. */
  readonly userArray: TypedArrayConstructor;
  /** Smallest value. */
  readonly min: number | bigint;
  /** Largest value. */
  readonly max: number | bigint;
  /** Reads element `position`, for a dtype whose elements differ from those of its array. */
  readonly read: ((array: TypedArray, position: number) => unknown) | undefined;
  /** Writes element `position`, for such a dtype; undefined if it accepts no scalar except 0. */
  readonly write: ((array: TypedArray, position: number, value: unknown) => void) | undefined;
}

/** A constructor of one of the typed arrays. */
export interface TypedArrayConstructor {
  /** Bytes per element. */
  readonly BYTES_PER_ELEMENT: number;
  /** Makes an array of `length` zeros. */
  new (length: number): TypedArray;
  /** Makes a view on `buffer`. */
  new (buffer: ArrayBufferLike, byteOffset?: number, length?: number): TypedArray;
}

function info(
  id: number,
  name: DType,
  kind: Kind,
  array: unknown,
  min: number | bigint,
  max: number | bigint,
  userArray: unknown = array,
): DTypeInfo {
  const ctor = array as TypedArrayConstructor;
  return {
    name,
    id,
    bytes: ctor.BYTES_PER_ELEMENT,
    lanes: 1,
    block: 1,
    entries: 1,
    lane: null,
    kind,
    wide: kind !== "f" && ctor.BYTES_PER_ELEMENT === 8,
    array: ctor,
    userArray: userArray as TypedArrayConstructor,
    min,
    max,
    read: undefined,
    write: undefined,
  };
}

const F32_MAX = 3.4028234663852886e38;
const BF16_MAX = 3.3895313892515355e38;

/** Every dtype by name; the complex ones are below, and ops/quantized/dtypes.ts adds the quantized ones. */
export const DTYPE: { readonly [D in DType]: DTypeInfo } = {
  bool: info(0, "bool", "b", Uint8Array, 0, 1),
  int8: info(1, "int8", "i", Int8Array, -128, 127),
  int16: info(2, "int16", "i", Int16Array, -32768, 32767),
  int32: info(3, "int32", "i", Int32Array, -2147483648, 2147483647),
  int64: info(4, "int64", "i", BigInt64Array, -(2n ** 63n), 2n ** 63n - 1n),
  uint8: info(5, "uint8", "u", Uint8Array, 0, 255),
  uint16: info(6, "uint16", "u", Uint16Array, 0, 65535),
  uint32: info(7, "uint32", "u", Uint32Array, 0, 4294967295),
  uint64: info(8, "uint64", "u", BigUint64Array, 0n, 2n ** 64n - 1n),
  float16: info(
    9,
    "float16",
    "f",
    Uint16Array,
    -65504,
    65504,
    Reflect.get(globalThis, "Float16Array") ?? Uint16Array,
  ),
  bfloat16: info(10, "bfloat16", "f", Uint16Array, -BF16_MAX, BF16_MAX),
  float32: info(11, "float32", "f", Float32Array, -F32_MAX, F32_MAX),
  float64: info(12, "float64", "f", Float64Array, -Number.MAX_VALUE, Number.MAX_VALUE),
} satisfies { readonly [D in PlainDType]: DTypeInfo } as { readonly [D in DType]: DTypeInfo };

/** The names of the dtypes that backends compute in, in the order of their ids. */
export const DTYPES: readonly DType[] = Object.keys(DTYPE) as DType[];

/** Stands for no dtype where ids are packed: ids have 8 bits. */
export const NO_DTYPE = 255;

/** A dtype whose elements are blocks of lanes: complex numbers, quantized floats. */
export interface BlockDType {
  /** Its name. */
  readonly name: string;
  /** Its kind, a letter of its own: ops list the kinds that they support. */
  readonly kind: string;
  /** The dtype of a lane. */
  readonly lane: DType;
  /** The number of lanes of a block. */
  readonly lanes: number;
  /** The number of elements of a block; a power of two. */
  readonly block?: number;
  /** {@link DTypeInfo.read} */
  read(array: TypedArray, position: number): unknown;
  /** {@link DTypeInfo.write} */
  write?(array: TypedArray, position: number, value: unknown): void;
}

/**
 * Adds a dtype to the table. Every backend can create, view, copy, move and print tensors of it at
 * once, by moving its lanes.
 *
 * Throws a {@link DTypeError} for a name that is taken, and past 255 dtypes.
 */
export function addDType(
  { name, kind, lane, lanes, block = 1, read, write }: BlockDType,
): DTypeInfo {
  const id = Object.keys(DTYPE).length;
  if (Object.hasOwn(DTYPE, name)) {
    throw new DTypeError(`Cannot add dtype ${name}: there is one already`);
  }
  if (id >= NO_DTYPE) throw new DTypeError(`Cannot add dtype ${name}: there are ${id} already`);
  const plain = DTYPE[lane];
  const added: DTypeInfo = {
    ...plain,
    name: name as DType,
    id,
    bytes: plain.bytes * lanes / block,
    lanes,
    block,
    entries: lanes / block,
    lane: plain,
    kind: kind as Kind,
    wide: false,
    min: NaN,
    max: NaN,
    read,
    write,
  };
  (DTYPE as Record<string, DTypeInfo>)[name] = added;
  return added;
}

/** What to do with a quantized tensor that an op does not take, for messages. */
export const DEQUANTIZE_ADVICE = "dequantize() makes floats of quantized tensors";

/** What to do with a complex tensor that an op does not take, for messages. */
export const COMPLEX_ADVICE = "real(), imag() and abs() make floats of complex tensors";

// ---- complex numbers ---------------------------------------------------------------------------

/** True for an object with a real and an imaginary part, which stands for a complex number. */
export function isComplexScalar(value: unknown): value is Complex {
  return typeof value === "object" && value !== null &&
    typeof (value as Complex).re === "number" && typeof (value as Complex).im === "number";
}

function addComplex(name: ComplexDType, lane: "float32" | "float64"): void {
  addDType({
    name,
    kind: "c",
    lane,
    lanes: 2,
    read: (array, position): Complex => ({
      re: (array as Float64Array)[2 * position]!,
      im: (array as Float64Array)[2 * position + 1]!,
    }),
    write(array, position, value) {
      const { re, im } = isComplexScalar(value) ? value : { re: Number(value), im: 0 };
      array[2 * position] = re;
      array[2 * position + 1] = im;
    },
  });
}

addComplex("complex64", "float32");
addComplex("complex128", "float64");

/** The float dtype of the parts of a complex one; any other dtype itself. */
export function realOf(info: DTypeInfo): DTypeInfo {
  return info.kind === "c" ? info.lane! : info;
}

/** The complex dtype whose parts represent the numbers of `info` as well as complex numbers may. */
export function complexOf(info: DTypeInfo): DTypeInfo {
  if (info.kind === "c") return info;
  return info.name === "float64" ? DTYPE.complex128 : DTYPE.complex64;
}

/** True for the signed and unsigned integer dtypes (not bool). */
export function isInt(dtype: DType): boolean {
  const kind = DTYPE[dtype].kind;
  return kind === "i" || kind === "u";
}

/** Throws unless `dtype` is the name of a dtype. */
export function checkDType(dtype: unknown, op: string): asserts dtype is DType {
  if (typeof dtype !== "string" || !Object.hasOwn(DTYPE, dtype)) {
    throw new DTypeError(
      `Cannot ${op}: ${describe(dtype)} is not a dtype (expected one of ${
        describeAll(Object.keys(DTYPE), String).join(", ")
      })`,
    );
  }
}

function promotePair(a: DTypeInfo, b: DTypeInfo): DType | undefined {
  if (a === b) return a.name;
  if (a.kind === "c" || b.kind === "c") {
    if ((a.kind !== "c" && a.lane !== null) || (b.kind !== "c" && b.lane !== null)) {
      return undefined;
    }
    const wide = complexOf(a) === DTYPE.complex128 || complexOf(b) === DTYPE.complex128;
    return wide ? "complex128" : "complex64";
  }
  if (a.lane !== null || b.lane !== null) return undefined;
  if (a.kind === "b") return b.name;
  if (b.kind === "b") return a.name;
  if (a.kind === "f" && b.kind === "f") {
    return a.bytes === b.bytes ? "float32" : a.bytes > b.bytes ? a.name : b.name;
  }
  if (a.kind === "f") return a.name;
  if (b.kind === "f") return b.name;
  if (a.kind === b.kind) return a.bytes > b.bytes ? a.name : b.name;
  const [signed, unsigned] = a.kind === "i" ? [a, b] : [b, a];
  if (signed.bytes > unsigned.bytes) return signed.name;
  return ({ 1: "int16", 2: "int32", 4: "int64" } as Record<number, DType>)[unsigned.bytes];
}

/** Cache of promotions, by the ids of both dtypes. */
const PROMOTION: (DType | undefined)[][] = [];

/**
 * The dtype that `a` and `b` promote to, as in the array API standard; a float with an integer
 * gives the float, bool gives way to everything, float16 with bfloat16 gives float32, and complex
 * numbers with others give complex ones.
 *
 * Throws a {@link DTypeError} for uint64 with a signed integer, which no integer dtype can hold, and
 * for names that are no dtypes.
 */
export function promoteTypes(a: DType, b: DType, op = "promote"): DType {
  checkDType(a, op);
  checkDType(b, op);
  const [x, y] = [DTYPE[a], DTYPE[b]];
  // One array of all pairs would have holes, which engines keep in a hash table.
  const result = (PROMOTION[x.id] ??= [])[y.id] ??= promotePair(x, y);
  if (result === undefined) {
    const why = x.lane === null && y.lane === null
      ? "no integer dtype holds both; cast one with astype()"
      : x.block === 1 && y.block === 1
      ? "they do not promote"
      : `they do not promote; ${DEQUANTIZE_ADVICE}`;
    throw new DTypeError(`Cannot ${op} ${a} and ${b}: ${why}`);
  }
  return result;
}

/** The default dtype of a JavaScript value: float32, int64, bool or complex64. */
export function scalarDType(value: Scalar | Complex): DType {
  if (typeof value === "object") return "complex64";
  return typeof value === "number" ? "float32" : typeof value === "bigint" ? "int64" : "bool";
}

/**
 * The dtype of an op between a tensor of `dtype` and the JavaScript scalar `value`. Scalars are
 * weak: they take the tensor's dtype when their kind is the same or lower.
 *
 * Throws a {@link DTypeError} for a fractional number with an integer tensor, and for a scalar
 * outside the dtype's range.
 */
export function promoteScalar(dtype: DType, value: Scalar, op: string): DType {
  const kind = DTYPE[dtype].kind;
  if (kind === "f" || kind === "c") return dtype;
  if (typeof value === "boolean") return dtype;
  if (kind === "b") {
    const made = scalarDType(value);
    checkScalar(made, value, op);
    return made;
  }
  checkScalar(dtype, value, op);
  return dtype;
}

/**
 * Throws unless `value` is a number, bigint or boolean that an integer or bool `dtype` can
 * represent exactly; floats accept every number, and complex dtypes complex ones as well.
 */
export function checkScalar(dtype: DType, value: Scalar | Complex, op: string): void {
  if (isComplexScalar(value)) {
    if (DTYPE[dtype].kind === "c") return;
    throw new DTypeError(
      `Cannot ${op} ${describe(value)} to ${dtype}: it is a complex number; write its real part`,
    );
  }
  const type = typeof value;
  if (type !== "number" && type !== "bigint" && type !== "boolean") {
    throw new DTypeError(
      `Cannot ${op} ${describe(value)}: expected a number, bigint or boolean`,
    );
  }
  const { kind, min, max, lane, block, write } = DTYPE[dtype];
  if (lane !== null) {
    // 0 is the same bits in every dtype.
    if (write !== undefined || Number(value) === 0) return;
    const advice = block > 1 ? `; ${DEQUANTIZE_ADVICE}` : "";
    throw new DTypeError(
      `Cannot ${op} ${describe(value)} to ${dtype}: it takes only the number 0${advice}`,
    );
  }
  if (kind === "f" || typeof value === "boolean") return;
  if (kind === "b") {
    if (Number(value) === 0 || Number(value) === 1) return;
    throw new DTypeError(`Cannot ${op} ${describe(value)} to bool: it is not true, false, 0 or 1`);
  }
  if (typeof value === "number" && !Number.isInteger(value)) {
    throw new DTypeError(`Cannot ${op} ${value} to ${dtype}: it is not an integer`);
  }
  if (value < min || value > max) {
    throw new DTypeError(
      `Cannot ${op} ${describe(value)} to ${dtype}: it is outside ${min} to ${max}`,
    );
  }
}

/** Limits of a float dtype. */
export interface FloatInfo {
  /** Bits per element. */
  readonly bits: number;
  /** Difference between 1 and the next larger number. */
  readonly eps: number;
  /** Largest finite number. */
  readonly max: number;
  /** Most negative finite number. */
  readonly min: number;
  /** Smallest positive normal number. */
  readonly smallestNormal: number;
  /** The dtype. */
  readonly dtype: DType;
}

const FLOAT_INFO: Partial<Record<DType, [eps: number, smallestNormal: number]>> = {
  float16: [2 ** -10, 2 ** -14],
  bfloat16: [2 ** -7, 2 ** -126],
  float32: [2 ** -23, 2 ** -126],
  float64: [2 ** -52, 2 ** -1022],
};

/**
 * Limits of a float dtype, or of the parts of a complex one. Throws a {@link DTypeError} for others.
 */
export function finfo(dtype: DType): FloatInfo {
  checkDType(dtype, "finfo");
  const { name, bytes, min, max } = realOf(DTYPE[dtype]);
  const row = FLOAT_INFO[name];
  if (row === undefined) throw new DTypeError(`Cannot finfo ${dtype}: it is not a float dtype`);
  return {
    bits: bytes * 8,
    eps: row[0],
    smallestNormal: row[1],
    min: Number(min),
    max: Number(max),
    dtype: name,
  };
}

/** Limits of an integer dtype. */
export interface IntInfo {
  /** Bits per element. */
  readonly bits: number;
  /** Largest value; a bigint for the 64-bit dtypes. */
  readonly max: number | bigint;
  /** Smallest value; a bigint for the 64-bit dtypes. */
  readonly min: number | bigint;
  /** The dtype. */
  readonly dtype: DType;
}

/** Limits of an integer dtype. Throws a {@link DTypeError} for others. */
export function iinfo(dtype: DType): IntInfo {
  checkDType(dtype, "iinfo");
  if (!isInt(dtype)) throw new DTypeError(`Cannot iinfo ${dtype}: it is not an integer dtype`);
  const { bytes, min, max } = DTYPE[dtype];
  return { bits: bytes * 8, min, max, dtype };
}

const { get: classOf } = Object.getOwnPropertyDescriptor(
  Object.getPrototypeOf(Uint8Array.prototype),
  Symbol.toStringTag,
)!;

/**
 * The name of a typed array's class, also for subclasses and arrays of other realms, such as those
 * of a test runner; undefined for what is no typed array.
 */
export function typedArrayName(value: unknown): string | undefined {
  return classOf!.call(value);
}
