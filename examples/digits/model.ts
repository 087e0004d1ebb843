/**
 * The model, 64 pixels, a hidden layer and 10 scores, and its file.
 *
 * Knows nothing of training (train.ts) or of the terminal (main.ts).
 *
 * @module
 */
/// <reference path="./text.d.ts" />
import { io, type Tensor, type types } from "../../mod.ts";
import { bytesOf } from "./embedded.ts";
import text from "./model.safetensors.base64" with { type: "text" };

/** The parameters of a perceptron with one hidden layer; their shapes are part of their types. */
export type Model = {
  readonly weight1: Tensor<"float32", [128, 64]>;
  readonly bias1: Tensor<"float32", [128]>;
  readonly weight2: Tensor<"float32", [10, 128]>;
  readonly bias2: Tensor<"float32", [10]>;
};

/** Images as rows of 64 pixels. */
export type Images = Tensor<"float32", [number, 64]>;

/** The file of the trained model. */
export const MODEL_FILE = new URL("model.safetensors", import.meta.url);

/** The hidden layer of images: [N, 64] gives [N, 128]. */
export function hidden(model: Model, images: Images): Tensor<"float32", [number, 128]> {
  return images.linear(model.weight1, model.bias1).relu();
}

/** The score of each digit: [N, 128], from the hidden layer, gives [N, 10]. */
export function scores(
  model: Model,
  features: Tensor<"float32", [number, 128]>,
): Tensor<"float32", [number, 10]> {
  return features.linear(model.weight2, model.bias2);
}

/** The digit of each image, the one with the highest score: [N, 64] gives [N]. */
export function classify(model: Model, images: Images): Tensor<"int32", [number]> {
  return scores(model, hidden(model, images)).argmax(1);
}

/** The trained model, which is part of the program, on `device`. */
export function loadModel(device: types.Device = "cpu"): Model {
  const file = io.decodeSafetensors(bytesOf(text));
  const read = (name: keyof Model) => file.get(name).astype("float32").to(device);
  return {
    weight1: read("weight1").asShape([128, 64]),
    bias1: read("bias1").asShape([128]),
    weight2: read("weight2").asShape([10, 128]),
    bias2: read("bias2").asShape([10]),
  };
}
