/**
 * Tensors as pictures, for notebooks and PNG files.
 *
 * Defines which tensors are images and which colors their elements represent; the file format is in
 * io/png.ts.
 *
 * @module
 */
import { ownOperand } from "../core/foreign.ts";
import { tidy, wrap } from "../core/handles.ts";
import { checkOptions } from "../table/infer.ts";
import type { DType } from "../base/dtype.ts";
import { describe } from "../base/text.ts";
import { ArgumentError, DTypeError, ShapeError } from "../base/errors.ts";
import { encodePng } from "./png.ts";
import { formatShape } from "../base/shape.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";

/** Options for converting a tensor to an image. */
export interface ImageOptions {
  /** The value of black; 0 by default. */
  readonly min?: number;
  /** The value of white; by default 255 for uint8, and 1 for floats and bool. */
  readonly max?: number;
  /** The width and height of an element in pixels; 1 by default. */
  readonly scale?: number;
}

/** The default values of white. */
const WHITE: Partial<Record<DType, number>> = {
  bool: 1,
  uint8: 255,
  float16: 1,
  bfloat16: 1,
  float32: 1,
  float64: 1,
};

/** An image: the result of {@link image}. */
export class TensorImage {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "TensorImage";
  }

  /** The bytes of the PNG file. */
  readonly png: Uint8Array<ArrayBuffer>;
  /** The width in pixels. */
  readonly width: number;
  /** The height in pixels. */
  readonly height: number;
  /** 1 for grey, 3 for RGB, 4 for RGBA. */
  readonly channels: number;

  /** Encodes pixels in row-major order, `channels` bytes each. */
  constructor(pixels: Uint8Array, width: number, height: number, channels: number) {
    this.width = width;
    this.height = height;
    this.channels = channels;
    this.png = encodePng(pixels, width, height, channels);
  }

  /** The size and the kind: `image(28 × 28, grey)`. */
  toString(): string {
    const colours = ["grey", "", "RGB", "RGBA"][this.channels - 1];
    return `image(${this.width} × ${this.height}, ${colours})`;
  }

  /** The output of `console.log` in Deno, Bun and Node. */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return this.toString();
  }

  /** The output in Jupyter: the picture, with text as a fallback. */
  [Symbol.for("Jupyter.display")](): { "image/png": string; "text/plain": string } {
    const { Buffer } = globalThis.process.getBuiltinModule("node:buffer");
    return {
      "image/png": Buffer.from(this.png).toString("base64"),
      "text/plain": this.toString(),
    };
  }
}

/**
 * Converts the current elements of a tensor to an image: shape [height, width] for grey, or
 * [height, width, channels] with 1 channel for grey, 3 for RGB, 4 for RGBA.
 *
 * The default range is 0 to 255 for uint8, and 0 to 1 for floats and bool; `min` and `max` override
 * it, and other dtypes require `max`. Values outside are clipped, and NaN is black. Elements on a
 * device are copied to the CPU.
 *
 * @throws {ShapeError} For any other shape, a shape without elements and an invalid `min`, `max`
 *   or `scale`.
 * @throws {DTypeError} For an integer dtype without `max`.
 *
 * @example
 * ```ts
 * const ramp = linspace(0, 1, 256).broadcastTo([32, 256]);
 * image(ramp); // => image(256 × 32, grey)
 * image(zeros([8, 8, 3]), { scale: 10 }).width; // => 80
 * ```
 */
export function image(x: AnyTensor, options: ImageOptions = {}): TensorImage {
  const own = ownOperand(x, "image");
  if (own !== x) return image(wrap(own.storage, own.layout, own.flags) as AnyTensor, options);
  checkOptions("image", options, ["min", "max", "scale"]);
  const { shape, dtype } = x;
  const [height = 0, width = 0, channels = 1] = shape;
  if (
    (shape.length !== 2 && shape.length !== 3) || ![1, 3, 4].includes(channels) || x.size === 0
  ) {
    throw new ShapeError(
      "image() needs [height, width] or [height, width, channels] with 1, 3 or 4 channels and at " +
        `least one pixel, got shape ${formatShape(shape)}`,
    );
  }
  const { min = 0, max = WHITE[dtype], scale = 1 } = options;
  if (max === undefined) {
    throw new DTypeError(`image() needs max for ${dtype}: which value is white is not known`);
  }
  if (!Number.isFinite(min) || !Number.isFinite(max) || min >= max) {
    throw new ArgumentError(
      `image() needs finite numbers, min below max, got min ${describe(min)} and max ${
        describe(max)
      }`,
    );
  }
  if (!Number.isInteger(scale) || scale < 1) {
    throw new ArgumentError(
      `image() needs an integer of at least 1 as scale, got ${describe(scale)}`,
    );
  }
  const small = tidy(() => toBytes(x as Tensor<DType>, min, max).toTypedArray()) as Uint8Array;
  const pixels = scale === 1 ? small : enlarge(small, width, height, channels, scale);
  return new TensorImage(pixels, width * scale, height * scale, channels);
}

/**
 * The elements as uint8, scaled so that `min` is 0 and `max` is 255. Casts saturate and convert NaN
 * to 0.
 */
function toBytes(x: Tensor<DType>, min: number, max: number): Tensor<DType> {
  if (x.dtype === "uint8" && min === 0 && max === 255) return x;
  const wide = x.astype(x.dtype === "float64" ? "float64" : "float32") as Tensor<"float32">;
  return wide.sub(min).mul(255 / (max - min)).round().astype("uint8") as Tensor<DType>;
}

/** Repeats every pixel as a square of `scale` by `scale`. */
function enlarge(
  pixels: Uint8Array,
  width: number,
  height: number,
  channels: number,
  scale: number,
): Uint8Array {
  const row = width * channels * scale;
  const out = new Uint8Array(row * height * scale);
  for (let y = 0; y < height; y++) {
    const begin = y * scale * row;
    for (let i = 0; i < row; i++) {
      const column = Math.floor(i / (channels * scale));
      out[begin + i] = pixels[(y * width + column) * channels + i % channels]!;
    }
    for (let k = 1; k < scale; k++) out.copyWithin(begin + k * row, begin, begin + row);
  }
  return out;
}
