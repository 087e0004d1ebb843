/**
 * Convolutions in JavaScript: the definition, in double precision, rounded once.
 *
 * @module
 */
import {
  type ConvAttributes,
  type ConvAxis,
  convOf,
  type ConvWeightAttributes,
  isPlainConv,
} from "../../ops/conv/problem.ts";
import type { Operand } from "../../memory/operand.ts";
import { isBend } from "../../ops/conv/op.ts";
import type { Activation } from "../../ops/linear/panels.ts";
import type { Call } from "../../table/op.ts";
import { functionOf } from "./packed_weight.ts";

type Floats = Float32Array | Float64Array;

/** 16-bit floats are cast first; activations that are no entries of the table are ops of their own. */
export function runsConv(call: Call): boolean {
  const { activation, addsLast } = call.attributes as ConvAttributes;
  return isPlainConv(call) && call.specs[0]!.dtype.bytes >= 4 && !addsLast &&
    (activation === undefined || !isBend(activation));
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
  const apply = functionOf(activation as Activation | undefined);
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

/** The sums of the products of derivatives by results and the elements that each tap met. */
export function convWeightGrad(call: Call): void {
  const { weight } = call.attributes as ConvWeightAttributes;
  const { images, groups, channels, rows, axes: whole } = convOf(call, weight);
  const [given, g, out] = [call.operand(0), call.operand(1), call.outputs[0]!];
  const sizes = g.layout.shape.slice(2);
  const axes = whole.map((axis, i) => ({ ...axis, out: sizes.at(i - 3) ?? 1 }));
  const [z, y, x] = axes as [ConvAxis, ConvAxis, ConvAxis];
  const [source, factors, to] = [given, g, out].map(({ storage }) => storage.array as Floats);
  const plane = y.size * x.size, pixels = z.out * y.out * x.out;
  let made = out.layout.offset;
  for (let row = 0; row < groups * rows; row++) {
    const first = Math.floor(row / rows) * channels;
    for (let channel = first; channel < first + channels; channel++) {
      for (let kz = 0; kz < z.kernel; kz++) {
        const [front, back] = inside(z, kz);
        for (let ky = 0; ky < y.kernel; ky++) {
          const [top, bottom] = inside(y, ky);
          for (let kx = 0; kx < x.kernel; kx++) {
            const [left, right] = inside(x, kx);
            let sum = 0;
            for (let image = 0; image < images; image++) {
              const from = given.layout.offset +
                (image * groups * channels + channel) * z.size * plane;
              const by = g.layout.offset + (image * groups * rows + row) * pixels;
              for (let oz = front; oz < back; oz++) {
                const depth = from + (oz * z.stride + kz * z.dilation - z.padding) * plane;
                for (let oy = top; oy < bottom; oy++) {
                  const line = depth + (oy * y.stride + ky * y.dilation - y.padding) * x.size;
                  const factor = by + (oz * y.out + oy) * x.out;
                  let at = line + left * x.stride + kx * x.dilation - x.padding;
                  for (let ox = left; ox < right; ox++, at += x.stride) {
                    sum += source![at]! * factors![factor + ox]!;
                  }
                }
              }
            }
            to![made++] = sum;
          }
        }
      }
    }
  }
}
