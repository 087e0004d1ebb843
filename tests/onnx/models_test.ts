/**
 * Real ONNX models give the results of ONNX Runtime, where `deno task models` has fetched them and
 * scripts/golden/onnx_models.py has written inputs and results.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { io } from "../../mod.ts";
import { root } from "../../scripts/tools.ts";
import { open, type Value } from "../../src/onnx/mod.ts";
import type { AnyTensor } from "../../src/tensor/tensor.ts";
import { difference } from "./nodes.ts";

/** The names of a model's inputs or outputs, and the .npy files of their values. */
type Files = Readonly<Record<string, string>>;

interface RealModel {
  readonly file: string;
  readonly cases: readonly { readonly inputs: Files; readonly outputs: Files }[];
}

const NAMES = [
  ...["nudenet 320 (YOLOv8n)", "PP-OCRv4 det", "PP-OCRv4 rec", "PP-OCR cls", "magika"],
  ...["silero v5", "silero ifless", "silero opset 15", "silero half", "silero openvino"],
  ...["silero sequence", "ddddocr CRNN", "ddddocr det (YOLOX)", "ddddocr old (int8)"],
  "basic-pitch",
];
/** The largest error, as a part of the largest element. */
const TOLERANCE = 1e-4;
/** The inputs of quantized products round to other steps than those of ONNX Runtime. */
const OTHERS: Readonly<Record<string, number>> = { "ddddocr old (int8)": 2e-2 };

const LAYOUTS = [
  ...["ResNet-18", "ResNet-50", "YOLOv5s 320", "MobileNetV2", "MobileNetV3", "encoder"],
  ...["encoder half", "nudenet half", "PP-OCRv4 rec half"],
];
/**
 * The results of files of float16 are compared with those of their float32 files. ONNX Runtime's own
 * differ from them by 6.5e-4, 2.2e-3 and 4.9e-3.
 */
const HALVES: Readonly<Record<string, number>> = {
  "encoder half": 1e-3,
  "nudenet half": 4e-3,
  "PP-OCRv4 rec half": 5e-3,
};

const models = join(root, "models");

async function read(folder: string, files: Files): Promise<Record<string, AnyTensor>> {
  const values: Record<string, AnyTensor> = {};
  for (const [name, file] of Object.entries(files)) {
    values[name] = await io.readNpy(join(models, folder, file)) as AnyTensor;
  }
  return values;
}

/** Checks results, with errors relative to the largest element. */
function check(found: Record<string, Value>, wanted: Record<string, AnyTensor>, part: number) {
  assertEquals(Object.keys(found), Object.keys(wanted));
  for (const [name, value] of Object.entries(wanted)) {
    const largest = value.astype("float64").abs().max().item();
    assert(Number.isFinite(largest), name);
    assertEquals(
      difference(found[name], value, { rtol: 0, atol: part * largest }),
      undefined,
      name,
    );
  }
}

const FOLDERS = [["onnx", NAMES, "onnx_models"], ["layouts", LAYOUTS, "onnx_layouts"]] as const;
for (const [folder, names, script] of FOLDERS) {
  const index = join(models, folder, "index.json");
  const skip = !existsSync(index);
  const why = skip
    ? ` (skipped: models/${folder} is not there, see scripts/golden/${script}.py)`
    : "";
  const all: Readonly<Record<string, RealModel>> = skip
    ? {}
    : JSON.parse(readFileSync(index, "utf8")).models;

  test(`models/${folder} has all models${why}`, { skip }, () => {
    assertEquals(Object.keys(all).sort(), names.toSorted());
  });

  for (const name of names) {
    test(`${name} gives the results of ONNX Runtime${why}`, { skip }, async () => {
      const { file, cases } = all[name]!;
      const part = OTHERS[name] ?? HALVES[name] ?? TOLERANCE;
      using model = await open(join(models, file));
      for (const { inputs, outputs } of cases) {
        const [feeds, wanted] = [await read(folder, inputs), await read(folder, outputs)];
        check(model.run(feeds), wanted, part);
        check(await model.async(feeds), wanted, part);
      }
    });
  }
}

const nudenet = join(models, "nudenet", "320n.onnx");
const noPictures = !existsSync(join(models, "onnx", "index.json"));
const missing = noPictures
  ? " (skipped: models/onnx is not there, see scripts/golden/onnx_models.py)"
  : "";
test(
  `Winograd's algorithm is an option with a small error${missing}`,
  { skip: noPictures },
  async () => {
    const index = JSON.parse(readFileSync(join(models, "onnx", "index.json"), "utf8")).models;
    const feeds = await read("onnx", index["nudenet 320 (YOLOv8n)"].cases[0].inputs);
    using fast = await open(nudenet);
    using plain = await open(nudenet, { winograd: false });
    const [found, wanted] = [fast, plain].map((model) => model.run(feeds)["output0"] as AnyTensor);
    check({ output0: found! }, { output0: wanted! }, TOLERANCE);
    assertEquals(found!.equals(wanted!), false);
  },
);
