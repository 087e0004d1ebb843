/**
 * Reads, writes and casts one element at a time as a JavaScript value.
 *
 * Used by `item()`, `get`, `set` and `full`; defines the casts that loops reproduce. Knows storages
 * and dtypes, nothing of shapes.
 *
 * @module
 */
import {
  checkScalar,
  type Complex,
  DTYPE,
  type DType,
  type DTypeInfo,
  type Scalar,
  type TypedArray,
} from "../base/dtype.ts";
import { f16Table, fromBf16, toBf16, toF16 } from "../base/half.ts";
import { download, upload } from "./device.ts";
import type { Storage } from "./storage.ts";

/** Reads element `position`: a bigint for the 64-bit integers, 0 or 1 for bool, else a number. */
export function readElement(storage: Storage, position: number): number | bigint {
  const { read } = storage.info;
  if (read !== undefined) return readBlock(storage, position, read) as number;
  const raw = storage.memory === null
    ? storage.array[position]!
    : download(storage, position, 1)[0]!;
  if (storage.info.name === "float16") return f16Table()[raw as number]!;
  if (storage.info.name === "bfloat16") return fromBf16(raw as number);
  return raw;
}

/** Reads an element of a block from any memory. */
function readBlock(
  storage: Storage,
  position: number,
  read: (array: TypedArray, position: number) => unknown,
): unknown {
  if (storage.memory === null) return read(storage.array, position);
  const { block } = storage.info;
  const within = position % block;
  return read(download(storage, position - within, block), within);
}

/** Writes `value`, converted by {@link castScalar}, to element `position`. */
export function writeElement(storage: Storage, position: number, value: Scalar | Complex): void {
  const { write } = storage.info;
  if (write !== undefined) {
    if (storage.memory === null) return write(storage.array, position, value);
    const lanes = new storage.info.array(storage.info.lanes);
    write(lanes, 0, value);
    return upload(storage, position, lanes);
  }
  if (storage.info.lane !== null) checkScalar(storage.info.name, value, "write");
  const cast = castScalar(value as Scalar, storage.info.name);
  const { name } = storage.info;
  const raw = name === "float16"
    ? toF16(cast as number)
    : name === "bfloat16"
    ? toBf16(cast as number)
    : cast as number;
  if (storage.memory === null) (storage.array as Float64Array)[position] = raw;
  else upload(storage, position, new (storage.info.array as Float64ArrayConstructor)([raw]));
}

/**
 * Casts as `astype` does: floats to integers truncate and saturate, NaN gives 0; integers wrap; to
 * bool, everything but 0 is 1. Gives a bigint for the 64-bit integers and a number otherwise, not
 * yet rounded to a float dtype narrower than float64.
 */
export function castScalar(value: Scalar, to: DType): number | bigint {
  const { kind, wide, min, max, bytes } = DTYPE[to];
  if (typeof value === "boolean") value = value ? 1 : 0;
  if (kind === "b") return value ? 1 : value !== value ? 1 : 0;
  if (kind === "f") return Number(value);
  if (typeof value === "bigint" || (wide && Number.isSafeInteger(value))) {
    const wrapped = kind === "i"
      ? BigInt.asIntN(bytes * 8, BigInt(value))
      : BigInt.asUintN(bytes * 8, BigInt(value));
    return wide ? wrapped : Number(wrapped);
  }
  if (value !== value) return wide ? 0n : 0;
  if (value <= min) return min;
  if (value >= max) return max;
  return wide ? BigInt(Math.trunc(value)) : Math.trunc(value);
}

/** `size` elements of `array` as the typed array that programs see, on the same memory. */
export function asUserArray(
  array: TypedArray,
  info: DTypeInfo,
  offset: number,
  size: number,
): TypedArray {
  const length = size * info.entries;
  if (offset === 0 && length === array.length && info.array === info.userArray) return array;
  return new info.userArray(array.buffer, array.byteOffset + offset * info.bytes, length);
}
