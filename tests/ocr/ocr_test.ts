/**
 * The example `ocr`: regions of a map, texts of scores; and PP-OCR, where `deno task models` has fetched
 * it.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { TextReader } from "../../examples/ocr/reader.ts";
import { regionsOf, textOf } from "../../examples/ocr/regions.ts";
import { modelFolder } from "../../scripts/models.ts";
import { readImage } from "../../src/images/mod.ts";
import { runExample, runExecutable, whyNoExecutable, withoutDenort } from "../example_program.ts";

/** A map of 0.9 in rectangles. */
function mapOf(height: number, width: number, ...boxes: readonly number[][]) {
  const data = new Float32Array(height * width);
  for (const [left, top, right, bottom] of boxes) {
    for (let y = top!; y < bottom!; y++) data.fill(0.9, y * width + left!, y * width + right!);
  }
  return { data, height, width };
}

test("regions grow, and are in the order of reading", () => {
  const map = mapOf(60, 100, [60, 22, 80, 28], [10, 20, 30, 26], [10, 40, 90, 50]);
  // 20 x 6 pixels grow by 120 · 1.6 / 52, 80 x 10 by 800 · 1.6 / 180.
  const rounded = regionsOf(map).map((box) => box.map((value) => Math.round(value * 10) / 10));
  assertEquals(rounded, [
    [6.3, 16.3, 33.7, 29.7],
    [56.3, 18.3, 83.7, 31.7],
    [2.9, 32.9, 97.1, 57.1],
  ]);
});

test("regions that are small or unlikely are left out", () => {
  const map = mapOf(40, 40, [0, 0, 2, 20], [10, 10, 30, 20]);
  assertEquals(regionsOf(map).length, 1);
  assertEquals(regionsOf(map, { mean: 0.95 }), []);
  assertEquals(regionsOf(map, { pixel: 0.9 }), []);
  // It ends at the edges.
  assertEquals(regionsOf(mapOf(10, 10, [0, 0, 10, 10])), [[0, 0, 10, 10]]);
});

test("texts have no repetitions, except with something between them", () => {
  const scores = (...classes: number[]): [Float32Array, [number, number]] => {
    const data = new Float32Array(classes.length * 4);
    classes.forEach((k, step) => data[step * 4 + k] = 0.5 + step / 100);
    return [data, [classes.length, 4]];
  };
  const read = (...classes: number[]) => textOf(...scores(...classes), ["a", "b", " "]);
  assertEquals(read(1, 1, 0, 1, 2, 2, 3, 0).text, "aab ");
  assertEquals(read(0, 0), { text: "", score: 0 });
  assert(Math.abs(read(0, 1, 2).score - (0.51 + 0.52) / 2) < 1e-6);
});

const command = (...args: string[]) => runExample("ocr/main.ts", ...args);

test("the command tells what is wrong", () => {
  const none = command();
  assertEquals(none.status, 2);
  assertStringIncludes(none.stderr, "usage:");
  const empty = command("examples/ocr", "picture.png");
  assertEquals(empty.status, 1);
  assertStringIncludes(empty.stderr, "there is no .onnx file with det in its name");
});

const [models, pictures] = [modelFolder("rapidocr"), modelFolder("pictures")];
const skip = models === undefined || pictures === undefined;
const why = skip ? " (skipped: models/rapidocr or models/pictures is not there)" : "";
const files = skip
  ? []
  : ["det", "rec"].map((part) => join(models!, `ch_PP-OCRv4_${part}_infer.onnx`));

test(`PP-OCR reads a page${why}`, { skip }, async () => {
  using reader = await TextReader.open(files[0]!, files[1]!);
  const page = await readImage(join(pictures!, "page.png"), { channels: 3 });
  const texts = await reader.read(page);
  const all = texts.map(({ text }) => text).join(" ");
  for (const part of ["Region-based segmentation", "Let us first determine markers", "object"]) {
    assertStringIncludes(all, part);
  }
  const [first] = texts;
  assert(first!.box[0] < 20 && first!.box[2] > 190 && first!.score > 0.9, `${first!.box}`);
});

test(`the command reads a page${why}`, { skip }, () => {
  const page = join(pictures!, "page.png");
  const { status, stdout, stderr } = command(models!, page, "--least=0.6");
  assertEquals([status, stderr], [0, ""]);
  assertStringIncludes(stdout, "Region-based segmentation\n");
});

const without = skip || withoutDenort;

test(`an executable has the models inside${why || whyNoExecutable}`, { skip: without }, () => {
  const inside = files.map((file, k) => `${file}=model/${["det", "rec"][k]}.onnx.data`);
  const stdout = runExecutable("ocr/main.ts", inside, join(pictures!, "page.png"));
  assertStringIncludes(stdout, "Region-based segmentation\n");
});

test(`a reader without characters needs them${why}`, { skip }, async () => {
  const detector = readFileSync(files[0]!);
  await assertRejects(() => TextReader.open(detector, detector), Error, "characters");
});
