/**
 * Things in pictures, by a YOLOv8 of an ONNX file as Ultralytics exports it.
 *
 * @module
 */
import { scope, type Tensor } from "../../mod.ts";
import type { ImageTensor } from "../../src/images/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Model, open, type Value } from "../../src/onnx/mod.ts";

/** A box in pixels of the picture, from its left top to its right bottom corner. */
export type Box = readonly [left: number, top: number, right: number, bottom: number];

/** A thing in a picture. */
export interface Detection {
  readonly box: Box;
  readonly label: string;
  /** The number of its class. */
  readonly index: number;
  readonly score: number;
}

/** What counts as a thing. */
export interface Limits {
  /** The least score; 0.25 by default. */
  readonly threshold?: number;
  /** Boxes of a class that share more of their union are one; 0.45 by default. */
  readonly overlap?: number;
}

/** The gray of what is beside a picture in the square of the model. */
const BESIDE = 114 / 255;

/** The names of classes in the metadata of a file: `{0: 'person', 1: 'bicycle'}`. */
export function namesOf(text: string | undefined): Map<number, string> {
  const names = new Map<number, string>();
  for (
    const [, index, single, double] of text?.matchAll(/(\d+):\s*(?:'([^']*)'|"([^"]*)")/g) ?? []
  ) {
    names.set(Number(index), single ?? double!);
  }
  return names;
}

/** Where a picture is in the square of the model. */
interface Placed {
  readonly input: Tensor<"float32", [number, number, number, number]>;
  readonly scale: number;
  readonly left: number;
  readonly top: number;
}

/** A picture as the input of the model: resized, in the middle of a gray square, [1, 3, side, side]. */
function place(picture: ImageTensor<3>, side: number): Placed {
  const [height, width] = picture.shape;
  const scale = Math.min(side / height, side / width);
  const size = [height, width].map((n) => Math.max(Math.round(n * scale), 1));
  const [top, left] = size.map((n) => Math.floor((side - n) / 2)) as [number, number];
  const input = scope(() => {
    const x = picture.permute(2, 0, 1).astype("float32").unsqueeze(0);
    const resized = nn.interpolate(x, { size, mode: "bilinear" }) as Placed["input"];
    const colors = resized.div(picture.dtype === "uint16" ? 65535 : 255);
    const around = [top, side - size[0]! - top, left, side - size[1]! - left];
    return colors.pad([[0, 0], [0, 0], [around[0]!, around[1]!], [around[2]!, around[3]!]], {
      value: BESIDE,
    }) as Placed["input"];
  });
  return { input, scale, left, top };
}

/** How much of their union two boxes share. */
function shared(a: Box, b: Box): number {
  const area = ([left, top, right, bottom]: Box): number =>
    Math.max(right - left, 0) * Math.max(bottom - top, 0);
  const common = area([
    Math.max(a[0], b[0]),
    Math.max(a[1], b[1]),
    Math.min(a[2], b[2]),
    Math.min(a[3], b[3]),
  ]);
  return common / (area(a) + area(b) - common || 1);
}

/** Finds things in pictures. */
export class Detector implements Disposable {
  readonly #model: Model;
  readonly #names: ReadonlyMap<number, string>;
  readonly #side: number;

  private constructor(model: Model, side: number) {
    this.#model = model;
    this.#names = namesOf(model.metadata.get("names"));
    this.#side = side;
  }

  /** Opens a model: a path or the bytes of a file. Throws an Error if it is no detector. */
  static async open(source: string | URL | Uint8Array): Promise<Detector> {
    const model = await open(source);
    const { inputs: [input], metadata } = model;
    const given = input?.shape?.at(-1);
    const side = typeof given === "number"
      ? given
      : Number(/\d+/.exec(metadata.get("imgsz") ?? "640"));
    if (model.inputs.length === 1 && input!.shape?.length === 4 && model.outputs.length === 1) {
      return new Detector(model, side);
    }
    model.dispose();
    throw new Error("the model is no YOLOv8: it does not take one picture and give one tensor");
  }

  /** The things in a picture, those of the highest scores first. */
  async detect(
    picture: ImageTensor<3>,
    { threshold = 0.25, overlap = 0.45 }: Limits = {},
  ): Promise<Detection[]> {
    const { input, scale, left, top } = place(picture, this.#side);
    const feed = this.#model.inputs[0]!.name, result = this.#model.outputs[0]!.name;
    let made: Value;
    try {
      made = (await this.#model.async({ [feed]: input }))[result];
    } finally {
      input.dispose();
    }
    using output = made as Tensor<"float32", [number, number, number]>;
    // Rows: the center, width and height of boxes, then the scores of classes.
    const [, rows, count] = output.shape;
    const data = output.toTypedArray();
    const at = (row: number, k: number): number => data[row * count + k]!;
    const found: Detection[] = [];
    const [height, width] = picture.shape;
    for (let k = 0; k < count; k++) {
      let index = 0;
      for (let c = 1; c < rows - 4; c++) if (at(4 + c, k) > at(4 + index, k)) index = c;
      const score = at(4 + index, k);
      if (!(score >= threshold)) continue;
      const corner = (axis: 0 | 1, side: -1 | 1): number => {
        const inner = at(axis, k) + side * at(2 + axis, k) / 2 - (axis === 0 ? left : top);
        return Math.min(Math.max(inner / scale, 0), axis === 0 ? width : height);
      };
      const box: Box = [corner(0, -1), corner(1, -1), corner(0, 1), corner(1, 1)];
      found.push({ box, index, score, label: this.#names.get(index) ?? `class ${index}` });
    }
    found.sort((a, b) => b.score - a.score);
    const kept: Detection[] = [];
    for (const one of found) {
      const isNew = kept.every((other) =>
        other.index !== one.index || shared(other.box, one.box) <= overlap
      );
      if (isNew) kept.push(one);
    }
    return kept;
  }

  /** Frees the model. */
  [Symbol.dispose](): void {
    this.#model.dispose();
  }
}

/** A color for each class. */
const COLORS = [[255, 56, 56], [72, 249, 10], [0, 194, 255], [255, 157, 151], [132, 56, 255]];

/** A copy of a picture with frames around things. */
export function drawn(picture: ImageTensor<3>, things: readonly Detection[]): ImageTensor<3> {
  const most = picture.dtype === "uint16" ? 257 : 1;
  const [height, width] = picture.shape;
  const line = Math.max(Math.round(Math.max(height, width) / 300), 1);
  const copy = picture.copy();
  for (const { box, index } of things) {
    const [left, top, right, bottom] = box.map(Math.round) as [number, number, number, number];
    const color = COLORS[index % COLORS.length]!.map((value) => value * most);
    const fill = (rows: readonly [number, number], columns: readonly [number, number]): void => {
      const part = ([from, to]: readonly [number, number], n: number): string =>
        `${Math.min(Math.max(from, 0), n)}:${Math.min(Math.max(to, 0), n)}`;
      color.forEach((value, channel) => {
        copy.slice(part(rows, height), part(columns, width), channel).fill_(value);
      });
    };
    fill([top, top + line], [left, right]);
    fill([bottom - line, bottom], [left, right]);
    fill([top, bottom], [left, left + line]);
    fill([top, bottom], [right - line, right]);
  }
  return copy;
}
