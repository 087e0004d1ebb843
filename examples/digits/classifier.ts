/**
 * The larger model as a function from many images to probabilities, in one call and flat memory.
 *
 * @module
 */
import { fromBuffer, scope } from "../../mod.ts";
import { type LargeModel, probabilities } from "./large.ts";
import { FULL, PIXELS, type Pixels } from "./pictures.ts";

/** The model's answer for an image. */
export interface Answer {
  readonly digit: number;
  /** The probability of each digit from 0 to 9; the sum is 1. */
  readonly probabilities: number[];
}

/** Classifies images, all in one pass through the model. */
export type Classifier = (images: readonly Pixels[]) => Answer[];

/** Rounds probabilities for display. */
const round = (x: number): number => Math.round(x * 1e6) / 1e6;

/** A classifier with `model`, which writes its inputs to the same memory each time. */
export function makeClassifier(model: LargeModel): Classifier {
  let inputs = new Float32Array(PIXELS);
  return (images) => {
    const size = images.length * PIXELS;
    if (inputs.length < size) inputs = new Float32Array(size);
    images.forEach((pixels, i) => {
      for (let j = 0; j < PIXELS; j++) inputs[i * PIXELS + j] = pixels[j]! / FULL;
    });
    // The pool keeps the memory of temporaries for the next call.
    const rows = scope(() => {
      const shape: [number, 64] = [images.length, PIXELS];
      return probabilities(model, fromBuffer(inputs.subarray(0, size), { shape })).toArray();
    });
    return rows.map((row) => {
      const digit = row.indexOf(Math.max(...row));
      return { digit, probabilities: row.map(round) };
    });
  };
}
