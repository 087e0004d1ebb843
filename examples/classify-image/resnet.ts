/**
 * ResNet-18 and ResNet-34 with the names of torchvision's weights, batch norms folded into the
 * convolutions before them.
 *
 * @module
 */
import type { Tensor } from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import type { Images } from "./preprocess.ts";

/** Options of {@link resnet}. */
export interface ResNetOptions {
  /**
   * Whether convolutions of 3 × 3 with stride 1 take a quarter of the products, with larger rounding
   * errors: those of planes of at least 14 × 14, for which it pays.
   */
  readonly winograd?: boolean;
}

/** A function of images, or of what becomes of them. */
type Step = (x: Images) => Images;
type Weights = nn.Weights<"float32">;

/** A convolution without a bias and the batch norm after it, by one convolution. */
function normed(
  w: Weights,
  names: readonly [conv: string, norm: string],
  [inputs, outputs, kernel, stride]: readonly [number, number, number, number],
  activation?: "relu",
  winograd = false,
): Step {
  const options = { bias: false, stride, padding: kernel >> 1, winograd };
  const conv = w.conv2d(names[0], outputs, inputs, kernel, options);
  return nn.fold(conv, w.batchNorm(names[1], outputs), { activation }) as Step;
}

/** Two convolutions of 3 × 3, and what they are added to. */
function block(
  w: Weights,
  [inputs, outputs, stride]: readonly [number, number, number],
  winograd: boolean,
): Step {
  const sizes = [inputs, outputs, 3, stride] as const;
  const first = normed(w, ["conv1", "bn1"], sizes, "relu", winograd && stride === 1);
  const second = normed(w, ["conv2", "bn2"], [outputs, outputs, 3, 1], undefined, winograd);
  const names = ["downsample.0", "downsample.1"] as const;
  const same = stride === 1 && inputs === outputs;
  const shortcut = same ? undefined : normed(w, names, [inputs, outputs, 1, stride]);
  return (x) => second(first(x)).add(shortcut?.(x) ?? x).relu() as Images;
}

/** The number of classes of a file. */
export function classesOf(w: Weights): number {
  return w.info("fc.weight")?.shape[0] ?? 1000;
}

/**
 * Makes a function of the weights: images [N, 3, H, W] give logits [N, classes]. The numbers of
 * channels are the file's: 64 to 512 in ResNet-18.
 */
export function resnet(
  w: Weights,
  { winograd = false }: ResNetOptions = {},
): (images: Images) => Tensor<"float32", [number, number]> {
  const width = w.info("conv1.weight")?.shape[0] ?? 64;
  const stem = normed(w, ["conv1", "bn1"], [3, width, 7, 2], "relu");
  const blocks = [0, 1, 2, 3].flatMap((stage) => {
    const name = `layer${stage + 1}`, outputs = width * 2 ** stage;
    // With fewer blocks than two, some are missing.
    const count = w.has(`${name}.2`) ? undefined : 2;
    return w.list(name, count, (w, i) => {
      const first = i === 0 && stage > 0;
      const sizes = [first ? outputs / 2 : outputs, outputs, first ? 2 : 1] as const;
      return block(w, sizes, winograd && stage < 3);
    });
  });
  const last = w.linear("fc", classesOf(w), 8 * width);
  return (images) => {
    let x = nn.maxPool2d(stem(images), 3, { stride: 2, padding: 1 }) as Images;
    for (const run of blocks) x = run(x);
    return last(x.mean([2, 3]));
  };
}
