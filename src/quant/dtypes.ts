/**
 * The dtypes of quantized weights: tensors whose elements share blocks along the last axis.
 *
 * @module
 */
import { addDType, DTYPE, type DType, type DTypeInfo, type TypedArray } from "../base/dtype.ts";
import { QUANT, type QuantFormat, type QuantName } from "./formats.ts";

/** The kind of quantized dtypes, which no arithmetic takes. */
const KIND = "q";

const formats = new Map<DTypeInfo, QuantFormat>();

/** The number of element `position` in blocks. */
function read({ size, bytes, decode }: QuantFormat, array: TypedArray, position: number): number {
  const numbers = new Float32Array(size);
  decode(array as Uint8Array, Math.floor(position / size) * bytes, numbers, 0);
  return numbers[position % size]!;
}

for (const format of Object.values(QUANT)) {
  const { name, size, bytes } = format;
  const info = addDType({
    name,
    kind: KIND,
    lane: "uint8",
    lanes: bytes,
    block: size,
    read: (array, position) => read(format, array, position),
  });
  formats.set(info, format);
}

/** The format of a dtype; undefined for those that are not quantized. */
export function quantFormatOf(info: DTypeInfo): QuantFormat | undefined {
  return formats.get(info);
}

/** The dtype of a format. */
export function quantDType(name: QuantName): DType {
  return DTYPE[name as never as DType].name;
}
