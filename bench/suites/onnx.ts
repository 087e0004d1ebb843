/**
 * Real ONNX models beside ONNX Runtime, on the inputs of models/onnx: `deno task models` fetches the
 * models, scripts/golden/onnx_models.py makes the inputs.
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

/** The names of models in models/onnx/index.json, by groups. */
const NAMES = {
  float: [
    ...["nudenet 320 (YOLOv8n)", "PP-OCRv4 det", "PP-OCRv4 rec", "PP-OCR cls", "magika"],
    ...["silero v5", "silero ifless", "silero half", "silero sequence"],
    ...["ddddocr CRNN", "ddddocr det (YOLOX)", "basic-pitch"],
  ],
  int8: ["ddddocr old (int8)"],
} as const;

const models = join(root, "models");
const path = join(models, "onnx", "index.json");

/** Opens a model, with the inputs of its first case. */
async function call(name: string): Promise<Call> {
  const { file, cases: [{ inputs, outputs }] } = JSON.parse(readFileSync(path, "utf8"))
    .models[name];
  const model = await open(join(models, file));
  const feeds: Record<string, AnyTensor> = {};
  for (const [key, file] of Object.entries<string>(inputs)) {
    feeds[key] = await io.readNpy(join(models, "onnx", file)) as AnyTensor;
  }
  return {
    run: () => drop(model.run(feeds)),
    result: () => model.run(feeds)[Object.keys(outputs)[0]!] as AnyTensor,
  };
}

/** The suite. */
export const suite: Suite = {
  title: "ONNX models beside ONNX Runtime",
  groups: { float: "models of float32", int8: "models with weights of 8 bits" },
  rows: Object.entries(NAMES).flatMap(([group, names]) =>
    names.map((name): ServedRow => ({
      ...{ group, name, inputs: {} },
      call: () => call(name),
      statements: { "ONNX Runtime": `file("${name}")` },
      compares: group === "float",
    }))
  ),
  python: ["ONNX Runtime"],
  ...{ rounds: 5, ms: 400 },
  beside: "each",
  lines: "row",
  meanGoal: (group) => group === "float" ? 1.05 : undefined,
  unable: () =>
    existsSync(path) ? undefined : "models/onnx is not there: see scripts/golden/onnx_models.py",
};
