/**
 * Pictures as torchvision prepares them for its models: the shorter side resized to 256 with
 * antialiasing, a square of 224 from the center, colors normalized.
 *
 * @module
 */
import { scope, type Tensor, tensor } from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import type { ImageTensor } from "../../src/images/mod.ts";

/** The shorter side after resizing, and the side of the square. */
const [SHORTER, SIDE] = [256, 224];
/** The most pixels after resizing, all of which but the square are dropped. */
const MOST_RESIZED = 1e7;
const MEAN = [0.485, 0.456, 0.406];
const DEVIATION = [0.229, 0.224, 0.225];

/** Images of a batch. */
export type Images = Tensor<"float32", [number, number, number, number]>;

/** Rounds halves to the even number, as Python does. */
function roundToEven(x: number): number {
  const down = Math.floor(x);
  if (x - down !== 0.5) return Math.round(x);
  return down % 2 === 0 ? down : down + 1;
}

/**
 * The picture, [height, width, 3], as the input of a model: [1, 3, 224, 224]. Throws an Error if it is
 * too narrow.
 */
export function preprocess(picture: ImageTensor<3>): Images {
  const [height, width] = picture.shape;
  const shorter = Math.min(width, height);
  const size = [height, width].map((n) => Math.floor(SHORTER * n / shorter));
  if (size[0]! * size[1]! > MOST_RESIZED) {
    throw new Error(
      `a picture of ${width} x ${height} pixels is too narrow: resized, it would have ` +
        `${size[1]} x ${size[0]}`,
    );
  }
  return scope(() => {
    const x = picture.permute(2, 0, 1).astype("float32").unsqueeze(0);
    const resized = nn.interpolate(x, { size, mode: "bilinear", antialias: true });
    const [rows, columns] = size.map((n) => {
      const first = roundToEven((n - SIDE) / 2);
      return `${first}:${first + SIDE}`;
    });
    const square = (resized as Images).slice("...", rows!, columns!).div(
      picture.dtype === "uint16" ? 65535 : 255,
    );
    const [mean, deviation] = [MEAN, DEVIATION].map((values) => tensor(values).reshape([3, 1, 1]));
    return square.sub(mean!).div(deviation!) as Images;
  });
}
