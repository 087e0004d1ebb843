/**
 * The larger model, 64 pixels, two hidden layers of 768 and 10 scores, and its file.
 *
 * The server and the command line classify with it. Knows nothing of training (train_large.ts).
 *
 * @module
 */
/// <reference path="./text.d.ts" />
import { readFile } from "node:fs/promises";
import { io, type Tensor } from "../../mod.ts";
import { bytesOf } from "./embedded.ts";
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
 * The trained model, or that of a file, converted to float32. An invalid file is a FormatError or a
 * ShapeError.
 */
export async function loadLargeModel(path?: string | URL): Promise<LargeModel> {
  const bytes = path === undefined
    ? bytesOf((await import("./large.safetensors.base64", { with: { type: "text" } })).default)
    : new Uint8Array(await readFile(path));
  const file = io.decodeSafetensors(bytes, { file: String(path ?? "the model") });
  const read = (name: keyof LargeModel) => file.get(name).astype("float32");
  return {
    weight1: read("weight1").asShape([768, 64]),
    bias1: read("bias1").asShape([768]),
    weight2: read("weight2").asShape([768, 768]),
    bias2: read("bias2").asShape([768]),
    weight3: read("weight3").asShape([10, 768]),
    bias3: read("bias3").asShape([10]),
  };
}
