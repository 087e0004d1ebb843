/**
 * The rows of convolutions, and of a network of them.
 *
 * @module
 */
import * as nn from "../../src/nn/mod.ts";
import type { AnyTensor, Input, Tensors } from "../harness/suite.ts";
import type { Program } from "./programs.ts";

const uniform = (bound: number, ...shape: number[]): Input => ({
  ...{ dtype: "float32", kind: "uniform", shape },
  ...{ low: -bound, high: bound },
});

/** The weight of a convolution whose outputs vary as much as its inputs. */
function weight(outputs: number, inputs: number, kernel: number): Input {
  return uniform(Math.sqrt(3 / (inputs * kernel * kernel)), outputs, inputs, kernel, kernel);
}

interface Conv {
  readonly size: number;
  readonly inputs: number;
  readonly outputs: number;
  readonly kernel: number;
  readonly stride?: number;
  readonly groups?: number;
  readonly winograd?: boolean;
}

function convRow(conv: Conv): Program {
  const { size, inputs, outputs, kernel, stride = 1, groups = 1, winograd = false } = conv;
  const padding = kernel >> 1;
  const kind = groups > 1 ? "depthwise " : "";
  return {
    group: "conv",
    name: `${kind}${kernel}×${kernel}, ${inputs} to ${outputs} at ${size}²` +
      (stride > 1 ? `, stride ${stride}` : "") + (winograd ? ", Winograd" : ""),
    inputs: {
      x: uniform(1, 1, inputs, size, size),
      w: weight(outputs, inputs / groups, kernel),
      b: uniform(0.1, outputs),
    },
    args: ["x"],
    program: ({ w, b }) => (x) =>
      nn.conv2d(x, w!, b, { stride, padding, groups, winograd }) as AnyTensor,
    statements: {
      "PyTorch": `F.conv2d(x, w, b, ${stride}, ${padding}, 1, ${groups})`,
      "ONNX Runtime": `conv(inputs, ${stride}, ${padding}, ${groups})`,
    },
  };
}

/** The convolutions of a ResNet-18 with the batch norms folded in, in the order of their use. */
function resnetWeights(): Record<string, Input> {
  const shapes: [outputs: number, inputs: number, kernel: number][] = [[64, 3, 7]];
  for (const [i, outputs] of [64, 128, 256, 512].entries()) {
    const inputs = i === 0 ? 64 : outputs / 2;
    shapes.push([outputs, inputs, 3], [outputs, outputs, 3]);
    if (i > 0) shapes.push([outputs, inputs, 1]);
    shapes.push([outputs, outputs, 3], [outputs, outputs, 3]);
  }
  const parts: [string, Input][] = shapes.flatMap(([outputs, inputs, kernel], i) => [
    [`w${i}`, weight(outputs, inputs, kernel)],
    [`b${i}`, uniform(0.1, outputs)],
  ]);
  return Object.fromEntries([
    ...parts,
    ["w", uniform(Math.sqrt(3 / 512), 1000, 512)],
    ["b", uniform(0.1, 1000)],
  ]);
}

/**
 * A ResNet-18 of [N, 3, 224, 224]; peer_models.py has the same. `winograd` is for planes of at least 14 × 14.
 */
function resnet(w: Tensors, x: AnyTensor, winograd: boolean): AnyTensor {
  let next = 0;
  const conv = (x: AnyTensor, stride: number, padding: number): AnyTensor => {
    const i = next++;
    const own = winograd && padding === 1 && stride === 1 && x.shape[2]! >= 14;
    const options = { stride, padding, winograd: own };
    return nn.conv2d(x, w[`w${i}`]!, w[`b${i}`], options) as AnyTensor;
  };
  x = nn.maxPool2d(conv(x, 2, 3).relu(), 3, { stride: 2, padding: 1 }) as AnyTensor;
  for (let stage = 0; stage < 4; stage++) {
    for (let block = 0; block < 2; block++) {
      const shrinks = stage > 0 && block === 0;
      const y = conv(conv(x, shrinks ? 2 : 1, 1).relu(), 1, 1);
      x = y.add(shrinks ? conv(x, 2, 0) : x).relu();
    }
  }
  return x.mean([2, 3]).linear(w.w!, w.b);
}

const resnetRow = (winograd: boolean): Program => ({
  group: "ResNet-18",
  name: `1×3×224×224${winograd ? ", Winograd" : ""}`,
  inputs: { x: uniform(1, 1, 3, 224, 224), ...resnetWeights() },
  args: ["x"],
  program: (w) => (x) => resnet(w, x, winograd),
  statements: { "PyTorch": "resnet(inputs)", "ONNX Runtime": "resnet(inputs)" },
});

/** All rows. */
export const VISION: readonly Program[] = [
  convRow({ size: 56, inputs: 64, outputs: 64, kernel: 3 }),
  convRow({ size: 56, inputs: 64, outputs: 64, kernel: 3, winograd: true }),
  convRow({ size: 14, inputs: 256, outputs: 256, kernel: 3 }),
  convRow({ size: 14, inputs: 256, outputs: 256, kernel: 3, winograd: true }),
  convRow({ size: 7, inputs: 512, outputs: 512, kernel: 3 }),
  convRow({ size: 56, inputs: 64, outputs: 128, kernel: 3, stride: 2 }),
  convRow({ size: 56, inputs: 256, outputs: 64, kernel: 1 }),
  convRow({ size: 56, inputs: 144, outputs: 144, kernel: 3, groups: 144 }),
  convRow({ size: 112, inputs: 96, outputs: 96, kernel: 3, stride: 2, groups: 96 }),
  resnetRow(false),
  resnetRow(true),
];
