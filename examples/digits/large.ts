/**
 * The larger model, 64 pixels, two hidden layers of 768 and 10 scores, and its file.
 *
 * The server and the command line classify with it. Knows nothing of training (train_large.ts).
 *
 * @module
 */
import { io, type Tensor } from "../../mod.ts";
import type { Images } from "./model.ts";

/** The parameters of a perceptron with two hidden layers; their shapes are part of their types. */
export type LargeModel = {
  readonly weight1: Tensor<"float32", [768, 64]>;
  readonly bias1: Tensor<"float32", [768]>;
  readonly weight2: Tensor<"float32", [768, 768]>;
  readonly bias2: Tensor<"float32", [768]>;
  readonly weight3: Tensor<"float32", [10, 768]>;
  readonly bias3: Tensor<"float32", [10]>;
};

/** The file of the trained model, in float16. */
export const LARGE_FILE = new URL("large.safetensors", import.meta.url);

/** The second hidden layer of images: [N, 64] gives twice [N, 768]. */
export function hiddenLayers(
  model: LargeModel,
  images: Images,
): [Tensor<"float32", [number, 768]>, Tensor<"float32", [number, 768]>] {
  const first = images.linear(model.weight1, model.bias1).relu();
  return [first, first.linear(model.weight2, model.bias2).relu()];
}

/** The score of each digit: [N, 768], from the second hidden layer, gives [N, 10]. */
export function largeScores(
  model: LargeModel,
  features: Tensor<"float32", [number, 768]>,
): Tensor<"float32", [number, 10]> {
  return features.linear(model.weight3, model.bias3);
}

/** The probability of each digit, for each image: [N, 64] gives [N, 10], whose rows add up to 1. */
export function probabilities(model: LargeModel, images: Images): Tensor<"float32", [number, 10]> {
  const [, features] = hiddenLayers(model, images);
  return largeScores(model, features).softmax(1);
}

/**
 * Reads the trained model and converts it to float32. An invalid file is a FormatError or a
 * ShapeError.
 */
export async function loadLargeModel(path: string | URL = LARGE_FILE): Promise<LargeModel> {
  await using file = await io.openSafetensors(path);
  const read = async (name: keyof LargeModel) => (await file.get(name)).astype("float32");
  return {
    weight1: (await read("weight1")).asShape([768, 64]),
    bias1: (await read("bias1")).asShape([768]),
    weight2: (await read("weight2")).asShape([768, 768]),
    bias2: (await read("bias2")).asShape([768]),
    weight3: (await read("weight3")).asShape([10, 768]),
    bias3: (await read("bias3")).asShape([10]),
  };
}
