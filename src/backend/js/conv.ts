/**
 * Convolutions in JavaScript: the definition, in double precision, rounded once.
 *
 * @module
 */
import { type ConvAttributes, type ConvAxis, convOf, isPlainConv } from "../../ops/conv/problem.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Call } from "../../table/op.ts";
import { functionOf } from "./packed_weight.ts";

type Floats = Float32Array | Float64Array;

/** 16-bit floats are cast first. */
export function runsConv(call: Call): boolean {
  return isPlainConv(call) && call.specs[0]!.dtype.bytes >= 4;
}

/** The first output position and the one after the last whose window has element `k` inside x. */
function inside({ size, out, stride, padding, dilation }: ConvAxis, k: number): [number, number] {
  const shift = k * dilation - padding;
  const begin = Math.max(0, Math.ceil(-shift / stride));
  return [begin, Math.min(out, Math.ceil((size - shift) / stride))];
}

/** activation(convolution of x by the weight + bias + residual). */
export function conv(call: Call): void {
  const { images, groups, channels, rows, axes } = convOf(call);
  const [z, y, x] = axes;
  const { inputs: [, , bias, add], outputs: [out] } = call;
  const { activation } = call.attributes as ConvAttributes;
  const arrays = [call.operand(0), call.operand(1), bias as Operand, add as Operand, out!];
  const [source, weight, shift, residual, to] = arrays.map((one) =>
    one?.storage.array as Floats | undefined
  );
  const [sourceAt, weightAt, shiftAt, residualAt, toAt] = arrays.map((one) =>
    one?.layout.offset ?? 0
  ) as [number, number, number, number, number];
  const apply = functionOf(activation);
  const plane = y.size * x.size, pixels = y.out * x.out;
  const taps = z.kernel * y.kernel * x.kernel;
  const sums = new Float64Array(pixels);
  let made = 0;
  for (let image = 0; image < images; image++) {
    for (let row = 0; row < groups * rows; row++) {
      const group = Math.floor(row / rows);
      for (let oz = 0; oz < z.out; oz++, made += pixels) {
        sums.fill(shift === undefined ? 0 : shift[shiftAt + row]!);
        for (let c = 0; c < channels; c++) {
          const channel = (image * groups + group) * channels + c;
          let w = weightAt + (row * channels + c) * taps;
          for (let kz = 0; kz < z.kernel; kz++) {
            const depth = oz * z.stride + kz * z.dilation - z.padding;
            const from = sourceAt + (channel * z.size + depth) * plane;
            const isPadding = depth < 0 || depth >= z.size;
            for (let ky = 0; ky < y.kernel; ky++) {
              const [top, bottom] = inside(y, ky);
              for (let kx = 0; kx < x.kernel; kx++, w++) {
                if (isPadding) continue;
                const factor = weight![w]!;
                const [left, right] = inside(x, kx);
                for (let oy = top; oy < bottom; oy++) {
                  const line = from + (oy * y.stride + ky * y.dilation - y.padding) * x.size;
                  let at = line + left * x.stride + kx * x.dilation - x.padding;
                  for (let i = oy * x.out + left; i < oy * x.out + right; i++, at += x.stride) {
                    sums[i]! += factor * source![at]!;
                  }
                }
              }
            }
          }
        }
        for (let i = 0; i < pixels; i++) {
          let value = sums[i]!;
          if (residual !== undefined) value += residual[residualAt + made + i]!;
          to![toAt + made + i] = apply === null ? value : apply(value);
        }
      }
    }
  }
}
