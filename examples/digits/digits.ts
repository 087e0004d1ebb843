/**
 * The data: 1797 handwritten digits, and the held-out ones among them.
 *
 * Knows nothing of models. data/SOURCE.md documents the source of the digits.
 *
 * @module
 */
/// <reference path="./text.d.ts" />
import { io, type Tensor, tensor, type types } from "../../mod.ts";
import text from "./data/digits.npz.base64" with { type: "text" };
import split from "./data/split.json" with { type: "json" };
import { bytesOf } from "./embedded.ts";

/** Images of 8 x 8 pixels, each a row of numbers from 0 to 1, and the digits they show. */
export interface Digits {
  readonly images: Tensor<"float32", [number, 64]>;
  readonly labels: Tensor<"int32", [number]>;
}

/** The digits at `indexes`. */
export function pick({ images, labels }: Digits, indexes: Tensor<"int32", [number]>): Digits {
  return { images: images.take(indexes), labels: labels.take(indexes) };
}

/** The training digits, and the held-out ones, which no model may see before its test. */
export async function loadDigits(
  device: types.Device = "cpu",
): Promise<{ train: Digits; heldOut: Digits }> {
  const { images, labels } = await io.decodeNpz(bytesOf(text));
  const all = {
    images: images.to(device).astype("float32").div(16).reshape([-1, 64]),
    labels: labels.to(device).astype("int32").asRank(1),
  };
  return {
    train: pick(all, tensor(split.train, { dtype: "int32", device })),
    heldOut: pick(all, tensor(split.heldOut, { dtype: "int32", device })),
  };
}
