/**
 * The dtypes of quantized weights: tensors whose elements share blocks along the last axis.
 *
 * @module
 */
import { addDType, type DTypeInfo, type TypedArray } from "../../base/dtype.ts";
import { QUANT, type QuantFormat } from "./formats.ts";

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
  return info.block === 1 ? undefined : formats.get(info);
}

/** Whether tensors of a dtype are quantized. */
export function isQuantized(info: DTypeInfo): boolean {
  return quantFormatOf(info) !== undefined;
}

/** The dtypes by the numbers of their formats in GGUF files. */
export const QUANT_DTYPES: ReadonlyMap<number, DTypeInfo> = new Map(
  [...formats].map(([info, { type }]) => [type, info]),
);
