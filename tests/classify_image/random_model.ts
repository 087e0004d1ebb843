/**
 * ResNets of random weights, and pictures, as scripts/golden/resnet.py makes them.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { type AnyTensor, io, tensor } from "../../mod.ts";
import type { ImageTensor } from "../../src/images/mod.ts";

/** A number from 0 to 2^32 for each place, the same for each seed. */
function hashed(seed: number, i: number): number {
  let h = Math.imul(i, 0x9e3779b1) + Math.imul(seed, 0x85ebca77) >>> 0;
  h = Math.imul(h ^ h >>> 15, 0x2c1b3c6d);
  h = Math.imul(h ^ h >>> 12, 0x297a2d39);
  return (h ^ h >>> 15) >>> 0;
}

function uniform(seed: number, shape: readonly number[], low: number, high: number): AnyTensor {
  const values = new Float32Array(shape.reduce((a, b) => a * b, 1));
  for (let i = 0; i < values.length; i++) {
    values[i] = low + (hashed(seed, i) >>> 8) / 2 ** 24 * (high - low);
  }
  return tensor(values, { shape: [...shape] }) as AnyTensor;
}

/** The shapes of the weights by torchvision's names. */
function shapesOf(width: number, classes: number): Record<string, number[]> {
  const shapes: Record<string, number[]> = {
    "fc.weight": [classes, 8 * width],
    "fc.bias": [classes],
  };
  const conv = (names: [conv: string, norm: string], shape: number[]): void => {
    shapes[`${names[0]}.weight`] = shape;
    for (const part of ["weight", "bias", "running_mean", "running_var"]) {
      shapes[`${names[1]}.${part}`] = [shape[0]!];
    }
  };
  conv(["conv1", "bn1"], [width, 3, 7, 7]);
  for (let stage = 0; stage < 4; stage++) {
    const outputs = width * 2 ** stage;
    for (const i of [0, 1]) {
      const at = `layer${stage + 1}.${i}`;
      const inputs = stage > 0 && i === 0 ? outputs / 2 : outputs;
      conv([`${at}.conv1`, `${at}.bn1`], [outputs, inputs, 3, 3]);
      conv([`${at}.conv2`, `${at}.bn2`], [outputs, outputs, 3, 3]);
      if (inputs !== outputs) {
        conv([`${at}.downsample.0`, `${at}.downsample.1`], [outputs, inputs, 1, 1]);
      }
    }
  }
  return shapes;
}

/** The weights of a ResNet-18 with `width` channels in its first stage. */
export function randomWeights(width: number, classes: number): Record<string, AnyTensor> {
  const shapes = shapesOf(width, classes);
  const made = Object.keys(shapes).sort().map((name, seed): [string, AnyTensor] => {
    const shape = shapes[name]!;
    let [low, high] = [-0.1, 0.1];
    if (shape.length > 1) {
      const inputs = shape.slice(1).reduce((a, b) => a * b, 1);
      high = Math.sqrt((shape.length === 4 ? 6 : 1) / inputs);
      low = -high;
    } else if (name.endsWith("bn2.weight")) [low, high] = [0.1, 0.3];
    else if (/(var|weight)$/.test(name)) [low, high] = [0.5, 1.5];
    return [name, uniform(seed, shape, low, high)];
  });
  return Object.fromEntries(made);
}

/** Noise on a slope. */
export function randomPicture(seed: number, width: number, height: number): ImageTensor<3> {
  const data = new Uint8Array(width * height * 3);
  for (let i = 0; i < data.length; i++) {
    const [c, x, y] = [i % 3, Math.floor(i / 3) % width, Math.floor(i / 3 / width)];
    const slope = Math.floor(x * 150 / width) + Math.floor(y * 40 / height) + c * 2;
    data[i] = (slope + (hashed(seed, i) >>> 26)) % 256;
  }
  return io.fromPixels({ width, height, data }, { channels: 3 });
}

function bytesOf(text: string): ArrayBuffer {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
}

interface Golden {
  readonly prepared: readonly { width: number; height: number; every11: string }[];
  readonly models: readonly { width: number; classes: number; logits: string }[];
}

const golden: Golden = JSON.parse(
  readFileSync(new URL("../golden/models/resnet.json", import.meta.url), "utf8"),
);

/** Pictures, and every eleventh pixel of them as PyTorch prepares them: [3, 21, 21]. */
export const PICTURES: readonly { picture: ImageTensor<3>; expected: Float32Array }[] = golden
  .prepared
  .map(({ width, height, every11 }, i) => ({
    picture: randomPicture(i, width, height),
    expected: new Float32Array(bytesOf(every11)),
  }));

/** The sizes of models, and PyTorch's logits of the first two pictures. */
export const MODELS: readonly {
  width: number;
  classes: number;
  logits: readonly Float64Array[];
}[] = golden.models.map(({ width, classes, logits }) => {
  const all = new Float64Array(bytesOf(logits));
  return { width, classes, logits: [all.slice(0, classes), all.slice(classes)] };
});
