/**
 * Pictures to classes: a compiled ResNet that runs off the event loop.
 *
 * @module
 */
import type { Tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import type { ImageTensor } from "../../src/images/mod.ts";
import { preprocess } from "./preprocess.ts";
import { classesOf, resnet } from "./resnet.ts";

/** A class of a picture. */
export interface Match {
  readonly index: number;
  readonly probability: number;
}

/** Finds the classes of pictures. */
export class Classifier implements Disposable {
  /** The number of classes. */
  readonly classes: number;
  readonly #weights: nn.Weights<"float32">;
  readonly #run;

  private constructor(weights: nn.Weights<"float32">) {
    this.#weights = weights;
    this.classes = classesOf(weights);
    this.#run = compile(resnet(weights, { winograd: true }));
  }

  /**
   * Loads a model: a folder or a file of weights, or the bytes of one.
   */
  static async open(
    source: string | URL | Uint8Array,
    onProgress?: (progress: nn.LoadProgress) => void,
  ): Promise<Classifier> {
    const weights = await nn.open(source, { dtype: "float32" });
    try {
      const made = new Classifier(weights);
      await weights.load({ onProgress });
      return made;
    } catch (error) {
      weights.dispose();
      throw error;
    }
  }

  /** The logits of a picture: [1, classes]. */
  async logits(picture: ImageTensor<3>): Promise<Tensor<"float32", [number, number]>> {
    using images = preprocess(picture);
    return await this.#run.async(images);
  }

  /** The most probable classes of a picture, at most `count`. */
  async classify(picture: ImageTensor<3>, count: number): Promise<Match[]> {
    using logits = await this.logits(picture);
    using probabilities = logits.softmax(1);
    const { values, indices } = probabilities.topk(Math.min(count, this.classes));
    const [found] = indices.toArray() as number[][];
    const [each] = values.toArray() as number[][];
    values.dispose();
    indices.dispose();
    return found!.map((index, i) => ({ index, probability: each![i]! }));
  }

  /** Frees the weights and the program. */
  [Symbol.dispose](): void {
    this.#run.dispose();
    this.#weights.dispose();
  }
}
