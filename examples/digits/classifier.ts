/**
 * The larger model as a function from many images to probabilities: a compiled program, in one call
 * and flat memory.
 *
 * @module
 */
import { scope, type Tensor, tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { type LargeModel, probabilities } from "./large.ts";
import type { Images } from "./model.ts";
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

/** The images as rows of a tensor: padded to a power of two, so that few programs are needed. */
function rowsOf(images: readonly Pixels[]): Images {
  const rows = 2 ** Math.ceil(Math.log2(Math.max(images.length, 1)));
  const inputs = new Float32Array(rows * PIXELS);
  images.forEach((pixels, i) => {
    for (let j = 0; j < PIXELS; j++) inputs[i * PIXELS + j] = pixels[j]! / FULL;
  });
  return tensor(inputs).reshape([rows, PIXELS]);
}

/** The answers for the first rows, as many as there are images. */
function answersOf(rows: Tensor<"float32", [number, number]>, images: readonly Pixels[]): Answer[] {
  return rows.slice(`:${images.length}`).toArray().map((row) => {
    const digit = row.indexOf(Math.max(...row));
    return { digit, probabilities: row.map(round) };
  });
}

/** A classifier with `model`. */
export function makeClassifier(model: LargeModel): Classifier {
  const program = compile((images: Images) => probabilities(model, images));
  // The pool keeps the memory of tensors for the next call.
  return (images) => scope(() => answersOf(program(rowsOf(images)), images));
}
