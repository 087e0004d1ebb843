/**
 * ONNX models beside ONNX Runtime, on the inputs of models/onnx: `deno task models` fetches the models,
 * scripts/golden/onnx_models.py makes the inputs, scripts/golden/onnx_layouts.py more models.
 *
 * @module
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { io } from "../../mod.ts";
import { root } from "../../scripts/tools.ts";
import { open } from "../../src/onnx/mod.ts";
import { drop } from "../harness/inputs.ts";
import type { AnyTensor, Call, ServedRow, Suite } from "../harness/suite.ts";

/** The names of models in index.json of models/onnx, or of models/layouts, by groups. */
const NAMES = {
  float: [
    ...["nudenet 320 (YOLOv8n)", "PP-OCRv4 det", "PP-OCRv4 rec", "PP-OCR cls", "magika"],
    ...["silero v5", "silero ifless", "silero half", "silero sequence"],
    ...["ddddocr CRNN", "ddddocr det (YOLOX)", "basic-pitch"],
  ],
  int8: ["ddddocr old (int8)"],
  layouts: ["ResNet-18", "ResNet-50", "YOLOv5s 320", "MobileNetV2", "MobileNetV3", "encoder"],
  half: ["encoder half", "nudenet half", "PP-OCRv4 rec half"],
} as const;

const models = join(root, "models");
/** The folder of inputs of a group. */
const folderOf = (group: string): string =>
  join(models, group === "layouts" || group === "half" ? "layouts" : "onnx");
const pathOf = (group: string): string => join(folderOf(group), "index.json");
const path = pathOf("float");

/** What the groups are; those of models that are optional only where they are there. */
const GROUPS = Object.fromEntries(
  Object.entries({
    float: "models of float32",
    int8: "models with weights of 8 bits",
    layouts: "layouts with random weights",
    half: "models of float16",
  }).filter(([group]) => pathOf(group) === path || existsSync(pathOf(group))),
);

/** Opens a model, with the inputs of its first case. */
async function call(group: string, name: string): Promise<Call> {
  const { file, cases: [{ inputs, outputs }] } = JSON.parse(readFileSync(pathOf(group), "utf8"))
    .models[name];
  const model = await open(join(models, file));
  const feeds: Record<string, AnyTensor> = {};
  for (const [key, file] of Object.entries<string>(inputs)) {
    feeds[key] = await io.readNpy(join(folderOf(group), file)) as AnyTensor;
  }
  return {
    run: () => drop(model.run(feeds)),
    result: () => model.run(feeds)[Object.keys(outputs)[0]!] as AnyTensor,
  };
}

/** The suite. */
export const suite: Suite = {
  title: "ONNX models beside ONNX Runtime",
  groups: GROUPS,
  rows: Object.entries(NAMES).filter(([group]) => group in GROUPS).flatMap(([group, names]) =>
    names.map((name): ServedRow => ({
      ...{ group, name, inputs: {} },
      call: () => call(group, name),
      statements: { "ONNX Runtime": `file("${name}")` },
      compares: group === "float" || group === "layouts",
    }))
  ),
  python: ["ONNX Runtime"],
  ...{ rounds: 5, ms: 400 },
  beside: "each",
  lines: "row",
  meanGoal: (group) => ({ float: 1.05, layouts: 1, half: 1.2 })[group],
  unable: () =>
    existsSync(path) ? undefined : "models/onnx is not there: see scripts/golden/onnx_models.py",
};
