/**
 * Convolutions in JavaScript: sums of products, floats in double precision, rounded once.
 *
 * @module
 */
import { convolveOf, type ConvolveSizes } from "../../ops/fft/convolve.ts";
import type { Call } from "../../table/op.ts";

type Numbers = Float32Array | Float64Array | Int32Array;

/** The first and the last element of a kernel that meets a row for a result. */
function within({ n, m }: ConvolveSizes, at: number): [first: number, last: number] {
  return [Math.max(0, at - n + 1), Math.min(m - 1, at)];
}

/** The results of all rows. */
export function convolve(call: Call): void {
  const sizes = convolveOf(call);
  const { rows, n, start, length } = sizes;
  const [a, v] = [call.operand(0), call.operand(1)];
  const { storage: { array: to }, layout: { offset } } = call.outputs[0]!;
  const isWide = to instanceof BigInt64Array, isInteger = to instanceof Int32Array;
  const from = a.storage.array as Numbers, kernel = v.storage.array as Numbers;
  const wideFrom = a.storage.array as BigInt64Array, wideKernel = v.storage.array as BigInt64Array;
  for (let row = 0; row < rows; row++) {
    for (let k = 0; k < length; k++) {
      const [first, last] = within(sizes, start + k);
      const at = a.layout.offset + row * n + start + k, shift = v.layout.offset;
      if (isWide) {
        let sum = 0n;
        for (let j = first; j <= last; j++) sum += wideFrom[at - j]! * wideKernel[shift + j]!;
        to[offset + row * length + k] = sum;
      } else {
        let sum = 0;
        if (isInteger) {
          for (let j = first; j <= last; j++) {
            sum = (sum + Math.imul(from[at - j]!, kernel[shift + j]!)) | 0;
          }
        } else for (let j = first; j <= last; j++) sum += from[at - j]! * kernel[shift + j]!;
        (to as Numbers)[offset + row * length + k] = sum;
      }
    }
  }
}
