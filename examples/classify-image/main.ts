/**
 * Tells what PNG and JPEG pictures show, by a ResNet-18.
 *
 *     bun examples/classify-image/main.ts WEIGHTS photo.jpg --labels imagenet.txt
 *     deno run -A examples/classify-image/main.ts WEIGHTS --json *.png
 *
 * @module
 */
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
import { decodeImage } from "../../src/images/mod.ts";
import { printProgress, readText } from "../shared/model_files.ts";
import { Classifier } from "./classifier.ts";
import { readLabels } from "./labels.ts";

const USAGE = `usage: main.ts WEIGHTS IMAGE ... [--labels FILE] [--top N] [--json]

WEIGHTS is a safetensors file of a ResNet-18 or ResNet-34 with torchvision's names, or a folder
with one; IMAGE is a PNG or a JPEG.

  --labels FILE  the names of classes: one a line, a JSON array, or JSON by numbers; without it,
                 classes are numbers
  --top N        how many classes to print; 5 by default
  --json         prints [{"file", "classes": [{"index", "label", "probability"}, ...]}, ...]
  -h, --help     prints this

An executable that has model/model.safetensors inside, and perhaps model/labels.txt.data, takes no
WEIGHTS.`;

/** The model inside an executable, or next to this module. */
const own = new URL("model/", import.meta.url);
const file = new URL("model.safetensors", own);
const ownWeights = existsSync(file) ? file : undefined;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    labels: { type: "string" },
    top: { type: "string", default: "5" },
    json: { type: "boolean", default: false },
    help: { type: "boolean", short: "h", default: false },
  },
});
const weights = ownWeights ?? positionals[0];
const files = ownWeights === undefined ? positionals.slice(1) : positionals;
const top = Number(values.top);

/** Prints a fault of a file, and lets the program fail. */
function tell(file: unknown, error: unknown): void {
  console.error(`${file}: ${(error as Error).message}`);
  process.exitCode = 1;
}

async function main(weights: string | URL): Promise<void> {
  let labels: ((index: number) => string | undefined) | undefined;
  try {
    const text = values.labels === undefined
      ? readText("labels.txt", own)
      : readFileSync(values.labels, "utf8");
    labels = text === undefined ? undefined : readLabels(text);
  } catch (error) {
    return tell(values.labels ?? "model/labels.txt", error);
  }
  let classifier: Classifier;
  try {
    classifier = await Classifier.open(weights, printProgress());
  } catch (error) {
    return tell(weights, error);
  }
  using classes = classifier;
  const told = [];
  for (const file of files) {
    try {
      using picture = await decodeImage(readFileSync(file), { channels: 3 });
      const found = await classes.classify(picture, top);
      const named = found.map(({ index, probability }) => ({
        index,
        label: labels?.(index),
        probability,
      }));
      told.push({ file, classes: named });
      if (values.json) continue;
      console.log(file);
      for (const { index, label, probability } of named) {
        console.log(`  ${probability.toFixed(3)}  ${label ?? `class ${index}`}`);
      }
    } catch (error) {
      tell(file, error);
    }
  }
  if (values.json) console.log(JSON.stringify(told));
}

if (values.help) console.log(USAGE);
else if (weights === undefined || files.length === 0 || !(Number.isInteger(top) && top > 0)) {
  console.error(USAGE);
  process.exitCode = 2;
} else await main(weights);
