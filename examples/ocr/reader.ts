/**
 * Texts in pictures, by the detector and the reader of PP-OCR as ONNX files.
 *
 * @module
 */
import { scope, type Tensor, tensor } from "../../mod.ts";
import type { ImageTensor } from "../../src/images/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Model, open } from "../../src/onnx/mod.ts";
import { type Reading, type Region, type RegionLimits, regionsOf, textOf } from "./regions.ts";

/** A text and its place in the picture. */
export interface Text extends Reading {
  readonly box: Region;
}

type Source = string | URL | Uint8Array;
type Planes = Tensor<"float32", [number, number, number, number]>;

/** The sides of the detector's input are multiples of this. */
const STEP = 32;
/** The shorter side of the detector's input is at least, the longer side at most as long. */
const [SHORT, LONG] = [736, 2000];
/** The height of the reader's input, and its least width. */
const [HEIGHT, LEAST_WIDTH] = [48, 16];
const MEAN = [0.485, 0.456, 0.406], DEVIATION = [0.229, 0.224, 0.225];

/** A picture, or a part of it, in another size: [1, 3, height, width], from 0 to 1. */
function resized(
  picture: ImageTensor<3>,
  size: readonly [height: number, width: number],
  [left, top, right, bottom]: Region = [0, 0, picture.shape[1], picture.shape[0]],
): Planes {
  const part = picture.slice(`${top}:${bottom}`, `${left}:${right}`);
  const x = part.permute(2, 0, 1).astype("float32").unsqueeze(0);
  const made = nn.interpolate(x, { size: [...size], mode: "bilinear" }) as Planes;
  return made.div(picture.dtype === "uint16" ? 65535 : 255) as Planes;
}

/** Runs a model of one input and one output. */
async function run(model: Model, input: Planes): Promise<Tensor<"float32", number[]>> {
  const made = await model.async({ [model.inputs[0]!.name]: input });
  return made[model.outputs[0]!.name] as Tensor<"float32", number[]>;
}

/** Reads the texts of pictures. */
export class TextReader implements Disposable {
  readonly #detector: Model;
  readonly #reader: Model;
  readonly #characters: readonly string[];

  private constructor(detector: Model, reader: Model, characters: readonly string[]) {
    [this.#detector, this.#reader] = [detector, reader];
    this.#characters = characters;
  }

  /**
   * Opens both models. The characters are those in the reader's metadata, unless `characters` is given.
   */
  static async open(
    detector: Source,
    reader: Source,
    characters?: readonly string[],
  ): Promise<TextReader> {
    const models: Model[] = [];
    try {
      for (const source of [detector, reader]) models.push(await open(source));
      const own = characters ?? models[1]!.metadata.get("character")?.split("\n");
      if (own === undefined) throw new Error("the reader's file does not have its characters");
      return new TextReader(models[0]!, models[1]!, [...own, " "]);
    } catch (error) {
      for (const model of models) model.dispose();
      throw error;
    }
  }

  /** The regions with text. */
  async find(picture: ImageTensor<3>, limits?: RegionLimits): Promise<Region[]> {
    const [height, width] = picture.shape;
    const [short, long] = [Math.min(height, width), Math.max(height, width)];
    const scale = Math.min(Math.max(SHORT / short, 1), LONG / long);
    const size = [height, width].map((n) => Math.max(Math.round(n * scale / STEP), 1) * STEP) as [
      number,
      number,
    ];
    using input = scope(() => {
      const [mean, deviation] = [MEAN, DEVIATION].map((x) => tensor(x).reshape([3, 1, 1]));
      return resized(picture, size).sub(mean!).div(deviation!) as Planes;
    });
    using map = await run(this.#detector, input);
    const [rows, columns] = map.shape.slice(-2) as [number, number];
    const data = map.toTypedArray();
    const [down, across] = [height / rows, width / columns];
    return regionsOf({ data, height: rows, width: columns }, limits).map((box): Region => [
      Math.floor(box[0] * across),
      Math.floor(box[1] * down),
      Math.min(Math.ceil(box[2] * across), width),
      Math.min(Math.ceil(box[3] * down), height),
    ]);
  }

  /** The text of a region, which is one line. */
  async readLine(picture: ImageTensor<3>, box: Region): Promise<Reading> {
    const [left, top, right, bottom] = box;
    const width = Math.max(Math.ceil((right - left) * HEIGHT / (bottom - top)), LEAST_WIDTH);
    using input = scope(() => resized(picture, [HEIGHT, width], box).sub(0.5).div(0.5) as Planes);
    using scores = await run(this.#reader, input);
    const [, steps, classes] = scores.shape as [number, number, number];
    return textOf(scores.toTypedArray(), [steps, classes], this.#characters);
  }

  /** The texts of a picture, from the top to the bottom. */
  async read(picture: ImageTensor<3>, least = 0.5): Promise<Text[]> {
    const texts: Text[] = [];
    for (const box of await this.find(picture)) {
      const reading = await this.readLine(picture, box);
      if (reading.text !== "" && reading.score >= least) texts.push({ ...reading, box });
    }
    return texts;
  }

  /** Frees the models. */
  [Symbol.dispose](): void {
    this.#detector.dispose();
    this.#reader.dispose();
  }
}
